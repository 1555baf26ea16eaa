"""Array roots without kernels of their own: a library computes them, asked from the host driver.

    store (sort (load %p)) to %q        memory {native form of %q, of %p, ...}; tell(site "library", memory)

A site's message says the op and its attributes. Operands that are trees are written to memory of the device before;
`runtime/gpu/library.py` does the rest. Of a large product it is asked whether it can: else there is a kernel.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from dlvm_py.backend.cpu import tell
from dlvm_py.backend.cpu.function import Lowered
from dlvm_py.backend.cpu.memory import release, size_of
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.trees import tree_extents
from dlvm_py.backend.cpu.values import ZERO, V, i64
from dlvm_py.backend.gpu.elementwise import store_tree
from dlvm_py.backend.gpu.host import LAUNCH_FUEL, HostEmitter
from dlvm_py.backend.site import Site
from dlvm_py.ir import I64, DType, Instruction, Value, is_array
from dlvm_py.ir.text import ARRAY, PYTHON

# ops that are computed so, beside those whose results are packed in one array (property `extents`)
LIBRARY = frozenset(("sort", "argsort", "fourier", "solve", "cholesky", "choleskyAdjoint", "determinant", "factorizes"))


def is_of_library(i: Instruction) -> bool:
    """Whether an array root is computed by a library."""
    return i.op.name in LIBRARY or "extents" in i.op.properties


def store_by_library(h: HostEmitter, i: Instruction, dest: Pointer) -> None:
    """Write the value of an op to `dest`."""
    owned: list[V] = []
    values: list[Lowered] = [dest, *(_operand(h, v, owned) for v in i.operands)]
    _ask(h, i, [dest.dtype, *(v.type.dtype for v in i.operands)], values, None)  # type: ignore[attr-defined]
    for header in owned:
        release(h, header)


def product_by_library(h: HostEmitter, i: Instruction, dest: Pointer, add: str) -> V:
    """Have a library write a product to `dest`, or "add" it, or "subtract" it; whether it has done that."""
    operands = [h.pointer(v.operands[0]) for v in i.operands]  # type: ignore[attr-defined]
    types = [I64, dest.dtype, *(p.dtype for p in operands)]
    memory = _ask(h, i, types, [ZERO, dest, *operands], add or "set")
    return h.icmp("ne", h.load("i64", memory), ZERO)


def _ask(h: HostEmitter, i: Instruction, types: Sequence[DType], values: Sequence[Lowered], how: str | None) -> V:
    """Ask for an op with these operands; the memory that they were in."""
    kinds = tuple(
        f"{ARRAY} {t.name} {v.rank} {v.layout}" if isinstance(v, Pointer) else f"{PYTHON} {t.name} 0 -"
        for v, t in zip(values, types, strict=True)
    )
    site = Site("", json.dumps([i.op.name, i.attrs, how]), kinds, i.loc or h.loc, "library")
    memory = tell.packed(h, [part for v in values for part in h.to_memory_form(v)])
    h.stop_recording()
    tell.ask(h, site, memory)
    h.spend(i64(LAUNCH_FUEL))
    return memory


def _operand(h: HostEmitter, v: Value, owned: list[V]) -> Lowered:
    """An operand in memory; that of a tree is added to `owned`."""
    if not is_array(v.type):
        return h.scalar(v)
    assert isinstance(v, Instruction)
    if v.op.name == "load":
        return h.pointer(v.operands[0])
    extents, dtype = tree_extents(h, v), v.type.dtype  # type: ignore[attr-defined]
    owned.append(h.allocate(size_of(h, dtype.itemsize, extents)))
    p = Pointer(dtype, "C", h.data_of(owned[-1]), owned[-1], extents)
    store_tree(h, v, p, v.type.shape)  # type: ignore[attr-defined]
    return p
