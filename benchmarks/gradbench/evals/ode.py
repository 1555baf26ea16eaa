"""ode: a chain of equations by Runge-Kutta, and the gradient of the last component."""

import numpy as np

import dlvm_py as dlvm
from evals.entry import Entry, listed


def slope(x, y):
    """The right-hand side: x_0, x_1 y_0, x_2 y_1, ... Shapes: (n,)."""
    z = np.empty_like(y)
    z[0] = x[0]
    z[1:] = x[1:] * y[:-1]
    return z


@dlvm.jit
def solve(x, s):
    """The solution at time 2 after s steps of the classical method, from zero. x: (n,)."""
    h = 2.0 / s
    y = np.zeros(len(x))
    for _ in range(s):
        k1 = slope(x, y)
        k2 = slope(x, y + h * k1 / 2)
        k3 = slope(x, y + h * k2 / 2)
        k4 = slope(x, y + h * k3)
        y = y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6
    return y


@dlvm.jit
def last(x, s):
    """The last component of the solution."""
    return solve(x, s)[-1]


def _prepare(given):
    return np.array(given["x"]), given["s"]


FUNCTIONS = {
    "primal": Entry(_prepare, solve, listed),
    "gradient": Entry(_prepare, dlvm.grad(last), listed),
}
