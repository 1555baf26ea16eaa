"""Loop replay: finds loops that launch the same kernels in every trip, which a GPU records once, as a CUDA graph.

    branch 'loop(0: i64, %u, %v)                             replay %n: i64 after 0 period 2
'loop(%k: i64, %a: *<_ x f64>, %b: *<_ x f64>):              branch 'loop(0: i64, %u, %v)
    %more = lessThan %k: i64, %n: i64                    'loop(%k: i64, %a: *<_ x f64>, %b: *<_ x f64>):
    conditional %more then 'body() else 'exit()      =>      (the loop as it was)
'body():
    store (sin (load %a)) to %b: *<_ x f64>
    %next = add %k: i64, 1: i64
    branch 'loop(%next: i64, %b, %a)

`replay %n after %a period %p` stands right before the branch to a loop of %n trips. It says that a trip, from number %a
on, launches what the trip %p before it did: the same kernels, on the same memory, with the same numbers. So the back
end (backend/gpu/replays.py) runs %a + %p trips, records the launches of the last %p of them meanwhile, and has the
device replay these as often as they fit into what is left; the rest are trips again.

A loop is one of these if

* it counts, and nothing but the test at its head leaves it, exceptions aside;
* nothing that it launches, checks or decides depends on the counter, or on numbers that are on the device, which the
  host would have to fetch. Loops in it that are grids (ir/analysis/grids.py) are launches;
* what goes from trip to trip, beside the counter, are values from before the loop that change places, or arrays that
  each trip makes anew, whose memory takes turns (ir/analysis/turns.py): from some trip on they are where they were %p
  trips before;
* other memory that it allocates is freed in the same trip, and it calls, prints and draws nothing.

Loops in such a loop are marked as well: they are replayed where the outer one has too many launches to be recorded.
What was found for each loop is in `Function.meta` under REPLAYS, for reports. Stage scheduled.
"""

from __future__ import annotations

from dlvm_py.errors import Loc
from dlvm_py.ir.analysis.counted_loops import CountedLoop
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.grids import nests
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.analysis.turns import carried
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import Kind
from dlvm_py.ir.types import is_array, is_scalar
from dlvm_py.ir.value import Instruction, Literal, Value
from dlvm_py.transforms.cfg_canonicalization import join_edges, move_block
from dlvm_py.transforms.share_loops import LoopNote

# in `meta`: a LoopNote for each loop that launches something
REPLAYS = "replays"
# what a trip may do beside computing scalars and looking at views
_ALLOWED = frozenset(
    ("load", "store", "scatter", "allocateHeap", "retain", "release", "check", "branch", "conditional")
)


def run(function: Function, noalias_params: bool = True) -> bool:
    """Mark the loops of `function` that launch the same in every trip; whether there were any."""
    of = Independence(function, noalias_params)
    found_nests = nests(of)
    grids = [of.forest.loop_of(header) for header in found_nests]
    fetched = {header for header, nest in found_nests.items() if nest.sums}
    notes: list[LoopNote] = []
    chosen: list[tuple[CountedLoop, int, int]] = []
    for loop in of.forest.loops:
        if any(grid is not None and grid.contains(loop.header) for grid in grids):
            continue
        inner = {b for grid in grids if grid is not None for b in grid.blocks}
        if not any(b in inner or _is_root(i) for b in loop.ordered for i in b.instructions):
            continue
        reason, about = "", None
        try:
            for header in fetched & loop.blocks:
                raise _Varies("a number that is on the device is fetched", _loc(header))
            found = _Trips(of, inner, loop)
            chosen.append((found.counted, *found.turns()))
        except _Varies as varies:
            reason, about = varies.reason, varies.loc
        notes.append(LoopNote(_loc(loop.header), reason, about))
    for counted, after, period in chosen:
        _mark(function, counted, after, period)
    function.meta[REPLAYS] = tuple(notes)
    return bool(chosen)


def _loc(header: Block) -> Loc | None:
    return next((i.loc for i in reversed(header.instructions) if i.loc is not None), None)


def _is_root(i: Instruction) -> bool:
    """Whether an instruction is a launch."""
    return i.op.name in ("store", "scatter") or any(is_array(v.type) for v in i.operands) and not is_array(i.type)


