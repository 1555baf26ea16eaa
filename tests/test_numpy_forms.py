"""Random calls of every NumPy function that compiled code may call, with random arrays: what NumPy does.

Arrays of all dtypes, empty ones and ones without axes, in C and Fortran order, reversed, sliced, with stride 0, some
overlapping others; values, classes, dtypes, shapes, effects on arguments, and the classes of exceptions are compared.
What is not supported is refused with its place.
"""

import inspect

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy_draw import SITUATIONS
from numpy_driver import (
    METHOD_FORMS,
    MISCOUNTED,
    RULES,
    Call,
    call_of,
    compare,
    interpreted,
    is_method_of_ufunc,
    native,
)
from numpy_forms import FORMS, OPTIONS, OWN
from numpy_keywords import KNOWN, audited, rule_of

from dlvm_py.frontend.library.bin_rules import RULES as RULES_OF_BINS
from dlvm_py.frontend.numpy_signature import refused_parameters

SEEDS = st.integers(0, 2**32 - 1)
DETERMINISTIC = {
    "derandomize": True, "deadline": None, "database": None, "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}  # fmt: skip


def test_every_function_has_forms():
    """A function without a form here, or a form without a function, is a mistake."""
    assert set(RULES) | set(METHOD_FORMS.values()) == set(FORMS)


def test_every_option_is_drawn():
    """So is an option that nothing is drawn for."""
    missing = []
    for name, rule in RULES.items():
        for p in list(inspect.signature(rule).parameters.values())[1:]:
            by_name = p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            if by_name and p.default is not p.empty and p.name not in OWN[name] and p.name not in OPTIONS:
                missing.append(f"{name}: {p.name}")
    assert not missing


def check(name, seed, execute, method=False):
    """One call of one function."""
    if name in MISCOUNTED:
        pytest.skip("NumPy's own loop is wrong on this machine")
    outcome, what = compare(name, call_of(name, seed, method), execute)
    assert outcome != "wrong", f"seed {seed}: {what}"


# methods of ufuncs share their code: of each one in six here, all of them in the sweep below
_METHODS = [name for name in sorted(RULES) if is_method_of_ufunc(name)]
QUICK = sorted({*RULES} - {*_METHODS} | {*_METHODS[::6]})


@pytest.mark.parametrize("part", range(4))
def test_each_function_once(part):
    """By the front end and the interpreter."""
    for name in QUICK[part::4]:
        if name not in MISCOUNTED:
            check(name, part, interpreted)


@pytest.mark.parametrize("ufunc", [np.arctan2, np.power])
def test_reductions_go_from_left_to_right(ufunc):
    """Each step takes what the one before gave, whatever NumPy's loop does on this machine."""
    x = np.array([0.4, 1.0, 1.5, 0.7])
    want = ufunc(ufunc(ufunc(x[0], x[1]), x[2]), x[3])
    for fn in (lambda x: ufunc.reduce(x), lambda x: ufunc.reduceat(x, [0])[0], lambda x: ufunc.accumulate(x)[-1]):
        assert interpreted(fn, [x]) == pytest.approx(want, rel=1e-15)


SINGLE, HALVES = np.float32([1.5, 2.5, 0.5]), np.linspace(0.5, 3.0, 6)
FOUND = [
    ("np.fft.fft(x0, norm='ortho')", SINGLE),
    ("np.fft.irfft(x0, norm='ortho')", SINGLE),
    ("np.linalg.solve(x0, x1)", np.array([[2, 1], [1, 3]]), np.float32([1, 2])),
    ("np.clip(x0, -1, 1)", np.uint8([0, 2, 255])),
    ("np.clip(x0, -1, 1.5)", np.uint8([0, 2, 255])),
    ("np.max(x0, initial=-1)", np.uint8([3, 4])),
    ("np.sum(x0, out=x1)", np.float32([1e8, 1, 1]), np.zeros(())),
    ("np.arange(-0.5, 4, dtype=np.int64)",),
    ("np.argmax(x0)", np.array([1, np.nan, 3j])),
    ("np.select([x0 > 1], [x0])", SINGLE),
    ("np.unravel_index(x0, (3, 4))", np.int8([0, 6])),
    ("np.percentile(x0, [30, 40])", SINGLE),
    ("np.vecdot(x0, x1)", np.int8([100, 100]), np.int8([2, 3])),
    ("np.vdot(x0, x0)", np.array([True, False])),
    ("np.trace(x0)", np.zeros((3, 0, 2))),
    ("np.tril(x0)", np.arange(3)),
    ("np.round(x0, out=x1)", np.arange(3), np.zeros(3, np.int64)),
    ("np.interp(x0, x1, x1)", SINGLE, SINGLE[[2, 0, 1]] / 3),
    ("np.add.reduce(x0, 1, None, None, True)", HALVES.reshape(2, 3)),
    ("np.concatenate([x0, x0], dtype=np.int8)", HALVES),
    ("np.copyto(x0, x1)", np.arange(6), HALVES),
    ("np.max(x0, initial=-1.5, out=x1)", np.zeros((0,), bool), np.zeros((), np.float32)),
    ("np.sum(x0, out=x1)", np.int32([2**30 + 1, 1]), np.zeros((), np.float32)),
    ("np.array([x0, x0], dtype=np.int64)", np.array(np.nan, np.float32)),
    ("np.asarray([x0, x1], dtype=np.uint8)", np.int64(2**63 - 1), np.array(2.5)),
    ("np.gcd(x0, x1)", np.int8([-128, 0, 127]), np.int8([5, -128, -128])),
    ("np.bitwise_and.reduce(x0, where=x0 > 1)", np.uint8([7, 1, 3])),
    ("np.hypot.reduce(x0)", np.array([-3.0])),
    ("np.negative.at(x0, x1)", HALVES, np.array([1, 1, -1])),
    ("np.copy(x0)", 2.5),
    ("np.isreal(x0)", 2.5),
    ("np.kron(x0, x1)", 2, 1.5j),
    ("np.power(x0, x1, where=x1 > 0, out=x2)", np.arange(3), np.array([1, -1, 2]), np.zeros(3, int)),
    ("np.fft.irfft(x0)", np.float16([1, 2, 3])),
    ("np.linalg.cond(x0)", np.zeros((0, 2, 2))),
    ("np.arange(x0, dtype=np.bool_)", 3),
    ("np.histogram(x0, range=(-2.0, 3.0))", SINGLE),
    ("np.add.at(x0, x1, 300)", np.int8([1, 2]), np.array([0, 0])),
    ("np.maximum.at(x0, x1, x2)", np.int8([100, 2]), np.array([0, 0]), np.int64([300])),
    ("np.multiply.at(x0, x1, x2)", np.float32([1e-10, 2]), np.array([0, 0]), np.array([1e39])),
    ("np.hypot.at(x0, x1, 4)", np.uint8([3, 2]), np.array([0, 0])),
    ("np.bitwise_or.reduce(x0, initial=-1.5)", np.uint8([3, 2])),
    ("np.sum(x0, initial=x1)", np.int32([3, 2]), np.float64(np.nan)),
    ("np.cov(x0)", np.zeros((0, 2), complex)),
    ("np.cov(x0, x1, rowvar=False)", np.ones((1, 2)), np.ones((1, 2))),
    ("np.emath.power(x0, 0.5)", np.int16([-3, 2])),
    ("np.inner(x0, 2.5)", SINGLE),
    ("np.multiply.outer(x0, 300)", np.int8([1, 2])),
    ("np.vdot(x0, 2)", np.arange(3)),
    ("np.iscomplex(True)",),
    ("np.insert(x0, 1, x1)", np.int16([1, 2]), np.float32(np.inf)),
    ("np.array(x0, dtype=np.int16)", np.float64(70000.0)),
    ("np.where(x0, x0, -2)", np.uint8([1, 0])),
    ("np.searchsorted(x0, 300)", np.int8([1, 2])),
    ("np.union1d(x0, 2)", np.int8([1, 2])),
    ("np.nanvar(x0, out=x1)", SINGLE, np.zeros(())),
    ("np.ravel_multi_index((x0, x0), (100, 9))", np.int8([2, 3])),
    ("np.take(x0, x1, mode='wrap')", np.arange(300), np.int8([-1, 3])),
    ("np.take(x0, x1)", np.arange(3), np.array([True, False, True])),
    ("np.diag(x0, x1)", np.arange(3), np.uint8(1)),
    ("np.arange(x0)", np.uint64(3)),
    ("np.arange(x0, x1)", np.float32(0.3), np.float32(5)),
    ("np.arange(x0, x1, x2, dtype=np.float16)", 0.1, 9.0, np.float32(0.3)),
    ("np.arange(x0, x1)", np.uint8(5), np.uint8(3)),
    ("np.arange(x0, 9, dtype=np.uint8)", np.int8(-3)),
    ("np.unique(x0, axis=0)", np.array([np.nan, 1, np.nan, 0])),
    ("np.digitize(x0, x1)", HALVES, np.array([0.7, 1.2, np.nan])),
    ("np.delete(x0, x1)", np.arange(3), np.True_),
    ("np.insert(x0, x1, 5)", np.arange(3), np.array([True, False, True])),
    ("np.insert(x0, x1, 5)", np.arange(3), np.array([1, 2], np.uint64)),
    ("np.triu_indices(x0)", np.uint8(3)),
    ("np.tri(3, k=True)",),
    ("np.diag(x0, x1)", np.arange(3), np.True_),
    ("np.percentile(x0, True)", np.float16([1, 2, 3])),
    ("np.quantile(x0, x1)", SINGLE, np.float64(0.3)),
    ("np.quantile(x0, x1)", np.float32([1, np.nan, 3]), np.array([0, 1])),
    ("np.quantile(x0, x1)", np.int8([1, 2, 4]), np.float16([0.3])),
    ("np.quantile(x0, x1)", np.float32([0.1, 0.7]), np.array([0.1, 0.75])),
    ("np.quantile(x0, np.nan)", SINGLE),
    ("np.put(x0, x1, x2)", np.arange(3), np.array([5]), np.zeros(0)),
    *(
        (f"np.quantile(x0, x1, method='{m}')", np.array([3.0, 1, 7, 2, 5, 9]), np.linspace(0, 1, 13))
        for m in ("averaged_inverted_cdf", "closest_observation", "hazen", "midpoint", "nearest")
    ),
    ("np.quantile(x0, 0.3, axis=(0, 2), keepdims=True)", np.arange(24).reshape(2, 3, 4) ** 2 % 7),
    ("np.median(x0, axis=(-1, 0))", np.arange(24).reshape(2, 3, 4) ** 2 % 7),
    ("np.cov(x0, fweights=x1, aweights=x2)", HALVES.reshape(2, 3) ** 2, np.array([1, 2, 1]), SINGLE),
    ("np.full((2, 3), x0, dtype=np.int8)", SINGLE),
    ("np.squeeze(x0)", HALVES[:1]),
    ("x0.astype(float, 'F')", HALVES.reshape(2, 3)),
    ("np.interp(x0, x0, x1)", HALVES[:3], np.array([1.0, 5.0, np.inf])),
    ("x0[x1:x2]", HALVES, 1, 3),
    ("np.interp(x0, x1, x2, period=x3)", HALVES, np.array([0.2, 2.0, 1.0]), SINGLE, -1.5),
    ("np.ogrid[0:1:0.3, 0:x0]", 4),
    ("np.mgrid[-1:1:5j, 0:x0]", np.float32(2.5)),
    ("np.mgrid[3:x0, 0:2]", 0),
    ("np.r_[0:1:3j, 2]",),
    ("np.geomspace(x0, x1, 4)", np.float32(1), np.float32(20)),
    ("np.geomspace(x0, x1, 4, axis=1)", np.array([-1, 2]), np.array([-8, 7])),
    ("np.rot90(x0, x1)", HALVES.reshape(2, 3), 3),
    ("np.diff(x0, x1)", HALVES, 2),
    ("np.diff(x0, x1)", HALVES, -1),
    ("np.array([np.finfo(x0).eps, np.iinfo(x1).max])", np.float32(1), 3),
    ("np.clip(x0, x1, x1)", 0.75, SINGLE),
    ("np.flip(x0)", 0.5),
    ("np.cov(x0)", 3),
    ("np.einsum(x0, [5, 1], x1, [1, 30])", HALVES.reshape(2, 3), HALVES.reshape(3, 2)),
    ("np.einsum(x0, [..., 0], x1, [0], [...])", HALVES.reshape(2, 3), SINGLE),
    ("x0.view(np.float32)", np.array([1.5, np.nan])),
    ("x0.view(np.int16)", np.array([1 + 2j, -0.0])),
    ("x0.view(complex)", np.arange(12, dtype=np.float32).reshape(3, 4)),
    ("x0.view(np.float64)", np.arange(3, dtype=np.int16)),
    ("np.frombuffer(x0, np.int32, x1, x2)", HALVES.reshape(2, 3), 2, 6),
    ("np.divide(1.0, x0, out=np.zeros_like(x0), where=x0 > 1)", HALVES),
    ("np.sum(x0, axis=0, out=np.zeros(3, np.float32))", HALVES.reshape(2, 3)),
    ("np.add(x0, x0, out=x1)", np.ones((1, 1)), np.zeros(1)),
    ("np.modf(x0, out=(x1, x2), where=x0 > 1)", HALVES, np.zeros(6), np.zeros(6, np.float32)),
    ("np.divmod(x0, 2, x0)", HALVES.copy()),
    ("np.mean(x0, 0, np.float16, x1)", HALVES.reshape(2, 3) / 3, np.zeros(3)),
    ("np.std(x0, 0, np.float16, x1)", HALVES.reshape(2, 3) / 3, np.zeros(3)),
    ("np.nanmedian(x0, axis=(0, -1), keepdims=True)", np.array([[[1, np.nan], [4, 0]], [[7, 2], [np.nan, 5.0]]])),
    ("np.nanpercentile(x0, [20, 70], 0)", np.array([[1, np.nan, np.nan], [3, 2, np.nan]], np.float32)),
    ("np.nanquantile(x0, x1, 1, method='hazen')", np.array([[1, np.nan, 5, 3.0], [3, 2, 8, 0]]), SINGLE / 3),
    ("np.unique(x0, return_inverse=True, return_counts=True, axis=0)", np.array([[1, 2], [0, 5], [1, 2], [0, 4]])),
    ("np.searchsorted(x0, x1, sorter=np.argsort(x0))", SINGLE, HALVES),
    ("np.trim_zeros(x0)", np.array([[0, 0, 0], [0, 0, 3], [0, 2, 0]])),
    ("np.partition(x0, 1)", np.zeros(0)),
    ("np.argmin(x0, 0, np.zeros(3, int))", HALVES.reshape(2, 3)),
    ("np.r_[x0, 1, 2]", SINGLE),
    ("np.pad(x0, 2, 'linear_ramp', end_values=(0, 9))", np.uint8([7, 3])),
    ("np.average(x0, 1, x1, returned=True)", np.array([[1, np.nan], [2, 3.0]]), np.array([1, 4])),
    ("np.gradient(x0, np.linspace(0, 1, 6))", np.array([1, 2, np.nan, 4, 3, 2.0])),
    ("np.isposinf(x0)", np.array([1j])),
    ("np.i0(x0)", np.array([1j])),
    ("np.ravel_multi_index((1, 2), (3, 4), order='F')",),
    ("np.repeat(x0, [2])", HALVES),
    ("np.round(x0, -1)", np.uint8([251, 14])),
    ("np.nan_to_num(x0, neginf=3)", np.array([complex(np.nan, -np.inf), 1 + 2j])),
    ("np.choose(x0, x1)", np.array([1, 0, 1]), HALVES.reshape(2, 3)),
    ("np.split(x0, np.array([1, 4]))", HALVES),
    ("np.stack(x0, axis=1)", HALVES.reshape(2, 3)),
    ("np.concatenate(x0, axis=1)", np.arange(12).reshape(2, 3, 2)),
    ("np.squeeze(x0[:, :1], axis=1)", HALVES.reshape(2, 3)),
    ("np.zeros_like(x0, order='F', shape=(2, 4))", SINGLE),
    ("np.take(x0, [2, 0], 0, x1)", HALVES, np.zeros(2)),
    ("np.pad(x0, ((7, 9), (5, 2)), 'reflect', reflect_type='odd')", HALVES.reshape(2, 3) ** 2),
    ("np.pad(x0, (5, 8), 'symmetric', reflect_type='odd')", HALVES**2),
    ("np.pad(x0, 3, 'median', stat_length=(2, 3))", HALVES**2),
    ("np.quantile(x0, [0, 0.3], 1, weights=x1, method='inverted_cdf')", HALVES.reshape(2, 3), np.array([0, 2, 1])),
    ("np.nanquantile(x0, 0.6, weights=x0, method='inverted_cdf')", np.array([np.nan, 3, 1, 2.0])),
    ("np.apply_along_axis(lambda v, k=1: v[:2] * k, 0, x0, k=3)", np.arange(12.0).reshape(3, 2, 2)),
    ("np.lexsort((x0, x0[::-1]), axis=0)", np.arange(12).reshape(4, 3) % 5),
    *((f"np.histogram(x0, bins='{rule}')", np.sin(np.arange(40.0)) ** 3) for rule in RULES_OF_BINS),
    ("np.histogram(x0, bins='sqrt', range=(-2, 1))", np.arange(-5, 9, dtype=np.int8)),
    ("np.vectorize(lambda a, b: a * b if a > 1 else 0.5, otypes=[np.float32])(x0, x1)", HALVES.reshape(2, 3), SINGLE),
    ("np.vectorize(lambda a: a / 3)(x0)", SINGLE),
    ("np.vectorize(lambda a: a)(x0)", np.zeros(0)),
    ("np.fromiter((v * v for v in x0), np.float32, count=2)", HALVES),
    ("np.fromiter([1, 2], np.int8, count=3)",),
    ("np.unique_all(x0).inverse_indices", np.array([3, 1, 3])),
    ("x0[np.s_[1:, ::2]]", HALVES.reshape(2, 3)),
    ("np.matmul(x0, x0.T, dtype=np.float32, casting='same_kind')", HALVES.reshape(2, 3)),
    ("np.maximum.reduce(x0, 0, np.float32)", HALVES.reshape(2, 3) / 3),
    ("np.nanmin(x0, initial=0.75, where=x0 > 1)", np.float32([np.nan, 2, 3])),
    ("np.nanvar(x0, where=x0 > 1, correction=1)", np.array([np.nan, 2, 3, 0.5])),
    ("np.var(x0, ddof=1, correction=1)", HALVES),
    ("np.einsum('ij,kj', x0, x0, dtype=np.float32, casting='same_kind')", HALVES.reshape(2, 3) / 3),
    ("np.add(x0, x0, out=x1, casting='unsafe')", HALVES, np.zeros(6, np.int8)),
    ("np.add(x0, x1, casting='no')", HALVES, np.arange(6)),
    ("np.cumulative_sum(x0, axis=1, out=x1, include_initial=True)", HALVES.reshape(2, 3), np.zeros((2, 4))),
    ("np.fft.rfft2(x0, out=x1)", HALVES.reshape(2, 3), np.zeros((2, 2), complex)),
    ("np.fft.ifft(x0, out=x1)", HALVES, np.zeros(5, complex)),
    ("np.asarray(x0, np.float32, copy=False)", HALVES),
    ("np.linalg.vecdot(x0, x0, axis=0)", HALVES.reshape(2, 3)),
    ("x0.choose(x1, x1 * 2, mode='clip')", np.arange(3), SINGLE),
    ("x0.any(0, None, x1)", np.eye(2, 3) > 0, np.zeros(3, bool)),
    ("np.array([x0.flags.c_contiguous, x0.flags.fnc])", HALVES.reshape(2, 3).T),
    ("np.array([x0.flags.c_contiguous, x0.flags.forc])", HALVES.reshape(6, 1).T),
    ("x0 ** 2", np.array([True, False])),
    ("x0 ** x1", np.zeros((3, 0), int), np.array([-1])),
    ("x0 ** -1", np.zeros((3, 0), int)),
]


@pytest.mark.parametrize("case", FOUND, ids=[c[0] for c in FOUND])
def test_calls_that_were_wrong(case):
    """Calls that the random ones found wrong, one of each kind."""
    text, *args = case
    outcome, what = compare(text.partition("(")[0], lambda: Call(text, [np.copy(a) for a in args]), interpreted)
    assert outcome == "same", what


# of numbers and arrays without axes NumPy's own code of these fails by chance, with TypeErrors
_NEED_AXES = {
    "np.choose", "np.fft.fftshift", "np.fft.ifftshift", "np.linalg.solve", "np.linalg.tensorinv", "np.pad", "np.poly",
    "np.polynomial.polynomial.polyfromroots", "np.roots",
}  # fmt: skip
# what is no reference: of the empty ones here it gives
# numbers of Python, other shapes for some q, or fails; a write to a read-only array is refused by compiled code's entry
APART = {
    "0-d": _NEED_AXES,
    "scalar": _NEED_AXES,
    "number": _NEED_AXES,
    "empty": {
        "np.histogram", "np.nanpercentile", "np.nanquantile", "np.poly", "np.polymul", "np.polyval",
        "np.polynomial.polynomial.polyint",
    },
    "repeated": {"np.place", "np.put", "np.put_along_axis", *(n for n in RULES if n.endswith(".at"))},
    "reversed": set(),
    "overlapping": set(),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("how", SITUATIONS)
def test_each_function_in_each_situation(how, part):
    """All arrays of a call empty, without axes, numbers, reversed, of stride 0, or in one memory."""
    found = []
    for name in sorted({*QUICK} - APART[how] - MISCOUNTED)[part::4]:
        for seed in (0, 1):
            outcome, what = compare(name, call_of(name, seed, how=how), interpreted)
            found += [f"seed {seed}: {what}"] if outcome == "wrong" else []
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RULES))
def test_random_calls(name):
    """Many calls of each function, by the front end and the interpreter."""

    @settings(max_examples=100, **DETERMINISTIC)
    @given(SEEDS)
    def run(seed):
        check(name, seed, interpreted)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RULES))
