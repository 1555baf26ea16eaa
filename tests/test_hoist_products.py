"""Products in loops: one matrix product before the loop, or some trips of it, where that is what the trips make."""

import re

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

rng = np.random.default_rng(3)


def triangular(a, b):
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])


def factors(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]


def orthogonal(a, r):
    for k in range(a.shape[1]):
        r[k, k] = np.sqrt(a[:, k] @ a[:, k])
        a[:, k] /= r[k, k]
        for j in range(k + 1, a.shape[1]):
            r[k, j] = a[:, k] @ a[:, j]
            a[:, j] -= a[:, k] * r[k, j]


def in_a_cube(c, x, out):
    for k in range(2, c.shape[2]):
        out[k] = c[1, 1:, k] @ x[:-1] + 2 * (x[:-1] @ c[0, 1:, k])


def column_by_rows(a, b, out):
    for i in range(b.shape[0]):
        out[i] = a[:, 0] @ b[i, :]


def sums(a, x, s):
    for j in range(a.shape[1]):
        s += x @ a[:, j]
    return s


def triangle_of_rows(a, out):
    for i in range(1, a.shape[0]):
        out[i, i:] += a[i:, :] @ a[:, i]


def correlations(a, m):
    c = np.eye(m)
    for i in range(m - 1):
        c[i + 1 : m, i] = c[i, i + 1 : m] = a[:, i] @ a[:, i + 1 : m] / 2.0
    return c


def turned(a, out, s):
    for i in range(a.shape[0]):
        y = a[:, i:].T @ a[:, i]
        out[i, i:] -= y
        s += y[0] * (a[i] @ a[:, 0])
    return s


def one_matrix(a, x, out):
    for i in range(x.shape[0]):
        out[:, i] = a @ x[i]


def band(a, out):
    for i in range(a.shape[1] - 3):
        out[i, :3] = a[:, i] @ a[:, i : i + 3]


def falls(a, out):
    n = a.shape[0]
    for i in range(n):
        out[i, : i + 1] = a[i] @ a[:, n - 1 - i :]


def row_by_row(a):
    for i in range(a.shape[0]):
        a[i] = a[i] @ a


def next_column(a, x):
    for j in range(a.shape[1] - 1):
        a[0, j + 1] = x @ a[:, j]


def before(a, x):
    for j in range(a.shape[1]):
        a[0, j] = j
        x[j] = a[0] @ a[:, j]


def sometimes(a, x, out):
    for j in range(a.shape[1]):
        if x[j] > 0:
            out[j] = x @ a[:, j]


def stops(a, x, out):
    for j in range(a.shape[1]):
        out[j] = x @ a[:, j]
        if out[j] > 0:
            break


def rows(a, x, out):
    for i in range(a.shape[0]):
        out[i] = a[i] @ x


def square(n, dtype=np.float64):
    return (rng.standard_normal((n, n)) + n * np.eye(n)).astype(dtype)


def outcome(f, args):
    args = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)
    try:
        return f(*args), args, None
    except (IndexError, ValueError) as e:
        return None, args, (type(e), str(e))


HOISTED = (
    (triangular, lambda n, t: (square(n, t), square(n, t)[:, : n + 3])),
    pytest.param(factors, lambda n, t: (square(n, t),), marks=pytest.mark.slow),
    pytest.param(orthogonal, lambda n, t: (square(n, t), np.zeros((n, n), t)), marks=pytest.mark.slow),
    (in_a_cube, lambda n, t: (rng.standard_normal((2, n, n)).astype(t), square(n, t).sum(0), np.zeros(n, t))),
    (column_by_rows, lambda n, t: (square(n, t), square(n, t), np.zeros(n, t))),
    (sums, lambda n, t: (square(n, t), square(n, t).sum(0), t(0.5))),
    pytest.param(triangle_of_rows, lambda n, t: (square(n, t), square(n, t)), marks=pytest.mark.slow),
    (correlations, lambda n, t: (square(n, t), n)),
    (turned, lambda n, t: (square(n, t), square(n, t), t(0.5))),
    (one_matrix, lambda n, t: (square(n, t)[3:], square(n, t)[1:], square(n, t)[3:, 1:])),
)
STRIPS = (triangle_of_rows, correlations, turned, one_matrix)
LEFT = (
    (next_column, lambda n: (square(n), square(n)[0])),
    (before, lambda n: (square(n), square(n)[0])),
    (sometimes, lambda n: (square(n), square(n)[0], np.zeros(n))),
    (stops, lambda n: (square(n), square(n)[0], np.zeros(n))),
    (rows, lambda n: (square(n), square(n)[0], np.zeros(n))),
    (band, lambda n: (square(n), square(n))),
    (falls, lambda n: (square(n), square(n))),
    (row_by_row, lambda n: (square(n) / n,)),
)


