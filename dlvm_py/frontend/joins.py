"""Types of values where control flow joins (DESIGN section 4).

Scalars join by promotion, arrays of one dtype and rank by forgetting layout and extents that differ,
tuples item by item, compile-time constants only if they are the same object. What has no common type
becomes a Conflict, which is an error where the name is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm_py.errors import Loc
from dlvm_py.frontend.arrays import make_array
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.facts import I64_MAX, I64_MIN, key
from dlvm_py.frontend.values import Array, Binding, Conflict, Scalar, Sequence, describe
from dlvm_py.ir import (
    BOOL,
    C128,
    F64,
    I64,
    NULL,
    Block,
    DType,
    Literal,
    PointerType,
    TensorType,
    Value,
    dtype_of,
    literal,
    scalar,
)


class _Any:
    """An extent of a learned type about which nothing was learned."""


ANY = _Any()


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A scalar of a dtype and flavour."""

    dtype: DType
    weak: bool


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A pointer; extents are values known equal on all paths, None where they differ."""

    dtype: DType
    layout: str
    shape: tuple[int | None, ...]
    extents: tuple[Any, ...]
    copied: str = ""


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A tuple or list of types."""

    items: tuple[Any, ...]
    is_list: bool


@dataclass(frozen=True, slots=True)
class OtherType:
    """Everything that has no run-time value: only equal to itself."""

    value: Any


def type_of(e: Emitter, value: Any) -> Any:
    """The type of a value, with the extents as they are known here."""
    match value:
        case Scalar():
            return ScalarType(value.dtype, value.weak)
        case Array():
            extents = tuple(map(e.facts.find, value.extents))
            return ArrayType(value.dtype, value.type.layout, value.type.shape, extents, value.copied)
        case Sequence():
            return SequenceType(tuple(type_of(e, i) for i in value.items), value.is_list)
        case Conflict():
            return value
    return OtherType(value)


def join(a: Any, b: Any) -> Any:
    """The least common type, or a Conflict with a reason."""
    if isinstance(a, Conflict) or isinstance(b, Conflict):
        return a if isinstance(a, Conflict) else b
    match a, b:
        case ScalarType(), ScalarType():
            return _join_scalars(a, b)
        case ArrayType(), ArrayType():
            return _join_arrays(a, b)
        case SequenceType(), SequenceType() if len(a.items) == len(b.items):
            items = tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True))
            clash = next((i for i in items if isinstance(i, Conflict)), None)
            return clash or SequenceType(items, a.is_list and b.is_list)
        case OtherType(), OtherType() if _same_object(a.value, b.value):
            return a
    return Conflict(f"{_words(a)} on one path and {_words(b)} on another")


