"""Fresh memory of column-major arrays: values, writes, layouts of results and gradients are those of NumPy."""

import numpy as np
import pytest

import dlvm_py as dlvm


def covariances(x, w):
    return np.cov(np.transpose(x))


def several(x, w):
    t = np.exp(x.T * w[0]) + w[1]
    return t @ t.T, t.T @ t, (x.T - np.mean(x, axis=0)[:, None]) @ (x * w[2])


def in_a_loop(x, w):
    out = np.zeros((x.shape[1], x.shape[1]))
    for k in range(w.shape[0]):
        t = x.T - w[k]
        out += t @ x
        x[k, 0] = 3.0
    return out


def used_elsewhere_too(x, w):
    t = x.T * w[0]
    return t @ x, t[0], t.sum(axis=0)


@pytest.mark.parametrize("fn", [covariances, several, in_a_loop, used_elsewhere_too], ids=lambda f: f.__name__)
def test_values(fn):
    """Of small arrays, and of such that BLAS and strips of rows are for; some axes of one element."""
    rng = np.random.default_rng(0)
    compiled = dlvm.jit(fn)
    large = (700, 800) if fn is covariances else (90, 70)
    for shape in ((5, 3), (3, 3), large, (4, 1) if fn is not covariances else (4, 2)):
        x, w = rng.random(shape), rng.random(3)
        got, expected = compiled(x.copy(), w), fn(x.copy(), w)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_a_temporary_for_a_product_is_turned():
    """The memory of the centred variables lies as the data do, and the product reads it as it is."""
    text = dlvm.jit(covariances).ir(np.ones((4, 3)), np.ones(3), stage="compute")
    (dot,) = (line for line in text.splitlines() if " dot " in line)
    names = {part.split(":")[0].strip() for part in dot.split(" dot ")[1].split(">,")}
    loads = [line for line in text.splitlines() if any(f"    {name} = load" in line for name in names)]
    assert sorted("fortran" in line for line in loads) == [False, True]


def test_gradient():
    """As differences, and forward and reverse mode agree."""
    rng = np.random.default_rng(1)
    x, dx, w = rng.random((6, 4)), rng.normal(size=(6, 4)), rng.random(3)

    def total(x):
        return np.sum(covariances(x, w) ** 2) + np.sum(several(x, w)[2] ** 2)

    gradient, step = dlvm.grad(total)(x), 1e-6
    slope = (total(x + step * dx) - total(x - step * dx)) / (2 * step)
    assert np.isclose(np.sum(gradient * dx), slope, rtol=1e-6)
    assert np.isclose(dlvm.jvp(total, (x,), (dx,))[1], np.sum(gradient * dx), rtol=1e-11)


def of_views(x, y):
    return x.T + y.T, x + y, np.exp(x.T) * 2.0, np.where(x.T > 0.5, x.T, 0.0), (x.T * 2.0).astype(np.float32)


def of_both(x, y):
    return x.T + y.T.copy(), x + np.ascontiguousarray(y), x * y[0], x.T.copy() * 2.0


def of_chains(x, y):
    t = np.sqrt(x.T)
    u = t * y.T + 1.0
    return u, t, u, 3.0


def in_order(x, y):
    """What has an order of its own: copies, memory of the user's, np.ascontiguousarray of an expression."""
    out = np.empty((x.shape[1], x.shape[0]))
    out[:] = x.T * 2.0
    return out, x.T.copy(), np.ascontiguousarray(x.T * 2.0), np.ones(x.shape)


@pytest.mark.parametrize("fn", [of_views, of_both, of_chains, in_order], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(5, 7), (2, 3), (4, 0), (64, 65), (130, 517)])
def test_results_lie_as_those_of_numpy(fn, shape):
    rng = np.random.default_rng(2)
    compiled = dlvm.jit(fn)
    for order in "CF":
        x, y = (np.array(rng.random(shape), order=order) for _ in range(2))
        got, expected = compiled(x, y), fn(x, y)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-15 if np.asarray(b).dtype == float else 1e-6)
            if isinstance(b, np.ndarray) and b.size:
                assert a.strides == b.strides and a.dtype == b.dtype and a.flags.owndata and a.base is None
    assert fn is not of_chains or got[0] is got[2]


def test_a_result_that_is_written_later_or_viewed():
    """What sees the rows of an array keeps it row-major: the elements are right in any case."""

    def written(x):
        y = x.T * 2.0
        y[0] = 7.0
        return y, y[1]

    def turned(x):
        return (x.T * 2.0).T, (x * 2.0).T

    rng = np.random.default_rng(3)
    for fn in (written, turned):
        for order in "CF":
            x = np.array(rng.random((5, 4)), order=order)
            for a, b in zip(dlvm.jit(fn)(x), fn(x), strict=True):
                np.testing.assert_array_equal(a, b)


def test_either_result():
    """Of two returns one layout; of a function that calls itself, row-major memory."""

    def early(x, c):
        if c > 0:
            return x.T * 2.0
        return x + 1.0

    def recursive(x, n):
        if n == 0:
            return x * 2.0
        return recursive(x * 0.5, n - 1)

    for order in "CF":
        x = np.array(np.random.default_rng(4).random((3, 3)), order=order)
        for n in (0, 1, 2):
            np.testing.assert_array_equal(dlvm.jit(early)(x, n), early(x, n))
            np.testing.assert_array_equal(dlvm.jit(recursive)(x, n), recursive(x, n))


def test_derivatives_are_row_major():
    x = np.asfortranarray(np.random.default_rng(5).random((6, 4)))
    gradient = dlvm.grad(lambda x: np.sum(np.exp(x.T) * 2.0))(x)
    np.testing.assert_allclose(gradient, 2.0 * np.exp(x), rtol=1e-14)
    assert gradient.flags.c_contiguous
    value, pullback = dlvm.vjp(lambda x: np.exp(x.T), x)
    np.testing.assert_allclose(pullback(np.ones((4, 6)))[0], np.exp(x), rtol=1e-14)
    np.testing.assert_allclose(value, np.exp(x.T), rtol=1e-14)
