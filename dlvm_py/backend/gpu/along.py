"""Reductions along axes, unbroadcast: threads side by side read elements side by side, whichever axes are reduced.

    terms few, or results many side by side     a thread a result, its terms in order
    the inner axis is reduced (rows)            a warp a result, the block where rows are long or few, 8 threads where
                                                they are short and many
    the inner axis is kept (columns)            a lane of each of the block's warps a result, 32 of them side by side
    too few results to fill a device            their terms in parts, a block each; a second launch combines the parts
    products of floats (reductions.py)          a thread a result, its terms in order

The inner axis is that along which most leaves lie in memory. How terms are shared, and so their order, depends on the
extents alone. Unknown extents choose at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.kernels import loop_order, memory_order
from dlvm_py.backend.cpu.memory import release
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import Label
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import NULL, ONE, ZERO, V, constant, i64
from dlvm_py.backend.gpu.elementwise import general, store_tree
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import THREADS, WARP, WARPS, Kernel, blocks_for, within
from dlvm_py.backend.gpu.reductions import Fold, block_memory, keeps_order, of_warps, overlapped
from dlvm_py.ir import Instruction, PointerType, Value

FAMILY = "reduction along axes"
# results in columns from which on a thread each fills a device
MANY = 1 << 17
# blocks that fill a device, and rows that do, a warp each; the longest row for a warp
ENOUGH, SHORT = 512, 2048
# threads of a short row, which has up to so many terms for each of them
LANES = 8
# terms that are worth a part, and the most parts
PART, MOST_PARTS = 8192, 256


def store_reduce(h: HostEmitter, i: Instruction, dest: Pointer) -> None:
    """Write a reduction along some axes to `dest`."""
    value, init = i.operands[0], h.scalar(i.operands[1])
    extents, reduced = tree_extents(h, value), set(i.attrs["axes"])
    kept = [n for n in range(len(extents)) if n not in reduced]
    along = {n: m for n, m in enumerate(extents) if n in reduced}
    _Reduction(h, value, dest, Fold(dest.dtype, i.attrs["by"]), kept, along, init).write()


def store_unbroadcast(h: HostEmitter, i: Instruction, dest: Pointer, type: PointerType) -> None:
    """Write an unbroadcast: a copy for equal extents, else sums along the axes that dest has not."""
    value = i.operands[0]
    pairs = {n: (a, b) for n, (a, b) in enumerate(zip(tree_extents(h, value), dest.extents, strict=True)) if a != b}
    if not pairs:
        store_tree(h, value, dest, type.shape)
        return
    same = {n: h.icmp("eq", a, b) for n, (a, b) in pairs.items()}
    along = {n: h.select(flag, ONE, pairs[n][0]) for n, flag in same.items()}
    with h.either(h.both(*same.values())) as arms:
        next(arms)
        store_tree(h, value, dest, type.shape)
        next(arms)
        _Reduction(h, value, dest, Fold(dest.dtype, "add"), list(range(dest.rank)), along, None).write()


def store_sum(h: HostEmitter, value: Value, dest: Pointer, axis: int, add: str) -> None:
    """Write the sums of a tree along an axis, from 0. add: "add" them to, or "subtract" them from, dest."""
    extents, zero = tree_extents(h, value), V(scalar_type(dest.dtype), "zeroinitializer")
    kept = [n for n in range(len(extents)) if n != axis]
    _Reduction(h, value, dest, Fold(dest.dtype, "add"), kept, {axis: extents[axis]}, zero, add).write()


@contextmanager
def parts_in_memory(h: HostEmitter, parts: V, count: V, itemsize: int, otherwise: V) -> Iterator[V]:
    """The address of memory for `count` × `parts` values, while it lasts; `otherwise` where there is one part."""
    found: list[tuple[V, V, Label]] = []
    with h.either(h.icmp("eq", parts, ONE)) as arms:
        next(arms)
        found.append((NULL, otherwise, h.here))
        next(arms)
        header = h.allocate(h.mul(h.mul(count, parts), i64(itemsize)))
        found.append((header, h.data_of(header), h.here))
    headers, data = h.phi("ptr"), h.phi("ptr")
    for header, at, end in found:
        headers.add(header, end)
        data.add(at, end)
    yield data.value
    with h.when(h.icmp("ne", parts, ONE)):
        release(h, headers.value)


class _Reduction:
    """The elements of a tree folded, with `init`, into `dest`: written, or by `add` combined with what is there.

    kept: the axis of the tree that each axis of dest is. along: how far each axis is followed for one result (for the
    host); one of both begins at the index of dest, which is 0 where it is followed.
    """

    def __init__(
        self,
        h: HostEmitter,
        value: Value,
        dest: Pointer,
        fold: Fold,
        kept: Sequence[int],
        along: dict[int, V],
        init: V | None,
        add: str = "",
    ) -> None:
        self.h, self.value, self.dest, self.fold = h, value, dest, fold
        self.kept, self.along, self.init, self.add = kept, along, init, add
        self.results, self.terms = h.product(dest.extents), h.product(list(along.values()))

    def write(self) -> None:
        """Choose between a thread a result and several by the extents, now where they are known."""
        if keeps_order(self.h, self.fold):
            self._by_threads()
            return
        h, tree = self.h, general(Kernel(self.h, FAMILY), self.value)
        # whether elements side by side in memory are of one result, or of results side by side
        inner = loop_order([*tree_extents(tree.e, self.value)], tree.order())[-1]
        in_rows = inner in self.along
        few = h.icmp("slt", self.terms, i64(WARP))
        if not in_rows:
            few = h.any(few, h.icmp("sge", self.results, i64(MANY)))
        terms, results = constant(self.terms), constant(self.results)
        if terms is not None and (terms < WARP or (not in_rows and results is not None and results >= MANY)):
            self._by_threads()
        elif terms is not None and (in_rows or results is not None):
            self._together(inner)
        else:
            with h.either(few) as arms:
                next(arms)
                self._by_threads()
                next(arms)
                self._together(inner)

    # -- the parts of their kernels ------------------------------------------------------------------------

    def _store(self, k: Kernel, to: Pointer, total: V, address: V) -> None:
        x = self.fold.result(k, total)
        if self.init is not None:
            x = TABLE[self.fold.by][self.fold.dtype.kind](k, self.fold.dtype, {}, x, k.parameter(self.init))
        if self.add:
            x = TABLE[self.add][to.dtype.kind](k, to.dtype, {}, load_element(k, to.dtype, address), x)
        store_element(k, to.dtype, x, address)

    def _place(self, k: Kernel, to: Pointer, index: V, order: Sequence[int]) -> tuple[V, dict[int, V]]:
        """Where a result goes, by its number, and the indices of the tree that it begins at."""
        own = k.unravel(index, order, to.extents)
        first = dict.fromkeys(range(len(self.kept) + len(self.along)), ZERO)
        first |= {n: own[axis] for axis, n in enumerate(self.kept)}
        return offset(k, to.data, [own[axis] for axis in range(to.rank)], strides_of(k, to)), first

    def _element(self, k: Kernel, tree: Tree, first: dict[int, V], moved: dict[int, V]) -> V:
        tree.index.update({n: k.add(first[n], moved.get(n, ZERO)) for n in range(tree.rank)})
        return self.fold.widened(k, tree.element())

    # -- a thread a result ---------------------------------------------------------------------------------

    def _by_threads(self) -> None:
        h, fold = self.h, self.fold
        k = Kernel(h, FAMILY)
        to, tree = k.pointer_of(self.dest), general(k, self.value)
        along = {n: k.parameter(m) for n, m in self.along.items()}

        def follow(axes: list[int], first: dict[int, V], moved: dict[int, V], total: V) -> V:
            if not axes:
                return fold.step(k, total, self._element(k, tree, first, moved))
            with k.loop(along[axes[0]], [total]) as loop:
                loop.next = [follow(axes[1:], first, {**moved, axes[0]: loop.index}, loop.carried[0])]
            return loop.results[0]

        with k.grid(k.product(to.extents)) as loop:
            address, first = self._place(k, to, loop.index, loop_order(to.extents, memory_order(to)))
            self._store(k, to, follow(list(along), first, {}, fold.neutral()), address)
        h.launch(k, blocks_for(h, self.results))

    # -- several threads a result ----------------------------------------------------------------------------

    def _together(self, inner: int) -> None:
        """One launch, or two where there are too few results for it to fill a device."""
        h, in_rows = self.h, inner in self.along
        if in_rows:
            warps = h.both(h.icmp("sle", self.terms, i64(SHORT)), h.icmp("sge", self.results, i64(ENOUGH)))
            some = h.both(
                h.icmp("sle", self.terms, i64(LANES * LANES)), h.icmp("sge", self.results, i64(MANY // LANES))
            )
            lanes = h.select(some, i64(LANES.bit_length() - 1), i64(WARP.bit_length() - 1))
            digits = h.select(warps, lanes, i64(THREADS.bit_length() - 1))
            each = h.op("lshr", i64(THREADS), digits)
        else:
            digits, each = ZERO, i64(WARP)
        blocks = h.op("udiv", h.add(self.results, h.op("sub", each, ONE)), each)
        wanted = h.op("udiv", i64(ENOUGH), h.select(h.icmp("sgt", blocks, ONE), blocks, ONE))
        worth = h.op("udiv", self.terms, i64(PART if in_rows else PART // WARP))
        parts = h.minimum(h.minimum(wanted, worth), i64(MOST_PARTS))
        parts = h.select(h.icmp("sgt", parts, ONE), parts, ONE)
        launched = within(h, h.mul(blocks, parts))
        size = self.fold.wide.itemsize
        with parts_in_memory(h, parts, self.results, size, self.dest.data) as partials:
            h.launch(self._kernel(inner, digits, parts, partials), launched)
            with h.when(h.icmp("ne", parts, ONE)):
                self._fold_parts(inner, parts, partials)

    def _order(self, k: Kernel, to: Pointer, inner: int) -> list[int]:
        """The axes of dest in the order in which results are numbered: the tree's inner one last."""
        order = memory_order(to)
        if inner in self.kept:
            order.append(order.pop(order.index(self.kept.index(inner))))
        return loop_order(to.extents, order)

    def _kernel(self, inner: int, digits: V, parts: V, partials: V) -> Kernel:
        """Threads side by side take elements side by side.

        In rows 2^digits threads, LANES, a warp or the block, take a result; else each lane of a warp one of 32.
        `partials`: where the parts of results go, number 0 of all of them first, if there is more than one.
        """
        fold, in_rows = self.fold, inner in self.along
        k = Kernel(self.h, FAMILY)
        to, tree = k.pointer_of(self.dest), general(k, self.value)
        along = {n: k.parameter(m) for n, m in self.along.items()}
        into = k.parameter(partials)
        results, terms, number = k.parameter(self.results), k.parameter(self.terms), k.parameter(parts)
        thread = k.special("tid")
        lane, warp = k.op("and", thread, i64(WARP - 1)), k.op("lshr", thread, i64(WARP.bit_length() - 1))
        size = i64(fold.wide.itemsize)
        if in_rows:
            shift = k.parameter(digits)
            group, mine = k.op("lshr", thread, shift), k.op("shl", ONE, shift)
            own, each = k.op("and", thread, k.op("sub", mine, ONE)), k.op("lshr", i64(THREADS), shift)
            shared = block_memory(k, fold)
        else:
            group, own, mine, each = lane, warp, i64(WARPS), i64(WARP)
            shared = k.shared_memory("i64", -(-THREADS * fold.wide.itemsize // 8))
        blocks = k.op("udiv", k.add(results, k.op("sub", each, ONE)), each)
        size_of_part = k.op("udiv", k.add(terms, k.op("sub", number, ONE)), number)
        # the innermost axis runs fastest through the terms of a result
        axes = [n for n in tree.order() if n in along and constant(along[n]) != 1]
        with k.strided(k.special("ctaid"), k.special("nctaid"), k.mul(blocks, number)) as block:
            part = k.op("udiv", block.index, blocks)
            index = k.add(k.mul(k.op("urem", block.index, blocks), each), group)
            is_one = k.icmp("slt", index, results)
            address, first = self._place(k, to, k.select(is_one, index, ZERO), self._order(k, to, inner))
            begin = k.mul(part, size_of_part)
            count = k.op("sub", k.minimum(k.add(begin, size_of_part), terms), begin)
            # how many terms are the thread's
            rest = k.add(k.op("sub", count, own), k.op("sub", mine, ONE))
            trips = k.op("lshr", rest, shift) if in_rows else k.op("ashr", rest, i64(WARPS.bit_length() - 1))
            trips = k.select(k.both(is_one, k.icmp("sgt", count, own)), trips, ZERO)
            with k.loop(trips, [fold.neutral()], overlapped(k, self.value)) as loop:
                term = k.add(begin, k.add(own, k.mul(loop.index, mine)))
                moved = k.unravel(term, axes, [along.get(n, ONE) for n in range(tree.rank)])
                loop.next = [fold.step(k, loop.carried[0], self._element(k, tree, first, moved))]
            total = loop.results[0]
            if in_rows:
                total = self._in_row(k, total, mine, shared)
            else:
                total = _down_columns(k, fold, total, shared, lane, warp)
            with k.when(k.both(is_one, k.icmp("eq", own, ZERO))):
                with k.either(k.icmp("eq", number, ONE)) as arms:
                    next(arms)
                    self._store(k, to, total, address)
                    next(arms)
                    place = k.add(k.mul(part, results), index)
                    store_element(k, fold.wide, total, offset(k, into, [place], [size]))
        return k

    def _in_row(self, k: Kernel, total: V, mine: V, shared: V) -> V:
        """The values of `mine` threads side by side combined, in the first of them."""
        delta = WARP // 2
        while delta:
            both = self.fold.step(k, total, k.shuffle_down(total, delta))
            total = both if delta < LANES else k.select(k.icmp("sgt", mine, i64(delta)), both, total)
            delta //= 2
        found: list[tuple[V, Label]] = []
        with k.either(k.icmp("eq", mine, i64(THREADS))) as arms:
            next(arms)
            found.append((of_warps(k, self.fold, total, shared), k.here))
            next(arms)
            found.append((total, k.here))
        result = k.phi(total.type)
        for x, end in found:
            result.add(x, end)
        return result.value

    def _fold_parts(self, inner: int, parts: V, partials: V) -> None:
        """The launch that combines the parts of each result, in their order."""
        h, fold = self.h, self.fold
        k = Kernel(h, FAMILY)
        to, given, results = k.pointer_of(self.dest), k.parameter(partials), k.parameter(self.results)
        size = i64(fold.wide.itemsize)
        count = k.parameter(parts)
        with k.grid(results) as mine:
            address, _ = self._place(k, to, mine.index, self._order(k, to, inner))
            with k.loop(count, [fold.neutral()]) as loop:
                place = k.add(k.mul(loop.index, results), mine.index)
                x = load_element(k, fold.wide, offset(k, given, [place], [size]))
                loop.next = [fold.step(k, loop.carried[0], x)]
            self._store(k, to, loop.results[0], address)
        h.launch(k, blocks_for(h, self.results))


def _down_columns(k: Kernel, fold: Fold, total: V, shared: V, lane: V, warp: V) -> V:
    """The values of the lane in all warps combined, in the first warp."""
    size = fold.wide.itemsize
    steps = [i64(WARP * size), i64(size)]
    store_element(k, fold.wide, total, offset(k, shared, [warp, lane], steps))
    k.barrier()
    for other in range(1, WARPS):
        total = fold.step(k, total, load_element(k, fold.wide, offset(k, shared, [i64(other), lane], steps)))
    # before the memory is used again
    k.barrier()
    return total
