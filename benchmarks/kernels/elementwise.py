"""A chain of elementwise functions over one long vector: no temporary need ever reach memory."""

import numpy as np

SIZES = {"S": {"n": 100_000}, "M": {"n": 4_000_000}}
GROWTH = [(n, {"n": n}) for n in (10**3, 10**4, 10**5, 10**6, 10**7, 6 * 10**7)]
WRT = ("x", "y")
PYTHRAN = "float64[], float64[]"


def arguments(n):
    """x and y: (n,) float64."""
    rng = np.random.default_rng(1)
    return {"x": rng.standard_normal(n), "y": rng.standard_normal(n)}


def kernel(x, y):
    """exp, a quotient and a product, elementwise."""
    return np.exp(-x * x) * y + x / (1.0 + y * y)


def jax(x, y):
    """By jax.numpy."""
    import jax.numpy as jnp

    return jnp.exp(-x * x) * y + x / (1.0 + y * y)


def torch(x, y):
    """By torch."""
    import torch

    return torch.exp(-x * x) * y + x / (1.0 + y * y)
