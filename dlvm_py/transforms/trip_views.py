"""Views of what all trips of a loop look at, made before the loop or before some of its trips.

    %c = section %b at (0, %j) count (%k, 1)              wide:   section %b at (0, %start) count (%k, %count)
    %d = section %b at (0, %j) count (%k, %n - %j)        window: section %b at (0, %start) count (%k, %n - %start)

A *wide* view has an axis more, along which a view moves by one element from trip to trip. A *window* holds the parts,
of different length, of all trips: each begins no earlier than the one before, and all end before the same place.
`Unfit` is raised where a view is none of these, or not the same in all trips.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir import Builder, Instruction, Kind, Literal, PointerType, Value, literal
from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.effects import is_pure, unchecked
from dlvm_py.ir.analysis.places import Linear, at_most, linear, section_parts
from dlvm_py.ir.types import is_scalar
from dlvm_py.ir.value import integer
from dlvm_py.transforms.loop_bounds import LoopBounds


class Unfit(Exception):
    """There is no such view."""


class Window(Frozen):
    """A window, the axis that its parts are of, and which part a trip has: values of the loop; None: all of it."""

    pointer: Value
    axis: int
    part: tuple[Value, Value] | None  # where it begins in memory, and its count
    begin: Value | None = None  # where the window begins in memory


class TripViews:
    """Views of `count` trips from the one on in which the counter is `start`, built by `b`.

    What is the same in all trips is built by `bounds`, before the loop.
    """

    def __init__(self, b: Builder, bounds: LoopBounds, counted: CountedLoop, start: Value, count: Value) -> None:
        self.b, self.bounds, self.counted, self.loop = b, bounds, counted, counted.loop
        self.start, self.count = start, count
        self._first: dict[Value, Value] = {}

    def wide(self, p: Value) -> tuple[Value, int | None]:
        """A pointer with one axis more, and that axis; for a pointer that is the same in all trips that, and None."""
        if is_outside(p, self.loop):
            return p, None
        if not isinstance(p, Instruction) or p.op.kind is not Kind.INDEX:
            raise Unfit
        base, axis = self.wide(p.operands[0])
        match p.op.name:
            case "section":
                return self._section(p, base, axis)
            case "elementPointer" if not p.attrs.get("path"):
                return self._element(p, base, axis)
            case "squeezeShape":
                at = p.attrs["at"]
                if axis is None:
                    return self.fixed("squeezeShape", base, at=at), None
                before = at < axis
                return self.b.emit("squeezeShape", base, at=at if before else at + 1), axis - before
            case "padShape":
                at = p.attrs["at"]
                if axis is None:
                    return self.fixed("padShape", base, at=at), None
                before = at <= axis
                return self.b.emit("padShape", base, at=at if before else at + 1), axis + before
            case "transpose" if axis is None:
                return self.fixed("transpose", base, **p.attrs), None
        raise Unfit

    def window(self, p: Value, axis: int) -> Window:
        """The window of a matrix whose parts, if they differ from trip to trip, do so along `axis`."""
        if isinstance(p, Instruction) and p.op.name == "transpose" and not is_outside(p, self.loop):
            if p.attrs.get("axes", (1, 0)) != (1, 0):
                raise Unfit
            found = self.window(p.operands[0], 1 - axis)
            return Window(self.b.emit("transpose", found.pointer), axis, found.part, found.begin)
        try:
            same, moves = self.wide(p)
        except Unfit:
            moves = 0
        if moves is None:
            return Window(same, axis, None)
        if not isinstance(p, Instruction) or p.op.name != "section":
            raise Unfit
        base, moves = self.wide(p.operands[0])
        starts, counts, steps = section_parts(p)
        begin, part = starts[axis], (starts[axis], counts[axis])
        if moves is not None or integer(steps[axis]) != 1 or not self.rises(begin):
            raise Unfit
        starts[axis] = self.at_start(begin)
        end = self.bounds.emit("min", self._common_end(*part), self.bounds.emit("extent", base, at=axis))
        counts[axis] = self.b.emit("max", self.b.emit("subtract", end, starts[axis]), literal(0))
        operands = [v if k == axis else self.same(v) for row in (starts, counts, steps) for k, v in enumerate(row)]
        return Window(self.b.emit("section", base, *operands), axis, part, starts[axis])

    def at_start(self, v: Value) -> Value:
        """A scalar of the loop as it is in the first of the trips."""
        if v is self.counted.counter:
            return self.start
        again = self.bounds.again(v)
        if again is not None:
            return again
        if v not in self._first:
            if not isinstance(v, Instruction) or not is_scalar(v.type) or not v.op.is_pure:
                raise Unfit
            # that nothing overflows in any trip is asked before the loop
            attrs = unchecked(v)
            if is_pure(v) or self.bounds.of(v) is not None:
                self._first[v] = self.b.emit(v.op, *map(self.at_start, v.operands), **attrs)
        if v not in self._first:
            raise Unfit
        return self._first[v]

    def same(self, v: Value) -> Value:
        """A scalar that is the same in all trips, before the loop."""
        found = self.bounds.again(v)
        if found is None:
            raise Unfit
        return found

    def fixed(self, op: str, *operands: Value, **attrs: object) -> Value:
        """A view that is the same in all trips."""
        return self.bounds.emit(op, *operands, **attrs)

    def length(self, v: Value) -> Value:
        """How many indices a view takes on an axis that no trip moves along."""
        return self.same(v)

    def parts(self, section: Instruction) -> tuple[list[Value], list[Value], list[Value]]:
        """The starts, counts and steps of a section."""
        return section_parts(section)

    # -- wide views --------------------------------------------------------------------------------------

    def _section(self, p: Instruction, base: Value, axis: int | None) -> tuple[Value, int | None]:
        starts, counts, steps = self.parts(p)
        moving = [k for k, v in enumerate(starts) if self._steps_by_one(v)]
        if not moving:
            rows = [[*map(self.same, starts)], [*map(self.length, counts)], [*map(self.same, steps)]]
            if axis is None:
                return self.fixed("section", base, *rows[0], *rows[1], *rows[2]), None
            for row, v in zip(rows, (literal(0), self.count, literal(1)), strict=True):
                row.insert(axis, v)
            return self.b.emit("section", base, *rows[0], *rows[1], *rows[2]), axis
        (at, *more) = moving
        if more or axis is not None or integer(counts[at]) != 1:
            raise Unfit
        each = ((self.same, starts), (self.length, counts), (self.same, steps))
        rows = [[ask(v) if k != at else v for k, v in enumerate(row)] for ask, row in each]
        rows[0][at], rows[1][at], rows[2][at] = self.at_start(starts[at]), self.count, literal(1)
        wide = self.b.emit("section", base, *rows[0], *rows[1], *rows[2])
        return self.b.emit("padShape", wide, at=at + 1), at

    def _element(self, p: Instruction, base: Value, axis: int | None) -> tuple[Value, int | None]:
        moving = [k for k, v in enumerate(p.operands[1:]) if self._steps_by_one(v)]
        if axis is None and not moving:
            return self.fixed("elementPointer", base, *map(self.same, p.operands[1:])), None
        if len(moving) + (axis is not None) != 1:
            raise Unfit
        emit = self.fixed if axis is None else self.b.emit
        indices = [v if k in moving else self.same(v) for k, v in enumerate(p.operands[1:])]
        if axis is None:
            (axis,) = moving
            indices[axis] = self.at_start(indices[axis])
        elif axis < len(indices):
            indices.insert(axis, literal(0))
        assert isinstance(base.type, PointerType)
        rest = range(len(indices), base.type.rank)
        starts = [*indices, *(literal(0) for _ in rest)]
        counts = [literal(1) for _ in indices] + [emit("extent", base, at=k) for k in rest]
        if axis < len(indices):
            counts[axis] = self.count
        wide = self.b.emit("section", base, *starts, *counts, *(literal(1) for _ in starts))
        for at in reversed([k for k in range(len(indices)) if k != axis]):
            wide = self.b.emit("squeezeShape", wide, at=at)
        return wide, axis - sum(k < axis for k in range(len(indices)))

    def _steps_by_one(self, v: Value) -> bool:
        """Whether an index goes up by 1 from trip to trip; `Unfit` for others that change."""
        form = linear(v)
        by = form.terms.get(self.counted.counter, 0)
        if by not in (0, 1) or any(self.bounds.again(x) is None for x in form.terms if x is not self.counted.counter):
            raise Unfit
        return by == 1

    # -- windows -----------------------------------------------------------------------------------------

    def rises(self, v: Value) -> bool:
        """Whether an integer is, in each trip, at least what it was in the trip before."""
        if v is self.counted.counter or self.bounds.again(v) is not None:
            return True
        if not isinstance(v, Instruction) or self.bounds.of(v) is None:  # else it might wrap
            return False
        if v.op.name == "subtract":
            return self.rises(v.operands[0]) and self.bounds.again(v.operands[1]) is not None
        return v.op.name in ("add", "min", "max") and all(map(self.rises, v.operands))

    def _common_end(self, begin: Value, count: Value) -> Value:
        """A place that no part goes beyond, the same in all trips."""
        for most in at_most(count):
            end = linear(begin).plus(most)
            if all(self.bounds.again(v) is not None for v in end.terms):
                return self._computed(end)
        raise Unfit

    def _computed(self, form: Linear) -> Value:
        total: Value = literal(form.constant)
        for v, n in form.terms.items():
            term = self.same(v)
            if abs(n) != 1:
                term = self.bounds.emit("multiply", term, literal(abs(n)))
            if isinstance(total, Literal) and total.value == 0 and n > 0:
                total = term
            else:
                total = self.bounds.emit("add" if n > 0 else "subtract", total, term)
        return total
