"""Indexing with arrays: integers, masks, and mixtures with slices, None and `...`, for reads and writes, as NumPy does.

The basic part of an index makes a view; its axes that arrays index go in front, so that

    x[:, i, None, j]     reads     transpose (gather (transpose of the view) at (i, j))     a copy, fused as a leaf
    x[:, i, None, j] = v           scatter (v, transposed) to (transpose of the view) at (i, j)
    x[mask]                        gather at the places of the true elements of the mask
    x[mask] = f(y[mask])           store of select(f(y), x, mask): nothing is compressed

An int beside arrays is an index array of rank 0. A bool takes no axis: x[b] is x[None] at the places of a new axis that
are [0] where b is true, else none. Where the arrays of an index stand side by side, the axes of the
result that they give stand in their place, else in front. What is out of range raises before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch
from dlvm_py.frontend import indexing
from dlvm_py.frontend.arrays import (
    Extents,
    Message,
    combine,
    fit,
    make_array,
    require_writable,
    tensor_of,
)
from dlvm_py.frontend.elementwise import convert, refuse_real, stored_scalar
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.facts import EXTENT_MAX
from dlvm_py.frontend.numpy_create import array as array_of
from dlvm_py.frontend.values import Array, Scalar, Sequence, SliceKey, Static, Temp, describe
from dlvm_py.frozen import Frozen
from dlvm_py.ir import BOOL, I64, U64, Block, Instruction, Kind, Value, literal, scalar
from dlvm_py.ir.analysis import written_pointer
from dlvm_py.ir.value import integer

_WHOLE = SliceKey(None, None, None)


class Selection(Frozen):
    """What an index with arrays selects. `view` has the indexed axes in front, `places` are their indices.

    `extents` are those of the result, and `order` transposes what is gathered to its axes. `mask`: the mask that is
    all of the index but for slices, else None.
    """

    view: Array
    places: tuple[Value, ...]
    extents: Extents
    order: tuple[int, ...]
    mask: Array | Temp | None


class Places(Frozen):
    """The places of the true elements of a mask: how many, and one index tensor an axis, made in `block`.

    `table` has an axis for the axes in front of that for the elements.
    """

    count: Value
    table: Value
    rows: tuple[Value, ...]
    block: Block
    last: Instruction


def prepared(e: Emitter, index: Any) -> Any:
    """An index with the lists (and nested tuples) in it as arrays."""
    if isinstance(index, Sequence) and not index.is_list:
        return Sequence(tuple(_listed(e, item) for item in index.items))
    return _listed(e, index)


def _listed(e: Emitter, item: Any) -> Any:
    if isinstance(item, (Array, Temp)) and item.dtype is BOOL and not item.rank:
        return Scalar(tensor_of(e, item), weak=False)
    if not isinstance(item, Sequence):
        return item
    if not item.items:
        return Temp(e.emit("iota", i64(0)), (i64(0),), e.block)
    return array_of(e, item)


def has_arrays(index: Any) -> bool:
    """Whether a prepared index has arrays with axes in it, or bools."""
    items = index.items if isinstance(index, Sequence) else (index,)
    return any(_is_flag(item) or (isinstance(item, (Array, Temp)) and item.rank) for item in items)


# -- what is selected --------------------------------------------------------------------------------


def select(e: Emitter, array: Array, index: Any) -> Selection:
    """What `index`, which has arrays, selects from `array`; bounds and shapes are checked."""
    given = indexing.entries(e, index)
    parts = indexing.expanded(e, given, array.rank, _axes_of)
    view = indexing.view_of(e, array, [q for p in parts for q in _viewed(p)])
    axes: list[int] = []  # of the view, that are indexed
    axis = 0
    for p in parts:
        count = len(_viewed(p))
        if _is_advanced(p):
            axes.extend(range(axis, axis + count))
        axis += count
    rest = [k for k in range(view.rank) if k not in axes]
    order = (*axes, *rest)
    if order != tuple(range(view.rank)):
        pointer = e.emit("transpose", view.pointer, axes=order)
        view = make_array(e, pointer, [view.extents[k] for k in order], view.copied)
    places, shape, mask = _places(e, [p for p in parts if _is_advanced(p)], view)
    first = axes[0] if _is_together(given) else 0
    moved = list(range(len(shape), len(shape) + len(rest)))
    result = (*moved[:first], *range(len(shape)), *moved[first:])
    tail = view.extents[len(axes) :]
    return Selection(view, places, (*tail[:first], *shape, *tail[first:]), result, mask)


def _is_advanced(part: Any) -> bool:
    return isinstance(part, (Scalar, Array, Temp))


def _is_flag(part: Any) -> bool:
    return isinstance(part, Scalar) and part.dtype is BOOL


def _viewed(part: Any) -> list[Any]:
    """The basic entries that make the axes which an entry indexes."""
    if _is_flag(part):
        return [Static(None)]
    return [_WHOLE] * _axes_of(part) if _is_advanced(part) else [part]


def _axes_of(part: Any) -> int:
    """How many axes of the array an entry takes."""
    if _is_flag(part):
        return 0
    if isinstance(part, (Array, Temp)) and part.dtype is BOOL:
        return part.rank
    return 0 if isinstance(part, Static) else 1


def _is_together(given: list[Any]) -> bool:
    """Whether the ints and arrays of an index stand side by side (a `...` of no axes counts as between)."""
    places = [k for k, p in enumerate(given) if _is_advanced(p)]
    return places[-1] - places[0] == len(places) - 1


def _places(e: Emitter, parts: list[Any], view: Array) -> tuple[tuple[Value, ...], Extents, Array | Temp | None]:
    """Index tensors of the leading axes of `view`, in range; their common shape; the mask that is alone."""
    pairs: list[tuple[Value, Extents]] = []
    bounds: list[tuple[int, Any, Value]] = []  # what is still to be checked: shapes come first
    axis = 0
    for part in parts:
        if _is_flag(part):
            count = e.cast(part.value, I64)
            e.facts.interval.setdefault(count, (0, 1))
            pairs.append((e.emit("iota", count), (count,)))
        elif isinstance(part, Scalar):
            pairs.append((part.value, ()))
            bounds.append((axis, part, part.value))
        elif part.dtype is BOOL:
            _check_mask(e, part, view.extents[axis : axis + part.rank], axis)
            found = true_places(e, part)
            pairs.extend((row, (found.count,)) for row in found.rows)
        else:
            pairs.append((e.cast(tensor_of(e, part), I64), part.extents))
            bounds.append((axis, part, pairs[-1][0]))
        axis += len(_viewed(part))
    indices = [k for k, (_, x) in enumerate(pairs) if x]
    tensors, shape = combine(e, [pairs[k] for k in indices], clash=_CLASH)
    places = [t for t, _ in pairs]
    for k, t in zip(indices, tensors, strict=True):
        places[k] = t
    for axis, part, tensor in bounds:
        if isinstance(part, Scalar):
            places[axis] = indexing.normalised(e, part, view.extents[axis], axis)
            continue
        if _is_held(e, tensor, view.extents[axis]):
            _check_held(e, view.extents[axis], axis, shape)
            continue
        _check_range(e, part, tensor, view.extents[axis], axis, shape)
        if _may_be_negative(part):
            places[axis] = _from_the_start(e, places[axis], view.extents[axis])
    mask = parts[0] if len(parts) == 1 and parts[0].dtype is BOOL and not _is_flag(parts[0]) else None
    return tuple(places), shape, mask


_CLASH = ("IndexError", "shape mismatch: indexing arrays could not be broadcast together")


def _may_be_negative(part: Array | Temp) -> bool:
    """Whether an index array, cast to i64 as NumPy casts it, may hold negative numbers."""
    return part.dtype.kind == "i" or part.dtype is U64


def _is_held(e: Emitter, tensor: Value, extent: Value) -> bool:
    """Whether an index is sure to lie between 0 and the last place of the axis, if there is one: np.clip says so."""
    extent = e.facts.find(extent)

    def is_low(v: Value) -> bool:
        if _is_scalar(v):
            return e.facts.is_nonnegative(v) or e.facts.split(v) == (extent, -1)
        return _holds(v, "max", "min", is_low)

    def is_high(v: Value) -> bool:
        return e.facts.proves_below(v, extent) if _is_scalar(v) else _holds(v, "min", "max", is_high)

    return is_low(tensor) and is_high(tensor)


def _holds(v: Value, one: str, both: str, what: Callable[[Value], bool]) -> bool:
    if not isinstance(v, Instruction) or v.op.name not in (one, both):
        return False
    return any(map(what, v.operands)) if v.op.name == one else all(map(what, v.operands))


def _is_scalar(v: Value) -> bool:
    return v.type == scalar(I64)


def _check_held(e: Emitter, extent: Value, axis: int, shape: Extents) -> None:
    """IndexError where there is an index but no place."""
    if e.options.checks_bounds:
        fine = e.either(e.compare("lessThan", i64(0), extent), e.compare("equal", e.product(shape), i64(0)))
        e.check(fine, "IndexError", f"index {{}} is out of bounds for axis {axis} with size {{}}", i64(-1), extent)


def _check_range(e: Emitter, part: Array | Temp, tensor: Value, extent: Value, axis: int, shape: Extents) -> None:
    """IndexError unless all elements of an index array are in range, or `shape`, that of all indices, is empty.

    One sweep finds the index that is furthest out: with i + n taken as unsigned, those in range are below 2 n.
    """
    if not e.options.checks_bounds:
        return
    signed = _may_be_negative(part)
    shifted = e.cast(e.emit("add", tensor, extent) if signed else tensor, U64)
    worst = e.emit("reduce", shifted, literal(0, scalar(U64)), by="max", axes=tuple(range(part.rank)))
    limit = e.cast(e.multiply(extent, i64(2)) if signed else extent, U64)
    empty = e.compare("equal", e.product(shape), i64(0))
    shown = e.cast(worst, I64)
    shown = e.pure("subtract", shown, extent) if signed else shown
    message = f"index {{}} is out of bounds for axis {axis} with size {{}}"
    e.check(e.either(e.pure("lessThan", worst, limit), empty), "IndexError", message, shown, extent)


def _from_the_start(e: Emitter, tensor: Value, extent: Value) -> Value:
    """Places where negative ones count from the end."""
    # not as a choice of i + n, which the check asks for too: what two kernels share would get memory
    return e.emit("add", tensor, e.emit("select", extent, i64(0), e.emit("lessThan", tensor, i64(0))))


def _check_mask(e: Emitter, mask: Array | Temp, extents: Extents, axis: int) -> None:
    for k, (have, want) in enumerate(zip(mask.extents, extents, strict=True)):
        if e.facts.same(have, want):
            continue
        message = Message()
        text = (
            f"boolean index did not match indexed array along axis {axis + k}; size of axis is {message.hole(want)} "
            f"but size of corresponding boolean axis is {message.hole(have)}"
        )
        if integer(have) is not None and integer(want) is not None:
            e.error(TypeMismatch, text)
        e.check(e.compare("equal", have, want), "IndexError", text, *message.operands)
        e.facts.unify(have, want)


def true_places(e: Emitter, mask: Array | Temp) -> Places:
    """Where a mask is true; known from before, if it was asked in this block and nothing has written to the mask."""
    key = mask.pointer if isinstance(mask, Array) else mask.tensor
    known = e.masks.get(key)
    if known is not None and known.block is e.block and not _is_written(e, mask, known.last):
        return known
    flags = tensor_of(e, mask)
    number_ = e.emit("dataTypeCast", flags, to="i64")
    count = e.emit("reduce", number_, i64(0), by="add", axes=tuple(range(mask.rank)))
    e.facts.interval[count] = (0, EXTENT_MAX)
    places = e.emit("nonzero", flags, count)
    one, zero = i64(1), i64(0)
    rows = [places] if mask.rank == 1 else [
        e.emit("section", places, i64(k), zero, one, count, one, one) for k in range(mask.rank)
    ]  # fmt: skip
    rows = [e.emit("squeezeShape", row, at=0) for row in rows]
    e.masks[key] = Places(count, places, tuple(rows), e.block, rows[-1])
    return e.masks[key]


def _is_written(e: Emitter, mask: Array | Temp, last: Instruction) -> bool:
    """Whether anything since `last` may have written to the mask."""
    if isinstance(mask, Temp):
        return False
    own = _base(mask.pointer)
    since = e.block.instructions[e.block.instructions.index(last) + 1 :]
    for i in since:
        p = written_pointer(i)
        if p is None and i.op.kind is not Kind.CALL:
            continue
        base = None if p is None else _base(p)
        fresh = isinstance(base, Instruction) and base.op.name == "allocateHeap" and base is not own
        known = isinstance(own, Instruction) and own.op.name == "allocateHeap"
        if not fresh or not (known or base in since):
            return True
    return False


def _base(p: Value) -> Value:
    while isinstance(p, Instruction) and p.op.kind is Kind.INDEX:
        p = p.operands[0]
    return p


# -- reading and writing -----------------------------------------------------------------------------


def read(e: Emitter, array: Array, index: Any) -> Temp:
    """array[index]: always a copy."""
    s = select(e, array, index)
    if not array.rank:  # bools alone
        return Temp(fit(e, (tensor_of(e, array), ()), s.extents), s.extents, e.block)
    return gathered(e, s)


def gathered(e: Emitter, s: Selection) -> Temp:
    """What is selected, as a value."""
    tensor = e.emit("gather", tensor_of(e, s.view), *s.places)
    if s.order != tuple(range(len(s.order))):
        tensor = e.emit("transpose", tensor, axes=s.order)
    return Temp(tensor, s.extents, e.block)


def write(e: Emitter, s: Selection, value: Any) -> None:
    """Store a value at what is selected: of several for one place the last one stays."""
    require_writable(e, s.view)
    if isinstance(value, Scalar):
        tensor, have = stored_scalar(e, value, s.view.dtype), ()
    elif isinstance(value, (Array, Temp)):
        if value.dtype.is_complex:
            refuse_real(e, s.view.dtype)
        tensor, have = convert(e, value, s.view.dtype)
    else:
        e.error(TypeMismatch, f"{describe(value)} cannot be stored in an array", help="store numbers or arrays")
    if s.mask is not None and s.order == tuple(range(len(s.order))):
        everywhere = tensor if not have else _unpicked(e, tensor, have, s)
        if everywhere is not None:
            _select_store(e, everywhere, s.view, s.mask)
            return
    tensor = fit(e, (tensor, have), s.extents)
    e.emit("scatter", _in_order(e, tensor, s), s.view.pointer, *s.places)


def accumulate(e: Emitter, s: Selection, value: Any, by: str) -> None:
    """Combine every value with what is at its place, as np.add.at does."""
    require_writable(e, s.view)
    tensor = fit(e, convert(e, value, s.view.dtype), s.extents)
    e.emit("scatter", _in_order(e, tensor, s), s.view.pointer, *s.places, by=by)


def _in_order(e: Emitter, tensor: Value, s: Selection) -> Value:
    """A tensor in NumPy's axes with the axes of the indices in front."""
    back = tuple(int(k) for k in np.argsort(s.order))
    return tensor if back == tuple(range(len(back))) else e.emit("transpose", tensor, axes=back)


