"""The record of control flow, and the edges of the reverse sweep.

The reverse sweep walks the blocks that were run, last one first. A block with one predecessor needs no
record. A loop header is told by a counter: an argument `trip` counts the times that the header was entered
from the latch (or one that the program has counts them); in reverse a variable counts down, from what the entry of the
loop knew where it did (counted.py), and at zero the loop was entered from outside. Any other
block with several predecessors is told by the condition of the branch above that leads to the one or the other, or
else gets an argument that says which one it was (an argument that does so already, like the number of the way out of a
loop, is used as it is).
"""

from __future__ import annotations

from dlvm_py.ir import BOOL, I64, Block, Builder, Literal, Value, literal, scalar
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.value import BlockArg
from dlvm_py.transforms.differentiate.counted import Counted, counted
from dlvm_py.transforms.differentiate.normal_form import passed_literals
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.ssa_repair import Variable, assignment


class Control:
    """Adds the records to the forward sweep and emits the terminators of the reverse sweep.

    `counters[loop]` is the variable that holds, in the reversed loop, the number of the iteration; `trips[loop]` the
    argument of the loop that counts them; `counts[loop]` what the entry knows of their number.
    """

    def __init__(self, primal: Primal) -> None:
        self._primal = primal
        self.trips: dict[Loop, BlockArg] = {}
        self.counts: dict[Loop, Counted | None] = {loop: counted(primal, loop) for loop in primal.loops()}
        self._loop_at: dict[Block, Loop] = {loop.header: loop for loop in primal.loops()}
        self._which: dict[Block, tuple[Value, list[Literal]]] = {}
        self.small: set[Value] = set()  # integers that say which way it was: a byte is enough for them
        self.counters: dict[Loop, Variable] = {}
        for block in primal.order:
            if block in self._loop_at:
                self._count(self._loop_at[block])
            elif len(primal.edges[block]) > 1:
                self._which[block] = self._record(block)
                which, numbers = self._which[block]
                if which.type == scalar(I64) and all(0 <= n.value < 128 for n in numbers):  # type: ignore[operator]
                    self.small.add(which)

    # -- forward -------------------------------------------------------------------------------------

    def _count(self, loop: Loop) -> None:
        self.counters[loop] = Variable(scalar(I64), "trip")
        count = self.counts[loop]
        if count is not None and count.index is not None:
            self.trips[loop] = count.index
            return
        trip = loop.header.add_arg(scalar(I64), "trip")
        self.trips[loop] = trip
        self._primal.preheader(loop).targets[0].args.append(literal(0))
        latch = self._primal.latch(loop)
        b = Builder(self._primal.function).before(latch.instructions[-1])
        latch.targets[0].args.append(b.emit("add", trip, literal(1), name="trip"))

    def _record(self, block: Block) -> tuple[Value, list[Literal]]:
        edges = self._primal.edges[block]
        for k, arg in enumerate(block.args):
            numbers = passed_literals(edges, k)
            if numbers is not None:
                return arg, numbers
        chosen = self._condition(block)
        if chosen is not None:
            return chosen
        two = len(edges) == 2
        arg = block.add_arg(scalar(BOOL if two else I64), "came_from")
        numbers = [literal(k == 0) if two else literal(k) for k in range(len(edges))]
        for (source, index), number in zip(edges, numbers, strict=True):
            source.targets[index].args.append(number)
        return arg, numbers

    def _condition(self, block: Block) -> tuple[Value, list[Literal]] | None:
        """The condition that decides by which of two edges `block` is reached; keep.py sees whether it is kept."""
        dominators, edges = self._primal.dominators, self._primal.edges[block]
        above = dominators.idom[block]
        if len(edges) != 2 or above is None or self._primal.loop_of(above) is not self._primal.loop_of(block):
            return None
        test = above.instructions[-1]
        if test.op.name != "conditional":
            return None
        sides = [[dominators.dominates(target.block, source) for target in test.targets] for source, _ in edges]
        if sides not in ([[True, False], [False, True]], [[False, True], [True, False]]):
            return None
        return test.operands[0], [literal(is_then) for is_then, _ in sides]

    # -- reverse -------------------------------------------------------------------------------------

    def enter(self, b: Builder, block: Block) -> None:
        """Open the reverse of `block`: set or step the counters of the loops that it leaves or repeats."""
        for loop, counter in self.counters.items():
            if self._primal.exits[loop] is block:
                count = self.counts[loop]
                known = count is not None and count.is_exact
                b.insert(assignment(counter, count.trips(b, count.last) if known else self.trips[loop]))
            elif self._primal.latch(loop) is block:
                b.insert(assignment(counter, b.emit("add", counter, literal(-1), name="trip")))

    def leave(self, b: Builder, block: Block, reverse: dict[Block, Block]) -> None:
        """Close the reverse of `block` with the branch to the reverse of the predecessor that was taken."""
        sources = [reverse[p] for p, _ in self._primal.edges[block]]
        if not sources:
            return
        if len(sources) == 1:
            b.branch(sources[0])
        elif block in self._loop_at:
            loop = self._loop_at[block]
            first = b.emit("equal", self.counters[loop], literal(0))
            outside, latch = self._primal.preheader(loop), self._primal.latch(loop)
            b.conditional(first, reverse[outside], [], reverse[latch]).attrs["unordered"] = True
        else:
            which, numbers = self._which[block]
            self._choose(b, which, numbers, sources)

    def _choose(self, b: Builder, which: Value, numbers: list[Literal], sources: list[Block]) -> None:
        if which.type == scalar(BOOL):
            then, other = sources if numbers[0].value else sources[::-1]
            b.conditional(which, then, [], other)
            return
        for k, number in enumerate(numbers[:-1]):
            last = k == len(numbers) - 2
            other = sources[-1] if last else b.function.new_block("which", after=b.block)
            b.conditional(b.emit("equal", which, number), sources[k], [], other)
            b.at_end(other)
