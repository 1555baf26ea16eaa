"""What `benchmarks/gpu.py` times: plain NumPy functions, their arguments, and what each must read and write at least.

Arrays are made of functions of `np` alone, so that the same source runs with another module under that name.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import dlvm_py as dlvm

RATE = 0.01
STEPS = 100


class Row(NamedTuple):
    """One line of the table. kind: what is timed, "value", "gradient", or a "step" of gradient descent by `wrt`."""

    name: str
    function: Callable[..., Any]
    arguments: list[Any]
    nbytes: int = 0
    kind: str = "value"
    wrt: tuple[int, ...] = ()


def total(x):
    """The sum of all elements."""
    return np.sum(x)


def rows_summed(x):
    """The sums of rows."""
    return np.sum(x, axis=1)


def columns_summed(x):
    """The sums of columns."""
    return np.sum(x, axis=0)


def chain(x, y):
    """Some arithmetic and elementary functions of each element."""
    return np.exp(-x) * np.sin(y) + x / (1.0 + y * y)


def axpy(x, y):
    """Hardly any arithmetic."""
    return 2.0 * x + y


def transposed(x, y):
    """One operand is read along its columns."""
    return np.transpose(x) + y


def softmax(x):
    """Of each row."""
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def stencil(u, steps):
    """Steps of diffusion in place."""
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])


def bodies(p, m):
    """The accelerations of bodies."""
    d = p[:, None, :] - p[None, :, :]
    r2 = np.sum(d * d, axis=2) + 0.01
    return np.sum(m[:, None, None] * d / r2[:, :, None] ** 1.5, axis=0)


def attention(q, k, v):
    """One head."""
    s = np.dot(q, np.transpose(k)) * 0.125
    e = np.exp(s - np.max(s, axis=1, keepdims=True))
    return np.dot(e / np.sum(e, axis=1, keepdims=True), v)


def layers(w1, b1, w2, b2, x, target):
    """The loss of a network of two layers."""
    out = np.dot(np.tanh(np.dot(x, w1) + b1), w2) + b2
    d = out - target
    return np.mean(d * d)


def train(w1, b1, w2, b2, x, target):
    """A step of gradient descent, in place."""
    g1, c1, g2, c2 = dlvm.grad(layers, wrt=(0, 1, 2, 3))(w1, b1, w2, b2, x, target)
    w1 -= RATE * g1
    b1 -= RATE * c1
    w2 -= RATE * g2
    b2 -= RATE * c2


def mixture(weights, means, scales, x):
    """The negative logarithm of the likelihood of points under a mixture of Gaussians."""
    d = (x[:, None, :] - means[None, :, :]) * np.exp(scales)[None, :, :]
    s = weights + np.sum(scales, axis=1) - 0.5 * np.sum(d * d, axis=2)
    m = np.max(s, axis=1, keepdims=True)
    each = m[:, 0] + np.log(np.sum(np.exp(s - m), axis=1))
    return x.shape[0] * np.log(np.sum(np.exp(weights))) - np.sum(each)


def rows(quick):
    """The lines of the table, small ones where it must be quick."""
    rng = np.random.default_rng(0)

    def of(*shape):
        return rng.standard_normal(shape)

    # two arrays of n = 2 m² elements are those of most rows: many of a gigabyte would take a minute to make
    m, side, small = (32, 32, 16) if quick else (1 << 13, 4096, 4096)
    n = 2 * m * m
    x, y = of(n), of(n)
    wide_x, square_x, square_y = x.reshape(m, 2 * m), x[: n // 2].reshape(m, m), y[: n // 2].reshape(m, m)
    points, wide = (20, 3) if quick else (1 << 16, 32)
    network = [of(side, m) / 64, of(m), of(m, 10) / 64, of(10), of(side, side), of(side, 10)]
    gaussians = [of(16), of(16, wide), of(16, wide) / 4, of(points, wide)]
    return [
        Row("sum", total, [x], 8 * n),
        Row("sums of rows", rows_summed, [wide_x], 8 * n),
        Row("sums of columns", columns_summed, [wide_x], 8 * n),
        Row("2 x + y", axpy, [x, y], 24 * n),
        Row("chain of elementwise operations", chain, [x, y], 24 * n),
        Row("transpose and sum", transposed, [square_x, square_y], 12 * n),
        Row("softmax of rows", softmax, [square_x], 8 * n),
        Row(f"stencil, {STEPS} steps", stencil, [square_y.copy(), STEPS], 8 * STEPS * n),
        Row("n bodies", bodies, [of(small, 3), np.abs(of(small))]),
        Row("attention", attention, [of(side, 64), of(side, 64), of(side, 64)]),
        Row("gradient of the chain", chain, [x, y], 32 * n, "gradient", (0, 1)),
        Row("a training step of two layers", layers, network, 0, "step", (0, 1, 2, 3)),
        Row("gradient of a Gaussian mixture", mixture, gaussians, 0, "gradient", (0, 1, 2)),
    ]


def compiled(row):
    """The function of a row for the GPU, by dlvm-py."""
    if row.kind == "step":
        return dlvm.jit(train, target="gpu")
    f = dlvm.jit(row.function, target="gpu")
    return dlvm.grad(f, wrt=row.wrt) if row.kind == "gradient" else f
