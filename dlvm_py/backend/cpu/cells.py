"""Cells: records in memory of the context, which the call from outside frees when it is over.

    a cell           the address of { i64 tag, items }, 0 for null; each part of an item on 8 bytes of its own
    an item          the native form of its type: one part for a scalar, for a pointer its data, header and extents

The references that a cell holds to arrays are not given back: what they keep is freed with the cell.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.contract import DATA, flat_types
from dlvm_py.backend.cpu.function import FunctionEmitter, Lowered
from dlvm_py.backend.cpu.values import ZERO, V, i64
from dlvm_py.ir import Instruction, PointerType, TupleType

PART = 8  # bytes
_NULL = "dlvm.null_cell"


def item_offset(held: TupleType, at: int) -> int:
    """Where an item lies in a cell, in bytes."""
    return PART * (1 + sum(len(flat_types(t)) for t in held.elements[:at]))


def make_cell(e: FunctionEmitter, i: Instruction) -> V:
    """A fresh cell."""
    parts = [v for o in i.operands for v in e.to_memory_form(e.lookup(o))]
    e.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
    header = e.call("@dlvm.allocate", "ptr", [e.ctx, i64(PART * (1 + len(parts)))])
    e.require_memory(header)
    data = e.load("ptr", e.gep("i8", header, i64(DATA)))
    e.store(i64(i.attrs["tag"]), data)
    for k, part in enumerate(parts, 1):
        e.store(part, e.gep("i8", data, i64(PART * k)))
    return e.cast("ptrtoint", data, "i64")


def cell_tag(e: FunctionEmitter, i: Instruction) -> V:
    """The tag, -1 of null."""
    cell = e.scalar(i.operands[0])
    e.module.constant(_NULL, "i64 -1")
    place = e.select(e.icmp("eq", cell, ZERO), V("ptr", f"@{_NULL}"), e.cast("inttoptr", cell, "ptr"))
    return e.load("i64", place)


def cell_item(e: FunctionEmitter, i: Instruction) -> Lowered:
    """One item."""
    held, at = i.attrs["held"], i.attrs["at"]
    data = e.cast("inttoptr", e.scalar(i.operands[0]), "ptr")
    start = item_offset(held, at)
    parts = [e.load(t, e.gep("i8", data, i64(start + PART * k))) for k, t in enumerate(flat_types(i.type))]
    return e.from_memory_form(i.type, parts, e.notes(i) if isinstance(i.type, PointerType) else "")
