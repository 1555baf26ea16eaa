"""Control flow graph simplification to a fixed point: jumps threaded, chains merged, dead blocks and arguments dropped.

    'entry(%x: f64):                                'entry(%x: f64):
        conditional true: bool then 'a() else 'b()      %y = exp %x: f64
    'a():                                               return %y: f64
        %y = exp %x: f64                    =>
        branch 'c(%y: f64, %x: f64)
    'b():
        branch 'c(0.0: f64, %x: f64)
    'c(%r: f64, %unused: f64):
        return %r: f64

Six steps, repeated until none of them finds anything:

1. a conditional on a literal, or with two identical targets, becomes a branch;
2. blocks that the entry does not reach are deleted;
3. block arguments that stand for one value on every path are replaced by it;
4. block arguments that nothing uses are dropped, with what is passed to them;
5. an edge into a block that only branches on goes to that block's target;
6. a block whose only successor has no other predecessor swallows it.

Step 3 is optimistic, as in sparse copy propagation: every argument starts as "unknown", and unknown values
are ignored when the incoming ones are compared. So `%w` of a loop that passes `%w` to itself, and whole
webs of arguments that only hand one value around, collapse to that value. It dominates them: each path to
a member of the web enters the web on an edge that carries the value (Braun et al. 2013, section 3.2).

Blocks that a branchEnum leads to keep their arguments, which are what the case holds, and are not passed over.

Step 5 spares the shared preheader and the shared latch: an empty block with several predecessors in front
of a loop header is what keeps the header at one entering edge and one back edge.

Every step but the third removes blocks, edges or arguments, and the third removes an argument whenever it
changes anything, so the repetition ends. The entry keeps having no predecessors. Reads and writes any
stage; never changes the order of effects. Running it twice changes nothing more.
"""

from __future__ import annotations

from collections.abc import Hashable

from dlvm_py.ir import OPS, Block, BlockArg, Function, Instruction, Literal, Target, Value
from dlvm_py.ir.analysis.cfg import bound_blocks, predecessors, reverse_postorder
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.transforms.literals import boolean, literal_key, same_value
from dlvm_py.transforms.substitution import substitute


def run(function: Function) -> bool:
    """Simplify the control flow graph of `function`; whether anything changed."""
    changed = False
    while _sweep(function):
        changed = True
    return changed


def _sweep(function: Function) -> bool:
    changed = _fold_conditionals(function)
    changed |= remove_unreachable(function)
    changed |= _replace_copies(function)
    changed |= _drop_unused_arguments(function)
    changed |= _forward_empty_blocks(function)
    changed |= merge_chains(function)
    return changed


def remove_unreachable(function: Function) -> bool:
    """Delete the blocks that no path from the entry reaches."""
    reachable = set(reverse_postorder(function))
    if len(reachable) == len(function.blocks):
        return False
    function.blocks = [b for b in function.blocks if b in reachable]
    return True


def drop_arguments(function: Function, dead: set[BlockArg]) -> None:
    """Remove the formal arguments `dead` and what the branches pass to them; nothing may use them."""
    for block in function.blocks:
        for t in block.targets:
            t.args = [a for a, formal in zip(t.args, t.block.args, strict=True) if formal not in dead]
    for block in function.blocks:
        block.args = [a for a in block.args if a not in dead]


def incoming_values(function: Function) -> dict[BlockArg, list[Value]]:
    """What the branches pass to each block argument, one value an edge; not for the parameters."""
    incoming: dict[BlockArg, list[Value]] = {a: [] for block in function.blocks[1:] for a in block.args}
    for block in function.blocks:
        for t in block.targets:
            for formal, value in zip(t.block.args, t.args, strict=True):
                incoming[formal].append(value)
    return incoming


def _fold_conditionals(function: Function) -> bool:
    changed = False
    for block in function.blocks:
        end = block.terminator
        if end is None or end.op is not OPS["conditional"]:
            continue
        then, other = end.targets
        flag = boolean(end.operands[0])
        if flag is not None:
            chosen = then if flag else other
        elif then.block is other.block and all(map(same_value, then.args, other.args)):
            chosen = then
        else:
            continue
        block.instructions.pop()
        block.append(Instruction(OPS["branch"], [], targets=[chosen], loc=end.loc))
        changed = True
    return changed


