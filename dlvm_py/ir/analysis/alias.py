"""Which pointers may refer to the same memory.

A pointer is a chain of index ops from a *root*: an `allocateHeap`, a parameter, a `pop` or an `apply`.
Roots flow through block arguments, as a union over the incoming edges, to a fixed point. Memory is then
told apart by *objects*:

* an `allocateHeap` (or, in the frame, `allocateStack`) is fresh memory, different from every parameter and every
  other allocation (but in a loop the one instruction stands for many allocations);
* a `pop` gives what was pushed to that stack, nothing else; a call that holds the stack pushes what it holds;
* an `apply` gives fresh memory or views of its pointer arguments: a function keeps no array between calls;
* two parameters share memory only where `noalias_params` is false.

What is not understood (what the caller left on a stack parameter, the items of cells) is the object `None`: it may be
anything; a call that is handed cells, or may reach variables of the module (`SHARED`), may write anything. Views never
change the element type, but for the parts of complex numbers; so pointers whose elements have different real parts are
apart, except parameters that may overlap. Cost: linear in the function, times the length of the longest chain of block
arguments.
"""

from __future__ import annotations

from math import gcd, inf

from dlvm_py.ir.analysis.cfg import bound_blocks, predecessors
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import written_pointer
from dlvm_py.ir.analysis.places import section_parts
from dlvm_py.ir.function import Function
from dlvm_py.ir.layout import is_plain
from dlvm_py.ir.op import Kind
from dlvm_py.ir.types import CELL, DType, PointerType, StackType, TensorType, TupleType, Type
from dlvm_py.ir.value import BlockArg, Instruction, Literal, Value, Variable, integer

# in `meta`: calls of this function may touch variables of the module that are no operands of theirs
SHARED = "shared"
_FRESH = ("allocateHeap", "allocateAggregate", "allocateCounted", "allocateStack", "createStack", "drain")
_NOTHING: frozenset[Value] = frozenset()
_NOWHERE: frozenset[Value | None] = frozenset()
_ANYTHING: frozenset[Value | None] = frozenset((None,))
_MANY_PAIRS = 200  # a question about more pairs of block arguments than this is given up


def _carries_pointers(type: Type) -> bool:
    return isinstance(type, PointerType | StackType | TupleType)


def _follows(i: Instruction) -> bool:
    """Whether the roots of a result are those of operands."""
    return i.op.kind is Kind.INDEX or i.op.name in ("tuple", "extract")


def _carries_stacks(type: Type) -> bool:
    if isinstance(type, TupleType):
        return any(map(_carries_stacks, type.elements))
    return isinstance(type, StackType)


