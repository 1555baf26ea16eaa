"""Stores past the caches: says from how many bytes on the results of a kernel go to memory without being read first.

    %0 = load %x: *<_ x f64>                          (as before)
    %1 = multiply %s: f64, %0: <_ x f64>        =>
    store %1: <_ x f64> to %p: *<_ x f64>             store %1: <_ x f64> to %p: *<_ x f64> past 33554432

    store %2 to %q: *<_ x _ x f64>                    store %2 to %q: *<_ x _ x f64>
        jam 4 along 0 from 768                            jam 4 along 0 from 768 past 33554432 lines 2 ahead 393216

A plain store reads the line that it overwrites: three passes over memory for a scaled copy that needs two. `past` at
the first store of a kernel: where all of its results are so many bytes, which is asked at run time, they go past the
caches (backend/cpu/streams.py). Less than the last caches hold does not: who comes next finds it there.

Rows that go together (unroll_and_jam.py) are written by whole lines then, each by its own. `lines`: of so many rows at
a time. Two where rows are neighbours in memory alone: four are read for two, in the first cache. One of a plane in
space: what is new is read in the order of memory then, which the CPU fetches by itself, as it does not for some rows in
turn.

Rows are streams that begin anew every few KiB, before the CPU has seen where each goes on; it is told. `ahead`: what
the next rows read is fetched when those before them are computed, if that is no more than so many bytes, which are in
the second cache then; of longer rows what comes a little later in the same.

Chosen are kernels that store elementwise trees of few steps, one or two, in one loop, by tiles, or rows together. Not
those that read what they write, whose lines are in the caches anyway; nor where functions are computed, which memory
does not wait for; not in loops in loops, nor in long functions. What is there already stays. Stage scheduled, or
compute, behind unroll_and_jam and tile_loops; a second run finds nothing.
"""

from __future__ import annotations

import math

from dlvm_py.decisions import NEVER, Decisions
from dlvm_py.ir import Function, Instruction, Kind, Literal, PointerType, TensorType, Value
from dlvm_py.ir.analysis.cost import is_function
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.analysis.places import may_lie_side_by_side, place_of, section_parts
from dlvm_py.ir.tree_rules import is_numbered, kernels, stored_tree, tree_values
from dlvm_py.transforms.tile_loops import innermost
from dlvm_py.transforms.unroll_and_jam import LONG

LEAST = 32 << 20  # bytes: about what last caches hold
MOST = 2  # destinations
MOST_STEPS = 16  # of an element: beyond, and where functions are computed, memory is not what is waited for
NEXT_ROWS = 384 << 10  # bytes: rows of so many together are in the second cache before they are computed
PLANES = 3  # axes of rows that go together, at most
ROWS = 2  # of a plane that go by lines at a time


def run(function: Function, decisions: Decisions | None = None) -> bool:
    """Say which kernels of `function` may write past the caches; whether there are any."""
    if sum(len(block.instructions) for block in function.blocks) > LONG:
        return False
    decisions, changed, forest = decisions or Decisions(), False, None
    for block in function.blocks:
        for kernel in kernels(block.instructions):
            first = kernel[0]
            if "past" in first.attrs or not _is_fit(kernel):
                continue
            forest = forest or LoopForest(function)
            loop = forest.loop_of(block)
            if loop is not None and loop.depth > 1:
                continue
            marks = _marks(kernel, decisions)
            first.attrs = {**first.attrs, **marks}
            changed |= bool(marks)
    return changed


def _is_fit(kernel: list[Instruction]) -> bool:
    """Whether a kernel is one that waits for memory, and goes in a way in which it may write past the caches."""
    trees = [stored_tree(i) for i in kernel]
    if None in trees or len(kernel) > MOST:
        return False
    steps = tree_values(*trees)
    if sum(i.op.kind is Kind.ELEMENTWISE for i in steps) > MOST_STEPS or any(map(is_function, steps)):
        return False
    written = {place_of(i.operands[1]).base for i in kernel}
    if any(i.op.name == "embed" or (i.op.name == "load" and place_of(i.operands[0]).base in written) for i in steps):
        return False
    to = kernel[0].operands[1]
    inner = innermost(to)
    if inner is None:
        return False
    if not all(may_lie_side_by_side(i.operands[1], inner) for i in kernel):
        return False
    attrs = kernel[0].attrs
    if "jam" in attrs:
        # the rows of several results are no lines of one
        return attrs.get("shifts", False) or (len(kernel) == 1 and _axes_from(to, attrs["along"]) <= PLANES)
    if "tile" in attrs:
        return len(kernel) == 1
    is_vector = sum(n != 1 for n in to.type.shape) < 2  # type: ignore[attr-defined]
    return attrs.get("shifts", False) or is_vector or is_numbered(kernel)


def _axes_from(pointer: Value, axis: int) -> int:
    """How many axes the loops have from that over one axis on."""
    type = pointer.type
    assert isinstance(type, PointerType)
    order = [k for k in range(type.rank)][:: -1 if type.layout == "F" else 1]
    return len(order) - order.index(axis)


def _marks(kernel: list[Instruction], decisions: Decisions) -> dict[str, int]:
    """What a kernel says of its stores; nothing where it is known to be small."""
    types = [i.operands[1].type.pointee for i in kernel]  # type: ignore[attr-defined]
    shape, size = types[0].shape, sum(t.dtype.itemsize for t in types)
    known = None if None in shape else math.prod(shape) * size
    if known is not None and known < LEAST >> 3:
        return {}
    past = decisions.take("streams.least", LEAST, (LEAST >> 3, NEVER))
    if known is not None and known < past:
        return {}
    attrs = kernel[0].attrs
    axes = _axes_from(kernel[0].operands[1], attrs["along"]) if "jam" in attrs else 0
    if len(kernel) > 1 or not 2 <= axes <= PLANES:
        return {"past": past}
    if axes == 2:
        lines = decisions.take("streams.rows", ROWS, (4, 1))
    else:
        lines = decisions.take("streams.rows_in_space", 1, (2, 4))
    marks = {"past": past, "lines": lines}
    if _reads_at_known_places(kernel[0]):
        marks["ahead"] = decisions.take("streams.ahead", NEXT_ROWS, (0, NEXT_ROWS * 4))
    return marks


def _reads_at_known_places(store: Instruction) -> bool:
    """Whether it is known what the rows of a kernel read first of some array: sections at literal places."""
    for load in tree_values(stored_tree(store)):
        section = load.operands[0] if load.op.name == "load" else None
        if isinstance(section, Instruction) and section.op.name == "section" and isinstance(load.type, TensorType):
            if all(isinstance(start, Literal) for start in section_parts(section)[0]):
                return True
    return False
