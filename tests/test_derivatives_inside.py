"""Derivatives that are called inside compiled code, and derivatives of code that calls them."""

import math
from collections import namedtuple

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

RNG = np.random.default_rng(0)
SCALE = np.array([1.0, -0.5, 2.0])


def loss(w, x, y):
    return np.sum((np.tanh(x @ w) - y) ** 2)


dloss = dlvm.grad(loss)


def descend(w, x, y, rate):
    for _ in range(20):
        w = w - rate * dloss(w, x, y)
    return w


def data():
    return RNG.standard_normal(3), RNG.standard_normal((10, 3)), RNG.standard_normal(10), 0.01


def test_a_gradient_of_the_module_in_a_loop():
    w, x, y, rate = data()
    expected = w
    for _ in range(20):
        expected = expected - rate * dloss(expected, x, y)
    np.testing.assert_allclose(dlvm.jit(descend)(w, x, y, rate), expected, rtol=1e-13)


def test_the_gradient_of_descent():
    """Through twenty steps, each of which is a gradient."""
    w, x, y, rate = data()

    def reached(w, x, y, rate):
        return np.sum(descend(w, x, y, rate))

    h = 1e-6
    difference = (reached(w, x, y, rate + h) - reached(w, x, y, rate - h)) / (2 * h)
    assert dlvm.grad(reached, wrt="rate")(w, x, y, rate) == pytest.approx(difference, rel=1e-7)
    _, moved = dlvm.jvp(reached, (w, x, y, rate), (None, None, None, 1.0))
    assert moved == pytest.approx(difference, rel=1e-7)


def quartic(z):
    return (z - 2.0) ** 4 + z


def test_made_inside_and_nested():
    def newton(z):
        for _ in range(30):
            z = z - dlvm.grad(quartic)(z) / dlvm.grad(dlvm.grad(quartic))(z)
        return z

    assert dlvm.jit(newton)(3.0) == pytest.approx(2.0 - 0.25 ** (1 / 3))


def test_values_kept_outputs_seeds_and_tuples():
    def pair(x, c):
        return np.sum(x**2) * c, x * c

    def f(x, c):
        value, (dx, dc) = dlvm.value_and_grad(pair, (0, 1))(x, c)
        first, kept = dlvm.grad(pair, "x", keeping=1)(x, c)
        seeded = dlvm.grad(pair, 0, from_=1, seedable=True)(x, c, x)
        return value[0] + dc, dx + first + kept, seeded

    def by_hand(x, c):
        return np.sum(x**2) * c + np.sum(x**2), 4 * x * c + x * c, x * c

    x = RNG.standard_normal(4)
    for got, want in zip(dlvm.jit(f)(x, 1.5), by_hand(x, 1.5), strict=True):
        np.testing.assert_allclose(got, want)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def test_hessians_jacobians_and_products_inside():
    def f(x, v):
        return dlvm.hessian(rosenbrock)(x) @ v - dlvm.hvp(rosenbrock)(x, v), dlvm.jacobian(rosenbrock)(x)

    x, v = RNG.standard_normal((2, 3))
    zero, gradient = dlvm.jit(f)(x, v)
    np.testing.assert_allclose(zero, 0.0, atol=1e-10)
    np.testing.assert_allclose(gradient, dlvm.grad(rosenbrock)(x))


def weighted(x):
    return np.sum(SCALE * x**2)


def test_captured_arrays_and_defaults():
    def f(x):
        return dlvm.grad(weighted)(x) * 1.0

    x = RNG.standard_normal(3)
    compiled = dlvm.jit(f)
    np.testing.assert_allclose(compiled(x), 2 * SCALE * x)
    SCALE[0] = 3.0
    np.testing.assert_allclose(compiled(x), 2 * SCALE * x)
    SCALE[0] = 1.0


Point = namedtuple("Point", "x y")


def of_point(p):
    return p.x**2 * p.y


def test_structures_come_back():
    def f(x, y):
        g = dlvm.grad(of_point)(Point(x, y))
        return g.x, g.y

    assert dlvm.jit(f)(3.0, 2.0) == (12.0, 9.0)


def power(x, n):
    return 1.0 if n == 0 else x * power(x, n - 1)


def test_of_a_recursive_function():
    def f(x):
        return dlvm.grad(power)(x, 4)

    assert dlvm.jit(f)(1.5) == pytest.approx(4 * 1.5**3)


def writes(a, b):
    a *= 2.0
    return np.sum(a * b)


def test_arrays_that_are_written_stay_and_may_not_be_shared():
    def apart(b):
        a = np.ones(3)
        g = dlvm.grad(writes)(a, b)
        return g, a

    g, a = dlvm.jit(apart)(np.arange(3.0))
    np.testing.assert_array_equal(g, 2 * np.arange(3.0))
    np.testing.assert_array_equal(a, np.ones(3))

    def shared(a):
        return dlvm.grad(writes)(a, a)

    def shared_views(a):
        return dlvm.vjp(writes, a[1:], a[:-1])[0]

    for f in (shared, shared_views):
        with pytest.raises(dlvm.UnsupportedSyntax, match="may share memory"):
            dlvm.jit(f)(np.ones(3))


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: dlvm.grad(quartic, x)(x), "it needs a function and constants"),
        (lambda x: dlvm.grad(lambda y: y * x, 1)(x), "the function has no such parameter"),
        (lambda x: dlvm.grad(lambda *y: y[0] * x)(x), "its parameters must be plain ones"),
        (lambda x: dlvm.jvp(quartic, (x,), ()), "a tuple of arguments, and one of as many tangents"),
        (lambda x: dlvm.vjp(quartic, x, from_=0), "`from_` is not supported"),
        (lambda x: dlvm.grad(quartic, "w")(x), "the function has no such parameter"),
        (lambda x: dlvm.grad(quartic)(x, x), "too many positional arguments"),
        (lambda x: dlvm.custom_adjoint(quartic)(x), "cannot be called in compiled code"),
    ],
)
def test_refusals_say_where(f, words):
    with pytest.raises(dlvm.CompileError, match=words) as caught:
        dlvm.jit(f)(1.0)
    assert "test_derivatives_inside.py" in str(caught.value)


