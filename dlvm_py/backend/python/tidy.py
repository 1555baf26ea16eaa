"""What makes the text shorter and is exact: done to the IR before it is written.

Counters that go together become one (the front end's index and the adjoint pass's number of rounds), a counter that is
read behind its loop becomes the bound, a product with 1 its other factor.
"""

from __future__ import annotations

from dlvm_py.backend.python.extents import Extents, Sum
from dlvm_py.backend.python.writer import literal_of
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Block, BlockArg, Function, Instruction, Literal, Target, Value
from dlvm_py.ir.analysis import DominatorTree, Loop, LoopForest, predecessors, uses
from dlvm_py.ir.value import integer


def run(function: Function) -> None:
    """Tidy a function in place."""
    _drop_ones(function)
    _drop_overwritten(function)
    for loop in LoopForest(function).loops:
        _join_counters(function, loop)
        _replace_at_exit(function, loop)


def _drop_ones(function: Function) -> None:
    mapping: dict[Value, Value] = {}
    for i in function.instructions():
        if i.op.name == "multiply":
            for a, b in (i.operands, i.operands[::-1]):
                one = literal_of(a)
                if one == 1 and not isinstance(one, bool) and b.type == i.type:
                    mapping[i] = b
                    break
    function.substitute(mapping)
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i not in mapping]


def _drop_overwritten(function: Function) -> None:
    """Drop the first contents of an allocation that are overwritten before anything reads them."""
    users = uses(function)
    for block in function.blocks:
        dropped = set()
        for i in block.instructions:
            if i.op.name == "allocateHeap":
                ours = [u for u in users[i] if u.block is block]
                ours.sort(key=block.instructions.index)
                if len(ours) > 1 and all(u.op.name == "store" and u.operands[1] is i for u in ours[:2]):
                    dropped.add(ours[0])
        block.instructions = [i for i in block.instructions if i not in dropped]


def entries(function: Function, loop: Loop) -> list[Target]:
    """The edges that enter a loop from outside."""
    return [p.targets[t] for p, t in predecessors(function)[loop.header] if p not in loop.blocks]


def latches(loop: Loop) -> list[Target]:
    """The edges back to the header."""
    return [t for b in loop.latches for t in b.targets if t.block is loop.header]


def _stepped(value: Value, arg: BlockArg) -> int | None:
    """The n of `arg + n`."""
    if isinstance(value, Instruction) and value.op.name == "add" and value.operands[0] is arg:
        return integer(value.operands[1])
    return None


def steps_by(loop: Loop, arg: BlockArg, amount: int) -> bool:
    """Whether a header's argument grows by this amount in every round."""
    at = loop.header.args.index(arg)
    return all(_stepped(t.args[at], arg) == amount for t in latches(loop))


def _join_counters(function: Function, loop: Loop) -> None:
    header = loop.header
    counters = [a for a in header.args if str(a.type) == "i64" and steps_by(loop, a, 1)]
    for kept in counters:
        for other in counters[counters.index(kept) + 1 :]:
            if other not in header.args or kept not in header.args:
                continue
            i, j = header.args.index(kept), header.args.index(other)
            starts = [(t.args[i], t.args[j]) for t in entries(function, loop)]
            if starts and all(a is b or _same_number(a, b) for a, b in starts):
                function.substitute({other: kept})
                del header.args[j]
                for block in function.blocks:
                    for target in block.targets:
                        if target.block is header:
                            del target.args[j]


def _same_number(a: Value, b: Value) -> bool:
    return isinstance(a, Literal) and isinstance(b, Literal) and a.value == b.value


class Counted(Frozen):
    """A loop `for variable in range(start, stop)`; with `down`, `in reversed(range(stop))`."""

    variable: Value
    start: Value | None
    stop: Value
    down: bool
    exit: int  # which target of the header's conditional leaves
    argument: BlockArg  # of the header: the variable, or with `down` what is 1 more


