"""Types of values where control flow joins (DESIGN section 4).

Scalars join by promotion, arrays of one dtype and rank by forgetting layout and extents that differ,
tuples and records item by item, compile-time constants only if they are the same object. Lists of different lengths
join to one of computed length, if all their items do. What has no common type becomes a Conflict, which is an error
where the name is read.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import Any

import numpy as np

from dlvm_py.errors import Loc
from dlvm_py.frontend.arrays import make_array
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.facts import EXTENT_MAX, I64_MAX, I64_MIN, key
from dlvm_py.frontend.values import (
    Array,
    Binding,
    Conflict,
    Either,
    Growing,
    Mixed,
    Object,
    Other,
    Record,
    Ref,
    Scalar,
    Sequence,
    Static,
    describe,
)
from dlvm_py.frozen import Frozen, replace
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

MAX_KINDS = 4  # of values that a name may have on different paths
MAX_OTHERS = 3  # types that a number may have beside the joined one; with more it is of that on all paths
ONE_SHAPE = "a compiled list whose length is not constant holds arrays of one shape, but an axis has {} and {}"


class TwoRegions(Exception):  # noqa: N818 - not an error: the translation begins anew
    """Lists of two regions (`args`) meet in one place: they have to lie in one."""


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
    """A pointer; extents are values known equal on all paths, None where they differ."""

    dtype: DType
    layout: str
    shape: tuple[int | None, ...]
    extents: tuple[Any, ...]
    copied: str = ""


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
            return EitherType(tuple(_alternative(type_of(e, v)) for v in value.values))
        case Ref():
            return RefType(value.region)
        case Array():
            extents = tuple(map(e.facts.find, value.extents))
            return ArrayType(value.dtype, value.type.layout, value.type.shape, extents, value.copied)
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


def join(a: Any, b: Any) -> Any:
    """The least common type, or a Conflict with a reason."""
    if isinstance(a, Conflict) or isinstance(b, Conflict):
        return a if isinstance(a, Conflict) else b
    match a, b:
        case ScalarType(), ScalarType():
            return _join_scalars(a, b)
        case ArrayType(), ArrayType():
            return _join_arrays(a, b)
        case RefType(), RefType():
            if a.region != b.region:
                raise TwoRegions(a.region, b.region)
            return a
        case (OtherType(value=Object()), RefType()) | (RefType(), OtherType(value=Object())):
            return Conflict("a list of its own on one path and one that lies in a list on another")
        case SequenceType(), SequenceType() if len(a.items) == len(b.items):
            items = tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True))
            clash = next((i for i in items if isinstance(i, Conflict)), None)
            return _join_lists(a, b) or clash or SequenceType(items, a.is_list and b.is_list)
        case SequenceType() | GrowingType(), SequenceType() | GrowingType():
            grown = _join_lists(a, b)
            if grown is not None:
                return grown
        case RecordType(), RecordType() if a.kind is b.kind and a.names == b.names:
            items = tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True))
            clash = next((i for i in items if isinstance(i, Conflict)), None)
            return clash or RecordType(a.kind, a.names, items)
        case OtherType(), OtherType() if _same_object(a.value, b.value):
            return a
        case EitherType(), EitherType() if len(a.items) == len(b.items):
            items = tuple(map(join, a.items, b.items))
            if not any(isinstance(i, Conflict) for i in items):
                return EitherType(items)
    if all(isinstance(t, OtherType) and isinstance(t.value, Object) for t in (a, b)):
        return Conflict("one list, dict or instance on one path and another one, with other names too, on another")
    return Conflict(f"{_words(a)} on one path and {_words(b)} on another")


def join_kinds(a: Any, b: Any) -> Any:
    """As `join`; where there is no common type one that says which of them it is, if the values can be kept apart."""
    both = isinstance(a, SequenceType) and isinstance(b, SequenceType)
    if both and len(a.items) == len(b.items) and a.is_list == b.is_list:
        items = tuple(map(join_kinds, a.items, b.items))
        if not any(isinstance(i, Conflict) for i in items):
            return SequenceType(items, a.is_list)
    joined = join(a, b)
    if not isinstance(joined, Conflict) or isinstance(a, Conflict) or isinstance(b, Conflict):
        return joined
    found: list[Any] = []
    for t in (*_kinds(a), *_kinds(b)):
        place = place_of(found, t)
        if place is None:
            found.append(_alternative(t))
        else:
            found[place] = _alternative(join(found[place], t))
    return EitherType(tuple(found)) if len(found) <= MAX_KINDS and all(map(_is_kept, found)) else joined


def _kinds(t: Any) -> tuple[Any, ...]:
    return t.items if isinstance(t, EitherType) else (t,)


def place_of(kinds: Items[Any], t: Any) -> int | None:
    """The place of the type that takes values of type `t`; None if none does."""
    return next((k for k, kind in enumerate(kinds) if not isinstance(join(kind, t), Conflict)), None)


def _alternative(t: Any) -> Any:
    """A type without what need not be there on the other paths: values of extents."""
    return _with_extents(t, lambda x: None)


def _is_kept(t: Any) -> bool:
    """Whether a value of this type can be kept where there may be another one in its place."""
    match t:
        case ScalarType() | ArrayType():
            return True
        case SequenceType() | RecordType() | EitherType():
            return all(map(_is_kept, t.items))
        case OtherType():
            return isinstance(t.value, Static | Object)
    return False


def _join_lists(a: Any, b: Any) -> Any:
    """The joined type of two lists of which one has a computed length, or whose lengths differ; else None."""
    if any(isinstance(t, SequenceType) and not t.is_list for t in (a, b)):
        return None
    if isinstance(a, SequenceType) and isinstance(b, SequenceType) and len(a.items) == len(b.items):
        return None
    item = None
    for t in (a, b):
        for other in t.items if isinstance(t, SequenceType) else (t.item,):
            item = join_items(item, other)
    return item if isinstance(item, Conflict) else GrowingType(item)


def join_items(a: Any, b: Any) -> Any:
    """The joined type of two items of a growing list (None: no item), or a Conflict."""
    if isinstance(a, Conflict) or isinstance(b, Conflict):
        return a if isinstance(a, Conflict) else b
    if a is None or b is None:
        return _row(a if b is None else b)
    a, b = _row(a), _row(b)
    joined = one_type(join(a, b))
    mixed = isinstance(a, ScalarType) and isinstance(b, ScalarType) and a.weak != b.weak
    # np.array of a list takes a Python float for a float64, an int for an int64
    if mixed and isinstance(joined, ScalarType) and joined.dtype.numpy != np.result_type(a.dtype.numpy, b.dtype.numpy):
        return Conflict(f"a list with {_words(a)} and {_words(b)}", help="give its items one type")
    return joined


def _row(t: Any) -> Any:
    """The type of an item as it is kept in a buffer; a Conflict for what cannot be kept in one."""
    match t:
        case ArrayType():
            return ArrayType(t.dtype, "C", t.shape, t.extents)
        case SequenceType() if not t.is_list:
            items = tuple(map(_row, t.items))
            return next((i for i in items if isinstance(i, Conflict)), None) or SequenceType(items, False)
        case RecordType():
            items = tuple(map(_row, t.items))
            return next((i for i in items if isinstance(i, Conflict)), None) or RecordType(t.kind, t.names, items)
        case MixedType():
            return one_type(t)
        case ScalarType() | RefType() | Conflict() | None:
            return t
    return Conflict(
        f"a list that grows by {_words(t)}",
        help="such a list can hold numbers, arrays of one shape and tuples of these: for rows write an array, "
        "np.zeros((m, n)), or append tuples",
    )


def lists_met(a: Any, b: Any) -> list[tuple[Object, Object]]:
    """(list, region) of the places of two types where one has a list of its own and the other one of a region."""
    match a, b:
        case OtherType(value=Object() as one), RefType():
            return [(one, b.region)]
        case RefType(), OtherType(value=Object() as one):
            return [(one, a.region)]
        case (SequenceType(), SequenceType()) | (RecordType(), RecordType()) if len(a.items) == len(b.items):
            return [found for x, y in zip(a.items, b.items, strict=True) for found in lists_met(x, y)]
    return []


def is_list_of_lists(a: Any, b: Any) -> bool:
    """Whether both are types of lists, of which one holds what has an identity, or a reference to a list."""
    if not all(isinstance(t, GrowingType) or (isinstance(t, SequenceType) and t.is_list) for t in (a, b)):
        return False
    return any(map(_has_objects, (a, b)))


def _has_objects(t: Any) -> bool:
    match t:
        case SequenceType() | RecordType():
            return any(map(_has_objects, t.items))
        case GrowingType():
            return _has_objects(t.item)
    return isinstance(t, RefType) or (isinstance(t, OtherType) and isinstance(t.value, Object))


def _same_object(a: Any, b: Any) -> bool:
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


def _join_scalars(a: ScalarType, b: ScalarType) -> Any:
    if a == b:
        return a
    joined = _promoted(one_type(a), one_type(b))
    if not isinstance(joined, ScalarType):
        return joined
    others = {*kinds_of(a), *kinds_of(b)} - {joined}
    if not 0 < len(others) <= MAX_OTHERS:
        return joined
    return MixedType(joined.dtype, joined.weak, tuple(sorted(others, key=_order)))


def _order(t: ScalarType) -> tuple[str, bool]:
    return t.dtype.name, t.weak


def others_of(value: Scalar) -> tuple[Other, ...]:
    """What a number is where it has another type than the joined one."""
    return value.others if isinstance(value, Mixed) else ()


def mixed(value: Scalar, others: Items[Other]) -> Scalar:
    """A number that is one of `others` where the flag of that holds; flags that are known never to are left out."""
    found = [o for o in others if not (isinstance(o.flag, Literal) and not o.flag.value)]
    found.sort(key=lambda o: (o.scalar.dtype.name, o.scalar.weak))
    return Mixed(value.value, value.weak, tuple(found)) if found else Scalar(value.value, value.weak)


def _promoted(a: ScalarType, b: ScalarType) -> Any:
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
            return f"a {'list' if t.is_list else 'tuple'} of {len(t.items)}"
        case RecordType():
            shown = f"a dict with the keys {', '.join(t.names) or 'none'}"
            return shown if t.kind is dict else f"a {t.kind.__name__}"
        case GrowingType() | RefType():
            return "a list that grows"
        case EitherType():
            return " or ".join(map(_words, t.items))
    return describe(t.value)


def join_for_caller(a: Any, b: Any) -> Any:
    """As `join`, of what the caller lends: its numbers may not become others on a path that leaves them alone."""
    joined = one_type(join(a, b))
    for t in (a, b):
        if isinstance(joined, GrowingType):
            items = t.items if isinstance(t, SequenceType) else (getattr(t, "item", None),)
            pairs = [
                p for i in items if i is not None for p in zip(leaf_types(i), leaf_types(joined.item), strict=False)
            ]
        else:
            pairs = list(zip(leaf_types(t), leaf_types(joined), strict=False))
        for x, y in pairs:
            if isinstance(x, ScalarType) and isinstance(y, ScalarType) and x != y:
                return Conflict(f"{_words(a)} on one path and {_words(b)} on another, with {_words(x)} and {_words(y)}")
    return joined


def fits_for_caller(held: Any, value: Any) -> bool:
    """Whether numbers of one type stay what they are in the place of those of another, for what the caller lends."""
    pairs = zip(leaf_types(held), leaf_types(value), strict=False)
    return all(x == y for x, y in pairs if isinstance(x, ScalarType) and isinstance(y, ScalarType))


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
            return _same_object(a.value, b.value)
        case Conflict(), Conflict():
            return True
    return a == b


def lesson(t: Any) -> Any:
    """The part of a loop header's type that stays true when the loop is translated again."""
    return _with_extents(t, lambda x: None if x is None else ANY)


