"""Copies of columns that loops read again and again (pack_columns.py): NumPy's bits, where the copy is made or not."""

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")


def rank_2k(alpha, beta, c, a, b):
    """A symmetric update of the lower triangle, column after column."""
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += a[: i + 1, k] * alpha * b[i, k] + b[: i + 1, k] * alpha * a[i, k]


def middle(c, a, low, high):
    """A part of the rows, and of the columns backwards."""
    for i in range(c.shape[0]):
        for k in range(high, low, -1):
            c[i] += a[2:-3, k - 1] * i


def distances(a):
    """Two columns at a time, one of the outer loop."""
    found = np.zeros((a.shape[1], a.shape[1]), a.dtype)
    for i in range(a.shape[1]):
        for k in range(i):
            found[i, k] = np.max(np.abs(a[:, i] - a[:, k]))
    return found


def steps(c, a, count):
    """The array changes between the loops that read it."""
    for _ in range(count):
        for i in range(c.shape[0]):
            for k in range(a.shape[1]):
                c[i] += a[:, k] * c[i, k]
        a[:, 0] += c[0]


def same(f, *args):
    jitted = dlvm.jit(f)
    mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in args] for _ in range(2))
    found, wanted = jitted(*mine), f(*theirs)
    for x, y in zip((found, *mine), (wanted, *theirs), strict=True):
        np.testing.assert_array_equal(x, y)
    return jitted.ir(*args, stage="scheduled")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n, k", [(0, 0), (1, 3), (15, 9), (16, 7), (16, 8), (17, 0), (50, 35), (70, 140)])
def test_triangle(n, k, dtype):
    rng = np.random.default_rng(n + k)
    c, a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((n, n), (n, k), (n, k)))
    assert "'pack" in same(rank_2k, dtype(1.5), dtype(1.2), c, a, b)


def test_threads_share_the_rows_of_a_sum_of_slices():
    rng = np.random.default_rng(3)
    c, a, b = (rng.standard_normal((300, n)) for n in (300, 150, 150))
    assert "for i in range" in str(dlvm.jit(rank_2k).report(1.5, 1.2, c, a, b))
    count, found = dlvm.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            dlvm.set_num_threads(threads)
            found.append(c.copy())
            dlvm.jit(rank_2k)(1.5, 1.2, found[-1], a, b)
    finally:
        dlvm.set_num_threads(count)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_what_is_out_of_range_raises_in_its_trip():
    rng = np.random.default_rng(4)
    c, a, b = rng.standard_normal((40, 40)), rng.standard_normal((40, 30)), rng.standard_normal((40, 20))
    results = []
    for f in (rank_2k, dlvm.jit(rank_2k)):
        results.append(c.copy())
        with pytest.raises(IndexError):
            f(1.5, 1.2, results[-1], a, b)
    np.testing.assert_array_equal(*results)


def test_parts():
    rng = np.random.default_rng(5)
    for low, high in ((0, 30), (5, 29), (20, 23), (9, 9)):
        assert "'pack" in same(middle, rng.standard_normal((20, 45)), rng.standard_normal((50, 30)), low, high)
    with pytest.raises(IndexError):
        dlvm.jit(middle)(rng.standard_normal((20, 45)), rng.standard_normal((50, 30)), 0, 31)


def test_columns_of_both_loops():
    rng = np.random.default_rng(6)
    for shape in ((3, 4), (40, 30), (33, 16)):
        assert "'pack" in same(distances, rng.standard_normal(shape))


def test_an_array_that_changes_is_copied_anew():
    rng = np.random.default_rng(7)
    c, a = rng.standard_normal((20, 24)) / 100, rng.standard_normal((24, 12)) / 100
    assert "'pack" in same(steps, c, a, 3)


def test_overlapping_arguments():
    rng = np.random.default_rng(8)
    found = []
    for f in (rank_2k, dlvm.jit(rank_2k)):
        x = np.random.default_rng(8).standard_normal((40, 40)) / 40
        f(0.5, 0.9, x, x, x.copy())
        found.append(x)
    np.testing.assert_array_equal(*found)
    x = rng.standard_normal((40, 80))
    same(rank_2k, 0.5, 0.9, rng.standard_normal((40, 40)), x[:, ::2], x[:, 1::2])


def test_gradient():
    rng = np.random.default_rng(9)
    c, a, b = rng.standard_normal((20, 20)), rng.standard_normal((20, 10)), rng.standard_normal((20, 10))

    def loss(alpha, a, b):
        x = c.copy()
        rank_2k(alpha, 0.5, x, a, b)
        return np.sum(x * x)

    dlvm.check(dlvm.jit(loss), 1.5, a, b)
