"""Windows: their gathering, its transpose, and the reduction of windows.

    windows x size (k...) count (o...) step (s...) spread (r...)    y[w..., i...] = x[i s + w r]
    overlapAdd y to (n...) step (s...) spread (r...)                x[i s + w r] += y[w..., i...]

`windows` is a view of memory. reduceWindow reduces the windows of the padded operand: `expand_reduce_window` is this
composition on Exprs, of which the adjoint follows from those of the parts, and by which lower_shape replaces the op;
`evaluate` says independently what it must give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import LINEAR, Kind, Op
from dlvm_py.ir.ops.arrange import indices, sizes
from dlvm_py.ir.ops.combiners import COMBINERS, identity_of
from dlvm_py.ir.ops.elementwise import floorDivide, maximum
from dlvm_py.ir.ops.reduce import reduce, reduce_tangent
from dlvm_py.ir.ops.rules import static_extent, tensor
from dlvm_py.ir.ops.shape import embed, indices_are_i64, section
from dlvm_py.ir.types import PointerType, TensorType, Type, scalar
from dlvm_py.ir.value import Value

# -- windows, overlapAdd -----------------------------------------------------------------------------


def _parts(operands: Sequence[Any], count: int) -> list[Sequence[Any]]:
    """The index operands of an op in `count` equal lists."""
    each = (len(operands) - 1) // count
    return [operands[1 + k * each : 1 + (k + 1) * each] for k in range(count)]


def _windows_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x = operands[0].type
    t = x.pointee if isinstance(x, PointerType) else tensor(operands[0])
    if len(operands) != 1 + 4 * t.rank or not t.rank:
        raise TypeError(f"windows of rank {t.rank} needs {4 * t.rank} indices, has {len(operands) - 1}")
    indices_are_i64(operands[1:])
    found = TensorType(tuple(static_extent(n) for n in operands[1 : 1 + 2 * t.rank]), t.dtype)
    return PointerType(found, "S") if isinstance(x, PointerType) else found


def _windows(x: Any, *operands: Any) -> Any:
    size, count, step, spread = ([int(n) for n in part] for part in _parts((x, *operands), 4))
    for n, w, o, s, r in zip(np.shape(x), size, count, step, spread, strict=True):
        if w and o and (o - 1) * s + (w - 1) * r >= n:
            raise ValueError(f"{o} windows of {w} in steps of {s} and {r} leave an axis of extent {n}")
    x = np.asarray(x)
    strides = [a * r for a, r in zip(x.strides, spread, strict=True)] + [
        a * s for a, s in zip(x.strides, step, strict=True)
    ]
    return np.lib.stride_tricks.as_strided(x, (*size, *count), strides, writeable=False)


# all windows lie within x; steps and spreads are at least 1. Of a pointer it is a view, only for reading.
windows: Op = Op(
    "windows",
    Kind.INDEX,
    _windows_type,
    _windows,
    adjoint=lambda seed, y, x, *operands: (
        overlapAdd(seed, *indices(*sizes(x)), *operands[2 * x.type.rank :]),
        *(None for _ in operands),
    ),
    tangent=LINEAR,
    numpy_name="lib.stride_tricks.as_strided",
)


def _overlap_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t = tensor(operands[0])
    rank = (len(operands) - 1) // 3
    if len(operands) != 1 + 3 * rank or t.rank != 2 * rank or not rank:
        raise TypeError(f"overlapAdd of rank {t.rank} with {len(operands) - 1} indices")
    if t.dtype.kind == "b":
        raise TypeError("overlapAdd is not defined for dtype bool")
    indices_are_i64(operands[1:])
    return TensorType(tuple(static_extent(n) for n in operands[1 : 1 + rank]), t.dtype)


def _overlap(y: Any, *operands: Any) -> Any:
    to, step, spread = ([int(n) for n in part] for part in _parts((y, *operands), 3))
    rank = len(to)
    size, count = np.shape(y)[:rank], np.shape(y)[rank:]
    found = np.zeros(to, np.asarray(y).dtype)
    if math.prod(count):
        for w in np.ndindex(*size):
            place = tuple(
                slice(k * r, k * r + (o - 1) * s + 1, s) for k, o, s, r in zip(w, count, step, spread, strict=True)
            )
            found[place] += y[w]
    return found


def _overlap_adjoint(seed: Any, x: Any, y: Any, *operands: Any) -> Any:
    rank = x.type.rank
    back = windows(seed, *indices(*sizes(y)), *operands[rank:])
    return back, *(None for _ in operands)


overlapAdd: Op = Op("overlapAdd", Kind.REDUCTION, _overlap_type, _overlap, adjoint=_overlap_adjoint, tangent=LINEAR)

# -- reduceWindow ------------------------------------------------------------------------------------

PADDINGS: dict[str, Callable[[int], tuple[int, int]]] = {
    "none": lambda w: (0, 0),
    "half": lambda w: ((w - 1) // 2, w - 1 - (w - 1) // 2),
    "full": lambda w: (w - 1, w - 1),
}


def fits(n: Any, window: int, stride: int) -> Any:
    """How many windows of this length, so far apart, fit into an extent: 0 if not one does."""
    if isinstance(n, int):
        return (n - window) // stride + 1 if window <= n else 0
    # at least 0: for a stride of 1 or more, (n - window) // stride is -1 or less where there is no room
    return maximum(floorDivide(n - window, stride) + 1, 0)


def window_counts(shape: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    """How many windows there are along each axis: numbers, Exprs, None where unknown."""
    found = []
    for n, w, s in zip(shape, attrs["dims"], attrs["strides"], strict=True):
        lo, hi = PADDINGS[attrs["padding"]](w)
        found.append(None if n is None else fits(n + lo + hi, w, s))
    return found


def _reduce_window_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x, init = (tensor(v) for v in operands)
    by = attrs["by"]
    if by not in COMBINERS or (by in ("and", "or")) != (x.dtype.kind == "b"):
        raise TypeError(f"no reduction by {by} of {x.dtype}")
    if x.dtype.is_complex and by in ("max", "min"):
        raise TypeError(f"complex numbers have no {by} of nothing, which windows at the border need")
    if init != scalar(x.dtype):
        raise TypeError(f"init must be a {x.dtype} scalar, not {init}")
    return window_type(x, attrs)


def window_type(x: TensorType, attrs: dict[str, Any]) -> Type:
    """What there is of a tensor's windows: one element each."""
    dims, strides = attrs["dims"], attrs["strides"]
    if len(dims) != x.rank or len(strides) != x.rank or not x.rank:
        raise TypeError(f"dims {tuple(dims)} and strides {tuple(strides)} do not fit rank {x.rank}")
    if min(*dims, *strides) < 1:
        raise TypeError("dims and strides are at least 1")
    if attrs["padding"] not in PADDINGS:
        raise TypeError(f"no padding {attrs['padding']}: none, half and full are known")
    return TensorType(tuple(window_counts(x.shape, attrs)), x.dtype)


