"""Elementary functions of our own: exp, exp2, expm1, log, log1p, log2, log10, sinh, cosh, tanh for f32 and f64.

Each is one LLVM function without branches, made where it is first used: inlined into the loops of array kernels it
vectorises, and what it gives does not depend on the width, the position or the length. Strict floating point, fma
where it is written. Errors are below 2 ulp (tests measure them against multiple precision).

    exp     x = n ln 2 + r, |r| <= ln 2 / 2;  e^x = 2^n (1 + r + r² p(r))
    log     x = 2^k m, m in [√½, √2);  f = m - 1, s = f / (2 + f);
            log m = 2 atanh s = f - f²/2 + s (f²/2 + s² q(s²))
    others  from these two, with the rounding errors of 1 + x and of k log 2 carried along

The polynomials p and q are Chebyshev approximations of (e^r - 1 - r) / r² and of (2 atanh s - 2 s) / s³, computed with
300 bits. Method: Muller, "Elementary Functions" (2016), chapters 3 and 11; the form of log 1 + f after Tang (1990).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.values import V, float_constant
from dlvm_py.ir import DType


@dataclass(frozen=True)
class _Format:
    """A float format: LLVM's types, bits of the mantissa, and what the algorithms need of constants."""

    type: str
    whole: str
    bits: int
    bias: int
    exp: tuple[float, ...]  # p, from the constant on
    log: tuple[float, ...]  # q
    ln2: tuple[float, float]  # high and low part
    log2e: tuple[float, float]
    log10e: tuple[float, float]
    log10_2: tuple[float, float]  # the high part times an exponent is exact
    overflow: float  # e^x is infinite from here on
    underflow: float  # e^x is 0 from here on
    tiny: float  # the smallest normal number


_F64 = _Format(
    "double", "i64", 52, 1023,
    exp=(
        0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326136, 0.0013888888888883748,
        0.00019841269874820627, 2.4801587325547743e-05, 2.7557255400206422e-06, 2.75572736431103e-07,
        2.5105217004720745e-08, 2.0914686968086876e-09,
    ),
    log=(
        0.666666666666667, 0.3999999999989889, 0.28571428626253836, 0.22222211089379496, 0.1818289243253687,
        0.15331611722055008, 0.14617807153417325,
    ),
    ln2=(0.6931471805599453, 2.3190468138462996e-17),
    log2e=(1.4426950408889634, 2.0355273740931033e-17),
    log10e=(0.4342944819032518, 1.098319650216765e-17),
    log10_2=(0.30102999566383914, 1.42050232272661e-13),
    overflow=710.0, underflow=-746.0, tiny=2.2250738585072014e-308,
)  # fmt: skip
_F32 = _Format(
    "float", "i32", 23, 127,
    exp=(0.500000001346581, 0.16666666681623232, 0.041666464925285904, 0.0083333109254809, 0.0013933649996309251,
         0.00019890990824673654),
    log=(0.6666666655404201, 0.4000012221181065, 0.28550778633191964, 0.23331614471843498),
    ln2=(0.693147182464599609375, -1.904654299957767878541823432e-09),
    log2e=(1.44269502162933349609375, 1.925963033500011079360577e-08),
    log10e=(0.434294492006301879882812, -1.010305118726054454e-08),
    log10_2=(0.301025390625, 4.605038981195213738e-06),
    overflow=89.0, underflow=-104.0, tiny=1.1754943508222875e-38,
)  # fmt: skip
_FORMATS = {"double": _F64, "float": _F32}


