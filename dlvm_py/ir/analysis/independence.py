"""Loops whose trips are independent: they may run in any order, and at the same time, with the same result.

    'loop(%k: i64):                                       trips of 'loop: independent
        ...                                               (row %k of %out is this trip's, nobody writes %a,
    'body():                                              and %t is memory of the trip)
        %t = allocateHeap f64 count (%m: i64)
        %0 = load (elementPointer %a at %k)
        store (exp %0) to %t
        store (load %t) to (elementPointer %out at %k)
        branch 'loop(%k + 1)

    for trips in Independence(function).loops():          outer loops before those in them
        trips.reason or trips.counted                     why not, or how it counts (counted_loops.py)

They are if

* a counter says how often the loop runs (`CountedLoop`), and nothing leaves it but its head, or a `raise`;
* no other value is carried from one trip to the next, and none of a trip is used behind the loop (the counter may be:
  it is the first number plus or minus the number of trips then);
* what a trip writes is memory that it allocates, or a place of other memory that no other trip reads or writes. Places
  are told apart by their indices (places.py): on some axis those of two trips never meet, because they are the same
  multiple of the counter with too little added, leave different remainders, or all of one access come before all of the
  other (`a[i, j]` with j from i on, beside `a[i, :i]`);
* it does nothing that has an order: no print, no random number, no call of another function, nothing pushed to a stack
  from outside the loop.

`traps` are the instructions of a trip that may raise. The trips behind the first that raises did not happen, so that
whoever runs them at the same time has two ways: where nothing that the loop writes can be seen after an exception (not
`visible`: memory of this function), report the first; else make sure beforehand that none raises. Stage compute (before
buffers are hoisted, which gives the trips of a loop one memory) or scheduled.

Sums of floats that trips add up are carried values: their order is the program's. Who may choose another one says that
they do not count (`sums`, see sums.py). The adjoint of what all trips read is such a sum, in memory: it is written by
every trip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from itertools import product
from math import gcd, inf

from dlvm_py.errors import Loc
from dlvm_py.frozen import Frozen
from dlvm_py.ir.analysis.alias import SHARED, AliasAnalysis
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, counted_loop, is_outside
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure, may_trap, written_pointer
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.places import Axis, Linear, Place, at_most, bottoms, linear, place_of, tops
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import IO, Kind
from dlvm_py.ir.types import PointerType, StackType, is_scalar
from dlvm_py.ir.value import BlockArg, Instruction, Literal, Value, Variable

_ALLOCATIONS = ("allocateHeap", "allocateStack")
_IN_ORDER = {
    "randomCounter": "random numbers come in order",
    "randomSeed": "random numbers come in order",
    "random": "random numbers come in order",
    "draw": "random numbers come in order",
    "seedGenerator": "random numbers come in order",
    "print": "what is printed comes in order",
}
# factors from here on may take an index around, past 2^64, to where another trip is
_FAR = 2**31
# counters in what is known of the order of two indices
_COUNTERS = 2
_MEMORY = ("load", "store", "scatter", "allocateHeap", "allocateStack", "createStack")


class Trips(Frozen):
    """What is known of the trips of a loop.

    reason: why they are not independent, in words; "" where they are. loc: of what the reason is about. counted: how
    the loop counts, where it does. traps: what may raise in a trip. visible: whether what is written can be seen when
    the function has raised.
    """

    loop: Loop
    counted: CountedLoop | None = None
    reason: str = ""
    loc: Loc | None = None
    traps: tuple[Instruction, ...] = ()
    visible: bool = False

    @property
    def independent(self) -> bool:
        """Whether the trips may run in any order."""
        return not self.reason


class Independence:
    """Looks at the loops of one function, which does not change meanwhile."""

    def __init__(self, function: Function, noalias_params: bool = True) -> None:
        self.function = function
        self.forest = LoopForest(function)
        self.edges = predecessors(function)
        self.alias = AliasAnalysis(function, noalias_params)
        self.dominators = of_graph(DominatorTree, function)
        self.counted = {loop.header: counted_loop(loop, self.edges) for loop in self.forest.loops}
        self.past_end = self._counters_past_their_end()

    @cached_property
    def users(self) -> dict[Value, list[Instruction]]:
        """Who uses what."""
        return uses(self.function)

    def _counters_past_their_end(self) -> set[Value]:
        """The counters that are used where they may be what ends their loop: at its head, or behind it."""
        found: set[Value] = set()
        for block in self.function.blocks:
            for i in block.instructions:
                for v in i.operands:
                    counted = self.counted.get(v.block) if isinstance(v, BlockArg) else None
                    if counted is None or v is not counted.counter or v in found:
                        continue
                    is_test = block is v.block and i is block.instructions[-1].operands[0]
                    if not is_test and (block is v.block or not counted.loop.contains(block)):
                        found.add(v)
        return found

    def loops(self) -> Iterator[Trips]:
        """The trips of all loops, outer loops before those in them."""
        return map(self.of, self.forest.loops)

    def of(
        self,
        loop: Loop,
        private: Set[Value] = frozenset(),
        sums: Set[Value] = frozenset(),
        accumulations: Set[Instruction] = frozenset(),
    ) -> Trips:
        """The trips of one loop. private: memory from before it of which each trip has its own.

        sums: arguments of its head that may be added up in any order. accumulations: loads and stores that add to
        elements in any order, one after the other (see sums.py).
        """
        return _Judge(self, loop, private, sums, accumulations=accumulations).judge()

    def reads_what_was(
        self, loop: Loop, load: Instruction, start: Value | None = None, part: Value | None = None
    ) -> bool:
        """Whether a load in a loop that counts finds in each trip what was in memory before the first trip.

        start: what stands for the counter in a trip of the loop; the question is then of the trips from that one on.
        part: a view of what is loaded; the question is then of that part, which is the same places in all these trips,
        or moves with the counter.
        """
        return _Judge(self, loop, start=start).reads_what_was(load, part)


class _Dependent(Exception):
    """A reason why the trips are not independent."""

    def __init__(self, reason: str, loc: Loc | None) -> None:
        super().__init__(reason)
        self.reason, self.loc = reason, loc


class _Access(Frozen):
    place: Place
    writes: bool
    loc: Loc | None
    adds: bool = False


class _Judge:
    def __init__(
        self,
        of: Independence,
        loop: Loop,
        private: Set[Value] = frozenset(),
        sums: Set[Value] = frozenset(),
        start: Value | None = None,
        accumulations: Set[Instruction] = frozenset(),
    ) -> None:
        self.of, self.loop, self.private, self.sums = of, loop, private, sums
        self.accumulations = accumulations
        self.counted = of.counted[loop.header]
        self.start = self.counted.first if start is None and self.counted is not None else start
        self.accesses: list[_Access] = []
        self.traps: list[Instruction] = []
        self.leaving: list[Block] = []  # blocks that raise, which are in no loop
        self._fixed: dict[Value, bool] = {}

    def judge(self) -> Trips:
        try:
            self._control()
            self._values()
            for block in (*self.loop.ordered, *self.leaving):
                for i in block.instructions:
                    self._instruction(i)
            self._memory()
        except _Dependent as found:
            return Trips(self.loop, self.counted, found.reason, found.loc)
        seen = any(a.writes and not self.of.alias.is_local(a.place.base) for a in self.accesses)
        return Trips(self.loop, self.counted, traps=tuple(self.traps), visible=seen)

    def reads_what_was(self, load: Instruction, part: Value | None) -> bool:
        """See `Independence`."""
        (pointer,) = load.operands
        place = place_of(pointer if part is None else part)
        if self.counted is None or not is_outside(place.base, self.loop) or self.of.function.meta.get(SHARED):
            return False
        assert load.block is not None
        above = True
        for block in self.loop.ordered:
            later = block is not load.block and self.of.dominators.instruction_dominates(load, block.instructions[-1])
            for i in block.instructions:
                above = i is not load if block is load.block and above else above
                if not self.of.alias.may_write(i, pointer):
                    continue
                to = written_pointer(i)
                if to is None:
                    return False
                in_same_trip = not (later or (block is load.block and not above))
                try:
                    self._apart(_Access(place_of(to), True, i.loc), _Access(place, False, load.loc), in_same_trip)
                except _Dependent:
                    if not self._moves_away(place, place_of(to)):
                        return False
        return True

    # -- how the loop runs -------------------------------------------------------------------------------

    def _control(self) -> None:
        header = self.loop.header
        where = _loc_of(header)
        if self.counted is None:
            raise _Dependent("how often it runs is not known at its begin", where)
        for block, k in self.loop.exit_edges():
            target = block.targets[k].block
            if target.instructions[-1].op.name == "raise" and len(self.of.edges[target]) == 1:
                self.leaving.append(target)
            elif block is not header:
                raise _Dependent("break or return leaves it", block.instructions[-1].loc)

    def _values(self) -> None:
        """Nothing but the counter, and sums, goes from trip to trip, or out."""
        header = self.loop.header
        assert self.counted is not None
        for at, arg in enumerate(header.args):
            if arg is not self.counted.counter and arg not in self.sums:
                (latch,) = self.loop.latches
                passed = [t.args[at] for t in latch.targets if t.block is header]
                loc = next((v.loc for v in passed if isinstance(v, Instruction)), None) or _loc_of(header)
                raise _Dependent(f"{_name(arg)} is carried from one trip to the next", loc)
        inside = {*self.loop.blocks, *self.leaving}
        made = (v for b in self.loop.ordered for v in (*b.args, *b.instructions))
        is_used = any(user.block not in inside for v in made for user in self.of.users.get(v, ()))
        for block in self.of.function.blocks if is_used else ():  # who comes first is named
            if block not in inside:
                for i in block.instructions:
                    self._behind(i.all_operands(), i.loc)
        for target in header.targets:
            if target.block not in inside:
                self._behind(target.args, header.instructions[-1].loc)

    def _behind(self, values: Sequence[Value], loc: Loc | None) -> None:
        assert self.counted is not None
        for v in values:
            if not is_outside(v, self.loop) and v is not self.counted.counter and v not in self.sums:
                raise _Dependent(f"{_name(v)} of the last trip is used behind the loop", loc)

    # -- what it does ------------------------------------------------------------------------------------

    def _instruction(self, i: Instruction) -> None:
        name = i.op.name
        if may_trap(i):
            self.traps.append(i)
        if name in _IN_ORDER or IO in i.op.effects:
            raise _Dependent(_IN_ORDER.get(name, "what it does comes in order"), i.loc)
        if i.op.kind in (Kind.CALL, Kind.HIGHER_ORDER):
            raise _Dependent(f"it calls {i.attrs.get('callee', 'a function')}", i.loc)
        if i.op.kind is Kind.STACK:
            stack = i if name == "createStack" else i.operands[1 if name == "push" else 0]
            if not all(map(self._is_of_trip, self.of.alias.roots(stack))):
                raise _Dependent("its values are kept on a stack, one trip behind the other", i.loc)
            if isinstance(stack.type, StackType) and isinstance(stack.type.element, PointerType):
                raise _Dependent("arrays are kept on a stack", i.loc)
            return
        if name in ("retain", "release"):
            if not self._is_of_trip(place_of(i.operands[0]).base):
                raise _Dependent("references to an array from outside are counted in it", i.loc)
            return
        if not i.op.is_pure and name not in _MEMORY and i.op.kind not in (Kind.CHECK, Kind.CONTROL, Kind.CONTRACTION):
            raise _Dependent(f"{name} has an order", i.loc)
        for pointer in self._touched(i):
            self._access(pointer, pointer is written_pointer(i), i)

    def _touched(self, i: Instruction) -> list[Value]:
        """The pointers whose elements an instruction reads or writes."""
        if i.op.name in ("store", "scatter"):
            return [i.operands[1]]
        if i.op.kind is Kind.INDEX or i.op.name in ("extent", "createStack"):
            return []
        # what a terminator passes on is judged where it is used
        return [v for v in i.operands if isinstance(v.type, PointerType)]

    def _access(self, pointer: Value, writes: bool, i: Instruction) -> None:
        place, loc = place_of(pointer), i.loc
        if isinstance(place.base, Literal) or all(map(self._is_of_trip, self.of.alias.roots(pointer))):
            return
        if not is_outside(place.base, self.loop):
            raise _Dependent(f"which array {_name(pointer)} is changes from trip to trip", loc)
        if isinstance(place.base, Variable) or self.of.function.meta.get(SHARED):
            raise _Dependent("it uses variables of the module", loc)
        self.accesses.append(_Access(place, writes, loc, i in self.accumulations))

    def _is_of_trip(self, root: Value) -> bool:
        """Whether memory, or a stack, is made anew in each trip, or private."""
        if root in self.private:
            return True
        return (
            isinstance(root, Instruction)
            and root.op.name in (*_ALLOCATIONS, "createStack")
            and (root.block in self.loop.blocks)
        )

    # -- memory ------------------------------------------------------------------------------------------

    def _memory(self) -> None:
        """No trip writes what another one reads or writes."""
        written = [a for a in self.accesses if a.writes]
        for k, a in enumerate(written):
            for b in written[k:]:
                self._apart(a, b)
        for a in written:
            for b in self.accesses:
                if not b.writes:
                    self._apart(a, b)

    def _apart(self, a: _Access, b: _Access, in_same_trip: bool = False) -> None:
        """Raise `_Dependent` if two accesses may meet in different trips, or, where that is asked, in the same one."""
        base = a.place.base
        if a.adds and b.adds and base is b.place.base:
            return
        if base is not b.place.base:
            if self.of.alias.may_overlap(base, b.place.base):
                raise _Dependent(f"{_name(base)} and {_name(b.place.base)} may share memory", a.loc)
            return
        assert isinstance(base.type, PointerType)
        if base.type.layout == "S":
            raise _Dependent(f"elements of {_name(base)}, which has strides, may be one another", a.loc)
        axes = list(zip(a.place.axes, b.place.axes, strict=True))
        is_apart = any(self._axis_apart(x, y) for x, y in axes)
        if is_apart and in_same_trip:
            is_apart = any(self._axis_below(x, y) or self._axis_below_in_trip(x, y) for x, y in axes)
        if not is_apart:
            if b.writes:
                raise _Dependent(f"two trips may write the same element of {_name(base)}", a.loc)
            raise _Dependent(f"a trip may read what another one writes to {_name(base)}", b.loc)

    def _moves_away(self, load: Place, write: Place) -> bool:
        """Whether no trip loads what it or an earlier one writes: that lies beside it, further with each trip."""
        base = load.base
        if base is not write.base or base.type.layout == "S":  # type: ignore[attr-defined]
            return False
        pairs = zip(load.axes, write.axes, strict=True)
        return any(self._axis_below_in_trip(x, y, is_later=True) for x, y in pairs)

    def _axis_apart(self, a: Axis, b: Axis) -> bool:
        """Whether the indices of two accesses on an axis are never the same in different trips."""
        if self._axis_below(a, b):
            return True
        one, other = self._spread(a), self._spread(b)
        if one is None or other is None or one.fixed.terms != other.fixed.terms:
            return False
        distance = one.fixed.constant - other.fixed.constant
        common = gcd(one.factor, other.factor, one.unit, other.unit)
        if common and distance % common:
            return True
        factor = one.factor
        if not factor or factor != other.factor:
            return False
        # the first a trip later than the second, and a trip earlier
        near = abs(factor)
        return near + distance + one.low > other.high and -near + distance + one.high < other.low

    def _axis_below(self, a: Axis, b: Axis) -> bool:
        """Whether the indices of two accesses on an axis are never the same, in any two trips or in one."""
        return self._is_below(a, b) or self._is_below(b, a)

    def _axis_below_in_trip(self, a: Axis, b: Axis, is_later: bool = False) -> bool:
        """Whether the indices of two accesses on an axis are never the same in one trip.

        is_later: nor where the first access is of a later trip than the second one.
        """
        assert self.counted is not None
        counter, up = self.counted.counter, self.counted.step
        for x, y, side in ((a, b, -1), (b, a, 1)):
            for top, bottom in product(tops(x), bottoms(y)):
                of_first = top if side < 0 else bottom
                if is_later and of_first.terms.get(counter, 0) * up * side < 0:
                    continue
                # the counters of inner loops may differ between the two
                known = all(v is counter or self._is_fixed(v) for v in (*bottom.terms, *top.terms))
                least = self._least(bottom.plus(top, -1), [_COUNTERS]) if known else None
                if least is not None and not least.terms and least.constant > 0:
                    return True
        return False

    def _is_below(self, a: Axis, b: Axis) -> bool:
        """Whether each index of one access, in any trip, is less than each of another one, in any trip."""
        if b.start is None or (b.step < 1 and b.count != 1):
            return False
        for top in tops(a):
            budget = [_COUNTERS]
            low, minus_high = (self._least(x, budget) for x in (b.start, top.times(-1)))
            if low is not None and minus_high is not None:
                apart = low.plus(minus_high)
                if not apart.terms and apart.constant > 0:
                    return True
        return False

    def _least(self, form: Linear, budget: list[int]) -> Linear | None:
        """What a linear form is at least, in terms of what is the same in all trips; None where nothing is known.

        Counters are exchanged for their ends. A few of them, plus or minus, since a sum of many might wrap.
        """
        found = Linear(form.constant)
        for v, n in form.terms.items():
            if self._is_fixed(v):
                found = found.plus(Linear(0, {v: n}))
                continue
            counted = self.of.counted.get(v.block) if isinstance(v, BlockArg) else None
            budget[0] -= 1
            if counted is None or v is not counted.counter or abs(n) != 1 or budget[0] < 0:
                return None
            if not all(self.loop.contains(b) for b in (counted.loop.header, *counted.loop.latches)):
                return None
            # up: from first to last - 1; down: from last + 1 to first
            at_first = (n > 0) is (counted.step == 1)
            if not at_first and v in self.of.past_end:
                return None
            first = self.start if counted is self.counted and self.start is not None else counted.first
            end = linear(first) if at_first else linear(counted.last).plus(Linear(-counted.step))
            rest = self._least(end.times(n), budget)
            if rest is None:
                return None
            found = found.plus(rest)
        return found

    def _spread(self, axis: Axis) -> _Spread | None:
        """The indices of an axis as a multiple of the counter, what is the same in all trips, and a range."""
        if axis.start is None:
            return None
        assert self.counted is not None
        low: float = 0
        high: float = 0
        factor, unit, fixed = 0, 0, Linear(axis.start.constant)
        for v, n in axis.start.terms.items():
            if abs(n) >= _FAR:
                return None
            if v is self.counted.counter:
                factor = n
            elif self._is_fixed(v):
                fixed = fixed.plus(Linear(0, {v: n}))
            elif (bounds := self._bounds(v)) is not None:
                ends = sorted(n * end for end in bounds)
                low, high, unit = low + ends[0], high + ends[1], gcd(unit, n)
            else:
                return None
        if axis.count != 1 and axis.step:
            ends = sorted((0, inf * axis.step if axis.count is None else axis.step * max(axis.count - 1, 0)))
            low, high, unit = low + ends[0], high + ends[1], gcd(unit, axis.step)
        return _Spread(factor, fixed, low, high, unit)

    def _bounds(self, v: Value) -> tuple[float, float] | None:
        """The smallest and the largest number that the counter of an inner loop is; None for other values."""
        inner = self.of.counted.get(v.block) if isinstance(v, BlockArg) else None
        if inner is None or v is not inner.counter:
            return None
        first, last = linear(inner.first), _at_most(inner.last)
        end = last.constant if v in self.of.past_end else last.constant - inner.step
        if inner.step == 1:
            return (-inf if first.terms else first.constant, inf if last.terms else max(end, first.constant))
        return end, inf if first.terms else first.constant

    def _is_fixed(self, v: Value) -> bool:
        """Whether a scalar is the same in all trips."""
        if is_outside(v, self.loop):
            return True
        if v not in self._fixed:
            again = isinstance(v, Instruction) and is_scalar(v.type) and is_pure(v)
            operands = v.operands if isinstance(v, Instruction) else []
            self._fixed[v] = again and all(
                is_outside(o, self.loop) if isinstance(o.type, PointerType) else self._is_fixed(o) for o in operands
            )
        return self._fixed[v]


class _Spread(Frozen):
    """factor * counter + fixed + something from low to high, a multiple of unit."""

    factor: int
    fixed: Linear
    low: float
    high: float
    unit: int


def _at_most(v: Value) -> Linear:
    """The linear form of a number, or of a literal that it does not exceed."""
    known = [form for form in at_most(v) if not form.terms]
    return min(known, key=lambda form: form.constant) if known else linear(v)


def _loc_of(header: Block) -> Loc | None:
    return next((i.loc for i in reversed(header.instructions) if i.loc is not None), None)


def _name(v: Value) -> str:
    """What a value is called in a reason."""
    for suffix in ("_adj", "_shadow"):
        if v.name.endswith(suffix) and v.name != suffix:
            return f"the adjoint of `{v.name.removesuffix(suffix)}`"
    return f"`{v.name}`" if v.name and v.name != "_shadow" else "a temporary"
