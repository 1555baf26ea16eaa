"""Elements at computed places: gather, its transpose scatterAdd, stores by scatter, and the places of true elements.

    gather x at (i, j)               y[a..., b...] = x[i[a...], j[a...], b...]           an indexed leaf of a tree
    scatterAdd y at (i, j) to (n, m)  x = 0; x[i[a...], j[a...], b...] += y[a..., b...]  the transpose of gather
    scatter v to p at (i, j)         p[i[a...], j[a...], b...] = v[a..., b...]           in order: the last one stays
    scatter v to p at (i, j) by add  p[i[a...], j[a...], b...] += v[a..., b...]
    nonzero c count n                y[k, a] = index k of the a-th true element of c

The indices stand for the leading axes, one i64 tensor an axis, and combine as the operands of an elementwise op. They
are in range and not negative: who builds the IR has normalised and checked them. "In order" is C order of v.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import LINEAR, WRITE, Kind, Op
from dlvm_py.ir.ops.combiners import COMBINERS
from dlvm_py.ir.ops.rules import broadcast_shapes, pointer, static_extent, tensor
from dlvm_py.ir.ops.shape import extents_of, indices_are_i64
from dlvm_py.ir.types import BOOL, I64, VOID, TensorType, Type
from dlvm_py.ir.value import Value


def index_shape(indices: Sequence[Value]) -> tuple[int | None, ...]:
    """The shape that index tensors have together; TypeError unless they are i64 and one has axes."""
    types = [tensor(v, "an index") for v in indices]
    for t in types:
        if t.dtype is not I64:
            raise TypeError(f"an index must be i64, not {t}")
    shape = broadcast_shapes([t.shape for t in types])
    if not shape:
        raise TypeError("one of the indices must have axes: elementPointer takes scalars")
    return shape


def _picked(x: TensorType, indices: Sequence[Value]) -> TensorType:
    """What indices pick from a tensor."""
    if len(indices) > x.rank:
        raise TypeError(f"{len(indices)} indices for rank {x.rank}")
    return TensorType((*index_shape(indices), *x.shape[len(indices) :]), x.dtype)


def _agree(a: Sequence[int | None], b: Sequence[int | None]) -> bool:
    """Whether two shapes can be one at run time."""
    return len(a) == len(b) and all(None in (n, m) or n == m for n, m in zip(a, b, strict=True))


def _places(indices: Sequence[Any], extents: Sequence[int]) -> tuple[Any, ...]:
    """Indices as NumPy takes them; IndexError for those that are not in range as they are."""
    for i, n in zip(indices, extents, strict=False):
        if np.any(np.less(i, 0)) or np.any(np.greater_equal(i, n)):
            raise IndexError(f"an index is not in range for an axis of extent {n}")
    return tuple(np.asarray(i) for i in indices)


# -- gather and its transpose ------------------------------------------------------------------------


def _gather_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return _picked(tensor(operands[0]), operands[1:])


def _gather(x: Any, *indices: Any) -> Any:
    return np.asarray(x)[_places(indices, np.shape(x))]


gather: Op = Op(
    "gather",
    Kind.GENERATE,
    _gather_type,
    _gather,
    adjoint=lambda seed, y, x, *indices: (
        scatterAdd(seed, *indices, *extents_of(x)[: len(indices)]),
        *(None for _ in indices),
    ),
    tangent=LINEAR,
    numpy_name="take",
)


def _scatter_add_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t, numbers = tensor(operands[0]), operands[1:]
    indices, extents = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    if len(indices) != len(extents):
        raise TypeError(f"scatterAdd needs an extent for each index, has {len(numbers)} operands for both")
    indices_are_i64(extents)
    shape = index_shape(indices)
    if t.dtype.kind == "b" or not _agree(shape, t.shape[: len(shape)]):
        raise TypeError(f"scatterAdd of {t} at indices of the shape {shape}")
    return TensorType((*map(static_extent, extents), *t.shape[len(shape) :]), t.dtype)


def _scatter_add(x: Any, *numbers: Any) -> Any:
    indices, extents = numbers[: len(numbers) // 2], tuple(map(int, numbers[len(numbers) // 2 :]))
    x = np.asarray(x)
    places = _places(indices, extents)
    found = np.zeros((*extents, *x.shape[np.broadcast(*places).ndim :]), x.dtype)
    np.add.at(found, places, x)
    return found


scatterAdd: Op = Op(
    "scatterAdd",
    Kind.REDUCTION,
    _scatter_add_type,
    _scatter_add,
    adjoint=lambda seed, y, x, *numbers: (
        gather(seed, *numbers[: len(numbers) // 2]),
        *(None for _ in numbers),
    ),
    tangent=LINEAR,
    numpy_name="bincount",
)

# -- scatter -----------------------------------------------------------------------------------------


def _scatter_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    value, destination, *indices = operands
    to = pointer(destination, "destination").pointee
    picked, t = _picked(to, indices), tensor(value)
    if t.dtype is not to.dtype or not _agree(t.shape, picked.shape):
        raise TypeError(f"{t} cannot be stored to {picked}")
    by = attrs.get("by")
    if by is not None and (by not in COMBINERS or (by in ("and", "or")) != (to.dtype.kind == "b")):
        raise TypeError(f"no scatter by {by} of {to.dtype}")
    return VOID


def scatter_into(to: np.ndarray, value: Any, indices: Sequence[Any], by: str | None = None) -> None:
    """What a scatter does to memory."""
    places = _places(indices, to.shape)
    if by is None:
        # one by one: NumPy does not promise which of several values for one place stays
        shape = np.broadcast(*places).shape
        flat = [np.broadcast_to(p, shape).ravel() for p in places]
        rows = np.reshape(value, (-1, *to.shape[len(places) :])) if np.size(value) else ()
        for place, row in zip(zip(*flat, strict=True), rows, strict=False):
            to[place] = row
    else:
        COMBINERS[by].at(to, places, value)


# scatter v to p at (i...) [by (add|multiply|max|min|and|or)]: all of v and of the indices is read before any
# element is written
scatter = Op(
    "scatter",
    Kind.MEMORY,
    _scatter_type,
    None,
    attrs=("by",),
    effects=frozenset({WRITE}),
    no_derivative="differentiated by a construct of its own, in transforms/differentiate",
    numpy_name="put",
)

# -- nonzero -----------------------------------------------------------------------------------------


def _nonzero_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    flags, count = operands
    t = tensor(flags)
    if t.dtype is not BOOL or not t.rank:
        raise TypeError(f"nonzero of {t}")
    indices_are_i64([count])
    return TensorType((t.rank, static_extent(count)), I64)


def _nonzero(flags: Any, count: Any) -> Any:
    found = np.stack(np.nonzero(flags))
    if found.shape[1] != count:
        raise ValueError(f"{found.shape[1]} elements are true, not {count}")
    return found


# nonzero c count n: the indices of the n true elements of c, in C order, one row an axis; n is their number
nonzero = Op("nonzero", Kind.GENERATE, _nonzero_type, _nonzero, no_derivative="integer-valued", numpy_name="nonzero")

GATHER = (gather, scatterAdd, scatter, nonzero)
