"""Ownership: `retain` and `release` by liveness, so that every buffer is freed once, as early as possible.
Stage compute → scheduled.

    before                                         after
    'loop(%u: *<_ x f64>, %v: *<_ x f64>, ..):     'loop(%u: *<_ x f64>, %v: *<_ x f64>, ..):
        conditional .. then 'body() else 'end()        conditional .. then 'body() else 'end()
    'body():                                       'body():
        %t = allocateHeap f64 count (%n)               %t = allocateHeap f64 count (%n)
        store .. to %t                                 store .. to %t
        %x = load %t                                   %x = load %t
        store %x to %v                                 store %x to %v
                                                       release %t
        branch 'loop(%v, %u, ..)                       branch 'loop(%v, %u, ..)           both are moved on
    'end():                                        'end():
                                                       release %v
        return %u                                      return %u

Words: an *owner* is a value that holds one reference: a pointer that comes from `allocateHeap`, `pop`, `drain` or
`apply`, or is an argument of a block other than the entry. Parameters are borrowed; views borrow from the
owner under them, and array values from the owners of all their loads: a tree reads its loads at its root.

1. Shape: edges of a conditional that carry pointers get a block of their own, so that only unconditional
   branches pass references; a tuple that a call gives is taken apart right behind the call.
2. An owner is live where it or a borrower has a use ahead. Block by block, backwards: a pointer that is
   passed on (branch argument, push, return, tuple) hands its owner's reference over if that has no use ahead,
   else it is retained first. A use with none ahead is followed by `release`, and so is a definition without
   any use.
3. What is live out of a conditional but not into one of its successors is released on that edge.

Error paths release nothing: the entry frees whatever an error leaves. Needs: stage compute; runs once. Linear
in the size of the function and of its live sets.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm_py.errors import PassError
from dlvm_py.ir.analysis import liveness, predecessors, reverse_postorder, uses
from dlvm_py.ir.builder import Builder
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.tree_rules import kernels
from dlvm_py.ir.types import PointerType, TupleType, is_array
from dlvm_py.ir.value import Instruction, Literal, Target, Value

OWNING = frozenset({"allocateHeap", "pop", "drain", "apply", "extract"})

_Owners = dict[Value, tuple[Value, ...]]  # in order: the result must not depend on addresses


def run(function: Function) -> bool:
    """Place all retains and releases of `function`; whether there were any to place."""
    _take_tuples_apart(function)
    _split_carrying_edges(function)
    order = reverse_postorder(function)
    owners = _owners(function, order)
    live_in, live_out = liveness(function)
    needed = {block: set(_borrowed(live_in[block], owners)) for block in order}
    changed = False
    for block in order:
        changed |= _place(block, set(_borrowed(live_out[block], owners)), owners)
    return _release_on_edges(function, order, needed) or changed


# -- 1. shape ----------------------------------------------------------------------------------------


def _take_tuples_apart(function: Function) -> None:
    """One `extract` of each pointer right behind the call (or pop) of a tuple; none of tuples built here."""
    users = uses(function)
    replaced: dict[Value, Value] = {}
    for block in function.blocks:
        if any(isinstance(arg.type, TupleType) for arg in block.args):
            raise PassError(f"ownership of @{function.name}: block {block!r} has a tuple as an argument")
        body: list[Instruction] = []
        for i in block.instructions:
            source = i.operands[0] if i.op.name == "extract" else None
            if i in replaced:
                continue
            if isinstance(source, Instruction) and source.op.name == "tuple":
                replaced[i] = source.operands[i.attrs["at"]]
                continue
            if i.op.name == "tuple" and all(u.op.name == "extract" for u in users[i]):
                continue  # nobody is left to take over the references that a tuple takes from its elements
            body.append(i)
            if i.op.name in ("apply", "pop") and isinstance(i.type, TupleType):
                for at, t in enumerate(i.type.elements):
                    if isinstance(t, PointerType):
                        first = Instruction(OPS["extract"], [i], {"at": at}, loc=i.loc)
                        body.append(first)
                        extracts = (u for u in users[i] if u.op.name == "extract" and u.attrs["at"] == at)
                        replaced.update(dict.fromkeys(extracts, first))
        block.instructions = []
        for i in body:
            block.append(i)
    function.substitute(replaced)


def _split_carrying_edges(function: Function) -> None:
    """Give every edge of a conditional that passes pointers a block of its own."""
    for block in list(function.blocks):
        if len(block.targets) > 1:
            for index, target in enumerate(block.targets):
                if any(isinstance(v.type, PointerType) for v in target.args):
                    _split(function, block, index)


def _split(function: Function, block: Block, index: int) -> Block:
    """Put a new block on an edge; it passes the edge's arguments on."""
    terminator = block.terminator
    assert terminator is not None
    target = terminator.targets[index]
    middle = function.new_block(after=block)
    Builder(function, middle).branch(target.block, target.args)
    terminator.targets[index] = Target(middle)
    return middle


