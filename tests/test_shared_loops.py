"""Loops of Python whose trips threads share: values, bits, exceptions and memory as with one thread, and in NumPy."""

import numpy as np
import pytest
from signals import interrupted

import dlvm_py as dlvm

RNG = np.random.default_rng(0)
ROWS = 40_000  # of loops with little in a trip: enough work for threads


pytestmark = pytest.mark.usefixtures("eager_threads")


def spmv(vals, cols, starts, x):
    y = np.zeros(starts.shape[0] - 1)
    for i in range(y.shape[0]):
        y[i] = vals[starts[i] : starts[i + 1]] @ x[cols[starts[i] : starts[i + 1]]]
    return y


def escape(n, m, most):
    out = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            a = b = 0.0
            k = 0
            while k < most and a * a + b * b < 4:
                a, b = a * a - b * b + 3 * j / m - 2, 2 * a * b + 2 * i / n - 1
                k += 1
            out[i, j] = k + a
    return out


def normalised_rows(a):
    out = np.empty_like(a)
    for i in range(a.shape[0]):
        t = np.exp(a[i])
        small = np.empty(3)
        for j in range(1, a.shape[1]):
            t[j] += 0.5 * t[j - 1]
            small[j % 3] = t[j]
        out[i] = t / np.sum(t) + small[0]
    return out


def columns_backwards(a):
    for j in range(a.shape[1] - 1, -1, -1):
        a[:, j] -= np.mean(a[:, j])


def triangle(c, a, alpha):
    for i in range(a.shape[0]):
        c[i, : i + 1] *= 0.5
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]


def cells(a):
    out = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        t = np.empty(2)
        t[0] = a[i, 0]
        for j in range(1, a.shape[1]):
            t[0] += 0.5 * t[0] * a[i, j]
            out[i] += t[0] * a[i, j]
        t[1] = t[0] * 2.0
        out[i] -= t[1]
    return out


def scratch_of_scalars(a):
    out = np.empty_like(a)
    for i in range(a.shape[0]):
        t = np.empty(2)
        t[0] = np.sin(a[i])
        t[0] = t[0] * a[i] + 1.0
        t[1] = t[0] * t[0]
        out[i] = t[1] - t[0]
    return out


def masked_means(r, x, bins):
    out = np.zeros(bins)
    for i in range(bins):
        inside = np.logical_and(i / bins <= r, r < (i + 1) / bins)
        out[i] = x[inside].mean()
    return out


def time_steps(u, v, steps):
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        u, v = v, u
    return u


def complex_paths(z, n):
    out = np.zeros(z.shape[0], dtype=np.complex128)
    for i in range(z.shape[0]):
        w = 0j
        for _ in range(n):
            w = w * w * 0.5 + z[i]
        out[i] = w
    return out


STARTS = np.arange(0, 5 * ROWS + 1, 5)
SPARSE = (RNG.random(5 * ROWS), RNG.integers(0, 500, 5 * ROWS), STARTS, RNG.random(500))
SQUARE = RNG.random((150, 150))

PROGRAMS = (
    (spmv, SPARSE),
    (escape, (60, 80, 100)),
    (normalised_rows, (RNG.random((300, 100)),)),
    (columns_backwards, (RNG.random((300, 200)),)),
    (triangle, (SQUARE, RNG.random((150, 60)), 1.5)),
    (cells, (RNG.random((3000, 20)),)),
    (scratch_of_scalars, (RNG.random(ROWS),)),
    pytest.param(masked_means, (RNG.random(20_000), RNG.random(20_000), 30), marks=pytest.mark.slow),
    pytest.param(time_steps, (RNG.random((120, 120)), RNG.random((120, 120)), 5), marks=pytest.mark.slow),
    pytest.param(complex_paths, (RNG.random(300) * (0.3 + 0.2j), 100), marks=pytest.mark.slow),
)


def copies(args):
    return [x.copy() if isinstance(x, np.ndarray) else x for x in args]


