"""Families of NumPy calls: plain functions, each of which returns a tuple of results of related functions.

One compilation serves a whole family. `smooth`: the float results are differentiable at these arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Family:
    """A function that returns a tuple, and arguments for it."""

    fn: Callable
    make_args: Callable
    smooth: bool


FAMILIES: list[Family] = []


def family(make_args, smooth=True):
    """Add the decorated function to FAMILIES."""

    def add(fn):
        FAMILIES.append(Family(fn, make_args, smooth))
        return fn

    return add


def reals(*shape, seed=0):
    """Floats in [0.2, 1.7), the same at every call, no two of them equal."""
    return np.random.default_rng(seed).uniform(0.2, 1.7, shape)


# -- order of elements -------------------------------------------------------------------------------


@family(lambda: (reals(3, 4), reals(2, 3, 4, seed=1)))
def flips(x, y):
    return (
        np.flip(x),
        np.flip(y, axis=(0, -1)),
        np.flip(x, 1),
        np.fliplr(y),
        np.flipud(x),
        np.rot90(x),
        np.rot90(x, -1),
        np.rot90(y, k=2, axes=(1, 2)),
        np.moveaxis(y, 0, -1),
        np.moveaxis(y, (0, 1), (-1, 0)),
    )


@family(lambda: (reals(3, 4), reals(2, 3, 4, seed=1), 2))
def rolls(x, y, k):
    return (
        np.roll(x, 1),
        np.roll(x, -k, axis=1),
        np.roll(y, (1, 5), axis=(0, 2)),
        np.roll(y, k, axis=(0, 1)),
        np.roll(np.zeros((0, 3)), k, 0),
    )
