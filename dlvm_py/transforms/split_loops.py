"""Split loops: a loop of which one trip writes what all trips read runs in two parts, each with that in a register.

                                                        'part(%begin: i64):
                                                            %before = lessThan %begin, (%k + 1 within the loop)
    'loop(%j: i64):                                         %end = select %k1, %n by %before
        %more = lessThan %j, %n                             conditional (lessThan %begin, %end) then 'enter else 'exit
        conditional %more then 'body() else 'exit()     'enter():
    'body():                                                %x = load (elementPointer %d at %i, %k)
        %x = load (elementPointer %d at %i, %k)     =>      branch 'loop(%begin)
        ...                                             'loop(%j: i64):
        store %v to (elementPointer %d at %i, %j)           %more = lessThan %j, %end
        branch 'loop(%j1)                                   conditional %more then 'body() else 'part(%j)
                                                        'body():
                                                            ...
                                                            store %v to (elementPointer %d at %i, %j)
                                                            branch 'loop(%j1)

The paths of Floyd and Warshall (`d[i, k] + d[k, j] < d[i, j]`) and elimination of whole rows (`a[i, j] -= a[i, k] *
a[k, j]` for all j) read such an element. Trip %k alone can change it, and has read it before: the first part ends with
that trip, the second one begins with the element as it is then. Of either one LLVM can make vectors.

The loop counts up by 1, has no other in it, and is left at its head alone. The element has fixed indices, and each trip
loads it before it stores anything, or raises. All stores that may meet it go along an axis with the counter, and meet
it in the same trip, as linear forms say. Stages compute and scheduled; a second run finds nothing.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir import (
    OPS,
    Block,
    Builder,
    Function,
    Instruction,
    Kind,
    Literal,
    PointerType,
    Target,
    Value,
    is_scalar,
    literal,
)
from dlvm_py.ir.analysis.alias import SHARED, AliasAnalysis
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, Edges, counted_loop, is_outside
from dlvm_py.ir.analysis.effects import is_pure, writes_memory
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.analysis.places import Linear, Place, place_of
from dlvm_py.transforms.element_promotion import can_move
from dlvm_py.transforms.loop_nests import made_again
from dlvm_py.transforms.share_loops import mark_of
from dlvm_py.transforms.substitution import substitute


def run(function: Function, noalias_params: bool = True) -> bool:
    """Split such loops of `function`; whether there were any."""
    if function.meta.get(SHARED):
        return False
    changed = False
    for loop in LoopForest(function).loops:
        if loop.children or not any(i.op is OPS["store"] for b in loop.ordered for i in b.instructions):
            continue
        edges = predecessors(function)
        counted = counted_loop(loop, edges)
        if counted is None or counted.step != 1 or loop.exiting_block is not loop.header:
            continue
        split = _Search(function, counted, edges, noalias_params).split()
        if split is not None:
            _rewrite(function, counted, edges, split)
            changed = True
    return changed


class _Split(Frozen):
    """The trip with which the first part ends, and the loads that both parts begin with."""

    trip: Linear
    loads: list[Instruction]


class _Search:
    """What one loop is split for."""

    def __init__(self, function: Function, counted: CountedLoop, edges: Edges, noalias_params: bool) -> None:
        self.function, self.counted, self.loop = function, counted, counted.loop
        self.edges, self.noalias_params = edges, noalias_params
        self.writes = [i for b in self.loop.ordered for i in b.instructions if writes_memory(i)]

    def split(self) -> _Split | None:
        """The first trip for which there are such loads, with all that have the same one; None if there is none."""
        entering = [b for b, _ in self.edges[self.loop.header] if b not in self.loop.blocks]
        if any(mark_of(b) is not None for b in entering) or any(i.op.kind is Kind.CALL for i in self.writes):
            return None
        if not all(i.op is OPS["store"] and is_scalar(i.operands[0].type) for i in self.writes):
            return None
        outside = (i for b in self.function.blocks if b not in self.loop.blocks for i in b.instructions)
        computed = set(self.loop.header.instructions)
        if any(v in computed for i in outside for v in (*i.operands, *(a for t in i.targets for a in t.args))):
            return None
        trips: list[tuple[Linear, Instruction]] = []
        for load in self._leading_loads():
            place = place_of(load.operands[0])
            if self._is_fixed(load.operands[0], place):
                met = self._met(place)
                if met is not None:
                    trips.append((met, load))
        return _Split(trips[0][0], [i for trip, i in trips if trip == trips[0][0]]) if trips else None

    def _leading_loads(self) -> list[Instruction]:
        """The loads of numbers that each trip makes before it stores or raises anything."""
        if not all(map(is_pure, self.loop.header.instructions[:-1])):
            return []
        found: list[Instruction] = []
        block = self.counted.body
        while block is not self.loop.header and len(self.edges[block]) == 1:
            for i in block.instructions[:-1]:
                if i.op is OPS["load"] and is_scalar(i.type):
                    found.append(i)
                elif not is_pure(i):
                    return found
            if len(block.targets) != 1:
                break
            block = block.targets[0].block
        return found

    def _is_fixed(self, pointer: Value, place: Place) -> bool:
        """Whether an element is the same in all trips, with a name outside the loop."""
        return (
            isinstance(place.base.type, PointerType)
            and place.base.type.layout != "S"
            and not isinstance(place.base, Literal)
            and all(a.start is not None and a.count == 1 for a in place.axes)
            and not is_outside(pointer, self.loop)
            and can_move(pointer, self.loop)
        )

    def _met(self, place: Place) -> Linear | None:
        """The one trip in which stores may meet an element; None where there are none, or others."""
        alias = AliasAnalysis(self.function, self.noalias_params)
        found: list[Linear] = []
        for store in self.writes:
            other = place_of(store.operands[1])
            if other.base is not place.base:
                if alias.may_overlap(place.base, other.base):
                    return None
                continue
            trips = [self._trip(a.start, b.start) for a, b in zip(place.axes, other.axes, strict=True) if b.count == 1]
            known = [t for t in trips if t is not None]
            if not known:
                return None
            found.append(known[0])
        return found[0] if found and all(trip == found[0] for trip in found) else None

    def _trip(self, fixed: Linear | None, other: Linear | None) -> Linear | None:
        """The trip in which an index is the fixed one, if the counter alone is added to it or subtracted from."""
        counter = self.counted.counter
        factor = other.terms.get(counter, 0) if other is not None else 0
        if fixed is None or other is None or abs(factor) != 1:
            return None
        trip = fixed.plus(other, -1).plus(Linear(0, {counter: 1}), factor).times(factor)
        return trip if all(is_outside(v, self.loop) for v in trip.terms) else None


def _rewrite(function: Function, counted: CountedLoop, edges: Edges, split: _Split) -> None:
    """The loop around the parts."""
    loop, header = counted.loop, counted.loop.header
    at = function.blocks.index(header)
    gate, part, enter = Block("gate"), Block("part"), Block("enter")
    function.blocks[at:at] = [gate, part, enter]
    passed = [gate.add_arg(a.type, a.name) for a in header.args]
    begun = {a: part.add_arg(a.type, a.name) for a in header.args}
    for block, k in edges[header]:
        if block not in loop.blocks:
            block.targets[k].block = gate
    k = header.args.index(counted.counter)
    begin = begun[counted.counter]
    end_of_header = header.instructions[-1]
    leave = next(t for t in end_of_header.targets if t.block not in loop.blocks)
    given: dict[Value, Value] = dict(begun)
    away = Target(leave.block, [given.get(v, v) for v in leave.args])
    outside = [b for b in function.blocks if b not in loop.blocks]
    substitute([b for b in outside if b not in (gate, part, enter)], given)
    b = Builder(function).at_end(gate)
    first, last = passed[k], counted.last
    limit = b.emit("max", first, last)
    middle = b.emit("min", b.emit("max", b.emit("add", _emitted(b, split.trip), literal(1)), first), limit)
    gate.append(Instruction(OPS["branch"], [], targets=[Target(part, list(passed))]))
    b = Builder(function).at_end(part)
    end = b.emit("select", middle, last, b.emit("lessThan", begin, middle))
    runs = b.emit("lessThan", begin, end)
    part.append(Instruction(OPS["conditional"], [runs], targets=[Target(enter, []), away]))
    b = Builder(function).at_end(enter)
    values: dict[Value, Value] = {}
    for load in split.loads:
        pointer = made_again(b, load.operands[0], loop, {})
        b.loc = load.loc
        values[load] = b.emit("load", pointer)
        assert load.block is not None
        load.block.instructions.remove(load)
    enter.append(Instruction(OPS["branch"], [], targets=[Target(header, list(begun.values()))]))
    substitute(loop.ordered, values)
    test = end_of_header.operands[0]
    assert isinstance(test, Instruction)
    test.operands = [counted.counter, end]  # where a trip asks for it, it is so as before
    end_of_header.targets = [
        Target(part, list(header.args)) if t.block not in loop.blocks else t for t in end_of_header.targets
    ]


def _emitted(b: Builder, form: Linear) -> Value:
    """A linear form as a value."""
    found: Value = literal(form.constant)
    for v, factor in form.terms.items():
        found = b.emit("add", found, v if factor == 1 else b.emit("multiply", v, literal(factor)))
    return found
