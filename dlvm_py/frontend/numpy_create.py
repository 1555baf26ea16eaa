"""Making arrays: zeros, ones, full, empty and their *_like, arange, eye, array of scalars."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import Extents, allocate, arrayed, filled, made_as_it_lies, materialise, tensor_of
from dlvm_py.frontend.elementwise import (
    astype,
    cast_scalar,
    operand,
    stored_scalar,
    strong,
    supported,
    truth,
    ufunc_call,
)
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.facts import EXTENT_MAX
from dlvm_py.frontend.indexing import as_flag, as_index, count_between, dynamic_count
from dlvm_py.frontend.library import joining, reshaping
from dlvm_py.frontend.orders import Order, order_made
from dlvm_py.frontend.values import Array, Scalar, Sequence, Static, Temp, describe, is_none
from dlvm_py.ir import BOOL, F32, F64, I64, U64, DType, Value, literal, scalar
from dlvm_py.ir.value import integer


def as_dtype(e: Emitter, value: Any, default: DType = F64) -> DType:
    """A dtype argument: np.float32, float, "f4", x.dtype, None."""
    if is_none(value):
        return default
    if isinstance(value, Static):
        try:
            dtype = np.dtype(value.value)
        except TypeError:
            dtype = None
        if dtype is not None:
            return supported(e, dtype, "an array")
    e.error(TypeMismatch, f"{describe(value)} is no dtype", help="write np.float64, np.int64, np.bool_, ...")


def as_casting(e: Emitter, casting: Any, default: Any) -> Any:
    """The rule that casts follow: one of NumPy's words."""
    if casting is None:
        return default
    word = getattr(casting, "value", None)
    if word not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        e.error(
            UnsupportedSyntax,
            "`casting` must be one of the constants 'no', 'equiv', 'safe', 'same_kind' and 'unsafe'",
        )
    return word


def as_shape(e: Emitter, value: Any) -> Extents:
    """A shape argument: an int or a tuple of ints, each checked not to be negative."""
    items = value.items if isinstance(value, Sequence) else (value,)
    return tuple(_extent(e, item) for item in items)


def _extent(e: Emitter, item: Any) -> Value:
    n = as_index(e, item, "an extent of a shape")
    if not e.facts.is_nonnegative(n):
        e.check(e.compare("lessThanOrEqual", i64(0), n), "ValueError", "negative dimensions are not allowed")
        e.know_nonnegative(n)
    return e.facts.find(n)


def full(e: Emitter, shape: Any, fill_value: Any, dtype: Any = None, order: Any = None) -> Any:
    """np.full."""
    value = operand(e, fill_value, "np.full")
    wanted = as_dtype(e, dtype, value.dtype)
    if not isinstance(value, Scalar):
        return _in_order(e, _full_of(e, shape, value, wanted), order)
    return _in_order(e, _filled(e, as_shape(e, shape), value, wanted), order)


def _full_of(e: Emitter, shape: Any, values: Any, dtype: DType) -> Any:
    return e.session.library(e, reshaping.full_of, [shape, values, Static(dtype.numpy)], {})


def _filled(e: Emitter, extents: Extents, value: Scalar, dtype: DType) -> Any:
    if not extents:
        return _without_axes(e, value, Static(dtype.numpy))
    return filled(e, extents, cast_scalar(e, value, dtype), dtype)


def _constant(number_: int) -> Any:
    def make(e: Emitter, shape: Any, dtype: Any = None, order: Any = None) -> Any:
        found = _filled(e, as_shape(e, shape), Scalar(literal(number_), weak=False), as_dtype(e, dtype))
        return _in_order(e, found, order)

    return make


def _constant_like(number_: int) -> Any:
    def make(e: Emitter, a: Any, dtype: Any = None, order: Any = None, subok: Any = None, shape: Any = None) -> Any:
        a = _like(e, a)
        extents = _extents(a) if is_none(shape) else as_shape(e, shape)
        found = _filled(e, extents, Scalar(literal(number_), weak=False), as_dtype(e, dtype, a.dtype))
        return _like_in_order(e, a, found, order)

    return make


