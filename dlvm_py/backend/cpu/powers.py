"""pow, cbrt and hypot.

    pow    e^(y log x): the logarithm as a pair with 64 bits or more, the product exact, e^ of the pair. In f32 all of
           it in f64, where neither pair nor product is needed
    x^(n/2)  x = z 4^q; the root of z or its inverse as a pair, times powers of z or of the inverse of z, times 2^(nq)
    cbrt   x = 2^(3q + j) m; the polynomial for m^(-1/3), one step of third order, one of Newton on the root
    hypot  √(a² + b²), scaled by a power of two where a square might leave the range

Special values are those of C99, annex F.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dlvm_py.backend.cpu import coefficients as known
from dlvm_py.backend.cpu.exponential import decomposed, exp_parts, log_pair
from dlvm_py.backend.cpu.expression import (
    X,
    clamped,
    polynomial_of,
    product_of,
    scaled,
    split,
)
from dlvm_py.backend.cpu.values import V

_LIMIT = 800.0  # e^ of more is infinite, and of less than -800 it is 0


def power(x: X, y: X) -> X:
    """x to the y."""
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
    type, form = x.kind, x.form
    a = abs(x)
    # m from √½ to √2 and k; then z = m 2^j, from 1 to 8 by k - 1 = 3q + j, and z^(-1/3)
    k, m = decomposed(a)
    is_low = m.compare("olt", 1.0)
    m, k = (m + m).where(is_low, m), (k - 1.0).where(is_low, k)
    magic = form.magic
    shifted = (k - 1.0).fma(1.0 / 3.0, magic)
    q = shifted - magic
    j = k - 3.0 * q
    one, two = j.compare("oeq", 1.0), j.compare("oeq", 2.0)
    z = (m + m).where(one, (4.0 * m).where(two, m))
    scale = x.of(known.CBRT_2[type][0]).where(one, x.of(known.CBRT_4[type][0]).where(two, 1.0))
    w = polynomial_of(m, known.CBRT[type]) * scale
    e = 1.0 - z * w * w * w
    w = w.fma(e * e.fma(2.0 / 9.0, 1.0 / 3.0), w)
    y = z * w * w
    # y - (y³ - z) / (3 y²), with 1 / y² = w² / y² ... = w / y · ...: w is 1 / y
    square, lost = product_of(y, y)
    cube, cube_lost = product_of(square, y)
    residual = (cube - z) + lost.fma(y, cube_lost)
    y = (residual * (w * w)).fma(-1.0 / 3.0, y)
    n = x.f.op("sub", shifted.bits(), x.of(magic).bits())
    found = scaled(y, n).sign_of(x)
    is_same = x.f.any(a.compare("oeq", 0.0), a.compare("oeq", math.inf), a.is_nan())
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
