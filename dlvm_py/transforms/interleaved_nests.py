"""A loop and the one in it, whose trips run several at a time: whether they may, and the loop that does so.

This is no pass: interleave_loops.py asks for it, and says what is done; growing_trips.py has the loops whose inner one
has one term more in each trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from dlvm_py.ir import Block, Builder, Function, Instruction, TensorType, Value, is_scalar, literal
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, Edges
from dlvm_py.ir.analysis.effects import is_pure, writes_memory, written_pointer
from dlvm_py.transforms.inline import clone_region
from dlvm_py.transforms.packed_rows import Packed, pack

_SUMS = 3  # floats that a trip carries: more fill the registers
_BODY = 40  # instructions of the inner loop
_TAIL = 60  # and behind it

Maps = list[dict[Value, Value]]  # for each trip, what stands for the values of the loop


class Nest:
    """A loop and the one in it. way: the blocks from its head to the inner one. tail: those behind the inner one."""

    def __init__(self, function: Function, outer: CountedLoop, inner: CountedLoop, edges: Edges) -> None:
        self.function, self.outer, self.inner, self.edges = function, outer, inner, edges
        self.way: list[Block] = []
        block = outer.body
        while block is not inner.loop.header and len(edges[block]) == len(block.targets) == 1 and not block.args:
            self.way.append(block)
            block = block.targets[0].block
        self.reaches = block is inner.loop.header
        known = {outer.loop.header, *self.way, *inner.loop.blocks}
        self.raising = [
            b for b in dict.fromkeys(t.block for p in outer.loop.ordered for t in p.targets) if self._raises(b)
        ]
        self.tail = [*(b for b in outer.loop.ordered if b not in known), *self.raising]

    def _raises(self, block: Block) -> bool:
        return block not in self.outer.loop.blocks and block.instructions[-1].op.name == "raise"

    # -- whether -----------------------------------------------------------------------------------------

    def is_fit(self, noalias_params: bool) -> bool:
        """Whether the inner loop may be run ahead, and it is worth it."""
        outer, inner = self.outer.loop, self.inner.loop
        floats = [a for a in inner.header.args if is_scalar(a.type) and a.type.dtype.kind == "f"]  # type: ignore[attr-defined]
        if not self.reaches or len(inner.ordered) != 2 or not 1 <= len(floats) + self.finds_element() <= _SUMS:
            return False
        ahead = [*outer.header.instructions[:-1], *(i for b in self.way for i in b.instructions[:-1])]
        body = [i for b in inner.ordered for i in b.instructions[:-1]]
        ahead, body = ([i for i in part if i not in self.handled] for part in (ahead, body))
        if not all(_is_step(i) for i in (*ahead, *body)) or len(body) > _BODY:
            return False
        if sum(len(b.instructions) for b in self.tail) > _TAIL:
            return False
        leaving = [(b, b.targets[k].block) for b, k in outer.exit_edges()]
        if any(b is not outer.header and to not in self.raising for b, to in leaving):
            return False
        if any(p not in outer.blocks for b in self.raising for p, _ in self.edges[b]):
            return False
        if inner.exiting_block is not inner.header:
            return False
        return self._is_independent([*ahead, *body]) and self.reads_what_stays(ahead, body, noalias_params)

    # of a loop that grows: blocks before the inner loop of all trips, and what is not copied as it is
    between: Sequence[Block] = ()
    handled: AbstractSet[Instruction] = frozenset()

    def finds_element(self) -> bool:
        """Whether the inner loop updates an element in memory that may be kept in a register."""
        return False

    def _is_independent(self, ahead: list[Instruction]) -> bool:
        """Whether what runs ahead depends on no other value that the outer loop carries."""
        header = self.outer.loop.header
        carried = {a for a in header.args if a is not self.outer.counter}
        test = header.instructions[-1].operands[0]
        passed = [a for b in (header, *self.way) for t in b.targets if t.block in self._to for a in t.args]
        passed += [
            a for b in self.inner.loop.ordered for t in b.targets if t.block in self.inner.loop.blocks for a in t.args
        ]
        used = [o for i in ahead if i is not test for o in i.operands]
        return carried.isdisjoint([*passed, *used])

    @property
    def _to(self) -> set[Block]:
        return {*self.way, self.inner.loop.header}

    def reads_what_stays(self, ahead: list[Instruction], body: list[Instruction], noalias_params: bool) -> bool:
        """Whether no trip writes what runs ahead of it: what comes before the inner loop, and that."""
        loads = [i.operands[0] for i in (*ahead, *body) if i.op.name == "load"]
        writers = [i for b in self.tail for i in b.instructions if writes_memory(i)]
        if not loads or not writers:
            return True
        alias = AliasAnalysis(self.function, noalias_params)
        written = [written_pointer(i) for i in writers]
        return not any(to is None or alias.may_alias(to, p) for to in written for p in loads)

    # -- making it ---------------------------------------------------------------------------------------

    def packed(self, noalias_params: bool) -> Packed | None:
        """Copies of what the trips read of different rows, which `make` may be told to read."""
        blocks = (*self.way, *self.inner.loop.ordered)
        steps = [i for b in blocks for i in b.instructions]
        return pack(self.function, self.outer, self.inner, self.edges, steps, noalias_params)

    def make(self, trips: int, packed: Packed | None = None) -> Block:
        """Put the loop of so many trips at a time right before the loop; the head of what is new.

        packed: copies that it is to read, or else not to run.
        """
        header = self.outer.loop.header
        b = Builder(self.function)
        b.loc = header.instructions[-1].loc
        several, ahead, together, sums = (Block(name) for name in ("several", "ahead", "together", "sums"))
        passed: list[Value] = [several.add_arg(a.type, a.name) for a in header.args]
        for p, k in predecessors(self.function)[header]:
            if p not in self.outer.loop.blocks:
                p.targets[k].block = several
        counter = passed[header.args.index(self.outer.counter)]
        b.at_end(several)
        limit = b.emit("subtract", b.emit("max", self.outer.last, literal(trips - 1)), literal(trips - 1))
        if packed is not None:
            limit = b.emit("select", limit, literal(0), packed.fits)
        b.conditional(b.emit("lessThan", counter, limit), ahead, [], header, list(passed))

        b.at_end(ahead)
        counters = [counter, *(b.emit("add", counter, literal(t)) for t in range(1, trips))]
        maps = [self._first_map(dict(zip(header.args, passed, strict=True)), c) for c in counters]
        self.arrive(b, maps, packed, (header, passed))
        entering = (self.way[-1] if self.way else header).targets
        (entry,) = [t for t in entering if t.block is self.inner.loop.header]
        inner = self.inner.loop.header
        shared = inner.args.index(self.inner.counter)
        own = [k for k in range(len(inner.args)) if k != shared]

        def all_of(args: list[Value]) -> list[Value]:
            values = [m.get(args[k], args[k]) for m in maps for k in own]
            return [maps[0].get(args[shared], args[shared]), *values, *self.elements(maps)]

        b.branch(together, all_of(entry.args))
        e = together.add_arg(self.inner.counter.type, self.inner.counter.name)
        for m in maps:
            m[self.inner.counter] = e
            m.update((inner.args[k], together.add_arg(inner.args[k].type, inner.args[k].name)) for k in own)
        self.take_elements(maps, together)
        b.at_end(together)
        self.copy(b, [i for i in inner.instructions[:-1] if i not in self.handled], maps)
        test = inner.instructions[-1]
        entries = self._tails(maps, header, several)
        stays = 0 if test.targets[0].block in self.inner.loop.blocks else 1
        targets = [(sums, []), (entries[0], [])]
        b.conditional(maps[0].get(test.operands[0], test.operands[0]), *targets[stays], *targets[1 - stays])
        b.at_end(sums)
        (body,) = (block for block in self.inner.loop.ordered if block is not inner)
        self.copy(b, self.steps(body), maps, packed)
        self.step_elements(maps)
        b.branch(together, all_of(body.targets[0].args))
        at = self.function.blocks.index(header)
        self.function.blocks[at:at] = [several, ahead, *self.between, together, sums, *self.copies]
        return several

    def _first_map(self, passed: dict[Value, Value], counter: Value) -> dict[Value, Value]:
        return {**passed, self.outer.counter: counter}

    @staticmethod
    def copy(
        b: Builder, instructions: list[Instruction], maps: list[dict[Value, Value]], packed: Packed | None = None
    ) -> None:
        """Copies of instructions for all trips: one where it is the same in all of them."""
        for i in instructions:
            operands = [[m.get(o, o) for o in i.operands] for m in maps]
            for t, m in enumerate(maps):
                if t and operands[t] == operands[0]:
                    m[i] = maps[0][i]
                elif packed is not None and i in packed.copies:
                    m[i] = packed.pointer(b, i, operands[t][1:])
                else:
                    b.clone(i, m)

    # what loops that grow do besides

    def arrive(self, b: Builder, maps: Maps, packed: Packed | None, back: tuple[Block, list[Value]]) -> None:
        """What all trips do before the inner loop."""
        for block in (self.outer.loop.header, *self.way):
            self.copy(b, block.instructions[:-1], maps, packed)

    def steps(self, body: Block) -> list[Instruction]:
        """What a trip of the inner loop computes."""
        return body.instructions[:-1]

    def elements(self, maps: Maps) -> list[Value]:
        """What else the inner loop of all trips carries."""
        return []

    def take_elements(self, maps: Maps, together: Block) -> None:
        """Arguments of its head for that."""

    def step_elements(self, maps: Maps) -> None:
        """What a trip of it makes of that."""

    def finish(self, b: Builder, t: int, m: dict[Value, Value]) -> None:
        """What is left of the inner loop of trip `t`."""

    def _tails(self, maps: list[dict[Value, Value]], header: Block, several: Block) -> list[Block]:
        """What stands behind the inner loop, for one trip after the other; where each begins."""
        inner = self.inner.loop.header
        (out,) = (t for t in inner.targets if t.block not in self.inner.loop.blocks)
        at = header.args.index(self.outer.counter)
        entries = [Block("trip") for _ in maps]
        self.copies: list[Block] = []
        for t, m in enumerate(dict(m) for m in maps):
            if t:
                m.update((a, entries[t].add_arg(a.type, a.name)) for a in header.args if a is not self.outer.counter)
            b = Builder(self.function, entries[t])
            b.loc = inner.instructions[-1].loc
            self.finish(b, t, m)
            copies = clone_region(self.tail, m, "trip_")
            copy_of = dict(zip(self.tail, copies, strict=True))
            b.branch(copy_of.get(out.block, out.block), [m.get(v, v) for v in out.args])
            following = entries[t + 1] if t + 1 < len(maps) else several
            for block in (entries[t], *copies):
                for target in block.targets:
                    if target.block is header:
                        target.block = following
                        if following is not several:
                            del target.args[at]
            self.copies += [entries[t], *copies]
        return entries


def _is_step(i: Instruction) -> bool:
    """Whether an instruction is a pure step of scalars or pointers, or the load of one."""
    return (is_pure(i) and not (isinstance(i.type, TensorType) and i.type.shape)) or (
        i.op.name == "load" and is_scalar(i.type)
    )
