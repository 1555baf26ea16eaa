"""target="gpu": what libraries compute, beside kernels, in one program."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.runtime.gpu.device import live


@pytest.fixture(autouse=True)
def emulator(monkeypatch):
    monkeypatch.setenv("DLVM_GPU", "emulator")


def ordered(x, y):
    y[::2] = np.sort(x[:, 1] * 2.0)[::-1]  # of a tree, and of a view; to every other element
    return np.sort(x.T, axis=0), np.argsort(x, axis=1), np.median(x), np.sort(x[:0, 0])


def transformed(x):
    return np.fft.fft(x), np.fft.irfft(np.fft.rfft(x[0])), np.fft.fft2(x[::-1]), np.fft.fft(x[:0])


def factored(a, b):
    w, v = np.linalg.eigh(a + a.T)
    q, r = np.linalg.qr(a)
    return (
        np.linalg.solve(a, b),
        np.linalg.cholesky(np.dot(a, a.T)),
        np.linalg.det(a),
        np.dot(v * w, v.T),
        np.linalg.svd(a.T)[1],
        np.dot(q, r),
        np.linalg.lstsq(a, b[:, 0])[0],
    )


def _of(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


CASES = [
    (ordered, lambda: (_of(5, 7), np.zeros(10))),
    (transformed, lambda: (_of(4, 6),)),
    (factored, lambda: (_of(4, 4) + 4.0 * np.eye(4), np.asfortranarray(_of(4, 2, seed=1)))),
]


@pytest.mark.parametrize(("function", "make"), CASES)
def test_numbers_are_those_of_numpy(function, make):
    given, plain, before = make(), make(), live()
    got, expected = dlvm.jit(function, target="gpu")(*given), function(*plain)
    for a, b in zip((*got, *given), (*expected, *plain), strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-12)
        assert np.asarray(a).dtype == np.asarray(b).dtype
    assert live() == before


def loss(a, b):
    return np.sum(np.sort(np.linalg.solve(a, b) ** 2) * np.arange(3.0))


def test_gradients_go_through_libraries():
    a, b = _of(3, 3) + 3.0 * np.eye(3), _of(3, seed=1)
    got, expected = (dlvm.grad(f, wrt=(0, 1))(a, b) for f in (dlvm.jit(loss, target="gpu"), loss))
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_allclose(x, y, 1e-12)


def test_exceptions_of_a_library_are_those_of_numpy():
    before = live()
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        dlvm.jit(lambda a: np.linalg.solve(a, a), target="gpu")(np.zeros((2, 2)))
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        dlvm.jit(lambda a: np.linalg.eigh(a)[0], target="gpu")(np.full((3, 3), np.nan))
    assert live() == before
