"""saddle: the smallest of largest values, by descent through a descent."""

import numpy as np

import dlvm_py as dlvm
from evals.descent import argmin
from evals.entry import Entry, listed


def height(x, y):
    """Σ x² - Σ y². Shapes: (2,)."""
    return np.sum(x * x) - np.sum(y * y)


def depth(y, x):
    """What the inner descent makes small."""
    return -height(x, y)


reverse_depth = dlvm.grad(depth)
forward_depth = dlvm.jacobian(depth, mode="forward")


def highest(x, start, gradient):
    """The largest value over y, found from `start`."""
    return height(x, argmin(depth, gradient, start, x))


def with_reverse(x, start):
    """What the outer descent makes small, the inner gradient by reverse mode."""
    return highest(x, start, reverse_depth)


def with_forward(x, start):
    """What the outer descent makes small, the inner gradient by forward mode."""
    return highest(x, start, forward_depth)


reverse_reverse, reverse_forward = dlvm.grad(with_reverse), dlvm.grad(with_forward)
forward_reverse, forward_forward = (dlvm.jacobian(f, mode="forward") for f in (with_reverse, with_forward))


def both(start, f, outer, inner):
    """The saddle point: x, then y."""
    x = argmin(f, outer, start, start)
    y = argmin(depth, inner, start, x)
    return np.concatenate((x, y))


@dlvm.jit
def rr(start):
    """Reverse over reverse mode."""
    return both(start, with_reverse, reverse_reverse, reverse_depth)


@dlvm.jit
def rf(start):
    """Reverse over forward mode."""
    return both(start, with_forward, reverse_forward, forward_depth)


@dlvm.jit
def fr(start):
    """Forward over reverse mode."""
    return both(start, with_reverse, forward_reverse, reverse_depth)


@dlvm.jit
def ff(start):
    """Forward over forward mode."""
    return both(start, with_forward, forward_forward, forward_depth)


def _prepare(given):
    return (np.array(given["start"]),)


FUNCTIONS = {f.__name__: Entry(_prepare, f, listed) for f in (rr, rf, fr, ff)}
