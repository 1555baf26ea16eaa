"""Places of arrays, about: which parts of an array are nearly all of it, or lie nearly where others do.

A number is a symbol (a value, or an extent that is not known) and a distance from it, as far as the program says:
`extent %u at 0`, less 2, is near the extent. Parts that are cut off where short arrays end count as they are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.ir.analysis.places import section_parts
from dlvm_py.ir.types import PointerType
from dlvm_py.ir.value import Instruction, Literal, Value

NEAR = 16  # elements

Number = tuple[object, int]  # something, and what is added to it


def is_section(pointer: Value) -> bool:
    """Whether a pointer is a section in steps of one."""
    if not isinstance(pointer, Instruction) or pointer.op.name != "section":
        return False
    return all(isinstance(v, Literal) and v.value == 1 for v in section_parts(pointer)[2])


def lies_near_all(section: Instruction, extent: Callable[[Value, int], Number] | None = None) -> bool:
    """Whether a section in steps of one is nearly all of what it is a section of. extent: who knows those of arrays."""
    extent = extent or extent_about
    base = section.operands[0]
    if not isinstance(base.type, PointerType) or not is_section(section):
        return False
    starts, counts, _ = section_parts(section)
    return all(
        are_near(about(start), (None, 0)) and are_near(about(count), extent(base, k))
        for k, (start, count) in enumerate(zip(starts, counts, strict=True))
    )


def are_near(a: Number, b: Number) -> bool:
    """Whether two numbers are within NEAR of each other."""
    return a[0] == b[0] and abs(a[1] - b[1]) <= NEAR


def is_near_all(start: Value, count: Value, extent: Value) -> bool:
    """Whether an interval of an axis is nearly all of it."""
    return are_near(about(start), (None, 0)) and are_near(about(count), about(extent))


def about(v: Value) -> Number:
    """A number as a symbol and a distance from it: what it is but for the shortest arrays, where places are cut off."""
    if isinstance(v, Literal):
        return None, int(v.value)
    if not isinstance(v, Instruction):
        return v, 0
    if v.op.name == "extent":
        return extent_about(v.operands[0], v.attrs["at"])
    if v.op.name in ("add", "subtract") and isinstance(v.operands[1], Literal):
        symbol, n = about(v.operands[0])
        return symbol, n + int(v.operands[1].value) * (1 if v.op.name == "add" else -1)
    if v.op.name in ("min", "max"):
        small = [n for n in map(about, v.operands) if n[0] is None and abs(n[1]) <= NEAR]
        large = [n for n in map(about, v.operands) if n[0] is not None]
        if len(small) == len(large) == 1:
            return small[0] if v.op.name == "min" else large[0]
    return v, 0


def extent_about(pointer: Value, axis: int) -> Number:
    """An extent, about."""
    known = pointer.type.shape[axis]  # type: ignore[attr-defined]
    if known is not None:
        return None, known
    if isinstance(pointer, Instruction) and pointer.op.name == "allocateHeap":
        return about(pointer.operands[axis])
    if isinstance(pointer, Instruction) and pointer.op.name == "section":
        return about(section_parts(pointer)[1][axis])
    return (pointer, axis), 0
