"""Product raising: before differentiation, the products that the trips of a loop make are products of matrices.

    'loop(%k: i64):  lessThan %k, %n                    'strips(%s: i64):  lessThan %s, %strips
    'body():                                            'product():
        check (lessThan %k, %m) else IndexError ...         %start = %s * 32;  %count = min (%n - %start), 32
        %c = section %x at (0, %k) count (%h, 1)            %last = %start + %count - 1
        %v = squeezeShape %c at 1                           %p = allocateHeap f64 count (%count, %n - %last)
        %d = section %x at (0, %k) count (%h, %n - %k)      %a = section %x at (0, %start) count (%h, %count)
        %y = dot (load %v), (load %d)                       %b = section %x at (0, %last) count (%h, %n - %last)
        store %y to (section of %out)                  =>   store (dot (transpose (load %a)), (load %b)) to %p
        branch 'loop(%k + 1)                                branch 'loop(0)
                                                        'loop(%t: i64):  lessThan %t, %count, else 'next
                                                        'body():
                                                            %k = add %start, %t
                                                            %y = allocateHeap f64 count (%n - %k)
                                                            store (dot (load %v), the first of %d) to its begin
                                                            store (load (elementPointer %p at %t)) to its end
                                                            store (load %y) to (section of %out)
                                                            branch 'loop(%t + 1)
                                                        'next():  branch 'strips(%s + 1)
    assumed: %n <= %m

What the derivative of a product of a vector and a matrix adds up in each trip, a product and an outer product, passes
over the whole matrix; of a strip's product they are two products of matrices. This is `hoist_products` (which says what
fits), with these differences: products of two vectors gain however they lie in memory; there is one version, so that
the derivative has one; and so nothing may be asked at run time. What would be, that no check before the product fails
in any trip, is assumed of the arguments (assume_extents.py), or the product stays as it is. And nothing is computed
that no trip has: its derivative would be zeros times what is in memory, infinities too. So of parts that begin later
from trip to trip the strip's product has what is in all of them, and a trip makes its own of the rest. Both loops
count from 0, as loops do whose tapes are dense. A loop whose counter is used behind it stays as well. Stage raw, after
extents are assumed.
"""

from __future__ import annotations

from dlvm_py.ir import Block, Builder, Function, Instruction, Target, Value, literal
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.value import integer
from dlvm_py.transforms import assume_extents
from dlvm_py.transforms.hoist_products import Hoist, Made, is_product
from dlvm_py.transforms.loop_versions import ends_in_header
from dlvm_py.transforms.substitution import substitute
from dlvm_py.transforms.trip_views import TripViews, Unfit

# trips whose products of vectors and matrices are made at a time
STRIP = 32


def may(function: Function) -> bool:
    """Whether a loop makes products, which is all that is raised."""
    if not any(map(is_product, function.instructions())):
        return False
    return any(is_product(i) for loop in LoopForest(function).loops for b in loop.ordered for i in b.instructions)


def run(function: Function, noalias_params: bool = True) -> bool:
    """Raise the products of the loops of `function`; whether there were any."""
    changed = False
    for header in [loop.header for loop in LoopForest(function).loops]:
        loop = next(found for found in LoopForest(function).loops if found.header is header)
        inner = {b for child in loop.children for b in child.blocks}
        found = [i for b in loop.ordered if b not in inner for i in b.instructions if is_product(i)]
        if found and [b for b, _ in loop.exit_edges()] == [header]:
            of = Independence(function, noalias_params)
            counted = of.counted[header] if sum(not loop.contains(b) for b, _ in of.edges[header]) == 1 else None
            if counted is not None and counted.step == 1:
                changed |= _Raise(of, counted).run(found)
    if changed:
        assume_extents.apply(function, function.meta.get(assume_extents.RELATIONS, ()))  # type: ignore[arg-type]
    return changed


