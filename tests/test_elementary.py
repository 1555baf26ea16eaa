"""Elementary functions of our own: errors in ulp against multiple precision, special values, equal bits everywhere."""

import re

import mpmath
import numpy as np
import pytest

import dlvm_py as dlvm

EXACT = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "log10": mpmath.log10,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
}
OF_LOG = ("log", "log2", "log10")


def compiled(name):
    ufunc = getattr(np, name)
    return dlvm.jit(lambda x: ufunc(x))


def points(name, dtype, n):
    """Arguments of every magnitude for which the result is finite and normal."""
    rng = np.random.default_rng(len(name))
    small = dtype is np.float32
    if name in OF_LOG:
        near_one = 1 + rng.standard_normal(n) * 10.0 ** rng.uniform(-6 if small else -14, -0.5, n)
        found = [10.0 ** rng.uniform(-37, 37, n), np.abs(near_one) + 1e-3]
    elif name == "log1p":
        found = [rng.uniform(-0.999, 3, n), rng.standard_normal(n) * 10.0 ** rng.uniform(-20, -1, n)]
    else:
        limit = (87.0 if small else 708.0) * (1.44 if name == "exp2" else 1.0)
        found = [rng.uniform(-limit, limit, n), rng.standard_normal(n) * 10.0 ** rng.uniform(-12, 0.5, n)]
    return np.concatenate(found).astype(dtype)


def worst(name, dtype, n):
    """The largest error of compiled code, in units of the last place of the exact result."""
    x = points(name, dtype, n)
    y = compiled(name)(x)
    assert y.dtype == dtype
    info, found = np.finfo(dtype), 0.0
    with mpmath.workprec(140):
        for a, b in zip(x.tolist(), y.tolist(), strict=True):
            exact = EXACT[name](mpmath.mpf(a))
            if info.tiny < abs(exact) < info.max:
                ulp = mpmath.mpf(2) ** (mpmath.floor(mpmath.log(abs(exact), 2)) - info.nmant)
                found = max(found, float(abs(mpmath.mpf(b) - exact) / ulp))
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", EXACT)
def test_errors_are_below_two_ulp(name, dtype):
    assert worst(name, dtype, 400) < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", EXACT)
def test_errors_are_below_two_ulp_at_many_points(name, dtype):
    assert worst(name, dtype, 20000) < 2.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", EXACT)
def test_special_values_are_numpys(name, dtype):
    info = np.finfo(dtype)
    x = np.array([0.0, -0.0, 1.0, -1.0, -2.0, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, -info.tiny,
                  info.smallest_subnormal, -info.smallest_subnormal, 1e4, -1e4], dtype)  # fmt: skip
    got = compiled(name)(x)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x)
    np.testing.assert_allclose(got, want, rtol=4 * info.eps)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@pytest.mark.parametrize("name", ["log2", "log10", "exp2"])
def test_powers_are_exact(name):
    exponents = np.arange(-300.0, 300.0) if name != "log10" else np.arange(0.0, 23.0)
    powers = 10.0**exponents if name == "log10" else 2.0**exponents
    x, y = (exponents, powers) if name == "exp2" else (powers, exponents)
    np.testing.assert_array_equal(compiled(name)(x), y)


@pytest.mark.parametrize("name", EXACT)
def test_the_same_bits_at_every_place_length_and_stride(name):
    """Vector loops, their remainders, strided loops and scalar code give one result."""
    ufunc = getattr(np, name)

    def one_by_one(x):
        y = np.empty_like(x)
        for i in range(x.size):
            y[i] = ufunc(x[i])
        return y

    x = points(name, np.float64, 40)[:75]
    whole = compiled(name)(x)
    np.testing.assert_array_equal(dlvm.jit(one_by_one)(x), whole)
    for start, stop, step in ((0, 1, 1), (1, 8, 1), (3, 75, 1), (0, 75, 3), (74, 0, -1)):
        np.testing.assert_array_equal(compiled(name)(x[start:stop:step]), whole[start:stop:step])
    scalar = dlvm.jit(lambda v: ufunc(v))
    assert [scalar(v) for v in x[:5]] == whole[:5].tolist()


@pytest.mark.parametrize("name", EXACT)
def test_array_loops_vectorise(name):
    f = compiled(name)
    f(np.ones(9))
    assert "x double>" in f.llvm() and not re.search(r"call double %|@dlvm\.\w+\.double", f.llvm())