def definite(t: Any) -> Any:
    """A learned type that has met what enters the loop: extents of which nothing is known still are not known."""
    return _with_extents(t, lambda x: None if x is ANY else x)


def _with_extents(t: Any, change: Callable[[Any], Any]) -> Any:
    match t:
        case ArrayType():
            return ArrayType(t.dtype, t.layout, t.shape, tuple(map(change, t.extents)), t.copied)
        case SequenceType():
            return SequenceType(tuple(_with_extents(i, change) for i in t.items), t.is_list)
        case RecordType():
            return RecordType(t.kind, t.names, tuple(_with_extents(i, change) for i in t.items))
        case GrowingType():
            return GrowingType(_with_extents(t.item, change))
        case EitherType():
            return EitherType(tuple(_with_extents(i, change) for i in t.items))
    return t


def fresh(e: Emitter, t: Any, block: Block, name: str, place: Value | None = None) -> Any:
    """A value of type `t` made of new arguments of `block`, which is being built; of several kinds: with this place."""
    match t:
        case MixedType():
            value, others = block.add_arg(scalar(t.dtype), name), []
            for other in t.others:
                flag = block.add_arg(scalar(BOOL), f"{name}_is_{other.dtype.name}")
                others.append(Other(flag, Scalar(block.add_arg(scalar(other.dtype), name), other.weak)))
            return Mixed(value, t.weak, tuple(others))
        case ScalarType():
            return Scalar(block.add_arg(scalar(t.dtype), name), t.weak)
        case RefType():
            return Ref(t.region, block.add_arg(scalar(I64), f"{name}.number"))
        case ArrayType():
            pointer = block.add_arg(PointerType(TensorType(t.shape, t.dtype), t.layout), name)
            return make_array(e, pointer, [None if x is ANY else x for x in t.extents], t.copied)
        case SequenceType():
            items = (fresh(e, i, block, f"{name}.{k}") for k, i in enumerate(t.items))
            return Sequence(tuple(items), t.is_list)
        case RecordType():
            items = (fresh(e, i, block, f"{name}.{n}") for n, i in zip(t.names, t.items, strict=True))
            return Record(t.kind, t.names, tuple(items))
        case GrowingType():
            buffers = tuple(_fresh_buffer(e, leaf, block, name) for leaf in leaf_types(t.item))
            length = block.add_arg(scalar(I64), f"{name}.length")
            e.facts.interval[length] = (0, EXTENT_MAX)
            return Growing(t.item, buffers, length)
        case EitherType():
            if place is None:
                place = fresh_place(e, t, block, name)
            return Either(place, tuple(fresh(e, i, block, name) for i in t.items))
        case OtherType():
            return t.value
    return t


