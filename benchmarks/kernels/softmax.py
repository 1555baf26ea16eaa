"""Softmax of every row of a matrix, weighted: maximum, sum and quotient along short rows."""

import numpy as np

SIZES = {"S": {"rows": 1_000, "columns": 128}, "M": {"rows": 20_000, "columns": 256}}
WRT = ("x",)
PYTHRAN = "float64[:,:], float64[]"


def arguments(rows, columns):
    """x: (rows, columns), w: (columns,), float64."""
    rng = np.random.default_rng(2)
    return {"x": rng.standard_normal((rows, columns)), "w": rng.standard_normal(columns)}


def kernel(x, w):
    """(rows,): the weights' mean under each row's softmax."""
    top = np.max(x, axis=1, keepdims=True)
    e = np.exp(x - top)
    return np.sum(e * w, axis=1) / np.sum(e, axis=1)


def numba(x, w):
    """As loops."""
    rows, columns = x.shape
    out = np.empty(rows)
    for i in range(rows):
        top = -np.inf
        for j in range(columns):
            top = max(top, x[i, j])
        total, weighted = 0.0, 0.0
        for j in range(columns):
            e = np.exp(x[i, j] - top)
            total += e
            weighted += e * w[j]
        out[i] = weighted / total
    return out


def jax(x, w):
    """By jax.numpy."""
    import jax.numpy as jnp

    e = jnp.exp(x - jnp.max(x, axis=1, keepdims=True))
    return jnp.sum(e * w, axis=1) / jnp.sum(e, axis=1)


def torch(x, w):
    """By torch."""
    import torch

    e = torch.exp(x - torch.amax(x, dim=1, keepdim=True))
    return torch.sum(e * w, dim=1) / torch.sum(e, dim=1)
