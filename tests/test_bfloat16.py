"""bfloat16 of ml_dtypes: promotion, arithmetic, casts, functions, reductions as NumPy has them with it; gradients."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from processes import run_python
from test_dtypes import OPERATORS, WEAK, check, interpreted, outcome

import dlvm_py as dlvm
from dlvm_py.ir import OWN_DTYPES
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.printer import print_module

bfloat16 = ml_dtypes.bfloat16
BF = np.dtype(bfloat16)
EVERY = np.arange(2**16, dtype=np.uint16).view(BF)  # each number there is
HARD = np.array(
    [0, -0.0, 0.5, 1, -1, -3.25, 7, 255, 257, 1e-40, -1e-39, 3e38, -3e38, 1.0078125, np.inf, -np.inf, np.nan], BF
)


def same(got, expected, ulps=0):
    """Classes, dtypes, shapes; bits of numbers (or `ulps` apart), NaN where NaN."""
    assert type(got) is type(expected), (got, expected)
    if isinstance(expected, tuple):
        for g, x in zip(got, expected, strict=True):
            same(g, x, ulps)
        return
    got, expected = np.asarray(got), np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if expected.dtype != BF:
        np.testing.assert_array_equal(got, expected)
        return
    got, expected = np.ravel(got), np.ravel(expected)
    number = (expected.view(np.uint16) & 0x7FFF) <= 0x7F80
    np.testing.assert_array_equal((got.view(np.uint16) & 0x7FFF) <= 0x7F80, number)
    distance = np.abs(got.view(np.int16)[number].astype(int) - expected.view(np.int16)[number])
    assert distance.max(initial=0) <= ulps, (got[number][distance > ulps], expected[number][distance > ulps])


def agrees(f, *args, ulps=0):
    """The compiled function does what NumPy does, in value and in the arrays that it writes."""
    copies = [[a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2)]
    same(dlvm.jit(f)(*copies[0]), outcome(f, *copies[1]), ulps)
    for got, expected in zip(*copies, strict=True):
        if isinstance(got, np.ndarray):
            same(got, expected, ulps)


# -- promotion ---------------------------------------------------------------------------------------------

PARTNERS = [*(d.numpy for d in OWN_DTYPES), BF]


@pytest.mark.parametrize(
    "name", ["+", "/", *(pytest.param(n, marks=pytest.mark.slow) for n in ("**", "<", "maximum", "&"))]
)
def test_promotion_with_every_dtype(name):
    """With each dtype, on either side: the dtype that NumPy and ml_dtypes give, or their TypeError."""
    x = np.array([1, 2], BF)
    for dtype in PARTNERS:
        check(typed, OPERATORS[name], x, np.array([2, 1], dtype))
        check(typed, OPERATORS[name], np.array([2, 1], dtype), x)
    for number in WEAK.values():
        check(typed, OPERATORS[name], x, number)
        check(typed, OPERATORS[name], number, x[0])


def typed(f, *args):
    """The function by the interpreter, for comparison by `agree`, which knows NumPy's own dtypes alone."""
    found, expected = interpreted(f, *args), outcome(f, *args)
    if np.asarray(expected).dtype != BF:
        return found
    same(found, expected)
    return expected


def joined(a, b, flag):
    """Promotion by other functions than ufuncs."""
    return np.where(flag, a, b), np.concatenate((a, b)), np.stack((b, a)), np.result_type(a, b) == np.float64


def test_promotion_of_arrays_that_meet():
    """np.where, np.concatenate: by np.result_type, which knows fewer pairs than the ufuncs."""
    flag = np.array([True, False])
    for dtype in (np.int8, np.float32, BF):
        agrees(joined, np.array([1.5, 2], BF), np.ones(2, dtype), flag)
    with pytest.raises(TypeError, match="promote"):
        dlvm.jit(joined)(np.ones(2, BF), np.ones(2, np.float16), flag)


# -- numbers -----------------------------------------------------------------------------------------------


