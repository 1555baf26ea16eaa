"""Temporaries of column-major arrays for products: values, writes and gradients are those of NumPy."""

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
