"""OverlapAdd, a thread an element, and products of matrices.

A product goes tile by tile: a block of threads has TILE × TILE elements of the result, and the rows and columns that
they need come through shared memory, so that each is read once for TILE of them. The terms of an element are in order.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.casts import cast
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix, as_matrix, inner_product, multiply_add
from dlvm_py.backend.cpu.kernels import memory_order
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.trees import tree_extents
from dlvm_py.backend.cpu.values import ZERO, V, constant, i64
from dlvm_py.backend.gpu.elementwise import general
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import Kernel, blocks_for, within
from dlvm_py.backend.gpu.library import product_by_library
from dlvm_py.ir import F32, DType, Instruction

# terms of a product (rows × columns × length) from which on the way through Python, some ten microseconds, is worth it
LARGE = 1 << 26
# elements of a tile along each axis: its square is the number of threads of a block
TILE = 16


def store_overlap(h: HostEmitter, i: Instruction, dest: Pointer) -> None:
    """Write an overlapAdd: each element looks at the windows that it may be in, in their order."""
    k = Kernel(h, "sum of windows")
    to, tree, rank = k.pointer_of(dest), general(k, i.operands[0]), dest.rank
    extents = tree_extents(k, i.operands[0])  # type: ignore[arg-type]
    numbers = [k.scalar(v) for v in i.operands[1:]]
    steps, spreads = numbers[rank : 2 * rank], numbers[2 * rank :]
    strides, order = strides_of(k, to), memory_order(to)
    zero = V(scalar_type(to.dtype), "zeroinitializer")

    def gather(own: dict[int, V], axis: int, total: V) -> V:
        """total with what windows at the index of tree axes before `axis` add; others are still to be tried."""
        if axis == rank:
            return TABLE["add"][to.dtype.kind](k, to.dtype, {}, total, tree.element())
        with k.loop(extents[axis], [total]) as loop:
            # the window is number (own - place in it * spread) / step, if there is one
            moved = k.op("sub", own[axis], k.mul(loop.index, spreads[axis]))
            number, rest = k.op("sdiv", moved, steps[axis]), k.op("srem", moved, steps[axis])
            tree.index[axis], tree.index[rank + axis] = loop.index, number
            fits = k.both(
                k.icmp("eq", rest, ZERO), k.icmp("sge", moved, ZERO), k.icmp("slt", number, extents[rank + axis])
            )
            before, inside, after = k.here, k.label("inside"), k.label("after")
            k.cond_br(fits, inside, after)
            k.place(inside)
            more = gather(own, axis + 1, loop.carried[0])
            last = k.here
            k.br(after)
            k.place(after)
            found = k.phi(total.type)
            found.add(loop.carried[0], before)
            found.add(more, last)
            loop.next = [found.value]
        return loop.results[0]

    with k.grid(k.product(to.extents)) as loop:
        own = k.unravel(loop.index, order, to.extents)
        total = gather(own, 0, zero)
        store_element(k, to.dtype, total, offset(k, to.data, [own[n] for n in range(rank)], strides))
    h.launch(k, blocks_for(h, h.product(dest.extents)))


def store_dot(h: HostEmitter, i: Instruction, dest: Pointer, add: str = "") -> None:
    """Write a matrix-matrix, matrix-vector or vector-matrix product. add: "add" it to, or "subtract" it from, dest."""
    p, q = (h.pointer(v.operands[0]) for v in i.operands)  # type: ignore[attr-defined]
    if p.rank == q.rank == 2:
        _product(h, i, p, q, dest, add)
        return
    k = Kernel(h, "product with a vector")
    a = as_matrix(k, k.pointer_of(p), column=False)
    b = as_matrix(k, k.pointer_of(q), column=True)
    to = as_matrix(k, k.pointer_of(dest), column=p.rank == 2)
    with k.grid(k.mul(to.rows, to.cols)) as loop:
        row, col = k.op("udiv", loop.index, to.cols), k.op("urem", loop.index, to.cols)
        left = offset(k, a.data, [row], [a.row_step]), a.col_step
        right = offset(k, b.data, [col], [b.col_step]), b.row_step
        x = inner_product(k, dest.dtype, a.cols, left, right)
        _put(k, dest.dtype, x, offset(k, to.data, [row, col], [to.row_step, to.col_step]), add)
    h.launch(k, blocks_for(h, h.product(dest.extents)))


def _product(h: HostEmitter, i: Instruction, p: Pointer, q: Pointer, dest: Pointer, add: str) -> None:
    """A product of matrices: a large one of floats by a library if there is one, else by tiles."""
    terms = h.product([*dest.extents, p.extents[1]])
    n = constant(terms)
    if not dest.dtype.is_inexact or (n is not None and n < LARGE):
        _tiles(h, p, q, dest, add)
        return
    ask, tiles, after = h.label("ask"), h.label("tiles"), h.label("after")
    h.cond_br(h.icmp("sge", terms, i64(LARGE)), ask, tiles)
    h.place(ask)
    h.cond_br(product_by_library(h, i, dest, add), after, tiles)
    h.place(tiles)
    _tiles(h, p, q, dest, add)
    h.br(after)
    h.place(after)


def _put(k: Kernel, dtype: DType, x: V, place: V, add: str) -> None:
    if add:
        x = TABLE[add][dtype.kind](k, dtype, {}, load_element(k, dtype, place), x)
    store_element(k, dtype, x, place)


def _tiles(h: HostEmitter, p: Pointer, q: Pointer, dest: Pointer, add: str) -> None:
    k = Kernel(h, "product of matrices")
    a, b, to = (as_matrix(k, k.pointer_of(x), column=False) for x in (p, q, dest))
    dtype = dest.dtype
    wide = F32 if dtype.is_narrow else dtype
    size, zero = i64(wide.itemsize), V(scalar_type(wide), "zeroinitializer")
    thread = k.special("tid")
    y, x = k.op("udiv", thread, i64(TILE)), k.op("urem", thread, i64(TILE))
    memory = k.shared_memory("i64", -(-2 * TILE * TILE * wide.itemsize // 8))
    tiles = memory, k.gep("i8", memory, i64(TILE * TILE * wide.itemsize))
    mine = k.mul(thread, size)

    def into(tile: V, m: Matrix, row: V, col: V) -> None:
        """One element of the matrix into the thread's place of a tile, zero beyond its borders."""
        inside = k.both(k.icmp("slt", row, m.rows), k.icmp("slt", col, m.cols))
        slot = k.gep("i8", tile, mine)
        store_element(k, wide, zero, slot)
        with k.when(inside):
            found = load_element(k, dtype, offset(k, m.data, [row, col], [m.row_step, m.col_step]))
            store_element(k, wide, cast(k, found, dtype, wide), slot)

    def count(extent: V) -> V:
        return k.op("udiv", k.add(extent, i64(TILE - 1)), i64(TILE))

    across = count(to.cols)
    with k.strided(k.special("ctaid"), k.special("nctaid"), k.mul(count(to.rows), across)) as block:
        row = k.add(k.mul(k.op("udiv", block.index, across), i64(TILE)), y)
        col = k.add(k.mul(k.op("urem", block.index, across), i64(TILE)), x)
        with k.loop(count(a.cols), [zero]) as step:
            first = k.mul(step.index, i64(TILE))
            into(tiles[0], a, row, k.add(first, x))
            into(tiles[1], b, k.add(first, y), col)
            k.barrier()
            total = step.carried[0]
            # no further than the matrices go: infinities times the zeros beyond would be NaN
            with k.loop(k.minimum(k.op("sub", a.cols, first), i64(TILE)), [total]) as inner:
                left = offset(k, tiles[0], [y, inner.index], [i64(TILE * wide.itemsize), size])
                right = offset(k, tiles[1], [inner.index, x], [i64(TILE * wide.itemsize), size])
                terms = load_element(k, wide, left), load_element(k, wide, right)
                inner.next = [multiply_add(k, wide, inner.carried[0], *terms, "contract")]
            k.barrier()
            step.next = [inner.results[0]]
        with k.when(k.both(k.icmp("slt", row, to.rows), k.icmp("slt", col, to.cols))):
            place = offset(k, to.data, [row, col], [to.row_step, to.col_step])
            _put(k, dtype, cast(k, step.results[0], wide, dtype), place, add)
    rows, cols = (h.op("udiv", h.add(n, i64(TILE - 1)), i64(TILE)) for n in dest.extents)
    h.launch(k, within(h, h.mul(rows, cols)))
