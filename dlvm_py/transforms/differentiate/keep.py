"""Makes primal values available to the reverse sweep: as they are, computed again, or from the tape.

The generated reverse code refers to values of the forward sweep. For each such use, of value v (defined in
block B) in the reverse of block C:

* v is a parameter, or runs once and always: it is used as it is (but an array is read again if it can be);
* v is the adjoint memory of a temporary of B = C, or of one that each trip of a loop has: it is made in the reverse,
  there or where the reverse of a trip begins, as that of an array which a trip makes for the next (handed_on.py);
* v is cheap (remat.py, recompute.py): it is computed again, from values that are made available in the same way;
* B is in no loop, or C is in none: the last v is the right one; SSA repair brings it along;
* all loops around C contain B: v goes to a row of a dense tape where the loops around C have counts (dense.py), and is
  read there; else it is pushed at the end of C and popped at the start of C's reverse (once for several C: once.py);
* else v is constant in the outermost loop L around C without B: what holds for C holds for L's exit block
  instead, and the row is read, or the popped value lasts, through the reversed loop.

    'body(%i): %x = load …           'body(%i): %x = load …; push %x to %tape
               %y = sin %x      →    'body_adj: %x_kept = pop f64 from %tape
                                                %x_adj = multiply %y_adj, (cos %x_kept)

There is one stack a kept value and place, made at entry and destroyed before the return; one dense tape for all places
of a value that run once a trip.
"""

from __future__ import annotations

from dlvm_py.ir import (
    OPS,
    Block,
    Builder,
    Function,
    Instruction,
    Kind,
    Literal,
    PointerType,
    TensorType,
    Value,
    is_array,
)
from dlvm_py.ir.analysis.effects import unchecked
from dlvm_py.ir.analysis.extents import extent_at
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.types import I8, I64, scalar
from dlvm_py.ir.value import BlockArg
from dlvm_py.transforms.differentiate.arguments import entry_builder, extents
from dlvm_py.transforms.differentiate.checkpoint import Checkpoints
from dlvm_py.transforms.differentiate.control import Control
from dlvm_py.transforms.differentiate.dense import Nests, Rows, narrowed, widened
from dlvm_py.transforms.differentiate.handed_on import hand_on
from dlvm_py.transforms.differentiate.once import Once
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.differentiate.record import REFERENCE
from dlvm_py.transforms.differentiate.remat import Rematerialisation
from dlvm_py.transforms.differentiate.reverse import Sweep
from dlvm_py.transforms.differentiate.shadows import view_again, zeros_like
from dlvm_py.transforms.differentiate.temporaries import temporaries
from dlvm_py.transforms.ssa_repair import Variable, assignment


