"""OverlapAdd, a thread an element, and products of matrices.

A product goes tile by tile: a block of threads has 16 × 16 elements of the result, or 64 × 64 of a large one, and the
rows and columns that they need come through shared memory, so that each is read once for all of them. Of a large one
a thread has 4 × 4 elements in registers: each number that it reads from shared memory it uses four times. The terms of
an element are in order, whichever it is. Many matrices are one launch, which has the tiles of all of them. A product
with a vector is a reduction along an axis of the matrix (along.py).
"""

from __future__ import annotations

from dlvm_py.backend.cpu.casts import cast
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix, as_matrix, inner_product, multiply_add
from dlvm_py.backend.cpu.kernels import memory_order
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import unrolled_loop
from dlvm_py.backend.cpu.trees import tree_extents
from dlvm_py.backend.cpu.values import ZERO, V, constant, i64
from dlvm_py.backend.gpu.along import store_sum
from dlvm_py.backend.gpu.elementwise import general
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import THREADS, Kernel, blocks_for, within
from dlvm_py.backend.gpu.library import product_by_library
from dlvm_py.backend.gpu.reductions import AT_ONCE
from dlvm_py.frozen import replace
from dlvm_py.ir import F32, OPS, DType, Instruction

# terms of a product (rows × columns × length) from which on the way through Python, some ten microseconds, is worth it
LARGE = 1 << 26
# threads of a block along each axis of a tile, which is as deep; what a thread has of both axes of the result where
# that has so many elements that the blocks fill a device
TILE, EACH, WIDE = 16, 4, 1 << 19


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
    """Write a product of matrices, or with a vector. add: "add" it to, or "subtract" it from, dest."""
    p, q = (h.pointer(v.operands[0]) for v in i.operands)  # type: ignore[attr-defined]
    if p.rank == q.rank >= 2:
        _product(h, i, p, q, dest, add)
    elif dest.dtype.is_narrow or dest.dtype.kind == "b":
        _by_elements(h, p, q, dest, add)
    else:
        # the sum of a tree: elements side by side are read side by side, whichever axis of the matrix they lie along
        is_left = p.rank == 2
        matrix, vector = i.operands if is_left else i.operands[::-1]
        wide = Instruction(OPS["padShape"], [vector], {"at": 0 if is_left else 1})
        terms = Instruction(OPS["multiply"], [matrix, wide])
        store_sum(h, terms, dest, 1 if is_left else 0, add)


def _by_elements(h: HostEmitter, p: Pointer, q: Pointer, dest: Pointer, add: str) -> None:
    """A product with a vector, a thread an element of the result."""
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


def _put(k: Kernel, dtype: DType, x: V, place: V, add: str) -> None:
    if add:
        x = TABLE[add][dtype.kind](k, dtype, {}, load_element(k, dtype, place), x)
    store_element(k, dtype, x, place)


