"""Temporary layouts: what is computed from column-major arrays lies as they do.

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
columns of the other: it read, or wrote, a cache line for an element. NumPy keeps the layout of the operands; so does
fresh memory here, if

* all arrays that its elements are computed from are column-major, or become so, apart from those that are stretched;
* it is used as a whole: in products, as it is or transposed, since BLAS reads both layouts alike
  (backend/cpu/matmul.py); in such kernels as this one; or as a result.

Results are turned where a function says that its callers take any layout, `!freelayout`, which the user's own functions
on the CPU do (driver.py), and their memory that it is of an array expression, `allocateHeap ... anyorder`: what
`np.empty` or `x.copy()` made is row-major in NumPy too. Derivatives are row-major by contract.

Stage compute. A second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm_py.ir import OPS, Function, Instruction, Kind, PointerType, TensorType, Value
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.function import FREE_LAYOUT
from dlvm_py.ir.ops.memory import ANY_ORDER
from dlvm_py.ir.tree_rules import kernels
from dlvm_py.transforms.kernel_versions import elementwise
from dlvm_py.transforms.substitution import substitute

Users = dict[Value, list[Instruction]]


def run(function: Function) -> bool:
    """Turn fresh memory of `function`; whether there was any to turn."""
    stores = (kernel[0] for b in function.blocks for kernel in kernels(b.instructions) if len(kernel) == 1)
    found = {store: read for store in stores if (read := _arrays_read(store)) is not None}
    if not found:
        return False
    users = uses(function)
    results = _results(function) if FREE_LAYOUT in function.attributes else {}
    while True:
        turned = {store.operands[1]: store for store in found}
        lost = [
            store
            for store, read in found.items()
            if any(p.type.layout != "F" and p not in turned for p in read)  # type: ignore[attr-defined]
            or not all(u is store or _may_be_turned(u, users, turned, results) for u in users[store.operands[1]])
            or not _agree(store.operands[1], results, turned)
            or (store.operands[1] in results and not store.operands[1].attrs.get(ANY_ORDER))  # type: ignore[attr-defined]
        ]
        if not lost:
            break
        for store in lost:
            del found[store]
    replaced: dict[Value, Value] = {}
    for array in turned:
        assert isinstance(array, Instruction)
        replaced |= _turn(array, users)
    substitute(function.blocks, replaced)
    _settle_results(function)
    return bool(replaced)


def _arrays_read(store: Instruction) -> list[Value] | None:
    """The arrays that decide on the layout of fresh memory that a kernel writes; None where there is none."""
    if store.op is not OPS["store"]:
        return None
    value, array = store.operands
    if not isinstance(array, Instruction) or array.op is not OPS["allocateHeap"]:
        return None
    if array.type.rank < 2 or 1 in array.type.shape:  # type: ignore[attr-defined]
        return None
    read = [v.operands[0] for v in elementwise(value, may_stretch=True) or [] if v.op is OPS["load"]]
    return [p for p in read if 1 not in p.type.shape] or None  # type: ignore[attr-defined]


Results = dict[Value, list[tuple[Value, ...]]]  # by array: what the returns have at the places where one has it


def _results(function: Function) -> Results:
    """The arrays that are results."""
    found = [(), *(tuple(_parts(i)) for i in function.instructions() if i.op is OPS["return"])][1:]
    places = list(zip(*found, strict=True))
    return {v: [place for place in places if v in place] for place in places for v in place}


def _parts(i: Instruction) -> list[Value]:
    """What a return gives, part by part."""
    (value,) = i.operands or [None]
    if value is None:
        return []
    return value.operands if isinstance(value, Instruction) and value.op is OPS["tuple"] else [value]


def _agree(array: Value, results: Results, turned: Iterable[Value]) -> bool:
    """Whether wherever an array is a result, all that may be so instead is turned as well."""
    return all(v in turned for place in results.get(array, ()) for v in place)


def _may_be_turned(user: Instruction, users: Users, turned: dict[Value, Instruction], results: Results) -> bool:
    """Whether a user of an array takes it column-major."""
    if user.op is OPS["extent"]:
        return True
    if user.op is OPS["transpose"]:
        loads = all(u.op is OPS["load"] and _is_for_products(u, users) for u in users[user])
        return loads and tuple(user.attrs.get("axes") or (1, 0)) == (1, 0)
    if user.op is OPS["tuple"]:
        return bool(results) and all(u.op is OPS["return"] for u in users[user])
    if user.op is OPS["return"]:
        return bool(results)
    return user.op is OPS["load"] and (_is_for_products(user, users) or _is_for_turned(user, users, turned))


def _is_for_products(load: Instruction, users: Users) -> bool:
    return all(u.op is OPS["dot"] for u in users[load])


def _is_for_turned(value: Instruction, users: Users, turned: dict[Value, Instruction]) -> bool:
    """Whether a value is part of nothing but kernels whose memory is turned."""
    return all(
        turned.get(u.operands[1]) is u
        if u.op is OPS["store"]
        else u.op.kind is Kind.ELEMENTWISE and _is_for_turned(u, users, turned)
        for u in users[value]
    )


def _settle_results(function: Function) -> None:
    """Give the function the type of what it returns by now."""
    for i in function.instructions():
        if i.op is OPS["return"] and i.operands:
            (value,) = i.operands
            if isinstance(value, Instruction) and value.op is OPS["tuple"]:
                value.type = value.op.result_type(value.operands, value.attrs)
            function.result = value.type


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
