"""Loops whose number of trips is known at their entry.

    'before: branch 'head(0, …)                        index  %k, from 0 by 1
    'head(%k, …): %more = lessThan %k, %n              trips  max(%n, 0)
                  conditional %more then 'body else …  stay   'body

A loop counts up from a literal to a number that it does not change, or down to zero (the reversed loops of a gradient
that is differentiated again). With `break` or `return` in it, the number is a bound, and the loop is not `exact`; also
where the test at the head leads to a `raise` and the loop is left from within.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm_py.frozen import Frozen
from dlvm_py.ir import UNDEFINED, Block, Builder, Instruction, Literal, Value, literal
from dlvm_py.ir.analysis.counted_loops import counting_head, is_natural, step_of
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.value import BlockArg, integer

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.primal import Primal


class Counted(Frozen):
    """The count of a loop.

    last: the number behind the last one; start: the first one, a literal; or (is_down) the loop goes from `last` to 0.
    argument: what steps. stay: the block that is entered for each trip. is_exact: whether it is left nowhere else.
    """

    argument: BlockArg
    start: int
    last: Value
    is_down: bool
    stay: Block
    is_exact: bool

    @property
    def index(self) -> BlockArg | None:
        """The argument, where it is the number of the iteration."""
        return self.argument if self.start == 0 and not self.is_down else None

    def trips(self, b: Builder, last: Value) -> Value:
        """How many trips the loop makes, at most; last: the value of `last` at that place."""
        if isinstance(last, Literal):
            number = integer(last)
            assert number is not None
            return literal(max(number - self.start, 0))
        if not (self.is_down or is_natural(last) and self.start == 0):
            last = b.emit("max", last, literal(self.start))
        return last if self.start == 0 else b.emit("subtract", last, literal(self.start))


def counted(primal: Primal, loop: Loop) -> Counted | None:
    """The count of `loop`, None where the entry does not know it."""
    head = counting_head(loop)
    if head is None:
        return None
    argument, bound, is_down, stay = head.counter, head.last, head.is_down, head.body
    at = loop.header.args.index(argument)
    first = primal.preheader(loop).targets[0].args[at]
    following = passed_on(primal, primal.latch(loop).targets[0].args[at], loop)
    start = integer(bound if is_down else first)
    if step_of(following, argument) != (-1 if is_down else 1) or start is None or start < 0:
        return None
    last = bound
    if is_down:
        if start != 0 or not (is_natural(first) or _counts_up(primal, first)):
            return None
        last = first
    if not primal.dominators.dominates(stay, repeating(primal, loop)):
        return None
    return Counted(argument, start, last, is_down, stay, head.exit is primal.exits[loop])


def repeating(primal: Primal, loop: Loop) -> Block:
    """The block that every iteration passes which another one follows: the latch, or what goes there by the tail."""
    latch = primal.latch(loop)
    edges = primal.edges[latch]
    if len(edges) == 1:
        ((tail, index),) = edges
        test = tail.instructions[-1]
        way = test.operands[0].operands[0] if index == 0 and _asks_for_zero(test) else None  # type: ignore[attr-defined]
        if isinstance(way, BlockArg) and way.block is tail and loop.contains(tail):
            at = tail.args.index(way)
            again = [p for p, k in primal.edges[tail] if _may_be_zero(p.targets[k].args[at])]
            if len(again) == 1:
                return again[0]
    return latch


def passed_on(primal: Primal, value: Value, loop: Loop) -> Value:
    """Look through arguments to which all paths that continue the loop pass one value."""
    while isinstance(value, BlockArg) and value.block is not loop.header and loop.contains(value.block):
        at = value.block.args.index(value)
        passed = [p.targets[t].args[at] for p, t in primal.edges[value.block]]
        real = {v for v in passed if not (isinstance(v, Literal) and v.value is UNDEFINED)}
        if len(real) != 1:
            break
        (value,) = real
    return value


def _counts_up(primal: Primal, value: Value) -> bool:
    """Whether a loop counts with `value`, from 0 or more upwards."""
    if not isinstance(value, BlockArg):
        return False
    loop = primal.loop_of(value.block)
    if loop is None or loop.header is not value.block or loop not in primal.exits:
        return False
    at = value.block.args.index(value)
    first = primal.preheader(loop).targets[0].args[at]
    step = step_of(passed_on(primal, primal.latch(loop).targets[0].args[at], loop), value)
    return is_natural(first) and step is not None and step > 0


def _asks_for_zero(test: Instruction) -> bool:
    if test.op.name != "conditional":
        return False
    c = test.operands[0]
    if not isinstance(c, Instruction) or c.op.name != "equal":
        return False
    by = c.operands[1]
    return integer(by) == 0


def _may_be_zero(value: Value) -> bool:
    return not isinstance(value, Literal) or value.value == 0
