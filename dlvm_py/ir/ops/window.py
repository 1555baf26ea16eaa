"""Windows: their gathering and its transpose, reduceWindow and convolve made of them, and prefix scans.

    windows x size (k...) count (o...) step (s...) spread (r...)    y[w..., i...] = x[i s + w r]
    overlapAdd y to (n...) step (s...) spread (r...)                x[i s + w r] += y[w..., i...]

`windows` is a view of memory. The others are compositions: reduceWindow reduces the windows of the padded
operand; convolve multiplies the kernel, as a matrix, with the windows of the padded and dilated input, as a
matrix (im2col). Their adjoints follow from those of the parts. `expand_*` are these compositions on Exprs,
which the pass lower_shape uses too; `evaluate` says independently what they must give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import Kind, Op
from dlvm_py.ir.ops.arrange import checked_axes, concatenate, indices, reverse, sizes
from dlvm_py.ir.ops.elementwise import floorDivide, maximum
from dlvm_py.ir.ops.reduce import COMBINERS, dot, reduce
from dlvm_py.ir.ops.rules import is_constant, static_extent, tensor
from dlvm_py.ir.ops.shape import embed, indices_are_i64, padShape, section, shapeCast, squeezeShape, transpose
from dlvm_py.ir.types import DType, PointerType, TensorType, Type, scalar
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


overlapAdd: Op = Op("overlapAdd", Kind.REDUCTION, _overlap_type, _overlap, adjoint=_overlap_adjoint)

# -- reduceWindow ------------------------------------------------------------------------------------

PADDINGS: dict[str, Callable[[int], tuple[int, int]]] = {
    "none": lambda w: (0, 0),
    "half": lambda w: ((w - 1) // 2, w - 1 - (w - 1) // 2),
    "full": lambda w: (w - 1, w - 1),
}


def identity_of(by: str, dtype: DType) -> bool | int | float:
    """The value that a combiner leaves out: what windows read outside of the array."""
    if dtype.kind == "b":
        return by == "and"
    if by in ("add", "multiply"):
        return 0 if by == "add" else 1
    if dtype.kind == "f":
        return -math.inf if by == "max" else math.inf
    limits = np.iinfo(dtype.numpy)
    return int(limits.min if by == "max" else limits.max)


def _fits(n: Any, window: int, stride: int) -> Any:
    """How many windows of this length, so far apart, fit into an extent: 0 if not one does."""
    if isinstance(n, int):
        return (n - window) // stride + 1 if window <= n else 0
    # at least 0: for a stride of 1 or more, (n - window) // stride is -1 or less where there is no room
    return maximum(floorDivide(n - window, stride) + 1, 0)


def _window_counts(shape: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    found = []
    for n, w, s in zip(shape, attrs["dims"], attrs["strides"], strict=True):
        lo, hi = PADDINGS[attrs["padding"]](w)
        found.append(None if n is None else _fits(n + lo + hi, w, s))
    return found


def _reduce_window_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x, init = (tensor(v) for v in operands)
    by, dims, strides = attrs["by"], attrs["dims"], attrs["strides"]
    if by not in COMBINERS or (by in ("and", "or")) != (x.dtype.kind == "b"):
        raise TypeError(f"no reduction by {by} of {x.dtype}")
    if len(dims) != x.rank or len(strides) != x.rank or not x.rank:
        raise TypeError(f"dims {tuple(dims)} and strides {tuple(strides)} do not fit rank {x.rank}")
    if min(*dims, *strides) < 1:
        raise TypeError("dims and strides are at least 1")
    if attrs["padding"] not in PADDINGS:
        raise TypeError(f"no padding {attrs['padding']}: none, half and full are known")
    if init != scalar(x.dtype):
        raise TypeError(f"init must be a {x.dtype} scalar, not {init}")
    return TensorType(tuple(_window_counts(x.shape, attrs)), x.dtype)


def _reduce_window(x: Any, init: Any, **attrs: Any) -> Any:
    x, ufunc = np.asarray(x), COMBINERS[attrs["by"]]
    out = np.full(_window_counts(x.shape, attrs), init, x.dtype)
    pads = [PADDINGS[attrs["padding"]](w) for w in attrs["dims"]]
    for i in np.ndindex(*out.shape):
        starts = [k * s - lo for k, s, (lo, _) in zip(i, attrs["strides"], pads, strict=True)]
        window = x[tuple(slice(max(a, 0), a + w) for a, w in zip(starts, attrs["dims"], strict=True))]
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
    counts = _window_counts(sizes(x), attrs)
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


# reduceWindow x by (add|...) init v dims w strides s padding (none|half|full): every window of x reduced, v included;
# what a window reads outside of x does not count. half gives ceil(n / s) windows, full every window that meets x
reduceWindow = Op(
    "reduceWindow",
    Kind.REDUCTION,
    _reduce_window_type,
    _reduce_window,
    attrs=("by", "dims", "strides", "padding"),
    adjoint=_reduce_window_adjoint,
)

# -- convolve ----------------------------------------------------------------------------------------


def _convolution(rank: int, attrs: dict[str, Any]) -> tuple[Any, ...]:
    """(strides, padding, left dilation, right dilation, groups) with DLVM's defaults."""
    ones = (1,) * rank
    filled = [attrs.get(a) or d for a, d in (("strides", ones), ("padding", ((0, 0),) * rank), ("leftDilation", ones), ("rightDilation", ones))]
    groups = attrs.get("groups")
    if any(len(v) != rank for v in filled):
        raise TypeError(f"a clause does not have one entry for each of {rank} spatial axes")
    return *filled, 1 if groups is None else groups


