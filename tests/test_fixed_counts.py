"""Loops of a few trips around which another one runs: what is asked once before it, and what is then done."""

import numpy as np
import pytest

import dlvm_py as dlvm


def boxes(p, out):
    """The least of each coordinate so far, and sums that are written on the way."""
    low = np.full(3, np.inf)
    for i in range(p.shape[0]):
        for k in range(3):
            if p[i, k] < low[k]:
                low[k] = p[i, k]
            out[i, 0] += p[i, k + 1] * p[i, 3 - k]
    return low


def outcome(f, p):
    out = np.zeros((p.shape[0], 1))
    try:
        found = f(p, out)
    except IndexError as error:
        found = str(error)
    return found, out


@pytest.mark.parametrize("columns", [0, 2, 3, 4, 5])
@pytest.mark.parametrize("rows", [0, 1, 6])
def test_as_python(rows, columns):
    """The same numbers; where a column is missing, the same error, and what was written before it."""
    p = np.random.default_rng(0).random((rows, columns))
    (got, written), (want, expected) = outcome(dlvm.jit(boxes), p), outcome(boxes, p)
    assert got == want if isinstance(want, str) else got.tobytes() == want.tobytes()
    assert written.tobytes() == expected.tobytes()


def test_the_version():
    """The loop that is run asks for nothing in a trip, and its gradient is right."""
    f = dlvm.jit(boxes)
    p = np.random.default_rng(1).random((4, 4))
    f(p, np.zeros((4, 1)))
    fast = f.ir(stage="compute").split("'fast_", 1)[1].split("'loop(", 1)[0]
    assert "check" not in fast and "IndexError" not in fast
    assert dlvm.check(boxes, p, np.zeros((4, 1))).ok


def count_bits(x):
    total = 0
    for i in range(x.shape[0]):
        v = x[i]
        while v != 0:
            v &= v - 1
            total += 1
    return total


def lowest_bits(x):
    total = 0
    for i in range(x.shape[0]):
        v = x[i]
        while v:
            v -= v & -v
            total += 1
    return total


def digits(x):
    total = 0
    for i in range(x.shape[0]):
        v = x[i]
        while v > 0:
            total += v % 10
            v //= 10
    return total


@pytest.mark.parametrize("f", [count_bits, lowest_bits, digits])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.uint8, np.int16])
def test_loops_that_shrink_a_number(f, dtype):
    """The end of a dtype's range, and numbers below 0."""
    info = np.iinfo(dtype)
    x = np.array([0, 1, 6, info.max, info.max - 1, info.min, info.min // 3], dtype)
    with np.errstate(over="ignore"):
        want = f(x)
    assert dlvm.jit(f)(x) == want
