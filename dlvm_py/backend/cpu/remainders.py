"""fmod: the exact remainder of x / y with the sign of x.

    q = floor(|x| / |y|)       as rounded: the right integer, or one more where the quotient was rounded up to it
    r = |x| - q |y|            one fma, exact: r is a multiple of the last place of the smaller one, and not above |y|
    r + |y| where r < 0        exact as well

That is all while q < 2^53 (2^24 in f32). Of larger quotients |y| 2^n, with n as large as possible, is taken off first,
until n = 0: each time the quotient has 51 bits less (22).
"""

from __future__ import annotations

import math

from dlvm_py.backend.cpu.expression import X, scaled, whole
from dlvm_py.backend.cpu.values import V, i64


def fmod(x: X, y: X) -> X:
    """x - trunc(x / y) y."""
    a, b = abs(x), abs(y)
    found, quotient = _rest(a, b)
    f = x.f
    is_number = f.both(a.compare("olt", math.inf), b.compare("ogt", 0.0))
    is_large = f.both(is_number, quotient.compare("oge", 2.0 ** (x.form.bits + 1)))
    found = found.rarely(is_large, "fmod", _rest_of_large, a, b)
    return found.where(is_number, math.nan).sign_of(x)


def _rest(a: X, b: X) -> tuple[X, X]:
    """The rest of a / b, and the quotient, as rounded; of the smaller a it is a itself, for an infinite b too."""
    quotient = a / b
    rest = (-quotient.floor()).fma(b, a)
    rest = (rest + b).where(rest.compare("olt", 0.0), rest)
    return a.where(quotient.compare("olt", 1.0), rest), quotient


def _rest_of_large(a: X, b: X) -> X:
    """The same where a / b may be large, and infinite as it is rounded; a is finite and b is not 0."""
    f, form = a.f, a.form
    step = form.bits - 1
    divisor = b.where(b.compare("olt", math.inf), 1.0)  # an infinite one has no multiples
    widened = divisor * 2.0 ** (form.bits + 2)
    # a subnormal one has the exponent of a multiple
    is_small = divisor.compare("olt", 2.0 ** (-form.bias // 2))
    shift = whole(a, form.bits + 2)
    exponent = f.select(is_small, f.op("sub", _exponent(widened), shift), _exponent(divisor))
    # exponents differ by at most as many as there are, and as a subnormal number has bits
    times = 2 + (2 * form.bias + form.bits) // step
    with f.loop(i64(times), [a.v]) as loop:
        rest = X(f, loop.carried[0])
        n = f.op("sub", f.op("sub", _exponent(rest), exponent), whole(a, step))
        n = f.select(f.icmp("sgt", n, whole(a, 0)), n, whole(a, 0))
        loop.next = [_rest(rest, scaled(divisor, n))[0].v]
    return a.where(b.compare("oeq", math.inf), X(f, loop.results[0]))


def _exponent(x: X) -> V:
    """The exponent of a number that is not negative, with its bias; 0 of zero and subnormal numbers."""
    return x.f.op("lshr", x.bits(), whole(x, x.form.bits))
