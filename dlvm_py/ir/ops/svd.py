"""Singular values and vectors, packed by rows; the values alone; the pseudoinverse, which is made of them.

    svd a to (1 + m + n, k)     the singular values in descending order, below them U and V (not Vᴴ) as columns;
                                k = min(m, n)
    svd a to ... full           square U and V: k is max(m, n), with zeros where a part has fewer columns
    svdvals a to (k)            the values alone, as LAPACK finds them without vectors
    pinv a, rcond               V (1 / s) Uᴴ without the singular values up to rcond max(s)

Derivatives of a = U S Vᴴ: with N = Uᴴ da V, X and Y its Hermitian and skew parts, E[i, j] = 1 / (s[j] - s[i]) and
H[i, j] = 1 / (s[j] + s[i]): ds = diag(N), dU = U (E ∘ X + H ∘ Y) + (1 - U Uᴴ) da V / s, dV likewise with -Y. The phase
of complex vectors is LAPACK's: the first element of each column of V is real, where m < n of U. A singular value of 0
gets the derivative 0, as |x| does. Values that count as equal, or as 0 where it matters: as ops/eigen.py says.

The pseudoinverse has the derivative at constant rank, which is that of the function if what is left out is 0; where it
is not to within the error of a singular value decomposition, the derivative is NaN.

Sources: Townsend, "Differentiating the singular value decomposition" (2016); Golub and Pereyra, "The differentiation of
pseudo-inverses and nonlinear least squares problems whose variables separate" (1973).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import TRAP, Kind, Op
from dlvm_py.ir.ops.arrange import indices, sizes
from dlvm_py.ir.ops.elementwise import (
    conjugate_of,
    equal,
    greaterThan,
    imaginaryPart,
    lessThanOrEqual,
    logical_and,
    logical_not,
    logical_or,
    select,
    sign,
)
from dlvm_py.ir.ops.matrices import (
    adjoint_of,
    as_packed,
    column,
    decompose,
    diagonal_of,
    exceeds,
    first_row,
    in_dtype,
    in_real,
    is_first_row,
    larger,
    matrix,
    nan_where,
    on_diagonal,
    packed,
    part,
    places_of,
    product,
    real_of,
    row,
    smaller,
    stacked,
    times,
    turned,
)
from dlvm_py.ir.ops.reduce import dot, reduce
from dlvm_py.ir.ops.rules import tensor
from dlvm_py.ir.ops.vectors import (
    differences,
    infinite_unless_zero,
    inverse,
    over,
    phase_seed,
    phase_tangent,
    sizes_of_sum,
    tolerance,
    total,
)
from dlvm_py.ir.types import TensorType, Type, scalar
from dlvm_py.ir.value import Literal, Value

# -- svd ---------------------------------------------------------------------------------------------


def _extents(of: list[Any], attrs: dict[str, Any]) -> list[Any]:
    return [of[0] + of[1] + 1, larger(*of) if attrs.get("full") else smaller(*of)]


def _svd_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return packed(_extents, "svd", operands[1:], attrs, matrix(operands[0], "svd"))


def _svd(a: Any, *to: Any, full: bool = False) -> Any:
    left, values, right = np.linalg.svd(a, full_matrices=full)
    m, n = a.shape
    found = np.zeros_like(a, shape=_extents([m, n], {"full": full}))
    found[0, : values.size] = values
    found[1 : m + 1, : left.shape[1]] = left
    found[m + 1 :, : right.shape[0]] = right.conj().T
    return as_packed(found, to)


class _Parts:
    """What the rules use of a packed result: the values, U, V, and which values count as equal or 0."""

    def __init__(self, y: Any, a: Any) -> None:
        self.m, self.n = sizes(a)
        self.k = smaller(self.m, self.n)
        self.dtype = a.type.dtype
        self.values = real_of(first_row(y, self.k))
        self.left, self.right = self.vectors(y)
        self.limit = tolerance(self.values, larger(self.m, self.n))
        self.zero = lessThanOrEqual(self.values, self.limit)
        # values that are 0 exactly do not move
        self.moves = sign(self.values)

    def vectors(self, packed_: Any) -> tuple[Any, Any]:
        """U and V, or what stands in their places."""
        return part(packed_, (1, 0), (self.m, self.k)), part(packed_, (self.m + 1, 0), (self.n, self.k))

    def require_square(self, b: Any) -> None:
        """For square matrices nothing completes U or V that the values would not determine."""
        message = "np.linalg.svd: full_matrices=True has a derivative only for square matrices, not for {} x {}"
        same = logical_not(exceeds(b, larger(self.m, self.n), self.k))
        shown = (v if isinstance(v, Literal) else v.value for v in indices(self.m, self.n))
        b.emit("check", same.value, *shown, exception="ValueError", message=message)

    def inverses(self) -> tuple[Any, Any, Any]:
        """(1 / (s[j] - s[i]), 1 / (s[j] + s[i]), near): 0 on the diagonal and where the values are near."""
        d, near = differences(self.values, self.limit)
        none = logical_or(near, equal(*places_of(d)))
        together = row(self.values) + column(self.values)
        return inverse(d, none), inverse(together, none), near

    def outside(self, x: Any, base: Any, rows: Any) -> Any:
        """(1 - base baseᴴ) x, over the values: 0 where base is square."""
        rest = over(x - product(base, adjoint_of(base), x), row(self.values), row(self.zero))
        return select(rest, 0.0, exceeds(x.builder, rows, self.k))

    def real_places(self) -> tuple[Any, Any]:
        """Where the elements of U and of V stand that are real by convention."""
        wide = exceeds(self.left.builder, self.n, self.m)
        first = [equal(places_of(x)[0], 0) for x in (self.left, self.right)]
        return logical_and(first[0], wide), logical_and(first[1], logical_not(wide))


def _svd_adjoint(seed: Any, y: Any, a: Any, *to: Any, full: bool = False) -> Any:
    s, none = _Parts(y, a), [None] * len(to)
    of_values = real_of(first_row(seed, s.k)) * s.moves
    back = adjoint_of(s.right)
    if is_first_row(seed):
        return dot(s.left * row(in_dtype(of_values, s.dtype)), back), *none
    if full:
        s.require_square(seed.builder)
    of_left, of_right = s.vectors(seed)
    if s.dtype.is_complex:
        of_left, of_right = _with_phases(s, of_left, of_right)
    g, h = dot(adjoint_of(s.left), of_left), dot(adjoint_of(s.right), of_right)
    skew, other = g - adjoint_of(g), h - adjoint_of(h)
    apart, together, near = s.inverses()
    inner = times(0.5 * (skew + other), apart) + times(0.5 * (skew - other), together)
    asked = infinite_unless_zero(g) + infinite_unless_zero(h)
    asked = asked + in_dtype(column(infinite_unless_zero(of_values)), s.dtype)
    inner = select(asked, inner, near) + on_diagonal(in_dtype(of_values, s.dtype), g)
    if s.dtype.is_complex:
        inner = inner + on_diagonal(turned(over(imaginaryPart(diagonal_of(g)), s.values, s.zero)), g)
    found = product(s.left, inner, back) + dot(s.outside(of_left, s.left, s.m), back)
    return found + dot(s.left, adjoint_of(s.outside(of_right, s.right, s.n))), *none


def _with_phases(s: _Parts, of_left: Any, of_right: Any) -> tuple[Any, Any]:
    """The seeds of U and V with what they get for the phase that a pair of vectors has together."""
    turn = total(imaginaryPart(conjugate_of(s.left) * of_left))
    turn = turn + total(imaginaryPart(conjugate_of(s.right) * of_right))
    scale = sizes_of_sum(s.left, of_left) + sizes_of_sum(s.right, of_right)
    in_left, in_right = s.real_places()
    of_left = of_left + phase_seed(s.left, in_left, turn, scale)
    return of_left, of_right + phase_seed(s.right, in_right, turn, scale)


def _svd_tangent(t: Any, y: Any, a: Any, *to: Any, full: bool = False) -> Any:
    s = _Parts(y, a)
    if full:
        s.require_square(y.builder)
    through = dot(t[0], s.right)
    moved = dot(adjoint_of(s.left), through)
    even, odd = 0.5 * (moved + adjoint_of(moved)), 0.5 * (moved - adjoint_of(moved))
    apart, together, near = s.inverses()
    equals = select(infinite_unless_zero(even) + infinite_unless_zero(odd), times(even, apart), near)
    others = times(odd, together)
    turning = equals + others
    if s.dtype.is_complex:
        turning = turning + on_diagonal(turned(over(imaginaryPart(diagonal_of(moved)), s.values, s.zero)), moved)
    of_left = dot(s.left, turning) + s.outside(through, s.left, s.m)
    of_right = dot(s.right, equals - others) + s.outside(dot(adjoint_of(t[0]), s.left), s.right, s.n)
    if s.dtype.is_complex:
        in_left, in_right = s.real_places()
        by = phase_tangent(s.left, in_left, of_left) + phase_tangent(s.right, in_right, of_right)
        of_left, of_right = of_left + by * s.left, of_right + by * s.right
    of_values = in_dtype(real_of(diagonal_of(moved)) * s.moves, s.dtype)
    rows, columns = _extents([s.m, s.n], {"full": full})
    return stacked(rows, columns, (0, row(of_values)), (1, of_left), (s.m + 1, of_right))


# svd a to (1 + m + n, columns) [full]: the singular values, below them U and V
svd: Op = Op(
    "svd",
    Kind.CONTRACTION,
    _svd_type,
    _svd,
    attrs=("full",),
    effects=frozenset({TRAP}),
    adjoint=_svd_adjoint,
    tangent=_svd_tangent,
    numpy_name="linalg.svd",
    properties={"extents": _extents},
)

# -- svdvals -----------------------------------------------------------------------------------------


def _svdvals_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return in_real(packed(_alone_extents, "svdvals", operands[1:], attrs, matrix(operands[0], "svdvals")))


def _alone_extents(of: list[Any], attrs: dict[str, Any]) -> list[Any]:
    return [smaller(*of)]


def moved_by_values(seed: Any, a: Any) -> Any:
    """What a matrix gets from a seed of its singular values."""
    s = _Parts(decompose(svd, a), a)
    return dot(s.left * row(in_dtype(seed * s.moves, s.dtype)), adjoint_of(s.right))


def values_tangent(t: Any, a: Any) -> Any:
    """The tangent of the singular values."""
    s = _Parts(decompose(svd, a), a)
    return real_of(total(conjugate_of(s.left) * dot(t, s.right))) * s.moves


# svdvals a to (k): the singular values alone, real
svdvals: Op = Op(
    "svdvals",
    Kind.CONTRACTION,
    _svdvals_type,
    lambda a, *to: as_packed(np.linalg.svd(a, compute_uv=False), to),
    effects=frozenset({TRAP}),
    adjoint=lambda seed, y, a, *to: (moved_by_values(seed, a), *(None for _ in to)),
    tangent=lambda t, y, a, *to: values_tangent(t[0], a),
    numpy_name="linalg.svdvals",
    properties={"extents": _alone_extents},
)

# -- pinv --------------------------------------------------------------------------------------------


def _pinv_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t, cutoff = matrix(operands[0], "pinv"), tensor(operands[1])
    if cutoff != scalar(t.dtype.real):
        raise TypeError(f"pinv of {t}: the cutoff is a real scalar of the same precision, not {cutoff}")
    return TensorType(t.shape[::-1], t.dtype)


def expand_pinv(a: Any, rcond: Any) -> Any:
    """The composition that the op is."""
    s = _Parts(decompose(svd, a), a)
    most = reduce(s.values, 0.0, by="max", axes=(0,))
    left_out = lessThanOrEqual(s.values, rcond * most)
    return dot(s.right * row(in_dtype(inverse(s.values, left_out), s.dtype)), adjoint_of(s.left))


def unless_truncated(a: Any, rcond: Any) -> Any:
    """0, or NaN where what the cutoff leaves out is not 0 to within the error of the singular values."""
    values = decompose(svdvals, a)
    most = reduce(values, 0.0, by="max", axes=(0,))
    left_out = select(values, 0.0, lessThanOrEqual(values, rcond * most))
    largest = reduce(left_out, 0.0, by="max", axes=(0,))
    bad = greaterThan(largest, tolerance(values, larger(*sizes(a))))
    return in_dtype(nan_where(bad, values.type.dtype), a.type.dtype)


def _pinv_adjoint(seed: Any, y: Any, a: Any, rcond: Any) -> Any:
    back, turned_seed = adjoint_of(y), adjoint_of(seed)
    rows_left = turned_seed - product(a, y, turned_seed)
    columns_left = turned_seed - product(turned_seed, y, a)
    found = product(rows_left, y, back) + product(back, y, columns_left) - product(back, seed, back)
    return found + unless_truncated(a, rcond), None


def _pinv_tangent(t: Any, y: Any, a: Any, rcond: Any) -> Any:
    moved, back = adjoint_of(t[0]), adjoint_of(y)
    first = product(y, back, moved)
    last = product(moved, back, y)
    found = first - product(first, a, y) + last - product(y, a, last) - product(y, t[0], y)
    return found + unless_truncated(a, rcond)


# pinv a, rcond: the pseudoinverse without the singular values up to rcond times the largest
pinv: Op = Op(
    "pinv",
    Kind.CONTRACTION,
    _pinv_type,
    lambda a, rcond: np.linalg.pinv(a, rcond),
    effects=frozenset({TRAP}),
    adjoint=_pinv_adjoint,
    tangent=_pinv_tangent,
    numpy_name="linalg.pinv",
)

SINGULAR = (svd, svdvals, pinv)
