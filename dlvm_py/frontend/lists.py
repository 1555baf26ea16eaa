"""Lists: of constant length as their items, of computed length (`Growing`) as rows of buffers in memory.

A list of constant length is a Sequence: its items may be of any types. Where lists of different lengths meet (a loop
that appends), they become a Growing, whose items have one type: numbers, arrays of one shape, tuples of these. Its
buffers double where they are full, so that loads and stores of ordinary memory are all that is compiled, and all
that is differentiated.

An array in a Growing is a copy of what was appended, and reading gives a copy again. Python has references there, so
whatever would tell the difference is refused: writing into an array that was read from such a list (`Array.copied`),
and into one that was appended to it (transforms/kept_copies.py follows the marks of `store_item`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import indexing, operators, records, regions, subscripts, undecided
from dlvm_py.frontend.arrays import filled, make_array, materialise, tensor_of
from dlvm_py.frontend.emit import Emitter, Unreachable, i64
from dlvm_py.frontend.growing import item_at, rows_of, section_of
from dlvm_py.frontend.iterate import chosen, iteration_of
from dlvm_py.frontend.joined_values import ONE_SHAPE, allocate_buffer, as_growing, leaf_values, store_item
from dlvm_py.frontend.joins import fits_for_caller, join_items
from dlvm_py.frontend.library import hashing
from dlvm_py.frontend.objects import (
    LENT,
    change,
    contents,
    key_of,
    refer_to_lists,
    require_changeable,
    resolved,
    settle,
    target,
)
from dlvm_py.frontend.sorting import ordered
from dlvm_py.frontend.value_types import ArrayType, leaf_types, same_type, type_of
from dlvm_py.frontend.values import (
    NONE,
    Array,
    Conflict,
    Generator,
    Growing,
    Iteration,
    Method,
    Object,
    Record,
    Ref,
    Scalar,
    Sequence,
    SliceKey,
    Static,
    Undecided,
    describe,
)
from dlvm_py.frozen import replace
from dlvm_py.ir import I64, Value
from dlvm_py.ir.value import integer

_FIRST_CAPACITY = 4
_MAX_REPEATED = 1000  # of a list times a constant; a longer one gets a computed length
_EMPTY = "{} index out of range"


def holds(e: Emitter, value: Any) -> Sequence | Growing:
    """What a list that is to be changed holds; a located error for anything else."""
    if isinstance(value, Object | Ref):
        require_changeable(e, value)
    held = contents(e, value)
    if isinstance(held, Growing) or (isinstance(held, Sequence) and held.is_list):
        return held
    e.error(TypeMismatch, f"a list is needed here, not {describe(held)}")


def is_list(value: Any) -> bool:
    """Whether contents are those of a list."""
    return isinstance(value, Growing) or (isinstance(value, Sequence) and value.is_list)


def is_computed_int(value: Any) -> bool:
    """Whether a number of repetitions is known at run time only (or the list is what is not known)."""
    return (
        isinstance(value, Scalar)
        and (value.dtype.is_integer or value.dtype.kind == "b")
        and (value.number is None or abs(value.number) > _MAX_REPEATED)
    )


# -- reading -----------------------------------------------------------------------------------------------


def _position(e: Emitter, index: Any, length: Value, what: str) -> Value:
    """A place in [0, length); IndexError in Python's words where there is none."""
    k = indexing.as_index(e, index, "the index of a list")
    low, high = e.facts.range_of(k)
    wrapped = e.add(k, length)
    place = k if low >= 0 else wrapped if high < 0 else e.choose(e.compare("lessThan", k, i64(0)), wrapped, k)
    fine = e.both(e.compare("lessThanOrEqual", i64(0), place), e.compare("lessThan", place, length))
    if e.options.checks_bounds:
        e.check(fine, "IndexError", _EMPTY.format(what))
    return place


