"""Arrays of integers divided by one number, whose reciprocal is computed once: elements are products.

    narrow floor((a ± 1/2) (1 / d)), with the sign of d, in f64 (of 8 and 16 bits in f32): the half keeps it farther
           from an integer than the rounding errors reach
    i64    with e = |d|, 2^(n - 1) < e <= 2^n and m = 2^(63 + n) / e, rounded up:
           q = (a m) >> (63 + n) of a >= 0; of a negative a ~(the same of ~a); of a negative d -(q + (a != q e))

What is written here for an element does not depend on it, but for the products: LLVM moves that in front of the loop.
Source: Granlund and Montgomery, Division by Invariant Integers using Multiplication (1994).
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.floating import fc, intrinsic
from dlvm_py.backend.cpu.integer import number, upper_half
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, i64
from dlvm_py.ir import DType


def pays(c: Code, dtype: DType, divisor: V) -> bool:
    """Whether elements of a kernel are divided so; constants have products of their own."""
    return c.inlines and c.has_vectors and dtype.kind in "iu" and dtype.name != "u64" and constant(divisor) is None


def _floor_divide(c: Code, dtype: DType, a: V, d: V) -> V:
    quotient = _of_64(c, a, d) if dtype.bits == 64 else _of_narrow(c, dtype, a, d)
    return c.select(c.icmp("eq", d, number(d, 0)), number(a, 0), quotient)


def _modulo(c: Code, dtype: DType, a: V, d: V) -> V:
    quotient = _of_64(c, a, d) if dtype.bits == 64 else _of_narrow(c, dtype, a, d)
    rest = c.op("sub", a, c.op("mul", quotient, d))
    return c.select(c.icmp("eq", d, number(d, 0)), number(a, 0), rest)


# the emitters by the names of the ops
TABLE: dict[str, Callable[[Code, DType, V, V], V]] = {"floorDivide": _floor_divide, "modulo": _modulo}


def _of_narrow(c: Code, dtype: DType, a: V, d: V) -> V:
    kind = "double" if dtype.bits == 32 else "float"
    x, y = (c.cast(f"{'s' if dtype.kind == 'i' else 'u'}itofp", v, kind) for v in (a, d))
    half = intrinsic(c, "copysign", fc(x, 0.5), y)
    quotient = intrinsic(c, "floor", c.fop("fmul", c.fop("fadd", x, half), c.fop("fdiv", fc(y, 1.0), y)))
    if dtype.kind == "u":
        return c.cast("fptoui", quotient, a.type)
    # the least number by -1 does not fit, and wraps
    return c.select(c.icmp("eq", d, number(d, -1)), c.op("sub", number(a, 0), a), c.cast("fptosi", quotient, a.type))


def _of_64(c: Code, a: V, d: V) -> V:
    is_negative = c.icmp("slt", d, ZERO)
    size = c.select(is_negative, c.op("sub", ZERO, d), d)
    size = c.select(c.icmp("eq", size, ZERO), ONE, size)
    length = c.bit_length(c.op("sub", size, ONE))
    factor = _reciprocal(c, size, length)
    sign = c.op("ashr", a, i64(63))
    upper = upper_half(c, c.op("xor", sign, a), c.op("and", factor, i64(0xFFFFFFFF)), c.op("lshr", factor, i64(32)))
    is_one = c.icmp("eq", length, ZERO)
    quotient = c.op("lshr", upper, c.select(is_one, ZERO, c.op("sub", length, ONE)))
    quotient = c.select(is_one, a, c.op("xor", quotient, sign))
    has_rest = c.cast("zext", c.icmp("ne", c.op("mul", quotient, size), a), "i64")
    return c.select(is_negative, c.op("sub", ZERO, c.op("add", quotient, has_rest)), quotient)


def _reciprocal(c: Code, size: V, length: V) -> V:
    """2^(63 + n) / size, rounded up, for 2^(n - 1) < size <= 2^n: 2^127 by a divisor whose first bit is the highest.

    In two steps of 32 bits, as in long division. Of 2^n, which that divisor would be too large for, it is 2^63.
    Source: Knuth, TAOCP 2, 4.3.1, algorithm D.
    """
    divisor = c.op("shl", size, c.op("and", c.op("sub", i64(64), length), i64(63)))
    high, low = c.op("or", c.op("lshr", divisor, i64(32)), i64(1 << 31)), c.op("and", divisor, i64(0xFFFFFFFF))

    def digit(rest: V) -> tuple[V, V]:
        """The next 32 bits of rest 2^32 / divisor, and what is left: the first guess is too large by 2 at most."""
        guess = c.op("udiv", rest, high)
        left = c.op("sub", rest, c.op("mul", guess, high))
        for _ in (0, 1):
            is_large = c.any(
                c.icmp("ugt", guess, i64(0xFFFFFFFF)),
                c.icmp("ugt", c.op("mul", guess, low), c.op("shl", left, i64(32))),
            )
            is_large = c.both(is_large, c.icmp("ule", left, i64(0xFFFFFFFF)))
            guess = c.select(is_large, c.op("sub", guess, ONE), guess)
            left = c.select(is_large, c.op("add", left, high), left)
        return guess, c.op("sub", c.op("shl", rest, i64(32)), c.op("mul", guess, divisor))

    first, rest = digit(i64(-(1 << 63)))
    second, rest = digit(rest)
    found = c.op("or", c.op("shl", first, i64(32)), second)
    found = c.op("add", found, c.cast("zext", c.icmp("ne", rest, ZERO), "i64"))
    is_power = c.icmp("eq", c.op("and", size, c.op("sub", size, ONE)), ZERO)
    return c.select(is_power, i64(-(1 << 63)), found)
