"""Code that is loaded once a process and stays: what all versions share, the callable type, NumPy's memory handler.

    part               texts                                                  functions
    runtime            callable.ll handler.ll support.ll sizes.ll pool.ll     dlvm.allocate, dlvm.poll ...
                       signals.ll
    tapes              sizes.ll tapes.ll                                      dlvm.push_place, dlvm.new_cut ...
    threads            threads.ll brief.ll apart.ll trips.ll stream.ll        dlvm.share, dlvm.parallel, dlvm.stream ...
    entry              entry.ll                                               entry.bind, entry.raise ...
    arrays             arrays.ll                                              entry.box_array, entry.range ...
    emulator           emulator.ll                                            dlvm.emulator.cuLaunchKernel ...
    dlvm.matmul.f64    what the back end writes (`code.helper`)               itself

Each is compiled once and then in the disk cache. Objects of versions call these functions by name
(`Compiled.shared`), and are linked to them when they are loaded: without them LLVM has half as much to do. A first
process waits for the parts that it needs, so that texts of the runtime, written by hand, are not optimised, and what
they mark `cold` is an object of its own that is compiled quickly.
"""

from __future__ import annotations

import ctypes
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dlvm_py.backend.imports import Imports
from dlvm_py.deferred import deferred
from dlvm_py.options import environment
from dlvm_py.runtime import cache, threads
from dlvm_py.runtime.loader import LoadedCode, load
from dlvm_py.runtime.native.externals import complete

if TYPE_CHECKING:
    from importlib import resources

    from dlvm_py.backend.cpu import compile as native_compile
    from dlvm_py.backend.cpu.compile import Compiled
else:
    resources = deferred("importlib.resources")
    native_compile = deferred("dlvm_py.backend.cpu.compile")

SLOTS = ("vectorcall", "traverse", "clear", "dealloc", "descr_get", "create", "install")
_HANDLER = ("malloc", "calloc", "realloc", "free")
_MEMORY = ("allocate", "adopt", "count", "new", "keep", "drop", "free_one", "free_all", "take", "give", "resize")
_SUPPORT = (*_MEMORY, "poll", "burn", "spend")
_RUNTIME = [f"dlvm.{n}" for n in (*SLOTS, *_SUPPORT, *(f"handler.{n}" for n in (*_HANDLER, "free_kept")))]
_TAPES = [f"dlvm.{n}" for n in ("stack_grow", "push_place", "release_entries", "new_chunk", "new_cut", "fetch_below")]
_THREADS = [
    f"dlvm.{n}" for n in ("share", "parallel", "share_pieces", "share_trips", "begin_trips", "end_trips", "stream")
]

_PARTS = {"runtime": _RUNTIME, "tapes": _TAPES, "threads": _THREADS}
_ENTRY = ("entry", "arrays")
_DEFINITION = re.compile(r"^define internal ([^@]*@([\w.]+)\([^)]*\)[^{]*)\{", re.MULTILINE)
_EMULATOR = "dlvm.emulator."
_EXPORTED = re.compile(r"^define i\d+ @([\w.]+)\(", re.MULTILINE)
_TYPE = re.compile(r"^%\w+ = type .*$", re.MULTILINE)

_parts: dict[str, LoadedCode] = {}
_made: dict[str, tuple[dict[str, Any], bytes]] = {}  # compiled here, and perhaps not in the disk cache
_lock = threading.RLock()


def code() -> LoadedCode:
    """The part `runtime`."""
    return _part("runtime")


def links(shared: Iterable[str]) -> dict[str, int]:
    """The addresses of shared functions. LookupError where one is of a part that only the compiler can make."""
    return {name: _part(_part_of(name))[name] for name in shared}


def emulator(names: Iterable[str]) -> dict[str, int]:
    """The addresses of functions of the emulated driver of a GPU."""
    return {name: _part("emulator")[f"{_EMULATOR}{name}"] for name in names}


def provide(helpers: Mapping[str, Callable[[Imports], str]]) -> None:
    """See to it that these parts are there: name → LLVM IR for a table of imports."""
    for name, text in helpers.items():
        with _lock:
            if name not in _parts and _stored(name) is None:
                imports = Imports()
                texts = [text(imports)]
                _keep(name, native_compile.compile_module(texts, imports, [name], readable=False), imports)


