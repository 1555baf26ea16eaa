"""Kernels of NPBench in JAX, written here: those whose port in the suite has no derivative, or another function's.

Some ports of the suite loop with `while_loop`, or `fori_loop` up to a traced bound, which JAX does not differentiate in
reverse, name as static what is differentiated, or do not return all that the kernel writes. A few more can be written
better. A port has the name and the arguments of the kernel's description in the suite, and returns what the NumPy
function returns, then what it writes. It keeps the kernel's algorithm: outer loops that carry something are scans over
rows or columns, inner ones whole arrays under masks, and loops that carry nothing are products of whole arrays; no
library routine stands in for the kernel.

bench.py races them as `JAX ours` beside the suite's (`JAX`), and takes the faster one. `channel_flow` is missing: it
iterates until its flow is steady, and JAX differentiates no loop whose number of trips is not known beforehand.
"""

import jax.numpy as jnp
from jax import lax, nn


def _triangle(matrix, strict=False):
    """Where the lower triangle of a matrix is, without the diagonal if strict."""
    return jnp.tril(jnp.ones(matrix.shape, bool), -1 if strict else 0)


def adi(TSTEPS, N, u):
    """Alternating direction implicit steps: tridiagonal systems along rows, then along columns."""
    time, space = 1.0 / TSTEPS, 1.0 / N
    a = -2.0 * time / (space * space) / 2.0
    d = -1.0 * time / (space * space) / 2.0
    ones = jnp.ones(N - 2, u.dtype)

    def solve(off, diagonal, rows):
        def forward(before, row):
            p, q = before
            pivot = off * p + diagonal
            after = -off / pivot, (row - off * q) / pivot
            return after, after

        def backward(later, factors):
            p, q = factors
            value = p * later + q
            return value, value

        _, factors = lax.scan(forward, (0.0 * ones, ones), rows)
        return lax.scan(backward, ones, factors, reverse=True)[1]

    def step(u, _):
        v = solve(a, 1.0 - 2.0 * d, -d * u[1:-1, :-2] + (1.0 + 2.0 * d) * u[1:-1, 1:-1] - d * u[1:-1, 2:])
        v = jnp.concatenate([ones[None], v, ones[None]])
        inner = solve(d, 1.0 - 2.0 * d, (-a * v[:-2] + (1.0 + 2.0 * a) * v[1:-1] - a * v[2:]).T).T
        return u.at[1:-1].set(jnp.concatenate([ones[:, None], inner, ones[:, None]], 1)), None

    return lax.scan(step, u, None, TSTEPS)[0]


def cavity_flow(nx, ny, nt, nit, u, v, dt, dx, dy, p, rho, nu):
    """Steps of an incompressible flow under a moving lid, each with a few sweeps for the pressure."""

    def across(f):
        return f[1:-1, 2:] - f[1:-1, :-2]

    def along(f):
        return f[2:, 1:-1] - f[:-2, 1:-1]

    def moved(f, u, v, force):
        middle = f[1:-1, 1:-1]
        return (
            middle
            - u[1:-1, 1:-1] * dt / dx * (middle - f[1:-1, :-2])
            - v[1:-1, 1:-1] * dt / dy * (middle - f[:-2, 1:-1])
            - force
            + nu
            * (
                dt / dx**2 * (f[1:-1, 2:] - 2 * middle + f[1:-1, :-2])
                + dt / dy**2 * (f[2:, 1:-1] - 2 * middle + f[:-2, 1:-1])
            )
        )

    def sweep(p, source):
        inner = ((p[1:-1, 2:] + p[1:-1, :-2]) * dy**2 + (p[2:, 1:-1] + p[:-2, 1:-1]) * dx**2) / (
            2 * (dx**2 + dy**2)
        ) - source
        p = jnp.pad(inner, 1, mode="edge")
        return p.at[-1].set(0.0)

    def step(state, _):
        u, v, p = state
        ux, uy = across(u) / (2 * dx), along(u) / (2 * dy)
        vx, vy = across(v) / (2 * dx), along(v) / (2 * dy)
        b = rho * (1 / dt * (ux + vy) - ux**2 - 2 * (uy * vx) - vy**2)
        source = dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b
        p = lax.scan(lambda p, _: (sweep(p, source), None), p, None, nit)[0]
        after = jnp.pad(moved(u, u, v, dt / (2 * rho * dx) * across(p)), 1).at[-1].set(1.0)
        return (after, jnp.pad(moved(v, u, v, dt / (2 * rho * dy) * along(p)), 1), p), None

    return lax.scan(step, (u, v, p), None, nt)[0]