@pytest.mark.parametrize(("f", "args"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_the_same_bits_for_any_number_of_threads_and_numpys_values(f, args):
    compiled = dlvm.jit(f)
    assert compiled.report(*args).shared
    mine = copies(args)
    expected = f(*mine)
    found = []
    for count in (1, 3):
        dlvm.set_num_threads(count)
        theirs = copies(args)
        found.append([compiled(*theirs), *theirs])
        for x, y in zip((expected, *mine), found[-1], strict=True):
            assert x is y or np.allclose(x, y, rtol=1e-12, atol=1e-14)
    for x, y in zip(*found, strict=True):
        assert x is y or np.array_equal(x, y)


def test_without_threads_there_is_no_trace_of_them():
    args = PROGRAMS[0][1]
    assert "dlvm.share_trips" in dlvm.jit(spmv).llvm(*args)
    assert "dlvm.share_trips" not in dlvm.jit(spmv, parallel=False).llvm(*args)
    assert dlvm.jit(spmv, parallel=False).report(*args).shared == ()


def test_the_first_trip_that_raises_counts():
    vals, cols, starts, x = copies(SPARSE)
    compiled = dlvm.jit(spmv)
    dlvm.set_num_threads(4)
    for places in ([5 * ROWS - 3], [170_000, 120_000, 60_007], [60_007, 3]):
        wrong = cols.copy()
        wrong[places] = 600 + np.arange(len(places))
        with pytest.raises(IndexError) as python:
            spmv(vals, wrong, starts, x)
        with pytest.raises(IndexError) as ours:
            compiled(vals, wrong, starts, x)
        assert str(ours.value).splitlines()[0] == str(python.value)
    assert np.array_equal(compiled(vals, cols, starts, x), compiled(*SPARSE))


def halves(a, b, n):
    for i in range(n):
        a[2 * i] = np.sin(b[i]) * b[i] + a[2 * i + 1]


def test_what_is_seen_after_an_exception_is_what_numpy_leaves():
    compiled = dlvm.jit(halves)
    dlvm.set_num_threads(4)
    b = RNG.random(ROWS)
    for length, n in ((2 * ROWS, ROWS), (2 * ROWS - 100, ROWS), (2 * ROWS, ROWS + 5)):
        mine = np.ones(length)
        theirs = mine.copy()
        try:
            halves(mine, b, n)
        except IndexError as error:
            with pytest.raises(IndexError) as ours:
                compiled(theirs, b, n)
            assert str(ours.value).splitlines()[0] == str(error)
        else:
            compiled(theirs, b, n)
        assert np.allclose(mine, theirs, rtol=1e-15)


def long_rows(n, steps):
    out = np.zeros(n)
    for i in range(n):
        x = 0.5
        for _ in range(steps):
            x = 3.7 * x * (1 - x)
        out[i] = x
    return out


def test_a_signal_handler_that_raises_ends_the_loop():
    class Stop(Exception):
        pass

    compiled = dlvm.jit(long_rows)
    dlvm.set_num_threads(2)
    compiled(200, 10_000)
    with interrupted(0.2, Stop):
        compiled(4_000, 1_000_000)  # many seconds
    assert np.array_equal(compiled(200, 10_000), compiled(200, 10_000))


def test_gradients_share_the_loops_of_both_sweeps():
    def energy(a, w):
        out = np.empty_like(a)
        for i in range(a.shape[0]):
            t = np.exp(np.sin(a[i]) * w[i])
            out[i] = t / np.sum(t)
        return np.sum(out * out)

    a, w = RNG.random((300, 60)), RNG.random(300)
    gradient = dlvm.grad(energy, wrt=("a", "w"))
    notes = gradient.report(a, w)
    assert (len(notes.shared), notes.alone) == (1, ())  # the loop of both sweeps
    found = []
    for count in (1, 3):
        dlvm.set_num_threads(count)
        found.append(gradient(a, w))
    assert all(np.array_equal(x, y) for x, y in zip(*found, strict=True))
    h = 1e-6
    for i, j in ((0, 0), (99, 30), (299, 59)):
        up, down = a.copy(), a.copy()
        up[i, j] += h
        down[i, j] -= h
        assert np.isclose(found[0][0][i, j], (energy(up, w) - energy(down, w)) / (2 * h), rtol=1e-5, atol=1e-7)


def few_long_rows(a):
    out = np.empty_like(a)
    for i in range(a.shape[0]):
        out[i] = np.exp(a[i]) + i
    return out


def test_where_trips_are_few_their_kernels_are_shared():
    a = RNG.random((3, 60_000))
    compiled = dlvm.jit(few_long_rows)
    found = []
    for count in (1, 2, 1):
        dlvm.set_num_threads(count)
        found.append(compiled(a))
    assert all(np.array_equal(found[0], x) for x in found)
    assert np.allclose(found[0], few_long_rows(a), rtol=1e-14)