def read(e: Emitter, base: Any, index: Any) -> Any:
    """base[index] of a list, tuple, dict or named tuple."""
    if isinstance(base, Undecided):
        return undecided.wrapped(e, subscripts.read(e, base.value, index))
    held = contents(e, base)
    if isinstance(held, Record):
        if held.kind is hashing.Dict:
            return e.session.item(e, base, index)
        if held.kind is dict:
            return records.item(e, base, held, index)
        held = records.iterated(held)
    if isinstance(held, Growing):
        if isinstance(index, SliceKey):
            return _sliced(e, held, index)
        return item_at(e, held, _position(e, index, held.length, "list"))
    if isinstance(held, Iteration) and held.is_range and not isinstance(index, SliceKey):
        return held.item(_position(e, index, held.count, "range object"))
    if isinstance(held, Static) and type(held.value) is dict:
        return _of_constant(e, held.value, index)
    if isinstance(held, Static) and isinstance(held.value, str):
        return _of_text(e, held.value, index)
    if not isinstance(held, Sequence):
        return subscripts.read(e, held, index)
    if isinstance(index, Scalar) and index.number is None and (index.dtype.is_integer or index.dtype.kind == "b"):
        if held.is_list and regions.holds_lists(e, held):
            owner = base if isinstance(base, Object) else settle(e, held)
            refer_to_lists(e, owner)
        what = "list" if held.is_list else "tuple"
        if not held.items:
            e.emit("raise", exception="IndexError", message=_EMPTY.format(what))
            raise Unreachable
        return chosen(e, held.items, _position(e, index, i64(len(held.items)), what))
    if isinstance(index, Scalar) and isinstance(index.number, int):
        k = int(index.number)
        if not -len(held.items) <= k < len(held.items):
            e.emit("raise", exception="IndexError", message=_EMPTY.format("list" if held.is_list else "tuple"))
            raise Unreachable
        return held.items[k]
    if isinstance(index, SliceKey) and held.is_list and subscripts.constant_slice(index) is None:
        return _sliced(e, _grown(e, held), index)
    return subscripts.read(e, held, index)


def _of_constant(e: Emitter, table: dict[Any, Any], index: Any) -> Any:
    """An item of a captured dict with keys of any kind, at a key that is known now."""
    key = _constant_key(index)
    if key is None:
        e.error(
            UnsupportedSyntax,
            "a dict that was made outside, with keys other than strings, can only be read at constant keys",
            help="use an array or a list for numbered things",
        )
    if key[0] not in table:
        e.emit("raise", exception="KeyError", message=repr(key[0]).replace("{", "{{").replace("}", "}}"))
        raise Unreachable
    return e.session.lift(e, table[key[0]], "an item of the dict")


def _of_text(e: Emitter, text: str, index: Any) -> Static:
    """A character, or a part, of a constant string."""
    if isinstance(index, SliceKey):
        part = subscripts.constant_slice(index)
        if part is not None and part.step != 0:
            return Static(text[part])
    elif isinstance(index, Scalar) and isinstance(index.number, int):
        if not -len(text) <= index.number < len(text):
            e.emit("raise", exception="IndexError", message="string index out of range")
            raise Unreachable
        return Static(text[index.number])
    e.error(UnsupportedSyntax, "a string can only be indexed by constants", help="pass what is needed as numbers")


def _constant_key(index: Any) -> tuple[Any] | None:
    """A one-tuple of the Python object that an index is; None where it is computed or cannot be a key."""
    if isinstance(index, Static):
        return None if isinstance(index.value, (dict, set)) else (index.value,)
    if isinstance(index, Scalar):
        return None if index.number is None else (index.number,)
    if isinstance(index, Sequence) and not index.is_list:
        parts = [_constant_key(i) for i in index.items]
        return None if None in parts else (tuple(p[0] for p in parts if p is not None),)
    return None


def _grown(e: Emitter, held: Sequence) -> Growing:
    """A list of constant length as one of computed length: its items get one type."""
    item = None
    for value in held.items:
        item = join_items(item, type_of(e, value))
    if isinstance(item, Conflict):
        e.error(TypeMismatch, item.said_of("this"), help=item.help or "use an array")
    return as_growing(e, held, item)


def _made_growing(e: Emitter, owner: Any, held: Sequence) -> Growing:
    """What a list of constant length is to hold where a computed place decides what becomes of it."""
    if regions.holds_lists(e, held):
        refer_to_lists(e, owner)
    return _grown(e, held)


def _sliced(e: Emitter, held: Growing, key: SliceKey) -> Growing:
    start, count, step = indexing.slice_range(e, key, held.length)
    buffers = []
    for buffer, leaf in zip(held.buffers, leaf_types(held.item), strict=True):
        fresh = allocate_buffer(e, count, buffer.extents[1:], leaf)
        e.emit("store", rows_of(e, buffer, start, count, step), fresh.pointer)
        buffers.append(fresh)
    return Growing(held.item, tuple(buffers), count)


