"""Loops in which each trip has one term more than the one before, four trips at a time (interleave_loops.py).

The same bits, effects and exceptions as plain Python, also where a trip needs what the one before has made.
"""

import numpy as np
import pytest

import dlvm_py as dlvm


def cholesky(a, x, y):
    for i in range(a.shape[0]):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[j, k]
            a[i, j] /= a[j, j] + 3.0
    return a[0, 0]


def lu(a, x, y):
    for i in range(a.shape[0]):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[k, j]
            a[i, j] /= a[j, j] + 3.0
    return a[0, 0]


def forward(a, x, y):
    """A sum that is carried, and what it makes."""
    for i in range(len(x)):
        s = y[i]
        for j in range(i):
            s -= a[i, j] * x[j]
        x[i] = s / (2.0 + a[i, i])
    return x[0]


def in_memory(a, x, y):
    """Two to begin with, and one term less than there are results."""
    for i in range(2, len(x)):
        for j in range(i - 1):
            x[i] -= a[i, j] * x[j]
    return x[0]


def later_terms(a, x, y):
    """Terms from the second on: the first trips have none. The element is that before the trip's."""
    for i in range(len(x)):
        for j in range(1, i):
            x[i - 1] += a[i, j] * y[j]
    return x[0]


def stops(a, x, y):
    """One trip raises: of those behind it nothing is there."""
    for i in range(len(x)):
        s = 0.5
        for j in range(i):
            s += a[i, j] * x[j]
        x[i] = s
        if i == 6:
            raise ValueError("six")
    return x[0]


def with_a_total(a, x, y):
    """What trips carry for each other, behind the sum."""
    total = 0.0
    for i in range(len(x)):
        s, low = 0.0, 1.0
        for j in range(i):
            s += a[i, j] * x[j]
            low = min(low, x[j])
        total = total * 0.5 + s
        x[i] = total - low
    return total


def itself(a, x, y):
    """The last term is what the trip updates."""
    for i in range(len(x)):
        for j in range(i + 1):
            x[i] += a[i, j] * x[j]
    return x[0]


def next_one(a, x, y):
    """The last term is what the trip writes; carried, it is what was there."""
    for i in range(len(x)):
        s = 0.0
        for j in range(i):
            s += x[j + 1] * a[i, j]
        x[i] = s
    return x[0]


def backwards(a, x, y):
    """The first term is the last result."""
    for i in range(len(x)):
        s = 1.0
        for k in range(i):
            s += x[k] * x[i - 1 - k] * 0.1
        x[i] = s
    return x[0]


def row_above(a, x, y):
    """A trip reads a row that the one before has written."""
    for i in range(1, a.shape[0]):
        s = 0.0
        for k in range(i):
            s += a[i - 1, k]
        a[i, 0] = s
    return a[0, 0]


def elsewhere(a, x, y):
    """The trip writes what later ones read in common, too."""
    for i in range(len(x)):
        s = 0.0
        for j in range(i):
            s += a[i, j] * x[j]
        x[i] = s
        x[0] += 0.5
    return x[0]


TOGETHER = (cholesky, lu, forward, in_memory, stops, with_a_total)
APART = (later_terms, itself, next_one, backwards, row_above, elsewhere)


def outcome(f, *args):
    """What a call returns or raises, and what it leaves in its arguments."""
    args = [v.copy() for v in args]
    try:
        found = f(*args)
    except ValueError as e:
        found = str(e)
    return found, [v.tobytes() for v in args]


@pytest.mark.parametrize("f", TOGETHER + APART, ids=lambda f: f.__name__)
def test_the_same_bits(f):
    g = dlvm.jit(f, parallel=False)
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 4, 5, 6, 9, 13, 32):
        a, x, y = 0.3 * rng.standard_normal((n + 1, n + 1)), rng.standard_normal(n), rng.standard_normal(n)
        if n == 9:
            a[3, 1], x[2] = np.inf, -0.0
        with np.errstate(all="ignore"):
            want = outcome(f, a, x, y)
        np.testing.assert_equal(outcome(g, a, x, y), want)
    assert ("'together" in g.ir(stage="scheduled")) == (f in TOGETHER)


def test_arguments_that_overlap():
    def both(f):
        memory, a = np.linspace(-1.0, 1.0, 40), 0.1 * np.arange(100.0).reshape(10, 10) - 4.0
        f(a, memory[3:13], memory[5:15])
        f(a, a[4], memory[5:15])
        return memory.tobytes(), a.tobytes()

    assert both(dlvm.jit(forward, parallel=False)) == both(forward)


def test_single_precision_and_a_gradient():
    rng = np.random.default_rng(2)
    a, x, y = (rng.random(s) for s in ((9, 9), 9, 9))
    single = [v.astype(np.float32) for v in (a, x, y)]
    assert outcome(dlvm.jit(forward), *single) == outcome(forward, *single)
    last = lambda a, x, y: (with_a_total(a, x, y), np.sum(x * y))[1]  # noqa: E731
    found = dlvm.grad(last)(a, x, y)
    h = 1e-6 * rng.random((9, 9))
    slope = (last(a + h, x.copy(), y) - last(a - h, x.copy(), y)) / 2
    assert np.sum(found * h) == pytest.approx(slope, rel=1e-6)
