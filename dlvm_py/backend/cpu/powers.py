"""pow, cbrt and hypot.

    pow    e^(y log x): the logarithm as a pair with 64 bits or more (33 in f32), the product exact, e^ of the pair
    x^(n/2)  x = z 4^q; the root of z or its inverse as a pair, times powers of z or of the inverse of z, times 2^(nq)
    cbrt   x = 2^(3q + j) m; the polynomial for m^(-1/3), one step of Newton on it, one on the root
    hypot  √(a² + b²), scaled by a power of two where a square might leave the range

Special values are those of C99, annex F.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dlvm_py.backend.cpu import coefficients as known
from dlvm_py.backend.cpu.exponential import decomposed, exp_parts, log_of_normal_pair, log_pair
from dlvm_py.backend.cpu.expression import (
    X,
    clamped,
    polynomial_in_pairs,
    polynomial_of,
    power_of_two,
    product_of,
    scaled,
    split,
    sum_of,
    whole,
)
from dlvm_py.backend.cpu.values import V

_LIMIT = 800.0  # e^ of more is infinite, and of less than -800 it is 0
_USUAL = {"double": 700.0, "float": 86.0}  # e^ of less is a normal number, of minus that too


def power(x: X, y: X) -> X:
    """x to the y."""
    level, low = log_of_normal_pair(x)
    p, p_low = product_of(y, level)
    p_low = y.fma(low, p_low)
    n, number, r = split(p, (known.LOG2_E[x.kind][0], known.LN2[x.kind][0], 0.0))
    r, lost = sum_of(r, (-number).fma(known.LN2[x.kind][1], p_low))
    tail = (r * r).fma(polynomial_in_pairs(r, known.EXP[x.kind]), lost)
    found = (1.0 + (r + tail)) * power_of_two(x, n)
    is_rare = x.f.any(x.is_outside(x.form.tiny, math.inf), abs(p).compare("uge", _USUAL[x.kind]))
    return found.rarely(is_rare, "power", _power_of_any, x, y)


def _power_of_any(x: X, y: X) -> X:
    """The same of zeros, subnormal and negative numbers, and where the power is near the ends of the range."""
    a = abs(x)
    size = _power_single(a, y) if x.kind == "float" else _power_double(a, y)
    f = x.f
    half = 0.5 * y
    is_whole = y.rint().compare("oeq", y)
    is_odd = f.both(is_whole, half.rint().compare("one", half), y.compare("one", math.inf), y.compare("one", -math.inf))
    found = (-size).where(f.both(is_odd, x.is_negative()), size)
    undefined = f.both(x.compare("olt", 0.0), x.compare("one", -math.inf), y.rint().compare("one", y))
    found = found.unless(undefined, math.nan)
    # 1 whatever the other is, NaN too; and (-1) to an infinite power
    is_unit = f.any(x.compare("oeq", 1.0), y.compare("oeq", 0.0))
    minus_one = f.both(x.compare("oeq", -1.0), abs(y).compare("oeq", math.inf))
    return found.unless(f.any(is_unit, minus_one), 1.0)


def _power_double(a: X, y: X) -> X:
    log, low = log_pair(a)
    log, low = _at_ends(a, log), low.unless(_is_end(a), 0.0)
    p, p_low = product_of(y, log)
    p_low = y.fma(low, p_low)
    is_far = abs(p).compare("ogt", _LIMIT)
    n, high, rest = exp_parts(clamped(p, -_LIMIT, _LIMIT), p_low.unless(is_far, 0.0))
    return scaled(high + rest, n)


def _power_single(a: X, y: X) -> X:
    a, y = a.to("double"), y.to("double")
    k, m = decomposed(a)
    f = m - 1.0
    s = f / (1.0 + m)
    z = s * s
    cube = s * z
    tail = known.TWO_THIRDS["double"][0] * cube + cube * z * polynomial_of(z, known.LOG_TAIL["float"])
    log = k.fma(known.LN2["double"][0], tail + 2.0 * s)
    p = clamped(y * _at_ends(a, log), -_LIMIT, _LIMIT)
    n, _, r = split(p, (known.LOG2_E["double"][0], *known.LN2["double"]))
    return scaled(1.0 + (r * r).fma(polynomial_of(r, known.EXP["float"]), r), n).to("float")


# n of the powers x^(n/2) that are made of a root
HALVES = (-7, -5, -3, -1, 3, 5, 7)


def of_root(n: int) -> Callable[[X], X]:
    """x to the n/2, for an odd n."""

    def rule(x: X) -> X:
        a, form = abs(x), x.form
        k, m = decomposed(a)
        q = (0.5 * k).floor()
        z = m.where((k - 2.0 * q).compare("oeq", 0.0), m + m)
        root = z.sqrt()
        inverse = 1.0 / root
        root_low = (-root).fma(root, z) * (0.5 * inverse)
        if n > 0:
            high, low, factor, factor_low = root, root_low, z, z.of(0.0)
        else:
            high, low = inverse, inverse * ((-root).fma(inverse, 1.0) - root_low * inverse)
            factor, factor_low = product_of(high, high)
            factor_low = (2.0 * high).fma(low, factor_low)
        for _ in range(abs(n) // 2):
            product, lost = product_of(high, factor)
            high, low = product, low.fma(factor, high.fma(factor_low, lost))
        # the exponents of the two factors that scale stay in range; beyond, the power is 0 or infinite
        most = 2.0 * (form.bias - 23)
        shifted = clamped(float(n) * q, -most, most) + form.magic
        found = scaled(high + low, x.f.op("sub", shifted.bits(), x.of(form.magic).bits()))
        at_zero, at_infinity = (0.0, math.inf) if n > 0 else (math.inf, 0.0)
        found = found.unless(a.compare("oeq", 0.0), at_zero)
        found = found.unless(x.compare("olt", 0.0), math.nan)
        found = found.unless(a.compare("oeq", math.inf), at_infinity)
        return x.where(x.is_nan(), found)

    return rule


def _is_end(a: X) -> V:
    return a.f.any(a.compare("oeq", 0.0), a.compare("oeq", math.inf), a.is_nan())


def _at_ends(a: X, log: X) -> X:
    """The logarithm at 0, infinity and NaN too."""
    log = log.unless(a.compare("oeq", 0.0), -math.inf)
    return a.where(a.f.any(a.compare("oeq", math.inf), a.is_nan()), log)


def cbrt(x: X) -> X:
    """The cube root."""
    is_rare = abs(x).is_outside(x.form.tiny, math.inf)
    return _cbrt_of_normal(x).rarely(is_rare, "cbrt", _cbrt_of_any, x)


def _cbrt_of_normal(x: X) -> X:
    """The cube root of a normal number."""
    kind, form, f = x.kind, x.form, x.f
    a = abs(x)
    # a = 8^q z, z = 2^j m with j from -1 to 1 and m from 1 to 2
    exponent = f.op("sub", f.op("lshr", a.bits(), whole(x, form.bits)), whole(x, form.bias))
    if kind == "float" or x.lanes == 1 or f.module.masks:
        k = X(f, f.cast("sitofp", exponent, x.v.type))
    else:  # by the pattern of magic + k: a conversion of i64 has no vector form before AVX-512
        k = x.from_bits(f.op("add", exponent, x.of(form.magic).bits())) - form.magic
    shifted = k.fma(1.0 / 3.0, form.magic)
    n = f.op("sub", shifted.bits(), x.of(form.magic).bits())
    thrice = f.op("add", n, f.op("add", n, n))
    z = x.from_bits(f.op("sub", a.bits(), f.op("shl", thrice, whole(x, form.bits))))
    j = f.op("sub", exponent, thrice)
    m = f.op("or", f.op("and", a.bits(), whole(x, (1 << form.bits) - 1)), x.of(1.0).bits())
    # w near z^(-1/3), in f64 by one step of Newton nearer
    w = polynomial_in_pairs(x.from_bits(m), known.CBRT[kind]) * x.of_table("cbrt", known.CBRT_SCALE, j)
    if kind == "double":
        e = (-z * w).fma(w * w, 1.0)
        w = (w * (1.0 / 3.0)).fma(e, w)
    square = w * w
    y = z * square
    # y - (y³ - z) / (3 y²), and 1 / y is w
    product, lost = product_of(y, y)
    residual = (-lost).fma(y, (-product).fma(y, z))
    y = residual.fma(square * (1.0 / 3.0), y)
    return (y * power_of_two(x, n)).sign_of(x)


def _cbrt_of_any(x: X) -> X:
    """The cube root of 0, subnormal numbers, infinity and NaN."""
    bits = x.form.bits // 3 * 3 + 3
    found = _cbrt_of_normal(x * 2.0**bits) * 2.0 ** -(bits // 3)
    is_same = x.f.any(x.compare("oeq", 0.0), abs(x).compare("oeq", math.inf), x.is_nan())
    return x.where(is_same, found)


def hypot(x: X, y: X) -> X:
    """√(x² + y²) without overflow or loss on the way."""
    a, b = abs(x), abs(y)
    f, form = x.f, x.form
    high, low = 2.0 ** (form.bias // 2 - 8), 2.0 ** -(form.bias // 2 - 18)
    step = 2.0 ** (form.bias // 2 + form.bits + 20)
    large = f.any(a.compare("ogt", high), b.compare("ogt", high))
    small = f.both(a.compare("olt", low), b.compare("olt", low))
    factor = x.of(1.0 / step).where(large, x.of(step).where(small, 1.0))
    back = x.of(step).where(large, x.of(1.0 / step).where(small, 1.0))
    p, q = a * factor, b * factor
    found = p.fma(p, q * q).sqrt() * back
    infinite = f.any(a.compare("oeq", math.inf), b.compare("oeq", math.inf))
    return found.unless(infinite, math.inf)
