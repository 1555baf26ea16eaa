"""Loops that a counter drives, as the front end and the adjoint pass make them, whatever else they carry.

    'head(%k: i64, ...): %more = lessThan %k, %n              up: %k = first, first + 1, ..., %n - 1
                         conditional %more then 'body else 'exit
    'head(%k: i64, ...): %done = equal %k, 0                  down: %k = first, first - 1, ..., 1
                         conditional %done then 'exit else 'body

What passes back passes %k + 1, or %k - 1. Who asks for less (any literal step, say) asks `counting_head` and `steps`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlvm_py.frozen import Frozen
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.function import Block
from dlvm_py.ir.types import I64, TensorType
from dlvm_py.ir.value import BlockArg, Instruction, Literal, Value, integer

Edges = Mapping[Block, list[tuple[Block, int]]]

_INTEGER = TensorType((), I64)


class CountingHead(Frozen):
    """The test at the head of a loop that a counter passes.

    counter: an argument of the header; last: what it is compared with, not changed in the loop. is_down: the loop goes
    on until the counter is `last`, and not while it is less. body and exit: where the test leads, within the loop and
    out of it.
    """

    counter: BlockArg
    last: Value
    is_down: bool
    body: Block
    exit: Block


class CountedLoop(Frozen):
    """The counter of a loop.

    counter: the argument of the header that steps by `step`, 1 or -1, from `first` on. last: where it stops, without
    it; what is not changed in the loop. body: the block that is entered for each trip.
    """

    loop: Loop
    counter: BlockArg
    first: Value
    last: Value
    step: int
    body: Block
    exit: Block

    @property
    def ends(self) -> tuple[Value, Value]:
        """`first` and `last`, the smaller one first: there are as many trips as they are apart."""
        return (self.first, self.last) if self.step == 1 else (self.last, self.first)


def counted_loop(loop: Loop, edges: Edges) -> CountedLoop | None:
    """How `loop` counts; None where no counter alone decides at its head how often it runs.

    edges: the predecessors of all blocks. It may be left, or raise, from within all the same.
    """
    head = counting_head(loop)
    if head is None or len(loop.latches) != 1:
        return None
    header, counter, last = loop.header, head.counter, head.last
    step = -1 if head.is_down else 1
    at = header.args.index(counter)
    outer = [(p, k) for p, k in edges[header] if not loop.contains(p)]
    firsts = list(dict.fromkeys(p.targets[k].args[at] for p, k in outer))
    if len(firsts) != 1 or steps(loop, counter) != {step}:
        return None
    if step == -1 and not (_is(last, 0) and is_natural(firsts[0])):
        return None  # it might pass the number where it is to stop
    return CountedLoop(loop, counter, firsts[0], last, step, head.body, head.exit)


def counting_head(loop: Loop) -> CountingHead | None:
    """The test by which a counter leaves `loop` at its head; None where the head asks for something else."""
    header = loop.header
    test = header.instructions[-1] if header.instructions else None
    condition = test.operands[0] if test is not None and test.op.name == "conditional" else None
    if not isinstance(condition, Instruction) or condition.block is not header:
        return None
    if condition.op.name not in ("lessThan", "equal"):
        return None
    assert test is not None
    is_down = condition.op.name == "equal"
    counter, last = condition.operands
    if not isinstance(counter, BlockArg) or counter.block is not header or counter.type != _INTEGER:
        return None
    body, exit = (test.targets[k].block for k in ((1, 0) if is_down else (0, 1)))
    if not loop.contains(body) or loop.contains(exit) or not is_outside(last, loop):
        return None
    return CountingHead(counter, last, is_down, body, exit)


def steps(loop: Loop, counter: BlockArg) -> set[int | None]:
    """By how much the counter changes from one trip to the next; None is among them where that is not a literal."""
    at = loop.header.args.index(counter)
    return {step_of(t.args[at], counter) for b in loop.latches for t in b.targets if t.block is loop.header}


def is_outside(value: Value, loop: Loop) -> bool:
    """Whether a value is there before the loop."""
    return not isinstance(value, BlockArg | Instruction) or value.block not in loop.blocks


def step_of(following: Value, counter: BlockArg) -> int | None:
    """By how much the counter changes, where that is a literal."""
    if not isinstance(following, Instruction) or following.op.name not in ("add", "subtract"):
        return None
    a, by = following.operands
    if by is counter and following.op.name == "add":
        a, by = by, a
    number = integer(by)
    if a is not counter or number is None:
        return None
    return number if following.op.name == "add" else -number


def _is(value: Value, number: int) -> bool:
    return isinstance(value, Literal) and value.value == number


def is_natural(value: Value) -> bool:
    """Whether a number is known to be 0 or more: a literal, an extent, a maximum with such a number."""
    if isinstance(value, Literal):
        number = integer(value)
        return number is not None and number >= 0
    if not isinstance(value, Instruction):
        return False
    return value.op.name == "extent" or (value.op.name == "max" and any(map(is_natural, value.operands)))
