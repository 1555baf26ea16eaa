"""Contractions: sums of products in registers, four rows and two vectors at a time.

    to[o..., i, j] = sum over r... of a[o..., i, r...] * b[o..., r..., j]         (any strides, windows too)

`@dlvm.contract.T` does them all: a call says extents and strides, of up to three axes o that are kept around the axis i
of the rows and the axis j of the vectors, and up to four axes r that are summed; others have extent 1. Before it starts
axes that lie one behind the other in both become one. Then, for four i and two vectors of j, it goes along r with eight
sums in registers: each element of b is read once for four rows, each element of a once for two vectors. What is
left of j is masked, rows that are not there repeat the last one. Where j has other strides than that of an element,
one column is computed after the other.

    to[o..., i, j] = sum over r... of a[r...] * b[o..., i, r..., j]               `@dlvm.contract_windows.T`

is the same with rows of b in the place of those of a: each element of a is read once for four rows and two vectors,
and what is read of b is what other rows and vectors, of windows that overlap, have just read.

An element is the sum in the order of r, in pieces of at most PIECE terms each of which begins at 0: the bits depend on
the extents (and on which axes lie one behind the other), not on threads. Products are fused into the sums, as in `dot`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import multiply_add
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.kernels import nest, shared_nest
from dlvm_py.backend.cpu.lanes import splat
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.trees import tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, i64
from dlvm_py.frozen import Mutable
from dlvm_py.ir import DType, Instruction, Value, is_array
from dlvm_py.ir.contractions import OUTER, REDUCED, Contraction, Factor, contraction

ROWS, VECTORS, BYTES = 4, 2, 32  # of what registers hold
PIECE = 1024  # terms of one sum
# tenths of nanoseconds of one product, in vectors
COST = 1


def fits(i: Instruction) -> Contraction | None:
    """A reduce as a contraction whose factors are in memory, or numbers; None for others."""
    found = contraction(i)
    if found is None:
        return None
    cores = [f.core for f in (found.first, found.second)]
    if not all(not is_array(c.type) or (isinstance(c, Instruction) and c.op.name == "load") for c in cores):
        return None
    return found


def store_contraction(e: FunctionEmitter, i: Instruction, c: Contraction, dest: Pointer) -> V:
    """Write a contraction to `dest`; the work."""
    extents = tree_extents(e, i.operands[0])
    kept = [k for k in range(len(extents)) if k not in i.attrs["axes"]]
    to = dict(zip(kept, strides_of(e, dest), strict=True))
    a, a_steps = _operand(e, c.first, extents, dest.dtype)
    b, b_steps = _operand(e, c.second, extents, dest.dtype)
    work = e.product(extents)
    order = [*c.outer, c.block]
    name = contract_function(e, dest.dtype, c.in_all_windows)
    with shared_nest(e, order, extents, len(order) + 1, COST, work) as part:
        counts, data = list(extents), [a, b, dest.data]
        if part is not None:
            shared = next(k for k in order if extents[k] != ONE)
            counts[shared] = e.op("sub nuw nsw", part[1], part[0])
            steps = (a_steps[shared], b_steps[shared], to[shared])
            data = [offset(e, p, [part[0]], [step]) for p, step in zip(data, steps, strict=True)]
        rows = [[ONE, ZERO, ZERO, ZERO]] * (OUTER - len(c.outer))
        rows += [[counts[k], a_steps[k], b_steps[k], to[k]] for k in (*c.outer, c.block, c.vector)]
        rows += [[ONE, ZERO, ZERO, ZERO]] * (REDUCED - len(c.reduced))
        rows += [[counts[k], a_steps[k], b_steps[k], ZERO] for k in c.reduced]
        numbers = [n for row in rows for n in row]
        table = e.alloca(f"[{len(numbers)} x i64]", 16)
        for k, n in enumerate(numbers):
            e.store(n, e.gep("i64", table, i64(k)))
        e.call(f"@{name}", "void", [*data, table])
    return e.op("ashr", work, i64(3))


def is_finite(e: FunctionEmitter, partial: Value) -> V:
    """Whether all numbers of a factor are finite; of windows, of all that they look at."""
    if not is_array(partial.type):
        return _finite(e, e.scalar(partial))
    assert isinstance(partial, Instruction)
    at = partial.operands[0]
    while isinstance(at, Instruction) and at.op.name in ("windows", "squeezeShape", "padShape", "transpose"):
        at = at.operands[0]
    p = e.pointer(at)
    index: dict[int, V] = {}
    found = e.alloca("i1", 1)
    e.store(V("i1", "true"), found)
    order, extents, strides = list(range(p.rank)), p.extents, strides_of(e, p)
    if p.layout == "C":
        order, extents, strides = [0], (e.product(p.extents),), (i64(p.itemsize),)
    with nest(e, index, order[:-1], extents):
        last = order[-1]
        with e.loop(extents[last], [e.load("i1", found)]) as loop:
            index[last] = loop.index
            x = load_element(e, p.dtype, offset(e, p.data, [index[k] for k in order], strides), p.notes)
            loop.next = [e.op("and", loop.carried[0], _finite(e, x))]
        e.store(loop.results[0], found)
    return e.load("i1", found)


def _finite(e: FunctionEmitter, x: V) -> V:
    nothing = e.fop("fsub", x, x)  # not a number for those that are not finite
    return e.fcmp("ord", nothing, nothing)


def _operand(e: FunctionEmitter, f: Factor, extents: Sequence[V], dtype: DType) -> tuple[V, list[V]]:
    """The address of a factor, and its stride along each axis of the product."""
    if not is_array(f.core.type):
        place = e.alloca(scalar_type(dtype), 16)
        store_element(e, dtype, e.scalar(f.core), place)
        return place, [ZERO] * len(extents)
    assert isinstance(f.core, Instruction)
    p = e.pointer(f.core.operands[0])
    own = strides_of(e, p)
    steps = []
    for k, axis in enumerate(f.axes):
        if axis is None:
            steps.append(ZERO)
        elif k not in f.stretched or p.extents[axis] == extents[k]:
            steps.append(own[axis])
        else:
            steps.append(e.select(e.icmp("eq", p.extents[axis], ONE), ZERO, own[axis]))
    return p.data, steps


def contract_function(e: Code, dtype: DType, in_all_windows: bool) -> str:
    """define void contract(a, b, to, table): the table has (extent, stride of a, of b, of to) for each axis."""
    name = f"dlvm.contract_windows.{dtype}" if in_all_windows else f"dlvm.contract.{dtype}"
    return helper(e, name, "void", ["ptr"] * 4, lambda c: _Contract(c, dtype, in_all_windows).write())


class _Axis(Mutable):
    """An extent, and the strides of a, b and the destination."""

    count: V
    a: V
    b: V
    to: V


class _Contract:
    """Writes the function; `self.c` is its code. in_all_windows: whether the rows are b's, and a has none."""

    def __init__(self, c: Code, dtype: DType, in_all_windows: bool) -> None:
        self.c, self.dtype, self.in_all_windows = c, dtype, in_all_windows
        self.a, self.b, self.to, table = c.params
        self.size = i64(dtype.itemsize)
        self.lanes = BYTES // dtype.itemsize
        axes = []
        for k in range(OUTER + 2 + REDUCED):
            numbers = [c.load("i64", c.gep("i64", table, i64(4 * k + n))) for n in range(4)]
            axes.append(_Axis(*numbers))
        self.kept, self.vector, self.reduced = axes[: OUTER + 1], axes[OUTER + 1], axes[OUTER + 2 :]
        self.piece: list[_Axis] = []  # what of `reduced` is summed now

    def write(self) -> None:
        """The loops around the tiles."""
        c, vector = self.c, self.vector
        rows_of = "b" if self.in_all_windows else "a"
        self._merge(
            self.kept, lambda x, y: [self._follows(x, y, rows_of), self._follows(x, y, "to"), *self._no_b(x, y)]
        )
        self._merge(self.reduced, lambda x, y: [self._follows(x, y, "a"), self._follows(x, y, "b")])
        unit = c.both(c.icmp("eq", vector.b, self.size), c.icmp("eq", vector.to, self.size))
        with self._pieces() as (a, b, is_first), c.either(unit) as arms:
            next(arms)
            self._panels(a, b, is_first)
            next(arms)
            self._around(a, b, is_first, self._columns)
        c.line("ret void")

    # -- axes ------------------------------------------------------------------------------------------

    def _follows(self, outer: _Axis, inner: _Axis, which: str) -> V:
        """Whether an operand goes on along the outer axis where the inner one ends."""
        end = self.c.mul(inner.count, getattr(inner, which))
        return self.c.icmp("eq", getattr(outer, which), end)

    def _no_b(self, outer: _Axis, inner: _Axis) -> list[V]:
        """Where the rows are a's, that b does not go along axes that become one."""
        return [] if self.in_all_windows else [self.c.icmp("eq", x.b, ZERO) for x in (outer, inner)]

    def _merge(self, axes: list[_Axis], conditions: Callable[[_Axis, _Axis], list[V]]) -> None:
        """Let the last of `axes` be as long as can be: outer axes become one with those in them where they follow."""
        c = self.c
        for k in range(len(axes) - 1):
            outer, inner = axes[k], axes[k + 1]
            is_empty = c.icmp("eq", inner.count, ONE)
            moves = c.both(is_empty, *self._no_b(outer, inner)) if axes is self.kept else is_empty
            joins = c.any(c.both(*conditions(outer, inner)), moves)
            steps = [c.select(moves, x, y) for x, y in ((outer.a, inner.a), (outer.b, inner.b), (outer.to, inner.to))]
            count = c.select(joins, c.mul(outer.count, inner.count), inner.count)
            axes[k + 1] = _Axis(count, *(steps))
            axes[k] = _Axis(c.select(joins, ONE, outer.count), outer.a, outer.b, outer.to)

    def _around(self, a: V, b: V, is_first: V, body: Callable[[V, V, V, V], None]) -> None:
        """The loops over the axes that are kept around the rows."""
        c = self.c
        o = self.kept[:OUTER]
        with c.loop(o[0].count) as x, c.loop(o[1].count) as y, c.loop(o[2].count) as z:
            at = [x.index, y.index, z.index]
            data = [
                offset(c, p, at, [getattr(axis, which) for axis in o])
                for p, which in ((a, "a"), (b, "b"), (self.to, "to"))
            ]
            body(data[0], data[1], data[2], is_first)

    @contextmanager
    def _pieces(self) -> Iterator[tuple[V, V, V]]:
        """The loop over pieces of the outermost axis that is summed: (a, b, whether it is the first one)."""
        c, axes = self.c, self.reduced
        yes = V("i1", "true")
        # the axis that is cut: the first of more than one term, else the last one
        is_cut, found = [], V("i1", "false")
        for axis in axes[:-1]:
            many = c.icmp("ne", axis.count, ONE)
            is_cut.append(c.both(many, c.op("xor", found, yes)))
            found = c.any(found, many)
        is_cut.append(c.op("xor", found, yes))
        cut, behind, inner = axes[-1], ONE, ONE
        for k in reversed(range(len(axes) - 1)):
            axis, here = axes[k], is_cut[k]
            behind = c.mul(behind, axes[k + 1].count)
            inner = c.select(here, behind, inner)
            pairs = (axis.count, cut.count), (axis.a, cut.a), (axis.b, cut.b)
            cut = _Axis(*(c.select(here, x, y) for x, y in pairs), ZERO)
        length = self._at_least_one(c.op("udiv", i64(PIECE), self._at_least_one(inner)))
        # of no terms there is one piece, whose sum is 0
        pieces = self._at_least_one(c.op("udiv", c.add(cut.count, c.op("sub", length, ONE)), length))
        with c.loop(pieces) as p:
            start = c.mul(p.index, length, "nuw nsw")
            count = c.minimum(c.op("sub nsw", cut.count, start), length)
            self.piece = [
                _Axis(c.select(here, count, axis.count), axis.a, axis.b, axis.to)
                for here, axis in zip(is_cut, axes, strict=True)
            ]
            a, b = (offset(c, x, [start], [step]) for x, step in ((self.a, cut.a), (self.b, cut.b)))
            yield a, b, c.icmp("eq", p.index, ZERO)
            p.next = []

    def _at_least_one(self, n: V) -> V:
        return self.c.select(self.c.icmp("eq", n, ZERO), ONE, n)

    # -- tiles -----------------------------------------------------------------------------------------

    def _panels(self, a: V, b: V, is_first: V) -> None:
        c = self.c
        n, wide = self.vector.count, i64(self.lanes * VECTORS)

        def of_all(a: V, b: V, to: V, is_first: V) -> None:
            whole = c.op("udiv", n, wide)
            with c.loop(whole) as panel:
                start = c.mul(panel.index, wide, "nuw nsw")
                self._rows(a, self._at(b, start), self._at(to, start), is_first, VECTORS, None)
            done = c.mul(whole, wide, "nuw nsw")
            rest = c.op("sub nsw", n, done)
            lanes = i64(self.lanes)
            with c.loop(c.op("udiv", c.add(rest, i64(self.lanes - 1)), lanes)) as panel:
                start = c.add(done, c.mul(panel.index, lanes, "nuw nsw"), "nuw nsw")
                left = c.op("sub nsw", n, start)
                self._rows(a, self._at(b, start), self._at(to, start), is_first, 1, self._mask(left))

        self._around(a, b, is_first, of_all)

    def _columns(self, a: V, b: V, to: V, is_first: V) -> None:
        c, vector = self.c, self.vector
        with c.loop(vector.count) as j:
            place = [offset(c, p, [j.index], [step]) for p, step in ((b, vector.b), (to, vector.to))]
            self._rows(a, place[0], place[1], is_first, 0, None)

    def _at(self, p: V, start: V) -> V:
        return offset(self.c, p, [start], [self.size])

    def _mask(self, left: V) -> V:
        """Which lanes there are: a comparison of integers as wide as an element is such a mask for masked loads."""
        c, n = self.c, self.lanes
        type = f"i{self.dtype.bits}"
        count = c.minimum(left, i64(n))
        if type != "i64":
            count = c.cast("trunc", count, type)
        numbers = V(f"<{n} x {type}>", "<" + ", ".join(f"{type} {k}" for k in range(n)) + ">")
        return c.value(f"<{n} x i1>", f"icmp slt {numbers.type} {numbers.ref}, {splat(c, count, n).ref}")

    def _rows(self, a: V, b: V, to: V, is_first: V, vectors: int, mask: V | None) -> None:
        """Four rows after four; vectors: how many of a row, 0 for one element."""
        c, axis = self.c, self.kept[OUTER]
        last = c.op("sub nsw", axis.count, ONE)
        with c.loop(c.op("udiv", c.add(axis.count, i64(ROWS - 1)), i64(ROWS))) as some:
            first = c.mul(some.index, i64(ROWS), "nuw nsw")
            rows = [c.minimum(c.add(first, i64(r)), last) for r in range(ROWS)]
            xs, ys = (
                ([a], [offset(c, b, [r], [axis.b]) for r in rows])
                if self.in_all_windows
                else ([offset(c, a, [r], [axis.a]) for r in rows], [b])
            )
            sums = self._sums(xs, ys, max(vectors, 1), vectors > 0, mask)
            places = [offset(c, to, [r], [axis.to]) for r in rows]
            self._write(places, sums, max(vectors, 1), is_first, mask)

    def _type(self, is_vector: bool) -> str:
        scalar = scalar_type(self.dtype)
        return f"<{self.lanes} x {scalar}>" if is_vector else scalar

    def _sums(self, xs: list[V], ys: list[V], vectors: int, is_vector: bool, mask: V | None) -> list[V]:
        """The sums of four rows; xs, ys: where a and b of each begin, or one place for all of them."""
        c, type = self.c, self._type(is_vector)
        zero = V(type, "zeroinitializer" if is_vector else "0.0")

        def along(axes: list[_Axis], xs: list[V], ys: list[V], sums: list[V]) -> list[V]:
            axis, rest = axes[0], axes[1:]
            with c.loop(axis.count, sums) as r:
                here = [offset(c, p, [r.index], [axis.a]) for p in xs]
                there = [offset(c, p, [r.index], [axis.b]) for p in ys]
                if rest:
                    r.next = along(rest, here, there, r.carried)
                else:
                    r.next = self._step(here, there, r.carried, vectors, is_vector, mask)
            return r.results

        return along(self.piece, xs, ys, [zero] * (ROWS * vectors))

    def _step(self, xs: list[V], ys: list[V], sums: list[V], vectors: int, is_vector: bool, mask: V | None) -> list[V]:
        c = self.c
        found: list[V] = []
        left: list[V] = []
        right: list[V] = []
        for r in range(ROWS):
            if r < len(ys):
                right = [self._load(self._lane(ys[r], k), is_vector, mask) for k in range(vectors)]
            if r < len(xs):
                x = load_element(c, self.dtype, xs[r])
                left = [splat(c, x, self.lanes) if is_vector else x]
            old = sums[r * vectors : (r + 1) * vectors]
            found += [multiply_add(c, self.dtype, s, left[0], y, "contract") for s, y in zip(old, right, strict=True)]
        return found

    def _lane(self, p: V, k: int) -> V:
        return self._at(p, i64(k * self.lanes)) if k else p

    def _load(self, p: V, is_vector: bool, mask: V | None) -> V:
        c, type = self.c, self._type(is_vector)
        if mask is None:
            return c.value(type, f"load {type}, ptr {p.ref}, align {self.dtype.itemsize}")
        name = f"llvm.masked.load.v{self.lanes}f{self.dtype.bits}.p0"
        zero = V(type, "zeroinitializer")
        return c.intrinsic(name, type, p, V("i32", str(self.dtype.itemsize)), mask, zero)

    def _write(self, places: list[V], sums: list[V], vectors: int, is_first: V, mask: V | None) -> None:
        """Store the sums, or add them to what is there; all is read before anything is written."""
        c = self.c
        is_vector = sums[0].type.startswith("<")
        lanes = [self._lane(p, k) for p in places for k in range(vectors)]

        def put(values: list[V]) -> None:
            for p, x in zip(lanes, values, strict=True):
                if mask is None:
                    c.line(f"store {x.type} {x.ref}, ptr {p.ref}, align {self.dtype.itemsize}")
                else:
                    name = f"llvm.masked.store.v{self.lanes}f{self.dtype.bits}.p0"
                    c.intrinsic(name, "void", x, p, V("i32", str(self.dtype.itemsize)), mask)

        with c.either(is_first) as arms:
            next(arms)
            put(sums)
            next(arms)
            old = [self._load(p, is_vector, mask) for p in lanes]
            put([c.fop("fadd", x, y) for x, y in zip(old, sums, strict=True)])
