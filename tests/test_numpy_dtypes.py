"""Functions of one array over all dtypes: NumPy's value and dtype, or a refusal with advice."""

import warnings

import numpy as np
import pytest
from numpy_driver import Call, compare, interpreted
from test_programs import flat

import dlvm_py as dlvm
from dlvm_py.ir import interpreter

pytestmark = pytest.mark.usefixtures("plain_code")

DTYPES = ("bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64", "complex64", "complex128")
CALLS = [
    lambda x: np.flip(x, 0), lambda x: np.roll(x, 1, 1), lambda x: np.rot90(x), lambda x: np.moveaxis(x, 0, 1),
    lambda x: np.sum(x), lambda x: np.sum(x, axis=0), lambda x: np.prod(x, axis=1), lambda x: np.mean(x),
    lambda x: np.mean(x, axis=0, keepdims=True), lambda x: np.var(x), lambda x: np.std(x, axis=1, ddof=1),
    lambda x: np.max(x, axis=0), lambda x: np.min(x), lambda x: np.any(x, axis=1), lambda x: np.all(x),
    lambda x: np.cumsum(x), lambda x: np.cumsum(x, axis=1), lambda x: np.cumprod(x, axis=0), lambda x: np.ptp(x, 0),
    lambda x: np.count_nonzero(x), lambda x: np.count_nonzero(x, axis=0), lambda x: np.average(x, axis=0),
    lambda x: np.cov(x), lambda x: np.nansum(x, axis=0), lambda x: np.nanmean(x), lambda x: np.nanmax(x, axis=1),
    lambda x: np.nanvar(x), lambda x: np.nancumsum(x), lambda x: np.concatenate((x, x)),
    lambda x: np.stack((x, x), axis=1), lambda x: np.hstack((x, x)), lambda x: np.append(x, x[0]),
    lambda x: np.tile(x, 2), lambda x: np.repeat(x, 2, axis=0), lambda x: np.pad(x, 1),
    lambda x: np.pad(x, 1, "edge"), lambda x: np.pad(x, 1, "mean"), lambda x: np.pad(x, (2, 1), "reflect"),
    lambda x: np.pad(x, 2, "linear_ramp"), lambda x: np.delete(x, 1, 0), lambda x: np.insert(x, 1, x[0], 0),
    lambda x: np.diff(x), lambda x: np.diff(x, 2, axis=0), lambda x: np.ediff1d(x), lambda x: np.gradient(x, axis=0),
    lambda x: np.trapezoid(x), lambda x: np.dot(x, x.T), lambda x: x @ x.T, lambda x: np.inner(x, x),
    lambda x: np.outer(x, x), lambda x: np.tensordot(x, x, 2), lambda x: np.kron(x, x[0]), lambda x: np.trace(x),
    lambda x: np.einsum("ij->j", x), lambda x: np.einsum("ij,kj->ik", x, x), lambda x: np.einsum("ij,ij->", x, x),
    lambda x: np.cross(x, x[::-1]), lambda x: np.convolve(x[0], x[1]), lambda x: np.correlate(x[0], x[1], "full"),
    lambda x: np.polyval(x[0], x), lambda x: np.polyder(x[0]), lambda x: np.polyint(x[0]),
    lambda x: np.polyadd(x[0], x[1][:2]), lambda x: np.isclose(x, x), lambda x: np.allclose(x, x[::-1]),
    lambda x: np.array_equal(x, x), lambda x: np.nan_to_num(x), lambda x: np.sinc(x), lambda x: np.round(x),
    lambda x: np.clip(x, x[0], x[1]), lambda x: np.clip(x, 0, 1), lambda x: np.vander(x[0]),
    lambda x: np.resize(x, (2, 4)),
    lambda x: np.atleast_3d(x), lambda x: np.zeros_like(x), lambda x: np.full_like(x, 1), lambda x: np.ones_like(x),
    lambda x: np.fmax(x, x[0]), lambda x: np.fmod(x, x[1]), lambda x: np.logaddexp(x, x[0]),
    lambda x: np.heaviside(x, x[0]), lambda x: np.signbit(x), lambda x: np.float_power(x, 2), lambda x: np.modf(x),
    lambda x: np.divmod(x, x[1]), lambda x: np.gcd(x, x[1]), lambda x: np.fix(x), lambda x: np.select((x > 1,), (x,)),
    lambda x: np.add.reduce(x), lambda x: np.multiply.accumulate(x), lambda x: np.subtract.outer(x[0], x[1]),
    lambda x: np.linspace(x[0, 0], x[1, 1], 4), lambda x: np.unwrap(x), lambda x: np.interp(x, np.arange(3), x[0]),
    lambda x: np.meshgrid(x[0], x[1])[1], lambda x: np.left_shift(x, 1), lambda x: np.bitwise_xor(x, x[0]),
    lambda x: np.hypot(x, x[0]), lambda x: np.floor_divide(x, x[1]), lambda x: np.power(x, 2), lambda x: np.sqrt(x),
    lambda x: np.absolute(x), lambda x: np.sign(x), lambda x: np.square(x), lambda x: np.reciprocal(x),
    lambda x: np.deg2rad(x), lambda x: np.positive(x), lambda x: np.negative(x), lambda x: np.invert(x),
    lambda x: np.sum(x, dtype=np.float32), lambda x: np.max(x, initial=1), lambda x: np.sum(x, where=x > 1),
]  # fmt: skip


