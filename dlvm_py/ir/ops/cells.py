"""Cells: immutable records that enums, and pointers that lie in memory, are lowered to (layout.py).

    %t = literal ?node(%a: $Tree, 1.0: f64): $Tree          %t = makeCell 1 (%a: cell, 1.0: f64)
    branchEnum %t: $Tree case ?leaf 'a case ?node 'b   =>   %tag = cellTag %t: cell
                                                            ... %x = cellItem %t: cell at 1 of (cell, f64)

A cell lives as long as the call from outside in which it was made. `cellItem` is no pure op, though a cell never
changes: it may only run where the tag is known to be one whose items have these types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlvm_py.ir.layout import REFERENCE, leaves
from dlvm_py.ir.op import ALLOCATE, READ, Kind, Op
from dlvm_py.ir.types import I64, EnumType, PointerType, TensorType, TupleType, Type, scalar
from dlvm_py.ir.value import Value

NO_CASE = "no case of the branch fits the value of {}"  # ValueError
NO_DERIVATIVE = "an enum has no derivative"


def _is_item(t: Type) -> bool:
    return (isinstance(t, TensorType) and not t.shape) or (
        isinstance(t, PointerType) and isinstance(t.pointee, TensorType)
    )


def _make_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    for v in operands:
        if not _is_item(v.type):
            raise TypeError(f"a cell holds scalars and pointers to tensors, not {v.type}")
    return REFERENCE


def _cell(value: Value) -> None:
    if value.type != REFERENCE:
        raise TypeError(f"{value.type} is no cell")


def _tag_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    _cell(operands[0])
    return scalar(I64)


def _item_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    _cell(operands[0])
    held, at = attrs["held"], attrs["at"]
    if not isinstance(held, TupleType) or not all(map(_is_item, held.elements)) or not 0 <= at < len(held.elements):
        raise TypeError(f"there is no item {at} of {held}")
    return held.elements[at]


def _leaf_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    found = leaves(operands[0].type)
    if not 0 <= attrs["at"] < len(found):
        raise TypeError(f"there is no leaf {attrs['at']} of {operands[0].type}")
    return found[attrs["at"]]


def _whole_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    _cell(operands[0])
    if not isinstance(attrs["type"], EnumType):
        raise TypeError(f"a cell is made an enum, not {attrs['type']}")
    return attrs["type"]


def _row(name: str, rule: Any, attrs: tuple[str, ...] = (), effects: frozenset[str] = frozenset()) -> Op:
    return Op(name, Kind.AGGREGATE, rule, None, attrs=attrs, effects=effects, no_derivative=NO_DERIVATIVE)


makeCell = _row("makeCell", _make_type, ("tag",), frozenset({ALLOCATE}))
# -1 of null
cellTag = _row("cellTag", _tag_type)
cellItem = _row("cellItem", _item_type, ("at", "held"), frozenset({READ}))
# between lowered code and values that are not: a leaf of a value, and the enum that a cell is
leaf = _row("leaf", _leaf_type, ("at",))
wholeEnum = _row("wholeEnum", _whole_type, ("type",))

CELLS = (makeCell, cellTag, cellItem, leaf, wholeEnum)
