"""@dlvm.solve.T, cholesky, choleskyAdjoint, determinant, factorizes_lu, factorizes_cholesky: one a module and dtype.

Solutions and determinants are by the LU of lu.py, factors by cholesky_factor.py. What raises writes nothing to its
destination, which the caller may see.

solve looks whether there is nothing below the diagonal, as in the derivatives of cholesky: a third of the work then.
LU with pivoting does just that substitution, and finds the same zero on the diagonal; of a lower triangle it exchanges
rows.
"""

from __future__ import annotations

from math import inf

from dlvm_py.backend.cpu.cholesky import reverse_function
from dlvm_py.backend.cpu.cholesky_factor import cholesky_function
from dlvm_py.backend.cpu.cholesky_factor import factor as factor_cholesky
from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix, as_matrix
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.lapack import FAILED, NO_MEMORY, OK, Routine
from dlvm_py.backend.cpu.lu import factor as factor_lu
from dlvm_py.backend.cpu.lu import lu_function
from dlvm_py.backend.cpu.matmul import INT_MAX
from dlvm_py.backend.cpu.panels import Panels, panel_count, panels_size, width_of
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.share import split
from dlvm_py.backend.cpu.substitution import Substitution
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.triangular import product_of
from dlvm_py.backend.cpu.values import FALSE, NULL, ONE, TRUE, ZERO, V, float_constant, i64
from dlvm_py.ir import DType, Instruction

BY_LU = frozenset(("solve", "determinant", "factorizes_lu"))
BY_ROOTS = frozenset(("cholesky", "factorizes_cholesky"))
# logarithms of sizes up to which products are numbers with all their digits, for 4 and 8 bytes
NEAR_ONE = {4: 80.0, 8: 700.0}
COMPLAINTS = {"solve": "Singular matrix", "cholesky": "Matrix is not positive definite"}


