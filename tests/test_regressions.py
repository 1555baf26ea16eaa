"""Programs that once gave wrong numbers, invalid IR or crashes, as small as they still failed; the IR is verified."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from irbuild import new_function
from test_random_python import assert_same, check_values, outcome

import dlvm_py as dlvm
from dlvm_py.frontend.capture import capture
from dlvm_py.ir import I64, interpreter, literal, scalar
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import constant_fold


@dataclass
class Scaled:
    """Has a method that calls one with an underscore."""

    x: float

    def double(self):
        """Twice x."""
        return self._twice(self.x)

    def _twice(self, x):
        return 2.0 * x

    def __rmul__(self, other):
        return other * self.x


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    """The IR verifier runs after every pass."""
    monkeypatch.setenv("DLVM_VERIFY", "1")


def check(fn, *args):
    """Native code equals plain Python."""
    check_values(dlvm.jit(fn), fn, args)


def test_value_of_a_loop_body_is_not_reused_at_the_latch():
    """`continue` skips the rest of a body: what is computed there does not reach the loop's increment."""

    def f(x, y, m):
        s = 0.0
        for i in range(len(x) - 1):
            if x[i] < 0:
                continue
            s += x[i + 1]
        return s

    check(f, np.array([1.0, -2.0, 3.0, 4.0]), np.zeros(1), np.zeros((1, 1)))


@pytest.mark.parametrize("n", [0, 3])
def test_check_in_a_loop_body_does_not_hold_in_its_else(n):
    """A loop without iterations has checked nothing: its `else` checks and computes for itself."""

    def f(x, y, m):
        s = 0.0
        for i in range(len(y)):
            s += x[-1] * x[::-1][0] + y[i]
        else:
            x[::-1] *= 2.0 * x[-1]
        return s

    check(f, np.arange(float(n)), np.zeros(0), np.zeros((1, 1)))
    check(f, np.arange(float(n)), np.ones(2), np.zeros((1, 1)))


def test_section_of_whole_rows_keeps_its_layout_when_its_base_is_replaced():
    """Rows of a view of everything stay C-contiguous when the view is replaced by the array itself."""
    _, f, b, (n, m) = new_function(scalar(I64), scalar(I64))
    zero, one = literal(0), literal(1)
    a = b.emit("allocateHeap", n, m, dtype="f64")
    view = b.emit("section", a, zero, zero, b.emit("extent", a, at=0), b.emit("extent", a, at=1), one, one)
    rows = b.emit("section", view, one, zero, one, b.emit("extent", view, at=1), one, one)
    assert rows.type.layout == "C"
    b.ret(rows)
    f.result = rows.type
    verify(f)
    assert constant_fold.run(f)
    verify(f)


def returns_early(x, n, m):
    if n > 2:
        return n
    y = n * 1.5
    return y


def calls_what_returns_early(x, n, m):
    def inner(v, i):
        if v[0] < 0:
            return 0.0
        return v[i + 1] * v[-1]

    s = inner(x, n)
    return s + x[n + 1] * x[-1]


def continues_over_a_tuple(x, n, m):
    s = 0.0
    for v in (1.0, 2.0):
        if x[0] < v:
            continue
        s += x[n + 1] * v
    return s + x[n + 1]


def breaks_before_an_else(x, n, m):
    s = 0.0
    for i in range(n):
        if x[i] < 0:
            s = n
            break
    else:
        s = n * 1.5
    return s


@pytest.mark.parametrize("fn", [returns_early, calls_what_returns_early, continues_over_a_tuple, breaks_before_an_else])
def test_what_one_path_computed_or_checked_is_not_known_where_paths_meet(fn):
    """After a merge of returns, breaks or continues no value and no check of a single path is reused."""
    compiled = dlvm.jit(fn)
    for n in (0, 1, 3):
        for first in (1.0, -1.0):
            args = np.array([first, 2.0, 3.0, -4.0]), n, np.zeros((1, 1))
            got, want = outcome(compiled, args), outcome(fn, args)
            if not isinstance(want, type):
                got, want = [float(got[0])], [float(want[0])]  # ints and floats join in a float
            assert_same(got, want)


def binds_in_the_loop_what_depends_on_the_carried(a, b):
    x, y = a + b, a * b
    for _ in range(2):
        s = np.sum(x * y)
        m = np.outer(x, y)
        y = np.sum(m, axis=0) / (1.0 + s * s) + np.max(m, axis=1)
    return np.sum(x) + np.sum(y) + np.sum(m)


def test_an_array_that_a_loop_binds_first_and_changes_in_extent_settles():
    """The types of the header come to rest: an extent of which nothing is known is not learned again and again."""
    a, b = np.linspace(0.0, 1.0, 8).reshape(2, 4)
    got = dlvm.jit(binds_in_the_loop_what_depends_on_the_carried)(a, b)
    assert got == pytest.approx(binds_in_the_loop_what_depends_on_the_carried(a, b))


