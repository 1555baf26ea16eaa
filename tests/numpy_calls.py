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


# -- moments -----------------------------------------------------------------------------------------


@family(lambda: (reals(3, 4), reals(2, 3, 4, seed=1), np.arange(6).reshape(2, 3)))
def moments(x, y, n):
    return (
        np.var(x),
        np.std(x, axis=0, ddof=1),
        np.std(y, axis=(0, 2), keepdims=True),
        np.var(n, axis=1),
        x.std(),
        np.ptp(x, axis=1),
        np.average(x, axis=0),
        np.average(x, weights=x * x),
        np.average(x, axis=1, weights=np.array([1.0, 2.0, 3.0, 4.0])),
        np.cov(x),
        np.cov(x, rowvar=False, bias=True),
        np.cov(x[0], x[1]),
        np.mean(x, where=x > 0.5),
        np.var(x, axis=0, where=x > 0.1),
        np.sum(x, axis=1, initial=2.0, where=x > 0.5),
        np.max(x, axis=0, initial=0.0, where=x < 1.0),
    )


@family(lambda: (np.where(reals(3, 4) > 1.4, np.nan, reals(3, 4)), np.array([[0, 3], [5, 0]])), smooth=False)
def without_nan(x, n):
    return (
        np.nansum(x, axis=0),
        np.nanmean(x, axis=1),
        np.nanprod(x),
        np.nanstd(x, axis=0),
        np.nanvar(x, ddof=1),
        np.nanmax(x, axis=0),
        np.nanmin(x),
        np.nancumsum(x, axis=1),
        np.nansum(n),
        np.nanmean(n, axis=0),
        np.count_nonzero(n),
        np.count_nonzero(n, axis=1),
        np.count_nonzero(x > 0.5, axis=0, keepdims=True),
    )


# -- products ----------------------------------------------------------------------------------------


@family(lambda: (reals(2, 3, 4), reals(2, 4, 3, seed=1), reals(4, 2, seed=2), reals(4, seed=3)))
def products(a, b, c, v):
    return (
        a @ b,
        a @ c,
        a @ v,
        v @ b,
        c.T @ b,
        np.matmul(a[:, None], b[:1]),
        np.dot(a, b),
        np.dot(a, v),
        np.inner(a, v),
        np.inner(c, c),
        np.vdot(a, b),
        np.outer(c, v),
        np.tensordot(a, b, axes=([1, 2], [2, 1])),
        np.tensordot(a, c, axes=1),
        np.tensordot(c, a, axes=(0, 2)),
        np.kron(c, v),
        np.cross(a[..., :3], b[0, :3]),
    )


# -- ufuncs ------------------------------------------------------------------------------------------


@family(lambda: (reals(3, 4), reals(4, seed=1), np.zeros((3, 4))))
def forms_of_ufuncs(x, y, out):
    np.add(x, y, out=out)
    np.multiply(x, out, out, where=x > 0.7)
    return (
        out,
        np.add.outer(y, x[0]),
        np.multiply.outer(x, y),
        np.add.reduce(x),
        np.maximum.reduce(x, axis=1),
        np.multiply.reduce(x, axis=None),
        np.add.accumulate(x),
        np.cumsum(x),
        np.cumprod(x, axis=1),
        x.cumsum(axis=0),
    )


@family(lambda: (reals(3, 4), reals(4, seed=1), np.zeros((3, 4), np.float32)), smooth=False)
def single_precision(x, y, single):
    np.subtract(x, y, out=single)
    np.sqrt(x, out=(single,), where=y > 0.5)
    return (single, np.exp(y, dtype=np.float32), np.linspace(np.float32(0.5), np.float32(2), 4))


@family(lambda: (np.arange(-4, 5), np.arange(1, 10, dtype=np.uint8), True), smooth=False)
def integer_reductions(n, u, flag):
    return (
        n << 2,
        n >> 1,
        u >> 3,
        np.left_shift(u, 1),
        np.cumsum(u),
        np.cumprod(u[:4], dtype=np.int32),
        np.maximum.accumulate(n[::-1]),
        np.sum(u, dtype=np.uint8),
        np.any(n > 3, axis=0, keepdims=True),
        np.all(n, where=n > 0),
        np.min(n, initial=-9),
        np.logical_or.reduce(n > 3),
    )


