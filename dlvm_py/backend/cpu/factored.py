"""@dlvm.solve.T, cholesky, determinant, factorizes_lu, factorizes_cholesky: by LAPACK, one a module and dtype.

solve looks whether there is nothing below the diagonal, as in the derivatives of cholesky: a third of the work then.
LU with pivoting does just that substitution, and finds the same zero on the diagonal; of a lower triangle it exchanges
rows.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix, as_matrix
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.lapack import FAILED, NO_MEMORY, OK, Routine
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.values import FALSE, NULL, ONE, TRUE, ZERO, V, float_constant, i64
from dlvm_py.ir import DType, Instruction

COMPLAINTS = {"solve": "Singular matrix", "cholesky": "Matrix is not positive definite"}


def store_factored(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a solution, a factor, a determinant or a verdict to `dest`; the work that it is."""
    operands = [e.pointer(v.operands[0]) for v in i.operands]  # type: ignore[attr-defined]
    matrices = [as_matrix(e, p, column=True) for p in (*operands, dest)]
    n, m = operands[0].extents[0], operands[-1].extents[1]
    name = _function(e, "_".join((i.op.name, *i.attrs.values())), dest.dtype)
    status = e.call(f"@{name}", "i32", [e.ctx, n, m, *(v for x in matrices for v in x.flat())])
    e.require_memory(e.select(e.icmp("ne", status, NO_MEMORY), e.ctx, NULL))
    if i.op.name in COMPLAINTS:
        e.raise_unless(e.icmp("ne", status, FAILED), "LinAlgError", COMPLAINTS[i.op.name])
    return e.mul(e.mul(n, n), m)


def _function(e: FunctionEmitter, op: str, dtype: DType) -> str:
    """define i32 op(ctx, n, m, a..., [b...], to...): m is the number of columns of the last operand."""
    name = f"dlvm.{op}.{dtype}"
    types = ["ptr", "i64", "i64", *["ptr", "i64", "i64"] * (3 if op == "solve" else 2)]
    return helper(e, name, "i32", types, lambda c: getattr(_Factored(c, dtype), op)())


class _Factored(Routine):
    """Writes one of the functions."""

    def __init__(self, c: Code, dtype: DType) -> None:
        super().__init__(c, dtype)
        self.n, self.m = c.params[1:3]
        groups = [c.params[k : k + 3] for k in range(3, len(c.params), 3)]
        shapes = [(self.n, self.n), *[(self.n, self.m)] * (len(groups) - 1)]
        self.matrices = [Matrix(g[0], *s, *g[1:]) for g, s in zip(groups, shapes, strict=True)]

    def solve(self) -> None:
        """trtrs of an upper triangle, else gesv."""
        c, (a, b, to) = self.c, self.matrices
        n, m = self.n, self.m
        block, behind, pivots = self.block(self.elements(n, n), self.elements(n, m), self.c.mul(n, i64(4)))
        mine, right = self.columns(block, n, n), self.columns(behind, n, m)
        self.copy(a, mine)
        self.copy(b, right)
        size, columns, lead = self.int(n), self.int(m), self.lead(n)
        info = c.alloca("i32")
        with c.either(self._has_lower(mine)) as arms:
            next(arms)
            c.store(self.call("gesv", [size, columns, mine.data, lead, pivots, right.data, lead]), info)
            next(arms)
            letters = [self.letter(x) for x in "UNN"]
            c.store(self.call("trtrs", [*letters, size, columns, mine.data, lead, right.data, lead]), info)
        self.copy(right, to)
        self.end(c.load("i32", info))

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
        """potrf of the lower triangle; zeros above."""
        c, (a, to) = self.c, self.matrices
        (block,) = self.block(self.elements(self.n, self.n))
        mine = self.columns(block, self.n, self.n)
        self.copy(a, mine)
        info = self.call("potrf", [self.letter("L"), self.int(self.n), mine.data, self.lead(self.n)])
        self.fill(to, self.number(0.0))
        with c.loop(self.n) as j, c.loop(c.op("sub", self.n, j.index)) as i:
            row = c.add(i.index, j.index)
            self.store(to, row, j.index, self.load(mine, row, j.index))
        self.end(info)

    def determinant(self) -> None:
        """getrf: the product of the diagonal, with a sign for each exchange of rows."""
        c, (a, to) = self.c, self.matrices
        block, pivots = self.block(self.elements(self.n, self.n), c.mul(self.n, i64(4)))
        mine = self.columns(block, self.n, self.n)
        self.copy(a, mine)
        count = self.int(self.n)
        self.call("getrf", [count, count, mine.data, self.lead(self.n), pivots])
        one, zero = self.number(1.0), self.number(0.0)
        with c.loop(self.n, [one, one, zero]) as k:
            x = self.load(mine, k.index, k.index)
            row = c.load("i32", c.gep("i32", pivots, k.index))
            stays = c.icmp("eq", c.cast("sext", row, "i64"), c.add(k.index, ONE))
            x = c.select(stays, x, self.op("negate", x))
            size, phase = self._polar(x)
            found, direction, log = k.carried
            k.next = [
                self.op("multiply", found, x),
                self.op("multiply", direction, phase),
                self.op("add", log, self.op("log", size)),
            ]
        found, direction, log = k.results
        for place, value in enumerate((found, direction, log)):
            self.store(to, i64(place), ZERO, value)
        self.end()

    def factorizes_lu(self) -> None:
        """getrf: 1 if no pivot is 0, else 0."""
        c, (a, to) = self.c, self.matrices
        block, pivots = self.block(self.elements(self.n, self.n), c.mul(self.n, i64(4)))
        mine = self.columns(block, self.n, self.n)
        self.copy(a, mine)
        count = self.int(self.n)
        self._verdict(to, self.call("getrf", [count, count, mine.data, self.lead(self.n), pivots]))

    def factorizes_cholesky(self) -> None:
        """potrf: 1 if all that it takes roots of is positive, else 0."""
        (block,) = self.block(self.elements(self.n, self.n))
        a, to = self.matrices
        mine = self.columns(block, self.n, self.n)
        self.copy(a, mine)
        self._verdict(to, self.call("potrf", [self.letter("L"), self.int(self.n), mine.data, self.lead(self.n)]))

    def _verdict(self, to: Matrix, info: V) -> None:
        fine = self.c.icmp("eq", info, OK)
        self.store(to, ZERO, ZERO, self.c.select(fine, self.number(1.0), self.number(0.0)))
        self.end()

    def _polar(self, x: V) -> tuple[V, V]:
        """(|x|, x / |x|, 0 for 0), both as elements."""
        c, zero = self.c, self.number(0.0)
        if not self.dtype.is_complex:
            return self.op("abs", x), self.op("sign", x)
        part = scalar_type(self.real)
        parts = [c.extract(x, k, part) for k in (0, 1)]
        length = TABLE["hypot"]["f"](c, self.real, {}, *parts)
        over = c.pack(*(c.fop("fdiv", p, length) for p in parts))
        return self.element(length), c.select(c.fcmp("oeq", length, float_constant(part, 0.0)), zero, over)
