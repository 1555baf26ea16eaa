"""np.polynomial: power series and series of orthogonal polynomials, coefficients of the lowest degree first.

Values are computed by the recurrences that NumPy uses (Clenshaw's for orthogonal polynomials).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre, polynomial

from dlvm_py.frontend.library.decompositions import values_of
from dlvm_py.frontend.library.intrinsics import axis_of, is_constant, refuse, undecided, unroll
from dlvm_py.frontend.library.polynomial import in_order, product

# -- arguments ---------------------------------------------------------------------------------------


def coefficients(c: Any) -> Any:
    """An array of floating-point coefficients with one axis or more."""
    if isinstance(c, (tuple, list)):
        c = np.array(c)
    if np.ndim(c) == 0:
        c = np.full((1,), c)
    return c if np.result_type(c).kind in ("f", "c") else c + 0.0


def points(x: Any) -> Any:
    """The places of evaluation."""
    return np.array(x) if isinstance(x, (tuple, list)) else x


def spread(c: Any, x: Any, tensor: Any) -> Any:
    """Coefficients with axes for those of x behind their own."""
    if tensor and np.ndim(x) > 0:
        return np.reshape(c, c.shape + (1,) * np.ndim(x))
    return c


def trimmed(c: Any) -> Any:
    """A vector of coefficients without the zeros at its end; one coefficient is left."""
    if c.ndim != 1:
        refuse("Coefficient array is not 1-d")
    n = c.shape[0]
    if n == 0:
        raise ValueError("Coefficient array is empty")
    while n > 1 and c[n - 1] == 0:
        n -= 1
    return c[:n]


def degree_of(deg: Any) -> Any:
    """A degree, which is a constant or an int."""
    if np.ndim(deg) != 0:
        refuse("the degree must be one int")
    if deg < 0:
        raise ValueError("deg must be non-negative")
    return deg


# -- power series ------------------------------------------------------------------------------------


def polyval(x: Any, c: Any, tensor: Any = True) -> Any:
    """Σ c_k x**k by Horner's rule; axes of c behind the first give several polynomials."""
    x = points(x)
    c = spread(coefficients(c), x, tensor)
    n = c.shape[0]
    found = c[n - 1] + x * 0
    for i in range(n - 1):
        found = c[n - 2 - i] + found * x
    return found


def polyadd(c1: Any, c2: Any) -> Any:
    """The sum of two series."""
    a, b = trimmed(coefficients(c1)), trimmed(coefficients(c2))
    out = np.zeros(max(a.shape[0], b.shape[0]), dtype=np.result_type(a, b))
    out[: a.shape[0]] += a
    out[: b.shape[0]] += b
    return trimmed(out)


def polysub(c1: Any, c2: Any) -> Any:
    """The difference of two series."""
    a, b = trimmed(coefficients(c1)), trimmed(coefficients(c2))
    out = np.zeros(max(a.shape[0], b.shape[0]), dtype=np.result_type(a, b))
    out[: a.shape[0]] += a
    out[: b.shape[0]] -= b
    return trimmed(out)


def polymul(c1: Any, c2: Any) -> Any:
    """The product of two power series."""
    return trimmed(product(trimmed(coefficients(c1)), trimmed(coefficients(c2))))


def polymulx(c: Any) -> Any:
    """A power series times x; of the series 0 it is [0]."""
    c = trimmed(coefficients(c))
    n = c.shape[0]
    size = 1 if n == 1 and c[0] == 0 else n + 1
    out = np.zeros(size, dtype=np.result_type(c))
    if size > 1:
        out[1:] = c
    return out


def polydiv(c1: Any, c2: Any) -> Any:
    """Quotient and remainder of two power series."""
    a, b = trimmed(coefficients(c1)), trimmed(coefficients(c2))
    m, n = a.shape[0], b.shape[0]
    dtype = np.result_type(a, b)
    rest, last = a.astype(dtype), b[n - 1].astype(dtype)
    if last == 0:
        raise ZeroDivisionError
    if m < n:
        return rest[:1] * 0, rest
    if n == 1:
        return rest / last, rest[:1] * 0
    lower = b[: n - 1].astype(dtype) / last
    for k in range(m - n + 1):
        j = m - 1 - k
        rest[j - n + 1 : j] -= lower * rest[j]
    return rest[n - 1 :] / last, np.copy(trimmed(rest[: n - 1]))