class _X:
    """A float value in the making: Python's operators emit instructions."""

    def __init__(self, f: FunctionText, v: V) -> None:
        self.f, self.v = f, v

    def of(self, x: float | _X) -> _X:
        """A constant of the same format."""
        return x if isinstance(x, _X) else _X(self.f, float_constant(self.v.type, x))

    def _op(self, name: str, a: float | _X, b: float | _X) -> _X:
        return _X(self.f, self.f.fop(name, self.of(a).v, self.of(b).v))

    def __add__(self, other: float | _X) -> _X:
        return self._op("fadd", self, other)

    def __sub__(self, other: float | _X) -> _X:
        return self._op("fsub", self, other)

    def __rsub__(self, other: float) -> _X:
        return self._op("fsub", other, self)

    def __mul__(self, other: float | _X) -> _X:
        return self._op("fmul", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: float | _X) -> _X:
        return self._op("fdiv", self, other)

    def __rtruediv__(self, other: float) -> _X:
        return self._op("fdiv", other, self)

    def __neg__(self) -> _X:
        return _X(self.f, self.f.fneg(self.v))

    def __abs__(self) -> _X:
        return self._intrinsic("fabs")

    def _intrinsic(self, name: str, *more: float | _X) -> _X:
        width = "f64" if self.v.type == "double" else "f32"
        args = [self.v, *(self.of(x).v for x in more)]
        return _X(self.f, self.f.intrinsic(f"llvm.{name}.{width}", self.v.type, *args))

    def fma(self, b: float | _X, c: float | _X) -> _X:
        """self * b + c, rounded once."""
        return self._intrinsic("fma", b, c)

    def sign_of(self, other: _X) -> _X:
        """|self| with the sign of `other`."""
        return self._intrinsic("copysign", other)

    def compare(self, how: str, other: float | _X) -> V:
        """An ordered comparison (or "uno")."""
        return self.f.fcmp(how, self.v, self.of(other).v)

    def where(self, flag: V, other: float | _X) -> _X:
        """self where the flag holds, else `other`."""
        return _X(self.f, self.f.select(flag, self.v, self.of(other).v))

    def bits(self, form: _Format) -> V:
        """The pattern as an integer."""
        return self.f.cast("bitcast", self.v, form.whole)


def _polynomial(x: _X, terms: Sequence[float]) -> _X:
    total = x.of(terms[-1])
    for term in terms[-2::-1]:
        total = total.fma(x, term)
    return total


def _power_of_two(x: _X, n: V, form: _Format) -> _X:
    """2^n in the format of x, n an integer of a normal exponent."""
    f = x.f
    biased = f.op("add", n, V(form.whole, str(form.bias)))
    shifted = f.op("shl", biased, V(form.whole, str(form.bits)))
    return _X(f, f.cast("bitcast", shifted, form.type))


def _split(x: _X, form: _Format, base: tuple[float, float, float]) -> tuple[V, _X, _X]:
    """(n, n as a float, x - n · log base), with base = (1 / log, log high, log low); |n| is small."""
    magic = 1.5 * 2.0**form.bits  # adding it rounds to an integer, which stands in the last bits
    shifted = x.fma(base[0], magic)
    n = shifted - magic
    r = (-n).fma(base[1], x)
    r = (-n).fma(base[2], r) if base[2] else r
    f = x.f
    pattern = f.cast("bitcast", float_constant(form.type, magic), form.whole)
    return f.op("sub", shifted.bits(form), pattern), n, r


def _clamped(x: _X, low: float, high: float) -> _X:
    """x within bounds; NaN stays."""
    x = x.of(low).where(x.compare("olt", low), x)
    return x.of(high).where(x.compare("ogt", high), x)


def _small_expm1(r: _X, form: _Format) -> _X:
    """e^r - 1 for |r| <= ln 2 / 2."""
    return (r * r).fma(_polynomial(r, form.exp), r)


def _scaled(y: _X, n: V, form: _Format) -> _X:
    """y · 2^n in two steps, so that neither factor overflows before the product does."""
    f = y.f
    half = f.op("ashr", n, V(form.whole, "1"))
    rest = f.op("sub", n, half)
    return y * _power_of_two(y, half, form) * _power_of_two(y, rest, form)


