"""Adjoint code generation against central differences.

Laws: the gradient of a program, run by the interpreter, equals central differences of the program, leaves
the arguments as they were, verifies, and is differentiable again: the gradient of the gradient equals
differences of the gradient.
"""

import copy

import numpy as np
import pytest
from irbuild import INDEX, pointer
from random_ir import random_program
from structured import F, Program

from dlvm_py.errors import NotDifferentiable, PassError
from dlvm_py.ir import F32, F64, OPS, Instruction, literal, print_function, scalar
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import inline
from dlvm_py.transforms.differentiate.adjoint import adjoint
from dlvm_py.transforms.differentiate.config import AdjointConfig, Output

V, M = pointer(F64, None), pointer(F64, None, None)
RESULT = (Output("result", 0),)


def leaves(result):
    """The leaves of a result as a list."""
    if result is None:
        return []
    return list(result) if isinstance(result, tuple) else [result]


def total(module, name, args, outputs):
    """The sum of all elements of the outputs of a call."""
    args = copy.deepcopy(args)
    found = leaves(run(module, name, args))
    return sum(float(np.sum(found[o.index] if o.kind == "result" else args[o.index])) for o in outputs)


def differences(module, name, args, k, outputs, h):
    """Central differences of `total` with respect to argument k."""
    out = np.zeros(np.shape(args[k]))
    for at in np.ndindex(*np.shape(args[k])):
        values = []
        for sign in (h, -h):
            moved = copy.deepcopy(args)
            if at:
                moved[k][at] += sign
            else:
                moved[k] = args[k] + sign
            values.append(total(module, name, moved, outputs))
        out[at] = (values[0] - values[1]) / (2 * h)
    return out


def gradient(module, args, wrt, outputs=RESULT, name="f", keeping=(), **options):
    """The gradient function's name and the leaves of its result; the arguments must come out unchanged."""
    g = adjoint(module, name, AdjointConfig(tuple(wrt), tuple(outputs), tuple(keeping), **options))
    try:
        verify(module)
    except Exception:
        print(print_function(g))
        raise
    before = copy.deepcopy(args)
    found = leaves(run(module, g.name, args))
    for a, b in zip(args, before, strict=True):
        np.testing.assert_array_equal(a, b)
    return g.name, found


def check(module, *args, wrt=None, outputs=RESULT, second=True, h=1e-6, tol=1e-7):
    """First and second derivatives of a program against differences."""
    args = list(args)
    if wrt is None:
        wrt = [k for k, a in enumerate(args) if np.asarray(a).dtype.kind == "f"]
    name, got = gradient(module, args, wrt, outputs)
    for k, g in zip(wrt, got, strict=True):
        want = differences(module, "f", args, k, outputs, h)
        assert np.shape(g) == np.shape(args[k])
        np.testing.assert_allclose(g, want, rtol=tol, atol=tol)
    if second:
        of_gradient = [Output("result", k) for k in range(len(wrt))]
        _, got = gradient(module, args, wrt, of_gradient, name=name)
        for k, g in zip(wrt, got, strict=True):
            want = differences(module, name, args, k, of_gradient, h)
            np.testing.assert_allclose(g, want, rtol=10 * tol, atol=10 * tol)
    return name


# -- straight line ---------------------------------------------------------------------------------------


def test_scalar_expression():
    """d sin(x) y + x / y."""
    p = Program(F, F)
    x, y = p.params
    p.ret(p.sin(x) * y + x / y)
    check(p.done(), 1.2, 0.7)


def test_unused_parameter_has_derivative_zero():
    """A parameter that the result does not depend on: 0, or an array of zeros."""
    p = Program(F, V, F)
    p.ret(p.params[0] * 2.0)
    _, got = gradient(p.done(), [1.0, np.ones(3), 2.0], (0, 1, 2))
    assert got[0] == 2 and got[2] == 0
    np.testing.assert_array_equal(got[1], np.zeros(3))


