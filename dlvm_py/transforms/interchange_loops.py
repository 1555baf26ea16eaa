"""Loop interchange: loops over the columns of arrays run along rows, strip by strip.

    'loop(%j: i64):                                     conditional %fine then 'fast() else 'loop(0)
        lessThan %j, %m ...                         'fast():
    'inner(%i: i64):                                'strips(%k: i64):  from %b = 2048 * %k on, %c = min 2048, (%m - %b)
        lessThan %i, %n ...                         'rows(%i: i64):
    'body():                                            lessThan %i, %n ...
        check (lessThan %j, %size) else ..      =>  'columns(%e: i64):
        %x = load (%a at %i, %j)                        lessThan %e, %c ...
        %s = load (%r at %j)                        'column():
        store (add %s, %x) to (%r at %j)                %j = add %b, %e
        branch 'inner(%i + 1)                           (as before, without the check)
                                                        branch 'columns(%e + 1)

Down a column each element is in another line of the cache, and nothing is a vector. So the loop whose counter moves
along what lies side by side becomes the innermost one (distribute_loops.py), which is right if its trips are
independent (ir/analysis/independence.py): what one trip does stays in order, the sum of a column is added up from its
first row on, and every element gets the bits that it had. In a reverse sweep, whose head says that its sums are
`unordered`, trips may add to the same elements, the adjoint of what several columns read, and to a number that the loop
carries: each column adds up its own, and a strip those of its columns.

Cost: accesses of the innermost loops, a line for one that goes across, an element for one that goes along, nothing for
one that stays. Strips keep what goes from row to row in the cache, and are what threads share; if the rows are
independent as well, and nothing is kept for them, there are none, and threads share rows.

Where some go across either way (the transpose of an array), strips are narrow: the lines that are read across are still
in the cache when the next row comes to use their neighbours. What is written goes along. If it does so as the loops
are, the rows become the strips, and the columns the rows, for which both loops must have independent trips. Loops that
write across either way stay as they are.

What a trip may raise is asked before the loop (loop_bounds.py), and also whether there are columns enough; else the
loop runs as it was. Stage compute, before checks become limits (limit_counts.py). What comes out has nothing to gain.
"""

from __future__ import annotations

from dlvm_py.decisions import Decisions
from dlvm_py.ir import Block, Builder, Function, Instruction, Literal, TensorType, Value, literal
from dlvm_py.ir.analysis.alias import SHARED
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, counted_loop
from dlvm_py.ir.analysis.independence import Independence, Trips
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.places import Linear, place_of, unit_axis
from dlvm_py.ir.analysis.sums import accumulations, sums
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.types import is_array
from dlvm_py.ir.value import integer
from dlvm_py.transforms.distribute_loops import Distribution, Nest, Unfit, exchanged, nest_of, strips
from dlvm_py.transforms.loop_bounds import LoopBounds
from dlvm_py.transforms.loop_versions import enter_by, join_behind, used_behind

