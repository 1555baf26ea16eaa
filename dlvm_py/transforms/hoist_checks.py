"""Hoisted checks: what every trip of a loop asks alike, before it does anything, is asked once before the loop.

                                                        %none = not (lessThan 0, %n)
    'loop(%j: i64):                                     %asked = or %none, %inside
        %more = lessThan %j, %n                         check %asked else IndexError "..." (%k, %m)
        conditional %more then 'body() else 'exit()     branch 'loop(0)
    'body():                                        'loop(%j: i64):
        check %inside else IndexError "..." (%k, %m) =>     %more = lessThan %j, %n
        %x = load (elementPointer %a at %j, %k)             conditional %more then 'body() else 'exit()
        ...                                             'body():
                                                            %x = load (elementPointer %a at %j, %k)
                                                            ...

A loop that makes no trip asks nothing. Loops are visited from the inside out, so a check can rise through several:
d[i, k] in the innermost of three loops over i, j and k asks about k once for each k. In the loop it was in the way of
all that is done with loops whose trips do not raise (limit_counts.py, split_loops.py, LLVM's vectors).

A check moves if it stands where every trip comes by before its first effect, and before it asks for anything else; if
what it asks about, and its message, are there before the loop; and if whether there is a trip can be asked there.
Checks that compare the counter are limits of the count (limit_counts.py). Stage compute; a second run finds nothing.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, Target, Value, is_scalar
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import Edges, is_outside
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.transforms.loop_nests import made_again

_DEPTH = 8  # of what is computed again


def run(function: Function) -> bool:
    """Move such checks of `function` in front of their loops; whether there were any."""
    if not any(i.op is OPS["check"] for i in function.instructions()):
        return False
    changed = False
    for loop in reversed(LoopForest(function).loops):
        edges = predecessors(function)
        checks = [c for c in _leading_checks(loop, edges) if all(_can_be_made(v, loop) for v in c.operands)]
        if checks:
            changed |= _hoist(function, loop, edges, checks)
    return changed


def _leading_checks(loop: Loop, edges: Edges) -> list[Instruction]:
    """The checks of a trip before anything else may be seen of it, up to the first one that asks about the trip."""
    header = loop.header
    inner = [t.block for t in header.targets if loop.contains(t.block)]
    if len(header.targets) != 2 or len(inner) != 1 or not all(map(is_pure, header.instructions[:-1])):
        return []
    checks: list[Instruction] = []
    block = inner[0]
    while block is not header and len(edges[block]) == 1:
        for i in block.instructions[:-1]:
            if i.op is OPS["check"] and all(_can_be_made(v, loop) for v in i.operands):
                checks.append(i)
            elif not (is_pure(i) or i.op is OPS["load"]):
                return checks
        if block.instructions[-1].op is not OPS["branch"]:
            break
        block = block.targets[0].block
    return checks


def _can_be_made(v: Value, loop: Loop, depth: int = _DEPTH) -> bool:
    """Whether a value is there before a loop, or can be computed there from what is."""
    if is_outside(v, loop):
        return True
    return (
        depth > 0
        and isinstance(v, Instruction)
        and is_scalar(v.type)
        and is_pure(v)
        and all(_can_be_made(o, loop, depth - 1) for o in v.operands)
    )


def _hoist(function: Function, loop: Loop, edges: Edges, checks: list[Instruction]) -> bool:
    """Ask before the loop, if there is a trip; whether that could be done."""
    header = loop.header
    entering = [(b, k) for b, k in edges[header] if not loop.contains(b)]
    if len(entering) != 1:
        return False
    source, k = entering[0]
    first: dict[Value, Value] = dict(zip(header.args, source.targets[k].args, strict=True))
    test = header.instructions[-1].operands[0]
    if not _is_known_first(test, loop, first):
        return False
    before = _before(function, loop, source, k)
    b = Builder(function).before(before.instructions[-1])
    made = dict(first)
    none = made_again(b, test, loop, made)
    if loop.contains(header.targets[0].block):
        none = b.emit("not", none)
    for check in checks:
        assert check.block is not None
        check.block.instructions.remove(check)
        asked, *operands = (made_again(b, v, loop, made) for v in check.operands)
        b.loc = check.loc
        check.operands = [b.emit("or", none, asked), *operands]
        b.insert(check)
    return True


def _is_known_first(v: Value, loop: Loop, first: dict[Value, Value], depth: int = _DEPTH) -> bool:
    """Whether what the header computes can be computed for the first time that it runs, before the loop."""
    if v in first or is_outside(v, loop):
        return True
    return (
        depth > 0
        and isinstance(v, Instruction)
        and v.block is loop.header
        and is_scalar(v.type)
        and all(_is_known_first(o, loop, first, depth - 1) for o in v.operands)
    )


def _before(function: Function, loop: Loop, source: Block, k: int) -> Block:
    """The block that leads to the loop alone; one on the edge into it where there is none."""
    if len(source.targets) == 1:
        return source
    header, target = loop.header, source.targets[k]
    before = Block("before")
    function.blocks.insert(function.blocks.index(header), before)
    before.append(Instruction(OPS["branch"], [], targets=[Target(header, target.args)]))
    source.targets[k] = Target(before, [])
    outer = loop.parent
    while outer is not None:
        # its place in reverse postorder is right before the header
        outer.ordered.insert(outer.ordered.index(header), before)
        outer.blocks.add(before)
        outer = outer.parent
    return before