def test_array_expression_with_scalar_and_broadcast():
    """Scalars and unit axes are summed over what they were stretched to."""
    p = Program(M, pointer(F64, 1, None), F)
    a, row, s = p.params
    p.ret(p.sum(p.exp(p.get(a) * p.get(row) + s) * s))
    check(p.done(), np.arange(6.0).reshape(2, 3) / 7, np.array([[0.1, 0.2, -0.3]]), 0.3)


def test_returned_array_is_seeded_with_ones():
    """The gradient of an array result is that of its sum."""
    p = Program(V)
    p.ret(p.array(p.square(p.get(p.params[0]))))
    check(p.done(), np.array([1.0, -2.0, 3.0]))


RANKS = [((3,), (3,)), ((2, 3), (3,)), ((2,), (2, 3)), ((2, 3), (3, 2))]


@pytest.mark.parametrize("shapes", RANKS, ids=str)
def test_dot(shapes):
    """dot for all combinations of ranks, twice differentiated."""
    rng = np.random.default_rng(0)
    p = Program(*(V if len(s) == 1 else M for s in shapes))
    x, y = p.params
    z = p.emit("dot", p.get(x), p.get(y))
    p.ret(p.sum(p.sin(z)) if z.type.rank else p.sin(z))
    check(p.done(), *(rng.normal(size=s) for s in shapes))


# -- branches and loops ----------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [2.0, -2.0])
def test_branch(x):
    """Only the branch that was taken counts."""
    p = Program(F)
    (v,) = p.params
    y = p.var(0.0)
    with p.choose(v > 0.0) as otherwise:
        y.set(p.exp(v) * v)
        otherwise()
        y.set(v * v)
    p.ret(y * v)
    check(p.done(), x)


def test_early_return():
    """Several returns lead to one exit."""
    p = Program(F)
    (x,) = p.params
    with p.when(x > 1.0):
        p.ret(x * x)
    p.ret(p.sin(x))
    module = p.done()
    check(module, 2.0)
    p = Program(F)
    (x,) = p.params
    with p.when(x > 1.0):
        p.ret(x * x)
    p.ret(p.sin(x))
    check(p.done(), 0.5)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_loop_carried_scalar(n):
    """s = s x, n times; no iteration at all is the identity."""
    p = Program(F, INDEX)
    x, count = p.params
    s = p.var(1.0)
    with p.loop(0, count):
        s.set(s * x + p.sin(s))
    p.ret(s * x)
    check(p.done(), 1.1, n)


def test_nested_loops():
    """Values of the outer loop in the inner one, overwritten in both."""
    p = Program(F, INDEX)
    x, n = p.params
    s = p.var(0.5)
    with p.loop(0, n) as i:
        t = p.var(s * x)
        with p.loop(0, i):
            t.set(p.sin(t) * s + x)
        s.set(s + t * 0.5)
    p.ret(s)
    check(p.done(), 0.8, 4)


def test_swap_in_a_loop():
    """Loop arguments that trade places: all adjoints are read before any is added to."""
    p = Program(F, F, INDEX)
    x, y, n = p.params
    a, b = p.var(x), p.var(y)
    with p.loop(0, n):
        old = p.emit("add", a, 0.0)
        a.set(b * x)
        b.set(old)
    p.ret(a * a + b * 3.0)
    check(p.done(), 1.3, 0.4, 3)
    check(p.module, 1.3, 0.4, 0)


@pytest.mark.parametrize("x", [0.3, 5.0, 40.0])
def test_while_with_data_dependent_trip_count(x):
    """Halve until small."""
    p = Program(F)
    v = p.var(p.params[0])
    s = p.var(0.0)
    with p.while_(lambda: v > 1.0):
        s.set(s + p.sqrt(v))
        v.set(v * 0.5)
    p.ret(s + v * v)
    check(p.done(), x)


@pytest.mark.parametrize("limit", [0.5, 3.0, 100.0])
def test_break(limit):
    """A loop with two ways out."""
    p = Program(F, F, INDEX)
    x, top, n = p.params
    s = p.var(1.0)
    with p.loop(0, n):
        s.set(s * x)
        with p.when(s > top):
            s.set(s * s)
            p.leave()
        s.set(s + 0.25)
    p.ret(s)
    check(p.done(), 1.4, limit, 5)


