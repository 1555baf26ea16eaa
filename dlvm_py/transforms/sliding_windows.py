"""Sliding windows: a stencil that updates its own array keeps some rows of its result in caches, not all of it.

    %t = allocateHeap f64 count (%n, %m)          conditional %is_large then 'borders() else 'whole()
    store (f %u[i - 1], %u[i], ..) to %t          'borders():   parallel %borders ...
    store (load %t) to %u                     =>  'border(%e):  of each band, the first DISTANCE rows and the last ones
                                                      store (f %u1[..], ..) to %kept1
                                                  'bands():     parallel %bands ...
                                                  'band(%b):    'step(%k):   of the rows between, strip by strip
                                                      store (f %u2[..], ..) to %window[%k % 2]
                                                      store (load %window[1 - %k % 2]) to %u3
                                                  ...           and what is kept, first and at last
                                                  'whole():     the two kernels as they were

`u[1:-1] = f(u)` computes all of its right side before it stores anything: what is stored must not be read by the rows
that come after. NumPy writes all of it to memory, and reads it again. Rows that are read are no farther away than a
fixed distance, so a strip of rows may be stored as soon as the next strip is computed: of two strips in turn, which
stay in the second cache. Threads take bands of rows. Of a band, the rows near its ends are computed before any band is
stored, and kept; the rows between read nothing of another band. Each element has the steps that it had: the same bits.

The two kernels stand alone in a block, with scalars, views and fresh memory between them that can run before; the
temporary has no other use. The first is elementwise, and stretches no rows, which is asked at run time where types do
not tell. What it reads that may overlap what the second writes are sections of the same array, row by row, and their
first row is a literal distance of at most DISTANCE from that of what is written. It pays from LARGE bytes on, if rows
are not too wide for the caches, which is asked at run time, too; not where functions like exp are what takes the time,
and not in long functions, since each kernel is written twice more: code takes 2.5 times as long to compile.
Where windows slide, the temporary has no rows; it is made before the choice, from where it may leave a loop
(hoist_buffers.py). Stage compute, behind share_loops. A second run changes nothing: what is left are versions, of which
one has its temporary in another block, and the others store no whole temporary.

Cost: linear in the kernels of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold
from math import prod

from dlvm_py.decisions import NEVER, Decisions
from dlvm_py.frozen import Mutable
from dlvm_py.ir.analysis import AliasAnalysis, uses
from dlvm_py.ir.analysis.cost import element_cost, is_function
from dlvm_py.ir.analysis.extents import extent_at
from dlvm_py.ir.analysis.places import Linear, linear, section_parts
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.tree_rules import kernels
from dlvm_py.ir.types import PointerType, is_array
from dlvm_py.ir.value import Instruction, Value, integer
from dlvm_py.transforms.kernel_versions import cut_out, elementwise, is_filled, over_rows, passes, section_of_rows
from dlvm_py.transforms.loop_nests import Loop, blocks_behind
from dlvm_py.transforms.share_loops import share
from dlvm_py.transforms.unroll_and_jam import LONG, ROWS

LARGE = 1 << 22  # bytes of a temporary: several times the cache that a core has for itself
STRIP = 1 << 17  # bytes of a strip of ROWS rows or more: two of them, and the rows that are read, are in that cache
WIDE = 1 << 17  # the most bytes of a row: of wider ones a strip is not in that cache
DISTANCE = ROWS  # rows, the most from one that is computed to one that is read for it
BAND = 16  # times the distance: the least rows of a band, of which some are computed apart
STRIPS = 4  # the least of a band
STEPS = 48  # the most of an element: beyond, computing is what takes the time
BANDS, EVEN = 64, 4  # the most, and of what they are a multiple: each core gets as many


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Let the updates in place of `function` slide; whether there were any."""
    if sum(len(block.instructions) for block in function.blocks) > LONG:
        return False
    decisions, changed = decisions or Decisions(), False
    blocks = list(function.blocks)
    while blocks:
        block = blocks.pop()
        update = _found(function, block, noalias_params)
        least = decisions.take("sliding_windows.least", LARGE, (LARGE << 3, NEVER)) if update is not None else NEVER
        if update is not None and least < NEVER:
            blocks.append(_Writer(function, block, update, least).write())
            changed = True
    return changed


