"""Calls of pure functions whose result nobody uses are removed: what dead code elimination cannot see alone.

    %0.0 = apply @f(%x: f32) -> f32                      =>      return %x: f32
    return %x: f32

A function is pure if it ends whatever its arguments (no loops, no recursion), touches no memory of its caller, and
raises nothing; calls of pure functions are allowed in it. Then equal calls of one block are one call, too.
"""

from __future__ import annotations

from dlvm_py.ir import Function, Instruction, Kind, Module, PointerType, StackType, Value
from dlvm_py.ir.analysis import predecessors, reverse_postorder, uses
from dlvm_py.ir.analysis.effects import may_trap, writes_memory
from dlvm_py.ir.value import Variable
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
    dropped = False
    for block in function.blocks:
        kept = [i for i in block.instructions if not (_is_pure_call(module, i) and not used.get(i))]
        dropped |= len(kept) < len(block.instructions)
        block.instructions = kept
    return dropped


def _is_pure_call(module: Module, i: Instruction) -> bool:
    return i.op.kind is Kind.CALL and is_pure(module, i.attrs["callee"])


def is_pure(module: Module, name: str, above: tuple[str, ...] = ()) -> bool:
    """Whether a call of function `name` may be left out where its result is not used."""
    function = module.functions.get(name)
    if function is None or not function.blocks or name in above:
        return False
    number = {block: k for k, block in enumerate(reverse_postorder(function))}
    edges = predecessors(function)
    if any(number.get(p, -1) >= n for block, n in number.items() for p, _ in edges[block]):
        return False  # a loop
    for i in function.instructions():
        if i.op.kind is Kind.CALL:
            if not is_pure(module, i.attrs["callee"], (*above, name)):
                return False
        elif may_trap(i) or writes_memory(i) or any(map(_is_memory, (i, *i.operands))):
            return False
    return not any(map(_is_memory, function.params))


def _is_memory(v: Value) -> bool:
    return isinstance(v, Variable) or isinstance(v.type, PointerType | StackType)
