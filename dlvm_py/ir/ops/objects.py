"""DLVM's memory of values of any type: allocations in the original's form, boxes, copies; and trap and bitCast.

All of them are lowered (transforms/lower_aggregates.py) to allocateHeap, views, loads and stores of tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.layout import memory_leaves
from dlvm_py.ir.op import ALLOCATE, READ, TRAP, WRITE, Kind, Op
from dlvm_py.ir.ops.rules import pointer, static_extent, tensor
from dlvm_py.ir.ops.shape import indices_are_i64
from dlvm_py.ir.types import ELEMENTS, VOID, ArrayType, BoxType, PointerType, TensorType, Type
from dlvm_py.ir.value import Value

LOWERED = "differentiated after it is lowered"
# what the program raises, here and in native code
TRAPPED = "trap"
TOO_MANY = "more values are copied than there are"
TOO_FEW = "an allocation of less than one value"
EMPTY = "pop from an empty stack"
OTHER_TYPE = "the value on top of the stack has another type than the one that is popped"


def _row(name: str, rule: Any, effects: set[str], attrs: tuple[str, ...] = ()) -> Op:
    return Op(name, Kind.MEMORY, rule, None, attrs=attrs, effects=frozenset(effects), no_derivative=LOWERED)


def _to(t: Type) -> PointerType:
    memory_leaves(t)  # TypeError for what memory cannot hold
    return PointerType(t)  # type: ignore[arg-type]


def _aggregate_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    indices_are_i64(operands)
    if len(operands) > 1:
        raise TypeError(f"memory for values of type {attrs['type']} has one count, not {len(operands)}")
    return _to(ArrayType(static_extent(operands[0]), attrs["type"]) if operands else attrs["type"])


def _counted_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    indices_are_i64(operands)
    if len(operands) != 1:
        raise TypeError(f"one count is needed, not {len(operands)}")
    if (static_extent(operands[0]) or 1) < 1:
        raise TypeError("the count of an allocation is at least 1")
    return _to(attrs["type"])


def _stack_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if attrs["count"] < 1:
        raise TypeError("the count of an allocation is at least 1")
    return _to(attrs["type"])


def _box_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    memory_leaves(attrs["type"])
    return BoxType(attrs["type"])


def _project_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t = operands[0].type
    if not isinstance(t, BoxType):
        raise TypeError(f"{t} is no box")
    return PointerType(t.element)  # type: ignore[arg-type]


def _deallocate_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if not isinstance(operands[0].type, BoxType | PointerType):
        raise TypeError(f"{operands[0].type} is neither a pointer nor a box")
    return VOID


def _copy_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    source, destination, count = operands
    indices_are_i64([count])
    if isinstance(source.type, BoxType):
        if source.type != destination.type or static_extent(count) != 1:
            raise TypeError("between boxes of one type, one value is copied")
    elif pointer(source, "source").pointee != pointer(destination, "destination").pointee:
        raise TypeError(f"{source.type} and {destination.type} point to different types")
    return VOID


# allocateHeap T count (): *T    allocateHeap T count (n): *[n x T]
allocateAggregate = _row("allocateAggregate", _aggregate_type, {ALLOCATE}, ("type",))
# allocateHeap T count n: *T, the first of n; the original's form
allocateCounted = _row("allocateCounted", _counted_type, {ALLOCATE}, ("type",))
allocateStack = _row("allocateStack", _stack_type, {ALLOCATE}, ("type", "count"))
allocateBox = _row("allocateBox", _box_type, {ALLOCATE}, ("type",))
projectBox = _row("projectBox", _project_type, set())
deallocate = _row("deallocate", _deallocate_type, {WRITE})
# copy from a to b count n: n values from where a points to where b points
copy = _row("copy", _copy_type, {READ, WRITE})
# raises RuntimeError; no terminator
trap = Op("trap", Kind.CHECK, lambda operands, attrs: VOID, None, effects=frozenset({TRAP}), no_derivative=LOWERED)


# -- bits ----------------------------------------------------------------------------------------------


def _same_width(t: TensorType, to: TensorType) -> None:
    kinds = {t.dtype.kind, to.dtype.kind}
    if t.dtype is not to.dtype and (t.dtype.bits != to.dtype.bits or not kinds <= set("iuf")):
        raise TypeError(f"the bits of {t.dtype} are not those of a {to.dtype}")


def _count(t: TensorType) -> int:
    """The number of elements, which must be known."""
    if None in t.shape:
        raise TypeError(f"the extents of {t} are not known")
    return math.prod(n or 0 for n in t.shape)


def _bit_cast_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t, to = operands[0].type, attrs["type"]
    if isinstance(t, TensorType) and isinstance(to, TensorType):
        _same_width(t, to)
        if t.shape != to.shape and _count(t) != _count(to):
            raise TypeError(f"{t} and {to} differ in the number of elements")
        return to
    if isinstance(t, PointerType) and isinstance(to, PointerType):
        _same_memory(t, to)
        return to
    raise TypeError(f"no bits are shared by {t} and {to}")


def _same_memory(t: PointerType, to: PointerType) -> None:
    """Between a T and several in a row, the first of which it is; or the same elements in another shape."""
    a, b = t.pointee, to.pointee
    if any(isinstance(x, ArrayType) and x.element == y for x, y in ((a, b), (b, a))):
        return
    ours, theirs = memory_leaves(a), memory_leaves(b)
    if len(ours) == len(theirs) == 1 and ours[0].dtype is theirs[0].dtype and "S" not in t.layout + to.layout:
        if _count(ours[0]) == _count(theirs[0]):
            return
    raise TypeError(f"memory of {a} is no memory of {b}")


def _bit_cast(x: Any, type: Any) -> Any:  # noqa: A002 - the name of the attribute
    n = [len_ or 0 for len_ in type.shape] if None not in type.shape else np.shape(x)
    return np.ascontiguousarray(x).view(type.dtype.numpy).reshape(n)[()]


def _bits_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t = tensor(operands[0])
    to = t.with_dtype(ELEMENTS[attrs["to"]])
    _same_width(t, to)
    return to


NO_BITS = "the bits of a number have no derivative"
bitCast = Op("bitCast", Kind.AGGREGATE, _bit_cast_type, _bit_cast, attrs=("type",), no_derivative=LOWERED)
# the bits of each element as another dtype of the same width
bits = Op(
    "bits",
    Kind.ELEMENTWISE,
    _bits_type,
    lambda x, to: np.ascontiguousarray(x).view(ELEMENTS[to].numpy).reshape(np.shape(x))[()],
    attrs=("to",),
    no_derivative=NO_BITS,
)

OBJECTS = (
    allocateAggregate, allocateCounted, allocateStack, allocateBox, projectBox, deallocate, copy, trap, bitCast, bits,
)  # fmt: skip
