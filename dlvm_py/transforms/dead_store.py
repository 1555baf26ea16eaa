"""Dead store elimination: what is written over, or forgotten, before anybody reads it is not written.

    %m = allocateHeap f64 count (%n: i64)           %m = allocateHeap f64 count (%n: i64)
    %z = broadcast 0.0: f64 to (%n: i64)            %v = load %x: *<_ x f64>
    store %z: <_ x f64> to %m: *<_ x f64>      =>   store %v: <_ x f64> to %m: *<_ x f64>
    %v = load %x: *<_ x f64>                        return %m: *<_ x f64>
    store %v: <_ x f64> to %m: *<_ x f64>
    %w = load %m: *<_ x f64>
    store %w: <_ x f64> to %m: *<_ x f64>
    return %m: *<_ x f64>

A store of an array, or of an element, goes if it is to memory that this function allocates, and

* on every path from it the first that happens to these elements is a store of all of them, or the function ends
  without that memory: a raise leaves nothing of it behind. All but loads, stores and views that is given a pointer to
  that memory counts as reading it. On a path that comes back to where the store may run again, the names that it has
  here stand for other elements: there any load from that memory counts, unless the counters of the loops tell the two
  places apart (later_places.py), and only a store of all of it ends the path.
  Unless the memory is made anew there: the names stand for the new one then, and who reads the old one has another; or
* it stores what was loaded from the same elements, with no write to them in between.

Memory of callers is left alone: a raise shows it, and whether a function writes to it is part of what it is. Gradients
fill their memory with zeros before they know what will be added to it first, and fill what a trip has taken the
adjoint of with zeros for those before it, which often have other elements; this pass takes these fills away.
Stages raw and optimizable. Cost: for each candidate at most STEPS instructions are looked at that may touch memory.
"""

from __future__ import annotations

from dlvm_py.ir.analysis.alias import AliasAnalysis, whole
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import counted_loop
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import writes_memory, written_pointer
from dlvm_py.ir.analysis.later_places import Counter, LaterPlaces
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.places import Linear, linear
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import Kind
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.types import PointerType, StackType, TupleType
from dlvm_py.ir.value import Instruction, Value

STEPS = 2000
# what the names of a store stand for, further on along a path
_SAME, _OTHER_ELEMENTS, _OTHER_MEMORY = "same", "other elements", "other memory"
# what a stack gives back was pushed, which counts; who reads it then has a pointer from there
_LOOKS_NOWHERE = frozenset(("extent", "branch", "pop", "destroyStack"))


def run(function: Function, noalias_params: bool = True) -> bool:
    """Remove the dead stores of `function`; whether anything changed."""
    if not any(_root_of(i) for i in function.instructions()):
        return False
    search = _Search(function, AliasAnalysis(function, noalias_params))
    changed = False
    for block in function.blocks:
        # the last first: a store that is only read by a dead one is found dead in the same run
        for i in reversed(list(block.instructions)):
            if _root_of(i) is not None and (search.is_copied_back(i) or search.is_dead(i)):
                block.instructions.remove(i)
                search.forget(i)
                changed = True
    return changed


def _root_of(i: Instruction) -> Value | None:
    """The allocation that a store writes to, through views or not; else None."""
    if i.op is not OPS["store"]:
        return None
    root = _base(i.operands[1])
    return root if isinstance(root, Instruction) and root.op is OPS["allocateHeap"] else None


def _base(pointer: Value) -> Value:
    while isinstance(pointer, Instruction) and pointer.op.kind is Kind.INDEX:
        pointer = pointer.operands[0]
    return pointer


def _given(i: Instruction) -> list[Value]:
    """The operands by which `i` may look at memory."""
    if i.op.kind is Kind.INDEX or i.op.name in _LOOKS_NOWHERE:
        return []
    given = i.operands[:1] if i.op is OPS["load"] or written_pointer(i) is not None else i.operands
    return [v for v in given if isinstance(v.type, PointerType | StackType | TupleType)]


def _is_call(i: Instruction) -> bool:
    return i.op is OPS["apply"] or i.op is OPS["applyValue"]