def cholesky(A):
    """Cholesky's factor in the lower triangle, column by column: each is taken from all that remain."""
    rows = jnp.arange(len(A))

    def column(rest, k):
        factor = jnp.where(rows >= k, rest[:, k] / jnp.sqrt(rest[k, k]), 0)
        return rest - jnp.outer(factor, factor), factor

    _, columns = lax.scan(column, A, rows)
    return jnp.where(_triangle(A), columns.T, A)


def cholesky2(A):
    """NumPy's factor, which reads the lower triangle only, and the upper triangle as it was."""
    symmetric = jnp.tril(A) + jnp.tril(A, -1).T
    return jnp.linalg.cholesky(symmetric, symmetrize_input=False) + jnp.triu(A, k=1)


def conv2d_bias(input, weights, bias):
    """A convolution of images with the channels last, and a bias."""
    return _convolution(input, weights) + bias


def _convolution(images, weights):
    return lax.conv_general_dilated(images, weights, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def correlation(M, float_n, data):
    """Correlations of the columns, and the data after they were centred and scaled."""
    deviation = jnp.std(data, axis=0)
    deviation = jnp.where(deviation <= 0.1, 1.0, deviation)
    data = (data - jnp.mean(data, axis=0)) / (jnp.sqrt(float_n) * deviation)
    return jnp.where(jnp.eye(M, dtype=bool), 1.0, data.T @ data), data


def covariance2(M, float_n, data):
    """Covariances of the columns."""
    return jnp.cov(data.T)


def durbin(r):
    """Levinson's and Durbin's recursion; the reversed heads of arrays are slices of the reversed, padded arrays."""
    n = len(r)

    def reversed_head(padded, k):
        return lax.dynamic_slice(padded, (n - k,), (n,))

    nothing = jnp.zeros_like(r)
    head = jnp.concatenate([r[::-1], nothing])

    def step(state, k):
        alpha, beta, y = state
        beta = beta * (1.0 - alpha * alpha)
        alpha = -(r[k] + reversed_head(head, k) @ y) / beta
        y = y + alpha * reversed_head(jnp.concatenate([y[::-1], nothing]), k)
        return (alpha, beta, y.at[k].set(alpha)), None

    start = -r[0], jnp.ones((), r.dtype), nothing.at[0].set(-r[0])
    return lax.scan(step, start, jnp.arange(1, n))[0][2]


def fdtd_2d(TMAX, ex, ey, hz, _fict_):
    """Steps of Maxwell's equations in a plane."""

    def step(fields, source):
        ex, ey, hz = fields
        ey = jnp.concatenate([jnp.full_like(ey[:1], source), ey[1:] - 0.5 * (hz[1:] - hz[:-1])])
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        hz = hz.at[:-1, :-1].add(-0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]))
        return (ex, ey, hz), None

    return lax.scan(step, (ex, ey, hz), _fict_[:TMAX])[0]


def go_fast(a):
    """A matrix plus the sum of the hyperbolic tangents of its diagonal."""
    return a + jnp.sum(jnp.tanh(jnp.diagonal(a)))


def gramschmidt(A):
    """Modified Gram-Schmidt, column by column: Q, R, and what is left of A."""
    columns = jnp.arange(A.shape[1])

    def step(A, k):
        norm = jnp.sqrt(A[:, k] @ A[:, k])
        q = A[:, k] / norm
        row = jnp.where(columns > k, q @ A, 0)
        return A - jnp.outer(q, row), (q, row.at[k].set(norm))

    A, (Q, R) = lax.scan(step, A, columns)
    return Q.T, R, A


def heat_3d(TSTEPS, A, B):
    """Steps of the heat equation in a cube."""

    def heated(source, target):
        middle = source[1:-1, 1:-1, 1:-1]
        inner = (
            0.125 * (source[2:, 1:-1, 1:-1] - 2.0 * middle + source[:-2, 1:-1, 1:-1])
            + 0.125 * (source[1:-1, 2:, 1:-1] - 2.0 * middle + source[1:-1, :-2, 1:-1])
            + 0.125 * (source[1:-1, 1:-1, 2:] - 2.0 * middle + source[1:-1, 1:-1, :-2])
            + middle
        )
        return target.at[1:-1, 1:-1, 1:-1].set(inner)

    return _alternating(heated, TSTEPS, A, B)


