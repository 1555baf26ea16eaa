"""lse: log of a sum of exponentials, and its gradient."""

import numpy as np

import dlvm_py as dlvm
from evals.entry import Entry, listed


@dlvm.jit
def log_sum_exp(x):
    """log Σ exp x, without overflow. x: (n,)."""
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


def _prepare(given):
    return (np.array(given["x"]),)


FUNCTIONS = {
    "primal": Entry(_prepare, log_sum_exp),
    "gradient": Entry(_prepare, dlvm.grad(log_sum_exp), listed),
}
