"""Sums of the reverse sweep with products in common are made of one another: values, zeros and infinities."""

import re

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

rng = np.random.default_rng(11)


def relaxed(x, y, b, a, c, d):
    """A step of Jacobi's method: sums with numbers as factors, a divisor for both."""
    return np.sum(b * ((x * a**2 + y * c**2) / (2 * (a**2 + c**2)) - d * x))


def diffused(x, y, b, a, c, d):
    return np.sum(b * (x - d * (a * (x + y) + c * (x - y) - a / c * -(y - x))))


def differences(x, y, b, a, c, d):
    """Products of quotients: both divisors get the same sum."""
    u = (x[1:] - x[:-1]) / (2 * a)
    v = (y[1:] - y[:-1]) / (2 * c)
    return np.sum(b[1:] * d * (u * v - u**2 - 2 * v * u / a))


def rows(x, y, b, a, c, d):
    """Sums along one axis."""
    m = x.reshape(-1, 3) * np.array([a, c, d])
    return np.sum((m + y.reshape(-1, 3) / np.array([[c, d, a]])) ** 2 * b[0])


def exponents(x, y, b, a, c, d):
    return np.sum(np.exp(-x * a) * b / c + np.exp(-x * a) * y * d * a - np.exp(-x * a) / (c * d))


def cancels(x, y, b, a, c, d):
    return np.sum((x * a + b * c) * (x * a - b * c) / d - y * (x + y - (x - y)) * a / d)


FUNCTIONS = (relaxed, diffused, differences, rows, exponents, cancels)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_shared_sums_beside_differences(f, dtype, monkeypatch):
    monkeypatch.setenv("DLVM_VERIFY", "1")
    gradient = dlvm.grad(f, wrt=tuple(range(6)))
    tolerance = 1e-6 if dtype is np.float64 else 1e-3
    for n in (3, 6, 33, 1029):
        args = [rng.uniform(0.5, 1.5, n) for _ in range(3)] + [*rng.uniform(0.5, 1.5, 3)]
        found = gradient(*(np.asarray(v, dtype)[()] for v in args))
        for k, g in enumerate(found):
            assert np.asarray(g).dtype == dtype
            along = rng.standard_normal(np.shape(args[k]))
            moved = [[v + h * along if j == k else v for j, v in enumerate(args)] for h in (1e-6, -1e-6)]
            wanted = (f(*moved[0]) - f(*moved[1])) / 2e-6
            size = np.sum(np.abs(g * along)) + abs(f(*args)) + 1e-3
            np.testing.assert_allclose(np.sum(g * along) / size, wanted / size, rtol=0, atol=tolerance)


def test_a_sum_of_sums_is_made_of_those():
    """Of the numbers of a step of Jacobi's method two need sums, of which those of the divisor are made."""
    args = [np.ones(5)] * 3 + [1.0, 2.0, 3.0]
    text = dlvm.grad(relaxed, wrt=("a", "c", "d")).ir(*args, stage="optimizable")
    assert len(re.findall(r"= (reduce|dot) ", text)) == 2


def test_zero_seeds_win_over_infinite_partials():
    """As in a sum of its own: what is not chosen has no derivative, whatever divides it."""

    def f(x, a, c):
        return np.sum(np.where(x > 0, (x * a + 1 / x * c) / a, 0.0)) + np.sum(np.where(x > 0, 1 / x * c / a, 1.0))

    x = np.array([0.0, 1.0, 2.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        of_x, of_a, of_c = dlvm.grad(f, wrt=(0, 1, 2))(x, 2.0, 3.0)
    inside = x[1:]
    np.testing.assert_allclose(of_a, -2 * np.sum(3.0 / inside) / 4)
    np.testing.assert_allclose(of_c, np.sum(1 / inside))
    np.testing.assert_allclose(of_x, [0.0, 1 - 3.0, 1 - 3.0 / 4])


def test_nothing_flows_to_a_divisor_that_is_zero():
    """A seed of zeros everywhere: 0, not 0 / 0."""

    found = dlvm.grad(lambda x, y, a, c, s: np.sum(s * ((x * a + y * c) / a)), wrt=(2, 3))
    of_a, of_c = found(np.ones(3), np.ones(3), 2.0, 3.0, np.zeros(3))
    assert of_a == of_c == 0.0


def test_the_second_derivative():
    args = [rng.uniform(0.5, 1.5, 7) for _ in range(3)] + [1.1, 0.7, 0.9]
    second = dlvm.grad(dlvm.grad(relaxed, wrt="a"), wrt="c")(*args)
    first = dlvm.grad(relaxed, wrt="a")
    moved = [first(*args[:4], args[4] + h, args[5]) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(second, (moved[0] - moved[1]) / 2e-6, rtol=1e-6)


def test_complex_numbers():
    def f(x, y, a, c):
        z = (x * a + y * c) / a
        return np.sum(z.real**2 + z.imag**2)

    x, y = (rng.standard_normal(9) + 1j * rng.standard_normal(9) for _ in range(2))
    a, c = 0.8 + 0.3j, -0.4 + 1.1j
    of_a, of_c = dlvm.grad(f, wrt=(2, 3))(x, y, a, c)
    for g, move in ((of_a, lambda h: (a + h, c)), (of_c, lambda h: (a, c + h))):
        for direction in (1.0, 1j):
            wanted = [f(x, y, *move(s * 1e-6 * direction)) for s in (1, -1)]
            difference = (wanted[0] - wanted[1]) / 2e-6
            np.testing.assert_allclose((np.conj(g) * direction).real, difference, rtol=1e-6, atol=1e-6)
