"""A matrix times its own transpose: half of the product of two matrices, by tiles whose sums stay in registers.

    to = x xᵀ          n rows, k terms; the lower triangle is computed, the upper one is copied from it

BLAS has `syrk` for it, but runs it in its own threads; cut into pieces of `gemm` for ours it computes squares on the
diagonal as a whole, and packs rows of x for each piece again. Here they are packed once. For terms after terms, so many
that what is packed of them stays in the cache:

    panels     of WIDE rows of x, term after term: panel[p, 0..WIDE] = x[q WIDE.., p], below the last row any numbers
    squares    of SIDE rows and columns of the lower triangle, which threads share. For TERMS terms at a time, tiles:
               a few rows (elements of one panel, each times vectors) by WIDE columns (three vectors of another one)
    mirrored   after the last terms: each square by squares of vectors that are transposed in registers

A tile is a pass over TERMS terms whose sums are stored, or added to what the terms before gave: bits depend on extents
and on the width of the CPU's vectors alone. Squares on the diagonal are computed with a few elements beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix, multiply_add
from dlvm_py.backend.cpu.lanes import splat, transposed
from dlvm_py.backend.cpu.pointers import load_element, offset, store_element
from dlvm_py.backend.cpu.share import shared
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import ONE, TRUE, ZERO, V, i64
from dlvm_py.frozen import replace
from dlvm_py.ir import DType

VECTORS = 3  # of a row of a tile
SIDE = 96  # rows of a square: a multiple of the rows of a panel, whatever vectors there are
TERMS = 256  # of a panel of vectors of 64 bytes the nearest cache but one holds as many squares as a tile needs
PACKED = 1 << 23  # bytes of panels at a time
# the grain of threads: so many products, or so many elements that are packed, and what these cost, in tenths of ns
PRODUCTS, ELEMENTS, COST = 16, 4, 3


class Symmetric:
    """Writes one such product; `packed` says what memory it wants for panels."""

    def __init__(self, c: Code, dtype: DType, x: Matrix, to: Matrix) -> None:
        self.c, self.dtype, self.x, self.to = c, dtype, x, to
        self.size = i64(dtype.itemsize)
        self.wide = _Registers(c, dtype).wide
        rows = c.mul(_pieces(c, x.rows, self.wide), i64(self.wide))
        even = c.op("and", c.op("udiv", i64(PACKED), c.mul(rows, self.size)), i64(-TERMS))
        self.span = c.minimum(x.cols, c.select(c.icmp("eq", even, ZERO), i64(TERMS), even))
        self.packed = replace(x, rows=rows, cols=self.span)

    def pays(self) -> V:
        """Whether x has so many rows that tiles are not mostly empty."""
        return self.c.icmp("sgt", self.x.rows, i64(self.wide - self.wide // VECTORS))

    def write(self, panels: V, is_plain: V) -> None:
        """is_plain: whether elements of a column of x are neighbours; else those of a row are."""
        c, x = self.c, self.x
        with c.loop(c.op("udiv", c.add(x.cols, c.op("sub", self.span, ONE)), self.span)) as spans:
            start = c.mul(spans.index, self.span, "nuw nsw")
            terms = c.minimum(self.span, c.op("sub nsw", x.cols, start))
            data = offset(c, x.data, [start], [x.col_step])
            self._pack(replace(x, data=data, cols=terms), panels, is_plain)
            is_last = c.icmp("eq", c.add(start, terms), x.cols)
            self._squares(panels, terms, c.icmp("eq", start, ZERO), is_last)

    def _pack(self, x: Matrix, panels: V, is_plain: V) -> None:
        c = self.c
        name = pack_function(c, self.dtype)
        work = c.op("udiv", c.mul(x.rows, x.cols), i64(ELEMENTS))
        count = _pieces(c, x.rows, self.wide)
        with shared(c, count, work, COST * self.dtype.itemsize) as part:
            first, last = part or (ZERO, count)
            with c.loop(c.op("sub nsw", last, first)) as loop:
                row = c.mul(c.add(first, loop.index, "nuw nsw"), i64(self.wide), "nuw nsw")
                rows = c.minimum(i64(self.wide), c.op("sub nsw", x.rows, row))
                data = offset(c, x.data, [row], [x.row_step])
                panel = offset(c, panels, [c.mul(row, x.cols)], [self.size])
                c.call(f"@{name}", "void", [data, x.row_step, x.col_step, is_plain, rows, x.cols, panel])

    def _squares(self, panels: V, terms: V, is_first: V, is_last: V) -> None:
        """All squares up to the diagonal. A row of them and the one as far from the other end make one of equal length:

        0                         number 0 to 4: the last row, then the first
        1 1                       number 5 to 9: the row before it, then the second
        . . .
        """
        c, n = self.c, self.x.rows
        squares, name = _pieces(c, n, SIDE), square_function(c, self.dtype)
        count = c.op("lshr", c.mul(squares, c.add(squares, ONE)), ONE)
        work = c.op("udiv", c.product([n, n, terms]), i64(2 * PRODUCTS))
        with shared(c, count, work, COST * self.dtype.itemsize // 4, chunk=ONE) as part:
            first, last = part or (ZERO, count)
            with c.loop(c.op("sub nsw", last, first)) as loop:
                number = c.add(first, loop.index, "nuw nsw")
                row = c.op("udiv", number, c.add(squares, ONE))
                at = c.op("urem", number, c.add(squares, ONE))
                long = c.op("sub nsw", squares, row)
                is_long = c.icmp("slt", at, long)
                down = c.select(is_long, c.op("sub nsw", long, ONE), row)
                across = c.select(is_long, at, c.op("sub nsw", at, long))
                top, left = (c.mul(x, i64(SIDE), "nuw nsw") for x in (down, across))
                args = [panels, terms, n, top, left, self.to.data, self.to.row_step, is_first, is_last]
                c.call(f"@{name}", "void", args)


class _Registers:
    """What the registers hold: three vectors of a panel, and so many rows of sums."""

    def __init__(self, c: Code, dtype: DType) -> None:
        nbytes, self.rows = (64, 8) if c.module.masks else (32, 4)
        self.lanes = nbytes // dtype.itemsize
        self.wide = VECTORS * self.lanes
        self.type = f"<{self.lanes} x {scalar_type(dtype)}>"


class _Writer:
    """Writes a function with vectors; `self.c` is its code."""

    def __init__(self, c: Code, dtype: DType) -> None:
        self.c, self.dtype, self.size = c, dtype, i64(dtype.itemsize)
        self.registers = _Registers(c, dtype)

    def load(self, place: V) -> V:
        type = self.registers.type
        return self.c.value(type, f"load {type}, ptr {place.ref}, align {self.dtype.itemsize}")

    def store(self, x: V, place: V) -> None:
        self.c.line(f"store {x.type} {x.ref}, ptr {place.ref}, align {self.dtype.itemsize}")

    def all_lanes(self, x: V) -> V:
        return splat(self.c, x, self.registers.lanes)

    def element(self, data: V, indices: Sequence[V], steps: Sequence[V]) -> V:
        return load_element(self.c, self.dtype, offset(self.c, data, indices, steps))

    def put(self, x: V, data: V, indices: Sequence[V], steps: Sequence[V]) -> None:
        store_element(self.c, self.dtype, x, offset(self.c, data, indices, steps))


def pack_function(c: Code, dtype: DType) -> str:
    """define void pack(x, row step, column step, is plain, rows, terms, panel): a panel of so many rows of x."""
    types = ["ptr", "i64", "i64", "i1", "i64", "i64", "ptr"]
    return helper(c, f"dlvm.symmetric_panel.{dtype}", "void", types, lambda c: _Pack(c, dtype).write())


class _Pack(_Writer):
    """What is computed of rows that are not there is not stored: they may be any numbers."""

    def write(self) -> None:
        c, lanes = self.c, self.registers.lanes
        x, row_step, col_step, is_plain, rows, terms, panel = c.params
        step = i64(self.registers.wide * self.dtype.itemsize)
        starts = [i64(v * lanes) for v in range(VECTORS)]
        with c.either(is_plain) as arms:
            next(arms)
            masks = [self._mask(c.op("sub nsw", rows, start)) for start in starts]
            with c.loop(terms) as p:
                for start, mask in zip(starts, masks, strict=True):
                    found = self._masked(offset(c, x, [p.index, start], [col_step, self.size]), mask)
                    self.store(found, offset(c, panel, [p.index, start], [step, self.size]))
            next(arms)
            last = c.op("sub nsw", rows, ONE)
            whole = c.op("udiv", terms, i64(lanes))
            with c.loop(whole) as some:
                first = c.mul(some.index, i64(lanes), "nuw nsw")
                for start in starts:
                    part = [c.minimum(c.add(start, i64(r)), last) for r in range(lanes)]
                    found = [self.load(offset(c, x, [r, first], [row_step, self.size])) for r in part]
                    for r, column in enumerate(transposed(c, found)):
                        self.store(column, offset(c, panel, [c.add(first, i64(r)), start], [step, self.size]))
            done = c.mul(whole, i64(lanes), "nuw nsw")
            with c.loop(c.op("sub nsw", terms, done)) as rest:
                p = c.add(done, rest.index, "nuw nsw")
                with c.loop(i64(self.registers.wide), note=plain_loop(c)) as j:
                    row = c.minimum(j.index, last)
                    self.put(self.element(x, [row, p], [row_step, col_step]), panel, [p, j.index], [step, self.size])
        c.line("ret void")

    def _mask(self, left: V) -> V:
        """Which lanes of a vector are among so many elements."""
        c, lanes, type = self.c, self.registers.lanes, f"i{self.dtype.bits}"
        count = c.minimum(left, i64(lanes))
        count = self.all_lanes(c.cast("trunc", count, type))
        numbers = ", ".join(f"{type} {k}" for k in range(lanes))
        return c.value(f"<{lanes} x i1>", f"icmp sgt {count.type} {count.ref}, <{numbers}>")

    def _masked(self, place: V, mask: V) -> V:
        c, type = self.c, self.registers.type
        name = f"llvm.masked.load.v{self.registers.lanes}f{self.dtype.bits}.p0"
        return c.intrinsic(name, type, place, V("i32", str(self.dtype.itemsize)), mask, V(type, "zeroinitializer"))


def tile_function(c: Code, dtype: DType) -> str:
    """define void tile(a, b, terms, to, row step, is first): a few rows of one panel by all rows of another."""
    types = ["ptr", "ptr", "i64", "ptr", "i64", "i1"]
    return helper(c, f"dlvm.symmetric_tile.{dtype}", "void", types, lambda c: _Tile(c, dtype).write())


class _Tile(_Writer):
    def write(self) -> None:
        c, rows, lanes = self.c, self.registers.rows, self.registers.lanes
        a, b, terms, to, row_step, is_first = c.params
        step = i64(self.registers.wide * self.dtype.itemsize)
        nothing = V(self.registers.type, "zeroinitializer")
        with c.loop(terms, [nothing] * (rows * VECTORS), plain_loop(c)) as p:
            ys = [self.load(offset(c, b, [p.index, i64(v * lanes)], [step, self.size])) for v in range(VECTORS)]
            xs = [self.all_lanes(self.element(a, [p.index, i64(r)], [step, self.size])) for r in range(rows)]
            pairs = [(x, y) for x in xs for y in ys]
            p.next = [
                multiply_add(c, self.dtype, total, x, y, "contract")
                for total, (x, y) in zip(p.carried, pairs, strict=True)
            ]
        places = [
            offset(c, to, [i64(r), i64(v * lanes)], [row_step, self.size]) for r in range(rows) for v in range(VECTORS)
        ]
        with c.either(is_first) as arms:
            next(arms)
            for total, place in zip(p.results, places, strict=True):
                self.store(total, place)
            next(arms)
            for total, place in zip(p.results, places, strict=True):
                self.store(c.fop("fadd", self.load(place), total), place)
        c.line("ret void")


def square_function(c: Code, dtype: DType) -> str:
    """define void square(panels, terms, n, top, left, to, row step, is first, is last): see `Symmetric`.

    panels: `terms` terms of n rows. is first: whether these are the first terms, is last: or the last ones.
    """
    types = ["ptr", "i64", "i64", "i64", "i64", "ptr", "i64", "i1", "i1"]
    return helper(c, f"dlvm.symmetric_square.{dtype}", "void", types, lambda c: _Square(c, dtype).write())


class _Square(_Writer):
    def write(self) -> None:
        c = self.c
        self.panels, self.terms, self.n, self.top, self.left, self.to, self.row_step, is_first, is_last = c.params
        self.bottom, self.right = (c.minimum(self.n, c.add(x, i64(SIDE))) for x in (self.top, self.left))
        with c.loop(_pieces(c, self.terms, TERMS)) as block:
            start = c.mul(block.index, i64(TERMS), "nuw nsw")
            self._tiles(start, c.both(is_first, c.icmp("eq", start, ZERO)))
        with c.when(is_last):
            self._mirror()
        c.line("ret void")

    def _tiles(self, start: V, is_first: V) -> None:
        """All tiles that reach the lower triangle, of TERMS terms or the rest."""
        c, rows, wide = self.c, self.registers.rows, self.registers.wide
        terms = c.minimum(i64(TERMS), c.op("sub nsw", self.terms, start))
        edge, edge_step = c.alloca(f"[{rows * wide} x {scalar_type(self.dtype)}]", 64), i64(wide * self.dtype.itemsize)
        name = tile_function(c, self.dtype)

        def panel(row: V) -> V:
            behind = c.op("urem", row, i64(wide))
            first = c.mul(c.op("sub nsw", row, behind), self.terms, "nuw nsw")
            return offset(c, self.panels, [first, start, behind], [self.size, edge_step, self.size])

        def tile(row: V, column: V) -> None:
            args = [panel(row), panel(column), terms]
            there = c.minimum(i64(rows), c.op("sub nsw", self.n, row))
            beside = c.minimum(i64(wide), c.op("sub nsw", self.n, column))
            to = offset(c, self.to, [row, column], [self.row_step, self.size])
            with c.either(c.both(c.icmp("eq", there, i64(rows)), c.icmp("eq", beside, i64(wide)))) as arms:
                next(arms)
                c.call(f"@{name}", "void", [*args, to, self.row_step, is_first])
                next(arms)
                c.call(f"@{name}", "void", [*args, edge, edge_step, TRUE])
                self._put_edge(edge, edge_step, there, beside, to, is_first)

        with self._steps(self.top, self.bottom, rows) as row:
            with self._steps(self.left, c.minimum(self.right, c.add(row, i64(rows))), wide) as column:
                tile(row, column)

    def _put_edge(self, edge: V, edge_step: V, rows: V, columns: V, to: V, is_first: V) -> None:
        """Store what there is of a tile, or add it."""
        c = self.c
        with c.loop(rows, note=plain_loop(c)) as r, c.loop(columns, note=plain_loop(c)) as j:
            at = [r.index, j.index]
            more = offset(c, edge, at, [edge_step, self.size])
            with c.when(c.op("xor", is_first, TRUE)):
                before = self.element(to, at, [self.row_step, self.size])
                store_element(c, self.dtype, c.fop("fadd", before, load_element(c, self.dtype, more)), more)
            self.put(load_element(c, self.dtype, more), to, at, [self.row_step, self.size])

    @contextmanager
    def _steps(self, first: V, last: V, step: int) -> Iterator[V]:
        c = self.c
        with c.loop(_pieces(c, c.op("sub nsw", last, first), step)) as loop:
            yield c.add(first, c.mul(loop.index, i64(step), "nuw nsw"), "nuw nsw")

    def _mirror(self) -> None:
        """Copy what is below the diagonal to its other side."""
        c, lanes = self.c, self.registers.lanes
        steps = [self.row_step, self.size]
        rest = c.op("urem", c.op("sub nsw", self.bottom, self.top), i64(lanes))
        whole = c.op("sub nsw", self.bottom, rest)

        with self._steps(self.top, whole, lanes) as row:
            with self._steps(self.left, c.minimum(self.right, row), lanes) as column:
                here = [c.add(row, i64(r)) for r in range(lanes)]
                found = [self.load(offset(c, self.to, [r, column], steps)) for r in here]
                for r, x in enumerate(transposed(c, found)):
                    self.store(x, offset(c, self.to, [c.add(column, i64(r)), row], steps))
        with c.loop(rest, note=plain_loop(c)) as last:
            row = c.add(whole, last.index, "nuw nsw")
            with c.loop(c.op("sub nsw", c.minimum(self.right, row), self.left), note=plain_loop(c)) as j:
                column = c.add(self.left, j.index, "nuw nsw")
                self.put(self.element(self.to, [row, column], steps), self.to, [column, row], steps)


def _pieces(c: Code, extent: V, length: int) -> V:
    return c.op("udiv", c.add(extent, i64(length - 1)), i64(length))
