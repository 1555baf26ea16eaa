"""Sums that the trips of a loop add up: numbers that it carries, and does nothing with but add to them.

    'loop(%k: i64, %total: f64):
        ...
        conditional %hit then 'yes() else 'join(%total)       %total: a sum, to which a trip adds %x, or nothing
    'yes():
        %more = add %total: f64, %x: f64
        branch 'join(%more)
    'join(%either: f64):
        branch 'loop(%next: i64, %either: f64)

What a trip leaves is what it found plus numbers that do not depend on it, so that each of several parts of the trips
may begin with nothing, and what they find is added. For floats that is another order, and so another rounding.

Sums of Python's ints raise where they leave 64 bits (`add ... checked`). Here they are those that grow by literals, at
most `most` a trip: whoever knows the number of trips knows whether they can.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlvm_py.frozen import Frozen
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.counted_loops import Edges
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.function import Block
from dlvm_py.ir.types import DType, is_scalar
from dlvm_py.ir.value import BlockArg, Instruction, Value, integer


class Sum(Frozen):
    """One sum of a loop.

    adds: what adds to it. checked: whether that may raise; most: by how much it grows in a trip then, a trip of the
    innermost of `heads`: the heads of inner loops that carry it as well.
    """

    dtype: DType
    adds: frozenset[Instruction]
    heads: frozenset[Block]
    most: int | None


def sums(loop: Loop, users: Mapping[Value, list[Instruction]], edges: Edges) -> dict[BlockArg, Sum]:
    """The sums among the arguments of the head of a loop, by these. edges: the predecessors of all blocks."""
    found = {}
    for argument in loop.header.args:
        if is_scalar(argument.type) and len(loop.latches) == 1:
            total = _sum(loop, argument, users, edges)
            if total is not None:
                found[argument] = total
    return found


def _sum(loop: Loop, argument: BlockArg, users: Mapping[Value, list[Instruction]], edges: Edges) -> Sum | None:
    dtype = argument.type.dtype  # type: ignore[attr-defined]
    if dtype.kind not in "iufc" or dtype.is_narrow:
        return None
    partial: dict[Value, None] = {argument: None}
    work: list[Value] = [argument]
    while work:
        v = work.pop()
        for user in users[v]:
            if user.block not in loop.blocks:
                continue
            following = _passed(loop, argument, v, user) if user.op.is_terminator else _added(v, user)
            if following is None:
                return None
            work += (f for f in following if f not in partial)
            partial |= dict.fromkeys(following)
    adds = [v for v in partial if isinstance(v, Instruction)]
    if not adds or any(sum(o in partial for o in i.operands) != 1 for i in adds):
        return None
    for v in partial:
        if isinstance(v, BlockArg):
            at = v.block.args.index(v)
            sources = loop.latches if v is argument else [b for b, _ in edges[v.block]]
            if any(t.args[at] not in partial for b in sources for t in b.targets if t.block is v.block):
                return None
    heads = frozenset(v.block for v in partial if isinstance(v, BlockArg) and v.block in _heads(loop))
    checked = [i for i in adds if i.attrs.get("checked")]
    numbers = [integer(o) for i in checked for o in i.operands if o not in partial]
    if any(n is None for n in numbers):
        return None
    most = sum(abs(n) for n in numbers if n is not None) if checked else None
    return Sum(dtype, frozenset(adds), heads, most)


def accumulations(loop: Loop, users: Mapping[Value, list[Instruction]], alias: AliasAnalysis) -> set[Instruction]:
    """The loads and stores of a loop that do nothing but add to an element: `store (add (load %p), %x) to %p`.

    Nothing else is written there in between, so that two of them may change places, but for the rounding.
    """
    found: set[Instruction] = set()
    for block in loop.ordered:
        for at, store in enumerate(block.instructions):
            total = store.operands[0] if store.op.name == "store" and not store.attrs else None
            if not isinstance(total, Instruction) or total.block is not block or users[total] != [store]:
                continue
            for load in total.operands:
                if (
                    isinstance(load, Instruction)
                    and load.op.name == "load"
                    and load.operands[0] is store.operands[1]
                    and load.block is block
                    and users[load] == [total]
                    and _added(load, total) is not None
                    and not total.attrs.get("checked")
                ):
                    between = block.instructions[block.instructions.index(load) : at]
                    if not any(alias.may_write(i, load.operands[0]) for i in between):
                        found |= {load, store}
    return found


def _heads(loop: Loop) -> set[Block]:
    """The heads of the loops in a loop."""
    found = set()
    for child in loop.children:
        found |= {child.header, *_heads(child)}
    return found


def _passed(loop: Loop, argument: BlockArg, v: Value, i: Instruction) -> list[Value] | None:
    """The block arguments that a terminator passes a partial sum to; None where it does something else with it."""
    if any(o is v for o in i.operands):
        return None
    found: list[Value] = []
    for target in i.targets:
        for a, passed in zip(target.block.args, target.args, strict=True):
            if passed is not v:
                continue
            if target.block is loop.header:
                if a is not argument:
                    return None
            elif target.block in loop.blocks:
                found.append(a)
            elif v is not argument:
                return None
    return found


def _added(v: Value, i: Instruction) -> list[Value] | None:
    """The partial sum that an instruction makes of one; None where it makes something else."""
    is_sum = i.op.name == "add" or i.op.name == "subtract" and i.operands[0] is v
    return [i] if is_sum and is_scalar(i.type) else None
