"""Kernels of several roots: what joins, what does not, and that results are those of NumPy."""

import numpy as np
import pytest

from dlvm_py import jit
from dlvm_py.ir import interpreter

X = np.linspace(-2.0, 3.0, 37)
Y = np.linspace(0.5, 4.0, 37)
M = np.arange(12.0).reshape(3, 4)


def two(a, b):
    return np.exp(a) * b, np.exp(a) + b


def updated(a, b):
    c = a * b
    a += c
    b -= c
    return c * a


def chained(a, b):
    c = a + b
    d = c * a
    return c, d, d - b


def rows(m, v):
    return m * v, m - v


def strided(a, b):
    a[::2] += b[::2]
    b[1::2] = a[1::2] * 2.0
    return a[::2] * 3.0


def shifted(a, b):
    a[1:] = b[1:] * 2.0
    b[:-1] = a[1:] + b[:-1]
    return a + b


def shown(a, b):
    a += b
    if a[0] > 100.0:
        raise ValueError("large")
    return a * b


def loop(a, b):
    for _ in range(5):
        c = np.tanh(a) * b
        d = np.tanh(a) + c
        a[:] = c - d
        b[:] = c + d
    return a


def turned(m, v):
    p = m * 2.0
    return p, p.T + 1.0, p[:, ::-1] * v


def masks(a, b):
    return a > b, np.where(a > b, a, b), (a * 2).astype(np.float32)


def swapped(a, b):
    a[:], b[:] = a + b, a - b
    return a


# (function, arguments, stores that are joined to others)
CASES = [
    (two, (X, Y), 1),
    (updated, (X, Y), 2),
    (chained, (X, Y), 2),
    (rows, (M, M[0]), 1),
    (strided, (X, Y), None),
    (shifted, (X, Y), None),
    (shown, (X, Y), 0),
    (loop, (X, Y), None),
    (turned, (M, M[1]), None),
    (masks, (X, Y), 2),
    (swapped, (X, Y), 1),
]


def copies(args):
    return [a.copy() for a in args]


@pytest.mark.parametrize(("f", "args", "joined"), CASES, ids=[case[0].__name__ for case in CASES])
def test_results_and_effects_are_those_of_numpy(f, args, joined):
    g, mine, theirs = jit(f), copies(args), copies(args)
    found, expected = g(*mine), f(*theirs)
    for x, y in zip(_all(found, mine), _all(expected, theirs), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-14, atol=1e-300)
    if joined is not None:
        assert g.ir(stage="scheduled").count(" joined") == joined
    # the reference interpreter, which evaluates a kernel where its roots stand, reads before it writes as well
    program, mine = g.program(*args, stage="scheduled"), copies(args)
    found = interpreter.run(program.module, program.name, list(mine), trees_at_root=True)
    for x, y in zip(_all(found, mine), _all(expected, theirs), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-14, atol=1e-300)


def _all(result, args):
    return [*(result if isinstance(result, tuple) else (result,)), *args]


def test_arguments_that_overlap():
    # of the same memory, one place further: what one kernel writes the next one reads at another place
    base, same = np.arange(20.0), np.arange(20.0)
    found = jit(updated)(base[:-1], base[1:])
    expected = updated(same[:-1], same[1:])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(base, same)


def test_memory_that_overlaps_itself():
    # all elements of the destination are one: the last one wins, before anything else is computed
    def f(a, b):
        a[:] = b * 2.0
        return a * b

    one, same = np.zeros(1), np.zeros(1)
    np.testing.assert_array_equal(
        jit(f)(np.lib.stride_tricks.as_strided(one, (5,), (0,)), X[:5]),
        f(np.lib.stride_tricks.as_strided(same, (5,), (0,)), X[:5]),
    )


def test_extents_that_only_a_check_holds_equal():
    def f(a, b):
        c = np.exp(a)
        return c * 2.0, c * b

    g = jit(f)
    assert g(X, Y)[1].shape == X.shape
    with pytest.raises(ValueError, match="broadcast"):
        g(X, Y[:5])
    # an extent of 1 is another version, in which b is stretched
    np.testing.assert_allclose(g(X, Y[:1])[1], f(X, Y[:1])[1], rtol=1e-14)


