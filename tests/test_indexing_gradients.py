"""Gradients, first and second, through indexing with arrays: gathers, scatters, masks, duplicates, loops."""

import numpy as np
import pytest
from indexing import check, check_gradient

pytestmark = pytest.mark.usefixtures("plain_code")

rng = np.random.default_rng(11)
X, Y, V = rng.standard_normal((4, 5)), rng.standard_normal((4, 5)), rng.standard_normal(6)
PLACES, J = np.array([0, 3, -1, 3]), np.array([[1], [4], [1]])
MASK = X > 0


def gather_rows(x, i):
    return np.sum(np.sin(x[i]) * np.arange(1.0, 6.0))


def gather_columns(x, i):
    return np.sum(x[:, i] ** 3)


def gather_mixed(x, i, j):
    y = x[i[:2], j] * x[1, i[:2]]
    return np.sum(y * y)


def gather_slices(x, i):
    return np.sum(np.exp(x[i, None, ::-2]))


def gather_twice(x, i):
    return np.sum(x[i] * x[i][::-1] + x)


def gather_of_a_gather(x, i):
    return np.sum(x[i][i] ** 2 * x[:, [1, 1]][:, [0]])


def masked_sum(x, m):
    return np.sum(x[m] ** 3)


def masked_rows(x, m):
    y = x[m[:, 0]]
    return np.sum(y * y * y)


def masked_store(x, m):
    y = x * 2.0
    y[m] = 0.5
    return np.sum(y * y)


def masked_update(x, y, m):
    z = x * y
    z[m] *= np.sin(y[m])
    z[~m] += x[~m] ** 2
    return np.sum(z**2)


def masked_store_of_a_vector(x, v, m):
    y = x * 1.0
    n = np.sum(m)
    w = np.zeros(n)
    w[:2] = v[:2] * v[2:4]
    y[m] = w
    return np.sum(y**3)


def scatter_last_wins(x, v, i):
    y = x * x
    y[i, 1] = v[:4] ** 2
    y[i, i] += v[1:5]
    return np.sum(y**2)


def scatter_rows(x, v, i):
    y = x * x
    y[i] = v[:4, None] * x[[1, 2, 3, 0]]
    return np.sum(y**2)


def scatter_columns(x, y, i):
    z = x * 1.5
    z[1:, i] = y[1:, :4] * x[1:, i]
    return np.sum(z**3)


def scatter_into_a_view(x, v, i):
    y = x * x
    w = y[1:, ::2]
    w[[0, 2, 2], [1, 0, 0]] = v[:3] ** 2
    return np.sum(y**2)


def add_at(x, v, i):
    y = x * x
    np.add.at(y, (i, [1, 1, 1, 2]), v[:4] ** 2)
    return np.sum(y**3)


def overwritten_index(x, i):
    k = i.copy()
    y = x[k] ** 2
    k[:] = 0
    z = y * x[k]
    return np.sum(z)


def in_a_loop(x, i):
    y = np.zeros(5)
    for n in range(3):
        k = (i + n) % 4
        y[k] = y[k] * 0.5 + x[k, n] ** 2
        y[k[:2]] += np.sin(x[n, k[:2]])
    return np.sum(y * y)


def under_a_branch(x, i):
    total = 0.0
    for n in range(4):
        if x[n, 0] > 0:
            total += np.sum(x[n, i] ** 2)
        else:
            total += np.sum(x[i, n] ** 3)
    return total


CASES = [
    (gather_rows, (X, PLACES), 0),
    (gather_columns, (X, PLACES), 0),
    (gather_mixed, (X, PLACES, J), 0),
    (gather_slices, (X, PLACES), 0),
    (gather_twice, (X, PLACES), 0),
    (gather_of_a_gather, (X, PLACES), 0),
    (masked_sum, (X, MASK), 0),
    (masked_rows, (X, MASK), 0),
    (masked_store, (X, MASK), 0),
    (masked_update, (X, Y, MASK), (0, 1)),
    (masked_store_of_a_vector, (X, V, MASK), (0, 1)),
    (scatter_last_wins, (X, V, PLACES), (0, 1)),
    (scatter_rows, (X, V, PLACES), (0, 1)),
    pytest.param(scatter_columns, (X, Y, PLACES), (0, 1), marks=pytest.mark.slow),
    (scatter_into_a_view, (X, V, PLACES), (0, 1)),
    (add_at, (X, V, PLACES), (0, 1)),
    (overwritten_index, (X, PLACES), 0),
    (in_a_loop, (X, PLACES), 0),
    (under_a_branch, (X, PLACES), 0),
]


@pytest.mark.parametrize(("fn", "args", "wrt"), CASES, ids=[getattr(c, "values", c)[0].__name__ for c in CASES])
def test_gradient(fn, args, wrt):
    """Values as NumPy's, the gradient as differences, both modes agree; second derivatives of one in three."""
    check(fn, *args, exact=False)
    check_gradient(fn, *args, wrt=wrt, second=[getattr(c, "values", c)[0] for c in CASES].index(fn) % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize(("fn", "args", "wrt"), CASES, ids=[getattr(c, "values", c)[0].__name__ for c in CASES])
def test_second_derivative(fn, args, wrt):
    """The gradient of the gradient as differences of the gradient."""
    check_gradient(fn, *args, wrt=wrt)
