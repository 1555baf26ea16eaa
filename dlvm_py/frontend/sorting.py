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
from dlvm_py.frontend.joins import (
    Conflict,
    ScalarType,
    allocate_buffer,
    as_growing,
    join_items,
    leaf_types,
    type_of,
)
from dlvm_py.frontend.library.order import stable_order
from dlvm_py.frontend.values import Growing, Scalar, Sequence, Static, describe, is_none
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
    """A list of many numbers as one of computed length; None if its items have no common type."""
    item = None
    for value in held.items:
        item = join_items(item, type_of(e, value))
    return as_growing(e, held, item) if isinstance(item, ScalarType) and not isinstance(item, Conflict) else None


def _network(e: Emitter, held: Sequence, key: Any, backwards: bool) -> Sequence:
    items = [objects.resolved(e, i) for i in held.items]
    if is_none(key):
        items = [real_number(e, "sorted", i) for i in items]
        keys = list(items)
    else:
        keys = [real_number(e, "sorted", e.session.invoke(e, key, [i], {})) for i in items]
    first = gast.Gt if backwards else gast.Lt
    for last in range(len(items) - 1, 0, -1):
        for k in range(last):
            swap = operators.condition(e, operators.compare(e, first, keys[k + 1], keys[k]))
            for column in (keys,) if is_none(key) else (keys, items):
                a, b = column[k], column[k + 1]
                column[k] = e.frame.choose_value(swap, lambda: b, lambda: a)  # noqa: B023 - called at once
                column[k + 1] = e.frame.choose_value(swap, lambda: a, lambda: b)  # noqa: B023
    return Sequence(tuple(keys if is_none(key) else items), is_list=True)


def _gathered(e: Emitter, held: Growing, key: Any, backwards: bool) -> Growing:
    if not leaf_types(held.item):
        return held
    if is_none(key):
        if not isinstance(held.item, ScalarType):
            e.error(UnsupportedSyntax, "sorted() of these items needs a key", help="sorted(items, key=lambda t: t[0])")
        keys = as_array(e, held)
    else:
        taken = Iteration(held.length, lambda k: e.session.invoke(e, key, [item_at(e, held, k)], {}))
        numbers = e.frame.collected(taken)
        if not isinstance(numbers, Growing) or not isinstance(numbers.item, ScalarType):
            e.error(UnsupportedSyntax, "the key of sorted() must give a number")
        keys = as_array(e, numbers)
    flag = Scalar(literal(backwards), weak=True)
    places = materialise(e, e.session.library(e, stable_order, [materialise(e, keys), flag], {}))
    buffers = []
    for buffer, leaf in zip(held.buffers, leaf_types(held.item), strict=True):
        fresh = allocate_buffer(e, held.length, buffer.extents[1:], leaf)
        e.emit("store", e.emit("gather", tensor_of(e, buffer), tensor_of(e, places)), fresh.pointer)
        buffers.append(fresh)
    return Growing(held.item, tuple(buffers), held.length)
