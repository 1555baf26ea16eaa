"""Stencil inlining: what kernels read at shifted places of a large temporary is computed again where it is read.

    %t = allocateHeap f64 count (%n: i64)               (checks that nothing is stretched, and %t is large)
    %x0 = section %x at (0) count (%n) step (1)         conditional %pays then 'inlined() else 'whole()
    %x1 = section %x at (1) count (%n) step (1)     'inlined():
    store (load %x1 - load %x0) to %t                   %y0 = section %x at (0) count (%m) step (1)
    %t0 = section %t at (0) count (%m) step (1)         %y1 = section %x at (1) count (%m) step (1)
    %t1 = section %t at (1) count (%m) step (1)     =>  %y2 = section %x at (2) count (%m) step (1)
    store (load %t1 - load %t0) to %y                   %d = load %y1 - load %y0
                                                        store ((load %y2 - load %y1) - %d) to %y
                                                        branch 'behind()
                                                    'whole():
                                                        the kernels as they were
                                                        branch 'behind()

A chain of stencils (a Laplacian, fluxes of it, an update by those) goes over memory once then, and its temporaries are
never made. Each element is computed by the steps that it was computed by, so every bit stays.

A temporary may be inlined if its memory is made in the block, all of it is written by one store of an elementwise tree,
it is only read in other such trees, in whole or by sections of step 1, and what its own tree reads is not written from
there on until the last of these kernels. What stands between the kernels must be able to run before them.

Which ones are is decided by a count of what an element costs, of the kernels that are left: the steps and loads that
differ (what two shifts have in common is computed once), and what memory takes to write and to read again. At run time
the kernels run as they were where the temporaries are small, where something is stretched to the extents of another
array, and where a slice that was cut at the end of an array begins earlier than it says (`min`).

Cost: linear in the kernels of a block with such sections, times the temporaries of a chain (at most MANY). Stage
compute, before `hoist_buffers`; in loops, what is not inlined always has its memory, so that it can be hoisted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce as fold
from math import prod

from dlvm_py.decisions import Decisions
from dlvm_py.frozen import Mutable, field
from dlvm_py.ir.analysis import AliasAnalysis, LoopForest, uses
from dlvm_py.ir.analysis.cost import step_cost
from dlvm_py.ir.analysis.equal_extents import EqualExtents
from dlvm_py.ir.analysis.extents import extent_at, extents_of, known_extent
from dlvm_py.ir.analysis.places import Linear, linear
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.tree_rules import JOINED, is_root, kernels
from dlvm_py.ir.types import is_array
from dlvm_py.ir.value import Instruction, Value, integer
from dlvm_py.transforms.kernel_versions import cut_out, elementwise, is_filled, passes, tree_of
from dlvm_py.transforms.substitution import substitute

# bytes of the temporaries, from which on it pays: what does not fit into the cache that a core has for itself
LARGE = 1 << 19
MEMORY = 20  # what an element costs that is written to memory beyond that cache and read again, as cost.py counts
MANY = 24  # kernels of a chain
STEPS = 400  # of one kernel, at most: what registers and compile time bear

_Form = tuple[int, frozenset[tuple[Value, int]]]  # a linear form that can be looked up
_Step = tuple[Value, tuple[_Form, ...]]  # a value of a tree or a base, and from where on


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Inline the stencils of `function`; whether there were any."""
    blocks = [b for b in function.blocks if _has_stencils(b)]
    decisions, changed = decisions or Decisions(), False
    while blocks:
        block = blocks.pop()
        chain = _Finder(function, block, noalias_params, decisions).chain() if _has_stencils(block) else None
        if chain is not None:
            blocks.append(_Writer(function, block, chain, decisions).write())
            changed = True
    return changed


def _has_stencils(block: Block) -> bool:
    """Whether there may be a chain in a block: sections of memory that is made in it."""
    for i in block.instructions:
        if i.op is OPS["section"]:
            base = i.operands[0]
            if isinstance(base, Instruction) and base.op is OPS["allocateHeap"] and base.block is block:
                return True
    return False