def _exp(x: _X, form: _Format, less: int = 0) -> _X:
    """e^x / 2^less."""
    # beyond the bounds the result is 0 or infinite anyway
    x = _clamped(x, form.underflow, form.overflow + less)
    n, _, r = _split(x, form, (form.log2e[0], *form.ln2))
    if less:
        n = x.f.op("sub", n, V(form.whole, str(less)))
    return _scaled(1.0 + _small_expm1(r, form), n, form)


def _exp2(x: _X, form: _Format) -> _X:
    limit = form.overflow * form.log2e[0]
    n, _, r = _split(_clamped(x, form.underflow * form.log2e[0], limit), form, (1.0, 1.0, 0.0))
    # r is exact; r ln 2 in two parts
    high = r * form.ln2[0]
    low = r.fma(form.ln2[0], -high) + r * form.ln2[1]
    tail = (high * high).fma(_polynomial(high, form.exp), low)
    return _scaled(1.0 + (high + tail), n, form)


def _expm1(x: _X, form: _Format) -> _X:
    given = x
    # below the lower bound the result is -1
    x = _clamped(x, -(form.bits + 2.0) * form.ln2[0], form.overflow)
    n, _, r = _split(x, form, (form.log2e[0], *form.ln2))
    small = _small_expm1(r, form)
    # 2 (2^(n-1) small + 2^(n-1) - 1/2): 2^n itself may overflow
    f = x.f
    factor = _power_of_two(x, f.op("sub", n, V(form.whole, "1")), form)
    whole = factor.fma(small, factor - 0.5) * 2.0
    found = small.where(f.icmp("eq", n, V(form.whole, "0")), whole)
    return given.where(given.compare("oeq", 0.0), found)  # keeps -0


def _decomposed(x: _X, form: _Format) -> tuple[_X, _X]:
    """(k, m) of a positive finite x = 2^k m with m in [√½, √2)."""
    f, whole = x.f, form.whole
    subnormal = x.compare("olt", form.tiny)
    x = (x * 2.0 ** (form.bits + 2)).where(subnormal, x)
    root = x.of(math.sqrt(0.5)).bits(form)
    distance = f.op("sub", x.bits(form), root)
    k = f.op("ashr", distance, V(whole, str(form.bits)))
    m = f.op("sub", x.bits(form), f.op("shl", k, V(whole, str(form.bits))))
    # k as a float, by the pattern of magic + k: a conversion of i64 has no vector form before AVX-512
    magic = x.of(1.5 * 2.0**form.bits)
    number = _X(f, f.cast("bitcast", f.op("add", magic.bits(form), k), form.type)) - magic
    number = (number - (form.bits + 2.0)).where(subnormal, number)
    return number, _X(f, f.cast("bitcast", m, form.type))


def _log_parts(f: _X, form: _Format) -> tuple[_X, _X]:
    """(f²/2, s (f²/2 + s² q)) of log 1 + f = f - first + second."""
    s = f / (2.0 + f)
    z = s * s
    square = f * f * 0.5
    return square, s * (square + z * _polynomial(z, form.log))


def _defined(x: _X, found: _X, lowest: float) -> _X:
    """`found` where x lies between `lowest` and infinity; -inf at `lowest`, NaN below, +inf and NaN as they are."""
    found = x.where(x.compare("oeq", math.inf), found)
    found = x.of(-math.inf).where(x.compare("oeq", lowest), found)
    found = x.of(math.nan).where(x.compare("olt", lowest), found)
    return x.where(x.compare("uno", x), found)


def _log(x: _X, form: _Format) -> _X:
    k, m = _decomposed(x, form)
    f = m - 1.0
    square, rest = _log_parts(f, form)
    low = k.fma(form.ln2[1], rest)
    # k ln 2 and f are added to what is smaller
    high = k * form.ln2[0]
    error = k.fma(form.ln2[0], -high)
    total = high + f
    lost = (high - total) + f  # of a sum whose first term is larger, or 0
    return _defined(x, total + (lost + ((low + error) - square)), 0.0)


