"""Several rows of a kernel at a time, where the IR says so (transforms/unroll_and_jam.py): `jam 4 along 0 from 768`.

for i in range(first, last - 3, 4):       if one index has 768 elements or more
    for j in ...:                         (loops between: rows of 64 or more, less than 4 Mi elements in all)
        for k in range(width):
            element (i, j, k);  element (i + 1, j, k);  element (i + 2, j, k);  element (i + 3, j, k)
(the rows that are left: the kernel's own loops)

Planes of results that go past the caches are written one after the other, a row of each at a time (streams.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.shifts import Together
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, i64
from dlvm_py.frozen import Frozen

SHORT = 64  # elements: of shorter rows, their ends are what takes the time
SHORTER = 48  # of those that have their vectors in common
# elements: what does not fit into the last caches is read in its order, one plane after the other; of short rows of
# several planes in turn, each begins before the CPU has seen where it goes on
FAR = 4 << 20
LONG_ROW = 1920  # bytes: of shorter rows, the elements before and behind their whole lines are what takes the time
SHARES = 16  # times the rows of a block: from then on threads take whole blocks
FEWER = 4  # times, of planes: two more are read than are written


class Jam(Frozen):
    """How many indices of an axis are computed together, where each has at least so many elements."""

    rows: int
    axis: int
    least: int

    def whole(self, e: FunctionEmitter, order: Sequence[int], axis: int, count: V) -> V:
        """The multiple of which threads take the indices of an axis: what is computed together, if it is long enough.

        Without it a chunk of seven rows is one block and three rows by themselves.
        """
        if axis != self.axis or self.rows & (self.rows - 1):
            return ONE
        shares = SHARES if axis == order[-2] else FEWER
        return _where_many(e, count, self.rows * shares, i64(self.rows), ONE)

    def by_lines(self, rows: int) -> Jam:
        """So many rows that are written by lines, where they are wide."""
        return Jam(rows, self.axis, self.least)

    def of_rows(self, rows: int, axis: int, itemsize: int) -> Jam:
        """So many rows of one plane instead of planes, where they are long enough to be written by lines."""
        return Jam(rows, axis, LONG_ROW // itemsize)


def _where_many(e: FunctionEmitter, count: V, least: int, then: V, other: V) -> V:
    known = constant(count)
    if known is not None:
        return then if known >= least else other
    return e.select(e.icmp("sge", count, i64(least)), then, other)


def write_rows(
    e: FunctionEmitter,
    tree: Tree,
    order: Sequence[int],
    extents: Sequence[V],
    jam: Jam,
    rows: tuple[V, V],
    put: Callable[[Parallel], None],
    by_shifts: Callable[[Together], None] | None = None,
) -> V:
    """Write rows from a first to a last one, some at a time, if they are wide; the first that is left.

    order: the axes of the loops, from that of the rows on. by_shifts: writes rows together whose loads are shuffled
    from vectors (shifts.py); None: an element of each after the other.
    """
    first, last = rows
    times = e.op("udiv", e.op("sub nuw nsw", last, first), i64(jam.rows))
    times = _where_many(e, e.product([extents[k] for k in order[1:]]), jam.least, times, ZERO)
    if len(order) > 2:
        times = _where_many(e, extents[tree.inner], SHORT if by_shifts is None else SHORTER, times, ZERO)
        times = _where_many(e, e.product(extents), FAR, ZERO, times)
    with e.loop(times) as block, ExitStack() as stack:
        start = e.add(first, e.mul(block.index, i64(jam.rows), "nuw nsw"), "nuw nsw")
        for k in order[1:-1]:
            tree.index[k] = stack.enter_context(e.loop(extents[k], runs=True)).index
        if by_shifts is not None:
            by_shifts(Together(jam.axis, jam.rows, start))
        else:
            _elements(e, tree, extents[tree.inner], jam, start, put)
    return e.add(first, e.mul(times, i64(jam.rows), "nuw nsw"), "nuw nsw")


def _elements(e: FunctionEmitter, tree: Tree, width: V, jam: Jam, start: V, put: Callable[[Parallel], None]) -> None:
    """One loop over the elements of rows together."""
    parallel = Parallel(e)
    with e.loop(width, note=parallel.loop, runs=True) as loop:
        tree.index[tree.inner] = loop.index
        for k in range(jam.rows):
            tree.index[jam.axis] = e.add(start, i64(k), "nuw nsw")
            put(parallel)
