"""Complex numbers: values and errors of NumPy and of Python, views of the parts, gradients."""

import cmath
import itertools
import operator

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

DTYPES = (np.complex64, np.complex128)
EPS = {d: np.finfo(d).eps for d in DTYPES}


def numbers(*shape, seed=0, dtype=np.complex128):
    """Ordinary complex numbers, some on each side of every axis."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(0.2, 1.6, shape) * np.exp(1j * rng.uniform(-3, 3, shape))).astype(dtype)


def agree(got, expected, ulps=8):
    """Same class, dtype and shape; values within a few ulps of the modulus; NaN where NaN."""
    assert type(got) is type(expected)
    if isinstance(expected, tuple):
        for g, x in zip(got, expected, strict=True):
            agree(g, x, ulps)
        return
    got, expected = np.asarray(got), np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
    np.testing.assert_allclose(got, expected, rtol=ulps * eps, atol=0)


# -- forward -------------------------------------------------------------------------------------------


def unary(z):
    """Every function of one complex argument that NumPy has."""
    return (
        np.exp(z), np.exp2(z), np.expm1(z), np.log(z), np.log2(z), np.log10(z), np.log1p(z), np.sqrt(z), np.square(z),
        np.sin(z), np.cos(z), np.tan(z), np.arcsin(z), np.arccos(z), np.arctan(z),
        np.sinh(z), np.cosh(z), np.tanh(z), np.arcsinh(z), np.arccosh(z), np.arctanh(z),
        np.abs(z), np.absolute(z), np.sign(z), np.rint(z), np.negative(z), -z, +z, np.conj(z), z.conj(),
        np.reciprocal(z),
        z.real, z.imag, np.real(z), np.imag(z), np.angle(z), np.angle(z, deg=True),
        np.isnan(z), np.isinf(z), np.isfinite(z), np.iscomplex(z), np.isreal(z), np.logical_not(z),
        z**2, z**3, z**0.5, z**-1, z**-4, z**1, z**7, z**2.5, z**(1 - 0.5j),
    )  # fmt: skip


UNARY = dlvm.jit(unary)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary_functions(dtype):
    """Arrays and NumPy scalars give NumPy's values, dtypes and classes."""
    z = numbers(7, dtype=dtype)
    agree(UNARY(z), unary(z))
    agree(UNARY(z[2]), unary(z[2]))


SPECIAL = np.array([complex(a, b) for a, b in itertools.product((0.0, -0.0, 1.0, np.inf, -np.inf, np.nan), repeat=2)])


def test_special_values():
    """Infinities, NaN and signed zeros: parts as NumPy has them."""

    def f(z):
        return (
            np.exp(z),
            np.sqrt(z),
            np.sin(z),
            np.tanh(z),
            np.abs(z),
            np.sign(z),
            np.conj(z),
            -z,
            z + z,
            z.real,
            np.angle(z),
        )

    with np.errstate(all="ignore"):
        expected = f(SPECIAL)
    for got, x in zip(dlvm.jit(f)(SPECIAL), expected, strict=True):
        for g, y in ((got.real, x.real), (got.imag, x.imag)):
            np.testing.assert_allclose(g, y, rtol=1e-14)
            same = np.isnan(y) | (np.signbit(g) == np.signbit(y))
            assert same.all()


def binary(a, b):
    """Operators and functions of two complex arguments."""
    return (
        a + b, a - b, a * b, a / b, a**b, a == b, a != b, a < b, a <= b, a > b, a >= b,
        np.maximum(a, b), np.minimum(a, b),
    )  # fmt: skip


@pytest.mark.parametrize("other", [np.complex64, np.float64, np.int16, complex, float])
def test_binary_functions(other):
    """With every kind of partner, by NumPy's promotion; Python numbers are weak."""
    compiled = dlvm.jit(binary)
    for a in (numbers(6, dtype=np.complex64), numbers(1)[0]):
        b = other(2) if other in (complex, float) else np.ceil(np.abs(numbers(6, seed=1) * 2)).astype(other)
        agree(compiled(a, b), binary(a, b), ulps=20)
        agree(compiled(b, a), binary(b, a), ulps=20)


def test_lexicographic_order():
    """NumPy compares complex numbers by the real part, then by the imaginary one; NaN is contagious."""
    z = np.array([1 + 2j, 1 - 2j, -1 + 5j, 1 + 2j])

    def g(z, w):
        return z < w, z >= w, np.maximum(z, w), np.max(z), np.min(z)

    agree(dlvm.jit(g)(z, z[::-1].copy()), g(z, z[::-1].copy()))
    assert np.isnan(dlvm.jit(lambda z: np.max(z))(np.array([1j, complex(np.nan, 0), 2])))


