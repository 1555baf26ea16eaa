"""@dlvm.cholesky_reverse.T: from a factor l and the adjoint of it the adjoint of the matrix, by halves.

    [s11    ]        s22 <- reverse(l22, s22)                     down to 1 row, in steps of one row below SMALL rows
    [s21 s22]        s21 <- (s21 - s22 l21) l11⁻¹                 real: triangular.py; complex: hemm, trsm
                     s11 <- reverse(l11, s11 - s21ᴴ l21)          a product; complex: gemm

which are the steps of l11 l11ᴴ = a11, l21 l11ᴴ = a21, l22 l22ᴴ = a22 - l21 l21ᴴ backwards. What is found is the lower
triangle of σ = ā + āᴴ, where the derivative with respect to the lower triangle is ā: a Hermitian matrix. Rows lie side
by side; what is above the diagonal of s is not read, and overwritten. It takes 5/12 n³ multiplications with additions
where the formula l⁻ᴴ Φ(lᴴ l̄) l⁻¹ takes 2 n³, nearly all of them in products of matrices.
Sources: Murray, "Differentiation of the Cholesky decomposition" (2016); Smith, "Differentiation of the Cholesky
algorithm" (1995).
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix, multiply_add
from dlvm_py.backend.cpu.lapack import Routine
from dlvm_py.backend.cpu.pointers import load_element, offset, store_element
from dlvm_py.backend.cpu.text import Parallel, plain_loop
from dlvm_py.backend.cpu.triangular import over_function, subtract_product
from dlvm_py.backend.cpu.values import ONE, V, i64
from dlvm_py.ir import DType

SMALL = 32  # rows: below, products of halves are too short for BLAS


def reverse_function(e: Code, dtype: DType, product: str) -> str:
    """define void reverse(ctx, n, l, its step from row to row, s, its step): s <- the lower triangle of σ.

    product: of triangular.py, for real matrices.
    """
    name = f"dlvm.cholesky_reverse.{dtype}"
    types = ["ptr", "i64", "ptr", "i64", "ptr", "i64"]
    return helper(e, name, "void", types, lambda c: _Reverse(c, dtype, name, product).write())


class _Reverse(Routine):
    """Writes the function; `self.c` is its code."""

    def __init__(self, c: Code, dtype: DType, name: str, product: str) -> None:
        super().__init__(c, dtype)
        self.name, self.product = name, product
        self.n, low, low_step, s, s_step = c.params[1:]
        self.low = Matrix(low, self.n, self.n, low_step, self.size)
        self.s = Matrix(s, self.n, self.n, s_step, self.size)

    def write(self) -> None:
        """By rows, or by halves."""
        c = self.c
        with c.either(c.icmp("sle", self.n, i64(SMALL))) as arms:
            next(arms)
            self._by_rows()
            next(arms)
            self._by_halves()
        c.line("ret void")

    def _by_rows(self) -> None:
        """The halves are all rows but the last, and that one."""
        c = self.c
        with c.loop(self.n) as k:
            r = c.op("sub", c.op("sub", self.n, ONE), k.index)
            last = self._over(self._real(self.s, r, r), self._real(self.low, r, r))
            self.store(self.s, r, r, last)
            row, low_row = self._row(self.s, r), self._row(self.low, r)
            self._subtract(r, last, low_row, row)
            with c.loop(r) as down:
                j = c.op("sub", c.op("sub", r, ONE), down.index)
                x = self._over(self.load(self.s, r, j), self._real(self.low, j, j))
                self.store(self.s, r, j, x)
                self._subtract(j, x, self._row(self.low, j), row)
            with c.loop(r) as i:
                x = self.load(self.s, r, i.index)
                x = self.op("conjugate", x) if self.dtype.is_complex else x
                self._subtract(c.add(i.index, ONE), x, low_row, self._row(self.s, i.index))

    def _by_halves(self) -> None:
        c, size = self.c, self.size
        top = c.op("lshr", self.n, ONE)
        below = c.op("sub", self.n, top)
        low, s = (
            [
                Matrix(data, rows, cols, x.row_step, size)
                for data, rows, cols in (
                    (x.data, top, top),
                    (self._row(x, top), below, top),
                    (offset(c, self._row(x, top), [top], [size]), below, below),
                )
            ]
            for x in (self.low, self.s)
        )
        self._again(low[2], s[2])
        if self.dtype.is_complex:
            self._by_blas(low, s)
        else:
            self._by_products(low, s)
        self._again(low[0], s[0])

    def _again(self, low: Matrix, s: Matrix) -> None:
        args = [self.ctx, low.rows, low.data, low.row_step, s.data, s.row_step]
        self.c.call(f"@{self.name}", "void", args)

    def _by_products(self, low: Sequence[Matrix], s: Sequence[Matrix]) -> None:
        """With what is above the diagonal of s22, which nobody reads any more, as it is below it."""
        c, product = self.c, self.product
        with c.loop(s[2].rows) as i, c.loop(i.index, note=plain_loop(c)) as j:
            self.store(s[2], j.index, i.index, self.load(s[2], i.index, j.index))
        subtract_product(c, product, self.ctx, s[2], low[1], s[1])
        over = over_function(c, self.dtype, product, transposed=False)
        args = [s[1].rows, s[1].cols, low[0].data, low[0].row_step, s[1].data, s[1].row_step]
        c.call(f"@{over}", "void", [self.ctx, *args])
        subtract_product(c, product, self.ctx, s[1].transposed, low[1], s[0])

    def _by_blas(self, low: Sequence[Matrix], s: Sequence[Matrix]) -> None:
        """Which counts by columns: all matrices are transposed, so that the lower triangles are upper ones."""
        below, top = low[1].rows, low[1].cols
        low_lead, lead = (self.c.op("sdiv", x[0].row_step, self.size) for x in (low, s))
        minus, one = self.number(-1.0), self.number(1.0)
        data, low_data = [x.data for x in s], [x.data for x in low]
        letters = [self.letter(x) for x in "RU"]
        self.blas("hemm", [*letters, top, below, minus, data[2], lead, low_data[1], low_lead, one, data[1], lead])
        letters = [self.letter(x) for x in "LUNN"]
        self.blas("trsm", [*letters, top, below, one, low_data[0], low_lead, data[1], lead])
        letters = [self.letter(x) for x in "NC"]
        self.blas("gemm", [*letters, top, top, below, minus, low_data[1], low_lead, data[1], lead, one, data[0], lead])

    def _row(self, x: Matrix, i: V) -> V:
        return offset(self.c, x.data, [i], [x.row_step])

    def _real(self, x: Matrix, i: V, j: V) -> V:
        """The real part of an element."""
        value = self.load(x, i, j)
        return self.c.extract(value, 0, scalar_type(self.real)) if self.dtype.is_complex else value

    def _over(self, x: V, real: V) -> V:
        """x, an element or a real number, divided by a real number, as an element."""
        c, part = self.c, scalar_type(self.real)
        if x.type == part:
            return self.element(c.fop("fdiv", x, real))
        return c.pack(*(c.fop("fdiv", c.extract(x, k, part), real) for k in (0, 1)))

    def _subtract(self, count: V, x: V, source: V, to: V) -> None:
        """to -= x * source, for so many elements; they do not overlap."""
        c, part = self.c, Parallel(self.c)
        x = self.op("negate", x)
        with c.loop(count, note=part.loop) as j:
            at, by = (offset(c, p, [j.index], [self.size]) for p in (to, source))
            old, term = (load_element(c, self.dtype, p, part.access) for p in (at, by))
            store_element(c, self.dtype, multiply_add(c, self.dtype, old, x, term, "contract"), at, part.access)
