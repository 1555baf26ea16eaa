"""det: a determinant by expansion along the first row, recursively, and its gradient (the cofactors)."""

import numpy as np

import dlvm_py as dlvm
from evals.entry import Entry, listed


def expand(a, size, left, following):
    """The determinant of the last `left` rows and the columns that `following` still links.

    a: (size * size,). following[j] is the column after j, following[size] the first.
    """
    row = size - left
    if left == 1:
        return a[row * size + following[size]]
    total = 0.0
    sign = 1.0
    before = size
    column = following[before]
    for _ in range(left):
        following[before] = following[column]
        total += sign * a[row * size + column] * expand(a, size, left - 1, following)
        following[before] = column
        sign = -sign
        before = column
        column = following[column]
    return total


@dlvm.jit
def determinant(a, size):
    """a: (size * size,), rows one after another."""
    following = np.arange(1, size + 2)
    following[size] = 0
    return expand(a, size, size, following)


def _prepare(given):
    return np.array(given["A"]), given["ell"]


FUNCTIONS = {
    "primal": Entry(_prepare, determinant),
    "gradient": Entry(_prepare, dlvm.grad(determinant), listed),
}
