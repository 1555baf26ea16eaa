"""Random loops over tables of any dtype whose ways store, ask and leave: as text, for test_random_tables.py.

    program = table_program(seed)
    program.fn(*table_args(program, n=5, m=7))

What merges stores, proves checks, hands elements on, makes integers narrow, runs growing trips together: tables of
dynamic programming, ways of branches that store to one place or to two, conditions that guard an index, loops whose
trips get more or fewer, counts that are data, recurrences of extremes, stores behind which a loop is left. The
parameters are `a, b` (n rows of m), `x` (n), `y` (m), `p` (n integers, some beyond the ends), `k, q` (ints) and `s`, a
number of the arrays' kind. All arithmetic is that of NumPy's scalars and of Python's numbers, to the bit.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from random_python import load

INTEGERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "i8", "u8")
FLOATS = ("f4", "f8", "f8", "f2")
KINDS = {"i": INTEGERS, "f": FLOATS, "c": ("c8", "c16"), "b": ("?",)}
PLACES = ("i8", "i4", "i2", "u1", "i8")
SHAPES = {"a": ("n", "m"), "b": ("n", "m"), "x": ("n",), "y": ("m",)}
PARAMETERS = (*SHAPES, "p", "k", "q", "s")
SIZES = {"n": ("len(x)", "a.shape[0]", "len(b)", "len(p)"), "m": ("len(y)", "a.shape[1]", "b.shape[1]")}
BINARY = {
    "i": ("{} + {}", "{} - {}", "{} * {}", "max({}, {})", "min({}, {})", "{} & {}", "{} | {}", "{} ^ {}", "max({}, {})",
          "min({}, {})", "{} + 1 - {}", "{} // 3 + {}", "{} % 5 + {}", "np.maximum({}, {})", "({} >> 1) + {}"),
    "f": ("{} + {}", "{} - {}", "0.5 * {} + 0.25 * {}", "{} * {}", "max({}, {})", "min({}, {})", "np.minimum({}, {})",
          "max({}, {}) - 0.5", "({} + {}) / 3"),
    "c": ("{} + {}", "{} - {}", "0.5 * {} + {}", "0.3 * {} - {}"),
    "b": ("{} & {}", "{} | {}", "{} ^ {}", "{} and {}", "{} or {}"),
}  # fmt: skip
UNARY = {
    "i": ("-{}", "abs({})", "{} // 2", "{} % 7", "{} ** 2", "{} + 1", "{} * 2", "{} + s", "{} & 7"),
    "f": ("-{}", "abs({})", "0.5 * {}", "np.sqrt(abs({}))", "{} + 1", "{} * {}"),
    "c": ("-{}", "0.5 * {}", "{}.conjugate()", "1j * {}"),
    "b": ("not {}", "{} ^ True"),
}
COMPARE = ("<", "<=", ">", ">=", "==", "!=")
# of rows as a whole; r, o: rows of one length
ROWS = {
    "i": ("{r} = np.maximum({r}, {o})", "{r} += {o}", "{r} = np.where({o} > {e}, {r}, {o})", "{r}[{r} > {e}] = {e}",
          "{r} = np.sort({o})", "{r} = {o}[::-1]", "{r}[1:] = {o}[:-1]", "{r} = np.cumsum({o}).astype({r}.dtype)",
          "{r}.sort()", "np.minimum({r}, {o}, out={r})", "{r}[1:] -= {r}[:-1]", "{r} = np.roll({o}, k)",
          "t0 = (t0 + int({o}.argmax())) % 1000 if len({o}) > 0 else t0", "{r} = {o} // 3", "{r} = {o} % 7",
          "{r} ^= {o}"),
    "f": ("{r} = np.maximum({r}, {o})", "{r} += {o}", "{r} = np.where({o} > {e}, {r}, {o})", "{r}[{r} > {e}] = {e}",
          "{r} = np.sort({o})", "{r} = {o}[::-1]", "{r}[1:] = {o}[:-1]", "{r}.sort()", "np.minimum({r}, {o}, out={r})",
          "{r}[1:] -= {r}[:-1]", "{r} = np.roll({o}, k)", "{r} = np.abs({o})", "{r} *= {o}",
          "t0 = (t0 + int({o}.argmin())) % 1000 if len({o}) > 0 else t0", "{r} = np.cumsum({o})"),
    "c": ("{r} += {o}", "{r} = {o}[::-1]", "{r}[1:] = {o}[:-1]", "{r} = np.conj({o})", "{r}.real = {o}.imag",
          "{r} = np.where(np.abs({o}) > 0.5, {r}, {o})"),
    "b": ("{r} |= {o}", "{r} ^= {o}", "{r} = {o}[::-1]", "{r}[1:] = {o}[:-1]", "{r}[{o}] = {e}", "{r} = ~{o}",
          "t0 += int({o}.sum())", "{r} = np.logical_or({r}, {o})"),
}  # fmt: skip
CONSTANTS = {"i": ("0", "1", "2", "3", "7", "100"), "f": ("0.0", "1.0", "0.5", "-2.0"), "c": ("0.0", "1.0", "0.5j"),
             "b": ("True", "False")}  # fmt: skip
NEAR = {"n": ("", "", "", " - 1", " - 1", " + 1", " - 2", " - k"), "m": ("", "", "", " - 1", " - 1", " + 1", " - q")}


@dataclass
class Place:
    """The counters that are bound, by axis, how deep in blocks and in loops it is."""

    counters: list[tuple[str, str]] = field(default_factory=list)
    indent: int = 1
    loops: int = 0

    def inner(self, *counters: tuple[str, str], loops: int = 0) -> Place:
        return Place([*self.counters, *counters], self.indent + 1, self.loops + loops)


class TableWriter:
    """Writes one function. guarded: how likely an index that may lie beyond an end is asked for first."""

    def __init__(self, seed: int) -> None:
        self.r = r = random.Random(seed)
        self.kind = r.choices("ifcb", (9, 6, 1, 2))[0]
        one = r.choice(KINDS[self.kind])
        self.dtypes = {name: one for name in SHAPES}
        if r.random() < 0.3:
            self.dtypes[r.choice("by")] = r.choice(KINDS[self.kind])
        self.places = r.choice(PLACES)
        self.guarded = r.choice((0.5, 0.8, 1.0, 1.0))
        self.rows = r.choice((0.0, 0.1, 0.4))
        self.few = r.sample(list(SHAPES), r.choice((2, 3, 4)))
        if not {"a", "b"} & set(self.few):
            self.few[0] = "a"
        self.lines: list[str] = []
        self.count = 0
        self.left = r.choice((4, 8, 14))  # statements

    # -- helpers -----------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, p: Place, text: str) -> None:
        self.lines.append("    " * p.indent + text)

    def write(self) -> str:
        """The text of a module."""
        self.lines.append(f"def main({', '.join(PARAMETERS)}):")
        p = Place()
        self.line(p, "t0 = 0")
        self.line(p, "c0 = 1")
        for _ in range(self.r.choice((1, 1, 2))):
            self.loop(p)
        self.line(p, "return t0, c0")
        return "import numpy as np\n\n\n" + "\n".join(self.lines) + "\n"

    # -- loops -------------------------------------------------------------------------------------------

    def loop(self, p: Place) -> None:
        r = self.r
        name, used = self.fresh("i"), [c for c, _ in p.counters]
        axis = r.choice([x for x in "nm" if x not in {a for _, a in p.counters}] or ["n", "m"])
        size = r.choice(SIZES[axis])
        ways = [size, f"1, {size}", f"1, {size}", f"{size} - 1", f"{size} - 1, -1, -1", f"{size} - 2, -1, -1"]
        if used:
            c = r.choice(used)
            ways += [c, f"{c} + 1", f"1, {c}", f"{c}, {size}", f"{c} + 1, {size}", f"{c} - 1, -1, -1", f"2 * {c}",
                     f"{size} - {c}", f"min(2 * {c} + 1, {size})", f"{c} * {c} // 2", f"min(c0, {size})"]  # fmt: skip
            if p.counters[-1][1] == "n":
                ways += [f"min(int(p[{c}]), {size})", f"int(p[{c}])"]
        ways += [f"k, {size}", f"0, {size}, 2", f"min(k + 3, {size})", f"0, {size}, max(q, 1)"]
        inner = p.inner((name, axis), loops=1)
        if self.chance(0.12):
            self.line(p, f"{name} = {r.choice(('0', 'k', '1'))}")
            test = r.choice((f"{name} < {size}", f"0 <= {name} < {size} and {self.condition(inner)}"))
            self.line(p, f"while {test}:")
            self.lines.append("    " * inner.indent + f"{name} += {r.choice(('1', '1', '2'))}")
        else:
            self.line(p, f"for {name} in range({r.choice(ways)}):")
        nested = p.loops < 2 and self.chance((0.85, 0.35)[p.loops])
        if nested and self.chance(0.4):
            self.statement(inner)
        for _ in range(1 if nested else 0):
            self.loop(inner)
        self.block(inner, r.choice((1, 2, 3)) if not nested or self.chance(0.5) else 0, nested)

    def block(self, p: Place, count: int, begun: bool = False) -> None:
        for _ in range(count):
            self.statement(p)
        if not count and not begun:
            self.line(p, "pass")

    # -- statements --------------------------------------------------------------------------------------

    def statement(self, p: Place) -> None:
        self.left -= 1
        kinds: list[tuple[float, Callable[[Place], None]]] = [
            (5, self.store), (1.5, self.total), (4 * self.rows, self.row),
        ]  # fmt: skip
        if p.indent < 6 and self.left > 0:
            kinds += [(5, self.branch), (1, self.caught)]
        if p.loops and self.left > 0:
            kinds += [(0.8, self.leave)]
        (chosen,) = self.r.choices([f for _, f in kinds], [w for w, _ in kinds])
        chosen(p)

    def store(self, p: Place) -> None:
        to, _ = self.place(p)
        guard = self.guard(p, to)
        if guard:
            self.line(p, f"if {guard}:")
            p = p.inner()
        op = "=" if self.kind == "b" else self.r.choice(("=", "=", "=", "+=", "-="))
        self.line(p, f"{to} {op} {self.value(p, 2)}")

    def total(self, p: Place) -> None:
        """Integers of Python that trips hand on."""
        r, c = self.r, p.counters[-1][0] if p.counters else "k"
        e = self.read(p)
        number = f"int({e})" if self.kind != "c" else f"int({e}.real)"
        ways = [f"t0 = (t0 + {c}) % 1000", f"c0 = {c}", f"c0 = max(c0, {c} + 1)", f"t0 = max(t0, {c} - k)", "c0 += 1"]
        if self.kind == "i":
            ways += [f"t0 = min({number}, 1000)", f"t0 = max(t0, min({number}, 100))", f"c0 = {number} % 5",
                     f"t0 = (t0 * 3 + {number} % 100) % 1000"]  # fmt: skip
        self.line(p, r.choice(ways))

    def row(self, p: Place) -> None:
        """Of rows, columns and vectors as a whole."""
        r, found = self.r, []
        for name in ("a", "b", "x", "y"):
            shape = SHAPES[name]
            if len(shape) == 1:
                found.append((name, shape[0], self.dtypes[name]))
            for c, axis in p.counters:
                if len(shape) == 2:
                    at = shape.index(axis)
                    found.append((f"{name}[{c}]" if at == 0 else f"{name}[:, {c}]", shape[1 - at], self.dtypes[name]))
        to, axis, dtype = r.choice(found)
        same = [f for f, x, d in found if x == axis and d == dtype]
        inside = [c for c, x in p.counters if x == axis]
        text = r.choice(ROWS[self.kind])
        cut = f"[{r.choice((':{}', '{}:', '{} + 1:')).format(r.choice(inside))}]" if inside and self.chance(0.4) else ""
        names = {"r": to + cut, "o": r.choice(same) + cut, "e": self.read(p)}
        text = text.format(**names)
        if text.startswith(names["r"] + " = "):
            text = f"{to}{cut or '[:]'} = " + text[len(names["r"]) + 3 :]
        self.line(p, text)

    def branch(self, p: Place) -> None:
        """Ways that store to one place, or do anything."""
        r = self.r
        if self.chance(0.6):
            to, other = self.place(p), self.place(p)
            inner = p.inner()
            guard = self.guard(p, to[0])
            if guard:
                self.line(p, f"if {guard}:")
                p = inner
                inner = p.inner()
            heads = [f"if {self.condition(p)}:", *(f"elif {self.condition(p)}:" for _ in range(r.choice((0, 0, 1, 2))))]
            for head in [*heads, "else:"]:
                self.line(p, head)
                if self.chance(0.15):
                    self.statement(inner)
                place = other if self.chance(0.1) else to
                value = self.value(inner, r.choice((0, 1, 2)))
                value = value if self.chance(0.85) else r.choice((*CONSTANTS[self.kind], "s"))
                self.line(inner, f"{place[0]} = {value}")
            return
        self.line(p, f"if {self.condition(p)}:")
        self.block(p.inner(), r.choice((1, 2)))
        if self.chance(0.5):
            self.line(p, "else:")
            self.block(p.inner(), 1)

    def caught(self, p: Place) -> None:
        self.line(p, "try:")
        self.block(p.inner(), self.r.choice((1, 2)))
        self.line(p, "except IndexError:")
        self.total(p.inner())

    def leave(self, p: Place) -> None:
        self.line(p, f"if {self.condition(p)}:")
        how = ("break", "continue", "continue", "return t0, c0", "raise ValueError('far')")
        self.line(p.inner(), self.r.choice(how))

    # -- values ------------------------------------------------------------------------------------------

    def index(self, p: Place, axis: str) -> str:
        r = self.r
        found = [c for c, x in p.counters if x == axis] or [c for c, _ in p.counters]
        pick = r.random()
        if not found or pick < 0.05:
            return r.choice(("0", "-1", "k", "q", "c0 - 1"))
        c = r.choice(found[-2:])
        rows = [c for c, x in p.counters if x == "n"]
        if pick < 0.15 and rows:
            return r.choice((f"p[{rows[-1]}]", f"{c} - p[{rows[-1]}]", f"int(p[{rows[-1]}])"))
        if pick < 0.2:
            return r.choice((f"{c} // 2", f"-{c}", f"{r.choice(SIZES[axis])} - 1 - {c}", f"2 * {c}", f"{c} % (q + 2)"))
        return c + r.choice(NEAR[axis])

    def place(self, p: Place) -> tuple[str, str]:
        """An element that may be written, and its array."""
        name = self.r.choice([n for n in self.few if len(SHAPES[n]) == 2] if self.chance(0.6) else self.few)
        return f"{name}[{', '.join(self.index(p, axis) for axis in SHAPES[name])}]", name

    def guard(self, p: Place, *elements: str) -> str:
        """That indices which may lie beyond an end do not."""
        tests = []
        for element in elements:
            name, rest = element.split("[", 1)
            for axis, index in zip(SHAPES[name], rest[:-1].split(", "), strict=True):
                if any(c in index for c in "+-*/p") and self.chance(self.guarded) or index in ("k", "q"):
                    size = self.r.choice(SIZES[axis])
                    tests.append(self.r.choice((f"0 <= {index} < {size}", f"{index} >= 0 and {index} < {size}",
                                                f"-{size} <= {index} < {size}")))  # fmt: skip
        return " and ".join(tests)

    def read(self, p: Place) -> str:
        """An element of the dtype of most arrays: where two dtypes meet on paths, compiled code has one for both."""
        for _ in range(9):
            element, name = self.place(p)
            if self.dtypes[name] == self.dtypes["a"]:
                return element
        return self.near(p)

    def near(self, p: Place) -> str:
        """An element that is there."""
        rows = [c for c, axis in p.counters if axis == "n"]
        return f"x[{rows[-1]}]" if rows and self.dtypes["x"] == self.dtypes["a"] else "a[0, 0]"

    def value(self, p: Place, depth: int) -> str:
        r = self.r
        pick = r.random()
        if depth <= 0 or pick < 0.2:
            element = self.read(p)
            guard = self.guard(p, element) if self.chance(0.5) else ""
            return f"({element} if {guard} else {self.near(p)})" if guard else element
        if pick < 0.35:
            how = r.choice(UNARY[self.kind])
            return how.format(*[f"({self.value(p, depth - 1)})"] * how.count("{}"))
        if pick < 0.45:
            return f"({self.value(p, depth - 1)} if {self.condition(p)} else {self.value(p, depth - 1)})"
        how = r.choice(BINARY[self.kind])
        return how.format(*(f"({self.value(p, depth - 1)})" for _ in range(how.count("{}"))))

    def condition(self, p: Place) -> str:
        r = self.r
        pick = r.random()
        if p.counters and pick < 0.4:
            c, axis = r.choice(p.counters)
            other = r.choice(p.counters)[0]
            return r.choice((f"{c} % 2 == 0", f"{c} > k", f"{c} < c0", f"{c} == {other}", f"{c} + 1 < {other}",
                             f"{c} >= 1", f"t0 < {c}", f"{c} == {r.choice(SIZES[axis])} - 1"))  # fmt: skip
        element = self.read(p)
        guard = self.guard(p, element)
        other = r.choice((self.read(p), r.choice(CONSTANTS[self.kind]), "s"))
        if self.kind == "c":
            element, other = f"{element}.real", "0.1"
        test = element if self.kind == "b" else f"{element} {r.choice(COMPARE)} {other}"
        return f"{guard} and {test}" if guard else test


@dataclass(frozen=True)
class TableProgram:
    """One random function, its text, and the dtypes of its arguments."""

    source: str
    fn: Callable
    kind: str
    dtypes: dict[str, str]
    places: str


def table_program(seed: int) -> TableProgram:
    """The program of a seed."""
    writer = TableWriter(seed)
    source = writer.write()
    return TableProgram(source, load(source, f"table_{seed}"), writer.kind, writer.dtypes, writer.places)


LAYOUTS = ("C", "C", "F", "strided", "reversed", "shifted", "same", "turned")


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Elements, most of them small; of integers and floats some at the ends of what there is."""
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind == "c":
        return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(dtype)
    if kind == "f":
        found = rng.choice((-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, np.inf, np.nan), shape)
        return np.where(rng.random(shape) < rng.choice((0.0, 0.3)), found, rng.uniform(-1, 1, shape)).astype(dtype)
    ends = np.iinfo(dtype)
    small = rng.integers(max(-4, ends.min), 9, shape, dtype=dtype)
    extreme = rng.choice(np.array([ends.min, ends.max], dtype), shape)
    return np.where(rng.random(shape) < rng.choice((0.0, 0.2)), extreme, small)


