"""dlvm.implicit: derivatives of what a solver returns are those of the solution of its equation."""

import pickle

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.krylov import gmres, neumann

pytestmark = pytest.mark.usefixtures("plain_code")


def equation(x, a):
    return x * x - a


@dlvm.implicit(equation)
def root(a):
    """The square root, by Newton's method."""
    x = a
    while abs(x * x - a) > 1e-14 * a:
        x = 0.5 * (x + a / x)
    return x


def step(x, a, b):
    return 0.3 * np.tanh(a @ x) + b


@dlvm.implicit(fixed_point=step)
def settled(a, b):
    x = np.zeros_like(b)
    for _ in range(60):
        x = step(x, a, b)
    return x


def loss(a, b):
    return np.sum(settled(a, b) ** 3)


A = np.array([[0.3, 0.1], [0.2, -0.4]])
B = np.array([0.5, 1.0])


def test_root_of_a_number():
    """Both modes, and second derivatives, of a `while` loop that is not differentiated."""
    assert root(2.0) == pytest.approx(2.0**0.5)
    assert dlvm.grad(root)(2.0) == pytest.approx(0.5 * 2**-0.5, rel=1e-13)
    assert dlvm.jvp(root, (2.0,), (3.0,))[1] == pytest.approx(1.5 * 2**-0.5, rel=1e-13)
    assert dlvm.grad(dlvm.grad(root))(2.0) == pytest.approx(-0.25 * 2**-1.5, rel=1e-12)
    assert dlvm.hvp(root)(2.0, 2.0) == pytest.approx(-0.5 * 2**-1.5, rel=1e-12)


def matrix_free(linear_solver, **options):
    """`loss` of the same fixed point, without its Jacobian."""
    of = dlvm.implicit(fixed_point=step, linear_solver=linear_solver, **options)(settled.__wrapped__)
    return lambda a, b: np.sum(of(a, b) ** 3)


@pytest.mark.parametrize("linear_solver", ["gmres", "neumann"])
def test_matrix_free(linear_solver):
    """The gradient without the Jacobian is that with it; where no solution is found it is an error."""
    gradient = dlvm.grad(matrix_free(linear_solver, tolerance=1e-13), (0, 1))
    for found, wanted in zip(gradient(A, B), dlvm.grad(loss, (0, 1))(A, B), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11)
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        gradient(A, np.array([np.nan, 1.0]))


@pytest.mark.slow
@pytest.mark.parametrize("linear_solver", ["gmres", "neumann"])
def test_matrix_free_in_all_modes_and_orders(linear_solver):
    """Forward mode, second derivatives by forward over reverse and reverse over reverse, single precision, a number."""
    f, w = matrix_free(linear_solver, tolerance=1e-13), np.array([0.3, -1.0])
    assert dlvm.jvp(f, (A, B), (A, w))[1] == pytest.approx(dlvm.jvp(loss, (A, B), (A, w))[1], rel=1e-11)
    np.testing.assert_allclose(dlvm.hvp(f, 1)(A, B, w), dlvm.hvp(loss, 1)(A, B, w), rtol=1e-10)
    twice = [
        dlvm.grad(lambda a, b, of=of: np.sum(of(a, b) ** 2), (0, 1))(A, B)
        for of in (dlvm.grad(f, 1), dlvm.grad(loss, 1))
    ]
    for found, wanted in zip(*twice, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
    single = dlvm.grad(matrix_free(linear_solver, tolerance=1e-6), 1)(A.astype("f"), B.astype("f"))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, dlvm.grad(loss, 1)(A, B), rtol=1e-5)
    halved = lambda x, a: 0.5 * (x + a / x)  # noqa: E731
    number = dlvm.implicit(fixed_point=halved, linear_solver=linear_solver)(root.__wrapped__)
    assert dlvm.grad(number)(2.0) == pytest.approx(0.5 * 2**-0.5, rel=1e-12)
    assert dlvm.jvp(number, (2.0,), (1.0,))[1] == pytest.approx(0.5 * 2**-0.5, rel=1e-12)


