"""Value promotion: an array that is written once and read in place is the value that was written.

    %n = extent %x: *<_ x f64> at 0                 %n = extent %x: *<_ x f64> at 0
    %v = load %x: *<_ x f64>                        %v = load %x: *<_ x f64>
    %y = multiply %v: <_ x f64>, 2.0: f64   =>      %y = multiply %v: <_ x f64>, 2.0: f64
    %m = allocateHeap f64 count (%n: i64)           %s = reduce %y: <_ x f64> by add ...
    store %y: <_ x f64> to %m: *<_ x f64>
    %w = load %m: *<_ x f64>
    %s = reduce %w: <_ x f64> by add ...

The front end gives every name that is bound to an array expression memory of its own, because names can be
aliased and written. Where neither happens the memory only stands between an expression and its use.

Promoted is an `allocateHeap` with exactly one store to it, a whole one, whose other uses are loads, extents
and views that are loaded from. (No escape: not passed to a block, a call or a tape, not returned, not
retained.) Then

* a load of the array after the store in the same block is the stored value; a load of its transpose or of its
  padded or squeezed view is that op on the stored value. Loads elsewhere stay: array values do not cross
  borders of blocks;
* of rank 0, a load that the store dominates is the stored scalar, in any block. The last run of the store
  before the load stored the value that the scalar still has (no path from a definition to a use of a
  dominated place passes the definition again without passing what lies between);
* if nothing is left but the store, it and the allocation go.

The stored value and the loaded one must agree in type (a value may say more about its extents than the
allocation). Raw and optimizable stage. A second run changes nothing.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Function, Instruction, Value, is_scalar
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.transforms.substitution import substitute

_VALUE_VIEWS = frozenset({"transpose", "padShape", "squeezeShape"})
_VIEWS = _VALUE_VIEWS | {"pointerCast", "partView", "diagonal", "section", "shapeCast", "elementPointer"}

Users = dict[Value, list[Instruction]]


def run(function: Function) -> bool:
    """Promote single-store allocations of `function` to values; whether anything changed."""
    users = uses(function)
    dominators = of_graph(DominatorTree, function)
    replaced: dict[Value, Value] = {}
    removed: set[Value] = set()
    for allocation in [i for i in function.instructions() if i.op is OPS["allocateHeap"]]:
        family = family_of(allocation, users)
        store = single_store(allocation, family)
        if store is None:
            continue
        loads = [i for i in family if i.op is OPS["load"]]
        for load in loads:
            value = _loaded_value(load, allocation, store, dominators)
            if value is not None:
                replaced[load] = value
        if not any(i.op is OPS["extent"] for i in family) and all(i in replaced for i in loads):
            removed.update([allocation, *family])
    if not replaced and not removed:
        return False
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i not in replaced and i not in removed]
    substitute(function.blocks, replaced)
    return True


def family_of(allocation: Instruction, users: Users) -> list[Instruction]:
    """The users of an allocation and of its views."""
    family: list[Instruction] = []
    pending = [allocation]
    while pending:
        for user in users[pending.pop()]:
            family.append(user)
            if user.op.name in _VIEWS:
                pending.append(user)
    return family


def single_store(allocation: Instruction, family: list[Instruction]) -> Instruction | None:
    """The one store to an allocation that nothing else writes and that does not escape."""
    stores = [i for i in family if i.op is OPS["store"]]
    if len(stores) != 1 or uncast(stores[0].operands[1]) is not allocation:
        return None
    understood = _VIEWS | {"load", "store", "extent"}
    return stores[0] if all(i.op.name in understood for i in family) else None


def uncast(pointer: Value) -> Value:
    """Look through pointerCast, which changes the type and nothing else."""
    while isinstance(pointer, Instruction) and pointer.op is OPS["pointerCast"]:
        pointer = pointer.operands[0]
    return pointer


def _loaded_value(
    load: Instruction, allocation: Instruction, store: Instruction, dominators: DominatorTree
) -> Value | None:
    """The value that `load` gives, in terms of the stored one; None where that cannot be said."""
    if not dominators.instruction_dominates(store, load):
        return None
    value = store.operands[0]
    (pointer,) = load.operands
    if uncast(pointer) is allocation and is_scalar(load.type):
        return value
    if load.block is not store.block:
        return None
    views: list[Instruction] = []
    while pointer is not allocation:
        assert isinstance(pointer, Instruction)
        if pointer.op.name in _VALUE_VIEWS:
            views.append(pointer)
        elif pointer.op is not OPS["pointerCast"]:
            return None
        pointer = pointer.operands[0]
    made: list[Instruction] = []
    for view in reversed(views):
        value = Instruction(view.op, [value], dict(view.attrs), loc=load.loc)
        made.append(value)
    if value.type != load.type:
        return None
    block = load.block
    assert block is not None
    place = block.instructions.index(load)
    for view in made:
        view.block = block
    block.instructions[place:place] = made
    return value
