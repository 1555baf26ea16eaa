"""What is a statement of the text, and what is written where it is used.

An instruction without effects whose value is used once is written inside of the statement that uses it. Extents and
views (`len(x)`, `u[1:-1]`) are written wherever they are used, for they say where memory is and not what is in it.
A `load` is a snapshot in the order of the program: it is written where it is used if no write to that memory comes
between, else it is a statement of its own, and a copy where it is an array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from dlvm_py.ir import Block, Function, Instruction, Literal, PointerType, TensorType, Value
from dlvm_py.ir.analysis import AliasAnalysis, LoopForest, reverse_postorder, uses
from dlvm_py.ir.op import Kind
from dlvm_py.ir.ops.aggregates import keys_of
from dlvm_py.ir.value import BlockArg

SIZE = 12  # of an expression, in ops
CHEAP = 3  # places where the sum of an index and a number is written again

# the values of these are views of their first operand, in NumPy
VIEWS = frozenset(
    "transpose padShape squeezeShape shapeCast section slice reverse broadcast windows realPart imaginaryPart"
    " unbroadcast load constant stopGradient".split()
)
_INVISIBLE = frozenset(("destroyStack", "keepCopy", "keepView"))
_FREE_POINTERS = frozenset(
    "transpose padShape squeezeShape shapeCast section pointerCast elementPointer partView windows".split()
)


class Point(NamedTuple):
    """Where a value is read: at an instruction of a block; `edge` is the target's number where it is passed on."""

    block: Block
    at: int
    edge: int | None = None


