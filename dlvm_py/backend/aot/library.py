"""Exports → one object with the C interface, and its header.

    kernel text + wrapper text of each export --link--> modules that show one function each
    all of them, the runtime, the table of imports --link, optimise--> object

The imports table that a loader fills for the just-in-time compiler is filled here by the linker: `c:exp` is the
symbol exp, `blas:dgemm` the Fortran symbol dgemm_. What needs Python is not imported: calls and signals of
Python do not occur in kernels, whose poll is that of `runtime/native/library.ll`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm

from dlvm_py.backend.aot.abi import Export
from dlvm_py.backend.aot.header import header_text
from dlvm_py.backend.aot.wrapper import wrapper_text
from dlvm_py.backend.cpu.compile import (
    IMPORTS_SYMBOL,
    NATIVE,
    RECURSION,
    Compiled,
    assemble,
    link,
    parse,
    support_text,
)
from dlvm_py.backend.imports import Imports
from dlvm_py.errors import InternalError

_SHARED = ("last_error", "last_exception", "free")  # of every library, by these names behind its prefix


@dataclass(frozen=True)
class Library:
    """A compiled library: its code, its header, and the Fortran symbols of BLAS that it needs."""

    code: Compiled
    header: str
    blas: tuple[str, ...]


def compile_library(
    exports: Sequence[Export], imports: Imports, prefix: str, header: str, source: str, cpu: str = NATIVE
) -> Library:
    """The library of `exports`, whose texts index `imports`; its functions begin with `prefix`_ .

    header: the name of its header file. source: what it is made from, for people. cpu: as in `target_machine`.
    """
    modules = [link([parse(e.text), parse(wrapper_text(e))], [e.name]) for e in exports]
    runtime = ["inline.ll", "cut.ll", "support.ll", "sizes.ll", "tapes.ll", "stream.ll", "library.ll"]
    if any(RECURSION in e.text for e in exports):
        runtime.append("recursion.ll")
    texts = [support_text(imports, name) for name in runtime]
    visible = [e.name for e in exports] + [f"{prefix}_{name}" for name in _SHARED]
    whole = link([parse(_table(imports)), *modules, *map(parse, texts), parse(_shared(prefix))], visible)
    whole.get_global_variable(IMPORTS_SYMBOL).linkage = llvm.Linkage.internal
    blas = tuple(_symbol(name) for name in imports.names if name.startswith("blas:"))
    return Library(assemble(whole, cpu), header_text(exports, prefix, header, source), blas)


def shared_names(prefix: str) -> set[str]:
    """The C functions that every library with this prefix has."""
    return {f"{prefix}_{name}" for name in _SHARED}


def _symbol(name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind not in ("c", "blas", "lapack"):
        raise InternalError(f"a library cannot import {name}")
    return rest if kind == "c" else f"{rest}_"


def _table(imports: Imports) -> str:
    """The imports table. LLVM must not look into it: it knows its own exp and pow, which round otherwise."""
    symbols = [_symbol(name) for name in imports.names]
    declared = "".join(f"declare void @{symbol}()\n" for symbol in symbols)
    entries = ", ".join(f"ptr @{symbol}" for symbol in symbols)
    return f"{declared}@{IMPORTS_SYMBOL} = externally_initialized global [{len(symbols)} x ptr] [{entries}], align 8\n"


def _shared(prefix: str) -> str:
    return f"""declare ptr @library.last_error()
declare ptr @library.last_exception()
declare void @library.free(ptr)
define ptr @{prefix}_last_error() nounwind {{
  %text = call ptr @library.last_error()
  ret ptr %text
}}
define ptr @{prefix}_last_exception() nounwind {{
  %text = call ptr @library.last_exception()
  ret ptr %text
}}
define void @{prefix}_free(ptr %array) nounwind {{
  call void @library.free(ptr %array)
  ret void
}}
"""
