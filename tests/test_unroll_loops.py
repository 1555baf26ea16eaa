"""Loops whose counter chooses the way of each trip, in functions and derivatives, and what must not be unrolled."""

import numpy as np
import pytest

import dlvm_py as dlvm


def polar(p):
    angle = np.sqrt(p[0] * p[0] + p[1] * p[1])
    return np.cos(angle) * p[0], np.sin(angle) * p[1]


def rows(p, n):
    """Each of two rows has temporaries of its own, and the cosine of the same angle."""
    out = np.empty(2 * n)
    for i in range(n):
        for k in range(2):
            if k == 0:
                out[2 * i] = polar(p[i])[0]
            else:
                out[2 * i + 1] = polar(p[i])[1]
    return out


def three_ways(x, flag):
    total = 0.0
    for k in range(1, 4):
        if k < 2:
            total += np.sin(x[k]) * x[0]
        elif k != 3:
            if flag:
                total *= x[k]
        else:
            total = total * total + x[k]
    return total * k


def left_early(x, bound):
    total = 0.0
    for k in range(4):
        if k == 2:
            total *= 3.0
        if total > bound:
            break
        total += x[k]
    return total


def raises_in_a_trip(x, i):
    total = 0.0
    for k in range(2):
        if k == 0:
            total += x[i]
        else:
            total += x[i + 1]
    return total


def long_trips(x):
    total = 0.0
    for k in range(8):
        for j in range(x.shape[0]):
            total += np.sin(x[j] * k) * np.cos(x[j]) / (1.0 + x[j] * x[j])
        if k == 7:
            total *= 2.0
    return total


X = np.array([0.3, -1.2, 0.7, 2.5])


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (three_ways, (X, True)),
        (three_ways, (X, False)),
        (left_early, (X, 0.2)),
        (left_early, (X, -1.0)),
        (long_trips, (X,)),
    ],
)
def test_values_and_gradients(f, args):
    compiled = dlvm.jit(f)
    assert compiled(*args) == pytest.approx(f(*args), rel=1e-14)
    slope = dlvm.grad(compiled)(*args)
    along = np.array([0.3, -0.2, 0.5, 0.4])
    moved = [f(X + h * along, *args[1:]) for h in (1e-6, -1e-6)]
    forward = dlvm.jvp(compiled, args, (along, *(None for _ in args[1:])))[1]
    assert slope @ along == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-7)
    assert slope @ along == pytest.approx(forward, rel=1e-13)


def test_rows_share_what_is_common():
    p = np.array([[0.3, -0.7], [1.1, 0.2], [-0.4, 0.9]])
    compiled = dlvm.jit(rows)
    assert np.allclose(compiled(p, 3), rows(p, 3), rtol=1e-14)
    text = compiled.ir(p, 3, stage="optimizable")
    assert [text.count(f" {op} ") for op in ("sqrt", "cos", "sin")] == [1, 1, 1]


def test_a_trip_raises_as_before():
    compiled = dlvm.jit(raises_in_a_trip)
    assert compiled(X, 2) == raises_in_a_trip(X, 2)
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        compiled(X, 3)


def test_what_would_grow_stays_a_loop():
    text = dlvm.jit(long_trips).ir(X, stage="optimizable")
    assert text.count(" sin ") == 1
