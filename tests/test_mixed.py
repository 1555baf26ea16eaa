"""Numbers that have one type on some paths and another one on others: each call gives the one that Python gives."""

import contextlib
import io

import numpy as np
import pytest

import dlvm_py as dlvm


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


VECTORS = (np.zeros(0), np.array([0.5, 1.5, 1.25, 2.0]), np.array([-1.0]))
PROGRAMS = [
    (total, [(x,) for x in VECTORS]),
    (used_behind, [(x, n) for x in VECTORS for n in (0, 2, 3)]),
    (weak_and_strong, [(x,) for x in VECTORS]),
    (in_a_while, [(x,) for x in VECTORS]),
    (helped, [(x,) for x in VECTORS]),
    (recursive, [(0,), (2,)]),
    (on_branches, [(x, n) for x in VECTORS for n in (0, 1, 2)]),
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
