"""Types of the front end's values: what is known of a value where control flow joins, or a list holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.facts import key
from dlvm_py.frontend.orders import Order, order_beside_type
from dlvm_py.frontend.values import (
    Array,
    Conflict,
    Either,
    Growing,
    Mixed,
    Object,
    Record,
    Ref,
    Scalar,
    Sequence,
    describe,
)
from dlvm_py.frozen import Frozen
from dlvm_py.ir import I64, DType, literal, scalar


class _Any:
    """An extent of a learned type about which nothing was learned."""


ANY = _Any()


class ScalarType(Frozen):
    """A scalar of a dtype and flavour."""

    dtype: DType
    weak: bool


class MixedType(ScalarType):
    """A scalar that has one of the other types on some paths (values.Mixed)."""

    others: tuple[ScalarType, ...]


class ArrayType(Frozen):
    """A pointer; extents are values known equal on all paths, None where they differ; order: as of orders.note."""

    dtype: DType
    layout: str
    shape: tuple[int | None, ...]
    extents: tuple[Any, ...]
    copied: str = ""
    order: Order = Order.ROWS


class RefType(Frozen):
    """A list of a region: its number there."""

    region: Object
    dtype: DType = I64


class SequenceType(Frozen):
    """A tuple or list of types."""

    items: tuple[Any, ...]
    is_list: bool


class RecordType(Frozen):
    """A record of types."""

    kind: type
    names: tuple[str, ...]
    items: tuple[Any, ...]


class GrowingType(Frozen):
    """A list of computed length; `item` is the type of all its items, None while it has none."""

    item: Any


class EitherType(Frozen):
    """One of several types that have no common one (values.Either); nothing is known of extents."""

    items: tuple[Any, ...]


class OtherType(Frozen):
    """Everything that has no run-time value: only equal to itself."""

    value: Any


def type_of(e: Emitter, value: Any) -> Any:
    """The type of a value, with the extents as they are known here."""
    match value:
        case Mixed():
            others = tuple(ScalarType(o.scalar.dtype, o.scalar.weak) for o in value.others)
            return MixedType(value.dtype, value.weak, others)
        case Scalar():
            return ScalarType(value.dtype, value.weak)
        case Either():
            return EitherType(tuple(alternative(type_of(e, v)) for v in value.values))
        case Ref():
            return RefType(value.region)
        case Array():
            extents = tuple(map(e.facts.find, value.extents))
            order = order_beside_type(e, value)
            return ArrayType(value.dtype, value.type.layout, value.type.shape, extents, value.copied, order)
        case Sequence():
            return SequenceType(tuple(type_of(e, i) for i in value.items), value.is_list)
        case Record():
            return RecordType(value.kind, value.names, tuple(type_of(e, i) for i in value.items))
        case Growing():
            return GrowingType(_item_type(e, value.item, list(value.buffers)))
        case Conflict():
            return value
    return OtherType(value)


def _item_type(e: Emitter, item: Any, buffers: list[Array]) -> Any:
    """The item type of a growing list, with the extents of the rows as they are known here."""
    match item:
        case ScalarType() | RefType():
            buffers.pop(0)
        case ArrayType():
            extents = tuple(map(e.facts.find, buffers.pop(0).extents[1:]))
            return ArrayType(item.dtype, "C", item.shape, extents)
        case SequenceType():
            return SequenceType(tuple(_item_type(e, i, buffers) for i in item.items), item.is_list)
        case RecordType():
            return RecordType(item.kind, item.names, tuple(_item_type(e, i, buffers) for i in item.items))
    return item


def leaf_types(t: Any) -> list[Any]:
    """The scalar, array and list types in a type, left to right."""
    if isinstance(t, SequenceType | RecordType):
        return [leaf for i in t.items for leaf in leaf_types(i)]
    return [t] if isinstance(t, ScalarType | ArrayType | RefType) else []


def regions_in(t: Any) -> list[Object]:
    """The regions of all lists in what a type describes."""
    if isinstance(t, SequenceType | RecordType):
        return [region for i in t.items for region in regions_in(i)]
    if isinstance(t, GrowingType):
        return regions_in(t.item)
    return [t.region] if isinstance(t, RefType) else []


def with_lists(t: Any, change: Callable[[Object], Object]) -> Any:
    """The type of an item, with the lists in it in other regions."""
    match t:
        case RefType():
            return RefType(change(t.region))
        case SequenceType():
            return SequenceType(tuple(with_lists(i, change) for i in t.items), t.is_list)
        case RecordType():
            return RecordType(t.kind, t.names, tuple(with_lists(i, change) for i in t.items))
    return t


def alternative(t: Any) -> Any:
    """A type without what need not be there on the other paths: values of extents."""
    return with_extents(t, lambda x: None)


def same_object(a: Any, b: Any) -> bool:
    """Whether two constants, or objects, are one."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Object):
        return a == b
    x, y = getattr(a, "value", a), getattr(b, "value", b)
    if x is y:
        return True
    return isinstance(x, (str, np.dtype, slice, bytes)) and type(x) is type(y) and x == y


