"""Loop widening: a loop whose trips each store a column becomes one kernel over all columns, which runs along rows.

    'loop(%j: i64):                                  'loop(%j: i64):
        conditional (lessThan %j, %n) then 'body()       %w = section %c at (0, 0) count (%k, %count)
                                      else 'exit()       %r = section (elementPointer %b at %i) at (0) count (%count)
    'body():                                             %x = padShape (load %r) at 0: <1 x n>
        %s = section %c at (0, %j) count (%k, 1)    =>   %y = padShape (load %v) at 1: <k x 1>
        %v = squeezeShape %s at 1                        store (add (load %w), (multiply %x, %y)) to %w
        %x = load (elementPointer %b at %i, %j)          branch 'exit()
        store (add (load %v), (multiply %x, (load %a))) to %v
        branch 'loop(%j + 1)

Down a column each element is in another line of the cache, and nothing is a vector: the axis that lies side by side is
that of the trips. So the trips become the last axis of everything that changes with them (trip_views.py), and what
stands in a trip is done for all trips, statement by statement; the same operations on each element, the same bits.

The loop counts by one, has one block besides its head and carries nothing else. Its trips are independent
(ir/analysis/independence.py) and consist of elementwise steps, views that move by one element from trip to trip, loads
and stores, of which one is down the columns of an array (and none along its rows). A number that a trip makes by more
than a cheap step is made once, into memory. Where a trip may raise, and the ends of the loop do not say that none does
(loop_bounds.py), the loop runs as it was. Stage compute, after loops have got their versions without checks; once in a
pipeline, since the loop that is left could be widened.

A loop of a reverse sweep, whose head says that its sums are `unordered`, has sums whose order no program gives. There a
trip may sum along its own axes as well, which is done for all trips into memory; and what the trips add up is one sum
over all of them:

    conditional %done ... unordered
    %r = reduce (multiply (load %u), (load %v)) ...     store (reduce (multiply %y, (load %w)) ... along 0) to %s
    %total = add %sum: f64, (multiply %r, %x)       =>  %t = reduce (multiply (load %s), (load %r)) ... along 0
    branch 'loop(%total, %j - 1)                        branch 'exit(), where %sum is (add %sum, %t)
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.decisions import Decisions
from dlvm_py.ir import Block, Builder, Function, Instruction, Kind, TensorType, Value, literal
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cost import step_cost
from dlvm_py.ir.analysis.counted_loops import CountedLoop, counting_head, is_outside
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.independence import Independence, Trips
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.places import place_of, unit_axis
from dlvm_py.ir.analysis.sums import Sum, sums
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.tree_rules import reads_in_time
from dlvm_py.ir.types import is_scalar, scalar
from dlvm_py.ir.value import BlockArg, Literal
from dlvm_py.transforms.loop_bounds import TRUE, LoopBounds
from dlvm_py.transforms.loop_versions import ends_in_header, second_version
from dlvm_py.transforms.substitution import substitute
from dlvm_py.transforms.trip_views import TripViews, Unfit

LARGE = 100  # instructions of a trip


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Widen the loops of `function`; whether there were any."""
    decisions, changed = decisions or Decisions(), False
    for header in [loop.header for loop in LoopForest(function).loops if _may_gain(loop)]:
        of = Independence(function, noalias_params)
        loop = next(found for found in of.forest.loops if found.header is header)
        counted = of.counted[header]
        if counted is None or not _ends_alone(function, loop):
            continue
        totals = _totals(function, of, counted)
        if len(header.args) != 1 + len(totals):
            continue
        trips = of.of(loop, sums=totals.keys())
        if trips.independent:
            changed |= _Widened(of, trips, totals).run(noalias_params, decisions)
    return changed


def _totals(function: Function, of: Independence, counted: CountedLoop) -> dict[BlockArg, Sum]:
    """The sums of floats that a loop carries and that may have any order."""
    if not _is_unordered(counted.loop) or len(counted.loop.header.args) == 1:
        return {}
    found = sums(counted.loop, uses(function), of.edges)
    return {a: total for a, total in found.items() if total.dtype.is_float}


def _is_unordered(loop: Loop) -> bool:
    """Whether it is of a reverse sweep: what it sums may be summed in any order."""
    return loop.header.instructions[-1].attrs.get("unordered", False)


def _may_gain(loop: Loop) -> bool:
    """Whether it has one block besides its head, which stores down columns of arrays whose rows are its trips."""
    if loop.children or len(loop.ordered) != 2 or len(loop.ordered[1].instructions) > LARGE:
        return False
    head = counting_head(loop)
    if head is None:
        return False
    stores = [i.operands[1] for i in loop.ordered[1].instructions if i.op.name == "store"]
    columns = [p for p in stores if isinstance(p.type.pointee, TensorType) and p.type.pointee.rank]  # type: ignore[attr-defined]
    return bool(columns) and all(_is_across(p, head.counter) for p in columns)


