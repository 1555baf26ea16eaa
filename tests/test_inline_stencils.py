"""Chains of stencils as one kernel: the bits of NumPy, which makes every temporary, for any extents and threads."""

import numpy as np
import pytest

import dlvm_py as dlvm

RNG = np.random.default_rng(8)

pytestmark = pytest.mark.usefixtures("eager_threads")


@dlvm.jit
def diffused(field, out, weight):
    """A Laplacian, limited fluxes of it, and the update by those; slices as large as `out` says."""
    n, m = out.shape[0], out.shape[1]
    laplacian = 4.0 * field[1 : n + 3, 1 : m + 3] - (
        field[2 : n + 4, 1 : m + 3] + field[0 : n + 2, 1 : m + 3]
        + field[1 : n + 3, 2 : m + 4] + field[1 : n + 3, 0 : m + 2]
    )  # fmt: skip
    along = laplacian[1:, 1 : m + 1] - laplacian[:-1, 1 : m + 1]
    along = np.where(along * (field[2 : n + 3, 2 : m + 2] - field[1 : n + 2, 2 : m + 2]) > 0, 0, along)
    across = laplacian[1 : n + 1, 1:] - laplacian[1 : n + 1, :-1]
    across = np.where(across * (field[2 : n + 2, 2 : m + 3] - field[2 : n + 2, 1 : m + 2]) > 0, 0, across)
    out[:] = field[2 : n + 2, 2 : m + 2] - weight * (along[1:] - along[:-1] + across[:, 1:] - across[:, :-1])


@dlvm.jit
def stepped(u, steps, by):
    """Rounds of a scheme of two stages that change an argument in place, from a copy."""
    for _ in range(steps):
        old = u.copy()
        slope = old[1:] - old[:-1]
        flux = by * (slope[1:] + slope[:-1]) + old[1:-1]
        u[2:-2] = old[2:-2] - (flux[1:-1] - flux[:-2]) * (flux[2:] - flux[1:-1])


@dlvm.jit
def in_place(u, target):
    """The target may be the array itself, or a part of it."""
    slope = u[1:] - u[:-1]
    target[1:-1] += 0.25 * (slope[1:] - slope[:-1])


@dlvm.jit
def weighted(x, w):
    """Weights that are the same for rows, for columns, or for neither."""
    t = x * w
    s = t[1:] + t[:-1]
    return s[1:, 1:] - s[:-1, :-1]


def steep(x):
    t = x[1:] * x[:-1]
    s = t[1:] - t[:-1]
    return np.sum((s[1:] * s[:-1]) ** 2)


def is_inlined(function, *args):
    return "'inlined()" in function.ir(*args, stage="scheduled")


def same(function, *args):
    """The bits of NumPy, in results and in arguments, with one thread and with two."""
    theirs = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    expected = function.__wrapped__(*theirs)
    for count in (1, 2):
        dlvm.set_num_threads(count)
        mine = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        found = function(*mine)
        for x, y in zip([found, *mine], [expected, *theirs], strict=True):
            if isinstance(y, np.ndarray):
                assert x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
            else:
                assert x == y


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_chain_on_three_axes_has_the_bits_of_numpy(dtype):
    sizes = ((40, 40, 33), (2, 200, 120), (3, 2, 7))
    for n, m, k in sizes:
        field = RNG.standard_normal((n + 4, m + 4, k)).astype(dtype)
        field[0, 0, 0], field[-1, 3, 1] = np.nan, np.inf
        weight = RNG.standard_normal((n, m, k)).astype(dtype)
        with np.errstate(invalid="ignore"):
            same(diffused, field, np.zeros_like(weight), weight)
    assert is_inlined(diffused, field, np.zeros_like(weight), weight)


def test_slices_that_are_cut_and_arrays_that_are_stretched():
    """What begins at 2 in an array of one row begins at 1, and is empty; a row of weights is stretched."""
    field, out = RNG.standard_normal((44, 44, 33)), np.zeros((40, 40, 33))
    same(diffused, field, out, RNG.standard_normal((1, 40, 33)))
    for shape in ((2, 44, 3000), (44, 3, 3000)):
        field = RNG.standard_normal(shape)
        try:
            diffused.__wrapped__(field, out, out)
        except ValueError:
            with pytest.raises(ValueError, match="broadcast"):
                diffused(field, out, out)
        else:
            same(diffused, field, out, out)


def test_weights_that_are_stretched():
    x = RNG.standard_normal((300, 301))
    for w in (x + 1, x[:1], x[:, :1]):
        same(weighted, x, w.copy())
    same(weighted, x[:, :-1:2], x[:, 1::2])
    same(weighted, np.asfortranarray(x), x)
    for few in (x[:2], x[:0], x[:3, :0], x[:3, :2]):
        same(weighted, few.copy(), few.copy())


def test_rounds_and_what_changes_in_between():
    u = RNG.standard_normal(90_000)
    for dtype in (np.float64, np.float32):
        same(stepped, u.astype(dtype), 3, dtype(0.25))
    for n in (7, 6, 5):
        same(stepped, u[:n].copy(), 2, 0.25)
    assert is_inlined(stepped, u, 3, 0.25)


def test_arguments_that_overlap():
    """What a chain reads is not what it has written before, in the same array or in one that overlaps."""
    memory = RNG.standard_normal(200_000)
    n = 100_000
    for start in (0, 1, 2, 50_000, n):
        mine, theirs = memory.copy(), memory.copy()
        for count in (1, 2):
            dlvm.set_num_threads(count)
            in_place(mine[:n], mine[start : start + n])
            in_place.__wrapped__(theirs[:n], theirs[start : start + n])
            assert mine.tobytes() == theirs.tobytes()
    mine, theirs = memory.copy(), memory.copy()
    in_place(mine, mine)
    in_place.__wrapped__(theirs, theirs)
    assert mine.tobytes() == theirs.tobytes()


def test_gradients():
    """Of many elements, the gradient of the last few is that of these alone."""
    x = RNG.standard_normal(120_000)
    gradient = dlvm.grad(steep)
    for count in (1, 2):
        dlvm.set_num_threads(count)
        found = gradient(x)
        np.testing.assert_allclose(found[-40:], gradient(x[-50:].copy())[-40:], rtol=1e-13, atol=1e-13)
    v = RNG.standard_normal(len(x))
    v /= np.linalg.norm(v)
    expected = (steep(x + 1e-2 * v) - steep(x - 1e-2 * v)) / 2e-2
    np.testing.assert_allclose(found @ v, expected, rtol=1e-6)
