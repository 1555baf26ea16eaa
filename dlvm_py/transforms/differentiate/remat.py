"""What the reverse sweep computes again instead of keeping it.

* Index arithmetic and views, from what they are computed from: it is cheap, and keeping `i` serves
  `x[i - 1]`, `x[i]` and `x[i + 1]`.
* The arguments of a loop that step by a fixed amount: first + trip · step, where `trip` is the counter of
  the reversed loop (control.py).
* Whatever needs nothing kept: loads of places that nothing writes any more, values that were stored to such places
  (settled.py), rearrangements, comparisons of such values.
* In loops what is cheap to compute from less than itself, chosen by a minimum cut (recompute.py), such as a load by an
  index that is kept, of memory that nothing writes any more; parts of an array may be read from what is kept of all of
  it (contents.py).

Everything else is kept. The same instruction on the same operands gives the same result, so a comparison or
a rounding that is repeated here cannot come out differently.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from dlvm_py.ir import Block, Instruction, Kind, Literal, PointerType, TensorType, Value, is_scalar
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.transforms.differentiate.contents import Contents, Part
from dlvm_py.transforms.differentiate.counted import passed_on
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.differentiate.recompute import again
from dlvm_py.transforms.differentiate.settled import Settled

# array ops that only move elements and their parts, or make them from scalars
_MOVES = {
    "transpose", "padShape", "squeezeShape", "shapeCast", "broadcast", "iota", "gather", "dataTypeCast", "select",
    "realPart", "imaginaryPart", "makeComplex", "conjugate", "embed",
}  # fmt: skip


class Rematerialisation:
    """Decides what can be computed again in the reverse of a block."""

    def __init__(self, primal: Primal) -> None:
        self._primal = primal
        self._formal = frozenset(primal.formal)
        self._inductions = {arg: found for loop in primal.loops() for arg, found in self._steps(loop)}
        self._free: dict[tuple[Value, Loop | None], bool] = {}
        self._settled = Settled(primal)
        self._contents = Contents(primal)
        self._again: dict[Block, set[Value]] = {}

    # -- stepping loop arguments ---------------------------------------------------------------------

    def _steps(self, loop: Loop) -> list[tuple[Value, tuple[Loop, Value, Value, str]]]:
        found = []
        first, latch = self._primal.preheader(loop).targets[0].args, self._primal.latch(loop).targets[0].args
        for arg, start, following in zip(loop.header.args, first, latch, strict=True):
            if not is_scalar(arg.type) or not arg.type.dtype.is_integer:  # type: ignore[attr-defined]
                continue
            step = passed_on(self._primal, following, loop)
            if not isinstance(step, Instruction) or step.op.name not in ("add", "subtract"):
                continue
            a, b = step.operands
            if b is arg and step.op.name == "add":
                a, b = b, a
            if a is arg and self._is_outside(b, loop):
                found.append((arg, (loop, start, b, step.op.name)))
        return found

    def _is_outside(self, value: Value, loop: Loop) -> bool:
        return isinstance(value, Literal) or not loop.contains(value.block)  # type: ignore[attr-defined]

    def induction(self, value: Value, block: Block) -> tuple[Loop, Value, Value, str] | None:
        """(loop, first, step, "add" or "subtract") where `value` is a stepping argument of a loop around `block`."""
        found = self._inductions.get(value)
        return found if found is not None and found[0].contains(block) else None

    # -- what is free --------------------------------------------------------------------------------

    def is_direct(self, value: Value, block: Block) -> bool:
        """Whether `value` can be used in the reverse of `block` as it is: defined once, on every path."""
        if isinstance(value, Literal) or value in self._formal:
            return True
        home: Block = value.block  # type: ignore[attr-defined]
        once = self._primal.loop_of(home) is None or self._primal.loop_of(block) is None
        return once and self._primal.dominators.dominates(home, self._primal.exit.block)

    def is_free(self, value: Value, block: Block) -> bool:
        """Whether `value` is there in the reverse of `block` without anything kept for it."""
        key = (value, self._primal.loop_of(block))
        if key not in self._free:
            self._free[key] = self._decide(value, block)
        return self._free[key]

    def _decide(self, value: Value, block: Block) -> bool:
        if self.is_direct(value, block):
            return True
        found = self.induction(value, block)
        if found is not None:
            return self.is_free(found[1], block) and self.is_free(found[2], block)
        return self.stored_at(value, block) is not None or self._is_again_free(value, block)

    def _is_again_free(self, value: Value, block: Block) -> bool:
        return self._is_cheap(value) and all(self.is_free(o, block) for o in value.operands)  # type: ignore[attr-defined]

    def stored_at(self, value: Value, block: Block) -> Value | None:
        """A pointer, free in the reverse of `block`, to where a value lies that nothing cheap makes again."""
        if not isinstance(value, Instruction) or self._is_again_free(value, block):
            return None
        place = self._settled.place_of(value)
        return place if place is not None and self.is_free(place, block) else None

    def _is_cheap(self, value: Value) -> bool:
        if not isinstance(value, Instruction):
            return False
        if value.op.name == "load":
            return self._settled.is_settled(value)
        if value.op.name == "extract":
            return False  # the results of a call are not there any more
        return value.op.is_pure and (
            value.op.name in _MOVES
            or self._is_index(value)
            or isinstance(value.type, TensorType)
            and not value.type.dtype.is_inexact
        )

    def _is_index(self, value: Instruction) -> bool:
        """Views, and integer arithmetic on scalars."""
        if isinstance(value.type, PointerType):
            return value.op.kind is Kind.INDEX
        if not is_scalar(value.type) or value.op.kind is not Kind.ELEMENTWISE:
            return False
        return all(is_scalar(v.type) and v.type.dtype.kind in "biu" for v in (value, *value.operands))  # type: ignore[attr-defined]

    def is_repeatable(self, value: Value, block: Block) -> bool:
        """Whether `value` is to be computed again in the reverse of `block`."""
        if not isinstance(value, Instruction):
            return False
        if self._is_index(value) and value.op.is_pure or value in self._again.get(block, ()):
            return True
        return self._is_again_free(value, block) or self.stored_at(value, block) is not None

    # -- what is computed again --------------------------------------------------------------------------

    def choose(self, block: Block, needed: Iterable[Value], kept_elsewhere: Collection[Value] = ()) -> set[Value]:
        """Decide which of the forward values that the reverse of `block` needs, or rests on, it computes again.

        Returns those that it keeps. kept_elsewhere: what another block keeps for this one as well.
        """
        if self._primal.loop_of(block) is None:
            return set()  # nothing is taped for it
        known: dict[Value, list[Value]] = {}

        def leaves(value: Value) -> list[Value]:
            if value not in known:
                known[value] = self._leaves(value, block, leaves)
            return known[value]

        # what an earlier choice settled is no reason for this one
        self._again.pop(block, None)
        self._again[block], kept = again(
            self._primal, block, needed, leaves, self._is_moved, self._read_from, kept_elsewhere
        )
        return kept

    def _leaves(self, value: Value, block: Block, leaves: Callable[[Value], list[Value]]) -> list[Value]:
        if self.is_free(value, block):
            return []
        if self.induction(value, block) is not None:
            _, first, step, _ = self._inductions[value]
            return [*leaves(first), *leaves(step)]
        if isinstance(value, Instruction):
            if value.op.name == "extent":
                return []  # extents are found by structure
            if self.is_repeatable(value, block):
                return list(dict.fromkeys(leaf for o in value.operands for leaf in leaves(o)))
        return [value]

    def part(self, value: Value, block: Block) -> Part | None:
        """What a load reads that the reverse of `block` is to read again from what is kept of all of its array."""
        return self._contents.part(value) if value in self._again.get(block, ()) else None

    def _read_from(self, value: Value) -> list[Value] | None:
        part = self._contents.part(value)
        if part is None:
            return None
        return [part.whole, *(o for view in part.views for o in view.operands[1:])]

    def _is_moved(self, value: Value) -> bool:
        """Whether a value is elements of others as they are; of memory, where nothing writes it any more."""
        if not isinstance(value, Instruction):
            return False
        return value.op.name in _MOVES or value.op.name == "load" and self._settled.is_settled(value)
