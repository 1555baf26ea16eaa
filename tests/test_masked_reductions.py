"""Reductions of what a mask picks, against NumPy: values, dtypes, what is raised, derivatives."""

import re
import warnings

import numpy as np
import pytest

import dlvm_py as dlvm

RNG = np.random.default_rng(3)


@dlvm.jit
def flat(x, y, low):
    m = (x > low) & (y < 2.0)
    return x[m].sum(), (x[m] * y[m] - low).mean(), np.sum(x[m] / y[m]), m.sum()


@dlvm.jit
def extremes(x, m):
    return x[m].max(), x[m].min(), (x[m] * x[m]).prod(), (x[m] > 1).sum()


@dlvm.jit
def by_places(x, m):
    (i,) = np.nonzero(m)
    return x[i].sum()


@dlvm.jit
def both(x, m):
    picked = x[m]
    return picked, picked.sum()


@dlvm.jit
def of_places(x, m):
    (i,) = np.nonzero(m)
    j, k = np.nonzero(x[:, None] > x)
    return i.sum(), i.max(), np.min(2 * i), (i + 0.5).sum(), (x[m] * i).sum(), (j < k).sum(), (j * k).max()


def same(found, expected, dtype=np.float64):
    for a, b in zip(found, expected, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-5 if dtype is np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums(dtype):
    """What is not picked takes no part, whatever it is; an empty choice sums to 0, and its mean is NaN."""
    for n in (0, 1, 5, 1500):
        x, y = RNG.standard_normal(n).astype(dtype), RNG.standard_normal(n).astype(dtype)
        y[::3] = [np.inf, np.nan, 3.0][n % 3]
        x[y > 2] = np.inf
        for low in (-0.5, 100.0):
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                same(flat(x, y, low), flat.__wrapped__(x, y, low), dtype)


@pytest.mark.parametrize("shape", [(7,), (30, 4)])
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_extremes(dtype, shape):
    """Maxima, minima, products and counts of masks of any rank; of nothing as NumPy raises."""
    x = np.asarray(RNG.standard_normal(shape) * 2, dtype)
    m = RNG.random(shape) < 0.6
    same(extremes(x, m), extremes.__wrapped__(x, m))
    for f in (extremes, extremes.__wrapped__):
        with pytest.raises(ValueError, match="zero-size array"):
            f(x, m & False)
        with pytest.raises(IndexError, match="boolean index did not match"):
            f(x, np.ones((9, *shape[1:]), bool))


def test_places_and_what_is_kept():
    """Places of a shorter mask are places: the rest is not looked at. What is picked and returned is picked."""
    x, m = RNG.standard_normal(9), np.array([True, False, True, True])
    assert by_places(x, m) == pytest.approx(x[:4][m].sum())
    m = x > 0
    same(both(x, m), both.__wrapped__(x, m))


def test_places_that_are_reduced():
    """Reduced, and computed with, the places are numbers like others: nothing is there where the mask is false."""
    x, m = np.linspace(-1, 1, 9), np.array([True, False, True, False, True, True, False, True, True])
    same(of_places(x, m), of_places.__wrapped__(x, m))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_extremes_of_choices_are_vectors(dtype):
    """The largest of what a mask leaves: NumPy's bits with nan and infinities, and no number after the other."""
    x = RNG.standard_normal((7, 37)).astype(dtype)
    x[2, 5], x[3, 6], x[4, 7], x[5] = np.nan, np.inf, -np.inf, np.nan

    @dlvm.jit
    def f(x):
        return np.max(np.where(x > 1, -np.inf, x)), np.min(np.where(np.isnan(x), np.inf, x)), np.nanmin(x)

    @dlvm.jit
    def along(x):
        return np.max(np.where(x < 0, x, -np.inf), axis=1), np.min(np.where(x < 0, np.inf, x), axis=0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for y in (x, x[:2], x[5:6], x.T):
            same(f(y), f.__wrapped__(y))
            same(along(y), along.__wrapped__(y))
    f(x[0])
    for how in ("fmax", "fmin"):
        assert re.search(rf"call.* @llvm\.vector\.reduce\.{how}\.v\d+f\d\d", f.llvm(x[0]))


def test_derivatives():
    """The gradient is there for what is picked alone, and forward mode agrees."""

    def f(x, y):
        m = y > 0
        return (x[m] ** 2 * y[m]).sum() / m.sum()

    x, y = RNG.standard_normal(40), RNG.standard_normal(40)
    dx, dy = dlvm.grad(f, wrt=(0, 1))(x, y)
    m = y > 0
    np.testing.assert_allclose(dx, np.where(m, 2 * x * y, 0) / m.sum(), rtol=1e-12)
    np.testing.assert_allclose(dy, np.where(m, x * x, 0) / m.sum(), rtol=1e-12)
    _, t = dlvm.jvp(f, (x, y), (x, y))
    assert t == pytest.approx(dx @ x + dy @ y)