def _same_object(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    x, y = getattr(a, "value", a), getattr(b, "value", b)
    if x is y:
        return True
    return isinstance(x, (str, np.dtype, slice, bytes)) and type(x) is type(y) and x == y


def _join_scalars(a: ScalarType, b: ScalarType) -> Any:
    if a == b:
        return a
    weak = a.weak and b.weak
    if weak:
        return ScalarType(next((d for d in (C128, F64) if d in (a.dtype, b.dtype)), I64), True)
    sample = [_sample(t) for t in (a, b)]
    dtype = dtype_of(np.result_type(*sample))
    if dtype is None:
        return Conflict(f"{_words(a)} on one path and {_words(b)} on another")
    return ScalarType(dtype, False)


def _sample(t: ScalarType) -> Any:
    if t.weak and t.dtype is not BOOL:
        return {"i": 0, "f": 0.0, "c": 0j}[t.dtype.kind]
    return t.dtype.numpy


def _join_arrays(a: ArrayType, b: ArrayType) -> Any:
    if a.dtype is not b.dtype or len(a.shape) != len(b.shape):
        return Conflict(f"{_words(a)} on one path and {_words(b)} on another")
    shape = tuple(m if m == n else None for m, n in zip(a.shape, b.shape, strict=True))
    extents = tuple(map(_join_extent, a.extents, b.extents))
    return ArrayType(a.dtype, a.layout if a.layout == b.layout else "S", shape, extents, a.copied or b.copied)


def _join_extent(a: Any, b: Any) -> Any:
    if a is ANY or b is ANY:
        return b if a is ANY else a
    return a if a is not None and b is not None and key(a) == key(b) else None


def _words(t: Any) -> str:
    match t:
        case ScalarType():
            return describe(Scalar(literal(0, scalar(t.dtype)), t.weak))
        case ArrayType():
            return f"an array ({len(t.shape)}-d, {t.dtype.numpy_name})"
        case SequenceType():
            return f"a tuple of {len(t.items)}"
    return describe(t.value)


def same_type(a: Any, b: Any) -> bool:
    """Whether joining `a` brought nothing that `b` does not allow: ANY says nothing of an extent."""
    match a, b:
        case ArrayType(), ArrayType():
            extents = all(
                x is y or y is ANY or (x is not None and y is not None and key(x) == key(y))
                for x, y in zip(a.extents, b.extents, strict=True)
            )
            return extents and (a.dtype, a.layout, a.shape, a.copied) == (b.dtype, b.layout, b.shape, b.copied)
        case SequenceType(), SequenceType():
            return len(a.items) == len(b.items) and all(map(same_type, a.items, b.items))
        case OtherType(), OtherType():
            return _same_object(a.value, b.value)
        case Conflict(), Conflict():
            return True
    return a == b


def lesson(t: Any) -> Any:
    """The part of a loop header's type that stays true when the loop is translated again."""
    match t:
        case ArrayType():
            extents = tuple(None if x is None else ANY for x in t.extents)
            return ArrayType(t.dtype, t.layout, t.shape, extents, t.copied)
        case SequenceType():
            return SequenceType(tuple(map(lesson, t.items)), t.is_list)
    return t


def fresh(e: Emitter, t: Any, block: Block, name: str) -> Any:
    """A value of type `t` made of new arguments of `block`, which is being built."""
    match t:
        case ScalarType():
            return Scalar(block.add_arg(scalar(t.dtype), name), t.weak)
        case ArrayType():
            pointer = block.add_arg(PointerType(TensorType(t.shape, t.dtype), t.layout), name)
            return make_array(e, pointer, [None if x is ANY else x for x in t.extents], t.copied)
        case SequenceType():
            items = (fresh(e, i, block, f"{name}.{k}") for k, i in enumerate(t.items))
            return Sequence(tuple(items), t.is_list)
        case OtherType():
            return t.value
    return t


def arguments(e: Emitter, value: Any, t: Any) -> list[Value]:
    """The IR values to pass for `value` where a block expects type `t`; None stands for an unset name."""
    match t:
        case ScalarType():
            if value is None:
                return [literal(0, scalar(t.dtype))]
            return [e.cast(value.value, t.dtype)]
        case ArrayType():
            to = PointerType(TensorType(t.shape, t.dtype), t.layout)
            if value is None:
                return [Literal(to, NULL)]
            return [value.pointer if value.type == to else e.emit("pointerCast", value.pointer, to=to)]
        case SequenceType():
            parts = [None] * len(t.items) if value is None else value.items
            return [v for part, i in zip(parts, t.items, strict=True) for v in arguments(e, part, i)]
    return []


def identical_values(values: list[Any]) -> bool:
    """Whether all are the very same value, so that a merge needs no block argument."""
    first = values[0]
    if isinstance(first, Scalar):
        return all(isinstance(v, Scalar) and key(v.value) == key(first.value) and v.weak == first.weak for v in values)
    if isinstance(first, Array):
        return all(isinstance(v, Array) and v.pointer is first.pointer for v in values)
    if isinstance(first, Sequence):
        if not all(isinstance(v, Sequence) and len(v.items) == len(first.items) for v in values):
            return False
        return all(identical_values(list(column)) for column in zip(*(v.items for v in values), strict=True))
    return all(v is first for v in values)


def note_range(e: Emitter, merged: Any, values: list[Any]) -> None:
    """Give a merged int the union of the ranges of its sources."""
    if isinstance(merged, Scalar) and merged.dtype is I64 and not isinstance(merged.value, Literal):
        ranges = [e.facts.range_of(v.value) if v is not None else (0, 0) for v in values]
        if all(v is None or v.dtype is I64 for v in values):
            low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
            if (low, high) != (I64_MIN, I64_MAX):
                e.facts.interval[merged.value] = (low, high)


def located(conflict: Conflict, name: str, bindings: list[Binding]) -> Conflict:
    """The conflict with the places that assigned."""
    places: list[Loc | None] = []
    for b in bindings:
        if b.loc is not None and b.loc not in places:
            places.append(b.loc)
    return Conflict(conflict.reason, conflict.places or tuple(places))
