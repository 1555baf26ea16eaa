"""Growing products: of products that get longer from trip to trip, what a strip of trips shares is made at once.

    'loop(%j: i64):                                        'strips(%s: i64):  lessThan %s, %n, else 'joined
        conditional (lessThan %j, %n) then 'body()             branch 'product
                                      else 'exit()         'product():  %count = min (%n - %s), 32
    'body():                                                   %p = allocateHeap f64 count 32
        %u = section %row at (0) count (%j)                    %m = section %a at (0, %s) count (%s, %count)
        %s = section %a at (0, %j) count (%j, 1)      =>       store (dot (%row up to %s), (load %m)) to %p
        %v = squeezeShape %s at 1                              branch 'fast_loop(%s), which ends in 'strips
        %d = dot (load %u), (load %v)                      'fast_body():  ..
        store (subtract (load %e), %d) to %e                   %w = section %u at (%s) count (%j - %s)
        branch 'loop(%j + 1)                                   %x = section %v at (%s) count (%j - %s)
                                                               %d = add (load %p at %j - %s), (dot (load %w), (load %x))
                                                           'loop(%j: i64):  (as it was)

This is how triangular factors are computed: each element of a row is what earlier elements of that row, times a column,
leave of it. A column is in another line of the cache with each term. Where a strip of trips begins, most of the terms
of its products are final: they are the product of a vector with a matrix, which runs along rows (hoist_products.py). A
trip adds the few terms that the strip itself has made since. NumPy gives no order to the sum of a product
(docs/numbers.md); everything else is done as it was, and when it was.

Rows (`x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]`) gain too where they come from beyond the caches: what the hardware
reads ahead begins anew with each row, and the product of a strip has several rows under way, and threads that share it.

Both vectors begin at the same place in all trips, and are in no trip shorter than in the one before. One of them moves
by one element along another axis in each trip, the other one does not; that nothing raises before a product in any trip
is asked as of products that are hoisted. No trip writes what a later one has in common with the first one of its strip
(`Independence.reads_what_was`, from the trip on that begins a strip). The loop runs as it was where it has fewer than
two strips, or of rows fewer than ROWS. Stage compute, behind `hoist_products`, which takes what does not grow; once in
a pipeline, since the slow loop is one with such products.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, Value, literal
from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.transforms.hoist_products import Hoist, Made, loops_with_products
from dlvm_py.transforms.loop_versions import ends_in_header
from dlvm_py.transforms.trip_views import TripViews, Unfit

# trips of a strip
STRIP = 32
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
    """Views of what all trips of a strip have in common: what the first one has."""

    def fixed(self, op: str, *operands: Value, **attrs: object) -> Value:
        """A view that is the same in all trips of a strip."""
        return self.b.emit(op, *operands, **attrs)

    def length(self, v: Value) -> Value:
        """A length in the first trip, if no later one has a smaller one."""
        if self.bounds.again(v) is None and not self.rises(v):
            raise Unfit
        return self.at_start(v)


class _Growing(Hoist):
    """The growing products of one loop."""

    def __init__(self, of: Independence, counted: CountedLoop) -> None:
        super().__init__(of, counted)
        self.common: dict[Instruction, Value] = {}  # how much of what is loaded all trips of a strip have

    def run(self, products: list[Instruction]) -> bool:
        """Cut what can be; whether anything can."""
        views = self.views_of_strips(_CommonViews, STRIP)
        made = self.made(products, views)
        if made:
            has_columns = any(super(_Growing, self).gains([v.operands[0] for v in i.operands]) for i in made)  # type: ignore[attr-defined]
            self.replace(made, views, 2 * STRIP if has_columns else ROWS)
        return bool(made)

    def gains(self, pointers: list[Value]) -> bool:
        """Columns and rows do, from different numbers of trips on."""
        return True

    def stays(self, load: Instruction, views: TripViews) -> bool:
        """Whether no trip of a strip writes what the first one loads, of what a later one loads."""
        length = known_extent(load, 0)
        if not isinstance(length, Value):
            return False
        common = self.common[load] = views.length(length)
        part = _part(Builder(self.function, Block("")), load, literal(0), common)
        return self.of.reads_what_was(self.loop, load, views.start, part)

    def needs(self, p: Value, axis: int) -> None:
        """Of how many terms there are in the first strips nothing depends."""

    def multiplied(self, b: Builder, i: Instruction, of: Made, count: Value) -> Value:
        """Memory with what all trips of a strip have in common."""
        memory = b.emit("allocateHeap", literal(STRIP), dtype=i.type.dtype.name, name=i.name)  # type: ignore[attr-defined]
        to = b.emit("section", memory, literal(0), count, literal(1))
        b.emit("store", b.emit("dot", *(b.emit("load", p) for p in of.factors)), to)
        return memory

    def taken(
        self, b: Builder, copy: Instruction, of: Made, memory: Value, at: Value, mapping: dict[Value, Value]
    ) -> Value:
        """What a trip takes in the place of its product: what is made, and the product of the rest."""
        commons = {mapping[load]: n for load, n in self.common.items()}
        rest = []
        for load in copy.operands:
            length = known_extent(load, 0)
            assert isinstance(load, Instruction) and isinstance(length, Value)
            begin = commons[load]
            rest.append(b.emit("load", _part(b, load, begin, b.emit("subtract", length, begin))))
        new = b.emit("dot", *rest)
        return b.emit("add", super().taken(b, copy, of, memory, at, mapping), new)


def _part(b: Builder, load: Instruction, begin: Value, count: Value) -> Value:
    """A part of what a load of a vector looks at."""
    return b.emit("section", load.operands[0], begin, count, literal(1))
