"""Mandelbrot's set by a while loop a point: integers come out, so it has no gradient."""

import numpy as np

SIZES = {"S": {"n": 60, "limit": 100}, "M": {"n": 400, "limit": 200}}
WRT = ()
PYTHRAN = "float64[], float64[], int"


def arguments(n, limit):
    """x: (n,) real parts, y: (n,) imaginary parts."""
    return {"x": np.linspace(-2.0, 0.5, n), "y": np.linspace(-1.2, 1.2, n), "limit": limit}


def kernel(x, y, limit):
    """(n, n) int64: the steps until each point escapes."""
    out = np.zeros((len(y), len(x)), dtype=np.int64)
    for i in range(len(y)):
        for j in range(len(x)):
            a, b, k = 0.0, 0.0, 0
            while k < limit and a * a + b * b <= 4.0:
                a, b = a * a - b * b + x[j], 2.0 * a * b + y[i]
                k += 1
            out[i, j] = k
    return out


def jax(x, y, limit):
    """All points together, until the last one is done."""
    import jax.numpy as jnp
    from jax import lax

    cx, cy = x[None, :], y[:, None]

    def step(_, state):
        a, b, k = state
        inside = a * a + b * b <= 4.0
        return (
            jnp.where(inside, a * a - b * b + cx, a),
            jnp.where(inside, 2.0 * a * b + cy, b),
            k + inside,
        )

    zero = jnp.zeros((y.shape[0], x.shape[0]))
    return lax.fori_loop(0, limit, step, (zero, zero, jnp.zeros(zero.shape, int)))[2]