def test_continue():
    """A loop with two ways back."""
    p = Program(F, INDEX)
    x, n = p.params
    s = p.var(1.0)
    with p.loop(0, n) as i:
        odd = p.emit("equal", p.emit("bitAnd", i, 1), 1)
        with p.when(odd):
            s.set(s * x)
            p.again()
        s.set(s + p.sin(x * s))
    p.ret(s)
    check(p.done(), 1.2, 5)


@pytest.mark.parametrize("limit", [1.5, 4.0, 1e9])
def test_return_from_nested_loops(limit):
    """A return leaves two loops at once."""
    p = Program(F, F, INDEX)
    x, top, n = p.params
    s = p.var(1.0)
    with p.loop(0, n):
        with p.loop(0, 3):
            s.set(s * x)
            with p.when(s > top):
                p.ret(s * s * x)
        s.set(s + x)
    p.ret(s)
    check(p.done(), 1.3, limit, 3)


def test_raise_in_a_loop_keeps_out_of_the_reverse():
    """A path that raises has no adjoint; the gradient raises as the program does."""
    p = Program(V)
    (x,) = p.params
    s = p.var(0.0)
    with p.loop(0, p.size(x)) as i:
        e = p.get(x, i)
        with p.when(p.emit("lessThan", e, 0.0)):
            p.b.emit("raise", exception="ValueError", message="negative")
        s.set(s + p.sqrt(e))
    p.ret(s)
    module = p.done()
    name = check(module, np.array([1.0, 4.0]))
    with pytest.raises(ValueError, match="negative"):
        run(module, name, [np.array([1.0, -1.0])])


# -- memory ----------------------------------------------------------------------------------------------


def recurrence():
    """for i in range(1, n): x[i] = x[i] * x[i - 1]; return sum(x)."""
    p = Program(V)
    (x,) = p.params
    with p.loop(1, p.size(x)) as i:
        p.put(p.get(x, i) * p.get(x, p.emit("subtract", i, 1)), x, i)
    p.ret(p.sum(p.get(x)))
    return p.done()


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_overwritten_elements(n):
    """An array overwritten element by element: old values are kept; any length works."""
    check(recurrence(), np.linspace(0.5, 1.5, n))


def test_output_is_a_written_parameter():
    """The final contents of an argument with respect to its contents on entry."""
    p = Program(V, F)
    x, s = p.params
    with p.loop(0, 3):
        p.put(p.sin(p.get(x)) * s, x)
    p.ret()
    check(p.done(), np.array([0.3, 0.9]), 1.7, outputs=[Output("param", 0)])


def test_slice_stores():
    """u[1:-1] += dt (u[2:] - 2 u[1:-1] + u[:-2]) in a time loop."""
    p = Program(V, F, INDEX)
    u, dt, steps = p.params
    inner = p.emit("subtract", p.size(u), 2)
    with p.loop(0, steps):
        mid, right, left = (p.cut(u, (k, inner, 1)) for k in (1, 2, 0))
        new = p.get(mid) + dt * (p.get(right) - 2.0 * p.get(mid) + p.get(left))
        p.put(new * new, mid)
    p.ret(p.sum(p.square(p.get(u))))
    check(p.done(), np.array([0.1, 0.5, -0.3, 0.7, 0.2]), 0.2, 3)


def test_overlapping_copy():
    """a[1:] = a[:-1] reads all before it writes."""
    p = Program(V)
    (a,) = p.params
    m = p.emit("subtract", p.size(a), 1)
    p.put(p.square(p.get(p.cut(a, (0, m, 1)))), p.cut(a, (1, m, 1)))
    p.ret(p.sum(p.get(a) * p.get(a)))
    check(p.done(), np.array([1.0, 2.0, -3.0]))


def test_aliasing_views():
    """b = a[::-1]; writing b writes a."""
    p = Program(V)
    (a,) = p.params
    n = p.size(a)
    b = p.cut(a, (p.emit("subtract", n, 1), n, -1))
    p.put(p.get(a, 0) * p.get(b, 1), b, 0)
    p.put(p.get(b) * p.get(a), a)
    p.ret(p.sum(p.get(b) * p.get(a, 1)))
    check(p.done(), np.array([1.5, 0.5, -2.0]))


