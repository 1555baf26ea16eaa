"""Unrolling: a loop of few trips, whose counter decides which way each of them takes, becomes those ways in order.

        branch 'loop(0: i64, 0.0: f64)                  %p = multiply %x: f64, %x: f64
    'loop(%k: i64, %s: f64):                            %a = add 0.0: f64, %p: f64
        %more = lessThan %k: i64, 2: i64                %q = sqrt %x: f64
        conditional %more then 'body() else 'end()      %b = add %a: f64, %q: f64
    'body():                                            ...
        %first = equal %k: i64, 0: i64
        conditional %first then 'a() else 'b()
    'a():                                       =>
        %p = multiply %x: f64, %x: f64
        branch 'next(%p: f64)
    'b():
        %q = sqrt %x: f64
        branch 'next(%q: f64)
    'next(%v: f64):
        %sum = add %s: f64, %v: f64
        %up = add %k: i64, 1: i64
        branch 'loop(%up: i64, %sum: f64)
    'end():
        ...

What the ways have in common is then computed once (value_numbering.py), as two rows of a Jacobian have the function
itself; their buffers are made in every round of the loops around, which can hoist them then (hoist_buffers.py); and a
derivative keeps nothing for the trips.

For loops that count up by 1 between two literals, in at most MOST trips, left at their head alone, with a condition in
their body that compares the counter with a literal; where all trips, the ways not taken left out, are at most GROWTH
times as long as the loop. Any stage before memory is planned; clears up behind itself.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, BlockArg, Builder, Function, Instruction, Target, Value, literal
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, Edges, counted_loop
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.value import integer
from dlvm_py.transforms import constant_fold, simplify_cfg
from dlvm_py.transforms.cfg_canonicalization import join_edges, move_block
from dlvm_py.transforms.inline import clone_region

MOST = 8
GROWTH = 1.5

DECIDES = {
    "equal": int.__eq__, "notEqual": int.__ne__, "lessThan": int.__lt__, "lessThanOrEqual": int.__le__,
    "greaterThan": int.__gt__, "greaterThanOrEqual": int.__ge__,
}  # fmt: skip


def run(function: Function, most: int = 0) -> bool:
    """Unroll the loops of `function` that choose their ways by the counter; whether there were any.

    most: instructions that other loops of few trips may become, too.
    """
    changed = False
    while (counted := _found(function, most)) is not None:
        _unroll(function, counted)
        constant_fold.run(function)
        simplify_cfg.run(function)
        changed = True
    return changed


def _found(function: Function, most: int) -> CountedLoop | None:
    deciding = [b for b in function.blocks if compared(b.terminator) is not None]
    if not deciding and not most:
        return None
    edges: Edges | None = None
    for loop in LoopForest(function).loops:
        if not most and not any(loop.contains(b) and b is not loop.header for b in deciding):
            continue
        edges = edges or predecessors(function)
        counted = counted_loop(loop, edges)
        if counted is not None and _pays(counted, edges, most):
            return counted
    return None


def compared(end: Instruction | None) -> tuple[str, BlockArg, int] | None:
    """The comparison of an argument with a literal that a block's end goes by: its name, the argument, the number."""
    condition = end.operands[0] if end is not None and end.op is OPS["conditional"] else None
    if not isinstance(condition, Instruction) or condition.op.name not in DECIDES:
        return None
    value, number = condition.operands[0], integer(condition.operands[1])
    return None if number is None or not isinstance(value, BlockArg) else (condition.op.name, value, number)


def _pays(counted: CountedLoop, edges: Edges, most: int) -> bool:
    first, last = integer(counted.first), integer(counted.last)
    if counted.step != 1 or first is None or last is None or not 0 < last - first <= MOST:
        return False
    loop = counted.loop
    back = [(b, k) for b, k in edges[loop.header] if loop.contains(b)]
    ways = [compared(b.terminator) for b in loop.ordered if b is not loop.header]
    if len(back) != 1 or loop.exiting_block is not loop.header:
        return False
    trips = sum(_length(counted, number) for number in range(first, last))
    if not any(found is not None and found[1] is counted.counter for found in ways):
        return trips <= most
    return trips <= most or trips <= GROWTH * sum(len(b.instructions) for b in loop.ordered)


def _length(counted: CountedLoop, number: int) -> int:
    """How many instructions are on the ways of one trip."""
    seen = {counted.loop.header}
    pending = [counted.body]
    while pending:
        block = pending.pop()
        if block in seen:
            continue
        seen.add(block)
        way, targets = compared(block.terminator), block.targets
        if way is not None and way[1] is counted.counter:
            targets = [targets[0 if DECIDES[way[0]](number, way[2]) else 1]]
        pending.extend(t.block for t in targets)
    return sum(len(b.instructions) for b in seen)


def _unroll(function: Function, counted: CountedLoop) -> None:
    """Put a copy of the loop's blocks for each trip before the loop, whose head is left to go on from."""
    loop, header = counted.loop, counted.loop.header
    entries = [(b, k) for b, k in predecessors(function)[header] if not loop.contains(b)]
    before = join_edges(function, entries, "")
    move_block(function, before, before=header)
    edge = before.targets[0]
    first, last = integer(counted.first), integer(counted.last)
    assert first is not None and last is not None
    for number in range(first, last):
        passed: dict[Value, Value] = dict(zip(header.args, edge.args, strict=True))
        passed[counted.counter] = literal(number)
        blocks = clone_region(loop.ordered, passed, entry=header)
        at = function.blocks.index(header)
        function.blocks[at:at] = blocks
        copy = blocks[loop.ordered.index(header)]
        following = next(t for b in blocks for t in b.targets if t.block is copy)
        edge.block, edge.args = copy, []
        edge = following
    edge.block = header
    _leave(function, counted)


def _leave(function: Function, counted: CountedLoop) -> None:
    """After the last trip the head goes on behind the loop."""
    header = counted.loop.header
    end = header.instructions.pop()
    out: Target = next(t for t in end.targets if t.block is counted.exit)
    builder = Builder(function).at_end(header)
    builder.loc = end.loc
    builder.branch(out.block, list(out.args))
    simplify_cfg.remove_unreachable(function)