# -- changing ------------------------------------------------------------------------------------------------


def append(e: Emitter, owner: Any, value: Any) -> Any:
    """x.append(value)."""
    held = holds(e, owner)
    value = settle(e, value)
    if isinstance(held, Sequence):
        change(e, owner, Sequence((*held.items, value), is_list=True))
        return NONE
    value = regions.taken_in(e, key_of(e, owner), held.item, value)
    moved = target(e, owner)
    if isinstance(moved, Ref):
        regions.append(e, moved, value)
        return NONE
    _require_one_type(e, owner, held.item, value)
    change(e, owner, appended(e, held, value))
    return NONE


def _require_one_type(e: Emitter, owner: Any, item: Any, value: Any) -> None:
    """An error for an item of another type in a list that the caller lends, where all items get one type."""
    if isinstance(owner, Object) and owner.key.startswith(LENT) and not fits_for_caller(item, type_of(e, value)):
        e.error(
            TypeMismatch,
            f"{describe(value)} in a list of the caller with items of another type: its place is known when it runs",
            help="give all items one type: float(x)",
        )


def _fitting(e: Emitter, held: Growing, value: Any) -> Growing:
    """The list with items of a type that takes `value` too."""
    joined = join_items(held.item, type_of(e, value))
    if isinstance(joined, Conflict):
        e.error(TypeMismatch, joined.said_of("this"), help=joined.help or "use two lists")
    return held if held.item is not None and same_type(joined, held.item) else as_growing(e, held, joined)


def appended(e: Emitter, held: Growing, value: Any) -> Growing:
    """The list with one item more."""
    held = _fitting(e, held, value)
    leaves = leaf_values(value)
    rows = [leaf.extents if isinstance(leaf, Array) else () for leaf in leaves]
    other_shape: Value | None = None
    for buffer, row in zip(held.buffers, rows, strict=True):
        for have, want in zip(row, buffer.extents[1:], strict=True):
            if not e.facts.same(have, want):
                differs = e.pure("not", e.compare("equal", have, want))
                empty = e.compare("equal", held.length, i64(0))
                e.check(e.either(empty, e.pure("not", differs)), "ValueError", ONE_SHAPE, have, want)
                other_shape = differs if other_shape is None else e.either(other_shape, differs)
    capacity = held.buffers[0].extents[0]
    full = e.pure("equal", held.length, capacity)
    if other_shape is not None:  # an empty list takes arrays of any shape
        full = e.either(full, other_shape)
    types = leaf_types(held.item)

    def double() -> Any:
        more = e.maximum(e.pure("multiply", capacity, i64(2)), i64(_FIRST_CAPACITY))
        fresh = [allocate_buffer(e, more, row, t) for row, t in zip(rows, types, strict=True)]

        def keep() -> Any:
            for old, new in zip(held.buffers, fresh, strict=True):
                kept = section_of(e, new, i64(0), held.length, i64(1))
                e.emit("store", rows_of(e, Array(old.pointer, new.extents), i64(0), held.length, i64(1)), kept)
            return Sequence(tuple(fresh))

        return e.frame.choose_value(e.compare("lessThan", i64(0), held.length), keep, lambda: Sequence(tuple(fresh)))

    chosen = e.frame.choose_value(full, double, lambda: Sequence(held.buffers)).items
    buffers = []
    for buffer, row, value_ in zip(chosen, rows, leaves, strict=True):
        buffer = make_array(e, buffer.pointer, [buffer.extents[0], *row])
        store_item(e, buffer, held.length, value_)
        buffers.append(buffer)
    return Growing(held.item, tuple(buffers), e.offset(held.length, 1))


