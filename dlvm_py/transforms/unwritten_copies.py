"""Unwritten copies: a copy of an argument, of which neither is written afterwards, is the argument.

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
behind that store; both lie in the same layout. After dead_store. Stages raw and optimizable; a second run changes
nothing.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Function, Instruction, Value, is_array
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.transforms.substitution import substitute
from dlvm_py.transforms.value_promotion import family_of, single_store


def run(function: Function, noalias_params: bool = True) -> bool:
    """Replace such copies in `function`; whether there were any."""
    params = set(function.params)
    copies = [i for i in function.instructions() if i.op is OPS["store"] and _is_copy(i, params)]
    if not copies:
        return False
    users = uses(function)
    dominators = of_graph(DominatorTree, function)
    replaced: dict[Value, Value] = {}
    for copy in copies:
        value, memory = copy.operands
        assert isinstance(value, Instruction) and isinstance(memory, Instruction)
        family = family_of(memory, users)
        looks = [i for i in family if i.op.name in ("load", "extent")]
        if single_store(memory, family) is copy and all(dominators.instruction_dominates(copy, i) for i in looks):
            replaced[memory] = value.operands[0]
    if not replaced:
        return False
    alias = AliasAnalysis(function, noalias_params)
    written = {function.params[k] for k in alias.written_params()}
    replaced = {m: p for m, p in replaced.items() if p not in written and not alias.is_shared}
    gone = {*replaced, *(i for i in copies if i.operands[1] in replaced)}
    for block in {i.block for i in gone if isinstance(i, Instruction)}:
        assert block is not None
        block.instructions = [i for i in block.instructions if i not in gone]
    substitute(function.blocks, replaced)
    return bool(replaced)


def _is_copy(store: Instruction, params: set[Value]) -> bool:
    """Whether all of a parameter is stored to memory of the function, in the layout of the parameter."""
    value, memory = store.operands
    if not isinstance(memory, Instruction) or memory.op is not OPS["allocateHeap"] or not is_array(value.type):
        return False
    is_load = isinstance(value, Instruction) and value.op is OPS["load"]
    return is_load and value.operands[0] in params and value.operands[0].type == memory.type  # type: ignore[attr-defined]
