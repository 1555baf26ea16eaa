"""Numbers: primes, powers, recursion, going back."""

import math

import numpy as np

from user_programs.registry import numbers, program


@program(lambda s: (7 if s < 60 else 8,))
def n_queens(n):
    """Ways to place queens, by going back."""
    cols = np.zeros(n, np.bool_)
    d1 = np.zeros(2 * n, np.bool_)
    d2 = np.zeros(2 * n, np.bool_)
    pos = np.full(n, -1)
    row = 0
    count = 0
    while row >= 0:
        c = pos[row]
        if c >= 0:
            cols[c] = False
            d1[row + c] = False
            d2[row - c + n] = False
        c += 1
        while c < n and (cols[c] or d1[row + c] or d2[row - c + n]):
            c += 1
        if c < n:
            pos[row] = c
            cols[c] = True
            d1[row + c] = True
            d2[row - c + n] = True
            if row == n - 1:
                count += 1
            else:
                row += 1
                pos[row] = -1
        else:
            pos[row] = -1
            row -= 1
    return count


@program(lambda s: (numbers().integers(1, 10**6, 10 * s), numbers(1).integers(1, 10**6, 10 * s)))
def gcds(a, b):
    """Greatest common divisors."""
    out = np.empty_like(a)
    for i in range(len(a)):
        x = a[i]
        y = b[i]
        while y:
            x, y = y, x % y
        out[i] = x
    return out


@program(lambda s: (200 * s,))
def sieve(n):
    """Primes, by Eratosthenes."""
    prime = np.ones(n + 1, np.bool_)
    prime[0] = prime[1] = False
    i = 2
    while i * i <= n:
        if prime[i]:
            for j in range(i * i, n + 1, i):
                prime[j] = False
        i += 1
    count = 0
    for k in range(n + 1):
        if prime[k]:
            count += 1
    return count


@program(lambda s: (100 * s,))
def euler_sieve(n):
    """Primes and Euler's function, each number once."""
    phi = np.zeros(n + 1, np.int64)
    composite = np.zeros(n + 1, np.bool_)
    primes = np.empty(n + 1, np.int64)
    count = 0
    phi[1] = 1
    for i in range(2, n + 1):
        if not composite[i]:
            primes[count] = i
            count += 1
            phi[i] = i - 1
        for k in range(count):
            p = primes[k]
            if i * p > n:
                break
            composite[i * p] = True
            if i % p == 0:
                phi[i * p] = phi[i] * p
                break
            phi[i * p] = phi[i] * (p - 1)
    return phi, count


@program(lambda s: (10 * s,))
def collatz(n):
    """The number below n that needs the most steps."""
    best = 0
    where = 0
    for start in range(1, n):
        v = start
        steps = 0
        while v != 1:
            if v % 2 == 0:
                v //= 2
            else:
                v = 3 * v + 1
            steps += 1
        if steps > best:
            best = steps
            where = start
    return where, best


def modular_power(base, exponent, modulus):
    """A power of integers, by squares."""
    result = 1
    base %= modulus
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


@program(lambda s: (2 * s, 1_000_003))
def modular_powers(n, p):
    """The sum of inverses, by Fermat's powers."""
    total = 0
    for i in range(1, n):
        total = (total + modular_power(i, p - 2, p)) % p
    return total


@program(lambda s: (10 * s,))
def miller_rabin(n):
    """Primes that a test of two bases lets pass."""
    count = 0
    for m in range(3, 2 * n, 2):
        d = m - 1
        r = 0
        while d % 2 == 0:
            d //= 2
            r += 1
        probable = True
        for a in (2, 3):
            if a % m == 0:
                continue
            x = modular_power(a, d, m)
            if x == 1 or x == m - 1:
                continue
            for _ in range(r - 1):
                x = x * x % m
                if x == m - 1:
                    break
            else:
                probable = False
                break
        if probable:
            count += 1
    return count


def fib(n):
    """A number of Fibonacci's, by recursion."""
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)


@program(lambda s: (20 if s > 50 else 12,))
def fibonacci(n):
    """A number of Fibonacci's."""
    return fib(n)


def ack(m, n):
    """Ackermann's function."""
    if m == 0:
        return n + 1
    if n == 0:
        return ack(m - 1, 1)
    return ack(m - 1, ack(m, n - 1))


@program(lambda s: (2, 30 if s > 50 else 6))
def ackermann(m, n):
    """Ackermann's function, for two small numbers."""
    return ack(m, n)


