"""Integer and boolean operations with NumPy's results, where LLVM's own would be undefined.

Division by zero gives 0, the smallest integer divided by -1 wraps, a shift by the width or more gives
0 (or -1 for a negative number shifted right). With attr `checked` an exact result that does not fit raises.
"""

from __future__ import annotations

from typing import Any

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.values import FALSE, TRUE, V, constant
from dlvm_py.ir import DType

OVERFLOW = "integer overflow: the result does not fit in 64 bits"


def number(like: V, n: int) -> V:
    """The integer constant n of `like`'s type."""
    return V(like.type, str(n))


def smallest(dtype: DType) -> int:
    """The smallest number of a signed dtype."""
    return -(1 << (dtype.bits - 1))


def _checked(c: Code, name: str, a: V, b: V) -> V:
    pair = c.intrinsic(f"llvm.{name}.with.overflow.{a.type}", f"{{ {a.type}, i1 }}", a, b)
    flag = c.extract(pair, 1, "i1")
    c.raise_unless(c.op("xor", flag, TRUE), "OverflowError", OVERFLOW)
    return c.extract(pair, 0, a.type)


def _arithmetic(wrapping: str, checked: str) -> Any:
    def emit(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
        return _checked(c, checked, a, b) if attrs.get("checked") else c.op(wrapping, a, b)

    return emit


add = _arithmetic("add", "sadd")
subtract = _arithmetic("sub", "ssub")
multiply = _arithmetic("mul", "smul")


def negate(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """0 - a."""
    return subtract(c, dtype, attrs, number(a, 0), a)


def same(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """What rounding makes of an integer."""
    return a


def square(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """a * a."""
    return multiply(c, dtype, attrs, a, a)


def absolute(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """|a|; the smallest integer stays what it is, or raises where checked."""
    if dtype.kind == "u":
        return a
    # 0 - a overflows for the smallest integer only, so that the checked negation may run for every a
    return c.select(c.icmp("slt", a, number(a, 0)), negate(c, dtype, attrs, a), a)


def sign(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """-1, 0 or 1."""
    positive = c.cast("zext", c.icmp("ugt" if dtype.kind == "u" else "sgt", a, number(a, 0)), a.type)
    if dtype.kind == "u":
        return positive
    return c.op("sub", positive, c.cast("zext", c.icmp("slt", a, number(a, 0)), a.type))


def _divisor(c: Code, dtype: DType, a: V, b: V) -> tuple[V, V]:
    """(whether b is 0, a divisor that LLVM defines: 1 where b is 0 or the quotient would wrap)."""
    zero = c.icmp("eq", b, number(b, 0))
    bad = zero
    if dtype.kind == "i":
        wraps = c.both(c.icmp("eq", a, number(a, smallest(dtype))), c.icmp("eq", b, number(b, -1)))
        bad = c.any(zero, wraps)
    return zero, c.select(bad, number(b, 1), b)


def _divided(c: Code, dtype: DType, a: V, b: V) -> tuple[V, V]:
    """(a / b towards zero, the rest), for b that `_divisor` allows.

    No CPU divides vectors of integers: up to 32 bits a float quotient does it, whose rounding error is far below
    the distance 1 / |b| to the next integer.
    """
    signed = "s" if dtype.kind == "i" else "u"
    if dtype.bits > 32:
        return c.op(f"{signed}div", a, b), c.op(f"{signed}rem", a, b)
    wide = "double" if dtype.bits == 32 else "float"
    x, y = (c.cast(f"{signed}itofp", v, wide) for v in (a, b))
    quotient = c.cast(f"fpto{signed}i", c.fop("fdiv", x, y), a.type)
    return quotient, c.op("sub", a, c.op("mul", quotient, b))


def _by_constant(c: Code, dtype: DType, a: V, b: V) -> V | None:
    """a / b rounded down, for a literal b > 0: by a product, of a negative a by way of ~a, which is not negative.

    LLVM makes products, but of 64 bits those of one number after the other: no CPU has the upper half of a vector's.
    """
    divisor = constant(b)
    if divisor is None or divisor <= 0:
        return None
    sign = c.op("ashr", a, number(a, dtype.bits - 1)) if dtype.kind == "i" else None
    size = c.op("xor", sign, a) if sign is not None else a
    if dtype.bits < 64 or divisor & (divisor - 1) == 0 or not (c.inlines and c.has_vectors):
        quotient = c.op("udiv", size, b)
    else:
        quotient = _by_product(c, size, divisor, dtype.bits - (dtype.kind == "i"))
    return quotient if sign is None else c.op("xor", quotient, sign)


def _by_product(c: Code, a: V, divisor: int, bits: int) -> V:
    """a / divisor, of an a < 2^bits: the upper half of a product with 2^(bits + shift) / divisor, rounded up.

    Source: Granlund and Montgomery, Division by Invariant Integers using Multiplication (1994). A factor of 65 bits is
    one of 64 with a added: (a + upper) / 2 = (a - upper) / 2 + upper does not overflow.
    """
    shift = (divisor - 1).bit_length()
    factor = -(-(1 << (bits + shift)) // divisor)
    upper = upper_half(c, a, number(a, factor & 0xFFFFFFFF), number(a, factor >> 32 & 0xFFFFFFFF))
    if factor >> 64:
        upper = c.op("add", c.op("lshr", c.op("sub", a, upper), number(a, 1)), upper)
    return c.op("lshr", upper, number(a, bits + shift - 64 - (factor >> 64)))


def upper_half(c: Code, a: V, low: V, high: V) -> V:
    """The upper 64 bits of a product with high 2^32 + low, unsigned, of four products of halves."""
    mask, half = number(a, 0xFFFFFFFF), number(a, 32)
    a_low, a_high = c.op("and", a, mask), c.op("lshr", a, half)
    first = c.op("add nuw", c.op("mul nuw", a_high, low), c.op("lshr", c.op("mul nuw", a_low, low), half))
    second = c.op("add nuw", c.op("mul nuw", a_low, high), c.op("and", first, mask))
    carried = c.op("add nuw", c.op("lshr", first, half), c.op("lshr", second, half))
    return c.op("add nuw", c.op("mul nuw", a_high, high), carried)


def _signs_differ(c: Code, rest: V, b: V) -> V:
    zero = number(b, 0)
    return c.both(c.icmp("ne", rest, zero), c.icmp("slt", c.op("xor", rest, b), zero))


def floor_divide(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """The quotient rounded down; by zero: 0."""
    quotient = _by_constant(c, dtype, a, b)
    if quotient is not None:
        return quotient
    zero, safe = _divisor(c, dtype, a, b)
    quotient, rest = _divided(c, dtype, a, safe)
    if dtype.kind == "i":
        quotient = c.op("sub", quotient, c.cast("zext", _signs_differ(c, rest, safe), a.type))
    return c.select(zero, number(a, 0), quotient)


def modulo(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """The remainder with the divisor's sign; by zero: 0."""
    quotient = _by_constant(c, dtype, a, b)
    if quotient is not None:
        return c.op("sub", a, c.op("mul", quotient, b))
    # 1 leaves nothing either in the place of 0 and -1, and hangs on the divisor alone, which loops may not change
    if dtype.kind == "i":
        small = c.icmp("ult", c.op("add", b, number(b, 1)), number(b, 2))
    else:
        small = c.icmp("eq", b, number(b, 0))
    safe = c.select(small, number(b, 1), b)
    rest = _divided(c, dtype, a, safe)[1]
    if dtype.kind == "i":
        rest = c.select(_signs_differ(c, rest, safe), c.op("add", rest, safe), rest)
    return rest


def truncate_divide(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """The quotient rounded towards zero; by zero: 0."""
    zero, safe = _divisor(c, dtype, a, b)
    return c.select(zero, number(a, 0), _divided(c, dtype, a, safe)[0])


def maximum(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """The larger."""
    return c.select(c.icmp("uge" if dtype.kind == "u" else "sge", a, b), a, b)


def minimum(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """The smaller."""
    return c.select(c.icmp("ule" if dtype.kind == "u" else "sle", a, b), a, b)


def shift_left(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """a << b; 0 where b is negative or not less than the width."""
    fits = c.icmp("ult", b, number(b, dtype.bits))
    return c.select(fits, c.op("shl", a, c.select(fits, b, number(b, 0))), number(a, 0))


def shift_right(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """a >> b with the sign kept; all sign bits where b is negative or not less than the width."""
    fits = c.icmp("ult", b, number(b, dtype.bits))
    if dtype.kind == "u":
        return c.select(fits, c.op("lshr", a, c.select(fits, b, number(b, 0))), number(a, 0))
    return c.op("ashr", a, c.select(fits, b, number(b, dtype.bits - 1)))


def power(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V) -> V:
    """a to the b by squaring, wrapping; checked: raises where the exact power does not fit.

    A negative exponent gives 0: whoever builds the IR has checked it, as NumPy raises.
    """
    checked = bool(attrs.get("checked"))
    name = f"dlvm.power.{a.type}" + (".checked" if checked else "")
    if name not in c.module.functions:
        _power_function(c, name, a.type, checked)
    if dtype.kind == "u":  # the helper reads the exponent as unsigned; a signed one is not negative here
        negative = FALSE
    else:
        negative = c.icmp("slt", b, number(b, 0))
    exponent = c.select(negative, number(b, 0), b)
    pair = c.call(f"@{name}", f"{{ {a.type}, i1 }}", [a, exponent])
    if checked:
        ok = c.op("xor", c.extract(pair, 1, "i1"), TRUE)
        c.raise_unless(c.any(ok, negative), "OverflowError", OVERFLOW)
    return c.select(negative, number(a, 0), c.extract(pair, 0, a.type))


def _power_function(c: Code, name: str, type: str, checked: bool) -> None:
    """define {T, i1} name(T base, T exponent): result and whether it overflowed.

    while exponent: { if (exponent & 1) result *= base; exponent >>= 1; if (exponent) base *= base }
    The last squaring is left out: its overflow would not be the result's.
    """
    p = Code(c.module, c.imports, name, f"{{ {type}, i1 }}", [type, type], "internal |nounwind memory(none)")
    zero, one = V(type, "0"), V(type, "1")
    head, body, out = p.label("head"), p.label("body"), p.label("out")
    p.br(head)
    start = p.here
    p.place(head)
    result, base, exponent, lost = (p.phi(t) for t in (type, type, type, "i1"))
    for phi, first in zip((result, base, exponent, lost), (one, *p.params, FALSE), strict=True):
        phi.add(first, start)
    p.cond_br(p.icmp("eq", exponent.value, zero), out, body)
    p.place(body)

    def times(a: V, b: V) -> tuple[V, V]:
        if not checked:
            return p.op("mul", a, b), FALSE
        pair = p.intrinsic(f"llvm.smul.with.overflow.{type}", f"{{ {type}, i1 }}", a, b)
        return p.extract(pair, 0, type), p.extract(pair, 1, "i1")

    odd = p.cast("trunc", exponent.value, "i1")
    product, product_lost = times(result.value, base.value)
    half = p.op("lshr", exponent.value, one)
    more = p.icmp("ne", half, zero)
    squared, square_lost = times(base.value, base.value)
    now_lost = p.any(lost.value, p.both(odd, product_lost), p.both(more, square_lost))
    result.add(p.select(odd, product, result.value), p.here)
    base.add(squared, p.here)
    exponent.add(half, p.here)
    lost.add(now_lost, p.here)
    p.br(head)
    p.place(out)
    pair = p.pack(result.value, lost.value)
    p.line(f"ret {pair.type} {pair.ref}")


def bits(name: str) -> Any:
    """The emitter of a bitwise instruction."""
    return lambda c, dtype, attrs, a, b: c.op(name, a, b)


def bit_not(c: Code, dtype: DType, attrs: dict[str, Any], a: V) -> V:
    """All bits flipped (also of a bool)."""
    return c.op("xor", a, TRUE if a.type == "i1" else number(a, -1))


def compare(signed: str, unsigned: str) -> Any:
    """The emitter of a comparison; bools compare as 0 and 1."""
    return lambda c, dtype, attrs, a, b: c.icmp(signed if dtype.kind == "i" else unsigned, a, b)
