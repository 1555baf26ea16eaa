"""Adjoint memory of arrays that each trip of a loop makes for the next one (differentiate/handed_on.py)."""

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

U = np.linspace(0.3, 1.1, 5)
V = np.linspace(-0.7, 0.9, 5)


def relaxation(u, v, n):
    """The first trip reads an argument, which the trips read as well."""
    y = u
    for _ in range(n):
        y = np.sin(y) * v[0] + 0.1 * y[::-1] * u
    return np.sum(y * u) + y[1] * y[-1]


def section_first(u, v, n):
    """The first trip is given a view."""
    y = u[1:4]
    for _ in range(n):
        y = y * v[1] + np.cos(y)
    return np.sum(y) + u[2] * y[0]


def two_levels(u, v, n):
    """What a trip takes goes on to the one after the next: that one has its tape as before."""
    old, y = u, v
    for _ in range(n):
        old, y = y, 2 * y * u - old * np.sin(y)
    return np.sum(old * y)


def two_states(u, v, n):
    """Both begin as the same array, and each is computed of both."""
    a = b = u * v
    for _ in range(n):
        c = a * b + v
        b = np.sin(a) - 0.3 * b
        a = c * 0.5
    return np.sum(a * b)


def written_after(u, v, n):
    """An element is written behind the loop, of the first array where there was no trip."""
    first = u * 1
    y = first
    for _ in range(n):
        y = np.sin(y) * v[1]
    y[1] = y[0] * y[1]
    return np.sum(y * y) + first[1] * first[0]


def first_is_written(u, v, n):
    """The trips write what the first one was given."""
    first = u * v
    y = first
    for _ in range(n):
        first[0] = y[0] * y[1]
        y = np.cos(y) * v[2]
    return np.sum(y) * first[0] + first[1]


def written_in_trips(u, v, n):
    """Each trip writes what it takes before it makes the next."""
    first = u * 1
    y = first
    for _ in range(n):
        y[0] = y[1] * y[0]
        y = np.sin(y) * first[0] + y * v[3]
    return np.sum(y)


def parts(u, v, n):
    """Branches, an inner loop and elements work on what is handed on."""
    y = u * v
    for k in range(n):
        z = np.zeros_like(y)
        for i in range(1, len(y)):
            z[i] = y[i - 1] * y[i] + u[i]
        if k % 2:
            z[0] = y[-1] * y[-1]
        y = z
    total = 0.0
    for i in range(len(y)):
        total += y[i] * y[i] * v[i]
    return total


def until_small(u, v, n):
    """The count is not known before."""
    y = u
    left = 1.0 + n
    while left > 1.0:
        y = np.sin(y) * v[0] + y
        left -= 0.7
    return np.sum(y * y)


def sometimes(u, v, n):
    """The loop is behind a branch."""
    y = u
    if n > 1:
        for _ in range(n):
            y = y * v[0] + np.sin(y)
    return np.sum(y * y)


def nested(u, v, n):
    """Both loops hand on the same array."""
    y = u
    for _ in range(n):
        for _ in range(2):
            y = np.sin(y) * v[0]
        y = y + u
    return np.sum(y * y)


def returns_array(u, v, n):
    """The result is what the last trip made."""
    y = u
    for _ in range(n):
        y = np.sin(y[::-1]) * v[0] + y
    return y


FEW = [relaxation, first_is_written, written_in_trips, written_after]
MORE = [two_states, parts, until_small, two_levels, section_first, sometimes, nested]


def check(f, n):
    """Both gradients beside central differences."""
    found = dlvm.grad(f, (0, 1))(U, V, n)
    for k, got in enumerate(found):
        for i in range(len(U)):
            step = np.zeros(len(U))
            step[i] = 1e-6
            ways = []
            for sign in (1, -1):
                given = [U.copy(), V.copy()]
                given[k] += sign * step
                ways.append(f(*given, n))
            np.testing.assert_allclose(got[i], (ways[0] - ways[1]) / 2e-6, rtol=2e-6, atol=2e-8, err_msg=f"{k} {i}")


@pytest.mark.parametrize("f", FEW + [pytest.param(f, marks=pytest.mark.slow) for f in MORE])
def test_gradients(f):
    """As central differences say, where the loop runs not at all, once and often."""
    for n in (0, 1, 4):
        check(f, n)


@pytest.mark.parametrize("f", [relaxation, two_states], ids=lambda f: f.__name__)
def test_no_adjoint_memory_on_the_tape(f):
    """No stack holds pointers, and no trip of the forward sweep gets or makes any."""
    text = dlvm.grad(f).ir(U, V, 3, stage="optimizable")
    forward = text[text.index("'loop(%k") : text.index("_adj(")]
    assert "stack{*" not in text
    trips = forward[: forward.index("'", forward.index("branch 'loop"))]
    assert "shadow" not in trips


def test_an_array_is_the_result():
    """Seeds of the result go to the last one; forward over reverse is the same derivative of it."""
    seed = np.cos(U)
    value, pull = dlvm.vjp(returns_array, U, V, 3)
    along = np.sin(3 * V)
    tangent = dlvm.jvp(returns_array, (U, V, 3), (along, None, None))[1]
    got = dlvm.grad(returns_array, seedable=True)(U, V, 3, seed)
    np.testing.assert_allclose(np.dot(got, along), np.dot(seed, tangent), rtol=1e-12)
    np.testing.assert_allclose(got, pull(seed)[0], rtol=1e-13)
    np.testing.assert_array_equal(value, returns_array(U, V, 3))


def test_hessian():
    """The gradient's own loops are differentiated again."""
    gradient = dlvm.grad(relaxation)
    seed = np.sin(U)
    again = dlvm.grad(gradient, seedable=True)(U, V, 3, seed)
    h = 1e-6
    numeric = (gradient(U + h * seed, V, 3) - gradient(U - h * seed, V, 3)) / (2 * h)
    np.testing.assert_allclose(again, numeric, rtol=1e-7)
