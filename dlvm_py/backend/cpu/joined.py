"""Kernels with several roots, of which some are reductions to a number: one pass over the elements.

    piece ← the next elements, at most 1024          (one parallel loop for all roots)
        stores                                       are done there
        floating sums                                fill a buffer each, which blocks.py takes
        other reductions                             are folded there

Elements that are numbered, of trees of rank 1 or linear ones, are taken in such pieces; others row by row, in C order,
where a piece ends with its row as well. Each reduction has the bits that it has by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from dlvm_py.backend.cpu import blocks
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.folds import combine, fold_of
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.groups import MOST_BITS, cut, rows_of
from dlvm_py.backend.cpu.kernels import nest, versions
from dlvm_py.backend.cpu.pointers import is_open, offset, store_element, strides_of
from dlvm_py.backend.cpu.reductions import is_by_blocks, pays
from dlvm_py.backend.cpu.share import may_share, shared
from dlvm_py.backend.cpu.stores import Sink
from dlvm_py.backend.cpu.text import Parallel, plain_loop
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ZERO, V, i64
from dlvm_py.backend.cpu.widths import in_widths
from dlvm_py.frozen import Frozen
from dlvm_py.ir import DType, Instruction, Literal, TensorType
from dlvm_py.ir.analysis.cost import element_cost
from dlvm_py.ir.ops.combiners import identity_of

ROW = (1 << MOST_BITS) + 1  # results of groups


class _Reduction(Frozen):
    """One of the reductions: the place of its root, and, where its order is one of blocks, its number among those."""

    root: int
    dtype: DType
    by: str
    init: V
    number: int | None

    @property
    def types(self) -> list[str]:
        """The types of what is accumulated."""
        if self.number is None:
            return [scalar_type(self.dtype)]
        type, parts = blocks.lanes(self.dtype)
        return [type] * parts


def write_joined(e: FunctionEmitter, roots: Sequence[Instruction]) -> tuple[list[V | None], V]:
    """The code of stores and reductions that are joined; what each root gives, and the work."""
    kernel = _Joined(e, roots)
    results = iter(kernel.write())
    return [next(results) if i.op.name == "reduce" else None for i in roots], kernel.work


class _Joined:
    def __init__(self, e: FunctionEmitter, roots: Sequence[Instruction]) -> None:
        self.e, self.values = e, [i.operands[0] for i in roots]
        self.tree = Tree(e, *self.values)
        self.extents = tree_extents(e, self.values[0])
        self.work = e.product(self.extents)
        self.unit: list[V] = []  # conditions of strides
        self.sinks: list[tuple[int, Sink]] = []
        self.reductions: list[_Reduction] = []
        found = [(k, i) for k, i in enumerate(roots) if i.op.name == "reduce"]
        self.sums = [k for k, i in found if is_by_blocks(i.attrs["by"], i.type.dtype)]  # type: ignore[attr-defined]
        for k, i in enumerate(roots):
            if i.op.name == "store":
                self.sinks.append((k, Sink(e.pointer(i.operands[1]), i.operands[1].type.shape)))  # type: ignore[attr-defined]
                continue
            number = self.sums.index(k) if k in self.sums else None
            init = e.scalar(i.operands[1])
            self.reductions.append(_Reduction(k, i.type.dtype, i.attrs["by"], init, number))  # type: ignore[attr-defined]
        self.tree.linear = self.tree.rank > 1 and self._is_linear()
        self.tree.inner = 0 if self.tree.linear else self.tree.rank - 1
        for _, sink in self.sinks:
            step, size = strides_of(e, sink.dest)[self.tree.inner], i64(sink.dest.itemsize)
            if sink.dest.layout == "S" and is_open(e, step, size):
                self.unit.append(e.icmp("eq", step, size))

    def _is_linear(self) -> bool:
        """Whether the elements of all roots can be numbered: everything is as contiguous as everything else."""
        places = [(s.dest.layout, s.shape) for _, s in self.sinks]
        places += [(p.layout, self.values[0].type.shape) for p in self.tree.loads()]  # type: ignore[attr-defined]
        layout = places[0][0]
        return all(found == layout and self.tree.is_linear(layout, shape) for found, shape in places)

    def write(self) -> list[V]:
        """The numbers that the reductions give."""
        e, cost = self.e, sum(map(element_cost, self.values))
        if may_share(e, self.work, cost, pays(e, self.values[0], self.extents)):
            return self._write_shared(cost)
        slots = [[e.alloca(type) for type in r.types] for r in self.reductions]

        def write(fast: bool) -> None:
            for places, parts in zip(slots, self._span(ZERO, self.work), strict=True):
                for place, x in zip(places, parts, strict=True):
                    e.store(x, place)

        versions(e, self.tree, write, self.unit)
        results = []
        for r, places in zip(self.reductions, slots, strict=True):
            parts = [e.load(type, place) for type, place in zip(r.types, places, strict=True)]
            x = blocks.result(e, r.dtype, parts) if r.number is not None else parts[0]
            results.append(combine(e, r.by, r.dtype, x, r.init))
        return results

    def _write_shared(self, cost: int) -> list[V]:
        """The same by groups that threads share."""
        e = self.e
        groups = cut(e, self.work, cost)
        count = sum(len(r.types) for r in self.reductions)
        kept = e.kept(f"[{count * ROW} x i64]", 64)
        rows = iter([e.gep("i64", kept, i64(k * ROW)) for k in range(count)])
        partials = [[next(rows) for _ in r.types] for r in self.reductions]
        with shared(e, groups.count, groups.elements, cost) as part:
            first, last = part or (ZERO, groups.count)

            def write(fast: bool) -> None:
                with e.loop(e.op("sub nuw nsw", last, first)) as loop:
                    k = e.add(first, loop.index, "nuw nsw")
                    found = self._span(*groups.span(e, k))
                    for r, places, parts in zip(self.reductions, partials, found, strict=True):
                        for type, place, x in zip(r.types, places, parts, strict=True):
                            e.store(x, e.gep(type, place, k))

            versions(e, self.tree, write, self.unit)
        results = []
        for r, places in zip(self.reductions, partials, strict=True):
            if r.number is not None:
                total = blocks.reduce_groups(e, r.dtype, groups, places)
                results.append(combine(e, r.by, r.dtype, total, r.init))
                continue
            with e.loop(groups.count, [r.init], plain_loop(e)) as loop:
                x = e.load(r.types[0], e.gep(r.types[0], places[0], loop.index))
                loop.next = [combine(e, r.by, r.dtype, loop.carried[0], x)]
            results += loop.results
        return results

    def _span(self, first: V, last: V) -> list[list[V]]:
        """All elements from a first to a last number; what each reduction comes to.

        Its memory is made here: where threads share the code, each has its own.
        """
        e, count = self.e, len(self.sums)
        states = [None if r.number is None else blocks.Blocks(e, r.dtype, (r.number, count)) for r in self.reductions]
        totals = [e.alloca(scalar_type(r.dtype)) for r in self.reductions]
        for r, state, total in zip(self.reductions, states, totals, strict=True):
            if state is not None:
                state.begin()
            else:
                e.store(e.scalar(Literal(TensorType((), r.dtype), identity_of(r.by, r.dtype))), total)
        if self.tree.rank == 1 or self.tree.linear:
            self._numbered(first, last, states, totals)
        elif (first, last) == (ZERO, self.work):
            *outer, inner = range(self.tree.rank)
            with nest(e, self.tree.index, outer, self.extents):
                self._row(ZERO, self.extents[inner], states, totals)
        else:
            for low, high in rows_of(e, self.tree.index, range(self.tree.rank), self.extents, (first, last)):
                self._row(low, high, states, totals)
        return [
            [e.load(r.types[0], total)] if state is None else state.finish()
            for r, state, total in zip(self.reductions, states, totals, strict=True)
        ]

    def _numbered(self, first: V, last: V, states: Sequence[blocks.Blocks | None], totals: Sequence[V]) -> None:
        """Elements that are numbered, a block at a time where there are sums by blocks."""
        if not self.sums:
            self._piece(first, self.e.op("sub nsw", last, first), ZERO, states, totals)
            return
        e, size = self.e, i64(blocks.BLOCK)
        up = e.add(e.op("sub nsw", last, first), i64(blocks.BLOCK - 1))
        with e.loop(e.op("ashr", up, i64(blocks.BLOCK.bit_length() - 1))) as loop:
            start = e.add(first, e.mul(loop.index, size, "nuw nsw"), "nuw nsw")
            piece = e.minimum(e.op("sub nsw", last, start), size)
            self._piece(start, piece, ZERO, states, totals)
            for state in states:
                if state is not None:
                    state.flush(piece)

    def _row(self, first: V, last: V, states: Sequence[blocks.Blocks | None], totals: Sequence[V]) -> None:
        """The elements of a row, or of a part of it."""
        some = [state for state in states if state is not None]
        if not some:
            self._piece(first, self.e.op("sub nsw", last, first), ZERO, states, totals)
            return
        with blocks.pieces(self.e, some, first, last) as (start, filled, piece):
            self._piece(start, piece, filled, states, totals)

    def _piece(
        self, start: V, count: V, filled: V, states: Sequence[blocks.Blocks | None], totals: Sequence[V]
    ) -> None:
        """Elements along the innermost axis; the buffers hold `filled` elements before."""
        e, tree = self.e, self.tree
        both = list(zip(self.reductions, states, totals, strict=True))
        taken = [(r.root, state) for r, state, _ in both if state is not None]

        def put(parallel: Parallel, place: V) -> list[V]:
            tree.group = parallel.access
            return self._put(taken, parallel, e.add(filled, place, "nuw nsw") if filled != ZERO else place)

        folds = [(r, total) for r, state, total in both if state is None]
        if not folds:
            in_widths(e, tree, tree.inner, (start, e.add(start, count, "nuw nsw")), put)
            return
        rules = [fold_of(e, r.by, r.dtype, e.load(r.types[0], total), tree.is_rare) for r, total in folds]
        parallel = Parallel(e, tree.is_rare)
        with e.loop(count, [x for fold in rules for x in fold.begin], parallel.loop) as loop:
            tree.index[tree.inner] = e.add(start, loop.index, "nuw nsw")
            xs = put(parallel, loop.index)
            carried = iter(loop.carried)
            loop.next = [
                x
                for (r, _), fold in zip(folds, rules, strict=True)
                for x in fold.step(list(islice(carried, len(fold.begin))), xs[r.root])
            ]
        found = iter(loop.results)
        for (_, total), fold in zip(folds, rules, strict=True):
            e.store(fold.end(list(islice(found, len(fold.begin)))), total)

    def _put(self, taken: Sequence[tuple[int, blocks.Blocks]], parallel: Parallel, place: V) -> list[V]:
        """Store the elements at the tree's index, and what is reduced by blocks in the buffers; all of them."""
        e, tree = self.e, self.tree
        xs = tree.elements()
        axes = [0] if tree.linear else list(range(tree.rank))
        for k, sink in self.sinks:
            dest = sink.dest
            steps = list(strides_of(e, dest))
            size = i64(dest.itemsize)
            if tree.linear or (tree.fast and is_open(e, steps[tree.inner], size)):
                steps[tree.inner] = size
            address = offset(e, dest.data, [tree.index[k] for k in axes], [steps[k] for k in axes])
            store_element(e, dest.dtype, xs[k], address, dest.notes + parallel.access)
        for root, state in taken:
            state.put(xs[root], place, parallel)
        return list(xs)
