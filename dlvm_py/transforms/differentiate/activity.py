"""Activity: what carries a derivative from `wrt` to an output.

A value is *varied* if it depends on a `wrt` parameter differentiably, *useful* if an output depends on it
differentiably, *active* if both. Only active values have adjoints, and only roots of memory that hold
active values have shadows. Memory and stacks are flow-insensitive: one store of a varied value makes the
root varied everywhere. Integers, bools and the results of ops without a derivative are never varied.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm_py.ir import Function, Instruction, Kind, PointerType, StackType, TensorType, TupleType, Type, Value
from dlvm_py.ir.analysis import predecessors, reverse_postorder
from dlvm_py.ir.value import BlockArg
from dlvm_py.transforms.differentiate.points_to import PointsTo, called, carries_pointers

# an attribute of calls that work on values, and are ops like others while a function is differentiated (given.py)
BY_VALUE = "by_value"


def carries_derivative(value: Value) -> bool:
    """Whether a value of this type can have an adjoint: a real or complex tensor or scalar."""
    return isinstance(value.type, TensorType) and value.type.dtype.is_inexact


def carries_floats(type: Type) -> bool:
    """Whether values of this type can carry derivatives: floats, and pointers and stacks of floats."""
    if isinstance(type, StackType):
        return carries_floats(type.element)
    return isinstance(type, TensorType | PointerType) and type.dtype.is_inexact


def differentiable_operands(i: Instruction) -> list[Value]:
    """The operands through which a derivative can flow to the result of a value op."""
    if not carries_derivative(i) or i.op.no_derivative is not None:
        return []
    return [o for o in i.operands if carries_derivative(o)]


class Activity:
    """The active values, stacks and roots of a function, for given inputs and outputs."""

    def __init__(
        self,
        function: Function,
        points_to: PointsTo,
        inputs: Iterable[Value],
        outputs: Iterable[Value],
        shadowed: Iterable[Value] = (),
    ) -> None:
        self._function = function
        self._points_to = points_to
        self._order = reverse_postorder(function)
        self._edges = predecessors(function)
        self._found: set[Value] = set()
        self.varied = self._solve(inputs, self._forward)
        useful = self._solve(outputs, self._backward)
        self.active = self.varied & useful
        # what a `select` or a zero seed may leave out: a zero adjoint there must win over a NaN (rules.py)
        maybe = {"select": slice(0, 2), "scaleSeed": slice(1, 2)}
        chosen = [o for i in function.instructions() if i.op.name in maybe for o in i.operands[maybe[i.op.name]]]
        self.guarded = self._solve(chosen, self._backward)
        # the calls that derivatives flow through
        self.calls: set[Value] = {
            i
            for i in function.instructions()
            if i.op.kind is Kind.CALL
            and BY_VALUE not in i.attrs
            and self._is_varied(i, self.varied)
            and self._is_useful(i, useful)
        }
        self.shadowed = self._close(shadowed)

    def has_shadow(self, pointer: Value) -> bool:
        """Whether every root of `pointer` has a shadow (one active root is enough for that)."""
        return bool(self._points_to.roots(pointer) & self.shadowed)

    def is_varied(self, value: Value) -> bool:
        """Whether a value, or memory that it refers to, depends on an input."""
        return self._is_in(value, self.varied)

    # -- calls: any argument may flow into any result and into any array that is handed over ----------

    def _is_in(self, value: Value, found: set[Value]) -> bool:
        if carries_pointers(value):
            return carries_floats(value.type) and not found.isdisjoint(self._points_to.roots(value))
        return value in found

    def _is_varied(self, call: Instruction, found: set[Value]) -> bool:
        return any(self._is_in(o, found) for o in call.operands)

    def _is_useful(self, call: Instruction, found: set[Value]) -> bool:
        return self._is_in(call, found) or any(
            self._is_in(o, found) for o in call.operands if isinstance(o.type, PointerType | StackType)
        )

    def _mark_handed(self, call: Instruction) -> None:
        for o in call.operands:
            if isinstance(o.type, PointerType | StackType) and carries_floats(o.type):
                self._mark(o)

    def _solve(self, start: Iterable[Value], step) -> set[Value]:  # type: ignore[no-untyped-def]
        self._found = set()
        for value in start:
            self._mark(value)
        size = -1
        while len(self._found) != size:
            size = len(self._found)
            step()
        return self._found

    def _mark(self, value: Value) -> None:
        """A scalar or tensor is marked itself; a pointer stands for its roots."""
        if carries_pointers(value):
            if carries_floats(value.type):
                self._found |= self._points_to.roots(value)
        elif carries_derivative(value) or isinstance(value.type, StackType):
            self._found.add(value)

    def _holds(self, pointer: Value) -> bool:
        return not self._found.isdisjoint(self._points_to.roots(pointer))

    # -- forward: varied -----------------------------------------------------------------------------

    def _forward(self) -> None:
        for block in self._order:
            for k, arg in enumerate(block.args):
                if any(p.targets[t].args[k] in self._found for p, t in self._edges[block]):
                    self._mark_scalar(arg)
            for i in block.instructions:
                self._forward_instruction(i)

    def _forward_instruction(self, i: Instruction) -> None:
        match i.op.name:
            case "load":
                if self._holds(i.operands[0]):
                    self._mark(i)
            case "store" | "scatter" | "push":
                if i.operands[0] in self._found and isinstance(i.operands[0].type, TensorType):
                    self._mark(i.operands[1])
            case "pop":
                if i.operands[0] in self._found:
                    self._mark_scalar(i)
            case "apply":
                if self._is_varied(i, self._found):
                    self._mark_handed(i)
                    self._mark(i)
                    if isinstance(i.type, TupleType):
                        self._found.add(i)
            case "extract":
                if i.operands[0] in self._found:
                    self._mark(i)
            case _:
                if any(o in self._found for o in differentiable_operands(i)):
                    self._found.add(i)

    def _mark_scalar(self, value: Value) -> None:
        if carries_derivative(value):
            self._found.add(value)

    # -- backward: useful ----------------------------------------------------------------------------

    def _backward(self) -> None:
        for block in reversed(self._order):
            for i in reversed(block.instructions):
                self._backward_instruction(i)
            for k, arg in enumerate(block.args):
                if arg in self._found:
                    for p, t in self._edges[block]:
                        self._mark_scalar(p.targets[t].args[k])

    def _backward_instruction(self, i: Instruction) -> None:
        match i.op.name:
            case "load":
                if i in self._found:
                    self._mark(i.operands[0])
            case "store" | "scatter":
                if self._holds(i.operands[1]):
                    self._mark_scalar(i.operands[0])
            case "push":
                if i.operands[1] in self._found:
                    self._mark_scalar(i.operands[0])
            case "pop":
                if i in self._found:
                    self._found.add(i.operands[0])
            case "apply":
                if self._is_useful(i, self._found):
                    self._mark_handed(i)
                    for o in i.operands:
                        self._mark_scalar(o)
            case "extract":
                if called(i) is not None and self._is_in(i, self._found):
                    self._found.add(i.operands[0])
            case _:
                if i in self._found:
                    for o in differentiable_operands(i):
                        self._found.add(o)

    # -- shadows -------------------------------------------------------------------------------------

    def _close(self, wanted: Iterable[Value]) -> set[Value]:
        """The roots that need a shadow: the active ones, and what shares a pointer with one of them."""
        roots = {v for v in self.active if carries_pointers(v)}
        roots = roots.union(*(self._points_to.roots(v) for v in wanted))
        pointers = [
            v
            for block in self._function.blocks
            for v in (*block.args, *block.instructions)
            if isinstance(v, BlockArg | Instruction) and carries_pointers(v)
        ]
        size = -1
        while len(roots) != size:
            size = len(roots)
            for p in pointers:
                found = self._points_to.roots(p)
                if found & roots:
                    roots |= found
        return roots
