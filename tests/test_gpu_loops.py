"""target="gpu": loops whose trips are independent are one launch, with NumPy's numbers, effects and exceptions."""

import ctypes

import numpy as np
import pytest
from gpu_programs import mandelbrot, priced

import dlvm_py as dlvm
from dlvm_py.runtime.gpu.device import device, live


@pytest.fixture
def launches(monkeypatch):
    """The blocks of each launch of what is loaded meanwhile."""
    monkeypatch.setenv("DLVM_GPU", "emulator")
    on, name, found = device(), "cuda:cuLaunchKernel", []
    pointer, number = ctypes.c_void_p, ctypes.c_uint
    kind = ctypes.CFUNCTYPE(ctypes.c_int, pointer, *[number] * 7, pointer, pointer, pointer)
    launch = kind(on.imports[name])

    def noted(kernel, blocks, *rest):
        found.append(blocks)
        return launch(kernel, blocks, *rest)

    counted = kind(noted)
    monkeypatch.setitem(on.imports, name, ctypes.cast(counted, pointer).value)
    yield found
    del counted


def _of(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def bodies(p, m, a):
    n = p.shape[0]
    for i in range(n):
        ax = 0.0
        for j in range(n):
            d = p[j, 0] - p[i, 0]
            ax += m[j] * d / (d * d + 0.01) ** 1.5
        a[i, 0] = ax


def smoothed(x, w):
    for i in range(x.shape[0]):
        s = 0.0
        for j in range(1, x.shape[1]):
            s = s * w + x[i, j]
            x[i, j] = s + x[i, j - 1]


def upper(x):
    n = x.shape[0]
    for i in range(n):
        for j in range(i + 1, n):
            x[i, j] = x[i, j] * 2.0 + j


def picked(x, k, y):
    for i in range(k.shape[0]):
        y[i] = x[k[i]] * 2.0


def doubled(x, y, n):
    for i in range(n):
        y[i] = x[i] * 2.0


def ways(x, y, t):
    for i in range(1, x.shape[0] - 1):
        if x[i] > 0.0:
            s = 0.0
            for j in range(i):
                if j > t:
                    break
                s += x[j]
            y[i] = s
        elif i % 2 == 0:
            y[i] = x[i + 1] - x[i - 1]


def backwards(x, y):
    for i in range(x.shape[0] - 1, -1, -1):
        y[i] = x[i] * 3.0 + i


def normed(x, out):
    for i in range(x.shape[0]):
        e = np.exp(x[i] - x[i].max())
        out[i] = e / e.sum()


def pulled(p, m, a):
    for i in range(p.shape[0]):
        d = p - p[i]
        a[i] = np.dot(m / (np.sum(d * d, axis=1) + 0.01) ** 1.5, d)


def by_turns(x):
    for i in range(x.shape[0]):
        x[i] -= x[i].mean()
        for t in range(1, x.shape[1]):
            x[i, t] += 0.5 * x[i, t - 1]
        if x[i, 0] > 0.0:
            x[i] *= np.dot(x[i], x[i])


def mirrored(x, out):
    t = np.empty(x.shape[2])
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            t[:] = x[i, j] * 2.0
            out[i, j] = t[::-1] + t.min()


def remembered(x, out):
    t = np.empty(x.shape[1])
    t[0] = 1.0
    for i in range(x.shape[0]):
        t[1:] = x[i, :-1] + t[0]
        out[i] = t


def tracked(x, out):
    for i in range(x.shape[0] - 1, -1, -1):
        out[i] = np.where(np.isnan(x[i]), 0.0, x[i]).sum() + x[i].max()


def paths(start, z, strike, drift, volatility, out):
    """Monte Carlo: what a call option is worth at the end of each path, by given normal numbers."""
    for i in range(z.shape[0]):
        s = start[i]
        for t in range(z.shape[1]):
            s *= np.exp(drift - 0.5 * volatility**2 + volatility * z[i, t])
        out[i] = max(s - strike, 0.0)


def worth(start, z):
    out = np.zeros(z.shape[0])
    paths(start, z, 1.0, 0.01, 0.2, out)
    return np.sum(out)


def many(a, b, out):
    out[:] = a @ b


# name: (function, () -> arguments, the blocks of each launch)
CASES = {
    "bodies": (bodies, lambda: (_of(7, 2), np.abs(_of(7)), np.zeros((7, 2))), [1]),
    "mandelbrot": (mandelbrot, lambda: (_of(20, 30, 2), np.zeros((20, 30), int), 9), [3]),
    "smoothed": (smoothed, lambda: (_of(5, 6), 0.5), [1]),
    "upper": (upper, lambda: (_of(6, 6),), [1, 1, 1]),
    "picked": (picked, lambda: (_of(9), np.array([3, -2, 8, 0]), np.zeros(4)), [1, 1, 1]),
    "doubled": (doubled, lambda: (_of(600), np.zeros(600), 600), [3]),
    "doubled_none": (doubled, lambda: (_of(6), np.zeros(6), 0), []),
    "doubled_less": (doubled, lambda: (_of(6), np.zeros(6), -3), []),
    "ways": (ways, lambda: (_of(9), np.zeros(9), 3), [1]),
    "paths": (paths, lambda: (np.ones(300), _of(300, 8), 1.0, 0.01, 0.2, np.zeros(300)), [2]),
    "backwards": (backwards, lambda: (_of(9), np.zeros(9)), [1]),
    # a block a trip
    "normed": (normed, lambda: (_of(3, 300), np.zeros((3, 300))), [3]),
    "normed_f32": (normed, lambda: (_of(5, 7).astype("f4"), np.zeros((5, 7), "f4")), [5]),
    "normed_none": (normed, lambda: (_of(0, 7), np.zeros((0, 7))), []),
    "normed_long": (normed, lambda: (_of(2, 20000), np.zeros((2, 20000))), [20, 1, 40, 20, 1, 40] * 2),
    "pulled": (pulled, lambda: (_of(5, 3), np.abs(_of(5)), np.zeros((5, 3))), [5]),
    "by_turns": (by_turns, lambda: (_of(4, 6),), [4]),
    "mirrored": (mirrored, lambda: (_of(2, 3, 5), np.zeros((2, 3, 5))), [6]),
    "remembered": (remembered, lambda: (_of(2, 5), np.zeros((2, 5))), [1] * 5),
    "tracked": (tracked, lambda: (np.where(_of(3, 4) > 1.0, np.nan, 1.0), np.zeros((3, 4))), [3]),
    # products of many matrices: two tiles each
    "many": (many, lambda: (_of(3, 5, 4), _of(3, 4, 20), np.zeros((3, 5, 20))), [6]),
    # exceptions, with the effects of the trips before them: by the host, a launch a store
    "doubled_raises": (doubled, lambda: (_of(6), np.zeros(3), 6), [1, 1, 1]),
    "picked_raises": (picked, lambda: (_of(9), np.array([3, 1, 9, 0]), np.zeros(4)), [1, 1, 1, 1]),
    "normed_raises": (normed, lambda: (_of(3, 5), np.zeros((2, 5))), None),
    "upper_raises": (upper, lambda: (_of(4, 3),), [1, 1, 1, 1]),
}


# siblings of others
LONGER = {"normed_none", "normed_f32", "normed_raises", "doubled_less"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONGER else n for n in CASES])
def test_a_nest_is_one_launch(name, launches):
    function, make, expected = CASES[name]
    given, plain, before = make(), make(), live()
    # a new callable a test: the launches of its own are counted
    compiled = dlvm.jit(function, target="gpu")
    raised = []
    for f, args in ((compiled, given), (function, plain)):
        try:
            f(*args)
        except IndexError as error:
            raised.append(str(error))
    assert raised[:1] == raised[1:]
    assert expected in (launches, None) and live() == before
    for a, b in zip(given, plain, strict=True):
        np.testing.assert_allclose(a, b, 1e-5 if np.asarray(b).dtype == np.float32 else 1e-13)


