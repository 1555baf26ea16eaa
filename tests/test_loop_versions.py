"""Indices that fall or go in strides, and powers, are asked about at both ends of a loop (loop_versions.py)."""

import numpy as np
import pytest
from signals import interrupted

import dlvm_py as dlvm


def falls(a, w, v):
    """The best that fits: both indices fall."""
    b = a.copy()
    for i in range(len(w)):
        for j in range(len(b) - 1, w[i] - 1, -1):
            b[j] = max(b[j], b[j - w[i]] + v)
    return b


def strides(a, first, step, n):
    """Every step-th element, from a place that may be out of range."""
    total = 0.0
    for j in range(first, n, step):
        total += a[j]
        a[j] = 0.0
    return total


def backwards(a, last, step, n):
    """The same from behind, by a product."""
    total = 0.0
    for k in range(n):
        total += a[last - k * step]
        a[last - k * step] = 0.0
    return total


def rows(m, i, j, n):
    """Two axes, and a number that is the same in all trips."""
    total = 0.0
    for k in range(n):
        total += m[i + k, j] * m[i, j + k]
        m[i + k, j] += 1.0
    return total


def same(f, *args):
    """Results, exceptions, and what is left in the arguments, beside Python's."""
    g = dlvm.jit(f)
    mine, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    try:
        expected = f(*theirs)
    except (IndexError, ValueError) as error:
        with pytest.raises(type(error)) as found:
            g(*mine)
        assert str(found.value) == str(error)
    else:
        np.testing.assert_array_equal(g(*mine), expected)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(a, b)
    return g


@pytest.mark.parametrize("w", [0, 1, 3, 9, 10, 11, -1, -3, 2**62, -(2**62)])
def test_indices_that_fall(w):
    same(falls, np.arange(10), np.array([1, w]), 5)


@pytest.mark.parametrize(
    ("first", "step", "n"),
    [
        (0, 1, 10),
        (0, 3, 10),
        (4, 4, 9),
        (0, 3, 13),
        (-4, 2, 4),
        (-12, 3, 4),
        (9, -2, -1),
        (9, -2, -6),
        (3, 2**40, 2**41),
    ]
    + [(1, 2**62, 2**63 - 1), (2**62, 1, 2**62 + 2), (0, 2**31, 1), (5, 1, 5)],
)
def test_strides(first, step, n):
    same(strides, np.arange(10.0), first, step, n)


@pytest.mark.parametrize(
    ("last", "step", "n"),
    [(9, 1, 10), (9, 1, 11), (9, 1, 25), (9, 3, 4), (9, -1, 1), (0, -1, 10), (0, -1, 11), (9, 2**62, 5), (-1, 1, 9)]
    + [(9, 2**62, 3), (9, 0, 4), (-1, 1, 11), (10, 1, 2), (9, 2**63 - 1, 1), (9, 1, 0), (2**40, 2**40, 2)],
)
def test_products_of_the_counter(last, step, n):
    same(backwards, np.arange(10.0), last, step, n)


@pytest.mark.parametrize(
    "given", [(0, 0, 3), (1, 1, 3), (1, 1, 4), (0, 4, 2), (0, 5, 1), (-2, 0, 3), (0, -2, 2), (4, 0, 1)]
)
def test_rows_and_columns(given):
    same(rows, np.arange(20.0).reshape(4, 5), *given)


def test_the_fast_version_asks_nothing():
    a = np.arange(10)
    for f, args in ((falls, (a, a, 3)), (strides, (a * 1.0, 0, 2, 10))):
        text = dlvm.jit(f).ir(*args, stage="scheduled")
        fast = text.split("\n'fast_body")[1].split("\n'")[0]
        assert "check" not in fast and "store" in fast


def discounts(out, base, step, first):
    """Powers of one number, of what a loop counts."""
    for i in range(len(out)):
        out[i] = max(1.0 - base ** (step * i - first), out[i])


def twice(out, base, first):
    """The same, by a literal."""
    for i in range(len(out)):
        out[i] = 3.0 - base ** (2 * i - first)


def reciprocals(n, base):
    """A sum in order, of negative powers."""
    total = 0.0
    for i in range(1, n):
        total += 1.0 / base**i + base**-i
    return total


def same_powers(f, *args):
    """Results and exceptions beside Python's: values to rounding, what is left when it raises too."""
    g = dlvm.jit(f)
    mine, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    raised = None
    try:
        expected = f(*theirs)
    except (ZeroDivisionError, OverflowError) as error:
        raised = error
    if raised is None:
        found = g(*mine)
        if expected is not None:
            np.testing.assert_allclose(found, expected, rtol=1e-13)
    else:
        with pytest.raises(type(raised)):
            g(*mine)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    return g


_BASES = [1.05, 0.0, -0.0, -1.25, 1.0, 0.25, 1e300, 5e-324, np.inf, -np.inf, np.nan, 7.0]


@pytest.mark.parametrize("base", _BASES)
@pytest.mark.parametrize("first", [0, 9, -40, 365, 2**20])
def test_powers_of_what_a_loop_counts(base, first):
    out = np.zeros(20)
    same_powers(twice, out, base, first)
    for n in (0, 1, 2, 30, 700):
        same_powers(reciprocals, n, base)
    if first < 2**20:
        same_powers(discounts, out, base, 3, first)


@pytest.mark.parametrize("first", [2**63 - 1, 4 - 2**63, -(2**63), 2**62])
@pytest.mark.parametrize("step", [3, 2**62, -(2**63)])
def test_exponents_that_overflow(first, step):
    parts = [part for i in range(3) for part in (step * i, step * i - first)]
    if all(-(2**63) <= part < 2**63 for part in parts):
        same_powers(discounts, np.zeros(3), 1.0, step, first)
    else:
        with pytest.raises(OverflowError):
            dlvm.jit(discounts)(np.zeros(3), 1.0, step, first)


def test_powers_of_a_fast_version_ask_nothing():
    text = dlvm.jit(twice).ir(np.zeros(20), 1.05, 10, stage="scheduled")
    fast = text.split("\n'fast_body")[1].split("\n'")[0]
    assert "power" in fast and "check" not in fast


def counted(keys, n):
    """How often each number comes, in memory of a length that is a number."""
    h = np.zeros(n, np.int64)
    for k in range(len(keys)):
        h[keys[k]] += 1
    return h


@pytest.mark.parametrize("bad", [None, 4, -5, 2**40, -(2**63)])
def test_indices_of_memory_that_is_allocated(bad):
    keys = np.array([0, 3, -1, -4, 2, 2])
    if bad is not None:
        keys[4] = bad
    g = same(counted, keys, 4)
    assert "icmp ult" in g.llvm(keys, 4)


def again_and_again(starts, columns, x, times):
    """Sums of rows, as often as is asked for."""
    total = 0.0
    for _ in range(times):
        for i in range(len(starts) - 1):
            for k in range(starts[i], starts[i + 1]):
                total += x[columns[k]]
    return total


def test_rows_that_take_their_fuel_at_their_end_let_signals_in():
    starts, columns, x = np.arange(0, 40, 3), np.arange(40) % 7, np.arange(7.0)
    g = same(again_and_again, starts, columns, x, 3)
    assert " bounded" in g.ir(starts, columns, x, 3, stage="scheduled")
    with interrupted():
        g(starts, columns, x, 10**15)
