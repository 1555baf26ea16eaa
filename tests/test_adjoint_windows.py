"""Derivatives of programs with arrangements, windows and scans: first and second order, in loops, natively."""

import copy

import numpy as np
import pytest
from irbuild import pointer
from native import Native
from structured import Program
from test_adjoint import RESULT, check, gradient, leaves

from dlvm_py.ir import F64, literal
from dlvm_py.transforms import bufferize, ownership

V, M = pointer(F64, None), pointer(F64, None, None)
RNG = np.random.default_rng(5)
ROWS = {"dims": (2, 2), "strides": (1, 2), "padding": "full"}


def arranged(p, x):
    """Slices, reversals and concatenations of an array."""
    both = p.emit("concatenate", p.sin(x), p.emit("reverse", x, axes=(0,)), p.square(x), at=1)
    return p.emit("slice", both, lo=1, hi=2) * p.emit("slice", both, lo=0, hi=1)


def pooled(p, x):
    """Sums and maxima of windows."""
    y = p.emit("reduceWindow", p.square(x), literal(0.0), by="add", **ROWS)
    return y * p.emit("reduceWindow", x, literal(-np.inf), by="max", **ROWS)


def scanned(p, x):
    """Prefix sums and products along the two axes."""
    return p.emit("scan", p.emit("scan", x, by="add", axes=(1,)), by="multiply", axes=(0,))


def multiplied(p, x):
    """Products of rows."""
    return p.emit("reduce", p.sin(x), literal(1.5), by="multiply", axes=(1,))


def special(p, x):
    """Functions that NumPy has not."""
    return p.emit("erf", x) * p.emit("lgamma", p.exp(x)) + p.emit("asinh", x)


PARTS = [arranged, pooled, scanned, multiplied, special]


def summed(part):
    p = Program(M)
    p.ret(p.sum(p.exp(part(p, p.get(p.params[0])) * 0.1)))
    return p.done()


@pytest.mark.parametrize("part", PARTS)
def test_twice(part):
    """First and second derivatives against differences, with extents that are not known."""
    check(summed(part), RNG.normal(size=(3, 4)), tol=1e-6)


def test_convolve_twice():
    """A convolution with all its clauses, by input and kernel."""
    p = Program(pointer(F64, 2, 4, 5), pointer(F64, 4, 2, 2))
    x, k = (p.get(v) for v in p.params)
    clauses = {"strides": (2,), "padding": ((1, 2),), "leftDilation": (2,), "rightDilation": (3,), "groups": 2}
    p.ret(p.sum(p.sin(p.emit("convolve", x, k, **clauses))))
    check(p.done(), RNG.normal(size=(2, 4, 5)), RNG.normal(size=(4, 2, 2)), tol=1e-6)


def layers():
    """x ← smooth(x) · w three times, in memory: every round reads what the one before has written."""
    p = Program(V, V)
    x, w = p.params
    memory = p.array(p.get(x))
    with p.loop(0, 3):
        y = p.emit("scan", p.get(memory), by="add", axes=(0,))
        y = p.emit("reduceWindow", p.sin(y), literal(0.0), by="add", dims=(3,), strides=(1,), padding="half")
        p.put(y * p.get(w), memory)
    p.ret(p.sum(p.get(memory)))
    return p.done()


def test_in_a_loop():
    """What the rounds of a loop compute is kept for the way back."""
    check(layers(), RNG.normal(size=5), RNG.normal(size=5), tol=1e-6)


@pytest.mark.parametrize("program", [*(lambda part=part: summed(part) for part in PARTS), layers])
def test_natively(program):
    """The gradient function compiled gives what the interpreter gives."""
    module = program()
    count = len(module.functions["f"].params)
    args = [RNG.normal(size=(3, 4) if program is not layers else 5) for _ in range(count)]
    name, expected = gradient(module, args, range(count), RESULT)
    g = module.functions[name]
    bufferize.run(g)
    ownership.run(g)
    found = leaves(Native(g)(*copy.deepcopy(args)))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
