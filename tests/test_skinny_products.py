"""Products with few rows, columns or terms, and of a matrix with its own transpose: every layout, every remainder."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py import driver
from dlvm_py.backend.cpu import compile

RNG = np.random.default_rng(7)

# (rows, terms, columns): each extent few, one over and one under the steps of the loops, and strips that are cut
SHAPES = [
    (2, 300, 40), (3, 70, 33), (4, 64, 2100), (7, 41, 35), (8, 2050, 37), (9, 60, 70),  # few rows
    (2, 129, 257), (3, 200, 97), (4, 65, 161), (5, 64, 98), (6, 131, 149), (8, 192, 113), (8, 40, 1931),
    (13, 701, 800), (16, 300, 1701),  # and a few more, of much that is read
    (40, 2, 90), (37, 3, 45), (70, 5, 2060), (41, 7, 33), (66, 8, 100),  # few terms
    (60, 50, 1), (1, 50, 60), (5, 7, 1), (1, 1, 30), (17, 1, 1), (20, 9, 20), (1, 9, 1),  # small
    (300, 40, 2), (33, 70, 3), (60, 2051, 7), (35, 41, 8), (9, 700, 5), (500, 33, 1), (1, 700, 33),  # few columns
]  # fmt: skip


@dlvm.jit
def products(a, b, c, a1, b1, d, a2, b2):
    """A product, one that is added, one that is taken away; of different parameters, so that they stay three."""
    c += a1 @ b1
    d -= a2 @ b2
    return a @ b


def laid_out(shape, dtype, layout):
    """A random matrix that is C-contiguous, Fortran-contiguous, or neither."""
    if layout == "F":
        return laid_out(shape[::-1], dtype, "C").T
    wide = RNG.standard_normal((shape[0], 2 * shape[1])).astype(dtype)
    return wide[:, ::2] if layout == "S" else np.ascontiguousarray(wide[:, ::2])


@pytest.mark.parametrize("layouts", ["CCC", "CFC", "FFF", "SCS"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_rows_columns_or_terms(dtype, layouts):
    """Equal to NumPy in double precision to what the rounding of so many terms allows, and no element missed."""
    for m, k, n in SHAPES:
        a, b, c, d = (
            laid_out(s, dtype, x) for s, x in zip([(m, k), (k, n), (m, n), (m, n)], layouts + layouts[2], strict=True)
        )
        exact = a.astype(np.float64) @ b.astype(np.float64)
        bound = 4 * np.finfo(dtype).eps * np.sqrt(k) * (np.abs(a).astype(np.float64) @ np.abs(b) + 10)
        more, less = c + exact, d - exact
        found = products(a, b, c, a, b, d, a, b)
        assert found.dtype == dtype
        for x, expected in ((found, exact), (c, more), (d, less)):
            assert np.all(np.abs(x - expected) <= bound), (m, k, n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_short_rows_of_a_known_length(dtype):
    """A vector times a matrix whose rows fit registers: of no terms, of many, of rows that do not lie side by side."""

    @dlvm.jit
    def products(x, w):
        rows = w.reshape(len(x), 64)
        return x @ rows.reshape(2 * len(x), 32)[: len(x)], x @ rows[:, ::2]

    for k in (0, 1, 301, 5000):
        x, w = RNG.standard_normal(k).astype(dtype), RNG.standard_normal(64 * k).astype(dtype)
        rows = w.reshape(k, 64).astype(np.float64)
        for found, b in zip(products(x, w), (rows.reshape(2 * k, 32)[:k], rows[:, ::2]), strict=True):
            bound = 4 * np.finfo(dtype).eps * np.sqrt(k) * (np.abs(x) @ np.abs(b) + 10)
            assert found.dtype == dtype
            assert np.all(np.abs(found - x @ b) <= bound), k


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_few_rows_and_terms_of_complex_numbers(dtype):
    """Products, sums and differences; what has few rows or few terms alone is left to BLAS."""
    for m, k, n in [(1, 2, 40), (2, 2, 2100), (3, 5, 33), (8, 8, 101), (8, 9, 64), (9, 7, 64), (70, 5, 8)]:
        a, b, c, d = (
            laid_out(s, dtype, "C") + dtype(1j) * laid_out(s, dtype, "C") for s in [(m, k), (k, n), (m, n), (m, n)]
        )
        exact = a.astype(np.complex128) @ b.astype(np.complex128)
        bound = 8 * np.finfo(dtype).eps * (np.abs(a).astype(np.float64) @ np.abs(b) + 10)
        more, less = c + exact, d - exact
        found = products(a, b, c, a, b, d, a, b)
        assert found.dtype == dtype
        for x, expected in ((found, exact), (c, more), (d, less)):
            assert np.all(np.abs(x - expected) <= bound), (m, k, n)


# (rows, terms, columns, layouts of both) that are long enough for threads: sums that are cut, columns, rows, and the
# products of contiguous terms by columns and by rows; with remainders of all steps
LONG = [(7, 1301, 351, "CC"), (3, 111, 8300, "CC"), (651, 7, 701, "CC"), (6, 701, 707, "CF"), (707, 701, 5, "CF")]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.usefixtures("eager_threads")
def test_the_same_bits_for_any_number_of_threads(dtype):
    """Where a product is cut depends on its extents alone; without threads it is cut there as well."""
    alone = dlvm.jit(lambda a, b: a @ b, parallel=False)
    for m, k, n, (left, right) in LONG:
        given = [laid_out(s, dtype, x) for s, x in (((m, k), left), ((k, n), right), ((m, n), "C"), ((m, n), "S"))]
        a, b, c, d = given
        results = []
        for count in (1, 2, 3):
            dlvm.set_num_threads(count)
            more, less = c.copy(), laid_out((m, n), dtype, "S")
            less[:] = d
            results.append((products(a, b, more, a, b, less, a, b), more, less))
        if dtype is np.float32:
            results.append((alone(a, b), *results[0][1:]))
        exact = a.astype(np.float64) @ b.astype(np.float64)
        bound = 4 * np.finfo(dtype).eps * np.sqrt(k) * (np.abs(a).astype(np.float64) @ np.abs(b) + 10)
        for x, expected in zip(results[0], (exact, c + exact, d - exact), strict=True):
            assert np.all(np.abs(x - expected) <= bound), (m, k, n)
        for other in results[1:]:
            assert [x.tobytes() for x in other] == [x.tobytes() for x in results[0]], (m, k, n)


@pytest.mark.parametrize("has_masks", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.usefixtures("eager_threads")
def test_few_rows_with_wide_vectors_and_narrow_ones(monkeypatch, dtype, has_masks):
    """All heights and widths of tiles; with wide ones the same bits beside other rows and other columns."""
    if has_masks and not compile.has_masks():
        pytest.skip("this CPU has no wide vectors")
    monkeypatch.setattr(driver, "has_masks", lambda: has_masks)
    f = dlvm.jit(lambda a, b: a @ b)
    a, b = (RNG.standard_normal(s).astype(dtype) for s in ((16, 200), (200, 2003)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = 4 * np.finfo(dtype).eps * np.sqrt(200) * (np.abs(a).astype(np.float64) @ np.abs(b) + 10)
    whole = f(a[:8], b)
    for m in range(2, 17):
        for n in (50, 97, 160, 263, 2003):
            found = f(a[:m], b[:, :n])
            assert np.all(np.abs(found - exact[:m, :n]) <= bound[:m, :n]), (m, n)
            if has_masks and m <= 8:
                np.testing.assert_array_equal(found, whole[:m, :n])


@pytest.mark.usefixtures("eager_threads")
def test_the_same_bits_of_complex_products():
    a, b = (laid_out(s, np.complex128, "C") * (1 + 2j) for s in ((7, 8), (8, 9001)))
    found = []
    for count in (1, 2, 3):
        dlvm.set_num_threads(count)
        found.append((dlvm.jit(lambda a, b: a @ b)(a, b)).tobytes())
    assert found[0] == found[1] == found[2]
    np.testing.assert_allclose(np.frombuffer(found[0], np.complex128).reshape(7, -1), a @ b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=pytest.mark.slow), np.float64, np.complex128])
def test_a_matrix_times_its_own_transpose(dtype):
    """Both triangles are written, and equal; a matrix that only begins at the same place is not taken for it."""
    gram = dlvm.jit(lambda a: (a @ a.T, a.T @ a))
    part = dlvm.jit(lambda a: a[:70] @ a[:, :70])
    for n, k in ((65, 40), (100, 33), (33, 129)):
        a = (RNG.standard_normal((n, k)) + (1j if dtype is np.complex128 else 0)).astype(dtype)
        for given in (a, np.asfortranarray(a)):
            for found, expected in zip(gram(given), (a @ a.T, a.T @ a), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-4 if dtype is np.float32 else 1e-12)
                assert dtype is np.complex128 or np.array_equal(found, found.T)
    a = RNG.standard_normal((70, 70)).astype(dtype)
    np.testing.assert_allclose(part(a), a @ a, rtol=1e-12, atol=1e-3 if dtype is np.float32 else 1e-11)


@pytest.mark.parametrize("has_masks", [True, False])
@pytest.mark.usefixtures("eager_threads")
def test_long_products_with_the_own_transpose(monkeypatch, has_masks):
    """By wide vectors and by narrow ones, of any number of threads, the same bits; numbers that are not finite."""
    if has_masks and not compile.has_masks():
        pytest.skip("this CPU has no wide vectors")
    monkeypatch.setattr(driver, "has_masks", lambda: has_masks)
    gram = dlvm.jit(lambda a, b: (a @ a.T, b.T @ b))
    for dtype, digits in ((np.float64, 1e-11), (np.float32, 2e-3)):
        # less than a panel, several terms at a time and of a span, squares with rests of rows, columns and vectors
        for n, k in ((12, 5000), (35, 1003), (193, 257), (211, 6007), (300, 12)):
            a = RNG.standard_normal((n, k)).astype(dtype)
            b = np.asfortranarray(a).T if n % 2 else a[::-1].T
            exact = a.astype(np.float64) @ a.T.astype(np.float64)
            found = []
            for count in (1, 2, 3):
                dlvm.set_num_threads(count)
                found.append(gram(a, b))
            for x, y in zip(found[0], (exact, exact if n % 2 else exact[::-1, ::-1]), strict=True):
                np.testing.assert_allclose(x, y, rtol=0, atol=digits * k**0.5)
                np.testing.assert_array_equal(x, x.T)
            assert all(x.tobytes() == y.tobytes() for more in found[1:] for x, y in zip(found[0], more, strict=True))
        a[[7, 200], [3, 5]] = np.inf, np.nan
        for x in gram(a, np.ascontiguousarray(a.T)):
            np.testing.assert_array_equal(np.isfinite(x), np.isfinite(a @ a.T))
            np.testing.assert_array_equal(np.isnan(x), np.isnan(a @ a.T))


def weighted(x, w):
    """Products of matrices and their own transposes, of one that is written in between, of real and imaginary parts."""
    y = x.copy()
    before = y.T
    y[0] = 2.0 * y[0]
    z = before[:3, :3] @ y[:3, :3] + y @ y.T  # both views see what was written
    old = y.T.copy()
    y[1] = 3.0 * y[1]
    return ((x @ x.T + z + y @ old) * w).sum() + (np.exp(-(x.T @ x)) * w * w).sum()


def hermitian(x, w):
    return np.real((x @ x.T + x @ np.conj(x.T) + np.dot(x.T, x)) * w).sum() ** 2


@pytest.mark.parametrize("function", [weighted, hermitian])
def test_gradients_of_products_with_the_own_transpose(function):
    """Against differences, in reverse and forward mode, and differentiated again."""
    x, w, d, e = (RNG.standard_normal((3, 3)) for _ in range(4))
    if function is hermitian:
        x, w, d, e = x + 0.5j * d, w + 0.2j * e, d - 1j * e, e + 1j * x
    gradient = dlvm.grad(function)
    step = 1e-5
    expected = (function(x + step * d, w) - function(x - step * d, w)) / (2 * step)
    np.testing.assert_allclose(np.vdot(gradient(x, w), d).real, expected, rtol=1e-7)
    np.testing.assert_allclose(dlvm.jvp(function, (x, w), (d, None))[1], expected, rtol=1e-7)
    if function is weighted:
        along = (gradient(x + step * d, w) - gradient(x - step * d, w)) / (2 * step)
        np.testing.assert_allclose(dlvm.hvp(function)(x, w, d), along, rtol=1e-5, atol=1e-6)


def test_both_factors_of_a_product_get_one_adjoint():
    ways = [lambda x: x @ x.T, lambda x: x.T @ x, lambda x: np.inner(x, x), lambda x: np.einsum("ij,kj->ik", x, x),
            lambda x: np.cov(x), lambda x: np.dot(x, np.transpose(x))]  # fmt: skip
    x = RNG.standard_normal((4, 4))
    for way in ways:
        text = dlvm.grad(lambda x, w, way=way: (way(x) * w).sum()).ir(x, x, stage="optimizable")
        assert text.count(" dot ") == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_products(dtype):
    """Tiles of every width and rest, of any strides of the left factor; added, and subtracted."""
    f = dlvm.jit(lambda a, b: a @ b)

    def update(c, a, b):
        c += a @ b
        c[:, 1:] -= a @ b[:, 1:]
        return c

    g, rng = dlvm.jit(update), np.random.default_rng(0)
    extents = (1, 41, 3), (2, 1, 2), (4, 8, 1), (5, 15, 7), (7, 3, 0), (9, 34, 12), (3, 0, 4), (250, 4, 4), (24, 25, 26)
    for m, n, k in extents:
        a, b, c = (rng.normal(size=shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
        tolerance = {"rtol": 0, "atol": 40 * np.finfo(dtype).eps * max(k, 1)}
        for left in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2], a[::-1]):
            np.testing.assert_allclose(f(left, b), left @ b, **tolerance)
        np.testing.assert_allclose(f(a, np.asfortranarray(b)), a @ b, **tolerance)
        np.testing.assert_allclose(g(c.copy(), a, b), update(c.copy(), a, b), **tolerance)
