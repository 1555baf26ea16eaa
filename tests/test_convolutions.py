"""np.convolve and np.correlate in strips of results, with all taps and with some at either end."""

import numpy as np
import pytest
from indexing import check, check_gradient

import dlvm_py as dlvm
from dlvm_py.frontend.library.polynomial import STRIP

rng = np.random.default_rng(5)


def test_taps_and_strips():
    """Lengths around those of strips, and more taps than elements: sums of whole numbers, which are exact."""

    def every(a, v):
        return np.convolve(a, v), np.convolve(a, v, "same"), np.correlate(a, v), np.correlate(a, v, "same")

    f = dlvm.jit(every)
    for n in (1, 3, STRIP - 1, STRIP + 8, 2 * STRIP + 5):
        for m in (1, 2, 5, STRIP + 1):
            a, v = (rng.integers(-9, 9, k) * 1.0 for k in (n, m))
            for ours, theirs in zip(f(a, v), every(a, v), strict=True):
                np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", [int, bool, complex])
def test_other_numbers(kind):
    a, v = rng.integers(0, 2, STRIP + 7).astype(kind), rng.integers(0, 2, 5).astype(kind)
    check(lambda a, v: np.convolve(a, v), a, v)


def test_signs_of_zeros_and_what_is_no_number():
    """A sum of zeros is 0.0, and infinities meet no tap that is not there."""
    a = np.array([-0.0, np.inf, -0.0, 1.0, -0.0, -0.0, -0.0, np.nan, 0.0])
    v = np.array([1.0, 2.0, 2.0])
    f = dlvm.jit(lambda a, v: np.convolve(a, v))
    zeros = np.where(np.isfinite(a), a, -0.0)
    np.testing.assert_array_equal(np.signbit(f(zeros, v)), np.signbit(np.convolve(zeros, v)))
    np.testing.assert_array_equal(f(a, v), np.convolve(a, v))


def test_derivatives():
    a, v = rng.standard_normal(STRIP + 3), rng.standard_normal(6)
    check_gradient(lambda a, v: np.sum(np.sin(np.convolve(a, v, "same"))), a, v, wrt=(0, 1), second=False)
