"""Loops of products whose sums get longer or shorter: what strips of trips have in common is a product of matrices."""

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

rng = np.random.default_rng(17)


def shrinking(a, b):
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])


def growing(a, b, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] += b[:i, j] @ a[i, :i]


def rows(a, b, out):
    for i in range(out.shape[0]):
        out[i] = a[i, i:] @ b[i:]


def columns(a, b, out):
    for i in range(out.shape[0]):
        out[i] -= b.T[:, : i + 1] @ a[: i + 1, i]


def substituted(a, b):
    """Each row needs those before it: there is nothing to make at once."""
    for i in range(b.shape[0]):
        b[i] -= a[i, :i] @ b[:i]


def falling(a, b):
    """The rows that a trip reads are those that the one before has written."""
    for i in range(b.shape[0] - 1):
        b[i + 1] += a[i:, i] @ b[i:]


def moving(a, b, out):
    """Both ends of the sums move."""
    for i in range(out.shape[0] // 2):
        out[i] += a[i, i : 2 * i] @ b[i : 2 * i]


def corners(a, b, out):
    """Each trip has fewer columns than the one before, and fewer terms."""
    for i in range(min(out.shape)):
        out[i, i:] += a[i, i + 1 :] @ b[i + 1 :, i:]


def triangles(a, b, out):
    """And more."""
    for i in range(min(out.shape)):
        out[i, :i] += b[:i, :i].T @ a[:i, i]


def some_columns(a, b, out):
    """As many columns, but others."""
    for i in range(out.shape[1] - 3):
        out[i, :3] += a[i, i:] @ b[i:, i:][:, :3]


def parts_of_parts(a, b, out):
    """What is a part of both ends at the same place of it, and so at another one of them."""
    h = out.shape[0] // 2
    for i in range(h):
        out[i] += a[i, i:][i:h] @ b[i:][i:h]


COMMON = (shrinking, growing, rows, columns)
SLOW = (pytest.param(f, marks=pytest.mark.slow) for f in (rows, falling, moving, triangles, some_columns))
EACH = (shrinking, growing, columns, substituted, corners, parts_of_parts, *SLOW)


def arguments(f, n, m, dtype=np.float64):
    """A matrix of n by n and others of n by m."""
    shapes = [(n, n)] + [(n, m)] * (f.__code__.co_argcount - 1)
    found = [rng.standard_normal(s) / max(n, 1) for s in shapes]
    if np.dtype(dtype).kind == "c":
        found = [v + 1j * rng.standard_normal(v.shape) for v in found]
    return [v.astype(dtype) for v in found]


def names(f):
    return f.__code__.co_varnames[: f.__code__.co_argcount]


def after(f, args):
    """The array that a call writes."""
    args = [v.copy() for v in args]
    f(*args)
    return args[-1]


def raised(f, args):
    """What a call leaves of its arguments, and what it raises."""
    args = [v.copy(order="K") for v in args]
    try:
        f(*args)
    except (IndexError, ValueError) as e:
        return args, str(e)
    return args, None


def compare(f, compiled, args, tolerance=1e-10):
    (wanted, error), (found, found_error) = raised(f, args), raised(compiled, args)
    assert found_error == error
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("f", EACH, ids=lambda f: f.__name__)
def test_functions(f, monkeypatch):
    """Sizes with strips, of a whole number of trips or some more, and without; views; what is not finite."""
    monkeypatch.setenv("DLVM_VERIFY", "1")
    compiled = dlvm.jit(f)
    for n, m in ((40, 9), (33, 8), (32, 20), (31, 9), (32, 7), (64, 1), (17, 9), (1, 1), (0, 9), (40, 0)):
        compare(f, compiled, arguments(f, n, m))
    assert ("'strips" in compiled.ir(*arguments(f, 5, 4), stage="compute")) == (f in COMMON)
    args = arguments(f, 50, 10)
    compare(f, compiled, [np.repeat(v, 2, axis=0)[::2] for v in args])
    compare(f, compiled, [v[:, ::-1] for v in args])
    args[0][3, 3], args[0][20, 10], args[0][10, 20], args[1][30, 4], args[1][7, 2] = (
        np.nan,
        np.inf,
        -np.inf,
        np.inf,
        -0.0,
    )
    with np.errstate(invalid="ignore"):
        compare(f, compiled, args)


@pytest.mark.parametrize("f", (shrinking, growing), ids=lambda f: f.__name__)
def test_functions_of_other_dtypes(f):
    compiled = dlvm.jit(f)
    singles = ((np.float32, 1e-4), (np.complex64, 1e-4))
    doubles = ((np.complex128, 1e-10), (np.int64, 0), (">f8", 1e-10))
    for dtype, tolerance in doubles if f is shrinking else singles:
        compare(f, compiled, [v * 5 for v in arguments(f, 45, 11, dtype)], tolerance)


@pytest.mark.parametrize("f", (shrinking, growing), ids=lambda f: f.__name__)
def test_what_a_trip_raises(f):
    """The trips before it have happened."""
    compiled = dlvm.jit(f)
    args = arguments(f, 50, 10)
    for k, part in ((0, np.s_[:, :40]), (0, np.s_[:40]), (1, np.s_[:45]), (-1, np.s_[:45]), (-1, np.s_[:, :9])):
        changed = list(args)
        changed[k] = changed[k][part].copy()
        compare(f, compiled, changed)


def test_arguments_that_share_memory():
    compiled, a = dlvm.jit(shrinking), rng.standard_normal((50, 50)) / 50
    for f in (lambda f, x: f(x, x), lambda f, x: f(x[:, :-1].T, x[1:]), lambda f, x: f(x[1:, :-1], x[:-1])):
        wanted, found = a.copy(), a.copy()
        f(shrinking, wanted)
        f(compiled, found)
        np.testing.assert_allclose(found, wanted)


def loss(f):
    def of(*args):
        args = [v.copy() for v in args]
        f(*args)
        return np.sum(np.sin(args[-1]))

    return of


def gradient(f):
    """Of the sum of the sines of what `f` writes; `loss` has no signature to write it with."""
    if f.__code__.co_argcount == 2:

        def total(a, b):
            b = b.copy()
            f(a, b)
            return np.sum(np.sin(b))

    else:

        def total(a, b, out):
            out = out.copy()
            f(a, b, out)
            return np.sum(np.sin(out))

    return dlvm.grad(total, wrt=names(f))


@pytest.mark.parametrize("f", EACH, ids=lambda f: f.__name__)
def test_gradients(f, monkeypatch):
    monkeypatch.setenv("DLVM_VERIFY", "1")
    compiled, of = gradient(f), loss(f)
    text = compiled.ir(*arguments(f, 5, 4), stage="optimizable")
    assert ("'strips" in text) == (f in COMMON)
    for n, m in ((40, 9), (33, 1), (32, 5), (17, 5), (16, 3), (2, 2), (1, 1), (0, 3), (20, 0)):
        args = arguments(f, n, m)
        found = compiled(*args)
        along = [rng.standard_normal(v.shape) for v in args]
        ways = [of(*(v + h * d for v, d in zip(args, along, strict=True))) for h in (1e-6, -1e-6)]
        product = sum(np.sum(g * d) for g, d in zip(found, along, strict=True))
        np.testing.assert_allclose(product, (ways[0] - ways[1]) / 2e-6, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("f", (shrinking, growing), ids=lambda f: f.__name__)
def test_gradients_of_views(f):
    """Rows that are not next to each other, columns, reversed ones: the gradients of the same numbers."""
    compiled, args = gradient(f), arguments(f, 35, 6)
    wanted = compiled(*args)
    for view in (
        lambda v: np.asfortranarray(v),
        lambda v: np.repeat(v, 2, axis=0)[::2],
        lambda v: v[::-1, ::-1].copy()[::-1, ::-1],
    ):
        for x, y in zip(compiled(*map(view, args)), wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype, tolerance", ((np.float32, 2e-4), (np.complex128, 1e-9)))
def test_other_dtypes(dtype, tolerance):
    a, b = arguments(shrinking, 40, 7, dtype)

    def total(a, b):
        b = b.copy()
        shrinking(a, b)
        return np.sum(b.real)

    of_a, of_b = dlvm.grad(total, wrt=("a", "b"))(a, b)
    strict = np.tril(np.ones((40, 40)), -1)
    ones = np.ones((40, 7))
    np.testing.assert_allclose(of_b, ones + np.conj(strict * a) @ ones, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(of_a, strict * (np.conj(b) @ ones.T), rtol=tolerance, atol=tolerance)
    assert of_a.dtype == of_b.dtype == dtype


def test_what_no_trip_multiplies_leaves_no_trace():
    """What is not finite above the diagonal is in no product, nor are the zeros of its derivative."""
    a, b = arguments(shrinking, 40, 7)
    wanted = gradient(shrinking)(a, b)
    a[np.triu_indices(40)] = np.nan
    for x, y in zip(gradient(shrinking)(a, b), wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def test_errors_come_at_their_trip():
    """Columns that are not there, sums that do not fit: what NumPy raises."""
    compiled = gradient(shrinking)
    a, b = arguments(shrinking, 40, 7)
    for given in ((a[:, :30], b), (a[:39], b), (a, b[:39]), (a, b[:, :0])):
        try:
            loss(shrinking)(*given)
        except (IndexError, ValueError) as e:
            with pytest.raises(type(e), match=str(e).split("(")[0]):
                compiled(*given)
        else:
            compiled(*given)
