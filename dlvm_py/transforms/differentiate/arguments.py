"""Parameters that the primal writes are copied at entry: a gradient leaves its arguments as they are."""

from __future__ import annotations

from collections.abc import Collection

from dlvm_py.ir import Builder, Function, Instruction, PointerType, TensorType, Value, literal
from dlvm_py.transforms.differentiate.normal_form import Exit
from dlvm_py.transforms.differentiate.points_to import PointsTo


def entry_builder(function: Function) -> Builder:
    """A builder that inserts at the very start of the entry block."""
    b = Builder(function)
    b.block, b.position = function.entry, 0
    return b


def extents(b: Builder, like: Value) -> list[Value]:
    """The extents of a pointer or tensor: literals where its type states them, so that types agree."""
    assert isinstance(like.type, PointerType | TensorType)
    return [b.emit("extent", like, at=k) if n is None else literal(n) for k, n in enumerate(like.type.shape)]


def allocate_like(b: Builder, pointer: Value, name: str, **marks: bool) -> tuple[Value, Value]:
    """Fresh memory with the extents of `pointer`: (the allocation, a view of it with the very type of it).

    marks: of the allocation, as in its text.
    """
    assert isinstance(pointer.type, PointerType)
    return _allocate(b, pointer.type, extents(b, pointer), name, marks)


def allocate_empty(b: Builder, type: PointerType, name: str) -> Value:
    """Fresh memory of a type, whose extents are 0 where it does not state them."""
    return _allocate(b, type, [literal(n or 0) for n in type.shape], name, {})[1]


def _allocate(
    b: Builder, t: PointerType, counts: list[Value], name: str, marks: dict[str, bool]
) -> tuple[Value, Value]:
    if t.layout == "F":
        buffer = b.emit("allocateHeap", *counts[::-1], name=name, dtype=t.dtype.name, **marks)
        return buffer, b.emit("transpose", buffer, name=name)
    buffer = b.emit("allocateHeap", *counts, name=name, dtype=t.dtype.name, **marks)
    view = buffer if buffer.type == t else b.emit("pointerCast", buffer, name=name, to=t)
    return buffer, view


def copy_written(
    function: Function, points_to: PointsTo, exit_: Exit, shared: Collection[Value] = ()
) -> tuple[list[Value], set[Instruction]]:
    """Replace each written pointer parameter by a copy made at entry, but for those that are `shared`: copies already.

    Returns what now stands for every parameter, and the instructions that make the copies (they are no
    part of what is differentiated: the derivative with respect to the copy is the one asked for).
    """
    params: list[Value] = list(function.params)
    written = [p for p in params if p in points_to.written and p not in shared]
    b = entry_builder(function)
    known = set(function.entry.instructions)
    copies: dict[Value, Value] = {}
    for p in written:
        _, copies[p] = allocate_like(b, p, p.name)
    # the extents above are those of the parameter itself
    prologue = [i for i in function.entry.instructions if i not in known]
    for i in function.instructions():
        if i not in prologue:
            i.substitute(copies)
    for p in written:
        b.emit("store", b.emit("load", p), copies[p])
    exit_.leaves = [copies.get(v, v) for v in exit_.leaves]
    return [copies.get(p, p) for p in params], {i for i in function.entry.instructions if i not in known}