class _Root(Mutable):
    """A store of an elementwise tree. at: the number of its kernel."""

    store: Instruction
    at: int
    tree: list[Instruction]

    @property
    def pointer(self) -> Value:
        return self.store.operands[1]

    @property
    def loads(self) -> Iterator[Instruction]:
        return (v for v in self.tree if v.op is OPS["load"])


class _Chain(Mutable):
    """Kernels, and the temporaries that are inlined, with the roots that write them."""

    kernels: list[list[_Root]]
    inlined: dict[Value, _Root]


class _Places(Mutable):
    """What pointers look at: a base, and where in it. assumed: values that are taken for numbers, to be checked."""

    assumed: dict[Value, int] = field(default_factory=dict)
    found: dict[Value, tuple[Value, list[Linear]]] = field(default_factory=dict)

    def of(self, p: Value) -> tuple[Value, list[Linear]]:
        """Through sections of step 1, the base and where the first element is."""
        if p not in self.found:
            self.found[p] = self._place(p)
        return self.found[p]

    def _place(self, p: Value) -> tuple[Value, list[Linear]]:
        if not _is_part(p):
            return p, [Linear(0)] * p.type.rank  # type: ignore[attr-defined]
        base, at = self.of(p.operands[0])  # type: ignore[attr-defined]
        starts = p.operands[1 : 1 + len(at)]  # type: ignore[attr-defined]
        return base, [a.plus(self._start(v)) for a, v in zip(at, starts, strict=True)]

    def _start(self, v: Value) -> Linear:
        """A linear form, in which the smaller of a length and a number is the number."""
        form = linear(v)
        for term, factor in list(form.terms.items()):
            number = _bound(term)
            if number is not None:
                self.assumed[term] = number
                form = form.plus(Linear(0, {term: 1}), -factor).plus(Linear(number), factor)
        return form


def _bound(v: Value) -> int | None:
    if isinstance(v, Instruction) and v.op is OPS["min"]:
        return next((n for n in map(integer, v.operands) if n is not None and n >= 0), None)
    return None


def _base_of(p: Value) -> Value:
    """What a pointer is a section of, through those of step 1."""
    while _is_part(p):
        p = p.operands[0]  # type: ignore[attr-defined]
    return p


def _is_part(p: Value) -> bool:
    """Whether a pointer is a section of step 1."""
    if not isinstance(p, Instruction) or p.op is not OPS["section"]:
        return False
    rank = p.type.rank  # type: ignore[attr-defined]
    return all(integer(v) == 1 for v in p.operands[1 + 2 * rank :])


def _large(decisions: Decisions) -> int:
    """The bytes of temporaries that are large."""
    return decisions.take("inline_stencils.large", LARGE, (LARGE >> 4, LARGE << 4))


