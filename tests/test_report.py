"""g.report(): what a gradient keeps, computes again and copies, and the bytes that it predicts."""

import numpy as np
import pytest

import dlvm_py as dlvm

U = np.linspace(0.1, 1.0, 9)


def logistic(x, r, n):
    for _ in range(n):
        x = r * x * (1 - x)
    return x


def heat(u, dt, steps):
    for _ in range(steps):
        u[1:-1] += dt * (u[2:] - 2 * u[1:-1] + u[:-2]) * u[1:-1]
    return np.sum(u**2)


def triangle(x, n):
    for i in range(n):
        for _ in range(i):
            x = np.sin(x)
    return x


def until_small(x, p):
    while x > p["least"]:
        x = np.sin(x) * 0.9
    return x


def test_what_is_kept_has_its_line_and_the_name_of_its_variable():
    report = dlvm.grad(logistic, (0, 1)).report(0.3, 3.3, 5)
    first = logistic.__code__.co_firstlineno
    (stored,) = report.stored
    assert (stored.name, stored.line, stored.formula) == ("x", first + 1, "8 * max(n, 0) bytes")
    assert stored.file == __file__
    assert [(line.name, line.line) for line in report.recomputed] == [("1 - x", first + 2), ("r * x", first + 2)]
    assert report.bytes(0.3, 3.3, 1000) == 8000
    assert report.bytes(0.3, 3.3, n=-1) == 0
    assert str(report) == "\n".join((
        "gradient of logistic()",
        "bytes: 8 * max(n, 0)",
        "stored for the reverse sweep:",
        f"  test_report.py:{first + 1} x                                    8 * max(n, 0) bytes",
        "computed again in the reverse sweep:",
        f"  test_report.py:{first + 2} 1 - x",
        f"  test_report.py:{first + 2} r * x",
        "loops that one thread runs:",
        f"  test_report.py:{first + 1} for _ in range(n):                   "
        f"`x` is carried from one trip to the next (line {first + 2})",
        f"  test_report.py:{first + 1} for _ in range(n):                   "
        f"the adjoint of `x` is carried from one trip to the next (line {first + 2})",
    ))  # fmt: skip


def test_arrays_copies_and_segments():
    taped = dlvm.grad(heat).report(U, 0.1, 3)
    assert [line.name for line in taped.copied] == ["u"]
    assert taped.bytes(np.ones(1002), 0.1, 50) == 8 * 1002 * 50  # u as a whole, once a trip, for all of its parts
    budget = dlvm.grad(dlvm.jit(checkpoint=10**6)(heat)).report(U, 0.1, 3)
    assert [line.line for line in budget.segmented] == [heat.__code__.co_firstlineno + 1]
    assert 5e5 < budget.bytes(np.ones(1002), 0.1, 100_000) < 1.1e6
    assert budget.bytes(np.ones(1002), 0.1, 3) < 8 * 1002 * 4 + 10_000
    few = dlvm.grad(dlvm.jit(checkpoint="recompute")(heat)).report(U, 0.1, 3)
    assert few.bytes(np.ones(1002), 0.1, 10**9) < 10 * few.bytes(np.ones(1002), 0.1, 1000)


def test_trips_that_depend_on_an_outer_loop_count_by_their_mean():
    assert dlvm.grad(triangle).report(0.1, 3).bytes(0.1, 11) == 8 * sum(range(11)) + 40 * 11  # and where they are


def test_trips_that_only_the_run_tells():
    report = dlvm.grad(until_small).report(0.5, {"least": 0.1})
    line = until_small.__code__.co_firstlineno + 1
    with pytest.raises(dlvm.CompileError, match=f"DL709.*\\n.*trips={{{line}: 1000}}"):
        report.bytes(0.5, {"least": 0.1})
    assert report.bytes(0.5, {"least": 0.1}, trips={line: 100}) == 800


def test_a_loop_that_cannot_be_run_again_is_named():
    def loop(u, n):
        v = u
        for _ in range(n):
            v += 0.1
            v = v * v
        return np.sum(v)

    report = dlvm.grad(dlvm.jit(checkpoint=100)(loop)).report(U, 3)
    assert report.segmented == ()
    assert report.left[0].formula == "it writes an array that an earlier step has made"


def rows(a, order):
    for i in range(a.shape[0]):
        a[i] = 2 * a[i]
    for i in range(a.shape[0]):
        a[order[i]] += 1
    return np.sum(a)


def test_loops_that_threads_share_and_why_others_are_not():
    args = np.ones((4, 3)), np.array([3, 1, 0, 2])
    report = dlvm.jit(rows).report(*args)
    first = rows.__code__.co_firstlineno
    assert [(line.line, line.reason) for line in report.shared] == [(first + 1, "")]
    assert [(line.line, line.reason, line.at) for line in report.alone] == [
        (first + 3, "two trips may write the same element of `a`", first + 4)
    ]
    assert report.stored == ()
    assert str(report) == "\n".join((
        "rows()",
        "loops that threads share, where there is enough work:",
        f"  test_report.py:{first + 1} for i in range(a.shape[0]):",
        "loops that one thread runs:",
        f"  test_report.py:{first + 3} for i in range(a.shape[0]):          "
        f"two trips may write the same element of `a` (line {first + 4})",
    ))  # fmt: skip