def test_random_calls_natively(name):
    """Some calls of each function, by native code."""

    @settings(max_examples=10, **DETERMINISTIC)
    @given(SEEDS)
    def run(seed):
        check(name, seed, native)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHOD_FORMS)
def test_random_calls_of_methods(method):
    """Each method of arrays, with the forms of the function of its name."""

    @settings(max_examples=100, **DETERMINISTIC)
    @given(SEEDS)
    def run(seed):
        check(METHOD_FORMS[method], seed, interpreted, method=True)

    run()


# what is refused although its rule has the parameter: some values of it, or some arrays with it
REFUSED = {
    ("np.ravel", "order"), ("np.reshape", "copy"), ("np.stack", "out"), ("np.unwrap", "period"),
    ("np.logical_and.reduce", "dtype"), ("np.logical_or.reduce", "dtype"), ("ndarray.ravel", "order"),
    ("ndarray.flatten", "order"), ("ndarray.reshape", "copy"), ("ndarray.choose", "mode"),
}  # fmt: skip
# of these no call is found that NumPy takes: they mean something for ufuncs with other axes alone, or the C code has
# other names and places than the signature shows
UNTRIED = {
    *((f"np.{n}", p) for n in ("matmul", "matvec", "vecmat") for p in ("axis", "keepdims")),
    *((f"np.{n}", "out") for n in ("modf", "divmod", "frexp")), ("np.frexp", "dtype"),
    *((f"np.unique_{n}", "x") for n in ("all", "counts", "inverse")), ("np.tensordot", "a"), ("np.tensordot", "b"),
    *((f"ndarray.{n}", p) for n in ("all", "any") for p in ("out", "keepdims")), ("ndarray.choose", "choices"),
    ("ndarray.fill", "value"), ("np.linalg.tensordot", "x1"), ("np.linalg.tensordot", "x2"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_each_parameter(part):
    """Each parameter of NumPy's own signature, by name and by place: as NumPy has it, or refused by its name."""
    found = []
    for name in sorted({*KNOWN} - MISCOUNTED)[part::6]:
        refused = {*refused_parameters(KNOWN[name], rule_of(name))} | {p for n, p in REFUSED if n == name}
        for parameter, way, outcome, what in audited(name, interpreted):
            fine = outcome == "same" or (outcome == "refused" and parameter in refused and "[no help]" not in what)
            if not fine and not (outcome == "none" and (name, parameter) in UNTRIED):
                found.append(f"{name}: {parameter} by {way}: {outcome}: {what}")
    assert not found, "\n".join(found)