class AliasAnalysis:
    """Roots of pointers and what they may share. See the module docstring for the model."""

    def __init__(self, function: Function, noalias_params: bool = True) -> None:
        self.noalias_params = noalias_params
        self._function = function
        self._params = {p: k for k, p in enumerate(function.params)}
        self._roots: dict[Value, frozenset[Value]] = {}
        self._objects: dict[Value, frozenset[Value | None]] = {}
        self._targets: dict[Value, tuple[frozenset[Value | None], DType | None]] = {}  # the answers of _target so far
        self.is_shared = bool(function.meta.get(SHARED))
        self._bound = bound_blocks(function)
        self._incoming = predecessors(function)
        self._dominators: DominatorTree | None = None  # made when it is asked for
        self._meetings: dict[tuple[Value, Value], bool] = {}
        self._pushes = [i for i in function.instructions() if i.op.name == "push"]
        self._calls = [i for i in function.instructions() if i.op.name in ("apply", "applyValue")]
        self._solve_roots()
        self._solve_stacks()
        self._solve_objects()

    # -- roots -------------------------------------------------------------------------------------

    def roots(self, pointer: Value) -> frozenset[Value]:
        """The allocateHeap, parameter, pop and apply values that `pointer` may be a view of.

        Empty for NULL and UNDEFINED. For a tuple: those of all its elements.
        """
        known = self._roots.get(pointer)
        if known is not None:
            return known
        if isinstance(pointer, Variable):
            return frozenset((pointer,))
        # a value that was made after the analysis: an index op on a known one is still understood
        return self._transfer(pointer) if isinstance(pointer, Instruction) else _NOTHING

    def _transfer(self, i: Instruction) -> frozenset[Value]:
        """Roots of an instruction's result from the roots of its operands."""
        if i.op.kind is Kind.INDEX:
            return self.roots(i.operands[0])
        if i.op.name == "tuple":
            return _NOTHING.union(*(self.roots(v) for v in i.operands if _carries_pointers(v.type)))
        if i.op.name == "extract":
            aggregate = i.operands[0]
            if not is_flat(aggregate.type):
                return frozenset((i,))
            if isinstance(aggregate, Instruction) and aggregate.op.name == "tuple":
                return self.roots(aggregate.operands[i.attrs["at"]])
            return self.roots(aggregate)
        return frozenset((i,))

    def _solve_roots(self) -> None:
        # of what is passed to arguments, of instructions that follow from those, and of what stands before its operands
        rules: dict[Value, list[Value] | None] = {}
        for block in self._function.blocks:
            for k, arg in enumerate(block.args):
                if _carries_pointers(arg.type):
                    itself = arg in self._params or block in self._bound
                    self._roots[arg] = frozenset((arg,)) if itself else _NOTHING
                    if not itself:
                        rules[arg] = [p.targets[t].args[k] for p, t in self._incoming[block]]
            for i in block.instructions:
                if _carries_pointers(i.type):
                    if _follows(i) and any(v in rules or self._is_ahead(v) for v in i.operands):
                        self._roots[i], rules[i] = _NOTHING, None
                    else:
                        self._roots[i] = self._transfer(i)
        changed = True
        while changed:
            changed = False
            for value, passed in rules.items():
                roots = self._transfer(value) if passed is None else _NOTHING.union(*map(self.roots, passed))  # type: ignore[arg-type]
                changed |= self._update(value, roots)

    def _is_ahead(self, v: Value) -> bool:
        """Whether a pointer stands further down in the text than all that has been looked at."""
        return v not in self._roots and isinstance(v, Instruction | BlockArg) and _carries_pointers(v.type)

    def _update(self, value: Value, roots: frozenset[Value]) -> bool:
        if self._roots.get(value) == roots:
            return False
        self._roots[value] = roots
        return True

    # -- memory objects ------------------------------------------------------------------------------

    def _solve_objects(self) -> None:
        """What memory each root can stand for: pops are what was pushed, applies may be their arguments."""
        sources: dict[Value, list[Value]] = {}
        contents: dict[frozenset[Value], tuple[frozenset[Value | None], list[Value]]] = {}
        for root in {r: None for roots in self._roots.values() for r in roots}:
            self._objects[root], sources[root] = frozenset((root,)), []
            if isinstance(root, Instruction) and root.op.name == "pop":
                stacks = self.roots(root.operands[0])
                if stacks not in contents:
                    contents[stacks] = self._contents(stacks)
                self._objects[root], sources[root] = contents[stacks]
            elif isinstance(root, Instruction) and root.op.name not in (*_FRESH, "apply", "applyValue"):
                self._objects[root] = _ANYTHING
            elif isinstance(root, BlockArg) and root not in self._params:
                self._objects[root] = _ANYTHING  # what a case of an enum holds
            elif isinstance(root, Instruction) and root.op.name in ("apply", "applyValue"):
                fresh, values = self._contents(self._stacks_of(root))
                self._objects[root] |= fresh
                sources[root] = [v for v in root.operands if _carries_pointers(v.type)] + values
        changed = True
        while changed:
            changed = False
            for root, values in sources.items():
                flows = [self._objects.get(r, _ANYTHING) for v in values for r in self.roots(v)]
                new = self._objects[root].union(*flows)
                if new != self._objects[root]:
                    self._objects[root], changed = new, True

    def _solve_stacks(self) -> None:
        """Join the roots of stacks that may be one stack, or exchange what lies on them, into groups.

        A call can move what it holds, and fresh memory, to any stack that it holds. A stack that is popped is
        one that was pushed.
        """
        self._groups: dict[Value, set[Value]] = {}
        for call in self._calls:
            self._join(self._stacks_of(call))
        nested = [i for i in self._function.instructions() if i.op.name == "pop" and _carries_stacks(i.type)]
        changed = True
        while changed:
            changed = False
            for pop in nested:
                outer = self._group(self.roots(pop.operands[0]))
                pushed = [p.operands[0] for p in self._pushes if self.roots(p.operands[1]) & outer]
                # what others have pushed is one of theirs
                others = (s for s in outer if not isinstance(s, Instruction) or s.op.name in ("apply", "applyValue"))
                changed |= self._join(frozenset((pop, *others)).union(*map(self.roots, pushed)))

    def _join(self, roots: frozenset[Value]) -> bool:
        group = self._group(roots)
        changed = any(len(self._groups.get(r, ())) != len(group) for r in group)
        for r in group:
            self._groups[r] = group
        return changed

    def _group(self, roots: frozenset[Value]) -> set[Value]:
        """All roots that stacks with these roots are joined with."""
        return set(roots).union(*(self._groups.get(r, ()) for r in roots))

    def _stacks_of(self, call: Instruction) -> frozenset[Value]:
        """The roots of the stacks that a call has in its hands and gives back; of a tuple, all roots."""
        aggregates = [v for v in call.operands if isinstance(v.type, StackType | TupleType)]
        return frozenset((call,)).union(*map(self.roots, aggregates))

    def _contents(self, stacks: frozenset[Value]) -> tuple[frozenset[Value | None], list[Value]]:
        """What may lie on stacks with these roots: memory that is known, and values whose memory may."""
        group = self._group(stacks)
        calls = [c for c in self._calls if c in group]
        pushes = [p for p in self._pushes if _carries_pointers(p.operands[0].type)]
        values = [p.operands[0] for p in pushes if self.roots(p.operands[1]) & group]
        values += [v for c in calls for v in c.operands if isinstance(v.type, PointerType | TupleType)]
        # a stack parameter comes filled by the caller
        unknown = [None] if any(isinstance(s, BlockArg) and isinstance(s.type, StackType) for s in group) else []
        return frozenset((*calls, *unknown)), values

    def _memory(self, pointer: Value) -> frozenset[Value | None]:
        objects = [self._objects.get(root, _ANYTHING) for root in self.roots(pointer)]
        return objects[0] if len(objects) == 1 else _NOWHERE.union(*objects)

    def _target(self, pointer: Value) -> tuple[frozenset[Value | None], DType | None]:
        """The memory of a pointer, and the real part of its elements: None in an aggregate, which has any type."""
        found = self._targets.get(pointer)
        if found is None:
            assert isinstance(pointer.type, PointerType), pointer
            dtype = pointer.type.dtype.real if isinstance(pointer.type.pointee, TensorType) else None
            found = self._memory(pointer), dtype
            if pointer in self._roots:  # what was made since may still change
                self._targets[pointer] = found
        return found

    # -- questions -----------------------------------------------------------------------------------

    def is_local(self, pointer: Value) -> bool:
        """Whether all that `pointer` may refer to is memory that the function allocates, which a raise hides."""
        roots = self.roots(pointer)
        return all(isinstance(r, Instruction) and r.op.name in ("allocateHeap", "allocateStack") for r in roots)

    def may_alias(self, p: Value, q: Value) -> bool:
        """Whether an element of `p` can be an element of `q`, at any two times in one call."""
        (ours, our_type), (theirs, their_type) = self._target(p), self._target(q)
        if not self.noalias_params and self._overlapping_params(ours, theirs):
            return True
        if our_type is not their_type and our_type is not None and their_type is not None:
            return False
        return _meet(ours, theirs) and (None in ours or None in theirs or not self._apart(p, q))

    def may_overlap(self, p: Value, q: Value) -> bool:
        """Whether an element of `p` can be an element of `q` at a time when both are in scope.

        Sharper than `may_alias` in loops. An allocation is apart from every pointer that was there before it
        was made, also from one that an earlier round made with the same instruction. Arguments of a block are
        apart if the values passed to them are on every edge: `u, v = v, u` keeps two arrays two arrays. Row i and row
        i + 1 of one array are apart, whatever i is.
        """
        if not self.may_alias(p, q) or self._apart_now(p, q):
            return False
        pair = _base(p), _base(q)
        if pair not in self._meetings:
            self._meetings[pair] = self._may_meet(*pair)
        return self._meetings[pair]

    def _may_meet(self, p: Value, q: Value) -> bool:
        """Follow a pair of pointers back over the edges of the CFG, until all pairs are apart or one is not.

        A pair that comes up again is apart by induction over the steps of a run: nothing else reached it.
        """
        seen: set[tuple[Value, Value]] = set()
        work = [(p, q)]
        while work:
            p, q = (_base(v) for v in work.pop())
            if p is q or len(seen) > _MANY_PAIRS:
                return True
            if (p, q) in seen or (q, p) in seen:
                continue
            seen.add((p, q))
            if not self.may_alias(p, q) or self._is_newer(p, q) or self._is_newer(q, p):
                continue
            before = self._passed(p, q) or self._passed(q, p)
            if not before:
                return True
            work.extend(before)
        return False

    def _passed(self, arg: Value, other: Value) -> list[tuple[Value, Value]]:
        """What a block argument and another pointer are on each edge into the block; [] if that is unknown."""
        if not isinstance(arg, BlockArg) or arg in self._params:
            return []
        assert isinstance(other, BlockArg | Instruction)
        block, home = arg.block, other.block
        edges = [source.targets[index].args for source, index in self._incoming[block]]
        at = block.args.index(arg)
        if isinstance(other, BlockArg) and home is block:
            k = block.args.index(other)
            return [(args[at], args[k]) for args in edges]
        # what was there before the block, and is in scope in it, is what it was on the edges
        if home is None or home is block or not self._dominator_tree().dominates(home, block):
            return []
        return [(args[at], other) for args in edges]

    def _dominator_tree(self) -> DominatorTree:
        if self._dominators is None:
            self._dominators = DominatorTree(self._function)
        return self._dominators

    def _is_newer(self, p: Value, q: Value) -> bool:
        """Whether p looks into an allocation that is made after the memory that q looks into was named."""
        p, q = _base(p), _base(q)
        if not isinstance(p, Instruction) or p.op.name not in ("allocateHeap", "allocateStack") or p is q:
            return False
        return self._dominator_tree().instruction_dominates(q, p)

    def _overlapping_params(self, ours: frozenset[Value | None], theirs: frozenset[Value | None]) -> bool:
        # one buffer can be two arguments of different dtypes
        if self.noalias_params:
            return False
        params = self._params.keys()
        return any(a is not b for a in ours & params for b in theirs & params)

    def _apart(self, p: Value, q: Value) -> bool:
        """Whether two views of one base, the same at all times, take places that do not meet."""
        p, q = _uncast(p), _uncast(q)
        if not _is_place(p) or not _is_place(q):
            return False
        assert isinstance(p, Instruction) and isinstance(q, Instruction)
        if not self.same_elements(p.operands[0], q.operands[0]) or not self._is_fixed(p.operands[0]):
            return False
        return any(_ranges_apart(a, b) for a, b in zip(_ranges(p), _ranges(q), strict=False))

    def _apart_now(self, p: Value, q: Value) -> bool:
        """Whether two views of one base, in scope at the same time, take places that do not meet.

        What both are made of has then one value: a definition that dominates a place is passed on every way there.
        """
        p, q = whole(p), whole(q)
        if not _is_place(p) or not _is_place(q):
            return False
        assert isinstance(p, Instruction) and isinstance(q, Instruction)
        base = p.operands[0]
        if not self.same_elements(base, q.operands[0]) or not self.is_distinct(base):
            return False
        return any(_symbols_apart(a, b) for a, b in zip(_symbols(p), _symbols(q), strict=False))

    def is_distinct(self, base: Value) -> bool:
        """Whether different indices of `base` are different elements."""
        seen: set[Value] = set()
        work = [base]
        while work:
            p = work.pop()
            while isinstance(p, Instruction) and p.op.name in (*_REARRANGED, "section", "elementPointer"):
                p = p.operands[0]
            if p in self._params:
                if not isinstance(p.type, PointerType) or p.type.layout == "S":
                    return False
            elif isinstance(p, BlockArg) and p.block not in self._bound:
                if p not in seen:
                    seen.add(p)
                    at = p.block.args.index(p)
                    work += [source.targets[k].args[at] for source, k in self._incoming[p.block]]
            elif not isinstance(p, Instruction) or p.op.name not in ("allocateHeap", "allocateStack"):
                return False
        return True

    def _is_fixed(self, base: Value) -> bool:
        """Whether `base` is one place during the whole call (or fresh memory each time it is made).

        A strided parameter is not good enough: with stride 0 its elements are one another.
        """
        while isinstance(base, Instruction) and base.op.kind is Kind.INDEX:
            if not all(isinstance(v, Literal) or v in self._params for v in base.operands[1:]):
                return False
            base = base.operands[0]
        if base in self._params:
            return isinstance(base.type, PointerType) and base.type.layout != "S"
        return isinstance(base, Instruction) and base.op.name in ("allocateHeap", "allocateStack")

    def same_elements(self, p: Value, q: Value) -> bool:
        """Whether, where both are in scope, they surely are the same memory with the same index map."""
        p, q = _uncast(p), _uncast(q)
        if p is q:
            return True
        if not isinstance(p, Instruction) or not isinstance(q, Instruction):
            return False
        if p.op is not q.op or p.op.kind is not Kind.INDEX or p.attrs != q.attrs:
            return False
        if len(p.operands) != len(q.operands) or not self.same_elements(p.operands[0], q.operands[0]):
            return False
        return all(self._same_index(a, b) for a, b in zip(p.operands[1:], q.operands[1:], strict=True))

    def _same_index(self, a: Value, b: Value) -> bool:
        if a is b:
            return True
        if isinstance(a, Literal) and isinstance(b, Literal):
            return a.type == b.type and a.value == b.value
        if isinstance(a, Instruction) and isinstance(b, Instruction) and a.op.name == b.op.name == "extent":
            return a.attrs["at"] == b.attrs["at"] and self.same_elements(a.operands[0], b.operands[0])
        return False

    def may_write(self, i: Instruction, pointer: Value, *, in_scope: bool = False) -> bool:
        """Whether `i`, a store, scatter or call, may change an element of `pointer`.

        in_scope: at a time when the pointers of `i` and `pointer` are in scope, else at any two times in one call.
        """
        may_share = self.may_overlap if in_scope else self.may_alias
        written = written_pointer(i)
        if written is not None:
            return may_share(written, pointer)
        if i.op.name not in ("apply", "applyValue"):
            return False
        if self.is_shared or any(is_opaque(v.type) for v in i.operands):
            return True
        for v in i.operands:
            if may_share(v, pointer) if isinstance(v.type, PointerType) else self._reaches(v, pointer):
                return True
        return False

    def _reaches(self, handed: Value, pointer: Value) -> bool:
        """Whether a call can get at the memory of `pointer` through a tuple or a stack that it is handed."""
        if not isinstance(handed.type, StackType | TupleType):
            return False
        fresh, values = self._contents(self.roots(handed))
        ours = self._memory(handed).union(fresh, *map(self._memory, values))
        theirs = self._memory(pointer)
        return _meet(ours, theirs) or self._overlapping_params(ours, theirs)

    def written_params(self) -> set[int]:
        """Indices of the pointer parameters whose memory a store or a called function may write."""
        pointers = {p: k for p, k in self._params.items() if isinstance(p.type, PointerType)}
        calls = ("apply", "applyValue")
        writers = [i for i in self._function.instructions() if i.op.name in calls or written_pointer(i) is not None]
        return {k for p, k in pointers.items() if any(self.may_write(i, p) for i in writers)}


