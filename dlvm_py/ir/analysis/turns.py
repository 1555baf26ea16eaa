"""What goes from trip to trip of a counted loop: values that change places, and arrays that each trip makes anew.

    'loop(%k: i64, %u: *<_ x f64>):               a trip's %b may be the memory that the trip before the last one made:
    'body():                                      two arrays take turns. Of `'loop(%k, %old, %u)` with %u for %old, and
        %b = allocateHeap f64 count (%n: i64)     %b for %u, three do
        store (sqrt (load %u)) to %b
        release %u
        branch 'loop(%k + 1, %b)

Who runs such a loop may keep the memory of such an array when its last reference goes (`releases` says where), and give
it to the next trip's. From trip `after` on a trip then works on the same memory as the one `period` trips before it,
unless something else kept an array. Stage scheduled.
"""

from __future__ import annotations

from itertools import count

from dlvm_py.frozen import Frozen, field
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.function import Function
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.value import Instruction, Value

# trips before the first that repeats another one, and between two that are the same, at most
MOST_TRIPS = 4
_State = tuple[dict[Value, object], dict[Instruction, object]]


class Carried(Frozen):
    """What a loop carries beside its counter.

    passed: arguments of its header that the next trip has from another one, or from before the loop. made: those that
    are an allocation of the trip. releases: the instructions that give up an array that was made so, with the
    allocation whose turn it may have next. events: what is done with references, in order, in every trip.
    """

    passed: dict[Value, Value]
    made: dict[Value, Instruction]
    releases: dict[Instruction, Instruction] = field(default_factory=dict)
    events: list[Instruction] = field(default_factory=list)

    def turns(self) -> tuple[int, int] | None:
        """(after, period); None where there are too many ways."""
        numbers = count()
        args: dict[Value, object] = {a: a for a in (*self.passed, *self.made)}
        kept: dict[Instruction, object] = dict.fromkeys(self.made.values())
        seen: list[_State] = [(args, kept)]
        holders: dict[object, int] = {}  # of arrays that trips have made
        while len(seen) <= 2 * MOST_TRIPS:
            kept, new = dict(kept), dict[Instruction, object]()

            def array_of(v: Value, args: dict[Value, object] = args, new: dict[Instruction, object] = new) -> object:
                return new.get(v, args.get(v))  # type: ignore[call-overload]

            for i in self.events:
                if i in kept:
                    new[i] = next(numbers) if kept[i] is None else kept[i]
                    kept[i], holders[new[i]] = None, 1
                    continue
                array = array_of(i.operands[0])
                if array in holders:
                    holders[array] += 1 if i.op.name == "retain" else -1
                    at = self.releases.get(i)
                    if not holders[array] and at is not None and kept[at] is None:
                        kept[at] = array
            args = {a: args.get(v, v) for a, v in self.passed.items()} | {a: new[i] for a, i in self.made.items()}
            if (args, kept) in seen:
                after = seen.index((args, kept))
                period = len(seen) - after
                return (after, period) if max(after, period) <= MOST_TRIPS else None
            seen.append((args, kept))
        return None


def carried(function: Function, counted: CountedLoop) -> Carried:
    """What a loop carries; arguments of its header that are neither passed nor made change in another way."""
    loop, counter = counted.loop, counted.counter
    (latch,) = loop.latches
    (target,) = (t for t in latch.targets if t.block is loop.header)
    dominators = of_graph(DominatorTree, function)
    always = [
        b
        for b in loop.ordered
        if dominators.dominates(b, latch) and not any(inner.contains(b) for inner in loop.children)
    ]
    given = list(zip(loop.header.args, target.args, strict=True))
    passed = {a: v for a, v in given if is_outside(v, loop) or v in loop.header.args and v is not counter}
    made: dict[Value, Instruction] = {
        a: v for a, v in given if isinstance(v, Instruction) and v.op is OPS["allocateHeap"] and v.block in always
    }
    found = Carried({a: v for a, v in passed.items() if a is not counter}, made)
    for b in always:
        for i in b.instructions:
            if i in made.values():
                found.events.append(i)
            elif i.op.name in ("retain", "release") and (
                i.operands[0] in loop.header.args or i.operands[0] in made.values()
            ):
                found.events.append(i)
                at = _made_by(found, i.operands[0]) if i.op.name == "release" else None
                if at is not None:
                    found.releases[i] = at
    return found


def _made_by(found: Carried, v: Value) -> Instruction | None:
    """The allocation that an argument of the header is from some trip on."""
    seen: set[Value] = set()
    while v in found.passed and v not in seen:
        seen.add(v)
        v = found.passed[v]
    return v if isinstance(v, Instruction) and v in found.made.values() else found.made.get(v)
