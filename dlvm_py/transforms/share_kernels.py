"""Kernel sharing: says from how much work on threads share a kernel, or a loop whose trips are independent.

    %0 = load %x: *<_ x f64>                          (as before)
    store %0: <_ x f64> to %p: *<_ x f64>       =>    store %0: <_ x f64> to %p: *<_ x f64> grain 1000000
    parallel %n cost %c if %safe private ()           parallel %n cost %c if %safe private () grain 1000000

`grain 1000000` at the first root of a kernel: threads share it where all of its elements are so much work, in tenths of
nanoseconds by the model of ir/analysis/cost.py, which is asked at run time; from a part of it on, those that are awake
(dlvm_py/grain.py). At a `parallel` (share_loops.py): where its cost is that. What has no grain one thread runs. What is
there already stays. How a kernel is cut is the back end's (backend/cpu/share.py): no bit of a result depends on it.

Marked are stores of arrays and reductions of arrays to a number; not those that are known to have too little work, nor
what is one loop and stands in loops of the program: perhaps a short one, of another length each time. Products and
factorizations are code that all programs have in common, whose grain is the usual one. What runs in an order of its
own, a scan or a sort, has none. Stage scheduled, or compute; a second run finds nothing.
"""

from __future__ import annotations

import math

from dlvm_py.decisions import NEVER, Decisions
from dlvm_py.grain import BRIEF, GRAIN
from dlvm_py.ir import Function, Instruction, TensorType, Value, is_array
from dlvm_py.ir.analysis.cost import STREAM, element_cost
from dlvm_py.ir.analysis.counted_loops import is_outside
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.tree_rules import UNDER_STORE, is_standing, kernels, tree_values

LEAST = GRAIN // (4 * BRIEF)  # what has less work is never shared, whatever is decided
_FILLED = ("scatterAdd", "overlapAdd")  # of which zeroing the memory is what threads share
_OF_TREES = ("reduce", "unbroadcast", "shapeCast")


def run(function: Function, decisions: Decisions | None = None) -> bool:
    """Say which kernels and loops of `function` threads share; whether there are any."""
    decisions, changed, forest = decisions or Decisions(), False, None
    for block in function.blocks:
        for kernel in kernels(block.instructions):
            first = kernel[0]
            if "grain" in first.attrs or first.op.name not in ("store", "reduce", "parallel"):
                continue
            forest = forest or LoopForest(function)
            grain = _grain(kernel, forest.loop_of(block), decisions)
            if grain is not None:
                first.attrs = {**first.attrs, "grain": grain}
                changed = True
    return changed


def _grain(kernel: list[Instruction], loop: Loop | None, decisions: Decisions) -> int | None:
    """The work from which on threads share a kernel, or the loop that is marked; None where they never do."""
    first = kernel[0]
    work: int | None = None
    if first.op.name != "parallel":
        if is_standing(first):
            return GRAIN
        if not is_array(first.operands[0].type) or not _may_pay(kernel, loop):
            return None
        work = _work(kernel)
    if work is not None and work < LEAST:
        return None
    grain = decisions.take("threads.grain", GRAIN, (NEVER, GRAIN // 4, 4 * GRAIN))
    return None if work is not None and work < grain // BRIEF else grain


def _may_pay(kernel: list[Instruction], loop: Loop | None) -> bool:
    """Whether a kernel may be cut at all, and is no single loop that is short, or is run again and again."""
    first = kernel[0]
    value = first.operands[0]
    assert isinstance(value, Instruction) and isinstance(value.type, TensorType)
    if first.op.name == "store":
        if value.op.name in UNDER_STORE and value.op.name not in (*_OF_TREES, *_FILLED):
            return False
        if value.op.name == "reduce":
            return True
        if sum(n != 1 for n in value.type.shape) < 2 and any(i.op.name == "embed" for i in tree_values(value)):
            return False  # a row with borders is not cut
    elif len(kernel) == 1 and not _has_any_order(first):
        return False
    if value.type.rank > 1 or loop is None:
        return True
    return loop.depth == 1 and _is_fixed(first.operands[1] if first.op.name == "store" else value, loop)


def _has_any_order(reduce: Instruction) -> bool:
    """Whether the parts of a reduction to a number may be reduced apart.

    The largest of unsigned numbers is what checks of index arrays ask for, often, and not worth the code.
    """
    by, dtype = reduce.attrs["by"], reduce.type.dtype  # type: ignore[attr-defined]
    if dtype.is_inexact:
        return by == "add" or (by in ("max", "min") and dtype.is_float)
    return by != "max" or dtype.kind != "u"


def _is_fixed(value: Value, loop: Loop) -> bool:
    """Whether the length of a vector is the same in all trips of a loop."""
    found = known_extent(value, 0)
    return is_outside(found[0] if isinstance(found, tuple) else found, loop)


def _work(kernel: list[Instruction]) -> int | None:
    """The work of a kernel, where its extents are known."""
    first = kernel[0]
    value = first.operands[0]
    assert isinstance(value, Instruction) and isinstance(value.type, TensorType)
    if first.op.name == "store" and value.op.name in _FILLED:
        return _times(value.type.shape, max(1, STREAM * value.type.dtype.itemsize // 8))
    roots = [i.operands[0] for i in kernel]
    if first.op.name == "store" and value.op.name in _OF_TREES:
        roots = [value.operands[0]]
    if not is_array(roots[0].type):
        return None
    return _times(roots[0].type.shape, sum(map(element_cost, roots)))  # type: ignore[attr-defined]


def _times(shape: tuple[int | None, ...], cost: int) -> int | None:
    return None if None in shape else math.prod(shape) * cost  # type: ignore[arg-type]
