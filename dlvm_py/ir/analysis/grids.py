"""Loops whose trips a grid runs: a trip a thread, or a block of threads, its inner loops and branches in the kernel.

    for i in range(n):          a thread: scalars, elements of arrays, branches and loops
        s = 0.0
        for j in range(n):
            s += f(x[i], x[j])
        out[i] = s

    for i in range(n):          a block (`rows`): array expressions, their sums and products as well. What a trip
        e = np.exp(x[i])        writes before it reads it is private: each block has it for itself
        out[i] = e / e.sum()

    for i in range(n):          numbers that trips do nothing with but add to them are `sums`: of parts of the trips,
        total += f(x[i])        and then of these

Independent trips are those that `independence.py` finds, the outermost of a nest; where the next loop in it is the
whole of its body, counts the same in all trips and is independent too, the grid is that of both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from dlvm_py.frozen import Frozen
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure, may_trap, reads_memory
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.analysis.sums import Sum, sums
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.function import Block
from dlvm_py.ir.op import Kind
from dlvm_py.ir.types import is_array, is_scalar
from dlvm_py.ir.value import BlockArg, Instruction, Value

_Users = dict[Value, list[Instruction]]


class Nest(Frozen):
    """Loops that are one grid, the outermost first, and the checks of a trip.

    rows: whether a trip works on arrays, so that a block of threads runs it. private: allocations outside of the loops
    that each trip writes as a whole before it reads them, and that nobody else reads. sums: those of the outermost
    loop, by arguments of its head, each with the argument that it is of the innermost one.
    """

    loops: tuple[CountedLoop, ...]
    checks: tuple[Instruction, ...]
    rows: bool = False
    private: frozenset[Value] = frozenset()
    sums: tuple[tuple[BlockArg, BlockArg, Sum], ...] = ()


def nests(of: Independence) -> dict[Block, Nest]:
    """The loops that become grids, by their headers; none lies in another."""
    found: dict[Block, Nest] = {}
    if not of.forest.top:
        return found
    users = uses(of.function)

    def look(loops: Sequence[Loop]) -> None:
        for loop in loops:
            nest = _nest(of, users, loop)
            if nest is not None:
                found[loop.header] = nest
            else:
                look(loop.children)

    look(of.forest.top)
    return found


def _nest(of: Independence, users: _Users, loop: Loop) -> Nest | None:
    totals = sums(loop, users, of.edges)
    adds = {i for total in totals.values() for i in total.adds}
    rows = not fits(loop, adds)
    private = frozenset(_private(of, users, loop)) if rows else frozenset()
    trips = of.of(loop, private, totals.keys())
    if not trips.independent or trips.counted is None or rows and not fits(loop, adds, rows=True):
        return None
    checks = tuple(i for i in trips.traps if i not in adds)
    if not all(i.op.name == "check" for i in checks):
        return None
    loops, carried = [trips.counted], list(totals)
    while len(loops[-1].loop.children) == 1:
        child = loops[-1].loop.children[0]
        within = sums(child, users, of.edges) if carried else {}
        inner = of.of(child, private, within.keys())
        if not inner.independent or inner.counted is None or not _is_whole_body(loops[-1], inner.counted, within):
            break
        if not private <= frozenset(_private(of, users, child)):
            break
        if not all(is_outside(v, loop) for v in (inner.counted.first, inner.counted.last)):
            break
        handed = [_handed(of, loops[-1].loop, child, v) for v in carried]
        if any(v is None for v in handed) or {v for v in handed if v is not None} != within.keys():
            break
        loops.append(inner.counted)
        carried = [v for v in handed if v is not None]
    heads = {c.loop.header for c in loops}
    if any(total.most is not None and not total.heads <= heads for total in totals.values()):
        return None  # how often a trip adds is not known
    together = zip(totals, carried, totals.values(), strict=True)
    return Nest(tuple(loops), checks, rows, private, tuple(together))


def _handed(of: Independence, outer: Loop, inner: Loop, total: BlockArg) -> BlockArg | None:
    """What a sum is in the head of an inner loop, where only that adds to it."""
    (latch,) = outer.latches
    at = outer.header.args.index(total)
    found = next(t for t in latch.targets if t.block is outer.header).args[at]
    if not isinstance(found, BlockArg) or found.block is not inner.header:
        return None
    at = inner.header.args.index(found)
    entering = (b.targets[k].args[at] for b, k in of.edges[inner.header] if b not in inner.blocks)
    return found if all(v is total for v in entering) else None


def _private(of: Independence, users: _Users, loop: Loop) -> Iterator[Value]:
    """The allocations before a loop that only its trips use, each of which writes all elements before it reads any."""
    dominators = of_graph(DominatorTree, of.function)
    for i in of.function.instructions():
        if i.op.name != "allocateHeap" or i.block in loop.blocks:
            continue
        inside = [user for user in users[i] if user.op.name != "release"]
        if not inside or not all(user.block in loop.blocks for user in inside):
            continue
        stores = [u for u in inside if u.op.name == "store" and u.operands[1] is i]
        whole = [u for u in stores if isinstance(u.operands[0], Instruction)]
        if any(all(u is w or dominators.instruction_dominates(w, u) for u in inside) for w in whole):
            yield i


def fits(loop: Loop, adds: Collection[Instruction], rows: bool = False) -> bool:
    """Whether a thread, or (rows) a block of threads, can run a trip: it is left at its head alone.

    adds: what adds to sums, which cannot raise.
    """
    if loop.exiting_block is not loop.header:
        return False
    if not all(is_pure(i) and is_scalar(i.type) for i in loop.header.instructions[:-1]):
        return False
    if not all(is_scalar(a.type) for block in loop.ordered for a in block.args):
        return False
    return all(i in adds or _fits(i) or rows and _fits_row(i) for b in loop.ordered for i in b.instructions)


def _fits(i: Instruction) -> bool:
    if any(is_array(v.type) for v in (i, *i.operands)):
        return False
    if i.op.kind is Kind.INDEX or i.op.name in ("load", "store", "check", "extent", "branch", "conditional"):
        return True
    return i.op.kind is Kind.ELEMENTWISE and is_pure(i)


def _fits_row(i: Instruction) -> bool:
    """Whether a block of threads can compute what has arrays in it: trees, their sums, and products."""
    name = i.op.name
    if name == "store":
        value = i.operands[0]
        return isinstance(value, Instruction) and (_is_tree(value) or value.op.name in _ROOTS)
    if name == "dot" and i.type.rank > 2:  # type: ignore[attr-defined]
        return False
    if is_array(i.type):
        # products and reductions stand under a store alone
        return _is_tree(i) or i.op.name in _ROOTS
    return name in _ROOTS and all(map(_is_leaf, i.operands)) or name == "extent" and _is_leaf(i.operands[0])


# what stands in a tree beside elementwise ops, and what is computed of trees
_INTERIOR = frozenset(("transpose", "padShape", "squeezeShape", "broadcast", "embed", "gather", "load", "iota"))
_ROOTS = ("reduce", "dot")


def _is_tree(i: Instruction) -> bool:
    inside = i.op.name in _INTERIOR or i.op.kind is Kind.ELEMENTWISE and is_pure(i)
    return inside and all(map(_is_leaf, i.operands))


def _is_leaf(v: Value) -> bool:
    """Whether a value may stand in a tree: no product or reduction that is an array."""
    return not is_array(v.type) or not isinstance(v, Instruction) or v.op.name not in _ROOTS


def _is_whole_body(outer: CountedLoop, inner: CountedLoop, sums: Collection[Value]) -> bool:
    """Whether a trip of `outer` is `inner`, which carries `sums`, and scalars before and behind it."""
    own = [b for b in outer.loop.ordered if b not in inner.loop.blocks]
    if len(inner.loop.header.args) != 1 + len(sums):
        return False
    if any(len(b.targets) != 1 for b in own if b is not outer.loop.header):
        return False
    return all(
        i.op.is_terminator or (is_pure(i) and not reads_memory(i) and not may_trap(i))
        for b in own
        for i in b.instructions
    )
