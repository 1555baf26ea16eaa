"""@dlvm.eigh.T, svd, qr, lstsq, ...: decompositions by SciPy's LAPACK, with NumPy's choice of drivers.

The results are packed as the op rows say (ir/ops/eigen.py, svd.py, least_squares.py).
"""

from __future__ import annotations

import math

import numpy as np

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix, as_matrix
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.lapack import FAILED, NO_MEMORY, Routine, Workspace
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import NULL, ONE, ZERO, V, float_constant, i64
from dlvm_py.ir import DType, Instruction, dtype_of, is_array

_EIGENVALUES, _VALUES = "Eigenvalues did not converge", "SVD did not converge"
COMPLAINTS = {
    "eigh": _EIGENVALUES, "eigvalsh": _EIGENVALUES, "eig": _EIGENVALUES, "eigvals": _EIGENVALUES,
    "svd": _VALUES, "svdvals": _VALUES, "lstsq": f"{_VALUES} in Linear Least Squares",
    "qr": "Incorrect argument found while performing QR factorization",
}  # fmt: skip


def store_decomposition(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write the packed result to `dest`; the work that it is."""
    arrays = [v for v in i.operands if is_array(v.type)]
    matrices = [as_matrix(e, e.pointer(v.operands[0]), column=True) for v in arrays]  # type: ignore[attr-defined]
    dtype = arrays[0].type.dtype  # type: ignore[attr-defined]
    args = [v for x in (*matrices, as_matrix(e, dest, column=True)) for v in (x.rows, x.cols, *x.flat())]
    if i.op.name == "lstsq":
        args.append(e.scalar(i.operands[2]))
    name = _function(e, i, dtype, [v.type for v in args])
    status = e.call(f"@{name}", "i32", [e.ctx, *args])
    e.require_memory(e.select(e.icmp("ne", status, NO_MEMORY), e.ctx, NULL))
    e.raise_unless(e.icmp("ne", status, FAILED), "LinAlgError", COMPLAINTS[i.op.name])
    size = e.mul(matrices[0].rows, matrices[0].cols)
    return e.mul(size, e.add(matrices[0].rows, matrices[0].cols))


def _function(e: FunctionEmitter, i: Instruction, dtype: DType, types: list[str]) -> str:
    """define i32 op(ctx, matrices..., to, [cutoff]); a matrix is its extents, its address and its strides."""
    words = [str(v if v is not True else k) for k, v in sorted(i.attrs.items()) if v]
    name = ".".join(["dlvm", i.op.name, *words, str(dtype)])
    return helper(e, name, "i32", ["ptr", *types], lambda c: getattr(_Decomposition(c, dtype), i.op.name)(**i.attrs))


class _Decomposition(Routine):
    """Writes one of the functions."""

    def __init__(self, c: Code, dtype: DType) -> None:
        super().__init__(c, dtype)
        count = (len(c.params) - 1) // 5
        groups = [c.params[1 + 5 * k : 6 + 5 * k] for k in range(count)]
        self.a, *self.right, self.to = [Matrix(g[2], g[0], g[1], g[3], g[4]) for g in groups]

    # -- eigenvalues -----------------------------------------------------------------------------------

    def eigh(self, upper: bool = False) -> None:
        """syevd, heevd."""
        n = self.a.rows
        mine, values, info = self._hermitian("V", upper)
        self._put_values(values, n)
        self._put(mine, ONE, ZERO, n, n)
        self.end(info)

    def eigvalsh(self, upper: bool = False) -> None:
        """syevd, heevd without vectors."""
        _, values, info = self._hermitian("N", upper)
        self._put_reals(values, self.a.rows)
        self.end(info)

    def _hermitian(self, job: str, upper: bool) -> tuple[Matrix, V, V]:
        n = self.a.rows
        block, values = self.block(self.elements(n, n), self.reals(n))
        mine = self.columns(block, n, n)
        self.copy(self.a, mine)
        first = [self.letter(job), self.letter("U" if upper else "L"), self.int(n), block, self.lead(n), values]

        def arguments(w: Workspace) -> list[V]:
            reals = [w.rwork, w.real_count] if self.dtype.is_complex else []
            return [*first, w.work, w.count, *reals, w.iwork, w.int_count]

        return mine, values, self.call_with_work("heevd" if self.dtype.is_complex else "syevd", arguments)

    def eig(self) -> None:
        """geev with right eigenvectors."""
        if not self.dtype.is_complex:
            self._eig_of_real("V")
            return
        n = self.a.rows
        values, vectors, info = self._general("V")
        self._put(values, ZERO, ZERO, ONE, n)
        self._put(vectors, ONE, ZERO, n, n)
        self.end(info)

    def eigvals(self) -> None:
        """geev without vectors."""
        if not self.dtype.is_complex:
            self._eig_of_real("N")
            return
        values, _, info = self._general("N")
        self._put(values.transposed, ZERO, ZERO, self.a.rows, ONE)
        self.end(info)

    def _general(self, job: str) -> tuple[Matrix, Matrix, V]:
        """The eigenvalues as a row, and the eigenvectors."""
        n = self.a.rows
        sizes = [self.elements(n, n), self.elements(n), self.elements(n, n), self.reals(n, i64(2))]
        block, values, vectors, rwork = self.block(*sizes)
        self.copy(self.a, self.columns(block, n, n))
        lead = self.lead(n)
        first = [self.letter("N"), self.letter(job), self.int(n), block, lead, values, vectors, lead, vectors, lead]
        info = self.call_with_work("geev", lambda w: [*first, w.work, w.count, rwork], rwork=ZERO, iwork=ZERO)
        return self.columns(values, ONE, n), self.columns(vectors, n, n), info

    def _eig_of_real(self, job: str) -> None:
        """geev of a real matrix: real and imaginary parts apart, of two conjugates the one with im > 0 first."""
        c, n, zero = self.c, self.a.rows, float_constant(scalar_type(self.real), 0.0)
        block, re, im, data = self.block(self.elements(n, n), self.reals(n), self.reals(n), self.elements(n, n))
        self.copy(self.a, self.columns(block, n, n))
        lead, vectors = self.lead(n), self.columns(data, n, n)
        first = [self.letter("N"), self.letter(job), self.int(n), block, lead, re, im, data, lead, data, lead]
        info = self.call_with_work("geev", lambda w: [*first, w.work, w.count], rwork=ZERO, iwork=ZERO)
        last = c.op("sub", n, ONE)
        with c.loop(n) as j:
            x = self._real(im, j.index)
            row, column = (j.index, ZERO) if job == "N" else (ZERO, j.index)
            self._put_complex(row, column, self._real(re, j.index), x)
            if job == "V":
                # the vectors of two conjugates are a + ib and a - ib: a stands in the first column, b in the second
                above, below = c.fcmp("ogt", x, zero), c.fcmp("olt", x, zero)
                before, behind = self.larger(c.op("sub", j.index, ONE), ZERO), c.minimum(c.add(j.index, ONE), last)
                at_a, at_b = c.select(below, before, j.index), c.select(above, behind, j.index)
                with c.loop(n) as i:
                    b = self.load(vectors, i.index, at_b)
                    b = c.select(above, b, c.select(below, c.fneg(b), zero))
                    self._put_complex(c.add(i.index, ONE), j.index, self.load(vectors, i.index, at_a), b)
        self.end(info)

    # -- singular values -------------------------------------------------------------------------------

    def svd(self, full: bool = False) -> None:
        """gesdd with all vectors, or as many as there are values."""
        c, m, n = self.c, self.a.rows, self.a.cols
        k = c.minimum(m, n)
        rows, cols = (n, m) if full else (k, k)
        values, left, right, info = self._singular("A" if full else "S", rows, cols)
        self.fill(self.to, self.number(0.0))
        self._put_values(values, k)
        self._put(left, ONE, ZERO, m, cols)
        self._put_adjoint(right, c.add(m, ONE), rows, n)
        if full:
            # of an empty matrix LAPACK leaves the vectors alone
            empty, one = c.icmp("eq", k, ZERO), self.number(1.0)
            for start, count in ((ONE, m), (c.add(m, ONE), n)):
                with c.loop(c.select(empty, count, ZERO)) as i, c.loop(count) as j:
                    x = c.select(c.icmp("eq", i.index, j.index), one, self.number(0.0))
                    self.store(self.to, c.add(start, i.index), j.index, x)
        self.end(info)

    def svdvals(self) -> None:
        """gesdd without vectors."""
        values, _, _, info = self._singular("N", ZERO, ZERO)
        self._put_reals(values, self.c.minimum(self.a.rows, self.a.cols))
        self.end(info)

    def _singular(self, job: str, rows: V, cols: V) -> tuple[V, Matrix, Matrix, V]:
        """The values, U with so many columns, Vᴴ with so many rows."""
        c, m, n = self.c, self.a.rows, self.a.cols
        k = c.minimum(m, n)
        sizes = [self.elements(m, n), self.elements(m, cols), self.elements(rows, n), self.reals(k), c.mul(k, i64(32))]
        block, left, right, values, iwork = self.block(*sizes)
        self.copy(self.a, self.columns(block, m, n))
        first = [self.letter(job), self.int(m), self.int(n), block, self.lead(m), values]
        first += [left, self.lead(m), right, self.lead(rows)]

        def arguments(w: Workspace) -> list[V]:
            return [*first, w.work, w.count, *([w.rwork] if self.dtype.is_complex else []), iwork]

        # what LAPACK's text asks for: 7 k without vectors, else max(5 k² + 5 k, 2 max(m, n) k + 2 k² + k)
        squares = c.mul(k, k)
        least = c.add(c.mul(squares, i64(5)), c.mul(k, i64(7)))
        other = c.add(c.mul(c.mul(self.larger(m, n), k), i64(2)), c.add(c.mul(squares, i64(2)), k))
        reals = self.larger(least, other) if self.dtype.is_complex else ZERO
        info = self.call_with_work("gesdd", arguments, rwork=c.add(reals, ONE), iwork=ZERO)
        return values, self.columns(left, m, cols), self.columns(right, rows, n), info

    # -- QR and least squares --------------------------------------------------------------------------

    def qr(self, mode: str) -> None:
        """geqrf, and orgqr or ungqr where Q is wanted."""
        c, m, n = self.c, self.a.rows, self.a.cols
        k, width = c.minimum(m, n), self.to.cols
        block, factors = self.block(self.elements(m, self.larger(n, width)), self.elements(k))
        mine, lead = self.columns(block, m, n), self.lead(m)
        self.copy(self.a, mine)
        none = {"rwork": ZERO, "iwork": ZERO}
        head = [self.int(m), self.int(n), block, lead, factors]
        info = self.call_with_work("geqrf", lambda w: [*head, w.work, w.count], **none)
        start = ZERO if mode == "r" else m
        with c.loop(n) as i, c.loop(width, note=plain_loop(c)) as j:
            there = c.both(c.icmp("sle", j.index, i.index), c.icmp("slt", j.index, m))
            x = self.load(mine, c.select(there, j.index, ZERO), i.index)
            self.store(self.to, c.add(start, i.index), j.index, c.select(there, x, self.number(0.0)))
        if mode != "r":
            name = "ungqr" if self.dtype.is_complex else "orgqr"
            middle = [self.int(m), self.int(width), self.int(k), block, lead, factors]
            second = self.call_with_work(name, lambda w: [*middle, w.work, w.count], **none)
            info = c.op("or", info, second)
            self._put(self.columns(block, m, width), ZERO, ZERO, m, width)
        self.end(info)

    def lstsq(self) -> None:
        """gelsd."""
        c, m, n = self.c, self.a.rows, self.a.cols
        (b,), cutoff = self.right, self.c.params[-1]
        p, k, longer = b.cols, c.minimum(m, n), self.larger(m, n)
        sizes = [self.elements(m, n), self.elements(longer, p), self.reals(k)]
        block, solution, values = self.block(*sizes)
        self.copy(self.a, self.columns(block, m, n))
        mine = self.columns(solution, longer, p)
        self.fill(mine, self.number(0.0))
        self.copy(b, Matrix(solution, m, p, mine.row_step, mine.col_step))
        rank = c.alloca("i32")
        first = [self.int(m), self.int(n), self.int(p), block, self.lead(m), solution, self.lead(longer)]
        first += [values, cutoff, rank]

        def arguments(w: Workspace) -> list[V]:
            return [*first, w.work, w.count, *([w.rwork] if self.dtype.is_complex else []), w.iwork]

        info = self.call_with_work("gelsd", arguments)
        # the solution, in rows
        at = c.mul(n, p)
        with c.loop(n) as i, c.loop(p) as j:
            self._put_at(c.add(c.mul(i.index, p), j.index), self.load(mine, i.index, j.index))
        found = c.cast("sext", c.load("i32", rank), "i64")
        whole = c.both(c.icmp("eq", found, n), c.icmp("sgt", m, n))
        none = float_constant(scalar_type(self.real), math.nan)
        with c.loop(p) as j:
            with c.loop(c.op("sub", m, c.minimum(m, n)), [float_constant(none.type, 0.0)]) as i:
                i.next = [c.fop("fadd", i.carried[0], self._square(self.load(mine, c.add(n, i.index), j.index)))]
            self._put_at(c.add(at, j.index), self.element(c.select(whole, i.results[0], none)))
        self._put_at(c.add(at, p), self.element(c.cast("sitofp", found, none.type)))
        with c.loop(k) as j:
            place = c.add(c.add(at, p), c.add(j.index, ONE))
            self._put_at(place, self.element(self._real(values, j.index)))
        self.end(info)

    def _square(self, x: V) -> V:
        """|x|²."""
        c, real = self.c, scalar_type(self.real)
        if not self.dtype.is_complex:
            return c.fop("fmul", x, x)
        a, b = (c.extract(x, k, real) for k in (0, 1))
        return c.fop("fadd", c.fop("fmul", a, a), c.fop("fmul", b, b))

    # -- results ---------------------------------------------------------------------------------------

    def _put(self, source: Matrix, row: V, column: V, rows: V, cols: V) -> None:
        """A matrix to a place of the result."""
        c = self.c
        with c.loop(rows) as i, c.loop(cols, note=plain_loop(c)) as j:
            x = self.load(source, i.index, j.index)
            self.store(self.to, c.add(row, i.index), c.add(column, j.index), x)

    def _put_complex(self, row: V, column: V, re: V, im: V) -> None:
        """A complex number to a place of the result, where the matrix is real."""
        dtype = dtype_of(np.result_type(self.dtype.numpy, np.complex64))
        assert dtype is not None
        to = self.to
        place = offset(self.c, to.data, [row, column], [to.row_step, to.col_step])
        store_element(self.c, dtype, self.c.pack(re, im), place)

    def _put_adjoint(self, source: Matrix, row: V, rows: V, cols: V) -> None:
        """The conjugate transpose of a matrix to the rows from `row` on."""
        c = self.c
        with c.loop(cols) as j, c.loop(rows, note=plain_loop(c)) as i:
            x = self.load(source, i.index, j.index)
            if self.dtype.is_complex:
                x = self.op("conjugate", x)
            self.store(self.to, c.add(row, j.index), i.index, x)

    def _put_at(self, place: V, x: V) -> None:
        self.store(self.to, place, ZERO, x)

    def _real(self, data: V, k: V) -> V:
        return load_element(self.c, self.real, offset(self.c, data, [k], [self.real_size]))

    def _put_values(self, data: V, count: V) -> None:
        """Real numbers to the first row."""
        with self.c.loop(count) as k:
            self.store(self.to, ZERO, k.index, self.element(self._real(data, k.index)))

    def _put_reals(self, data: V, count: V) -> None:
        """Real numbers to a real vector."""
        with self.c.loop(count) as k:
            place = offset(self.c, self.to.data, [k.index], [self.to.row_step])
            store_element(self.c, self.real, self._real(data, k.index), place)
