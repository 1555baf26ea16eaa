"""Builtins become the ops that they stand for.

    %0.0 = builtin "mean"(%x: <4 x f32>) -> f32     =>      %0.0 = reduce %x: <4 x f32> by add init 0.0: f32 along 0
                                                            %0.1 = unitCount of %x: <4 x f32>
                                                            %0.2 = dataTypeCast %0.1: i64 to f32
                                                            %0.3 = divide %0.0: f32, %0.2: f32

The table is ir/ops/intrinsics.py. Calls of extern functions of C's math library are ops too, those of ir/externs.py.
Before differentiation and before memory; raw and optimizable stages.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Builder, Expr, Function, Instruction, Module, Op, Value
from dlvm_py.ir.externs import known
from dlvm_py.ir.ops.intrinsics import INTRINSICS
from dlvm_py.transforms.substitution import substitute


def run(function: Function, module: Module) -> bool:
    """Expand the builtins and the known extern calls of `function`, which is of `module`; whether there were any."""
    changed = False
    for i in function.instructions():
        op = _extern(i, module)
        if op is not None:
            i.op, i.attrs, changed = op, {}, True
    return _builtins(function) or changed


def _extern(i: Instruction, module: Module) -> Op | None:
    callee = module.functions.get(i.attrs["callee"]) if i.op is OPS["apply"] else None
    # one with derivatives of its own stays a call until they have been taken
    return known(callee) if callee is not None and not callee.rules else None


def _builtins(function: Function) -> bool:
    found: dict[Value, Value] = {}
    for i in [i for i in function.instructions() if i.op is OPS["builtin"]]:
        b = Builder(function).before(i)
        b.loc = i.loc
        operands = [b.expr(found.get(v, v)) for v in i.operands]
        result = INTRINSICS[i.attrs["intrinsic"]].build(*operands)
        assert isinstance(result, Expr) and i.block is not None
        if isinstance(result.value, Instruction):
            result.value.name = result.value.name or i.name
        found[i] = result.value
        i.block.instructions.remove(i)
    substitute(function.blocks, found)
    return bool(found)
