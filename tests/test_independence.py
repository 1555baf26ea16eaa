"""Independent trips: which loops of plain Python code are recognised, and what is said of the others."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py import driver
from dlvm_py.decisions import Decisions
from dlvm_py.dispatch import dispatcher_of
from dlvm_py.ir.analysis.independence import Independence

V, M = np.linspace(0.5, 1.5, 6), np.arange(36.0).reshape(6, 6) + 1
ORDER = np.array([3, 1, 0, 2, 5, 4])


def spmv(vals, cols, starts, x):
    y = np.zeros(starts.shape[0] - 1)
    for i in range(y.shape[0]):
        y[i] = vals[starts[i] : starts[i + 1]] @ x[cols[starts[i] : starts[i + 1]]]
    return y


def escape(n, m, most):
    out = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            a = b = 0.0
            k = 0
            while k < most and a * a + b * b < 4:
                a, b = a * a - b * b + j / m, 2 * a * b + i / n
                k += 1
            out[i, j] = k
    return out


def rows_and_temporaries(a):
    out = np.empty_like(a)
    for i in range(a.shape[0]):
        t = np.exp(a[i])
        for j in range(1, a.shape[1]):
            t[j] += t[j - 1]
        out[i] = t / np.sum(t)
    return out


def columns_backwards(a):
    for j in range(a.shape[1] - 1, -1, -1):
        a[:, j] -= np.mean(a[:, j])


def triangle(c, a):
    for i in range(a.shape[0]):
        c[i, : i + 1] *= 0.5
        for k in range(a.shape[1]):
            c[i, : i + 1] += a[i, k] * a[: i + 1, k]


def pairs(a, n):
    for i in range(n):
        a[2 * i] = 3 * a[2 * i + 1]


def blocks(a):
    for i in range(2):
        for j in range(3):
            a[3 * i + j] += 1.0


def parity(a, n):
    for i in range(0, n - 1, 2):
        for j in range(0, n - 1, 2):
            a[i] += a[j + 1]


def two_arrays(a, b):
    for i in range(a.shape[0]):
        a[i] = b[0] + b[a.shape[0] - 1]


def steps(u, v, n):
    for _ in range(n):
        for i in range(1, u.shape[0] - 1):
            v[i] = u[i - 1] + u[i + 1]
        u, v = v, u
    return u


def below(a):
    for i in range(a.shape[0]):
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]


INDEPENDENT = (
    (spmv, (V, ORDER, np.array([0, 2, 4, 6]), V), 0),
    (escape, (3, 4, 5), 0),
    (escape, (3, 4, 5), 1),
    (rows_and_temporaries, (M,), 0),
    (columns_backwards, (M,), 0),
    (triangle, (M, M.copy()), 0),
    (pairs, (V, 3), 0),
    (blocks, (V,), 0),
    (parity, (V, 6), 0),
    (parity, (V, 6), 1, "write the same element of `a`"),
    (two_arrays, (V, V.copy()), 0),
    (steps, (V, V.copy(), 3), 0, "is carried"),
    (steps, (V, V.copy(), 3), 1),
    (below, (M,), 1),
)


def recurrence(a):
    for i in range(1, a.shape[0]):
        a[i] += 0.5 * a[i - 1]


def prefix(a, s):
    for i in range(a.shape[0]):
        s += a[i]
        a[i] = s
    return s


def overlap(a):
    for i in range(a.shape[0] - 1):
        a[i : i + 2] = 0.5


def blocks_that_meet(a):
    for i in range(2):
        for j in range(4):
            a[3 * i + j if j < 3 else 3 * i] += 1.0


def one_too_many(a):
    for j in range(3, a.shape[1]):
        a[3, j] -= a[3, :4] @ a[:4, j]


def past_its_end(a, n):
    for i in range(n):
        j = 0
        while j < 3:
            j += 1
        a[3 * i + j] = a[3 * i] + 1.0


def permuted(a, order):
    for i in range(a.shape[0]):
        a[order[i]] = i


def shared_sum(a, s):
    for i in range(a.shape[0]):
        s[0] += a[i]


def transposed(a):
    for i in range(a.shape[0]):
        a[i] = a[:, i]


def row_of_all(a, k):
    for i in range(a.shape[0]):
        a[i] += a[k]


def stops(a):
    for i in range(a.shape[0]):
        if a[i] > 1.0:
            break
        a[i] = 0.0


def prints(a):
    for i in range(a.shape[0]):
        print(a[i])


def draws(a, rng):
    for i in range(a.shape[0]):
        a[i] = rng.normal()


def last_one(a):
    x = 0.0
    for i in range(a.shape[0]):
        x = 2 * a[i]
        a[i] = x
    return x


def either(a, b):
    for i in range(a.shape[0]):
        c = a if i > 2 else b
        c[i] = 1.0


def around(a):
    for i in range(8):
        a[i * np.int64(2**62)] = i


def one_place(a):
    for i in range(a.shape[0]):
        a[2] = i


DEPENDENT = (
    (recurrence, (V,), "a trip may read what another one writes to `a`"),
    (prefix, (V, 1.0), "`s` is carried from one trip to the next"),
    (overlap, (V,), "two trips may write the same element of `a`"),
    (blocks_that_meet, (M.ravel(),), "two trips may write the same element of `a`"),
    (one_too_many, (M,), "a trip may read what another one writes to `a`"),
    (past_its_end, (M.ravel(), 3), "two trips may write the same element of `a`"),
    (permuted, (V, ORDER), "two trips may write the same element of `a`"),
    (shared_sum, (V, V.copy()), "two trips may write the same element of `s`"),
    (transposed, (M,), "a trip may read what another one writes to `a`"),
    (row_of_all, (M, 2), "a trip may read what another one writes to `a`"),
    (stops, (V,), "break or return leaves it"),
    (prints, (V,), "what is printed comes in order"),
    (draws, (V, np.random.default_rng(1)), "random numbers come in order"),
    (last_one, (V,), "is carried from one trip to the next"),
    (either, (V, V.copy()), "changes from trip to trip"),
    (around, (V,), "two trips may write the same element of `a`"),
    (one_place, (V,), "two trips may write the same element of `a`"),
    (columns_backwards, (M[::2, ::2],), "elements of `a`, which has strides, may be one another"),
)


def trips_of(f, args):
    """The loops of what is not widened to kernels (transforms/widen_loops.py)."""
    as_loops = Decisions((("widen_loops.columns", 0),))
    program = driver.lower_to(dispatcher_of(f).asked(args, {}, "ir"), "compute", decisions=as_loops)
    return list(Independence(program.function).loops())


def of_loop(trips, depth):
    return next(t for t in trips if t.loop.depth == depth + 1)


@pytest.mark.parametrize(("f", "args", "depth", "reason"), [(*row, "")[:4] for row in INDEPENDENT])
def test_trips_that_are_independent(f, args, depth, reason):
    found = of_loop(trips_of(dlvm.jit(f), args), depth)
    assert reason in found.reason if reason else found.independent, found.reason


@pytest.mark.parametrize(("f", "args", "reason"), DEPENDENT)
def test_the_reason_why_trips_are_not_independent(f, args, reason):
    found = of_loop(trips_of(dlvm.jit(f), args), 0)
    assert reason in found.reason
    assert found.loc.line > f.__code__.co_firstlineno


def test_what_may_raise_and_what_is_seen_then():
    local = of_loop(trips_of(dlvm.jit(spmv), INDEPENDENT[0][1]), 0)
    assert [t.op.name for t in local.traps] == ["check", "check"]
    assert not local.visible
    assert of_loop(trips_of(dlvm.jit(pairs), (V, 3)), 0).visible


def test_the_reverse_loop_of_independent_trips_is_independent_where_its_shadows_are():
    def centred(a):
        out = np.empty_like(a)
        for j in range(a.shape[1]):
            out[:, j] = a[:, j] - np.mean(a[:, j])
        return np.sum(out**2)

    def weighted(a, w):
        out = np.empty_like(a)
        for j in range(a.shape[0]):
            out[j] = a[j] * w
        return np.sum(out**2)

    assert [t.independent for t in trips_of(dlvm.grad(centred), (M,))] == [True, True]
    forward, reverse = trips_of(dlvm.grad(weighted, 1), (M, V))
    assert forward.independent
    assert "two trips may write the same element" in reverse.reason or "carried" in reverse.reason
