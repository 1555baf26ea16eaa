"""Fourier transforms: mixed radix in Stockham's order, and Bluestein's for lengths with a large prime factor.

One allocation a transform of an array holds all lines work with, in complex numbers:

    A: n l, B: n l, W: n                                  W_t = exp(∓2πi t / n)
    A: n l, B: n l, W: 2n, P: m l, Q: m l, V: m, H: m     Bluestein: W_t = exp(∓2πi t / 2n), V the roots of order m

Lines that lie next to each other along another axis are transformed l at a time (`_together`), element by element: a
stage of Stockham's with l lines is one with so many times more columns, so that its loops are vectors from the first
stage on, and columns of an array are read by cache lines. Lines are read into A, transformed (the result is in A or B,
by turns), and written to their destination. All roots of unity are products of two that are computed from angles of at
most π/2, in f64 for c64 too: an error of about one ulp.

Source: C. Van Loan, Computational Frameworks for the Fast Fourier Transform (1992), 1.7 (Stockham), 4.2 (Bluestein).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from dlvm_py.backend.cpu import complexes
from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import DATA, scalar_type
from dlvm_py.backend.cpu.elementary import own
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.kernels import nest
from dlvm_py.backend.cpu.lanes import splat
from dlvm_py.backend.cpu.memory import release
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.text import Parallel, plain_loop
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, float_constant, i64, in_lanes
from dlvm_py.ir import DType, Instruction

RADICES = (4, 2, 3, 5)  # with butterflies of their own, in the order of preference
LARGEST = 127  # prime factors above go through Bluestein: the plain sum costs their square
ODD = (1, 3, 5, 9, 15, 25)  # Bluestein's takes the least power of two, or multiple by one of these, with room enough
COLUMNS = 8  # of a stage of any radix, together
TOGETHER = ((512, 8), (65536, 4))  # lines of at most so many elements: so many at a time, which stay in the caches
ROOTS = 64  # how many roots of unity are computed next to one another

Butterfly = Callable[..., list[V]]


def store_fourier(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a Fourier transform along one axis; the work."""
    tree = Tree(e, i.operands[0])
    tree.fast = not tree.conditions()
    extents = tree_extents(e, i.operands[0])
    total = e.product(extents)
    with e.when(e.icmp("sgt", total, ZERO)):
        _transform(e, tree, extents, i.attrs["axis"], 1.0 if i.attrs.get("inverse") else -1.0, dest)
    return e.mul(total, i64(8))


def _transform(e: FunctionEmitter, tree: Tree, extents: Sequence[V], axis: int, sign: float, dest: Pointer) -> None:
    n, strides, size = extents[axis], strides_of(e, dest), i64(dest.itemsize)
    functions = Functions(dest.dtype)
    m = e.call(functions.length(e), "i64", [n])
    others = [k for k in range(dest.rank) if k != axis]
    side = max((k for k in others if constant(extents[k]) != 1), default=None)
    lines = ONE if side is None else e.minimum(_together(e, n), extents[side])
    bluestein = e.icmp("sgt", m, ZERO)
    elements, padded = e.mul(n, lines), e.mul(m, e.add(lines, ONE))
    count = e.add(e.mul(elements, i64(2)), e.select(bluestein, e.mul(e.add(n, padded), i64(2)), n))
    e.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
    header = e.call("@dlvm.allocate", "ptr", [e.ctx, e.mul(count, size)])
    e.require_memory(header)
    work = e.load("ptr", e.gep("i8", header, i64(DATA)))
    e.call(functions.prepare(e), "void", [n, m, lines, work, float_constant("double", sign)])
    groups = ONE if side is None else e.op("sdiv", e.add(extents[side], e.op("sub", lines, ONE)), lines)
    counts = [groups if k == side else extents[k] for k in range(dest.rank)]
    with nest(e, tree.index, others, counts):
        start, some = ZERO, ONE
        if side is not None:
            start = e.mul(tree.index[side], lines)
            some = e.minimum(lines, e.op("sub", extents[side], start))

        def elements(body: Callable[[V], None]) -> None:
            """body(place in the work) for each, in the order in which they lie in the array."""
            sides = [] if side is None else [side]
            order = sorted([axis, *sides])
            with ExitStack() as loops:
                for k in order:
                    note = plain_loop(e) if k == order[-1] else ""
                    index = loops.enter_context(e.loop(n if k == axis else some, note=note)).index
                    tree.index[k] = index if k == axis else e.add(start, index)
                    place[k] = index
                line = ZERO if side is None else place[side]
                body(e.add(e.mul(place[axis], some), line))

        place: dict[int, V] = {}

        def read(at: V) -> None:
            store_element(e, dest.dtype, tree.element(), offset(e, work, [at], [size]))

        def write(at: V) -> None:
            x = load_element(e, dest.dtype, offset(e, found, [at], [size]))
            index = [tree.index[k] for k in range(dest.rank)]
            store_element(e, dest.dtype, x, offset(e, dest.data, index, strides), dest.notes)

        elements(read)
        found = e.call(functions.line(e), "ptr", [n, m, lines, some, work])
        elements(write)
    release(e, header)


