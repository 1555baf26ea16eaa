"""Stores of elementwise trees: a loop nest, and the ways in which its elements are written.

    store (add %x, %y) to %p             for i in range(n):
    store (negate %x) to %q joined  =>       for j in range(m):
                                                 p[i, j] = x[i, j] + y[i, j];  q[i, j] = -x[i, j]

A nest runs over the destination's index space, its innermost loop along the destination's contiguous axis.
Where destination and leaves are equally contiguous the nest is one loop over all elements. bufferize
promises that the elements of one store are independent of each other, so that the innermost loop is marked
parallel (access groups): LLVM vectorises it without overlap checks.

The general version of a kernel (kernels.versions) is that loop. The fast one goes, in this order of preference,

    with borders      what embeds arrays, along rows that have an interior without tests (borders.py)
    by shifts         what reads rows at several places, where the IR says so (shifts.py), unless it is large
    by pieces         what may go past the caches, where threads cut rows: pieces of a KiB (streams.py)
    by tiles          what reads across the way it writes, where the IR says so and it pays (tiles.py)
    together          some rows, or planes, at a time, where the IR says so (jam.py); large ones by lines (streams.py)
    by elements       all else
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property

from dlvm_py.backend.cpu.borders import Row, columns
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.jam import Jam, write_rows
from dlvm_py.backend.cpu.kernels import Part, loop_order, memory_order, nest, shared_axis, shared_nest, versions
from dlvm_py.backend.cpu.pointers import Pointer, is_open, may_stay, offset, store_element, strides_of
from dlvm_py.backend.cpu.shifts import Stream, Together, streams_of, write_row
from dlvm_py.backend.cpu.streams import Rows, blocks, fence, go_by_lines, is_large, write_lines, write_pieces
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.tiles import Tile, past_caches, tiles_pay, write_tiles
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import TRUE, ZERO, V, constant, i64
from dlvm_py.backend.cpu.widths import in_widths
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Kind, Value
from dlvm_py.ir.analysis.cost import element_cost, is_function

# the steps of an element, of which a load and a store are two, from which on rows end in a mask
MASKED = 15


class Sink(Frozen):
    """Where the elements of a tree go: a pointer, and what its type says of its shape."""

    dest: Pointer
    shape: tuple[int | None, ...]


def store_tree(e: FunctionEmitter, value: Value, dest: Pointer, shape: tuple[int | None, ...]) -> V:
    """Write every element of a tree to `dest`, whose type has `shape`; the work that it is."""
    return store_trees(e, [value], [Sink(dest, shape)])


def store_trees(e: FunctionEmitter, values: Sequence[Value], sinks: Sequence[Sink]) -> V:
    """Write every element of some trees of equal extents to their destinations in one loop nest; the work."""
    kernel = _Stores(e, values, sinks)
    kernel.write()
    return kernel.work


class _Stores:
    """The stores of one kernel: its trees and destinations, and the axes of its loops."""

    def __init__(self, e: FunctionEmitter, values: Sequence[Value], sinks: Sequence[Sink]) -> None:
        self.e, self.values, self.plan = e, values, e.plan
        self.tree = tree = Tree(e, *values)
        self.dests = [s.dest for s in sinks]
        first = self.dests[0]
        tree.updated = frozenset(p.data for v, p in zip(values, self.dests, strict=True) if may_stay(e, v))
        self.extents: Sequence[V] = first.extents
        self.work = e.product(self.extents)
        self.strides: list[Sequence[V]] = [strides_of(e, p) for p in self.dests]
        if tree.rank > 1 and all(
            s.dest.layout == first.layout and tree.is_linear(first.layout, s.shape) for s in sinks
        ):
            tree.linear = True
            self.extents, self.strides = [self.work], [(i64(p.itemsize),) for p in self.dests]
        self.order = loop_order(self.extents, [0] if tree.linear else memory_order(first))
        self.inner = tree.inner = self.order[-1]
        self.width = self.extents[self.inner]
        self.cut = shared_axis(self.order, self.extents)

    def write(self) -> None:
        """Write the kernel, which threads may share, in its versions."""
        e, tree = self.e, self.tree
        both = list(zip(self.dests, self.strides, strict=True))
        unit = [e.icmp("eq", s[self.inner], i64(p.itemsize)) for p, s in both if self.is_open(p, s)]
        # a row with borders is not cut
        loops = 0 if tree.has_embeds and self.cut == self.inner else len(self.dests[0].extents)
        cost = sum(map(element_cost, self.values))
        with shared_nest(e, self.order, self.extents, loops, cost, self.work, self.plan.groups) as part:
            versions(e, tree, lambda fast: _Version(self, fast, part).write(), unit)

    def is_open(self, dest: Pointer, steps: Sequence[V]) -> bool:
        """Whether it is not known that the elements of rows of a destination lie side by side, or that they do not."""
        return dest.layout == "S" and is_open(self.e, steps[self.inner], i64(dest.itemsize))


class _Version:
    """One version of a kernel: a method for each way in which its elements are written.

    part: of the outermost loop. steps: the strides of each destination, of which the fast version knows more. is_dense:
    whether the elements of rows lie side by side in all of them.
    """

    def __init__(self, kernel: _Stores, fast: bool, part: Part) -> None:
        self.k, self.e, self.tree, self.fast, self.part = kernel, kernel.e, kernel.tree, fast, part
        self.order, self.extents, self.inner, self.width = kernel.order, kernel.extents, kernel.inner, kernel.width
        self.cut, self.dests = kernel.cut, kernel.dests
        self.steps = [list(steps) for steps in kernel.strides]
        for dest, steps in zip(self.dests, self.steps, strict=True):
            if fast and kernel.is_open(dest, steps):
                steps[self.inner] = i64(dest.itemsize)
        both = zip(self.dests, self.steps, strict=True)
        self.is_dense = all(steps[self.inner] == i64(dest.itemsize) for dest, steps in both)

    @cached_property
    def large(self) -> V | None:
        """Whether what a dense kernel writes is to go past the caches; None where it never does."""
        return is_large(self.e, self.k.plan, self.dests, self.k.work)

    def write(self) -> None:
        """Write all elements of the part."""
        if not self.fast:
            self.by_elements()
        elif self.tree.has_embeds:
            self.with_borders_or_columns()
        else:
            # planes go together where they can, by shifts or not: rows by themselves read more from far
            is_by_rows = not isinstance(self.k.plan.groups, Jam) or self.tree.rank == 2
            streams = self.streams() if is_by_rows else []
            self.by_shifts_unless_large(streams) if streams else self.by_groups()

    def streams(self, jam: Jam | None = None) -> list[Stream]:
        """What is read at several places of a row, or of rows together, where the IR says that it is loaded once."""
        if not self.k.plan.shifts or not self.is_dense or not self.e.module.masks:
            return []
        return streams_of(self.e, self.tree, self.dests, *((jam.axis, jam.rows) if jam is not None else ()))

    # -- addresses and elements ------------------------------------------------------------------------

    def address(self, k: int) -> V:
        """Of the element of destination `k` at the tree's index."""
        tree = self.tree
        steps = [tree.inner_step(step) if n == self.inner else step for n, step in enumerate(self.steps[k])]
        return offset(self.e, self.dests[k].data, [tree.index[n] for n in range(len(self.extents))], steps)

    def put(self, parallel: Parallel, places: Sequence[V] = ()) -> None:
        """Write the elements of all trees at the tree's index, to addresses if some are given."""
        self.tree.group = parallel.access
        for k, (dest, x) in enumerate(zip(self.dests, self.tree.elements(), strict=True)):
            place = places[k] if places else self.address(k)
            store_element(self.e, dest.dtype, x, place, dest.notes + parallel.access)

    def along(self, axis: int) -> tuple[tuple[V, V], Part]:
        """The first and the last index of an axis whose indices are taken here, and the part of the loops around."""
        if self.cut == axis:
            return self.part or (ZERO, self.extents[axis]), None
        return (ZERO, self.extents[axis]), self.part

    # -- one element after the other -------------------------------------------------------------------

    def by_elements(self, masked: bool = False) -> None:
        """The plain loop nest. masked: whether rows end in a mask."""
        span, part = self.along(self.inner)
        with nest(self.e, self.tree.index, self.order[:-1], self.extents, part=part):
            in_widths(self.e, self.tree, self.inner, span, lambda parallel, place: self.put(parallel), masked)

    def ends_in_a_mask(self) -> bool:
        """Whether what a row has behind its last whole vector is one vector more, under a mask:

            row of 23, vectors of 8:   8, 8, 1, 1, 1, 1, 1, 1, 1   =>   8, 8, 7 of 8

        That is for rows, which may be short and whose ends come often, of bodies of many steps: each vector of the row
        has a mask then, and nothing is interleaved, which bodies of few steps notice.
        """
        tree = self.tree
        rows = [k for k in self.order[:-1] if constant(self.extents[k]) != 1]
        if not self.is_dense or not self.e.module.masks or not rows or constant(self.width) is not None:
            return False
        steps = list(dict.fromkeys(i for i, _ in tree.nodes()))
        count = sum(2 if i.op.name == "load" else i.op.kind is Kind.ELEMENTWISE for i in steps) + 2 * len(tree.roots)
        return (
            count >= MASKED
            and not any(i.op.name in ("gather", "embed") or is_function(i) for i in steps)
            and all(i.type.dtype.kind in "fb" for i in steps)  # type: ignore[attr-defined]
            and tree.is_dense()
        )

    # -- rows that embed others ------------------------------------------------------------------------

    def with_borders_or_columns(self) -> None:
        """Rows of trees that embed arrays: written out where they are short and it is known what is where."""
        conditions = columns(self.e, self.tree, self.extents, self.order)
        if not conditions:
            self.with_borders() if conditions is None else self.by_columns()
            return
        with self.e.either(self.e.both(*conditions)) as arms:
            next(arms)
            self.by_columns()
            next(arms)
            self.with_borders()

    def with_borders(self) -> None:
        """Rows that have an interior, which may go by shifts."""
        e, tree = self.e, self.tree
        row = Row(e, tree, self.width)
        streams = self.streams()

        def inside(span: tuple[V, V]) -> bool:
            if streams:
                write_row(e, tree, self.dests, streams, span, self.address, self.put)
            return bool(streams)

        with nest(e, tree.index, self.order[:-1], self.extents, part=self.part):
            row.write(self.put, inside)

    def by_columns(self) -> None:
        """Short rows, written out in a loop over the axis before them."""
        e, tree = self.e, self.tree
        parallel = Parallel(e)
        tree.embedding = "columns"
        with nest(e, tree.index, self.order[:-1], self.extents, parallel.loop, self.part):
            for k in range(constant(self.width) or 0):
                tree.index[self.inner] = i64(k)
                self.put(parallel)
        tree.embedding = "tested"

    # -- rows that are read at several places ----------------------------------------------------------

    def by_shifts_unless_large(self, streams: Sequence[Stream]) -> None:
        """Large kernels wait for memory, which shifts do not change."""
        with self.e.either(self.large) if self.large is not None else nullcontext(iter((None,))) as arms:
            if self.large is not None:
                next(arms)
                self.by_groups()
            next(arms)
            self.by_shifts(streams)

    def by_shifts(self, streams: Sequence[Stream]) -> None:
        """Rows whose loads at several places are shuffled from vectors that are loaded once; some of them together."""
        jam = self.k.plan.groups
        if isinstance(jam, Jam) and jam.axis != self.inner:
            self.rows_together(jam, False, None)
            return
        span, part = self.along(self.inner)
        with nest(self.e, self.tree.index, self.order[:-1], self.extents, part=part):
            write_row(self.e, self.tree, self.dests, streams, span, self.address, self.put)

    # -- some elements at a time -----------------------------------------------------------------------

    def by_groups(self) -> None:
        """Pieces, tiles, rows or planes together, or none of these: one element after the other."""
        groups, is_linear = self.k.plan.groups, self.tree.linear
        if self.is_dense and self.cut == self.inner and self.large is not None:
            self.by_pieces(self.large)
        elif isinstance(groups, Tile) and not is_linear and self.inner not in (groups.axis, self.cut):
            self.by_tiles_if_they_pay(groups)
        elif isinstance(groups, Jam) and not is_linear and self.inner != groups.axis:
            self.together(groups, self.ends_in_a_mask())
        else:
            self.by_elements(self.ends_in_a_mask())

    def by_pieces(self, large: V) -> None:
        """Pieces of the innermost axis, past the caches if that is large."""
        span, part = self.along(self.inner)
        with nest(self.e, self.tree.index, self.order[:-1], self.extents, part=part):
            write_pieces(self.e, self.tree, self.dests, span, large, self.address, self.put)

    def by_tiles_if_they_pay(self, tile: Tile) -> None:
        """Tiles, or rows where these are faster."""
        with self.e.either(tiles_pay(self.e, self.tree, tile, self.width, self.k.work)) as arms:
            next(arms)
            self.by_tiles(tile)
            next(arms)
            self.by_elements()

    def by_tiles(self, tile: Tile) -> None:
        """Tiles of an axis and the innermost one, of which rows go past the caches if that is large."""
        e, tree = self.e, self.tree
        others = [k for k in self.order if k not in (tile.axis, self.inner)]
        span, part = self.along(tile.axis)
        large = self.large if self.is_dense and len(self.dests) == 1 else None
        past = past_caches(e, tile, self.dests[0], self.steps[0], large, lambda: self.address(0))
        with nest(e, tree.index, others, self.extents, part=part):
            write_tiles(e, tree, tile, span, self.width, self.put, past)
        if past is not None:
            fence(e, past.large)

    # -- rows or planes together -----------------------------------------------------------------------

    def together(self, jam: Jam, masked: bool) -> None:
        """Some indices of an axis at a time; of what is large, rows of one plane, by whole lines."""
        inner = self.order[self.order.index(jam.axis) :]
        large = self.large if self.is_dense and len(self.dests) == 1 and len(inner) <= 3 else None
        if large is not None and len(inner) > 2:
            self.planes_by_lines_if_large(jam, masked, large)
            return
        self.rows_together(jam, masked, large)
        if large is not None:
            fence(self.e, large)

    def planes_by_lines_if_large(self, jam: Jam, masked: bool, large: V) -> None:
        """Planes together; of those of what is large a row of each by lines, or one after the other."""
        e, axis, plan = self.e, self.order[-2], self.k.plan
        by_plane = jam.of_rows(plan.lines, axis, self.dests[0].itemsize)
        goes = go_by_lines(e, self.dests[0], self.dests[0].data, self.steps[0], self.width, by_plane)
        with e.either(e.both(large, goes, e.icmp("sge", self.extents[axis], i64(by_plane.rows)))) as arms:
            next(arms)
            self.planes_by_lines(jam, by_plane)
            fence(e, TRUE)
            next(arms)
            self.rows_together(jam, masked, None)

    def planes_by_lines(self, jam: Jam, by_plane: Jam) -> None:
        """Some planes at a time, if they do not clash; of those that are left some rows of one at a time."""
        e, tree, axis, plan = self.e, self.tree, self.order[-2], self.k.plan
        height, step = self.extents[axis], self.steps[0]
        (first, last), part = self.along(jam.axis)
        with nest(e, tree.index, self.order[:-3], self.extents, part=part):
            parts, each = blocks(e, self.dests[0], height, self.width, by_plane.rows)
            with e.loop(parts) as block, nest(e, tree.index, [jam.axis], self.extents, part=(first, last)):
                begin = e.mul(block.index, each)
                end = e.minimum(e.add(begin, each), height)
                rows = Rows(self.dests[0], step[axis], self.width, begin, end)
                write_lines(e, tree, rows, by_plane, TRUE, plan.ahead, self.address, self.put, covers=True)

    def rows_together(self, jam: Jam, masked: bool, large: V | None) -> None:
        """Some indices of an axis at a time: planes, or rows, which may be large; then what is left."""
        e, tree, at = self.e, self.tree, self.order.index(jam.axis)
        outer, inner = self.order[:at], self.order[at:]
        (first, last), part = self.along(jam.axis)
        with nest(e, tree.index, outer, self.extents, part=part):
            streams = self.streams(jam) if large is None else []

            def by_shifts(together: Together | None) -> None:
                found = streams if together is not None else self.streams()
                write_row(e, tree, self.dests, found, (ZERO, self.width), self.address, self.put, together)

            if large is None:
                some = by_shifts if streams else None
                left = write_rows(e, tree, inner, self.extents, jam, (first, last), self.put, some)
            else:
                rows = Rows(self.dests[0], self.steps[0][jam.axis], self.width, first, last)
                lines = jam.by_lines(self.k.plan.lines)
                left = write_lines(e, tree, rows, lines, large, self.k.plan.ahead, self.address, self.put)
            if streams and len(inner) == 2:
                with nest(e, tree.index, inner[:-1], self.extents, part=(left, last)):
                    by_shifts(None)
                return
            parallel = Parallel(e, tree.is_rare, masked)
            with nest(e, tree.index, inner, self.extents, parallel.loop, (left, last)):
                self.put(parallel)
