"""What the rules of linear algebra share: type rules of matrices, triangles, diagonals, and arrays packed from several.

A factorisation has several results and an op has one, so results are packed by rows into one matrix (ops/eigen.py,
ops/svd.py and ops/least_squares.py say how). The extents of what is packed are operands, as those of a broadcast are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import Op
from dlvm_py.ir.ops.arrange import indices, sizes
from dlvm_py.ir.ops.elementwise import (
    conjugate_of,
    dataTypeCast,
    equal,
    greaterThan,
    makeComplex,
    maximum,
    minimum,
    multiply,
    realPart,
    select,
)
from dlvm_py.ir.ops.reduce import dot, reduce
from dlvm_py.ir.ops.rules import static_extent, tensor
from dlvm_py.ir.ops.shape import embed, indices_are_i64, padShape, section, squeezeShape, transpose
from dlvm_py.ir.types import BOOL, DType, TensorType, dtype_of, scalar
from dlvm_py.ir.value import Instruction, Literal, Value

FACTORED = ("f32", "f64", "c64", "c128")

# -- type rules --------------------------------------------------------------------------------------


def matrix(value: Value, what: str) -> TensorType:
    """The type of a matrix of floats or complex numbers; TypeError for anything else."""
    t = tensor(value)
    if t.rank != 2 or t.dtype.name not in FACTORED:
        raise TypeError(f"{what} of {t}: it needs a matrix of f32, f64, c64 or c128")
    return t


def square(value: Value, what: str) -> TensorType:
    """The type of a square matrix; TypeError for anything else."""
    t = matrix(value, what)
    if None not in t.shape and t.shape[0] != t.shape[1]:
        raise TypeError(f"{what} of {t}: the matrix is not square")
    return t


Extents = Callable[..., list[Any]]  # (the extents of the matrices, attrs) -> those of the packed result


def packed(extents: Extents, what: str, to: Sequence[Value], attrs: dict[str, Any], *of: TensorType) -> TensorType:
    """The type of what is packed from matrices, with the extents `to`: where the types know them, the right ones."""
    indices_are_i64(to)
    sizes_ = [n or 0 for t in of for n in t.shape]
    wanted = extents(sizes_, attrs)
    if len(to) != len(wanted):
        raise TypeError(f"{what} of {of[0]}: the result has {len(wanted)} extents, not {len(to)}")
    shape = tuple(static_extent(n) for n in to)
    known = all(None not in t.shape for t in of)
    for have, want in zip(shape, wanted, strict=True):
        if known and have is not None and have != want:
            raise TypeError(f"{what} of {of[0]}: an extent of the result is {want}, not {have}")
    return TensorType(shape, of[0].dtype)


def in_real(t: TensorType) -> TensorType:
    """The type with the dtype of the real part."""
    return t.with_dtype(t.dtype.real)


def in_complex(t: TensorType) -> TensorType:
    """The type with the dtype of complex numbers of the same precision."""
    found = dtype_of(np.result_type(t.dtype.numpy, np.complex64))
    assert found is not None
    return t.with_dtype(found)


def as_packed(found: Any, to: Sequence[Any]) -> Any:
    """A packed value, which must have the extents `to`."""
    if found.shape != tuple(int(n) for n in to):
        raise ValueError(f"the packed result has the extents {found.shape}, not {tuple(int(n) for n in to)}")
    return found


def decompose(op: Op, *operands: Any, **attrs: Any) -> Any:
    """A decomposition of Exprs, with the extents that its row declares."""
    of = [n for x in operands if x.type.rank for n in sizes(x)]
    return op(*operands, *indices(*op.properties["extents"](of, attrs)), **attrs)


# -- extents -----------------------------------------------------------------------------------------


def smaller(m: Any, n: Any) -> Any:
    """min(m, n) of ints and Exprs."""
    return min(m, n) if isinstance(m, int) and isinstance(n, int) else minimum(m, n)


def larger(m: Any, n: Any) -> Any:
    """max(m, n) of ints and Exprs."""
    return max(m, n) if isinstance(m, int) and isinstance(n, int) else maximum(m, n)


def exceeds(b: Any, m: Any, n: Any) -> Any:
    """m > n of ints and Exprs, as an Expr."""
    return b.expr(Literal(scalar(BOOL), m > n)) if isinstance(m, int) and isinstance(n, int) else greaterThan(m, n)


def nan_where(flag: Any, dtype: DType) -> Any:
    """NaN where a flag holds, else 0, in a real dtype."""
    nan, zero = (Literal(scalar(dtype), x) for x in (math.nan, 0.0))
    return select(nan, zero, flag)


def as_number(n: Any, dtype: DType) -> Any:
    """An extent as a float, for arithmetic with Exprs of `dtype`."""
    return float(n) if isinstance(n, int) else dataTypeCast(n, to=dtype.name)


# -- matrices ----------------------------------------------------------------------------------------


def adjoint_of(x: Any) -> Any:
    """The conjugate transpose."""
    return transpose(conjugate_of(x))


def places_of(x: Any) -> tuple[Any, Any]:
    """Row and column numbers of a matrix, as a matrix of one column and one of one row."""
    b = x.builder
    counts = (n if isinstance(n, Value) else n.value for n in indices(*sizes(x)))
    rows, columns = (b.expr(b.emit("iota", n)) for n in counts)
    return padShape(rows, at=1), padShape(columns, at=0)


def weighted(x: Any, below: float, diagonal: float) -> Any:
    """The lower triangle of x times `below`, its diagonal times `diagonal`, zeros above."""
    rows, columns = places_of(x)
    inside = select(x * below, 0.0, greaterThan(rows, columns))
    return select(x * diagonal, inside, equal(rows, columns))


def identity_like(x: Any) -> Any:
    """The identity of the extents and the dtype of x."""
    return dataTypeCast(equal(*places_of(x)), to=x.type.dtype.name)


def diagonal_of(x: Any) -> Any:
    """The diagonal of a square matrix as a vector."""
    return reduce(select(x, 0.0, equal(*places_of(x))), 0.0, by="add", axes=(0,))


def on_diagonal(v: Any, like: Any) -> Any:
    """The matrix of the extents of `like` with the vector v on its diagonal."""
    return select(row(v), 0.0, equal(*places_of(like)))


def row(v: Any) -> Any:
    """A vector as a matrix of one row, which elementwise ops stretch downwards."""
    return padShape(v, at=0)


def column(v: Any) -> Any:
    """A vector as a matrix of one column."""
    return padShape(v, at=1)


def product(*factors: Any) -> Any:
    """The matrix product, from the left."""
    found, *rest = factors
    for x in rest:
        found = dot(found, x)
    return found


def part(x: Any, start: tuple[Any, Any], count: tuple[Any, Any]) -> Any:
    """The rows and columns from `start` on."""
    return section(x, *indices(*start, *count, 1, 1))


def first_row(x: Any, count: Any) -> Any:
    """The first elements of the first row, as a vector."""
    return squeezeShape(part(x, (0, 0), (1, count)), at=0)


def stacked(rows: Any, columns: Any, *parts: tuple[Any, Any]) -> Any:
    """The matrix of these extents with the parts, each given with the row that it begins at; zeros elsewhere."""
    found = None
    for at, x in parts:
        placed = embed(x, 0.0, *indices(rows, columns, at, 0, 1, 1))
        found = placed if found is None else found + placed
    return found


def is_first_row(seed: Any) -> bool:
    """Whether a seed is zero by its structure everywhere but in its first row."""
    i = seed.value
    if not isinstance(i, Instruction) or i.op is not embed or i.operands[0].type.shape[0] != 1:  # type: ignore[attr-defined]
        return False
    fill, start = i.operands[1], i.operands[4]
    return all(isinstance(v, Literal) and v.value == 0 for v in (fill, start))


# -- parts of complex numbers ------------------------------------------------------------------------


def real_of(x: Any) -> Any:
    """The real parts; of real numbers themselves."""
    return realPart(x) if x.type.dtype.is_complex else x


def in_dtype(x: Any, dtype: DType) -> Any:
    """Real numbers in a dtype with the same real part, complex or not."""
    return makeComplex(x, 0.0) if dtype.is_complex else x


def turned(x: Any) -> Any:
    """i x, for a real x as a complex number."""
    return makeComplex(0.0, x)


def times(x: Any, y: Any) -> Any:
    """x * y for a real y and any x of the same precision."""
    return multiply(x, in_dtype(y, x.type.dtype))
