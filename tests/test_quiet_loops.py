"""Loops that need not ask in their trips: values, overflows, and what is stored before one, are plain Python's."""

import math

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.backend.cpu.compile import has_masks


def right_triangles(n):
    count = 0
    for a in range(1, n):
        for b in range(a, n):
            c2 = a * a + b * b
            c = int(math.sqrt(c2))
            if c * c == c2 and c < n:
                count += 1
    return count


def products(a, b, n, first):
    s = first
    for k in range(n):
        p = (a + k) * (b - k)
        if p % 3 == 0:
            s += 1
        elif p > 7:
            s -= 2
    return s


def painted(x, colour):
    """Paints what is below 0; the colour is asked about where one is painted."""
    out = np.zeros(x.size, np.uint8)
    for k in range(x.size):
        if x[k] < 0:
            out[k] = colour
    return out


def painted_into(out, x, colour):
    for k in range(x.size):
        out[k] = 1 if x[k] > 5 else 2
        if x[k] < 0:
            out[k] = colour


def powers(m, last):
    """Inverses by powers: numbers that remainders keep small."""
    total = 0
    for b in range(1, last):
        r, base, e = 1, b, m - 2
        while e > 0:
            if e & 1:
                r = r * base % m
            base = base * base % m
            e >>= 1
        total += r
    return total


def clamped(x, by):
    out = np.zeros(x.size, np.uint8)
    for k in range(x.size):
        v = int(x[k]) * 3 - 200
        if v > 255:
            v = 255
        if v < 0:
            v = 0
        out[k] = v
    return out


def kept_apart(x, low):
    """A number of which a branch knows something, and the other one nothing."""
    out = np.zeros(x.size, np.uint8)
    for k in range(x.size):
        v = int(x[k]) * 2
        if v > 255 and k >= low:
            v = 255
        out[k] = v
    return out


def both_small(a, b):
    """What is asked of the counter behind a branch is a limit of the trips."""
    n = 0
    for k in range(a.size):
        x = 3 if a[k] > 100 else 1
        n += x * b[k]
    return n


def turned(img, c, s, dx):
    """Pixels at places that floats say, within the image."""
    h, w = img.shape
    out = np.zeros((h, w))
    for i in range(h):
        for j in range(w):
            y = int(i * c - j * s)
            x = int(i * s + j * c + dx)
            if 0 <= y < h and 0 <= x < w:
                out[i, j] = img[y, x]
    return out


def test_integers_of_floats():
    """Floats that are not large, and numbers, make integers without being asked; others raise as before."""
    compiled = dlvm.jit(turned)
    img = np.random.default_rng(3).random((9, 21))
    for c, s, dx in ((0.8, 0.6, 1.5), (-1.0, 0.0, 20.0), (1e9, 0.5, 0.0), (2.0**31, -3.0, 1.0), (1e17, 0.0, 0.0)):
        np.testing.assert_array_equal(compiled(img, c, s, dx), turned(img, c, s, dx))
    for wrong, error in ((math.nan, ValueError), (math.inf, OverflowError), (-math.inf, OverflowError)):
        with pytest.raises(error):
            compiled(img, 0.8, 0.6, wrong)
        with pytest.raises(error):
            turned(img, 0.8, 0.6, wrong)
    with pytest.raises(OverflowError):  # Python has an integer for it, 64 bits have not
        compiled(img, 1e300, 0.0, 0.0)
    np.testing.assert_array_equal(compiled(img[:0], math.nan, 0.0, 0.0), turned(img[:0], math.nan, 0.0, 0.0))
    if has_masks():
        assert "vector.body" in compiled.llvm()


def test_products_of_numbers_from_before():
    """Small, at the border of what the gate lets pass, beyond it, and where they overflow."""
    compiled = dlvm.jit(products)
    near = 2**30
    for a in (-5, 0, 7, near - 1, near, near + 1, -near, -near - 1, 2**31, 2**32):
        for b in (-3, 11, near, -near - 1, 2**20):
            assert compiled(a, b, 9, 0) == products(a, b, 9, 0)
    with pytest.raises(OverflowError):
        compiled(2**40, 2**40, 9, 0)
    with pytest.raises(OverflowError):
        compiled(2**62, 2**62, 3, 0)
    assert compiled(2**62, 2**62, 0, 5) == 5


@pytest.mark.parametrize("first", [2**62, 2**62 + 1, -(2**62) - 1, 2**63 - 4, -(2**63)])
def test_sums_near_the_end(first):
    """A sum that the gate does not let pass goes on asking."""
    compiled = dlvm.jit(products)
    expected = products(0, 0, 4, first)
    if -(2**63) <= expected < 2**63:
        assert compiled(0, 0, 4, first) == expected
    else:
        with pytest.raises(OverflowError):
            compiled(0, 0, 4, first)