def test_transposed_and_reshaped_views():
    """Stores through .T and reshape of a copy reach the array."""
    p = Program(M)
    (a,) = p.params
    c = p.array(p.get(a) * 2.0)
    t = p.emit("transpose", c)
    p.put(p.get(t, 1) * p.get(t, 0), t, 0)
    flat = p.emit("shapeCast", c, p.emit("multiply", p.size(a, 0), p.size(a, 1)))
    p.put(p.get(flat, 1) * p.get(flat, 2), flat, 0)
    p.ret(p.sum(p.sin(p.get(flat))))
    check(p.done(), np.array([[0.3, 0.5], [0.7, -0.4], [1.0, 2.0]]))


def test_what_is_added_to_cleared_memory_is_stored():
    """An array written over as a whole is clear in the reverse sweep: no view of its adjoint is read to be added to."""
    p = Program(M, M)
    a, c = p.params
    n, m = p.size(a, 0), p.size(a, 1)
    product = p.emit("dot", p.get(p.emit("shapeCast", a, m, n)), p.get(c))
    p.put(p.emit("shapeCast", product, n, m), a)
    p.ret(p.sum(p.sin(p.get(a))))
    matrix = np.array([[0.3, 0.5, 0.2], [0.7, -0.4, 1.1]])
    name = check(module := p.done(), matrix, np.array([[0.8, 0.1], [-0.6, 1.2]]))
    g = module.functions[name]
    is_load = lambda v: isinstance(v, Instruction) and v.op.name == "load"  # noqa: E731
    assert not any(i.op.name == "add" and any(is_load(v) for v in i.operands) for i in g.instructions())


@pytest.mark.parametrize("layout", ["F", "S"])
def test_written_parameters_of_other_layouts(layout):
    """Copies of Fortran and strided arguments keep their layout; gradients are C-contiguous."""
    p = Program(pointer(F64, None, None, layout=layout))
    (a,) = p.params
    p.put(p.square(p.get(a, 0)), a, 1)
    p.ret(p.sum(p.sin(p.get(a))))
    x = np.array([[0.3, 0.5, 0.7], [1.0, 2.0, 3.0]])
    args = [np.asfortranarray(x) if layout == "F" else np.repeat(x, 2, axis=1)[:, ::2]]
    module = p.done()
    check(module, *args)
    _, (g,) = gradient(module, args, (0,))
    assert g.flags.c_contiguous


def test_fresh_arrays_carried_by_a_loop():
    """a = a * x in a loop: each iteration has memory of its own, and so has its adjoint."""
    p = Program(V, INDEX)
    x, n = p.params
    a = p.var(x)
    with p.loop(0, n):
        a.set(p.array(p.sin(p.get(a)) * p.get(x)))
    p.ret(p.sum(p.get(a)))
    module = p.done()
    for n in (0, 1, 3):
        check(module, np.array([0.5, 1.5]), n)


def test_swapped_arrays():
    """u, v = v, u with stores through both names."""
    p = Program(V, INDEX)
    x, n = p.params
    u, v = p.var(p.array(p.get(x))), p.var(p.array(p.get(x) * 0.5))
    with p.loop(0, n):
        p.put(p.sin(p.get(u)) * p.get(v), v)
        old = p.emit("section", u, 0, p.size(u), 1)
        u.set(v)
        v.set(old)
    p.ret(p.sum(p.get(u) + 2.0 * p.get(v)))
    # the section of the whole keeps the layout: types agree
    check(p.done(), np.array([0.5, 1.5, 1.0]), 3)


def test_value_used_after_the_loop():
    """The last value of an inner loop, read in the outer loop and after both."""
    p = Program(F, INDEX)
    x, n = p.params
    s, last = p.var(0.0), p.var(x)
    with p.loop(0, n) as i:
        last.set(x)
        with p.loop(0, i):
            last.set(p.sin(last) * x)
        s.set(s + last * last)
    p.ret(s * last)
    check(p.done(), 0.9, 4)


