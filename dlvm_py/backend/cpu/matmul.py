"""@dlvm.matmul.T: a matrix product of strided matrices by NumPy's or SciPy's BLAS, one function a module and dtype.

Step by step:

    small, or an extent beyond i32        loops in place, along what lies side by side; f32, f64: in tiles that stay in
                                          registers, where rows do (register_tiles.py)
    to column-major                       the transposed product, by one recursive call
    f32, f64: few rows, columns or terms  loops of our own that pass once over what is large (few_rows.py, skinny.py),
                                          in some layouts with a copy of what is small
    c64, c128: few rows and few terms     the same loops, where rows are contiguous
    to, a or b with no unit stride        through a row-major copy, by a recursive call
    one row or one column                 gemv
    f32, f64: a matrix times its transpose    tiles of our own, which threads share (symmetric.py), or syrk
    f32, f64, a BLAS with narrow vectors  such tiles (packed.py)
    else                                  gemm, transposes chosen by which stride is the unit; f32, f64: in pieces that
                                          our threads share (blas.py)
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.backend.cpu import few_rows, skinny
from dlvm_py.backend.cpu.blas import LETTERS, SYRK, Blas, Operand
from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import DATA
from dlvm_py.backend.cpu.dot import (
    SHORT,
    Matrix,
    as_matrix,
    is_narrow,
    is_tiny,
    loops,
    narrow_product,
    versioned_inner_product,
)
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.packed import Packed, has_narrow_blas
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.register_tiles import by_tiles
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.share import split
from dlvm_py.backend.cpu.symmetric import Symmetric
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import NULL, ONE, TRUE, V, i64
from dlvm_py.frozen import replace
from dlvm_py.ir import DType, Instruction

# products below: loops are faster than a call of BLAS (measured with OpenBLAS, f64)
SMALL, IN_TILES = 4096, 16384
WIDE = 30_000  # multiplications from which on tiles of our own are faster than those of narrow vectors
FEW, MANY = 8, 32  # extents of products in loops of our own: a small one, the one that loops run along
INT_MAX = 2**31 - 1


def scalar_dot(e: FunctionEmitter, i: Instruction) -> V:
    """The product of two vectors."""
    a, b = (e.pointer(v.operands[0]) for v in i.operands)  # type: ignore[attr-defined]
    pairs = [(p.data, strides_of(e, p)[0]) for p in (a, b)]
    with e.region():
        x = versioned_inner_product(e, a.dtype, a.extents[0], pairs[0], pairs[1])
    e.charge(a.extents[0])
    return x


def store_dot(e: FunctionEmitter, i: Instruction, dest: Pointer, add: str = "") -> V:
    """Write a matrix-matrix, matrix-vector or vector-matrix product to `dest`; the work.

    add: "add" or "subtract" it, to or from what is there.
    """
    p, q = (e.pointer(v.operands[0]) for v in i.operands)  # type: ignore[attr-defined]
    return store_product(e, p, q, dest, add)


def store_product(e: FunctionEmitter, p: Pointer, q: Pointer, dest: Pointer, add: str = "") -> V:
    """As store_dot, of what two pointers point to."""
    a, b = as_matrix(e, p, column=False), as_matrix(e, q, column=True)
    to = as_matrix(e, dest, column=p.rank == 2)
    extents = a.rows, b.cols, a.cols
    if is_tiny(*extents) or dest.dtype.name not in LETTERS:
        loops(e, dest.dtype, a, b, to, add)
    elif not add and is_narrow(dest.dtype, a, b):
        size = i64(dest.dtype.itemsize)
        side_by_side = (e.icmp("eq", x.col_step, size) for x in (b, to))
        with e.either(e.both(*side_by_side, e.icmp("sle", a.cols, i64(SHORT)))) as arms:
            next(arms)
            narrow_product(e, dest.dtype, a, b, to)
            next(arms)
            _call(e, dest.dtype, a, b, to, add)
    else:
        _call(e, dest.dtype, a, b, to, add)
    return e.op("ashr", e.product(extents), i64(3))


def _call(e: FunctionEmitter, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str) -> None:
    name = matmul_function(e, dtype, add)
    status = e.call(f"@{name}", "i32", [e.ctx, a.rows, b.cols, a.cols, *a.flat(), *b.flat(), *to.flat()])
    done = e.icmp("eq", status, V("i32", "0"))
    e.require_memory(e.select(done, e.ctx, NULL))


def matmul_function(e: Code, dtype: DType, add: str = "") -> str:
    """define i32 matmul(ctx, m, n, k, a..., b..., to...): 1 where memory for a copy was not to be had.

    add: "add" or "subtract", the product is added to `to` or subtracted from it.
    """
    shares = e.grain is not None
    has = [add, "shared" if shares else "", "masks" if e.module.masks else ""]
    name = ".".join(["dlvm.matmul", str(dtype), *filter(None, has)])
    types = ["ptr", "i64", "i64", "i64", *["ptr", "i64", "i64"] * 3]
    return helper(e, name, "i32", types, lambda c: _Matmul(c, dtype, add).write(), shares)


class _Matmul:
    """Writes the function; `self.c` is its code."""

    def __init__(self, c: Code, dtype: DType, add: str) -> None:
        self.c, self.dtype, self.add = c, dtype, add
        self.size = i64(dtype.itemsize)
        self.ctx, self.m, self.n, self.k = c.params[:4]
        a, b, to = c.params[4:7], c.params[7:10], c.params[10:13]
        self.a = Matrix(a[0], self.m, self.k, *a[1:])
        self.b = Matrix(b[0], self.k, self.n, *b[1:])
        self.to = Matrix(to[0], self.m, self.n, *to[1:])

    def write(self) -> None:
        """The steps of the module docstring, each a block that returns or goes on."""
        c, size = self.c, self.size
        work = c.product([self.m, self.n, self.k])
        beyond = [c.icmp("sgt", n, i64(INT_MAX)) for n in (self.m, self.n, self.k)]
        in_loops = c.any(c.icmp("sle", work, i64(SMALL)), *beyond)
        # one column is one row of the transposed product, along which loops run
        column = c.both(c.icmp("eq", self.n, ONE), c.icmp("ne", self.m, ONE))
        self._unless(c.both(in_loops, column), self._transposed)
        self._unless(in_loops, self._loops)
        if self.dtype.is_float:
            few = c.both(c.icmp("sle", work, i64(IN_TILES)), c.icmp("sgt", self.m, ONE))
            self._unless(c.both(few, self._has_rows()), self._by_tiles)
        # strides of an axis of extent 1 mean nothing: they become what BLAS likes
        to_step = self._row_length(self.to)
        row_major = c.both(
            c.any(c.icmp("eq", self.to.col_step, size), c.icmp("eq", self.n, ONE)), self._leads(to_step, self.n)
        )
        column_step = self._row_length(self.to.transposed)
        column_major = c.both(
            c.any(c.icmp("eq", self.to.row_step, size), c.icmp("eq", self.m, ONE)),
            self._leads(column_step, self.m),
            self._not(row_major),
        )
        self._unless(column_major, self._transposed)
        self._unless(self._not(row_major), self._to_copy)
        if self.dtype.is_float:
            self._skinny()
        else:
            self._few_of_both()
        a_ok, a = self._operand(self.a)
        self._unless(self._not(a_ok), lambda: self._operand_copy(self.a, True))
        b_ok, b = self._operand(self.b)
        self._unless(self._not(b_ok), lambda: self._operand_copy(self.b, False))
        blas = Blas(c, self.dtype, self.add, self.to, self._count(to_step))
        if self.dtype.is_float:
            self._unless(c.icmp("eq", self.n, ONE), lambda: blas.gemv(a, b, blas.lead))
            self._unless(c.icmp("eq", self.m, ONE), lambda: blas.gemv(b.transposed(c), a, ONE))
            alone = blas.has_alone() if c.grain is not None else None
            if not self.add:
                self._by_its_transpose(blas, a, c.icmp("ugt", work, i64(SYRK)), alone)
            if alone is not None:
                if c.module.masks:
                    self._by_wide_tiles(a, b, c.icmp("ugt", work, i64(WIDE)))
                self._unless(alone, lambda: self._in_pieces(blas, a, b))
        blas.gemm(a, b)
        c.line("ret i32 0")
        split(c)

    # -- layouts ---------------------------------------------------------------------------------------

    def _not(self, flag: V) -> V:
        return self.c.op("xor", flag, TRUE)

    def _row_length(self, x: Matrix) -> V:
        """Bytes from row to row; for a single row its own length."""
        whole = self.c.mul(x.cols, self.size)
        return self.c.select(self.c.icmp("eq", x.rows, ONE), whole, x.row_step)

    def _leads(self, step: V, count: V) -> V:
        """Whether `step` bytes are a leading dimension for `count` elements."""
        c = self.c
        fits = c.icmp("sge", step, c.mul(count, self.size))
        whole = c.icmp("eq", c.op("srem", step, self.size), V("i64", "0"))
        small = c.icmp("sle", step, c.mul(i64(INT_MAX), self.size))
        return c.both(fits, whole, small)

    def _operand(self, x: Matrix) -> tuple[V, Operand]:
        """(whether BLAS can read x, and how)."""
        c, size = self.c, self.size
        row_step = c.select(c.icmp("eq", x.rows, ONE), size, x.row_step)
        col_step = c.select(c.icmp("eq", x.cols, ONE), size, x.col_step)
        plain = c.both(c.icmp("eq", row_step, size), self._leads(col_step, x.rows))
        turned = c.both(c.icmp("eq", col_step, size), self._leads(row_step, x.cols))
        return c.any(plain, turned), Operand(x, plain, self._count(c.select(plain, col_step, row_step)))

    def _count(self, step: V) -> V:
        return self.c.op("sdiv", step, self.size)

    def _is_own_transpose(self) -> V:
        """Whether b is a transposed: the same memory."""
        c, a, b = self.c, self.a, self.b.transposed
        steps = (c.icmp("eq", x, y) for x, y in ((a.row_step, b.row_step), (a.col_step, b.col_step)))
        return c.both(c.icmp("eq", a.data, b.data), c.icmp("eq", self.m, self.n), *steps)

    # -- steps -----------------------------------------------------------------------------------------

    def _unless(self, flag: V, write: Callable[[], V | None]) -> None:
        """Where `flag` holds, do `write()` and return what it gives (nothing: success)."""
        c = self.c
        then, after = c.label("then"), c.label("after")
        c.cond_br(flag, then, after)
        c.place(then)
        status = write() or V("i32", "0")
        c.line(f"ret i32 {status.ref}")
        c.place(after)

    def _loops(self) -> None:
        c, size = self.c, self.size
        if self.dtype.is_float:
            terms = c.both(c.icmp("eq", self.a.col_step, size), c.icmp("eq", self.b.row_step, size))
            rows = self._has_rows()
            self._unless(c.both(terms, self._not(rows)), lambda: self._by_products(skinny.small_by_products))
            self._unless(rows, self._by_tiles)
        loops(self.c, self.dtype, self.a, self.b, self.to, self.add)

    def _has_rows(self) -> V:
        """Whether rows of b and of `to` are contiguous."""
        c = self.c
        return c.both(*(c.icmp("eq", x.col_step, self.size) for x in (self.b, self.to)))

    def _by_tiles(self) -> None:
        b, to = replace(self.b, col_step=self.size), replace(self.to, col_step=self.size)
        by_tiles(self.c, self.dtype, self.a, b, to, self.add)

    def _again(self, a: Matrix, b: Matrix, to: Matrix, name: str = "") -> V:
        args = [self.ctx, to.rows, to.cols, a.cols, *a.flat(), *b.flat(), *to.flat()]
        return self.c.call(f"@{name or self.c.name}", "i32", args)

    def _transposed(self) -> V:
        return self._again(self.b.transposed, self.a.transposed, self.to.transposed)

    def _fresh(self, like: Matrix, turned: bool = False) -> tuple[V, Matrix]:
        """(header, matrix) of a new row-major matrix, column-major if `turned`; returns 1 from the function where
        there is no memory.
        """
        if turned:
            header, fresh = self._fresh(like.transposed)
            return header, fresh.transposed
        c = self.c
        c.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
        row = c.mul(like.cols, self.size)
        header = c.call("@dlvm.allocate", "ptr", [self.ctx, c.mul(like.rows, row)])
        self._unless(c.icmp("eq", header, NULL), lambda: V("i32", "1"))
        data = c.load("ptr", c.gep("i8", header, i64(DATA)))
        return header, Matrix(data, like.rows, like.cols, row, self.size)

    def _copy(self, source: Matrix, to: Matrix, add: str = "") -> None:
        c = self.c
        with c.loop(to.rows) as i, c.loop(to.cols, note=plain_loop(c)) as j:
            x, y = (offset(c, p.data, [i.index, j.index], [p.row_step, p.col_step]) for p in (source, to))
            element = load_element(c, self.dtype, x)
            if add:
                element = TABLE[add][self.dtype.kind](c, self.dtype, {}, load_element(c, self.dtype, y), element)
            store_element(c, self.dtype, element, y)

    def _release(self, header: V) -> None:
        self.c.module.declare("dlvm.release", "void", ["ptr", "ptr"])
        self.c.call("@dlvm.release", "void", [self.ctx, header])

    def _to_copy(self) -> V:
        header, fresh = self._fresh(self.to)
        status = self._again(self.a, self.b, fresh, matmul_function(self.c, self.dtype))
        self._copy(fresh, self.to, self.add)
        self._release(header)
        return status

    def _unless_own(self, a: Matrix) -> Matrix:
        """b; its copy where it is a transposed, of which `a` is a copy."""
        c, own, copy, b = self.c, self._is_own_transpose(), a.transposed, self.b
        data, row_step, col_step = (c.select(own, x, y) for x, y in zip(copy.flat(), b.flat(), strict=True))
        return replace(b, data=data, row_step=row_step, col_step=col_step)

    def _operand_copy(self, x: Matrix, first: bool, turned: bool = False) -> V:
        header, fresh = self._fresh(x, turned)
        self._copy(x, fresh)
        status = self._again(*((fresh, self._unless_own(fresh)) if first else (self.a, fresh)), self.to)
        self._release(header)
        return status

    def _by_its_transpose(self, blas: Blas, a: Operand, is_long: V, alone: V | None) -> None:
        """Products by the transpose of a; long ones without BLAS's threads, those of few rows in pieces of gemm."""
        c, is_own = self.c, self._is_own_transpose()
        if alone is not None:
            product = Symmetric(c, self.dtype, self.a, self.to)
            without_blas = c.both(is_own, alone, is_long)
            self._unless(c.both(without_blas, product.pays()), lambda: self._by_panels(product, a.plain))
            is_own = c.both(is_own, self._not(without_blas))
        self._unless(is_own, lambda: blas.syrk(a))

    def _by_panels(self, product: Symmetric | Packed, *are_plain: V) -> None:
        header, panels = self._fresh(product.packed)
        product.write(panels.data, *are_plain)
        self._release(header)

    def _by_wide_tiles(self, a: Operand, b: Operand, is_long: V) -> None:
        """Long products by tiles of our own, where those of BLAS are narrower than the CPU's vectors."""
        c = self.c
        product = Packed(c, self.dtype, self.add, self.a, self.b, self.to)
        pays = c.both(is_long, product.pays(), has_narrow_blas(c))
        self._unless(pays, lambda: self._by_panels(product, a.plain, b.transposed(c).plain))

    def _in_pieces(self, blas: Blas, a: Operand, b: Operand) -> None:
        blas.gemm_in_pieces(a, b)
        if not self.add:
            with self.c.when(self._is_own_transpose()):
                blas.mirror()

    # -- few rows, columns or terms -----------------------------------------------------------------------

    def _skinny(self) -> None:
        """Leave such products to loops. `to` is row-major."""
        c, size = self.c, self.size
        rows, columns, terms = (c.icmp("sle", x, i64(FEW)) for x in (self.m, self.n, self.k))
        several = c.both(c.icmp("sgt", self.m, ONE), c.icmp("sgt", self.n, ONE))
        b_rows, b_columns = (c.icmp("eq", step, size) for step in (self.b.col_step, self.b.row_step))
        by_rows = c.both(several, b_rows, c.icmp("eq", self.to.col_step, size), c.icmp("sge", self.n, i64(MANY)))
        some = c.icmp("sge", self.k, i64(skinny.TERMS))
        in_parts, parts, length = skinny.parts_of(c, self.dtype, self.m, self.n, self.k)
        few = few_rows.pays(c, self.dtype, self.m, self.n, self.k) if c.module.masks else rows
        self._unless(c.both(by_rows, few, in_parts), lambda: self._by_parts(parts, length))
        if c.module.masks:
            self._unless(c.both(by_rows, few), self._by_few_rows)
        self._unless(c.both(by_rows, c.any(c.both(terms, some), rows)), self._by_rows)
        a_rows, long = c.icmp("eq", self.a.col_step, size), c.icmp("sge", self.k, i64(MANY))
        by_products = c.both(several, a_rows, long, c.any(rows, columns))
        self._unless(c.both(by_products, b_columns), self._by_products)
        self._unless(c.both(by_products, columns), lambda: self._operand_copy(self.b, False, turned=True))

    def _few_of_both(self) -> None:
        """Leave complex products with few rows and few terms to loops: butterflies of Fourier transforms, rotations."""
        c, size = self.c, self.size
        few = c.both(*(c.icmp("sle", x, i64(FEW)) for x in (self.m, self.k)), c.icmp("sge", self.n, i64(MANY)))
        by_rows = c.both(c.icmp("eq", self.b.col_step, size), c.icmp("eq", self.to.col_step, size))
        self._unless(c.both(few, by_rows), self._by_rows)

    def _by_few_rows(self) -> None:
        b, to = replace(self.b, col_step=self.size), replace(self.to, col_step=self.size)
        few_rows.by_few_rows(self.c, self.dtype, self.a, b, to, self.add)

    def _by_rows(self) -> None:
        b, to = replace(self.b, col_step=self.size), replace(self.to, col_step=self.size)
        skinny.by_rows(self.c, self.dtype, self.a, b, to, self.add, self.c.icmp("sle", self.m, i64(FEW)))

    def _by_parts(self, parts: V, length: V) -> None:
        b, to = replace(self.b, col_step=self.size), replace(self.to, col_step=self.size)
        header, found = self._fresh(replace(to, rows=self.c.mul(parts, self.m)))

        def multiply(a: Matrix, b: Matrix, to: Matrix) -> None:
            some_rows = few_rows.multiply if self.c.module.masks else skinny.few_by_rows
            some_rows(self.c, self.dtype, a, b, to, "")

        skinny.by_parts(self.c, self.dtype, (self.a, b, to), self.add, found, (parts, length), multiply)
        self._release(header)

    def _by_products(self, write: Callable[..., None] = skinny.by_products) -> None:
        a, b = replace(self.a, col_step=self.size), replace(self.b, row_step=self.size)
        write(self.c, self.dtype, a, b, self.to, self.add)
