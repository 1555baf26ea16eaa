"""Random nests of loops over arrays: functions as source text, of what the loop passes reorder, share and make shorter.

    program = random_nest(seed)             or random_nest(seed, "down"), all of whose nests have one shape
    program.fn(*make_args(5, 7))

Half of the nests are any (nest_writer.py, which says what the parameters are). The others have a shape that some pass
looks for, with what it must refuse as likely as what it may take: sweeps along rows that read what they have written,
time loops that copy an array, chains of shifted vectors, loops down columns, products of parts that grow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from nest_writer import ARRAYS, BINARY, COMPARE, PARAMETERS, SIZES, Counter, NestWriter, Place
from random_python import load

# how often nests have a shape, by its method
SHAPES = {"loop": 8, "swept": 2, "in_time": 2, "chain": 2, "down": 3, "kernel": 2, "growing": 2, "triangles": 2}
# columns as vectors, transposes, sums along rows, triangular solves
KERNELS = (
    ("for {j} in range(len(v)):", "    {a}[:, {j}] {op} {b}[:, {j}] * v[{j}]"),
    ("for {j} in range(1, len(v)):", "    {a}[1:, {j}] {op} 0.5 * {b}[:-1, {j} - 1] + u[1:]"),
    (
        "for {j} in range(len(v) - 1, -1, -1):",
        "    {a}[:, {j}] {op} 0.5 * u + {b}[:, {j}] * w",
        "    c[{j}] {op} {b}[:, {j}]",
    ),
    ("for {j} in range(k, len(v)):", "    {a}[:, {j}] {op} {b}[:, {j} - k] * v[{j}]"),
    ("{a} {op} c.T", "c {op} 0.3 * {b}.T"),
    ("{a}[:] = 0.5 * {b} + c.T * u[:, None]", "g += 0.5 * g.T"),
    (
        "for {y} in range(len(u)):",
        "    t0 = 0.0",
        "    for {j} in range(len(v)):",
        "        t0 += {a}[{y}, {j}] * v[{j}]",
        "    u[{y}] {op} t0",
    ),
    (
        "for {y} in range(len(u)):",
        "    t0 = s",
        "    for {j} in range(len(v)):",
        "        t0 = max(t0, {a}[{y}, {j}] - c[{j}, {y}])",
        "    w[{y}] {op} t0",
    ),
    (
        "for {y} in range(len(u)):",
        "    for {j} in range({y} + 1, len(u)):",
        "        g[{j}, {y}] *= 0.5",
        "        for {i} in range({y} + 1, len(u)):",
        "            g[{j}, {i}] -= 0.1 * g[{j}, {y}] * g[{y}, {i}]",
    ),
)


class ShapeWriter(NestWriter):
    """Writes one function. only: the shape of all its nests, of SHAPES."""

    def __init__(self, seed: int, only: str = "") -> None:
        super().__init__(seed)
        self.only = only

    def outermost(self, p: Place, i: int) -> None:
        (chosen,) = self.r.choices(list(SHAPES), list(SHAPES.values()))
        getattr(self, self.only or chosen)(p, i)

    def swept(self, p: Place, i: int) -> None:
        """A sweep along rows that reads what it has just written: a recurrence, and what comes before it in a row."""
        r = self.r
        name = r.choice([n for n, shape in p.arrays.items() if len(shape) == 2])
        rows, columns = p.arrays[name]
        other = r.choice([n for n, shape in p.arrays.items() if shape == (rows, columns)])
        y, x = self.fresh("i"), self.fresh("i")
        size, width = r.choice(SIZES[rows]), r.choice(SIZES[columns])
        low, high = r.choice((0, 1, 1, 2)), r.choice((0, 1, 1, 2))
        left, right = r.choice((1, 1, 2)), r.choice((0, 1, 1, 2))
        if self.chance(0.3):
            self.line(i, f"for {self.fresh('h')} in range({r.choice(('2', 'k', '3'))}):")
            i += 1
        turned = self.chance(0.2)
        rows_text = f"range({low}, {size} - {high})" if not turned else f"range({size} - {high + 1}, {low - 1}, -1)"
        self.line(i, f"for {y} in {rows_text}:")
        if self.chance(0.4):
            above = r.randint(-low, high)
            cut = f"{left}:{width} - {right}"
            self.line(i + 1, f"{name}[{y}, {cut}] {r.choice(('+=', '-=', '='))} "
                             f"{r.choice(('0.3', 's'))} * {other}[{y} + {above}, {cut}]")  # fmt: skip
        carries = self.chance(0.3)
        if carries:
            self.line(i + 1, f"t0 = {r.choice(('0.0', 's', f'{other}[{y}, 0]'))}")
        self.line(i + 1, f"for {x} in range({left}, {width} - {right}):")
        terms = []
        for _ in range(r.choice((1, 2, 3))):
            terms.append(f"{r.choice((name, name, other))}[{y} + {r.randint(-low, high)}, {x} + "
                         f"{r.randint(-left, right)}]".replace("+ -", "- "))  # fmt: skip
        terms.append(f"{name}[{y}, {x} - {r.choice((1, left))}]")
        r.shuffle(terms)
        if carries:
            self.line(i + 2, f"t0 = 0.5 * t0 + {terms[0]}")
            terms.append("t0")
        how = r.choice(("({}) / 3.0", "0.3 * ({})", "s * ({})")).format(" + ".join(terms))
        if self.chance(0.2):
            how = f"max({terms[0]}, {terms[-1]} - 0.1)"
        if self.chance(0.2):
            self.line(i + 2, f"if {terms[0]} > 0.2:")
            self.line(i + 3, f"{name}[{y}, {x}] = {how}")
            self.line(i + 2, "else:")
            self.line(i + 3, f"{name}[{y}, {x}] = {terms[-1]}")
        else:
            self.line(i + 2, f"{name}[{y}, {x}] {r.choice(('=', '=', '+=', '-='))} {how}")
        if carries and self.chance(0.5):
            self.line(i + 1, f"{other}[{y}, 0] = t0")

    def down(self, p: Place, i: int) -> None:
        """Loops down columns whose trips are apart, as a rule: what they share is read, or of the column."""
        r = self.r
        names = [n for n, shape in p.arrays.items() if len(shape) == 2]
        rows, columns = p.arrays[r.choice(names)]
        names = [n for n in names if p.arrays[n] == (rows, columns)]
        outer, first = self.header(Place(sizes=p.sizes, ends=p.ends), columns)
        self.line(i, outer)
        vectors = [n for n, shape in p.arrays.items() if len(shape) == 1]
        total = ""
        if self.chance(0.4):
            total = self.fresh("t")
            self.line(i + 1, f"{total} = {r.choice(('0.0', 's', f'{names[0]}[0, {first.name}]'))}")
        for _ in range(r.choice((1, 1, 2))):
            if self.chance(0.3):
                name = r.choice([n for n in vectors if p.arrays[n] == (columns,)] or ["t0"])
                self.line(i + 1, f"{name}[{first.name}] += s" if name != "t0" else f"{names[0]}[0, {first.name}] = s")
            inner, second = self.header(Place(sizes=p.sizes, ends=p.ends), rows)
            self.line(i + 1, inner)

            def element(written: bool = False, second: Counter = second) -> str:
                apart = r.choice((0, 0, *range(-second.low, second.high + 1)))
                y = f"{second.name} {'+' if apart > 0 else '-'} {abs(apart)}" if apart else second.name
                beside = r.choice((0, *range(-first.low, first.high + 1))) if not written and self.chance(0.2) else 0
                x = f"{first.name} {'+' if beside > 0 else '-'} {abs(beside)}" if beside else first.name
                near = [n for n in vectors if p.arrays[n] == (columns,)]
                if near and self.chance(0.2):
                    return f"{r.choice(near)}[{x}]"
                far = [n for n in vectors if p.arrays[n] == (rows,)]
                if far and not written and self.chance(0.2):
                    return f"{r.choice(far)}[{y}]"
                if not written and self.chance(0.1):
                    turned = [n for n, shape in p.arrays.items() if shape == (columns, rows)]
                    if turned:
                        return f"{r.choice(turned)}[{x}, {y}]"
                return f"{r.choice(names)}[{y}, {x}]"

            depth = i + 2
            if self.chance(0.2):
                self.line(depth, f"if {element()} {r.choice(COMPARE)} 0.1:")
                depth += 1
            for _ in range(r.choice((1, 1, 2))):
                value = r.choice(BINARY).format(element(), r.choice((element(), element(), "s", total or "0.3")))
                if total and self.chance(0.4):
                    self.line(depth, r.choice((f"{total} += {value}", f"{total} = 0.5 * {total} + {value}")))
                else:
                    self.line(depth, f"{element(True)} {r.choice(('=', '+=', '-='))} {value}")
        if total:
            self.line(i + 1, f"{r.choice(names)}[{r.choice((0, -1))}, {first.name}] {r.choice(('=', '+='))} {total}")

    def kernel(self, p: Place, i: int) -> None:
        """One of the kernels."""
        r = self.r
        one, other = r.choice("ab"), r.choice("ab")
        j, y = self.fresh("i"), self.fresh("i")
        lines = r.choice(KERNELS)
        names = {"a": one, "b": other, "j": j, "y": y, "i": self.fresh("i"), "op": r.choice(("=", "+=", "-="))}
        for line in lines:
            self.line(i, line.format(**names))

    def growing(self, p: Place, i: int) -> None:
        """Products of parts of rows and columns that get longer, or shorter, from trip to trip."""
        r = self.r
        self.exact = False
        y, j = self.fresh("i"), self.fresh("i")
        low, high = r.choice((0, 0, 1)), r.choice((0, 0, 1))

        def near(name: str) -> str:
            apart = r.choice((0, 0, *range(-low, high + 1)))
            return f"{name} {'+' if apart > 0 else '-'} {abs(apart)}" if apart else name

        down = self.chance(0.15)
        rows = f"{low}, len(u) - {high}" if not down else f"len(u) - {high + 1}, {low - 1}, -1"
        self.line(i, f"for {y} in range({rows}):")
        cut = r.choice((":{}", ":{}", "1:{}", ":{} + 1", ":{} - 1", "{}:", "{} + 1:", ":{} + 2", "k:{}")).format(y)
        vector, of = r.choice("uw"), r.choice("uw")
        if self.chance(0.5):
            row = f"g[{near(y)}, {cut}]" if self.chance(0.7) else f"g[{cut}, {near(y)}]"
            how = r.choice((f"{of}[{near(y)}] - {{}}", "0.5 * {}", "0.3 - {}"))
            value = how.format(f"({row} @ {vector}[{cut}])")
            self.line(i + 1, f"{vector}[{near(y)}] {r.choice(('=', '=', '+='))} 0.3 * ({value})")
            return
        inner = r.choice((f"{y}", f"{y} + 1", f"{y}, len(u)", f"{y} + 1, len(u)", "len(u)"))
        self.line(i + 1, f"for {j} in range({inner}):")
        short = r.choice((cut, f":{j}", f":{j}", f"1:{j}", f"{j}:"))
        two = r.choice((("g[{y}, {s}]", "g[{j}, {s}]"), ("g[{y}, {s}]", "g[{s}, {j}]"), ("g[{s}, {y}]", "g[{s}, {j}]"),
                        ("g[{y}, {s}]", "u[{s}]"), ("w[{s}]", "g[{s}, {j}]")))  # fmt: skip
        one, other = (x.format(y=y, j=j, s=short) for x in two)
        to = r.choice((f"g[{y}, {j}]", f"g[{y}, {j}]", f"g[{j}, {y}]", f"u[{j}]"))
        self.line(i + 2, f"{to} {r.choice(('=', '-=', '+='))} 0.2 * ({one} @ {other})")
        if self.chance(0.3):
            self.line(i + 1, f"g[{y}, {y}] = 0.5 * g[{y}, {y}] + s")

    def triangles(self, p: Place, i: int) -> None:
        """Products of parts of matrices that get longer, or shorter, from row to row: one a row, or one an element."""
        r = self.r
        self.exact = False
        y, j = self.fresh("i"), self.fresh("i")
        low, high = r.choice((0, 0, 1)), r.choice((0, 0, 1))
        self.line(i, f"for {y} in range({low}, len(u) - {high}):" if low else f"for {y} in range(len(u) - {high}):")
        cut = r.choice((":{}", ":{}", "{} + 1:", "{} + 1:", "{}:", ":{} + 1", "1:{}", "{}:len(u) - 1", "k:{}", ":-1"))
        cut = cut.format(y)
        turned, op = self.chance(0.5), r.choice(("=", "+=", "-="))
        row = r.choice((f"g[{y}, {cut}]", f"g[{cut}, {y}]", f"g[{cut}, {y}]", f"u[{cut}]"))
        if self.chance(0.25):  # one a row
            width = r.choice((":", ":", "1:", f"{y}:", f":{y}"))
            matrix = f"b[{cut}, {width}]" if turned else f"c[{width}, {cut}].T"
            value = r.choice((f"{row} @ {matrix}", f"{matrix}.T @ {row}"))
            self.line(i + 1, f"{r.choice((f'a[{y}, {width}]', f'b[{y}, {width}]', f'c[{width}, {y}]'))} {op} "
                             f"0.2 * ({value})")  # fmt: skip
            return
        if self.chance(0.3):
            before = (f"b[{y}, :] *= 0.5", f"u[{y}] = 0.5 * u[{y}]", f"g[{y}, {y}] = s", "t0 = 0.5 * t0")
            self.line(i + 1, r.choice(before))
        square = self.chance(0.4)
        name, bound = ("g", "len(u)") if square else (r.choice("ab"), r.choice(("len(v)", "len(v) - 1")))
        if square and self.chance(0.3):
            bound = r.choice((f"{y}", f"{y} + 1", f"{y}, len(u)", f"{y} + 1, len(u)"))
        self.line(i + 1, f"for {j} in range({bound}):")
        other = "g" if square else r.choice("abbb")
        column = f"{other}[{cut}, {j}]" if turned or square else f"c[{j}, {cut}]"
        to = r.choice((f"{name}[{y}, {j}]", f"{name}[{y}, {j}]", f"{name}[{y}, {j}]", "t0"))
        if self.chance(0.3):
            add = f"{name}[{cut}, {j}] += 0.1 * {r.choice((name, other))}[{y}, {j}] * {row}"
            self.line(i + 2, add if not self.chance(0.5) else f"a[{cut}, {j if not square else 0}] -= 0.1 * s * {row}")
        value = r.choice((f"{row} @ {column}", f"{column} @ {row}", f"np.dot({row}, {column})"))
        self.line(i + 2, f"{to} {op} 0.2 * ({value})")
        if self.chance(0.3):
            self.line(i + 2, f"{name}[{y}, {j}] *= 0.7")

    def in_time(self, p: Place, i: int) -> None:
        """A loop that copies an array, and updates it from the copy."""
        r = self.r
        name = r.choice(list(p.arrays))
        shape = p.arrays[name]
        old, t = self.fresh("x"), self.fresh("h")
        bound = r.choice(("k", "3", "q", "4", "2"))
        outside = self.chance(0.3)
        if outside:
            self.line(i, f"{old} = {r.choice((f'np.zeros_like({name})', f'{name}.copy()'))}")
        self.line(i, f"for {t} in range({bound}):")
        self.line(i + 1, f"{old}[:] = {name}" if outside else f"{old} = {name}.copy()")
        if len(shape) == 1:
            inside = r.choice(("1:-1", "1:", ":-1", ":", "2:-1"))
            parts = {"1:-1": ("2:", ":-2", "1:-1"), "1:": (":-1", "1:"), ":-1": ("1:", ":-1"), ":": (":",),
                     "2:-1": ("1:-2", "3:", ":-3", "2:-1")}[inside]  # fmt: skip
            edges = [f"{name}[0] = {name}[-2]", f"{name}[-1] = {name}[-2]", f"{name}[0] += 0.5 * {old}[0]"]
        else:
            inside = r.choice(("1:-1, 1:-1", ":, 1:-1", "1:-1, :", ":, :"))
            cut = {":": (":",), "1:-1": ("1:-1", "2:", ":-2")}
            y, x = (cut[part] for part in inside.split(", "))
            parts = tuple(f"{one}, {other}" for one in y for other in x)
            edges = [f"{name}[0] = {name}[1]", f"{name}[:, 0] = 0.5 * {name}[:, 1]", f"{name}[-1, :] = {old}[-1, :]",
                     f"{name}[:, -1] = {name}[:, -2]"]  # fmt: skip
        terms = [f"{r.choice((old, old, old, name))}[{r.choice(parts)}]" for _ in range(r.choice((1, 2, 3)))]
        how = r.choice(("=", "=", "+=", "-="))
        self.line(i + 1, f"{name}[{inside}] {how} {r.choice(('0.3', '0.5 * s'))} * ({' + '.join(terms)})")
        for _ in range(r.choice((0, 1, 2))):
            self.line(i + 1, r.choice(edges))
        if self.chance(0.2) and self.wild:
            self.line(i + 1, f"u[{t}] += 1.0")
        if self.chance(0.15):
            self.line(i + 1, f"if t0 > 5.0 * {t}:")
            self.line(i + 2, r.choice(("break", "raise ValueError('late')", "return t0")))

    def chain(self, p: Place, i: int) -> None:
        """Statements over vectors that read one another shifted."""
        r = self.r
        axis = r.choice("nm")
        found = [n for n, shape in p.arrays.items() if shape == (axis,)]
        if not found:
            return self.loop(p, i)
        inner = i
        names, own = list(found), self.chance(0.4)
        while len(names) < 4:
            new = self.fresh("x")
            self.line(i, f"{new} = 0.5 * {r.choice(names)} + s")
            names.append(new)
        if self.chance(0.5):
            self.line(i, f"for {self.fresh('h')} in range({r.choice(('2', 'k', '3'))}):")
            inner = i + 1
        for _ in range(r.choice((3, 5, 7))):
            name, cut = r.choice(names), r.choice(("2:", "1:-1", ":-2"))
            read = [n for n in names if n != name or own]
            one, other = (f"{r.choice(read)}[{r.choice(('2:', '1:-1', ':-2'))}]" for _ in range(2))
            how = r.choice(("0.5 * ({} + {})", "{} - 0.5 * {}", "0.3 * {} * {}"))
            self.line(inner, f"{name}[{cut}] {r.choice(('=', '+=', '-='))} {how.format(one, other)}")
            if self.chance(0.2):
                self.line(inner, f"{r.choice(names)}[{r.choice((0, 1, -1))}] = {r.choice(read)}[{r.choice((0, 1))}]")
        for name in names:
            p.arrays[name] = (axis,)
        return None


LOSS = f"""

