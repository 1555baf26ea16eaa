"""The laws of arithmetic that constant folding applies: one function an op name, in the table ARITHMETIC.

A rule looks at one instruction and answers with the value that it always equals, with the instruction
itself after changing it in place, or with None. Each law holds for every bit pattern:

* floating point: `x * 1`, `x / 1`, `x - 0.0`, `x + -0.0` are x; `x + 0.0` is not (x = -0.0), nor is
  `x * 0` (NaN, infinities, sign), and complex products round;
* integers wrap, so sums with literals may be regrouped, unless the instruction is `checked`;
* comparisons of integers are decided by their ranges (ranges.py).

The caller drops a value whose type is not the instruction's (a stretched operand is no identity).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dlvm_py.ir import BOOL, OPS, DType, Instruction, Literal, Op, TensorType, Value, is_scalar, literal
from dlvm_py.ir.ops.aggregates import keys_of
from dlvm_py.ir.value import integer
from dlvm_py.transforms.literals import boolean, from_numpy, same_value, to_numpy
from dlvm_py.transforms.ranges import integer_range

Rule = Callable[[Instruction], Value | None]


def become(i: Instruction, op: Op | str, operands: list[Value], **attrs: Any) -> Instruction | None:
    """Turn `i` into another instruction of the same type, in place; None where the type would change."""
    row = OPS[op] if isinstance(op, str) else op
    try:
        if row.result_type(operands, attrs) != i.type:
            return None
    except TypeError:
        return None
    i.op, i.operands, i.attrs = row, operands, attrs
    return i


def _dtype(value: Value) -> DType:
    assert isinstance(value.type, TensorType)
    return value.type.dtype


def _is_integer(value: Value) -> bool:
    return _dtype(value).is_integer


def _is_checked(i: Instruction) -> bool:
    return bool(i.attrs.get("checked"))


def _made_by(value: Value, name: str) -> Instruction | None:
    return value if isinstance(value, Instruction) and value.op.name == name else None


def _is_float(value: Value, number: float) -> bool:
    """Whether a literal is this real float, the sign of zero included."""
    payload = value.value if isinstance(value, Literal) else None
    return isinstance(payload, float) and payload == number and math.copysign(1, payload) == math.copysign(1, number)


def _is_one(value: Value) -> bool:
    return integer(value) == 1 or _is_float(value, 1.0)


def _number(value: int, like: Value) -> Value | None:
    return literal(value, like.type) if is_scalar(like.type) else None


def _wrapped(op: str, a: Literal, b: Literal) -> Literal:
    evaluate = OPS[op].evaluate
    assert evaluate is not None
    # arrays of one element wrap in silence, NumPy scalars warn
    result = from_numpy(evaluate(to_numpy(a).reshape(1), to_numpy(b).reshape(1))[0], a.type)
    assert result is not None
    return result


# -- arithmetic --------------------------------------------------------------------------------------


def _add(i: Instruction) -> Value | None:
    a, b = i.operands
    for x, y in ((a, b), (b, a)):
        # x + 0 = x in integers, x + -0.0 = x in floats
        if integer(y) == 0 or _is_float(y, -0.0):
            return x
        difference = _made_by(x, "subtract")
        # (x - y) + y = x modulo 2^n
        if difference and _is_integer(i) and not _is_checked(i) and difference.operands[1] is y:
            return difference.operands[0]
        inner = _made_by(x, "add")
        if inner is None or integer(y) is None or _is_checked(i) or _is_checked(inner):
            continue
        # (x + c) + d = x + (c + d) modulo 2^n
        for p, q in (inner.operands, inner.operands[::-1]):
            if isinstance(q, Literal) and integer(q) is not None:
                return become(i, "add", [p, _wrapped("add", q, y)])  # type: ignore[arg-type]
    return None


def _subtract(i: Instruction) -> Value | None:
    a, b = i.operands
    if integer(b) == 0 or _is_float(b, 0.0):
        return a
    if not _is_integer(i):
        return None
    if a is b:
        return _number(0, i)
    if _is_checked(i):
        return None
    if isinstance(b, Literal) and integer(b) is not None:
        # x - c = x + (-c) modulo 2^n: one form for the regrouping of sums
        return become(i, "add", [a, _wrapped("subtract", literal(0, b.type), b)])
    total = _made_by(a, "add")
    if total and b in total.operands:
        # (x + y) - y = x modulo 2^n
        return total.operands[1] if total.operands[0] is b else total.operands[0]
    difference = _made_by(b, "subtract")
    # x - (x - y) = y modulo 2^n
    return difference.operands[1] if difference and difference.operands[0] is a else None


def _multiply(i: Instruction) -> Value | None:
    for x, y in (i.operands, i.operands[::-1]):
        if _is_one(y):
            return x
        if integer(y) == 0:
            return _number(0, i)
    return None


def _divide(i: Instruction) -> Value | None:
    return i.operands[0] if _is_one(i.operands[1]) else None


def _floor_divide(i: Instruction) -> Value | None:
    return i.operands[0] if integer(i.operands[1]) == 1 else None


def _modulo(i: Instruction) -> Value | None:
    x, n = i.operands
    divisor = integer(n)
    if divisor == 1:
        return _number(0, i)
    if divisor is None or not is_scalar(x.type):
        return None
    low, high = integer_range(x)
    # x mod n = x for 0 <= x < n
    return x if 0 <= low and high < divisor else None


def _negate(i: Instruction) -> Value | None:
    inner = _made_by(i.operands[0], "negate")
    # -(-x) = x, with wrapping too; where the inner one did not overflow the outer one does not
    return inner.operands[0] if inner and (_is_checked(inner) or not _is_checked(i)) else None


def _absolute(i: Instruction) -> Value | None:
    (x,) = i.operands
    return x if is_scalar(x.type) and _is_integer(x) and integer_range(x)[0] >= 0 else None


def _extremum(i: Instruction) -> Value | None:
    a, b = i.operands
    if same_value(a, b):
        return a  # max(x, x) = x, also for NaN
    if not _is_integer(i) or not is_scalar(i.type):
        return None
    larger = i.op.name == "max"
    (a_low, a_high), (b_low, b_high) = integer_range(a), integer_range(b)
    if a_low >= b_high:
        return a if larger else b
    if b_low >= a_high:
        return b if larger else a
    for x, y in ((a, b), (b, a)):
        if not isinstance(y, Instruction) or y.op.name not in ("max", "min") or x not in y.operands:
            continue
        # max(x, max(x, y)) = max(x, y), max(x, min(x, y)) = x
        return y if y.op is i.op else x
    for x, y in ((a, b), (b, a)):
        inner = _made_by(x, i.op.name)
        if inner is None or integer(y) is None:
            continue
        # max(max(x, c), d) = max(x, max(c, d))
        for p, q in (inner.operands, inner.operands[::-1]):
            if isinstance(q, Literal) and integer(q) is not None:
                return become(i, i.op, [p, _wrapped(i.op.name, q, y)])  # type: ignore[arg-type]
    return None


def _scale_seed(i: Instruction) -> Value | None:
    partial = i.operands[1]
    # only a partial that is not finite is guarded against
    if isinstance(partial, Literal) and isinstance(partial.value, float) and math.isfinite(to_numpy(partial)):
        return become(i, "multiply", i.operands)
    return None


# -- comparison, boolean, bits ---------------------------------------------------------------------

_MIRROR = {
    "lessThan": "greaterThan",
    "greaterThan": "lessThan",
    "lessThanOrEqual": "greaterThanOrEqual",
    "greaterThanOrEqual": "lessThanOrEqual",
    "equal": "equal",
    "notEqual": "notEqual",
}
_NEGATED = {
    "lessThan": "greaterThanOrEqual",
    "greaterThanOrEqual": "lessThan",
    "greaterThan": "lessThanOrEqual",
    "lessThanOrEqual": "greaterThan",
    "equal": "notEqual",
    "notEqual": "equal",
}
_HOLDS_FOR_EQUALS = ("equal", "lessThanOrEqual", "greaterThanOrEqual")


def _compare(i: Instruction) -> Value | None:
    a, b = i.operands
    kind = _dtype(a).kind
    if (truths := _truths(i)) is not None:
        return truths
    if kind not in "biu" or not is_scalar(i.type):
        return None
    if a is b:
        return literal(i.op.name in _HOLDS_FOR_EQUALS)
    if isinstance(a, Literal) and not isinstance(b, Literal):
        return become(i, _MIRROR[i.op.name], [b, a])
    if kind == "b":
        flag = boolean(b)
        keeps = i.op.name == "equal" and flag is True or i.op.name == "notEqual" and flag is False
        return a if keeps else None
    (a_low, a_high), (b_low, b_high) = integer_range(a), integer_range(b)
    below, above = a_high < b_low, a_low > b_high
    not_above, not_below = a_high <= b_low, a_low >= b_high
    sure, never = {
        "equal": (False, below or above),
        "notEqual": (below or above, False),
        "lessThan": (below, not_below),
        "lessThanOrEqual": (not_above, above),
        "greaterThan": (above, not_above),
        "greaterThanOrEqual": (not_below, below),
    }[i.op.name]
    return literal(bool(sure)) if sure or never else None


def _truths(i: Instruction) -> Value | None:
    """What a truth value made a number is compared with 0 for: itself, or its negation."""
    number, zero = i.operands
    made = _made_by(number, "dataTypeCast")
    if made is None or _dtype(made.operands[0]) is not BOOL or not (integer(zero) == 0 or _is_float(zero, 0.0)):
        return None
    if i.op.name == "notEqual":
        return made.operands[0]
    return become(i, "not", [made.operands[0]]) if i.op.name == "equal" else None


def _not(i: Instruction) -> Value | None:
    inner = i.operands[0]
    if not isinstance(inner, Instruction):
        return None
    if inner.op.name == "not":
        return inner.operands[0]
    if inner.op.name not in _NEGATED:
        return None
    # not (a < b) is a >= b only without NaN; not (a == b) is a != b always
    if _dtype(inner.operands[0]).is_inexact and inner.op.name not in ("equal", "notEqual"):
        return None
    return become(i, _NEGATED[inner.op.name], list(inner.operands))


def _and_or(i: Instruction) -> Value | None:
    if i.operands[0] is i.operands[1]:
        return i.operands[0]
    neutral = i.op.name == "and"
    for x, y in (i.operands, i.operands[::-1]):
        flag = boolean(y)
        if flag is neutral:
            return x
        if flag is not None:
            return literal(flag) if is_scalar(i.type) else None
    return None


def _bits(i: Instruction) -> Value | None:
    a, b = i.operands
    if a is b:
        return a if i.op.name != "bitXor" else _number(0, i)
    for x, y in ((a, b), (b, a)):
        number = integer(y)
        ones = -1 if _dtype(i).kind == "i" else _dtype(i).limits[1]
        if i.op.name == "bitAnd" and number == 0:
            return _number(0, i)
        # 0 changes nothing in an or, all ones nothing in an and
        if number is not None and number == (ones if i.op.name == "bitAnd" else 0):
            return x
    return None


def _shift(i: Instruction) -> Value | None:
    return i.operands[0] if integer(i.operands[1]) == 0 else None


# -- select, casts, aggregates -----------------------------------------------------------------------


def _select(i: Instruction) -> Value | None:
    a, b, flag = i.operands
    if same_value(a, b):
        return a
    chosen = boolean(flag)
    if chosen is not None:
        return a if chosen else b
    arms = boolean(a), boolean(b)
    if arms == (True, False):
        return flag
    if arms == (False, True):
        return become(i, "not", [flag])
    inverse = _made_by(flag, "not")
    # a by not c else b = b by c else a
    return become(i, "select", [b, a, inverse.operands[0]]) if inverse else None


_MANTISSA = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


def _holds_all_of(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`, so that the cast and its way back lose nothing."""
    if wide is narrow or narrow is BOOL:
        return True
    if wide.is_integer and narrow.is_integer:
        (low, high), (least, most) = wide.limits, narrow.limits
        return low <= least and most <= high
    if wide.is_float and narrow.is_integer:
        return narrow.bits <= _MANTISSA[wide.name]
    return wide.kind == narrow.kind and wide.is_inexact and wide.bits >= narrow.bits


