"""Sparse Jacobians: few passes, the entries of the dense one, and no pattern that lacks entries goes unnoticed."""

import numpy as np
import pytest
import scipy.sparse

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")


def chain(x, c):
    y = x * c
    y[1:] += np.sin(x[:-1])
    y[:-1] -= x[1:] ** 2
    return y


def arrow(x):
    """The first column is full, and so is the last row."""
    out = x * x[0]
    out[-1] = np.sum(x**3)
    return out


def rows_of_blocks(x):
    """Reverse mode takes one pass: no two rows share a column."""
    return np.sum((x * x).reshape(-1, 5), axis=1)


X = np.linspace(0.3, 2.0, 40)


def tridiagonal(n):
    return scipy.sparse.diags([1.0, 1.0, 1.0], [-1, 0, 1], shape=(n, n), format="csc")


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_three_passes_for_a_tridiagonal_matrix(mode):
    sparse = dlvm.jacobian(chain, 0, mode, sparsity=tridiagonal(40))
    found = sparse(X, 1.5)
    assert isinstance(found, scipy.sparse.csr_array)
    assert found.has_sorted_indices
    assert found.nnz == 118
    assert sparse.passes == 3
    np.testing.assert_allclose(found.toarray(), dlvm.jacobian(chain)(X, 1.5), rtol=1e-13)
    np.testing.assert_allclose(sparse(2 * X, c=0.5).toarray(), dlvm.jacobian(chain)(2 * X, 0.5), rtol=1e-13)


def test_the_mode_with_fewer_passes_is_taken():
    pattern = np.kron(np.eye(8, dtype=bool), np.ones(5, bool)[None, :])
    sparse = dlvm.jacobian(rows_of_blocks, sparsity=pattern)
    np.testing.assert_allclose(sparse(X).toarray(), dlvm.jacobian(rows_of_blocks)(X), rtol=1e-14)
    assert sparse.passes == 1
    np.testing.assert_array_equal(sparse.pattern.toarray(), pattern)


def test_full_lines_cost_what_they_must():
    sparse = dlvm.jacobian(arrow, sparsity="auto")
    assert sparse.pattern is None
    np.testing.assert_allclose(sparse(X).toarray(), dlvm.jacobian(arrow)(X), rtol=1e-13)
    assert sparse.passes == 40
    assert sparse.pattern.nnz == 39 + 38 + 40


def test_the_pattern_is_found_and_grows():
    """Entries that happen to be zero are found; those of another branch are found when it is taken."""

    def branching(x, flag):
        y = x * x
        if flag:
            y[2:] += x[:-2]
        return y

    sparse = dlvm.jacobian(branching, sparsity="auto")
    dense = dlvm.jacobian(branching)
    x = X.copy()
    x[3] = 0.0
    np.testing.assert_allclose(sparse(x, False).toarray(), dense(x, False))
    assert sparse.pattern.nnz == 40
    assert sparse.passes == 1
    np.testing.assert_allclose(sparse(x, True).toarray(), dense(x, True))
    assert sparse.pattern.nnz == 78
    assert sparse.passes == 2
    np.testing.assert_allclose(sparse(x, False).toarray(), dense(x, False))
    np.testing.assert_allclose(sparse(x[:7], True).toarray(), dense(x[:7], True))


def test_hessians():
    def energy(x):
        return np.sum((x[1:] - x[:-1] ** 2) ** 2)

    sparse = dlvm.hessian(energy, sparsity=tridiagonal(40))
    np.testing.assert_allclose(sparse(X).toarray(), dlvm.hessian(energy)(X), rtol=1e-12, atol=1e-12)
    assert sparse.passes == 3


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_pattern_that_lacks_entries_is_refused(mode):
    sparse = dlvm.jacobian(chain, 0, mode, sparsity=scipy.sparse.eye_array(40))
    with pytest.raises(dlvm.ArgumentError, match="lacks entries: (row|column) 0 depends on more") as error:
        sparse(X, 1.5)
    assert error.value.code == "DL701"


def test_refusals():
    with pytest.raises(dlvm.ArgumentError, match="has 40 columns, and the argument 3 elements"):
        dlvm.jacobian(chain, sparsity=tridiagonal(40))(X[:3], 1.0)
    with pytest.raises(dlvm.ArgumentError, match="has 41 rows, and the output 40 elements"):
        dlvm.jacobian(chain, sparsity=np.ones((41, 40), bool))(X, 1.0)
    with pytest.raises(dlvm.ArgumentError, match="is no array of floats"):
        dlvm.jacobian(chain, "c", sparsity=tridiagonal(40))(X, 1.0)
    for pattern in ("yes", 3, np.ones((3, 3)), np.ones(3, bool)):
        with pytest.raises(dlvm.ArgumentError, match="a boolean array of two axes, or 'auto'"):
            dlvm.jacobian(chain, sparsity=pattern)
    with pytest.raises(dlvm.ArgumentError, match="one parameter"):
        dlvm.jacobian(chain, (0, 1), sparsity="auto")


def test_empty_columns_and_arrays_of_more_axes():
    def picked(x):
        return np.sin(x[3:5]).reshape(2, 1) * x[4]

    pattern = np.zeros((2, 40), bool)
    pattern[0, 3:5] = pattern[1, 4] = True
    sparse = dlvm.jacobian(picked, sparsity=pattern)
    np.testing.assert_allclose(sparse(X).toarray(), dlvm.jacobian(picked)(X).reshape(2, 40))
    y = X.reshape(8, 5)
    found = dlvm.jacobian(lambda m: m * m[0], sparsity="auto")(y)
    np.testing.assert_allclose(found.toarray(), dlvm.jacobian(lambda m: m * m[0])(y).reshape(40, 40))