def _extents(a: Array | Temp | Scalar) -> Extents:
    return () if isinstance(a, Scalar) else a.extents


def _like(e: Emitter, a: Any) -> Array | Temp | Scalar:
    if isinstance(a, (Array, Temp, Scalar)):
        return a
    e.error(UnsupportedSyntax, f"the *_like functions need an array, not {describe(a)}")


def empty(e: Emitter, shape: Any, dtype: Any = None, order: Any = None) -> Any:
    """np.empty: memory that is not initialised."""
    return _in_order(e, allocate(e, as_shape(e, shape), as_dtype(e, dtype)), order)


def empty_like(
    e: Emitter, prototype: Any, dtype: Any = None, order: Any = None, subok: Any = None, shape: Any = None
) -> Any:
    """np.empty_like."""
    a = _like(e, prototype)
    extents = _extents(a) if is_none(shape) else as_shape(e, shape)
    return _like_in_order(e, a, allocate(e, extents, as_dtype(e, dtype, a.dtype)), order)


def full_like(
    e: Emitter, a: Any, fill_value: Any, dtype: Any = None, order: Any = None, subok: Any = None, shape: Any = None
) -> Any:
    """np.full_like."""
    a, value = _like(e, a), operand(e, fill_value, "np.full_like")
    extents, wanted = _extents(a) if is_none(shape) else as_shape(e, shape), as_dtype(e, dtype, a.dtype)
    if not isinstance(value, Scalar):
        shape = Sequence(tuple(Scalar(n, weak=True) for n in extents))
        return _like_in_order(e, a, _full_of(e, shape, value, wanted), order)
    return _like_in_order(e, a, _filled(e, extents, value, wanted), order)


def _like_in_order(e: Emitter, a: Any, made: Any, order: Any) -> Any:
    return _in_order(e, made_as_it_lies(e, a, made) if _keeps_order(order) else made, order)


def arange(e: Emitter, start: Any = None, stop: Any = None, step: Any = None, dtype: Any = None) -> Any:
    """np.arange(stop), (start, stop), (start, stop, step)."""
    if is_none(stop):
        start, stop = None, start
    if is_none(stop):
        e.error(TypeMismatch, "np.arange() requires stop to be specified")
    bounds = [Scalar(i64(0), True) if is_none(start) else start, stop, *(() if is_none(step) else (step,))]
    values = [operand(e, b, "np.arange") for b in bounds]
    if not all(isinstance(v, Scalar) for v in values):
        e.error(TypeMismatch, "np.arange needs numbers, not arrays")
    if any(v.dtype.is_complex for v in values):
        e.error(UnsupportedSyntax, "np.arange of complex numbers is not supported", help="np.arange(n) * step + start")
    # NumPy begins with int64, which meets uint64 in f64
    if any(v.dtype.is_float or v.dtype is U64 for v in values):
        return _stepped(e, values, as_dtype(e, dtype))
    wanted = as_dtype(e, dtype, I64)
    counts_from_zero = values[0].number == 0 and len(values) == 2
    if not counts_from_zero and any(not v.weak and v.dtype.bits < 64 for v in values):
        return _stepped(e, values, wanted)
    start, stop, *rest = (e.cast(v.value, I64) for v in values)
    step = rest[0] if rest else i64(1)
    known = integer(step)
    if not known:
        e.check(e.compare("notEqual", step, i64(0)), "ZeroDivisionError", "division by zero")
        count = dynamic_count(e, start, stop, step, e.compare("lessThan", i64(0), step), checked=True)
    else:
        count = count_between(e, start, stop, known) if known > 0 else count_between(e, stop, start, -known)
    if wanted is BOOL:
        _check_bools(e, count)
    tensor = e.emit("iota", count)
    if known != 1:
        tensor = e.emit("multiply", tensor, step)
    if integer(start) != 0:
        tensor = e.emit("add", tensor, start)
    return Temp(e.cast(tensor, wanted), (count,), e.block)


