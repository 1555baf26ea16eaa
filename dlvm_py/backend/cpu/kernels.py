"""Loop nests: the store of an elementwise tree, and the skeletons that reductions share.

A nest runs over the destination's index space, its innermost loop along the destination's contiguous axis.
Where destination and leaves are equally contiguous the nest is one loop over all elements. bufferize
promises that the elements of one store are independent of each other, so that the innermost loop is marked
parallel (access groups): LLVM vectorises it without overlap checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext

from dlvm_py.backend.cpu.borders import Row, columns
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.jam import Jam, write_rows
from dlvm_py.backend.cpu.pointers import Pointer, is_open, offset, store_element, strides_of
from dlvm_py.backend.cpu.share import shared
from dlvm_py.backend.cpu.shifts import Stream, streams_of, write_row
from dlvm_py.backend.cpu.streams import Rows, fence, go_by_lines, is_large, write_lines, write_pieces
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.tiles import Tile, past_caches, tiles_pay, write_tiles
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import ONE, TRUE, ZERO, V, constant, i64
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Kind, Value
from dlvm_py.ir.analysis.cost import STREAM, element_cost, is_function

# the steps of an element, of which a load and a store are two, from which on rows end in a mask
MASKED = 15
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
    multiple = i64(64) if axis == order[-1] else ONE if groups is None else groups.whole(e, axis, extents[axis])
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


class Sink(Frozen):
    """Where the elements of a tree go: a pointer, and what its type says of its shape."""

    dest: Pointer
    shape: tuple[int | None, ...]


def store_tree(
    e: FunctionEmitter, value: Value, dest: Pointer, shape: tuple[int | None, ...], groups: Jam | Tile | None = None
) -> V:
    """Write every element of a tree to `dest`, whose type has `shape`; the work that it is."""
    return store_trees(e, [value], [Sink(dest, shape)], groups)


def store_trees(
    e: FunctionEmitter, values: Sequence[Value], sinks: Sequence[Sink], groups: Jam | Tile | None = None
) -> V:
    """Write every element of some trees of equal extents to their destinations in one loop nest; the work.

    groups: what is computed together: rows, or tiles.
    """
    tree = Tree(e, *values)
    first = sinks[0].dest
    extents: Sequence[V] = first.extents
    work = e.product(extents)
    strides = [strides_of(e, s.dest) for s in sinks]
    if tree.rank > 1 and all(s.dest.layout == first.layout and tree.is_linear(first.layout, s.shape) for s in sinks):
        tree.linear = True
        extents, strides = [work], [(i64(s.dest.itemsize),) for s in sinks]
    order = loop_order(extents, [0] if tree.linear else memory_order(first))
    tree.inner = order[-1]
    dests = [s.dest for s in sinks]
    unit = [
        e.icmp("eq", steps[tree.inner], i64(s.dest.itemsize))
        for s, steps in zip(sinks, strides, strict=True)
        if s.dest.layout == "S" and is_open(e, steps[tree.inner], i64(s.dest.itemsize))
    ]

    def write(fast: bool, may_shift: bool = True) -> None:
        all_steps = [list(steps) for steps in strides]
        for s, steps in zip(sinks, all_steps, strict=True):
            if fast and s.dest.layout == "S" and is_open(e, steps[tree.inner], i64(s.dest.itemsize)):
                steps[tree.inner] = i64(s.dest.itemsize)

        def address(k: int) -> V:
            steps = [tree.inner_step(step) if n == tree.inner else step for n, step in enumerate(all_steps[k])]
            return offset(e, sinks[k].dest.data, [tree.index[n] for n in range(len(extents))], steps)

        def put(parallel: Parallel, places: Sequence[V] = ()) -> None:
            tree.group = parallel.access
            for k, (s, x) in enumerate(zip(sinks, tree.elements(), strict=True)):
                place = places[k] if places else address(k)
                store_element(e, s.dest.dtype, x, place, s.dest.notes + parallel.access)

        def by_rows() -> None:
            row = Row(e, tree, extents[tree.inner])
            streams = streams_of(e, tree, dests) if is_dense else []

            def inside(span: tuple[V, V]) -> bool:
                if streams:
                    write_row(e, tree, dests, streams, span, address, put)
                return bool(streams)

            with nest(e, tree.index, order[:-1], extents, part=part):
                row.write(put, inside)

        def by_columns() -> None:
            parallel = Parallel(e)
            tree.embedding = "columns"
            with nest(e, tree.index, order[:-1], extents, parallel.loop, part):
                for k in range(constant(extents[tree.inner]) or 0):
                    tree.index[tree.inner] = i64(k)
                    put(parallel)
            tree.embedding = "tested"

        def by_elements(parallel: Parallel) -> None:
            with nest(e, tree.index, order, extents, parallel.loop, part):
                put(parallel)

        def together(jam: Jam, order: Sequence[int], span: tuple[V, V], large: V | None) -> None:
            """Some indices of the first of these axes at a time: rows by whole lines, or planes; then what is left."""
            first, last = span
            if large is None:
                left = write_rows(e, tree, order, extents, jam, span, put)
            else:
                rows = Rows(dests[0], all_steps[0][jam.axis], extents[tree.inner], first, last)
                left = write_lines(e, tree, rows, jam, large, address, put)
            parallel = Parallel(e, tree.is_rare, ends_in_a_mask)
            with nest(e, tree.index, order, extents, parallel.loop, (left, last)):
                put(parallel)

        def by_tiles(tile: Tile, cuts_tiles: bool, steps: Sequence[V], is_dense: bool) -> None:
            others = [k for k in order if k not in (tile.axis, tree.inner)]
            span = part if cuts_tiles and part is not None else (ZERO, extents[tile.axis])
            large = is_large(e, tree, dests, work) if is_dense and len(dests) == 1 else None
            past = past_caches(e, tile, dests[0], steps, large, lambda: address(0))
            with nest(e, tree.index, others, extents, part=None if cuts_tiles else part):
                write_tiles(e, tree, tile, span, extents[tree.inner], put, past)
            if past is not None:
                fence(e, past.large)

        def by_streams(streams: Sequence[Stream]) -> None:
            cuts_row = shared_axis(order, extents) == tree.inner
            span = part if cuts_row and part is not None else (ZERO, extents[tree.inner])
            with nest(e, tree.index, order[:-1], extents, part=None if cuts_row else part):
                write_row(e, tree, dests, streams, span, address, put)

        is_dense = all(steps[tree.inner] == i64(p.itemsize) for p, steps in zip(dests, all_steps, strict=True))
        if fast and tree.has_embeds:
            conditions = columns(e, tree, extents, order)
            if not conditions:
                (by_rows if conditions is None else by_columns)()
                return
            with e.either(e.both(*conditions)) as arms:
                next(arms)
                by_columns()
                next(arms)
                by_rows()
            return
        # planes that are computed together read less from far than rows do by their vectors
        may_shift = may_shift and (groups is None or (isinstance(groups, Jam) and tree.rank == 2))
        streams = streams_of(e, tree, dests) if fast and is_dense and may_shift else []
        if streams:
            large = is_large(e, tree, dests, work)
            with e.either(large) if large is not None else nullcontext(iter((None,))) as arms:
                if large is not None:
                    next(arms)
                    write(fast, may_shift=False)
                next(arms)
                by_streams(streams)
            return
        if fast and is_dense and shared_axis(order, extents) == tree.inner:
            large = is_large(e, tree, dests, work)
            if large is not None:
                with nest(e, tree.index, order[:-1], extents):
                    write_pieces(e, tree, dests, part or (ZERO, extents[tree.inner]), large, address, put)
                return
        jam = groups if isinstance(groups, Jam) else None
        cut = shared_axis(order, extents)
        if fast and isinstance(groups, Tile) and not tree.linear and tree.inner not in (groups.axis, cut):
            with e.either(tiles_pay(e, tree, groups, extents[tree.inner], work)) as arms:
                next(arms)
                by_tiles(groups, cut == groups.axis, all_steps[0], is_dense)
                next(arms)
                by_elements(Parallel(e))
            return
        ends_in_a_mask = fast and is_dense and _ends_in_a_mask(e, tree, extents, order)
        if not fast or jam is None or tree.linear or jam.axis == tree.inner:
            by_elements(Parallel(e, tree.is_rare, ends_in_a_mask))
            return
        outer, inner = order[: order.index(jam.axis)], order[order.index(jam.axis) :]
        cuts = cut == jam.axis
        span = part if cuts and part is not None else (ZERO, extents[jam.axis])
        large = is_large(e, tree, dests, work) if is_dense and len(sinks) == 1 and len(inner) <= 3 else None
        if large is None or len(inner) == 2:
            with nest(e, tree.index, outer, extents, part=None if cuts else part):
                together(jam, inner, span, large)
            if large is not None:
                fence(e, large)
            return
        count, width, by_plane = extents[order[-2]], extents[tree.inner], jam.of_rows(order[-2], dests[0].itemsize)
        goes = go_by_lines(e, dests[0], dests[0].data, all_steps[0], width, by_plane)
        with e.either(e.both(large, goes, e.icmp("sge", count, i64(jam.rows)))) as arms:
            next(arms)
            with nest(e, tree.index, order[:-2], extents, part=part):
                rows = Rows(dests[0], all_steps[0][order[-2]], width, ZERO, count)
                write_lines(e, tree, rows, by_plane, TRUE, address, put, covers=True)
            fence(e, TRUE)
            next(arms)
            with nest(e, tree.index, outer, extents, part=None if cuts else part):
                together(jam, inner, span, None)

    # a row with borders is not cut
    loops = 0 if tree.has_embeds and shared_axis(order, extents) == tree.inner else len(first.extents)
    with shared_nest(e, order, extents, loops, sum(map(element_cost, values)), work, groups) as part:
        versions(e, tree, write, unit)
    return work


def _ends_in_a_mask(e: FunctionEmitter, tree: Tree, extents: Sequence[V], order: Sequence[int]) -> bool:
    """Whether what a row has behind its last whole vector is one vector more, under a mask:

        row of 23, vectors of 8:   8, 8, 1, 1, 1, 1, 1, 1, 1   =>   8, 8, 7 of 8

    That is for rows, which may be short and whose ends come often, of bodies of many steps: each vector of the row has
    a mask then, and nothing is interleaved, which bodies of few steps notice.
    """
    rows = [k for k in order[:-1] if constant(extents[k]) != 1]
    if not e.module.masks or not rows or constant(extents[order[-1]]) is not None:
        return False
    steps = list(dict.fromkeys(i for i, _ in tree.nodes()))
    count = sum(2 if i.op.name == "load" else i.op.kind is Kind.ELEMENTWISE for i in steps) + 2 * len(tree.roots)
    return (
        count >= MASKED
        and not any(i.op.name in ("gather", "embed") or is_function(i) for i in steps)
        and all(i.type.dtype.kind in "fb" for i in steps)  # type: ignore[attr-defined]
        and tree.is_dense()
    )


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
