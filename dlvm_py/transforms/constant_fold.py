"""Constant folding, and the exact laws of arithmetic, index ops and extents.

    'entry(%x: *<_ x f64>, %k: i64):                'entry(%x: *<_ x f64>, %k: i64):
        %t = transpose %x: *<_ x f64>                   %n = extent %x: *<_ x f64> at 0
        %n = extent %t: *<_ x f64> at 0                 %e = elementPointer %x: *<_ x f64> at %k: i64
        %m = max %n: i64, 0: i64            =>          %v = load %e: *f64
        %ok = lessThanOrEqual 0: i64, %m: i64           %w = add %v: f64, 0.0: f64
        check %ok: bool else ValueError ...             return %w: f64
        %e = elementPointer %t: *<_ x f64> at %k: i64
        %v = load %e: *f64
        %o = multiply 2.0: f64, 0.5: f64
        %w = multiply %v: f64, %o: f64
        %w = add %w: f64, 0.0: f64
        return %w: f64

(What became unused is left out on the right. `add %v, 0.0` stays: it turns -0.0 into 0.0.)

Three sources of simplification, tried on each instruction until none applies:

* all operands are literals: NumPy computes the result, as the reference interpreter would. Only ops that
  IEEE 754 or integer arithmetic fix to the bit (EXACT) are folded: `exp 1.0` would be NumPy's rounding,
  compiled code has its own. Nothing is folded that raises, divides by zero, casts out of range, or
  overflows while it is `checked`. Broadcasts of literals are folded to the broadcast of one;
* the laws of identities.py and view_identities.py;
* facts about ranges (ranges.py): a `checked` result that is sure to fit loses the flag, and a check of a
  literal true disappears.

The blocks are swept in reverse postorder, so that operands are simple before their users are looked at,
until a sweep changes nothing; only values around a loop need a second one. Every rewriting makes an
instruction go away, moves it closer to the roots of its operands, or brings it to a normal form (literals
to the right of comparisons, sums instead of differences with a literal), so the sweeps end. The
instructions that become unused are left to dead code elimination. Any stage, the CFG is not touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.ir import OPS, Function, Instruction, Kind, Literal, TensorType, Value, is_scalar, literal
from dlvm_py.ir.analysis.cfg import reverse_postorder
from dlvm_py.ir.analysis.effects import unchecked
from dlvm_py.ir.value import integer
from dlvm_py.transforms.identities import ARITHMETIC, become
from dlvm_py.transforms.literals import boolean, from_numpy, is_number, splat, to_numpy
from dlvm_py.transforms.ranges import fits
from dlvm_py.transforms.substitution import is_pinned, rewrite_operands, substitute, takes_whole
from dlvm_py.transforms.view_identities import VIEWS

_RULES = ARITHMETIC | VIEWS

# ops whose result is fixed to the bit, also in floating point
EXACT = frozenset(
    "negate add subtract multiply divide floorDivide truncateDivide modulo power max min sqrt square abs sign "
    "floor ceil rint truncate equal notEqual lessThan lessThanOrEqual greaterThan greaterThanOrEqual "
    "and or not bitAnd bitOr bitXor bitNot shiftLeft shiftRight isFinite isNan select dataTypeCast".split()
)
_ROUNDED_BY_LIBRARY = {"power": "fc", "multiply": "c", "divide": "c", "square": "c", "sqrt": "c"}


def run(function: Function) -> bool:
    """Fold constants in `function`; whether anything changed."""
    changed = False
    while _sweep(function):
        changed = True
    return changed


def _sweep(function: Function) -> bool:
    changed = False
    replaced: dict[Value, Value] = {}
    users = _users_of_extents(function)
    for block in reverse_postorder(function):
        kept: list[Instruction] = []
        for i in block.instructions:
            kept.extend(rewrite_operands(i, replaced))
            holders = [u for u in users[i] if takes_whole(u, i)] if i in users else []
            if holders:
                # sections read their layout off this extent: the others are given another one
                kept.append(i)
                if len(holders) == len(users[i]):
                    continue
                other = Instruction(i.op, i.operands, i.attrs, loc=i.loc)
                other.block = block
                value = _simplify(other)
                if value is not other or other.operands is not i.operands:
                    kept.extend([other] if value is other else [])
                    assert value is not None
                    replaced[i], changed = value, True
                continue
            before = i.op, i.operands, i.attrs
            value = _simplify(i)
            changed |= value is not i or before != (i.op, i.operands, i.attrs)
            if value is i:
                kept.append(i)
            elif value is not None:
                replaced[i] = value
        block.instructions = kept
    substitute(function.blocks, replaced)
    return changed


def _users_of_extents(function: Function) -> dict[Value, list[Instruction]]:
    """Who uses an extent, once an occurrence, where there are sections: nothing else can be taken whole."""
    extents: dict[Value, list[Instruction]] = {i: [] for i in function.instructions() if i.op is OPS["extent"]}
    if not extents or not any(i.op is OPS["section"] for i in function.instructions()):
        return {}
    for i in function.instructions():
        for operand in i.all_operands():
            if operand in extents:
                extents[operand].append(i)
    return extents


def _simplify(i: Instruction) -> Value | None:
    """What `i` always equals, after changing it in place as far as possible; None for a check that holds."""
    if i.op.name == "check" and boolean(i.operands[0]) is True:
        return None
    if is_pinned(i):
        return i
    while True:
        if i.attrs.get("checked") and fits(i):
            i.attrs = unchecked(i)
        folded = literal_result(i)
        if folded is not None:
            return folded
        if _become_broadcast(i):
            return i
        rule = _RULES.get(i.op.name)
        value = rule(i) if rule else None
        if value is not i:
            return value if value is not None and value.type == i.type else i


def _become_broadcast(i: Instruction) -> bool:
    """Turn `i` into the broadcast of the literal number that all its elements are; whether they are one."""
    if i.op.kind is not Kind.ELEMENTWISE:
        return False
    numbers = [splat(v) for v in i.operands]
    whole = next((v for v, number in zip(i.operands, numbers, strict=True) if v is not number), None)
    if not isinstance(whole, Instruction) or not all(is_number(v) and is_scalar(v.type) for v in numbers):
        return False
    number = literal_result(Instruction(i.op, numbers, i.attrs))
    return number is not None and become(i, whole.op, [number, *whole.operands[1:]]) is i


def literal_result(i: Instruction) -> Literal | None:
    """The literal result of an exact op on literal numbers, None for any other instruction."""
    if i.op.kind is not Kind.ELEMENTWISE or i.op.name not in EXACT or not all(map(is_number, i.operands)):
        return None
    assert isinstance(i.type, TensorType)
    kind = i.operands[0].type.dtype.kind  # type: ignore[attr-defined]
    if kind in _ROUNDED_BY_LIBRARY.get(i.op.name, "") or kind in "iu" and not _is_defined(i):
        return None
    if i.attrs.get("checked"):
        return _exact_integer(i)
    if i.op.name == "dataTypeCast" and not _casts_in_range(i.operands[0], i.type):
        return None
    evaluate = i.op.evaluate
    assert evaluate is not None
    try:
        numbers = [to_numpy(v) for v in i.operands]  # type: ignore[arg-type]
        with np.errstate(all="ignore"):
            return from_numpy(evaluate(*numbers, **i.attrs), i.type)
    except (ArithmeticError, ValueError):
        return None


def _is_defined(i: Instruction) -> bool:
    """Whether integer division, power and shifts have operands for which all languages agree."""
    second = integer(i.operands[-1])
    match i.op.name:
        case "divide" | "floorDivide" | "modulo" | "truncateDivide":
            return second not in (None, 0, -1)
        case "power":
            return second is not None and second >= 0
        case "shiftLeft" | "shiftRight":
            return second is not None and 0 <= second < i.type.dtype.bits  # type: ignore[attr-defined]
    return True


def _exact_integer(i: Instruction) -> Literal | None:
    """The result of a checked op where it fits i64; where it does not, the overflow is left to happen."""
    a, *rest = (integer(v) for v in i.operands)
    assert a is not None
    b = rest[0] if rest else None
    result: Any = None
    match i.op.name, b:
        case "negate", _:
            result = -a
        case "abs", _:
            result = abs(a)
        case "add", int():
            result = a + b
        case "subtract", int():
            result = a - b
        case "multiply", int():
            result = a * b
        # a power that fits has a small exponent, unless the base is a unit
        case "power", int() if b < 64 or -1 <= a <= 1:
            result = a**b
    low, high = i.type.dtype.limits  # type: ignore[attr-defined]
    return literal(result, i.type) if result is not None and low <= result <= high else None


def _casts_in_range(source: Value, to: TensorType) -> bool:
    """Whether a literal's cast means the same everywhere: floats beyond an integer dtype do not."""
    assert isinstance(source, Literal)
    number = source.value
    if isinstance(number, complex):
        return to.dtype.is_complex
    if not isinstance(number, float) or not to.dtype.is_integer:
        return True
    low, high = to.dtype.limits
    return bool(np.isfinite(number)) and low <= int(number) <= high
