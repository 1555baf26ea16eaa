"""Functions with derivatives of their own: the rules are used, checked, differentiated, compiled, and pickled."""

import pickle
from collections import namedtuple

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.dispatch import dispatcher_of

pytestmark = pytest.mark.usefixtures("plain_code")

Pair = namedtuple("Pair", "a b")
SCALE = np.array([2.0, 3.0, 4.0])
X = np.array([1.0, 2.0, 3.0])


@dlvm.custom_adjoint
def clipped(x):
    """The identity, whose adjoint stays between -1 and 1."""
    return x


@clipped.adjoint
def clipped_adjoint(x, result, seed):
    return np.clip(seed, -1.0, 1.0)


@dlvm.custom_adjoint
def rounded(x):
    """Straight through: a rounding with the derivative of the identity."""
    return np.round(x)


@rounded.adjoint
def rounded_adjoint(x, result, seed):
    return seed


@rounded.tangent
def rounded_tangent(x, result, t):
    return t


@dlvm.custom_tangent
def softplus(x):
    return np.log(1.0 + np.exp(x))


@softplus.tangent
def softplus_tangent(x, result, t):
    return t / (1.0 + np.exp(-x))


def plain_softplus(x):
    return np.log(1.0 + np.exp(x))


@dlvm.custom_adjoint
def affine(p, n, x):
    """Of a record, an integer and an array; of a captured array, and several results."""
    y = x * p.a
    for _ in range(n):
        y = y + p.b[0] * SCALE
    return y, np.sum(y), n


@affine.adjoint
def affine_adjoint(p, n, x, result, seed):
    of_y, of_sum, of_n = seed
    g = of_y + of_sum
    return Pair(np.sum(g * x), (np.sum(g * SCALE) * n, None)), None, g * p.a


def uses_affine(a, b, x):
    y, s, _ = affine(Pair(a, (b, 3)), 2, x)
    y[0] = 0.0
    return np.sum(y**2) + s * a


def same_without(a, b, x):
    y = x * a
    for _ in range(2):
        y = y + b * SCALE
    s = np.sum(y)
    y[0] = 0.0
    return np.sum(y**2) + s * a


def make(body, adjoint=None, tangent=None):
    """A marked function."""
    f = dlvm.custom_adjoint(body)
    if adjoint is not None:
        f.adjoint(adjoint)
    if tangent is not None:
        f.tangent(tangent)
    return f


def test_marked_functions_run_as_they_are():
    """Plain Python, and compiled code without a derivative, give what the function gives."""
    assert clipped(X) is X and uses_affine(1.5, 2.0, X) == same_without(1.5, 2.0, X)
    assert dlvm.jit(uses_affine)(1.5, 2.0, X) == same_without(1.5, 2.0, X)
    assert softplus.__name__ == "softplus" and clipped.__doc__.startswith("The identity")


def test_without_a_derivative_a_call_is_inlined():
    """No call, and no trace of a rule, is left in what jit compiles."""
    text = dlvm.jit(uses_affine).ir(1.5, 2.0, X)
    assert "apply" not in text and "affine_adjoint" not in text
    assert "apply" not in dlvm.grad(uses_affine, 2).ir(1.5, 2.0, X)


def test_an_array_result_is_a_new_array():
    """In compiled code what a marked function returns shares no memory with its arguments."""

    def changed(x):
        y = clipped(x)
        y[0] = 9.0
        return y

    x = X.copy()
    y = dlvm.jit(changed)(x)
    assert x[0] == 1.0 and y[0] == 9.0


def test_clipped_gradients():
    """A rule that is not the derivative is what counts, for numbers and arrays, and for the function itself."""

    def f(x, w):
        return np.sum(clipped(x) * w)

    w = np.array([0.5, 7.0, -9.0])
    np.testing.assert_array_equal(dlvm.grad(f)(X, w), [0.5, 1.0, -1.0])
    np.testing.assert_array_equal(dlvm.grad(f, 1)(X, w), X)
    assert dlvm.grad(lambda x: clipped(x * x) ** 3)(2.0) == 4.0
    assert dlvm.grad(clipped)(2.0) == 1.0


def test_straight_through():
    """Both modes use their rule; a seed of zero for one element gives zero."""

    def f(x):
        y = rounded(x * 1.4)
        return np.sum(y[1:] * y[1:])

    expected = 2 * np.round(X * 1.4) * 1.4
    expected[0] = 0.0
    np.testing.assert_allclose(dlvm.grad(f)(X), expected)
    value, moved = dlvm.jvp(f, (X,), (np.ones(3),))
    assert value == f(X) and moved == pytest.approx(expected.sum())
    # rounded is linear as far as its rules go
    np.testing.assert_allclose(dlvm.hessian(f)(X), np.diag([0.0, 2 * 1.4**2, 2 * 1.4**2]))


