"""Ways of a branch that store to one place: values, side effects and gradients are those of plain Python."""

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")


def _common(a, b):
    n = len(a)
    m = len(b)
    t = np.zeros((n + 1, m + 1), dtype=np.int64)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if a[i - 1] == b[j - 1]:
                t[i, j] = t[i - 1, j - 1] + 1
            else:
                t[i, j] = max(t[i - 1, j], t[i, j - 1])
    return t


def _common_with_ways(a, b):
    n = len(a)
    m = len(b)
    t = np.zeros((n + 1, m + 1), dtype=np.int32)
    for i in range(n):
        for j in range(m):
            if a[i] == b[j]:
                t[i + 1, j + 1] = t[i, j] + 1
            elif t[i, j + 1] >= t[i + 1, j]:
                t[i + 1, j + 1] = t[i, j + 1]
            else:
                t[i + 1, j + 1] = t[i + 1, j]
    return t


def _distance(a, b):
    n = len(a)
    m = len(b)
    d = np.zeros((n + 1, m + 1), dtype=np.int64)
    for i in range(n + 1):
        d[i, 0] = i
    for j in range(m + 1):
        d[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if a[i - 1] == b[j - 1]:
                d[i, j] = d[i - 1, j - 1]
            else:
                d[i, j] = 1 + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d


def _cheapest_path(g):
    h, w = g.shape
    d = np.zeros((h, w), dtype=np.int64)
    for i in range(h):
        for j in range(w):
            if i == 0 and j == 0:
                d[i, j] = g[0, 0]
            elif i == 0:
                d[i, j] = d[i, j - 1] + g[i, j]
            elif j == 0:
                d[i, j] = d[i - 1, j] + g[i, j]
            else:
                d[i, j] = min(d[i - 1, j], d[i, j - 1]) + g[i, j]
    return d


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 33])
@pytest.mark.parametrize("m", [0, 1, 4, 9])
def test_tables(n, m):
    """Tables of dynamic programming, with few and with many rows."""
    rng = np.random.default_rng(n * 100 + m)
    a, b = rng.integers(0, 3, n), rng.integers(0, 3, m)
    for f in (_common, _common_with_ways, _distance):
        np.testing.assert_array_equal(dlvm.jit(f)(a, b), f(a, b))
    g = rng.integers(0, 9, (n, m))
    np.testing.assert_array_equal(dlvm.jit(_cheapest_path)(g), _cheapest_path(g))


def test_one_store_is_left():
    """The value is an argument of the block behind the branch."""
    text = dlvm.jit(_common).ir(np.arange(3), np.arange(4))
    assert text.count("store ") == 2  # the zeros, and the table


def _clipped(x, low):
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] < low:
            y[i] = low * x[i]
        else:
            y[i] = x[i] * x[i] - y[i - 1]
    return y


def _total(x, low):
    return np.sum(_clipped(x, low) ** 2)


@pytest.mark.parametrize("n", [1, 2, 5, 17])
def test_gradients(n):
    """Reverse mode beside central differences."""
    x = np.random.default_rng(n).random(n)
    np.testing.assert_array_equal(dlvm.jit(_clipped)(x, 0.4), _clipped(x, 0.4))
    found = dlvm.grad(_total)(x, 0.4)
    expected = [(_total(x + e, 0.4) - _total(x - e, 0.4)) / 2e-6 for e in np.eye(n) * 1e-6]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def _in_place(x, y, k):
    for i in range(len(k)):
        if k[i] > 2:
            x[k[i]] = y[i]
        else:
            x[k[i]] = x[i] + 1.0


@pytest.mark.parametrize("last", [4, 5, -6])
def test_what_was_stored_before_an_error_is_stored(last):
    """Overlapping arguments, and an index that is out of bounds in the last trip."""
    k = np.array([0, 3, 1, 4, 2, last])
    memory, ours = np.arange(8.0), np.arange(8.0)
    try:
        _in_place(memory[:5], memory[2:], k)
    except IndexError as error:
        with pytest.raises(IndexError, match=str(error)):
            dlvm.jit(_in_place)(ours[:5], ours[2:], k)
    else:
        dlvm.jit(_in_place)(ours[:5], ours[2:], k)
    np.testing.assert_array_equal(ours, memory)
