"""LU of our own: backward errors beside NumPy's, pivots, what is singular, what is no number, threads, layouts."""

import math
from fractions import Fraction

import numpy as np
import pytest
from processes import run_program

import dlvm_py as dlvm

SOLVE = dlvm.jit(lambda a, b: np.linalg.solve(a, b))
DET = dlvm.jit(lambda a: np.linalg.det(a))
SLOGDET = dlvm.jit(lambda a: np.linalg.slogdet(a))
BOTH = pytest.mark.parametrize("dtype", [np.float64, np.complex128])


def matrix(rng, n, m, dtype):
    a = rng.standard_normal((n, m)).astype(dtype)
    return a + 1j * rng.standard_normal((n, m)) if dtype is np.complex128 else a


def backward_error(a, x, b):
    """In units of the last place."""
    return np.abs(a @ x - b).max() / (np.linalg.norm(a, np.inf) * np.abs(x).max() + np.abs(b).max()) / 2.0**-53


@BOTH
def test_backward_errors_are_those_of_lapack(dtype):
    """At all small sizes, and around those where panels, tiles and blocks end; well conditioned or not."""
    rng = np.random.default_rng(0)
    for n in (*range(1, 50), 63, 64, 65, 97, 130, 191, 257, 300, 363, 388):
        for kind in (0, 1 + n % 3):
            a = matrix(rng, n, n, dtype)
            if kind == 1:
                a = a * np.logspace(0, -12, n)
            if kind == 2:
                a = (1 / (1.0 + np.arange(n) + np.arange(n)[:, None])).astype(dtype) + 1e-9 * a
            if kind == 3:  # pivots are found far below
                a = np.roll(np.triu(a) + n * np.eye(n), -(n // 2), axis=0)
            b = matrix(rng, n, (1, 3, 20)[n % 3], dtype)
            with_lapack = backward_error(a, np.linalg.solve(a, b), b)
            assert backward_error(a, SOLVE(a, b), b) <= 3 * with_lapack + 3, (n, kind)
            ours, theirs = SLOGDET(a), np.linalg.slogdet(a)
            if kind in (0, 3):
                np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9)
                np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_small_integers_make_singular_is_found_singular(dtype):
    """As with LAPACK, whose products are rounded before they are taken off: fused, half of these had pivots."""
    rng = np.random.default_rng(5)
    for n, least in ((2, 0.9), (3, 0.8), (4, 0.7)):
        zeros = 0
        for _ in range(200):
            a = rng.integers(-9, 10, (n, n)).astype(dtype)
            i, j = rng.choice(n, 2, replace=False)
            a[:, i] = a[:, j]
            zeros += DET(a) == 0
        assert zeros >= least * 200, n
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        SOLVE(np.array([[3.0, 3.0], [7.0, 7.0]]), np.ones(2))


@BOTH
def test_permutations_are_exact(dtype):
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 5, 8, 31, 33, 70, 150):
        a = np.eye(n, dtype=dtype)[rng.permutation(n)]
        b = matrix(rng, n, 4, dtype)
        np.testing.assert_array_equal(SOLVE(a, b), a.T @ b)
        assert DET(a) == np.round(np.linalg.det(a).real)


def test_the_first_of_equal_candidates_is_the_pivot():
    """|re| + |im| decides, as in LAPACK, not the absolute value."""
    a = np.array([[3 + 3j, 1], [5 + 0j, 2]])  # 6 beside 5, though 4.2 beside 5
    found = SOLVE(a, np.eye(2, dtype=complex))
    np.testing.assert_allclose(found @ a, np.eye(2), atol=1e-15)
    ties = np.array([[1.0, 1e20, 0], [-1.0, 1, 1], [1.0, 0, 1]])
    np.testing.assert_allclose(SOLVE(ties, np.eye(3)), np.linalg.solve(ties, np.eye(3)), rtol=1e-15, atol=1e-16)