class _Update(Mutable):
    """compute: stores what is to be stored to a temporary. copy: stores the temporary. distance: of rows.

    stretched: what is read that may have one row, which is stretched.
    """

    compute: Instruction
    copy: Instruction
    distance: int
    stretched: list[Value]

    @property
    def temporary(self) -> Instruction:
        return self.compute.operands[1]  # type: ignore[return-value]


def _copied(i: Instruction) -> Instruction | None:
    """The memory, of this function, that a store copies as it is."""
    value = i.operands[0] if i.op is OPS["store"] else None
    if not isinstance(value, Instruction) or value.op is not OPS["load"] or not is_array(value.type):
        return None
    t = value.operands[0]
    return t if isinstance(t, Instruction) and t.op is OPS["allocateHeap"] else None


def _found(function: Function, block: Block, noalias_params: bool) -> _Update | None:
    """The first update in place of a block."""
    if not any((t := _copied(i)) is not None and t.block is block for i in block.instructions):
        return None
    users, aliases = uses(function), AliasAnalysis(function, noalias_params)
    before: Instruction | None = None  # the last kernel, if it is a store alone, and nothing stands in the way since
    for kernel in kernels(block.instructions):
        first = kernel[0]
        if before is not None and _copied(first) is before.operands[1] and len(kernel) == 1:
            update = _update(before, first, users, aliases)
            if update is not None:
                return update
        if first.op is OPS["store"] and is_array(first.operands[0].type):
            before = first if len(kernel) == 1 else None
        elif before is not None and not (is_array(first.type) or passes(aliases, [before.operands[1]], first)):
            before = None
    return None


def _update(
    compute: Instruction, copy: Instruction, users: dict[Value, list[Instruction]], aliases: AliasAnalysis
) -> _Update | None:
    """Two kernels that compute and store what is to be stored, if windows may slide over them."""
    temporary, to, load = compute.operands[1], copy.operands[1], copy.operands[0]
    members = elementwise(compute.operands[0], may_stretch=True)
    if members is None or len(members) > STEPS or any(map(is_function, members)):
        return None
    if set(users[temporary]) != {compute, load} or users[load] != [copy]:
        return None
    pointers = [v.operands[0] for v in members if v.op is OPS["load"]]
    distance = _distance(pointers, to, aliases)
    if not distance or distance > DISTANCE or _is_small(temporary, distance):
        return None
    stretches = any(v.op is OPS["broadcast"] and not is_filled(v) for v in members)
    stretched = [p for p in pointers if stretches and p.type.shape[0] != 1]  # type: ignore[attr-defined]
    return _Update(compute, copy, distance, stretched)


def _distance(pointers: list[Value], to: Value, aliases: AliasAnalysis) -> int | None:
    """How many rows away from a row that is written the farthest is that is read for it; None: who knows, 0: none."""
    written = _rows_of(to)
    if written is None or any(p.type.layout == "F" for p in (*pointers, to)):  # type: ignore[attr-defined]
        return None
    base, start = written
    farthest = 0
    for p in pointers:
        if not aliases.may_overlap(p, to):
            continue
        read = _rows_of(p)
        if read is None or p.type.shape[0] == 1 or not aliases.same_elements(read[0], base):  # type: ignore[attr-defined]
            return None
        apart = read[1].plus(start, -1)
        if apart.terms:
            return None
        farthest = max(farthest, abs(apart.constant))
    return farthest if aliases.is_distinct(base) else None


def _is_small(temporary: Value, distance: int) -> bool:
    """Whether the extents tell that the array is not large."""
    assert isinstance(temporary, Instruction)
    counts = [integer(n) for n in temporary.operands]
    known = [n for n in counts if n is not None]
    few = counts[0] is not None and counts[0] < EVEN * BAND * distance
    return few or (len(known) == len(counts) and prod(known) * temporary.type.dtype.itemsize < LARGE)  # type: ignore[attr-defined]


