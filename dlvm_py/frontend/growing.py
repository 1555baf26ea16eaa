"""The buffers of lists of computed length: their items, their rows, and all of them as an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frontend.arrays import materialise
from dlvm_py.frontend.elementwise import supported
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.joins import ArrayType, RecordType, ScalarType, SequenceType, leaf_types
from dlvm_py.frontend.values import Array, Growing, Record, Scalar, Sequence, Temp
from dlvm_py.ir import Value

_READ = "this array was read from a list of computed length, which keeps copies: writing to it would not reach the list"


def item_at(e: Emitter, growing: Growing, place: Value) -> Any:
    """The item at a place that exists."""
    leaves = [_read_leaf(e, buffer, place) for buffer in growing.buffers]
    weak = [t.weak if isinstance(t, ScalarType) else False for t in leaf_types(growing.item)]
    made = [Scalar(v, w) if isinstance(v, Value) else v for v, w in zip(leaves, weak, strict=True)]
    return _assembled(growing.item, made)


def _read_leaf(e: Emitter, buffer: Array, place: Value) -> Any:
    pointer = e.emit("elementPointer", buffer.pointer, place)
    if buffer.rank == 1:
        return e.emit("load", pointer)
    copy = materialise(e, Temp(e.emit("load", pointer), buffer.extents[1:], e.block))
    return Array(copy.pointer, copy.extents, _READ)


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


def as_array(e: Emitter, held: Growing) -> Any:
    """The items as an array, as np.array(list) gives it: numbers along one axis, arrays and tuples along more."""
    leaves = leaf_types(held.item)
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
