"""Shadows: the adjoint memory of pointers, made in the forward sweep. In forward mode they hold tangents.

Adjoint buffers belong to allocations: every root that needs one gets a *shadow*, memory of the same
extents full of zeros. The shadow of a view is the same view of the shadow, since index ops are stated in
index terms; a pointer that goes through a block argument or a stack is accompanied by its shadow. A shadow
has exactly the type of its pointer.

    %a = allocateHeap f64 count (%n)          %a = …    %a_shadow = allocateHeap f64 count (%n); zero it
    %v = section %a at (1) …            →     %v = …    %v_shadow = section %a_shadow at (1) …
    branch 'loop(%a)                          branch 'loop(%a, %a_shadow)
    push %v to %s                             push %v to %s; push %v_shadow to %s_shadow
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from dlvm_py.ir import (
    Block,
    Builder,
    Function,
    Instruction,
    Kind,
    Literal,
    PointerType,
    StackType,
    Type,
    Value,
    literal,
    scalar,
)
from dlvm_py.ir.analysis import DominatorTree
from dlvm_py.ir.types import TensorType
from dlvm_py.transforms.differentiate.activity import carries_floats
from dlvm_py.transforms.differentiate.arguments import allocate_like, entry_builder, extents
from dlvm_py.transforms.differentiate.points_to import called, carries_pointers

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.activity import Activity

Start = Callable[[Builder, Value], Value]


class Alike:
    """Shadows have the types of what they stand beside. lanes.py has others."""

    def type_of(self, type: Type) -> Type:
        """The type of the shadow of a pointer or stack, of the tangent of a value."""
        return type

    def zeros(self, b: Builder, like: Value) -> Value:
        """What stands for a value, or for the contents of a pointer, that nothing has reached."""
        return zeros_like(b, like)

    def allocate(self, b: Builder, pointer: Value, name: str) -> tuple[Value, Value]:
        """Memory beside what `pointer` refers to: (the allocation, a view of it with the type of a shadow)."""
        return allocate_like(b, pointer, name, shadow=True)

    def view(self, b: Builder, view: Instruction, base: Value) -> Value:
        """The index op `view` on the shadow of its base."""
        return view_again(b, view, base, list(view.operands[1:]))


ALIKE = Alike()


class Prepared(Protocol):
    """What shadows are made for: a primal, or a function that gets tangents."""

    function: Function
    formal: list[Value]
    is_split: bool  # floats are active wherever they are, and array parameters bring their shadows along
    shared: frozenset[Value]  # parameters that may lie in the same memory, and bring their shadows along
    activity: Activity
    dominators: DominatorTree

    def has_shadow(self, pointer: Value) -> bool:
        """Whether there is a shadow for what `pointer` refers to."""
        ...


class Calls(Protocol):
    """What becomes of calls that derivatives flow through."""

    calls: dict[Value, Any]

    def forward(self, primal: Any, call: Instruction, shadow: Callable[[Value], Value]) -> dict[Value, Value]:
        """Hand the shadows of the arguments over; the shadows of the array results."""
        ...


def zeros_like(b: Builder, like: Value) -> Value:
    """A zero tensor with the shape of a pointer or tensor, a literal for rank 0."""
    t = like.type.pointee if isinstance(like.type, PointerType) else like.type
    assert isinstance(t, TensorType)
    return filled(b, literal(0.0, scalar(t.dtype)), like)


def filled(b: Builder, number: Value, like: Value) -> Value:
    """The scalar `number` stretched to the shape of `like`."""
    counts = extents(b, like)
    return b.emit("broadcast", number, *counts) if counts else number


def is_whole(section: Instruction, axis: int) -> bool:
    """Whether the count of a section is written as the extent of its own base, which its type rests on."""
    base = section.operands[0]
    count = section.operands[1 + base.type.rank + axis]  # type: ignore[attr-defined]
    return (
        isinstance(count, Instruction)
        and count.op.name == "extent"
        and count.operands[0] is base
        and count.attrs["at"] == axis
    )


def view_again(b: Builder, view: Instruction, base: Value, operands: list[Value]) -> Instruction:
    """Emit the index op `view` on another base; `operands` are its other operands, already renamed."""
    if view.op.name == "section":
        rank = base.type.rank  # type: ignore[attr-defined]
        for k in range(rank):
            if is_whole(view, k):
                operands[rank + k] = b.emit("extent", base, at=k)
    return b.emit(view.op, base, *operands, name=view.name, **view.attrs)


class Shadows:
    """Builds all shadows of a primal; `of` answers which one belongs to a pointer or stack."""

    def __init__(self, primal: Prepared, splits: Calls, start: Start = zeros_like, alike: Alike = ALIKE) -> None:
        """start: what the shadow of a root holds at first. alike: what shadows look like."""
        self._start = start
        self._alike = alike
        self._primal = primal
        self._splits = splits
        self._function: Function = primal.function
        self._shadow: dict[Value, Value] = {}
        self.buffers: dict[Value, Value] = {}  # of a root: the C-contiguous memory of its shadow
        self._count = {block: len(block.args) for block in self._function.blocks}
        self.formal: list[Value] = []  # the parameters that are shadows
        for formal in primal.formal:
            is_brought = primal.is_split or formal in primal.shared
            if is_brought and carries_pointers(formal) and carries_floats(formal.type):
                self._shadow[formal] = self._function.entry.add_arg(alike.type_of(formal.type), f"{formal.name}_shadow")
                self.formal.append(self._shadow[formal])
            elif self._wanted(formal):
                self._make_root(entry_builder(self._function), formal)
        for block in self._function.blocks[1:]:
            for arg in list(block.args):
                if self._wanted(arg):
                    self._shadow[arg] = block.add_arg(alike.type_of(arg.type), f"{arg.name}_shadow")
        for block in _forward_order(primal):
            for i in list(block.instructions):
                self._visit(i)
        for block in self._function.blocks:
            self._pass_on(block)

    def open(self, b: Builder) -> None:
        """The reverse sweep begins: nothing is made there."""

    def of(self, value: Value) -> Value:
        """The shadow of a pointer (NULL and UNDEFINED for themselves), or the shadow stack of a stack."""
        if isinstance(value, Literal):
            return Literal(self._alike.type_of(value.type), value.value)
        return self._shadow[value]

    def pairs(self) -> list[tuple[Value, Value]]:
        """Every pointer and stack that has a shadow, and the shadow."""
        return list(self._shadow.items())

    def _wanted(self, value: Value) -> bool:
        t = value.type.element if isinstance(value.type, StackType) else value.type
        return isinstance(t, PointerType) and self._primal.has_shadow(value)

    def _make_root(self, b: Builder, root: Value) -> None:
        self.buffers[root], self._shadow[root] = self._alike.allocate(b, root, f"{root.name}_shadow")
        b.emit("store", self._start(b, root), self._shadow[root])

    def _visit(self, i: Instruction) -> None:
        b = Builder(self._function)
        if i.op.name in ("push", "destroyStack"):
            if self._wanted(i.operands[-1]):
                b.after(i).loc = i.loc
                value = [self.of(v) for v in i.operands]
                b.emit(i.op, *value)
            return
        if i in self._primal.activity.calls and i not in self._splits.calls:
            self._shadow.update(self._splits.forward(self._primal, i, self.of))
            return
        if i in self._shadow or not self._wanted(i):
            return
        b.after(i).loc = i.loc
        name = f"{i.name}_shadow"
        if i.op.name == "allocateHeap":
            self._make_root(b, i)
        elif i.op.name == "createStack":
            self._shadow[i] = b.emit(i.op, name=name, element=self._alike.type_of(i.type.element))  # type: ignore[attr-defined]
        elif i.op.name == "pop":
            self._shadow[i] = b.emit(i.op, self.of(i.operands[0]), name=name)
        elif i.op.kind is Kind.INDEX:
            self._shadow[i] = self._alike.view(b, i, self.of(i.operands[0]))
            self._shadow[i].name = name  # type: ignore[attr-defined]
        elif called(i) is not None:
            self._make_root(b, i)  # no derivative flows through the call

    def _pass_on(self, block: Block) -> None:
        for target in block.targets:
            for arg, value in zip(target.block.args[: self._count[target.block]], list(target.args), strict=False):
                if arg in self._shadow:
                    target.args.append(self.of(value))


def _forward_order(primal: Prepared) -> list[Block]:
    """All blocks, definitions before uses: those that reach the exit and those that raise."""
    return list(primal.dominators.idom)
