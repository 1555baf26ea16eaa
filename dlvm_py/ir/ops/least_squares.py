"""The QR factorisation, and the solution of least squares.

    qr a to (m + n, k)          Q and below it Rᵀ, k = min(m, n); `complete`: k = m
    qr a to (n, k) r            Rᵀ alone
    lstsq a, b, rcond to (c)    one vector, parts one behind the other: the solution (n x p), the sums of squares of
                                what remains (p; NaN unless m > n and the rank is n), the rank, the singular values

With N = Qᴴ da R⁻¹ and T its upper triangle plus the conjugate transpose of what is below the diagonal (T's diagonal is
real, as R's is): dR = T R, dQ = da R⁻¹ - Q T. Where m < n this holds for the first m columns X; of the others, Y, R has
V = Qᴴ Y. A solution x = a⁺ b has the derivative of the pseudoinverse (at constant rank, as ops/svd.py says).

Sources: Walter and Lehmann, "On evaluating higher-order derivatives of the QR decomposition of tall matrices with full
column rank in forward and reverse mode algorithmic differentiation" (2012); Golub and Pereyra (1973).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import TRAP, Kind, Op
from dlvm_py.ir.ops.arrange import indices, sizes
from dlvm_py.ir.ops.elementwise import conjugate_of, lessThan, logical_not, select
from dlvm_py.ir.ops.linear import solve
from dlvm_py.ir.ops.matrices import (
    adjoint_of,
    as_packed,
    decompose,
    diagonal_of,
    exceeds,
    in_dtype,
    matrix,
    on_diagonal,
    packed,
    part,
    places_of,
    product,
    real_of,
    row,
    smaller,
    stacked,
)
from dlvm_py.ir.ops.reduce import dot
from dlvm_py.ir.ops.rules import tensor
from dlvm_py.ir.ops.shape import embed, section, shapeCast, transpose
from dlvm_py.ir.ops.svd import moved_by_values, pinv, unless_truncated, values_tangent
from dlvm_py.ir.ops.vectors import total
from dlvm_py.ir.types import Type, scalar
from dlvm_py.ir.value import Literal, Value

MODES = ("reduced", "complete", "r")

# -- qr ----------------------------------------------------------------------------------------------


def _qr_extents(of: list[Any], attrs: dict[str, Any]) -> list[Any]:
    m, n = of
    columns = m if attrs["mode"] == "complete" else smaller(m, n)
    return [n if attrs["mode"] == "r" else m + n, columns]


def _qr_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t = matrix(operands[0], "qr")
    if attrs["mode"] not in MODES:
        raise TypeError(f"qr of {t}: no mode {attrs['mode']}")
    return packed(_qr_extents, "qr", operands[1:], attrs, t)


def _qr(a: Any, *to: Any, mode: Any) -> Any:
    found: Any = np.linalg.qr(a, mode)
    if mode == "r":
        return as_packed(found.T, to)
    q, r = found
    return as_packed(np.concatenate([q, r.T]), to)


class _Factors:
    """What the rules use: Q, the square part U of R, and the rest V; the columns of `a` likewise."""

    def __init__(self, y: Any, a: Any, mode: str) -> None:
        self.m, self.n = sizes(a)
        self.k = smaller(self.m, self.n)
        self.rest = self.n - self.k
        if mode == "complete":
            message = "np.linalg.qr: mode='complete' has no derivative for more rows than columns ({} x {})"
            shown = (v if isinstance(v, Literal) else v.value for v in indices(self.m, self.n))
            flag = logical_not(exceeds(a.builder, self.m, self.n))
            a.builder.emit("check", flag.value, *shown, exception="ValueError", message=message)
        if mode == "r":
            y = decompose(qr, a, mode="reduced")
        self.q = part(y, (0, 0), (self.m, self.k))
        self.u = self.upper(part(y, (self.m, 0), (self.n, self.k)))[0]

    def upper(self, transposed: Any) -> tuple[Any, Any]:
        """U and V of a packed R."""
        r = transpose(transposed)
        return part(r, (0, 0), (self.k, self.k)), part(r, (0, self.k), (self.k, self.rest))

    def columns(self, a: Any) -> tuple[Any, Any]:
        """X and Y of a matrix."""
        return part(a, (0, 0), (self.m, self.k)), part(a, (0, self.k), (self.m, self.rest))

    def over_u(self, x: Any) -> Any:
        """x U⁻¹."""
        return adjoint_of(solve(adjoint_of(self.u), adjoint_of(x)))


def _above(x: Any) -> Any:
    """What is above the diagonal."""
    rows, columns = places_of(x)
    return select(x, 0.0, lessThan(rows, columns))


def _real_diagonal(x: Any) -> Any:
    return on_diagonal(in_dtype(real_of(diagonal_of(x)), x.type.dtype), x)


def _qr_adjoint(seed: Any, y: Any, a: Any, *to: Any, mode: str) -> Any:
    f = _Factors(y, a, mode)
    of_u, of_v = f.upper(seed if mode == "r" else part(seed, (f.m, 0), (f.n, f.k)))
    others = f.columns(a)[1]
    of_q = dot(others, adjoint_of(of_v))
    if mode != "r":
        of_q = of_q + part(seed, (0, 0), (f.m, f.k))
    w = dot(of_u, adjoint_of(f.u)) - dot(adjoint_of(f.q), of_q)
    above = _above(w)
    inner = of_q + dot(f.q, above + adjoint_of(above) + _real_diagonal(w))
    of_x = adjoint_of(solve(f.u, adjoint_of(inner)))
    found = embed(of_x, 0.0, *indices(f.m, f.n, 0, 0, 1, 1))
    return found + embed(dot(f.q, of_v), 0.0, *indices(f.m, f.n, 0, f.k, 1, 1)), *(None for _ in to)


def _qr_tangent(t: Any, y: Any, a: Any, *to: Any, mode: str) -> Any:
    f = _Factors(y, a, mode)
    of_x, of_y = f.columns(t[0])
    through = f.over_u(of_x)
    n = dot(adjoint_of(f.q), through)
    below = n - _above(n) - on_diagonal(diagonal_of(n), n)
    change = _above(n) + adjoint_of(below) + _real_diagonal(n)
    of_q = through - dot(f.q, change)
    of_u = dot(change, f.u)
    of_v = dot(adjoint_of(of_q), f.columns(a)[1]) + dot(adjoint_of(f.q), of_y)
    rows, columns = _qr_extents([f.m, f.n], {"mode": mode})
    first = 0 if mode == "r" else f.m
    parts = [(first, transpose(of_u)), (first + f.k, transpose(of_v))]
    return stacked(rows, columns, *parts) if mode == "r" else stacked(rows, columns, (0, of_q), *parts)


# qr a to (rows, columns) mode (reduced|complete|r): Q, and below it the transpose of R
qr: Op = Op(
    "qr",
    Kind.CONTRACTION,
    _qr_type,
    _qr,
    attrs=("mode",),
    effects=frozenset({TRAP}),
    adjoint=_qr_adjoint,
    tangent=_qr_tangent,
    numpy_name="linalg.qr",
    properties={"extents": _qr_extents},
)

# -- lstsq -------------------------------------------------------------------------------------------


def _lstsq_extents(of: list[Any], attrs: dict[str, Any]) -> list[Any]:
    m, n, _, p = of
    return [n * p + p + 1 + smaller(m, n)]


def _lstsq_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    a, b, rcond, *to = operands
    t, right = matrix(a, "lstsq"), tensor(b)
    if right.rank != 2 or right.dtype is not t.dtype:
        raise TypeError(f"lstsq of {t} and {right}: the right side is a matrix of the same dtype")
    if None not in (t.shape[0], right.shape[0]) and t.shape[0] != right.shape[0]:
        raise TypeError(f"lstsq of {t} and {right}: the numbers of rows differ")
    if rcond.type != scalar(t.dtype.real):
        raise TypeError(f"lstsq of {t}: the cutoff is a real scalar of the same precision, not {rcond.type}")
    return packed(_lstsq_extents, "lstsq", to, attrs, t, right)


def _lstsq(a: Any, b: Any, rcond: Any, *to: Any) -> Any:
    x, remains, rank, values = np.linalg.lstsq(a, b, rcond)
    if not remains.size:
        remains = np.full_like(values, np.nan, shape=b.shape[1])
    ranks = np.full_like(values, rank, shape=1)
    return as_packed(np.concatenate([np.ravel(x), remains, ranks, values]).astype(a.dtype), to)


class _Solution:
    """What the rules use: the solution, what remains, the pseudoinverse; `split` takes a packed vector apart."""

    def __init__(self, y: Any, a: Any, b: Any, rcond: Any) -> None:
        (self.m, self.n), self.p = sizes(a), sizes(b)[1]
        self.k = smaller(self.m, self.n)
        self.x = self.split(y)[0]
        self.remains = b - dot(a, self.x)
        eps = float(np.finfo(rcond.type.dtype.numpy).eps)
        cutoff = select(rcond, eps, logical_not(lessThan(rcond, 0.0)))
        self.inverse = pinv(a, cutoff)
        self.defect = unless_truncated(a, cutoff)

    def split(self, packed_: Any) -> tuple[Any, Any, Any]:
        """The solution, the sums of squares, the singular values, or what stands in their places."""
        count = self.n * self.p
        x = section(packed_, *indices(0, count, 1))
        squares = section(packed_, *indices(count, self.p, 1))
        values = section(packed_, *indices(count + self.p + 1, self.k, 1))
        return shapeCast(x, *indices(self.n, self.p)), squares, values


def _lstsq_adjoint(seed: Any, y: Any, a: Any, b: Any, rcond: Any, *to: Any) -> Any:
    s = _Solution(y, a, b, rcond)
    of_x, of_squares, of_values = s.split(seed)
    back = adjoint_of(s.inverse)
    w = dot(back, of_x)
    twice = s.remains * row(in_dtype(2.0 * real_of(of_squares), seed.type.dtype))
    of_b = w + twice
    free = of_x - product(s.inverse, a, of_x)
    of_a = dot(s.remains, adjoint_of(dot(s.inverse, w))) + product(back, s.x, adjoint_of(free))
    of_a = of_a - dot(of_b, adjoint_of(s.x)) + moved_by_values(real_of(of_values), a) + s.defect
    return of_a, of_b, None, *(None for _ in to)


def _lstsq_tangent(t: Any, y: Any, a: Any, b: Any, rcond: Any, *to: Any) -> Any:
    s = _Solution(y, a, b, rcond)
    of_a, of_b, *_ = t
    right = of_b
    if of_a is not None:
        through = dot(of_a, s.x)
        right = -through if of_b is None else of_b - through
    moved = dot(s.inverse, right)
    squares = in_dtype(2.0 * real_of(total(conjugate_of(s.remains) * right)), y.type.dtype)
    count = s.n * s.p
    (length,) = sizes(y)
    if of_a is not None:
        back, turned_a = adjoint_of(s.inverse), adjoint_of(of_a)
        free = product(turned_a, back, s.x)
        moved = moved + product(s.inverse, back, dot(turned_a, s.remains)) + free - product(s.inverse, a, free)
        moved = moved + s.defect
    found = embed(shapeCast(moved, *indices(count)), 0.0, *indices(length, 0, 1))
    found = found + embed(squares, 0.0, *indices(length, count, 1))
    if of_a is None:
        return found
    values = in_dtype(values_tangent(of_a, a), y.type.dtype)
    return found + embed(values, 0.0, *indices(length, count + s.p + 1, 1))


# lstsq a, b, rcond to (count): the x of least norm that makes |a x - b| least, and what NumPy gives with it
lstsq: Op = Op(
    "lstsq",
    Kind.CONTRACTION,
    _lstsq_type,
    _lstsq,
    effects=frozenset({TRAP}),
    adjoint=_lstsq_adjoint,
    tangent=_lstsq_tangent,
    numpy_name="linalg.lstsq",
    properties={"extents": _lstsq_extents},
)

LEAST_SQUARES = (qr, lstsq)
