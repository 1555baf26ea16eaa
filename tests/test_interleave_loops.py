"""Loops whose trips run four at a time (transforms/interleave_loops.py): the same bits, effects and exceptions."""

import numpy as np
import pytest

import dlvm_py as dlvm


def times_vector(a, x, y):
    """Rows times a vector, stored."""
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(len(x)):
            s += a[i, k] * x[k]
        y[i] = s
    return y[0]


def matrices(a, x, y):
    """Three loops; the sum begins with what the trip makes."""
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(2, a.shape[0]):
            s = 0.5 * j
            for k in range(len(x)):
                s -= a[i, k] * a[j, k] / (1.0 + x[k] * j)
            total = total * 0.5 + s
    return total


def two_sums(a, x, y):
    """A minimum and a sum, with a decision and a store behind them."""
    at = 0
    for i in range(a.shape[0]):
        low, s = np.inf, 0.0
        for k in range(len(x)):
            low = min(low, a[i, k])
            s += a[i, k] - low
        if s > 1.0:
            y[at] = s + i
            at += 1
    return at * 1.0


def stops(a, x, y):
    """One trip raises: what the ones before it wrote is there, of those behind it nothing."""
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(len(x)):
            s += a[i, k]
        y[i] = s
        if i == 5:
            raise ValueError("five")
    return y[0]


def carried(a, x, y):
    """Each sum begins with the last one."""
    s = 0.0
    for i in range(a.shape[0]):
        for k in range(len(x)):
            s = s * 0.5 + a[i, k] * x[k]
        y[i] = s
    return s


def in_place(a, x, y):
    """What a trip writes the next one reads."""
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(len(x)):
            s += a[i, k] * y[k]
        y[i % len(x)] = s
    return y[0]


def triangle(a, x, y):
    """The inner count changes."""
    total = 0.0
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(min(i, len(x))):
            s += a[i, k] * x[k]
        total += s * s
    return total


APART = {carried, in_place}
ALL = (times_vector, matrices, two_sums, triangle, stops, *sorted(APART, key=lambda f: f.__name__))


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_the_same_bits(f):
    g = dlvm.jit(f, parallel=False)
    rng = np.random.default_rng(1)
    for n, m in ((9, 5), (0, 3), (3, 2), (4, 4), (13, 3)):
        a, x = rng.standard_normal((n, m)), rng.standard_normal(m)
        a[n // 2 :, 0] = [np.nan, -0.0, np.inf][n % 3]
        y = np.linspace(0.0, 1.0, max(n, m))
        results = []
        for run in (f, g):
            z = y.copy()
            try:
                results.append((run(a, x, z), z.tobytes()))
            except ValueError as e:
                results.append((str(e), z.tobytes()))
        np.testing.assert_array_equal(results[1][0], results[0][0])
        assert results[1][1] == results[0][1]
    assert ("'together" in g.ir(stage="scheduled")) == (f not in APART)


def test_an_index_out_of_range():
    g = dlvm.jit(times_vector, parallel=False)
    y = np.zeros(7)
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 1 with size 3"):
        g(np.ones((7, 3)), np.ones(4), y)
    assert not y.any()
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 5"):
        g(np.ones((7, 3)), np.ones(3), y[:5])
    np.testing.assert_array_equal(y, [3, 3, 3, 3, 3, 0, 0])


def test_single_precision_and_a_gradient():
    rng = np.random.default_rng(2)
    a, x, y = (rng.random(s).astype(np.float32) for s in ((7, 3), 3, 7))
    assert dlvm.jit(matrices)(a, x, y) == matrices(a, x, y)
    found = dlvm.grad(matrices)(a.astype(float), x.astype(float), y.astype(float))
    h = 1e-6 * np.ones_like(a, dtype=float)
    slope = (matrices(a + h, x.astype(float), y) - matrices(a - h, x.astype(float), y)) / 2e-6
    assert np.sum(found) == pytest.approx(slope, rel=1e-6)