def compare(f, compiled, args, tolerance=1e-10):
    wanted, found = outcome(f, args), outcome(compiled, args)
    assert found[2] == wanted[2]
    for x, y in zip((found[0], *found[1]), (wanted[0], *wanted[1]), strict=True):
        if y is not None:
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
            assert np.asarray(x).dtype == np.asarray(y).dtype


@pytest.mark.parametrize(("f", "make"), HOISTED, ids=lambda v: getattr(v, "__name__", ""))
def test_products_of_all_trips_are_one(f, make, monkeypatch):
    monkeypatch.setenv("DLVM_VERIFY", "1")
    compiled = dlvm.jit(f)
    for n in (130 if f in STRIPS else 40, 9, 2, 0):
        compare(f, compiled, make(n, np.float64))
    assert "'product" in compiled.ir(*make(40, np.float64), stage="compute")


@pytest.mark.parametrize(("f", "make"), LEFT, ids=lambda v: getattr(v, "__name__", ""))
def test_products_that_stay_in_their_loop(f, make):
    args = make(30)
    assert "'product" not in dlvm.jit(f).ir(*args, stage="compute")
    if f in (next_column, before, row_by_row):
        compare(f, dlvm.jit(f), args)


def test_other_dtypes_layouts_and_numbers():
    compiled = dlvm.jit(sums)
    a, x = square(24), square(24)[0]
    compare(sums, compiled, (a.astype(np.float32), x.astype(np.float32), np.float32(1)), 1e-4)
    compare(sums, compiled, (a + 1j, x - 2j, 1j))
    compare(sums, compiled, (np.asfortranarray(a), x, 0.5))  # columns side by side
    compare(sums, compiled, (a[::-1, ::2], x, 0.5))
    a[3, 4], a[5, 6], x[7] = np.inf, np.nan, 0.0
    compare(sums, compiled, (a, x, 0.5))
    zeros = np.full((16, 16), -0.0), np.full(16, 2.0)
    assert not np.signbit(compiled(*zeros, 0.0))


def test_arguments_that_share_memory():
    a = square(30)
    compiled = dlvm.jit(triangular)
    wanted, found = a.copy(), a.copy()
    triangular(wanted, wanted)
    compiled(found, found)
    np.testing.assert_allclose(found, wanted)


def test_what_a_trip_raises():
    """The trips before it have happened."""
    a, b = square(20), square(20)
    for args in ((a[:, :5], b), (a[:12], b), (a, b[:12])):
        compare(triangular, dlvm.jit(triangular), args)
    compare(correlations, dlvm.jit(correlations), (square(70), 74))
    compare(in_a_cube, dlvm.jit(in_a_cube), (rng.standard_normal((2, 20, 20)), a[0], np.zeros(15)))


def test_the_gradient():
    def loss(a, b):
        c = b.copy()
        triangular(a, c)
        return np.sum(c**2)

    a, b = square(20), square(20)
    gradient = dlvm.grad(loss, wrt=(0, 1))(a, b)
    for x, g, k in ((a, gradient[0], (7, 2)), (b, gradient[1], (3, 11))):
        h = np.zeros_like(x)
        h[k] = 1e-4  # the loss is some 10,000, and of the second degree along each number
        args = [tuple(v + s * h if v is x else v for v in (a, b)) for s in (1, -1)]
        np.testing.assert_allclose(g[k], (loss(*args[0]) - loss(*args[1])) / 2e-4, rtol=1e-5, atol=1e-6)


