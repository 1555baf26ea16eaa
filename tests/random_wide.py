"""Random plain Python functions in the rest of the language: what random_python.py has, and what its sentences lack.

    program = wide_program(seed)

Added: complex intermediates, transforms, masks, gathers and scatters, `np.add.at`, `out=`, sorting and cumulative
operations, lists that grow, tuples, dicts, named tuples, dataclasses, closures, functions as arguments, recursion,
zip and reversed, `while True`, views that depend on a branch, names that change their type, raise and assert, stencils
in time loops. The parameters are the same, so that one set of checks serves both. `packed` takes them as one instance.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from random_loops import LoopWriter
from random_python import HEADER, SLICES, RandomProgram, Scope, load

TYPES = """\
from dataclasses import dataclass, replace
from typing import NamedTuple


class Pair(NamedTuple):
    u: object
    t: float = 0.5


@dataclass
class Body:
    u: object
    t: float = 0.25

    def kick(self, w):
        self.t = np.sin(self.t + w)
        return self.t * w

    @property
    def energy(self):
        return np.sum(self.u * self.u) + self.t


def _apply(f, u):
    return f(0.5 * u)


def _power(s, n):
    if n <= 0:
        return 1.0
    return np.cos(s) * _power(s + 0.1, n - 1) + 0.2 * s


def _even(s, n):
    return s if n <= 0 else np.sin(_odd(s * s + 0.3, n - 1))


def _odd(s, n):
    return s * 0.5 if n <= 0 else np.tanh(_even(s - 0.2, n - 1)) * s


def _sweep(v, i):
    if i >= len(v):
        return 0.0
    v[i] = np.sin(v[i] + v[i - 1])
    return v[i] * 0.5 + _sweep(v, i + 1)


def _first(v, s, *rest, scale=2.0):
    total = s
    for w in rest:
        total = total + w * scale
    for e in v:
        if e > 0.4:
            return e * total
        total -= 0.1 * e
    else:
        total *= 0.5
    return total


"""

PACKED = """

def packed(p, k):
    return main(p.x, p.rest["y"], p.rest["m"], p.ab[0], p.ab[1], k)
