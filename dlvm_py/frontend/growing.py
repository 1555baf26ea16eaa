"""The buffers of lists of computed length: their items, their rows, and all of them as an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frontend.arrays import allocate, make_array, materialise
from dlvm_py.frontend.elementwise import supported
from dlvm_py.frontend.emit import Emitter, Unreachable, i64
from dlvm_py.frontend.facts import EXTENT_MAX
from dlvm_py.frontend.joined_values import allocate_buffer
from dlvm_py.frontend.value_types import ArrayType, RecordType, RefType, ScalarType, SequenceType, leaf_types
from dlvm_py.frontend.values import Array, Growing, Iteration, Object, Record, Ref, Scalar, Sequence, Temp
from dlvm_py.ir import F64, Value

_RAGGED = (
    "setting an array element with a sequence. The requested array has an inhomogeneous shape after 1 dimensions. "
    "The detected shape was ({},) + inhomogeneous part."
)
_READ = "this array was read from a list of computed length, which keeps copies: writing to it would not reach the list"


def item_at(e: Emitter, growing: Growing, place: Value) -> Any:
    """The item at a place that exists."""
    if growing.item is None:  # it has no items: its length is 0
        e.emit("raise", exception="IndexError", message="list index out of range")
        raise Unreachable
    leaves = [_leaf(e, t, b, place) for t, b in zip(leaf_types(growing.item), growing.buffers, strict=True)]
    return _assembled(growing.item, leaves)


def _leaf(e: Emitter, t: Any, buffer: Array, place: Value) -> Any:
    """The part of an item that a buffer holds."""
    found = e.emit("load", e.emit("elementPointer", buffer.pointer, place))
    if isinstance(t, ScalarType):
        return Scalar(found, t.weak)
    if isinstance(t, RefType):
        return Ref(t.region, found)
    copy = materialise(e, Temp(found, buffer.extents[1:], e.block))
    return Array(copy.pointer, copy.extents, _READ)


def parts_of(e: Emitter, region: Object) -> tuple[Growing, Growing]:
    """The table and the data of a region (regions.py)."""
    table, data = e.frame.env[region.key].value.items
    return table, data


def held_by(e: Emitter, ref: Ref) -> Growing:
    """What a list of a region holds, as a view of that."""
    table, data = parts_of(e, ref.region)
    if not table.buffers or not data.buffers:
        return Growing(data.item, data.buffers, i64(0), ref)
    row = [e.emit("load", e.emit("elementPointer", b.pointer, ref.number)) for b in table.buffers]
    for value in row:
        e.facts.interval[value] = (0, EXTENT_MAX)
    start, length, capacity = row
    views = (section_of(e, b, start, capacity, i64(1)) for b in data.buffers)
    buffers = (make_array(e, v, [capacity, *b.extents[1:]]) for v, b in zip(views, data.buffers, strict=True))
    return Growing(data.item, tuple(buffers), length, ref)


def _assembled(item: Any, leaves: list[Any]) -> Any:
    if isinstance(item, SequenceType):
        return Sequence(tuple(_assembled(i, leaves) for i in item.items))
    if isinstance(item, RecordType):
        return Record(item.kind, item.names, tuple(_assembled(i, leaves) for i in item.items))
    return leaves.pop(0)


def section_of(e: Emitter, buffer: Array, start: Value, count: Value, step: Value) -> Value:
    """The rows start, start + step, ... of a buffer, as a view."""
    rows = buffer.extents[1:]
    zeros, ones = [i64(0)] * len(rows), [i64(1)] * len(rows)
    return e.emit("section", buffer.pointer, start, *zeros, count, *rows, step, *ones)


def rows_of(e: Emitter, buffer: Array, start: Value, count: Value, step: Value) -> Value:
    """The rows start, start + step, ... of a buffer, as a value."""
    return e.emit("load", section_of(e, buffer, start, count, step))


def copied(e: Emitter, held: Growing) -> Growing:
    """A list in memory of its own, with the same items."""
    buffers = []
    for buffer, leaf in zip(held.buffers, leaf_types(held.item), strict=True):
        fresh = allocate_buffer(e, held.length, buffer.extents[1:], leaf)
        e.emit("store", rows_of(e, buffer, i64(0), held.length, i64(1)), fresh.pointer)
        buffers.append(fresh)
    return Growing(held.item, tuple(buffers), held.length)


def as_array(e: Emitter, held: Growing) -> Any:
    """The items as an array, as np.array(list) gives it: numbers along one axis, arrays and tuples along more."""
    leaves = leaf_types(held.item)
    if isinstance(held.item, RefType):
        return _table_of(e, held)
    if isinstance(held.item, ScalarType | ArrayType):
        (buffer,) = held.buffers
        return Temp(rows_of(e, buffer, i64(0), held.length, i64(1)), (held.length, *buffer.extents[1:]), e.block)
    if not isinstance(held.item, SequenceType) or not all(isinstance(t, ScalarType) for t in leaves):
        e.error(UnsupportedSyntax, "an array cannot be made of these items", help="append numbers, or arrays")
    dtype = np.result_type(*(t.dtype.numpy for t in leaves))
    target = supported(e, dtype, "a list")
    columns = [e.cast(rows_of(e, b, i64(0), held.length, i64(1)), target) for b in held.buffers]
    padded = [e.emit("padShape", c, at=1) for c in columns]
    table = e.emit("concatenate", *padded, at=1)
    return Temp(table, (held.length, i64(len(columns))), e.block)


def _table_of(e: Emitter, held: Growing) -> Any:
    """A list of lists of numbers as an array of two axes; ValueError where these differ in length."""
    item = parts_of(e, held.item.region)[1].item
    if item is not None and not isinstance(item, ScalarType):
        e.error(UnsupportedSyntax, "an array cannot be made of these lists", help="let the lists hold numbers")
    e.check(e.compare("lessThan", i64(0), held.length), "ValueError", "np.array of a list that has no lists in it")
    width = held_by(e, item_at(e, held, i64(0))).length
    made = allocate(e, (held.length, width), F64 if item is None else item.dtype)

    def fill(k: Value) -> None:
        row = held_by(e, item_at(e, held, k))
        e.check(e.compare("equal", row.length, width), "ValueError", _RAGGED, held.length)
        place = e.emit("elementPointer", made.pointer, k)
        for buffer in row.buffers:
            e.emit("store", rows_of(e, buffer, i64(0), width, i64(1)), place)

    e.frame.for_each(Iteration(held.length, lambda k: k), fill, "rows")
    return made
