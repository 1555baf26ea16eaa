"""Buffer hoisting: memory that every round of a loop allocates anew is allocated once, before the loop.

    'loop(%k: i64):                                     %b = allocateHeap f64 count (%n, or 0: no round)
        %more = lessThan %k: i64, %m: i64               branch 'loop(0: i64)
        conditional %more then 'body() else 'end()  'loop(%k: i64):
    'body():                                            %more = lessThan %k: i64, %m: i64
        %b = allocateHeap f64 count (%n: i64)   =>      conditional %more then 'body() else 'end()
        store ... to %b: *<_ x f64>                 'body():
        %0 = load %b: *<_ x f64>                        store ... to %b: *<_ x f64>
        ...                                             %0 = load %b: *<_ x f64>
        branch 'loop(%next: i64)                        ...

An allocation moves out of a loop, and on out of the loops around that, if

* its extents are the same in every round: made outside, or by pure scalar instructions of such values, which are
  repeated;
* nobody holds a pointer to it when the round is over: it is only looked at through views, loaded from and stored to.
  What a round leaves in it the next one cannot know: memory is not cleared when it is allocated;
* every round gets to it: nothing leaves the loop, or goes back, without passing it, but the header.

A loop that is not entered allocates no elements: what its condition would be at the entry is computed there, and where
that cannot be, nothing moves. A number of elements that may be negative is still checked where it was.

Not in functions that are handed stacks of arrays, as the reverse sweep of a recursion is: what is popped there may be
anything that was there before, so only an allocation behind the pop is known to be apart from it.

Where threads share the trips of the loop (share_loops.py), its `parallel` says that each may have a buffer of its own.

Then buffers of a loop that were made in one block, with the same extents and dtype, of which one is done with before
the other begins, become one. Stage compute, before stack promotion, which may put what has moved into the frame.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure, written_pointer
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import Kind
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.types import PointerType, StackType, is_array, is_scalar
from dlvm_py.ir.value import BlockArg, Instruction, Literal, Value
from dlvm_py.transforms.cfg_canonicalization import join_edges, move_block
from dlvm_py.transforms.loop_nests import made_again
from dlvm_py.transforms.ranges import integer_range
from dlvm_py.transforms.share_loops import mark_of

_Users = dict[Value, list[Instruction]]
_Known = dict[Value, int | None]


def run(function: Function) -> bool:
    """Hoist the allocations of `function`; whether there were any to hoist."""
    headers = [loop.header for loop in reversed(LoopForest(function).loops)]
    if not any(i.op is OPS["allocateHeap"] for i in function.instructions()):
        return False
    if any(isinstance(p.type, StackType) and isinstance(p.type.element, PointerType) for p in function.params):
        return False
    users = uses(function)
    changed = False
    graph: _Graph | None = None  # since the last change
    for header in headers:  # inner loops first
        graph = graph or _Graph(function)
        if _Loop(function, graph, header, users).run():
            changed, graph = True, None
    return changed


class _Graph:
    """The blocks of a function as they are."""

    def __init__(self, function: Function) -> None:
        self.loops = {loop.header: loop for loop in LoopForest(function).loops}
        self.dominators = of_graph(DominatorTree, function)
        self.edges = predecessors(function)


class _Loop:
    def __init__(self, function: Function, graph: _Graph, header: Block, users: _Users) -> None:
        self.function, self.loop, self.users = function, graph.loops[header], users
        self.dominators = graph.dominators
        self.edges = [(p, k) for p, k in graph.edges[header] if not self.loop.contains(p)]
        self.made: dict[Value, Value] = {}  # a value of the loop → the same before it
        self.positive: dict[Value, Value] = {}  # a count before the loop → that, at least 0
        self.guarded: dict[Value, Value] = {}  # the same → 0 if the loop is not entered

    def run(self) -> bool:
        found = [i for block in self.loop.ordered for i in block.instructions if self._may_move(i)]
        if not found:
            return False
        groups = _shared(found, self.users)
        checked: set[tuple[Block | None, Value]] = set()
        for i in found:
            self._check(i, checked)
        entry = self._entry()
        mark = mark_of(entry)
        b = Builder(self.function).before(mark or entry.instructions[-1])
        entered: Value | None = None
        for first, *others in groups:
            assert first.block is not None
            is_first = first.block is self.loop.header
            for i in (first, *others):
                i.block.instructions.remove(i)  # type: ignore[union-attr]
            b.loc = first.loc
            if not is_first and entered is None:
                entered = self._entered(b)
            first.operands = self._counts(b, first, None if is_first else entered)
            b.insert(first)
            if mark is not None:
                mark.operands.append(first)
                self.users[first].append(mark)
            for i in others:
                for user in self.users[i]:
                    user.substitute({i: first})
                self.users[first] += self.users[i]
        return True

    # -- what may move -----------------------------------------------------------------------------

    def _may_move(self, i: Instruction) -> bool:
        if i.op is not OPS["allocateHeap"] or not isinstance(i.type, PointerType):
            return False
        if not all(map(self._is_invariant, i.operands)) or any(map(_keeps_hold, self._all_users(i))):
            return False
        return self._always_runs(i) and (i.block is self.loop.header or self._condition() is not False)

    def _all_users(self, pointer: Value) -> Iterator[tuple[Instruction, Value]]:
        """All that uses a pointer, or a view of it."""
        for user in self.users[pointer]:
            yield user, pointer
            if user.op.kind is Kind.INDEX and isinstance(user.type, PointerType):
                yield from self._all_users(user)

    def _is_invariant(self, v: Value) -> bool:
        """Whether a scalar is the same in every round, and can be had before the loop."""
        if isinstance(v, Literal) or isinstance(v, BlockArg | Instruction) and v.block not in self.loop.blocks:
            return True
        repeats = isinstance(v, Instruction) and is_scalar(v.type) and is_pure(v)
        return repeats and all(map(self._is_invariant, v.operands))  # type: ignore[attr-defined]

    def _always_runs(self, i: Instruction) -> bool:
        leaving = [b for b, _ in self.loop.exit_edges() if b is not self.loop.header]
        assert i.block is not None
        return all(self.dominators.dominates(i.block, b) for b in (*self.loop.latches, *leaving))

    def _condition(self) -> tuple[Value, bool] | bool:
        """(the condition of the header, what it is when the loop goes on); True: it goes on; False: not to be had."""
        header = self.loop.header
        inside = [self.loop.contains(t.block) for t in header.targets]
        if all(inside):
            return True
        last = header.instructions[-1]
        if last.op is not OPS["conditional"] or not any(inside) or not self._can_repeat(last.operands[0]):
            return False
        return last.operands[0], inside[0]

    def _can_repeat(self, v: Value) -> bool:
        """Whether what a scalar of the header is at the entry can be computed before the loop."""
        if isinstance(v, BlockArg) and v.block is self.loop.header or self._is_invariant(v):
            return True
        repeats = isinstance(v, Instruction) and v.block is self.loop.header and is_scalar(v.type) and is_pure(v)
        return repeats and all(map(self._can_repeat, v.operands))  # type: ignore[attr-defined]

    # -- before the loop ---------------------------------------------------------------------------

    def _entry(self) -> Block:
        """The block that ends in the branch to the loop."""
        header = self.loop.header
        block = self.edges[0][0]
        if len(self.edges) > 1 or len(block.targets) > 1:
            block = join_edges(self.function, self.edges, f"{header.name}_preheader" if header.name else "")
            move_block(self.function, block, before=header)
        self.made = dict(zip(header.args, block.targets[0].args, strict=True))
        return block

    def _before(self, b: Builder, v: Value) -> Value:
        """What a value is when the loop is entered."""
        return made_again(b, v, self.loop, self.made)

    def _entered(self, b: Builder) -> Value | None:
        """Whether the loop is entered; None: surely."""
        found = self._condition()
        if not isinstance(found, tuple):
            return None
        condition, wanted = found
        now = self._before(b, condition)
        return now if wanted else b.emit("not", now)

    def _counts(self, b: Builder, i: Instruction, entered: Value | None) -> list[Value]:
        counts = [self._before(b, n) for n in i.operands]
        for n in counts:
            if n not in self.positive:
                self.positive[n] = b.emit("max", n, literal(0)) if integer_range(n)[0] < 0 else n
        counts = [self.positive[n] for n in counts]
        unknown = next((k for k, n in enumerate(counts) if not isinstance(n, Literal)), None)
        if entered is not None and unknown is not None:
            count = counts[unknown]
            if count not in self.guarded:
                self.guarded[count] = b.emit("select", count, literal(0), entered)
            counts[unknown] = self.guarded[count]
        return counts

    def _check(self, i: Instruction, checked: set[tuple[Block | None, Value]]) -> None:
        """Sizes that may be negative fail where the allocation was; once a block is enough."""
        b = Builder(self.function).before(i)
        b.loc = i.loc
        for n in i.operands:
            if integer_range(n)[0] < 0 and (i.block, n) not in checked:
                checked.add((i.block, n))
                fits = b.emit("greaterThanOrEqual", n, literal(0))
                b.emit("check", fits, exception="ValueError", message="negative dimensions are not allowed")


def _keeps_hold(use: tuple[Instruction, Value]) -> bool:
    """Whether a use does more with a pointer than to look at, or to write, what lies there."""
    user, pointer = use
    if user.op.name in ("load", "extent", "parallel"):
        return False
    if user.op.kind is Kind.INDEX:
        return not isinstance(user.type, PointerType)
    return written_pointer(user) is not pointer or pointer in (user.operands[0], *user.operands[2:])


# -- sharing -------------------------------------------------------------------------------------------


def _shared(found: list[Instruction], users: _Users) -> list[list[Instruction]]:
    """The allocations in groups that can share memory, in order."""
    groups: list[tuple[list[Instruction], int]] = []  # with the place of the last use in the block
    places: dict[Value, int] = {}
    for block in dict.fromkeys(i.block for i in found):
        assert block is not None
        places |= {i: k for k, i in enumerate(block.instructions)}
    for i in found:
        last = _last_use(i, i, users, places, {})
        for k, (group, end) in enumerate(groups):
            if last is not None and end < places[i] and _is_alike(group[0], i):
                groups[k] = ([*group, i], last)
                break
        else:
            # used elsewhere: there is no place behind it
            groups.append(([i], len(places) if last is None else last))
    return [group for group, _ in groups]


def _is_alike(a: Instruction, b: Instruction) -> bool:
    return a.block is b.block and a.type == b.type and a.operands == b.operands


def _last_use(root: Instruction, v: Value, users: _Users, places: dict[Value, int], known: _Known) -> int | None:
    """The place of the last instruction that needs a value, or views and trees of it; None: in another block."""
    if v in known:
        return known[v]
    end: int | None = places.get(v, 0)
    for user in users[v]:
        last = None
        if user.block is root.block:
            further = is_array(user.type) or isinstance(user.type, PointerType)
            last = _last_use(root, user, users, places, known) if further else places[user]
        end = None if end is None or last is None else max(end, last)
    known[v] = end
    return end
