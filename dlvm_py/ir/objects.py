"""Values that are no tensors, in the interpreter: memory that holds them, cells, and how they look from outside.

Inside, a tuple, struct or array is a tuple of its elements; a value of an enum a pair (case, tuple of what it holds); a
cell a `Cell`. Memory is an ndarray where it is of one dtype (references: objects), else a `Record` of such memories, in
the order of the elements. From outside a struct may also be given as a dict, an array as a list; memory is a
`Reference`, whose `value` is what lies in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.errors import PassError
from dlvm_py.ir.evaluate import Allocation, Pointer, Record, conform, poison
from dlvm_py.ir.layout import REFERENCE, leaves, members, memory_leaves
from dlvm_py.ir.types import (
    ArrayType,
    BoxType,
    EnumType,
    PointerType,
    StructType,
    TensorType,
    TupleType,
    Type,
)
from dlvm_py.ir.value import NULL, UNDEFINED


class Cell:
    """What a `cell` refers to: a tag and items."""

    __slots__ = ("items", "tag")

    def __init__(self, tag: int, items: tuple[Any, ...]) -> None:
        self.tag = tag
        self.items = items


class Reference:
    """Memory as an argument or a result: `value` is what it holds before, and after, a call."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Reference({self.value!r})"


# -- memory --------------------------------------------------------------------------------------------


def _dense(t: Type) -> tuple[tuple[int, ...], np.dtype] | None:
    """Extents and dtype of memory that is one ndarray; None for a record."""
    if isinstance(t, TensorType):
        if None in t.shape:
            raise PassError(f"memory of {t}, whose extents are not known")
        return tuple(n or 0 for n in t.shape), t.dtype.numpy
    if isinstance(t, ArrayType):
        inner = _dense(t.element)
        if t.count is None:
            raise PassError(f"memory of {t}, whose extents are not known")
        return None if inner is None else ((t.count, *inner[0]), inner[1])
    return None if isinstance(t, TupleType | StructType) else ((), np.dtype(object))


def fresh(t: Type, zero: bool = False) -> Any:
    """Memory of a `t`: numbers are 0 with `zero`, else spoilt; references are undefined."""
    dense = _dense(t)
    if dense is None:
        inner = [t.element] * (t.count or 0) if isinstance(t, ArrayType) else [m for _, m in members(t)]
        return Record(t, [fresh(e, zero) for e in inner])
    shape, dtype = dense
    if dtype.kind == "O":
        return np.full(shape, UNDEFINED, object)
    memory = np.zeros(shape, dtype)
    if not zero:
        poison(memory)
    return memory


def _part(memory: Any, k: int) -> Any:
    if isinstance(memory, Record):
        return memory.parts[k]
    return memory[k, ...]


def place(memory: Any, t: Type, keys: Sequence[str | int]) -> Any:
    """The memory of an element of memory of a `t`."""
    for key in keys:
        if isinstance(t, StructType):
            names = list(t.fields)
            memory, t = _part(memory, names.index(str(key))), t.fields[str(key)]
            continue
        k = int(key)
        count = len(memory.parts) if isinstance(memory, Record) else len(memory)
        if not 0 <= k < count:
            raise PassError(f"index {k} is out of range for {t}")
        memory = _part(memory, k)
        if isinstance(t, TensorType):
            t = TensorType(t.shape[1:], t.dtype)
        else:
            t = t.elements[k] if isinstance(t, TupleType) else t.element  # type: ignore[attr-defined]
    return memory


def read(memory: Any, t: Type) -> Any:
    """The value in memory of a `t`."""
    if isinstance(t, TensorType):
        return memory.copy()[()]
    if isinstance(t, TupleType | StructType):
        return tuple(read(_part(memory, k), m) for k, (_, m) in enumerate(members(t)))
    if isinstance(t, ArrayType):
        count = len(memory.parts) if isinstance(memory, Record) else len(memory)
        return tuple(read(_part(memory, k), t.element) for k in range(count))
    return memory[()]


def write(memory: Any, t: Type, value: Any) -> None:
    """Put a value into memory of a `t`; an undefined one leaves it as it was."""
    if value is UNDEFINED and not isinstance(memory, np.ndarray):
        return
    if isinstance(t, TupleType | StructType):
        for k, (_, m) in enumerate(members(t)):
            write(_part(memory, k), m, value[k])
    elif isinstance(t, ArrayType):
        for k, element in enumerate(value):
            write(_part(memory, k), t.element, element)
    elif isinstance(t, TensorType):
        if value is not UNDEFINED:
            memory[...] = value
    else:
        memory[()] = value


# -- leaves and cells ----------------------------------------------------------------------------------


def leaf_values(value: Any, t: Type) -> list[Any]:
    """A value as its leaves (layout.py). PassError for pointers into memory that is laid out otherwise here."""
    match t:
        case TupleType() | StructType():
            return [leaf for k, (_, m) in enumerate(members(t)) for leaf in leaf_values(value[k], m)]
        case ArrayType() if not isinstance(t.element, PointerType | BoxType):
            rows = [leaf_values(v, t.element) for v in value]
            return [_stacked([row[k] for row in rows], leaf) for k, leaf in enumerate(memory_leaves(t))]
        case EnumType():
            return [cell_of(value, t)]
        case PointerType() if not isinstance(t.pointee, TensorType):
            return [Pointer(memory, value.owner) for memory in _leaf_memory(value.view, t.pointee)]
        case TensorType() | PointerType():
            return [value]
    raise PassError(f"the leaves of {t} are not there in the interpreter")