def arithmetic(a, b):
    return (
        a + b, a - b, a * b, a / b, a // b, a % b, np.maximum(a, b), np.minimum(a, b), np.copysign(a, b), a == b, a < b,
        a >= b, np.fmax(a, b), np.arctan2(a, b), -a, abs(a), np.sign(a), np.rint(a), np.floor(a),
        np.trunc(a), np.sqrt(a), np.square(a), np.reciprocal(a), np.isnan(a), np.isfinite(a), np.signbit(a), a**2,
    )  # fmt: skip


def lengths(a, b):
    return np.hypot(a, b)


def test_arithmetic_is_rounded_once():
    """Every number with the awkward ones: computed in float32, to the nearest, ties to even; bits as ml_dtypes'."""
    a, b = (np.ascontiguousarray(m.ravel()) for m in np.meshgrid(EVERY[::7], HARD))
    run = dlvm.jit(arithmetic)
    same(run(a, b), outcome(arithmetic, a, b))
    finite = np.isfinite(a.astype("f4")) & np.isfinite(
        b.astype("f4")
    )  # of NaN and infinity C makes infinity, ml_dtypes NaN
    same(dlvm.jit(lengths)(a[finite], b[finite]), outcome(lengths, a[finite], b[finite]))
    same(run(b[::-1], a[::-1]), outcome(arithmetic, b[::-1], a[::-1]))
    for x, y in itertools.product(HARD[::3], HARD[1::4]):
        same(run(x, y), outcome(arithmetic, x, y))


def functions(x):
    return (
        np.exp(x), np.log(x), np.sin(x), np.cos(x), np.tanh(x), np.expm1(x), np.log1p(x), np.arctan(x), np.cbrt(x),
        np.exp2(x), np.log2(x), np.log10(x), np.sinh(x), np.arcsinh(x), np.logaddexp(x, x), x**3, np.deg2rad(x),
    )  # fmt: skip


def test_functions():
    """Of every number: next to the nearest at most, as float32's are not all correctly rounded."""
    same(dlvm.jit(functions)(EVERY), outcome(functions, EVERY), ulps=1)


def test_casts():
    """From every number to each dtype, and back from the edges of each."""

    def away(x):
        return (
            x.astype(bool), x.astype(np.int8), x.astype(np.uint16), x.astype(np.int32), x.astype(np.int64),
            x.astype(np.uint64), x.astype(np.float16), x.astype(np.float32), x.astype(np.float64), x.astype(complex),
        )  # fmt: skip

    with np.errstate(all="ignore"):
        same(dlvm.jit(away)(EVERY), away(EVERY))
    back = dlvm.jit(lambda x: (x.astype(bfloat16), x.astype("bfloat16")))
    halves = (np.arange(2**16, dtype=np.uint32) << 16 | 0x8000).view(np.float32)  # halfway between neighbours
    wide = halves[np.isfinite(halves)].astype(float)
    for x in (
        halves, np.nextafter(wide.astype(np.float32), np.float32(np.inf)), wide, np.nextafter(wide, np.inf),
        np.nextafter(wide, -np.inf), 2 ** np.arange(63) + 2 ** np.arange(63) // 256, np.arange(300) > 3,
        np.arange(2**16, dtype=np.uint16).view(np.float16), np.array([1 + 2j]).real,
    ):  # fmt: skip
        with np.errstate(all="ignore"):
            same(back(x), (x.astype(BF), x.astype(BF)))


# -- arrays ------------------------------------------------------------------------------------------------


def created(n):
    return (
        np.zeros(n, dtype=bfloat16), np.full(n, 1.7, bfloat16), np.arange(n, dtype=bfloat16), bfloat16(n) + 1,
        np.linspace(0, 1, n, dtype=bfloat16), np.array([1.7, n], bfloat16), np.eye(n, dtype="bfloat16"),
        ml_dtypes.bfloat16(0.1), float(bfloat16(n)), int(bfloat16(n)), bfloat16(n) + 1.5, bfloat16(n) < 3,
    )  # fmt: skip


def written(x, y):
    x[0] = 3.7
    x[1:] += 1
    x *= np.float64(2)
    x[1] = np.float64(1) / 3
    x += y
    x[2:] /= 3
    return x[::-1], x.dtype == bfloat16, x.dtype.itemsize, np.zeros_like(x), x[x > 1], y[0], y.T.reshape(2, 2)