def polypow(c: Any, pow: Any, maxpower: Any = None) -> Any:  # noqa: A002 - NumPy's name
    """A power series to a constant power."""
    if not is_constant(pow) or (maxpower is not None and not is_constant(maxpower)):
        refuse("the power must be a constant int")
    if pow < 0:
        refuse("Power must be a non-negative integer.")
    if maxpower is not None and pow > maxpower:
        refuse("Power is too large")
    c = trimmed(coefficients(c))
    found = np.ones(1, dtype=np.result_type(c))
    for k in unroll(pow):
        found = c if k == 0 else product(found, c)
    return np.copy(found)


def polyline(off: Any, scl: Any) -> Any:
    """The series off + scl x of constants."""
    if not is_constant(scl):
        refuse("polyline needs a constant scale: its result has one coefficient for 0", "np.array([off, scl])")
    if scl != 0:
        return np.array([off, scl])
    return np.array([off])


def polyder(c: Any, m: Any = 1, scl: Any = 1, axis: Any = 0) -> Any:
    """The coefficients of the m-th derivative, times scl each time."""
    if not is_constant(m):
        refuse("the order of the derivative must be a constant")
    if m < 0:
        refuse("The order of derivation must be non-negative")
    c = coefficients(c)
    k = axis_of(axis, c.ndim)
    if m == 0:
        return np.copy(c)
    c = np.moveaxis(c, k, 0)
    found = c[:1] * 0
    if c.shape[0] > m:
        for _ in unroll(m):
            c = np.reshape(np.arange(1, c.shape[0]), (c.shape[0] - 1,) + (1,) * (c.ndim - 1)) * (c[1:] * scl)
        found = c.astype(np.result_type(found))
    return np.copy(np.moveaxis(found, 0, k))


def polyint(c: Any, m: Any = 1, k: Any = (), lbnd: Any = 0, scl: Any = 1, axis: Any = 0) -> Any:
    """The coefficients of the m-th antiderivative, which is k[i] at lbnd after the i-th integration."""
    if not is_constant(m):
        refuse("the order of the integral must be a constant")
    if m < 0:
        refuse("The order of integration must be non-negative")
    c = coefficients(c)
    given = tuple(k) if isinstance(k, (tuple, list)) else (k,)
    if len(given) > m:
        refuse("Too many integration constants")
    place = axis_of(axis, c.ndim)
    c = np.moveaxis(c, place, 0)
    for i in unroll(m):
        constant = given[i] if i < len(given) else 0
        n = c.shape[0]
        none = n == 1 and np.all(c[0] * scl == 0)  # the series 0 keeps its length
        out = np.zeros((1 if none else n + 1,) + c.shape[1:], dtype=np.result_type(c))
        if not none:
            out[1:] = c * scl / np.reshape(np.arange(1, n + 1), (n,) + (1,) * (c.ndim - 1))
            out[0] = out[0] - polyval(lbnd, out, False)
        out[0] += constant
        c = out
    return np.copy(np.moveaxis(c, 0, place))


def polyfromroots(roots: Any) -> Any:
    """The coefficients of the monic polynomial with these roots."""
    zeros = coefficients(roots)
    n = zeros.shape[0]
    dtype = np.result_type(zeros, np.int64)
    found = np.zeros(n + 1, dtype=dtype)
    found[n] = dtype.type(1)
    for i in range(n):
        found[n - i - 1 : n] -= zeros[i] * found[n - i :].copy()
    return found


def polyvalfromroots(x: Any, r: Any, tensor: Any = True) -> Any:
    """Π (x - r_k); axes of r behind the first give several polynomials."""
    x = points(x)
    r = coefficients(r)
    if np.ndim(x) > 0:
        if tensor:
            r = np.reshape(r, r.shape + (1,) * np.ndim(x))
        elif np.ndim(x) >= r.ndim:
            refuse("x.ndim must be < r.ndim when tensor == False")
    return np.prod(x - r, axis=0)


def polycompanion(c: Any) -> Any:
    """The companion matrix of a series of degree 1 or more."""
    c = trimmed(coefficients(c))
    n = c.shape[0] - 1
    if n < 1:
        raise ValueError("Series must have maximum degree of at least 1.")
    out = np.zeros((n, n), dtype=np.result_type(c))
    for i in range(1, n):
        out[i, i - 1] = np.result_type(c).type(1)
    out[:, n - 1] -= c[:n] / c[n]
    return out


def polyroots(c: Any) -> Any:
    """The roots of a series in order, real where all of them are and the coefficients are real."""
    c = trimmed(coefficients(c))
    if np.result_type(c) == np.float16:
        refuse("np.polynomial.polynomial.polyroots of float16 is not supported", "c.astype(np.float32)")
    if c.shape[0] < 2:
        companion = np.zeros((0, 0), dtype=np.result_type(c))
    else:
        companion = polycompanion(c)
    found, real = values_of(companion)
    return undecided(in_order(found), real)


