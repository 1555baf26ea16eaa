"""Small Python functions that mix the constructs of the language: the corpus of the front-end, native and
gradient tests. Each is plain NumPy code; `make_args` gives fresh arguments at every call.

`differentiable`: float data flows smoothly through it at these arguments (no tie or kink nearby).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SCALE = 1.25
WEIGHTS = np.array([0.5, -1.0, 2.0, 0.25])


def few_numbers(x, a):
    """Memory of fixed extents that one path alone makes."""
    total = 0.0
    if a > 0.0:
        u = np.array([x[0], x[1], a])
        total = np.sum(u * u * np.sin(u))
    return total + a * a


@dataclass(frozen=True)
class Program:
    """One function with arguments to try it on."""

    fn: Callable
    make_args: Callable
    differentiable: bool
    name: str


PROGRAMS: list[Program] = []


def program(make_args, differentiable=True):
    """Add the decorated function to PROGRAMS."""

    def add(fn):
        PROGRAMS.append(Program(fn, make_args, differentiable, fn.__name__))
        return fn

    return add


def vector(n, seed=0, low=0.2, high=1.7):
    """n floats in [low, high), the same at every call."""
    return np.random.default_rng(seed).uniform(low, high, n)


def matrix(m, n, seed=0):
    """An (m, n) array of floats in [-1, 1)."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (m, n))


# -- expressions and whole arrays --------------------------------------------------------------------


@program(lambda: (matrix(3, 4), matrix(4, 2, 1), vector(2)))
def poster(x, w, b):
    return np.tanh(np.dot(x, w) + b)


@program(lambda: (vector(7), 0.3))
def elementwise_chain(x, c):
    y = np.exp(-x * c) + np.sin(x) ** 2 / (1.0 + x)
    return np.sum(np.sqrt(y) * np.log(x + 2.0))


@program(lambda: (matrix(4, 3),))
def normalise_columns(a):
    centred = a - np.mean(a, axis=0)
    return centred / np.sqrt(np.mean(centred**2, axis=0, keepdims=True) + 0.1)


@program(lambda: (matrix(5, 3),))
def log_softmax(logits):
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))


@program(lambda: (vector(8, 1, -1.0, 1.0),))
def where_and_clip(x):
    y = np.where(x > 0.05, x * x, -0.5 * x)
    return np.sum(y + np.maximum(x, 0.0) + np.minimum(x, 0.3))


@program(lambda: (vector(4), vector(3, 1)))
def outer_by_newaxis(x, y):
    return x[:, None] * y[None, :] + x.reshape(4, 1)


@program(lambda: (matrix(3, 3), vector(3)))
def transposes(a, x):
    b = a.T
    return (a @ x) @ (b @ x) + np.sum(a * b)


@program(lambda: (vector(4),))
def uses_globals(x):
    return np.sum(x * WEIGHTS) * SCALE


# -- stores, views, aliasing ---------------------------------------------------------------------------


@program(lambda: (vector(9), 0.1))
def heat_steps(u, dt):
    for _ in range(12):
        u[1:-1] += dt * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.sum(u**2)


@program(lambda: (vector(6),))
def shift_right(a):
    a[1:] = a[:-1]
    a[0] = 2.0 * a[-1]
    return np.sum(a * a)


@program(lambda: (vector(6),))
def alias_slice(a):
    b = a[1:]
    b *= 2.0
    c = a
    c[0] = b[0] * b[1]
    return a


@program(lambda: (vector(6),))
def reversed_view(a):
    r = a[::-1]
    r[::2] += a[1] * a[::2]
    return r[1:4]


@program(lambda: (matrix(4, 4),))
def rows_and_columns(a):
    a[1, :] = a[:, 2] * 3.0
    a[:, 0] += a[2]
    a[-1, 1:] = 0.5
    return np.sum(a * a, axis=1)


@program(lambda: (matrix(3, 4), vector(4)))
def transposed_stores(a, x):
    t = a.T
    t[1] = x[:3]
    t *= 2.0
    t[:, 0] -= x
    return a


@program(lambda: (vector(5),))
def overwritten(x):
    y = x * 2.0
    z = y * y
    y[:] = np.sin(y)
    z += y
    y[2] = z[1] * y[3]
    return np.sum(y * z)


@program(lambda: (vector(7),))
def running_product(x):
    for i in range(1, len(x)):
        x[i] = x[i] * x[i - 1] + 0.1
    return x[-1]


@program(lambda: (vector(8), vector(8, 3)))
def tridiagonal_sweep(d, b):
    n = d.shape[0]
    x = b.copy()
    for i in range(1, n):
        w = 0.3 / (d[i - 1] + 2.0)
        d[i] -= w * 0.3
        x[i] -= w * x[i - 1]
    x[n - 1] /= d[n - 1] + 2.0
    for i in range(n - 2, -1, -1):
        x[i] = (x[i] - 0.3 * x[i + 1]) / (d[i] + 2.0)
    return x


@program(lambda: (vector(6), vector(6, 1)))
def swap_buffers(u, v):
    for _ in range(5):
        v[1:-1] = 0.5 * (u[2:] + u[:-2])
        v[0] = u[0]
        v[-1] = u[-1]
        u, v = v, u
    return u * 1.5


# -- loops and branches ----------------------------------------------------------------------------------