def fresh_place(e: Emitter, t: EitherType, block: Block, name: str) -> Value:
    """A new argument of a block: which of several types a value has."""
    place = block.add_arg(scalar(I64), f"{name}.place")
    e.facts.interval[place] = (0, len(t.items) - 1)
    return place


def _fresh_buffer(e: Emitter, leaf: Any, block: Block, name: str) -> Array:
    pointer = block.add_arg(buffer_type(leaf), name)
    rows = [None if x is ANY else x for x in leaf.extents] if isinstance(leaf, ArrayType) else []
    return make_array(e, pointer, [None, *rows])


def buffer_type(leaf: Any) -> PointerType:
    """The type of the buffer for the items of a leaf type."""
    rows = leaf.shape if isinstance(leaf, ArrayType) else ()
    return PointerType(TensorType((None, *rows), leaf.dtype))


def arguments(e: Emitter, value: Any, t: Any) -> list[Value]:
    """The IR values to pass for `value` where a block expects type `t`; None stands for an unset name."""
    match t:
        case MixedType():
            found = arguments(e, value, one_type(t))
            for other in t.others:
                flag, number = _as_other(e, value, other)
                found += [flag, literal(0, scalar(other.dtype)) if number is None else number]
            return found
        case ScalarType():
            if value is None:
                return [literal(0, scalar(t.dtype))]
            return [e.cast(value.value, t.dtype)]
        case RefType():
            return [i64(0) if value is None else value.number]
        case ArrayType():
            to = PointerType(TensorType(t.shape, t.dtype), t.layout)
            if value is None:
                return [Literal(to, NULL)]
            return [value.pointer if value.type == to else e.emit("pointerCast", value.pointer, to=to)]
        case SequenceType():
            parts = [None] * len(t.items) if value is None else value.items
            return [v for part, i in zip(parts, t.items, strict=True) for v in arguments(e, part, i)]
        case RecordType():
            parts = [None] * len(t.items) if value is None else value.items
            return [v for part, i in zip(parts, t.items, strict=True) for v in arguments(e, part, i)]
        case GrowingType():
            if value is None:
                return [*(Literal(buffer_type(leaf), NULL) for leaf in leaf_types(t.item)), i64(0)]
            grown = as_growing(e, value, t.item)
            casts = zip(grown.buffers, map(buffer_type, leaf_types(t.item)), strict=True)
            cast = [b.pointer if b.type == to else e.emit("pointerCast", b.pointer, to=to) for b, to in casts]
            return [*cast, grown.length]
        case EitherType():
            place, values = placed(e, value, t)
            return [place, *(v for part, i in zip(values, t.items, strict=True) for v in arguments(e, part, i))]
    return []


