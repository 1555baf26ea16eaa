"""Loop nests of overlapAdd, the transpose of windows, and of prefix scans along one axis."""

from __future__ import annotations

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.kernels import fill, nest
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V
from dlvm_py.ir import Instruction


def _tree(e: FunctionEmitter, i: Instruction) -> Tree:
    tree = Tree(e, i.operands[0])
    tree.fast = not tree.conditions()
    return tree


def store_overlap(e: FunctionEmitter, i: Instruction, dest: Pointer) -> None:
    """Write an overlapAdd: zeros, and then every window added where it comes from."""
    tree, rank = _tree(e, i), dest.rank
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
    e.charge(e.product(extents))


def store_scan(e: FunctionEmitter, i: Instruction, dest: Pointer) -> None:
    """Write a scan along one axis: an accumulator where it is the last one, else rows added to rows."""
    tree = _tree(e, i)
    (axis,) = i.attrs["axes"]
    extents = tree_extents(e, i.operands[0])
    strides, last = strides_of(e, dest), dest.rank - 1
    combine = TABLE[i.attrs["by"]][dest.dtype.kind]

    def place(at: V | None = None) -> V:
        index = [at if at is not None and k == axis else tree.index[k] for k in range(dest.rank)]
        return offset(e, dest.data, index, strides)

    def along_rows() -> None:
        start = V(scalar_type(dest.dtype), "zeroinitializer")
        with e.loop(extents[axis], [start]) as loop:
            tree.index[axis] = loop.index
            x = tree.element()
            total = combine(e, dest.dtype, {}, loop.carried[0], x)
            total = e.select(e.icmp("eq", loop.index, ZERO), x, total)
            store_element(e, dest.dtype, total, place(), dest.notes)
            loop.next = [total]

    def rows() -> None:
        with e.loop(extents[axis]) as loop:
            tree.index[axis] = loop.index
            first = e.icmp("eq", loop.index, ZERO)
            before = e.select(first, ZERO, e.op("sub", loop.index, ONE))
            parallel = Parallel(e)
            tree.group, notes = parallel.access, dest.notes + parallel.access
            with nest(e, tree.index, [last], extents, parallel.loop):
                x = tree.element()
                # in the first row: what is read is not used
                old = load_element(e, dest.dtype, place(before), notes)
                total = e.select(first, x, combine(e, dest.dtype, {}, old, x))
                store_element(e, dest.dtype, total, place(), notes)

    outer = [k for k in range(dest.rank) if k not in (axis, last)]
    with nest(e, tree.index, outer, extents):
        along_rows() if axis == last else rows()
    e.charge(e.product(extents))