def is_flat(type: Type) -> bool:
    """Whether a value is a tensor, a pointer to one, a stack of these, or a tuple of all of them."""
    return all(map(is_plain, type.elements)) if isinstance(type, TupleType) else is_plain(type)


def is_opaque(type: Type) -> bool:
    """Whether a call that is handed such a value can get at memory that the analysis does not see there."""
    if isinstance(type, TupleType):
        return any(map(is_opaque, type.elements))
    if isinstance(type, StackType):
        return type.element is None or is_opaque(type.element)
    if not is_plain(type):
        return True
    return isinstance(type, TensorType | PointerType) and type.dtype is CELL


def _meet(ours: frozenset[Value | None], theirs: frozenset[Value | None]) -> bool:
    if None in ours or None in theirs:
        return bool(ours and theirs)
    return not ours.isdisjoint(theirs)


def _base(p: Value) -> Value:
    """What a pointer is a chain of index ops from."""
    while isinstance(p, Instruction) and p.op.kind is Kind.INDEX:
        p = p.operands[0]
    return p


def _uncast(p: Value) -> Value:
    """Look through pointerCast, which changes the type and nothing else."""
    while isinstance(p, Instruction) and p.op.name == "pointerCast":
        p = p.operands[0]
    return p


# views of the same elements
_REARRANGED = ("pointerCast", "transpose", "padShape", "squeezeShape", "shapeCast")


