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
from collections.abc import Callable, Mapping
from typing import Any

from dlvm_py.ir import F64, Instruction, Literal, TensorType, Value, is_scalar
from dlvm_py.ir.analysis.counted_loops import Edges
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.value import integer

Range = tuple[int, int]
FloatRange = tuple[float, float]

_DEPTH = 16
_FLOAT = TensorType((), F64)
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


def ranges_in(loop: Loop, edges: Edges) -> dict[Value, Range]:
    """Bounds of the integers of a loop without others in it; of arguments where ways meet, by what each way passes."""
    met: dict[Value, Range] = {}
    for block in loop.ordered:
        for k, argument in enumerate(block.args):
            if block is not loop.header and _is_integer(argument):
                ways = [_range(b.targets[t].args[k], _DEPTH, met) for b, t in edges[block]]
                met[argument] = min(low for low, _ in ways), max(high for _, high in ways)
        for i in block.instructions:
            if _is_integer(i):
                _range(i, _DEPTH, met)
    return met


def _is_integer(v: Value) -> bool:
    return is_scalar(v.type) and v.type.dtype.kind in "biu"  # type: ignore[attr-defined]


def fits(instruction: Instruction) -> bool:
    """Whether the exact result of an arithmetic instruction is sure to fit its dtype."""
    assert isinstance(instruction.type, TensorType)
    if instruction.type.shape or instruction.type.dtype.kind not in "iu":
        return False
    exact = _of_instruction(instruction, _DEPTH, {})
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
        case "floorDivide" if (divisor := integer(i.operands[1])) and divisor > 0:
            return low // divisor, high // divisor
        case "modulo" if (divisor := integer(i.operands[1])) and divisor > 0:
            return 0, divisor - 1
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
    if not depth or not isinstance(value, Instruction) or value.type != _FLOAT:
        return None
    if value not in met:
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
