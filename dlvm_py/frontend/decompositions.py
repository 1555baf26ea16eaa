"""What the library asks for to decompose one matrix: the op, and its packed result (ir/ops/matrices.py) taken apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm_py.frontend.arrays import temp, tensor_of
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.library import intrinsics
from dlvm_py.frontend.values import Scalar, Sequence, Temp
from dlvm_py.ir import Value


def _plus(e: Emitter, *counts: Value) -> Value:
    found, *rest = counts
    for n in rest:
        found = e.pure("add", found, n)
    return found


def _least(e: Emitter, a: Any) -> Value:
    return e.pure("min", *a.extents)


def _rows(e: Emitter, whole: Value, start: Value, rows: Value, columns: Value) -> Value:
    """The first columns of some rows of a packed result."""
    zero, one = i64(0), i64(1)
    return e.emit("section", whole, start, zero, rows, columns, one, one)


def _matrix(e: Emitter, whole: Value, start: Value, rows: Value, columns: Value) -> Temp:
    return Temp(_rows(e, whole, start, rows, columns), (rows, columns), e.block)


def _values(e: Emitter, whole: Value, count: Value, real: bool) -> Any:
    """The first row, of which NumPy gives the real parts where the numbers are `real`."""
    found = e.emit("squeezeShape", _rows(e, whole, i64(0), i64(1), count), at=0)
    return temp(e, _real(e, found) if real else found, (count,))


def _real(e: Emitter, tensor: Value) -> Value:
    return e.emit("realPart", tensor) if tensor.type.dtype.is_complex else tensor  # type: ignore[attr-defined]


def _transposed(e: Emitter, x: Temp) -> Temp:
    return Temp(e.emit("transpose", x.tensor), x.extents[::-1], e.block)


def _upper(upper: Any) -> dict[str, bool]:
    return {"upper": True} if upper.number else {}


def _pair(e: Emitter, op: str, a: Any, real: bool, **attrs: Any) -> Sequence:
    n = a.extents[0]
    whole = e.emit(op, tensor_of(e, a), _plus(e, n, i64(1)), n, **attrs)
    return Sequence((_values(e, whole, n, real), _matrix(e, whole, i64(1), n, n)))


def _alone(e: Emitter, op: str, a: Any, count: Value, **attrs: Any) -> Any:
    return temp(e, e.emit(op, tensor_of(e, a), count, **attrs), (count,))


def _svd_one(e: Emitter, a: Any, full: Any) -> Sequence:
    (m, n), k = a.extents, _least(e, a)
    columns = e.pure("max", m, n) if full.number else k
    attrs = {"full": True} if full.number else {}
    first = _plus(e, m, i64(1))
    whole = e.emit("svd", tensor_of(e, a), _plus(e, first, n), columns, **attrs)
    left = _matrix(e, whole, i64(1), m, m if full.number else k)
    right = _matrix(e, whole, first, n, n if full.number else k)
    if right.dtype.is_complex:
        right = Temp(e.emit("conjugate", right.tensor), right.extents, e.block)
    return Sequence((left, _values(e, whole, k, True), _transposed(e, right)))


def _qr_one(e: Emitter, a: Any, mode: Any) -> Sequence:
    (m, n), k = a.extents, _least(e, a)
    columns = m if mode.value == "complete" else k
    whole = e.emit("qr", tensor_of(e, a), _plus(e, m, n), columns, mode=mode.value)
    return Sequence((_matrix(e, whole, i64(0), m, columns), _transposed(e, _matrix(e, whole, m, n, columns))))


def _triangle_one(e: Emitter, a: Any) -> Temp:
    n, k = a.extents[1], _least(e, a)
    return _transposed(e, Temp(e.emit("qr", tensor_of(e, a), n, k, mode="r"), (n, k), e.block))


def _pinv_one(e: Emitter, a: Any, rcond: Any) -> Temp:
    return Temp(e.emit("pinv", tensor_of(e, a), rcond.value), a.extents[::-1], e.block)


def _lstsq_one(e: Emitter, a: Any, b: Any, rcond: Any) -> Sequence:
    (n, p), k = (a.extents[1], b.extents[1]), _least(e, a)
    count = e.pure("multiply", n, p)
    behind = _plus(e, count, p)
    whole = e.emit("lstsq", tensor_of(e, a), tensor_of(e, b), rcond.value, _plus(e, behind, i64(1), k))

    def part(start: Value, length: Value) -> Value:
        return e.emit("section", whole, start, length, i64(1))

    x = Temp(e.emit("shapeCast", part(i64(0), count), n, p), (n, p), e.block)
    squares = temp(e, _real(e, part(count, p)), (p,))
    rank = e.emit("squeezeShape", _real(e, part(behind, i64(1))), at=0)
    values = temp(e, _real(e, part(_plus(e, behind, i64(1)), k)), (k,))
    return Sequence((x, squares, Scalar(rank, weak=False), values))


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    intrinsics.eigh_one: lambda e, a, upper: _pair(e, "eigh", a, True, **_upper(upper)),
    intrinsics.eigvalsh_one: lambda e, a, upper: _alone(e, "eigvalsh", a, a.extents[0], **_upper(upper)),
    intrinsics.eig_one: lambda e, a: _pair(e, "eig", a, False),
    intrinsics.eigvals_one: lambda e, a: _alone(e, "eigvals", a, a.extents[0]),
    intrinsics.svd_one: _svd_one,
    intrinsics.svdvals_one: lambda e, a: _alone(e, "svdvals", a, _least(e, a)),
    intrinsics.qr_one: _qr_one,
    intrinsics.triangle_one: _triangle_one,
    intrinsics.pinv_one: _pinv_one,
    intrinsics.lstsq_one: _lstsq_one,
}
