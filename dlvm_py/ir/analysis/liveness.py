"""Which values are still needed at the borders of blocks."""

from __future__ import annotations

from dlvm_py.ir.analysis.cfg import predecessors, reverse_postorder
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.value import Literal, Value


def liveness(function: Function) -> tuple[dict[Block, set[Value]], dict[Block, set[Value]]]:
    """(live_in, live_out): the values, defined elsewhere, that a block or its successors use.

    An argument passed to a successor is used by the terminator that passes it, so it is not live out of the
    block for that reason. A block's own arguments are defined in it and are not in its live_in. Literals
    are never in the sets. Unreachable blocks have empty sets.
    """
    upward: dict[Block, set[Value]] = {}
    defined: dict[Block, set[Value]] = {}
    for block in function.blocks:
        here: set[Value] = set(block.args)
        needed: set[Value] = set()
        for instruction in block.instructions:
            operands = instruction.all_operands()
            needed.update(v for v in operands if not isinstance(v, Literal) and v not in here)
            here.add(instruction)
        upward[block], defined[block] = needed, here
    live_in: dict[Block, set[Value]] = {b: set() for b in function.blocks}
    live_out: dict[Block, set[Value]] = {b: set() for b in function.blocks}
    edges = predecessors(function)
    # backward data flow: a block is looked at again when a successor needs more
    order = reverse_postorder(function)
    reachable = set(order)
    work = list(order)
    queued = set(order)
    while work:
        block = work.pop()
        queued.discard(block)
        out: set[Value] = set()
        for successor in block.successors():
            out |= live_in[successor]
        live_out[block] = out
        new = upward[block] | (out - defined[block])
        if new != live_in[block]:
            live_in[block] = new
            for p, _ in edges[block]:
                if p in reachable and p not in queued:
                    queued.add(p)
                    work.append(p)
    return live_in, live_out
