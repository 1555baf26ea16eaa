"""Products of matrices with few rows, in tiles whose sums stay in registers, and what is read next on its way.

    to = a b           few rows; rows of b and of `to` contiguous, of at least a vector each

For TERMS terms after terms, tiles: all rows by a few vectors of columns, and by one vector for columns that are left.
The last columns are no whole vector: theirs begins earlier, and stores what is behind the one before. A sum is a chain
of TERMS terms, stored or added to what the terms before gave: bits depend on the number of terms alone, not on where
columns are cut, on other rows, nor on the width of vectors.

What is read once, b, comes from memory. Computing takes half of the time that reading does, and a CPU that reads along
rows by itself does not read ahead of a tile, whose rows are far apart: what the next tile reads is fetched as far as
the second cache, line by line, while this one is computed.

Threads share columns, SEGMENT at a time, or the terms (`by_parts` in skinny.py). With the registers of AVX-512: half as
many of half the size have sums for half of the rows, and pieces of rows too short for memory (skinny.py is faster).
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.dot import Matrix, multiply_add
from dlvm_py.backend.cpu.lanes import splat
from dlvm_py.backend.cpu.packed import Writer, pieces
from dlvm_py.backend.cpu.pointers import offset
from dlvm_py.backend.cpu.share import shared
from dlvm_py.backend.cpu.skinny import from_step, grain
from dlvm_py.backend.cpu.streams import fetch
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import FALSE, ONE, ZERO, V, i64, numbered_lanes
from dlvm_py.frozen import replace
from dlvm_py.ir import DType

TERMS = 64  # more rows that lie a power of two apart would not stay in the second cache until the next tile comes
SEGMENT = 480  # columns
LINE = 64
# up to as many rows gain, two tiles below each other, where b is larger than the second cache; else BLAS is as fast
SOME, FAR = 16, 1 << 20
# tiles, by their rows: of how many vectors of columns, as many as there are registers for sums, and fewer for what is
# left. Where rows are few, long pieces of a row are read: rows that are a power of two apart are in each other's way
WIDTHS = {8: (3, 1), 6: (4, 1), 5: (5, 1), 4: (6, 2, 1), 2: (8, 3, 1)}


def pays(c: Code, dtype: DType, m: V, n: V, k: V) -> V:
    """Whether so many rows gain: those of one tile, and of two where b comes from beyond the second cache."""
    is_far = c.icmp("ugt", c.product([n, k]), i64(FAR // dtype.itemsize))
    return c.any(c.icmp("sle", m, i64(next(iter(WIDTHS)))), c.both(c.icmp("sle", m, i64(SOME)), is_far))


def by_few_rows(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str) -> None:
    """to = a b, or added to it, or subtracted from it."""
    several = c.icmp("ugt", to.cols, i64(SEGMENT))
    count = c.select(several, c.op("udiv", to.cols, i64(SEGMENT)), ONE)
    with shared(c, count, *grain(c, dtype, (to.rows, to.cols, a.cols))) as part:
        if part is None:
            multiply(c, dtype, a, b, to, add)
            return
        start = c.mul(part[0], i64(SEGMENT), "nuw nsw")
        # the last one has what is left
        end = c.select(c.icmp("eq", part[1], count), to.cols, c.mul(part[1], i64(SEGMENT), "nuw nsw"))
        width = c.op("sub nsw", end, start)
        right, result = (replace(from_step(c, x, x.col_step, start), cols=width) for x in (b, to))
        multiply(c, dtype, a, right, result, add)


def multiply(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str) -> None:
    """The same, by one thread."""
    name = ".".join(filter(None, ["dlvm.few_rows", str(dtype), add]))
    types = ["i64", "i64", "i64", "ptr", "i64", "i64", "ptr", "i64", "ptr", "i64"]
    name = helper(c, name, "void", types, lambda c: _Product(c, dtype, add).write())
    args = [to.rows, to.cols, a.cols, *a.flat(), b.data, b.row_step, to.data, to.row_step]
    c.call(f"@{name}", "void", args)


class _Product(Writer):
    """define void few_rows(m, n, k, a, row step, column step, b, row step, to, row step)."""

    def __init__(self, c: Code, dtype: DType, add: str) -> None:
        super().__init__(c, dtype)
        self.add = add
        self.m, self.n, self.k, self.a, self.a_row, self.a_col, self.b, self.b_row, self.to, self.to_row = c.params

    def write(self) -> None:
        """Groups of rows of one height: as few as can be, the lower the better."""
        c, heights = self.c, list(WIDTHS)
        groups = pieces(c, self.m, heights[0])
        self.groups, self.each = groups, c.op("udiv", c.add(self.m, c.op("sub nsw", groups, ONE)), groups)
        self._by_height(heights)
        c.line("ret void")

    def _by_height(self, heights: list[int]) -> None:
        """By the lowest tiles of `heights` that have the rows of a group."""
        height, *lower = heights
        if not lower:
            self._terms(height)
            return
        c = self.c
        with c.either(c.icmp("sgt", self.each, i64(lower[0]))) as arms:
            next(arms)
            self._terms(height)
            next(arms)
            self._by_height(lower)

    def _terms(self, height: int) -> None:
        c = self.c
        with c.loop(pieces(c, self.k, TERMS)) as block:
            start = c.mul(block.index, i64(TERMS), "nuw nsw")
            terms = c.minimum(c.op("sub nsw", self.k, start), i64(TERMS))
            is_first = FALSE if self.add else c.icmp("eq", start, ZERO)
            self._columns(height, start, terms, is_first)

    def _columns(self, height: int, start: V, terms: V, is_first: V) -> None:
        c, lanes = self.c, self.registers.lanes
        whole = c.op("udiv", self.n, i64(lanes))
        behind = c.minimum(c.add(start, terms), c.op("sub nsw", self.k, ONE))

        def tiles(column: V, vectors: int, following: V, first_lane: V) -> None:
            name = _tile_function(c, self.dtype, self.add, height, vectors)
            b = offset(c, self.b, [start, column], [self.b_row, self.size])
            # the next tile of these terms, or the first one of the next
            beside = c.icmp("slt", following, self.n)
            place = [c.select(beside, start, behind), c.select(beside, following, ZERO)]
            ahead = offset(c, self.b, place, [self.b_row, self.size])
            with c.loop(self.groups) as group:
                row = c.mul(group.index, self.each, "nuw nsw")
                count = c.minimum(c.op("sub nsw", self.m, row), self.each)
                a = offset(c, self.a, [row, start], [self.a_row, self.a_col])
                to = offset(c, self.to, [row, column], [self.to_row, self.size])
                args = [a, self.a_row, self.a_col, b, ahead, self.b_row, terms, to, self.to_row, count, first_lane]
                c.call(f"@{name}", "void", [*args, is_first])

        done = ZERO
        for vectors in WIDTHS[height]:
            count = c.op("udiv", c.op("sub nsw", whole, done), i64(vectors))
            with c.loop(count) as loop:
                first = c.add(done, c.mul(loop.index, i64(vectors), "nuw nsw"), "nuw nsw")
                following = c.mul(c.add(first, i64(vectors), "nuw nsw"), i64(lanes), "nuw nsw")
                tiles(c.mul(first, i64(lanes), "nuw nsw"), vectors, following, ZERO)
            done = c.add(done, c.mul(count, i64(vectors), "nuw nsw"), "nuw nsw")
        rest = c.op("urem", self.n, i64(lanes))
        with c.when(c.icmp("ne", rest, ZERO)):
            tiles(c.op("sub nsw", self.n, i64(lanes)), 1, self.n, c.op("sub nsw", i64(lanes), rest))


def _tile_function(c: Code, dtype: DType, add: str, rows: int, vectors: int) -> str:
    """define void tile(a, steps, b, ahead, row step, terms, to, row step, count, first lane, is first).

    ahead: what the next tile reads of b. count: how many of `rows` there are. first lane: from where on one vector is
    stored.
    """
    types = ["ptr", "i64", "i64", "ptr", "ptr", "i64", "i64", "ptr", "i64", "i64", "i64", "i1"]
    name = ".".join(filter(None, ["dlvm.few_rows_tile", str(dtype), add, str(rows), str(vectors)]))
    return helper(c, name, "void", types, lambda c: _Tile(c, dtype, add, rows, vectors).write())


class _Tile(Writer):
    def __init__(self, c: Code, dtype: DType, add: str, rows: int, vectors: int) -> None:
        super().__init__(c, dtype)
        self.op, self.rows, self.vectors = "fsub" if add == "subtract" else "fadd", rows, vectors

    def write(self) -> None:
        c, lanes, rows = self.c, self.registers.lanes, range(self.rows)
        a, a_row, a_col, b, ahead, b_row, terms, to, to_row, count, first_lane, is_first = c.params
        last = c.op("sub nsw", count, ONE)
        # rows that are not there are the last one again
        starts = [offset(c, a, [c.minimum(i64(r), last)], [a_row]) for r in rows]
        columns = [i64(v * lanes) for v in range(self.vectors)]
        nothing = V(self.registers.type, "zeroinitializer")
        with c.loop(terms, [nothing] * (self.rows * self.vectors), plain_loop(c)) as p:
            # lines that end here: where rows begin within a line, the tile before this one has that
            for place in range(LINE - 1, self.vectors * lanes * self.dtype.itemsize, LINE):
                fetch(c, offset(c, ahead, [p.index, i64(place)], [b_row, ONE]), is_near=False)
            ys = [self.load(offset(c, b, [p.index, column], [b_row, self.size])) for column in columns]
            xs = [self.all_lanes(self.element(start, [p.index], [a_col])) for start in starts]
            pairs = [(x, y) for x in xs for y in ys]
            p.next = [
                multiply_add(c, self.dtype, total, x, y, "contract")
                for total, (x, y) in zip(p.carried, pairs, strict=True)
            ]
        sums = iter(p.results)
        for r in rows:
            totals = [next(sums) for _ in columns]
            with c.when(c.icmp("slt", i64(r), count)):
                for total, column in zip(totals, columns, strict=True):
                    self._put(total, offset(c, to, [i64(r), column], [to_row, self.size]), first_lane, is_first)
        c.line("ret void")

    def _put(self, total: V, place: V, first_lane: V, is_first: V) -> None:
        """Store sums, or add them; of one vector, those from `first_lane` on."""
        c = self.c
        old = self.load(place)
        new = c.select(is_first, total, c.fop(self.op, old, total))
        if self.vectors == 1:
            lanes = self.registers.lanes
            new = c.select(c.icmp("sle", splat(c, first_lane, lanes), numbered_lanes(lanes)), new, old)
        self.store(new, place)
