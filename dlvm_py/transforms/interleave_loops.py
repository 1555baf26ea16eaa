"""Interleaved loops: four trips of a loop run the loop inside of them as one, and their sums side by side.

    'loop(%j, %s):                                  'several(%j, %s):
        %m = lessThan %j, %n                            %m4 = lessThan %j, (max(%n, 3) - 3)
        conditional %m then 'in(0, 0.0)                 conditional %m4 then 'in4(0, 0.0, 0.0, 0.0, 0.0)
                       else 'exit()                                     else 'loop(%j, %s)
    'in(%e, %d):                                    'in4(%e, %d0, %d1, %d2, %d3):
        %k = lessThan %e, %w                            %k = lessThan %e, %w
        conditional %k then 'body() else 'after()       conditional %k then 'body4() else 'after0()
    'body():                                  =>    'body4():
        %x = load (%a at %e)                            %x = load (%a at %e)
        %y = load (%b at %j, %e)                        %y0 = load (%b at %j, %e);  %y1 = load (%b at %j + 1, %e); ..
        branch 'in(%e + 1, %d + %x * %y)                branch 'in4(%e + 1, %d0 + %x * %y0, %d1 + %x * %y1, ..)
    'after():                                       'after0(): (of %j, %s, %d0) .. 'after1(): (of %j + 1, .., %d1) ..
        ... (of %j, %s, %d) ...                         branch 'several(%j + 4, ..)
        branch 'loop(%j + 1, %t)                    'loop: as it was, for the trips that are left

A sum in the order of the program waits for its last addition in each trip. Four of them are under way at a time, and
what does not depend on the trip is read once for all four. The additions of each sum keep their order: the same bits.
Eight, as long as so many are left, and then four, are for tuning to find (decisions.py): they take from 0.5 to 1.6
times as long as four. Trips that read different rows of an array, in a loop that does so again and again, are eight at
a time and read a transposed copy (packed_rows.py).

The outer loop counts up from a number that is not negative, is left at its head (or by a `raise`), and has one loop in
it, which counts, has nothing inside, and carries floats. The bounds of that one are the same in all trips, or its end
moves with them (growing_trips.py: triangular factors); what it and the way to it compute depends on no other carried
value, and reads no memory that the outer loop writes. So it may be run ahead for trips that come later, also for one
that an exception prevents: all of it is pure, or a load whose index the counters' ends keep in range, since what is
checked in each trip makes the pass leave the loop alone. Loops that threads share (share_loops.py) stay as they are.
Stage compute, once in a pipeline: what is left is such a loop.
"""

from __future__ import annotations

from dlvm_py.decisions import Decisions
from dlvm_py.ir import Block, Function
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import Edges, counted_loop, is_outside
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.value import integer
from dlvm_py.transforms.growing_trips import Growing
from dlvm_py.transforms.interleaved_nests import Nest
from dlvm_py.transforms.share_loops import mark_of

TRIPS, MORE = 4, 8


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Interleave the trips of loops of `function`; whether there were any."""
    decisions, changed = decisions or Decisions(), False
    made: set[Block] = set()
    while True:
        forest, edges = LoopForest(function), predecessors(function)
        for loop in forest.loops:
            if len(loop.children) == 1 and loop.header not in made:
                made.add(loop.header)
                found = nest_of(function, loop, edges, noalias_params)
                trips = decisions.take("interleave_loops.trips", TRIPS, (MORE, 2, 1)) if found is not None else 1
                if found is not None and trips > 1:
                    packed = found.packed(noalias_params)
                    if packed is not None:
                        made.add(found.make(MORE, packed))
                    made.update(found.make(n) for n in ([MORE, TRIPS] if trips == MORE else [trips]))
                    changed = True
                    break
        else:
            return changed


def nest_of(function: Function, loop: Loop, edges: Edges, noalias_params: bool) -> Nest | None:
    """A loop that has one in it, with that, None where it stays as it is."""
    outer, inner = counted_loop(loop, edges), counted_loop(loop.children[0], edges)
    if outer is None or inner is None or inner.loop.children or outer.step != 1 or (integer(outer.first) or 0) < 0:
        return None
    if integer(outer.first) is None or not is_outside(inner.first, loop):
        return None
    entering = [p for p, _ in edges[loop.header] if p not in loop.blocks]
    if any(mark_of(b) is not None for b in entering):
        return None
    nest = (Nest if is_outside(inner.last, loop) else Growing)(function, outer, inner, edges)
    return nest if nest.is_fit(noalias_params) else None
