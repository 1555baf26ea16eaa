"""Element promotion: an element that a loop updates is kept in a register until the loop ends.

    'loop(%k: i64):                                     %s = allocateStack f64 count 1
        %m = lessThan %k, %i                            conditional (lessThan 0, %i) then 'enter() else 'ready()
        conditional %m then 'body() else 'exit()    'enter():  check %c ...;  store (load %p) to %s;  branch 'ready()
    'body():                                        'loop(%k: i64):
        check %c else IndexError ...            =>      %m = lessThan %k, %i
        %x = load %p: *f64          (a[i, j])           conditional %m then 'body() else 'left()
        %y = load %q: *f64          (a[i, k])       'body():
        store (subtract %x, %y) to %p                   %x = load %s;  %y = load %q
        branch 'loop(%k + 1)                            store (subtract %x, %y) to %s
                                                        branch 'loop(%k + 1)
                                                    'left(): conditional (lessThan 0, %i) then 'leave() else 'exit()
                                                    'leave():  store (load %s) to %p;  branch 'exit()

The loop counts (counted_loops.py), contains no other, and is left at its head alone. The element has fixed indices, is
stored to in every trip, and nothing else in the loop touches it: other elements of its array are at other indices, as
their linear forms say (k < j, or i + 1), and no other array shares its memory. Checks of what is the same in all trips,
which may say that there is such an element, come first in the body and move to 'enter, before it is read. What else a
trip may raise must not let anybody see the memory without the latest sum: it is memory that is gone with the function.

(A signal whose handler raises in the middle of the loop, KeyboardInterrupt, leaves the element as it was at its entry.)
LLVM makes the cell a register. With the element in memory every trip waits for the store before it, and no loop is
vectorised. Stage compute or scheduled; a second run finds nothing.
"""

from __future__ import annotations

from functools import cached_property

from dlvm_py.frozen import Mutable, field
from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, Kind, Literal, PointerType, Target, Value, is_scalar
from dlvm_py.ir.analysis.alias import SHARED, AliasAnalysis
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, counted_loop, is_outside
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure, may_trap, reads_memory, writes_memory
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.places import Linear, Place, linear, parts_of, place_of
from dlvm_py.transforms.loop_nests import made_again
from dlvm_py.transforms.share_loops import mark_of


def run(function: Function, noalias_params: bool = True) -> bool:
    """Keep the elements that inner loops update in registers; whether there were any."""
    if function.meta.get(SHARED):
        return False
    changed = False
    for loop in LoopForest(function).loops:
        if not loop.children:
            changed |= _promote(function, loop, noalias_params)
    return changed


def _promote(function: Function, loop: Loop, noalias_params: bool) -> bool:
    edges = predecessors(function)
    counted = counted_loop(loop, edges)
    if counted is None or loop.exiting_block is not loop.header:
        return False
    if any(mark_of(b) is not None for b, _ in edges[loop.header] if not loop.contains(b)):
        return False  # what its trips leave in memory no other one reads
    found = _Search(function, loop, counted, noalias_params).elements()
    if not found.elements:
        return False
    _Rewrite(function, counted, edges, found).run()
    return True


class _Element(Mutable):
    """Memory of one element: where it is, and the loads and stores of the loop that touch it."""

    pointer: Value
    place: Place
    uses: list[Instruction] = field(default_factory=list)


class _Found(Mutable):
    elements: list[_Element]
    checks: list[Instruction]  # those that move in front of the loop


