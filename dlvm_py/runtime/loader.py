"""An object file in memory → executable code, linked without running any part of the compiler.

Objects contain no address. All that is external to one stands in its table `dlvm.imports`, which is filled
here by name (`backend.imports.Imports`); a name that cannot be found is a `LookupError`, which callers treat
as a cache miss. What LLVM itself calls for an instruction (`memcpy`, `fmod`) the linker finds in the process.
The code lives as long as its `LoadedCode`.

An object lies in one piece, wherever there is room. What it names of others, of those that are linked with it too,
may be farther away than an instruction can say (where a GPU's driver has reserved most of the address space): LLVM's
JITLink makes a jump through a table of it, and an error, not an abort, where code takes for granted that it is near.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.machinery
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dlvm_py.deferred import deferred
from dlvm_py.errors import ArgumentError
from dlvm_py.ir.distributions import DISTRIBUTIONS
from dlvm_py.runtime import buffers, threads
from dlvm_py.runtime.native import offsets

if TYPE_CHECKING:
    import ctypes.util as ctypes_util
    import importlib.util as importlib_util

    import llvmlite.binding as llvm
else:
    ctypes_util, importlib_util = deferred("ctypes.util"), deferred("importlib.util")
    llvm = deferred("llvmlite.binding")

IMPORTS_SYMBOL = "dlvm.imports"

# the names under which OpenBLAS has kernels for vectors of 64 bytes
WIDE_CORES = (b"SkylakeX", b"Cooperlake", b"SapphireRapids")

_names = itertools.count()


class LoadedCode:
    """Linked code: `code["symbol"]` is an address, valid as long as this object lives."""

    __slots__ = ("_tracker", "_objects", "__weakref__")

    def __init__(self, tracker: llvm.ResourceTracker, objects: tuple[object, ...]) -> None:
        self._tracker = tracker
        self._objects = objects  # what `obj:` imports point to

    def __getitem__(self, symbol: str) -> int:
        return self._tracker[symbol]


def load(
    image: bytes,
    imports: Sequence[str],
    symbols: Iterable[str],
    objects: Mapping[str, object] | None = None,
    links: Mapping[str, int] | None = None,
    given: Mapping[str, int] | None = None,
    beside: Sequence[tuple[bytes, Sequence[str], str]] = (),
) -> LoadedCode:
    """Links the object file `image` and fills its imports table with the addresses of `imports`, in order.

    `symbols` are the exported symbols to find; `objects` the Python objects that `obj:` imports name beside
    the standing ones (`offsets.standing_object`); `links` are addresses of functions that it calls and does not have;
    `given` are the addresses of further imports: kernels, and the functions of the driver of a GPU; `beside` are
    objects that are linked with it: the image, the imports, and the symbol of the table of each.
    Raises LookupError for a missing import or a bad object.
    """
    objects = objects or {}
    known = given or {}
    builder = llvm.JITLibraryBuilder().add_current_process()
    tables: dict[str, list[int]] = {}
    for part, names, table in ((image, imports, IMPORTS_SYMBOL), *beside):
        builder.add_object_img(part)
        tables[table] = [known[name] if name in known else address_of(name, objects) for name in names]
        if names:
            builder.export_symbol(table)
    for symbol in symbols:
        builder.export_symbol(symbol)
    for symbol, address in (links or {}).items():
        builder.import_symbol(symbol, address)
    try:
        tracker = builder.link(_linker(), f"dlvm.{next(_names)}")
    except RuntimeError as error:
        raise LookupError(f"the object cannot be linked: {error}") from None
    for table, addresses in tables.items():
        if addresses:
            (ctypes.c_void_p * len(addresses)).from_address(tracker[table])[:] = addresses
    return LoadedCode(tracker, tuple(objects.values()))


def address_of(name: str, objects: Mapping[str, object]) -> int:
    """The address that an import name stands for, or LookupError."""
    kind, _, rest = name.partition(":")
    if kind == "obj":
        return id(objects[rest]) if rest in objects else id(offsets.standing_object(rest))
    if kind == "limit":  # no address but a number, which the environment may change
        return _LIMITS[rest]()
    if kind == "optional":  # what a library may have or not: null
        return _numpy_blas(rest) or 0
    if kind not in _RESOLVERS:
        raise LookupError(f"import of unknown kind: {name}")
    return _library_address(name)


@functools.cache
def _library_address(name: str) -> int:
    kind, _, rest = name.partition(":")
    address = _RESOLVERS[kind](rest)
    if not address:
        raise LookupError(f"missing import: {name}")
    return address


@functools.cache
def _linker() -> llvm.LLJIT:
    """The one linker of the process. It is never disposed: a daemon thread may run its code to the very end."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    linker = llvm.create_lljit_compiler(use_jit_link=True)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(linker))
    return linker


# -- one resolver a kind of name -----------------------------------------------------------------------


def _symbol(library: ctypes.CDLL | None, name: str) -> int | None:
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except AttributeError:
        return None


