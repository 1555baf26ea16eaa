"""gmm: the log posterior of a mixture of Gaussians with a Wishart prior, and its gradient."""

import math

import numpy as np

import dlvm_py as dlvm
from evals.entry import Entry


def log_sum_exp(x):
    """log Σ exp over the last axis."""
    largest = np.max(x, axis=-1, keepdims=True)
    return largest[..., 0] + np.log(np.sum(np.exp(x - largest), axis=-1))


@dlvm.jit
def log_posterior(alpha, mu, q, l, x, m, gamma):  # noqa: E741
    """Shapes: alpha (k,), mu (k, d), q (k, d), l (k, d (d - 1) / 2), x (n, d); m >= 0 and gamma > 0 of the prior.

    Component c has the precision Qᵀ Q, Q lower triangular: exp q on its diagonal, l below it, column by column.
    """
    n, d = x.shape
    k = len(alpha)
    factor = np.zeros((d, d))
    beta = np.empty((n, k))
    for c in range(k):
        at = 0
        for i in range(d):
            factor[i, i] = np.exp(q[c, i])
            rest = d - 1 - i
            factor[i + 1 :, i] = l[c, at : at + rest]
            at += rest
        v = (x - mu[c]) @ factor.T
        beta[:, c] = alpha[c] + np.sum(q[c]) - 0.5 * np.sum(v * v, axis=1)
    likelihood = -n * (d / 2) * math.log(2 * math.pi) + np.sum(log_sum_exp(beta)) - n * log_sum_exp(alpha)
    freedom = d + m + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi)
    for j in range(1, d + 1):
        log_gamma += math.lgamma(freedom / 2 + (1 - j) / 2)
    constant = freedom * d * (math.log(gamma) - 0.5 * math.log(2)) - log_gamma
    size = np.sum(np.exp(q) ** 2) + np.sum(l**2)
    return likelihood + k * constant - (0.5 * gamma**2 * size - m * np.sum(q))


def _prepare(given):
    arrays = [np.array(given[name], float).reshape(given["k"], -1) for name in ("mu", "q", "l")]
    return np.array(given["alpha"]), *arrays, np.array(given["x"]), given["m"], float(given["gamma"])


def _named(gradient):
    return {name: g.tolist() for name, g in zip(("alpha", "mu", "q", "l"), gradient, strict=True)}


FUNCTIONS = {
    "objective": Entry(_prepare, log_posterior),
    "jacobian": Entry(_prepare, dlvm.grad(log_posterior, wrt=("alpha", "mu", "q", "l")), _named),
}
