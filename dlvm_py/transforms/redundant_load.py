"""Redundant load elimination: a load gives what the same memory was last seen to hold.

    'entry(%x: *<_ x f64>, %v: f64, %k: i64):       'entry(%x: *<_ x f64>, %v: f64, %k: i64):
        %e = elementPointer %x: ... at %k: i64          %e = elementPointer %x: ... at %k: i64
        store %v: f64 to %e: *f64           =>          store %v: f64 to %e: *f64
        %w = load %e: *f64                              %a = load %x: *<_ x f64>
        %a = load %x: *<_ x f64>                        %s = reduce %a: <_ x f64> by add ...
        %b = load %x: *<_ x f64>                        %t = reduce %a: <_ x f64> by max ...
        %s = reduce %a: <_ x f64> by add ...
        %t = reduce %b: <_ x f64> by max ...

The walk goes down the dominator tree and carries a list of (pointer, value) facts: "a load of the pointer
now gives this value". A load that hits a fact is replaced by its value. A load of a scalar or an array adds
a fact, a store of a scalar does too, and one of a scalar that is broadcast: of this, and of the memory of which it is a
view with all elements, every view gives that scalar, broadcast to the extents of the view. A store of what an array was
loaded as, to memory of the same layout, adds a fact as well, which ends where either is written: what is updated as a
whole behind its copy is made of the original, and the copy is a dead store. A store or scatter takes away the facts
about all memory that it may overlap, by the alias analysis; a call those about all memory that its arguments may refer
to. Two pointers mean the same memory when the alias analysis knows that they have the same elements.

A block inherits the facts of its predecessor if it has just one, so that no other path can have written in
between; anything else starts from nothing. Facts about array values end with the block. (Any other stored array
*value* is not forwarded here: that would compute it a second time, see value_promotion.py.)

What one number fills before a loop every trip finds as it was, where no trip before has written it:

    store (broadcast 0.0) to %s                     store (broadcast 0.0) to %s
    'loop(%k: i64): ...                         =>  'loop(%k: i64): ...
    'body():                                        'body():
        %r = elementPointer %s at %k                    %r = elementPointer %s at %k
        %a = load %r: *<_ x f64>                        %a = broadcast 0.0: f64 to (%n: i64)
        store (add %a, %v) to %r                        store (add %a, %v) to %r

So the rows of a shadow are stored, where they would be read, added to and written. The zeros of memory that is marked
as a shadow have no sign that a program gives, so that there 0.0 + x, which is not x where x is -0.0, is x.

`noalias_params` says whether array parameters are known not to overlap. Before bufferisation and ownership;
retain and release, if there are any, forget everything. A second run changes nothing.
"""

from __future__ import annotations

from dlvm_py.ir import (
    OPS,
    Block,
    Builder,
    Function,
    Instruction,
    Kind,
    Literal,
    PointerType,
    Value,
    is_array,
    is_scalar,
)
from dlvm_py.ir.analysis.alias import AliasAnalysis, is_opaque, whole
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import writes_memory, written_pointer
from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.ops.memory import SHADOW
from dlvm_py.transforms.literals import is_number, splat
from dlvm_py.transforms.substitution import substitute

Facts = list[tuple[Value, Value]]

# the facts of a block are searched one by one: enough for the bodies of loops, and linear in the program
_MAX_FACTS = 64


