"""Calls of pure functions whose result nobody uses are removed: what dead code elimination cannot see alone.

    %0.0 = apply @f(%x: f32) -> f32                      =>      return %x: f32
    return %x: f32

What a call can do says ir/analysis/side_effects.py: the callee ends whatever its arguments (no loops, no recursion),
writes no memory of its caller, and raises nothing, nor does anything that it calls.
"""

from __future__ import annotations

from dlvm_py.ir import Function, Kind, Module
from dlvm_py.ir.analysis import side_effects, uses
from dlvm_py.ir.analysis.cache import of_module
from dlvm_py.transforms import dce


def run(module: Module, name: str) -> bool:
    """Remove the dead code of function `name` of `module`, dead calls with it; whether anything changed.

    As in DLVM, block arguments stay (simplify_cfg drops those that nothing reads).
    """
    function = module.functions[name]
    changed = dce.run(function, keep_arguments=True)
    while _drop(module, function):
        changed = True
        dce.run(function, keep_arguments=True)
    return changed


def _drop(module: Module, function: Function) -> bool:
    used = uses(function)
    known = of_module(side_effects, module)
    dropped = False
    for block in function.blocks:
        dead = [i for i in block.instructions if i.op.kind is Kind.CALL and not used.get(i)]
        gone = {i for i in dead if i.attrs["callee"] in known and known[i.attrs["callee"]].may_be_left_out}
        block.instructions = [i for i in block.instructions if i not in gone]
        dropped |= bool(gone)
    return dropped
