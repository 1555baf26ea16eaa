"""What a text brings along: small functions for what has no NumPy spelling, printed where they are used.

Each is NumPy alone, written as it is printed: the text of this file is what a user reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

# ruff: noqa: ANN001, ANN201


def scaled(seed, partial):
    """seed * partial, where a seed of exactly 0 wins over a partial that is not finite."""
    lost = ~np.isfinite(partial) & (seed == 0)
    return np.where(lost, np.zeros((), np.asarray(seed).dtype), seed * partial)[()]


def unbroadcast(x, shape):
    """The transpose of broadcasting: x summed down to `shape`."""
    axes = tuple(k for k, n in enumerate(shape) if n == 1 and x.shape[k] != 1)
    return x.sum(axis=axes, keepdims=True, dtype=x.dtype) if axes else x


def embed(x, fill, shape, starts, steps):
    """An array of this shape that has x as its section, and elsewhere the fill."""
    found = np.full(shape, fill, x.dtype)
    if x.size:
        ends = ((s, s + (n - 1) * t, t) for s, n, t in zip(starts, x.shape, steps, strict=True))
        found[tuple(slice(s, e + 1 if t > 0 else (e - 1 if e else None), t) for s, e, t in ends)] = x
    return found


def scatter_add(x, places, shape):
    """Zeros, with every element of x added at its place."""
    found = np.zeros(shape, x.dtype)
    np.add.at(found, places, x)
    return found


def recurrence(a, b, axis):
    """y[k] = a[k] * y[k - 1] + b[k] along an axis."""
    a, y = np.moveaxis(a, axis, 0), np.moveaxis(np.array(b), axis, 0)
    for k in range(1, len(y)):
        y[k] += a[k] * y[k - 1]
    return np.moveaxis(y, 0, axis)


def windows(x, size, count, step, spread):
    """y[w..., i...] = x[i * step + w * spread], as a view."""
    strides = [a * r for a, r in zip(x.strides, spread, strict=True)] + [
        a * s for a, s in zip(x.strides, step, strict=True)
    ]
    return np.lib.stride_tricks.as_strided(x, (*size, *count), strides, writeable=False)


def overlap_add(y, shape, step, spread):
    """x[i * step + w * spread] += y[w..., i...]: the transpose of `windows`."""
    found = np.zeros(shape, y.dtype)
    size, count = y.shape[: len(shape)], y.shape[len(shape) :]
    for w in np.ndindex(*size) if y.size else ():
        place = (slice(a * r, a * r + (n - 1) * s + 1, s) for a, r, n, s in zip(w, spread, count, step, strict=True))
        found[tuple(place)] += y[w]
    return found


def cholesky_adjoint(low, seed):
    """The adjoint of the lower triangle that was factored, from that of the factor."""
    back, half = np.tril(low).conj().T, np.tri(len(low)) - np.eye(len(low), dtype=low.real.dtype) / 2
    s = np.linalg.solve(back, np.linalg.solve(back, half * (back @ seed)).conj().T)
    return (half * (s + s.conj().T)).astype(low.dtype)


def determinant(a):
    """The determinant, its sign or phase, and the logarithm of its size."""
    sign, size = np.linalg.slogdet(a)
    return np.array([np.linalg.det(a), sign, size], a.dtype)


def factorizes(a, by):
    """1 where a matrix has the factors that np.linalg.solve, or cholesky, takes, else 0."""
    try:
        _ = np.linalg.inv(a) if by == "lu" else np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return np.zeros(1, a.dtype)
    return np.ones(1, a.dtype)


def eigh(a, triangle):
    """The eigenvalues of a Hermitian matrix and, below them, its eigenvectors."""
    values, vectors = np.linalg.eigh(a, triangle)
    return np.concatenate([values[None].astype(vectors.dtype), vectors])


def eig(a):
    """The eigenvalues of a matrix and, below them, its eigenvectors, as complex numbers."""
    values, vectors = np.linalg.eig(a)
    return np.concatenate([values[None], vectors]).astype(np.result_type(a.dtype, np.complex64))


def eigvals(a):
    """The eigenvalues of a matrix as complex numbers."""
    return np.linalg.eigvals(a).astype(np.result_type(a.dtype, np.complex64))


def svd(a, full_matrices):
    """The singular values and, below them, U and V."""
    left, values, right = np.linalg.svd(a, full_matrices)
    m, n = a.shape
    found = np.zeros((m + n + 1, max(left.shape[1], right.shape[0])), a.dtype)
    found[0, : len(values)] = values
    found[1 : m + 1, : left.shape[1]] = left
    found[m + 1 :, : right.shape[0]] = right.conj().T
    return found


def qr(a, mode):
    """Q and, below it, the transpose of R; with the mode "r", the latter alone."""
    if mode == "r":
        return np.linalg.qr(a, mode).T
    q, r = np.linalg.qr(a, mode)
    return np.concatenate([q, r.T])


def lstsq(a, b, rcond):
    """The solution, what remains, the rank and the singular values, one behind the other."""
    x, remains, rank, values = np.linalg.lstsq(a, b, rcond)
    if not remains.size:
        remains = np.full(b.shape[1], np.nan)
    return np.concatenate([x.ravel(), remains, [rank], values]).astype(a.dtype)


def make_complex(a, b):
    """a + bi, with infinities and signed zeros kept."""
    a, b = np.asarray(a), np.asarray(b)
    z = np.empty(np.broadcast_shapes(a.shape, b.shape), np.result_type(a, np.complex64))
    z.real, z.imag = a, b
    return z[()]


def truncated_quotient(a, b):
    """a / b of integers, rounded towards 0."""
    return np.floor_divide(a, b) + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0)))


def cast(x, dtype):
    """x in another dtype; numbers that do not fit wrap, as those of arrays do."""
    return np.asarray(x).astype(dtype)[()]


def integer_power(base, exponent):
    """base ** exponent of Python integers."""
    if exponent < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")
    return int(base) ** int(exponent)


def bits(x, dtype):
    """The bits of x as another dtype of the same size."""
    return np.ascontiguousarray(x).view(dtype).reshape(np.shape(x))[()]


def round_half_away(x):
    """The nearest integer; of two equally near ones, the one farther from 0."""
    whole = np.trunc(x)
    away = whole + np.copysign(np.ones_like(x), x)
    return np.where(np.abs(x - whole) >= 0.5, away, whole)[()]


def reduce_windows(x, init, combine, dims, strides, pads):
    """Every window of x, combined with init; what a window reads outside of x does not count."""
    counts = [
        (n + lo + hi - w) // s + 1 if n + lo + hi >= w else 0
        for n, w, s, (lo, hi) in zip(x.shape, dims, strides, pads, strict=True)
    ]
    found = np.full(counts, init, x.dtype)
    for i in np.ndindex(*counts):
        first = [k * s - lo for k, s, (lo, _) in zip(i, strides, pads, strict=True)]
        window = x[tuple(slice(max(a, 0), max(a + w, 0)) for a, w in zip(first, dims, strict=True))]
        if window.size:
            found[i] = combine(found[i], combine.reduce(window, axis=None, dtype=x.dtype))
    return found


HELPERS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        scaled, unbroadcast, embed, scatter_add, recurrence, windows, overlap_add, cholesky_adjoint, determinant,
        factorizes, eigh, eig, eigvals, svd, qr, lstsq, make_complex, truncated_quotient, cast, integer_power, bits,
        round_half_away, reduce_windows,
    )
}  # fmt: skip


def source_of(name: str) -> str:
    """The text of a helper."""
    return inspect.getsource(HELPERS[name]).rstrip("\n")