def table_args(program: TableProgram, n: int, m: int, k: int = 1, q: int = 2, layout: str = "C", seed: int = 0) -> list:
    """Fresh arguments. layout: how the arrays lie in memory; in the last three some of them overlap."""
    rng = np.random.default_rng(seed)
    size, kind = {"n": n, "m": m}, program.kind
    found = {
        name: numbers(rng, program.dtypes[name], tuple(size[x] for x in shape), kind) for name, shape in SHAPES.items()
    }
    alike = program.dtypes["a"] == program.dtypes["b"]
    match layout:
        case "F":
            found = {name: np.asfortranarray(v) for name, v in found.items()}
        case "strided":
            for name, v in found.items():
                found[name] = np.zeros([2 * extent + 1 for extent in v.shape], v.dtype)[(slice(1, None, 2),) * v.ndim]
                found[name][...] = v
        case "reversed":
            found = {name: np.flip(np.flip(v).copy()) for name, v in found.items()}
        case "shifted" if alike:
            memory = numbers(rng, program.dtypes["a"], (n * m + n + m + 1,), kind)
            found |= {name: memory[j : n * m + j].reshape(n, m) for j, name in enumerate("ab")}
            if program.dtypes["x"] == program.dtypes["a"]:
                found["x"] = memory[m : m + n]
        case "same" if alike:
            turned = np.asfortranarray(found["a"])
            found |= {"a": turned, "b": turned}
            if n and program.dtypes["y"] == program.dtypes["a"]:
                found["y"] = turned[0]
        case "turned" if alike:
            found |= {"b": found["a"][::-1]}
            if m and program.dtypes["x"] == program.dtypes["a"]:
                found["x"] = found["a"][:, -1]
    places = rng.integers(0, max(n, 1), n)
    if n and rng.random() < 0.3:
        places[rng.integers(n)] = rng.choice((n, n + 1) if program.places == "u1" else (n, -n - 1, -1))
    s = {"i": 3, "f": 0.37, "c": 0.5 - 0.25j, "b": True}[kind]
    return [*found.values(), places.astype(program.places), k, q, s]