def reductions(z):
    return (
        np.sum(z), np.sum(z, axis=0), z.sum(axis=1), np.prod(z, axis=1), np.mean(z), z.mean(axis=0),
        np.any(z), np.all(z), z @ z.T, np.dot(z, z[0]), np.dot(z[0], z[1]), np.vdot(z, z), np.vdot(z[0], z[1]),
        np.outer(z[0], z[1]), z.T, z.reshape(-1), np.zeros_like(z), np.full(3, z[0, 0]), np.iscomplexobj(z),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_and_products(dtype):
    """Sums, products, means, dot, matmul, vdot (which conjugates)."""
    z = numbers(4, 5, dtype=dtype)
    agree(dlvm.jit(reductions)(z), reductions(z), ulps=200)


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_sums_are_pairwise(dtype):
    """The error of a sum grows with the logarithm of its length, whatever the strides."""
    rng = np.random.default_rng(4)
    z = (rng.uniform(0, 1, (300, 701)) + 1j * rng.uniform(0, 1, (300, 701))).astype(dtype)
    f = dlvm.jit(lambda z: np.sum(z))
    for x in (z, z[:, ::3], z.T, z[:1, :5]):
        exact = np.sum(x.astype(np.clongdouble))
        assert abs(f(x) - exact) < 8 * EPS[dtype] * abs(exact)


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_products_by_blas(dtype):
    """gemm of all layouts."""
    a, b = numbers(37, 40, dtype=dtype), numbers(40, 33, seed=1, dtype=dtype)
    f = dlvm.jit(lambda a, b: a @ b)
    for x, y in ((a, b), (np.asfortranarray(a), b), (a, np.asfortranarray(b)), (a[::2, ::2], b[::2, ::-1])):
        np.testing.assert_allclose(f(x, y), x @ y, rtol=0, atol=2000 * EPS[dtype])


# -- views -------------------------------------------------------------------------------------------------


def write_parts(z, x):
    z.real[1:] = 3.0
    z.imag *= 2
    z.real += z.imag
    part = z.T.imag
    part[0] = x[:, 0]
    z.imag[-1] -= np.sum(z.real, axis=0)
    np.real(z)[0, 0] = 9
    z.real = z.imag + x
    return part


def test_parts_are_views():
    """What is written to z.real and z.imag is in z; a part of a result has its array as base."""
    for z in (numbers(3, 4), np.asfortranarray(numbers(3, 4)), numbers(6, 8)[::2, ::-2]):
        x = np.arange(12.0).reshape(3, 4)
        ours, theirs = z.copy(order="K"), z.copy(order="K")
        got = dlvm.jit(write_parts)(ours, x)
        expected = write_parts(theirs, x)
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(got, expected)
        assert got.base is not None and np.shares_memory(got, ours)


def test_views_in_loops():
    """A store through a part is seen by loads of the number, element by element."""

    def f(z):
        total = 0j
        for k in range(len(z)):
            total += z[k]
            z.real[k] = total.imag
            z.imag[k] = z[k].real
            total = total + z[k] * 1j
        return total

    a, b = numbers(5), numbers(5)
    agree(dlvm.jit(f)(a), f(b))
    agree(a, b)


def test_part_of_a_real_array():
    """x.real is x; x.imag is zeros that cannot be written."""

    def f(x):
        return x.real, x.imag, np.imag(x[0]), np.angle(x)

    x = np.array([1.0, -2.0])
    agree(dlvm.jit(f)(x), f(x))

    def g(x):
        y = x.imag
        y[0] = 1.0

    with pytest.raises(dlvm.CompileError):
        dlvm.jit(g)(x)


# -- Python's complex ------------------------------------------------------------------------------------

PYTHON = [1 + 2j, -0.5j, 2 - 0.25j]
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]


def python_arithmetic(a, b):
    return (
        a + b,
        a - b,
        a * b,
        a / b,
        a**b,
        a == b,
        a != b,
        -a,
        abs(a),
        a.real,
        b.imag,
        a.conjugate(),
        bool(a),
        complex(b),
    )


PYTHON_ARITHMETIC = dlvm.jit(python_arithmetic)


@pytest.mark.parametrize("b", [3 - 1j, 2.0, 3, True, -2])
def test_python_arithmetic(b):
    """Python's numbers stay Python's: complex with complex, float, int, bool."""
    for a in PYTHON:
        agree(PYTHON_ARITHMETIC(a, b), python_arithmetic(a, b), ulps=4)


