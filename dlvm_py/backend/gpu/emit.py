"""IR at stage scheduled → a GPU program: the LLVM IR of its host driver, and its kernels.

The walk over blocks and instructions is that of `backend/cpu/emit.py`; what reads or writes arrays has a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm_py.backend.cpu import calls
from dlvm_py.backend.cpu.emit import EmitResult, write_instruction
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.memory import drain_arrays, drain_numbers, release, size_of
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.text import ModuleText
from dlvm_py.backend.cpu.values import V
from dlvm_py.backend.gpu.along import store_reduce, store_unbroadcast
from dlvm_py.backend.gpu.elementwise import store_reshaped, store_scalar, store_tree
from dlvm_py.backend.gpu.grids import GridControl
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.indexing import scatter, store_nonzero, store_scatter_add, store_search
from dlvm_py.backend.gpu.kernel import Kernel, refuse
from dlvm_py.backend.gpu.library import is_of_library, store_by_library
from dlvm_py.backend.gpu.lines import store_dot, store_overlap
from dlvm_py.backend.gpu.reductions import reduce_scalar, scalar_dot
from dlvm_py.backend.gpu.scans import store_scan
from dlvm_py.backend.imports import Imports
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Function, Instruction, Kind, Module, PointerType, StackType, is_array
from dlvm_py.ir.layout import VARIABLES
from dlvm_py.ir.tree_rules import JOINED, accumulated
from dlvm_py.ir.types import ELEMENTS
from dlvm_py.options import Options

ON_CPU = "compile this function with target='cpu'"


class GpuProgram(Frozen):
    """A host driver, and the kernels that it launches: their numbers are those of its imports `kernel:N`."""

    host: EmitResult
    kernels: list[Kernel]


def emit(
    function: Function,
    imports: Imports,
    options: Options,
    *,
    noalias_params: bool = True,
    program: Module | None = None,
) -> GpuProgram:
    """Lower a function at stage scheduled. UnknownFunction DL301 for what there is no kernel for."""
    if function.meta.get(VARIABLES):
        refuse("variables of a module", None)
    module, texts = ModuleText(shares=True), dict[str, Kernel]()
    functions = calls.kernels(function, program)
    called = len(functions) > 1 or any(i.op.kind is Kind.CALL for i in function.instructions())
    sites: list | None = [] if called else None
    symbol = f"dl.{function.name}"
    found: list = []
    for f in functions:
        apart = noalias_params and f is function and not called
        e = HostEmitter(module, imports, f, options, apart, texts, sites)
        GridControl(e, write_on_host, apart).write()
        found = e.sites
    return GpuProgram(EmitResult(module, symbol, found, 2, True, module.helpers), list(texts.values()))


def write_on_host(e: FunctionEmitter, i: Instruction) -> None:
    """The code of one instruction that is no terminator."""
    assert isinstance(e, HostEmitter)
    if is_array(i.type):
        return
    _refuse_memory(e, i)
    if i.attrs.get(JOINED):
        refuse("stores that are joined", i.loc or e.loc, "leave the mark `joined` out, and the pass sibling_fusion")
    row = _ROWS.get(i.op.name)
    if row is not None:
        found = row(e, i)
        if found is not None:
            e.env[i] = found
    elif i.op.kind in (Kind.INDEX, Kind.GENERATE) and any(is_array(v.type) for v in i.operands):
        e.env[i] = _scalar_of_tree(e, i)
    else:
        write_instruction(e, i)


def _refuse_memory(e: HostEmitter, i: Instruction) -> None:
    """What would read or write arrays on the host."""
    if i.op.name in _HOST_ONLY and any(isinstance(v.type, PointerType) for v in (i, *i.operands)):
        refuse(_HOST_ONLY[i.op.name], i.loc or e.loc, ON_CPU)
    if i.op.name in ("makeCell", "cellTag", "cellItem"):
        refuse("tagged values", i.loc or e.loc, ON_CPU)


_HOST_ONLY = {
    "print": "a text that shows arrays",
    "check": "a message that shows arrays",
    "draw": "random numbers of a generator",
    "allocateStack": "arrays in the frame",
}


def _scalar_of_tree(e: HostEmitter, i: Instruction) -> V:
    """A rank 0 result of an index op or broadcast: the only element of its operand."""
    source = i.operands[0]
    dtype = source.type.dtype  # type: ignore[attr-defined]
    header, to = e.cell(dtype)
    store_reshaped(e, source, to)
    x = e.fetch(dtype, to.data)
    release(e, header)
    return x


def _drain(e: HostEmitter, i: Instruction) -> Pointer:
    """The entries of a stack, which is memory of the host, as an array of the device."""
    type = i.operands[0].type
    if isinstance(type, StackType) and isinstance(type.element, PointerType):
        return drain_arrays(e, i, e.allocate, e.copy)
    return drain_numbers(e, i, e.allocate, e.send)


def _load(e: HostEmitter, i: Instruction) -> V:
    p = e.pointer(i.operands[0])
    return e.fetch(p.dtype, p.data)


def _allocate(e: HostEmitter, i: Instruction) -> Pointer:
    extents = tuple(e.scalar(v) for v in i.operands)
    dtype = ELEMENTS[i.attrs["dtype"]]
    nbytes, slot = size_of(e, dtype.itemsize, extents), e.slots.get(i)
    header = e.allocate(nbytes) if slot is None else e.next_of(slot, nbytes)
    return Pointer(dtype, "C", e.data_of(header), header, extents, None, e.notes(i))


def _release(e: HostEmitter, i: Instruction) -> None:
    header, slot = e.pointer(i.operands[0]).header, e.slots.get(i)
    if slot is None:
        release(e, header)
    else:
        e.keep(header, slot)


def _store(e: HostEmitter, i: Instruction) -> None:
    value, dest = i.operands[0], e.pointer(i.operands[1])
    type = i.operands[1].type
    assert isinstance(type, PointerType)
    if not is_array(value.type):
        store_scalar(e, e.scalar(value), dest)
        return
    if not isinstance(value, Instruction):  # an undefined array: nothing needs to be written
        return
    product = accumulated(i)
    if product is not None:
        store_dot(e, product, dest, value.op.name)
        return
    match value.op.name:
        case "reduce":
            store_reduce(e, value, dest)
        case "unbroadcast":
            store_unbroadcast(e, value, dest, type)
        case "dot":
            store_dot(e, value, dest)
        case "scan" | "recurrence":
            store_scan(e, value, dest)
        case "scatterAdd":
            store_scatter_add(e, value, dest)
        case "overlapAdd":
            store_overlap(e, value, dest)
        case "nonzero":
            store_nonzero(e, value, dest)
        case "searchSorted":
            store_search(e, value, dest)
        case "shapeCast":
            source = value.operands[0]
            if is_array(source.type):
                store_reshaped(e, source, dest)
            else:
                store_scalar(e, e.scalar(source), dest)
        case _ if is_of_library(value):
            store_by_library(e, value, dest)
        case _:
            store_tree(e, value, dest, type.shape)


_ROWS: dict[str, Callable[[HostEmitter, Instruction], Any]] = {
    "load": _load,
    "store": _store,
    "scatter": scatter,
    "reduce": reduce_scalar,
    "dot": scalar_dot,
    "allocateHeap": _allocate,
    "release": _release,
    "drain": _drain,
}