class Keeper:
    """Rewrites the uses of primal values in the reverse blocks of `sweep`, and adds the tape."""

    def __init__(self, primal: Primal, sweep: Sweep, control: Control, checkpoints: Checkpoints) -> None:
        self._primal = primal
        self._function: Function = primal.function
        self._control = control
        self._record = checkpoints.record
        self._nests = Nests(primal, control, checkpoints.loops)
        self._remat = Rematerialisation(primal)
        self._blocks = sweep.blocks
        self._forward = set(primal.function.blocks) - self._reverse_blocks(sweep)
        self._once = Once(primal, self._blocks, self._place)
        self._variables: dict[Value, Variable] = {}
        self._assigned: set[Value] = set()
        self._taped: set[tuple[Value, Block]] = set()
        self._stacks: dict[tuple[Value, Block], Value] = {}
        self._extents: dict[tuple[Value, int], Value] = {}
        self._slots: dict[Value, Value] = {}
        self._scratch = Builder(self._function, Block("scratch"))
        self._recorded: list[Rows] = []
        reversed_by = self._blocks_of_reverse()
        self._temporary, self._of_trip = temporaries(primal, sweep, reversed_by)
        self._handed, self._fills = ({}, []) if checkpoints.loops else hand_on(primal, sweep, reversed_by)

    @staticmethod
    def _reverse_blocks(sweep: Sweep) -> set[Block]:
        """The reverse blocks with those that `control` has added behind them."""
        found, work = set(), list(sweep.blocks.values())
        while work:
            block = work.pop()
            if block not in found:
                found.add(block)
                work.extend(block.successors())
        return found

    def _blocks_of_reverse(self) -> dict[Block, Block]:
        """Of each block of the reverse sweep the block that it reverses."""
        found = {reverse: block for block, reverse in self._blocks.items()}
        for reverse, block in list(found.items()):
            # the blocks of a many-way branch belong to the same place
            work = [reverse]
            while work:
                for following in work.pop().successors():
                    if following not in found:
                        found[following] = block
                        work.append(following)
        return found

    def run(self) -> None:
        """Do it."""
        behind: dict[Block, list[Block]] = {}
        for reverse, block in self._blocks_of_reverse().items():
            behind.setdefault(block, []).append(reverse)
        needed = {block: self._needed(reverse) for block, reverse in self._blocks.items()}
        kept = {block: self._remat.choose(block, values) for block, values in needed.items()}
        for block in self._blocks:
            shared = self._nests.shared(block, kept) | self._once.shared(block, kept)
            if shared:
                kept[block] = self._remat.choose(block, needed[block], shared)
        self._once.choose(kept)
        for block in self._blocks:
            for each in behind[block]:
                self._rewrite(block, each)
        self._nests.fill()
        for made in (*self._temporary.values(), *(trip.fill for trip in self._of_trip.values()), *self._fills):
            made.block.instructions.remove(made)  # type: ignore[union-attr]

    def _needed(self, reverse: Block) -> list[Value]:
        used = [o for i in reverse.instructions if i.op is not OPS["extent"] for o in i.operands]
        return [o for o in used if self._is_forward(o)]

    # -- one reverse block ---------------------------------------------------------------------------

    def _rewrite(self, block: Block, reverse: Block) -> None:
        old, reverse.instructions = reverse.instructions, []
        self._b = Builder(self._function, reverse)
        self._here = block
        self._known: dict[Value, Value] = {}
        for i in old:
            self._b.loc = i.loc
            if i.op is OPS["extent"] and self._is_forward(i.operands[0]):
                self._known[i] = self._extent(i.operands[0], i.attrs["at"], i)
                continue
            i.operands = [self._obtain(o) for o in i.operands]
            reverse.append(i)

    def _is_forward(self, value: Value) -> bool:
        return isinstance(value, BlockArg | Instruction) and value.block in self._forward

    def _obtain(self, value: Value) -> Value:
        if value in self._known:
            return self._known[value]
        if value in self._handed:
            return self._handed[value]
        if not self._is_forward(value):
            return value
        if self._is_view_of_handed(value):
            assert isinstance(value, Instruction)
            base, *indices = map(self._obtain, value.operands)
            self._known[value] = view_again(self._b, value, base, indices)
            return self._known[value]
        if self._is_used_directly(value):
            if is_array(value.type) and self._is_result(value):
                self._record.kept(value)
            return value
        if value in self._of_trip:
            self._made_in_trip(value)
            return self._variable(value)
        found = self._made_here(value) if value in self._temporary else self._repeat(value)
        if found is None:
            found = self._from_rows(value)
        if found is None and self._primal.is_split and is_array(value.type):
            # between the sweeps the memory that it was read from is in the hands of the caller
            found = self._b.emit("load", self._obtain(self._slot(value)))
        if found is None:
            self._make_available(value, self._here)
            return self._variable(value)
        self._known[value] = found
        return found

    def _is_view_of_handed(self, value: Value) -> bool:
        while isinstance(value, Instruction) and value.op.kind is Kind.INDEX and isinstance(value.type, PointerType):
            value = value.operands[0]
            if value in self._handed:
                return True
        return False

    @staticmethod
    def _is_result(value: Value) -> bool:
        """Whether it is a number or an array of the program that was computed: not an index, a view, something read."""
        return (
            isinstance(value, Instruction)
            and isinstance(value.type, TensorType)
            and value.type.dtype.is_inexact
            and value.op.kind not in (Kind.MEMORY, Kind.GENERATE, Kind.INDEX, Kind.STACK)
        )

    def _made_here(self, buffer: Value) -> Value:
        """Adjoint memory of a temporary, full of zeros."""
        assert isinstance(buffer, Instruction)
        counts = [self._obtain(n) for n in buffer.operands]
        made = self._b.emit("allocateHeap", *counts, name=buffer.name, **buffer.attrs)
        self._b.emit("store", zeros_like(self._b, made), made)
        return made

    def _made_in_trip(self, buffer: Value) -> None:
        """Adjoint memory of a temporary of a trip, full of zeros, made where the reverse of the trip begins."""
        if buffer in self._assigned:
            return
        self._assigned.add(buffer)
        assert isinstance(buffer, Instruction)
        trip = self._of_trip[buffer]
        b = Builder(self._function).before(trip.before.instructions[-1])
        b.loc = buffer.loc
        counts = [count(b) for count in trip.counts]
        b.block, b.position = self._blocks[trip.last], 0
        made = b.emit("allocateHeap", *counts, name=buffer.name, **buffer.attrs)
        b.emit("store", zeros_like(b, made), made)
        b.insert(assignment(self._variable(buffer), made))

    def _is_used_directly(self, value: Value) -> bool:
        if not self._remat.is_direct(value, self._here) or (self._primal.is_split and is_array(value.type)):
            return False
        # an array value that lives on into another block needs memory: what can be read again is not kept
        local = self._here is self._primal.exit.block and value.block is self._here  # type: ignore[attr-defined]
        return local or not (is_array(value.type) and self._remat.is_repeatable(value, self._here))

    def _repeat(self, value: Value) -> Value | None:
        """Compute `value` again here, None where it is to be kept."""
        induction = self._remat.induction(value, self._here)
        if induction is not None:
            return self._iteration(value, *induction)
        if isinstance(value, Instruction) and value.op is OPS["extent"]:
            return self._extent(value.operands[0], value.attrs["at"], value)
        if not self._remat.is_repeatable(value, self._here):
            return None
        assert isinstance(value, Instruction)
        part = self._remat.part(value, self._here)
        if part is not None:
            found = self._obtain(part.whole)
            for view in part.views:
                found = view_again(self._b, view, found, [self._obtain(o) for o in view.operands[1:]])
            return found
        stored = self._remat.stored_at(value, self._here)
        if stored is not None:
            return self._b.emit("load", self._obtain(stored), name=value.name)
        operands = [self._obtain(o) for o in value.operands]
        if value.op is OPS["section"]:
            return view_again(self._b, value, operands[0], operands[1:])
        if self._is_result(value):
            self._record.recomputed(value)
        # an overflow check that has passed once passes again
        attrs = unchecked(value)
        return self._b.emit(value.op, *operands, name=value.name, **attrs)

    def _iteration(self, value: Value, loop: Loop, first: Value, step: Value, way: str) -> Value:
        """first ± trip · step."""
        counter: Value = self._control.counters[loop]
        first, step = self._obtain(first), self._obtain(step)
        dtype = value.type.dtype  # type: ignore[attr-defined]
        if dtype is not I64:
            counter = self._b.emit("dataTypeCast", counter, to=dtype.name)
        one = isinstance(step, Literal) and step.value == 1
        if one and way == "add" and isinstance(first, Literal) and first.value == 0:
            return counter
        moved = counter if one else self._b.emit("multiply", counter, step)
        return self._b.emit(way, first, moved, name=value.name)

    # -- extents -------------------------------------------------------------------------------------

    def _extent(self, array: Value, axis: int, original: Instruction) -> Value:
        """An extent of a primal array without keeping the array."""
        if array in self._handed:
            return self._b.emit("extent", self._handed[array], name=original.name, at=axis)
        self._scratch.block.instructions.clear()  # type: ignore[union-attr]
        found = extent_at(self._scratch, array, axis)
        if isinstance(found, Literal):
            # the type of `original`'s users says that the extent is unknown: it must stay a computed value
            return self._kept_extent(array, axis)
        if not isinstance(found, Instruction) or found.block is not self._scratch.block:
            return self._obtain(found)
        leaf, at = found.operands[0], found.attrs["at"]
        if self._remat.is_direct(leaf, self._here) and not (self._primal.is_split and is_array(leaf.type)):
            return self._b.emit("extent", leaf, name=original.name, at=at)
        return self._kept_extent(leaf, at)

    def _kept_extent(self, array: Value, axis: int) -> Value:
        """An extent that is read in the forward sweep, right after the definition of `array`."""
        if (array, axis) not in self._extents:
            b = self._after(array)
            self._extents[array, axis] = b.emit("extent", array, at=axis)
        value = self._extents[array, axis]
        if self._remat.is_direct(value, self._here):
            return value
        self._make_available(value, self._here)
        return self._variable(value)

    def _after(self, value: Value) -> Builder:
        b = Builder(self._function)
        if isinstance(value, Instruction):
            return b.after(value)
        assert isinstance(value, BlockArg)
        b.block, b.position = value.block, 0
        return b

    # -- keeping -------------------------------------------------------------------------------------

    def _variable(self, value: Value) -> Variable:
        if value not in self._variables:
            self._variables[value] = Variable(value.type, value.name)
        return self._variables[value]

    def _place(self, value: Value, block: Block) -> Block | None:
        """Where `value` has to be kept, so that the reverse of `block` has the right one; None: anywhere, once."""
        home: Block = value.block  # type: ignore[attr-defined]
        loop = self._primal.loop_of(block)
        if self._primal.loop_of(home) is None or loop is None:
            return None
        if loop.contains(home):
            return block
        while loop.parent is not None and not loop.parent.contains(home):
            loop = loop.parent
        return self._place(value, self._primal.exits[loop])

    def _from_rows(self, value: Value) -> Value | None:
        """The row of a dense tape, None where `value` is on none."""
        place = self._place(value, self._here)
        rows = self._nests.rows(value, place) if place is not None else None
        if rows is None:
            return None
        if rows not in self._recorded:
            self._recorded.append(rows)
            self._record.stored(value, place, self._itemsize(value), None if rows.is_within else rows.loops[-1])
        return self._nests.read(self._b, rows, self._obtain(rows.memory))

    def _make_available(self, value: Value, block: Block) -> None:
        """See to it that the variable of `value` holds the right one in the reverse of `block`."""
        place = self._place(value, block)
        if place is not None:
            self._tape(value, self._once.place(value, place))
        elif value not in self._assigned:
            self._assigned.add(value)
            if is_array(value.type):
                self._record.stored(value)
            self._after(value).insert(assignment(self._variable(value), value))

    def _tape(self, value: Value, place: Block) -> None:
        if (value, place) in self._taped:
            return
        self._taped.add((value, place))
        kept = scalar(I8) if value in self._control.small else value.type
        if self._primal.is_split:
            stack = self._primal.tape(kept)
        else:
            stack = entry_builder(self._function).emit("createStack", name="tape", element=kept)
        b = Builder(self._function).before(place.instructions[-1])
        if self._nests.has_made(value):
            b.after(value)  # the rows of a nest that is entered next: what makes them pushes them
        b.loc = value.loc if isinstance(value, Instruction) else None
        b.emit("push", narrowed(b, value, kept.dtype) if kept is not value.type else value, stack)
        self._record.stored(value, place, self._itemsize(value))
        b.block, b.position = self._blocks[place], 0
        popped = widened(b, b.emit("pop", stack, name=value.name), value)
        b.insert(assignment(self._variable(value), popped))
        if not self._primal.is_split:
            self._stacks[value, place] = stack

    def _itemsize(self, value: Value) -> int | None:
        """The bytes of what is kept for `value`, where they are not those of its type."""
        if value in self._control.small:
            return I8.itemsize
        return REFERENCE if self._nests.has_made(value) else None

    def _slot(self, value: Value) -> Value:
        """Memory of its own for an array value, filled in the forward sweep."""
        if value not in self._slots:
            b = self._after(value)
            b.loc = value.loc if isinstance(value, Instruction) else None
            self._slots[value] = b.emit("allocateHeap", *extents(b, value), dtype=value.type.dtype.name)  # type: ignore[attr-defined]
            b.emit("store", value, self._slots[value])
        return self._slots[value]

    @property
    def stacks(self) -> list[Value]:
        """The stacks of the tape."""
        return list(self._stacks.values())
