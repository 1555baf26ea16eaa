"""np.frexp and np.ldexp of numbers of every size, and their derivatives."""

import numpy as np
import pytest

import dlvm_py as dlvm


def any_float(dtype, n):
    info = np.finfo(dtype)
    whole = np.dtype(f"i{info.dtype.itemsize}")
    limits, least = np.iinfo(whole), float(info.smallest_subnormal)
    edges = [0.0, 1.0, 3.0, np.inf, np.nan, info.max, least, *(float(info.tiny) * k for k in (0.5, 1, 1.5, 2, 3, 4, 8))]
    found = np.random.default_rng(0).integers(limits.min, limits.max, n, whole).view(dtype)
    near = found * dtype(info.tiny) if dtype is np.float16 else np.ldexp(np.frexp(found)[0], info.minexp + 3)
    return np.concatenate((np.array(edges, dtype), -np.array(edges, dtype), found, near.astype(dtype)))


def same(found, wanted):
    np.testing.assert_array_equal(found, wanted, strict=True)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(wanted)[known])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", (np.float64, np.float32, np.float16))
def test_parts_of_every_number(dtype):
    apart, put = dlvm.jit(lambda x: np.frexp(x)), dlvm.jit(lambda x, k: np.ldexp(x, k))
    x = any_float(dtype, 3000)
    for y in (x, x[::3], x[:2000].reshape(2, -1).T):
        for found, wanted in zip(apart(y), np.frexp(y), strict=True):
            same(found, wanted)
    rng = np.random.default_rng(1)
    for reach in (10, 150, 1100, 2200):
        k = rng.integers(-reach, reach, len(x), np.int32)
        same(put(x, k), np.ldexp(x, k))


def test_derivatives():
    x = np.array([1.5, -2.0, 1e-300, 3e300, -0.3])
    w = np.arange(1.0, 6.0)
    found = dlvm.grad(lambda x: np.sum(np.frexp(x)[0] * w))(x)
    np.testing.assert_allclose(found, np.ldexp(w, -np.frexp(x)[1]))
