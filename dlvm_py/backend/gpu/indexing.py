"""Scatters, nonzero, searchSorted: values written, or combined, at computed places, and the places themselves.

Where two values go to one place the order decides, of a store and of a float sum. Order is kept: a thread has one
place along the rows (the axes behind the indices, along which no place comes twice), and goes through all indices in
turn; where rows are short several threads do that, each of which writes to places that it alone owns. Where the order
does not matter - sums of integers, and with fastmath=True sums of floats - each value is a thread's; they meet in
atomic additions. nonzero is one block: each of its threads counts in a part of the elements, and goes on where the
parts before it have ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.kernels import nest
from dlvm_py.backend.cpu.order import places_of
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.scatter import scatter_trees
from dlvm_py.backend.cpu.trees import tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, i64
from dlvm_py.backend.gpu.elementwise import fill, general
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import THREADS, Kernel, blocks_for
from dlvm_py.ir import DType, Instruction, Value

# threads of a scatter that keeps the order, where there are indices enough
OWNERS = 8192


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
    k = Kernel(h, "scatter")
    to = k.pointer_of(dest)
    tree, rank, trees = scatter_trees(k, value, to, indices)  # type: ignore[arg-type]
    extents = tree_extents(k, value)  # type: ignore[arg-type]
    strides = strides_of(k, to)
    taken, row = list(range(rank)), list(range(rank, tree.rank))
    atomic = is_atomic(to.dtype, by, h.fastmath)

    def places() -> list[V]:
        return [trees[v].element() if v in trees else k.scalar(v) for v in indices]

    def write(base: V) -> None:
        place = offset(k, base, [tree.index[n] for n in row], strides[len(indices) :])
        x = tree.element()
        if atomic:
            name = "fadd" if to.dtype.kind == "f" else "add"
            k.value(x.type, f"atomicrmw {name} ptr {place.ref}, {x.type} {x.ref} monotonic")
            return
        if by is not None:
            x = TABLE[by][to.dtype.kind](k, to.dtype, {}, load_element(k, to.dtype, place), x)
        store_element(k, to.dtype, x, place)

    mine = tree_extents(h, value)
    if atomic:
        axes = [*taken, *row]
        with k.grid(k.product([extents[n] for n in axes])) as loop:
            tree.index.update(k.unravel(loop.index, axes, extents))
            write(offset(k, to.data, places(), strides[: len(indices)]))
        h.launch(k, blocks_for(h, h.product([mine[n] for n in axes])))
        return
    rows = h.product([mine[n] for n in row])
    owners = _owners(h, rows)
    each = k.parameter(owners)
    with k.grid(k.mul(k.product([extents[n] for n in row]), each)) as loop:
        tree.index.update(k.unravel(k.op("udiv", loop.index, each), row, extents))
        last = k.op("sub", each, ONE)
        own = k.op("and", loop.index, last)
        with nest(k, tree.index, taken, extents):  # type: ignore[arg-type]
            moved = ZERO
            for at, step in zip(places(), strides[: len(indices)], strict=True):
                moved = k.add(moved, k.mul(at, step))
            number = k.op("lshr", moved, i64(to.itemsize.bit_length() - 1))
            with k.when(k.icmp("eq", k.op("and", number, last), own)):
                write(k.gep("i8", to.data, moved))
    h.launch(k, blocks_for(h, h.mul(rows, owners)))


def _owners(h: HostEmitter, rows: V) -> V:
    """How many threads there are for one place in a row, a power of two: each has the places that it owns."""
    n = constant(rows)
    if n is not None:
        return i64(max(OWNERS >> n.bit_length(), 1))
    digits = h.op("sub", i64(64), h.intrinsic("llvm.ctlz.i64", "i64", rows, V("i1", "false")))
    found = h.op("lshr", i64(OWNERS), digits)
    return h.select(h.icmp("sgt", found, ZERO), found, ONE)


def store_nonzero(h: HostEmitter, i: Instruction, dest: Pointer) -> None:
    """Write the indices of the true elements of a tree, one row of `dest` an axis."""
    k = Kernel(h, "nonzero")
    to, tree = k.pointer_of(dest), general(k, i.operands[0])
    extents, strides = tree_extents(k, i.operands[0]), strides_of(k, to)  # type: ignore[arg-type]
    count, thread = k.product(extents), k.special("tid")
    part = k.op("udiv", k.add(count, i64(THREADS - 1)), i64(THREADS))
    first = k.minimum(k.mul(thread, part), count)
    own = k.op("sub", k.minimum(k.add(first, part), count), first)
    order = range(tree.rank)

    def is_true(place: V) -> V:
        tree.index.update(k.unravel(k.add(first, place), order, extents))
        return k.cast("zext", tree.element(), "i64")

    with k.loop(own, [ZERO]) as loop:
        loop.next = [k.add(loop.carried[0], is_true(loop.index))]
    counts = k.shared_memory("i64", THREADS)
    k.store(loop.results[0], k.gep("i64", counts, thread))
    k.barrier()
    with k.loop(thread, [ZERO]) as before:
        before.next = [k.add(before.carried[0], k.load("i64", k.gep("i64", counts, before.index)))]
    with k.loop(own, [before.results[0]]) as loop:
        flag = is_true(loop.index)
        with k.when(k.icmp("ne", flag, ZERO)):
            for axis in order:
                store_element(k, to.dtype, tree.index[axis], offset(k, to.data, [i64(axis), loop.carried[0]], strides))
        loop.next = [k.add(loop.carried[0], flag)]
    h.launch(k, ONE)


def store_search(h: HostEmitter, i: Instruction, dest: Pointer) -> None:
    """Write a searchSorted: a binary search an element."""
    haystack, value = i.operands
    assert isinstance(haystack, Instruction)
    k = Kernel(h, "search")
    source, to, tree = k.pointer(haystack.operands[0]), k.pointer_of(dest), general(k, value)
    extents, strides = tree_extents(k, value), strides_of(k, to)  # type: ignore[arg-type]
    with k.grid(k.product(extents)) as loop:
        tree.index.update(k.unravel(loop.index, range(tree.rank), extents))
        (found,) = places_of(k, source, [tree.element()], i.attrs["side"])
        store_element(k, to.dtype, found, offset(k, to.data, [tree.index[n] for n in range(to.rank)], strides))
    h.launch(k, blocks_for(h, h.product(tree_extents(h, value))))
