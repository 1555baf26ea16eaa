"""Programs of the front end as text: every program of the corpus and its gradient, at every stage.

Law: the text reads back to a module that prints the same, verifies, and computes the same.
"""

import numpy as np
import pytest
from programs import PROGRAMS

import dlvm_py as dlvm
from dlvm_py.frontend.capture import capture
from dlvm_py.ir import interpreter, print_module
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify

STAGES = ("raw", "optimizable", "compute", "scheduled")


def flat(value):
    """The scalars and arrays of a result or of arguments, left to right: constants are no parameters."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [value] if isinstance(value, (int, float, complex, np.ndarray, np.generic)) else []


def check_text(lowered, program):
    """The law, with locations in the text and without."""
    module = lowered.module
    for locations in (True, False):
        text = print_module(module, locations=locations)
        parsed = parse_module(text)
        assert print_module(parsed, locations=locations) == text
    # the functions that were inlined stay in the module, and at the stage that they had
    verify(parsed.functions[lowered.name], parsed.stage)
    results = []
    for m in (module, parsed):
        # arrays that the function captures come after its arguments
        args = [*flat(program.make_args()), *(c.value.copy() for c in capture(program.fn).arrays)]
        results.append([*flat(interpreter.run(m, lowered.name, args)), *args])
    for x, y in zip(*results, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_programs(program, stage):
    """A program reads back at each stage of its way."""
    check_text(dlvm.jit(program.fn).program(*program.make_args(), stage=stage), program)


@pytest.mark.parametrize("stage", STAGES[1:])
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.differentiable], ids=lambda p: p.name)
def test_gradients(program, stage):
    """So does its gradient with respect to the first argument that is a float or an array of floats."""
    args = program.make_args()
    wrt = next(k for k, a in enumerate(args) if isinstance(a, (float, np.ndarray)) and np.asarray(a).dtype.kind == "f")
    check_text(dlvm.grad(program.fn, wrt=wrt).program(*args, stage=stage), program)
