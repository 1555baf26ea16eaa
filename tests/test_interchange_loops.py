"""Loops down columns that run along rows (transforms/interchange_loops.py): the same bits, effects and exceptions."""

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")


def summed(a, b, s):
    """Into an element, and a number that is carried from row to row, with a decision; what comes before and behind."""
    for j in range(a.shape[1]):
        low = b[0, j]
        for i in range(a.shape[0]):
            s[j] += a[i, j]
            if a[i, j] < low:
                low = a[i, j]
        for i in range(a.shape[0] - 1, -1, -1):
            b[i, j] = np.abs(a[i, j]) - low


def recurrence(a, b, s):
    for j in range(a.shape[1] - 1, -1, -1):
        for i in range(1, a.shape[0] - 1):
            a[i, j] = a[i - 1, j] * 0.5 + b[i + 1, j] * s[i]


def products(a, b, s):
    for j in range(b.shape[1]):
        for k in range(s.shape[0]):
            for i in range(b.shape[0]):
                b[i, j] += a[i, k] * s[k] + a[k, j]


def turned(a, b, s):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            b[j, i] = a[i, j] * s[j]


def turned_back(a, b, s):
    for j in range(b.shape[1]):
        for i in range(b.shape[0]):
            b[i, j] = a[j, i] * s[i]


def down_and_left(a, b, s):
    """A column reads what the one before it wrote further down."""
    for j in range(1, a.shape[1]):
        for i in range(a.shape[0] - 1):
            a[i, j] = a[i + 1, j - 1] * 0.5


def in_order(a, b, s):
    """One sum over all columns: its order is the program's."""
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            s[0] += a[i, j]


APART = (summed, recurrence, products, turned, turned_back)
CASES = [((20, 20), (20, 20), 20), ((19, 17), (18, 17), 19), ((17, 40), (17, 40), 40), ((30, 5), (30, 5), 30)]


def called(f, args):
    try:
        f(*args)
    except IndexError as e:
        return str(e)
    return ""


@pytest.mark.parametrize("f", [*APART, down_and_left, in_order], ids=lambda f: f.__name__)
def test_the_same_bits_and_exceptions(f):
    """Also where an index is out of range in the middle, where columns are few, and where arrays are one another."""
    g = dlvm.jit(f)
    rng = np.random.default_rng(3)
    for shapes in CASES:
        args = [rng.standard_normal(shape) for shape in shapes]
        args[0][-1, -1] = np.nan
        ours, theirs = ([a.copy() for a in args] for _ in range(2))
        assert called(g, ours) == called(f, theirs)
        for x, y in zip(ours, theirs, strict=True):
            assert x.tobytes() == y.tobytes()
    same, plain = rng.standard_normal((20, 20)), rng.standard_normal(20)
    ours, theirs = (same.copy(), plain.copy()), (same.copy(), plain.copy())
    g(ours[0], ours[0], ours[1])
    f(theirs[0], theirs[0], theirs[1])
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ("'strips" in g.ir(*args, stage="compute")) == (f in APART)


def test_strips_and_what_is_left():
    """More columns than a strip has, with memory of the strip, on one thread and on several."""
    rng = np.random.default_rng(5)
    args = rng.standard_normal((9, 2100)), rng.standard_normal((9, 2100)), rng.standard_normal(2100)
    want = [a.copy() for a in args]
    summed(*want)
    for parallel in (True, False):
        mine = [a.copy() for a in args]
        dlvm.jit(summed, parallel=parallel)(*mine)
        for x, y in zip(mine, want, strict=True):
            assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize("f", [turned, turned_back], ids=lambda f: f.__name__)
def test_narrow_strips(f):
    """Columns that are long enough for them, and rows that are no multiple of a strip."""
    rng = np.random.default_rng(6)
    shapes = ((1601, 17), (17, 1601), 17) if f is turned else ((17, 1601), (1601, 17), 1601)
    args = [rng.standard_normal(shape) for shape in shapes]
    ours, theirs = ([a.copy() for a in args] for _ in range(2))
    dlvm.jit(f)(*ours)
    f(*theirs)
    np.testing.assert_array_equal(ours[1], theirs[1])


def neighbours(a, b, s):
    """Columns whose adjoints are added to by those beside them."""
    for j in range(1, a.shape[1] - 1):
        for i in range(1, a.shape[0] - 1):
            b[i, j] = a[i, j - 1] * a[i, j + 1] + a[i - 1, j] * s[i] - a[i + 1, j]


def scaled(a, b, s):
    """The adjoint of a number is a sum over all trips."""
    for j in range(a.shape[1]):
        for i in range(1, a.shape[0]):
            a[i, j] = a[i - 1, j] * s + np.sin(b[i, j] * s)


@pytest.mark.parametrize("f", [recurrence, neighbours, scaled], ids=lambda f: f.__name__)
def test_gradients_run_along_rows(f):
    def loss(a, b, s):
        f(a, b, s)
        return np.sum(a * a) + np.sum(b * a)

    rng = np.random.default_rng(7)
    args = rng.standard_normal((5, 20)), rng.standard_normal((5, 20)), rng.standard_normal(None if f is scaled else 5)
    g = dlvm.grad(loss, wrt=(0, 1, 2))
    assert g.ir(*args, stage="compute").count("'strips(%") == 2
    for k, got in enumerate(g(*args)):
        direction = rng.standard_normal(np.shape(args[k]))
        ends = []
        for t in (1e-6, -1e-6):
            moved = [a + t * direction if m == k else a + 0.0 for m, a in enumerate(args)]
            ends.append(loss(*moved))
        np.testing.assert_allclose(np.sum(got * direction), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
