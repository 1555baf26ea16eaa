"""Kernels that read arrays across the way they write, which go by tiles."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.transforms.tile_loops import SIDE


def beside(a, b):
    return a + b.T


def both_ways(a, b):
    return np.exp(-a) * b.T, b.T - a


def within(a, b):
    out = np.zeros_like(a)
    out[1:, :-1] = b[:-1, 1:].T * 2 + a[1:, 1:]
    return out


# one element, none at all, whole tiles and parts of them, an axis of one
SHAPES = [(1, 1), (0, 5), (1, 50), (50, 1), (SIDE, SIDE), (2 * SIDE + 8, SIDE + 16), (3 * SIDE - 5, 2 * SIDE + 1)]


@pytest.mark.parametrize("function", [beside, both_ways, within])
def test_tiles_are_elements(function):
    compiled, rng = dlvm.jit(function), np.random.default_rng(0)
    # many elements: rows of many lines, columns whose lines clash, and what is not worth tiles
    for shape in [*SHAPES, (90, 3100), (512, 601), (601, 500)]:
        a, b = rng.random(shape), rng.random(shape[::-1])
        for x in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2]):
            found, expected = (np.asarray(f(x, b)) for f in (compiled, function))
            np.testing.assert_allclose(found, expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "complex64", "complex128", "bool"])
def test_elements_of_all_sizes(dtype):
    a, b = (10 * np.random.default_rng(1).random((2, 70, 70))).astype(dtype)[:, :, :41]
    for x, y in ((a, b.T), (a.copy(), b.T.copy())):
        found, expected = dlvm.jit(beside)(x, y), beside(x, y)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_axes_around_the_tile():
    def channels_last(x, w):
        return x.transpose(0, 2, 3, 1) * w

    def turned(x):
        return x.transpose(2, 1, 0) + 1.0

    x, w = np.random.default_rng(2).random((3, 5, 40, 37)), np.arange(5.0)
    np.testing.assert_array_equal(dlvm.jit(channels_last)(x, w), channels_last(x, w))
    np.testing.assert_array_equal(dlvm.jit(turned)(x[0]), turned(x[0]))


def test_threads_take_whole_tiles():
    a = np.random.default_rng(3).random((1003, 777))
    b = np.asfortranarray(a[::-1]).T
    before = dlvm.get_num_threads()
    try:
        for threads in (1, 2):
            dlvm.set_num_threads(threads)
            np.testing.assert_array_equal(dlvm.jit(beside)(a, b), a + b.T)
    finally:
        dlvm.set_num_threads(before)


def test_gradients_of_tiles():
    def loss(a, b):
        return np.sum(np.sin(a) * b.T * (a + b.T))

    a, b = np.random.default_rng(4).random((2, 50, 50))
    assert dlvm.check(loss, a, b).ok


def test_only_what_lies_across():
    def along(a, b):
        return a + b

    def row(a, b):
        return a + b[:, 0]

    def tiles(function, *args):
        return str(dlvm.jit(function).ir(*args, stage="scheduled")).count(f"tile {SIDE} along")

    a = np.ones((40, 40))
    assert [tiles(f, a, a.copy()) for f in (beside, along, row)] == [1, 0, 0]
