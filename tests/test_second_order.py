"""Gradients of gradients, natively, on the differentiable programs of the corpus.

Law: the derivative of the sum of a gradient's entries equals central differences of that (native) gradient.
"""

import copy

import numpy as np
import pytest
from programs import PROGRAMS

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

NAMES = [
    "heat_steps", "newton_sqrt", "early_return_nested", "continue_and_break", "running_product", "two_layers",
    "log_softmax", "shift_right", "tridiagonal_sweep", "loop_over_while",
]  # fmt: skip
CHOSEN = [p for p in PROGRAMS if p.differentiable and p.name in NAMES]


def first_float(args):
    """The position of the first float argument."""
    return next(k for k, a in enumerate(args) if isinstance(a, float) or getattr(a, "dtype", None) == np.float64)


@pytest.mark.parametrize("program", CHOSEN, ids=[p.name for p in CHOSEN])
def test_gradient_of_the_gradient_equals_differences(program):
    """d/dx of sum(df/dx) agrees with central differences of df/dx."""
    args = program.make_args()
    wrt = first_float(args)
    first = dlvm.grad(program.fn, wrt=wrt)
    second = dlvm.grad(first, wrt=wrt)(*args)

    def total(values):
        return float(np.sum(first(*values)))

    h = 1e-5
    x = args[wrt]
    if isinstance(x, float):
        up, down = list(args), list(args)
        up[wrt], down[wrt] = x + h, x - h
        want = (total(up) - total(down)) / (2 * h)
    else:
        want = np.zeros(x.shape)
        for index in np.ndindex(*x.shape):
            up, down = copy.deepcopy(list(args)), copy.deepcopy(list(args))
            up[wrt][index] += h
            down[wrt][index] -= h
            want[index] = (total(up) - total(down)) / (2 * h)
    np.testing.assert_allclose(second, want, rtol=1e-5, atol=1e-6)


def test_a_zero_seed_does_not_hide_the_mixed_derivative():
    """d/dy d/dx of sqrt(x) * y at y = 0 is 1 / (2 sqrt(x)): the guard of a zero seed is transparent to order two."""

    def f(x, y):
        return np.sqrt(x) * y

    assert dlvm.grad(dlvm.grad(f, wrt="x"), wrt="y")(4.0, 0.0) == 0.25
    assert dlvm.grad(f, wrt="x")(0.0, 0.0) == 0.0


def test_ties_and_kinks_follow_the_conventions():
    """max shares a tie, gives a constant nothing; abs at 0 has derivative 0; where keeps NaN of the other side out."""
    both = dlvm.grad(lambda a, b: np.maximum(a, b), wrt=(0, 1))
    assert both(2.0, 2.0) == (0.5, 0.5)
    assert dlvm.grad(lambda x: np.maximum(x, 0.0))(0.0) == 0.0
    assert dlvm.grad(lambda x: np.abs(x))(0.0) == 0.0
    x = np.array([4.0, 0.0, -1.0])
    g = dlvm.grad(lambda x: np.sum(np.where(x > 0.0, np.sqrt(x), 0.0)))(x)
    np.testing.assert_array_equal(g, [0.25, 0.0, 0.0])


@pytest.mark.parametrize(
    ("f", "second"),
    [
        (lambda x: np.sum(np.where(x > 0.0, np.sqrt(x), 0.0)), -1 / 32),
        (lambda x: np.sum(np.where(x > 0.0, x * np.log(x), 0.0)), 1 / 4),
        (lambda x: np.sum(np.where(x > 0.0, x ** (0.25 * x[0]), 0.0)), None),
    ],
    ids=["sqrt", "log", "power"],
)
def test_what_where_leaves_out_stays_out_of_second_derivatives(f, second):
    """The side that is not taken gives exactly 0, also where its second partials are infinite or NaN, by all modes."""
    x, v = np.array([4.0, 0.0, -1.0]), np.ones(3)
    by_forward, by_reverse = dlvm.hvp(f)(x, v), dlvm.grad(dlvm.grad(f))(x)
    np.testing.assert_allclose(by_forward, by_reverse, rtol=1e-12)
    assert np.all(by_forward[1:] == 0.0)
    if second is not None:
        assert by_forward[0] == pytest.approx(second, rel=1e-12)


def test_clip_has_slope_one_on_the_closed_interval():
    """At a border the derivative is that of x, and the bound has none; also for bounds that are variables."""
    g = dlvm.grad(lambda x, a, b: np.sum(np.clip(x, a, b)), wrt=(0, 1, 2))
    dx, da, db = g(np.array([-1.0, 0.0, 0.5, 1.0, 2.0]), 0.0, 1.0)
    np.testing.assert_array_equal(dx, [0.0, 1.0, 1.0, 1.0, 0.0])
    assert (da, db) == (1.0, 1.0)
