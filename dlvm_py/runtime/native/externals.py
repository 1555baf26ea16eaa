"""Calls out of the native runtime: hand-written LLVM IR says `@py.Py_IncRef(...)`, this adds what that means.

Every external function or object is a slot of the imports table of its module. A text uses it as an internal
function of the name `py.NAME` (CPython), `np.NAME` (NumPy's C API) or `obj.NAME` (no arguments, gives the
object), with the signature of the tables below; `complete` appends the definition of each one that is used.
"""

from __future__ import annotations

import re

from dlvm_py.backend.imports import Imports
from dlvm_py.runtime.native import offsets

IMPORTS_TABLE = "@dlvm.imports"

# name -> (result type, argument types); "..." is a C function with variable arguments, called with i32, i64 × 4
PYTHON: dict[str, tuple[str, str]] = {
    "Py_IncRef": ("void", "ptr"),
    "Py_DecRef": ("void", "ptr"),
    "PyErr_Clear": ("void", ""),
    "PyErr_Fetch": ("void", "ptr, ptr, ptr"),
    "PyErr_NoMemory": ("ptr", ""),
    "PyErr_Restore": ("void", "ptr, ptr, ptr"),
    "PyErr_SetObject": ("void", "ptr, ptr"),
    "PyErr_SetString": ("void", "ptr, ptr"),
    "PyEval_SaveThread": ("ptr", ""),
    "PyEval_RestoreThread": ("void", "ptr"),
    "PyObject_CallFunction": ("ptr", "ptr, ptr, i32, i64, i64, i64, i64"),
    "PyObject_CallNoArgs": ("ptr", "ptr"),
    "PyObject_GetAttr": ("ptr", "ptr, ptr"),
    "PyObject_RichCompareBool": ("i32", "ptr, ptr, i32"),
    "PyObject_Vectorcall": ("ptr", "ptr, ptr, i64, ptr"),
    "PyObject_ClearWeakRefs": ("void", "ptr"),
    "PyObject_GC_Del": ("void", "ptr"),
    "PyObject_GC_UnTrack": ("void", "ptr"),
    "PyType_GenericAlloc": ("ptr", "ptr, i64"),
    "PyMethod_New": ("ptr", "ptr, ptr"),
    "PyDict_GetItemWithError": ("ptr", "ptr, ptr"),
    "PyDict_Next": ("i32", "ptr, ptr, ptr, ptr"),
    "PyDict_Size": ("i64", "ptr"),
    "PyList_GetItem": ("ptr", "ptr, i64"),
    "PyList_Size": ("i64", "ptr"),
    "PyCapsule_GetPointer": ("ptr", "ptr, ptr"),
    "PyCell_Get": ("ptr", "ptr"),
    "PyTuple_New": ("ptr", "i64"),
    "PyTuple_SetItem": ("i32", "ptr, i64, ptr"),
    "PyFloat_FromDouble": ("ptr", "double"),
    "PyLong_FromLongLong": ("ptr", "i64"),
    "PyLong_AsLongLongAndOverflow": ("i64", "ptr, ptr"),
    "PyBool_FromLong": ("ptr", "i64"),
    "PyComplex_FromDoubles": ("ptr", "double, double"),
}
VARIADIC = {"PyObject_CallFunction": "ptr, ptr, ..."}

NUMPY: dict[str, tuple[int, str, str]] = {
    "PyArray_NewFromDescr": (offsets.NEW_FROM_DESCR, "ptr", "ptr, ptr, i32, ptr, ptr, ptr, i32, ptr"),
    "PyArray_SetBaseObject": (offsets.SET_BASE_OBJECT, "i32", "ptr, ptr"),
    "PyArray_Scalar": (offsets.SCALAR, "ptr", "ptr, ptr, ptr"),
}

_USE = re.compile(r'@"?(py|np|obj)\.([\w.]+)"?\(')


def complete(text: str, imports: Imports) -> str:
    """`text` with the definitions of all externals that it calls, and the types of `offsets`, in front."""
    used = sorted({m.groups() for m in _USE.finditer(text)})
    table = f"{IMPORTS_TABLE} = external global [0 x ptr]\n" if used else ""
    return offsets.llvm_types() + table + "".join(_definition(k, n, imports) for k, n in used) + text


def _definition(kind: str, name: str, imports: Imports) -> str:
    if kind == "obj":
        load = _load(imports.index(f"obj:{name}"))
        return f'define internal ptr @"obj.{name}"() alwaysinline {{\n{load}  ret ptr %f\n}}\n'
    if kind == "py":
        result, types = PYTHON[name]
        load = _load(imports.index(f"py:{name}"))
    else:
        slot, result, types = NUMPY[name]
        load = _load(imports.index(f"np:{slot}"))
    arguments = ", ".join(f"{t} %a{i}" for i, t in enumerate(filter(None, types.split(", "))))
    called_as = f"{result} ({VARIADIC[name]})" if name in VARIADIC else result
    body = f"{'' if result == 'void' else '%r = '}call {called_as} %f({arguments})"
    ret = "ret void" if result == "void" else f"ret {result} %r"
    return f"define internal {result} @{kind}.{name}({arguments}) alwaysinline {{\n{load}  {body}\n  {ret}\n}}\n"


def _load(slot: int) -> str:
    # the table does not change once the module is loaded
    return f"  %f = load ptr, ptr getelementptr (ptr, ptr {IMPORTS_TABLE}, i64 {slot}), !invariant.load !{{}}\n"
