"""Handwritten digits: two classifiers trained through gradients that dlvm-py generates and compiles.

The losses below are plain NumPy functions. `dlvm.value_and_grad` turns each into one native function that
returns the loss and its derivatives. The same training runs a second time in plain NumPy with gradients
derived by hand, on the same minibatches: the two must agree, and the clock says what the compiler is worth.

Run it twice: the second run finds its kernels in the disk cache.

    python examples/digits.py [--epochs N] [--quick]
"""

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import matplotlib
import numpy as np
from rich.progress import Progress
from sklearn.datasets import load_digits

import dlvm_py as dlvm

PICTURE = Path(__file__).resolve().parent / "out" / "digits.png"
BATCH = 32
RATE = 0.1
MOMENTUM = 0.9
HIDDEN = 48

# --- the models: plain NumPy, compiled and differentiated as they stand --------------------------------


def cross_entropy(logits, onehot):
    """Mean over the rows of -log(softmax(logits)) at the true class.  Shapes: (n, c), (n, c) -> ()."""
    shifted = logits - np.max(logits, axis=1, keepdims=True)  # exp of a number <= 0 cannot overflow
    log_total = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return np.sum(onehot * (log_total - shifted)) / logits.shape[0]


def softmax_logits(x, w, b):
    """Scores of a linear classifier.  Shapes: (n, p), (p, c), (c,) -> (n, c)."""
    return x @ w + b


def softmax_loss(x, onehot, w, b):
    """Loss of softmax regression."""
    return cross_entropy(softmax_logits(x, w, b), onehot)


def network_logits(x, w1, b1, w2, b2):
    """Scores of a network with one hidden layer.  Shapes: (n, p), (p, h), (h,), (h, c), (c,) -> (n, c)."""
    return np.tanh(x @ w1 + b1) @ w2 + b2


def network_loss(x, onehot, w1, b1, w2, b2):
    """Loss of the network."""
    return cross_entropy(network_logits(x, w1, b1, w2, b2), onehot)


def momentum_step(parameter, velocity, gradient, rate, momentum):
    """One step of gradient descent with momentum; writes `parameter` and `velocity` in place."""
    velocity *= momentum
    velocity -= rate * gradient
    parameter += velocity


# --- the same gradients by hand, for the comparison ----------------------------------------------------


def cross_entropy_by_hand(logits, onehot):
    """The loss and its derivative in the logits, (softmax(logits) - onehot) / n."""
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    exps = np.exp(shifted)
    totals = np.sum(exps, axis=1, keepdims=True)
    loss = np.sum(onehot * (np.log(totals) - shifted)) / len(logits)
    return loss, (exps / totals - onehot) / len(logits)


def softmax_by_hand(x, onehot, w, b):
    """Value and gradient of `softmax_loss` in w and b."""
    loss, d_logits = cross_entropy_by_hand(x @ w + b, onehot)
    return loss, (x.T @ d_logits, d_logits.sum(axis=0))


def network_by_hand(x, onehot, w1, b1, w2, b2):
    """Value and gradient of `network_loss` in its four parameters."""
    hidden = np.tanh(x @ w1 + b1)
    loss, d_logits = cross_entropy_by_hand(hidden @ w2 + b2, onehot)
    d_hidden = (d_logits @ w2.T) * (1.0 - hidden * hidden)
    return loss, (x.T @ d_hidden, d_hidden.sum(axis=0), hidden.T @ d_logits, d_logits.sum(axis=0))


# --- data and training -----------------------------------------------------------------------------------


@dataclass
class Digits:
    """The 1,797 images, 80 % to train on; pixels in [0, 1], labels also as one-hot rows."""

    x: np.ndarray
    onehot: np.ndarray
    test_x: np.ndarray
    test_labels: np.ndarray


@dataclass
class History:
    """What a training run leaves: parameters, mean loss of each epoch, seconds of each epoch."""

    parameters: list
    losses: list = field(default_factory=list)
    times_s: list = field(default_factory=list)