def _c_function(name: str) -> int | None:
    return _symbol(ctypes.CDLL(None), name) or _symbol(_math_library(), name)


@functools.cache
def _math_library() -> ctypes.CDLL | None:
    with contextlib.suppress(OSError):  # the usual name first: find_library starts a compiler or ldconfig
        return ctypes.CDLL("libm.so.6")
    path = ctypes_util.find_library("m")
    return ctypes.CDLL(path) if path else None


def _python_function(name: str) -> int | None:
    return _symbol(ctypes.pythonapi, name)


def _blas(name: str) -> int | None:
    return _numpy_blas(name) or _capsule_pointer(_scipy_table("cython_blas"), name)


@functools.cache
def _numpy_blas(name: str) -> int | None:
    """A routine of the BLAS that NumPy's own products call, by the names that builds of it have; None if it hides it.

    The products are then as fast as NumPy's, mostly with the same bits, in its threads, and SciPy need not be loaded. A
    handle of the extension finds the symbols of the libraries that it is linked with.
    """
    core = importlib.import_module("numpy._core._multiarray_umath")
    try:
        library = ctypes.CDLL(core.__file__)
    except (OSError, TypeError):  # TypeError: built into the interpreter
        return None
    names = (f"scipy_{name}_64_", f"{name}_64_", f"{name}64_", f"scipy_{name}_", f"{name}_")
    if name.startswith(("cblas_", "openblas_")):
        names = (f"scipy_{name}64_", f"{name}64_", f"scipy_{name}", name)
    for symbol in names:
        if address := _symbol(library, symbol):
            return address
    return None


@functools.cache
def _narrow_blas() -> int:
    """1 where NumPy's BLAS says that its kernels are those of CPUs with vectors of less than 64 bytes, else 0."""
    address = _numpy_blas("openblas_get_corename")
    core = ctypes.CFUNCTYPE(ctypes.c_char_p)(address)() if address else None
    return int(bool(core) and core not in WIDE_CORES)


def _lapack(name: str) -> int | None:
    return _capsule_pointer(_scipy_table("cython_lapack"), name)


@functools.cache
def _scipy_table(name: str) -> Mapping[str, object]:
    """The exported C functions of one extension of scipy.linalg.

    The extension is loaded by itself, under its own name: importing the package around it takes eight times
    as long (0.23 s against 0.03 s), and a process that only multiplies matrices needs nothing else of it.
    A later `import scipy.linalg` gets the same module.
    """
    full = f"scipy.linalg.{name}"
    if full not in sys.modules:
        scipy = importlib_util.find_spec("scipy")
        folders = [os.path.join(f, "linalg") for f in (scipy.submodule_search_locations or ())] if scipy else []
        spec = importlib.machinery.PathFinder.find_spec(full, folders)
        if spec is not None and spec.loader is not None:
            module = importlib_util.module_from_spec(spec)
            spec.loader.exec_module(module)
            # the extension enters itself; a real import must still find its way, to enter it in the package too
            sys.modules.pop(full, None)
            return module.__pyx_capi__
    return importlib.import_module(full).__pyx_capi__


def _capsule_pointer(capsules: Mapping[str, object], name: str) -> int | None:
    return offsets.capsule_pointer(capsules[name]) if name in capsules else None


@functools.cache
def _npyrandom() -> llvm.ResourceTracker:
    """NumPy's compiled distributions: the objects of the archive that it has for those who link to it, linked here."""
    path = os.path.join(os.path.dirname(np.random.__file__), "lib", "libnpyrandom.a")
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise ArgumentError(
            "this NumPy has no libnpyrandom.a, whose code draws random numbers",
            help="install NumPy from its wheel",
        ) from error
    builder = llvm.JITLibraryBuilder().add_current_process()
    for image in _members(raw):
        builder.add_object_img(image)
    for name in sorted({d.function for d in DISTRIBUTIONS.values() if isinstance(d.function, str)}):
        builder.export_symbol(name)
    return builder.link(_linker(), "npyrandom")


def _members(archive: bytes) -> Iterator[bytes]:
    """The object files in an archive of ar: headers of 60 bytes, with the size at 48; what follows begins evenly."""
    at = len(b"!<arch>\n")
    while at + 60 <= len(archive):
        name, size = archive[at : at + 16].strip(), int(archive[at + 48 : at + 58])
        if name not in (b"/", b"//", b"/SYM64/"):  # tables of symbols and of long names
            yield archive[at + 60 : at + 60 + size]
        at += 60 + size + size % 2


_LIMITS = {"taken": buffers.taken_before, "processors": threads.processors, "narrow_blas": _narrow_blas}

_RESOLVERS = {
    "pool": lambda name: ctypes.addressof(buffers.state()),
    "threads": lambda name: threads.state(),
    "npyrandom": lambda name: _npyrandom()[name],
    "c": _c_function,
    "py": _python_function,
    "np": lambda slot: offsets.numpy_api(int(slot)),
    "blas": _blas,
    "lapack": _lapack,
}
