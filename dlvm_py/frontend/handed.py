"""Objects that cross a call: what they hold is handed in, and comes back.

    add(s, x)      s holds Record(Set, items=[...], slots=..., taken=...)

    @add: (ptr items, i64 length, ptr slots, i64 taken, i64 x) -> (ptr items, i64 length, ptr slots, i64 taken)

For the call an object is its number among all that are handed in (`_Handed`), and a list of computed length a record of
its buffers and its length. Shapes and numbers in what is held are run-time values there, so that one translation is
for whatever the objects hold when the call is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from dlvm_py.frontend.arrays import make_array
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.facts import EXTENT_MAX
from dlvm_py.frontend.joined_values import as_growing, buffer_type
from dlvm_py.frontend.joins import join_items
from dlvm_py.frontend.objects import LENT, PREFIX, new
from dlvm_py.frontend.signature import NotFirstClass
from dlvm_py.frontend.value_types import ArrayType, RecordType, ScalarType, SequenceType, leaf_types, type_of
from dlvm_py.frontend.values import Array, Binding, Conflict, Either, Growing, Object, Record, Scalar, Sequence, Static
from dlvm_py.frozen import Frozen
from dlvm_py.ir import PointerType, TensorType, Value

CONTENTS = "$held"  # the parameter of a function that stands for what is handed in


class _Handed(Frozen):
    """An object inside of what crosses a call, by its number."""

    number: int


class _Held:
    """The kind of a record that stands for another one, whose kind is its first item."""


class _Grown:
    """The kind of a record that stands for a list of computed length: the type of an item, the length, the buffers."""


_NUMBERS = tuple(_Handed(k) for k in range(16))


def handed_in(e: Emitter, values: Mapping[str, Any], widens: bool = False) -> tuple[dict[str, Any], list[Object]]:
    """Arguments for a call, the last of which is what all objects in them hold; and these objects.

    widens: lists of constant length are lists of any length from here on, where their items have one type, so that a
    function that calls itself has one translation for all of them.
    Raises: NotFirstClass where something in them cannot cross a call.
    """
    found: list[Object] = []
    packed = {n: _packed(e, v, found) for n, v in values.items()}
    if widens:
        done = 0
        while done < len(found):
            _widen(e, found[done])
            _packed(e, e.frame.env[found[done].key].value, found)
            done += 1
    return packed | {CONTENTS: _contents(e, found)}, found


def _widen(e: Emitter, owner: Object) -> None:
    held = e.frame.env[owner.key].value
    if owner.key.startswith(LENT):  # what raises would have to give back what has been changed
        raise NotFirstClass
    if isinstance(held, Sequence) and held.is_list:
        item = None
        for value in held.items:
            item = join_items(item, type_of(e, value))
        if not isinstance(item, Conflict):
            e.frame.env[owner.key] = Binding(as_growing(e, held, item), e.loc)


def _contents(e: Emitter, found: list[Object]) -> Sequence:
    held: list[Any] = []
    while len(held) < len(found):  # what an object holds may bring more of them
        held.append(_packed(e, e.frame.env[found[len(held)].key].value, found))
    return Sequence(tuple(held))


def key_in(fn: FunctionType, number: int) -> str:
    """The key of an object in a function that it is handed to."""
    return f"{PREFIX}.handed.{fn.__name__}.{number}"


def taken_in(
    e: Emitter, fn: FunctionType, values: dict[str, Any], contents: Sequence
) -> tuple[dict[str, Any], dict[str, Binding]]:
    """In the callee: the arguments, and what the objects in them hold, by the keys of these."""
    made = [Object(key_in(fn, k)) for k in range(len(contents.items))]
    env = {
        o.key: Binding(_unpacked(e, held, made), e.loc)
        for o, held in zip(made, contents.items, strict=True)
    }  # fmt: skip
    return {n: _unpacked(e, v, made) for n, v in values.items()}, env


def handed_back(e: Emitter, result: Any, env: Mapping[str, Binding]) -> Sequence:
    """In the callee: the result, and what the objects hold at the end; behind them those that the callee has made."""
    found = [Object(key) for key in env]
    return Sequence((_packed(e, result, found), _contents(e, found)))


def keeps_arrays(back: Sequence) -> bool:
    """Whether lists with arrays in them come back from a call."""
    pending, found = list(back.items), False
    while pending:
        value = pending.pop()
        if isinstance(value, Record) and value.kind is _Grown:
            found |= any(isinstance(t, ArrayType) for t in leaf_types(value.items[0].value))
        elif isinstance(value, Record | Sequence):
            pending.extend(value.items)
    return found


def taken_back(e: Emitter, back: Sequence, found: list[Object]) -> Any:
    """Let the objects hold what a call has left in them; its result."""
    result, contents = back.items
    made = [*found, *(new(e, Sequence((), is_list=True)) for _ in contents.items[len(found) :])]
    for o, held in zip(made, contents.items, strict=True):
        e.frame.env[o.key] = Binding(_unpacked(e, held, made), e.loc)
    return _unpacked(e, result, made)


def _packed(e: Emitter, value: Any, found: list[Object]) -> Any:
    match value:
        case Object() if value.key in e.frame.env:
            if value not in found:
                found.append(value)
            number = found.index(value)
            if number >= len(_NUMBERS):
                raise NotFirstClass
            return Static(_NUMBERS[number])
        case Growing():
            if value.home is not None:
                raise NotFirstClass
            buffers = (_of_any_length(e, b, t) for b, t in zip(value.buffers, leaf_types(value.item), strict=True))
            items = (Static(e.session.one_of(_skeleton(value.item))), Scalar(value.length, True), *buffers)
            return Record(_Grown, ("item", "length", *(f"buffer_{k}" for k in range(len(items) - 2))), items)
        case Either():
            return Either(value.place, tuple(_packed(e, i, found) for i in value.values))
        case Sequence():
            return Sequence(tuple(_packed(e, i, found) for i in value.items), value.is_list)
        case Record():
            items = (Static(value.kind), *(_packed(e, i, found) for i in value.items))
            return Record(_Held, ("kind", *value.names), items)
        case Array() if value.rank:
            return _of_any_shape(e, value)
    return value


def _of_any_length(e: Emitter, buffer: Array, leaf: Any) -> Array:
    wanted = buffer_type(leaf)
    pointer = buffer.pointer if buffer.type == wanted else e.emit("pointerCast", buffer.pointer, to=wanted)
    return make_array(e, pointer, [None, *buffer.extents[1:]])


def _of_any_shape(e: Emitter, array: Array) -> Array:
    shape = tuple(n if n == 1 else None for n in array.type.shape)
    wanted = PointerType(TensorType(shape, array.dtype), array.type.layout)
    pointer = array.pointer if array.type == wanted else e.emit("pointerCast", array.pointer, to=wanted)
    return make_array(e, pointer, None, array.copied)


def _skeleton(item: Any) -> Any:
    """The type of an item without what is known of extents here."""
    match item:
        case ArrayType():
            return ArrayType(item.dtype, item.layout, item.shape, ())
        case SequenceType():
            return SequenceType(tuple(map(_skeleton, item.items)), item.is_list)
        case RecordType():
            return RecordType(item.kind, item.names, tuple(map(_skeleton, item.items)))
        case ScalarType() | None:
            return item
    raise NotFirstClass  # lists in lists


def _unpacked(e: Emitter, value: Any, made: list[Object]) -> Any:
    match value:
        case Static(value=_Handed(number=k)):
            return made[k]
        case Record() if value.kind is _Grown:
            item, length, *buffers = value.items
            e.facts.interval[length.value] = (0, EXTENT_MAX)
            rows = [b.extents[1:] for b in buffers]
            return Growing(_fleshed(item.value, rows), tuple(buffers), length.value)
        case Record() if value.kind is _Held:
            kind, *items = value.items
            return Record(kind.value, value.names[1:], tuple(_unpacked(e, i, made) for i in items))
        case Either():
            return Either(value.place, tuple(_unpacked(e, i, made) for i in value.values))
        case Sequence():
            return Sequence(tuple(_unpacked(e, i, made) for i in value.items), value.is_list)
    return value


def _fleshed(item: Any, rows: list[tuple[Value, ...]]) -> Any:
    """The type of an item with the extents of the rows of the buffers."""
    match item:
        case ArrayType():
            return ArrayType(item.dtype, item.layout, item.shape, rows.pop(0))
        case SequenceType():
            return SequenceType(tuple(_fleshed(i, rows) for i in item.items), item.is_list)
        case RecordType():
            return RecordType(item.kind, item.names, tuple(_fleshed(i, rows) for i in item.items))
        case ScalarType():
            rows.pop(0)
    return item
