"""Sums over arrays too small for an overflow do not ask for it (bounded_sums.py); all others raise as before."""

import numpy as np
import pytest

import dlvm_py as dlvm


def distances(a, b):
    """Sums of differences, of their squares, and a count, in a nest."""
    total, squares, n = 0, 3, -1
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            d = int(a[i, j]) - int(b[i, j])
            total -= abs(d)
            squares += d * d
            if d > 9:
                n += 2
    return total, squares, n


def longest_run(a):
    """A count that begins anew."""
    best, run = 0, 0
    for x in a:
        if x:
            run += 1
            best = max(best, run)
        else:
            run = 0
    return best


def test_nests():
    """Of bytes and others, of rows and columns."""
    rng = np.random.default_rng(0)
    f = dlvm.jit(distances)
    for dtype in (np.uint8, np.int16):
        info = np.iinfo(dtype)
        a, b = (rng.integers(info.min, info.max, (13, 70), dtype=dtype, endpoint=True) for _ in range(2))
        assert f(a, b) == distances(a, b)
        assert f(a.T, b.T) == distances(a.T, b.T)
        assert f(a[:0], b) == (0, 3, -1)
    assert "checked" not in str(f.ir(a.view(np.uint8), b.view(np.uint8), stage="scheduled"))


def test_runs():
    """Of bools, and none."""
    a = np.random.default_rng(1).random(200) < 0.8
    assert dlvm.jit(longest_run)(a) == longest_run(a)
    assert dlvm.jit(longest_run)(a[:0]) == 0


def test_overflow():
    """Where a sum begins high, or numbers are large, or trips many, it may overflow, and says so."""

    def from_there(a, s):
        for x in a:
            s += int(x)
        return s

    f, a = dlvm.jit(from_there), np.array([1, 2, 3], np.uint8)
    assert f(a, 2**63 - 7) == 2**63 - 1
    with pytest.raises(OverflowError):
        f(a, 2**63 - 6)

    def cubes(a):
        s = 0
        for x in a:
            s += int(x) * int(x) * int(x) * int(x)
        return s

    g, large = dlvm.jit(cubes), np.array([50000, 40000, 50000], np.uint16)
    assert g(large[:1]) == cubes(large[:1])
    with pytest.raises(OverflowError):
        g(large)

    def doubled(n):
        s = 1
        for _ in range(n):
            s += s
        return s

    assert dlvm.jit(doubled)(62) == 2**62
    with pytest.raises(OverflowError):
        dlvm.jit(doubled)(63)
