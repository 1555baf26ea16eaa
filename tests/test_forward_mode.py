"""Forward mode: every program of the corpus by the dot-product identity with reverse mode, then what jvp promises."""

import copy
import math
import pickle

import numpy as np
import pytest
from programs import PROGRAMS
from test_programs import assert_same, flat, quiet

import dlvm_py as dlvm
from dlvm_py.ir import OPS

pytestmark = pytest.mark.usefixtures("plain_code")

DIFFERENTIABLE = [p for p in PROGRAMS if p.differentiable]


def is_float(x):
    return np.asarray(x).dtype.kind == "f"


def direction(args, seed):
    """A tangent for each argument that is a float scalar or array, None for the others."""
    rng = np.random.default_rng(seed)
    found = []
    for a in args:
        if callable(a) or isinstance(a, tuple | list | str) or a is None or not is_float(a):
            found.append(None)
        elif isinstance(a, np.ndarray):
            found.append(rng.standard_normal(a.shape).astype(a.dtype))
        else:
            found.append(type(a)(rng.standard_normal()))
    return tuple(found)


def first_output(value):
    return value[0] if isinstance(value, tuple) else value


@pytest.mark.parametrize("program", DIFFERENTIABLE, ids=[p.name for p in DIFFERENTIABLE])
def test_forward_and_reverse_agree(program):
    """⟨∂f t, 1⟩ = ⟨t, ∂fᵀ 1⟩, and the value is the function's; arguments stay as they are."""
    args, reference = program.make_args(), program.make_args()
    tangents = direction(args, 0)
    wrt = tuple(k for k, t in enumerate(tangents) if t is not None)
    if not wrt:
        pytest.skip("no float argument stands by itself")
    value, moved = dlvm.jvp(program.fn, args, tangents)
    assert_same(args, reference)
    want = quiet(program.fn, *copy.deepcopy(reference))
    if want is not None:
        assert_same(value, want)
    gradients = dlvm.grad(program.fn, wrt=wrt)(*args)
    total = sum(float(np.sum(t)) for t in flat(first_output(moved)) if t is not None)
    through = sum(float(np.vdot(tangents[k], g)) for k, g in zip(wrt, gradients, strict=True))
    assert total == pytest.approx(through, rel=1e-9, abs=1e-11)


def test_every_adjoint_rule_has_a_tangent_rule():
    assert [op.name for op in OPS.values() if op.adjoint is not None and op.tangent is None] == []


def heat(u, dt):
    for _ in range(7):
        u[1:-1] += dt * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**2)


def test_hessian_vector_products_by_forward_over_reverse():
    u, v = np.random.default_rng(0).standard_normal((2, 12))
    g = dlvm.grad(heat)
    gradient, product = dlvm.jvp(g, (u, 0.1), (v, None))
    np.testing.assert_allclose(gradient, g(u, 0.1))
    h = 1e-6
    difference = (g(u + h * v, 0.1) - g(u - h * v, 0.1)) / (2 * h)
    np.testing.assert_allclose(product, difference, rtol=1e-7, atol=1e-8)


def test_forward_over_forward_and_reverse_over_forward():
    def f(x):
        return math.sin(x) * x * x

    def along(x):
        return dlvm.jvp(f, (x,), (1.0,))[1]

    x = 0.7
    second = (2 - x * x) * math.sin(x) + 4 * x * math.cos(x)
    tangent = dlvm.api._tangent_of(f, (0,))
    (_, slope), (moved, curvature) = dlvm.jvp(tangent, (x, 1.0), (1.0, None))
    assert moved == pytest.approx(slope) == pytest.approx(along(x))
    assert curvature == pytest.approx(second)
    assert dlvm.grad(tangent, from_=1)(x, 1.0) == pytest.approx(second)


def test_structures_integers_and_what_does_not_move():
    def g(p, n):
        x, k = p
        return x * k * n, n, np.sum(x)

    x = np.array([1.0, 2.0])
    (y, n, s), (dy, dn, ds) = dlvm.jvp(g, ((x, 3), 2), ((np.array([1.0, 0.5]), None), None))
    np.testing.assert_array_equal(y, x * 6)
    np.testing.assert_array_equal(dy, [6.0, 3.0])
    assert (n, dn) == (2, None) and (s, ds) == (3.0, 1.5)


def test_a_function_that_returns_none_gives_what_it_writes():
    def scale(a, c):
        a *= c

    a = np.array([1.0, 2.0])
    value, moved = dlvm.jvp(scale, (a, 3.0), (None, 1.0))
    np.testing.assert_array_equal(value, [3.0, 6.0])
    np.testing.assert_array_equal(moved, [1.0, 2.0])
    np.testing.assert_array_equal(a, [1.0, 2.0])


@pytest.mark.parametrize("order", ["F", "strided", "reversed"])
def test_written_arguments_of_every_layout_bring_their_tangents(order):
    """The copy that is written is another layout than fresh memory has: its tangent is that of the argument still."""

    def f(a, x):
        x[0] = x[-1] * a[1, 0]
        a[0] = a[0] * x
        a[:, 1] += a[:, 0]
        return (a * a).sum() + (x * x * x).sum()

    rng = np.random.default_rng(2)
    wide, long = rng.standard_normal((4, 6)), rng.standard_normal(6)
    a, x = {
        "F": (np.asfortranarray(wide[:, :3]), long[:3].copy()),
        "strided": (wide[::2, ::2], long[::2]),
        "reversed": (wide[::-1, 2::-1], long[2::-1]),
    }[order]
    da, dx = dlvm.grad(f, wrt=(0, 1))(a, x)
    ta, tx = rng.standard_normal(a.shape), rng.standard_normal(3)
    assert dlvm.jvp(f, (a, x), (ta, tx))[1] == pytest.approx((da * ta).sum() + (dx * tx).sum(), rel=1e-12)
    rows = dlvm.jacobian(f, wrt=(0, 1), mode="forward")(a, x)
    for row, d in zip(rows, (da, dx), strict=True):
        np.testing.assert_allclose(row, d, rtol=1e-12)


