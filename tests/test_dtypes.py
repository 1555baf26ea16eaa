"""Dtypes: NEP 50 promotion of every pair, integer semantics by flavour, stores, casts, float16."""

import itertools
import operator
import warnings

import numpy as np
import pytest
from test_frontend import call

import dlvm_py as dlvm
from dlvm_py.ir import OWN_DTYPES

NAMES = [d.numpy_name for d in OWN_DTYPES]
WEAK = {"bool": True, "int": 3, "float": 1.5, "complex": 1 + 2j}
EPS = {"float16": 1e-3, "float32": 3e-7, "complex64": 4e-6, "float64": 4e-15, "complex128": 4e-14}


def values(name):
    """Extremes and ordinary values of a dtype."""
    dtype = np.dtype(name)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([0, 1, 2, 7, info.max, info.max - 1, info.min, info.min + 1], dtype)
    if dtype.kind == "f":
        return np.array([0.0, -0.0, 0.5, 1, -1, -3.25, np.inf, -np.inf, np.nan, 60000], dtype)
    return np.array([0, 1, -1j, 0.5 + 2j, -2 - 1j, 3], dtype)


def grid(a, b):
    """Every element of one with every element of the other."""
    return [np.ascontiguousarray(m.ravel()) for m in np.meshgrid(values(a), values(b))]


def agree(got, expected):
    """Class, dtype, shape; integers exactly, floats within their precision, NaN where NaN, signs of zeros."""
    assert type(got) is type(expected)
    if isinstance(expected, tuple):
        for g, x in zip(got, expected, strict=True):
            agree(g, x)
        return
    got, expected = np.asarray(got), np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, expected)
        return
    fine = np.isfinite(expected) if expected.dtype.kind == "c" else np.ones(expected.shape, bool)
    atol = 2 * np.finfo(expected.dtype).smallest_subnormal if expected.dtype.kind == "c" else 0
    np.testing.assert_allclose(got[fine], expected[fine], rtol=EPS[expected.dtype.name], atol=atol)
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got[expected == 0]), np.signbit(expected[expected == 0]))


# -- promotion ---------------------------------------------------------------------------------------------

OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b, "&": lambda a, b: a & b,
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "maximum": lambda a, b: np.maximum(a, b), "minimum": lambda a, b: np.minimum(a, b),
    "arctan2": lambda a, b: np.arctan2(a, b), "hypot": lambda a, b: np.hypot(a, b),
    "copysign": lambda a, b: np.copysign(a, b), "logical_and": lambda a, b: np.logical_and(a, b),
}  # fmt: skip


def outcome(f, *args):
    """What NumPy does: a value, or the exception that it raises."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*args)
        except (TypeError, ValueError, ArithmeticError) as error:
            return error


def power(expected, a, b):
    """a ** b as NumPy has it, but complex64 exactly: some C libraries have those powers a thousandth off."""
    if np.result_type(expected) != np.complex64:
        return expected
    wide = outcome(operator.pow, *(np.asarray(v, np.complex128) for v in (a, b)))
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(expected), wide, expected).astype(np.complex64)[()]


def check(run, f, *args):
    """`run(f, *args)` does what NumPy does, exceptions included."""
    expected = outcome(f, *args)
    if not isinstance(expected, Exception):
        agree(run(f, *args), expected if f is not OPERATORS["**"] else power(expected, *args))
        return
    kind = next(k for k in (TypeError, ZeroDivisionError, OverflowError, ValueError) if isinstance(expected, k))
    with pytest.raises(kind), np.errstate(all="ignore"):
        run(f, *args)


def interpreted(f, *args):
    """f through the front end and the reference interpreter: promotion without native code."""
    with np.errstate(all="ignore"):
        return call(f, *(a.copy() if isinstance(a, np.ndarray) else a for a in args))


FEW = ["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "complex64"]
FEW_OPERATORS = ["+", "/", "//", "**", "&", "<<", "<", "maximum"]


@pytest.mark.parametrize("a", FEW)
def test_pairs_of_dtypes(a):
    """dtypes and values of operators, on every dtype with every other one: what NumPy refuses is a TypeError."""
    for b, name in itertools.product(FEW, FEW_OPERATORS):
        check(interpreted, OPERATORS[name], values(a)[:3], values(b)[:3])


@pytest.mark.parametrize("a", FEW)
def test_python_numbers_are_weak(a):
    """Arrays and NumPy scalars with Python's bool, int, float and complex, on either side."""
    for b, name in itertools.product(WEAK.values(), ["+", "//", "**", "<", "&"]):
        check(interpreted, OPERATORS[name], values(a)[:3], b)
        check(interpreted, OPERATORS[name], b, values(a)[1])


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), list(itertools.product(NAMES, repeat=2)))
def test_every_pair_natively(a, b):
    """All operators by native code, on all pairs of extreme values and on scalars."""
    for f in OPERATORS.values():
        check(lambda f, *args: dlvm.jit(f)(*args), f, *grid(a, b))
        check(lambda f, *args: dlvm.jit(f)(*args), f, np.dtype(a).type(3), np.dtype(b).type(2))


