"""Loop nests: the store of an elementwise tree, and the skeletons that reductions share.

A nest runs over the destination's index space, its innermost loop along the destination's contiguous axis.
Where destination and leaves are equally contiguous the nest is one loop over all elements. bufferize
promises that the elements of one store are independent of each other, so that the innermost loop is marked
parallel (access groups): LLVM vectorises it without overlap checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from dlvm_py.backend.cpu.borders import Row
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.pointers import Pointer, offset, store_element, strides_of
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import ZERO, V, constant, i64
from dlvm_py.ir import Value


def loop_order(extents: Sequence[V], order: Sequence[int]) -> list[int]:
    """An order of loop axes, outermost first, with axes known to be 1 before all others."""
    return sorted(order, key=lambda k: constant(extents[k]) != 1)


def memory_order(p: Pointer) -> list[int]:
    """The axes of a pointer in the order of its layout, the contiguous one last."""
    return list(range(p.rank))[:: -1 if p.layout == "F" else 1]


@contextmanager
def nest(
    e: FunctionEmitter, index: dict[int, V], order: Sequence[int], extents: Sequence[V], note: str = ""
) -> Iterator[None]:
    """Nested loops over `order`, the loop indices in `index`; `note` goes to the innermost."""
    with ExitStack() as stack:
        for k in order:
            if constant(extents[k]) == 1:
                index[k] = ZERO
            else:
                index[k] = stack.enter_context(e.loop(extents[k], note=note if k == order[-1] else "")).index
        yield


def versions(e: FunctionEmitter, conditions: Sequence[V], write: Callable[[bool], None]) -> None:
    """Write the fast version under its conditions and the general one, or only one where nothing is open."""
    open_conditions = [c for c in conditions if c.ref != "true"]
    if not open_conditions:
        write(True)
        return
    with e.either(e.both(*open_conditions)) as arms:
        next(arms)
        write(True)
        next(arms)
        write(False)


def store_tree(e: FunctionEmitter, value: Value, dest: Pointer, shape: tuple[int | None, ...]) -> V:
    """Write every element of a tree to `dest`, whose type has `shape`; the work that it is."""
    tree = Tree(e, value)
    work = e.product(dest.extents)
    extents: Sequence[V] = dest.extents
    strides = strides_of(e, dest)
    if tree.rank > 1 and tree.is_linear(dest.layout, shape):
        tree.linear = True
        extents, strides = [work], (i64(dest.itemsize),)
    order = loop_order(extents, [0] if tree.linear else memory_order(dest))
    tree.inner = order[-1]
    conditions = tree.conditions()
    if dest.layout == "S":
        conditions.append(e.icmp("eq", strides[tree.inner], i64(dest.itemsize)))

    def write(fast: bool) -> None:
        tree.fast = fast
        steps = list(strides)
        if fast and dest.layout == "S":
            steps[tree.inner] = i64(dest.itemsize)

        def put(parallel: Parallel) -> None:
            tree.group = parallel.access
            x = tree.element()
            address = offset(e, dest.data, [tree.index[k] for k in range(len(extents))], steps)
            store_element(e, dest.dtype, x, address, dest.notes + parallel.access)

        if fast and tree.has_embeds:
            row = Row(e, tree, extents[tree.inner])
            with nest(e, tree.index, order[:-1], extents):
                row.write(put)
        else:
            parallel = Parallel(e)
            with nest(e, tree.index, order, extents, parallel.loop):
                put(parallel)

    versions(e, conditions, write)
    return work


def fill(e: FunctionEmitter, dest: Pointer, x: V) -> None:
    """Write x to every element of `dest`."""
    strides = strides_of(e, dest)
    order = loop_order(dest.extents, memory_order(dest))
    parallel = Parallel(e)
    index: dict[int, V] = {}
    with nest(e, index, order, dest.extents, parallel.loop):
        address = offset(e, dest.data, [index[k] for k in range(dest.rank)], strides)
        store_element(e, dest.dtype, x, address, dest.notes + parallel.access)


def store_reshaped(e: FunctionEmitter, tree: Tree, extents: Sequence[V], dest: Pointer) -> V:
    """Write a tree to a `dest` of another shape, element after element in C order, by counting; the work."""
    strides = strides_of(e, dest)
    inner_counts = [e.product(dest.extents[k + 1 :]) for k in range(dest.rank)]
    tree.fast = False
    own = [e.product(extents[k + 1 :]) for k in range(len(extents))]
    with nest(e, tree.index, range(len(extents)), extents):
        place = ZERO
        for k, n in enumerate(own):
            place = e.add(place, e.mul(tree.index[k], n))
        target = []
        for count in inner_counts:
            # count is at least 1 here: an element exists
            target.append(e.op("udiv", place, count) if count.ref != "1" else place)
            place = e.op("urem", place, count) if count.ref != "1" else ZERO
        x = tree.element()
        store_element(e, dest.dtype, x, offset(e, dest.data, target, strides), dest.notes)
    return e.product(extents)