def long_sums(x, first):
    """A counter that goes far: what it adds is no small sum."""
    s = first
    for k in range(2**62, 2**62 + 5):
        if x[k - 2**62] > 0:
            s += 2**28
            s += k
    return s


def test_counters_that_go_far():
    """Ask as before."""
    compiled = dlvm.jit(long_sums)
    one = np.array([0, 0, 0, 1, 0])
    assert compiled(one, 5) == long_sums(one, 5)
    with pytest.raises(OverflowError):
        compiled(one + 1, 5)


def test_sums_overflow():
    """In the trip in which they do."""
    compiled = dlvm.jit(products)
    with pytest.raises(OverflowError):
        compiled(0, 0, 2, 2**63 - 1)


def test_triangles_are_vectors():
    """A sum of squares, its root, and a count."""
    compiled = dlvm.jit(right_triangles)
    for n in (-3, 0, 1, 2, 14, 100):
        assert compiled(n) == right_triangles(n)
    assert "vector.body" in compiled.llvm()


def test_a_check_behind_a_branch():
    """It raises where it is come by, and nowhere else."""
    compiled = dlvm.jit(painted)
    x = np.array([1.0, -2.0, 3.0] * 20)
    for colour in (0, 7, 255):
        np.testing.assert_array_equal(compiled(x, colour), painted(x, colour))
    np.testing.assert_array_equal(compiled(np.abs(x), 256), painted(np.abs(x), 256))
    for colour in (256, -1):
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            compiled(x, colour)
    assert "vector.body" in compiled.llvm()


def test_versions_that_threads_share():
    """Both versions, of as many numbers as two threads share."""
    compiled = dlvm.jit(painted)
    x = np.random.default_rng(9).standard_normal(3_000_000)
    found = compiled(x, 200)
    np.testing.assert_array_equal(found, np.where(x < 0, 200, 0).astype(np.uint8))
    with pytest.raises(OverflowError):
        compiled(x, 300)
    assert compiled(np.abs(x), 300).sum() == 0


def test_what_is_stored_before_it_raises():
    """Is stored."""
    compiled = dlvm.jit(painted_into)
    x = np.array([1.0, 9.0, 4.0, -2.0, 3.0, 8.0])
    mine, theirs = np.zeros(6, np.uint8), np.zeros(6, np.uint8)
    with pytest.raises(OverflowError):
        compiled(mine, x, 256)
    with pytest.raises(OverflowError):
        painted_into(theirs, x, 256)
    np.testing.assert_array_equal(mine, theirs)
    short = np.zeros(2, np.uint8)
    with pytest.raises(IndexError):
        compiled(short, x, 3)
    np.testing.assert_array_equal(short, [2, 1])


def test_remainders_stay_small():
    """Powers by squaring, for small and for large moduli, and for one of which the square overflows."""
    compiled = dlvm.jit(powers)
    for m in (2, 3, 101, 10007, 2**30, 2**30 + 3, 2**31 - 1, -7):
        assert compiled(m, 20) == powers(m, 20)
    large = 2**62 - 57
    with pytest.raises(OverflowError):
        compiled(large, 20)
    assert compiled(0, 20) == powers(0, 20)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int32])
def test_numbers_that_branches_cut_off(dtype):
    """As Python stores them, of dtypes that fit and that do not."""
    r = np.random.default_rng(1)
    info = np.iinfo(dtype)
    x = r.integers(info.min, info.max, 200, dtype)
    np.testing.assert_array_equal(dlvm.jit(clamped)(x, 1), clamped(x, 1))


def test_a_branch_that_knows_half():
    """What one way cut off, the other one did not."""
    compiled = dlvm.jit(kept_apart)
    x = np.arange(120, 130).astype(np.uint8)
    np.testing.assert_array_equal(compiled(x, 0), kept_apart(x, 0))
    with pytest.raises(OverflowError):
        compiled(x, 10)


def test_indices_behind_a_branch():
    """Are in range as long as the arrays are, and raise in the same trip."""
    compiled = dlvm.jit(both_small)
    r = np.random.default_rng(2)
    a, b = r.integers(0, 200, 100).astype(np.uint8), r.integers(-9, 9, 100)
    assert compiled(a, b) == both_small(a, b)
    with pytest.raises(IndexError, match="99"):
        compiled(a, b[:99])
    assert compiled(a[:0], b[:0]) == 0
