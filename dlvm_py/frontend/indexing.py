"""Basic indexing: integers, slices, None and `...`, as views.

A key is a list of entries: a SliceKey, a Scalar int, Static(None), Static(Ellipsis), or an array, which advanced.py
has the rules for. Negative indices are normalised, bounds are checked unless they are proven, slices are clipped as
Python does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import make_array, tensor_of
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.facts import EXTENT_MAX
from dlvm_py.frontend.values import Array, Scalar, Sequence, SliceKey, Static, Temp, describe, is_none
from dlvm_py.ir import BOOL, I64, Value, literal
from dlvm_py.ir.value import integer

_OUT_OF_BOUNDS = "index {{}} is out of bounds for axis {axis} with size {{}}"


def entries(e: Emitter, index: Any) -> list[Any]:
    """The entries of an index, constants of Python's own classes unpacked, unsupported ones refused."""
    items = index.items if isinstance(index, Sequence) and not index.is_list else (index,)
    return [_entry(e, item) for item in items]


def _entry(e: Emitter, item: Any) -> Any:
    match item:
        case SliceKey():
            return item
        case Static() if item.value is None or item.value is Ellipsis:
            return item
        case Static(value=slice() as s):
            parts = [None if p is None else Scalar(literal(p), weak=True) for p in (s.start, s.stop, s.step)]
            return SliceKey(*parts)
        case Scalar() if item.dtype.is_integer:
            return item
        case Scalar() if item.dtype is BOOL:
            return item
        case Scalar():
            e.error(
                TypeMismatch,
                "only integers, slices (`:`), ellipsis (`...`) and None index arrays, not a float",
                help="convert with int(...)",
            )
        case Array() | Temp() if item.dtype.is_integer or (item.dtype is BOOL and item.rank):
            return item if item.rank else Scalar(tensor_of(e, item), weak=False)
        case Array() | Temp():
            e.error(
                TypeMismatch,
                "arrays used as indices must be of integer (or boolean) type",
                help="convert with .astype(np.int64)",
            )
    e.error(TypeMismatch, f"{describe(item)} is no index")


def as_index(e: Emitter, value: Any, what: str) -> Value:
    """An int, or an array of one without axes, as an i64 value, for lengths, axes and bounds."""
    if isinstance(value, Array) and not value.rank:
        value = Scalar(tensor_of(e, value), weak=False)
    if isinstance(value, Scalar) and value.dtype.is_integer:
        return e.whole(value.value)
    if isinstance(value, Scalar) and value.dtype is BOOL and value.weak:
        return e.cast(value.value, I64)
    e.error(TypeMismatch, f"{what} must be an int, not {describe(value)}", help="convert with int(...)")


def as_flag(e: Emitter, value: Any, what: str) -> bool:
    """A flag that is False if left out, and must be known when the call is compiled."""
    if is_none(value):
        return False
    if isinstance(value, Scalar) and value.number is not None:
        return bool(value.number)
    e.error(UnsupportedSyntax, f"{what} must be the constant True or False, not {describe(value)}")


def normalised(e: Emitter, index: Scalar, extent: Value, axis: int) -> Value:
    """A position in [0, extent), checked at run time unless proven."""
    i = e.whole(index.value)
    extent = e.facts.find(extent)
    known = e.facts.lookup(("position", i, extent))
    if known is not None:
        return known
    k = integer(i)
    low, high = e.facts.range_of(i)
    if k is not None:
        position = e.offset(extent, k) if k < 0 else i
        # k < n for a position from the left; -k <= n, that is -k - 1 < n, from the right
        fine = e.compare("lessThan", i64(k if k >= 0 else -k - 1), extent)
    elif low >= 0 or e.facts.is_nonnegative(i):
        position, fine = i, e.compare("lessThan", i, extent)
    elif e.facts.linear.get(i) == (extent, -1):
        # n - 1: negative only if n is 0, and then out of bounds
        position, fine = i, e.compare("lessThan", i64(0), extent)
    else:
        wrapped = e.add(i, extent)
        position = wrapped if high < 0 else e.choose(e.compare("lessThan", i, i64(0)), wrapped, i)
        fine = e.both(e.compare("lessThanOrEqual", i64(0), position), e.compare("lessThan", position, extent))
    if e.options.checks_bounds:
        e.check(fine, "IndexError", _OUT_OF_BOUNDS.format(axis=axis), i, extent)
    e.facts.remember(("position", i, extent), position)
    return position


