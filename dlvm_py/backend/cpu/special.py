"""digamma and its derivatives, which libm has not: recurrence, series and reflection, as ir/ops/special.py states them.

Every width is computed in f64. The code is straight: where a branch is not taken its value is left out by
a select.
"""

from __future__ import annotations

import math
from typing import Any

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.elementary import own
from dlvm_py.backend.cpu.floating import fc, intrinsic
from dlvm_py.backend.cpu.values import V
from dlvm_py.ir import DType
from dlvm_py.ir.ops.special import DIGAMMA, RAISED, TRIGAMMA, cotangent_derivative, polygamma_terms, raised_for


def _in_double(emit: Any) -> Any:
    """An emitter on doubles, for `float` too."""

    def wrapped(c: Code, dtype: DType, attrs: dict[str, Any], x: V) -> V:
        if x.type == "double":
            return emit(c, x, **attrs)
        return c.cast("fptrunc", emit(c, c.cast("fpext", x, "double"), **attrs), x.type)

    return wrapped


def _raised(c: Code, x: V, step: Any, limit: int = RAISED) -> tuple[V, V]:
    """(Σ step(1 / z) over the steps of the recurrence, the z >= limit that they end at), from 1 - x if x < 0."""
    one, zero = fc(x, 1.0), fc(x, 0.0)
    z = c.select(c.fcmp("olt", x, zero), c.fop("fsub", one, x), x)
    total = zero
    for _ in range(limit):
        low = c.fcmp("olt", z, fc(x, limit))
        part = step(c.fop("fdiv", one, z))
        total = c.select(low, c.fop("fadd", total, part), total)
        z = c.select(low, c.fop("fadd", z, one), z)
    return total, z


def _series(c: Code, terms: tuple[float, ...], w: V) -> V:
    total = fc(w, terms[-1])
    for term in terms[-2::-1]:
        total = c.fop("fadd", fc(w, term), c.fop("fmul", w, total))
    return total


def _fraction(c: Code, x: V) -> V:
    """π times the distance to the nearest integer."""
    return c.fop("fmul", fc(x, math.pi), c.fop("fsub", x, intrinsic(c, "rint", x)))


def _digamma(c: Code, x: V) -> V:
    zero, one = fc(x, 0.0), fc(x, 1.0)
    y, z = _raised(c, x, c.fneg)
    inverse = c.fop("fdiv", one, z)
    w = c.fop("fmul", inverse, inverse)
    tail = c.fop("fmul", w, _series(c, DIGAMMA, w))
    near = c.fop("fsub", own(c, "log", z), c.fop("fmul", fc(x, 0.5), inverse))
    y = c.fop("fadd", y, c.fop("fsub", near, tail))
    # ψ(x) = ψ(1 - x) - π / tan πx
    mirrored = c.fop("fsub", y, c.fop("fdiv", fc(x, math.pi), own(c, "tan", _fraction(c, x))))
    pole = c.fcmp("oeq", x, intrinsic(c, "rint", x))
    mirrored = c.select(pole, fc(x, math.nan), mirrored)
    return c.select(c.fcmp("olt", x, zero), mirrored, y)


def _trigamma(c: Code, x: V) -> V:
    zero, one = fc(x, 0.0), fc(x, 1.0)
    y, z = _raised(c, x, lambda inverse: c.fop("fmul", inverse, inverse))
    inverse = c.fop("fdiv", one, z)
    w = c.fop("fmul", inverse, inverse)
    near = c.fop("fadd", inverse, c.fop("fmul", fc(x, 0.5), w))
    tail = c.fop("fmul", c.fop("fmul", w, inverse), _series(c, TRIGAMMA, w))
    y = c.fop("fadd", y, c.fop("fadd", near, tail))
    # ψ'(x) = π² / sin² πx - ψ'(1 - x)
    s = c.fop("fdiv", fc(x, math.pi), own(c, "sin", _fraction(c, x)))
    mirrored = c.fop("fsub", c.fop("fmul", s, s), y)
    return c.select(c.fcmp("olt", x, zero), mirrored, y)


def _power(c: Code, x: V, n: int) -> V:
    """x to a power of 1 or more, by squaring."""
    result, square = None, x
    while True:
        if n & 1:
            result = square if result is None else c.fop("fmul", result, square)
        n >>= 1
        if not n:
            assert result is not None
            return result
        square = c.fop("fmul", square, square)


def _cotangent(c: Code, x: V) -> V:
    """cot πx; near the halves, where it is 0, by its own complement."""
    f = c.fop("fsub", x, intrinsic(c, "rint", x))
    size = intrinsic(c, "fabs", f)
    is_small = c.fcmp("olt", size, fc(x, 0.25))
    distance = c.select(is_small, f, c.fop("fsub", fc(x, 0.5), size))
    t = own(c, "tan", c.fop("fmul", fc(x, math.pi), distance))
    return c.select(is_small, c.fop("fdiv", fc(x, 1.0), t), intrinsic(c, "copysign", t, f))


def _polygamma(c: Code, x: V, order: int) -> V:
    one, step = fc(x, 1.0), fc(x, float(math.factorial(order)))
    y, z = _raised(c, x, lambda inverse: c.fop("fmul", step, _power(c, inverse, order + 1)), raised_for(order))
    inverse = c.fop("fdiv", one, z)
    w = c.fop("fmul", inverse, inverse)
    first, second, *rest = polygamma_terms(order)
    near = c.fop("fadd", fc(x, first), c.fop("fmul", fc(x, second), inverse))
    series = c.fop("fadd", near, c.fop("fmul", w, _series(c, tuple(rest), w)))
    y = c.fop("fadd", y, c.fop("fmul", series, _power(c, inverse, order)))
    # ψₙ(x) = -πⁿ⁺¹ P(cot πx) + (-1)ⁿ ψₙ(1 - x)
    slope = c.fop("fmul", fc(x, -(math.pi ** (order + 1))), _series(c, cotangent_derivative(order), _cotangent(c, x)))
    mirrored = c.fop("fsub", slope, y)
    return c.select(c.fcmp("olt", x, fc(x, 0.0)), mirrored, y if order % 2 else c.fneg(y))


digamma, trigamma, polygamma = _in_double(_digamma), _in_double(_trigamma), _in_double(_polygamma)
