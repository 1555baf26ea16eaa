"""Array values that live across blocks go to memory, so that array adjoints are local to a block.

    'a(): %t = exp %x                                'a(): %t = exp %x
          branch 'b(%t)                         →          %t_slot = allocateHeap f64 count (extent %t at 0)
                                                           store %t to %t_slot
                                                           branch 'b(%t_slot)
    'b(%u: <_ x f64>): %y = multiply %u, 2.0         'b(%u: *<_ x f64>): %1 = load %u
                                                           %y = multiply %1, 2.0

The front end keeps array values within blocks; gradient code does not, so this matters for the second
derivative. The memory is written once and never again, hence may be shared along the edges.
"""

from __future__ import annotations

from dlvm_py.ir import Block, Builder, Function, Instruction, Literal, PointerType, Value, is_array, literal
from dlvm_py.ir.value import BlockArg


def demote(function: Function) -> None:
    """Rewrite `function` in place so that array values are used in their own block only."""
    slots: dict[Value, Value] = {}
    for block in function.blocks:
        for arg in block.args:
            if is_array(arg.type):
                arg.type = PointerType(arg.type)  # type: ignore[arg-type]
                slots[arg] = arg
    for value in _crossing(function):
        slots[value] = _spill(function, value)
    for block in function.blocks:
        _rewrite(function, block, slots)


def _crossing(function: Function) -> list[Instruction]:
    """Array-valued instructions used in other blocks or passed to them."""
    found: dict[Instruction, None] = {}
    for i in function.instructions():
        for o in i.operands:
            if isinstance(o, Instruction) and is_array(o.type) and o.block is not i.block:
                found[o] = None
        for t in i.targets:
            for o in t.args:
                if isinstance(o, Instruction) and is_array(o.type):
                    found[o] = None
    return list(found)


def _spill(function: Function, value: Instruction) -> Value:
    b = Builder(function).after(value)
    b.loc = value.loc
    extents = [
        b.emit("extent", value, at=k) if n is None else literal(n)
        for k, n in enumerate(value.type.shape)  # type: ignore[attr-defined]
    ]
    slot = b.emit("allocateHeap", *extents, name=value.name, dtype=value.type.dtype.name)  # type: ignore[attr-defined]
    b.emit("store", value, slot)
    return slot


def _rewrite(function: Function, block: Block, slots: dict[Value, Value]) -> None:
    loaded: dict[Value, Value] = {}
    b = Builder(function)
    for i in list(block.instructions):
        for k, o in enumerate(i.operands):
            if o in slots and (isinstance(o, BlockArg) or o.block is not block):  # type: ignore[attr-defined]
                if o not in loaded:
                    b.before(i).loc = i.loc
                    loaded[o] = b.emit("load", slots[o], name=o.name)
                i.operands[k] = loaded[o]
        for t in i.targets:
            t.args = [_passed(v, slots) for v in t.args]


def _passed(value: Value, slots: dict[Value, Value]) -> Value:
    if isinstance(value, Literal) and is_array(value.type):
        return Literal(PointerType(value.type), value.value)  # type: ignore[arg-type]
    return slots.get(value, value)