def inside(x, y, hits):
    for i in range(x.shape[0]):
        if x[i] * x[i] + y[i] * y[i] < 1.0:
            hits += 1
        elif x[i] < 0.0:
            hits -= 2
    return hits


def pairs(p, e):
    for i in range(p.shape[0]):
        for j in range(i):
            d = p[i] - p[j]
            e += 1.0 / np.sqrt(d * d + 0.1)
    return e


def both(a, b, out):
    total, less = np.float32(1.0), 0
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = a[i] * b[j]
            total -= a[i] + b[j]
            if a[i] < b[j]:
                less += 1
    return total, less


def squares(x, w):
    loss = size = 0.0
    for i in range(x.shape[0]):
        r = np.dot(x[i], w) - 1.0
        loss += r * r
        size += np.sum(np.abs(x[i]))
    return loss, size


def kept(x, n):
    total = best = 0.0
    for i in range(n):
        total += x[i]
        best = max(best, total)
    return total, best


# name: (function, () -> arguments, the blocks of each launch, what the gradient is with respect to)
SUMS = {
    "priced": (priced, lambda: (_of(600, 3), 1.1, 0.3), [3, 1], (0, 1, 2)),
    "inside": (inside, lambda: (_of(700), _of(700, seed=1), 5), [3, 1], ()),
    "inside_no_float": (inside, lambda: (np.arange(700), np.zeros(700, int), 5), [3, 1], ()),
    "pairs": (pairs, lambda: (_of(9), 2.0), [1, 1], (0, 1)),
    "both": (both, lambda: (_of(20).astype("f4"), _of(30).astype("f4"), np.zeros((20, 30), "f4")), [3, 1, 1], ()),
    "squares": (squares, lambda: (_of(5, 7), _of(7)), [5, 1, 1], ()),
    # a sum that is looked at, and ints that may leave 64 bits: in order, by the host
    "kept": (kept, lambda: (_of(3), 3), [], ()),
    "inside_large": (inside, lambda: (_of(3), _of(3, seed=1), 2**62), [], ()),
}