def test_linear_solvers():
    """Plain Python: random systems with and without restarts, exact ones, singular ones, too few products."""
    random = np.random.default_rng(5)
    for n, restart in ((1, 5), (7, 40), (30, 8)):
        m = random.standard_normal((n, n)) / (2 * np.sqrt(n)) + np.eye(n)
        b = random.standard_normal(n)
        y = gmres(lambda v, m=m: m @ v, b, 1e-12, 500, restart)
        assert np.linalg.norm(m @ y - b) <= 1e-12 * np.linalg.norm(b)
        half = np.eye(n) - 0.3 * m / np.linalg.norm(m, 2)
        y = neumann(lambda v, half=half: half @ v, b, 1e-12, 500)
        assert np.linalg.norm(half @ y - b) <= 1e-12 * np.linalg.norm(b)
    turn = np.roll(np.eye(6), 1, axis=0)  # of which the residual does not fall before the sixth product
    np.testing.assert_allclose(gmres(lambda v: turn @ v, np.arange(6.0), 1e-12, 9, 6), [1, 2, 3, 4, 5, 0], atol=1e-14)
    assert not gmres(lambda v: v, np.zeros(3), 1e-12, 9, 6).any()
    assert not neumann(lambda v: v, np.zeros(3), 1e-12, 9).any()
    for matrix, right, count, restart in (
        (turn, np.arange(6.0), 50, 3),
        (turn, np.arange(6.0), 4, 6),
        (np.zeros((3, 3)), np.ones(3), 50, 3),
        (np.diag([0.0, 1.0, 1.0]), np.ones(3), 50, 3),
        (np.eye(3), np.array([1.0, np.inf, 0.0]), 50, 3),
    ):
        with np.errstate(invalid="ignore"), pytest.raises(np.linalg.LinAlgError):
            gmres(lambda v, matrix=matrix: matrix @ v, right, 1e-12, count, restart)
    for right in (np.ones(2), np.array([np.inf, 1.0])):
        with np.errstate(invalid="ignore"), pytest.raises(np.linalg.LinAlgError):
            neumann(lambda v: 2.5 * v, right, 1e-12, 50)


def test_there_is_no_tape():
    """The steps of the solver are not kept: there is no stack, where there is one without the rule."""
    assert "createStack" not in dlvm.grad(lambda a: root(a) ** 2).ir(2.0)
    assert "createStack" in dlvm.grad(root.__wrapped__).ir(2.0)


def test_fixed_point_of_a_vector():
    """The Jacobian in closed form; the gradients by differences."""

    x = settled(A, B)
    inner = 0.3 * (1 - np.tanh(A @ x) ** 2)[:, None] * A
    np.testing.assert_allclose(dlvm.jacobian(settled, 1)(A, B), np.linalg.inv(np.eye(2) - inner), rtol=1e-12)
    gradient = dlvm.grad(loss, (0, 1))
    of_a, of_b = gradient(A, B)
    h, v, w = 1e-5, np.array([[1.0, -2.0], [0.5, 1.0]]), np.array([0.3, -1.0])
    moved = (loss(A + h * v, B + h * w) - loss(A - h * v, B - h * w)) / (2 * h)
    assert np.sum(of_a * v) + np.sum(of_b * w) == pytest.approx(moved, rel=1e-8)


@pytest.mark.slow
def test_second_derivatives_of_a_vector():
    """Forward over reverse through the rules, against differences of the gradient."""
    h, w = 1e-5, np.array([0.3, -1.0])
    gradient = dlvm.grad(loss, 1)
    second = (gradient(A, B + h * w) - gradient(A, B - h * w)) / (2 * h)
    np.testing.assert_allclose(dlvm.hvp(loss, 1)(A, B, w), second, rtol=1e-7)
    np.testing.assert_allclose(dlvm.hessian(loss, 1)(A, B) @ w, second, rtol=1e-7)


def test_matrices_tuples_integers():
    """Unknowns with two axes; an argument that is a tuple with an integer; one that the equation does not use."""

    def zero(x, p, start):
        scale, n = p
        return x**n - scale

    def powers(p, start):
        scale, n = p
        return scale ** (1.0 / n) + 0.0 * start

    f = dlvm.implicit(zero, powers)
    scale = np.array([[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]])
    (g, none), of_start = dlvm.grad(lambda p, s: np.sum(f(p, s)), (0, 1))((scale, 3), np.ones((2, 3)))
    np.testing.assert_allclose(g, scale ** (-2 / 3) / 3, rtol=1e-12)
    assert none is None
    np.testing.assert_array_equal(of_start, np.zeros((2, 3)))


def test_refusals():
    """What cannot be an equation, a solver, or a solution."""
    with pytest.raises(dlvm.ArgumentError, match="DL705"):
        dlvm.implicit()
    for options in ({"linear_solver": "cg"}, {"linear_solver": "neumann"}, {"tolerance": 0.0}, {"restart": 0}):
        with pytest.raises(dlvm.ArgumentError, match="DL705"):
            dlvm.implicit(equation, **options)
    with pytest.raises(dlvm.ArgumentError, match="DL706"):
        dlvm.implicit(3)
    with pytest.raises(dlvm.ArgumentError, match="DL706"):
        dlvm.implicit(equation)(np.sqrt)
    pair = dlvm.implicit(lambda x, a: x, lambda a: (a, a))
    with pytest.raises(dlvm.CompileError, match="the solver returns a tuple"):
        dlvm.grad(lambda a: pair(a)[0])(2.0)
    flat = dlvm.implicit(lambda x, a: 0.0 * x - a, lambda a: a * 1.0)
    with pytest.raises(np.linalg.LinAlgError):
        dlvm.grad(lambda a: np.sum(flat(a)))(B)


def test_pickle():
    """A derivative of a marked solver is found again by its name."""
    assert pickle.loads(pickle.dumps(root)) is root
    assert pickle.loads(pickle.dumps(dlvm.grad(root)))(2.0) == dlvm.grad(root)(2.0)