def test_constants_and_captures():
    """Literals, complex(...), captured complex numbers and arrays."""
    w, table = 0.5 - 2j, numbers(3)

    def f(x):
        z = x * 1j + (2 - 1j) ** 2
        return z * w + complex(x, 2) + complex(1, x) + complex("1+2j") + complex(1j, 2j), table * x, np.complex64(w) * x

    agree(dlvm.jit(f)(0.25), f(0.25))


def test_joins():
    """int, float and complex join to complex; loops carry complex numbers."""

    def f(n, c):
        z = 0
        for _ in range(n):
            z = z * z + c
        return z

    assert dlvm.jit(f)(5, 0.1 + 0.2j) == f(5, 0.1 + 0.2j)


RAISING = [
    (lambda z: z / 0, 1j),
    (lambda z: 1 / z, 0j),
    (lambda z: z**-1, 0j),
    (lambda z: z**1j, 0j),
    (lambda z: z**2.5, 1.5e308 + 1.5e308j),
    (lambda z: abs(z), 1.5e308 + 1.5e308j),
    (lambda z: cmath.log(z), 0j),
    (lambda z: cmath.log10(z), 0j),
    (lambda z: cmath.exp(z), 1000 + 0j),
    (lambda z: cmath.exp(z), complex(1, np.inf)),
    (lambda z: cmath.sin(z), complex(np.inf, 1)),
    (lambda z: cmath.tanh(z), complex(1, np.inf)),
    (lambda z: cmath.atanh(z), 1 + 0j),
    (lambda z: cmath.atan(z), 1j),
    (lambda z: cmath.rect(1.0, z.real), complex(np.inf, 0)),
]


@pytest.mark.parametrize("case", range(len(RAISING)))
def test_python_raises(case):
    """ZeroDivisionError, OverflowError and ValueError, in Python's words."""
    f, z = RAISING[case]
    with pytest.raises((ArithmeticError, ValueError)) as expected:
        f(z)
    with pytest.raises(expected.type) as got:
        dlvm.jit(f)(z)
    assert str(expected.value) in str(got.value)


def test_cmath():
    """cmath on complex, float and int arguments."""

    def f(z):
        return (
            cmath.exp(z), cmath.log(z), cmath.log(z, 2), cmath.log10(z), cmath.sqrt(z), cmath.sin(z), cmath.cos(z),
            cmath.tan(z), cmath.sinh(z), cmath.cosh(z), cmath.tanh(z), cmath.asin(z), cmath.acos(z), cmath.atan(z),
            cmath.asinh(z), cmath.acosh(z), cmath.atanh(z), cmath.phase(z), cmath.polar(z), cmath.rect(1.5, 0.3),
            cmath.isnan(z), cmath.isinf(z), cmath.isfinite(z), cmath.pi * z,
        )  # fmt: skip

    for z in (0.3 - 0.4j, -0.7, 2):
        agree(dlvm.jit(f)(z), f(z))