def sample(dtype):
    """A (2, 3) array: small numbers, so that nothing overflows; the second row has no 0."""
    values = np.array([[0, 1, 3], [1, 2, 1]])
    return (values + (0.5j if "complex" in dtype else 0)).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_all_dtypes(dtype):
    """In the interpreter: what is computed is NumPy's, in NumPy's dtype; what NumPy refuses is refused."""
    wrong = []
    for fn in CALLS:
        line = fn.__code__.co_firstlineno, fn.__code__.co_names
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                want = fn(sample(dtype))
        except TypeError:
            want = None
        try:
            program = dlvm.jit(fn).program(sample(dtype), stage="optimizable")
        except dlvm.CompileError as error:
            if want is not None and not error.help:
                wrong.append(f"{line}: refused without help: {error}")
            continue
        if want is None:
            wrong.append(f"{line}: NumPy refuses")
            continue
        with np.errstate(all="ignore"):
            got = interpreter.run(program.module, program.name, [sample(dtype)])
        for g, w in zip(flat(got), flat(want), strict=True):
            w = np.asarray(w)
            tolerance = (
                2e-3 if w.dtype.name == "float16" else 2e-6 if w.dtype.itemsize < 8 or w.dtype.char == "F" else 1e-10
            )
            same = np.shape(g) == w.shape and np.allclose(g, w, rtol=tolerance, atol=tolerance, equal_nan=True)
            if np.asarray(g).dtype != w.dtype or not same:
                wrong.append(f"{line}: {g!r} instead of {w!r}")
    assert not wrong, "\n".join(wrong)


def outcome(run):
    """("value", the result) or ("raises", the class of the exception)."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return "value", run()
        except Exception as error:
            return "raises", error


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (4,), (2, 1, 3)], ids=str)
def test_functions_of_all_shapes(shape):
    """In the interpreter: of empty, single, long and deep arrays NumPy's results; where NumPy raises, an error too."""
    wrong = []
    x = np.random.default_rng(1).uniform(0.2, 1.7, shape)
    for fn in CALLS:
        line = fn.__code__.co_firstlineno, fn.__code__.co_names
        wanted, want = outcome(lambda fn=fn: fn(x.copy()))
        got_kind, program = outcome(lambda fn=fn: dlvm.jit(fn).program(x.copy(), stage="optimizable"))
        if got_kind == "raises":
            if not isinstance(program, dlvm.CompileError):
                wrong.append(f"{line}: {program!r}")
            elif wanted == "value" and not program.help:
                wrong.append(f"{line}: refused without help: {program}")
            continue
        got_kind, got = outcome(lambda program=program: interpreter.run(program.module, program.name, [x.copy()]))
        if got_kind != wanted:
            wrong.append(f"{line}: {got!r} instead of {want!r}")
        elif wanted == "value":
            for g, w in zip(flat(got), flat(want), strict=True):
                if np.shape(g) != np.shape(w) or not np.allclose(g, w, rtol=1e-10, atol=1e-12, equal_nan=True):
                    wrong.append(f"{line}: {g!r} instead of {w!r}")
    assert not wrong, "\n".join(wrong)


# -- numbers that become elements --------------------------------------------------------------------------

