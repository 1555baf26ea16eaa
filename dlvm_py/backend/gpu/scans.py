"""Scans and recurrences: a thread each line along their axis, or blocks for lines that are long or lie side by side.

    y = cumsum x, by blocks         a block a chunk of a line, as many chunks as fill a device
    total of each chunk             (launches 1 and 2 only where there are more chunks than one)
    what is before each chunk       the totals before it, in order, a thread a line
    y                               tile by tile of 256 elements: a scan in shared memory behind what is before it

A thread's line has the order of the CPU. By blocks the order is another one, fixed by the extents, as that of sums is:
sums, integers, largest and smallest elements go so, but not products of floats, which might overflow where those in
order do not (fastmath=True allows it), and not recurrences. Source of the scan of a tile: Hillis and Steele, "Data
parallel algorithms" (1986).
"""

from __future__ import annotations

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import multiply_add
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, i64
from dlvm_py.backend.gpu.along import parts_in_memory
from dlvm_py.backend.gpu.elementwise import general
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import THREADS, Kernel, blocks_for, within
from dlvm_py.backend.gpu.reductions import Fold, block_memory, in_block, overlapped
from dlvm_py.ir import DType, Instruction

FAMILY, BY_BLOCKS = "scan", "scan by blocks"
# lines from which on a thread each fills a device, elements of a line that are worth a block, and a chunk
MANY, LONG, CHUNK = 4096, 512, 4096
# blocks that fill a device, and the most chunks of a line
ENOUGH, MOST_CHUNKS = 512, 256


def store_scan(h: HostEmitter, i: Instruction, dest: Pointer) -> None:
    """Write a scan or recurrence."""
    if not _may_go_by_blocks(i, dest.dtype, h.fastmath):
        _by_lines(h, i, dest)
        return
    axis = i.attrs["axes"][0]
    length, lines = dest.extents[axis], h.product([n for k, n in enumerate(dest.extents) if k != axis])
    tree = general(Kernel(h, FAMILY), i.operands[0])
    # threads of a line each read elements side by side where the axis is not the one along which memory runs
    worth = h.icmp("sge", length, i64(LONG))
    if tree.order()[-1] != axis:
        worth = h.both(worth, h.icmp("slt", lines, i64(MANY)))
    n = constant(length)
    if n is not None and n < LONG:
        _by_lines(h, i, dest)
        return
    with h.either(worth) as arms:
        next(arms)
        _Blocks(h, i, dest, axis, lines).write()
        next(arms)
        _by_lines(h, i, dest)


def _may_go_by_blocks(i: Instruction, dtype: DType, fastmath: bool) -> bool:
    if i.op.name != "scan" or dtype.is_narrow:
        return False
    return i.attrs["by"] != "multiply" or not dtype.is_inexact or fastmath


def _by_lines(h: HostEmitter, i: Instruction, dest: Pointer) -> None:
    """A thread a line, in the order of the CPU."""
    k = Kernel(h, FAMILY)
    to = k.pointer_of(dest)
    trees = [general(k, v) for v in i.operands]
    index = trees[0].index
    for tree in trees:
        tree.index = index
    axis = i.attrs["axis"] if i.op.name == "recurrence" else i.attrs["axes"][0]
    strides = strides_of(k, to)
    others = [n for n in range(to.rank) if n != axis]
    with k.grid(k.product([to.extents[n] for n in others])) as line:
        index.update(k.unravel(line.index, others, to.extents))
        with k.loop(to.extents[axis], [V(scalar_type(to.dtype), "zeroinitializer")]) as loop:
            index[axis] = loop.index
            *factor, x = (tree.element() for tree in trees)
            before = loop.carried[0]
            if factor:
                found = multiply_add(k, to.dtype, x, factor[0], before, "")
            else:
                found = TABLE[i.attrs["by"]][to.dtype.kind](k, to.dtype, {}, before, x)
            found = k.select(k.icmp("eq", loop.index, ZERO), x, found)
            store_element(k, to.dtype, found, offset(k, to.data, [index[n] for n in range(to.rank)], strides))
            loop.next = [found]
    h.launch(k, blocks_for(h, h.product([dest.extents[n] for n in others])))