class _Search:
    """Which elements of a loop can be promoted."""

    def __init__(self, function: Function, loop: Loop, counted: CountedLoop, noalias_params: bool) -> None:
        self.function, self.loop, self.counted, self.noalias_params = function, loop, counted, noalias_params
        self.dominators = of_graph(DominatorTree, function)
        self.instructions = [i for b in loop.ordered for i in b.instructions]

    @cached_property
    def alias(self) -> AliasAnalysis:
        """Made for loops that update a fixed element alone: few do."""
        return AliasAnalysis(self.function, self.noalias_params)

    def elements(self) -> _Found:
        """All of them, with the checks that they need moved."""
        if any(i.op.kind in (Kind.CALL, Kind.HIGHER_ORDER) for i in self.instructions):
            return _Found([], [])
        groups: dict[tuple[object, ...], _Element] = {}
        touching = [i for i in self.instructions if reads_memory(i) or writes_memory(i) or i.op is OPS["check"]]
        for i in touching:
            if i.op.name in ("load", "store") and is_scalar(i.operands[0].type if i.op.name == "store" else i.type):
                pointer = i.operands[-1]
                place = place_of(pointer)
                starts = ((a.start and (a.start.constant, *a.start.terms.items())) for a in place.axes)
                key = (place.base, parts_of(pointer), *starts)
                groups.setdefault(key, _Element(pointer, place)).uses.append(i)
        checks, rest = self._leading_checks()
        if any(i.op is OPS["check"] and self._is_same(i.operands[0]) for i in rest):
            return _Found([], [])  # it may be what says that there is such an element
        raises = any(may_trap(i) for i in rest)
        good = [
            e
            for e in groups.values()
            if self._is_updated(e) and self._is_fixed(e) and self._is_alone(e, touching) and self._is_unseen(e, raises)
        ]
        return _Found(good, checks)

    def _leading_checks(self) -> tuple[list[Instruction], list[Instruction]]:
        """The checks with which every trip begins, the same in all of them; and all else that a trip does."""
        checks: list[Instruction] = []
        for i in self.counted.body.instructions:
            if i.op is OPS["check"] and all(is_outside(v, self.loop) for v in i.operands):
                checks.append(i)
            elif not (is_pure(i) or i.op.name == "load"):
                break
        if self.counted.body is self.loop.header:
            checks = []
        return checks, [i for i in self.instructions if i not in checks]

    def _is_same(self, v: Value) -> bool:
        """Whether a value follows from what is outside of the loop."""
        if is_outside(v, self.loop):
            return True
        return isinstance(v, Instruction) and is_pure(v) and all(map(self._is_same, v.operands))

    def _is_updated(self, e: _Element) -> bool:
        """Whether every trip loads and stores it."""
        (latch,) = self.loop.latches
        stores = [i for i in e.uses if i.op.name == "store"]
        return any(self.dominators.dominates(i.block, latch) for i in stores) and len(stores) < len(e.uses)  # type: ignore[arg-type]

    def _is_fixed(self, e: _Element) -> bool:
        """Whether it is the same element in all trips, with a name outside the loop."""
        base = e.place.base
        return (
            isinstance(base.type, PointerType)
            and base.type.layout != "S"
            and not isinstance(base, Literal)
            and all(a.start is not None and a.count == 1 for a in e.place.axes)
            and can_move(e.pointer, self.loop)
        )

    def _is_alone(self, e: _Element, touching: list[Instruction]) -> bool:
        """Whether nothing but its own loads and stores touches it."""
        ours = set(e.uses)
        for i in touching:
            if i in ours:
                continue
            for pointer in (v for v in i.operands if isinstance(v.type, PointerType)):
                place = place_of(pointer)
                if place.base is e.place.base:
                    if not any(
                        self._apart(a.start, b.start, b.count) for a, b in zip(e.place.axes, place.axes, strict=True)
                    ):
                        return False
                elif self.alias.may_overlap(e.place.base, place.base):
                    return False
        return True

    def _apart(self, fixed: Linear | None, other: Linear | None, count: int | None) -> bool:
        """Whether an index is never the fixed one."""
        if fixed is None or other is None or count != 1:
            return False
        counter, step = self.counted.counter, self.counted.step
        factor = other.terms.get(counter, 0)
        gap = fixed.plus(other, -1).plus(Linear(0, {counter: 1}), factor)  # fixed - other, but for the counter
        if factor == 0:
            return not gap.terms and gap.constant != 0
        if abs(factor) != 1:
            return False
        first, last = linear(self.counted.first), _unclamped(self.counted.last)
        low, high = (first, last.plus(Linear(-1))) if step == 1 else (last.plus(Linear(1)), first)
        ends = (low, high) if factor == 1 else (high.times(-1), low.times(-1))
        below, above = ends[0].plus(gap, -1), gap.plus(ends[1], -1)  # other > fixed in all trips; other < fixed
        return any(not side.terms and side.constant > 0 for side in (below, above))

    def _is_unseen(self, e: _Element, raises: bool) -> bool:
        """Whether nobody can look at the memory in the middle of the loop."""
        return not raises or self.alias.is_local(e.place.base)