@functools.cache
def declarations() -> dict[str, str]:
    """The declarations of the functions that entries share, by name."""
    return {name: declared for part in _ENTRY for name, declared in _declarations(part).items()}


@functools.cache
def types() -> str:
    """The types that these name."""
    return "\n".join(found for part in _ENTRY for found in _TYPE.findall(_text(f"{part}.ll")))


@functools.cache
def _declarations(part: str) -> dict[str, str]:
    return {found[2]: f"declare {found[1].strip()}" for found in _DEFINITION.finditer(_text(f"{part}.ll"))}


def _part_of(symbol: str) -> str:
    if symbol.startswith("entry."):
        return "entry" if symbol in _declarations("entry") else "arrays"
    return next((part for part, names in _PARTS.items() if symbol in names), symbol)


def _part(name: str) -> LoadedCode:
    """A part, from this process or the disk cache, or compiled; never unloaded: arrays may be freed at the end."""
    with _lock:
        if name not in _parts:
            found = _stored(name)
            if found is None:
                if name not in _TEXTS:
                    raise LookupError(f"{name} has not been compiled")
                imports = Imports()
                texts = _TEXTS[name](imports)
                found = _keep(name, native_compile.compile_plainly(texts, imports, _exports(name)), imports)
            facts, images = found
            hot, cold = images[: facts["hot"]], images[facts["hot"] :]
            objects = {"mem_handler": memory_handler()} if name == "arrays" else {}
            beside = [(cold, (), "")] if cold else []
            loaded = load(hot, facts["imports"], _exports(name), objects, links(facts["shared"]), beside=beside)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))
            _parts[name] = loaded
        return _parts[name]


def _exports(name: str) -> list[str]:
    if name == "emulator":
        return [found for found in _EXPORTED.findall(_text("emulator.ll")) if found.startswith(_EMULATOR)]
    if name in _ENTRY:
        return list(_declarations(name))
    return _PARTS.get(name, [name])


def _stored(name: str) -> tuple[dict[str, Any], bytes] | None:
    """The facts and the objects of a part."""
    if name not in _made and environment("DLVM_CACHE") != "0":
        found = cache.Cache().get(cache.cache_key("standing", name))
        if found is not None and {"imports", "shared", "hot"} <= found[0].keys():
            _made[name] = found
    return _made.get(name)


def _keep(name: str, done: Compiled, imports: Imports) -> tuple[dict[str, Any], bytes]:
    facts = {"imports": imports.names, "shared": list(done.shared), "hot": len(done.objects[0])}
    _made[name] = facts, b"".join(done.objects)
    if environment("DLVM_CACHE") != "0":
        cache.Cache().put(cache.cache_key("standing", name), *_made[name])
    return _made[name]


def _runtime_texts(imports: Imports) -> list[str]:
    texts = [complete(_text("callable.ll"), imports), _text("handler.ll")]
    support = native_compile.support_text
    return [*texts, *(support(imports, name) for name in ("support.ll", "sizes.ll", "pool.ll", "signals.ll"))]


def _tapes_texts(imports: Imports) -> list[str]:
    return [native_compile.support_text(imports, name) for name in ("sizes.ll", "tapes.ll")]


def _threads_texts(imports: Imports) -> list[str]:
    support = native_compile.support_text
    texts = [threads.text(support(imports, name)) for name in ("threads.ll", "brief.ll")]
    texts += [support(imports, name) for name in ("trips.ll", "stream.ll")]
    return [*texts, *[support(imports, "apart.ll")] * (sys.platform == "linux")]


def _entry_texts(part: str, imports: Imports) -> list[str]:
    return [complete(_text(f"{part}.ll").replace("define internal", "define"), imports)]


_TEXTS: dict[str, Callable[[Imports], list[str]]] = {
    "runtime": _runtime_texts,
    "tapes": _tapes_texts,
    "threads": _threads_texts,
    **{part: functools.partial(_entry_texts, part) for part in _ENTRY},
    "emulator": lambda imports: [_text("emulator.ll")],
}


@functools.cache
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
