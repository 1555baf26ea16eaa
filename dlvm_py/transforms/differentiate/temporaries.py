"""The adjoint memory of temporaries: what only the reverse of a block, or of a trip of a loop, uses is made there.

    'body: %t = allocateHeap …                     'body: %t = allocateHeap …
           %t_shadow = allocateHeap …; zero it
           … push %t_shadow                →       'body_adj: %t_shadow = allocateHeap …; zero it
    'body_adj: %t_shadow = pop; …                             …

So none is kept from one sweep to the other, one is enough for all trips (hoist_buffers), and what is added to it in a
block is gathered (gather_sums), as its zeros are seen.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlvm_py.frozen import Frozen
from dlvm_py.ir import Block, Instruction, Kind, Value
from dlvm_py.ir.analysis import uses
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.transforms.differentiate.ahead import Made, extent
from dlvm_py.transforms.differentiate.normal_form import leaving_edges
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.differentiate.reverse import Sweep

Fills = dict[Value, Instruction]


class OfTrip(Frozen):
    """Adjoint memory that each trip of a loop has: the store that fills it, which goes; how it is made in the reverse.

    last: the block whose reverse begins that of a trip. counts: its extents, as they are known at the end of `before`.
    """

    fill: Instruction
    last: Block
    before: Block
    counts: list[Made]


def temporaries(primal: Primal, sweep: Sweep, reversed_by: Mapping[Block, Block]) -> tuple[Fills, dict[Value, OfTrip]]:
    """The adjoint memory that is made in the reverse sweep.

    First that which only the reverse of its own block uses, and what fills it in the forward sweep; then that which
    only a trip of its loop uses. reversed_by: of blocks of the reverse sweep the blocks that they reverse.
    """
    users = uses(primal.function)
    of_block: Fills = {}
    of_trip: dict[Value, OfTrip] = {}
    for buffer in sweep.shadows.buffers.values():
        if not isinstance(buffer, Instruction) or buffer.block not in sweep.blocks:
            continue
        loop = primal.loop_of(buffer.block)
        if loop is None:
            continue  # it is made once
        found = _filled_for(buffer, users, reversed_by)
        if found is None:
            continue
        fill, used_in = found
        if used_in <= {buffer.block}:
            of_block[buffer] = fill
            continue
        if not primal.is_split and all(map(loop.contains, used_in)):
            trip = _of_trip(primal, buffer, fill, loop)
            if trip is not None:
                of_trip[buffer] = trip
    return of_block, of_trip


def _of_trip(primal: Primal, buffer: Instruction, fill: Instruction, loop: Loop) -> OfTrip | None:
    """Where and how large the memory of a trip of `loop` is made, if every trip that goes on comes past `buffer`."""
    latch = primal.latch(loop)
    sources = {source for source, _ in leaving_edges(primal.function, loop, primal.exit.block)}
    assert buffer.block is not None
    if sources != {loop.header} or buffer.block is loop.header:
        return None
    before = primal.preheader(loop.outermost)
    dominates = primal.dominators.dominates
    if not dominates(buffer.block, latch) or not dominates(before, primal.exit.block):
        return None
    counts = [extent(primal, buffer, axis, before) for axis in range(len(buffer.operands))]
    return OfTrip(fill, latch, before, counts) if None not in counts else None  # type: ignore[arg-type]


def _filled_for(
    buffer: Instruction, users: Mapping[Value, list[Instruction]], reversed_by: Mapping[Block, Block]
) -> tuple[Instruction, set[Block]] | None:
    """What fills `buffer`, and the blocks whose reverse uses it; None if the forward sweep does more with it."""
    stores: list[Instruction] = []
    used_in: set[Block] = set()
    views: list[Value] = [buffer]
    for v in views:
        for user in users[v]:
            if user.block in reversed_by:
                used_in.add(reversed_by[user.block])
            elif user.op.kind is Kind.INDEX:
                views.append(user)
            elif user.op.name == "store" and user.operands[0] is not v and user.block is buffer.block:
                stores.append(user)
            elif user.op.name != "extent":
                return None
    return (stores[0], used_in) if len(stores) == 1 else None
