"""Rows of a panel less factors times other rows of it: the inner loops of LU and of solutions by its factors.

    @dlvm.less.T         rows begin .. end of a panel less columns first .. last of the factors times those rows
    @dlvm.eliminate.T    rows first .. last become l⁻¹ of themselves; those below less products with them

ROWS rows at a time have all their sums in registers; what is left of the rows comes one by one.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.panels import ROWS, Panels
from dlvm_py.backend.cpu.values import V, i64
from dlvm_py.ir import DType

# of matrices of more bytes than a core has in its cache, what follows from so many panels is done at once
NEAR, GROUP = 1 << 20, 2


def function_name(c: Code, what: str, dtype: DType, *has: str) -> str:
    """The name of a function of this kind, whose panels are wider with masks."""
    return ".".join(["dlvm", what, str(dtype), *has, *(["masks"] if c.module.masks else [])])


def less_function(c: Code, dtype: DType) -> str:
    """define void less(n, factors, begin, end, first, last, panel)."""
    types = ["i64", "ptr", *["i64"] * 4, "ptr"]
    return helper(c, function_name(c, "less", dtype), "void", types, lambda c: _less(Elimination(c, dtype)))


def eliminate_function(c: Code, dtype: DType) -> str:
    """define void eliminate(n, factors, first, last, panel): `last` is n, or a multiple of ROWS, as `first`."""
    types = ["i64", "ptr", "i64", "i64", "ptr"]
    return helper(c, function_name(c, "eliminate", dtype), "void", types, lambda c: _eliminate(Elimination(c, dtype)))


def _less(x: Elimination) -> None:
    c = x.c
    begin, end, first, last, panel = c.params[2:]
    x.subtract_from(begin, end, ROWS, first, last, panel)
    c.line("ret void")


def _eliminate(x: Elimination) -> None:
    c = x.c
    first, last, panel = c.params[2:]
    x.invert(first, last, panel)
    c.call(f"@{less_function(c, x.dtype)}", "void", [x.n, x.factors, last, x.n, first, last, panel])
    c.line("ret void")


class Elimination(Panels):
    """Writes it, in functions whose first parameters are the number of rows and the panels of the factors."""

    def __init__(self, c: Code, dtype: DType) -> None:
        super().__init__(c, dtype)
        self.n, self.factors = c.params[:2]

    def subtract(
        self, row: V, count: int, first: V, last: V, panel: V, vector: V | None = None, triangle: bool = False
    ) -> None:
        """So many rows from `row` on less the factors of columns first .. last times those rows.

        vector: that one alone. triangle: the factors of the columns from `last` on are of these rows.
        """
        c = self.c
        rows = [c.add(row, i64(r), "nuw nsw") for r in range(count)]
        sums = self.less_columns(rows, (self.factors, self.n), first, last, panel, vector)
        if triangle:
            sums = self.less_triangle(sums, rows, *self.at(self.factors, self.n, last))
        for r, xs in zip(rows, sums, strict=True):
            self.put(xs, self.slots(panel, r, vector))

    def subtract_from(self, begin: V, end: V, tall: int, first: V, last: V, panel: V, vector: V | None = None) -> None:
        """The same of rows begin .. end, `tall` of them at a time."""
        c = self.c
        tiles = c.op("sdiv", c.op("sub nsw", end, begin), i64(tall))
        whole = c.add(begin, c.mul(tiles, i64(tall), "nsw"), "nsw")
        with c.loop(tiles) as k:
            row = c.add(begin, c.mul(k.index, i64(tall), "nuw nsw"))
            self.subtract(row, tall, first, last, panel, vector)
        with c.loop(c.op("sub nsw", end, whole)) as k:
            self.subtract(c.add(whole, k.index), 1, first, last, panel, vector)

    def invert(self, first: V, last: V, panel: V, vector: V | None = None) -> None:
        """l⁻¹ of rows first .. last."""
        c = self.c
        tiles = c.op("sdiv", c.op("sub nsw", last, first), i64(ROWS))
        whole = c.add(first, c.mul(tiles, i64(ROWS), "nsw"), "nsw")
        with c.loop(tiles) as k:
            row = c.add(first, c.mul(k.index, i64(ROWS), "nuw nsw"), "nuw nsw")
            self.subtract(row, ROWS, first, row, panel, vector, triangle=True)
        with c.loop(c.op("sub nsw", last, whole)) as k:
            row = c.add(whole, k.index, "nuw nsw")
            self.subtract(row, 1, first, row, panel, vector)
