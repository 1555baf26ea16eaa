"""Loops that shrink an integer until it is 0: they end within as many trips as it has bits.

'head(%v: i64, ...): %more = notEqual %v, 0              a trip clears a bit: %v & (%v - 1), %v & -%v taken off;
                     conditional %more then 'body ...    or halves a number that is not negative: %v >> 1, %v // 10
"""

from __future__ import annotations

from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.value import BlockArg, Instruction, Value, integer


def most_trips(loop: Loop) -> int | None:
    """How many trips `loop` makes at most, by the number that it shrinks; None where it shrinks none.

    It may be left from within all the same.
    """
    found = shrinking(loop)
    return None if found is None else found.type.dtype.bits  # type: ignore[attr-defined]


def shrinking(loop: Loop, natural: bool = False) -> BlockArg | None:
    """The argument of the head that the loop shrinks until it is 0.

    natural: where the number that it begins with is known not to be negative; one that is only halved stays so.
    """
    header = loop.header
    test = header.terminator
    condition = test.operands[0] if test is not None and test.op.name == "conditional" else None
    if test is None or not isinstance(condition, Instruction) or condition.block is not header:
        return None
    if not loop.contains(test.targets[0].block) or loop.contains(test.targets[1].block):
        return None
    v, is_positive = _asked(condition)
    if not isinstance(v, BlockArg) or v.block is not header or v.type.dtype.kind not in "iu":  # type: ignore[attr-defined]
        return None
    at = header.args.index(v)
    following = [t.args[at] for b in loop.latches for t in b.targets if t.block is header]
    halves = natural or is_positive or v.type.dtype.kind == "u"  # type: ignore[attr-defined]
    return v if all(_clears(f, v) or (halves and _halves(f, v)) for f in following) else None


def _asked(condition: Instruction) -> tuple[Value | None, bool]:
    """The value that must not be 0 for the loop to go on; whether it must be positive as well."""
    name, operands = condition.op.name, condition.operands
    if name == "lessThan":
        name, operands = "greaterThan", operands[::-1]
    if name not in ("notEqual", "greaterThan") or integer(operands[1]) != 0:
        return None, False
    return operands[0], name == "greaterThan"


def _clears(following: Value, v: Value) -> bool:
    """Whether a number is another one without its lowest bit."""
    if not isinstance(following, Instruction) or len(following.operands) != 2:
        return False
    a, b = following.operands
    if following.op.name == "bitAnd":
        return any(x is v and _is_one_less(y, v) for x, y in ((a, b), (b, a)))
    if following.op.name == "subtract":
        return a is v and _is_lowest(b, v)
    return following.op.name == "bitXor" and any(x is v and _is_lowest(y, v) for x, y in ((a, b), (b, a)))


def _is_one_less(i: Value, v: Value) -> bool:
    if not isinstance(i, Instruction) or i.op.name not in ("add", "subtract") or i.operands[0] is not v:
        return False
    n = integer(i.operands[1])
    if i.op.name == "subtract":
        return n == 1
    return n == -1 or (n is not None and n == v.type.dtype.limits[1] and v.type.dtype.kind == "u")  # type: ignore[attr-defined]


def _is_lowest(i: Value, v: Value) -> bool:
    """Whether a number is v & -v."""
    if not isinstance(i, Instruction) or i.op.name != "bitAnd":
        return False
    a, b = i.operands
    return any(
        x is v and isinstance(y, Instruction) and y.op.name == "negate" and y.operands[0] is v
        for x, y in ((a, b), (b, a))
    )


def _halves(following: Value, v: Value) -> bool:
    """Whether a number that is not negative is at most half of another one."""
    if not isinstance(following, Instruction) or len(following.operands) != 2 or following.operands[0] is not v:
        return False
    n = integer(following.operands[1])
    if n is None:
        return False
    return n >= 1 if following.op.name == "shiftRight" else following.op.name == "floorDivide" and n >= 2
