"""What arrays hold as a whole: several parts of one array that the reverse sweep needs can be read from it, kept once.

    %s = section %u at (2) count (%m) step (1)              %whole = load %u
    %a = load %s: *strided <_ x f64>                        push %whole                          (one array, not two)
    %t = section %u at (0) count (%m) step (1)         →    …
    %b = load %t: *strided <_ x f64>                        %u_kept = pop
    … the reverse needs %a and %b                           %a_again = section %u_kept at (2) count (%m) step (1)

A load of a part may be read from the contents of its array, if the part is nearly all of it, as in stencils: to keep
the whole for a small part would be more work than the program does. The contents are

* what was stored to the array, where that is fresh and nothing else is ever written to it (`un = u.copy()`);
* what was stored to it piece by piece, one embedded in the other, where that is all of it and in the block that it is
  made in (`z[0] = a; z[1:] = v`, or `z[:] = 0.0; z[1:] = v`);
* of an array that comes from elsewhere a load of all of it beside the load of the part;
* else a load of all of it, where it was written last: in the block of the load, or before the loops around it that do
  not write to it.

Whether parts or the whole are kept is decided by the minimum cut (recompute.py).
"""

from __future__ import annotations

from typing import NamedTuple

from dlvm_py.ir import Block, Builder, Instruction, PointerType, Value, is_array
from dlvm_py.ir.analysis.effects import writes_memory, written_pointer
from dlvm_py.ir.analysis.nearness import Number, extent_about, lies_near_all
from dlvm_py.ir.analysis.places import Linear, linear, section_parts
from dlvm_py.ir.value import BlockArg, integer
from dlvm_py.transforms.differentiate.primal import Primal

_PIECES = 4  # stores that make one array
_VIEWS = frozenset(("section", "transpose", "padShape", "squeezeShape"))
_Place = tuple[Block, int]  # a block, and the number of an instruction in its body; -1 is the start of the block


class Part(NamedTuple):
    """What a load reads: of the value `whole` the views, from the whole to the part."""

    whole: Value
    views: list[Instruction]


