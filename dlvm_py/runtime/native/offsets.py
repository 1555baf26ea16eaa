"""Where CPython and NumPy keep the fields that native entries read, each checked against known objects.

The layouts stand once, as ctypes structures: the checks read through them, and `llvm_types` prints the same
structures for the LLVM side. Where a check fails (another interpreter, a free-threaded build, a new NumPy) the
native entry is not used, and calls go through `runtime.python_entry`.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

import numpy as np

from dlvm_py.ir.types import BF16, OWN_DTYPES


class PyObject(ctypes.Structure):
    """The head of every object."""

    _fields_ = [("refcount", ctypes.c_int64), ("type", ctypes.c_void_p)]


class PyVarObject(ctypes.Structure):
    """The head of tuples and bytes: the items (`tuple`) or the bytes (`bytes`) come behind other fields."""

    _fields_ = [*PyObject._fields_, ("size", ctypes.c_int64)]


class PyTuple(ctypes.Structure):
    """A tuple; `items` is the first of them."""

    _fields_ = [*PyVarObject._fields_, ("items", ctypes.c_void_p)]


class PyBytes(ctypes.Structure):
    """A bytes object; `data` is its first eight bytes."""

    _fields_ = [*PyVarObject._fields_, ("hash", ctypes.c_int64), ("data", ctypes.c_int64)]


class Boxed(ctypes.Structure):
    """A float, a complex or a NumPy scalar: the value stands behind the head, `bits` is where it starts."""

    _fields_ = [*PyObject._fields_, ("bits", ctypes.c_int64)]


class NDArray(ctypes.Structure):
    """numpy.ndarray (PyArrayObject_fields)."""

    _fields_ = [
        *PyObject._fields_,
        ("data", ctypes.c_void_p),
        ("nd", ctypes.c_int32),
        ("dimensions", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("descr", ctypes.c_void_p),
        ("flags", ctypes.c_int32),
        ("weakreflist", ctypes.c_void_p),
        ("buffer_info", ctypes.c_void_p),
        ("mem_handler", ctypes.c_void_p),
    ]


class Descr(ctypes.Structure):
    """numpy.dtype (PyArray_Descr), its first fields."""

    _fields_ = [
        *PyObject._fields_,
        ("typeobj", ctypes.c_void_p),
        ("kind", ctypes.c_int8),
        ("type_char", ctypes.c_int8),
        ("byteorder", ctypes.c_int8),
        ("former_flags", ctypes.c_int8),
        ("type_num", ctypes.c_int32),
    ]


STRUCTURES = {
    "object": PyObject,
    "tuple": PyTuple,
    "bytes": PyBytes,
    "boxed": Boxed,
    "ndarray": NDArray,
    "descr": Descr,
}

# array flags (ndarraytypes.h)
C_CONTIGUOUS, F_CONTIGUOUS, OWNDATA, ALIGNED, WRITEABLE = 0x1, 0x2, 0x4, 0x100, 0x400

_LLVM = {ctypes.c_void_p: "ptr", ctypes.c_int64: "i64", ctypes.c_int32: "i32", ctypes.c_int8: "i8"}

MISSING = type("Missing", (), {"__repr__": lambda self: "<missing>", "__slots__": ()})()
"""In the tuple of a version's defaults: this parameter has none."""


def llvm_types() -> str:
    """The structures as LLVM types: `%ndarray = type { i64, ptr, ... }`."""
    return "".join(
        f"%{name} = type {{ {', '.join(_LLVM[t] for _, t in structure._fields_)} }}\n"
        for name, structure in STRUCTURES.items()
    )


def llvm_type(ctype: type) -> str:
    """The LLVM type of a field's ctypes type."""
    return _LLVM[ctype]


def field(structure: type[ctypes.Structure], name: str) -> int:
    """The index of a field, for getelementptr."""
    return [f[0] for f in structure._fields_].index(name)


# -- NumPy's C API table -------------------------------------------------------------------------------

NEW_FROM_DESCR, SET_BASE_OBJECT, SCALAR, GET_HANDLER = 94, 282, 60, 305


@functools.cache
def numpy_api(slot: int) -> int | None:
    """The entry `slot` of NumPy's C API table."""
    table = capsule_pointer(np._core._multiarray_umath._ARRAY_API)  # type: ignore[attr-defined]
    return ctypes.c_void_p.from_address(table + 8 * slot).value if table else None


def capsule_pointer(capsule: object) -> int | None:
    """The pointer that a capsule of whatever name carries."""
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer_of(capsule, name_of(capsule))


# -- Python objects that entries refer to ---------------------------------------------------------------


