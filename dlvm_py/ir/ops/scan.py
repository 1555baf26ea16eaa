"""Prefix scans, and the linear recurrence that their adjoints are made of.

Along one axis a scan is yᵢ = f(yᵢ₋₁, xᵢ). With ȳ the seed, the adjoints of y follow rᵢ = ȳᵢ + rᵢ₊₁ ∂yᵢ₊₁/∂yᵢ, a
recurrence from the back, and x̄ᵢ = rᵢ ∂yᵢ/∂xᵢ. No division: zeros in a product are no special case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import Kind, Op
from dlvm_py.ir.ops.arrange import checked_axes, indices, reverse, sizes
from dlvm_py.ir.ops.combiners import COMBINERS, identity_of
from dlvm_py.ir.ops.elementwise import conjugate_of, dataTypeCast, equal, greaterThan, lessThan, maximum
from dlvm_py.ir.ops.rules import tensor
from dlvm_py.ir.ops.shape import embed, section
from dlvm_py.ir.types import TensorType, Type
from dlvm_py.ir.value import Value


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
    if by == "add":
        return (reverse(scan(reverse(seed, axes=axes), by="add", axes=axes), axes=axes),)
    steps = [x]
    for axis in axes:
        steps.append(scan(steps[-1], by=by, axes=(axis,)))
    for axis, before, after in zip(reversed(axes), steps[-2::-1], steps[:0:-1], strict=True):
        seed = _scan_step_adjoint(seed, after, before, by, axis)
    return (seed,)


def _scan_tangent(t: Any, y: Any, x: Any, by: str, axes: Sequence[int]) -> Any:
    (found,) = t
    if by == "add":
        return scan(found, by="add", axes=axes)
    for axis in axes:
        following = scan(x, by=by, axes=(axis,))
        of_last, of_x = _scan_step_partials(following, x, by, axis)
        found, x = recurrence(of_last, of_x * found, axis=axis), following
    return found


def _scan_step_adjoint(seed: Any, y: Any, x: Any, by: str, axis: int) -> Any:
    """The adjoint of x along one axis: ∂yᵢ/∂xᵢ times what a recurrence with ∂yᵢ₊₁/∂yᵢ gives."""
    of_last, of_x = _scan_step_partials(y, x, by, axis)
    return conjugate_of(of_x) * _backward(of_last, seed, axis)


def _scan_step_partials(y: Any, x: Any, by: str, axis: int) -> tuple[Any, Any]:
    """∂yᵢ/∂yᵢ₋₁ and ∂yᵢ/∂xᵢ of a scan along one axis."""
    last = _shifted(y, identity_of(by, x.type.dtype), axis)
    if by == "multiply":
        return x, last
    # a tie gives each of the two one half, as everywhere
    wins = greaterThan if by == "max" else lessThan
    half = 0.5 * _number(equal(last, x), x)
    return _number(wins(last, x), x) + half, _number(wins(x, last), x) + half


def _number(flag: Any, like: Any) -> Any:
    return dataTypeCast(flag, to=like.type.dtype.name)


def _shifted(x: Any, first: Any, axis: int) -> Any:
    """xᵢ₋₁ along an axis, `first` before the first."""
    n = sizes(x)
    kept = list(n)
    kept[axis] = max(n[axis] - 1, 0) if isinstance(n[axis], int) else maximum(n[axis] - 1, 0)
    zeros, ones = [0] * len(n), [1] * len(n)
    place = [int(k == axis) for k in range(len(n))]
    return embed(section(x, *indices(*zeros, *kept, *ones)), first, *indices(*n, *place, *ones))


def _backward(a: Any, seed: Any, axis: int) -> Any:
    """The r with rᵢ = seedᵢ + conj(aᵢ₊₁) rᵢ₊₁."""
    turned = _shifted(reverse(conjugate_of(a), axes=(axis,)), 0.0, axis)
    return reverse(recurrence(turned, reverse(seed, axes=(axis,)), axis=axis), axes=(axis,))


def products_of_others(x: Any, axis: int) -> Any:
    """The product of all other elements along an axis, for each element."""

    def before(x: Any) -> Any:
        return _shifted(scan(x, by="multiply", axes=(axis,)), 1.0, axis)

    return before(x) * reverse(before(reverse(x, axes=(axis,))), axes=(axis,))


# scan x by (add|...) along axes: every element combined with those before it, along one axis after the other
scan: Op = Op(
    "scan",
    Kind.REDUCTION,
    _scan_type,
    _scan,
    attrs=("by", "axes"),
    adjoint=_scan_adjoint,
    tangent=_scan_tangent,
    numpy_name="cumsum, cumprod, maximum.accumulate",
)


def _recurrence_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    a, b = (tensor(v) for v in operands)
    if a.dtype is not b.dtype or a.dtype.kind == "b" or a.rank != b.rank:
        raise TypeError(f"a recurrence of {a} and {b}")
    checked_axes(a, (attrs["axis"],))
    for n, m in zip(a.shape, b.shape, strict=True):
        if None not in (n, m) and n != m:
            raise TypeError(f"extents {n} and {m} of a recurrence differ")
    return TensorType(tuple(m if n is None else n for n, m in zip(a.shape, b.shape, strict=True)), a.dtype)


def _recurrence(a: Any, b: Any, axis: int) -> Any:
    a, y = np.moveaxis(a, axis, 0), np.moveaxis(np.array(b), axis, 0)
    for k in range(1, len(y)):
        y[k] += a[k] * y[k - 1]
    return np.moveaxis(y, 0, axis)


def _recurrence_adjoint(seed: Any, y: Any, a: Any, b: Any, axis: int) -> Any:
    back = _backward(a, seed, axis)
    return back * conjugate_of(_shifted(y, 0.0, axis)), back


def _recurrence_tangent(t: Any, y: Any, a: Any, b: Any, axis: int) -> Any:
    of_a, of_b = t
    if of_a is not None:
        through = of_a * _shifted(y, 0.0, axis)
        of_b = through if of_b is None else through + of_b
    return recurrence(a, of_b, axis=axis)


# recurrence a, b along axis: yᵢ = aᵢ yᵢ₋₁ + bᵢ, and y₀ = b₀. What the adjoints of scans are made of
recurrence: Op = Op(
    "recurrence",
    Kind.REDUCTION,
    _recurrence_type,
    _recurrence,
    attrs=("axis",),
    adjoint=_recurrence_adjoint,
    tangent=_recurrence_tangent,
)

SCAN = (scan, recurrence)
