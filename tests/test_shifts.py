"""Rows that read an array at several places: vectors that come from registers (backend/cpu/shifts.py)."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.backend.cpu.compile import has_masks

RNG = np.random.default_rng(0)


def three(a, b):
    b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
    return b


def far(a, b):
    """Loads a vector apart, and two streams of one row."""
    b[: a.shape[0] - 40] = a[:-40] - a[8:-32] / 3.0 + a[16:-24] * a[40:] - (-a[37:-3])
    return b


def both(a, b):
    """Two results of one kernel."""
    c = a[:-1] - a[1:]
    d = a[:-1] + a[1:] * 2.0
    b[:-1] = c * d
    return c, d, b


def in_place(a, b):
    a[1:] = a[1:] * b[:-1] - b[1:]
    return a


def five(a, b):
    b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
    return b


def steps(a, b):
    for _ in range(3):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])
    return a, b


def of_columns(a, b):
    """Values that are the same along a row, and columns of their own."""
    return (a[:, 1:] - a[:, :-1]) * b[:, :1] + a[:, 2:3] - b[0, 1:]


def seven(a, b):
    b[1:-1, 1:-1, 1:-1] = (
        a[1:-1, 1:-1, 1:-1]
        + a[2:, 1:-1, 1:-1] - a[:-2, 1:-1, 1:-1]
        + a[1:-1, 2:, 1:-1] - a[1:-1, :-2, 1:-1]
        + a[1:-1, 1:-1, 2:] - a[1:-1, 1:-1, :-2]
    )  # fmt: skip
    return b


def rows_of_planes(a, b):
    for i in range(a.shape[0]):
        b[i, :, 1:] = a[i, :, 1:] - a[i, :, :-1]
    return b


LINES, PLANES, SPACES = (three, far, both, in_place), (five, steps, of_columns), (seven, rows_of_planes)
SIZES = (3, 4, 5, 9, 15, 16, 17, 18, 23, 24, 25, 31, 33, 40, 41, 48, 49, 57, 64, 130)
CASES = [(f, (n,)) for f in LINES for n in (*SIZES, 1000) if f is not far or n > 40]
CASES += [(f, (m, n)) for f in PLANES for n in SIZES for m in (3, 6)]
CASES += [(f, (4, 5, n)) for f in SPACES for n in SIZES]
COMPILED = {f: dlvm.jit(f) for f in (*LINES, *PLANES, *SPACES)}


def forms(shape, dtype):
    """Pairs of arrays, which lie in memory in different ways, each as what makes it anew."""
    plain = RNG.standard_normal((2, *shape)).astype(dtype)
    wide = RNG.standard_normal((2, *(2 * n for n in shape))).astype(dtype)
    special = plain.copy()
    special.ravel()[::5], special.ravel()[::7], special.ravel()[::3] = np.inf, np.nan, -0.0
    part = tuple(slice(1, n + 1) for n in shape)
    apart = tuple(slice(0, 2 * n, 2) for n in shape)
    yield lambda: plain.copy()
    yield lambda: special.copy()
    yield lambda: [v[part] for v in wide.copy()]
    yield lambda: [v[k] for v, k in zip(wide.copy(), (apart, part), strict=True)]
    yield lambda: [v.copy("F") for v in plain]
    yield lambda: [plain[0].copy("F"), plain[1].copy()]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", [*LINES, *PLANES, *SPACES], ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_have_the_bits_of_numpy(f, dtype):
    for shape in (shape for g, shape in CASES if g is f):
        for made in forms(shape, dtype):
            mine, theirs = made(), made()
            found, expected = COMPILED[f](*mine), f(*theirs)
            assert_equal(found, expected, (f.__name__, shape))
            assert_equal(tuple(mine), tuple(theirs), (f.__name__, shape))


def assert_equal(found, expected, note):
    found, expected = ((v if isinstance(v, tuple) else (v,)) for v in (found, expected))
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, note
        is_number = ~np.isnan(y)
        assert np.array_equal(x, y, equal_nan=True), note
        assert np.array_equal(np.signbit(x)[is_number], np.signbit(y)[is_number]), note


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_views_are_read_where_they_lie_and_nowhere_else(dtype):
    """What is behind the last element of a row belongs to somebody else: it may even be no memory."""
    for n in range(3, 70):
        whole = np.full(n + 64, np.nan, dtype)
        a, b = whole[32 : 32 + n], np.zeros(n, dtype)
        a[:] = RNG.standard_normal(n)
        expected = three(a.copy(), b.copy())
        assert_equal(COMPILED[three](a, b), expected, n)
        assert np.isnan(whole[:32]).all() and np.isnan(whole[32 + n :]).all()


@pytest.mark.skipif(not has_masks(), reason="vectors under masks are not those of this CPU")
def test_what_is_read_at_several_places_is_loaded_once():
    f = dlvm.jit(three, cache=False)
    f(np.zeros(9), np.zeros(9))
    assert "shufflevector <8 x double>" in f.llvm()


def test_threads_cut_rows_anywhere():
    before = dlvm.get_num_threads()
    a, b = RNG.standard_normal(400_003), RNG.standard_normal(400_003)
    wide = RNG.standard_normal((301, 1203))
    expected = three(a.copy(), b.copy()), five(wide.copy(), wide.copy())
    try:
        for count in (1, 2, 3):
            dlvm.set_num_threads(count)
            for _ in range(3):
                assert_equal(COMPILED[three](a.copy(), b.copy()), expected[0], count)
                assert_equal(COMPILED[five](wide.copy(), wide.copy()), expected[1], count)
    finally:
        dlvm.set_num_threads(before)


def scattered(a, w, add):
    """The adjoint of a sum of neighbours: d[k:...] += ..., as NumPy does it."""
    d = np.zeros_like(a)
    for parts, factor in add:
        d[parts] += factor * w
    return d


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_adjoints_are_rows_of_what_is_embedded(dtype):
    """Sums of shifted arrays: in the inside of a row by vectors, at its ends one by one."""

    def line(a, w):
        return np.sum(w * (a[:-3] * 0.5 - a[1:-2] + a[2:-1] * 2.0 + a[3:]))

    def plane(a, w):
        return np.sum(w * (a[1:-1, 1:-1] - a[1:-1, :-2] + a[1:-1, 2:] * 3.0 + a[2:, 1:-1] - a[:-2, 1:-1]))

    of_line, of_plane = dlvm.grad(line), dlvm.grad(plane)
    tolerance = 4 * np.finfo(dtype).eps
    for n in (4, 5, 6, *SIZES[2:], 1000):
        a, w = RNG.standard_normal(n).astype(dtype), RNG.standard_normal(n - 3).astype(dtype)
        parts = [(slice(0, n - 3), 0.5), (slice(1, n - 2), -1.0), (slice(2, n - 1), 2.0), (slice(3, n), 1.0)]
        expected = scattered(a, w, parts)
        np.testing.assert_allclose(of_line(a, w), expected, rtol=tolerance, atol=8 * tolerance, err_msg=str(n))
    for n in SIZES:
        for m in (3, 4, 7):
            a = RNG.standard_normal((m, n)).astype(dtype)
            w = RNG.standard_normal((m - 2, n - 2)).astype(dtype)
            middle, inner = slice(1, m - 1), slice(1, n - 1)
            parts = [((middle, inner), 1.0), ((middle, slice(0, n - 2)), -1.0), ((middle, slice(2, n)), 3.0),
                     ((slice(2, m), inner), 1.0), ((slice(0, m - 2), inner), -1.0)]  # fmt: skip
            for a_of, w_of in ((a, w), (np.asfortranarray(a), np.asfortranarray(w))):
                found = of_plane(a_of, w_of)
                np.testing.assert_allclose(found, scattered(a, w, parts), rtol=tolerance, atol=16 * tolerance)


@pytest.mark.parametrize("f", [three, five, steps, of_columns, seven], ids=lambda f: f.__name__)
def test_gradients_agree_with_forward_mode(f):
    def of(a, b):
        found = f(a, b)
        found = found[0] if isinstance(found, tuple) else found
        return np.sum(found * found * 0.5)

    reverse = dlvm.grad(of, wrt=(0, 1))
    for shape in (shape for g, shape in CASES if g is f and shape[-1] in (5, 17, 24, 41)):
        a, b, da, db = RNG.standard_normal((4, *shape))
        gradients = reverse(a.copy(), b.copy())
        _, along = dlvm.jvp(of, (a, b), (da, db))
        expected = sum(np.sum(g * d) for g, d in zip(gradients, (da, db), strict=True))
        assert np.isclose(along, expected, rtol=1e-11, atol=1e-11), (f.__name__, shape)


def planes(a, b, p, q):
    """Two results of planes together; what is the same in all of them; a row that is one element."""
    c = a[1:-1, 1:-1, 1:-1] - a[2:, 1:-1, 1:-1] * a[:-2, 1:-1, 1:-1] + a[1:-1, 1:-1, 2:] - a[1:-1, 1:-1, :-2]
    p[...] = c * b[1:-1, 1:-1] + a[1:-1, :-2, 1:-1] - a[1:-1, 2:, 1:-1]
    q[...] = c - b[1:-1, 2:] + b[1:-1, :1]


def far_planes(a, b, p, q):
    """Rows at distances of planes that are no neighbours, and diagonally; every element of the result is read, too."""
    p *= a[2:, 1:-1, :-2] - a[:-2, 2:, 2:] + a[2:, 1:-1, 2:] * a[1:-1, 1:-1, 1:-1]
    q[...] = -a[1:-1, 1:-1, 1:-1] / a[1:-1, 1:-1, 2:] + a[:-2, :-2, 1:-1]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("function", [planes, far_planes])
def test_planes_together_have_vectors_in_common(function, threads):
    compiled = dlvm.jit(function)
    before = dlvm.get_num_threads()
    dlvm.set_num_threads(threads)
    try:
        # planes that are left, none, rows that end in part of a vector, short ones, small planes
        for shape in (11, 19, 77), (6, 40, 66), (7, 20, 140), (3, 30, 90), (2, 30, 90), (40, 50, 40), (90, 66, 130):
            for dtype in (np.float64, np.float32):
                a, b = RNG.random(shape, dtype) + 1, RNG.random(shape[1:], dtype)
                a[0, 0, 0], a[-1, -1, -1] = np.nan, -0.0
                inner = tuple(max(n - 2, 0) for n in shape)
                for order in (a, a.transpose(2, 1, 0).copy().T, np.repeat(a, 2, axis=2)[:, :, ::2], a[:, :, ::-1]):
                    ours, theirs = ([np.full(inner, 1.5, dtype) for _ in range(2)] for _ in range(2))
                    compiled(order, b, *ours)
                    function(order, b, *theirs)
                    for found, expected in zip(ours, theirs, strict=True):
                        np.testing.assert_array_equal(found, expected)
    finally:
        dlvm.set_num_threads(before)


def test_rows_together_overlap_themselves():
    """The same array is read and written: NumPy computes all of it first."""

    def step(a):
        a[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])

    a = RNG.random((23, 900))
    want = a.copy()
    dlvm.jit(step)(a)
    step(want)
    np.testing.assert_array_equal(a, want)