def window_at(x: np.ndarray, place: Sequence[int], attrs: dict[str, Any]) -> np.ndarray:
    """What the window with this number sees of x."""
    pads = [PADDINGS[attrs["padding"]](w) for w in attrs["dims"]]
    starts = [k * s - lo for k, s, (lo, _) in zip(place, attrs["strides"], pads, strict=True)]
    return x[tuple(slice(max(a, 0), max(a + w, 0)) for a, w in zip(starts, attrs["dims"], strict=True))]


def _reduce_window(x: Any, init: Any, **attrs: Any) -> Any:
    x, ufunc = np.asarray(x), COMBINERS[attrs["by"]]
    out = np.full(window_counts(x.shape, attrs), init, x.dtype)
    for i in np.ndindex(*out.shape):
        window = window_at(x, i, attrs)
        if window.size:
            out[i] = ufunc(out[i], ufunc.reduce(window, axis=None, dtype=x.dtype))
    return out


def _padded(x: Any, attrs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The operand with identities around it, and the operands of `embed` that made it (none: [])."""
    pads = [PADDINGS[attrs["padding"]](w) for w in attrs["dims"]]
    if not any(map(sum, pads)):
        return x, []
    wide = [n + lo + hi for n, (lo, hi) in zip(sizes(x), pads, strict=True)]
    place = indices(*wide, *(lo for lo, _ in pads), *[1] * len(pads))
    return embed(x, identity_of(attrs["by"], x.type.dtype), *place), place


def _window_operands(x: Any, attrs: dict[str, Any]) -> list[Any]:
    counts = window_counts(sizes(x), attrs)
    return indices(*attrs["dims"], *counts, *attrs["strides"], *[1] * len(counts))


def expand_reduce_window(x: Any, init: Any, **attrs: Any) -> Any:
    """reduceWindow as a reduction of the windows of the padded operand."""
    gathered = windows(_padded(x, attrs)[0], *_window_operands(x, attrs))
    return reduce(gathered, init, by=attrs["by"], axes=tuple(range(x.type.rank)))


def _reduce_window_adjoint(seed: Any, y: Any, x: Any, init: Any, **attrs: Any) -> Any:
    rank = x.type.rank
    wide, place = _padded(x, attrs)
    operands = _window_operands(x, attrs)
    gathered = windows(wide, *operands)
    back, init_adj = reduce.adjoint(seed, y, gathered, init, by=attrs["by"], axes=tuple(range(rank)))  # type: ignore[misc]
    back = overlapAdd(back, *indices(*sizes(wide)), *operands[2 * rank :])
    return section(back, *place[rank : 2 * rank], *indices(*sizes(x)), *place[2 * rank :]) if place else back, init_adj


def _reduce_window_tangent(t: Any, y: Any, x: Any, init: Any, **attrs: Any) -> Any:
    rank, (along, first) = x.type.rank, t
    wide, place = _padded(x, attrs)
    operands = _window_operands(x, attrs)
    if along is not None:
        along = windows(embed(along, 0.0, *place) if place else along, *operands)
    return reduce_tangent((along, first), y, windows(wide, *operands), init, by=attrs["by"], axes=tuple(range(rank)))


# reduceWindow x by (add|...) init v dims w strides s padding (none|half|full): every window of x reduced, v included;
# what a window reads outside of x does not count. half gives ceil(n / s) windows, full every window that meets x
reduceWindow = Op(
    "reduceWindow",
    Kind.REDUCTION,
    _reduce_window_type,
    _reduce_window,
    attrs=("by", "dims", "strides", "padding"),
    adjoint=_reduce_window_adjoint,
    tangent=_reduce_window_tangent,
)

WINDOW = (windows, overlapAdd, reduceWindow)
