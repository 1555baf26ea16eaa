"""Elementary functions of our own: errors in ulp against multiple precision, special values, equal bits everywhere."""

import functools
import re
import struct

import mpmath
import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.backend.cpu import compile
from dlvm_py.ir.ops import special
from dlvm_py.ir.parser import parse_module
from dlvm_py.tools import native

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
    "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh,
    "arctanh": mpmath.atanh,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "gamma": lambda x: mpmath.gamma(x) if x > 0 or x != mpmath.floor(x) else mpmath.mpf(0),
    "lgamma": lambda x: (
        mpmath.loggamma(x) if x > 0 else mpmath.log(mpmath.pi / abs(x * mpmath.sinpi(x))) - mpmath.loggamma(-x)
    ),
    "arctan2": mpmath.atan2,
    "hypot": mpmath.hypot,
    "power": mpmath.power,
}
OF_LOG = ("log", "log2", "log10")
PERIODIC = ("sin", "cos", "tan")
BETWEEN = ("arcsin", "arccos", "arctanh")
TWO = ("arctan2", "hypot", "power")
MATH = ("erf", "erfc", "gamma", "lgamma")  # which NumPy has not: as a program of the IR
PROGRAM = """module "m"
stage raw

func @f: (<_ x {0}>) -> <_ x {0}> {{
'entry(%x: <_ x {0}>):
    %y = {1} %x: <_ x {0}>
    return %y: <_ x {0}>
}}
"""


@functools.cache
def compiled(name):
    """The function on arrays (and, of NumPy's, on numbers), compiled once for all tests."""
    if name in MATH:
        f = {d: native.callable_of(parse_module(PROGRAM.format(d, name)), "f") for d in ("f32", "f64")}
        return lambda x: f[f"f{8 * x.itemsize}"](np.ascontiguousarray(x))
    ufunc = getattr(np, name)
    return dlvm.jit((lambda x, y: ufunc(x, y)) if name in TWO else (lambda x: ufunc(x)))


def reference(name):
    """NumPy's function, or Python's."""
    if name in MATH:
        return getattr(special, name)
    return getattr(np, name)


def points(name, dtype, n):
    """Arguments of every magnitude for which the result is finite and normal; a tuple of arrays."""
    rng = np.random.default_rng(len(name))
    small = dtype is np.float32
    spread = lambda low, high: rng.choice([-1, 1], n) * 10.0 ** rng.uniform(low, high, n)  # noqa: E731
    if name in OF_LOG:
        near_one = 1 + rng.standard_normal(n) * 10.0 ** rng.uniform(-6 if small else -14, -0.5, n)
        found = [10.0 ** rng.uniform(-37, 37, n), np.abs(near_one) + 1e-3]
    elif name == "log1p":
        found = [rng.uniform(-0.999, 3, n), rng.standard_normal(n) * 10.0 ** rng.uniform(-20, -1, n)]
    elif name in PERIODIC:
        # near multiples of π/2, small and far; of every size
        near = rng.integers(-(2**50), 2**50, n) >> rng.integers(0, 50, n)
        found = [near * (np.pi / 2), spread(-8, 37 if small else 300), rng.uniform(-10, 10, n)]
    elif name in BETWEEN:
        found = [rng.uniform(-1, 1, n), spread(-12, 0), rng.choice([-1, 1], n) * (1 - 10.0 ** rng.uniform(-6, -0.1, n))]
    elif name == "arccosh":
        found = [1 + 10.0 ** rng.uniform(-6 if small else -14, 3, n), 10.0 ** rng.uniform(0, 37, n)]
    elif name in ("arcsinh", "arctan", "cbrt"):
        found = [rng.uniform(-3, 3, n), spread(-30, 37)]
    elif name == "gamma":
        largest = 35.0 if small else 171.6
        found = [rng.uniform(0, largest, n), rng.uniform(0, 8, n), -rng.uniform(0, largest, n)]
    elif name == "lgamma":
        # relative at its zeros 1 and 2; those below 0 are tested by themselves
        near = 1 + rng.integers(0, 2, n) + rng.standard_normal(n) * 10.0 ** rng.uniform(-6 if small else -14, -1, n)
        large = 10.0 ** rng.uniform(-30, 30 if small else 300, n)
        found = [rng.uniform(0, 8, n), large, near, -rng.uniform(10, 100, n)]
    elif name in MATH:
        found = [rng.uniform(-6, 9 if small else 26, n), rng.uniform(-1.5, 1.5, n)]
    elif name == "power":
        base = np.concatenate([10.0 ** rng.uniform(-37, 37, n), 1 + spread(-5, -0.5), -rng.integers(2, 50, n)])
        limit = 86.0 if small else 707.0
        exponent = rng.uniform(-limit, limit, 3 * n) / np.log(np.abs(base))
        exponent[-n:] = np.rint(exponent[-n:])
        return base.astype(dtype), exponent.astype(dtype)
    elif name in TWO:
        y = np.concatenate([spread(-18, 18), rng.standard_normal(n)])
        return y.astype(dtype), np.concatenate([y[:n] * spread(-3, 3), rng.standard_normal(n)]).astype(dtype)
    else:
        limit = (87.0 if small else 708.0) * (1.44 if name == "exp2" else 1.0)
        found = [rng.uniform(-limit, limit, n), rng.standard_normal(n) * 10.0 ** rng.uniform(-12, 0.5, n)]
    return (np.concatenate(found).astype(dtype),)


