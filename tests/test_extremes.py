"""The largest and the smallest of floats: NaN wherever it stands, signs of zeros, all lengths, axes and strides."""

import warnings

import numpy as np
import pytest

import dlvm_py as dlvm

DTYPES = (np.float64, np.float32, np.float16)
LENGTHS = (1, 2, 3, 7, 8, 31, 33, 64, 127, 257, 1000)


@dlvm.jit
def extremes(x):
    return np.max(x), np.min(x)


@dlvm.jit
def spread(x):
    return np.ptp(x)


@dlvm.jit
def without_nan(x):
    return np.nanmax(x), np.nanmin(x)


@dlvm.jit
def of_expression(x, y):
    return np.max(np.abs(x - y)), np.min(x * y, initial=2.0)


def check(found, wanted):
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(f, w, strict=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_and_nan_at_every_place(dtype):
    rng = np.random.default_rng(0)
    for n in LENGTHS:
        x = rng.normal(size=n).astype(dtype)
        check(extremes(x), (np.max(x), np.min(x)))
        check(extremes(x[::-1]), (np.max(x), np.min(x)))
        check([spread(x)], [np.ptp(x)])
        for k in {0, 1, n // 2, n - 2, n - 1} & set(range(n)):
            for sign in (1, -1):
                y = x.copy()
                y[k] = np.copysign(np.nan, sign)
                assert all(np.isnan(v) and v.dtype == dtype for v in extremes(y))
                assert np.isnan(spread(y))
                y[(k + 1) % n] = sign * np.inf
                assert all(np.isnan(v) for v in extremes(y)) or n == 1


@pytest.mark.parametrize("dtype", (np.float64, np.float32))
def test_zeros_are_ordered_by_their_signs(dtype):
    for n in LENGTHS:
        x = np.full(n, -0.0, dtype)
        assert np.signbit(extremes(x)).all()
        x = np.zeros(n, dtype)
        assert not np.signbit(extremes(x)).any()
        for k in {0, n // 2, n - 1}:
            x = np.full(n, -0.0, dtype)
            x[k] = 0.0
            assert not np.signbit(extremes(x)[0])
            assert n == 1 or np.signbit(extremes(x)[1])
        x[::2] = -3
        assert extremes(x)[0] == 0 or n == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities(dtype):
    for n in LENGTHS:
        for fill in (np.inf, -np.inf):
            x = np.full(n, fill, dtype)
            check(extremes(x), (x[0], x[0]))
            x[n // 2] = -fill
            check(extremes(x), (np.max(x), np.min(x)))


@pytest.mark.parametrize("step", (1, 2, 3, -1, -2))
@pytest.mark.parametrize("dtype", DTYPES)
def test_strides(step, dtype):
    x = np.random.default_rng(1).normal(size=901).astype(dtype)
    y = x[::step]
    check(extremes(y), (np.max(y), np.min(y)))
    check(of_expression(y, -2 * y), (np.max(np.abs(y + 2 * y)), np.min(y * (-2 * y), initial=dtype(2.0))))


@pytest.mark.parametrize("dtype", (np.float64, np.float32, np.int16, np.uint64))
def test_strips_of_elements_that_lie_apart(dtype):
    for length in (1, 5, 1023, 1024, 1025, 3000):
        x = (np.random.default_rng(length).standard_normal((3, length * 2)) * 1000).astype(dtype)
        for place in (0, length // 2, length - 1):
            for special in (x.max(), x.min()) if x.dtype.kind in "iu" else (np.nan, np.inf, -np.inf):
                x[1, ::2][place] = special
                for view in (x[1, ::2], x[1, ::-2], x[:, ::2], x[::2, ::2]):
                    check(extremes(view), (np.max(view), np.min(view)))
        zeros = np.zeros(2 * length, dtype)[::2]
        zeros[length // 2] = -zeros[0]
        signs = np.signbit(extremes(zeros)).tolist()
        assert signs == ([length == 1, True] if x.dtype.kind == "f" else [False, False])


def test_initial_where_and_nothing():
    @dlvm.jit
    def given(x, m):
        return np.max(x, initial=0.5), np.min(x, initial=np.nan), np.max(x, initial=-np.inf, where=m)

    x = np.linspace(-2.0, 2.0, 41)
    m = x < 0.3
    check(given(x, m), (np.max(x, initial=0.5), np.nan, np.max(x, initial=-np.inf, where=m)))
    check(given(x[:0], m[:0]), (0.5, np.nan, -np.inf))
    with pytest.raises(ValueError, match="zero-size array"):
        extremes(x[:0])


AXES, LAYOUTS = (2, (0, 1), (1, 2), (0, 2)), ("C", "F", "slices", "stretched")
# of every axis two layouts, of every layout two axes; the other half is slow
ORDERS = [
    pytest.param(axis, layout, marks=() if (i + j) % 4 < 2 else pytest.mark.slow)
    for i, axis in enumerate(AXES)
    for j, layout in enumerate(LAYOUTS)
]


@pytest.mark.parametrize(("axis", "layout"), ORDERS)
def test_axes_that_lie_one_behind_the_other(axis, layout):
    @dlvm.jit
    def reduced(x, y):
        return np.max(x, axis=axis), np.sum(x * y, axis=axis)

    def plainly(x, y):
        return np.max(x, axis=axis), np.sum(x * y, axis=axis)

    rng = np.random.default_rng(2)
    for shape in ((5, 6, 7), (1, 40, 33), (3, 1, 19), (4, 21, 1), (1, 1, 1)):
        x, y = rng.normal(size=shape), rng.normal(size=shape)
        if layout == "F":
            x, y = np.asfortranarray(x), np.asfortranarray(y)
        elif layout == "slices":
            x, y = np.repeat(x, 2, 2)[:, :, ::2], np.repeat(y, 3, 1)[:, ::3]
        elif layout == "stretched":
            y = y[:, :1]
        x[0, 0, 0] = np.nan if shape[1] == 40 else 0.0
        for f, w in zip(reduced(x, y), plainly(x, y), strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-13, atol=1e-13, strict=True)


def test_sums_have_the_same_bits_whether_axes_are_merged_or_not():
    @dlvm.jit
    def total(x):
        return np.sum(x, axis=(1, 2))

    x = np.random.default_rng(3).normal(size=(3, 37, 41)) * np.logspace(-8, 8, 41)
    apart = np.zeros((3, 37, 82))[:, :, ::2]
    apart[...] = x
    np.testing.assert_array_equal(total(x), total(apart))
    np.testing.assert_array_equal(total(x[:, :2, :2]), total(x[:, :2, :2].copy()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_is_left_out(dtype):
    x = np.random.default_rng(4).normal(size=300).astype(dtype)
    x[::7] = np.nan
    check(without_nan(x), (np.nanmax(x), np.nanmin(x)))
    x[5], x[6] = np.inf, -np.inf
    check(without_nan(x), (dtype(np.inf), dtype(-np.inf)))
    check(without_nan(np.full(9, -np.inf, dtype)), (dtype(-np.inf), dtype(-np.inf)))
    check(without_nan(np.full(9, np.inf, dtype)), (dtype(np.inf), dtype(np.inf)))
    check(without_nan(np.full(9, np.nan, dtype)), (dtype(np.nan), dtype(np.nan)))


@pytest.mark.parametrize("axis", (0, 1, None))
def test_rows_of_nan_alone(axis):
    @dlvm.jit
    def reduced(x):
        return np.nanmax(x, axis=axis, keepdims=True), np.nanmin(x, axis=axis)

    x = np.random.default_rng(5).normal(size=(6, 9))
    x[2], x[:, 4], x[3, 3] = np.nan, np.nan, np.nan
    x[4, :] = -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        check(reduced(x), (np.nanmax(x, axis=axis, keepdims=True), np.nanmin(x, axis=axis)))


def test_the_largest_and_what_is_stored_in_one_kernel():
    @dlvm.jit
    def both(x):
        y = x * 2.0
        return y, np.max(y), np.min(y), np.sum(y)

    x = np.random.default_rng(6).normal(size=3001)
    y = x * 2.0
    for found, wanted in zip(both(x), (y, np.max(y), np.min(y), np.sum(y)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    x[17] = np.nan
    assert np.isnan(both(x)[1:]).all()