WIDE, NARROW = 2048, 64  # trips of a strip
_LEAST = 16  # columns
_LINES = 1536  # that are read across, from which on narrow strips pay: a page each
_LARGE = 200  # instructions of a nest
_LINE = 8  # what an access across costs


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Interchange the loops of `function` that run down columns; whether there were any."""
    if function.meta.get(SHARED):
        return False
    changed, done = False, set[Block]()
    for header in _candidates(function):
        if header in done:
            continue
        of = Independence(function, noalias_params)
        (loop,) = (loop for loop in of.forest.loops if loop.header is header)
        found = _interchange(function, of, loop, decisions or Decisions())
        if found:
            changed = True
            done |= {other.header for other in of.forest.loops if other.header in loop.blocks}
    return changed


def _candidates(function: Function) -> list[Block]:
    """The heads of loops that would gain by being the innermost one, those that would gain the most first."""
    forest = LoopForest(function)
    inner = [loop for loop in forest.loops if loop.parent is not None and not loop.children]
    if not inner:
        return []
    edges = predecessors(function)
    found: dict[Block, int] = {}
    for loop in inner:
        count = counted_loop(loop, edges)
        outer = loop.parent
        while count is not None and outer is not None:
            around = counted_loop(outer, edges)
            gain = _gain(loop, count, around) if around is not None else None
            if gain is not None:
                found[outer.header] = found.get(outer.header, 0) + gain
            outer = outer.parent
    return sorted((header for header, gain in found.items() if gain >= 0), key=lambda header: -found[header])


def _gain(loop: Loop, now: CountedLoop, other: CountedLoop) -> int | None:
    """By how much accesses would be cheaper along another loop; None where none goes along it that goes across now."""
    if _is_short(now) or _is_short(other):
        return None
    pairs = _costs(loop, now, other)
    if (_LINE, 1) not in pairs:
        return None
    gain = sum(a - b for a, b in pairs)
    return max(gain, 0) if (1, _LINE) in pairs else gain


def _is_short(counted: CountedLoop) -> bool:
    low, high = map(integer, counted.ends)
    return low is not None and high is not None and high - low < _LEAST


def _costs(loop: Loop, now: CountedLoop, other: CountedLoop, names: tuple[str, ...] = ("load", "store")) -> list:
    """What accesses in a loop without others in it cost, (as it is, along another one)."""
    found = []
    for block in loop.ordered:
        for i in block.instructions:
            pointer = i.operands[-1] if i.op.name in names else None
            if pointer is not None and not is_array(pointer.type.pointee) and place_of(pointer).axes:  # type: ignore[attr-defined]
                found.append((_cost(pointer, now), _cost(pointer, other)))
    return found


def _cost(pointer: Value, counted: CountedLoop) -> int:
    """What an access costs, in elements that are moved, if the innermost loop counts so."""
    place = place_of(pointer)
    along = unit_axis(place)
    moving = [axis for axis in place.axes if axis.start is None or counted.counter in axis.start.terms]
    if not moving:
        return 0
    if along is None or moving != [along]:
        return _LINE
    assert isinstance(along.start, Linear)
    return min(_LINE, abs(along.start.terms[counted.counter]))


def _interchange(function: Function, of: Independence, loop: Loop, decisions: Decisions) -> bool:
    counted = of.counted[loop.header]
    size = sum(len(b.instructions) for b in loop.ordered)
    if counted is None or size > _LARGE:
        return False
    users = uses(function)
    is_unordered = loop.header.instructions[-1].attrs.get("unordered", False)
    found = sums(loop, users, of.edges) if is_unordered else {}
    totals = [a for a, total in found.items() if total.dtype.is_float]
    if len(loop.header.args) != 1 + len(totals) or any(v not in totals for v in used_behind(function, loop)):
        return False
    if any(isinstance(i.type, TensorType) and i.type.rank for b in loop.ordered for i in b.instructions):
        return False
    added = accumulations(loop, users, of.alias) if is_unordered else set[Instruction]()
    trips = of.of(loop, sums=set(totals), accumulations=added)
    if not trips.independent:
        return False
    try:
        nest = nest_of(loop, of.counted, of.edges)
        innermost = [n for n in nest.nests() if not n.counted.loop.children]
        across, narrow = _crossing(nest)
        if across:
            nest = exchanged(nest)
            if not of.of(nest.counted.loop).independent:
                return False
        distribution = Distribution(function, nest, loop, totals)
    except Unfit:
        return False
    wide = decisions.take("interchange_loops.columns", WIDE, (512, 0))
    if not wide:
        return False
    width: int | None = NARROW if narrow else wide
    if not narrow and not distribution.carries and _has_independent_rows(of, nest):
        width = None
    return _Interchange(function, of, trips, distribution, width, innermost).make()


def _crossing(nest: Nest) -> tuple[bool, bool]:
    """Whether what goes along the innermost loops is to stay so, and whether something goes across either way."""
    innermost = [n.counted for n in nest.nests() if not n.counted.loop.children]
    pairs = [pair for now in innermost for pair in _costs(now.loop, now, nest.counted)]
    stores = [pair for now in innermost for pair in _costs(now.loop, now, nest.counted, ("store",))]
    if (1, _LINE) not in pairs:
        return False, any(other == _LINE for _, other in pairs)
    if ((1, _LINE) in stores) is not ((_LINE, 1) in stores):
        return (1, _LINE) in stores, True
    if sum(a - b for a, b in pairs) <= 0:
        raise Unfit  # what is written across either way costs as much either way
    return False, True


def _has_independent_rows(of: Independence, nest: Nest) -> bool:
    rows = [part.counted.loop for part in nest.parts if isinstance(part, Nest)]
    return len(rows) == 1 and of.of(rows[0]).independent


class _Interchange:
    """The making of the second version of one loop."""

    def __init__(
        self,
        function: Function,
        of: Independence,
        trips: Trips,
        distribution: Distribution,
        width: int | None,
        across: list[Nest],
    ) -> None:
        assert trips.counted is not None
        self.function, self.trips, self.counted, self.loop = function, trips, trips.counted, trips.loop
        self.distribution, self.width, self.across = distribution, width, across
        self.gate = Block("gate")
        self.loc = self.loop.header.instructions[-1].loc
        builder = Builder(function, self.gate)
        builder.loc = self.loc
        self.bounds = LoopBounds(builder, of, self.loop)

    def make(self) -> bool:
        """Put the second version beside the loop, if conditions can say that it may run."""
        if not all(map(self.bounds.never_fails, self.trips.traps)):
            return False
        columns = self.distribution.nest.counted
        for counted in dict.fromkeys((columns, self.counted)):
            if not self._are_at_least(counted, _LEAST):
                return False
        if self.width == NARROW and not all(self._are_at_least(n.counted, _LINES) for n in self.across):
            return False
        condition = self.bounds.condition()
        low, high = self._ends(columns)
        if isinstance(condition, Literal) and not condition.value:
            return False
        enter_by(self.function, self.loop, self.gate)
        joined = join_behind(self.function, self.loop)
        b = Builder(self.function)
        b.loc = self.loc
        fast = self.function.new_block("fast", after=self.gate)
        b.at_end(self.gate).conditional(condition, fast, [], self.loop.header, list(self.gate.args))
        b.at_end(fast)
        if self.width is None:
            self.distribution.copy(b, low, b.emit("subtract", high, low), None)
            added: list[Value] = []
        else:
            totals = [self.gate.args[self.loop.header.args.index(a)] for a in self.distribution.totals]
            added = strips(b, self.distribution, low, high, self.width, totals)
        (leaving,) = (t for t in self.loop.header.targets if t.block is joined)
        last = dict(zip(self.distribution.totals, added, strict=True))
        b.branch(joined, [last[v] for v in leaving.args])
        return True

    def _are_at_least(self, counted: CountedLoop, least: int) -> bool:
        """Ask for so many trips; whether that can be asked."""
        low, high = map(self.bounds.again, counted.ends)
        if low is None or high is None:
            return False
        for end in (low, high):
            self.bounds.of(end)  # limits it, so that the difference does not wrap
        count = self.bounds.emit("subtract", high, low)
        self.bounds.conditions.append(self.bounds.emit("greaterThanOrEqual", count, literal(least)))
        return True

    def _ends(self, columns: CountedLoop) -> tuple[Value, Value]:
        """The smallest number of a counter, and one more than the largest."""
        low, high = columns.ends
        if columns.step == 1:
            return low, high
        return self.bounds.emit("add", low, literal(1)), self.bounds.emit("add", high, literal(1))
