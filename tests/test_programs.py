"""Every program of the corpus in plain Python, in the IR interpreter and natively, and its gradient.

Laws: all executors agree in value, dtype, shape and side effects; the native gradient agrees with central
differences of plain Python, and leaves the arguments untouched.
"""

import copy

import numpy as np
import pytest
from programs import PROGRAMS

import dlvm_py as dlvm
from dlvm_py.dispatch import dispatcher_of
from dlvm_py.ir import interpreter

NAMES = [p.name for p in PROGRAMS]


def flat(value):
    """The leaves of a result or argument, left to right."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [] if callable(value) else [value]


def assert_same(got, want):
    """Equal structure, classes, dtypes, shapes, and values up to rounding."""
    got, want = flat(got), flat(want)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert type(g) is type(w), (type(g), type(w))
        if isinstance(w, (np.ndarray, np.generic)):
            assert g.dtype == w.dtype and g.shape == w.shape
        if w is not None:
            np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_native_equals_python(program):
    """Native code gives Python's results and effects."""
    args, reference = program.make_args(), program.make_args()
    got, want = dlvm.jit(program.fn)(*args), quiet(program.fn, *reference)
    assert_same(got, want)
    assert_same(args, reference)


@pytest.mark.parametrize("stage", ["raw", "optimizable", "compute", "scheduled"])
@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_interpreter_equals_python(program, stage):
    """At every stage the reference interpreter gives Python's results and effects."""
    args, reference = program.make_args(), program.make_args()
    f = dlvm.jit(program.fn)
    lowered = f.program(*args, stage=stage)
    captured = [c.source.read() for c in dispatcher_of(f).request(args).captured]
    got = interpreter.run(lowered.module, lowered.name, [*flat(args), *captured])
    want = quiet(program.fn, *reference)
    for g, w in zip(flat(got), [w for w in flat(want) if w is not None], strict=False):
        np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12)
    assert_same(args, reference)


def quiet(fn, *args):
    """A call of plain NumPy code without its RuntimeWarnings, which native code does not emit."""
    with np.errstate(all="ignore"):
        return fn(*args)


def total(fn, args):
    """The sum of the float outputs of a call: its result, else its written arguments."""
    args = copy.deepcopy(args)
    result = fn(*args)
    outputs = flat(result[0] if isinstance(result, tuple) else result)
    return sum(float(np.sum(o)) for o in outputs)


def differences(fn, args, position, h=1e-6):
    """Central differences of `total` with respect to a float argument."""
    value = args[position]
    if not isinstance(value, np.ndarray):
        up, down = list(args), list(args)
        up[position], down[position] = type(value)(value + h), type(value)(value - h)
        return (total(fn, up) - total(fn, down)) / (2 * h)
    out = np.zeros(value.shape)
    for index in np.ndindex(*value.shape):
        up, down = copy.deepcopy(list(args)), copy.deepcopy(list(args))
        up[position][index] += h
        down[position][index] -= h
        out[index] = (total(fn, up) - total(fn, down)) / (2 * h)
    return out


def float_positions(args):
    """Positions of float64 arguments."""
    return tuple(
        k for k, a in enumerate(args) if isinstance(a, float) or (isinstance(a, np.ndarray) and a.dtype == np.float64)
    )


DIFFERENTIABLE = [p for p in PROGRAMS if p.differentiable]


@pytest.mark.parametrize("program", DIFFERENTIABLE, ids=[p.name for p in DIFFERENTIABLE])
def test_gradient_equals_differences(program):
    """The native gradient equals central differences, has the argument's dtype and shape, and changes nothing."""
    args = program.make_args()
    before = copy.deepcopy(args)
    wrt = float_positions(args)
    got = dlvm.grad(program.fn, wrt=wrt)(*args)
    assert_same(args, before)
    for position, g in zip(wrt, got, strict=True):
        want = differences(program.fn, list(args), position)
        if isinstance(args[position], np.ndarray):
            assert g.dtype == args[position].dtype and g.shape == args[position].shape and g.flags.c_contiguous
        np.testing.assert_allclose(g, want, rtol=1e-5, atol=1e-6)
