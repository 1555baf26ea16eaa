"""Products of matrices that BLAS computes in pieces, by the threads of ours that call it (backend/cpu/blas.py)."""

import time

import numpy as np
import pytest
from processes import run_program

import dlvm_py as dlvm

# (rows, columns, terms): one call, two halves, a batch of one, one piece, pieces of rows, a short last one
EXTENTS = [
    (64, 64, 64),
    (81, 80, 83),
    (99, 100, 101),
    (101, 100, 102),
    (140, 141, 150),
    (257, 129, 150),
    (30, 400, 300),
]


@dlvm.jit
def forms(a, b, c, d):
    d += a @ b
    c[:, : b.shape[1]] -= a @ b  # its rows are longer than the product's
    return a @ b, (b.T @ a.T).T


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pieces_are_the_product_with_any_number_of_threads(dtype):
    rng = np.random.default_rng(3)
    before = dlvm.get_num_threads()
    try:
        for m, n, k in EXTENTS:
            a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((n, k)).astype(dtype).T
            c, d = rng.standard_normal((m, n + 3)).astype(dtype), rng.standard_normal((m, n)).astype(dtype)
            wanted = a.astype(np.longdouble) @ b.astype(np.longdouble)
            found = []
            for threads in (1, 2, 3, 2):
                dlvm.set_num_threads(threads)
                mine, other = c.copy(), d.copy()
                found.append((*forms(a, b, mine, other), mine, other))
            bound = 2 * k * np.finfo(dtype).eps
            for result in found:
                for x, exact in zip(result, (wanted, wanted, c[:, :n] - wanted, d + wanted), strict=True):
                    assert x.dtype == dtype
                    assert np.abs(x[:, :n] - exact).max() < bound
                assert np.array_equal(result[2][:, n:], c[:, n:])
                assert all(map(np.array_equal, result, found[0]))
    finally:
        dlvm.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_times_its_transpose_is_symmetric_with_any_number_of_threads(dtype):
    gram = dlvm.jit(lambda x: (x.T @ x, x @ x.T))
    before = dlvm.get_num_threads()
    try:
        for n, k in ((60, 90), (100, 101), (257, 150)):
            x = np.random.default_rng(4).standard_normal((k, n)).astype(dtype)
            exact = x.astype(np.longdouble)
            found = []
            for threads in (1, 2, 3):
                dlvm.set_num_threads(threads)
                found.append(gram(x))
            for product, wanted in zip(found[0], (exact.T @ exact, exact @ exact.T), strict=True):
                assert np.abs(product - wanted).max() < k * np.finfo(dtype).eps * np.abs(wanted).max()
                assert np.array_equal(product, product.T)
            assert all(map(np.array_equal, found[0] * 2, found[1] + found[2]))
    finally:
        dlvm.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cholesky_by_halves_and_its_adjoint(dtype):
    factor = dlvm.jit(lambda a: np.linalg.cholesky(a))
    gradient = dlvm.grad(dlvm.jit(lambda a, w: np.sum(np.linalg.cholesky(a) * w)))
    rng = np.random.default_rng(5)
    for n in (63, 64, 97, 230):
        x, w = rng.standard_normal((2, n, n))
        a = (x @ x.T + n * np.eye(n)).astype(dtype)
        low = np.linalg.cholesky(a.astype(np.float64))
        above = np.triu_indices(n, 1)
        noise = a.copy()
        noise[above] = np.nan  # not read
        found = factor(noise)
        assert found.dtype == dtype
        assert not found[above].any()
        assert np.abs(found - low).max() < n * np.finfo(dtype).eps * low.max()
        half = np.tril(low.T @ np.tril(w))
        half[np.diag_indices(n)] /= 2
        adjoint = np.linalg.solve(low.T, np.linalg.solve(low.T, half.T).T)
        wanted = np.tril(adjoint + adjoint.T)
        wanted[np.diag_indices(n)] /= 2
        assert np.abs(gradient(a, w.astype(dtype)) - wanted).max() < 20 * n * np.finfo(dtype).eps * np.abs(wanted).max()
        for k in (0, n // 3, n - 1):
            bad = a.copy()
            bad[k, k] = -1
            with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
                factor(bad)


def test_no_thread_looks_for_work_after_a_product():
    a = np.ones((300, 300))
    product = dlvm.jit(lambda x: x @ x)
    product(a)
    time.sleep(0.2)  # what threads of BLAS do after other tests
    product(a)
    start = time.process_time()
    time.sleep(0.05)
    assert time.process_time() - start < 0.02


PROGRAM = """
import numpy as np
import dlvm_py as dlvm
from dlvm_py.runtime import loader, threads
{patch}
a = np.random.default_rng(0).standard_normal((300, 211))
product = dlvm.jit(lambda x, y: x @ y)
found = []
for count in (3, 1):
    dlvm.set_num_threads(count)
    found.append(product(a, a.T.copy()))
assert np.abs(found[0] - a @ a.T).max() < 1e-11
assert np.array_equal(*found)
"""


@pytest.mark.parametrize(
    "patch",
    [
        "loader._LIMITS['processors'] = lambda: 13",
        "loader._numpy_blas = lambda name, old=loader._numpy_blas: None if 'batch' in name else old(name)",
    ],
    ids=["a grid for many processors", "a BLAS without batches"],
)
def test_other_machines(patch, tmp_path):
    run_program(PROGRAM.format(patch=patch), tmp_path)