def test_chosen_outputs():
    """from_ names what is the value: a written argument beside a result, one item of a tuple."""

    def f(a, k):
        a *= k
        return np.sum(a), k * k

    a, t = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    value, moved = dlvm.jvp(f, (a, 3.0), (t, 1.0), from_=("a", 1))
    np.testing.assert_array_equal(value[0], [3.0, 6.0])
    np.testing.assert_array_equal(moved[0], 3.0 * t + a)
    assert (value[1], moved[1]) == (9.0, 6.0)
    assert dlvm.jvp(f, (a, 3.0), (None, 1.0), from_=1) == (9.0, 6.0)
    np.testing.assert_array_equal(a, [1.0, 2.0])


def recursive(x, n):
    return 1.0 if n == 0 else math.sin(x) * recursive(x, n - 1) + x


def halves(a, out):
    if a.size == 1:
        out[0] = np.sin(a[0]) * 2
        return a[0]
    n = a.size // 2
    return halves(a[:n], out[:n]) * halves(a[n:], out[n:]) + np.sum(out)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_recursion(n):
    value, moved = dlvm.jvp(recursive, (0.7, n), (1.0, None))
    assert value == pytest.approx(recursive(0.7, n))
    assert moved == pytest.approx((recursive(0.7 + 1e-6, n) - recursive(0.7 - 1e-6, n)) / 2e-6, abs=1e-8)


def test_recursion_over_arrays():
    a, t = np.random.default_rng(3).uniform(0.5, 1.5, (2, 5))
    value, moved = dlvm.jvp(halves, (a, np.zeros(5)), (t, None))
    up, down = (halves(a + h * t, np.zeros(5)) for h in (1e-6, -1e-6))
    assert value == pytest.approx(halves(a, np.zeros(5)))
    assert moved == pytest.approx((up - down) / 2e-6, rel=1e-7)


@pytest.mark.parametrize(
    ("primals", "tangents", "code", "words"),
    [
        ((1.0,), (None,), "DL701", "no argument has a tangent"),
        ((1.0,), (1.0, 2.0), "DL704", "1 arguments and 2 tangents"),
        ((3,), (1.0,), "DL702", "cannot differentiate with respect to 'x'"),
        ((np.ones(2),), (1.0,), "DL704", "a tangent must look like its argument"),
    ],
)
def test_errors(primals, tangents, code, words):
    with pytest.raises(dlvm.ArgumentError, match=words) as caught:
        dlvm.jvp(lambda x: x * 2.0, primals, tangents)
    assert caught.value.code == code


def test_a_tangent_of_another_length_raises_at_run_time():
    with pytest.raises(
        ValueError, match="the tangent does not have the shape of its argument: axis 0 has extent 3, not 2"
    ):
        dlvm.jvp(lambda x: x * 2.0, (np.ones(2),), (np.ones(3),))


def test_forward_derivatives_pickle_and_say_what_they_are():
    tangent = dlvm.api._tangent_of(heat, (0, 1))
    assert repr(tangent) == "<tangent of compiled function heat>"
    again = pickle.loads(pickle.dumps(tangent))
    u = np.arange(5.0)
    np.testing.assert_array_equal(again(u, 0.1, u, 1.0)[1], tangent(u, 0.1, u, 1.0)[1])


def test_a_tangent_may_be_the_argument_itself():
    u = np.arange(5.0)
    value, moved = dlvm.jvp(lambda a: np.sum(heat(a, 0.0)), (u,), (u,))
    assert moved == pytest.approx(2 * value)


def test_singular_partials_let_a_zero_tangent_win():
    def f(x, y):
        return np.sum(np.sqrt(x) + y)

    _, moved = dlvm.jvp(f, (np.array([0.0, 4.0]), np.ones(2)), (np.array([0.0, 1.0]), np.ones(2)))
    assert moved == 2.25


def test_results_with_structure_have_tangents_of_that_structure():
    def f(x, n):
        grown = []
        for v in x:
            grown.append(v * v)
        return {"y": x * n, "n": n, "l": [np.sum(x), (x[0] * x[1], n)]}, grown

    x, v = np.array([1.0, 2.0]), np.array([1.0, 0.5])
    _, (d, grown) = dlvm.jvp(f, (x, 3), (v, None))
    np.testing.assert_array_equal(d["y"], [3.0, 1.5])
    assert d["n"] is None and d["l"] == [1.5, (2.5, None)] and grown == [2.0, 2.0]


def test_jacobians_of_results_with_structure():
    def f(x, n):
        return {"y": x * x, "n": n, "s": [np.sum(x)]}

    found = dlvm.jacobian(f)(np.array([1.0, 2.0]), 3)
    np.testing.assert_array_equal(found["y"], np.diag([2.0, 4.0]))
    assert found["n"] is None
    np.testing.assert_array_equal(found["s"][0], [1.0, 1.0])


def test_lists_of_computed_length_without_a_tangent_are_refused():
    def f(x):
        found = []
        for i in range(len(x)):
            found.append((x[i], i))
        return found

    with pytest.raises(dlvm.NotDifferentiable, match="floats and integers"):
        dlvm.jvp(f, (np.ones(2),), (np.ones(2),))
    with pytest.raises(dlvm.NotDifferentiable, match="no Jacobian"):
        dlvm.jacobian(f)(np.ones(2))
