"""Recursion from Python to native code: values against Python, stages against native, gradients against differences."""

import functools
import threading

import numpy as np
import pytest
from signals import interrupted

import dlvm_py as dlvm
from dlvm_py.dispatch import dispatcher_of
from dlvm_py.driver import lower_to
from dlvm_py.errors import CompileError, PassError, TypeMismatch, UnknownFunction, UnsupportedSyntax
from dlvm_py.ir.interpreter import run

pytestmark = pytest.mark.usefixtures("plain_code")

RNG = np.random.default_rng(5)
V = RNG.normal(size=7)
M = RNG.normal(size=(4, 4))
WEIGHTS = np.array([1.0, 2.0, 3.0])


# -- programs ------------------------------------------------------------------------------------------


def gcd(a, b):
    return a if b == 0 else gcd(b, a % b)


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


def collatz(n, steps=0):
    if n == 1:
        return steps
    return collatz(n // 2, steps + 1) if n % 2 == 0 else collatz(3 * n + 1, steps + 1)


def widening(n):
    return 0 if n == 0 else 0.5 + widening(n - 1)


def horner(c, x, k):
    return c[k] if k == c.shape[0] - 1 else c[k] + x * horner(c, x, k + 1)


def captured(x, k):
    return WEIGHTS[k] if k == 2 else WEIGHTS[k] + x * captured(x, k + 1)


def tree_sum(x, lo, hi):
    if hi - lo == 1:
        return np.sin(x[lo])
    mid = (lo + hi) // 2
    return tree_sum(x, lo, mid) * 0.9 + tree_sum(x, mid, hi)


def power(x, n):
    if n == 0:
        return 1.0
    half = power(x, n // 2)
    return half * half if n % 2 == 0 else half * half * x


def damped(x, n):
    return x if n == 0 else np.sin(x) * damped(x * 0.9, n - 1) + x


def ping(x, n):
    return x if n == 0 else np.sin(pong(x * 1.1, n - 1))


def pong(x, n):
    return x * x if n == 0 else np.exp(-ping(x, n - 1)) * x


def looping(x, n):
    total = x
    for i in range(10):
        if i > n:
            break
        total = total * looping(x * 0.3, n - 1) + i
        if total > 100.0:
            return total
    return total


def pair(x, n):
    if n == 0:
        return x, (1.0, x)
    a, (b, c) = pair(x * 0.5, n - 1)
    return a + b, (a * c, b)


def of_pair(x, n):
    a, (b, c) = pair(x, n)
    return a * b + c


def quick_sort(a, lo, hi):
    if hi - lo < 2:
        return
    pivot = a[hi - 1]
    i = lo
    for j in range(lo, hi - 1):
        if a[j] < pivot:
            t = a[i]
            a[i] = a[j]
            a[j] = t
            i += 1
    t = a[i]
    a[i] = a[hi - 1]
    a[hi - 1] = t
    quick_sort(a, lo, i)
    quick_sort(a, i + 1, hi)


def quick_sorted(a, w):
    quick_sort(a, 0, a.shape[0])
    return np.sum(a * w)


def merge_sort(a):
    n = a.shape[0]
    if n <= 1:
        return a
    left, right = merge_sort(a[: n // 2]), merge_sort(a[n // 2 :])
    out = np.empty(n)
    i = 0
    j = 0
    for k in range(n):
        if j >= right.shape[0] or (i < left.shape[0] and left[i] <= right[j]):
            out[k] = left[i]
            i += 1
        else:
            out[k] = right[j]
            j += 1
    return out


def merge_sorted(a, w):
    return np.sum(merge_sort(a) * np.sin(w))


def minor(a, c):
    n = a.shape[0]
    out = np.empty((n - 1, n - 1))
    for i in range(1, n):
        k = 0
        for j in range(n):
            if j != c:
                out[i - 1, k] = a[i, j]
                k += 1
    return out


def det(a):
    n = a.shape[0]
    if n == 1:
        return a[0, 0]
    total = 0.0
    sign = 1.0
    for c in range(n):
        total += sign * a[0, c] * det(minor(a, c))
        sign = -sign
    return total


def accumulate(out, x, k):
    if k == x.shape[0]:
        return
    out[k] += x[k] * x[k] * (out[k - 1] if k > 0 else 1.0)
    accumulate(out, x, k + 1)


def accumulated(x):
    out = np.ones(x.shape[0])
    accumulate(out, x, 0)
    return np.sum(out)


def views(x, y, n):
    if n == 0:
        return x[0] * y, y
    x[1:] = x[:-1] * y + x[1:]
    a, b = views(x[::-1], y * 0.9, n - 1)
    x[0] = np.sin(x[0]) * a
    return a + x[1] * b, b * x[0]


def of_views(x, y, n):
    a, b = views(x, y, n)
    return a * b + np.sum(x * x)


def swap(x, y, n):
    if n == 0:
        return x[0] * y[1]
    x[1] = y[0] * x[0]
    return swap(y, x, n - 1) + x[0]


def overlapping(x, n):
    return swap(x, x[1:], n)


def arrays(x, depth, v):
    if depth == 0:
        return v * v
    s = v
    for i in range(x.shape[0]):
        s = np.sin(s * x[i]) + v
    return arrays(x, depth - 1, s) + arrays(x * 0.5, depth - 1, s * v)


def of_arrays(x):
    return np.sum(arrays(x, 2, x[:2]))


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


VALUES = [
    (gcd, (48, 18)), (fib, (15,)), (ackermann, (2, 3)), (is_even, (7,)), (is_even, (10,)), (collatz, (27, 0)),
    (widening, (4,)), (captured, (2.0, 0)),
]  # fmt: skip
DIFFERENTIABLE = [
    (horner, (WEIGHTS, 2.0, 0), (0, 1)),
    (tree_sum, (V, 0, 7), (0,)),
    (power, (1.5, 10), (0,)),
    (damped, (0.7, 5), (0,)),
    (ping, (0.6, 5), (0,)),
    (looping, (0.3, 3), (0,)),
    (of_pair, (0.3, 4), (0,)),
    (quick_sorted, (V, V[::-1].copy()), (0, 1)),
    (merge_sorted, (V, V[::-1].copy()), (0, 1)),
    (det, (M,), (0,)),
    (accumulated, (V,), (0,)),
    (of_views, (V, 0.7, 3), (0, 1)),
    (overlapping, (V, 3), (0,)),
    (of_arrays, (V[:3].copy(),), (0,)),
]
GRADIENTS = [(f, args, k) for f, args, wrt in DIFFERENTIABLE for k in wrt]


def _name(x):
    return x.__name__ if callable(x) else str(x) if isinstance(x, int) else ""


def _copies(args):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def _difference(f, args, k, h=1e-6):
    def at(index, step):
        moved = _copies(args)
        if isinstance(moved[k], np.ndarray):
            moved[k][index] += step
        else:
            moved[k] += step
        return f(*moved)

    found = np.zeros(np.shape(args[k]))
    for index in np.ndindex(found.shape):
        found[index] = (at(index, h) - at(index, -h)) / (2 * h)
    return found


def _stages(function, args, want):
    """The IR before it is scheduled, and at its end, gives what native code gave."""
    for stage in ("optimizable", "scheduled"):
        request = dispatcher_of(function).asked(tuple(_copies(args)), {}, "ir")
        p = lower_to(request._replace(is_joined=True), stage)
        late = stage == "scheduled"
        got = run(p.module, p.name, _copies(args), check_ownership=late, trees_at_root=late)
        np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=stage)


# -- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("f, args", [*VALUES, *((f, a) for f, a, _ in DIFFERENTIABLE)], ids=_name)
def test_values(f, args):
    """What Python gives, of the same type, and what it does to the arguments."""
    compiled = dlvm.jit(f)
    ours, theirs = _copies(args), _copies(args)
    got, want = compiled(*ours), f(*theirs)
    assert type(got) is type(want)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    if f is not captured:
        _stages(compiled, args, got)


def test_the_callable_may_call_itself():
    """A decorated function finds itself under its own name."""
    compiled = dlvm.jit(fib)
    assert [compiled(n) for n in range(10)] == [fib(n) for n in range(10)]
    assert decorated(12) == fib(12)


@dlvm.jit
def decorated(n):
    return n if n < 2 else decorated(n - 1) + decorated(n - 2)


def test_captured_arrays_are_seen_as_they_are():
    """Captured arrays go down the recursion as arguments."""
    compiled = dlvm.jit(captured)
    before = WEIGHTS.copy()
    try:
        WEIGHTS[:] = [3.0, 4.0, 5.0]
        assert compiled(2.0, 0) == captured(2.0, 0) == 31.0
    finally:
        WEIGHTS[:] = before


def test_results_are_arguments_views_and_none():
    """A returned argument is that object, a returned view has it as base."""

    compiled = dlvm.jit(rest)
    x = np.arange(5.0)
    assert compiled(x, 0) is x
    got = compiled(x, 2)
    assert got.base is x and got.tolist() == [2.0, 3.0, 4.0]
    y = V.copy()
    assert dlvm.jit(quick_sort)(y, 0, 7) is None
    np.testing.assert_array_equal(y, np.sort(V))


def rest(x, n):
    return x if n == 0 else rest(x[1:], n - 1)


def test_arrays_that_are_only_read_may_be_read_only():
    """What a recursion writes is known."""
    x = V.copy()
    x.flags.writeable = False
    np.testing.assert_allclose(dlvm.jit(tree_sum)(x, 0, 7), tree_sum(x, 0, 7))
    with pytest.raises(ValueError, match="read-only"):
        dlvm.jit(quick_sort)(x, 0, 7)


def raising(x, n):
    y = x * 2.0
    return y[n] + raising(y, n - 1) if n >= 0 else x[x.shape[0] + n + 1]


def only_raises(n):
    if n == 0:
        raise ValueError("bottom")
    return 1 + only_raises(n - 1)


def test_exceptions_come_up_with_their_line():
    """An exception at the bottom leaves all levels; what they hold is freed by the entry."""
    with pytest.raises(IndexError) as caught:
        dlvm.jit(raising)(V, 3)
    assert "test_recursion.py" in str(caught.value.__notes__)
    with pytest.raises(ValueError, match="bottom"):
        dlvm.jit(only_raises)(5)


def visits(x, at, seen):
    """The leaf writes what it has seen, and checks its place; of two calls in a trip, the second is one deeper."""
    if at == len(x) - 1:
        seen[at] += x[at]
        return x[at] ** 2
    total = 0.0
    for _ in range(2):
        total += x[at] * visits(x, at + 1, seen) + seen[at + 1]
    return total


def test_leaves_in_the_place_of_calls():
    """What a leaf writes is seen between the calls, and its exceptions and derivatives are as those of a call."""
    ours, theirs = np.zeros(3), np.zeros(3)
    assert dlvm.jit(visits)(V[:3], 0, ours) == pytest.approx(visits(V[:3], 0, theirs), rel=1e-14)
    np.testing.assert_allclose(ours, theirs)
    got = dlvm.grad(visits)(V[:3], 0, np.zeros(3))
    np.testing.assert_allclose(got, _difference(visits, (V[:3], 0, np.zeros(3)), 0), rtol=1e-5, atol=1e-7)
    for place in (0, 2):
        with pytest.raises(IndexError, match="index 2 is out of bounds for axis 0 with size 2"):
            dlvm.jit(visits)(V[:3], place, np.zeros(2))


def minors(a, left, following):
    """A determinant by its minors: rows from the last `left` on, columns as a list links them."""
    row = len(a) - left
    if left == 1:
        return a[row, following[len(a)]]
    total, sign, before = 0.0, 1.0, len(a)
    column = following[before]
    for _ in range(left):
        following[before] = following[column]
        total += sign * a[row, column] * minors(a, left - 1, following)
        following[before] = column
        sign, before, column = -sign, column, following[column]
    return total


def upward(x, k):
    return x if k >= 4 else np.sin(x * upward(x, k + 1)) - upward(0.5 * x, k + 2)


def _raised(f, *args):
    """What the IndexError of a call says."""
    with pytest.raises(IndexError) as caught:
        f(*args)
    return str(caught.value)


def linked(n):
    return np.append(np.arange(1, n + 1), 0)


@pytest.mark.parametrize("n", range(2, 7))
def test_levels_in_the_place_of_calls(n):
    """The last levels above the end are straight code: the bits, exceptions and derivatives are those of calls."""
    a = RNG.normal(size=(n, n))
    assert dlvm.jit(minors)(a, n, linked(n)) == minors(a, n, linked(n))
    cofactors = np.linalg.det(a) * np.linalg.inv(a).T
    np.testing.assert_allclose(dlvm.grad(minors)(a, n, linked(n)), cofactors, rtol=1e-9)
    wrong = linked(n)
    wrong[n - 2] = n + 1
    raised = [_raised(f, a, n, wrong.copy()) for f in (minors, dlvm.jit(minors))]
    assert raised[0] == raised[1] and "out of bounds" in raised[0]
    assert dlvm.jit(upward)(0.7, 5 - n) == pytest.approx(upward(0.7, 5 - n), rel=1e-14)
    step = dlvm.jit(upward)(0.7 + 1e-6, 5 - n) - dlvm.jit(upward)(0.7 - 1e-6, 5 - n)
    assert dlvm.grad(upward)(0.7, 5 - n) == pytest.approx(step / 2e-6, rel=1e-7)


def test_levels_are_unfolded():
    """The last three levels are straight code in the fourth."""
    assert "_3_entry" in dlvm.jit(minors).ir(np.eye(2), 2, linked(2))


# -- refusals --------------------------------------------------------------------------------------------


def no_result(n):
    return no_result(n + 1)


def counting(x, n):
    calls = 0

    def go(y, k):
        nonlocal calls
        calls += 1
        return y if k == 0 else go(y * x, k - 1)

    return go(x, n), calls


def ranks(x, n):
    return x if n == 0 else ranks(x[None], n - 1)


def conflicting(x, n):
    return 1.0 if n == 0 else (conflicting(x, n - 1), x)


@pytest.mark.parametrize("f, args, kind, words", [
    (counting, (1.0, 3), UnsupportedSyntax, "return what it finds"),
    (ranks, (V, 2), UnsupportedSyntax, "ever new types or shapes"),
    (conflicting, (1.0, 3), TypeMismatch, "changes with every call"),
])  # fmt: skip
def test_refusals(f, args, kind, words):
    """What cannot be compiled says so, with a place in the source."""
    with pytest.raises(CompileError) as caught:
        dlvm.jit(f)(*args)
    assert type(caught.value) is kind and words in str(caught.value) and "test_recursion.py" in str(caught.value)


# -- the machine stack -----------------------------------------------------------------------------------


def _too_deep(compiled, depth=10**9):
    assert compiled(500) == 500
    for _ in range(2):
        with pytest.raises(RecursionError, match="maximum recursion depth exceeded") as caught:
            compiled(depth)
        assert "test_recursion.py" in str(caught.value.__notes__)
    assert compiled(500) == 500


def test_too_deep():
    """No crash: RecursionError with the line, and the function goes on working."""
    _too_deep(dlvm.jit(deep))
    with pytest.raises(RecursionError):
        dlvm.jit(no_result)(1)
    with pytest.raises(RecursionError):
        dlvm.grad(damped, wrt=0)(0.5, 10**9)


@pytest.mark.parametrize("kilobytes", [256, 1024, 16384])
def test_too_deep_in_a_thread(kilobytes):
    """The limit is that of the thread which calls."""
    compiled = dlvm.jit(deep)
    compiled(1)
    problems = []

    def work():
        try:
            _too_deep(compiled)
        except BaseException as e:  # noqa: BLE001 - handed to the test
            problems.append(e)

    before = threading.stack_size(kilobytes * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert not problems


def test_signals_are_seen():
    """A recursion without loops can be interrupted."""
    compiled = dlvm.jit(fib)
    compiled(3)
    with interrupted(0.3):
        compiled(70)


# -- derivatives -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("f, args, k", GRADIENTS, ids=_name)
def test_gradients(f, args, k):
    """Against central differences; arguments stay as they are, and every stage agrees."""
    gradient = dlvm.grad(f, wrt=k)
    ours = _copies(args)
    got = gradient(*ours)
    for a, b in zip(ours, args, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(got, _difference(f, args, k), rtol=1e-5, atol=1e-7)
    _stages(gradient, args, got)


SCALAR = [
    (power, (1.3, 5)), (damped, (0.7, 5)), (ping, (0.6, 4)),
    pytest.param(looping, (0.3, 2), marks=pytest.mark.slow), (of_pair, (0.3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("f, args", SCALAR, ids=_name)
def test_higher_derivatives_of_scalar_recursions(f, args):
    """The tapes that calls share have adjoints of their own."""
    first = dlvm.grad(f, wrt=0)
    second = dlvm.grad(first, wrt=0)
    third = dlvm.grad(second, wrt=0)
    np.testing.assert_allclose(second(*args), _difference(first, args, 0), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(third(*args), _difference(second, args, 0), rtol=1e-5, atol=1e-7)
    _stages(second, args, second(*args))


@pytest.mark.parametrize("f, args", [
    (horner, (WEIGHTS, 2.0, 0)), (tree_sum, (V[:4].copy(), 0, 4)),
    pytest.param(det, (M[:3, :3].copy(),), marks=pytest.mark.slow), (accumulated, (V[:4].copy(),)),
    pytest.param(quick_sorted, (V[:4].copy(), V[3::-1].copy()), marks=pytest.mark.slow),
    pytest.param(of_views, (V[:4].copy(), 0.7, 2), marks=pytest.mark.slow),
    (overlapping, (V[:4].copy(), 3)),
    pytest.param(of_arrays, (V[:3].copy(),), marks=pytest.mark.slow)], ids=_name)  # fmt: skip
def test_second_derivatives_with_arrays(f, args):
    """The shadows of what the tapes hold travel beside them."""
    k = 1 if f is horner else 0
    first = dlvm.grad(f, wrt=k)
    second = dlvm.grad(first, wrt=k)
    got = second(*_copies(args))
    want = _difference(lambda *a: np.sum(first(*a)), args, k)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    _stages(second, args, got)


def test_value_and_gradient():
    """Kept outputs come along."""
    value, gradient = dlvm.value_and_grad(det, wrt=0)(M)
    np.testing.assert_allclose(value, np.linalg.det(M))
    np.testing.assert_allclose(gradient, np.linalg.det(M) * np.linalg.inv(M).T)


def test_cost_is_linear_in_depth():
    """A gradient runs each call once forward and once backward: twice the depth takes about twice the steps."""
    gradient = dlvm.grad(damped, wrt=0)
    request = dispatcher_of(gradient).asked((0.5, 3), {}, "ir")
    p = lower_to(request._replace(is_joined=True), "optimizable")

    def steps(depth):
        low, high = 0, 1 << 20
        while high - low > 1:
            middle = (low + high) // 2
            try:
                run(p.module, p.name, (0.5, depth), max_steps=middle)
                high = middle
            except PassError:
                low = middle
        return high

    assert steps(40) < 2.2 * steps(20)


# -- closures --------------------------------------------------------------------------------------------


def _counter(c):
    def h(n):
        def g(k):
            return 0.0 if k < 1 else c + g(k - 1)

        return g(n)

    return h


_BY_ONE, _BY_TWO = _counter(1.0), _counter(2.0)


def of_two_cells(n):
    return _BY_ONE(n) * 10 + _BY_TWO(n)


def _of_partial(n, x, j):
    def h(x, y):
        return x * x * y

    d = dlvm.grad(h, j)

    def g(k):
        return 0.0 if k < 1 else d(x, 1.0) + g(k - 1)

    return g(n)


def of_two_derivatives(n, x):
    return _of_partial(n, x, 0) * 10 + _of_partial(n, x, 1)


def test_one_tree_may_be_several_recursive_closures():
    """By the cells of the function around it, and by what it reads: the version of one is not that of another."""
    assert dlvm.jit(of_two_cells)(3) == of_two_cells(3)
    assert dlvm.jit(of_two_derivatives)(3, 3.0) == 3 * (10 * 2 * 3.0 + 3.0**2)


def _adapt(f, a, b, eps):
    m = (a + b) / 2
    coarse, fine = (b - a) * (f(a) + f(b)) / 2, (b - a) * (f(a) + 2 * f(m) + f(b)) / 4
    if abs(coarse - fine) < eps:
        return fine
    return _adapt(f, a, m, eps / 2) + _adapt(f, m, b, eps / 2)


def _scaled(f, w):
    return lambda x: f(x) * w


def of_two_names(w, b):
    """Two closures of one tree, each of which reads an `f` and a `w` of its own."""

    def g(x):
        return w * x * x

    return _adapt(_scaled(_scaled(g, 2.0), b), 0.0, b, 1e-1) + _adapt(g, 0.0, b, 1e-1)


def of_array(w, b):
    return _adapt(lambda x: w[0] * x + w[1] * np.sin(x), 0.0, b, 1e-1)


def of_nested(w, b):
    def halves(f, a, b, n):
        if n == 0:
            return f((a + b) / 2) * (b - a) * w
        return halves(f, a, (a + b) / 2, n - 1) + halves(f, (a + b) / 2, b, n - 1)

    return halves(lambda x, k=b: x * k * w, 0.0, b, 3)


def of_what_it_has_seen(b):
    seen = []

    def g(x):
        seen.append(x)
        return x * x * x

    y = _adapt(g, 0.0, b, 0.5)
    return y, len(seen), sum(seen)


def _renewed(f, n, x):
    return f(x) if n == 0 else f(x) + _renewed(lambda y: y * x, n - 1, x + 1)


def of_a_new_one_each_time(x, n):
    return _renewed(lambda y: y + x, n, x)


def _deeper(f, n, x):
    return f(x) if n == 0 else _deeper(lambda y: f(y) + 1.0, n - 1, x)


def of_one_around_the_last(x, n):
    return _deeper(lambda y: y * x, n, x)


TAKE_CLOSURES = [
    (of_two_names, (2.0, 1.5)), (of_array, (np.array([1.0, 2.0]), 2.0)), (of_nested, (2.0, 1.5)),
    (of_a_new_one_each_time, (2.0, 3)),
]  # fmt: skip


@pytest.mark.parametrize("f, args", TAKE_CLOSURES, ids=_name)
def test_recursive_functions_take_closures(f, args):
    got, want = dlvm.jit(f)(*args), f(*args)
    assert type(got) is type(want) and got == want
    h, one = 1e-6, np.ones_like(args[0]) if isinstance(args[0], np.ndarray) else 1.0
    slope = (f(args[0] + h * one, *args[1:]) - f(args[0] - h * one, *args[1:])) / (2 * h)
    along = float(np.sum(dlvm.grad(f)(*args)))
    assert along == pytest.approx(float(slope), rel=1e-6)
    rest = tuple(None if isinstance(a, int) else 0.0 for a in args[1:])
    assert dlvm.jvp(f, args, (one, *rest))[1] == pytest.approx(along, rel=1e-12)


def test_closures_of_recursive_functions_change_lists():
    assert dlvm.jit(of_what_it_has_seen)(2.0) == of_what_it_has_seen(2.0)


def test_a_function_around_the_last_one_has_no_version():
    with pytest.raises(UnsupportedSyntax, match="_deeper calls itself with another function each time"):
        dlvm.jit(of_one_around_the_last)(2.0, 3)


@functools.lru_cache
def _cached(n):
    return n if n < 2 else _cached(n - 1) + _cached(n - 2)


def test_caches_are_refused_with_what_to_write():
    with pytest.raises(UnknownFunction, match=r"_cached, which functools caches(.|\n)*help: write a dict as the memo"):
        dlvm.jit(lambda n: _cached(n))(30)


def _remembered(n, memo):
    if n in memo:
        return memo[n]
    y = n if n < 2 else _remembered(n - 1, memo) + _remembered(n - 2, memo)
    memo[n] = y
    return y


def test_a_dict_is_a_memo():
    assert dlvm.jit(lambda n: _remembered(n, {}))(60) == 1548008755920
