"""Double buffering: a loop that copies an array, and updates it from the copy, exchanges the two instead.

    %p, %t: of the same extents                     'before():  %swap = (it pays, no check of the loop fails)
                                                        branch 'loop(0, %p, %t, false)
    'loop(%k):                                      'loop(%k, %a, %b, %away):
        conditional .. then 'body() else 'exit()        conditional .. then 'body() else 'end()
    'body():                                        'body():
        store (load %p) to %t                           conditional %swap then 'turn() else 'copy()
                                                    'turn():  store (load %a[0]) to %b[0];  ... all that is not
                                                        branch 'go(%a, %b)                  in [1:-1]
                                                    'copy():  store (load %a) to %b
                                                        branch 'go(%b, %a)
                                            =>      'go(%old, %new):
        store (f %t) to %p[1:-1]                        store (f %old) to %new[1:-1]
        store (load %p[1]) to %p[0]                     store (load %new[1]) to %new[0]
        branch 'loop(%k + 1)                            branch 'loop(%k + 1, %new, %old, (%away != %swap))
    'exit():                                        'end():     conditional %away then 'home() else 'exit()
                                                    'home():    store (load %t) to %p

`un = u.copy(); u[1:-1] = f(un)` in a time loop: half of the memory that such a step goes through is the copy. Where the
array and the copy change places, only what the first store leaves is copied, and of that what no store writes before
it is read. When the loop is left behind an odd number of exchanges, the array is copied back to where it was.

A copy is the one store to memory that the function allocates, which is else read behind it in the loop, by loads of
its views. It and the first store to the array happen once in each trip, the copy before it. The first store is to all
of the array, or to a box of it with bounds that the loop does not change; the other stores come behind it. What is read
of the array before it is read of the old one. No other pointer of the loop may refer to the array, and nobody but this
loop holds it or the copy; the loop has no call and is left at its head alone.

What an exception leaves in an array that others see is what the program has stored: a loop exchanges them only if all
checks in it hold, which is asked before it. For arrays of LEAST bytes or more, whose box is half of them or more: of
small ones, the copy is cheaper than its parts. Each is asked at run time, and where it is not so the loop copies.
(A signal whose handler raises in the middle of the loop, KeyboardInterrupt, may leave the array steps behind, or
in part.) Kernels stand once for both. Stage compute, behind hoist_buffers, which brings copies before their loops. A
second run changes nothing: the array of a copy that is left is an argument of its loop.

Cost: linear in the function for each loop with a copy.
"""

from __future__ import annotations

from functools import reduce as fold
from math import prod

from dlvm_py.decisions import NEVER, Decisions
from dlvm_py.frozen import Mutable
from dlvm_py.ir.analysis import AliasAnalysis, uses
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import may_trap, written_pointer
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.places import Axis, Linear, Place, linear, place_of, section_parts
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import Kind
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.tree_rules import kernels
from dlvm_py.ir.types import PointerType, StackType, TupleType, is_array
from dlvm_py.ir.value import BlockArg, Instruction, Literal, Target, Value, integer
from dlvm_py.transforms.cfg_canonicalization import join_edges, move_block
from dlvm_py.transforms.kernel_versions import cut_out
from dlvm_py.transforms.share_loops import mark_of
from dlvm_py.transforms.substitution import takes_whole