RAISED = (
    (correlations, ("a",), (0,), lambda n: (square(n), n)),
    pytest.param(turned, ("a", "s"), (0, "out"), lambda n: (square(n), square(n), 0.5), marks=pytest.mark.slow),
    (one_matrix, ("a", "x"), ("out",), lambda n: (square(n)[2:], square(n)[1:], square(n)[2:, 1:])),
    (sums, ("a", "x", "s"), (0,), lambda n: (square(n), square(n)[0], 0.5)),
)


@pytest.mark.parametrize(("f", "wrt", "of", "make"), RAISED, ids=lambda v: getattr(v, "__name__", ""))
def test_products_of_all_trips_are_one_before_differentiation(f, wrt, of, make, monkeypatch):
    monkeypatch.setenv("DLVM_VERIFY", "1")
    gradient = dlvm.grad(f, wrt=wrt, from_=of)
    names = f.__code__.co_varnames

    def total(args):
        result, args, _ = outcome(f, args)
        return sum(np.sum(result if n == 0 else args[names.index(n)]) for n in of)

    for n in (70, 3, 2):
        args = make(n)
        found = dict(zip(wrt, gradient(*args), strict=True))
        along = {n: rng.standard_normal(np.shape(g)) for n, g in found.items()}
        moved = [
            [v + h * along[n] if n in along else v for n, v in zip(names, args, strict=False)] for h in (1e-6, -1e-6)
        ]
        difference = (total(moved[0]) - total(moved[1])) / 2e-6
        np.testing.assert_allclose(
            sum(np.sum(g * along[n]) for n, g in found.items()), difference, rtol=1e-5, atol=1e-5
        )
    assert ("'strips" in gradient.ir(*make(5), stage="optimizable")) == (f is one_matrix)


def test_columns_that_an_outer_counter_begins():
    """That `i + (n - i - 1)` is a column is asked of the arrays: the counter goes out."""

    def upper(a):
        b = np.exp(a)
        for i in range(b.shape[0]):
            for j in range(i, b.shape[0]):
                b[i, j] -= b[i, :i] @ b[:i, j]
        return np.sum(np.sin(b))

    gradient = dlvm.grad(upper)
    assert re.search(r"dot %\S+: <_ x f64>, %\S+: <_ x _ x f64>", gradient.ir(np.ones((3, 3)), stage="optimizable"))
    for shape in ((1, 1), (7, 7), (40, 40), (5, 9)):
        a, along = rng.standard_normal(shape) / 9, rng.standard_normal(shape)
        difference = (upper(a + 1e-6 * along) - upper(a - 1e-6 * along)) / 2e-6
        np.testing.assert_allclose(np.sum(gradient(a) * along), difference, rtol=1e-5, atol=1e-5)
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 1 with size 4"):
        gradient(np.ones((6, 4)))


def covariances(a, m):
    c = np.zeros((m, m))
    for i in range(m):
        c[i:m, i] = c[i, i:m] = a[:, i] @ a[:, i:m] / 2.0
    return c


def of_rows(a, m):
    c = np.ones((a.shape[0], a.shape[0]))
    for i in range(m):
        c[i, i:] *= a[i] @ a[i:].T
    return c


def of_rows_behind(a, m):
    c = np.ones((a.shape[0], a.shape[0] + 1))
    for i in range(m - 1):
        c[i, i + 1 : a.shape[0]] += a[i + 1 :] @ a[i]
    return c


def energies(a, m):
    e = 0.0
    for i in range(m):
        e += np.sum(np.exp(-(a[:, i] @ a[:, i:])))
    return e


def cut_off(a, m):
    c = np.zeros((m, m))
    for i in range(m):
        c[i, i : m - 2] = a[:, i] @ a[:, i : m - 2]
    return c


