"""The parts of floating-point numbers, and what lies beside them: frexp, ldexp, nextafter, spacing; counts of bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import bits_of, held


def format_of(number: Any) -> Any:
    """Of float32 or float64: the integers of its width, the bits of a mantissa, and the bias of exponents."""
    return (np.int32, 23, 127) if number == np.float32 else (np.int64, 52, 1023)


def two_to(n: Any) -> Any:
    """2.0**n of ints in [-1022, 1023]."""
    return bits_of((n + 1023) << 52, np.float64)


def frexp(x: Any) -> Any:
    """np.frexp: the mantissa, of size in [1/2, 1), and the exponent."""
    number = np.result_type(x)
    if number.type is not np.float32 and number.type is not np.float64:
        mantissa, exponent = frexp(np.asarray(x, dtype=np.float32)[()])
        return mantissa.astype(number), exponent
    whole, width, bias = format_of(number)
    small = np.abs(x) < number.type(2.0 ** (4 - bias))  # a quarter may be subnormal
    y = np.where(small, x * number.type(2.0 ** (width + 2)), x)
    field = (bits_of(y, whole) >> width) & whole(2 * bias + 1)
    # a quarter, times four 2**-exponent, whose exponent is that of a number: exact
    mantissa = (y * number.type(0.25)) * bits_of((whole(2 * bias + 1) - field) << width, number)
    exponent = field - whole(bias - 1) - np.where(small, whole(width + 2), whole(0))
    special = (field + whole(1)) & whole(2 * bias + 1) < whole(2)  # zeros, infinities and NaN
    return np.where(special, x, mantissa), np.where(special, whole(0), exponent).astype(np.int32)


def ldexp(x1: Any, x2: Any) -> Any:
    """np.ldexp: x1 2**x2, rounded once."""
    rest = np.clip(x2, -4000, 4000).astype(np.int64)
    found = np.asarray(x1, dtype=np.float64)
    for _ in (0, 1):  # what is too small by far keeps its 53 bits until the last product, which rounds
        step = np.where(rest > 1023, 1023, np.where(rest < -1022, -969, 0))
        found, rest = found * two_to(step), rest - step
    return (found * two_to(np.clip(rest, -1022, 1023))).astype(np.result_type(x1))


def neighbour(x: Any, up: Any) -> Any:
    """The next number upwards where `up` holds, downwards elsewhere; of zero the least one."""
    number, size = np.result_type(x), np.result_type(x).itemsize
    whole = np.int16 if size == 2 else np.int32 if size == 4 else np.int64
    bits = bits_of(x, whole)
    away = (x > 0) == up
    least = np.where(up, number.type(1), number.type(-1)) * bits_of(whole(1), number)
    return np.where(x == 0, least, bits_of(np.where(away, bits + 1, bits - 1).astype(whole), number))


def nextafter(x1: Any, x2: Any) -> Any:
    """np.nextafter: the next number after x1 towards x2."""
    beside = neighbour(x1, x1 < x2)
    near = np.isfinite(x1) & np.isfinite(beside)
    step = held(np.where(near, beside - np.where(near, x1, 0), 0).astype(np.result_type(x1)))  # exact
    moved = np.where(near & (x1 != 0), x1 + step, beside)  # with the derivative of x1
    return np.where(np.isnan(x1) | np.isnan(x2), x1 + x2, np.where(x1 == x2, np.copysign(x1, x2), moved))


def spacing(x: Any) -> Any:
    """np.spacing: the distance to the next number away from zero, with the sign of x; of float16 to the next larger."""
    if np.result_type(x) == np.float16:
        return np.where(np.isfinite(x), neighbour(x, np.isfinite(x)) - x, np.result_type(x).type(np.nan))
    found = neighbour(np.abs(x), np.isfinite(x)) - np.abs(x)
    return np.where(np.isfinite(x), np.copysign(found, x), np.result_type(x).type(np.nan))


def bitwise_count(x: Any) -> Any:
    """np.bitwise_count: how many bits of |x| are set."""
    bits = bits_of(np.abs(x.astype(np.int64)), np.uint64) if np.result_type(x).kind == "i" else x.astype(np.uint64)
    pairs = bits - ((bits >> 1) & 0x5555555555555555)
    fours = (pairs & 0x3333333333333333) + ((pairs >> 2) & 0x3333333333333333)
    eights = (fours + (fours >> 4)) & 0x0F0F0F0F0F0F0F0F
    return ((eights * 0x0101010101010101) >> 56).astype(np.uint8)


UFUNCS = {
    np.frexp: frexp, np.ldexp: ldexp, np.nextafter: nextafter, np.spacing: spacing,
    **({np.bitwise_count: bitwise_count} if hasattr(np, "bitwise_count") else {}),
}  # fmt: skip
FUNCTIONS: dict[Any, Any] = {}
METHODS: dict[str, Any] = {}
