"""Linear algebra by loops."""

import math

import numpy as np

from user_programs.registry import numbers, program


@program(lambda s: (numbers().random((s // 2, s // 2)) + 10 * np.eye(s // 2),))
def lu_inplace(a):
    """The factors of a matrix, in its place."""
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    return a


@program(lambda s: (numbers().random((s // 2, s // 2)), numbers(1).random((s // 2, s // 2))))
def matmul(a, b):
    """A product by three loops."""
    n, m = a.shape
    p = b.shape[1]
    c = np.zeros((n, p))
    for i in range(n):
        for j in range(p):
            acc = 0.0
            for k in range(m):
                acc += a[i, k] * b[k, j]
            c[i, j] = acc
    return c


@program(lambda s: (numbers().random((s // 2, s // 2)), numbers(1).random(s // 2)))
def gauss_solve(a, b):
    """A linear system, with pivots."""
    n = b.size
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if p != k:
            for j in range(n):
                a[k, j], a[p, j] = a[p, j], a[k, j]
            b[k], b[p] = b[p], b[k]
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            for j in range(k, n):
                a[i, j] -= f * a[k, j]
            b[i] -= f * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        acc = b[i]
        for j in range(i + 1, n):
            acc -= a[i, j] * x[j]
        x[i] = acc / a[i, i]
    return x


@program(lambda s: (np.eye(s // 2) * s + numbers().random((s // 2, s // 2)),))
def cholesky(a):
    """The factor of a symmetric matrix."""
    n = a.shape[0]
    low = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            acc = a[i, j]
            for k in range(j):
                acc -= low[i, k] * low[j, k]
            if i == j:
                low[i, i] = math.sqrt(acc)
            else:
                low[i, j] = acc / low[j, j]
    return low


@program(lambda s: tuple(numbers(k).random(40 * s) + (3 if k == 1 else 0) for k in range(4)))
def tridiagonal(low, mid, up, right):
    """A system of three diagonals (Thomas)."""
    n = mid.size
    c = np.empty(n)
    d = np.empty(n)
    c[0] = up[0] / mid[0]
    d[0] = right[0] / mid[0]
    for i in range(1, n):
        m = mid[i] - low[i] * c[i - 1]
        c[i] = up[i] / m
        d[i] = (right[i] - low[i] * d[i - 1]) / m
    for i in range(n - 2, -1, -1):
        d[i] -= c[i] * d[i + 1]
    return d


@program(lambda s: (np.eye(s) * s + numbers().random((s, s)), numbers(1).random(s), 4))
def jacobi_rounds(a, b, rounds):
    """Rounds of Jacobi's method."""
    n = b.size
    x = np.zeros(n)
    for _ in range(rounds):
        new = np.empty(n)
        for i in range(n):
            acc = 0.0
            for j in range(n):
                if j != i:
                    acc += a[i, j] * x[j]
            new[i] = (b[i] - acc) / a[i, i]
        x = new
    return x


@program(lambda s: (np.eye(s) * s + numbers().random((s, s)), numbers(1).random(s), 1e-6))
def gauss_seidel(a, b, tol):
    """Gauss' and Seidel's method, until it stands still."""
    n = b.size
    x = np.zeros(n)
    for it in range(30):
        change = 0.0
        for i in range(n):
            acc = b[i]
            for j in range(n):
                if j != i:
                    acc -= a[i, j] * x[j]
            v = acc / a[i, i]
            change = max(change, abs(v - x[i]))
            x[i] = v
        if change < tol:
            return x, it
    return x, -1


@program(lambda s: (numbers().random((s, s)), 1.5, 5))
def sor(u, omega, rounds):
    """Over-relaxation of a potential on a grid."""
    h, w = u.shape
    for _ in range(rounds):
        for i in range(1, h - 1):
            for j in range(1, w - 1):
                new = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
                u[i, j] += omega * (new - u[i, j])
    return u


@program(lambda s: (numbers().random((s, s)), 6))
def power_iteration(a, rounds):
    """The largest eigenvalue."""
    n = a.shape[0]
    v = np.ones(n)
    w = np.empty(n)
    size = 0.0
    for _ in range(rounds):
        for i in range(n):
            acc = 0.0
            for j in range(n):
                acc += a[i, j] * v[j]
            w[i] = acc
        size = 0.0
        for i in range(n):
            size += w[i] * w[i]
        size = math.sqrt(size)
        for i in range(n):
            v[i] = w[i] / size
    return size


@program(
    lambda s: (
        np.arange(0, 80 * s + 1, 8),
        numbers().integers(0, 10 * s, 80 * s),
        numbers(1).random(80 * s),
        numbers(2).random(10 * s),
    )
)
def csr_product(start, cols, data, x):
    """A sparse matrix by rows, and a vector."""
    y = np.zeros(start.size - 1)
    for i in range(start.size - 1):
        acc = 0.0
        for k in range(start[i], start[i + 1]):
            acc += data[k] * x[cols[k]]
        y[i] = acc
    return y


@program(
    lambda s: (
        numbers().integers(0, 10 * s, 60 * s),
        numbers(3).integers(0, 10 * s, 60 * s),
        numbers(1).random(60 * s),
        numbers(2).random(10 * s),
    )
)
def coo_product(rows, cols, data, x):
    """A sparse matrix by triples, and a vector."""
    y = np.zeros(x.size)
    for k in range(data.size):
        y[rows[k]] += data[k] * x[cols[k]]
    return y


@program(lambda s: (numbers().random((12, 12)), 4), rounds=True)
def jacobi_eigenvalues(m, sweeps):
    """Eigenvalues of a symmetric matrix, by rotations."""
    n = m.shape[0]
    a = (m + m.T) / 2
    for _ in range(sweeps):
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(a[p, q]) < 1e-12:
                    continue
                t = 0.5 * math.atan2(2 * a[p, q], a[q, q] - a[p, p])
                c = math.cos(t)
                s = math.sin(t)
                for k in range(n):
                    x = a[k, p]
                    y = a[k, q]
                    a[k, p] = c * x - s * y
                    a[k, q] = s * x + c * y
                for k in range(n):
                    x = a[p, k]
                    y = a[q, k]
                    a[p, k] = c * x - s * y
                    a[q, k] = s * x + c * y
    values = np.empty(n)
    for i in range(n):
        values[i] = a[i, i]
    return values


@program(lambda s: (numbers().random((s, s // 4 + 1)),))
def gram_schmidt(a):
    """Columns made orthogonal, one after the other."""
    n, m = a.shape
    for k in range(m):
        size = 0.0
        for i in range(n):
            size += a[i, k] ** 2
        size = math.sqrt(size)
        for i in range(n):
            a[i, k] /= size
        for j in range(k + 1, m):
            dot = 0.0
            for i in range(n):
                dot += a[i, k] * a[i, j]
            for i in range(n):
                a[i, j] -= dot * a[i, k]
    return a


@program(lambda s: (numbers().random((6 * s, 3, 3)),))
def determinants(m):
    """Determinants of many small matrices."""
    out = np.empty(m.shape[0])
    for k in range(m.shape[0]):
        a = m[k]
        out[k] = (
            a[0, 0] * (a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1])
            - a[0, 1] * (a[1, 0] * a[2, 2] - a[1, 2] * a[2, 0])
            + a[0, 2] * (a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0])
        )
    return out


@program(lambda s: (numbers().random((2 * s, 4, 4)) / 2,))
def small_products(m):
    """A chain of products of small matrices."""
    acc = np.eye(4)
    new = np.empty((4, 4))
    for k in range(m.shape[0]):
        for i in range(4):
            for j in range(4):
                total = 0.0
                for p in range(4):
                    total += acc[i, p] * m[k, p, j]
                new[i, j] = total
        for i in range(4):
            for j in range(4):
                acc[i, j] = new[i, j]
    return acc


@program(lambda s: (numbers().integers(0, 100, (2 * s, 2 * s)), 2))
def transpose_sums(a, k):
    """Sums of rows, of columns, and of diagonals."""
    n = a.shape[0]
    rows = np.zeros(n, np.int64)
    cols = np.zeros(n, np.int64)
    diagonals = np.zeros(2 * n - 1, np.int64)
    for i in range(n):
        for j in range(n):
            rows[i] += a[i, j]
            cols[j] += a[i, j] * k
            diagonals[i + j] += a[i, j]
    return rows, cols, diagonals
