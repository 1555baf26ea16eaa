"""The gradient descent that particle and saddle share."""

import numpy as np


def norm(v):
    """The length of a vector."""
    return np.sqrt(np.sum(v * v))


def argmin(f, gradient, start, context):
    """Where f(x, context) is smallest, near x = start, (n,): steps that double after ten and halve after a failure."""
    x = start
    value = f(x, context)
    g = gradient(x, context)
    successes = 0
    rate = 1e-5
    while True:
        if norm(g) <= 1e-5:
            return x
        if successes == 10:
            rate *= 2
            successes = 0
            continue
        trial = x - rate * g
        if norm(x - trial) <= 1e-5:
            return x
        trial_value = f(trial, context)
        if trial_value < value:
            x = trial
            value = trial_value
            g = gradient(x, context)
            successes += 1
        else:
            rate /= 2
            successes = 0
