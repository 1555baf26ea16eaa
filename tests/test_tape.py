"""What a gradient keeps for the reverse sweep, seen on the IR: nothing that can be read or computed again."""

import itertools
import random
import re

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.transforms.differentiate.min_cut import minimum_cut

U = np.linspace(0.1, 1.0, 9)


def read_only_arrays(u, n):
    k = np.sin(u) * 2  # made before the loop, then only read
    s = 0.0
    for i in range(n):
        s += k[i] * k[i] * u[i]
    return s


def logistic_map(x, r, n):
    for _ in range(n):
        x = r * x * (1 - x)
    return x


def pendulum(th, om, dt, n):
    for _ in range(n):
        a = -9.8 * np.sin(th) - 0.1 * om
        om = om + dt * a
        th = th + dt * om
    return th


def stencil(u, dt, n):
    for _ in range(n):
        u[1:-1] += dt * (u[2:] - 2 * u[1:-1] + u[:-2]) * u[1:-1]
    return np.sum(u**2)


def temporaries(u, c, n):
    for _ in range(n):
        moved = np.roll(u, 1) + np.roll(u, -1) - 2 * u
        u = u + c * moved
    return np.sum(u * u)


def until(x, n):
    while x > n:
        x = np.sin(x)
    return x


def sometimes(u, n):
    for i in range(n):
        if u[0] > i:
            u[1:] = np.sin(u[1:] * u[0])
    return np.sum(u)


# what a step keeps: rows of scalars and of arrays; pushes of scalars, arrays and references
PROGRAMS = [
    (read_only_arrays, (U, 8), 0, (0, 0, 0, 0, 0)),
    (logistic_map, (0.3, 3.3, 9), (0, 1), (1, 0, 0, 0, 0)),  # x, not 1 - x and r * x
    (pendulum, (0.3, 0.1, 0.01, 9), (0, 1), (1, 0, 0, 0, 0)),  # th: of sin(th)
    (stencil, (U, 0.1, 4), (0, 1), (0, 2, 0, 0, 0)),
    (temporaries, (U, 0.1, 4), 0, (0, 0, 0, 0, 2)),  # adjoint memory of u, before and after; none of the rolled copies
    (until, (0.5, 0.1), 0, (0, 0, 1, 0, 0)),
    (sometimes, (U, 4), 0, (1, 0, 0, 1, 0)),  # u[0] of every step, which tells the branch; the rest where it is needed
]


@pytest.mark.parametrize("function, args, wrt, expected", PROGRAMS, ids=lambda v: getattr(v, "__name__", None))
def test_what_a_step_keeps(function, args, wrt, expected):
    text = dlvm.grad(function, wrt).ir(*args)
    rows = [counts.count(": i64") for counts in re.findall(r"%\w*tape\w* = allocateHeap \S+ count \((.*)\)", text)]
    pushed = re.findall(r"push %\S+: (\S+)", text)
    arrays = sum(t.startswith("<") for t in pushed)
    references = sum(t.startswith("*") for t in pushed)
    found = (rows.count(1), rows.count(2), len(pushed) - arrays - references, arrays, references)
    assert found == expected


def separates(cut, edges, sources, sinks):
    seen = {v for v in sources if v not in cut}
    for v in (order := list(seen)):
        for a, b in edges:
            if a == v and b not in cut and b not in seen:
                seen.add(b)
                order.append(b)
    return seen.isdisjoint(sinks)


def test_minimum_cut_is_the_cheapest_that_separates():
    """Against all sets of vertices, on 200 small graphs."""
    choose = random.Random(1)
    for _ in range(200):
        weights = {v: choose.randint(1, 5) for v in range(choose.randint(1, 6))}
        edges = [(a, b) for a, b in itertools.combinations(weights, 2) if choose.random() < 0.4]
        sources, sinks = ([v for v in weights if choose.random() < 0.4] for _ in range(2))
        cut = minimum_cut(weights, edges, sources, sinks)
        assert separates(cut, edges, sources, sinks)
        some = (c for k in range(len(weights) + 1) for c in itertools.combinations(weights, k))
        best = min(sum(weights[v] for v in c) for c in some if separates(c, edges, sources, sinks))
        assert sum(weights[v] for v in cut) == best


def test_of_several_cheapest_cuts_it_is_the_one_next_to_the_sinks():
    assert minimum_cut({0: 2, 1: 2, 2: 2}, [(0, 1), (1, 2)], [0], [2]) == {2}