def test_data_dependent_index():
    """Gather and scatter by an index that is computed in the loop."""
    p = Program(V, pointer(INDEX.dtype, None))
    x, idx = p.params
    out = p.array(p.get(x) * 0.0)
    with p.loop(0, p.size(idx)) as i:
        k = p.get(idx, i)
        p.put(p.get(out, k) + p.square(p.get(x, k)), out, k)
    p.ret(p.sum(p.sin(p.get(out))))
    check(p.done(), np.array([0.5, 1.5, 1.0]), np.array([0, 2, 2, 1, 0]))


def test_index_memory_that_is_overwritten():
    """An index array that the program changes is kept, not read again."""
    p = Program(V, pointer(INDEX.dtype, None), INDEX)
    x, idx, n = p.params
    with p.loop(0, n):
        k = p.get(idx, 0)
        p.put(p.square(p.get(x, k)), x, k)
        p.put(p.emit("modulo", p.emit("add", k, 1), p.size(x)), idx, 0)
    p.ret(p.sum(p.get(x)))
    check(p.done(), np.array([0.5, 1.5, 1.0]), np.array([1]), 5)


# -- results, kept outputs, seeds ------------------------------------------------------------------------


def test_tuple_result_from():
    """Each element of a tuple result is an output of its own; several are added."""
    p = Program(F, V)
    x, a = p.params
    p.ret(x * x, p.array(p.get(a) * x), p.sin(x))
    module = p.done()
    for outputs in ([0], [1], [2], [0, 1], [1, 1]):
        check(module, 0.7, np.array([1.0, 2.0]), outputs=[Output("result", k) for k in outputs])


def test_keeping():
    """Kept outputs follow the derivatives: results, and the new contents of written arguments."""
    p = Program(V, F)
    a, s = p.params
    p.put(p.get(a) * s, a)
    p.ret(p.sum(p.get(a)))
    kept = (Output("result", 0), Output("param", 0))
    _, got = gradient(p.done(), [np.array([1.0, 2.0]), 3.0], (0, 1), keeping=kept)
    for g, w in zip(got, ([3.0, 3.0], 3.0, 9.0, [3.0, 6.0]), strict=True):
        np.testing.assert_array_equal(g, w)


def test_kept_argument_is_the_argument():
    """An argument that is returned and not written is kept as that very object."""
    p = Program(V)
    (a,) = p.params
    p.ret(p.sum(p.get(a)), a)
    x = np.array([1.0, 2.0])
    _, got = gradient(p.done(), [x], (0,), keeping=(Output("result", 1),))
    assert got[1] is x


def test_seeds():
    """Seeds weigh the outputs: a scalar, and an array of any strides."""
    p = Program(F, V)
    x, a = p.params
    p.ret(x * x, p.array(p.get(a) * x))
    args = [3.0, np.array([1.0, 2.0])]
    module = p.done()
    config = AdjointConfig((0, 1), (Output("result", 0), Output("result", 1)), seedable=True)
    g = adjoint(module, "f", config)
    verify(module)
    dx, da = run(module, g.name, [*args, 10.0, np.array([5.0, 0.0, 7.0])[::2]])
    assert dx == 10 * 6 + 5 + 14
    np.testing.assert_array_equal(da, [15.0, 21.0])


def test_result_that_is_a_view_of_an_argument():
    """A returned view is seeded in place."""
    p = Program(V)
    (a,) = p.params
    p.put(p.get(a) * p.get(a), a)
    p.ret(p.cut(a, (1, 2, 1)))
    check(p.done(), np.array([1.0, 2.0, 3.0, 4.0]))


def test_always_raises():
    """The gradient of a function that never returns raises as it does."""
    p = Program(F)
    p.b.emit("raise", exception="ValueError", message="no")
    p.f.result = F
    g = adjoint(p.module, "f", AdjointConfig((0,), RESULT))
    verify(p.module)
    with pytest.raises(ValueError, match="no"):
        run(p.module, g.name, [1.0])


