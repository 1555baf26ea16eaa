"""Random numbers: uniform in a half-open range, the next of the program's stream, the same by every executor.

The stream is a counter. Number k of those that are taken at the counter c is made of

    m = mix(c + k),  mix(n): z = golden · (n + 1);  z ^= z >> 30;  z *= a;  z ^= z >> 27;  z *= b;  z ^ (z >> 31)

in 64 bits, and the counter goes on by how many are taken. `randomSeed s` begins the stream at the counter mix(s); a
program that does not say so begins with seed 0. A native object has one stream for all threads, which take from it
atomically. A range that is empty is a ValueError.

A float is low + u · (high - low) in its dtype, u being the leading 53, 24 or 11 bits of m (f64, f32, f16) as a
fraction, and low where that rounds to high; an integer is low + m mod (high - low), in which no value is more likely
than another by more than (high - low) / 2^64.

Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014), with the constants of
splitmix64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import TRAP, Kind, Op
from dlvm_py.ir.ops.elementwise import (
    add,
    bitXor,
    dataTypeCast,
    lessThan,
    modulo,
    multiply,
    select,
    shiftRight,
    subtract,
)
from dlvm_py.ir.ops.rules import static_extent, tensor
from dlvm_py.ir.ops.shape import indices_are_i64
from dlvm_py.ir.types import I64, VOID, TensorType, Type, scalar
from dlvm_py.ir.value import Value

GOLDEN = 0x9E3779B97F4A7C15
STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))  # shifts, and the factors a and b behind them
EMPTY_RANGE = "random numbers from {} upto {}: the range is empty"
_BITS = {"f64": 53, "f32": 24, "f16": 11}
WHY = "random numbers do not depend on what they are taken from differentiably"


def mix(n: Any) -> Any:
    """64 bits that look random, of u64 numbers: Exprs or NumPy values."""
    z = multiply(add(n, 1), GOLDEN)
    for shift, factor in STEPS:
        z = bitXor(z, shiftRight(z, shift))
        z = z if factor == 1 else multiply(z, factor)
    return z


def seeded(seed: int) -> Any:
    """Where a stream of this seed begins: a NumPy u64."""
    return np.uint64(mix(np.array([seed & 2**64 - 1], np.uint64))[0])


def bounds_shown(low: Any, high: Any, name: str) -> list[Any]:
    """Bounds of a range as a message shows them."""
    return [dataTypeCast(v, to="f64" if name in _BITS else "i64") for v in (low, high)]


def uniform(counters: Any, low: Any, high: Any, name: str) -> Any:
    """The numbers of dtype `name` at these counters (i64, Exprs or NumPy values); low < high has been checked."""
    bits = mix(dataTypeCast(counters, to="u64"))
    if name not in _BITS:
        span = subtract(dataTypeCast(high, to="u64"), dataTypeCast(low, to="u64"))
        return add(dataTypeCast(modulo(bits, span), to=name), low)
    # exact: so many bits are an f64, and scaled by a power of two a number of the dtype
    leading = dataTypeCast(shiftRight(bits, 64 - _BITS[name]), to="f64")
    unit = dataTypeCast(multiply(leading, 2.0 ** -_BITS[name]), to=name)
    x = add(multiply(unit, subtract(high, low)), low)
    return select(x, low, lessThan(x, high))


def _random_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    *extents, lo, hi = operands
    indices_are_i64(extents)
    t = tensor(lo)
    if t.rank or lo.type != hi.type or t.dtype.kind not in "iuf":
        raise TypeError(f"random numbers from {lo.type} upto {hi.type}")
    return TensorType(tuple(static_extent(n) for n in extents), t.dtype)


# random (n...) from lo upto hi: uniform in [lo, hi), the next numbers of the stream. Taking them is an effect: no two
# of these are one, and their order stays
random = Op(
    "random", Kind.GENERATE, _random_type, None, effects=frozenset({TRAP}), no_derivative=WHY
)  # fmt: skip


def _one_integer(result: Type) -> Any:
    def rule(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
        indices_are_i64(operands)
        return result

    return rule


# randomCounter n: where the stream stands, which goes on by n
randomCounter = Op(
    "randomCounter", Kind.GENERATE, _one_integer(scalar(I64)), None, effects=frozenset({TRAP}), no_derivative=WHY
)
# randomSeed s: the stream begins anew
randomSeed = Op(
    "randomSeed", Kind.GENERATE, _one_integer(VOID), None, effects=frozenset({TRAP}), no_derivative=WHY
)  # fmt: skip

RANDOM = (random, randomCounter, randomSeed)
