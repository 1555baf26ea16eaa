"""Convolutions and polynomials as NumPy's arrays of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.decompositions import values_of
from dlvm_py.frontend.library.intrinsics import assumed, is_constant, is_for_device, refuse, undecided, unroll

STRIP = 512  # results that stay in the nearest cache while the products with all taps are added


def part(a: Any, v: Any, first: Any, last: Any) -> Any:
    """Σₖ vₖ aₙ₋ₖ, in this order, for n from `first` to `last`; of half precision in f32, as NumPy's products."""
    n, m = a.shape[0], v.shape[0]
    if n == 0:
        raise ValueError("a cannot be empty")
    if m == 0:
        raise ValueError("v cannot be empty")
    is_half = np.result_type(a, v) == np.float16
    if is_half:
        a, v = a.astype(np.float32), v.astype(np.float32)
    out = np.empty(last - first, dtype=np.result_type(a, v))
    strip = max(last - first, 1) if is_for_device() else STRIP  # there each product is a kernel
    for begin in range(first, last, strip):
        end = min(begin + strip, last)
        out[begin - first : end - first] = 0
        if m <= n:
            for k in range(max(begin - n + 1, 0), min(end, m)):
                low, high = max(begin, k), min(end, k + n)
                out[low - first : high - first] += v[k] * a[low - k : high - k]
        else:
            for k in range(max(begin - m + 1, 0), min(end, n)):
                low, high = max(begin, k), min(end, k + m)
                out[low - first : high - first] += a[k] * v[low - k : high - k]
    return out.astype(np.float16) if is_half else out


def product(a: Any, v: Any) -> Any:
    """Σₖ vₖ aₙ₋ₖ for all n at which it is not empty: the coefficients of a product of polynomials."""
    return part(a, v, 0, a.shape[0] + v.shape[0] - 1)


