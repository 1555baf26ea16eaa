"""What is still in memory when the reverse sweep comes: loads of it are read again, values stored there read back.

    'columns(%j): lessThan %j, %i ...
    'body():
        %row = section (elementPointer %a at %i) at (0) count (%j) step (1)
        %0 = load %row                                          settled: what comes later writes columns from %j on,
        %1 = divide ...                                         and other rows
        store %1 to (elementPointer %a at %i, %j)               %1 is read from there: nothing writes it again

A load is settled if no write to its memory comes later: by where the blocks of the writes stand, and, of the writes
that may come later, by the places that they write (later_places.py). Memory is that of parameters that are not
written (of a function that is called: that nobody writes, lasting.py), and what the function has allocated.
"""

from __future__ import annotations

from dlvm_py.ir import Block, Instruction, Kind, PointerType, Value
from dlvm_py.ir.analysis import written_pointer
from dlvm_py.ir.analysis.later_places import Counter, LaterPlaces
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.analysis.places import Linear, linear
from dlvm_py.transforms.differentiate.counted import counted
from dlvm_py.transforms.differentiate.primal import Primal


class Settled:
    """Tells what nothing writes any more: the reverse sweep, which comes later, may read it again."""

    def __init__(self, primal: Primal) -> None:
        self._primal = primal
        self._formal = frozenset(primal.formal)
        self._known: dict[Instruction, bool] = {}
        self._places: dict[Value, Value | None] = {}
        self._reach: dict[tuple[Block, Block | None], frozenset[Block]] = {}
        self._counters: dict[Loop, Counter | None] = {}
        self._later = LaterPlaces(primal.loop_of, self._counter)

    def is_settled(self, load: Instruction) -> bool:
        """Whether no write to what `load` reads can come after it."""
        if load not in self._known:
            self._known[load] = self._decide(load)
        return self._known[load]

    def place_of(self, value: Value) -> Value | None:
        """A pointer to where a value was stored as soon as it was there, and nothing writes any more."""
        if value not in self._places:
            self._places[value] = self._stored(value)
        return self._places[value]

    def _stored(self, value: Value) -> Value | None:
        primal = self._primal
        if not isinstance(value, Instruction) or value not in primal.number or primal.is_split or primal.is_detached:
            return None
        for store in primal.uses.get(value, ()):
            if store.op.name != "store" or store.operands[0] is not value or store.block is not value.block:
                continue
            pointer = store.operands[1]
            assert isinstance(pointer.type, PointerType)
            if pointer.type.pointee == value.type and self._stays(pointer, store):
                return pointer
        return None

    def _decide(self, load: Instruction) -> bool:
        points_to = self._primal.points_to
        roots = points_to.roots(load.operands[0])
        if self._primal.is_detached and _base(load.operands[0]) not in self._formal:
            return False
        if roots and roots <= self._formal and roots.isdisjoint(points_to.written):
            return True
        if _base(load.operands[0]) in self._primal.lasting:
            return True
        if self._primal.is_split or self._primal.is_detached or load.block not in self._primal.bodies:
            return False
        return self._stays(load.operands[0], load)

    def _stays(self, pointer: Value, after: Instruction) -> bool:
        """Whether nothing that may run after an instruction writes what `pointer` refers to there."""
        roots = self._primal.points_to.roots(pointer)
        return bool(roots) and all(self._is_own(r) and not self._is_written_after(r, pointer, after) for r in roots)

    def _is_own(self, root: Value) -> bool:
        """Whether it is memory that the function has made, and no callee can write: or a parameter as it came."""
        if root in self._formal:
            return root not in self._primal.points_to.written
        return isinstance(root, Instruction) and root.op.name == "allocateHeap" and root not in self._primal.handed

    def _is_written_after(self, root: Value, pointer: Value, after: Instruction) -> bool:
        block, number = after.block, self._primal.number
        assert block is not None
        for writing, i in self._primal.writes.get(root, ()):
            if writing is block:
                here = number[i] > number.get(after, -1)
            else:
                here = writing in self._reached(block, self._header_of_both(block, writing))
            if here or writing in self._reached(block, None):
                to = written_pointer(i)
                if to is None or not self._later.is_apart((block, pointer), (writing, to), here):
                    return True
        return False

    def _header_of_both(self, a: Block, b: Block) -> Block | None:
        """The header of the innermost loop that is around both blocks."""
        loop = self._primal.loop_of(a)
        while loop is not None and not loop.contains(b):
            loop = loop.parent
        return None if loop is None else loop.header

    def _counter(self, loop: Loop) -> Counter | None:
        if loop not in self._counters:
            found = counted(self._primal, loop) if loop in self._primal.exits else None
            counter = None
            if found is not None and found.is_down:
                counter = Counter(found.argument, Linear(1), linear(found.last), True)
            elif found is not None:
                counter = Counter(found.argument, Linear(found.start), linear(found.last).plus(Linear(-1)), False)
            self._counters[loop] = counter
        return self._counters[loop]

    def _reached(self, block: Block, end: Block | None) -> frozenset[Block]:
        """The blocks that can run after `block`, itself only if it is in a loop; on ways that do not pass `end`."""
        key = (block, end)
        if key not in self._reach:
            found: set[Block] = set()
            work = [block]
            while work:
                for following in work.pop().successors():
                    if following not in found and following is not end:
                        found.add(following)
                        work.append(following)
            self._reach[key] = frozenset(found)
        return self._reach[key]


def _base(pointer: Value) -> Value:
    """What a pointer is a view of."""
    while isinstance(pointer, Instruction) and pointer.op.kind is Kind.INDEX:
        pointer = pointer.operands[0]
    return pointer
