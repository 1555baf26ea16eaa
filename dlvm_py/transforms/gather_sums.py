"""Gather sums: what is written to several sections of one array, one after the other, is written in one pass.

    store %z: <_ x f64> to %d: *<_ x f64>           (zeros)
    %s = section %d: *<_ x f64> at (0) count (%m) step (1)
    %0 = load %s: *strided <_ x f64>
    %1 = add %0: <_ x f64>, %x: <_ x f64>                     =>    %0 = embed %x in 0.0 to (%n) at (0) step (1)
    store %1: <_ x f64> to %s: *strided <_ x f64>                   %1 = embed %y in 0.0 to (%n) at (2) step (1)
    %t = section %d: *<_ x f64> at (2) count (%m) step (1)          %2 = add %0: <_ x f64>, %1: <_ x f64>
    %2 = load %t: *strided <_ x f64>                                store %2: <_ x f64> to %d: *<_ x f64>
    %3 = add %2: <_ x f64>, %y: <_ x f64>
    store %3: <_ x f64> to %t: *strided <_ x f64>

So the adjoint of a stencil, a sum of shifted arrays that is scattered over its operands, gathers: each element is
read and written once, and zeros that a sum begins with are not written. Every element gets its terms in the order in
which they came; 0 is added where a term has no element (-0 becomes 0).

Gathered are writes in one block to sections in steps of one of memory that this function allocates (a raise in between
leaves nothing of it to be seen), that nobody reads in between, and that lie as one: along every axis the places begin
and end near each other (ir/analysis/nearness.py), as far as the program says, so that the pass is hardly longer than
the longest of them.
What is written is the array itself if that is as near, else the box around the places.

A clear (a store of one number) goes down to where the memory is looked at: until then others may still read what
was there, and no copy is made for them. Stage optimizable, before bufferize.
Cost: linear in the instructions, times the groups that are open.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.frozen import Frozen, Mutable, field
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.effects import written_pointer
from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.ir.analysis.nearness import Number, about, are_near, extent_about, is_near_all, is_section
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import Kind
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.tree_rules import UNDER_STORE
from dlvm_py.ir.types import PointerType, TensorType, is_array, scalar
from dlvm_py.ir.value import Instruction, Literal, Value, is_same_number

MANY = 12  # writes that one pass takes together: a kernel is not to run out of registers
FAR = 40  # instructions between a load and the store of what was added to it

_HEAVY = UNDER_STORE - {"unbroadcast"}  # these are stored as they are


def run(function: Function, noalias_params: bool = True) -> bool:
    """Gather the sums of `function`; whether anything changed."""
    if not any(i.op is OPS["section"] for i in function.instructions()):
        return False
    alias = AliasAnalysis(function, noalias_params)
    users = uses(function)
    # every block: no short circuit
    return any([_Gathering(function, block, alias, users).run() for block in function.blocks])


class _Write(Frozen, eq=False):
    """A store to a section: of `value`, or of `value` added to what `load` found there."""

    store: Instruction
    value: Value
    load: Value | None = None

    @property
    def adds(self) -> bool:
        """Whether it adds to what is there."""
        return self.load is not None

    @property
    def is_clear(self) -> bool:
        """Whether one number is written everywhere."""
        v = self.value
        return (
            not self.adds
            and isinstance(v, Instruction)
            and v.op is OPS["broadcast"]
            and not is_array(v.operands[0].type)
        )


class _Group(Mutable, eq=False):
    base: Value
    writes: list[_Write] = field(default_factory=list)
    loaded: Instruction | None = None  # the load of a sum that is to join the group


class _Gathering:
    """One block."""

    def __init__(self, function: Function, block: Block, alias: AliasAnalysis, users: dict) -> None:
        self.function, self.block, self.alias, self.users = function, block, alias, users
        self.groups: dict[Value, _Group] = {}
        self.sums = self._sums()  # loads of what is only added to
        self.changed = False

    def run(self) -> bool:
        for i in list(self.block.instructions):
            if i.op.kind is Kind.INDEX or i.op is OPS["extent"]:
                continue
            write = self._write(self.sums.get(i, i))
            if write is not None:
                self._take(write, i)
            elif i.op.is_terminator:
                self._close(list(self.groups.values()), i)
            elif self.groups:
                self._close([g for g in self.groups.values() if self._touches(i, g.base)], i)
        return self.changed

    # -- what is written ---------------------------------------------------------------------------

    def _sums(self) -> dict[Value, Instruction]:
        """Loads whose value is only added to, and stored where it was loaded from, with no other write between."""
        found: dict[Value, Instruction] = {}
        body = self.block.instructions
        place = {i: k for k, i in enumerate(body)}
        for i in body:
            if i.op is not OPS["load"] or not is_array(i.type) or not self._is_ours(i.operands[0]):
                continue
            total = self._only_user(i)
            if total is None or total.op is not OPS["add"] or total.operands[0] is total.operands[1]:
                continue
            store = self._only_user(total)
            if store is None or store.op is not OPS["store"] or store.block is not self.block:
                continue
            if not self.alias.same_elements(i.operands[0], store.operands[1]) or place[store] - place[i] > FAR:
                continue
            between = body[place[i] + 1 : place[store]]
            if not any(self.alias.may_write(w, i.operands[0], in_scope=True) for w in between):
                found[i] = store
        return found

    def _only_user(self, v: Value) -> Instruction | None:
        users: list[Instruction] = self.users[v]
        return users[0] if len(users) == 1 else None

    def _is_ours(self, pointer: Value) -> bool:
        roots = self.alias.roots(pointer)
        return bool(roots) and all(isinstance(r, Instruction) and r.op is OPS["allocateHeap"] for r in roots)

    def _write(self, i: Instruction) -> _Write | None:
        """The write of a store that may be gathered, else None."""
        if i.op is not OPS["store"] or not is_array(i.operands[0].type) or not self._is_ours(i.operands[1]):
            return None
        value, pointer = i.operands
        assert isinstance(pointer.type, PointerType)
        if value.type != pointer.type.pointee or not isinstance(value, Instruction):
            return None
        here = None
        if value.op is OPS["add"]:
            here = next((v for v in value.operands if self.sums.get(v) is i), None)
            if here is not None:
                value = next(v for v in value.operands if v is not here)  # type: ignore[assignment]
        heavy = isinstance(value, Instruction) and value.op.name in _HEAVY
        return None if heavy or value.type != pointer.type.pointee else _Write(i, value, here)

    def _touches(self, i: Instruction, base: Value) -> bool:
        """Whether `i` may look at the memory, write to it, or hand it on."""
        given = i.operands[1:2] if written_pointer(i) is not None else i.operands
        for v in given:
            if isinstance(v.type, PointerType):
                if self.alias.may_overlap(v, base):
                    return True
            elif not isinstance(v.type, TensorType):
                return True
        return i.op.kind is Kind.CALL

    def _take(self, write: _Write, at: Instruction) -> None:
        """Go past a write; a sum is two steps, its load and its store."""
        base = _base(write.store.operands[1])
        others = [g for b, g in self.groups.items() if b is not base and self.alias.may_overlap(b, base)]
        group = self.groups.get(base)
        if group is not None:
            # what is written goes to the last store, and so not past the load of a sum that is still open
            is_crossed = group.loaded is not None and (at is not write.store or group.loaded is not write.load)
            if is_crossed or len(group.writes) >= MANY or not _lies_with(write, group):
                others.append(group)
        self._close(others, at)
        if at is write.store:
            group = self.groups.setdefault(base, _Group(base))
            group.writes.append(write)
            group.loaded = None
        elif base in self.groups:
            self.groups[base].loaded = at

    # -- what becomes of it ------------------------------------------------------------------------

    def _close(self, groups: list[_Group], reader: Instruction) -> None:
        """Write the groups; `reader` is the first that comes to their memory."""
        for group in groups:
            del self.groups[group.base]
            if len(group.writes) > 1:
                self._gather(group)
                self.changed = True
        for group in groups:
            last = group.writes[-1]
            if len(group.writes) == 1 and last.is_clear:
                body, reader = self.block.instructions, group.loaded or reader
                if body.index(reader) - body.index(last.store) > 1:
                    body.remove(last.store)
                    body.insert(body.index(reader), last.store)
                    self.changed = True

    def _gather(self, group: _Group) -> None:
        last = group.writes[-1].store
        b = Builder(self.function).before(last)
        b.loc = last.loc
        box = _Box(b, group)
        total: Value | None = None
        for write in group.writes:
            where, x = box.offsets(write), write.value
            if write.adds:
                term = x if where is None else box.embed(x, literal(0, scalar(x.type.dtype)), where)
                total = term if _is_zeros(total) else b.emit("add", total or box.load(), term)
            else:
                total = x if where is None else box.embed(x, total or box.load(), where)
        assert total is not None
        b.emit("store", total, box.pointer)
        for write in group.writes:
            self.block.instructions.remove(write.store)


class _Box:
    """What one pass writes: an array, or the section of it around some places."""

    def __init__(self, b: Builder, group: _Group) -> None:
        self.b = b
        base = group.base
        extents = extents_of(b, base)
        places = [_place(w, extents) for w in group.writes]
        self.starts: list[Value] = []
        self.counts: list[Value] = []
        for axis, n in enumerate(extents):
            starts, counts = [p[axis][0] for p in places], [p[axis][1] for p in places]
            if all(map(is_near_all, starts, counts, [n] * len(starts))):
                start, count = literal(0), n
            elif all(map(is_same_number, starts, starts[1:])) and all(map(is_same_number, counts, counts[1:])):
                start, count = starts[0], counts[0]
            else:
                start = self._fold("min", starts)
                end = self._fold("max", [self._plus(s, c) for s, c in zip(starts, counts, strict=True)])
                # places without elements may lie behind the end
                count = b.emit("max", b.emit("subtract", b.emit("min", end, n), start), literal(0))
            self.starts.append(start)
            self.counts.append(count)
        whole = all(
            _is_zero(s) and is_same_number(c, n) for s, c, n in zip(self.starts, self.counts, extents, strict=True)
        )
        ones = [literal(1)] * len(extents)
        known = tuple(c.value if isinstance(c, Literal) else None for c in self.counts)
        whole = whole and known == base.type.shape  # a cast pointer does not say all that is known
        self.pointer = base if whole else b.emit("section", base, *self.starts, *self.counts, *ones)
        self._places = dict(zip(group.writes, places, strict=True))

    def _fold(self, by: str, values: Sequence[Value]) -> Value:
        found = values[0]
        for v in values[1:]:
            found = found if is_same_number(v, found) else self.b.emit(by, found, v)
        return found

    def _plus(self, a: Value, c: Value) -> Value:
        return c if _is_zero(a) else self.b.emit("add", a, c)

    def offsets(self, write: _Write) -> list[Value] | None:
        """Where in the box the write is, None if it is all of it."""
        place = self._places[write]
        if all(
            is_same_number(s, o) and is_same_number(c, n)
            for (s, c), o, n in zip(place, self.starts, self.counts, strict=True)
        ):
            return None
        starts = zip(place, self.starts, strict=True)
        return [
            s if _is_zero(o) else literal(0) if is_same_number(s, o) else self.b.emit("subtract", s, o)
            for (s, _), o in starts
        ]

    def load(self) -> Value:
        """What is there before."""
        return self.b.emit("load", self.pointer)

    def embed(self, x: Value, fill: Value, offsets: Sequence[Value]) -> Value:
        """x at its place in the box, in `fill`."""
        return self.b.emit("embed", x, fill, *self.counts, *offsets, *[literal(1)] * len(offsets))


# -- places --------------------------------------------------------------------------------------------

_Interval = tuple[Value, Value]  # start and count


def _base(pointer: Value) -> Value:
    return pointer.operands[0] if is_section(pointer) else pointer  # type: ignore[attr-defined]


def _place(write: _Write, extents: Sequence[Value]) -> list[_Interval]:
    pointer = write.store.operands[1]
    if not is_section(pointer):
        return [(literal(0), n) for n in extents]
    assert isinstance(pointer, Instruction)
    rank = len(extents)
    return list(zip(pointer.operands[1 : 1 + rank], pointer.operands[1 + rank : 1 + 2 * rank], strict=True))


def _lies_with(write: _Write, group: _Group) -> bool:
    """Whether a place lies as those of a group."""
    other = group.writes[0].store.operands[1]
    pointer = write.store.operands[1]
    rank = group.base.type.rank  # type: ignore[attr-defined]
    return all(
        are_near(a, b)
        for a, b in zip(_numbers(pointer, group.base, rank), _numbers(other, group.base, rank), strict=True)
    )


def _numbers(pointer: Value, base: Value, rank: int) -> list[Number]:
    """Starts and counts of a place, about."""
    if is_section(pointer):
        return [about(v) for v in pointer.operands[1 : 1 + 2 * rank]]  # type: ignore[attr-defined]
    return [(None, 0)] * rank + [extent_about(base, k) for k in range(rank)]


def _one_number(v: Value | None) -> Value | None:
    """The number that an array is full of, as far as is seen."""
    if not isinstance(v, Instruction) or v.op is not OPS["broadcast"] or is_array(v.operands[0].type):
        return None
    return v.operands[0]


def _is_zeros(v: Value | None) -> bool:
    number = _one_number(v)
    return number is not None and _is_zero(number)


def _is_zero(v: Value) -> bool:
    return isinstance(v, Literal) and v.value == 0
