"""Convolutions and polynomials as NumPy's arrays of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import is_constant, refuse, unroll


def full(a: Any, v: Any) -> Any:
    """Σₖ vₖ aₙ₋ₖ for all n at which it is not empty."""
    n, m = a.shape[0], v.shape[0]
    if n == 0:
        raise ValueError("a cannot be empty")
    if m == 0:
        raise ValueError("v cannot be empty")
    out = np.zeros(n + m - 1, dtype=np.result_type(a, v))
    if m <= n:
        for k in range(m):
            out[k : k + n] += v[k] * a
    else:
        for k in range(n):
            out[k : k + m] += a[k] * v
    return out


def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """np.convolve of vectors."""
    a, v = vector(a), vector(v)
    if mode not in ("full", "same", "valid"):
        refuse("np.convolve: `mode` must be 'full', 'same' or 'valid'")
    found = full(a, v)
    n, m = max(a.shape[0], v.shape[0]), min(a.shape[0], v.shape[0])
    if mode == "same":
        return np.copy(found[(m - 1) // 2 : (m - 1) // 2 + n])
    if mode == "valid":
        return np.copy(found[m - 1 : n])
    return found


def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """np.correlate of vectors: Σₙ aₙ₊ₖ conj(vₙ)."""
    if np.ndim(a) == 0 or np.ndim(v) == 0:
        refuse("np.correlate needs vectors", "multiply the numbers")
    a, v = vector(a), vector(v)
    if mode not in ("full", "same", "valid"):
        refuse("np.correlate: `mode` must be 'full', 'same' or 'valid'")
    turned = np.conj(v[::-1]) if np.result_type(v).kind == "c" else v[::-1]
    found = full(a, turned)
    n, m = max(a.shape[0], v.shape[0]), min(a.shape[0], v.shape[0])
    if mode == "same":
        start = m // 2 if a.shape[0] < v.shape[0] else (m - 1) // 2
        if a.shape[0] >= v.shape[0]:
            start = m - 1 - m // 2
        return np.copy(found[start : start + n])
    if mode == "valid":
        return np.copy(found[m - 1 : n])
    return found


def vector(x: Any) -> Any:
    """A one-dimensional array."""
    if isinstance(x, (tuple, list)):
        x = np.array(x)
    if np.ndim(x) == 0:
        return np.full((1,), x)
    if x.ndim != 1:
        refuse("a one-dimensional array is needed here", "use .ravel(), or a loop over the rows")
    return x


def polyval(p: Any, x: Any) -> Any:
    """np.polyval by Horner's rule."""
    if isinstance(p, (tuple, list)):
        p = np.array(p)
    dtype = np.result_type(p, x)
    y = np.zeros(x.shape, dtype=dtype) if np.ndim(x) > 0 else dtype.type(0)
    for k in range(p.shape[0]):
        y = y * x + p[k]
    return y


def padded(a: Any, n: Any) -> Any:
    """Coefficients with leading zeros."""
    out = np.zeros(n, dtype=np.result_type(a))
    out[n - a.shape[0] :] = a
    return out


def polyadd(a1: Any, a2: Any) -> Any:
    """np.polyadd."""
    a, b = vector(a1), vector(a2)
    n = max(a.shape[0], b.shape[0])
    return padded(a, n) + padded(b, n)


def polysub(a1: Any, a2: Any) -> Any:
    """np.polysub."""
    a, b = vector(a1), vector(a2)
    n = max(a.shape[0], b.shape[0])
    return padded(a, n) - padded(b, n)


def polyder(p: Any, m: Any = 1) -> Any:
    """np.polyder: the coefficients of the m-th derivative."""
    if np.ndim(p) == 0:
        refuse("np.polyder needs a vector of coefficients", "np.array([c])")
    p = vector(p)
    if not is_constant(m):
        refuse("np.polyder needs a constant order m")
    for _ in unroll(m):
        n = p.shape[0] - 1
        p = p[:-1] * np.arange(n, 0, -1)
    return p


def polyint(p: Any, m: Any = 1, k: Any = 0) -> Any:
    """np.polyint: the coefficients of the m-th antiderivative, with the constants k."""
    if np.ndim(p) == 0:
        refuse("np.polyint needs a vector of coefficients", "np.array([c])")
    p = vector(p)
    if not is_constant(m):
        refuse("np.polyint needs a constant order m")
    for i in unroll(m):
        n = p.shape[0]
        out = np.empty(n + 1, dtype=np.result_type(p, np.float64))
        out[:n] = p / np.arange(n, 0, -1)
        out[n] = k[i] if np.ndim(k) > 0 else k
        p = out
    return p


FUNCTIONS = {
    np.convolve: convolve, np.correlate: correlate, np.polyval: polyval, np.polyadd: polyadd,
    np.polysub: polysub, np.polyder: polyder, np.polyint: polyint,
}  # fmt: skip
METHODS: dict[str, Any] = {}