def test_a_tangent_rule_serves_all_derivatives():
    """Reverse mode is its transpose; higher derivatives come from the rule. s: the first derivative in closed form."""

    def f(x):
        return np.sum(softplus(x) ** 2)

    p, s = plain_softplus(X), 1 / (1 + np.exp(-X))
    curvature = 2 * s * s + 2 * p * s * (1 - s)
    np.testing.assert_allclose(dlvm.grad(f)(X), 2 * p * s, rtol=1e-13)
    np.testing.assert_allclose(dlvm.jacobian(softplus)(X), np.diag(s), rtol=1e-13)
    np.testing.assert_allclose(dlvm.jvp(f, (X,), (SCALE,))[1], np.sum(2 * p * s * SCALE), rtol=1e-13)
    np.testing.assert_allclose(dlvm.hvp(f)(X, SCALE), curvature * SCALE, rtol=1e-12)
    s = 1 / (1 + np.exp(-0.3))
    assert dlvm.grad(dlvm.grad(dlvm.grad(softplus)))(0.3) == pytest.approx(s * (1 - s) * (1 - 2 * s), rel=1e-11)


@dlvm.custom_tangent
def solved(a, b):
    return np.linalg.solve(a, b)


@solved.tangent
def solved_tangent(a, b, x, ta, tb):
    tb -= ta @ x
    return np.linalg.solve(a, tb)


def test_the_transpose_of_a_rule_that_writes_and_may_raise():
    """A tangent rule may write the copies that it gets; what it computes for itself is no part of its transpose."""
    a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([0.3, 0.8])
    got = dlvm.grad(lambda a, b: np.sum(solved(a, b) ** 3), (0, 1))(a, b)
    wanted = np.linalg.solve(a.T, 3 * np.linalg.solve(a, b) ** 2)
    np.testing.assert_allclose(got[1], wanted, rtol=1e-12)
    np.testing.assert_allclose(got[0], -np.outer(wanted, np.linalg.solve(a, b)), rtol=1e-12)


def test_structures_integers_and_several_results():
    """Records, tuples, integers, a captured array, results that are overwritten later, unused results."""
    at = (1.5, 2.0, X)
    for got, wanted in zip(
        dlvm.grad(uses_affine, (0, 1, 2))(*at), dlvm.grad(same_without, (0, 1, 2))(*at), strict=True
    ):
        np.testing.assert_allclose(got, wanted)
    np.testing.assert_allclose(dlvm.grad(lambda x: affine(Pair(2.0, (1.0, 3)), 2, x)[1] * 3.0)(X), [6.0, 6.0, 6.0])


def test_second_derivatives_of_an_adjoint_rule():
    """grad of grad differentiates the rule; a Hessian is reverse over reverse where there is no tangent rule."""
    f = make(lambda x: x**3, lambda x, result, seed: 5.0 * x * x * seed)
    assert dlvm.grad(dlvm.grad(f))(2.0) == 20.0
    np.testing.assert_allclose(dlvm.hessian(lambda x: np.sum(f(x)))(X), np.diag(10.0 * X))


@dlvm.custom_adjoint
def tripled(x):
    """x², with a derivative of 3 x from what a forward rule keeps."""
    return x * x


@tripled.forward
def tripled_forward(x):
    return x * x, (x, 3.0)


@tripled.adjoint
def tripled_adjoint(kept, seed):
    x, k = kept
    return k * x * seed


def repeated(x, n):
    while n > 0:
        x = tripled(x) * 0.5
        n = n - 1
    return np.sum(x)


def test_a_forward_rule_in_a_loop():
    """What the forward rule keeps reaches the adjoint rule through the tape."""
    np.testing.assert_allclose(dlvm.grad(repeated)(np.array([1.0, 2.0]), 2), [1.125, 9.0])
    assert dlvm.grad(tripled)(2.0) == 6.0 and dlvm.jit(repeated)(2.0, 2) == 2.0


def test_in_recursion():
    """A marked function in a function that calls itself, whose sweeps are functions of their own."""

    def down(x, n):
        if n == 0:
            return np.sum(x)
        return down_(clipped(x * 3.0), n - 1) * 2.0

    down_ = down
    np.testing.assert_array_equal(dlvm.grad(down)(X, 2), [3.0] * 3)


