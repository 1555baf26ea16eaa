"""Sibling fusion: kernels over the same elements become one loop nest with several roots. Stage compute.

    %0 = load %b: *<_ x f64>                          %0 = load %b: *<_ x f64>
    %1 = exp %0: <_ x f64>                            %1 = exp %0: <_ x f64>
    store %1: <_ x f64> to %t: *<_ x f64>             store %1: <_ x f64> to %p: *<_ x f64>
    %2 = load %t: *<_ x f64>                          %3 = load %a: *<_ x f64>
    store %2: <_ x f64> to %p: *<_ x f64>        =>   %5 = multiply %3: <_ x f64>, %1: <_ x f64>
    %3 = load %a: *<_ x f64>                          store %5: <_ x f64> to %q: *<_ x f64> joined
    %4 = load %t: *<_ x f64>
    %5 = multiply %3: <_ x f64>, %4: <_ x f64>        (%t, which nothing else reads, is gone)
    store %5: <_ x f64> to %q: *<_ x f64>

Adjoint code is like that: it goes over the same arrays once for each derivative. `joined` says that a store is of one
kernel with the store before it: at each place the kernel reads for all of its stores before it writes (tree_rules.py).

A root is the store of an elementwise tree (in it a vector may be embedded in a longer one), or a reduction of one to a
number. A *group* of roots moves down to a root r that may join it, if

* their extents are known to be equal there (ir/analysis/equal_extents.py), and their layouts are the same;
* the group may pass what stands between: nothing there reads what the group writes, or writes what it reads or
  writes; nothing there can be seen to happen, or raises, unless the group writes fresh memory only, which is gone then
  (a product also moves over a check: a copy of it runs where the check fails);
* one loop keeps what the two do: what r reads of what the group writes is the element of the same place, and of no
  other. It is not read then but *forwarded*: the tree of r goes on with the value. What r writes the group reads at the
  same place only, and does not write (the kernel reads before it writes);
* it pays: something is forwarded, or both read the same array at the same places. Not beyond STREAMS arrays in one
  loop, which hardware follows, or STEPS operations and FUNCTIONS like sin, whose values and coefficients are to stay in
  registers.

Two products of one matrix, of its rows (`A @ p`) and of its columns (`r @ A`, `A.T @ r`), are one kernel as well, which
reads it once. r may be what the first product gives: it is needed row by row (backend/cpu/products.py).

    store (dot A, p) to %t                                    %t0 = dot A, p
    %r = load %t                                              %s0 = dot %t0, A
    store (dot %r, A) to %s                             =>    store %t0 to %t
                                                              store %s0 to %s joined

With a reduction a kernel goes over elements in the order of the sum: they are numbered (of rank 1, or linear), or taken
row by row where each of the roots would do so by itself (`tree_rules.is_in_rows`).
What is made of a result, and stands between, moves behind the kernel.

Equal subtrees of one kernel become one. A buffer that nothing reads any more goes, with its stores.
Keeps every bit: elements are computed as before, and sums in their fixed order.

Cost: each root looks at the WINDOW groups before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import islice

from dlvm_py.decisions import Decisions
from dlvm_py.frozen import Mutable, field
from dlvm_py.ir.analysis import AliasAnalysis, effects, uses
from dlvm_py.ir.analysis.cost import is_function
from dlvm_py.ir.analysis.effects import is_pure, may_trap, written_pointer
from dlvm_py.ir.analysis.equal_extents import EqualExtents, Extent
from dlvm_py.ir.builder import Builder
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import IO, Kind
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.tree_rules import (
    JOINED,
    MatrixProduct,
    is_in_rows,
    is_linear,
    kernels,
    loads_of,
    matrix_product,
    may_be_joined,
)
from dlvm_py.ir.types import PointerType, TensorType, is_array, is_scalar
from dlvm_py.ir.value import Instruction, Literal, Value

STREAMS = 10
FUNCTIONS = 2  # like exp or sin
STEPS = 100  # also keeps code generation free to recurse
WINDOW = 8
FAR = 300  # instructions that a group moves over
SMALL = 1 << 15  # elements of a matrix that one pass more does not cost much
SHORT = 32  # a row shorter than this is not worth a loop of its own


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Join the kernels of `function`; whether any were."""
    return join(function, function.blocks, _is_candidate, FUNCTIONS, noalias_params, decisions or Decisions())


