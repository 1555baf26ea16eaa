"""What a loop chooses is differentiated by the trip that it was (transforms/differentiate/replacements.py)."""

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")


def nearest(c, p):
    """A minimum by an `if`, of a sum of an inner loop."""
    total = 0.0
    for i in range(len(p)):
        least = np.inf
        for j in range(len(c)):
            d = 0.0
            for e in range(p.shape[1]):
                d += (p[i, e] - c[j, e]) ** 2
            if d < least:
                least = d
        total += least * least
    return total


def of_two_loops(c, p):
    """One choice over two loops, beside an index that goes with it."""
    best, at = -np.inf, 0
    for i in range(len(p)):
        for j in range(len(c)):
            v = np.sin(p[i, 0]) * c[j, 1]
            if v > best:
                best, at = v, i + j
    return best * (1 + at)


def by_min(c, p):
    """Python's own minimum is a select."""
    least = 10.0
    for i in range(len(p)):
        least = min(least, p[i, 0] * c[0, 0])
    return least * least + c[0, 0]


def with_way(c, p):
    """Steps to the place that depend on the trip, and others that are passed over."""
    best = -1.0
    for i in range(len(p)):
        if i % 3 == 1:
            continue
        v = p[i, 0] * c[0, 0]
        if i % 2 == 0:
            v = np.exp(p[i, 1]) * c[0, 1]
        if v > best:
            best = v
    return best


def of_arrays(c, p):
    """A reduction in the trip."""
    least = np.inf
    for j in range(len(c)):
        d = np.sum((p - c[j]) ** 2)
        if d < least:
            least = d
    return np.sqrt(least)


def walk(c, p):
    """No counter, but integers that can be recorded."""
    best, at, steps = 0.0, 0, 0
    while steps < 7:
        v = p[at, 0] * c[1, 0]
        if v > best:
            best = v
        at = (at * 3 + 1) % len(p)
        steps += 1
    return best


def asked(c, p):
    """What was chosen is compared behind the loop, too."""
    best = 0.0
    for i in range(len(p)):
        if p[i, 0] * c[0, 0] > best:
            best = p[i, 0] * c[0, 0]
    return best * best if best > 0.3 else best * c[0, 1]


CHOICES = (nearest, of_two_loops, by_min, with_way, of_arrays, walk, asked)


def is_left_early(c, p):
    """Not at its head alone."""
    least = np.inf
    for i in range(len(p)):
        v = p[i, 0] * c[0, 0]
        if v < least:
            least = v
        if i == 3:
            break
    return least


def at_two_places(c, p):
    """Two new values."""
    best = 0.0
    for i in range(len(p)):
        if p[i, 0] > best:
            best = p[i, 0] * c[0, 0]
        elif p[i, 1] > best:
            best = p[i, 1] * c[0, 1]
    return best


def of_itself(c, p):
    """The new value depends on the old one."""
    best = 0.1
    for i in range(len(p)):
        v = p[i, 0] * c[0, 0] + 0.25 * best
        if v > best:
            best = v
    return best


def with_memory(c, p):
    """What the trip read is written by the next one."""
    a = p.copy()
    best = 0.0
    for i in range(len(p) - 1):
        v = a[i, 0] * c[0, 0]
        if v > best:
            best = v
        a[i, 0] = 2 * a[i + 1, 1]
        a[i + 1, 0] = a[i, 0] * 0.5
    return best + a[2, 0]


def used_within(c, p):
    """More than compared."""
    best, total = 0.1, 0.0
    for i in range(len(p)):
        v = p[i, 0] * c[0, 0]
        if v > best:
            best = v
        total += best * c[0, 1]
    return total + best


OTHERS = (is_left_early, at_two_places, of_itself, with_memory, used_within)


def arguments(dtype=float):
    rng = np.random.default_rng(3)
    return rng.random((4, 2)).astype(dtype) + dtype(0.1), rng.random((6, 2)).astype(dtype) + dtype(0.2)


def differences(f, c, p, h=1e-6):
    found = np.zeros_like(c)
    for k in np.ndindex(c.shape):
        up, down = c.copy(), c.copy()
        up[k] += h
        down[k] -= h
        found[k] = (f(up, p) - f(down, p)) / (2 * h)
    return found


@pytest.mark.parametrize("f", CHOICES + OTHERS, ids=lambda f: f.__name__)
def test_derivatives(f):
    c, p = arguments()
    g = dlvm.value_and_grad(f)
    value, gradient = g(c, p)
    assert value == pytest.approx(f(c, p), rel=1e-15)
    np.testing.assert_allclose(gradient, differences(f, c, p), rtol=1e-7, atol=1e-8)
    assert ("'chosen" in g.ir(stage="raw")) == (f in CHOICES)


@pytest.mark.parametrize("f", (of_two_loops, by_min, of_itself), ids=lambda f: f.__name__)
def test_forward_mode(f):
    c, p = arguments()
    t = np.cos(np.arange(8.0)).reshape(4, 2)
    value, tangent = dlvm.jvp(f, (c, p), (t, None))
    assert value == pytest.approx(f(c, p), rel=1e-15)
    assert tangent == pytest.approx(np.sum(differences(f, c, p) * t), rel=1e-7)


def test_second_order_and_the_ends():
    c, p = arguments()
    g = dlvm.grad(nearest)
    ones = np.ones_like(c)
    along = (g(c + 1e-6 * ones, p) - g(c - 1e-6 * ones, p)) / 2e-6
    np.testing.assert_allclose(dlvm.jvp(g, (c, p), (ones, None))[1], along, rtol=1e-6, atol=1e-6)
    assert not g(c, p[:0]).any()  # no trip
    assert not g(c, np.full_like(p, np.nan)).any()  # nothing was ever less
    with pytest.raises(IndexError, match="index 2 is out of bounds for axis 1"):
        g(c, np.ones((3, 3)))


def test_single_precision():
    c, p = arguments(np.float32)
    g = dlvm.grad(nearest)(c, p)
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, dlvm.grad(nearest)(c.astype(float), p.astype(float)), rtol=1e-5, atol=1e-6)
