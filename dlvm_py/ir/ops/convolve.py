"""Convolution: the kernel, as a matrix, times the windows of the padded and dilated input, as a matrix (im2col).

    columns[(i, w...), (n, o...)] = base[n, i, o · stride + w · spread]        base: input, dilated and padded
    rows[o', (n, o...)] = Σ kernel[o', (i, w...)] columns[(i, w...), (n, o...)]

`expand_convolve` is this composition on Exprs, by which lower_shape replaces the op. Its adjoint goes the same way
back: kernel_adj = rows_adj · columnsᵀ, columns_adj = kernelᵀ · rows_adj, summed where windows overlap (col2im).
`evaluate` says independently what it must give. Semantics: XLA's convolution, as DLVM has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import MULTILINEAR, Kind, Op
from dlvm_py.ir.ops.arrange import concatenate, indices, sizes
from dlvm_py.ir.ops.elementwise import conjugate_of
from dlvm_py.ir.ops.reduce import dot
from dlvm_py.ir.ops.rules import tensor
from dlvm_py.ir.ops.shape import embed, padShape, section, shapeCast, squeezeShape, transpose
from dlvm_py.ir.ops.window import fits, overlapAdd, windows
from dlvm_py.ir.types import TensorType, Type
from dlvm_py.ir.value import Value


def _convolution(rank: int, attrs: dict[str, Any]) -> tuple[Any, ...]:
    """(strides, padding, left dilation, right dilation, groups) with DLVM's defaults."""
    ones = (1,) * rank
    filled = [
        attrs.get(a) or d
        for a, d in (("strides", ones), ("padding", ((0, 0),) * rank), ("leftDilation", ones), ("rightDilation", ones))
    ]
    groups = attrs.get("groups")
    if any(len(v) != rank for v in filled):
        raise TypeError(f"a clause does not have one entry for each of {rank} spatial axes")
    return *filled, 1 if groups is None else groups


def _spatial(n: Any, w: int, stride: int, pad: tuple[int, int], left: int, right: int) -> Any:
    """(base extent, number of windows) of one spatial axis."""
    base = (n - 1) * left + 1 + pad[0] + pad[1]
    return base, fits(base, (w - 1) * right + 1, stride)


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
        None if n is None else _spatial(n, w, *rest)[1]
        for n, w, *rest in zip(x.shape[2:], window, strides, padding, left, right, strict=True)
    ]
    return TensorType((x.shape[0], out // groups * groups, *spatial), x.dtype)


def _each(starts: Sequence[int], counts: Sequence[int], steps: Sequence[int]) -> tuple[Any, ...]:
    """The index of so many places of every spatial axis."""
    spatial = (slice(a, a + (n - 1) * t + 1, t) for a, n, t in zip(starts, counts, steps, strict=True))
    return (..., *spatial)


def _convolve(x: Any, kernel: Any, **attrs: Any) -> Any:
    x, kernel = np.asarray(x), np.asarray(kernel)
    strides, padding, left, right, groups = _convolution(x.ndim - 2, attrs)
    pairs = [_spatial(*a) for a in zip(x.shape[2:], kernel.shape[2:], strides, padding, left, right, strict=True)]
    count = [o for _, o in pairs]
    base = np.zeros((*x.shape[:2], *(n for n, _ in pairs)), x.dtype)
    if x.size:
        base[_each([p[0] for p in padding], x.shape[2:], left)] = x
    inner, each = kernel.shape[1], kernel.shape[0] // groups
    out = np.zeros((x.shape[0], each * groups, *count), x.dtype)
    for w in np.ndindex(*kernel.shape[2:]) if out.size else ():
        part = base[_each([k * r for k, r in zip(w, right, strict=True)], count, strides)]
        for g in range(groups):
            ours, theirs = slice(g * each, (g + 1) * each), slice(g * inner, (g + 1) * inner)
            # (each, inner) · (N, inner, o...) → (each, N, o...)
            product = np.tensordot(kernel[(ours, slice(None), *w)], part[:, theirs], (1, 1))
            out[:, ours] += np.moveaxis(product, 0, 1)
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
        pairs = [
            _spatial(*a) for a in zip(self.n[2:], self.window, self.strides, padding, left, self.right, strict=True)
        ]
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
        size, count = [1, 1, *self.window], [self.n[0], self.inner, *self.count]
        return indices(*size, *count, 1, 1, *self.strides, 1, 1, *self.right)

    # axes of the windows without the first two: (w..., N, I, o...); of the matrix: (I, w..., N, o...)
    def _order(self) -> tuple[int, ...]:
        r = self.rank
        return (r + 1, *range(r), r, *range(r + 2, 2 * r + 2))

    def columns(self, group: int) -> Any:
        """The windows of a group as a matrix: (inner · window, N · count)."""
        found = windows(self.channels(group), *self._window_operands())
        found = transpose(squeezeShape(squeezeShape(found, at=0), at=0), axes=self._order())
        return shapeCast(found, *indices(self.inner * math.prod(self.window), math.prod((self.n[0], *self.count))))

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
            found = section(
                found, *indices(group * self.each, *[0] * (self.rank + 1), *extents, *[1] * (self.rank + 2))
            )
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
        total = math.prod((self.n[0], *self.count))
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


def expand_convolve(x: Any, kernel: Any, **attrs: Any) -> Any:
    """convolve as products of matrices."""
    g = _Gathered(x, kernel, attrs)
    return g.result([dot(g.weights(k), g.columns(k)) for k in range(g.groups)])


def _convolve_adjoint(seed: Any, y: Any, x: Any, kernel: Any, **attrs: Any) -> Any:
    g = _Gathered(x, kernel, attrs)
    rows = g.rows(seed)
    ours = [g.from_columns(dot(conjugate_of(transpose(g.weights(k))), row)) for k, row in enumerate(rows)]
    theirs = [dot(row, conjugate_of(transpose(g.columns(k)))) for k, row in enumerate(rows)]
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
    tangent=MULTILINEAR,
)

CONVOLVE = (convolve,)