def _cast(i: Instruction) -> Value | None:
    (x,) = i.operands
    if _dtype(x) is _dtype(i):
        return x
    inner = _made_by(x, "dataTypeCast")
    if inner is None:
        return None
    (source,) = inner.operands
    first, middle, last = _dtype(source), _dtype(inner), _dtype(i)
    if not _holds_all_of(middle, first):
        return None
    # x -> wider -> y = x -> y, unless y cuts: integers wrap where floats do not, and complex numbers warn
    cuts = middle.is_inexact and not last.is_inexact and not _holds_all_of(last, first)
    if cuts or (last.is_complex or middle.is_complex) and last is not first:
        return None
    return source if last is first else become(i, "dataTypeCast", [source], to=last.name)


def _extract(i: Instruction) -> Value | None:
    aggregate = _made_by(i.operands[0], "tuple")
    if aggregate is None:
        return None
    first, *rest = keys_of(i.attrs)
    element = aggregate.operands[int(first)]
    return become(i, "extract", [element], at=tuple(rest) if len(rest) > 1 else rest[0]) if rest else element


ARITHMETIC: dict[str, Rule] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "floorDivide": _floor_divide,
    "modulo": _modulo,
    "negate": _negate,
    "abs": _absolute,
    "max": _extremum,
    "min": _extremum,
    "scaleSeed": _scale_seed,
    **dict.fromkeys(_MIRROR, _compare),
    "not": _not,
    "and": _and_or,
    "or": _and_or,
    **dict.fromkeys(("bitAnd", "bitOr", "bitXor"), _bits),
    **dict.fromkeys(("shiftLeft", "shiftRight"), _shift),
    "select": _select,
    "dataTypeCast": _cast,
    "extract": _extract,
}