# -- several variables -------------------------------------------------------------------------------


def coordinates(*xs: Any) -> Any:
    """Coordinates of one shape as arrays: Python's numbers are no longer of any precision then."""
    for x in xs[1:]:
        if np.shape(x) != np.shape(xs[0]):
            raise ValueError("the coordinates are incompatible")
    return tuple(np.asarray(x) for x in xs)


def polyval2d(x: Any, y: Any, c: Any) -> Any:
    """Σ c_ij x**i y**j at the points (x, y)."""
    x, y = coordinates(x, y)
    return polyval(y, polyval(x, c), False)


def polyval3d(x: Any, y: Any, z: Any, c: Any) -> Any:
    """Σ c_ijk x**i y**j z**k at the points (x, y, z)."""
    x, y, z = coordinates(x, y, z)
    return polyval(z, polyval(y, polyval(x, c), False), False)


def polygrid2d(x: Any, y: Any, c: Any) -> Any:
    """Σ c_ij x**i y**j at every x with every y."""
    return polyval(y, polyval(x, c))


def polygrid3d(x: Any, y: Any, z: Any, c: Any) -> Any:
    """Σ c_ijk x**i y**j z**k at every x with every y and z."""
    return polyval(z, polyval(y, polyval(x, c)))


def chebval2d(x: Any, y: Any, c: Any) -> Any:
    """Σ c_ij T_i(x) T_j(y) at the points (x, y)."""
    x, y = coordinates(x, y)
    return chebval(y, chebval(x, c), False)


def legval2d(x: Any, y: Any, c: Any) -> Any:
    """Σ c_ij P_i(x) P_j(y) at the points (x, y)."""
    x, y = coordinates(x, y)
    return legval(y, legval(x, c), False)


# -- orthogonal polynomials --------------------------------------------------------------------------


def clenshaw(x: Any, c: Any, tensor: Any, below: Any, beside: Any, first: Any) -> Any:
    """Σ c_k p_k(x), of p_k = a_k(x) p_(k-1) - b_k p_(k-2).

    below(c1, k) is b_k c1, beside(c1, x, k) is a_k(x) c1, both in NumPy's order of operations; first(x) is p_1. The
    first step is apart from the others: b_k is in the dtype of the coefficients alone, as NumPy's.
    """
    x = points(x)
    c = spread(coefficients(c), x, tensor)
    n = c.shape[0]
    if n == 1:
        return c[0] + x * 0
    if n == 2:
        return c[0] + c[1] * first(x)
    c0, c1 = c[n - 3] - below(c[n - 1], n - 1) + x * 0, c[n - 2] + beside(c[n - 1], x, n - 1)
    for i in range(1, n - 2):
        k = n - 1 - i
        c0, c1 = c[n - 3 - i] - below(c1, k), c0 + beside(c1, x, k)
    return c0 + c1 * first(x)


def chebval(x: Any, c: Any, tensor: Any = True) -> Any:
    """Σ c_k T_k(x), of Chebyshev's polynomials."""
    return clenshaw(x, c, tensor, lambda c1, k: c1, lambda c1, x, k: c1 * (2 * x), lambda x: x)


def legval(x: Any, c: Any, tensor: Any = True) -> Any:
    """Σ c_k P_k(x), of Legendre's polynomials."""
    beside = lambda c1, x, k: c1 * x * ((2 * k - 1) / k)  # noqa: E731
    return clenshaw(x, c, tensor, lambda c1, k: c1 * ((k - 1) / k), beside, lambda x: x)


def hermval(x: Any, c: Any, tensor: Any = True) -> Any:
    """Σ c_k H_k(x), of the physicists' Hermite polynomials."""
    return clenshaw(x, c, tensor, lambda c1, k: c1 * (2 * (k - 1)), lambda c1, x, k: c1 * (2 * x), lambda x: 2 * x)


def hermeval(x: Any, c: Any, tensor: Any = True) -> Any:
    """Σ c_k He_k(x), of the probabilists' Hermite polynomials."""
    return clenshaw(x, c, tensor, lambda c1, k: c1 * (k - 1), lambda c1, x, k: c1 * x, lambda x: x)