def _stacked(rows: list[Any], t: TensorType) -> np.ndarray:
    """The leaf of an array whose rows are given."""
    found = np.empty([n or 0 for n in t.shape], t.dtype.numpy)
    for k, row in enumerate(rows):
        found[k] = row
    return found


def _leaf_memory(memory: Any, t: Type) -> list[Any]:
    if isinstance(t, TupleType | StructType):
        return [m for k, (_, e) in enumerate(members(t)) for m in _leaf_memory(_part(memory, k), e)]
    if isinstance(memory, Record) or memory.dtype == object:
        raise PassError(f"memory of {t} is no memory of leaves in the interpreter")
    return [memory]


def cell_of(value: Any, t: EnumType) -> Any:
    """The cell that a value of an enum is."""
    if value is UNDEFINED or value is NULL:
        return NULL
    case, held = value
    items = [x for v, p in zip(held, t.cases[case], strict=True) for x in leaf_values(v, p)]
    boxed = (Pointer(x, Allocation(x, True, f"?{case}")) if isinstance(x, np.ndarray) else x for x in items)
    return Cell(list(t.cases).index(case), tuple(boxed))


def enum_of(cell: Any, t: EnumType) -> Any:
    """The value of an enum that a cell is."""
    if cell is NULL or cell is UNDEFINED:
        return UNDEFINED
    case = list(t.cases)[cell.tag]
    items = list(cell.items)
    return case, tuple(_whole(items, p) for p in t.cases[case])


def _whole(items: list[Any], t: Type) -> Any:
    """Take the leaves of a `t` from the front of `items`."""
    match t:
        case TupleType() | StructType():
            return tuple(_whole(items, m) for _, m in members(t))
        case EnumType():
            return enum_of(items.pop(0), t)
        case TensorType() if t.shape:
            array = items.pop(0)
            return np.array(array.view if isinstance(array, Pointer) else array)
        case TensorType() | PointerType() if len(leaves(t)) == 1:
            return items.pop(0)
        case ArrayType():
            arrays = [items.pop(0).view for _ in memory_leaves(t.element)]
            return tuple(_whole([a[k] for a in arrays], t.element) for k in range(t.count or 0))
    raise PassError(f"a {t} in a cell is not there in the interpreter")


# -- from outside --------------------------------------------------------------------------------------


def given(value: Any, t: Type, what: str) -> Any:
    """An argument as the interpreter has it. PassError, with `what` it is, if it is no value of the type."""
    match t:
        case TensorType() if isinstance(value, Cell) and t == REFERENCE:
            return value
        case TensorType():
            if not np.can_cast(np.asarray(value).dtype, t.dtype.numpy, "same_kind"):
                raise PassError(f"{what}: {t} expected, got {value!r}")
            return conform(value, t)
        case StructType() | TupleType():
            fields = members(t)
            if isinstance(value, dict) and sorted(value) == sorted(name for name, _ in fields):
                value = tuple(value[name] for name, _ in fields)
            if not isinstance(value, tuple | list) or len(value) != len(fields):
                raise PassError(f"{what}: {t} expected, got {value!r}")
            return tuple(given(v, m, f"{what}, {name}") for v, (name, m) in zip(value, fields, strict=True))
        case ArrayType():
            if not isinstance(value, tuple | list | np.ndarray) or len(value) != t.count:
                raise PassError(f"{what}: {t} expected, got {value!r}")
            return tuple(given(v, t.element, f"{what}, element {k}") for k, v in enumerate(value))
        case EnumType():
            if not isinstance(value, tuple | list) or len(value) != 2 or value[0] not in t.cases:
                raise PassError(f"{what}: {t}, a pair of a case and what it holds, expected, got {value!r}")
            case, held = value
            held_types = t.cases[case]
            if len(held) != len(held_types):
                raise PassError(f"{what}: ?{case} of {t} holds {len(held_types)} values, not {len(held)}")
            return case, tuple(given(v, p, f"{what}, ?{case}") for v, p in zip(held, held_types, strict=True))
        case PointerType() | BoxType():
            pointee = t.pointee if isinstance(t, PointerType) else t.element
            if not isinstance(value, Reference):
                raise PassError(f"{what}: a Reference to a {pointee} expected, got {value!r}")
            memory = fresh(pointee)
            write(memory, pointee, given(value.value, pointee, what))
            return Pointer(memory, Allocation(memory, True, what))
    raise PassError(f"{what}: a value of type {t} cannot be given")


def unwrap(value: Any) -> Any:
    """A result as the caller sees it: pointers become ndarrays, or references where they point to something else."""
    if value is UNDEFINED or value is NULL:
        raise PassError("an undefined value is returned")
    if isinstance(value, tuple):
        return tuple(unwrap(v) for v in value)
    if isinstance(value, Pointer):
        if value.owner is not None and value.owner.freed:
            raise PassError(f"{value.owner.origin} is returned after it was freed")
        if isinstance(value.view, Record):
            return Reference(unwrap(read(value.view, value.view.type)))
        return Reference(unwrap(value.view[()])) if value.view.dtype == object else value.view
    return value
