"""Small products of f32 and f64 whose rows of b and of the result are contiguous: tiles of the result in registers.

    for four rows i.., then each row          for the columns j.. of a tile: 8 at a time, then 4, 2, 1 for the rest
        sum[r] += a[i + r, p] b[p, j..]       over all p, for each row of the tile
        to[i + r, j..] = sum[r]

A row alone takes 32 columns at a time first: each sum waits for itself, so that there must be several. The terms of an
element are added in their order wherever it lies.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix, multiply_add
from dlvm_py.backend.cpu.lanes import splat
from dlvm_py.backend.cpu.pointers import load_element, offset
from dlvm_py.backend.cpu.skinny import steps
from dlvm_py.backend.cpu.values import V, i64, in_lanes
from dlvm_py.ir import DType

ROWS, WIDTHS = 4, {4: (8, 4, 2, 1), 1: (32, 8, 4, 2, 1)}  # of tiles; the columns by the rows


def by_tiles(c: Code, dtype: DType, a: Matrix, b: Matrix, to: Matrix, add: str) -> None:
    """to = a b; add: "add" or "subtract", it is added to `to` or subtracted from it."""

    def some_rows(i: V, rows: int) -> None:
        done = i64(0)
        for width in WIDTHS[rows]:
            count = c.op("sdiv", c.op("sub nsw", to.cols, done), i64(width))
            with c.loop(count) as tile:
                j = c.add(done, c.mul(tile.index, i64(width), "nuw nsw"), "nuw nsw")
                _tile(c, dtype, (a, b, to), (i, rows), (j, width), add)
            done = c.add(done, c.mul(count, i64(width), "nuw nsw"), "nuw nsw")

    steps(c, to.rows, ROWS, some_rows)


def _tile(
    c: Code, dtype: DType, product: tuple[Matrix, Matrix, Matrix], of: tuple[V, int], at: tuple[V, int], add: str
) -> None:
    (a, b, to), (i, rows), (j, width) = product, of, at
    type, size, aligned = in_lanes(scalar_type(dtype), width), i64(dtype.itemsize), f", align {dtype.itemsize}"
    lefts = [offset(c, a.data, [c.add(i, i64(r))], [a.row_step]) for r in range(rows)]
    right = offset(c, b.data, [j], [size])
    with c.loop(a.cols, [V(type, "zeroinitializer")] * rows) as p:
        y = c.load(type, offset(c, right, [p.index], [b.row_step]), aligned)
        xs = [load_element(c, dtype, offset(c, left, [p.index], [a.col_step])) for left in lefts]
        factors = [x if width == 1 else splat(c, x, width) for x in xs]
        p.next = [
            multiply_add(c, dtype, total, x, y, "contract") for total, x in zip(p.carried, factors, strict=True)
        ]
    for r, total in enumerate(p.results):
        place = offset(c, to.data, [c.add(i, i64(r)), j], [to.row_step, size])
        if add:
            total = c.fop("fadd" if add == "add" else "fsub", c.load(type, place, aligned), total)
        c.store(total, place, aligned)