def _unclamped(last: Value) -> Linear:
    """The bound of a loop from 0 up: where there is a trip at all, max(n, 0) is n."""
    if isinstance(last, Instruction) and last.op.name == "max":
        a, b = last.operands
        if isinstance(b, Literal) and b.value == 0:
            return linear(a)
    return linear(last)


def can_move(pointer: Value, loop: Loop) -> bool:
    """Whether a pointer can be made in front of the loop."""
    if is_outside(pointer, loop):
        return True
    return (
        isinstance(pointer, Instruction)
        and pointer.op.kind is Kind.INDEX
        and all(can_move(v, loop) if isinstance(v.type, PointerType) else is_outside(v, loop) for v in pointer.operands)
    )


class _Rewrite:
    """The rewriting of one loop."""

    def __init__(
        self, function: Function, counted: CountedLoop, edges: dict[Block, list[tuple[Block, int]]], found: _Found
    ) -> None:
        self.function, self.counted, self.edges, self.found = function, counted, edges, found
        self.loop = counted.loop

    def run(self) -> None:
        """Cells, and the blocks around the loop that fill and empty them."""
        header = self.loop.header
        entering = [(p, k) for p, k in self.edges[header] if not self.loop.contains(p)]
        gate, enter, ready = self._block("gate", header), self._block("enter", header), self._block("ready", header)
        passed: list[Value] = [gate.add_arg(a.type, a.name) for a in header.args]
        for block, k in entering:
            block.targets[k].block = gate
        first = passed[header.args.index(self.counted.counter)]
        test = "lessThan" if self.counted.step == 1 else "notEqual"
        runs = Instruction(OPS[test], [first, self.counted.last], {})
        gate.append(runs)
        gate.append(Instruction(OPS["conditional"], [runs], targets=[Target(enter, []), Target(ready, [])]))
        ready.append(Instruction(OPS["branch"], [], targets=[Target(header, list(passed))]))
        exit_block, at = self.loop.exit_edges()[0]
        behind = exit_block.targets[at]
        left, leave = self._block("left", behind.block), self._block("leave", behind.block)
        gone = self._block("gone", behind.block)
        exit_block.targets[at] = Target(left, [])
        left.append(Instruction(OPS["conditional"], [runs], targets=[Target(leave, []), Target(gone, [])]))
        gone.append(Instruction(OPS["branch"], [], targets=[behind]))
        for check in self.found.checks:
            assert check.block is not None
            check.block.instructions.remove(check)
            enter.append(check)
        for e in self.found.elements:
            self._keep(e, gate, enter, leave)
        enter.append(Instruction(OPS["branch"], [], targets=[Target(ready, [])]))
        leave.append(Instruction(OPS["branch"], [], targets=[Target(gone, [])]))

    def _block(self, name: str, before: Block) -> Block:
        block = Block(name)
        self.function.blocks.insert(self.function.blocks.index(before), block)
        return block

    def _keep(self, e: _Element, gate: Block, enter: Block, leave: Block) -> None:
        kind = next(i.operands[0].type for i in e.uses if i.op.name == "store")
        cell = Instruction(OPS["allocateStack"], [], {"type": kind, "count": 1})
        # here and not at the entry of the function: where threads share a loop around this one, each has its own
        cell.block = gate
        gate.instructions.insert(0, cell)
        for block, source, dest in ((enter, e.pointer, cell), (leave, cell, e.pointer)):
            b = Builder(self.function).at_end(block)
            source, dest = (made_again(b, p, self.loop, {}) for p in (source, dest))
            b.emit("store", b.emit("load", source), dest)
        for i in e.uses:
            i.operands[-1] = cell
