"""particle: the control that lets a charged particle cross the axis at the origin; the simulation needs a gradient."""

import numpy as np

import dlvm_py as dlvm
from evals.descent import argmin
from evals.entry import Entry


def potential(x, w):
    """Of unit charges at (10, 10 - w) and (10, 0), at the place x, (2,)."""
    return 1 / np.sqrt((x[0] - 10) ** 2 + (x[1] - 10 + w[0]) ** 2) + 1 / np.sqrt((x[0] - 10) ** 2 + x[1] ** 2)


def crossing(w, force):
    """Square of the place where the particle crosses the axis, by Euler's method.

    force(x, w): minus the acceleration.
    """
    x = np.array([0.0, 8.0])
    v = np.array([0.75, 0.0])
    step = 0.1
    while True:
        a = -force(x, w)
        x = x + step * v
        if x[1] <= 0:
            rest = -x[1] / v[1]
            return (x[0] + rest * v[0]) ** 2
        v = v + step * a


reverse_force = dlvm.grad(potential)
forward_force = dlvm.jacobian(potential, mode="forward")


def with_reverse(w, _):
    """The objective, the force by reverse mode."""
    return crossing(w, reverse_force)


def with_forward(w, _):
    """The objective, the force by forward mode."""
    return crossing(w, forward_force)


reverse_reverse, reverse_forward = dlvm.grad(with_reverse), dlvm.grad(with_forward)
forward_reverse, forward_forward = (dlvm.jacobian(f, mode="forward") for f in (with_reverse, with_forward))


@dlvm.jit
def rr(w):
    """Reverse over reverse mode."""
    return argmin(with_reverse, reverse_reverse, w, 0)[0]


@dlvm.jit
def rf(w):
    """Reverse over forward mode."""
    return argmin(with_forward, reverse_forward, w, 0)[0]


@dlvm.jit
def fr(w):
    """Forward over reverse mode."""
    return argmin(with_reverse, forward_reverse, w, 0)[0]


@dlvm.jit
def ff(w):
    """Forward over forward mode."""
    return argmin(with_forward, forward_forward, w, 0)[0]


def _prepare(given):
    return (np.array([float(given["w"])]),)


FUNCTIONS = {f.__name__: Entry(_prepare, f) for f in (rr, rf, fr, ff)}
