"""Which array values are fused into their consumers, and which get memory: the decisions of bufferize.

Words: a *root* evaluates a tree element by element: a `store` or `scatter`, a `reduce` or `dot` with a scalar
result, or a value that gets a *buffer* (it is stored to it). A tree is evaluated where its root stands, so its
leaves, the `load`s, are read there and not where they were written. A *view* is an index op on something that a
pointer can name; it costs nothing and is made again wherever it is used. What a `gather` reads from is in memory.

Two sweeps are repeated until nothing new is forced into memory (`forced` only grows, so this ends; two or
three rounds are the rule):

1. backwards, structure (`_place`): a value with one root is fused into it. One with several roots, or that a
   consumer would compute again for every row (a static extent 1 that stretches), gets a buffer, unless it is
   free to repeat: a load, an iota, a broadcast, a view, a cast of a load. A load with numbers added, or times
   numbers, is made again by several roots too, and so is the product of a column and a row, whose elements are
   many and whose factors are few: that saves a pass that writes it. `reduce`, `unbroadcast` and `dot`
   with array results get a buffer, or go straight to the one store that takes them; a `dot` also to the one that
   adds it to what is there (tree_rules.accumulated). What is embedded somewhere is part of a store, to a buffer as
   well: a sum of shifted parts of what it replaces is made beside it in one pass, and copied. A factor of a
   contraction, which needs each of its elements again and again, gets a buffer (ir/contractions.py). What crosses a
   block border, or is pushed, returned or passed to a call, gets a buffer, and so does what a `scatter`, which has no
   vectors, would compute in many steps.
2. forwards, legality (`_check`): a value is forced into memory at its definition if one of its loads would
   be overwritten before a consumer reads it, and if the store at its root may overwrite elements that the
   load needs for other places: a load that may overlap the destination must be the same elements in the
   same order. Where only a row or a column that is stretched is in the way, that one is copied.

A buffer is written once, so a load of it is legal everywhere. The same holds for an allocation of the program
that is written by one store only: a value that is stored there and used elsewhere lives there (`home`), from the
start where that store comes behind other uses (`early`).

Cost: linear in uses, plus the writes that stand between a load and its consumer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from dlvm_py.ir.analysis import AliasAnalysis, predecessors, reverse_postorder, uses, writes_memory, written_pointer
from dlvm_py.ir.analysis.cost import step_cost
from dlvm_py.ir.contractions import contraction
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import Kind
from dlvm_py.ir.tree_rules import OF_LOADS, UNDER_STORE, accumulated, is_in_place
from dlvm_py.ir.types import PointerType, TensorType, is_array
from dlvm_py.ir.value import Instruction, Literal, Value
from dlvm_py.transforms.literals import splat

VIEWS = frozenset({"transpose", "padShape", "squeezeShape", "shapeCast", "section", "windows"})
# a tree cannot read through these: the operand is in memory
ON_POINTERS = frozenset({"shapeCast", "section", "windows"})
# what is read at computed places: the first operand is in memory
SEARCHED = frozenset({"gather", "searchSorted"})
# these are no part of a tree above them; a shapeCast can be a view
HEAVY = UNDER_STORE - {"shapeCast"}
# with one array operand: no dearer than a pass over memory
CHEAP = frozenset({"add", "subtract", "multiply", "negate"})
STEPS = 3  # so many of these with numbers cost less than a pass that writes what they give
CROSSINGS = frozenset({"branch", "conditional", "return", "push", "apply", "tuple"})
# A scatter runs one element after the other: what takes more steps than these is computed before it, in vectors.
SCATTERED = 8
# Bounds of one kernel: they keep the sweeps linear, and code generation free to recurse over a tree.
MANY_LEAVES = 32
DEEP = 100

_DEAD, _MANY = "dead", "many"
_Root = Instruction | str


def view_base(value: Value) -> Value:
    """What the views above it look at: `value` itself if it is no view."""
    while isinstance(value, Instruction) and value.op.name in VIEWS:
        value = value.operands[0]
    return value


class FusionPlan:
    """The decisions for one function whose block arguments, stacks and calls carry no array values any more.

    `buffers` are the values that get memory; `home[v]` is the store whose destination serves as v's memory. Those of
    `early` are written there where they are defined.
    `constants` are pointers to memory that is never written again.
    """

    def __init__(self, function: Function, aliases: AliasAnalysis, constants: set[Value]) -> None:
        self.aliases = aliases
        self.constants = constants
        order = reverse_postorder(function)
        instructions = [i for block in order for i in block.instructions]
        self.number: dict[Value, int] = {i: n for n, i in enumerate(instructions)}
        self.buffers: set[Value] = set()
        self.home: dict[Value, Instruction] = {}
        self.early: set[Value] = set()
        self._arrays = [i for i in instructions if is_array(i.type)]
        self._users = {v: list(dict.fromkeys(us)) for v, us in uses(function).items()}
        self._incoming = predecessors(function)
        self._writes = [i for i in instructions if writes_memory(i)]
        self._write_numbers = [self.number[w] for w in self._writes]
        self._writes_to: dict[Value, list[Instruction]] = {}
        self._regions: dict[tuple[Block, Block], set[Block]] = {}
        found = filter(None, map(contraction, self._arrays))
        self._factors = {f.core for c in found for f in (c.first, c.second)}
        self._forced: set[Value] = set()
        settled = -1
        while settled != len(self._forced):
            settled = len(self._forced)
            self._place_all()
            self._check_all()

    # -- structure, backwards ------------------------------------------------------------------------

    def _place_all(self) -> None:
        self.buffers, self.early = set(), set()
        self.home = {}
        self._root: dict[Value, _Root] = {}
        self._stretched: set[Value] = set()
        self._named: set[Value] = set()  # a consumer needs a pointer to these
        self._embeds: dict[Value, set[Value | None]] = {}  # the embeds between a value and its root; None: not by one
        for v in reversed(self._arrays):
            self._place(v)

    def _place(self, v: Instruction) -> None:
        roots: set[_Root] = set()
        buffer = v in self._forced
        for u in self._users[v]:
            if u.op.name == "extent" or (is_array(u.type) and self._root[u] is _DEAD):
                continue
            roots.add(self._root_of_use(v, u))
            if u.op.name in CROSSINGS:
                buffer = buffer or not self._is_shared(v)
            self._note_demands(v, u)
        self._embeds[v] = self._embeds_above(v)
        root = self._root[v] = _DEAD if not roots else roots.pop() if len(roots) == 1 else _MANY
        if root is _DEAD:
            return
        if not isinstance(root, str) and root.block is not v.block:
            root = self._root[v] = _MANY
        if v in self._named and not self._can_be_named(v):
            buffer = True
        if v.op.name in HEAVY:
            buffer = buffer or not (self._is_stored_directly(v) or self._is_added_in_place(v))
        elif not self._is_free(v):
            repeats = self._is_scaled(v) or self._is_outer(v)
            # what is embedded at several places is computed for each
            repeated = root is _MANY or len(self._embeds[v]) > 1
            buffer = buffer or (repeated and not repeats) or v in self._stretched
            # other roots would ask for each element where it is
            buffer = buffer or (v.op.name == "embed" and not self._is_written(root))
            buffer = buffer or any(u.op.name == "scatter" and _is_long(v, u) for u in self._users[v])
        if v in self._factors and v.op.name != "load" and v.op.name not in VIEWS:
            buffer = True
        if buffer:
            self.buffers.add(v)
            self._find_home(v)
        elif v.op.name in VIEWS and v in self._named:
            self._named.add(v.operands[0])

    def _embeds_above(self, v: Instruction) -> set[Value | None]:
        found: set[Value | None] = set()
        for u in self._users[v]:
            if u.op.name == "embed" and u.operands[0] is v:
                found.add(u)
            elif is_array(u.type) and u.op.name not in HEAVY and u not in self.buffers:
                found |= self._embeds.get(u, set())
            elif u.op.name != "extent":
                found.add(None)
        return found

    def _root_of_use(self, v: Instruction, u: Instruction) -> _Root:
        if is_array(u.type) and u.op.name not in HEAVY and u not in self.buffers:
            return self._root[u]
        return u

    def _note_demands(self, v: Instruction, u: Instruction) -> None:
        if u.op.name in OF_LOADS or u.op.name in ON_POINTERS or (u.op.name in SEARCHED and v is u.operands[0]):
            self._named.add(v)
        if _stretches(v, u) or (u in self._stretched and u not in self.buffers):
            self._stretched.add(v)

    def _can_be_named(self, v: Instruction) -> bool:
        """Whether a pointer to v, of the layout that its users need, is to be had without a buffer for v."""
        if v.op.name != "load" and v.op.name not in VIEWS:
            return False
        if any(u.op.name == "shapeCast" for u in self._users[v]):
            pointer = _pointer_type(v)
            return pointer is not None and pointer.layout == "C"
        return v.op.name != "shapeCast" or _pointer_type(v) is not None

    def _is_written(self, root: _Root) -> bool:
        """Whether a root writes its elements place by place: a store, or a value that is stored to its buffer."""
        return not isinstance(root, str) and (
            root.op.name == "store" or (is_array(root.type) and root.op.name not in HEAVY)
        )

    def _is_free(self, v: Instruction) -> bool:
        """Whether v may be repeated in every tree: its cost is in its operands, which answer for themselves."""
        if v.op.name == "dataTypeCast":
            base = view_base(v.operands[0])
            return isinstance(base, Instruction) and base.op.name == "load"
        return v.op.name in VIEWS or v.op.name in ("load", "iota", "broadcast")

    def _is_scaled(self, v: Value) -> bool:
        """Whether v is something in memory with a few cheap steps: reading that again costs as much as reading v.

        What others use as well is in memory if v is repeated, or would have a root of its own.
        """
        for _ in range(STEPS):
            operands: list[Value] = v.operands if _is_cheap(v) else []  # type: ignore[attr-defined]
            arrays = {x for x in operands if is_array(splat(x).type)}
            if len(arrays) != 1:
                return False
            v = view_base(arrays.pop())
            if not isinstance(v, Instruction) or v.op.name in {"load", *HEAVY}:
                return isinstance(v, Instruction)
            if len({u for u in self._users[v] if u.op.name != "extent"}) > 1:
                return True
        return False

    def _is_outer(self, v: Instruction) -> bool:
        """Whether v is one cheap step on memory that is smaller by an axis: to read that again is cheaper than v."""
        if not _is_cheap(v):
            return False
        return all(not is_array(x.type) or (_stretches(x, v) and self._is_in_memory(x)) for x in v.operands)

    def _is_in_memory(self, v: Value) -> bool:
        """Whether v is a view of a load, of a result that gets memory, or of one number."""
        base = view_base(v)
        return isinstance(base, Instruction) and (
            base.op.name in {"load", *HEAVY} or (base.op.name == "broadcast" and not is_array(base.operands[0].type))
        )

    def _is_stored_directly(self, v: Instruction) -> bool:
        (first, *more) = [u for u in self._users[v] if u.op.name != "extent"]
        return not more and first.op.name == "store" and first.block is v.block

    def _is_added_in_place(self, v: Instruction) -> bool:
        """Whether v is a product that a store adds to its destination, which no operand of it is read from."""
        users = [u for u in self._users[v] if u.op.name != "extent"]
        total = users[0] if len(users) == 1 else None
        if total is None or not is_array(total.type) or total in self._forced or len(self._users[total]) != 1:
            return False
        (s,) = self._users[total]
        if s.op.name != "store" or accumulated(s) is not v:
            return False
        bases = (view_base(o) for o in v.operands)
        loads = (b for b in bases if isinstance(b, Instruction) and b.op.name == "load" and b not in self._forced)
        pointers = (b.operands[0] for b in loads)
        return not any(p not in self.constants and self.aliases.may_overlap(p, s.operands[1]) for p in pointers)

    def _find_home(self, v: Instruction) -> None:
        for s in self._users[v]:
            if s.op.name != "store" or s.block is not v.block:
                continue
            users = [u for u in self._users[v] if u is not s and u.op.name != "extent"]
            is_forced = v in self._forced
            is_early = not all(self._precedes(s, u) for u in users) or (is_forced and self._has_writes(v, s))
            if self._is_only_write(s, s.operands[1]):
                lives_there = not is_early or self.number[s.operands[1]] < self.number[v]
            else:
                lives_there = not is_early and not is_forced and self._is_kept(s, users)
            if lives_there:
                self.home[v] = s
                if is_early:
                    self.early.add(v)
                return

    def _has_writes(self, v: Instruction, s: Instruction) -> bool:
        """Whether anything is written between v and the store s, in one block."""
        return bisect_right(self._write_numbers, self.number[v]) < bisect_left(self._write_numbers, self.number[s])

    def _is_kept(self, s: Instruction, users: list[Instruction]) -> bool:
        """Whether what s stores is there, unchanged, wherever these users of it are evaluated: later in its block."""
        for u in users:
            root = self._root[u] if is_array(u.type) and u not in self.buffers else u
            if root is not _DEAD and (isinstance(root, str) or root.block is not s.block or u.op.name in CROSSINGS):
                return False
        assert s.block is not None
        first = bisect_right(self._write_numbers, self.number[s])
        last = bisect_right(self._write_numbers, self.number[s.block.instructions[-1]])
        return not any(self.aliases.may_write(w, s.operands[1], in_scope=True) for w in self._writes[first:last])

    def _is_shared(self, value: Value) -> bool:
        """Whether `value` is a load of memory that is never written again: it is passed on uncopied."""
        if not isinstance(value, Instruction) or value.op.name != "load":
            return False
        pointer = value.operands[0]
        if pointer in self.constants:
            return True
        first = next(iter(self._writes_of(pointer)), None)
        return first is not None and self._is_only_write(first, pointer) and self._precedes(first, value)

    def _is_only_write(self, s: Instruction, p: Value) -> bool:
        """Whether the store s fills the fresh allocation p, and nothing else ever writes there."""
        if s.op.name != "store" or s.operands[1] is not p:
            return False
        if not isinstance(p, Instruction) or p.op.name != "allocateHeap" or p.block is not s.block:
            return False
        return self._writes_of(p) == [s]

    def _precedes(self, s: Instruction, u: Instruction) -> bool:
        """Whether s has run when u, which it shares a dominating definition in s's block with, runs."""
        return u.block is not s.block or self.number[s] < self.number[u]

    # -- legality, forwards --------------------------------------------------------------------------

    def _check_all(self) -> None:
        """Force into memory whatever could not be evaluated at its root."""
        self._leaves: dict[Value, dict[Instruction, bool]] = {}
        self._depth: dict[Value, int] = {}
        for v in self._arrays:
            if self._root[v] is not _DEAD:
                self._check(v)

    def _check(self, v: Instruction) -> None:
        leaves = self._collect(v)
        consumers = [u for u in self._users[v] if u.op.name != "extent" and not self._is_dead_array(u)]
        if v in self.buffers:
            consumers = [self.home[v]] if v in self.home and v not in self.early else []
        depth = 1 + max((self._depth.get(x, 0) for x in v.operands), default=0)
        legal = v in self.buffers or v.op.name in HEAVY or (len(leaves) <= MANY_LEAVES and depth <= DEEP)
        legal = legal and not any(self._is_clobbered(leaf, u) for leaf in leaves for u in consumers)
        overlapping = [
            leaf for u in consumers if written_pointer(u) is not None for leaf in self._overlapping(leaves, u)
        ]
        if legal and overlapping and all(_is_smaller(leaf, v) for leaf in overlapping):
            self._forced.update(overlapping)  # copies of a row and a column cost less than one of the result
        legal = legal and not overlapping
        if not legal and self._forced.isdisjoint(overlapping):
            self._forced.add(v)
        if legal and v not in self.buffers:
            self._leaves[v], self._depth[v] = leaves, depth

    def _is_dead_array(self, u: Instruction) -> bool:
        return is_array(u.type) and self._root[u] is _DEAD

    def _collect(self, v: Instruction) -> dict[Instruction, bool]:
        """The loads in v's tree; True: each result element needs just the element at its own place."""
        if v.op.name == "load":
            return {v: True}
        leaves: dict[Instruction, bool] = {}
        for x in v.operands:
            in_place = is_in_place(x, v) and not _stretches(x, v)
            for leaf, same_place in self._leaves.get(x, {}).items():
                leaves[leaf] = leaves.get(leaf, True) and same_place and in_place
        return leaves

    def _overlapping(self, leaves: dict[Instruction, bool], s: Instruction) -> list[Instruction]:
        """The loads of which the store or scatter s could change an element that is still to be read."""
        found, destination = [], s.operands[1]
        for leaf, same_place in leaves.items():
            p = leaf.operands[0]
            if p in self.constants or not self.aliases.may_overlap(p, destination):
                continue
            if not same_place or s.op.name == "scatter" or not self.aliases.same_elements(p, destination):
                found.append(leaf)
        return found

    def _is_clobbered(self, leaf: Instruction, u: Instruction) -> bool:
        """Whether what `leaf` loads may be written after it and before u."""
        pointer = leaf.operands[0]
        if pointer in self.constants or isinstance(pointer, Literal):
            return False
        if leaf.block is u.block:
            first = bisect_right(self._write_numbers, self.number[leaf])
            last = bisect_left(self._write_numbers, self.number[u])
            writes = self._writes[first:last]
        else:
            writes = [w for w in self._writes_of(pointer) if self._is_between(w, leaf, u)]
        return any(self.aliases.may_write(w, pointer, in_scope=True) for w in writes)

    def _writes_of(self, pointer: Value) -> list[Instruction]:
        """All instructions of the function that may, at any time, write what `pointer` looks at."""
        if pointer not in self._writes_to:
            self._writes_to[pointer] = [w for w in self._writes if self.aliases.may_write(w, pointer)]
        return self._writes_to[pointer]

    def _is_between(self, w: Instruction, leaf: Instruction, u: Instruction) -> bool:
        """Whether w runs on a way from leaf to u that does not pass leaf again; their blocks differ."""
        assert leaf.block is not None and u.block is not None
        region = self._region(leaf.block, u.block)
        if w.block is leaf.block:
            return self.number[w] > self.number[leaf]
        if w.block is u.block and u.block not in region:
            return self.number[w] < self.number[u]
        return w.block in region

    def _region(self, start: Block, end: Block) -> set[Block]:
        """The blocks that run whole between leaving `start` and reaching `end`."""
        if (start, end) not in self._regions:
            found: set[Block] = set()
            work = [p for p, _ in self._incoming[end]]
            while work:
                block = work.pop()
                if block is not start and block not in found:
                    found.add(block)
                    work.extend(p for p, _ in self._incoming[block])
            self._regions[start, end] = found
        return self._regions[start, end]


