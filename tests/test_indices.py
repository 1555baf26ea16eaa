"""Indices that are data (backend/cpu/indices.py): from both ends, out of range on both sides, used twice."""

import numpy as np
import pytest

import dlvm_py as dlvm


def gathered(x, at):
    """A sum of elements, and how often each was taken."""
    total, counts = 0.0, np.zeros(len(x))
    for k in range(len(at)):
        total += x[at[k]]
        counts[at[k]] += 1.0
    return total, counts


def moved(x, at):
    """The index is in two tests and two arrays, and is used behind the loop's choice."""
    y = x.copy()
    for k in range(len(at)):
        i = at[k]
        if x[i] > 0.0:
            y[i] += 1.0
        else:
            y[i // 2] = x[i]
    return y


def of_rows(x, at):
    """Two indices for one element."""
    a = np.outer(x, x)
    total = 0.0
    for k in range(1, len(at)):
        a[at[k], at[k - 1]] *= 2.0
        total += a[at[k - 1], at[k]]
    return total, a


@pytest.mark.parametrize("f", [gathered, moved, of_rows], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8])
def test_indices_from_both_ends(f, dtype):
    g = dlvm.jit(f)
    rng = np.random.default_rng(3)
    for n in (1, 2, 5, 90):
        x = rng.standard_normal(n)
        at = rng.integers(0 if dtype is np.uint8 else -n, n, 40).astype(dtype)
        np.testing.assert_equal(g(x, at), f(x, at))
    assert dtype is np.uint8 or "icmp ult" in g.llvm(x, at)


@pytest.mark.parametrize("bad", [5, 6, -6, -7, 2**62, -(2**63), 2**63 - 1])
def test_what_is_out_of_range_has_its_place_and_no_effect_behind_it(bad):
    g = dlvm.jit(moved)
    x, at = np.linspace(-1.0, 1.0, 5), np.array([4, -5, 0, bad, 1])
    for f in (moved, g):
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0 with size 5"):
            f(x, at)
    for f in (gathered, dlvm.jit(gathered)):
        with pytest.raises(IndexError, match="index 0 is out of bounds for axis 0 with size 0"):
            f(np.zeros(0), np.zeros(1, dtype=int))
