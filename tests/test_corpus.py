"""The wrong-gradient corpus (tests/corpus): every program by every executor, in reverse, forward and second order.

Laws, at each point: the value is plain Python's; the gradient is the closed form (which differences confirm where the
program is smooth) or, without one, agrees with differences of plain Python; forward mode gives its product with a
direction; forward over reverse and reverse over reverse give one second derivative, which is the differences of the
gradient, and whose quadratic form is the second difference of plain Python. At kinks: the conventions.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from corpus import CASES
from corpus.case import SINGULAR, float_leaves
from corpus.executors import (
    EXECUTORS,
    direction,
    flatten,
    forward,
    forward_over_reverse,
    inner,
    moved,
    reverse,
    reverse_over_reverse,
)

from dlvm_py.checking.differences import difference

POINTS = [pytest.param(c, k, id=f"{c.name}-{k}" if k else c.name) for c in CASES.values() for k in range(len(c.points))]
pytestmark = pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # plain NumPy code gives them


def tolerance(args):
    """Relative and absolute: what rounding allows for the narrowest float among the arguments."""
    return max((1e-5 if np.asarray(leaf).dtype == np.float32 else 1e-9) for leaf in float_leaves(args))


def assert_close(got, want, limit, what):
    assert got.shape == want.shape, (what, got, want)
    np.testing.assert_allclose(got, want, rtol=limit, atol=limit, err_msg=what)


def check_first_order(case, k, executors, modes=("reverse", "forward")):
    """Value, gradient and tangent of each executor."""
    args, value = case.args(k), float(case.fn(*case.args(k)))
    v, limit = direction(case, args), tolerance(args)
    expected = None if case.gradient is None else flatten(case.gradient(*case.args(k)))
    for name in executors:
        got = EXECUTORS[name](reverse(case), case.args(k))
        assert_close(got[:1], np.array([value]), limit, f"value by {name}")
        expected = got[1:] if expected is None else expected
        assert_close(got[1:], expected, limit, f"gradient by {name}")
    change = inner(expected, flatten(v))
    if not case.kink:
        reference = difference(lambda t: np.array([float(case.fn(*moved(case, args, v, t)))]))
        assert reference.conclusive(1e-10).all() and reference.agrees(np.array([change]), 1e-7).all(), (
            reference, change,
        )  # fmt: skip
    if np.isfinite(change) and "forward" in modes:
        for name in executors:
            got = EXECUTORS[name](forward(case), (*case.args(k), *v))
            assert_close(got, np.array([value, change]), limit, f"forward mode by {name}")


def check_second_order(case, k, executors, compositions):
    """The second derivative times a direction, on each executor."""
    args = case.args(k)
    v, limit = direction(case, args), max(tolerance(args), 1e-8)
    if case.second is SINGULAR:
        return
    if case.second is not None:
        expected = flatten(case.second(*case.args(k), v))
    else:
        by = EXECUTORS[next(iter(executors))]
        gradients = lambda t: by(reverse(case), moved(case, args, v, t))[1:]  # noqa: E731
        parts = [difference(lambda t, part=part: part(gradients(t))) for part in (np.real, np.imag)]
        assert all(p.conclusive(1e-10).all() for p in parts), parts
        expected = parts[0].value + 1j * parts[1].value if np.iscomplexobj(gradients(0.0)) else parts[0].value
        limit = max(limit, 1e-6)
        # which plain Python confirms
        bend = difference(
            lambda t: difference(lambda s: np.array([float(case.fn(*moved(case, args, v, t + s)))])).value
        )
        np.testing.assert_allclose(inner(expected, flatten(v)), bend.value[0], rtol=1e-4, atol=1e-4)
    for name in executors:
        for made in compositions:
            extra = v if made is forward_over_reverse else (v,)
            got = EXECUTORS[name](made(case), (*case.args(k), *extra))
            assert_close(got, expected, limit, f"{made.__name__} by {name}")


@pytest.mark.parametrize(("case", "k"), POINTS)
def test_corpus(case, k):
    """First order at every point, second order at the first one, by the interpreter on the optimised IR."""
    check_first_order(case, k, ["interpreter"])
    if k == 0:
        check_second_order(case, k, ["interpreter"], [forward_over_reverse])


@pytest.mark.parametrize(("case", "k"), [p for p in POINTS if p.values[0].group in ("loops", "control")])
def test_corpus_natively(case, k):
    """Native reverse mode, where control flow decides; the others are compiled by the slow tests."""
    check_first_order(case, k, ["native"], modes=("reverse",))


@pytest.mark.slow
@pytest.mark.parametrize(("case", "k"), POINTS)
def test_corpus_by_every_executor(case, k):
    """First and second order, by every executor and both compositions."""
    check_first_order(case, k, EXECUTORS)
    check_second_order(case, k, EXECUTORS, [forward_over_reverse, reverse_over_reverse])


def test_a_wrong_gradient_is_noticed():
    """The laws can fail: a closed form with the wrong sign, and an executor that is off by a factor."""
    case = CASES["carried_used_after"]
    with pytest.raises(AssertionError, match="gradient by broken"):
        EXECUTORS["broken"] = lambda compiled, args: EXECUTORS["native"](compiled, args) * np.array([1.0, 1.001])
        try:
            check_first_order(case, 0, ["native", "broken"])
        finally:
            del EXECUTORS["broken"]


def test_the_page_shows_every_program():
    """docs/correctness.md (make corpus) has a row for each, on which dlvm-py is right."""
    page = (Path(__file__).resolve().parent.parent / "docs" / "correctness.md").read_text(encoding="utf-8")
    assert f"{len(CASES)} programs:" in page and f"| dlvm-py | {len(CASES)} | 0 | 0 | 0 | 0 |" in page
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert {name for name, row in rows.items() if CASES[name].about in row and "| right |" in row} == set(CASES)
