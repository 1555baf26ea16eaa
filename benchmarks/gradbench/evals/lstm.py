"""lstm: the loss of a character model with diagonal weights, and its gradient."""

import numpy as np

import dlvm_py as dlvm
from evals.entry import Entry


def sigmoid(x):
    """1 / (1 + exp -x)."""
    return 1 / (1 + np.exp(-x))


@dlvm.jit
def loss(main, extra, state, sequence):
    """Mean loss of predicting each character from those before it.

    Shapes: main (2 layers, 4 b), weights and biases of forget, input, output gate and change; extra (3, b);
    state (2 layers, b), hidden and cell at the start; sequence (characters, b).
    """
    b = extra.shape[1]
    layers = main.shape[0] // 2
    hidden = state[::2].copy()
    cell = state[1::2].copy()
    total = 0.0
    for t in range(sequence.shape[0] - 1):
        x = sequence[t] * extra[0]
        for i in range(layers):
            weight, bias = main[2 * i], main[2 * i + 1]
            forget = sigmoid(x * weight[:b] + bias[:b])
            into = sigmoid(hidden[i] * weight[b : 2 * b] + bias[b : 2 * b])
            out = sigmoid(x * weight[2 * b : 3 * b] + bias[2 * b : 3 * b])
            change = np.tanh(hidden[i] * weight[3 * b :] + bias[3 * b :])
            cell[i] = cell[i] * forget + into * change
            hidden[i] = out * np.tanh(cell[i])
            x = hidden[i]
        prediction = x * extra[1] + extra[2]
        normal = prediction - np.log(2 + np.sum(np.exp(prediction)))
        total += np.sum(sequence[t + 1] * normal)
    return -total / (b * (sequence.shape[0] - 1))


def _prepare(given):
    return tuple(np.array(given[name]) for name in ("main_params", "extra_params", "state", "sequence"))


def _flat(gradient):
    return np.concatenate([g.ravel() for g in gradient]).tolist()


FUNCTIONS = {
    "objective": Entry(_prepare, loss),
    "jacobian": Entry(_prepare, dlvm.grad(loss, wrt=("main", "extra")), _flat),
}
