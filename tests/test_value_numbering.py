"""What two paths compute alike is computed once: functions with branches, called twice; values and gradients."""

import numpy as np
import pytest
from test_random_python import check_values

import dlvm_py as dlvm


def _spread(x):
    """A helper with a branch and temporaries, as functions of the library have."""
    if x.shape[0] > 1:
        low, high = np.min(x), np.max(x)
    else:
        low, high = 0.0, 1.0
    if low == high:
        raise ValueError("no spread")
    scaled = np.exp((x - low) / (high - low))
    return scaled / np.sum(scaled)


def twice(x, w):
    return np.sum(_spread(x) * w) + np.sum(_spread(x)[::-1] * w * w)


def changed_between(x, w):
    a = _spread(x)
    x[0] = 5.0
    return a + w * _spread(x)


def in_a_loop(x, w):
    total = 0.0
    for k in range(w.shape[0]):
        y = x * w[k]
        total += np.sum(_spread(y) * w) + np.sum(_spread(y)[::-1] * w)
        if k % 2 == 0:
            y[0] = 7.0
            total += np.max(_spread(y))
    return total


def one_side_differs(x, w):
    if w[0] > 0.5:
        a = np.sum(_spread(x))
    else:
        a = 2.0
    if w[0] > 0.5:
        b = np.sum(_spread(x))
    else:
        b = 3.0
    return a, b


def carried_from_the_last_trip(x, w):
    kept = np.zeros(x.shape[0])
    total = 0.0
    for k in range(w.shape[0]):
        total += np.sum(kept * w)
        kept[:] = _spread(x * (k + 1.0))
        total += np.sum(_spread(x * (k + 1.0)) * w)
    return total


def two_histograms(x, w):
    return np.histogram(x, 7, weights=w)[0] / np.maximum(np.histogram(x, 7)[0], 1)


FUNCTIONS = [twice, changed_between, in_a_loop, one_side_differs, carried_from_the_last_trip, two_histograms]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda f: f.__name__)
def test_values(fn):
    """As in NumPy, with both outcomes of the branches, and what is raised."""
    rng = np.random.default_rng(0)
    compiled = dlvm.jit(fn)
    for x in (rng.random(9), rng.random(9) - 0.7, np.full(9, 0.25)):
        for w in (rng.random(9), rng.random(9) + 0.6):
            check_values(compiled, fn, (x.copy(), w))


def test_one_pass_for_two_calls():
    """Limits and bins of two histograms of one array are computed once, in one block."""
    text = dlvm.jit(two_histograms).ir(np.ones(9), np.ones(9), stage="compute")
    assert text.count(" by min ") == text.count(" by max ") == 1
    assert text.count("truncate") == 1
    assert text.count("scatter") == 2


@pytest.mark.parametrize("fn", [twice, pytest.param(in_a_loop, marks=pytest.mark.slow)])
def test_gradients(fn):
    """As differences, and forward and reverse mode agree."""
    rng = np.random.default_rng(1)
    x, w, dx = rng.random(6), rng.random(6), rng.normal(size=6)
    gradient = dlvm.grad(fn)(x.copy(), w)
    step = 1e-6
    slope = (fn(x + step * dx, w) - fn(x - step * dx, w)) / (2 * step)
    assert np.isclose(np.dot(gradient, dx), slope, rtol=1e-6)
    assert np.isclose(dlvm.jvp(fn, (x, w), (dx, np.zeros(6)))[1], np.dot(gradient, dx), rtol=1e-12)


def by_the_angle(x, w):
    """The branch of the derivative asks for cosine and sine of an angle that the function's branch has made."""
    square = x[0] * x[0] + x[1] * x[1]
    if square > 0.0:
        angle = np.sqrt(square)
        turned = np.cos(angle) * x[0] * w[0] + np.sin(angle) * x[1] * w[1]
    else:
        turned = w[0] + x[0]
    return turned * turned * w[2]


@pytest.mark.parametrize("x", [np.array([0.3, -0.8]), np.zeros(2)])
def test_a_branch_taken_again_knows_what_the_first_one_made(x):
    w = np.array([1.5, -0.7, 0.4])
    gradient = dlvm.grad(by_the_angle)
    text = gradient.ir(x, w, stage="optimizable")
    assert [text.count(f" {op} ") for op in ("sqrt", "cos", "sin")] == [1, 1, 1]
    if x.any():
        moved = [[by_the_angle(x + sign * 1e-6 * e, w) for e in np.eye(2)] for sign in (1, -1)]
        assert gradient(x, w) == pytest.approx(np.subtract(*moved) / 2e-6, rel=1e-7)
    else:
        assert gradient(x, w).tolist() == [2 * w[0] * w[2], 0.0]


def of_two_conditions(x, a, b):
    """What is known behind one condition is not known beside it, or behind another, or in the next trip."""
    total = 0.0
    for k in range(x.shape[0]):
        if a[k]:
            u = x[k] * 2.0
            v = np.exp(u)
        else:
            u = x[k] * 3.0
            v = 1.0
        total += u
        if b[k]:
            total += np.exp(u)
        if not a[k]:
            total += np.exp(u) * v
        else:
            total -= np.exp(u) * v
        if total > 5.0:
            total += np.exp(u) + v
    return total


@pytest.mark.parametrize("seed", range(2))
def test_beside_a_condition_nothing_is_known(seed):
    rng = np.random.default_rng(seed)
    x, a, b = rng.normal(size=6), rng.random(6) < 0.5, rng.random(6) < 0.5
    assert dlvm.jit(of_two_conditions)(x, a, b) == pytest.approx(of_two_conditions(x, a, b), rel=1e-13)
