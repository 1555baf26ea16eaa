"""What trips do not wait for is computed ahead: values, bits, exceptions and stores are those of the loop."""

import math

import numpy as np
import pytest

import dlvm_py as dlvm


def total(x):
    t = 0.0
    for i in range(x.size):
        t += np.log(x[i])
    return t


def from_the_third(x):
    t = 1.0
    for i in range(3, x.size - 2):
        t += np.exp(-x[i]) * np.sin(x[i + 2])
    return t


def two_sums(x):
    a = b = x.dtype.type(0)
    for v in x:
        a += np.cos(v)
        b += np.sin(v)
    return a, b


def largest(x):
    best, at = -np.inf, -1
    for i in range(x.size):
        v = np.sin(7.0 * x[i])
        if v > best:
            best, at = v, i
    return best, at


def driven(x):
    h = 0.3
    for i in range(x.size):
        h = 0.5 * h + np.exp(-x[x.size - 1 - i]) / (1.0 + h)
    return h


def running(x, out):
    t = 0.0
    for i in range(x.size):
        t += np.tanh(x[i])
        out[i] = t
    return t


def counted(x):
    t, n = 0.0, 0
    for i in range(x.size):
        v = np.exp(x[i])
        if v > 2.0:
            t += v
        else:
            n += i
    return t, n


def in_place(x):
    t = 0.0
    for i in range(1, x.size):
        x[i] = np.log1p(x[i - 1]) + t
        t += x[i]
    return t


def rows(x):
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        t = 0.0
        for j in range(x.shape[1]):
            t += np.exp(x[i, j]) * np.cos(x[i, j])
        out[i] = t
    return out


def pairs(x):
    e = 0.0
    for i in range(x.size):
        for j in range(i):
            d = x[i] - x[j] + 0.001
            e += 1.0 / np.sqrt(d * d)
    return e


def numbers(x):
    t = 0.0
    for i in range(x.size):
        t = 0.25 * t + math.atan(i * 0.01) * x[0]
    return t


MADE_AHEAD = (total, from_the_third, two_sums, largest, driven, running, counted, rows, pairs, numbers)
SIZES = (1, 7, 8, 9, 31, 255, 256, 257, 1000)


def arguments(f, n, dtype=np.float64):
    x = np.random.default_rng(n).uniform(0.1, 2.0, n).astype(dtype)
    if f is rows:
        return (np.tile(x, (5, 1)),)
    return (x, np.zeros(n)) if f is running else (x,)


@pytest.mark.parametrize("f", [*MADE_AHEAD, in_place])
def test_as_python(f):
    compiled = dlvm.jit(f)
    for n in SIZES:
        ours, theirs = arguments(f, n), arguments(f, n)
        np.testing.assert_allclose(compiled(*ours), f(*theirs), rtol=1e-12)
        np.testing.assert_allclose(ours[-1], theirs[-1], rtol=1e-13)
    assert ("'ahead" in compiled.ir(stage="compute")) is (f in MADE_AHEAD)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_and_bits(dtype):
    """Additions are in the order of the loop, of the numbers that vectors of any length give."""
    cosines, sines = dlvm.jit(lambda x: np.cos(x)), dlvm.jit(lambda x: np.sin(x))
    for n in SIZES:
        (x,) = arguments(two_sums, n, dtype)
        found = dlvm.jit(two_sums)(x)
        for each, values in zip(found, (cosines(x), sines(x)), strict=True):
            wanted = dtype(0)
            for v in values:
                wanted += v
            assert each == wanted and type(each) is dtype


def test_views_and_overlap():
    x = np.random.default_rng(1).uniform(0.1, 2.0, 900)
    for view in (x[::-1], x[::3], x[5:-7]):
        np.testing.assert_allclose(dlvm.jit(total)(view), total(view), rtol=1e-13)
    ours, theirs = x.copy(), x.copy()
    dlvm.jit(running)(ours[:-1], ours[1:])
    running(theirs[:-1], theirs[1:])
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_what_raises_does_so_in_its_trip():
    """The trips before have stored what they store."""

    def powers(x, out):
        t = 0.0
        for i in range(x.size):
            t += math.exp(x[i])
            out[i] = t
        return t

    compiled, x = dlvm.jit(powers), np.linspace(0.0, 1.0, 300)
    np.testing.assert_allclose(compiled(x, np.zeros(300)), powers(x, np.zeros(300)), rtol=1e-13)
    assert "'ahead" in compiled.ir(stage="compute")
    x[280] = 1000.0
    ours, theirs = np.zeros(300), np.zeros(300)
    for f, out in ((compiled, ours), (powers, theirs)):
        with pytest.raises(OverflowError):
            f(x, out)
    np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    assert ours[279] > 0.0 and ours[280] == 0.0


@pytest.mark.parametrize("f", [total, from_the_third, driven])
def test_gradients(f):
    (x,) = arguments(f, 300)
    found = dlvm.grad(f)(x)
    for k in (0, 5, 150, 299):
        h = 1e-6
        high, low = x.copy(), x.copy()
        high[k] += h
        low[k] -= h
        np.testing.assert_allclose(found[k], (f(high) - f(low)) / (2 * h), rtol=1e-5, atol=1e-7)


def test_one_thread_or_two(monkeypatch):
    """Threads that share rows have buffers of their own."""
    x = np.random.default_rng(3).uniform(0.1, 2.0, (400, 300))
    found = dlvm.jit(rows)(x)
    np.testing.assert_array_equal(found, dlvm.jit(rows, parallel=False)(x))
    np.testing.assert_allclose(found, (np.exp(x) * np.cos(x)).sum(1), rtol=1e-12)
