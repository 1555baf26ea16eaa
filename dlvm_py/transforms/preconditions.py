"""What a function must have for a pass to find something in it: the passes' modules are not imported without.

Functions of scalars, and of single elements of arrays, do without a third of them. A question is cheap beside a pass.
"""

from __future__ import annotations

from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.function import Function
from dlvm_py.ir.types import PointerType, TensorType, is_array


def has_arrays(function: Function) -> bool:
    """Whether arrays are computed with as a whole: an instruction has one as its value or an operand."""
    return any(is_array(i.type) or any(is_array(v.type) for v in i.operands) for i in function.instructions())


def has_shared_work(function: Function) -> bool:
    """Whether there are kernels, or loops with independent trips, which threads may share."""
    return any(i.op.name == "parallel" for i in function.instructions()) or has_arrays(function)


def has_planes(function: Function) -> bool:
    """Whether there is memory of two axes or more: as an argument, made here, or come by in another way."""
    blocks = function.blocks
    return any(_is_plane(v.type) for b in blocks for values in (b.args, b.instructions) for v in values)


def _is_plane(type: object) -> bool:
    return isinstance(type, PointerType) and isinstance(type.pointee, TensorType) and type.pointee.rank > 1


def has_nests(function: Function) -> bool:
    """Whether a loop is in a loop."""
    return any(loop.children for loop in LoopForest(function).loops)
