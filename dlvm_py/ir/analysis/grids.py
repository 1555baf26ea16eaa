"""Loops whose trips a grid of threads runs: a trip a thread, its inner loops and branches in the thread.

    for i in range(n):          independent trips of scalars, elements of arrays, branches and loops: `fits`
        s = 0.0
        for j in range(n):      in the thread
            s += f(x[i], x[j])
        out[i] = s

Those that `independence.py` finds, the outermost of a nest; where the next loop in it is the whole of its body, counts
the same in all trips and is independent too, the grid is that of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.effects import is_pure, may_trap, reads_memory
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.function import Block
from dlvm_py.ir.op import Kind
from dlvm_py.ir.types import is_array, is_scalar
from dlvm_py.ir.value import Instruction


@dataclass(frozen=True)
class Nest:
    """Loops that are one grid, the outermost first, and the checks of a trip."""

    loops: tuple[CountedLoop, ...]
    checks: tuple[Instruction, ...]


def nests(of: Independence) -> dict[Block, Nest]:
    """The loops that become grids, by their headers; none lies in another."""
    found: dict[Block, Nest] = {}

    def look(loops: Sequence[Loop]) -> None:
        for loop in loops:
            nest = _nest(of, loop)
            if nest is not None:
                found[loop.header] = nest
            else:
                look(loop.children)

    look(of.forest.top)
    return found


def _nest(of: Independence, loop: Loop) -> Nest | None:
    trips = of.of(loop)
    if not trips.independent or trips.counted is None or not fits(loop):
        return None
    if not all(i.op.name == "check" for i in trips.traps):
        return None
    counter = trips.counted.counter
    behind = (i for b in of.function.blocks if b not in loop.blocks for i in b.instructions)
    if any(v is counter for i in behind for v in i.all_operands()):
        return None
    loops = [trips.counted]
    while len(loops[-1].loop.children) == 1:
        inner = of.of(loops[-1].loop.children[0])
        if not inner.independent or inner.counted is None or not _is_whole_body(loops[-1], inner.counted):
            break
        if not all(is_outside(v, loop) for v in (inner.counted.first, inner.counted.last)):
            break
        loops.append(inner.counted)
    return Nest(tuple(loops), trips.traps)


def fits(loop: Loop) -> bool:
    """Whether a thread can run a trip: it is left at its head alone, and works on scalars and elements."""
    if any(block is not loop.header for block, _ in loop.exit_edges()) or len(loop.header.args) != 1:
        return False
    if not all(is_pure(i) and is_scalar(i.type) for i in loop.header.instructions[:-1]):
        return False
    if not all(is_scalar(a.type) for block in loop.ordered for a in block.args):
        return False
    return all(_fits(i) for block in loop.ordered for i in block.instructions)


def _fits(i: Instruction) -> bool:
    if any(is_array(v.type) for v in (i, *i.operands)):
        return False
    if i.op.kind is Kind.INDEX or i.op.name in ("load", "store", "check", "extent", "branch", "conditional"):
        return True
    return i.op.kind is Kind.ELEMENTWISE and is_pure(i)


def _is_whole_body(outer: CountedLoop, inner: CountedLoop) -> bool:
    """Whether a trip of `outer` is `inner`, and scalars before and behind it."""
    own = [b for b in outer.loop.ordered if b not in inner.loop.blocks]
    if len(inner.loop.header.args) != 1 or any(len(b.targets) != 1 for b in own if b is not outer.loop.header):
        return False
    return all(
        i.op.is_terminator or (is_pure(i) and not reads_memory(i) and not may_trap(i))
        for b in own
        for i in b.instructions
    )
