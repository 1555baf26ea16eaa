"""LLVM on several threads at once: its two long calls without the lock that llvmlite holds around every call.

LLVM itself asks only that no two threads work in one context or with one code generator. So modules and machines that
are given here must be such that no other thread has them or their context. Everything else, which is short, goes by
llvmlite and its lock.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi


def run_passes(manager: llvm.ModulePassManager, module: llvm.ModuleRef, builder: llvm.PassBuilder) -> None:
    """`manager.run(module, builder)`."""
    _function("LLVMPY_RunNewModulePassManager")(manager, module, builder)


def emit_object(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """`machine.emit_object(module)`; RuntimeError in LLVM's words."""
    with ffi.OutputString() as error:
        buffer = _function("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@functools.cache
def _function(name: str) -> Any:
    """A C function of llvmlite's library, with the types that llvmlite gives it; its own, with the lock, if need be."""
    locked = getattr(ffi.lib, name)
    try:
        found = getattr(ctypes.CDLL(ffi.lib._name, handle=ffi.lib._handle), name)
    except AttributeError:  # an llvmlite that loads its library in another way
        return locked
    found.argtypes, found.restype = locked.argtypes, locked.restype
    return found
