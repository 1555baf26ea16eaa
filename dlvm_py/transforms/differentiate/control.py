"""The record of control flow, and the edges of the reverse sweep.

The reverse sweep walks the blocks that were run, last one first. A block with one predecessor needs no
record. A loop header is told by a counter: an argument `trip` counts the times that the header was entered
from the latch; in reverse a variable counts down, and at zero the loop was entered from outside. Any other
block with several predecessors gets an argument that says which one it was (an argument that does so
already, like the number of the way out of a loop, is used as it is).
"""

from __future__ import annotations

from dlvm_py.ir import BOOL, I64, Block, Builder, Literal, Value, literal, scalar
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.value import BlockArg
from dlvm_py.transforms.differentiate.normal_form import passed_literals
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.ssa_repair import Variable, assignment


class Control:
    """Adds the records to the forward sweep and emits the terminators of the reverse sweep.

    `counters[loop]` is the variable that holds, in the reversed loop, the number of the iteration; `trips[loop]` the
    argument of the loop that counts them.
    """

    def __init__(self, primal: Primal) -> None:
        self._primal = primal
        self.trips: dict[Loop, BlockArg] = {}
        self._loop_at: dict[Block, Loop] = {loop.header: loop for loop in primal.loops()}
        self._which: dict[Block, tuple[Value, list[Literal]]] = {}
        self.counters: dict[Loop, Variable] = {}
        for block in primal.order:
            if block in self._loop_at:
                self._count(self._loop_at[block])
            elif len(primal.edges[block]) > 1:
                self._which[block] = self._record(block)

    # -- forward -------------------------------------------------------------------------------------

    def _count(self, loop: Loop) -> None:
        trip = loop.header.add_arg(scalar(I64), "trip")
        self.trips[loop] = trip
        self.counters[loop] = Variable(scalar(I64), "trip")
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
        two = len(edges) == 2
        arg = block.add_arg(scalar(BOOL if two else I64), "came_from")
        numbers = [literal(k == 0) if two else literal(k) for k in range(len(edges))]
        for (source, index), number in zip(edges, numbers, strict=True):
            source.targets[index].args.append(number)
        return arg, numbers

    # -- reverse -------------------------------------------------------------------------------------

    def enter(self, b: Builder, block: Block) -> None:
        """Open the reverse of `block`: set or step the counters of the loops that it leaves or repeats."""
        for loop, counter in self.counters.items():
            if self._primal.exits[loop] is block:
                b.insert(assignment(counter, self.trips[loop]))
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
            b.conditional(first, reverse[outside], [], reverse[latch])
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