class _Blocks:
    """A scan whose lines are cut into chunks, a block each."""

    def __init__(self, h: HostEmitter, i: Instruction, dest: Pointer, axis: int, lines: V) -> None:
        self.h, self.value, self.dest, self.axis, self.lines = h, i.operands[0], dest, axis, lines
        self.fold = Fold(dest.dtype, i.attrs["by"])
        wanted = h.op("udiv", i64(ENOUGH), h.select(h.icmp("sgt", lines, ONE), lines, ONE))
        worth = h.op("udiv", dest.extents[axis], i64(CHUNK))
        chunks = h.minimum(h.minimum(wanted, worth), i64(MOST_CHUNKS))
        self.chunks = h.select(h.icmp("sgt", chunks, ONE), chunks, ONE)

    def write(self) -> None:
        """One launch, or three."""
        h = self.h
        blocks = within(h, h.mul(self.lines, self.chunks))
        with parts_in_memory(h, self.chunks, self.lines, self.fold.wide.itemsize, self.dest.data) as totals:
            with h.when(h.icmp("ne", self.chunks, ONE)):
                h.launch(self._totals(totals), blocks)
                h.launch(self._before(totals), blocks_for(h, self.lines))
            h.launch(self._scan(totals), blocks)

    def _chunk(self, k: Kernel, to: Pointer, number: V, chunks: V) -> tuple[dict[int, V], V, V]:
        """Of the chunk with a number: the indices of its line, where it begins, and how many elements it has."""
        others = [n for n in range(to.rank) if n != self.axis]
        index = k.unravel(k.op("udiv", number, chunks), others, to.extents)
        length = to.extents[self.axis]
        size = k.op("udiv", k.add(length, k.op("sub", chunks, ONE)), chunks)
        first = k.minimum(k.mul(k.op("urem", number, chunks), size), length)
        return index, first, k.op("sub", k.minimum(k.add(first, size), length), first)

    def _totals(self, totals: V) -> Kernel:
        k, fold = Kernel(self.h, BY_BLOCKS), self.fold
        to, tree = k.pointer_of(self.dest), general(k, self.value)
        into, chunks = k.parameter(totals), k.parameter(self.chunks)
        shared = block_memory(k, fold)
        with k.strided(k.special("ctaid"), k.special("nctaid"), k.mul(k.parameter(self.lines), chunks)) as block:
            index, first, count = self._chunk(k, to, block.index, chunks)
            tree.index.update(index)
            # as often as threads go side by side through the chunk, which none of them leaves
            rest = k.op("sub", k.add(count, i64(THREADS - 1)), k.special("tid"))
            trips = k.op("ashr", rest, i64(THREADS.bit_length() - 1))
            with k.loop(trips, [fold.neutral()], overlapped(k, self.value)) as loop:
                place = k.add(k.mul(loop.index, i64(THREADS)), k.special("tid"))
                tree.index[self.axis] = k.add(first, place)
                loop.next = [fold.step(k, loop.carried[0], tree.element())]
            _, total = in_block(k, fold, loop.results[0], shared)
            with k.when(k.icmp("eq", k.special("tid"), ZERO)):
                store_element(k, fold.wide, total, offset(k, into, [block.index], [i64(fold.wide.itemsize)]))
        return k

    def _before(self, totals: V) -> Kernel:
        """In place: what is before each chunk of a line."""
        k, fold = Kernel(self.h, BY_BLOCKS), self.fold
        at, chunks, size = k.parameter(totals), k.parameter(self.chunks), i64(fold.wide.itemsize)
        with k.grid(k.parameter(self.lines)) as line, k.loop(chunks, [fold.neutral()]) as loop:
            place = offset(k, at, [k.add(k.mul(line.index, chunks), loop.index)], [size])
            x = load_element(k, fold.wide, place)
            store_element(k, fold.wide, loop.carried[0], place)
            loop.next = [fold.step(k, loop.carried[0], x)]
        return k

    def _scan(self, totals: V) -> Kernel:
        k, fold = Kernel(self.h, BY_BLOCKS), self.fold
        to, tree = k.pointer_of(self.dest), general(k, self.value)
        given, chunks = k.parameter(totals), k.parameter(self.chunks)
        strides, thread, size = strides_of(k, to), k.special("tid"), fold.wide.itemsize
        shared = k.shared_memory("i64", -(-2 * THREADS * size // 8))
        tiles = shared, k.gep("i8", shared, i64(THREADS * size))

        def slot(tile: V, n: V) -> V:
            return offset(k, tile, [n], [i64(size)])

        with k.strided(k.special("ctaid"), k.special("nctaid"), k.mul(k.parameter(self.lines), chunks)) as block:
            index, first, count = self._chunk(k, to, block.index, chunks)
            tree.index.update(index)
            neutral, found = fold.neutral(), []
            with k.either(k.icmp("eq", chunks, ONE)) as arms:
                next(arms)
                found.append((neutral, k.here))
                next(arms)
                found.append((load_element(k, fold.wide, offset(k, given, [block.index], [i64(size)])), k.here))
            before = k.phi(neutral.type)
            for x, end in found:
                before.add(x, end)
            with k.loop(k.op("udiv", k.add(count, i64(THREADS - 1)), i64(THREADS)), [before.value]) as loop:
                place = k.add(k.mul(loop.index, i64(THREADS)), thread)
                is_there = k.icmp("slt", place, count)
                tree.index[self.axis] = k.add(first, k.select(is_there, place, ZERO))
                x = k.select(is_there, tree.element(), neutral)
                current, other = tiles
                store_element(k, fold.wide, x, slot(current, thread))
                k.barrier()
                distance = 1
                while distance < THREADS:
                    has = k.icmp("sge", thread, i64(distance))
                    earlier = load_element(
                        k, fold.wide, slot(current, k.select(has, k.op("sub", thread, i64(distance)), thread))
                    )
                    x = k.select(has, fold.step(k, earlier, x), x)
                    store_element(k, fold.wide, x, slot(other, thread))
                    k.barrier()
                    current, other = other, current
                    distance *= 2
                with k.when(is_there):
                    at = [tree.index[n] for n in range(to.rank)]
                    store_element(k, to.dtype, fold.step(k, loop.carried[0], x), offset(k, to.data, at, strides))
                last = load_element(k, fold.wide, slot(current, i64(THREADS - 1)))
                # before the memory is used again
                k.barrier()
                loop.next = [fold.step(k, loop.carried[0], last)]
        return k
