"""Sorting integers or f64 in vectors: blocks by a network, then runs by merging two groups of vectors at a time.

The source is left as it is, so that who calls can look at the order in which the elements came. Nothing branches on
what is compared: a network of comparisons sorts the columns of eight vectors, they are turned, and neighbours are
merged until a block is one run, then blocks until there are four in one. Longer runs are merged by groups of 16: of all
that was read the smaller half is written, and the next group comes from the run whose first element is smaller.
Elements that are equal are the same here: who needs them in order of their places packs these into the integers
(argsort.py).
Sources: Knuth, The Art of Computer Programming 3, 5.3.4 (networks; merge exchange); Chhugani et al., Efficient
implementation of sorting on multi-core SIMD CPU architecture, VLDB 2008 (runs by groups of vectors).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.lanes import shuffled, transposed
from dlvm_py.backend.cpu.values import ONE, V, float_constant, i64

LANES = 8  # of a vector, at most
ROWS = 8  # vectors of a block
BLOCK = ROWS * LANES
GROUP = 16  # elements that are merged at a time

AVX2 = 256  # bits of a vector where there are none of 512

BUFFERS = 3  # the source, and two to sort in
# elements behind the last one that buffers have: up to two whole blocks, and a group that is looked at in vain
SLACK = 2 * BLOCK + GROUP

# of a function that sorts
SIGNATURE = ("ptr", ("ptr", "ptr", "ptr", "i64"))


def merge_sort(e: Code, type: str) -> str:
    """A function that sorts i32, i64 or double: `ptr (ptr source, ptr a, ptr b, i64 n)`, where they are: in a or b.

    No double is NaN, and a zero may come out with either sign. All three have room for SLACK elements more than n; what
    is behind the n of the source is overwritten.
    """
    return "@" + helper(e, f"dlvm.merges.{type}", *SIGNATURE, lambda c: Merges(c, type).write())


class Merges:
    """The code of the function for one type of elements."""

    def __init__(self, c: Code, type: str) -> None:
        self.c = c
        self.type = type
        self.is_float, bits = type == "double", bits_of(type)
        # a register each: of the halves of longer vectors LLVM exchanges each with the other, twice
        self.lanes = LANES if c.module.masks else min(LANES, AVX2 // bits)
        # AVX2 has no smaller and larger one of integers of 64 bits
        self.has_extremes = c.module.masks or bits < 64 or self.is_float
        self.block, self.group = ROWS * self.lanes, GROUP // self.lanes
        self.vector = f"<{self.lanes} x {type}>"
        self.align = f", align {bits // 8}"

    def write(self) -> None:
        c = self.c
        source, a, b, n = c.params
        largest = extremes(self.type)[1]
        # one, or an even number
        pairs = c.op("lshr", c.add(n, i64(2 * self.block - 1)), i64(self.block.bit_length()))
        blocks = c.select(c.icmp("sgt", n, i64(self.block)), c.op("shl", pairs, ONE), ONE)
        end = c.mul(blocks, i64(self.block))
        with c.either(c.icmp("sle", n, i64(self.lanes))) as arms:
            next(arms)
            with c.loop(c.op("sub", i64(self.lanes), n)) as loop:
                c.store(largest, c.gep(self.type, source, c.add(n, loop.index)))
            self.store(self.sorted_row(self.load(source)), a)
            next(arms)
            with c.loop(c.op("sub", end, n)) as loop:
                c.store(largest, c.gep(self.type, source, c.add(n, loop.index)))
            with c.loop(blocks) as loop:
                at = c.mul(loop.index, i64(self.block))
                self._block(c.gep(self.type, source, at), c.gep(self.type, a, at))
            for rows in (ROWS, 2 * ROWS):
                size = 2 * rows * self.lanes
                with c.loop(c.op("udiv", end, i64(size))) as loop:
                    self._merge_pair(c.gep(self.type, a, c.mul(loop.index, i64(size))), rows)
        # sweeps until runs of four times 2^k blocks cover all
        sweeps = c.bit_length(c.op("lshr", c.op("sub", blocks, ONE), i64(2)))
        sweeps = c.select(c.icmp("sgt", blocks, ONE), sweeps, i64(0))
        with c.loop(sweeps, [i64(4 * self.block), a, b]) as sweep:
            width, here, there = sweep.carried
            twice = c.op("shl", width, ONE)
            runs = c.op("udiv", c.op("add", end, c.op("sub", twice, ONE)), twice)
            with c.loop(runs) as run:
                low = c.mul(run.index, twice)
                middle = c.minimum(c.add(low, width), end)
                self._merge_runs(here, there, low, middle, c.minimum(c.add(low, twice), end))
            sweep.next = [twice, there, here]
        c.line(f"ret ptr {sweep.results[1].ref}")

    # -- blocks and runs -----------------------------------------------------------------------------

    def _block(self, source: V, target: V) -> None:
        rows = [self.load(source, k * self.lanes) for k in range(ROWS)]
        for i, j in _merge_exchange(ROWS):
            rows[i], rows[j] = self.ordered(rows[i], rows[j])
        squares = [transposed(self.c, rows[k : k + self.lanes]) for k in range(0, ROWS, self.lanes)]
        runs = [list(run) for run in zip(*squares, strict=True)]
        while len(runs) > 1:
            runs = [self._merged(a, b) for a, b in zip(runs[0::2], runs[1::2], strict=True)]
        for k, row in enumerate(runs[0]):
            self.store(row, target, k * self.lanes)

    def _merge_pair(self, address: V, rows: int) -> None:
        """Two runs of as many vectors, beside one another, in their place: few enough for a network."""
        runs = [self.load(address, k * self.lanes) for k in range(2 * rows)]
        for k, row in enumerate(self._merged(runs[:rows], runs[rows:])):
            self.store(row, address, k * self.lanes)

    def _merge_runs(self, source: V, target: V, low: V, middle: V, high: V) -> None:
        """source[low:middle] and source[middle:high], both in order and of whole groups, to target[low:high]."""
        c, size = self.c, GROUP
        first = [self.load(c.gep(self.type, source, low), k * self.lanes) for k in range(self.group)]
        groups = c.op("sub", c.op("sdiv exact", c.op("sub", high, low), i64(size)), ONE)
        with c.loop(groups, [c.add(low, i64(size)), middle, *first]) as loop:
            left, right, *kept = loop.carried
            a, b = (c.load(self.type, c.gep(self.type, source, k)) for k in (left, right))
            is_first = c.fcmp("ole", a, b) if self.is_float else c.icmp("sle", a, b)
            rest = c.any(c.icmp("sge", right, high), is_first)
            is_left = c.both(c.icmp("slt", left, middle), rest)
            taken = c.gep(self.type, source, c.select(is_left, left, right))
            merged = self._merged(kept, [self.load(taken, k * self.lanes) for k in range(self.group)])
            out = c.gep(self.type, target, c.add(low, c.mul(loop.index, i64(size))))
            for k, row in enumerate(merged[: self.group]):
                self.store(row, out, k * self.lanes)
            step = c.op("shl", c.cast("zext", is_left, "i64"), i64(size.bit_length() - 1))
            loop.next = [c.add(left, step), c.add(right, c.op("sub", i64(size), step)), *merged[self.group :]]
        for k, row in enumerate(loop.results[2:]):
            self.store(row, c.gep(self.type, target, c.op("sub", high, i64(size))), k * self.lanes)

    # -- networks ------------------------------------------------------------------------------------

    def _merged(self, a: Sequence[V], b: Sequence[V]) -> list[V]:
        """Two runs of as many vectors as one."""
        backwards = [shuffled(self.c, row, row, range(self.lanes)[::-1]) for row in reversed(b)]
        low, high = zip(*(self.ordered(x, y) for x, y in zip(a, backwards, strict=True)), strict=True)
        return [*self._bitonic(low), *self._bitonic(high)]

    def _bitonic(self, rows: Sequence[V]) -> list[V]:
        """Vectors whose elements go up, then down, or the other way round, in order."""
        if len(rows) == 1:
            return [self._cleaned(rows[0], self.lanes // 2)]
        half = len(rows) // 2
        low, high = zip(*map(self.ordered, rows[:half], rows[half:]), strict=True)
        return [*self._bitonic(low), *self._bitonic(high)]

    def _cleaned(self, row: V, distance: int) -> V:
        """Elements of one vector in order, of parts that go up, then down: by their halves, then quarters."""
        while distance:
            row = self._exchange(row, [k ^ distance for k in range(self.lanes)], distance)
            distance //= 2
        return row

    def sorted_row(self, row: V) -> V:
        """The elements of one vector in order."""
        for size in _powers(self.lanes):
            row = self._exchange(row, [k ^ (size - 1) for k in range(self.lanes)], size // 2)
            row = self._cleaned(row, size // 4)
        return row

    def _exchange(self, row: V, partners: Sequence[int], bit: int) -> V:
        """The smaller one of an element and its partner where this bit of its lane is 0, the larger one elsewhere."""
        c, other = self.c, shuffled(self.c, row, row, partners)
        if self.has_extremes:
            low, high = self.ordered(row, other)
            return shuffled(c, low, high, [k + self.lanes if k & bit else k for k in range(self.lanes)])
        is_high = ", ".join(f"i1 {'true' if k & bit else 'false'}" for k in range(self.lanes))
        moves = c.op("xor", c.icmp("sgt", row, other), V(f"<{self.lanes} x i1>", f"<{is_high}>"))
        return c.select(moves, other, row)

    def ordered(self, a: V, b: V) -> tuple[V, V]:
        """The smaller and the larger one of each lane."""
        return self._one("min", a, b), self._one("max", a, b)

    def _one(self, which: str, a: V, b: V) -> V:
        name, flags = (
            (f"llvm.{which}num.v{self.lanes}f64", "nnan nsz ")
            if self.is_float
            else (f"llvm.s{which}.v{self.lanes}{self.type}", "")
        )
        self.c.module.declare(name, self.vector, [self.vector] * 2)
        return self.c.value(self.vector, f"call {flags}{self.vector} @{name}({a.type} {a.ref}, {b.type} {b.ref})")

    def load(self, address: V, k: int = 0) -> V:
        return self.c.load(self.vector, self.c.gep(self.type, address, i64(k)), self.align)

    def store(self, row: V, address: V, k: int = 0) -> None:
        self.c.store(row, self.c.gep(self.type, address, i64(k)), self.align)


def bits_of(type: str) -> int:
    """The size of an element."""
    return 64 if type == "double" else int(type[1:])


def extremes(type: str) -> tuple[V, V]:
    """The smallest and the largest number of a type of elements."""
    if type == "double":
        return float_constant(type, -math.inf), float_constant(type, math.inf)
    half = 2 ** (bits_of(type) - 1)
    return V(type, str(-half)), V(type, str(half - 1))


def _powers(n: int) -> Iterator[int]:
    """2, 4, ... up to n."""
    size = 2
    while size <= n:
        yield size
        size *= 2


def _merge_exchange(n: int) -> Iterator[tuple[int, int]]:
    """The comparisons that sort n elements, a power of two: Knuth's algorithm 5.2.2 M."""
    p = n // 2
    while p:
        q, r, d = n // 2, 0, p
        while True:
            yield from ((k, k + d) for k in range(n - d) if k & p == r)
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2