def _stepped(e: Emitter, values: list[Scalar], dtype: DType) -> Temp:
    """As NumPy does it: the second number and the count by the operands' arithmetic, the rest by that of dtype."""
    start, stop, step = (*values, Scalar(literal(1), weak=True))[:3]
    follow, span = _computed(e, np.add, start, step), _computed(e, np.subtract, stop, start)
    length = e.pure("ceil", e.cast(_computed(e, np.divide, span, step).value, F64))
    fine = e.both(e.pure("isFinite", length), e.pure("lessThan", length, literal(float(EXTENT_MAX))))
    e.check(fine, "ValueError", "Maximum allowed size exceeded")
    count = e.maximum(e.cast(length, I64), i64(0))
    e.facts.interval[count] = (0, EXTENT_MAX)
    if dtype is BOOL:
        _check_bools(e, count)
    loop = F32 if dtype.is_narrow else F64 if dtype is BOOL else dtype
    stored = loop if dtype is BOOL else dtype
    ends = [e.cast(v.value, stored) for v in (start, follow)]
    if dtype.is_integer and dtype.bits < 64:  # by way of Python's int, as far as they are there
        ends = [_as_stored(e, v, e.compare("lessThan", i64(k), count), dtype) for k, v in enumerate((start, follow))]
    first, second = (e.cast(v, loop) for v in ends)
    steps = e.emit("multiply", e.cast(e.emit("iota", count), loop), e.pure("subtract", second, first))
    return Temp(e.cast(e.emit("add", steps, first), dtype), (count,), e.block)


def _as_stored(e: Emitter, number_: Scalar, is_there: Value, dtype: DType) -> Value:
    """A number as an element that Python stores, if it is there at all."""
    value = e.choose(is_there, number_.value, literal(0, scalar(number_.dtype)))
    return stored_scalar(e, Scalar(e.cast(value, F64 if number_.dtype.is_float else I64), weak=True), dtype)


def _check_bools(e: Emitter, count: Value) -> None:
    message = "arange() is only supported for booleans when the result has at most length 2."
    e.check(e.compare("lessThanOrEqual", count, i64(2)), "TypeError", message)


def _computed(e: Emitter, ufunc: np.ufunc, a: Scalar, b: Scalar) -> Scalar:
    """a + b, a - b or a / b of numbers: of two of Python's in float64."""
    if not (a.weak and b.weak):
        return ufunc_call(e, ufunc, a, b)  # type: ignore[no-any-return]
    return Scalar(e.pure(ufunc.__name__, e.cast(a.value, F64), e.cast(b.value, F64)), weak=True)


def eye(
    e: Emitter,
    N: Any,
    M: Any = None,
    k: Any = None,
    dtype: Any = None,
    order: Any = None,  # noqa: N803 - NumPy's names
) -> Any:
    """np.eye(N, M, k): ones on a diagonal, the main one unless k is given."""
    rows = _extent(e, N)
    columns = rows if is_none(M) else _extent(e, M)
    index = e.emit("iota", rows)
    if k is not None:
        index = e.emit("add", index, as_index(e, k, "the diagonal of np.eye"))
    row = e.emit("padShape", index, at=1)
    column = e.emit("padShape", e.emit("iota", columns), at=0)
    equal = ufunc_call(e, np.equal, Temp(row, (rows, i64(1)), e.block), Temp(column, (i64(1), columns), e.block))
    return _in_order(e, astype(e, equal, as_dtype(e, dtype)), order)


def array(
    e: Emitter,
    object: Any,
    dtype: Any = None,
    copy: Any = None,
    order: Any = None,
    ndmin: Any = None,  # noqa: A002
) -> Any:
    """np.array: a copy of an array, or a fresh one of a number or a list of numbers or arrays."""
    if is_none(ndmin) and is_none(order):
        return _array(e, object, dtype, copy)
    word = "K" if is_none(order) else getattr(order, "value", None)
    if word not in ("K", "A", "C", "F"):
        e.error(UnsupportedSyntax, "`order` must be one of the constants 'K', 'A', 'C' and 'F'")
    least = 0 if is_none(ndmin) else getattr(ndmin, "number", None)
    if not isinstance(least, int):
        e.error(UnsupportedSyntax, "`ndmin` of np.array must be a constant int")
    return e.session.library(e, reshaping.laid_out, [_array(e, object, dtype, copy), Static(word), _int(least)], {})


