"""Sums of small numbers over all trips of loops, which no array is large enough to make overflow.

    'rows(%i: i64, %t: i64):                    %i goes to the first extent of %a
    'columns(%j: i64, %s: i64):                 %j to the second
        %d = abs (subtract %x: i64, %y: i64)    of bytes: 0 to 255
        %u = add %s: i64, %d: i64 checked   =>  %u = add %s: i64, %d: i64

What a sum can become is what it begins with and, for every place that adds to it, the largest number that is added
there (ranges.py) times the trips of the loops around it that hand the sum on. Loops that count to extents of one array,
each of another axis, make no more trips than it has elements; those that shrink a number as many as it has bits
(ir/analysis/short_loops.py). While additions in a loop asked in each trip, LLVM made no vectors of it: the sum of
abs(int(a[i, j]) - int(b[i, j])). Stage compute: proofs about indices (proven_checks.py) take what is checked for exact,
and are done by then. A second run finds nothing.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, BlockArg, Function, Instruction, Value
from dlvm_py.ir.analysis.bounds import EXTENT_MAX, Bounds, Place
from dlvm_py.ir.analysis.cfg import reverse_postorder
from dlvm_py.ir.analysis.counted_loops import counting_head, steps
from dlvm_py.ir.analysis.effects import unchecked
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.short_loops import most_trips
from dlvm_py.ir.value import integer
from dlvm_py.transforms.ranges import integer_range

_MEMBERS = 64
_SMALL = 2**40  # of what is added at once
_LARGEST = 2**63 - 1


def run(function: Function) -> bool:
    """Let sums of `function` that cannot overflow not ask for it; whether there were any."""
    checked = [i for i in function.instructions() if i.op.name in ("add", "subtract") and i.attrs.get("checked")]
    if not checked:
        return False
    sums = _Sums(function)
    changed = False
    if sums.forest.loops and sums.is_reducible():
        for i in checked:
            for exact in sums.exact(i) if i.attrs.get("checked") else ():
                exact.attrs = unchecked(exact)
                changed = True
    return changed


class _Sums:
    """The sums of a function, as it is now."""

    def __init__(self, function: Function) -> None:
        self.function, self.bounds = function, Bounds(function)
        self.forest = LoopForest(function)
        self.extents = [i for i in function.blocks[0].instructions if i.op.name == "extent"]

    def is_reducible(self) -> bool:
        """Whether all cycles are loops."""
        order = {b: n for n, b in enumerate(reverse_postorder(self.function))}
        edges = ((s, b) for b, ways in self.bounds.edges.items() for s, _ in ways if s in order and b in order)
        return all(order[s] < order[b] or self.bounds.tree.dominates(b, s) for s, b in edges)

    def exact(self, i: Instruction) -> list[Instruction]:
        """The additions and subtractions of the sum of which one is asked about, if none can overflow."""
        found = self._sum(i)
        if found is None:
            return []
        members, added, first = found
        total = first
        for at, most in added.items():
            trips = self._trips(at, members)
            if trips is None:
                return []
            total += most * trips
        return list(added) if total <= _LARGEST else []

    def _sum(self, i: Instruction) -> tuple[set[Value], dict[Instruction, int], int] | None:
        """What hands a sum on; what adds to it, with how much at most; and what it begins with, at most."""
        members: set[Value] = set()
        added: dict[Instruction, int] = {}
        first = 0
        work: list[Value] = [i]
        while work:
            v = work.pop()
            if v in members:
                continue
            low, high = integer_range(v)
            size = max(abs(low), abs(high))
            if isinstance(v, BlockArg) and self.bounds.edges[v.block]:
                at = v.block.args.index(v)
                work += [s.targets[k].args[at] for s, k in self.bounds.edges[v.block]]
            elif isinstance(v, Instruction) and v.op.name in ("add", "subtract") and (v is i or size > _SMALL):
                parts = _parts(v)
                if parts is None:
                    return None
                work.append(parts[0])
                added[v] = parts[1]
            elif size > _SMALL:
                return None
            else:
                first = max(first, size)
                continue
            members.add(v)
            if len(members) > _MEMBERS:
                return None
        return members, added, first

    def _trips(self, i: Instruction, members: set[Value]) -> int | None:
        """How often a place is come by at most, while a sum is handed on."""
        loops: list[Loop] = []
        around = self.forest.loop_of(i.block)  # type: ignore[arg-type]
        while around is not None:
            if not members.isdisjoint(around.header.args):
                loops.append(around)
            around = around.parent
        trips = 1
        ends: list[tuple[Value, Place]] = []
        for loop in loops:
            head, short = counting_head(loop), most_trips(loop)
            if short is not None:
                trips *= short
                continue
            if head is None or head.is_down or not all((by or 0) > 0 for by in steps(loop, head.counter)):
                return None
            at = loop.header.args.index(head.counter)
            firsts = [integer(s.targets[k].args[at]) for s, k in self.bounds.edges[loop.header] if s not in loop.blocks]
            if any(n is None or n < 0 for n in firsts):
                return None
            last = integer(head.last)
            if last is None:
                ends.append((head.last, Place(loop.header, 0)))
            else:
                trips *= max(last, 0)
        if (
            len(ends) == 1
            and self.bounds.holds(ends[0][0], None, EXTENT_MAX, ends[0][1])
            or self._is_in_one_array(ends)
        ):
            trips *= EXTENT_MAX
        elif ends:
            return None
        return trips

    def _is_in_one_array(self, ends: list[tuple[Value, Place]]) -> bool:
        """Whether loops end at extents of one array, each of another axis."""
        for array in dict.fromkeys(e.operands[0] for e in self.extents):
            left = [e for e in self.extents if e.operands[0] is array]
            for last, at in ends:
                found = next((e for e in left if self.bounds.holds(last, e, 0, at)), None)
                if found is None:
                    break
                left = [e for e in left if e.attrs["at"] != found.attrs["at"]]
            else:
                return bool(ends)
        return False


def _parts(i: Instruction) -> tuple[Value, int] | None:
    """What an instruction adds to, and how much at most."""
    a, b = i.operands
    for base, by in ((a, b), (b, a)) if i.op is OPS["add"] else ((a, b),):
        low, high = integer_range(by)
        size = max(abs(low), abs(high))
        if size <= _SMALL:
            return base, size
    return None