def test_gradient_of_a_product_along_no_axes():
    """np.prod(x, axis=()) is x, with and without an initial value."""
    x, y = np.array([[1.5, 2.0], [0.0, 3.0]]), 2.0
    gx, gy = dlvm.grad(lambda x, y: np.sum(np.prod(x, axis=(), initial=y)), wrt=(0, 1))(x, y)
    np.testing.assert_array_equal(gx, np.full((2, 2), y))
    assert gy == np.sum(x)


def test_deviation_of_equal_numbers():
    """np.std and np.nanstd are norms: where the variance is 0 so is their derivative, by axis and in both modes."""

    def f(x):
        return np.sum(np.std(x, axis=0)) + np.nanstd(x[0] * 1.0, ddof=1)

    x = np.array([[1.0, 2.0], [1.0, 5.0]])
    want = np.array([[0.0, -0.5], [0.0, 0.5]])
    want[0] += np.array([-0.5, 0.5]) * np.sqrt(2.0)
    np.testing.assert_allclose(dlvm.grad(f)(x), want, atol=1e-12)
    same = np.ones((2, 2))
    assert not np.any(dlvm.grad(f)(same))
    assert dlvm.jvp(f, (same,), (np.arange(4.0).reshape(2, 2),)) == (0.0, 0.0)


def _always_raises(a, names):
    if a > LIMIT[0]:
        raise ValueError("-or-".join([str(n) for n in names]))
    raise np.exceptions.AxisError("no such axis")


LIMIT = np.array([1.0, 2.0])


def uses_what_never_comes(a, names):
    if a < 0.0:
        return a * a
    try:
        x, y = _always_raises(a, names)
    except ValueError:
        if a > 3.0:
            raise
        return -a
    return x + y


@pytest.mark.parametrize("a", [-2.0, 2.0, 4.0, 0.5])
def test_a_call_that_never_returns_ends_the_path(a):
    """What would be done with its result is not looked at; a text joins numbers that are known when it runs."""
    check(uses_what_never_comes, a, (2, 3))


def test_coordinates_of_a_series_are_arrays():
    """np.polynomial makes arrays of the coordinates: a Python float is float64 then beside float32 coefficients."""

    def f(x, y, c):
        return np.polynomial.polynomial.polyval2d(x, y, c)

    x, y, c = np.float16(0.5), -0.5, np.ones((2, 3), np.float32)
    result, wanted = dlvm.jit(f)(x, y, c), f(x, y, c)
    assert result == wanted and result.dtype == wanted.dtype


def test_the_number_beside_a_number_is_of_the_first_argument():
    """nextafter of two equal numbers, too: its value there is the second one's, its derivative the first one's."""
    found = dlvm.grad(lambda x, y: math.nextafter(x, y[0]) + np.sum(np.nextafter(x, y)), wrt=(0, 1))
    assert [np.sum(g) for g in found(0.75, np.array([0.75, 0.5]))] == [3.0, 0.0]


def test_products_are_made_in_order():
    """Parts of a product overflow where the whole does not; what `initial` is comes first."""

    def f(x, y):
        return np.prod(x), x.prod(initial=1e-300), y.prod(initial=0)

    x, y = np.tile([1e100, 1e-100], 64), np.full(50, 3.0, np.float16)
    assert_same(dlvm.jit(f)(x, y), f(x, y))


def test_derivative_of_a_product_that_begins_with_zero():
    """It is zero, also where the product of the other elements is above the largest number."""
    gradient = dlvm.grad(lambda x: x.prod(initial=0))
    assert np.array_equal(gradient(np.float32([1e30, 1e30, 2, 3])), np.zeros(4, np.float32))


def test_a_view_that_only_one_way_out_of_a_loop_has():
    """The gradient keeps its length where the ways out part, where it is undefined on the other ones."""

    def f(x, y):
        k = 0
        while k < 2 and y[1] <= 0.0:
            k += 1
            v = y[:-1]
            if x[0] > 0.2:
                return np.sum(y) + np.sum(v * v)
        return np.sum(y)

    gradient = dlvm.grad(f, wrt=(0, 1))
    for x, y in itertools.product((-0.3, 0.3), (-0.4, 0.4)):
        args = np.array([x]), np.array([-0.5, y, -0.1])
        is_all = x > 0.2 and y <= 0.0
        want = [np.zeros(1), np.array([0.0, 2 * y + 1, 1.0]) if is_all else np.ones(3)]
        assert_same(gradient(*args), want)
        program = gradient.program(*args, stage="optimizable")
        assert_same(interpreter.run(program.module, program.name, list(args)), want)


def test_helpers_of_methods_are_part_of_what_is_compiled():
    """Methods with an underscore are in the fingerprint of a kernel: an edited one is not taken from the cache."""

    def f(x):
        return Scaled(x).double()

    functions = capture(f).functions
    assert Scaled.double in functions and Scaled._twice in functions
    check(f, 1.5)


def test_numpy_takes_instances_beside_arrays_apart():
    """array * instance is an array of objects in NumPy, not what the reflected method gives of the array."""

    def f(x):
        return x * Scaled(2.0)

    check(f, 1.5)
    check(f, np.float64(1.5))
    with pytest.raises(dlvm.CompileError, match="takes a Scaled beside an array"):
        dlvm.jit(f)(np.ones(2))


