"""@dlvm.solve.T, @dlvm.cholesky.T, @dlvm.determinant.T: by SciPy's LAPACK, one function a module and dtype.

LAPACK works in place on column-major matrices, so the operands are copied into one block of memory, and the result
is copied out of it. Status: 0; 1 where there is no memory for that; 2 where the matrix has no such factorisation.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.contract import DATA, scalar_type
from dlvm_py.backend.cpu.dot import Matrix, as_matrix
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.matmul import LETTERS
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import NULL, ONE, ZERO, V, float_constant, i64
from dlvm_py.ir import DType, Instruction

COMPLAINTS = {"solve": "Singular matrix", "cholesky": "Matrix is not positive definite"}
_NO_MEMORY, _NO_FACTORS = V("i32", "1"), V("i32", "2")


def store_factored(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a solution, a factor or a determinant to `dest`; the work that it is."""
    operands = [e.pointer(v.operands[0]) for v in i.operands]  # type: ignore[attr-defined]
    matrices = [as_matrix(e, p, column=True) for p in (*operands, dest)]
    n, m = operands[0].extents[0], operands[-1].extents[1]
    name = _function(e, i.op.name, dest.dtype)
    status = e.call(f"@{name}", "i32", [e.ctx, n, m, *(v for x in matrices for v in x.flat())])
    e.require_memory(e.select(e.icmp("ne", status, _NO_MEMORY), e.ctx, NULL))
    if i.op.name in COMPLAINTS:
        e.raise_unless(e.icmp("ne", status, _NO_FACTORS), "LinAlgError", COMPLAINTS[i.op.name])
    return e.mul(e.mul(n, n), m)


def _function(e: FunctionEmitter, op: str, dtype: DType) -> str:
    """define i32 op(ctx, n, m, a..., [b...], to...): m is the number of columns of the last operand."""
    name = f"dlvm.{op}.{dtype}"
    if name not in e.module.functions:
        count = 3 if op == "solve" else 2
        types = ["ptr", "i64", "i64", *["ptr", "i64", "i64"] * count]
        c = Code(e.module, e.imports, name, "i32", types, "internal |noinline nounwind")
        getattr(_Factored(c, dtype), op)()
    return name