def run(function: Function, noalias_params: bool = True) -> bool:
    """Remove redundant loads of `function`; whether anything changed."""
    alias = AliasAnalysis(function, noalias_params)
    children = of_graph(DominatorTree, function).children
    edges = predecessors(function)
    loops = {loop.header: loop for loop in LoopForest(function).loops}
    replaced: dict[Value, Value] = {}
    found: list[tuple[Loop, Facts]] = []
    pending: list[tuple[Block, Facts]] = [(function.entry, [])]
    while pending:
        block, facts = pending.pop()
        for i in list(block.instructions):
            facts = _transfer(function, i, facts, alias, replaced)
        behind = [(p, number) for p, v in facts if (number := _beyond(v)) is not None]
        for child in children[block]:
            if len(edges[child]) == 1:
                pending.append((child, behind))
                continue
            fills = [(p, v) for p, v in behind if is_array(p.type.pointee)]  # type: ignore[attr-defined]
            if fills and child in loops and sum(not loops[child].contains(p) for p, _ in edges[child]) == 1:
                written = {p for p, _ in fills if _writes(loops[child], p, alias)}
                found.append((loops[child], [f for f in fills if f[0] in written]))
                fills = [f for f in fills if f[0] not in written]
            else:
                fills = []
            pending.append((child, fills))
    _put(function, replaced, alias)
    return _before_loops(function, found, alias, noalias_params) or bool(replaced)


def _put(function: Function, replaced: dict[Value, Value], alias: AliasAnalysis) -> None:
    """Let what loads are found to give stand in their place, and what is added to zeros of a shadow for the sum."""
    zeros = {i for i, v in replaced.items() if _is_zero(v) and _is_of_shadow(i.operands[0], alias)}  # type: ignore[attr-defined]
    for i in function.instructions() if zeros else ():
        if i.op is OPS["add"] and not zeros.isdisjoint(i.operands):
            x, y = i.operands
            added = y if x in zeros else x
            if added.type == i.type:
                replaced[i] = added
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i not in replaced]
    substitute(function.blocks, replaced)


def _is_zero(v: Value) -> bool:
    number = splat(v)
    return isinstance(number, Literal) and is_number(number) and number.value == 0


def _is_of_shadow(pointer: Value, alias: AliasAnalysis) -> bool:
    roots = alias.roots(pointer)
    return bool(roots) and all(isinstance(r, Instruction) and r.attrs.get(SHADOW) for r in roots)


def _beyond(v: Value) -> Value | None:
    """What other blocks may know of what memory holds: a scalar, of an array the literal that all elements are."""
    if not is_array(v.type):
        return v
    if isinstance(v, Instruction) and v.op is OPS["broadcast"] and isinstance(v.operands[0], Literal):
        return v.operands[0]
    return None


def _writes(loop: Loop, pointer: Value, alias: AliasAnalysis) -> bool:
    for i in (i for b in loop.ordered for i in b.instructions):
        is_store = written_pointer(i) is not None or i.op.name == "apply"
        if alias.may_write(i, pointer) or (writes_memory(i) and not is_store):
            return True
    return False


def _before_loops(
    function: Function, found: list[tuple[Loop, Facts]], alias: AliasAnalysis, noalias_params: bool
) -> bool:
    """Let loads give what a number has filled before their loop, where no trip before has written it."""
    loads = [
        (loop.header, i, facts) for loop, facts in found if facts
        for b in loop.ordered for i in b.instructions if i.op.name == "load" and _is_of(i, facts, alias)
    ]  # fmt: skip
    if not loads:
        return False
    of = Independence(function, noalias_params)
    innermost = {b: loop for loop in of.forest.loops for b in loop.ordered}
    replaced: dict[Value, Value] = {}
    for header, load, facts in loads:
        assert load.block is not None
        loop = innermost[load.block]
        if loop.header is header and of.reads_what_was(loop, load):
            value = _filled(function, load, facts, alias)
            if value is not None:
                replaced[load] = value
    _put(function, replaced, alias)
    return bool(replaced)


def _is_of(load: Instruction, facts: Facts, alias: AliasAnalysis) -> bool:
    """Whether a load is one by a view of what a fact is about."""
    (pointer,) = load.operands
    while isinstance(pointer, Instruction) and pointer.op.kind is Kind.INDEX:
        pointer = pointer.operands[0]
        if any(alias.same_elements(p, pointer) for p, _ in facts):
            return True
    return False