def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """np.convolve of vectors."""
    a, v = vector(a), vector(v)
    if mode not in ("full", "same", "valid"):
        refuse("np.convolve: `mode` must be 'full', 'same' or 'valid'")
    n, m = max(a.shape[0], v.shape[0]), min(a.shape[0], v.shape[0])
    if mode == "same":
        return part(a, v, (m - 1) // 2, (m - 1) // 2 + n)
    if mode == "valid":
        return part(a, v, m - 1, n)
    return product(a, v)


def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """np.correlate of vectors: Σₙ aₙ₊ₖ conj(vₙ)."""
    if np.ndim(a) == 0 or np.ndim(v) == 0:
        refuse("np.correlate needs vectors", "multiply the numbers")
    a, v = vector(a), vector(v)
    if mode not in ("full", "same", "valid"):
        refuse("np.correlate: `mode` must be 'full', 'same' or 'valid'")
    turned = np.conj(v[::-1]) if np.result_type(v).kind == "c" else v[::-1]
    n, m = max(a.shape[0], v.shape[0]), min(a.shape[0], v.shape[0])
    if mode == "same":
        start = m // 2 if a.shape[0] < v.shape[0] else (m - 1) // 2
        if a.shape[0] >= v.shape[0]:
            start = m - 1 - m // 2
        return part(a, turned, start, start + n)
    if mode == "valid":
        return part(a, turned, m - 1, n)
    return product(a, turned)


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
    if np.ndim(p) == 0:
        refuse("np.polyval needs a vector of coefficients", "np.array([p])")
    if not isinstance(x, (tuple, list)):
        x = np.asarray(x)
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


def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: Any = False, w: Any = None, cov: Any = False) -> Any:
    """np.polyfit: the coefficients of least squares; it does not warn where their number is too large."""
    if not (is_constant(full) and (is_constant(cov) or isinstance(cov, str))):
        refuse("np.polyfit: full and cov must be constants")
    x, y = np.asarray(x) + 0.0, np.asarray(y) + 0.0
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if x.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if x.shape[0] == 0:
        raise TypeError("expected non-empty vector for x")
    if y.ndim < 1 or y.ndim > 2:
        raise TypeError("expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise TypeError("expected x and y to have same length")
    order = deg + 1
    cutoff = x.shape[0] * np.finfo(x.dtype).eps if rcond is None else rcond
    left, right = np.vander(x, order), y
    if w is not None:
        w = np.asarray(w) + 0.0
        if w.ndim != 1:
            raise TypeError("expected a 1-d array for weights")
        if w.shape[0] != y.shape[0]:
            raise TypeError("expected w and y to have the same length")
        left = left * w[:, np.newaxis]
        right = right * (w[:, np.newaxis] if y.ndim == 2 else w)
    scale = np.sqrt(np.sum(left * left, axis=0))
    c, squares, rank, s = np.linalg.lstsq(left / scale, right, cutoff)
    c = c / (scale[:, np.newaxis] if y.ndim == 2 else scale)
    if full:
        return c, squares, rank, s, cutoff
    if not cov:
        return c
    scaled = left / scale
    base = np.linalg.inv(np.dot(scaled.T, scaled)) / np.outer(scale, scale)
    if cov == "unscaled":
        return (c, base) if y.ndim == 1 else (c, base[:, :, np.newaxis] * 1)
    if x.shape[0] <= order:
        raise ValueError("the number of data points must exceed order to scale the covariance matrix")
    factor = squares / (x.shape[0] - order)
    return (c, base * factor) if y.ndim == 1 else (c, base[:, :, np.newaxis] * factor)


def roots(p: Any) -> Any:
    """np.roots: of real coefficients real where all roots are."""
    p = vector(p)
    places = np.flatnonzero(p != 0)
    if not assumed(
        places.shape[0] > 0,
        "not all coefficients are 0",
        "whether np.roots is given nothing but zeros changes while this runs: branch on np.any(p)",
    ):
        return np.empty(0)
    kept = p[places[0] : places[-1] + 1]
    n = kept.shape[0] - 1
    behind = p.shape[0] - 1 - places[-1]
    if not assumed(
        n > 0,
        "there are several coefficients",
        "whether np.roots is given more than one coefficient that is not 0 changes while this runs: branch on p.size",
    ):
        return np.zeros(behind)
    kept = kept if np.result_type(p).kind in "fc" else kept.astype(np.float64)
    companion = np.eye(n, k=-1, dtype=kept.dtype)
    companion[0] = -kept[1:] / kept[0]
    found, real = values_of(companion)
    return undecided(np.concatenate((found, np.zeros(behind, dtype=found.dtype))), real)


def in_order(z: Any) -> Any:
    """Complex numbers by their real parts, then by their imaginary ones, as np.sort has them; real ones by size."""
    return z[np.lexsort((z.imag, z.real))] if np.result_type(z).kind == "c" else np.sort(z)


def poly(seq_of_zeros: Any) -> Any:
    """np.poly: of complex roots that come as conjugates the coefficients are real. A matrix: of its eigenvalues."""
    zeros = np.linalg.eigvals(seq_of_zeros) if np.ndim(seq_of_zeros) == 2 else vector(seq_of_zeros)
    dtype = np.result_type(zeros)
    if dtype != np.float32 and dtype.kind != "c":
        zeros = zeros.astype(np.float64)
        dtype = np.result_type(zeros)
    n = zeros.shape[0]
    if n == 0:
        raise ValueError("np.poly of no roots is a number, which is not supported")
    found = np.zeros(n + 1, dtype=dtype)
    found[0] = dtype.type(1)
    for k in range(n):
        found[1 : k + 2] -= zeros[k] * found[: k + 1].copy()
    if dtype.kind == "c" and assumed(
        np.all(in_order(zeros) == in_order(np.conj(zeros))),
        "roots are conjugates",
        "whether the roots that np.poly is given are conjugates changes while this runs: "
        "multiply by [1, -root] in a loop with np.convolve",
    ):
        return found.real.copy()
    return found


def leading(a: Any) -> Any:
    """How many zeros stand in front, the last coefficient aside."""
    k = 0
    while k < a.shape[0] - 1 and a[k] == 0:
        k += 1
    return k


def polymul(a1: Any, a2: Any) -> Any:
    """np.polymul: zeros in front are left out."""
    a, b = vector(a1), vector(a2)
    return product(a[leading(a) :], b[leading(b) :])


def polydiv(u: Any, v: Any) -> Any:
    """np.polydiv: quotient and remainder."""
    u, v = vector(u) + 0.0, vector(v) + 0.0
    dtype = np.result_type(u[0] + v[0])
    m, n = u.shape[0] - 1, v.shape[0] - 1
    scale = 1.0 / v[0]
    quotient = np.zeros(max(m - n + 1, 1), dtype=dtype)
    rest = u.astype(dtype)
    for k in range(m - n + 1):
        d = scale * rest[k]
        quotient[k] = d
        rest[k : k + n + 1] -= d * v
    start = 0
    while start < m and np.abs(rest[start]) <= 1e-8:
        start += 1
    return quotient, rest[start:].copy()


FUNCTIONS = {
    np.poly: poly, np.polymul: polymul, np.polydiv: polydiv,
    np.convolve: convolve, np.correlate: correlate, np.polyval: polyval, np.polyadd: polyadd,
    np.polysub: polysub, np.polyder: polyder, np.polyint: polyint, np.polyfit: polyfit, np.roots: roots,
}  # fmt: skip
METHODS: dict[str, Any] = {}
