"""Several rows of a kernel at a time, where the IR says so (transforms/unroll_and_jam.py): `jam 4 along 0 from 1024`.

    for i in range(first, last - 3, 4):       if the width is 1024 or more
        for j in range(width):
            element (i, j);  element (i + 1, j);  element (i + 2, j);  element (i + 3, j)
    (the rows that are left: the kernel's own loops)
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import ZERO, V, constant, i64
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Instruction


class Jam(Frozen):
    """How many indices of an axis are computed together, and from which width of the innermost loop on."""

    rows: int
    axis: int
    least: int


def jam_of(store: Instruction) -> Jam | None:
    """What the first store of a kernel says; None: nothing."""
    rows = store.attrs.get("jam")
    return None if rows is None else Jam(rows, store.attrs["along"], store.attrs["least"])


def write_rows(
    e: FunctionEmitter, tree: Tree, width: V, jam: Jam, rows: tuple[V, V], put: Callable[[Parallel], None]
) -> V:
    """Write rows from a first to a last one, some at a time, if they are wide; the first that is left."""
    first, last = rows
    times = e.op("udiv", e.op("sub nuw nsw", last, first), i64(jam.rows))
    known = constant(width)
    if known is None:
        times = e.select(e.icmp("sge", width, i64(jam.least)), times, ZERO)
    elif known < jam.least:
        times = ZERO
    with e.loop(times) as block:
        start = e.add(first, e.mul(block.index, i64(jam.rows), "nuw nsw"), "nuw nsw")
        parallel = Parallel(e)
        with e.loop(width, note=parallel.loop, runs=True) as loop:
            tree.index[tree.inner] = loop.index
            for k in range(jam.rows):
                tree.index[jam.axis] = e.add(start, i64(k), "nuw nsw")
                put(parallel)
    return e.add(first, e.mul(times, i64(jam.rows), "nuw nsw"), "nuw nsw")
