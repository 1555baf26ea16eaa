"""dlvm.check: that what is right passes, and that seeded faults are found, at their argument, element and line."""

import collections
import math

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.checking.differences import difference
from dlvm_py.ir import OPS

pytestmark = pytest.mark.usefixtures("plain_code")

X = np.array([0.5, 1.7, 2.2])


@pytest.fixture
def fault(monkeypatch):
    """Breaks the derivative rule of an op: fault("sin", partials=rule)."""
    changed = []
    monkeypatch.setenv("DLVM_CACHE", "0")  # what is wrong must not be kept

    def put(name, **rules):
        for field, rule in rules.items():
            changed.append((OPS[name], field, getattr(OPS[name], field)))
            object.__setattr__(OPS[name], field, rule)

    yield put
    for op, field, rule in reversed(changed):
        object.__setattr__(op, field, rule)


def line_of(f, text):
    """The line of the first statement of `f` with this text in it."""
    with open(f.__code__.co_filename) as fh:
        lines = fh.read().splitlines()
    return next(k for k, s in enumerate(lines, 1) if k > f.__code__.co_firstlineno and text in s)


def mixed(x, a, n):
    y = np.sin(x) * a
    s = 0.0
    for i in range(n):
        s += y[i] * np.floor(x[i])
        if s > 3.0:
            s = s * 0.5
    x[0] = s
    return s + np.sum(np.maximum(x, 0.3)), y


def test_a_right_function_passes_and_stops_are_listed():
    x = X.copy()
    report = dlvm.check(mixed, x, 2.0, n=3)
    assert report.ok and report.assert_ok() is report
    np.testing.assert_array_equal(x, X)
    stops = {f.loc.line: f.kind for f in report.notes if f.kind in ("stop", "branch")}
    assert stops == {line_of(mixed, "np.floor"): "stop", line_of(mixed, "if s > 3.0"): "branch"}
    assert "all 4 derivatives with differences" in str(report) and "check of mixed: ok" in str(report)


def waves(x, a, n):
    y = a * x
    for i in range(n):
        t = y * y
        y = np.cos(t) + np.sin(y) * i
    return np.sum(y * x)


def test_a_wrong_rule_is_found_at_its_line_in_both_modes(fault):
    """cos with the wrong sign: values are right, both modes depart where cos is, in every element of x and in a."""
    fault("cos", partials=lambda y, x: (OPS["sin"](x),))
    report = dlvm.check(dlvm.jit(waves, cache=False), X, 0.8, 3)
    assert not report.ok and {f.kind for f in report.errors} == {"forward"}
    assert [f.element for f in report.errors] == ["x[0]", "x[1]", "x[2]", "a"]
    assert {f.argument for f in report.errors} == {"x", "a"}
    assert {f.loc.line for f in report.errors} == {line_of(waves, "np.cos(t)")}
    assert "np.cos(t)" in str(report) and "by differences" in str(report)
    with pytest.raises(AssertionError, match="departs first on this line"):
        report.assert_ok()


def sums(x, y):
    z = x * y
    c = np.cumsum(z)
    c = c * y
    return np.sum(c * c)


def test_a_wrong_adjoint_is_found_where_forward_mode_is_right(fault):
    """An adjoint that forgets its sums: the modes disagree, and the gradient alone is wrong."""
    fault("scan", adjoint=lambda seed, y, x, **attrs: (seed,))
    report = dlvm.check(dlvm.jit(sums, cache=False), X, X[::-1].copy(), wrt="x")
    assert {f.kind for f in report.errors} == {"modes", "reverse"}
    wrong = [f for f in report.errors if f.kind == "reverse"]
    assert [f.element for f in wrong] == ["x[0]", "x[1]"]  # the last element has no sum to forget
    assert {f.loc.line for f in wrong} == {line_of(sums, "np.cumsum")}


def test_a_wrong_value_is_found_at_its_line(fault):
    """The compiled sine of the interpreter's rule is right, the one of a broken table is not: the value departs."""
    from dlvm_py.backend.cpu import scalar as table

    row, right = table.TABLE["tanh"], table.TABLE["tanh"]["f"]
    row["f"] = table.TABLE["sinh"]["f"]
    try:
        fault("tanh")

        def f(x):
            y = x * x
            y = np.tanh(y)
            return np.sum(y)

        report = dlvm.check(dlvm.jit(f, cache=False), X)
    finally:
        row["f"] = right
    (found,) = report.errors
    assert found.kind == "value" and found.loc.line == line_of(f, "np.tanh(y)")