def lagval(x: Any, c: Any, tensor: Any = True) -> Any:
    """Σ c_k L_k(x), of Laguerre's polynomials."""
    beside = lambda c1, x, k: (c1 * ((2 * k - 1) - x)) / k  # noqa: E731
    return clenshaw(x, c, tensor, lambda c1, k: (c1 * (k - 1)) / k, beside, lambda x: 1 - x)


# -- Vandermonde matrices ----------------------------------------------------------------------------


def columns(x: Any, deg: Any, first: Any, following: Any) -> Any:
    """The polynomials of degrees 0 to deg at x, along a last axis.

    first(x) is the one of degree 1, following(p, q, x, k) the one of degree k after q and p of the two degrees below.
    """
    x = points(x)
    x = (np.full((1,), x) if np.ndim(x) == 0 else x) + 0.0
    out = np.empty((degree_of(deg) + 1,) + x.shape, dtype=np.result_type(x))
    out[0] = x * 0 + 1
    if deg > 0:
        out[1] = first(x)
    for k in range(2, deg + 1):
        out[k] = following(out[k - 2], out[k - 1], x, k)
    return np.moveaxis(out, 0, -1)


def polyvander(x: Any, deg: Any) -> Any:
    """The powers of x up to a degree, along a last axis."""
    return columns(x, deg, lambda x: x, lambda p, q, x, k: q * x)


def chebvander(x: Any, deg: Any) -> Any:
    """T_k(x) up to a degree, along a last axis."""
    return columns(x, deg, lambda x: x, lambda p, q, x, k: q * (2 * x) - p)


def legvander(x: Any, deg: Any) -> Any:
    """P_k(x) up to a degree, along a last axis."""
    return columns(x, deg, lambda x: x, lambda p, q, x, k: (q * x * (2 * k - 1) - p * (k - 1)) / k)


def hermvander(x: Any, deg: Any) -> Any:
    """H_k(x) up to a degree, along a last axis."""
    return columns(x, deg, lambda x: x * 2, lambda p, q, x, k: q * (2 * x) - p * (2 * (k - 1)))


def hermevander(x: Any, deg: Any) -> Any:
    """He_k(x) up to a degree, along a last axis."""
    return columns(x, deg, lambda x: x, lambda p, q, x, k: q * x - p * (k - 1))


def lagvander(x: Any, deg: Any) -> Any:
    """L_k(x) up to a degree, along a last axis."""
    return columns(x, deg, lambda x: 1 - x, lambda p, q, x, k: (q * (2 * k - 1 - x) - p * (k - 1)) / k)


def chebpts1(npts: Any) -> Any:
    """The zeros of Chebyshev's polynomial of degree npts."""
    if npts < 1:
        raise ValueError("npts must be >= 1")
    return np.sin(0.5 * np.pi / npts * np.arange(-npts + 1, npts + 1, 2))


def chebpts2(npts: Any) -> Any:
    """The places of the extremes of Chebyshev's polynomial of degree npts - 1."""
    if npts < 2:
        raise ValueError("npts must be >= 2")
    return np.cos(np.linspace(-np.pi, 0, npts))


FUNCTIONS = {
    polynomial.polyval: polyval, polynomial.polyadd: polyadd, polynomial.polysub: polysub,
    polynomial.polymul: polymul, polynomial.polymulx: polymulx, polynomial.polydiv: polydiv,
    polynomial.polypow: polypow, polynomial.polyline: polyline, polynomial.polyder: polyder,
    polynomial.polyint: polyint, polynomial.polyfromroots: polyfromroots,
    polynomial.polyvalfromroots: polyvalfromroots, polynomial.polycompanion: polycompanion,
    polynomial.polyroots: polyroots,
    polynomial.polyval2d: polyval2d, polynomial.polyval3d: polyval3d, polynomial.polygrid2d: polygrid2d,
    polynomial.polygrid3d: polygrid3d, polynomial.polyvander: polyvander,
    chebyshev.chebval: chebval, chebyshev.chebval2d: chebval2d, chebyshev.chebvander: chebvander,
    chebyshev.chebpts1: chebpts1, chebyshev.chebpts2: chebpts2, chebyshev.chebadd: polyadd,
    chebyshev.chebsub: polysub, legendre.legval: legval, legendre.legval2d: legval2d, legendre.legvander: legvander,
    legendre.legadd: polyadd, legendre.legsub: polysub, hermite.hermval: hermval, hermite.hermvander: hermvander,
    hermite_e.hermeval: hermeval, hermite_e.hermevander: hermevander, laguerre.lagval: lagval,
    laguerre.lagvander: lagvander,
}  # fmt: skip
METHODS: dict[str, Any] = {}
