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

    %a_0 = allocateHeap ...                                 a copy of %a, which nothing writes
    store (load %a) to %a_0
    'rows(%i): ...
        %rest = section %a_0 at (%i + 1) ...                what came before wrote rows up to %i: the rows of %rest
        %0 = load %rest                                     are as they were in %a, and are read again there
        store ... to (section %a_0 at (%i) ...)

So is what no earlier write has met of an array that began as a copy: of a parameter that the function writes, or of
what the program copies itself.
"""

from __future__ import annotations

from dlvm_py.ir import Block, Instruction, Kind, PointerType, Value
from dlvm_py.ir.analysis import written_pointer
from dlvm_py.ir.analysis.later_places import Counter, LaterPlaces
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.analysis.places import Linear, linear
from dlvm_py.transforms.differentiate.counted import counted
from dlvm_py.transforms.differentiate.primal import Primal

_Access = tuple[Instruction, Value | None]  # what reads or writes, and where; None: that is not known


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
        changed = (pair for pair in zip(primal.params, primal.formal, strict=True) if pair[0] is not pair[1])
        self._originals: dict[Value, tuple[Value, Instruction | None]] = {copy: (p, None) for copy, p in changed}

    def is_settled(self, load: Instruction) -> bool:
        """Whether no write to what `load` reads can come after it."""
        if load not in self._known:
            self._known[load] = self._decide(load)
        return self._known[load]

    def place_of(self, value: Value) -> Value | None:
        """A pointer to where a value lies that nothing writes any more: stored as soon as it was there, or copied."""
        if value not in self._places:
            primal = self._primal
            is_here = isinstance(value, Instruction) and value in primal.number
            if not is_here or primal.is_split or primal.is_detached:
                self._places[value] = None
            else:
                self._places[value] = self._stored(value) or self._copied(value)
        return self._places[value]

    def _stored(self, value: Instruction) -> Value | None:
        for store in self._primal.uses.get(value, ()):
            if store.op.name != "store" or store.operands[0] is not value or store.block is not value.block:
                continue
            pointer = store.operands[1]
            assert isinstance(pointer.type, PointerType)
            if pointer.type.pointee == value.type and self._stays(pointer, store):
                return pointer
        return None

    def _copied(self, load: Instruction) -> Value | None:
        """Where a load reads what its array was copied from, and no write has met since."""
        if load.op.name != "load":
            return None
        views: list[Instruction] = []
        base = load.operands[0]
        while (found := self._original(base)) is None:
            if not isinstance(base, Instruction) or base.op.kind is not Kind.INDEX:
                return None
            views.append(base)
            base = base.operands[0]
        original, copying = found
        roots = self._primal.points_to.roots(load.operands[0])
        if len(roots) != 1 or not all(self._is_own(r) for r in roots):
            return None
        (root,) = roots
        if self._is_written_before(root, load, copying):
            return None
        pointer, made = original, list[Instruction]()
        for view in reversed(views):
            attrs, layout = dict(view.attrs), pointer.type.layout  # type: ignore[attr-defined]
            if view.op.name == "shapeCast" and layout != "C":
                return None
            # the type of a view may say less of what was copied than of the copy
            if view.op.name == "pointerCast" and attrs["to"].layout != layout:
                attrs["to"] = PointerType(attrs["to"].pointee, "S")
            pointer = Instruction(view.op, [pointer, *view.operands[1:]], attrs, name=view.name)
            made.append(pointer)
        assert load.block is not None
        at = load.block.instructions.index(load)
        for view in made:
            view.block = load.block
        load.block.instructions[at:at] = made
        return pointer

    def _original(self, pointer: Value) -> tuple[Value, Instruction | None] | None:
        """What an array begins as a copy of, and the store that copies (None: the entry does); or None."""
        if pointer not in self._originals and isinstance(pointer, Instruction) and pointer.op.name == "allocateHeap":
            for _, store in self._primal.writes.get(pointer, ()):
                value, to = store.operands[:2]
                if (
                    store.op.name == "store"
                    and to is pointer
                    and isinstance(value, Instruction)
                    and value.op.name == "load"
                    and value.operands[0].type == to.type
                    and self._primal.loop_of(store.block) is None
                    and self.is_settled(value)
                ):
                    self._originals[pointer] = value.operands[0], store
                    break
        return self._originals.get(pointer)

    def _is_written_before(self, root: Value, load: Instruction, copying: Instruction | None) -> bool:
        """Whether a write but the one that copies, or that itself, may have met what a load reads."""
        block, number, pointer = load.block, self._primal.number, load.operands[0]
        assert block is not None
        if copying is not None:
            home = copying.block
            dominators = self._primal.dominators
            if not (number[copying] < number[load] if home is block else dominators.dominates(home, block)):
                return True
        writes = (i for _, i in self._primal.writes.get(root, ()) if i is not copying)
        return any(self._meets((i, written_pointer(i)), (load, pointer)) for i in writes)

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
        writes = (i for _, i in self._primal.writes.get(root, ()))
        return any(self._meets((after, pointer), (i, written_pointer(i))) for i in writes)

    def _meets(self, first: _Access, second: _Access) -> bool:
        """Whether an access may come after another one, and to the same place."""
        (a, p), (b, q) = first, second
        here, there, number = a.block, b.block, self._primal.number
        assert here is not None and there is not None
        if here is there:
            in_same_trip = number[b] > number.get(a, -1)
        else:
            in_same_trip = there in self._reached(here, self._header_of_both(here, there))
        if not in_same_trip and there not in self._reached(here, None):
            return False
        return p is None or q is None or not self._later.is_apart((here, p), (there, q), in_same_trip)

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
