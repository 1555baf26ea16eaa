"""Bufferize: every array value becomes part of a kernel, or gets memory. Stage optimizable → compute.

    before                                          after
    %t = load %a: *<_ x f64>                        %0 = load %a: *<_ x f64>
    %e = exp %t: <_ x f64>                          %1 = exp %0: <_ x f64>
    %s = reduce %e by add init 0.0 along 0          %n = extent %a: *<_ x f64> at 0
    %y = divide %e: <_ x f64>, %s: f64              %b = allocateHeap f64 count (%n: i64)
    store %y: <_ x f64> to %p: *<_ x f64>           store %1: <_ x f64> to %b: *<_ x f64>      kernel 1
                                                    %2 = load %b: *<_ x f64>
                                                    %s = reduce %2 by add init 0.0 along 0     kernel 2
                                                    %3 = load %b: *<_ x f64>
                                                    %y = divide %3: <_ x f64>, %s: f64
                                                    store %y: <_ x f64> to %p: *<_ x f64>      kernel 3

Three steps:

1. Borders. Array-typed block arguments, parameters, stack elements and call results become pointers to memory
   that is written once and never again; a `load` right behind stands for the old value. Such memory may be
   shared: passing the value on passes the pointer.
2. The plan (fusion.py): which values get a buffer, which are fused.
3. Emission. The old array instructions go; each root gets its whole tree anew right before it, so that
   loads stand where they are read. Index ops over something in memory become views of the pointer, so
   transposed operands reach BLAS as such, and a reshaped value is a view of its buffer. The extent of an
   array value becomes the extent of what it is made of.

Keeps results, memory effects and their order; a buffer holds the bits that the fused expression would give.
Array instructions that nothing uses, and unreachable blocks, are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm_py.deferred import deferred
from dlvm_py.ir.analysis import AliasAnalysis, reverse_postorder
from dlvm_py.ir.analysis.extents import Found, extent_at
from dlvm_py.ir.builder import Builder
from dlvm_py.ir.function import Function
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.types import PointerType, StackType, TensorType, TupleType, Type, is_array
from dlvm_py.ir.value import Instruction, Literal, Value
from dlvm_py.transforms import (
    accumulate_products,
    expression_products,
    lower_shape,
    masked_reductions,
    reshaped_stores,
)

if TYPE_CHECKING:
    from dlvm_py.transforms import fusion
else:
    fusion = deferred("dlvm_py.transforms.fusion")


def run(function: Function, noalias_params: bool = True) -> bool:
    """Bring `function` to stage compute; whether anything changed.

    `noalias_params`: array parameters of the version that is compiled do not overlap.
    """
    reachable = set(reverse_postorder(function))
    function.blocks = [block for block in function.blocks if block in reachable]
    changed = masked_reductions.run(function) | lower_shape.run(function) | expression_products.run(function)
    changed |= reshaped_stores.run(function)
    changed |= accumulate_products.run(function, noalias_params)
    aliases = AliasAnalysis(function, noalias_params)  # first: step 1 adds nothing that may be overwritten
    constants = _lower_borders(function)
    if not any(is_array(i.type) for i in function.instructions()):
        return changed
    _Emitter(function, fusion.FusionPlan(function, aliases, constants)).run()
    return True


# -- 1. borders --------------------------------------------------------------------------------------


def lowered(type: Type) -> Type:
    """`type` with pointers in the place of array values."""
    if is_array(type):
        assert isinstance(type, TensorType)
        return PointerType(type)
    if isinstance(type, StackType):
        return StackType(lowered(type.element))
    if isinstance(type, TupleType):
        return TupleType(tuple(map(lowered, type.elements)))
    return type


def _lowered_literal(value: Value) -> Value:
    """An undefined stack or tuple with its new type; undefined arrays stay until a pointer is asked for."""
    if not isinstance(value, Literal) or is_array(value.type) or lowered(value.type) == value.type:
        return value
    return Literal(lowered(value.type), value.value)


def _lower_borders(function: Function) -> set[Value]:
    """Turn array values that enter blocks into pointers with a load behind; returns these pointers."""
    constants: set[Value] = set()
    loads: dict[Value, Value] = {}
    bodies: list[list[Instruction]] = []

    def lower(value: Value) -> Instruction | None:
        was, value.type = value.type, lowered(value.type)
        if not is_array(was):
            return None
        load = Instruction(OPS["load"], [value], name=value.name)
        constants.add(value)
        loads[value] = load
        return load

    for block in function.blocks:
        body = [load for arg in block.args if (load := lower(arg)) is not None]
        bodies.append(body)
        for i in block.instructions:
            body.append(i)
            i.operands = [_lowered_literal(v) for v in i.operands]
            for target in i.targets:
                target.args = [_lowered_literal(v) for v in target.args]
            if i.op.name == "createStack":
                i.attrs = {**i.attrs, "element": lowered(i.attrs["element"])}
            elif i.op.name == "apply":
                i.attrs = {**i.attrs, "result": lowered(i.attrs["result"])}
            elif i.op.name not in ("pop", "extract", "tuple"):
                continue
            if (load := lower(i)) is not None:
                load.loc = i.loc
                body.append(load)
    function.result = lowered(function.result)
    function.substitute(loads)
    for block, body in zip(function.blocks, bodies, strict=True):
        block.instructions = []
        for i in body:
            block.append(i)
    return constants


# -- 3. emission -------------------------------------------------------------------------------------


class _Emitter:
    """Writes the blocks anew by the plan. Definitions come before uses: blocks are in reverse postorder."""

    def __init__(self, function: Function, plan: fusion.FusionPlan) -> None:
        self.function = function
        self.plan = plan
        self.builder = Builder(function)
        self.memory: dict[Value, Value] = {}  # buffered value → pointer
        self.extents: dict[Value, Value] = {}  # extent of an array value → its new source
        self._sources: Found = {}

    def run(self) -> None:
        """Rewrite the whole function."""
        for block in reverse_postorder(self.function):
            old, block.instructions = block.instructions, []
            self.builder.at_end(block)
            for i in old:
                self.builder.loc = i.loc
                self._rewrite(i)
        self.function.substitute(self.extents)

    def _rewrite(self, i: Instruction) -> None:
        if is_array(i.type):
            if i in self.plan.buffers and (i not in self.plan.home or i in self.plan.early):
                # the memory first, so that the tree stands right before its store
                memory = self.plan.home[i].operands[1] if i in self.plan.early else self._allocate(i)
                self.builder.emit("store", self._tree(i), memory)
                self.memory[i] = memory
            return
        if i.op.name == "extent" and is_array(i.operands[0].type):
            self.extents[i] = self._extent(i.operands[0], i.attrs["at"])
            return
        convert = self._passed if i.op.name in fusion.CROSSINGS else self._tree
        old = i.operands
        if old and self.plan.home.get(old[0]) is i and old[0] in self.plan.early:
            return  # it is written
        i.operands = [convert(v) if is_array(v.type) else v for v in old]
        for target in i.targets:
            target.args = [self._passed(v) if is_array(v.type) else v for v in target.args]
        self.builder.insert(i)
        if old and self.plan.home.get(old[0]) is i:
            self.memory[old[0]] = old[1]

    def _allocate(self, value: Instruction) -> Value:
        assert isinstance(value.type, TensorType)
        counts = [self._extent(value, axis) for axis in range(value.type.rank)]
        return self.builder.emit("allocateHeap", *counts, name=value.name, dtype=value.type.dtype.name)

    def _extent(self, value: Value, axis: int) -> Value:
        found = extent_at(self.builder, value, axis, self._sources)
        return self.extents.get(found, found)

    def _passed(self, value: Value) -> Value:
        """The pointer that stands for an array value which crosses a border, of just the lowered type."""
        pointer = self._pointer(value)
        wanted = lowered(value.type)
        return pointer if pointer.type == wanted else self.builder.emit("pointerCast", pointer, to=wanted)

    def _pointer(self, value: Value) -> Value:
        """A pointer to the elements of `value`, which has one; the views on the way are built here."""
        views: list[Instruction] = []
        while value not in self.memory and isinstance(value, Instruction) and value.op.name in fusion.VIEWS:
            views.append(value)
            value = value.operands[0]
        if value in self.memory:
            pointer = self.memory[value]
        elif isinstance(value, Literal):
            pointer = Literal(lowered(value.type), value.value)
        else:
            assert isinstance(value, Instruction) and value.op.name == "load", value
            pointer = value.operands[0]
        for view in reversed(views):
            # the layout of a section is read off its counts: they are already what they will be
            rest = [self.extents.get(v, v) for v in view.operands[1:]]
            pointer = self.builder.emit(view.op, pointer, *rest, **view.attrs)
        return pointer

    def _has_pointer(self, value: Value) -> bool:
        """Whether the elements are in memory: a load, a buffer, an undefined literal, or a view of these."""
        while value not in self.memory and isinstance(value, Instruction) and value.op.name != "load":
            if value.op.name not in fusion.VIEWS:
                return False
            value = value.operands[0]
        return is_array(value.type)  # a padded scalar is in no memory

    def _tree(self, top: Value) -> Value:
        """Build the tree of `top` here, down to loads of what is in memory (a buffer, once it is filled)."""
        nodes: dict[Value, bool] = {}  # array values of the tree → is a leaf
        work = [top]
        while work:
            node = work.pop()
            if node in nodes:
                continue
            nodes[node] = self._has_pointer(node)
            if not nodes[node]:
                assert isinstance(node, Instruction)
                work.extend(v for v in node.operands if is_array(v.type))
        new: dict[Value, Instruction] = {}
        # operands before users, without recursion: expressions can be thousands of ops deep
        for node in sorted(nodes, key=lambda v: self.plan.number.get(v, -1)):
            if nodes[node]:
                new[node] = self.builder.emit("load", self._pointer(node))
            else:
                assert isinstance(node, Instruction)
                operands = [new.get(v, v) for v in node.operands]
                new[node] = self.builder.emit(node.op, *operands, name=node.name, **node.attrs)
                new[node].loc = node.loc or self.builder.loc
        return new[top]
