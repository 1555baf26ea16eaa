"""Unroll and jam: stencils over wide rows compute several rows at a time.

    for i in range(first, last):                 for i in range(first, last - 3, 4):       if rows are wide
        for j in range(m):                           for j in range(m):
            out[i, j] = f(a[i - 1, j],      =>           out[i, j] = f(a[i - 1, j], a[i, j], a[i + 1, j])
                          a[i, j],                       out[i + 1, j] = f(a[i, j], a[i + 1, j], a[i + 2, j])
                          a[i + 1, j])                   ...                               out[i + 3, j]
                                                 for i in the rows that are left: as before

A stencil reads each row for several rows of its result. Where these rows together are more than the first cache, they
come again from the second each time, and what that delivers is the limit: three rows for one. Four rows at once read
six for four. Every element has the steps that it has otherwise; those of a store are independent: their order is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import ZERO, V, constant, i64
from dlvm_py.ir import Instruction, Literal, Value
from dlvm_py.ir.analysis.cost import is_function

ROWS = 4
WIDE = 1024  # elements: three rows of f64 are 24 KiB then, most of a first cache
MOST_STEPS = 24  # of an element: beyond, computing is what takes the time, and four rows need too many registers


def jammed_axis(e: FunctionEmitter, tree: Tree, extents: Sequence[V], order: Sequence[int]) -> int | None:
    """The axis of the rows that are computed together; None where that is not worth the code."""
    axes = [k for k in order if constant(extents[k]) != 1]
    if tree.linear or tree.has_embeds or e.is_long or len(axes) < 2 or axes[-1] != tree.inner:
        return None
    known = constant(extents[axes[-1]])
    steps = list(dict.fromkeys(i for i, _ in tree.nodes()))
    if known is not None and known < WIDE:
        return None
    if len(steps) > MOST_STEPS or any(is_function(i) or i.op.name == "gather" for i in steps):
        return None
    return axes[-2] if _reads_rows_again(tree, axes[-2]) else None


def _reads_rows_again(tree: Tree, axis: int) -> bool:
    """Whether some array is read at several places of a loop axis."""
    found: dict[Value, set[object]] = {}
    for leaf, axes in tree.leaves():
        section = leaf.operands[0] if leaf.op.name == "load" else None
        if isinstance(section, Instruction) and section.op.name == "section" and len(axes) >= 2:
            starts = section.operands[1 : 1 + len(axes)]
            for start, read in zip(starts, axes, strict=True):
                if read == (axis, ()):
                    place = start.value if isinstance(start, Literal) else start
                    found.setdefault(section.operands[0], set()).add(place)
    return any(len(places) > 1 for places in found.values())


def write_rows(
    e: FunctionEmitter, tree: Tree, width: V, axis: int, rows: tuple[V, V], put: Callable[[Parallel], None]
) -> V:
    """Write rows from a first to a last one, some at a time, if they are wide; the first that is left."""
    first, last = rows
    count = e.op("lshr", e.op("sub nuw nsw", last, first), i64(ROWS.bit_length() - 1))
    times = count if constant(width) is not None else e.select(e.icmp("sge", width, i64(WIDE)), count, ZERO)
    with e.loop(times) as block:
        start = e.add(first, e.mul(block.index, i64(ROWS), "nuw nsw"), "nuw nsw")
        parallel = Parallel(e)
        with e.loop(width, note=parallel.loop, runs=True) as loop:
            tree.index[tree.inner] = loop.index
            for k in range(ROWS):
                tree.index[axis] = e.add(start, i64(k), "nuw nsw")
                put(parallel)
    return e.add(first, e.mul(times, i64(ROWS), "nuw nsw"), "nuw nsw")
