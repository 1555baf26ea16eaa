"""How far two trips of a loop must be apart in the loop inside of them: dependence distances of a nest of two loops.

    'rows(%i)                           the row %i + 1 reads at (%i, %k + 2), its trip %k, what the row %i writes there
    'columns(%k)                        in its trip %k + 1: one trip ahead. So the rows may run side by side where each
        load (%a at %i, %k + 2)         is two columns behind the row before it: `skew` 2
        load (%a at %i + 1, %k)
        store .. (%a at %i + 1, %k + 1) the row reads in its trip %k what its trip %k - 1 has written: `handed_on`

Row i in column c comes before row i + d in column c', for d > 0, whatever the columns are. If a row is `skew` columns
behind the one before it, then two such trips change their order, or are at the same time, only where c is not less than
c' + skew * d: no such two may meet in memory. Indices are linear forms (places.py) in which both counters have
the same factors in the two accesses; what else is in them is the same in all rows, or cancels out.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm_py.frozen import Frozen
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.places import Axis, Linear, Place, linear, parts_of, place_of
from dlvm_py.ir.types import PointerType
from dlvm_py.ir.value import Instruction, Literal, Value, Variable

# in `meta` of a function in which rows run side by side that read what others wrote a few steps before: a store has not
# reached the cache then, and a load of two neighbours that were stored one by one has to wait until both have
WAVEFRONT = "wavefront"
# factors from here on may take an index around, past 2^64
_FAR = 2**31


class _Any:
    """Any number of columns."""


ANY = _Any()


class Access(Frozen):
    """A place that is read or written, of one element; moves: once in every trip of the inner loop.

    parts: which halves of complex elements are meant: two accesses of one place are of the same memory if they agree.
    """

    place: Place
    writes: bool
    moves: bool
    parts: tuple[int, ...]


class RowDistances:
    """The accesses of rows (`outer`) that consist of columns (`inner`), all of them of one element."""

    def __init__(self, outer: CountedLoop, inner: CountedLoop, alias: AliasAnalysis) -> None:
        self.outer, self.inner, self.alias = outer, inner, alias

    def of(self, i: Instruction) -> Access | None:
        """What a load or a store does; None where it is not known to what memory."""
        place = self._place(i.operands[-1])
        moves = i.block in self.inner.loop.blocks
        return Access(place, i.op.name == "store", moves, parts_of(i.operands[-1])) if place is not None else None

    def of_element(self, pointer: Value, writes: bool) -> Access | None:
        """The element of a row that has the number of the inner loop's trip; None where that is not known."""
        place = self._place(pointer)
        rows = [a for a in place.axes if a.count != 1] if place is not None else []
        if place is None or len(rows) != 1 or rows[0].start is None or self.inner.step != 1:
            return None
        trip = Linear(0, {self.inner.counter: 1}).plus(linear(self.inner.first), -1)
        start = rows[0].start.plus(trip, rows[0].step)
        axes = tuple(Axis(start, 1) if a is rows[0] else a for a in place.axes)
        return Access(Place(place.base, axes), writes, True, parts_of(pointer))

    def _place(self, pointer: Value) -> Place | None:
        place = place_of(pointer)
        base = place.base
        if not isinstance(base.type, PointerType) or base.type.layout == "S" or isinstance(base, Literal | Variable):
            return None
        return place if is_outside(base, self.outer.loop) else None

    def skew(self, accesses: list[Access], rows: int) -> int | None:
        """By how many columns each of so many rows must be behind the one before it; None where none will do."""
        least = 0
        for a in accesses:
            for b in accesses:
                if a.writes or b.writes:
                    for d in range(1, rows):
                        ahead = self._ahead(a, b, d)
                        if ahead is ANY:
                            return None
                        if isinstance(ahead, int) and ahead >= 0:
                            least = max(least, ahead // d + 1)
        return least

    def handed_on(self, write: Access, read: Access) -> int | None:
        """How many trips later a row reads what it has written, in all of them; None: not known, or never."""
        if write.place.base is not read.place.base or write.parts != read.parts:
            return None
        if any(self._gap(x, y, 0) is None for x, y in zip(write.place.axes, read.place.axes, strict=True)):
            return None
        ahead = self._ahead(write, read, 0)
        return -ahead if isinstance(ahead, int) else None

    def may_meet(self, write: Access, read: Access, trips: Iterable[int]) -> bool:
        """Whether a row may read so many trips later what it has written."""
        ahead = self._ahead(write, read, 0)
        return ahead is ANY or any(ahead == -n for n in trips)

    def may_be_ahead(self, a: Access, b: Access) -> bool:
        """Whether `a` may meet `b` in an earlier trip of the same row."""
        ahead = self._ahead(a, b, 0)
        return ahead is ANY or (isinstance(ahead, int) and ahead > 0)

    def _ahead(self, a: Access, b: Access, d: int) -> int | _Any | None:
        """How many trips of the inner loop `a` is ahead of `b`, `d` rows later, where they meet; None: they do not."""
        if a.place.base is not b.place.base:
            return ANY if self.alias.may_overlap(a.place.base, b.place.base) else None
        found: int | _Any = ANY
        for x, y in zip(a.place.axes, b.place.axes, strict=True):
            apart = self._gap(x, y, d)
            if apart is None:
                continue
            gap, column = apart
            if not column:
                if gap:
                    return None
            elif gap % column:
                return None
            elif a.moves and b.moves:
                if isinstance(found, int) and found != gap // column:
                    return None
                found = gap // column
        return found

    def _gap(self, x: Axis, y: Axis, d: int) -> tuple[int, int] | None:
        """How far the index y, d rows later, is behind x, in one column; how far apart columns are. None: not known."""
        if x.start is None or y.start is None or x.count != 1 or y.count != 1:
            return None
        apart = y.start.plus(x.start, -1)
        row, column = (y.start.terms.get(c.counter, 0) * c.step for c in (self.outer, self.inner))
        counters = (self.outer.counter, self.inner.counter)
        if apart.terms or any(abs(n) >= _FAR for n in y.start.terms.values()):
            return None
        if any(v not in counters and not is_outside(v, self.outer.loop) for v in y.start.terms):
            return None
        return apart.constant + row * d, column