def _rows_of(p: Value) -> tuple[Value, Linear] | None:
    """The array that a pointer has rows of, one after the other, and the first of them."""
    if not isinstance(p, Instruction) or p.op is not OPS["section"]:
        return p, Linear(0)
    starts, _, steps = section_parts(p)
    return (p.operands[0], linear(starts[0])) if integer(steps[0]) == 1 else None


class _Writer:
    """The two versions of an update, in new blocks behind its block."""

    def __init__(self, function: Function, block: Block, update: _Update, least: int) -> None:
        self.function, self.block, self.update, self.least = function, block, update, least
        self.b = Builder(function).at_end(block)
        self.far = literal(update.distance)

    def write(self) -> Block:
        """Cut the block; the block that what stood behind the update is in."""
        u = self.update
        borders, whole, behind = cut_out(self.function, self.block, [u.compute, u.copy], (), ("borders", "whole", ""))
        self._write_choice(borders, whole)
        self.b.at_end(borders)
        self._write_borders()
        self._write_bands()
        self.b.branch(behind)
        return behind

    def _write_choice(self, large: Block, whole: Block) -> None:
        """Ask for the sizes."""
        b, temporary = self.b, self.update.temporary
        b.loc = temporary.loc
        self.block.instructions.remove(temporary)
        self.count, *self.rest = temporary.operands
        size = self._product(literal(temporary.type.dtype.itemsize), *self.rest)  # type: ignore[attr-defined]
        fit = b.emit("floorDivide", literal(STRIP), b.emit("max", size, literal(1)))
        self.length = b.emit("max", fit, literal(ROWS))
        strips = b.emit("multiply", self.length, literal(STRIPS))
        self.least_rows = b.emit("max", literal(BAND * self.update.distance), strips)
        few = b.emit("multiply", self.least_rows, literal(EVEN))
        tests = [
            b.emit("greaterThanOrEqual", b.emit("multiply", size, self.count), literal(self.least)),
            b.emit("lessThanOrEqual", size, literal(WIDE)),
            b.emit("greaterThanOrEqual", self.count, few),
        ]
        tests += [b.emit("equal", extent_at(b, p, 0), self.count) for p in self.update.stretched]
        is_large = fold(lambda x, y: b.emit("and", x, y), tests)
        if integer(self.count) is None:
            temporary.operands = [b.emit("select", literal(0), self.count, is_large), *self.rest]
        b.insert(temporary)
        b.conditional(is_large, large, None, whole)

    def _write_borders(self) -> None:
        """Compute the first and the last rows of each band, into memory of their own."""
        b = self.b
        most = b.emit("min", b.emit("floorDivide", self.count, self.least_rows), literal(BANDS))
        self.bands = b.emit("multiply", b.emit("floorDivide", most, literal(EVEN)), literal(EVEN))
        count = b.emit("multiply", self.bands, literal(2))
        rows = b.emit("multiply", count, self.far)
        self.kept = self._memory(rows, "kept")
        share(b, self.block, count, lambda: self._cost(rows))
        borders = Loop(b, count, names=("border", "edge", "bands"))
        e = borders.index
        band = b.emit("floorDivide", e, literal(2))
        first, last = self._ends(band)
        is_last = b.emit("notEqual", e, b.emit("multiply", band, literal(2)))
        start = b.emit("select", b.emit("subtract", last, self.far), first, is_last)
        self._compute(start, self.far, self._rows(self.kept, b.emit("multiply", e, self.far), self.far))
        borders.close()

    def _write_bands(self) -> None:
        """Run each band: a step computes a strip of the rows between, then stores the one of the step before.

        What is kept of the first rows is stored in the first step; of the last rows in one behind all strips.
        """
        b = self.b
        share(b, self.block, self.bands, lambda: self._cost(self.count))
        bands = Loop(b, self.bands, names=("band", "begin", "slid"))
        start, stop = self._ends(bands.index)
        low, high = b.emit("add", start, self.far), b.emit("subtract", stop, self.far)
        between = b.emit("subtract", high, low)
        up = b.emit("subtract", b.emit("add", between, self.length), literal(1))
        strips = b.emit("floorDivide", up, self.length)
        last = b.emit("add", strips, literal(1))
        window = self._memory(b.emit("multiply", self.length, literal(2)), "window")
        steps = Loop(b, b.emit("add", last, literal(1)), names=("step", "more", "end"))
        k = steps.index

        def place(k: Value) -> tuple[Value, Value, Value]:
            """The first row of a strip, how many it has, and where they are."""
            at = b.emit("multiply", k, self.length)
            count = b.emit("min", self.length, b.emit("subtract", between, at))
            turn = b.emit("subtract", k, b.emit("multiply", b.emit("floorDivide", k, literal(2)), literal(2)))
            return b.emit("add", low, at), count, self._rows(window, b.emit("multiply", turn, self.length), count)

        rows, stored, kept, strip, next = blocks_behind(b, "rows", "stored", "kept", "strip", "next")
        b.conditional(b.emit("lessThan", k, strips), rows, None, stored)
        b.at_end(rows)
        self._compute(*place(k))
        b.branch(stored)
        b.at_end(stored)
        is_first, is_last = b.emit("equal", k, literal(0)), b.emit("equal", k, last)
        b.conditional(b.emit("or", is_first, is_last), kept, None, strip)
        b.at_end(kept)
        twice = b.emit("multiply", bands.index, literal(2))
        at = b.emit("add", twice, b.emit("select", literal(1), literal(0), is_last))
        of = self._rows(self.kept, b.emit("multiply", at, self.far), self.far)
        self._copy(b.emit("select", high, start, is_last), self.far, of)
        b.branch(next)
        b.at_end(strip)
        self._copy(*place(b.emit("subtract", k, literal(1))))
        b.branch(next)
        b.at_end(next)
        steps.close()
        bands.close()

    def _cost(self, rows: Value) -> Value:
        each = self._product(literal(max(1, element_cost(self.update.compute.operands[0]))), *self.rest)
        return self.b.emit("multiply", rows, each)

    def _ends(self, band: Value) -> tuple[Value, Value]:
        """The first row of a band, and of the next one."""
        b = self.b
        ends = (band, b.emit("add", band, literal(1)))
        first, last = (b.emit("floorDivide", b.emit("multiply", k, self.count), self.bands) for k in ends)
        return first, last

    def _product(self, *factors: Value) -> Value:
        return fold(lambda x, y: self.b.emit("multiply", x, y), factors)

    def _memory(self, rows: Value, name: str) -> Value:
        return self.b.emit("allocateHeap", rows, *self.rest, name=name, **self.update.temporary.attrs)

    def _rows(self, p: Value, start: Value, count: Value) -> Value:
        return section_of_rows(self.b, p, start, count)

    def _compute(self, start: Value, count: Value, to: Value) -> None:
        """Compute some rows of the result."""
        compute, rows = self.update.compute, self._of(start, count)
        self.b.loc = compute.loc
        self.b.emit("store", over_rows(self.b, compute.operands[0], rows, count, {}), to, **compute.attrs)

    def _copy(self, start: Value, count: Value, rows: Value) -> None:
        """Store some rows to where they belong."""
        copy = self.update.copy
        self.b.loc = copy.loc
        self.b.emit("store", self.b.emit("load", rows), self._of(start, count)(copy.operands[1]), **copy.attrs)

    def _of(self, start: Value, count: Value) -> Callable[[Value], Value]:
        """What gives those rows of an array, or an array whose row is that of all."""
        is_one = self.update.temporary.type.shape[0] == 1  # type: ignore[attr-defined]

        def rows(p: Value) -> Value:
            assert isinstance(p.type, PointerType)
            return p if p.type.shape[0] == 1 and not is_one else self._rows(p, start, count)

        return rows
