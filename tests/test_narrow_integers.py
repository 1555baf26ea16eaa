"""Integers of Python's that are made of pixels are computed with few bits (narrow_integers.py): the same numbers."""

import numpy as np
import pytest

import dlvm_py as dlvm


def sobel(img, out):
    """The size of the gradient, as bytes."""
    for i in range(1, img.shape[0] - 1):
        for j in range(1, img.shape[1] - 1):
            gx = int(img[i - 1, j + 1]) + 2 * int(img[i, j + 1]) + int(img[i + 1, j + 1])
            gx -= int(img[i - 1, j - 1]) + 2 * int(img[i, j - 1]) + int(img[i + 1, j - 1])
            gy = int(img[i + 1, j - 1]) + 2 * int(img[i + 1, j]) + int(img[i + 1, j + 1])
            gy -= int(img[i - 1, j - 1]) + 2 * int(img[i - 1, j]) + int(img[i - 1, j + 1])
            m = abs(gx) + abs(gy)
            if m > 255:
                m = 255
            out[i, j] = m & 127
    return out


def products(img, out):
    """Products, quotients and remainders of numbers of either sign, shifts and masks."""
    total = 0
    for i in range(img.shape[0]):
        for j in range(img.shape[1] - 1):
            a = int(img[i, j])
            b = int(img[i, j + 1])
            d = a - b
            total += (a * b) // 7 + d // 3 + d % 5 + (d >> 2) + (d ^ a) + (d | b) + (d & 0xFFF) - max(a, -b) + min(d, 3)
            out[i, j] = (d**2 + (b & 3)) % 100 + ((d << 3) | 5) - ((a << 1) ^ (b >> 1))
    return total, out


def choices(img, out):
    """Numbers that depend on the way, and are compared with large ones and with each other."""
    n = 0
    for i in range(img.shape[0]):
        for j in range(1, img.shape[1]):
            d = int(img[i, j]) - int(img[i, j - 1])
            if d < 0:
                d = -d + 3
            elif d > 40000:
                d = 40001
            else:
                d = d + 1
            if d > 3000000000:
                n += 7
            if d >= int(img[i, j]):
                n += d
            out[i, j] = 1 if d == 4 else 0
    return n, out


def table(img, counts):
    """Numbers that are indices."""
    for i in range(img.shape[0]):
        for j in range(1, img.shape[1]):
            counts[abs(int(img[i, j]) - int(img[i, j - 1])) // 256 + 1, 0] += 1
    return counts


def floats(img, out):
    """Numbers that become floats, of a loop that ends on one."""
    total = 0.0
    for i in range(img.shape[0]):
        j = 0
        while j < img.shape[1] - 1 and int(img[i, j]) * 3 - int(img[i, j + 1]) != 17:
            total += (int(img[i, j]) * 3 - int(img[i, j + 1]) + 5) * 0.5
            j += 1
    return total, out


def pixels(dtype, shape=(9, 70)):
    """All kinds of numbers, the ends of the dtype among them."""
    if dtype is np.bool_:
        return np.random.default_rng(0).random(shape) < 0.5
    info = np.iinfo(dtype)
    a = np.random.default_rng(0).integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    a[2, ::3], a[2, 1::3], a[3, ::2], a[4] = info.max, info.min, info.min, info.max
    return a


@pytest.mark.parametrize("fn", [sobel, products, choices, table, floats])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.bool_])
def test_as_python(fn, dtype):
    """Of all small dtypes, and their ends."""
    if fn is table and dtype is np.int16:
        pytest.skip("the same as uint16")
    img = pixels(dtype)
    out = np.zeros((300, 70), np.int64)
    ours, theirs = out.copy(), out.copy()
    got, want = dlvm.jit(fn)(img, ours), fn(img, theirs)
    got, want = (r[0] if isinstance(r, tuple) else 0 for r in (got, want))
    assert got == want
    np.testing.assert_array_equal(ours, theirs)


def test_what_does_not_fit():
    """A number that no byte has is named in the message."""

    def differences(img, out):
        for j in range(1, len(img)):
            out[j] = 2 * int(img[j]) - 2 * int(img[j - 1])
        return out

    f = dlvm.jit(differences)
    img, out = np.array([3, 5, 200, 100], np.uint8), np.zeros(4, np.uint8)
    with pytest.raises(OverflowError, match="Python integer 390 out of bounds for uint8"):
        f(img, out)
    assert out[1] == 4
    img[2] = 5
    img[3] = 1
    with pytest.raises(OverflowError, match="Python integer -8 out of bounds for uint8"):
        f(img, out)


def test_sums_are_not_narrow():
    """What is added up over all trips is an integer of Python's as before."""

    def total(img):
        s = 0
        for j in range(1, len(img)):
            s += (int(img[j]) - int(img[j - 1])) * (int(img[j]) + 1)
        return s

    img = np.tile(np.array([0, 65535], np.uint16), 4000)
    assert dlvm.jit(total)(img) == total(img)
