"""Random calls of every NumPy function that derivatives flow through: gradients, by differences and forward mode."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from indexing import function
from numpy_draw import Smooth
from numpy_driver import MISCOUNTED, RULES, drawn, leaves, run
from test_numpy_forms import DETERMINISTIC, SEEDS

import dlvm_py as dlvm
from dlvm_py.ir import interpreter
from dlvm_py.ir.exceptions import NotAssumed
from dlvm_py.tools.numpy_page import is_differentiable

# vectors that are unique up to a factor only, and what is random: tests of their own
ELSEWHERE = {"np.linalg.eig", "np.linalg.eigh", "np.linalg.svd", "np.linalg.qr", "np.linalg.lstsq", "np.empty_like"}
NAMES = sorted(n for n, rule in RULES.items() if is_differentiable(n) and n not in ELSEWHERE | MISCOUNTED)


def loss_of(call):
    """A function of the arguments of a call: a sum over all float elements of its results, or of what it writes."""
    kind, result = run(function(text_of(call, "return r")), [np.copy(a, order="K") for a in call.args])
    if kind != "value":
        return None
    terms = [f"np.sum(np.sin(1.3 * x{k}))" for k, a in enumerate(call.args) if result is None and is_float(a)]
    for path, leaf in paths(result, "r"):
        if np.asarray(leaf).dtype.kind == "f":
            terms.append(f"np.sum(np.sin(1.3 * {path}))")
        elif np.asarray(leaf).dtype.kind == "c":
            terms.append(f"np.sum(np.sin(1.3 * np.real({path})) + np.cos(0.7 * np.imag({path})))")
    return text_of(call, f"return {' + '.join(terms)}") if terms else None


def text_of(call, last):
    names = ", ".join(f"x{k}" for k in range(len(call.args)))
    return f"def f({names}):\n    r = {call.text}\n    {last}\n"


def paths(value, path):
    """(text, leaf) of the leaves of a result."""
    if isinstance(value, (tuple, list)):
        return [p for k, item in enumerate(value) for p in paths(item, f"{path}[{k}]")]
    return [] if value is None else [(path, value)]


def is_float(a):
    return isinstance(a, float) or (isinstance(a, np.ndarray) and a.dtype == np.float64)


def moved_by(a, step, along):
    """An argument a little further along a direction; others, and the memory of arrays, as they are."""
    if along is None:
        return np.copy(a)
    return np.array(a + step * along) if isinstance(a, np.ndarray) else a + step * along


def check(name, seed, forward):
    """One gradient: along a random direction it is the difference, and what forward mode gives."""
    call = drawn(name, RULES[name], seed, kind=Smooth)
    wrt = tuple(k for k, a in enumerate(call.args) if is_float(a) and np.size(a))
    text = loss_of(call) if wrt else None
    if text is None:
        return
    f, rng = function(text), np.random.default_rng(seed)
    along = [rng.standard_normal(np.shape(a)) if k in wrt else None for k, a in enumerate(call.args)]

    def slope(h):
        moved = [[moved_by(a, step, d) for a, d in zip(call.args, along, strict=True)] for step in (h, -h)]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (f(*moved[0]) - f(*moved[1])) / (2 * h)

    try:
        want, again = slope(1e-6), slope(3e-6)
    except ValueError:
        return  # at the end of what the function takes
    if not np.isfinite(want) or abs(want - again) > 1e-6 * (1 + abs(want)):
        return  # a kink between the two
    try:
        program = dlvm.grad(f, wrt=wrt).program(*call.args, stage="optimizable")
    except dlvm.CompileError as error:
        assert error.loc, error
        return
    args = [np.copy(a) if np.ndim(a) else a for a in call.args]
    try:
        got = leaves(interpreter.run(program.module, program.name, args))
    except NotAssumed:  # the numbers ask for another dtype than was taken: a call finds the version that has it
        got = leaves(dlvm.grad(f, wrt=wrt)(*args))
    found = sum(float(np.sum(g * along[k])) for g, k in zip(got, wrt, strict=True))
    assert found == pytest.approx(want, rel=1e-5, abs=1e-6), f"seed {seed}: {call}"
    for g, k in zip(got, wrt, strict=True):
        assert np.shape(g) == np.shape(call.args[k])
    if forward:
        args = tuple(np.copy(a) if isinstance(a, np.ndarray) else a for a in call.args)  # no memory that is shared
        tangents = tuple(None if d is None else np.asarray(d) for d in along)
        tangents = tuple(float(d) if isinstance(a, float) else d for a, d in zip(args, tangents, strict=True))
        assert dlvm.jvp(f, args, tangents)[1] == pytest.approx(found, rel=1e-9, abs=1e-10), call


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_random_calls(name):
    """Reverse mode by differences, in the interpreter."""

    @settings(max_examples=12, **DETERMINISTIC)
    @given(SEEDS)
    def run_one(seed):
        check(name, seed, False)

    run_one()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_both_modes_of_random_calls(name):
    """Forward and reverse mode give one number."""
    check(name, 1, True)
