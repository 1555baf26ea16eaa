"""Simulations: cells, particles, chance, fractals."""

import math

import numpy as np

from user_programs.registry import numbers, program


@program(lambda s: ((numbers().random((2 * s, 2 * s)) < 0.3).astype(np.uint8),))
def life_u8(g):
    """A step of the game of life, on a torus of bytes."""
    h, w = g.shape
    out = np.zeros_like(g)
    for i in range(h):
        for j in range(w):
            n = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if di == 0 and dj == 0:
                        continue
                    ii = (i + di) % h
                    jj = (j + dj) % w
                    n += g[ii, jj]
            if g[i, j] == 1 and (n == 2 or n == 3):
                out[i, j] = 1
            elif g[i, j] == 0 and n == 3:
                out[i, j] = 1
    return out


@program(lambda s: (numbers().integers(0, 2, (s, s)) * 2 - 1, numbers().random((s, s))))
def ising(sp, r):
    """A sweep over spins."""
    h, w = sp.shape
    for i in range(h):
        for j in range(w):
            nb = sp[(i - 1) % h, j] + sp[(i + 1) % h, j] + sp[i, (j - 1) % w] + sp[i, (j + 1) % w]
            de = 2 * sp[i, j] * nb
            if de <= 0 or r[i, j] < math.exp(-de * 0.4):
                sp[i, j] = -sp[i, j]
    return sp


@program(lambda s: (numbers().random((2 * s, 2 * s)) < 0.3,))
def life_torus(cells):
    """A step of the game of life by its eight neighbours."""
    h, w = cells.shape
    out = np.zeros((h, w), np.bool_)
    for i in range(h):
        up = (i - 1) % h
        down = (i + 1) % h
        for j in range(w):
            left = (j - 1) % w
            right = (j + 1) % w
            n = (
                int(cells[up, left]) + int(cells[up, j]) + int(cells[up, right])
                + int(cells[i, left]) + int(cells[i, right])
                + int(cells[down, left]) + int(cells[down, j]) + int(cells[down, right])
            )  # fmt: skip
            out[i, j] = n == 3 or (n == 2 and cells[i, j])
    return out