def _int(number_: int) -> Scalar:
    return Scalar(i64(number_), weak=True)


def _array(e: Emitter, object: Any, dtype: Any = None, copy: Any = None) -> Any:  # noqa: A002 - NumPy's name
    if copy is not None and not as_flag(e, copy, "`copy` of np.array"):
        return asarray(e, object, dtype)
    if isinstance(object, (Array, Temp)) and object.rank:
        return made_as_it_lies(e, object, astype(e, object, as_dtype(e, dtype, object.dtype)))
    if not isinstance(object, Sequence):
        return _without_axes(e, object, dtype)
    if not object.items:
        return allocate(e, (i64(0),), as_dtype(e, dtype))
    if any(isinstance(x, (Array, Temp)) and x.rank or _is_deep(x) for x in object.items):
        parts = [_array(e, x, dtype) if isinstance(x, Sequence) else x for x in object.items]
        joined = e.session.library(e, joining.stack, [Sequence(tuple(parts))], {})
        return joined if is_none(dtype) else astype(e, joined, as_dtype(e, dtype))
    rows = [r.items if isinstance(r, Sequence) else (r,) for r in object.items]
    nested = isinstance(object.items[0], Sequence)
    given = [x for r in rows for x in r]
    flat = [operand(e, x, "np.array") for x in given]
    if len({len(r) for r in rows}) != 1 or not all(isinstance(x, Scalar) for x in flat):
        e.error(UnsupportedSyntax, "np.array needs numbers in rows of one length", help="use np.empty and assign")
    found = np.result_type(*(x.dtype.numpy for x in flat)) if flat else np.dtype(float)
    target = as_dtype(e, dtype, supported(e, found, "np.array"))
    shape = (i64(len(rows)), i64(len(rows[0]))) if nested else (i64(len(rows)),)
    out = allocate(e, shape, target)
    for k, (x, item) in enumerate(zip(flat, given, strict=True)):
        place = divmod(k, len(rows[0])) if nested else (k,)
        pointer = e.emit("elementPointer", out.pointer, *map(i64, place))
        # an array without axes is cast, a number goes by way of Python's int
        number_ = cast_scalar(e, x, target) if isinstance(item, Array) else stored_scalar(e, x, target)
        e.emit("store", number_, pointer)
    return out


def _without_axes(e: Emitter, value: Any, dtype: Any) -> Array:
    """np.array of a number: an array with no axes."""
    number_ = operand(e, value, "np.array")
    if not isinstance(number_, Scalar):
        e.error(UnsupportedSyntax, f"np.array of {describe(value)} is not supported", help="give a list of numbers")
    target = as_dtype(e, dtype, number_.dtype)
    out = allocate(e, (), target)
    # a number of Python goes by way of Python's int, one of NumPy and an array without axes are cast
    converted = stored_scalar(e, number_, target) if number_.weak else cast_scalar(e, number_, target)
    e.emit("store", converted, out.pointer)
    return out


def _is_deep(item: Any) -> bool:
    """Whether an item of a list is more than a number or a row of numbers."""
    return isinstance(item, Sequence) and any(
        isinstance(x, Sequence) or (isinstance(x, (Array, Temp)) and x.rank) for x in item.items
    )


def asarray(e: Emitter, a: Any, dtype: Any = None) -> Any:
    """np.asarray without an order: the array itself where the dtype agrees."""
    if isinstance(a, (Array, Temp)) and as_dtype(e, dtype, a.dtype) is a.dtype:
        return a
    return _array(e, a, dtype)


