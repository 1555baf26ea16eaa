"""Chosen elements: the element at an index that the trips of a loop choose goes from trip to trip beside the index.

                                                        'loop(%j: i64, %m: i64, %v: f64):
    'loop(%j: i64, %m: i64):                                %more = lessThan %j, %n
        %more = lessThan %j, %n                             conditional %more then 'body() else 'exit()
        conditional %more then 'body() else 'exit()     'body():
    'body():                                                %x = load (elementPointer %a at %j)
        %x = load (elementPointer %a at %j)                 %less = lessThan %x, %v
        %y = load (elementPointer %a at %m)         =>      conditional %less then 'join(%j, %x) else 'join(%m, %v)
        %less = lessThan %x, %y                         'join(%next: i64, %w: f64):
        conditional %less then 'join(%j) else 'join(%m)     branch 'loop(%j1, %next, %w)
    'join(%next: i64):
        branch 'loop(%j1, %next)                        before 'loop: %v = load (elementPointer %a at %first)
                                                                where there is a first trip, anything elsewhere

`if a[j] < a[m]: m = j` finds the place of the least element. From one trip to the next it waited for the choice of the
index, the load and the comparison; now for the comparison and the choice of the element, which is one instruction.

The element is that of an array which is the same in all trips, and which no trip writes, at arguments of the header
and indices that do not change. Every way through a trip passes on the arguments as they are, or indices at which that
trip has loaded the element, and there is one of the first kind. (What a stencil has loaded in the trip before, at the
counter as it was then, is loaded again: LLVM's vectors are better off with that.) The first trip loads it before
anything can be raised: so it is there before the loop. Stage compute; a second run finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm_py.ir import OPS, Block, BlockArg, Builder, Function, Instruction, Target, Value, is_scalar, literal
from dlvm_py.ir.analysis.alias import SHARED, AliasAnalysis
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import is_outside
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure, may_trap, reads_memory, writes_memory
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.transforms.share_loops import mark_of
from dlvm_py.transforms.substitution import substitute

Place = tuple[Value, ...]  # an array, and an index for each axis
Edges = dict[Block, list[tuple[Block, int]]]


def run(function: Function, noalias_params: bool = True) -> bool:
    """Carry the elements that loops of `function` choose; whether there were any."""
    if function.meta.get(SHARED):
        return False
    changed = False
    graph: tuple[Edges, DominatorTree] | None = None  # since the last change
    for loop in LoopForest(function).loops:
        for place in dict.fromkeys(p for p, _ in _loads(loop) if _is_chosen(p, loop)):
            graph = graph or (predecessors(function), DominatorTree(function))
            if _Carrying(function, loop, place, noalias_params, *graph).run():
                changed, graph = True, None
    return changed


def _loads(loop: Loop) -> Iterator[tuple[Place, Instruction]]:
    """The loads of single elements in a loop, and what they load."""
    for block in loop.ordered:
        for i in block.instructions:
            if i.op is OPS["load"] and is_scalar(i.type):
                pointer = i.operands[0]
                if isinstance(pointer, Instruction) and pointer.op is OPS["elementPointer"] and not pointer.attrs:
                    yield tuple(pointer.operands), i


def _is_chosen(place: Place, loop: Loop) -> bool:
    """Whether arguments of the header are indices, and nothing else in the place is of the loop."""
    carried = [v for v in place if not is_outside(v, loop)]
    return bool(carried) and all(v in loop.header.args for v in carried)


class _Carrying:
    """The element at one place of a loop."""

    def __init__(
        self, function: Function, loop: Loop, place: Place, noalias_params: bool, edges: Edges, tree: DominatorTree
    ) -> None:
        self.function, self.loop, self.place, self.noalias_params = function, loop, place, noalias_params
        self.edges, self.tree = edges, tree
        self.loads = list(_loads(loop))
        self.ours = [i for p, i in self.loads if p == place]
        # blocks where ways meet that have different elements: for which place each gets an argument
        self.joins: dict[tuple[Block, Place], BlockArg | None] = {}
        self.is_kept = False  # on some way through a trip

    def run(self) -> bool:
        """Carry the element if that is possible; whether it is."""
        header = self.loop.header
        entering = [(b, k) for b, k in self.edges[header] if not self.loop.contains(b)]
        latches = [(b, k) for b, k in self.edges[header] if self.loop.contains(b)]
        following = [_passed(self.place, b.targets[k]) for b, k in latches]
        if (
            all(p == self.place for p in following)
            or any(mark_of(b) is not None for b, _ in entering)
            or not self._is_loaded_first()
            or not all(self._is_had(p, b) for p, (b, _) in zip(following, latches, strict=True))
            or not self.is_kept
            or self._may_be_written()
        ):
            return False
        self._enter(entering)
        element = header.add_arg(self.ours[0].type)
        for (block, place), argument in list(self.joins.items()):
            if argument is None:
                self.joins[block, place] = block.add_arg(element.type)
        for (block, place), _ in list(self.joins.items()):
            for source, k in self.edges[block]:
                target = source.targets[k]
                target.args.append(self._had(_passed(place, target), source, element))
        for place, (block, k) in zip(following, latches, strict=True):
            block.targets[k].args.append(self._had(place, block, element))
        self._replace(element)
        return True

    def _is_loaded_first(self) -> bool:
        """Whether each first trip loads the element, before it raises anything; the test for it can be made before."""
        header = self.loop.header
        if not all(map(is_pure, header.instructions[:-1])) or len(header.targets) != 2:
            return False
        inner = [t.block for t in header.targets if self.loop.contains(t.block)]
        block = inner[0]
        while len(inner) == 1 and block is not header:
            for i in block.instructions[:-1]:
                if i in self.ours:
                    return True
                if may_trap(i) or not (is_pure(i) or reads_memory(i)):
                    return False
            inner = [t.block for t in block.targets]
            block = inner[0]
        return False

    def _may_be_written(self) -> bool:
        """Whether a trip may write the array."""
        writes = [i for b in self.loop.ordered for i in b.instructions if writes_memory(i)]
        if not writes:
            return False
        alias = AliasAnalysis(self.function, self.noalias_params)
        return any(alias.may_write(i, self.place[0]) for i in writes)

    # -- what the element is at the end of a block -----------------------------------------------------------

    def _loaded(self, place: Place, block: Block) -> Instruction | None:
        """What a trip has loaded at a place by the end of a block."""
        return next((i for p, i in self.loads if p == place and self.tree.dominates(i.block, block)), None)

    def _is_had(self, place: Place, block: Block) -> bool:
        """Whether the element at a place is there at the end of a block; notes where ways meet on the way to it."""
        self.is_kept |= place == self.place
        if place == self.place or self._loaded(place, block):
            return True
        join = self._join(place)
        if join is None:
            return False
        if (join, place) not in self.joins:
            if not all(self._is_had(_passed(place, b.targets[k]), b) for b, k in self.edges[join]):
                return False
            self.joins[join, place] = None
        return True

    def _had(self, place: Place, block: Block, element: Value) -> Value:
        """The element at a place at the end of a block."""
        if place == self.place:
            return element
        loaded = self._loaded(place, block)
        if loaded is not None:
            return loaded
        join = self._join(place)
        assert join is not None
        argument = self.joins[join, place]
        assert argument is not None
        return argument

    def _join(self, place: Place) -> Block | None:
        """The block in a trip, no head of a loop, behind all others, of which indices are arguments."""
        made = [v for v in place if not is_outside(v, self.loop)]
        blocks = [v.block for v in made if isinstance(v, BlockArg)]
        for block in blocks:
            here = [v for v in made if v.block is block]  # type: ignore[attr-defined]
            last = all(self.tree.dominates(v.block, block) for v in made)  # type: ignore[attr-defined]
            ways = [b for b, _ in self.edges[block]]
            if last and all(isinstance(v, BlockArg) for v in here):
                return None if any(self.tree.dominates(block, b) for b in ways) else block
        return None

    # -- the code before the loop, and in it -------------------------------------------------------------------

    def _enter(self, entering: list[tuple[Block, int]]) -> None:
        """Load the element where there is a first trip."""
        header = self.loop.header
        gate, enter, ready = (Block(name) for name in ("gate", "enter", "ready"))
        at = self.function.blocks.index(header)
        self.function.blocks[at:at] = [gate, enter, ready]
        passed = {a: gate.add_arg(a.type, a.name) for a in header.args}
        for block, k in entering:
            block.targets[k].block = gate
        made: dict[Value, Value] = dict(passed)
        b = Builder(self.function).at_end(gate)
        for i in header.instructions[:-1]:
            b.clone(i, made)
        end = header.instructions[-1]
        nothing = literal(0, self.ours[0].type)
        targets = [Target(enter, []) if self.loop.contains(t.block) else Target(ready, [nothing]) for t in end.targets]
        test = made.get(end.operands[0], end.operands[0])
        gate.append(Instruction(OPS["conditional"], [test], targets=targets))
        pointer = Instruction(OPS["elementPointer"], [made.get(v, v) for v in self.place])
        first = Instruction(OPS["load"], [pointer])
        for i in (pointer, first, Instruction(OPS["branch"], [], targets=[Target(ready, [first])])):
            enter.append(i)
        argument = ready.add_arg(first.type)
        ready.append(Instruction(OPS["branch"], [], targets=[Target(header, [*passed.values(), argument])]))

    def _replace(self, element: BlockArg) -> None:
        """Put the element in the place of what the trips load there."""
        blocks = self.function.blocks
        for i in self.ours:
            assert i.block is not None
            i.block.instructions.remove(i)
        substitute(blocks, dict.fromkeys(self.ours, element))
        used = {v for b in blocks for i in b.instructions for v in i.operands}
        for pointer in {i.operands[0] for i in self.ours} - used:
            assert isinstance(pointer, Instruction) and pointer.block is not None
            pointer.block.instructions.remove(pointer)


def _passed(place: Place, target: Target) -> Place:
    """A place that is stated in arguments of a block, in what an edge to it passes."""
    # an argument for an element may have been added, to the block first
    given: dict[Value, Value] = dict(zip(target.block.args, target.args, strict=False))
    return tuple(given.get(v, v) for v in place)
