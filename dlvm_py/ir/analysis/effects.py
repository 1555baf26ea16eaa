"""What running an instruction does besides giving its result."""

from __future__ import annotations

from typing import Any

from dlvm_py.ir.op import READ, TRAP, WRITE, Kind
from dlvm_py.ir.value import Instruction, Value

_TRAPS = frozenset({TRAP})


def effects(instruction: Instruction) -> frozenset[str]:
    """The effects of the op's row, and TRAP for an overflow check, and for a branchEnum that has not all cases."""
    found = instruction.op.effects
    return found | _TRAPS if instruction.attrs.get("checked") or _may_fit_no_case(instruction) else found


def _may_fit_no_case(i: Instruction) -> bool:
    return i.op.name == "branchEnum" and len(i.attrs["cases"]) < len(i.operands[0].type.cases)  # type: ignore[attr-defined]


def reads_memory(instruction: Instruction) -> bool:
    """Whether the elements of arrays in memory may be read: load and apply."""
    return READ in instruction.op.effects


def writes_memory(instruction: Instruction) -> bool:
    """Whether arrays in memory may be changed or freed: store, scatter, apply, retain, release.

    Stack operations move values and references; no array element changes, so they do not count.
    """
    return WRITE in instruction.op.effects and instruction.op.kind is not Kind.STACK


def written_pointer(instruction: Instruction) -> Value | None:
    """The pointer that a store or a scatter writes through; None for everything else."""
    return instruction.operands[1] if instruction.op.name in ("store", "scatter") else None


def may_trap(instruction: Instruction) -> bool:
    """Whether it may raise a Python exception (lack of memory aside)."""
    return TRAP in effects(instruction)


def is_pure(instruction: Instruction) -> bool:
    """Whether it may be duplicated, moved and removed: no effect, and no overflow check."""
    return instruction.op.is_pure and not instruction.attrs.get("checked")


def unchecked(instruction: Instruction) -> dict[str, Any]:
    """Its attributes without the overflow check, for where its result is known to fit."""
    return {name: value for name, value in instruction.attrs.items() if name != "checked"}
