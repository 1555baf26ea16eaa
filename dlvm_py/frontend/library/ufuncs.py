"""Ufuncs without an op: functions of operands that already have the dtypes of NumPy's loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import is_for_device


def logaddexp(x1: Any, x2: Any) -> Any:
    """log(exp(x1) + exp(x2)) = max + log(1 + exp(-|x1 - x2|)); equal infinities do not cancel."""
    gap = np.where(x1 == x2, 0, np.abs(x1 - x2)).astype(np.result_type(x1))
    return np.maximum(x1, x2) + np.log1p(np.exp(-gap))


def logaddexp2(x1: Any, x2: Any) -> Any:
    """log2(2**x1 + 2**x2)."""
    gap = np.where(x1 == x2, 0, np.abs(x1 - x2)).astype(np.result_type(x1))
    return np.maximum(x1, x2) + np.log1p(np.exp2(-gap)) * np.result_type(x1).type(1.4426950408889634)


def heaviside(x1: Any, x2: Any) -> Any:
    """0 below 0, x2 at 0, 1 above, nan of nan."""
    one = np.result_type(x1).type(1)
    return np.where(np.isnan(x1), x1, np.where(x1 == 0, x2, np.where(x1 < 0, one - one, one)))


def fmax(x1: Any, x2: Any) -> Any:
    """The larger; of a number and nan, the number."""
    if np.result_type(x1).kind not in ("f", "c"):
        return np.maximum(x1, x2)
    return np.where(np.isnan(x1), x2, np.where(np.isnan(x2), x1, np.maximum(x1, x2)))


def fmin(x1: Any, x2: Any) -> Any:
    """The smaller; of a number and nan, the number."""
    if np.result_type(x1).kind not in ("f", "c"):
        return np.minimum(x1, x2)
    return np.where(np.isnan(x1), x2, np.where(np.isnan(x2), x1, np.minimum(x1, x2)))


def fmod(x1: Any, x2: Any) -> Any:
    """The remainder with the sign of x1."""
    if np.result_type(x1).kind == "f":
        return np.copysign(np.remainder(np.abs(x1), np.abs(x2)), x1)
    rest = np.remainder(x1, x2)  # with the sign of x2
    return np.where((rest != 0) & ((x1 < 0) != (x2 < 0)), rest - x2, rest)


def float_power(x1: Any, x2: Any) -> Any:
    """x1 ** x2 in f64 at least."""
    return np.power(x1, x2)


def signbit(x: Any) -> Any:
    """Whether the sign bit is set: also of -0.0 and -nan."""
    return np.copysign(np.result_type(x).type(1), x) < 0


def reciprocal(x: Any) -> Any:
    """1 / x; of integers cut off towards zero."""
    if np.result_type(x).kind in ("i", "u"):
        return (1.0 / x).astype(np.result_type(x))
    return np.result_type(x).type(1) / x


UFUNCS = {
    np.reciprocal: reciprocal, np.logaddexp: logaddexp, np.logaddexp2: logaddexp2, np.heaviside: heaviside,
    np.fmax: fmax, np.fmin: fmin, np.fmod: fmod, np.float_power: float_power, np.signbit: signbit,
}  # fmt: skip


# -- two results -------------------------------------------------------------------------------------


def divmod_(x1: Any, x2: Any) -> Any:
    """np.divmod."""
    return np.floor_divide(x1, x2), np.remainder(x1, x2)


def modf(x: Any) -> Any:
    """np.modf: the fractional and the whole part, both with the sign of x."""
    whole = np.trunc(x)
    return np.copysign(np.where(np.isinf(x), 0, x - whole).astype(np.result_type(x)), x), whole


# -- integers ----------------------------------------------------------------------------------------


def magnitude(x: Any) -> Any:
    """|x| of integers, without a sign: that of the least number fits."""
    if np.result_type(x).kind != "i":
        return x
    size = np.result_type(x).itemsize
    unsigned = np.uint8 if size == 1 else np.uint16 if size == 2 else np.uint32 if size == 4 else np.uint64
    return np.abs(x).astype(unsigned)


def gcd(x1: Any, x2: Any) -> Any:
    """np.gcd of integers."""
    return divisors(magnitude(x1), magnitude(x2))


def divisor(a: Any, b: Any) -> Any:
    """The greatest common divisor of two unsigned numbers, by Euclid's rule."""
    while b != 0:
        a, b = b, a % b
    return a


def divisors(a: Any, b: Any) -> Any:
    """Greatest common divisors: all elements in step where there are vectors of divisions, else one after the other."""
    if np.ndim(a) == 0 and np.ndim(b) == 0:
        return divisor(a, b)
    shape = np.broadcast_shapes(np.shape(a), np.shape(b))
    if np.result_type(a, b).itemsize == 8 and not is_for_device():
        x, y = np.ravel(np.broadcast_to(a, shape)), np.ravel(np.broadcast_to(b, shape))
        found = np.empty(x.shape[0], np.result_type(a))
        for k in range(x.shape[0]):
            found[k] = divisor(x[k], y[k])
        return np.reshape(found, shape)
    a, b = np.copy(np.broadcast_to(a, shape)), np.copy(np.broadcast_to(b, shape))
    while np.any(b != 0):
        rest = np.where(b != 0, np.remainder(a, b), 0).astype(np.result_type(b))
        a[...] = np.where(b != 0, b, a)
        b[...] = rest
    return a


def lcm(x1: Any, x2: Any) -> Any:
    """np.lcm of integers."""
    a, b = magnitude(x1), magnitude(x2)
    g = divisors(a, b)
    return np.where(g == 0, g, np.floor_divide(a, np.where(g == 0, 1, g).astype(np.result_type(g))) * b)


UFUNCS = {**UFUNCS, np.gcd: gcd, np.lcm: lcm, np.divmod: divmod_, np.modf: modf}
FUNCTIONS: dict[Any, Any] = {}
METHODS: dict[str, Any] = {}
