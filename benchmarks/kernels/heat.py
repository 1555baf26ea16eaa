"""Heat in a plate: explicit steps of a five-point stencil, in place, with a conductivity that is differentiated too."""

import numpy as np

SIZES = {"S": {"n": 200, "steps": 50}, "M": {"n": 1000, "steps": 50}}
UNIT = "point"
GROWTH = [(4 * n * n, {"n": n, "steps": 4}) for n in (30, 100, 300, 1000, 3000, 8000)]
WRT = ("u", "c")
PYTHRAN = "float64[:,:], float64[:,:], int"


def arguments(n, steps):
    """u: (n, n) temperatures; c: (n - 2, n - 2) conductivities of the inner points, below the stability limit."""
    rng = np.random.default_rng(3)
    return {"u": rng.random((n, n)), "c": 0.2 * rng.random((n - 2, n - 2)), "steps": steps}


def kernel(u, c, steps):
    """(n, n): the temperatures after `steps` steps."""
    for _ in range(steps):
        u[1:-1, 1:-1] += c * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])
    return u


def jax(u, c, steps):
    """As a loop of known length that updates a copy."""
    from jax import lax

    def step(u, _):
        inner = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1]
        return u.at[1:-1, 1:-1].add(c * inner), None

    return lax.scan(step, u, None, length=steps)[0]


def torch(u, c, steps):
    """As a Python loop; padding stands for the store, which autograd does not take in place."""
    from torch.nn.functional import pad

    for _ in range(steps):
        inner = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1]
        u = u + pad(c * inner, (1, 1, 1, 1))
    return u
