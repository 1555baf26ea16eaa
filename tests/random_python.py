"""Random plain Python functions as source text: loops, branches, views, stores, aliasing, helpers.

    program = random_program(seed)
    program.fn(*program.make_args(5))

Every program has the parameters `x, y` (n floats), `m` (n rows of 3), `a, b` (floats) and `k` (an int). What is
assigned goes through sin or tanh, so that values stay bounded and differences of derivatives mean something.
The generator knows the length of every array as a class ("n", "n1" for all but one, ...), so most programs run
without an error where n is 5; for small n many raise, as they must.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

HEADER = '''\
"""A random program."""

import math

import numpy as np


def _mix(u, v):
    return np.tanh(u * v) + 0.5 * u


def _bump(v, s):
    v += 0.3 * np.sin(s)
    v[0] = s * v[-1]


def _tail(v):
    return v[1:]


def _scan(v, s):
    out = np.zeros(len(v))
    for q in range(len(v)):
        s = np.sin(s + v[q])
        if s < -0.9:
            return out
        out[q] = s
    return out


def _pair(v, s):
    v *= 0.9
    return v[::-1], np.sin(s)


def _search(v, s):
    for q in range(len(v)):
        if v[q] > s:
            return v[q] * s
    return s


'''

UNARY = (
    "np.sin({})", "np.cos({})", "np.tanh({})", "np.exp(np.sin({}))", "np.sqrt(1.5 + np.sin({}))", "-{}",
    "np.log(2.0 + np.cos({}))", "(1.0 / (2.0 + np.sin({})))", "(np.tanh({}) ** 2)", "np.arctan({})", "np.abs({})",
    "(np.tanh({}) ** 3)", "({} - 0.25)",
)  # fmt: skip
SCALAR_UNARY = (*UNARY, "math.sin({})", "math.exp(math.tanh({}))", "abs({})", "float({})")
BINARY = ("{} + {}", "{} - {}", "{} * {}", "{} * np.cos({})", "{} / (2.0 + np.sin({}))", "0.5 * {} + 0.25 * {}")
COMPARE = ("<", "<=", ">", ">=")
# slices of a 1-d array of a length class: (text, class of the slice)
SLICES = {
    "n": (("1:", "n1"), (":-1", "n1"), ("1:-1", "n2"), ("2:", "n2"), (":-2", "n2"), ("::2", "h"),
          ("::-1", "n"), (":", "n")),
    "n1": (("1:", "n2"), (":-1", "n2"), ("::-1", "n1"), (":", "n1")),
    "n2": (("::-1", "n2"), (":", "n2")),
    "h": (("::-1", "h"), (":", "h")),
    "p": (("::-1", "p"), ("1:", "q"), (":2", "q"), ("::2", "q"), ("-2:", "q")),
    "q": (("::-1", "q"), ("1:", "r")),
    "r": (),
}  # fmt: skip
LENGTHS: dict[str, Callable[[int], int]] = {
    "n": lambda n: n, "n1": lambda n: max(n - 1, 0), "n2": lambda n: max(n - 2, 0), "h": lambda n: (n + 1) // 2,
    "p": lambda n: 3, "q": lambda n: 2, "r": lambda n: 1,
}  # fmt: skip


@dataclass
class Scope:
    """Names that are bound on every path to a place."""

    floats: list[str] = field(default_factory=list)
    arrays: dict[str, str] = field(default_factory=dict)  # 1-d: name -> length class
    matrices: dict[str, tuple[str, str]] = field(default_factory=dict)
    ints: list[tuple[str, str, int]] = field(default_factory=list)  # name, indexes class, how far below it may reach
    in_loop: bool = False
    depth: int = 0
    fixed: frozenset[str] = frozenset()  # names that inner code must not bind again

    def inner(self, loop: bool = False) -> Scope:
        """A copy for a nested block, whose names end with it."""
        return Scope(
            list(self.floats), dict(self.arrays), dict(self.matrices), list(self.ints),
            self.in_loop or loop, self.depth + 1, self.fixed,
        )  # fmt: skip


class Lines:
    """The lines of a program in the making, by the numbers of a seed."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def chance(self, p: float) -> bool:
        return self.r.random() < p


