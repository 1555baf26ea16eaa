"""erf and erfc.

    erf    x (2/√π + x² p(x²)) below 1, 1 - erfc above
    erfc   e^(-x²) q(t) / (1 + 2x), t = (x - 4) / (x + 4), for x >= 0; 2 - erfc(-x) below

x² is a pair in the exponent. The form of t after Shepherd and Laframboise (1981), which makes one polynomial serve for
all x.
"""

from __future__ import annotations

from dlvm_py.backend.cpu import coefficients as known
from dlvm_py.backend.cpu.exponential import exp_parts
from dlvm_py.backend.cpu.expression import Pair, X, polynomial, product_of, scaled, sum_of
from dlvm_py.backend.cpu.values import V

_ZERO = {"double": 27.5, "float": 10.5}  # erfc is 0 from here on


def _erfc_parts(a: X) -> tuple[V, Pair]:
    """(n, pair) with erfc a = 2^n pair, for a from 0 to where it is 0."""
    type = a.kind
    inverse = 1.0 / (a + 4.0)
    t = (a - 4.0) * inverse
    lost = (-t).fma(a, (t + 1.0).fma(-4.0, a)) * inverse
    first, *others = known.ERFC[type]
    high, low = sum_of(first, t * polynomial(t, others))
    low = lost.fma(polynomial(t, known.ERFC_SLOPE[type]), low)
    # over 1 + 2a
    whole, whole_low = sum_of(a.of(1.0), 2.0 * a)
    divisor = 1.0 / whole
    y = high * divisor
    y_low = (-y).fma(whole_low, (-y).fma(whole, high) + low) * divisor
    square, square_low = product_of(a, a)
    n, e, e_low = exp_parts(-square, -square_low)
    found, found_low = product_of(y, e)
    return n, (found, found_low + y.fma(e_low, y_low * e))


def erfc(x: X) -> X:
    """1 - erf x."""
    a = abs(x)
    limit = _ZERO[x.kind]
    n, (high, low) = _erfc_parts(a.unless(a.compare("ogt", limit), limit))
    right = scaled(high + low, n)
    left = 2.0 - right
    return x.where(x.is_nan(), left.where(x.compare("olt", 0.0), right))


def erf(x: X) -> X:
    """The error function."""
    type = x.kind
    a = abs(x)
    n, (high, low) = _erfc_parts(a.unless(a.compare("ogt", 7.0), 7.0))
    far = 1.0 - scaled(high + low, n)
    z = a * a
    first, first_low = known.TWO_OVER_ROOT_PI[type]
    near = a.fma(first, a * z.fma(polynomial(z, known.ERF[type]), first_low))
    return near.where(a.compare("olt", 1.0), far).where(x.compare("ord", x), a).sign_of(x)
