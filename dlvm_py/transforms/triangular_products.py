"""Triangular products: loops whose products of vectors are those of a triangle make products of matrices.

    'rows(%i):                                            'gate():  conditional (no trip fails a check, and there
    'columns(%j):                                                       are enough) then 'strips(0) else 'rows(0)
        %v = column %i of %a behind row %i                'strips(%s):
        %w = column %j of %b behind row %i                    store (dot (transpose (load %rows)), (load %m)) to %p
        %d = dot (load %v), (load %w)             =>      'fast_rows(%t):
        store (add (load %e), %d) to %e                       %y = add (row %t of %p), (what trip %i has beyond that)
                                                          'fast_columns(%j):
                                                              store (add (load %e), (load (%y at %j))) to %e
                                                          'rows(%i):  (as it was)

That is what is done before differentiation (raise_products.py), to a second version of the outer loop: the products of
the inner loop are one vector times a matrix, and of these products, whose sums get longer or shorter from trip to trip
of the outer loop, SHORT trips make what they have in common as one product of matrices (common_terms.py). Nothing is
assumed: that no check before the products fails in any trip of either loop is asked before them, and that the outer
loop has two strips, and the inner one ENOUGH trips. Else both run as they were. Where only the inner loop's products
can be made at once, that is left to `hoist_products`. A loop whose trips have such a product of a vector and a matrix
as it is (`out[i] = a[i, i:] @ b[i:]`) needs no inner one. NumPy gives no order to the sum of a product
(docs/numbers.md).

Stage optimizable, before `bufferize`; once in a pipeline, since the slow loops are ones with such products.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, Value, literal
from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.value import integer
from dlvm_py.transforms.hoist_products import ENOUGH, LARGE, Made, is_product
from dlvm_py.transforms.loop_bounds import TRUE
from dlvm_py.transforms.loop_versions import ends_in_header, second_version
from dlvm_py.transforms.raise_products import SHORT, Raise
from dlvm_py.transforms.trip_views import TripViews


def run(function: Function, noalias_params: bool = True) -> bool:
    """Make such products of the loops of `function`; whether there were any."""
    changed = False
    for header in [loop.header for loop in LoopForest(function).loops]:
        if not any(map(is_product, function.instructions())):
            return changed
        loop = next(found for found in LoopForest(function).loops if found.header is header)
        of = Independence(function, noalias_params)
        if not _counts(function, of, loop):
            continue
        own = [i for i in _products(loop) if i.type.rank]  # type: ignore[attr-defined]
        nests = [child for child in loop.children if not child.children and _counts(function, of, child)]
        inner = next((n for n in nests if _fit(of, loop, n, _products(n))), None)
        if _fit(of, loop, loop, own) or inner is not None:
            _second(function, loop, inner, noalias_params)
            changed = True
    return changed


def _counts(function: Function, of: Independence, loop: Loop) -> bool:
    """Whether a loop counts up from 0, is entered from one block, and left at its head."""
    counted = of.counted[loop.header]
    if counted is None or counted.step != 1 or integer(counted.first) != 0:
        return False
    if loop.exiting_block is not loop.header or not ends_in_header(function, loop):
        return False
    entries = sum(not loop.contains(b) for b, _ in of.edges[loop.header])
    return entries == 1 and sum(len(b.instructions) for b in loop.ordered) <= LARGE


def _fit(of: Independence, outer: Loop, loop: Loop, products: list[Instruction]) -> bool:
    """Whether there are products in `loop` whose sums are of other length in other trips of the outer one.

    And nothing in the two loops writes what they read before they do. Of `outer` itself they are of a matrix.
    """
    return bool(products) and all(
        isinstance(v, Instruction)
        and v.op is OPS["load"]
        and _changes(v, v.type.rank - 1 if k == 0 else 0, outer)  # type: ignore[attr-defined]
        and of.reads_what_was(outer, v)
        and (loop is outer or of.reads_what_was(loop, v))
        and bool(i.type.rank) is (loop is outer)  # type: ignore[attr-defined]
        for i in products
        for k, v in enumerate(i.operands)
    )


def _products(loop: Loop) -> list[Instruction]:
    inner = {b for child in loop.children for b in child.blocks}
    return [i for b in loop.ordered if b not in inner for i in b.instructions if is_product(i)]


def _changes(load: Instruction, axis: int, loop: Loop) -> bool:
    length = known_extent(load, axis)
    return isinstance(length, Value) and not is_outside(length, loop)


def _second(function: Function, outer: Loop, inner: Loop | None, noalias_params: bool) -> None:
    """Write the version of a loop, or of two, that makes such products, if there is one."""
    gate, fast = second_version(function, outer, {})
    kept = [b for b in function.blocks if b not in fast]
    Builder(function, gate).branch(fast[0], list(gate.args))
    copies = dict(zip(outer.ordered, fast, strict=True))

    def counted(loop: Loop) -> tuple[Independence, CountedLoop]:
        of = Independence(function, noalias_params)
        found = of.counted[copies[loop.header]]
        assert found is not None
        return of, found

    ahead = None if inner is None else _Ahead(*counted(inner))
    if ahead is None or ahead.run(_products(ahead.loop)):
        strips = _Strips(*counted(outer), ahead, outer.header)
        products = [i for i in _products(strips.loop) if i.type.rank]  # type: ignore[attr-defined]
        if strips.run(products):
            return
    gate.instructions.clear()
    Builder(function, gate).branch(outer.header, list(gate.args))
    function.blocks[:] = kept


class _Ahead(Raise):
    """The products of the inner loop, made before it; under what condition is asked before the outer one."""

    condition: Value

    def assumed(self, products: list[Instruction], views: TripViews) -> dict[Instruction, Made]:
        """All products, if they can be made: under `condition`, which may change with the trip of the outer loop."""
        made = self.made(products, views)
        if len(made) < len(products):
            return {}
        self.bounds.conditions.append(self.bounds.emit("lessThanOrEqual", literal(ENOUGH), self.trips))
        self.condition = self.bounds.condition()
        return made


class _Strips(Raise):
    """The products of the outer loop; `slow` is the head of the loop that runs where they cannot be made."""

    def __init__(self, of: Independence, counted: CountedLoop, inner: _Ahead | None, slow: Block) -> None:
        super().__init__(of, counted)
        self.inner, self.slow = inner, slow
        self.condition: Value | None = None

    def assumed(self, products: list[Instruction], views: TripViews) -> dict[Instruction, Made]:
        """All products, if they can be made, with sums of different length."""
        inner = TRUE if self.inner is None else self.bounds.always(self.inner.condition)
        made = {} if inner is None else self.made(products, views)
        if inner is None or len(made) < len(products) or any(of not in self.common for of in made.values()):
            return {}
        enough = self.bounds.emit("lessThanOrEqual", literal(2 * SHORT), self.trips)
        self.bounds.conditions += [inner, enough]
        self.condition = self.bounds.condition()
        return made

    def enter(self, b: Builder, strips: Block, first: list[Value], args: list[Value]) -> None:
        """Choose between the strips and the loop as it was."""
        assert self.condition is not None
        b.conditional(self.condition, strips, first, self.slow, list(args))
