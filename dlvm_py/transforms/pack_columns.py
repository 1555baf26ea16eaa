"""Packed columns: what the trips of a loop read down columns, again and again, lies along rows of a transposed copy.

    'rows(%i):  lessThan %i, %n                         'gate():  conditional (%n >= 16 and ..) then 'pack else 'rows(0)
    ..                                                  'pack():
    'columns(%k):  lessThan %k, %w                          %t = allocateHeap f64 count (%w, %h)
    ..                                                      %x = section %a at (0, 0) count (%h, %w)
        %s = section %a at (0, %k) count (%c, 1)   =>       store (load (transpose %x)) to %t
        %v = squeezeShape %s at 1                           branch 'fast_rows(0)
        store (add (load %r), (load %v)) to %r          'fast_rows(%i): ..
        branch 'columns(%k + 1)                             %e = elementPointer %t at %k
                                                            %v = section %e at (0) count (%c)
                                                        'rows(%i):  (as it was)

Down a column each element is in another line of the cache, and nothing is a vector: `c[i, :i + 1] += a[:i + 1, k] * b`,
for all k and then all i, takes a third of the time with the copy. Elements are computed as before, in the order in
which they were: the same bits.

The copy has what is read and no more, as far as the bounds of indices say (loop_bounds.py), and each trip of the outer
loop reads it anew: the columns are those that a loop in it goes through, in each of its trips, and begin at the same
row. Where that loop stores columns, it is left to `widen_loops`. Nothing in the outer loop writes the array. What is
asked before it: that it has TRIPS trips, and that the copy has no more than LARGEST elements, of at least ROWS rows and
COLUMNS columns; else the loop runs as it was. Sums of products have passes of their own (hoist_products.py), and what
is read by single elements too (packed_rows.py). Stage compute, before `limit_counts`, as long as loops are left at
their heads alone; once in a pipeline, since the slow loop is one with such columns.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, PointerType, TensorType, Value, literal
from dlvm_py.ir.analysis.counted_loops import CountedLoop
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.places import linear, may_lie_side_by_side, section_parts
from dlvm_py.ir.value import integer
from dlvm_py.transforms.loop_bounds import LoopBounds
from dlvm_py.transforms.loop_versions import entered_with, second_version
from dlvm_py.transforms.packed_rows import stays, transposed
from dlvm_py.transforms.substitution import substitute

LARGE = 150  # instructions of a loop that gets a second version
TRIPS, ROWS, COLUMNS = 16, 16, 8  # from which on a copy pays
LARGEST = 1 << 22  # elements of a copy


class _Column(Frozen):
    """A view down a column of an array: `count` rows from `start` on, at `column`."""

    view: Instruction
    array: Value
    start: Value
    column: Value
    count: Value


def run(function: Function, noalias_params: bool = True) -> bool:
    """Pack what the loops of `function` read down columns; whether there was anything."""
    changed, done = False, set[Block]()
    for header in [loop.header for loop in LoopForest(function).loops if loop.children]:
        if header in done or not any(_column_of(i) for i in function.instructions()):
            continue
        of = Independence(function, noalias_params)
        loop = next(found for found in of.forest.loops if found.header is header)
        if _Pack(of, loop).run():
            changed = True
            done |= {other.header for other in of.forest.loops if loop.contains(other.header)}
    return changed


def _column_of(view: Instruction) -> _Column | None:
    """What it is, if it is a view down a column of a row-major array."""
    if view.op is not OPS["squeezeShape"] or view.attrs["at"] != 1:
        return None
    section = view.operands[0]
    if not isinstance(section, Instruction) or section.op is not OPS["section"]:
        return None
    array = section.operands[0]
    type = array.type
    if not isinstance(type, PointerType) or not isinstance(type.pointee, TensorType):
        return None
    if type.rank != 2 or type.layout != "C":
        return None
    (start, column), (count, width), (step, _) = section_parts(section)
    if integer(width) != 1 or integer(step) != 1:
        return None
    return _Column(view, array, start, column, count)


def _stores_rows(loop: Loop) -> bool:
    stores = [i.operands[1] for b in loop.ordered for i in b.instructions if i.op is OPS["store"]]
    arrays = [(p, p.type.rank) for p in stores if isinstance(p.type.pointee, TensorType)]  # type: ignore[attr-defined]
    return all(may_lie_side_by_side(p, rank - 1) for p, rank in arrays if rank)


class _Extent(Frozen):
    """Of an axis of a copy, where it begins in its array, and how many elements it has."""

    first: Value
    count: Value


class _Pack:
    """The columns that one loop reads in each of its trips."""

    def __init__(self, of: Independence, loop: Loop) -> None:
        self.of, self.function, self.loop = of, of.function, loop
        self.ahead = Block("")  # what will stand in the gate
        self.bounds = LoopBounds(Builder(self.function, self.ahead), of, loop)
        self.bounds.b.loc = loop.header.instructions[-1].loc

    def run(self) -> bool:
        """Write the version that reads copies; whether there are any."""
        loop, counted = self.loop, self.of.counted[self.loop.header]
        if counted is None or loop.exiting_block is not loop.header:
            return False
        if sum(len(b.instructions) for b in loop.ordered) > LARGE:
            return False
        columns = self._columns(counted)
        fits: dict[Value, tuple[_Extent, _Extent]] = {}
        for array in dict.fromkeys(c.array for c in columns):
            extents = self._extents([c for c in columns if c.array is array])
            if extents is not None:
                fits[array] = extents
        if not fits:
            return False
        emit = self.bounds.emit
        conditions = [emit("lessThanOrEqual", literal(TRIPS), self.bounds.trips(counted))]
        for rows, across in fits.values():
            conditions.append(emit("lessThanOrEqual", literal(ROWS), rows.count))
            conditions.append(emit("lessThanOrEqual", literal(COLUMNS), across.count))
            conditions.append(emit("lessThanOrEqual", emit("multiply", rows.count, across.count), literal(LARGEST)))
        self.bounds.conditions += conditions
        condition = self.bounds.condition()
        mapping: dict[Value, Value] = {}
        gate, fast = second_version(self.function, loop, mapping)
        for i in self.ahead.instructions:
            gate.append(i)
        pack = self.function.new_block("pack", after=gate)
        b = Builder(self.function).at_end(gate)
        b.loc = self.bounds.b.loc
        entered = entered_with(self.function, gate)
        b.conditional(condition, pack, [], loop.header, list(entered))
        b.at_end(pack)
        copies = {
            array: transposed(b, array, (rows.first, across.first), (rows.count, across.count))
            for array, (rows, across) in fits.items()
        }
        b.branch(fast[0], list(entered))
        views: dict[Value, Value] = {}
        for c in columns:
            if c.array in fits:
                views[mapping[c.view]] = self._view(c, copies[c.array], fits[c.array], mapping)
        substitute(fast, views)
        return True

    def _columns(self, counted: CountedLoop) -> list[_Column]:
        """The views down columns of arrays that stay as they are, of which a loop in each trip goes through columns."""
        instructions = [i for b in self.loop.ordered for i in b.instructions]
        found = [c for i in instructions if (c := _column_of(i)) is not None and self._is_read(c.view)]
        found = [c for c in found if stays(c.array, self.loop, self.of.alias)]
        inner = self._inner()
        counters = {of.counter for of in inner}
        again = {c.array for c in found if counters & linear(c.column).terms.keys()}
        return [c for c in found if c.array in again and self.bounds.again(c.start) is not None]

    def _inner(self) -> list[CountedLoop]:
        """The loops in this one that count and store along rows, if each trip comes by one of them."""
        found = [of for child in self.loop.children if _stores_rows(child) and (of := self.of.counted[child.header])]
        heads = {of.loop.header for of in found}
        pending, seen = [self.loop.header], {self.loop.header}
        while pending:
            block = pending.pop()
            if block in self.loop.latches:
                return []
            there = {t.block for t in block.targets if t.block in self.loop.blocks} - heads - seen
            pending += there
            seen |= there
        return found

    def _is_read(self, view: Instruction) -> bool:
        """Whether it is loaded, and not for products alone."""
        loads = self.of.users[view]
        if not all(i.op is OPS["load"] for i in loads):
            return False
        return any(user.op is not OPS["dot"] for i in loads for user in self.of.users[i])

    def _extents(self, columns: list[_Column]) -> tuple[_Extent, _Extent] | None:
        """What the columns of one array have of its rows, and of its columns; None where that cannot be said."""
        emit, array = self.bounds.emit, columns[0].array
        if all((n := integer(c.count)) is not None and n < ROWS for c in columns):
            return None
        rows: list[tuple[Value, Value]] = []
        across: list[tuple[Value, Value]] = []
        for c in columns:
            start, count, column = (self.bounds.of(v) for v in (c.start, c.count, c.column))
            if start is None or count is None or column is None:
                return None
            rows.append((start[0], emit("add", start[1], count[1])))
            across.append((column[0], emit("add", column[1], literal(1))))
        found = []
        for axis, pairs in enumerate((rows, across)):
            first, last = pairs[0]
            for low, high in pairs[1:]:
                first, last = emit("min", first, low), emit("max", last, high)
            if integer(first) is None:
                first = emit("max", first, literal(0))
            last = emit("min", last, emit("extent", array, at=axis))
            found.append(_Extent(first, emit("subtract", last, first) if integer(first) != 0 else last))
        return found[0], found[1]

    def _view(self, c: _Column, copy: Value, extents: tuple[_Extent, _Extent], mapping: dict[Value, Value]) -> Value:
        """The same elements in the copy."""
        view = mapping[c.view]
        assert isinstance(view, Instruction)
        b = Builder(self.function).before(view)
        b.loc = view.loc
        rows, across = extents
        start = _behind(b, mapping.get(c.start, c.start), rows.first)
        row = _behind(b, mapping.get(c.column, c.column), across.first)
        return b.emit("section", b.emit("elementPointer", copy, row), start, mapping.get(c.count, c.count), literal(1))


def _behind(b: Builder, index: Value, first: Value) -> Value:
    """An index, counted from another one."""
    if integer(first) == 0:
        return index
    same = index is first or integer(index) is not None and integer(index) == integer(first)
    return literal(0) if same else b.emit("subtract", index, first)