def first(x):
    return math.sin(x)


def second(x):
    return math.cos(x)


def test_two_derivatives_are_two_versions_on_disk():
    """The key says what a captured derivative computes, not only how it looks."""
    one, two, three = dlvm.grad(first), dlvm.grad(second), dlvm.hvp(first)
    assert dlvm.jit(lambda x: one(x))(0.3) == pytest.approx(math.cos(0.3))
    assert dlvm.jit(lambda x: two(x))(0.3) == pytest.approx(-math.sin(0.3))
    assert dlvm.jit(lambda x: three(x, 1.0))(0.3) == pytest.approx(-math.sin(0.3))


# -- functions that are defined inside ----------------------------------------------------------------------


def test_the_perturbations_of_nested_derivatives_are_told_apart():
    def f(z):
        return dlvm.grad(lambda x: x * dlvm.grad(lambda y: x + y)(1.0))(z)

    def g(z):
        return dlvm.jvp(lambda x: x * dlvm.jvp(lambda y: x * y, (2.0,), (1.0,))[1], (z,), (1.0,))[1]

    assert dlvm.jit(f)(1.0) == 1.0
    assert dlvm.jit(g)(3.0) == 6.0
    assert dlvm.grad(g)(3.0) == 2.0


def test_derivatives_flow_through_what_is_captured():
    def f(x, k):
        w = np.sin(x)
        scaled = lambda u: u * w  # noqa: E731

        def loss(u, c):
            return np.sum(scaled(u) ** 2) * c

        du, dc = dlvm.grad(loss, (0, -1))(x * 1.0, k)
        return np.sum(du) + dc

    def by_hand(x, k):
        return np.sum(2 * k * x * np.sin(x) ** 2) + np.sum((x * np.sin(x)) ** 2)

    x, h = RNG.standard_normal(3), 1e-6
    assert dlvm.jit(f)(x, 1.5) == pytest.approx(by_hand(x, 1.5))
    dx, dk = dlvm.grad(f, (0, 1))(x, 1.5)
    assert dk == pytest.approx((by_hand(x, 1.5 + h) - by_hand(x, 1.5 - h)) / (2 * h), rel=1e-7)
    v = RNG.standard_normal(3)
    want = (by_hand(x + h * v, 1.5) - by_hand(x - h * v, 1.5)) / (2 * h)
    assert np.sum(dx * v) == pytest.approx(want, rel=1e-6)


def test_captured_names_are_read_at_the_call():
    def f(x):
        c = 1.0
        slope = dlvm.grad(lambda y: y * y * c)
        total = 0.0
        for _ in range(3):
            c = c * x
            total += slope(2.0)
        return total

    assert dlvm.jit(f)(2.0) == 4.0 * (2 + 4 + 8)
    assert dlvm.grad(f)(2.0) == pytest.approx(4.0 * (1 + 2 * 2 + 3 * 4))


def test_second_derivatives_of_a_closure():
    def f(x, v):
        energy = lambda y: np.sum(y**3) * x[0]  # noqa: E731
        return dlvm.hessian(energy)(x) @ v - dlvm.hvp(energy)(x, v), dlvm.grad(dlvm.grad(lambda t: t**3))(x[1])

    x, v = RNG.standard_normal((2, 3))
    zero, second = dlvm.jit(f)(x, v)
    np.testing.assert_allclose(zero, 0.0, atol=1e-12)
    assert second == pytest.approx(6 * x[1])


# -- jvp and vjp ----------------------------------------------------------------------------------------------


def wave(x, k):
    return np.sin(x) * k, np.sum(x)


def test_jvp_inside():
    def f(x):
        (a, s), (da, ds) = dlvm.jvp(wave, (x, 2.0), (x, None))
        return a, s, da, ds

    x = RNG.standard_normal(3)
    for got, want in zip(dlvm.jit(f)(x), (np.sin(x) * 2, np.sum(x), np.cos(x) * x * 2, np.sum(x)), strict=True):
        np.testing.assert_allclose(got, want)


def test_vjp_inside():
    def f(x):
        (a, s), pullback = dlvm.vjp(wave, x, 2.0)
        x[:] = 0.0  # too late
        dx, dk = pullback((np.ones(3), 3.0))
        return a, s, dx, dk, pullback((np.zeros(3), 1.0))[0]

    x = RNG.standard_normal(3)
    want = np.sin(x) * 2, np.sum(x), np.cos(x) * 2 + 3.0, np.sum(np.sin(x)), np.ones(3)
    for got, expected in zip(dlvm.jit(f)(x.copy()), want, strict=True):
        np.testing.assert_allclose(got, expected)

    def g(x):
        value, pullback = dlvm.vjp(lambda u, n: u * x * n, x, 2, wrt=0)
        return value * pullback(1.0)

    assert dlvm.jit(g)(3.0) == 18.0 * 6.0
    assert dlvm.grad(g)(3.0) == pytest.approx(12.0 * 9.0)
    assert dlvm.jit(lambda x: dlvm.vjp(quartic, x)[1](2.0)[0])(1.0) == pytest.approx(-6.0)