class _Search:
    """Questions about one function; stores may go meanwhile."""

    def __init__(self, function: Function, alias: AliasAnalysis) -> None:
        self.alias = alias
        self.dominators = of_graph(DominatorTree, function)
        self.places = _Places(function)
        # what touches memory in each block, and by what: paths from many stores go past the same instructions
        self._touching: dict[Block, list[tuple[Instruction, list[Value]]]] = {}

    def is_copied_back(self, s: Instruction) -> bool:
        """Whether the store puts back what it has loaded."""
        value, pointer = s.operands
        if not isinstance(value, Instruction) or value.op is not OPS["load"] or value.block is not s.block:
            return False
        if not self.alias.same_elements(value.operands[0], pointer):
            return False
        assert s.block is not None
        body = s.block.instructions
        between = body[body.index(value) + 1 : body.index(s)]
        return not any(writes_memory(i) and self.alias.may_write(i, pointer) for i in between)

    def is_dead(self, s: Instruction) -> bool:
        """Whether nobody reads what the store leaves."""
        assert s.block is not None
        root = _root_of(s)
        home = root.block if isinstance(root, Instruction) else None
        assert home is not None
        # (block, where to begin, what the names stand for by now)
        pending = [(s.block, [i for i, _ in self._touches(s.block)].index(s) + 1, _SAME)]
        seen: set[tuple[Block, str]] = set()
        steps = 0
        while pending:
            block, first, state = pending.pop()
            pointer = root if state == _OTHER_ELEMENTS else s.operands[1]
            anew = root if state == _OTHER_MEMORY else None
            for i, given in self._touches(block)[first:]:
                steps += 1
                if steps > STEPS:
                    return False
                if self._reads(i, given, pointer, anew) and not (
                    state == _OTHER_ELEMENTS and self.places.are_apart(s, i)
                ):
                    return False
                if state != _OTHER_MEMORY and i.op is OPS["store"] and self._covers(i.operands[1], pointer, root):
                    break
            else:
                for successor in block.successors():
                    after = state
                    if state != _OTHER_MEMORY and self.dominators.dominates(successor, s.block):
                        is_anew = self.dominators.dominates(successor, home)
                        after = _OTHER_MEMORY if is_anew else _OTHER_ELEMENTS
                    if (successor, after) not in seen:
                        seen.add((successor, after))
                        pending.append((successor, 0, after))
        return True

    def forget(self, s: Instruction) -> None:
        """A store has gone from its block."""
        assert s.block is not None
        self._touching.pop(s.block, None)

    def _touches(self, block: Block) -> list[tuple[Instruction, list[Value]]]:
        """The calls and stores of a block and what else looks at memory, with the operands by which it does."""
        if block not in self._touching:
            every = ((i, _given(i)) for i in block.instructions)
            self._touching[block] = [(i, given) for i, given in every if given or i.op is OPS["store"] or _is_call(i)]
        return self._touching[block]

    def _covers(self, pointer: Value, wanted: Value, root: Value | None) -> bool:
        return whole(pointer) is root or self.alias.same_elements(pointer, wanted)

    def _reads(self, i: Instruction, given: list[Value], pointer: Value, anew: Value | None) -> bool:
        """Whether `i` may look at the elements, or lets somebody else look at them.

        anew: the root of `pointer`, where it stands for other memory by now.
        """
        return _is_call(i) or any(self._is_old(v, anew) and self._reaches(v, pointer) for v in given)

    @staticmethod
    def _is_old(v: Value, anew: Value | None) -> bool:
        return anew is None or _base(v) is not anew

    def _reaches(self, v: Value, pointer: Value) -> bool:
        if isinstance(v.type, PointerType):
            return self.alias.may_alias(v, pointer)
        if isinstance(v.type, StackType):
            return isinstance(v.type.element, PointerType | TupleType)
        # a root that is no pointer is what a call gives, of which any part may be meant
        return isinstance(v.type, TupleType) and any(
            not isinstance(r.type, PointerType) or self.alias.may_alias(r, pointer) for r in self.alias.roots(v)
        )


class _Places:
    """Tells elements that are stored from elements that are loaded when a loop around the store has gone on."""

    def __init__(self, function: Function) -> None:
        self._loops = of_graph(LoopForest, function)
        self._edges = predecessors(function)
        self._counters: dict[Loop, Counter | None] = {}
        self._later = LaterPlaces(self._loops.loop_of, self._counter)

    def are_apart(self, s: Instruction, i: Instruction) -> bool:
        """Whether i is a load of none of the elements that the store s wrote before."""
        if i.op is not OPS["load"]:
            return False
        assert s.block is not None and i.block is not None
        loop = self._loops.loop_of(s.block)
        has_left = loop is not None and not loop.contains(i.block)
        return self._later.is_apart((s.block, s.operands[1]), (i.block, i.operands[0]), has_left)

    def _counter(self, loop: Loop) -> Counter | None:
        if loop not in self._counters:
            found = counted_loop(loop, self._edges)
            counter = None
            if found is not None:
                is_down = found.step == -1
                low, high = (linear(v).plus(Linear(int(is_down))) for v in found.ends)
                counter = Counter(found.counter, low, high.plus(Linear(-1)), is_down)
            self._counters[loop] = counter
        return self._counters[loop]