LEAST = 1 << 13  # bytes of an array, from which on a copy of it takes longer than copies of its borders
_Users = dict[Value, list[Instruction]]


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Exchange arrays and their copies in the loops of `function`; whether there were any."""
    decisions, changed = decisions or Decisions(), False
    copies = [i for i in function.instructions() if _copied(i) is not None]
    for copy in copies:
        assert copy.block is not None
        forest = LoopForest(function)
        loop = forest.loop_of(copy.block)
        found = _found(function, forest, loop, copy, noalias_params) if loop is not None else None
        least = decisions.take("double_buffers.least", LEAST, (NEVER,)) if found is not None else NEVER
        if found is not None and least < NEVER:
            _Writer(function, found, least).write()
            changed = True
    if changed:
        _drop_unused_views(function)
    return changed


class _Exchange(Mutable):
    """copy: the store of the array to the copy. first: the first store to the array, in a trip of the loop.

    checks: what is asked in the loop, of what is known before it. box: the starts and the counts of what the first
    store writes, None for all of the array.
    """

    loop: Loop
    copy: Instruction
    first: Instruction
    box: tuple[list[Value], list[Value]] | None
    checks: list[Value]

    @property
    def array(self) -> Value:
        return self.copy.operands[0].operands[0]  # type: ignore[attr-defined, no-any-return]

    @property
    def buffer(self) -> Value:
        return self.copy.operands[1]


# -- whether -----------------------------------------------------------------------------------------


def _copied(i: Instruction) -> Value | None:
    """The array that a store copies as it is to memory of this function."""
    value = i.operands[0] if i.op is OPS["store"] else None
    if not isinstance(value, Instruction) or value.op is not OPS["load"] or not is_array(value.type):
        return None
    array, to = value.operands[0], i.operands[1]
    if not isinstance(to, Instruction) or to.op is not OPS["allocateHeap"] or to.type != array.type:
        return None
    return None if isinstance(array, Instruction) and array.op.kind is Kind.INDEX else array


def _found(
    function: Function, forest: LoopForest, loop: Loop, copy: Instruction, noalias_params: bool
) -> _Exchange | None:
    """How the array and the copy can be exchanged in the innermost loop of a copy."""
    array, buffer = _copied(copy), copy.operands[1]
    assert array is not None and copy.block is not None
    if copy.block is loop.header or loop.exiting_block is not loop.header or _is_small(array):
        return None
    if any(mark_of(p) is not None for p, _ in predecessors(function)[loop.header] if p not in loop.blocks):
        return None
    if not _is_outside(array, loop) or not _is_outside(buffer, loop) or _is_joined(copy):
        return None
    tree = of_graph(DominatorTree, function)
    aliases = AliasAnalysis(function, noalias_params)
    if not _are_apart(loop, array, buffer, aliases):
        return None
    for i, _ in _all_users(buffer, uses(function)):
        understood = i is copy or i.op.name in ("load", "extent") or _is_view(i)
        if not understood or (i.block not in loop.blocks and i.op.name != "extent"):
            return None
        if i.op is OPS["load"] and not tree.instruction_dominates(copy, i):
            return None
    stores = [i for b in loop.ordered for i in b.instructions if (p := written_pointer(i)) and _base(p) is array]
    first = next((s for s in stores if all(s is t or tree.instruction_dominates(s, t) for t in stores)), None)
    if first is None or not tree.instruction_dominates(copy, first) or first.op is not OPS["store"]:
        return None
    assert first.block is not None
    if forest.loop_of(first.block) is not loop or not all(tree.dominates(first.block, latch) for latch in loop.latches):
        return None
    box = _box(first.operands[1], array, loop)
    checks = [] if aliases.is_local(array) else _checks(loop)
    if box is None or checks is None:
        return None
    return _Exchange(loop, copy, first, box[0], checks)


def _is_small(array: Value) -> bool:
    """Whether the type tells that the array is small."""
    assert isinstance(array.type, PointerType)
    size = prod((n or 0 for n in array.type.shape), start=array.type.dtype.itemsize)
    return None not in array.type.shape and size < LEAST


def _is_outside(v: Value, loop: Loop) -> bool:
    """Whether a value is there before a loop."""
    return isinstance(v, Literal) or (isinstance(v, BlockArg | Instruction) and v.block not in loop.blocks)


def _is_joined(copy: Instruction) -> bool:
    assert copy.block is not None
    return any(copy in kernel and len(kernel) > 1 for kernel in kernels(copy.block.instructions))


def _is_view(i: Instruction) -> bool:
    return i.op.kind is Kind.INDEX and isinstance(i.type, PointerType)


def _base(p: Value) -> Value:
    while isinstance(p, Instruction) and p.op.kind is Kind.INDEX:
        p = p.operands[0]
    return p


def _drop_unused_views(function: Function) -> None:
    """Take away what looks at arrays for nobody. Not stores that nobody needs: others may be joined to them."""
    count = {v: len(users) for v, users in uses(function).items()}
    for block in reversed(function.blocks):
        kept = []
        for i in reversed(block.instructions):
            if (_is_view(i) or i.op is OPS["extent"]) and not count.get(i):
                for v in i.operands:
                    count[v] = count.get(v, 0) - 1
            else:
                kept.append(i)
        block.instructions = kept[::-1]


def _all_users(pointer: Value, users: _Users) -> list[tuple[Instruction, Value]]:
    """All that uses a pointer, or a view of it, with what of it that uses."""
    found: list[tuple[Instruction, Value]] = []
    work = [pointer]
    while work:
        v = work.pop()
        for user in users.get(v, ()):
            found.append((user, v))
            if _is_view(user):
                work.append(user)
    return found


def _are_apart(loop: Loop, array: Value, buffer: Value, aliases: AliasAnalysis) -> bool:
    """Whether a loop has no call, and looks at the array by its views alone, through loads and stores."""
    for block in loop.ordered:
        for i in block.instructions:
            if i.op.kind in (Kind.CALL, Kind.HIGHER_ORDER):
                return False
            for v in i.all_operands():
                if isinstance(v.type, StackType | TupleType) or not isinstance(v.type, PointerType):
                    continue
                if _base(v) not in (array, buffer):
                    if aliases.may_overlap(v, array) or aliases.may_overlap(v, buffer):
                        return False
                elif not (_is_view(i) or i.op.name in ("load", "extent") or written_pointer(i) is v):
                    return False
    return True


def _box(to: Value, array: Value, loop: Loop) -> tuple[tuple[list[Value], list[Value]] | None] | None:
    """The box of an array, or None for all of it, that a pointer has; None for another pointer."""
    if to is array:
        return (None,)
    if not isinstance(to, Instruction) or to.op is not OPS["section"] or to.operands[0] is not array:
        return None
    starts, counts, steps = section_parts(to)
    fits = all(integer(s) == 1 for s in steps) and all(_is_outside(v, loop) for v in (*starts, *counts))
    return ((starts, counts),) if fits else None


def _checks(loop: Loop) -> list[Value] | None:
    """All that checks of a loop ask for; None if something in it may raise that is not known before it."""
    found: dict[Value, None] = {}
    for block in loop.ordered:
        for i in block.instructions:
            if i.op is OPS["check"]:
                if not _is_outside(i.operands[0], loop):
                    return None
                found[i.operands[0]] = None
            elif may_trap(i):
                return None
    return list(found)


# -- the loop that exchanges them ----------------------------------------------------------------------


class _Slab(Mutable):
    """What a box leaves of an array on one side of an axis, from `at` on. length: None where only `counts` has it."""

    axis: int
    at: Linear
    length: int | None
    starts: list[Value]
    counts: list[Value]


class _Writer:
    def __init__(self, function: Function, exchange: _Exchange, least: int) -> None:
        self.function, self.exchange, self.least = function, exchange, least
        self.array, self.buffer = exchange.array, exchange.buffer
        self.b = Builder(function)
        self.views: dict[tuple[Block, Value, Value], Value] = {}

    def write(self) -> None:
        """Carry the array and the buffer through the loop, and choose in each trip whether to exchange them."""
        x, b, header = self.exchange, self.b, self.exchange.loop.header
        b.loc = x.copy.loc
        back = [(p, k) for p, k in predecessors(self.function)[header] if p in x.loop.blocks]
        inside, ((_, leaving),) = list(x.loop.ordered), x.loop.exit_edges()
        b.before(self._entry().instructions[-1])
        self._measure()
        slabs, swap = self._slabs(), self._whether()
        self.passed += [self.array, self.buffer, literal(False)]
        a, other, away = (header.add_arg(v.type) for v in self.passed[-3:])

        before = x.copy.block
        assert before is not None
        turn, copy, go = cut_out(self.function, before, [x.copy], (), ("turn", "copy", "go"))
        old, new = go.add_arg(a.type, "old"), go.add_arg(a.type, "new")
        b.at_end(before).conditional(swap, turn, None, copy)
        b.at_end(turn)
        for slab in slabs:
            b.emit("store", b.emit("load", self._part(a, slab)), self._part(other, slab))
        b.branch(go, [a, other])
        x.copy.operands[0].operands[0], x.copy.operands[1] = a, other  # type: ignore[attr-defined]
        copy.targets[0].args = [other, a]

        b.before(go.instructions[0])
        passed = [new, old, b.emit("notEqual", away, swap)]
        for block, k in back:
            (go if block is before else block).targets[k].args += passed
        self._leave(header, leaving, away)
        tree = DominatorTree(self.function)

        def now(load: Instruction) -> Value:
            assert load.block is not None
            if tree.instruction_dominates(x.first, load):
                return new
            return old if tree.dominates(go, load.block) else a

        for block in (*inside, go):
            for kernel in kernels(list(block.instructions)):
                for i in kernel:
                    self._exchange(i, kernel[0], old, new, now(i) if i.op is OPS["load"] else new)

    def _entry(self) -> Block:
        """The block that ends in the branch to the loop; `passed` is what it hands over."""
        header = self.exchange.loop.header
        edges = [(p, k) for p, k in predecessors(self.function)[header] if p not in self.exchange.loop.blocks]
        block = edges[0][0]
        if len(edges) > 1 or len(block.targets) > 1:
            block = join_edges(self.function, edges, f"{header.name}_preheader" if header.name else "")
            move_block(self.function, block, before=header)
        self.passed = block.targets[0].args
        return block

    def _leave(self, header: Block, k: int, away: Value) -> None:
        """Copy the array back to where it was, if it is in the buffer when the loop is left."""
        behind = header.targets[k]
        end = self.function.new_block("end", after=self.exchange.loop.ordered[-1])
        home = self.function.new_block("home", after=end)
        header.targets[k] = Target(end)
        self.b.at_end(end).conditional(away, home, None, behind.block, behind.args)
        self.b.at_end(home).emit("store", self.b.emit("load", self.buffer), self.array)
        self.b.branch(behind.block, behind.args)

    # -- before the loop ---------------------------------------------------------------------------------

    def _measure(self) -> None:
        """The extents of the array, as the program has them where it does."""
        b, tree = self.b, of_graph(DominatorTree, self.function)
        known: dict[int, Value] = {}
        assert b.block is not None
        for i in uses(self.function).get(self.array, ()):
            if i.op is OPS["extent"] and tree.instruction_dominates(i, b.block.instructions[-1]):
                known.setdefault(i.attrs["at"], i)
        shape = self.array.type.shape  # type: ignore[attr-defined]
        self.extents = [
            literal(n) if n is not None else known.get(k) or b.emit("extent", self.array, at=k)
            for k, n in enumerate(shape)
        ]

    def _whether(self) -> Value:
        """Whether to exchange them."""
        b, x = self.b, self.exchange
        size = self._product(self.extents)
        bytes = b.emit("multiply", size, literal(self.array.type.dtype.itemsize))  # type: ignore[attr-defined]
        tests = [b.emit("greaterThanOrEqual", bytes, literal(self.least)), *x.checks]
        if x.box is not None:
            counts = x.box[1]
            tests += [b.emit("greaterThan", n, literal(0)) for n in counts if integer(n) is None]
            twice = b.emit("multiply", self._product(counts), literal(2))
            tests.append(b.emit("greaterThanOrEqual", twice, size))
        return fold(lambda p, q: b.emit("and", p, q), tests)

    def _product(self, factors: list[Value]) -> Value:
        return fold(lambda p, q: self.b.emit("multiply", p, q), factors)

    def _slabs(self) -> list[_Slab]:
        """What the first store leaves of the array, and is read before it is written.

        The counts of the box are positive, and it lies in the array.
        """
        if self.exchange.box is None:
            return []
        b, slabs = self.b, []
        starts, counts = self.exchange.box
        for k, n in enumerate(self.extents):
            begin = linear(starts[k])
            end = begin.plus(linear(_positive(counts[k])))
            stop = b.emit("add", starts[k], counts[k])
            sides = [(literal(0), Linear(0), starts[k], begin)]
            sides.append((stop, end, b.emit("subtract", n, stop), linear(n).plus(end, -1)))
            for start, at, count, length in sides:
                known = None if length.terms else length.constant
                many = count if known is None else literal(known)
                begins = [*starts[:k], start, *[literal(0)] * (len(self.extents) - k - 1)]
                slab = _Slab(k, at, known, begins, [*counts[:k], many, *self.extents[k + 1 :]])
                if known != 0 and not self._is_dead(slab):
                    slabs.append(slab)
        return slabs

    def _is_dead(self, slab: _Slab) -> bool:
        """Whether a row of an axis is written behind the first store, in its block, before anything there is read."""
        first = self.exchange.first
        assert first.block is not None
        if slab.length != 1:
            return False
        body = first.block.instructions
        for i in body[body.index(first) + 1 :]:
            p = i.operands[0] if i.op is OPS["load"] else written_pointer(i)
            place = place_of(p) if p is not None and _base(p) is self.array else None
            if place is None:
                continue
            apart = _distance(place.axes[slab.axis], slab.at)
            if i.op is OPS["load"] and not apart:
                return False
            is_all = p.type.dtype is self.array.type.dtype  # type: ignore[union-attr]  # not the real parts alone
            if i.op is OPS["store"] and is_all and apart == 0 and self._covers(place, slab):
                return True
        return False

    def _covers(self, place: Place, slab: _Slab) -> bool:
        """Whether a place has all that a slab has of the other axes."""
        assert self.exchange.box is not None
        starts, counts = self.exchange.box
        for k, axis in enumerate(place.axes):
            if k == slab.axis or axis == Axis():
                continue
            if axis.start is None or axis.step != 1:
                return False
            length = linear(axis.length) if axis.length is not None else Linear(axis.count or 0)
            whole = axis.start == Linear(0) and length == linear(self.extents[k])
            in_box = k < slab.axis and axis.start == linear(starts[k]) and length == linear(counts[k])
            if not whole and not in_box:
                return False
        return True

    def _part(self, p: Value, slab: _Slab) -> Value:
        """A slab of the array or of the buffer."""
        b, k = self.b, slab.axis
        if slab.length == 1 and k == 0:
            return b.emit("elementPointer", p, slab.starts[0])
        whole = [n if integer(n) is not None else b.emit("extent", p, at=j) for j, n in enumerate(slab.counts) if j > k]
        steps = [literal(1)] * len(slab.starts)
        part = b.emit("section", p, *slab.starts, *slab.counts[: k + 1], *whole, *steps)
        return b.emit("squeezeShape", part, at=k) if slab.length == 1 else part

    # -- in the loop -------------------------------------------------------------------------------------

    def _exchange(self, i: Instruction, head: Instruction, old: Value, new: Value, of_array: Value) -> None:
        """Let a load or a store of a kernel that begins at `head` look at what the array, or its copy, is now."""
        if _is_view(i) or i.op is OPS["extent"]:
            return
        for k, v in enumerate(i.operands):
            if isinstance(v.type, PointerType) and (base := _base(v)) in (self.array, self.buffer):
                i.operands[k] = self._view(self.b.before(head), v, of_array if base is self.array else old)

    def _view(self, b: Builder, v: Value, root: Value) -> Value:
        """A view, as one of another array of the same extents."""
        if not isinstance(v, Instruction) or v.op.kind is not Kind.INDEX:
            return root
        assert b.block is not None
        key = b.block, v, root
        if key not in self.views:
            of = v.operands[0]
            base = self._view(b, of, root)
            rest = [b.emit("extent", base, at=o.attrs["at"]) if takes_whole(v, o) else o for o in v.operands[1:]]
            self.views[key] = b.emit(v.op, base, *rest, name=v.name, **v.attrs)
            assert self.views[key].type == v.type
        return self.views[key]


def _distance(axis: Axis, at: Linear) -> int | None:
    """How far the one index of an axis is from another one, None where that is not known."""
    if axis.start is None or axis.count != 1:
        return None
    apart = axis.start.plus(at, -1)
    return None if apart.terms else apart.constant


def _positive(n: Value) -> Value:
    """What a number is that is positive: of a maximum with 0, the other one."""
    if isinstance(n, Instruction) and n.op is OPS["max"]:
        others = [v for v in n.operands if integer(v) != 0]
        if len(others) == 1:
            return others[0]
    return n
