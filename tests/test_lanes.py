"""Vector mode: Jacobians of several columns a sweep, against tangents one at a time and against differences."""

import numpy as np
import pytest
from programs import few_numbers

import dlvm_py as dlvm
from dlvm_py.errors import CompileError

pytestmark = pytest.mark.usefixtures("plain_code")

RNG = np.random.default_rng(3)


def numbers(x):
    """Numbers that go round loops, swap places and come out of branches."""
    a, b = x[0], x[1]
    out = np.zeros(x.size + 2)
    for i in range(x.size):
        a, b = b, a * x[i]
        if a > 0.3:
            a = np.sin(a) + x[i - 1]
        c = a if b > a else np.sqrt(abs(b) + 1.0)
        out[i] += c * b
    out[-2:] = a, b
    return out


def views(x):
    """Index ops of memory: parts, transposes, diagonals, steps backwards, reshapes, columns."""
    y = x.reshape(3, 4).copy()
    z = y.T
    z[1:, ::2] *= y[::-2, 1:].T
    square = np.zeros((4, 4))
    square[:3] = y
    d = np.diagonal(square, 1)
    y[:, 1] = d * y[2, 1:]
    row = square[1]
    row[::-1] += y[0] * row
    return square.ravel()[3:] * np.concatenate((x, x[:1]))


def arrays(x):
    """Sums, products, places, what is applied lane by lane."""
    y = np.ascontiguousarray(x[:12]).reshape(3, 4)
    gram = y @ y.T
    picked = x[np.array([[3, 1], [1, 0]])]
    held = np.zeros(3)
    np.add.at(held, np.array([0, 2, 0]), y[:, 1] * 2.0)
    return np.concatenate(
        (
            (y.T @ gram)[1] + y[0] @ y.T[:, :1] + gram.sum() * np.dot(y[0], y[1]),
            np.cumsum(np.where(x > 0, x * x, -x)),
            picked.ravel() * np.mean(y),
            held * np.max(y) + y[:, 0] @ gram,
        )
    )


def searching(x):
    """A loop without a count: its reverse keeps stacks."""
    total, step = 0.0, x[0]
    while step < 4.0:
        total += step * x[int(step)] ** 2
        step = step + 1.0 + 0.1 * np.tanh(x[2] * step)
    return total


CASES = [
    (numbers, 9),
    (views, 12),
    (arrays, 13),
    (dlvm.grad(searching), 10),
]


def columns(f, x):
    """The Jacobian by one tangent after another."""
    push = [dlvm.jvp(f, (x,), (e.reshape(x.shape),))[1] for e in np.eye(x.size, dtype=x.dtype)]
    return np.stack(push, axis=-1).reshape(*push[0].shape, *x.shape)


def differences(f, x, h=1e-6):
    """Central differences."""
    steps = [h * e.reshape(x.shape) for e in np.eye(x.size)]
    return np.stack([(f(x + s) - f(x - s)) / (2 * h) for s in steps], axis=-1)


@pytest.mark.parametrize(("f", "size"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_columns_are_the_tangents_one_at_a_time(f, size):
    x = RNG.standard_normal(size) * 0.7 + 0.2
    found = dlvm.jacobian(f, mode="forward")(x)
    np.testing.assert_allclose(found, columns(f, x), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found, differences(f, x), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(("f", "size"), [CASES[0], CASES[3]], ids=["numbers", "searching"])
def test_rows_several_at_a_time(f, size):
    x = RNG.standard_normal(size) * 0.7 + 0.2
    found = dlvm.jacobian(f, mode="reverse")(x)
    np.testing.assert_allclose(found, columns(f, x), rtol=1e-12, atol=1e-13)


def test_a_row_is_the_gradient_with_a_unit_seed_where_partials_are_infinite():
    def roots(x):
        return np.array([np.sqrt(x[0]), x[0] * x[1], np.sqrt(x[1]) * x[0], x[1] - x[1], np.sqrt(x[0] * x[1])])

    x = np.zeros(2)
    found = dlvm.jacobian(roots, mode="reverse")(x)
    row = dlvm.grad(roots, seedable=True)
    np.testing.assert_array_equal(found, [row(x, seed) for seed in np.eye(5)])


@pytest.mark.parametrize("size", [1, 7, 8, 17])
def test_the_last_sweep_may_be_short(size):
    scale = dlvm.jacobian(_scaled, mode="forward")
    x = np.arange(1.0, size + 1)
    np.testing.assert_array_equal(scale(x, 2.0), np.diag(2.0 * x) * 2)


def _scaled(x, c):
    return c * x * x


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_any_strides_dtypes_and_several_arguments(mode):
    """A Jacobian has the dtype of its argument, whatever that of the output."""
    x = np.asfortranarray(RNG.standard_normal((4, 3)).astype("f4"))[::2]
    w = RNG.standard_normal(3)
    dx, dw = dlvm.jacobian(_of_two, (0, 1), mode=mode)(x, w)
    assert (dx.dtype, dw.dtype) == ("f4", "f8") and dx.shape == (2, 2, 3)
    np.testing.assert_allclose(dw, [2 * w, 2 * w], rtol=1e-6)
    for row in range(2):
        want = np.zeros((2, 3), "f4")
        want[row] = 2 * x[row] * x[row, ::-1] ** 2
        want[row, 1] = 0.0
        np.testing.assert_allclose(dx[row], want, rtol=1e-5)
    wide = dlvm.jacobian(lambda a: np.sum(a) + np.zeros(9), mode=mode)(np.float32([1.0, 2.0]))
    assert wide.dtype == "f4" and np.array_equal(wide, np.ones((9, 2)))


def _of_two(x, w):
    y = x.T * x.T
    return y[0] * y[2] + np.float32(np.sum(w * w))


def test_functions_that_call_and_have_rules_go_one_by_one():
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(dlvm.jacobian(_recursive, mode="forward")(x, 3), np.diag([1.0, 12.0, 108.0]))
    np.testing.assert_array_equal(dlvm.jacobian(_by_rule, mode="forward")(x), np.diag([7.0, 14.0, 21.0]))


def _recursive(x, k):
    if k == 0:
        return x
    y = _recursive(x, k - 1)
    y = y.copy()
    y[k - 1] = x[k - 1] ** 2 * x[k - 1] ** (k - 1) / (1 if k > 1 else x[0])
    return y


@dlvm.custom_tangent
def _ruled(x):
    return x * x


@_ruled.tangent
def _ruled_tangent(x, result, moved):
    return 7.0 * x * moved


def _by_rule(x):
    return _ruled(x) * 1.0


def test_a_tangent_without_a_rule_is_refused_as_ever():
    def highest(x):
        y = x.copy()
        np.maximum.at(y, np.array([0, 0]), x[:2])
        return y

    with pytest.raises(CompileError):
        dlvm.jacobian(highest, mode="forward")(np.ones(3))


def test_memory_that_one_path_alone_has():
    """Beside a pointer that leads nowhere stands one that would lead to all directions."""
    x, gradient = np.array([0.3, 0.4]), dlvm.grad(few_numbers)
    for a in (0.8, -0.8):
        want = np.diag((2.0 - x * x) * np.sin(x) + 4.0 * x * np.cos(x)) * (a > 0.0)
        for mode in ("forward", "reverse"):
            np.testing.assert_allclose(dlvm.jacobian(gradient, mode=mode)(x, a), want, rtol=1e-12, atol=1e-15)