def worst(name, dtype, n):
    """The largest error of compiled code, in units of the last place of the exact result."""
    x = points(name, dtype, n)
    y = compiled(name)(*x)
    assert y.dtype == dtype
    info, found = np.finfo(dtype), 0.0
    with mpmath.workprec(140):
        for *a, b in zip(*(v.tolist() for v in x), y.tolist(), strict=True):
            with mpmath.workprec(140 + 1100 * (name in PERIODIC and abs(a[0]) > 1e9)):
                exact = EXACT[name](*map(mpmath.mpf, a))
            if info.tiny < abs(exact) < info.max:
                ulp = mpmath.mpf(2) ** (mpmath.floor(mpmath.log(abs(exact), 2)) - info.nmant)
                found = max(found, float(abs(mpmath.mpf(b) - exact) / ulp))
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", EXACT)
def test_errors_are_below_two_ulp(name, dtype):
    assert worst(name, dtype, 120) < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", EXACT)
def test_errors_are_below_two_ulp_at_many_points(name, dtype):
    assert worst(name, dtype, 20000) < 2.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", EXACT)
def test_special_values_are_numpys(name, dtype):
    info = np.finfo(dtype)
    x = np.array([0.0, -0.0, 1.0, -1.0, -2.0, 0.5, 3.0, -3.0, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny,
                  -info.tiny, info.smallest_subnormal, -info.smallest_subnormal, 1e4, -1e4], dtype)  # fmt: skip
    args = (np.repeat(x, x.size), np.tile(x, x.size)) if name in TWO else (x,)
    got = compiled(name)(*args)
    with np.errstate(all="ignore"):
        want = reference(name)(*args)
    np.testing.assert_allclose(got, want, rtol=4 * info.eps)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@dlvm.jit