@pytest.mark.slow
@pytest.mark.parametrize("a", NAMES)
def test_weak_numbers_natively(a):
    """All operators with Python numbers, in and out of the range of the dtype."""
    for b, f in itertools.product([*WEAK.values(), 0, -1, 1000], OPERATORS.values()):
        check(lambda f, *args: dlvm.jit(f)(*args), f, values(a), b)
        check(lambda f, *args: dlvm.jit(f)(*args), f, b, values(a))


# -- integers of NumPy -------------------------------------------------------------------------------------


def integer_arithmetic(a, b):
    """Everything that NumPy's integers do without raising."""
    return (
        a + b, a - b, a * b, a // b, a % b, divmod(a, b), a / b, a & b, a | b, a ^ b, a << b, a >> b, -a, ~a, abs(a),
        +a,
        np.sign(a), np.square(a), np.floor(a), np.rint(a), np.maximum(a, b), a < b, a == b, a**2,
    )  # fmt: skip


INTEGER_ARITHMETIC = dlvm.jit(integer_arithmetic)


@pytest.mark.parametrize("name", ["int8", "uint8", "int64", "uint64"])
def test_integers_wrap(name):
    """Overflow wraps; division by zero gives 0; the smallest number by -1; shifts beyond the width."""
    for args in (grid(name, name), [values(name)[5], values(name)[0]], [values(name)[6], values(name)[-1]]):
        agree(INTEGER_ARITHMETIC(*args), outcome(integer_arithmetic, *args))


def test_uint64_is_compared_by_value():
    """uint64 with signed numbers and with Python ints: no rounding, no wrapping."""

    def f(a, b):
        return a == b, a != b, a < b, a <= b, a > b, a >= b, b < a, b >= a

    a, b = grid("uint64", "int64")
    compiled = dlvm.jit(f)
    for args in ((a, b), (b, a), (a, -1), (a, 7), (a[3], b[0])):
        agree(compiled(*args), f(*args))


def test_weak_ints_out_of_bounds():
    """NumPy 2 raises OverflowError for a Python int that the dtype cannot hold; comparisons compare."""
    x = np.array([1, 100], np.int8)
    for f in (lambda x: x + 128, lambda x: x * -129, lambda x: np.full(2, 300, np.uint8), lambda x: np.int8(200)):
        check(lambda f, *args: dlvm.jit(f)(*args), f, x)
    agree(dlvm.jit(lambda x: x < 1000)(x), x < 1000)


# -- integers of Python ------------------------------------------------------------------------------------


def python_integers(a, b):
    return a // b, a % b, divmod(a, b), a / b, a & b, a | b, a ^ b, ~a, -a, abs(a), a == b, a < b, a >> abs(b)


def test_python_division():
    """// and % of negative ints, as Python's."""
    f = dlvm.jit(python_integers)
    for a, b in itertools.product((7, -7, 0, 2**62, -(2**63) + 1), (2, -2, 5, -(2**40), 2**63 - 1)):
        assert f(a, b) == python_integers(a, b)


SMALLEST = -(2**63)
OVERFLOWS = [
    (operator.add, 2**63 - 1, 1), (operator.sub, SMALLEST, 1), (operator.mul, 2**62, 2),
    (operator.floordiv, SMALLEST, -1), (operator.lshift, 1, 63), (operator.lshift, -3, 62),
    (operator.lshift, 1, 1000), (operator.pow, 3, 50),
]  # fmt: skip
EXACT = [
    (operator.lshift, 1, 62), (operator.lshift, -1, 63), (operator.lshift, 0, 1000), (operator.lshift, 5, 0),
    (operator.rshift, -5, 1), (operator.rshift, -5, 1000), (operator.rshift, 5, 64), (operator.pow, -2, 63),
    (operator.mod, SMALLEST, -1),
]  # fmt: skip
BINARY = {
    operator.add: lambda a, b: a + b, operator.sub: lambda a, b: a - b, operator.mul: lambda a, b: a * b,
    operator.floordiv: lambda a, b: a // b, operator.lshift: lambda a, b: a << b, operator.rshift: lambda a, b: a >> b,
    operator.pow: lambda a, b: a**b, operator.mod: lambda a, b: a % b,
}  # fmt: skip


def test_python_ints_overflow_with_the_line():
    """An int of more than 64 bits is an OverflowError, never a wrong number; what fits is exact."""
    for op, a, b in OVERFLOWS:
        with pytest.raises(OverflowError):
            interpreted(BINARY[op], a, b)
    for op, a, b in EXACT:
        assert interpreted(BINARY[op], a, b) == op(a, b)
    for f in (lambda a: -a, lambda a: abs(a)):
        with pytest.raises(OverflowError):
            dlvm.jit(f)(SMALLEST)
    with pytest.raises(ValueError, match="negative shift count"):
        dlvm.jit(lambda a, b: a >> b)(1, -1)


