"""Matrix products: `store(dot(load a, load b))` and the scalar product of vectors.

    m, n, k from the ranks: a is m × k, b is k × n, a vector is a matrix with one row or column
    known to be tiny                      loops in place, which LLVM unrolls
    a vector times short rows             sums in registers, where the length of the rows is known
    f32, f64, c64, c128                   @dlvm.matmul.T at run time: loops if small, else gemm or gemv (matmul.py)
    other dtypes                          loops

The accumulators of a product may be contracted to fma, and those of a scalar product may be reassociated:
NumPy gives no order there either.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.casts import cast
from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.lanes import splat
from dlvm_py.backend.cpu.pointers import Pointer, is_open, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import FunctionText, Parallel, plain_loop
from dlvm_py.backend.cpu.values import ONE, V, constant, i64
from dlvm_py.frozen import Frozen, replace
from dlvm_py.ir import F32, F64, DType

# bytes of a row that is added up in registers: 4 or 8 of AVX2, so that few wait for their sums; powers of two, which
# LLVM cuts into registers (24 numbers of f64 took twice as long as 32)
NARROW = (128, 256)
# terms up to which one thread, and one sum in order, will do
SHORT = 4096


class Matrix(Frozen):
    """A strided matrix: address, extents, strides in bytes."""

    data: V
    rows: V
    cols: V
    row_step: V
    col_step: V

    @property
    def transposed(self) -> Matrix:
        """The same memory with its axes exchanged."""
        return Matrix(self.data, self.cols, self.rows, self.col_step, self.row_step)

    def flat(self) -> list[V]:
        """Address and strides, as they are passed."""
        return [self.data, self.row_step, self.col_step]


def as_matrix(f: FunctionText, p: Pointer, column: bool) -> Matrix:
    """A pointer of rank 1 or 2 as a matrix; `column`: a vector becomes a column, else a row."""
    strides = strides_of(f, p)
    if p.rank == 2:
        return Matrix(p.data, *p.extents, *strides)
    size = i64(p.itemsize)
    if column:
        return Matrix(p.data, p.extents[0], ONE, strides[0], size)
    return Matrix(p.data, ONE, p.extents[0], size, strides[0])


def multiply_add(c: Code, dtype: DType, total: V, a: V, b: V, flags: str) -> V:
    """total + a * b, fused where the CPU can."""
    if dtype.is_float:
        return c.fop("fadd", total, c.fop("fmul", a, b, f" {flags}"), f" {flags}")
    return TABLE["add"][dtype.kind](c, dtype, {}, total, TABLE["multiply"][dtype.kind](c, dtype, {}, a, b))


def zero(dtype: DType) -> V:
    """The zero of a dtype."""
    return V(scalar_type(dtype), "zeroinitializer")


def inner_product(c: Code, dtype: DType, count: V, a: tuple[V, V], b: tuple[V, V]) -> V:
    """Σ a[p] b[p] for (address, stride) pairs; 16 bits in f32. Vectorised where elements are known to be neighbours."""
    wide = F32 if dtype.is_narrow else dtype
    with c.loop(count, [zero(wide)], "" if _are_dense(dtype, a[1], b[1]) else plain_loop(c)) as loop:
        x, y = (
            cast(c, load_element(c, dtype, offset(c, data, [loop.index], [step])), dtype, wide) for data, step in (a, b)
        )
        loop.next = [multiply_add(c, wide, loop.carried[0], x, y, "reassoc contract")]
    return cast(c, loop.results[0], wide, dtype)


def _are_dense(dtype: DType, *strides: V) -> bool:
    """Whether strides are known to be those of neighbours, in either direction."""
    return all(constant(s) in (dtype.itemsize, -dtype.itemsize) for s in strides)


def versioned_inner_product(c: Code, dtype: DType, count: V, a: tuple[V, V], b: tuple[V, V]) -> V:
    """As inner_product, with a vectorised version for unit strides, if only a call says that they are not."""
    size = i64(dtype.itemsize)
    if _are_dense(dtype, a[1], b[1]) or not all(step == size or is_open(c, step, size) for step in (a[1], b[1])):
        return inner_product(c, dtype, count, a, b)
    result = c.alloca(scalar_type(dtype), 16)
    unit = c.both(c.icmp("eq", a[1], size), c.icmp("eq", b[1], size))
    with c.either(unit) as arms:
        next(arms)
        c.store(inner_product(c, dtype, count, (a[0], size), (b[0], size)), result)
        next(arms)
        c.store(inner_product(c, dtype, count, a, b), result)
    return c.load(scalar_type(dtype), result)


def loops(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str = "") -> None:
    """to = a b without BLAS: rows of b added up where rows are contiguous, else scalar products.

    add: "add" for to += a b, "subtract" for to -= a b.
    """
    size = i64(dtype.itemsize)
    if dtype.is_narrow:  # sums are kept in f32: never in the destination
        assert not add
        _by_products(c, dtype, a, b, to, add)
        return
    if b.col_step == size and to.col_step == size:
        _by_rows(c, dtype, a, b, to, add)
        return
    unit = c.both(c.icmp("eq", b.col_step, size), c.icmp("eq", to.col_step, size))
    with c.either(unit) as arms:
        next(arms)
        _by_rows(c, dtype, a, replace(b, col_step=size), replace(to, col_step=size), add)
        next(arms)
        _by_products(c, dtype, a, b, to, add)


def _by_products(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str) -> None:
    with c.loop(to.rows) as i, c.loop(to.cols) as j:
        row = offset(c, a.data, [i.index], [a.row_step]), a.col_step
        column = offset(c, b.data, [j.index], [b.col_step]), b.row_step
        x = inner_product(c, dtype, a.cols, row, column)
        place = offset(c, to.data, [i.index, j.index], [to.row_step, to.col_step])
        if add:
            x = TABLE[add][dtype.kind](c, dtype, {}, load_element(c, dtype, place), x)
        store_element(c, dtype, x, place)


def _by_rows(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, mode: str) -> None:
    """to[i] = Σ_p a[i, p] b[p], whole rows at a time."""
    clear, add = Parallel(c), Parallel(c)
    with c.loop(to.rows) as i:
        row = offset(c, to.data, [i.index], [to.row_step])
        if not mode:
            with c.loop(to.cols, note=clear.loop) as j:
                store_element(c, dtype, zero(dtype), offset(c, row, [j.index], [to.col_step]), clear.access)
        with c.loop(a.cols) as p:
            x = load_element(c, dtype, offset(c, a.data, [i.index, p.index], [a.row_step, a.col_step]))
            if mode == "subtract":
                x = TABLE["negate"][dtype.kind](c, dtype, {}, x)
            other = offset(c, b.data, [p.index], [b.row_step])
            with c.loop(to.cols, note=add.loop) as j:
                place = offset(c, row, [j.index], [to.col_step])
                y = load_element(c, dtype, offset(c, other, [j.index], [b.col_step]), add.access)
                old = load_element(c, dtype, place, add.access)
                store_element(c, dtype, multiply_add(c, dtype, old, x, y, "contract"), place, add.access)


def is_narrow(dtype: DType, a: Matrix, b: Matrix) -> bool:
    """Whether it is a vector times a matrix of which a row, of known length, is a few registers."""
    n = constant(b.cols)
    is_row = n is not None and dtype in (F32, F64) and constant(a.rows) == 1
    return is_row and n * dtype.itemsize in NARROW  # type: ignore[operator]


def narrow_product(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix) -> None:
    """to = a b of such: rows of b, which are contiguous as that of `to` is, are added up in registers."""
    lanes = constant(b.cols)
    assert lanes is not None
    type, one = f"<{lanes} x {scalar_type(dtype)}>", f", align {dtype.itemsize}"
    with c.loop(a.cols, [V(type, "zeroinitializer")]) as p:
        x = load_element(c, dtype, offset(c, a.data, [p.index], [a.col_step]))
        row = c.load(type, offset(c, b.data, [p.index], [b.row_step]), one)
        p.next = [multiply_add(c, dtype, p.carried[0], splat(c, x, lanes), row, "contract")]
    c.store(p.results[0], to.data, one)


def is_tiny(*extents: V, limit: int = 512) -> bool:
    """Whether the extents are known, and their product at most `limit`."""
    total = 1
    for v in extents:
        n = constant(v)
        if n is None:
            return False
        total *= n
    return total <= limit