def roots(x):
    return x**-3.5, x**-2.5, x**-1.5, x**-0.5, x**1.5, x**2.5, x**3.5


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_powers_of_roots(dtype):
    """Literal exponents, odd multiples of 1/2: within half a unit of the last place; subnormal and special values."""
    info, rng = np.finfo(dtype), np.random.default_rng(3)
    limit = 37 if dtype is np.float32 else 300
    x = np.concatenate([10.0 ** rng.uniform(-limit, limit, 60), rng.uniform(0.2, 9, 40)])
    ends = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, info.max, -info.tiny]
    x = np.concatenate([x, info.tiny * rng.uniform(size=9), ends]).astype(dtype)
    for exponent, y in zip(np.arange(-3.5, 4, 1)[np.arange(8) != 4], roots(x), strict=True):
        assert y.dtype == dtype
        with mpmath.workprec(140):
            for a, b in zip(x[:-9].tolist(), y.tolist(), strict=False):
                exact = mpmath.power(a, exponent) if a else mpmath.inf
                if exact < info.max:
                    size = max(mpmath.floor(mpmath.log(exact, 2)), info.minexp)
                    assert abs(b - exact) <= 0.75 * mpmath.mpf(2) ** (size - info.nmant), (a, exponent)
        with np.errstate(all="ignore"):
            want = np.power(x, dtype(exponent))[-9:]
        np.testing.assert_allclose(y[-9:], want, rtol=2 * info.eps)
        np.testing.assert_array_equal(np.signbit(y[-9:][~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))


def test_zeros_of_lgamma_on_the_negative_axis():
    """There the error is absolute: what cancels has some digits more than the result."""
    x = -np.random.default_rng(0).uniform(0, 10, 100)
    with mpmath.workprec(140):
        want = [float(EXACT["lgamma"](mpmath.mpf(v))) for v in x.tolist()]
    np.testing.assert_allclose(compiled("lgamma")(x), want, rtol=2.5e-16, atol=1e-17)


def test_angles_that_are_hard_to_reduce():
    """The double nearest to a multiple of π/2 relative to its size, the largest one, and both sides of the bound."""
    x = np.array([6381956970095103 * 2.0**797, np.finfo(float).max, 2.0**40, np.nextafter(2.0**40, np.inf), 1e22])
    with mpmath.workprec(1300):
        for name in PERIODIC:
            want = [float(EXACT[name](mpmath.mpf(v))) for v in x.tolist()]
            np.testing.assert_allclose(compiled(name)(x), want, rtol=4e-16)
            np.testing.assert_allclose(compiled(name)(-x), [v if name == "cos" else -v for v in want], rtol=4e-16)


@pytest.mark.parametrize("name", ["log2", "log10", "exp2"])
def test_powers_are_exact(name):
    exponents = np.arange(-300.0, 300.0) if name != "log10" else np.arange(0.0, 23.0)
    powers = 10.0**exponents if name == "log10" else 2.0**exponents
    x, y = (exponents, powers) if name == "exp2" else (powers, exponents)
    np.testing.assert_array_equal(compiled(name)(x), y)


@pytest.mark.parametrize("name", EXACT)
def test_the_same_bits_at_every_place_length_and_stride(name):
    """Vector loops, their remainders, strided loops and scalar code give one result."""
    f = compiled(name)
    x = [v[:: max(1, v.size // 75)][:75].copy() for v in points(name, np.float64, 40)]
    whole = f(*x)
    cuts = [(0, n, 1) for n in range(1, 34)] + [(k, 75, 1) for k in range(1, 9)] + [(0, 75, 3), (74, 0, -1)]
    for start, stop, step in cuts:
        part = slice(start, stop, step)
        np.testing.assert_array_equal(f(*(v[part] for v in x)), whole[part])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log10", "cbrt", "sin", "lgamma"])
def test_the_same_bits_with_tables_in_memory(name, dtype, monkeypatch):
    """What AVX-512 and AVX2 do by instructions of theirs, others do by tables in memory and products of powers."""
    (x,) = points(name, dtype, 40)
    text = PROGRAM.format(f"f{8 * x.itemsize}", name)
    whole = native.callable_of(parse_module(text), "f")(x)
    for feature in ("has_masks", "has_permutes"):
        monkeypatch.setattr(compile, feature, lambda: False)
        np.testing.assert_array_equal(native.callable_of(parse_module(text), "f")(x), whole)


@pytest.mark.parametrize("name", ["exp", "exp2", "sinh", "cosh"])
def test_numbers_go_their_own_way_to_the_bits_of_vectors(name):
    """Where a power is no normal number, infinite, or near that, numbers have a branch, and vectors have none."""
    limits = np.array([0, 700, 708.3, 709.78, 710, 710.5, 720, 740, 744.4, 745.2, 746, 800, 1e10, np.inf, np.nan])
    limits *= 1 / np.log(2) if name == "exp2" else 1
    near = np.concatenate([limits, np.nextafter(limits, 0), np.linspace(699, 747, 100)])
    x = np.concatenate([near, -near])
    f = compiled(name)
    np.testing.assert_array_equal([f(v) for v in x.tolist()], f(x))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(f(x), getattr(np, name)(x), rtol=1e-15, atol=1e-323)


@pytest.mark.parametrize("name", ["exp", "exp2", "sin", "power"])
def test_scalars_and_scalar_loops_have_the_bits_of_array_loops(name):
    ufunc = getattr(np, name)
    x = [v[:75] for v in points(name, np.float64, 40)]

    def unary(x):
        y = np.empty_like(x)
        for i in range(x.size):
            y[i] = ufunc(x[i])
        return y

    def binary(x, z):
        y = np.empty_like(x)
        for i in range(x.size):
            y[i] = ufunc(x[i], z[i])
        return y

    whole = compiled(name)(*x)
    np.testing.assert_array_equal(dlvm.jit(binary if name in TWO else unary)(*x), whole)
    scalar = dlvm.jit((lambda x, y: ufunc(x, y)) if name in TWO else (lambda x: ufunc(x)))
    assert [scalar(*v) for v in zip(*(v[::9].tolist() for v in x), strict=True)] == whole[::9].tolist()


@pytest.mark.parametrize(
    "name", [name if name in ("log", "sin", "power") else pytest.param(name, marks=pytest.mark.slow) for name in EXACT
             if name not in MATH])  # fmt: skip
def test_array_loops_vectorise(name):
    f = compiled.__wrapped__(name)
    f(*[np.ones(9)] * (1 + (name in TWO)))
    assert "x double>" in f.llvm() and not re.search(r"call double @elementary\.(?!far\.|rare\.)", f.llvm())


def of_columns(p):
    return np.arctan2(p[:, 1], p[:, 0])


def into_a_column(p):
    q = p.copy()
    q[:, 1] = np.exp(p[:, 0])
    return q


def by_a_loop(x):
    found = np.empty(len(x))
    for k in range(len(x)):
        found[k] = np.exp(x[k]) + np.sqrt(x[k])
    return found


@pytest.mark.parametrize(("f", "args"), [
    (of_columns, (np.random.default_rng(4).random((37, 3)),)),
    (into_a_column, (np.random.default_rng(5).random((37, 3)),)),
    (by_a_loop, (np.random.default_rng(6).random((37, 3))[:, 1],)),
])  # fmt: skip
def test_elements_apart_are_vectors(f, args):
    """LLVM makes no version for a stride of 1 byte, with one element at a time for all other strides."""
    found = dlvm.jit(f)
    np.testing.assert_allclose(found(*args), f(*args), rtol=1e-15)
    np.testing.assert_array_equal(found(*(a[::-1] for a in args))[::-1], found(*args))
    text = found.llvm(*args)
    assert "x double>" in text and "ident.check" not in text


def test_a_sine_and_a_cosine_of_one_number_reduce_it_once():
    """What scalar functions have in common is computed once, and the bits are those of each alone."""

    def both(x):
        return np.sin(x), np.cos(x)

    compiled, sine, cosine = dlvm.jit(both), dlvm.jit(lambda x: np.sin(x)), dlvm.jit(lambda x: np.cos(x))
    for x in (0.0, -0.0, 0.3, -2.5, 1e5, 1e20, np.inf):
        found, expected = np.array(compiled(x)), np.array((sine(x), cosine(x)))
        np.testing.assert_array_equal(found.view(np.int64), expected.view(np.int64))
    two_over_pi = struct.pack(">d", 2 / np.pi).hex().upper()
    assert compiled.llvm().count(f"0x{two_over_pi}") == 1


@pytest.mark.parametrize("dtype", (np.float64, np.float32))
@pytest.mark.parametrize("name", PERIODIC)
def test_small_angles_wait_for_no_reduction(name, dtype):
    """A number has a branch for them, which vectors have not, nor numbers beside another of these functions."""
    ufunc, other = getattr(np, name), np.cos if name == "sin" else np.sin
    edge, tiny = dtype(0.785), np.finfo(dtype).smallest_subnormal
    x = [dtype(v) for v in (0.0, tiny, 3 * tiny, 1e-30, 1e-12, np.pi / 4, np.nan, np.inf)]
    x += [edge, np.nextafter(edge, dtype(0)), np.nextafter(edge, dtype(1)), *np.linspace(0.01, 1.6, 160, dtype=dtype)]
    x = np.array([*x, *(-v for v in x)], dtype)
    alone, beside = dlvm.jit(lambda x: ufunc(x)), dlvm.jit(lambda x: (ufunc(x), other(x)))
    bits = np.int64 if dtype is np.float64 else np.int32
    for found in ([alone(v) for v in x], [beside(v)[0] for v in x]):
        np.testing.assert_array_equal(np.array(found, dtype).view(bits), compiled(name)(x).view(bits))
    branches = [any(c in f.llvm(x[0]) for c in ("7.850000e-01", "0x3FE91EB8")) for f in (alone, beside)]
    assert branches == [True, False]


@pytest.mark.parametrize("dtype", (np.float64, np.float32))
def test_rows_of_all_lengths_have_the_bits_of_their_elements(dtype):
    def several(x, y):
        return np.exp(-x) * y + x, x**y, np.tanh(x) > 0.25, np.log(x) + np.sin(y)

    compiled, rng = dlvm.jit(several), np.random.default_rng(5)
    whole = [rng.uniform(0.1, 2.0, (3, 70)).astype(dtype) for _ in "xy"]
    wanted = compiled(*whole)
    for length in (*range(35), 63, 64, 65):
        for first in (0, 3):
            given = [a[:, first : first + length] for a in whole]
            for args in (given, [a.copy() for a in given], [a[1] for a in given]):
                for found, all_of in zip(compiled(*args), wanted, strict=True):
                    part = all_of[:, first : first + length]
                    np.testing.assert_array_equal(found, part if found.ndim == 2 else part[1], strict=True)
