"""Sorting and searching: sort, argsort, searchSorted. The order is NumPy's: NaN behind everything, -0.0 equal to 0.0.

Both sorts are stable, so `sort x` is x gathered at `argsort x`, bit for bit, and the adjoint of one is the scatter by
the other: equal elements keep their places among each other, and each takes the seed of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import Kind, Op
from dlvm_py.ir.ops.arrange import checked_axes
from dlvm_py.ir.ops.gather import gather, scatterAdd
from dlvm_py.ir.ops.rules import tensor
from dlvm_py.ir.ops.shape import extents_of, iota, padShape
from dlvm_py.ir.types import I64, TensorType, Type
from dlvm_py.ir.value import Value


def _sort_type(operands: Sequence[Value], attrs: dict[str, Any]) -> TensorType:
    t = tensor(operands[0])
    checked_axes(t, (attrs["axis"],))
    if t.dtype.is_complex:
        raise TypeError("complex numbers have no order here")
    return t


def _argsort_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return TensorType(_sort_type(operands, attrs).shape, I64)


def _places(x: Any, axis: int) -> list[Any]:
    """Where the elements of sort(x) come from."""
    return [argsort(x, axis=axis) if k == axis else _along(x, n, k) for k, n in enumerate(extents_of(x))]


def _sort_adjoint(seed: Any, y: Any, x: Any, axis: int) -> Any:
    """x[argsort(x)[k]] gets the seed of y[k], along the axis."""
    return (scatterAdd(seed, *_places(x, axis), *extents_of(x)),)


def _along(x: Any, extent: Any, axis: int) -> Any:
    """0, 1, ... along one axis of x, with extents of 1 along the others."""
    b = x.builder
    found = b.expr(b.emit(iota, extent if isinstance(extent, Value) else extent.value))
    for k in range(x.type.rank):
        if k != axis:
            found = padShape(found, at=k)
    return found


# sort x along axis, argsort x along axis: ascending and stable
sort: Op = Op(
    "sort",
    Kind.REDUCTION,
    _sort_type,
    lambda x, axis: np.sort(x, axis, kind="stable"),
    attrs=("axis",),
    adjoint=_sort_adjoint,
    tangent=lambda t, y, x, axis: gather(t[0], *_places(x, axis)),
    numpy_name="sort",
)
argsort: Op = Op(
    "argsort",
    Kind.REDUCTION,
    _argsort_type,
    lambda x, axis: np.argsort(x, axis, kind="stable"),
    attrs=("axis",),
    no_derivative="integer-valued",
    numpy_name="argsort",
)


def _search_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    a, v = (tensor(x) for x in operands)
    if a.rank != 1 or not v.rank or a.dtype is not v.dtype or a.dtype.is_complex:
        raise TypeError(f"searchSorted of {v} in {a}")
    if attrs["side"] not in ("left", "right"):
        raise TypeError(f"there is no side {attrs['side']}")
    return TensorType(v.shape, I64)


# searchSorted a for v side (left|right): where the elements of v would go in a, which is in order; before those that
# are equal, or behind them
searchSorted = Op(
    "searchSorted",
    Kind.REDUCTION,
    _search_type,
    lambda a, v, side: np.searchsorted(a, v, side),
    attrs=("side",),
    no_derivative="integer-valued",
    numpy_name="searchsorted",
)

ORDER = (sort, argsort, searchSorted)
