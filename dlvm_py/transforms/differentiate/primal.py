"""The prepared primal: a private copy in normal form, and all that the other files ask about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from dlvm_py.errors import NotDifferentiable
from dlvm_py.ir import Block, Function, Instruction, Kind, PointerType, StackType, TensorType, TupleType, Type, Value
from dlvm_py.ir.analysis import DominatorTree, LoopForest, predecessors, reverse_postorder, uses, written_pointer
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.relation import Relation
from dlvm_py.transforms import assume_extents
from dlvm_py.transforms.differentiate.activity import Activity, carries_floats
from dlvm_py.transforms.differentiate.arguments import copy_written
from dlvm_py.transforms.differentiate.config import AdjointConfig, Output
from dlvm_py.transforms.differentiate.demote import demote
from dlvm_py.transforms.differentiate.normal_form import Exit, leaving_edges, reaching
from dlvm_py.transforms.differentiate.points_to import PointsTo, carries_pointers, is_view_of_windows


class Primal:
    """The primal in normal form. It becomes the forward sweep: later phases add to its blocks.

    `params` are the values that stand for the parameters (a copy where the primal writes one); `order`
    the blocks that can reach the exit, in reverse postorder; `bodies` their instructions before anything
    is added, without terminators; `edges` the incoming edges of the blocks in `order`.

    config: None for a function whose two sweeps become functions of their own (calls.py): all floats are active,
    and parameters are no copies. written: which parameters each callee writes. is_detached: the reverse sweep becomes a
    function that runs later (pullback.py): no pointer may go on a tape. has_windows: whether there are views in which
    an element of memory stands at several places, here or in functions that this one calls.
    """

    def __init__(
        self,
        function: Function,
        exit_: Exit,
        config: AdjointConfig | None,
        written: Mapping[str, set[int]] | None = None,
        is_detached: bool = False,
        has_windows: bool = False,
        relations: Collection[Relation] = (),
        lasting: Collection[int] = (),
    ) -> None:
        """relations: what is assumed of the extents of the parameters. lasting: of a split function, which of them
        nothing writes before its reverse sweep has run (lasting.py).
        """
        self.function = function
        self.exit = exit_
        self.is_detached = is_detached
        self._has_windows = has_windows
        self.config = config or AdjointConfig((), ())
        self.is_split = config is None
        self.tapes: dict[Type, Value] = {}  # of a split function: the stacks that its callers hand over
        self.adjoint_stacks: dict[Value, Value] = {}  # of a split function: for each stack parameter of floats
        demote(function)
        self.formal: list[Value] = list(function.params)
        self.lasting: frozenset[Value] = frozenset(self.formal[k] for k in lasting)
        self.shared: frozenset[Value] = frozenset()  # parameters that may lie in the same memory
        prologue: set[Instruction] = set()
        if config is None:
            self.params = self.formal
            self.points_to = PointsTo(function, written, overlapping=True)
            floats = [p for p in self.formal if carries_floats(p.type)]
            arrays = [v for v in (*floats, *exit_.leaves) if carries_pointers(v) and carries_floats(v.type)]
            handed = [p for p in floats if not isinstance(p.type, TensorType)]
            outputs = [*handed, *(v for v in exit_.leaves if carries_floats(v.type))]
            self.activity = Activity(function, self.points_to, floats, outputs, arrays)
        else:
            self.shared = frozenset(self.formal[k] for k in config.shared)
            self.params, prologue = copy_written(function, PointsTo(function, written), exit_, self.shared)
            # the copies have the extents of parameters, which are assumed to be related
            assume_extents.apply(function, relations)
            self.points_to = PointsTo(function, written, shared=self.shared)
            outputs = [self.output(o) for o in config.outputs]
            self.activity = Activity(function, self.points_to, [self.params[k] for k in config.wrt], outputs)
        for i in function.instructions():
            if any(self.activity.is_varied(o) for o in i.operands):
                refuse_dead_end(i)
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
        for i in self.function.instructions():
            if i in self.activity.calls:
                _refuse(i)
            elif i.op.kind is Kind.CALL and any(
                self.has_shadow(o) for o in i.operands if isinstance(o.type, StackType)
            ):
                raise NotDifferentiable(
                    "this recursion shares arrays with another one that a derivative flows through", i.loc, code="DL610"
                )

    @cached_property
    def number(self) -> dict[Instruction, int]:
        """Where in its body each instruction stands."""
        return {i: at for body in self.bodies.values() for at, i in enumerate(body)}

    @cached_property
    def writes(self) -> dict[Value, list[tuple[Block, Instruction]]]:
        """What writes each root, in the order of the blocks and their bodies."""
        found: dict[Value, list[tuple[Block, Instruction]]] = {}
        for block, body in self.bodies.items():
            for i in body:
                pointer = written_pointer(i)
                for root in () if pointer is None else self.points_to.roots(pointer):
                    found.setdefault(root, []).append((block, i))
        return found

    @cached_property
    def handed(self) -> frozenset[Value]:
        """The roots of what calls are given."""
        calls = (i for i in self.function.instructions() if i.op.kind is Kind.CALL)
        return frozenset(r for i in calls for o in i.operands for r in self.points_to.roots(o))

    def output(self, output: Output) -> Value:
        """The value of an output at the exit."""
        return self.exit.leaves[output.index] if output.kind == "result" else self.params[output.index]

    def is_active(self, value: Value) -> bool:
        """Whether a tensor, scalar or stack has an adjoint."""
        return value in self.activity.active

    def has_shadow(self, pointer: Value) -> bool:
        """Whether there is an adjoint buffer for what `pointer` refers to."""
        return self.activity.has_shadow(pointer)

    def may_repeat(self, pointer: Value) -> bool:
        """Whether an element of memory may stand at several places of what `pointer` refers to."""
        while isinstance(pointer, Instruction) and pointer.op.kind is Kind.INDEX:
            if is_view_of_windows(pointer):
                return True
            pointer = pointer.operands[0]
        own = isinstance(pointer, Instruction) and pointer.op.name == "allocateHeap"
        given = pointer in self.formal or pointer in self.params
        return self._has_windows and not own and (self.is_split or not given)

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

    def tape(self, type: Type) -> Value:
        """Of a split function: the stack that keeps values of this type for its reverse sweep."""
        if type not in self.tapes:
            self.tapes[type] = self.function.entry.add_arg(StackType(type), "tape")
        return self.tapes[type]


def refuse_dead_end(i: Instruction) -> None:
    """NotDifferentiable for an instruction on a value that varies, behind which derivatives cannot be followed."""
    if i.op.name == "makeCell":
        raise NotDifferentiable(
            "a derivative flows into a value of an enum, which has none",
            i.loc,
            code="DL611",
            help="keep the number beside the enum, or its index in an array",
        )
    if i.op.name == "drain":
        raise NotDifferentiable("the entries of a stack as an array have no derivative", i.loc, code="DL611")
    if i.op.name == "draw":
        raise NotDifferentiable(
            f"a number drawn from the distribution {i.attrs['distribution']} has no derivative in its parameters",
            i.loc,
            code="DL611",
            help="derivatives flow through loc and scale: loc + scale * rng.standard_normal()",
        )
    if i.op.name == "bits":
        raise NotDifferentiable("the bits of a number have no derivative", i.loc, code="DL611")


def _refuse(call: Instruction) -> None:
    """NotDifferentiable for calls through which derivatives flow in ways that have no rule."""
    results = call.type.elements if isinstance(call.type, TupleType) else (call.type,)
    what = ""
    for t in (*(o.type for o in call.operands), *results):
        if isinstance(t, StackType):
            if not isinstance(t.element, PointerType) and not is_scalar_type(t.element):
                what = "keeps array values"
        elif isinstance(t, TupleType) or (isinstance(t, TensorType) and t.shape):
            what = "takes or gives array values"
    if what:
        raise NotDifferentiable(
            f"the recursive function '{call.attrs['callee'].partition('_forward')[0]}' {what}",
            call.loc,
            code="DL610",
            help="write the recursion as a loop",
        )


def is_scalar_type(type: Type) -> bool:
    """Whether values of this type are single numbers."""
    return isinstance(type, TensorType) and not type.shape