# -- products of one matrix ----------------------------------------------------------------------------


def chain(a, p, r):
    return a.T @ (a @ p)


def pair(a, p, r):
    return r @ a, a @ p


def added(a, p, r):
    s, t = p * 2.0, r * 3.0
    s -= r @ a
    t += a @ p
    return s, t


RNG = np.random.default_rng(5)
MATRICES = {
    "wide": RNG.standard_normal((70, 1100)),
    "tall": RNG.standard_normal((2051, 37)),
    "f32": RNG.standard_normal((99, 2100)).astype(np.float32),
    "columns": np.asfortranarray(RNG.standard_normal((190, 211))),
    "strided": RNG.standard_normal((201, 400))[:, ::2],
    "rows apart": RNG.standard_normal((400, 201))[::2],
    "small": RNG.standard_normal((5, 7)),
}


@pytest.mark.parametrize("f", [chain, pair, pytest.param(added, marks=pytest.mark.slow)], ids=lambda f: f.__name__)
def test_products_of_one_matrix(f):
    g = jit(f)
    names = {pair: MATRICES, chain: ("wide", "columns"), added: ("wide",)}[f]
    for a in map(MATRICES.get, names):
        p, r = (np.linspace(-1.0, 1.0, n).astype(a.dtype) for n in a.shape[::-1])
        wide = a.astype(np.longdouble)
        exact = _all(f(wide, p.astype(np.longdouble), r.astype(np.longdouble)), [])
        # NumPy itself, a few units in the last place of what is summed
        slack = 64 * np.finfo(a.dtype).eps * np.abs(wide).sum() / min(a.shape)
        for x, y in zip(_all(g(a, p, r), []), exact, strict=True):
            assert x.dtype == a.dtype
            np.testing.assert_allclose(x, y.astype(x.dtype), rtol=1e-6 if a.dtype == np.float32 else 1e-12, atol=slack)
    assert g.ir(stage="scheduled").count(" joined") == 1


def test_an_error_between_two_products():
    def f(a, x, y, p, r):
        x += a @ p
        y += r @ a

    a, p, r = MATRICES["wide"], np.ones(1100), np.ones(70)
    x, y = np.ones(70), np.ones(1100)
    g = jit(f)
    g(a, x, y, p, r)
    assert g.ir(stage="scheduled").count(" joined") == 1
    np.testing.assert_allclose(x, 1.0 + a @ p, rtol=1e-12)
    np.testing.assert_allclose(y, 1.0 + r @ a, rtol=1e-12)
    with pytest.raises(ValueError, match="mismatch"):
        g(a, x, y, p, r[:-1])
    # the first product was there before the error
    np.testing.assert_allclose(x, 1.0 + 2.0 * (a @ p), rtol=1e-12)
    with pytest.raises(ValueError, match="broadcast"):
        g(a, x, y[:-1], p, r)
    np.testing.assert_allclose(x, 1.0 + 3.0 * (a @ p), rtol=1e-12)


# -- reductions ------------------------------------------------------------------------------------------


def moments(a, b):
    return np.sum(a), np.max(a), np.min(b - a), np.sum(a * b), np.prod(a)


def with_a_store(a, b):
    d = a - b
    c = d * d
    return c, np.sum(c), np.sum(d)


def half(a, b):
    x, y = a.astype(np.float16), b.astype(np.float32)
    return np.sum(x), np.sum(y), np.max(x), np.sum(x * x)


def whole(a, b):
    n = a.astype(np.int64)
    return np.sum(n), np.max(n), np.any(n > 2), np.all(n > -9)


def complexes(a, b):
    z = a + 1j * b
    return np.sum(z), np.sum(z * z), np.sum(z.real)


def needs_the_first(a, b):
    m = np.sum(a) / 37.0
    return np.sum((a - m) * (a - m)), m


def between(a, b):
    s = np.sum(a) * 2.0 + 1.0
    t = np.sum(a * b)
    return s / t


def of_columns(a, b):
    m = a.T
    return np.sum(m), np.sum(m * m), np.max(m * 2.0)


