"""Loop nests: the skeletons that stores (stores.py), reductions and others share, and plain kernels made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.jam import Jam
from dlvm_py.backend.cpu.pointers import Pointer, offset, store_element, strides_of
from dlvm_py.backend.cpu.share import shared
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.tiles import Tile
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, i64
from dlvm_py.ir.analysis.cost import STREAM

# the first index of an outermost loop, and the one behind the last; None: all of them
Part = tuple[V, V] | None


def loop_order(extents: Sequence[V], order: Sequence[int]) -> list[int]:
    """An order of loop axes, outermost first, with axes known to be 1 before all others."""
    return sorted(order, key=lambda k: constant(extents[k]) != 1)


def memory_order(p: Pointer) -> list[int]:
    """The axes of a pointer in the order of its layout, the contiguous one last."""
    return list(range(p.rank))[:: -1 if p.layout == "F" else 1]


@contextmanager
def nest(
    e: FunctionEmitter,
    index: dict[int, V],
    order: Sequence[int],
    extents: Sequence[V],
    note: str = "",
    part: Part = None,
) -> Iterator[None]:
    """Nested loops over `order`, the loop indices in `index`; `note` goes to the innermost.

    Whether there is anything to do is asked once, before them all, so that no loop has a test in the body of another:

        if n > 0 and m > 0:  do  { do { ... } while (++j < m) }  while (++i < n)

    part: the first and the last index of the outermost loop of more than one iteration, where it is not all of it.
    """
    index.update((k, ZERO) for k in order if constant(extents[k]) == 1)
    axes = [k for k in order if constant(extents[k]) != 1]
    counts = [extents[k] for k in axes]
    if part is not None and axes:
        counts[0] = e.op("sub nuw nsw", part[1], part[0])
    open_counts = [n for n in counts if (constant(n) or 0) <= 0]
    with ExitStack() as stack:
        if open_counts:
            stack.enter_context(e.when(e.both(*(e.icmp("sgt", n, ZERO) for n in open_counts))))
        for k, count in zip(axes, counts, strict=True):
            index[k] = stack.enter_context(e.loop(count, note=note if k == order[-1] else "", runs=True)).index
            if part is not None and k == axes[0]:
                index[k] = e.add(index[k], part[0], "nuw nsw")
        yield


def shared_axis(order: Sequence[int], extents: Sequence[V]) -> int | None:
    """The axis of the outermost loop of more than one iteration, which threads share."""
    return next((k for k in order if constant(extents[k]) != 1), None)


@contextmanager
def shared_nest(
    e: FunctionEmitter,
    order: Sequence[int],
    extents: Sequence[V],
    loops: int,
    cost: int,
    work: V,
    groups: Jam | Tile | None = None,
) -> Iterator[Part]:
    """Code for a nest over `order` that threads share; what it gives is the `part` of `nest`.

    loops: how many loops the kernel has that may be cut. A single one is worth the choice only where it does not run
    often, and not with lengths that change all the time. groups: what is computed together is not cut.
    """
    axis = shared_axis(order, extents)
    if axis is None:
        yield None
        return
    pays = loops > 1 or (loops == 1 and (e.depth == 0 or (e.depth == 1 and e.is_fixed(extents[axis]))))
    # whole vectors and cache lines of the destination
    multiple = i64(64) if axis == order[-1] else ONE if groups is None else groups.whole(e, order, axis, extents[axis])
    with shared(e, extents[axis], work, cost, multiple, pays) as part:
        yield part


def versions(e: FunctionEmitter, tree: Tree, write: Callable[[bool], None], unit: Sequence[V] = ()) -> None:
    """Write the fast version under its conditions and the general one, or only one where nothing is open.

    unit: conditions of strides beside those of the tree. Where there is none at all, the general version is for extents
    that are stretched and not known to be 1, and plain code:

        if n == m (as always): a vector loop, its rest in smaller vectors, the rest of that
        else:                  a scalar loop
    """
    strides = [*tree.stride_conditions(), *unit]
    conditions = [*tree.stretch_conditions(), *strides]
    tree.fast = True
    if not conditions:
        write(True)
        return
    e.chooses_in_loops |= e.depth > 1
    with e.either(e.both(*conditions)) as arms:
        next(arms)
        write(True)
        next(arms)
        tree.fast, tree.is_rare = False, not strides
        write(False)
        tree.is_rare = False


def fill(e: FunctionEmitter, dest: Pointer, x: V) -> None:
    """Write x to every element of `dest`."""
    strides = strides_of(e, dest)
    order = loop_order(dest.extents, memory_order(dest))
    parallel = Parallel(e)
    index: dict[int, V] = {}
    work, cost = e.product(dest.extents), max(1, STREAM * dest.itemsize // 8)
    with (
        shared_nest(e, order, dest.extents, dest.rank, cost, work) as part,
        nest(e, index, order, dest.extents, parallel.loop, part),
    ):
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