REFUSED = [
    (lambda z: z < 1, "order"),
    (lambda z: z // 2, "//"),
    (lambda z: z % 2, "%"),
    (lambda z: float(z), "real"),
    (lambda z: int(z), "real"),
    (lambda z: round(z), "real"),
    (lambda z: max(z, 1j), "order"),
    (lambda z: np.floor(np.array([z])), "floor"),
    (lambda z: np.arctan2(z, z), "arctan2"),
    (lambda z: np.array([z]) % 2, "remainder"),
    (lambda z: np.float64(z), "complex"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused(case):
    """What Python and NumPy refuse is refused at compile time, with the line."""
    f, words = REFUSED[case]
    with pytest.raises(dlvm.CompileError) as error:
        dlvm.jit(f)(1j)
    assert words in str(error.value) and isinstance(error.value, TypeError)


def test_stores_of_complex_into_real_are_refused():
    """NumPy would warn and drop the imaginary part; astype says that it is meant."""

    def store(x, z):
        x[0] = z[0]

    def store_all(x, z):
        x[:] = z

    def add(x, z):
        x += z

    x, z = np.zeros(3), numbers(3)
    for f in (store, store_all, add):
        with pytest.raises(dlvm.CompileError):
            dlvm.jit(f)(x, z)
    agree(dlvm.jit(lambda z: z.astype(np.float32))(z), z.real.astype(np.float32))
    agree(dlvm.jit(lambda x: x.astype(np.complex64))(z.real), z.real.astype(np.complex64))


# -- gradients -----------------------------------------------------------------------------------------------


def gradient_by_differences(f, x, step=1e-6):
    """∂f/∂(re x) + i ∂f/∂(im x) of a real function, element by element; for real x without the second."""
    x = np.array(x)
    g = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        for turn in (1, 1j) if x.dtype.kind == "c" else (1,):
            ahead, behind = x.copy(), x.copy()
            ahead[place] += step * turn
            behind[place] -= step * turn
            g[place] += turn * (f(ahead) - f(behind)) / (2 * step)
    return g


W = numbers(4, seed=9)
M = numbers(4, 3, seed=8)


def through_views(z):
    w = z * 2
    w.real *= w.imag
    w.imag[1:] = z.real[:-1] ** 2
    w[0] = w.real[1] + 1j * w.imag[2]
    return np.sum(w * w.conj()).real + np.sum(w.real * z.imag)


def loop(z):
    s = 0j
    for k in range(len(z)):
        s = s * z[k] + np.exp(s * 0.1) * z[k].real
        z[k] = s
    return (s * np.conj(s)).real + np.sum(np.abs(z))


def branches(z):
    total = 0.0
    for k in range(len(z)):
        if z[k].imag > 0:
            total += abs(z[k]) ** 3
        else:
            total += (z[k] ** 2).real
    return total


GRADIENTS = {
    "abs2": lambda z: np.sum(np.abs(z) ** 2),
    "energy": lambda z: np.sum(z.real**2 + z.imag**3),
    "vdot": lambda z: np.vdot(z, z * W).real,
    "matmul": lambda z: np.sum(np.abs(z @ M)),
    "matmul_left": lambda z: np.sum(np.imag(M.T @ z) ** 2),
    "dot": lambda z: np.dot(z, z * W).imag,
    "mean": lambda z: np.mean(z * z).real,
    "prod": lambda z: np.prod(z).imag,
    "angle": lambda z: np.sum(np.angle(z) ** 2),
    "sign": lambda z: np.sum(np.sign(z)).real,
    "divide": lambda z: np.sum((1 + z[::-1]) / (z + 3j)).real,
    "power": lambda z: np.sum(z**2.5 + z**3 + 2j**z + z**z).imag,
    "where": lambda z: np.sum(np.where(z.real > 0, z * z, z)).imag,
    "casts": lambda z: np.sum(z.real.astype(complex) * z * 1j).real,
    "analytic": lambda z: np.sum(np.log(np.sqrt(np.exp(np.sin(z)) + 4) * np.tanh(z * W) + 3)).real,
    "inverse": lambda z: np.sum(np.arcsin(z / 3) * np.arctan(z / 3) + np.arccosh(z)).imag,
    "views": through_views,
    "loop": loop,
    "branches": branches,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    """df = Re(conj(g) dx): g has the derivatives by the real and by the imaginary parts as its parts."""
    f, z = GRADIENTS[name], numbers(4, seed=3)
    got = dlvm.grad(f)(z)
    assert got.dtype == z.dtype
    np.testing.assert_allclose(got, gradient_by_differences(lambda x: f(x.copy()), z), rtol=1e-7, atol=1e-7)


def on_branch_cuts(x):
    """Beyond 1 and -1 the sign of the imaginary zero says on which side of a cut a number is."""
    total = 0.0
    for z in (x + 0j, np.conj(x + 0j)):
        total += np.sum(((0.7 - 1.3j) * (np.arcsin(z) + 0.3 * np.arccos(z) + 2.0 * np.arccosh(z))).real)
    for z in (x * 1j, np.conj(x * 1j)):
        total += np.sum(((0.4 - 0.9j) * np.arcsinh(z)).real)
    return total


REAL = {
    "branch_cuts": on_branch_cuts,
    "euler": lambda x: np.sum(np.exp(1j * x) * np.exp(0.5 * x)).imag,
    "abs2": lambda x: np.sum(np.abs(x * W + 1j) ** 2),
    "complex_power": lambda x: np.sum((1 + 2j) ** x).real,
    "promotion": lambda x: np.sum(x * W * x + W / x).real,
}


@pytest.mark.parametrize("name", REAL)
def test_real_functions_through_complex_numbers(name):
    """Real arguments get real gradients: the real part where a complex adjoint meets a real operand."""
    f, x = REAL[name], np.array([0.5, -1.25, 2.0, 0.75])
    got = dlvm.grad(f)(x)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, gradient_by_differences(f, x), rtol=1e-7, atol=1e-7)


def test_scalar_gradients():
    """Python's and NumPy's complex scalars."""

    def f(z, x):
        return abs(z**2 * x + 1j * x) ** 2

    gz, gx = dlvm.grad(f, wrt=(0, 1))(0.5 + 1.5j, 2.0)
    assert type(gz) is complex and type(gx) is float
    np.testing.assert_allclose(gz, gradient_by_differences(lambda z: f(complex(z), 2.0), 0.5 + 1.5j), rtol=1e-7)
    np.testing.assert_allclose(gx, gradient_by_differences(lambda x: f(0.5 + 1.5j, float(x)), 2.0), rtol=1e-7)
    assert type(dlvm.grad(f)(np.complex64(1j), 2.0)) is np.complex64


def test_complex_outputs_need_a_seed():
    """The vector-Jacobian product for Re(conj(seed) y); without a seed an error that says so."""

    def f(z):
        return np.exp(z * W) * z[::-1]

    z, seed = numbers(4, seed=5), numbers(4, seed=6)
    with pytest.raises(dlvm.NotDifferentiable, match="DL612"):
        dlvm.grad(f)(z)
    got = dlvm.grad(f, seedable=True)(z, seed)
    np.testing.assert_allclose(got, gradient_by_differences(lambda x: np.vdot(seed, f(x)).real, z), rtol=1e-7)


def test_modulus_at_zero():
    """|z| has the derivative 0 at 0, as abs of a real number."""
    assert dlvm.grad(lambda z: np.sum(np.abs(z)))(np.zeros(2, complex)).tolist() == [0, 0]


def test_second_derivatives():
    """The gradient of the norm of a gradient."""

    def f(z):
        return np.sum(np.abs(z) ** 4 + (z**3).real)

    g = dlvm.grad(f)
    z = numbers(3, seed=2)
    got = dlvm.grad(lambda z: np.sum(np.abs(4 * z * (z.real**2 + z.imag**2) + 3 * np.conj(z) ** 2) ** 2))(z)
    direct = dlvm.grad(g, seedable=True)(z, 2 * g(z))
    np.testing.assert_allclose(direct, got, rtol=1e-12)


def geometric(z, n):
    return 1 + 0j if n == 0 else 1 + z * geometric(z, n - 1)


def test_recursion():
    """Calls that are kept carry complex numbers and their adjoints."""

    def f(z):
        return abs(geometric(z, 5)) ** 2

    z = 0.5 + 0.25j
    assert dlvm.jit(f)(z) == pytest.approx(f(z), rel=1e-14)
    np.testing.assert_allclose(dlvm.grad(f)(z), gradient_by_differences(lambda z: f(complex(z)), z), rtol=1e-7)


def halves(z, x):
    re, im = z.real, z.imag
    for i in range(z.shape[0]):
        for k in range(x.shape[0]):
            re[i] = re[i] + x[k] * im[i]


def half_and_whole(z, x):
    re = z.real
    for i in range(z.shape[0]):
        for k in range(x.shape[0]):
            z[i] = z[i] * 0.5 + x[k]
            re[i] = re[i] * 0.5


@pytest.mark.parametrize("f", [halves, half_and_whole], ids=lambda f: f.__name__)
def test_an_element_that_a_loop_updates_is_the_half_of_one(f):
    """The parts of an element are at one place, and are different memory."""
    ours, theirs = numbers(3), numbers(3)
    dlvm.jit(f)(ours, np.arange(4.0))
    f(theirs, np.arange(4.0))
    np.testing.assert_array_equal(ours, theirs)


def test_decimals_are_of_each_part():
    """np.round goes by the parts of a number, each divided by a real number: a complex quotient rounds otherwise."""
    z = (np.arange(-40, 40) * 1.37 - 0.33j * np.arange(80)).astype(np.complex64).reshape(8, 10)
    for given in (z, z.T, z[:, ::-2], z[2, 3]):
        for decimals in (1, 2, -1):
            want, found = np.round(given, decimals), dlvm.jit(lambda z, n: np.round(z, n))(given, decimals)
            assert found.dtype == want.dtype and np.array_equal(found, want)


def test_bounds_of_clip_stand_for_what_is_equal_to_them():
    """As NumPy's: 0 for -0.0 + 0j with two bounds, what is there with one."""
    z = np.array([-0.0, complex(0.0, -0.0), complex(-0.0, -0.0), complex(1, -0.0), complex(np.nan, 1), 2j])
    for fn in (lambda z: np.clip(z, 0, 1), lambda z: np.clip(z, None, 0), lambda z: np.clip(z, z[::-1], 1)):
        want, found = fn(z), dlvm.jit(fn)(z)
        assert np.array_equal(found, want, equal_nan=True)
        for part in (np.real, np.imag):
            assert np.array_equal(np.signbit(part(found)), np.signbit(part(want)))
