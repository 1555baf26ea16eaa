"""Interleaved loops: four trips of a loop run the loop inside of them as one, and their sums side by side.

    'loop(%j, %s):                                  'several(%j, %s):
        %m = lessThan %j, %n                            %m4 = lessThan %j, (max(%n, 3) - 3)
        conditional %m then 'in(0, 0.0)                 conditional %m4 then 'in4(0, 0.0, 0.0, 0.0, 0.0)
                       else 'exit()                                     else 'loop(%j, %s)
    'in(%e, %d):                                    'in4(%e, %d0, %d1, %d2, %d3):
        %k = lessThan %e, %w                            %k = lessThan %e, %w
        conditional %k then 'body() else 'after()       conditional %k then 'body4() else 'after0()
    'body():                                  =>    'body4():
        %x = load (%a at %e)                            %x = load (%a at %e)
        %y = load (%b at %j, %e)                        %y0 = load (%b at %j, %e);  %y1 = load (%b at %j + 1, %e); ..
        branch 'in(%e + 1, %d + %x * %y)                branch 'in4(%e + 1, %d0 + %x * %y0, %d1 + %x * %y1, ..)
    'after():                                       'after0(): (of %j, %s, %d0) .. 'after1(): (of %j + 1, .., %d1) ..
        ... (of %j, %s, %d) ...                         branch 'several(%j + 4, ..)
        branch 'loop(%j + 1, %t)                    'loop: as it was, for the trips that are left

A sum in the order of the program waits for its last addition in each trip. Four of them are under way at a time, and
what does not depend on the trip is read once for all four. The additions of each sum keep their order: the same bits.
Eight, as long as so many are left, and then four, are for tuning to find (decisions.py): they take from 0.5 to 1.6
times as long as four. Trips that read different rows of an array, in a loop that does so again and again, are eight at
a time and read a transposed copy (packed_rows.py).

The outer loop counts up from a number that is not negative, is left at its head (or by a `raise`), and has one loop in
it, which counts, has nothing inside, and carries floats. The bounds of that one are the same in all trips; what it
and the way to it compute depends on no other carried value, and reads no memory that the outer loop writes. So it may
be run ahead for trips that come later, also for one that an exception prevents: all of it is pure, or a load whose
index the counters' ends keep in range, since what is checked in each trip makes the pass leave the loop alone. Loops
that threads share (share_loops.py) stay as they are. Stage compute, once in a pipeline: what is left is such a loop.
"""

from __future__ import annotations

from dlvm_py.decisions import Decisions
from dlvm_py.ir import Block, Builder, Function, Instruction, TensorType, Value, is_scalar, literal
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, Edges, counted_loop, is_outside
from dlvm_py.ir.analysis.effects import is_pure, writes_memory, written_pointer
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.value import integer
from dlvm_py.transforms.inline import clone_region
from dlvm_py.transforms.packed_rows import Packed, pack
from dlvm_py.transforms.share_loops import mark_of