def set_item(e: Emitter, owner: Object, index: Any, value: Any) -> None:
    """x[index] = value."""
    held, value = holds(e, owner), settle(e, value)
    if isinstance(index, SliceKey):
        _set_slice(e, owner, held, index, value)
        return
    if isinstance(held, Sequence):
        if isinstance(index, Scalar) and isinstance(index.number, int):
            k = int(index.number)
            if not -len(held.items) <= k < len(held.items):
                e.emit("raise", exception="IndexError", message="list assignment index out of range")
                raise Unreachable
            k %= len(held.items)
            change(e, owner, Sequence((*held.items[:k], value, *held.items[k + 1 :]), is_list=True))
            return
        if regions.holds_lists(e, held) or regions.holds_lists(e, Sequence((value,))):
            refer_to_lists(e, owner)
        place = _position(e, index, i64(len(held.items)), "list assignment")
        for old in held.items:
            _require_one_type(e, owner, type_of(e, old), value)
        items = [
            e.frame.choose_value(e.compare("equal", place, i64(k)), lambda: value, lambda old=old: old)
            for k, old in enumerate(held.items)
        ]
        change(e, owner, Sequence(tuple(items), is_list=True))
        return
    place = _position(e, index, held.length, "list assignment")
    value = regions.taken_in(e, key_of(e, owner), held.item, value)
    _require_one_type(e, owner, held.item, value)
    if held.home is not None:
        regions.widen(e, held.home.region, type_of(e, value))
    held = _fitting(e, holds(e, owner), value)
    for buffer, leaf in zip(held.buffers, leaf_values(value), strict=True):
        store_item(e, buffer, place, leaf)
    if held.home is None:
        change(e, owner, held)


def _set_slice(e: Emitter, owner: Object, held: Any, key: SliceKey, value: Any) -> None:
    """x[a:b] = items, where the slice and the items are known when the call is compiled."""
    items = records.iterated(contents(e, value))
    part = subscripts.constant_slice(key)
    if not isinstance(held, Sequence) or not isinstance(items, Sequence) or part is None:
        e.error(
            UnsupportedSyntax,
            "assignment to a slice of a list needs constant lengths: of the list, of the slice, and of the items",
            help="use an array, or make a new list: x[:a] + items + x[b:]",
        )
    changed = list(held.items)
    try:
        changed[part] = items.items
    except ValueError as error:
        e.emit("raise", exception="ValueError", message=str(error))
        raise Unreachable from None
    change(e, owner, Sequence(tuple(changed), is_list=True))


def _pop(e: Emitter, owner: Any, index: Any = None) -> Any:
    held = holds(e, owner)
    k = -1 if index is None else getattr(index, "number", None)
    if isinstance(held, Sequence) and not isinstance(k, int):
        held = _made_growing(e, owner, held)
    if isinstance(held, Sequence):
        if not -len(held.items) <= k < len(held.items):
            e.emit(
                "raise",
                exception="IndexError",
                message="pop index out of range" if held.items else "pop from empty list",
            )
            raise Unreachable
        k %= len(held.items)
        change(e, owner, Sequence((*held.items[:k], *held.items[k + 1 :]), is_list=True))
        return held.items[k]
    e.check(e.compare("lessThan", i64(0), held.length), "IndexError", "pop from empty list")
    last = e.offset(held.length, -1)
    e.know_nonnegative(last)
    if index is None or (isinstance(index, Scalar) and index.number == -1):
        found = item_at(e, held, last)
    else:
        place = _position(e, index, held.length, "pop")
        found = item_at(e, held, place)
        _move(e, held, e.offset(place, 1), place, e.subtract(last, place))
    change(e, owner, replace(held, length=last))
    return found


def _move(e: Emitter, held: Growing, source: Value, target: Value, count: Value) -> None:
    """Copy rows to another place of the buffers."""
    for buffer in held.buffers:
        rows = rows_of(e, buffer, source, count, i64(1))
        e.emit("store", rows, section_of(e, buffer, target, count, i64(1)))


def _insert(e: Emitter, owner: Any, index: Any, value: Any) -> Any:
    held, value = holds(e, owner), settle(e, value)
    if isinstance(held, Sequence) and not (isinstance(index, Scalar) and isinstance(index.number, int)):
        held = _made_growing(e, owner, held)
    if isinstance(held, Sequence):
        items = list(held.items)
        items.insert(index.number, value)
        change(e, owner, Sequence(tuple(items), is_list=True))
        return NONE
    _require_one_type(e, owner, held.item, value)
    place = indexing.clipped(e, index, held.length, held.length, i64(0), held.length)
    value = regions.taken_in(e, key_of(e, owner), held.item, value)
    count = e.subtract(held.length, place)
    longer = appended(e, held, value)
    _move(e, longer, place, e.offset(place, 1), count)
    for buffer, leaf in zip(longer.buffers, leaf_values(value), strict=True):
        store_item(e, buffer, place, leaf)
    change(e, owner, longer)
    return NONE


