"""llsq: least squares of a polynomial against the sign of t, and the gradient for its coefficients."""

import numpy as np

import dlvm_py as dlvm
from evals.entry import Entry, listed


@dlvm.jit
def misfit(x, n):
    """½ Σ_i (sign t_i - Σ_j x_j t_i^j)² at n points t_i from -1 to 1. x: (m,) coefficients."""
    total = 0.0
    for i in range(n):
        t = -1.0 + i * 2.0 / (n - 1)
        left = np.sign(t)
        power = 1.0
        for j in range(len(x)):
            left -= x[j] * power
            power *= t
        total += left * left
    return total / 2


def _prepare(given):
    return np.array(given["x"]), given["n"]


FUNCTIONS = {
    "primal": Entry(_prepare, misfit),
    "gradient": Entry(_prepare, dlvm.grad(misfit), listed),
}
