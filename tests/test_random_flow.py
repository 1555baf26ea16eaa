"""Random control flow over arrays of different lengths (random_flow.py): what fits runs, what does not raises.

Laws: at each combination of lengths native code gives Python's values, classes of exceptions and written arrays, those
that were written before it raised as well, also where arguments share memory; a derivative raises where the function
raises, leaves its arguments as they are, and agrees with differences and with forward mode.
"""

import contextlib
import os
import random
from unittest.mock import patch

import numpy as np
import pytest
from plain_code import translated_only
from random_checks import outcome
from random_flow import LENGTHS, flow_args, flow_program

import dlvm_py as dlvm
from dlvm_py.errors import CompileError

pytestmark = pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # plain NumPy code gives them
ARRAYS = 5  # x, y, z, w, q come first
WRT = (0, 1, 2, 3, 7)  # x, y, z, w, a


def leaves(value):
    """What a result is made of."""
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple) else [value]


def assert_same(got, want, what):
    """One class of exception, or leaves of one shape, dtype and kind that agree."""
    if isinstance(want, type) or isinstance(got, type):
        assert got is want, f"{what}: {got} instead of {want}"
        return
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want), what
    for g, w in zip(got, want, strict=True):
        assert np.shape(g) == np.shape(w) and np.asarray(g).dtype == np.asarray(w).dtype, what
        assert isinstance(g, np.ndarray) == isinstance(w, np.ndarray), what
        np.testing.assert_allclose(g, w, rtol=1e-8, atol=1e-9, err_msg=what)


def check_values(fn, compiled, lengths, overlap):
    """One call of each; arguments afterwards as well."""
    plain, args = flow_args(lengths, overlap), flow_args(lengths, overlap)
    what = f"{lengths}, overlap {overlap}"
    want = outcome(fn, *plain)
    assert_same(outcome(compiled, *args), want, what)
    assert_same(args[:ARRAYS], plain[:ARRAYS], f"written arguments, {what}")
    return want


def total(fn, args):
    """The sum of all that a function gives; NaN where it raises."""
    found = outcome(fn, *args)
    return np.nan if isinstance(found, type) else sum(float(np.sum(v)) for v in leaves(found))


def moved(lengths, direction, t):
    """Arguments a step along a direction away."""
    args = list(flow_args(lengths))
    for k, d in zip(WRT, direction, strict=True):
        args[k] = args[k] + t * d
    return args


def check_gradient(fn, derivative, lengths, value):
    """Of the first output, against differences where two steps agree, and forward mode."""
    args = flow_args(lengths)
    got = outcome(derivative, *args)
    assert_same(args, flow_args(lengths), f"arguments of the gradient, {lengths}")
    if isinstance(value, type) or isinstance(got, type):
        assert got is value, f"gradient at {lengths}: {got} instead of {value}"
        return
    rng = np.random.default_rng(3)
    direction = [rng.choice([-1.0, 0.5, 1.0], np.shape(args[k])) for k in WRT]
    along = sum(float(np.sum(g * d)) for g, d in zip(got, direction, strict=True))
    if not np.isfinite(along):
        return

    def first(*args):
        found = fn(*args)
        return found[0] if isinstance(found, tuple) else found

    ends = [[total(first, moved(lengths, direction, s * h)) for s in (1, -1)] for h in (1e-5, 3e-6)]
    coarse, fine = ((a - b) / (2 * h) for (a, b), h in zip(ends, (1e-5, 3e-6), strict=True))
    scale = 1.0 + abs(fine)
    if abs(coarse - fine) < 2e-5 * scale:
        assert abs(along - fine) < 2e-4 * scale, f"gradient at {lengths}: {along}, differences {fine}"
    tangents: list = [None] * len(args)
    for k, d in zip(WRT, direction, strict=True):
        tangents[k] = d if np.ndim(d) else float(d)
    _, slope = dlvm.jvp(dlvm.jit(fn, cache=False), tuple(args), tuple(tangents))
    slope = float(np.sum(slope[0] if isinstance(slope, tuple) else slope))
    size = 1.0 + sum(float(np.sum(np.abs(g * d))) for g, d in zip(got, direction, strict=True))
    assert abs(slope - along) <= 1e-8 * size, f"at {lengths}: forward {slope}, reverse {along}"


def check(seed, is_shipped=False, points=6, derivatives=1):
    """The program of a seed at some combinations of lengths; False where it is refused."""
    program, r = flow_program(seed), random.Random(seed)
    fn = program.fn
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, DLVM_CACHE="0", DLVM_VERIFY=str(int(not is_shipped))))
        if not is_shipped:
            stack.enter_context(translated_only())
        compiled, derivative = dlvm.jit(fn, cache=False), dlvm.grad(dlvm.jit(fn, cache=False), wrt=WRT)
        try:
            for lengths in r.sample(LENGTHS, points):
                value = check_values(fn, compiled, lengths, 0)
                check_values(fn, compiled, lengths, r.choice((0, 1, 2)))
                if derivatives > 0:
                    derivatives -= isinstance(value, float)
                    check_gradient(fn, derivative, lengths, value)
        except CompileError:
            return False
    return True


def check_seeds(seeds, is_shipped=False):
    """All programs that are wrong are named; at most one of eight is refused."""
    wrong, refused = [], 0
    for seed in seeds:
        try:
            refused += not check(seed, is_shipped)
        except AssertionError as error:
            wrong.append(f"seed {seed}: {error}")
    assert not wrong, "\n".join(wrong)
    assert refused <= 1 + len(seeds) // 8


@pytest.mark.parametrize("chunk", range(5))
def test_programs(chunk):
    """Two programs, by a code generator that does not optimise."""
    check_seeds(range(2 * chunk, 2 * chunk + 2))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(100))
def test_programs_slow(chunk):
    check_seeds(range(10_000 + 10 * chunk, 10_010 + 10 * chunk))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(40))
def test_programs_as_shipped_slow(chunk):
    """As users have them."""
    check_seeds(range(50_000 + 5 * chunk, 50_005 + 5 * chunk), is_shipped=True)