def _alternating(sweep, steps, A, B):
    """All steps but the first of a sweep from A to B, then from B to A."""

    def step(arrays, _):
        A, B = arrays
        B = sweep(A, B)
        return (sweep(B, A), B), None

    return lax.scan(step, (A, B), None, steps - 1)[0]


def jacobi_1d(TSTEPS, A, B):
    """Averages of three neighbours."""
    return _alternating(lambda s, t: t.at[1:-1].set(0.33333 * (s[:-2] + s[1:-1] + s[2:])), TSTEPS, A, B)


def jacobi_2d(TSTEPS, A, B):
    """Averages of five neighbours."""

    def averaged(s, t):
        return t.at[1:-1, 1:-1].set(0.2 * (s[1:-1, 1:-1] + s[1:-1, :-2] + s[1:-1, 2:] + s[2:, 1:-1] + s[:-2, 1:-1]))

    return _alternating(averaged, TSTEPS, A, B)


def lenet(input, conv1, conv1bias, conv2, conv2bias, fc1w, fc1b, fc2w, fc2b, fc3w, fc3b, N, C_before_fc1):
    """LeNet-5: two convolutions with pooling, three dense layers."""
    x = _pooled(nn.relu(_convolution(input, conv1) + conv1bias))
    x = _pooled(nn.relu(_convolution(x, conv2) + conv2bias))
    x = jnp.reshape(x, (N, C_before_fc1))
    x = nn.relu(x @ fc1w + fc1b)
    x = nn.relu(x @ fc2w + fc2b)
    return x @ fc3w + fc3b