def test_extremes_along_axes_without_elements():
    """NumPy takes none, even where the result has no elements either."""

    def f(x):
        return np.max(x, axis=1)

    compiled = dlvm.jit(f)
    for shape in ((0, 3), (3, 0), (0, 0)):
        x = np.zeros(shape)
        if shape[1]:
            assert compiled(x).shape == f(x).shape
            continue
        for call in (f, compiled):
            with pytest.raises(ValueError, match="zero-size array to reduction operation maximum"):
                call(x)


def test_extents_that_one_path_has_compared_are_apart_on_the_others():
    """What a branch knows of extents stays in it, whatever ends in it: a loop, a return, a comprehension."""

    def loop(a, t, c):
        if c > 0.0:
            a[:] = t * a
            for _ in range(2):
                c += 1.0
        return t[-1], np.sum(t), c

    def early(a, t, c):
        if c > 0.0:
            a[:] = t * a
            if c > 10.0:
                return t[0], c, c
        return t[-1], np.sum(t), c

    def nested(a, t, c):
        x = [t]
        if c > 0.0:
            a[:] = x[0] * a
            c += sum([t[i] for i in range(len(a))])
        return x[0][-1], np.sum(x[0]), c

    for f in (loop, early, nested):
        compiled = dlvm.jit(f)
        for n, m, c in ((9, 3, -1.0), (3, 9, -1.0), (4, 4, 1.0)):
            args = np.ones(n), np.arange(1.0, m + 1), c
            assert compiled(args[0].copy(), *args[1:]) == f(*args)


def test_extents_that_an_iteration_has_compared_are_apart_where_there_was_none():
    """What the end of a loop's body knows holds at the back edge, and neither in `else` nor behind the loop."""

    def counted(a, t, n):
        x = t
        for _ in range(n):
            x = t
            a[:] = t + a
        else:
            a[0] = np.sum(t) + t[-1]
        return x[-1], np.sum(t), a

    def tested(a, t, n):
        i, x = 0, t
        while i < n:
            a[:] = x + a
            x = t
            i += 1
        return x[-1], np.sum(x), a

    def carried(a, t, n):
        """The extents of x stay those of a in all iterations, which makes no check of them."""
        x = a + t
        for _ in range(n):
            a += x
            x = a * t
        return x[-1], np.sum(x), a

    for f in (counted, tested, carried):
        compiled = dlvm.jit(f)
        for rows, others, n in ((3, 7, 0), (7, 3, 0), (4, 4, 2)) if f is not carried else ((4, 4, 0), (4, 4, 2)):
            ours, theirs = ((np.ones(rows), np.arange(1.0, others + 1), n) for _ in range(2))
            for found, expected in zip(compiled(*ours), f(*theirs), strict=True):
                np.testing.assert_array_equal(found, expected)
    text = str(dlvm.jit(carried).ir(*ours, stage="optimizable"))
    assert "extent %x: " not in text[text.index("'loop") :]


@pytest.mark.parametrize("width", [0, ((0, 2), (1, 0)), 2])
def test_what_fills_a_part_without_elements(width):
    """A literal that is broadcast to no elements was taken for an extent, and 0 added to it."""
    def padded(x):
        return np.pad(x, width, constant_values=3.5)

    for shape in ((3, 4), (1, 1), (0, 2), (2, 0)):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        np.testing.assert_array_equal(dlvm.jit(padded)(x), padded(x))
        np.testing.assert_array_equal(dlvm.jit(padded)(np.asfortranarray(x)), padded(x))
        np.testing.assert_array_equal(dlvm.grad(lambda x: np.sum(padded(x) ** 2))(x), 2 * x)
    flat = np.arange(3.0)
    np.testing.assert_array_equal(dlvm.jit(lambda x: np.pad(x, 0))(flat), flat)


@pytest.mark.parametrize("rows", [3, 1])
def test_relations_of_captured_arrays(rows):
    """What is assumed of a captured array was asked of the tangent or the seed before it in a derivative."""
    s = np.arange(2.0 * rows).reshape(rows, 2)
    x, y = np.linspace(0.5, 1.0, rows), np.linspace(2.0, 3.0, rows)

    def weighted(a, b):
        return np.stack((a, b), axis=1) * s

    expected = np.stack((y, x), axis=1) * s
    np.testing.assert_allclose(dlvm.jvp(weighted, (x, y), (y, x))[1], expected)
    seed = np.full((rows, 2), 2.0)
    np.testing.assert_allclose(dlvm.grad(weighted, wrt=1, seedable=True)(x, y, seed), 2.0 * s[:, 1])
    second = dlvm.jvp(lambda a: dlvm.grad(lambda a: np.sum(weighted(a, y) ** 2))(a), (x,), (y,))[1]
    np.testing.assert_allclose(second, 2 * s[:, 0] ** 2 * y)
    if rows > 1:  # where it does not hold the call raises what NumPy does
        more = np.ones(rows + 1)
        with pytest.raises(ValueError, match="broadcast"):
            dlvm.jvp(weighted, (more, more), (more, more))
