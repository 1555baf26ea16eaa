"""Product hoisting: the products that the trips of a loop make are one product before it.

    'loop(%j: i64):  lessThan %j, %n                   'gate():  conditional (8 <= %n) then 'long() else 'loop(0)
    'body():                                           'long():  (no trip fails the check, and there are enough terms)
        check (lessThan %j, %m) else IndexError ...        conditional ... then 'product() else 'loop(0)
        %c = section %b at (0, %j) count (%k, 1) ...   'product():
        %v = squeezeShape %c at 1                          %t = allocateHeap f64 count (%n: i64)
        %s = dot (load %row), (load %v)           =>       %w = section %b at (0, 0) count (%k, %n) ...
        %e = elementPointer %out at %i, %j                 store (dot (load %row), (load %w)) to %t
        store (add (load %e), %s) to %e                    branch 'fast_loop(0)
        branch 'loop(%j + 1)                           'fast_loop(%j: i64):  lessThan %j, %n
                                                       'fast_body():
                                                           %s = load (elementPointer %t at %j)
                                                           (the rest, without the check)
                                                       'loop(%j: i64):  (as it was)

A product that goes down a column reads a line of the cache for each of its terms; the next trip reads the same lines
again. The product of the vector and the matrix of all columns reads them once, and its sums are independent of each
other, which is what vector units want. NumPy gives no order to the sum of a product (docs/numbers.md).

Of the two vectors one is the same in all trips, the other one a view that moves by one element along an axis in each.
One of them does not lie side by side in memory (products of rows are fast as they are), and the matrix has rows or
columns that do.

Products of a vector and a matrix are a product of matrices, which reads memory a few times instead of once a trip. The
vector moves; the matrix is the same in all trips, or begins later from trip to trip and ends at the same place, as in
`data[:, i] @ data[:, i:]`: then a trip takes its part of the row that is made for it (trip_views.py). So that little is
made for nothing, and needs memory, this goes on for STRIP trips at a time:

    'strips(%j: i64):  lessThan %j, %n, else 'joined       'product():  %count = min (%n - %j), 64
        branch 'product                                        %p = allocateHeap f64 count (%count, ...), ...
                                                               branch 'fast_loop(%j), which ends in 'strips

The loop counts up, is left at its head alone, and comes by the product in each trip; no trip writes what a product
behind it reads (`Independence.reads_what_was`). The checks before the product must hold in all trips, as the ends of
the loop say (loop_bounds.py): else, and where trips or terms are few, the loop runs as it was. Stage compute, before
`limit_counts`; once in a pipeline, since the slow loop is one that could be hoisted from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from dlvm_py.frozen import Frozen
from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, PointerType, Target, Value, literal
from dlvm_py.ir.analysis.counted_loops import CountedLoop
from dlvm_py.ir.analysis.effects import may_trap
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.analysis.places import place_of, unit_axis
from dlvm_py.ir.value import integer
from dlvm_py.transforms.loop_bounds import LoopBounds
from dlvm_py.transforms.loop_versions import ends_in_header, remove_copies, second_version
from dlvm_py.transforms.substitution import substitute
from dlvm_py.transforms.trip_views import TripViews, Unfit, Window

LARGE = 150
# trips and terms from which on one product costs less than its parts
ENOUGH = 8
# trips whose products of vectors and matrices are made at a time
STRIP = 64
_Views = TypeVar("_Views", bound=TripViews)


def run(function: Function, noalias_params: bool = True) -> bool:
    """Hoist the products of the loops of `function`; whether there were any to hoist."""
    changed = False
    for of, counted, products in loops_with_products(function, noalias_params):
        changed |= Hoist(of, counted).run(products)
    return changed


def loops_with_products(
    function: Function, noalias_params: bool
) -> Iterator[tuple[Independence, CountedLoop, list[Instruction]]]:
    """The loops that count up, are left at their heads alone and make products, which whoever asks may replace."""
    for header in [loop.header for loop in LoopForest(function).loops]:
        if not any(map(is_product, function.instructions())):
            return
        # what is before the loops has changed, if anything: they are looked at anew
        loop = next(found for found in LoopForest(function).loops if found.header is header)
        inner = {b for child in loop.children for b in child.blocks}
        found = [i for b in loop.ordered if b not in inner for i in b.instructions if is_product(i)]
        size = sum(len(b.instructions) for b in loop.ordered)
        if found and size <= LARGE and loop.exiting_block is header:
            of = Independence(function, noalias_params)
            counted = of.counted[header]
            if counted is not None and counted.step == 1:
                yield of, counted, found


def is_product(i: Instruction) -> bool:
    """Whether it is one of two vectors, or of a vector and a matrix, of a dtype that BLAS has."""
    is_small = i.op is OPS["dot"] and len(i.type.shape) < 2  # type: ignore[attr-defined]
    return is_small and i.type.dtype.name in ("f32", "f64", "c64", "c128")  # type: ignore[attr-defined]


class Made(Frozen):
    """The factors of the product of all trips; of which part of its rows a trip takes its product (of a matrix)."""

    factors: tuple[Value, Value]
    window: Window | None = None


class Hoist:
    """The products of one loop."""

    def __init__(self, of: Independence, counted: CountedLoop) -> None:
        self.of, self.function, self.counted, self.loop = of, of.function, counted, counted.loop
        self.ahead = Block("")  # what will stand in the gate
        self.bounds = LoopBounds(Builder(self.function, self.ahead), of, self.loop)
        self.bounds.b.loc = self.loop.header.instructions[-1].loc
        self.trips = self.bounds.trips(counted)
        self.checks: dict[Instruction, None] = {}  # that hold in all trips
        self.strips: Block | None = None  # where a strip begins, with what stands for the arguments of the loop's head
        self.heads: dict[Value, Value] = {}
        self.strip: Value = literal(0)  # how many trips it has

    def run(self, products: list[Instruction]) -> bool:
        """Hoist what can be; whether anything can."""
        vectors = [i for i in products if i.type.rank]  # type: ignore[attr-defined]
        scalars = [i for i in products if i not in vectors]
        if not vectors or not ends_in_header(self.function, self.loop):
            first = self.counted.first
            return self._hoisted(scalars, TripViews(self.bounds.b, self.bounds, self.counted, first, self.trips))
        views = self.views_of_strips(TripViews, STRIP)
        made = self.made(products, views)
        if not any(i in made for i in vectors):
            # without the strips that are of no use
            return bool(scalars) and Hoist(self.of, self.counted).run(scalars)
        return self.replace(made, views, ENOUGH)

    def _hoisted(self, products: list[Instruction], views: TripViews) -> bool:
        made = self.made(products, views)
        return bool(made) and self.replace(made, views, ENOUGH)

    def views_of_strips(
        self, kind: Callable[[Builder, LoopBounds, CountedLoop, Value, Value], _Views], length: int
    ) -> _Views:
        """Views of the trips of a strip, the `length` of which is less where no more trips are left."""
        strips = self.strips = Block("strips")
        self.heads = {a: strips.add_arg(a.type, a.name) for a in self.loop.header.args}
        b = Builder(self.function, Block(""))
        b.loc = self.bounds.b.loc
        start = self.heads[self.counted.counter]
        self.strip = b.emit("min", b.emit("subtract", self.counted.last, start), literal(length))
        return kind(b, self.bounds, self.counted, start, self.strip)

    def made(self, products: list[Instruction], views: TripViews) -> dict[Instruction, Made]:
        """The products that can be hoisted."""
        made: dict[Instruction, Made] = {}
        for i in products:
            try:
                made[i] = self.of_all_trips(i, views)
            except Unfit:
                continue
        return made

    def replace(self, made: dict[Instruction, Made], views: TripViews, least: int) -> bool:
        """Write the version that takes its products from memory, for `least` trips; False: there are fewer.

        A loop of few trips, which an outer one may enter often, asks how many there are, and nothing else.
        """
        known = integer(self.trips)
        if known is not None and known < least:
            return False
        b, start, count, strips = views.b, views.start, views.count, self.strips
        condition = self.bounds.condition()
        mapping: dict[Value, Value] = {}
        gate, fast = second_version(self.function, self.loop, mapping)
        remove_copies(self.checks, mapping)
        long = self.function.new_block("long", after=gate)
        for each in self.ahead.instructions:
            (gate if each is self.trips else long).append(each)
        product = self.function.new_block("product", after=long)
        passed: list[Value] = list(gate.args)
        asking = Builder(self.function, gate)
        asking.loc = self.bounds.b.loc
        enough = asking.emit("lessThanOrEqual", literal(least), self.trips)
        asking.conditional(enough, long, [], self.loop.header, list(passed))
        after: list[Value] = passed
        if strips is not None:
            for each in b.block.instructions:  # type: ignore[union-attr]
                product.append(each)
            self.function.blocks.insert(self.function.blocks.index(product), strips)
            after = list(strips.args)
            self._cut(fast[0], strips, product, mapping)
        Builder(self.function, long).conditional(
            condition, strips or product, passed if strips is not None else [], self.loop.header, list(passed)
        )
        b = Builder(self.function, product)
        sums: dict[Value, Value] = {}
        for i, of in made.items():
            b.loc = i.loc
            copy = mapping[i]
            assert isinstance(copy, Instruction)
            here = Builder(self.function).before(copy)
            here.loc = i.loc
            counter = mapping[self.counted.counter]
            at = counter if integer(start) == 0 else here.emit("subtract", counter, start)
            sums[copy] = self.taken(here, copy, of, self.multiplied(b, i, of, count), at, mapping)
        b.branch(fast[0], list(after))
        substitute(self.function.blocks, sums)
        return True

    def _cut(self, head: Block, strips: Block, product: Block, mapping: dict[Value, Value]) -> None:
        """Let the loop from `head` on end with its strip, and go on with the next one."""
        counter = mapping[self.counted.counter]
        test = head.instructions[-1]
        ((k, out),) = [(k, t) for k, t in enumerate(test.targets) if t.block.name == "joined"]
        old = {mapping[a]: v for a, v in self.heads.items()}
        more = Builder(self.function, strips)
        more.loc = test.loc
        start = self.heads[self.counted.counter]
        inside = more.emit("lessThan", start, self.counted.last)
        more.conditional(inside, product, [], out.block, [old.get(v, v) for v in out.args])
        end = Builder(self.function, product).emit("add", start, self.strip)
        test.operands = [Builder(self.function).before(test).emit("lessThan", counter, end)]
        test.targets[k] = Target(strips, list(head.args))

    def multiplied(self, b: Builder, i: Instruction, of: Made, count: Value) -> Value:
        """Memory with the products of all trips."""
        counts = [count]
        if of.window is not None:
            known = of.factors[1].type.shape[1]  # type: ignore[attr-defined]
            counts.append(b.emit("extent", of.factors[1], at=1) if known is None else literal(known))
        memory = b.emit("allocateHeap", *counts, dtype=i.type.dtype.name, name=i.name)  # type: ignore[attr-defined]
        b.emit("store", b.emit("dot", *(b.emit("load", p) for p in of.factors)), memory)
        return memory

    def taken(
        self, b: Builder, copy: Instruction, of: Made, memory: Value, at: Value, mapping: dict[Value, Value]
    ) -> Value:
        """What a trip takes in the place of its product, that of number `at` in memory."""
        place = b.emit("elementPointer", memory, at)
        if of.window is not None and of.window.part is not None:
            begin, count = (mapping.get(v, v) for v in of.window.part)
            assert of.window.begin is not None
            place = b.emit("section", place, b.emit("subtract", begin, of.window.begin), count, literal(1))
        if place.type.pointee != copy.type:  # type: ignore[attr-defined]
            place = b.emit("pointerCast", place, to=PointerType(copy.type, place.type.layout))  # type: ignore[attr-defined, arg-type]
        found = b.emit("load", place)
        assert copy.block is not None
        copy.block.instructions.remove(copy)
        return found

    # -- one product -------------------------------------------------------------------------------------

    def of_all_trips(self, i: Instruction, views: TripViews) -> Made:
        """The factors of the product of all trips; what must hold is noted."""
        assert i.block is not None
        if not all(self.of.dominators.dominates(i.block, latch) for latch in self.loop.latches):
            raise Unfit
        loads = [v for v in i.operands if isinstance(v, Instruction) and v.op is OPS["load"]]
        if len(loads) != 2:  # of what is computed there, before arrays are memory
            raise Unfit
        pointers = [v.operands[0] for v in loads]
        scalar = not i.type.rank  # type: ignore[attr-defined]
        if (scalar and not self.gains(pointers)) or not all(self.stays(v, views) for v in loads):
            raise Unfit
        traps = [
            c for b in self.loop.ordered for c in b.instructions
            if may_trap(c) and self.of.dominators.instruction_dominates(c, i)
        ]  # fmt: skip
        kept = len(self.bounds.conditions)
        if not all(map(self.bounds.never_fails, traps)):
            del self.bounds.conditions[kept:]
            raise Unfit
        made = self.of_vectors(pointers, views) if scalar else self.of_matrix(pointers, views)
        self.checks.update(dict.fromkeys(c for c in traps if c.op is OPS["check"]))
        return made

    def stays(self, load: Instruction, views: TripViews) -> bool:
        """Whether no trip that is one of `views` writes what a later one loads."""
        return self.of.reads_what_was(self.loop, load)

    def of_vectors(self, pointers: list[Value], views: TripViews) -> Made:
        """A vector times the columns of a matrix."""
        wide = [views.wide(p) for p in pointers]
        if [axis is None for _, axis in wide].count(True) != 1:
            raise Unfit
        ((vector, _), (matrix, axis)) = sorted(wide, key=lambda found: found[1] is not None)
        self.needs(vector, 0)
        return Made((vector, matrix if axis == 1 else views.b.emit("transpose", matrix)))

    def of_matrix(self, pointers: list[Value], views: TripViews) -> Made:
        """The vectors of all trips, rows, times a matrix."""
        is_left = pointers[0].type.rank == 2  # type: ignore[attr-defined]
        matrix, vector = pointers if is_left else pointers[::-1]
        rows, axis = views.wide(vector)
        if axis is None:
            raise Unfit
        window = views.window(matrix, 0 if is_left else 1)
        b = views.b
        return Made(
            (
                rows if axis == 0 else b.emit("transpose", rows),
                b.emit("transpose", window.pointer) if is_left else window.pointer,
            ),
            window,
        )

    def needs(self, p: Value, axis: int) -> None:
        """Note that enough terms are needed."""
        terms = self.bounds.emit("extent", p, at=axis)
        self.bounds.conditions.append(self.bounds.emit("lessThanOrEqual", literal(ENOUGH), terms))

    def gains(self, pointers: list[Value]) -> bool:
        """Whether an operand strides through memory, and rows or columns of the matrix of all trips do not."""
        found = {p: self._unit_axes(p) for p in pointers}
        if any(v is None or (not any(v) and self._moves(p)) for p, v in found.items()):
            return False
        return not all(along for v in found.values() if v is not None for along in v[:1])

    def _unit_axes(self, p: Value) -> tuple[bool, bool] | None:
        """Whether the terms of a vector lie side by side, and whether those of trip after trip do; None: not known."""
        axis = unit_axis(place_of(p))
        if axis is None or axis.start is None:
            return None
        return axis.count != 1 and axis.step == 1, self.counted.counter in axis.start.terms

    def _moves(self, p: Value) -> bool:
        return any(a.start is not None and self.counted.counter in a.start.terms for a in place_of(p).axes)
