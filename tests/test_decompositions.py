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
        pytest.param(Z, marks=SLOW),
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


# -- norms and the rest --------------------------------------------------------------------------------


def norms(x):
    return (
        np.linalg.norm(x, 2), np.linalg.norm(x, -2, keepdims=True), np.linalg.norm(x, "nuc"), np.linalg.norm(x, 1),
        np.linalg.norm(x, -np.inf, (1, 0), keepdims=True), np.linalg.matrix_norm(x), np.linalg.vector_norm(x),
        np.linalg.cond(x), np.linalg.cond(x, -2), np.linalg.cond(x, 1), np.linalg.slogdet(x),
        np.linalg.matrix_power(x, -2), np.linalg.matrix_power(x, 0),
    )  # fmt: skip


def stacks(x):
    return (
        np.linalg.norm(x, 2, (1, 3)), np.linalg.norm(x, "nuc", (-1, 0), True), np.linalg.norm(x, 1, (0, 2)),
        np.linalg.vector_norm(x, axis=(0, -1), keepdims=True, ord=3), np.linalg.cond(x, "fro"), np.linalg.slogdet(x),
        np.linalg.det(x), np.linalg.matrix_power(x, 3), np.linalg.matrix_power(x, -1),
        np.linalg.cholesky(x @ np.swapaxes(x, -1, -2), upper=True),
    )  # fmt: skip


def products(x, v):
    return (
        np.linalg.multi_dot([x, x, v]), np.linalg.multi_dot((v, x, x, v)), np.linalg.outer(v, v),
        np.linalg.multi_dot([x[:, :2], x[:2], x, x[:, :1]]), np.linalg.cross(v[:3], x[:, :3]),
        np.linalg.tensorsolve(x.reshape(2, 4, 2), np.ones((2, 2)), axes=(1,)), np.linalg.tensorinv(x.reshape(2, 2, 4)),
        np.linalg.trace(x, offset=1), np.linalg.diagonal(x, offset=-1), np.linalg.vecdot(x, v),
        np.linalg.matrix_transpose(x), np.linalg.matmul(x, v), np.linalg.tensordot(x, x, axes=1),
    )  # fmt: skip


def test_norms_and_conditions():
    compiled = dlvm.jit(norms)
    same(compiled(A), norms(A))
    singular = np.diag([1.0, 2.0, 0.0])
    with np.errstate(all="ignore"):
        want = np.linalg.cond(singular), np.linalg.cond(singular, 1)
    same(dlvm.jit(lambda x: (np.linalg.cond(x), np.linalg.cond(x, 1)))(singular), want)


@pytest.mark.slow
def test_norms_of_stacks_and_complex_numbers():
    same(dlvm.jit(norms)(Z), norms(Z))
    same(dlvm.jit(stacks)(STACK), stacks(STACK))


def test_products():
    same(dlvm.jit(products)(A, A[0].copy()), products(A, A[0].copy()))


def solutions(a, b, v):
    x, y = a[:, 0], v
    return (
        np.linalg.lstsq(a, b),
        np.linalg.lstsq(a, v, rcond=0.5),
        np.polyfit(x, y, 2),
        np.polyfit(x, y, 1, full=True)[:4],
        np.polyfit(x, y, 1, w=y, cov=True),
    )


def test_least_squares():
    """With what remains, or without where the rank is not full, and for more unknowns than equations."""
    args = TALL, W[:5, :2].copy(), W[:5, 3].copy()
    same(dlvm.jit(solutions)(*args), solutions(*args))
    compiled = dlvm.jit(lambda a, b: np.linalg.lstsq(a, b))
    for a in (TALL, np.ones((5, 3)), np.ascontiguousarray(TALL.T), np.empty((0, 3)), np.empty((4, 0))):
        b = W[: len(a), :2].copy()
        same(compiled(a, b), np.linalg.lstsq(a, b))


def test_roots():
    compiled = dlvm.jit(lambda p: np.roots(p))
    for p in ([2, 1j, 3, 4, 5], [0, 1, 2, 3, 0, 0], [0, 0, 1, -1]):
        same(compiled(np.array(p, complex)), np.roots(np.array(p, complex)))


# -- errors --------------------------------------------------------------------------------------------

NAN = np.full((2, 2), np.nan)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda a: np.linalg.svd(a), NAN),
        (lambda a: np.linalg.svdvals(a), NAN),
        (lambda a: np.linalg.eigvals(a), NAN + 0j),
        (lambda a: np.linalg.lstsq(a, a)[0], NAN),
        (lambda a: np.linalg.eigh(a), TALL),
        (lambda a: np.linalg.eigh(a, "X"), A),
        (lambda a: np.linalg.qr(a, "x"), A),
        (lambda a: np.linalg.qr(a), TALL[0]),
        (lambda a: np.linalg.lstsq(a, a[1:]), A),
        (lambda a: np.linalg.norm(a, 3), A),
        (lambda a: np.linalg.norm(a, "x", 0), A),
        (lambda a: np.linalg.cond(a), np.empty((0, 2))),
        (lambda a: np.linalg.tensorsolve(a, a[0]), TALL),
        (lambda a: np.linalg.cross(a, a), A),
    ],
)  # fmt: skip
def test_errors_are_numpys(f, x):
    """The class and the words."""
    with pytest.raises(Exception) as want:  # noqa: PT011 - whatever NumPy raises
        f(x)
    with pytest.raises(want.type) as got:
        dlvm.jit(f)(x)
    assert str(got.value).splitlines()[0].startswith(str(want.value))


def test_what_numpy_gives_by_the_numbers_is_refused():
    with pytest.raises(dlvm.CompileError, match="astype"):
        dlvm.jit(lambda a: np.linalg.eigvals(a))(A)
    with pytest.raises(dlvm.CompileError, match="raw"):
        dlvm.jit(lambda a: np.linalg.qr(a, "raw"))(A)
