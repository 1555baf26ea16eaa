"""A recurrence of scalar steps with a branch that the data decide and a sine."""

import numpy as np

SIZES = {"S": {"steps": 1_000}, "M": {"steps": 1_000_000}}
UNIT = "step"
GROWTH = [(n, {"steps": n}) for n in (10, 100, 1_000, 10_000, 100_000, 1_000_000)]
WRT = ("x",)
PYTHRAN = "float64, int"


def arguments(steps):
    """x: the start."""
    return {"x": 0.7, "steps": steps}


def kernel(x, steps):
    """The state after `steps` steps."""
    for _ in range(steps):
        if x > 0.5:
            x = 0.9 * np.sin(x) + 0.01
        else:
            x = x * x + 0.3
    return x


def jax(x, steps):
    """As a scan, whose branch is a select."""
    import jax.numpy as jnp
    from jax import lax

    def step(x, _):
        return jnp.where(x > 0.5, 0.9 * jnp.sin(x) + 0.01, x * x + 0.3), None

    return lax.scan(step, x, None, length=steps)[0]