TRIPS, MORE = 4, 8
_SUMS = 3  # floats that a trip carries: more fill the registers
_BODY = 40  # instructions of the inner loop
_TAIL = 60  # and behind it


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Interleave the trips of loops of `function`; whether there were any."""
    decisions, changed = decisions or Decisions(), False
    made: set[Block] = set()
    while True:
        forest, edges = LoopForest(function), predecessors(function)
        for loop in forest.loops:
            if len(loop.children) == 1 and loop.header not in made:
                made.add(loop.header)
                found = _found(function, loop, edges, noalias_params)
                trips = decisions.take("interleave_loops.trips", TRIPS, (MORE, 2, 1)) if found is not None else 1
                if found is not None and trips > 1:
                    packed = found.packed(noalias_params)
                    if packed is not None:
                        made.add(found.make(MORE, packed))
                    made.update(found.make(n) for n in ([MORE, TRIPS] if trips == MORE else [trips]))
                    changed = True
                    break
        else:
            return changed


def _found(function: Function, loop: Loop, edges: Edges, noalias_params: bool) -> _Nest | None:
    """The loop and what is in it, None where it stays as it is."""
    outer, inner = counted_loop(loop, edges), counted_loop(loop.children[0], edges)
    if outer is None or inner is None or inner.loop.children or outer.step != 1 or (integer(outer.first) or 0) < 0:
        return None
    if integer(outer.first) is None or not (is_outside(inner.last, loop) and is_outside(inner.first, loop)):
        return None
    entering = [p for p, _ in edges[loop.header] if p not in loop.blocks]
    if any(mark_of(b) is not None for b in entering):
        return None
    nest = _Nest(function, outer, inner, edges)
    return nest if nest.is_fit(noalias_params) else None


class _Nest:
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
        if not self.reaches or not 1 <= len(floats) <= _SUMS or len(inner.ordered) != 2:
            return False
        ahead = [*outer.header.instructions[:-1], *(i for b in self.way for i in b.instructions[:-1])]
        body = [i for b in inner.ordered for i in b.instructions[:-1]]
        if not all(_is_step(i) for i in (*ahead, *body)) or len(body) > _BODY:
            return False
        if sum(len(b.instructions) for b in self.tail) > _TAIL:
            return False
        leaving = [(b, b.targets[k].block) for b, k in outer.exit_edges()]
        if any(b is not outer.header and to not in self.raising for b, to in leaving):
            return False
        if any(p not in outer.blocks for b in self.raising for p, _ in self.edges[b]):
            return False
        if [b for b, _ in inner.exit_edges()] != [inner.header]:
            return False
        return self._is_independent([*ahead, *body]) and self._reads_what_stays([*ahead, *body], noalias_params)

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

    def _reads_what_stays(self, ahead: list[Instruction], noalias_params: bool) -> bool:
        """Whether no trip writes what runs ahead of it."""
        loads = [i.operands[0] for i in ahead if i.op.name == "load"]
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
        blocks = [Block(name) for name in ("several", "ahead", "together", "sums")]
        several, ahead, together, sums = blocks
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
        for block in (header, *self.way):
            self._copy(b, block.instructions[:-1], maps, packed)
        entering = (self.way[-1] if self.way else header).targets
        (entry,) = [t for t in entering if t.block is self.inner.loop.header]
        inner = self.inner.loop.header
        shared = inner.args.index(self.inner.counter)
        own = [k for k in range(len(inner.args)) if k != shared]

        def all_of(args: list[Value]) -> list[Value]:
            return [maps[0].get(args[shared], args[shared]), *(m.get(args[k], args[k]) for m in maps for k in own)]

        b.branch(together, all_of(entry.args))
        e = together.add_arg(self.inner.counter.type, self.inner.counter.name)
        for m in maps:
            m[self.inner.counter] = e
            m.update((inner.args[k], together.add_arg(inner.args[k].type, inner.args[k].name)) for k in own)
        b.at_end(together)
        self._copy(b, inner.instructions[:-1], maps)
        test = inner.instructions[-1]
        entries = self._tails(maps, header, several)
        stays = 0 if test.targets[0].block in self.inner.loop.blocks else 1
        targets = [(sums, []), (entries[0], [])]
        b.conditional(maps[0].get(test.operands[0], test.operands[0]), *targets[stays], *targets[1 - stays])
        b.at_end(sums)
        (body,) = (block for block in self.inner.loop.ordered if block is not inner)
        self._copy(b, body.instructions[:-1], maps, packed)
        b.branch(together, all_of(body.targets[0].args))
        at = self.function.blocks.index(header)
        self.function.blocks[at:at] = [*blocks, *self.copies]
        return several

    def _first_map(self, passed: dict[Value, Value], counter: Value) -> dict[Value, Value]:
        return {**passed, self.outer.counter: counter}

    @staticmethod
    def _copy(
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
                    m[i] = b.insert(Instruction(i.op, operands[t], dict(i.attrs), type=i.type, name=i.name, loc=i.loc))

    def _tails(self, maps: list[dict[Value, Value]], header: Block, several: Block) -> list[Block]:
        """What stands behind the inner loop, for one trip after the other; where each begins."""
        inner = self.inner.loop.header
        (out,) = (t for t in inner.targets if t.block not in self.inner.loop.blocks)
        at = header.args.index(self.outer.counter)
        entries = [Block("trip") for _ in maps]
        self.copies: list[Block] = []
        for t, m in enumerate(maps):
            if t:
                m.update((a, entries[t].add_arg(a.type, a.name)) for a in header.args if a is not self.outer.counter)
            copies = clone_region(self.tail, m, "trip_")
            copy_of = dict(zip(self.tail, copies, strict=True))
            Builder(self.function, entries[t]).branch(
                copy_of.get(out.block, out.block), [m.get(v, v) for v in out.args]
            )
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