def join(
    function: Function,
    blocks: Iterable[Block],
    is_candidate: Callable[[Instruction], bool],
    functions: int,
    noalias_params: bool,
    decisions: Decisions,
) -> bool:
    """Join the kernels of some blocks that are candidates, up to so many functions in one; whether any were."""
    blocks = [b for b in blocks if sum(map(is_candidate, b.instructions)) > 1]
    if not blocks:
        return False
    facts, aliases = EqualExtents(function), AliasAnalysis(function, noalias_params)
    joiners = [_Joiner(function, b, facts, aliases, is_candidate, functions, decisions) for b in blocks]
    found = [joiner for joiner in joiners if joiner.joins()]
    for joiner in found:
        joiner.write()
    if found:
        _drop_unread(function)
    return bool(found)


def _is_candidate(i: Instruction) -> bool:
    if not may_be_joined(i):
        return matrix_product(i) is not None
    value = i.operands[0]
    return value.type.rank == 1 or not any(v.op is OPS["embed"] for v in members(value))  # type: ignore[attr-defined]


def members(top: Value, but_embedded: bool = False) -> list[Instruction]:
    """The array values of a tree, each once, users before operands where there is one path.

    but_embedded: without what is embedded in larger arrays.
    """
    found: dict[Instruction, None] = {}
    work = [top]
    while work:
        v = work.pop()
        if isinstance(v, Instruction) and is_array(v.type) and v not in found:
            found[v] = None
            work += v.operands[1:2] if but_embedded and v.op is OPS["embed"] else v.operands
    return list(found)


def _needed(i: Instruction) -> set[Value]:
    """The numbers and pointers that an instruction and its trees are made of."""
    return {
        v for x in (i, *(t for o in i.operands for t in members(o))) for v in x.all_operands() if not is_array(v.type)
    }


class _Group(Mutable):
    """Roots that run in one loop nest, in order."""

    roots: list[Instruction]
    extents: list[Extent]
    layout: str
    linear: bool
    in_rows: bool
    loads: list[tuple[Instruction, bool]]  # and whether each is of the element of its place
    destinations: list[Value]
    product: MatrixProduct | None  # what the only root is, if it is that
    reduces: bool  # whether roots are reductions
    forwards: dict[Instruction, Instruction] = field(default_factory=dict)  # a load → the store of what it reads


