"""The graph of a loop whose reverse sweep runs it again in segments; checkpoint.py says what it looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm_py.frozen import Mutable, field
from dlvm_py.ir import (
    F64,
    I64,
    UNDEFINED,
    Block,
    Builder,
    Instruction,
    Literal,
    PointerType,
    Target,
    TensorType,
    Value,
    literal,
    scalar,
)
from dlvm_py.ir.analysis.effects import unchecked
from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.transforms.differentiate.arguments import allocate_like, entry_builder
from dlvm_py.transforms.differentiate.control import Control
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.differentiate.shadows import zeros_like
from dlvm_py.transforms.differentiate.strip_mine import StripMined
from dlvm_py.transforms.ssa_repair import ASSIGN, Variable, assignment

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.reverse import Sweep

LITTLE = 64 * 1024  # bytes of tape that are not worth saving
_NUMBER = scalar(I64)


class Segmented(Mutable):
    """A loop that is run again.

    roots: the memory of a state. fresh: the shadows that each segment has anew, and whose they are. handed: of those
    that are used behind the loop, what stands for them there.
    """

    mined: StripMined
    loop: Loop
    roots: list[Value]
    fresh: dict[Value, Value] = field(default_factory=dict)
    handed: list[tuple[Value, Value]] = field(default_factory=list)

    def instructions(self) -> list[Instruction]:
        """What the loop holds now."""
        return [i for block in self.loop.ordered for i in block.instructions]


def is_inside(root: Value, loop: Loop) -> bool:
    """Whether memory is allocated in a loop."""
    return isinstance(root, Instruction) and root.block is not None and loop.contains(root.block)


class Rearrangement:
    """Rearranges the graph for one loop, once the tape has been added. Values need repair afterwards."""

    def __init__(self, primal: Primal, segmented: Segmented, sweep: Sweep, control: Control) -> None:
        self._primal = primal
        self._function = primal.function
        self._s = segmented
        self._loop = segmented.loop
        wanted = primal.config.checkpoint
        self._budget = wanted if isinstance(wanted, int) else None  # None: as few bytes as possible
        self._sweep = sweep
        self._trip = control.trips[self._loop]
        self._segment = control.counters[self._loop]  # the segment that is to be reversed next
        self._exit = primal.exits[self._loop]
        self._preheader = primal.preheader(self._loop)
        self._latch = primal.latch(self._loop)
        # the exit edge is the only one that leads to the exit
        ((self._last, self._way),) = primal.edges[self._exit]
        header = self._loop.header
        self._started = dict(zip(header.args, self._preheader.targets[0].args, strict=True))
        self._carried = dict(zip(header.args, self._latch.targets[0].args, strict=True))
        self._state = [a for a in header.args if a not in segmented.fresh and a is not self._trip]
        self._fresh = [a for a in header.args if a in segmented.fresh]
        self._held = {v: Variable(v.type, v.name) for v in self._state}
        self._later = {v: Variable(v.type, v.name) for v in self._fresh}  # of the segment that was reversed last
        self._at = Variable(_NUMBER, "at")
        self._kept = Variable(_NUMBER, "kept")
        self._bytes = Variable(_NUMBER, "tape_bytes")
        b = entry_builder(self._function)
        self._numbers = self._stack(b, _NUMBER)
        self._states = [self._stack(b, v.type) for v in self._state]
        self._contents = [self._stack(b, PointerType(r.type.pointee)) for r in segmented.roots]  # type: ignore[attr-defined]

    @staticmethod
    def _stack(b: Builder, element: object) -> Value:
        return b.emit("createStack", name="states", element=element)

    def run(self) -> list[Value]:
        """Do it; the stacks that hold the states."""
        first = self._blocks(self._loop.header)
        blocks, values = self._copy(first, {self._s.mined.length: self._s.mined.length}, counts=True)
        self._first_sweep(blocks, values)
        limits = self._limits(values[self._s.mined.step])
        self._resume(*limits)
        return [self._numbers, *self._states, *self._contents]

    # -- copies of the loop ------------------------------------------------------------------------------

    def _blocks(self, before: Block) -> dict[Block, Block]:
        """New blocks for those of the loop, placed before another one."""
        made = {block: Block(block.name) for block in self._loop.ordered}
        at = self._function.blocks.index(before)
        self._function.blocks[at:at] = made.values()
        return made

    def _copy(
        self, blocks: dict[Block, Block], start: dict[Value, Value], counts: bool
    ) -> tuple[dict[Block, Block], dict[Value, Value]]:
        """Fill copies of the blocks: without the tape, and without memory for adjoints that nothing will flow to.

        counts: for the first sweep, which adds up the bytes of the tape, checks, and assigns what the reverse of
        other blocks needs.
        """
        values = dict(start)
        left_out: set[Instruction] = set()
        for old, new in blocks.items():
            for arg in old.args:
                values[arg] = new.add_arg(arg.type, arg.name)
            for i in old.instructions:
                if self._is_left_out(i, counts):
                    left_out.add(i)
                    continue
                attrs = dict(i.attrs) if counts else unchecked(i)
                values[i] = new.append(Instruction(i.op, [], attrs, type=i.type, name=i.name, loc=i.loc))
        for v in self._s.fresh:
            values[v] = Literal(v.type, UNDEFINED)
        for old, new in blocks.items():
            for i in old.instructions:
                if i in left_out:
                    continue
                made = values[i]
                assert isinstance(made, Instruction)
                made.operands = [values.get(v, v) for v in i.operands]
                made.targets = [
                    Target(blocks.get(t.block, t.block), [values.get(v, v) for v in t.args]) for t in i.targets
                ]
            if counts:
                self._count_tape(old, new, values)
        return blocks, values

    def _is_left_out(self, i: Instruction, counts: bool) -> bool:
        if i in self._s.fresh or (i.op.name == "store" and i.operands[1] in self._s.fresh):
            return True
        if i.op is ASSIGN:
            return not counts or i.operands[0] in self._s.fresh
        return i.op.name == "push" or (i.op.name == "check" and not counts)

    def _count_tape(self, old: Block, new: Block, values: dict[Value, Value]) -> None:
        pushed = [i.operands[0] for i in old.instructions if i.op.name == "push"]
        if pushed:
            b = Builder(self._function).before(new.instructions[-1])
            total: Value = self._bytes
            for v in pushed:
                whose = self._s.fresh.get(v, v)
                total = b.emit("add", total, self._size(b, values.get(whose, whose)))
            b.insert(assignment(self._bytes, total))

    @staticmethod
    def _size(b: Builder, value: Value) -> Value:
        """The bytes of a value, or of what a pointer refers to."""
        t = value.type.pointee if isinstance(value.type, PointerType) else value.type
        assert isinstance(t, TensorType)
        size: Value = literal(t.dtype.itemsize)
        for n in extents_of(b, value):
            size = b.emit("multiply", size, n)
        return size

    def _close(self, blocks: list[Block], *others: Block) -> None:
        """In a run that is known neither to raise nor to end elsewhere: no edge leads anywhere else."""
        known = {*blocks, *others}
        for block in blocks:
            stay = [t for t in block.targets if t.block in known]
            if len(stay) < len(block.targets):
                block.instructions.pop()
                Builder(self._function, block).branch(stay[0].block, stay[0].args)

    # -- the first sweep ---------------------------------------------------------------------------------

    def _first_sweep(self, blocks: dict[Block, Block], values: dict[Value, Value]) -> None:
        """Put the copy in the place of the loop, and keep the state in which it begins."""
        outside = [b for b in self._function.blocks if b not in self._loop.blocks and b not in blocks.values()]
        moved = {v: w for v, w in values.items() if v is not self._s.mined.length}
        for block in outside:
            for i in block.instructions:
                i.substitute(moved)
        header = self._loop.header
        target = self._preheader.targets[0]
        target.block = blocks[header]
        target.args = [Literal(a.type, UNDEFINED) if a in self._s.fresh else self._started[a] for a in header.args]
        b = Builder(self._function).before(self._preheader.instructions[-1])
        b.insert(assignment(self._bytes, literal(0)))
        self._keep(b, literal(0), [self._started[v] for v in self._state])

    def _keep(self, b: Builder, number: Value, state: list[Value]) -> None:
        """Push the state in which segment `number` begins."""
        b.emit("push", number, self._numbers)
        for v, stack in zip(state, self._states, strict=True):
            b.emit("push", v, stack)
        for root, stack in zip(self._s.roots, self._contents, strict=True):
            b.emit("push", self._copied(b, root), stack)

    @staticmethod
    def _copied(b: Builder, root: Value) -> Value:
        shape = root.type.pointee  # type: ignore[attr-defined]
        counts = [b.emit("extent", root, at=k) if n is None else literal(n) for k, n in enumerate(shape.shape)]
        copy = b.emit("allocateHeap", *counts, name=f"{root.name}_kept", dtype=shape.dtype.name)
        b.emit("store", b.emit("load", root), copy)
        return copy

    # -- the schedule ------------------------------------------------------------------------------------

    def _limits(self, steps: Value) -> tuple[Value, Value]:
        """How many steps a segment has, and how many states are kept beside the first one."""
        start = self._sweep.blocks[self._exit]
        (entered,) = [i for i in start.instructions if i.op is ASSIGN and i.attrs["variable"] is self._segment]
        b = Builder(self._function).before(start.instructions[0])
        one = literal(1)
        number = lambda op, x, y: b.emit(op, x, y)  # noqa: E731
        runs = number("add", steps, one)
        step = number("max", number("floorDivide", self._bytes, runs), one)
        state: Value = literal(8 * (1 + len(self._state)))
        # what is kept by reference is memory all the same
        carried = [self._started[v] for v in self._state if self._is_of_the_loop(v)]
        for memory in (*self._s.roots, *carried):
            state = number("add", state, self._size(b, memory))
        if self._budget is None:
            length = number("floorDivide", number("add", state, literal(LITTLE)), step)
        else:
            length = number("floorDivide", literal(self._budget // 2), step)
        length = number("min", number("max", length, one), runs)
        last = number("floorDivide", steps, length)
        wide = b.emit("dataTypeCast", number("add", last, one), to=F64.name)
        few = number("add", b.emit("dataTypeCast", b.emit("log2", wide), to=I64.name), one)
        if self._budget is not None:
            rest = number("subtract", literal(self._budget), number("multiply", length, step))
            few = number("max", few, number("floorDivide", rest, state))
        # what is more than one state a segment is not used
        few = number("min", few, last)
        entered.operands = [last]
        if self._returns_memory():
            self._hold_results(b)
        b.insert(assignment(self._kept, literal(0)))
        return length, few

    def _is_of_the_loop(self, pointer: Value) -> bool:
        return any(is_inside(r, self._loop) for r in self._primal.points_to.roots(pointer))

    def _returns_memory(self) -> bool:
        kept = [self._primal.output(o) for o in self._primal.config.keeping]
        return any(not self._primal.points_to.roots(v).isdisjoint(self._s.roots) for v in kept)

    def _hold_results(self, b: Builder) -> None:
        """Memory that the caller gets has at last what the primal left there."""
        copies = [self._copied(b, root) for root in self._s.roots]
        end = Builder(self._function)
        end.block, end.position = self._sweep.blocks[self._preheader], 0
        for root, copy in zip(self._s.roots, copies, strict=True):
            end.emit("store", end.emit("load", copy), root)

    def _resume(self, length: Value, few: Value) -> None:
        """The part of the reverse sweep that goes from a state that was kept through the segment that is next."""
        f, header = self._function, self._loop.header
        place = f.blocks.index(self._sweep.blocks[self._last])
        names = ("resume", "held", "used", "plan", "choose", "choosing", "chosen", "go", "arrived", "run")
        at = {name: Block(name) for name in (*names, "first", "next")}
        f.blocks[place:place] = at.values()
        # what comes between the last block and the next segment is empty
        after = self._loop.ordered[self._loop.ordered.index(self._last) + 1 :]
        assert not any(i.op.name == "push" for block in after for i in block.instructions)
        reverse = self._sweep.blocks[self._last]
        for block in f.blocks:
            for target in block.targets:
                if target.block is reverse:
                    target.block = at["resume"]

        b = Builder(f, at["resume"])
        number = b.emit("pop", self._numbers, name="number")
        state = [b.emit("pop", stack, name=v.name) for v, stack in zip(self._state, self._states, strict=True)]
        contents = [b.emit("pop", stack) for stack in self._contents]
        for root, copy in zip(self._s.roots, contents, strict=True):
            b.emit("store", b.emit("load", copy), root)
        b.insert(assignment(self._at, number))
        for v, found in zip(self._state, state, strict=True):
            b.insert(assignment(self._held[v], found))
        b.conditional(b.emit("equal", number, self._segment), at["used"], [], at["held"])

        b.at_end(at["used"]).insert(assignment(self._kept, b.emit("add", self._kept, literal(-1))))
        b.branch(at["run"])

        b.at_end(at["held"])
        stacks = (self._numbers, *self._states, *self._contents)
        for v, stack in zip((number, *state, *contents), stacks, strict=True):
            b.emit("push", v, stack)
        b.branch(at["plan"])

        segments = self._choose(b, at, few)

        # forward to where a segment begins
        b.at_end(at["go"])
        steps = b.emit("multiply", segments, length)
        blocks, _ = self._copy(self._blocks(at["arrived"]), {self._s.mined.length: steps}, counts=False)
        latch = blocks[self._latch]
        passed = dict(zip(header.args, latch.targets[0].args, strict=True))
        latch.instructions.pop()
        back = Builder(f, latch)
        for v in self._state:
            back.insert(assignment(self._held[v], passed[v]))
        back.branch(at["arrived"])
        self._close(list(blocks.values()), at["arrived"])
        b.branch(blocks[header], [self._entering(a) for a in header.args])

        b.at_end(at["arrived"])
        b.insert(assignment(self._at, b.emit("add", self._at, segments)))
        keep = f.new_block("keep", after=at["arrived"])
        b.conditional(b.emit("equal", self._at, self._segment), at["run"], [], keep)
        b.at_end(keep)
        self._keep(b, self._at, [self._held[v] for v in self._state])
        b.insert(assignment(self._kept, b.emit("add", self._kept, literal(1))))
        b.branch(at["plan"])

        self._run_segment(b, at, length)

    def _entering(self, arg: Value) -> Value:
        """What is passed to the header of a run without adjoint memory."""
        if arg is self._trip:
            return self._at
        return self._held.get(arg) or Literal(arg.type, UNDEFINED)

    def _choose(self, b: Builder, at: dict[str, Block], few: Value) -> Value:
        """After how many segments the next state is kept: between the bounds of treeverse, in the middle."""
        one = literal(1)
        b.at_end(at["plan"])
        left = b.emit("subtract", self._segment, self._at)
        b.conditional(b.emit("equal", left, literal(0)), at["run"], [], at["choose"])
        b.at_end(at["choose"])
        free = b.emit("subtract", few, self._kept)
        none = b.emit("lessThanOrEqual", free, literal(0))
        size, states = b.emit("add", left, one), b.emit("add", free, one)
        b.conditional(none, at["go"], [left], at["choosing"], [one, one, literal(0)])
        # β(c, r) = β(c, r - 1) (c + r) / r
        count, before, runs = (at["choosing"].add_arg(_NUMBER, n) for n in ("beta", "before", "r"))
        more = self._function.new_block("more", after=at["choosing"])
        b.at_end(at["choosing"])
        b.conditional(b.emit("lessThan", count, size), more, [], at["chosen"])
        b.at_end(more)
        following = b.emit("add", runs, one)
        grown = b.emit("floorDivide", b.emit("multiply", count, b.emit("add", states, following)), following)
        b.branch(at["choosing"], [grown, count, following])
        b.at_end(at["chosen"])
        low = b.emit("max", b.emit("subtract", size, b.emit("subtract", count, before)), one)
        high = b.emit("min", before, left)
        b.branch(at["go"], [b.emit("floorDivide", b.emit("add", low, high), literal(2))])
        return at["go"].add_arg(_NUMBER, "segments")

    def _run_segment(self, b: Builder, at: dict[str, Block], length: Value) -> None:
        """Run the taped loop for one segment, then its reverse."""
        f, header = self._function, self._loop.header
        for block in self._loop.ordered:
            f.blocks.remove(block)
        place = f.blocks.index(at["run"]) + 3
        f.blocks[place:place] = self._loop.ordered
        for i in self._s.instructions():
            i.substitute({self._s.mined.length: length})
            i.attrs = unchecked(i)
        for block in self._loop.ordered:
            block.instructions = [i for i in block.instructions if i.op is not ASSIGN and i.op.name != "check"]
        # segment 0 has the adjoint memory that is there, the others have their own
        b.at_end(at["run"])
        b.conditional(b.emit("equal", self._at, literal(0)), at["first"], [], at["next"])
        b.at_end(at["first"]).branch(header, [self._passed(a, self._started) for a in header.args])
        b.at_end(at["next"])
        made: dict[Value, Value] = {}
        for a in self._fresh:
            whose = self._held[self._s.fresh[a]]
            made[a] = allocate_like(b, whose, a.name)[1]
            b.emit("store", zeros_like(b, whose), made[a])
        b.branch(header, [self._passed(a, made) for a in header.args])
        # where the segment ends, it gets what was gathered behind
        end, later, done = (f.new_block(name) for name in ("end", "later", "reverse"))
        for k, block in enumerate((end, later, done)):
            f.blocks.remove(block)
            f.blocks.insert(place + len(self._loop.ordered) + k, block)
        self._last.targets[self._way].block = end
        self._last.targets[self._way].args = []
        self._latch.instructions.pop()
        Builder(f, self._latch).branch(later)
        self._close(self._loop.ordered, end, later)
        b.at_end(end)
        for shadow, behind in self._s.handed:
            b.emit("store", b.emit("add", b.emit("load", shadow), b.emit("load", behind)), shadow)
        b.branch(done)
        b.at_end(later)
        for a in self._fresh:
            if not isinstance(self._carried[a], Literal):
                total = b.emit("add", b.emit("load", self._carried[a]), b.emit("load", self._later[a]))
                b.emit("store", total, self._carried[a])
        b.branch(done)
        b.at_end(done)
        for a in self._fresh:
            b.insert(assignment(self._later[a], a))
        b.branch(self._sweep.blocks[self._last])

    def _passed(self, arg: Value, own: dict[Value, Value]) -> Value:
        return own[arg] if arg in self._s.fresh else self._entering(arg)
