"""Random calls of every NumPy function that compiled code may call, with random arrays: what NumPy does.

Arrays of all dtypes, empty ones and ones without axes, in C and Fortran order, reversed, sliced, with stride 0, some
overlapping others; values, classes, dtypes, shapes, effects on arguments, and the classes of exceptions are compared.
What is not supported is refused with its place.
"""

import inspect

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy_driver import METHOD_FORMS, RULES, call_of, compare, interpreted, native
from numpy_forms import FORMS, OPTIONS, OWN

SEEDS = st.integers(0, 2**32 - 1)
DETERMINISTIC = {
    "derandomize": True, "deadline": None, "database": None, "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}  # fmt: skip


def test_every_function_has_forms():
    """A function without a form here, or a form without a function, is a mistake."""
    assert set(RULES) | set(METHOD_FORMS.values()) == set(FORMS)


def test_every_option_is_drawn():
    """So is an option that nothing is drawn for."""
    missing = []
    for name, rule in RULES.items():
        for p in list(inspect.signature(rule).parameters.values())[1:]:
            by_name = p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            if by_name and p.default is not p.empty and p.name not in OWN[name] and p.name not in OPTIONS:
                missing.append(f"{name}: {p.name}")
    assert not missing


def check(name, seed, execute, method=False):
    """One call of one function."""
    outcome, what = compare(name, call_of(name, seed, method), execute)
    assert outcome != "wrong", f"seed {seed}: {what}"


@pytest.mark.parametrize("part", range(4))
def test_each_function_once(part):
    """By the front end and the interpreter."""
    for name in sorted(RULES)[part::4]:
        check(name, part, interpreted)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RULES))
def test_random_calls(name):
    """Many calls of each function, by the front end and the interpreter."""

    @settings(max_examples=100, **DETERMINISTIC)
    @given(SEEDS)
    def run(seed):
        check(name, seed, interpreted)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RULES))
def test_random_calls_natively(name):
    """Some calls of each function, by native code."""

    @settings(max_examples=10, **DETERMINISTIC)
    @given(SEEDS)
    def run(seed):
        check(name, seed, native)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHOD_FORMS)
def test_random_calls_of_methods(method):
    """Each method of arrays, with the forms of the function of its name."""

    @settings(max_examples=100, **DETERMINISTIC)
    @given(SEEDS)
    def run(seed):
        check(METHOD_FORMS[method], seed, interpreted, method=True)

    run()
