"""Loop nests of stores at computed places: scatter, scatterAdd, and nonzero, which writes the places.

They run in C order of the values, one after the other: where two values go to one place, the order is what decides.
Along a row (the axes behind the indices) no place comes twice, and the innermost loop is parallel.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.kernels import fill, nest
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ZERO, V, i64
from dlvm_py.ir import Instruction, Value, is_array


def scatter(e: FunctionEmitter, i: Instruction) -> None:
    """Write a scatter."""
    value, destination, *indices = i.operands
    with e.region():
        work = _scatter(e, value, e.pointer(destination), indices, i.attrs.get("by"))
    e.charge(work)


def store_scatter_add(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a scatterAdd: zeros, and then every value added at its place; the work."""
    fill(e, dest, V(scalar_type(dest.dtype), "zeroinitializer"))
    return _scatter(e, i.operands[0], dest, i.operands[1 : 1 + len(i.operands) // 2], "add")


def _tree(e: FunctionEmitter, value: Value) -> Tree:
    tree = Tree(e, value)
    tree.fast = not tree.conditions()
    return tree


def scatter_trees(
    e: FunctionEmitter, value: Value, dest: Pointer, indices: Sequence[Value]
) -> tuple[Tree, int, dict[Value, Tree]]:
    """The values of a scatter; how many of their axes those of the indices are; the indices, read at the same place."""
    tree = _tree(e, value)
    trees = {v: _tree(e, v) for v in indices if is_array(v.type)}
    for v, other in trees.items():
        other.index = tree.index
        other.root_axes = tree.unstretched(v, other.root_axes)
    return tree, tree.rank - dest.rank + len(indices), trees


def _scatter(e: FunctionEmitter, value: Value, dest: Pointer, indices: Sequence[Value], by: str | None) -> V:
    tree, rank, trees = scatter_trees(e, value, dest, indices)
    extents = tree_extents(e, value)
    strides = strides_of(e, dest)
    row = list(range(rank, tree.rank))

    def write(base: V, notes: str) -> None:
        place = offset(e, base, [tree.index[k] for k in row], strides[len(indices) :])
        x = tree.element()
        if by is not None:
            x = TABLE[by][dest.dtype.kind](e, dest.dtype, {}, load_element(e, dest.dtype, place, notes), x)
        store_element(e, dest.dtype, x, place, notes)

    with nest(e, tree.index, range(rank), extents):
        places = [trees[v].element() if v in trees else e.scalar(v) for v in indices]
        base = offset(e, dest.data, places, strides[: len(indices)])
        if not row:
            write(base, dest.notes)
        else:
            with nest(e, tree.index, row[:-1], extents):
                parallel = Parallel(e)
                tree.group = parallel.access
                with nest(e, tree.index, row[-1:], extents, parallel.loop):
                    write(base, dest.notes + parallel.access)
    return e.product(extents)


def store_nonzero(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write the indices of the true elements of a tree, one row of `dest` an axis; the work."""
    tree = _tree(e, i.operands[0])
    extents = tree_extents(e, i.operands[0])
    strides = strides_of(e, dest)
    nowhere = e.alloca("i64")

    def walk(axis: int, found: V) -> V:
        if axis < tree.rank:
            with e.loop(extents[axis], [found]) as loop:
                tree.index[axis] = loop.index
                loop.next = [walk(axis + 1, loop.carried[0])]
            return loop.results[0]
        # without a branch, which could not be foretold: what is not true is written to a place that nobody reads
        flag = tree.element()
        for k in range(tree.rank):
            place = e.select(flag, offset(e, dest.data, [i64(k), found], strides), nowhere)
            store_element(e, dest.dtype, tree.index[k], place, "")
        return e.add(found, e.cast("zext", flag, "i64"), "nuw nsw")

    walk(0, ZERO)
    return e.product(extents)