def placed(e: Emitter, value: Any, t: EitherType) -> tuple[Value, list[Any]]:
    """Which of several types a value has, and the value as one of each, None where it never is."""
    values: list[Any] = [None] * len(t.items)
    if value is None:
        return i64(0), values
    if not isinstance(value, Either):
        place = place_of(t.items, type_of(e, value))
        assert place is not None, "the type was joined with that of the value"
        values[place] = value
        return i64(place), values
    places = []
    for part in value.values:
        place = place_of(t.items, type_of(e, part))
        assert place is not None
        assert values[place] is None or identical_values([values[place], part]), "types that differ do not become one"
        values[place] = part
        places.append(place)
    found = value.place
    if places != list(range(len(places))):
        found = i64(places[-1])
        for k in reversed(range(len(places) - 1)):
            found = e.choose(e.compare("equal", value.place, i64(k)), i64(places[k]), found)
    return found, values


def _as_other(e: Emitter, value: Scalar | None, t: ScalarType) -> tuple[Value, Value | None]:
    """Whether a number is of this type here, and the number as one; None where it never is."""
    if isinstance(value, Mixed):
        flags: Value = literal(False)
        for other in value.others:
            if ScalarType(other.scalar.dtype, other.scalar.weak) == t:
                return other.flag, other.scalar.value
            flags = e.either(flags, other.flag)
        if (value.dtype, value.weak) == (t.dtype, t.weak):
            return e.pure("not", flags), value.value
    elif value is not None and (value.dtype, value.weak) == (t.dtype, t.weak):
        return literal(True), value.value
    return literal(False), None


