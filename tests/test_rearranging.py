"""Arrays out of arrays, whose elements are moved and not computed: values, types and gradients are those of NumPy."""

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")


def layers(a, b):
    return np.dstack((a, b)), np.stack((a, b, a), axis=-1), np.stack((a, b[::-1]), axis=-1)


def columns(a, b):
    return np.stack((a[0], b[0]), axis=1), np.column_stack((a[:, 0], b[:, 0], a[:, 0]))


def computed(a, b):
    t = np.stack((a, b + a, a), axis=-1)
    return t.sum(axis=-1), t[..., 1], np.dstack((a, b, a, b, a, b, a, b, a)), np.dstack((np.dstack((a, b)), b))


def repeated(a, b):
    out = np.empty((*a.shape, 2), a.dtype)
    for k in range(3):
        out[:, :, 0] = a
        out[:, :, 1] = b
        out[0, 0, 1] = k
    return out


@pytest.mark.parametrize("fn", [layers, columns, computed, repeated], ids=lambda f: f.__name__)
def test_short_rows_of_several_arrays(fn):
    rng = np.random.default_rng(0)
    compiled = dlvm.jit(fn)
    for dtype in (float, np.float32, complex, np.int8):
        for shape in [(1, 1), (2, 3), (5, 7), (8, 9), (16, 33), (3, 0)]:
            if shape[1] == 0 and fn in (columns, repeated):
                continue
            a, b = ((9 * rng.random(shape)).astype(dtype) for _ in range(2))
            for x, y in ((a, b), (np.asfortranarray(a), b), (a[::-1], np.repeat(b, 2, axis=0)[::2])):
                got, expected = compiled(x, y), fn(x, y)
                for found, wanted in zip(got, expected, strict=True):
                    np.testing.assert_array_equal(found, wanted)
                    assert found.dtype == wanted.dtype


def test_parts_that_do_not_fill():
    """Some rows, and some places of a row, are of no array: what was there before is."""

    def fn(a, out):
        out[1:, :, 1:3] = a[1:, :, None]
        out[:-1, :, 3] = a[1:]
        return out

    for shape in ((1, 4), (4, 1), (6, 5), (9, 17)):
        a, out = np.random.default_rng(1).random(shape), np.zeros((*shape, 5))
        np.testing.assert_array_equal(dlvm.jit(fn)(a, out.copy()), fn(a, out.copy()))


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (7, 9)])
def test_gradients_of_short_rows(shape):
    rng = np.random.default_rng(2)
    a, b, s = rng.random(shape), rng.random(shape), rng.random((*shape, 3))

    def weighted(a, b):
        return np.sum(np.stack((a, b, a * b), axis=-1) * s)

    da, db = dlvm.grad(weighted, wrt=(0, 1))(a, b)
    np.testing.assert_allclose(da, s[..., 0] + b * s[..., 2], rtol=1e-14)
    np.testing.assert_allclose(db, s[..., 1] + a * s[..., 2], rtol=1e-14)
    assert np.isclose(dlvm.jvp(weighted, (a, b), (b, a))[1], np.sum(da * b + db * a), rtol=1e-13)


@pytest.mark.parametrize("dtype", [float, np.int16])
def test_frames(dtype):
    def fn(a, k):
        return (
            np.pad(a, 0), np.pad(a, 2), np.pad(a, ((1, k), (0, 1)), constant_values=3),
            np.pad(a, ((k, 0), (2, k)), constant_values=((1, 2), (3, 4))),
        )  # fmt: skip

    compiled = dlvm.jit(fn)
    for shape in ((1, 1), (0, 3), (4, 0), (5, 7), (33, 65)):
        a = (9 * np.random.default_rng(3).random(shape)).astype(dtype)
        for x in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2]):
            for k in (0, 3):
                for found, expected in zip(compiled(x, k), fn(x, k), strict=True):
                    np.testing.assert_array_equal(found, expected)
                    assert found.dtype == expected.dtype
    with pytest.raises(ValueError, match="negative"):
        compiled(a, -1)


def rolls(a, k, m):
    return (
        np.roll(a, k, axis=0), np.roll(a, (k, m), axis=(0, 1)), np.roll(a, (k, m, 2), axis=(1, -1, 0)), np.roll(a, k),
        np.roll(a, 2, axis=(0, 1)), np.fft.fftshift(a), np.fft.ifftshift(a, axes=1), np.roll(a, (k, m)),
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (0, 3), (4, 0), (7, 9), (3, 4, 5), (17, 1, 8)])
def test_rolls(shape):
    a = np.random.default_rng(5).random(shape)
    compiled = dlvm.jit(rolls)
    for x in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2], a[::-1]):
        for k, m in ((0, 0), (1, -1), (-13, 5), (40, 2)):
            for found, expected in zip(compiled(x, k, m), rolls(x, k, m), strict=True):
                np.testing.assert_array_equal(found, expected)
    if a.size:
        w = np.random.default_rng(6).random(shape)
        gradient = dlvm.grad(lambda a, w: np.sum(np.roll(a, (2, -3), axis=(0, 1)) * w))(a, w)
        np.testing.assert_array_equal(gradient, np.roll(w, (-2, 3), axis=(0, 1)))


def test_large_arrays():
    """Where threads share the work: the same elements."""

    def fn(a, b):
        return np.dstack((a, b)), np.pad(a, 3), a.T + b.T, np.roll(a, (3, 5), axis=(0, 1))

    a, b = (np.random.default_rng(4).random((700, 900)) for _ in range(2))
    for found, expected in zip(dlvm.jit(fn)(a, b), fn(a, b), strict=True):
        np.testing.assert_array_equal(found, expected)