@program(lambda: (matrix(3, 4), matrix(4, 2, 1)))
def matmul_by_loops(a, b):
    out = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            out[i, j] = s
    return out


@program(lambda: (2.7, 1.0))
def newton_sqrt(a, x):
    for _ in range(50):
        new = 0.5 * (x + a / x)
        if abs(new - x) < 1e-12:
            break
        x = new
    return x


@program(lambda: (1.3,))
def while_collatz_like(x):
    steps = 0
    total = 0.0
    while x < 100.0:
        if steps % 2 == 0:
            x = x * 1.7
        else:
            x = x + 0.5 * math.sin(x)
        total += x
        steps += 1
    return total / steps


@program(lambda: (matrix(4, 4) + 4.0 * np.eye(4), vector(4)))
def power_iteration(a, v):
    for _ in range(6):
        w = a @ v
        v = w / np.sqrt(np.sum(w * w))
    return v @ (a @ v)


@program(lambda: (matrix(4, 5), 0.2))
def early_return_nested(a, limit):
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j] ** 2
            if total > limit:
                return total * (i + 1)
    return -total


@program(lambda: (vector(10, 4, -1.0, 1.0),))
def continue_and_break(x):
    total = 0.0
    for value in x:
        if value < -0.9:
            break
        if value < 0.0:
            continue
        total += value * value
    else:
        total *= 2.0
    return total


@program(lambda: (vector(6), 3))
def integer_to_float_join(x, n):
    s = 0
    for i in range(n):
        s += x[i]
    return s * 2


@program(lambda: (0.7, 5))
def polynomial(x, n):
    result, power = 0.0, 1.0
    for k in range(1, n + 1):
        power *= x
        result += power / k
    return result


@program(lambda: (vector(5), True))
def branch_on_flag(x, flag):
    if flag:
        y = x * 2.0
    else:
        y = x[::-1]
    return np.sum(y * x)


@program(lambda: (1.7, -0.4))
def conditional_expressions(a, b):
    c = a * b if a > b else b - a
    d = max(a, b) * min(a, c) + abs(b)
    return d if 0.0 < d < 10.0 and a > 0.0 else -d


@program(lambda: (vector(6),))
def loop_over_while(x):
    i = 0
    out = np.zeros_like(x)
    while i < len(x):
        y = x[i]
        while y > 0.3:
            y *= 0.5
        out[i] = y
        i += 1
    return out


# -- functions -----------------------------------------------------------------------------------------


def _sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def _layer(x, w, b, activation=np.tanh):
    return activation(x @ w + b)


def _axpy(y, a, x):
    y += a * x


def _split(x):
    half = len(x) // 2
    return x[:half], x[half:]


@program(lambda: (matrix(3, 4), matrix(4, 3, 1), vector(3), matrix(3, 2, 2), vector(2)))
def two_layers(x, w1, b1, w2, b2):
    hidden = _layer(x, w1, b1)
    return np.mean(_layer(hidden, w2, b2, activation=_sigmoid) ** 2)


@program(lambda: (vector(5), vector(5, 1)))
def calls_that_write(y, x):
    for k in range(3):
        _axpy(y, 0.5 * k, x)
        _axpy(y[1:], 0.25, x[:-1])
    return np.sum(y)


@program(lambda: (vector(6),))
def returns_views(x):
    low, high = _split(x)
    low *= 2.0
    return np.sum(low * high)


@program(lambda: (0.4, vector(4)))
def closures(scale, x):
    shift = scale * 2.0

    def inner(y):
        return y * scale + shift

    square = lambda y: y * y  # noqa: E731
    return np.sum(square(inner(x)))


@program(lambda: ((vector(3), 0.5), vector(3, 1)))
def tuples_in_and_out(pair, y):
    x, c = pair
    return x * c, (np.sum(x * y), c * 2.0)


@program(lambda: (lambda y: y * y + 1.0, 0.3))
def rk4(f, y):
    h = 0.05
    for _ in range(8):
        k1 = f(y)
        k2 = f(y + 0.5 * h * k1)
        k3 = f(y + 0.5 * h * k2)
        k4 = f(y + h * k3)
        y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return y


# -- not differentiable: integers, booleans, sharing ------------------------------------------------------


@program(lambda: (np.arange(6, dtype=np.int32), 3), differentiable=False)
def integer_arithmetic(a, n):
    a[1:] //= n
    return a % 2, np.sum(a), a.dtype == np.int32 and a[0] // 0 == 0


@program(lambda: (17,), differentiable=False)
def python_integers(n):
    count, total = 0, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
        total = max(total, n)
    return count, total, -7 // 2, -7 % 3, 2**10


@program(lambda: (vector(5).astype(np.float32), 2.0), differentiable=False)
def keeps_float32(x, c):
    s = np.float32(0.0)
    for i in range(len(x)):
        s += x[i] * c
    return x * c + s, s, x[0] > 0.5


@program(lambda: (np.array([True, False, True]), np.array([1, 2, 3])), differentiable=False)
def booleans(flags, values):
    both = flags & (values > 1)
    return both, np.any(both), np.all(values > 0), np.sum(flags), ~flags


@program(lambda: (np.zeros(4), 2), differentiable=False)
def returns_argument(x, k):
    x[k] = k
    return x