NUMBERS = [
    True, 2, -1, 300, 70000, 2**40, -1.5, 300.5, 1e30, np.nan, np.inf, 1j, np.int8(-1), np.int64(300),
    np.uint64(2**63), np.float32(-1.5), np.float64(np.nan), np.float64(300.7), np.bool_(True), np.array(-1.5),
    np.array(np.nan), np.array(70000),
]  # fmt: skip
STORED = [
    "np.array(x0, dtype=x1.dtype)", "np.array([x0], dtype=x1.dtype)", "np.full_like(x1, x0)", "x1.fill(x0)",
    "np.insert(x1, 1, x0)", "np.put(x1, [0], x0)", "np.fill_diagonal(x2, x0)", "np.copyto(x1, x0)",
    "np.where(x1 > 0, x1, x0)", "np.select([x1 > 0], [x1], x0)", "np.pad(x1, 1, constant_values=x0)",
    "np.append(x1, x0)", "np.searchsorted(x1, x0)", "np.isin(x1, x0)", "np.clip(x1, 0, x0)",
    "np.add.at(x1, x3, x0)", "np.maximum.at(x1, x3, x0)", "np.hypot.at(x1, x3, x0)", "np.sum(x1, initial=x0)",
    "np.max(x1, initial=x0)", "np.bitwise_or.reduce(x1, initial=x0)", "np.hypot.reduce(x1, initial=x0)",
    "np.fmod.reduce(x1, initial=x0)", "np.inner(x1, x0)", "np.kron(x0, x1)", "np.subtract.outer(x1, x0)",
    "np.vdot(x1, x0)", "np.union1d(x1, x0)", "np.intersect1d(x0, x1)", "np.polyval(x1, x0)", "np.emath.power(x1, x0)",
    "np.emath.logn(x1, x0)",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("text", STORED)
def test_numbers_as_elements(text):
    """Numbers of Python, numbers of NumPy and arrays without axes, where they meet arrays of each dtype."""
    for dtype in (bool, np.uint8, np.int16, np.int64, np.uint64, np.float16, np.float32, np.complex64):
        for number in NUMBERS:

            def make(number=number, dtype=dtype):
                return Call(text, [number, np.ones(2, dtype), np.ones((2, 2), dtype), np.array([1, 1])])

            outcome, what = compare(text.partition("(")[0], make, interpreted)
            assert outcome != "wrong", what


def test_means_of_half_precision_are_made_in_single():
    """NumPy adds up np.mean and np.median of float16 in float32: sums beyond 65504 are no infinity."""

    def f(x, out):
        np.mean(x, out=out)
        tall = x[:, None] * np.ones(2, np.float16)
        return (
            np.mean(x), x.mean(), np.mean(tall, axis=0), np.mean(x, where=x > 0), np.average(x), np.median(x),
            np.nanmedian(x), np.mean(x, dtype=np.float16), np.var(x), np.median(tall, axis=0), out,
        )  # fmt: skip

    compiled = dlvm.jit(f)
    for values in ([60000.0, 60000.0], [60000.0, 1.0, 60000.0, 60001.0], np.linspace(-300, 310, 701)):
        x = np.array(values, np.float16)
        with np.errstate(all="ignore"):
            wanted = f(x, np.zeros((), np.float16))
        for g, w in zip(compiled(x, np.zeros((), np.float16)), wanted, strict=True):
            assert g.dtype == w.dtype and np.shape(g) == np.shape(w)
            np.testing.assert_allclose(g, w, rtol=1e-3)
    x = np.full(9, 20000.0, np.float16)
    np.testing.assert_allclose(dlvm.grad(lambda x: np.mean(x))(x), np.full(9, 1 / 9), rtol=1e-3)


def test_sums_of_products_of_half_precision_are_made_in_single():
    """A product beyond 65504 is no infinity where others take it back."""
    f = dlvm.jit(lambda x, y: (np.convolve(x, y), np.convolve(y, x, "same"), np.correlate(x, y), np.dot(x, x)))
    x, y = np.array([300, 299, -300, 1, 0.1, 7], np.float16), np.array([250, 250, -249], np.float16)
    for v in (y, np.array([100, 120, -9], np.int8)):
        with np.errstate(all="ignore"):
            wanted = f.__wrapped__(x, v)
        for g, w in zip(f(x, v), wanted, strict=True):
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=1e-3)
    with np.errstate(all="ignore"):
        slope = dlvm.grad(lambda x, y: np.sum(np.convolve(x, y)[:2]))(x, y)
    np.testing.assert_allclose(slope, [500, 250, 0, 0, 0, 0], rtol=1e-3)
