"""Rows whose last elements are a vector with a mask (`ends_in_a_mask` in backend/cpu/stores.py)."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.backend.cpu.compile import has_masks


def smoothed(a, b):
    b[1:-1, 1:-1] = 0.5 * a[1:-1, 1:-1] + 0.1 * (a[2:, 1:-1] + a[:-2, 1:-1]) + 0.2 * (a[1:-1, 2:] - a[1:-1, :-2])
    return b


def doubled(a, b):
    b[1:-1, 1:-1] = a[1:-1, 1:-1] * 2.0
    return b


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_end_in_a_mask(dtype):
    """Rows of any length, each element written once and none beside them."""
    compiled = dlvm.jit(smoothed)
    rng = np.random.default_rng(3)
    for width in (2, 3, 4, 9, 10, 11, 17, 18, 19, 35, 70):
        a = rng.random((5, width)).astype(dtype)
        b = rng.random((5, width)).astype(dtype)
        np.testing.assert_array_equal(compiled(a, b.copy()), smoothed(a, b.copy()))
        np.testing.assert_array_equal(compiled(a[:, ::-1], b.copy()), smoothed(a[:, ::-1], b.copy()))


def test_what_ends_in_a_mask():
    """Bodies of several steps, where the CPU has masks that cost nothing."""
    a = np.zeros((9, 9))
    assert ("llvm.masked.store" in dlvm.jit(smoothed).llvm(a, a.copy())) is has_masks()
    assert "llvm.masked.store" not in dlvm.jit(doubled).llvm(a, a.copy())
