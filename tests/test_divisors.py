"""np.gcd and np.lcm beside NumPy: dtypes, zeros, the least numbers, broadcasting, strides, nothing at all."""

import numpy as np
import pytest

import dlvm_py as dlvm

RNG = np.random.default_rng(8)


@dlvm.jit
def divisors(a, b):
    return np.gcd(a, b), np.lcm(a, 6)


def check(*args):
    """Whether the results are NumPy's, to the dtype and shape."""
    with np.errstate(over="ignore"):
        wanted = divisors.__wrapped__(*args)
    for ours, theirs in zip(divisors(*args), wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64])
def test_divisors_of_any_integers(dtype):
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    for n in (0, 1, 50):
        a, b = (RNG.integers(least, most, n, dtype) for _ in range(2))
        check(a, b)
        check(a % 7, b % 60)
    edges = np.array([0, 1, least, most, 6], dtype)
    check(np.repeat(edges, 5), np.tile(edges, 5))


def test_divisors_of_rows_and_of_elements_apart():
    a, b = RNG.integers(-60, 60, (7, 5)), RNG.integers(-60, 60, 5)
    check(a, b)
    check(a[:, :1], b)
    check(a.T, RNG.integers(0, 9, (5, 7)))
    check(a[::2, ::-1], b[::-1])
    check(a, 12)
