"""Values that are still in memory in the reverse sweep: read there only if no later write meets their places."""

import random

import numpy as np
import pytest
from random_python import load

import dlvm_py as dlvm
from dlvm_py.dispatch import compiled_function
from dlvm_py.ir import interpreter
from dlvm_py.options import Options
from dlvm_py.recipe import Primal, tangent

N = 4  # trips of a loop, at most
SIZE = 14  # of the arrays: no index is out of range


def nest(seed):
    """The text of a function with loops around updates at places that depend on their counters."""
    r = random.Random(seed)
    lines = ["import numpy as np", "", "", "def main(u, g, n):"]
    depth = 0
    counters: list[str] = []

    def line(text):
        lines.append("    " * (depth + 1) + text)

    def index():
        known = [c for c in counters if r.random() < 0.7] or ["3"]
        text = " + ".join(r.sample(known, min(len(known), 2)))
        return f"{text} + {r.randint(0, 3)}" if r.random() < 0.8 else f"{r.choice(known)} * 2 + {r.randint(0, 3)}"

    def element():
        return r.choice((f"u[{index()}]", f"g[{index()}, {index()}]", f"g[{index()}, {r.randint(0, 5)}]"))

    def part():
        i = index()
        at = r.choice((f"{i}:{i} + 3", "3:6", f"{i}:{i} + 6:2"))
        return r.choice((f"u[{at}]", f"g[{index()}, {at}]", f"g[{at}, {index()}]"))

    def growing():
        c = r.choice(counters)
        return r.choice((f"g[{index()}, :{c}] @ u[:{c}]", f"np.sum(u[{c}:n] * g[{c}:n, {index()}])"))

    def statement():
        kind = r.random()
        if kind < 0.45:
            line(f"{element()} = 0.4 * {element()} * {element()} + 0.2 * {element()}")
        elif kind < 0.7:
            line(f"{part()} = np.sin({part()} * {part()})")
        elif kind < 0.9 and counters:
            line(f"{element()} {r.choice(('=', '+=', '*='))} 0.5 * np.tanh({growing()})")
        else:
            line(f"if {element()} > 0.3:")
            lines.append("    " * (depth + 2) + f"{element()} *= {element()}")

    def block():
        nonlocal depth
        for _ in range(r.randint(1, 2)):
            if depth < 3 and r.random() < 0.7:
                c = "ijk"[depth]
                bounds = ["n", "1, n", "n - 1, -1, -1", "n - 1"]
                if counters:
                    bounds += [counters[-1], f"{counters[-1]}, n", f"{counters[-1]} + 1, n"] * 2
                line(f"for {c} in range({r.choice(bounds)}):")
                depth += 1
                counters.append(c)
                block()
                statement()
                counters.pop()
                depth -= 1
            else:
                statement()

    if seed % 3 == 0:
        line("g = g.copy()")
    block()
    line("return np.sum(u * u) + np.sum(g * g)")
    return "\n".join(lines) + "\n"


def run(callable_, args):
    """What the reference interpreter makes of a callable."""
    program = callable_.program(*args)
    return interpreter.run(program.module, program.name, [np.copy(a) if np.ndim(a) else a for a in args])


def check(seed):
    """The gradient along a direction is what forward mode gives; whether one was found."""
    fn = load(nest(seed), f"nest_{seed}")
    rng = np.random.default_rng(seed)
    args = (rng.uniform(0.2, 0.9, SIZE), rng.uniform(0.2, 0.9, (SIZE, SIZE)), N)
    along = tuple(rng.standard_normal(a.shape) for a in args[:2])
    found = run(dlvm.grad(dlvm.jit(fn, cache=False), wrt=(0, 1)), args)
    forward = compiled_function(tangent(Primal(fn), (0, 1), with_value=False), Options(cache=False))
    want = float(np.sum(run(forward, (*args, *along))))
    reverse = sum(float(np.sum(a * b)) for a, b in zip(found, along, strict=True))
    assert reverse == pytest.approx(want, rel=1e-9, abs=1e-9), nest(seed)


def test_loops_over_places():
    for seed in range(8):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 900, 100))
def test_loops_over_more_places(first):
    for seed in range(first, first + 100):
        check(seed)


def rest_of_parameter(u):
    for i in range(len(u)):
        u[i] += np.sum(u[i + 1 :] * u[i + 1 :])
    return np.sum(u)


def rest_of_copy(u):
    v = u.copy()
    for i in range(len(u)):
        v[i] += np.sum(v[i + 1 :] * v[i + 1 :])
    return np.sum(v)


def rest_from_the_end(u):
    for i in range(len(u) - 1, -1, -1):
        u[i] += np.sum(u[:i] * u[:i])
    return np.sum(u)


def written_just_before(u):
    for i in range(len(u) - 1):
        u[i + 1] += u[i]
        u[i] += np.sum(u[i + 1 :] * u[i + 1 :])
    return np.sum(u)


def written_in_an_earlier_trip(u):
    for i in range(len(u)):
        u[i] += np.sum(u[i - 1 :] * u[i - 1 :]) if i > 0 else 0.0
    return np.sum(u)


def written_by_another_loop(u):
    for _ in range(2):
        for i in range(len(u)):
            u[i] += np.sum(u[i + 1 :] * u[i + 1 :])
    return np.sum(u)


@pytest.mark.parametrize(
    "function, kept",
    [
        (rest_of_parameter, False),
        (rest_of_copy, False),
        (rest_from_the_end, False),
        (written_just_before, True),
        (written_in_an_earlier_trip, True),
        (written_by_another_loop, True),
    ],
)
def test_what_no_write_has_met_is_read_where_it_was_copied_from(function, kept):
    u = np.random.default_rng(1).uniform(0.1, 0.4, 9)
    gradient = dlvm.grad(dlvm.jit(function, cache=False), wrt=0)
    assert ("createStack <_ x f64>" in gradient.ir(u)) == kept
    found = gradient(u)
    for k in range(9):
        shift = np.eye(9)[k] * 1e-6
        expected = (function(u + shift) - function(u - shift)) / 2e-6
        assert found[k] == pytest.approx(expected, rel=1e-6)


def neighbouring_rows(m):
    for i in range(len(m) - 1):
        m[i] -= 0.3 * np.max(m[i : i + 2], axis=0)
    return np.sum(m * m)


def rows_seen_as_a_vector(m):
    for i in range(len(m) - 1):
        m[i] += np.sum(m[i + 1 :].reshape(-1) ** 2)
    return np.sum(m * m)


@pytest.mark.parametrize("function", [neighbouring_rows, rows_seen_as_a_vector])
def test_views_of_what_was_copied(function):
    """Their types may say less than those of the copy's: of whole rows of another array it is not known."""
    m = np.random.default_rng(1).uniform(-0.3, 0.3, (4, 3))
    found = dlvm.grad(dlvm.jit(function, cache=False))(m)
    for at in np.ndindex(m.shape):
        shift = np.zeros(m.shape)
        shift[at] = 1e-6
        expected = (function(m + shift) - function(m - shift)) / 2e-6
        assert found[at] == pytest.approx(expected, rel=1e-6)
