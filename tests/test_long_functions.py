"""Long functions take as many steps of the compiler a statement as short ones: counted, not measured."""

from unittest.mock import patch

import numpy as np
from random_python import load

import dlvm_py as dlvm
from dlvm_py import dispatch, driver
from dlvm_py.ir.analysis import extents


def chain(n):
    """A gradient of n statements, each of what the one before gave."""
    names = ("sin", "tanh", "exp")
    lines = [f"    x = np.{names[k % 3]}(x * {0.5 + k / 1000}) + y[{k % 7}:x.size + {k % 7}]\n" for k in range(n)]
    function = load(f"import numpy as np\n\n\ndef main(x, y):\n{''.join(lines)}    return np.sum(x)\n", f"chain{n}")
    return dlvm.grad(function, wrt=(0, 1)), (np.zeros(10), np.zeros(30))


def steps_of(n):
    """How many steps the walks to extents take while the chain is lowered."""
    gradient, args = chain(n)
    dispatcher = dispatch.dispatcher_of(gradient)
    request = dispatcher.request(dispatcher.bind(*args))
    with patch.object(extents, "_source", wraps=extents._source) as steps:
        driver.lower_to(request, "scheduled")
    return steps.call_count


def test_steps_grow_with_the_length():
    """Three times the statements, hardly more than three times the steps to the extents of what they give."""
    few, many = steps_of(20), steps_of(60)
    assert 0 < few and many < 3.6 * few
