"""Tiling: kernels that read an array across the way they write go through both a tile at a time.

    %t = transpose %x: *<_ x _ x f64>                 (as before)
    %0 = load %t: *fortran <_ x _ x f64>         =>
    %1 = load %y: *<_ x _ x f64>
    %2 = add %0, %1                                   %2 = add %0, %1
    store %2 to %p: *<_ x _ x f64>                    store %2 to %p: *<_ x _ x f64> tile 64 along 0

    for i in range(n):                           for i0 in range(0, n, 64):
        for j in range(m):                           for j0 in range(0, m, 64):
            p[i, j] = x[j, i] + y[i, j]     =>           t[...] = x[j0 : j0 + 64, i0 : i0 + 64].T
                                                         for i in range(i0, min(i0 + 64, n)):
                                                             for j in range(j0, min(j0 + 64, m)):
                                                                 p[i, j] = t[i - i0, j - j0] + y[i, j]

A row of the result needs one element of each row of `x`: a line of memory an element, which is gone from the caches
when the next row of the result comes to use its neighbour. A tile uses all of the lines that it reads; turned in
registers (backend/cpu/tiles.py) its elements lie side by side for what computes with them, in the first cache, and that
vectorises as it does elsewhere. Elements have the steps that they have otherwise; those of a store are independent:
their order is free.

`tile 64 along 0` at the first store of a kernel: 64 indices of axis 0, and as many of the axis whose elements lie side
by side in the destination. What is read along axis 0 is turned. Where rows are faster, the back end takes these at run
time. What a kernel says already stays.

A kernel is chosen if it is elementwise over at least two axes and something that it reads has its neighbours along
another axis than all of what it writes; not where an extent is known to be small. Stage compute, at the end of the
pipeline: nothing behind it changes kernels, and `unroll_and_jam` leaves tiles alone.
"""

from __future__ import annotations

from dlvm_py.decisions import Decisions
from dlvm_py.ir import OPS, Function, Instruction, Literal, PointerType, Value
from dlvm_py.ir.analysis.places import section_parts
from dlvm_py.ir.tree_rules import kernels, may_be_joined
from dlvm_py.transforms.kernel_versions import elementwise

SIDE = 64
LEAST = 16  # indices of an axis: below, the lines that are read stay in the first cache until they are used up

VIEWS = ("section", "transpose", "padShape", "squeezeShape")


def run(function: Function, decisions: Decisions | None = None) -> bool:
    """Say which kernels of `function` go by tiles; whether there are any."""
    decisions, changed = decisions or Decisions(), False
    for block in function.blocks:
        for kernel in kernels(block.instructions):
            axis = _axis(kernel) if not {"jam", "tile"} & kernel[0].attrs.keys() else None
            if axis is None:
                continue
            side = decisions.take("tile_loops.side", SIDE, (32, 16, 1))
            if side > 1:
                kernel[0].attrs = {**kernel[0].attrs, "tile": side, "along": axis}
                changed = True
    return changed


def _axis(kernel: list[Instruction]) -> int | None:
    """The axis along which what a kernel reads is to be turned; None where there is nothing to turn."""
    if any(i.op is not OPS["store"] or not may_be_joined(i) for i in kernel):
        return None
    inner = {neighbours(i.operands[1]) for i in kernel}
    # the innermost loop is along the layout of what is written
    if len(inner) != 1 or inner != {innermost(i.operands[1]) for i in kernel}:
        return None
    trees = [elementwise(i.operands[0], may_stretch=True) for i in kernel]
    if None in trees:
        return None
    (along,) = inner
    if along is None or kernel[0].operands[1].type.rank < 2:  # type: ignore[attr-defined]
        return None
    found: dict[int, int] = {}
    for load in dict.fromkeys(v for tree in trees for v in tree or () if v.op is OPS["load"]):
        axis = neighbours(load.operands[0])
        shape = load.type.shape  # type: ignore[attr-defined]
        if axis is not None and axis != along and shape[axis] != 1 and shape[along] != 1:
            found[axis] = found.get(axis, 0) + 1
    shape = kernel[0].operands[1].type.shape  # type: ignore[attr-defined]
    axis = max(found, key=lambda k: found[k], default=None)
    if axis is None or any(n is not None and n < LEAST for n in (shape[axis], shape[along])):
        return None
    return axis


def innermost(pointer: Value) -> int | None:
    """The axis of the innermost loop of a kernel that writes by a pointer."""
    type = pointer.type
    assert isinstance(type, PointerType)
    axes = [k for k in range(type.rank) if type.shape[k] != 1]
    return None if not axes else axes[0 if type.layout == "F" else -1]


def neighbours(pointer: Value) -> int | None:
    """The axis along which the elements of an array lie side by side, as far as its type and its views say."""
    type = pointer.type
    assert isinstance(type, PointerType)
    if type.layout != "S":
        return innermost(pointer)
    if not isinstance(pointer, Instruction) or pointer.op.name not in (
        "section",
        "transpose",
        "padShape",
        "squeezeShape",
    ):
        return None
    axis = neighbours(pointer.operands[0])
    if axis is None:
        return None
    match pointer.op.name:
        case "section":
            step = section_parts(pointer)[2][axis]
            return axis if isinstance(step, Literal) and step.value == 1 else None
        case "transpose":
            return list(pointer.attrs.get("axes", range(type.rank)[::-1])).index(axis)
        case "padShape":
            return axis + (axis >= pointer.attrs["at"])
    return axis - (axis > pointer.attrs["at"]) if axis != pointer.attrs["at"] else None