def _select_store(e: Emitter, tensor: Value, view: Array, mask: Array | Temp) -> None:
    """view[mask] = tensor, of all elements of the view."""
    flags = tensor_of(e, mask)
    for k in range(mask.rank, view.rank):
        flags = e.emit("padShape", flags, at=k)
    chosen = e.emit("select", tensor, e.emit("load", view.pointer), flags)
    e.emit("store", chosen, view.pointer)


def _unpicked(e: Emitter, tensor: Value, extents: Extents, s: Selection) -> Value | None:
    """The value of which `tensor` takes the elements where the mask of s is true, None if it is nothing like that.

    f(x[mask], 2 * y[mask]) is f(x, 2 * y) there: elementwise ops have no effects, and may run everywhere.
    """
    if len(extents) != len(s.extents) or not all(map(e.facts.same, extents, s.extents)):
        return None
    found: dict[Value, Value] = {}
    work = [tensor]
    while work:
        v = work[-1]
        if v in found:
            work.pop()
            continue
        if not isinstance(v, Instruction) or v.type.rank != len(extents):  # type: ignore[attr-defined]
            return None
        if v.op.name == "gather":
            if tuple(v.operands[1:]) != s.places:
                return None
            found[v] = v.operands[0]
        elif v.op.kind is not Kind.ELEMENTWISE or v.block is not e.block:
            return None
        else:
            arrays = [o for o in v.operands if o.type.shape]  # type: ignore[attr-defined]
            missing = [o for o in arrays if o not in found]
            if missing:
                work.extend(missing)
                continue
            found[v] = e.emit(v.op.name, *(found.get(o, o) for o in v.operands), **v.attrs)
    return found[tensor]
