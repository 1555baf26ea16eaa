"""Rows of recurrences that run side by side (transforms/skew_loops.py): the same bits, effects and exceptions."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.backend.cpu.emit import emit
from dlvm_py.backend.imports import Imports
from dlvm_py.dispatch import dispatcher_of
from dlvm_py.driver import lower_to
from dlvm_py.options import Options


def relaxed(a, b, w):
    """A row reads the row above one column ahead: two columns behind it."""
    for _ in range(2):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                x = a[i - 1, j + 1] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]
                a[i, j] = (1.0 - w) * a[i, j] + w * 0.25 * x


def filtered(a, b, w):
    """Rows apart, with a value carried and elements of their own around the columns."""
    for i in range(a.shape[0]):
        s = a[i, 0]
        b[i, 0] = s
        for j in range(1, a.shape[1]):
            s = w * s + a[i, j]
            b[i, j] = s
        a[i, 1] = s


def table(a, b, w):
    """Dynamic programming with a decision in each column, upwards from the last row."""
    for i in range(a.shape[0] - 2, -1, -1):
        for j in range(1, a.shape[1]):
            cost = 0.0 if a[i, j] > w else 1.0
            b[i, j] = min(b[i + 1, j] + 1.0, b[i, j - 1] + 1.0, b[i + 1, j - 1] + cost)


def first_row(a, b, w):
    """All rows read the same element of another row where they read their own: nothing is handed on."""
    for i in range(2, a.shape[0]):
        for j in range(1, a.shape[1]):
            b[i, j] = w * b[0, j - 1] + b[i, j - 1] * a[i, j]


def expression_first(a, b, w):
    """What does not depend on the row's own columns first, as a whole; less columns than that has where b is narrow."""
    for i in range(1, a.shape[0] - 1):
        a[i, 1:-1] += a[i - 1, :-2] + a[i - 1, 2:] + a[i, 2:] + a[i + 1, 1:-1] * w
        for j in range(1, b.shape[1] - 1):
            a[i, j] = (a[i, j] + a[i, j - 1]) / 9.0


def expression_of_columns(a, b, w):
    """The expression reads what the columns of its row write, before they do."""
    for i in range(1, a.shape[0] - 1):
        a[i, 1:-1] = a[i, :-2] * w + a[i - 1, 1:-1]
        for j in range(1, a.shape[1] - 1):
            a[i, j] = (a[i, j] + a[i, j - 1]) / 9.0


def parts(a, b, w):
    """What is written is the other half of the number that is read."""
    real, imaginary = a.real, a.imag
    for i in range(a.shape[0]):
        for j in range(1, a.shape[1]):
            real[i, j] = imaginary[i, j - 1] * w + real[i, j]


def part_of_whole(a, b, w):
    """A half is read of what was written."""
    real = a.real
    for i in range(a.shape[0]):
        for j in range(1, a.shape[1]):
            a[i, j] = real[i, j - 1] * w + a[i, j]


def last_column(a, b, w):
    """A row begins with what the row above ends with."""
    for i in range(1, a.shape[0]):
        for j in range(1, a.shape[1]):
            a[i, j] = a[i, j - 1] * w + a[i - 1, a.shape[1] - 1]


def backwards(a, b, w):
    """The row above from its end on."""
    n = a.shape[1]
    for i in range(1, a.shape[0]):
        for j in range(1, n):
            a[i, j] = a[i, j - 1] * w + a[i - 1, n - j]


def turned(a, b, w):
    """What a row writes is a column that others read."""
    n = min(a.shape)
    for i in range(1, n):
        for j in range(1, n):
            a[i, j] = a[i, j - 1] * w + a[j, i]


SKEWED = (relaxed, filtered, table, first_row, expression_first)
APART = (expression_of_columns, last_column, backwards, turned)


@pytest.mark.parametrize("f", [*SKEWED, *APART], ids=lambda f: f.__name__)
def test_the_same_bits(f):
    g = dlvm.jit(f)
    rng = np.random.default_rng(3)
    for n, m in ((11, 14), (4, 9), (16, 4), (9, 3), (3, 3)):
        args = rng.standard_normal((n, m)), rng.standard_normal((n, m - (f is expression_first and n == 9)))
        if n > 4:
            args[0][n // 2, m // 2] = np.nan
        ours, theirs = ([a.copy() for a in args] for _ in range(2))
        g(*ours, 0.3)
        f(*theirs, 0.3)
        for x, y in zip(ours, theirs, strict=True):
            assert x.tobytes() == y.tobytes()
    assert ("'together" in g.ir(stage="scheduled")) == (f in SKEWED)


@pytest.mark.parametrize("f", [parts, part_of_whole], ids=lambda f: f.__name__)
def test_halves_of_complex_numbers(f):
    rng = np.random.default_rng(5)
    ours = rng.standard_normal((6, 7)) + 1j * rng.standard_normal((6, 7))
    theirs = ours.copy()
    dlvm.jit(f)(ours, ours.real, 0.5)
    f(theirs, theirs.real, 0.5)
    np.testing.assert_array_equal(ours, theirs)


def test_arguments_that_share_memory():
    g = dlvm.jit(table)
    ours, theirs = np.ones((9, 9)), np.ones((9, 9))
    g(ours, ours, 0.3)
    table(theirs, theirs, 0.3)
    np.testing.assert_array_equal(ours, theirs)


def test_rows_before_an_exception_are_done_and_no_others():
    def outside(a, b, w):
        for i in range(a.shape[0]):
            for j in range(1, b.shape[1]):
                a[i, j] = a[i, j - 1] * w + b[i, j]

    g = dlvm.jit(outside)
    for rows, columns in ((9, 7), (6, 7), (9, 5)):
        ours, theirs, b = np.ones((9, 7)), np.ones((9, 7)), np.ones((rows, 7))
        texts = []
        for f, a in ((g, ours), (outside, theirs)):
            try:
                f(a[:, :columns], b, 0.5)
            except IndexError as e:
                texts.append(str(e))
        assert texts == texts[:1] * (0 if (rows, columns) == (9, 7) else 2)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_gradients_of_sweeps():
    def energy(a, w):
        u = np.zeros_like(a)
        for i in range(1, a.shape[0]):
            for j in range(1, a.shape[1]):
                u[i, j] = 0.4 * u[i, j - 1] + w * u[i - 1, j] + a[i, j] * a[i, j]
        return np.sum(u * u)

    a = np.random.default_rng(0).standard_normal((9, 8))
    dlvm.check(energy, a, 0.3)


def test_neighbours_that_were_just_stored_are_read_one_by_one():
    """SLP is off where rows read what others have just written: two stores do not feed one load of both."""
    for f, slp in ((table, False), (filtered, True)):
        request = dispatcher_of(dlvm.jit(f)).asked((np.ones((9, 9)), np.ones((9, 9)), 0.3), {}, "ir")
        function = lower_to(request, "scheduled").function
        assert emit(function, Imports(), Options()).slp is slp