def of_rows_and_columns(a, b):
    return np.sum(a * b), np.sum(a)


def strided_sums(a, b):
    x = a[::2]
    return np.sum(x), np.sum(x * x), x * 2.0


BIG = np.linspace(-2.0, 3.0, 150_001)
WIDE = np.asfortranarray(np.linspace(-1.0, 1.0, 6000).reshape(60, 100))
SUMS = [
    (moments, (X, Y), 3),  # not the product, whose order is that of the elements
    (with_a_store, (X, Y), 2),
    (half, (X, Y), 2),
    (whole, (X, Y), 3),
    (complexes, (X, Y), 2),
    (needs_the_first, (X, Y), 0),
    (between, (X, Y), 1),
    (of_columns, (WIDE, WIDE), 2),
    (of_rows_and_columns, (WIDE.copy(order="C"), WIDE), 0),
    (strided_sums, (X, Y), 1),
]


@pytest.mark.parametrize(("f", "args", "joined"), SUMS, ids=[case[0].__name__ for case in SUMS])
def test_reductions(f, args, joined):
    g = jit(f)
    sizes = [args, [BIG, BIG[::-1].copy()]] if args[0].ndim == 1 else [args]
    if f in (with_a_store, complexes, strided_sums):  # sums of nothing
        sizes.append([a[:0] for a in args])
    for some in sizes:
        with np.errstate(all="ignore"):
            expected = _all(f(*some), [])
        for x, y in zip(_all(g(*some), []), expected, strict=True):
            assert np.asarray(x).dtype == np.asarray(y).dtype
            rtol = 2e-3 if f is half else 1e-12
            np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-11 * some[0].size)
    assert g.ir(stage="scheduled").count(" joined") == joined


def test_the_bits_are_those_of_one_reduction():
    x, y = BIG, np.cos(BIG)

    def both(a, b):
        return np.sum(a * b), np.sum(a), np.sum(b)

    alone = [jit(lambda a, b: np.sum(a * b)), jit(lambda a, b: np.sum(a)), jit(lambda a, b: np.sum(b))]
    g = jit(both)
    for n in (1, 5, 1000, 1024, 1025, 33_333, 150_001):
        found = g(x[:n], y[:n])
        assert [float(v) for v in found] == [float(h(x[:n], y[:n])) for h in alone], n
        assert all(g(x[:n], y[:n]) == found for _ in range(20))


def interior(a, b, c):
    x, y = a[1:-1, 1:-1], b[1:-1, 2:]
    z = x * y
    c[1:-1, :-2] = z - x
    return np.sum(x), np.sum(z), np.max(x * y), np.sum(np.abs(z))


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
def test_rows_of_sections_are_reduced_in_one_kernel(dtype):
    g = jit(interior)
    sums = [
        jit(lambda a, b: np.sum(a[1:-1, 1:-1])),
        jit(lambda a, b: np.sum(a[1:-1, 1:-1] * b[1:-1, 2:])),
        jit(lambda a, b: np.sum(np.abs(a[1:-1, 1:-1] * b[1:-1, 2:]))),
    ]
    rng = np.random.default_rng(0)
    for shape in ((3, 3), (4, 2), (2, 4), (40, 63), (3, 1026), (4, 1500), (501, 402)):
        a, b, c = (rng.standard_normal(shape).astype(dtype) for _ in range(3))
        if min(shape) > 2:
            expected, c0 = [h(a, b) for h in sums], c.copy()
            found = g(a, b, c)
            largest = np.max(a[1:-1, 1:-1] * b[1:-1, 2:])
            assert [float(v) for v in found] == [float(v) for v in (*expected[:2], largest, expected[2])], shape
            c0[1:-1, :-2] = a[1:-1, 1:-1] * b[1:-1, 2:] - a[1:-1, 1:-1]
            np.testing.assert_array_equal(c, c0)
        else:
            with pytest.raises(ValueError, match="zero-size"):
                g(a, b, c)
    backwards = g(a[::-1, ::-1], b, c[:, ::-1])
    assert float(backwards[0]) == float(sums[0](a[::-1, ::-1], b))
    assert g.ir(stage="scheduled").count(" joined") >= 2