def test_creation_and_stores():
    """New arrays and scalars; elements, slices and views that are written."""
    agrees(created, 5)
    agrees(written, np.array([0.5, 1, -2, 3.25], BF), np.array([1, 2, 3, -4], BF))


def reduced(x):
    return (
        np.sum(x), x.mean(), np.prod(x), np.max(x), np.min(x, axis=0), np.argmax(x), np.sort(x), np.argsort(x),
        np.median(x), np.cumsum(x), np.sum(x, dtype=np.float32), np.any(x), np.clip(x, 0, 1),
        np.searchsorted(np.sort(x), x[1]), np.linalg.norm(x),
    )  # fmt: skip


def products(x, y):
    return x @ y, np.dot(x, y), np.inner(x, x), np.outer(x, y), np.vdot(x, x), x[0] @ x[0], np.tensordot(x, y, 1)


def test_reductions_and_products():
    """Where every sum is exact: the same numbers; `@` runs NumPy's float32 loop, np.dot has bfloat16 results."""
    agrees(reduced, np.array([0.5, 1, -2, 3.25], BF))
    x = np.arange(12).reshape(3, 4).astype(BF)
    agrees(products, x, x.T.copy())
    for bad in (lambda x: np.einsum("ij,jk", x, x), lambda x: round(x[0, 0])):
        with pytest.raises(TypeError):
            dlvm.jit(bad)(x)


def test_sums_are_kept_in_float32():
    """More exact than ml_dtypes' loop, which rounds after each addition: its sum of a thousand ones is 256."""
    assert dlvm.jit(lambda x: np.sum(x))(np.ones(1000, BF)) == 1000


def loss(x, w):
    h = np.tanh(x @ w)
    return np.sum(h * h) + np.sum(np.exp(-(x**2))) + np.max(w)


def test_gradients():
    """The derivative of a bfloat16 array is one; it is that of float32 to within the roundings on the way."""
    x, w = (np.linspace(-1, 1, n).reshape(3, -1) for n in (9, 6))
    narrow = dlvm.grad(loss, wrt=(0, 1))(x.astype(BF), w.astype(BF))
    wide = dlvm.grad(loss, wrt=(0, 1))(x.astype(BF).astype(float), w.astype(BF).astype(float))
    for got, expected in zip(narrow, wide, strict=True):
        assert got.dtype == BF
        np.testing.assert_allclose(got.astype(float), expected, rtol=0.03, atol=0.03)
    value, tangent = dlvm.jvp(loss, (x.astype(BF), w.astype(BF)), (np.ones_like(x, BF), np.ones_like(w, BF)))
    assert abs(float(tangent) - sum(g.sum() for g in wide)) < 0.1 and isinstance(value, (bfloat16, np.float32))


# -- around ------------------------------------------------------------------------------------------------


def test_text_of_the_ir():
    """`bf16` in programs: read, printed, run."""
    text = """module "m"
stage raw

func @f: (<3 x bf16>, bf16) -> <3 x bf16> {
'entry(%x: <3 x bf16>, %y: bf16):
    %v0 = multiply %x: <3 x bf16>, 1.5: bf16
    %v1 = add %v0: <3 x bf16>, %y: bf16
    return %v1: <3 x bf16>
}
"""
    assert print_module(parse_module(text)).strip() == text.strip()


def test_shown(capsys):
    """print and messages."""

    def f(x):
        print(x[0], f"{x[1]:.2f} {x[0]!r}", x)
        raise ValueError(f"got {x[1]}")

    shown = []
    for run in (f, dlvm.jit(f)):
        with pytest.raises(ValueError, match="got 0.300781"):
            run(np.array([1.5, 0.3], BF))
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_source_is_refused():
    """NumPy alone has no bfloat16 to write the program with."""
    with pytest.raises(dlvm.CompileError, match="bfloat16"):
        dlvm.jit(lambda x: x + 1).source(np.ones(2, BF))


def test_ml_dtypes_is_not_imported():
    """Who does not use it does not pay for it."""
    run_python("-c", "import sys, dlvm_py, dlvm_py.driver; assert 'ml_dtypes' not in sys.modules")
