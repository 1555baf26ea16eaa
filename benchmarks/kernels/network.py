"""Loss of a network of two dense layers: matrix products with a bias and an activation around them."""

import numpy as np

SIZES = {"S": {"batch": 64, "width": 64}, "M": {"batch": 1_000, "width": 500}}
WRT = ("w1", "b1", "w2", "b2")
PYTHRAN = "float64[:,:], float64[:,:], float64[:,:], float64[], float64[:,:], float64[]"


def arguments(batch, width):
    """x: (batch, width), t: (batch, 10), and the layers' weights and biases."""
    rng = np.random.default_rng(5)
    return {
        "x": rng.standard_normal((batch, width)),
        "t": rng.standard_normal((batch, 10)),
        "w1": rng.standard_normal((width, width)) / width**0.5,
        "b1": rng.standard_normal(width),
        "w2": rng.standard_normal((width, 10)) / width**0.5,
        "b2": rng.standard_normal(10),
    }


def kernel(x, t, w1, b1, w2, b2):
    """Half the sum of squared errors."""
    error = np.tanh(x @ w1 + b1) @ w2 + b2 - t
    return 0.5 * np.sum(error * error)


def jax(x, t, w1, b1, w2, b2):
    """By jax.numpy."""
    import jax.numpy as jnp

    error = jnp.tanh(x @ w1 + b1) @ w2 + b2 - t
    return 0.5 * jnp.sum(error * error)


def torch(x, t, w1, b1, w2, b2):
    """By torch."""
    import torch

    error = torch.tanh(x @ w1 + b1) @ w2 + b2 - t
    return 0.5 * torch.sum(error * error)
