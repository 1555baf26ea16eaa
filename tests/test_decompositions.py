"""np.linalg's decompositions: values, errors and structures against NumPy; derivatives against differences."""

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

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
    return np.linalg.eigh(a), np.linalg.eigvalsh(a, UPLO="U")


def hermitian(a):
    return (
        np.linalg.eigh(a, UPLO="U").eigenvectors,
        np.linalg.svd(a, hermitian=True),
        np.linalg.svd(a, hermitian=True, compute_uv=False),
        np.linalg.pinv(a, hermitian=True),
        np.linalg.pinv(a, rtol=1e-9),
        np.linalg.matrix_rank(a, tol=1.0),
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
        np.linalg.matrix_rank(a),
    )


SQUARE, HERMITIAN, GENERAL, RECTANGULAR = map(dlvm.jit, (square, hermitian, general, rectangular))


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "x",
    [
        A,
        pytest.param(np.asfortranarray(A), marks=SLOW),
        pytest.param(Z, marks=SLOW),
        pytest.param(A.astype(np.float32), marks=SLOW),
        pytest.param(Z.astype(np.complex64), marks=SLOW),
        pytest.param(np.round(A * 4).astype(int), marks=SLOW),
        pytest.param(STACK, marks=SLOW),
        pytest.param(STACK + 1j * STACK[::-1], marks=SLOW),
    ],
    ids=lambda x: f"{x.dtype}-{x.ndim}",
)
def test_values_are_numpys(x, request):
    """For all dtypes and stacks; single precision is computed in double, as NumPy does."""
    single = x.dtype in (np.float32, np.complex64)
    same(SQUARE(x), square(x), single)
    same(RECTANGULAR(x), rectangular(x), single)
    if request.node.get_closest_marker("slow"):
        same(HERMITIAN(x), hermitian(x), single)
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


@pytest.mark.slow
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


def test_norms():
    f = dlvm.jit(lambda x: (np.linalg.norm(x, 2), np.linalg.norm(x, "nuc", (1, 0), True), np.linalg.cond(x)))
    same(f(A), (np.linalg.norm(A, 2), np.linalg.norm(A, "nuc", (1, 0), True), np.linalg.cond(A)))


@pytest.mark.slow
def test_products():
    same(dlvm.jit(products)(A, A[0].copy()), products(A, A[0].copy()))


def solutions(a, b, v):
    return np.linalg.lstsq(a, b), np.linalg.lstsq(a, v, rcond=0.5), np.polyfit(a[:, 0], v, 1)


def polynomials(x, y):
    return np.polyfit(x, y, 2), np.polyfit(x, y, 1, full=True)[:4], np.polyfit(x, y, 1, w=y, cov=True)


def test_least_squares():
    """With what remains, or without where the rank is not full, and for more unknowns than equations."""
    args = TALL, W[:5, :2].copy(), W[:5, 3].copy()
    same(dlvm.jit(solutions)(*args), solutions(*args))
    compiled = dlvm.jit(lambda a, b: np.linalg.lstsq(a, b))
    for a in (TALL, np.ones((5, 3)), np.ascontiguousarray(TALL.T), np.empty((0, 3)), np.empty((4, 0))):
        b = W[: len(a), :2].copy()
        same(compiled(a, b), np.linalg.lstsq(a, b))


@pytest.mark.slow
def test_polynomials():
    x, y = TALL[:, 0].copy(), W[:5, 3].copy()
    same(dlvm.jit(polynomials)(x, y), polynomials(x, y))


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


def test_what_lapack_packs_is_refused():
    with pytest.raises(dlvm.CompileError, match="raw"):
        dlvm.jit(lambda a: np.linalg.qr(a, "raw"))(A)


# -- derivatives ---------------------------------------------------------------------------------------


def weighed(x, k):
    """A number that depends on all elements, and on the phase of complex ones."""
    m, n = x.shape
    if x.dtype.kind == "c":
        return np.sum(x.real * W[k : k + m, :n]) + np.sum(x.imag * W[:m, k : k + n])
    return np.sum(x * W[k : k + m, :n])


def of_eigh(a):
    w, v = np.linalg.eigh(a)
    return np.sum(w**3) + weighed(v, 0) + weighed(np.linalg.eigh(a, "U")[1], 2)


def of_eigvalsh(a):
    return np.sum(np.linalg.eigvalsh(a) ** 3)


