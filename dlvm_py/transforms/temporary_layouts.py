"""Temporary layouts: what is computed from column-major arrays for products lies as they do.

    %t = transpose %x: *<_ x _ x f64>                   %t = transpose %x: *<_ x _ x f64>
    %a = allocateHeap f64 count (%n, %m)                %b = allocateHeap f64 count (%m, %n)
    %0 = load %t: *fortran <_ x _ x f64>                %a = transpose %b: *<_ x _ x f64>
    %1 = subtract %0, %mean                             %0 = load %t: *fortran <_ x _ x f64>
    store %1 to %a: *<_ x _ x f64>              =>      %1 = subtract %0, %mean
    %2 = load %a: *<_ x _ x f64>                        store %1 to %a: *fortran <_ x _ x f64>
    %3 = transpose %a                                   %2 = load %a: *fortran <_ x _ x f64>
    %4 = load %3: *fortran <_ x _ x f64>                %4 = load %b: *<_ x _ x f64>
    %5 = dot %2, %4                                     %5 = dot %2, %4

Fresh memory is row-major, so that an elementwise kernel over transposed arrays went along the rows of one and the
columns of the other: it read, or wrote, a cache line for an element. NumPy keeps the layout of the operands; so do
temporaries here, if

* all arrays that their elements are computed from are column-major, apart from those that are stretched;
* they are used in products only, as they are or transposed: BLAS reads both layouts alike (backend/cpu/matmul.py).
  What others see, results among them, stays row-major.

Stage compute. A second run changes nothing.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Function, Instruction, PointerType, TensorType, Value
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.tree_rules import kernels
from dlvm_py.transforms.kernel_versions import elementwise
from dlvm_py.transforms.substitution import substitute

Users = dict[Value, list[Instruction]]


def run(function: Function) -> bool:
    """Turn temporaries of `function`; whether there were any to turn."""
    turned = [kernel[0] for block in function.blocks for kernel in kernels(block.instructions) if _is_turned(kernel)]
    if not turned:
        return False
    users, replaced = uses(function), {}
    for store in turned:
        array = store.operands[1]
        assert isinstance(array, Instruction)
        if all(u is store or _is_for_products(u, users) for u in users[array]):
            replaced |= _turn(array, users)
    substitute(function.blocks, replaced)
    return bool(replaced)


def _is_turned(kernel: list[Instruction]) -> bool:
    """Whether a kernel writes a row-major temporary with two axes from column-major arrays."""
    store = kernel[0]
    if len(kernel) != 1 or store.op is not OPS["store"]:
        return False
    value, array = store.operands
    if not isinstance(array, Instruction) or array.op is not OPS["allocateHeap"] or array.type.rank != 2:  # type: ignore[attr-defined]
        return False
    members = elementwise(value) or []
    read = [v.operands[0].type for v in members if v.op is OPS["load"]]
    layouts = {p.layout for p in read if isinstance(p, PointerType) and 1 not in p.shape}
    return layouts == {"F"}


def _is_for_products(user: Instruction, users: Users) -> bool:
    """Whether a user of an array reads it for products, as it is or transposed."""
    if user.op is OPS["extent"]:
        return True
    if user.op is OPS["transpose"]:
        loads = all(u.op is OPS["load"] and _is_for_products(u, users) for u in users[user])
        return loads and tuple(user.attrs.get("axes") or (1, 0)) == (1, 0)
    return user.op is OPS["load"] and all(u.op is OPS["dot"] for u in users[user])


def _turn(array: Instruction, users: Users) -> dict[Value, Value]:
    """Make an array the transpose of a row-major one; what goes for what."""
    block, type = array.block, array.type
    assert block is not None and isinstance(type, PointerType) and isinstance(type.pointee, TensorType)
    made = Instruction(array.op, array.operands[::-1], dict(array.attrs), name=array.name, loc=array.loc)
    view = Instruction(OPS["transpose"], [made], {}, loc=array.loc)
    made.block = view.block = block
    at = block.instructions.index(array)
    views = {u for u in users[array] if u.op is OPS["transpose"]}
    block.instructions[at : at + 1] = [made, view]
    for other in {v.block for v in views}:
        assert other is not None
        other.instructions = [i for i in other.instructions if i not in views]
    return {array: view, **dict.fromkeys(views, made)}
