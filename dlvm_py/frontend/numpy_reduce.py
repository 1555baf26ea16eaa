"""Reductions: sum, prod, mean, max, min, any, all, as functions and methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import temp, tensor_of
from dlvm_py.frontend.elementwise import operand, truth
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.facts import number
from dlvm_py.frontend.numpy_create import as_dtype
from dlvm_py.frontend.values import Scalar, Sequence, Static, describe
from dlvm_py.ir import BOOL, F64, I64, U64, DType, Value, literal, scalar


def as_axes(e: Emitter, axis: Any, rank: int) -> tuple[int, ...]:
    """An axis argument (None, an int, a tuple of ints), normalised and sorted."""
    if axis is None or (isinstance(axis, Static) and axis.value is None):
        return tuple(range(rank))
    items = axis.items if isinstance(axis, Sequence) else (axis,)
    return tuple(sorted(as_axis(e, item, rank) for item in items))


def as_axis(e: Emitter, item: Any, rank: int) -> int:
    """One axis, which must be a constant."""
    n = item.number if isinstance(item, Scalar) else None
    if not isinstance(n, int):
        e.error(UnsupportedSyntax, "an axis must be a constant int", help="write axis=0, or one call per case")
    if not -rank <= n < rank:
        e.error(TypeMismatch, f"axis {n} is out of bounds for array of dimension {rank}")
    return n % rank


def _keeps(e: Emitter, keepdims: Any) -> bool:
    if keepdims is None:
        return False
    if isinstance(keepdims, Scalar) and keepdims.number is not None:
        return bool(keepdims.number)
    e.error(UnsupportedSyntax, f"keepdims must be True or False, not {describe(keepdims)}")


def _accumulator(dtype: DType) -> DType:
    # NumPy sums bools and small ints in the platform's int
    if dtype.kind in "bi":
        return I64
    return U64 if dtype.kind == "u" else dtype


def _reduce(
    e: Emitter,
    a: Any,
    axis: Any,
    keepdims: Any,
    by: str,
    prepare: Callable[[Value], Value],
    init: Callable[[DType], Any],
) -> tuple[Any, tuple[int, ...], Any]:
    """(result, axes, operand): the reduced tensor wrapped, with kept axes if wanted."""
    a = operand(e, a, "a reduction")
    tensor = prepare(tensor_of(e, a))
    extents = () if isinstance(a, Scalar) else a.extents
    axes = as_axes(e, axis, len(extents))
    dtype = tensor.type.dtype  # type: ignore[attr-defined]
    if extents:
        tensor = e.emit("reduce", tensor, literal(init(dtype), scalar(dtype)), by=by, axes=axes)
    kept = [n for k, n in enumerate(extents) if k not in axes]
    if _keeps(e, keepdims):
        for k in axes:
            tensor = e.emit("padShape", tensor, at=k)
            kept.insert(k, i64(1))
    return temp(e, tensor, kept), axes, a


def sum_(e: Emitter, a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Any:
    """np.sum."""

    def prepare(t: Value) -> Value:
        return e.cast(t, as_dtype(e, dtype, _accumulator(t.type.dtype)))  # type: ignore[attr-defined]

    return _reduce(e, a, axis, keepdims, "add", prepare, lambda d: 0)[0]


def prod(e: Emitter, a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Any:
    """np.prod."""

    def prepare(t: Value) -> Value:
        return e.cast(t, as_dtype(e, dtype, _accumulator(t.type.dtype)))  # type: ignore[attr-defined]

    return _reduce(e, a, axis, keepdims, "multiply", prepare, lambda d: 1)[0]


def mean(e: Emitter, a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Any:
    """np.mean: integers in f64; nan over no elements."""

    def prepare(t: Value) -> Value:
        found = t.type.dtype  # type: ignore[attr-defined]
        return e.cast(t, as_dtype(e, dtype, found if found.is_inexact else F64))

    total, axes, a = _reduce(e, a, axis, keepdims, "add", prepare, lambda d: 0)
    if isinstance(a, Scalar):
        return total
    count = e.cast(e.product(tuple(a.extents[k] for k in axes)), total.dtype)
    if isinstance(total, Scalar):
        return Scalar(e.pure("divide", total.value, count), weak=False)
    return temp(e, e.emit("divide", total.tensor, count), total.extents)


def _lowest(dtype: DType) -> Any:
    if dtype is BOOL:
        return False
    if dtype.is_complex:
        return complex(-math.inf, -math.inf)
    return -math.inf if dtype.is_float else int(np.iinfo(dtype.numpy).min)


def _highest(dtype: DType) -> Any:
    if dtype is BOOL:
        return True
    if dtype.is_complex:
        return complex(math.inf, math.inf)
    return math.inf if dtype.is_float else int(np.iinfo(dtype.numpy).max)


def _extreme(by: str, word: str, init: Callable[[DType], Any]) -> Any:
    on_bool = {"max": "or", "min": "and"}[by]

    def reduction(e: Emitter, a: Any, axis: Any = None, keepdims: Any = None) -> Any:
        a = operand(e, a, f"np.{by}")
        if isinstance(a, Scalar):
            return Scalar(a.value, weak=False)
        _check_not_empty(e, a.extents, as_axes(e, axis, a.rank), word)
        return _reduce(e, a, axis, keepdims, on_bool if a.dtype is BOOL else by, lambda t: t, init)[0]

    return reduction


def _check_not_empty(e: Emitter, extents: tuple[Value, ...], axes: tuple[int, ...], word: str) -> None:
    """NumPy refuses to take the extreme of nothing, unless there is no result element."""
    fine: Value = literal(True)
    for k in axes:
        fine = e.both(fine, e.compare("lessThan", i64(0), extents[k]))
    for k, n in enumerate(extents):
        if k not in axes and number(n) is None:
            fine = e.either(fine, e.compare("equal", n, i64(0)))
    message = f"zero-size array to reduction operation {word} which has no identity"
    e.check(fine, "ValueError", message)


def any_(e: Emitter, a: Any, axis: Any = None, keepdims: Any = None) -> Any:
    """np.any."""
    return _reduce(e, a, axis, keepdims, "or", lambda t: truth(e, t), lambda d: False)[0]


def all_(e: Emitter, a: Any, axis: Any = None, keepdims: Any = None) -> Any:
    """np.all."""
    return _reduce(e, a, axis, keepdims, "and", lambda t: truth(e, t), lambda d: True)[0]


_max, _min = _extreme("max", "maximum", _lowest), _extreme("min", "minimum", _highest)
REDUCE: dict[Any, Any] = {
    np.sum: sum_, np.prod: prod, np.mean: mean, np.max: _max, np.min: _min, np.any: any_, np.all: all_,
}  # fmt: skip
REDUCE_METHODS: dict[str, Any] = {
    "sum": sum_, "prod": prod, "mean": mean, "max": _max, "min": _min, "any": any_, "all": all_,
}  # fmt: skip
