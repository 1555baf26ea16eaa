"""The type of compiled functions, `dlvm_py.Function`: a heap type whose slots are LLVM code (`callable.ll`).

A call tries the native entry of each version, the latest first, and then calls the fallback, a Python callable,
with the same arguments. Instances have a `__dict__`, weak references, garbage collection, and bind as methods.
Where the layouts of `offsets` do not hold, or with DLVM_ENTRY=python, `PythonFunction` takes its place.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from dlvm_py.options import environment
from dlvm_py.runtime import python_entry
from dlvm_py.runtime.native import offsets, standing
from dlvm_py.runtime.undo import Undone
from dlvm_py.runtime.version import ENTRY, Version

_DOC = b"A compiled function: called like the Python function that it was made from."

# The fields of an instance behind the object head: %function of callable.ll.
_VECTORCALL, _DICT, _WEAK, _SIZE = 16, 24, 32, 56

# CPython's numbers and flags (typeslots.h, object.h, descrobject.h), stable since 3.8
_SLOTS = {"tp_call": 50, "tp_clear": 51, "tp_dealloc": 52, "tp_descr_get": 54, "tp_doc": 56, "tp_traverse": 71,
          "tp_members": 72, "tp_getset": 73}  # fmt: skip
_NO_NEW, _HAS_VECTORCALL, _HAS_GC, _IS_METHOD_DESCRIPTOR = 1 << 7, 1 << 11, 1 << 14, 1 << 17
_PY_SSIZE_T, _READONLY = 19, 1


class _Slot(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _GetSet(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    ]


# -- the public functions ------------------------------------------------------------------------------


def function_type() -> type:
    """The type of compiled functions. Its methods and properties are set on it by the layer above."""
    return PythonFunction if _python_only() else _native().type


def make(fallback: Callable[..., Any]) -> Any:
    """A new callable without versions."""
    return PythonFunction(fallback) if _python_only() else _native().create(fallback)


def add_version(function: Any, version: Version, last: bool = False) -> None:
    """Installs a version, or moves it, to be tried before (last: behind) the others from the next call on."""
    others = tuple(v for v in versions(function) if v is not version)
    _install(function, (*others, version) if last else (version, *others))


def clear_versions(function: Any) -> None:
    """Removes all versions; calls that run in one of them finish undisturbed."""
    _install(function, ())


def versions(function: Any) -> tuple[Version, ...]:
    """The versions of a callable, in the order in which they are tried."""
    return function._versions if isinstance(function, PythonFunction) else _native().versions(function)


def __getattr__(name: str) -> Any:
    """`FunctionType`: `function_type()`, made when first asked for."""
    if name == "FunctionType":
        return function_type()
    raise AttributeError(name)


def _install(function: Any, found: tuple[Version, ...]) -> None:
    if isinstance(function, PythonFunction):
        function._versions = found
    else:
        _native().install(function, found)


@functools.cache
def _python_only() -> bool:
    return environment("DLVM_ENTRY") == "python" or offsets.mismatch() is not None


# -- the two types -------------------------------------------------------------------------------------


class PythonFunction:
    """The compiled function of platforms without the native type."""

    # not in the __dict__, which functools.wraps copies from function to function
    __slots__ = ("_fallback", "_versions", "__dict__", "__weakref__")

    def __init__(self, fallback: Callable[..., Any]) -> None:
        self._fallback = fallback
        self._versions: tuple[Version, ...] = ()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        for version in self._versions:
            # of calls that leave traces the fallback knows what an undone one has left
            if version.call.leaves_traces:
                continue
            try:
                handled, result = python_entry.call(version, args, kwargs)
            except Undone:
                break
            if handled:
                return result
        return self._fallback(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)


PythonFunction.__name__ = PythonFunction.__qualname__ = "Function"
PythonFunction.__module__ = "dlvm_py"
PythonFunction.__doc__ = _DOC.decode()


class _Native:
    """The native type and its operations."""

    def __init__(self) -> None:
        self.code = standing.code()
        self._keep: list[Any] = []
        self.type: type = self._make_type()
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
        self._create = new(self.code["dlvm.create"])
        self._set_table = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.py_object)(self.code["dlvm.install"])
        self._table_offset = _SIZE - 8

    def create(self, fallback: Callable[..., Any]) -> Any:
        """A new instance."""
        return self._create(self.type, fallback)

    def install(self, function: Any, found: tuple[Version, ...]) -> None:
        """Replaces the table: the entries' addresses, then the versions that keep them loaded."""
        if type(function) is not self.type:
            raise TypeError(f"not a compiled function: {function!r}")
        entries = b"".join(v.code[ENTRY].to_bytes(8, sys.byteorder) for v in found)
        self._set_table(function, (entries, *found))

    def versions(self, function: Any) -> tuple[Version, ...]:
        """The versions in the table."""
        if type(function) is not self.type:
            raise TypeError(f"not a compiled function: {function!r}")
        at = id(function) + self._table_offset
        return ctypes.py_object.from_address(at).value[1:] if ctypes.c_void_p.from_address(at).value else ()

    def _make_type(self) -> type:
        def address(function: Any) -> int | None:
            return ctypes.cast(function, ctypes.c_void_p).value

        api = ctypes.pythonapi
        members = (_Member * 4)(
            _Member(b"__vectorcalloffset__", _PY_SSIZE_T, _VECTORCALL, _READONLY, None),
            _Member(b"__dictoffset__", _PY_SSIZE_T, _DICT, _READONLY, None),
            _Member(b"__weaklistoffset__", _PY_SSIZE_T, _WEAK, _READONLY, None),
        )
        getset = (_GetSet * 2)(
            _GetSet(b"__dict__", address(api.PyObject_GenericGetDict), address(api.PyObject_GenericSetDict), None, None)
        )
        doc = ctypes.create_string_buffer(_DOC)
        values = {
            "tp_call": address(api.PyVectorcall_Call),
            "tp_doc": ctypes.addressof(doc),
            "tp_members": ctypes.addressof(members),
            "tp_getset": ctypes.addressof(getset),
        }
        for slot in ("tp_clear", "tp_dealloc", "tp_descr_get", "tp_traverse"):
            values[slot] = self.code["dlvm." + slot.removeprefix("tp_")]
        slots = (_Slot * (len(values) + 1))(*[_Slot(_SLOTS[name], value) for name, value in values.items()])
        flags = _NO_NEW | _HAS_VECTORCALL | _HAS_GC | _IS_METHOD_DESCRIPTOR
        spec = _Spec(b"dlvm_py.Function", _SIZE, 0, flags, slots)
        self._keep += [members, getset, doc, slots, spec]  # the type refers to them for good
        api.PyType_FromSpec.restype, api.PyType_FromSpec.argtypes = ctypes.py_object, [ctypes.c_void_p]
        made: type = api.PyType_FromSpec(ctypes.addressof(spec))
        return made


@functools.cache
def _native() -> _Native:
    return _Native()
