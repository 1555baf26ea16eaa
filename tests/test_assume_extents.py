"""Derivatives of calls whose extents are as the function wants them, and of those in which they are not."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.dispatch import dispatcher_of
from dlvm_py.runtime.native import callable as native

pytestmark = pytest.mark.usefixtures("plain_code")


def blend(x, y, k):
    """Slices with a literal and with an argument as their ends, of two arrays that may also stretch."""
    inner = x[1:-1] * y
    return np.sum(inner[:k] * x[2:]) + np.sum(y**2)


@pytest.fixture(scope="module")
def derivative():
    return dlvm.jit(dlvm.grad(blend, wrt=("x", "y")))


# the relations hold; y stretches; the bound is cut off; is negative; nothing is left; is beyond what is assumed
@pytest.mark.parametrize(("n", "m", "k"), [
    (6, 4, 4), (9, 7, 7), (6, 1, 4), (6, 4, 9), (7, 5, 5), (3, 1, 1), (2, 0, 0), (6, 4, 1 << 50),
])  # fmt: skip
def test_both_versions(derivative, n, m, k):
    """Whether or not the relations hold, the gradient is that of the general rule."""
    rng = np.random.default_rng(n + m)
    x, y = rng.standard_normal(n), rng.standard_normal(m)
    dx, dy = derivative(x, y, k)
    along = rng.standard_normal(n), rng.standard_normal(m)
    step = 1e-6
    up, down = (blend(x + s * along[0], y + s * along[1], k) for s in (step, -step))
    assert dx.shape == x.shape and dy.shape == y.shape
    np.testing.assert_allclose(dx @ along[0] + dy @ along[1], (up - down) / (2 * step), rtol=1e-6, atol=1e-7)


def test_the_order_of_calls_does_not_matter(derivative):
    """Each of the versions takes its own calls, and no third one is made for other extents."""
    derivative(np.ones(6), np.ones(4), 1 << 50)  # beyond what is assumed
    derivative(np.ones(6), np.ones(4), 4)
    found = [v.call.otherwise for v in native.versions(derivative) if v.call.relations]
    made = len(native.versions(derivative))
    assert True in found and False in found
    derivative(np.ones(12), np.ones(10), 1 << 50)
    derivative(np.ones(11), np.ones(9), 9)
    assert len(native.versions(derivative)) == made


@pytest.mark.parametrize("entry", ["native", "python"])
def test_wrong_shapes_raise_as_ever(derivative, monkeypatch, entry):
    """The version without relations says what NumPy says, whichever entry is taken."""
    monkeypatch.setenv("DLVM_ENTRY", entry)
    with pytest.raises(ValueError, match="could not be broadcast together"):
        derivative(np.ones(6), np.ones(3), 4)
    with pytest.raises(ValueError, match="could not be broadcast together"):
        blend(np.ones(6), np.ones(3), 4)


def test_a_pullback_keeps_what_its_recording_assumed(derivative):
    """The halves of a vjp are made under the same relations, held or not."""
    x, y = np.arange(6.0), np.arange(1.0, 5.0)
    for k in (4, 9):
        value, pullback = dlvm.vjp(blend, x, y, k)
        assert value == blend(x, y, k)
        for ours, expected in zip(pullback(1.0), derivative(x, y, k), strict=False):
            np.testing.assert_allclose(ours, expected)


def test_another_process_knows_what_did_not_hold(tmp_path, monkeypatch):
    """The cache knows that the relations did not hold; the version that assumes them is made when it is wanted."""
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("DLVM_CACHE", "1")

    def made():
        return dlvm.jit(dlvm.grad(blend, wrt="y"))

    first = made()
    first(np.ones(6), np.ones(1), 4)
    second = made()
    second(np.ones(6), np.ones(1), 4)
    assert dispatcher_of(second).counts["compiled"] == 0
    np.testing.assert_allclose(second(np.ones(6), np.ones(4), 4), 3 * np.ones(4))
    assert dispatcher_of(second).counts["compiled"] == 1


def test_a_column_whose_type_does_not_say_so():
    """An extent that is 1 by a relation alone is stretched, not read beyond its end."""

    def distances(points, weight):
        x = points[:, 0:1]
        return np.sum(np.triu(weight * weight.T * np.sqrt((x.T - x) ** 2), 1))

    rng = np.random.default_rng(3)
    points, weight = rng.random((25, 2)), rng.random((25, 1))
    found, _ = dlvm.grad(dlvm.jit(distances), wrt=(0, 1))(points, weight)
    along, step = rng.random((25, 2)), 1e-6
    up, down = (distances(points + s * along, weight) for s in (step, -step))
    np.testing.assert_allclose(np.sum(found * along), (up - down) / (2 * step), rtol=1e-6)


def sweep(x, y, n):
    """Slices that an integer bounds, from the beginning of the array and from its end."""
    z = x[1 : n - 1] * y[2:n] + x[: n - 2]
    y[1 : n - 1] += z * z
    return np.sum(z * x[2:n]) + np.sum(y)


def shorter(x, y, n):
    """What an integer leaves away at the end."""
    return np.sum(x[:-n] * y[n:] + np.sin(x[n:]) * x[:-n])


# as long as the arrays; shorter; cut off; from the end; nothing is left
@pytest.mark.parametrize(("f", "size", "n"), [
    (sweep, 8, 8), (sweep, 8, 5), (sweep, 8, 2), (sweep, 3, 3), (sweep, 8, -1), (sweep, 8, -3), (sweep, 8, 1),
    (sweep, 8, 0), (shorter, 7, 2), (shorter, 7, 1), (shorter, 7, 6), (shorter, 7, 0), (shorter, 7, -3),
])  # fmt: skip
def test_slices_that_an_integer_bounds(f, size, n):
    """Where it is assumed from which end bounds are counted, other calls are right too."""
    rng = np.random.default_rng(size + n)
    x, y = rng.standard_normal(size), rng.standard_normal(size)
    try:
        f(x.copy(), y.copy(), n)
    except ValueError as expected:
        with pytest.raises(ValueError, match=str(expected)[:30]):
            dlvm.grad(f, wrt=("x", "y"))(x, y, n)
        return
    dx, dy = dlvm.grad(f, wrt=("x", "y"))(x, y, n)
    along = rng.standard_normal(size), rng.standard_normal(size)
    step = 1e-6
    up, down = (f(x + s * along[0], y + s * along[1], n) for s in (step, -step))
    np.testing.assert_allclose(dx @ along[0] + dy @ along[1], (up - down) / (2 * step), rtol=1e-6, atol=1e-7)


def test_what_is_assumed_of_an_integer_that_bounds_slices():
    """Nothing stretches, so nothing is summed; where no check asks which end a bound is from, it is not said."""
    args = np.ones(8), np.ones(8), 8
    assert "unbroadcast" not in dlvm.grad(sweep, wrt=("x", "y")).ir(*args)
    assert "unbroadcast" not in dlvm.grad(shorter, wrt=("x", "y")).ir(np.ones(7), np.ones(7), 2)

    def some(x, n):
        return np.sum(x[:n] * 2.0)

    compiled = dlvm.grad(some)
    for n in (2, -2, 9):
        np.testing.assert_array_equal(
            compiled(np.ones(4), n), [2.0] * len(np.ones(4)[:n]) + [0.0] * (4 - len(np.ones(4)[:n]))
        )
    assert len(native.versions(compiled)) == 1
