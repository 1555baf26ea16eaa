"""Products of matrices by tiles whose sums stay in registers, of panels that are packed once.

    to = a b           m by n, k terms

For terms after terms, so many that what is packed of them stays in the cache:

    panels       of WIDE rows of a, term after term: panel[p, 0..WIDE] = a[q WIDE.., p], below the last row any numbers;
                 of WIDE columns of b likewise
    rectangles   of SIDE rows and columns of the product, which threads share. For TERMS terms at a time, tiles: a few
                 rows (elements of one panel, each times vectors) by WIDE columns (three vectors of another one)

A tile is a pass over TERMS terms whose sums are stored, or added to what the terms before gave: bits depend on extents
and on the width of the CPU's vectors alone. A matrix times its own transpose is half of that: symmetric.py.

BLAS is as fast where its tiles are as wide. OpenBLAS chooses them by the name of the CPU, and for one that is younger
than itself takes those with vectors of 32 bytes: half as fast, where the CPU has vectors of 64 (`has_narrow_blas`).
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
from dlvm_py.backend.cpu.skinny import strips
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import FALSE, ONE, TRUE, ZERO, V, i64
from dlvm_py.frozen import replace
from dlvm_py.ir import DType

VECTORS = 3  # of a row of a tile
SIDE = 96  # rows of a rectangle: a multiple of the rows of a panel, whatever vectors there are
TERMS = 256  # of a panel of vectors of 64 bytes the nearest cache but one holds as many rectangles as a tile needs
PACKED = 1 << 23  # bytes of panels at a time
# the grain of threads: so many products, or so many elements that are packed, and what these cost, in tenths of ns
PRODUCTS, ELEMENTS, COST = 16, 4, 3


def has_narrow_blas(c: Code) -> V:
    """Whether BLAS, for all that is known, does without vectors of 64 bytes."""
    return c.icmp("ne", c.cast("ptrtoint", c.import_pointer("limit:narrow_blas"), "i64"), ZERO)


class Packed:
    """Writes one such product of a and b; `packed` says what memory it wants for panels. add: as in matmul.py."""

    def __init__(self, c: Code, dtype: DType, add: str, a: Matrix, b: Matrix, to: Matrix) -> None:
        self.c, self.dtype, self.add = c, dtype, add
        self.a, self.b, self.to = a, b.transposed, to
        self.wide = Registers(c, dtype).wide
        self.above = c.mul(pieces(c, a.rows, self.wide), i64(self.wide))
        rows = c.add(self.above, c.mul(pieces(c, b.cols, self.wide), i64(self.wide)))
        self.span = span_of(c, dtype, rows, a.cols)
        self.packed = replace(a, rows=rows, cols=self.span)

    def pays(self) -> V:
        """Whether there are so many rows and columns that tiles are not mostly empty."""
        least = i64(self.wide - self.wide // VECTORS)
        return self.c.both(self.c.icmp("sgt", self.to.rows, least), self.c.icmp("sgt", self.to.cols, least))

    def write(self, panels: V, a_is_plain: V, b_is_plain: V) -> None:
        """Whether elements of a column of a, and of a row of b, are neighbours; else those across are."""
        c = self.c

        def some_terms(start: V, terms: V) -> None:
            across = offset(c, panels, [c.mul(self.above, terms)], [i64(self.dtype.itemsize)])
            for x, is_plain, place in ((self.a, a_is_plain, panels), (self.b, b_is_plain, across)):
                data = offset(c, x.data, [start], [x.col_step])
                pack(c, self.dtype, replace(x, data=data, cols=terms), place, is_plain)
            is_first = FALSE if self.add else c.icmp("eq", start, ZERO)
            self._rectangles(panels, across, terms, is_first)

        strips(c, self.a.cols, self.span, some_terms)

    def _rectangles(self, panels: V, across: V, terms: V, is_first: V) -> None:
        c, to = self.c, self.to
        beside = pieces(c, to.cols, SIDE)
        count = c.mul(pieces(c, to.rows, SIDE), beside)
        name = rectangle_function(c, self.dtype, self.add if self.add == "subtract" else "")
        work = c.op("udiv", c.product([to.rows, to.cols, terms]), i64(PRODUCTS))
        with shared(c, count, work, COST * self.dtype.itemsize // 4, chunk=ONE) as part:
            first, last = part or (ZERO, count)
            with c.loop(c.op("sub nsw", last, first)) as loop:
                number = c.add(first, loop.index, "nuw nsw")
                place = c.op("udiv", number, beside), c.op("urem", number, beside)
                top, left = (c.mul(x, i64(SIDE), "nuw nsw") for x in place)
                args = [panels, across, terms, to.rows, to.cols, top, left, to.data, to.row_step, is_first]
                c.call(f"@{name}", "void", args)


def span_of(c: Code, dtype: DType, rows: V, terms: V) -> V:
    """How many terms of so many rows are packed at a time."""
    even = c.op("and", c.op("udiv", i64(PACKED), c.mul(rows, i64(dtype.itemsize))), i64(-TERMS))
    return c.minimum(terms, c.select(c.icmp("eq", even, ZERO), i64(TERMS), even))


def pack(c: Code, dtype: DType, x: Matrix, panels: V, is_plain: V) -> None:
    """Pack the rows of x. is_plain: whether elements of a column of x are neighbours; else those of a row are."""
    name, wide = pack_function(c, dtype), Registers(c, dtype).wide
    work = c.op("udiv", c.mul(x.rows, x.cols), i64(ELEMENTS))
    count = pieces(c, x.rows, wide)
    with shared(c, count, work, COST * dtype.itemsize) as part:
        first, last = part or (ZERO, count)
        with c.loop(c.op("sub nsw", last, first)) as loop:
            row = c.mul(c.add(first, loop.index, "nuw nsw"), i64(wide), "nuw nsw")
            rows = c.minimum(i64(wide), c.op("sub nsw", x.rows, row))
            data = offset(c, x.data, [row], [x.row_step])
            panel = offset(c, panels, [c.mul(row, x.cols)], [i64(dtype.itemsize)])
            c.call(f"@{name}", "void", [data, x.row_step, x.col_step, is_plain, rows, x.cols, panel])


class Registers:
    """What the registers hold: three vectors of a panel, and so many rows of sums."""

    def __init__(self, c: Code, dtype: DType) -> None:
        nbytes, self.rows = (64, 8) if c.module.masks else (32, 4)
        self.lanes = nbytes // dtype.itemsize
        self.wide = VECTORS * self.lanes
        self.type = f"<{self.lanes} x {scalar_type(dtype)}>"


class Writer:
    """Writes a function with vectors; `self.c` is its code."""

    def __init__(self, c: Code, dtype: DType) -> None:
        self.c, self.dtype, self.size = c, dtype, i64(dtype.itemsize)
        self.registers = Registers(c, dtype)

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
    return helper(c, f"dlvm.packed_panel.{dtype}", "void", types, lambda c: _Pack(c, dtype).write())


class _Pack(Writer):
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


def _op_of(how: str) -> str:
    return "fsub" if how == "subtract" else "fadd"


def tile_function(c: Code, dtype: DType, how: str) -> str:
    """define void tile(a, b, terms, to, row step, is first): a few rows of one panel by all rows of another.

    how: "subtract", sums are subtracted from what is there, else they are added to it; the first ones are stored.
    """
    types = ["ptr", "ptr", "i64", "ptr", "i64", "i1"]
    name = ".".join(filter(None, ["dlvm.packed_tile", str(dtype), how]))
    return helper(c, name, "void", types, lambda c: _Tile(c, dtype, how).write())


class _Tile(Writer):
    def __init__(self, c: Code, dtype: DType, how: str) -> None:
        super().__init__(c, dtype)
        self.op = _op_of(how)

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
                self.store(c.fop(self.op, self.load(place), total), place)
        c.line("ret void")


def rectangle_function(c: Code, dtype: DType, how: str = "") -> str:
    """define void rectangle(a, b, terms, m, n, top, left, to, row step, is first): SIDE rows and columns of a product.

    a, b: panels with `terms` terms of m and of n rows. is first: whether nothing is there that it is added to.
    how: "subtract", it is subtracted from that; "below", of a matrix times its own transpose what is on the diagonal or
    below it is computed, with a few elements above.
    """
    types = ["ptr", "ptr", "i64", "i64", "i64", "i64", "i64", "ptr", "i64", "i1"]
    name = ".".join(filter(None, ["dlvm.packed_rectangle", str(dtype), how]))
    return helper(c, name, "void", types, lambda c: _Rectangle(c, dtype, how).write())


class _Rectangle(Writer):
    def __init__(self, c: Code, dtype: DType, how: str) -> None:
        super().__init__(c, dtype)
        self.how = how

    def write(self) -> None:
        c = self.c
        self.a, self.b, self.terms, self.m, self.n, self.top, self.left, self.to, self.row_step, is_first = c.params
        self.bottom, self.right = (
            c.minimum(extent, c.add(start, i64(SIDE))) for extent, start in ((self.m, self.top), (self.n, self.left))
        )
        with c.loop(pieces(c, self.terms, TERMS)) as block:
            start = c.mul(block.index, i64(TERMS), "nuw nsw")
            self._tiles(start, c.both(is_first, c.icmp("eq", start, ZERO)))
        c.line("ret void")

    def _tiles(self, start: V, is_first: V) -> None:
        """All tiles, of TERMS terms or the rest."""
        c, rows, wide = self.c, self.registers.rows, self.registers.wide
        terms = c.minimum(i64(TERMS), c.op("sub nsw", self.terms, start))
        edge, edge_step = c.alloca(f"[{rows * wide} x {scalar_type(self.dtype)}]", 64), i64(wide * self.dtype.itemsize)
        name = tile_function(c, self.dtype, "" if self.how == "below" else self.how)

        def panel(panels: V, row: V) -> V:
            behind = c.op("urem", row, i64(wide))
            first = c.mul(c.op("sub nsw", row, behind), self.terms, "nuw nsw")
            return offset(c, panels, [first, start, behind], [self.size, edge_step, self.size])

        def tile(row: V, column: V) -> None:
            args = [panel(self.a, row), panel(self.b, column), terms]
            there = c.minimum(i64(rows), c.op("sub nsw", self.m, row))
            beside = c.minimum(i64(wide), c.op("sub nsw", self.n, column))
            to = offset(c, self.to, [row, column], [self.row_step, self.size])
            with c.either(c.both(c.icmp("eq", there, i64(rows)), c.icmp("eq", beside, i64(wide)))) as arms:
                next(arms)
                c.call(f"@{name}", "void", [*args, to, self.row_step, is_first])
                next(arms)
                c.call(f"@{name}", "void", [*args, edge, edge_step, TRUE])
                self._put_edge(edge, edge_step, there, beside, to, is_first)

        with steps(c, self.top, self.bottom, rows) as row:
            right = c.minimum(self.right, c.add(row, i64(rows))) if self.how == "below" else self.right
            with steps(c, self.left, right, wide) as column:
                tile(row, column)

    def _put_edge(self, edge: V, edge_step: V, rows: V, columns: V, to: V, is_first: V) -> None:
        """Store what there is of a tile, or add it."""
        c = self.c
        with c.loop(rows, note=plain_loop(c)) as r, c.loop(columns, note=plain_loop(c)) as j:
            at = [r.index, j.index]
            more = offset(c, edge, at, [edge_step, self.size])
            with c.when(c.op("xor", is_first, TRUE)):
                before = self.element(to, at, [self.row_step, self.size])
                store_element(c, self.dtype, c.fop(_op_of(self.how), before, load_element(c, self.dtype, more)), more)
            self.put(load_element(c, self.dtype, more), to, at, [self.row_step, self.size])


@contextmanager
def steps(c: Code, first: V, last: V, step: int) -> Iterator[V]:
    """A loop from a first number up to a last one, by steps."""
    with c.loop(pieces(c, c.op("sub nsw", last, first), step)) as loop:
        yield c.add(first, c.mul(loop.index, i64(step), "nuw nsw"), "nuw nsw")


def pieces(c: Code, extent: V, length: int) -> V:
    """How many pieces of a length an extent has."""
    return c.op("udiv", c.add(extent, i64(length - 1)), i64(length))
