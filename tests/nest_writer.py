"""Writes nests of loops over arrays as Python source, any of them: for random_nests.py, which has what passes look for.

Every program has the parameters `a, b` (n rows of m), `c` (m rows of n), `g` (n rows of n), `u, w` (n numbers), `v` (m
numbers), `z` (n integers that are indices of rows), `k, q` (ints) and `s` (a float). Loops are up to three deep, over
rows, columns, triangles, with steps, down, with counts of arguments and of sizes computed between them; a counter knows
for which axis it was made and how far from its ends it stays, so that most indices are in range, and some are not. In
`exact` programs nothing is rounded in an order of its own: what is compiled gives the same bits.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

ARRAYS = {
    "a": ("n", "m"), "b": ("n", "m"), "c": ("m", "n"), "g": ("n", "n"), "u": ("n",), "w": ("n",), "v": ("m",),
}  # fmt: skip
PARAMETERS = (*ARRAYS, "z", "k", "q", "s")
SIZES = {
    "n": ("len(u)", "a.shape[0]", "len(w)", "g.shape[1]", "len(b)"),
    "m": ("len(v)", "a.shape[1]", "c.shape[0]", "v.size"),
}
# how values are combined: what comes of it stays about as large as what it is made of
BINARY = (
    "{} + {}", "{} - {}", "0.5 * {} + 0.25 * {}", "0.7 * ({} * {})", "{} - 0.5 * {}", "max({}, {})", "min({}, {})",
    "({} + {}) / 2.0",
)  # fmt: skip
UNARY = ("-{}", "abs({})", "0.5 * {}", "np.sqrt(abs({}))", "({} - 0.25)", "({} / 3)", "({} if {} > 0.1 else 0.3)")
SMOOTH = ("np.sin({})", "np.tanh({})", "np.exp(-abs({}))", "np.cos({})")
COMPARE = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class Counter:
    """An integer of a loop: of which axis it counts places, and how far from the begin and the end of it it stays."""

    name: str
    axis: str
    low: int = 0
    high: int = 0


@dataclass
class Place:
    """What is bound at a place of the program, how deep it is, and what it may not bind anew."""

    counters: list[Counter] = field(default_factory=list)
    floats: list[str] = field(default_factory=lambda: ["s"])
    arrays: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(ARRAYS))
    sizes: dict[str, str] = field(default_factory=dict)  # names of extents
    ends: list[str] = field(default_factory=list)  # names of numbers that are no more than some extent
    shifts: list[str] = field(default_factory=list)  # names of numbers that are less than n, and not negative
    loops: int = 0
    depth: int = 0

    def inner(self, *counters: Counter) -> Place:
        """A copy for a block; in a loop if there are counters."""
        return replace(
            self, counters=[*self.counters, *counters], floats=list(self.floats), arrays=dict(self.arrays),
            sizes=dict(self.sizes), ends=list(self.ends), shifts=list(self.shifts),
            loops=self.loops + bool(counters), depth=self.depth + 1,
        )  # fmt: skip


class NestWriter:
    """Writes one function. wild: how likely an index is that may be out of range."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.exact = True
        self.smooth = self.chance(0.25)
        self.wild = self.r.choice((0.0, 0.0, 0.0, 0.03, 0.1))
        self.leaves = self.chance(0.15)  # whether loops may be left from within
        self.integers = self.r.choice((0.0, 0.1))  # indices that are computed of what is in arrays
        self.columns = self.r.choice((0.2, 0.5, 0.8))  # how likely a column is, where rows are as well
        self.few = self.r.choice((2, 3, 7))  # arrays that are used

    # -- helpers -----------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, i: int, text: str) -> None:
        self.lines.append("    " * i + text)

    # -- the function ------------------------------------------------------------------------------------

    def write(self) -> str:
        """The text of a module."""
        p = Place()
        names = self.r.sample(list(ARRAYS), self.few)
        if not any(len(ARRAYS[n]) == 2 for n in names):
            names[0] = self.r.choice(("a", "b", "g"))
        p.arrays = {n: ARRAYS[n] for n in names}
        self.line(0, f"def main({', '.join(PARAMETERS)}):")
        self.line(1, f"t0 = {self.r.choice(('0.0', '1.0', 's'))}")
        p.floats.append("t0")
        for _ in range(self.r.choice((1, 1, 2, 3))):
            if self.chance(0.35):
                self.define(p, 1)
            self.outermost(p, 1)
        self.line(1, f"return {self.r.choice(p.floats)}")
        return "import numpy as np\n\n\n" + "\n".join(self.lines) + "\n"

    def outermost(self, p: Place, i: int) -> None:
        """One of the nests of the function."""
        self.loop(p, i)

    def define(self, p: Place, i: int) -> None:
        """A size, a count or an array, which later loops take."""
        pick = self.r.random()
        axis = self.r.choice("nm")
        size = self.r.choice(SIZES[axis])
        if pick < 0.3:
            name = self.fresh("n")
            self.line(i, f"{name} = {size}")
            p.sizes[name] = axis
        elif pick < 0.7:
            name = self.fresh("e")
            text = (f"min({size}, k)", f"{size} - 1", f"{size} // 2", f"max({size} - q, 0)", f"min({size}, q + 1)")
            self.line(i, f"{name} = {self.r.choice(text)}")
            p.ends.append(name)
        elif pick < 0.8:
            name = self.fresh("d")
            self.line(i, f"{name} = {self.r.choice(('z[0]', 'z[-1]', 'abs(k) // 2', 'z[0] // 2'))}")
            p.shifts.append(name)
        else:
            name, like = self.fresh("x"), self.r.choice(list(p.arrays))
            shape = p.arrays[like]
            text = (f"{like}.copy()", f"np.zeros_like({like})", f"0.5 * {like}", f"np.ones({like}.shape)")
            if like not in ARRAYS or self.chance(0.5):
                text = text[:1]
            self.line(i, f"{name} = {self.r.choice(text)}")
            p.arrays[name] = shape

    # -- loops -------------------------------------------------------------------------------------------

    def loop(self, p: Place, i: int) -> None:
        """A loop over an axis, and what stands in it."""
        header, counter = self.header(p)
        self.line(i, header)
        inner = p.inner(counter)
        if p.loops < 2 and self.chance((0.85, 0.35)[p.loops]):
            self.nested(inner, i + 1)
        else:
            self.body(inner, i + 1)

    def nested(self, p: Place, i: int) -> None:
        """What is before, in and behind an inner loop."""
        r = self.r
        if self.chance(0.3):
            self.statement(p, i)
        total = None
        if self.chance(0.35):
            total = self.fresh("t")
            self.line(i, f"{total} = {r.choice(('0.0', 's', self.element(p)))}")
            p.floats.append(total)
        for _ in range(r.choice((1, 1, 1, 2))):
            self.loop(p, i)
        if total is not None:
            self.line(i, f"{self.target(p)} {r.choice(('=', '+='))} {total}")
        elif self.chance(0.3):
            self.statement(p, i)

    def header(self, p: Place, axis: str = "") -> tuple[str, Counter]:
        """The head of a loop over an axis, and its counter."""
        r = self.r
        name = self.fresh("i")
        used = {c.axis for c in p.counters}
        axes = [x for x in "nm" if x not in used] or ["n", "m"]
        if not axis:
            axis = r.choice(axes) if self.chance(0.85) else r.choice("nm")
            if not used:
                axis = "m" if self.chance(self.columns) else "n"
        size = r.choice([*SIZES[axis], *(s for s, x in p.sizes.items() if x == axis)])
        same = [c for c in p.counters if c.axis == axis]
        pick = r.random()
        ways: list[tuple[str, int, int]]
        if same and self.chance(0.7):  # a triangle
            c = r.choice(same).name
            ways = [(f"{c}", 0, 0), (f"{c} + 1", 0, 0), (f"{c}, {size}", 0, 0), (f"{c} + 1, {size}", 1, 0),
                    (f"{c} - 1, -1, -1", 0, 1), (f"{size} - {c}", 0, 0), (f"{size} - 1, {c}, -1", 1, 0)]  # fmt: skip
        elif pick < 0.4:
            ways = [(size, 0, 0)]
        elif pick < 0.65:
            ways = [(f"1, {size}", 1, 0), (f"{size} - 1", 0, 1), (f"1, {size} - 1", 1, 1), (f"2, {size}", 2, 0),
                    (f"2, {size} - 1", 2, 1), (f"{size} - 2", 0, 2)]  # fmt: skip
        elif pick < 0.8:
            ways = [(f"{size} - 1, -1, -1", 0, 0), (f"{size} - 1, 0, -1", 1, 0), (f"{size} - 2, 0, -1", 1, 1),
                    (f"{size} - 2, -1, -1", 0, 1)]  # fmt: skip
        elif pick < 0.9:
            ways = [(f"0, {size}, 2", 0, 0), (f"1, {size}, 2", 1, 0), (f"{size} - 1, 0, -2", 1, 0),
                    (f"0, {size} - 1, 3", 0, 1)]  # fmt: skip
        else:
            ways = [(f"min(k, {size})", 0, 0), (f"k, {size}", 0, 0), (f"min(k + 1, {size} - 1)", 0, 1)]
            if self.wild:
                ways += [("k", 0, 0), ("q", 0, 0), ("k, q", 0, 0), (f"0, {size}, q", 0, 0)]
        if p.ends and self.chance(0.25):
            end = r.choice(p.ends)
            ways = [(f"min({end}, {size})", 0, 0), (f"{end}, {size}", 0, 0)]
            if self.wild:
                ways.append((end, 0, 0))
        text, low, high = r.choice(ways)
        if text == "k, " + size and not self.wild:
            text = f"abs(k), {size}"
        return f"for {name} in range({text}):", Counter(name, axis, low, high)

    def body(self, p: Place, i: int) -> None:
        for _ in range(self.r.choice((1, 1, 2, 3))):
            self.statement(p, i)

    # -- statements --------------------------------------------------------------------------------------

    def statement(self, p: Place, i: int) -> None:
        kinds: list[tuple[int, Callable[[Place, int], None]]] = [
            (8, self.store), (3, self.total), (3, self.local), (1, self.slices), (1, self.scatter),
        ]  # fmt: skip
        if p.depth < 5:
            kinds.append((2, self.branch))
        if p.loops:
            kinds.append((1, self.skip))
        if self.leaves:
            kinds.append((2, self.leave))
        (chosen,) = self.r.choices([f for _, f in kinds], [w for w, _ in kinds])
        chosen(p, i)

    def store(self, p: Place, i: int) -> None:
        op = self.r.choice(("=", "=", "+=", "-=", "*=", "=", "+="))
        value = self.value(p, 2)
        self.line(i, f"{self.target(p)} {op} {'0.5 * ' if op == '*=' else ''}{value}")

    def total(self, p: Place, i: int) -> None:
        """A number that trips hand on."""
        name = self.r.choice([f for f in p.floats if f != "s"])
        how = ("{0} += {1}", "{0} = 0.5 * {0} + {1}", "{0} -= {1}", "{0} = max({0}, {1})", "{0} = {1}", "{0} += {1}")
        self.line(i, self.r.choice(how).format(name, self.value(p, 1)))

    def local(self, p: Place, i: int) -> None:
        """A number of a trip, or an index."""
        if self.chance(self.integers * 3) and p.counters:
            self.index_of_values(p, i)
            return
        name = self.fresh("t")
        self.line(i, f"{name} = {self.value(p, 2)}")
        p.floats.append(name)

    def index_of_values(self, p: Place, i: int) -> None:
        name = self.fresh("j")
        one = [c for c in p.counters if c.axis == "n"]
        if one and self.chance(0.5):
            self.line(i, f"{name} = z[{self.r.choice(one).name}]")
        else:
            text = f"int(3.0 * abs({self.element(p)}))"
            if not self.wild:
                text = f"min({text}, len(u) - 1)"
            self.line(i, f"{name} = {text}")
        p.counters.append(Counter(name, "n"))

    def branch(self, p: Place, i: int) -> None:
        self.line(i, f"if {self.condition(p)}:")
        self.body(p.inner(), i + 1)
        if self.chance(0.4):
            self.line(i, "else:")
            self.body(p.inner(), i + 1)

    def skip(self, p: Place, i: int) -> None:
        self.line(i, f"if {self.condition(p)}:")
        self.line(i + 1, "continue" if not self.leaves else self.r.choice(("continue", "break")))

    def leave(self, p: Place, i: int) -> None:
        if not p.loops:
            return self.store(p, i)
        self.line(i, f"if {self.condition(p, 0.9)}:")
        self.line(i + 1, self.r.choice((f"return {self.r.choice(p.floats)}", "raise ValueError('far')", "break")))
        return None

    def condition(self, p: Place, bound: float | None = None) -> str:
        r = self.r
        if bound is None and len(p.counters) and self.chance(0.45):
            c = r.choice(p.counters).name
            other = r.choice(p.counters).name
            tests = (f"{c} % 2 == 0", f"{c} > k", f"{c} < 3", f"{c} != q", f"{c} <= {other}", f"{c} == {other}")
            return r.choice(tests)
        return f"{self.element(p)} {r.choice(COMPARE)} {bound if bound is not None else r.choice((0.1, -0.2, 0.4))}"

    # -- slices in loops ---------------------------------------------------------------------------------

    def row(self, p: Place, name: str) -> tuple[str, str] | None:
        """A row or a column of a matrix, or a vector, without its ends; and its axis."""
        shape = p.arrays[name]
        if len(shape) == 1:
            return name, shape[0]
        at = self.r.choice((0, 1))
        index = self.index(p, shape[at])
        if index is None:
            return None
        return f"{name}[{index}, _]" if at == 0 else f"{name}[_, {index}]", shape[1 - at]

    def sliced(self, text: str, cut: str) -> str:
        return text.replace("_", cut or ":") if "_" in text else f"{text}[{cut or ':'}]"

    def slices(self, p: Place, i: int) -> None:
        """A statement of parts of rows, columns and vectors."""
        r = self.r
        found = [x for n in p.arrays for x in [self.row(p, n)] if x is not None]
        if not found:
            return self.total(p, i)
        to, axis = r.choice(found)
        same = [t for t, x in found if x == axis]
        ways = [("1:", ":-1"), ("", ""), ("1:-1", "2:"), (":-1", "1:"), ("1:-1", ":-2"), ("::-1", ""), ("::2", "::2")]
        inside = [c for c in p.counters if c.axis == axis]
        if inside:
            c = r.choice(inside).name
            ways += [(f":{c}", f":{c}"), (f"{c}:", f"{c}:"), (f"{c} + 1:", f"{c} + 1:")] * 2
        one, other = r.choice(ways)
        if self.chance(0.5):
            one, other = other, one
        cuts = ("1:-1", "2:", ":-2") if "1:-1" in (one, other) else (one, other)  # all of one length
        terms = [self.sliced(r.choice([to, *same]), r.choice(cuts)) for _ in range(2)]
        if inside and self.chance(0.25):
            self.exact = False
            self.line(i, f"{self.target(p)} {r.choice(('=', '+='))} 0.3 * ({terms[0]} @ {terms[1]})")
            return None
        text = r.choice(("0.5 * {0} + {1} * 0.25", "{0} - 0.5 * {2}", "{0} * {2}", "0.3 * ({0} + {1})", "{2}", "{0}"))
        text = text.format(*terms, self.value(p, 0))
        self.line(i, f"{self.sliced(to, one)} {r.choice(('=', '+=', '-=', '='))} {text}")
        return None

    def scatter(self, p: Place, i: int) -> None:
        """An element by an index from an array."""
        one = [c for c in p.counters if c.axis == "n"]
        rows = [n for n, shape in p.arrays.items() if shape[0] == "n"]
        if not one or not rows:
            return self.store(p, i)
        name = self.r.choice(rows)
        index = f"z[{self.r.choice(one).name}]"
        if len(p.arrays[name]) == 2:
            other = self.index(p, p.arrays[name][1]) or "0"
            index = f"{index}, {other}"
        value = self.value(p, 1)
        self.line(i, f"{name}[{index}] {self.r.choice(('=', '+='))} {value}")
        return None

    # -- values ------------------------------------------------------------------------------------------

    def index(self, p: Place, axis: str) -> str | None:
        """An index of an axis, of counters."""
        r = self.r
        if self.wild and self.chance(self.wild):
            c = r.choice(p.counters).name if p.counters else "k"
            return r.choice((f"{c} + 1", f"{c} - 1", f"{c} + k", f"2 * {c}", f"k - {c}", c, f"{c} - 3", "q", "-q"))
        found = [c for c in p.counters if c.axis == axis]
        if not found:
            return None
        c = found[-1] if self.chance(0.7) else r.choice(found)
        if p.shifts and axis == "n" and self.chance(0.3):
            return f"{c.name} - {r.choice(p.shifts)}"
        pick = r.random()
        if pick < 0.6:
            return c.name
        if pick < 0.85:
            apart = r.randint(-c.low, c.high)
            return f"{c.name} {'+' if apart > 0 else '-'} {abs(apart)}" if apart else c.name
        if pick < 0.93:
            size = r.choice(SIZES[axis])
            return r.choice((f"{size} - 1 - {c.name}", f"-1 - {c.name}", f"{c.name} // 2", f"-{c.name}"))
        return f"{c.name} - {r.choice((1, 1, 2))}" if self.chance(0.5) else c.name

    def access(self, p: Place, name: str) -> str | None:
        found = [self.index(p, axis) for axis in p.arrays[name]]
        if any(x is None for x in found):
            return None
        return f"{name}[{', '.join(found)}]"  # type: ignore[arg-type]

    def target(self, p: Place) -> str:
        """An element that is written."""
        found = [x for n in p.arrays if (x := self.access(p, n)) is not None]
        wide = [x for x in found if "," in x]
        return self.r.choice(wide if wide and self.chance(0.7) else found) if found else "t0"

    def element(self, p: Place) -> str:
        found = [x for n in p.arrays if (x := self.access(p, n)) is not None]
        return self.r.choice(found) if found else self.r.choice(p.floats)

    def value(self, p: Place, depth: int) -> str:
        r = self.r
        pick = r.random()
        if depth <= 0 or pick < 0.15:
            if self.chance(0.7):
                return self.element(p)
            if p.counters and self.chance(0.15):
                return f"0.1 * {r.choice(p.counters).name}"
            return r.choice([*p.floats[-3:], "0.3", "s"])
        if pick < 0.75:
            return "(" + r.choice(BINARY).format(self.value(p, depth - 1), self.value(p, depth - 1)) + ")"
        if self.smooth and self.chance(0.5):
            self.exact = False
            return r.choice(SMOOTH).format(self.value(p, depth - 1))
        counted = [c.name for c in p.counters if c.axis == "n"]
        vectors = [n for n, shape in p.arrays.items() if shape == ("n",)]
        if p.shifts and counted and vectors and self.chance(0.4):
            self.exact = False
            return f"0.1 * np.sum({r.choice(vectors)}[{r.choice(counted)} - {r.choice(p.shifts)}:])"
        one = self.value(p, depth - 1)
        return "(" + r.choice(UNARY).format(one, one) + ")"
