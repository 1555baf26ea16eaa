"""Products of many matrices become a loop of products: what bufferize and the back ends know are ranks 1 and 2.

    %z = dot %x: <5 x 2 x 3 x f32>, %y: <5 x 3 x 4 x f32>      for k in 0 ... 4:
                                                        =>         %a = load (elementPointer of %x at %k)
                                                                   %b = load (elementPointer of %y at %k)
                                                                   store (dot %a, %b) to (elementPointer of %z at %k)

One loop for each axis in front of the last two. Raw and optimizable stages, with the other lowerings of values.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Builder, Function, Instruction, Value
from dlvm_py.transforms.loop_nests import at, close, expand, nest, stored


def run(function: Function) -> bool:
    """Lower the products of many matrices in `function`; whether there were any."""
    batches = [i for i in function.instructions() if i.op is OPS["dot"] and i.operands[0].type.rank > 2]  # type: ignore[attr-defined]
    return expand(function, batches, _loop)


def _loop(b: Builder, i: Instruction) -> Value:
    x, y = i.operands
    first, extents = stored(b, x)
    second, others = stored(b, y)
    batch = extents[:-2]
    result = b.emit("allocateHeap", *batch, extents[-2], others[-1], dtype=i.type.dtype.name)  # type: ignore[attr-defined]
    loops = nest(b, batch)
    places = [loop.index for loop in loops]
    a, c = (b.emit("load", at(b, memory, places)) for memory in (first, second))
    b.emit("store", b.emit("dot", a, c), at(b, result, places))
    close(loops)
    return b.emit("load", result)
