"""Products of matrices of which an extent is small, in loops of our own: one pass over what is large.

Of complex ones two must be small: rows and terms.

BLAS copies blocks of both operands into an order of its own, which pays where every element is used many times. With
m rows, k terms and n columns:

    few rows or few terms, rows of b contiguous     `by_rows`: to[i, j..] += a[i, p] b[p, j..] for four i and four p at
                                                    a time, over strips of columns that stay in the nearest cache
    few rows or few columns, terms contiguous       `by_products`: the scalar products of two rows and four columns
                                                    at a time, over strips of terms

The inner loops are plain ones that LLVM vectorises. Sums have an order that depends on the extents alone. Threads share
the columns of the result where its rows are few, else its rows, in pieces (`_piece`) whose borders lie where those of
vectors and of inner loops do: an element is computed by the same instructions wherever the range is cut. Long sums of
few rows of moderate length are cut along the terms instead, where the extents say so (`parts_of`), so that what each
thread reads lies in one piece: parts of rows of 1 KB took longer by two threads than whole rows by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.dot import Matrix, multiply_add, zero
from dlvm_py.backend.cpu.pointers import load_element, offset, store_element
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.share import shared
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.values import ONE, ZERO, V, i64
from dlvm_py.frozen import replace
from dlvm_py.grain import GRAIN
from dlvm_py.ir import DType

ROWS, TERMS = 4, 4  # of one inner loop of `by_rows`
LEFT, RIGHT = 2, 4  # rows and columns of one of `by_products`, whose sums fit the registers of AVX2
STRIP = 2048  # columns of `by_rows`
LENGTH = 2048  # terms of `by_products`
# threads take several of so many columns of `by_rows` (shorter parts of rows make no streams), and of so many rows or
# columns of `by_products`
SEGMENT, GROUP = 2 * STRIP, 8
# where rows are shorter the sums are cut instead: into at most so many parts, of at least so many terms
WIDE, PARTS, PART = 4 * STRIP, 16, 256
# the grain of threads: so many products of elements, and what these cost, in tenths of nanoseconds for 4 bytes
FEW_PRODUCTS, COST = 8, 3


def by_rows(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str, few: V) -> None:
    """to = a b, or added to it; rows of b and of `to` are contiguous.

    few: whether `to` has few rows. Then all of them take four terms after four, else four rows after four.
    """
    with _piece(c, dtype, (a, b, to), few, (ROWS, SEGMENT)) as (a, b, to):
        _call_rows(c, dtype, a, b, to, add, c.select(few, i64(2 * ROWS), i64(ROWS)))


def by_parts(
    c: Code,
    dtype: DType,
    product: tuple[Matrix, Matrix, Matrix],
    add: str,
    found: Matrix,
    parts: tuple[V, V],
    multiply: Callable[[Matrix, Matrix, Matrix], None],
) -> None:
    """As `by_rows`, of few rows: the products of some terms each, below each other in `found`, and their sum.

    parts: how many, and of how many terms. multiply: writes such a product.
    """
    (a, b, to), (count, length) = product, parts
    below = c.mul(to.rows, found.row_step)
    with shared(c, count, *grain(c, dtype, (to.rows, to.cols, a.cols))) as span:
        first, last = span or (ZERO, count)
        with c.loop(c.op("sub nsw", last, first)) as loop:
            part = c.add(first, loop.index, "nuw nsw")
            start = c.mul(part, length, "nuw nsw")
            terms = c.minimum(length, c.op("sub nsw", a.cols, start))
            left, right = replace(from_step(c, a, a.col_step, start), cols=terms), from_step(c, b, b.row_step, start)
            result = replace(from_step(c, found, below, part), rows=to.rows)
            multiply(left, right, result)
    with c.loop(to.rows) as i:
        total, row = (offset(c, x.data, [i.index], [x.row_step]) for x in (found, to))
        with c.loop(c.op("sub", count, ONE)) as other:
            _add_row(c, dtype, offset(c, total, [c.add(other.index, ONE)], [below]), total, to.cols, "add")
        _add_row(c, dtype, total, row, to.cols, add)


def few_by_rows(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str) -> None:
    """As `by_rows`, of few rows, by one thread."""
    _call_rows(c, dtype, a, b, to, add, i64(2 * ROWS))


def _add_row(c: Code, dtype: DType, x: V, to: V, width: V, add: str) -> None:
    parallel = Parallel(c)
    with c.loop(width, note=parallel.loop) as j:
        element, place = (offset(c, row, [j.index], [i64(dtype.itemsize)]) for row in (x, to))
        element = load_element(c, dtype, element, parallel.access)
        if add:
            old = load_element(c, dtype, place, parallel.access)
            element = TABLE[add][dtype.kind](c, dtype, {}, old, element)
        store_element(c, dtype, element, place, parallel.access)


def _call_rows(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str, together: V) -> None:
    """define void rows(m, n, k, a, row step, column step, b, row step, to, row step, together): by one thread.

    together: so many rows of `to` take four terms after four; all of them where they are few.
    """

    def write(c: Code) -> None:
        m, n, k, a, a_row, a_col, b, b_row, to, to_row, together = c.params
        size = i64(dtype.itemsize)
        _rows(
            c,
            dtype,
            Matrix(a, m, k, a_row, a_col),
            Matrix(b, k, n, b_row, size),
            Matrix(to, m, n, to_row, size),
            add,
            together,
        )
        c.line("ret void")

    types = ["i64", "i64", "i64", "ptr", "i64", "i64", "ptr", "i64", "ptr", "i64", "i64"]
    name = helper(c, ".".join(["dlvm.rows", str(dtype), *([add] if add else [])]), "void", types, write)
    args = [to.rows, to.cols, a.cols, *a.flat(), b.data, b.row_step, to.data, to.row_step, together]
    c.call(f"@{name}", "void", args)


def _rows(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str, together: V) -> None:
    def strip(start: V, width: V) -> None:
        right, strip_of = from_step(c, b, b.col_step, start), from_step(c, to, to.col_step, start)

        def some_rows(first: V, count: V) -> None:
            left, result = from_step(c, a, a.row_step, first), from_step(c, strip_of, to.row_step, first)
            if not add:
                clear(c, dtype, result, count, width)

            def some_terms(p: V, terms: int) -> None:
                def some_sums(i: V, rows: int) -> None:
                    _add_rows(c, dtype, (left, i, rows), (right, p, terms), result, width, add)

                steps(c, count, ROWS, some_sums)

            steps(c, a.cols, TERMS, some_terms)

        strips(c, to.rows, together, some_rows)

    strips(c, to.cols, i64(STRIP), strip)


def by_products(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str) -> None:
    """to = a b, or added to it; rows of a and columns of b are contiguous."""
    with _piece(c, dtype, (a, b, to), c.icmp("slt", to.rows, to.cols), (GROUP, GROUP)) as (a, b, to):
        small_by_products(c, dtype, a, b, to, add)


def small_by_products(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str) -> None:
    """As `by_products`, by one thread."""
    size = i64(dtype.itemsize)
    if not add:
        with c.loop(to.rows) as i, c.loop(to.cols) as j:
            store_element(c, dtype, zero(dtype), offset(c, to.data, [i.index, j.index], [to.row_step, to.col_step]))

    def strip(start: V, length: V) -> None:
        def inner(i: V, rows: int, j: V, columns: int) -> None:
            left = [offset(c, a.data, [c.add(i, i64(r)), start], [a.row_step, size]) for r in range(rows)]
            right = [offset(c, b.data, [start, c.add(j, i64(q))], [size, b.col_step]) for q in range(columns)]
            with c.loop(length, [zero(dtype)] * (rows * columns)) as p:
                xs = [load_element(c, dtype, offset(c, x, [p.index], [size])) for x in left]
                ys = [load_element(c, dtype, offset(c, y, [p.index], [size])) for y in right]
                pairs = [(x, y) for x in xs for y in ys]
                p.next = [
                    multiply_add(c, dtype, total, x, y, "reassoc contract")
                    for total, (x, y) in zip(p.carried, pairs, strict=True)
                ]
            for at, total in enumerate(p.results):
                row, column = c.add(i, i64(at // columns)), c.add(j, i64(at % columns))
                place = offset(c, to.data, [row, column], [to.row_step, to.col_step])
                old = load_element(c, dtype, place)
                store_element(c, dtype, TABLE[add or "add"][dtype.kind](c, dtype, {}, old, total), place)

        def some_columns(j: V, columns: int) -> None:
            steps(c, to.rows, LEFT, lambda i, rows: inner(i, rows, j, columns))

        steps(c, to.cols, RIGHT, some_columns)

    strips(c, a.cols, i64(LENGTH), strip)


def _add_rows(
    c: Code, dtype: DType, left: tuple[Matrix, V, int], right: tuple[Matrix, V, int], to: Matrix, width: V, add: str
) -> None:
    """The rows from i on get the terms from p on, `width` columns."""
    (a, i, rows), (b, p, terms) = left, right
    size = i64(dtype.itemsize)
    factors = []
    for r in range(rows):
        for t in range(terms):
            place = [c.add(i, i64(r)), c.add(p, i64(t))]
            x = load_element(c, dtype, offset(c, a.data, place, [a.row_step, a.col_step]))
            factors.append(TABLE["negate"][dtype.kind](c, dtype, {}, x) if add == "subtract" else x)
    sources = [offset(c, b.data, [c.add(p, i64(t))], [b.row_step]) for t in range(terms)]
    sums = [offset(c, to.data, [c.add(i, i64(r))], [to.row_step]) for r in range(rows)]
    parallel = Parallel(c)
    with c.loop(width, note=parallel.loop) as j:
        ys = [load_element(c, dtype, offset(c, y, [j.index], [size]), parallel.access) for y in sources]
        for r, row in enumerate(sums):
            place_ = offset(c, row, [j.index], [size])
            # the terms first, by themselves: fewer roundings of a long sum
            some = TABLE["multiply"][dtype.kind](c, dtype, {}, factors[r * terms], ys[0])
            for t in range(1, terms):
                some = multiply_add(c, dtype, some, factors[r * terms + t], ys[t], "contract")
            old = load_element(c, dtype, place_, parallel.access)
            if dtype.is_float:
                total = c.fop("fadd", old, some, " contract" if terms == 1 else "")
            else:
                total = TABLE["add"][dtype.kind](c, dtype, {}, old, some)
            store_element(c, dtype, total, place_, parallel.access)


def clear(c: Code, dtype: DType, to: Matrix, rows: V, width: V) -> None:
    """Zeros in some rows."""
    parallel = Parallel(c)
    with c.loop(rows) as r:
        row = offset(c, to.data, [r.index], [to.row_step])
        with c.loop(width, note=parallel.loop) as j:
            store_element(c, dtype, zero(dtype), offset(c, row, [j.index], [i64(dtype.itemsize)]), parallel.access)


def parts_of(c: Code, dtype: DType, m: V, n: V, k: V) -> tuple[V, V, V]:
    """(whether the sums of a product with few rows are cut, into how many parts, of how many terms): by its extents."""
    work, cost = grain(c, dtype, (m, n, k))
    even = c.op("and", c.add(c.op("udiv", k, i64(PARTS)), i64(TERMS)), i64(-TERMS))
    length = c.select(c.icmp("ult", even, i64(PART)), i64(PART), even)
    is_long = c.both(c.icmp("sge", k, i64(2 * PART)), c.icmp("uge", work, i64(-(-GRAIN // cost))))
    count = c.op("udiv", c.add(k, c.op("sub", length, ONE)), length)
    return c.both(is_long, c.icmp("slt", n, i64(WIDE))), count, length


def grain(c: Code, dtype: DType, extents: Sequence[V]) -> tuple[V, int]:
    """The work of a product in units, and the cost of one: what `shared` asks for."""
    cost = COST * dtype.itemsize // 4
    return c.op("udiv", c.product(extents), i64(FEW_PRODUCTS)), 2 * cost if dtype.is_complex else cost


@contextmanager
def _piece(
    c: Code, dtype: DType, product: tuple[Matrix, Matrix, Matrix], of_columns: V, sizes: tuple[int, int]
) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
    """What a thread does of a product (a, b, to): some of the columns of `to`, or some of its rows.

    sizes: of how many rows, and of how many columns, the pieces are multiples.
    """
    a, b, to = product
    size, length = c.select(of_columns, i64(sizes[1]), i64(sizes[0])), c.select(of_columns, to.cols, to.rows)
    count = c.op("udiv", c.add(length, c.op("sub", size, ONE)), size)
    with shared(c, count, *grain(c, dtype, (to.rows, to.cols, a.cols))) as part:
        if part is None:
            yield product
            return
        start = c.mul(part[0], size, "nuw nsw")
        width = c.op("sub nsw", c.minimum(c.mul(part[1], size, "nuw nsw"), length), start)
        row, rows = c.select(of_columns, ZERO, start), c.select(of_columns, to.rows, width)
        column, columns = c.select(of_columns, start, ZERO), c.select(of_columns, width, to.cols)
        left = replace(from_step(c, a, a.row_step, row), rows=rows)
        right = replace(from_step(c, b, b.col_step, column), cols=columns)
        result = from_step(c, from_step(c, to, to.row_step, row), to.col_step, column)
        yield left, right, replace(result, rows=rows, cols=columns)


def from_step(c: Code, x: Matrix, step: V, start: V) -> Matrix:
    """x, with its first element so many steps further on."""
    return replace(x, data=offset(c, x.data, [start], [step]))


def strips(c: Code, count: V, size: V, body: Callable[[V, V], None]) -> None:
    """body(start, length) for pieces of at most `size`."""
    with c.loop(c.op("udiv", c.add(count, c.op("sub", size, ONE)), size)) as piece:
        start = c.mul(piece.index, size, "nuw nsw")
        body(start, c.minimum(c.op("sub nsw", count, start), size))


def steps(c: Code, count: V, size: int, body: Callable[[V, int], None]) -> None:
    """body(start, size) as often as it fits, then body(start, 1) for the rest."""
    whole = c.op("udiv", count, i64(size))
    with c.loop(whole) as step:
        body(c.mul(step.index, i64(size), "nuw nsw"), size)
    done = c.mul(whole, i64(size), "nuw nsw")
    with c.loop(c.op("sub nsw", count, done)) as step:
        body(c.add(done, step.index), 1)
