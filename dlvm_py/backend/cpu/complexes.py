"""Complex operations on `{ T, T }` values, by NumPy's formulas and libm's complex functions.

libm is called in double precision: `{ double, double } cexp(double, double)` is how both x86-64 and
AArch64 pass a `double complex`; c64 operands are widened and the result is rounded.
"""

from __future__ import annotations

import math
from typing import Any

from dlvm_py.backend.cpu.code import PURE, Code
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.elementary import own
from dlvm_py.backend.cpu.floating import fc, intrinsic, is_finite
from dlvm_py.backend.cpu.values import TRUE, V
from dlvm_py.ir import DType


def parts(c: Code, x: V) -> tuple[V, V]:
    """Real and imaginary part."""
    type = "double" if "double" in x.type else "float"
    return c.extract(x, 0, type), c.extract(x, 1, type)


def part(at: int) -> Any:
    """The emitter of the real (0) or imaginary (1) part."""
    return lambda c, dtype, attrs, a: parts(c, a)[at]


def make(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """a + bi."""
    return c.pack(a, b)


def conjugate(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """re - im i."""
    real, imaginary = parts(c, a)
    return c.pack(real, c.fneg(imaginary))


def partwise(name: str) -> Any:
    """The emitter that works on both parts alike."""

    def emit(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
        (ar, ai), (br, bi) = parts(c, a), parts(c, b)
        return c.pack(c.fop(name, ar, br), c.fop(name, ai, bi))

    return emit


def negate(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """-a."""
    return c.pack(*(c.fneg(p) for p in parts(c, a)))


def multiply(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """The textbook product, as in NumPy."""
    (ar, ai), (br, bi) = parts(c, a), parts(c, b)
    real = c.fop("fsub", c.fop("fmul", ar, br), c.fop("fmul", ai, bi))
    return c.pack(real, c.fop("fadd", c.fop("fmul", ar, bi), c.fop("fmul", ai, br)))


def square(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """a * a."""
    return multiply(c, dtype, attrs, a, a)


def divide(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """Smith's algorithm: scaled by the larger part of b, so that |b|² is never formed."""
    (ar, ai), (br, bi) = parts(c, a), parts(c, b)
    size_r, size_i = intrinsic(c, "fabs", br), intrinsic(c, "fabs", bi)
    by_real = c.fcmp("oge", size_r, size_i)
    large, small = c.select(by_real, br, bi), c.select(by_real, bi, br)
    ratio = c.fop("fdiv", small, large)
    scale = c.fop("fdiv", fc(ar, 1.0), c.fop("fadd", large, c.fop("fmul", small, ratio)))
    ar_ratio, ai_ratio = c.fop("fmul", ar, ratio), c.fop("fmul", ai, ratio)
    real = c.select(by_real, c.fop("fadd", ar, ai_ratio), c.fop("fadd", ar_ratio, ai))
    imaginary = c.select(by_real, c.fop("fsub", ai, ar_ratio), c.fop("fsub", ai_ratio, ar))
    zero = c.both(c.fcmp("oeq", size_r, fc(ar, 0.0)), c.fcmp("oeq", size_i, fc(ar, 0.0)))
    return c.pack(
        c.select(zero, c.fop("fdiv", ar, size_r), c.fop("fmul", real, scale)),
        c.select(zero, c.fop("fdiv", ai, size_r), c.fop("fmul", imaginary, scale)),
    )


def by_libm(name: str) -> Any:
    """The emitter of a complex function of libm."""

    def emit(c: Code, dtype: DType, attrs: dict[str, Any], *args: V) -> V:
        flat = [_widen(c, p) for a in args for p in parts(c, a)]
        y = c.call_import(f"c:{name}", "{ double, double }", flat, PURE)
        if dtype.bits == 128:
            return y
        return c.pack(*(c.cast("fptrunc", p, "float") for p in parts(c, y)))

    return emit


def _widen(c: Code, p: V) -> V:
    return c.cast("fpext", p, "double") if p.type == "float" else p


def _log_scaled(factor: float) -> Any:
    def emit(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
        real, imaginary = parts(c, by_libm("clog")(c, dtype, attrs, a))
        return c.pack(c.fop("fmul", real, fc(real, factor)), c.fop("fmul", imaginary, fc(real, factor)))

    return emit


log2, log10 = _log_scaled(1.4426950408889634), _log_scaled(0.4342944819032518)


def exp2(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """exp(a log 2)."""
    real, imaginary = (c.fop("fmul", p, fc(p, math.log(2.0))) for p in parts(c, a))
    return by_libm("cexp")(c, dtype, attrs, c.pack(real, imaginary))


def log1p(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """log(1 + a)."""
    real, imaginary = parts(c, a)
    shifted = c.fop("fadd", real, fc(real, 1.0))
    size = own(c, "hypot", shifted, imaginary)
    return c.pack(own(c, "log", size), own(c, "atan2", imaginary, shifted))


def expm1(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """exp(a) - 1 = expm1(r) cos i - 2 sin²(i/2) + i exp(r) sin i."""
    real, imaginary = parts(c, a)
    half = own(c, "sin", c.fop("fmul", imaginary, fc(real, 0.5)))
    first = c.fop("fmul", own(c, "expm1", real), own(c, "cos", imaginary))
    second = c.fop("fmul", c.fop("fmul", fc(real, 2.0), half), half)
    return c.pack(c.fop("fsub", first, second), c.fop("fmul", own(c, "exp", real), own(c, "sin", imaginary)))


def power(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """a to the b: 1 for b = 0; of 0: 0 where b has a positive real part, else NaN; else as `_power_function`."""
    (ar, ai), (br, bi) = parts(c, a), parts(c, b)
    zero = fc(ar, 0.0)
    base_zero = c.both(c.fcmp("oeq", ar, zero), c.fcmp("oeq", ai, zero))
    to_zero = c.both(c.fcmp("oeq", br, zero), c.fcmp("oeq", bi, zero))
    positive = c.fcmp("ogt", br, zero)
    of_zero = c.select(positive, zero, fc(ar, float("nan")))
    name = f"dlvm.power.{dtype}"
    if name not in c.module.functions:
        _power_function(c, name, dtype)
    found = []
    for p, one in zip(parts(c, c.call(f"@{name}", a.type, [ar, ai, br, bi])), (1.0, 0.0), strict=True):
        found.append(c.select(to_zero, fc(ar, one), c.select(base_zero, of_zero, p)))
    return c.pack(*found)


def _power_function(c: Code, name: str, dtype: DType) -> None:
    """define {T, T} name(T ar, T ai, T br, T bi): products for real integer exponents of less than 100, else cpow.

    As NumPy: n = |br|; result = 1; while n: { if (n & 1) result *= a; n >>= 1; if (n) a *= a }; 1 / result for br < 0
    """
    part = scalar_type(dtype.real)
    pair = f"{{ {part}, {part} }}"
    p = Code(c.module, c.imports, name, pair, [part] * 4, "internal |nounwind")
    ar, ai, br, bi = p.params
    a, b = p.pack(ar, ai), p.pack(br, bi)
    whole, head, body, out, general = (p.label(n) for n in ("whole", "head", "body", "out", "general"))
    zero, one = fc(ar, 0.0), p.pack(fc(ar, 1.0), fc(ar, 0.0))
    size = intrinsic(p, "fabs", br)
    integral = p.both(p.fcmp("olt", size, fc(ar, 100.0)), p.fcmp("oeq", br, intrinsic(p, "rint", br)))
    p.cond_br(p.both(integral, p.fcmp("oeq", bi, zero)), whole, general)
    p.place(whole)
    count = p.cast("fptosi", size, "i32")
    # a, a² and a³ do without the product by 1, which mixes the parts where one is infinite
    plain = p.both(p.fcmp("ogt", br, zero), p.fcmp("ole", br, fc(ar, 3.0)))
    p.br(head)
    start = p.here
    p.place(head)
    result, base, exponent, bare = (p.phi(t) for t in (pair, pair, "i32", "i1"))
    for phi, first in zip((result, base, exponent, bare), (one, a, count, plain), strict=True):
        phi.add(first, start)
    p.cond_br(p.icmp("eq", exponent.value, V("i32", "0")), out, body)
    p.place(body)
    odd = p.cast("trunc", exponent.value, "i1")
    product = p.select(bare.value, base.value, multiply(p, dtype, {}, result.value, base.value))
    result.add(p.select(odd, product, result.value), p.here)
    base.add(multiply(p, dtype, {}, base.value, base.value), p.here)
    exponent.add(p.op("lshr", exponent.value, V("i32", "1")), p.here)
    bare.add(p.both(bare.value, p.op("xor", odd, TRUE)), p.here)
    p.br(head)
    p.place(out)
    inverse = divide(p, dtype, {}, one, result.value)
    found = p.select(p.fcmp("olt", br, zero), inverse, result.value)
    p.line(f"ret {pair} {found.ref}")
    p.place(general)
    found = by_libm("cpow")(p, dtype, {}, a, b)
    p.line(f"ret {pair} {found.ref}")


def compare(strict: str, loose: str) -> Any:
    """Lexicographic order, as NumPy sorts: `strict` of the real parts, or equal ones and `loose` of the others."""

    def emit(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
        (ar, ai), (br, bi) = parts(c, a), parts(c, b)
        first = c.both(c.fcmp(strict, ar, br), c.fcmp("ord", ai, bi))
        return c.any(first, c.both(c.fcmp("oeq", ar, br), c.fcmp(loose, ai, bi)))

    return emit


def equal(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """Both parts equal."""
    (ar, ai), (br, bi) = parts(c, a), parts(c, b)
    return c.both(c.fcmp("oeq", ar, br), c.fcmp("oeq", ai, bi))


def not_equal(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """Not equal."""
    return c.op("xor", equal(c, dtype, attrs, a, b), TRUE)


def is_nan(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """Whether a part is NaN."""
    return c.fcmp("uno", *parts(c, a))


def finite(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """Whether both parts are finite."""
    return c.both(*(is_finite(c, dtype, attrs, p) for p in parts(c, a)))


def _extreme(how: Any) -> Any:
    def emit(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
        return c.select(c.any(how(c, dtype, attrs, a, b), is_nan(c, dtype, attrs, a)), a, b)

    return emit


maximum, minimum = _extreme(compare("ogt", "oge")), _extreme(compare("olt", "ole"))


def scale_seed(c: Code, dtype: DType, attrs: dict[str, Any], seed: V, p: V) -> V:
    """seed * p, but 0 where the seed is 0 and p is not finite."""
    zero = fc(parts(c, p)[0], 0.0)
    nothing = V(scalar_type(dtype), "zeroinitializer")
    is_zero = c.both(*(c.fcmp("oeq", part, zero) for part in parts(c, seed)))
    guard = c.both(c.op("xor", finite(c, dtype, attrs, p), TRUE), is_zero)
    return c.select(guard, nothing, multiply(c, dtype, attrs, seed, p))
