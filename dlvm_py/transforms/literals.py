"""Scalar literals as exact values: comparison by bits, and the way to NumPy and back.

Two literals are the same value only when their types and their bits agree: `0.0` is not `-0.0`, and a NaN
is the NaN with the same payload. An f32 literal means its Python float rounded to f32.
"""

from __future__ import annotations

from collections.abc import Hashable
from struct import Struct
from typing import Any

import numpy as np

from dlvm_py.ir import F64, NULL, UNDEFINED, Instruction, Literal, TensorType, Type, Value, is_array

_bits = Struct("=d").pack


def is_number(value: Value) -> bool:
    """Whether `value` is a literal number (neither UNDEFINED nor NULL nor a function)."""
    if not isinstance(value, Literal) or not isinstance(value.type, TensorType):
        return False
    return value.value is not UNDEFINED and value.value is not NULL


def splat(v: Value) -> Value:
    """The scalar that every element of `v` is, where `v` is the broadcast of one; else `v` itself."""
    if isinstance(v, Instruction) and v.op.name == "broadcast" and not is_array(v.operands[0].type):
        return v.operands[0]
    return v


def to_numpy(number: Literal) -> Any:
    """The NumPy scalar of a literal number; OverflowError where an integer does not fit its dtype."""
    assert isinstance(number.type, TensorType)
    return number.type.dtype.numpy.type(number.value)


def from_numpy(result: Any, type: Type) -> Literal | None:
    """The literal of a NumPy scalar, or None where its dtype is not the one that `type` states."""
    array = np.asarray(result)
    if not isinstance(type, TensorType) or type.shape or array.shape or array.dtype != type.dtype.numpy:
        return None
    return Literal(type, array.item())


def literal_key(literal: Literal) -> Hashable:
    """Equal for literals that are the same value."""
    if not is_number(literal):
        return literal.type, repr(literal.value)
    assert isinstance(literal.type, TensorType)
    if literal.type.dtype.kind in "biu":
        return literal.type, literal.value
    return literal.type, _bits(literal.value) if literal.type.dtype is F64 else to_numpy(literal).tobytes()


def same_value(a: Value, b: Value) -> bool:
    """Whether two operands are the same SSA value or the same literal."""
    if a is b:
        return True
    return isinstance(a, Literal) and isinstance(b, Literal) and literal_key(a) == literal_key(b)


def boolean(value: Value) -> bool | None:
    """The payload of a bool literal, None for any other value."""
    return value.value if isinstance(value, Literal) and isinstance(value.value, bool) else None
