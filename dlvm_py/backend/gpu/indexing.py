"""Scatters: values written, or combined, at computed places.

Where two values go to one place the order decides, of a store and of a float sum. Order is kept: a thread has one place
along the rows (the axes behind the indices, along which no place comes twice) and takes all indices in turn. Where the
order does not matter - sums of integers, and with fastmath=True sums of floats - each value is a thread's; they meet in
atomic additions.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.kernels import nest
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.trees import tree_extents
from dlvm_py.backend.cpu.values import V
from dlvm_py.backend.gpu.elementwise import fill, general
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import Kernel, blocks_for
from dlvm_py.ir import DType, Instruction, Value, is_array


def scatter(h: HostEmitter, i: Instruction) -> None:
    """Write a scatter."""
    value, destination, *indices = i.operands
    _scatter(h, value, h.pointer(destination), indices, i.attrs.get("by"))


def store_scatter_add(h: HostEmitter, i: Instruction, dest: Pointer) -> None:
    """Write a scatterAdd: zeros, and then every value added at its place."""
    fill(h, dest, V(scalar_type(dest.dtype), "zeroinitializer"))
    _scatter(h, i.operands[0], dest, i.operands[1 : 1 + len(i.operands) // 2], "add")


def is_atomic(dtype: DType, by: str | None, fastmath: bool) -> bool:
    """Whether the combination is an instruction of memory, and its order does not show."""
    return by == "add" and dtype.bits in (32, 64) and (dtype.kind in "iu" or (dtype.kind == "f" and fastmath))


def _scatter(h: HostEmitter, value: Value, dest: Pointer, indices: Sequence[Value], by: str | None) -> None:
    k = Kernel(h)
    to = k.pointer_of(dest)
    tree = general(k, value)
    extents = tree_extents(k, value)  # type: ignore[arg-type]
    rank = tree.rank - to.rank + len(indices)  # of the indices together
    trees = {v: general(k, v) for v in indices if is_array(v.type)}
    for v, other in trees.items():
        other.index = tree.index
        other.root_axes = tree.unstretched(v, other.root_axes)
    strides = strides_of(k, to)
    taken, row = list(range(rank)), list(range(rank, tree.rank))
    atomic = is_atomic(to.dtype, by, h.fastmath)

    def write() -> None:
        places = [trees[v].element() if v in trees else k.scalar(v) for v in indices]
        place = offset(k, to.data, [*places, *(tree.index[n] for n in row)], strides)
        x = tree.element()
        if atomic:
            name = "fadd" if to.dtype.kind == "f" else "add"
            k.value(x.type, f"atomicrmw {name} ptr {place.ref}, {x.type} {x.ref} monotonic")
            return
        if by is not None:
            x = TABLE[by][to.dtype.kind](k, to.dtype, {}, load_element(k, to.dtype, place), x)
        store_element(k, to.dtype, x, place)

    axes = [*taken, *row] if atomic else row
    with k.grid(k.product([extents[n] for n in axes])) as loop:
        tree.index.update(k.unravel(loop.index, axes, extents))
        if atomic:
            write()
        else:
            with nest(k, tree.index, taken, extents):  # type: ignore[arg-type]
                write()
    own = tree_extents(h, value)
    h.launch(k, blocks_for(h, h.product([own[n] for n in axes])))
