"""Loop nests of overlapAdd, the transpose of windows, and of prefix scans along one axis."""

from __future__ import annotations

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import multiply_add
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.kernels import fill, nest
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V
from dlvm_py.ir import Instruction, Value


def _tree(e: FunctionEmitter, value: Value) -> Tree:
    tree = Tree(e, value)
    tree.fast = not tree.conditions()
    return tree


def store_overlap(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write an overlapAdd: zeros, and then every window added where it comes from; the work."""
    tree, rank = _tree(e, i.operands[0]), dest.rank
    extents = tree_extents(e, i.operands[0])
    numbers = [e.scalar(v) for v in i.operands[1:]]
    steps, spreads = numbers[rank : 2 * rank], numbers[2 * rank :]
    own = strides_of(e, dest)
    strides = [e.mul(s, r) for s, r in zip(own, spreads, strict=True)] + [
        e.mul(s, t) for s, t in zip(own, steps, strict=True)
    ]
    fill(e, dest, V(scalar_type(dest.dtype), "zeroinitializer"))
    *outer, last = range(2 * rank)
    add = TABLE["add"][dest.dtype.kind]
    with nest(e, tree.index, outer, extents):
        # along the last axis of one window no place comes twice
        parallel = Parallel(e)
        tree.group = parallel.access
        with nest(e, tree.index, [last], extents, parallel.loop):
            place = offset(e, dest.data, [tree.index[k] for k in range(2 * rank)], strides)
            notes = dest.notes + parallel.access
            old = load_element(e, dest.dtype, place, notes)
            store_element(e, dest.dtype, add(e, dest.dtype, {}, old, tree.element()), place, notes)
    return e.product(extents)


def store_scan(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a scan or recurrence: an accumulator along the last axis, else rows from rows; the work."""
    trees = [_tree(e, v) for v in i.operands]
    index = trees[0].index
    for tree in trees:
        tree.index = index
    axis = i.attrs["axis"] if i.op.name == "recurrence" else i.attrs["axes"][0]
    strides, last = strides_of(e, dest), dest.rank - 1

    def place(at: V) -> V:
        return offset(e, dest.data, [at if k == axis else index[k] for k in range(dest.rank)], strides)

    def following(first: V, before: V) -> V:
        """The element at the index; `before` is that of the index before, and nothing in the first row."""
        *factor, x = (tree.element() for tree in trees)
        if factor:
            return e.select(first, x, multiply_add(e, dest.dtype, x, factor[0], before, ""))
        combined = TABLE[i.attrs["by"]][dest.dtype.kind](e, dest.dtype, {}, before, x)
        return e.select(first, x, combined)

    def along_rows() -> None:
        with e.loop(dest.extents[axis], [V(scalar_type(dest.dtype), "zeroinitializer")]) as loop:
            index[axis] = loop.index
            found = following(e.icmp("eq", loop.index, ZERO), loop.carried[0])
            store_element(e, dest.dtype, found, place(loop.index), dest.notes)
            loop.next = [found]

    def rows() -> None:
        with e.loop(dest.extents[axis]) as loop:
            index[axis] = loop.index
            first = e.icmp("eq", loop.index, ZERO)
            row = e.select(first, ZERO, e.op("sub", loop.index, ONE))
            parallel = Parallel(e)
            notes = dest.notes + parallel.access
            for tree in trees:
                tree.group = parallel.access
            with nest(e, index, [last], dest.extents, parallel.loop):
                before = load_element(e, dest.dtype, place(row), notes)
                store_element(e, dest.dtype, following(first, before), place(loop.index), notes)

    outer = [k for k in range(dest.rank) if k not in (axis, last)]
    with nest(e, index, outer, dest.extents):
        along_rows() if axis == last else rows()
    return e.product(dest.extents)