def _together(c: Code, n: V) -> V:
    """How many lines of n elements are transformed at a time, at most."""
    found = ONE
    for limit, lines in reversed(TOGETHER):
        found = c.select(c.icmp("sle", n, i64(limit)), i64(lines), found)
    return found


class Functions:
    """The functions of one dtype."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.part = scalar_type(dtype.real)
        self.pair = scalar_type(dtype)
        self.size = i64(dtype.itemsize)

    def _helper(self, e: Code, name: str, result: str, types: Sequence[str], write: Callable[[Code], None]) -> str:
        return "@" + helper(e, f"dlvm.fourier.{name}.{self.dtype}", result, types, write)

    def length(self, e: Code) -> str:
        """i64 length(n), n positive: 0 for the mixed radices, else what Bluestein's takes."""
        return self._helper(e, "length", "i64", ["i64"], self._length)

    def prepare(self, e: Code) -> str:
        """void prepare(n, m, lines, ptr work, double sign): the roots of unity; of Bluestein's, H as well.

        H is the transform of the conjugated chirp, wrapped around m, divided by m.
        """
        return self._helper(e, "prepare", "void", ["i64", "i64", "i64", "ptr", "double"], self._prepare)

    def line(self, e: Code) -> str:
        """ptr line(n, m, lines, some, ptr work): the transforms of A, and where they are.

        There is room for so many lines, of which A has some, next to each other: A[j some + l].
        """
        return self._helper(e, "line", "ptr", ["i64", "i64", "i64", "i64", "ptr"], self._line)

    def _roots(self, e: Code) -> str:
        """void roots(count, ptr w, double sign): w[t] = exp(sign 2πi t / count)."""
        return self._helper(e, "roots", "void", ["i64", "ptr", "double"], self._write_roots)

    def _core(self, e: Code) -> str:
        """ptr core(n, lines, ptr a, ptr b, ptr w): transforms a, with b to work in and the roots w; where it is."""
        return self._helper(e, "core", "ptr", ["i64", "i64", "ptr", "ptr", "ptr"], self._write_core)

    def _at(self, c: Code, base: V, index: V) -> V:
        return offset(c, base, [index], [self.size])

    def _load(self, c: Code, base: V, index: V, notes: str = "") -> V:
        return load_element(c, self.dtype, self._at(c, base, index), notes)

    def _store(self, c: Code, x: V, base: V, index: V, notes: str = "") -> None:
        store_element(c, self.dtype, x, self._at(c, base, index), notes)

    def _times(self, c: Code, a: V, b: V) -> V:
        return complexes.multiply(c, self.dtype, {}, a, b)

    def _plus(self, c: Code, a: V, b: V) -> V:
        return complexes.partwise("fadd")(c, self.dtype, {}, a, b)

    def _minus(self, c: Code, a: V, b: V) -> V:
        return complexes.partwise("fsub")(c, self.dtype, {}, a, b)

    def _scaled(self, c: Code, a: V, factor: V) -> V:
        return c.pack(*(c.fop("fmul", p, factor) for p in complexes.parts(c, a)))

    def _turned(self, c: Code, a: V, factor: V) -> V:
        """a · i factor."""
        real, imaginary = complexes.parts(c, a)
        return c.pack(c.fneg(c.fop("fmul", imaginary, factor)), c.fop("fmul", real, factor))

    # -- lengths ---------------------------------------------------------------------------------------

    def _length(self, c: Code) -> None:
        n = c.params[0]
        rest = n
        for f in (2, *range(3, LARGEST + 1, 2)):
            rest = self._without(c, rest, f)
        limit = c.op("sub", c.mul(n, i64(2)), ONE)
        found = functools.reduce(c.minimum, [self._doubled(c, i64(f), limit) for f in ODD])
        done = c.icmp("sle", rest, ONE)
        c.line(f"ret i64 {c.select(done, ZERO, found).ref}")

    def _without(self, c: Code, n: V, f: int) -> V:
        """n with all factors f divided out; n is positive."""
        before, head, body, after = c.here, c.label("head"), c.label("divide"), c.label("divided")
        c.br(head)
        c.place(head)
        rest = c.phi("i64")
        rest.add(n, before)
        c.cond_br(c.icmp("eq", c.op("srem", rest.value, i64(f)), ZERO), body, after)
        c.place(body)
        rest.add(c.op("sdiv", rest.value, i64(f)), c.here)
        c.br(head)
        c.place(after)
        return rest.value

    def _doubled(self, c: Code, first: V, limit: V) -> V:
        """The smallest product of `first` and a power of two that is at least `limit`."""
        before, head, body, after = c.here, c.label("head"), c.label("double"), c.label("doubled")
        c.br(head)
        c.place(head)
        power = c.phi("i64")
        power.add(first, before)
        c.cond_br(c.icmp("slt", power.value, limit), body, after)
        c.place(body)
        power.add(c.mul(power.value, i64(2)), c.here)
        c.br(head)
        c.place(after)
        return power.value

    # -- roots of unity --------------------------------------------------------------------------------

    def _write_roots(self, c: Code) -> None:
        count, w, sign = c.params
        near = c.alloca(f"[{2 * ROOTS} x double]", 16)
        with c.loop(i64(ROOTS), note=plain_loop(c)) as loop:
            real, imaginary = self._root(c, loop.index, count, sign)
            place = c.mul(loop.index, i64(2))
            c.store(real, c.gep("double", near, place))
            c.store(imaginary, c.gep("double", near, c.add(place, ONE)))
        with c.loop(c.op("sdiv", c.op("add", count, i64(ROOTS - 1)), i64(ROOTS))) as block:
            start = c.mul(block.index, i64(ROOTS))
            far = c.pack(*self._root(c, start, count, sign))
            with c.loop(c.minimum(i64(ROOTS), c.op("sub", count, start)), note=plain_loop(c)) as loop:
                place = c.mul(loop.index, i64(2))
                x = c.pack(
                    c.load("double", c.gep("double", near, place)),
                    c.load("double", c.gep("double", near, c.add(place, ONE))),
                )
                root = complexes.parts(c, complexes.multiply(c, self.dtype, {}, far, x))
                if self.part == "float":
                    root = tuple(c.cast("fptrunc", p, "float") for p in root)  # type: ignore[assignment]
                self._store(c, c.pack(*root), w, c.add(start, loop.index))
        c.line("ret void")

    def _root(self, c: Code, t: V, count: V, sign: V) -> tuple[V, V]:
        """exp(sign 2πi t / count), from the angle of the rest in its quadrant."""
        quarters = c.mul(t, i64(4))
        quadrant = c.op("srem", c.op("sdiv", quarters, count), i64(4))
        rest = c.op("srem", quarters, count)
        share = c.fop("fdiv", c.cast("sitofp", rest, "double"), c.cast("sitofp", count, "double"))
        angle = c.fop("fmul", share, float_constant("double", math.pi / 2))
        cos, sin = own(c, "cos", angle), own(c, "sin", angle)
        odd = c.icmp("eq", c.op("and", quadrant, ONE), ONE)
        real, imaginary = c.select(odd, c.fneg(sin), cos), c.select(odd, cos, sin)
        turned = c.icmp("sge", quadrant, i64(2))
        real, imaginary = (c.select(turned, c.fneg(p), p) for p in (real, imaginary))
        return real, c.fop("fmul", imaginary, sign)

    # -- mixed radix -------------------------------------------------------------------------------------

    def _write_core(self, c: Code) -> None:
        stages = {r: self._stage(c, r) for r in RADICES}
        general = self._general_stage(c)
        n, lines, a, b, w = c.params
        before, head, body, join, done = c.here, *(c.label(name) for name in ("head", "body", "join", "done"))
        c.br(head)
        c.place(head)
        left, step, source, other = (c.phi(t) for t in ("i64", "i64", "ptr", "ptr"))
        for phi, first in zip((left, step, source, other), (n, ONE, a, b), strict=True):
            phi.add(first, before)
        c.cond_br(c.icmp("sgt", left.value, ONE), body, done)
        c.place(body)
        ends = []
        for r in RADICES:
            then, after = c.label("radix"), c.label("next")
            c.cond_br(c.icmp("eq", c.op("srem", left.value, i64(r)), ZERO), then, after)
            c.place(then)
            m = c.op("sdiv", left.value, i64(r))
            c.call(stages[r], "void", [n, m, step.value, lines, source.value, other.value, w])
            ends.append((m, c.mul(step.value, i64(r)), c.here))
            c.br(join)
            c.place(after)
        r = self._smallest_factor(c, left.value)
        m = c.op("sdiv", left.value, r)
        c.call(general, "void", [n, r, m, step.value, lines, source.value, other.value, w])
        ends.append((m, c.mul(step.value, r), c.here))
        c.br(join)
        c.place(join)
        next_left, next_step = c.phi("i64"), c.phi("i64")
        for m, s, block in ends:
            next_left.add(m, block)
            next_step.add(s, block)
        left.add(next_left.value, join)
        step.add(next_step.value, join)
        source.add(other.value, join)
        other.add(source.value, join)
        c.br(head)
        c.place(done)
        c.line(f"ret ptr {source.value.ref}")

    def _smallest_factor(self, c: Code, n: V) -> V:
        """The smallest factor of n from 7 on; n has none below, and is more than 1."""
        before, head, body, after = c.here, c.label("head"), c.label("try"), c.label("factor")
        c.br(head)
        c.place(head)
        f = c.phi("i64")
        f.add(i64(7), before)
        c.cond_br(c.icmp("eq", c.op("srem", n, f.value), ZERO), after, body)
        c.place(body)
        f.add(c.add(f.value, i64(2)), c.here)
        c.br(head)
        c.place(after)
        return f.value

    def _stage(self, e: Code, r: int) -> str:
        """void stage.r(n, m, s, l, ptr x, ptr y, ptr w): one step of Stockham's for the radix r; n = r m s, l lines.

        y[q + s l (r p + k)] = w[s p k] Σ_j x[q + s l (p + m j)] w[n / r · j k]    for p < m, q < s l, k < r
        """
        types = ["i64", "i64", "i64", "i64", "ptr", "ptr", "ptr"]
        return self._helper(e, f"radix{r}", "void", types, lambda c: self._write_stage(c, r))

    def _write_stage(self, c: Code, r: int) -> None:
        n, m, s, lines, x, y, w = c.params
        columns = c.mul(s, lines)
        butterfly = {2: self._radix2, 3: self._radix3, 4: self._radix4, 5: self._radix5}[r]
        part = c.op("sdiv", n, i64(r))
        constants = [
            complexes.parts(c, self._load(c, w, c.mul(part, i64(k)))) for k in range(1, (r + 1) // 2 + (r == 2))
        ]
        across = c.mul(m, columns)

        def column(p: V, q: V, factors: list[V], notes: str) -> None:
            start, to = c.add(q, c.mul(columns, p)), c.add(q, c.mul(columns, c.mul(p, i64(r))))
            taken = [self._load(c, x, c.add(start, c.mul(across, i64(j))), notes) for j in range(r)]
            for k, b in enumerate(butterfly(c, taken, constants)):
                b = self._times(c, b, factors[k - 1]) if k else b
                self._store(c, b, y, c.add(to, c.mul(columns, i64(k))), notes)

        def factors_of(p: V, notes: str = "") -> list[V]:
            return [self._load(c, w, c.mul(c.mul(s, p), i64(k)), notes) for k in range(1, r)]

        with c.either(c.icmp("eq", columns, ONE)) as arms:
            next(arms)
            first = Parallel(c)
            with c.loop(m, note=first.loop) as loop:
                column(loop.index, ZERO, factors_of(loop.index, first.access), first.access)
            next(arms)
            with c.loop(m) as outer:
                factors, rows = factors_of(outer.index), Parallel(c)
                with c.loop(columns, note=rows.loop) as loop:
                    column(outer.index, loop.index, factors, rows.access)
        c.line("ret void")

    def _radix2(self, c: Code, a: list[V], constants: list) -> list[V]:  # type: ignore[type-arg]
        return [self._plus(c, a[0], a[1]), self._minus(c, a[0], a[1])]

    def _radix3(self, c: Code, a: list[V], constants: list) -> list[V]:  # type: ignore[type-arg]
        ((cos, sin),) = constants
        total = self._plus(c, a[1], a[2])
        middle = self._plus(c, a[0], self._scaled(c, total, cos))
        turned = self._turned(c, self._minus(c, a[1], a[2]), sin)
        return [self._plus(c, a[0], total), self._plus(c, middle, turned), self._minus(c, middle, turned)]

    def _radix4(self, c: Code, a: list[V], constants: list) -> list[V]:  # type: ignore[type-arg]
        ((_, sin), *_) = constants  # the fourth root of unity is sin · i
        even, odd = self._plus(c, a[0], a[2]), self._plus(c, a[1], a[3])
        first, second = self._minus(c, a[0], a[2]), self._turned(c, self._minus(c, a[1], a[3]), sin)
        return [
            self._plus(c, even, odd), self._plus(c, first, second),
            self._minus(c, even, odd), self._minus(c, first, second),
        ]  # fmt: skip

    def _radix5(self, c: Code, a: list[V], constants: list) -> list[V]:  # type: ignore[type-arg]
        (cos1, sin1), (cos2, sin2) = constants
        near, far = self._plus(c, a[1], a[4]), self._plus(c, a[2], a[3])
        near_turn, far_turn = self._minus(c, a[1], a[4]), self._minus(c, a[2], a[3])

        def mixed(p: V, q: V) -> V:
            return self._plus(c, a[0], self._plus(c, self._scaled(c, near, p), self._scaled(c, far, q)))

        x1, x2 = mixed(cos1, cos2), mixed(cos2, cos1)
        y1 = self._plus(c, self._turned(c, near_turn, sin1), self._turned(c, far_turn, sin2))
        y2 = self._minus(c, self._turned(c, near_turn, sin2), self._turned(c, far_turn, sin1))
        total = self._plus(c, a[0], self._plus(c, near, far))
        return [
            total, self._plus(c, x1, y1), self._plus(c, x2, y2), self._minus(c, x2, y2), self._minus(c, x1, y1)
        ]  # fmt: skip

    def _general_stage(self, e: Code) -> str:
        """void stage(n, r, m, s, l, x, y, w): the same for any odd radix, some columns at a time.

        With c + i d = w[n / r · j k], and sums over 0 < j < r / 2, for 0 < k < r / 2:

            C_k = x_0 + Σ_j (x_j + x_(r-j)) c,  D_k = Σ_j (x_j - x_(r-j)) d,  y_k = C_k + i D_k,  y_(r-k) = C_k - i D_k
        """
        types = ["i64", "i64", "i64", "i64", "i64", "ptr", "ptr", "ptr"]
        return self._helper(e, "radix", "void", types, self._write_general_stage)

    def _write_general_stage(self, c: Code) -> None:
        n, r, m, s, lines, x, y, w = c.params
        columns, half = c.mul(s, lines), c.op("sdiv", r, i64(2))
        part, across = c.op("sdiv", n, r), c.mul(m, columns)
        # the real and imaginary parts of sums and differences of each two elements, and of what is written
        near = c.alloca(f"[{4 * COLUMNS * (LARGEST // 2)} x {self.part}]", 64)
        ends = c.alloca(f"[{4 * COLUMNS} x {self.part}]", 64)
        vector = in_lanes(self.part, COLUMNS)
        nothing = V(vector, "zeroinitializer")

        def cell(base: V, row: V, k: int) -> V:
            return c.gep(self.part, base, c.mul(c.add(c.mul(row, i64(4)), i64(k)), i64(COLUMNS)))

        def put(base: V, row: V, k: int, q: V, values: tuple[V, V]) -> None:
            for at, value in enumerate(values):
                c.store(value, c.gep(self.part, cell(base, row, k + at), q))

        def got(base: V, row: V, q: V) -> V:
            return c.pack(*(c.load(self.part, c.gep(self.part, cell(base, row, at), q)) for at in (0, 1)))

        with c.loop(half) as j:  # columns that are not there are computed, too
            for k in range(4):
                c.store(nothing, cell(near, j.index, k))
        with c.loop(m) as p, c.loop(c.op("sdiv", c.add(columns, i64(COLUMNS - 1)), i64(COLUMNS))) as block:
            first = c.mul(block.index, i64(COLUMNS))
            some = c.minimum(i64(COLUMNS), c.op("sub", columns, first))
            start = c.add(c.mul(columns, p.index), first)
            to = c.add(c.mul(columns, c.mul(r, p.index)), first)
            with c.loop(half) as j:
                one = c.add(j.index, ONE)
                with c.loop(some, note=plain_loop(c)) as q:
                    left, right = (
                        self._load(c, x, c.add(c.add(start, c.mul(across, k)), q.index))
                        for k in (one, c.op("sub", r, one))
                    )
                    put(near, j.index, 0, q.index, complexes.parts(c, self._plus(c, left, right)))
                    put(near, j.index, 2, q.index, complexes.parts(c, self._minus(c, left, right)))
            with c.loop(some) as q:
                own_part = complexes.parts(c, self._load(c, x, c.add(start, q.index)))
                put(ends, ZERO, 0, q.index, own_part)
                with c.loop(half, list(own_part), plain_loop(c)) as j:
                    both = complexes.parts(c, got(near, j.index, q.index))
                    j.next = [c.fop("fadd", a, b) for a, b in zip(j.carried, both, strict=True)]
                self._store(c, c.pack(*j.results), y, c.add(to, q.index))
            with c.loop(half) as k_:
                k = c.add(k_.index, ONE)
                turn = c.mul(part, k)
                x0 = [c.load(vector, cell(ends, ZERO, at)) for at in (0, 1)]
                with c.loop(half, [turn, *x0, nothing, nothing], plain_loop(c)) as j:
                    at, *sums = j.carried
                    cos, sin = complexes.parts(c, self._load(c, w, at))
                    pairs = [c.load(vector, cell(near, j.index, k)) for k in range(4)]
                    factors = [splat(c, f, COLUMNS) for f in (cos, cos, sin, sin)]
                    ahead = c.add(at, turn)
                    over = c.icmp("sge", ahead, n)
                    j.next = [
                        c.select(over, c.op("sub", ahead, n), ahead),
                        *(
                            c.fop("fadd", total, c.fop("fmul", a, f, " contract"), " contract")
                            for total, a, f in zip(sums, pairs, factors, strict=True)
                        ),
                    ]
                _, even_real, even_imag, odd_real, odd_imag = j.results
                for row, (plus, minus) in ((k, ("fsub", "fadd")), (c.op("sub", r, k), ("fadd", "fsub"))):
                    c.store(c.fop(plus, even_real, odd_imag), cell(ends, ZERO, 2))
                    c.store(c.fop(minus, even_imag, odd_real), cell(ends, ZERO, 3))
                    factor = self._load(c, w, c.mul(c.mul(s, p.index), row))
                    with c.loop(some, note=plain_loop(c)) as q:
                        found = c.pack(
                            *(c.load(self.part, c.gep(self.part, cell(ends, ZERO, at), q.index)) for at in (2, 3))
                        )
                        place = c.add(c.add(to, c.mul(columns, row)), q.index)
                        self._store(c, self._times(c, found, factor), y, place)
        c.line("ret void")

    # -- lines -----------------------------------------------------------------------------------------

    def _parts_of(self, c: Code, n: V, m: V, lines: V, work: V) -> dict[str, V]:
        """The addresses of the module docstring."""
        start, found = ZERO, {}
        elements, padded = c.mul(n, lines), c.mul(m, lines)
        lengths = {"A": elements, "B": elements, "W": c.mul(n, i64(2)), "P": padded, "Q": padded, "V": m, "H": m}
        for name, length in lengths.items():
            found[name] = self._at(c, work, start)
            start = c.add(start, length)
        return found

    def _chirp(self, c: Code, n: V, body: Callable[[V, V], None]) -> None:
        """body(j, j² mod 2n) for j < n: the chirp is W at that place."""
        with c.loop(n, [ZERO], plain_loop(c)) as loop:
            (square,) = loop.carried
            body(loop.index, square)
            ahead = c.add(square, c.add(c.mul(loop.index, i64(2)), ONE))
            over = c.icmp("sge", ahead, c.mul(n, i64(2)))
            loop.next = [c.select(over, c.op("sub", ahead, c.mul(n, i64(2))), ahead)]

    def _conjugate(self, c: Code, z: V) -> V:
        return complexes.conjugate(c, self.dtype, {}, z)

    def _prepare(self, c: Code) -> None:
        roots = self._roots(c)
        n, m, lines, work, sign = c.params
        at = self._parts_of(c, n, m, lines, work)
        with c.either(c.icmp("eq", m, ZERO)) as arms:
            next(arms)
            c.call(roots, "void", [n, at["W"], sign])
            next(arms)
            c.call(roots, "void", [c.mul(n, i64(2)), at["W"], sign])
            c.call(roots, "void", [m, at["V"], float_constant("double", -1.0)])
            self._clear(c, at["P"], m)

            def place(j: V, square: V) -> None:
                chirp = self._conjugate(c, self._load(c, at["W"], square))
                self._store(c, chirp, at["P"], j)
                mirrored = c.select(c.icmp("eq", j, ZERO), ZERO, c.op("sub", m, j))
                self._store(c, chirp, at["P"], mirrored)

            self._chirp(c, n, place)
            found = c.call(self._core(c), "ptr", [m, ONE, at["P"], at["Q"], at["V"]])
            share = c.fop("fdiv", float_constant(self.part, 1.0), c.cast("sitofp", m, self.part))
            with c.loop(m, note=plain_loop(c)) as loop:
                self._store(c, self._scaled(c, self._load(c, found, loop.index), share), at["H"], loop.index)
        c.line("ret void")

    def _clear(self, c: Code, base: V, count: V) -> None:
        with c.loop(count, note=plain_loop(c)) as loop:
            self._store(c, V(self.pair, "zeroinitializer"), base, loop.index)

    def _line(self, c: Code) -> None:
        core = self._core(c)
        n, m, lines, some, work = c.params
        at = self._parts_of(c, n, m, lines, work)
        plain, convolved = c.label("plain"), c.label("bluestein")
        c.cond_br(c.icmp("eq", m, ZERO), plain, convolved)
        c.place(plain)
        found = c.call(core, "ptr", [n, some, at["A"], at["B"], at["W"]])
        c.line(f"ret ptr {found.ref}")
        c.place(convolved)
        # y_k = c_k Σ_j (x_j c_j) conj(c_(k-j)) with the chirp c_j = W_(j² mod 2n), since 2jk = j² + k² - (k - j)²
        self._clear(c, at["P"], c.mul(m, some))

        def of_each(source: V, j: V, to: V, change: Callable[[V], V]) -> None:
            with c.loop(some, note=plain_loop(c)) as line:
                place = c.add(c.mul(j, some), line.index)
                self._store(c, change(self._load(c, source, place)), to, place)

        def multiply(j: V, square: V) -> None:
            chirp = self._load(c, at["W"], square)
            of_each(at["A"], j, at["P"], lambda x: self._times(c, x, chirp))

        self._chirp(c, n, multiply)
        first = c.call(core, "ptr", [m, some, at["P"], at["Q"], at["V"]])
        other = c.select(c.icmp("eq", first, at["P"]), at["Q"], at["P"])
        with c.loop(m) as loop:  # the inverse transform is the conjugate of that of the conjugate
            factor = self._load(c, at["H"], loop.index)
            of_each(first, loop.index, first, lambda x: self._conjugate(c, self._times(c, x, factor)))
        second = c.call(core, "ptr", [m, some, first, other, at["V"]])

        def deliver(k: V, square: V) -> None:
            chirp = self._load(c, at["W"], square)
            of_each(second, k, at["B"], lambda x: self._times(c, self._conjugate(c, x), chirp))

        self._chirp(c, n, deliver)
        c.line(f"ret ptr {at['B'].ref}")
