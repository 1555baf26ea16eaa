"""Scans and recurrences, a thread each line along their axis, and products of matrices, a thread each element."""

from __future__ import annotations

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import as_matrix, inner_product, multiply_add
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.values import ZERO, V
from dlvm_py.backend.gpu.elementwise import general
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import Kernel, blocks_for
from dlvm_py.ir import Instruction


def store_scan(h: HostEmitter, i: Instruction, dest: Pointer) -> None:
    """Write a scan or recurrence, in the order of the CPU."""
    k = Kernel(h)
    to = k.pointer_of(dest)
    trees = [general(k, v) for v in i.operands]
    index = trees[0].index
    for tree in trees:
        tree.index = index
    axis = i.attrs["axis"] if i.op.name == "recurrence" else i.attrs["axes"][0]
    strides = strides_of(k, to)
    others = [n for n in range(to.rank) if n != axis]
    with k.grid(k.product([to.extents[n] for n in others])) as line:
        index.update(k.unravel(line.index, others, to.extents))
        with k.loop(to.extents[axis], [V(scalar_type(to.dtype), "zeroinitializer")]) as loop:
            index[axis] = loop.index
            *factor, x = (tree.element() for tree in trees)
            before = loop.carried[0]
            if factor:
                found = multiply_add(k, to.dtype, x, factor[0], before, "")
            else:
                found = TABLE[i.attrs["by"]][to.dtype.kind](k, to.dtype, {}, before, x)
            found = k.select(k.icmp("eq", loop.index, ZERO), x, found)
            store_element(k, to.dtype, found, offset(k, to.data, [index[n] for n in range(to.rank)], strides))
            loop.next = [found]
    h.launch(k, blocks_for(h, h.product([dest.extents[n] for n in others])))


def store_dot(h: HostEmitter, i: Instruction, dest: Pointer, add: str = "") -> None:
    """Write a matrix-matrix, matrix-vector or vector-matrix product. add: "add" it to, or "subtract" it from, dest."""
    p, q = (h.pointer(v.operands[0]) for v in i.operands)  # type: ignore[attr-defined]
    k = Kernel(h)
    a = as_matrix(k, k.pointer_of(p), column=False)
    b = as_matrix(k, k.pointer_of(q), column=True)
    to = as_matrix(k, k.pointer_of(dest), column=p.rank == 2)
    with k.grid(k.mul(to.rows, to.cols)) as loop:
        row, col = k.op("udiv", loop.index, to.cols), k.op("urem", loop.index, to.cols)
        left = offset(k, a.data, [row], [a.row_step]), a.col_step
        right = offset(k, b.data, [col], [b.col_step]), b.row_step
        x = inner_product(k, dest.dtype, a.cols, left, right)
        place = offset(k, to.data, [row, col], [to.row_step, to.col_step])
        if add:
            x = TABLE[add][dest.dtype.kind](k, dest.dtype, {}, load_element(k, dest.dtype, place), x)
        store_element(k, dest.dtype, x, place)
    h.launch(k, blocks_for(h, h.product(dest.extents)))