@program(lambda s: (110, 2 * s, 2 * s))
def rule_automaton(rule, steps, width):
    """Generations of an automaton in one dimension."""
    grid = np.zeros((steps, width), np.uint8)
    grid[0, width // 2] = 1
    for t in range(1, steps):
        for j in range(width):
            left = grid[t - 1, j - 1] if j > 0 else 0
            right = grid[t - 1, j + 1] if j < width - 1 else 0
            code = 4 * left + 2 * grid[t - 1, j] + right
            grid[t, j] = (rule >> code) & 1
    return grid


@program(lambda s: (100 * s, 0.3, 0.1))
def sir(steps, beta, gamma):
    """An epidemic, by Euler's steps."""
    n = 1000.0
    s, i, r = 999.0, 1.0, 0.0
    peak = 0.0
    out = np.empty((steps, 3))
    for t in range(steps):
        infected = beta * s * i / n * 0.1
        cured = gamma * i * 0.1
        s -= infected
        i += infected - cured
        r += cured
        peak = max(peak, i)
        out[t, 0] = s
        out[t, 1] = i
        out[t, 2] = r
    return out, peak


def lorenz(x, y, z):
    """The slopes of Lorenz' system."""
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z


@program(lambda s: (20 * s, 0.01))
def lorenz_rk4(steps, h):
    """Lorenz' system by Runge and Kutta."""
    x, y, z = 1.0, 1.0, 1.0
    out = np.empty((steps, 3))
    for t in range(steps):
        a1, b1, c1 = lorenz(x, y, z)
        a2, b2, c2 = lorenz(x + h / 2 * a1, y + h / 2 * b1, z + h / 2 * c1)
        a3, b3, c3 = lorenz(x + h / 2 * a2, y + h / 2 * b2, z + h / 2 * c2)
        a4, b4, c4 = lorenz(x + h * a3, y + h * b3, z + h * c3)
        x += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        y += h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
        z += h / 6 * (c1 + 2 * c2 + 2 * c3 + c4)
        out[t] = x, y, z
    return out


@program(lambda s: (100 * s, 12345))
def monte_carlo_pi(n, seed):
    """Points in a circle, by a generator of our own."""
    x = seed
    hits = 0
    for _ in range(n):
        x = (1103515245 * x + 12345) % 2147483648
        a = x / 2147483648.0
        x = (1103515245 * x + 12345) % 2147483648
        b = x / 2147483648.0
        if a * a + b * b <= 1.0:
            hits += 1
    return 4.0 * hits / n


@program(lambda s: (100 * s, 1))
def random_walk(n, seed):
    """Steps in the plane, and how far they went."""
    state = seed
    x = y = 0
    far = 0
    for _ in range(n):
        state = (1664525 * state + 1013904223) & 0xFFFFFFFF
        d = state >> 30
        if d == 0:
            x += 1
        elif d == 1:
            x -= 1
        elif d == 2:
            y += 1
        else:
            y -= 1
        far = max(far, x * x + y * y)
    return x, y, far


@program(lambda s: (numbers().random((s, s)), 10))
def heat(u, steps):
    """Heat in the plane, by two grids in turn."""
    h, w = u.shape
    new = u.copy()
    for _ in range(steps):
        for i in range(1, h - 1):
            for j in range(1, w - 1):
                new[i, j] = u[i, j] + 0.2 * (u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4 * u[i, j])
        u, new = new, u
    return u


@program(lambda s: (10 * s, 30))
def string_wave(n, steps):
    """A string that is plucked."""
    old = np.zeros(n)
    now = np.zeros(n)
    new = np.zeros(n)
    for i in range(n // 3):
        now[i] = i / n
        old[i] = i / n
    for _ in range(steps):
        for i in range(1, n - 1):
            new[i] = 2 * now[i] - old[i] + 0.25 * (now[i + 1] - 2 * now[i] + now[i - 1])
        old, now, new = now, new, old
    return now


@program(lambda s: (numbers().random((s // 2 + 2, 3)), numbers(1).random(s // 2 + 2)))
def gravity(pos, mass):
    """Forces between all bodies."""
    n = pos.shape[0]
    acc = np.zeros((n, 3))
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            dx = pos[j, 0] - pos[i, 0]
            dy = pos[j, 1] - pos[i, 1]
            dz = pos[j, 2] - pos[i, 2]
            d2 = dx * dx + dy * dy + dz * dz + 0.01
            f = mass[j] / (d2 * math.sqrt(d2))
            acc[i, 0] += f * dx
            acc[i, 1] += f * dy
            acc[i, 2] += f * dz
    return acc


@program(lambda s: (numbers().random(20 * s), 0.1, 0.3))
def kalman(z, q, r):
    """Place and speed, from places with noise."""
    x = np.zeros(2)
    p = np.eye(2)
    out = np.empty(z.size)
    for t in range(z.size):
        x[0] = x[0] + x[1]
        p00 = p[0, 0] + p[0, 1] + p[1, 0] + p[1, 1] + q
        p01 = p[0, 1] + p[1, 1]
        p10 = p[1, 0] + p[1, 1]
        p11 = p[1, 1] + q
        k0 = p00 / (p00 + r)
        k1 = p10 / (p00 + r)
        e = z[t] - x[0]
        x[0] += k0 * e
        x[1] += k1 * e
        p[0, 0] = (1 - k0) * p00
        p[0, 1] = (1 - k0) * p01
        p[1, 0] = p10 - k1 * p00
        p[1, 1] = p11 - k1 * p01
        out[t] = x[0]
    return out, p


@program(lambda s: (s, s, 50))
def mandelbrot(h, w, most):
    """Steps until points escape."""
    out = np.zeros((h, w), np.int32)
    for i in range(h):
        for j in range(w):
            c = complex(-2.0 + 3.0 * j / w, -1.5 + 3.0 * i / h)
            z = 0j
            n = 0
            while n < most and z.real * z.real + z.imag * z.imag <= 4.0:
                z = z * z + c
                n += 1
            out[i, j] = n
    return out


@program(lambda s: (s, s, 40))
def julia(h, w, most):
    """A set of Julia's, with real and imaginary parts."""
    out = np.zeros((h, w), np.uint8)
    for i in range(h):
        for j in range(w):
            x = -1.5 + 3.0 * j / w
            y = -1.5 + 3.0 * i / h
            for n in range(most):
                if x * x + y * y > 4.0:
                    out[i, j] = n
                    break
                x, y = x * x - y * y - 0.8, 2 * x * y + 0.156
    return out


@program(lambda s: (s // 2 + 1, s // 2 + 1))
def ray_march(h, w):
    """Distances to a ball and a floor, along rays."""
    out = np.zeros((h, w))
    for i in range(h):
        for j in range(w):
            dx = (j - w / 2) / w
            dy = (h / 2 - i) / h
            length = math.sqrt(dx * dx + dy * dy + 1.0)
            dx /= length
            dy /= length
            dz = 1.0 / length
            t = 0.0
            for _ in range(60):
                x = t * dx
                y = t * dy + 0.5
                z = t * dz - 3.0
                d = min(math.sqrt(x * x + y * y + z * z) - 1.0, y + 1.0)
                if d < 0.001 or t > 20.0:
                    break
                t += d
            out[i, j] = t
    return out


@program(lambda s: (np.full((s // 3 + 3, s // 3 + 3), 5),))
def sandpile(grid):
    """Piles that fall until all are stable."""
    h, w = grid.shape
    fell = True
    count = 0
    while fell:
        fell = False
        for i in range(h):
            for j in range(w):
                if grid[i, j] >= 4:
                    grid[i, j] -= 4
                    count += 1
                    fell = True
                    if i > 0:
                        grid[i - 1, j] += 1
                    if i < h - 1:
                        grid[i + 1, j] += 1
                    if j > 0:
                        grid[i, j - 1] += 1
                    if j < w - 1:
                        grid[i, j + 1] += 1
    return count


@program(lambda s: (s, 100 * s))
def langton_ant(n, steps):
    """An ant that turns at each cell, on a torus."""
    grid = np.zeros((n, n), np.bool_)
    i = j = n // 2
    di, dj = -1, 0
    for _ in range(steps):
        if grid[i, j]:
            di, dj = -dj, di
        else:
            di, dj = dj, -di
        grid[i, j] = not grid[i, j]
        i = (i + di) % n
        j = (j + dj) % n
    return grid


@program(lambda s: (numbers().random(40 * s), numbers(1).random(40 * s)))
def queue_waits(gaps, services):
    """How long customers wait."""
    clock = 0.0
    free = 0.0
    total = 0.0
    longest = 0.0
    for k in range(gaps.size):
        clock += gaps[k]
        start = max(clock, free)
        wait = start - clock
        free = start + services[k]
        total += wait
        if wait > longest:
            longest = wait
    return total / gaps.size, longest
