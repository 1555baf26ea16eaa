"""The same program gives the same code, wherever its values happen to lie in the compiler's memory."""

import random

import numpy as np
import pytest

import dlvm_py as dlvm


def slope(x, y):
    """The right-hand side of a chain of equations."""
    z = np.empty_like(y)
    z[0] = x[0]
    z[1:] = x[1:] * y[:-1]
    return z


def stages(x, n):
    """Shifted vectors, one of the other: they run in strips, with windows."""
    y = np.zeros(len(x))
    for _ in range(n):
        k1 = slope(x, y)
        k2 = slope(x, y + 0.1 * k1)
        k3 = slope(x, y + 0.1 * k2)
        k4 = slope(x, y + 0.2 * k3)
        y = y + 0.1 * (k1 + 2 * k2 + 2 * k3 + k4) / 6
    return y[-1]


def layers(x, n):
    """Products, rows and reductions, some of which run in strips of rows."""
    m = np.outer(x, x) + n
    for _ in range(2):
        e = np.exp(m - np.max(m, axis=1, keepdims=True))
        p = e / np.sum(e, axis=1, keepdims=True)
        m = np.tanh(p @ m.T) * m + np.sum(p, axis=0)
    return np.sum(m)


def loops(x, n):
    """Nested loops with choices and two arrays that are written in turns."""
    a, b = np.zeros((n, len(x))), x.copy()
    for i in range(n):
        for j in range(1, len(x)):
            a[i, j] = b[j] * 0.5 + (a[i, j - 1] if b[j] > 0 else b[j - 1])
        b[1:-1] += a[i, 2:] - a[i, :-2]
    return np.sum(a * a) + np.sum(b)


@pytest.mark.parametrize("fn", [stages, layers, loops], ids=lambda f: f.__name__)
def test_the_same_text_each_time(fn):
    """Sets of the compiler's objects go by their addresses: other objects between them give other orders."""
    function = dlvm.jit(fn)
    rng, kept, texts = random.Random(0), [], set()
    for _ in range(4):
        kept.append([[] for _ in range(rng.randrange(20_000))])
        args = np.ones(100), 5
        texts.add((function.ir(*args, stage="scheduled"), dlvm.grad(function).ir(*args, stage="scheduled")))
    assert len(texts) == 1
