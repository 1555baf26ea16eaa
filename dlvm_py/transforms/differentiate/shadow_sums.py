"""Additions to adjoint memory, held back within a block so that each place is written once.

    u[1:-1] = 2 * u[1:-1]      (in reverse)      g = load %s; store 0 to %s; %t = load %s; store %t + 2 g to %s
                                           →     g = load %s; store 2 g to %s

Additions commute, so they may wait until somebody reads the memory. What waits for a place is either *added*
to it or, after the place was cleared, *set*. Entries leave in the order in which they came: an addition
to memory that overlaps a cleared place stands behind it. What is added at computed places (scatterAdd) goes there
by a scatter: no array of zeros is made for it. So goes what is added to a view in which an element may stand at several
places, as a view of windows that a branch has chosen.

In the block where the reverse sweep begins, which runs once, shadows hold zeros until something is written to them, in
any block those that are cleared as a whole: the first sum for one, or for a view of it, is stored, not added.
dead_store.py then takes the zeros away that nobody reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm_py.errors import Loc
from dlvm_py.frozen import Mutable, field
from dlvm_py.ir import OPS, Builder, Instruction, PointerType, Value
from dlvm_py.ir.analysis.alias import whole
from dlvm_py.transforms.differentiate.arguments import extents
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.differentiate.shadows import Shadows, zeros_like

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.places import PlacedShadows


class _Entry(Mutable, eq=False):
    pointer: Value
    amount: Value | None
    sets: bool
    loc: Loc | None
    scattered: list[Instruction] = field(default_factory=list)  # scatterAdds to come behind the amount


class ShadowSums:
    """What waits to be added to shadows in the block that `b` builds; `flush` before leaving it."""

    def __init__(self, b: Builder, primal: Primal, shadows: Shadows | PlacedShadows) -> None:
        self._b = b
        self._primal = primal
        self._shadows = shadows
        self._waiting: dict[Value, _Entry] = {}
        self._zero: set[Value] = set()  # the roots whose shadows hold zeros

    def begin(self) -> None:
        """The reverse sweep begins: all shadows that it owns are zero."""
        self._zero = set(self._shadows.buffers)

    def touch(self, pointer: Value) -> None:
        """Something is written to the shadow of `pointer`, past this object."""
        self._zero -= self._primal.points_to.roots(pointer)

    def add(self, pointer: Value, amount: Value) -> None:
        """The shadow of `pointer` += amount."""
        entry = self._waiting.get(pointer)
        if entry is None:
            entry = self._waiting[pointer] = _Entry(pointer, None, False, self._b.loc)
        if isinstance(amount, Instruction) and amount.op is OPS["scatterAdd"]:
            entry.scattered.append(amount)
        else:
            entry.amount = amount if entry.amount is None else self._b.emit("add", entry.amount, amount)

    def take(self, pointer: Value) -> Value | None:
        """What the shadow of `pointer` holds now, None for zero. To be followed by `clear` or `forget`."""
        if self._overlapping(pointer):
            self._flush_with(pointer)
        own = self._waiting.get(pointer)
        if own is not None and own.scattered:
            self._write(own)
            own = None
        if own is not None and own.sets:
            return own.amount
        if self._primal.points_to.roots(pointer) <= self._zero:
            return None if own is None else own.amount
        held: Value = self._b.emit("load", self._shadows.of(pointer))
        return held if own is None else self._b.emit("add", held, own.amount)  # type: ignore[arg-type]

    def clear(self, pointer: Value) -> None:
        """The shadow of `pointer` = 0."""
        self._flush_with(pointer)
        self._waiting[pointer] = _Entry(pointer, None, True, self._b.loc)

    def settle(self, pointer: Value) -> None:
        """Write all that waits for the memory of `pointer`."""
        entries = self._overlapping(pointer)
        for entry in list(self._waiting.values()):
            if entry in entries or entry.pointer is pointer:
                self._write(entry)
        self.touch(pointer)

    def forget(self, pointer: Value) -> None:
        """Nothing reads the shadow of `pointer` from here on."""
        self._waiting.pop(pointer, None)

    def flush(self) -> None:
        """Write all that waits; what comes then may write anything."""
        for entry in list(self._waiting.values()):
            self._write(entry)
        self._zero = set()

    def _overlapping(self, pointer: Value) -> list[_Entry]:
        roots = self._primal.points_to.roots(pointer)
        return [
            entry
            for other, entry in self._waiting.items()
            if other is not pointer and self._primal.points_to.roots(other) & roots
        ]

    def _flush_with(self, pointer: Value) -> None:
        """Write what waits for other views of the memory, and for this one if there are any, in order."""
        others = self._overlapping(pointer)
        for entry in list(self._waiting.values()):
            if others and (entry in others or entry.pointer is pointer):
                self._write(entry)
        self.forget(pointer)

    def _write(self, entry: _Entry) -> None:
        b, shadow = self._b, self._shadows.of(entry.pointer)
        loc, b.loc = b.loc, entry.loc
        amount = entry.amount
        if not entry.sets and amount is not None and self._primal.may_repeat(entry.pointer):
            b.emit("scatter", amount, shadow, *_places(b, shadow), by="add")
            amount = None
        elif entry.sets:
            amount = amount if amount is not None else zeros_like(b, shadow)
        elif amount is not None and not self._is_first(entry.pointer, amount):
            amount = b.emit("add", b.emit("load", shadow), amount)
        if amount is not None:
            b.emit("store", amount, shadow)
        for i in entry.scattered:
            value, *numbers = i.operands
            b.emit("scatter", value, shadow, *numbers[: len(numbers) // 2], by="add")
        b.loc = loc
        self.touch(entry.pointer)
        if entry.sets and entry.amount is None and not entry.scattered:
            roots = self._primal.points_to.roots(entry.pointer)
            if roots == {whole(entry.pointer)}:
                self._zero |= roots
        del self._waiting[entry.pointer]

    def _is_first(self, pointer: Value, amount: Value) -> bool:
        """Whether the amount is all that there is, for all elements of a pointer."""
        t = self._shadows.of(pointer).type
        is_zero = self._primal.points_to.roots(pointer) <= self._zero
        return is_zero and isinstance(t, PointerType) and amount.type == t.pointee


def _places(b: Builder, pointer: Value) -> list[Value]:
    """The indices of all elements, for each axis an array of the pointer's shape."""
    counts = extents(b, pointer)
    found = []
    for axis, n in enumerate(counts):
        numbers: Value = b.emit("iota", n)
        for k in range(len(counts)):
            if k != axis:
                numbers = b.emit("padShape", numbers, at=k)
        found.append(b.emit("broadcast", numbers, *counts))
    return found
