"""Two products of one matrix in one pass over it: t = A p and s = r A, where r may be t.

    rows of A one after the other, in memory,       @dlvm.products.T: four rows at a time
    and too large for a cache
    else                                            the two products by themselves (matmul.py)

A matrix that is used once is read from memory as fast as that gives it: a second pass costs as much as the first one.
Where r is t (`x Aᵀ A`), four rows wait in the cache until their elements of t are known, else both products take an
element when it is there. Sums along rows are made of strips, and columns of four rows are summed by themselves, so that
sums have no more roundings than those of BLAS; their order depends on the extents alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.dot import Matrix, as_matrix, multiply_add, zero
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.matmul import store_product
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.skinny import clear, steps, strips
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.values import ONE, ZERO, V, i64
from dlvm_py.frozen import Frozen
from dlvm_py.ir import DType, Instruction
from dlvm_py.ir.tree_rules import matrix_product

ROWS = 4  # at a time
STRIP = 1024  # columns whose terms of a row are summed by themselves
LARGE = 1 << 18  # bytes of a matrix from which on one pass is faster than two calls of BLAS


def store_products(e: FunctionEmitter, stores: Sequence[Instruction]) -> V:
    """The code of two stores of products that are joined; the work."""
    products = [p for p in map(matrix_product, stores) if p is not None]
    first, second = products
    by_rows, by_columns = (first, second) if first.of_rows else (second, first)
    chained = second.vector is first.dot
    t, s = (e.pointer(p.store.operands[1]) for p in (by_rows, by_columns))
    p = e.pointer(by_rows.vector.operands[0])  # type: ignore[attr-defined]
    r = t if chained else e.pointer(by_columns.vector.operands[0])  # type: ignore[attr-defined]
    a = as_matrix(e, e.pointer(first.matrix), column=False)
    size = i64(a_size := t.itemsize)
    units = [e.icmp("eq", step, size) for step in (a.col_step, strides_of(e, p)[0], strides_of(e, s)[0])]
    large = e.icmp("sgt", e.mul(a.rows, a.cols), i64(LARGE // a_size))
    work = e.mul(a.rows, a.cols)
    with e.either(e.both(large, *units)) as arms:
        next(arms)
        name = _products_function(e, _Kind(t.dtype, by_rows.how, by_columns.how, chained))
        vectors = [x for v in (p, t, r, s) for x in (v.data, strides_of(e, v)[0])]
        e.call(f"@{name}", "void", [a.rows, a.cols, a.data, a.row_step, *vectors])
        next(arms)
        for product in products:
            vector = e.pointer(product.vector.operands[0]) if product.vector is not first.dot else t  # type: ignore[attr-defined]
            _alone(e, product, vector)
    return e.op("ashr", work, i64(2))


def _alone(e: FunctionEmitter, product, vector: Pointer) -> None:  # type: ignore[no-untyped-def]
    """One of the products, of its own matrix: a view of the other's, or that."""
    matrix = [v for v in product.dot.operands if v is not product.vector]
    m = e.pointer(matrix[0].operands[0])
    pair = (m, vector) if product.dot.operands[1] is product.vector else (vector, m)
    store_product(e, *pair, e.pointer(product.store.operands[1]), product.how)


class _Kind(Frozen):
    """Which function it is: what is done with t and with s ("", "add" or "subtract"), and whether r is t."""

    dtype: DType
    rows: str
    columns: str
    chained: bool


def _products_function(e: Code, kind: _Kind) -> str:
    """define void products(m, n, a, row step, p, its step, t, its step, r, its step, s, its step)."""
    words = [str(kind.dtype), kind.rows or "set", kind.columns or "set", *(["chained"] if kind.chained else [])]
    types = ["i64", "i64", "ptr", "i64", *["ptr", "i64"] * 4]
    return helper(e, ".".join(["dlvm.products", *words]), "void", types, lambda c: _Products(c, kind).write())


