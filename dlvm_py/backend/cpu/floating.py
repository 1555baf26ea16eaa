"""Real floating-point operations with NumPy's results; f16 and bf16 are computed in f32 and rounded, as in NumPy.

What LLVM lowers to instructions is an intrinsic (fabs, floor, ceil, trunc, rint, round, sqrt, copysign); the elementary
functions are our own (elementary.py); what is left calls libm by pointer.
"""

from __future__ import annotations

import math
from typing import Any

from dlvm_py.backend.cpu.code import PURE, Code
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.elementary import own
from dlvm_py.backend.cpu.powers import HALVES
from dlvm_py.backend.cpu.values import V, constant_float, float_constant
from dlvm_py.ir import F32, DType


def fc(like: V, value: float) -> V:
    """The float constant `value` of `like`'s type."""
    return float_constant(like.type, value)


def libm(c: Code, name: str, *args: V) -> V:
    """Call libm's function of that name for `float` or `double`."""
    suffix = "f" if args[0].type == "float" else ""
    return c.call_import(f"c:{name}{suffix}", args[0].type, args, PURE)


def intrinsic(c: Code, name: str, *args: V) -> V:
    """Call llvm.NAME.fN."""
    width = {"half": "f16", "float": "f32", "double": "f64"}[args[0].type]
    return c.intrinsic(f"llvm.{name}.{width}", args[0].type, *args)


def by_libm(name: str) -> Any:
    """The emitter of a function of libm."""
    return lambda c, dtype, attrs, *args: libm(c, name, *args)


def by_intrinsic(name: str) -> Any:
    """The emitter of an intrinsic."""
    return lambda c, dtype, attrs, *args: intrinsic(c, name, *args)


def instruction(name: str) -> Any:
    """The emitter of a binary instruction."""
    return lambda c, dtype, attrs, a, b: c.fop(name, a, b)


def compare(how: str) -> Any:
    """The emitter of a comparison."""
    return lambda c, dtype, attrs, a, b: c.fcmp(how, a, b)


def narrow(emit: Any) -> Any:
    """An emitter for every float width: operands in 16 bits are widened, such a result is rounded."""

    def wrapped(c: Code, dtype: DType, attrs: dict[str, Any], *args: V) -> V:
        if not dtype.is_narrow:
            return emit(c, dtype, attrs, *args)
        y = emit(c, F32, attrs, *(widened(c, a) if a.type in ("half", "i16") else a for a in args))
        return rounded(c, y, scalar_type(dtype)) if y.type == "float" else y

    return wrapped


def widened(c: Code, x: V) -> V:
    """A half, or the bits of a bfloat, as float, which holds every one."""
    if x.type == "half":
        return c.cast("fpext", x, "float")
    return c.cast("bitcast", c.op("shl", c.cast("zext", x, "i32"), V("i32", "16")), "float")


def rounded(c: Code, x: V, type: str) -> V:
    """A float as half, or as the bits of a bfloat (the upper half of a float), to the nearest, ties to even."""
    if type == "half":
        return c.cast("fptrunc", x, type)
    bits = c.cast("bitcast", x, "i32")
    upper = c.op("lshr", bits, V("i32", "16"))
    odd = c.op("and", upper, V("i32", "1"))
    up = c.op("add", c.op("add", bits, V("i32", str(0x7FFF))), odd)
    number = c.op("lshr", up, V("i32", "16"))
    nan = c.op("or", c.op("and", upper, V("i32", str(0x8000))), V("i32", str(0x7FC0)))
    found = c.select(c.fcmp("uno", x, x), nan, number)
    return c.cast("trunc", found, type)


