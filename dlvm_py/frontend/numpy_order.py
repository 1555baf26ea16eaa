"""Sorting and searching that is an op of its own: sort, argsort, searchsorted; library/order.py has what follows."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import materialise, require_array, store, tensor_of
from dlvm_py.frontend.elementwise import convert, operand, promoted, strong, supported
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.library.order import complex_argsort, complex_sort, in_order
from dlvm_py.frontend.numpy_reduce import as_axis
from dlvm_py.frontend.numpy_shape import ravel
from dlvm_py.frontend.values import NONE, Array, Scalar, Static, Temp
from dlvm_py.ir import Value, literal

_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _ordered(e: Emitter, a: Any, axis: Any, kind: Any, order: Any, stable: Any, what: str) -> tuple[Array | Temp, int]:
    """The array and the axis to sort; whatever kind is asked for, the sort is stable."""
    a = require_array(e, a, what)
    if not _is_none(kind) and not _is_none(stable):
        message = "`kind` and `stable` parameters can't be provided at the same time. Use only one of them."
        e.error(TypeMismatch, message)
    if (kind is not None and getattr(kind, "value", "") not in _KINDS) or not _is_none(order):
        e.error(
            UnsupportedSyntax, f"{what} of this kind or order is not supported", help="leave `kind` and `order` out"
        )
    if isinstance(axis, Static) and axis.value is None:
        return ravel(e, a), 0
    if not a.rank:
        e.error(TypeMismatch, f"{what} needs an array with axes")
    return a, as_axis(e, axis, a.rank) if axis is not None else a.rank - 1


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, Static) and value.value is None)


def _by(e: Emitter, op: str, rule: Any, a: Array | Temp, axis: int) -> Any:
    """An op that sorts, or the library's rule where the numbers are complex."""
    if a.dtype.is_complex:
        return e.session.library(e, rule, [materialise(e, a), Scalar(i64(axis), weak=True)], {})
    return Temp(e.emit(op, tensor_of(e, a), axis=axis), a.extents, e.block)


def sort(e: Emitter, a: Any, axis: Any = None, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """np.sort: a copy in ascending order, NaN last."""
    a, k = _ordered(e, a, axis, kind, order, stable, "np.sort")
    return _by(e, "sort", complex_sort, a, k)


def argsort(e: Emitter, a: Any, axis: Any = None, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """np.argsort, stable."""
    a, k = _ordered(e, a, axis, kind, order, stable, "np.argsort")
    return _by(e, "argsort", complex_argsort, a, k)


def sort_in_place(
    e: Emitter, a: Any, axis: Any = None, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    """x.sort()."""
    if not isinstance(a, Array):
        e.error(TypeMismatch, "x.sort() needs an array that has a name")
    if axis is not None and _is_none(axis):
        e.error(TypeMismatch, "x.sort() needs an int as axis, not None", help="np.sort(x, axis=None) is a vector")
    _, k = _ordered(e, a, axis, kind, order, stable, "x.sort()")
    store(e, tensor_of(e, _by(e, "sort", complex_sort, a, k)), a)
    return NONE


def searchsorted(e: Emitter, a: Any, v: Any, side: Any = None, sorter: Any = None) -> Any:
    """np.searchsorted; `sorter` are the places of the elements in order."""
    if not _is_none(sorter):
        a = e.session.library(e, in_order, [a, sorter], {})
    a, v = require_array(e, a, "np.searchsorted"), operand(e, v, "np.searchsorted")
    chosen = "left" if side is None else getattr(side, "value", None)
    if chosen not in ("left", "right"):
        e.error(TypeMismatch, "np.searchsorted: side must be 'left' or 'right'")
    if a.rank != 1:
        e.error(TypeMismatch, "object too deep for desired array: np.searchsorted searches in one axis")
    v = strong(v)
    dtype = supported(e, promoted(a, v), "np.searchsorted")
    if dtype.is_complex:
        e.error(UnsupportedSyntax, "np.searchsorted of complex numbers is not supported", help="search the real parts")
    tensor, extents = convert(e, v, dtype)
    if isinstance(v, Scalar):
        tensor = e.emit("broadcast", tensor, literal(1))
    found: Value = e.emit("searchSorted", convert(e, a, dtype)[0], tensor, side=chosen)
    if isinstance(v, Scalar):
        return Scalar(e.emit("squeezeShape", found, at=0), weak=False)
    return Temp(found, extents, e.block)


ORDER: dict[Any, Any] = {np.sort: sort, np.argsort: argsort, np.searchsorted: searchsorted}
ORDER_METHODS: dict[str, Any] = {"sort": sort_in_place, "argsort": argsort, "searchsorted": searchsorted}
