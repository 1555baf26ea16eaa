"""The control flow graph: incoming edges and an order for forward data flow."""

from __future__ import annotations

from dlvm_py.ir.function import Block, Function


def predecessors(function: Function) -> dict[Block, list[tuple[Block, int]]]:
    """Incoming edges of every block, each as (block it leaves, index among that block's targets).

    A conditional whose two targets are one block gives two edges. Edges from unreachable blocks count.
    """
    incoming: dict[Block, list[tuple[Block, int]]] = {block: [] for block in function.blocks}
    for block in function.blocks:
        for index, target in enumerate(block.targets):
            # a target outside the function is the verifier's business
            incoming.setdefault(target.block, []).append((block, index))
    return incoming


def bound_blocks(function: Function) -> set[Block]:
    """The blocks that a branchEnum leads to: it passes them what the case holds, not the operands of its targets."""
    return {t.block for block in function.blocks if block.targets for t in block.targets if _binds(block)}


def _binds(block: Block) -> bool:
    end = block.terminator
    return end is not None and end.op.name == "branchEnum"


def reverse_postorder(function: Function) -> list[Block]:
    """The reachable blocks, entry first, each before its successors except along back edges.

    The order depends on the program text alone. Iterative: loop nests and long functions do not recurse.
    """
    entry = function.entry
    seen = {entry}
    # a branch's last successor is explored first, so that its first one comes first in the result
    open_blocks = [(entry, reversed(entry.successors()))]
    postorder = []
    while open_blocks:
        block, rest = open_blocks[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                open_blocks.append((successor, reversed(successor.successors())))
                break
        else:
            postorder.append(block)
            open_blocks.pop()
    return postorder[::-1]


def reachable_from(start: Block) -> set[Block]:
    """The blocks that a block leads to, itself among them."""
    found, work = {start}, [start]
    while work:
        for block in work.pop().successors():
            if block not in found:
                found.add(block)
                work.append(block)
    return found
