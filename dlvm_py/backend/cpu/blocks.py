"""The fixed order of floating sums: blocks of 1024 in vector lanes, then a pairwise tree.

    buffer ← the next elements of the tree, at most 1024          (a plain parallel loop)
    x ← lanes(buffer)                                              4 vectors of 64 bytes, one accumulator a lane
    counter: like adding 1 to a binary number, carries combine     (as in pairwise summation, error O(log n))

Only the lanes of one block are combined in an order that is LLVM's: a fixed tree of shuffles on a given CPU.
f16 is accumulated in f32, as in NumPy; so is bf16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dlvm_py.backend.cpu import block_sums
from dlvm_py.backend.cpu.block_sums import at_once, neutral, size_of
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.floating import rounded, widened
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.groups import Groups, Span, rows_of
from dlvm_py.backend.cpu.kernels import nest
from dlvm_py.backend.cpu.pointers import offset
from dlvm_py.backend.cpu.text import Parallel, plain_loop
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, i64
from dlvm_py.backend.cpu.widths import in_widths
from dlvm_py.ir import DType

BLOCK = 1024
APART = 80  # elements between the buffers: what is written at once has addresses that differ in their last 12 bits
LEVELS = 64  # of the counter: more blocks than 2^64 do not exist


def reduce(e: FunctionEmitter, tree: Tree, order: Sequence[int], extents: Sequence[V]) -> V:
    """The sum of the elements over the loop axes `order`; of complex numbers part by part.

    Rows that are summed again and again may be short: fewer elements than the vectors of a block take at once are added
    one after the other there as well, and need neither the buffer nor the counter.
    """
    dtype = tree.root.type.dtype  # type: ignore[attr-defined]
    *outer, inner = order
    length, most = extents[inner], at_once(lanes(dtype)[0]) - 1
    if outer or not (e.depth > 0 or len(order) < tree.rank) or (constant(length) or 0) > most:
        return result(e, dtype, _in_blocks(e, tree, order, extents))
    if constant(length) is not None:
        return result(e, dtype, _one_by_one(e, tree, inner, length))
    type, parts = lanes(dtype)
    totals = [e.alloca(type) for _ in range(parts)]
    with e.either(e.icmp("sle", length, i64(most))) as arms:
        for sums in (lambda: _one_by_one(e, tree, inner, length), lambda: _in_blocks(e, tree, order, extents)):
            next(arms)
            for x, place in zip(sums(), totals, strict=True):
                e.store(x, place)
    return result(e, dtype, [e.load(type, place) for place in totals])


def _in_blocks(e: FunctionEmitter, tree: Tree, order: Sequence[int], extents: Sequence[V]) -> list[V]:
    blocks = Blocks(e, tree.root.type.dtype)  # type: ignore[attr-defined]
    blocks.begin()
    *outer, inner = order
    with nest(e, tree.index, outer, extents):
        blocks.take(tree, order, extents, ZERO, extents[inner])
    return blocks.finish()


def _one_by_one(e: FunctionEmitter, tree: Tree, axis: int, length: V) -> list[V]:
    """The sums of a short row."""
    type, count = lanes(tree.root.type.dtype)  # type: ignore[attr-defined]
    tree.group = ""
    with e.loop(length, [neutral(type)] * count, plain_loop(e)) as loop:
        tree.index[axis] = loop.index
        x = accumulated(e, type, count, tree.element())
        loop.next = [e.fop("fadd", total, part) for total, part in zip(loop.carried, x, strict=True)]
    return loop.results


def accumulated(e: FunctionEmitter, type: str, parts: int, x: V) -> list[V]:
    """An element as what is accumulated: its parts, in the type of the lanes."""
    found = [e.extract(x, k, type) for k in (0, 1)] if parts == 2 else [x]
    return [widened(e, v) if v.type != type else v for v in found]


def lanes(dtype: DType) -> tuple[str, int]:
    """The type that is accumulated, and how many accumulators an element has."""
    return "double" if dtype.real.bits == 64 else "float", 2 if dtype.is_complex else 1


def result(e: FunctionEmitter, dtype: DType, totals: Sequence[V]) -> V:
    """A number of a dtype, of what is accumulated for it."""
    if dtype.is_complex:
        return e.pack(*totals)
    return rounded(e, totals[0], scalar_type(dtype)) if dtype.is_narrow else totals[0]


def reduce_group(
    e: FunctionEmitter, tree: Tree, order: Sequence[int], extents: Sequence[V], span: Span, to: Sequence[V]
) -> None:
    """The sums of a group of blocks, the elements of `span`, written to the addresses `to`."""
    blocks = Blocks(e, tree.root.type.dtype)  # type: ignore[attr-defined]
    blocks.begin()
    for first, last in rows_of(e, tree.index, order, extents, span):
        blocks.take(tree, order, extents, first, last)
    for total, place in zip(blocks.finish(), to, strict=True):
        e.store(total, place)


def reduce_groups(e: FunctionEmitter, dtype: DType, groups: Groups, partials: Sequence[V]) -> V:
    """The sum of everything, of the results of groups: the bits are those of `reduce`."""
    blocks = Blocks(e, dtype)
    sums = [
        block_sums.total_of_groups(e, blocks.type, levels, partial, groups.complete, groups.count)
        for levels, partial in zip(blocks.levels, partials, strict=True)
    ]
    return result(e, dtype, sums)


class Blocks:
    """The run-time state of one reduction: buffer and its fill, the counter and its levels; both for each part.

    place: which of how many it is, where several run at the same time.
    """

    def __init__(self, e: FunctionEmitter, dtype: DType, place: tuple[int, int] = (0, 1)) -> None:
        type, parts = lanes(dtype)
        at, several = place
        self.e, self.type = e, type
        self.size = size_of(type)
        # no kernel runs inside another: all of a function share one buffer a type
        self.buffers, self.levels = (
            [
                e.gep(
                    type,
                    e.scratch(f"[{several * parts} x [{n + APART} x {type}]]", 64),
                    i64((at * parts + k) * (n + APART)),
                )
                for k in range(parts)
            ]
            for n in (BLOCK, LEVELS)
        )
        self.filled, self.count = e.alloca("i64"), e.alloca("i64")
        self.has_rest = False  # whether anything is put into the buffers: where nothing is, LLVM leaves them away

    def begin(self) -> None:
        """No elements yet."""
        self.e.store(ZERO, self.filled)
        self.e.store(ZERO, self.count)

    def take(self, tree: Tree, order: Sequence[int], extents: Sequence[V], first: V, last: V) -> None:
        """Take the elements from `first` to `last` along the innermost axis of `order`."""
        *outer, inner = order
        dtype = tree.root.type.dtype  # type: ignore[attr-defined]
        is_plain = dtype.is_float and dtype.bits > 16 and tree.is_unit_load()
        if is_plain and all(constant(extents[k]) == 1 for k in outer):
            self._contiguous_row(tree, inner, first, last)
        else:
            self._row(tree, inner, first, last)

    def _row(self, tree: Tree, inner: int, first: V, last: V) -> None:
        """Append the elements along the innermost axis to the buffer, in pieces that fit it."""
        with pieces(self.e, [self], first, last) as (start, filled, piece):
            self._fill(tree, inner, start, filled, piece)

    def _contiguous_row(self, tree: Tree, inner: int, first: V, last: V) -> None:
        """Take the only row of a tree that is a contiguous load from where it lies: same blocks, no buffer."""
        e = self.e
        count = last if first == ZERO else e.op("sub nsw", last, first)
        blocks = e.op("ashr", e.add(count, i64(BLOCK - 1)), i64(BLOCK.bit_length() - 1))
        tree.group = ""
        with e.loop(blocks) as loop:
            start = e.add(first, e.mul(loop.index, i64(BLOCK), "nuw nsw"), "nuw nsw")
            tree.index[inner] = start
            piece = e.minimum(e.op("sub nsw", last, start), i64(BLOCK))
            self._add([tree.root_address()], piece)

    def _fill(self, tree: Tree, inner: int, start: V, filled: V, piece: V) -> None:
        e = self.e

        def put(parallel: Parallel, place: V) -> None:
            tree.group = parallel.access
            self.put(tree.element(), e.add(filled, place, "nsw"), parallel)

        in_widths(e, tree, inner, (start, e.add(start, piece, "nsw")), put)

    def put(self, x: V, at: V, parallel: Parallel) -> None:
        """Write one element to a place of the buffer."""
        e, self.has_rest = self.e, True
        for buffer, part in zip(self.buffers, accumulated(e, self.type, len(self.buffers), x), strict=True):
            e.store(part, offset(e, buffer, [at], [i64(self.size)]), parallel.access)

    def flush(self, filled: V) -> None:
        """The elements of the buffer are a block."""
        self._add(self.buffers, filled)
        self.e.store(ZERO, self.filled)

    def _add(self, starts: Sequence[V], n: V) -> None:
        """The next block lies at `starts`."""
        e = self.e
        count = e.load("i64", self.count)
        for levels, start in zip(self.levels, starts, strict=True):
            block_sums.add_block(e, self.type, levels, count, start, n)
        e.store(e.add(count, ONE), self.count)

    def finish(self) -> list[V]:
        """The end: what is in the buffer is one more block, and all of them are combined."""
        e = self.e
        count, filled = e.load("i64", self.count), e.load("i64", self.filled) if self.has_rest else ZERO
        rests = self.buffers if self.has_rest else [V("ptr", "null")] * len(self.buffers)
        parts = zip(self.levels, rests, strict=True)
        return [block_sums.total(e, self.type, levels, count, rest, filled) for levels, rest in parts]


@contextmanager
def pieces(e: FunctionEmitter, states: Sequence[Blocks], first: V, last: V) -> Iterator[tuple[V, V, V]]:
    """A loop over the pieces of a row that fit the buffers of reductions, which are equally full.

    Gives where a piece begins, what the buffers hold by then, and how many elements the piece has.
    """
    head, body, done = e.label("head"), e.label("piece"), e.label("done")
    before = e.here
    e.br(head)
    e.place(head)
    start = e.phi("i64")
    start.add(first, before)
    e.cond_br(e.icmp("slt", start.value, last), body, done)
    e.place(body)
    filled = e.load("i64", states[0].filled)
    piece = e.minimum(e.op("sub nsw", last, start.value), e.op("sub nsw", i64(BLOCK), filled))
    yield start.value, filled, piece
    now = e.add(filled, piece, "nsw")
    for state in states:
        e.store(now, state.filled)
    with e.when(e.icmp("eq", now, i64(BLOCK))):
        for state in states:
            state.flush(now)
    start.add(e.add(start.value, piece, "nsw"), e.here)
    e.br(head)
    e.place(done)
