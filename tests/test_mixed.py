"""Numbers that have one type on some paths and another one on others: each call gives the one that Python gives."""

import contextlib
import dataclasses
import io

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")


def total(x):
    s = 0
    for v in x:
        s += v
    return s


def used_behind(x, n):
    s = 0
    for v in x:
        s += v
    t = max(s, 1)
    print("s is", s, f"{s!r}", s // 3)
    if n > 2:
        raise ValueError(f"got {s!r}")
    kind = 1 if isinstance(s, int) else 2
    return [s, {"a": s}], -s, s + 1, s % 2, abs(s), float(s), divmod(s, 2), kind, t, s > 0, s / n


def weak_and_strong(x):
    s, t = 0.1, 1 + 0j
    for v in x.astype(np.float32):
        s += v
        t = t * v
    return s, s * 2.0, t, s - 1 if len(x) > 1 else False


def in_a_while(x):
    k, s, t = 0, 0, True
    while k < len(x):
        s, t = s + x[k], k
        k += 1
        if s > 3:
            break
    else:
        return s, t
    return t, s


def helped(x):
    def twice(q):
        return q * 2

    a = total(x)
    return a, twice(a), np.sqrt(total(x[1:])), sum(x)


def recursive(n):
    if n < 1:
        return 0
    return recursive(n - 1) * 0.5


def on_branches(x, n):
    if len(x) == 0:
        return 0, 0.5, x.sum()
    a = n or x[0]
    b = a if n != 1 else False
    try:
        c = 1 / (0 if n < 2 else x[0])
    except ZeroDivisionError:
        c = -1
    return a, b, c


def in_loops(x, n):
    y = np.zeros(n)
    for i in range(n):
        t = 0
        for j in range(i):
            t += x[j]
        y[i] = t / 2
        print(t)
        if i > 2:
            raise ValueError(f"{t!r}")
    return y


@dataclasses.dataclass
class Counter:
    count: float

    def add(self, w):
        self.count = self.count + w
        return self.count * 2


def changed_once(x, n):
    """A number of one of two types goes to what changes an object: that happens once."""
    counter, items, table, grown = Counter(1), [1.0], {"a": 1.0}, []
    doubled = counter.add(max(x[0], n)) + counter.add(min(x[1], n))
    items.append(max(x[0], n))
    items.insert(0, min(x[1], n))
    table.update(a=max(x[2], n))
    table.setdefault("b", min(x[2], n))
    for v in x:
        grown.append(v)
    grown.append(max(x[0], n))
    return counter.count, doubled, len(items), sum(items), table["a"] + table["b"], len(grown), sum(grown)


VECTORS = (np.zeros(0), np.array([0.5, 1.5, 1.25, 2.0]), np.array([-1.0]))
PROGRAMS = [
    (total, [(x,) for x in VECTORS]),
    (used_behind, [(x, n) for x in VECTORS for n in (0, 2, 3)]),
    (weak_and_strong, [(x,) for x in VECTORS]),
    (in_a_while, [(x,) for x in VECTORS]),
    (helped, [(x,) for x in VECTORS]),
    (recursive, [(0,), (2,)]),
    (on_branches, [(x, n) for x in VECTORS for n in (0, 1, 2)]),
    (changed_once, [(VECTORS[1], n) for n in (0, 1, 4)]),
    (in_loops, [(VECTORS[1], n) for n in (0, 1, 3, 4)]),
]


def outcome(fn, args):
    with contextlib.redirect_stdout(io.StringIO()) as out, np.errstate(all="ignore"):
        try:
            found = repr(fn(*args))
        except dlvm.DLError:
            raise
        except Exception as error:
            found = type(error), str(error)
    return found, out.getvalue()


@pytest.mark.parametrize(("fn", "calls"), PROGRAMS, ids=lambda v: getattr(v, "__name__", ""))
def test_each_call_gives_the_type_that_python_gives(fn, calls):
    """Classes and values of what is returned, printed and raised; one version for calls of all kinds."""
    compiled = dlvm.jit(fn)
    for args in calls:
        assert outcome(compiled, args) == outcome(fn, args)
    assert compiled.stats()["versions"] == len({tuple(np.size(a) == 1 for a in args) for args in calls})


def test_gradients_with_and_without_iterations():
    """A derivative is of the joined type, and that of the value before the loop where no iteration has been."""

    def f(a, x):
        s = a
        for v in x:
            s = s * v
        return s / 2

    g = dlvm.grad(f, wrt=(0, 1))
    for x in VECTORS:
        a, b = g(3.0, x)
        assert a == np.prod(x) / 2
        np.testing.assert_allclose(b, [1.5 * np.prod(np.delete(x, k)) for k in range(len(x))])
    assert dlvm.value_and_grad(f)(3.0, VECTORS[0]) == (1.5, 0.5)
    assert np.array_equal(dlvm.grad(total)(VECTORS[0]), VECTORS[0])


def test_the_loop_carries_nothing_for_it():
    """The header of the loop has the counter and the sum alone: its count says what was returned."""
    text = dlvm.jit(total).ir(VECTORS[1])
    header = next(line for line in text.splitlines() if line.startswith("'loop("))
    assert header.count(":") == 3, header


def test_what_an_iteration_may_leave_alone_has_the_joined_type():
    """docs/language.md: which number an iteration leaves behind is not recorded for its type."""

    def largest(x):
        m = 0
        for v in x:
            if v > m:
                m = v
        return m

    compiled = dlvm.jit(largest)
    assert type(compiled(VECTORS[0])) is int
    assert type(compiled(VECTORS[2])) is np.float64


def test_texts_that_are_made_at_run_time_are_not_compared():
    def f(n):
        return str(n) == "0"

    with pytest.raises(dlvm.UnsupportedSyntax, match="compare the numbers"):
        dlvm.jit(f)(0)


def test_as_source():
    """The Python text gives the same types."""
    namespace = {}
    exec(dlvm.jit(total).source(VECTORS[1]), namespace)
    for x in VECTORS:
        assert repr(namespace["total"](x)) == repr(total(x))


def operated(x, n):
    y = None
    if n > 0:
        y = x * n
    return y + 1.0


def square_or_none(x, n):
    if n > 0:
        return (x * x).sum()
    return None


def number_or_array(x, n):
    if n > 1:
        return x * x
    return (x**3).sum()


def second_is_none(x, n):
    y = None
    if n > 0:
        y = x * x
    return y, x.sum()


def nested_kinds(x, n):
    a = b = c = None
    if n > 0:
        a, b = 1, x
    if n > 1:
        c = x.sum()
    return a + b if b is not None else c


def test_none_where_a_value_is_needed_raises_as_python_does():
    compiled, x = dlvm.jit(operated), np.ones(2)
    assert np.array_equal(compiled(x, 2), operated(x, 2))
    with pytest.raises(TypeError, match="this is None here"):
        compiled(x, 0)


def test_names_that_are_set_together_are_told_apart_together():
    """`a + b` is never translated for a None: `b is not None` says what a is, too."""
    compiled, x = dlvm.jit(nested_kinds), np.ones(2)
    for n in range(3):
        assert repr(compiled(x, n)) == repr(nested_kinds(x, n))
    assert "this is None here" not in compiled.ir(x, 1)


def test_a_result_of_one_of_two_kinds_is_the_very_argument():
    def f(x, n):
        y = x if n > 0 else None
        return x if y is None else y

    def g(x, n):
        for _ in range(n):
            x = x / 2
        return x

    x, compiled = np.arange(3), dlvm.jit(g)
    assert dlvm.jit(f)(x, 0) is x and dlvm.jit(f)(x, 1) is x
    assert compiled(x, 0) is x and repr(compiled(x, 1)) == repr(g(x, 1))


def test_gradients_of_results_of_several_kinds():
    x = np.array([1.0, 2.0, 3.0])
    assert np.array_equal(dlvm.grad(square_or_none)(x, 1), 2 * x)
    with pytest.raises(TypeError, match="the result is None here, which has no derivative"):
        dlvm.grad(square_or_none)(x, 0)
    value, pullback = dlvm.vjp(square_or_none, x, 1)
    assert value == 14.0 and np.array_equal(pullback(1.0)[0], 2 * x)
    assert np.array_equal(dlvm.jacobian(square_or_none)(x, 1), 2 * x)
    both = dlvm.value_and_grad(number_or_array)
    for n, expected in ((0, 3 * x**2), (2, 2 * x)):
        value, gradient = both(x, n)
        assert repr(value) == repr(number_or_array(x, n))
        np.testing.assert_allclose(gradient, expected)
    for n in range(2):
        (y, total), gradient = dlvm.value_and_grad(second_is_none)(x, n)
        assert (y is None) == (n == 0) and total == 6.0 and np.array_equal(gradient, 2 * x * n)
    with pytest.raises(dlvm.NotDifferentiable, match="a number here and an array there, has no Jacobian"):
        dlvm.jacobian(number_or_array)(x, 1)
    with pytest.raises(dlvm.NotDifferentiable, match="has no seed"):
        dlvm.grad(number_or_array, seedable=True)(x, 1, 1.0)


def test_kinds_as_source():
    namespace = {}
    exec(dlvm.jit(number_or_array).source(VECTORS[1], 1), namespace)
    for n in (1, 2):
        assert repr(namespace["number_or_array"](VECTORS[1], n)) == repr(number_or_array(VECTORS[1], n))


def test_too_many_kinds_are_an_error():
    def f(n):
        y = None
        if n == 1:
            y = 2
        elif n == 2:
            y = "two"
        elif n == 3:
            y = (1, 2)
        elif n == 4:
            y = (1, 2, 3)
        return y

    with pytest.raises(dlvm.TypeMismatch, match="there is no common type"):
        dlvm.jit(f)(1)