def _in_order(e: Emitter, value: Any, order: Any) -> Any:
    """A fresh array in the order of a word; what keeps the order of another one is in C order here."""
    word = "K" if is_none(order) else getattr(order, "value", None)
    if word not in ("C", "F", "A", "K"):
        e.error(UnsupportedSyntax, "`order` must be the constant 'C', 'F', 'A' or 'K'")
    if word == "C" and isinstance(value, Temp) and order_made(e, tensor_of(e, value)) is not Order.ROWS:
        return materialise(e, value, Order.ROWS)  # what is computed from it lies in C order, as it does
    if word != "F" or isinstance(value, Scalar):
        return value
    return e.session.library(e, reshaping.laid_out, [value, order, Scalar(i64(0), weak=True)], {})


def copy(e: Emitter, a: Any, order: Any = None) -> Any:
    """np.copy: a fresh array, of a number too."""
    return _like_in_order(e, a, arrayed(e, _fresh(e, a)), order)


def _keeps_order(order: Any) -> bool:
    return is_none(order) or getattr(order, "value", None) in ("K", "A")


def copy_method(e: Emitter, a: Any, order: Any = None) -> Any:
    """x.copy(): a fresh array, of one of NumPy's numbers a number."""
    return _like_in_order(e, a, _fresh(e, a), Static("C") if is_none(order) else order)


def _fresh(e: Emitter, a: Any) -> Any:
    if isinstance(a, (Array, Temp)):
        return Temp(tensor_of(e, a), a.extents, e.block)
    return strong(operand(e, a, "copy"))


def cast_to(
    e: Emitter, x: Any, dtype: Any, order: Any = None, casting: Any = None, subok: Any = None, copy: Any = None
) -> Any:
    """x.astype(dtype): the array itself for copy=False where the dtype agrees."""
    rule = as_casting(e, casting, "unsafe")
    if isinstance(x, (Array, Temp, Scalar)) and not np.can_cast(x.dtype.numpy, as_dtype(e, dtype).numpy, rule):
        e.error(
            TypeMismatch,
            f"Cannot cast array data from {x.dtype.numpy!r} to {as_dtype(e, dtype).numpy!r} according to the rule "
            f"'{rule}'",
            help="leave `casting` out",
        )
    if copy is not None and not as_flag(e, copy, "`copy` of astype") and isinstance(x, Array):
        if as_dtype(e, dtype) is x.dtype:
            return x
    found = astype(e, x, as_dtype(e, dtype))
    if as_dtype(e, dtype) is getattr(x, "dtype", None) and _keeps_order(order):
        found = made_as_it_lies(e, x, found)
    return _in_order(e, arrayed(e, found) if isinstance(x, (Array, Temp)) else found, order)


def cast_function(e: Emitter, x: Any, dtype: Any, *, copy: Any = None) -> Any:
    """np.astype(x, dtype): the array itself for copy=False where the dtype agrees."""
    if isinstance(x, Scalar) and x.weak:
        e.error(TypeMismatch, f"np.astype needs an array, not {describe(x)}", help="np.float64(x), np.int64(x), ...")
    return cast_to(e, x, dtype, copy=copy)


def scalar_of(e: Emitter, dtype: DType, x: Any = None) -> Any:
    """np.float32(x): a cast to a NumPy scalar, or of an array."""
    if x is None:
        return Scalar(literal(0, scalar(dtype)), weak=False)
    x = operand(e, x, f"np.{dtype.numpy_name}")
    if not isinstance(x, Scalar):
        return astype(e, x, dtype)
    if dtype is BOOL:
        return Scalar(truth(e, x.value), weak=False)
    if x.weak:  # by way of Python's int, as an element is stored
        return Scalar(stored_scalar(e, x, dtype), weak=False)
    return Scalar(cast_scalar(e, x, dtype), weak=False)


CREATE: dict[Any, Any] = {
    np.zeros: _constant(0), np.ones: _constant(1), np.full: full, np.empty: empty,
    np.zeros_like: _constant_like(0), np.ones_like: _constant_like(1), np.full_like: full_like,
    np.empty_like: empty_like, np.arange: arange, np.eye: eye, np.ndarray: empty,
    np.array: array, np.copy: copy,
    **({np.astype: cast_function} if hasattr(np, "astype") else {}),
}  # fmt: skip
CREATE_METHODS: dict[str, Any] = {"copy": copy_method, "astype": cast_to}
