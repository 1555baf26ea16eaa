"""Functions of NumPy in compiled code: value, dtype and shape as in plain Python; gradients by differences."""

import copy

import numpy as np
import pytest
from numpy_calls import FAMILIES
from test_programs import assert_same, differences, flat, float_positions, quiet

import dlvm_py as dlvm
from dlvm_py.ir import interpreter

pytestmark = pytest.mark.usefixtures("plain_code")

NAMES = [f.fn.__name__ for f in FAMILIES]
SMOOTH = [f for f in FAMILIES if f.smooth]


@pytest.mark.parametrize("family", FAMILIES, ids=NAMES)
def test_calls_give_what_numpy_gives(family):
    """Native code gives NumPy's results, and the same effects on the arguments."""
    args, reference = family.make_args(), family.make_args()
    got, want = dlvm.jit(family.fn)(*args), quiet(family.fn, *reference)
    assert len(got) == len(want)
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        try:
            assert_same(g, w)
        except AssertionError as error:
            raise AssertionError(f"result {k} of {family.fn.__name__}: {error}") from error
    assert_same(args, reference)


def weighted(fn):
    """A scalar function of all results of `fn`, in which no two elements have one weight."""

    def loss(*args):
        total = 0.0
        for part in fn(*args):
            total = total + np.sum(np.sin(1.3 * part))
        return total

    return loss


@pytest.mark.parametrize("family", SMOOTH, ids=[f.fn.__name__ for f in SMOOTH])
def test_gradients_of_calls(family):
    """The gradient through a family equals central differences. In the interpreter: what is tested is the IR."""
    args = family.make_args()
    loss = weighted(family.fn)
    program = dlvm.grad(loss, wrt="args").program(*args, stage="optimizable")
    got = flat(interpreter.run(program.module, program.name, list(args)))
    positions = float_positions(args)
    for position, g in zip(positions, got, strict=True):
        want = differences(loss, copy.deepcopy(list(args)), position)
        np.testing.assert_allclose(g, want, rtol=1e-5, atol=1e-6)


REFUSED = [
    (lambda x: np.flip(x, 2), "axis 2 is out of bounds"),
    (lambda x: np.rot90(x, 1, (0, 0)), "axes must be different"),
    (lambda x: np.moveaxis(x, (0, 1), 0), "must have one length"),
]


@pytest.mark.parametrize(("fn", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_refusals_are_at_the_users_call(fn, message):
    """What a library function refuses is a compile error with the place of the user's call."""
    with pytest.raises(dlvm.CompileError, match=message) as caught:
        dlvm.jit(fn)(np.ones((2, 3)))
    assert caught.value.loc.file == __file__
