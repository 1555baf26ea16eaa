"""CFG simplification as DLVM has it: four steps, once each. (simplify_cfg.py goes further.)

    'entry(%x: i32):                                     'entry(%x: i32):
        %c = equal %x: i32, 0: i32                           %c = equal %x: i32, 0: i32
        conditional %c: bool then 'a() else 'b(%x: i32)      conditional %c: bool then 'a() else 'b(%x: i32)
    'a():                                                'a():
        branch 'next()                                       branch 'b(%x: i32)
    'next():                                       =>    'b(%y: i32):
        branch 'b(%x: i32)                                   return %y: i32
    'b(%y: i32):
        branch 'c(%y: i32)
    'c(%z: i32):
        return %z: i32

1. blocks that the entry does not reach are deleted;
2. a block is swallowed by its only predecessor, if that only branches to it;
3. an edge to a block that does nothing but pass its own arguments on, in order, goes to where they are passed;
4. the arguments of a block that one edge leads to are replaced by what it passes.

In this order a return that is merged into a block of several predecessors keeps that block. What the cases of an
enum hold stays an argument. The entry is never removed. Stages before ownership. Linear in the function.

Source: DLVM's CFGSimplification, whose steps 2 and 4 rewrote uses in the block itself only.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Block, BlockArg, Function, Target, Value
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.transforms.simplify_cfg import drop_arguments, merge_chains, remove_unreachable
from dlvm_py.transforms.substitution import substitute


def run(function: Function) -> bool:
    """Simplify the control flow graph of `function`; whether anything changed."""
    changed = remove_unreachable(function)
    changed |= merge_chains(function)
    changed |= _remove_trampolines(function)
    changed |= _replace_lone_arguments(function)
    return changed


def _remove_trampolines(function: Function) -> bool:
    edges: dict[Block, list[Target]] = {b: [] for b in function.blocks}
    for block in function.blocks:
        for t in block.targets:
            edges[t.block].append(t)
    users = uses(function)
    removed: set[Block] = set()
    for block in function.blocks[1:]:
        if len(block.instructions) != 1 or block.instructions[0].op is not OPS["branch"]:
            continue
        (onward,) = block.targets
        # the blocks behind it may read its arguments too
        alone = all(set(users[a]) == {block.instructions[0]} for a in block.args)
        if onward.block is block or onward.args != block.args or not alone:
            continue
        for t in edges[block]:
            t.block = onward.block
        edges[onward.block].remove(onward)
        edges[onward.block].extend(edges[block])
        removed.add(block)
    function.blocks = [b for b in function.blocks if b not in removed]
    return bool(removed)


def _replace_lone_arguments(function: Function) -> bool:
    passed: dict[Value, Value] = {}
    for block, edges in predecessors(function).items():
        if block is function.entry or len(edges) != 1 or not block.args:
            continue
        source, index = edges[0]
        end = source.terminator
        if end is not None and end.op is not OPS["branchEnum"]:
            passed.update(zip(block.args, source.targets[index].args, strict=True))
    substitute(function.blocks, passed)
    drop_arguments(function, {a for a in passed if isinstance(a, BlockArg)})
    return bool(passed)
