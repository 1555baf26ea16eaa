"""Functions that index: take, put, choose, conditions, diagonals, triangles, flat indices, as NumPy's."""

import numpy as np
import pytest
from indexing import check, check_gradient

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

rng = np.random.default_rng(5)
X, PLACES = np.round(rng.standard_normal((4, 5)) * 4), rng.integers(0, 4, (3, 4))
VECTOR, SMOOTH, CUBE = rng.standard_normal(9), rng.standard_normal((4, 5)), rng.standard_normal((2, 3, 4))
BEYOND = np.array([99])


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    """The IR verifier runs after every pass."""
    monkeypatch.setenv("DLVM_VERIFY", "1")


def put(a, i, w):
    np.put(a, i, w)
    np.put(a, [0, -1], [100.0, 200.0])
    return a


def put_along(a, i, w):
    np.put_along_axis(a, i, w, 0)
    return a


def masked(a, w):
    np.place(a, a > 0, w)
    np.putmask(a, a < -2, w)
    np.putmask(a, a == 0, 7)
    np.copyto(a, w[0], where=a > 100)
    np.copyto(a[0], w[:5])
    return a


def diagonals(a, w):
    np.fill_diagonal(a, 3.0)
    np.fill_diagonal(a[1:], w[:3])
    return a[np.diag_indices(4)], a


def diagonal_sees_writes(a):
    d, e = np.diagonal(a, 1), np.diag(a[1:, ::-1], -1)
    a[0, 1] = 70.0
    a[2, 4] = 80.0
    return d * 1.0, e * 2.0


CASES = {
    "diagonal_sees_writes": (diagonal_sees_writes, X),
    "take": (
        lambda a, i: (np.take(a, i), np.take(a, i, axis=0), a.take(i, 1), np.take(a, -2), np.take(a, 2, axis=1)),
        X, PLACES,
    ),
    "take_modes": (lambda a, i: (np.take(a, i + 9, mode="wrap"), np.take(a, i - 2, 0, mode="clip")), X, PLACES),
    "take_beyond": (lambda a, i: np.take(a, i, axis=0), X, BEYOND),
    "put": (put, X, PLACES[0], VECTOR[:2]),
    "put_fortran": (put, np.asfortranarray(X), PLACES[0], VECTOR[:2]),
    "put_beyond": (put, X, BEYOND, VECTOR),
    "along_axis": (
        lambda a, i: (np.take_along_axis(a, i, 1), np.take_along_axis(a, np.argsort(a, axis=0), axis=0)),
        X, rng.integers(0, 5, (4, 2)),
    ),
    "put_along": (put_along, X, rng.integers(0, 4, (1, 5)), VECTOR[:5]),
    "choose": (lambda i, a, b: np.choose(i, [a, b, 5.0, -a]), PLACES, SMOOTH[:3, :4], X[:3, :4]),
    "choose_beyond": (lambda i, a, b: np.choose(i, (a, b)), PLACES, SMOOTH[:3, :4], X[:3, :4]),
    "compress": (
        lambda a: (np.compress([True, False, True], a, axis=0), np.compress(a[0] > 0, a, axis=1), np.extract(a > 0, a)),
        X,
    ),
    "masked": (masked, X, VECTOR),
    "nonzero": (lambda a: (np.nonzero(a), np.flatnonzero(a), np.argwhere(a), np.where(a > 0), a.nonzero()), X),
    "nonzero_nothing": (lambda a: (np.nonzero(a), np.argwhere(a)), np.zeros((0, 3))),
    "ix": (
        lambda a, i, j: (a[np.ix_(i, j)], a[np.ix_([0, 1], [True, False, False, True, True])]),
        X, PLACES[0], PLACES[1],
    ),
    "select": (lambda a: (np.select([a > 2, a > 0], [a * 2, -a]), np.select([a > 2], [a], default=9)), X),
    "piecewise": (
        lambda a: (np.piecewise(a, [a < 0, a > 1], [lambda t: -t, lambda t: t * t]), np.piecewise(a, [a < 0], [0, 1])),
        X,
    ),
    "diag": (lambda a, w: (np.diag(a), np.diag(a, -2), np.diag(w, 2), np.diag(w, -1), np.diagflat(w[:2])), X, VECTOR),
    "diagonal": (lambda a: (np.diagonal(a, 0, 1, 2), np.trace(a, axis1=0, axis2=2), np.diagonal(a, 7)), CUBE),
    "fill_diagonal": (diagonals, X, VECTOR),
    "triangles": (
        lambda a: (np.tril(a), np.triu(a), np.tril(a, -1), np.triu(a, 2), np.tri(3, 4, 1), np.tri(2, dtype=int)),
        X,
    ),
    "triangle_indices": (
        lambda a: (a[np.tril_indices(4)], a[np.triu_indices(4, 1)], np.triu_indices(3, m=5)),
        X,
    ),
    "flat_indices": (
        lambda i: (np.unravel_index(i, (3, 4)), np.ravel_multi_index((i % 3, i % 4), (3, 4))),
        PLACES,
    ),
    "unravel_beyond": (lambda i: np.unravel_index(i, (2, 1)), PLACES),
    "ravel_beyond": (lambda i: np.ravel_multi_index((i, i), (3, 3)), PLACES),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_numpy(case):
    """Values, dtypes, writes and classes of exceptions are NumPy's."""
    check(*case)


def read(a):
    total = np.sum(np.diag(a) ** 2) + np.trace(a) ** 3 + np.sum(np.tril(a) ** 2) + np.sum(np.take(a, [0, 0, 3]) ** 3)
    total += np.sum(np.take_along_axis(a, np.argsort(a, 1), 1) * np.arange(5.0) ** 2)
    return total + np.sum(np.choose(np.array([0, 1, 1, 0, 1]), (a, a**2))) + np.sum(np.select([a > 0], [a**3]))


def written(a, w):
    b = a * 2
    np.put(b, [1, 1, 5], w[:3] * a[0, :3])
    np.place(b, b > 1, w**2)
    np.fill_diagonal(b, w[:4])
    np.copyto(b, a * a, where=a < -0.5)
    return np.sum(b**3)


def test_a_diagonal_is_read_only():
    """NumPy refuses to write to it when the code runs, we when it is compiled."""

    def write(a):
        np.diagonal(a)[0] = 1.0

    with pytest.raises(ValueError, match="read-only"):
        write(X.copy())
    with pytest.raises(dlvm.CompileError, match="read-only"):
        dlvm.jit(write)(X.copy())


def test_gradients():
    """What is read, and what is written, at computed places carries derivatives."""
    check_gradient(read, SMOOTH, second=False)
    check_gradient(written, SMOOTH, VECTOR, wrt=(0, 1), second=False)