@functools.cache
def _standing_objects() -> dict[str, Any]:
    found: dict[str, Any] = {
        "ndarray": np.ndarray,
        "missing": MISSING,
        "float": float,
        "int": int,
        "complex": complex,
        "str": str,
        "tuple": tuple,
        "True": True,
        "False": False,
        "None": None,
        "SystemError": SystemError,
    }
    for dtype in OWN_DTYPES:
        found[f"descr.{dtype.numpy_name}"] = dtype.numpy
        found[f"scalar.{dtype.numpy_name}"] = dtype.numpy.type
    return found


def standing_object(name: str) -> object:
    """The object of an import `obj:NAME` that every version may use; LookupError if there is none.

    `ndarray`, `float` ...: types; `descr.float64`: dtypes; `scalar.float64`: NumPy scalar types; `True`, `None`.
    """
    kind, _, dtype = name.partition(".")
    if dtype == BF16.numpy_name:
        try:
            return BF16.numpy if kind == "descr" else BF16.numpy.type
        except ImportError as error:
            raise LookupError(f"{name}: {error}") from error
    return _standing_objects()[name]


# -- the checks ----------------------------------------------------------------------------------------


@functools.cache
def mismatch() -> str | None:
    """Why the native entry cannot be used here, or None. Checked once a process, at first use."""
    if sys.implementation.name != "cpython" or "t" in getattr(sys, "abiflags", ""):
        return "not CPython with a global interpreter lock"
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return "not a 64-bit platform"
    try:
        for check in (_check_objects, _check_arrays, _check_scalars):
            if problem := check():
                return problem
    except (AttributeError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _check_objects() -> str | None:
    sizes = {float: Boxed, tuple: PyVarObject, bytes: PyBytes}
    for kind, structure in sizes.items():
        # tuple and bytes end in their first item; that of bytes is one byte
        expected = ctypes.sizeof(structure) - (7 if kind is bytes else 0)
        if kind.__basicsize__ != expected:
            return f"layout of {kind.__name__}"
    number, pair, text = 1.5, (object(), None, number_type := float), b"12345678"
    if PyObject.from_address(id(number)).type != id(number_type):
        return "layout of object"
    if ctypes.c_double.from_address(id(number) + Boxed.bits.offset).value != number:
        return "layout of float"
    if (PyTuple.from_address(id(pair)).size, PyTuple.from_address(id(pair)).items) != (3, id(pair[0])):
        return "layout of tuple"
    if ctypes.string_at(id(text) + PyBytes.data.offset, 8) != text or PyBytes.from_address(id(text)).size != 8:
        return "layout of bytes"
    return None


def _check_arrays() -> str | None:
    if np.ndarray.__basicsize__ < ctypes.sizeof(NDArray) or np.dtype.__basicsize__ < ctypes.sizeof(Descr):
        return "size of ndarray"
    owner = np.zeros((4, 3, 5), np.float32)
    array = owner[::2, ::-1]
    raw, shape = NDArray.from_address(id(array)), ctypes.c_int64 * 3
    facts = [
        (raw.data, array.ctypes.data),
        (raw.nd, 3),
        (tuple(shape.from_address(raw.dimensions)), array.shape),
        (tuple(shape.from_address(raw.strides)), array.strides),
        (raw.base, id(owner)),
        (raw.descr, id(np.dtype(np.float32))),
        (raw.flags, array.flags.num),
        (NDArray.from_address(id(owner)).flags, owner.flags.num),
        (owner.flags.num, C_CONTIGUOUS | OWNDATA | ALIGNED | WRITEABLE),
        (raw.mem_handler, None),
        (NDArray.from_address(id(owner)).mem_handler, _current_handler()),
    ]
    for dtype in OWN_DTYPES:
        descr = Descr.from_address(id(dtype.numpy))
        facts += [(descr.type_num, dtype.numpy.num), (chr(descr.byteorder), dtype.numpy.byteorder)]
    wrong = [i for i, (found, expected) in enumerate(facts) if found != expected]
    return f"layout of ndarray ({wrong})" if wrong else None


def _current_handler() -> int:
    get = ctypes.PYFUNCTYPE(ctypes.py_object)(numpy_api(GET_HANDLER))
    return id(get())


def _check_scalars() -> str | None:
    for dtype in OWN_DTYPES:
        value = dtype.numpy.type(1)
        found = ctypes.string_at(id(value) + Boxed.bits.offset, dtype.itemsize)
        if type(value).__basicsize__ < Boxed.bits.offset + dtype.itemsize or found != value.tobytes():
            return f"layout of numpy.{dtype.numpy_name}"
    number = 1.5 - 2.5j
    if (ctypes.c_double * 2).from_address(id(number) + Boxed.bits.offset)[:] != [1.5, -2.5]:
        return "layout of complex"
    return None
