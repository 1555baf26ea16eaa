"""Kernels of one element a thread: stores of trees and scalars, fills, reshapes.

A grid-stride loop runs over the elements of the destination in its memory order, so that threads side by side touch
elements side by side. Where destination and leaves are equally contiguous an element's place is its number; else
blocks of threads lie on rows and columns of the destination.

Shifted loads of a stencil come from the first cache, not from tiles in shared memory. Both are one memory, with one
bandwidth, which is six to thirteen times that of the device's memory (H200: 128 bytes a cycle of each of 132
multiprocessors, 30 TB/s beside 4.8). A tile could gain only where loads, of the cache, take longer than what must move
at least, m bytes an element: from 6 m on, that is 12 loads of an array that is read and one that is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dlvm_py.backend.cpu.kernels import loop_order, memory_order
from dlvm_py.backend.cpu.pointers import Pointer, offset, store_element, strides_of
from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.tiles import unit_axis
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import FALSE, ONE, ZERO, V, constant, i64
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import THREADS, Kernel, blocks_for, within
from dlvm_py.backend.gpu.tiles import TILE, axis_across, tiles_along, write_tiles
from dlvm_py.ir import DType, Value
from dlvm_py.ir.analysis.cost import element_cost

# bytes of the widest access, and the cost of an element (ir/analysis/cost.py) up to which it is worth its registers
WIDEST, CHEAP = 16, 40
# rows that a thread has in a column
ROWS = 4
_REFERENCE = re.compile(r"%[\w.]+")


def general(k: Kernel, value: Value, *others: Value, inner: int | None = None) -> Tree:
    """A tree that is read with all of its run-time strides and stretches: threads have no loop to be fast in.

    inner: the axis that threads side by side go along, the last one if not given.
    """
    tree = Tree(k, value, *others)  # type: ignore[arg-type]
    if inner is not None:
        tree.inner = inner
    tree.fast = not tree.conditions()
    return tree


def store_tree(h: HostEmitter, value: Value, dest: Pointer, shape: tuple[int | None, ...]) -> None:
    """Write every element of a tree to `dest`, whose type has `shape`."""
    store_trees(h, [value], [dest], [shape])


def store_trees(
    h: HostEmitter, values: Sequence[Value], dests: Sequence[Pointer], shapes: Sequence[tuple[int | None, ...]]
) -> None:
    """Write every element of some trees of the same extents, each to its place: all that is read of it before."""
    k = Kernel(h, "elementwise")
    to = [k.pointer_of(dest) for dest in dests]
    tree = Tree(k, *values)  # type: ignore[arg-type]
    count, layout = k.product(to[0].extents), to[0].layout
    if tree.rank and all(p.layout == layout and tree.is_linear(layout, s) for p, s in zip(to, shapes, strict=True)):
        tree.linear, tree.inner = True, 0
        width = _width(tree, to)
        _contiguous(k, tree, to, count, width)
        h.launch(k, blocks_for(h, h.op("udiv", h.product(dests[0].extents), i64(width))))
        return
    if tree.rank > 1 and len(dests) == 1 and _by_tiles(h, values[0], dests[0]):
        return
    _by_elements(h, values, dests)


def _by_elements(h: HostEmitter, values: Sequence[Value], dests: Sequence[Pointer]) -> None:
    """An element a thread at a time, in the memory order of the first of `dests`."""
    k = Kernel(h, "elementwise")
    to = [k.pointer_of(dest) for dest in dests]
    extents = to[0].extents
    strides = [strides_of(k, p) for p in to]
    order = loop_order(extents, memory_order(to[0]))
    tree = general(k, *values, inner=order[-1] if order else None)

    def computed() -> list[tuple[DType, V, V]]:
        """The elements at the index of the tree, and where they go."""
        elements, index = tree.elements(), [tree.index[n] for n in range(len(extents))]
        return [(p.dtype, x, offset(k, p.data, index, own)) for p, own, x in zip(to, strides, elements, strict=True)]

    if sum(constant(n) != 1 for n in extents) < 2:
        with k.grid(k.product(extents)) as loop:
            tree.index.update(k.unravel(loop.index, order, extents))
            for found in computed():
                store_element(k, *found)
        h.launch(k, blocks_for(h, h.product(dests[0].extents)))
        return

    def write(rows: Sequence[V], column: V) -> None:
        found = []
        with loads_first(k):
            for row in rows:
                tree.index.update(k.unravel(row, order[:-1], extents))
                tree.index[order[-1]] = column
                found += computed()
        for element in found:
            store_element(k, *element)

    whole = dests[0].extents
    shape = _Sheet(h, whole[order[-1]], h.product([whole[n] for n in order[:-1]]))
    shape.write(k, write, _cost(values) <= CHEAP)
    h.launch(k, shape.blocks)


@contextmanager
def loads_first(k: Kernel) -> Iterator[None]:
    """Let the loads of what is written here, which stores nothing, begin before the arithmetic on any of them.

    The assembler makes branches of a division, say, and moves no load over them.
    """
    block, begin = k.here, len(k.here.lines)
    yield
    if k.here is not block:
        return
    lines = block.lines[begin:]
    needed: set[str] = set()
    ahead = []
    for line in reversed(lines):
        name, _, text = line.partition(" = ")
        is_ahead = name in needed or text.startswith("load ")
        if is_ahead:
            needed.update(_REFERENCE.findall(text))
        ahead.append(is_ahead)
    ahead.reverse()
    block.lines[begin:] = [
        line for wanted in (True, False) for line, is_it in zip(lines, ahead, strict=True) if is_it is wanted
    ]


class _Sheet:
    """Elements as rows of `columns`, by blocks of 2^digits columns, the fewest that a row fits into, and rows below.

    A thread has ROWS rows in one column: it takes a number apart once for all of them, and moves on by additions. Where
    all of them are there and arithmetic is little it loads for all of them before it stores any: a thread that has one
    element on its way does not fill the bandwidth of the newest devices (docs/gpu.md has the sums).
    """

    def __init__(self, h: HostEmitter, columns: V, rows: V) -> None:
        self.extents = columns, rows
        n, most = constant(columns), THREADS.bit_length() - 1
        if n is not None:
            self.digits = i64(min(max(n - 1, 0).bit_length(), most))
        else:
            some = h.select(h.icmp("sgt", columns, ONE), h.op("sub", columns, ONE), ZERO)
            zeros = h.intrinsic("llvm.ctlz.i64", "i64", some, FALSE)
            self.digits = h.minimum(h.op("sub", i64(64), zeros), i64(most))
        chunks, groups = self._counts(h, self.digits, columns, rows)
        self.blocks = within(h, h.mul(chunks, groups))

    def _counts(self, f: FunctionText, digits: V, columns: V, rows: V) -> tuple[V, V]:
        """How many blocks there are side by side, and one below the other."""
        wide, high = f.op("shl", ONE, digits), f.op("lshr", i64(THREADS * ROWS), digits)
        return tuple(f.op("udiv", f.add(n, f.op("sub", m, ONE)), m) for n, m in ((columns, wide), (rows, high)))  # type: ignore[return-value]

    def write(self, k: Kernel, write: Callable[[Sequence[V], V], None], at_once: bool) -> None:
        """Write the elements of some rows in a column, in turn all of those of a launch of `blocks` blocks."""
        digits, (columns, rows) = k.parameter(self.digits), map(k.parameter, self.extents)
        wide, high = k.op("shl", ONE, digits), k.op("lshr", i64(THREADS), digits)
        thread = k.special("tid")
        chunks, groups = self._counts(k, digits, columns, rows)
        with k.strided(k.special("ctaid"), k.special("nctaid"), k.mul(chunks, groups)) as block:
            group = k.op("udiv", block.index, chunks)
            chunk = k.op("sub", block.index, k.mul(group, chunks))
            column = k.add(k.op("shl", chunk, digits), k.op("and", thread, k.op("sub", wide, ONE)))
            first = k.add(k.mul(group, k.mul(high, i64(ROWS))), k.op("lshr", thread, digits))
            below = k.op("udiv", k.op("sub", k.add(rows, k.op("sub", high, ONE)), first), high)
            inside = k.both(k.icmp("slt", column, columns), k.icmp("slt", first, rows))
            count = k.select(inside, k.minimum(below, i64(ROWS)), ZERO)

            def one_by_one() -> None:
                with k.loop(count) as loop:
                    write([k.add(first, k.mul(loop.index, high))], column)

            if at_once:
                with k.either(k.icmp("eq", count, i64(ROWS))) as arms:
                    next(arms)
                    write([k.add(first, k.mul(high, i64(n))) if n else first for n in range(ROWS)], column)
                    next(arms)
                    one_by_one()
            else:
                one_by_one()


def _by_tiles(h: HostEmitter, value: Value, dest: Pointer) -> bool:
    """Write the store by tiles where leaves lie across `dest`, with extents worth it; whether there are any."""
    k = Kernel(h, "transpose")
    to, tree = k.pointer_of(dest), Tree(k, value)  # type: ignore[arg-type]
    tree.fast = not tree.conditions()
    strides = strides_of(k, to)
    inner = unit_axis(to, strides)
    across = None if inner is None else axis_across(tree, inner)
    if across is None:
        return False
    assert inner is not None
    sides = [dest.extents[inner], dest.extents[across[0]]]
    if any(constant(n) is not None and constant(n) < TILE for n in sides):  # type: ignore[operator]
        return False
    write_tiles(k, tree, to, strides, inner, across)

    def launch() -> None:
        counts = [tiles_along(h, n) if axis in (inner, across[0]) else n for axis, n in enumerate(dest.extents)]
        h.launch(k, within(h, h.product(counts)))

    if all(constant(n) is not None for n in sides):
        launch()
        return True
    with h.either(h.both(*(h.icmp("sge", n, i64(TILE)) for n in sides))) as arms:
        next(arms)
        launch()
        next(arms)
        _by_elements(h, [value], [dest])
    return True


def _cost(values: Sequence[Value]) -> int:
    return sum(map(element_cost, values))


def _width(tree: Tree, to: Sequence[Pointer]) -> int:
    """How many elements side by side a thread takes: as many as 16 bytes hold, if their arithmetic is little."""
    if _cost(tree.roots) > CHEAP or any(p.dtype.is_complex for p in to):
        return 1
    return max(1, WIDEST // max(p.itemsize for p in (*to, *tree.loads())))


def _contiguous(k: Kernel, tree: Tree, to: Sequence[Pointer], count: V, width: int) -> None:
    """All elements of trees that lie as their destinations do, in their memory order.

    Where everything is aligned, threads read and write `width` elements at once: with the alignment known, LLVM makes
    one instruction of accesses side by side. What is left goes one by one.
    """
    tree.fast = not tree.conditions()

    def store(index: V, elements: Sequence[V]) -> None:
        for p, x in zip(to, elements, strict=True):
            store_element(k, p.dtype, x, offset(k, p.data, [index], [i64(p.itemsize)]))

    done = ZERO
    if width > 1:
        pointers = {p.data: i64(width * p.itemsize) for p in (*to, *tree.loads())}
        k.module.declare("llvm.assume", "void", ["i1"])
        low = (k.op("and", k.cast("ptrtoint", data, "i64"), k.op("sub", size, ONE)) for data, size in pointers.items())
        aligned = k.both(*(k.icmp("eq", bits, ZERO) for bits in low))
        groups = k.select(aligned, k.op("udiv", count, i64(width)), ZERO)
        with k.grid(groups) as loop:
            for data, size in pointers.items():
                k.line(f'call void @llvm.assume(i1 true) [ "align"(ptr {data.ref}, i64 {size.ref}) ]')
            first = k.op("mul nuw nsw", loop.index, i64(width))
            places = [k.op("add nuw nsw", first, i64(n)) if n else first for n in range(width)]
            elements = []
            with loads_first(k):
                for tree.index[0] in places:
                    elements.append(tree.elements())
            for at, found in zip(places, elements, strict=True):
                store(at, found)
        done = k.op("mul nuw nsw", groups, i64(width))
    with k.grid(k.op("sub", count, done)) as loop:
        tree.index[0] = k.add(done, loop.index)
        store(tree.index[0], tree.elements())


def store_scalar(h: HostEmitter, x: V, dest: Pointer) -> None:
    """Write a scalar of the host to one element."""
    k = Kernel(h, "one element")
    to = k.pointer_of(dest)
    value = k.parameter(x)
    with k.grid(i64(1)):
        store_element(k, to.dtype, value, to.data)
    h.launch(k, i64(1), threads=1)


def fill(h: HostEmitter, dest: Pointer, x: V) -> None:
    """Write x to every element of `dest`."""
    k = Kernel(h, "fill")
    to = k.pointer_of(dest)
    value = k.parameter(x)
    order = loop_order(to.extents, memory_order(to))
    strides = strides_of(k, to)
    with k.grid(k.product(to.extents)) as loop:
        index = k.unravel(loop.index, order, to.extents)
        store_element(k, to.dtype, value, offset(k, to.data, [index[n] for n in range(to.rank)], strides))
    h.launch(k, blocks_for(h, h.product(dest.extents)))


def store_reshaped(h: HostEmitter, value: Value, dest: Pointer) -> None:
    """Write a tree to a `dest` of another shape, in C order of both."""
    k = Kernel(h, "reshape")
    to = k.pointer_of(dest)
    tree = general(k, value)
    own = tree_extents(k, value)  # type: ignore[arg-type]
    strides = strides_of(k, to)
    with k.grid(k.product(to.extents)) as loop:
        tree.index.update(k.unravel(loop.index, range(tree.rank), own))
        index = k.unravel(loop.index, range(to.rank), to.extents)
        store_element(k, to.dtype, tree.element(), offset(k, to.data, [index[n] for n in range(to.rank)], strides))
    h.launch(k, blocks_for(h, h.product(dest.extents)))
