"""Arrangements of values: slice, reverse, concatenate; the rank, the shape and the number of elements.

These are for values only, and the pass lower_shape states most of them in index ops before they get memory.
Extents in rules are ints where a type states them and Exprs elsewhere, so that arithmetic folds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import LINEAR, Kind, Op
from dlvm_py.ir.ops.rules import tensor
from dlvm_py.ir.ops.shape import embed, extents_of, section
from dlvm_py.ir.types import I64, TensorType, Type, scalar
from dlvm_py.ir.value import Literal, Value

# -- index arithmetic --------------------------------------------------------------------------------


def sizes(x: Any) -> list[Any]:
    """The extents of an Expr: ints where its type states them, else Exprs."""
    return [n.value if isinstance(n, Literal) else n for n in extents_of(x)]


def indices(*numbers: Any) -> list[Any]:
    """Ints and Exprs as operands of index ops."""
    return [Literal(scalar(I64), int(n)) if isinstance(n, int) else n for n in numbers]


# -- slice, reverse ----------------------------------------------------------------------------------


def _slice_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t, lo, hi = tensor(operands[0]), attrs["lo"], attrs["hi"]
    if not t.rank:
        raise TypeError("a scalar has no axis to slice")
    if not 0 <= lo <= hi or (t.shape[0] is not None and hi >= t.shape[0]):
        raise TypeError(f"from {lo} upto {hi} is no range of an axis of extent {t.shape[0] or '_'}")
    return TensorType((hi - lo + 1, *t.shape[1:]), t.dtype)


def slice_section(x: Any, lo: int, hi: int) -> Any:
    """A slice as the section that it is."""
    n, rank = sizes(x), x.type.rank
    return section(x, *indices(lo, *[0] * (rank - 1), hi - lo + 1, *n[1:], *[1] * rank))


# slice x from lo upto hi: the elements lo, ..., hi of axis 0; as in DLVM hi is included
slice_: Op = Op(
    "slice",
    Kind.INDEX,
    _slice_type,
    lambda x, lo, hi: x[lo : hi + 1],
    attrs=("lo", "hi"),
    adjoint=lambda seed, y, x, lo, hi: (
        embed(seed, 0.0, *indices(*sizes(x), lo, *[0] * (x.type.rank - 1), *[1] * x.type.rank)),
    ),
    tangent=LINEAR,
)


def checked_axes(t: TensorType, axes: Sequence[int]) -> None:
    """TypeError unless `axes` are different axes of t."""
    if len(set(axes)) != len(axes) or any(not 0 <= a < t.rank for a in axes):
        raise TypeError(f"axes {tuple(axes)} do not fit rank {t.rank}")


def _reverse_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t = tensor(operands[0])
    checked_axes(t, attrs["axes"])
    return t


def reverse_section(x: Any, axes: Sequence[int]) -> Any:
    """A reversal as the section that it is."""
    n = sizes(x)
    if not n:
        return x
    back = [k in axes for k in range(len(n))]
    starts = [m - 1 if b else 0 for m, b in zip(n, back, strict=True)]
    return section(x, *indices(*starts, *n, *(-1 if b else 1 for b in back)))


reverse: Op = Op(
    "reverse",
    Kind.INDEX,
    _reverse_type,
    lambda x, axes: np.flip(x, tuple(axes)),
    attrs=("axes",),
    adjoint=lambda seed, y, x, axes: (reverse(seed, axes=axes),),
    tangent=LINEAR,
    numpy_name="flip",
)

# -- concatenate -------------------------------------------------------------------------------------


def _concatenate_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    types, at = [tensor(v) for v in operands], attrs["at"]
    if not types or not 0 <= at < types[0].rank:
        raise TypeError(f"no axis {at} to concatenate along")
    shape = list(types[0].shape)
    for t in types[1:]:
        if t.dtype is not types[0].dtype or t.rank != len(shape):
            raise TypeError(f"{t} is concatenated with {types[0]}")
        for k, n in enumerate(t.shape):
            if k != at and None not in (n, shape[k]) and n != shape[k]:
                raise TypeError(f"extents {shape[k]} and {n} of axis {k} differ")
            shape[k] = n if shape[k] is None and k != at else shape[k]
    along = [t.shape[at] for t in types]
    shape[at] = None if None in along else sum(n or 0 for n in along)
    if (shape[at] or 0) >= 2**63:
        raise TypeError(f"an axis of {shape[at]} elements is too long")
    return TensorType(tuple(shape), types[0].dtype)


def places(parts: Sequence[Any], at: int) -> list[list[Any]]:
    """The index operands of the sections of a concatenation that its parts are."""
    found, start = [], 0
    for part in parts:
        n = sizes(part)
        starts = [start if k == at else 0 for k in range(len(n))]
        found.append(indices(*starts, *n, *[1] * len(n)))
        start = start + n[at]
    return found


concatenate = Op(
    "concatenate",
    Kind.GENERATE,
    _concatenate_type,
    lambda *xs, at: np.concatenate(xs, axis=at),
    attrs=("at",),
    adjoint=lambda seed, y, *xs, at: tuple(section(seed, *place) for place in places(xs, at)),
    tangent=LINEAR,
    numpy_name="concatenate",
)

# -- rank, shape, unitCount --------------------------------------------------------------------------


def _count(name: str, evaluate: Any, numpy_name: str) -> Op:
    def rule(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
        t = tensor(operands[0])
        return TensorType((t.rank,), I64) if name == "shape" else scalar(I64)

    reason = "counts are integers"
    return Op(name, Kind.GENERATE, rule, evaluate, no_derivative=reason, numpy_name=numpy_name)


rank = _count("rank", lambda x: np.int64(np.ndim(x)), "ndim")
shape = _count("shape", lambda x: np.array(np.shape(x), np.int64), "shape")
unitCount = _count("unitCount", lambda x: np.int64(math.prod(np.shape(x))), "size")

ARRANGE = (slice_, reverse, concatenate, rank, shape, unitCount)
