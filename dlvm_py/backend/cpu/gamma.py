"""The gamma function and its logarithm, without branches.

    P      x (x + 1) ... of what lies below 6, so that z = x + k >= 6 and Γ(x) = Γ(z) / P
    log Γ  (z - 1/2) log z - z + log √2π + c(1/z²) / z             (Stirling)
    Γ      e^ of that over P, for x < 0 by  Γ(-a) = -π / (a sin πa Γ(a))
    lgamma t = x - 2, x - 1 or x, at most 1/2: t (ψ(2) + t q(t)) = log Γ(2 + t), less log x or log x (1 + x), so that
           it is relatively exact where it is 0, at 1 and 2; from 2.5 on Stirling's formula less log P

In f64 everything is a pair, in f32 a double. At the zeros of lgamma on the negative axis the error is absolute.
Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.1.
"""

from __future__ import annotations

import math

from dlvm_py.backend.cpu import coefficients as known
from dlvm_py.backend.cpu.exponential import exp, exp_parts, log, log_pair
from dlvm_py.backend.cpu.expression import Pair, X, polynomial, product_of, scaled, sum_of, two_sum, whole
from dlvm_py.backend.cpu.trigonometric import cosine_terms, sine_terms
from dlvm_py.backend.cpu.values import V

_RAISED = 6  # the coefficients of Stirling's series are for z from here on
_LARGEST = 200.0  # Γ is infinite before, and Γ of its negative 0
_TINY = 2.0**-60  # below this Γ(x) is 1 / x
_INFINITE = 2.5563481638716906e305  # beyond this log Γ is infinite
_DOUBLE = "double"


def _times(a: Pair, b: Pair) -> Pair:
    product, lost = product_of(a[0], b[0])
    return product, a[0].fma(b[1], a[1].fma(b[0], lost))


def _over(a: Pair, b: Pair) -> Pair:
    inverse = 1.0 / b[0]
    quotient = a[0] * inverse
    rest = (-quotient).fma(b[0], a[0]) + a[1]
    return quotient, (-quotient).fma(b[1], rest) * inverse


def _choice(flag: V, a: Pair, b: Pair) -> Pair:
    return a[0].where(flag, b[0]), a[1].where(flag, b[1])


def _constant(x: X, parts: tuple[float, ...]) -> Pair:
    return x.of(parts[0]), x.of(parts[1])


def _raised(a: X, steps: int) -> tuple[Pair, Pair]:
    """(z, P), of what is at least 6 after so many steps."""
    one, zero = a.of(1.0), a.of(0.0)
    product, count = (one, zero), zero
    for k in range(steps):
        factor = two_sum(a, a.of(float(k)))
        is_low = factor[0].compare("olt", float(_RAISED))
        product = _choice(is_low, _times(product, factor), product)
        count = a.of(k + 1.0).where(is_low, count)
    return two_sum(count, a), product


def _stirling(z: Pair) -> Pair:
    """log Γ(z), z >= 6."""
    at, lost = z
    level, level_low = log_pair(at)
    less, less_low = two_sum(level, at.of(-1.0))
    product, low = product_of(at, less)
    low = at.fma(less_low + level_low, low)
    total, lost_1 = two_sum(product, -0.5 * level)
    first, second = known.HALF_LOG_2_PI[_DOUBLE]
    total, lost_2 = two_sum(total, at.of(first))
    w = 1.0 / at
    tail = w.fma(polynomial(w * w, known.STIRLING[_DOUBLE]), second)
    slope = level - 0.5 * w  # of log Γ, for what z has lost
    return sum_of(total, lost.fma(slope, tail) + ((lost_1 + lost_2) + (low - 0.5 * level_low)))


def _beside_two(t: X) -> Pair:
    """log Γ(2 + t), |t| <= 1/2: the first three steps of Horner's rule from the end are pairs."""
    last, *others = known.LGAMMA[_DOUBLE]
    slope, slope_low = sum_of(t.of(last), t * polynomial(t, others))
    rise, rise_low = product_of(t, slope)
    first, second = known.PSI_2[_DOUBLE]
    line, lost = sum_of(t.of(first), rise)
    return _times((t, t.of(0.0)), (line, lost + (t.fma(slope_low, rise_low) + second)))


def _sine_of_pi(a: X) -> tuple[Pair, X]:
    """(|sin πa|, the distance of a to the nearest integer, with its sign)."""
    f = a - a.rint()
    size = abs(f)
    is_small = size.compare("ole", 0.25)
    g = size.where(is_small, 0.5 - size)
    high, low = known.PI[_DOUBLE]
    r, rest = product_of(g, high)
    r, rest = r, g.fma(low, rest)
    first, others = _choice(is_small, sine_terms(r, rest), cosine_terms(r, rest))
    return sum_of(first, -others), f