def _transfer(
    function: Function, i: Instruction, facts: Facts, alias: AliasAnalysis, replaced: dict[Value, Value]
) -> Facts:
    """The facts after `i`; a load that hits one is entered into `replaced`."""
    if i.op.name == "load":
        (pointer,) = i.operands
        known = (v for p, v in facts if v.type == i.type and alias.same_elements(p, pointer))
        value = next(known, None)
        if value is None:
            value = _filled(function, i, facts, alias)
            facts = [(pointer, i if value is None else value), *facts][:_MAX_FACTS]
        if value is None:
            return facts
        replaced[i] = value
        return facts
    if written_pointer(i) is not None:
        value, destination = (replaced.get(v, v) for v in i.operands[:2])
        facts = [f for f in facts if not any(alias.may_alias(p, destination) for p in _memory(*f))]
        assert isinstance(destination.type, PointerType)
        if i.op.name == "store" and (
            is_scalar(destination.type.pointee) or _is_uniform(value) or _is_copy(value, i, alias)
        ):
            # of what one number fills, it fills every other view
            filled = whole(destination) if is_array(value.type) and _is_uniform(value) else destination
            facts = [(filled, value), *facts][:_MAX_FACTS]
        return facts
    if i.op.name == "apply" and not alias.is_shared and all(_is_open(v) for v in i.operands):
        handed = [v for v in i.operands if isinstance(v.type, PointerType)]
        return [f for f in facts if not any(alias.may_alias(p, q) for p in _memory(*f) for q in handed)]
    return [] if writes_memory(i) else facts


def _memory(pointer: Value, value: Value) -> tuple[Value, ...]:
    """The memory of which a fact says something: of a copy what it was copied from as well."""
    if not is_array(value.type) or not isinstance(value, Instruction) or value.op.name != "load":
        return (pointer,)
    (source,) = value.operands
    return (pointer,) if source is pointer else (pointer, source)


def _is_copy(value: Value, store: Instruction, alias: AliasAnalysis) -> bool:
    """Whether a store copies an array of the same layout from memory that it does not write."""
    if not isinstance(value, Instruction) or value.op.name != "load" or value.block is not store.block:
        return False
    (source,), to = value.operands, store.operands[1]
    same = source.type.layout == to.type.layout and value.type == to.type.pointee  # type: ignore[attr-defined]
    return same and is_array(value.type) and not alias.may_alias(source, to)


def _is_uniform(v: Value) -> bool:
    """Whether all elements are one scalar: it costs nothing to make them again."""
    if isinstance(v, Literal):
        return is_number(v)
    return isinstance(v, Instruction) and v.op is OPS["broadcast"] and is_scalar(v.operands[0].type)


def _filled(function: Function, load: Instruction, facts: Facts, alias: AliasAnalysis) -> Value | None:
    """What a load gives of memory that one number fills, or by a view of it; None where there is no such."""
    (pointer,) = load.operands
    fills = [(p, v) for p, v in facts if is_array(p.type.pointee) and _is_uniform(v)]  # type: ignore[attr-defined]
    while fills:
        for memory, value in fills:
            if alias.same_elements(memory, pointer):
                number = value if isinstance(value, Literal) else value.operands[0]  # type: ignore[attr-defined]
                if is_scalar(load.type):
                    return number if number.type == load.type else None
                b = Builder(function).before(load)
                b.loc = load.loc
                made = b.emit("broadcast", number, *extents_of(b, load))
                return made if made.type == load.type else None
        # the part of a complex number is another number
        if not isinstance(pointer, Instruction) or pointer.op.kind is not Kind.INDEX or pointer.op is OPS["partView"]:
            return None
        pointer = pointer.operands[0]
    return None


def _is_open(v: Value) -> bool:
    """Whether the alias analysis sees what a call can reach by this operand."""
    return (is_scalar(v.type) or isinstance(v.type, PointerType)) and not is_opaque(v.type)
