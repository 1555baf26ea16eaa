"""sorted(...) and list.sort: networks of comparisons for a few items, a stable argsort for lists of computed length."""

from __future__ import annotations

from typing import Any

import gast

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import objects, operators
from dlvm_py.frontend.arrays import materialise, tensor_of
from dlvm_py.frontend.elementwise import operand
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.growing import as_array, item_at
from dlvm_py.frontend.indexing import as_flag
from dlvm_py.frontend.iterate import Iteration
from dlvm_py.frontend.joined_values import allocate_buffer, as_growing
from dlvm_py.frontend.joins import join_items
from dlvm_py.frontend.library.order import stable_order
from dlvm_py.frontend.value_types import RecordType, ScalarType, SequenceType, leaf_types, type_of
from dlvm_py.frontend.values import Growing, Scalar, Sequence, Static, Temp, describe, is_none
from dlvm_py.ir import literal

_MAX_NETWORK = 12  # items that are compared pair by pair


def real_number(e: Emitter, name: str, value: Any) -> Scalar:
    """A value that has an order."""
    found = operand(e, value, name)
    if not isinstance(found, Scalar):
        e.error(TypeMismatch, f"{name}() needs numbers, not {describe(found)}", help=f"use np.{name}(x) on arrays")
    if found.dtype.is_complex:
        e.error(TypeMismatch, f"{name}() of complex numbers: they have no order", help="compare z.real or abs(z)")
    return found


def ordered(e: Emitter, held: Sequence | Growing, key: Any = None, reverse: Any = None) -> Sequence | Growing:
    """The items of a list in order, equal ones as they were."""
    backwards = as_flag(e, reverse, "`reverse` of sorted")
    if isinstance(held, Sequence) and any(isinstance(i, Static) for i in held.items) and is_none(key):
        if not all(isinstance(i, Static) for i in held.items):
            e.error(TypeMismatch, "sorted() of texts and numbers: they have no order")
        names = sorted((i.value for i in held.items), reverse=backwards)
        return Sequence(tuple(map(Static, names)), is_list=True)
    if isinstance(held, Sequence) and len(held.items) > _MAX_NETWORK:
        grown = _grown(e, held)
        held = held if grown is None else grown
    if isinstance(held, Growing):
        return _gathered(e, held, key, backwards)
    return _network(e, held, key, backwards)


def _grown(e: Emitter, held: Sequence) -> Growing | None:
    """A list of many numbers or tuples as one of computed length; None if its items have no common type."""
    item = None
    for value in held.items:
        item = join_items(item, type_of(e, value))
    return as_growing(e, held, item) if isinstance(item, ScalarType | SequenceType) else None


def _network(e: Emitter, held: Sequence, key: Any, backwards: bool) -> Sequence:
    items = [objects.resolved(e, i) for i in held.items]
    if is_none(key):
        items = [comparable(e, "sorted", i) for i in items]
        keys = list(items)
    else:
        keys = [comparable(e, "sorted", objects.resolved(e, e.session.invoke(e, key, [i], {}))) for i in items]
    first = gast.Gt if backwards else gast.Lt
    for last in range(len(items) - 1, 0, -1):
        for k in range(last):
            swap = operators.condition(e, operators.compare(e, first, keys[k + 1], keys[k]))
            for column in (keys,) if is_none(key) else (keys, items):
                a, b = column[k], column[k + 1]
                column[k] = e.frame.choose_value(swap, lambda: b, lambda: a)  # noqa: B023 - called at once
                column[k + 1] = e.frame.choose_value(swap, lambda: a, lambda: b)  # noqa: B023
    return Sequence(tuple(keys if is_none(key) else items), is_list=True)


def comparable(e: Emitter, name: str, value: Any) -> Any:
    """A real number, or a tuple of such."""
    if isinstance(value, Sequence) and not value.is_list:
        return Sequence(tuple(comparable(e, name, i) for i in value.items))
    return real_number(e, name, value)


def _gathered(e: Emitter, held: Growing, key: Any, backwards: bool) -> Growing:
    if not leaf_types(held.item):
        return held
    numbers = held
    if not is_none(key):
        taken = Iteration(held.length, lambda k: e.session.invoke(e, key, [item_at(e, held, k)], {}))
        found = e.frame.collected(taken)
        assert isinstance(found, Growing)
        numbers = found
    if not all(isinstance(t, ScalarType) for t in leaf_types(numbers.item)) or isinstance(numbers.item, RecordType):
        e.error(
            UnsupportedSyntax,
            "sorted() needs numbers, or tuples of numbers, to compare",
            help="sorted(items, key=lambda t: t[0])",
        )
    flag = Scalar(literal(backwards), weak=True)
    places: Any = None
    # by the last number of each tuple first: what is equal there stays as it is when the one before it decides
    for leaf, column in reversed(list(zip(leaf_types(numbers.item), numbers.buffers, strict=True))):
        keys = materialise(e, as_array(e, Growing(leaf, (column,), numbers.length)))
        if places is None:
            places = materialise(e, e.session.library(e, stable_order, [keys, flag], {}))
            continue
        moved = materialise(e, Temp(e.emit("gather", tensor_of(e, keys), tensor_of(e, places)), keys.extents, e.block))
        order = materialise(e, e.session.library(e, stable_order, [moved, flag], {}))
        together = e.emit("gather", tensor_of(e, places), tensor_of(e, order))
        places = materialise(e, Temp(together, order.extents, e.block))
    buffers = []
    for buffer, leaf in zip(held.buffers, leaf_types(held.item), strict=True):
        fresh = allocate_buffer(e, held.length, buffer.extents[1:], leaf)
        e.emit("store", e.emit("gather", tensor_of(e, buffer), tensor_of(e, places)), fresh.pointer)
        buffers.append(fresh)
    return Growing(held.item, tuple(buffers), held.length)
