"""sin, cos, tan and their inverses.

    sin, cos   n = the integer nearest to x · 2/π, r = x - n π/2 as a pair, by a sum of three floats for π/2 and fma;
               polynomials for sin r and cos r, chosen and signed by n mod 4
    atan       a quotient t of at most tan π/8 by the addition theorem, with one division
    asin       a polynomial up to 1/2, above it π/2 - 2 asin √((1 - x) / 2)

The sum of three floats serves up to a bound (FAR) beyond which angles are rare. There a function of its own
reduces by the digits of 2/π that matter, in integers, behind a branch that a vector takes where any of its elements
lies beyond the bound. An element's value depends on nothing but the element.

Source: Cody and Waite (1980); Payne and Hanek (1983); Muller, "Elementary Functions" (2016), chapter 11.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

from dlvm_py.backend.cpu import coefficients as known
from dlvm_py.backend.cpu.expression import (
    Pair,
    X,
    either,
    nearest,
    polynomial,
    polynomial_in_pairs,
    product_of,
    sum_of,
    two_sum,
    whole,
)
from dlvm_py.backend.cpu.text import FunctionText, ModuleText, plain_loop
from dlvm_py.backend.cpu.values import V, i64, in_lanes

# beyond this size the reduction by three floats may lose digits
FAR = {"double": 2.0**40, "float": 2.0**16}
# up to this size, a bit below π/4, an angle is its own rest, with nothing below it
NEAR = 0.785
# not worth the optimiser's time
_RARE = "internal |nounwind noinline optnone"
_PURE = f"{_RARE} willreturn memory(none)"


def _reduced(x: X) -> tuple[V, Pair]:
    """(n, x - n π/2 as a pair), exact up to FAR."""
    type = x.kind
    n, number = nearest(x, known.TWO_OVER_PI[type][0])
    first, second, third = known.HALF_PI[type]
    rest = (-number).fma(first, x)  # exact
    step, step_low = product_of(number, second)
    # the sum of both, and the two halves of what it loses with what is below them: low ends no later than the sine of r
    r = rest - step
    part = r - rest
    return n, (r, (rest - (r - part)) + ((-step - part) + (-number).fma(third, -step_low)))


def _minus_of_square(z: X, table: Mapping[str, Sequence[float]]) -> X:
    """Minus a polynomial of z, whose square the cosine needs anyway: up to three terms in a chain, more in pairs."""
    terms = [-term for term in table[z.kind]]
    return polynomial_in_pairs(z, terms) if len(terms) > 3 else polynomial(z, terms)


def sine_terms(r: X, low: X) -> Pair:
    """(first term, minus the others) of sin(r + low), |r| <= π/4; of -0 the others are no -0, so that it stays -0."""
    z = r * r
    return r, (z * r).fma(_minus_of_square(z, known.SIN), (0.5 * z).fma(low, -low))


def cosine_terms(r: X, low: X) -> Pair:
    """(first term, minus the others) of cos(r + low), |r| <= π/4."""
    z = r * r
    half = 0.5 * z
    first, lost = sum_of(1.0, -half)
    return first, (z * z).fma(_minus_of_square(z, known.COS), r * low) - lost


def _negated_where_odd(y: X, n: V, bit: int) -> X:
    """-y where this bit of n is set."""
    f, form = y.f, y.form
    top = form.bits + form.bias.bit_length() + 1
    sign = f.op("shl", f.op("lshr", n, whole(y, bit)), whole(y, top))
    return y.from_bits(f.op("xor", y.bits(), sign))


def _is_odd(x: X, n: V) -> V:
    return x.f.cast("trunc", n, in_lanes("i1", x.lanes))


def _sin_of(n: V, pair: Pair) -> X:
    s, c = sine_terms(*pair), cosine_terms(*pair)
    odd = _is_odd(s[0], n)
    return _negated_where_odd(c[0].where(odd, s[0]) - c[1].where(odd, s[1]), n, 1)


def _cos_of(n: V, pair: Pair) -> X:
    s, c = sine_terms(*pair), cosine_terms(*pair)
    odd = _is_odd(s[0], n)
    above = s[0].f.op("add", n, whole(s[0], 1))
    return _negated_where_odd(s[0].where(odd, c[0]) - s[1].where(odd, c[1]), above, 1)


def _tan_of(n: V, pair: Pair) -> X:
    return _tan_single(n, pair) if pair[0].kind == "float" else _tan_double(n, pair)


def _tan_single(n: V, pair: Pair) -> X:
    """By a polynomial for tan r, and -1 over it."""
    r, low = pair
    z = r * r
    tail = (z * r).fma(polynomial_in_pairs(z, known.TAN[r.kind]), z.fma(low, low))
    y, lost = sum_of(r, tail)
    inverse = 1.0 / y
    rest = (-inverse).fma(lost, (-inverse).fma(y, 1.0))
    return _negated_where_odd(inverse.fma(rest, inverse).where(_is_odd(r, n), y), n, 0)


def _tan_double(n: V, pair: Pair) -> X:
    """By polynomials for sin r and cos r as pairs, and a quotient of them."""
    r, low = pair
    first, others = sine_terms(r, low)
    s = sum_of(first, -others)
    z = r * r
    less = 0.5 * z + (z * z).fma(_minus_of_square(z, known.COS), r * low)
    c = sum_of(1.0, -less)
    odd = _is_odd(r, n)
    above, above_low = c[0].where(odd, s[0]), c[1].where(odd, s[1])
    below, below_low = s[0].where(odd, c[0]), s[1].where(odd, c[1])
    inverse = 1.0 / below
    y = above * inverse
    rest = (-y).fma(below_low, (-y).fma(below, above) + above_low)
    return _negated_where_odd(rest.fma(inverse, y), n, 0)


_CHOICES: dict[str, Callable[[V, Pair], X]] = {"sin": _sin_of, "cos": _cos_of, "tan": _tan_of}


def periodic(name: str) -> Callable[[X], X]:
    """sin, cos or tan."""

    def found(x: X) -> X:
        near = _CHOICES[name](*_reduced(x))
        found = near.rarely(abs(x).compare("ogt", FAR[x.kind]), name, functools.partial(_far, name), x)
        # -0 less 0 times π/2 is -0, so that the sine of it is, if all parts of π/2 have one sign
        keeps = name == "cos" or (name == "sin" and known.HALF_PI[x.kind][1] > 0)
        return found if keeps else _zero_kept(x, found)

    return found


def waiting_less(name: str) -> Callable[[X], X]:
    """sin, cos or tan of a single number, the same bits as `periodic`: a small one waits for no reduction.

    A loop in which each angle follows from the last waits for nothing else. Where two of the functions have one
    argument their branches would keep them from sharing what they compute.
    """

    def as_it_is(x: X) -> X:
        found = _CHOICES[name](whole(x, 0), (x, x.of(0.0)))
        return _zero_kept(x, found) if name == "tan" else found

    def found(x: X) -> X:
        small, usual = functools.partial(as_it_is, x), functools.partial(periodic(name), x)
        return either(x.f, abs(x).compare("ole", NEAR), small, usual)

    return found


def _zero_kept(x: X, y: X) -> X:
    return x.where(x.compare("oeq", 0.0), y)


# -- angles beyond the bound -----------------------------------------------------------------------------


def _far(name: str, x: X) -> X:
    """The value at angles beyond FAR, one lane after the other; any at others."""
    f = x.f
    function = _far_function(f.module, name, x.kind)
    if x.lanes == 1:
        return X(f, f.call(f"@{function}", x.kind, [x.v]))
    place = f.alloca(x.v.type, 64)
    f.store(x.v, place)
    f.call(f"@{_each(f.module, x.kind)}", "void", [place, i64(x.lanes), V("ptr", f"@{function}")])
    return X(f, f.load(x.v.type, place))


def _far_function(module: ModuleText, name: str, type: str) -> str:
    """The function for angles beyond FAR: 0 for others, NaN for infinities."""
    symbol = f"elementary.far.{name}.{type}"
    if symbol not in module.functions:
        _reduction(module)
        f = FunctionText(module, symbol, type, [type], _PURE)
        x = X(f, f.params[0])
        beyond, within = f.label("beyond"), f.label("within")
        size = abs(x)
        is_far = f.both(size.compare("ogt", FAR[type]), size.compare("olt", math.inf))
        f.likely(is_far, beyond, within)
        f.place(within)
        f.line(f"ret {type} {(x - x).v.ref}")
        f.place(beyond)
        reduced = f.call("@elementary.far.reduce", "{ double, double, i64 }", [x.to("double").v])
        pair = X(f, f.extract(reduced, 0, "double")), X(f, f.extract(reduced, 1, "double"))
        y = _CHOICES[name](f.extract(reduced, 2, "i64"), pair)
        f.line(f"ret {type} {y.to(type).v.ref}")
    return symbol


def _each(module: ModuleText, type: str) -> str:
    """A function that replaces n numbers in memory by their values under a function."""
    name = f"elementary.far.each.{type}"
    if name not in module.functions:
        f = FunctionText(module, name, "void", ["ptr", "i64", "ptr"], _RARE)
        place, count, function = f.params
        with f.loop(count, note=plain_loop(f)) as loop:
            at = f.gep(type, place, loop.index)
            f.store(f.call(function.ref, type, [f.load(type, at)]), at)
        f.line("ret void")
    return name


def _reduction(module: ModuleText) -> None:
    """`@elementary.far.reduce`: (r, its low part, n mod 4) of a finite double beyond 2^16, r = x - n π/2.

    x = m 2^e with an integer m. Of the digits of 2/π those from 2^(2 - e) on count, modulo 4; 256 of them times m
    are the product to 2^-194, where the nearest multiple of π/2 is not nearer than 2^-62.
    """
    if "elementary.far.reduce" in module.functions:
        return
    bits = known.TWO_OVER_PI_BITS
    digits = int(known.TWO_OVER_PI_DIGITS, 16).to_bytes(bits // 8 + 8, "little")
    text = "".join(f"\\{byte:02X}" for byte in digits)
    module.constant("elementary.far.two_over_pi", f'[{len(digits)} x i8] c"{text}"')
    f = FunctionText(module, "elementary.far.reduce", "{ double, double, i64 }", ["double"], _PURE)
    x = X(f, f.params[0])
    pattern = abs(x).bits()
    e = f.op("sub", f.op("lshr", pattern, i64(52)), i64(1075))
    m = f.op("or", f.op("and", pattern, i64(2**52 - 1)), i64(2**52))
    # the first of the 256 digits, at a byte; what is left of e, from 0 to 7, goes to m
    lowest = f.op("sub", i64(bits - 247), e)
    skipped = f.op("and", lowest, i64(-8))
    m = f.op("shl", m, f.op("sub", i64(7), f.op("sub", lowest, skipped)))
    address = f.gep("i8", V("ptr", "@elementary.far.two_over_pi"), f.op("lshr", skipped, i64(3)))
    wide, carry = f.cast("zext", m, "i128"), V("i128", "0")
    words = []
    for k in range(4):
        word = f.value("i64", f"load i64, ptr {f.gep('i64', address, i64(k)).ref}, align 1")
        product = f.op("add", f.op("mul", f.cast("zext", word, "i128"), wide), carry)
        words.append(f.cast("trunc", product, "i64"))
        carry = f.op("lshr", product, V("i128", "64"))
    # two bits before the point; rounded, so that the fraction is signed
    n = f.op("lshr", f.op("add", words[3], i64(2**61)), i64(62))
    fraction = [
        f.op("or", f.op("shl", a, i64(2)), f.op("lshr", b, i64(62)))
        for a, b in zip(words[3:0:-1], words[2::-1], strict=True)
    ]
    high, low = x.of(0.0), x.of(0.0)
    for k, word in enumerate(fraction):
        halves = f.op("lshr" if k else "ashr", word, i64(32)), f.op("and", word, i64(2**32 - 1))
        for j, half in enumerate(halves):
            part = X(f, f.cast("sitofp", half, "double")) * 2.0 ** -(64 * k + 32 * (j + 1))
            high, lost = two_sum(high, part)
            low = low + lost
    first, second, _ = known.HALF_PI["double"]
    r, r_low = product_of(high, first)
    r_low = r_low + high.fma(second, low * first)
    r, r_low = sum_of(r, r_low)
    is_negative = x.is_negative()
    n = f.select(is_negative, f.op("sub", i64(0), n), n)
    r, r_low = (-r).where(is_negative, r), (-r_low).where(is_negative, r_low)
    f.line(f"ret {{ double, double, i64 }} {f.pack(r.v, r_low.v, n).ref}")


# -- inverses --------------------------------------------------------------------------------------------


def _arc(a: X, b: X, is_one: bool = False) -> Pair:
    """(first term, the others) of atan(a / b) for a, b >= 0 of moderate size, b > 0 or a > 0; is_one: b is 1."""
    type = a.kind
    is_small = a.compare("ole", (math.sqrt(2) - 1) * b)
    is_large = a.compare("ogt", (math.sqrt(2) + 1) * b)
    above = a.where(is_small, (-b).where(is_large, a - b))
    total, lost = sum_of(b, a) if is_one else two_sum(a, b)
    below = b.where(is_small, a.where(is_large, total))
    lost = lost.unless(a.f.any(is_small, is_large), 0.0)
    quarter, half = known.QUARTER_PI[type], known.HALF_PI[type]
    base = a.of(0.0).where(is_small, a.of(half[0]).where(is_large, quarter[0]))
    base_low = a.of(0.0).where(is_small, a.of(half[1]).where(is_large, quarter[1]))
    inverse = 1.0 / below
    t = above * inverse
    t_low = (-t).fma(lost, (-t).fma(below, above)) * inverse
    z = t * t
    tail = (z * t).fma(polynomial(z, known.ATAN[type]), t_low + base_low)
    high, rest = two_sum(base, t)
    return high, rest + tail


def atan(x: X) -> X:
    """The inverse tangent."""
    a = abs(x)
    bounded = a.unless(a.compare("ogt", 2.0 ** (x.form.bits + 8)), 2.0 ** (x.form.bits + 8))
    high, low = _arc(bounded, a.of(1.0), is_one=True)
    return (high + low).where(a.compare("ogt", 2.0 ** -(a.form.bits // 2 + 4)), a).sign_of(x)


def atan2(y: X, x: X) -> X:
    """The angle of the point (x, y)."""
    a, b = abs(y), abs(x)
    size = 2.0 ** (y.form.bias // 2 - 11)
    found = _angle(*_arc(a, b), x)
    # 0, or what the quotient loses beside the larger one, is nothing beside 0 or π/2 as well
    is_rare = a.where(a.compare("ogt", b), b).is_outside(1.0 / size, size)
    return found.rarely(is_rare, "atan2", _atan2_of_any, a, x).sign_of(y)


def _angle(high: X, low: X, x: X) -> X:
    """The angle high + low of the point (|x|, y), or where x is negative that of (x, y)."""
    pi = known.PI[x.kind]
    left, left_low = sum_of(pi[0], -high)
    return (left + (left_low + (pi[1] - low))).where(x.is_negative(), high + low)


def _atan2_of_any(a: X, x: X) -> X:
    """The angle of the point (x, a), a >= 0, of any size."""
    b, f, form = abs(x), a.f, a.form
    # both infinite: the diagonal; both 0: angle 0; else neither overflow nor loss in a sum or a residual
    both_infinite = f.both(a.compare("oeq", math.inf), b.compare("oeq", math.inf))
    a, b = a.unless(both_infinite, 1.0), b.unless(both_infinite, 1.0)
    b = b.unless(f.both(a.compare("oeq", 0.0), b.compare("oeq", 0.0)), 1.0)
    is_large = f.any(a.compare("ogt", 1.0), b.compare("ogt", 1.0))
    size = 2.0 ** (form.bits + 8)
    factor = a.of(1.0 / size).where(is_large, size)
    angle = _angle(*_arc(a * factor, b * factor), x)
    # one far beyond the other: no sum shows it, and the quotient may underflow
    angle = (a / b).unless(x.is_negative(), known.PI[a.kind][0]).where(a.compare("olt", b * (1.0 / size)), angle)
    return angle.unless(b.compare("olt", a * (1.0 / size)), known.HALF_PI[a.kind][0])


def _arcsine_tail(z: X) -> X:
    """(asin √z - √z) / √z³, times z."""
    return z * polynomial(z, known.ASIN[z.kind])


def _half_chord(a: X) -> tuple[X, Pair]:
    """((1 - a) / 2, its root as a pair)."""
    z = 0.5 * (1.0 - a)
    root = z.sqrt()
    low = (-root).fma(root, z) / (root + root)
    return z, (root, low.unless(root.compare("oeq", 0.0), 0.0))


def _arcsine_parts(x: X) -> tuple[X, V, X, X, X]:
    """|x|, whether it is above 1/2, half of the chord there with its low part, and the tail of the series."""
    a = abs(x)
    is_large = a.compare("ogt", 0.5)
    z, (root, low) = _half_chord(a)
    return a, is_large, root, low, _arcsine_tail(z.where(is_large, a * a))


def asin(x: X) -> X:
    """The inverse sine."""
    a, is_large, root, low, tail = _arcsine_parts(x)
    half, half_low, _ = known.HALF_PI[x.kind]
    first, lost = sum_of(half, -2.0 * root)
    near_one = first + (lost + (half_low - 2.0 * root.fma(tail, low)))
    return near_one.where(is_large, a.fma(tail, a)).sign_of(x)


def acos(x: X) -> X:
    """The inverse cosine."""
    _, is_large, root, low, tail = _arcsine_parts(x)
    half, half_low, _ = known.HALF_PI[x.kind]
    first, lost = sum_of(half, -x)
    middle = first + (lost + (half_low - x * tail))
    part = root.fma(tail, low)
    right = 2.0 * (root + part)
    pi = known.PI[x.kind]
    first, lost = sum_of(pi[0], -2.0 * root)
    left = first + (lost + (pi[1] - 2.0 * part))
    return left.where(x.compare("olt", 0.0), right).where(is_large, middle)