def gamma(x: X) -> X:
    """Γ(x): ±inf at ±0, NaN at the negative integers and at -inf."""
    type, size_of = x.kind, _gamma_double if x.kind == _DOUBLE else _gamma_single
    x = x.to(_DOUBLE)
    f, a = x.f, abs(x)
    within = a.unless(a.compare("ogt", _LARGEST), _LARGEST)
    sine, distance = _sine_of_pi(a)
    is_left = x.compare("olt", 0.0)
    size = size_of(within, sine, is_left)
    half = 0.5 * a.floor()
    is_even = half.rint().compare("oeq", half)
    signed = (-size).where(f.both(is_left, is_even), size)
    pole = f.both(is_left, distance.compare("oeq", 0.0))
    signed = signed.unless(pole, math.nan)
    return (1.0 / x).where(a.compare("olt", _TINY), signed).to(type)


def _gamma_double(a: X, sine: Pair, is_left: V) -> X:
    """|Γ(a)| or |Γ(-a)|."""
    f = a.f
    z, product = _raised(a, _RAISED)
    n, *parts = exp_parts(*_stirling(z))
    high, low = sum_of(*parts)
    below = _times(_times((a, a.of(0.0)), sine), (high, low))
    mirrored = _times(_constant(a, known.PI[_DOUBLE]), product)
    found, rest = _over(_choice(is_left, mirrored, (high, low)), _choice(is_left, below, product))
    power = f.select(is_left, f.op("sub", whole(a, 0), n), n)
    return scaled(found + rest, power)


def _gamma_single(a: X, sine: Pair, is_left: V) -> X:
    """The same of an f32, as a double."""
    z, product = _raised_single(a, _RAISED)
    y = exp(_stirling_single(z))
    right, left = y / product, known.PI[_DOUBLE][0] * product / (a * sine[0] * y)
    return left.where(is_left, right)


def _raised_single(a: X, steps: int) -> tuple[X, X]:
    """(z, P) of an f32, as doubles."""
    product, z = a.of(1.0), a
    for _ in range(steps):
        is_low = z.compare("olt", float(_RAISED))
        product = (product * z).where(is_low, product)
        z = (z + 1.0).where(is_low, z)
    return z, product


def _stirling_single(z: X) -> X:
    """log Γ(z), z >= 6, to some digits more than f32 has."""
    w = 1.0 / z
    tail = w.fma(polynomial(w * w, known.STIRLING[_DOUBLE][:4]), known.HALF_LOG_2_PI[_DOUBLE][0])
    return (z - 0.5).fma(log(z), tail - z)


def lgamma(x: X) -> X:
    """log |Γ(x)|: inf at 0, at the negative integers and at both infinities."""
    type, of_size = x.kind, _lgamma_double if x.kind == _DOUBLE else _lgamma_single
    x = x.to(_DOUBLE)
    a = abs(x)
    # log |Γ(-a)| = log (π / (a |sin πa|)) - log Γ(a)
    is_left = x.compare("olt", -_TINY)
    sine, distance = _sine_of_pi(a)
    found = of_size(a, sine, is_left)
    found = (-found).where(is_left, found)
    is_infinite = x.f.any(
        a.compare("oge", _INFINITE),
        a.compare("oeq", 0.0),
        x.f.both(is_left, distance.compare("oeq", 0.0)),
    )
    found = found.unless(is_infinite, math.inf)
    return x.where(x.is_nan(), found).to(type)


def _lgamma_double(a: X, sine: Pair, is_left: V) -> X:
    """log Γ(a), or -log |Γ(-a)|."""
    zero, one = a.of(0.0), a.of(1.0)
    z, product = _raised(a, 4)  # from 2.5 on
    is_small, is_middle, is_near = (a.compare("olt", limit) for limit in (0.5, 1.5, 2.5))
    t = a - zero.where(is_small, one.where(is_middle, 2.0))
    base = _choice(is_near, _beside_two(t), _stirling(z))
    alone = a, zero
    factor = _choice(is_middle, alone, (one, zero))
    factor = _choice(is_small, _times(alone, sum_of(one, a)), factor)
    factor = _choice(is_near, factor, product)
    mirrored = _over(_times(_constant(a, known.PI[_DOUBLE]), _over(factor, alone)), sine)
    high, low = _choice(is_left, mirrored, factor)
    level, level_low = log_pair(high)
    total, lost = two_sum(base[0], -level)
    return total + (lost + (base[1] - (level_low + low / high)))


def _lgamma_single(a: X, sine: Pair, is_left: V) -> X:
    """The same of an f32, as a double."""
    z, product = _raised_single(a, 4)
    is_small, is_middle, is_near = (a.compare("olt", limit) for limit in (0.5, 1.5, 2.5))
    t = a - a.of(0.0).where(is_small, a.of(1.0).where(is_middle, 2.0))
    near = t * t.fma(polynomial(t, known.LGAMMA[_DOUBLE]), known.PSI_2[_DOUBLE][0])
    base = near.where(is_near, _stirling_single(z))
    factor = (a * (a + 1.0)).where(is_small, a.where(is_middle, 1.0)).where(is_near, product)
    return base - log((known.PI[_DOUBLE][0] * factor / (a * sine[0])).where(is_left, factor))
