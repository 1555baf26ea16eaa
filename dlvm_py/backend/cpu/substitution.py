"""Many right-hand sides by the factors of a matrix, in panels of columns that our threads share.

    a x = b, where p a = l u:    l y = p b,  u x = y      columns of x are independent

LAPACK's getrs has threads of its own, which wait for each other in a loop, and its kernels for triangles are slow where
matrices are small. Here a panel of WIDE columns, a few vectors, is copied side by side, the parts of complex numbers
apart; then rows are computed ROWS at a time, with all sums in registers:

    forwards     rows i.. -= l[i.., k] row k  for all k < i, then what is in the triangle at the diagonal
    backwards    rows i.. -= u[i.., k] row k  for all k behind, then the triangle, each divided by its pivot

What is left of the rows, fewer than ROWS, comes first and row by row. The factors are copied so that elements for one k
stand side by side; where they are many they are read once for a few panels. The columns beyond the last one are zeros:
an element is computed by the same instructions wherever its column is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix
from dlvm_py.backend.cpu.lanes import splat
from dlvm_py.backend.cpu.pointers import load_element, offset, store_element
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.share import shared
from dlvm_py.backend.cpu.text import Parallel, plain_loop
from dlvm_py.backend.cpu.values import ONE, ZERO, V, float_constant, i64
from dlvm_py.ir import DType

LEAST = 8  # columns
ROWS = 4
# factors of more bytes than a core has in its cache are read for several panels at a time, so many rows of them
NEAR, GROUP, TILES = 1 << 20, 4, 8
# the grain of threads: so many multiplications of real numbers, and what these cost, in tenths of ns for 4 bytes
PRODUCTS, COST = 16, 3


def width_of(c: Code, dtype: DType) -> int:
    """The columns of a panel."""
    nbytes = 128 if c.module.masks else 64  # of the parts of a row: half of the registers are sums
    return nbytes // dtype.itemsize * 2


class Substitution:
    """Writes the solution for m columns of n by the factors that LAPACK's getrf gives, and its exchanges of rows.

    sizes: the bytes of memory that it wants: of panels, of places of rows, of the factors in another order.
    """

    def __init__(self, c: Code, dtype: DType, n: V, m: V) -> None:
        self.c, self.dtype, self.n = c, dtype, n
        self.size, self.wide = i64(dtype.itemsize), width_of(c, dtype)
        self.count = c.op("udiv", c.add(m, i64(self.wide - 1)), i64(self.wide))
        row = c.mul(self.count, i64(self.wide * dtype.itemsize))
        self.sizes = [c.mul(n, row), c.mul(n, i64(8)), c.product([n, n, self.size])]

    def write(self, lu: Matrix, pivots: V, b: Matrix, to: Matrix, memory: list[V]) -> None:
        """Write the solution to `to`."""
        c, n = self.c, self.n
        panels, places, factors = memory
        self._order(pivots, places)
        self._reorder(lu, factors)
        parts, real = (4, self.dtype.real) if self.dtype.is_complex else (1, self.dtype)
        work = c.op("udiv", c.product([n, n, b.cols, i64(parts)]), i64(PRODUCTS))
        is_large = c.icmp("ugt", self.sizes[2], i64(NEAR))
        together = c.select(is_large, i64(self.wide * GROUP), i64(self.wide))
        count = c.op("udiv", c.add(b.cols, c.op("sub", together, ONE)), together)
        name = panels_function(c, self.dtype)
        with shared(c, count, work, COST * real.itemsize // 4, chunk=ONE) as part:
            first, last = part or (ZERO, count)
            with c.loop(c.op("sub nsw", last, first)) as loop:
                column = c.mul(c.add(first, loop.index, "nuw nsw"), together, "nuw nsw")
                width = c.minimum(together, c.op("sub nsw", b.cols, column))
                panel = offset(c, panels, [c.mul(column, n)], [self.size])
                ends = [v for x in (b, to) for v in (offset(c, x.data, [column], [x.col_step]), x.row_step, x.col_step)]
                c.call(f"@{name}", "void", [n, width, factors, places, panel, *ends])

    def _order(self, pivots: V, places: V) -> None:
        """Which row of b is row i, after the exchanges."""
        c = self.c
        with c.loop(self.n, note=plain_loop(c)) as i:
            c.store(i.index, c.gep("i64", places, i.index))
        with c.loop(self.n, note=plain_loop(c)) as i:
            row = c.op("sub", c.cast("sext", c.load("i32", c.gep("i32", pivots, i.index)), "i64"), ONE)
            slots = [c.gep("i64", places, k) for k in (i.index, row)]
            found = [c.load("i64", s) for s in slots]
            for slot, x in zip(slots, reversed(found), strict=True):
                c.store(x, slot)

    def _reorder(self, lu: Matrix, factors: V) -> None:
        """Copy rows, ROWS by ROWS: the elements of each column side by side."""
        c, n = self.c, self.n
        left = c.op("and", n, i64(ROWS - 1))

        def copy(row: V, rows: int) -> None:
            start = c.mul(row, n)
            with c.loop(n, note=plain_loop(c)) as k:
                for r in range(rows):
                    source = offset(c, lu.data, [c.add(row, i64(r)), k.index], [self.size, lu.col_step])
                    at = c.add(start, c.add(c.mul(k.index, i64(rows)), i64(r)))
                    x = load_element(c, self.dtype, source)
                    store_element(c, self.dtype, x, offset(c, factors, [at], [self.size]))

        with c.loop(left) as i:
            copy(i.index, 1)
        with c.loop(c.op("lshr", n, i64(ROWS.bit_length() - 1))) as block:
            copy(c.add(left, c.mul(block.index, i64(ROWS))), ROWS)


def panels_function(c: Code, dtype: DType) -> str:
    """define void panels(n, width, factors, places, panels, b, its steps, to, its steps): so many columns."""
    name = f"dlvm.substitute_panels.{dtype}{'.masks' if c.module.masks else ''}"
    types = ["i64", "i64", "ptr", "ptr", "ptr", *["ptr", "i64", "i64"] * 2]
    return helper(c, name, "void", types, lambda c: _Panels(c, dtype).write())


class _Panels:
    """Writes that function; `self.c` is its code."""

    def __init__(self, c: Code, dtype: DType) -> None:
        self.c, self.dtype = c, dtype
        self.real = dtype.real if dtype.is_complex else dtype
        self.part = scalar_type(self.real)
        self.parts = 2 if dtype.is_complex else 1
        self.wide = width_of(c, dtype)
        self.lanes = (64 if c.module.masks else 32) // self.real.itemsize
        self.vectors = self.wide // self.lanes
        self.type = f"<{self.lanes} x {self.part}>"
        self.n, self.columns, self.factors, self.places, self.panels = c.params[:5]
        self.size, self.real_size = i64(dtype.itemsize), i64(self.real.itemsize)
        self.row_step = i64(self.wide * dtype.itemsize)
        self.part_step = i64(self.wide * self.real.itemsize)
        self.b, self.to = (Matrix(g[0], self.n, self.columns, g[1], g[2]) for g in (c.params[5:8], c.params[8:11]))

    def write(self) -> None:
        """Some rows of all panels after others, so that the factors are read once for all of them."""
        c, n = self.c, self.n
        left, tiles = c.op("and", n, i64(ROWS - 1)), c.op("lshr", n, i64(ROWS.bit_length() - 1))
        with self._each():
            with c.when(c.icmp("slt", self.width, i64(self.wide))):
                with c.loop(c.mul(n, i64(self.wide * self.parts // self.lanes))) as k:
                    self._put(V(self.type, "zeroinitializer"), c.gep(self.type, self.panel, k.index))
            with c.loop(n) as i:
                row = c.load("i64", c.gep("i64", self.places, i.index))
                self._copy(i.index, self.b, row, is_load=True)
        with self._each(), c.loop(left) as i:
            self._rows(i.index, 1, lower=True)
        with self._tiles(tiles) as k:
            self._rows(c.add(left, c.mul(k, i64(ROWS), "nuw nsw")), ROWS, lower=True)
        with self._tiles(tiles) as k:
            self._rows(c.op("sub nsw", n, c.mul(c.add(k, ONE), i64(ROWS), "nuw nsw")), ROWS, lower=False)
        with self._each():
            with c.loop(left) as k:
                self._rows(c.op("sub nsw", left, c.add(k.index, ONE)), 1, lower=False)
            with c.loop(n) as i:
                self._copy(i.index, self.to, i.index, is_load=False)
        c.line("ret void")

    @contextmanager
    def _each(self) -> Iterator[None]:
        """Code for each panel: where it is, its columns, and the first ones of the matrices."""
        c = self.c
        with c.loop(c.op("udiv", c.add(self.columns, i64(self.wide - 1)), i64(self.wide))) as loop:
            self.first = c.mul(loop.index, i64(self.wide), "nuw nsw")
            self.width = c.minimum(i64(self.wide), c.op("sub nsw", self.columns, self.first))
            self.panel = offset(c, self.panels, [c.mul(self.first, self.n)], [self.size])
            yield

    @contextmanager
    def _tiles(self, count: V) -> Iterator[V]:
        """Code for the numbers below `count`, TILES of them for each panel before the next ones."""
        c = self.c
        with c.loop(c.op("udiv", c.add(count, i64(TILES - 1)), i64(TILES))) as block, self._each():
            start = c.mul(block.index, i64(TILES), "nuw nsw")
            with c.loop(c.minimum(i64(TILES), c.op("sub nsw", count, start))) as tile:
                yield c.add(start, tile.index, "nuw nsw")

    # -- from and to matrices ----------------------------------------------------------------------------

    def _copy(self, i: V, x: Matrix, row: V, is_load: bool) -> None:
        """Between row i of the panel and a row of a matrix; a version for neighbours, which LLVM makes vectors of."""
        c = self.c
        start = offset(c, x.data, [row, self.first], [x.row_step, x.col_step])
        with c.either(c.icmp("eq", x.col_step, self.size)) as arms:
            for step in (self.size, x.col_step):
                next(arms)
                note = Parallel(c)
                with c.loop(self.width, note=note.loop if step is self.size else plain_loop(c)) as j:
                    place = offset(c, start, [j.index], [step])
                    slots = [
                        offset(c, self.panel, [i, i64(p), j.index], [self.row_step, self.part_step, self.real_size])
                        for p in range(self.parts)
                    ]
                    access = note.access if step is self.size else ""
                    if is_load:
                        found = load_element(c, self.dtype, place, access)
                        for p, slot in enumerate(slots):
                            part = c.extract(found, p, self.part) if self.parts == 2 else found
                            c.store(part, slot, access)
                    else:
                        found_parts = [c.load(self.part, slot, access) for slot in slots]
                        x_ = c.pack(*found_parts) if self.parts == 2 else found_parts[0]
                        store_element(c, self.dtype, x_, place, access)

    # -- rows ------------------------------------------------------------------------------------------------

    def _rows(self, first: V, rows: int, lower: bool) -> None:
        """Some rows of the panel, of which those before, or behind, are done."""
        c = self.c
        strip = offset(c, self.factors, [first], [c.mul(self.n, self.size)])
        behind = c.add(first, i64(rows), "nuw nsw")
        start, count = (ZERO, first) if lower else (behind, c.op("sub nsw", self.n, behind))
        sums = [x for r in range(rows) for x in self._row(c.add(first, i64(r)))]
        per_row = self.parts * self.vectors
        with c.loop(count, sums, plain_loop(c)) as loop:
            k = c.add(start, loop.index, "nuw nsw")
            xs = self._row(k)
            for r in range(rows):
                mine = loop.carried[r * per_row : (r + 1) * per_row]
                loop.next = [*(loop.next if r else []), *self._less(mine, self._factor(strip, k, r, rows), xs)]
        found = [list(loop.results[r * per_row : (r + 1) * per_row]) for r in range(rows)]
        order = range(rows) if lower else range(rows - 1, -1, -1)
        for r in order:
            for s in range(r) if lower else range(rows - 1, r, -1):
                factor = self._factor(strip, c.add(first, i64(s)), r, rows)
                found[r] = self._less(found[r], factor, found[s])
            if not lower:
                found[r] = self._over(found[r], self._factor_element(strip, c.add(first, i64(r)), r, rows))
            for x, place in zip(found[r], self._slots(c.add(first, i64(r))), strict=True):
                self._put(x, place)

    def _less(self, xs: list[V], factor: list[V], ys: list[V]) -> list[V]:
        """x - factor y."""
        if self.parts == 1:
            return [self._with_product("fsub", x, factor[0], y) for x, y in zip(xs, ys, strict=True)]
        v, (a, b) = self.vectors, factor
        re = [self._with_product("fsub", x, a, y) for x, y in zip(xs[:v], ys[:v], strict=True)]
        im = [self._with_product("fsub", x, a, y) for x, y in zip(xs[v:], ys[v:], strict=True)]
        re = [self._with_product("fadd", x, b, y) for x, y in zip(re, ys[v:], strict=True)]
        return [*re, *(self._with_product("fsub", x, b, y) for x, y in zip(im, ys[:v], strict=True))]

    def _with_product(self, how: str, x: V, a: V, y: V) -> V:
        return self.c.fop(how, x, self.c.fop("fmul", a, y, " contract"), " contract")

    def _over(self, xs: list[V], pivot: V) -> list[V]:
        """x / pivot; of complex numbers x times 1 / pivot."""
        c = self.c
        if self.parts == 1:
            divisor = self._all_lanes(pivot)
            return [c.fop("fdiv", x, divisor) for x in xs]
        one = c.pack(float_constant(self.part, 1.0), float_constant(self.part, 0.0))
        inverse = TABLE["divide"]["c"](c, self.dtype, {}, one, pivot)
        a, b = (self._all_lanes(c.extract(inverse, k, self.part)) for k in (0, 1))
        pairs = list(zip(xs[: self.vectors], xs[self.vectors :], strict=True))
        re = [self._with_product("fsub", c.fop("fmul", x, a, " contract"), b, y) for x, y in pairs]
        return [*re, *(self._with_product("fadd", c.fop("fmul", x, b, " contract"), a, y) for x, y in pairs)]

    def _factor_element(self, strip: V, k: V, r: int, rows: int) -> V:
        column = i64(rows * self.dtype.itemsize)
        return load_element(self.c, self.dtype, offset(self.c, strip, [k, i64(r)], [column, self.size]))

    def _factor(self, strip: V, k: V, r: int, rows: int) -> list[V]:
        """The parts of an element of the factors, each in all lanes."""
        x = self._factor_element(strip, k, r, rows)
        if self.parts == 1:
            return [self._all_lanes(x)]
        return [self._all_lanes(self.c.extract(x, p, self.part)) for p in (0, 1)]

    def _slots(self, row: V) -> list[V]:
        """The places of the vectors of a row: those of the real parts, then of the imaginary ones."""
        c, start = self.c, offset(self.c, self.panel, [row], [self.row_step])
        return [c.gep(self.type, start, i64(k)) for k in range(self.parts * self.vectors)]

    def _row(self, row: V) -> list[V]:
        return [
            self.c.value(self.type, f"load {self.type}, ptr {p.ref}, align {self.real.itemsize}")
            for p in self._slots(row)
        ]

    def _put(self, x: V, place: V) -> None:
        self.c.line(f"store {x.type} {x.ref}, ptr {place.ref}, align {self.real.itemsize}")

    def _all_lanes(self, x: V) -> V:
        return splat(self.c, x, self.lanes)
