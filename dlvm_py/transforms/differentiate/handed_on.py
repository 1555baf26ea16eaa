"""The adjoint memory of arrays that a loop makes anew in each trip for the next one: it is made in the reverse sweep.

    'loop(%k, %y, %y_shadow): …                           'loop(%k, %y): …
    'body: %t = allocateHeap …                            'body: %t = allocateHeap …
           %t_shadow = allocateHeap …; zero it                   …
           … push %t_shadow; push %y_shadow        →      'exit_adj: %last = allocateHeap …; zero it
           branch 'loop(%next, %t, %t_shadow)                       branch 'loop_adj(%last)
    'body_adj: %y_shadow = pop; %t_shadow = pop           'body_adj: %y_shadow = allocateHeap …; zero it
               …                                                     …
               branch 'loop_adj()                                    branch 'loop_adj(%y_shadow)
    'entry_adj: …                                         'entry_adj: %y0_shadow += %handed; …

Two of them live at a time, where the forward sweep filled one a trip, which lay on the tape until the reverse sweep
came. What the first trip was given has adjoint memory of its own, to which the last one made is added: that is what
it would have gathered, as nothing writes it from the loop on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlvm_py.frozen import Frozen
from dlvm_py.ir import Block, Builder, Instruction, Kind, Literal, Value
from dlvm_py.ir.analysis import uses
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.value import BlockArg
from dlvm_py.transforms.differentiate.ahead import Made, extent
from dlvm_py.transforms.differentiate.normal_form import leaving_edges
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.differentiate.reverse import Sweep
from dlvm_py.transforms.differentiate.shadows import zeros_like
from dlvm_py.transforms.ssa_repair import Variable, assignment

Users = Mapping[Value, list[Instruction]]


class Handed(Frozen):
    """Adjoint memory `made` in a trip, which is `taken` by the next one; `first`: what the first trip takes.

    fill: the store that clears it in the forward sweep. counts: its extents, as they are known before the loop.
    """

    loop: Loop
    made: Instruction
    taken: BlockArg
    first: Value
    fill: Instruction
    counts: list[Made]


def hand_on(
    primal: Primal, sweep: Sweep, reversed_by: Mapping[Block, Block]
) -> tuple[dict[Value, Variable], list[Instruction]]:
    """Make such memory in the reverse sweep. What stands for it there, and the stores of the forward sweep that go."""
    if primal.is_split or primal.is_detached:
        return {}, []
    users = uses(primal.function)
    known: dict[Value, Variable] = {}
    fills: list[Instruction] = []
    for loop in primal.loops():
        for found in _handed(primal, sweep, loop, users, reversed_by):
            known[found.taken] = Variable(found.taken.type, found.taken.name)
            known[found.made] = Variable(found.made.type, found.made.name)
            fills.append(found.fill)
            _make(primal, sweep, found, known)
    return known, fills


def _handed(
    primal: Primal, sweep: Sweep, loop: Loop, users: Users, reversed_by: Mapping[Block, Block]
) -> Iterator[Handed]:
    """The adjoint memory that the trips of a loop hand on, of a loop that runs once and ends at its head."""
    before, latch, header = primal.preheader(loop), primal.latch(loop), loop.header
    dominates = primal.dominators.dominates
    if loop.parent is not None or not dominates(before, primal.exit.block):
        return
    if {source for source, _ in leaving_edges(primal.function, loop, primal.exit.block)} != {header}:
        return
    made_by = {shadow: root for root, shadow in sweep.shadows.buffers.items()}
    roots = dict(zip(header.args, latch.targets[0].args, strict=True))
    firsts = dict(zip(header.args, before.targets[0].args, strict=True))
    for taken, made in roots.items():
        root = made_by.get(made)
        if not isinstance(made, Instruction) or made.op.name != "allocateHeap" or made.type != taken.type:
            continue
        pointer = next((p for p in header.args if roots[p] is root), None)
        if pointer is None or root is None or sweep.shadows.of(pointer) is not taken:
            continue
        if primal.loop_of(made.block) is not loop or made.block is header or not dominates(made.block, latch):  # type: ignore[arg-type]
            continue
        first = firsts[taken]
        if isinstance(first, Literal) or not _rests(primal, firsts[pointer], header):
            continue
        fill = _fill(made, users, reversed_by, loop, latch.instructions[-1])
        counts = [extent(primal, pointer, axis, before) for axis in range(len(made.operands))]
        if fill is None or None in counts or not _is_read_alone(taken, users, reversed_by):
            continue
        yield Handed(loop, made, taken, first, fill, counts)  # type: ignore[arg-type]


def _rests(primal: Primal, pointer: Value, header: Block) -> bool:
    """Whether nothing writes what `pointer` may refer to from `header` on."""
    roots = primal.points_to.roots(pointer)
    if roots & primal.handed:
        return False
    writes = (block for root in roots for block, _ in primal.writes.get(root, ()))
    return not any(primal.dominators.dominates(header, block) for block in writes)


def _fill(
    made: Instruction, users: Users, reversed_by: Mapping[Block, Block], loop: Loop, goes_on: Instruction
) -> Instruction | None:
    """The store that clears `made`; None if the forward sweep does more with it than to hand it on once."""
    fills: list[Instruction] = []
    handed = 0
    views: list[Value] = [made]
    for v in views:
        for user in users[v]:
            if user.block in reversed_by:
                if not loop.contains(reversed_by[user.block]):
                    return None
            elif user.op.kind is Kind.INDEX:
                views.append(user)
            elif v is made and user is goes_on:
                handed += 1
            elif v is made and user.op.name == "store" and user.operands[0] is not v and user.block is made.block:
                fills.append(user)
            elif user.op.name != "extent":
                return None
    return fills[0] if len(fills) == 1 and handed == 1 else None


def _is_read_alone(taken: BlockArg, users: Users, reversed_by: Mapping[Block, Block]) -> bool:
    """Whether the forward sweep only makes views of what a trip takes."""
    views: list[Value] = [taken]
    for v in views:
        for user in users[v]:
            if user.block not in reversed_by:
                if user.op.kind is Kind.INDEX:
                    views.append(user)
                elif user.op.name != "extent":
                    return False
    return True


def _make(primal: Primal, sweep: Sweep, found: Handed, known: Mapping[Value, Variable]) -> None:
    before = primal.preheader(found.loop)
    b = Builder(primal.function).before(before.instructions[-1])
    b.loc = found.made.loc
    counts = [count(b) for count in found.counts]
    taken, made = known[found.taken], known[found.made]
    for block in (primal.exit.block, primal.latch(found.loop)):
        b.block, b.position = sweep.blocks[block], 0
        if block is not primal.exit.block:
            b.insert(assignment(made, taken))
        fresh = b.emit("allocateHeap", *counts, name=found.taken.name, **found.made.attrs)
        b.emit("store", zeros_like(b, fresh), fresh)
        b.insert(assignment(taken, fresh))
    b.block, b.position = sweep.blocks[before], 0
    total = b.emit("add", b.emit("load", found.first), b.emit("load", taken))
    b.emit("store", total, found.first)
