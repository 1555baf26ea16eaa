"""A product of a matrix and its own transpose says so: one value, of which the other factor is the transpose.

    %t = transpose %p: *<m x k x f64>
    %x = load %p: *<m x k x f64>                    %x = load %p: *<m x k x f64>
    %y = load %t: *fortran <k x m x f64>    =>      %z = transpose %x: <m x k x f64>
    %c = dot %x: ..., %y: ...                       %c = dot %x: ..., %z: ...

The rule of `dot` then has one product for both factors, (s + sᵀ) x, where each by itself would have one of its own.
For matrices, where nothing is written between the two loads. Before every reverse sweep, on the copy of the function
that is made for it.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, Value
from dlvm_py.ir.analysis.effects import writes_memory


def run(function: Function) -> bool:
    """Say it of the products of `function`; whether there was any."""
    blocks = [b for b in function.blocks if any(i.op is OPS["dot"] for i in b.instructions)]
    return any([_run(function, block) for block in blocks])


def _run(function: Function, block: Block) -> bool:
    writes, changed = 0, False
    loaded: dict[Value, int] = {}  # how much had been written before each load
    for i in list(block.instructions):
        if i.op is OPS["load"]:
            loaded[i] = writes
        elif writes_memory(i):
            writes += 1
        elif i.op is OPS["dot"] and _are_transposes(i, loaded):
            b = Builder(function).before(i)
            b.loc = i.loc
            i.operands[1] = b.emit("transpose", i.operands[0])
            changed = True
    return changed


def _are_transposes(product: Instruction, loaded: dict[Value, int]) -> bool:
    x, y = product.operands
    if x not in loaded or loaded[x] != loaded.get(y):
        return False
    p, q = (_under_casts(v.operands[0]) for v in (x, y))  # type: ignore[attr-defined]
    return _is_transpose(p, q) or _is_transpose(q, p)


def _under_casts(p: Value) -> Value:
    """The pointer that a view of all of its elements, said to lie otherwise, is made of."""
    while isinstance(p, Instruction) and p.op.name == "pointerCast":
        of = p.operands[0]
        if of.type.pointee != p.type.pointee:  # type: ignore[attr-defined]
            break
        p = of
    return p


def _is_transpose(view: Value, of: Value) -> bool:
    is_view = isinstance(view, Instruction) and view.op is OPS["transpose"] and _under_casts(view.operands[0]) is of
    return is_view and view.type.rank == 2 and view.attrs.get("axes") in (None, (1, 0))  # type: ignore[attr-defined]
