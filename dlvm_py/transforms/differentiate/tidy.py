"""Last touches on the generated function: sums with zero, arguments that carry nothing, empty loops, joined blocks.

    'a(): branch 'loop(%n)                                    'a(): branch 'after()
    'loop(%trip): %done = equal %trip, 0                =>    'after(): ...
                  conditional %done then 'after() else 'body()
    'body(): branch 'loop(%trip - 1)

Such a loop is what is left of the reverse of one through which no derivative flows.
"""

from __future__ import annotations

from dlvm_py.ir import Block, Function, Instruction, Literal, Target, Value
from dlvm_py.ir.analysis import LoopForest, predecessors, uses
from dlvm_py.ir.analysis.counted_loops import counted_loop
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.transforms.differentiate.dead import remove_dead
from dlvm_py.transforms.differentiate.normal_form import drop_unreachable
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
    while _drop_empty_loops(function):
        remove_dead(function)


def _drop_empty_loops(function: Function) -> bool:
    """Lead past the loops that count, and do nothing that anybody sees; whether there were any."""
    edges, users = predecessors(function), uses(function)
    loops = LoopForest(function).loops
    for loop in reversed(loops):
        exits = loop.exit_edges()
        inside = [i for b in loop.ordered for i in b.instructions]
        if len(exits) != 1 or not all(i.op.is_terminator or is_pure(i) or i.op.name == "load" for i in inside):
            continue
        if any(counted_loop(inner, edges) is None for inner in loops if inner.header in loop.blocks):
            continue  # one that never ends is seen
        values = [*inside, *(a for b in loop.ordered for a in b.args)]
        if any(u.block not in loop.blocks for v in values for u in users.get(v, ())):
            continue
        out = loop.header.targets[exits[0][1]]
        if not set(values).isdisjoint(out.args):
            continue
        for p, k in edges[loop.header]:
            if p not in loop.blocks:
                p.targets[k] = Target(out.block, list(out.args))
        drop_unreachable(function)
        return True
    return False


def join(function: Function, first: Block, second: Block) -> None:
    """Append `second`, whose only predecessor is `first`, to it."""
    first.instructions.pop()
    for i in second.instructions:
        first.append(i)
    function.blocks.remove(second)