# -- activity, kinks, guards -----------------------------------------------------------------------------


def test_integers_carry_no_derivative():
    """floor, casts to integer and comparisons stop the flow."""
    p = Program(F)
    (x,) = p.params
    k = p.emit("dataTypeCast", x, to="i64")
    p.ret(p.floor(x) * x + p.emit("dataTypeCast", k, to="f64") * x)
    _, (g,) = gradient(p.done(), [2.5], (0,))
    assert g == 4.0


def test_maximum_shares_ties():
    """Ties of max go half and half; a constant takes nothing and leaves nothing at the tie."""
    p = Program(V, V)
    x, y = p.params
    p.ret(p.sum(p.emit("max", p.get(x), p.get(y)) + p.emit("max", p.get(x), 0.0)))
    _, (gx, gy) = gradient(p.done(), [np.array([1.0, 0.0, -1.0]), np.array([1.0, -1.0, 2.0])], (0, 1))
    np.testing.assert_array_equal(gx, [1.5, 1.0, 0.0])
    np.testing.assert_array_equal(gy, [0.5, 0.0, 1.0])


@pytest.mark.parametrize("by", ["max", "min"])
def test_reduce_extremes(by):
    """The derivative of a maximum along an axis goes to where it is."""
    p = Program(M)
    init = literal(-np.inf if by == "max" else np.inf)
    r = p.emit("reduce", p.get(p.params[0]), init, by=by, axes=(1,))
    p.ret(p.sum(p.square(r)))
    check(p.done(), np.array([[0.3, 0.5, 0.1], [1.0, -2.0, 0.4]]))


def test_select_keeps_the_other_branch_out():
    """where(x > 0, sqrt(x), 0) has derivative 0, not NaN, where x ≤ 0."""
    p = Program(V)
    x = p.get(p.params[0])
    p.ret(p.sum(OPS["select"](p.sqrt(x), 0.0, x > 0.0)))
    _, (g,) = gradient(p.done(), [np.array([4.0, 0.0])], (0,))
    np.testing.assert_array_equal(g, [0.25, 0.0])


def test_select_keeps_nan_factors_out():
    """where(x > 0, log(x) y, 0) gives y the derivative 0, not 0 · NaN, where x < 0; through memory, too."""
    p = Program(V, V)
    x, y = p.get(p.params[0]), p.get(p.params[1])
    product = p.array(p.log(x) * y)
    p.ret(p.sum(OPS["select"](p.get(product), 0.0, x > 0.0)))
    with np.errstate(invalid="ignore"):
        _, (gx, gy) = gradient(p.done(), [np.array([4.0, -1.0]), np.array([3.0, 5.0])], (0, 1))
    np.testing.assert_allclose(gx, [0.75, 0.0])
    np.testing.assert_allclose(gy, [np.log(4.0), 0.0])


def test_what_has_no_rule_is_refused():
    """What has no rule is refused with its place."""
    p = Program(V)
    curved = p.emit("polygamma", p.get(p.params[0]), order=30)
    p.ret(p.emit("reduce", curved, literal(0.0), by="add", axes=(0,)))
    with pytest.raises(NotDifferentiable):
        adjoint(p.done(), "f", AdjointConfig((0,), RESULT))


def test_single_precision():
    """f32 programs have f32 gradients."""
    p = Program(pointer(F32, None), scalar(F32))
    x, s = p.params
    p.ret(p.sum(p.exp(p.get(x)) * s))
    _, (gx, gs) = gradient(p.done(), [np.array([0.5], np.float32), np.float32(2.0)], (0, 1))
    assert gx.dtype == np.float32 and gs.dtype == np.float32
    np.testing.assert_allclose(gx, 2 * np.exp(np.float32([0.5])), rtol=1e-6)


