"""Programs for the GPU's tests: plain NumPy functions, their arguments, and what gradients are with respect to."""

import numpy as np


def chain(x, y):
    return np.exp(-x) * np.sin(y) + x / (1.0 + y * y)


def broadcasts(m, row, column):
    return (m + row) * column - 2.0


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def stencil(u, dt, steps):
    for _ in range(steps):
        u[1:-1, 1:-1] += dt * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])
    return np.sum(u**2)


def mlp(x, w1, b1, w2, b2, target):
    hidden = np.tanh(np.dot(x, w1) + b1)
    out = np.dot(hidden, w2) + b2
    return np.mean((out - target) ** 2)


def batched(a, b, c):
    """Products of many matrices: axes that broadcast, that are missing, and more than one of them."""
    d = np.matmul(a, b)
    return np.matmul(c[:1], np.swapaxes(b, 1, 2)), d[:, None] @ np.swapaxes(c, 1, 2)


def bodies(p, m):
    d = p[:, None, :] - p[None, :, :]
    r2 = np.sum(d * d, axis=2) + 0.01
    return np.sum(m[:, None, None] * d / r2[:, :, None] ** 1.5, axis=0)


def sums(x):
    return x.sum(axis=0) * 2.0, x.sum(axis=1), x.max(axis=0), x.min(), x.prod(axis=1), np.mean(x)


def picked(x, k):
    return np.sum(x[k] ** 2) + x[k[0]]


def counted(k, n):
    found = np.zeros(n, np.int64)
    np.add.at(found, k, 1)
    return found


def histogram(k, w, n):
    found = np.zeros(n)
    np.add.at(found, k, w)
    return found


def scattered(k, w, rows, x, pairs):
    found = np.zeros((30, rows.shape[1]), rows.dtype)
    np.add.at(found, k[: len(rows)], rows)
    x[::-2][k] = w
    np.maximum.at(x, k, w)
    np.add.at(found, (k[:20], pairs), 1.0)
    return found


def walks(x):
    return np.cumsum(x, axis=0) + np.cumprod(x, axis=1)


def rows(x):
    out = np.zeros_like(x)
    for i in range(x.shape[0]):
        e = np.exp(x[i] - x[i].max())
        out[i] = e / e.sum() * np.dot(x[i], x[0])
    return np.sum(out * x)


def newton(x):
    y = x + 1.0
    while np.abs(y * y - x).max() > 1e-9:
        y = 0.5 * (y + x / y)
    return y


def recurrence(x):
    s = 0.0
    for v in range(x.shape[0]):
        if x[v] > 0.0:
            s = s * 0.5 + x[v]
        else:
            x[v] = s
    return s


def half_floats(x, y):
    return np.sum(x * y, axis=1), x + y


def complexes(z, w):
    return np.sum(z * np.conj(w)) + z.real.sum(), z * w


def attention(q, k, v):
    s = np.dot(q, k.T) / np.sqrt(q.shape[1])
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return np.dot(e / e.sum(axis=1, keepdims=True), v)


def views(x):
    y = x[::-2].T
    y[0] = 7.0
    return y, x.reshape(-1)[3:9], x


def transposed(x, y, u):
    u[:, 1:, :-1] = u[:, 1:, :-1] * 2.0 + np.transpose(u, (0, 2, 1))[:, 1:, :-1]
    return y * x.T - x.T


def masks(x):
    return np.where(x > 0.5, x, -x), (x > 0.5).any(axis=0), np.all(x < 2.0), np.argmax(x.sum(axis=0))


def products(a, b, c):
    c -= np.dot(a, b.T)
    return np.dot(a.T, c), np.dot(a, b[0]), np.dot(b[1], a.T)


def positives(x, y):
    x[x > 0.3] *= 2.0
    return y[y > x].sum(), np.nonzero(x > 1.0)


def searched(x, y):
    return np.searchsorted(x, y), np.searchsorted(x, y, side="right")


def filtered(x, w):
    return np.sum(np.convolve(x, w) ** 2) + np.sum(np.convolve(x, w, "valid"))


def mandelbrot(c, out, most):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            z = y = 0.0
            k = 0
            while k < most and z * z + y * y <= 4.0:
                z, y = z * z - y * y + c[i, j, 0], 2.0 * z * y + c[i, j, 1]
                k += 1
            out[i, j] = k
    return out


def priced(z, s0, sigma):
    """Monte Carlo: the mean, over paths of given normal numbers, of what an option is worth at their ends."""
    total = 0.0
    for i in range(z.shape[0]):
        s = s0
        for t in range(z.shape[1]):
            s = s * np.exp(sigma * z[i, t] - 0.5 * sigma * sigma)
        total += max(s - 1.0, 0.0)
    return total / z.shape[0]


def ordered(x, y):
    y[::2] = np.sort(x[:, 1] * 2.0)[::-1]  # of a tree, and of a view; to every other element
    return np.sort(x.T, axis=0), np.argsort(x, axis=1), np.median(x), np.sort(x[:0, 0])


def transformed(x):
    return np.fft.fft(x), np.fft.irfft(np.fft.rfft(x[0])), np.fft.fft2(x[::-1]), np.fft.fft(x[:0])


def factored(a, b):
    w, v = np.linalg.eigh(a + a.T)
    q, r = np.linalg.qr(a)
    return (
        np.linalg.solve(a, b),
        np.linalg.cholesky(np.dot(a, a.T)),
        np.linalg.det(a),
        np.dot(v * w, v.T),
        np.linalg.svd(a.T)[1],
        np.dot(q, r),
        np.linalg.lstsq(a, b[:, 0])[0],
    )