def extend(e: Emitter, owner: Any, items: Any) -> Any:
    """x.extend(items), x += items."""
    held, more = holds(e, owner), records.iterated(contents(e, items))
    if isinstance(more, Sequence):
        if isinstance(held, Sequence):
            change(e, owner, Sequence((*held.items, *(settle(e, i) for i in more.items)), is_list=True))
            return NONE
        for item in more.items:
            append(e, owner, item)
        return NONE
    if isinstance(more, Generator):
        more.run(lambda item: append(e, owner, item))
        return NONE
    if isinstance(more, Growing) and more.home is not None:
        more = _sliced(e, more, SliceKey(None, None, None))  # what is appended may move what lies beside it
    elif not isinstance(more, Growing | Iteration):
        more = materialise(e, more)
    e.frame.for_each(iteration_of(e, more), lambda item: append(e, owner, item))
    return NONE


def _clear(e: Emitter, owner: Any) -> Any:
    holds(e, owner)
    change(e, owner, Sequence((), is_list=True))
    return NONE


def _reverse(e: Emitter, owner: Any) -> Any:
    held = holds(e, owner)
    if isinstance(held, Sequence):
        change(e, owner, Sequence(held.items[::-1], is_list=True))
        return NONE
    last = e.offset(held.length, -1)
    for buffer in held.buffers:
        e.emit(
            "store", rows_of(e, buffer, last, held.length, i64(-1)), section_of(e, buffer, i64(0), held.length, i64(1))
        )
    if held.home is None:
        change(e, owner, held)
    return NONE


def _copy(e: Emitter, owner: Any) -> Any:
    return list_(e, owner)


def _same(e: Emitter, a: Any, b: Any) -> Value:
    return operators.condition(e, operators.compare(e, gast.Eq, resolved(e, a), resolved(e, b)))


def count(e: Emitter, owner: Any, value: Any) -> Any:
    """x.count(value) of a list or tuple."""
    held = contents(e, owner)
    if isinstance(held, Sequence):
        total: Value = i64(0)
        for item in held.items:
            total = e.add(total, e.cast(_same(e, item, value), I64))
        return Scalar(total, weak=True)

    def over(update: Any, now: Any) -> None:
        def look(item: Any) -> None:
            update(lambda n: Scalar(e.pure("add", n.value, e.cast(_same(e, item, value), I64)), weak=True))

        e.frame.for_each(iteration_of(e, held), look, "count")

    return e.frame.accumulate(Scalar(i64(0), weak=True), over)


def _place_of(e: Emitter, held: Sequence | Growing, value: Any) -> Value:
    """The first place of a value, the length where it is not there."""
    if isinstance(held, Sequence):
        place: Value = i64(len(held.items))
        for k in range(len(held.items) - 1, -1, -1):
            place = e.choose(_same(e, held.items[k], value), i64(k), place)
        return place

    def over(update: Any, now: Any) -> None:
        def look(k: Value) -> None:
            here = _same(e, item_at(e, held, k), value)
            update(lambda found: Scalar(e.minimum(found.value, e.choose(here, k, held.length)), weak=True))

        e.frame.for_each(Iteration(held.length, lambda k: k), look, "index")

    return e.frame.accumulate(Scalar(held.length, weak=True), over).value


def index(e: Emitter, owner: Any, value: Any) -> Any:
    """x.index(value) of a list or tuple; ValueError in Python's words where it is not there."""
    held, value = contents(e, owner), resolved(e, value)
    place = _place_of(e, held, value)
    length = i64(len(held.items)) if isinstance(held, Sequence) else held.length
    _check_there(e, held, value, e.compare("lessThan", place, length))
    return Scalar(place, weak=True)


def _check_there(e: Emitter, held: Any, value: Any, found: Value) -> None:
    if isinstance(held, Sequence) and not held.is_list:
        e.check(found, "ValueError", "tuple.index(x): x not in tuple")
    elif isinstance(value, Scalar) and value.weak:
        e.check(found, "ValueError", "{} is not in list", value.value)
    else:
        e.check(found, "ValueError", "the value is not in list")


def _remove(e: Emitter, owner: Any, value: Any) -> Any:
    held, value = holds(e, owner), resolved(e, value)
    place = _place_of(e, held, value)
    if isinstance(held, Sequence):
        known = integer(place)
        if known is not None and known < len(held.items):
            change(e, owner, Sequence((*held.items[:known], *held.items[known + 1 :]), is_list=True))
            return NONE
        held = _grown(e, held)
    fine = e.compare("lessThan", place, held.length)
    e.check(fine, "ValueError", "list.remove(x): x not in list")
    last = e.offset(held.length, -1)
    _move(e, held, e.offset(place, 1), place, e.subtract(last, place))
    change(e, owner, replace(held, length=last))
    return NONE


