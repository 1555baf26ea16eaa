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


def relaxed(u, n, m):
    """Copies that a trip has for itself; of each array several parts, and one that the inner loop does not write."""
    w = np.zeros_like(u)
    for _ in range(n):
        before = u.copy()
        w[1:-1] = before[2:] * before[:-2]
        for _ in range(m):
            last = u.copy()
            u[1:-1] = 0.4 * last[2:] * last[:-2] + 0.3 * last[1:-1] * w[1:-1]
            u[0] = last[1] * last[0]
        u[1:-1] += before[2:] * before[:-2] * u[1:-1] * u[2:]
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


def factored(a):
    """What is read again is not written by later trips: the rows and columns before this one."""
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return np.sum(a * a)


def substituted(a, x, n):
    """Backwards, and the array again in each step: the last step's x is not what this one's was."""
    for i in range(x.shape[0] - 1, -1, -1):
        x[i] = (x[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    for _ in range(n):
        for i in range(1, x.shape[0]):
            x[i] = x[i] * x[i - 1]
    return np.sum(x * x)


# what a step keeps: rows of scalars and of arrays; pushes of scalars, arrays and references
PROGRAMS = [
    (read_only_arrays, (U, 8), 0, (0, 0, 0, 0, 0)),
    (logistic_map, (0.3, 3.3, 9), (0, 1), (1, 0, 0, 0, 0)),  # x, not 1 - x and r * x
    (pendulum, (0.3, 0.1, 0.01, 9), (0, 1), (1, 0, 0, 0, 0)),  # th: of sin(th)
    (stencil, (U, 0.1, 4), (0, 1), (0, 1, 0, 0, 0)),  # u, not two of its parts
    (relaxed, (U, 4, 3), 0, (0, 5, 0, 0, 0)),  # two numbers, whole arrays, no adjoint memory
    (temporaries, (U, 0.1, 4), 0, (0, 0, 0, 0, 0)),  # no adjoint memory: of u it goes from trip to trip
    (until, (0.5, 0.1), 0, (0, 0, 1, 0, 0)),
    (sometimes, (U, 4), 0, (0, 0, 0, 1, 0)),  # u where it is needed, but for u[0], which nothing writes
    # no values; of the second loop's products the adjoint memory, which has another length in each trip
    (factored, (np.eye(5) + 0.1,), 0, (0, 0, 0, 0, 2)),
    # x[i] and x[i - 1] of the steps, and of the substitution x as it was
    (substituted, (np.eye(5) + 0.1, np.ones(5), 2), (0, 1), (1, 2, 0, 1, 0)),
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


# -- dense tapes: every shape of loop ------------------------------------------------------------------------


def counted(u, n, m):
    """Rectangles, a negative step, a loop from 2, ways of a branch; no trip at all where n or m say so."""
    x = u[0]
    for i in range(n):
        for j in range(m):
            x = np.sin(x) * (1.0 + 0.1 * i * j)
    for i in range(n, 0, -2):
        x = np.sin(x) * u[i]
    i = 2
    while i < n:
        if x > 0.5:
            x = np.sin(x) * 1.5
        elif i == 3:
            i += 1
            continue
        else:
            x = x + 0.3 * x * x
        i += 1
    return x


def triangles(u, n):
    s, x = 0.0, u[0]
    for i in range(n):
        for j in range(i):
            for k in range(j, i):
                x = np.sin(x) + 0.1 * x
                s += x * x * k
        u[i] -= 0.1 * np.dot(u[:i], u[:i]) + 0.01 * s
    return np.sum(u)


def early(u, n, least):
    """Bounds: a short one, one for which there would be no memory, and a return."""
    x = u[-1]
    for i in range(20):
        x = np.sin(x) * 0.8 + 0.001 * i
        if x < least:
            break
    for _ in range(n):
        u = np.sin(u) * (1.0 + x)
        if u[0] > least:
            return np.sum(u) * i
    return x * i


def branches(u, n):
    for i in range(n):
        if i > 0:
            u = np.sin(u) * u[0]
        if u[1] > 0.1 * i:
            u[1:] = np.sin(u[1:] * u[0])
            for j in range(i):
                u[0] *= u[j] + 0.3
    return np.sum(u)


def until_small(u, least):
    while np.sum(u) > least:
        u = np.sin(u) * 0.8
        for i in range(3):
            u[i] = u[i] * u[i + 1]
    return np.sum(u)


def found_or_raised(u, n, least):
    """The loops are left by their returns alone: what follows the last trip raises."""
    for i in range(n):
        u = np.sin(u) * 1.1
        for j in range(len(u)):
            u[0] = u[0] * u[j] + 0.3
            if u[0] + i > least:
                return np.sum(u * u) * u[j]
    raise ValueError("never that large")


def parts(u, n, least):
    """Temporaries of trips that end early, that not every trip has, or that outlive theirs; parts of what changes."""
    v, x = u * 0.5, 1.0
    for i in range(n):
        old = u.copy()
        u[1:] = old[:-1] * old[1:] + 0.1 * v[1:] * x
        if i % 2 == 1:
            also = u.copy()
            u[:-1] += also[1:] * also[:-1] * old[1:]
        if u[0] > least:
            break
        for k in range(2):
            v[1:-1] += 0.1 * old[2:] * u[:-2]
            x = x * v[k] * u[2] + v[k + 1]
        u, v = v, old
    return np.sum(u * v) * x


def few_of_many(u, n, m):
    """A part that is not nearly all of its array is kept by itself."""
    x = u[0]
    for _ in range(n):
        u[1:] *= 0.9 + 0.1 * u[0]
        for k in range(m):
            x = np.sum(np.sin(u[k : k + 2] * x) * u[k + 1 : k + 3]) + x
    return x


SHAPES = [
    (relaxed, [(3, 2), (2, 0), (0, 3)]),
    pytest.param(parts, [(5, 9.0), (3, 0.06), (0, 1.0)], marks=pytest.mark.slow),
    pytest.param(few_of_many, [(3, 4), (2, 0)], marks=pytest.mark.slow),
    (found_or_raised, [(9, 2.5), (1, 0.1), (2, 1.2), (50, 12.3)]),
    (counted, [(7, 3), (0, 2), (1, -1), (4, 0)]),
    (triangles, [(6,), (1,), (0,)]),
    (early, [(10**15, 0.2), (3, 0.09), (3, 9.0)]),
    (branches, [(5,), (1,), (0,)]),
    (until_small, [(1.0,), (50.0,)]),
]


def slopes(function, u, *rest):
    """Central differences along each element."""
    steps = 1e-6 * np.eye(len(u))
    return np.array([(function(u + e, *rest) - function(u - e, *rest)) / 2e-6 for e in steps])


@pytest.mark.parametrize("function, cases", SHAPES, ids=lambda v: getattr(v, "__name__", None))
def test_every_shape_of_loop(function, cases):
    """Gradients against differences; plain Python, which shows the tapes, gives the same numbers."""
    gradient = dlvm.grad(function)
    plain = {}
    exec(gradient.source(U, *cases[0]), plain)
    for rest in cases:
        found = gradient(U, *rest)
        np.testing.assert_allclose(found, slopes(function, U, *rest), rtol=1e-6, atol=1e-8)
        again = plain[f"{function.__name__}_grad"](U, *rest)
        np.testing.assert_allclose(found, again[0] if isinstance(again, tuple) else again, rtol=1e-13)


def test_a_pullback_of_a_loop_that_only_its_return_leaves():
    """Blocks that come behind the exit in the order of the sweep find the shadows that the exit makes."""

    def grown(u, n, least):
        for i in range(n):
            if np.sum(u) > least:
                return np.sum(u * u) * i
            u[1:] = u[1:] * (1.1 + 0.01 * u[0])
        raise ValueError("never that large")

    value, pullback = dlvm.vjp(grown, U.copy(), 9, 6.5)
    np.testing.assert_allclose(value, grown(U.copy(), 9, 6.5), rtol=1e-13)
    expected = slopes(lambda u: grown(u.copy(), 9, 6.5), U)
    for seed in (1.0, -2.0):
        np.testing.assert_allclose(pullback(seed)[0], seed * expected, rtol=1e-6, atol=1e-8)


def test_dense_tapes_are_differentiated_again_and_outlast_the_call():
    """The tape is memory like other memory: to the second derivative, and to a pullback."""
    along = np.cos(7 * U)
    _, second = dlvm.jvp(dlvm.grad(counted), (U, 6, 2), (along, None, None))
    ahead, back = (dlvm.grad(counted)(U + s * 1e-6 * along, 6, 2) for s in (1, -1))
    np.testing.assert_allclose(second, (ahead - back) / 2e-6, rtol=1e-5, atol=1e-6)
    _, pullback = dlvm.vjp(triangles, U, 6)
    for seed in (1.0, 3.0):
        np.testing.assert_allclose(pullback(seed)[0], seed * dlvm.grad(triangles)(U, 6), rtol=1e-13)


def test_the_reverse_loop_of_a_dense_tape_is_vectorised():
    def cubes(x, y):
        for i in range(len(x)):
            x[i] = x[i] * y[i] * x[i]

    text = dlvm.grad(cubes, from_="x").llvm(U, U)
    assert re.search(r"store <\d+ x double> %", text)  # what is filled is stored as a splat


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


def of_many_sizes(u, n, grows):
    """What is kept of a trip has the size of that trip: nothing in the first one, in the last more than is fetched."""
    s = 0.0
    k, x = 0, u[:0]
    while k < n:
        x = np.append(0.9 * x, np.sin(u[k : k + 1 + k * grows]))
        s += np.sum(x * x)
        k += 1
    return s


@pytest.mark.parametrize(("n", "grows"), [(1, 0), (7, 0), (40, 3), (40, 60)])
def test_what_the_next_trip_backwards_reads_is_fetched(n, grows):
    u = np.linspace(0.1, 1.0, n * (grows + 1))
    g = dlvm.grad(dlvm.jit(of_many_sizes))
    found = g(u, n, grows)
    way = np.cos(np.arange(u.size))
    near = [of_many_sizes(u + h * way, n, grows) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(found @ way, (near[0] - near[1]) / 2e-6, rtol=1e-6)
    assert "call void @dlvm.fetch_below(" in g.llvm()
    # a number of a trip lies beside that of the next one
    assert "fetch_below" not in dlvm.grad(dlvm.jit(logistic_map)).llvm(0.4, 3.6, 10)