class _Factored:
    """Writes one of the functions; `self.c` is its code."""

    def __init__(self, c: Code, dtype: DType) -> None:
        self.c, self.dtype = c, dtype
        self.ctx, self.n, self.m = c.params[:3]
        self.size = i64(dtype.itemsize)
        groups = [c.params[k : k + 3] for k in range(3, len(c.params), 3)]
        shapes = [(self.n, self.n), *[(self.n, self.m)] * (len(groups) - 1)]
        self.matrices = [Matrix(g[0], *s, *g[1:]) for g, s in zip(groups, shapes, strict=True)]

    # -- the three -------------------------------------------------------------------------------------

    def solve(self) -> None:
        """gesv."""
        c, (a, b, to) = self.c, self.matrices
        columns = c.mul(self.n, self.m)
        header, block = self._memory(c.add(c.mul(self.n, self.n), columns))
        mine = self._columns(block, self.n, self.n)
        right = self._columns(self._behind(block, c.mul(self.n, self.n)), self.n, self.m)
        pivots = self._behind(right.data, columns)
        self._copy(a, mine)
        self._copy(b, right)
        count, lead = self._int(self.n), self._lead()
        info = self._call("gesv", [count, self._int(self.m), mine.data, lead, pivots, right.data, lead])
        self._copy(right, to)
        self._end(header, info)

    def cholesky(self) -> None:
        """potrf of the lower triangle; zeros above."""
        c, (a, to) = self.c, self.matrices
        header, block = self._memory(c.mul(self.n, self.n))
        mine = self._columns(block, self.n, self.n)
        self._copy(a, mine)
        letter = c.alloca("i8")
        c.store(V("i8", str(ord("L"))), letter)
        info = self._call("potrf", [letter, self._int(self.n), mine.data, self._lead()])
        with c.loop(self.n) as i, c.loop(self.n, note=plain_loop(c)) as j:
            inside = c.icmp("sge", i.index, j.index)
            x = self._load(mine, i.index, j.index)
            zero = V(x.type, "zeroinitializer")
            self._store(to, i.index, j.index, c.select(inside, x, zero))
        self._end(header, info)

    def determinant(self) -> None:
        """getrf: the product of the diagonal, with a sign for each exchange of rows."""
        c, (a, to) = self.c, self.matrices
        header, block = self._memory(c.mul(self.n, self.n))
        mine = self._columns(block, self.n, self.n)
        pivots = self._behind(block, c.mul(self.n, self.n))
        self._copy(a, mine)
        count = self._int(self.n)
        self._call("getrf", [count, count, mine.data, self._lead(), pivots])
        one, zero = self._number(1.0), self._number(0.0)
        with c.loop(self.n, [one, one, zero]) as k:
            x = self._load(mine, k.index, k.index)
            row = c.load("i32", c.gep("i32", pivots, k.index))
            stays = c.icmp("eq", c.cast("sext", row, "i64"), c.add(k.index, ONE))
            x = c.select(stays, x, self._op("negate", x))
            size, phase = self._polar(x)
            found, direction, log = k.carried
            k.next = [
                self._op("multiply", found, x),
                self._op("multiply", direction, phase),
                self._op("add", log, self._op("log", size)),
            ]
        found, direction, log = k.results
        for place, value in enumerate((found, direction, log)):
            self._store(to, i64(place), ZERO, value)
        self._end(header, V("i32", "0"))

    def _polar(self, x: V) -> tuple[V, V]:
        """(|x|, x / |x|, 0 for 0), both as elements."""
        c, zero = self.c, self._number(0.0)
        if not self.dtype.is_complex:
            return self._op("abs", x), self._op("sign", x)
        part, real = scalar_type(self.dtype.real), self.dtype.real
        parts = [c.extract(x, k, part) for k in (0, 1)]
        length = TABLE["hypot"]["f"](c, real, {}, *parts)
        size = c.pack(length, float_constant(part, 0.0))
        over = c.pack(*(c.fop("fdiv", p, length) for p in parts))
        return size, c.select(c.fcmp("oeq", length, float_constant(part, 0.0)), zero, over)

    # -- pieces ----------------------------------------------------------------------------------------

    def _op(self, name: str, *values: V) -> V:
        return TABLE[name][self.dtype.kind](self.c, self.dtype, {}, *values)

    def _number(self, x: float) -> V:
        type = scalar_type(self.dtype)
        if not self.dtype.is_complex:
            return float_constant(type, x)
        part = scalar_type(self.dtype.real)
        return V(type, f"{{ {part} {float_constant(part, x).ref}, {part} {float_constant(part, 0.0).ref} }}")

    def _int(self, n: V) -> V:
        return self.c.cast("trunc", n, "i32")

    def _lead(self) -> V:
        c = self.c
        return self._int(c.select(c.icmp("sgt", self.n, ONE), self.n, ONE))

    def _memory(self, elements: V) -> tuple[V, V]:
        """(header, data) of so many elements and n pivots; leaves with status 1 where there is no memory."""
        c = self.c
        c.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
        nbytes = c.add(c.mul(elements, self.size), c.mul(c.add(self.n, ONE), i64(8)))
        header = c.call("@dlvm.allocate", "ptr", [self.ctx, nbytes])
        failed, go_on = c.label("failed"), c.label("go")
        c.likely(c.icmp("ne", header, NULL), go_on, failed)
        c.place(failed)
        c.line(f"ret i32 {_NO_MEMORY.ref}")
        c.place(go_on)
        return header, c.load("ptr", c.gep("i8", header, i64(DATA)))

    def _behind(self, data: V, elements: V) -> V:
        return self.c.gep("i8", data, self.c.mul(elements, self.size))

    def _columns(self, data: V, rows: V, cols: V) -> Matrix:
        return Matrix(data, rows, cols, self.size, self.c.mul(rows, self.size))

    def _load(self, x: Matrix, i: V, j: V) -> V:
        return load_element(self.c, self.dtype, offset(self.c, x.data, [i, j], [x.row_step, x.col_step]))

    def _store(self, x: Matrix, i: V, j: V, value: V) -> None:
        store_element(self.c, self.dtype, value, offset(self.c, x.data, [i, j], [x.row_step, x.col_step]))

    def _copy(self, source: Matrix, to: Matrix) -> None:
        c = self.c
        with c.loop(to.cols) as j, c.loop(to.rows, note=plain_loop(c)) as i:
            self._store(to, i.index, j.index, self._load(source, i.index, j.index))

    def _call(self, name: str, values: Sequence[V]) -> V:
        """Call LAPACK, all arguments by reference; `info`, where 0 is success."""
        c = self.c
        slots = []
        for v in (*values, V("i32", "0")):
            if v.type != "ptr":
                slot = c.alloca(v.type, 16)
                c.store(v, slot)
                v = slot
            slots.append(v)
        c.call_import(f"lapack:{LETTERS[self.dtype.name]}{name}", "void", slots, "nounwind")
        return c.load("i32", slots[-1])

    def _end(self, header: V, info: V) -> None:
        c = self.c
        c.module.declare("dlvm.release", "void", ["ptr", "ptr"])
        c.call("@dlvm.release", "void", [self.ctx, header])
        status = c.select(c.icmp("eq", info, V("i32", "0")), V("i32", "0"), _NO_FACTORS)
        c.line(f"ret i32 {status.ref}")