def load_data():
    """The digits in a fixed random order."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(pixels))
    x, labels = pixels[order] / 16.0, labels[order]
    cut = len(x) * 4 // 5
    return Digits(x[:cut], np.eye(10)[labels[:cut]], x[cut:], labels[cut:])


def initial_parameters(*sizes):
    """Weights and biases of layers of the given sizes; the same numbers at every call."""
    rng = np.random.default_rng(1)
    parameters = []
    for fan_in, fan_out in zip(sizes, sizes[1:], strict=False):
        parameters += [rng.standard_normal((fan_in, fan_out)) / np.sqrt(fan_in), np.zeros(fan_out)]
    return parameters


def train(digits, parameters, value_and_grad, update, epochs, tick):
    """Minibatch gradient descent with momentum.  The minibatches depend on the epoch number only."""
    history = History(parameters)
    velocities = [np.zeros_like(p) for p in parameters]
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(len(digits.x))
        x, onehot = digits.x[order], digits.onehot[order]
        total = 0.0
        start = time.perf_counter()
        for first in range(0, len(x), BATCH):  # the last batch is shorter: nothing is compiled again for it
            batch = slice(first, first + BATCH)
            loss, gradients = value_and_grad(x[batch], onehot[batch], *parameters)
            for parameter, velocity, gradient in zip(parameters, velocities, gradients, strict=True):
                update(parameter, velocity, gradient, RATE, MOMENTUM)
            total += loss * len(x[batch])
        history.times_s.append(time.perf_counter() - start)
        history.losses.append(total / len(x))
        tick()
    return history


@dataclass
class Model:
    """A classifier, its compiled gradient, and its gradient by hand."""

    name: str
    sizes: tuple
    logits: object
    compiled: object
    by_hand: object
    first_call_s: float = 0.0
    history: History | None = None
    numpy_history: History | None = None

    def predict(self, x):
        """The class with the highest score, for each row of x."""
        return np.argmax(self.logits(x, *self.history.parameters), axis=1)


def run_model(model, update, digits, epochs, progress):
    """Trains `model` twice from the same start: compiled, then in plain NumPy."""
    start = time.perf_counter()
    model.compiled(digits.x[:BATCH], digits.onehot[:BATCH], *initial_parameters(*model.sizes))
    model.first_call_s = time.perf_counter() - start

    def train_with(label, value_and_grad, update):
        task = progress.add_task(f"{model.name}, {label}", total=epochs)
        parameters = initial_parameters(*model.sizes)
        return train(digits, parameters, value_and_grad, update, epochs, lambda: progress.advance(task))

    model.history = train_with("dlvm", model.compiled, update)
    model.numpy_history = train_with("NumPy", model.by_hand, momentum_step)


# --- what is shown -----------------------------------------------------------------------------------------


def largest_difference(model):
    """The largest difference between the two trained models, over all parameters and losses."""
    ours, theirs = model.history, model.numpy_history
    pairs = [*zip(ours.parameters, theirs.parameters, strict=True), (ours.losses, theirs.losses)]
    return max(np.max(np.abs(np.subtract(a, b))) for a, b in pairs)


def report(model, digits):
    """Prints one model's figures; gives (test accuracy, difference to NumPy)."""
    accuracy = np.mean(model.predict(digits.test_x) == digits.test_labels)
    difference = largest_difference(model)
    # The first epoch warms caches up, in both runs.
    ours, theirs = median(model.history.times_s[1:]) * 1e3, median(model.numpy_history.times_s[1:]) * 1e3
    print(f"\n{model.name}")
    print(f"  test accuracy         {accuracy:.1%} of {len(digits.test_labels)} images")
    print(f"  time per epoch        {ours:.1f} ms; by hand in NumPy {theirs:.1f} ms, {theirs / ours:.2f} x")
    print(f"  difference to NumPy   {difference:.1e} after {len(model.history.losses)} epochs")
    print(f"  first gradient call   {model.first_call_s * 1e3:.1f} ms")
    return accuracy, difference


def report_kernels(functions):
    """Prints how many kernels LLVM compiled in this process and how many came from the disk cache."""
    stats = [function.stats() for function in functions]
    compiled, loaded = (sum(s[key] for s in stats) for key in ("compiled", "loaded"))
    compile_s, load_s = (sum(s[key] for s in stats) for key in ("compile_s", "load_s"))
    print("\nkernels")
    print(f"  compiled by LLVM      {compiled} in {compile_s * 1e3:.0f} ms")
    print(f"  from the disk cache   {loaded} in {load_s * 1e3:.1f} ms")
    if compiled:
        print("  Run this again: the kernels will come from the disk cache.")


def draw(models, digits):
    """Writes the picture: loss curves, and some test images with the network's answers."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subfigures(1, 2)
    axes = left.subplots()
    for model in models:
        (line,) = axes.semilogy(model.history.losses, label=f"{model.name}, dlvm")
        marks = dict(linestyle="", marker="o", fillstyle="none", color=line.get_color())
        axes.semilogy(model.numpy_history.losses, label=f"{model.name}, NumPy by hand", **marks)
    axes.set(xlabel="epoch", ylabel="training loss")
    axes.legend()

    network = models[-1]
    answers = network.predict(digits.test_x)
    wrong_first = np.argsort(answers == digits.test_labels, kind="stable")[:24]
    right.suptitle(f"{network.name}: its answers, mistakes first")
    for cell, k in zip(right.subplots(4, 6).flat, wrong_first, strict=True):
        good = answers[k] == digits.test_labels[k]
        cell.imshow(digits.test_x[k].reshape(8, 8), cmap="gray_r")
        cell.set_title(f"{answers[k]}", color="green" if good else "red", fontsize=10)
        cell.set_axis_off()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)
    print(f"\npicture: {PICTURE}")


def main(arguments=None):
    """Trains, prints, draws.  Exit status 1 if the network or the agreement with NumPy falls short."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40, help="passes over the training images (default 40)")
    parser.add_argument("--quick", action="store_true", help="at most 10 epochs")
    options = parser.parse_args(arguments)
    epochs = max(2, min(options.epochs, 10) if options.quick else options.epochs)

    digits = load_data()
    update = dlvm.jit(momentum_step)
    softmax_gradient = dlvm.value_and_grad(softmax_loss, wrt=("w", "b"))
    network_gradient = dlvm.value_and_grad(network_loss, wrt=("w1", "b1", "w2", "b2"))
    models = [
        Model("softmax regression", (64, 10), softmax_logits, softmax_gradient, softmax_by_hand),
        Model("two-layer network", (64, HIDDEN, 10), network_logits, network_gradient, network_by_hand),
    ]
    with Progress() as progress:
        for model in models:
            run_model(model, update, digits, epochs, progress)

    results = [report(model, digits) for model in models]
    report_kernels([softmax_gradient, network_gradient, update])
    draw(models, digits)

    agree = max(difference for _, difference in results) < 1e-8
    if not agree:
        print("The two trainings differ by more than 1e-8: one of the gradients is wrong.")
    accurate = results[-1][0] > 0.95
    if not accurate:
        print("The network stays below 95 %: give it more epochs.")
    return 0 if agree and accurate else 1


if __name__ == "__main__":
    raise SystemExit(main())
