"""exp, log and their relatives, from two polynomials; the inverse hyperbolic functions are logarithms of pairs.

    exp     x = n ln 2 + r, |r| <= ln 2 / 2;  e^x = 2^n (1 + r + r² p(r))
    log     x = 2^k m, m in [√½, √2);  f = m - 1, s = f / (2 + f);
            log m = 2 atanh s = f - f²/2 + s (f²/2 + s² q(s²))
    others  from these two, with the rounding errors of 1 + x and of k log 2 carried along

Method: Muller, "Elementary Functions" (2016), chapters 3 and 11; the form of log 1 + f after Tang (1990).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dlvm_py.backend.cpu import coefficients as known
from dlvm_py.backend.cpu.expression import (
    Pair,
    X,
    clamped,
    polynomial,
    polynomial_of,
    power_of_two,
    product_of,
    scaled,
    split,
    sum_of,
    two_sum,
    whole,
)
from dlvm_py.backend.cpu.values import V


def _base(x: X) -> tuple[float, float, float]:
    """What `split` needs for e."""
    return known.LOG2_E[x.kind][0], *known.LN2[x.kind]


def small_expm1(r: X) -> X:
    """e^r - 1 for |r| <= ln 2 / 2."""
    return (r * r).fma(polynomial_of(r, known.EXP[r.kind]), r)


def exp(x: X, less: int = 0) -> X:
    """e^x / 2^less."""
    # beyond the bounds the result is 0 or infinite anyway
    x = clamped(x, x.form.underflow, x.form.overflow + less)
    n, _, r = split(x, _base(x))
    if less:
        n = x.f.op("sub", n, whole(x, less))
    return scaled(1.0 + small_expm1(r), n)


def exp_parts(x: X, low: X) -> tuple[V, X, X]:
    """(n, y, z) with e^(x + low) = 2^n (y + z), z far below the last place of y; |x| within the bounds of `exp`."""
    n, number, r = split(x, (_base(x)[0], _base(x)[1], 0.0))
    r, rest = two_sum(r, (-number).fma(_base(x)[2], low))
    high, lost = sum_of(1.0, r)
    return n, high, lost + (r * r).fma(polynomial_of(r, known.EXP[x.kind]), rest)


def exp2(x: X) -> X:
    """2^x."""
    limit = known.LOG2_E[x.kind][0]
    n, _, r = split(clamped(x, x.form.underflow * limit, x.form.overflow * limit), (1.0, 1.0, 0.0))
    # r is exact; r ln 2 in two parts
    ln2 = known.LN2[x.kind]
    high, low = product_of(r, ln2[0])
    low = low + r * ln2[1]
    tail = (high * high).fma(polynomial_of(high, known.EXP[x.kind]), low)
    return scaled(1.0 + (high + tail), n)


def expm1(x: X) -> X:
    """e^x - 1."""
    given = x
    # below the lower bound the result is -1
    x = clamped(x, -(x.form.bits + 2.0) * known.LN2[x.kind][0], x.form.overflow)
    n, number, r = split(x, (_base(x)[0], _base(x)[1], 0.0))
    r, lost = sum_of(r, -number * _base(x)[2])
    tail = (r * r).fma(polynomial_of(r, known.EXP[x.kind]), lost)
    # 2 (2^(n-1) (r + tail) + 2^(n-1) - 1/2): 2^n itself may overflow
    f = x.f
    factor = power_of_two(x, f.op("sub", n, whole(x, 1)))
    found = factor.fma(tail, factor.fma(r, factor - 0.5)) * 2.0
    small = r + tail
    found = small.where(f.icmp("eq", n, whole(x, 0)), found)
    return given.where(given.compare("oeq", 0.0), found)  # keeps -0


def decomposed(x: X) -> tuple[X, X]:
    """(k, m) of a positive finite x = 2^k m with m in [√½, √2)."""
    f, form = x.f, x.form
    subnormal = x.compare("olt", form.tiny)
    x = (x * 2.0 ** (form.bits + 2)).where(subnormal, x)
    root = x.of(math.sqrt(0.5)).bits()
    distance = f.op("sub", x.bits(), root)
    k = f.op("ashr", distance, whole(x, form.bits))
    m = f.op("sub", x.bits(), f.op("shl", k, whole(x, form.bits)))
    # k as a float, by the pattern of magic + k: a conversion of i64 has no vector form before AVX-512
    magic = x.of(form.magic)
    number = x.from_bits(f.op("add", magic.bits(), k)) - magic
    number = (number - (form.bits + 2.0)).where(subnormal, number)
    return number, x.from_bits(m)


def _log_parts(f: X) -> Pair:
    """(f²/2, s (f²/2 + s² q)) of log 1 + f = f - first + second."""
    s = f / (2.0 + f)
    z = s * s
    square = f * f * 0.5
    return square, s * (square + z * polynomial_of(z, known.LOG[f.kind]))


def _defined(x: X, found: X, lowest: float) -> X:
    """`found` where x lies between `lowest` and infinity; -inf at `lowest`, NaN below, +inf and NaN as they are."""
    found = x.where(x.compare("oeq", math.inf), found)
    found = found.unless(x.compare("oeq", lowest), -math.inf)
    found = found.unless(x.compare("olt", lowest), math.nan)
    return x.where(x.is_nan(), found)


def _log_sum(k: X, f: X, lost: X | None = None) -> X:
    """k log 2 + log(1 + f) + lost, for a small correction `lost`."""
    ln2 = known.LN2[k.kind]
    square, rest = _log_parts(f)
    # k ln 2 and f are added to what is smaller
    high, error = product_of(k, ln2[0])
    total, slip = sum_of(high, f)  # of a sum whose first term is larger, or 0
    low = k.fma(ln2[1], rest) + error
    return total + (slip + (low + (lost - square) if lost is not None else low - square))


def log(x: X) -> X:
    """The natural logarithm."""
    k, m = decomposed(x)
    return _defined(x, _log_sum(k, m - 1.0), 0.0)


def log1p(x: X) -> X:
    """log(1 + x)."""
    u = 1.0 + x
    # what rounding 1 + x has lost
    above = 1.0 - (u - x)
    below = x - (u - 1.0)
    found = _log_of(u, above.where(x.compare("ogt", 1.0), below), x, x.of(0.0))
    return x.where(abs(x).compare("olt", 2.0 ** -(x.form.bits + 2)), _defined(x, found, -1.0))


def _log_of(x: X, low: X, f: X, f_low: X, more: V | None = None) -> X:
    """log(x + low), twice that number where `more` holds; f + f_low is x + low - 1, used for x near 1."""
    k, m = decomposed(x)
    is_near = k.compare("oeq", 0.0)
    if more is not None:
        k = (k + 1.0).where(more, k)  # x is large then: not near 1
    return _log_sum(k, f.where(is_near, m - 1.0), f_low.where(is_near, low) / x)


def log_in(unit: dict[str, tuple[float, ...]], of_two: dict[str, tuple[float, ...]] | None) -> Callable[[X], X]:
    """log to another base: its 1 / ln base is `unit`, and log of 2 is `of_two` (None: 1)."""

    def found(x: X) -> X:
        scale = unit[x.kind]
        step_high, step_low = of_two[x.kind] if of_two else (1.0, 0.0)
        k, m = decomposed(x)
        f = m - 1.0
        square, rest = _log_parts(f)
        # log m as high + low
        high = f - square
        low = ((f - high) - square) + rest
        first, tail = product_of(high, scale[0])
        tail = tail + (low * scale[0] + (high + low) * scale[1])
        tail = k.fma(step_low, tail)
        total, lost = sum_of(k * step_high, first)
        return _defined(x, total + (lost + tail), 0.0)

    return found


def log_pair(x: X) -> Pair:
    """log x as a pair with a relative error near 2^-64, of positive finite doubles."""
    type = x.kind
    k, m = decomposed(x)
    f = m - 1.0
    # s = f / (2 + f) as a pair
    below = 1.0 + m
    lost = f - (below - 2.0)
    inverse = 1.0 / below
    s = f * inverse
    t = (-s).fma(lost, (-s).fma(below, f)) * inverse
    z, z_low = product_of(s, s)
    z_low = s.fma(2.0 * t, z_low)
    cube, cube_low = product_of(z, s)
    cube_low = z.fma(t, z_low.fma(s, cube_low))
    # 2 s + 2/3 s³ + s⁵ q
    high, low = known.TWO_THIRDS[type]
    third, third_low = product_of(cube, high)
    third_low = third_low + cube.fma(low, cube_low * high)
    tail = cube * (z * polynomial_of(z, known.LOG_TAIL[type]))
    ln2 = known.LN2_SHORT[type]
    total, lost_1 = sum_of(k * ln2[0], 2.0 * s)
    total, lost_2 = sum_of(total, third)
    rest = k.fma(ln2[1], (lost_1 + lost_2) + (t.fma(2.0, third_low) + tail))
    return sum_of(total, rest)


def sinh(x: X) -> X:
    """The hyperbolic sine."""
    a = abs(x)
    is_large = a.compare("ogt", 1.0)
    z = a * a
    small = (a * z).fma(polynomial(z, known.SINH[x.kind]), a)
    half = exp(a, 1)
    large = half - 0.25 / half
    return large.where(is_large, small).sign_of(x).where(x.compare("ord", x), x)


def cosh(x: X) -> X:
    """The hyperbolic cosine."""
    half = exp(abs(x), 1)
    return half + 0.25 / half


def tanh(x: X) -> X:
    """The hyperbolic tangent."""
    a = abs(x)
    limit = 22.0
    t = expm1(2.0 * a.unless(a.compare("ogt", limit), limit))
    # t / (t + 2), with what the sum and the quotient have lost
    below = t + 2.0
    lost = (2.0 - below) + t
    inverse = 1.0 / below
    y = t * inverse
    rest = (-y).fma(lost, (-y).fma(below, t))
    return rest.fma(inverse, y).sign_of(x)


def _log_of_sum(a: X, u: X, low: X) -> X:
    """log(1 + u + low) for u >= 0, or log 2a where a is so large that this is the same."""
    is_large = a.compare("ogt", 2.0 ** (a.form.bits // 2 + 3))
    total, lost = two_sum(a.of(1.0), u)
    return _log_of(a.where(is_large, total), (lost + low).unless(is_large, 0.0), u, low, is_large)


def asinh(x: X) -> X:
    """The inverse hyperbolic sine, log(1 + a + a² / (1 + √(1 + a²)))."""
    a = abs(x)
    bounded = a.unless(a.compare("ogt", 2.0 ** (a.form.bits // 2 + 4)), 1.0)
    square, square_low = product_of(bounded, bounded)
    total, lost = two_sum(a.of(1.0), square)
    root, root_low = _root(total, lost + square_low)
    # v = a² / (1 + root)
    below, below_low = sum_of(root, a.of(1.0))
    v, v_low = _quotient(square, square_low, below, below_low + root_low)
    u, low = two_sum(bounded, v)
    found = _log_of_sum(a, u, low + v_low)
    found = found.unless(a.compare("oeq", math.inf), math.inf)
    return found.where(a.compare("ogt", 2.0 ** -(a.form.bits // 2 + 4)), a).sign_of(x)


def _root(x: X, low: X) -> Pair:
    """√(x + low) for x > 0 as a pair."""
    root = x.sqrt()
    return root, ((-root).fma(root, x) + low) / (root + root)


def _quotient(a: X, a_low: X, b: X, b_low: X) -> Pair:
    """(a + a_low) / (b + b_low) as a pair."""
    inverse = 1.0 / b
    y = a * inverse
    return y, (-y).fma(b_low, (-y).fma(b, a) + a_low) * inverse


def acosh(x: X) -> X:
    """The inverse hyperbolic cosine, log(1 + t + √(2t + t²)) with t = x - 1."""
    bounded = x.unless(x.compare("ogt", 2.0 ** (x.form.bits // 2 + 4)), 2.0)
    t, t_low = sum_of(bounded, x.of(-1.0))
    # t (t + 2), whose relative error counts
    more, more_low = sum_of(bounded, x.of(1.0))
    square, square_low = product_of(t, more)
    square_low = square_low + t.fma(more_low, t_low * more)
    is_one = x.compare("oeq", 1.0)
    root, root_low = _root(square.unless(is_one, 1.0), square_low)
    root, root_low = root.unless(is_one, 0.0), root_low.unless(is_one, 0.0)
    u, low = two_sum(t, root)
    found = _log_of_sum(x, u, low + (t_low + root_low))
    found = found.unless(x.compare("oeq", math.inf), math.inf)
    return found.unless(x.compare("olt", 1.0), math.nan)


def atanh(x: X) -> X:
    """The inverse hyperbolic tangent, log(1 + 2a / (1 - a)) / 2."""
    a = abs(x)
    below, below_low = sum_of(1.0, -a)
    is_one = a.compare("oge", 1.0)
    u, low = _quotient(2.0 * a, a.of(0.0), below.unless(is_one, 1.0), below_low)
    total, lost = two_sum(a.of(1.0), u)
    found = 0.5 * _log_of(total, lost + low, u, low)
    found = found.unless(a.compare("oeq", 1.0), math.inf)
    found = found.unless(a.compare("ogt", 1.0), math.nan)
    return found.where(a.compare("ogt", 2.0 ** -(a.form.bits // 2 + 4)), a).sign_of(x)
