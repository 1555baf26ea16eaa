"""Product raising: before differentiation, the products that the trips of a loop make are products of matrices.

    'loop(%k: i64):  lessThan %k, %n                    'strips(%s: i64):  lessThan %s, %strips
    'body():                                            'product():
        check (lessThan %k, %m) else IndexError ...         %start = %s * 64;  %count = min (%n - %start), 64
        %c = section %x at (0, %k) count (%h, 1)            %last = %start + %count - 1
        %v = squeezeShape %c at 1                           %a = section %x at (0, %start) count (%h, %count)
        %d = section %x at (0, %k) count (%h, %n - %k)      %b = section %x at (0, %last) count (%h, %n - %last)
        %y = dot (load %v), (load %d)                       %p = allocateHeap f64 count (%count, %n - %last)
        store %y to (section of %out)                  =>   store (dot (transpose (load %a)), (load %b)) to %p
        branch 'loop(%k + 1)                                %e = section %x at (0, %start) count (%h, %last - %start)
                                                            %q = allocateHeap f64 count (%count, %last - %start)
                                                            conditional (%a and %e are finite)
                                                                        then 'square() else 'rows(0)
                                                        'square():
                                                            store (dot (transpose (load %a)), (load %e)) to %q
                                                        'rows(%t: i64):  (the same, of each trip what it has)
                                                        'loop(%t: i64):  lessThan %t, %count, else 'next
                                                        'body():
                                                            %k = add %start, %t
                                                            %y = allocateHeap f64 count (%n - %k)
                                                            store (load (part of %q at %t)) to its begin
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
that no trip has, unless it is finite: its derivative would be zeros times what is in memory, infinities too. So of
parts that begin later from trip to trip the strip's product has what is in all of them. What is before that is a
product as well where its factors are finite, of which each trip takes its part, else one product a trip. Both loops
count from 0, as loops do whose tapes are dense. A loop whose counter is used behind it stays as well.

Where the vectors are the columns of the matrix itself, as here, all of it is one product of a matrix with its own
transpose, which takes half the time of others and has one adjoint product for both factors (own_transposes.py):

    'product():  %a = section %x at (0, 0) count (%h, %n)         store (dot (transpose (load %a)), (load %a)) to %p
    'body():     %y = load (section (elementPointer %p at %k) at (%k) count (%n - %k))

That is where the loop also stores a row a trip, as long as this one, so that the program has memory as large anyway.
Each element is one that a trip takes, or the mirror image of one, where the parts begin with the column of their trip
and end where these end; else it is asked whether the matrix is finite, as above.

Products of two vectors are one number a trip: those of all trips are made before the loop, as a vector times a matrix.
Inner loops come first, so that such a product may be raised again by the loop around it. There, as in the products of
triangles, sums may get longer or shorter from trip to trip (common_terms.py): a strip of SHORT trips makes the terms
that all of them have as a product of matrices, and a trip adds the product of its others.

    %v = section %a at (%k + 1, %k) ...                    'product():
    %m = section %b at (%k + 1, 0) ...                         store (dot (transpose (load %rows)), (load %m)) to %p
    %y = dot (load (squeezeShape %v at 1)), (load %m)  =>  'body():
                                                               %o = dot (load (%v up to %last)), (load (%m too))
                                                               %y = add (load (elementPointer %p at %t)), %o

Stage raw, after extents are assumed.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir import Block, Builder, Function, Instruction, Target, Value, literal
from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.analysis.places import Axis, Linear, linear, parts_of, place_of, seen
from dlvm_py.ir.value import integer
from dlvm_py.transforms import assume_extents
from dlvm_py.transforms.common_terms import CommonTerms
from dlvm_py.transforms.hoist_products import Hoist, Made, is_product
from dlvm_py.transforms.loop_bounds import TRUE
from dlvm_py.transforms.loop_versions import ends_in_header
from dlvm_py.transforms.substitution import substitute
from dlvm_py.transforms.trip_views import TripViews, Unfit

# trips whose products of vectors and matrices are made at a time: so many that threads share them
STRIP = 64
# trips of a strip where their sums are of different length: what a trip has beyond the others is no product of matrices
SHORT = 16


def may(function: Function) -> bool:
    """Whether a loop makes products, which is all that is raised."""
    if not any(map(is_product, function.instructions())):
        return False
    return any(is_product(i) for loop in LoopForest(function).loops for b in loop.ordered for i in b.instructions)


def run(function: Function, noalias_params: bool = True) -> bool:
    """Raise the products of the loops of `function`; whether there were any."""
    changed = False
    for header in [loop.header for loop in reversed(LoopForest(function).loops)]:
        loop = next(found for found in LoopForest(function).loops if found.header is header)
        inner = {b for child in loop.children for b in child.blocks}
        found = [i for b in loop.ordered if b not in inner for i in b.instructions if is_product(i)]
        if found and loop.exiting_block is header:
            of = Independence(function, noalias_params)
            counted = of.counted[header] if sum(not loop.contains(b) for b, _ in of.edges[header]) == 1 else None
            if counted is not None and counted.step == 1:
                changed |= Raise(of, counted).run(found)
    if changed:
        assume_extents.apply(function, function.meta.get(assume_extents.RELATIONS, ()))  # type: ignore[arg-type]
    return changed


class _Rows(Frozen):
    """A loop that makes products trip by trip: its blocks, empty but for views, and its counter.

    factors: of a trip, a row and a matrix; place: where its product begins in the row of the trip, and its length.
    """

    head: Block
    row: Block
    trip: Value
    factors: tuple[Value, Value]
    place: tuple[Value, Value]


class _Parts(Frozen):
    """What a strip computes of a matrix whose parts differ from trip to trip.

    common: of the matrix what all trips have. rows: what each has before that.
    """

    common: Value
    rows: _Rows


class _Own(Frozen):
    """The product of a matrix with its own transpose, of which trips take parts of rows.

    columns: the factors. shift: how far behind the column of its trip a part begins. rows: the parts, None if trips
    take all that there is.
    """

    columns: tuple[Value, Value]
    shift: int
    rows: _Rows | None


def _own_columns(vector: Value, matrix: Value, axis: int, counted: CountedLoop) -> tuple[int, bool] | None:
    """Whether the vectors of the trips are the rows or columns of the matrix along `axis`, which begins there as well.

    How far behind the vector of its trip it begins, 0 or 1, and whether it is known to end where the vectors end.
    """
    (of, live), (place, axes) = seen(vector), seen(matrix)
    moving, at = axes[axis], axes[1 - axis]
    if of.base is not place.base or not is_outside(of.base, counted.loop) or parts_of(vector) != parts_of(matrix):
        return None
    if moving is None or at is None or live != [at]:
        return None
    if not all(_is_same(of.base, k, of.axes[k], place.axes[k]) for k in range(len(of.axes)) if k != moving):
        return None
    one, part = of.axes[moving], place.axes[moving]
    if one.start is None or part.start is None or one.count != 1 or part.step != 1 or part.length is None:
        return None
    end = one.start.plus(linear(counted.last)).plus(linear(counted.counter), -1)
    for begin in _begins(part.start, of.base, moving):
        apart = begin.plus(one.start, -1)
        if not apart.terms and apart.constant in (0, 1):
            return apart.constant, part.start.plus(linear(part.length)) == end
    return None


def _is_same(base: Value, axis: int, x: Axis, y: Axis) -> bool:
    """Whether two views take the same indices of an axis."""

    def is_all(length: Value | None) -> bool:
        whole = isinstance(length, Instruction) and length.op.name == "extent" and length.operands[0] is base
        return length is None or (whole and length.attrs["at"] == axis)  # type: ignore[attr-defined]

    if x.start is None or (x.start, x.count, x.step) != (y.start, y.count, y.step):
        return False
    return x.length is y.length or (is_all(x.length) and is_all(y.length))


def _begins(start: Linear, base: Value, axis: int) -> list[Linear]:
    """What a place is that an element of the axis is at, or right before: no more than the extent."""
    found = [start]
    for v in start.terms:
        if start != Linear(0, {v: 1}) or not isinstance(v, Instruction) or v.op.name != "min":
            continue
        for x, y in (v.operands, v.operands[::-1]):
            if isinstance(y, Instruction) and y.op.name == "extent" and y.operands[0] is base and y.attrs["at"] == axis:
                found.append(linear(x))
    return found


def _is_transpose(p: Value) -> bool:
    return isinstance(p, Instruction) and p.op.name == "transpose"


class Raise(Hoist):
    """The products of one loop."""

    def __init__(self, of: Independence, counted: CountedLoop) -> None:
        super().__init__(of, counted)
        self.parts: dict[Made, _Parts] = {}
        self.strip_length = STRIP
        self.is_whole = False  # whether it is all trips that products are made of, not those of a strip
        self.own: dict[Made, _Own] = {}
        self.common: dict[Made, CommonTerms] = {}
        self.before: dict[Made, tuple[Value, Value]] = {}  # what is before the common part, and how wide it is

    def gains(self, pointers: list[Value]) -> bool:
        """What is differentiated always does."""
        return True

    def needs(self, p: Value, axis: int) -> None:
        """One term is enough."""

    def of_matrix(self, pointers: list[Value], views: TripViews) -> Made:
        """Of a matrix whose parts differ, what all trips have stands by itself: from where the last one begins."""
        try:
            made = super().of_matrix(pointers, views)
        except Unfit:
            if self.is_whole:
                raise
            return self._of_common_terms(pointers, views)
        if made.window is None or made.window.part is None:
            return made
        is_left = pointers[0].type.rank == 2  # type: ignore[attr-defined]
        matrix, vector = pointers if is_left else pointers[::-1]
        axis = 0 if is_left else 1
        if matrix.type.shape[axis] is not None:  # type: ignore[attr-defined]
            raise Unfit
        if self.is_whole:
            self.own[made] = self._own(made, pointers, views)
            return made
        last = self.views_of_last.window(matrix, axis)
        assert last.begin is not None
        rows = self._rows(made, pointers, views, last.begin)
        common = views.b.emit("transpose", last.pointer) if is_left else last.pointer
        self.parts[made] = _Parts(common, rows)
        return made

    def _of_common_terms(self, pointers: list[Value], views: TripViews) -> Made:
        """What all trips have of products whose sums are of different length."""
        is_left = pointers[0].type.rank == 2  # type: ignore[attr-defined]
        matrix, vector = pointers if is_left else pointers[::-1]
        if not self._has_same_columns(matrix, 0 if is_left else 1):
            raise Unfit
        b = views.b
        common = CommonTerms(b, self.bounds, self.counted, views.start, views.count)
        (rows, axis), (right, moves) = common.wide(vector), common.wide(matrix)
        if axis is None or moves is not None or common.at_end is None:
            raise Unfit
        made = Made(
            (rows if axis == 0 else b.emit("transpose", rows), b.emit("transpose", right) if is_left else right)
        )
        self.common[made] = common
        return made

    def _has_same_columns(self, matrix: Value, axis: int) -> bool:
        """Whether what a matrix has along an axis is the same in all trips."""
        place, live = seen(matrix)
        at = live[axis]
        if at is None:
            return False
        start, length = place.axes[at].start, place.axes[at].length
        numbers = [*(() if start is None else start.terms), *(() if length is None else (length,))]
        return start is not None and all(self.bounds.again(v) is not None for v in numbers)

    def _own(self, made: Made, pointers: list[Value], views: TripViews) -> _Own:
        """The product of all columns that trips have, be it as vectors or as parts of the matrix."""
        is_left = pointers[0].type.rank == 2  # type: ignore[attr-defined]
        matrix, vector = pointers if is_left else pointers[::-1]
        axis = 0 if is_left else 1
        found = _own_columns(vector, matrix, axis, self.counted)
        if found is None:
            raise Unfit
        shift, ends_with_them = found
        rows, of_rows = made.factors[0], None
        if shift or not ends_with_them:
            emit = views.b.emit
            behind = emit("add", emit("min", views.count, literal(shift)), emit("extent", made.factors[1], at=1))
            width = emit("max", views.count, behind)
            wide, at = TripViews(views.b, self.bounds, self.counted, views.start, width).wide(vector)
            rows = wide if at == 0 else emit("transpose", wide)
            of_rows = self._rows(made, pointers, views, None)
        columns = rows.operands[0] if _is_transpose(rows) else views.b.emit("transpose", rows)  # type: ignore[attr-defined]
        return _Own((rows, columns), shift, of_rows)

    def _rows(self, made: Made, pointers: list[Value], views: TripViews, border: Value | None) -> _Rows:
        """What each trip has of the matrix, if it is one whose parts differ; before `border`, if that is said."""
        is_left = pointers[0].type.rank == 2  # type: ignore[attr-defined]
        matrix, vector = pointers if is_left else pointers[::-1]
        head, row = Block("rows"), Block("row")
        b = Builder(self.function).at_end(row)
        b.loc = views.b.loc
        trip = head.add_arg(views.start.type, "t")
        own = TripViews(b, self.bounds, self.counted, b.emit("add", views.start, trip), literal(1))
        left, at = own.wide(vector)
        window = own.window(matrix, 0 if is_left else 1)
        assert window.part is not None and window.begin is not None and made.window is not None
        assert made.window.begin is not None
        if at != 0:
            left = b.emit("transpose", left)
        right = b.emit("transpose", window.pointer) if is_left else window.pointer
        count = own.at_start(window.part[1])
        if border is not None:
            count = b.emit("min", count, b.emit("subtract", border, window.begin))
        count = b.emit("max", count, literal(0))
        zero, one = literal(0), literal(1)
        part = b.emit("section", right, zero, zero, b.emit("extent", right, at=0), count, one, one)
        begin = b.emit("subtract", window.begin, made.window.begin)
        return _Rows(head, row, trip, (left, part), (begin, count))

    def multiplied(self, b: Builder, i: Instruction, of: Made, count: Value) -> Value:
        """Memory with what all trips of a strip have in common, or with all of their products."""
        dtype = i.type.dtype.name  # type: ignore[attr-defined]
        if of in self.own:
            own = self.own[of]
            width = b.emit("extent", own.columns[1], at=1)
            memory = b.emit("allocateHeap", width, width, dtype=dtype, name=i.name)
            self._multiply(b, own.columns, memory, own.rows, count, own.shift)
            return memory
        if of in self.common:
            return self._multiplied_in_common(b, i, of, count)
        if of not in self.parts:
            return super().multiplied(b, i, of, count)
        parts, (rows, right) = self.parts[of], of.factors
        zero, one = literal(0), literal(1)
        width, far = (b.emit("extent", p, at=1) for p in (right, parts.common))
        near = b.emit("subtract", width, far)
        memory = b.emit("allocateHeap", count, far, dtype=dtype, name=i.name)
        b.emit("store", b.emit("dot", b.emit("load", rows), b.emit("load", parts.common)), memory)
        before = self.before[of] = b.emit("allocateHeap", count, near, dtype=dtype, name=i.name), near
        rest = b.emit("section", right, zero, zero, b.emit("extent", right, at=0), near, one, one)
        self._multiply(b, (rows, rest), before[0], parts.rows, count, 0)
        return memory

    def _multiplied_in_common(self, b: Builder, i: Instruction, of: Made, count: Value) -> Value:
        """Memory, as large in all strips, with the sums of what is common to all trips of one."""
        (known,), dtype = i.type.shape, i.type.dtype.name  # type: ignore[attr-defined]
        width = b.emit("extent", of.factors[1], at=1) if known is None else literal(known)
        memory = b.emit("allocateHeap", literal(self.strip_length), width, dtype=dtype, name=i.name)
        zero, one = literal(0), literal(1)
        rows = b.emit("section", memory, zero, zero, count, width, one, one)
        b.emit("store", b.emit("dot", *(b.emit("load", p) for p in of.factors)), rows)
        return memory

    def _multiply(
        self, b: Builder, factors: tuple[Value, Value], memory: Value, rows: _Rows | None, count: Value, shift: int
    ) -> None:
        """Store a product; where `rows` are all that trips take of it, those alone unless the factors are finite.

        shift: how far behind the place of a row in `memory` it stands.
        """
        if rows is None:
            b.emit("store", b.emit("dot", *(b.emit("load", p) for p in factors)), memory)
            return
        zero, one = literal(0), literal(1)
        square, behind = Block("square"), Block("multiplied")
        assert b.block is not None
        at = self.function.blocks.index(b.block) + 1
        self.function.blocks[at:at] = [square, rows.head, rows.row, behind]
        # in the order of memory, if one of them is
        asked = dict.fromkeys(p.operands[0] if _is_transpose(p) else p for p in factors)  # type: ignore[attr-defined]
        finite = [self._is_finite(b, p) for p in asked]
        b.conditional(finite[0] if len(finite) == 1 else b.emit("and", *finite), square, [], rows.head, [zero])
        b.at_end(square)
        b.emit("store", b.emit("dot", *(b.emit("load", p) for p in factors)), memory)
        b.branch(behind, [])
        b.at_end(rows.head)
        b.conditional(b.emit("lessThan", rows.trip, count), rows.row, [], behind, [])
        b.at_end(rows.row)
        begin, length = rows.place
        begin = b.emit("add", begin, literal(shift)) if shift else begin
        to = b.emit("section", memory, rows.trip, begin, one, length, one, one)
        b.emit("store", b.emit("dot", *(b.emit("load", p) for p in rows.factors)), to)
        b.branch(rows.head, [b.emit("add", rows.trip, one)])
        b.at_end(behind)

    def _is_finite(self, b: Builder, p: Value) -> Value:
        return b.emit("reduce", b.emit("isFinite", b.emit("load", p)), TRUE, by="and", axes=(0, 1))

    def taken(
        self, b: Builder, copy: Instruction, of: Made, memory: Value, at: Value, mapping: dict[Value, Value]
    ) -> Value:
        """What a trip takes in the place of its product: of what only some trips have, and of what all have."""
        if of in self.common:
            axes = [v.type.rank - 1 for v in copy.operands]  # type: ignore[attr-defined]
            axes[1] = 0
            own = self.common[of].others(b, list(copy.operands), axes, b.emit("extent", of.factors[1], at=0))  # type: ignore[arg-type]
            rest = b.emit("dot", *own)
            return b.emit("add", super().taken(b, copy, of, memory, at, mapping), rest)
        if of not in self.parts and of not in self.own:
            return super().taken(b, copy, of, memory, at, mapping)
        assert of.window is not None and of.window.part is not None and of.window.begin is not None
        begin, count = (mapping.get(v, v) for v in of.window.part)
        zero, one = literal(0), literal(1)
        offset = b.emit("subtract", begin, of.window.begin)
        assert copy.block is not None
        if of in self.own:
            if self.own[of].shift:
                offset = b.emit("add", offset, literal(self.own[of].shift))
            part = b.emit("section", b.emit("elementPointer", memory, at), offset, count, one)
            copy.block.instructions.remove(copy)
            return b.emit("load", part)
        square, near = self.before[of]
        apart = b.emit("max", b.emit("min", count, b.emit("subtract", near, offset)), zero)
        whole = b.emit("allocateHeap", count, dtype=copy.type.dtype.name)  # type: ignore[attr-defined]
        first = b.emit("section", b.emit("elementPointer", square, at), offset, apart, one)
        b.emit("store", b.emit("load", first), b.emit("section", whole, zero, apart, one))
        rest = b.emit("subtract", count, apart)
        far = b.emit("section", b.emit("elementPointer", memory, at), zero, rest, one)
        b.emit("store", b.emit("load", far), b.emit("section", whole, apart, rest, one))
        copy.block.instructions.remove(copy)
        return b.emit("load", whole)

    def run(self, products: list[Instruction]) -> bool:
        """Raise what can be; whether anything can."""
        counted, loop, function = self.counted, self.loop, self.function
        if not ends_in_header(self.function, self.loop) or self._is_used_behind(counted.counter):
            return False
        if self._is_of_vectors(products) or self._is_of_own_columns(products):
            return self._run_whole(products)
        self.strip_length = SHORT if any(map(self._changes, products)) else STRIP
        strips, product = Block("strips"), Block("product")
        heads: dict[Value, Value] = {a: strips.add_arg(a.type, a.name) for a in loop.header.args}
        number = heads[counted.counter]
        b = Builder(function).at_end(product)
        b.loc = self.bounds.b.loc
        length = literal(self.strip_length)
        past = b.emit("multiply", number, length)
        start = past if integer(counted.first) == 0 else b.emit("add", past, counted.first)
        count = b.emit("min", b.emit("subtract", counted.last, start), length)
        views = TripViews(b, self.bounds, counted, start, count)
        last = b.emit("add", start, b.emit("subtract", count, literal(1)))
        self.views_of_last = TripViews(b, self.bounds, counted, last, count)
        made = self.assumed(products, views)
        if not made:
            return False
        over = self.bounds.emit("add", self.trips, literal(self.strip_length - 1))
        strip_count = self.bounds.emit("floorDivide", over, length)
        own = self._count_from_zero(strips, product, heads, start, count, strip_count)
        sums: dict[Value, Value] = {}
        for i, of in made.items():
            b.loc = i.loc
            here = Builder(function).before(i)
            here.loc = i.loc
            sums[i] = self.taken(here, i, of, self.multiplied(b, i, of, count), counted.counter, {counted.counter: own})
        b.branch(loop.header, [literal(0) if a is counted.counter else v for a, v in heads.items()])
        self._remove_checks()
        substitute(function.blocks, sums)
        return True

    def _is_of_vectors(self, products: list[Instruction]) -> bool:
        """Whether the products of all trips are one number a trip, which takes no more memory than a row."""
        return integer(self.counted.first) == 0 and not any(i.type.rank for i in products)  # type: ignore[attr-defined]

    def _changes(self, product: Instruction) -> bool:
        """Whether its sums are of different length in different trips."""
        length = known_extent(product.operands[0], product.operands[0].type.rank - 1)  # type: ignore[attr-defined]
        return isinstance(length, Value) and self.bounds.again(length) is None

    def _is_of_own_columns(self, products: list[Instruction]) -> bool:
        """Whether all matrices are taken times their own rows or columns, and the trips store rows as long."""
        counted, function, loop = self.counted, self.function, self.loop
        matrices = [i for i in products if i.type.rank]  # type: ignore[attr-defined]
        if not matrices or integer(counted.first) != 0:
            return False
        for i in matrices:
            if not all(isinstance(v, Instruction) and v.op.name == "load" for v in i.operands):
                return False
            x, y = (v.operands[0] for v in i.operands)  # type: ignore[attr-defined]
            is_left = x.type.rank == 2
            if _own_columns(y if is_left else x, x if is_left else y, 0 if is_left else 1, counted) is None:
                return False
        stores = (i for b in function.blocks if b in loop.blocks for i in b.instructions if i.op.name == "store")
        return any(self._is_row_a_trip(i.operands[1]) for i in stores)

    def _is_row_a_trip(self, pointer: Value) -> bool:
        if pointer.type.pointee.shape != (None,):  # type: ignore[attr-defined]
            return False
        place = place_of(pointer)
        if not is_outside(place.base, self.loop):
            return False
        moves = [a.count == 1 and a.start is not None and self.counted.counter in a.start.terms for a in place.axes]
        return any(moves) and any(a.count is None for a in place.axes)

    def _run_whole(self, products: list[Instruction]) -> bool:
        """Make the products of all trips before the loop, which goes on as it does."""
        function, loop, counted = self.function, self.loop, self.counted
        self.is_whole = True
        b = self.bounds.b
        count = self.bounds.emit("max", self.trips, literal(0))
        views = TripViews(b, self.bounds, counted, counted.first, count)
        made = self.assumed(products, views)
        if not made:
            return False
        self.ahead.name = "product"
        ((before, way),) = ((p, n) for p, n in self.of.edges[loop.header] if not loop.contains(p))
        enters = before.targets[way]
        before.targets[way] = Target(self.ahead, [])
        function.blocks.insert(function.blocks.index(loop.header), self.ahead)
        sums: dict[Value, Value] = {}
        for i, of in made.items():
            b.loc = i.loc
            here = Builder(function).before(i)
            here.loc = i.loc
            memory = self.multiplied(b, i, of, count)
            sums[i] = self.taken(here, i, of, memory, counted.counter, {})
        b.branch(enters.block, enters.args)
        self._remove_checks()
        substitute(function.blocks, sums)
        return True

    def enter(self, b: Builder, strips: Block, first: list[Value], args: list[Value]) -> None:
        """End the block before the strips, which take `first`; args: what the loop took."""
        b.branch(strips, first)

    def assumed(self, products: list[Instruction], views: TripViews) -> dict[Instruction, Made]:
        """The products that can be raised, under what is assumed for them."""
        function, loop = self.function, self.loop
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
        return made

    def _remove_checks(self) -> None:
        for check in self.checks:
            if check.block is not None:
                check.block.instructions.remove(check)

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
        passed: list[Value] = [step.emit("add", number, literal(1)) if a is counter else a for a in header.args]
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
        self.enter(Builder(function).at_end(gate), strips, first, enters.args)
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
