"""Changing shape: transpose, reshape, ravel, flatten, expand_dims, squeeze, swapaxes, broadcast_to."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import ShapeMismatch, TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import (
    COPIED,
    Extents,
    allocate,
    check_shapes,
    fit,
    make_array,
    materialise,
    require_array,
    store,
    tensor_of,
)
from dlvm_py.frontend.elementwise import cast_scalar, operand, stored_scalar
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.facts import EXTENT_MAX
from dlvm_py.frontend.indexing import as_flag, as_index
from dlvm_py.frontend.library import reshaping
from dlvm_py.frontend.numpy_create import array, as_dtype, as_shape
from dlvm_py.frontend.numpy_create import asarray as without_order
from dlvm_py.frontend.numpy_reduce import as_axes, as_axis
from dlvm_py.frontend.orders import Order, is_noted, lies_in_columns, order_of
from dlvm_py.frontend.values import Array, Scalar, Sequence, Static, Temp, describe, is_none
from dlvm_py.ir import Value
from dlvm_py.ir.value import integer


def _whole(a: Any) -> Any:
    return a.whole() if isinstance(a, Array) else a


def transpose(e: Emitter, a: Any, axes: Any = None, *more: Any) -> Any:
    """np.transpose, x.T, x.transpose(...): a view."""
    a = require_array(e, a, "transpose")
    given = _axes(axes, more)
    if a.rank < 2 and given is None:
        return _whole(a)
    perm = tuple(range(a.rank))[::-1] if given is None else tuple(as_axis(e, x, a.rank) for x in given)
    if sorted(perm) != list(range(a.rank)):
        e.error(TypeMismatch, "axes don't match array", help="name every axis once")
    attrs = {} if perm == tuple(range(a.rank))[::-1] else {"axes": perm}
    return _same_elements(e, "transpose", a, tuple(a.extents[p] for p in perm), **attrs)


def _axes(axes: Any, more: tuple[Any, ...]) -> tuple[Any, ...] | None:
    if more:
        return (axes, *more)
    if axes is None or (isinstance(axes, Static) and axes.value is None):
        return None
    return axes.items if isinstance(axes, Sequence) else (axes,)


def _same_elements(e: Emitter, op: str, a: Array | Temp, extents: Extents, **attrs: Any) -> Any:
    """An index op on memory (a view) or on a value."""
    if isinstance(a, Array):
        return make_array(e, e.emit(op, a.pointer, **attrs), extents, a.copied)
    return Temp(e.emit(op, tensor_of(e, a), **attrs), extents, e.block)


def swapaxes(e: Emitter, a: Any, axis1: Any, axis2: Any) -> Any:
    """np.swapaxes: a view."""
    a = require_array(e, a, "swapaxes")
    i, j = as_axis(e, axis1, a.rank), as_axis(e, axis2, a.rank)
    perm = list(range(a.rank))
    perm[i], perm[j] = j, i
    return _same_elements(e, "transpose", a, tuple(a.extents[p] for p in perm), axes=tuple(perm))


def expand_dims(e: Emitter, a: Any, axis: Any) -> Any:
    """np.expand_dims: a view."""
    a = require_array(e, a, "expand_dims")
    if isinstance(axis, Sequence):
        for at in as_axes(e, axis, a.rank + len(axis.items)):
            a = expand_dims(e, a, Scalar(i64(at), weak=True))
        return _whole(a)
    at = as_axis(e, axis, a.rank + 1)
    return _same_elements(e, "padShape", a, (*a.extents[:at], i64(1), *a.extents[at:]), at=at)


def is_fortran(e: Emitter, order: Any) -> bool:
    """Whether the argument `order` says that the first index changes fastest."""
    word = "C" if is_none(order) else getattr(order, "value", None)
    if word not in ("C", "F"):
        e.error(UnsupportedSyntax, "`order` must be the constant 'C' or 'F'", help="order='C'")
    return word == "F"


def _turned(e: Emitter, a: Any) -> Any:
    return transpose(e, a) if isinstance(a, (Array, Temp)) else a


def reshape(e: Emitter, a: Any, shape: Any, *more: Any, order: Any = None, copy: Any = None) -> Any:
    """np.reshape, x.reshape(...): one extent may be -1; a view of contiguous memory."""
    a = require_array(e, a, "reshape")
    if not is_none(copy):
        if not as_flag(e, copy, "`copy` of reshape"):
            e.error(UnsupportedSyntax, "reshape with copy=False is not supported", help="x.shape = ... never copies")
        a = Temp(tensor_of(e, a), a.extents, e.block)
    items = (shape, *more) if more else (shape.items if isinstance(shape, Sequence) else (shape,))
    if is_fortran(e, order):
        return _turned(e, reshape(e, _turned(e, a), Sequence(tuple(items[::-1]))))
    size = e.product(a.extents)
    inferred = [k for k, item in enumerate(items) if isinstance(item, Scalar) and item.number == -1]
    if len(inferred) > 1:
        e.error(TypeMismatch, "can only specify one unknown dimension")
    rest = as_shape(e, Sequence(tuple(x for k, x in enumerate(items) if k not in inferred)))
    known = e.product(rest)
    if not inferred:
        _check_size(e, e.compare("equal", size, known), size, rest)
        return _reshaped(e, a, rest)
    zero = i64(0)
    divisor = e.choose(e.compare("equal", known, zero), i64(1), known)
    count = size if integer(divisor) == 1 else e.pure("floorDivide", size, divisor)
    fine = e.both(e.compare("equal", e.multiply(count, known), size), e.pure("notEqual", known, zero))
    extents = (*rest[: inferred[0]], count, *rest[inferred[0] :])
    _check_size(e, fine if integer(divisor) != 1 else e.compare("equal", zero, zero), size, extents)
    e.facts.interval.setdefault(count, e.facts.range_of(size))
    return _reshaped(e, a, extents)


def _check_size(e: Emitter, fine: Value, size: Value, extents: Extents) -> None:
    if getattr(fine, "value", None) is False:
        shown = ",".join(str(integer(n)) if integer(n) is not None else "?" for n in extents)
        e.error(ShapeMismatch, f"cannot reshape array of size {integer(size)} into shape ({shown})")
    check_shapes(
        e,
        fine,
        lambda m: f"cannot reshape array of size {m.hole(size)} into shape {m.shape(extents)}",
        lambda m: f"cannot reshape array of size {m.hole(size)} into this shape",
    )


def _reshaped(e: Emitter, a: Array | Temp, extents: Extents) -> Any:
    if isinstance(a, Array) and a.type.layout == "C" and order_of(e, a) is Order.ROWS:
        return make_array(e, e.emit("shapeCast", a.pointer, *extents), extents, a.copied)
    tensor = e.emit("shapeCast", tensor_of(e, a), *extents)
    if isinstance(a, Temp):
        return Temp(tensor, extents, e.block)
    out = allocate(e, extents, a.dtype)
    store(e, tensor, out)
    if len(extents) > 1 or not _has_one_order(e, a):
        e.emit("keepView", a.pointer, out.pointer)
    return Array(out.pointer, out.extents, COPIED)


def _has_one_order(e: Emitter, a: Array) -> bool:
    """Whether memory lies in C or in Fortran order, and certainly not in both: two extents are never 1."""
    is_known = a.type.layout in ("C", "F") and order_of(e, a) is not Order.UNKNOWN
    return is_known and sum(map(e.facts.is_never_one, a.extents)) > 1


def _contiguous(layout: str, written: Any) -> Any:
    """np.ascontiguousarray and np.asfortranarray: the array itself if it lies so, else a copy (`written`)."""

    def rule(e: Emitter, a: Any, dtype: Any = None) -> Any:
        if not isinstance(a, Array) or not a.rank or not (is_none(dtype) or as_dtype(e, dtype) is a.dtype):
            return e.session.library(e, written, [a] if is_none(dtype) else [a, dtype], {})
        order = order_of(e, a)
        is_line = sum(integer(n) != 1 for n in a.extents) <= 1 and order is not Order.UNKNOWN
        lies_so = lies_in_columns(a, order) if layout == "F" else a.type.layout == "C" and order is Order.ROWS
        if lies_so or (is_line and a.type.layout in ("C", "F")):
            return a
        out = e.session.library(e, written, [a], {})
        if not _has_one_order(e, a):
            e.emit("keepView", a.pointer, out.pointer)
            if a.type.layout != "S" or is_noted(e, a):
                out = Array(out.pointer, out.extents, COPIED)
        return out

    return rule


_IN_ORDER = {"C": _contiguous("C", reshaping.ascontiguousarray), "F": _contiguous("F", reshaping.asfortranarray)}


def asarray(e: Emitter, a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None) -> Any:
    """np.asarray: the array itself where the dtype and the order agree."""
    is_copied = None if is_none(copy) else as_flag(e, copy, "`copy` of np.asarray")
    if is_copied:
        return array(e, a, dtype, None, order)
    word = "K" if is_none(order) else getattr(order, "value", None)
    if word not in ("K", "A", "C", "F"):
        e.error(UnsupportedSyntax, "`order` must be one of the constants 'K', 'A', 'C' and 'F'")
    found = without_order(e, a, dtype)
    if word in _IN_ORDER and isinstance(found, (Array, Temp)) and found.rank > 1:
        found = _IN_ORDER[word](e, found)
    if is_copied is False and found is not a:
        e.error(TypeMismatch, "Unable to avoid copy while creating an array as requested", help="leave `copy` out")
    return found


def ravel(e: Emitter, a: Any, order: Any = None) -> Any:
    """np.ravel: a view of contiguous memory, else a copy."""
    a = require_array(e, a, "ravel")
    if is_fortran(e, order):
        a = _turned(e, a)
    if isinstance(a, Array) and a.rank == 1 and a.type.layout == "C" and order_of(e, a) is Order.ROWS:
        return a.whole()
    return _reshaped(e, a, (e.product(a.extents),))


def flatten(e: Emitter, a: Any, order: Any = None) -> Any:
    """x.flatten(): always a copy."""
    a = require_array(e, a, "flatten")
    if is_fortran(e, order):
        a = _turned(e, a)
    size = e.product(a.extents)
    return Temp(e.emit("shapeCast", tensor_of(e, a), size), (size,), e.block)


def squeeze(e: Emitter, a: Any, axis: Any = None) -> Any:
    """np.squeeze of axes that are known to have extent 1."""
    a = require_array(e, a, "squeeze")
    if axis is None:
        axes = [k for k, n in enumerate(a.extents) if integer(n) == 1]
        if any(integer(n) is None and not e.facts.is_never_one(n) for n in a.extents):
            e.error(
                UnsupportedSyntax,
                "np.squeeze needs axis=...: an extent is not known before the call",
                help="np.squeeze(x, axis=0)",
            )
    else:
        axes = sorted(as_axis(e, x, a.rank) for x in (axis.items if isinstance(axis, Sequence) else (axis,)))
        wrong = "cannot select an axis to squeeze out which has size not equal to one"
        if any(integer(a.extents[k]) not in (None, 1) or e.facts.is_never_one(a.extents[k]) for k in axes):
            e.error(ShapeMismatch, wrong, help="x[0] takes the first of several")
        unknown = [k for k in axes if integer(a.extents[k]) is None]
        for k in unknown:
            e.check(e.compare("equal", a.extents[k], i64(1)), "ValueError", wrong)
        for k in reversed(unknown):  # the only one there is, as a view
            a = e.session.library(e, reshaping.first_of, [a, Scalar(i64(k), weak=True)], {})
        axes = [k - sum(n < k for n in unknown) for k in axes if k not in unknown]
    a = materialise(e, a) if len(axes) == a.rank else a  # an array without axes, not a number
    for k in reversed(axes):
        a = _same_elements(e, "squeezeShape", a, (*a.extents[:k], *a.extents[k + 1 :]), at=k)
    return a


def sliding_window_view(e: Emitter, x: Any, window_shape: Any, axis: Any = None) -> Any:
    """np.lib.stride_tricks.sliding_window_view: all windows of a shape, a view that is not to be written."""
    x = require_array(e, x, "sliding_window_view")
    sizes = as_shape(e, window_shape)
    items = axis.items if isinstance(axis, Sequence) else (axis,)
    axes = tuple(range(x.rank)) if is_none(axis) else tuple(as_axis(e, item, x.rank) for item in items)
    if len(axes) != len(sizes) or len(set(axes)) != len(axes):
        e.error(UnsupportedSyntax, "sliding_window_view needs one window extent for each axis, and each axis once")
    one, window, count = i64(1), [i64(1)] * x.rank, list(x.extents)
    for k, n in zip(axes, sizes, strict=True):
        e.check(e.compare("lessThanOrEqual", i64(0), n), "ValueError", "`window_shape` cannot contain negative values")
        fits = e.compare("lessThanOrEqual", n, x.extents[k])
        e.check(fits, "ValueError", "window shape cannot be larger than input array shape")
        window[k], count[k] = n, e.add(e.subtract(x.extents[k], n), one)
        e.facts.interval[count[k]] = (0, EXTENT_MAX)
    memory = isinstance(x, Array)
    source = x.pointer if memory else tensor_of(e, x)
    found = e.emit("windows", source, *window, *count, *[one] * (2 * x.rank))
    for k in reversed(range(x.rank)):
        if k not in axes:
            found = e.emit("squeezeShape", found, at=k)
    inner = sorted(axes)
    order = (*range(len(axes), len(axes) + x.rank), *(inner.index(k) for k in axes))
    found = e.emit("transpose", found, axes=order)
    extents = (*count, *sizes)
    if memory:
        return make_array(e, found, extents, "NumPy's view of windows is not to be written")
    return Temp(found, extents, e.block)


def broadcast_to(e: Emitter, array: Any, shape: Any) -> Any:
    """np.broadcast_to, as a value: NumPy's view is read-only, and writes that it would show are refused."""
    extents = as_shape(e, shape)
    if isinstance(array, (Array, Temp)) and array.rank > len(extents):
        e.error(ShapeMismatch, f"np.broadcast_to: an array of {array.rank} axes does not fit in {len(extents)}")
    return Temp(fit(e, array, extents), extents, e.block, seen=array if isinstance(array, Array) else None)