def _log1p(x: _X, form: _Format) -> _X:
    u = 1.0 + x
    k, m = _decomposed(u, form)
    f = x.f
    plain = k.compare("oeq", 0.0)
    # what rounding 1 + x has lost, in units of u
    above = 1.0 - (u - x)
    below = x - (u - 1.0)
    lost = above.where(x.compare("ogt", 1.0), below) / u
    part = x.where(plain, m - 1.0)
    lost = x.of(0.0).where(plain, lost)
    square, rest = _log_parts(part, form)
    high = k * form.ln2[0]
    error = k.fma(form.ln2[0], -high)
    total = high + part
    slip = (high - total) + part
    tail = (k.fma(form.ln2[1], rest) + error) + (lost - square)
    found = _defined(x, total + (slip + tail), -1.0)
    tiny = f.fcmp("olt", abs(x).v, x.of(2.0 ** -(form.bits + 2)).v)
    return x.where(tiny, found)


def _log_in(unit: str, of_two: Callable[[_Format], tuple[float, float]]) -> Callable[[_X, _Format], _X]:
    """log to another base: its 1 / ln base is `unit`, and log of 2 is `of_two`."""

    def found(x: _X, form: _Format) -> _X:
        scale = getattr(form, unit)
        k, m = _decomposed(x, form)
        f = m - 1.0
        square, rest = _log_parts(f, form)
        # log m as high + low
        high = f - square
        low = ((f - high) - square) + rest
        first = high * scale[0]
        tail = high.fma(scale[0], -first) + (low * scale[0] + (high + low) * scale[1])
        step = k * of_two(form)[0]
        tail = k.fma(of_two(form)[1], tail)
        total = step + first
        lost = (step - total) + first
        return _defined(x, total + (lost + tail), 0.0)

    return found


def _sinh(x: _X, form: _Format) -> _X:
    a = abs(x)
    t = _expm1(a.of(1.0).where(a.compare("ogt", 1.0), a), form)
    small = t - 0.5 * (t * t / (t + 1.0))
    half = _exp(a, form, 1)
    large = half - 0.25 / half
    return large.where(a.compare("ogt", 1.0), small).sign_of(x).where(x.compare("ord", x), x)


def _cosh(x: _X, form: _Format) -> _X:
    half = _exp(abs(x), form, 1)
    return half + 0.25 / half


def _tanh(x: _X, form: _Format) -> _X:
    a = abs(x)
    limit = 22.0
    t = _expm1(2.0 * a.of(limit).where(a.compare("ogt", limit), a), form)
    # t / (t + 2), with what the sum and the quotient have lost
    below = t + 2.0
    lost = (2.0 - below) + t
    inverse = 1.0 / below
    y = t * inverse
    rest = (-y).fma(lost, (-y).fma(below, t))
    return rest.fma(inverse, y).sign_of(x)


_RULES: dict[str, Callable[[_X, _Format], _X]] = {
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "log2": _log_in("log2e", lambda form: (1.0, 0.0)),
    "log10": _log_in("log10e", lambda form: form.log10_2),
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
}


def by_rule(name: str) -> Any:
    """The emitter of an elementary function on f32 and f64."""

    def emit(c: Code, dtype: DType, attrs: dict[str, Any], x: V) -> V:
        return c.call(f"@{_function(c, name, x.type)}", x.type, [x], "alwaysinline" if c.is_in_kernel else "")

    return emit


def _function(c: Code, name: str, type: str) -> str:
    symbol = f"dlvm.{name}.{type}"
    if symbol not in c.module.functions:
        f = FunctionText(c.module, symbol, type, [type], "internal |nounwind willreturn memory(none) inlinehint")
        y = _RULES[name](_X(f, f.params[0]), _FORMATS[type])
        f.line(f"ret {type} {y.v.ref}")
    return symbol