def of_svd(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.sum(s**3) + weighed(u, 0) + weighed(vh, 2)


def of_norms(a):
    return np.linalg.norm(a, 2) + np.linalg.norm(a, "nuc") + np.linalg.cond(a) + np.linalg.cond(a, "fro")


def of_qr(a):
    q, r = np.linalg.qr(a)
    return weighed(q, 0) + weighed(r, 2) + weighed(np.linalg.qr(a, "r"), 3)


def of_pinv(a):
    return weighed(np.linalg.pinv(a), 1)


def of_lstsq(a):
    x, squares, _, s = np.linalg.lstsq(a[:, 1:], a[:, :2])
    return weighed(x, 0) + np.sum(squares) + np.sum(s**3)


def of_eig(a):
    w, v = np.linalg.eig(a)
    z = np.linalg.eigvals(a)
    return weighed(v, 0) + np.sum(w.real**2 + w.imag * w.real) + np.sum(z.real * z.imag)


def of_determinants(a):
    sign, log = np.linalg.slogdet(a)
    return log + np.linalg.det(a).real + sign.real * 2 + sign.imag * 3


def of_polynomials(a):
    roots = np.roots(a[0])
    return np.sum(roots.real**2 + roots.imag) + np.sum(np.polyfit(a[1].real, a[2].imag, 1) ** 2)


WIDE_Z = Z[:3]
DIFFERENTIATED = [
    pytest.param(f, x, marks=() if f is of_svd and x is TALL else SLOW, id=f"{f.__name__}-{x.dtype}-{x.shape}")
    for f, xs in {
        of_eigh: (A, Z), of_eigvalsh: (A, Z), of_svd: (A, TALL, TALL.T.copy(), Z, WIDE_Z, WIDE_Z.T.copy()),
        of_norms: (A, Z), of_qr: (A, TALL, TALL.T.copy(), Z, WIDE_Z), of_pinv: (A, TALL, TALL.T.copy(), WIDE_Z),
        of_lstsq: (A, TALL, TALL.T.copy(), Z), of_eig: (A, Z, A @ A.T + W[:4, :4] / 99), of_determinants: (Z,),
        of_polynomials: (Z,),
    }.items()
    for x in xs
]  # fmt: skip


@pytest.mark.parametrize(("f", "x"), DIFFERENTIATED)
def test_derivatives(f, x, request):
    """Against central differences, between the modes, and (among the slow ones) the second order."""
    rng = np.random.default_rng(5)
    v = rng.standard_normal(x.shape) * (1 + 0.5j if x.dtype.kind == "c" else 1)
    gradient, h = dlvm.grad(f), 1e-6
    along = np.vdot(gradient(x), v).real
    assert along == pytest.approx((f(x + h * v) - f(x - h * v)) / (2 * h), rel=1e-6, abs=1e-7)
    assert dlvm.jvp(f, (x,), (v,))[1] == pytest.approx(along, rel=1e-9, abs=1e-10)
    if request.node.get_closest_marker("slow"):
        difference = (gradient(x + h * v) - gradient(x - h * v)) / (2 * h)
        got = dlvm.hvp(f)(x, v)
        np.testing.assert_allclose(got, difference, rtol=1e-4, atol=1e-5 * np.abs(difference).max())


def of_values(a):
    return np.sum(np.linalg.eigh(a)[0]) + np.linalg.norm(a, "nuc")


def logarithm(a):
    w, v = np.linalg.eigh(a)
    return np.sum(W[:3, :3] * ((v * np.log(w)) @ v.T))


def first_component(a):
    w, v = np.linalg.eigh(a)
    return np.sum(v[:, -1] ** 2 * np.array([1.0, 2.0, 3.0])) + w[-1]


def test_equal_values():
    """Their vectors have no derivative: it is finite where it does not matter, and else NaN or infinite."""
    eye = np.eye(3)
    np.testing.assert_allclose(dlvm.grad(of_values)(eye), 2 * eye)
    assert not np.isfinite(np.tril(dlvm.grad(logarithm)(eye))).any(where=np.tri(3, dtype=bool))
    # two equal values, and only the vector of the third is used
    a, h = np.diag([1.0, 1.0, 5.0]) + 0.1, 1e-6
    gradient = dlvm.grad(first_component)(a)
    step = np.tril(W[:3, :3])
    difference = (first_component(a + h * step) - first_component(a - h * step)) / (2 * h)
    assert np.sum(gradient * step) == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize(
    ("f", "x", "kind", "words"),
    [
        (lambda a: np.sum(np.linalg.qr(a, "complete")[0]), TALL, ValueError, "mode='complete' has no derivative"),
        pytest.param(
            lambda a: np.sum(np.linalg.svd(a)[0]),
            TALL,
            ValueError,
            "full_matrices=True has a derivative only for square",
            marks=SLOW,
        ),
        (lambda a: np.sum(np.linalg.qr(a)[1]), np.diag([1.0, 2.0, 0.0]), np.linalg.LinAlgError, "Singular matrix"),
    ],
)
def test_what_has_no_derivative_raises(f, x, kind, words):
    with pytest.raises(kind, match=words):
        dlvm.grad(f)(x)


@pytest.mark.slow
def test_a_truncated_pseudoinverse_has_no_derivative():
    """The rule is that at constant rank: what the cutoff leaves out has to be 0."""
    assert np.isnan(dlvm.grad(lambda a: np.sum(np.linalg.pinv(a, 0.5)))(np.diag([1.0, 0.3]))).all()
