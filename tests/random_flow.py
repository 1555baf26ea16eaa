"""Random functions whose control flow asks for lengths, over arrays whose lengths differ or are equal by chance.

    program = flow_program(seed)
    program.fn(*flow_args(LENGTHS[0]))

What one path of a program knows of extents must not hold on the others: branches compare lengths, loops count up to
the length of another array, views get shorter, names get other arrays, and what does not fit raises as in NumPy, with
everything stored that was stored before. Unlike random_python.py, no array has a length class: most programs raise
at some of the LENGTHS. The parameters are `x, y, z` (floats, each of a length of its own), `w` (a matrix of floats),
`q` (places, some of them out of range), `n, k` (ints) and `a` (a float).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from random_python import Lines, load

HEADER = '''\
"""A random program."""

import numpy as np


def _copy(u, v):
    for i in range(len(u)):
        u[i] = 0.5 * v[i]


def _shift(u, v, k):
    u[k:] = v[: len(u) - k]
    return u[k:]


def _first(u, s):
    for i in range(len(u)):
        if u[i] > s:
            return i
    return len(u)


def _same(u, v):
    if len(u) == len(v):
        return u + v
    if len(u) < len(v):
        return u + v[: len(u)]
    return u[: len(v)] * v


'''

# lengths of x, y, z, the shape of w, the length of q, n and k
LENGTHS = (
    (5, 5, 5, (5, 5), 5, 5, 2), (5, 4, 6, (4, 5), 5, 5, 1), (4, 6, 5, (5, 6), 4, 4, 2), (6, 5, 4, (6, 4), 5, 6, 0),
    (3, 3, 4, (3, 4), 3, 2, 1), (5, 5, 3, (3, 5), 6, 4, 3), (7, 2, 7, (7, 2), 7, 7, 2), (2, 7, 2, (2, 7), 3, 3, 2),
    (0, 3, 3, (3, 3), 2, 3, 1), (3, 0, 2, (0, 3), 3, 0, 0), (0, 0, 0, (0, 0), 0, 0, 0), (9, 8, 9, (8, 9), 9, 9, 4),
    (2, 2, 3, (2, 3), 2, 3, -1), (6, 6, 6, (6, 5), 6, 6, 1), (17, 17, 16, (16, 17), 17, 17, 3),
    (3, 1, 3, (3, 1), 3, 3, 1),
)  # fmt: skip

SLICES = (
    ":k", "k:", "1:", ":-1", "::2", "::-1", ":n", "n:", "-k:", "1:-1", ":len({})", "len({}) - k:", "::k", "-1:k:-1",
)  # fmt: skip
COUNTED_SLICES = ("{0}:", ":{0}", "{0}:{0} + 3", "{0}::2", ":{0} + 1", "{0} - 1:", "{0}::-1", ":-{0}", "{0}:len({1})")
INDEXES = (
    "{0} + 1", "{0} - 1", "len({1}) - 1 - {0}", "{0} + k", "2 * {0}", "{0} // 2", "q[{0}]", "-{0}", "-{0} - 1",
    "{0} % len({1})", "{0} - len({1})", "{0} * k", "len({2}) - 1 - {0}",
)  # fmt: skip
FIXED_INDEXES = ("0", "-1", "1", "k", "n - 1", "len({1}) - 1", "len({2}) - 1", "n // 2", "q[0]", "-k", "-len({2})")
RANGES = (
    "len({0})", "len({0})", "len({0})", "n", "k", "len({0}) - 1", "1, len({0})", "len({0}) - 1, -1, -1",
    "0, len({0}), 2", "min(len({0}), len({1}))", "max(len({0}), len({1}))", "k, len({0})", "w.shape[0]", "w.shape[1]",
    "len({0}) - 2", "{0}.shape[0]", "n, 0, -1", "1, n - 1", "len({0}) // 2", "len({0}) + k", "0, n, k",
)  # fmt: skip
INNER_RANGES = ("{2}", "{2} + 1", "{2}, len({0})", "{2} + 1, len({0})", "len({0}) - {2}", "{2}, -1, -1")
CONDITIONS = (
    "len({0}) == len({1})", "len({0}) < len({1})", "len({0}) > 2", "{0}.shape == {1}.shape", "n < len({0})",
    "len({0}) >= k", "{3} > 0.1", "{3} < {4}", "w.shape[0] == w.shape[1]", "w.shape[0] == len({0})", "k == 2",
    "len({0}) == n", "len({0}) != len({1}) or k > 1", "n == len({0}) and len({0}) == len({1})", "not len({0})",
    "{0}.size == w.shape[1]",
)  # fmt: skip
COUNTED_CONDITIONS = (
    "{2} < len({0})", "{2} + 1 < len({0}) and {0}[{2} + 1] > 0.1", "{2} == k", "{2} % 2 == 0", "{0}[{2}] > 0.2",
    "{2} >= len({0}) - 1", "{2} == 0 or {0}[{2} - 1] < {3}", "0 < {2} < len({1}) - 1", "{2} == len({0}) // 2",
)  # fmt: skip
BINARY = ("{} + {}", "{} - 0.5 * {}", "0.5 * {} * {}", "0.5 * {} + 0.25 * {}", "{} / (2.0 + np.sin({}))")


@dataclass
class Names:
    """What is bound on every path to a place."""

    vectors: list[str] = field(default_factory=lambda: ["x", "y", "z"])
    floats: list[str] = field(default_factory=lambda: ["a", "s"])
    counters: list[str] = field(default_factory=list)
    loops: int = 0
    depth: int = 0

    def inner(self, loop: bool = False) -> Names:
        return Names([*self.vectors], [*self.floats], [*self.counters], self.loops + loop, self.depth + 1)


class FlowWriter(Lines):
    """Writes one function."""

    def __init__(self, seed: int, size: int | None = None) -> None:
        super().__init__(seed)
        self.budget = size or self.r.randint(2, 9)
        self.kind = self.r.choice(("number", "number", "array"))

    def write(self) -> str:
        names = Names()
        self.line(0, "def main(x, y, z, w, q, n, k, a):")
        self.line(1, "s = 0.5 * a")
        while self.budget > 0:
            self.statement(names, 1)
        self.line(1, "return " + self.result(names))
        return HEADER + "\n".join(self.lines) + "\n"

    def draw(self, forms: Iterable[str], s: Names, *more: str) -> str:
        """One of the forms, with vectors in the places 0 and 1, and what is given in the others."""
        return self.r.choice([*forms]).format(self.vector(s), self.vector(s), *more)

    # -- expressions ---------------------------------------------------------------------------------

    def vector(self, s: Names) -> str:
        return self.r.choice(s.vectors)

    def index(self, s: Names, of: str) -> str:
        if not s.counters or self.chance(0.1):
            return self.r.choice(FIXED_INDEXES).format("", of, self.vector(s))
        counter = self.r.choice(s.counters)
        if self.chance(0.55):
            return counter
        if self.chance(0.3):
            return self.r.choice(("{0} % len({1})", "min({0}, len({1}) - 1)", "max({0} - 1, 0)")).format(counter, of)
        return self.r.choice(INDEXES).format(counter, of, self.vector(s))

    def element(self, s: Names) -> str:
        if self.chance(0.2):
            rows, columns = (self.index(s, f"w{t}") for t in ("", ".T"))
            return f"w[{rows}, {columns}]"
        of = self.vector(s)
        return f"{of}[{self.index(s, of)}]"

    def part(self, s: Names) -> str:
        """A vector, or a view of one."""
        of = self.vector(s)
        if self.chance(0.35):
            return of
        if s.counters and self.chance(0.5):
            text = self.r.choice(COUNTED_SLICES).format(self.r.choice(s.counters), self.vector(s))
        else:
            text = self.r.choice(SLICES).format(self.vector(s))
        if self.chance(0.15):
            at = self.index(s, "w")
            return self.r.choice((f"w[{at}]", f"w[:, {at}]", f"w[{at}, {text}]", f"w[{text}, {at}]"))
        return f"{of}[{text}]"

    def scalar(self, s: Names, depth: int = 2) -> str:
        r, pick = self.r, self.r.random()
        if depth <= 0 or pick < 0.35:
            return self.element(s) if self.chance(0.6) else r.choice(s.floats)
        if pick < 0.6:
            return "(" + r.choice(BINARY).format(self.scalar(s, depth - 1), self.scalar(s, depth - 1)) + ")"
        if pick < 0.75:
            return f"np.sin({self.scalar(s, depth - 1)})"
        if pick < 0.8 and s.counters:
            return f"0.1 * {r.choice(s.counters)}"
        if pick < 0.85:
            return f"({self.scalar(s, 0)} if {self.condition(s)} else {self.scalar(s, 0)})"
        one, two = self.part(s), self.part(s)
        return r.choice(
            (
                f"np.sum({one})", f"np.dot({one}, {two})", f"({one} @ {two})", f"np.max({one})", f"0.1 * len({one})",
                f"np.sum({one} * {two})", f"sum(e * e for e in {one})", f"_first({one}, 0.2) * 0.1",
                f"sum(e * f for e, f in zip({one}, {two}))", f"np.mean({one})", f"np.prod(np.cos({one}))",
            )
        )  # fmt: skip

    def array(self, s: Names, depth: int = 2) -> str:
        r, pick = self.r, self.r.random()
        if depth <= 0 or pick < 0.3:
            return self.part(s)
        if pick < 0.55:
            return "(" + r.choice(BINARY).format(self.array(s, depth - 1), self.array(s, depth - 1)) + ")"
        if pick < 0.7:
            return "(" + r.choice(BINARY).format(self.scalar(s, depth - 1), self.array(s, depth - 1)) + ")"
        one, two, i = self.part(s), self.part(s), self.fresh("i")
        inner = s.inner()
        inner.counters.append(i)
        span = self.draw(RANGES, s)
        if not s.loops and self.chance(0.2):  # nothing grows in a loop
            return r.choice((f"np.concatenate(({one}, {two}))", f"np.append({one}, a)", f"np.repeat({one}, 2)"))
        return r.choice(
            (
                f"np.sin({one})", f"np.where({one} > 0.1, {two}, 0.5)", f"np.where({one} > {two}, {one}, {two})",
                f"np.zeros(len({one}))", "0.1 * np.arange(n)", f"{one}[q]",
                f"(w @ {one})", f"({one} @ w)", f"_same({one}, {two})", f"np.maximum({one}, {two})", f"{one}.copy()",
                f"np.array([{self.scalar(inner, 1)} for {i} in range({span})])", f"{one}[{two} > 0.1]",
                f"np.array([0.5 * e for e in {one} if e > -0.3])", f"np.sum(w, axis={r.choice('01')})",
                f"np.full(len({one}), {self.scalar(s, 0)})", f"np.cumsum({one})", "np.ones(n)", "np.empty(0)",
                f"np.stack(({one}, {two}))[{r.choice('01')}]", f"np.roll({one}, k)",
                f"({one} if {self.condition(s)} else {two})",
            )
        )  # fmt: skip

    def condition(self, s: Names) -> str:
        one, two = (self.r.choice(s.floats) for _ in range(2))
        if s.counters and self.chance(0.5):
            return self.draw(COUNTED_CONDITIONS, s, self.r.choice(s.counters), one, two)
        return self.draw(CONDITIONS, s, "", one, two)

    def result(self, s: Names) -> str:
        """All results of a function are of one kind."""
        if self.kind == "number":
            return " + ".join([*s.floats, *(f"np.sum({v})" for v in s.vectors if self.chance(0.5))])
        return self.r.choice(("w[0]", *s.vectors, self.part(s), self.part(s)))

    # -- statements ----------------------------------------------------------------------------------

    def statement(self, s: Names, i: int) -> None:
        self.budget -= 1
        kinds: list[tuple[int, Callable[[Names, int], None]]] = [
            (6, self.store), (3, self.store_part), (3, self.bind_vector), (3, self.bind_float), (1, self.rebind),
            (1, self.call), (1, self.refuse),
        ]  # fmt: skip
        if s.depth < 3:
            kinds += [
                (8, self.count_up), (3, self.each), (2, self.while_), (5, self.branch), (3, self.guarded),
                (2, self.known_here), (1, self.collect),
            ]  # fmt: skip
        if s.loops:
            kinds += [(2, self.jump)]
        if s.depth:
            kinds += [(1, self.leave)]
        (chosen,) = self.r.choices([f for _, f in kinds], [w for w, _ in kinds])
        chosen(s, i)

    def block(self, s: Names, i: int, most: int = 3) -> None:
        for _ in range(self.r.randint(1, most)):
            self.statement(s, i)

    def store(self, s: Names, i: int) -> None:
        self.line(i, f"{self.element(s)} {self.r.choice(('=', '+=', '-=', '='))} {self.bounded(self.scalar(s))}")

    def bounded(self, text: str) -> str:
        """What is stored stays small: where numbers grow without end, the last bit of one decides."""
        return self.r.choice(("np.sin({})", "0.5 * np.cos({})", "np.tanh({})")).format(text)

    def store_part(self, s: Names, i: int) -> None:
        to = self.part(s)
        to = to if "[" in to else f"{to}[:]"
        value = self.array(s, 1) if self.chance(0.75) else self.scalar(s, 1)
        self.line(i, f"{to} {self.r.choice(('=', '+=', '*='))} {self.bounded(value)}")

    def bind_vector(self, s: Names, i: int) -> None:
        name = self.vector(s) if self.chance(0.4) else self.fresh("u")
        self.line(i, f"{name} = {self.array(s)}")
        if name not in s.vectors:
            s.vectors.append(name)

    def bind_float(self, s: Names, i: int) -> None:
        name = "s" if self.chance(0.6) else self.fresh("t")
        self.line(i, f"{name} = {self.bounded(self.scalar(s))}")
        if name not in s.floats:
            s.floats.append(name)

    def rebind(self, s: Names, i: int) -> None:
        """Names change places, or get a part."""
        one, two = self.vector(s), self.vector(s)
        forms = (f"{one}, {two} = {two}, {one}", f"{one} = {one}[1:]", f"{one} = {one}[:-1]", f"{one} = {two}[:k]",
                 f"{one} = {two}", "w = w.T", "w = w[:, ::-1]", f"n = len({one})", "k -= 1")  # fmt: skip
        self.line(i, self.r.choice((*forms, "n += 1") if not s.loops else forms))

    def call(self, s: Names, i: int) -> None:
        one, two = self.part(s), self.part(s)
        self.line(i, self.r.choice((f"_copy({one}, {two})", f"s += np.sum(_shift({one}, {two}, k))")))

    def refuse(self, s: Names, i: int) -> None:
        if self.chance(0.5):
            self.line(i, f"assert {self.condition(s)}")
        else:
            self.line(i, f"if {self.condition(s)}:")
            self.line(i + 1, "raise ValueError('no')")

    def count_up(self, s: Names, i: int) -> None:
        counter, inner = self.fresh("i"), s.inner(loop=True)
        outer = [c for c in s.counters if s.loops]
        forms = INNER_RANGES if outer and self.chance(0.4) else RANGES
        self.line(i, f"for {counter} in range({self.draw(forms, s, *outer[-1:])}):")
        inner.counters.append(counter)
        if self.chance(0.2):
            self.line(i + 1, f"{self.element(inner)} = {self.bounded(self.element(inner))}")
        self.block(inner, i + 1)
        self.otherwise(s, i)

    def otherwise(self, s: Names, i: int) -> None:
        if self.chance(0.1):
            self.line(i, "else:")
            self.statement(s.inner(), i + 1)

    def each(self, s: Names, i: int) -> None:
        inner, e, f, c = s.inner(loop=True), self.fresh("e"), self.fresh("e"), self.fresh("i")
        one, two = self.part(s), self.part(s)
        head, floats, counters = self.r.choice(
            (
                (f"for {e} in {one}:", (e,), ()), (f"for {c}, {e} in enumerate({one}):", (e,), (c,)),
                (f"for {e}, {f} in zip({one}, {two}):", (e, f), ()), (f"for {c} in q:", (), (c,)),
                (f"for {c}, ({e}, {f}) in enumerate(zip({one}, reversed({two}))):", (e, f), (c,)),
            )
        )  # fmt: skip
        self.line(i, head)
        inner.floats += floats
        inner.counters += counters
        self.block(inner, i + 1)
        self.otherwise(s, i)

    def while_(self, s: Names, i: int) -> None:
        """A loop of at most some rounds, whose counter is the last thing that changes, or the first one."""
        c, inner = self.fresh("i"), s.inner(loop=True)
        self.line(i, f"{c} = {self.r.choice(('0', '0', 'k', '1'))}")
        how = ("{2} < len({0})", "{2} < len({0}) and {0}[{2}] < 0.6", "{2} < n", "{2} < len({0}) and {2} < len({1})")
        self.line(i, f"while {self.draw(how, s, c)} and {c} < 20:")
        inner.counters.append(c)
        self.line(i + 1, f"{c} += 1")
        self.block(inner, i + 1)
        s.counters.append(c)

    def branch(self, s: Names, i: int) -> None:
        self.line(i, f"if {self.condition(s)}:")
        self.block(s.inner(), i + 1, 2)
        if self.chance(0.5):
            if self.chance(0.3):
                self.line(i, f"elif {self.condition(s)}:")
                self.block(s.inner(), i + 1, 2)
            self.line(i, "else:")
            self.block(s.inner(), i + 1, 2)

    def known_here(self, s: Names, i: int) -> None:
        """What one path makes sure of, and what is done behind the branch in any case."""
        one, two, u = self.vector(s), self.vector(s), self.fresh("u")
        self.line(i, f"{u} = {self.part(s)}")
        self.line(i, f"if {self.draw(CONDITIONS, s, '', 's', 'a')}:")
        self.line(i + 1, f"{u} = {one} + {two}")
        if self.chance(0.3):
            self.line(i + 1, self.r.choice(("return " + self.result(s), "raise IndexError('known')")))
        counter = self.fresh("i")
        self.line(i, f"for {counter} in range({self.r.choice((f'len({one})', f'len({u})', f'len({two})', 'n'))}):")
        self.line(i + 1, f"{two}[{counter}] += 0.3 * np.sin({one}[{counter}] * {u}[{counter}])")
        s.vectors.append(u)

    def collect(self, s: Names, i: int) -> None:
        """A list that grows, and becomes an array."""
        items, c, inner, u = self.fresh("l"), self.fresh("i"), s.inner(loop=True), self.fresh("u")
        self.line(i, f"{items} = []")
        self.line(i, f"for {c} in range({self.draw(RANGES, s)}):")
        inner.counters.append(c)
        if self.chance(0.5):
            self.statement(inner, i + 1)
        self.line(i + 1, f"{items}.append({self.bounded(self.scalar(inner))})")
        self.line(i, f"{u} = np.array({items})")
        s.vectors.append(u)

    def guarded(self, s: Names, i: int) -> None:
        """Something may raise, with some stores before."""
        r = self.r
        self.line(i, "try:")
        inner = s.inner()
        inner.loops = 0
        self.block(inner, i + 1, 2)
        self.store(s, i + 1)
        self.line(i, f"except {r.choice(('IndexError', 'ValueError', '(IndexError, ValueError)', 'Exception'))}:")
        self.statement(s.inner(), i + 1)
        if self.chance(0.2):
            self.line(i, "else:")
            self.statement(s.inner(), i + 1)
        if self.chance(0.2):
            self.line(i, "finally:")
            handler = s.inner()
            handler.loops = 0
            self.store(handler, i + 1)

    def jump(self, s: Names, i: int) -> None:
        self.line(i, f"if {self.condition(s)}:")
        self.line(i + 1, self.r.choice(("break", "continue")))

    def leave(self, s: Names, i: int) -> None:
        self.line(i, f"if {self.condition(s)}:")
        self.line(i + 1, "return " + self.result(s))


@dataclass(frozen=True)
class FlowProgram:
    """One random function and its text."""

    seed: int
    source: str
    fn: Callable


def flow_program(seed: int, size: int | None = None) -> FlowProgram:
    """The program of a seed; `size` bounds the number of statements."""
    source = FlowWriter(seed, size).write()
    return FlowProgram(seed, source, load(source, f"flow_{seed}"))


def flow_args(lengths: tuple, overlap: int = 0) -> tuple:
    """Fresh arguments of these lengths; overlap: 1 x, y and z are parts of one array, 2 z goes backwards in it."""
    x, y, z, shape, places, n, k = lengths
    rng = np.random.default_rng(x + 7 * y)
    memory = rng.uniform(-1, 1, 3 * max(x, y, z) + 4)
    starts = ((0, max(x, y, z), 2 * max(x, y, z)), (0, 2, 4), (0, 0, 0))[overlap]
    one, two, three = (memory[at : at + m] for at, m in zip(starts, (x, y, z), strict=True))
    if overlap != 2:
        one, two, three = (v if overlap else v.copy() for v in (one, two, three))
    else:
        three = three[::-1]
    w = rng.uniform(-1, 1, shape)
    return one, two, three, w, rng.permutation(places + 1)[:places], n, k, 0.4
