"""Interleaved loops in which each trip has one term more than the one before, as in triangular factors and solutions.

    'loop(%i: i64):                                 'several(%i):  lessThan %i, (max(%n, 3) - 3), else 'loop
        conditional (lessThan %i, %n) ..            'ahead():      lessThanOrEqual 0, %i, and all checks, else 'loop
    'in(%k: i64):                                   'grows():      %x0 .. %x3 = load (%x at %i) .. (%x at %i + 3)
        conditional (lessThan %k, %i) ..            'together(%k, %s0, %s1, %s2, %s3):  lessThan %k, %i, else 'trip
    'body():                                  =>    'sums():       %t0 = subtract %s0, (%a at %i, %k) * (%x at %k), ..
        %s = load (%x at %i)                                       branch 'together(%k + 1, %t0, .., %t3)
        %t = (%a at %i, %k) * (%x at %k)            'trip():       store %s0 to (%x at %i), and the rest of this trip
        store (subtract %s, %t) to (%x at %i)       'trip_0():     %u = subtract %s1, (%a at %i + 1, %i) * (%x at %i)
        branch 'in(%k + 1)                                         store %u to (%x at %i + 1), and the rest; ..
                                                    'loop(%i): (as it was, for the trips that are left)

The terms that four trips have in common are there before the first of them: no trip writes what those behind it read of
them, since the number of a term is below that of every trip, or the row is another one. The others, up to three of
a trip, come in order behind these, each when the trips before it are done. The sums may be carried, or lie in an
element that the inner loop updates, which is in a register then. So every sum has its terms in the order of the
program, and four of them are under way at a time.

What is checked for a trip as a whole, and that its terms are as many as they seem (no array ends before), is asked of
all four before anything is read; where it does not hold, the loop runs as it was. This is no pass: interleave_loops.py
asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.ir import OPS, Block, Builder, Instruction, Value, is_scalar, literal
from dlvm_py.ir.analysis.alias import SHARED, AliasAnalysis
from dlvm_py.ir.analysis.counted_loops import is_outside
from dlvm_py.ir.analysis.effects import is_pure, writes_memory, written_pointer
from dlvm_py.ir.analysis.places import Linear, linear, place_of
from dlvm_py.transforms.interleaved_nests import Maps, Nest
from dlvm_py.transforms.packed_rows import Packed

_GROWING = 16  # instructions of the inner loop: the terms that a trip has for itself are written out


class Growing(Nest):
    """A loop in which the end of the inner one moves with the counter."""

    # of the element that the inner loop updates in memory
    load: Instruction | None = None
    last_store: Instruction | None = None
    checks: Sequence[Instruction] = ()  # of what is the same for all terms of a trip, and what they ask
    asked: Sequence[Instruction] = ()

    def packed(self, noalias_params: bool) -> Packed | None:
        """None: what a trip reads may be what the one before has written."""
        return None

    # -- whether -----------------------------------------------------------------------------------------

    def is_fit(self, noalias_params: bool) -> bool:
        """As of others, where each trip has one term more than the one before."""
        if self.function.meta.get(SHARED) or sum(len(b.instructions) for b in self.inner.loop.ordered) > _GROWING:
            return False
        ends = [end for end in _least_of(self.inner.last) if self._beyond(linear(end)) is not None]
        if not ends:
            return False
        self.end = ends[0]
        return self._may_ask_first() and super().is_fit(noalias_params)

    def _may_ask_first(self) -> bool:
        """Whether what is checked, and where terms end, follows from the counter by steps without memory."""
        loop = self.outer.loop
        blocks = (loop.header, *self.way, *self.inner.loop.ordered)
        steps = [i for b in blocks for i in b.instructions[:-1]]
        self.checks = [i for i in steps if i.op is OPS["check"]]
        self.handled = frozenset(self.checks)
        asked: set[Value] = set()
        pending = [self.inner.last, self.end, *(i.operands[0] for i in self.checks)]
        while pending:
            v = pending.pop()
            if is_outside(v, loop) or v in asked or v is self.outer.counter:
                continue
            if not isinstance(v, Instruction) or v not in steps or not is_pure(v):
                return False
            asked.add(v)
            pending += v.operands
        self.asked = [i for i in steps if i in asked]
        return True

    def _beyond(self, end: Linear) -> Linear | None:
        """How far a number is beyond the outer counter, if that is the same in all trips."""
        distance = end.plus(Linear(0, {self.outer.counter: 1}), -1)
        return distance if self._is_fixed(distance) else None

    def _is_fixed(self, form: Linear) -> bool:
        return all(is_outside(v, self.outer.loop) for v in form.terms)

    def finds_element(self) -> bool:
        """Whether the inner loop has one store, to an element that is the same in all of its trips, and loads it."""
        instructions = [i for b in self.inner.loop.ordered for i in b.instructions]
        stores = [i for i in instructions if writes_memory(i)]
        if len(stores) != 1 or stores[0].op.name != "store" or not is_scalar(stores[0].operands[0].type):
            return False
        pointer = stores[0].operands[1]
        loads = [i for i in instructions if i.op.name == "load" and i.operands[0] is pointer]
        if len(loads) != 1 or instructions.index(loads[0]) > instructions.index(stores[0]):
            return False
        if not isinstance(pointer, Instruction) or pointer.op is not OPS["elementPointer"]:
            return False
        moves = any(not is_outside(v, self.inner.loop) for v in pointer.operands)
        if moves or not is_outside(pointer.operands[0], self.outer.loop):
            return False
        if loads[0].type.dtype.kind != "f":  # type: ignore[attr-defined]
            return False
        self.load, self.last_store = loads[0], stores[0]
        self.handled = frozenset((*self.checks, stores[0]))
        return True

    def reads_what_stays(self, ahead: list[Instruction], body: list[Instruction], noalias_params: bool) -> bool:
        """Whether no trip writes what those behind it read ahead of it."""
        alias = AliasAnalysis(self.function, noalias_params)
        writers = [i for b in (*self.inner.loop.ordered, *self.tail) for i in b.instructions if writes_memory(i)]
        for i in writers:
            to = written_pointer(i)
            if to is None:
                return False
            for load in (i for i in (*ahead, *body) if i.op.name == "load" and alias.may_alias(to, i.operands[0])):
                if not self._is_apart(load.operands[0], to, load in ahead or load is self.load):
                    return False
        return True

    def _is_apart(self, read: Value, write: Value, is_first: bool) -> bool:
        """Whether what a trip reads of the terms that all have is not what it, or one before it, writes.

        is_first: the trip reads it before it writes anything.
        """
        source, to = place_of(read), place_of(write)
        if source.base is not to.base or source.base.type.layout == "S":  # type: ignore[attr-defined]
            return False
        axes = zip(source.axes, to.axes, strict=True)
        return any(
            a.start is not None
            and b.start is not None
            and a.count == b.count == 1
            and self._differ(a.start, b.start, is_first)
            for a, b in axes
        )

    def _differ(self, read: Linear, write: Linear, is_first: bool) -> bool:
        """Whether an index that is read differs from the one that is written in the same trip or an earlier one.

        It is the number of the term and what is fixed, or the number of the trip, or fixed.
        """
        term, trip = self.inner.counter, self.outer.counter
        moves = read.terms.get(term, 0), read.terms.get(trip, 0), write.terms.get(trip, 0)
        distance = read.plus(write, -1)
        fixed = Linear(distance.constant, {v: n for v, n in distance.terms.items() if v is not term and v is not trip})
        beyond = self._beyond(linear(self.end))
        if term in write.terms or not self._is_fixed(fixed) or beyond is None:
            return False
        match moves:
            case (0, 0, 0):
                return not fixed.terms and fixed.constant != 0
            case (0, 1, 1):  # of earlier trips: below it
                return not fixed.terms and fixed.constant >= (0 if is_first else 1)
            case (1, 0, 0):  # from the first term on, up to those that the last trips have in common
                least = fixed.plus(linear(self.inner.first))
                most = fixed.plus(beyond).plus(linear(self.outer.last)).plus(Linear(-2))
                return (not least.terms and least.constant > 0) or (not most.terms and most.constant < 0)
            case (1, 0, 1):  # the first of these trips has all terms that they have in common
                most = fixed.plus(beyond).plus(Linear(-1))
                return not most.terms and most.constant < 0
        return False

    # -- making it ---------------------------------------------------------------------------------------

    def arrive(self, b: Builder, maps: Maps, packed: Packed | None, back: tuple[Block, list[Value]]) -> None:
        """The same, and the elements as they are; where a check fails or terms begin later, to the loop as it was."""
        self.copy(b, self.asked, maps)
        last = maps[0].get(self.end, self.end)
        conditions = [b.emit("lessThanOrEqual", self.inner.first, last)]
        if self.end is not self.inner.last:
            conditions += [b.emit("equal", m[self.inner.last], m.get(self.end, self.end)) for m in maps]
        conditions += dict.fromkeys(m.get(i.operands[0], i.operands[0]) for i in self.checks for m in maps)
        holds = conditions[0]
        for condition in conditions[1:]:
            holds = b.emit("and", holds, condition)
        grows = Block("grows")
        self.between = [grows]
        b.conditional(holds, grows, [], *back)
        b.at_end(grows)
        for block in (self.outer.loop.header, *self.way):
            self.copy(b, self._left(block, self.asked), maps)
        self.places: list[Value] = []
        if self.load is not None and self.last_store is not None:
            # where the first trip has no terms it may have no element: that of the second one is loaded and stored
            has_terms = b.emit("lessThan", self.inner.first, last)
            (array, *indices) = self.last_store.operands[1].operands  # type: ignore[attr-defined]
            places = [[m.get(v, v) for v in indices] for m in maps]
            two = zip(*places[:2], strict=True)
            places[0] = [v if v is w else b.emit("select", v, w, has_terms) for v, w in two]
            for m, at in zip(maps, places, strict=True):
                self.places.append(b.emit("elementPointer", array, *at))
                m[self.load] = b.emit("load", self.places[-1])

    def _left(self, block: Block, others: Sequence[Instruction] = ()) -> list[Instruction]:
        """The steps of a block without what is handled and without others."""
        return [i for i in block.instructions[:-1] if i not in self.handled and i not in others]

    def steps(self, body: Block) -> list[Instruction]:
        """Without what is in registers."""
        return [i for i in self._left(body) if i is not self.load]

    def elements(self, maps: Maps) -> list[Value]:
        """The elements, once they are loaded."""
        return [m[self.load] for m in maps] if self.load is not None else []

    def take_elements(self, maps: Maps, together: Block) -> None:
        """Arguments for the elements."""
        if self.load is not None:
            for m in maps:
                m[self.load] = together.add_arg(self.load.type, self.load.name)

    def step_elements(self, maps: Maps) -> None:
        """What is stored to the elements."""
        if self.load is not None and self.last_store is not None:
            for m in maps:
                m[self.load] = m.get(self.last_store.operands[0], self.last_store.operands[0])

    def finish(self, b: Builder, t: int, m: dict[Value, Value]) -> None:
        """The terms that a trip has more than the first one, one after the other; then its element is stored."""
        inner = self.inner.loop.header
        (body,) = (block for block in self.inner.loop.ordered if block is not inner)
        begin = m[self.inner.counter]
        for k in range(t):
            self.copy(b, self.steps(body), [m])
            self.step_elements([m])
            passed = [m.get(v, v) for v in body.targets[0].args]
            m.update(zip(inner.args, passed, strict=True))
            m[self.inner.counter] = b.emit("add", begin, literal(k + 1))
            self.copy(b, self._left(inner), [m])
        if self.load is not None:
            b.emit("store", m[self.load], self.places[t])


def _least_of(end: Value) -> list[Value]:
    """A number, and what it is the minimum of."""
    of = end.operands if isinstance(end, Instruction) and end.op is OPS["min"] else []
    return [end, *(v for o in of for v in _least_of(o))]