def whole(p: Value) -> Value:
    """Look through views that have all elements of what they are views of."""
    while isinstance(p, Instruction) and p.op.name in _REARRANGED:
        p = p.operands[0]
    return p


# -- literal index ranges ----------------------------------------------------------------------------

_Range = tuple[int | None, int | None, int | None]  # start, count, step, None where computed


def _is_place(p: Value) -> bool:
    return isinstance(p, Instruction) and p.op.name in ("section", "elementPointer")


def _ranges(p: Instruction) -> list[_Range]:
    """The indices that a section or an elementPointer takes on each leading axis of its base."""
    # not static_extent: a step may be negative
    if p.op.name == "elementPointer":
        return [(integer(v), 1, 1) for v in p.operands[1:]]
    starts, counts, steps = (map(integer, part) for part in section_parts(p))
    return list(zip(starts, counts, steps, strict=True))


def _ranges_apart(a: _Range, b: _Range) -> bool:
    """Whether two arithmetic progressions surely share no index."""
    if a[0] is None or b[0] is None:
        return False
    # a single index is a progression of step 0
    steps = [0 if r[1] == 1 else r[2] for r in (a, b)]
    if steps[0] is not None and steps[1] is not None:
        common = gcd(steps[0], steps[1])
        if (a[0] - b[0]) % common if common else a[0] != b[0]:
            return True
    first, second = _extremes(a), _extremes(b)
    if first is None or second is None:
        return False
    return first[1] < second[0] or second[1] < first[0]