def negate(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """-a."""
    return c.fneg(a)


def square(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """a * a."""
    return c.fop("fmul", a, a)


def rsqrt(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """1 / sqrt(a)."""
    return c.fop("fdiv", fc(a, 1.0), intrinsic(c, "sqrt", a))


def sign(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """-1, 0, 1, or NaN of NaN; bf16 keeps the sign of 0."""
    if dtype.is_narrow:
        found = narrow(sign)(c, dtype, attrs, a)
        zero = c.fcmp("oeq", widened(c, a), float_constant("float", 0.0))
        return c.select(zero, a, found) if dtype.name == "bf16" else found
    zero = fc(a, 0.0)
    rest = c.select(c.fcmp("oeq", a, zero), zero, a)
    rest = c.select(c.fcmp("olt", a, zero), fc(a, -1.0), rest)
    return c.select(c.fcmp("ogt", a, zero), fc(a, 1.0), rest)


def _extreme(how: str) -> Any:
    def emit(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
        # a if a > b or a is NaN, else b: a NaN in b fails the comparison, and of 0 and -0 the second is taken,
        # as NumPy's vector loops do on x86-64; its loop for f16 takes the first
        x, y = (widened(c, v) if dtype.is_narrow else v for v in (a, b))
        first = c.fcmp(f"o{how}e" if dtype.name == "f16" else f"o{how}t", x, y)
        return c.select(c.any(first, c.fcmp("uno", x, x)), a, b)

    return emit


maximum, minimum = _extreme("g"), _extreme("l")


def is_nan(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """Whether a is NaN."""
    return c.fcmp("uno", a, a)


# the integer type of a float's width
INTEGERS = {"float": "i32", "double": "i64"}


def is_finite(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """Whether a is neither NaN nor infinite."""
    return c.fcmp("olt", intrinsic(c, "fabs", a), fc(a, float("inf")))


def _division(c: Code, a: V, b: V) -> tuple[V, V]:
    """(floor quotient, remainder) by NumPy's npy_divmod, right for b other than 0.

    The remainder of fmod is exact; the quotient (a - r) / b is near an integer and is snapped to it.
    """
    zero, one = fc(a, 0.0), fc(a, 1.0)
    rest = own(c, "fmod", a, b)
    quotient = c.fop("fdiv", c.fop("fsub", a, rest), b)
    has_rest = c.fcmp("une", rest, zero)
    differ = c.op("xor", c.fcmp("olt", b, zero), c.fcmp("olt", rest, zero))
    adjust = c.both(has_rest, differ)
    quotient = c.select(adjust, c.fop("fsub", quotient, one), quotient)
    rest = c.select(has_rest, c.select(adjust, c.fop("fadd", rest, b), rest), intrinsic(c, "copysign", zero, b))
    down = intrinsic(c, "floor", quotient)
    up = c.fcmp("ogt", c.fop("fsub", quotient, down), fc(a, 0.5))
    snapped = c.select(up, c.fop("fadd", down, one), down)
    signed_zero = intrinsic(c, "copysign", zero, c.fop("fdiv", a, b))
    return c.select(c.fcmp("une", quotient, zero), snapped, signed_zero), rest


def floor_divide(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """The quotient rounded down; by zero: a / b."""
    return c.select(c.fcmp("oeq", b, fc(b, 0.0)), c.fop("fdiv", a, b), _division(c, a, b)[0])


def modulo(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """The remainder with the divisor's sign; by zero: NaN."""
    return c.select(c.fcmp("oeq", b, fc(b, 0.0)), own(c, "fmod", a, b), _division(c, a, b)[1])


def power(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """a to the b; the constant exponents whose power is one or two roundings need no call, and some need a root."""
    exponent = constant_float(b)
    match exponent:
        case 0.0:
            return fc(a, 1.0)
        case 1.0:
            return a
        case 2.0:
            return c.fop("fmul", a, a)
        case -1.0:
            return c.fop("fdiv", fc(a, 1.0), a)
        case 0.5:  # as the root, but for -0 and -inf
            root = intrinsic(c, "sqrt", c.fop("fadd", a, fc(a, 0.0)))
            return c.select(c.fcmp("oeq", a, fc(a, -math.inf)), fc(a, math.inf), root)
        case 3.0:
            return c.fop("fmul", c.fop("fmul", a, a), a)
    if exponent is not None and 2.0 * exponent in HALVES:
        return own(c, f"power.{int(2.0 * exponent)}", a)
    return own(c, "power", a, b)


def scale_seed(c: Code, dtype: DType, attrs: dict[str, Any], seed: V, p: V) -> V:
    """seed * p, but 0 where the seed is 0 and p is not finite.

    0 * p is NaN exactly where p is not finite, so the product itself is asked: one comparison where the exponent of p
    takes three instructions. By a mask of the product's bits, which needs no choice.
    """
    whole = INTEGERS[p.type]
    product = c.fop("fmul", seed, p)
    counts = c.cast("sext", c.any(c.fcmp("une", seed, fc(seed, 0.0)), c.fcmp("ord", product, product)), whole)
    return c.cast("bitcast", c.op("and", c.cast("bitcast", product, whole), counts), p.type)
