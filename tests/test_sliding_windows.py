"""Updates in place of arrays that are read at near rows: a window of rows slides over them."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.transforms.sliding_windows import DISTANCE


def heat(u, w):
    for _ in range(3):
        u[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])


def forced(u, w):
    u[2:-2] = u[4:] - 0.5 * u[1:-3] * w[2:-2] + np.where(u[:-4] > w[:-4], u[:-4], 0.125)


def farthest(u, w):
    u[4:] += u[:-4] * 0.5  # DISTANCE
    u[:-4] -= u[4:]


def beyond(u, w):
    u[5:] += u[:-5] * 0.5


def in_two(u, w):
    for _ in range(2):
        u[1:-1] = 0.5 * (u[2:] + u[:-2])
        w[:-1] = w[1:] - u[1:] * w[:-1]


# strips of many rows, of few, and too few rows; then one axis, and planes
SHAPES = [(4100, 140), (203, 2600), (129, 4099), (63, 9000), (600_011,), (300, 41, 47)]


def same(function, compiled, *args):
    ours, theirs = ([a.copy(order="K") for a in args] for _ in range(2))
    compiled(*ours)
    function(*theirs)
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("function", [heat, forced, farthest, beyond, in_two])
def test_windows_give_what_numpy_gives(function):
    compiled = dlvm.jit(function)
    rng = np.random.default_rng(2)
    for shape in SHAPES:
        if function is not heat or len(shape) > 1:
            u, w = rng.standard_normal(shape), rng.standard_normal(shape)
            same(function, compiled, u, w)
            slides = "'borders" in str(compiled.ir(u, w, stage="scheduled"))
            assert slides == (function is not beyond)
    assert DISTANCE == 4  # what `farthest` and `beyond` are about


def test_what_is_stretched_and_what_lies_otherwise():
    compiled = dlvm.jit(forced)
    rng = np.random.default_rng(3)
    u, w = rng.standard_normal((400, 900)), rng.standard_normal((5, 900))
    same(forced, compiled, u, w)  # w[2:-2] is one row, w[:-4] too
    w = rng.standard_normal(u.shape)
    same(forced, compiled, np.asfortranarray(u), w)
    same(forced, compiled, np.repeat(u, 2, axis=0)[::2], w)
    same(forced, compiled, u[::-1], w)


def test_arguments_that_overlap():
    compiled = dlvm.jit(in_two)
    for one, other in (slice(0, -3), slice(3, None)), (slice(2, -1), slice(0, -3)), (slice(None), slice(None)):
        ours, theirs = (np.random.default_rng(4).standard_normal((503, 900)) for _ in range(2))
        compiled(ours[one], ours[other])
        in_two(theirs[one], theirs[other])
        np.testing.assert_array_equal(ours, theirs)


def test_gradients_of_windows():
    def last(u, steps):
        for _ in range(steps):
            u[1:-1] = u[1:-1] + 0.2 * (u[2:] - 2.0 * u[1:-1] + u[:-2]) * u[1:-1]
        return np.sum(u * u)

    rng = np.random.default_rng(5)
    u, v = rng.standard_normal((2, 700, 600)) * 0.1
    found = np.sum(dlvm.grad(last)(u.copy(), 2) * v)
    up, down = (last(u + h * v, 2) for h in (1e-6, -1e-6))
    np.testing.assert_allclose(found, (up - down) / 2e-6, rtol=1e-6)