class _Finder:
    """The first chain of a block."""

    def __init__(self, function: Function, block: Block, noalias_params: bool, decisions: Decisions) -> None:
        self.block, self.users, self.decisions = block, uses(function), decisions
        self.aliases = AliasAnalysis(function, noalias_params)
        self.places = _Places()

    def chain(self) -> _Chain | None:
        """Kernels of which some are inlined in others, and are worth it."""
        found: list[list[_Root]] = []
        for instructions in kernels(self.block.instructions):
            first = instructions[0]
            if not is_root(first):
                if is_array(first.type) or not found or passes(self.aliases, self._written(found), first):
                    continue
            elif len(found) < MANY and (roots := _roots(instructions, len(found))):
                found.append(roots)
                continue
            if (chain := self._worth(found)) is not None:
                return chain
            found = []
        return self._worth(found)

    def _written(self, found: list[list[_Root]]) -> list[Value]:
        return [r.pointer for roots in found for r in roots]

    def _worth(self, found: list[list[_Root]]) -> _Chain | None:
        """What of these kernels is cheaper than they are."""
        if len(found) < 2:
            return None
        roots = [r for kernel in found for r in kernel]
        owner = {load: r for r in roots for load in r.loads}
        may = {r.pointer: r for r in roots if self._is_temporary(r, roots, owner)}
        if not may:
            return None
        self.memory = self.decisions.take("inline_stencils.memory", MEMORY, (0, 3 * MEMORY))
        best, least = dict(may), self._cost(found, may)
        while best:
            costs = {p: self._cost(found, {q: r for q, r in best.items() if q is not p}) for p in best}
            worst = min(costs, key=costs.__getitem__)
            if costs[worst] > least:
                break
            del best[worst]
            least = costs[worst]
        large = _large(self.decisions) if best else 0
        if not best or (self._size_of(best) or large) < large:
            return None
        readers = [r.at for r in roots if any(_base_of(v.operands[0]) in best for v in r.loads)]
        first, last = min(r.at for r in best.values()), max(readers)
        return _Chain(found[first : last + 1], best)

    def _size_of(self, inlined: dict[Value, _Root]) -> int | None:
        """The bytes of the temporaries, where the extents are known."""
        shapes = [(*p.type.shape, p.type.dtype.itemsize) for p in inlined]  # type: ignore[attr-defined]
        return None if any(None in shape for shape in shapes) else sum(map(prod, shapes))

    def _is_temporary(self, r: _Root, roots: list[_Root], owner: dict[Instruction, _Root]) -> bool:
        """Whether what a root writes may be computed where it is read."""
        p = r.pointer
        if not isinstance(p, Instruction) or p.op is not OPS["allocateHeap"] or p.block is not self.block:
            return False
        loads = self._loads_of(p, r.store)
        if not loads or all(v.operands[0] is p for v in loads) or 1 in p.type.shape:  # type: ignore[attr-defined]
            return False
        if any(v not in owner or owner[v].at <= r.at or 1 in v.type.shape for v in loads):  # type: ignore[attr-defined]
            return False
        own = [v.operands[0] for v in r.loads]
        later = [q.pointer for q in roots if q.at >= r.at and q is not r]
        return not any(self.aliases.may_overlap(w, q) for w in later for q in own)

    def _loads_of(self, p: Instruction, store: Instruction) -> list[Instruction]:
        """The loads of a pointer and of its sections; [] where something else is done with it, but for one store."""
        found: list[Instruction] = []
        work = [p]
        while work:
            v = work.pop()
            for user in self.users[v]:
                if user.op is OPS["load"]:
                    found.append(user)
                elif _is_part(user) and user.operands[0] is v:
                    work.append(user)
                elif not (user is store and v is p) and user.op is not OPS["extent"]:
                    return []
        return found

    def _cost(self, found: list[list[_Root]], inlined: dict[Value, _Root]) -> float:
        """What one element of all kernels costs that are not inlined."""
        total = 0
        for kernel in found:
            left = [r for r in kernel if r.pointer not in inlined]
            if left:
                total += (self.memory - 1) * len(left)
                steps = _steps(left, inlined, self.places)
                if len(steps) > STEPS:
                    return float("inf")
                total += sum(steps.values())
        return total


def _roots(instructions: list[Instruction], at: int) -> list[_Root]:
    """The stores of a kernel of elementwise trees; [] for another kernel."""
    found = []
    for i in instructions:
        value = i.operands[0]
        tree = elementwise(value, may_stretch=True) if i.op is OPS["store"] and is_array(value.type) else None
        if tree is None:
            return []
        found.append(_Root(i, at, tree))
    return found


def _steps(roots: list[_Root], inlined: dict[Value, _Root], places: _Places) -> dict[object, int]:
    """The steps of a kernel into which temporaries are inlined, with their costs."""
    found: dict[object, int] = {}
    work: list[tuple[Value, list[Linear]]] = [(r.store.operands[0], _nowhere(r.pointer)) for r in roots]
    while work:
        v, at = work.pop()
        if not isinstance(v, Instruction) or not is_array(v.type):
            continue
        if v.op is OPS["load"]:
            base, start = places.of(v.operands[0])
            at = _sum(at, start)
            if base in inlined:
                work.append((inlined[base].store.operands[0], at))
                continue
            v = base  # type: ignore[assignment]
        key = v, _key(at)
        if key in found:
            continue
        found[key] = 1 if not is_array(v.type) else step_cost(v)
        if is_array(v.type):
            work += [(o, at) for o in v.operands]
        if len(found) > STEPS:
            break
    return found


