"""Reductions of rows of a few elements, of which some do not count: in one vector, without a jump.

    %in = lessThan (iota 4), %n              <4 x i1> %in = icmp slt <0, 1, 2, 3>, %n
    %t = select %x, -0.0, %in                <4 x double> %t = select %in, %x, -0.0
    %s = reduce %t by add init -0.0          llvm.vector.reduce.fadd(-0.0, %t), in order

Of single numbers LLVM makes a jump of a choice between floats where there are no masks, and with them it puts the mask
together from numbers. What is read at indices is read one by one: where processors gather in one instruction, LLVM
says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.contract import memory_type, scalar_type
from dlvm_py.backend.cpu.folds import combine
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.lanes import in_vector, splat
from dlvm_py.backend.cpu.pointers import offset
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.trees import Axes, Tree
from dlvm_py.backend.cpu.values import V, constant, element_of, i64, lanes_of, numbered_lanes
from dlvm_py.ir import DType, Instruction, Kind, TensorType, Value, is_array

MOST = 8  # lanes
# what is the same code for a vector as for a number
_PLAIN = frozenset(("add", "subtract", "multiply", "lessThan"))
_NEUTRAL = {"add": "-0.0", "max": "0"}


def fits(tree: Tree, order: Sequence[int], extents: Sequence[V], by: str) -> bool:
    """Whether a reduction is of a few elements, as many as one knows, of which places say which ones count."""
    dtype = _dtype(tree.root)
    length = constant(extents[order[-1]]) or 0
    is_known = (by == "add" and dtype.kind == "f" and dtype.bits >= 32) or (by == "max" and dtype.kind == "u")
    if not is_known or tree.rank != 1 or not tree.fast or length not in (2, 4, MOST):
        return False
    return any(i.op.name == "select" and _is_by_place(i.operands[2]) for i, _ in tree.nodes())


def _is_by_place(v: Value) -> bool:
    """Whether elements before a place are true."""
    return (
        isinstance(v, Instruction)
        and v.op.name == "lessThan"
        and isinstance(v.operands[0], Instruction)
        and v.operands[0].op.name == "iota"
        and not is_array(v.operands[1].type)
    )


def reduced(e: FunctionEmitter, tree: Tree, by: str, length: int, init: V) -> V:
    """The reduction of the elements of a tree, combined with init."""
    tree.group = ""
    dtype = _dtype(tree.root)
    row = _Row(e, tree, length)
    if by == "add":
        return combine(
            e, by, dtype, _over(e, f"fadd.v{length}f{dtype.bits}", row.read(tree.root, tree.root_axes)), init
        )
    value, axes = tree.root, tree.root_axes
    # the largest number is the one that was the largest before it was widened
    while _is_widened(value):
        ((value, axes),) = tree.children(value, axes)  # type: ignore[arg-type]
    found = _over(e, f"umax.v{length}i{_dtype(value).bits}", row.read(value, axes))
    return combine(e, by, dtype, e.cast("zext", found, scalar_type(dtype)), init)


def _over(e: FunctionEmitter, name: str, row: V) -> V:
    type = element_of(row.type)
    first = [V(type, _NEUTRAL["add"])] if name.startswith("fadd") else []
    return e.intrinsic(f"llvm.vector.reduce.{name}", type, *first, row)


def _is_widened(v: Value) -> bool:
    if not isinstance(v, Instruction) or v.op.name != "dataTypeCast":
        return False
    source = _dtype(v.operands[0])
    return source.kind == "u" and _dtype(v).kind == "u" and source.bits <= _dtype(v).bits


def _dtype(v: Value) -> DType:
    assert isinstance(v.type, TensorType)
    return v.type.dtype


class _Row:
    """The nodes of a tree as vectors."""

    def __init__(self, e: FunctionEmitter, tree: Tree, length: int) -> None:
        self.e, self.tree, self.length = e, tree, length
        self.made: dict[tuple[Value, Axes], V] = {}

    def read(self, value: Value, axes: Axes) -> V:
        if not is_array(value.type):
            return splat(self.e, self.e.scalar(value), self.length)
        if (value, axes) not in self.made:
            assert isinstance(value, Instruction)
            self.made[value, axes] = self._compute(value, axes)
        return self.made[value, axes]

    def _compute(self, i: Instruction, axes: Axes) -> V:
        e, tree, name = self.e, self.tree, i.op.name
        if name == "iota":
            return numbered_lanes(self.length)
        if name == "load" and self._is_beside(i):
            tree.index[0] = i64(0)
            p, dtype = e.pointer(i.operands[0]), _dtype(i)
            type = f"<{self.length} x {memory_type(dtype)}>"
            note = f", align {dtype.itemsize}{p.notes}"
            return e.value(type, f"load {type}, ptr {tree.address(i, axes).ref}{note}")
        if name == "gather" and len(i.operands) == 2 and not axes[1:]:
            return self._gathered(i, axes)
        if i.op.kind is not Kind.ELEMENTWISE:
            return self._by_index(i, axes)
        dtype = _dtype(i.operands[0])
        if name == "select" or (name in _PLAIN and (dtype.kind in "iu" or (dtype.kind == "f" and dtype.bits >= 32))):
            parts = [self.read(v, a) for v, a in tree.children(i, axes)]
            return TABLE[name][dtype.kind](e, dtype, i.attrs, *parts)
        if name == "dataTypeCast" and dtype.kind in "iu" and _dtype(i).kind in "iu":
            ((x, a),) = tree.children(i, axes)
            return self._cast(self.read(x, a), dtype, _dtype(i))
        return self._one_by_one(i, axes)

    def _is_beside(self, i: Instruction) -> bool:
        """Whether a load is of numbers side by side."""
        steps, dtype = self.tree.steps(i), _dtype(i)
        return len(steps) == 1 and dtype.kind in "iuf" and constant(steps[0]) == dtype.itemsize and dtype.name != "bf16"

    def _gathered(self, i: Instruction, axes: Axes) -> V:
        e, source = self.e, i.operands[0]
        assert isinstance(source, Instruction)
        p = e.pointer(source.operands[0])
        (_, _), (index, along) = self.tree.children(i, axes)
        places = self.read(index, along)
        found = []
        for k in range(self.length):
            place = e.value("i64", f"extractelement {places.type} {places.ref}, i64 {k}")
            address = offset(e, p.data, [place], self.tree.steps(source))
            found.append(e.load(memory_type(p.dtype), address, p.notes))
        return in_vector(e, found)

    def _cast(self, x: V, source: DType, to: DType) -> V:
        how = "trunc" if to.bits < source.bits else "sext" if source.kind == "i" else "zext"
        return self.e.cast(how, x, f"<{lanes_of(x.type)} x {scalar_type(to)}>")

    def _one_by_one(self, i: Instruction, axes: Axes) -> V:
        """An operation on one lane after the other."""
        e, dtype = self.e, _dtype(i.operands[0])
        parts = [self.read(v, a) for v, a in self.tree.children(i, axes)]
        found = []
        for k in range(self.length):
            xs = [e.value(element_of(p.type), f"extractelement {p.type} {p.ref}, i64 {k}") for p in parts]
            found.append(TABLE[i.op.name][dtype.kind](e, dtype, i.attrs, *xs))
        return in_vector(e, found)

    def _by_index(self, i: Instruction, axes: Axes) -> V:
        """The elements as the tree reads them."""
        found = []
        for k in range(self.length):
            self.tree.index[0] = i64(k)
            found.append(self.tree.element_of(i, axes))
        return in_vector(self.e, found)