def test_in_lists():
    """A list keeps what a marked function returns, which the next call does not write."""

    def f(x, n):
        found = []
        for k in range(n):
            found.append(rounded(x * k))
        return np.sum(found[1] * found[2])

    np.testing.assert_array_equal(dlvm.grad(f)(X, 3), 4 * X)

    def changed(x, n):
        found = []
        for k in range(n):
            y, s, _ = affine(Pair(1.0, (2.0, 3)), k, x)
            found.append(y)
            y[0] = s
        return np.sum(found[0])

    with pytest.raises(dlvm.UnsupportedSyntax, match="an array that a list keeps"):
        dlvm.grad(changed)(X, 3)


def test_rules_may_call_derivatives_and_marked_functions():
    """A rule is compiled like any function: dlvm.grad and other marked functions work in it."""

    @dlvm.custom_adjoint
    def f(x):
        return plain_softplus(x)

    @f.adjoint
    def f_adjoint(x, result, seed):
        return seed * dlvm.grad(plain_softplus)(x) + 0.0 * clipped(x)

    at = 1 / (1 + np.exp(-0.3))
    # derivatives of it in compiled code, with none around
    assert dlvm.jit(lambda x: dlvm.grad(f)(x) + 10 * dlvm.grad(clipped)(x))(0.3) == pytest.approx(at + 10, rel=1e-13)


def test_as_an_argument():
    """A marked function that is passed to another one brings its rules along."""

    def twice(f, x):
        return f(f(x) * 3.0)

    g = dlvm.grad(twice, 1)
    assert g(clipped, 2.0) == 1.0
    assert g(rounded, 2.0) == 3.0


def test_a_branch_that_is_not_taken():
    """np.where leaves a number out whatever its rule makes of 0 / 0."""
    f = make(lambda x: np.sqrt(x), lambda x, result, seed: 0.5 * seed / result)
    g = dlvm.grad(lambda x: np.where(x > 0.0, f(x), 2.0 * x))
    assert g(4.0) == 0.25 and g(-1.0) == 2.0


def test_replaced_rules_are_seen():
    """A rule that is given again makes what was compiled out of date, here and in the disk cache."""

    @dlvm.custom_adjoint
    def f(x):
        return x

    @f.adjoint
    def first(x, result, seed):
        return seed

    g = dlvm.grad(lambda x: f(x) * 2.0)
    assert g(1.0) == 2.0
    key = dispatcher_of(g).request((1.0,)).key()
    assert key == dispatcher_of(g).request((2.0,)).key()

    @f.adjoint
    def second(x, result, seed):
        return seed * 10.0

    assert g(1.0) == 20.0
    assert key != dispatcher_of(g).request((1.0,)).key()


# -- refusals --------------------------------------------------------------------------------------------


def test_forward_mode_of_an_adjoint_rule_alone_is_its_transpose():
    """Arrays, several parameters of which one gets nothing, a forward rule that keeps something, other orders."""

    def product(a, x, n):
        return a @ x * n

    def both(a, x, n, result, seed):
        return n * np.outer(seed, x), n * (a.T @ seed), None

    def kept(a, x, n):
        return a @ x * n, (a * n, x * n)

    def from_kept(kept, seed):
        return np.outer(seed, kept[1]), kept[0].T @ seed, None

    a, x, t = np.arange(6.0).reshape(2, 3), X, np.array([0.5, -1.0, 2.0])
    turned = make(product, from_kept)
    turned.forward(kept)

    def loss(of):
        return lambda a, x: np.sum(np.sin(of(a, x, 2)) ** 2)

    def columns(of):
        return dlvm.jacobian(lambda a, x: of(a, x, 2), wrt=1, mode="forward")

    plain = loss(product)
    for marked in (make(product, both), turned):
        f = loss(marked)
        for tangents in ((None, t), (a * 0.3, None), (a * 0.3, t)):
            found, wanted = dlvm.jvp(f, (a, x), tangents), dlvm.jvp(plain, (a, x), tangents)
            np.testing.assert_allclose(found, wanted, rtol=1e-13)
        np.testing.assert_allclose(dlvm.hvp(f, wrt=1)(a, x, t), dlvm.hvp(plain, wrt=1)(a, x, t), rtol=1e-12)
        np.testing.assert_allclose(columns(marked)(a, x), 2 * a, rtol=1e-14)
    # of which the seed is a number; what is left out of an adjoint has none
    scaled = make(lambda x, s: x * s, lambda x, s, result, seed: (seed * s, None))
    assert dlvm.jvp(scaled, (2.0, 3.0), (1.0, 5.0)) == (6.0, 3.0)