def loss(a, b):
    return np.sum(np.sort(np.linalg.solve(a, b) ** 2) * np.arange(3.0))


def _random(seed=0):
    return np.random.default_rng(seed)


def _of(shape, dtype=np.float64, seed=0):
    return _random(seed).standard_normal(shape).astype(dtype)


def only(x):
    """The one element of what is not known to have one."""
    return (x * 2.0).reshape(()), np.sum(x[:1].reshape(()))


# name: (function, () -> arguments, the parameters that gradients are taken with respect to)
def narrow_products(a, x):
    return a @ x, x @ a.T, (a > 0.0) @ (x > 0.0)


def windows(x):
    w = np.lib.stride_tricks.sliding_window_view(x, 3)
    return np.sum(np.sin(w) * w)


PROGRAMS = {
    "narrow_products": (narrow_products, lambda: (_of((5, 7), np.float16), _of(7, np.float16, 1)), ()),
    "only": (only, lambda: (_of(1),), ()),
    "windows": (windows, lambda: (_of(40),), (0,)),
    "chain": (chain, lambda: (_of(1000), _of(1000, seed=1)), (0, 1)),
    "chain_strided": (chain, lambda: (_of(64)[::-2], _of((32, 3))[:, 1]), (0, 1)),
    "chain_f32": (chain, lambda: (_of((7, 9), np.float32), np.asfortranarray(_of((7, 9), np.float32, 1))), (0, 1)),
    "broadcasts": (broadcasts, lambda: (_of((5, 300)), _of(300, seed=1), _of((5, 1), seed=2)), (0, 1, 2)),
    "softmax": (softmax, lambda: (_of((17, 33)),), (0,)),
    "stencil": (stencil, lambda: (_of((12, 20)), 0.1, 3), (0, 1)),
    "mlp": (
        mlp,
        lambda: (_of((6, 4)), _of((4, 8), seed=1), _of(8, seed=2), _of((8, 3), seed=3), _of(3, seed=4), _of((6, 3))),
        (1, 2, 3, 4),
    ),
    "batched": (batched, lambda: (_of((3, 5, 18)), _of((3, 18, 4), seed=1), _of((3, 2, 4), seed=2)), (0, 1, 2)),
    "bodies": (bodies, lambda: (_of((15, 3)), np.abs(_of(15, seed=1))), (0, 1)),
    "sums": (sums, lambda: (_of((9, 40)),), ()),
    "sums_large": (sums, lambda: (_of((3, 5000)) / 100 + 1,), ()),
    "picked": (picked, lambda: (_of(20), np.array([3, 3, 19, 0])), (0,)),
    "counted": (counted, lambda: (_random().integers(0, 10, 500), 10), ()),
    "histogram": (histogram, lambda: (_random().integers(0, 10, 500), _of(500), 10), (1,)),
    "scattered": (
        scattered,
        lambda: (
            _random().integers(0, 30, 200),
            _of(200),
            _of((40, 7), np.float32),
            _of(60, seed=1),
            _random().integers(0, 7, 20),
        ),
        (),
    ),
    "walks": (walks, lambda: (_of((6, 7)),), (0,)),
    "rows": (rows, lambda: (_of((4, 9)),), (0,)),
    "newton": (newton, lambda: (np.abs(_of(50)) + 0.5,), (0,)),
    "recurrence": (recurrence, lambda: (_of(12),), (0,)),
    "half_floats": (half_floats, lambda: (_of((4, 50), np.float16), _of((4, 50), np.float16, 1)), ()),
    "complexes": (complexes, lambda: (_of(40) + 1j * _of(40, seed=1), _of(40, seed=2) - 1j * _of(40, seed=3)), ()),
    "attention": (attention, lambda: (_of((5, 8)), _of((7, 8), seed=1), _of((7, 4), seed=2)), (0, 1, 2)),
    "products": (products, lambda: (_of((35, 18)), _of((20, 18), seed=1), _of((35, 20), seed=2)), ()),
    "products_infinite": (products, lambda: (np.full((3, 2), np.inf), np.abs(_of((4, 2))), _of((3, 4))), ()),
    "products_integers": (
        products,
        lambda: tuple(_random(k).integers(-9, 9, s) for k, s in enumerate([(17, 3), (2, 3), (17, 2)])),
        (),
    ),
    "positives": (positives, lambda: (_of((20, 30)), _of((20, 30), seed=1)), (0, 1)),
    "searched": (searched, lambda: (np.sort(_of(40)).round(1), _of((6, 7), seed=1).round(1)), ()),
    "filtered": (filtered, lambda: (_of(30), _of(4, seed=1)), (0, 1)),
    "views": (views, lambda: (_of((6, 4)),), ()),
    "transposed": (
        transposed,
        lambda: (_of((40, 33), np.float32), _of((33, 40), seed=1), _of((3, 45, 45), seed=2)),
        (0, 1, 2),
    ),
    "mandelbrot": (mandelbrot, lambda: (_of((3, 100, 2)), np.zeros((3, 100), np.int64), 9), ()),
    "priced": (priced, lambda: (_of((600, 3)), 1.1, 0.3), (0, 1, 2)),
    "masks": (masks, lambda: (np.abs(_of((6, 4))),), ()),
}

# what libraries compute
LIBRARY = [
    (ordered, lambda: (_of((5, 7)), np.zeros(10))),
    (transformed, lambda: (_of((4, 6)),)),
    (factored, lambda: (_of((4, 4)) + 4.0 * np.eye(4), np.asfortranarray(_of((4, 2), seed=1)))),
]
