"""Merged stores: where each way of a branch stores to the same place, the ways choose a value, which is stored once.

        conditional %same then 'then() else 'else()          %d = load (elementPointer %t at %i, %j)
    'then():                                                 %u = load (elementPointer %t at %i, %j1)
        %d = load (elementPointer %t at %i, %j)              conditional %same then 'then() else 'join(%u)
        %d1 = add %d, 1                                  'then():
        store %d1 to (elementPointer %t at %i1, %j1)         %d1 = add %d, 1
        branch 'join()                              =>       branch 'join(%d1)
    'else():                                             'join(%v):
        %u = load (elementPointer %t at %i, %j1)             store %v to (elementPointer %t at %i1, %j1)
        store %u to (elementPointer %t at %i1, %j1)          ...
        branch 'join()
    'join(): ...

What the next trip reads of this one is then one value, whichever way was taken (skew_loops.py hands it on in a
register), and what is left of the ways may be done both (backend/cpu/choices.py).

Each way ends with the store: behind it come pure steps alone. The place is the same if it is an element of the same
array at the same indices, which are there where the ways meet, or are computed alike from what is. Where two ways begin
at one branch and do nothing else that is seen, what they load is loaded before the branch, if the indices are sure to
be in range there (ir/analysis/bounds.py), and if it is not more than LOADS. In loops only: elsewhere nothing is gained.
Stages raw and optimizable, behind proven_checks.py.
"""

from __future__ import annotations

from dlvm_py.ir import (
    OPS,
    Block,
    BlockArg,
    Function,
    Instruction,
    PointerType,
    Value,
    is_scalar,
)
from dlvm_py.ir.analysis.bounds import Bounds, Place
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.value import integer

LOADS = 6
STEPS = 3  # of an index that each way computes


def run(function: Function) -> bool:
    """Merge the stores of the ways of branches in loops of `function`; whether there were any."""
    if not any(i.op is OPS["store"] for i in function.instructions()):
        return False
    forest = LoopForest(function)
    inside = {b for loop in forest.loops for b in loop.blocks}
    if not inside:
        return False
    edges, tree = predecessors(function), DominatorTree(function)
    merged: list[list[Block]] = []
    for block in function.blocks:
        ways = [b for b, _ in edges[block]]
        if block not in inside or len(ways) < 2 or any(len(b.targets) != 1 for b in ways):
            continue
        if any(b not in tree.idom or tree.dominates(block, b) for b in ways):
            continue
        while (stores := _same_place(ways, block, tree)) is not None:
            _merge(block, ways, stores, tree)
            merged.append(ways)
    for ways in merged:
        _load_before(function, ways, edges)
    return bool(merged)


def _same_place(ways: list[Block], join: Block, tree: DominatorTree) -> list[Instruction] | None:
    """The stores with which the ways end, if they are to one place."""
    stores = [_last_store(b) for b in ways]
    first = stores[0]
    if first is None:
        return None
    place = _place(first)
    found: list[Instruction] = []
    for store in stores:
        if store is None or store.operands[0].type != first.operands[0].type:
            return None
        other = _place(store)
        if len(other) != len(place) or not all(_are_same(v, w, join, tree) for v, w in zip(place, other, strict=True)):
            return None
        found.append(store)
    return found


def _last_store(block: Block) -> Instruction | None:
    """The store of a scalar to an element behind which nothing is read, written or asked."""
    for i in reversed(block.instructions[:-1]):
        if i.op is OPS["store"]:
            pointer = i.operands[1]
            is_element = isinstance(pointer, Instruction) and pointer.op is OPS["elementPointer"]
            plain = is_element and not pointer.attrs and not i.attrs  # type: ignore[attr-defined]
            return i if plain and is_scalar(i.operands[0].type) else None
        if not is_pure(i):
            return None
    return None


def _place(store: Instruction) -> list[Value]:
    return store.operands[1].operands  # type: ignore[attr-defined]


def _is_there(v: Value, block: Block, tree: DominatorTree) -> bool:
    if not isinstance(v, BlockArg | Instruction):
        return True
    return v.block is not None and v.block is not block and tree.dominates(v.block, block)


