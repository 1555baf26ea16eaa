"""Sibling stores: elementwise kernels over the same elements become one kernel of a device. Stage compute.

    %0 = load %x: *<_ x f64>                          %0 = load %x: *<_ x f64>
    %1 = exp %0: <_ x f64>                            %1 = exp %0: <_ x f64>
    store %1: <_ x f64> to %t: *<_ x f64>             %2 = sin %0: <_ x f64>
    %2 = load %x: *<_ x f64>                     =>   %4 = multiply %1: <_ x f64>, %2: <_ x f64>
    %3 = sin %2: <_ x f64>                            store %4: <_ x f64> to %p: *<_ x f64>
    %4 = load %t: *<_ x f64>                          %5 = cos %0: <_ x f64>
    %5 = multiply %4: <_ x f64>, %3: <_ x f64>        %6 = multiply %1: <_ x f64>, %5: <_ x f64>
    store %5: <_ x f64> to %p: *<_ x f64>             store %6: <_ x f64> to %q: *<_ x f64> joined
    ...

Adjoint code is a kernel for each derivative. Each of them is a launch, reads the same arrays, and computes again what
others have computed. `sibling_fusion` says when kernels may be one and when that pays. Here it is of stores alone:
a reduction's threads go over elements in another way, and products have kernels of their own. And it is of blocks that
are in no loop: a loop may be a grid, whose threads write one element after the other. A thread has registers for more
functions than a core has, as their coefficients are read from the code.

Keeps every bit. Cost: as sibling_fusion.
"""

from __future__ import annotations

from dlvm_py.decisions import Decisions
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.function import Function
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.tree_rules import may_be_joined
from dlvm_py.ir.value import Instruction
from dlvm_py.transforms.sibling_fusion import join, members

FUNCTIONS = 8  # like exp or sin


def run(function: Function, noalias_params: bool = True) -> bool:
    """Join the stores of `function`; whether any were."""
    forest = LoopForest(function)
    blocks = [b for b in function.blocks if forest.loop_of(b) is None]
    return join(function, blocks, _is_candidate, FUNCTIONS, noalias_params, Decisions())


def _is_candidate(i: Instruction) -> bool:
    return i.op is OPS["store"] and may_be_joined(i) and not any(v.op is OPS["embed"] for v in members(i.operands[0]))
