"""Index ops (views when applied to a pointer), extent and iota.

An index op moves elements without computing. On a tensor value it gives a tensor value; on a pointer
it gives a pointer into the same memory: a NumPy view. Rules are stated in index terms, never in
strides, so that the same op applied to the adjoint buffer of the viewed memory gives the adjoint's view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import LINEAR, Kind, Op
from dlvm_py.ir.ops.rules import is_constant, pointer, static_extent, tensor
from dlvm_py.ir.types import I64, PointerType, TensorType, Type, scalar
from dlvm_py.ir.value import Literal, Value


def _shaped(value: Value) -> TensorType:
    if isinstance(value.type, PointerType):
        return value.type.pointee
    return tensor(value)


def _rebuild(value: Value, shape: tuple[int | None, ...], layout: str) -> Type:
    new = TensorType(shape, _shaped(value).dtype)
    if isinstance(value.type, PointerType):
        return PointerType(new, "C" if not shape else layout)
    return new


def _layout(value: Value) -> str:
    return value.type.layout if isinstance(value.type, PointerType) else "C"


def indices_are_i64(operands: Sequence[Value]) -> None:
    """TypeError unless all operands are i64 scalars."""
    for v in operands:
        if v.type != scalar(I64):
            raise TypeError(f"an index or extent must be i64, not {v.type}")


# -- transpose -------------------------------------------------------------------------------------


def _permutation(attrs: dict[str, Any], rank: int) -> tuple[int, ...]:
    axes = attrs.get("axes")
    return tuple(range(rank))[::-1] if axes is None else tuple(axes)


def _transpose_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    (x,) = operands
    shape = _shaped(x).shape
    perm = _permutation(attrs, len(shape))
    if sorted(perm) != list(range(len(shape))):
        raise TypeError(f"axes {perm} are no permutation of {len(shape)} axes")
    layout = _layout(x)
    if perm == tuple(range(len(shape))):
        new = layout
    elif perm == tuple(range(len(shape)))[::-1]:
        new = {"C": "F", "F": "C", "S": "S"}[layout]
    else:
        new = "S"
    return _rebuild(x, tuple(shape[p] for p in perm), new)


def _inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argsort(perm))


# axes: a permutation, result axis i is operand axis axes[i]; without it all axes are reversed
transpose: Op = Op(
    "transpose",
    Kind.INDEX,
    _transpose_type,
    lambda x, axes=None: np.transpose(x, axes),
    attrs=("axes",),
    adjoint=lambda seed, y, x, axes=None: (transpose(seed, axes=None if axes is None else _inverse(axes)),),
    tangent=LINEAR,
    numpy_name="transpose",
)

# -- padShape, squeezeShape ------------------------------------------------------------------------


def _pad_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    (x,) = operands
    shape, at = _shaped(x).shape, attrs["at"]
    if not 0 <= at <= len(shape):
        raise TypeError(f"axis {at} is out of range for rank {len(shape)}")
    layout = _layout(x)
    return _rebuild(x, (*shape[:at], 1, *shape[at:]), layout)


def _squeeze_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    (x,) = operands
    shape, at = _shaped(x).shape, attrs["at"]
    if not 0 <= at < len(shape):
        raise TypeError(f"axis {at} is out of range for rank {len(shape)}")
    if shape[at] != 1:
        raise TypeError(f"axis {at} has extent {shape[at] or '_'}, not 1")
    new = (*shape[:at], *shape[at + 1 :])
    layout = _layout(x)
    return _rebuild(x, new, "C" if layout == "F" and len(new) < 2 else layout)


padShape = Op(
    "padShape",
    Kind.INDEX,
    _pad_type,
    lambda x, at: np.expand_dims(x, at),
    attrs=("at",),
    adjoint=lambda seed, y, x, at: (squeezeShape(seed, at=at),),
    tangent=LINEAR,
)
squeezeShape: Op = Op(
    "squeezeShape",
    Kind.INDEX,
    _squeeze_type,
    lambda x, at: np.squeeze(x, at),
    attrs=("at",),
    adjoint=lambda seed, y, x, at: (padShape(seed, at=at),),
    tangent=LINEAR,
)

# -- shapeCast -------------------------------------------------------------------------------------


def _shape_cast_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x, *extents = operands
    indices_are_i64(extents)
    if _layout(x) != "C":
        raise TypeError("shapeCast of a pointer needs a C-contiguous one")
    return _rebuild(x, tuple(static_extent(n) for n in extents), "C")


# shapeCast x to (n0, n1, ...): same elements in C order; the number of elements must not change
shapeCast: Op = Op(
    "shapeCast",
    Kind.INDEX,
    _shape_cast_type,
    lambda x, *extents: np.reshape(x, tuple(int(n) for n in extents)),
    adjoint=lambda seed, y, x, *extents: (shapeCast(seed, *extents_of(x)), *(None for _ in extents)),
    tangent=LINEAR,
    numpy_name="reshape",
)


def extents_of(x: Any) -> list[Any]:
    """The extents of an Expr as rule operands: literals where the type states them."""
    shape = _shaped(x.value).shape
    builder = x.builder
    return [
        builder.expr(builder.emit(extent, x.value, at=k)) if n is None else Literal(scalar(I64), n)
        for k, n in enumerate(shape)
    ]


def _values(operands: Sequence[Any]) -> list[Value]:
    """Operands of a rule as values."""
    return [v if isinstance(v, Value) else v.value for v in operands]


# -- section, pointerCast --------------------------------------------------------------------------


def _section_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    p = _shaped(operands[0])
    rank = p.rank
    if len(operands) != 1 + 3 * rank or not rank:
        raise TypeError(f"section of rank {rank} needs {3 * rank} indices, has {len(operands) - 1}")
    indices_are_i64(operands[1:])
    starts, counts, steps = (operands[1 + k * rank : 1 + (k + 1) * rank] for k in range(3))
    if not isinstance(operands[0].type, PointerType):
        return TensorType(tuple(static_extent(n) for n in counts), p.dtype)
    given = operands[0].type.layout
    # C-contiguity survives when every axis but the first is taken whole, in steps of one
    whole = [
        static_extent(s) == 0 and static_extent(t) == 1 and _is_whole(operands[0], k, n)
        for k, (s, n, t) in enumerate(zip(starts, counts, steps, strict=True))
    ]
    contiguous = given == "C" and static_extent(steps[0]) == 1 and all(whole[1:])
    if all(whole):
        layout = given
    else:
        layout = "C" if contiguous else "S"
    return PointerType(TensorType(tuple(static_extent(n) for n in counts), p.dtype), layout)


def _is_whole(base: Value, axis: int, count: Value) -> bool:
    known = base.type.shape[axis]  # type: ignore[attr-defined]
    if known is not None:
        return static_extent(count) == known
    op = getattr(count, "op", None)
    return op is extent and count.operands[0] is base and count.attrs["at"] == axis  # type: ignore[attr-defined]


def _section(x: Any, *indices: Any) -> Any:
    rank = np.ndim(x)
    return x[_slices(*(indices[k * rank : (k + 1) * rank] for k in range(3)))]


def _slices(starts: Sequence[Any], counts: Sequence[Any], steps: Sequence[Any]) -> tuple[slice, ...]:
    return tuple(_slice(int(s), int(n), int(t)) for s, n, t in zip(starts, counts, steps, strict=True))


def _slice(start: int, count: int, step: int) -> slice:
    if count == 0:
        return slice(0, 0)
    stop = start + count * step
    return slice(start, None if stop < 0 else stop, step)


# section p at (start...) count (n...) step (t...): NumPy's basic slicing of every axis, already clipped;
# all indices in range, counts not negative. Of a pointer it is a view.
section: Op = Op(
    "section",
    Kind.INDEX,
    _section_type,
    _section,
    adjoint=lambda seed, y, x, *indices: (
        embed(seed, 0.0, *extents_of(x), *indices[: x.type.rank], *indices[2 * x.type.rank :]),
        *(None for _ in indices),
    ),
    tangent=LINEAR,
)


def _embed_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x, fill, *indices = operands
    t = tensor(x)
    if len(indices) != 3 * t.rank or not t.rank:
        raise TypeError(f"embed of rank {t.rank} needs {3 * t.rank} indices, has {len(indices)}")
    indices_are_i64(indices)
    result = TensorType(tuple(static_extent(n) for n in indices[: t.rank]), t.dtype)
    if fill.type not in (scalar(t.dtype), result):
        raise TypeError(f"the fill must be a {t.dtype} scalar or a {result}, not {fill.type}")
    return result


def _embed(x: Any, fill: Any, *indices: Any) -> Any:
    rank = np.ndim(x)
    found = np.full(tuple(int(n) for n in indices[:rank]), fill, np.asarray(x).dtype)
    found[_slices(indices[rank : 2 * rank], np.shape(x), indices[2 * rank :])] = x
    return found


def _embed_adjoint(seed: Any, y: Any, x: Any, fill: Any, *indices: Any) -> Any:
    rank, none = x.type.rank, [None] * len(indices)
    back = section(seed, *indices[rank : 2 * rank], *extents_of(x), *indices[2 * rank :])
    if is_constant(fill):
        return back, None, *none
    # the fill stands wherever x does not
    b, dtype = seed.builder, seed.type.dtype
    zero = Literal(scalar(dtype), 0j if dtype.is_complex else 0.0)
    hole = b.expr(b.emit("broadcast", zero, *_values(extents_of(x))))
    if fill.type.shape:
        return back, embed(hole, seed, *indices), *none
    rest = seed * embed(hole, 1.0, *indices)
    total = b.emit("reduce", rest.value, zero, by="add", axes=tuple(range(rank)))
    return back, b.expr(total), *none


# embed x in fill to (n...) at (start...) step (t...): the array of these extents whose section is x, and which is fill
# everywhere else, a scalar or the elements of an array of these extents. With fill 0 the transpose of section
embed: Op = Op("embed", Kind.GENERATE, _embed_type, _embed, adjoint=_embed_adjoint, tangent=LINEAR, numpy_name="pad")


def _pointer_cast_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    p, to = pointer(operands[0]), attrs["to"]
    if not isinstance(to, PointerType) or to.rank != p.rank or to.dtype is not p.dtype:
        raise TypeError(f"{p} cannot be seen as {to}")
    for a, b in zip(p.shape, to.shape, strict=True):
        if b is not None and a != b:
            raise TypeError(f"{p} cannot be seen as {to}: extents may only be forgotten")
    if to.layout not in (p.layout, "S"):
        raise TypeError(f"{p} cannot be seen as {to}: the layout may only be forgotten")
    return to


# the same view with less said of it in the type: unknown extents, strided layout (for joins)
pointerCast = Op(
    "pointerCast",
    Kind.INDEX,
    _pointer_cast_type,
    lambda x, to: x,
    attrs=("to",),
    no_derivative="a cast pointer is a view: its adjoint is the same cast of the adjoint buffer",
)


def _part_view_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    p = pointer(operands[0])
    if not p.dtype.is_complex or attrs["at"] not in (0, 1):
        raise TypeError(f"{p} has no part {attrs['at']}")
    return PointerType(p.pointee.with_dtype(p.dtype.real), "S" if p.rank else "C")


# partView p at (0|1): the real or the imaginary parts of complex elements, a view of real ones. The adjoint of a
# complex element has the derivatives by the two parts as its parts, so that the same view is the adjoint's
partView = Op(
    "partView",
    Kind.INDEX,
    _part_view_type,
    lambda x, at: x.imag if at else x.real,
    attrs=("at",),
    no_derivative="the parts of a complex array are views: their adjoints are the same views of the adjoint buffer",
    numpy_name="real, imag",
)


def _diagonal_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    p, numbers = pointer(operands[0]), operands[1:]
    indices_are_i64(numbers)
    if p.rank < 2 or len(numbers) != 3:
        raise TypeError(f"a diagonal of {p} with {len(numbers)} numbers")
    return PointerType(TensorType((*p.shape[:-2], static_extent(numbers[2])), p.dtype), "S")


def _diagonal(x: Any, row: Any, column: Any, count: Any) -> Any:
    rows, columns = (slice(int(k), int(k) + int(count)) for k in (row, column))
    return np.einsum("...ii->...i", x[..., rows, columns])


# diagonal p at row, column count n: y[..., k] = x[..., row + k, column + k], in range; the last two axes become one
diagonal = Op(
    "diagonal",
    Kind.INDEX,
    _diagonal_type,
    _diagonal,
    no_derivative="a diagonal is a view: its adjoint is the same diagonal of the adjoint buffer",
    numpy_name="diagonal",
)

# -- extent, iota -----------------------------------------------------------------------


def _extent_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if not 0 <= attrs["at"] < _shaped(operands[0]).rank:
        raise TypeError(f"axis {attrs['at']} is out of range")
    return scalar(I64)


extent = Op(
    "extent",
    Kind.GENERATE,
    _extent_type,
    lambda x, at: np.int64(np.shape(x)[at]),
    attrs=("at",),
    no_derivative="an extent is an integer",
    numpy_name="shape",
)


def _iota_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    indices_are_i64(operands)
    return TensorType((static_extent(operands[0]),), I64)


# iota n: 0, 1, ..., n - 1 as i64
iota = Op("iota", Kind.GENERATE, _iota_type, lambda n: np.arange(int(n)), no_derivative="integer-valued")

SHAPE = (transpose, padShape, squeezeShape, shapeCast, section, embed, pointerCast, partView, diagonal, extent, iota)
