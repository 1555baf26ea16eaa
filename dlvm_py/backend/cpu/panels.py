"""Panels: the columns of a matrix in groups of a few vectors, row after row, the parts of complex numbers apart.

    panel p:    row 0    columns p WIDE .. p WIDE + WIDE - 1    real parts, then imaginary ones
                row 1    ...

What LU factors (lu.py) and the solutions by them (substitution.py) are made of: some rows of one panel, all their
sums in registers, less products of elements of another panel with rows,

    rows i.. -= factors[i.., k] row k      for one k after the other

so that each element is computed by the same instructions wherever its column is, and by however many threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix
from dlvm_py.backend.cpu.lanes import splat
from dlvm_py.backend.cpu.pointers import load_element, offset, store_element
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import Parallel, plain_loop
from dlvm_py.backend.cpu.values import V, float_constant, i64, in_all_lanes
from dlvm_py.ir import DType

ROWS = 4  # at a time
# the grain of threads: so many multiplications of real numbers, and what these cost, in tenths of ns for 4 bytes
PRODUCTS, COST = 16, 3


def width_of(c: Code, dtype: DType) -> int:
    """The columns of a panel, a multiple of ROWS: as many as let the sums of ROWS rows lie in registers.

    Of 32 registers 16 are sums; of 16 they are 12, or 8 of complex numbers, whose parts are two vectors.
    """
    if c.module.masks:
        vectors, nbytes = (2 if dtype.is_complex else 4), 64
    else:
        vectors, nbytes = (1 if dtype.is_complex else 3), 32
    return vectors * nbytes // dtype.real.itemsize


def panel_count(c: Code, dtype: DType, columns: V) -> V:
    """How many panels a matrix has."""
    wide = width_of(c, dtype)
    return c.op("udiv", c.add(columns, i64(wide - 1)), i64(wide))


def panels_size(c: Code, dtype: DType, rows: V, columns: V) -> V:
    """The bytes of the panels of a matrix."""
    row = c.mul(panel_count(c, dtype, columns), i64(width_of(c, dtype) * dtype.itemsize))
    return c.mul(rows, row)


class Panels:
    """Writes what is done with rows of panels; `self.c` is the code."""

    def __init__(self, c: Code, dtype: DType) -> None:
        self.c, self.dtype = c, dtype
        self.real = dtype.real
        self.part = scalar_type(self.real)
        self.parts = 2 if dtype.is_complex else 1
        self.wide = width_of(c, dtype)
        self.lanes = (64 if c.module.masks else 32) // self.real.itemsize
        self.vectors = self.wide // self.lanes
        self.type = f"<{self.lanes} x {self.part}>"
        self.size, self.real_size = i64(dtype.itemsize), i64(self.real.itemsize)
        self.row_step = i64(self.wide * dtype.itemsize)
        self.part_step = i64(self.wide * self.real.itemsize)
        self.vector_step = i64(self.lanes * self.real.itemsize)

    def panel(self, data: V, rows: V, first: V) -> V:
        """Where the panel is whose first column is `first`."""
        return offset(self.c, data, [self.c.mul(first, rows)], [self.size])

    # -- elements ------------------------------------------------------------------------------------------

    def places(self, panel: V, row: V, column: V) -> list[V]:
        """The places of the parts of an element."""
        steps = [self.row_step, self.part_step, self.real_size]
        return [offset(self.c, panel, [row, i64(p), column], steps) for p in range(self.parts)]

    def element_parts(self, panel: V, row: V, column: V) -> list[V]:
        """The parts of an element."""
        return [self.c.load(self.part, place) for place in self.places(panel, row, column)]

    def element(self, panel: V, row: V, column: V) -> V:
        """An element."""
        parts = self.element_parts(panel, row, column)
        return self.c.pack(*parts) if self.parts == 2 else parts[0]

    def copy(self, panel: V, i: V, x: Matrix, row: V, first: V, width: V, is_load: bool) -> None:
        """Between row i of a panel and a row of a matrix, from column `first` on.

        A version for neighbours, which LLVM makes vectors of.
        """
        c = self.c
        start = offset(c, x.data, [row, first], [x.row_step, x.col_step])
        with c.either(c.icmp("eq", x.col_step, self.size)) as arms:
            for step in (self.size, x.col_step):
                next(arms)
                note = Parallel(c)
                with c.loop(width, note=note.loop if step is self.size else plain_loop(c)) as j:
                    place = offset(c, start, [j.index], [step])
                    slots = self.places(panel, i, j.index)
                    access = note.access if step is self.size else ""
                    if is_load:
                        found = load_element(c, self.dtype, place, access)
                        for p, slot in enumerate(slots):
                            c.store(c.extract(found, p, self.part) if self.parts == 2 else found, slot, access)
                    else:
                        parts = [c.load(self.part, slot, access) for slot in slots]
                        store_element(c, self.dtype, c.pack(*parts) if self.parts == 2 else parts[0], place, access)

    def clear(self, panel: V, rows: V) -> None:
        """Zeros: what is behind the last column counts as that."""
        c = self.c
        with c.loop(c.mul(rows, i64(self.parts * self.vectors))) as k:
            self.put([V(self.type, "zeroinitializer")], [c.gep(self.type, panel, k.index)])

    # -- rows ------------------------------------------------------------------------------------------------

    def slots(self, panel: V, row: V, vector: V | None = None) -> list[V]:
        """The places of the vectors of a row, or of one vector: those of the real parts, then of the imaginary ones."""
        vectors = [vector] if vector is not None else [i64(k) for k in range(self.vectors)]
        steps = [self.row_step, self.part_step, self.vector_step]
        return [offset(self.c, panel, [row, i64(p), v], steps) for p in range(self.parts) for v in vectors]

    def row(self, panel: V, row: V, vector: V | None = None) -> list[V]:
        """The vectors of a row, or one of them: its parts."""
        align = self.real.itemsize
        return [
            self.c.value(self.type, f"load {self.type}, ptr {p.ref}, align {align}")
            for p in self.slots(panel, row, vector)
        ]

    def put(self, xs: Sequence[V], places: Sequence[V]) -> None:
        """Store vectors."""
        for x, place in zip(xs, places, strict=True):
            self.c.line(f"store {x.type} {x.ref}, ptr {place.ref}, align {self.real.itemsize}")

    def less_products(
        self,
        sums: list[list[V]],
        rows: list[V],
        factors: V,
        first: V,
        count: V,
        of: V,
        start: V,
        vector: V | None = None,
    ) -> list[list[V]]:
        """Rows `sums` less factors[rows, first + k] times row start + k of the panel `of`, for each k below `count`."""
        c, per_row = self.c, len(sums[0])
        with c.loop(count, [x for xs in sums for x in xs], plain_loop(c)) as loop:
            xs = self.row(of, c.add(start, loop.index, "nuw nsw"), vector)
            column = c.add(first, loop.index, "nuw nsw")
            loop.next = []
            for r, row in enumerate(rows):
                mine = loop.carried[r * per_row : (r + 1) * per_row]
                loop.next = [*loop.next, *self.less(mine, self.factor(factors, row, column), xs)]
        return [list(loop.results[r * per_row : (r + 1) * per_row]) for r in range(len(rows))]

    def at(self, data: V, rows: V, column: V) -> tuple[V, V]:
        """The panel that has a column, and where."""
        c = self.c
        place = c.op("urem", column, i64(self.wide))
        return self.panel(data, rows, c.op("sub nsw", column, place)), place

    def less_columns(
        self, rows: list[V], factors: tuple[V, V], start: V, end: V, panel: V, vector: V | None = None
    ) -> list[list[V]]:
        """Rows of a panel less the elements of columns `start` to `end` of factors times those rows of the panel.

        factors: their panels, and how many rows they have.
        """
        c, wide = self.c, i64(self.wide)
        sums = self.nothing(len(rows), vector)
        per_row = len(sums[0])
        first_panel = c.op("udiv", start, wide)
        behind = c.op("udiv", c.add(end, i64(self.wide - 1)), wide)
        with c.loop(c.op("sub nsw", behind, first_panel), [x for xs in sums for x in xs], plain_loop(c)) as loop:
            first = c.mul(c.add(first_panel, loop.index, "nuw nsw"), wide, "nuw nsw")
            begin = c.select(c.icmp("sgt", start, first), start, first)
            count = c.op("sub nsw", c.minimum(end, c.add(first, wide)), begin)
            carried = [list(loop.carried[r * per_row : (r + 1) * per_row]) for r in range(len(rows))]
            column = c.op("sub nsw", begin, first)
            found = self.less_products(carried, rows, self.panel(*factors, first), column, count, panel, begin, vector)
            loop.next = [x for xs in found for x in xs]
        return self.with_rows(rows, loop.results, panel, vector)

    def nothing(self, rows: int, vector: V | None = None) -> list[list[V]]:
        """What sums of products begin with: added to rows at the end, they round once what is much larger."""
        zero = in_all_lanes(float_constant(self.part, -0.0), self.lanes)
        return [[zero] * (self.parts * (self.vectors if vector is None else 1)) for _ in range(rows)]

    def with_rows(self, rows: list[V], sums: Sequence[V], panel: V, vector: V | None = None) -> list[list[V]]:
        """Rows of a panel and sums, one row after the other."""
        found, sums = [], list(sums)
        for row in rows:
            xs = self.row(panel, row, vector)
            found.append([self.c.fop("fadd", x, y) for x, y in zip(xs, sums, strict=False)])
            del sums[: len(xs)]
        return found

    def less_triangle(self, found: list[list[V]], rows: list[V], factors: V, first: V) -> list[list[V]]:
        """Each of the rows less factors[row, first + s] times row s, for those s that are before it."""
        found = list(found)
        for r, row in enumerate(rows):
            for s in range(r):
                factor = self.factor(factors, row, self.c.add(first, i64(s), "nuw nsw"))
                found[r] = self.less(found[r], factor, found[s])
        return found

    def factor(self, panel: V, row: V, column: V) -> list[V]:
        """The parts of an element, each in all lanes."""
        return [self.all_lanes(x) for x in self.element_parts(panel, row, column)]

    def less(self, xs: list[V], factor: list[V], ys: list[V]) -> list[V]:
        """x - factor y."""
        if self.parts == 1:
            return [self.with_product("fsub", x, factor[0], y) for x, y in zip(xs, ys, strict=True)]
        v, (a, b) = len(xs) // 2, factor
        re = [self.with_product("fsub", x, a, y) for x, y in zip(xs[:v], ys[:v], strict=True)]
        im = [self.with_product("fsub", x, a, y) for x, y in zip(xs[v:], ys[v:], strict=True)]
        re = [self.with_product("fadd", x, b, y) for x, y in zip(re, ys[v:], strict=True)]
        return [*re, *(self.with_product("fsub", x, b, y) for x, y in zip(im, ys[:v], strict=True))]

    def with_product(self, how: str, x: V, a: V, y: V) -> V:
        """x + a y, or x - a y."""
        return self.c.fop(how, x, self.c.fop("fmul", a, y, " contract"), " contract")

    def times(self, xs: Sequence[V], factor: Sequence[V]) -> list[V]:
        """The parts of x times those of a factor."""
        c = self.c
        if self.parts == 1:
            return [c.fop("fmul", x, factor[0]) for x in xs]
        v, (a, b) = len(xs) // 2, factor
        pairs = list(zip(xs[:v], xs[v:], strict=True))
        re = [self.with_product("fsub", c.fop("fmul", x, a, " contract"), b, y) for x, y in pairs]
        return [*re, *(self.with_product("fadd", c.fop("fmul", x, b, " contract"), a, y) for x, y in pairs)]

    def inverse(self, parts: Sequence[V]) -> list[V]:
        """The parts of 1 / x, of those of a number."""
        c, one, zero = self.c, float_constant(self.part, 1.0), float_constant(self.part, 0.0)
        if self.parts == 1:
            return [c.fop("fdiv", one, parts[0])]
        inverse = TABLE["divide"]["c"](c, self.dtype, {}, c.pack(one, zero), c.pack(*parts))
        return [c.extract(inverse, k, self.part) for k in (0, 1)]

    def all_lanes(self, x: V) -> V:
        """A vector with x in all lanes."""
        return splat(self.c, x, self.lanes)
