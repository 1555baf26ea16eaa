"""Linear algebra of one matrix: solve, cholesky, determinant. Derivatives are analytic, made of the same ops.

With x = solve(a, b): w = solve(aᴴ, x̄), b̄ = w, ā = -w xᴴ. With l = cholesky(a), the derivative with respect to the lower
triangle, which is all that is read: s = l⁻ᴴ Φ(lᴴ l̄) l⁻¹, where Φ takes the lower triangle and half of the diagonal, and
ā = Φ(σ) for σ = s + sᴴ. That is an op, choleskyAdjoint, which by blocks takes a fifth of the formula's work, and is
linear in l̄: where z̄ is the seed of ā and h = Φ(z̄) + Φ(z̄)ᴴ, l̄ gets l Φ(q) for q = l⁻¹ h l⁻ᴴ, the tangent of a factor,
and l gets l̄ Φ(q)ᴴ - σ l q. As l moves, σ moves by r + rᴴ, where r is l⁻ᴴ Φ(dlᴴ l̄) l⁻¹ - σ dl l⁻¹.
With t = tr(a⁻¹ da) the determinant moves by det(a) t, its phase by phase · i Im t, the logarithm of its size by Re t.
Sources: Giles, "An extended collection of matrix derivative results" (2008); Murray, "Differentiation of the Cholesky
decomposition" (2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import TRAP, Kind, Op
from dlvm_py.ir.ops.arrange import indices
from dlvm_py.ir.ops.elementwise import conjugate_of, imaginaryPart
from dlvm_py.ir.ops.matrices import adjoint_of, identity_like, in_dtype, product, real_of, square, turned, weighted
from dlvm_py.ir.ops.reduce import dot, reduce
from dlvm_py.ir.ops.rules import tensor
from dlvm_py.ir.ops.shape import embed, padShape, section, transpose
from dlvm_py.ir.types import TensorType, Type
from dlvm_py.ir.value import Value


def _solve_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    a, b = square(operands[0], "solve"), tensor(operands[1])
    if b.rank != 2 or b.dtype is not a.dtype:
        raise TypeError(f"solve of {a} and {b}: the right side is a matrix of the same dtype")
    if None not in (a.shape[0], b.shape[0]) and a.shape[0] != b.shape[0]:
        raise TypeError(f"solve of {a} and {b}: the numbers of rows differ")
    return b


def _solve_adjoint(seed: Any, x: Any, a: Any, b: Any) -> Any:
    w = solve(adjoint_of(a), seed)
    return -dot(w, adjoint_of(x)), w


def _solve_tangent(t: Any, x: Any, a: Any, b: Any) -> Any:
    of_a, of_b = t
    right = of_b
    if of_a is not None:
        through = dot(of_a, x)
        right = -through if of_b is None else of_b - through
    return solve(a, right)


# solve a, b: the x with a x = b, by LU with partial pivoting; LinAlgError where a is singular
solve: Op = Op(
    "solve",
    Kind.CONTRACTION,
    _solve_type,
    lambda a, b: np.linalg.solve(a, b),
    effects=frozenset({TRAP}),
    adjoint=_solve_adjoint,
    tangent=_solve_tangent,
    numpy_name="linalg.solve",
)


def _cholesky_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return square(operands[0], "cholesky")


def _cholesky_adjoint(seed: Any, low: Any, a: Any) -> Any:
    return (choleskyAdjoint(low, seed),)


def _whole(triangle: Any) -> Any:
    """The Hermitian matrix with this lower triangle."""
    half = weighted(triangle, 1.0, 0.5)
    return half + adjoint_of(half)


def _between(low: Any, x: Any) -> Any:
    """l⁻¹ x l⁻ᴴ for a Hermitian x."""
    return solve(low, adjoint_of(solve(low, x)))


def _cholesky_tangent(t: Any, low: Any, a: Any) -> Any:
    return dot(low, weighted(_between(low, _whole(t[0])), 1.0, 0.5))


# cholesky a: the lower triangular l with l lᴴ = a; reads the lower triangle; LinAlgError where it is not definite
cholesky: Op = Op(
    "cholesky",
    Kind.CONTRACTION,
    _cholesky_type,
    lambda a: np.linalg.cholesky(a),
    effects=frozenset({TRAP}),
    adjoint=_cholesky_adjoint,
    tangent=_cholesky_tangent,
    numpy_name="linalg.cholesky",
)


def _cholesky_adjoint_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    low, seed = (square(v, "choleskyAdjoint") for v in operands)
    if seed.dtype is not low.dtype:
        raise TypeError(f"choleskyAdjoint of {low} and {seed}: both have one dtype")
    if None not in (low.shape[0], seed.shape[0]) and low.shape[0] != seed.shape[0]:
        raise TypeError(f"choleskyAdjoint of {low} and {seed}: the numbers of rows differ")
    return low


def _lower(x: Any) -> Any:
    """Φ: the lower triangle with half of its diagonal."""
    return np.tril(x) - np.diag(np.diag(x)) / 2


def _evaluate_cholesky_adjoint(low: Any, seed: Any) -> Any:
    back = np.tril(low).conj().T
    s = np.linalg.solve(back, np.linalg.solve(back, _lower(back @ seed)).conj().T)
    return _lower(s + s.conj().T)


def _over_factor(x: Any, low: Any) -> Any:
    """x l⁻¹."""
    return adjoint_of(solve(adjoint_of(low), adjoint_of(x)))


def _cholesky_adjoint_adjoint(seed: Any, found: Any, low: Any, of_low: Any) -> Any:
    between = _between(low, _whole(seed))
    half = weighted(between, 1.0, 0.5)
    sigma = found + adjoint_of(found)
    return weighted(dot(of_low, adjoint_of(half)) - product(sigma, low, between), 1.0, 1.0), dot(low, half)


def _cholesky_adjoint_tangent(t: Any, found: Any, low: Any, of_low: Any) -> Any:
    moved, of_seed = t
    along = None if of_seed is None else choleskyAdjoint(low, of_seed)
    if moved is None:
        return along
    moved = weighted(moved, 1.0, 1.0)
    through = choleskyAdjoint(low, solve(adjoint_of(low), weighted(dot(adjoint_of(moved), of_low), 1.0, 1.0)))
    r = _over_factor(product(found + adjoint_of(found), moved), low)
    by_low = through - weighted(r + adjoint_of(r), 1.0, 0.5)
    return by_low if along is None else along + by_low


# choleskyAdjoint l, l̄: the adjoint of the lower triangle of a, where l = cholesky(a), from that of l; zeros above. Of
# both it reads the lower triangle
choleskyAdjoint: Op = Op(
    "choleskyAdjoint",
    Kind.CONTRACTION,
    _cholesky_adjoint_type,
    _evaluate_cholesky_adjoint,
    adjoint=_cholesky_adjoint_adjoint,
    tangent=_cholesky_adjoint_tangent,
)


def _determinant_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return TensorType((3,), square(operands[0], "determinant").dtype)


def _determinant(a: Any) -> Any:
    sign, size = np.linalg.slogdet(a)
    return np.stack([np.linalg.det(a), sign, size]).astype(a.dtype)


def _element(x: Any, k: int) -> Any:
    return reduce(section(x, *indices(k, 1, 1)), 0.0, by="add", axes=(0,))


def _inverse_transposed(a: Any) -> Any:
    return solve(transpose(a), identity_like(a))


def _determinant_adjoint(seed: Any, y: Any, a: Any) -> Any:
    dtype = a.type.dtype
    along = _element(seed, 0) * conjugate_of(_element(y, 0)) + in_dtype(real_of(_element(seed, 2)), dtype)
    if dtype.is_complex:  # the phase turns with the imaginary part of the trace
        along = along + turned(imaginaryPart(_element(seed, 1) * conjugate_of(_element(y, 1))))
    return (along * conjugate_of(_inverse_transposed(a)),)


def _determinant_tangent(t: Any, y: Any, a: Any) -> Any:
    dtype = a.type.dtype
    trace = reduce(t[0] * _inverse_transposed(a), 0.0, by="add", axes=(0, 1))
    parts = {0: trace * _element(y, 0), 2: in_dtype(real_of(trace), dtype)}
    if dtype.is_complex:
        parts[1] = turned(imaginaryPart(trace)) * _element(y, 1)
    placed = [embed(padShape(v, at=0), 0.0, *indices(3, k, 1)) for k, v in parts.items()]
    return sum(placed[1:], placed[0])


# determinant a: (det a, sign or phase of it, log |det a|), by LU
determinant: Op = Op(
    "determinant",
    Kind.CONTRACTION,
    _determinant_type,
    _determinant,
    adjoint=_determinant_adjoint,
    tangent=_determinant_tangent,
    numpy_name="linalg.det, linalg.slogdet",
)


def _factorizes_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if attrs["by"] not in FACTORS:
        raise TypeError(f"factorizes by {' or '.join(FACTORS)}, not by {attrs['by']}")
    return TensorType((1,), square(operands[0], "factorizes").dtype)


def _factorizes(a: Any, by: str) -> Any:
    try:
        _ = np.linalg.inv(a) if by == "lu" else np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return np.zeros_like(a, shape=(1,))
    return np.ones_like(a, shape=(1,))


FACTORS = ("lu", "cholesky")
# factorizes a by lu|cholesky: (1) where solve, or cholesky, of a has a result, (0) where it raises
factorizes: Op = Op(
    "factorizes",
    Kind.CONTRACTION,
    _factorizes_type,
    _factorizes,
    attrs=("by",),
    no_derivative="it is 0 or 1",
)

LINEAR_ALGEBRA = (solve, cholesky, choleskyAdjoint, determinant, factorizes)