def _nowhere(p: Value) -> list[Linear]:
    return [Linear(0)] * p.type.rank  # type: ignore[attr-defined]


def _sum(a: list[Linear], b: list[Linear]) -> list[Linear]:
    return [x.plus(y) for x, y in zip(a, b, strict=True)]


def _key(at: list[Linear]) -> tuple[_Form, ...]:
    return tuple((x.constant, frozenset(x.terms.items())) for x in at)


class _Writer:
    """The two versions of a chain, in new blocks behind its block."""

    def __init__(self, function: Function, block: Block, chain: _Chain, decisions: Decisions) -> None:
        self.large = _large(decisions)
        self.function, self.block, self.chain, self.inlined = function, block, chain, chain.inlined
        self.b = Builder(function).at_end(block)
        self.starts: dict[_Form, Value] = {}
        self.places = _Places()
        self.changed = [r for kernel in chain.kernels for r in kernel if r.pointer in self.inlined or self._reads(r)]
        for r in self.changed:
            for load in r.loads:
                self.places.of(load.operands[0])

    def _reads(self, r: _Root) -> bool:
        """Whether something that a root reads is inlined."""
        return any(_base_of(v.operands[0]) in self.inlined for v in r.loads)

    def write(self) -> Block:
        """Cut the block; the block that what stood behind the chain is in."""
        function, block = self.function, self.block
        stores = [r.store for kernel in self.chain.kernels for r in kernel]
        self._forget_extents()
        in_loop = LoopForest(function).loop_of(block) is not None
        unknown = self._unknown_extents()
        inlined, whole, behind = cut_out(
            function, block, stores, () if in_loop else self.inlined, ("inlined", "whole", "")
        )
        self.b.loc = stores[0].loc
        self.b.conditional(self._pays(unknown), inlined, None, whole)
        self.b.at_end(inlined)
        for kernel in self.chain.kernels:
            self._write_kernel([r for r in kernel if r.pointer not in self.inlined])
        self.b.branch(behind)
        return behind

    def _forget_extents(self) -> None:
        """The extents of temporaries are what they are made with."""
        asked = (i for i in self.function.instructions() if i.op is OPS["extent"])
        asked = (i for i in asked if _base_of(i.operands[0]) in self.inlined)
        substitute(self.function.blocks, {i: known_extent(i.operands[0], i.attrs["at"]) for i in asked})  # type: ignore[misc]

    # -- the choice ----------------------------------------------------------------------------------

    def _unknown_extents(self) -> list[tuple[Value, Value, int]]:
        """Of what pointers are read, and written by the same kernel, which extents are not known to be equal."""
        facts, found = EqualExtents(self.function), []
        for r in self.changed:
            theirs = facts.of(r.pointer)
            for p in dict.fromkeys(v.operands[0] for v in r.loads):
                for k, (known, mine) in enumerate(zip(p.type.shape, facts.of(p), strict=True)):  # type: ignore[attr-defined]
                    if known != 1 and not facts.are_equal([mine], [theirs[k]], r.store):
                        found.append((p, r.pointer, k))
        return found

    def _pays(self, unknown: list[tuple[Value, Value, int]]) -> Value:
        """Whether the places are as they are taken for, nothing is stretched, and the temporaries are large."""
        b = self.b
        tests = [self._is_large()]
        tests += [b.emit("equal", v, literal(n)) for v, n in self.places.assumed.items()]
        pairs = dict.fromkeys((self._extent(p, k), self._extent(q, k)) for p, q, k in unknown)
        tests += [b.emit("equal", mine, theirs) for mine, theirs in pairs]
        return fold(lambda x, y: b.emit("and", x, y), tests)

    def _extent(self, p: Value, axis: int) -> Value:
        """That of a pointer, which may be a section of a temporary."""
        n = extent_at(self.b, p, axis)
        while isinstance(n, Instruction) and n.op is OPS["extent"] and _base_of(n.operands[0]) in self.inlined:
            n = extent_at(self.b, n.operands[0], n.attrs["at"])
        return n

    def _is_large(self) -> Value:
        b = self.b
        sizes = []
        for p in self.inlined:
            factors = [*extents_of(b, p), literal(p.type.dtype.itemsize)]  # type: ignore[attr-defined]
            sizes.append(fold(lambda x, y: b.emit("multiply", x, y), factors))
        return b.emit("greaterThanOrEqual", fold(lambda x, y: b.emit("add", x, y), sizes), literal(self.large))

    # -- the kernels ---------------------------------------------------------------------------------

    def _write_kernel(self, roots: list[_Root]) -> None:
        """What is left of a kernel, with what it reads of temporaries in it."""
        new: dict[_Step, Value] = {}
        b, values = self.b, []
        for r in roots:
            b.loc = r.store.loc
            if self._reads(r):
                self.extents = extents_of(b, r.pointer)
                value = self._inlined(r.store.operands[0], _nowhere(r.pointer), new, True)
                if value.type.shape != r.pointer.type.shape:  # type: ignore[attr-defined]
                    value = b.emit("broadcast", value, *self.extents)
            else:
                value = self._copied(r.store.operands[0])
            values.append(value)
        for k, (r, value) in enumerate(zip(roots, values, strict=True)):
            attrs = {name: v for name, v in r.store.attrs.items() if k or name != JOINED}
            b.loc = r.store.loc
            b.emit("store", value, r.pointer, **attrs)

    def _copied(self, top: Value) -> Value:
        new: dict[Value, Value] = {}
        for x in reversed(tree_of(top)):  # operands first
            self.b.clone(x, new)
        return new[top]

    def _inlined(self, v: Value, at: list[Linear], new: dict[_Step, Value], is_own: bool) -> Value:
        """A value of a tree, for the elements from `at` on. is_own: whether the tree is that of the root."""
        if not isinstance(v, Instruction) or not is_array(v.type):
            return v
        b, shape = self.b, v.type.shape  # type: ignore[attr-defined]
        if v.op is OPS["load"]:
            base, start = self.places.of(v.operands[0])
            if base in self.inlined:
                return self._inlined(self.inlined[base].store.operands[0], _sum(at, start), new, False)
            # of what is stretched there is one index
            at = [s if n == 1 else a.plus(s) for a, s, n in zip(at, start, shape, strict=True)]
            key = base, _key(at)
            if key not in new:
                new[key] = b.emit("load", self._part(v.operands[0], base, at, is_own))
            return new[key]
        key = v, _key(at)
        if key not in new:
            counts = [literal(1) if n == 1 else extent for n, extent in zip(shape, self.extents, strict=True)]
            if v.op is OPS["broadcast"]:
                of = self._inlined(v.operands[0], at, new, is_own)
                is_stretched = is_filled(v) or [n == 1 for n in of.type.shape] != [n == 1 for n in shape]  # type: ignore[attr-defined]
                new[key] = b.emit("broadcast", of, *counts) if is_stretched else of
            else:
                operands = [self._inlined(o, at, new, is_own) for o in v.operands]
                new[key] = b.emit(v.op, *operands, name=v.name, **v.attrs)
        return new[key]

    def _part(self, p: Value, base: Value, at: list[Linear], is_own: bool) -> Value:
        """The pointer to the elements of a base that begin somewhere. is_own: whether p, which is read, has them."""
        shape, wanted = p.type.shape, [integer(n) for n in self.extents]  # type: ignore[attr-defined]
        if is_own and all(n in (1, m) for n, m in zip(shape, wanted, strict=True)):
            return p
        b = self.b
        counts = [literal(1) if n == 1 else extent for n, extent in zip(shape, self.extents, strict=True)]
        ones = [literal(1)] * len(shape)
        return b.emit("section", base, *(self._start(x) for x in at), *counts, *ones)

    def _start(self, x: Linear) -> Value:
        """A linear form as a number."""
        b, (key,) = self.b, _key([x])
        if key not in self.starts:
            parts = [v if n == 1 else b.emit("multiply", v, literal(n)) for v, n in x.terms.items()]
            if x.constant or not parts:
                parts.append(literal(x.constant))
            self.starts[key] = fold(lambda u, v: b.emit("add", u, v), parts)
        return self.starts[key]
