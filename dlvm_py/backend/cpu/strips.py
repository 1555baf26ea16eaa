"""Loops that count: their strip is cut off before it runs, so that an iteration burns no fuel.

    'head(%k: i64, %s: f64):                               strip:  left = fuel; rest = n - k, or 0
        %more = lessThan %k: i64, %n: i64                          part = min(rest, left - 1); end = k + part
        conditional %more then 'body() else 'exit()   =>   head:   k < end ? body : done
    'body():                                               body:   ...; head
        ...                                                done:   fuel -= part; part == rest ? exit : poll, strip
        branch 'head(%k + 1, ...)

What LLVM sees is a loop with one exit and a count that its entry knows: it is unrolled, and vectorised without an
iteration that is kept for the end. A count that is a small literal, or at most one, takes no fuel at all: it is less
than what the loop around it takes for itself. So a window of 3 by 3 is small, and the loop around it is as if it were
innermost. A loop that shrinks a number until it is 0, bit by bit or by halves, is small as well
(ir/analysis/short_loops.py): LLVM knows the one that counts bits as an instruction.

A loop that its head says is `bounded`, by the elements of an array, is no longer than a kernel over that: it runs to
its end, and takes its fuel then. Rows of a sparse matrix are such loops, often of a few trips.

A loop is one of these if nothing but the test at its head leaves it, the head has no effects (it is run once more where
a strip ends), nothing in it burns fuel of its own but small loops, which take none, and the counter goes up by a
literal to a number that the loop does not change, or down by one to 0. Of a small one nothing is taken that would have
to be given back: it may be left anywhere, and other loops in it take their own fuel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.values import ONE, ZERO, V
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Block, BlockArg, Instruction, Literal, Target, Value, is_scalar, literal
from dlvm_py.ir.analysis.cost import is_slow
from dlvm_py.ir.analysis.counted_loops import counting_head, steps
from dlvm_py.ir.analysis.effects import is_pure, reads_memory
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.analysis.places import linear
from dlvm_py.ir.analysis.short_loops import shrinking
from dlvm_py.ir.value import integer

# work that is not worth fuel, as for array kernels
SMALL = 64


class Strip(Frozen):
    """The count of a loop.

    counter: the argument of the head that steps, or shrinks; last: where it ends; is_down: it goes down to 0. leave:
    which target of the head leaves the loop. trips: how many there are at most, of the loops in it as well, where these
    are small literals and their product is; None elsewhere. is_bounded: there are no more than an array has elements.
    burns: a loop in it takes fuel.
    """

    counter: BlockArg
    last: Value
    is_down: bool
    leave: int
    trips: int | None
    is_bounded: bool = False
    burns: bool = False

    @property
    def is_small(self) -> bool:
        """Whether the loop takes no fuel for its own trips."""
        return self.trips is not None

    @property
    def is_free(self) -> bool:
        """Whether nothing in the loop takes fuel."""
        return self.is_small and not self.burns


def strip_of(
    loop: Loop, entering: list[Target], burns: Callable[[Instruction], bool], inner: Mapping[Block, Strip]
) -> Strip | None:
    """The count of a loop that no fuel in it disturbs, None where it has to look at the fuel in each iteration.

    entering: the edges into the loop. burns: whether an instruction takes fuel of its own. inner: the counts of the
    loops in it, by their heads.
    """
    exits, found = loop.exit_edges(), counting_head(loop)
    short = shrinking(loop)
    if short is not None and not loop.children:
        if not any(burns(i) for block in loop.ordered for i in block.instructions):
            return Strip(short, literal(0, short.type), False, 1, SMALL)
    if found is None:
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
    trips = _trips([t.args[at] for t in entering], last)
    if trips is not None:
        small = (inner[child.header].trips or 0 for child in loop.children if child.header in inner)
        trips *= max(1, sum(small))
    is_bounded = bool(loop.header.instructions[-1].attrs.get("bounded"))
    if loop.header.instructions[-1].attrs.get("rest"):
        trips = SMALL  # fewer than a vector of bytes has lanes
    known = trips if trips is not None and trips <= SMALL else None
    ((_, leave),) = [e for e in exits if e[0] is loop.header]
    burning = not all(child.header in inner and inner[child.header].is_free for child in loop.children)
    if known is None and (burning or len(exits) != 1):
        return None
    return Strip(counter, last, is_down, leave, known, is_bounded, burning)


def may_be_vectors(loop: Loop, strip: Strip) -> bool:
    """Whether LLVM may run several trips of a strip as one, and they are long enough for elements that lie apart.

    None of them raises, or hands a float to the next one, or what the next one divides.
    """
    instructions = [i for block in loop.ordered for i in block.instructions]
    carried = [a for a in loop.header.args if a is not strip.counter]
    return (
        not strip.burns
        and any(map(is_slow, instructions))
        and None not in steps(loop, strip.counter)
        and not any(map(_is_inexact, carried))
        and not any(i.op.name in ("check", "raise") or i.attrs.get("checked") for i in instructions)
        and not _waits_for_the_last(instructions, carried)
    )


def walks_apart(loop: Loop, strip: Strip) -> bool:
    """Whether a strip of a few steps, of which LLVM may make vectors, reads elements that lie apart: down a column."""
    instructions = [i for block in loop.ordered for i in block.instructions]
    if loop.children or any(is_slow(i) or i.op.name in ("check", "raise") for i in instructions):
        return False
    if any(map(_is_inexact, loop.header.args)):
        return False
    places = [i.operands[0] for i in instructions if i.op.name == "load" and is_scalar(i.type)]
    return any(_is_down(p, strip.counter) for p in places)


def _is_inexact(v: Value) -> bool:
    return is_scalar(v.type) and v.type.dtype.kind in "fc"  # type: ignore[attr-defined]


def _is_down(place: Value, counter: BlockArg) -> bool:
    """Whether an element is in another row with each step of a counter."""
    if not isinstance(place, Instruction) or place.op.name != "elementPointer" or place.attrs.get("path"):
        return False
    *rows, column = (linear(v) for v in place.operands[1:])
    return any(row.terms.get(counter) for row in rows) and counter not in column.terms


def _waits_for_the_last(instructions: list[Instruction], carried: list[BlockArg]) -> bool:
    """Whether what takes long needs what the trip before has computed: `h = (h * 31 + x) % p`."""
    made: set[Value] = {a for a in carried if is_scalar(a.type)}
    for i in instructions:
        if not made.isdisjoint(i.operands):
            if is_slow(i):
                return True
            made.add(i)
        for t in i.targets or ():
            made.update(a for a, v in zip(t.block.args, t.args, strict=True) if v in made)
    return False


def _trips(entering: list[Value], last: Value) -> int | None:
    """How far a literal is at most from that to which the loop goes; None where one of them is none."""
    end, *starts = (integer(v) for v in (_at_most(last), *entering))
    distances = [abs(n - end) for n in starts if n is not None and end is not None]
    return max(distances, default=0) if end is not None and len(distances) == len(starts) else None


def _at_most(last: Value) -> Value:
    """A literal that a number is never above, if it is the smaller one of that and another one; else the number."""
    operands = last.operands if isinstance(last, Instruction) and last.op.name == "min" else []
    return next((v for v in operands if isinstance(v, Literal)), last)


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
        if strip.is_bounded:
            self.end, self.after = last, e.op("sub", left, rest)
            self.is_all = e.icmp("sgt", self.after, ZERO)
            return
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
        """Take the fuel; whether the loop has come to its end, and there is some left if it is bounded."""
        self.e.store(self.after, self.e.fuel)
        return self.is_all
