"""NumPy's ufuncs on values of the front end: loop dtypes by NumPy's own resolution, casts, broadcasting.

The table from ufunc to op is read off the op rows (`numpy_name`), so that a new row is a new function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import combine, fit, temp, tensor_of
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.values import Array, Scalar, Sequence, Static, Temp, describe
from dlvm_py.ir import BOOL, C128, F64, I64, OPS, U64, DType, Op, Value, dtype_of, literal, scalar

UFUNCS: dict[Any, Op] = {
    ufunc: row
    for row in OPS.values()
    if row.numpy_name and isinstance(ufunc := getattr(np, row.numpy_name, None), np.ufunc)
}
# what NumPy's bool loops of these ufuncs compute
_ON_BOOL = {
    "add": "or", "multiply": "and", "max": "or", "min": "and",
    "bitAnd": "and", "bitOr": "or", "bitXor": "notEqual", "bitNot": "not",
}  # fmt: skip
_LOGICAL = {np.logical_and, np.logical_or, np.logical_not}
_IDENTITY_ON_INTEGERS = {np.floor, np.ceil, np.trunc, np.absolute}
_PYTHON = {"i": int, "f": float, "c": complex}
_WIDEST = {int: I64, float: F64, complex: C128}
COMPARISONS = {np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal}

Operand = Scalar | Array | Temp


REAL_PART = "take the part that is meant: z.real, z.imag or abs(z)"


def operand(e: Emitter, value: Any, what: str) -> Operand:
    """The value as a ufunc operand: a Scalar, an Array with axes, or a Temp."""
    if isinstance(value, (Array, Temp)) and value.rank == 0:
        return Scalar(tensor_of(e, value), weak=False)
    if isinstance(value, (Scalar, Array, Temp)):
        return value
    hint = "make it an array before the call, or take its elements one by one" if isinstance(value, Sequence) else None
    if isinstance(value, Static) and value.value is None:
        hint = "a function without `return` gives None"
    e.error(TypeMismatch, f"{what} needs numbers or arrays, not {describe(value)}", help=hint)


@cache
def _resolve(ufunc: np.ufunc, signature: tuple[Any, ...]) -> tuple[np.dtype, ...]:
    return ufunc.resolve_dtypes((*signature, *[None] * ufunc.nout))


def _signature(value: Operand) -> Any:
    """What NumPy's promotion sees: a dtype, or Python's int, float or complex for a weak scalar."""
    if isinstance(value, Scalar) and value.weak and value.dtype.kind in _PYTHON:
        return _PYTHON[value.dtype.kind]
    return value.dtype.numpy


def loop_dtypes(e: Emitter, ufunc: np.ufunc, operands: list[Operand]) -> list[DType]:
    """dtypes of the operands and the result in the loop that NumPy would run."""
    signature = tuple(map(_signature, operands))
    if all(isinstance(s, type) for s in signature):  # NumPy promotes lone Python numbers as arrays of them
        signature = tuple(_WIDEST[s].numpy for s in signature)
    try:
        resolved = _resolve(ufunc, signature)
    except TypeError as error:
        e.error(TypeMismatch, str(error))
    return [supported(e, d, f"np.{ufunc.__name__}") for d in resolved]


def supported(e: Emitter, dtype: np.dtype, what: str) -> DType:
    """Our dtype, or a located error for the ones that we do not have."""
    found = dtype_of(dtype)
    if found is None:
        e.error(UnsupportedSyntax, f"{what} in {dtype} is not supported", help="convert with .astype(np.float64)")
    return found


def convert(e: Emitter, value: Operand, dtype: DType) -> Any:
    """(tensor, extents) of an operand in `dtype`; a Python int that does not fit raises as in NumPy."""
    if isinstance(value, Scalar):
        return cast_scalar(e, value, dtype), ()
    return e.cast(tensor_of(e, value), dtype), value.extents


def cast_scalar(e: Emitter, value: Scalar, dtype: DType) -> Value:
    """A scalar's value in `dtype`, with NumPy's OverflowError for weak ints that do not fit."""
    if value.dtype.is_complex:
        refuse_real(e, dtype)
    if value.weak and value.dtype is I64 and dtype.is_integer and dtype is not I64:
        least, most = dtype.limits
        low, high = i64(least), i64(min(most, 2**63 - 1))
        fits = e.both(e.compare("lessThanOrEqual", low, value.value), e.compare("lessThanOrEqual", value.value, high))
        e.check(fits, "OverflowError", "Python integer {} out of bounds for " + dtype.numpy_name, value.value)
    return e.cast(value.value, dtype)


_TOO_LARGE = "Python int too large to convert to C long"


def stored_scalar(e: Emitter, value: Scalar, dtype: DType) -> Value:
    """A scalar's value as an element of `dtype`, as `a[i] = value` and np.array([value], dtype) convert it.

    Integers come by way of Python's int, with its errors for NaN, infinities and what does not fit; only into an
    unsigned dtype a NumPy scalar is cast.
    """
    if not dtype.is_integer or value.dtype.is_complex or not (value.weak or dtype.kind == "i"):
        return cast_scalar(e, value, dtype)
    number = value.value
    if value.dtype.is_float:
        number = _whole_float(e, e.cast(number, F64), dtype)
    elif value.dtype.kind == "u" and value.dtype is U64 and dtype is not U64:
        e.check(e.pure("lessThan", number, literal(2**63, scalar(U64))), "OverflowError", _TOO_LARGE)
    if number.type.dtype is dtype:  # type: ignore[attr-defined]
        return number
    return cast_scalar(e, Scalar(e.cast(number, I64), weak=True), dtype)


def _whole_float(e: Emitter, x: Value, dtype: DType) -> Value:
    """int(x) as i64; as u64 for that dtype where it is not negative."""
    e.check(e.pure("not", e.pure("isNan", x)), "ValueError", "cannot convert float NaN to integer")
    e.check(e.pure("isFinite", x), "OverflowError", "cannot convert float infinity to integer")
    limit = 2.0**64 if dtype is U64 else 2.0**63
    fits = e.both(e.pure("greaterThanOrEqual", x, literal(-(2.0**63))), e.pure("lessThan", x, literal(limit)))
    e.check(fits, "OverflowError", _TOO_LARGE)
    if dtype is not U64:
        return e.cast(x, I64)
    shown = e.cast(x, I64)
    message = "Python integer {} out of bounds for uint64"
    e.check(e.pure("greaterThan", x, literal(-1.0)), "OverflowError", message, shown)
    return e.cast(x, U64)


def refuse_real(e: Emitter, dtype: DType) -> None:
    """A located error where a complex number would silently lose its imaginary part; NumPy warns or raises."""
    if dtype.kind not in "bc":
        e.error(TypeMismatch, f"a complex number cannot become {dtype.numpy_name} by itself", help=REAL_PART)


def truth(e: Emitter, tensor: Value) -> Value:
    """Elementwise: whether it counts as true."""
    dtype = tensor.type.dtype  # type: ignore[attr-defined]
    if dtype is BOOL:
        return tensor
    zero = literal(0, scalar(dtype))
    return e.emit("notEqual", tensor, zero) if tensor.type.shape else e.pure("notEqual", tensor, zero)  # type: ignore[attr-defined]


def apply_op(e: Emitter, op: str, tensors: list[Value], **attrs: Any) -> Value:
    """An elementwise op; numbered when all operands are scalars."""
    if any(t.type.shape for t in tensors):  # type: ignore[attr-defined]
        return e.emit(op, *tensors, **attrs)
    return e.pure(op, *tensors, **attrs)


def ufunc_call(e: Emitter, ufunc: np.ufunc, *values: Any, on_floats: str = "") -> Any:
    """A ufunc applied to values: a Temp, or a NumPy scalar where all are scalars.

    on_floats: the op that floats take in place of the ufunc's own.
    """
    name = f"np.{ufunc.__name__}"
    operands = [operand(e, v, name) for v in values]
    if ufunc is np.power:
        simple = _simple_power(e, operands)
        if simple is not None:
            return simple
    if ufunc in _LOGICAL:
        pairs = [(truth(e, tensor_of(e, o)), () if isinstance(o, Scalar) else o.extents) for o in operands]
        tensors, extents = combine(e, pairs)
        return temp(e, apply_op(e, UFUNCS[ufunc].name, tensors), extents)
    dtypes = loop_dtypes(e, ufunc, operands)
    if ufunc in COMPARISONS:
        mixed = _mixed_comparison(e, ufunc, operands, dtypes)
        if mixed is not None:
            return mixed
    loops, result = _widened(ufunc, operands, dtypes[: len(operands)]), dtypes[-1]
    converted = [convert(e, o, d) for o, d in zip(operands, loops, strict=True)]
    if ufunc is np.power:
        _check_power(e, operands, loops)
    tensors, extents = combine(e, converted)
    return temp(e, e.cast(_run(e, ufunc, tensors, loops[0], on_floats), result), extents)


def _widened(ufunc: np.ufunc, operands: list[Operand], loops: list[DType]) -> list[DType]:
    # NumPy compares arrays with any Python int by value; a wide enough loop gives the same
    ints = [o for o in operands if isinstance(o, Scalar) and o.weak and o.dtype is I64]
    if ufunc in COMPARISONS and ints and loops[0].is_integer and loops[0].bits < 64:
        return [I64] * len(loops)
    return loops


# of a signed a and an unsigned b: the comparison of b and a
_TURNED = {
    np.equal: np.equal, np.not_equal: np.not_equal, np.less: np.greater, np.less_equal: np.greater_equal,
    np.greater: np.less, np.greater_equal: np.less_equal,
}  # fmt: skip


def _mixed_comparison(e: Emitter, ufunc: np.ufunc, operands: list[Operand], dtypes: list[DType]) -> Any:
    """Signed with unsigned numbers of 64 bits, by value; also a uint64 with a Python int. None if it is neither."""
    found = [I64 if _signature(o) is int else d for o, d in zip(operands, dtypes, strict=False)]
    if found not in ([I64, U64], [U64, I64]):
        return None
    (a, b), (x, y) = (found, operands) if found[0] is I64 else (found[::-1], operands[::-1])
    if found[0] is U64:
        ufunc = _TURNED[ufunc]
    (signed, unsigned), extents = combine(e, [convert(e, x, a), convert(e, y, b)])
    negative = apply_op(e, "lessThan", [signed, i64(0)])
    compared = apply_op(e, UFUNCS[ufunc].name, [e.cast(signed, U64), unsigned])
    if ufunc in (np.less, np.less_equal, np.not_equal):  # a negative number is below all unsigned ones
        return temp(e, apply_op(e, "or", [negative, compared]), extents)
    return temp(e, apply_op(e, "and", [apply_op(e, "not", [negative]), compared]), extents)


def _run(e: Emitter, ufunc: np.ufunc, tensors: list[Value], loop: DType, on_floats: str = "") -> Value:
    if on_floats and loop.is_float:
        return apply_op(e, on_floats, tensors)
    if loop.kind in "biu" and ufunc in _IDENTITY_ON_INTEGERS and (ufunc is not np.absolute or loop.kind in "bu"):
        return tensors[0]
    if loop.is_complex and ufunc in ON_COMPLEX:
        return ON_COMPLEX[ufunc](e, tensors[0])
    if ufunc is np.conjugate and not loop.is_complex:
        return tensors[0]
    if ufunc in (np.isfinite, np.isnan) and not loop.is_inexact:
        tensors = [e.cast(tensors[0], F64)]
    row = UFUNCS[ufunc]
    name = row.name
    if loop is BOOL:
        name = _ON_BOOL.get(name, name)
    if name == "notEqual" and loop is BOOL and len(tensors) == 2:
        return apply_op(e, "notEqual", tensors)
    try:
        return apply_op(e, name, tensors)
    except TypeError:
        e.error(UnsupportedSyntax, f"np.{ufunc.__name__} of {loop.numpy_name} is not supported")


def _simple_power(e: Emitter, operands: list[Operand]) -> Any:
    """x ** 2, 1, 0.5, -1, as NumPy does them: without pow. None if it is none of these."""
    base, exponent = operands
    n = exponent.number if isinstance(exponent, Scalar) and exponent.weak else None
    if n is None or isinstance(n, bool) or not base.dtype.is_own:
        return None
    if (
        n == 2
        and isinstance(n, (int, float))
        and (base.dtype.is_inexact or isinstance(n, int))
        and base.dtype is not BOOL
    ):
        return ufunc_call(e, np.square, base)
    if not base.dtype.is_inexact:
        return None
    if n == 1:
        tensor, extents = convert(e, base, base.dtype)
        return temp(e, tensor, extents)
    if n == 0.5:
        return ufunc_call(e, np.sqrt, base)
    if n == -1:
        return ufunc_call(e, np.divide, Scalar(literal(1.0), weak=True), base)
    return None


def _check_power(e: Emitter, operands: list[Operand], loops: list[DType]) -> None:
    if not loops[0].is_integer or loops[0].kind == "u":
        return
    message = "Integers to negative integer powers are not allowed."
    base, exponent = operands
    zero = literal(0, scalar(exponent.dtype))
    if isinstance(exponent, Scalar):
        if isinstance(exponent.number, int) and exponent.number >= 0:
            return
        fine = e.pure("greaterThanOrEqual", exponent.value, zero)
    else:
        negative = e.emit("lessThan", tensor_of(e, exponent), zero)
        fine = e.pure("not", e.emit("reduce", negative, literal(False), by="or", axes=tuple(range(exponent.rank))))
    if not isinstance(base, Scalar):  # no element, no power
        fine = e.either(fine, e.compare("equal", e.product(base.extents), i64(0)))
    e.check(fine, "ValueError", message)


# -- functions of complex numbers ----------------------------------------------------------------------


def parts(e: Emitter, z: Value) -> tuple[Value, Value]:
    """The real and the imaginary part of a complex tensor."""
    return apply_op(e, "realPart", [z]), apply_op(e, "imaginaryPart", [z])


def modulus(e: Emitter, z: Value) -> Value:
    """|z|."""
    return apply_op(e, "hypot", list(parts(e, z)))


def _sign(e: Emitter, z: Value) -> Value:
    """z / |z|, 0 at 0; of an infinite part its sign, NaN of two, as NumPy."""
    size = modulus(e, z)
    number = scalar(size.type.dtype)  # type: ignore[attr-defined]
    zero, one, infinity, nan = (literal(x, number) for x in (0.0, 1.0, math.inf, math.nan))
    at_zero = apply_op(e, "equal", [size, zero])
    safe = apply_op(e, "select", [one, size, at_zero])
    infinite = [apply_op(e, "equal", [apply_op(e, "abs", [p]), infinity]) for p in parts(e, z)]
    one_is, both_are = apply_op(e, "or", infinite), apply_op(e, "and", infinite)
    found = []
    for part, far in zip(parts(e, z), infinite, strict=True):
        direction = apply_op(e, "select", [apply_op(e, "copysign", [one, part]), zero, far])
        finite = apply_op(e, "select", [zero, apply_op(e, "divide", [part, safe]), at_zero])
        chosen = apply_op(e, "select", [direction, finite, one_is])
        found.append(apply_op(e, "select", [nan, chosen, both_are]))
    return apply_op(e, "makeComplex", found)


def _by_part(op: str) -> Callable[[Emitter, Value], Value]:
    return lambda e, z: apply_op(e, "makeComplex", [apply_op(e, op, [p]) for p in parts(e, z)])


ON_COMPLEX: dict[Any, Callable[[Emitter, Value], Value]] = {
    np.absolute: modulus, np.sign: _sign, np.rint: _by_part("rint"),
}  # fmt: skip


def strong(value: Operand) -> Operand:
    """The operand as NumPy has it where it makes an array of it: a number of Python has the dtype of its class."""
    return Scalar(value.value, weak=False) if isinstance(value, Scalar) else value


def where(e: Emitter, flag: Any, a: Any, b: Any) -> Any:
    """np.where with three arguments."""
    flag, a, b = (operand(e, v, "np.where") for v in (flag, a, b))
    dtype = supported(e, promoted(a, b), "np.where")
    flags = truth(e, tensor_of(e, flag))
    # Python's ints are weak, and yet cast: what does not fit wraps
    pairs = [convert(e, strong(v), dtype) for v in (a, b)]
    pairs.append((flags, () if isinstance(flag, Scalar) else flag.extents))
    tensors, extents = combine(e, pairs)
    return temp(e, apply_op(e, "select", tensors), extents)


def promoted(*values: Operand) -> np.dtype:
    """np.result_type of the operands."""
    sample = {int: 0, float: 0.0, complex: 0j}
    return np.result_type(*(sample.get(s, s) for s in map(_signature, values)))


def sample(value: Operand) -> Any:
    """Something that NumPy promotes like the operand: a number of Python, or an array of one element."""
    signature = _signature(value)
    return signature() if isinstance(signature, type) else np.ones(1, signature)


def astype(e: Emitter, value: Any, dtype: DType) -> Any:
    """value.astype(dtype): always fresh. Of a complex value as a real one, the real part."""
    value = operand(e, value, "astype")
    tensor = tensor_of(e, value)
    return temp(e, e.cast(tensor, dtype), () if isinstance(value, Scalar) else value.extents)


def in_place(e: Emitter, ufunc: np.ufunc, target: Array | Temp, value: Any) -> Value:
    """The tensor that `target op= value` stores: the ufunc's result in the target's dtype and shape."""
    if isinstance(value, (Array, Temp)) and value.rank:
        value = Temp(fit(e, value, target.extents, in_place=True), target.extents, e.block)
    result = ufunc_call(e, ufunc, target, value)
    dtype = target.dtype
    if not np.can_cast(result.dtype.numpy, dtype.numpy, casting="same_kind"):
        e.error(
            TypeMismatch,
            f"Cannot cast ufunc '{ufunc.__name__}' output from dtype('{result.dtype.numpy}') "
            f"to dtype('{dtype.numpy}') with casting rule 'same_kind'",
            help="write the result to a new name, or convert it with .astype",
        )
    return e.cast(tensor_of(e, result), dtype)
