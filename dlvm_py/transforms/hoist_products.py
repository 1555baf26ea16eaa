"""Product hoisting: the scalar products that the trips of a loop make are one matrix-vector product before it.

    'loop(%j: i64):  lessThan %j, %n                   'gate():  (no trip fails the check, and there is enough work)
    'body():                                               conditional ... then 'product() else 'loop(0)
        check (lessThan %j, %m) else IndexError ...    'product():
        %c = section %b at (0, %j) count (%k, 1) ...       %t = allocateHeap f64 count (%n: i64)
        %v = squeezeShape %c at 1                          %w = section %b at (0, 0) count (%k, %n) ...
        %s = dot (load %row), (load %v)           =>       store (dot (load %row), (load %w)) to %t
        %e = elementPointer %out at %i, %j                 branch 'fast_loop(0)
        store (add (load %e), %s) to %e                'fast_loop(%j: i64):  lessThan %j, %n
        branch 'loop(%j + 1)                           'fast_body():
                                                           %s = load (elementPointer %t at %j)
                                                           (the rest, without the check)
                                                       'loop(%j: i64):  (as it was)

A product that goes down a column reads a line of the cache for each of its terms; the next trip reads the same lines
again. The product of the vector and the matrix of all columns reads them once, and its sums are independent of each
other, which is what vector units want. NumPy gives no order to the sum of a product (docs/numbers.md).

Of the two vectors one is the same in all trips, the other one a view that moves by one element along an axis in each.
One of them does not lie side by side in memory (products of rows are fast as they are), and the matrix has rows or
columns that do. The loop counts up, is left at its head alone, and comes by the product in each trip; no trip writes
what a product behind it reads (`Independence.reads_what_was`). The checks before the product must hold in all trips,
as the ends of the loop say (loop_bounds.py): else, and where trips or terms are few, the loop runs as it was.
Stage compute, before `limit_counts`; once in a pipeline, since the slow loop is one that could be hoisted from.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, Kind, PointerType, Value, literal
from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.effects import may_trap
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.analysis.places import linear, place_of
from dlvm_py.transforms.literals import integer
from dlvm_py.transforms.loop_bounds import LoopBounds
from dlvm_py.transforms.loop_versions import remove_copies, second_version
from dlvm_py.transforms.substitution import substitute

LARGE = 150
# trips and terms from which on one product costs less than its parts
ENOUGH = 8


def run(function: Function, noalias_params: bool = True) -> bool:
    """Hoist the products of the loops of `function`; whether there were any to hoist."""
    changed = False
    for header in [loop.header for loop in LoopForest(function).loops]:
        if not any(_is_scalar_product(i) for i in function.instructions()):
            return changed
        # what is before the loops has changed, if anything: they are looked at anew
        loop = next(found for found in LoopForest(function).loops if found.header is header)
        inner = {b for child in loop.children for b in child.blocks}
        found = [i for b in loop.ordered if b not in inner for i in b.instructions if _is_scalar_product(i)]
        size = sum(len(b.instructions) for b in loop.ordered)
        if found and size <= LARGE and [b for b, _ in loop.exit_edges()] == [header]:
            of = Independence(function, noalias_params)
            counted = of.counted[header]
            if counted is not None and counted.step == 1:
                changed |= _Hoist(of, counted).run(found)
    return changed


def _is_scalar_product(i: Instruction) -> bool:
    is_scalar = i.op is OPS["dot"] and not i.type.shape  # type: ignore[attr-defined]
    return is_scalar and i.type.dtype.name in ("f32", "f64", "c64", "c128")  # type: ignore[attr-defined]


class _Unfit(Exception):
    """A product cannot be hoisted."""


class _Hoist:
    """The products of one loop."""

    def __init__(self, of: Independence, counted: CountedLoop) -> None:
        self.of, self.function, self.counted, self.loop = of, of.function, counted, counted.loop
        self.ahead = Block("")  # what will stand in the gate
        self.bounds = LoopBounds(Builder(self.function, self.ahead), of, self.loop)
        self.bounds.b.loc = self.loop.header.instructions[-1].loc
        self.checks: dict[Instruction, None] = {}  # that hold in all trips

    def run(self, products: list[Instruction]) -> bool:
        """Hoist what can be; whether anything can."""
        hoisted: dict[Instruction, list[Value]] = {}
        for i in products:
            try:
                hoisted[i] = self._of_all_trips(i)
            except _Unfit:
                continue
        if not hoisted:
            return False
        enough = self.bounds.emit("lessThanOrEqual", literal(ENOUGH), self._trips())
        condition = self.bounds.emit("and", self.bounds.condition(), enough)
        mapping: dict[Value, Value] = {}
        gate, fast = second_version(self.function, self.loop, mapping)
        remove_copies(self.checks, mapping)
        for each in self.ahead.instructions:
            gate.append(each)
        product = self.function.new_block("product", after=gate)
        passed: list[Value] = list(gate.args)
        Builder(self.function, gate).conditional(condition, product, [], self.loop.header, list(passed))
        b = Builder(self.function, product)
        sums: dict[Value, Value] = {}
        for i, pointers in hoisted.items():
            b.loc = i.loc
            copy = mapping[i]
            assert isinstance(copy, Instruction)
            sums[copy] = self._taken(copy, self._multiplied(b, i, pointers), mapping[self.counted.counter])
        b.branch(fast[0], list(passed))
        substitute(self.function.blocks, sums)
        return True

    def _trips(self) -> Value:
        first, last = self.counted.first, self.counted.last
        return last if integer(first) == 0 else self.bounds.emit("subtract", last, first)

    def _multiplied(self, b: Builder, i: Instruction, pointers: list[Value]) -> Value:
        """Memory with the products of all trips."""
        memory = b.emit("allocateHeap", self._trips(), dtype=i.type.dtype.name, name=i.name)  # type: ignore[attr-defined]
        b.emit("store", b.emit("dot", *(b.emit("load", p) for p in pointers)), memory)
        return memory

    def _taken(self, copy: Instruction, memory: Value, counter: Value) -> Value:
        """The element of a trip in the place of its product."""
        block = copy.block
        assert block is not None
        b = Builder(self.function).before(copy)
        b.loc = copy.loc
        at = counter if integer(self.counted.first) == 0 else b.emit("subtract", counter, self.counted.first)
        found = b.emit("load", b.emit("elementPointer", memory, at))
        block.instructions.remove(copy)
        return found

    # -- one product -------------------------------------------------------------------------------------

    def _of_all_trips(self, i: Instruction) -> list[Value]:
        """The vector and the matrix of all trips, as pointers before the loop; what must hold is noted."""
        assert i.block is not None
        if not all(self.of.dominators.dominates(i.block, latch) for latch in self.loop.latches):
            raise _Unfit
        loads = [v for v in i.operands if isinstance(v, Instruction)]
        pointers = [v.operands[0] for v in loads]
        if not self._gains(pointers) or not all(self.of.reads_what_was(self.loop, v) for v in loads):
            raise _Unfit
        wide = [self._wide(p) for p in pointers]
        if [axis is None for _, axis in wide].count(True) != 1:
            raise _Unfit
        traps = [
            c for b in self.loop.ordered for c in b.instructions
            if may_trap(c) and self.of.dominators.instruction_dominates(c, i)
        ]  # fmt: skip
        if not all(map(self.bounds.never_fails, traps)):
            raise _Unfit
        self.checks.update(dict.fromkeys(c for c in traps if c.op.kind is Kind.CHECK))
        ((vector, _), (matrix, axis)) = sorted(wide, key=lambda found: found[1] is not None)
        terms = self.bounds.emit("extent", vector, at=0)
        self.bounds.conditions.append(self.bounds.emit("lessThanOrEqual", literal(ENOUGH), terms))
        # a vector times columns
        return [vector, matrix if axis == 1 else self.bounds.emit("transpose", matrix)]

    def _gains(self, pointers: list[Value]) -> bool:
        """Whether an operand strides through memory, and rows or columns of the matrix of all trips do not."""
        found = {p: self._unit_axes(p) for p in pointers}
        if any(v is None or (not any(v) and self._moves(p)) for p, v in found.items()):
            return False
        return not all(along for v in found.values() if v is not None for along in v[:1])

    def _unit_axes(self, p: Value) -> tuple[bool, bool] | None:
        """Whether the terms of a vector lie side by side, and whether those of trip after trip do; None: not known."""
        place = place_of(p)
        assert isinstance(place.base.type, PointerType)
        layout = place.base.type.layout
        if layout not in ("C", "F") or not place.axes:
            return None
        axis = place.axes[-1 if layout == "C" else 0]
        if axis.start is None:
            return None
        return axis.count != 1 and axis.step == 1, self.counted.counter in axis.start.terms

    def _moves(self, p: Value) -> bool:
        return any(a.start is not None and self.counted.counter in a.start.terms for a in place_of(p).axes)

    # -- views -------------------------------------------------------------------------------------------

    def _wide(self, p: Value) -> tuple[Value, int | None]:
        """A view of the vectors of all trips, and the axis of the trips; of the same one in all of them None."""
        if is_outside(p, self.loop):
            return p, None
        if not isinstance(p, Instruction) or p.op.kind is not Kind.INDEX:
            raise _Unfit
        base, axis = self._wide(p.operands[0])
        match p.op.name:
            case "section":
                return self._section(p, base, axis)
            case "elementPointer" if not p.attrs.get("path"):
                return self._element(p, base, axis)
            case "squeezeShape":
                at = p.attrs["at"]
                if axis is None or at >= axis:
                    return self.bounds.emit("squeezeShape", base, at=at if axis is None else at + 1), axis
                return self.bounds.emit("squeezeShape", base, at=at), axis - 1
        raise _Unfit

    def _section(self, p: Instruction, base: Value, axis: int | None) -> tuple[Value, int | None]:
        rank = (len(p.operands) - 1) // 3
        starts, counts, steps = (list(p.operands[1 + k * rank : 1 + (k + 1) * rank]) for k in range(3))
        moving = [k for k, v in enumerate(starts) if self._steps_by_one(v)]
        if not moving:
            rows = [[*map(self._same, row)] for row in (starts, counts, steps)]
            if axis is not None:
                for row, v in zip(rows, (literal(0), self._trips(), literal(1)), strict=True):
                    row.insert(axis, v)
            return self.bounds.emit("section", base, *rows[0], *rows[1], *rows[2]), axis
        (at, *more) = moving
        if more or axis is not None or integer(counts[at]) != 1:
            raise _Unfit
        starts[at], counts[at], steps[at] = self._at_first(starts[at]), self._trips(), literal(1)
        wide = self.bounds.emit("section", base, *map(self._same, (*starts, *counts, *steps)))
        return self.bounds.emit("padShape", wide, at=at + 1), at

    def _element(self, p: Instruction, base: Value, axis: int | None) -> tuple[Value, int | None]:
        indices = list(p.operands[1:])
        if axis is not None and axis < len(indices):
            indices.insert(axis, literal(0))
        moving = [k for k, v in enumerate(p.operands[1:]) if self._steps_by_one(v)]
        if axis is None and not moving:
            return self.bounds.emit("elementPointer", base, *map(self._same, indices)), None
        if axis is None:
            (axis, *more) = moving
            if more:
                raise _Unfit
            indices[axis] = self._at_first(indices[axis])
        elif moving:
            raise _Unfit
        assert isinstance(base.type, PointerType)
        rest = range(len(indices), base.type.rank)
        starts = [*map(self._same, indices), *(literal(0) for _ in rest)]
        counts = [literal(1) for _ in indices] + [self.bounds.emit("extent", base, at=k) for k in rest]
        if axis < len(indices):
            counts[axis] = self._trips()
        wide = self.bounds.emit("section", base, *starts, *counts, *(literal(1) for _ in starts))
        for at in reversed([k for k in range(len(indices)) if k != axis]):
            wide = self.bounds.emit("squeezeShape", wide, at=at)
        return wide, axis - sum(k < axis for k in range(len(indices)))

    def _steps_by_one(self, v: Value) -> bool:
        """Whether an index goes up by 1 from trip to trip; `_Unfit` for others that change."""
        form = linear(v)
        by = form.terms.get(self.counted.counter, 0)
        if by not in (0, 1):
            raise _Unfit
        return by == 1

    def _at_first(self, v: Value) -> Value:
        """What an index that goes up by 1 is in the first trip."""
        bounds = self.bounds.of(v)
        form = linear(v)
        if bounds is None or any(self.bounds.again(x) is None for x in form.terms if x is not self.counted.counter):
            raise _Unfit
        return bounds[0]

    def _same(self, v: Value) -> Value:
        """A scalar that is the same in all trips, before the loop."""
        found = self.bounds.again(v)
        if found is None:
            raise _Unfit
        return found
