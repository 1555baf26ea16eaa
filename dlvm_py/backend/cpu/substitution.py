"""Many right-hand sides by the factors of a matrix, in panels of columns that our threads share.

    a x = b, where p a = l u:    l y = p b,  u x = y      columns of x are independent

LAPACK's getrs has threads of its own, which wait for each other in a loop, and its kernels for triangles are slow where
matrices are small. Here a panel of columns (panels.py) is copied side by side; then rows are computed ROWS at a time,
with all sums in registers (elimination.py):

    forwards     rows i.. -= l[i.., k] row k  for all k < i, then what is in the triangle at the diagonal
    backwards    rows i.. -= u[i.., k] row k  for all k behind, then the triangle, each divided by its pivot

What is left of the rows, fewer than ROWS, comes row by row. The factors are in panels themselves, those of lu.py; where
they are many they are read once for a few panels. The columns beyond the last one are zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.dot import Matrix
from dlvm_py.backend.cpu.elimination import NEAR, eliminate_function, less_function
from dlvm_py.backend.cpu.panels import COST, PRODUCTS, ROWS, Panels, panels_size, width_of
from dlvm_py.backend.cpu.pointers import offset
from dlvm_py.backend.cpu.share import shared
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import ONE, TRUE, ZERO, V, i64
from dlvm_py.ir import DType

# factors of more bytes than a core has in its cache are read for so many panels at a time, of so many of their own
TOGETHER, DEPTH = 4, 2


class Substitution:
    """Writes the solution for m columns of n by the factors that lu.py gives, and its exchanges of rows.

    sizes: the bytes of memory that it wants: of panels, of places of rows.
    """

    def __init__(self, c: Code, dtype: DType, n: V, m: V) -> None:
        self.c, self.dtype, self.n = c, dtype, n
        self.size, self.wide = i64(dtype.itemsize), width_of(c, dtype)
        self.sizes = [panels_size(c, dtype, n, m), c.mul(n, i64(8))]

    def write(self, factors: V, pivots: V, is_upper: V, b: Matrix, to: Matrix, memory: list[V]) -> None:
        """Write the solution to `to`; is_upper: l is the identity."""
        c, n = self.c, self.n
        panels, places = memory
        self._order(pivots, places)
        parts, real = 4 if self.dtype.is_complex else 1, self.dtype.real
        work = c.op("udiv", c.product([n, n, b.cols, i64(parts)]), i64(PRODUCTS))
        is_large = c.icmp("ugt", c.product([n, n, self.size]), i64(NEAR))
        together = c.select(is_large, i64(self.wide * TOGETHER), i64(self.wide))
        count = c.op("udiv", c.add(b.cols, c.op("sub", together, ONE)), together)
        name = panels_function(c, self.dtype)
        with shared(c, count, work, COST * real.itemsize // 4, chunk=ONE) as part:
            first, last = part or (ZERO, count)
            with c.loop(c.op("sub nsw", last, first)) as loop:
                column = c.mul(c.add(first, loop.index, "nuw nsw"), together, "nuw nsw")
                width = c.minimum(together, c.op("sub nsw", b.cols, column))
                panel = offset(c, panels, [c.mul(column, n)], [self.size])
                ends = [v for x in (b, to) for v in (offset(c, x.data, [column], [x.col_step]), x.row_step, x.col_step)]
                c.call(f"@{name}", "void", [n, width, factors, is_upper, places, panel, *ends])

    def _order(self, pivots: V, places: V) -> None:
        """Which row of b is row i, after the exchanges."""
        c = self.c
        with c.loop(self.n, note=plain_loop(c)) as i:
            c.store(i.index, c.gep("i64", places, i.index))
        with c.loop(self.n, note=plain_loop(c)) as i:
            row = c.load("i64", c.gep("i64", pivots, i.index))
            slots = [c.gep("i64", places, k) for k in (i.index, row)]
            found = [c.load("i64", s) for s in slots]
            for slot, x in zip(slots, reversed(found), strict=True):
                c.store(x, slot)


def panels_function(c: Code, dtype: DType) -> str:
    """define void panels(n, width, factors, is_upper, places, panels, b, its steps, to, its steps): so many columns."""
    name = f"dlvm.substitute_panels.{dtype}{'.masks' if c.module.masks else ''}"
    types = ["i64", "i64", "ptr", "i1", "ptr", "ptr", *["ptr", "i64", "i64"] * 2]
    return helper(c, name, "void", types, lambda c: _Substitution(c, dtype).write())


class _Substitution(Panels):
    """Writes that function; `self.c` is its code."""

    def __init__(self, c: Code, dtype: DType) -> None:
        super().__init__(c, dtype)
        self.n, self.columns, self.factors, self.is_upper, self.order, self.data = c.params[:6]
        self.b, self.to = (Matrix(g[0], self.n, self.columns, g[1], g[2]) for g in (c.params[6:9], c.params[9:12]))

    def write(self) -> None:
        """Some rows of all panels after others, so that the factors are read once for all of them."""
        c, n = self.c, self.n
        with self._each():
            with c.when(c.icmp("slt", self.width, i64(self.wide))):
                self.clear(self.mine, n)
            with c.loop(n) as i:
                row = c.load("i64", c.gep("i64", self.order, i.index))
                self.copy(self.mine, i.index, self.b, row, self.first, self.width, is_load=True)
        is_large = c.icmp("ugt", c.product([n, n, self.size]), i64(NEAR))
        depth = c.select(is_large, i64(self.wide * DEPTH), c.select(c.icmp("sgt", n, ONE), n, ONE))
        blocks = c.op("udiv", c.add(n, c.op("sub", depth, ONE)), depth)
        with c.when(c.op("xor", self.is_upper, TRUE)), c.loop(blocks) as k:
            args = [n, self.factors, *self._block(k.index, depth)]
            with self._each():
                c.call(f"@{eliminate_function(c, self.dtype)}", "void", [*args, self.mine])
        with c.loop(blocks) as k:
            first, last = self._block(c.op("sub nsw", c.op("sub nsw", blocks, ONE), k.index), depth)
            with self._each():
                self._invert_upper(first, last)
                c.call(
                    f"@{less_function(c, self.dtype)}", "void", [n, self.factors, ZERO, first, first, last, self.mine]
                )
        with self._each(), c.loop(n) as i:
            self.copy(self.mine, i.index, self.to, i.index, self.first, self.width, is_load=False)
        c.line("ret void")

    @contextmanager
    def _each(self) -> Iterator[None]:
        """Code for each panel: where it is, its columns, and the first one of the matrices."""
        c = self.c
        with c.loop(c.op("udiv", c.add(self.columns, i64(self.wide - 1)), i64(self.wide))) as loop:
            self.first = c.mul(loop.index, i64(self.wide), "nuw nsw")
            self.width = c.minimum(i64(self.wide), c.op("sub nsw", self.columns, self.first))
            self.mine = self.panel(self.data, self.n, self.first)
            yield

    def _block(self, k: V, depth: V) -> tuple[V, V]:
        """The first row of some, and the one behind them."""
        first = self.c.mul(k, depth, "nuw nsw")
        return first, self.c.minimum(self.n, self.c.add(first, depth, "nuw nsw"))

    def _invert_upper(self, first: V, last: V) -> None:
        """u⁻¹ of rows first .. last, from the last one on."""
        c = self.c
        tiles = c.op("udiv", c.op("sub nsw", last, first), i64(ROWS))
        whole = c.add(first, c.mul(tiles, i64(ROWS), "nuw nsw"), "nuw nsw")
        with c.loop(c.op("sub nsw", last, whole)) as k:
            self._backwards(c.op("sub nsw", last, c.add(k.index, ONE)), 1, last)
        with c.loop(tiles) as k:
            self._backwards(c.op("sub nsw", whole, c.mul(c.add(k.index, ONE), i64(ROWS), "nuw nsw")), ROWS, last)

    def _backwards(self, row: V, count: int, last: V) -> None:
        """Some rows, of which those behind, up to the last one, are done."""
        c = self.c
        rows = [c.add(row, i64(r), "nuw nsw") for r in range(count)]
        behind = c.add(row, i64(count), "nuw nsw")
        found = self.less_columns(rows, (self.factors, self.n), behind, last, self.mine)
        factors, column = self.at(self.factors, self.n, row)
        columns = [c.add(column, i64(r), "nuw nsw") for r in range(count)]
        for r in reversed(range(count)):
            for s in reversed(range(r + 1, count)):
                found[r] = self.less(found[r], self.factor(factors, rows[r], columns[s]), found[s])
            found[r] = self._over(found[r], self.element_parts(factors, rows[r], columns[r]))
            self.put(found[r], self.slots(self.mine, rows[r]))

    def _over(self, xs: list[V], pivot: list[V]) -> list[V]:
        """x / pivot; of complex numbers x times 1 / pivot."""
        if self.parts == 1:
            divisor = self.all_lanes(pivot[0])
            return [self.c.fop("fdiv", x, divisor) for x in xs]
        return self.times(xs, [self.all_lanes(x) for x in self.inverse(pivot)])
