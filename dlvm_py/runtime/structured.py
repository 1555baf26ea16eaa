"""Values of structs, tuples, arrays and enums across the border of native code: their leaves (ir/layout.py) and back.

From outside a struct or tuple is a tuple, an array of values a tuple, a value of an enum a pair (case, what it holds),
memory that is no tensor a `Reference`: as in the interpreter (ir/objects.py).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from dlvm_py.backend.cpu.cells import PART, item_offset
from dlvm_py.errors import PassError
from dlvm_py.ir import EnumType, PointerType, StructType, TensorType, TupleType, Type
from dlvm_py.ir.layout import REFERENCE, item_types, leaves, members, memory_leaves
from dlvm_py.ir.objects import Reference, given
from dlvm_py.ir.types import ArrayType
from dlvm_py.runtime.version import ARGUMENT_REFERENCES

HEADER = "=6q"  # of the native calling convention: references, data, size, object, previous, next


class Arguments:
    """The leaves of the arguments of one call, and the memory that they refer to."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._references: list[tuple[Reference, Type, list[Any]]] = []

    def leaves(self, value: Any, t: Type, what: str) -> list[Any]:
        """The leaves of one argument, as the entry takes them; PassError if it is no value of its type."""
        if isinstance(t, TensorType | PointerType) and leaves(t) == [t]:
            return [value]
        given(value, t, what)  # says what is wrong
        if isinstance(value, Reference) and isinstance(t, PointerType):
            memory = self._memory(value.value, t.pointee)
            self._references.append((value, t.pointee, memory))
            return memory
        return self._values(value, t)

    def write_back(self) -> None:
        """Let references have what the call left in their memory, while what that refers to is still there."""
        for reference, t, memory in self._references:
            reference.value = assembled(iter(memory), t)

    def _values(self, value: Any, t: Type) -> list[Any]:
        match t:
            case TupleType() | StructType():
                fields = members(t)
                parts = [value[n] for n, _ in fields] if isinstance(value, dict) else value
                return [leaf for v, (_, m) in zip(parts, fields, strict=True) for leaf in self._values(v, m)]
            case ArrayType():
                return self._memory(value, t)
            case EnumType():
                return [self._cell(value, t)]
            case TensorType():
                return [np.asarray(value, t.dtype.numpy)[()]]
        raise PassError(f"a {t} within an argument cannot be given")

    def _memory(self, value: Any, t: Type) -> list[Any]:
        """An array for each leaf of memory that holds the value."""
        if isinstance(t, ArrayType):
            rows = [self._memory(v, t.element) for v in value]
            found = []
            for k, leaf in enumerate(memory_leaves(t)):
                shape = [n or 0 for n in leaf.shape]
                found.append(np.array([r[k] for r in rows], _stored(leaf)).reshape(shape))
            return found
        pairs = zip(self._values(value, t), memory_leaves(t), strict=True)
        return [np.array(v, _stored(leaf)) for v, leaf in pairs]

    def _cell(self, value: Any, t: EnumType) -> int:
        """The address of a cell that holds a value of an enum."""
        case, held = value
        types = t.cases[case]
        items = [leaf for v, p in zip(held, types, strict=True) for leaf in self._values(v, p)]
        memory = struct.pack("=q", list(t.cases).index(case))
        for item in items:
            memory += self._array(item) if isinstance(item, np.ndarray) and item.ndim else _part(item)
        return self._keep(memory)

    def _array(self, array: np.ndarray) -> bytes:
        array = np.ascontiguousarray(array)
        self._kept.append(array)
        data = array.ctypes.data
        header = self._keep(struct.pack(HEADER, ARGUMENT_REFERENCES, data, array.nbytes, 0, 0, 0))
        return struct.pack(f"={2 + array.ndim}q", data, header, *array.shape)

    def _keep(self, memory: bytes) -> int:
        buffer = ctypes.create_string_buffer(memory, len(memory))
        self._kept.append(buffer)
        return ctypes.addressof(buffer)


def _stored(leaf: TensorType) -> np.dtype:
    return np.dtype(np.uint64) if leaf.dtype is REFERENCE.dtype else leaf.dtype.numpy


def _part(scalar: Any) -> bytes:
    if isinstance(scalar, int):
        return struct.pack("=Q", scalar)  # the address of a cell
    return np.asarray(scalar).tobytes().ljust(PART, b"\0")


# -- results -------------------------------------------------------------------------------------------


def assembled(found: Iterator[Any], t: Type) -> Any:
    """The value of a type whose leaves come next. While the memory of the call is still there."""
    match t:
        case TupleType() | StructType():
            return tuple(assembled(found, m) for _, m in members(t))
        case ArrayType():
            arrays = [next(found) for _ in memory_leaves(t.element)]
            return tuple(assembled(iter([a[k] for a in arrays]), t.element) for k in range(len(arrays[0])))
        case EnumType():
            return _enum(int(next(found)), t)
        case PointerType() if not isinstance(t.pointee, TensorType):
            return Reference(assembled(found, t.pointee))
        case PointerType():
            return next(found)
        case TensorType():
            value = np.asarray(next(found), t.dtype.numpy)
            return value if value.ndim else value[()]
    raise PassError(f"a {t} cannot be returned")


def _enum(address: int, t: EnumType) -> Any:
    if not address:
        raise PassError("an undefined value is returned")
    (tag,) = struct.unpack("=q", ctypes.string_at(address, 8))
    case, types = list(t.cases.items())[tag]
    held = item_types(types)
    items = (_item(address + item_offset(held, k), leaf) for k, leaf in enumerate(held.elements))
    return case, tuple(assembled(items, p) for p in types)


def _item(address: int, t: Type) -> Any:
    if isinstance(t, TensorType):
        dtype = _stored(t)
        return np.frombuffer(ctypes.string_at(address, dtype.itemsize), dtype)[0]
    assert isinstance(t, PointerType)
    data, _, *shape = struct.unpack(f"={2 + t.rank}q", ctypes.string_at(address, 8 * (2 + t.rank)))
    size = t.dtype.itemsize * int(np.prod(shape, dtype=int))
    return np.frombuffer(ctypes.string_at(data, size), _stored(t.pointee)).reshape(shape).copy()
