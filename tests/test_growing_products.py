"""Products that get longer from trip to trip (transforms/growing_products.py): strips of trips share what is final."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.transforms import growing_products

rng = np.random.default_rng(11)


def factors(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]


def solution(a, x):
    """Two products of different lengths; the second is made when the trip has written. Sums go from trip to trip."""
    s = 0.0
    for j in range(2, a.shape[1]):
        x[j] *= 2.0
        x[j] = (x[j] - a[1:j, j] @ x[1:j]) / a[j, j]
        s += x[: j - 1] @ a[: j - 1, j]
    return s


def moved(a, x):
    """A trip writes what only the next one reads: that is what is new in it."""
    for j in range(a.shape[1] - 1):
        x[j + 1] -= 0.5 * (x[: j + 1] @ a[: j + 1, j])


def substitution(a, x):
    """Rows, which lie side by side."""
    for i in range(x.shape[0]):
        x[i] = (x[i] - a[i, :i] @ x[:i]) / a[i, i]


def written_again(a, x):
    for i in range(1, x.shape[0]):
        x[i] = (x[i] - a[i, :i] @ x[:i]) / a[i, i]
        x[i - 1] += 0.5


def next_row(a, x):
    for i in range(x.shape[0] - 1):
        x[i] = (x[i] - a[i, :i] @ x[:i]) / a[i, i]
        a[i + 1, 0] = x[i]


def first_again(a, x):
    """What the strip has read at its beginning is written."""
    for j in range(a.shape[1]):
        x[0] -= 0.01 * (x[:j] @ a[:j, j])


def next_column(a, x):
    for j in range(a.shape[1] - 1):
        x[j] = x[:j] @ a[:j, j]
        a[0, j + 1] = x[j]


def shrinking(a, x):
    n = a.shape[1]
    for j in range(n):
        x[j] -= a[: n - j, j] @ x[: n - j]


def square(n, dtype=np.float64):
    return (rng.standard_normal((n, n)) + n * np.eye(n)).astype(dtype)


def run(f, args):
    """What a call gives or raises, and its arguments after it."""
    args = [v.copy() for v in args]
    try:
        return f(*args), args, None
    except (IndexError, ValueError) as e:
        return None, args, str(e)


def compare(f, compiled, args, tolerance=1e-9):
    (result, after, error), (found, found_after, found_error) = run(f, args), run(compiled, args)
    assert found_error == error
    for x, y in zip((result, *after), (found, *found_after), strict=True):
        if x is not None:
            np.testing.assert_allclose(y, x, rtol=tolerance, atol=tolerance)
            assert np.asarray(x).dtype == np.asarray(y).dtype


@pytest.mark.parametrize("f", (factors, solution, moved))
def test_strips_share_a_product(f):
    compiled = dlvm.jit(f)
    for n in (130, 64, 35, 17, 16, 15, 3):
        args = (square(n), rng.standard_normal(n))[: f.__code__.co_argcount]
        compare(f, compiled, args)
    assert "'strips" in compiled.ir(stage="compute")
    if f is moved:
        compare(f, compiled, (square(100, np.float32) / 100, np.ones(100, np.float32)), 1e-4)
    if f is factors:  # the 81st column is missing, and everything before has happened
        compare(f, compiled, (square(100)[:, :80].copy(),))


def test_rows(monkeypatch):
    """Whole strips, some more trips, too few; matrices with too few rows or columns, which raise in some trip."""
    monkeypatch.setattr(growing_products, "ROWS", 64)
    compiled = dlvm.jit(substitution, cache=False)
    for n in (96, 130, 65, 64, 63, 0):
        compare(substitution, compiled, (square(n), rng.standard_normal(n)))
    for rows, columns in ((100, 130), (130, 100)):
        compare(substitution, compiled, (square(130)[:rows, :columns].copy(), rng.standard_normal(130)))
    assert "'strips" in compiled.ir(stage="compute")


@pytest.mark.parametrize("f", (first_again, next_column, shrinking, written_again, next_row))
def test_products_that_stay_as_they_are(f):
    compiled, args = dlvm.jit(f), (square(100) / 100, rng.standard_normal(100))
    compare(f, compiled, args)
    assert "'strips" not in compiled.ir(stage="compute")


def test_arguments_that_share_memory():
    a, compiled = square(100) / 10, dlvm.jit(moved)
    wanted, found = a.copy(), a.copy()
    moved(wanted, wanted[:, 0])
    compiled(found, found[:, 0])
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.slow
def test_the_gradient():
    def loss(a):
        b = a.copy()
        factors(b)
        return np.sum(np.sin(b))

    a = square(70)
    along = rng.standard_normal(a.shape)
    difference = (loss(a + 1e-6 * along) - loss(a - 1e-6 * along)) / 2e-6
    np.testing.assert_allclose(np.sum(dlvm.grad(loss)(a) * along), difference, rtol=1e-6)
    np.testing.assert_allclose(dlvm.jvp(loss, (a,), (along,))[1], difference, rtol=1e-6)
