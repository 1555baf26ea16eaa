"""What arrays hold as a whole: several parts of one array that the reverse sweep needs can be read from it, kept once.

    %s = section %u at (2) count (%m) step (1)              %whole = load %u
    %a = load %s: *strided <_ x f64>                        push %whole                          (one array, not two)
    %t = section %u at (0) count (%m) step (1)         →    …
    %b = load %t: *strided <_ x f64>                        %u_kept = pop
    … the reverse needs %a and %b                           %a_again = section %u_kept at (2) count (%m) step (1)

A load of a part may be read from the contents of its array, if the part is nearly all of it, as in stencils: to keep
the whole for a small part would be more work than the program does. The contents are

* what was stored to the array, where that is fresh and nothing else is ever written to it (`un = u.copy()`);
* else a load of all of it, where it was written last: in the block of the load, or before the loops around it that do
  not write to it.

Whether parts or the whole are kept is decided by the minimum cut (recompute.py).
"""

from __future__ import annotations

from typing import NamedTuple

from dlvm_py.ir import Block, Builder, Instruction, PointerType, Value, is_array
from dlvm_py.ir.analysis.nearness import lies_near_all
from dlvm_py.transforms.differentiate.primal import Primal

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
            if base.op.name == "section" and not lies_near_all(base):
                return None
            views.insert(0, base)
            base = base.operands[0]
        if not isinstance(base, Instruction) or base.op.name != "allocateHeap" or base in primal.handed:
            return None
        whole = self._whole(base, load)
        if whole is None or (whole is load and not views):
            return None
        return Part(whole, views) if _type_of(whole, views) == load.type else None

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
        place = self._written_last(base, load)
        if place is None:
            return None
        key = (base, place)
        if key not in self._loads:
            self._loads[key] = self._loaded(base, *place)
        return self._loads[key]

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


def _type_of(whole: Value, views: list[Instruction]) -> object:
    """The type of the part of a value that some views show."""
    t = whole.type
    for view in views:
        t = view.op.result_type([Value(t), *view.operands[1:]], view.attrs)
    return t.pointee if isinstance(t, PointerType) else t