def _extremes(r: _Range) -> tuple[float, float] | None:
    """The first and the last index that a progression can have; of unknown length, it goes on without an end."""
    start, count, step = r
    if start is None:
        return None
    if count == 1:
        return start, start
    if step is None:
        return None
    if count is None:
        return (start, inf) if step > 0 else (-inf, start)
    if count < 1:
        return None
    last = start + (count - 1) * step
    return min(start, last), max(start, last)


# -- index ranges that begin somewhere -----------------------------------------------------------------


def _symbols(p: Instruction) -> list[tuple[Value | None, _Range]]:
    """As `_ranges`, with starts relative to a value: None for 0."""
    starts = [_relative(v) for v in p.operands[1:]]
    return [(symbol, (n, count, step)) for (symbol, n), (_, count, step) in zip(starts, _ranges(p), strict=False)]


def _relative(v: Value) -> tuple[Value | None, int]:
    """An index as a value and what is added to it."""
    distance = 0
    while isinstance(v, Instruction) and v.op.name in ("add", "subtract"):
        by = v.operands[1]
        if not isinstance(by, Literal):
            break
        distance += int(by.value) if v.op.name == "add" else -int(by.value)
        v = v.operands[0]
    number = integer(v)
    return (v, distance) if number is None else (None, distance + number)


def _symbols_apart(a: tuple[Value | None, _Range], b: tuple[Value | None, _Range]) -> bool:
    return a[0] is b[0] and _ranges_apart(a[1], b[1])