class Plan:
    """The decisions for one function.

    `inline` are written where they are used; `copied` are array statements that must have memory of their own;
    `filled` maps a store to the allocation that it fills, which is no statement by itself; `bound` are the variables of
    counted loops.
    """

    def __init__(self, function: Function, alias: AliasAnalysis, bound: set[Value]) -> None:
        self.function = function
        self.alias = alias
        self.order = reverse_postorder(function)
        self.uses = uses(function)
        self.inline: set[Instruction] = set()
        self.copied: set[Instruction] = set()
        self.filled: dict[Instruction, Instruction] = {}
        self.bound = bound
        self._allocated: set[Instruction] = set()
        self._loops = LoopForest(function)
        self._number = {b: k for k, b in enumerate(self.order)}
        self._index = {i: k for b in self.order for k, i in enumerate(b.instructions)}
        self._points: dict[Value, list[Point]] = {}
        self._root: dict[Instruction, Instruction] = {}
        self._room: Counter[Instruction] = Counter()
        self._writes = [i for b in self.order for i in b.instructions if _may_write(i)]
        for block in reversed(self.order):
            for i in reversed(block.instructions):
                self._decide(i)
        for block in self.order:
            for i in block.instructions:
                if i.op.name == "allocateHeap":
                    self._find_fill(i)
                elif i not in self.inline and isinstance(i.type, TensorType) and i.type.rank:
                    if any(
                        self._is_overwritten(load, point) for load in self.loads_seen(i) for point in self.points(i)
                    ):
                        self.copied.add(i)

    # -- where values are read -----------------------------------------------------------------------------

    def points(self, value: Value) -> list[Point]:
        """Where the text reads a value: at statements, through what is written inside of them."""
        if value not in self._points:
            found = []
            for user in dict.fromkeys(self.uses.get(value, ())):
                if user.block not in self._number:
                    continue
                if user in self.inline:
                    found += self.points(user) * user.operands.count(value)
                    continue
                at = self._index[user]
                found += [Point(user.block, at)] * user.operands.count(value)
                for edge, target in enumerate(user.targets):
                    found += [Point(user.block, at, edge)] * target.args.count(value)
            self._points[value] = found
        return self._points[value]

    def statements(self, block: Block) -> list[Instruction]:
        """The instructions of a block that are statements, without the terminator."""
        return [i for i in block.instructions[:-1] if self.is_statement(i)]

    def is_statement(self, i: Instruction) -> bool:
        """Whether an instruction is a statement of its own."""
        if i in self.inline or i.op.name in _INVISIBLE or i in self._allocated or i in self.bound:
            return False
        if not self.points(i) and (i.op.is_pure or i.op.name == "load"):
            return False
        return not self.is_part(i)

    def is_part(self, i: Instruction) -> bool:
        """Whether an instruction takes an element of what a call gives, which is assigned with the call."""
        if i.op.name != "extract" or not _is_call(i.operands[0]):
            return False
        users = self.uses[i.operands[0]]
        return all(u.op.name == "extract" and len(keys_of(u.attrs)) == 1 for u in users)

    def leaves(self, value: Value) -> Iterator[Value]:
        """The values with variables of their own that the expression of a value reads."""
        if value in self.inline:
            assert isinstance(value, Instruction)
            for v in value.operands:
                yield from self.leaves(v)
        elif not isinstance(value, Literal):
            yield value

    # -- inline or not ---------------------------------------------------------------------------------------

    def _decide(self, i: Instruction) -> None:
        if i.op.kind is Kind.CONTROL or i in self.bound or not self._may_inline(i):
            return
        points = self.points(i)
        if not points:
            return
        if self._is_free(i) or (len(points) <= CHEAP and _is_step(i)):
            self.inline.add(i)
            return
        if i.op.name == "load":
            if len(points) > (1 if not i.type.rank else 4) or any(self._is_overwritten(i, p) for p in points):  # type: ignore[attr-defined]
                return
            if len(points) > 1 and not _is_short(i.operands[0]):
                return
        elif len(points) > 1:
            return
        if any(not self._is_as_shallow(i, p) for p in points):
            return
        root = points[0].block.instructions[points[0].at]
        if self._room[root] >= SIZE and i.op.name != "load":
            return
        self._room[root] += i.op.name != "load"
        self.inline.add(i)

    def _may_inline(self, i: Instruction) -> bool:
        if i.op.name == "load":
            return True
        if isinstance(i.type, PointerType):
            return i.op.name in _FREE_POINTERS and not (i.op.name == "shapeCast" and not self._is_plain_cast(i))
        return i.op.is_pure and i.op.name not in ("tuple", "extract")

    def _is_plain_cast(self, i: Instruction) -> bool:
        return isinstance(i.operands[0], BlockArg | Instruction)

    def _is_free(self, i: Instruction) -> bool:
        if i.op.name == "broadcast" and isinstance(i.operands[0], Literal):
            return True
        return i.op.name in ("extent", "rank", "unitCount", "constant") or isinstance(i.type, PointerType)

    def _is_as_shallow(self, i: Instruction, point: Point) -> bool:
        """Whether a point lies in no loop that the instruction is not in."""
        assert i.block is not None
        loop = self._loops.loop_of(point.block)
        return loop is None or loop.contains(i.block)

    # -- memory ----------------------------------------------------------------------------------------------

    def _is_overwritten(self, load: Instruction, point: Point) -> bool:
        """Whether memory that is read may be written between the load and a point, where its value is read."""
        assert load.block is not None
        writes = [w for w in self._writes if self.alias.may_write(w, load.operands[0])]
        if not writes:
            return False
        if load.type.rank and self._lives_on(point):  # type: ignore[attr-defined]
            return any(self._reaches(load.block, w.block) or w.block is load.block for w in writes)
        start, end = self._index[load], point.at
        if point.block is load.block and end > start:
            between = (w for w in writes if w.block is load.block and start < self._index[w] < end)
            return any(self.alias.may_write(w, load.operands[0], in_scope=True) for w in between)
        after = self._reachable(load.block, load.block)
        before = self._reaching(point.block, load.block)
        for w in writes:
            if w.block is load.block:
                if self._index[w] > start:
                    return True
            elif w.block is point.block and self._index[w] < end:
                return True
            elif w.block in after and w.block in before:
                return True
        return False

    def _lives_on(self, point: Point) -> bool:
        """Whether a value is kept at a point: in a variable of another block, on a tape, by a caller."""
        return point.edge is not None or point.block.instructions[point.at].op.name in (
            "push",
            "tuple",
            "apply",
            "return",
        )

    def _reachable(self, block: Block, wall: Block) -> set[Block]:
        """What is reached from the end of a block, not through the wall."""
        found: set[Block] = set()
        work = list(block.successors())
        while work:
            b = work.pop()
            if b not in found and b is not wall:
                found.add(b)
                work += b.successors()
        return found

    def _reaches(self, block: Block, other: Block | None) -> bool:
        found: set[Block] = set()
        work = list(block.successors())
        while work:
            b = work.pop()
            if b not in found:
                found.add(b)
                work += b.successors()
        return other in found

    def _reaching(self, block: Block, wall: Block) -> set[Block]:
        """From what blocks the beginning of a block is reached, not through the wall."""
        back: dict[Block, list[Block]] = {b: [] for b in self.order}
        for b in self.order:
            for s in b.successors():
                back[s].append(b)
        found: set[Block] = set()
        work = list(back[block])
        while work:
            b = work.pop()
            if b not in found and b is not wall:
                found.add(b)
                work += back[b]
        return found

    def loads_seen(self, value: Value) -> Iterator[Instruction]:
        """The loads of which the NumPy array of a value may be a view."""
        while isinstance(value, Instruction) and _may_view(value) and isinstance(value.type, TensorType):
            if value.op.name == "load":
                yield value
                return
            value = value.operands[0]
            if value in self.copied:
                return

    def is_view(self, value: Value) -> bool:
        """Whether the expression of an array may be a view of other memory, or a variable."""
        if not isinstance(value, Instruction) or value not in self.inline:
            return True
        return _may_view(value)

    def must_copy(self, value: Value) -> bool:
        """Whether an array that is kept (on a tape, in a variable of another block) needs memory of its own."""
        return any(self.alias.may_write(w, load.operands[0]) for load in self.loads_seen(value) for w in self._writes)

    def _find_fill(self, allocation: Instruction) -> None:
        """The store that gives an allocation its first contents, if nothing comes between."""
        block = allocation.block
        assert block is not None
        users = [u for u in self.uses[allocation] if u.block in self._number]
        first = min((u for u in users if u.block is block), key=self._index.__getitem__, default=None)
        if first is None or first.op.name != "store" or first.operands[1] is not allocation:
            return
        at = self._index[first]
        if not allocation.type.rank:  # type: ignore[attr-defined]
            return
        # a read that is inlined may be of an earlier statement
        if all(p.block is not block or p.at >= at for p in self.points(allocation)):
            self.filled[first] = allocation
            self._allocated.add(allocation)


def _may_view(i: Instruction) -> bool:
    """Whether the array that NumPy gives may be (a view of) the first operand."""
    if i.op.name in ("reduce", "scan"):
        return not i.attrs["axes"]
    if i.op.name in ("floor", "ceil", "rint", "round", "truncate"):
        return i.type.dtype.is_integer  # type: ignore[attr-defined]
    return i.op.name in VIEWS


def _may_write(i: Instruction) -> bool:
    return i.op.name in ("store", "scatter", "apply")


def _is_call(value: Value) -> bool:
    return isinstance(value, Instruction) and value.op.name == "apply"


def _is_step(i: Instruction) -> bool:
    """i + 1, i - 1: written again more readably than named."""
    return (
        i.op.name in ("add", "subtract")
        and i.type.dtype.name == "i64"
        and not i.type.rank
        and isinstance(  # type: ignore[attr-defined]
            i.operands[1], Literal
        )
    )


def _is_short(pointer: Value) -> bool:
    """A variable, or one view of it."""
    return (
        not isinstance(pointer, Instruction)
        or pointer.op.name not in _FREE_POINTERS
        or not isinstance(pointer.operands[0], Instruction)
        or pointer.operands[0].op.name not in _FREE_POINTERS
    )
