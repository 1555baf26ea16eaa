"""Common terms: what the sums of products of a vector and a matrix have in common, where they are of different length.

    'body():  %v = section %a at (%k + 1, %k) count (%n - %k - 1, 1)       of trips %start to %last:
              %m = section %b at (%k + 1, 0) count (%n - %k - 1, %w)        %rows = section %a at (%last + 1, %start)
              %y = dot (load (squeezeShape %v at 1)), (load %m)      =>       count (%n - %last - 1, %last - %start + 1)
                                                                            %m = section %b at (%last + 1, 0)
                                                                              count (%n - %last - 1, %w)

Both begin later from trip to trip, and end where they ended: in common are the terms of the last trip, and a trip has
others before them. Or both end later, and begin where they began: in common are the terms of the first trip, and a trip
has others behind them. These are the rows of a triangle, of which what is in common is a rectangle.
"""

from __future__ import annotations

from dlvm_py.ir import Builder, Instruction, Kind, Value, literal
from dlvm_py.ir.analysis.counted_loops import CountedLoop
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.places import linear, section_parts
from dlvm_py.ir.value import integer
from dlvm_py.transforms.loop_bounds import LoopBounds
from dlvm_py.transforms.trip_views import TripViews, Unfit


class CommonTerms(TripViews):
    """Views as `TripViews`, of the terms that all trips from `start` on have, built by `b` alone.

    at_end: whether they are the last ones of a trip; None until a view has been made whose length changes.
    """

    def __init__(self, b: Builder, bounds: LoopBounds, counted: CountedLoop, start: Value, count: Value) -> None:
        super().__init__(b, bounds, counted, start, count)
        past = b.emit("add", start, count)
        self.last = TripViews(b, bounds, counted, b.emit("subtract", past, literal(1)), literal(1))
        self.at_end: bool | None = None
        self._cut: set[Instruction] = set()  # sections whose lengths change

    def fixed(self, op: str, *operands: Value, **attrs: object) -> Value:
        """A view that is the same in all trips: of which terms, the strip says."""
        return self.b.emit(op, *operands, **attrs)

    def parts(self, section: Instruction) -> tuple[list[Value], list[Value], list[Value]]:
        """The starts, counts and steps of what all trips have of a section."""
        starts, counts, steps = section_parts(section)
        starts, counts = list(starts), list(counts)
        for k, (start, count) in enumerate(zip(starts, counts, strict=True)):
            if self.bounds.again(count) is not None:
                continue
            at_end = self.bounds.again(start) is None
            if integer(steps[k]) != 1 or self.at_end is (not at_end) or self._is_of_cut(section):
                raise Unfit
            if at_end and self.rises(start) and self._ends_the_same(start, count):
                starts[k], counts[k] = self.last.at_start(start), self.last.at_start(count)
            elif not at_end and self.rises(count):
                counts[k] = self.at_start(count)
            else:
                raise Unfit
            self.at_end = at_end
            self._cut.add(section)
        return starts, counts, steps

    def _is_of_cut(self, section: Instruction) -> bool:
        """Whether it is a part of one whose length changes as well: where it ends is said of what moves then.

        Or whether two of its own lengths change.
        """
        p: Value = section
        while isinstance(p, Instruction) and p.op.kind is Kind.INDEX and p not in self._cut:
            p = p.operands[0]
        return p in self._cut

    def _ends_the_same(self, start: Value, count: Value) -> bool:
        """Whether an axis ends at the same place in all trips, and begins no later than there."""
        end = linear(start).plus(linear(count))
        if all(self.bounds.again(v) is not None for v in end.terms):
            return True
        if not isinstance(count, Instruction) or count.op.name != "max" or integer(count.operands[1]) != 0:
            return False
        length = count.operands[0]
        if not isinstance(length, Instruction) or length.op.name != "subtract" or length.operands[1] is not start:
            return False
        past = length.operands[0]  # where what is not negative ends
        is_before = isinstance(start, Instruction) and start.op.name == "min" and past in start.operands
        return is_before and self.bounds.again(past) is not None

    def others(self, b: Builder, loads: list[Instruction], axes: list[int], common: Value) -> list[Value]:
        """What a trip loads besides the `common` terms, which lie along one of the `axes` of each load."""
        found: list[Value] = []
        for load, axis in zip(loads, axes, strict=True):
            p = load.operands[0]
            rank = p.type.rank  # type: ignore[attr-defined]
            length = known_extent(load, axis)
            length = length if isinstance(length, Value) else b.emit("extent", p, at=axis)
            starts: list[Value] = [literal(0)] * rank
            counts = [b.emit("subtract", length, common) if k == axis else _extent(b, p, k) for k in range(rank)]
            if not self.at_end:
                starts[axis] = common
            found.append(b.emit("load", b.emit("section", p, *starts, *counts, *([literal(1)] * rank))))
        return found


def _extent(b: Builder, p: Value, axis: int) -> Value:
    known = p.type.shape[axis]  # type: ignore[attr-defined]
    return b.emit("extent", p, at=axis) if known is None else literal(known)
