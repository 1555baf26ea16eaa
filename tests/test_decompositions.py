"""np.linalg's decompositions: values, errors and structures against NumPy; derivatives against differences."""

import numpy as np
import pytest

import dlvm_py as dlvm

RNG = np.random.default_rng(3)
A = RNG.standard_normal((4, 4))
Z = A + 1j * RNG.standard_normal((4, 4))
TALL = RNG.standard_normal((5, 3))
W = RNG.standard_normal((9, 9))
STACK = RNG.standard_normal((2, 1, 3, 3))


def same(got, want, single=False):
    """Equal classes, dtypes and shapes, and values to rounding, of arrays and tuples of them."""
    assert type(got) is type(want)
    if isinstance(want, tuple):
        for g, w in zip(got, want, strict=True):
            same(g, w, single)
        return
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-5 if single else 1e-11)


def square(a):
    return (
        np.linalg.eigh(a),
        np.linalg.eigh(a, UPLO="U").eigenvectors,
        np.linalg.eigvalsh(a),
        np.linalg.svd(a, hermitian=True),
        np.linalg.svd(a, hermitian=True, compute_uv=False),
        np.linalg.pinv(a, hermitian=True),
    )


def general(a):
    return np.linalg.eig(a), np.linalg.eigvals(a)


def rectangular(a):
    return (
        np.linalg.svd(a),
        np.linalg.svd(a, full_matrices=False).U,
        np.linalg.svdvals(a),
        np.linalg.qr(a),
        np.linalg.qr(a, mode="complete").Q,
        np.linalg.qr(a, "r"),
        np.linalg.pinv(a),
        np.linalg.pinv(a, rtol=1e-9),
        np.linalg.matrix_rank(a),
        np.linalg.matrix_rank(a, tol=1.0),
    )


SQUARE, GENERAL, RECTANGULAR = dlvm.jit(square), dlvm.jit(general), dlvm.jit(rectangular)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "x",
    [
        A,
        Z,
        pytest.param(A.astype(np.float32), marks=SLOW),
        pytest.param(Z.astype(np.complex64), marks=SLOW),
        pytest.param(np.round(A * 4).astype(int), marks=SLOW),
        pytest.param(STACK, marks=SLOW),
        pytest.param(STACK + 1j * STACK[::-1], marks=SLOW),
    ],
    ids=lambda x: f"{x.dtype}-{x.ndim}",
)
def test_values_are_numpys(x):
    """For all dtypes and stacks; single precision is computed in double, as NumPy does."""
    single = x.dtype in (np.float32, np.complex64)
    same(SQUARE(x), square(x), single)
    same(RECTANGULAR(x), rectangular(x), single)
    if x.dtype.kind == "c":
        same(GENERAL(x), general(x), single)


@pytest.mark.parametrize(
    "x",
    [
        TALL,
        np.empty((0, 3)),
        np.empty((3, 0)),
        np.ones((3, 3)),
        pytest.param(TALL.T, marks=SLOW),
        pytest.param(A[::2], marks=SLOW),
    ],
    ids=np.shape,
)
def test_shapes_and_layouts(x):
    same(RECTANGULAR(x), rectangular(x))
