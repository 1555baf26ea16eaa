"""DLVM's aggregates as values: literals of tensors, arrays, structs and enums, and access to their elements.

They print as the original's: `literal <%a: f32, 1: f32>: <2 x f32>`, `literal {#x = %a: f32}: $P`. Before
anything native they are lowered: transforms/lower_aggregates.py, and lower_values.py for the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import Kind, Op
from dlvm_py.ir.types import VOID, ArrayType, EnumType, StructType, TensorType, TupleType, Type
from dlvm_py.ir.value import Literal, Value

Key = int | str
ELSEWHERE = "differentiated by transforms/differentiate_module.py, in straight-line code only"


def keys_of(attrs: dict[str, Any]) -> tuple[Key, ...]:
    """The path of an extract or insert."""
    at = attrs["at"]
    return tuple(at) if isinstance(at, tuple | list) else (at,)


def element_type(t: Type, key: Key) -> Type:
    """The type of one element; TypeError where there is none."""
    if isinstance(t, StructType) and isinstance(key, str) and key in t.fields:
        return t.fields[key]
    if isinstance(key, int):
        if isinstance(t, TupleType) and 0 <= key < len(t.elements):
            return t.elements[key]
        if isinstance(t, ArrayType) and 0 <= key < (math.inf if t.count is None else t.count):
            return t.element
        if isinstance(t, TensorType) and t.rank and 0 <= key < (math.inf if t.shape[0] is None else t.shape[0]):
            return TensorType(t.shape[1:], t.dtype)
    raise TypeError(f"no element {key if isinstance(key, int) else '#' + key} in {t}")


def path_type(t: Type, keys: Sequence[Key]) -> Type:
    """The type at the end of a path."""
    for key in keys:
        t = element_type(t, key)
    return t


def element(value: Any, t: Type, keys: Sequence[Key]) -> Any:
    """The element of an interpreter's value: tuples, and ndarrays for tensors."""
    for key in keys:
        place = list(t.fields).index(key) if isinstance(t, StructType) else key  # type: ignore[arg-type]
        value, t = value[place], element_type(t, key)
    return value


def replaced(value: Any, t: Type, keys: Sequence[Key], new: Any) -> Any:
    """A copy of an interpreter's value with another element."""
    if not keys:
        return new
    place: Any = list(t.fields).index(keys[0]) if isinstance(t, StructType) else keys[0]  # type: ignore[arg-type]
    inner = replaced(value[place], element_type(t, keys[0]), keys[1:], new)
    if isinstance(t, TensorType):
        value = np.array(value)
        value[place] = inner
        return value
    return (*value[:place], inner, *value[place + 1 :])


def _all_are(types: Sequence[Type], count: int, wanted: Type) -> bool:
    """Whether there are so many types and each is the wanted one; the count may be astronomical."""
    return len(types) == count and all(t == wanted for t in types)


def _aggregate_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t = attrs["type"]
    types = [v.type for v in operands]
    match t:
        case TensorType() if t.rank and None not in t.shape:
            rows, elements = t.shape[0] or 0, math.prod(n or 0 for n in t.shape)
            if not (
                _all_are(types, rows, TensorType(t.shape[1:], t.dtype))
                or _all_are(types, elements, TensorType((), t.dtype))
            ):
                raise TypeError(f"the elements do not make a {t}")
        case ArrayType() if t.count is not None:
            if not _all_are(types, t.count, t.element):
                raise TypeError(f"the elements do not make a {t}")
        case StructType():
            if types != list(t.fields.values()):
                raise TypeError(f"the fields of {t} are {', '.join(f'#{n}: {f}' for n, f in t.fields.items())}")
        case _:
            raise TypeError(f"there is no literal of elements for {t}")
    return t


def _aggregate(*xs: Any, type: Type) -> Any:  # noqa: A002 - the name of the attribute
    if not isinstance(type, TensorType):
        return tuple(xs)
    return np.array(xs, type.dtype.numpy).reshape([n or 0 for n in type.shape])


def _case_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t, case = attrs["type"], attrs["case"]
    if not isinstance(t, EnumType) or case not in t.cases:
        raise TypeError(f"no case ?{case} in {t}")
    if tuple(v.type for v in operands) != t.cases[case]:
        raise TypeError(f"?{case} of {t} holds ({', '.join(map(str, t.cases[case]))})")
    return t


def _insert_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    value, aggregate = operands
    found = path_type(aggregate.type, keys_of(attrs))
    if found != value.type:
        raise TypeError(f"{value.type} is inserted where {aggregate.type} has a {found}")
    return aggregate.type


# elements in order, rows first; scalars may stand for the elements of all rows
aggregate = Op("aggregate", Kind.AGGREGATE, _aggregate_type, _aggregate, attrs=("type",), no_derivative=ELSEWHERE)
enumCase = Op(
    "enumCase",
    Kind.AGGREGATE,
    _case_type,
    lambda *xs, case, type: (case, xs),  # noqa: A006
    attrs=("case", "type"),
    no_derivative="an enum has no derivative",
)
# insert v to a at k: a with another element
insert = Op("insert", Kind.AGGREGATE, _insert_type, None, attrs=("at",), no_derivative=ELSEWHERE)


def _branch_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t, cases = operands[0].type, attrs["cases"]
    if not isinstance(t, EnumType):
        raise TypeError(f"{t} is no enum")
    for case in cases:
        if case not in t.cases:
            raise TypeError(f"no case ?{case} in {t}")
    if len(set(cases)) != len(cases):
        raise TypeError("a case stands twice")
    return VOID


# branchEnum e case ?a 'x case ?b 'y: a terminator; the arguments of each block are what the case holds. In memory the
# targets pass undefined literals, because the values are nowhere else
branchEnum = Op(
    "branchEnum",
    Kind.CONTROL,
    _branch_type,
    None,
    attrs=("cases",),
    no_derivative="an enum has no derivative",
)


def _constant_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if len(operands) != 1 or not isinstance(operands[0], Literal):
        raise TypeError("it takes one literal")
    return operands[0].type


# literal undefined: T, literal null: *T: the literal that is the operand
constant = Op("constant", Kind.AGGREGATE, _constant_type, lambda x: x, no_derivative="it is constant")

AGGREGATES = (constant, aggregate, enumCase, insert, branchEnum)
