"""base[index] as a value, as a target of an assignment and of an augmented one: elements, views, selections, items."""

from __future__ import annotations

from typing import Any

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import advanced, indexing
from dlvm_py.frontend.arrays import fit, materialise, store, tensor_of
from dlvm_py.frontend.elementwise import refuse_real, stored_scalar
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.numpy_create import array
from dlvm_py.frontend.values import Array, Scalar, Sequence, SliceKey, Static, Temp, describe
from dlvm_py.ir import BOOL, scalar


def read(e: Emitter, base: Any, index: Any) -> Any:
    """base[index]: an element (a NumPy scalar), a view, a copy of what arrays select, or an item of a tuple."""
    if isinstance(base, Sequence):
        return _item(e, base, index)
    if isinstance(base, Scalar) and not base.weak and _makes_axes(index):
        base = Temp(base.value, (), e.block)
    if not isinstance(base, (Array, Temp)):
        e.error(TypeMismatch, f"{describe(base)} cannot be indexed")
    index = advanced.prepared(e, index)
    if advanced.has_arrays(index):
        return advanced.read(e, materialise(e, base), index)
    selected = indexing.view(e, materialise(e, base), index)
    if selected.rank == 0 and not _keeps_array(index):
        return Scalar(e.emit("load", selected.pointer), weak=False)
    if selected.rank and _has_flat_array(index):
        # NumPy copies what an array selects, be it one without axes
        return Temp(tensor_of(e, selected), selected.extents, e.block)
    return selected


def _items(index: Any) -> tuple[Any, ...]:
    return index.items if isinstance(index, Sequence) else (index,)


def _makes_axes(index: Any) -> bool:
    """Whether an index has no entry that takes an axis: NumPy's scalars have none."""
    return all(isinstance(i, Static) or (isinstance(i, Scalar) and i.dtype is BOOL) for i in _items(index))


def _keeps_array(index: Any) -> bool:
    return any(isinstance(i, Static) and i.value is Ellipsis for i in _items(index))


def _has_flat_array(index: Any) -> bool:
    return any(isinstance(i, (Array, Temp)) for i in _items(index))


def _item(e: Emitter, base: Sequence, index: Any) -> Any:
    if isinstance(index, SliceKey):
        parts = constant_slice(index)
        if parts is not None and parts.step != 0:
            return Sequence(base.items[parts], base.is_list)
    elif isinstance(index, Scalar) and isinstance(index.number, int):
        if -len(base.items) <= index.number < len(base.items):
            return base.items[index.number]
        e.error(TypeMismatch, f"index {index.number} is out of range for {describe(base)}")
    e.error(
        UnsupportedSyntax,
        f"{describe(base)} can only be sliced by constants"
        if isinstance(index, SliceKey)
        else "a tuple or list can only be indexed by a constant",
        help="use an array, or unpack it: a, b = values",
    )


def constant_slice(key: SliceKey) -> slice | None:
    """The slice, None where one of its parts is computed."""
    parts = (key.start, key.stop, key.step)
    if any(p is not None and not isinstance(p.number, int) for p in parts):
        return None
    return slice(*(None if p is None else p.number for p in parts))


def write(e: Emitter, base: Any, index: Any, value: Any) -> None:
    """base[index] = value."""
    base, index = _target(e, base), advanced.prepared(e, index)
    if isinstance(value, Sequence):
        value = array(e, value, Static(base.dtype.numpy))  # each number cast as if it were stored alone
    if advanced.has_arrays(index):
        advanced.write(e, advanced.select(e, base, index), value)
    else:
        assign(e, indexing.view(e, base, index), value)


def _target(e: Emitter, base: Any) -> Array:
    if isinstance(base, Array):
        return base
    hint = "build a new tuple, or use an array" if isinstance(base, Sequence) else None
    e.error(TypeMismatch, f"{describe(base)} cannot be assigned to by index", help=hint)


def assign(e: Emitter, target: Array, value: Any) -> None:
    """target[...] = value: cast as NumPy's assignment does, broadcast, store."""
    if isinstance(value, Sequence) and target.rank:
        value = array(e, value)
    if isinstance(value, Scalar):
        tensor = fit(e, Scalar(stored_scalar(e, value, target.dtype), weak=False), target.extents)
    elif isinstance(value, (Array, Temp)):
        if value.dtype.is_complex:
            refuse_real(e, target.dtype)
        tensor = e.cast(fit(e, value, target.extents), target.dtype)
    else:
        e.error(TypeMismatch, f"{describe(value)} cannot be stored in an array", help="store numbers or arrays")
    if target.rank == 0 and tensor.type != scalar(target.dtype):
        e.error(TypeMismatch, "setting an array element with a sequence")
    store(e, tensor, target)


def place(e: Emitter, base: Any, index: Any) -> Array | advanced.Selection:
    """What base[index] refers to: a view, or a selection by arrays."""
    base, index = _target(e, base), advanced.prepared(e, index)
    return advanced.select(e, base, index) if advanced.has_arrays(index) else indexing.view(e, base, index)
