"""Values of the reference interpreter, and what an op does to them: NumPy semantics, literally.

Scalars are NumPy scalars; tensors are ndarrays that nothing writes to; pointers are `Pointer`, an ndarray view
and the allocation that owns it. PassError says that the program broke a promise of the IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.errors import PassError
from dlvm_py.ir.analysis.effects import unchecked
from dlvm_py.ir.layout import members
from dlvm_py.ir.op import Kind
from dlvm_py.ir.types import ArrayType, PointerType, StructType, TensorType, TupleType, Type
from dlvm_py.ir.value import NULL, UNDEFINED, FunctionName, Instruction, Literal, OpName

OVERFLOW = "integer overflow: the result does not fit in 64 bits"


class Allocation:
    """The owner of memory: how many references are held, and whether it has been freed.

    The caller's own reference keeps an argument: its count starts at one and may not fall to zero.
    """

    __slots__ = ("array", "borrowed", "count", "freed", "origin")

    def __init__(self, array: Any, borrowed: bool, origin: str) -> None:
        self.array = array
        self.borrowed = borrowed
        self.count = 1
        self.freed = False
        self.origin = origin

    def release(self) -> None:
        """Give one reference back; the last one frees and spoils the memory."""
        if self.count - self.borrowed <= 0:
            raise PassError(f"{self.origin} is released too often")
        self.count -= 1
        if not self.count:
            self.freed = True
            poison(self.array)


class Record:
    """Memory of a value that has elements of its own (objects.py): one memory an element."""

    __slots__ = ("parts", "type")

    def __init__(self, type: Type, parts: list[Any]) -> None:
        self.type = type
        self.parts = parts


class Pointer:
    """A view of an allocation, or a part of a record. A null pointer has no owner, and extents 0.

    row: of a pointer to the first of several values, the memory of all of them.
    """

    __slots__ = ("owner", "row", "view")

    def __init__(self, view: Any, owner: Allocation | None, row: Any = None) -> None:
        self.view = view
        self.owner = owner
        self.row = row


def poison(array: Any) -> None:
    """Fill with NaN, a large integer, or True; references with UNDEFINED."""
    if isinstance(array, Record):
        for part in array.parts:
            poison(part)
    elif array.dtype == object:
        array.fill(UNDEFINED)
    elif array.dtype.kind in "fcV":  # V: bfloat16
        array.fill(complex(np.nan, np.nan) if array.dtype.kind == "c" else np.nan)
    elif array.dtype.kind == "b":
        array.fill(True)
    else:
        array.fill(np.iinfo(array.dtype).max // 3 * 2)


def literal_value(literal: Literal) -> Any:
    """What a literal is. UNDEFINED stays itself; of an aggregate, it is one of undefined elements."""
    if literal.value is UNDEFINED:
        return _undefined(literal.type)
    if isinstance(literal.value, FunctionName | OpName):
        return literal.value
    if literal.value is NULL:
        return null_pointer(literal.type) if isinstance(literal.type, PointerType) else NULL
    assert isinstance(literal.type, TensorType)
    return literal.type.dtype.numpy.type(literal.value)


def _undefined(type: Type) -> Any:
    if isinstance(type, TupleType | StructType):
        return tuple(_undefined(m) for _, m in members(type))
    if isinstance(type, ArrayType):
        return (_undefined(type.element),) * (type.count or 0)
    return UNDEFINED


def null_pointer(type: Type) -> Pointer:
    """The null pointer of a type: extents 0, no owner."""
    assert isinstance(type, PointerType)
    if not isinstance(type.pointee, TensorType):
        return Pointer(np.full((), UNDEFINED, object), None)
    return Pointer(np.zeros((0,) * type.rank, type.dtype.numpy), None)


def conform(value: Any, type: TensorType) -> Any:
    """A NumPy value in the exact dtype of its IR type; PassError where its extents are not the type's."""
    array = np.asarray(value)
    if array.dtype != type.dtype.numpy:
        array = array.astype(type.dtype.numpy)
    _check_shape(array.shape, type)
    return array[()]


def _check_shape(shape: tuple[int, ...], type: TensorType) -> None:
    fits = len(shape) == type.rank
    if not fits or any(n is not None and n != m for m, n in zip(shape, type.shape, strict=True)):
        raise PassError(f"extents {shape} where the type says {type}")


def checked_pointer(pointer: Pointer, type: PointerType) -> Pointer:
    """The pointer, if extents and strides are as its type says; else PassError."""
    _check_shape(pointer.view.shape, type.pointee)
    view = pointer.view
    as_stated = {"C": view.flags.c_contiguous, "F": view.flags.f_contiguous, "S": True}
    if not as_stated[type.layout]:
        raise PassError(f"strides {view.strides} of extents {view.shape} where the type says {type}")
    return pointer