def _is_long(v: Value, scatter: Instruction) -> bool:
    """Whether v takes too many steps for a scatter.

    One that combines what it stores with what is there is no vector: functions and divisions are several steps there.
    """
    pending, left = [v], SCATTERED
    while pending and left >= 0:
        x = pending.pop()
        if isinstance(x, Instruction) and is_array(x.type) and x.op.kind is Kind.ELEMENTWISE:
            left -= step_cost(x) if "by" in scatter.attrs else 1
            pending += x.operands
    return left < 0


def _is_smaller(leaf: Instruction, v: Instruction) -> bool:
    """Whether what is loaded has fewer elements than v, for which it is stretched."""
    assert isinstance(leaf.type, TensorType) and isinstance(v.type, TensorType)
    if leaf.type.rank != v.type.rank:
        return leaf.type.rank < v.type.rank
    return any(n == 1 != m for n, m in zip(leaf.type.shape, v.type.shape, strict=True))


def _is_cheap(v: Value) -> bool:
    """Whether v is one of the steps that cost nearly nothing; a seed times a number is."""
    if not isinstance(v, Instruction):
        return False
    return v.op.name in CHEAP or (v.op.name == "scaleSeed" and not is_array(v.operands[1].type))


def _stretches(v: Value, u: Instruction) -> bool:
    """Whether u uses elements of v several times, along an axis where v's type states the extent 1."""
    if not is_array(v.type) or not is_array(u.type):
        return False
    assert isinstance(v.type, TensorType) and isinstance(u.type, TensorType)
    if u.op.name == "gather":
        # an index is wanted again for every element of a row
        row = v in u.operands[1:] and u.operands[0].type.rank > len(u.operands) - 1  # type: ignore[attr-defined]
        return row or (v is not u.operands[0] and any(n == 1 != m for n, m in zip(v.type.shape, u.type.shape)))  # noqa: B905
    if u.op.kind is not Kind.ELEMENTWISE and u.op.name != "broadcast":
        return False
    return any(n == 1 and m != 1 for n, m in zip(v.type.shape, u.type.shape, strict=True))


def _pointer_type(v: Value) -> PointerType | None:
    """The type of a pointer to v: of views of a load, or of a buffer; None where a view is impossible."""
    chain = []
    while isinstance(v, Instruction) and v.op.name in VIEWS:
        chain.append(v)
        v = v.operands[0]
    if isinstance(v, Instruction) and v.op.name == "load":
        pointer = v.operands[0].type
    else:
        assert isinstance(v.type, TensorType)
        pointer = PointerType(v.type)
    for view in reversed(chain):
        assert isinstance(pointer, PointerType)
        if view.op.name == "shapeCast" and pointer.layout != "C":
            return None
        pointer = view.op.result_type([Value(pointer), *view.operands[1:]], view.attrs)
    assert isinstance(pointer, PointerType)
    return pointer
