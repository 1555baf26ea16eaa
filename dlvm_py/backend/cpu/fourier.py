"""Fourier transforms: mixed radix in Stockham's order, and Bluestein's for lengths with a large prime factor.

One allocation a transform of an array holds all lines work with, in complex numbers:

    A: n, B: n, W: n                                    W_t = exp(∓2πi t / n)
    A: n, B: n, W: 2n, P: m, Q: m, V: m, H: m           Bluestein: W_t = exp(∓2πi t / 2n), V the roots of order m

A line is read into A, transformed (the result is in A or B, by turns), and written to its destination. All roots of
unity are products of two that are computed from angles of at most π/2, in f64 for c64 too: an error of about one ulp.

Source: C. Van Loan, Computational Frameworks for the Fast Fourier Transform (1992), 1.7 (Stockham), 4.2 (Bluestein).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu import complexes
from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import DATA, scalar_type
from dlvm_py.backend.cpu.elementary import own
from dlvm_py.backend.cpu.floating import fc
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.kernels import nest
from dlvm_py.backend.cpu.memory import release
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.text import Parallel, plain_loop
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, float_constant, i64
from dlvm_py.ir import DType, Instruction

RADICES = (4, 2, 3, 5)  # with butterflies of their own, in the order of preference
LARGEST = 61  # prime factors above go through Bluestein: the plain sum costs their square
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
    bluestein = e.icmp("sgt", m, ZERO)
    count = e.select(bluestein, e.op("add", e.mul(n, i64(4)), e.mul(m, i64(4))), e.mul(n, i64(3)))
    e.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
    header = e.call("@dlvm.allocate", "ptr", [e.ctx, e.mul(count, size)])
    e.require_memory(header)
    work = e.load("ptr", e.gep("i8", header, i64(DATA)))
    e.call(functions.prepare(e), "void", [n, m, work, float_constant("double", sign)])
    with nest(e, tree.index, [k for k in range(dest.rank) if k != axis], extents):
        with e.loop(n, note=plain_loop(e)) as loop:
            tree.index[axis] = loop.index
            store_element(e, dest.dtype, tree.element(), offset(e, work, [loop.index], [size]))
        found = e.call(functions.line(e), "ptr", [n, m, work])
        with e.loop(n, note=plain_loop(e)) as loop:
            x = load_element(e, dest.dtype, offset(e, found, [loop.index], [size]))
            index = [loop.index if k == axis else tree.index[k] for k in range(dest.rank)]
            store_element(e, dest.dtype, x, offset(e, dest.data, index, strides), dest.notes)
    release(e, header)


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
        """i64 length(n), n positive: 0 for the mixed radices, else the power of two that Bluestein's takes."""
        return self._helper(e, "length", "i64", ["i64"], self._length)

    def prepare(self, e: Code) -> str:
        """void prepare(n, m, ptr work, double sign): the roots of unity; of Bluestein's, H as well.

        H is the transform of the conjugated chirp, wrapped around m, divided by m.
        """
        return self._helper(e, "prepare", "void", ["i64", "i64", "ptr", "double"], self._prepare)

    def line(self, e: Code) -> str:
        """ptr line(n, m, ptr work): the transform of A, and where it is."""
        return self._helper(e, "line", "ptr", ["i64", "i64", "ptr"], self._line)

    def _roots(self, e: Code) -> str:
        """void roots(count, ptr w, double sign): w[t] = exp(sign 2πi t / count)."""
        return self._helper(e, "roots", "void", ["i64", "ptr", "double"], self._write_roots)

    def _core(self, e: Code) -> str:
        """ptr core(n, ptr a, ptr b, ptr w): transforms a, with b to work in and the roots w; where it is."""
        return self._helper(e, "core", "ptr", ["i64", "ptr", "ptr", "ptr"], self._write_core)

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
        power = self._doubled(c, c.op("sub", c.mul(n, i64(2)), ONE))
        done = c.icmp("sle", rest, ONE)
        c.line(f"ret i64 {c.select(done, ZERO, power).ref}")

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

    def _doubled(self, c: Code, limit: V) -> V:
        """The smallest power of two that is at least `limit`."""
        before, head, body, after = c.here, c.label("head"), c.label("double"), c.label("doubled")
        c.br(head)
        c.place(head)
        power = c.phi("i64")
        power.add(ONE, before)
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
        n, a, b, w = c.params
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
            c.call(stages[r], "void", [n, m, step.value, source.value, other.value, w])
            ends.append((m, c.mul(step.value, i64(r)), c.here))
            c.br(join)
            c.place(after)
        r = self._smallest_factor(c, left.value)
        m = c.op("sdiv", left.value, r)
        c.call(general, "void", [n, r, m, step.value, source.value, other.value, w])
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
        """void stage.r(n, m, s, ptr x, ptr y, ptr w): one step of Stockham's for the radix r; n = r m s.

        y[q + s (r p + k)] = w[s p k] Σ_j x[q + s (p + m j)] w[n / r · j k]    for p < m, q < s, k < r
        """
        types = ["i64", "i64", "i64", "ptr", "ptr", "ptr"]
        return self._helper(e, f"radix{r}", "void", types, lambda c: self._write_stage(c, r))

    def _write_stage(self, c: Code, r: int) -> None:
        n, m, s, x, y, w = c.params
        butterfly = {2: self._radix2, 3: self._radix3, 4: self._radix4, 5: self._radix5}[r]
        part = c.op("sdiv", n, i64(r))
        constants = [
            complexes.parts(c, self._load(c, w, c.mul(part, i64(k)))) for k in range(1, (r + 1) // 2 + (r == 2))
        ]
        across = c.mul(m, s)

        def column(p: V, q: V, factors: list[V], notes: str) -> None:
            start, to = c.add(q, c.mul(s, p)), c.add(q, c.mul(s, c.mul(p, i64(r))))
            taken = [self._load(c, x, c.add(start, c.mul(across, i64(j))), notes) for j in range(r)]
            for k, b in enumerate(butterfly(c, taken, constants)):
                b = self._times(c, b, factors[k - 1]) if k else b
                self._store(c, b, y, c.add(to, c.mul(s, i64(k))), notes)

        def factors_of(p: V, notes: str = "") -> list[V]:
            return [self._load(c, w, c.mul(c.mul(s, p), i64(k)), notes) for k in range(1, r)]

        with c.either(c.icmp("eq", s, ONE)) as arms:
            next(arms)
            first = Parallel(c)
            with c.loop(m, note=first.loop) as loop:
                column(loop.index, ZERO, factors_of(loop.index, first.access), first.access)
            next(arms)
            with c.loop(m) as outer:
                factors, rows = factors_of(outer.index), Parallel(c)
                with c.loop(s, note=rows.loop) as loop:
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
        """void stage(n, r, m, s, x, y, w): the same for any odd radix, by the sums as they stand."""
        types = ["i64", "i64", "i64", "i64", "ptr", "ptr", "ptr"]
        return self._helper(e, "radix", "void", types, self._write_general_stage)

    def _write_general_stage(self, c: Code) -> None:
        n, r, m, s, x, y, w = c.params
        part, across = c.op("sdiv", n, r), c.mul(m, s)
        zero = fc(V(self.part, ""), 0.0)
        with c.loop(m) as p, c.loop(r) as k:
            factor = self._load(c, w, c.mul(c.mul(s, p.index), k.index))
            turn = c.mul(part, k.index)
            with c.loop(s) as q:
                start = c.add(q.index, c.mul(s, p.index))
                with c.loop(r, [zero, zero, ZERO], plain_loop(c)) as j:
                    root = self._load(c, w, j.carried[2])
                    term = self._times(c, self._load(c, x, c.add(start, c.mul(across, j.index))), root)
                    sums = [c.fop("fadd", a, b) for a, b in zip(j.carried[:2], complexes.parts(c, term), strict=True)]
                    ahead = c.add(j.carried[2], turn)
                    over = c.icmp("sge", ahead, n)
                    j.next = [*sums, c.select(over, c.op("sub", ahead, n), ahead)]
                found = self._times(c, c.pack(*j.results[:2]), factor)
                to = c.add(q.index, c.mul(s, c.add(c.mul(r, p.index), k.index)))
                self._store(c, found, y, to)
        c.line("ret void")

    # -- lines -----------------------------------------------------------------------------------------

    def _parts_of(self, c: Code, n: V, m: V, work: V) -> dict[str, V]:
        """The addresses of the module docstring."""
        start, found = ZERO, {}
        for name, length in (("A", n), ("B", n), ("W", c.mul(n, i64(2))), *((x, m) for x in "PQVH")):
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
        n, m, work, sign = c.params
        at = self._parts_of(c, n, m, work)
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
            found = c.call(self._core(c), "ptr", [m, at["P"], at["Q"], at["V"]])
            share = c.fop("fdiv", float_constant(self.part, 1.0), c.cast("sitofp", m, self.part))
            with c.loop(m, note=plain_loop(c)) as loop:
                self._store(c, self._scaled(c, self._load(c, found, loop.index), share), at["H"], loop.index)
        c.line("ret void")

    def _clear(self, c: Code, base: V, count: V) -> None:
        with c.loop(count, note=plain_loop(c)) as loop:
            self._store(c, V(self.pair, "zeroinitializer"), base, loop.index)

    def _line(self, c: Code) -> None:
        core = self._core(c)
        n, m, work = c.params
        at = self._parts_of(c, n, m, work)
        plain, convolved = c.label("plain"), c.label("bluestein")
        c.cond_br(c.icmp("eq", m, ZERO), plain, convolved)
        c.place(plain)
        found = c.call(core, "ptr", [n, at["A"], at["B"], at["W"]])
        c.line(f"ret ptr {found.ref}")
        c.place(convolved)
        # y_k = c_k Σ_j (x_j c_j) conj(c_(k-j)) with the chirp c_j = W_(j² mod 2n), since 2jk = j² + k² - (k - j)²
        self._clear(c, at["P"], m)

        def multiply(j: V, square: V) -> None:
            self._store(c, self._times(c, self._load(c, at["A"], j), self._load(c, at["W"], square)), at["P"], j)

        self._chirp(c, n, multiply)
        first = c.call(core, "ptr", [m, at["P"], at["Q"], at["V"]])
        other = c.select(c.icmp("eq", first, at["P"]), at["Q"], at["P"])
        with c.loop(m, note=plain_loop(c)) as loop:  # the inverse transform is the conjugate of that of the conjugate
            product = self._times(c, self._load(c, first, loop.index), self._load(c, at["H"], loop.index))
            self._store(c, self._conjugate(c, product), first, loop.index)
        second = c.call(core, "ptr", [m, first, other, at["V"]])

        def deliver(k: V, square: V) -> None:
            sum_ = self._conjugate(c, self._load(c, second, k))
            self._store(c, self._times(c, sum_, self._load(c, at["W"], square)), at["B"], k)

        self._chirp(c, n, deliver)
        c.line(f"ret ptr {at['B'].ref}")
