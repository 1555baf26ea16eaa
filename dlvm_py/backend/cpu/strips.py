"""Innermost loops that count: their strip is cut off before it runs, so that an iteration burns no fuel.

    'head(%k: i64, %s: f64):                               strip:  left = fuel; rest = n - k, or 0
        %more = lessThan %k: i64, %n: i64                          part = min(rest, left - 1); end = k + part
        conditional %more then 'body() else 'exit()   =>   head:   k < end ? body : done
    'body():                                               body:   ...; head
        ...                                                done:   fuel -= part; part == rest ? exit : poll, strip
        branch 'head(%k + 1, ...)

What LLVM sees is a loop with one exit and a count that its entry knows: it is unrolled, and vectorised without an
iteration that is kept for the end. A count that is a small literal takes no fuel at all: it is less than what the loop
around it takes for itself.

A loop is one of these if nothing but the test at its head leaves it, the head has no effects (it is run once more where
a strip ends), nothing in it burns fuel of its own, and the counter goes up by a literal to a number that the loop does
not change, or down by one to 0.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.values import ONE, ZERO, V
from dlvm_py.frozen import Frozen
from dlvm_py.ir import BlockArg, Instruction, Literal, Target, Value, is_scalar
from dlvm_py.ir.analysis.cost import is_slow
from dlvm_py.ir.analysis.counted_loops import counting_head, steps
from dlvm_py.ir.analysis.effects import is_pure, reads_memory
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.value import integer

# work that is not worth fuel, as for array kernels
SMALL = 64


class Strip(Frozen):
    """The count of a loop.

    counter: the argument of the head that steps; last: where it ends; is_down: it goes down to 0. leave: which target
    of the head leaves the loop. is_small: whether the count is a small literal.
    """

    counter: BlockArg
    last: Value
    is_down: bool
    leave: int
    is_small: bool


def strip_of(loop: Loop, entering: list[Target], burns: Callable[[Instruction], bool]) -> Strip | None:
    """The count of an innermost loop, None where it has to look at the fuel in each iteration.

    entering: the edges into the loop. burns: whether an instruction takes fuel of its own.
    """
    exits, found = loop.exit_edges(), counting_head(loop)
    if loop.children or found is None or len(exits) != 1 or exits[0][0] is not loop.header:
        return None
    if any(burns(i) for block in loop.ordered for i in block.instructions):
        return None
    if not all(is_pure(i) or reads_memory(i) and i.op.name == "load" for i in loop.header.instructions[:-1]):
        return None
    counter, last, is_down = found.counter, found.last, found.is_down
    if is_down and not (isinstance(last, Literal) and last.value == 0):
        return None
    by = steps(loop, counter)
    if None in by or (by != {-1} if is_down else min(by) < 1):  # type: ignore[type-var]
        return None
    at = loop.header.args.index(counter)
    return Strip(counter, last, is_down, exits[0][1], _is_small([t.args[at] for t in entering], last))


def may_be_vectors(loop: Loop, strip: Strip) -> bool:
    """Whether LLVM may run several trips of a strip as one, and they are long enough for elements that lie apart.

    None of them raises, or hands a float to the next one.
    """
    instructions = [i for block in loop.ordered for i in block.instructions]
    carried = [a for a in loop.header.args if a is not strip.counter]
    return (
        any(map(is_slow, instructions))
        and not any(is_scalar(a.type) and a.type.dtype.kind in "fc" for a in carried)
        and not any(i.op.name in ("check", "raise") or i.attrs.get("checked") for i in instructions)
    )


def _is_small(entering: list[Value], last: Value) -> bool:
    """Whether the loop goes from a literal to another one that is at most `SMALL` away."""
    end, *starts = (integer(v) for v in (last, *entering))
    return end is not None and all(n is not None and abs(n - end) <= SMALL for n in starts)


class Cut:
    """The code of one strip: where it ends is computed at its entry, `done` stands where the head leaves."""

    def __init__(self, e: FunctionEmitter, strip: Strip, counter: V, stop: V | None = None) -> None:
        """counter: where the strip begins. stop: where the loop ends, if that is not where the program says."""
        self.e, self.strip = e, strip
        left = e.load("i64", e.fuel)
        last = stop or e.scalar(strip.last)
        if strip.is_down:
            rest = e.op("sub", counter, last)
        else:
            rest = e.select(e.icmp("slt", counter, last), e.op("sub", last, counter), ZERO)
        # both as numbers without a sign: what is left in a loop from a huge negative number to a huge positive one
        most = e.op("sub", left, ONE)
        is_all = e.icmp("ule", rest, most)
        self.is_all = is_all
        part = e.select(is_all, rest, most)
        self.end = e.op("sub" if strip.is_down else "add", counter, part)
        self.after = e.op("sub", left, part)

    def stays(self, counter: V) -> V:
        """Whether the loop goes on within the strip."""
        return self.e.icmp("ne" if self.strip.is_down else "slt", counter, self.end)

    def done(self) -> V:
        """Take the fuel; whether the loop has come to its end."""
        self.e.store(self.after, self.e.fuel)
        return self.is_all
