"""dlvm.implicit: derivatives of what a solver returns are those of the solution of its equation."""

import pickle

import numpy as np
import pytest

import dlvm_py as dlvm


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