class Contents:
    """Finds, and loads, the contents of arrays."""

    def __init__(self, primal: Primal) -> None:
        self._primal = primal
        self._known: dict[Instruction, Part | None] = {}
        self._loads: dict[tuple[Value, _Place], Instruction] = {}
        self._pieced: dict[Instruction, Value | None] = {}

    def part(self, value: Value) -> Part | None:
        """What a load reads, if that is nearly all of an array that can be kept; None where it is not."""
        if not isinstance(value, Instruction) or value.op.name != "load" or not is_array(value.type):
            return None
        if value not in self._known:
            self._known[value] = self._decide(value)
        return self._known[value]

    def _decide(self, load: Instruction) -> Part | None:
        primal = self._primal
        if primal.is_split or primal.is_detached or load not in primal.number:
            return None
        views: list[Instruction] = []
        base: Value = load.operands[0]
        while isinstance(base, Instruction) and base.op.name in _VIEWS:
            if base.op.name == "section" and not lies_near_all(base, self._extent_about):
                return None
            views.insert(0, base)
            base = base.operands[0]
        if isinstance(base, Instruction) and base.op.name == "allocateHeap" and base not in primal.handed:
            whole = self._whole(base, load)
        else:
            whole = self._beside(base, load)
        if whole is None or (whole is load and not views):
            return None
        return Part(whole, views) if _type_of(whole, views) == load.type else None

    def _extent_about(self, pointer: Value, axis: int) -> Number:
        """That of an argument of a block is that of all that is passed for it, if it is one."""
        if isinstance(pointer, BlockArg) and pointer in pointer.block.args:
            at = pointer.block.args.index(pointer)
            passed = [p.targets[k].args[at] for p, k in self._primal.edges.get(pointer.block, ())]
            found = {extent_about(v, axis) for v in passed if v is not pointer}
            if len(found) == 1:
                return found.pop()
        return extent_about(pointer, axis)

    def _beside(self, base: Value, load: Instruction) -> Value | None:
        """A load of all of an array, in the block of another load, between which nothing writes to it."""
        primal, block = self._primal, load.block
        assert block is not None
        body, here, roots = primal.bodies[block], primal.number[load], primal.points_to.roots(base)
        if any(not isinstance(r, Instruction) or r.op.name != "allocateHeap" or r in primal.handed for r in roots):
            return None
        for there, i in enumerate(body):
            if i.op.name == "load" and i.operands[0] is base and i is not load:
                between = body[min(here, there) : max(here, there)]
                pointers = [written_pointer(x) for x in between if writes_memory(x)]
                if not any(p is None or roots & primal.points_to.roots(p) for p in pointers):
                    return i
        return None

    def _whole(self, base: Instruction, load: Instruction) -> Value | None:
        """The contents of `base` as `load` finds them."""
        writes, number = self._writes(base), self._primal.number
        if len(writes) == 1:
            block, store = writes[0]
            if block is base.block and store.op.name == "store" and store.operands[1] is base:
                assert load.block is not None
                comes_before = (
                    number[store] < number[load] if block is load.block else self._dominates(block, load.block)
                )
                return self._stored(store.operands[0]) if comes_before else None
        elif len(writes) <= _PIECES and self._is_behind(load, base, writes):
            if base not in self._pieced:
                self._pieced[base] = self._pieces(base, sorted((i for _, i in writes), key=number.__getitem__))
            if self._pieced[base] is not None:
                return self._pieced[base]
        place = self._written_last(base, load)
        if place is None:
            return None
        key = (base, place)
        if key not in self._loads:
            self._loads[key] = self._loaded(base, *place)
        return self._loads[key]

    def _is_behind(self, load: Instruction, base: Instruction, writes: list[tuple[Block, Instruction]]) -> bool:
        """Whether a load comes after writes in the block where their array is made."""
        block, number = load.block, self._primal.number
        assert block is not None
        return all(
            b is base.block and (number[i] < number[load] if b is block else self._dominates(b, block))
            for b, i in writes
        )

    def _pieces(self, base: Instruction, stores: list[Instruction]) -> Value | None:
        """What stores to parts of an array make of it, one after the other; None where that is not all of it."""
        if len(stores) < 2 or any(i.op.name != "store" for i in stores):
            return None
        first, *others = stores
        whole = first.operands[0]
        if first.operands[1] is not base and not (len(others) == 1 and _is_rest(base, first, others[0])):
            return None
        if not all(_is_section_of(base, i.operands[1]) and _is_as_large(i) for i in others):
            return None
        b = Builder(self._primal.function).after(stores[-1])
        for i in others:
            starts, _, steps = section_parts(i.operands[1])  # type: ignore[arg-type]
            whole = b.emit("embed", i.operands[0], whole, *base.operands, *starts, *steps, name=base.name)
        return whole

    def _stored(self, value: Value) -> Value | None:
        """A value that is stored; where it is itself read from an array, what is read."""
        if not isinstance(value, Instruction):
            return None
        part = self.part(value)
        return part.whole if part is not None and not part.views else value

    def _written_last(self, base: Instruction, load: Instruction) -> _Place | None:
        """Where the contents of `base` that `load` finds are all there."""
        primal, block = self._primal, load.block
        assert block is not None
        here = primal.number[load]
        while True:
            before = [at for at in self._in(block, base) if at < here]
            if before:
                return block, max(before)
            if base.block is block:
                return None  # nothing was written
            loop = primal.loop_of(block)
            if loop is None or loop.contains(base.block) or any(map(loop.contains, self._blocks(base))):  # type: ignore[arg-type]
                return block, -1
            block = primal.preheader(loop)
            here = len(primal.bodies[block])

    def _writes(self, base: Value) -> list[tuple[Block, Instruction]]:
        return self._primal.writes.get(base, [])

    def _blocks(self, base: Value) -> set[Block]:
        return {block for block, _ in self._writes(base)}

    def _in(self, block: Block, base: Value) -> list[int]:
        """Where in a block `base` is written."""
        return [self._primal.number[i] for b, i in self._writes(base) if b is block]

    def _dominates(self, a: Block, b: Block) -> bool:
        return self._primal.dominators.dominates(a, b)

    def _loaded(self, base: Instruction, block: Block, at: int) -> Instruction:
        """A load of all of an array at a place, the program's own if there is one."""
        body = self._primal.bodies[block]
        end = min((k for k in self._in(block, base) if k > at), default=len(body))
        for i in body[at + 1 : end]:
            if i.op.name == "load" and i.operands[0] is base:
                return i
        b = Builder(self._primal.function)
        if at < 0:
            b.block, b.position = block, 0
        else:
            b.after(body[at])
        return b.emit("load", base, name=base.name)


def _is_section_of(base: Value, p: Value) -> bool:
    return isinstance(p, Instruction) and p.op.name == "section" and p.operands[0] is base


def _is_as_large(store: Instruction) -> bool:
    """Whether what is stored has the axes of the part that it is stored to, and none that is stretched."""
    value, part = (v.type.shape for v in store.operands)  # type: ignore[attr-defined]
    return len(value) == len(part) and all(m != 1 or n == 1 for m, n in zip(value, part, strict=True))


def _is_rest(base: Instruction, element: Instruction, section: Instruction) -> bool:
    """Whether one store is of an element at an end of a vector, and the other one of all that is left."""
    at, part = element.operands[1], section.operands[1]
    if not isinstance(at, Instruction) or at.op.name != "elementPointer" or at.operands[0] is not base:
        return False
    if len(base.operands) != 1 or len(at.operands) != 2 or at.attrs.get("path") or not _is_section_of(base, part):
        return False
    (start,), (count,), (step,) = section_parts(part)  # type: ignore[arg-type]
    left = linear(base.operands[0]).plus(Linear(-1))  # there is an element, since it was stored
    if integer(step) != 1:
        return False
    ends = (linear(at.operands[1]), integer(start))
    return ends in ((Linear(0), 1), (left, 0)) and _is_number(count, left)


def _is_number(count: Value, number: Linear) -> bool:
    """Whether a count is a number that is not negative: that, or the maximum of it and 0."""
    if linear(count) == number:
        return True
    is_max = isinstance(count, Instruction) and count.op.name == "max"
    return is_max and {linear(v) == number or integer(v) == 0 for v in count.operands} == {True}  # type: ignore[attr-defined]


def _type_of(whole: Value, views: list[Instruction]) -> object:
    """The type of the part of a value that some views show."""
    t = whole.type
    for view in views:
        t = view.op.result_type([Value(t), *view.operands[1:]], view.attrs)
    return t.pointee if isinstance(t, PointerType) else t
