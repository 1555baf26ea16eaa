"""Kernels of several roots: what joins, what does not, and that results are those of NumPy."""

import numpy as np
import pytest

from dlvm_py import jit

X = np.linspace(-2.0, 3.0, 37)
Y = np.linspace(0.5, 4.0, 37)
M = np.arange(12.0).reshape(3, 4)


def two(a, b):
    return np.exp(a) * b, np.exp(a) + b


def updated(a, b):
    c = a * b
    a += c
    b -= c
    return c * a


def chained(a, b):
    c = a + b
    d = c * a
    return c, d, d - b


def rows(m, v):
    return m * v, m - v


def strided(a, b):
    a[::2] += b[::2]
    b[1::2] = a[1::2] * 2.0
    return a[::2] * 3.0


def shifted(a, b):
    a[1:] = b[1:] * 2.0
    b[:-1] = a[1:] + b[:-1]
    return a + b


def shown(a, b):
    a += b
    if a[0] > 100.0:
        raise ValueError("large")
    return a * b


def loop(a, b):
    for _ in range(5):
        c = np.tanh(a) * b
        d = np.tanh(a) + c
        a[:] = c - d
        b[:] = c + d
    return a


def turned(m, v):
    p = m * 2.0
    return p, p.T + 1.0, p[:, ::-1] * v


def masks(a, b):
    return a > b, np.where(a > b, a, b), (a * 2).astype(np.float32)


# (function, arguments, stores that are joined to others)
CASES = [
    (two, (X, Y), 1),
    (updated, (X, Y), 2),
    (chained, (X, Y), 2),
    (rows, (M, M[0]), 1),
    (strided, (X, Y), None),
    (shifted, (X, Y), None),
    (shown, (X, Y), 0),
    (loop, (X, Y), None),
    (turned, (M, M[1]), None),
    (masks, (X, Y), 2),
]


def copies(args):
    return [a.copy() for a in args]


@pytest.mark.parametrize(("f", "args", "joined"), CASES, ids=[case[0].__name__ for case in CASES])
def test_results_and_effects_are_those_of_numpy(f, args, joined):
    g, mine, theirs = jit(f), copies(args), copies(args)
    found, expected = g(*mine), f(*theirs)
    for x, y in zip(_all(found, mine), _all(expected, theirs), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-14, atol=1e-300)
    if joined is not None:
        assert g.ir(stage="scheduled").count(" joined") == joined


def _all(result, args):
    return [*(result if isinstance(result, tuple) else (result,)), *args]


def test_arguments_that_overlap():
    # of the same memory, one place further: what one kernel writes the next one reads at another place
    base, same = np.arange(20.0), np.arange(20.0)
    found = jit(updated)(base[:-1], base[1:])
    expected = updated(same[:-1], same[1:])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(base, same)


def test_memory_that_overlaps_itself():
    # all elements of the destination are one: the last one wins, before anything else is computed
    def f(a, b):
        a[:] = b * 2.0
        return a * b

    one, same = np.zeros(1), np.zeros(1)
    np.testing.assert_array_equal(
        jit(f)(np.lib.stride_tricks.as_strided(one, (5,), (0,)), X[:5]),
        f(np.lib.stride_tricks.as_strided(same, (5,), (0,)), X[:5]),
    )


def test_extents_that_only_a_check_holds_equal():
    def f(a, b):
        c = np.exp(a)
        return c * 2.0, c * b

    g = jit(f)
    assert g(X, Y)[1].shape == X.shape
    with pytest.raises(ValueError, match="broadcast"):
        g(X, Y[:5])
    # an extent of 1 is another version, in which b is stretched
    np.testing.assert_allclose(g(X, Y[:1])[1], f(X, Y[:1])[1], rtol=1e-14)