# siblings of others
MORE = {"inside_no_float", "pairs", "kept"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in MORE else n for n in SUMS])
def test_sums_of_trips_are_a_launch_and_a_reduction(name, launches):
    function, make, expected, wrt = SUMS[name]
    given, plain, before = make(), make(), live()
    got, wanted = dlvm.jit(function, target="gpu")(*given), function(*plain)
    assert launches == expected and live() == before
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, wanted)), strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, 1e-5 if isinstance(a, np.float32) else 1e-13)
    for a, b in zip(given, plain, strict=True):
        np.testing.assert_array_equal(a, b)
    if wrt:
        # the derivative along a direction, by a central difference
        ways = [_of(*np.shape(given[k]), seed=k + 1) for k in wrt]
        gradient = dlvm.grad(dlvm.jit(function, target="gpu"), wrt=wrt)(*given)
        moved = [[plain[k] + s * ways[wrt.index(k)] for k in wrt] for s in (1e-6, -1e-6)]
        up, down = (function(*point) for point in moved)
        along = sum(np.sum(g * w) for g, w in zip(gradient, ways, strict=True))
        np.testing.assert_allclose(along, (up - down) / 2e-6, 1e-6)
        assert live() == before


def normal(x, scale, shift):
    d = x - np.mean(x, axis=-1, keepdims=True)
    return d / np.sqrt(np.mean(d * d, axis=-1, keepdims=True) + 1e-5) * scale + shift


def soft(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def soft_into(x, out):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    out[:] = e / np.sum(e, axis=1, keepdims=True)
    return np.sum(out[0])


# name: (function, () -> arguments, the blocks of the launch; None where there is not one)
ROWS = {
    "normal": (normal, lambda: (_of(40, 50), _of(50), _of(50)), 40),
    "normal_f32": (normal, lambda: tuple(x.astype("f4") for x in (_of(32, 300), _of(300), _of(300))), 32),
    "soft_of_two_axes": (soft, lambda: (_of(9, 4, 70),), 36),
    # few rows, short ones, long ones, and strides, which may make elements of rows one another: kernel by kernel
    "soft_few": (soft, lambda: (_of(20, 50),), None),
    "soft_short": (soft, lambda: (_of(40, 31),), None),
    "soft_long": (soft, lambda: (_of(32, 4097),), None),
    "soft_into": (soft_into, lambda: (_of(40, 50), np.zeros((40, 100))[:, ::2]), None),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if "_" in n else n for n in ROWS])
def test_kernels_over_the_same_rows_are_one_launch(name, launches):
    function, make, blocks = ROWS[name]
    given, plain, before = make(), make(), live()
    got, wanted = dlvm.jit(function, target="gpu")(*given), function(*plain)
    assert launches == [blocks] if blocks else 4 <= len(launches) <= 6
    tolerance = 1e-5 if np.asarray(wanted).dtype == np.float32 else 1e-13
    np.testing.assert_allclose(got, wanted, tolerance, tolerance)
    for a, b in zip(given, plain, strict=True):
        np.testing.assert_allclose(a, b, tolerance)
    assert live() == before


def loss_of_normal(x, scale, shift):
    return np.sum(np.sin(normal(x, scale, shift)))


def test_gradients_of_kernels_over_rows(launches):
    given = _of(40, 50), _of(50), _of(50)
    before, way = live(), _of(40, 50, seed=9)
    got = dlvm.grad(dlvm.jit(loss_of_normal, target="gpu"))(*given)
    up, down = (loss_of_normal(given[0] + s * way, *given[1:]) for s in (1e-6, -1e-6))
    np.testing.assert_allclose(np.sum(got * way), (up - down) / 2e-6, 1e-6)
    assert launches == [40, 3, 40, 1, 3] and live() == before


def test_trips_that_depend_on_each_other_stay_in_order(launches):
    def running(x):
        for i in range(1, x.shape[0]):
            x[i] = x[i] + 0.5 * x[i - 1]

    given, plain = _of(5), _of(5)
    dlvm.jit(running, target="gpu")(given)
    running(plain)
    np.testing.assert_array_equal(given, plain)
    assert len(launches) == 4


def test_an_inquiry_reads_nothing_that_the_loop_writes(launches):
    def moved(x, k):
        for i in range(k.shape[0]):
            k[i] = k[i] + 1
            x[i] = x[i] + k[k[i] - 1 - i + i]

    given, plain = (_of(4), np.array([0, 1, 2, 3])), (_of(4), np.array([0, 1, 2, 3]))
    dlvm.jit(moved, target="gpu")(*given)
    moved(*plain)
    for a, b in zip(given, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradients_of_loops_are_grids_too(launches):
    given = np.linspace(0.7, 1.3, 7), _of(7, 8)
    before = live()
    got = dlvm.grad(dlvm.jit(worth, target="gpu"), wrt=(0, 1))(*given)
    # by hand: a path that ends above the strike has the worth of its end, in proportion to its start
    ends = given[0] * np.exp(np.sum(0.01 - 0.5 * 0.2**2 + 0.2 * given[1], axis=1))
    ends[ends <= 1.0] = 0.0
    for a, b in zip(got, (ends / given[0], np.repeat(0.2 * ends[:, None], 8, axis=1)), strict=True):
        np.testing.assert_allclose(a, b, 1e-12)
    assert len(launches) < 15 and live() == before