def test_nothing_is_taped_for_read_only_loops():
    """A sum over elements needs indices only, and those come from the counter of the reversed loop."""
    p = Program(V, V)
    x, y = p.params
    s = p.var(0.0)
    with p.loop(0, p.size(x)) as i:
        s.set(s + p.get(x, i) * p.get(y, i))
    p.ret(s)
    module = p.done()
    g = adjoint(module, "f", AdjointConfig((0, 1), RESULT))
    assert not any(i.op.name == "push" for i in g.instructions())
    check(module, np.array([1.0, 2.0]), np.array([3.0, -1.0]))


# -- composition, refusals, random programs --------------------------------------------------------------


def test_third_derivative():
    """The pass takes its own output again and again: x⁴ by a loop has the third derivative 24 x."""
    p = Program(F, INDEX)
    x, n = p.params
    s = p.var(1.0)
    with p.loop(0, n):
        s.set(s * x)
    p.ret(s)
    module, name = p.done(), "f"
    for want in (4 * 1.5**3, 12 * 1.5**2, 24 * 1.5, 24.0):
        name, (got,) = gradient(module, [1.5, 4], (0,), name=name)
        np.testing.assert_allclose(got, want)


def test_calls_without_a_rule_are_refused():
    """A call that is left and gives array values, which the front end never makes, is refused."""
    p = Program(V)
    called = p.emit("apply", p.params[0], callee="f", result=V.pointee)
    p.ret(p.emit("reduce", called, literal(0.0), by="add", axes=(0,)))
    with pytest.raises(NotDifferentiable, match="recursive"):
        adjoint(p.module, "f", AdjointConfig((0,), RESULT))


def test_loop_with_two_entries_is_refused():
    """Irreducible control flow, which no front end builds, is an internal error and no wrong derivative."""
    p = Program(F)
    x = p.params[0].value
    a, b, out = (p.f.new_block(n) for n in "abo")
    p.b.conditional(p.b.emit("lessThan", x, literal(0.0)), a, [], b)
    p.b.at_end(a).branch(b)
    p.b.at_end(b).conditional(p.b.emit("lessThan", x, literal(1.0)), a, [], out)
    p.b.at_end(out)
    p.ret(x)
    with pytest.raises(PassError, match="two places"):
        adjoint(p.module, "f", AdjointConfig((0,), RESULT))


WRT, OUTPUTS = (0, 1, 2, 3, 4), (RESULT[0], Output("result", 2), Output("param", 0), Output("param", 3))


def slopes(module, name, args, moves, outputs):
    """Central differences along `moves` with two steps, and the one-sided ones."""

    def at(t):
        moved = copy.deepcopy(args)
        for k, d in zip(WRT, moves, strict=True):
            moved[k] = np.add(moved[k], t * d)
        return total(module, name, moved, outputs)

    h = 1e-6
    f = {t: at(t * h) for t in (-1, -0.5, 0, 0.5, 1)}
    return (f[1] - f[-1]) / (2 * h), (f[0.5] - f[-0.5]) / h, (f[1] - f[0]) / h, (f[0] - f[-1]) / h


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    """Random programs with loops, branches, views and tapes: the slope along a random direction, once and twice."""
    program = random_program(seed, 10)
    module = program.module
    inline.run(module, "main")
    args, rng = program.arguments(), np.random.default_rng(seed)
    moves = [rng.normal(size=np.shape(args[k])) for k in WRT]
    name, outputs = "main", OUTPUTS
    for _ in range(2):
        with np.errstate(all="ignore"):
            try:
                want, finer, right, left = slopes(module, name, args, moves, outputs)
            except (ArithmeticError, ValueError):
                pytest.skip("the program raises")
            scale = max(1.0, abs(want))
            smooth = abs(right - left) < 1e-3 * scale and abs(want - finer) < 1e-5 * scale
            name, found = gradient(module, args, WRT, outputs, name=name)
        if not smooth or not all(np.all(np.isfinite(g)) for g in found):
            pytest.skip("not smooth here, or not finite")
        got = sum(float(np.sum(d * g)) for d, g in zip(moves, found, strict=True))
        size = sum(float(np.sum(np.abs(d * g))) for d, g in zip(moves, found, strict=True))
        assert abs(got - want) <= 1e-4 * max(scale, size)
        outputs = tuple(Output("result", k) for k in range(len(WRT)))