class _Joiner:
    """One block: first it is decided what joins, on the block as it is, then the block is written anew."""

    def __init__(
        self,
        function: Function,
        block: Block,
        facts: EqualExtents,
        aliases: AliasAnalysis,
        is_candidate: Callable[[Instruction], bool],
        functions: int,
        decisions: Decisions,
    ) -> None:
        self.function, self.block, self.facts, self.aliases = function, block, facts, aliases
        self.is_candidate, self.functions, self.decisions = is_candidate, functions, decisions
        self.body = [i for i in block.instructions if not is_array(i.type)]  # in the order that comes out
        self.behind = 0  # where in it the next root is searched: joining only moves what stands before
        self.groups: dict[Instruction, _Group] = {}  # by their last roots
        self.late: dict[Instruction, list[Instruction]] = {}  # a check → visible stores that moved over it
        self._known_loads: dict[Instruction, list[tuple[Instruction, bool]]] = {}

    def joins(self) -> bool:
        """Decide what joins; whether anything does."""
        for r in [i for i in self.body if self.is_candidate(i)]:
            self._take(r)
        return any(len(g.roots) > 1 for g in self.groups.values())

    def _take(self, r: Instruction) -> None:
        mine = self._alone(r)
        here = self.body.index(r, self.behind)
        start = max(here - FAR - 1, 0)
        place = {i: k for k, i in enumerate(self.body[start:here], start)}
        for last in list(islice(reversed(self.groups), WINDOW)):
            group = self.groups[last]
            if last not in place or not self._fits(group, mine, r):
                continue
            between = self.body[place[last] + 1 : here]
            forwards = self._forwarded(group, mine)
            if forwards is None or not self._pays(group, mine, forwards):
                continue
            behind = self._moved_behind(group, r, between)
            if behind is None:
                continue
            for i in between:
                if may_trap(i) and not self._is_private(group):
                    self.late.setdefault(i, []).extend(group.roots)
            del self.groups[last]
            moved = set(behind)
            staying = [i for i in between if i not in moved]
            first = place[last] - len(group.roots) + 1  # the roots of a group stand side by side
            self.body[first : here + 1] = [*staying, *group.roots, r, *behind]
            here = first + len(staying) + len(group.roots)
            mine.roots[:0], mine.destinations[:0] = group.roots, group.destinations
            mine.loads = [*group.loads, *(found for found in mine.loads if found[0] not in forwards)]
            mine.forwards = group.forwards | forwards
            mine.linear = mine.linear and group.linear and mine.layout == group.layout
            mine.in_rows, mine.reduces = mine.in_rows and group.in_rows, mine.reduces or group.reduces
            break
        self.groups[r] = mine
        self.behind = here + 1

    def _alone(self, r: Instruction) -> _Group:
        """A group of one root."""
        value, loads, to = r.operands[0], self._loads(r), written_pointer(r)
        if to is not None:
            layout, shape = to.type.layout, to.type.shape  # type: ignore[attr-defined]
        else:
            layouts = {load.operands[0].type.layout for load, _ in loads}  # type: ignore[attr-defined]
            layout, shape = layouts.pop() if len(layouts) == 1 else "S", value.type.shape  # type: ignore[attr-defined]
        product = matrix_product(r)
        linear = product is None and is_linear(value, layout, shape)
        in_rows = layout != "F" and is_in_rows(value)
        extents = self.facts.of(value if to is None else to)
        return _Group([r], extents, layout, linear, in_rows, loads, [] if to is None else [to], product, to is None)

    def _loads(self, root: Instruction) -> list[tuple[Instruction, bool]]:
        if root not in self._known_loads:
            self._known_loads[root] = loads_of(root)
        return self._known_loads[root]

    # -- legality ------------------------------------------------------------------------------------

    def _fits(self, group: _Group, mine: _Group, r: Instruction) -> bool:
        """Whether one nest runs over the elements of both as each would by itself."""
        if group.product is not None or mine.product is not None:
            return self._is_pair(group, mine)
        if not self.facts.are_equal(group.extents, mine.extents, r):
            return False
        same = group.layout == mine.layout
        if len(mine.extents) == 1 or (same and group.linear and mine.linear):
            return same
        if (group.reduces or mine.reduces or not same) and not (group.in_rows and mine.in_rows):
            return False
        if not (group.linear or mine.linear):
            return True
        shape = r.operands[0].type.shape  # type: ignore[attr-defined]
        inner = shape[0 if mine.layout == "F" else -1]
        return inner is None or inner >= SHORT

    def _is_pair(self, group: _Group, mine: _Group) -> bool:
        """Whether both are products of one large matrix, of its rows and of its columns."""
        a, b = group.product, mine.product
        if a is None or b is None or len(group.roots) > 1 or a.of_rows == b.of_rows:
            return False
        shape = a.matrix.type.shape  # type: ignore[attr-defined]
        small = None not in shape and math.prod(shape) < SMALL
        return not small and self.aliases.same_elements(a.matrix, b.matrix)

    def _chained(self, group: _Group, mine: _Group, load: Instruction) -> bool:
        """Whether a load gives a product of columns the product of rows before it, of which it takes one a row."""
        a, b = group.product, mine.product
        if a is None or b is None or b.vector is not load or not a.of_rows or a.how:
            return False
        return self._is_same(load, group.destinations[0]) and load.type == a.dot.type

    def _forwarded(self, group: _Group, mine: _Group) -> dict[Instruction, Instruction] | None:
        """What the root reads of what the group stores; None where one loop would not do."""
        if not all(map(self.aliases.is_distinct, (*mine.destinations, *group.destinations))):
            return None
        for to in mine.destinations:
            if any(self.aliases.may_overlap(to, d) for d in group.destinations):
                return None
            for load, here in group.loads:
                if self.aliases.may_overlap(load.operands[0], to) and not (here and self._is_same(load, to)):
                    return None
        found: dict[Instruction, Instruction] = {}
        for load, here in mine.loads:
            for s in group.roots:
                if s.op is not OPS["store"] or not self.aliases.may_overlap(load.operands[0], s.operands[1]):
                    continue
                here = here and self._is_same(load, s.operands[1]) and load.type == s.operands[0].type
                if not here and not self._chained(group, mine, load):
                    return None
                found[load] = s
        return found

    def _is_same(self, load: Instruction, pointer: Value) -> bool:
        return self.aliases.same_elements(load.operands[0], pointer)

    def _moved_behind(self, group: _Group, r: Instruction, between: list[Instruction]) -> list[Instruction] | None:
        """What of the instructions between has to run behind a group that moves to r; None where it cannot move."""
        results: set[Value] = {i for i in group.roots if i.op is OPS["reduce"]}
        behind: list[Instruction] = []
        for i in between:
            if not results.isdisjoint(_needed(i)):
                if not is_pure(i) or not is_scalar(i.type) or any(is_array(v.type) for v in i.operands):
                    return None
                results.add(i)
                behind.append(i)
            elif not self._passes(group, i):
                return None
        return behind if results.isdisjoint(_needed(r)) else None

    def _passes(self, group: _Group, i: Instruction) -> bool:
        """Whether the group may run behind an instruction that it stands before."""
        if i.op.kind in (Kind.CALL, Kind.STACK, Kind.HIGHER_ORDER, Kind.CONTROL, Kind.AGGREGATE) or IO in effects(i):
            return False
        if may_trap(i) and not self._is_private(group):
            # a product is short: where the check fails a copy of it runs first
            if i.op is not OPS["check"] or group.product is None:
                return False
        reads = [load.operands[0] for load, _ in self._loads(i)]
        if i.op is OPS["load"]:
            reads.append(i.operands[0])
        elif i.op is OPS["check"]:  # what its message shows
            reads += [v for v in i.operands if isinstance(v.type, PointerType)]
        elif i.op.kind is Kind.MEMORY and i.op.name not in ("store", "scatter", "allocateHeap", "allocateStack"):
            return False
        if any(self.aliases.may_overlap(p, d) for p in reads for d in group.destinations):
            return False
        to = written_pointer(i)
        touched = [*group.destinations, *(load.operands[0] for load, _ in group.loads)] if to is not None else []
        return not any(self.aliases.may_overlap(p, to) for p in touched)

    def _is_private(self, group: _Group) -> bool:
        """Whether an error that leaves the function leaves nobody who sees the memory that the group writes."""
        roots = (root for d in group.destinations for root in self.aliases.roots(d))
        return all(isinstance(p, Instruction) and p.op.name.startswith("allocate") for p in roots)

    # -- profit --------------------------------------------------------------------------------------

    def _pays(self, group: _Group, mine: _Group, forwards: dict[Instruction, Instruction]) -> bool:
        if mine.product is not None:
            return True
        theirs = [load for load, here in group.loads if here and _is_stream(load)]
        ours = [load for load, here in mine.loads if here and _is_stream(load) and load not in forwards]
        shared = [v for v in ours if any(self._is_same(v, w.operands[0]) for w in theirs)]
        if not forwards and not shared:
            return False
        arrays = {v.operands[0] for v in (*theirs, *ours)} | {*group.destinations, *mine.destinations}
        before, added = ({v for r in g.roots for v in members(r.operands[0])} for g in (group, mine))
        # one tree may have more functions by itself: what has none may join it
        functions = max(self.functions, *(sum(map(is_function, some)) for some in (before, added)))
        steps = before | added
        if len(arrays) > 2 * STREAMS or len(steps) > STEPS or sum(map(is_function, steps)) > functions:
            return False
        # the closer of the two sides is offered: kernels apart, or more arrays in one loop
        near = 2 * STREAMS if len(arrays) > STREAMS else 1
        return len(arrays) <= self.decisions.take("sibling_fusion.arrays", STREAMS, (near,))

    # -- the block anew ------------------------------------------------------------------------------

    def write(self) -> None:
        """Each kernel gets its trees right before it."""
        self.block.instructions = []
        kernel = {r: group for group in self.groups.values() for r in group.roots}
        for i in self.body:
            group = kernel.get(i)
            roots = group.roots if group is not None else [i]
            if i is roots[0]:
                trees = _Trees(self.block, group.forwards if group is not None else {})
                for r in roots:
                    r.operands = [trees.copied(v) for v in r.operands]
                    if group is not None:
                        trees.stored[r] = r.operands[0]
            elif group is not None:
                i.attrs = {**i.attrs, JOINED: True}
            if i in self.late:
                self._fork(i, self.late[i])
            else:
                self.block.append(i)

    def _fork(self, check: Instruction, stores: list[Instruction]) -> None:
        """Where a check fails, what stood before it runs, and the error is raised; what follows is in a new block."""
        fails = self.function.new_block(after=self.block)
        goes_on = self.function.new_block(after=self.block)
        b = Builder(self.function, self.block)
        b.loc = check.loc
        condition, *shown = check.operands
        b.conditional(condition, goes_on, None, fails)
        for s in stores:
            operands = [_Trees(fails, {}).copied(v) for v in s.operands]
            fails.append(Instruction(s.op, operands, loc=s.loc))
        fails.append(Instruction(OPS["raise"], shown, dict(check.attrs), loc=check.loc))
        self.block = goes_on


