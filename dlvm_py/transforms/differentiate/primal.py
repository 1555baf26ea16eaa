"""The prepared primal: a private copy in normal form, and all that the other files ask about it."""

from __future__ import annotations

from dlvm_py.errors import NotDifferentiable
from dlvm_py.ir import Block, Function, Instruction, Kind, PointerType, Value
from dlvm_py.ir.analysis import DominatorTree, LoopForest, predecessors, reverse_postorder, uses
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.transforms.differentiate.activity import Activity, carries_derivative
from dlvm_py.transforms.differentiate.arguments import copy_written
from dlvm_py.transforms.differentiate.config import AdjointConfig, Output
from dlvm_py.transforms.differentiate.demote import demote
from dlvm_py.transforms.differentiate.normal_form import Exit, leaving_edges, reaching
from dlvm_py.transforms.differentiate.points_to import PointsTo, carries_pointers


class Primal:
    """The primal in normal form. It becomes the forward sweep: later phases add to its blocks.

    `params` are the values that stand for the parameters (a copy where the primal writes one); `order`
    the blocks that can reach the exit, in reverse postorder; `bodies` their instructions before anything
    is added, without terminators; `edges` the incoming edges of the blocks in `order`.
    """

    def __init__(self, function: Function, exit_: Exit, config: AdjointConfig) -> None:
        self.function = function
        self.exit = exit_
        self.config = config
        demote(function)
        self.formal: list[Value] = list(function.params)
        self.params, prologue = copy_written(function, PointsTo(function), exit_)
        self.points_to = PointsTo(function)
        outputs = [self.output(o) for o in config.outputs]
        self.activity = Activity(function, self.points_to, [self.params[k] for k in config.wrt], outputs)
        live = reaching(function, exit_.block)
        self.order = [b for b in reverse_postorder(function) if b in live]
        self.bodies = {
            b: [i for i in b.instructions if not i.op.is_terminator and i not in prologue] for b in self.order
        }
        self.edges = {b: es for b, es in predecessors(function).items() if b in live}
        self.uses = uses(function)
        self.dominators = DominatorTree(function)
        self._forest = LoopForest(function)
        self.exits: dict[Loop, Block] = {}
        for loop in self._forest.loops:
            for source, index in leaving_edges(function, loop, exit_.block):
                self.exits[loop] = source.targets[index].block
        self._refuse_calls()

    def output(self, output: Output) -> Value:
        """The value of an output at the exit."""
        return self.exit.leaves[output.index] if output.kind == "result" else self.params[output.index]

    def is_active(self, value: Value) -> bool:
        """Whether a tensor, scalar or stack has an adjoint."""
        return value in self.activity.active

    def has_shadow(self, pointer: Value) -> bool:
        """Whether there is an adjoint buffer for what `pointer` refers to."""
        return self.activity.has_shadow(pointer)

    def loop_of(self, block: Block) -> Loop | None:
        """The innermost loop around `block` that the reverse sweep walks."""
        return self._forest.loop_of(block)

    def loops(self) -> list[Loop]:
        """All loops that lead to the exit."""
        return [loop for loop in self._forest.loops if loop in self.exits]

    def preheader(self, loop: Loop) -> Block:
        """The block that enters the loop."""
        return next(p for p, _ in self.edges[loop.header] if not loop.contains(p))

    def latch(self, loop: Loop) -> Block:
        """The block that goes back to the header."""
        return loop.latches[0]

    def _refuse_calls(self) -> None:
        for i in self.function.instructions():
            if i.op.kind is Kind.CALL and any(self._involved(o) for o in (i, *i.operands)):
                raise NotDifferentiable(
                    f"the recursive call of '{i.attrs['callee']}' takes or gives values that the derivative "
                    "depends on",
                    i.loc,
                    code="DL610",
                    help="write the recursion as a loop",
                )

    def _involved(self, value: Value) -> bool:
        if isinstance(value.type, PointerType) or carries_pointers(value):
            return self.has_shadow(value)
        if isinstance(value, Instruction) and value.op.kind is Kind.CALL:
            return carries_derivative(value) and any(self.is_active(o) for o in value.operands)
        return value in self.activity.varied