@BOTH
def test_what_is_singular(dtype):
    """Where all candidates are zero; in the first panel, a later one, the last column; also of triangles."""
    rng = np.random.default_rng(2)
    for n, column in ((1, 0), (2, 1), (5, 3), (40, 20), (90, 70), (90, 89)):
        a = matrix(rng, n, n, dtype)
        a[:, column] = 0
        for x in (a, np.triu(a), a.T.copy() if n > 1 else a):
            with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
                SOLVE(x, np.ones((n, 2), dtype))
            assert DET(x) == 0 and SLOGDET(x)[1] == -np.inf


@BOTH
def test_what_is_no_number_is_treated_as_lapack_does(dtype):
    """NaN is no candidate beside others; a column is not divided by it; over an infinite pivot all is zero."""
    matrices = [np.diag([np.nan, 1, 0]), np.diag([np.inf, 1, 0]), [[0, 1], [np.nan, 1]], [[np.nan, 1], [0, 0]]]
    matrices += [
        [[np.inf, 1.0], [2, 3]],
        [[2.0, 1], [np.nan, 3]],
        [[-1.9, np.inf, -0.4], [0.2, 0.2, 2.1], [-1.1, -0.4, 2]],
    ]
    for rows in matrices:
        a = np.array(rows, dtype)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(np.isfinite(DET(a)), np.isfinite(np.linalg.det(a)))
            np.testing.assert_allclose(SLOGDET(a)[1], np.linalg.slogdet(a)[1])
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        SOLVE(np.array([[0, 1], [np.nan, 1]], dtype), np.ones((2, 1), dtype))


def test_pivots_whose_inverse_is_no_number():
    """Exact rational numbers say what is right; OpenBLAS does not divide by pivots that are so small."""
    rng = np.random.default_rng(3)
    for size in (1e-310, 1e-305, 1e305):
        a = rng.standard_normal((2, 2))
        a[:, 0] = size, size / 2
        exact = Fraction(a[0, 0]) * Fraction(a[1, 1]) - Fraction(a[1, 0]) * Fraction(a[0, 1])
        want = math.log(abs(exact * 2 ** (1000 if size < 1 else -1000))) - math.copysign(1000, 1 - size) * math.log(2)
        for dtype in (np.float64, np.complex128):
            assert SLOGDET(a.astype(dtype))[1] == pytest.approx(want, rel=1e-13)
    tiny = np.full((3, 3), 1e-310) + 1e-310 * np.eye(3)
    np.testing.assert_allclose(SOLVE(tiny, tiny), np.eye(3), atol=1e-13)


@BOTH
def test_threads_and_layouts_give_the_same_bits(dtype):
    rng, before = np.random.default_rng(4), dlvm.get_num_threads()
    n = 400  # of more bytes than a core has in its cache: several panels at a time
    a, b = matrix(rng, n, n, dtype), matrix(rng, n, 90, dtype)
    wide = np.zeros((2 * n, 3 * n), dtype)
    wide[::-2, 1::3] = a
    try:
        found = []
        for threads in (1, 2, 3):
            dlvm.set_num_threads(threads)
            found += [SOLVE(x, b) for x in (a, np.asfortranarray(a), wide[::-2, 1::3])]
            found[-1][:, :1] = SOLVE(a, b[:, :1])
        assert all(np.array_equal(x, found[0]) for x in found)
    finally:
        dlvm.set_num_threads(before)
    assert backward_error(a, found[0], b) < 3 * backward_error(a, np.linalg.solve(a, b), b)


def test_no_lapack_is_loaded(tmp_path):
    """Whose import would take longer than what it is wanted for."""
    code = "import numpy as np, sys, dlvm_py as dlvm\n"
    code += (
        "f = dlvm.jit(lambda a: (np.linalg.inv(a), np.linalg.solve(a, a), np.linalg.det(a), np.linalg.slogdet(a)))\n"
    )
    code += "f(np.eye(3) + 1)\nassert 'scipy' not in sys.modules\n"
    run_program(code, tmp_path)
