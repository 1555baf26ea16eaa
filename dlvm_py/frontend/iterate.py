"""What a `for` loop can run over: range, arrays, enumerate, zip, reversed; each a count and an item rule."""

from __future__ import annotations

from typing import Any

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import indexing, subscripts, undecided
from dlvm_py.frontend.arrays import materialise, require_array
from dlvm_py.frontend.emit import Emitter, Unreachable, i64
from dlvm_py.frontend.facts import EXTENT_MAX
from dlvm_py.frontend.growing import held_by, item_at
from dlvm_py.frontend.joined_values import identical_values
from dlvm_py.frontend.library import streams
from dlvm_py.frontend.values import (
    NONE,
    Array,
    Generator,
    Growing,
    Iteration,
    Method,
    Ref,
    Scalar,
    Sequence,
    Undecided,
    describe,
)
from dlvm_py.ir import Value
from dlvm_py.ir.value import integer


def iteration_of(e: Emitter, value: Any) -> Iteration:
    """How to loop over a value; a located error if that is not supported."""
    if isinstance(value, Iteration):
        return value
    if isinstance(value, Growing) and value.home is not None:
        return _in_region(e, value, value.home)
    if isinstance(value, Growing):
        return Iteration(value.length, lambda k: item_at(e, value, k))
    if isinstance(value, Array) and value.rank:
        # the counter is below the extent: no bounds check is left
        return Iteration(value.extents[0], lambda k: subscripts.read(e, value, Scalar(k, weak=True)))
    if isinstance(value, Undecided):
        inner = iteration_of(e, value.value)
        return Iteration(inner.count, lambda k: undecided.wrapped(e, inner.item(k)))
    if isinstance(value, Sequence):
        items = tuple(materialise(e, i) for i in value.items)
        return Iteration(i64(len(items)), lambda k: chosen(e, items, k))
    e.error(
        TypeMismatch, f"{describe(value)} cannot be iterated over", help="loop over range(...), an array or a tuple"
    )


def _in_region(e: Emitter, held: Growing, home: Ref) -> Iteration:
    """A loop over a list of a region: its items are where they lie when their turn comes."""
    before = e.frame.env[home.region.key].value

    def item(k: Value) -> Any:
        if not identical_values([before, e.frame.env[home.region.key].value]):
            e.error(
                UnsupportedSyntax,
                "the loop makes lists longer or shorter that lie in a list, and may run over one of them",
                help="loop over a copy: for x in list(items)",
            )
        return item_at(e, held_by(e, home), k)

    return Iteration(held.length, item)


def chosen(e: Emitter, items: tuple[Any, ...], place: Value, first: int = 0) -> Any:
    """The item of a list or tuple at a place that is computed: a binary search of branches."""
    if not items:
        raise Unreachable
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    below = e.compare("lessThan", place, i64(first + half))
    return e.frame.choose_value(
        below,
        lambda: chosen(e, items[:half], place, first),
        lambda: chosen(e, items[half:], place, first + half),
    )


def range_(e: Emitter, *bounds: Any) -> Iteration:
    """range(stop), range(start, stop), range(start, stop, step)."""
    values = [indexing.as_index(e, b, "an argument of range") for b in bounds]
    if not 1 <= len(values) <= 3:
        e.error(TypeMismatch, f"range expected 1 to 3 arguments, got {len(values)}")
    start, stop = (i64(0), values[0]) if len(values) == 1 else values[:2]
    step = values[2] if len(values) == 3 else i64(1)
    s = integer(step)
    if s is None or s == 0:
        e.check(e.compare("notEqual", step, i64(0)), "ValueError", "range() arg 3 must not be zero")
        forward = e.compare("lessThan", i64(0), step)
        count = indexing.dynamic_count(e, start, stop, step, forward, checked=True)
        moved = lambda k: Scalar(e.pure("add", start, e.pure("multiply", k, step)), weak=True)  # noqa: E731
        return Iteration(count, moved, is_range=True)
    if s > 0:
        count = indexing.count_between(e, start, stop, s, checked=True)
    else:
        count = indexing.count_between(e, stop, start, -s, checked=True)
    return Iteration(count, lambda k: Scalar(_range_item(e, start, stop, s, k), weak=True), is_range=True)


def _range_item(e: Emitter, start: Value, stop: Value, step: int, k: Value) -> Value:
    """start + k step, with what is known of it: between start and stop."""
    facts = e.facts
    moved = k if abs(step) == 1 else e.pure("multiply", k, i64(abs(step)))
    if step < 0:
        item = e.pure("subtract", start, moved)
    elif integer(start) is not None:
        item = e.offset(moved, integer(start) or 0)
    else:
        item = e.pure("add", start, moved)
    (start_low, start_high), (stop_low, stop_high) = facts.range_of(start), facts.range_of(stop)
    if step > 0:
        interval, limit = (start_low, stop_high - 1), (stop, 0)
    else:
        interval, limit = (stop_low + 1, start_high), (start, 1)
    if integer(item) is None:
        facts.interval[item] = interval
        if integer(limit[0]) is None:
            base, offset = facts.split(limit[0])
            facts.below.setdefault(item, []).append((base, offset + limit[1]))  # type: ignore[arg-type]
    return item


