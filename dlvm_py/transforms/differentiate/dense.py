"""Dense tapes: what a counted loop records goes to an array, a row an iteration.

    'before:                               'before: %rows = allocateHeap f64 count (%n, …)
       branch 'loop(0)                        branch 'loop(0)
    'loop(%k): … %k < %n                   'loop(%k): … %k < %n
    'body: %x = load %p; store … to %p  →  'body: %x = load %p; store … to %p
                                              store %x to (elementPointer %rows at %k)
    'body_adj: … %x_adj, %x …              'body_adj: %trip = %trip - 1
                                              %x_kept = load (elementPointer %rows at %trip)

The tape of a nest of counted loops has an axis a loop, then those of the value: as many loops as have, all of them, a
count (and an extent of the value) that is known before the outermost one, from inwards outwards. Is there a loop
around that, it gets a tape for each of its iterations, and keeps their addresses as it keeps any value. The tape is
memory like other memory: it is printed, run, differentiated and freed as such, and nothing is counted, grown or
released in a step.

What stays with push and pop: loops without a count; loops that can end early, unless they are short (the count is only
a bound then, and the memory would be for all of it); arrays that are kept in a branch; numbers of a few iterations that
something repeats; what recursion keeps.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from dlvm_py.frozen import Mutable, field
from dlvm_py.ir import (
    DTYPES,
    I8,
    Block,
    Builder,
    DType,
    Instruction,
    Literal,
    PointerType,
    TensorType,
    Value,
    is_array,
    is_scalar,
    literal,
)
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.transforms.differentiate.ahead import Made, extent, number
from dlvm_py.transforms.differentiate.control import Control
from dlvm_py.transforms.differentiate.counted import Counted, repeating
from dlvm_py.transforms.differentiate.primal import Primal

_SHORT = 1024  # trips: a bound that is worth memory for all of it
_FEW = 32  # numbers: too few for memory of their own each time


class Rows(Mutable):
    """One dense tape: of `value`, whose rows are filled in the nest `loops` (outermost first), for these places.

    is_within: whether they are filled in trips alone, and not in the header, which runs once more.
    """

    value: Value
    loops: list[Loop]
    memory: Instruction
    is_within: bool
    places: list[Block] = field(default_factory=list)


class Nests:
    """Finds and makes dense tapes."""

    def __init__(self, primal: Primal, control: Control, segmented: set[Loop]) -> None:
        """segmented: loops that are taken apart later (checkpoint.py), whose rows would not lie where they do now."""
        self._primal = primal
        self._control = control
        self._segmented = segmented
        self._known: dict[tuple[Value, object, bool], Rows | None] = {}
        self.made: list[Rows] = []

    # -- which ----------------------------------------------------------------------------------------------

    def rows(self, value: Value, place: Block) -> Rows | None:
        """The dense tape on which `value` is, as it is at the end of `place`; None where there is none.

        `place` is in a loop, and all loops around it contain the definition of `value`.
        """
        if not isinstance(value.type, TensorType) or self._primal.is_split or value.type.dtype.name not in DTYPES:
            return None
        loop = self._primal.loop_of(place)
        count = self._count(loop)
        if loop is None or count is None:
            return None
        # each trip of the loop comes there at most once, the header once more
        is_within = self._primal.dominators.dominates(count.stay, place)
        key = (value, loop if self._is_shared(value, place, loop) else place, is_within)
        if key not in self._known:
            self._known[key] = self._make(value, place, loop, is_within)
        found = self._known[key]
        if found is not None and place not in found.places:
            found.places.append(place)
        return found

    def has_made(self, value: Value) -> bool:
        """Whether `value` is the memory of rows."""
        return any(value is rows.memory for rows in self.made)

    def shared(self, block: Block, kept: Mapping[Block, set[Value]]) -> set[Value]:
        """The numbers that other blocks of the loop of `block` keep in rows, which it can read as well."""
        loop = self._primal.loop_of(block)
        if self._primal.is_split or self._count(loop) is None:
            return set()
        others = [found for other, found in kept.items() if other is not block and self._primal.loop_of(other) is loop]
        return {v for v in set().union(*others) if is_scalar(v.type) and self._is_shared(v, block, loop)}

    def _is_shared(self, value: Value, place: Block, loop: Loop | None) -> bool:
        """Whether `value` has one row a trip for all places of its loop."""
        home = value.block  # type: ignore[attr-defined]
        return self._primal.loop_of(home) is loop and self._primal.dominators.dominates(home, place)

    def _count(self, loop: Loop | None) -> Counted | None:
        """What is known of the trips of a loop whose rows can lie densely."""
        count = self._control.counts.get(loop) if loop is not None and loop not in self._segmented else None
        if count is not None and not count.is_exact:
            last = count.last.value if isinstance(count.last, Literal) else None
            return count if isinstance(last, int) and last <= _SHORT else None
        return count

    def _make(self, value: Value, place: Block, loop: Loop, is_within: bool) -> Rows | None:
        """The tape of as large a nest as can be."""
        primal = self._primal
        if is_array(value.type) and not primal.dominators.dominates(place, repeating(primal, loop)):
            return None
        nest: list[Loop] = []
        sizes: list[Made] = []
        around: Loop | None = loop
        while around is not None:
            if nest and not self._is_whole(nest[0], around):
                break
            found = self._sizes(value, [around, *nest])
            if found is None:
                break
            nest, sizes = [around, *nest], found
            around = around.parent
        if not nest or (around is not None and not self._is_worth(value, nest)):
            return None
        before = primal.preheader(nest[0])
        if primal.is_detached and not primal.dominators.dominates(before, primal.exit.block):
            return None  # on other paths the function would have nothing to give
        b = Builder(primal.function).before(before.instructions[-1])
        counts = [size(b) for size in sizes]
        if not is_within:
            counts[len(nest) - 1] = b.emit("add", counts[len(nest) - 1], literal(1))
        name = f"{value.name}_tape" if value.name else "tape"
        memory = b.emit("allocateHeap", *counts, name=name, dtype=self._dtype(value).name)
        self.made.append(Rows(value, nest, memory, is_within))
        return self.made[-1]

    def _is_whole(self, inner: Loop, outer: Loop) -> bool:
        """Whether each trip of `outer` enters `inner`, and each entry is one of a trip."""
        count, entry = self._count(outer), self._primal.preheader(inner)
        dominates = self._primal.dominators.dominates
        return count is not None and dominates(count.stay, entry) and dominates(entry, repeating(self._primal, outer))

    def _sizes(self, value: Value, nest: list[Loop]) -> list[Made] | None:
        """The trips of the loops of a nest and the extents of `value`, before the nest."""
        before = self._primal.preheader(nest[0])
        found: list[Made] = []
        for loop in nest:
            count = self._count(loop)
            last = count and number(self._primal, count.last, before)
            if count is None or last is None:
                return None
            found.append(functools.partial(_trips, count, last))
        for axis in range(value.type.rank):  # type: ignore[attr-defined]
            size = extent(self._primal, value, axis, before)
            if size is None:
                return None
            found.append(size)
        return found

    def _is_worth(self, value: Value, nest: list[Loop]) -> bool:
        """Whether the tape of a nest that is entered many times is more than a few numbers, and can be kept."""
        if self._primal.is_detached:
            return False
        if is_array(value.type):
            return True
        size = 1
        for loop in nest:
            count = self._count(loop)
            assert count is not None
            size *= count.last.value if isinstance(count.last, Literal) else _FEW + 1  # type: ignore[operator]
        return size > _FEW

    def _dtype(self, value: Value) -> DType:
        return I8 if value in self._control.small else value.type.dtype  # type: ignore[attr-defined]

    # -- the instructions --------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Emit the stores of all rows: once a trip, where all places come from."""
        for rows in self.made:
            place = rows.places[0]
            for other in rows.places[1:]:
                place = self._common(place, other)
            b = Builder(self._primal.function).before(place.instructions[-1])
            value = rows.value
            if isinstance(value, Instruction):
                b.loc = value.loc
                if value.block is place:
                    # what is read need not be held until the end of the block
                    b.after(value).loc = value.loc
            at = [self._index(b, loop) for loop in rows.loops]
            b.emit("store", narrowed(b, value, self._dtype(value)), b.emit("elementPointer", rows.memory, *at))

    def _index(self, b: Builder, loop: Loop) -> Value:
        """The number of the iteration, in the forward sweep."""
        count = self._count(loop)
        assert count is not None
        if count.index is not None:
            return count.index
        if count.is_down:
            return b.emit("subtract", count.last, count.argument)
        return b.emit("subtract", count.argument, literal(count.start))

    def _common(self, a: Block, b: Block) -> Block:
        """The last block that all paths to either pass."""
        dominators = self._primal.dominators
        at: Block | None = a
        while at is not None and not dominators.dominates(at, b):
            at = dominators.idom[at]
        assert at is not None
        return at

    def read(self, b: Builder, rows: Rows, memory: Value) -> Value:
        """The row of the iteration that is reversed."""
        value = rows.value
        place: Value = b.emit("elementPointer", memory, *(self._control.counters[loop] for loop in rows.loops))
        dtype = self._dtype(value)
        wanted = PointerType(TensorType(value.type.shape, dtype))  # type: ignore[attr-defined]
        if place.type != wanted:
            place = b.emit("pointerCast", place, to=wanted)
        return widened(b, b.emit("load", place, name=value.name), value)


def _trips(count: Counted, last: Made, b: Builder) -> Value:
    return count.trips(b, last(b))


def narrowed(b: Builder, value: Value, dtype: DType) -> Value:
    """A number as it lies on the tape."""
    return value if value.type.dtype is dtype else b.emit("dataTypeCast", value, to=dtype.name)  # type: ignore[attr-defined]


def widened(b: Builder, found: Value, value: Value) -> Value:
    """A number of the tape with the type of the value that it is."""
    if found.type == value.type:
        return found
    return b.emit("dataTypeCast", found, name=value.name, to=value.type.dtype.name)  # type: ignore[attr-defined]
