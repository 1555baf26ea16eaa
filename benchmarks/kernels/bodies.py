"""Gravity between bodies: every pair, as loops over scalars."""

import numpy as np

SIZES = {"S": {"n": 200}, "M": {"n": 2_000}}
UNIT = "pair"
GROWTH = [(n * (n - 1) // 2, {"n": n}) for n in (30, 100, 300, 1_000, 3_000, 10_000)]
WRT = ("p", "m")
PYTHRAN = "float64[:,:], float64[]"


def arguments(n):
    """p: (n, 3) positions; m: (n,) masses."""
    rng = np.random.default_rng(4)
    return {"p": rng.standard_normal((n, 3)), "m": rng.random(n) + 0.5}


def kernel(p, m):
    """The potential energy, softened."""
    energy = 0.0
    for i in range(len(m)):
        for j in range(i):
            dx = p[i, 0] - p[j, 0]
            dy = p[i, 1] - p[j, 1]
            dz = p[i, 2] - p[j, 2]
            energy -= m[i] * m[j] / np.sqrt(dx * dx + dy * dy + dz * dz + 1e-3)
    return energy


def jax(p, m):
    """All pairs at once; those of a body with itself are taken away."""
    import jax.numpy as jnp

    d = p[:, None, :] - p[None, :, :]
    r = jnp.sqrt(jnp.sum(d * d, axis=-1) + 1e-3)
    return -0.5 * (jnp.sum(m[:, None] * m[None, :] / r) - jnp.sum(m * m) / jnp.sqrt(1e-3))


def torch(p, m):
    """All pairs at once; those of a body with itself are taken away."""
    import torch

    d = p[:, None, :] - p[None, :, :]
    r = torch.sqrt(torch.sum(d * d, dim=-1) + 1e-3)
    return -0.5 * (torch.sum(m[:, None] * m[None, :] / r) - torch.sum(m * m) / 1e-3**0.5)