def _is_across(pointer: Value, counter: Value) -> bool:
    """Whether the axis of memory that lies side by side is the one that the counter moves along."""
    place = place_of(pointer)
    axis = unit_axis(place) if len(place.axes) > 1 else None
    return axis is not None and axis.start is not None and counter in axis.start.terms


def _ends_alone(function: Function, loop: Loop) -> bool:
    """Whether it is left at its head, and nothing of it but its counter is used behind it."""
    return loop.exiting_block is loop.header and ends_in_header(function, loop)


class _Widened:
    """One loop."""

    def __init__(self, of: Independence, trips: Trips, totals: dict[BlockArg, Sum]) -> None:
        assert trips.counted is not None
        self.function, self.trips, self.counted, self.loop = of.function, trips, trips.counted, trips.loop
        loc = self.loop.header.instructions[-1].loc
        self.bounds = LoopBounds(Builder(of.function, Block("")), of, self.loop)
        self.b = Builder(of.function, Block(""))
        self.b.loc = self.bounds.b.loc = loc
        start, count = self._trips()
        self.views = TripViews(self.b, self.bounds, self.counted, start, count)
        self.totals = totals
        self.added: dict[BlockArg, list[Value]] = {a: [] for a in totals}  # sums over all trips
        self.pointers: dict[Value, tuple[Value, int | None]] = {}
        self.values: dict[Value, tuple[Value, bool]] = {}  # whether they have the axis of the trips

    def _trips(self) -> tuple[Value, Value]:
        """The counter of the trip that is first along an axis, and how many trips there are."""
        count = self.bounds.trips(self.counted)
        if self.counted.step == -1:
            return literal(1), count  # down to 0, which has no trip
        return self.counted.first, self.bounds.emit("max", count, literal(0))

    def run(self, noalias_params: bool, decisions: Decisions) -> bool:
        """Widen it, if that can be done."""
        body = self.loop.ordered[1]
        if not all(map(self.bounds.never_fails, self.trips.traps)):
            return False
        try:
            for i in body.instructions:
                self._step(i)
        except Unfit:
            return False
        if not self._reads_in_time(noalias_params) or not decisions.take("widen_loops.columns", 1, (0,)):
            return False
        condition = self.bounds.condition()
        if condition is TRUE:
            self._replace()
        else:
            self._add(condition)
        return True

    def _reads_in_time(self, noalias_params: bool) -> bool:
        """Whether no number that a trip reads before it writes there is read when all columns are written."""
        made = Block("")
        for i in self._instructions():
            made.append(i)
        self.function.blocks.append(made)
        found = reads_in_time(made, AliasAnalysis(self.function, noalias_params))
        self.function.blocks.remove(made)
        return found

    def _instructions(self) -> list[Instruction]:
        assert self.bounds.b.block is not None and self.b.block is not None
        return [*self.bounds.b.block.instructions, *self.b.block.instructions]

    def _replace(self) -> None:
        """Let what was made stand in the place of the loop."""
        header, body = self.loop.ordered
        self._write(self._instructions(), header, body, self.function.blocks)

    def _add(self, condition: Value) -> None:
        """Let what was made run where no trip raises."""
        gate, (fast, body) = second_version(self.function, self.loop, {})
        assert self.bounds.b.block is not None and self.b.block is not None
        for i in self.bounds.b.block.instructions:
            gate.append(i)
        passed: list[Value] = list(gate.args)
        Builder(self.function, gate).conditional(condition, fast, passed, self.loop.header, list(passed))
        self._write(self.b.block.instructions, fast, body, [fast])

    def _write(self, made: Sequence[Instruction], header: Block, body: Block, users: Sequence[Block]) -> None:
        """Let instructions stand in the place of a loop of two blocks. users: the blocks that may use its counter."""
        (leaving,) = (t for t in header.targets if t.block is not body)
        header.instructions = []
        for i in made:
            header.append(i)
        b = Builder(self.function, header)
        b.loc = self.b.loc
        end = b.branch(leaving.block, list(leaving.args))
        self.function.blocks.remove(body)
        b.before(end)
        before = self.loop.header.args
        counter = header.args[before.index(self.counted.counter)]
        if any(counter in i.all_operands() for block in users for i in block.instructions):
            last = self.counted.last
            substitute(users, {counter: b.emit("max", self.counted.first, last) if self.counted.step == 1 else last})
        for argument, added in self.added.items():
            carried = header.args[before.index(argument)]
            total: Value = carried
            steps = []
            for v in added:
                total = b.emit("add", total, v)
                steps.append(total)
            substitute(users, {carried: total})
            steps[0].operands = [carried, added[0]]

    def _step(self, i: Instruction) -> None:
        self.b.loc = i.loc
        if i.op.name == "store":
            self._store(i)
        elif i.op.name == "load":
            pointer, axis = self._pointer(i.operands[0])
            if axis is None and is_scalar(i.type):
                raise Unfit  # where there are no trips, there may be no such element
            self.values[i] = self.b.emit("load", pointer), axis is not None
        elif total := next((a for a, total in self.totals.items() if i in total.adds), None):
            self._add_up(i, total)
        elif i.op.name == "reduce" and _is_unordered(self.loop) and i.attrs["by"] == "add":
            self.values[i] = self._sums(i), True
        elif i.op.is_terminator or i in self.trips.traps or i.op.kind is Kind.INDEX or self._is_index(i):
            pass  # views and their integers are made when they are asked for
        elif is_pure(i) and i.op.kind is Kind.ELEMENTWISE:
            operands = self._aligned([*map(self._value, i.operands)])
            wide = any(self._value(o)[1] for o in i.operands)
            v = self.b.emit(i.op, *operands, **i.attrs)
            self.values[i] = self._in_memory(v) if wide and is_scalar(i.type) and step_cost(v) > 1 else v, wide
        elif i.op.name == "broadcast":
            self.values[i] = self._broadcast(i)
        else:
            raise Unfit

    def _sums(self, i: Instruction) -> Value:
        """The number that each trip sums, in memory."""
        (v, wide), (init, changes) = map(self._value, i.operands)
        if not wide or changes or not is_scalar(i.type):
            raise Unfit
        return self._in_memory(self.b.emit("reduce", v, init, **i.attrs))

    def _add_up(self, i: Instruction, to: BlockArg) -> None:
        """Sum what all trips add to a number."""
        partial = {to, *self.totals[to].adds}
        (v,) = (o for o in i.operands if o not in partial)
        value, wide = self._value(v)
        if not wide or i.op.name != "add":
            raise Unfit
        zero = literal(0.0, scalar(value.type.dtype))  # type: ignore[attr-defined]
        self.added[to].append(self.b.emit("reduce", value, zero, by="add", axes=(0,)))

    def _is_index(self, i: Instruction) -> bool:
        """Integers that follow from the counter and what is outside: no load is needed for them."""
        if not is_scalar(i.type) or not is_pure(i) or i.type.dtype.kind not in "biu":  # type: ignore[attr-defined]
            return False
        return all(is_outside(o, self.loop) or o is self.counted.counter or self._is_own_index(o) for o in i.operands)

    def _is_own_index(self, v: Value) -> bool:
        return isinstance(v, Instruction) and v not in self.values and self._is_index(v)

    # -- pointers and values --------------------------------------------------------------------------

    def _pointer(self, p: Value) -> tuple[Value, int | None]:
        """A view of all trips with their axis last."""
        if p not in self.pointers:
            wide, axis = self.views.wide(p)
            rank = wide.type.rank  # type: ignore[attr-defined]
            if axis is not None and axis != rank - 1:
                order = [k for k in range(rank) if k != axis]
                wide = self.b.emit("transpose", wide, axes=(*order, axis))
            self.pointers[p] = wide, axis
        return self.pointers[p]

    def _value(self, v: Value) -> tuple[Value, bool]:
        if v in self.values:
            return self.values[v]
        if isinstance(v, Literal) or is_outside(v, self.loop):
            return v, False
        again = self.bounds.again(v) if is_scalar(v.type) else None
        if again is None:
            raise Unfit  # the counter itself, or what follows from it
        return again, False

    def _aligned(self, operands: Sequence[tuple[Value, bool]]) -> list[Value]:
        """Operands of one rank, the axis of the trips the last one; what has no axes at all stays so."""
        if not any(wide for _, wide in operands):
            return [v for v, _ in operands]
        rank = max(_rank(v) + (not wide) for v, wide in operands if wide or _rank(v))
        found = []
        for v, wide in operands:
            if wide or _rank(v):
                if not wide:
                    v = self.b.emit("padShape", v, at=_rank(v))
                for _ in range(rank - _rank(v)):
                    v = self.b.emit("padShape", v, at=0)
            found.append(v)
        return found

    def _broadcast(self, i: Instruction) -> tuple[Value, bool]:
        v, wide = self._value(i.operands[0])
        counts = [self.views.same(n) for n in i.operands[1:]]
        if not wide:
            return self.b.emit("broadcast", v, *counts, **i.attrs), False
        for _ in range(len(counts) + 1 - _rank(v)):
            v = self.b.emit("padShape", v, at=0)
        return self.b.emit("broadcast", v, *counts, self.views.count, **i.attrs), True

    def _in_memory(self, v: Value) -> Value:
        """What a trip makes once, so that it is not made for each element of a column."""
        memory = self.b.emit("allocateHeap", self.views.count, dtype=v.type.dtype.name)  # type: ignore[attr-defined]
        self.b.emit("store", v, memory)
        return self.b.emit("load", memory)

    def _store(self, i: Instruction) -> None:
        pointer, axis = self._pointer(i.operands[1])
        v, wide = self._value(i.operands[0])
        if axis is None or i.attrs:
            raise Unfit
        if not wide:
            if _rank(v):
                v = self.b.emit("padShape", v, at=_rank(v))
            rank = pointer.type.rank  # type: ignore[attr-defined]
            v = self.b.emit("broadcast", v, *(self.b.emit("extent", pointer, at=k) for k in range(rank)))
        self.b.emit("store", v, pointer)


def _rank(v: Value) -> int:
    assert isinstance(v.type, TensorType)
    return v.type.rank
