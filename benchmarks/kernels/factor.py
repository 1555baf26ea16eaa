"""Cholesky's factor by three nested loops over scalars, in place."""

import numpy as np

SIZES = {"S": {"n": 60}, "M": {"n": 400}}
UNIT = "product"
GROWTH = [(n * (n * n - 1) // 6, {"n": n}) for n in (10, 30, 100, 300, 1_000)]
WRT = ("a",)
PYTHRAN = "float64[:,:]"


def arguments(n):
    """a: (n, n), symmetric and positive definite."""
    b = np.random.default_rng(6).standard_normal((n, n))
    return {"a": b @ b.T / n + np.eye(n)}


def kernel(a):
    """(n, n): the factor in the lower triangle; the upper one as it was."""
    for i in range(a.shape[0]):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[j, k]
            a[i, j] /= a[j, j]
        for k in range(i):
            a[i, i] -= a[i, k] * a[i, k]
        a[i, i] = np.sqrt(a[i, i])
    return a


def jax(a):
    """Loops over columns, a column at a time; the upper triangle is put back."""
    import jax.numpy as jnp
    from jax import lax

    rows = jnp.arange(a.shape[0])

    def column(j, low):
        past = jnp.where(rows < j, low[j], 0.0)
        rest = low[:, j] - low @ past
        pivot = jnp.sqrt(rest[j])
        new = jnp.where(rows > j, rest / pivot, jnp.where(rows == j, pivot, 0.0))
        return low.at[:, j].set(new)

    return lax.fori_loop(0, a.shape[0], column, jnp.tril(a)) + jnp.triu(a, 1)
