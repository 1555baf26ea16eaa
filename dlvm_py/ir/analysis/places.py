"""Where a view looks into the memory that it is a view of, axis by axis, in terms of the program's integers.

    %v = section %a at (%k, 0) count (1, %n) step (1, 1)        base %a;  axis 0: %k, one index
    %p = elementPointer (squeezeShape %v at 0) at %j                      axis 1: %j, one index

An index is a *linear form*, a sum of literal multiples of values: what `add`, `subtract`, `negate` and `multiply` by a
literal make of them. What is more than that is a value like any other.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen, field
from dlvm_py.ir.builder import literal
from dlvm_py.ir.op import Kind
from dlvm_py.ir.types import I64, PointerType, TensorType
from dlvm_py.ir.value import Instruction, Value, integer

_DEPTH = 12
_INTEGER = TensorType((), I64)


class Linear(Frozen):
    """constant + the sum of factor * value."""

    constant: int
    terms: dict[Value, int] = field(default_factory=dict)

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """self + factor * other."""
        terms = dict(self.terms)
        for v, n in other.terms.items():
            terms[v] = terms.get(v, 0) + factor * n
        return Linear(self.constant + factor * other.constant, {v: n for v, n in terms.items() if n})

    def times(self, factor: int) -> Linear:
        """factor * self."""
        return Linear(0).plus(self, factor)


def linear(value: Value, depth: int = _DEPTH) -> Linear:
    """The linear form of an i64 scalar."""
    if (number := integer(value)) is not None:
        return Linear(number)
    if isinstance(value, Instruction) and value.type == _INTEGER and depth:
        match value.op.name:
            case "add" | "subtract":
                a, b = (linear(v, depth - 1) for v in value.operands)
                return a.plus(b, 1 if value.op.name == "add" else -1)
            case "negate":
                return linear(value.operands[0], depth - 1).times(-1)
            case "multiply":
                a, b = (linear(v, depth - 1) for v in value.operands)
                if not b.terms:
                    return a.times(b.constant)
                if not a.terms:
                    return b.times(a.constant)
    return Linear(0, {value: 1})


def section_parts(section: Instruction) -> tuple[list[Value], list[Value], list[Value]]:
    """The starts, counts and steps of a section, axis by axis."""
    numbers = section.operands[1:]
    rank = len(numbers) // 3
    return numbers[:rank], numbers[rank : 2 * rank], numbers[2 * rank :]


def at_most(length: Value, depth: int = 4) -> list[Linear]:
    """Numbers that a length does not exceed, or there is nothing so long: of a maximum with 0 what the other one is."""
    found = [linear(length)]
    if isinstance(length, Instruction) and depth and length.op.name in ("min", "max"):
        zero = Linear(0)
        for v in length.operands:
            if length.op.name == "min" or any(linear(o) == zero for o in length.operands if o is not v):
                found += at_most(v, depth - 1)
    return found


class Axis(Frozen):
    """Indices of one axis: start, start + step, ..., `count` of them (None: unknown). start None: any.

    length: how many, as a value, where the program says it (a section).
    """

    start: Linear | None = field(default_factory=lambda: Linear(0))
    count: int | None = None
    step: int = 1
    length: Value | None = None


ANY = Axis(None)


def tops(axis: Axis) -> list[Linear]:
    """Numbers that no index of an axis exceeds."""
    if axis.start is None:
        return []
    if axis.count is not None:
        return [axis.start.plus(Linear(max(axis.step, 0) * max(axis.count - 1, 0)))]
    if axis.length is None or axis.step != 1:
        return []
    return [axis.start.plus(most).plus(Linear(-1)) for most in at_most(axis.length)]


def bottoms(axis: Axis) -> list[Linear]:
    """Numbers that no index of an axis is below: of a start that is cut off at the end also what it was."""
    if axis.start is None or (axis.step < 1 and axis.count != 1):
        return []
    found = [axis.start]
    for v in axis.start.terms:
        if (
            axis.start != Linear(0, {v: 1})
            or not isinstance(v, Instruction)
            or v.op.name != "min"
            or axis.length is None
        ):
            continue
        ends = [most.plus(axis.start) for most in at_most(axis.length)]
        found += [linear(x) for x, end in (v.operands, v.operands[::-1]) if linear(end) in ends]
    return found


class Place(Frozen):
    """The indices that a view takes on each axis of its base: what it is made of by views, which is no view itself."""

    base: Value
    axes: tuple[Axis, ...]


def unit_axis(place: Place) -> Axis | None:
    """The axis along which elements of the base lie side by side; None where that or its beginning is not known."""
    assert isinstance(place.base.type, PointerType)
    layout = place.base.type.layout
    if layout not in ("C", "F") or not place.axes:
        return None
    axis = place.axes[-1 if layout == "C" else 0]
    return axis if axis.start is not None else None


def may_lie_side_by_side(pointer: Value, axis: int) -> bool:
    """Whether neighbours along an axis of an array may lie side by side, for all that its views say."""
    place, live = seen(pointer)
    type, along = place.base.type, live[axis]
    assert isinstance(type, PointerType)
    if along is None or type.layout == "S" or 1 in type.shape:
        return True
    return along == (0 if type.layout == "F" else type.rank - 1) and place.axes[along].step == 1


def place_of(pointer: Value) -> Place:
    """Where a pointer looks."""
    place, _ = seen(pointer)
    return place


def parts_of(pointer: Value) -> tuple[int, ...]:
    """Which halves of complex elements a pointer is about: the same memory at one place only where they agree."""
    found: list[int] = []
    while isinstance(pointer, Instruction) and pointer.op.kind is Kind.INDEX:
        if pointer.op.name == "partView":
            found.append(pointer.attrs["at"])
        pointer = pointer.operands[0]
    return tuple(found)


# which axis of the base an axis of the view runs along; None: along more than one, or none
_Live = list[int | None]


def seen(p: Value) -> tuple[Place, _Live]:
    """Where a pointer looks, and which axis of its base each of its own runs along."""
    assert isinstance(p.type, PointerType)
    if not isinstance(p, Instruction) or p.op.kind is not Kind.INDEX:
        rank = p.type.rank if isinstance(p.type.pointee, TensorType) else 0
        return Place(p, (Axis(),) * rank), list(range(rank))
    place, live = seen(p.operands[0])
    axes = list(place.axes)
    match p.op.name:
        case "pointerCast" | "partView":
            pass
        case "transpose":
            order = p.attrs.get("axes")
            live = live[::-1] if order is None else [live[k] for k in order]
        case "padShape":
            live.insert(p.attrs["at"], None)
        case "squeezeShape":
            del live[p.attrs["at"]]
        case "elementPointer" if not p.attrs.get("path"):
            for at, index in zip(live, p.operands[1:], strict=False):
                _narrow(axes, at, index, literal(1), 1)
            live = live[len(p.operands) - 1 :]
        case "section":
            for at, start, count, step in zip(live, *section_parts(p), strict=True):
                _narrow(axes, at, start, count, integer(step))
        case _:
            for at in live:
                if at is not None:
                    axes[at] = ANY
            live = [None] * p.type.rank
    return Place(place.base, tuple(axes)), live


def _narrow(axes: list[Axis], at: int | None, start: Value, length: Value, step: int | None) -> None:
    """Take a part of the indices of an axis."""
    if at is None:
        return
    old, count = axes[at], integer(length)
    if old.start is None or (step is None and count != 1):
        axes[at] = ANY
        return
    axes[at] = Axis(old.start.plus(linear(start), old.step), count, old.step * (step or 1), length)
