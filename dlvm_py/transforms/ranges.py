"""Ranges of integer scalars, and of floats that are made of them, read off the few instructions above them.

A range is a pair of Python ints that bounds the value on every run: a literal is itself, an extent is not
negative, a remainder by a positive literal lies below it, `min`, `max` and `select` combine the ranges of
their operands, arithmetic does so unless it could wrap. Block arguments and everything else have the range
of their dtype (`ranges_in` knows more). Shape arithmetic of slices (`max(min(n, 3), 0)`) is what this is for, and
sums of a few small numbers, as those of the pixels around a place. The walk is cut at a small depth and looks at
what it has met once, so a query costs a bounded number of steps.

Floats that come from integers are finite, and as rounding keeps the order of numbers, so do their bounds: the root of
an i64 that is not negative is at most 3,037,000,499.98, and an integer again (`int(math.sqrt(n))`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from dlvm_py.ir import F64, Instruction, Literal, TensorType, Value, is_scalar
from dlvm_py.ir.analysis.counted_loops import Edges
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.function import Block
from dlvm_py.ir.value import integer

Range = tuple[int, int]
FloatRange = tuple[float, float]

_DEPTH = 16
_FLOAT = TensorType((), F64)
# comparisons that are one way for all numbers of two ranges if they are so for those nearest and farthest apart
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "lessThan": operator.lt,
    "lessThanOrEqual": operator.le,
    "greaterThan": operator.gt,
    "greaterThanOrEqual": operator.ge,
    "equal": operator.eq,
    "notEqual": operator.ne,
}
_ORDERS = frozenset(name for name in _COMPARED if name not in ("equal", "notEqual"))
# functions of one number that keep the order of numbers
_MONOTONE: dict[str, Callable[[float], float]] = {
    "floor": lambda x: float(math.floor(x)),
    "ceil": lambda x: float(math.ceil(x)),
    "rint": lambda x: float(round(x)),
    "truncate": lambda x: float(math.trunc(x)),
}


def integer_range(value: Value) -> Range:
    """Bounds of an integer or bool scalar."""
    return _range(value, _DEPTH, {})


def float_range(value: Value) -> FloatRange | None:
    """Bounds of an f64 scalar that is sure to be a finite number; None where it need not be one."""
    return _float_range(value, _DEPTH, {})


def range_within(value: Value, known: Mapping[Value, Range]) -> Range:
    """Bounds of an integer or bool scalar, where bounds of other values are known."""
    return _range(value, _DEPTH, dict(known))


def _range(value: Value, depth: int, met: dict[Value, Any]) -> Range:
    """Bounds of a value, up to so many instructions above it; `met`: those of instructions, as they are found."""
    assert isinstance(value.type, TensorType)
    whole = value.type.dtype.limits
    number = integer(value)
    if number is not None:
        return number, number
    if value in met:
        return met[value]  # type: ignore[no-any-return]
    if not depth or not isinstance(value, Instruction) or value.type.shape:
        return whole
    met[value] = _within(_of_instruction(value, depth - 1, met), whole, bool(value.attrs.get("checked")))
    return met[value]  # type: ignore[no-any-return]


def _within(found: Range | None, whole: Range, is_checked: bool) -> Range:
    """The range of a result, from that of the exact one."""
    if found is None:
        return whole
    if is_checked:
        # the result exists only where it did not leave the dtype
        return max(found[0], whole[0]), min(found[1], whole[1])
    return found if whole[0] <= found[0] and found[1] <= whole[1] else whole


def ranges_in(loop: Loop, edges: Edges, known: Mapping[Value, Any] | None = None) -> dict[Value, Any]:
    """Bounds of the integers of a loop without others in it; of arguments where ways meet, by what each way passes.

    What a way passes is bounded by what the branches on it have asked: `if m > 255: m = 255`.

    known: bounds of values from before the loop, of floats too, and of arguments of its header.
    """
    met: dict[Value, Any] = dict(known or {})
    for block in loop.ordered:
        for k, argument in enumerate(block.args):
            if block is not loop.header and _is_integer(argument):
                ways = [_passed(b.targets[t].args[k], b, t, loop, edges, met) for b, t in edges[block]]
                met[argument] = min(low for low, _ in ways), max(high for _, high in ways)
        for i in block.instructions:
            if _is_integer(i):
                _range(i, _DEPTH, met)
    return met


def _passed(v: Value, source: Block, k: int, loop: Loop, edges: Edges, met: dict[Value, Any]) -> Range:
    """Bounds of a value where an edge passes it, by what is asked at it and at the ones that lead to it alone."""
    found = _range(v, _DEPTH, met)
    for _ in range(_DEPTH):
        end = source.instructions[-1]
        if end.op.name == "conditional":
            found = _asked(v, found, end.operands[0], k == 0, met)
        if source is loop.header or len(edges[source]) != 1:
            break
        ((source, k),) = edges[source]
    return found


def _asked(v: Value, within: Range, condition: Value, is_so: bool, met: dict[Value, Any]) -> Range:
    """Bounds of a value where a condition holds, or does not."""
    if not isinstance(condition, Instruction):
        return within
    name, operands = condition.op.name, condition.operands
    if name == "not":
        return _asked(v, within, operands[0], not is_so, met)
    if name == ("and" if is_so else "or"):
        for part in operands:
            within = _asked(v, within, part, is_so, met)
        return within
    if name not in _ORDERS or not any(o is v for o in operands):
        return within
    small, large = operands if name in ("lessThan", "lessThanOrEqual") else operands[::-1]
    is_strict = name in ("lessThan", "greaterThan")
    if not is_so:
        small, large, is_strict = large, small, not is_strict
    low, high = within
    if small is v:
        high = min(high, _range(large, _DEPTH, met)[1] - is_strict)
    else:
        low = max(low, _range(small, _DEPTH, met)[0] + is_strict)
    return (low, high) if low <= high else within  # that way is never taken


def _is_integer(v: Value) -> bool:
    return is_scalar(v.type) and v.type.dtype.kind in "biu"  # type: ignore[attr-defined]


def decided(condition: Value, known: Mapping[Value, Any]) -> bool | None:
    """What a comparison of numbers is sure to be, where bounds of other values are known; None if it may be both."""
    if not isinstance(condition, Instruction):
        return None
    name, operands = condition.op.name, condition.operands
    if operands and operands[0].type == _FLOAT:
        return _decided_of_floats(name, [_float_range(v, _DEPTH, dict(known)) for v in operands])
    if name in ("and", "or", "not"):
        answers = [decided(v, known) for v in operands]
        if name == "not":
            return None if answers[0] is None else not answers[0]
        ends = name == "or"
        return ends if ends in answers else None if None in answers else not ends
    if name not in _COMPARED or not all(is_scalar(v.type) and v.type.dtype.kind in "iu" for v in operands):  # type: ignore[attr-defined]
        return None
    (low, high), (least, most) = (range_within(v, known) for v in operands)
    if name in ("equal", "notEqual"):
        is_equal = False if high < least or most < low else True if low == high == least == most else None
        return is_equal if is_equal is None or name == "equal" else not is_equal
    answers = [_COMPARED[name](a, b) for a, b in ((low, most), (high, least))]
    return answers[0] if answers[0] == answers[1] else None


def _decided_of_floats(name: str, ranges: list[FloatRange | None]) -> bool | None:
    """What a question about floats is sure to be; None if that is not known."""
    found = [r for r in ranges if r is not None]
    if len(found) < len(ranges):
        return None
    if name in ("isNan", "isFinite"):
        return name == "isFinite"
    if name not in _COMPARED or len(found) != 2:
        return None
    (low, high), (least, most) = found
    if name in ("equal", "notEqual"):
        return name == "notEqual" if high < least or most < low else None
    answers = [_COMPARED[name](a, b) for a, b in ((low, most), (high, least))]
    return answers[0] if answers[0] == answers[1] else None


def fits(instruction: Instruction, known: Mapping[Value, Any] | None = None) -> bool:
    """Whether the exact result of an arithmetic instruction is sure to fit its dtype.

    known: bounds of other values.
    """
    assert isinstance(instruction.type, TensorType)
    if instruction.type.shape or instruction.type.dtype.kind not in "iu":
        return False
    exact = _of_instruction(instruction, _DEPTH, dict(known or {}))
    low, high = instruction.type.dtype.limits
    return exact is not None and low <= exact[0] and exact[1] <= high


def _of_instruction(i: Instruction, depth: int, met: dict[Value, Any]) -> Range | None:
    """The exact range of the result, as if integers were unbounded; None where nothing is known."""
    if i.op.name == "extent":
        return 0, 2**63 - 1
    if i.op.name == "dataTypeCast" and i.operands[0].type == _FLOAT:
        floats = _float_range(i.operands[0], depth, met)
        return None if floats is None else (math.trunc(floats[0]), math.trunc(floats[1]))
    # a call may take an integer first, and then anything
    if not i.operands or not all(is_scalar(v.type) and v.type.dtype.kind in "biu" for v in i.operands):  # type: ignore[attr-defined]
        return None
    (low, high), *others = (_range(v, depth, met) for v in i.operands)
    match i.op.name:
        case "dataTypeCast":
            return low, high
        case "negate":
            return -high, -low
        case "abs":
            return max(low, -high, 0), max(-low, high)
        case "add":
            return low + others[0][0], high + others[0][1]
        case "subtract":
            return low - others[0][1], high - others[0][0]
        case "multiply":
            corners = [a * b for a in (low, high) for b in others[0]]
            is_square = i.operands[0] is i.operands[1]
            return max(min(corners), 0) if is_square else min(corners), max(corners)
        case "max":
            return max(low, others[0][0]), max(high, others[0][1])
        case "min":
            return min(low, others[0][0]), min(high, others[0][1])
        case "select":
            return min(low, others[0][0]), max(high, others[0][1])
        case "floorDivide" if others[0][0] > 0:
            quotients = [a // b for a in (low, high) for b in others[0]]
            return min(quotients), max(quotients)
        case "modulo" if others[0][0] > 0:
            return 0, min(others[0][1] - 1, high) if low >= 0 else others[0][1] - 1
        case "square":
            return (0 if low <= 0 <= high else min(low * low, high * high)), max(low * low, high * high)
        case "shiftLeft" | "shiftRight" if (by := integer(i.operands[1])) is not None and 0 <= by < 64:
            return (low << by, high << by) if i.op.name == "shiftLeft" else (low >> by, high >> by)
        case "bitOr" | "bitXor":
            bits = max(max(n, ~n).bit_length() for n in (low, high, *others[0]))
            return (0 if low >= 0 and others[0][0] >= 0 else -(1 << bits)), (1 << bits) - 1
        case "bitAnd" if low >= 0 or others[0][0] >= 0:
            return 0, min(h for first, h in ((low, high), others[0]) if first >= 0)
    return None


def _float_range(value: Value, depth: int, met: dict[Value, Any]) -> FloatRange | None:
    """As `float_range`, up to so many instructions above a value; `met`: bounds of instructions, as they are found."""
    if isinstance(value, Literal):
        is_number = isinstance(value.value, float) and math.isfinite(value.value)
        return (value.value, value.value) if is_number and value.type == _FLOAT else None  # type: ignore[return-value]
    if value in met:
        return met[value]  # type: ignore[no-any-return]
    if not depth or not isinstance(value, Instruction) or value.type != _FLOAT:
        return None
    met[value] = _of_floats(value, depth, met)
    return met[value]  # type: ignore[no-any-return]


def _of_floats(value: Instruction, depth: int, met: dict[Value, Any]) -> FloatRange | None:
    name, operands = value.op.name, value.operands
    if name == "dataTypeCast":
        of = operands[0].type
        if not isinstance(of, TensorType) or of.shape or of.dtype.kind not in "iu":
            return None
        low, high = _range(operands[0], depth - 1, met)
        return float(low), float(high)
    found = [_float_range(v, depth - 1, met) for v in (operands[:2] if name == "select" else operands)]
    if not found or None in found:
        return None
    first, last = found[0], found[-1]
    assert first is not None and last is not None
    match name:
        case "sqrt" if first[0] >= 0:
            return math.sqrt(first[0]), math.sqrt(first[1])
        case _ if name in _MONOTONE:
            return _MONOTONE[name](first[0]), _MONOTONE[name](first[1])
        case "negate":
            return -first[1], -first[0]
        case "abs":
            return max(first[0], -first[1], 0.0), max(-first[0], first[1])
        case "add":
            return _finite([first[0] + last[0], first[1] + last[1]])
        case "subtract":
            return _finite([first[0] - last[1], first[1] - last[0]])
        case "multiply":
            return _finite([a * b for a in first for b in last])
        case "divide" if last[0] > 0 or last[1] < 0:
            return _finite([a / b for a in first for b in last])
        case "min":
            return min(first[0], last[0]), min(first[1], last[1])
        case "max":
            return max(first[0], last[0]), max(first[1], last[1])
        case "select":
            return min(first[0], last[0]), max(first[1], last[1])
    return None


def _finite(corners: list[float]) -> FloatRange | None:
    return (min(corners), max(corners)) if all(map(math.isfinite, corners)) else None