_READ_ONLY = "NumPy makes this view read-only"


def diagonal(e: Emitter, a: Any, offset: Any = None, axis1: Any = None, axis2: Any = None) -> Any:
    """np.diagonal: a view, which NumPy makes read-only, of the diagonal of two axes, along the last axis."""
    a = materialise(e, require_array(e, a, "np.diagonal"))
    if a.rank < 2:
        e.error(TypeMismatch, "np.diagonal requires an array of at least two dimensions")
    first = 0 if axis1 is None else as_axis(e, axis1, a.rank)
    second = 1 if axis2 is None else as_axis(e, axis2, a.rank)
    if first == second:
        e.error(TypeMismatch, "axis1 and axis2 cannot be the same")
    rest = [k for k in range(a.rank) if k not in (first, second)]
    pointer = a.pointer
    if (*rest, first, second) != tuple(range(a.rank)):
        pointer = e.emit("transpose", pointer, axes=(*rest, first, second))
    zero = i64(0)
    k = zero if offset is None else as_index(e, offset, "the offset of a diagonal")
    row, column = e.maximum(e.subtract(zero, k), zero), e.maximum(k, zero)
    left = e.minimum(e.subtract(a.extents[first], row), e.subtract(a.extents[second], column))
    count = e.maximum(left, zero)
    e.facts.interval.setdefault(count, (0, EXTENT_MAX))
    view = e.emit("diagonal", pointer, row, column, count)
    return make_array(e, view, [*(a.extents[n] for n in rest), count], a.copied or _READ_ONLY)


