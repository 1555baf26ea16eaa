"""The scalar code of the CPU back end: every elementwise op and dtype on hard values against NumPy."""

import itertools
import warnings

import numpy as np
import pytest
from irbuild import new_function, pointer
from native import Failed, Native

from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.ir import (
    BOOL,
    F16,
    I64,
    OPS,
    OWN_DTYPES,
    Literal,
    TensorType,
    scalar,
)
from dlvm_py.ir.ops.elementwise import ELEMENTWISE

RNG = np.random.default_rng(7)
FLOATS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 7.0, -1e-5, 1e4, 65504.0]


def hard(dtype):
    """Hard values of a dtype."""
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind == "f":
        extra = {"f64": [1e300, -1e300, 5e-324, 2.0**53, 2.0**63, 1e19], "f32": [3e38, 1e-45, 2.0**63]}
        return np.array(FLOATS + extra.get(dtype.name, []), dtype.numpy)
    if dtype.kind == "c":
        few = [0.0, -0.0, 1.0, -2.5, 0.3, np.inf, np.nan]
        return np.array([complex(a, b) for a in few for b in few], dtype.numpy)
    info = np.iinfo(dtype.numpy)
    values = [0, 1, 2, 3, 5, 7, 8, 13, 63, 64, 100, info.max, info.max - 1, info.min, info.min + 1]
    return np.array(values + ([-1, -2, -3, -7] if dtype.kind == "i" else []), dtype.numpy)


def pairs(*arrays):
    """All combinations of the elements of the arrays, as arrays of equal length."""
    return [np.array(column) for column in zip(*itertools.product(*arrays), strict=True)]


def operand_count(op):
    if op.name in ("select", "dataTypeCast", "polygamma"):
        return 3 if op.name == "select" else 1
    kind = next(iter(TABLE[op.name]))
    sample = np.ones(1, next(d for d in OWN_DTYPES if d.kind == kind).numpy)
    for count in (1, 2):
        try:
            with np.errstate(all="ignore"):
                op.evaluate(*[sample] * count)
        except (TypeError, ValueError):
            continue
        return count


def check_same(op, dtype, got, want, args):
    if dtype.kind in "fc" and got.dtype.kind in "fc":
        ulp = {"f16": 2e-3, "f32": 1e-6, "f64": 1e-14, "c64": 2e-5, "c128": 1e-13}[dtype.name]
        exact = op in EXACT
        if dtype.kind == "c" and not exact:
            # infinities and NaN of complex functions differ between NumPy and libm in the part that is not defined
            finite = np.isfinite(want.real) & np.isfinite(want.imag)
            assert np.allclose(got[finite], want[finite], rtol=ulp, atol=ulp)
            return
        if exact:
            np.testing.assert_array_equal(got, want)
            # the sign of a NaN means nothing
            assert np.array_equal(np.signbit(got.real[want == want]), np.signbit(want.real[want == want])), args
        else:
            np.testing.assert_allclose(got, want, rtol=ulp, atol=0)
    else:
        bad = got != want
        assert not bad.any(), [(*(a[bad][:3] for a in args), got[bad][:3], want[bad][:3])]


EXACT = {"negate", "add", "subtract", "multiply", "floorDivide", "modulo", "max", "min", "sqrt", "square", "abs",
         "sign", "floor", "ceil", "rint", "round", "copysign", "truncate", "select", "dataTypeCast",
         "scaleSeed", "realPart", "imaginaryPart", "makeComplex", "conjugate"}  # fmt: skip
# fused multiply-add and Smith's formula: NumPy's own complex products are not reproducible to the bit
EXACT_REAL_ONLY = {"multiply", "square", "scaleSeed", "divide", "sqrt"}

CASES = [(op, d) for op in ELEMENTWISE for d in OWN_DTYPES if d.kind in TABLE[op.name]]
CASES.remove((OPS["makeComplex"], F16))


def attributes(op):
    return {"dataTypeCast": {"to": "f64"}, "polygamma": {"order": 3}}.get(op.name, {})


def elementwise_kernel(op, dtype, count):
    types = [pointer(BOOL if op.name == "select" and k == 2 else dtype, None) for k in range(count)]
    result = op.result_type([Literal(TensorType((None,), t.dtype), 0) for t in types], attributes(op)).dtype
    _, f, b, params = new_function(*types, pointer(result, None))
    y = b.emit(op, *(b.emit("load", p) for p in params[:-1]), **attributes(op))
    b.emit("store", y, params[-1])
    b.ret()
    return Native(f), result