class Writer(Lines):
    """Writes one function."""

    def __init__(self, seed: int, size: int | None = None) -> None:
        super().__init__(seed)
        self.budget = size if size is not None else self.r.randint(3, 14)
        self.early = self.r.random() < 0.25
        self.shape = self.r.choice(("scalar", "scalar", "array", "tuple", "view", "matrix", "argument"))

    def write(self) -> str:
        scope = Scope(["a", "b"], {"x": "n", "y": "n"}, {"m": ("n", "p")}, [])
        self.line(0, "def main(x, y, m, a, b, k):")
        if self.r.random() < 0.7:
            self.line(1, "s = 0.5 * a")
            scope.floats.append("s")
        while self.budget > 0:
            self.statement(scope, 1)
        self.line(1, "return " + self.result(scope))
        return HEADER + "\n".join(self.lines) + "\n"

    # -- results -------------------------------------------------------------------------------------

    def result(self, s: Scope) -> str:
        r = self.r
        match self.shape:
            case "scalar":
                return self.total(s)
            case "array":
                return self.array(s, "n", 2)
            case "view":
                text = r.choice(("1:", "::-1", ":-1", "::2"))
                return r.choice([n for n, c in s.arrays.items() if c == "n"]) + f"[{text}]"
            case "matrix":
                return self.matrix(s, ("n", "p"), 1)
            case "argument":
                return r.choice([n for n, c in s.arrays.items() if c == "n"])
        return f"{self.total(s)}, {r.choice(list(s.arrays))}, {self.scalar(s, 1)}"

    def total(self, s: Scope) -> str:
        parts = [f"np.sum({n})" for n in s.arrays if self.chance(0.6)] + [n for n in s.floats if self.chance(0.6)]
        parts += [f"np.sum({n} * {n})" for n in s.matrices if self.chance(0.5)]
        return " + ".join(parts) or self.scalar(s, 2)

    # -- expressions ---------------------------------------------------------------------------------

    def index(self, s: Scope, length: str) -> str:
        r = self.r
        known = [(n, reach) for n, c, reach in s.ints if c == length]
        if known and self.chance(0.85):
            name, reach = r.choice(known)
            return name if not reach or self.chance(0.6) else f"{name} - 1"
        if length == "p":
            return r.choice(("0", "1", "2", "-1", "k % 3"))
        if length == "q":
            return r.choice(("0", "1", "-1"))
        if length == "n":
            return r.choice(("0", "1", "-1", "2", "-2", "k % len(x)", "len(x) // 2"))
        return r.choice(("0", "-1"))

    def scalar(self, s: Scope, depth: int) -> str:
        r = self.r
        pick = r.random()
        if depth <= 0 or pick < 0.18:
            if self.chance(0.15):
                return r.choice(("0.7", "-1.3", "2", "0.25"))
            if self.chance(0.4):
                return self.element(s)
            if s.ints and self.chance(0.2):
                return f"0.3 * {r.choice(s.ints)[0]}"
            return r.choice(s.floats)
        if pick < 0.5:
            return "(" + r.choice(BINARY).format(self.scalar(s, depth - 1), self.scalar(s, depth - 1)) + ")"
        if pick < 0.7:
            return r.choice(SCALAR_UNARY).format(self.scalar(s, depth - 1))
        if pick < 0.85:
            name, c = r.choice(list(s.arrays.items()))
            other = self.array(s, c, depth - 1)
            return r.choice(
                (
                    f"np.sum({other})", f"np.dot({name}, {other})", f"({name} @ {other})", f"np.sum({name} * {other})",
                    f"np.tanh({other}).sum()", f"np.sum(np.maximum({name}, {other}))", f"np.mean({name})",
                    f"np.prod(np.cos({name}))", f"np.max({name})",
                )
            )  # fmt: skip
        if pick < 0.9:
            return f"({self.scalar(s, depth - 1)} if {self.condition(s)} else {self.scalar(s, depth - 1)})"
        if pick < 0.94:
            return f"{r.choice(('max', 'min'))}({self.scalar(s, depth - 1)}, {self.scalar(s, depth - 1)})"
        if pick < 0.97:
            return f"_mix({self.scalar(s, depth - 1)}, {self.scalar(s, depth - 1)})"
        return f"_search({r.choice(list(s.arrays))}, {self.scalar(s, depth - 1)})"

    def element(self, s: Scope) -> str:
        if s.matrices and self.chance(0.3):
            name, (c, d) = self.r.choice(list(s.matrices.items()))
            return f"{name}[{self.index(s, c)}, {self.index(s, d)}]"
        name, c = self.r.choice(list(s.arrays.items()))
        return f"{name}[{self.index(s, c)}]"

    def condition(self, s: Scope) -> str:
        r = self.r
        if s.ints and self.chance(0.35):
            name = r.choice(s.ints)[0]
            return r.choice((f"{name} % 2 == 0", f"{name} > k", f"{name} < 2", f"{name} != 1"))
        if self.chance(0.1):
            return r.choice(("k > 1", "k == 0", "len(x) > 2"))
        base = f"{self.scalar(s, 1)} {r.choice(COMPARE)} {r.choice(('0.1', '0.3', '-0.2', '0.0'))}"
        if self.chance(0.15):
            return f"{base} {r.choice(('and', 'or'))} {self.scalar(s, 0)} {r.choice(COMPARE)} 0.2"
        return f"not {base}" if self.chance(0.05) else base

    def array(self, s: Scope, length: str, depth: int) -> str:
        """An expression for an array of a length class."""
        r = self.r
        if depth <= 0 or self.chance(0.2):
            return self.leaf(s, length)
        pick = r.random()
        if pick < 0.3:
            one, two = self.array(s, length, depth - 1), self.array(s, length, depth - 1)
            return "(" + r.choice(BINARY).format(one, two) + ")"
        if pick < 0.5:
            return "(" + r.choice(BINARY).format(self.scalar(s, depth - 1), self.array(s, length, depth - 1)) + ")"
        if pick < 0.7:
            return r.choice(UNARY).format(self.array(s, length, depth - 1))
        if pick < 0.8:
            flag = f"{self.leaf(s, length)} {r.choice(COMPARE)} {r.choice((self.leaf(s, length), '0.1'))}"
            return f"np.where({flag}, {self.array(s, length, depth - 1)}, {self.array(s, length, depth - 1)})"
        if pick < 0.86:
            how, other = r.choice(("maximum", "minimum")), r.choice((self.leaf(s, length), "0.2"))
            return f"np.{how}({self.array(s, length, depth - 1)}, {other})"
        if pick < 0.9:
            return f"{r.choice(('_mix', '_mix', '_scan'))}({self.array(s, length, depth - 1)}, {self.scalar(s, 0)})"
        return self.product(s, length, depth)

    def product(self, s: Scope, length: str, depth: int) -> str:
        """An array out of a matrix: a product, a reduction."""
        r = self.r
        rows = [n for n, (c, _) in s.matrices.items() if c == length]
        columns = [n for n, (_, d) in s.matrices.items() if d == length]
        if rows and self.chance(0.6):
            name = r.choice(rows)
            inner = self.array(s, s.matrices[name][1], depth - 1)
            return r.choice((f"({name} @ {inner})", f"np.sum({name} * {inner}, axis=1)", f"np.dot({name}, {inner})"))
        if columns:
            name = r.choice(columns)
            inner = self.array(s, s.matrices[name][0], depth - 1)
            return r.choice((f"({inner} @ {name})", f"np.sum({name}, axis=0)", f"({name}.T @ {inner})"))
        return self.leaf(s, length)

    def leaf(self, s: Scope, length: str) -> str:
        """A name or a view of a length class."""
        r = self.r
        found = [n for n, c in s.arrays.items() if c == length]
        for name, c in s.arrays.items():
            found += [f"{name}[{text}]" for text, d in SLICES[c] if d == length and self.chance(0.4)]
        for name, (c, d) in s.matrices.items():
            if d == length:
                found.append(f"{name}[{self.index(s, c)}]")
            if c == length:
                found.append(f"{name}[:, {self.index(s, d)}]")
        if length == "r":
            found.append("m[0, :1]")
        return (
            r.choice(found)
            if found
            else {"p": "m[0]", "q": "m[0, 1:]", "r": "m[0, :1]"}.get(length)
            or ("x" + {"n": "", "n1": "[1:]", "n2": "[2:]", "h": "[::2]"}[length])
        )

    def matrix(self, s: Scope, shape: tuple[str, str], depth: int) -> str:
        r = self.r
        same = [n for n, c in s.matrices.items() if c == shape]
        turned = [f"{n}.T" for n, (c, d) in s.matrices.items() if (d, c) == shape]
        pick = r.random()
        if (same or turned) and (depth <= 0 or pick < 0.3):
            return r.choice(same + turned)
        if pick < 0.5:
            return f"({self.array(s, shape[0], 1)})[:, None] * ({self.array(s, shape[1], 1)})[None, :]"
        if pick < 0.6:
            return f"np.outer({self.array(s, shape[0], 1)}, {self.array(s, shape[1], 1)})"
        if pick < 0.75 and (same or turned):
            return r.choice(BINARY).format(f"({r.choice(same + turned)})", f"({self.array(s, shape[1], 1)})")
        if pick < 0.85 and same:
            name = r.choice(same)
            return f"({name} - np.sum({name}, axis={r.choice(('0', '1'))}, keepdims=True))"
        if (same or turned) and pick < 0.93:
            return f"({r.choice(same + turned)}) * {self.scalar(s, depth - 1)}"
        return f"np.zeros(({self.size(s, shape[0])}, {self.size(s, shape[1])}))"

    def size(self, s: Scope, length: str) -> str:
        named = [n for n, c in s.arrays.items() if c == length]
        known = {"n": "len(x)", "p": "3", "q": "2", "r": "1"}
        return f"len({named[0]})" if named else known.get(length, f"len({self.leaf(s, length)})")

    def bounded(self, text: str) -> str:
        return self.r.choice(("np.sin({})", "np.tanh({})", "0.5 * np.sin({})", "np.cos({})")).format(text)

    # -- statements ----------------------------------------------------------------------------------

    def statement(self, s: Scope, indent: int) -> None:
        self.budget -= 1
        nested = s.depth < 3
        kinds = [
            (3, self.assign_scalar), (3, self.augment_scalar), (3, self.store_element), (4, self.store_slice),
            (3, self.bind_view), (3, self.bind_array), (3, self.augment_array), (1, self.bind_matrix),
            (2, self.store_matrix), (1, self.call), (1, self.swap), (1, self.unpack),
        ]  # fmt: skip
        if nested:
            kinds += [(4, self.for_range), (1, self.for_each), (1, self.for_tuple), (2, self.while_), (3, self.if_)]
        if s.in_loop:
            kinds += [(1, self.jump)]
        if self.early and s.depth:
            kinds += [(1, self.leave)]
        (chosen,) = self.r.choices([f for _, f in kinds], [w for w, _ in kinds])
        chosen(s, indent)

    def block(self, s: Scope, indent: int) -> None:
        for _ in range(self.r.randint(1, 3)):
            self.statement(s, indent)

    def target(self, s: Scope, names: list[str]) -> str | None:
        """A name that may be bound again here."""
        free = [n for n in names if n not in s.fixed]
        return self.r.choice(free) if free and self.chance(0.6) else None

    def assign_scalar(self, s: Scope, i: int) -> None:
        name = self.target(s, s.floats) or self.fresh("s")
        self.line(i, f"{name} = {self.bounded(self.scalar(s, 3))}")
        if name not in s.floats:
            s.floats.append(name)

    def augment_scalar(self, s: Scope, i: int) -> None:
        name = self.r.choice(s.floats)
        how = self.r.choice(("{} += {}", "{} -= 0.5 * {}", "{} *= np.cos({})", "{} /= 2.0 + np.sin({})"))
        self.line(i, how.format(name, self.bounded(self.scalar(s, 2))))

    def store_element(self, s: Scope, i: int) -> None:
        how = self.r.choice(("{} = {}", "{} += {}", "{} *= {}", "{} = {}"))
        self.line(i, how.format(self.element(s), self.bounded(self.scalar(s, 2))))

    def store_slice(self, s: Scope, i: int) -> None:
        name, c = self.r.choice(list(s.arrays.items()))
        text, d = self.r.choice(SLICES[c] or ((":", c),))
        value = self.leaf(s, d) if self.chance(0.3) else self.bounded(self.array(s, d, 2))
        if self.chance(0.15):
            value = self.scalar(s, 1)
        self.line(i, f"{name}[{text}] {self.r.choice(('=', '=', '+=', '*=', '-='))} {value}")

    def bind_view(self, s: Scope, i: int) -> None:
        name = self.fresh("v")
        options = [(n, c) for n, c in s.arrays.items()]
        for n, c in s.arrays.items():
            options += [(f"{n}[{text}]", d) for text, d in SLICES[c]]
        for n, (c, d) in s.matrices.items():
            options += [(f"{n}[{self.index(s, c)}]", d), (f"{n}[:, {self.index(s, d)}]", c)]
            options += [(f"{n}.T[{self.index(s, d)}]", c)]
        options += [(f"_tail({n})", "n1") for n, c in s.arrays.items() if c == "n"]
        text, c = self.r.choice(options)
        old = self.target(s, [n for n, d in s.arrays.items() if d == c])
        if old is not None and self.chance(0.5):
            name = old
        self.line(i, f"{name} = {text}")
        s.arrays[name] = c

    def bind_array(self, s: Scope, i: int) -> None:
        c = self.r.choice(("n", "n", "n", "n1", "h", "p"))
        name = self.target(s, [n for n, d in s.arrays.items() if d == c]) or self.fresh("f")
        value = self.bounded(self.array(s, c, 3))
        if self.chance(0.2):
            like = self.leaf(s, c)
            value = self.r.choice((f"np.zeros({self.size(s, c)})", f"{like}.copy()", f"np.zeros_like({like})"))
        self.line(i, f"{name} = {value}")
        s.arrays[name] = c

    def augment_array(self, s: Scope, i: int) -> None:
        name, c = self.r.choice(list(s.arrays.items()))
        how = self.r.choice(("{} += {}", "{} -= 0.5 * {}", "{} *= {}", "{} /= 2.0 + {}"))
        value = self.bounded(self.array(s, c, 2) if self.chance(0.8) else self.scalar(s, 1))
        self.line(i, how.format(name, value))

    def bind_matrix(self, s: Scope, i: int) -> None:
        shape = self.r.choice((("n", "p"), ("n", "p"), ("p", "n"), ("n", "n")))
        name = self.target(s, [n for n, c in s.matrices.items() if c == shape]) or self.fresh("w")
        value = self.matrix(s, shape, 2)
        self.line(i, f"{name} = {value if self.chance(0.4) else self.bounded(value)}")
        s.matrices[name] = shape

    def store_matrix(self, s: Scope, i: int) -> None:
        r = self.r
        name, (c, d) = r.choice(list(s.matrices.items()))
        op = r.choice(("=", "+=", "*="))
        rows = self.index(s, c)
        options = [
            f"{name}[{rows}] {op} {self.bounded(self.array(s, d, 2))}",
            f"{name}[:, {self.index(s, d)}] {op} {self.bounded(self.array(s, c, 2))}",
            f"{name}[1:] {op} {name}[:-1]", f"{name}[:, ::-1] = {name}", f"{name}[::-1] {op} {name}",
            f"{name} {op if op != '=' else '+='} {self.bounded(self.matrix(s, (c, d), 1))}",
            f"{name}[{rows}, 1:] {op} {name}[{rows}, :-1]", f"{name} *= {self.bounded(self.array(s, d, 1))}",
        ]  # fmt: skip
        self.line(i, r.choice(options))

    def call(self, s: Scope, i: int) -> None:
        name, c = self.r.choice(list(s.arrays.items()))
        text = self.r.choice(("", *(f"[{t}]" for t, _ in SLICES[c])))
        self.line(i, f"_bump({name}{text}, {self.bounded(self.scalar(s, 1))})")

    def swap(self, s: Scope, i: int) -> None:
        if self.chance(0.4) and len(s.floats) > 1:
            one, two = self.r.sample(s.floats, 2)
            self.line(i, f"{one}, {two} = {two}, {self.bounded(one)}")
            return
        names = [n for n, c in s.arrays.items() if c == "n" and n not in s.fixed]
        if len(names) > 1:
            one, two = self.r.sample(names, 2)
            self.line(i, f"{one}, {two} = {two}, {one}")

    def unpack(self, s: Scope, i: int) -> None:
        source, c = self.r.choice([(n, c) for n, c in s.arrays.items()])
        v, t = self.fresh("v"), self.fresh("s")
        self.line(i, f"{v}, {t} = _pair({source}, {self.scalar(s, 1)})")
        s.arrays[v] = c
        s.floats.append(t)

    def for_range(self, s: Scope, i: int) -> None:
        name, inner = self.fresh("i"), s.inner(loop=True)
        c, reach, text = self.r.choice(
            (
                ("n", 0, "len(x)"), ("n", 1, "1, len(x)"), ("n", 0, "len(x) - 1, -1, -1"), ("n", 0, "0, len(y), 2"),
                ("n1", 0, "len(x) - 1"), ("p", 0, "3"), ("q", 0, "2"), ("n", 1, "len(x) - 1, 0, -1"),
                ("n", 0, "m.shape[0]"),
                ("", 0, "k"), ("", 0, "2, k"), ("", 0, "k, 0, -1"), ("n", 0, "k % 2, len(x), 3"), ("", 0, "3, 1"),
            )
        )  # fmt: skip
        if s.ints and self.chance(0.15):
            outer, outer_class, _ = self.r.choice(s.ints)
            c, reach, text = outer_class, 0, outer
        self.line(i, f"for {name} in range({text}):")
        inner.ints.append((name, c, reach))
        self.block(inner, i + 1)
        self.otherwise(s, i)

    def otherwise(self, s: Scope, i: int) -> None:
        if self.chance(0.12):
            self.line(i, "else:")
            self.statement(s.inner(), i + 1)

    def for_each(self, s: Scope, i: int) -> None:
        source, inner, value = self.r.choice(list(s.arrays)), s.inner(loop=True), self.fresh("e")
        if self.chance(0.3):
            index = self.fresh("i")
            self.line(i, f"for {index}, {value} in enumerate({source}):")
            inner.ints.append((index, s.arrays[source], 0))
        else:
            self.line(i, f"for {value} in {source}:")
        inner.floats.append(value)
        self.block(inner, i + 1)

    def for_tuple(self, s: Scope, i: int) -> None:
        inner, value = s.inner(loop=True), self.fresh("e")
        self.line(i, f"for {value} in ({self.r.choice(s.floats)}, 0.5, {self.scalar(s, 1)}):")
        inner.floats.append(value)
        self.block(inner, i + 1)
        self.otherwise(s, i)

    def while_(self, s: Scope, i: int) -> None:
        name, inner = self.fresh("c"), s.inner(loop=True)
        self.line(i, f"{name} = 0")
        bound = self.r.choice(("3", "k", "len(x)", "2"))
        extra = f" and ({self.condition(s)})" if self.chance(0.4) else ""
        self.line(i, f"while {name} < {bound}{extra}:")
        if self.chance(0.7):
            self.line(i + 1, f"{name} += 1")
            inner.ints.append((name, "", 0))
            self.block(inner, i + 1)
        else:
            inner.in_loop = False  # a `continue` would skip the increment
            inner.ints.append((name, "n" if bound == "len(x)" else "", 0))
            self.block(inner, i + 1)
            self.line(i + 1, f"{name} += 1")
        s.ints.append((name, "", 0))
        self.otherwise(s, i)

    def if_(self, s: Scope, i: int) -> None:
        self.line(i, f"if {self.condition(s)}:")
        self.block(s.inner(), i + 1)
        while self.chance(0.25):
            self.line(i, f"elif {self.condition(s)}:")
            self.block(s.inner(), i + 1)
        if self.chance(0.5):
            self.line(i, "else:")
            self.block(s.inner(), i + 1)

    def jump(self, s: Scope, i: int) -> None:
        self.line(i, f"if {self.condition(s)}:")
        self.line(i + 1, self.r.choice(("break", "continue")))

    def leave(self, s: Scope, i: int) -> None:
        self.line(i, f"if {self.condition(s)}:")
        self.line(i + 1, "return " + self.result(s))


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="dlvm-random-")


def load(source: str, name: str) -> Callable:
    """The function `main` of a module with this text, which is written to a file: the front end reads it."""
    path = os.path.join(_folder().name, f"{name}.py")
    with open(path, "w") as fh:
        fh.write(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def make_args(n: int, k: int = 2, seed: int = 0) -> tuple:
    """Fresh arguments (x, y, m, a, b, k)."""
    rng = np.random.default_rng(seed)
    x, y, m = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n), rng.uniform(-1, 1, (n, 3))
    return x, y, m, 0.37, -0.81, k


@dataclass(frozen=True)
class RandomProgram:
    """One random function, its text, and arguments to try it on."""

    seed: int
    source: str
    fn: Callable
    make_args: Callable = make_args


def random_program(seed: int, size: int | None = None) -> RandomProgram:
    """The program of a seed; `size` bounds the number of statements."""
    source = Writer(seed, size).write()
    return RandomProgram(seed, source, load(source, f"random_{seed}"))