def kinds_of(t: ScalarType) -> tuple[ScalarType, ...]:
    """The types that a scalar has on one path or another."""
    return (*t.others, one_type(t)) if isinstance(t, MixedType) else (t,)


def one_type(t: Any) -> Any:
    """A type with the joined one in the place of several."""
    match t:
        case MixedType():
            return ScalarType(t.dtype, t.weak)
        case SequenceType():
            return SequenceType(tuple(map(one_type, t.items)), t.is_list)
        case RecordType():
            return RecordType(t.kind, t.names, tuple(map(one_type, t.items)))
        case EitherType():
            return EitherType(tuple(map(one_type, t.items)))
    return t


def words(t: Any) -> str:
    """A type in the user's words."""
    match t:
        case ScalarType():
            return describe(Scalar(literal(0, scalar(t.dtype)), t.weak))
        case ArrayType():
            return f"an array ({len(t.shape)}-d, {t.dtype.numpy_name})"
        case SequenceType():
            return f"a {'list' if t.is_list else 'tuple'} of {len(t.items)}"
        case RecordType():
            shown = f"a dict with the keys {', '.join(t.names) or 'none'}"
            return shown if t.kind is dict else f"a {t.kind.__name__}"
        case GrowingType() | RefType():
            return "a list that grows"
        case EitherType():
            return " or ".join(map(words, t.items))
    return describe(t.value)


def same_type(a: Any, b: Any) -> bool:
    """Whether joining `a` brought nothing that `b` does not allow: ANY says nothing of an extent."""
    match a, b:
        case ArrayType(), ArrayType():
            extents = all(
                x is y or y is ANY or (x is not None and y is not None and key(x) == key(y))
                for x, y in zip(a.extents, b.extents, strict=True)
            )
            one, other = ((t.dtype, t.layout, t.shape, t.copied, t.order) for t in (a, b))
            return extents and one == other
        case SequenceType(), SequenceType():
            same = a.is_list == b.is_list and len(a.items) == len(b.items)
            return same and all(map(same_type, a.items, b.items))
        case RecordType(), RecordType():
            same = a.kind is b.kind and a.names == b.names
            return same and all(map(same_type, a.items, b.items))
        case GrowingType(), GrowingType():
            return same_type(a.item, b.item)
        case EitherType(), EitherType():
            return len(a.items) == len(b.items) and all(map(same_type, a.items, b.items))
        case OtherType(), OtherType():
            return same_object(a.value, b.value)
        case Conflict(), Conflict():
            return True
    return a == b


def lesson(t: Any) -> Any:
    """The part of a loop header's type that stays true when the loop is translated again."""
    return with_extents(t, lambda x: None if x is None else ANY)


def definite(t: Any) -> Any:
    """A learned type that has met what enters the loop: extents of which nothing is known still are not known."""
    return with_extents(t, lambda x: None if x is ANY else x)


def with_extents(t: Any, change: Callable[[Any], Any]) -> Any:
    """A type with other extents of the arrays in it."""
    match t:
        case ArrayType():
            return ArrayType(t.dtype, t.layout, t.shape, tuple(map(change, t.extents)), t.copied, t.order)
        case SequenceType():
            return SequenceType(tuple(with_extents(i, change) for i in t.items), t.is_list)
        case RecordType():
            return RecordType(t.kind, t.names, tuple(with_extents(i, change) for i in t.items))
        case GrowingType():
            return GrowingType(with_extents(t.item, change))
        case EitherType():
            return EitherType(tuple(with_extents(i, change) for i in t.items))
    return t