def _product(h: HostEmitter, i: Instruction, p: Pointer, q: Pointer, dest: Pointer, add: str) -> None:
    """A product of matrices, or of many: a large one of floats by a library if there is one, else by tiles."""
    terms, elements = h.product([*dest.extents, p.extents[-1]]), h.product(dest.extents)
    n = constant(terms)
    after = None
    if dest.dtype.is_inexact and (n is None or n >= LARGE):
        ask, tiles, after = h.label("ask"), h.label("tiles"), h.label("after")
        h.cond_br(h.icmp("sge", terms, i64(LARGE)), ask, tiles)
        h.place(ask)
        h.cond_br(product_by_library(h, i, dest, add), after, tiles)
        h.place(tiles)
    each = 1 if dest.dtype.is_complex else EACH
    # where large tiles fill a device, and are not mostly empty
    least = [(elements, WIDE), *((n, TILE * EACH // 2) for n in dest.extents[-2:])]
    known = [(m, constant(n)) for n, m in least]
    if each == 1 or all(n is not None for _, n in known) or any(n is not None and n < m for m, n in known):
        fits = all(n is not None and n >= m for m, n in known)
        _tiles(h, p, q, dest, add, each if fits else 1)
    else:
        with h.either(h.both(*(h.icmp("sge", n, i64(m)) for n, m in least))) as arms:
            for width in (each, 1):
                next(arms)
                _tiles(h, p, q, dest, add, width)
    if after is not None:
        h.br(after)
        h.place(after)


def _tiles(h: HostEmitter, p: Pointer, q: Pointer, dest: Pointer, add: str, each: int) -> None:
    """A block has TILE × `each` rows and columns of the result, and a thread `each` × `each` of them, TILE apart."""
    k = Kernel(h, "product of matrices")
    inside = [k.pointer_of(x) for x in (p, q, dest)]
    steps_of = [strides_of(k, x) for x in inside]
    firsts = [Matrix(x.data, *x.extents[-2:], *s[-2:]) for x, s in zip(inside, steps_of, strict=True)]
    a, b, to = firsts
    many = inside[2].extents[:-2]
    dtype, side = dest.dtype, TILE * each
    wide = F32 if dtype.is_narrow else dtype
    itemsize, size, zero = i64(dtype.itemsize), i64(wide.itemsize), V(scalar_type(wide), "zeroinitializer")
    thread = k.special("tid")
    y, x = k.op("udiv", thread, i64(TILE)), k.op("urem", thread, i64(TILE))
    # a row of a tile has one element more than it holds: columns do not meet in a bank
    pitches = TILE + 1, side + 1
    shapes = (side, TILE), (TILE, side)
    bytes_of_a = -(-side * pitches[0] * wide.itemsize // 16) * 16
    memory = k.shared_memory("i64", -(-(bytes_of_a + TILE * pitches[1] * wide.itemsize) // 8))
    tiles = memory, k.gep("i8", memory, i64(bytes_of_a))
    steps = [[i64(pitch * wide.itemsize), size] for pitch in pitches]

    def into(n: int, m: Matrix, first: tuple[V, V]) -> None:
        """A tile of the matrix that begins at `first`, zero beyond its borders, by threads side by side."""
        for part in range(each):
            place = k.add(thread, i64(part * THREADS))
            # (row, column) where those of a column, or of a row, lie side by side
            taken = [(k.op("urem", place, i64(across)), k.op("udiv", place, i64(across))) for across in shapes[n]]
            down, along = taken[0], taken[1][::-1]
            if m.row_step == itemsize:
                local = down
            elif m.col_step == itemsize:
                local = along
            else:
                is_down = k.icmp("eq", m.row_step, itemsize)
                local = tuple(k.select(is_down, a, b) for a, b in zip(down, along, strict=True))
            row, col = (k.add(f, at) for f, at in zip(first, local, strict=True))
            slot = offset(k, tiles[n], local, steps[n])
            store_element(k, wide, zero, slot)
            with k.when(k.both(k.icmp("slt", row, m.rows), k.icmp("slt", col, m.cols))):
                found = load_element(k, dtype, offset(k, m.data, [row, col], [m.row_step, m.col_step]))
                store_element(k, wide, cast(k, found, dtype, wide), slot)

    def count(f: Kernel | HostEmitter, extent: V, by: int) -> V:
        return f.op("udiv", f.add(extent, i64(by - 1)), i64(by))

    apart = [i64(TILE * n) for n in range(each)]
    counts = [*many, count(k, to.rows, side), count(k, to.cols, side)]
    with k.strided(k.special("ctaid"), k.special("nctaid"), k.product(counts)) as block:
        at = k.unravel(block.index, range(len(counts)), counts)
        top, left = (k.mul(at[len(many) + n], i64(side)) for n in range(2))
        a, b, to = (
            replace(m, data=offset(k, m.data, [at[n] for n in range(len(many))], s[:-2]))
            for m, s in zip(firsts, steps_of, strict=True)
        )
        with k.loop(count(k, a.cols, TILE), [zero] * each**2) as step:
            first = k.mul(step.index, i64(TILE))
            into(0, a, (top, first))
            into(1, b, (first, left))
            k.barrier()
            # no further than the matrices go: infinities times the zeros beyond would be NaN
            length = k.minimum(k.op("sub", a.cols, first), i64(TILE))
            with k.loop(length, step.carried, unrolled_loop(k, AT_ONCE)) as inner:
                of_a = [offset(k, tiles[0], [k.add(y, n), inner.index], steps[0]) for n in apart]
                of_b = [offset(k, tiles[1], [inner.index, k.add(x, n)], steps[1]) for n in apart]
                of_a, of_b = ([load_element(k, wide, at) for at in places] for places in (of_a, of_b))
                inner.next = [
                    multiply_add(k, wide, inner.carried[n], of_a[n // each], of_b[n % each], "contract")
                    for n in range(each**2)
                ]
            k.barrier()
            step.next = inner.results
        for n, total in enumerate(step.results):
            row, col = k.add(k.add(top, y), apart[n // each]), k.add(k.add(left, x), apart[n % each])
            with k.when(k.both(k.icmp("slt", row, to.rows), k.icmp("slt", col, to.cols))):
                place = offset(k, to.data, [row, col], [to.row_step, to.col_step])
                _put(k, dtype, cast(k, total, wide, dtype), place, add)
    tiles_of_each = (count(h, n, side) for n in dest.extents[-2:])
    h.launch(k, within(h, h.product([*dest.extents[:-2], *tiles_of_each])))