def loss({", ".join(PARAMETERS)}):
    total = 0.5 * main({", ".join(PARAMETERS)})
    for x in ({", ".join(ARRAYS)}):
        total += 0.3 * np.sum(x * x) + np.sum(x)
    return total
"""


@dataclass(frozen=True)
class RandomNest:
    """One random function, its text, the function that is differentiated, and whether its bits are determined."""

    source: str
    fn: Callable
    loss: Callable
    exact: bool


def random_nest(seed: int, only: str = "") -> RandomNest:
    """The program of a seed. only: the shape of all its nests."""
    writer = ShapeWriter(seed, only)
    source = writer.write() + LOSS
    fn = load(source, f"nest_{only}{seed}")
    return RandomNest(source, fn, fn.__globals__["loss"], writer.exact)


LAYOUTS = ("C", "F", "strided", "reversed", "shifted", "same", "turned")


def make_args(n: int, m: int, k: int = 2, q: int = 1, layout: str = "C", seed: int = 0) -> tuple:
    """Fresh arguments of a program. layout: how the arrays lie in memory; the last three overlap one another."""
    rng = np.random.default_rng(seed)
    size = {"n": n, "m": m}
    found = {name: rng.uniform(-1, 1, [size[x] for x in shape]) for name, shape in ARRAYS.items()}
    match layout:
        case "F":
            found = {name: np.asfortranarray(x) for name, x in found.items()}
        case "strided":
            for name, x in found.items():
                found[name] = np.zeros([2 * extent + 1 for extent in x.shape])[(slice(1, None, 2),) * x.ndim]
                found[name][...] = x
        case "reversed":
            found = {name: np.flip(np.flip(x).copy()) for name, x in found.items()}
        case "shifted":
            memory = rng.uniform(-1, 1, n * m + n + m + 1)
            found |= {name: memory[j : n * m + j].reshape(n, m) for j, name in enumerate("ab")}
            found |= {"u": memory[m : m + n], "w": memory[m + 1 : m + n + 1]}
        case "same":
            found |= {"b": found["a"], "c": found["a"].T, "w": found["u"]}
        case "turned":
            found |= {"b": found["a"][::-1], "w": found["u"][::-1]}
    return (*found.values(), rng.integers(0, max(n, 1), n), k, q, 0.37)