def _spatial(n: Any, w: int, stride: int, pad: tuple[int, int], left: int, right: int) -> Any:
    """(base extent, number of windows) of one spatial axis."""
    base = (n - 1) * left + 1 + pad[0] + pad[1]
    return base, _fits(base, (w - 1) * right + 1, stride)


def _convolve_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x, kernel = (tensor(v) for v in operands)
    if x.rank != kernel.rank or x.rank < 3 or x.dtype is not kernel.dtype or x.dtype.kind not in "iufc":
        raise TypeError(f"convolution of {x} with the kernel {kernel}")
    strides, padding, left, right, groups = _convolution(x.rank - 2, attrs)
    if min(*strides, *left, *right) < 1 or any(min(p) < 0 or len(p) != 2 for p in padding):
        raise TypeError("strides and dilations are at least 1, paddings not negative")
    out, inner, *window = kernel.shape
    if None in kernel.shape or x.shape[1] is None:
        raise TypeError("the extents of the kernel and the number of channels must be known")
    assert out is not None and x.shape[1] is not None
    if not 1 <= groups <= out or x.shape[1] // groups != inner:
        raise TypeError(f"{groups} groups of {inner} channels do not fit {x.shape[1]} channels and {out} kernels")
    spatial = [
        None if n is None else _spatial(n, w, *rest)[1]  # type: ignore[arg-type]
        for n, w, *rest in zip(x.shape[2:], window, strides, padding, left, right, strict=True)
    ]
    return TensorType((x.shape[0], out // groups * groups, *spatial), x.dtype)


def _convolve(x: Any, kernel: Any, **attrs: Any) -> Any:
    x, kernel = np.asarray(x), np.asarray(kernel)
    rank = x.ndim - 2
    strides, padding, left, right, groups = _convolution(rank, attrs)
    pairs = [_spatial(*a) for a in zip(x.shape[2:], kernel.shape[2:], strides, padding, left, right, strict=True)]
    base = np.zeros((*x.shape[:2], *(b for b, _ in pairs)), x.dtype)
    if x.size:
        base[(..., *(slice(p[0], p[0] + (n - 1) * d + 1, d) for p, n, d in zip(padding, x.shape[2:], left, strict=True)))] = x
    inner, each = kernel.shape[1], kernel.shape[0] // groups
    out = np.zeros((x.shape[0], each * groups, *(o for _, o in pairs)), x.dtype)
    if not out.size:
        return out
    for w in np.ndindex(*kernel.shape[2:]):
        part = base[(..., *(slice(k * r, k * r + (o - 1) * s + 1, s) for k, r, s, (_, o) in zip(w, right, strides, pairs, strict=True)))]
        for g in range(groups):
            weights = kernel[(slice(g * each, (g + 1) * each), slice(None), *w)]
            # (each, inner) · (N, inner, o...) → (N, each, o...)
            out[:, g * each : (g + 1) * each] += np.moveaxis(np.tensordot(weights, part[:, g * inner : (g + 1) * inner], (1, 1)), 0, 1)
    return out


class _Gathered:
    """The operands of a convolution as matrices, one pair a group, and the way back: im2col and col2im."""

    def __init__(self, x: Any, kernel: Any, attrs: dict[str, Any]) -> None:
        self.x, self.kernel = x, kernel
        self.rank = x.type.rank - 2
        self.strides, padding, left, self.right, self.groups = _convolution(self.rank, attrs)
        self.n = sizes(x)
        out, self.inner, *self.window = sizes(kernel)
        self.each = out // self.groups
        pairs = [_spatial(*a) for a in zip(self.n[2:], self.window, self.strides, padding, left, self.right, strict=True)]
        self.wide, self.count = [b for b, _ in pairs], [o for _, o in pairs]
        self.place = indices(*self.n[:2], *self.wide, 0, 0, *(p[0] for p in padding), 1, 1, *left)
        self.is_padded = any(map(sum, padding)) or max(left) > 1
        self.base = embed(x, 0.0, *self.place) if self.is_padded else x

    def channels(self, group: int) -> Any:
        """The input of a group, which is the base itself where there is one group of all channels."""
        if self.inner == self.n[1]:
            return self.base
        first = [0, group * self.inner, *[0] * self.rank]
        return section(self.base, *indices(*first, *self._group_extents(), *[1] * (self.rank + 2)))

    def _group_extents(self) -> list[Any]:
        return [self.n[0], self.inner, *self.wide]

    def _window_operands(self) -> list[Any]:
        ones = [1] * self.rank
        size, count = [1, 1, *self.window], [self.n[0], self.inner, *self.count]
        return indices(*size, *count, 1, 1, *self.strides, 1, 1, *self.right) if ones else []

    # axes of the windows without the first two: (w..., N, I, o...); of the matrix: (I, w..., N, o...)
    def _order(self) -> tuple[int, ...]:
        r = self.rank
        return (r + 1, *range(r), r, *range(r + 2, 2 * r + 2))

    def columns(self, group: int) -> Any:
        """The windows of a group as a matrix: (inner · window, N · count)."""
        found = windows(self.channels(group), *self._window_operands())
        found = transpose(squeezeShape(squeezeShape(found, at=0), at=0), axes=self._order())
        return shapeCast(found, *indices(self.inner * math.prod(self.window), _product(self.n[0], *self.count)))

    def from_columns(self, matrix: Any) -> Any:
        """The transpose of `columns`: the adjoint of the input of a group."""
        found = shapeCast(matrix, *indices(self.inner, *self.window, self.n[0], *self.count))
        found = transpose(found, axes=tuple(int(k) for k in np.argsort(self._order())))
        found = padShape(padShape(found, at=0), at=0)
        steps = self._window_operands()[2 * (self.rank + 2) :]
        return overlapAdd(found, *indices(*self._group_extents()), *steps)

    def weights(self, group: int) -> Any:
        """The kernels of a group as a matrix: (each, inner · window)."""
        found = self.kernel
        if self.groups > 1:
            extents = [self.each, self.inner, *self.window]
            found = section(found, *indices(group * self.each, *[0] * (self.rank + 1), *extents, *[1] * (self.rank + 2)))
        return shapeCast(found, *indices(self.each, self.inner * math.prod(self.window)))

    def result(self, rows: list[Any]) -> Any:
        """The results of the groups, (each, N · count), as (N, out, count...)."""
        joined = concatenate(*rows, at=0) if len(rows) > 1 else rows[0]
        found = shapeCast(joined, *indices(self.each * self.groups, self.n[0], *self.count))
        return transpose(found, axes=(1, 0, *range(2, self.rank + 2)))

    def rows(self, seed: Any) -> list[Any]:
        """The transpose of `result`."""
        r = self.rank
        turned = transpose(seed, axes=(1, 0, *range(2, r + 2)))
        total = _product(self.n[0], *self.count)
        matrix = shapeCast(turned, *indices(self.each * self.groups, total))
        if self.groups == 1:
            return [matrix]
        return [section(matrix, *indices(g * self.each, 0, self.each, total, 1, 1)) for g in range(self.groups)]

    def input_adjoint(self, parts: list[Any]) -> Any:
        """The adjoint of x from those of the inputs of the groups; channels of no group get 0."""
        joined = concatenate(*parts, at=1) if len(parts) > 1 else parts[0]
        used = self.inner * self.groups
        if used < self.n[1]:
            zeros = [0] * (self.rank + 2)
            joined = embed(joined, 0.0, *indices(*self.n[:2], *self.wide, *zeros, *[1] * len(zeros)))
        if not self.is_padded:
            return joined
        start = self.rank + 2
        return section(joined, *self.place[start : 2 * start], *indices(*self.n), *self.place[2 * start :])

    def kernel_adjoint(self, parts: list[Any]) -> Any:
        """The adjoint of the kernel from those of the groups' matrices; kernels of no group get 0."""
        joined = concatenate(*parts, at=0) if len(parts) > 1 else parts[0]
        n = sizes(self.kernel)
        found = shapeCast(joined, *indices(self.each * self.groups, *n[1:]))
        if self.each * self.groups == n[0]:
            return found
        return embed(found, 0.0, *indices(*n, *[0] * len(n), *[1] * len(n)))


def _product(*numbers: Any) -> Any:
    total = 1
    for n in numbers:
        total = total * n if isinstance(total, int) else n * total if isinstance(n, int) else total * n
    return total


def expand_convolve(x: Any, kernel: Any, **attrs: Any) -> Any:
    """convolve as products of matrices."""
    g = _Gathered(x, kernel, attrs)
    return g.result([dot(g.weights(k), g.columns(k)) for k in range(g.groups)])


def _convolve_adjoint(seed: Any, y: Any, x: Any, kernel: Any, **attrs: Any) -> Any:
    g = _Gathered(x, kernel, attrs)
    rows = g.rows(seed)
    ours = [g.from_columns(dot(transpose(g.weights(k)), row)) for k, row in enumerate(rows)]
    theirs = [dot(row, transpose(g.columns(k))) for k, row in enumerate(rows)]
    return g.input_adjoint(ours), g.kernel_adjoint(theirs)


# convolve x kernel k ...: x (N, C, d...), k (O, I, w...) → (N, O, o...), a cross-correlation. Left dilation spreads x,
# right dilation the kernel; a group is C / groups channels and O / groups kernels
convolve = Op(
    "convolve",
    Kind.CONTRACTION,
    _convolve_type,
    _convolve,
    attrs=("strides", "padding", "leftDilation", "rightDilation", "groups"),
    adjoint=_convolve_adjoint,
)

# -- scan --------------------------------------------------------------------------------------------


def _scan_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t, by = tensor(operands[0]), attrs["by"]
    if by not in COMBINERS or (by in ("and", "or")) != (t.dtype.kind == "b"):
        raise TypeError(f"no scan by {by} of {t.dtype}")
    checked_axes(t, attrs["axes"])
    return t


def _scan(x: Any, by: str, axes: Sequence[int]) -> Any:
    x = np.asarray(x)
    for axis in axes:
        x = COMBINERS[by].accumulate(x, axis=axis, dtype=x.dtype)
    return x


def _scan_adjoint(seed: Any, y: Any, x: Any, by: str, axes: Sequence[int]) -> Any:
    if by != "add":
        raise NotImplementedError(f"the derivative of a scan by {by}")
    return (reverse(scan(reverse(seed, axes=axes), by="add", axes=axes), axes=axes),)


# scan x by (add|...) along axes: every element combined with those before it, along one axis after the other
scan: Op = Op(
    "scan",
    Kind.REDUCTION,
    _scan_type,
    _scan,
    attrs=("by", "axes"),
    adjoint=_scan_adjoint,
    numpy_name="cumsum, cumprod, maximum.accumulate",
)

WINDOW = (windows, overlapAdd, reduceWindow, convolve, scan)
