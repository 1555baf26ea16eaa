"""Products of real matrices of which an extent is small, in loops of our own: one pass over what is large.

BLAS copies blocks of both operands into an order of its own, which pays where every element is used many times. With
m rows, k terms and n columns:

    few rows or few terms, rows of b contiguous     `by_rows`: to[i, j..] += a[i, p] b[p, j..] for four i and four p at
                                                    a time, over strips of columns that stay in the nearest cache
    few rows or few columns, terms contiguous       `by_products`: the scalar products of two rows and four columns
                                                    at a time, over strips of terms

The inner loops are plain ones that LLVM vectorises. Sums have an order that depends on the extents alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.dot import Matrix, multiply_add, zero
from dlvm_py.backend.cpu.pointers import load_element, offset, store_element
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.values import ONE, V, i64
from dlvm_py.ir import DType

ROWS, TERMS = 4, 4  # of one inner loop of `by_rows`
LEFT, RIGHT = 2, 4  # rows and columns of one of `by_products`, whose sums fit the registers of AVX2
STRIP = 2048  # columns of `by_rows`
LENGTH = 2048  # terms of `by_products`


def by_rows(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str, together: V) -> None:
    """to = a b, or added to it; rows of b and of `to` are contiguous.

    together: so many rows of `to` take four terms after four; all of them where they are few.
    """

    def strip(start: V, width: V) -> None:
        right, strip_of = _from(c, b, b.col_step, start), _from(c, to, to.col_step, start)

        def some_rows(first: V, count: V) -> None:
            left, result = _from(c, a, a.row_step, first), _from(c, strip_of, to.row_step, first)
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
            some = c.fop("fmul", factors[r * terms], ys[0])
            for t in range(1, terms):
                some = multiply_add(c, dtype, some, factors[r * terms + t], ys[t], "contract")
            old = load_element(c, dtype, place_, parallel.access)
            total = c.fop("fadd", old, some, " contract" if terms == 1 else "")
            store_element(c, dtype, total, place_, parallel.access)


def clear(c: Code, dtype: DType, to: Matrix, rows: V, width: V) -> None:
    """Zeros in some rows."""
    parallel = Parallel(c)
    with c.loop(rows) as r:
        row = offset(c, to.data, [r.index], [to.row_step])
        with c.loop(width, note=parallel.loop) as j:
            store_element(c, dtype, zero(dtype), offset(c, row, [j.index], [i64(dtype.itemsize)]), parallel.access)


def _from(c: Code, x: Matrix, step: V, start: V) -> Matrix:
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
