"""Loops over rows of a few elements: values, errors and side effects are those of plain Python at all lengths."""

import numpy as np
import pytest

import dlvm_py as dlvm


def _grey(img, out):
    for i in range(img.shape[0]):
        for j in range(img.shape[1]):
            out[i, j] = 0.299 * img[i, j, 0] + 0.587 * img[i, j, 1] + 0.114 * img[i, j, 2]
    return out


def _extremes(p):
    low = high = p[0, 0] * p[0, 1]
    for i in range(1, len(p)):
        v = p[i, 0] * p[i, 1]
        if v < low:
            low = v
        if v > high:
            high = v
    return low, high, len(p)


def _outcome(f, *args):
    try:
        return f(*args), None
    except IndexError as error:
        return None, str(error)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (2, 7), (3, 8), (5, 33), (2, 130)])
def test_images(dtype, columns, shape):
    """Rows as long as expected, longer and shorter, where an error is raised before anything is stored."""
    rng = np.random.default_rng(0)
    img = rng.integers(0, 256, (*shape, columns)).astype(dtype)
    compiled = dlvm.jit(_grey)
    for image in (img, img[:, ::-1], np.ascontiguousarray(img.transpose(1, 0, 2)).transpose(1, 0, 2)):
        mine, theirs = np.zeros(shape), np.zeros(shape)
        got, want = _outcome(compiled, image, mine), _outcome(_grey, image, theirs)
        assert got[1] == want[1]
        np.testing.assert_array_equal(mine, theirs)


def test_results_may_overlap_the_image():
    """What is written is read again."""
    mine, theirs = np.arange(60.0), np.arange(60.0)
    _grey(theirs.reshape(4, 5, 3), theirs[7:27].reshape(4, 5))
    dlvm.jit(_grey)(mine.reshape(4, 5, 3), mine[7:27].reshape(4, 5))
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("columns", [2, 3])
def test_numbers_that_trips_hand_on(columns):
    """What is carried comes out of both versions."""
    p = np.random.default_rng(2).random((37, columns))
    assert dlvm.jit(_extremes)(p) == _extremes(p)


def _lengths(p):
    s = 0.0
    for i in range(len(p)):
        s += np.sqrt(p[i, 0] * p[i, 0] + p[i, 1] * p[i, 1] + p[i, 2])
    return s


@pytest.mark.parametrize("columns", [3, 4])
def test_gradients(columns):
    """Reverse mode beside central differences."""
    p = np.random.default_rng(3).random((5, columns)) + 0.5
    found = dlvm.grad(_lengths)(p)
    expected = np.zeros_like(p)
    for at in np.ndindex(*p.shape):
        e = np.zeros_like(p)
        e[at] = 1e-6
        expected[at] = (_lengths(p + e) - _lengths(p - e)) / 2e-6
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def _nearest(x, centres):
    label = np.zeros(x.shape[0], np.int64)
    last = np.zeros(x.shape[1])
    for i in range(x.shape[0]):
        best = np.inf
        for c in range(centres.shape[0]):
            d = 0.0
            for j in range(x.shape[1]):
                d += (x[i, j] - centres[c, j]) ** 2
            if d < best:
                best = d
                label[i] = c
                last = x[i] - centres[c]
    return label, last


@pytest.mark.parametrize("columns", [0, 1, 2, 3, 4, 7])
def test_points(columns):
    """Of the plane, of space, and others; of centres that have a column more or less, too."""
    rng = np.random.default_rng(5)
    x, centres = rng.random((40, columns)), rng.random((5, columns))
    compiled = dlvm.jit(_nearest)
    for points in (x, np.asfortranarray(x), x[::2], x[:0]):
        for found, expected in zip(compiled(points, centres), _nearest(points, centres), strict=True):
            np.testing.assert_array_equal(found, expected)
    for other in (columns - 1, columns + 1):
        if other > 0:
            few = rng.random((5, other))
            got, want = _outcome(compiled, x, few) if other < columns else (None, None), None
            if other < columns:
                want = _outcome(_nearest, x, few)
                assert got[1] is not None and got[1] == want[1]


def _above(x, y, t):
    """Sums down columns."""
    total = count = 0
    for j in range(x.shape[1]):
        for i in range(x.shape[0]):
            if x[i, j] < t:
                count += 1
                total += y[i]
    return total, count


def test_columns():
    """Elements that lie apart, as many as vectors have and more."""
    rng = np.random.default_rng(6)
    compiled = dlvm.jit(_above)
    for rows in (0, 1, 7, 8, 16, 17, 100):
        x, y = rng.random((rows, 5)), rng.integers(0, 9, rows)
        assert compiled(x, y, 0.5) == _above(x, y, 0.5)
        assert compiled(np.asfortranarray(x), y, 0.5) == _above(x, y, 0.5)