def apart(x):
    """The same, its columns stored one after another with gaps between their elements."""
    return np.repeat(x.T, 2, axis=1)[:, ::2].T


OWN = (covariances, correlations, of_rows, of_rows_behind, energies, cut_off)


@pytest.mark.parametrize("f", OWN, ids=lambda f: f.__name__)
def test_products_with_own_columns_are_one(f, monkeypatch):
    """Where rows are stored, the loop has one product with the own transpose; its gradient is right."""
    monkeypatch.setenv("DLVM_VERIFY", "1")
    gradient = dlvm.value_and_grad(lambda a, m: np.sum(np.sin(f(a, m))))
    text = gradient.ir(np.ones((3, 3)), 3, stage="optimizable")
    assert ("'strips" in text) == (f is energies)
    assert f is energies or re.search(r"dot %\S+: <_ x _ x f64>, %\S+: <_ x _ x f64>", text)
    for rows, m in ((5, 3), (1, 1), (3, 2), (7, 0), (0, 4), (70, 67), (9, 130)):
        for make in (np.ascontiguousarray, *([apart] if f in (covariances, of_rows) else [])):
            shape = (m, rows) if f in (of_rows, of_rows_behind) else (rows, m)
            a = make(rng.standard_normal(shape) / 4)
            value, found = gradient(a, m)
            np.testing.assert_allclose(value, np.sum(np.sin(f(a, m))), rtol=1e-9, atol=1e-9)
            along = rng.standard_normal(shape)
            wanted = [np.sum(np.sin(f(a + h * along, m))) for h in (1e-6, -1e-6)]
            np.testing.assert_allclose(np.sum(found * along), (wanted[0] - wanted[1]) / 2e-6, rtol=1e-5, atol=1e-5)


def test_own_columns_of_other_dtypes():
    for dtype, tolerance in ((np.float32, 1e-3), (np.complex128, 1e-9)):
        a = square(20).astype(dtype)

        def total(a):
            c = np.zeros((20, 20), a.dtype)
            for i in range(20):
                c[i, i:] = a[:, i] @ a[:, i:]
            return np.sum(c.real)

        upper = np.triu(np.ones((20, 20)))
        expected = np.conj(a) @ (upper + upper.T)
        found = dlvm.grad(total)(a)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_a_column_that_is_not_finite_is_in_no_other_product():
    """Of what nobody takes, the diagonal, no zero is multiplied by an infinity."""
    a = square(12)
    a[3, 7] = np.inf
    found = dlvm.grad(lambda a: np.sum(correlations(a[:, :8], 8)))(a)
    assert np.isfinite(found[:, 7:]).all() and np.isinf(found[3, :7]).all()
    assert np.isfinite(np.delete(found, 3, 0)).all()


def test_what_no_trip_computes_leaves_no_trace():
    """Infinities are not multiplied by the zeros of a triangle that nobody asked for."""

    def upper(a, b):
        out = np.zeros((a.shape[1], b.shape[1]))
        for i in range(a.shape[1]):
            out[i, i:] = a[:, i] @ b[:, i:]
        return out

    a, b = square(40), square(40)
    a[3, 20] = b[2, 30] = np.inf
    of_a, of_b = dlvm.grad(upper, wrt=("a", "b"))(a, b)
    assert np.isfinite(of_b[:, :20]).all() and np.isinf(of_b[3, 20:]).all() and np.isfinite(np.delete(of_b, 3, 0)).all()
    assert np.isfinite(of_a[:, 31:]).all() and np.isinf(of_a[2, :31]).all() and np.isfinite(np.delete(of_a, 2, 0)).all()


def test_what_is_not_so_is_not_assumed():
    """Columns that are not there raise what they raise in NumPy, at that trip."""
    gradient = dlvm.grad(sums)
    assert gradient(square(9), square(9)[0], 0.5).shape == (9, 9)
    for a, x in ((square(9), square(8)[0]), (square(9)[:, :0], square(9)[0])):
        wanted, found = outcome(sums, (a, x, 0.5)), outcome(gradient, (a, x, 0.5))
        assert found[2] == wanted[2]
