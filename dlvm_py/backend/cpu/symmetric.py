"""A matrix times its own transpose: half of the product of two matrices (packed.py).

    to = x xᵀ          n rows, k terms; the lower triangle is computed, the upper one is copied from it

BLAS has `syrk` for it, but runs it in its own threads; cut into pieces of `gemm` for ours it computes squares on the
diagonal as a whole, and packs rows of x for each piece again. Here they are packed once:

    squares    of SIDE rows and columns of the lower triangle, which threads share; those on the diagonal with a few
               elements beyond it
    mirrored   after the last terms: each square by squares of vectors that are transposed in registers
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.dot import Matrix
from dlvm_py.backend.cpu.lanes import transposed
from dlvm_py.backend.cpu.packed import (
    COST,
    PRODUCTS,
    SIDE,
    VECTORS,
    Registers,
    Writer,
    pack,
    pieces,
    rectangle_function,
    span_of,
    steps,
)
from dlvm_py.backend.cpu.pointers import offset
from dlvm_py.backend.cpu.share import shared
from dlvm_py.backend.cpu.skinny import strips
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import ONE, ZERO, V, i64
from dlvm_py.frozen import replace
from dlvm_py.ir import DType


class Symmetric:
    """Writes one such product; `packed` says what memory it wants for panels."""

    def __init__(self, c: Code, dtype: DType, x: Matrix, to: Matrix) -> None:
        self.c, self.dtype, self.x, self.to = c, dtype, x, to
        self.wide = Registers(c, dtype).wide
        rows = c.mul(pieces(c, x.rows, self.wide), i64(self.wide))
        self.span = span_of(c, dtype, rows, x.cols)
        self.packed = replace(x, rows=rows, cols=self.span)

    def pays(self) -> V:
        """Whether x has so many rows that tiles are not mostly empty."""
        return self.c.icmp("sgt", self.x.rows, i64(self.wide - self.wide // VECTORS))

    def write(self, panels: V, is_plain: V) -> None:
        """is_plain: whether elements of a column of x are neighbours; else those of a row are."""
        c, x = self.c, self.x

        def some_terms(start: V, terms: V) -> None:
            data = offset(c, x.data, [start], [x.col_step])
            pack(c, self.dtype, replace(x, data=data, cols=terms), panels, is_plain)
            is_last = c.icmp("eq", c.add(start, terms), x.cols)
            self._squares(panels, terms, c.icmp("eq", start, ZERO), is_last)

        strips(c, x.cols, self.span, some_terms)

    def _squares(self, panels: V, terms: V, is_first: V, is_last: V) -> None:
        """All squares up to the diagonal. A row of them and the one as far from the other end make one of equal length:

        0                         number 0 to 4: the last row, then the first
        1 1                       number 5 to 9: the row before it, then the second
        . . .
        """
        c, n = self.c, self.x.rows
        squares = pieces(c, n, SIDE)
        name, mirror = rectangle_function(c, self.dtype, "below"), mirror_function(c, self.dtype)
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
                place = [top, left, self.to.data, self.to.row_step]
                c.call(f"@{name}", "void", [panels, panels, terms, n, n, *place, is_first])
                with c.when(is_last):
                    c.call(f"@{mirror}", "void", [n, *place])


def mirror_function(c: Code, dtype: DType) -> str:
    """define void mirror(n, top, left, to, row step): a square of SIDE rows below the diagonal, copied above it."""
    types = ["i64", "i64", "i64", "ptr", "i64"]
    return helper(c, f"dlvm.mirror.{dtype}", "void", types, lambda c: _Mirror(c, dtype).write())


class _Mirror(Writer):
    def write(self) -> None:
        c, lanes = self.c, self.registers.lanes
        n, top, left, to, row_step = c.params
        bottom, right = (c.minimum(n, c.add(x, i64(SIDE))) for x in (top, left))
        strides = [row_step, self.size]
        rest = c.op("urem", c.op("sub nsw", bottom, top), i64(lanes))
        whole = c.op("sub nsw", bottom, rest)

        with steps(c, top, whole, lanes) as row, steps(c, left, c.minimum(right, row), lanes) as column:
            here = [c.add(row, i64(r)) for r in range(lanes)]
            found = [self.load(offset(c, to, [r, column], strides)) for r in here]
            for r, x in enumerate(transposed(c, found)):
                self.store(x, offset(c, to, [c.add(column, i64(r)), row], strides))
        with c.loop(rest, note=plain_loop(c)) as last:
            row = c.add(whole, last.index, "nuw nsw")
            with c.loop(c.op("sub nsw", c.minimum(right, row), left), note=plain_loop(c)) as j:
                column = c.add(left, j.index, "nuw nsw")
                self.put(self.element(to, [row, column], strides), to, [column, row], strides)
        c.line("ret void")
