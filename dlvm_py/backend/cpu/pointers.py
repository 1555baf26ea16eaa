"""Pointers as flattened values, element addresses, and the index ops, which make views.

A view shares the header of the memory that it looks into, so that retain and release act on the owner.
Strides are in bytes; those of contiguous layouts are computed from the extents where they are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlvm_py.backend.cpu.contract import VARIABLE, memory_type
from dlvm_py.backend.cpu.text import FunctionText, ModuleText
from dlvm_py.backend.cpu.values import NULL, ONE, ZERO, V, constant, i64, parts_of
from dlvm_py.errors import PassError
from dlvm_py.frozen import Frozen, replace
from dlvm_py.ir import DType, Instruction, PointerType, Value


class Pointer(Frozen):
    """A reference to a strided tensor. `strides` is None where the layout implies them."""

    dtype: DType
    layout: str
    data: V
    header: V
    extents: tuple[V, ...]
    strides: tuple[V, ...] | None = None
    notes: str = ""  # alias metadata of loads and stores through it

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.extents)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize


def null_pointer(type: PointerType) -> Pointer:
    """What NULL and UNDEFINED literals are: no memory, extents 0."""
    zeros = (ZERO,) * type.rank
    return Pointer(type.dtype, type.layout, NULL, NULL, zeros, zeros if type.layout == "S" else None)


def variable(module: ModuleText, type: PointerType, name: str) -> Pointer:
    """The memory of a leaf of a variable of the module, whose extents are all known."""
    if None in type.shape:
        raise PassError(f"a variable of type {type.pointee}: its extents are not known")
    size = type.dtype.itemsize * math.prod(n or 0 for n in type.shape)
    symbol = VARIABLE + name
    module.variable(symbol, max(size, 1) + -max(size, 1) % 64)
    extents = tuple(i64(n or 0) for n in type.shape)
    return Pointer(type.dtype, "C", V("ptr", f'@"{symbol}"'), V("ptr", f'@"{symbol}.header"'), extents)


def strides_of(f: FunctionText, p: Pointer) -> tuple[V, ...]:
    """The strides of every axis."""
    if p.strides is not None:
        return p.strides
    axes = range(p.rank) if p.layout == "F" else reversed(range(p.rank))
    found, step = [ZERO] * p.rank, i64(p.itemsize)
    for k in axes:
        found[k] = step
        step = f.mul(step, p.extents[k])
    f.row_strides.update(step for step in found if constant(step) is None)
    return tuple(found)


def is_open(f: FunctionText, stride: V, size: V) -> bool:
    """Whether only a call says if elements with this stride are neighbours.

    Those down a column of contiguous memory are not, unless it is the only column.
    """
    return stride != size and constant(stride) is None and stride not in f.row_strides


def _strides_at_entry(f: FunctionText, p: Pointer) -> tuple[V, ...]:
    """The strides of every axis; those of memory of the caller's are computed where the function begins.

    So all views of an array have the same strides wherever they are made, and like statements the same kernel.
    """
    if not all(n in f.params or constant(n) is not None for n in p.extents):
        return strides_of(f, p)
    here, f.here = f.here, f.prologue
    found = strides_of(f, p)
    f.here = here
    return found


def offset(f: FunctionText, data: V, indices: Sequence[V], strides: Sequence[V]) -> V:
    """The address of an element. Indices are in range: no product or sum leaves the object."""
    total = ZERO
    for index, stride in zip(indices, strides, strict=True):
        total = f.add(total, f.mul(index, stride, "nsw"), "nsw")
    return data if total == ZERO else f.gep("i8", data, total)


def load_element(f: FunctionText, dtype: DType, address: V, notes: str = "") -> V:
    """The element at `address` as a register value."""
    if dtype.kind == "c":
        part = memory_type(dtype.real)
        second = f.gep(part, address, ONE)
        return f.pack(f.load(part, address, notes), f.load(part, second, notes))
    x = f.load(memory_type(dtype), address, notes)
    return f.icmp("ne", x, V("i8", "0")) if dtype.kind == "b" else x


def may_stay(f: FunctionText, value: Value) -> bool:
    """Whether what is stored may be what was there, so that it, or what is loaded, has to be frozen.

    LLVM would store those elements that change, under a mask, for which AVX takes 40 times as long as for all of them.
    """
    return not f.module.masks and isinstance(value, Instruction) and value.op.name in ("select", "max", "min")


def frozen(f: FunctionText, x: V) -> V:
    """A value that is one and the same wherever it is used; each part of a pair by itself, as vectors have no pairs."""
    if not x.type.startswith("{"):
        return f.value(x.type, f"freeze {x.type} {x.ref}")
    return f.pack(*(frozen(f, f.extract(x, k, part)) for k, part in enumerate(parts_of(x.type))))


def store_element(f: FunctionText, dtype: DType, value: V, address: V, notes: str = "") -> None:
    """Write a register value to `address`."""
    if dtype.kind == "c":
        part = memory_type(dtype.real)
        f.store(f.extract(value, 0, part), address, notes)
        f.store(f.extract(value, 1, part), f.gep(part, address, ONE), notes)
        return
    f.store(f.cast("zext", value, "i8") if dtype.kind == "b" else value, address, notes)


def flatten(p: Pointer) -> list[V]:
    """The native form: data, header, extents and, for layout "S", strides."""
    return [p.data, p.header, *p.extents, *(p.strides or () if p.layout == "S" else ())]


def unflatten(type: PointerType, values: Sequence[V], notes: str = "") -> Pointer:
    """A Pointer of its native form; extents that the type states replace those that came."""
    rank = type.rank
    extents = tuple(
        v if known is None else i64(known) for v, known in zip(values[2 : 2 + rank], type.shape, strict=True)
    )
    strides = tuple(values[2 + rank :]) if type.layout == "S" else None
    return Pointer(type.dtype, type.layout, values[0], values[1], extents, strides, notes)


def view(f: FunctionText, name: str, attrs: dict, p: Pointer, indices: Sequence[V], type: PointerType) -> Pointer:
    """The result of index op `name`, of IR type `type`, on a pointer."""
    build = {
        "transpose": _transpose,
        "padShape": _pad,
        "squeezeShape": _squeeze,
        "shapeCast": _shape_cast,
        "section": _section,
        "windows": _windows,
        "pointerCast": lambda f, attrs, p, indices: p,
        "elementPointer": _element,
        "partView": _part,
        "diagonal": _diagonal,
    }[name]
    # strides that the new layout does not imply are made before the axes move
    explicit = replace(p, strides=_strides_at_entry(f, p)) if type.layout == "S" or name in _BY_STRIDES else p
    found = build(f, attrs, explicit, indices)
    if len(found.extents) != type.rank:
        raise PassError(f"{name} of rank {p.rank} gives rank {len(found.extents)}, not {type.rank}")
    extents = tuple(v if n is None else i64(n) for v, n in zip(found.extents, type.shape, strict=True))
    return replace(found, layout=type.layout, extents=extents, strides=found.strides if type.layout == "S" else None)


_BY_STRIDES = {"partView", "diagonal", "section", "elementPointer", "windows"}


def _transpose(f: FunctionText, attrs: dict, p: Pointer, indices: Sequence[V]) -> Pointer:
    axes = attrs.get("axes")
    axes = range(p.rank)[::-1] if axes is None else axes
    strides = None if p.strides is None else tuple(p.strides[k] for k in axes)
    return replace(p, extents=tuple(p.extents[k] for k in axes), strides=strides)


def _pad(f: FunctionText, attrs: dict, p: Pointer, indices: Sequence[V]) -> Pointer:
    at = attrs["at"]
    strides = None if p.strides is None else (*p.strides[:at], ZERO, *p.strides[at:])
    return replace(p, extents=(*p.extents[:at], ONE, *p.extents[at:]), strides=strides)


def _squeeze(f: FunctionText, attrs: dict, p: Pointer, indices: Sequence[V]) -> Pointer:
    at = attrs["at"]
    strides = None if p.strides is None else p.strides[:at] + p.strides[at + 1 :]
    return replace(p, extents=p.extents[:at] + p.extents[at + 1 :], strides=strides)


def _shape_cast(f: FunctionText, attrs: dict, p: Pointer, indices: Sequence[V]) -> Pointer:
    return replace(p, extents=tuple(indices), strides=None)


def _section(f: FunctionText, attrs: dict, p: Pointer, indices: Sequence[V]) -> Pointer:
    starts, counts, steps = (indices[k * p.rank : (k + 1) * p.rank] for k in range(3))
    assert p.strides is not None
    # an empty section may start at the end of an axis, past the object: it must not move the pointer
    data = offset(f, p.data, starts, p.strides)
    if data is not p.data:
        empty = f.any(*(f.icmp("eq", n, ZERO) for n in counts))
        data = f.select(empty, p.data, data)
        f.sections[data] = p.data, starts, p.strides
    strides = tuple(f.mul(s, step) for s, step in zip(p.strides, steps, strict=True))
    return replace(p, data=data, extents=tuple(counts), strides=strides)


def _diagonal(f: FunctionText, attrs: dict, p: Pointer, indices: Sequence[V]) -> Pointer:
    """The last two axes, run along together."""
    assert p.strides is not None
    *starts, count = indices
    *kept, row, column = p.strides
    data = offset(f, p.data, starts, (row, column))
    if data is not p.data:
        data = f.select(f.icmp("eq", count, ZERO), p.data, data)
    return replace(p, data=data, extents=(*p.extents[:-2], count), strides=(*kept, f.add(row, column)))


def _windows(f: FunctionText, attrs: dict, p: Pointer, indices: Sequence[V]) -> Pointer:
    """Axes (window..., count...): along the first one moves by spreads, along the others by steps."""
    rank = p.rank
    assert p.strides is not None
    steps, spreads = indices[2 * rank : 3 * rank], indices[3 * rank :]
    strides = (f.mul(s, n) for moves in (spreads, steps) for s, n in zip(p.strides, moves, strict=True))
    return replace(p, extents=tuple(indices[: 2 * rank]), strides=tuple(strides))


def _element(f: FunctionText, attrs: dict, p: Pointer, indices: Sequence[V]) -> Pointer:
    taken = len(indices)
    assert p.strides is not None
    strides = [f.unguessed(s) for s in p.strides[:taken]] if f.inlines else p.strides[:taken]
    data = offset(f, p.data, indices, strides)
    return replace(p, data=data, extents=p.extents[taken:], strides=p.strides[taken:])


def _part(f: FunctionText, attrs: dict, p: Pointer, indices: Sequence[V]) -> Pointer:
    part = p.dtype.real
    data = f.gep(memory_type(part), p.data, ONE) if attrs["at"] else p.data
    return replace(p, dtype=part, data=data)