class _Raise(Hoist):
    """The products of one loop."""

    def gains(self, pointers: list[Value]) -> bool:
        """What is differentiated always does."""
        return True

    def needs(self, p: Value, axis: int) -> None:
        """One term is enough."""

    def of_matrix(self, pointers: list[Value], views: TripViews) -> Made:
        """Of a matrix whose parts differ, what all trips of a strip have: from where the last one begins."""
        made = super().of_matrix(pointers, views)
        if made.window is None or made.window.part is None:
            return made
        is_left = pointers[0].type.rank == 2  # type: ignore[attr-defined]
        matrix = pointers[0 if is_left else 1]
        axis = 0 if is_left else 1
        if matrix.type.shape[axis] is not None:  # type: ignore[attr-defined]
            raise Unfit
        window = self.views_of_last.window(matrix, axis)
        right = views.b.emit("transpose", window.pointer) if is_left else window.pointer
        return Made((made.factors[0], right), window)

    def taken(
        self, b: Builder, copy: Instruction, of: Made, memory: Value, at: Value, mapping: dict[Value, Value]
    ) -> Value:
        """What a trip takes in the place of its product: of what only some trips have it makes its own product."""
        if of.window is None or of.window.part is None:
            return super().taken(b, copy, of, memory, at, mapping)
        begin, count = (mapping.get(v, v) for v in of.window.part)
        axis = 0 if copy.operands[0].type.rank == 2 else 1  # type: ignore[attr-defined]
        load = copy.operands[axis]
        assert isinstance(load, Instruction) and of.window.begin is not None
        there = Builder(self.function).before(load)
        there.loc = load.loc
        zero, one = literal(0), literal(1)
        apart = there.emit("min", count, there.emit("subtract", of.window.begin, begin))
        counts = [apart, there.emit("extent", load.operands[0], at=1 - axis)]
        near = there.emit("section", load.operands[0], zero, zero, *(counts if axis == 0 else counts[::-1]), one, one)
        operands = list(copy.operands)
        operands[axis] = there.emit("load", near)
        b = Builder(self.function).before(copy)
        b.loc = copy.loc
        whole = b.emit("allocateHeap", count, dtype=copy.type.dtype.name)  # type: ignore[attr-defined]
        b.emit("store", b.emit("dot", *operands), b.emit("section", whole, zero, apart, one))
        rest = b.emit("subtract", count, apart)
        far = b.emit("section", b.emit("elementPointer", memory, at), zero, rest, one)
        b.emit("store", b.emit("load", far), b.emit("section", whole, apart, rest, one))
        assert copy.block is not None
        copy.block.instructions.remove(copy)
        return b.emit("load", whole)

    def run(self, products: list[Instruction]) -> bool:
        """Raise what can be; whether anything can."""
        counted, loop, function = self.counted, self.loop, self.function
        if not ends_in_header(self.function, self.loop) or self._is_used_behind(counted.counter):
            return False
        trips = counted.last
        if integer(counted.first) != 0:
            trips = self.bounds.emit("subtract", trips, counted.first)
        strips, product = Block("strips"), Block("product")
        heads: dict[Value, Value] = {a: strips.add_arg(a.type, a.name) for a in loop.header.args}
        number = heads[counted.counter]
        b = Builder(function).at_end(product)
        b.loc = self.bounds.b.loc
        past = b.emit("multiply", number, literal(STRIP))
        start = past if integer(counted.first) == 0 else b.emit("add", past, counted.first)
        count = b.emit("min", b.emit("subtract", counted.last, start), literal(STRIP))
        views = TripViews(b, self.bounds, counted, start, count)
        last = b.emit("add", start, b.emit("subtract", count, literal(1)))
        self.views_of_last = TripViews(b, self.bounds, counted, last, count)
        made: dict[Instruction, Made] = {}
        around = [c for c in self.of.counted.values() if c is not None and c.step == 1 and c.loop is not loop]
        ends: dict[Value, tuple[Value, Value]] = {
            c.counter: (c.first, c.last) for c in around if c.loop.contains(loop.header)
        }
        for i in products:
            kept, checks = len(self.bounds.conditions), dict(self.checks)
            try:
                found = self.of_all_trips(i, views)
            except Unfit:
                del self.bounds.conditions[kept:]
                continue
            if assume_extents.assume(function, [self.bounds.condition()], ends):
                made[i] = found
            else:
                del self.bounds.conditions[kept:]
                self.checks = checks
        if not made:
            return False
        over = self.bounds.emit("add", trips, literal(STRIP - 1))
        strip_count = self.bounds.emit("floorDivide", over, literal(STRIP))
        own = self._count_from_zero(strips, product, heads, start, count, strip_count)
        sums: dict[Value, Value] = {}
        for i, of in made.items():
            b.loc = i.loc
            here = Builder(function).before(i)
            here.loc = i.loc
            sums[i] = self.taken(here, i, of, self.multiplied(b, i, of, count), counted.counter, {counted.counter: own})
        b.branch(loop.header, [literal(0) if a is counted.counter else v for a, v in heads.items()])
        for check in self.checks:
            if check.block is not None:
                check.block.instructions.remove(check)
        substitute(function.blocks, sums)
        return True

    def _is_used_behind(self, counter: Value) -> bool:
        ((_, k),) = self.loop.exit_edges()
        passed = self.loop.header.targets[k].args
        behind = (b for b in self.function.blocks if b not in self.loop.blocks)
        return counter in passed or any(counter in i.all_operands() for b in behind for i in b.instructions)

    def _count_from_zero(
        self, strips: Block, product: Block, heads: dict[Value, Value], start: Value, count: Value, strip_count: Value
    ) -> Value:
        """Put the loop over the strips around the loop, which counts the trips of one strip then.

        Returns what the counter was: the number of a trip.
        """
        counted, loop, function = self.counted, self.loop, self.function
        header, counter = loop.header, counted.counter
        at = header.args.index(counter)
        # the trip's own number, for all but the test and the next number
        b = Builder(function, header)
        b.position = 0
        b.loc = header.instructions[-1].loc
        own = b.emit("add", start, counter)
        test = header.instructions[-1]
        substitute([x for x in function.blocks if x in loop.blocks], {counter: own})
        assert isinstance(own, Instruction)
        own.operands = [start, counter]
        test.operands = [Builder(function).before(test).emit("lessThan", counter, count)]
        (latch,) = loop.latches
        back = latch.instructions[-1]
        more = Builder(function).before(back).emit("add", counter, literal(1))
        for target in back.targets:
            if target.block is header:
                target.args[at] = more
        ((_, k),) = loop.exit_edges()
        out = header.targets[k]
        behind = Block("next")
        function.blocks.insert(function.blocks.index(loop.ordered[-1]) + 1, behind)
        test.targets[k] = Target(behind, [])
        step = Builder(function).at_end(behind)
        step.loc = test.loc
        number = heads[counter]
        passed = [step.emit("add", number, literal(1)) if a is counter else a for a in header.args]
        step.branch(strips, passed)
        # before the loop
        ((before, way),) = ((p, n) for p, n in self.of.edges[header] if not loop.contains(p))
        enters = before.targets[way]
        gate = Block("gate")
        for i in self.ahead.instructions:
            gate.append(i)
        first = list(enters.args)
        first[at] = literal(0)
        before.targets[way] = Target(gate, [])
        Builder(function).at_end(gate).branch(strips, first)
        place = function.blocks.index(header)
        function.blocks[place:place] = [gate, strips, product]
        more_strips = Builder(function).at_end(strips)
        more_strips.loc = test.loc
        inside = more_strips.emit("lessThan", number, strip_count)
        old: dict[Value, Value] = dict(heads)
        more_strips.conditional(inside, product, [], out.block, [old.get(v, v) for v in out.args])
        outside = [x for x in function.blocks if x not in loop.blocks and x not in (behind, product, gate, strips)]
        substitute(outside, {a: v for a, v in heads.items() if a is not counter})
        return own
