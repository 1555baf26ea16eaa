"""Literal broadcasting promotion: an array whose elements are one literal becomes that literal.

    %c = broadcast 2.0: f32 to (2, 3)                   %c = broadcast 2.0: f32 to (2, 3)
    %y = multiply %c: <2 x 3 x f32>, %x: ...    =>      %y = multiply 2.0: f32, %x: <2 x 3 x f32>

Binary arithmetic, boolean ops and comparisons stretch a scalar operand anyway, so the array of equal elements
need not exist. It is left where it was, for dead code elimination. An operand is replaced only if the type of the
result stays as it is: not where the broadcast alone says how large the result is. Other ops (the initial
value of a reduction, what is stored) are not touched. Exact, and a second run changes nothing. Linear.

Source: DLVM's LiteralBroadcastingPromotion, which also inlined literals that were no splats.
"""

from __future__ import annotations

from dlvm_py.ir import Function, Instruction, Kind, Literal, Value
from dlvm_py.transforms.literals import splat


def run(function: Function) -> bool:
    """Use literals in the place of their broadcasts in `function`; whether anything changed."""
    changed = False
    for i in function.instructions():
        if i.op.kind is Kind.ELEMENTWISE and len(i.operands) == 2:
            changed |= _promote(i, 0)
            changed |= _promote(i, 1)
    return changed


def _promote(i: Instruction, position: int) -> bool:
    """Replace one operand, if it is a broadcast literal and the type of `i` does not depend on that."""
    number = splat(i.operands[position])
    if number is i.operands[position] or not isinstance(number, Literal):
        return False
    operands: list[Value] = [*i.operands]
    operands[position] = number
    if i.op.result_type(operands, i.attrs) != i.type:
        return False
    i.operands = operands
    return True
