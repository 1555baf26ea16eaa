"""Growing products: of products that get longer from trip to trip, what a strip of trips shares is made at once.

    'loop(%j: i64):                                    'strips(%s: i64):  lessThan %s, %n, else 'joined
        conditional (lessThan %j, %n) then 'body()         branch 'product
                                      else 'exit()     'product():
    'body():                                               %start = min %s, (%n - 16)
        %u = section %row at (0) count (%j)                %p = allocateHeap f64 count 16
        %s = section %a at (0, %j) count (%j, 1)           %m = section %a at (0, %start) count (%s, 16)
        %v = squeezeShape %s at 1                 =>       store (dot (load %row up to %s), (load %m)) to %p
        %d = dot (load %u), (load %v)                      branch 'fast_loop(%s), which ends in 'strips
        store (subtract (load %e), %d) to %e           'fast_body():
        branch 'loop(%j + 1)                               %0 = load %p at (%j - %start)
                                                           conditional (lessThan %s, %j) then 'term() else 'then(%0)
                                                       'term():
                                                           %1 = add %0, (multiply (%row at %j - 1), (%a at %j - 1, %j))
                                                           %w = section %a at (%j - 1, %start) count (1, 16)
                                                           store (add (load %p), (multiply (%row at %j - 1), %w)) to %p
                                                           branch 'then(%1)
                                                       'then(%d):
                                                       'loop(%j: i64):  (as it was)

This is how triangular factors are computed: each element of a row is what earlier elements of that row, times a column,
leave of it. A column is in another line of the cache with each term. Where a strip of trips begins, most of the terms
of its products are final: they are the product of a vector with a matrix, which runs along rows (hoist_products.py). A
trip then adds the term that the one before has made to its own product, which is all that it has to wait for, and to
the products of all of its strip in memory, along a row again: where the next trip looks there, it has long been
written. Of rows, and where more than one term may be new, since the shorter of two slices counts, it takes the product
of what is new. The last strip begins early enough to be as long as the others; what is added for trips that are over,
nobody reads. NumPy gives no order to the sum of a product (docs/numbers.md); everything else is done as it was, and
when it was.

Rows (`x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]`) gain too where they come from beyond the caches: what the hardware
reads ahead begins anew with each row, and the product of a strip has several rows under way, and threads that share it.

Both vectors begin at the same place in all trips, and are in no trip shorter than in the one before. One of them moves
by one element along another axis in each trip, the other one does not; that nothing raises before a product in any trip
is asked as of products that are hoisted. No trip writes what a later one has in common with it, or with one before it
(`Independence.reads_what_was`, from any trip on). The loop runs as it was where it has fewer trips than a strip, or of
rows fewer than ROWS. Stage compute, behind `hoist_products`, which takes what does not grow; once in a pipeline, since
the slow loop is one with such products.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, Value, literal
from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.analysis.places import Linear, linear
from dlvm_py.transforms.hoist_products import Hoist, Made, loops_with_products
from dlvm_py.transforms.loop_bounds import LoopBounds
from dlvm_py.transforms.loop_versions import ends_in_header
from dlvm_py.transforms.trip_views import TripViews, Unfit

# trips of a strip, of columns, which gain from so many trips on, and of rows
STRIP, LONG = 16, 32
# trips from which on rows gain: those of fewer are in the second cache, or nearly
ROWS = 1024


def run(function: Function, noalias_params: bool = True) -> bool:
    """Cut the growing products of the loops of `function`; whether there were any."""
    changed = False
    for of, counted, products in loops_with_products(function, noalias_params):
        growing = [i for i in products if _changes(i, counted.loop)]
        if growing and ends_in_header(function, counted.loop):
            changed |= _Growing(of, counted).run(growing)
    return changed


def _changes(product: Instruction, loop: Loop) -> bool:
    """Whether it is one of two vectors in memory whose length is computed in the loop."""
    if product.type.rank or not all(isinstance(v, Instruction) and v.op is OPS["load"] for v in product.operands):  # type: ignore[attr-defined]
        return False
    lengths = [known_extent(v, 0) for v in product.operands]
    return any(isinstance(n, Value) and not is_outside(n, loop) for n in lengths)


class _CommonViews(TripViews):
    """Views of what `length` trips have in common, as long as it is in the trip in which the counter is `trip`."""

    def __init__(
        self, b: Builder, bounds: LoopBounds, counted: CountedLoop, trip: Value, start: Value, length: int
    ) -> None:
        super().__init__(b, bounds, counted, start, literal(length))
        self.trip = TripViews(b, bounds, counted, trip, self.count)

    def fixed(self, op: str, *operands: Value, **attrs: object) -> Value:
        """A view that is the same in all trips of a strip."""
        return self.b.emit(op, *operands, **attrs)

    def length(self, v: Value) -> Value:
        """A length in that trip, if no later one has a smaller one."""
        if self.bounds.again(v) is None and not self.rises(v):
            raise Unfit
        return self.trip.at_start(v)


class _Growing(Hoist):
    """The growing products of one loop."""

    def __init__(self, of: Independence, counted: CountedLoop) -> None:
        super().__init__(of, counted)
        self.common: dict[Instruction, Value] = {}  # how much of what is loaded all trips of a strip have
        self.columns: dict[Made, bool] = {}
        self.length = STRIP

    def run(self, products: list[Instruction]) -> bool:
        """Cut what can be; whether anything can."""
        strided = any(super(_Growing, self).gains([v.operands[0] for v in i.operands]) for i in products)  # type: ignore[attr-defined]
        self.length = STRIP if strided else LONG
        views = self.views_of_strips(self._views_of_strip, self.length)
        made = self.made(products, views)
        return bool(made) and self.replace(made, views, STRIP if any(self.columns.values()) else ROWS)

    def _views_of_strip(
        self, b: Builder, bounds: LoopBounds, counted: CountedLoop, trip: Value, count: Value
    ) -> _CommonViews:
        """Those of a strip that begins with `trip`: if it is the last one, and shorter, of trips before it as well."""
        start = b.emit("min", trip, b.emit("subtract", counted.last, literal(self.length)))
        return _CommonViews(b, bounds, counted, trip, start, self.length)

    def gains(self, pointers: list[Value]) -> bool:
        """Columns and rows do, from different numbers of trips on."""
        return True

    def of_vectors(self, pointers: list[Value], views: TripViews) -> Made:
        """The factors of what a strip has in common; whether they are columns is noted."""
        made = super().of_vectors(pointers, views)
        self.columns[made] = super().gains(pointers)
        return made

    def stays(self, load: Instruction, views: _CommonViews) -> bool:
        """Whether no trip of a strip writes what the first one loads, of what a later one loads."""
        length = known_extent(load, 0)
        if not isinstance(length, Value):
            return False
        common = self.common[load] = views.length(length)
        part = _part(Builder(self.function, Block("")), load, literal(0), common)
        return self.of.reads_what_was(self.loop, load, views.trip.start, part)

    def needs(self, p: Value, axis: int) -> None:
        """Of how many terms there are in the first strips nothing depends."""

    def taken(
        self, b: Builder, copy: Instruction, of: Made, memory: Value, at: Value, mapping: dict[Value, Value]
    ) -> Value:
        """What a trip takes in the place of its product: what is made, and the product of the rest."""
        loads = {load: n for load, n in self.common.items() if mapping[load] in copy.operands}
        if self.columns[of] and all(self._grows_by_one(load) for load in loads):
            return self._with_last_term(copy, loads, memory, at, mapping)
        rest = []
        for load, begin in loads.items():
            here = mapping[load]
            length = known_extent(here, 0)
            assert isinstance(here, Instruction) and isinstance(length, Value)
            rest.append(b.emit("load", _part(b, here, begin, b.emit("subtract", length, begin))))
        new = b.emit("dot", *rest)
        return b.emit("add", super().taken(b, copy, of, memory, at, mapping), new)

    def _grows_by_one(self, load: Instruction) -> bool:
        """Whether each trip has one term more than the one before."""
        length = known_extent(load, 0)
        form = linear(length) if isinstance(length, Value) else Linear(0)
        others = (v for v in form.terms if v is not self.counted.counter)
        return form.terms.get(self.counted.counter) == 1 and all(is_outside(v, self.loop) for v in others)

    def _with_last_term(
        self, copy: Instruction, loads: dict[Instruction, Value], memory: Value, at: Value, mapping: dict[Value, Value]
    ) -> Value:
        """A trip's sum; one that is not the first of its strip adds its last term to it, and to those in memory."""
        block = copy.block
        assert block is not None
        trip = mapping[self.counted.counter]
        term, then = (self.function.new_block(name, after=block) for name in ("term", "then"))
        k = block.instructions.index(copy)
        moved, block.instructions[k:] = block.instructions[k + 1 :], []
        for i in moved:
            then.append(i)
        total = then.add_arg(copy.type, "sum")
        b = Builder(self.function).at_end(block)
        b.loc = copy.loc
        so_far = b.emit("load", b.emit("elementPointer", memory, at))
        more = b.emit("lessThan", self.heads[self.counted.counter], trip)
        b.conditional(more, term, [], then, [so_far])
        b.at_end(term)
        start = b.emit("subtract", trip, at)
        own = _CommonViews(b, self.bounds, self.counted, trip, start, self.length)
        factors, here = [], []  # of all trips of the strip, and of this one
        for load in loads:
            view, axis = own.wide(load.operands[0])
            if axis == 0:
                view = b.emit("transpose", view)
            last = b.emit("elementPointer", view, b.emit("subtract", b.emit("extent", view, at=0), literal(1)))
            factors.append(b.emit("load", last))
            here.append(factors[-1] if axis is None else b.emit("load", b.emit("elementPointer", last, at)))
        own_sum = b.emit("add", so_far, b.emit("multiply", *here))
        b.emit("store", b.emit("add", b.emit("load", memory), b.emit("multiply", *factors)), memory)
        b.branch(then, [own_sum])
        return total


def _part(b: Builder, load: Instruction, begin: Value, count: Value) -> Value:
    """A part of what a load of a vector looks at."""
    return b.emit("section", load.operands[0], begin, count, literal(1))