def _pooled(x):
    """The largest of each square of two by two."""
    n, height, width, channels = x.shape
    x = x[:, : height // 2 * 2, : width // 2 * 2]
    return jnp.max(x.reshape(n, height // 2, 2, width // 2, 2, channels), axis=(2, 4))


def lu(A):
    """The factors in one matrix, pivot by pivot: what each row and column accounts for is taken from the rest."""
    index = jnp.arange(len(A))

    def step(rest, k):
        row = jnp.where(index >= k, rest[k], 0)
        column = jnp.where(index > k, rest[:, k] / rest[k, k], 0)
        return rest - jnp.outer(column, row), (column, row)

    _, (columns, rows) = lax.scan(step, A, index)
    return columns.T + rows


def ludcmp(A, b):
    """The solution of a linear system by its factors, the one of the lower triangle, and the factors."""
    A = lu(A)
    index = jnp.arange(len(A))

    def lower(y, step):
        i, row, right = step
        return y.at[i].set(right - row @ y), None

    def upper(x, step):
        i, row, right = step
        return x.at[i].set((right - row @ x) / row[i]), None

    zeros = jnp.zeros_like(b)  # what is not known yet counts for nothing in the products
    y = lax.scan(lower, zeros, (index, A, b))[0]
    return lax.scan(upper, zeros, (index, A, y), reverse=True)[0], y, A


def nbody(mass, pos, vel, N, Nt, dt, G, softening):
    """Leapfrog steps of bodies under gravity: their energies at every step, and where and how fast they end."""

    def separations(pos):
        return pos[None, :, :] - pos[:, None, :]

    def acceleration(pos):
        apart = separations(pos)
        weights = (jnp.sum(apart**2, -1) + softening**2) ** -1.5
        return G * jnp.einsum("ijc,ij,j->ic", apart, weights, mass[:, 0])

    def energies(pos, vel):
        squares = jnp.sum(separations(pos) ** 2, -1)
        is_apart = squares > 0  # a root of zero has no derivative, even where it is not taken
        inverse = jnp.where(is_apart, 1.0 / jnp.sqrt(jnp.where(is_apart, squares, 1.0)), 0.0)
        return 0.5 * jnp.sum(mass * vel**2), G * jnp.sum(jnp.triu(-(mass * mass.T) * inverse, 1))

    def step(state, _):
        pos, vel, pull = state
        vel = vel + pull * dt / 2.0
        pos = pos + vel * dt
        pull = acceleration(pos)
        vel = vel + pull * dt / 2.0
        return (pos, vel, pull), energies(pos, vel)

    vel = vel - jnp.mean(mass * vel, axis=0) / jnp.mean(mass)
    first = energies(pos, vel)
    (pos, vel, _), later = lax.scan(step, (pos, vel, acceleration(pos)), None, Nt)
    return *(jnp.concatenate([f[None], e]) for f, e in zip(first, later, strict=True)), pos, vel


def resnet(input, conv1, conv2, conv3):
    """A bottleneck block: three convolutions, each followed by a normalisation over the batch."""

    def normalised(x):
        return (x - jnp.mean(x, axis=0, keepdims=True)) / jnp.sqrt(jnp.std(x, axis=0, keepdims=True) + 1e-5)

    x = nn.relu(normalised(jnp.pad(_convolution(input, conv1), ((0, 0), (1, 1), (1, 1), (0, 0)))))
    x = nn.relu(normalised(_convolution(x, conv2)))
    return nn.relu(normalised(_convolution(x, conv3)) + input)


def seidel_2d(TSTEPS, N, A):
    """Sweeps that use new values at once: rows in turn, each row's recurrence by an associative scan."""

    def row(above, rows):
        old, below = rows
        known = old[1:-1] + above[:-2] + above[1:-1] + above[2:] + old[2:] + below[:-2] + below[1:-1] + below[2:]
        known = known.at[0].add(old[0]) / 9.0
        _, new = lax.associative_scan(_composed, (jnp.full_like(known, 1.0 / 9.0), known))
        new = jnp.concatenate([old[:1], new, old[-1:]])
        return new, new

    def sweep(A, _):
        _, inner = lax.scan(row, A[0], (A[1:-1], A[2:]))
        return A.at[1:-1].set(inner), None

    return lax.scan(sweep, A, None, TSTEPS - 1)[0]


def _composed(first, second):
    """Two maps x → a x + b, one after the other."""
    return first[0] * second[0], second[0] * first[1] + second[1]


def spmv(A_row, A_col, A_val, x):
    """A sparse matrix in compressed rows times a vector."""
    entries = jnp.arange(len(A_val), dtype=A_row.dtype)
    rows = jnp.searchsorted(A_row, entries, side="right") - 1
    return jnp.zeros(len(A_row) - 1, A_val.dtype).at[rows].add(A_val * x[A_col], indices_are_sorted=True)


def symm(alpha, beta, C, A, B):
    """A product with a symmetric matrix, of which the lower triangle is read."""
    strict = jnp.tril(A, -1)
    return beta * C + alpha * ((strict + strict.T + jnp.diag(jnp.diagonal(A))) @ B)


def syr2k(alpha, beta, C, A, B):
    """A symmetric update by two matrices, of the lower triangle."""
    return jnp.where(_triangle(C), beta * C + alpha * (B @ A.T + A @ B.T), C)


def syrk(alpha, beta, C, A):
    """A symmetric update by one matrix, of the lower triangle."""
    return jnp.where(_triangle(C), beta * C + alpha * (A @ A.T), C)


def trisolv(L, x, b):
    """The solution of a triangular system, row by row."""

    def step(x, given):
        i, row, right = given
        return x.at[i].set((right - row @ x) / row[i]), None  # what is not known yet is zero

    return lax.scan(step, jnp.zeros_like(x), (jnp.arange(len(x)), L, b))[0]


def trmm(alpha, A, B):
    """A product with a triangular matrix, transposed, with ones on the diagonal."""
    return alpha * (B + jnp.tril(A, -1).T @ B)


def vadv(utens_stage, u_stage, wcon, u_pos, utens, dtr_stage):
    """Vertical advection: tridiagonal systems along the last axis, all columns at once."""
    u, w = jnp.moveaxis(u_stage, 2, 0), jnp.moveaxis(wcon, 2, 0)
    flux = 0.25 * (w[:, 1:] + w[:, :-1]) * 0.5  # through the lower face of each level; none through the ends
    lower = jnp.zeros_like(flux[:1])
    flux = jnp.concatenate([lower, flux[1 : len(u)], lower])
    above, below = flux[1:], -flux[:-1]
    slope = jnp.diff(u, axis=0)
    lower = jnp.zeros_like(slope[:1])
    slope = jnp.concatenate([lower, slope, lower])
    position, old, tendency = (jnp.moveaxis(f, 2, 0) for f in (u_pos, utens_stage, utens))
    right = dtr_stage * position + tendency + old + below * slope[:-1] - above * slope[1:]

    def forward(before, level):
        c, d = before
        below, above, right = level
        pivot = 1.0 / (dtr_stage - below - above - c * below)
        after = above * pivot, (right - d * below) * pivot
        return after, after

    def backward(later, level):
        c, d = level
        value = d - c * later
        return value, value

    nothing = jnp.zeros_like(u[0])
    _, factors = lax.scan(forward, (nothing, nothing), (below, above, right))
    _, solution = lax.scan(backward, nothing, factors, reverse=True)
    return jnp.moveaxis(dtr_stage * (solution - position), 0, 2)
