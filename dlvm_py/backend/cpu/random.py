"""The counter of the random numbers, one for a native object: ir/ops/random.py says what the numbers are."""

from __future__ import annotations

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.values import V, i64
from dlvm_py.ir import Instruction
from dlvm_py.ir.ops.random import GOLDEN, STEPS, seeded

_NAME = "dlvm.random"


def _counter(e: FunctionEmitter) -> str:
    e.module.declarations[_NAME] = f"@{_NAME} = linkonce_odr hidden global i64 {int(seeded(0))}, align 8"
    return f"@{_NAME}"


def take(e: FunctionEmitter, i: Instruction) -> V:
    """The counter, which goes on by the operand."""
    return e.value("i64", f"atomicrmw add ptr {_counter(e)}, i64 {e.scalar(i.operands[0]).ref} monotonic")


def seed(e: FunctionEmitter, i: Instruction) -> None:
    """Set the counter to where the stream of a seed begins."""
    z = e.op("mul", e.op("add", e.scalar(i.operands[0]), i64(1)), i64(GOLDEN))
    for shift, factor in STEPS:
        z = e.op("xor", z, e.op("lshr", z, i64(shift)))
        z = z if factor == 1 else e.op("mul", z, i64(factor))
    e.line(f"store atomic i64 {z.ref}, ptr {_counter(e)} monotonic, align 8")