def _sort(e: Emitter, owner: Any, *, key: Any = None, reverse: Any = None) -> Any:
    held = holds(e, owner)
    for item in held.items if isinstance(held, Sequence) else ():
        _require_one_type(e, owner, type_of(e, held.items[0]), item)
    change(e, owner, ordered(e, held, key, reverse))
    return NONE


def repeated(e: Emitter, held: Sequence | Growing, times: Scalar) -> Growing:
    """items * times, for a number that is computed."""
    if isinstance(held, Sequence) and regions.holds_lists(e, held):
        held = regions.referring(e, settle(e, Sequence((), is_list=True)).key, held)
    held = _grown(e, held) if isinstance(held, Sequence) else held
    if any(isinstance(t, ArrayType) for t in leaf_types(held.item)):
        e.error(
            UnsupportedSyntax,
            "a list of arrays times a computed number is not supported: the arrays would be one and the same",
            help="[x.copy() for _ in range(n)]",
        )
    n = e.maximum(indexing.as_index(e, times, "the factor of a list"), i64(0))
    length = e.multiply(held.length, n, checked=True)
    fresh = [allocate_buffer(e, length, (), t) for t in leaf_types(held.item)]

    def fill(k: Value) -> None:
        start = e.pure("multiply", k, held.length)
        for old, new in zip(held.buffers, fresh, strict=True):
            part = section_of(e, new, start, held.length, i64(1))
            e.emit("store", rows_of(e, old, i64(0), held.length, i64(1)), part)

    if integer(held.length) == 1:  # [x] * n
        for old, new in zip(held.buffers, fresh, strict=True):
            value = Scalar(e.emit("load", e.emit("elementPointer", old.pointer, i64(0))), weak=False)
            e.emit("store", tensor_of(e, filled(e, (length,), value.value, value.dtype)), new.pointer)
    else:
        e.frame.for_each(Iteration(n, lambda k: k), fill, "repeat")
    return Growing(held.item, tuple(fresh), length)


METHODS: dict[str, Callable[..., Any]] = {
    "append": append, "pop": _pop, "insert": _insert, "extend": extend, "clear": _clear, "reverse": _reverse,
    "copy": _copy, "index": index, "count": count, "remove": _remove, "sort": _sort,
}  # fmt: skip


def delete_item(e: Emitter, owner: Any, index: Any) -> None:
    """del x[index]."""
    _pop(e, owner, index)


def augmented(e: Emitter, owner: Object, kind: type, value: Any) -> bool:
    """owner += value (a list that grows in place) or d |= other; False for another operation."""
    held, other = contents(e, owner), contents(e, value)
    if kind is gast.Add and (isinstance(held, Growing) or (isinstance(held, Sequence) and held.is_list)):
        extend(e, owner, value)
        return True
    if kind is gast.BitOr and isinstance(held, Record) and isinstance(other, Record):
        change(e, owner, records.merged(e, held, other))
        return True
    return False


# -- whole lists ---------------------------------------------------------------------------------------------


def list_(e: Emitter, items: Any = None) -> Any:
    """list(...): a new list with the items of anything that can be looped over."""
    if items is None:
        return Sequence((), is_list=True)
    held = records.iterated(contents(e, items))
    if isinstance(held, Sequence):
        return Sequence(held.items, is_list=True)
    if isinstance(held, Growing):
        return _sliced(e, held, SliceKey(None, None, None))
    if isinstance(held, Static) and isinstance(held.value, str):
        return Sequence(tuple(map(Static, held.value)), is_list=True)
    source = held if isinstance(held, Iteration) else materialise(e, held)
    return e.frame.collected(iteration_of(e, source))


def joined(e: Emitter, a: Any, b: Any) -> Any:
    """a + b of lists of which one is growing."""
    made = settle(e, list_(e, a))
    extend(e, made, b)
    return contents(e, made)


def method(e: Emitter, owner: Any, name: str) -> Any:
    """owner.name of a list."""
    if name in METHODS:
        return Method(owner, name, METHODS[name])
    e.error(
        UnsupportedSyntax,
        f"the method `{name}` of a list is not supported",
        help=f"supported are {', '.join(METHODS)}",
    )