def _mark(function: Function, counted: CountedLoop, after: int, period: int) -> None:
    header, loop = counted.loop.header, counted.loop
    edges = [(b, k) for b in function.blocks for k, t in enumerate(b.targets) if t.block is header]
    edges = [(b, k) for b, k in edges if not loop.contains(b)]
    block = edges[0][0]
    if len(edges) > 1 or len(block.targets) > 1:
        block = join_edges(function, edges, f"{header.name}_preheader" if header.name else "")
        move_block(function, block, before=header)
    b = Builder(function).before(block.instructions[-1])
    b.loc = _loc(header)
    b.emit("replay", _count(b, counted), after=after, period=period)


def _count(b: Builder, c: CountedLoop) -> Value:
    """How many trips a loop makes; a number below 1 stands for none."""
    if c.step < 0:
        return c.first
    if isinstance(c.first, Literal) and c.first.value == 0:
        return c.last
    # of numbers that are far apart the difference may be anything
    some = b.emit("lessThan", c.first, c.last)
    return b.emit("select", b.emit("subtract", c.last, c.first), literal(0), some)


class _Varies(Exception):
    """Why the trips of a loop are not the same."""

    def __init__(self, reason: str, loc: Loc | None) -> None:
        super().__init__(reason)
        self.reason, self.loc = reason, loc


class _Trips:
    """The trips of one loop. `grids`: the blocks of loops that are launches.

    Raises: _Varies where they are not the same.
    """

    def __init__(self, of: Independence, grids: set[Block], loop: Loop) -> None:
        self.of, self.grids, self.loop = of, grids, loop
        counted = of.counted[loop.header]
        if counted is None:
            raise _Varies("how often it runs is not known at its begin", _loc(loop.header))
        self.counted = counted
        for block, k in loop.exit_edges():
            if block is not loop.header and block.targets[k].block.instructions[-1].op.name != "raise":
                raise _Varies("break or return leaves it", block.instructions[-1].loc)
        self.carried = carried(of.function, counted)
        self.same = {*self.carried.passed, *self.carried.made}  # in the same way in trips that repeat each other
        for a in loop.header.args:
            if a is not counted.counter and a not in self.same:
                what = f"`{a.name}`" if a.name else "a value"
                raise _Varies(f"each trip makes {what} anew", _loc(loop.header))
        self.varying = self._spread()
        for block in loop.ordered:
            for i in block.instructions:
                self._look(i)

    def turns(self) -> tuple[int, int]:
        """The first trip that others repeat, and how many there are between two that are the same."""
        found = self.carried.turns()
        if found is None:
            raise _Varies("what it works on changes places in too many ways", _loc(self.loop.header))
        return found

    def _spread(self) -> set[Value]:
        """The values that change from trip to trip."""
        found: set[Value] = {a for a in self.loop.header.args if a not in self.same}
        size = -1
        while size != len(found):
            size = len(found)
            for block in self.loop.ordered:
                for i in block.instructions:
                    if not i.op.is_terminator and any(v in found for v in i.operands):
                        found.add(i)
                for target in block.targets:
                    if target.block is not self.loop.header:
                        found |= {a for a, v in zip(target.block.args, target.args, strict=True) if v in found}
        return found

    def _look(self, i: Instruction) -> None:
        is_grid = i.block in self.grids
        if i.op.name in _OTHERWISE and not (i.op.name == "load" and (is_grid or is_array(i.type)) or self._is_own(i)):
            raise _Varies(_OTHERWISE[i.op.name], i.loc)
        if i.op.name not in _ALLOWED and not is_pure(i) and i.op.kind is not Kind.ELEMENTWISE:
            raise _Varies(f"{i.op.name} has an effect of its own", i.loc)
        if is_scalar(i.type) and not is_grid and any(is_array(v.type) for v in i.operands):
            raise _Varies("a number that is on the device is fetched", i.loc)
        if is_pure(i) or i.op.name in ("load", "branch") or i is self.loop.header.instructions[-1]:
            return  # what is computed of numbers that change is seen where it is used
        if any(v in self.varying for v in i.operands):
            raise _Varies("what it depends on changes from trip to trip", i.loc)

    def _is_own(self, i: Instruction) -> bool:
        """Whether an instruction counts references to memory of the trip, or to what one trip hands to the next.

        What is gone when the trip is over is nobody's; what goes on has as many references in trips that are the same.
        """
        if i.op.name not in ("retain", "release"):
            return False
        return i in self.carried.events or all(
            isinstance(root, Instruction) and root.op.name == "allocateHeap" and self.loop.contains(root.block)
            for root in self.of.alias.roots(i.operands[0])
        )


_OTHERWISE = {
    "load": "a number that is on the device is fetched",
    "retain": "each trip counts references to arrays",
    "release": "each trip counts references to arrays",
    "apply": "it calls a function",
    "print": "what is printed comes in order",
}
