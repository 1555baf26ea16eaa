"""Reshaped stores: a value that is only stored in another shape is stored as it is, to the reshaped memory.

    %z = dot %x: ..., %y: <_ x 96 x f64>                      %w = shapeCast %p: ... to (%n: i64, 96: i64)
    %v = shapeCast %z: ... to (%n: i64, 12: i64, 8: i64)  =>  %z = dot %x: ..., %y: <_ x 96 x f64>
    store %v: <_ x 12 x 8 x f64> to %p: *<_ x 12 x 8 x f64>   store %z: <_ x 96 x f64> to %w: *<_ x 96 x f64>

Products, reductions and expressions are then written where they belong, as is what lies in another order (a.T.ravel());
a reshape under a store would be a copy of memory that holds the value first. For memory that is C-contiguous; what is
loaded from such memory stays, since its reshape is a view. Begins bufferize, after lower_shape. Keeps the order of what
is read and written.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Builder, Function, Instruction, PointerType, is_array
from dlvm_py.ir.analysis import uses
from dlvm_py.ir.analysis.extents import extents_of


def run(function: Function) -> bool:
    """Turn such stores of `function`; whether there were any."""
    stores = [
        i for i in function.instructions() if i.op is OPS["store"] and is_array(i.operands[0].type) and _is_reshaped(i)
    ]
    if not stores:
        return False
    users = uses(function)
    found = False
    for i in stores:
        while _is_reshaped(i):
            value, memory = i.operands
            assert isinstance(value, Instruction)
            source = value.operands[0]
            if (
                not isinstance(source, Instruction)
                or _is_view(source)
                or any(len(users[v]) > 1 for v in (value, source))
            ):
                break
            b = Builder(function).before(i)
            b.loc = i.loc
            i.operands = [source, b.emit("shapeCast", memory, *extents_of(b, source))]
            assert value.block is not None
            value.block.instructions.remove(value)
            found = True
    return found


def _is_reshaped(store: Instruction) -> bool:
    value, memory = store.operands
    assert isinstance(memory.type, PointerType)
    return isinstance(value, Instruction) and value.op is OPS["shapeCast"] and memory.type.layout == "C"


def _is_view(value: Instruction) -> bool:
    """Whether a reshape of this value is one of the memory that it is loaded from."""
    pointer = value.operands[0].type if value.op is OPS["load"] else None
    return isinstance(pointer, PointerType) and pointer.layout == "C"