def test_the_table_covers_every_row():
    """Each elementwise row has an emitter for exactly the dtype kinds that its type rule and NumPy accept."""
    of_values = {op.name for op in ELEMENTWISE}
    assert set(TABLE) == of_values | {"bits"}  # of patterns: tested with the aggregates that are made of them
    for op in ELEMENTWISE:
        for dtype in OWN_DTYPES:
            values = [
                Literal(scalar(BOOL if op.name == "select" and k == 2 else dtype), 1) for k in range(operand_count(op))
            ]
            try:
                op.result_type(values, attributes(op))
                sample = np.ones(1, dtype.numpy)
                with np.errstate(all="ignore"):
                    op.evaluate(
                        *[sample.astype(v.type.dtype.numpy) for v in values],
                        **attributes(op),
                    )
                accepted = True
            except TypeError:
                accepted = False
            # the parts of a complex number have 32 or 64 bits
            has = dtype.kind in TABLE[op.name] and not (op.name == "makeComplex" and dtype is F16)
            assert accepted == has, (op.name, dtype)


@pytest.mark.parametrize(
    ("op", "dtype"), [c for c in CASES if c[0].name != "dataTypeCast"], ids=lambda v: getattr(v, "name", "")
)
def test_elementwise(op, dtype):
    count = operand_count(op)
    kernel, result = elementwise_kernel(op, dtype, count)
    values = [hard(dtype)] * min(count, 2) + ([np.array([True, False])] if count == 3 else [])
    if op.name == "power" and dtype.kind == "i":
        values[1] = values[1][values[1] >= 0]
    args = pairs(*values)
    out = np.zeros(len(args[0]), result.numpy)
    kernel(*args, out)
    with np.errstate(all="ignore"):
        want = np.asarray(op.evaluate(*args, **attributes(op)))
    if op.name == "truncateDivide" and dtype.kind == "i":
        keep = args[0] != np.iinfo(dtype.numpy).min  # |smallest| wraps in the oracle
        keep &= args[1] != np.iinfo(dtype.numpy).min
        args, out, want = [a[keep] for a in args], out[keep], want[keep]
    name = "" if dtype.kind == "c" and op.name in EXACT_REAL_ONLY else op.name
    check_same(name, dtype, out, want.astype(result.numpy), args)


@pytest.mark.parametrize("dtype", OWN_DTYPES, ids=str)
def test_casts(dtype):
    """One dtype to every other, at the edges of the ranges of integers."""
    targets = list(OWN_DTYPES)
    _, f, b, (p, *outs) = new_function(pointer(dtype, None), *(pointer(to, None) for to in targets))
    for to, out in zip(targets, outs, strict=True):
        b.emit("store", b.emit("dataTypeCast", b.emit("load", p), to=to.name), out)
    b.ret()
    x = hard(dtype)
    if dtype.kind == "f":
        edges = [
            2.0**31,
            2.0**31 - 1,
            -(2.0**31),
            -(2.0**31) - 1,
            255.5,
            256.0,
            -0.9,
            2.0**32,
            2.0**63,
            -(2.0**63),
            2.0**64,
        ]
        near = 1 + 2.0**-11 + RNG.normal(size=500) * 2.0**-40  # close to the middle of two f16
        with np.errstate(over="ignore"):
            x = np.concatenate([x, np.array(edges).astype(x.dtype), np.r_[RNG.normal(size=2000), near].astype(x.dtype)])
    x = np.concatenate([x, np.ones(16, x.dtype)])  # NumPy converts the end of an array to u32 in another way
    found = [np.zeros(len(x), to.numpy) for to in targets]
    Native(f)(x, *found)
    for to, out in zip(targets, found, strict=True):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ComplexWarning
            want = x.astype(to.numpy)
        np.testing.assert_array_equal(out, want, err_msg=f"{dtype} to {to}")


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "power", "negate", "abs"])
def test_checked_integers(name):
    unary = name in ("negate", "abs")
    _, f, b, params = new_function(*[scalar(I64)] * (1 if unary else 2), result=scalar(I64))
    b.ret(b.emit(name, *params, checked=True))
    kernel = Native(f)
    exact = {
        "add": int.__add__,
        "subtract": int.__sub__,
        "multiply": int.__mul__,
        "power": pow,
        "negate": int.__neg__,
        "abs": abs,
    }[name]
    values = [0, 1, -1, 2, -2, 3, 10, 62, 63, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63)]
    for args in itertools.product(values, repeat=len(params)):
        if name == "power" and (args[1] < 0 or abs(args[0]) > 1 and args[1] > 100):
            continue
        want = exact(*args)
        if -(2**63) <= want < 2**63:
            assert kernel(*args) == want
        else:
            with pytest.raises(Failed) as error:
                kernel(*args)
            assert error.value.record[0] == "OverflowError"