def leaf_values(value: Any) -> list[Any]:
    """The scalars, arrays and lists in a value, left to right."""
    if isinstance(value, Sequence | Record):
        return [leaf for i in value.items for leaf in leaf_values(i)]
    return [value]


def as_growing(e: Emitter, value: Sequence | Growing, item: Any) -> Growing:
    """What a list holds, with items of type `item`: itself, or fresh buffers with its items."""
    leaves = leaf_types(item)
    if isinstance(value, Growing):
        have = leaf_types(value.item)
        if [t.dtype for t in have] == [t.dtype for t in leaves] and len(have) == len(leaves):
            return replace(value, item=item)
        if not have:  # a list without any item yet
            return Growing(item, tuple(_empty_buffer(e, leaf) for leaf in leaves), i64(0))
        return Growing(item, tuple(map(_converted, [e] * len(leaves), value.buffers, leaves)), value.length)
    buffers = []
    columns = [leaf_values(i) for i in value.items]
    for k, leaf in enumerate(leaves):
        if not columns:
            buffers.append(_empty_buffer(e, leaf))
            continue
        rows = columns[0][k].extents if isinstance(leaf, ArrayType) else ()
        shape = tuple(i64(n) if n is not None else x for n, x in zip(getattr(leaf, "shape", ()), rows, strict=True))
        buffer = allocate_buffer(e, i64(len(columns)), shape, leaf)
        for place, column in enumerate(columns):
            store_item(e, buffer, i64(place), column[k])
        buffers.append(buffer)
    return Growing(item, tuple(buffers), i64(len(value.items)))


def _empty_buffer(e: Emitter, leaf: Any) -> Array:
    shape = getattr(leaf, "shape", ())
    known = getattr(leaf, "extents", ())
    rows = [
        i64(n) if n is not None else x if isinstance(x, Value) else i64(0) for n, x in zip(shape, known, strict=True)
    ]
    return allocate_buffer(e, i64(0), rows, leaf)


