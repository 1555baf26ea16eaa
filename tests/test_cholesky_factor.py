"""Cholesky factors in panels of our own: backward errors beside NumPy's, what is not read, what raises, threads."""

import numpy as np
import pytest

import dlvm_py as dlvm

CHOLESKY = dlvm.jit(lambda a: np.linalg.cholesky(a))
BOTH = pytest.mark.parametrize("dtype", [np.float64, np.complex128])


def definite(rng, n, dtype):
    b = rng.standard_normal((n, n)).astype(dtype)
    if dtype is np.complex128:
        b = b + 1j * rng.standard_normal((n, n))
    return b @ b.conj().T + 0.1 * np.eye(n)


@BOTH
def test_errors_are_those_of_lapack_and_the_upper_triangle_is_not_read(dtype):
    rng = np.random.default_rng(0)
    for n in (*range(70), 95, 96, 97, 128, 130, 200, 257, 300, 513):
        a = definite(rng, n, dtype)
        lower = a.copy()
        lower[np.triu_indices(n, 1)] = np.nan
        if dtype is np.complex128:
            lower[np.diag_indices(n)] += 3j  # LAPACK takes the real parts
        want = np.linalg.cholesky(a)
        allowed = 3 * np.abs(want @ want.conj().T - a).max(initial=0) + 1e-15 * np.abs(a).max(initial=0)
        for given in (lower, np.asfortranarray(lower), lower.repeat(2, 0)[::2]):
            got = CHOLESKY(given)
            assert got.dtype == want.dtype and got.shape == want.shape and not np.triu(got, 1).any()
            assert np.abs(got @ got.conj().T - a).max(initial=0) <= allowed, n
            assert not got.diagonal().imag.any()


@BOTH
def test_what_has_no_factor(dtype):
    rng = np.random.default_rng(1)
    for n in (1, 3, 4, 33, 70, 130):
        a = definite(rng, n, dtype)
        for place, value in ((0, 0), (n - 1, -1), (n // 2, -np.inf)):
            bad = a.copy()
            bad[place, place] = value
            with pytest.raises(np.linalg.LinAlgError, match="Matrix is not positive definite"):
                CHOLESKY(bad)
    np.testing.assert_array_equal(
        CHOLESKY(np.diag([4, 9e-320, 1e306, 0.25]).astype(dtype))[::3, ::3], [[2, 0], [0, 0.5]]
    )


@BOTH
def test_what_is_no_number_goes_on(dtype):
    """As in NumPy's: rows before it are those of a factor, the rest is NaN, and nothing is raised."""
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 4, 33, 70, 130):
        for row, column in ((0, 0), (n // 2, n // 2), (n - 1, 0), (n - 1, n - 1)):
            bad = definite(rng, n, dtype)
            bad[row, column] = np.nan
            want, got = np.linalg.cholesky(bad), CHOLESKY(bad)
            assert np.array_equal(np.isnan(got), np.isnan(want)), (n, row, column)


@BOTH
def test_any_number_of_threads_gives_the_same_bits(dtype):
    a, before = definite(np.random.default_rng(2), 500, dtype), dlvm.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            dlvm.set_num_threads(threads)
            found += [CHOLESKY(a), CHOLESKY(np.asfortranarray(a))]
        assert all(np.array_equal(x, found[0]) for x in found)
    finally:
        dlvm.set_num_threads(before)
