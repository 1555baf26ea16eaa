"""Unroll and jam: stencils over wide rows compute several rows at a time, those in space several planes.

    %c = section %a at (1, 0) count (%n, %m) ...      (as before)
    %u = section %a at (0, 0) count (%n, %m) ...
    %0 = load %c                                  =>
    %1 = load %u
    %2 = subtract %0, %1                              %2 = subtract %0, %1
    store %2 to %p: *<_ x _ x f64>                    store %2 to %p: *<_ x _ x f64> jam 4 along 0 from 768

    for i in range(first, last):                 for i in range(first, last - 3, 4):       if rows are wide
        for j in range(m):                           for j in range(m):
            p[i, j] = a[i + 1, j] - a[i, j]  =>          p[i, j] = a[i + 1, j] - a[i, j]
                                                         ...                               p[i + 3, j]
                                                 for i in the rows that are left: as before

A stencil reads each row for several rows of its result. Where these rows together are more than the first cache, they
come again from the second each time, and what that delivers is the limit: three rows for one. Four rows at once read
six for four. Of three axes these are planes, which come from farther: the loops between run inside of the four indices.
Where a result goes past the caches, four rows of one plane instead, by lines (backend/cpu/streams.py).
Every element has the steps that it has otherwise; those of a store are independent: their order is free.

`jam 4 along 0 from 768` at the first store of a kernel says: four indices of axis 0 at a time, where one has at least
768 elements (a row, or a plane of rows that are not short), which is asked at run time. The back end does what is
written there (backend/cpu/jam.py), for any axis but the one whose elements lie side by side; what is there already
stays. Threads take whole fours.

A kernel is chosen if it is elementwise over at least two axes, reads an array at several places of an axis that is not
the innermost (sections of one base; the outermost such axis is taken), and has few steps, none of them a function like
exp. Not in long functions, where code counts more than what is left to gain. Stage compute, at the end of the pipeline:
nothing behind it changes kernels.
"""

from __future__ import annotations

import math

from dlvm_py.decisions import Decisions
from dlvm_py.ir import OPS, Function, Instruction, PointerType, TensorType, Value
from dlvm_py.ir.analysis.cost import is_function
from dlvm_py.ir.analysis.places import section_parts
from dlvm_py.ir.tree_rules import is_linear, kernels, may_be_joined
from dlvm_py.ir.value import Literal
from dlvm_py.transforms.kernel_versions import elementwise

ROWS = 4
WIDE = 768  # elements: three rows of f64 and one that is written are 24 KiB then, most of a first cache
MOST_STEPS = 24  # of an element: beyond, computing is what takes the time, and four rows need too many registers
LONG = 400  # instructions of a function


def run(function: Function, decisions: Decisions | None = None) -> bool:
    """Say which kernels of `function` compute several rows at a time; whether there are any."""
    if sum(len(block.instructions) for block in function.blocks) > LONG or not _has_shifts(function):
        return False
    decisions, changed = decisions or Decisions(), False
    for block in function.blocks:
        for first, *others in kernels(block.instructions):
            axis = _axis([first, *others], decisions) if not {"jam", "tile"} & first.attrs.keys() else None
            if axis is None:
                continue
            rows, least = decisions.take("unroll_and_jam.rows", ROWS, (2, 8, 1)), _least(decisions)
            if rows > 1:
                first.attrs = {**first.attrs, "jam": rows, "along": axis, "least": least}
                changed = True
    return changed


def _least(decisions: Decisions) -> int:
    """From how many elements of a row, or plane, on."""
    return decisions.take("unroll_and_jam.least", WIDE, (256,))


def _has_shifts(function: Function) -> bool:
    """Whether there may be an array of two axes that is read at several places."""
    sections = [i.operands[0] for i in function.instructions() if i.op is OPS["section"] and i.type.rank > 1]  # type: ignore[attr-defined]
    return len(set(sections)) < len(sections)


def _axis(kernel: list[Instruction], decisions: Decisions) -> int | None:
    """The axis of the rows that a kernel is to compute together; None where that is not worth the code."""
    if any(i.op is not OPS["store"] or not may_be_joined(i) for i in kernel):
        return None
    axes = _outer_axes(kernel[0].operands[1])
    if not axes or all(is_linear(*_stored(i)) for i in kernel):
        return None
    trees = [elementwise(i.operands[0], may_stretch=True) for i in kernel]
    steps = list(dict.fromkeys(v for tree in trees for v in tree or ()))
    if None in trees or len(steps) > 2 * MOST_STEPS or any(map(is_function, steps)):
        return None
    axis = next((k for k in axes if _reads_rows_again(steps, k)), None)
    if axis is None:
        return None
    size = _size(kernel[0].operands[1], axis)
    if size is not None and size < _least(decisions):
        return None
    if len(steps) > MOST_STEPS and not decisions.take("unroll_and_jam.many", 0, (1,)):
        return None
    return axis


def _stored(store: Instruction) -> tuple[Value, str, tuple[int | None, ...]]:
    value, to = store.operands
    assert isinstance(to.type, PointerType)
    return value, to.type.layout, to.type.shape


def _outer_axes(destination: Value) -> list[int]:
    """The axes of the loops around the innermost one over an array, outermost first."""
    type = destination.type
    assert isinstance(type, PointerType) and isinstance(type.pointee, TensorType)
    order = _order(type)
    if type.rank < 2 or type.shape[order[-1]] == 1:
        return []
    return [k for k in order if type.shape[k] != 1][:-1]


def _size(destination: Value, axis: int) -> int | None:
    """How many elements an array has at one index of an axis and of those before it, where that is known."""
    type = destination.type
    assert isinstance(type, PointerType)
    order = _order(type)
    extents = [type.shape[k] for k in order[order.index(axis) + 1 :]]
    return None if None in extents else math.prod(extents)  # type: ignore[arg-type]


def _order(type: PointerType) -> range:
    """Axes, the one whose elements lie side by side last."""
    return range(type.rank)[:: -1 if type.layout == "F" else 1]


def _reads_rows_again(steps: list[Instruction], axis: int) -> bool:
    """Whether some array is read at several places of an axis."""
    found: dict[Value, set[object]] = {}
    for load in steps:
        section = load.operands[0] if load.op is OPS["load"] else None
        if not isinstance(section, Instruction) or section.op is not OPS["section"] or load.type.shape[axis] == 1:  # type: ignore[attr-defined]
            continue
        start = section_parts(section)[0][axis]
        place = start.value if isinstance(start, Literal) else start
        found.setdefault(section.operands[0], set()).add(place)
    return any(len(places) > 1 for places in found.values())
