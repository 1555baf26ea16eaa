"""The extents of an array as i64 values, from the structure that gave it its shape.

    %y = multiply (load %p: *<_ x 3 x f64>), 2.0      extents_of(%y)  →  extent %p at 0, literal 3
    %q = section %p at (..) count (%n, 3) step (..)   extents_of(%q)  →  %n, literal 3

The walk follows one operand a step and stops at a literal, at an operand that states the extent, or at a
value that only knows it at run time (a parameter, a block argument, a pop, an apply): there an `extent` is
built. What is returned dominates every place that `value` dominates. Cost: the depth of the expression, of which who
asks for many values that are made of each other, and changes none of them meanwhile, lets each step be taken once
(`found`).
"""

from __future__ import annotations

from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.op import Kind
from dlvm_py.ir.types import PointerType, TensorType
from dlvm_py.ir.value import Instruction, Literal, Value

Known = Value | tuple[Value, int]  # a value that is there, or what alone knows it, and the axis of that
Found = dict[tuple[Value, int], Known]


def extents_of(builder: Builder, value: Value, found: Found | None = None) -> list[Value]:
    """One i64 value an axis of `value`, a tensor or a pointer; `extent` instructions where needed."""
    return [extent_at(builder, value, axis, found) for axis in range(len(_shape(value)))]


def extent_at(builder: Builder, value: Value, axis: int, found: Found | None = None) -> Value:
    """The extent of `value` on `axis` as an i64 value; at most one `extent` is built."""
    known = known_extent(value, axis, found)
    return known if isinstance(known, Value) else builder.emit("extent", known[0], at=known[1])


def known_extent(value: Value, axis: int, found: Found | None = None) -> Known:
    """The extent as a value that is there, or what alone knows it. found: the answers so far."""
    if found is None:
        found = {}
    way: list[tuple[Value, int]] = []
    at: Known = (value, axis)
    while isinstance(at, tuple):
        if at in found:
            at = found[at]
            break
        way.append(at)
        following = _step(*at)
        if following is None:
            break
        at = following
    found.update(dict.fromkeys(way, at))
    return at


def _step(value: Value, axis: int) -> Known | None:
    """Where an extent comes from; None where `value` alone knows it."""
    known = _shape(value)[axis]
    if known is not None:
        return literal(known)
    if isinstance(value, Literal):  # undefined or null: no elements
        return literal(0)
    return _source(value, axis) if isinstance(value, Instruction) else None


def _shape(value: Value) -> tuple[int | None, ...]:
    assert isinstance(value.type, TensorType | PointerType), value
    return value.type.shape


def _source(i: Instruction, axis: int) -> Value | tuple[Value, int] | None:
    """Where an unknown extent of `i` comes from: an i64 operand, an axis of an operand, or None."""
    o = i.operands
    if i.op.kind is Kind.ELEMENTWISE:
        # a result extent is unknown only where an operand's is; the others are equal or 1
        return next((v, axis) for v in o if _shape(v) and _shape(v)[axis] is None)
    if "extents" in i.op.properties:
        return o[axis - len(_shape(i))]
    match i.op.name:
        case "load" | "pointerCast":
            return o[0], axis
        case "allocateHeap":
            return o[axis]
        case "windows" | "overlapAdd":
            return o[1 + axis]
        case "embed":
            return o[2 + axis]
        case "random":
            return o[axis]
        case "gather":
            rank = len(_shape(i)) - len(_shape(o[0])) + len(o) - 1  # of the indices together
            if axis >= rank:
                return o[0], axis - rank + len(o) - 1
            return next((v, axis) for v in o[1:] if _shape(v) and _shape(v)[axis] is None)
        case "scatterAdd":
            count = len(o) // 2  # of the indices
            return o[1 + count + axis] if axis < count else (o[0], axis + len(_shape(o[0])) - len(_shape(i)))
        case "nonzero":
            return o[1]
        case "searchSorted":
            return o[1], axis
        case "sort" | "argsort" | "slice" | "reverse" | "scan" | "recurrence" | "fourier":
            return o[0], axis
        case "iota":
            return o[0]
        case "broadcast" | "unbroadcast" | "shapeCast":
            return o[1 + axis]
        case "section":
            return o[1 + len(_shape(o[0])) + axis]
        case "elementPointer":
            return o[0], axis + len(o) - 1
        case "transpose":
            axes = i.attrs.get("axes")
            return o[0], len(_shape(o[0])) - 1 - axis if axes is None else axes[axis]
        case "padShape":
            return o[0], axis if axis < i.attrs["at"] else axis - 1
        case "squeezeShape":
            return o[0], axis if axis < i.attrs["at"] else axis + 1
        case "reduce":
            return o[0], [k for k in range(len(_shape(o[0]))) if k not in i.attrs["axes"]][axis]
        case "solve":
            return o[1], axis
        case "cholesky" | "choleskyAdjoint":
            return o[0], axis
        case "pinv":
            return o[0], 1 - axis
        case "dot":
            ours = len(_shape(o[0])) - 1
            if ours > 1:  # many matrices
                return (o[1], axis) if axis == ours else (o[0], axis)
            return (o[0], axis) if axis < ours else (o[1], axis - ours + 1)
    return None
