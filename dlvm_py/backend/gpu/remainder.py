"""fmod for devices, which have no libm: the exact remainder, by subtraction of shifted mantissas.

x = mx 2^ex and y = my 2^ey with mantissas of 53 bits. As often as the exponents differ, mx takes my off if it can, and
is doubled; what is left is the remainder, as an integer, of the exponent of y. Nothing is rounded. Floats of 32 bits go
through 64, where their remainder is the same number.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.values import FALSE, ONE, ZERO, V, float_constant, i64

NAME = "dlvm.fmod.double"
_BITS = 52
_HIDDEN, _FRACTION = 1 << _BITS, (1 << _BITS) - 1
_SIGN, _MAGNITUDE = -(1 << 63), (1 << 63) - 1
_INFINITY = 0x7FF << _BITS


def fmod(f: FunctionText, x: V, y: V) -> V:
    """The remainder of x / y with the sign of x; NaN where x is infinite or y is 0."""
    if x.type == "float":
        wide = fmod(f, f.cast("fpext", x, "double"), f.cast("fpext", y, "double"))
        return f.cast("fptrunc", wide, "float")
    if NAME not in f.module.functions:
        attributes = "internal |nounwind willreturn memory(none)"
        function = FunctionText(f.module, NAME, "double", ["double", "double"], attributes)
        function.line(f"ret double {_remainder(function, *function.params).ref}")
    return f.call(f"@{NAME}", "double", [x, y])


def _parts(f: FunctionText, magnitude: V) -> tuple[V, V]:
    """(mantissa with its first bit at 52, exponent): that of a subnormal number is below 1."""
    field = f.op("lshr", magnitude, i64(_BITS))
    zeros = f.op("sub", _leading_zeros(f, magnitude), i64(63 - _BITS))
    is_small = f.icmp("eq", field, ZERO)
    shifted = f.op("shl", magnitude, f.select(is_small, zeros, ZERO))
    whole = f.op("or", f.op("and", magnitude, i64(_FRACTION)), i64(_HIDDEN))
    return f.select(is_small, shifted, whole), f.select(is_small, f.op("sub", ONE, zeros), field)


def _leading_zeros(f: FunctionText, x: V) -> V:
    """Of a number below 2^63: at least 1; of 0 as many as of 1."""
    return f.intrinsic("llvm.ctlz.i64", "i64", f.op("or", x, ONE), FALSE)


def _remainder(f: FunctionText, x: V, y: V) -> V:
    bits = f.cast("bitcast", x, "i64")
    sign = f.op("and", bits, i64(_SIGN))
    a, b = (f.op("and", f.cast("bitcast", v, "i64"), i64(_MAGNITUDE)) for v in (x, y))
    (m, exponent), (n, lowest) = _parts(f, a), _parts(f, b)

    def less(m: V) -> V:
        rest = f.op("sub", m, n)
        return f.select(f.icmp("slt", rest, ZERO), m, rest)

    with f.loop(f.op("sub", exponent, lowest), [m]) as loop:
        loop.next = [f.op("shl", less(loop.carried[0]), ONE)]
    rest = less(loop.results[0])
    zeros = f.op("sub", _leading_zeros(f, rest), i64(63 - _BITS))
    exponent = f.op("sub", lowest, zeros)
    normal = f.op("or", f.op("and", f.op("shl", rest, zeros), i64(_FRACTION)), f.op("shl", exponent, i64(_BITS)))
    # the bits that are shifted out are 0: the remainder is a number of the format
    back = f.op("sub", ONE, lowest)
    down, up = (f.select(f.icmp("sgt", s, ZERO), s, ZERO) for s in (back, f.op("sub", ZERO, back)))
    small = f.op("lshr", f.op("shl", rest, up), down)
    found = f.select(f.icmp("sgt", exponent, ZERO), normal, small)
    found = f.select(f.icmp("eq", rest, ZERO), ZERO, found)
    found = f.select(f.icmp("slt", a, b), a, found)
    wrong = f.any(f.icmp("sge", a, i64(_INFINITY)), f.icmp("sgt", b, i64(_INFINITY)), f.icmp("eq", b, ZERO))
    signed = f.cast("bitcast", f.op("or", found, sign), "double")
    return f.select(wrong, float_constant("double", float("nan")), signed)
