"""Remainders and quotients rounded down, with NumPy's bits: floats of every size, integers by constants and numbers."""

import numpy as np
import pytest

import dlvm_py as dlvm

RNG = np.random.default_rng(0)


@dlvm.jit
def of_floats(x, y):
    return np.fmod(x, y), np.remainder(x, y), np.floor_divide(x, y)


def same(found, wanted):
    """Equal bits, but of NaN."""
    assert found.dtype == wanted.dtype
    nan = np.isnan(found) & np.isnan(wanted) if found.dtype.kind == "f" else np.zeros(found.shape, bool)
    np.testing.assert_array_equal(found[~nan].view(f"u{found.itemsize}"), wanted[~nan].view(f"u{found.itemsize}"))


def special(dtype):
    info = np.finfo(dtype)
    least, top = float(info.smallest_subnormal), 2.0 ** (info.nmant + 1)
    numbers = [0, 1, 3, 0.1, np.inf, np.nan, info.tiny, 1.5 * float(info.tiny), least, 7 * least, info.max]
    found = np.array([*numbers, top, 2 * top - 1, 1 - info.epsneg, 1 + info.eps, 2 - info.eps], dtype)
    return np.concatenate((found, -found))


def any_float(dtype, n):
    whole = np.dtype(f"i{np.dtype(dtype).itemsize}")
    limits = np.iinfo(whole)
    return RNG.integers(limits.min, limits.max, n, whole).view(dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", (np.float64, np.float32, np.float16))
def test_remainders_have_numpys_bits(dtype):
    edges, n = special(dtype), 5003
    near = RNG.normal(size=n).astype(dtype)
    multiples = (RNG.integers(1, 1000, n) * near).astype(dtype)
    pairs = [
        [v.ravel().copy() for v in np.meshgrid(edges, edges)],
        (any_float(dtype, n), any_float(dtype, n)),
        (near, RNG.normal(size=n).astype(dtype)),
        (multiples, near),
        (np.nextafter(multiples, dtype(np.inf)), near),
        (np.nextafter(multiples, dtype(-np.inf)), -near),
        (any_float(dtype, n), near),
    ]
    for x, y in pairs:
        expected = np.fmod(x, y), np.remainder(x, y), np.floor_divide(x, y)
        for found, wanted in zip(of_floats(x, y), expected, strict=True):
            same(found, wanted)


def test_a_remainder_of_a_number():
    @dlvm.jit
    def f(x, y):
        return x % y, x // y

    for x in (0.0, -0.0, 1e300, -7.5, 5e-324, 0.3, float("inf")):
        for y in (1e-300, 0.1, -2.5, float("inf"), 5e-324):
            assert repr(f(x, y)) == repr((x % y, x // y)) or x in (float("inf"),)


DIVISORS = (3, 7, 8, 100, 641, 65535, 10**9 + 7, 10**18 + 9, 2**63 - 1)


@pytest.mark.parametrize("dtype", (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64))
def test_integers_by_constants(dtype):
    limits = np.iinfo(dtype)
    for d in [d for d in DIVISORS if d <= limits.max] + ([-1, -3] if limits.min < 0 else []):
        f = dlvm.jit(_by(d))
        ends = [n for k in (-3, -2, -1, 0, 1, 2, 3) for n in (limits.min + k, limits.max + k, k, d + k, 2 * d + k)]
        multiples = [m // d * d for m in (limits.max, limits.min, limits.max // 3)]
        last = [n for m in multiples for n in (m - 1, m, m + 1)]
        x = np.array([n for n in ends + last if limits.min <= n <= limits.max], dtype)
        x = np.concatenate((x, RNG.integers(limits.min, limits.max, 300, dtype)))
        with np.errstate(over="ignore"):
            for found, wanted in zip(f(x), _by(d)(x), strict=True):
                same(found, wanted)


@pytest.mark.parametrize("dtype", (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64))
def test_integers_by_a_number(dtype):
    """Any divisor that is computed: its reciprocal, and quotients next to the places where they change."""
    limits = np.iinfo(dtype)
    f = dlvm.jit(lambda x, d: (x // d, x % d))
    top, least = limits.max, limits.min
    divisors = [0, 1, 2, 3, 7, 8, 100, -1, -2, -3, -8, -100, top, top - 1, top // 2 + 1, top // 3, least, least + 1]
    divisors += [1 << 31, (1 << 31) + 1, (1 << 32) - 1, (1 << 32) + 1, (1 << 62) + 1]
    divisors += [n >> s for s in (0, 17, 40) for n in RNG.integers(least, top, 8, dtype).tolist()]
    for d in (d for d in divisors if least <= d <= top):
        ends = [n for k in (-2, -1, 0, 1, 2) for n in (least + k, top + k, k, d + k, -2 * d + k)]
        ends += [m // d * d + k for m in (top, least, top // 3) for k in (-1, 0, 1) if d]
        x = np.array([n for n in ends if least <= n <= top], dtype)
        x = np.concatenate((x, RNG.integers(least, top, 100, dtype)))
        with np.errstate(all="ignore"):
            for found, wanted in zip(f(x, dtype(d)), (x // dtype(d), x % dtype(d)), strict=True):
                same(found, wanted)


def _by(d):
    def f(x):
        return x // d, x % d

    return f


def test_numbers_in_loops_by_constants():
    @dlvm.jit
    def digits(n):
        found = []
        while n:
            found.append(n % 10)
            n //= 10
        return found

    @dlvm.jit
    def each(a):
        found = np.zeros_like(a)
        for k in range(len(a)):
            found[k] = a[k] // 7 + a[k] % -3
        return found

    assert digits(8876543210123456789) == [int(c) for c in "8876543210123456789"[::-1]]
    a = np.arange(-1000, 1000) * 12345678901234
    same(each(a), a // 7 + a % -3)