def test_natively():
    """The same checks in native code: a shift, a store."""
    shift, store = dlvm.jit(BINARY[operator.lshift]), dlvm.jit(store_element)
    assert shift(3, 60) == 3 << 60
    x = np.zeros(2, np.int8)
    for f, args, kind in (
        (shift, (3, 62), OverflowError), (store, (x, 300.5), OverflowError), (store, (x, np.nan), ValueError),
        (store, (x, np.float64(1e30)), OverflowError),
    ):  # fmt: skip
        with pytest.raises(kind):
            f(*args)
    assert store(x, -7.5)[0] == -7


# -- stores and casts --------------------------------------------------------------------------------------


def store_element(x, v):
    x[0] = v
    return x


def store_everywhere(x, v):
    x[:] = v
    return x


def array_of(x, v):
    return np.array([v, v], x.dtype)


STORED = [
    np.nan, np.inf, 300.7, -1.5, -0.5, 1e30, 2.0**63, -129, 255, True, 2**62,
    np.float64(np.nan), np.float64(-np.inf), np.float32(300.7), np.int64(300), np.uint64(2**63 + 5), np.int8(-1),
]  # fmt: skip


@pytest.mark.parametrize("name", ["int8", "int64", "uint8", "uint64"])
def test_stores_into_integer_arrays(name):
    """A number is stored by way of Python's int, with its errors; a NumPy scalar into an unsigned array is cast."""
    for f, v in itertools.product((store_element, store_everywhere, array_of), STORED):
        x = np.zeros(2, name)
        expected = outcome(f, x.copy(), v)
        if isinstance(expected, Exception):
            with pytest.raises(type(expected)) as caught:
                interpreted(f, x, v)
            assert str(expected) in str(caught.value)
        else:
            agree(interpreted(f, x, v), expected)


def casts_of_scalars(x):
    """Python's conversions and roundings of a number."""
    return int(x), float(x), bool(x), round(x), abs(x), +x


def test_conversions():
    """int, float, bool, round of every kind of number."""
    f = dlvm.jit(casts_of_scalars)
    for v in (True, 7, -2.5, 3.5, np.float32(0.5), np.int8(-128), np.uint8(200), np.float16(2.5)):
        got, expected = f(v), outcome(casts_of_scalars, v)
        assert [type(g) for g in got[:3]] == [int, float, bool]
        assert got == expected


# -- float16 -----------------------------------------------------------------------------------------------


def half_precision(a, b):
    """Arithmetic, functions and reductions."""
    return (
        a + b, a - b, a * b, a / b, a // b, a % b, a**b, np.maximum(a, b), a < b, -a, abs(a), np.exp(a), np.sin(a),
        np.sqrt(abs(a)), np.tanh(b), np.floor(a), a * 2, a + 0.1, a * np.float32(2), a.astype(np.float64), a == b,
    )  # fmt: skip


def test_float16():
    """Each operation in float32 and rounded, as in NumPy; Python numbers are weak, float32 is stronger."""
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-3, 3, 40).astype(np.float16) for _ in range(2))
    f = dlvm.jit(half_precision)
    agree(f(a, b), outcome(half_precision, a, b))
    agree(f(a[0], b[1]), outcome(half_precision, a[0], b[1]))


def half_sums(a):
    return (
        np.sum(a),
        np.sum(a, axis=0),
        np.mean(a),
        np.mean(a, axis=1),
        np.prod(a),
        np.max(a),
        a @ a.T,
        np.dot(a[0], a[1]),
    )


def test_float16_sums():
    """Sums, means and products are accumulated in float32 and rounded once."""
    a = np.random.default_rng(1).uniform(0.5, 1.5, (3, 40)).astype(np.float16)
    agree(dlvm.jit(half_sums)(a), half_sums(a))


def test_float16_gradient():
    """Derivatives have the argument's dtype."""
    x = np.array([0.5, 1.0, 2.0], np.float16)
    g = dlvm.grad(lambda x: np.sum(x * x * x))(x)
    agree(g, (3 * x.astype(float) ** 2).astype(np.float16))


def splitmix(a):
    """Constants of 64 bits without a sign: given to np.uint64, and beside its numbers."""
    x = np.uint64(0x9E3779B97F4A7C15)
    for i in range(len(a)):
        x += 0x9E3779B97F4A7C15
        z = (x ^ (x >> np.uint64(30))) * 0xBF58476D1CE4E5B9
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        if z > 0x8000000000000000:
            a[i] ^= 0xFFFFFFFFFFFFFFFF & z
    return x, 0x8000000000000001 == a, a + 0x8000000000000001


def test_constants_of_uint64():
    a = np.arange(9).astype(np.uint64)
    a[8] = 2**63 + 1
    with np.errstate(over="ignore"):
        expected = splitmix(a.copy())
    agree(dlvm.jit(splitmix)(a.copy()), expected)
    for wide in (lambda n: n & 0xFFFFFFFFFFFFFFFF, lambda n: n == 0xFFFFFFFFFFFFFFFF, lambda n: np.uint64(2**64)):
        with pytest.raises((dlvm.CompileError, OverflowError)):
            dlvm.jit(wide)(3)
