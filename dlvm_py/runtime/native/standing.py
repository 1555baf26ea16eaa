"""Code that is loaded once a process and stays: the slots of the callable type, NumPy's handler of our memory."""

from __future__ import annotations

import ctypes
import functools
from importlib import resources

from dlvm_py.backend.cpu.compile import compile_module
from dlvm_py.backend.imports import Imports
from dlvm_py.options import environment
from dlvm_py.runtime import cache
from dlvm_py.runtime.loader import LoadedCode, load
from dlvm_py.runtime.native.externals import complete

SLOTS = ("vectorcall", "traverse", "clear", "dealloc", "descr_get", "create", "install")
_HANDLER = ("malloc", "calloc", "realloc", "free")
_SYMBOLS = [f"dlvm.{n}" for n in SLOTS] + [f"dlvm.handler.{n}" for n in (*_HANDLER, "free_kept")]


@functools.cache
def code() -> LoadedCode:
    """The code, from the disk cache after the first time. It is never unloaded: arrays may be freed at the very end."""
    imports = Imports()
    texts = [complete(_text("callable.ll"), imports), _text("handler.ll")]
    disk, key = cache.Cache(), cache.cache_key("standing", *texts)
    usable = environment("DLVM_CACHE") != "0"
    found = disk.get(key) if usable else None
    if found:
        facts, image = found
        names = facts["imports"]
    else:
        image = compile_module(texts, imports).object
        names = imports.names
    if usable and not found:
        disk.put(key, {"imports": names}, image)
    loaded = load(image, names, _SYMBOLS)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))
    return loaded


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


class _Handler(ctypes.Structure):
    """PyDataMem_Handler of NumPy's C API, version 1; the functions get `context` first."""

    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", ctypes.c_void_p)]
    _fields_ += [(name, ctypes.c_void_p) for name in _HANDLER]


@functools.cache
def memory_handler() -> object:
    """The capsule of the handler that arrays carry whose memory compiled code allocated."""
    functions = {name: code()[f"dlvm.handler.{name}"] for name in _HANDLER}
    handler = _Handler(b"dlvm_py", 1, None, **functions)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new(ctypes.addressof(handler), _CAPSULE, None)
    for kept in (handler, capsule):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return capsule


_CAPSULE = b"mem_handler"  # the capsule points to the name


def free_kept() -> int:
    """Free the memory that is kept for the next arrays; how many bytes."""
    return ctypes.CFUNCTYPE(ctypes.c_int64)(code()["dlvm.handler.free_kept"])()