class _Products:
    """Writes the function; A has rows of elements side by side, and so have p and s."""

    def __init__(self, c: Code, kind: _Kind) -> None:
        self.c, self.kind, self.dtype = c, kind, kind.dtype
        self.size = i64(kind.dtype.itemsize)
        m, n, a, row_step, self.p, _, *t, r, r_step, self.s, _ = c.params
        self.a = Matrix(a, m, n, row_step, self.size)
        self.t, self.r = (t[0], t[1]), (r, r_step)

    def write(self) -> None:
        """All rows, some at a time."""
        c, n = self.c, self.a.cols
        if not self.kind.columns:
            clear(c, self.dtype, Matrix(self.s, ONE, n, ZERO, self.size), ONE, n)
        steps(c, self.a.rows, ROWS, self._rows)
        c.line("ret void")

    def _rows(self, first: V, count: int) -> None:
        c = self.c
        places = [c.add(first, i64(k)) for k in range(count)]
        rows = [offset(c, self.a.data, [k], [self.a.row_step]) for k in places]
        factors = [] if self.kind.chained else self._factors(places)
        totals = [c.alloca(zero(self.dtype).type) for _ in rows]
        for total in totals:
            c.store(zero(self.dtype), total)
        strips(c, self.a.cols, i64(STRIP), lambda start, width: self._strip(rows, totals, factors, start, width))
        for k, total in zip(places, totals, strict=True):
            place = offset(c, self.t[0], [k], [self.t[1]])
            x = c.load(zero(self.dtype).type, total)
            if self.kind.rows:
                x = TABLE[self.kind.rows][self.dtype.kind](c, self.dtype, {}, load_element(c, self.dtype, place), x)
            store_element(c, self.dtype, x, place)
        if self.kind.chained:
            self._columns(rows, self._factors(places))

    def _factors(self, places: Sequence[V]) -> list[V]:
        """The elements of r, with the sign of the sum that they go into."""
        c = self.c
        found = [load_element(c, self.dtype, offset(c, self.r[0], [k], [self.r[1]])) for k in places]
        if self.kind.columns == "subtract":
            found = [c.fneg(x) for x in found]
        return found

    def _strip(self, rows: list[V], totals: list[V], factors: list[V], start: V, width: V) -> None:
        """The sums of a strip of columns are added to the totals of rows, and products with factors to s."""
        c, parallel = self.c, Parallel(self.c)
        with c.loop(width, [zero(self.dtype)] * len(rows), parallel.loop) as j:
            k = c.add(start, j.index, "nuw nsw")
            xs = [self._element(row, k, parallel) for row in rows]
            y = self._element(self.p, k, parallel)
            j.next = [
                multiply_add(c, self.dtype, sum_, x, y, "reassoc contract")
                for sum_, x in zip(j.carried, xs, strict=True)
            ]
            if factors:
                self._add(xs, factors, k, parallel)
        for total, sum_ in zip(totals, j.results, strict=True):
            c.store(c.fop("fadd", c.load(sum_.type, total), sum_), total)

    def _columns(self, rows: list[V], factors: list[V]) -> None:
        c, parallel = self.c, Parallel(self.c)
        with c.loop(self.a.cols, note=parallel.loop) as j:
            self._add([self._element(row, j.index, parallel) for row in rows], factors, j.index, parallel)

    def _add(self, xs: list[V], factors: list[V], k: V, parallel: Parallel) -> None:
        """s[k] += Σ factor x, the terms first: fewer roundings of a long sum."""
        c = self.c
        terms = c.fop("fmul", factors[0], xs[0])
        for factor, x in zip(factors[1:], xs[1:], strict=True):
            terms = multiply_add(c, self.dtype, terms, factor, x, "contract")
        place = offset(c, self.s, [k], [self.size])
        total = c.fop("fadd", load_element(c, self.dtype, place, parallel.access), terms)
        store_element(c, self.dtype, total, place, parallel.access)

    def _element(self, row: V, k: V, parallel: Parallel) -> V:
        return load_element(self.c, self.dtype, offset(self.c, row, [k], [self.size]), parallel.access)