@program(lambda s: (20 * s,))
def digit_sums(n):
    """Numbers that their digits' sum divides."""
    count = 0
    for i in range(1, n):
        v = i
        total = 0
        while v > 0:
            total += v % 10
            v //= 10
        if i % total == 0:
            count += 1
    return count


@program(lambda s: (7 if s > 50 else 5,))
def permutations(n):
    """All orders, one after the other: the sum of distances of neighbours."""
    a = np.arange(n)
    total = 0
    while True:
        for i in range(n - 1):
            total += abs(a[i + 1] - a[i])
        i = n - 2
        while i >= 0 and a[i] >= a[i + 1]:
            i -= 1
        if i < 0:
            break
        j = n - 1
        while a[j] <= a[i]:
            j -= 1
        a[i], a[j] = a[j], a[i]
        lo = i + 1
        hi = n - 1
        while lo < hi:
            a[lo], a[hi] = a[hi], a[lo]
            lo += 1
            hi -= 1
    return total


def queens(n, row, cols, d1, d2):
    """Ways to place the rest of the queens, as bits."""
    if row == n:
        return 1
    count = 0
    free = ~(cols | d1 | d2) & ((1 << n) - 1)
    while free:
        bit = free & -free
        free ^= bit
        count += queens(n, row + 1, cols | bit, (d1 | bit) << 1, (d2 | bit) >> 1)
    return count


@program(lambda s: (7 if s > 50 else 5,))
def bit_queens(n):
    """Ways to place queens, by recursion and bits."""
    return queens(n, 0, 0, 0, 0)


PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"


@program(lambda s: (np.array([0 if c == "." else int(c) for c in PUZZLE]).reshape(9, 9),))
def sudoku(grid):
    """A sudoku, by going back."""
    fixed = grid > 0
    pos = 0
    steps = 0
    forward = True
    while 0 <= pos < 81:
        i = pos // 9
        j = pos % 9
        if fixed[i, j]:
            pos += 1 if forward else -1
            continue
        v = grid[i, j] + 1
        grid[i, j] = 0
        placed = False
        while v <= 9:
            ok = True
            for k in range(9):
                if grid[i, k] == v or grid[k, j] == v or grid[i // 3 * 3 + k // 3, j // 3 * 3 + k % 3] == v:
                    ok = False
                    break
            if ok:
                grid[i, j] = v
                placed = True
                break
            v += 1
        steps += 1
        forward = placed
        pos += 1 if placed else -1
    return steps


@program(lambda s: (numbers().integers(1, 50, 12 if s > 50 else 8), 150))
def subset_sums(x, target):
    """Subsets with a sum, by the bits of a number."""
    n = len(x)
    count = 0
    for mask in range(1 << n):
        total = 0
        for i in range(n):
            if mask >> i & 1:
                total += x[i]
        if total == target:
            count += 1
    return count


@program(lambda s: (s,))
def pythagorean(n):
    """Triples of sides of right triangles."""
    count = 0
    for a in range(1, n):
        for b in range(a, n):
            c2 = a * a + b * b
            c = int(math.sqrt(c2))
            if c * c == c2 and c < n:
                count += 1
    return count


@program(lambda s: (64, 4 if s > 50 else 2))
def knight_boards(cells, depth):
    """Where a knight can be after some moves, on a board of bits."""
    total = 0
    mask = np.uint64(0xFFFFFFFFFFFFFFFF)
    not_a = np.uint64(0xFEFEFEFEFEFEFEFE)
    not_ab = np.uint64(0xFCFCFCFCFCFCFCFC)
    not_h = np.uint64(0x7F7F7F7F7F7F7F7F)
    not_gh = np.uint64(0x3F3F3F3F3F3F3F3F)
    for start in range(cells):
        b = np.uint64(1) << np.uint64(start)
        for _ in range(depth):
            l1 = (b >> np.uint64(1)) & not_h
            l2 = (b >> np.uint64(2)) & not_gh
            r1 = (b << np.uint64(1)) & not_a
            r2 = (b << np.uint64(2)) & not_ab
            h1 = l1 | r1
            h2 = l2 | r2
            b = ((h1 << np.uint64(16)) | (h1 >> np.uint64(16)) | (h2 << np.uint64(8)) | (h2 >> np.uint64(8))) & mask
        while b:
            b &= b - np.uint64(1)
            total += 1
    return total


@program(lambda s: (s,))
def pascal(n):
    """Pascal's triangle in a modulus."""
    t = np.zeros((n, n), np.int64)
    for i in range(n):
        t[i, 0] = 1
        for j in range(1, i + 1):
            t[i, j] = (t[i - 1, j - 1] + t[i - 1, j]) % 1_000_000_007
    return t
