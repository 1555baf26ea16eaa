"""@dlvm.over_triangle.T: by halves, down to what fits the nearest cache.

    x <- x l⁻¹:  [xa xb] [la   ]   xb <- xb lc⁻¹            x <- x l⁻ᵀ:   xa <- xa la⁻ᵀ
                         [lb lc]   xa <- (xa - xb lb) la⁻¹                xb <- (xb - xa lbᵀ) lc⁻ᵀ

Nearly all of it is in products of matrices, which threads of ours share (blas.py). BLAS has the same, trsm, in threads
of its own from 1,024 elements on, which cost more than they bring where ours are there as well. Real matrices, row
after row; what is above a diagonal is not read.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix, multiply_add
from dlvm_py.backend.cpu.lapack import Routine
from dlvm_py.backend.cpu.matmul import matmul_function
from dlvm_py.backend.cpu.pointers import load_element, offset, store_element
from dlvm_py.backend.cpu.text import Parallel, plain_loop
from dlvm_py.backend.cpu.values import ONE, ZERO, V, i64
from dlvm_py.ir import DType

COLUMNS, ROWS = 32, 64  # of x, where it is divided column by column: vectors lie along the rows


def product_of(e: Code, dtype: DType) -> str:
    """The function that subtracts a product, to be named where the functions here are called from."""
    return matmul_function(e, dtype, "subtract")


def subtract_product(c: Code, product: str, ctx: V, a: Matrix, b: Matrix, to: Matrix) -> None:
    """to -= a b. None is so thin that it would be copied, so that there is memory for it."""
    args = [ctx, to.rows, to.cols, a.cols, *a.flat(), *b.flat(), *to.flat()]
    if product not in c.module.functions:
        c.module.declare(product, "i32", [v.type for v in args], "nounwind")
    c.call(f"@{product}", "i32", args)


def over_function(e: Code, dtype: DType, product: str, transposed: bool) -> str:
    """define void over(ctx, rows, columns, l, its step from row to row, x, its step): x <- x l⁻¹, or x l⁻ᵀ."""
    name = f"dlvm.over_{'transposed_' if transposed else ''}triangle.{dtype}"
    types = ["ptr", "i64", "i64", "ptr", "i64", "ptr", "i64"]
    return helper(e, name, "void", types, lambda c: _Over(c, dtype, name, product, transposed).write())


class _Over(Routine):
    """Writes the function; `self.c` is its code."""

    def __init__(self, c: Code, dtype: DType, name: str, product: str, transposed: bool) -> None:
        super().__init__(c, dtype)
        self.name, self.product, self.transposed = name, product, transposed
        m, n, low, low_step, x, x_step = c.params[1:]
        self.low = Matrix(low, n, n, low_step, self.size)
        self.x = Matrix(x, m, n, x_step, self.size)

    def write(self) -> None:
        """By columns, or by halves."""
        c = self.c
        with c.either(c.icmp("sle", self.x.cols, i64(COLUMNS))) as arms:
            next(arms)
            self._by_columns()
            next(arms)
            self._by_halves()
        c.line("ret void")

    def _by_halves(self) -> None:
        x, low, n = self.x, self.low, self.x.cols
        top = self.c.op("lshr", n, ONE)
        rest = self.c.op("sub", n, top)
        xa, xb = self._part(x, ZERO, ZERO, x.rows, top), self._part(x, ZERO, top, x.rows, rest)
        la, lc = self._part(low, ZERO, ZERO, top, top), self._part(low, top, top, rest, rest)
        lb = self._part(low, top, ZERO, rest, top)
        if self.transposed:
            self._again(la, xa)
            subtract_product(self.c, self.product, self.ctx, xa, lb.transposed, xb)
            self._again(lc, xb)
        else:
            self._again(lc, xb)
            subtract_product(self.c, self.product, self.ctx, xb, lb, xa)
            self._again(la, xa)

    def _part(self, x: Matrix, row: V, column: V, rows: V, cols: V) -> Matrix:
        return Matrix(offset(self.c, x.data, [row, column], [x.row_step, self.size]), rows, cols, x.row_step, self.size)

    def _again(self, low: Matrix, x: Matrix) -> None:
        args = [self.ctx, x.rows, x.cols, low.data, low.row_step, x.data, x.row_step]
        self.c.call(f"@{self.name}", "void", args)

    def _by_columns(self) -> None:
        """Some rows at a time, turned, so that columns are divided and subtracted as vectors."""
        c, x, n = self.c, self.x, self.x.cols
        height = i64(ROWS * self.dtype.itemsize)
        turned = Matrix(
            c.alloca(f"[{COLUMNS * ROWS} x {scalar_type(self.dtype)}]", 64), n, i64(ROWS), height, self.size
        )
        pieces = c.op("udiv", c.add(x.rows, i64(ROWS - 1)), i64(ROWS))
        with c.loop(pieces) as piece:
            start = c.mul(piece.index, i64(ROWS))
            rows = c.minimum(i64(ROWS), c.op("sub nsw", x.rows, start))
            some = self._part(x, start, ZERO, rows, n)
            # where there are fewer rows, others are divided as well: by numbers, not by what lay there
            with c.when(c.icmp("slt", rows, i64(ROWS))), c.loop(n) as j, c.loop(i64(ROWS), note=plain_loop(c)) as i:
                self.store(turned, j.index, i.index, self.number(1.0))
            with c.loop(rows) as i, c.loop(n) as j:
                self.store(turned, j.index, i.index, self.load(some, i.index, j.index))
            self._divide(turned)
            with c.loop(rows) as i, c.loop(n) as j:
                self.store(some, i.index, j.index, self.load(turned, j.index, i.index))

    def _divide(self, turned: Matrix) -> None:
        c, n = self.c, turned.rows
        with c.loop(n) as k:
            j = k.index if self.transposed else c.op("sub", c.op("sub", n, ONE), k.index)
            column = self._columns(turned, j)
            divisor, part = self.load(self.low, j, j), Parallel(c)
            with c.loop(i64(ROWS), note=part.loop) as i:
                at = offset(c, column, [i.index], [self.size])
                store_element(c, self.dtype, c.fop("fdiv", load_element(c, self.dtype, at, part.access), divisor), at)
            others = c.op("sub", c.op("sub", n, ONE), k.index)
            with c.loop(others) as other:
                p = c.add(c.add(j, ONE), other.index) if self.transposed else other.index
                factor = self.load(self.low, *((p, j) if self.transposed else (j, p)))
                factor, to, part = self.op("negate", factor), self._columns(turned, p), Parallel(c)
                with c.loop(i64(ROWS), note=part.loop) as i:
                    at, by = (offset(c, v, [i.index], [self.size]) for v in (to, column))
                    old, term = (load_element(c, self.dtype, v, part.access) for v in (at, by))
                    new = multiply_add(c, self.dtype, old, factor, term, "contract")
                    store_element(c, self.dtype, new, at, part.access)

    def _columns(self, turned: Matrix, j: V) -> V:
        return offset(self.c, turned.data, [j], [turned.row_step])
