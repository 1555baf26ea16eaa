"""Soft dynamic time warping: a table filled cell by cell, each from three neighbours."""

import numpy as np

SIZES = {"S": {"n": 100}, "M": {"n": 1_000}}
UNIT = "cell"
GROWTH = [(n * n, {"n": n}) for n in (10, 30, 100, 300, 1_000)]
WRT = ("x", "y")
PYTHRAN = "float64[], float64[]"


def arguments(n):
    """x and y: two series of n points."""
    rng = np.random.default_rng(7)
    return {"x": np.cumsum(rng.standard_normal(n)), "y": np.cumsum(rng.standard_normal(n))}


def kernel(x, y):
    """The cost of the best alignments, softened."""
    n, m = len(x), len(y)
    cost = np.full((n + 1, m + 1), 1e10)
    cost[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            a, b, c = cost[i, j], cost[i, j + 1], cost[i + 1, j]
            low = min(a, b, c)
            soft = low - np.log(np.exp(low - a) + np.exp(low - b) + np.exp(low - c))
            cost[i + 1, j + 1] = (x[i] - y[j]) ** 2 + soft
    return cost[n, m]


def jax(x, y):
    """A scan over rows with a scan over columns in it."""
    import jax.numpy as jnp
    from jax import lax

    def row(above, xi):
        def cell(left, given):
            a, b, yj = given
            low = jnp.minimum(jnp.minimum(a, b), left)
            soft = low - jnp.log(jnp.exp(low - a) + jnp.exp(low - b) + jnp.exp(low - left))
            new = (xi - yj) ** 2 + soft
            return new, new

        _, cells = lax.scan(cell, 1e10, (above[:-1], above[1:], y))
        return jnp.concatenate([jnp.full(1, 1e10), cells]), None

    first = jnp.full(len(y) + 1, 1e10).at[0].set(0.0)
    return lax.scan(row, first, x)[0][-1]
