"""Removal of what the generated code does not use: instructions and block arguments.

Unlike the general clean-up this one knows the variables of SSA repair: an assignment to a variable that
nobody reads is dead. What is dead must go before the pass decides what to keep for the reverse sweep.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlvm_py.ir import Function, Instruction, Kind, Value
from dlvm_py.ir.analysis import predecessors
from dlvm_py.ir.op import TRAP, WRITE
from dlvm_py.ir.value import BlockArg
from dlvm_py.transforms.ssa_repair import ASSIGN, remove_args

_STAYS = (Kind.CONTROL, Kind.CHECK, Kind.CALL)


def _has_effect(i: Instruction) -> bool:
    if i.op is ASSIGN:
        return False
    return bool(i.op.effects & {WRITE, TRAP}) or bool(i.attrs.get("checked")) or i.op.kind in _STAYS


def remove_dead(function: Function, bound: Mapping[Value, Value] | None = None) -> None:
    """Delete instructions and block arguments (parameters aside) whose values reach no effect.

    bound: what stays for as long as something else does, by that.
    """
    bound = bound or {}
    edges = predecessors(function)
    assigned: dict[Value, list[Instruction]] = {}
    live: set[Value] = set()
    work: list[Value] = []
    for i in function.instructions():
        if i.op is ASSIGN:
            assigned.setdefault(i.attrs["variable"], []).append(i)
        elif _has_effect(i):
            live.add(i)
            work.append(i)

    def need(value: Value) -> None:
        if value not in live:
            live.add(value)
            work.append(value)

    while work:
        value = work.pop()
        if value in bound:
            need(bound[value])
        for i in assigned.get(value, ()):
            need(i)
        if isinstance(value, Instruction):
            for o in value.operands:
                need(o)
        elif isinstance(value, BlockArg) and value.block is not function.entry:
            at = value.block.args.index(value)
            for p, t in edges[value.block]:
                need(p.targets[t].args[at])
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i in live]
    unused = {a for block in function.blocks[1:] for a in block.args if a not in live}
    if unused:
        remove_args(function, unused)