# -- 2. inside blocks --------------------------------------------------------------------------------


def _owners(function: Function, order: list[Block]) -> _Owners:
    """The owners that a value is, or borrows from. Scalars, parameters and stacks have none."""
    owners: _Owners = {}
    for block in order:
        for arg in block.args:
            if isinstance(arg.type, PointerType) and block is not function.entry:
                owners[arg] = (arg,)
        for i in block.instructions:
            if isinstance(i.type, PointerType) and i.op.name in OWNING:
                owners[i] = (i,)
            elif isinstance(i.type, PointerType) or is_array(i.type):
                owners[i] = tuple(_borrowed(i.operands, owners))
    return owners


def _borrowed(values: Iterable[Value], owners: _Owners) -> dict[Value, None]:
    """All owners of some values, each once, in order."""
    return dict.fromkeys(owner for v in values for owner in owners.get(v, ()))


def _place(block: Block, live: set[Value], owners: _Owners) -> bool:
    """Insert retains and releases; `live` are the owners that are live out of the block, and is used up."""
    rest: list[Instruction] = []  # the new instructions, last one first
    before = len(block.instructions)
    # what a kernel of several roots uses it uses up to its last one
    used_by = {k[-1]: [v for i in k for v in i.all_operands()] for k in kernels(block.instructions) if len(k) > 1}
    for i in reversed(block.instructions):
        operands = used_by.get(i) or i.all_operands()
        moved: set[Value] = set()
        retains: list[Instruction] = []
        for v in _handed_over(i):
            mine = owners.get(v, ())
            # a view is counted at its owner, so it can take the owner's reference with it
            if mine and mine[0] not in live and mine[0] not in moved:
                moved.add(mine[0])
            else:
                retains.append(_count("retain", v, i))
        # what a raise shows is read when it runs, and an error frees all
        used = _borrowed(operands, owners) if i.op.name != "raise" else []
        releases = [_count("release", o, i) for o in used if o not in live and o not in moved]
        if owners.get(i) == (i,) and i not in live:
            releases.insert(0, _count("release", i, i))
        following = [*retains, *releases, i] if i.op.is_terminator else [*retains, i, *releases]
        rest.extend(reversed(following))
        live.update(used)
        live.discard(i)
    unused = [a for a in block.args if a in owners and a not in live]
    rest.extend(_count("release", a, None) for a in reversed(unused))
    block.instructions = []
    for i in reversed(rest):
        block.append(i)
    return len(rest) > before


def _handed_over(i: Instruction) -> list[Value]:
    """The pointers of which `i` takes one reference each, once an occurrence."""
    if i.op.name in ("push", "return", "tuple", "makeCell"):
        values = i.operands[:1] if i.op.name == "push" else i.operands
    elif i.op.name == "branch":
        values = i.targets[0].args
    else:
        return []
    return [v for v in values if isinstance(v.type, PointerType) and not isinstance(v, Literal)]


def _count(op: str, pointer: Value, near: Instruction | None) -> Instruction:
    return Instruction(OPS[op], [pointer], loc=near.loc if near is not None else None)


# -- 3. edges ----------------------------------------------------------------------------------------


def _release_on_edges(function: Function, order: list[Block], needed: dict[Block, set[Value]]) -> bool:
    """Release what is live out of a block, but not into the successor that control goes to."""
    number = {v: n for n, v in enumerate(v for b in order for v in (*b.args, *b.instructions))}
    incoming = predecessors(function)
    changed = False
    for block in order:
        out = set().union(*(needed[b] for b in block.successors()))
        for index, successor in enumerate(block.successors()):
            dead = sorted(out - needed[successor], key=number.__getitem__)
            last = successor.terminator
            if not dead or (last is not None and last.op.name == "raise"):
                continue
            changed = True
            place = successor if len(incoming[successor]) == 1 else _split(function, block, index)
            place.instructions[:0] = [_count("release", o, None) for o in dead]
            for i in place.instructions[: len(dead)]:
                i.block = place
    return changed