def test_no_forward_derivative_of_an_adjoint_rule_that_is_not_linear():
    """A clipped seed has no transpose: refused, at the rule."""
    with pytest.raises(dlvm.NotDifferentiable, match=r"(?s)DL620.*not linear in the seed.*@f.tangent"):
        dlvm.jvp(lambda x: clipped(x) * 2.0, (1.0,), (1.0,))


def test_what_rules_give_is_checked():
    """Structure, ranks and dtypes when compiled, shapes when run; at the rule."""

    def identity(x):
        return x * 1.0

    def two(x, y):
        return x + y

    def wrong_rank(x, result, seed):
        return np.sum(seed)

    def wrong_count(x, y, result, seed):
        return seed

    def wrong_extent(x, result, seed):
        return seed[1:]

    def of_complex(x, result, seed):
        return seed * 1j

    def squared(x, result, t):
        return t * t

    for f, args, error in (
        (make(identity, wrong_rank), (X,), "(?s)DL401.*def wrong_rank"),
        (make(two, wrong_count), (X, X), "(?s)DL401.*returns 2 adjoints"),
        (make(identity, of_complex), (X,), "DL401.*real"),
    ):
        with pytest.raises(dlvm.TypeMismatch, match=error):
            dlvm.grad(f)(*args)
    with pytest.raises(ValueError, match="the rule wrong_extent gives another shape than that of its argument: axis 0"):
        dlvm.grad(make(identity, wrong_extent))(X)
    with pytest.raises(dlvm.NotDifferentiable, match="(?s)DL623.*not linear"):
        dlvm.grad(make(identity, tangent=squared))(X)
    with pytest.raises(dlvm.NotDifferentiable, match="DL624"):
        dlvm.grad(make(identity))(X)
    with pytest.raises(dlvm.ArgumentError, match="DL706"):
        dlvm.custom_adjoint(3)
    with pytest.raises(dlvm.ArgumentError, match="DL706"):
        make(identity).adjoint(np.sin)


def test_writing_an_argument_is_refused():
    """A marked function must leave its arguments alone."""

    def writes(x):
        x[0] = 0.0
        return np.sum(x)

    f = make(writes, lambda x, result, seed: x)
    assert dlvm.jit(lambda x: f(x))(X.copy()) == 5.0
    with pytest.raises(dlvm.NotDifferentiable, match="DL621"):
        dlvm.grad(f)(X)


BUFFER = np.zeros(3)


def test_a_derivative_into_a_captured_array_is_refused():
    """A rule has no derivative for arrays that are no arguments: silence would be a wrong number."""
    f = make(lambda x: np.sum(x * BUFFER), lambda x, result, seed: seed * BUFFER)

    def through(x):
        BUFFER[:] = x
        return f(x)

    with pytest.raises(dlvm.NotDifferentiable, match="DL622"):
        dlvm.grad(through)(X)
    BUFFER[:] = SCALE
    np.testing.assert_array_equal(dlvm.grad(f)(X), SCALE)


# -- stop_gradient ---------------------------------------------------------------------------------------


def test_stop_gradient():
    """The same numbers, of every structure; a derivative of zero in both modes and all orders."""

    def f(x):
        held = dlvm.stop_gradient((x, {"a": 2.0 * x, "n": 3}, Pair(x[0], [x])))
        return np.sum(x * held[0] ** 2) + held[1]["n"] * held[2].a * x[1] + held[2].b[0][2] + np.sum(held[1]["a"])

    wanted = X**2
    wanted[1] += 3.0
    assert dlvm.jit(f)(X) == f(X)
    np.testing.assert_allclose(dlvm.grad(f)(X), wanted)
    assert dlvm.jvp(f, (X,), (SCALE,))[1] == pytest.approx(np.sum(wanted * SCALE))
    assert dlvm.grad(dlvm.grad(lambda x: dlvm.stop_gradient(x) ** 2 * x))(3.0) == 0.0


def test_stop_gradient_gives_new_arrays():
    """What is written to the result does not change the argument, compiled or not."""

    def f(x):
        y = dlvm.stop_gradient(x)
        y[0] = 5.0
        return x[0] + y[0]

    assert f(X.copy()) == dlvm.jit(f)(X.copy()) == 6.0
    for x in (3, True, None, 2.5, X.astype(np.float32), np.array([1, 2]), 1j):
        assert np.all(dlvm.stop_gradient(x) == x) and type(dlvm.stop_gradient(x)) is type(x)


def test_pickles_by_reference():
    """Marked functions and derivatives of them are found again by name."""
    assert pickle.loads(pickle.dumps(clipped)) is clipped
    g = pickle.loads(pickle.dumps(dlvm.grad(clipped)))
    assert g(2.0) == 1.0
