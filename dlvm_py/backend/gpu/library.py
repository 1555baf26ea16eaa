"""Array roots without kernels of their own: a library computes them, asked from the host driver.

    store (sort (load %p)) to %q        memory {native form of %q, of %p, ...}; tell(site "library", memory)

A site's message says the op and its attributes. Operands that are trees are written to memory of the device before;
`runtime/gpu/library.py` does the rest.
"""

from __future__ import annotations

import json

from dlvm_py.backend.cpu import tell
from dlvm_py.backend.cpu.function import Lowered
from dlvm_py.backend.cpu.memory import release, size_of
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.trees import tree_extents
from dlvm_py.backend.cpu.values import V, i64
from dlvm_py.backend.gpu.elementwise import store_tree
from dlvm_py.backend.gpu.host import LAUNCH_FUEL, HostEmitter
from dlvm_py.backend.site import Site
from dlvm_py.ir import Instruction, Value, is_array
from dlvm_py.ir.text import ARRAY, PYTHON

# ops that are computed so, beside those whose results are packed in one array (property `extents`)
LIBRARY = frozenset(("sort", "argsort", "fourier", "solve", "cholesky", "determinant", "factorizes"))


def is_of_library(i: Instruction) -> bool:
    """Whether an array root is computed by a library."""
    return i.op.name in LIBRARY or "extents" in i.op.properties


def store_by_library(h: HostEmitter, i: Instruction, dest: Pointer) -> None:
    """Write the value of an op to `dest`."""
    owned: list[V] = []
    values: list[Lowered] = [dest, *(_operand(h, v, owned) for v in i.operands)]
    types = [dest.dtype, *(v.type.dtype for v in i.operands)]  # type: ignore[attr-defined]
    kinds = tuple(
        f"{ARRAY} {t.name} {v.rank} {v.layout}" if isinstance(v, Pointer) else f"{PYTHON} {t.name} 0 -"
        for v, t in zip(values, types, strict=True)
    )
    site = Site("", json.dumps([i.op.name, i.attrs]), kinds, i.loc or h.loc, "library")
    h.stop_recording()
    tell.ask(h, site, tell.packed(h, [part for v in values for part in h.to_memory_form(v)]))
    for header in owned:
        release(h, header)
    h.spend(i64(LAUNCH_FUEL))


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
