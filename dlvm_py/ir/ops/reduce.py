"""Reductions and the contraction `dot`, with the broadcast/unbroadcast pair that they are transposes of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import LINEAR, MULTILINEAR, Kind, Op
from dlvm_py.ir.ops.combiners import COMBINERS, identity_of
from dlvm_py.ir.ops.elementwise import conjugate_of, dataTypeCast, equal, greaterThan, select
from dlvm_py.ir.ops.rules import check_number, is_constant, static_extent, tensor
from dlvm_py.ir.ops.scan import products_of_others
from dlvm_py.ir.ops.shape import extents_of, indices_are_i64, padShape, transpose
from dlvm_py.ir.types import TensorType, Type, scalar
from dlvm_py.ir.value import Instruction, Value


def _reduce_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x, init = (tensor(v) for v in operands)
    axes = attrs["axes"]
    if attrs["by"] not in COMBINERS:
        raise TypeError(f"no reduction by {attrs['by']}")
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.rank for a in axes):
        raise TypeError(f"axes {axes} do not fit rank {x.rank}")
    check_number("grain", attrs, 1, "tenths of nanoseconds")
    if init != scalar(x.dtype):
        raise TypeError(f"init must be a {x.dtype} scalar, not {init}")
    if (attrs["by"] in ("and", "or")) != (x.dtype.kind == "b"):
        raise TypeError(f"reduction by {attrs['by']} is not defined for {x.dtype}")
    return TensorType(tuple(n for k, n in enumerate(x.shape) if k not in axes), x.dtype)


def _evaluate_reduce(
    x: Any, init: Any, by: str, axes: tuple[int, ...], grain: int | None = None, joined: bool = False
) -> Any:
    x = np.asarray(x)
    ufunc = COMBINERS[by]
    if not axes:
        return ufunc(x, init)
    if by == "multiply":  # in order, since products overflow: NaN or 0 by what comes first
        return ufunc.reduce(x, axis=tuple(axes), dtype=x.dtype, initial=init)
    if by == "add":
        # NumPy widens small integers here; the op does not
        return ufunc(ufunc.reduce(x, axis=tuple(axes), dtype=x.dtype), init).astype(x.dtype)
    return ufunc.reduce(x, axis=tuple(axes), initial=init)


def restore_axes(value: Any, like: Any, axes: Sequence[int]) -> Any:
    """Undo the shape effect of a reduction: re-insert `axes` and stretch them to the extents of `like`."""
    for axis in sorted(axes) if value.type.rank else ():
        value = padShape(value, at=axis)
    return broadcast(value, *extents_of(like))


def _total(value: Any) -> Any:
    return reduce(value, 0.0, by="add", axes=tuple(range(value.type.rank))) if value.type.rank else value


def _reduce_adjoint(seed: Any, y: Any, x: Any, init: Any, by: str, axes: tuple[int, ...]) -> Any:
    constant = is_constant(init)
    if by == "add":
        return restore_axes(seed, x, axes), None if constant else _total(seed)
    if by == "multiply":
        others = None if constant else _total(seed * conjugate_of(reduce(x, 1.0, by=by, axes=axes)))
        return restore_axes(seed, x, axes) * conjugate_of(_others(x, init, axes)), others
    # max and min: shared evenly among the ties, of which init is none
    won = dataTypeCast(equal(x, restore_axes(y, x, axes)), to=x.type.dtype.name)
    count = reduce(won, 0.0, by="add", axes=axes)
    if _is_identity(init, by):
        return restore_axes(seed / count, x, axes) * won, None
    reached = greaterThan(count, 0.0)
    shared = select(seed / select(count, 1.0, reached), 0.0, reached)
    return restore_axes(shared, x, axes) * won, None if constant else _total(select(0.0, seed, reached))


def _is_identity(init: Any, by: str) -> bool:
    """Whether init is the number that loses against every element, so that one of them always wins."""
    value = init.value.value if is_constant(init) else None
    return value == identity_of(by, init.type.dtype)


def reduce_tangent(t: Any, y: Any, x: Any, init: Any, by: str, axes: tuple[int, ...]) -> Any:
    """The tangent of a reduction from those of its operands; also what a window gives."""
    along, first = t
    total = lambda v: reduce(v, 0.0, by="add", axes=axes)  # noqa: E731
    if by == "add":
        parts = [None if along is None else total(along), first]
    elif by == "multiply":
        parts = [
            None if along is None else total(along * _others(x, init, axes)),
            None if first is None else first * reduce(x, 1.0, by=by, axes=axes),
        ]
    else:
        won = dataTypeCast(equal(x, restore_axes(y, x, axes)), to=x.type.dtype.name)
        count = total(won)
        if _is_identity(init, by):
            return total(along * won) / count
        reached = greaterThan(count, 0.0)
        shared = 0.0 if along is None else total(along * won) / select(count, 1.0, reached)
        return select(shared, 0.0 if first is None else first, reached)
    kept = [p for p in parts if p is not None]
    return kept[0] if len(kept) == 1 else kept[0] + kept[1]


def _others(x: Any, init: Any, axes: tuple[int, ...]) -> Any:
    """The product of init and all other elements along the axes, for each element of x.

    Of prefixes and suffixes, not by division: a polynomial, whose derivatives are right where elements are 0 too.
    """
    if not axes:  # of a single element: init alone
        return broadcast(init, *extents_of(x))
    if is_constant(init) and init.value.value == 0:  # the product of all is that of the others, which may overflow
        return restore_axes(reduce(x, init, by="multiply", axes=axes), x, axes)
    axis, *rest = sorted(axes)
    along = products_of_others(x, axis)
    if not rest:
        return along if is_constant(init) and init.value.value == 1 else along * init
    products = reduce(x, 1.0, by="multiply", axes=(axis,))
    return along * restore_axes(_others(products, init, tuple(k - 1 for k in rest)), x, (axis,))


# reduce x by (add|multiply|max|min|and|or) init v along axes (joined, grain: as those of a store)
reduce = Op(
    "reduce",
    Kind.REDUCTION,
    _reduce_type,
    _evaluate_reduce,
    attrs=("by", "axes", "grain", "joined"),
    adjoint=_reduce_adjoint,
    tangent=reduce_tangent,
    numpy_name="sum, max, min, prod, all, any",
)

# -- broadcast and its transpose ---------------------------------------------------------------------


def _broadcast_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x, *extents = operands
    indices_are_i64(extents)
    t = tensor(x)
    if t.rank not in (0, len(extents)):
        raise TypeError(f"broadcast of rank {t.rank} to rank {len(extents)}")
    shape = tuple(static_extent(n) for n in extents)
    for a, b in zip(t.shape, shape, strict=False):
        if a is not None and b is not None and a not in (1, b):
            raise TypeError(f"extent {a} does not broadcast to {b}")
    return TensorType(shape, t.dtype)


def _broadcast_adjoint(seed: Any, y: Any, x: Any, *extents: Any) -> Any:
    none = [None] * len(extents)
    if not x.type.rank:
        return reduce(seed, 0.0, by="add", axes=tuple(range(seed.type.rank))), *none
    return unbroadcast(seed, *extents_of(x)), *none


# broadcast x to (n...): x is a scalar or has on each axis the extent n or 1 (decided at run time where
# its type says `_`); the only op that stretches an unknown extent
broadcast = Op(
    "broadcast",
    Kind.GENERATE,
    _broadcast_type,
    lambda x, *extents: np.broadcast_to(x, tuple(int(n) for n in extents)),
    adjoint=_broadcast_adjoint,
    tangent=LINEAR,
    numpy_name="broadcast_to",
)


def _unbroadcast_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x, *extents = operands
    indices_are_i64(extents)
    t = tensor(x)
    if t.rank != len(extents) or not t.rank:
        raise TypeError(f"unbroadcast of rank {t.rank} to rank {len(extents)}")
    return TensorType(tuple(static_extent(n) for n in extents), t.dtype)


def _unbroadcast(x: Any, *extents: Any) -> Any:
    axes = tuple(k for k, n in enumerate(extents) if int(n) == 1 and np.shape(x)[k] != 1)
    return np.sum(x, axis=axes, keepdims=True, dtype=np.asarray(x).dtype) if axes else x


# the transpose of broadcast: sums the axes on which the wanted extent is 1 and x's is not
unbroadcast = Op(
    "unbroadcast",
    Kind.REDUCTION,
    _unbroadcast_type,
    _unbroadcast,
    adjoint=lambda seed, y, x, *extents: (broadcast(seed, *extents_of(x)), *(None for _ in extents)),
    tangent=LINEAR,
)

# -- dot ---------------------------------------------------------------------------------------------


def _dot_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x, y = (tensor(v) for v in operands)
    if x.dtype is not y.dtype or x.dtype.kind not in "iufc":
        raise TypeError(f"dot of {x.dtype} and {y.dtype}")
    batched = x.rank == y.rank > 2
    if not batched and (x.rank not in (1, 2) or y.rank not in (1, 2)):
        raise TypeError(f"dot of ranks {x.rank} and {y.rank}")
    batch = x.shape[:-2] if batched else ()
    for m, n in zip(batch, y.shape[:-2], strict=False):
        if m is not None and n is not None and m != n:
            raise TypeError(f"the extents of batches differ, {m} and {n}")
    a, b = x.shape[-1], y.shape[-2 if batched else 0]
    if a is not None and b is not None and a != b:
        raise TypeError(f"inner extents differ, {a} and {b}")
    if batched:
        batch = tuple(n if m is None else m for m, n in zip(batch, y.shape[:-2], strict=True))
        return TensorType((*batch, x.shape[-2], y.shape[-1]), x.dtype)
    return TensorType((*x.shape[:-1], *y.shape[1:]), x.dtype)


def _dot_adjoint(seed: Any, f: Any, x: Any, y: Any) -> Any:
    ranks = x.type.rank, y.type.rank
    if ranks == (2, 2) and _is_transpose(y.value, x.value):  # both in one: dx = (seed + seedᵀ) conj(x)
        return dot(seed + transpose(seed), conjugate_of(x)), None
    if ranks == (2, 2) and _is_transpose(x.value, y.value):  # dy = conj(y) (seed + seedᵀ)
        return None, dot(conjugate_of(y), seed + transpose(seed))
    x, y = conjugate_of(x), conjugate_of(y)
    if ranks[0] > 2:
        turned = (*range(ranks[0] - 2), ranks[0] - 1, ranks[0] - 2)
        return dot(seed, transpose(y, axes=turned)), dot(transpose(x, axes=turned), seed)
    if ranks == (2, 2):  # dx = seed yᴴ, dy = xᴴ seed
        return dot(seed, transpose(y)), dot(transpose(x), seed)
    if ranks == (1, 1):
        return seed * y, seed * x
    if ranks == (2, 1):  # dx = seed ⊗ conj(y), dy = xᴴ seed
        return dot(padShape(seed, at=1), padShape(y, at=0)), dot(transpose(x), seed)
    return dot(y, seed), dot(padShape(x, at=1), padShape(seed, at=0))


def _is_transpose(x: Value, of: Value) -> bool:
    return isinstance(x, Instruction) and x.op is transpose and x.operands[0] is of


# contracts the last axis of x with the first of y, ranks 1 and 2 (the builder has checked the extents); of equal higher
# ranks, the matrices of the last two axes are multiplied
dot = Op(
    "dot",
    Kind.CONTRACTION,
    _dot_type,
    lambda x, y: np.matmul(x, y) if x.ndim > 2 else np.dot(x, y),
    adjoint=_dot_adjoint,
    tangent=MULTILINEAR,
    numpy_name="dot",
)

REDUCE = (reduce, broadcast, unbroadcast, dot)