def enumerate_(e: Emitter, items: Any, start: Any = None) -> Any:
    """enumerate(items, start=0)."""
    first = i64(0) if start is None else indexing.as_index(e, start, "the start of enumerate")
    if isinstance(items, Generator):
        return e.session.library(e, streams.enumerate_, [items, Scalar(first, True)], {})
    if isinstance(items, Sequence):
        pairs = (Sequence((Scalar(e.add(first, i64(k)), True), x)) for k, x in enumerate(items.items))
        return Sequence(tuple(pairs), is_list=True)
    inner = iteration_of(e, items)
    return Iteration(inner.count, lambda k: Sequence((Scalar(e.add(first, k), weak=True), inner.item(k))))


def zip_(e: Emitter, *items: Any, strict: Any = None) -> Any:
    """zip(a, b, ...): as long as the shortest; `strict` raises at once where the lengths differ."""
    if not items:
        e.error(TypeMismatch, "zip needs at least one argument")
    wanted = indexing.as_flag(e, strict, "`strict` of zip")
    if all(isinstance(i, Sequence) for i in items):
        if wanted and len({len(i.items) for i in items}) > 1:
            e.error(TypeMismatch, "zip(strict=True) of tuples of different lengths")
        return Sequence(tuple(Sequence(row) for row in zip(*(i.items for i in items), strict=False)), is_list=True)
    if any(isinstance(i, Generator) for i in items):
        return _zip_of_generator(e, items, wanted)
    inner = [iteration_of(e, i) for i in items]
    count = inner[0].count
    for other in inner[1:]:
        if wanted:
            e.check(e.compare("equal", count, other.count), "ValueError", "zip() arguments differ in length")
            continue
        count = e.minimum(count, other.count)
    return Iteration(count, lambda k: Sequence(tuple(i.item(k) for i in inner)))


def _zip_of_generator(e: Emitter, items: tuple[Any, ...], is_strict: Any) -> Any:
    """zip of one generator, and of what is indexed."""
    places = [k for k, i in enumerate(items) if isinstance(i, Generator)]
    if len(places) > 1 or is_strict:
        what = "zip(strict=True) of a generator" if is_strict else "zip of two generators"
        e.error(UnsupportedSyntax, f"{what} is not supported", help="make a list of it: zip(list(a), b)")
    parts: list[Any] = []
    for some in (items[: places[0]], items[places[0] + 1 :]):
        inner = [iteration_of(e, i) for i in some]
        count = None
        for other in inner:
            count = other.count if count is None else e.minimum(count, other.count)
        parts += [_row(inner), NONE if count is None else Scalar(count, True)]
    return e.session.library(e, streams.zipped, [*parts[:2], items[places[0]], *parts[2:]], {})


def _row(inner: list[Iteration]) -> Method:
    """A function that gives the items at a place."""

    def items(e: Emitter, owner: Any, k: Any) -> Sequence:
        return Sequence(tuple(i.item(k.value) for i in inner))

    return Method(NONE, "items", items)


def reversed_(e: Emitter, items: Any) -> Any:
    """reversed(range(...)), reversed(array), reversed(tuple)."""
    if isinstance(items, Sequence):
        return Sequence(items.items[::-1], is_list=True)
    inner = iteration_of(e, items)

    def item(k: Value) -> Any:
        mirrored = e.subtract(e.offset(inner.count, -1), k)
        if integer(mirrored) is None:
            e.facts.interval[mirrored] = (0, EXTENT_MAX)
            e.facts.below.setdefault(mirrored, []).append((inner.count, 0))
            if inner.count in e.facts.clamped:
                e.facts.below[mirrored].append(e.facts.clamped[inner.count])
        return inner.item(mirrored)

    return Iteration(inner.count, item)


def _unravelled(e: Emitter, k: Value, extents: tuple[Value, ...]) -> Sequence:
    """The index of each axis of the k-th element in C order."""
    found: list[Any] = []
    for extent in reversed(extents[1:]):
        found.insert(0, Scalar(e.pure("modulo", k, extent), weak=True))
        e.facts.interval.setdefault(found[0].value, (0, EXTENT_MAX))
        k = e.pure("floorDivide", k, extent)
    return Sequence((Scalar(k, weak=True), *found)) if extents else Sequence(())


def ndindex(e: Emitter, *shape: Any) -> Iteration:
    """np.ndindex: the indices of all elements of a shape, as tuples of ints, the last axis fastest."""
    items = shape[0].items if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    extents = tuple(indexing.as_index(e, n, "an extent of np.ndindex") for n in items)
    for n in extents:
        e.check(e.compare("lessThanOrEqual", i64(0), n), "ValueError", "negative dimensions are not allowed")
    return Iteration(e.product(extents), lambda k: _unravelled(e, k, extents))


def ndenumerate(e: Emitter, arr: Any) -> Iteration:
    """np.ndenumerate: the index, a tuple of ints, and the value of each element, the last axis fastest."""
    array = require_array(e, arr, "np.ndenumerate")
    array = array if isinstance(array, Array) else materialise(e, array)

    def item(k: Value) -> Any:
        index = _unravelled(e, k, array.extents)
        return Sequence((index, subscripts.read(e, array, index)))

    return Iteration(e.product(array.extents), item)