def clipped(e: Emitter, value: Scalar | None, extent: Value, default: Value, low: Value, high: Value) -> Value:
    """One bound of a slice, as slice.indices() computes it."""
    if value is None:
        return default
    v = e.whole(value.value)
    n = integer(v)
    if n is not None:
        v = e.offset(extent, n) if n < 0 else v
    elif e.facts.range_of(v)[0] < 0 and not e.facts.is_nonnegative(v):
        v = e.choose(e.compare("lessThan", v, i64(0)), e.add(v, extent), v)
    return e.minimum(e.maximum(v, low), high)


def slice_range(e: Emitter, part: SliceKey, extent: Value) -> tuple[Value, Value, Value]:
    """(start, count, step) of a slice over an axis; start is any number where count is 0."""
    extent = e.facts.find(extent)
    step = i64(1) if part.step is None else e.whole(part.step.value)
    s = integer(step)
    if s == 0:
        e.error(TypeMismatch, "slice step cannot be zero")
    zero = i64(0)
    if s is not None and s > 0:
        short = _literal_range(e, part, extent) if s == 1 else None
        if short is not None:
            return (*short, step)
        start = clipped(e, part.start, extent, zero, zero, extent)
        stop = clipped(e, part.stop, extent, extent, zero, extent)
        return start, count_between(e, start, stop, s), step
    last = e.offset(extent, -1)
    if s is not None:
        start = clipped(e, part.start, extent, last, i64(-1), last)
        stop = clipped(e, part.stop, extent, i64(-1), i64(-1), last)
        return start, count_between(e, stop, start, -s), step
    e.check(e.compare("notEqual", step, zero), "ValueError", "slice step cannot be zero")
    forward = e.compare("lessThan", zero, step)
    low, high = e.choose(forward, zero, i64(-1)), e.choose(forward, extent, last)
    start = clipped(e, part.start, extent, e.choose(forward, zero, last), low, high)
    stop = clipped(e, part.stop, extent, e.choose(forward, extent, i64(-1)), low, high)
    return start, dynamic_count(e, start, stop, step, forward), step


def dynamic_count(e: Emitter, start: Value, stop: Value, step: Value, forward: Value, checked: bool = False) -> Value:
    """The number of steps of either sign from start to before stop; `checked` for bounds that may be far apart."""
    if checked:
        gap = e.subtract(stop, start, checked=True)
        gap = e.choose(forward, gap, e.subtract(i64(0), gap, checked=True))
    else:
        gap = e.choose(forward, e.subtract(stop, start), e.subtract(start, stop))
    size = e.choose(forward, step, e.subtract(i64(0), step, checked) if checked else e.pure("negate", step))
    count = e.pure("floorDivide", e.offset(e.maximum(gap, i64(0)), -1), size)
    count = e.offset(count, 1)
    e.facts.interval[count] = (0, EXTENT_MAX)
    return count


def _literal_range(e: Emitter, part: SliceKey, extent: Value) -> tuple[Value, Value] | None:
    """Slices with literal bounds in canonical form, so that equal lengths are one value."""
    a = 0 if part.start is None else part.start.number
    b = 0 if part.stop is None else part.stop.number
    if not isinstance(a, int) or not isinstance(b, int) or a < 0:
        return None
    if part.stop is None or b < 0:
        return i64(a), e.clamp(extent, b - a)
    n = integer(extent)
    if n is not None:
        return i64(min(a, n)), i64(max(min(b, n) - min(a, n), 0))
    if a == 0:
        return i64(0), e.minimum(i64(b), extent)
    return i64(a), e.clamp(e.minimum(i64(b), extent), -a)


