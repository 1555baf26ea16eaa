"""Last touches on the generated function: adjoint sums with zero, arguments that carry nothing, joined blocks."""

from __future__ import annotations

from dlvm_py.ir import Block, Function, Instruction, Literal, Value
from dlvm_py.transforms.differentiate.dead import remove_dead
from dlvm_py.transforms.ssa_repair import prune


def tidy(function: Function, sums: list[Instruction]) -> None:
    """Fold `sums` (additions of adjoints) where one side is a literal zero, as far as that goes.

    0 + x is x here, even for x = −0: the sum starts from nothing, not from a number of the program.
    """
    while True:
        folded: dict[Value, Value] = {}
        for i in sums:
            zero = next((k for k, o in enumerate(i.operands) if isinstance(o, Literal) and o.value == 0), None)
            if zero is not None and i.operands[1 - zero].type == i.type:
                folded[i] = i.operands[1 - zero]
        function.substitute(folded)
        sums = [i for i in sums if i not in folded]
        args = [a for block in function.blocks[1:] for a in block.args]
        if not prune(function, args) and not folded:
            break
    remove_dead(function)


def join(function: Function, first: Block, second: Block) -> None:
    """Append `second`, whose only predecessor is `first`, to it."""
    first.instructions.pop()
    for i in second.instructions:
        first.append(i)
    function.blocks.remove(second)
