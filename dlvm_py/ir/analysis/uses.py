"""Who uses a value."""

from __future__ import annotations

from dlvm_py.ir.function import Function
from dlvm_py.ir.value import Instruction, Literal, Value


def uses(function: Function) -> dict[Value, list[Instruction]]:
    """The users of every block argument and instruction, in layout order, once an occurrence.

    Arguments passed to successors count as operands of the terminator. A value without a use has an
    empty list; literals are left out.
    """
    users: dict[Value, list[Instruction]] = {}
    for block in function.blocks:
        for arg in block.args:
            users[arg] = []
        for instruction in block.instructions:
            users[instruction] = []
    for block in function.blocks:
        for instruction in block.instructions:
            for operand in instruction.all_operands():
                found = users.get(operand)
                if found is not None:
                    found.append(instruction)
                elif not isinstance(operand, Literal):
                    users[operand] = [instruction]
    return users