def count_between(e: Emitter, low: Value, high: Value, step: int, checked: bool = False) -> Value:
    """max(ceil((high - low) / step), 0); `checked` for bounds that may be far apart."""
    base, total = e.facts.split(low)
    gap = e.clamp(high, -total) if base is None and total >= 0 else e.maximum(e.subtract(high, low, checked), i64(0))
    if step == 1 or integer(gap) == 0:
        return gap
    n = integer(gap)
    if n is not None:
        return i64(-(-n // step))
    if e.facts.range_of(gap)[1] + step - 1 < 2**63:
        count = e.pure("floorDivide", e.offset(gap, step - 1), i64(step))
    else:
        count = e.offset(e.pure("floorDivide", e.offset(gap, -1), i64(step)), 1)
    e.facts.interval.setdefault(count, (0, max(e.facts.range_of(gap)[1], 0)))
    return count


def view(e: Emitter, array: Array, index: Any) -> Array:
    """The view (of rank 0 for an element) that a basic index selects."""
    return view_of(e, array, expanded(e, entries(e, index), array.rank))


def view_of(e: Emitter, array: Array, parts: list[Any]) -> Array:
    """The view that the basic entries `parts`, one an axis besides new ones, select."""
    parts = list(parts)
    pointer, extents = array.pointer, list(array.extents)
    axis = 0
    leading = []
    while parts and isinstance(parts[0], Scalar):
        leading.append(normalised(e, parts.pop(0), extents[axis], axis))
        axis += 1
    if leading:
        pointer, extents = e.emit("elementPointer", pointer, *leading), extents[axis:]
    picked, new_axes, position = [], [], 0
    ranges: list[tuple[Value, Value, Value]] = []
    for part in parts:
        if isinstance(part, Static):
            new_axes.append(position)
            position += 1
            continue
        k = len(ranges)
        if isinstance(part, Scalar):
            ranges.append((normalised(e, part, extents[k], axis + k), i64(1), i64(1)))
            picked.append(k)
        else:
            ranges.append(_axis_range(e, part, pointer, extents[k], k))
            position += 1
    if any(r is not None for r in map(_partial, ranges)):
        pointer = e.emit("section", pointer, *(r[0] for r in ranges), *(r[1] for r in ranges), *(r[2] for r in ranges))
    lengths = [extents[k] if _partial(r) is None else r[1] for k, r in enumerate(ranges)]
    for k in reversed(picked):
        pointer = e.emit("squeezeShape", pointer, at=k)
        del lengths[k]
    for at in new_axes:
        pointer = e.emit("padShape", pointer, at=at)
        lengths.insert(at, i64(1))
    return make_array(e, pointer, lengths, array.copied)


class _Whole(tuple):
    """The range of an axis that is taken whole."""


def _partial(part: tuple[Value, Value, Value]) -> tuple[Value, Value, Value] | None:
    return None if isinstance(part, _Whole) else part


def _axis_range(e: Emitter, part: SliceKey, pointer: Value, extent: Value, axis: int) -> tuple[Value, Value, Value]:
    start, count, step = slice_range(e, part, extent)
    if integer(start) == 0 and integer(step) == 1 and e.facts.same(count, extent):
        static = pointer.type.shape[axis]  # type: ignore[attr-defined]
        # said with the base's own extent, from which the type rule sees that the axis is whole
        return _Whole((start, i64(static) if static is not None else e.pure("extent", pointer, at=axis), step))
    return start, count, step


def axes_taken(part: Any) -> int:
    """How many axes of the array a basic entry takes."""
    return 0 if isinstance(part, Static) else 1


def expanded(e: Emitter, parts: list[Any], rank: int, taken: Callable[[Any], int] = axes_taken) -> list[Any]:
    """The entries with `...` written out and missing trailing axes added."""
    used = sum(map(taken, parts))
    if used > rank:
        e.error(TypeMismatch, f"too many indices for array: array is {rank}-dimensional, but {used} were indexed")
    dots = [k for k, p in enumerate(parts) if isinstance(p, Static) and p.value is Ellipsis]
    if len(dots) > 1:
        e.error(TypeMismatch, "an index can only have a single ellipsis ('...')")
    whole = [SliceKey(None, None, None)] * (rank - used)
    if not dots:
        return [*parts, *whole]
    return [*parts[: dots[0]], *whole, *parts[dots[0] + 1 :]]