def test_a_wrong_derivative_among_many_elements_is_found(fault):
    """More elements than are compared one by one: a fault in one of them is found by bisection."""

    def f(x):
        s = np.sum(x * x)
        return s + np.arctan(x[777]) * 3.0

    fault("atan", partials=lambda y, x: (0.5 / (1.0 + x * x),))
    report = dlvm.check(dlvm.jit(f, cache=False), np.linspace(0.0, 1.0, 1000))
    assert {f.element for f in report.errors} == {"x[777]"}


def test_kinks_are_notes():
    report = dlvm.check(lambda x: np.sum(np.abs(x)), np.array([0.0, 1.0]))
    assert report.ok
    (note,) = [f for f in report.notes if f.kind == "kink"]
    assert note.element == "x[0]" and "-1 from below, 1 from above" in note.message


def test_conventions_that_cancel_a_kink_are_reported():
    """max(x, 0) - max(-x, 0) is x; by the conventions its derivative at 0 is 0."""
    report = dlvm.check(lambda x: np.maximum(x, 0.0) - np.maximum(-x, 0.0), 0.0)
    assert [f.kind for f in report.errors] == ["forward"] and report.errors[0].expected == pytest.approx(1.0)


def test_a_root_at_its_end_cannot_be_judged():
    report = dlvm.check(lambda x: math.sqrt(x), 0.0)
    assert report.ok and [f.kind for f in report.notes] == ["inconclusive"]


Pair = collections.namedtuple("Pair", "weights bias")


def structured(p, k):
    return {"y": p["a"].weights * k + p["a"].bias, "n": k}


def test_structured_arguments_and_results():
    report = dlvm.check(structured, {"a": Pair(X, 2.0)}, 3)
    assert report.ok and "all 4 derivatives with differences" in report.compared


def test_complex_arguments():
    report = dlvm.check(lambda z: np.sum(np.abs(z) ** 2 * z), np.array([1 + 2j, -0.5j]))
    assert report.ok and "all 4 derivatives with differences" in report.compared


def test_single_precision_is_compared_as_such():
    report = dlvm.check(lambda x: np.sum(np.exp(x) * x), X.astype(np.float32))
    assert report.ok and "all 3 derivatives with differences" in report.compared


def test_exceptions_are_compared():
    report = dlvm.check(lambda x: x[7], X)
    assert report.ok and "both raise IndexError" in str(report)


def test_what_does_not_compile_is_an_error_with_its_place():
    def f(x):
        return np.sum(np.busday_count(x, x))

    (found,) = dlvm.check(f, X).errors
    assert found.kind == "compile" and found.loc.line == line_of(f, "busday_count")


def test_integers_are_refused_and_derivatives_too():
    with pytest.raises(dlvm.ArgumentError, match="DL701"):
        dlvm.check(mixed, X, 2.0, 3, wrt="q")
    with pytest.raises(dlvm.ArgumentError, match="DL702"):
        dlvm.check(mixed, X, 2.0, 3, wrt="n")
    with pytest.raises(dlvm.ArgumentError, match="DL706"):
        dlvm.check(dlvm.grad(mixed), X, 2.0, 3)


@pytest.mark.parametrize(
    ("g", "want"),
    [(np.exp, 1.0), (lambda t: np.sin(50.0 * t), 50.0), (lambda t: np.log(1e-3 + t), 1e3), (lambda t: t**3 + 1e8, 0.0)],
    ids=["exp", "fast", "near the end of its domain", "much rounding"],
)
def test_the_error_of_a_difference_is_honest(g, want):
    with np.errstate(all="ignore"):
        found = difference(lambda t: np.array([g(t)]))
    assert abs(found.value[0] - want) <= 20 * found.error[0] + 1e-12
    assert found.error[0] <= 1e-5 * max(1.0, abs(want))
    assert not found.kink[0]