class _Trees:
    """The trees of one kernel, made anew at the end of a block, what is equal once."""

    def __init__(self, block: Block, forwards: dict[Instruction, Instruction]) -> None:
        self.block, self.forwards = block, forwards
        self.stored: dict[Instruction, Value] = {}  # a root → the value that it stores now
        self._new: dict[Value, Value] = {}
        self._known: dict[tuple, Instruction] = {}

    def copied(self, v: Value) -> Value:
        """The value as the kernel has it."""
        if not isinstance(v, Instruction) or not is_array(v.type):
            return v
        if v in self.forwards:
            return self.stored[self.forwards[v]]
        if v not in self._new:
            # operands first, so that this recurses no further
            for x in _operands_first([x for x in members(v) if x not in self._new and x not in self.forwards]):
                self._new[x] = self._made(x)
        return self._new[v]

    def _made(self, v: Instruction) -> Instruction:
        operands = [self.copied(x) for x in v.operands]
        key = v.op.name, tuple(map(_key, operands)), repr(sorted(v.attrs.items())), v.type
        if key not in self._known:
            made = Instruction(v.op, operands, dict(v.attrs), type=v.type, name=v.name, loc=v.loc)
            self.block.append(made)
            self._known[key] = made
        return self._known[key]


def _operands_first(values: list[Instruction]) -> list[Instruction]:
    """Array values in an order in which operands stand before users."""
    wanted, done, order = set(values), set(), list[Instruction]()
    for v in values:
        work = [v]
        while work:
            x = work[-1]
            ahead = [o for o in x.operands if o in wanted and o not in done]
            if x in done or not ahead:
                work.pop()
                if x not in done:
                    done.add(x)
                    order.append(x)
            else:
                work += ahead  # type: ignore[arg-type]
    return order


