"""@dlvm.cholesky_panels.T: the factor of a Hermitian matrix, a = l lᴴ, in panels (panels.py), which our threads share.

The panels have lᵀ: row k of a panel has column k of l, as far as the panel's columns are rows of that.

    panel p:       rows of its own columns    less what is before them, then over the root of the diagonal
    those behind   the same rows              less what is before them, then over the diagonal
                   rows down to their own     less conj(lᵀ[k, i]) times row k, for these k

The loop is that of elimination.py, with factors side by side: those of ROWS rows at one k. Only the lower triangle of a
counts. Where what a root is taken of is not positive, there is no factor, and it ends.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.dot import Matrix
from dlvm_py.backend.cpu.elimination import function_name
from dlvm_py.backend.cpu.lapack import FAILED, OK
from dlvm_py.backend.cpu.panels import COST, PRODUCTS, ROWS, Panels, panel_count
from dlvm_py.backend.cpu.share import shared, split
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import ONE, ZERO, V, float_constant, i64
from dlvm_py.ir import DType

TYPES = ["i64", "ptr", "i64", "i64", "ptr"]


def cholesky_function(e: Code, dtype: DType) -> str:
    """define i32 cholesky(n, a, its steps, panels): OK or FAILED."""
    shares = e.grain is not None
    name = function_name(e, "cholesky_panels", dtype, *(["shared"] if shares else []))
    return helper(e, name, "i32", TYPES, lambda c: _Cholesky(c, dtype).write(), shares)


def factor(c: Code, name: str, a: Matrix, panels: V) -> V:
    """Call the function of that name, which is to be had where this one is called from: threads share it there."""
    if name not in c.module.functions:
        c.module.declare(name, "i32", TYPES, "nounwind")
    return c.call(f"@{name}", "i32", [a.rows, *a.flat(), panels])


class _Cholesky(Panels):
    """Writes that function; `self.c` is its code."""

    def __init__(self, c: Code, dtype: DType) -> None:
        super().__init__(c, dtype)
        self.n, data, row_step, col_step, self.data = c.params
        self.a = Matrix(data, self.n, self.n, row_step, col_step)

    def write(self) -> None:
        """Panel after panel."""
        c, n, wide = self.c, self.n, i64(self.wide)
        count = panel_count(c, self.dtype, n)
        self._load(count)
        types = ["i64", "ptr", "i64", "i64"]
        root = helper(c, function_name(c, "cholesky_root", self.dtype), "i32", types, self._writer("root"))
        with c.loop(count) as loop:
            first = c.mul(loop.index, wide, "nuw nsw")
            last = c.minimum(n, c.add(first, wide, "nuw nsw"))
            args = [n, self.data, first, last]
            failed, after = c.label("failed"), c.label("after")
            c.likely(c.icmp("eq", c.call(f"@{root}", "i32", args), OK), after, failed)
            c.place(failed)
            c.line(f"ret i32 {FAILED.ref}")
            c.place(after)
            behind = c.op("sub nsw", count, c.add(loop.index, ONE))
            rows = c.op("lshr", c.add(c.op("sub nsw", n, first), wide), ONE)
            # those that rows are less are done in all panels before
            self._behind("over", args, count, behind, i64(self.wide // 2))
            self._behind("less_rows", args, count, behind, rows)
        c.line(f"ret i32 {OK.ref}")
        split(c)

    def _behind(self, what: str, args: list[V], count: V, behind: V, rows: V) -> None:
        """One of the functions below, for each panel that is behind; rows: how many it is about."""
        c = self.c
        types = [*(x.type for x in args), "i64"]
        name = helper(c, function_name(c, f"cholesky_{what}", self.dtype), "void", types, self._writer(what))
        work = c.product([behind, rows, i64(self.wide * self.wide * self.parts**2 // PRODUCTS)])
        with shared(c, behind, work, COST * self.real.itemsize // 4, chunk=ONE) as part:
            begin, end = part or (ZERO, behind)
            with c.loop(c.op("sub nsw", end, begin)) as k:
                # the last one comes first, which is more work
                panel = c.op("sub nsw", count, c.add(c.add(begin, k.index), ONE))
                c.call(f"@{name}", "void", [*args, c.mul(panel, i64(self.wide), "nuw nsw")])

    def _writer(self, name: str):  # type: ignore[no-untyped-def]
        dtype = self.dtype
        return lambda c: getattr(_Step(c, dtype), name)()

    def _load(self, count: V) -> None:
        """The lower triangle, transposed, and what is above it in the squares at the diagonal, which nobody reads."""
        c, n, wide = self.c, self.n, i64(self.wide)
        with c.loop(count) as p:
            first = c.mul(p.index, wide, "nuw nsw")
            width, panel = c.minimum(wide, c.op("sub nsw", n, first)), self.panel(self.data, n, first)
            rows = c.add(first, width)
            with c.when(c.icmp("slt", width, wide)):
                self.clear(panel, rows)
            with c.loop(rows) as i:
                self.copy(panel, i.index, self.a.transposed, i.index, first, width, is_load=True)


class _Step(Panels):
    """Writes functions of (n, panels, first, last, ...): what follows from the rows first .. last."""

    def __init__(self, c: Code, dtype: DType) -> None:
        super().__init__(c, dtype)
        self.n, self.data, self.first, self.last = c.params[:4]

    def root(self) -> None:
        """i32 root(n, panels, first, last): these rows of the panel that they are the columns of."""
        panel = self.panel(self.data, self.n, self.first)
        self._rows(panel, is_own=True)
        self.c.line(f"ret i32 {OK.ref}")

    def over(self) -> None:
        """void over(n, panels, first, last, column): these rows of the panel from a column on."""
        self._rows(self.panel(self.data, self.n, self.c.params[4]), is_own=False)
        self.c.line("ret void")

    def less_rows(self) -> None:
        """void less_rows(n, panels, first, last, column): rows of that panel from the last one on."""
        c, column = self.c, self.c.params[4]
        panel = self.panel(self.data, self.n, column)
        end = c.minimum(self.n, c.add(column, i64(self.wide)))
        for begin, tall, count in self._tiles(self.last, end):
            with c.loop(count) as k:
                row = c.add(begin, c.mul(k.index, i64(tall), "nuw nsw"), "nuw nsw")
                rows = [c.add(row, i64(r), "nuw nsw") for r in range(tall)]
                sums = self._less_before(rows, self.last, panel)
                for r, xs in zip(rows, sums, strict=True):
                    self.put(xs, self.slots(panel, r))
        c.line("ret void")

    def _tiles(self, begin: V, end: V) -> list[tuple[V, int, V]]:
        """ROWS rows at a time, and what is left: where they begin, how many at a time, how many times."""
        c = self.c
        tiles = c.op("udiv", c.op("sub nsw", end, begin), i64(ROWS))
        whole = c.add(begin, c.mul(tiles, i64(ROWS), "nuw nsw"), "nuw nsw")
        return [(begin, ROWS, tiles), (whole, 1, c.op("sub nsw", end, whole))]

    def _rows(self, panel: V, is_own: bool) -> None:
        c = self.c
        for begin, tall, count in self._tiles(self.first, self.last):
            with c.loop(count) as k:
                row = c.add(begin, c.mul(k.index, i64(tall), "nuw nsw"), "nuw nsw")
                rows = [c.add(row, i64(r), "nuw nsw") for r in range(tall)]
                sums = self._less_before(rows, row, panel)
                factors, column = self.at(self.data, self.n, row)
                columns = [c.add(column, i64(r), "nuw nsw") for r in range(tall)]
                for r in range(tall):
                    for s in range(r):
                        sums[r] = self.less(sums[r], self._conjugate(factors, rows[s], columns[r]), sums[s])
                    if is_own:
                        self.put(sums[r], self.slots(panel, rows[r]))
                        size = self._root(factors, rows[r], columns[r])
                    else:
                        size = self.element_parts(factors, rows[r], columns[r])[0]
                    inverse = self.all_lanes(c.fop("fdiv", float_constant(self.part, 1.0), size))
                    sums[r] = [c.fop("fmul", x, inverse) for x in sums[r]]
                    self.put(sums[r], self.slots(panel, rows[r]))
                    if is_own:
                        places = self.places(panel, rows[r], columns[r])
                        for x, place in zip([size, float_constant(self.part, 0.0)], places, strict=False):
                            c.store(x, place)

    def _root(self, panel: V, row: V, column: V) -> V:
        """The root of what is on the diagonal, a real number; leaves where it is 0 or less. NaN goes on."""
        c = self.c
        x = self.element_parts(panel, row, column)[0]
        failed, after = c.label("failed"), c.label("after")
        c.likely(c.fcmp("ugt", x, float_constant(self.part, 0.0)), after, failed)
        c.place(failed)
        c.line(f"ret i32 {FAILED.ref}")
        c.place(after)
        return c.intrinsic(f"llvm.sqrt.f{8 * self.real.itemsize}", self.part, x)

    def _less_before(self, rows: list[V], end: V, panel: V) -> list[list[V]]:
        """Rows that follow each other less what follows from the rows self.first .. end."""
        c, sums = self.c, self.nothing(len(rows))
        per_row = len(sums[0])
        factors, column = self.at(self.data, self.n, rows[0])
        with c.loop(c.op("sub nsw", end, self.first), [x for xs in sums for x in xs], plain_loop(c)) as loop:
            k = c.add(self.first, loop.index, "nuw nsw")
            xs = self.row(panel, k)
            loop.next = []
            for r in range(len(rows)):
                mine = list(loop.carried[r * per_row : (r + 1) * per_row])
                factor = self._conjugate(factors, k, c.add(column, i64(r), "nuw nsw"))
                loop.next = [*loop.next, *self.less(mine, factor, xs)]
        return self.with_rows(rows, loop.results, panel)

    def _conjugate(self, panel: V, row: V, column: V) -> list[V]:
        """The parts of an element's conjugate, in all lanes."""
        re, *im = self.element_parts(panel, row, column)
        return [self.all_lanes(x) for x in (re, *(self.c.fneg(x) for x in im))]