def counted(function: Function, loop: Loop) -> Counted | None:
    """What kind of counted loop this is, None if it is none: its header does nothing but to compare the counter."""
    header = loop.header
    end = header.terminator
    if end is None or end.op.name != "conditional":
        return None
    inside = [t.block in loop.blocks for t in end.targets]
    if sum(inside) != 1 or end.targets[inside.index(True)].block is header:
        return None
    exit_ = inside.index(False)
    test = end.operands[0]
    plain = ("lessThan", "equal", "extent")
    if not isinstance(test, Instruction) or any(i.op.name not in plain for i in header.instructions[:-1]):
        return None
    if test.block is not header or len(uses(function)[test]) != 1:
        return None
    counter, bound = test.operands
    if not isinstance(counter, BlockArg) or counter.block is not header:
        return None
    starts = [t.args[header.args.index(counter)] for t in entries(function, loop)]
    if len(starts) != 1:
        return None
    if test.op.name == "lessThan" and exit_ == 1 and steps_by(loop, counter, 1) and _stands_still(bound, loop):
        if _is_used_outside(function, loop, counter, exit_):
            return None
        return Counted(counter, starts[0], bound, False, exit_, counter)
    if test.op.name == "equal" and exit_ == 0 and literal_of(bound) == 0 and steps_by(loop, counter, -1):
        return _counted_down(function, loop, counter, starts[0], exit_, test)
    return None


def _stands_still(value: Value, loop: Loop) -> bool:
    if isinstance(value, Literal):
        return True
    if isinstance(value, Instruction) and value.op.name == "extent" and value.block is loop.header:
        return _stands_still(value.operands[0], loop)
    block = value.block if isinstance(value, Instruction | BlockArg) else None
    return block not in loop.blocks


def _is_used_outside(function: Function, loop: Loop, counter: Value, exit_: int) -> bool:
    """Whether a counter is read where the loop may have ended at its test: a `for` has no such value of it."""
    end = loop.header.terminator
    assert end is not None
    if counter in end.targets[exit_].args:
        return True
    dominators = DominatorTree(function)
    body = end.targets[1 - exit_].block
    outside = (u.block for u in uses(function)[counter] if u.block not in loop.blocks)
    return any(b is None or not dominators.dominates(body, b) for b in outside)


def _counted_down(
    function: Function, loop: Loop, counter: BlockArg, stop: Value, exit_: int, test: Instruction
) -> Counted | None:
    at = loop.header.args.index(counter)
    less = {t.args[at] for t in latches(loop)}
    users = set(uses(function)[counter])
    if len(less) != 1 or not users <= {test, *less}:
        return None
    (variable,) = less
    if any(u.block not in loop.blocks for u in uses(function)[variable]):
        return None
    return Counted(variable, None, stop, True, exit_, counter)


def _replace_at_exit(function: Function, loop: Loop) -> None:
    """A counter from 0 is the bound where the loop has ended at its test."""
    end = loop.header.terminator
    if end is None or end.op.name != "conditional" or loop.exiting_block is not loop.header:
        return
    ((_, exit_),) = loop.exit_edges()
    test = end.operands[0]
    if exit_ != 1 or not isinstance(test, Instruction) or test.op.name != "lessThan":
        return
    counter, bound = test.operands
    if not isinstance(counter, BlockArg) or counter.block is not loop.header or not _stands_still(bound, loop):
        return
    starts = [t.args[loop.header.args.index(counter)] for t in entries(function, loop)]
    extents = Extents()
    if not all(_same_number(s, starts[0]) and literal_of(s) == 0 for s in starts) or not steps_by(loop, counter, 1):
        return
    if not extents.is_not_negative(extents.sum_of(bound)) or _in_header(bound, loop):
        return
    end.targets[exit_].args = [bound if v is counter else v for v in end.targets[exit_].args]
    for block in function.blocks:
        if block not in loop.blocks:
            for i in block.instructions:
                i.substitute({counter: bound})


def _in_header(value: Value, loop: Loop) -> bool:
    return isinstance(value, Instruction) and value.block is loop.header


__all__ = ["Block", "Counted", "Sum", "counted", "run"]