"""

# an array of the length of its operand
SHAPED = (
    "np.sort({})", "np.cumsum({})", "np.cumprod(np.cos({}))", "np.clip({}, -0.3, 0.4)", "np.roll({}, 1)",
    "np.flip({})", "np.sort({})[::-1]", "np.maximum.accumulate({})", "np.square({})", "np.floor(3.0 * {})",
    "np.sign({})", "np.cbrt(1.5 + np.sin({}))", "np.log1p(np.exp({}))", "np.nan_to_num({})",
)  # fmt: skip
# an array of two operands of one length
JOINED = (
    "np.hypot({}, 0.5 + {})", "np.arctan2({}, 1.5 + np.sin({}))", "np.stack(({}, {})).sum(axis=0)",
    "np.einsum('i,i->i', {}, {})", "np.where({0} > {1}, {0}, 0.5 * {1})", "np.fmax({}, {})",
    "np.maximum({0}, {1}) - np.minimum({0}, {1})", "np.outer({}, {})[:, 0] if len(x) else x",
)  # fmt: skip
# a number of an array
FOLDED = (
    "np.linalg.norm(0.3 + {})", "np.var({})", "np.std(np.arange(1, len({0}) + 1) + 0.1 * {0})", "np.min({})",
    "np.median({})", "np.ptp({})", "np.sum(np.diff({}) ** 2)", "np.einsum('i,i->', {0}, {0})", "np.vdot({0}, {0})",
    "np.trapezoid({})", "np.sum(np.outer({0}, {0}))", "np.log(np.sum(np.exp({})))", "sum({})", "max({})",
)  # fmt: skip
# a complex array: of a real one, and of a complex one and a real one
TO_COMPLEX = ("{} + 1j * {}", "np.exp(1j * {}) * {}", "np.fft.fft({} * {})", "({} - 0.5j) * {}")
COMPLEX = (
    "{0} * np.conj({0})", "{0} * {1}", "np.fft.ifft({0})", "np.exp(1j * {1}) * {0}", "{0} / (2.0 + {1} ** 2)",
    "np.fft.fft({0}) * 0.5", "{0} ** 2", "np.where({1} > 0.1, {0}, 1j * {0})", "{0} - {0}.real", "np.exp(0.1 * {0})",
    "{0} / ({0} + 3.0j)",
)  # fmt: skip
TO_REAL = (
    "np.abs({}) ** 2",
    "{}.real",
    "{}.imag",
    "np.real({0} * np.conj({0}))",
    "np.abs({} + 2.0)",
    "np.angle({} + 3.0)",
)


class WideWriter(LoopWriter):
    """Writes one function of the whole language."""

    trying = False  # linear algebra and recursion are refused where a clause would take what they raise

    def write(self) -> str:
        text = super().write().removeprefix(HEADER)
        return HEADER + TYPES + text + PACKED

    def statement(self, s: Scope, indent: int) -> None:
        if self.chance(0.5):
            super().statement(s, indent)
            return
        self.budget -= 1
        kinds: list[tuple[int, Callable[[Scope, int], None]]] = [
            (3, self.shaped), (2, self.folded), (3, self.complexes), (3, self.masks), (3, self.gathers), (3, self.into),
            (2, self.tuples), (2, self.records), (2, self.dicts), (2, self.closures), (1, self.recursion),
            (2, self.chosen), (2, self.retyped), (1, self.raising), (1, self.solving), (1, self.joined_ends),
        ]  # fmt: skip
        if self.trying:
            kinds = [(w, f) for w, f in kinds if f not in (self.recursion, self.solving)]
        if s.depth < 3:
            kinds += [
                (3, self.growing),
                (2, self.zipped),
                (2, self.forever),
                (2, self.stencil),
                (3, self.written_out),
                (1, self.rows),
                (2, self.guarded),
            ]
        (chosen,) = self.r.choices([f for _, f in kinds], [w for w, _ in kinds])
        chosen(s, indent)

    # -- small helpers -------------------------------------------------------------------------------

    def some(self, s: Scope) -> tuple[str, str]:
        """An array's name and its length class."""
        return self.r.choice(list(s.arrays.items()))

    def bind_float(self, s: Scope, i: int, text: str) -> None:
        name = self.target(s, s.floats) or self.fresh("s")
        self.line(i, f"{name} = {text}")
        if name not in s.floats:
            s.floats.append(name)

    def bind_new(self, s: Scope, i: int, c: str, text: str) -> None:
        name = self.target(s, [n for n, d in s.arrays.items() if d == c]) or self.fresh("f")
        self.line(i, f"{name} = {text}")
        s.arrays[name] = c

    # -- arrays --------------------------------------------------------------------------------------

    def shaped(self, s: Scope, i: int) -> None:
        _, c = self.some(s)
        if self.chance(0.6):
            text = self.r.choice(SHAPED).format(self.array(s, c, 1))
        else:
            text = self.r.choice(JOINED).format(self.array(s, c, 1), self.leaf(s, c))
        self.bind_new(s, i, c, self.bounded(text) if self.chance(0.6) else text)

    def folded(self, s: Scope, i: int) -> None:
        _, c = self.some(s)
        self.bind_float(s, i, self.bounded(self.r.choice(FOLDED).format(self.array(s, c, 1))))

    def complexes(self, s: Scope, i: int) -> None:
        r, z = self.r, self.fresh("z")
        _, c = self.some(s)
        self.line(i, f"{z} = {r.choice(TO_COMPLEX).format(self.array(s, c, 1), self.leaf(s, c))}")
        inner = i
        if self.chance(0.4):
            self.line(i, f"for {self.fresh('q')} in range({r.choice(('2', 'k', 'len(x)'))}):")
            inner = i + 1
        for _ in range(r.randint(1, 2)):
            if self.chance(0.3):
                how = r.choice(
                    ("{0}[1:] *= {1}", "{0} *= np.cos({1})", "{0}[::-1] = {0}", "{0}.real = {1}", "{0}.imag *= {1}")
                )
                self.line(inner, how.format(z, self.scalar(s, 1)))
            else:
                self.line(inner, f"{z} = {r.choice(COMPLEX).format(z, self.leaf(s, c))}")
        if self.chance(0.3):
            self.bind_float(s, i, self.bounded(f"np.sum({r.choice(TO_REAL).format(z)})"))
        else:
            self.bind_new(s, i, c, self.bounded(r.choice(TO_REAL).format(z)))

    def masks(self, s: Scope, i: int) -> None:
        r = self.r
        name, c = self.some(s)
        mask, bound = self.fresh("c"), r.choice(("0.1", "-0.2", "0.0", r.choice(s.floats)))
        self.line(i, f"{mask} = {self.leaf(s, c)} {r.choice(('<', '>'))} {bound}")
        pick = r.random()
        if pick < 0.35:
            self.line(i, f"{name}[{mask}] {r.choice(('=', '+=', '*='))} {self.bounded(self.scalar(s, 1))}")
        elif pick < 0.6:
            part = self.bounded(f"{self.leaf(s, c)}[{mask}]")
            self.line(i, f"{name}[{mask}] {r.choice(('=', '+=', '-='))} {part}")
        elif pick < 0.8:
            self.bind_float(s, i, self.bounded(f"np.sum({name}[{mask}] ** 2)"))
        elif pick < 0.9:
            self.line(i, f"for {self.fresh('e')} in {name}[~{mask}]:")
            self.line(i + 1, f"{r.choice(s.floats)} += 0.1 * np.sin(e{self.count})")
        else:
            self.bind_new(s, i, c, f"np.where({mask}, {self.array(s, c, 1)}, {self.scalar(s, 1)})")

    def gathers(self, s: Scope, i: int) -> None:
        r, j = self.r, self.fresh("j")
        name, c = self.some(s)
        size = f"len({name})"
        made = r.choice(
            (
                f"np.arange({size}) // 2", f"np.arange({size})[::-1]", f"np.argsort({name})",
                f"(np.arange({size}) * 3) % max({size}, 1)", f"np.arange({size}) - {size}",
            )
        )  # fmt: skip
        self.line(i, f"{j} = {made}")
        pick, other = r.random(), self.array(s, c, 1)
        if pick < 0.3:
            where = name if self.chance(0.5) else self.leaf(s, c)
            self.line(i, f"np.add.at({where}, {j}, {self.bounded(other)})")
        elif pick < 0.6:
            self.line(i, f"{name}[{j}] {r.choice(('=', '+=', '*='))} {self.bounded(other)}")
        elif pick < 0.7 and s.matrices:
            rows = [n for n, (d, _) in s.matrices.items() if d == c]
            self.bind_float(s, i, self.bounded(f"np.sum({rows[0]}[{j}] ** 2)" if rows else f"np.sum({name}[{j}])"))
        elif pick < 0.8:
            self.bind_float(s, i, f"{name}[{r.choice(('np.argmax', 'np.argmin'))}({name})]")
        else:
            self.bind_new(s, i, c, r.choice(("{1}[{0}]", "np.take({1}, {0})", "{1}[{0}] * {1}")).format(j, name))

    def into(self, s: Scope, i: int) -> None:
        r = self.r
        name, c = self.some(s)
        text, d = r.choice(SLICES[c] or ((":", c),))
        target = name if self.chance(0.5) else f"{name}[{text}]"
        d = c if target == name else d
        if self.chance(0.5):
            how = r.choice(("sin", "tanh", "cos", "square", "negative", "absolute"))
            self.line(i, f"np.{how}({self.array(s, d, 1)}, out={target})")
        else:
            how = r.choice(("add", "subtract", "multiply", "maximum"))
            other = self.leaf(s, d) if self.chance(0.6) else self.bounded(self.scalar(s, 1))
            self.line(i, f"np.{how}({self.bounded(self.leaf(s, d))}, {other}, out={target})")

    def solving(self, s: Scope, i: int) -> None:
        left = f"3.0 * np.eye(3) + 0.2 * np.outer({self.array(s, 'p', 1)}, {self.leaf(s, 'p')})"
        if self.chance(0.5):
            self.bind_new(s, i, "p", f"np.linalg.solve({left}, {self.leaf(s, 'p')})")
        else:
            how = self.r.choice(("np.linalg.det({}) / 30.0", "np.sum(np.linalg.inv({}))", "np.trace({}) / 9.0"))
            self.bind_float(s, i, self.bounded(how.format(left)))

    def joined_ends(self, s: Scope, i: int) -> None:
        parts = [self.array(s, "n1", 1), f"({self.leaf(s, 'n')})[:1]"]
        self.r.shuffle(parts)
        self.bind_new(s, i, "n", f"np.concatenate(({', '.join(parts)}))")

    # -- structures ----------------------------------------------------------------------------------

    def tuples(self, s: Scope, i: int) -> None:
        t = self.fresh("t")
        name, c = self.some(s)
        self.line(i, f"{t} = ({self.scalar(s, 1)}, {self.array(s, c, 1) if self.chance(0.5) else name})")
        if self.chance(0.6):
            self.line(i, f"for {self.fresh('q')} in range({self.r.choice(('2', 'k', '3'))}):")
            self.line(i + 1, f"{t} = (np.sin({t}[0]) * {self.scalar(s, 0)}, np.tanh({t}[1] + {t}[0]))")
        self.bind_float(s, i, self.bounded(f"{t}[0]"))
        if self.chance(0.5):
            self.bind_new(s, i, c, f"{t}[1]")

    def records(self, s: Scope, i: int) -> None:
        r, q = self.r, self.fresh("o")
        name, c = self.some(s)
        kind = r.choice(("Pair", "Body", "Body"))
        what = f"{name}.copy()" if self.chance(0.6) else name
        self.line(i, f"{q} = {kind}({what}{', ' + self.scalar(s, 1) if self.chance(0.7) else ''})")
        inner = i
        if self.chance(0.6):
            self.line(i, f"for {self.fresh('q')} in range({r.choice(('2', 'k', '3'))}):")
            inner = i + 1
        if kind == "Pair":
            self.line(inner, f"{q} = {q}._replace(t={self.bounded(f'{q}.t + {self.scalar(s, 1)}')})")
        else:
            how = r.choice(
                (
                    "{0}.t = np.sin({0}.t) * {1}", "{0}.u[1:] *= np.cos({0}.t)", "{0}.kick({1})",
                    "{0} = replace({0}, t=np.tanh({0}.t + {1}))", "{0}.u = np.sin({0}.u * {1})",
                    "{0}.t += {0}.kick({1})",
                )
            )  # fmt: skip
            self.line(inner, how.format(q, self.scalar(s, 1)))
        value = f"{q}.energy" if kind == "Body" and self.chance(0.5) else f"{q}.t + np.sum({q}.u)"
        self.bind_float(s, i, self.bounded(value))

    def dicts(self, s: Scope, i: int) -> None:
        d = self.fresh("d")
        name, c = self.some(s)
        self.line(i, f'{d} = {{"u": {name}, "t": {self.scalar(s, 1)}}}')
        inner = i
        if self.chance(0.6):
            self.line(i, f"for {self.fresh('q')} in range({self.r.choice(('2', 'k', '3'))}):")
            inner = i + 1
        how = self.r.choice(('{0}["t"] = {2}', '{0}["t"] += {2}', '{0}["u"] = {1}', '{0}["u"] *= np.cos({0}["t"])'))
        self.line(inner, how.format(d, self.bounded(self.array(s, c, 1)), self.bounded(self.scalar(s, 1))))
        self.bind_float(s, i, self.bounded(f'np.sum({d}["u"]) * {d}["t"]'))

    def closures(self, s: Scope, i: int) -> None:
        r, f = self.r, self.fresh("g")
        name, c = self.some(s)
        kept, given = r.choice(s.floats), r.choice(s.floats)
        pick = r.random()
        if pick < 0.35:
            self.line(i, f"def {f}(w):")
            self.line(i + 1, f"return np.sin(w * {kept}) + {self.scalar(s, 1)}")
        elif pick < 0.6:
            held = self.fresh("s")
            self.line(i, f"{held} = {self.scalar(s, 1)}")
            self.line(i, f"def {f}(w):")
            self.line(i + 1, f"nonlocal {held}")
            self.line(i + 1, f"{held} = np.sin({held}) + 0.3 * np.sum(w)")
            self.line(i + 1, f"return w * {held}")
            s.floats.append(held)
        else:
            self.line(i, f"{f} = lambda w: np.tanh(w) * {kept}")
        if self.chance(0.5):
            self.bind_new(s, i, c, f"_apply({f}, {name})" if self.chance(0.5) else f"{f}({name})")
        else:
            self.bind_float(s, i, self.bounded(f"{f}({given}) + {f}(0.5)"))

    def recursion(self, s: Scope, i: int) -> None:
        name, _ = self.some(s)
        a, b = self.scalar(s, 1), self.scalar(s, 0)
        self.bind_float(
            s,
            i,
            self.r.choice(
                (
                    f"_power({a}, k)", f"_even({a}, 3)", f"_odd({a}, k)", f"_sweep({name}, 1)",
                    f"_first({name}, {a}, {b}, 0.5)", f"_first({name}, {a}, {b}, scale={b})", f"_apply(np.cos, {a})",
                )
            ),
        )  # fmt: skip

    def chosen(self, s: Scope, i: int) -> None:
        """A name that stands for one of two arrays, and is written."""
        name, c = self.some(s)
        v, other = self.fresh("v"), self.leaf(s, c)
        if self.chance(0.5):
            self.line(i, f"{v} = {name} if {self.condition(s)} else {other}")
        else:
            self.line(i, f"{v} = {name}")
            self.line(i, f"if {self.condition(s)}:")
            self.line(i + 1, f"{v} = {other}")
        self.line(i, f"{v} {self.r.choice(('+=', '*=', '-='))} {self.bounded(self.scalar(s, 1))}")
        s.arrays[v] = c

    def retyped(self, s: Scope, i: int) -> None:
        """A name that is an int, then a float; an array, then a part of it, then a number."""
        t, r = self.fresh("w"), self.r
        if self.chance(0.5):
            self.line(i, f"{t} = {r.choice(('0', '1', 'k'))}")
            self.line(i, f"for {self.fresh('q')} in range({r.choice(('k', '3', 'len(x)', '0'))}):")
            self.line(i + 1, f"{t} = {t} * 0.5 + {self.bounded(self.scalar(s, 1))}")
        else:
            self.line(i, f"{t} = {self.array(s, 'n', 1)}")
            self.line(i, f"{t} = {t}{r.choice(('[1:]', '[::2]', '[:, None] * x', '[::-1]'))}")
            self.line(i, f"{t} = {self.bounded(f'np.sum({t})')}")
        s.floats.append(t)

    def raising(self, s: Scope, i: int) -> None:
        value = self.scalar(s, 1)
        if self.chance(0.5):
            self.line(i, f"assert {value} < {self.r.choice(('5.0', '0.5'))}, f'got {{{self.r.choice(s.floats)}}}'")
        else:
            self.line(i, f"if {value} > {self.r.choice(('4.0', '0.6'))}:")
            self.line(i + 1, "raise ValueError('too large')")

    def guarded(self, s: Scope, i: int) -> None:
        """A try whose body may raise in the middle, with handlers."""
        r, inner = self.r, s.inner()
        kind, trouble = r.choice(
            (
                ("IndexError", f"{r.choice(s.floats)} += x[{r.choice(('k', 'len(x) - k', 'k + 3'))}]"),
                ("ValueError", f"if {self.condition(s)}: raise ValueError('no')"),
                ("ZeroDivisionError", f"{r.choice(s.floats)} *= 1.0 / {r.choice(('k', '(k % 2)', '(k - 2)'))}"),
                ("AssertionError", f"assert {self.condition(s)}"),
            )
        )
        self.line(i, "try:")
        outside, self.trying = self.trying, True
        if self.chance(0.6):
            self.statement(inner, i + 1)
        self.line(i + 1, trouble)
        if self.chance(0.5):
            self.statement(inner, i + 1)
        self.trying = outside
        self.line(i, f"except {r.choice((kind, kind, f'({kind}, KeyError)', 'Exception'))}:")
        self.statement(s.inner(), i + 1)
        if self.chance(0.3):
            self.line(i, "else:")
            self.statement(s.inner(), i + 1)
        if self.chance(0.3):
            self.line(i, "finally:")
            self.statement(s.inner(), i + 1)

    # -- loops ---------------------------------------------------------------------------------------

    def growing(self, s: Scope, i: int) -> None:
        r, items, inner = self.r, self.fresh("l"), s.inner(loop=True)
        self.line(i, f"{items} = []")
        q = self.fresh("i")
        self.line(i, f"for {q} in range({r.choice(('len(x)', 'k', '3', 'len(y) - 1, -1, -1'))}):")
        inner.ints.append((q, "", 0))
        if self.chance(0.4):
            self.statement(inner, i + 1)
        if self.chance(0.3):
            self.line(i + 1, f"if {self.condition(inner)}:")
            self.line(i + 2, r.choice(("break", "continue")))
        self.line(i + 1, f"{items}.append({self.bounded(self.scalar(inner, 2))})")
        how = r.choice(
            ("sum({})", "np.sum(np.array({}) ** 2)", "sum(w * w for w in {})", "len({0}) + sum({0})", "loop")
        )
        if how == "loop":
            t = self.fresh("s")
            self.line(i, f"{t} = 0.0")
            self.line(i, f"for e in {items}:")
            self.line(i + 1, f"{t} = np.sin({t} + e)")
            s.floats.append(t)
        else:
            self.bind_float(s, i, self.bounded(how.format(items)))

    def rows(self, s: Scope, i: int) -> None:
        """A history of an array."""
        items, inner = self.fresh("l"), s.inner(loop=True)
        name, _ = self.some(s)
        inner.fixed |= {name}
        self.line(i, f"{items} = [{name}.copy()]")
        self.line(i, f"for {self.fresh('i')} in range({self.r.choice(('2', 'k', '3'))}):")
        self.statement(inner, i + 1)
        self.line(i + 1, f"{items}.append(np.sin({name}))")
        self.bind_float(s, i, self.bounded(f"np.sum(np.array({items}) ** 2)"))

    def zipped(self, s: Scope, i: int) -> None:
        r, inner, e, h = self.r, s.inner(loop=True), self.fresh("e"), self.fresh("e")
        (one, _), (two, _) = self.some(s), self.some(s)
        head = r.choice(
            (
                f"for {e}, {h} in zip({one}, {two}):", f"for {e}, {h} in zip({one}, reversed({two})):",
                f"for q, ({e}, {h}) in enumerate(zip({one}, {two})):",
            )
        )  # fmt: skip
        self.line(i, head)
        inner.floats += [e, h]
        self.block(inner, i + 1)
        self.otherwise(s, i)

    def forever(self, s: Scope, i: int) -> None:
        """A loop whose end depends on the data, of few rounds."""
        t, n, inner = self.fresh("s"), self.fresh("n"), s.inner(loop=True)
        self.line(i, f"{t}, {n} = {self.scalar(s, 1)}, 0")
        self.line(i, f"while {self.r.choice(('True', f'abs({t}) > 0.05', f'{n} < 7'))}:")
        self.line(i + 1, f"{t} = 0.5 * np.sin({t}) + 0.1 * {self.scalar(s, 0)}")
        self.line(i + 1, f"{n} += 1")
        self.line(i + 1, f"if {n} > {self.r.choice(('4', 'k', 'len(x)'))}{self.r.choice(('', f' or {t} > 0.4'))}:")
        self.line(i + 2, "break")
        inner.floats.append(t)
        inner.fixed |= {t}
        if self.chance(0.6):
            self.statement(inner, i + 1)
        s.floats.append(t)
        self.otherwise(s, i)

    def stencil(self, s: Scope, i: int) -> None:
        r = self.r
        u, w = (r.choice([n for n, c in s.arrays.items() if c == "n"]) for _ in range(2))
        step, t = r.choice(s.floats), self.fresh("i")
        self.line(i, f"for {t} in range({r.choice(('2', 'k', '4', 'k, 0, -1'))}):")
        self.line(
            i + 1,
            r.choice(
                (
                    f"{u}[1:-1] += 0.1 * {step} * ({u}[2:] - 2.0 * {u}[1:-1] + {u}[:-2])",
                    f"{u}[1:] = np.sin({u}[:-1] + {w}[1:])",
                    f"{u}[1:-1] = np.tanh({w}[2:] * {step} - {w}[:-2]) + 0.2 * {t}",
                    f"for q in range(1, len({u})): {u}[q] = np.sin({u}[q - 1] * {w}[q] + {step})",
                    f"{u}[:] = np.cos({w}[::-1]) * {u}",
                )
            ),
        )  # fmt: skip


@dataclass
class Parameters:
    """The float parameters as one instance: what `packed` takes."""

    x: np.ndarray
    rest: dict[str, np.ndarray]
    ab: tuple[float, float]


def wide_program(seed: int, size: int | None = None) -> RandomProgram:
    """The program of a seed; `size` bounds the number of statements (none: 2 to 8)."""
    source = WideWriter(seed, size or random.Random(seed).randint(2, 8)).write()
    return RandomProgram(seed, source, load(source, f"wide_{seed}"))
