"""hello: x², and its derivative."""

import dlvm_py as dlvm
from evals.entry import Entry


@dlvm.jit
def square(x):
    """x²."""
    return x * x


FUNCTIONS = {
    "square": Entry(lambda x: (float(x),), square),
    "double": Entry(lambda x: (float(x),), dlvm.grad(square)),
}
