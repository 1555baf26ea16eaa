"""Loop sharing: says before a loop with independent trips that threads may share them, and what they cost.

    branch 'loop(0: i64)                            %n = max %m: i64, 0: i64
'loop(%k: i64):                                     %c = multiply (dataTypeCast %w to f64), ...
    %more = lessThan %k: i64, %m: i64               %safe = lessThanOrEqual %m: i64, %rows: i64
    conditional %more then 'body() else 'exit()     parallel %n: i64 cost %c: f64 if %safe: bool private ()
'body():                                       =>   branch 'loop(0: i64)
    check (lessThan %k, %rows) else IndexError ...  (the loop as it was)
    %row = elementPointer %a at %k: i64
    store (...: <_ x f64>) to %row
    branch 'loop(%next: i64)

`parallel` stands right before the branch to the loop. Its operands: the number of trips; what all of them cost, in
tenths of nanoseconds, by a coarse model (ir/analysis/cost.py; inner loops whose counts are not known beforehand count
as eight trips); a condition; and memory outside of the loop of which each trip may have a copy of its own, because what
lies in it is never read by another one (`hoist_buffers` adds it).

The condition is there for what a trip may raise. The trips behind the first that raises did not happen: if the loop
writes what can be seen after an exception, an argument, then the condition says that no trip raises (loop_bounds.py),
and where it does not hold, they run one after the other. Where that cannot be said, the loop is not shared. A loop that
writes memory of this function only may raise: of several trips that raise, the first counts.

Outer loops come before those in them. Not shared is what has too little work at any time: a loop inside of others with
nothing but scalars in its trips. What was found for each loop is in `Function.meta` under LOOPS, for reports. Stage
compute, before buffers are hoisted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dlvm_py.decisions import Decisions
from dlvm_py.deferred import deferred
from dlvm_py.errors import Loc
from dlvm_py.frozen import Frozen
from dlvm_py.grain import GRAIN
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.cost import element_cost, scalar_cost
from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.independence import Independence, Trips
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.types import F64, VOID, StackType, TensorType, is_array, scalar
from dlvm_py.ir.value import Instruction, Literal, Value, integer
from dlvm_py.transforms.cfg_canonicalization import join_edges, move_block

if TYPE_CHECKING:
    from dlvm_py.transforms import loop_bounds
else:
    loop_bounds = deferred("dlvm_py.transforms.loop_bounds")

# in `meta`: a LoopNote for each loop
LOOPS = "loops"
# trips, or elements, where the number is not known
FEW = 8
_ROOTS = ("store", "reduce", "dot", "scatter", "unbroadcast")


class LoopNote(Frozen):
    """Whether threads share a loop. reason: why not; about: the place that the reason is about; loc: of the loop."""

    loc: Loc | None
    reason: str
    about: Loc | None


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Mark the loops of `function` that threads may share; whether there were any."""
    found = Independence(function, noalias_params)
    notes: list[LoopNote] = []
    chosen: list[Trips] = []
    for trips in found.loops():
        if any(c.loop.contains(trips.loop.header) for c in chosen):
            continue
        reason, about = trips.reason, trips.loc
        if not reason:
            reason, about = _objection(found, trips)
        if not reason:
            chosen.append(trips)
        notes.append(LoopNote(_loc(trips.loop), reason, about))
    if chosen and not (decisions or Decisions()).take("share_loops.loops", 1, (0,)):
        notes = [n if n.reason else LoopNote(n.loc, "one thread was faster when it was tuned", None) for n in notes]
        chosen = []
    function.meta[LOOPS] = tuple(notes)
    for trips in chosen:
        _mark(function, found, trips)
    return bool(chosen)


def _loc(loop: Loop) -> Loc | None:
    return next((i.loc for i in reversed(loop.header.instructions) if i.loc is not None), None)


def mark_of(block: Block) -> Instruction | None:
    """The `parallel` at the end of a block, which is about the loop that it leads to."""
    at = [i for i in block.instructions[-2:] if i.op.name == "parallel"]
    return at[0] if at else None


def share(b: Builder, block: Block, trips: Value, cost: Callable[[], Value]) -> None:
    """Say that threads share the loop that follows, whose trips are apart, unless they share one around a block."""
    forest = LoopForest(b.function)
    around = forest.loop_of(block)
    while around is not None:
        if any(mark_of(p) and p.targets[0].block is around.header for p in b.function.blocks):
            return
        around = around.parent
    b.emit("parallel", trips, b.emit("dataTypeCast", cost(), to="f64"), literal(True))


# -- which loops -----------------------------------------------------------------------------------------


def _objection(of: Independence, trips: Trips) -> tuple[str, Loc | None]:
    """Why a loop with independent trips is not shared all the same."""
    loop = trips.loop
    if of.alias.is_shared or any(isinstance(p.type, StackType) for p in of.function.params):
        return "the function shares stacks or variables with others", None
    if loop.depth > 1 and not loop.children and not any(_is_root(i) for b in loop.ordered for i in b.instructions):
        return "there is too little in a trip", None
    scratch = Function("", VOID)  # nothing is built yet
    bounds = loop_bounds.LoopBounds(Builder(scratch, scratch.new_block()), of, loop)
    for i in _may_raise(trips):
        if not bounds.never_fails(i):
            what = i.attrs.get("exception", "an exception")
            if trips.visible:
                return f"it may raise {what} when an argument has been changed", i.loc
            if _asks_python(i):
                return f"the text of {what} shows more than few numbers", i.loc
    work = _Work(bounds, trips)
    cost, count = work.whole(), integer(work.trips())
    if count is not None and count < 2:
        return "it has one trip", None
    if isinstance(cost, Literal) and cost.value < GRAIN:  # type: ignore[operator]
        return "there is too little in it", None
    return "", None