def shape_of(e: Emitter, a: Any) -> Any:
    """np.shape."""
    extents = () if isinstance(a, Scalar) else require_array(e, a, "np.shape").extents
    return Sequence(tuple(Scalar(n, weak=True) for n in extents))


def size_of(e: Emitter, a: Any, axis: Any = None) -> Any:
    """np.size: of an axis its extent."""
    if not is_none(axis):
        extents = require_array(e, a, "np.size").extents
        return Scalar(e.product(tuple(extents[k] for k in as_axes(e, axis, len(extents)))), weak=True)
    return Scalar(e.product(() if isinstance(a, Scalar) else require_array(e, a, "np.size").extents), weak=True)


def ndim_of(e: Emitter, a: Any) -> Any:
    """np.ndim."""
    return Scalar(i64(0 if isinstance(a, Scalar) else require_array(e, a, "np.ndim").rank), weak=True)


def fill(e: Emitter, a: Any, value: Any) -> Any:
    """x.fill(value), in place."""
    if not isinstance(a, Array):
        e.error(TypeMismatch, "fill needs an array that has a name")
    given, value = value, operand(e, value, "fill")
    if not isinstance(value, Scalar):
        e.error(TypeMismatch, f"fill needs a number, not {describe(value)}", help="x[...] = value")
    # an array without axes is cast, a number goes by way of Python's int
    number_ = cast_scalar(e, value, a.dtype) if isinstance(given, Array) else stored_scalar(e, value, a.dtype)
    store(e, fit(e, Scalar(number_, weak=False), a.extents), a)
    return Static(None)


SHAPE: dict[Any, Any] = {
    np.transpose: transpose, np.swapaxes: swapaxes, np.expand_dims: expand_dims, np.reshape: reshape,
    np.diagonal: diagonal, np.ravel: ravel, np.squeeze: squeeze, np.broadcast_to: broadcast_to, np.shape: shape_of,
    np.size: size_of, np.ndim: ndim_of, np.lib.stride_tricks.sliding_window_view: sliding_window_view,
    np.ascontiguousarray: _IN_ORDER["C"], np.asfortranarray: _IN_ORDER["F"],
    np.asarray: asarray, np.asanyarray: asarray,
}  # fmt: skip
SHAPE_METHODS: dict[str, Any] = {
    "diagonal": diagonal, "transpose": transpose, "swapaxes": swapaxes, "reshape": reshape, "ravel": ravel,
    "flatten": flatten, "squeeze": squeeze, "fill": fill,
}  # fmt: skip
