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


# -- einsum ------------------------------------------------------------------------------------------


@family(lambda: (reals(3, 4), reals(4, 5, seed=1), reals(2, 3, 4, seed=2), reals(4, seed=3), reals(3, 3, seed=4)))
def einsums(a, b, c, v, s):
    return (
        np.einsum("ij,jk->ik", a, b),
        np.einsum("ij,jk", a, b),
        np.einsum("ij->ji", a),
        np.einsum("ij->", a),
        np.einsum("ij->j", a),
        np.einsum("ij,j->i", a, v),
        np.einsum("i,j->ji", v, v),
        np.einsum("i,i->", v, v),
        np.einsum("bij,bkj->bik", c, c),
        np.einsum("bij,bij->b", c, c),
        np.einsum("bij,ij,j->i", c, a, v),
        np.einsum("ij,jk,lk,il->", a, b, s[:, :1] * b[0], s),
        np.einsum("ii->i", s),
        np.einsum("ii", s),
        np.einsum("...ij,jk->...ik", c, b),
        np.einsum("i...->...", c),
        np.einsum("ijk,ij->k", c, c[:, :, 0]),
        np.einsum("bij,cij->bc", c, c),
    )


# -- calculus, convolution, polynomials --------------------------------------------------------------


@family(lambda: (reals(7), reals(4, 5, seed=1), np.cumsum(reals(7, seed=2)), 0.5))
def calculus(v, x, t, h):
    return (
        np.diff(v),
        np.diff(x, n=2, axis=0),
        np.diff(v, prepend=0.5, append=v[:2]),
        np.ediff1d(v, to_end=9.0),
        np.gradient(v),
        np.gradient(v, h),
        np.gradient(v, t, edge_order=2),
        np.gradient(x)[1],
        np.gradient(x, 2.0, axis=0, edge_order=2),
        np.trapezoid(v, t),
        np.trapezoid(x, dx=h, axis=0),
        np.interp(0.5 * t, t, v),
        np.interp(2.0, t, v, left=-1.0),
        np.unwrap(4.0 * v),
    )


@family(lambda: (reals(6), reals(3, seed=1), reals(2, 2, seed=2)))
def polynomials(a, v, x):
    return (
        np.convolve(a, v),
        np.convolve(a, v, "same"),
        np.convolve(v, a, mode="valid"),
        np.correlate(a, v),
        np.correlate(a, v, "full"),
        np.correlate(a, v, "same"),
        np.correlate(v, a, "same"),
        np.correlate(a, v[:2], "same"),
        np.polyval(v, x),
        np.polyval([1.0, 2.0], 3.0),
        np.polyadd(a, v),
        np.polysub(v, a),
        np.polyder(a, 2),
        np.polyint(v, k=1.0),
    )


# -- elements ----------------------------------------------------------------------------------------


@family(lambda: (reals(3, 4) - 0.9, reals(4, seed=1)))
def smooth_elements(x, y):
    return (
        np.logaddexp(x, y),
        np.logaddexp2(x, y),
        np.fmax(x, y),
        np.fmin(x, 0.3),
        np.fmod(x, 0.25),
        np.float_power(y, 2),
        np.sinc(x),
        np.nan_to_num(x),
        np.select((x > 0.5, x > 0.0), (x * 2.0, x**2), -x),
        np.round(x, 1) * x,
        np.modf(y)[0],
        np.heaviside(x, 0.5) * x,
        np.round(x[0]),
    )


@family(
    lambda: (
        np.array([1.0, np.nan, np.inf, -np.inf, -0.0, 2.5, -2.5]),
        np.array([-7, 7, -6, 0, 4]),
        np.array([3, -3, 4, 5, 0]),
        np.float32([0.5, np.nan]),
    ),
    smooth=False,
)
def special_elements(x, n, m, s):
    y = x.copy()
    np.copyto(y, 1.0, where=np.isnan(x))
    return (
        y,
        np.nan_to_num(x, nan=7.0, posinf=8.0),
        np.nan_to_num(s),
        np.isclose(x, x),
        np.isclose(x, x + 1e-9, equal_nan=True),
        np.allclose(n, n * 1.0),
        np.array_equal(n, n),
        np.array_equal(n, n[:2]),
        np.array_equal(x, x, equal_nan=True),
        np.array_equiv(n, n[None]),
        np.fmax(x, 0.0),
        np.fmin(s, s[::-1]),
        np.fmod(n, m[3]),
        np.fmod(x, 1.5),
        np.signbit(x),
        np.heaviside(x, 0.5),
        np.heaviside(n, 0.25),
        np.logaddexp(x, x),
        np.fix(x),
        np.isneginf(x),
        np.isposinf(x),
        np.gcd(n, m),
        np.lcm(n, 6),
        *np.divmod(n, 4),
        *np.modf(x),
        np.trace(np.outer(n, m), offset=1),
        np.sinc(n),
    )


