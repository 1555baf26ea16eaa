"""Loops in two parts around the trip that writes what all read (split_loops.py), and checks before loops."""

import numpy as np
import pytest

import dlvm_py as dlvm


def paths(d):
    """Lengths of the shortest paths, by Floyd and Warshall."""
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


def closure(r):
    """Which nodes can be reached, by Warshall."""
    n = len(r)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                r[i, j] = r[i, j] or (r[i, k] and r[k, j])
    return r


def gauss_jordan(a, b):
    """A linear system by elimination of whole rows, the column of the pivot as well."""
    n = a.shape[0]
    for k in range(n):
        p = a[k, k]
        for j in range(n):
            a[k, j] /= p
        b[k] /= p
        for i in range(n):
            if i != k:
                b[i] -= a[i, k] * b[k]
                for j in range(n - 1, -1, -1):
                    a[i, j] -= a[i, k] * a[k, j]
    return b


def eliminated(a):
    """The same upwards, where the element that is read becomes 0 in the middle of the row."""
    n, m = a.shape
    for k in range(n):
        for i in range(n):
            for j in range(m):
                if i != k:
                    a[i, j] -= a[i, k] * a[k, j] / a[k, k]
    return a


def spread(x, k, by):
    """One number, added to all from a place on, itself among them."""
    total = 0.0
    for j in range(by, len(x)):
        x[j - by] += x[k]
        total += x[k]
    return total, x


def both_ways(x, k):
    """An element that is written from either end."""
    n = len(x)
    for j in range(n):
        x[n - 1 - j] = x[k] + j
    return x


def two_names(x, y, k):
    """What is read may be written by another name."""
    for j in range(len(y)):
        y[j] += x[k]
    return y


def assert_as_python(fn, *args):
    """Compiled code returns and writes the bits that Python does."""
    ours, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    got, want = dlvm.jit(fn)(*ours), fn(*theirs)
    got, want = (r if isinstance(r, tuple) else (r,) for r in (got, want))
    for g, w in zip((*got, *ours), (*want, *theirs), strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("n", [0, 1, 2, 9, 17])
def test_paths(n):
    """Of graphs of several sizes, with negative distances, which change the row that is read, too."""
    d = np.random.default_rng(n).uniform(-0.3, 3.0, (n, n))
    assert_as_python(paths, d)
    assert_as_python(paths, np.asfortranarray(d))
    assert_as_python(paths, (d * 10).astype(np.int64))
    assert_as_python(closure, d > 2.0)


def test_paths_without_numbers():
    """Infinite distances, and numbers that are none."""
    d = np.random.default_rng(0).uniform(0, 3.0, (12, 12))
    d[d > 2] = np.inf
    d[3, 4] = np.nan
    assert_as_python(paths, d)


def test_eliminations():
    """Rows from which others are subtracted, in either direction, and wide ones."""
    rng = np.random.default_rng(1)
    a = rng.normal(size=(11, 11)) + 5 * np.eye(11)
    assert_as_python(gauss_jordan, a, rng.normal(size=11))
    assert_as_python(eliminated, a)
    assert_as_python(eliminated, np.hstack([a, a[:, :3]]))


@pytest.mark.parametrize("k", [0, 1, 5, 8, -1, -9])
@pytest.mark.parametrize("by", [0, 2])
def test_one_trip_writes(k, by):
    """The element lies before, in and behind what is written; places count from the end, too."""
    x = np.arange(1.0, 10.0)
    assert_as_python(spread, x, k, by)
    assert_as_python(both_ways, x, k)


def test_other_names():
    """Arguments that share memory are two names of an element."""
    f = dlvm.jit(two_names)
    for part in (slice(None), slice(2, 6), slice(None, None, -1)):
        x, z = np.arange(1.0, 9.0), np.arange(1.0, 9.0)
        np.testing.assert_array_equal(f(x, x[part], 3), two_names(z, z[part], 3))
        np.testing.assert_array_equal(x, z)


def test_rows_that_are_short():
    """Checks that rise out of loops raise what they did, and where nothing is asked nothing is."""
    f = dlvm.jit(paths)
    with pytest.raises(IndexError, match="index 2 is out of bounds for axis 1 with size 2"):
        f(np.ones((3, 2)))
    d = np.random.default_rng(0).uniform(0, 3, (3, 5))
    assert_as_python(paths, d)

    def reads(a, k, n, m):
        total = 0.0
        for i in range(n):
            for _ in range(m):
                total += a[k] * a[i]
        return total

    g, a = dlvm.jit(reads), np.array([2.0, 3.0])
    assert g(a, 7, 0, 5) == g(a, 7, 5, 0) == 0.0
    assert g(a, 1, 2, 2) == reads(a, 1, 2, 2)
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        g(a, 7, 2, 1)


def test_memory_when_a_check_raises():
    """Rows before the one that fails are written."""

    def rows(a, at):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                a[i, j] += a[i, at[i]]
        return a

    at = np.array([1, 0, 2, 7, 0])
    ours, theirs = np.arange(20.0).reshape(5, 4), np.arange(20.0).reshape(5, 4)
    for f, a in ((dlvm.jit(rows), ours), (rows, theirs)):
        with pytest.raises(IndexError, match="index 7 is out of bounds"):
            f(a, at)
    np.testing.assert_array_equal(ours, theirs)