def _replace_copies(function: Function) -> bool:
    incoming = incoming_values(function)
    # what an argument stands for: absent while unknown, itself once it is known to be no copy
    stands_for: dict[Value, Value] = {a: a for block in bound_blocks(function) for a in block.args}
    literals: dict[Hashable, Literal] = {}

    def known(value: Value) -> Value | None:
        if isinstance(value, Literal):
            return literals.setdefault(literal_key(value), value)
        return stands_for.get(value) if value in incoming else value

    changing = True
    while changing:
        changing = False
        for arg, values in incoming.items():
            if stands_for.get(arg) is arg:
                continue
            found = {k for v in values if (k := known(v)) is not None}
            if not found:
                continue
            (first, *rest) = found
            new = arg if rest or first.type != arg.type else first
            if stands_for.get(arg) is not new:
                stands_for[arg], changing = new, True
    copies = {arg: value for arg, value in stands_for.items() if value is not arg}
    substitute(function.blocks, copies)
    drop_arguments(function, {arg for arg in copies if isinstance(arg, BlockArg)})
    return bool(copies)


def _drop_unused_arguments(function: Function) -> bool:
    incoming = incoming_values(function)
    live: set[Value] = set()
    pending = [v for i in function.instructions() for v in i.operands if v in incoming]
    while pending:
        arg = pending.pop()
        if arg not in live:
            live.add(arg)
            pending.extend(v for v in incoming[arg] if v in incoming)  # type: ignore[index]
    dead = incoming.keys() - live - {a for block in bound_blocks(function) for a in block.args}
    if dead:
        drop_arguments(function, set(dead))
    return bool(dead)


def _forward_empty_blocks(function: Function) -> bool:
    dominators = DominatorTree(function)
    edges: dict[Block, list[Target]] = {b: [] for b in function.blocks}
    headers: set[Block] = set()
    for block in function.blocks:
        for t in block.targets:
            edges[t.block].append(t)
            if dominators.dominates(t.block, block):
                headers.add(t.block)
    # arguments that are read by anything else than the lone branch of their own block
    needed = {
        v
        for i in function.instructions()
        for v in i.all_operands()
        if isinstance(v, BlockArg) and not (i.block is v.block and len(v.block.instructions) == 1)
    }
    removed: set[Block] = set()
    bound = bound_blocks(function)
    for block in function.blocks[1:]:
        if block in bound or len(block.instructions) != 1 or block.instructions[0].op is not OPS["branch"]:
            continue
        (onward,) = block.targets
        shared = len(edges[block]) > 1 and onward.block in headers
        if onward.block is block or shared or not needed.isdisjoint(block.args):
            continue
        for t in edges[block]:
            passed: dict[Value, Value] = dict(zip(block.args, t.args, strict=True))
            t.block, t.args = onward.block, [passed.get(a, a) for a in onward.args]
        edges[onward.block].remove(onward)
        edges[onward.block].extend(edges[block])
        removed.add(block)
    function.blocks = [b for b in function.blocks if b not in removed]
    return bool(removed)


def merge_chains(function: Function) -> bool:
    """Let each block swallow its only successor, where that has no other predecessor."""
    incoming_edges = predecessors(function)
    swallowed: set[Block] = set()
    passed: dict[Value, Value] = {}
    for block in function.blocks:
        if block in swallowed:
            continue
        while (end := block.terminator) is not None and end.op is OPS["branch"]:
            (target,) = end.targets
            successor = target.block
            if successor in (block, function.entry) or len(incoming_edges[successor]) != 1:
                break
            passed.update(zip(successor.args, target.args, strict=True))
            block.instructions.pop()
            for instruction in successor.instructions:
                block.append(instruction)
            swallowed.add(successor)
    function.blocks = [b for b in function.blocks if b not in swallowed]
    substitute(function.blocks, passed)
    return bool(swallowed)