# -- ops with NumPy semantics ------------------------------------------------------------------------


def _check_extents(i: Instruction, operands: Sequence[Any]) -> None:
    """Only what the type states to be 1 stretches; every other extent is that of the result."""
    shapes = [np.shape(x) for x in operands]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise PassError(f"operand extents of {i.op.name} do not match: {shapes}") from None
    for v, x in zip(i.operands, operands, strict=True):
        assert isinstance(v.type, TensorType)
        for stated, n, m in zip(v.type.shape, np.shape(x), shape, strict=False):
            if n != m and stated != 1:
                raise PassError(f"operand extents {np.shape(x)} of {i.op.name} do not match {shape}")


def evaluate(i: Instruction, operands: Sequence[Any]) -> Any:
    """The value of an op with NumPy semantics, in the dtype of its result type; operands are arrays and scalars."""
    assert i.op.evaluate is not None and isinstance(i.type, TensorType), i
    if i.op.kind is Kind.ELEMENTWISE:
        _check_extents(i, operands)
    if i.attrs.get("checked"):
        return conform(_exact(i, operands), i.type)
    if i.op.name == "section":
        _check_section(np.shape(operands[0]), [int(n) for n in operands[1:]])
    attrs = unchecked(i)
    try:
        result = i.op.evaluate(*operands, **attrs)
    except (ValueError, IndexError, TypeError) as e:
        if i.op.kind is Kind.ELEMENTWISE and isinstance(e, ValueError):
            raise  # what NumPy says of the values: a negative integer power
        raise PassError(f"{i.op.name}: {e}") from e
    _check_asked_extents(i, operands, np.shape(result))
    return conform(result, i.type)


def _check_asked_extents(i: Instruction, operands: Sequence[Any], shape: tuple[int, ...]) -> None:
    if i.op.name in ("broadcast", "unbroadcast", "shapeCast", "section"):
        rank = len(shape)
        asked = tuple(int(n) for n in (operands[1 + rank : 1 + 2 * rank] if i.op.name == "section" else operands[1:]))
        if shape != asked:
            raise PassError(f"{i.op.name}: extents {asked} are asked for, {shape} result")


def _exact(i: Instruction, operands: Sequence[Any]) -> Any:
    """The op on Python ints; OverflowError where a result does not fit in 64 bits."""
    assert i.op.evaluate is not None
    if i.op.name == "power":
        base, exponent = (np.asarray(x) for x in operands)
        if np.any(exponent < 0):
            raise ValueError("Integers to negative integer powers are not allowed.")
        # keeps Python from computing an astronomical number
        if np.any(((base > 1) | (base < -1)) & (exponent > 64)):
            raise OverflowError(OVERFLOW)
    result = np.asarray(i.op.evaluate(*(np.asarray(x).astype(object) for x in operands)))
    if any(not -(2**63) <= n < 2**63 for n in result.flat):
        raise OverflowError(OVERFLOW)
    return result.astype(np.int64)


def view_of(i: Instruction, operands: Sequence[Any]) -> Pointer:
    """The view that an index op makes of a pointer."""
    p, *indices = operands
    assert isinstance(i.type, PointerType)
    if p.owner is None:
        return null_pointer(i.type)
    if p.owner.freed:
        raise PassError(f"{p.owner.origin} is used after it was freed")
    if i.op.name == "elementPointer":
        keys = tuple(int(k) for k in indices)
        if any(not 0 <= k < n for k, n in zip(keys, p.view.shape, strict=False)):
            raise PassError(f"index {keys} is out of range for extents {p.view.shape}")
        view = p.view[(*keys, ...)]
    else:
        if i.op.name == "section":
            _check_section(p.view.shape, [int(n) for n in indices])
        assert i.op.evaluate is not None
        try:
            view = i.op.evaluate(p.view, *indices, **i.attrs)
        except ValueError as e:
            raise PassError(f"{i.op.name}: {e}") from e
        _check_asked_extents(i, operands, view.shape)
        if not np.may_share_memory(view, p.view) and view.size:
            raise PassError(f"{i.op.name} of {p.view.strides} strides is no view")
    return checked_pointer(Pointer(view, p.owner), i.type)


def _check_section(shape: tuple[int, ...], indices: list[int]) -> None:
    rank = len(shape)
    for n, start, count, step in zip(shape, indices, indices[rank:], indices[2 * rank :], strict=False):
        last = start + (count - 1) * step
        if count < 0 or (count and not (0 <= start < n and 0 <= last < n and (step or count == 1))):
            raise PassError(f"section at {start} count {count} step {step} is out of range for extent {n}")