# -- creation ----------------------------------------------------------------------------------------


@family(lambda: (0.25, 2.0, 5))
def progressions(a, b, n):
    return (
        np.linspace(a, b, n),
        np.linspace(a, b, n, endpoint=False),
        np.linspace(a, b, 4, retstep=True)[1],
        np.linspace(0, 10, 5, dtype=np.int64),
        np.linspace(np.array([a, 1.0]), b, n, axis=1),
        np.linspace(a, b, 1),
        np.logspace(a, b, n),
        np.geomspace(a, b, n),
        np.identity(3),
        np.eye(n, 4, k=1),
        np.vander(np.array([a, b, 1.5]), 4),
        np.vander(np.array([a, b, 1.5]), increasing=True),
    )


@family(lambda: (np.arange(3.0), np.arange(4.0), 3), smooth=False)
def grids(x, y, n):
    u, v = np.meshgrid(x, y)
    p, q = np.mgrid[0:n, 1:4]
    s, t = np.ogrid[0:n, 0:6:2]
    return (
        u,
        v,
        np.meshgrid(x, y, indexing="ij", sparse=True)[1],
        p,
        q,
        s,
        t,
        np.mgrid[0.0:1.0:0.25],
        np.indices((2, n)),
        np.fromfunction(lambda i, j: i * 10 + j, (2, 3)),
        np.arange(10, 0, -n),
        np.ndarray((2, 2)).shape[0],
        np.result_type(x, np.float32).itemsize,
    )


# -- joining -----------------------------------------------------------------------------------------


@family(lambda: (reals(2, 3), reals(4, 3, seed=1), reals(3, seed=2), 2))
def joins(x, y, v, k):
    return (
        np.concatenate((x, y)),
        np.concatenate([x, x[:, :1]], axis=1),
        np.concatenate((x, v), axis=None),
        np.stack((x, x[::-1]), axis=-1),
        np.stack([v, v, 2 * v]),
        np.vstack((v, y)),
        np.hstack((v, 1.5, v[1:])),
        np.hstack((x, x)),
        np.dstack((v, v)),
        np.column_stack((v, y.T)),
        np.block([[x, x[:, :1]], [y, y[:, :1]]]),
        np.append(x, 3.0),
        np.insert(v, 1, 9.0),
        np.insert(x, k, v, axis=0),
        np.delete(v, -k),
        np.delete(y, slice(1, k), axis=0),
        np.tile(v, 2),
        np.tile(x, (k, 1, 2)),
        np.repeat(x, 2),
        np.repeat(x, k, axis=1),
        np.repeat(v, np.array([0, 2, 1])),
        np.concatenate((x, np.array([[1, 2, 3]]))),
    )


@family(lambda: (reals(6), reals(5, 4, seed=1), 2))
def splits(v, x, k):
    a, b = np.split(v, 2)
    c, d, e = np.array_split(x, 3)
    return (a, b, c, d, e, *np.split(x, (1, k), axis=1), *np.hsplit(v, [k]), *np.vsplit(x, [1]))


@family(lambda: (reals(4), reals(2, 3, seed=1), 2))
def pads(v, x, k):
    return (
        np.pad(v, 2),
        np.pad(x, ((1, k), (0, 1)), constant_values=3.0),
        np.pad(x, (1, 2), mode="edge"),
        np.pad(v, (k, 3), "reflect"),
        np.pad(v, 6, "symmetric"),
        np.pad(v, (5, k), mode="wrap"),
        np.pad(v, (2, 3), "linear_ramp", end_values=(1.0, 2.0)),
        np.pad(v, 1, "maximum"),
        np.pad(v, 1, "mean"),
        np.pad(np.array([1, 5, 2]), 2, "reflect"),
    )


@family(lambda: (reals(2, 3),))
def shape_in_place(x):
    y = x * 2.0
    z = y
    part = y[1]
    y.shape = (3, 2)
    y[0, 1] = x[0, 0]
    return (y, z, part)
