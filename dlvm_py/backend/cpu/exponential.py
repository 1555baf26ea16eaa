"""exp, log and their relatives, from two polynomials; the inverse hyperbolic functions are logarithms of pairs.

    exp     x = n ln 2 / 8 + r, |r| <= ln 2 / 16;  e^x = 2^(n/8) (1 + r + r² p(r)), the eighths of n from a table;
            in f32, and where 1 is taken from it, x = n ln 2 + r, |r| <= ln 2 / 2, and no table
    log     x = 2^k m; m c = 1 + r with c near 1 / m from a table of sixteen, |r| <= 1/32, and c = 1 where x is near 1;
            log x = k log 2 - log c + r + r² (r p(r) - 1/2)
    others  from these two, with the rounding errors of 1 + x and of k log 2 carried along

What is not a positive normal number (or too large to be squared) is rare: a branch that a vector takes where any of
its elements wants it.

Method: Muller, "Elementary Functions" (2016), chapters 3 and 11; logarithms by tables after Tang (1990).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu import coefficients as known
from dlvm_py.backend.cpu.expression import (
    Pair,
    X,
    clamped,
    halved,
    polynomial_in_halves,
    polynomial_in_pairs,
    polynomial_of,
    power_of_two,
    product_of,
    raised,
    scaled,
    scaled_sum,
    split,
    sum_of,
    two_sum,
    whole,
)
from dlvm_py.backend.cpu.values import V
from dlvm_py.frozen import Frozen


def _base(x: X) -> tuple[float, float, float]:
    """What `split` needs for e."""
    return known.LOG2_E[x.kind][0], *known.LN2[x.kind]


def small_expm1(r: X) -> X:
    """e^r - 1 for |r| <= ln 2 / 2."""
    return (r * r).fma(polynomial_in_halves(r, known.EXP[r.kind]), r)


def exp(x: X, less: int = 0) -> X:
    """e^x / 2^less."""
    if x.kind == "float":
        x = _bounded(x, less=less)
        n, number, r = split(x, _base(x))
        return scaled(1.0 + small_expm1(r), *_less(x, n, number, less))
    return _by_eighths(x, f"exp.{less}", _base(x), (1.0, *known.EXP_SHORT[x.kind]), less)


def exp_parts(x: X, low: X) -> tuple[V, X, X]:
    """(n, y, z) with e^(x + low) = 2^n (y + z), z far below the last place of y; |x| within the bounds of `exp`."""
    n, number, r = split(x, (_base(x)[0], _base(x)[1], 0.0))
    r, rest = two_sum(r, (-number).fma(_base(x)[2], low))
    high, lost = sum_of(1.0, r)
    return n, high, lost + (r * r).fma(polynomial_in_halves(r, known.EXP[x.kind]), rest)


def exp2(x: X) -> X:
    """2^x."""
    base = 1.0, 1.0, 0.0  # r is exact
    if x.kind == "float":
        n, number, r = split(_bounded(x, known.LOG2_E[x.kind][0]), base)
        return scaled(r.fma(polynomial_of(r, known.EXP2[x.kind]), 1.0), n, number)
    return _by_eighths(x, "exp2", base, known.EXP2_SHORT[x.kind])


def _short_sum(r: X, terms: Sequence[float]) -> X:
    """Σ terms[k] r^(k + 1) of seven terms: three and the four behind them beside each other."""
    a, b, c, *others = terms
    square = r * r
    first = square.fma(r.fma(c, b), r if a == 1.0 else r * a)
    return (square * square).fma(polynomial_in_pairs(r, others), first)


def _bounded(x: X, factor: float = 1.0, less: int = 0) -> X:
    """x, but where the result is 0 or infinite anyway."""
    return clamped(x, x.form.underflow * factor, (x.form.overflow + less) * factor)


def _less(x: X, n: V, number: X, less: int) -> tuple[V, X]:
    """An exponent less an integer."""
    return (x.f.op("sub", n, whole(x, less)), number - float(less)) if less else (n, number)


def _by_eighths(
    x: X,
    name: str,
    base: tuple[float, float, float],
    terms: Sequence[float],
    less: int = 0,
    usual: bool = True,
) -> X:
    """b^x / 2^less: 2^(n/8) by a table, times 1 and the sum of what is left, by its terms. base: of `split`, for b.

    A number goes a way without bounds and in one step where the result is normal; it has the same bits.
    """
    factor = known.LOG2_E[x.kind][0] / base[0]
    is_short = usual and x.lanes == 1
    n, number, r = split(x if is_short else _bounded(x, factor, less), base, 8)
    part = x.of_table("exp2", known.EXP2_TABLE, n)
    n, number = _less(x, halved(x, n, 3), number, less)
    if not is_short:
        return scaled_sum(part, _short_sum(r, terms), n, number)
    part = raised(part, n)
    found = _short_sum(r, terms).fma(part, part)
    others = functools.partial(_by_eighths, name=name, base=base, terms=terms, less=less)
    return found.rarely(abs(x).compare("uge", 700.0 * factor), name, functools.partial(others, usual=False), x)


def expm1(x: X) -> X:
    """e^x - 1."""
    given = x
    # below the lower bound the result is -1
    x = clamped(x, -(x.form.bits + 2.0) * known.LN2[x.kind][0], x.form.overflow)
    n, number, r = split(x, (_base(x)[0], _base(x)[1], 0.0))
    r, lost = sum_of(r, -number * _base(x)[2])
    tail = (r * r).fma(polynomial_in_halves(r, known.EXP[x.kind]), lost)
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


def _sections(x: X) -> tuple[X, V, X, V]:
    """(k, k shifted to the exponent, m, i) of a positive normal x = 2^k m, m from 1 - 1/64 on, in section i of 16.

    The sections begin at 1 - 1/64 and every 1/16 behind 1 - 1/32: each lies around a number of four digits.
    """
    f, form = x.f, x.form
    low = whole(x, (form.bias << form.bits) - (1 << form.bits - 5))
    distance = f.op("sub", x.bits(), low)
    index = f.op("lshr", distance, whole(x, form.bits - 4))
    m = f.op("add", f.op("and", distance, whole(x, (1 << form.bits) - 1)), low)
    shifted = f.op("and", distance, whole(x, -1 << form.bits))
    if form.type == "float" or x.lanes == 1 or f.module.masks:
        k = X(f, f.cast("sitofp", f.op("ashr", distance, whole(x, form.bits)), x.v.type))
    else:  # by the pattern of magic + k: a conversion of i64 has no vector form before AVX-512
        magic = x.of(2.0**form.bits)
        biased = f.op("lshr", f.op("add", distance, whole(x, form.bias << form.bits)), whole(x, form.bits))
        k = x.from_bits(f.op("or", biased, magic.bits())) - (2.0**form.bits + form.bias)
    return k, shifted, x.from_bits(m), index


class _Base(Frozen):
    """A base of logarithms: what 1 is in natural ones, log of 2 in two parts, the logarithms of the sections."""

    name: str
    unit: dict[str, tuple[float, ...]] | None
    of_two: dict[str, tuple[float, ...]] | None
    table: dict[str, tuple[float, ...]]
    table_low: dict[str, tuple[float, ...]]


_NATURAL = _Base("log", None, known.LN2_SHORT, known.LOG_TABLE, known.LOG_TABLE_LOW)
_BINARY = _Base("log2", known.LOG2_E, None, known.LOG2_TABLE, known.LOG2_TABLE_LOW)
_DECIMAL = _Base("log10", known.LOG10_E, known.LOG10_2, known.LOG10_TABLE, known.LOG10_TABLE_LOW)


def _log_of_normal(x: X, low: X | None = None, base: _Base = _NATURAL) -> X:
    """log(x + low) for a positive normal x and what is far below it."""
    kind = x.kind
    k, shifted, m, index = _sections(x)
    c = x.of_table("inverse", known.INVERSE_TABLE, index)
    high, rest = (x.of_table(base.name, base.table, index), x.of_table(f"{base.name}.low", base.table_low, index))
    if base.of_two is None:
        total = k + high
    else:
        total, rest = k.fma(base.of_two[kind][0], high), k.fma(base.of_two[kind][1], rest)
    # m c - 1: exact around 1, where c is 1
    r = m.fma(c, -1.0)
    if low is not None:
        back = x.from_bits(x.f.op("sub", whole(x, x.form.bias << x.form.bits), shifted))  # 2^-k
        r, lost = sum_of(r, low * back * c)
        rest = rest + lost
    tail = r.fma(polynomial_in_pairs(r, known.LOG1P[kind]), -0.5)
    if base.unit is None:
        rest = (r * r).fma(tail, rest)
    else:
        scale, scale_low = base.unit[kind]
        rest = (r * r * scale).fma(tail, r.fma(scale_low, rest))
        r, lost = product_of(r, scale)
        rest = rest + lost
    total, slip = sum_of(total, r)  # of a sum whose first term is larger, or 0
    return total + (slip + rest)


def _log_of_any(base: _Base) -> Callable[[X], X]:
    """The logarithm of what may be subnormal or no positive number."""

    def found(x: X) -> X:
        is_small = x.compare("olt", x.form.tiny)
        digits = x.form.bits + 2.0
        level = _log_of_normal((x * 2.0**digits).where(is_small, x), base=base)
        two = base.of_two[x.kind] if base.of_two else (1.0, 0.0)
        level = (level - digits * two[0] - digits * two[1]).where(is_small, level)
        level = x.where(x.compare("oeq", math.inf), level)
        level = level.unless(x.compare("oeq", 0.0), -math.inf)
        level = level.unless(x.compare("olt", 0.0), math.nan)
        return x.where(x.is_nan(), level)

    return found


def log_in(base: _Base) -> Callable[[X], X]:
    """The logarithm to a base."""

    def found(x: X) -> X:
        is_rare = x.is_outside(x.form.tiny, math.inf)
        return _log_of_normal(x, base=base).rarely(is_rare, base.name, _log_of_any(base), x)

    return found


log, log2, log10 = log_in(_NATURAL), log_in(_BINARY), log_in(_DECIMAL)


def log1p(x: X) -> X:
    """log(1 + x)."""
    u, low = two_sum(x.of(1.0), x)
    found = _log_of_normal(u, low).sign_of(x)
    return found.rarely(u.is_outside(x.form.tiny, _large(x)), "log1p", _log1p_of_any, x)


def _log1p_of_any(x: X) -> X:
    """log(1 + x) where x is large, or that is infinite or no number."""
    return log(x).unless(x.compare("oeq", -1.0), -math.inf)


def log_of_normal_pair(x: X) -> Pair:
    """log x of a positive normal x as a pair, with a relative error near 2^-64 in f64 and 2^-33 in f32."""
    kind = x.kind
    k, _, m, index = _sections(x)
    ln2, table = known.LN2_SHORT[kind], _NATURAL
    total = k.fma(ln2[0], x.of_table(table.name, table.table, index))
    rest = k.fma(ln2[1], x.of_table(f"{table.name}.low", table.table_low, index))
    # m c = 1 + r + r_low; log of that is r - r²/2 + r³ p + (1 - r + r²) r_low
    product, r_low = product_of(m, x.of_table("inverse", known.INVERSE_TABLE, index))
    r = product - 1.0
    square, square_low = product_of(r, r)
    cube = (square * r).fma(polynomial_in_pairs(r, known.LOG1P_LONG[kind]), square_low * -0.5)
    rest = rest + ((square - r).fma(r_low, r_low) + cube)
    total, slip = sum_of(total, r)
    total, slip_2 = sum_of(total, -0.5 * square)
    return sum_of(total, rest + (slip + slip_2))


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
    small = (a * z).fma(polynomial_in_halves(z, known.SINH[x.kind]), a)
    half = exp(a, 1)
    large = half - 0.25 / half
    return large.where(is_large, small).sign_of(x)


def cosh(x: X) -> X:
    """The hyperbolic cosine."""
    half = exp(abs(x), 1)
    return half + 0.25 / half


def tanh(x: X) -> X:
    """The hyperbolic tangent."""
    a = abs(x)
    limit = 22.0
    bounded = a.unless(a.compare("ogt", limit), limit)
    y = _tanh_single(bounded) if x.kind == "float" else _tanh_double(bounded)
    return y.sign_of(x)


def _tanh_single(a: X) -> X:
    """tanh a, where e^(2a) is no infinity: a polynomial up to 0.55, 1 - 2 / (e^(2a) + 1) above."""
    z = a * a
    small = (a * z).fma(polynomial_in_pairs(z, known.TANH[a.kind]), a)
    n, _, r = split(a + a, _base(a))
    large = 1.0 - 2.0 / ((1.0 + small_expm1(r)) * power_of_two(a, n) + 1.0)
    return small.where(a.compare("olt", 0.55), large)


def _tanh_double(a: X) -> X:
    """tanh a by t = e^(2a) - 1."""
    t = expm1(2.0 * a)
    # t / (t + 2), with what the sum and the quotient have lost
    below = t + 2.0
    lost = (2.0 - below) + t
    inverse = 1.0 / below
    y = t * inverse
    rest = (-y).fma(lost, (-y).fma(below, t))
    return rest.fma(inverse, y)


def _large(x: X) -> float:
    """A number whose square is finite, and beside whose square 1 is nothing."""
    return 2.0 ** (x.form.bias // 2 - 11)


def _log_of_large(x: X) -> X:
    """log 2x of a large x, infinity or NaN."""
    ln2 = known.LN2[x.kind]
    return log(x) + ln2[1] + ln2[0]


def asinh(x: X) -> X:
    """The inverse hyperbolic sine, log(a + √(1 + a²))."""
    a = abs(x)
    total = a.fma(a, 1.0)
    lost = a.fma(a, 1.0 - total)
    root = total.sqrt()
    root_low = ((-root).fma(root, total) + lost) / (root + root)
    u, low = sum_of(root, a)
    found = _log_of_normal(u, low + root_low)
    return found.rarely(a.is_outside(0.0, _large(x)), "asinh", _log_of_large, a).sign_of(x)


def acosh(x: X) -> X:
    """The inverse hyperbolic cosine, log(x + √(x² - 1))."""
    square, square_low = product_of(x, x)
    total, lost = sum_of(square, x.of(-1.0))
    root = total.sqrt()
    double = root + root
    root_low = ((-root).fma(root, total) + (lost + square_low)) / double.unless(double.compare("oeq", 0.0), 1.0)
    u, low = sum_of(x, root)
    found = _log_of_normal(u, low + root_low)
    return found.rarely(x.is_outside(1.0, _large(x)), "acosh", _acosh_of_any, x)


def _acosh_of_any(x: X) -> X:
    """The inverse hyperbolic cosine of what is large, or no number from 1 on."""
    return _log_of_large(x).unless(x.compare("olt", 1.0), math.nan)


def atanh(x: X) -> X:
    """The inverse hyperbolic tangent, log((1 + a) / (1 - a)) / 2."""
    a = abs(x)
    above, above_low = sum_of(1.0, a)
    below, below_low = sum_of(1.0, -a)
    inverse = 1.0 / below
    y = above * inverse
    low = ((-y).fma(below, above) + (-y).fma(below_low, above_low)) * inverse
    found = 0.5 * _log_of_normal(y, low)
    return found.rarely(a.is_outside(0.0, 1.0), "atanh", _atanh_of_any, a).sign_of(x)


def _atanh_of_any(a: X) -> X:
    """The inverse hyperbolic tangent from 1 on."""
    return a.of(math.nan).unless(a.compare("oeq", 1.0), math.inf)
