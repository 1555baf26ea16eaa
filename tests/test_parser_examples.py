"""The functions of the examples as text: each, and its derivative, reads back at every stage and computes the same."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.ir import interpreter, print_module
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify

FOLDER = Path(__file__).resolve().parent.parent / "examples"
STAGES = ("raw", "optimizable", "compute", "scheduled")
RNG = np.random.default_rng(0)


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reals(*shape):
    return RNG.standard_normal(shape)


def digits(jit):
    m = example("digits")
    x, onehot = reals(5, 4), np.eye(3)[[0, 2, 1, 1, 0]]
    softmax = x, onehot, reals(4, 3), reals(3)
    network = x, onehot, reals(4, 6), reals(6), reals(6, 3), reals(3)
    yield jit(m.softmax_loss), softmax
    yield dlvm.value_and_grad(jit(m.softmax_loss), wrt=(2, 3)), softmax
    yield dlvm.value_and_grad(jit(m.network_loss), wrt=(2, 3, 4, 5)), network
    yield jit(m.momentum_step), (reals(4), reals(4), reals(4), 0.1, 0.9)


def heat(jit):
    m = example("heat")
    rod = np.zeros(6), np.full(5, 0.3), 0.02, 1e-3, 40
    yield jit(m.settle), rod
    yield dlvm.value_and_grad(jit(m.misfit)), (reals(5), np.zeros(6), reals(6), 0.02, 1e-3, 40)


def poster(jit):
    first = dlvm.grad(jit(example("poster").g.__wrapped__), wrt=(1, 2), keeping=0)
    for derivative in (first, dlvm.grad(first, from_=0, wrt=1)):
        yield derivative, (reals(4, 3), reals(3, 2), reals(2))


def cases(jit):
    """The functions of the examples, compiled by `jit`, and their derivatives, each with arguments."""
    return [case for make in (digits, heat, poster) for case in make(jit)]


CASES = cases(dlvm.jit)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("k", range(len(CASES)))
def test_every_stage_reads_back(k, stage):
    f, given = CASES[k]
    lowered = f.program(*given, stage=stage)
    text = print_module(lowered.module)
    parsed = parse_module(text)
    assert print_module(parsed) == text
    verify(parsed.functions[lowered.name], parsed.stage)
    results = []
    for module in (lowered.module, parsed):
        args = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
        found = interpreter.run(module, lowered.name, args)
        results.append([*(found if isinstance(found, tuple) else (found,)), *args])
    for x, y in zip(*results, strict=True):
        np.testing.assert_array_equal(x, y)
