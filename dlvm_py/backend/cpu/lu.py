"""@dlvm.lu.T: the factors of a square matrix, p a = l u, in panels (panels.py), which our threads share.

    panel p:    vector after vector of its columns    less what is before them in the panel
                                                      column by column: pivot, exchange of rows, division, products
    others:     those behind    exchange of rows, then l⁻¹ of WIDE rows, then rows below less products
                those before    exchange of rows

LAPACK's getrf has threads of its own from some 100 rows on, which wait for each other in a loop: with other jobs on
the cores 0.7 ms become 120. The pivot is LAPACK's: the first of the largest |re| + |im|. Where it is zero there are no
factors, and it ends. A column is divided by a product with the pivot's inverse, both scaled where that would not be a
number with all its digits. What is no number is treated as OpenBLAS treats it: NaN is no larger than another, a column
is not divided by NaN, and any number over an infinite pivot is zero.
Source: Golub and Van Loan, Matrix Computations, 3.4 (outer products by blocks, partial pivoting).
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.dot import Matrix
from dlvm_py.backend.cpu.elimination import GROUP, NEAR, Elimination, eliminate_function, function_name
from dlvm_py.backend.cpu.lapack import FAILED, OK
from dlvm_py.backend.cpu.panels import COST, PRODUCTS, Panels, panel_count
from dlvm_py.backend.cpu.share import shared, split
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import ONE, TRUE, ZERO, V, float_constant, i64
from dlvm_py.ir import DType

# the parameters of the function, and the first ones of those that do what follows from some columns: n, panels, the
# first column, their number, pivots
TYPES = ["i64", "ptr", "i64", "i64", "i1", "ptr", "ptr"]
STEP = ["i64", "ptr", "i64", "i64", "ptr"]
TALL = 8  # rows at a time of one vector
# exponents of two: pivots beyond are scaled before they are inverted, and by how much
BEYOND = {4: (110, 60), 8: (1000, 300)}


def lu_function(e: Code, dtype: DType) -> str:
    """define i32 lu(n, a, its steps, is_upper, panels, pivots): OK or FAILED; pivot k: the row that row k changed with.

    is_upper: there is nothing but zeros below the diagonal.
    """
    shares = e.grain is not None
    name = function_name(e, "lu", dtype, *(["shared"] if shares else []))
    return helper(e, name, "i32", TYPES, lambda c: _Lu(c, dtype).write(), shares)


def factor(c: Code, name: str, a: Matrix, is_upper: V, panels: V, pivots: V) -> V:
    """Call the function of that name, which is to be had where this one is called from: threads share it there."""
    args = [a.rows, *a.flat(), is_upper, panels, pivots]
    if name not in c.module.functions:
        c.module.declare(name, "i32", TYPES, "nounwind")
    return c.call(f"@{name}", "i32", args)


class _Lu(Panels):
    """Writes that function; `self.c` is its code."""

    def __init__(self, c: Code, dtype: DType) -> None:
        super().__init__(c, dtype)
        self.n, data, row_step, col_step, self.is_upper, self.data, self.pivots = c.params
        self.a = Matrix(data, self.n, self.n, row_step, col_step)

    def write(self) -> None:
        """Panel after panel."""
        c, n = self.c, self.n
        count = panel_count(c, self.dtype, n)
        self._load(count)
        upper, general = c.label("upper"), c.label("general")
        c.cond_br(self.is_upper, upper, general)
        c.place(upper)
        self._leave_upper()
        c.place(general)
        is_large = c.icmp("ugt", c.product([n, n, self.size]), i64(NEAR))
        together = c.select(is_large, i64(GROUP), ONE)
        with c.loop(c.op("udiv", c.add(count, c.op("sub", together, ONE)), together)) as loop:
            begin = c.mul(loop.index, together, "nuw nsw")
            end = c.minimum(count, c.add(begin, together, "nuw nsw"))
            with c.loop(c.op("sub nsw", end, begin)) as k:
                panel = c.add(begin, k.index, "nuw nsw")
                self._factor(panel)
                self._others((panel, c.add(panel, ONE, "nuw nsw")), (begin, end))
            self._others((begin, end), (ZERO, count))
        c.line(f"ret i32 {OK.ref}")
        split(c)

    def _factor(self, panel: V) -> None:
        """The columns of one panel."""
        c = self.c
        columns = helper(
            c, function_name(c, "lu_columns", self.dtype), "i32", STEP, lambda c: _Columns(c, self.dtype).write()
        )
        first, width = self._columns_of(panel, c.add(panel, ONE))
        self._unless_failed(c.call(f"@{columns}", "i32", [self.n, self.data, first, width, self.pivots]))

    def _others(self, done: tuple[V, V], among: tuple[V, V]) -> None:
        """What is done with panels, those of `among` but for `done`, after the columns of `done`."""
        c = self.c
        others = helper(
            c,
            function_name(c, "lu_others", self.dtype),
            "void",
            [*STEP, "ptr", "i1"],
            lambda c: _Others(c, self.dtype).write(),
        )
        first, width = self._columns_of(*done)
        behind = c.op("sub nsw", among[1], done[1])
        count = c.add(behind, c.op("sub nsw", done[0], among[0]))
        columns = c.mul(behind, i64(self.wide * self.parts**2))
        products = c.op("udiv", c.product([c.op("sub nsw", self.n, first), width, columns]), i64(PRODUCTS))
        with shared(c, count, products, COST * self.real.itemsize // 4, chunk=ONE) as part:
            begin, end = part or (ZERO, count)
            with c.loop(c.op("sub nsw", end, begin)) as k:
                # those behind come first, which are more work
                place = c.add(done[1], c.add(begin, k.index))
                is_behind = c.icmp("slt", place, among[1])
                before = c.add(c.op("sub nsw", place, among[1]), among[0])
                column = c.mul(c.select(is_behind, place, before), i64(self.wide))
                panel = self.panel(self.data, self.n, column)
                c.call(f"@{others}", "void", [self.n, self.data, first, width, self.pivots, panel, is_behind])

    def _columns_of(self, begin: V, end: V) -> tuple[V, V]:
        """The first column of some panels, and how many they have."""
        c, wide = self.c, i64(self.wide)
        first = c.mul(begin, wide, "nuw nsw")
        return first, c.op("sub nsw", c.minimum(self.n, c.mul(end, wide, "nuw nsw")), first)

    def _load(self, count: V) -> None:
        """The matrix, in panels."""
        c, n, wide = self.c, self.n, i64(self.wide)
        with c.loop(count) as p:
            first = c.mul(p.index, wide, "nuw nsw")
            width, panel = c.minimum(wide, c.op("sub nsw", n, first)), self.panel(self.data, n, first)
            with c.when(c.icmp("slt", width, wide)):
                self.clear(panel, n)
            with c.loop(n) as i:
                self.copy(panel, i.index, self.a, i.index, first, width, is_load=True)

    def _leave_upper(self) -> None:
        """Whose factors are the identity and itself: OK where no element of the diagonal is zero."""
        c = self.c
        with c.loop(self.n, note=plain_loop(c)) as i:
            c.store(i.index, c.gep("i64", self.pivots, i.index))
            column = c.op("urem", i.index, i64(self.wide))
            panel = self.panel(self.data, self.n, c.op("sub nsw", i.index, column))
            is_zero = self.is_zero(self.element_parts(panel, i.index, column))
            self._unless_failed(c.select(is_zero, FAILED, OK))
        c.line(f"ret i32 {OK.ref}")

    def _unless_failed(self, status: V) -> None:
        c = self.c
        failed, after = c.label("failed"), c.label("after")
        c.likely(c.icmp("eq", status, OK), after, failed)
        c.place(failed)
        c.line(f"ret i32 {FAILED.ref}")
        c.place(after)

    def is_zero(self, parts: list[V]) -> V:
        """Whether a number is 0."""
        return self.c.both(*(self.c.fcmp("oeq", x, float_constant(self.part, 0.0)) for x in parts))


class _Step(Elimination):
    """What follows from some columns of the matrix, from `first` on."""

    def __init__(self, c: Code, dtype: DType) -> None:
        super().__init__(c, dtype)
        self.first, self.columns, self.pivots = c.params[2:5]

    def exchange(self, panel: V, a: V, b: V) -> None:
        """Two rows of a panel change places."""
        places = [self.slots(panel, row) for row in (a, b)]
        found = [self.row(panel, row) for row in (a, b)]
        for slots, xs in zip(places, reversed(found), strict=True):
            self.put(xs, slots)


class _Others(_Step):
    """Writes void others(n, panels, first, columns, pivots, other panel, whether it is behind)."""

    def write(self) -> None:
        """Exchanges of rows, and what is behind less products."""
        c, (other, is_behind) = self.c, self.c.params[5:]
        with c.loop(self.columns) as k:
            j = c.add(self.first, k.index)
            row = c.load("i64", c.gep("i64", self.pivots, j))
            with c.when(c.icmp("ne", row, j)):
                self.exchange(other, j, row)
        with c.when(is_behind):
            name = eliminate_function(c, self.dtype)
            last = c.add(self.first, self.columns, "nuw nsw")
            c.call(f"@{name}", "void", [self.n, self.factors, self.first, last, other])
        c.line("ret void")


class _Columns(_Step):
    """Writes i32 columns(n, panels, first, columns, pivots): the factors of a panel's columns."""

    def write(self) -> None:
        """Vector after vector."""
        c, lanes = self.c, i64(self.lanes)
        self.mine = self.panel(self.factors, self.n, self.first)
        self.largest = c.alloca(self.type, 64)
        with c.loop(c.op("udiv", c.add(self.columns, i64(self.lanes - 1)), lanes)) as loop:
            self.vector, self.before = loop.index, c.mul(loop.index, lanes, "nuw nsw")
            top = c.add(self.first, self.before, "nuw nsw")
            with c.when(c.icmp("sgt", self.vector, ZERO)):
                self.invert(self.first, top, self.mine, self.vector)
                self.subtract_from(top, self.n, TALL, self.first, top, self.mine, self.vector)
            zeros = V(self.type, "zeroinitializer")
            with c.loop(c.op("sub nsw", self.n, top), [zeros], plain_loop(c)) as i:
                xs = self.row(self.mine, c.add(top, i.index, "nuw nsw"), self.vector)
                i.next = [self._larger(self._magnitude(xs), i.carried[0])]
            c.store(i.results[0], self.largest)
            with c.loop(c.minimum(lanes, c.op("sub nsw", self.columns, self.before))) as t:
                self._column(c.add(top, t.index, "nuw nsw"), t.index)
        c.line(f"ret i32 {OK.ref}")

    def _column(self, j: V, lane: V) -> None:
        """Row j gets the pivot of column j; the rows below are divided by it, and less its row what is behind."""
        c = self.c
        column = c.add(self.before, lane, "nuw nsw")
        row = self._find(j, column, c.load(self.part, c.gep(self.part, self.largest, lane)))
        c.store(row, c.gep("i64", self.pivots, j))
        with c.when(c.icmp("ne", row, j)):
            self.exchange(self.mine, j, row)
        pivot = self.element_parts(self.mine, j, column)
        failed, after = c.label("failed"), c.label("after")
        zero = float_constant(self.part, 0.0)
        is_zero = c.both(*(c.fcmp("oeq", x, zero) for x in pivot))
        c.likely(c.op("xor", is_zero, TRUE), after, failed)
        c.place(failed)
        c.line(f"ret i32 {FAILED.ref}")
        c.place(after)
        inverse, scale = self._inverse(pivot)
        is_infinite = c.both(*(c.fcmp("oeq", x, zero) for x in inverse))
        numbers = V(f"<{self.lanes} x i64>", f"<{', '.join(f'i64 {k}' for k in range(self.lanes))}>")
        here = self.all_lanes(lane)
        behind, mine = c.icmp("ugt", numbers, here), c.icmp("eq", numbers, here)
        zeros = V(self.type, "zeroinitializer")
        pivots = [c.select(behind, x, zeros) for x in self.row(self.mine, j, self.vector)]
        start = c.add(j, ONE, "nuw nsw")
        with c.loop(c.op("sub nsw", self.n, start), [zeros], plain_loop(c)) as loop:
            i = c.add(start, loop.index, "nuw nsw")
            factor = self.times(self.element_parts(self.mine, i, column), inverse)
            factor = [self.all_lanes(c.select(is_infinite, zero, c.fop("fmul", x, scale))) for x in factor]
            row, products = self.row(self.mine, i, self.vector), self.times(pivots, factor)
            found = [c.fop("fsub", x, y) for x, y in zip(row, products, strict=True)]
            self.put(
                [c.select(mine, f, x) for f, x in zip(factor, found, strict=True)],
                self.slots(self.mine, i, self.vector),
            )
            loop.next = [self._larger(self._magnitude(found), loop.carried[0])]
        c.store(loop.results[0], self.largest)

    def _find(self, start: V, column: V, largest: V) -> V:
        """The first row with the largest magnitude; with NaN there it is `start`."""
        c = self.c
        size = self._magnitude(self.element_parts(self.mine, start, column))
        last = c.select(c.fcmp("uno", size, size), start, c.op("sub nsw", self.n, ONE))
        before, look, go_on, found = c.here, c.label("look"), c.label("next"), c.label("found")
        c.br(look)
        c.place(look)
        row = c.phi("i64")
        row.add(start, before)
        x = self._magnitude(self.element_parts(self.mine, row.value, column))
        is_it = c.any(c.fcmp("oge", x, largest), c.icmp("sge", row.value, last))
        c.cond_br(is_it, found, go_on)
        c.place(go_on)
        row.add(c.add(row.value, ONE, "nuw nsw"), c.here)
        c.br(look)
        c.place(found)
        return row.value

    def _inverse(self, pivot: list[V]) -> tuple[list[V], V]:
        """(1 / (pivot scale), scale), so that neither overflows nor has lost digits; of NaN (1, 1)."""
        c = self.c
        limit, by = BEYOND[self.real.itemsize]
        size, one = self._magnitude(pivot), float_constant(self.part, 1.0)
        small = c.fcmp("olt", size, float_constant(self.part, 2.0**-limit))
        large = c.fcmp("ogt", size, float_constant(self.part, 2.0**limit))
        shrink = c.select(large, float_constant(self.part, 2.0**-by), one)
        scale = c.select(small, float_constant(self.part, 2.0**by), shrink)
        inverse = self.inverse([c.fop("fmul", x, scale) for x in pivot])
        is_nan = c.fcmp("uno", size, size)
        ones = [one, float_constant(self.part, 0.0)]
        return [c.select(is_nan, a, x) for a, x in zip(ones, inverse, strict=False)], scale

    def _magnitude(self, parts: list[V]) -> V:
        """|x|, of complex numbers |re| + |im|, of numbers or vectors."""
        c = self.c
        name = f"llvm.fabs.{'v' + str(self.lanes) if parts[0].type == self.type else ''}f{8 * self.real.itemsize}"
        sizes = [c.intrinsic(name, x.type, x) for x in parts]
        return c.fop("fadd", *sizes) if self.parts == 2 else sizes[0]

    def _larger(self, x: V, y: V) -> V:
        return self.c.select(self.c.fcmp("ogt", x, y), x, y)