def store_factored(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a solution, a factor, a determinant or a verdict to `dest`; the work that it is."""
    operands = [e.pointer(v.operands[0]) for v in i.operands]  # type: ignore[attr-defined]
    matrices = [as_matrix(e, p, column=True) for p in (*operands, dest)]
    n, m = operands[0].extents[0], operands[-1].extents[1]
    name = _function(e, "_".join((i.op.name, *i.attrs.values())), dest.dtype, len(matrices))
    status = e.call(f"@{name}", "i32", [e.ctx, n, m, *(v for x in matrices for v in x.flat())])
    e.require_memory(e.select(e.icmp("ne", status, NO_MEMORY), e.ctx, NULL))
    if i.op.name in COMPLAINTS:
        e.raise_unless(e.icmp("ne", status, FAILED), "LinAlgError", COMPLAINTS[i.op.name])
    return e.mul(e.mul(n, n), m)


def _function(e: FunctionEmitter, op: str, dtype: DType, count: int) -> str:
    """define i32 op(ctx, n, m, a..., [b...], to...), `count` matrices: m is the number of columns of the last."""
    name = f"dlvm.{op}.{dtype}"
    types = ["ptr", "i64", "i64", *["ptr", "i64", "i64"] * count]
    other = ""
    if op in BY_LU:
        other = lu_function(e, dtype)
    elif op in BY_ROOTS:
        other = cholesky_function(e, dtype)
    elif dtype.is_float:
        other = product_of(e, dtype)
    shares = e.grain is not None and op in BY_LU | BY_ROOTS
    if e.grain is not None and other:
        name += ".shared"
    if op in BY_LU | BY_ROOTS and e.module.masks:
        name += ".masks"
    return helper(e, name, "i32", types, lambda c: getattr(_Factored(c, dtype, other), op)(), shares)


class _Factored(Routine):
    """Writes one of the functions."""

    def __init__(self, c: Code, dtype: DType, other: str) -> None:
        super().__init__(c, dtype)
        self.other = (
            other  # of lu.py or cholesky_factor.py, or the product of real matrices for those that work by halves
        )
        self.n, self.m = c.params[1:3]
        groups = [c.params[k : k + 3] for k in range(3, len(c.params), 3)]
        shapes = [(self.n, self.n), *[(self.n, self.m)] * (len(groups) - 1)]
        self.matrices = [Matrix(g[0], *s, *g[1:]) for g, s in zip(groups, shapes, strict=True)]

    def solve(self) -> None:
        """By the factors of lu.py; what has nothing below the diagonal is its own."""
        c, (a, b, to) = self.c, self.matrices
        panels = Substitution(c, self.dtype, self.n, self.m)
        is_upper = c.op("xor", self._has_lower(a), TRUE)
        factors, pivots, status, memory = self._lu(a, is_upper, *panels.sizes)
        with c.when(c.icmp("eq", status, OK)):
            panels.write(factors, pivots, is_upper, b, to, memory)
        self.end(status)
        split(c)

    def _lu(self, a: Matrix, is_upper: V, *sizes: V) -> tuple[V, V, V, list[V]]:
        """(factors in panels, pivots, status) of lu.py, and more memory."""
        c, n = self.c, self.n
        factors, *memory, pivots = self.block(panels_size(c, self.dtype, n, n), *sizes, c.mul(n, i64(8)))
        status = factor_lu(c, self.other, a, is_upper, factors, pivots)
        return factors, pivots, status, memory

    def _has_lower(self, x: Matrix) -> V:
        """Whether an element below the diagonal is not zero; looks no further than its column."""
        c, found = self.c, self.c.alloca("i1")
        c.store(FALSE, found)
        with c.loop(x.cols) as j, c.when(c.op("xor", c.load("i1", found), TRUE)):
            first = c.add(j.index, ONE)
            with c.loop(c.op("sub", x.rows, first), [FALSE]) as i:
                element = self.load(x, c.add(first, i.index), j.index)
                parts = [element]
                if self.dtype.is_complex:
                    parts = [c.extract(element, k, scalar_type(self.real)) for k in (0, 1)]
                i.next = [c.any(i.carried[0], *(c.fcmp("une", p, float_constant(p.type, 0.0)) for p in parts))]
            c.store(i.results[0], found)
        return c.load("i1", found)

    def cholesky(self) -> None:
        """The lower triangle, by rows, of the factor of cholesky_factor.py; zeros above."""
        c, (a, to) = self.c, self.matrices
        status, panels = self._root(a)
        with c.when(c.icmp("eq", status, OK)):
            writer, wide = Panels(c, self.dtype), i64(width_of(c, self.dtype))
            with c.loop(panel_count(c, self.dtype, self.n)) as p:
                first = c.mul(p.index, wide, "nuw nsw")
                width, panel = c.minimum(wide, c.op("sub nsw", self.n, first)), writer.panel(panels, self.n, first)
                with c.loop(width) as j:
                    row = c.add(first, j.index, "nuw nsw")
                    with c.loop(c.add(row, ONE), note=plain_loop(c)) as k:
                        self.store(to, row, k.index, writer.element(panel, k.index, j.index))
                    behind = c.add(row, ONE)
                    with c.loop(c.op("sub", self.n, behind)) as k:
                        self.store(to, row, c.add(behind, k.index), self.number(0.0))
        self.end(status)

    def _root(self, a: Matrix) -> tuple[V, V]:
        """(status, panels) of cholesky_factor.py."""
        (panels,) = self.block(panels_size(self.c, self.dtype, self.n, self.n))
        return factor_cholesky(self.c, self.other, a, panels), panels

    def choleskyAdjoint(self) -> None:  # noqa: N802  the op's name
        """The triangle of `reverse_function`, half of its diagonal; zeros above."""
        c, (low, seed, to) = self.c, self.matrices
        low, mine = self._in_rows(low, low), self._in_rows(to, seed)
        reverse = reverse_function(c, self.dtype, self.other)
        c.call(f"@{reverse}", "void", [self.ctx, self.n, low.data, low.row_step, mine.data, mine.row_step])
        self._triangle(mine, to, one_half=self.number(0.5))
        self.end()

    def _in_rows(self, x: Matrix, of: Matrix) -> Matrix:
        """A matrix like x whose rows BLAS can read, with the elements `of`: the memory of x where its rows are such."""
        c, size = self.c, self.size
        plain, steps = c.mul(x.cols, size), c.op("sdiv", x.row_step, size)
        whole = c.icmp("eq", c.mul(steps, size), x.row_step)
        fits = c.both(c.icmp("sge", x.row_step, plain), c.icmp("sle", steps, i64(INT_MAX)))
        fine = c.both(c.icmp("eq", x.col_step, size), whole, fits)
        own = self.memory(c.select(fine, ZERO, c.mul(x.rows, plain)))
        found = Matrix(c.select(fine, x.data, own), x.rows, x.cols, c.select(fine, x.row_step, plain), size)
        with c.when(c.any(c.op("xor", fine, TRUE), c.icmp("ne", of.data, x.data))):
            self.copy(of.transposed, found.transposed)
        return found

    def _triangle(self, source: Matrix, to: Matrix, one_half: V | None) -> None:
        """Write a lower triangle, its diagonal times `one_half`, and zeros above, row by row."""
        c = self.c
        with c.loop(to.rows) as i:
            with c.loop(i.index) as j:
                self.store(to, i.index, j.index, self.load(source, i.index, j.index))
            x = self.load(source, i.index, i.index)
            self.store(to, i.index, i.index, x if one_half is None else self.op("multiply", x, one_half))
            behind = c.add(i.index, ONE)
            with c.loop(c.op("sub", to.cols, behind)) as j:
                self.store(to, i.index, c.add(behind, j.index), self.number(0.0))

    def determinant(self) -> None:
        """The product of the diagonal of lu.py's factors, with a sign for each exchange of rows.

        Where the product of some of it has no place among the numbers, by the sum of logarithms, as NumPy does always.
        """
        c, (a, to) = self.c, self.matrices
        factors, pivots, status, _ = self._lu(a, FALSE)
        panels, wide = Panels(c, self.dtype), i64(width_of(c, self.dtype))
        part = scalar_type(self.real)
        one, none = self.number(1.0), float_constant(part, 0.0)
        with c.loop(self.n, [one, one, none, none]) as k:
            column = c.op("urem", k.index, wide)
            x = panels.element(panels.panel(factors, self.n, c.op("sub", k.index, column)), k.index, column)
            stays = c.icmp("eq", c.load("i64", c.gep("i64", pivots, k.index)), k.index)
            x = c.select(stays, x, self.op("negate", x))
            size, phase = self._polar(x)
            found, direction, log, furthest = k.carried
            log = c.fop("fadd", log, self.real_op("log", size))
            away = self.real_op("abs", log)
            k.next = [
                self.op("multiply", found, x),
                self.op("multiply", direction, phase),
                log,
                c.select(c.fcmp("ogt", away, furthest), away, furthest),
            ]
        found, direction, log, furthest = k.results
        is_near = c.fcmp("olt", furthest, float_constant(part, NEAR_ONE[self.real.itemsize]))
        far = self.op("multiply", direction, self.element(self.real_op("exp", log)))
        regular = c.icmp("eq", status, OK)
        singular = (self.number(0.0), self.number(0.0), self.number(-inf))
        values = (c.select(is_near, found, far), direction, self.element(log))
        for place, (value, otherwise) in enumerate(zip(values, singular, strict=True)):
            self.store(to, i64(place), ZERO, c.select(regular, value, otherwise))
        self.end()

    def factorizes_lu(self) -> None:
        """1 if no pivot is 0, else 0."""
        a, to = self.matrices
        self._verdict(to, self._lu(a, FALSE)[2])

    def factorizes_cholesky(self) -> None:
        """1 if all that it takes roots of is positive, else 0."""
        a, to = self.matrices
        self._verdict(to, self._root(a)[0])

    def _verdict(self, to: Matrix, info: V) -> None:
        fine = self.c.icmp("eq", info, OK)
        self.store(to, ZERO, ZERO, self.c.select(fine, self.number(1.0), self.number(0.0)))
        self.end()

    def _polar(self, x: V) -> tuple[V, V]:
        """(|x|, x / |x|): the size as a real number; the sign of NaN is 1, as in NumPy."""
        c = self.c
        if not self.dtype.is_complex:
            below = c.fcmp("olt", x, self.number(0.0))
            return self.op("abs", x), c.select(below, self.number(-1.0), self.number(1.0))
        part = scalar_type(self.real)
        parts = [c.extract(x, k, part) for k in (0, 1)]
        length = TABLE["hypot"]["f"](c, self.real, {}, *parts)
        return length, c.pack(*(c.fop("fdiv", p, length) for p in parts))

    def real_op(self, name: str, x: V) -> V:
        """An elementwise op on a real number."""
        return TABLE[name]["f"](self.c, self.real, {}, x)