def _may_raise(trips: Trips) -> list[Instruction]:
    """What must not raise in any trip: all that may, or what only Python can tell of."""
    if not trips.visible:
        return [i for i in trips.traps if _asks_python(i)]
    sizes = [i for b in trips.loop.ordered for i in b.instructions if i.op.name == "allocateHeap"]
    return [*trips.traps, *sizes]


def _asks_python(i: Instruction) -> bool:
    """Whether its exception is made of more than the error record holds (backend/cpu/tell.py)."""
    if i.op.name not in ("check", "raise"):
        return False
    shown = i.operands[1:] if i.op.name == "check" else i.operands
    plain = all(isinstance(v.type, TensorType) and v.type.dtype.name in ("i64", "f64", "f32", "bool") for v in shown)
    return bool(i.attrs.get("flavours")) or not plain or len(shown) > 4


def _is_root(i: Instruction) -> bool:
    return i.op.name in _ROOTS and any(is_array(v.type) for v in i.operands) and not is_array(i.type)


# -- the mark --------------------------------------------------------------------------------------------


def _mark(function: Function, of: Independence, trips: Trips) -> None:
    header = trips.loop.header
    edges = [(p, k) for p, k in predecessors(function)[header] if not trips.loop.contains(p)]
    block = edges[0][0]
    if len(edges) > 1 or len(block.targets) > 1:
        block = join_edges(function, edges, f"{header.name}_preheader" if header.name else "")
        move_block(function, block, before=header)
    b = Builder(function).before(block.instructions[-1])
    b.loc = _loc(trips.loop)
    bounds = loop_bounds.LoopBounds(b, of, trips.loop)
    for i in _may_raise(trips):
        bounds.never_fails(i)
    safe = bounds.condition()  # an estimate needs none
    work = _Work(bounds, trips)
    b.emit("parallel", work.trips(), work.whole(), safe)


class _Work:
    """What a loop costs, as an f64 before it."""

    def __init__(self, bounds: loop_bounds.LoopBounds, trips: Trips) -> None:
        assert trips.counted is not None
        self.counted, self.loop, self.bounds = trips.counted, trips.loop, bounds

    def trips(self) -> Value:
        """The number of trips, i64."""
        count = self.bounds.trips(self.counted)
        known = integer(count)
        return literal(max(known, 0)) if known is not None else self.bounds.emit("max", count, literal(0))

    def whole(self) -> Value:
        """The cost of all trips."""
        return self._times(self._float(self.trips()), self._body(self.loop))

    def _body(self, loop: Loop) -> Value:
        """The cost of one trip of a loop."""
        fixed, parts = 0, list[Value]()
        inner = {block for child in loop.children for block in child.blocks}
        for block in loop.ordered:
            if block not in inner:
                for i in block.instructions:
                    if _is_root(i):
                        parts.append(self._kernel(i))
                    elif not is_array(i.type):
                        fixed += scalar_cost(i)
        for child in loop.children:
            counted = self.bounds.counted.get(child.header)
            parts.append(self._times(self._usual_trips(counted), self._body(child)))
        total: Value = _number(fixed)
        for part in parts:
            total = self._emit("add", total, part)
        return total

    def _kernel(self, i: Instruction) -> Value:
        """The cost of an array kernel: of its elements."""
        root = i.operands[0]
        if i.op.name in ("reduce", "dot"):
            root = i
        iterated = root.operands[0] if isinstance(root, Instruction) and root.op.name in _ROOTS else root
        assert isinstance(iterated.type, TensorType)
        cost = element_cost(iterated) if is_array(iterated.type) else 1
        total: Value = _number(max(cost, 1))
        for axis in range(len(iterated.type.shape)):
            total = self._times(total, self._extent(iterated, axis))
        if isinstance(root, Instruction) and root.op.name == "dot":
            other = root.operands[1]
            for axis in range(1, len(other.type.shape)):  # type: ignore[attr-defined]
                total = self._times(total, self._extent(other, axis))
        return total

    def _extent(self, value: Value, axis: int) -> Value:
        found = known_extent(value, axis)
        if isinstance(found, tuple):
            source, at = found
            if not is_outside(source, self.loop):
                return _number(FEW)
            found = self.bounds.emit("extent", source, at=at)
        return self._usual(found)

    def _usual(self, v: Value) -> Value:
        """What an i64 is in the middle of its range."""
        found = self.bounds.of(v)
        if found is None:
            return _number(FEW)
        low, high = map(self._float, found)
        return low if found[0] is found[1] else self._times(_number(0.5), self._emit("add", low, high))

    def _usual_trips(self, counted: CountedLoop | None) -> Value:
        if counted is None:
            return _number(FEW)
        ends = [self._usual(v) for v in ((counted.first, counted.last)[:: counted.step])]
        return self._emit("subtract", ends[1], ends[0])

    # -- arithmetic ------------------------------------------------------------------------------------

    def _float(self, v: Value) -> Value:
        known = integer(v)
        return _number(known) if known is not None else self.bounds.emit("dataTypeCast", v, to="f64")

    def _times(self, a: Value, b: Value) -> Value:
        return self._emit("multiply", a, b)

    def _emit(self, op: str, a: Value, b: Value) -> Value:
        if isinstance(a, Literal) and isinstance(b, Literal):
            x, y = a.value, b.value
            return _number({"add": x + y, "subtract": x - y, "multiply": x * y}[op])  # type: ignore[operator]
        if op != "multiply" and isinstance(b, Literal) and b.value == 0:
            return a
        if op == "multiply" and isinstance(a, Literal) and a.value == 1:
            return b
        return self.bounds.emit(op, a, b)


def _number(x: float) -> Literal:
    return Literal(scalar(F64), float(x))