def _key(v: Value) -> object:
    """What tells operands apart: literals by what they say."""
    return (repr(v.value), v.type) if isinstance(v, Literal) else v


def _is_stream(load: Instruction) -> bool:
    """Whether a load goes through memory: it has no extent of 1."""
    assert isinstance(load.type, TensorType)
    return 1 not in load.type.shape


def _drop_unread(function: Function) -> None:
    """Stores to buffers that nothing reads go, and the buffers."""
    users = uses(function)

    def is_unread(buffer: Instruction) -> bool:
        # a product of rows that one of columns takes keeps its place: it is needed whole where there is no single pass
        stores = (u for u in users[buffer] if u.op is OPS["store"] and u.operands[1] is buffer)
        return [u for u in stores if matrix_product(u) is None] == users[buffer]

    unread = {i for i in function.instructions() if i.op is OPS["allocateHeap"] and is_unread(i)}

    def goes(i: Instruction) -> bool:
        return i in unread or (i.op is OPS["store"] and i.operands[1] in unread)

    for block in function.blocks:
        if not any(map(goes, block.instructions)):
            continue
        rest: list[Instruction] = []
        for kernel in kernels(block.instructions):
            left = [i for i in kernel if not goes(i)]
            if left and left[0] is not kernel[0]:
                left[0].attrs = {n: v for n, v in left[0].attrs.items() if n != JOINED}
            rest += left
        block.instructions = rest
        drop_dead_trees(block)


def drop_dead_trees(block: Block) -> None:
    """Array values that no root asks for go."""
    used: set[Value] = set()
    kept: list[Instruction] = []
    for i in reversed(block.instructions):
        if not is_array(i.type) or i in used:
            kept.append(i)
            used.update(i.all_operands())
    block.instructions = kept[::-1]