@family(lambda: (reals(2, 3), reals(3, seed=1), reals(2, 3, 3, seed=2), 2))
def ranks(x, v, y, k):
    return (
        np.atleast_1d(v, 2.0)[1],
        np.atleast_2d(v),
        np.atleast_3d(x),
        *np.broadcast_arrays(x, v),
        np.rollaxis(y, 2),
        np.resize(v, (k, 4)),
        np.apply_along_axis(np.sum, 0, x),
        np.apply_along_axis(lambda r: r[0] * r[-1], 1, x),
        np.trace(x),
        np.trace(y, axis1=1, axis2=-1),
        np.hanning(5) * k,
        np.hamming(4),
        np.blackman(k + 4),
        np.bartlett(1),
        np.isscalar(k),
    )


@family(lambda: (reals(2, 3), reals(3, seed=1), np.zeros((2, 2)), 0.75))
def arguments_by_name(x, v, out, h):
    np.matmul(x, x.T, out=out)
    w = np.zeros(3)
    np.dot(x.T, x[:, 0], out=w)
    return (
        out,
        w,
        np.clip(x, 0.5, None),
        np.clip(x, min=h, max=1.0),
        x.reshape((3, 2), order="F"),
        np.ravel(x, order="F"),
        x.flatten("F"),
        np.expand_dims(v, (0, 2)),
        np.array([v, 2.0 * v]),
        np.array([[[h, 1.0], [2.0, 3.0]], [[4.0, h], [5.0, 6.0]]]),
        np.array(x, copy=True).astype(np.float64, copy=False),
    )


# -- what is made an array, what is computed ---------------------------------------------------------------


@family(lambda: (0.7, 1.5, 0.4, reals(2, 3)))
def lists_as_arrays(a, b, c, x):
    items, pair = [a, b, c], (b, 2.0)
    y = np.zeros((3, 2))
    y[0] = pair
    y[1:] = [[0.5, items[0]], pair]
    return (
        np.sum(items),
        np.sin(items),
        np.median(items) + np.mean(pair),
        np.outer(items, pair),
        np.dot(items, [1.0, 2.0, 3.0]),
        np.cumsum(pair),
        np.where(np.array(items) > 0.5, items, 0),
        np.linalg.norm(items),
        np.einsum("i,j->ij", items, pair),
        np.transpose([items, items]),
        np.add.reduce(items),
        x * items + (1, 2, 3),
        x @ items,
        [1.0, 2.0] @ x,
        x[0] > items,
        (1.0, 2.0, 3.0) == x[1],
        y,
        np.float64(2.0) - pair,
    )


@family(lambda: (reals(2, 3), reals(2, 3, 2, seed=1), 1, -1))
def computed_axes(x, y, k, last):
    return (
        np.sum(x, axis=k),
        y.mean(last),
        np.max(y, k - 1),
        np.cumsum(x * 2, last),
        np.flip(x, k),
        np.sort(x, axis=k),
        np.argmax(y, axis=k),
        np.concatenate((x, x), axis=k),
        np.stack((x, x), k + 1),
        np.expand_dims(x, k + 1),
        np.std(x, axis=last),
    )


@family(lambda: (np.array([0.5, 1.5]), 1, 0, 0.7))
def without_axes(x, flag, none, a):
    total = np.array(0.0)
    for v in x:
        total += v
    total[...] = total * 2
    return (
        total,
        np.array(a) + x,
        np.zeros(()),
        np.full((), a),
        np.ones_like(a),
        np.array([]),
        np.array([[], []]),
        np.ravel(a),
        np.transpose(a),
        np.angle(x * (1 + 1j), flag),
        np.angle(x * (1 - 2j), none),
        np.arange(3, step=2) * a,
        np.arange(stop=4),
        np.arange(1, stop=6, step=2, dtype=np.float32),
    )


@family(lambda: (np.array([3.0, 1.0, 2.0, 1.0, np.nan]), np.array([1, 5, 3]), 0.3), smooth=False)
def sets(x, n, q):
    return (
        np.union1d(x, n),
        np.intersect1d(x, n),
        np.intersect1d(n, n[::-1], assume_unique=True),
        np.setdiff1d(x, n),
        np.setxor1d(n, x[:4]),
        np.trim_zeros(np.array([0, 1, 0, 2, 0])),
        np.nanmedian(x),
        np.nanquantile(x, q),
        np.nanpercentile(x, [30.0, 60.0]),
        np.asfortranarray(np.outer(n, n)),
        np.bincount(n > 2),
        np.array(3 in n),
        np.array(2.5 not in x),
        *complex_order(x[[1, 3, 0, 0, 2]] - 1j * x),
    )


def complex_order(z):
    backwards = z[::-1].copy()
    backwards.sort()
    return (
        backwards,
        np.sort(np.stack((z, 1j * z)), 0),
        np.argsort(np.stack((1j * z, z[::-1])), kind="stable"),
        np.union1d(z, z[1:]),
        np.isin(z, z[2:], invert=True),
        np.lexsort((z, z.real)),
    )


@family(lambda: (reals(3, 4) * 30 - 20, 12, 5.0))
def bessel(x, n, beta):
    return np.log(np.i0(x)), np.kaiser(n, beta), np.log(np.i0(-x.flat[2])), np.kaiser(1, beta)
