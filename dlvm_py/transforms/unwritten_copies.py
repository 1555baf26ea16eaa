"""Unwritten copies: a copy that is not written afterwards is what it was made of, if that is not written either.

    %n = extent %x: *<_ x f64> at 0                 'loop(%k: i64): ...
    %m = allocateHeap f64 count (%n: i64)               %e = elementPointer %x: *<_ x f64> at %k: i64
    %v = load %x: *<_ x f64>                 =>         %w = load %e: *f64
    store %v: <_ x f64> to %m: *<_ x f64>
    'loop(%k: i64): ...
        %e = elementPointer %m: *<_ x f64> at %k: i64
        %w = load %e: *f64

A gradient keeps what its function overwrites in copies of the arguments; where what would be written is not needed,
dead_store.py takes the stores away, and nothing is left of the copy but that it is read. For memory that the function
allocates, with one store, of all of a parameter that nothing in the function writes, and else loads, extents and views
behind that store; both lie in the same layout.

Of two such copies of one value, one is enough. A step that begins with `un = u.copy()` has a gradient that keeps u as
well, in a place of a tape that nobody else writes: it is read there, and un is gone.

    %p = elementPointer %tape at %k                     %p = elementPointer %tape at %k
    store %v: <_ x f64> to %p: *<_ x f64>               store %v: <_ x f64> to %p: *<_ x f64>
    store %v: <_ x f64> to %m: *<_ x f64>        =>     %w = load %p: *<_ x f64>
    %w = load %m: *<_ x f64>

Both stores stand in one block, and all uses of the copy behind them. So each use finds what the last run of both
stored: no path from there comes by the block again, which would have stored anew, in both.

After dead_store. Stages raw and optimizable; a second run changes nothing.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Block, Function, Instruction, Value, is_array
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import writes_memory
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.transforms.substitution import substitute
from dlvm_py.transforms.value_promotion import family_of, single_store


def run(function: Function, noalias_params: bool = True) -> bool:
    """Replace such copies in `function`; whether there were any."""
    params = set(function.params)
    copies = [i for i in function.instructions() if i.op is OPS["store"] and _fills_memory(i)]
    twins = _twins(function, copies)
    copies = [i for i in copies if i in twins or _is_of_parameter(i, params)]
    alias = AliasAnalysis(function, noalias_params) if copies else None
    if alias is None or alias.is_shared:
        return False
    users = uses(function)
    dominators = of_graph(DominatorTree, function)
    written = {function.params[k] for k in alias.written_params()}
    writes = [i for i in function.instructions() if writes_memory(i)]

    def come_behind(some: list[Instruction], store: Instruction) -> bool:
        return all(dominators.instruction_dominates(store, i) for i in some)

    replaced: dict[Value, Value] = {}
    gone: set[Value] = set()
    for copy in copies:
        value, memory = copy.operands
        assert isinstance(value, Instruction) and isinstance(memory, Instruction)
        family = family_of(memory, users)
        looks = [i for i in family if i.op.name in ("load", "extent")]
        if single_store(memory, family) is not copy or not come_behind(looks, copy):
            continue
        if _is_of_parameter(copy, params) and value.operands[0] not in written:
            replaced[memory] = value.operands[0]
        else:
            used = [u for u in users[memory] if u is not copy]  # views, too: they begin with the place
            for twin in twins.get(copy, ()):
                others = [w for w in writes if w is not twin]
                if twin not in gone and come_behind(used, twin) and _is_kept(twin.operands[1], others, alias):
                    replaced[memory] = twin.operands[1]
                    break
        if memory in replaced:
            gone |= {copy, memory}
    for block in {i.block for i in gone if isinstance(i, Instruction)}:
        assert block is not None
        block.instructions = [i for i in block.instructions if i not in gone]
    substitute(function.blocks, replaced)
    return bool(replaced)


def _fills_memory(store: Instruction) -> bool:
    """Whether an array is stored to all of memory that the function allocates."""
    value, memory = store.operands
    is_fresh = isinstance(memory, Instruction) and memory.op is OPS["allocateHeap"]
    return is_fresh and isinstance(value, Instruction) and is_array(value.type)


def _is_of_parameter(store: Instruction, params: set[Value]) -> bool:
    """Whether what is stored is all of a parameter, in the layout of the parameter."""
    value, memory = store.operands
    is_load = isinstance(value, Instruction) and value.op is OPS["load"]
    return is_load and value.operands[0] in params and value.operands[0].type == memory.type  # type: ignore[attr-defined]


def _twins(function: Function, copies: list[Instruction]) -> dict[Instruction, list[Instruction]]:
    """For each of the copies that has some: other stores of the same value, in its block, to places of its layout."""
    stores: dict[tuple[Block | None, Value], list[Instruction]] = {}
    for i in function.instructions():
        if i.op is OPS["store"]:
            stores.setdefault((i.block, i.operands[0]), []).append(i)
    found = {}
    for copy in copies:
        same = [i for i in stores[copy.block, copy.operands[0]] if i.operands[1].type == copy.operands[1].type]
        if len(same) > 1:
            found[copy] = [i for i in same if i is not copy]
    return found


def _is_kept(place: Value, others: list[Instruction], alias: AliasAnalysis) -> bool:
    """Whether a place lies in memory of the function that none of the other writes reaches."""
    return alias.is_local(place) and not any(alias.may_write(w, place) for w in others)
