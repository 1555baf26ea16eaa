"""Chains of kernels over vectors that run strip by strip (transforms/skewed_strips.py): the same bits as NumPy's."""

import numpy as np
import pytest

import dlvm_py as dlvm


def stages(x, y, steps):
    """Each stage reads the one before at lower places, of memory that is written in two pieces."""
    for _ in range(steps):
        total = y * 0.5
        t = y
        for c in (0.25, 0.5, 0.125):
            k = np.empty_like(y)
            k[0] = x[1] * c
            k[1:] = x[1:] * t[:-1]
            t = y + c * k
            total = total + t * k
        y = total * 0.25
    return y


def both_ways(x, y, steps):
    """Reads ahead and behind, of arrays that later kernels write again; single elements in between."""
    a, b, c = np.zeros_like(x), np.ones_like(x), y.copy()
    total = x[0] * 0
    for _ in range(steps):
        a[1:-1] = x[2:] - c[:-2]
        b[2:-1] = a[3:] + a[1:-2]
        total += a[1] * 2
        a[0] = b[2]
        c[:-3] = a[3:] * x[3:] + b[3:]
        b[0] = c[3] + 1
        a[2:] = b[:-2] - c[2:] / 2
        b[1:] = c[1:] + a[:-1] / 4
        c[4:-4] = b[8:] - a[:-8]
        b[1:-1] = b[1:-1] * 0.5
        total += c[5]
        y[:] = a + b * c / 8
    return y * total


def looks_back(x, y, steps):
    """Single elements of the stages are asked for behind them."""
    total = 0.0
    for _ in range(steps):
        a, c = np.empty_like(y), np.empty_like(y)
        a[0] = x[1]
        a[1:] = x[1:] * y[:-1]
        b = y + a * 0.5
        c[0] = x[2]
        c[1:] = x[1:] * b[:-1]
        d = y - c * 0.25
        y = y + a * 0.125 + b * d
        total += a[0] + b[3] * c[700] + d[1] - a[1]
    return y * total


@pytest.mark.parametrize("f", (stages, both_ways), ids=lambda f: f.__name__)
def test_the_same_bits(f):
    g = dlvm.jit(f)
    rng = np.random.default_rng(1)
    for n in (7, 8191, 8192, 8193, 20_000, 300_000):
        x, y = rng.standard_normal((2, n))
        ours, theirs = (x.copy(), y.copy()), (x.copy(), y.copy())
        np.testing.assert_array_equal(g(*ours, 3), f(*theirs, 3))
        np.testing.assert_array_equal(ours, theirs)
    x, y = rng.standard_normal((2, 2 * n))[:, ::2]  # strided, of one array
    ours, theirs = (x.copy(), y.copy()), (x.copy(), y.copy())
    np.testing.assert_array_equal(g(x, y, 2), f(*theirs, 2))
    np.testing.assert_array_equal((x, y), theirs)
    assert "'strips" in g.ir(*ours, 3, stage="scheduled")


def test_elements_that_are_read_behind_the_strips():
    """What only the chain knows, but for them, is a window of a strip."""
    g = dlvm.jit(looks_back)
    rng = np.random.default_rng(4)
    for n in (701, 8191, 20_000):
        x, y = rng.standard_normal((2, n))
        np.testing.assert_array_equal(g(x, y, 3), looks_back(x, y, 3))
    strips = g.ir(x, y, 3, stage="scheduled").split("'part")[2].split("'whole")[0]
    assert strips.count("select") == 4  # a[0] is x[1]


def test_arguments_that_overlap_and_single_precision():
    g = dlvm.jit(both_ways)
    u = np.random.default_rng(2).standard_normal(30_003).astype(np.float32)
    v = u.copy()
    np.testing.assert_array_equal(g(u[:-3], u[3:], 2), both_ways(v[:-3], v[3:], 2))
    np.testing.assert_array_equal(u, v)


@pytest.mark.parametrize(
    "f", (stages, looks_back, pytest.param(both_ways, marks=pytest.mark.slow)), ids=lambda f: f.__name__
)
def test_gradients(f):
    def weighed(x, y, w):
        return np.sum(f(x, y, 2) * w)

    rng = np.random.default_rng(3)
    for n in (9, 10_000) if f is not looks_back else (701, 10_000):
        x, y, w, u, v = rng.standard_normal((5, n))
        found = dlvm.grad(weighed, wrt=(0, 1))(x.copy(), y.copy(), w)
        slope = np.sum(found[0] * u) + np.sum(found[1] * v)
        up, down = (weighed(x + h * u, y + h * v, w) for h in (1e-6, -1e-6))
        assert slope == pytest.approx((up - down) / 2e-6, rel=1e-6, abs=1e-6)
        _, pushed = dlvm.jvp(weighed, (x.copy(), y.copy(), w), (u, v, None))
        assert slope == pytest.approx(pushed, rel=1e-11)


def zeros_first(x, y):
    z = np.zeros_like(y)
    z[1:-1] = x[2:] * y[:-2]
    z[::2] = y[::2] * x[::2]
    return np.sin(y + z * 0.5)


def last_alone(x, y):
    z = np.empty_like(y)
    z[-1] = y[0]
    z[:-1] = x[1:] * y[1:]
    return np.sin(y + z * z)


def not_all(x, y):
    """The element is one of those that are written after it."""
    z = np.ones_like(y)
    z[1] = y[0]
    z[1:] = x[1:] * y[1:]
    return np.sin(y * z)


PIECES = (zeros_first, pytest.param(last_alone, marks=pytest.mark.slow), not_all)


@pytest.mark.parametrize("step", PIECES, ids=lambda f: f.__name__)
def test_what_is_written_in_pieces_is_computed_again(step):
    def steps(x, y):
        for _ in range(3):
            y = step(x, y)
        return np.sum(y * y)

    rng = np.random.default_rng(4)
    x, y, u = rng.standard_normal((3, 12))
    found = np.sum(dlvm.grad(steps)(x, y) * u)
    up, down = (steps(x + h * u, y) for h in (1e-6, -1e-6))
    assert found == pytest.approx((up - down) / 2e-6, rel=1e-7)
    assert found == pytest.approx(dlvm.jvp(steps, (x, y), (u, None))[1], rel=1e-12)


def test_a_tape_of_what_the_stages_begin_with():
    gradient = dlvm.grad(lambda x, y: np.sum(stages(x, y, 5)))
    x, y = np.random.default_rng(5).standard_normal((2, 9))
    assert gradient.ir(x, y, stage="scheduled").count("release %tape") == 1
