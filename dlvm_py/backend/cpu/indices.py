"""Checks that an index lies in an array, as Python counts: from 0 on, or below 0 from the end.

    %w = add %i, %n
    %k = select %w, %i by %i < 0                  if %i u< %n goto in, else wrap
    check %k >= 0 and %k < %n               =>    wrap: if %i + %n u< %n goto in, else fail
                                                  in: %k = phi %i, %i + %n

An extent is no negative number, nor is a number of elements for which memory was allocated, so that one comparison
without signs stands for two, and an index that is in range as it stands takes no other step: whether it counts from the
end is asked where it is not.
"""

from __future__ import annotations

from typing import TypeGuard

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.values import Label, V
from dlvm_py.frozen import Frozen
from dlvm_py.ir import OPS, Instruction, Literal, Value


class Index(Frozen):
    """What a check asks: `value` is in [0, extent). given: the index as it stands, of which `value` is made behind."""

    value: Value
    extent: Value
    given: Value

    @property
    def is_wrapped(self) -> bool:
        """Whether the value is made of the index as it stands."""
        return self.given is not self.value


def index_of(check: Instruction) -> Index | None:
    """The index that a check asks to be in range; None if it asks for something else."""
    condition = check.operands[0]
    if not _is(condition, "and"):
        return None
    above, below = condition.operands
    if not (_is(above, "greaterThanOrEqual") and _is(below, "lessThan") and _is_zero(above.operands[1])):
        return None
    value, extent = below.operands
    if above.operands[0] is not value or not (_is_no_negative(extent) or _is_allocated(check, value, extent)):
        return None
    given = _before_wrapping(value, extent)
    return Index(value, extent, given if given is not None and _waits_for(value, check) else value)


def ask(e: FunctionEmitter, index: Index, ok: Label, bad: Label) -> V:
    """Go on to a label if the index is in range; with it as the value there."""
    given, extent, here = e.scalar(index.given), e.scalar(index.extent), e.here
    if not index.is_wrapped:
        e.likely(e.icmp("ult", given, extent), ok, bad)
        return given
    wrap = e.label("wrap")
    e.likely(e.icmp("ult", given, extent), ok, wrap)
    e.place(wrap)
    wrapped = e.op("add", given, extent)
    e.cond_br(e.icmp("ult", wrapped, extent), ok, bad)
    found = e.phi(given.type, ok)
    found.add(given, here)
    found.add(wrapped, wrap)
    return found.value


def _before_wrapping(value: Value, extent: Value) -> Value | None:
    """The i of `select (i + extent) by i < 0, else i`."""
    if not _is(value, "select"):
        return None
    wrapped, given, negative = value.operands
    if not (_is(negative, "lessThan") and negative.operands[0] is given and _is_zero(negative.operands[1])):
        return None
    return given if _is(wrapped, "add") and set(wrapped.operands) == {given, extent} else None


def _waits_for(value: Value, check: Instruction) -> bool:
    """Whether nothing needs an index before its check but what that asks."""
    assert isinstance(value, Instruction) and check.block is not None
    if value.block is not check.block:
        return False
    instructions = check.block.instructions
    between = instructions[instructions.index(value) + 1 : instructions.index(check)]
    condition = check.operands[0]
    assert isinstance(condition, Instruction)
    return not any(value in i.operands for i in between if i not in condition.operands)


def _is(value: Value, op: str) -> TypeGuard[Instruction]:
    return isinstance(value, Instruction) and value.op is OPS[op]


def _is_zero(value: Value) -> bool:
    return isinstance(value, Literal) and value.value == 0


def _is_allocated(check: Instruction, value: Value, extent: Value) -> bool:
    """Whether the index is one of memory that was allocated with so many elements: behind the check an element is."""
    assert check.block is not None
    instructions = check.block.instructions
    behind = instructions[instructions.index(check) + 1 :]
    places = (i for i in behind if i.op is OPS["elementPointer"] and value in i.operands[1:])
    return any(_is(i.operands[0], "allocateHeap") and extent in i.operands[0].operands for i in places)


def _is_no_negative(value: Value) -> bool:
    return _is(value, "extent") or (isinstance(value, Literal) and value.value >= 0)
