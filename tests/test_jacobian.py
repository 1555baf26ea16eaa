"""Jacobians, Hessians and Hessian-vector products against differences, in every mode."""

import pickle

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")


def layer(x, a, c):
    return np.tanh(a @ x) * c


def scatter(x, n):
    out = np.zeros(n)
    for i in range(x.size):
        out[i % n] += np.sin(x[i]) * x[(i * 3 + 1) % x.size]
    return out


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def differences(f, args, k, h=1e-6):
    """Central differences with respect to argument k: axes of the result, then of the argument."""
    value = args[k]
    shape = np.shape(f(*args))
    out = np.zeros(shape + np.shape(value))
    for index in np.ndindex(*np.shape(value)):
        found = []
        for step in (h, -h):
            moved = list(args)
            moved[k] = np.array(value, dtype=float)
            moved[k][index] += step
            moved[k] = moved[k] if np.ndim(value) else float(moved[k])
            found.append(f(*moved))
        out[(..., *index)] = (found[0] - found[1]) / (2 * h)
    return out


RNG = np.random.default_rng(0)
LAYER = RNG.standard_normal(3), RNG.standard_normal((4, 3)), 0.7


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_every_parameter_in_every_mode(mode):
    found = dlvm.jacobian(layer, (0, 1, 2), mode)(*LAYER)
    assert [j.shape for j in found] == [(4, 3), (4, 4, 3), (4,)]
    for k, j in enumerate(found):
        np.testing.assert_allclose(j, differences(layer, LAYER, k), rtol=1e-6, atol=1e-8)
        assert j.flags.c_contiguous and j.flags.owndata


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (5, 3), (1, 4), (4, 1), (3, 0)])
@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_wide_tall_and_empty(mode, rows, columns):
    x = RNG.standard_normal(columns)
    found = dlvm.jacobian(scatter, mode=mode)(x, rows)
    np.testing.assert_allclose(found, differences(scatter, (x, rows), 0), rtol=1e-6, atol=1e-8)


def test_a_scalar_output_gives_the_gradient():
    x = RNG.standard_normal(4)
    np.testing.assert_array_equal(dlvm.jacobian(rosenbrock)(x), dlvm.grad(rosenbrock)(x))


def test_the_structure_is_that_of_the_result_and_then_of_wrt():
    def f(x, c):
        return x * c, (np.sum(x), x.size)

    x = np.array([1.0, 2.0])
    (j, (s, n)) = dlvm.jacobian(f, ("x", "c"))(x, 3.0)
    np.testing.assert_array_equal(j[0], 3.0 * np.eye(2))
    np.testing.assert_array_equal(j[1], x)
    np.testing.assert_array_equal(s[0], [1.0, 1.0])
    assert s[1] == 0.0 and n is None
    np.testing.assert_array_equal(dlvm.jacobian(f, from_=0)(x, 3.0), 3.0 * np.eye(2))


def test_written_arguments_are_outputs_and_stay_as_they_are():
    def shift(a):
        a[1:] = a[:-1] * a[1:]

    a = np.array([2.0, 3.0, 4.0])
    found = dlvm.jacobian(shift)(a)
    np.testing.assert_array_equal(a, [2.0, 3.0, 4.0])
    np.testing.assert_array_equal(found, [[1, 0, 0], [3, 2, 0], [0, 4, 3]])


@pytest.mark.parametrize("n", [2, 5])
def test_hessians(n):
    x = RNG.standard_normal(n)
    found = dlvm.hessian(rosenbrock)(x)
    np.testing.assert_allclose(found, differences(dlvm.grad(rosenbrock), (x,), 0), rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(found, found.T)
    v = RNG.standard_normal(n)
    np.testing.assert_allclose(dlvm.hvp(rosenbrock)(x, v), found @ v)


def test_hessians_of_several_parameters():
    (aa, ab), (ba, bb) = dlvm.hessian(lambda a, b: a**2 * b**3, (0, 1))(2.0, 3.0)
    assert (aa, ab, ba, bb) == pytest.approx((54.0, 108.0, 108.0, 72.0))


def test_third_derivatives():
    f = lambda x: np.sum(np.sin(x) * x)  # noqa: E731
    x = np.array([0.3, -1.2])
    third = dlvm.jacobian(dlvm.hessian(f))(x)
    diagonal = -3 * np.sin(x) - x * np.cos(x)
    expected = np.zeros((2, 2, 2))
    expected[[0, 1], [0, 1], [0, 1]] = diagonal
    np.testing.assert_allclose(third, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda: dlvm.jacobian(layer, mode="sideways"), "DL701", "the modes are"),
        (lambda: dlvm.jacobian(layer, ()), "DL701", "wrt is empty"),
        (
            lambda: dlvm.jacobian(lambda p: p[0] * 2.0)((np.ones(2), 1.0)),
            "DL702",
            "a Jacobian needs a number or an array",
        ),
        (lambda: dlvm.jacobian(lambda n: n * 2.0)(3), "DL702", "which carries no derivative"),
        (lambda: dlvm.jacobian(lambda z: z * 2.0)(np.ones(2, complex)), "DL702", "is complex"),
        (lambda: dlvm.jacobian(lambda x: np.sum(x) > 1.0)(np.ones(2)), "DL703", "is no float"),
    ],
)
def test_errors(call, code, words):
    with pytest.raises(dlvm.DLError, match=words) as caught:
        call()
    assert caught.value.code == code


def test_they_pickle_and_say_what_they_are():
    h = dlvm.hessian(rosenbrock)
    assert repr(h) == "<jacobian of gradient of compiled function rosenbrock>"
    x = np.array([0.5, 0.2])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(h))(x), h(x))
