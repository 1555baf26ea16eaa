"""target="gpu": NumPy's functions by dtype, layout and extent, against NumPy, with what is written to arguments."""

import warnings

import numpy as np
import pytest
from test_gpu import same

import dlvm_py as dlvm

pytestmark = pytest.mark.slow
DTYPES = ["f8", "f2", "i4", "u1", "?", "c16"]
K = np.array([3, -1, 0, 3, 2])
MASK = np.array([True, False, True, True, False, False, True])


def products(m, n):
    return m @ n.T, np.dot(m[0], n[0]), m.T @ n[:, 0], np.matmul(m[None, :2], n.T)


def turned(m, n):
    return m[::-1], np.flip(n), np.roll(m[0], 1), np.concatenate((m, n), axis=1), np.stack((m, n), axis=-1)


def taken(m, n):
    return m[K], n[:, K], m[K[:, None], K], np.take(n, K, axis=1), m[MASK], n[:, MASK][MASK]


def written(m, n):
    m[K, K[::-1]] = n[0, K]
    m[1:, ::2] = n[:-1, ::2]
    n[MASK] = m[0, 0]
    n[n == m] = 1


def added(m, n):
    np.add.at(m, K, n[:5])
    n[0] += m[K[0]]


def ordered(m, n):
    return np.sort(m, axis=0), np.argsort(n, axis=1, kind="stable"), np.cumsum(m, axis=0), np.cumprod(n[:, 0])


def found(m, n):
    return np.nonzero(m), np.argmax(m), n.argmin(axis=1), np.where(MASK, m, n), np.count_nonzero(n)


def reduced(m, n):
    return m.sum(axis=0), m.sum(axis=1, keepdims=True), n.prod(axis=0), m.max(axis=1), n.min(), m.any(axis=0), n.all()


def cast(m, n):
    return (
        m.astype(np.float32),
        n.astype(np.int32),
        m.astype(np.complex128),
        n.astype(np.bool_),
        m + n.astype(np.float16),
    )


def in_place(m, n):
    m *= n
    m[0] = m[::-1][0] + n[0]
    for i in range(m.shape[0]):
        n[i] = n[i] * m[i, 0]
    return n.T


FUNCTIONS = [products, turned, taken, written, added, ordered, found, reduced, cast, in_place]


def _array(dtype, extent, seed):
    """Numbers with ties, signed where there is a sign."""
    x = np.random.default_rng(seed).integers(-4 if dtype not in "u1?" else 0, 5, (extent, extent)) / (
        2 if dtype < "i" else 1
    )
    return (x + 0.5j * x.T if dtype[0] == "c" else x).astype(dtype)


def _laid_out(x, layout):
    if layout == "F":
        return np.asfortranarray(x)
    if layout == "reversed":
        return np.flip(np.flip(x).copy())
    whole = np.zeros((2 * len(x), 3 * len(x)), x.dtype)
    whole[::2, ::3] = x
    return whole[::2, ::3] if layout == "strided" else x.copy()


def _case(dtype):
    return [_array(dtype, 7, 1), _array(dtype, 7, 2)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_numbers_and_effects(function, dtype, monkeypatch):
    monkeypatch.setenv("DLVM_GPU", "emulator")
    compiled = dlvm.jit(function, target="gpu")
    for layout in ("C", "F", "reversed", "strided") if dtype == "f8" else ("C",):
        given, expected = ([_laid_out(x, layout) for x in _case(dtype)] for _ in range(2))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers whose imaginary parts are left out
            wanted = function(*expected)
        got = compiled(*given)
        assert (got is None) == (wanted is None)
        if wanted is not None:
            same(got, wanted)
        same(tuple(given), tuple(expected))


def empty(m, n):
    m += n
    return (
        m @ n.T, m[::-1], np.concatenate((m, n)), m[m > 0], np.nonzero(m), np.sort(n, axis=0), np.cumsum(m, axis=1),
        m.sum(axis=0), n.sum(axis=1, keepdims=True), m.prod(), m.astype(np.int8), np.where(m > n, m, n), n[:, K[:0]],
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["f8", "u1"])
def test_few_elements_and_none(dtype, monkeypatch):
    monkeypatch.setenv("DLVM_GPU", "emulator")
    compiled = dlvm.jit(empty, target="gpu")
    for shape in ((0, 0), (0, 3), (3, 0), (1, 1), (1, 3), (3, 1)):
        given, expected = ([x[: shape[0], : shape[1]].copy() for x in _case(dtype)] for _ in range(2))
        same(compiled(*given), empty(*expected))
        same(given[0], expected[0])


def losses(m, n):
    out = np.zeros_like(m)
    out[K] = m[::-1][K] * 2.0
    out[:, 1] += n[K[0], :]
    np.add.at(out, K, n[:5])
    n[m > 0.3] = 0.25
    return (
        np.sum(out * np.cumsum(m, axis=0)) + np.sum(np.sort(n, axis=1) * m) + np.sum(np.where(m > n, m, n * n))
        + np.sum(np.concatenate((m, n), axis=1).max(axis=1)) + np.sum(np.stack((m, n)).prod(axis=0))
        + np.sum(m[MASK] @ n) + n[K, K].std()
    )  # fmt: skip


@pytest.mark.parametrize(("dtype", "layout"), [("f8", "C"), ("f8", "strided"), ("f4", "F")])
def test_gradients_are_those_of_the_cpu(dtype, layout, monkeypatch):
    monkeypatch.setenv("DLVM_GPU", "emulator")
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((7, 7)).astype(dtype) for _ in range(2)]
    on_gpu, on_cpu = (
        dlvm.grad(dlvm.jit(losses, target=target), wrt=(0, 1))(*(_laid_out(x, layout) for x in given))
        for target in ("gpu", "cpu")
    )
    for a, b in zip(on_gpu, on_cpu, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, 1e-4 if dtype == "f4" else 1e-11, 1e-4 if dtype == "f4" else 1e-12)
