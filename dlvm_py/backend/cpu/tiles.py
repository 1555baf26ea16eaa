"""Kernels that go by tiles, where the IR says so (transforms/tile_loops.py): `tile 64 along 0`.

    for i0 in range(first, last, 64):
        for j0 in range(0, m, 64):
            for each array whose neighbours lie along the axis of i:   buffer = its tile, turned
            for i, j of the tile:
                element (i, j), which reads these arrays from their buffers

or along rows, where that is faster (`tiles_pay`). Results of 32 MiB and more go past the caches. A tile is turned 8 by
8 elements in registers: eight vectors are read, each of all that its line of memory has, and eight are written, after
three rounds of shuffles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.lanes import transposed
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Axes, Tree
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, i64
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Instruction

WIDTH = 8  # elements of a vector
LINE = 64  # bytes
SHARES = 8  # tiles along an axis from which on threads take whole ones
MEMORY = 64 << 10  # bytes of turned tiles
SMALL = 1 << 18  # elements: with what else a kernel reads, they are in a second cache
PAGES = 3072  # lines of a column, each on a page of its own
CLASH = 4096  # bytes: lines so far apart share their place in a cache
WORDS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}  # by bytes of an element; others are turned one by one
Leaf = tuple[Instruction, Axes]


class Tile(Frozen):
    """How many indices of an axis, and of the innermost one, are a tile."""

    side: int
    axis: int

    def whole(self, e: FunctionEmitter, order: Sequence[int], axis: int, count: V) -> V:
        """The multiple of which threads take the indices of an axis: whole tiles, where there are some for each."""
        if axis != self.axis or self.side & (self.side - 1):
            return ONE
        return e.select(e.icmp("sge", count, i64(self.side * SHARES)), i64(self.side), ONE)


class Past(Frozen):
    """The one destination of a kernel, rows of whose tiles may go past the caches: that they do, and at whole lines.

    line: memory for such a row. address: of the element at the tree's index.
    """

    large: V
    line: V
    itemsize: int
    address: Callable[[], V]


def past_caches(
    e: FunctionEmitter, tile: Tile, dest: Pointer, strides: Sequence[V], large: V | None, address: Callable[[], V]
) -> Past | None:
    """How rows of tiles go past the caches where a kernel is large; None where they never do."""
    if large is None or tile.side * dest.itemsize % LINE:
        return None
    beside = e.cast("ptrtoint", dest.data, "i64")
    for step in strides:
        beside = beside if step == i64(dest.itemsize) else e.op("or", beside, step)
    is_whole = e.icmp("eq", e.op("and", beside, i64(LINE - 1)), ZERO)
    line = e.scratch(f"[{tile.side * dest.itemsize} x i8]", LINE)
    return Past(e.both(large, is_whole), line, dest.itemsize, address)


def unit_axis(p: Pointer, strides: Sequence[V]) -> int | None:
    """The axis along which the elements of an array lie side by side, as far as is known."""
    found = [n for n in range(p.rank) if constant(p.extents[n]) != 1 and strides[n] == i64(p.itemsize)]
    return found[0] if len(found) == 1 else None


def leaves_across(tree: Tree, inner: int) -> dict[int, list[Leaf]]:
    """By the loop axis other than `inner` along which they lie side by side, the leaves that follow both."""
    found: dict[int, list[Leaf]] = {}
    for leaf, axes in tree.leaves():
        if leaf.op.name != "load" or sum(axis is not None and axis[0] == inner for axis in axes) != 1:
            continue
        unit = unit_axis(tree.e.pointer(leaf.operands[0]), tree.steps(leaf))
        axis = None if unit is None else axes[unit]
        if axis is not None and not axis[1] and axis[0] != inner:
            found.setdefault(axis[0], []).append((leaf, axes))
    return found


def tiles_pay(e: FunctionEmitter, tree: Tree, tile: Tile, width: V, work: V) -> V:
    """Whether a kernel is worth tiles.

    Along rows, a line that lies across is used for one element, and for the next rows as long as a cache keeps it. The
    second cache does, for rows of no more lines than the CPU has addresses of pages at hand, unless the lines of a row
    clash in it: then rows are faster than tiles, since the CPU fetches ahead along them. Where all that a kernel reads
    lies in the second cache, tiles gain by whole vectors; always, where it reads two arrays across, or elements take
    longer than what they load.
    """
    leaves = leaves_across(tree, tree.inner).get(tile.axis, [])
    if len(leaves) > 1 or tree.is_slow:
        return e.icmp("sgt", work, ZERO)
    small = e.icmp("sle", work, i64(SMALL))
    conditions = [small, e.icmp("sge", width, i64(PAGES))]
    for step in dict.fromkeys(_step(tree, leaf) for leaf in leaves):
        conditions.append(e.icmp("eq", e.op("and", step, i64(CLASH - 1)), ZERO))
    return e.both(e.icmp("sgt", work, ZERO), e.any(*conditions))


def _step(tree: Tree, leaf: Leaf) -> V:
    """How far apart the elements of a leaf lie along the innermost axis."""
    i, axes = leaf
    return tree.steps(i)[next(k for k, axis in enumerate(axes) if axis is not None and axis[0] == tree.inner)]


def write_tiles(
    e: FunctionEmitter,
    tree: Tree,
    tile: Tile,
    span: tuple[V, V],
    width: V,
    put: Callable[[Parallel, Sequence[V]], None],
    past: Past | None = None,
) -> None:
    """Write the elements at indices from a first to a last one of the tile's axis, and all of the innermost one.

    There are some, and the other axes have their index. width: the extent of the innermost axis. past: whether rows
    go past the caches; `fence` belongs behind it then.
    """
    side = i64(tile.side)
    leaves, at, used = [], [], 0
    for leaf in leaves_across(tree, tree.inner).get(tile.axis, []):
        size = tile.side * tile.side * _itemsize(e, leaf)
        if used + size <= MEMORY:
            leaves.append(leaf)
            at.append(used)
            used += size
    buffer = e.scratch(f"[{used} x i8]", LINE) if leaves else None
    with _parts(e, *span, side) as rows, _parts(e, ZERO, width, side) as columns:
        tree.index[tile.axis], tree.index[tree.inner] = rows.first, columns.first
        for key, start in zip(leaves, at, strict=True):
            assert buffer is not None
            (leaf, axes), size = key, _itemsize(e, key)
            args = [tree.address(leaf, axes), _step(tree, key), e.gep("i8", buffer, i64(start))]
            e.call(f'@"{_turn(e, size)}"', "void", [*args, i64(tile.side * size), rows.count, columns.count])
        whole = e.both(past.large, e.icmp("eq", columns.count, side)) if past is not None else None
        parallel = Parallel(e)
        with e.loop(rows.count, runs=True) as row:
            tree.index[tile.axis], tree.index[tree.inner] = e.add(rows.first, row.index, "nuw nsw"), columns.first
            goal = past.address() if past is not None else None
            base = e.select(whole, past.line, goal) if past is not None else None
            with e.loop(columns.count, note=parallel.loop, runs=True) as column:
                tree.index[tree.inner] = e.add(columns.first, column.index, "nuw nsw")
                place = e.add(e.mul(row.index, side, "nuw nsw"), column.index, "nuw nsw")
                for key, start in zip(leaves, at, strict=True):
                    assert buffer is not None
                    here = e.add(i64(start), e.mul(place, i64(_itemsize(e, key)), "nuw nsw"), "nuw nsw")
                    tree.places[key] = e.gep("i8", buffer, here)
                put(parallel, () if base is None else (e.gep("i8", base, e.mul(column.index, i64(past.itemsize))),))
            if past is not None:
                with e.when(whole):
                    for k in range(0, tile.side * past.itemsize, LINE):
                        x = e.load("<16 x i32>", e.gep("i8", past.line, i64(k)), ", align 64")
                        e.store(x, e.gep("i8", goal, i64(k)), ", align 64, !nontemporal !{i32 1}")
    tree.places.clear()


def _itemsize(e: FunctionEmitter, leaf: Leaf) -> int:
    return e.pointer(leaf[0].operands[0]).itemsize


class _Part(Frozen):
    """Some of the indices of an axis."""

    first: V
    count: V


@contextmanager
def _parts(e: FunctionEmitter, first: V, last: V, side: V) -> Iterator[_Part]:
    """A loop over indices from a first to a last one, so many at a time. There is one, or this loop is not reached."""
    count = e.op("udiv", e.op("sub nuw nsw", e.add(last, side), e.add(first, ONE)), side)
    with e.loop(count, runs=True) as loop:
        begin = e.add(first, e.mul(loop.index, side, "nuw nsw"), "nuw nsw")
        yield _Part(begin, e.minimum(e.op("sub nuw nsw", last, begin), side))


def _turn(e: FunctionEmitter, size: int) -> str:
    """The function that turns a tile of elements of so many bytes.

    `void (ptr from, i64 step, ptr to, i64 pitch, i64 rows, i64 columns)`: to[r, c] = from[c, r], where those of a
    row of `from` lie side by side, its rows `step` bytes apart, and those of `to` `pitch` bytes.
    """
    return helper(
        e, f"dlvm.turn.{size}", "void", ["ptr", "i64", "ptr", "i64", "i64", "i64"], lambda c: _write_turn(c, size)
    )


def _write_turn(c: Code, size: int) -> None:
    source, step, to, pitch, rows, columns = c.params
    item, word, align = f"[{size} x i8]", WORDS.get(size, "<2 x i64>"), f", align {min(size, 8)}"

    def places(row: V, column: V) -> tuple[V, V]:
        """Where the element to[row, column] comes from and goes to."""
        return (
            c.gep("i8", c.gep(item, source, row), c.mul(column, step)),
            c.gep("i8", c.gep(item, to, column), c.mul(row, pitch)),
        )

    whole = ZERO, ZERO
    if size in WORDS:
        whole = c.op("and", rows, i64(-WIDTH)), c.op("and", columns, i64(-WIDTH))
        with c.loop(c.op("udiv", whole[0], i64(WIDTH))) as i, c.loop(c.op("udiv", whole[1], i64(WIDTH))) as j:
            come, go = places(c.mul(i.index, i64(WIDTH)), c.mul(j.index, i64(WIDTH)))
            _block(c, size, come, step, go, pitch)
    with c.loop(rows) as i:
        begin = c.select(c.icmp("slt", i.index, whole[0]), whole[1], ZERO)
        with c.loop(c.op("sub", columns, begin)) as j:
            come, go = places(i.index, c.add(begin, j.index))
            c.store(c.load(word, come, align), go, align)
    c.line("ret void")


def _block(c: Code, size: int, source: V, step: V, to: V, pitch: V) -> None:
    """Turn a block in registers."""
    type = f"<{WIDTH} x {WORDS[size]}>"
    align = f", align {size}"
    rows = [c.load(type, c.gep("i8", source, c.mul(i64(k), step)), align) for k in range(WIDTH)]
    for k, row in enumerate(transposed(c, rows)):
        c.store(row, c.gep("i8", to, c.mul(i64(k), pitch)), align)
