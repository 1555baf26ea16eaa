"""np.packbits and np.unpackbits beside NumPy: axes, lengths that are no multiple of eight, strides, orders of bits."""

import numpy as np
import pytest

import dlvm_py as dlvm

RNG = np.random.default_rng(3)
FLAGS = {
    "bool": lambda *shape: RNG.random(shape) < 0.5,
    "int64": lambda *shape: RNG.integers(-1, 2, shape) * 256,
}


@dlvm.jit
def packed(a):
    return np.packbits(a), np.packbits(a, bitorder="little")


@dlvm.jit
def packed_axes(a):
    return np.packbits(a, axis=0), np.packbits(a, axis=1, bitorder="little")


@dlvm.jit
def unpacked(a):
    return np.unpackbits(a), np.unpackbits(a, bitorder="little")


@dlvm.jit
def unpacked_axes(a, n):
    return np.unpackbits(a, axis=1), np.unpackbits(a, axis=0, count=n, bitorder="little")


def same(function, *args):
    """Whether the results are NumPy's, to the dtype and shape."""
    for ours, theirs in zip(function(*args), function.__wrapped__(*args), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.parametrize("kind", FLAGS)
def test_flags_become_bits(kind):
    for n in (0, 1, 7, 8, 9, 16, 63, 64, 65, 127, 1000, 1003):
        same(packed, FLAGS[kind](n))


def test_flags_along_an_axis_and_apart():
    some = FLAGS["bool"]
    same(packed, some(600)[::-3])
    for shape in ((3, 5), (0, 9), (9, 0), (16, 8), (33, 17), (1, 260), (260, 1)):
        same(packed_axes, some(*shape))
    same(packed_axes, some(40, 30).T)


def test_bytes_become_flags():
    def some(*shape):
        return RNG.integers(0, 256, shape).astype(np.uint8)

    for n in (0, 1, 2, 3, 31, 32, 33, 1001):
        same(unpacked, some(n))
    for shape in ((3, 5), (1, 1), (33, 17)):
        for n in (0, 1, 8, 9, 41, 300):
            same(unpacked_axes, some(*shape), n)
    same(unpacked_axes, some(7, 6).T, -3)
    with pytest.raises(ValueError, match="-count larger than number of elements"):
        unpacked_axes(some(1, 1), -9)
