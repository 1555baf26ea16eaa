"""Slices: pointers to base[first:last], and from where to where they go where they lie in the array as they stand."""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.frozen import Frozen
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.nearness import is_section
from dlvm_py.ir.value import Instruction, Value, integer, is_same_number


class Slice(Frozen, eq=False):
    """A section base[first:last] in steps of one, as Python cuts it: at the ends of the array, of `size` elements.

    count: how many elements it has. counts_back: ends below 0 count from the end of the array.
    """

    base: Value
    first: Value
    last: Value
    size: Value
    count: Value
    counts_back: bool


def slice_of(pointer: Value) -> Slice | None:
    """The slice that a pointer is."""
    if not isinstance(pointer, Instruction) or not is_section(pointer) or len(pointer.operands) != 4:
        return None
    base, start, count, _ = pointer.operands
    size = known_extent(base, 0)
    if not isinstance(size, Value):
        size = next((u for u in _sizes(start) if _is_extent(u, size)), start)
    # max(last - first, 0)
    lengths = _parts(count, "max", 0)
    ends = lengths.operands if isinstance(lengths, Instruction) and lengths.op.name == "subtract" else None
    if ends is None or ends[1] is not start:
        return None
    first, last = _cut(start, size), _cut(ends[0], size)
    if first is None or last is None:
        return None
    return Slice(base, first[0], last[0], size, count, first[1] or last[1])


def _sizes(start: Value) -> Sequence[Value]:
    return start.operands if isinstance(start, Instruction) and start.op.name == "min" else ()


def _is_extent(v: Value, of: tuple[Value, int]) -> bool:
    return isinstance(v, Instruction) and v.op.name == "extent" and (v.operands[0], v.attrs["at"]) == of


def _parts(v: Value, op: str, number: int) -> Value | None:
    """What is made with a number by an operation."""
    if not isinstance(v, Instruction) or v.op.name != op:
        return None
    return next((a for a, b in (v.operands, v.operands[::-1]) if integer(b) == number), None)


def _cut(v: Value, size: Value) -> tuple[Value, bool] | None:
    """The end of a slice that is cut to an array's: min(x, size), where x may count from the array's end."""
    if not isinstance(v, Instruction) or v.op.name != "min" or not any(is_same_number(o, size) for o in v.operands):
        return None
    end = next((o for o in v.operands if not is_same_number(o, size)), size)
    back = _parts(end, "max", 0)
    if back is None:
        return end, False
    if not isinstance(back, Instruction) or back.op.name != "select":
        return None
    _, x, below = back.operands
    if not isinstance(below, Instruction) or below.op.name != "lessThan":
        return None
    return (x, True) if below.operands[0] is x and integer(below.operands[1]) == 0 else None
