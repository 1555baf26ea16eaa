"""Values where control flow joins: parameters of a block and what is passed to them; lists of computed length."""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any

from dlvm_py.errors import Loc
from dlvm_py.frontend.arrays import make_array
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.facts import EXTENT_MAX, I64_MAX, I64_MIN, key
from dlvm_py.frontend.joins import place_of
from dlvm_py.frontend.orders import note
from dlvm_py.frontend.value_types import (
    ANY,
    ArrayType,
    EitherType,
    GrowingType,
    MixedType,
    OtherType,
    RecordType,
    RefType,
    ScalarType,
    SequenceType,
    leaf_types,
    one_type,
    type_of,
)
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
)
from dlvm_py.frozen import replace
from dlvm_py.ir import BOOL, I64, NULL, Block, Literal, PointerType, TensorType, Value, literal, scalar

ONE_SHAPE = "a compiled list whose length is not constant holds arrays of one shape, but an axis has {} and {}"


def others_of(value: Scalar) -> tuple[Other, ...]:
    """What a number is where it has another type than the joined one."""
    return value.others if isinstance(value, Mixed) else ()


def mixed(value: Scalar, others: Items[Other]) -> Scalar:
    """A number that is one of `others` where the flag of that holds; flags that are known never to are left out."""
    found = [o for o in others if not (isinstance(o.flag, Literal) and not o.flag.value)]
    found.sort(key=lambda o: (o.scalar.dtype.name, o.scalar.weak))
    return Mixed(value.value, value.weak, tuple(found)) if found else Scalar(value.value, value.weak)


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
            array = make_array(e, pointer, [None if x is ANY else x for x in t.extents], t.copied)
            return note(e, array, t.order)
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