def _are_same(a: Value, b: Value, join: Block, tree: DominatorTree, depth: int = STEPS) -> bool:
    """Whether two values are one where the ways meet: there already, or a sum and the like of what is."""
    n = integer(a)
    if n is not None or _is_there(a, join, tree):
        return a is b or (n is not None and n == integer(b))
    if not isinstance(a, Instruction) or not isinstance(b, Instruction) or not depth or not is_scalar(a.type):
        return False
    alike = a.op is b.op and a.attrs == b.attrs and len(a.operands) == len(b.operands) and is_pure(a)
    return alike and all(_are_same(v, w, join, tree, depth - 1) for v, w in zip(a.operands, b.operands, strict=True))


def _merge(join: Block, ways: list[Block], stores: list[Instruction], tree: DominatorTree) -> None:
    first = stores[0]
    value = join.add_arg(first.operands[0].type)
    made: list[Instruction] = []

    def there(v: Value) -> Value:
        if integer(v) is not None or _is_there(v, join, tree):
            return v
        assert isinstance(v, Instruction)
        made.append(Instruction(v.op, [there(o) for o in v.operands], dict(v.attrs), loc=v.loc))
        return made[-1]

    pointer = Instruction(OPS["elementPointer"], [there(v) for v in _place(first)], loc=first.loc)
    made += pointer, Instruction(OPS["store"], [value, pointer], loc=first.loc)
    for i in reversed(made):
        i.block = join
        join.instructions.insert(0, i)
    for way, old in zip(ways, stores, strict=True):
        way.instructions.remove(old)
        way.targets[0].args.append(old.operands[0])


# -- what is loaded before the branch ----------------------------------------------------------------------


def _load_before(function: Function, ways: list[Block], edges: dict[Block, list[tuple[Block, int]]]) -> None:
    """Move the loads of two ways in front of the branch between them."""
    sources = {s for b in ways for s, _ in edges[b]}
    if len(ways) != 2 or any(len(edges[b]) != 1 for b in ways) or len(sources) != 1:
        return
    (source,) = sources
    steps = [i for b in ways for i in b.instructions[:-1]]
    loads = [i for i in steps if i.op is OPS["load"]]
    if not loads or len(loads) > LOADS or not all(is_pure(i) or i in loads for i in steps):
        return
    bounds = Bounds(function)
    at = Place(source, len(source.instructions) - 1)
    if not all(is_scalar(i.type) and _is_in_range(i, bounds, at, function) for i in loads):
        return
    needed = set(loads)
    for i in reversed(steps):
        if i in needed:
            needed.update(o for o in i.operands if isinstance(o, Instruction) and o in steps)
    if not all(is_scalar(i.type) or isinstance(i.type, PointerType) for i in needed):
        return
    end = source.instructions.pop()
    for i in [*(i for i in steps if i in needed), end]:
        if i.block is not None and i.block is not source:
            i.block.instructions.remove(i)
        source.append(i)


def _is_in_range(load: Instruction, bounds: Bounds, at: Place, function: Function) -> bool:
    """Whether an element may be read at a place, where the indices are worth something."""
    pointer = load.operands[0]
    if not isinstance(pointer, Instruction) or pointer.op is not OPS["elementPointer"] or pointer.attrs:
        return False
    if pointer.block is not at.block and load.block is not pointer.block:
        # the address is made in any case before the branch: so its element is in range, as of every elementPointer that
        # runs (the interpreter insists, and licm.py moves none that may not run)
        return True
    base, *indices = pointer.operands
    for axis, index in enumerate(indices):
        found = known_extent(base, axis)
        extent = found if isinstance(found, Value) else _extent(function, *found)
        if extent is None or not bounds.holds(None, index, 0, at) or not bounds.holds(index, extent, -1, at):
            return False
    return True


def _extent(function: Function, of: Value, axis: int) -> Value | None:
    """What asks for an extent in the first block."""
    for i in function.blocks[0].instructions:
        if i.op.name == "extent" and i.operands[0] is of and i.attrs["at"] == axis:
            return i
    return None
