"""Stores of trees whose leaves run along another axis in memory than their destination: transposes, by tiles.

    y[...] = x.T + z          32 × 32 elements a block
    x, along its own axis     threads side by side read elements side by side, into shared memory
    barrier
    y, along its own axis     threads side by side read x from shared memory, z from where it is, and write

Without tiles one of both would touch a line of memory for each element. A row of the tile in memory has one element
more than it holds: the 32 elements of a column lie in banks of their own. Extents below a tile's are not worth it: what
threads side by side then read of one line stays in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element
from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.tiles import Leaf, leaves_across
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import V, constant, i64
from dlvm_py.backend.gpu.kernel import THREADS, WARP, Kernel

TILE = WARP
_ROWS = THREADS // TILE
_PITCH = TILE + 1
# bytes of shared memory that the tiles of a block take: devices have 48 KiB, so that two blocks fit beside each other
_MEMORY = 24 << 10


def axis_across(tree: Tree, inner: int) -> tuple[int, list[Leaf]] | None:
    """The loop axis along which most leaves lie side by side that is not `inner`, and these leaves; None without any.

    As many as shared memory has place for.
    """
    found = leaves_across(tree, inner)
    if not found:
        return None
    axis, leaves = max(found.items(), key=lambda item: len(item[1]))
    fitting, used = [], 0
    for leaf, axes in leaves:
        used += tree.e.pointer(leaf.operands[0]).itemsize * TILE * _PITCH
        if used <= _MEMORY:
            fitting.append((leaf, axes))
    return axis, fitting


def write_tiles(
    k: Kernel,
    tree: Tree,
    to: Pointer,
    strides: Sequence[V],
    inner: int,
    across: tuple[int, list[Leaf]],
) -> None:
    """Write the kernel of a store by tiles along `inner` and the axis of `across`, whose leaves it has come in by."""
    outer, leaves = across
    sizes = [tree.e.pointer(leaf.operands[0]).itemsize for leaf, _ in leaves]
    memory = k.shared_memory("i64", -(-sum(sizes) * TILE * _PITCH // 8))
    # wide elements first: each tile is aligned to its elements
    order = sorted(range(len(leaves)), key=lambda n: -sizes[n])
    tiles, at = {}, 0
    for n in order:
        tiles[n] = k.gep("i8", memory, i64(at))
        at += sizes[n] * TILE * _PITCH
    thread = k.special("tid")
    lane, row = k.op("and", thread, i64(TILE - 1)), k.op("lshr", thread, i64(TILE.bit_length() - 1))
    counts = [tiles_along(k, n) if axis in (outer, inner) else n for axis, n in enumerate(to.extents)]
    with k.strided(k.special("ctaid"), k.special("nctaid"), k.product(counts)) as block:
        where = k.unravel(block.index, range(to.rank), counts)
        first = {axis: k.mul(where[axis], i64(TILE)) for axis in (outer, inner)}

        def each(along: int, down: int, write) -> None:  # type: ignore[no-untyped-def]
            """Code for each element of a thread, threads side by side along one axis of the tile."""
            for part in range(0, TILE, _ROWS):
                local = k.add(row, i64(part))
                tree.index.update(where)
                tree.index[along], tree.index[down] = k.add(first[along], lane), k.add(first[down], local)
                inside = (k.icmp("slt", tree.index[axis], to.extents[axis]) for axis in (along, down))
                with k.when(k.both(*inside)):
                    write(local)

        def fetch(local: V) -> None:
            for n, (leaf, axes) in enumerate(leaves):
                dtype = tree.e.pointer(leaf.operands[0]).dtype
                x = load_element(k, dtype, tree.address(leaf, axes))
                store_element(k, dtype, x, offset(k, tiles[n], [local, lane], [i64(_PITCH * sizes[n]), i64(sizes[n])]))

        def store(local: V) -> None:
            for n, key in enumerate(leaves):
                tree.places[key] = offset(k, tiles[n], [lane, local], [i64(_PITCH * sizes[n]), i64(sizes[n])])
            x = tree.element()
            store_element(k, to.dtype, x, offset(k, to.data, [tree.index[n] for n in range(to.rank)], strides))

        each(outer, inner, fetch)
        k.barrier()
        each(inner, outer, store)
        # the next tile comes into the same memory
        k.barrier()


def tiles_along(k: FunctionText, extent: V) -> V:
    """How many tiles an axis has."""
    n = constant(extent)
    return (
        i64(-(-n // TILE)) if n is not None else k.op("lshr", k.add(extent, i64(TILE - 1)), i64(TILE.bit_length() - 1))
    )