def allocate_buffer(e: Emitter, capacity: Value, rows: Any, leaf: Any) -> Array:
    """A fresh buffer for items of a leaf type: `capacity` rows."""
    pointer = e.emit("allocateHeap", capacity, *rows, dtype=leaf.dtype.name)
    wanted = buffer_type(leaf)
    if pointer.type != wanted:
        pointer = e.emit("pointerCast", pointer, to=wanted)
    return make_array(e, pointer, [capacity, *rows])


def store_item(e: Emitter, buffer: Array, place: Value, value: Any) -> None:
    """Write a number, a list's number or an array, of the shape of the rows, into a row of a buffer.

    An array is marked: what is written to it later would have to reach the list (transforms/kept_copies.py).
    """
    target = e.emit("elementPointer", buffer.pointer, place)
    if isinstance(value, Scalar | Ref):
        number = value.value if isinstance(value, Scalar) else value.number
        e.emit("store", e.cast(number, buffer.dtype), target)
        return
    for have, want in zip(value.extents, buffer.extents[1:], strict=True):
        if not e.facts.same(have, want):
            e.check(e.compare("equal", have, want), "ValueError", ONE_SHAPE, have, want)
    e.emit("keepCopy", value.pointer)
    e.emit("store", e.cast(e.emit("load", value.pointer), buffer.dtype), target)


def _converted(e: Emitter, buffer: Array, leaf: Any) -> Array:
    """The buffer with another element type."""
    if buffer.dtype is leaf.dtype:
        return buffer
    fresh_buffer = allocate_buffer(e, buffer.extents[0], buffer.extents[1:], leaf)
    e.emit("store", e.cast(e.emit("load", buffer.pointer), leaf.dtype), fresh_buffer.pointer)
    return fresh_buffer


def identical_values(values: list[Any]) -> bool:
    """Whether all are the very same value, so that a merge needs no block argument."""
    first = values[0]
    if isinstance(first, Scalar):
        return all(isinstance(v, Scalar) and _same_number(v, first) for v in values)
    if isinstance(first, Array):
        return all(isinstance(v, Array) and v.pointer is first.pointer for v in values)
    if isinstance(first, Sequence):
        if not all(isinstance(v, Sequence) and len(v.items) == len(first.items) for v in values):
            return False
        return all(identical_values(list(column)) for column in zip(*(v.items for v in values), strict=True))
    if isinstance(first, Object):
        return all(v == first for v in values)
    if isinstance(first, Ref):
        same = all(isinstance(v, Ref) and v.region == first.region for v in values)
        return same and all(key(v.number) == key(first.number) for v in values)
    if isinstance(first, Either):
        if not all(isinstance(v, Either) and key(v.place) == key(first.place) for v in values):
            return False
        return all(identical_values(list(column)) for column in zip(*(v.values for v in values), strict=True))
    if isinstance(first, Record):
        if not all(isinstance(v, Record) and (v.kind, v.names) == (first.kind, first.names) for v in values):
            return False
        return all(identical_values(list(column)) for column in zip(*(v.items for v in values), strict=True))
    if isinstance(first, Growing):
        if not all(isinstance(v, Growing) and len(v.buffers) == len(first.buffers) for v in values):
            return False
        if any(_plain_leaves(v.item) != _plain_leaves(first.item) for v in values):
            return False
        columns = zip(*((*v.buffers, Scalar(v.length, True)) for v in values), strict=True)
        return all(identical_values(list(column)) for column in columns)
    return all(v is first for v in values)


def _same_number(a: Scalar, b: Scalar) -> bool:
    """Whether two numbers are one value, of the same types where it has several."""
    if key(a.value) != key(b.value) or a.weak != b.weak:
        return False
    one, two = others_of(a), others_of(b)
    return len(one) == len(two) and all(
        key(x.flag) == key(y.flag) and _same_number(x.scalar, y.scalar) for x, y in zip(one, two, strict=True)
    )


def _plain_leaves(item: Any) -> list[Any]:
    """Of the leaves of an item what its buffers do not tell: flavours of numbers, regions of lists."""
    return [t if isinstance(t, ScalarType | RefType) else None for t in leaf_types(item)]


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
    return replace(conflict, places=conflict.places or tuple(places))
