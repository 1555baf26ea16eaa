"""np.linalg: values, errors and structures against NumPy, derivatives against differences and between the modes."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.ir import OPS
from dlvm_py.ir.parser import parse_module
from dlvm_py.tools.native import callable_of

pytestmark = pytest.mark.usefixtures("plain_code")

RNG = np.random.default_rng(0)
A = RNG.standard_normal((4, 4)) + 3 * np.eye(4)
B = RNG.standard_normal((4, 2))
S = A @ A.T
W = RNG.standard_normal((4, 4))
Z = A + 1j * RNG.standard_normal((4, 4))
STACK = RNG.standard_normal((3, 1, 2, 2)) + 2 * np.eye(2)


def same(got, want, rtol=1e-12):
    assert type(got) is type(want)
    if isinstance(want, tuple):
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol)
        return
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-12 if rtol < 1e-8 else 1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.complex64, np.int64])
def test_values_are_numpys(dtype):
    def f(a, b, v, s):
        return (
            np.linalg.solve(a, b),
            np.linalg.solve(a, v),
            np.linalg.inv(a),
            np.linalg.cholesky(s),
            np.linalg.det(a),
            np.linalg.slogdet(a),
            np.linalg.matrix_power(a, 3),
        )

    a = (Z if np.dtype(dtype).kind == "c" else np.round(A * 4)).astype(dtype)
    b, s = np.round(B * 4).astype(dtype), (a @ a.conj().T).astype(dtype)
    single = dtype in (np.float32, np.complex64)
    same(dlvm.jit(f)(a, b, b[:, 0].copy(), s), f(a, b, b[:, 0].copy(), s), 2e-4 if single else 1e-11)


def test_layouts_stacks_and_sizes():
    def f(a, b):
        return np.linalg.solve(a, b), np.linalg.det(a), np.linalg.inv(a)

    for a, b in (
        (A.T, B[::-1]),
        (np.asfortranarray(A), np.asfortranarray(B)),
        (A[::2, ::2], B[::2]),
        (A[:1, :1], B[:1]),
        (np.empty((0, 0)), np.empty((0, 2))),
        (STACK, RNG.standard_normal((5, 2, 3))),
    ):
        same(dlvm.jit(f)(a, b), f(a, b))
    same(dlvm.jit(lambda s: np.linalg.cholesky(s))(STACK @ np.swapaxes(STACK, -1, -2)),
         np.linalg.cholesky(STACK @ np.swapaxes(STACK, -1, -2)))  # fmt: skip


def test_norms():
    def f(x, v):
        return (
            np.linalg.norm(x), np.linalg.norm(v), np.linalg.norm(v, 1), np.linalg.norm(v, np.inf),
            np.linalg.norm(v, -np.inf), np.linalg.norm(v, 3), np.linalg.norm(v, 0), np.linalg.norm(x, "fro"),
            np.linalg.norm(x, 1), np.linalg.norm(x, -1), np.linalg.norm(x, np.inf), np.linalg.norm(x, -np.inf),
            np.linalg.norm(x, axis=1), np.linalg.norm(x, axis=0, keepdims=True),
        )  # fmt: skip

    same(dlvm.jit(f)(W, B[:, 0].copy()), f(W, B[:, 0].copy()))
    np.testing.assert_array_equal(dlvm.grad(lambda v: np.linalg.norm(v))(np.zeros(3)), np.zeros(3))
    np.testing.assert_allclose(dlvm.grad(lambda v: np.linalg.norm(v))(np.array([3.0, 4.0])), [0.6, 0.8])


@pytest.mark.parametrize(
    ("f", "argument", "words"),
    [
        (lambda a: np.linalg.solve(a, a), np.zeros((2, 2)), "Singular matrix"),
        (lambda a: np.linalg.inv(a), np.ones((3, 3)), "Singular matrix"),
        (lambda a: np.linalg.cholesky(a), -np.eye(2), "Matrix is not positive definite"),
        (lambda a: np.linalg.det(a), np.ones((2, 3)), "Last 2 dimensions of the array must be square"),
    ],
)
def test_errors_are_numpys(f, argument, words):
    with pytest.raises(np.linalg.LinAlgError, match=words):
        dlvm.jit(f)(argument)


def test_what_raises_leaves_its_destination_alone():
    @dlvm.jit
    def f(a, b, c):
        if c:
            b[:] = np.linalg.cholesky(a)
        b[:] = np.linalg.solve(a, b)

    for c in (True, False):
        b = B.copy() if not c else W.copy()
        with pytest.raises(np.linalg.LinAlgError):
            f(np.zeros((4, 4)), b, c)
        np.testing.assert_array_equal(b, W if c else B)


def test_a_matrix_that_is_not_needed_still_raises():
    """A solution has an effect: it is not moved in front of a loop that may not run, nor dropped."""

    def f(a, n):
        total = 0.0
        for _ in range(n):
            total += np.linalg.solve(a, np.ones((2, 1)))[0, 0]
        return total

    compiled = dlvm.jit(f)
    assert compiled(np.zeros((2, 2)), 0) == 0.0
    with pytest.raises(np.linalg.LinAlgError):
        compiled(np.zeros((2, 2)), 1)


SMOOTH = {
    "solve": (lambda a, b, w: np.sum(np.linalg.solve(a, b) * w[:, :2]), A),
    "vector": (lambda a, b, w: np.linalg.solve(a, b[:, 0]) @ w[0], A),
    "inv": (lambda a, b, w: np.sum(np.linalg.inv(a) * w), A),
    "cholesky": (lambda a, b, w: np.sum(np.linalg.cholesky(a) * w), S),
    "product": (lambda a, b, w: np.sum(np.linalg.cholesky(a @ a.T) * w), A),
    "det": (lambda a, b, w: np.linalg.det(a) * b[0, 0], A),
    "slogdet": (lambda a, b, w: np.linalg.slogdet(a)[1] * b[0, 0], A),
    "power": (lambda a, b, w: np.sum(np.linalg.matrix_power(a, 3) * w), A),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    f, a = SMOOTH[name]
    gradient = dlvm.grad(f)(a, B, W)
    expected, h = np.zeros(a.shape), 1e-6
    for place in np.ndindex(*a.shape):
        step = np.zeros(a.shape)
        step[place] = h
        expected[place] = (f(a + step, B, W) - f(a - step, B, W)) / (2 * h)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)
    direction = np.random.default_rng(1).standard_normal(a.shape)
    _, moved = dlvm.jvp(f, (a, B, W), (direction, None, None))
    assert moved == pytest.approx(np.sum(gradient * direction), rel=1e-10)
    product = dlvm.hvp(f)(a, B, W, direction)
    g = dlvm.grad(f)
    difference = (g(a + h * direction, B, W) - g(a - h * direction, B, W)) / (2 * h)
    np.testing.assert_allclose(product, difference, rtol=1e-5, atol=1e-5)


def test_complex_solutions_have_the_steepest_gradient():
    def f(z, b):
        x = np.linalg.solve(z, b)
        return np.sum(x.real**2 + x.imag**2)

    gradient = dlvm.grad(f)(Z, B)
    direction = np.random.default_rng(1).standard_normal((4, 4)) + 1j * W
    h = 1e-6
    difference = (f(Z + h * direction, B) - f(Z - h * direction, B)) / (2 * h)
    assert np.real(np.vdot(gradient, direction)) == pytest.approx(difference, rel=1e-6)


def test_the_rows_evaluate_as_numpy():
    np.testing.assert_array_equal(OPS["solve"](A, B), np.linalg.solve(A, B))
    singular = np.outer([1.0, 2.0], [1.0, 2.0])
    for a, by, want in ((A, "lu", 1), (singular, "lu", 0), (A @ A.T, "cholesky", 1), (-A @ A.T, "cholesky", 0)):
        np.testing.assert_array_equal(OPS["factorizes"](a, by=by), [want])
    np.testing.assert_array_equal(OPS["determinant"](A), [np.linalg.det(A), *np.linalg.slogdet(A)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_adjoint_of_a_factor_by_blocks(dtype):
    """Rows one by one, and halves of odd sizes; any layout; what is above the diagonals is not read."""
    kind = {"f": f"f{np.dtype(dtype).itemsize * 8}", "c": "c128"}[np.dtype(dtype).kind]
    matrix = f"<_ x _ x {kind}>"
    turned = f"%t = transpose %l: {matrix}\n    %u = transpose %s: {matrix}\n"
    body = f"%y = choleskyAdjoint %t: {matrix}, %u: {matrix}\n    return %y: {matrix}"
    text = f'module "m"\nstage raw\n\nfunc @f: ({matrix}, {matrix}) -> {matrix} {{\n'
    text += f"'entry(%l: {matrix}, %s: {matrix}):"
    by_columns = callable_of(parse_module(f"{text}\n    {turned}    {body}\n}}\n"), "f")
    body = body.replace("%t", "%l").replace("%u", "%s")
    compiled = callable_of(parse_module(f"{text}\n    {body}\n}}\n"), "f")
    rng = np.random.default_rng(7)
    for n in (0, 1, 5, 32, 71):
        s, low = (rng.standard_normal((n, n)).astype(dtype) for _ in range(2))
        if kind == "c128":
            s, low = s + 1j * s[::-1], low + 1j * low[::-1]
        low = low / max(n, 1) ** 0.5
        low[np.diag_indices(n)] = rng.uniform(1, 2, n)
        want = OPS["choleskyAdjoint"].evaluate(low, s)
        limit = {"rtol": 1e-3, "atol": 1e-4} if kind == "f32" else {"rtol": 1e-8, "atol": 1e-10}
        for ours in (compiled(low, s), by_columns(low.T.copy(), s.T.copy())):
            assert ours.dtype == want.dtype
            np.testing.assert_allclose(ours, want, **limit)
        spoiled = [np.where(np.triu(np.ones((n, n), bool), 1), np.nan, x).astype(dtype) for x in (low, s)]
        np.testing.assert_allclose(compiled(*spoiled), want, **limit)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_many_right_hand_sides(dtype):
    """A column is the same wherever it stands, in whatever layout, and with any number of threads."""
    rng, before = np.random.default_rng(9), dlvm.get_num_threads()
    solve = dlvm.jit(lambda a, b: np.linalg.solve(a, b))
    parts = np.ones((), dtype) if np.dtype(dtype).kind == "f" else dtype(0.6 + 0.8j)
    try:
        for n, m in ((0, 9), (1, 16), (3, 33), (6, 40), (12, 17), (263, 70)):
            a, b = ((rng.standard_normal((n, k)) * parts + rng.standard_normal((n, k))).astype(dtype) for k in (n, m))
            a += 2 * n * np.eye(n, dtype=dtype)
            found = []
            for threads in (1, 2, 3):
                dlvm.set_num_threads(threads)
                found += [solve(a, b), solve(a, b[:, ::-1])[:, ::-1], solve(a, np.asfortranarray(b))]
            bound = 50 * np.finfo(dtype).eps
            np.testing.assert_allclose(found[0], np.linalg.solve(a, b), rtol=bound, atol=bound)
            assert all(x.dtype == dtype and np.array_equal(x, found[0]) for x in found)
    finally:
        dlvm.set_num_threads(before)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        solve(np.ones((3, 3), dtype), np.ones((3, 20), dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_determinants_beyond_the_range_of_products(dtype):
    """Where a part of the product is no number, the whole may be one; a zero pivot decides, whatever else there is."""
    det, slogdet = dlvm.jit(lambda a: np.linalg.det(a)), dlvm.jit(lambda a: np.linalg.slogdet(a))
    big = 1e30 if np.dtype(dtype).itemsize // (1 + (np.dtype(dtype).kind == "c")) == 4 else 1e200
    rows = ([big, big, 1 / big, 1 / big], [1 / big, -1 / big, big, big], [big] * 3, [1 / big] * 3, [np.nan, 1, 0])
    for row in (*rows, [np.inf, 1, 0], [np.inf, 2, 1], [-1, np.nan], [0, 0], []):
        a = np.diag(row).astype(dtype)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(det(a), np.linalg.det(a), rtol=1e-4 if big == 1e30 else 1e-12)
            np.testing.assert_allclose(slogdet(a), np.linalg.slogdet(a), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_solve_of_triangles(dtype):
    """Upper triangles are solved by substitution, whatever their layout; singular ones raise; NaN is an element."""
    rng = np.random.default_rng(5)
    solve = dlvm.jit(lambda a, b: np.linalg.solve(a, b))
    for n in (1, 2, 3, 30):
        a = (rng.standard_normal((n, n)) + 2 * n * np.eye(n)).astype(dtype)
        b = rng.standard_normal((n, 4)).astype(dtype)
        for m in (np.tril(a), np.triu(a), np.tril(a).T, np.diag(np.diag(a)), a):
            np.testing.assert_allclose(solve(m, b), np.linalg.solve(m, b), rtol=1e-3 if dtype is np.float32 else 1e-9)
    for singular in ([[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 0], [0, 0]]):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            solve(np.array(singular, dtype), np.ones((2, 1), dtype))
    hidden = np.array([[1, np.nan], [0, 1]], dtype)
    assert np.isnan(solve(hidden, np.ones((2, 1), dtype))[0, 0])
