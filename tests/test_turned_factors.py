"""Contractions whose second factor lies along an axis that is summed (`_turned` in transforms/gather_windows.py)."""

import numpy as np
import pytest

import dlvm_py as dlvm


def rows(x, w):
    """What `x @ w.T` is, as a sum of products."""
    return np.sum(x[:, None, :] * w[None, :, :], axis=2)


def rows_of_planes(x, w):
    """The same of the last axis of three."""
    return np.sum(x[:, :, None, :] * w[None, None, :, :], axis=3)


def computed(x, w):
    """The factor is no array of the caller."""
    return np.sum(x[:, None, :] * np.exp(w)[None, :, :], axis=2) + w.sum()


def turned(x, w):
    """It lies the right way already."""
    return np.sum(x[:, None, :] * w.T[None, :, :], axis=2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("x", "w"), [
    ((40, 9), (5, 9)), ((3, 17), (33, 17)), ((1, 4), (6, 4)), ((5, 1), (3, 1)), ((0, 4), (3, 4)), ((4, 0), (3, 0)),
    ((4, 3), (0, 3)), ((7, 6), (1, 6)), ((7, 6), (8, 1)), ((7, 1), (8, 6)),
])  # fmt: skip
def test_values(x, w, dtype):
    """Any extents: none, one, and those that stretch; arrays that lie in another way."""
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal(x).astype(dtype), rng.standard_normal(w).astype(dtype)
    tolerance = {"rtol": 1e-12 if dtype == np.float64 else 1e-5, "atol": 1e-5 if dtype == np.float32 else 1e-12}
    for f in (rows, computed):
        compiled = dlvm.jit(f)
        for y in (b, np.asfortranarray(b), b[::-1, ::-1]):
            found = compiled(a, y)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, f(a, y), **tolerance)
    three = np.stack([a, a + 1])
    np.testing.assert_allclose(dlvm.jit(rows_of_planes)(three, b), rows_of_planes(three, b), **tolerance)


def squared(x, w):
    return np.sum(rows(x, w) ** 2) + np.sum(rows_of_planes(np.stack((x, x * x)), w) ** 2)


def convolved(x, w):
    """A convolution of one place, as a loop over places."""
    y = np.empty((x.shape[0], x.shape[1], w.shape[1]))
    for j in range(x.shape[1]):
        y[:, j, :] = np.sum(x[:, j, :, np.newaxis] * w[np.newaxis, :, :], axis=1)
    return np.sum(y * y * np.sin(y))


@pytest.mark.parametrize(("f", "x", "w"), [
    (squared, (6, 5), (4, 5)), (convolved, (3, 4, 5), (5, 7)), (convolved, (2, 1, 1), (1, 3)),
    (convolved, (2, 3, 8), (8, 1)),
])  # fmt: skip
def test_gradients(f, x, w):
    """Beside central differences."""
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal(x), rng.standard_normal(w)
    da, db = dlvm.grad(f, wrt=("x", "w"))(a, b)
    ta, tb = rng.standard_normal(x), rng.standard_normal(w)
    step = 1e-6
    expected = (f(a + step * ta, b + step * tb) - f(a - step * ta, b - step * tb)) / (2 * step)
    np.testing.assert_allclose(np.sum(da * ta) + np.sum(db * tb), expected, rtol=1e-6, atol=1e-6)


def test_what_is_not_finite():
    """Infinities and NaN come to the same elements as in NumPy."""
    x, w = np.ones((8, 5)), np.ones((6, 5))
    x[2, 2], w[3, 2], w[4, 1], x[5, 0] = 0.0, np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(dlvm.jit(rows)(x, w), rows(x, w))


def test_what_is_turned():
    """Factors that lie the other way, once; not those of a single row."""
    x, w = np.ones((8, 5)), np.ones((6, 5))
    assert "transpose" in dlvm.jit(rows).ir(x, w, stage="compute")
    assert dlvm.jit(turned).ir(x, w.T.copy(), stage="compute").count("allocateHeap") == 1
    one = dlvm.jit(lambda x, w: np.sum(x[None, None, :] * w[None, :, :], axis=2))
    assert one.ir(x[0], w, stage="compute").count("allocateHeap") == 1
