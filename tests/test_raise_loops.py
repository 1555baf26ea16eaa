"""Convolutions and poolings written with loops: raised to one kernel, the values and the gradients of plain NumPy."""

import numpy as np
import pytest

import dlvm_py as dlvm

RNG = np.random.default_rng(6)


def convolve(x, w):
    k = w.shape[0]
    out = np.empty((x.shape[0], x.shape[1] - k + 1, x.shape[2] - k + 1, w.shape[3]), dtype=x.dtype)
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            out[:, i, j, :] = np.sum(x[:, i : i + k, j : j + k, :, np.newaxis] * w[np.newaxis], axis=(1, 2, 3))
    return out


def strided(x, w):
    k = w.shape[0]
    out = np.empty((x.shape[0], (x.shape[1] - k) // 2 + 1, (x.shape[2] - k) // 2 + 1, w.shape[3]), dtype=x.dtype)
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            window = x[:, 2 * i : 2 * i + k, 2 * j : 2 * j + k, :, np.newaxis]
            out[:, i, j, :] = np.sum(window * w, axis=(1, 2, 3))
    return out


def channels_first(x, w):
    k, m = w.shape[2:]
    out = np.zeros((x.shape[0], w.shape[0], x.shape[2] - k + 1, x.shape[3] - m + 1), dtype=x.dtype)
    for n in range(out.shape[0]):
        for f in range(out.shape[1]):
            for i in range(out.shape[2]):
                for j in range(out.shape[3]):
                    out[n, f, i, j] = np.sum(x[n, :, i : i + k, j : j + m] * w[f])
    return out


def pool(x):
    out = np.empty((x.shape[0], x.shape[1] // 2, x.shape[2] // 2, x.shape[3]), dtype=x.dtype)
    for i in range(x.shape[1] // 2):
        for j in range(x.shape[2] // 2):
            out[:, i, j, :] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return out


def depthwise(x, w):
    k = w.shape[0]
    out = np.empty((x.shape[0], x.shape[1] - k + 1, x.shape[2]), dtype=x.dtype)
    for i in range(out.shape[1]):
        out[:, i] = np.mean(x[:, i : i + k] * w, axis=1)
    return out


def image(x, w):
    k, m = w.shape
    out = np.empty((x.shape[0] - k + 1, x.shape[1] - m + 1), dtype=x.dtype)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.sum(x[i : i + k, j : j + m] * w)
    return out


def normal(*shape):
    return RNG.standard_normal(shape)


# one function for both precisions and all extents: compiled once a dtype, for what of them is 1
COMPILED = {f: dlvm.jit(f) for f in (convolve, strided, channels_first, pool, depthwise, image)}
GRADIENTS = {f: dlvm.grad(lambda s, x, w, f=f: np.sum(f(x, w) * s), wrt=("x", "w")) for f in COMPILED if f is not pool}
GRADIENTS[pool] = dlvm.grad(lambda s, x: np.sum(pool(x) * s), wrt=("x",))

SHAPES = {
    convolve: [
        ((2, 6, 7, 3), (2, 2, 3, 5)), ((3, 5, 5, 8), (3, 3, 8, 16)), ((2, 5, 4, 2), (4, 4, 2, 19)),
        ((0, 5, 5, 2), (2, 2, 2, 3)), ((2, 2, 5, 3), (3, 3, 3, 2)), ((2, 40, 36, 2), (2, 2, 2, 8)),
    ],
    strided: [((2, 9, 8, 3), (3, 3, 3, 5)), ((2, 8, 8, 3), (2, 2, 3, 8))],
    channels_first: [((2, 3, 7, 6), (4, 3, 3, 2))],
    pool: [((2, 6, 7, 3),), ((2, 2, 3, 9),)],
    depthwise: [((2, 9, 5), (3, 5))],
    image: [((9, 30), (3, 5)), ((40, 37), (2, 2)), ((3, 3), (3, 3)), ((2, 5), (3, 3))],
}  # fmt: skip


@pytest.mark.parametrize(
    "f",
    [convolve, pool, image, *(pytest.param(f, marks=pytest.mark.slow) for f in (strided, channels_first, depthwise))],
    ids=lambda f: f.__name__,
)
def test_what_loops_over_windows_give(f):
    for shapes in SHAPES[f]:
        args = [normal(*s) for s in shapes]
        expected = f(*args)
        np.testing.assert_allclose(COMPILED[f](*args), expected, rtol=1e-12, atol=1e-12)
        seed, step = normal(*expected.shape), 1e-6
        for a, g in zip(args, GRADIENTS[f](seed, *args), strict=True):
            if not a.size:
                continue
            along = normal(*a.shape)
            moved = [[b + h * along if b is a else b for b in args] for h in (step, -step)]
            difference = (np.sum(f(*moved[0]) * seed) - np.sum(f(*moved[1]) * seed)) / (2 * step)
            np.testing.assert_allclose(np.sum(g * along), difference, rtol=1e-6, atol=1e-6)
    assert "conditional" not in COMPILED[f].ir(stage="optimizable")


def test_single_precision():
    x, w = normal(2, 6, 7, 3).astype("f4"), normal(2, 2, 3, 5).astype("f4")
    found = COMPILED[convolve](x, w)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, convolve(x, w), rtol=1e-5, atol=1e-5)


def test_what_every_trip_raises_the_whole_raises_unless_there_are_no_trips():
    x = normal(2, 5, 6, 3)
    for w in (normal(3, 2, 3, 4), normal(2, 2, 4, 4), normal(1, 3, 3, 4), normal(7, 7, 3, 4), normal(6, 2, 4, 4)):
        try:
            expected = convolve(x, w)
        except ValueError as error:
            with pytest.raises(ValueError, match="negative" if "negative" in str(error) else "broadcast"):
                COMPILED[convolve](x, w)
        else:
            np.testing.assert_allclose(COMPILED[convolve](x, w), expected, rtol=1e-12)


def test_what_is_not_finite_stays_where_it_is():
    """An infinite weight meets a seed of 0, or what lies outside of the seeds, and gives nothing there."""
    x, w, seed = normal(2, 5, 6, 3), normal(2, 2, 3, 4), normal(2, 4, 5, 4)
    w[0, 1, 2, 1], x[1, 0, 2, 1] = np.inf, np.nan
    expected = np.zeros_like(x), np.zeros_like(w)
    with np.errstate(all="ignore"):
        for i, j, a, b in np.ndindex(4, 5, 2, 2):
            expected[0][:, i + a, j + b] += np.einsum("no,co->nc", seed[:, i, j], w[a, b])
            expected[1][a, b] += np.einsum("nc,no->co", x[:, i + a, j + b], seed[:, i, j])
    found = GRADIENTS[convolve](seed, x, w)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


def running(x, w):
    """Reads what it writes."""
    for i in range(x.shape[0] - w.shape[0]):
        x[i + w.shape[0]] = np.sum(x[i : i + w.shape[0]] * w)
    return x


def cut_off(x, w):
    """The last windows are shorter."""
    out = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = np.sum(x[i : i + 3])
    return out + w[0]


def triangle(x, w):
    out = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = np.sum(x[:i]) * w[0]
    return out


def over_and_over(x, w):
    """Each trip writes over what the one before has written."""
    out = np.zeros(2)
    for i in range(x.shape[0] - w.shape[0] + 1):
        out[0] = np.sum(x[i : i + w.shape[0]] * w)
    return out


def by_a_number(x, w, s=3):
    """Steps that are not known."""
    out = np.zeros((x.shape[0] - w.shape[0]) // s + 1)
    for i in range(out.shape[0]):
        out[i] = np.sum(x[s * i : s * i + w.shape[0]] * w)
    return out


def two_stores(x, w):
    out, more = np.zeros(x.shape[0] - w.shape[0] + 1), np.zeros(x.shape[0])
    for i in range(out.shape[0]):
        out[i] = np.sum(x[i : i + w.shape[0]] * w)
        more[i] = i
    return out + np.sum(more)


@pytest.mark.parametrize("f", [running, cut_off, triangle, over_and_over, by_a_number, two_stores])
def test_what_stays_a_loop(f):
    x, w = normal(11), normal(3)
    compiled = dlvm.jit(f)
    if f is running:  # what the others compute, the interpreter shows in tests/dl
        np.testing.assert_allclose(compiled(x.copy(), w), f(x.copy(), w), rtol=1e-12)
    args = (4,) if f is by_a_number else ()
    assert "conditional" in compiled.ir(x, w, *args, stage="optimizable")
