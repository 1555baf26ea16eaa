"""gather_sums: one pass instead of several, the same numbers at every size; embedded arrays in native loop nests."""

import numpy as np
import pytest
from irbuild import new_function, pointer
from native import Native

import dlvm_py as dlvm
from dlvm_py.ir import F32, F64, literal, scalar
from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import bufferize, gather_sums, ownership


class Writes:
    """A function (g, h) -> d of random writes of parts of g to sections of d, which is as large as h."""

    def __init__(self, rank, dtype, rng, count=5, fill=True, late=0.0):
        p = pointer(dtype, *[None] * rank)
        self.rng, self.rank = rng, rank
        self.module, self.f, self.b, (g, h) = new_function(p, p, result=p)
        self.extents = extents_of(self.b, h)
        d = self.b.emit("allocateHeap", *self.extents, dtype=dtype.name)
        zeros = self.b.emit("broadcast", literal(0.0, scalar(dtype)), *self.extents)
        self.b.emit("store", zeros if fill else self.b.emit("load", h), d)
        self.chance, self.late = late, []  # stores that come behind the next write
        for _ in range(count):
            self.write(g, d)
        self.store_late()
        self.b.ret(d)
        verify(self.module)

    def place(self, starts, missing):
        """(starts, counts) of a section, cut off where the array ends."""
        b, zero = self.b, literal(0)
        first = [
            literal(s) if s == 0 else b.emit("min", n, literal(s)) for s, n in zip(starts, self.extents, strict=True)
        ]
        less = [b.emit("subtract", n, literal(m)) if m else n for n, m in zip(self.extents, missing, strict=True)]
        return first, [b.emit("max", n, zero) if m else n for n, m in zip(less, missing, strict=True)]

    def write(self, g, d):
        """Add to, or set, a random section of d; the value is a section of g, or a step from it."""
        b, rng, ones = self.b, self.rng, [literal(1)] * self.rank
        missing = [int(n) for n in rng.integers(0, 3, self.rank)]
        starts = [int(rng.integers(0, m + 1)) for m in missing]
        mine = [int(rng.integers(0, m + 1)) for m in missing]
        first, counts = self.place(starts, missing)
        section = b.emit("section", d, *first, *counts, *ones)
        x = b.emit("load", b.emit("section", g, *self.place(mine, missing)[0], *counts, *ones))
        if rng.random() < 0.5:
            x = b.emit("tanh" if rng.random() < 0.3 else "negate", x)
        if rng.random() < 0.7:
            x = b.emit("add", *rng.permutation([b.emit("load", section), x]).tolist())
        is_late = self.chance and rng.random() < self.chance
        if not is_late:
            b.emit("store", x, section)
            if self.chance and rng.random() < 0.5:  # somebody looks
                b.emit("store", b.emit("load", section), b.emit("allocateHeap", *counts, dtype="f64"))
        self.store_late()
        self.late = [(x, section)] if is_late else []

    def store_late(self):
        for x, section in self.late:
            self.b.emit("store", x, section)

    def expected(self, g, h):
        return run(self.module, "f", [g.copy(), h.copy()])

    def gathered(self):
        """Brought to stage scheduled; how many stores it has."""
        gather_sums.run(self.f)
        verify(self.module)
        bufferize.run(self.f)
        self.module.stage = "compute"
        verify(self.module)
        return [i.op.name for i in self.f.instructions()].count("store")


@pytest.mark.parametrize(("rank", "dtype", "fill", "seed"), [
    (1, F64, True, 0), (1, F32, False, 1), (2, F64, True, 2), (2, F64, False, 3), (2, F64, True, 4), (3, F64, False, 5),
])  # fmt: skip
def test_random_sections(rank, dtype, fill, seed):
    """Interpreter and native code after the pass give what is written one after the other, at every small size."""
    rng = np.random.default_rng(seed)
    program = Writes(rank, dtype, rng, fill=fill)
    sizes = [(n,) * rank for n in range(5)] + [tuple(int(n) for n in rng.integers(0, 23, rank)) for _ in range(6)]
    cases = []
    for shape in sizes:
        # h is never smaller than what is read of g
        g, h = (rng.standard_normal(shape).astype(dtype.numpy) for _ in "gh")
        cases.append((g, h, program.expected(g, h)))
    assert program.gathered() <= 3
    for g, h, expected in cases:
        np.testing.assert_array_equal(run(program.module, "f", [g, h], trees_at_root=True), expected)
    ownership.run(program.f)
    program.module.stage = "scheduled"
    native = Native(program.f)
    for g, h, expected in cases:
        # vectors round tanh as single numbers do; the interpreter has NumPy's
        np.testing.assert_allclose(native(g, h), expected, rtol=0, atol=1e-5 if dtype is F32 else 1e-14)


@pytest.mark.parametrize("seed", range(6))
def test_sums_that_cross(seed):
    """Loads of sums that are stored behind other writes, with looks at the array in between."""
    rng = np.random.default_rng(seed)
    program = Writes(1, F64, rng, count=6, late=0.5)
    cases = [(g, h, program.expected(g, h)) for n in (0, 2, 3, 9) for g, h in [rng.standard_normal((2, n))]]
    program.gathered()
    for g, h, expected in cases:
        np.testing.assert_array_equal(run(program.module, "f", [g, h], trees_at_root=True), expected)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_places_without_elements_may_lie_behind_the_end(n):
    """Of an array that is shorter than the stencil nothing is read: the interpreter checks each section."""

    def f(x, y, k):
        np.absolute(y + x, out=x)
        for _ in range(k):
            x[1:-1] = np.tanh(y[2:] - 2 * y[:-2])
        return np.sum(x) + np.sum(y)

    x, y = np.zeros(n), np.ones(n)
    program = dlvm.grad(f, wrt=(0, 1)).program(x, y, 2, stage="scheduled")
    got = run(program.module, program.name, [x, y, np.int64(2)], trees_at_root=True)
    assert np.array_equal(got, (np.ones(n), np.full(n, 2.0)))
