"""Eigenvalues and eigenvectors, packed by rows, as ops have one result.

    eigh a to (n + 1, n)    the eigenvalues in ascending order, below them the eigenvectors as columns
    eig a to (n + 1, n)     of any square matrix, in no order
    eigvalsh, eigvals       the values alone, as LAPACK finds them without vectors

The results of eig and eigvals are complex, also where the matrix and all that is found are real. Those of a real matrix
come in pairs of conjugates (LAPACK works in real numbers), and its derivative is the real part of the complex one.

Derivatives: with N = V⁻¹ dA V and F[i, j] = 1 / (w[j] - w[i]), dw = diag(N), dV = V (F ∘ N). Eigenvectors have norm 1
and LAPACK's phase: it makes one element of each real (eigh: the first, or the last if the upper triangle is read; eig:
the largest), and so does the derivative. What eigh reads of the matrix, one triangle, is what gets the derivative.

Where two values count as equal (to within 16 n ε max |w|) their vectors are not determined, nor is their derivative: it
is NaN or infinite, unless the seeds of both the values and the vectors are exactly 0. Where of the packed result only
the values are used, which is seen by the structure of the seed, the vectors do not matter.

Source: Giles, "An extended collection of matrix derivative results" (2008).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import TRAP, Kind, Op
from dlvm_py.ir.ops.arrange import sizes
from dlvm_py.ir.ops.elementwise import (
    conjugate_of,
    dataTypeCast,
    equal,
    greaterThan,
    imaginaryPart,
    lessThanOrEqual,
    logical_and,
    makeComplex,
    realPart,
    select,
)
from dlvm_py.ir.ops.linear import solve
from dlvm_py.ir.ops.matrices import (
    adjoint_of,
    as_packed,
    column,
    decompose,
    diagonal_of,
    first_row,
    identity_like,
    in_complex,
    in_dtype,
    in_real,
    is_first_row,
    nan_where,
    on_diagonal,
    packed,
    part,
    places_of,
    product,
    real_of,
    row,
    square,
    stacked,
    times,
    weighted,
)
from dlvm_py.ir.ops.reduce import dot, reduce
from dlvm_py.ir.ops.vectors import (
    differences,
    infinite_unless_zero,
    inverse_differences,
    modulus,
    phase_seed,
    phase_tangent,
    shared,
    sizes_of_sum,
    tolerance,
    total,
)
from dlvm_py.ir.types import Type
from dlvm_py.ir.value import Value

# -- eigh, eigvalsh ----------------------------------------------------------------------------------


def _eigh_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return packed(_pair_extents, "eigh", operands[1:], attrs, square(operands[0], "eigh"))


def _pair_extents(of: list[Any], attrs: dict[str, Any]) -> list[Any]:
    return [of[0] + 1, of[0]]


def _alone_extents(of: list[Any], attrs: dict[str, Any]) -> list[Any]:
    return [of[0]]


def _triangle(upper: bool) -> Any:
    return "U" if upper else "L"


def _eigh(a: Any, *to: Any, upper: bool = False) -> Any:
    values, vectors = np.linalg.eigh(a, _triangle(upper))
    return as_packed(np.concatenate([values[None].astype(vectors.dtype), vectors]), to)


def _split(y: Any) -> tuple[Any, Any]:
    """Values and vectors of eigh or eig."""
    n = sizes(y)[1]
    return first_row(y, n), part(y, (1, 0), (n, n))


def _onto_triangle(s: Any, upper: bool) -> Any:
    """The derivative by what is read of a Hermitian matrix, from that by all of it."""
    whole = s + adjoint_of(s)
    return adjoint_of(weighted(adjoint_of(whole), 1.0, 0.5)) if upper else weighted(whole, 1.0, 0.5)


def _from_triangle(t: Any, upper: bool) -> Any:
    """The tangent of a Hermitian matrix, from that of what is read of it."""
    half = weighted(adjoint_of(t) if upper else t, 1.0, 0.5)
    return half + adjoint_of(half)


def _real_row(vectors: Any, last: bool) -> Any:
    """Where the elements of eigenvectors stand that are real by convention: in the first row, or in the last."""
    rows, _ = places_of(vectors)
    return equal(rows, sizes(vectors)[0] - 1 if last else 0)


def _eigh_adjoint(seed: Any, y: Any, a: Any, *to: Any, upper: bool = False) -> Any:
    values, vectors = _split(y)
    n = sizes(a)[0]
    of_values = real_of(first_row(seed, n))
    inner = on_diagonal(in_dtype(of_values, y.type.dtype), vectors)
    if not is_first_row(seed):
        of_vectors = part(seed, (1, 0), (n, n))
        if y.type.dtype.is_complex:
            turn = total(imaginaryPart(conjugate_of(vectors) * of_vectors))
            scale = sizes_of_sum(vectors, of_vectors)
            of_vectors = of_vectors + phase_seed(vectors, _real_row(vectors, upper), turn, scale)
        d, near = differences(real_of(values), tolerance(real_of(values), n))
        inner = inner + shared(dot(adjoint_of(vectors), of_vectors), d, near, column(of_values))
    whole = product(vectors, inner, adjoint_of(vectors))
    return _onto_triangle(whole, upper), *(None for _ in to)


def _eigh_tangent(t: Any, y: Any, a: Any, *to: Any, upper: bool = False) -> Any:
    values, vectors = _split(y)
    n = sizes(a)[0]
    moved = product(adjoint_of(vectors), _from_triangle(t[0], upper), vectors)
    d, near = differences(real_of(values), tolerance(real_of(values), n))
    inner = select(infinite_unless_zero(moved), times(moved, inverse_differences(d, near)), near)
    of_vectors = dot(vectors, inner)
    if y.type.dtype.is_complex:
        of_vectors = of_vectors + phase_tangent(vectors, _real_row(vectors, upper), of_vectors) * vectors
    of_values = in_dtype(real_of(diagonal_of(moved)), y.type.dtype)
    return stacked(n + 1, n, (0, row(of_values)), (1, of_vectors))


# eigh a to (n + 1, n) [upper]: eigenvalues and, below them, eigenvectors of the Hermitian matrix whose lower (or upper)
# triangle is that of a
eigh: Op = Op(
    "eigh",
    Kind.CONTRACTION,
    _eigh_type,
    _eigh,
    attrs=("upper",),
    effects=frozenset({TRAP}),
    adjoint=_eigh_adjoint,
    tangent=_eigh_tangent,
    numpy_name="linalg.eigh",
    properties={"extents": _pair_extents},
)


def _eigvalsh_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    found = packed(_alone_extents, "eigvalsh", operands[1:], attrs, square(operands[0], "eigvalsh"))
    return in_real(found)


def _vectors_of(op: Op, a: Any, **attrs: Any) -> Any:
    return _split(decompose(op, a, **attrs))[1]


def _eigvalsh_adjoint(seed: Any, y: Any, a: Any, *to: Any, upper: bool = False) -> Any:
    vectors = _vectors_of(eigh, a, upper=upper)
    whole = dot(vectors * row(in_dtype(seed, a.type.dtype)), adjoint_of(vectors))
    return _onto_triangle(whole, upper), *(None for _ in to)


def _eigvalsh_tangent(t: Any, y: Any, a: Any, *to: Any, upper: bool = False) -> Any:
    vectors = _vectors_of(eigh, a, upper=upper)
    moved = dot(_from_triangle(t[0], upper), vectors)
    return real_of(total(conjugate_of(vectors) * moved))


# eigvalsh a to (n) [upper]: the eigenvalues alone, real
eigvalsh: Op = Op(
    "eigvalsh",
    Kind.CONTRACTION,
    _eigvalsh_type,
    lambda a, *to, upper=False: as_packed(np.linalg.eigvalsh(a, _triangle(upper)), to),
    attrs=("upper",),
    effects=frozenset({TRAP}),
    adjoint=_eigvalsh_adjoint,
    tangent=_eigvalsh_tangent,
    numpy_name="linalg.eigvalsh",
    properties={"extents": _alone_extents},
)

# -- eig, eigvals ------------------------------------------------------------------------------------


def _eig_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return in_complex(packed(_pair_extents, "eig", operands[1:], attrs, square(operands[0], "eig")))


def _eig(a: Any, *to: Any) -> Any:
    values, vectors = np.linalg.eig(a)
    return as_packed(np.concatenate([values[None], vectors]).astype(np.result_type(a.dtype, np.complex64)), to)


def _like(x: Any, a: Any) -> Any:
    """A derivative by `a`, from that by the complex matrix that it counts as."""
    return x if a.type.dtype.is_complex else realPart(x)


def _in_complex(x: Any) -> Any:
    """Numbers as complex ones."""
    return x if x.type.dtype.is_complex else makeComplex(x, 0.0)


def _largest(vectors: Any) -> Any:
    """Where the elements of eigenvectors stand that LAPACK makes real: the largest of each column."""
    squares = realPart(vectors * conjugate_of(vectors))
    most = reduce(squares, 0.0, by="max", axes=(0,))
    # of several as large the real one; where several are real they are so by the matrix, and any will do: the first
    found = logical_and(equal(squares, row(most)), equal(imaginaryPart(vectors), 0.0))
    rows, _ = places_of(vectors)
    last = sizes(vectors)[0]
    first = reduce(select(rows, last, found), last, by="min", axes=(0,))
    return equal(rows, row(first))


def _eig_adjoint(seed: Any, y: Any, a: Any, *to: Any) -> Any:
    values, vectors = _split(y)
    n = sizes(a)[0]
    back = adjoint_of(vectors)
    of_values = first_row(seed, n)
    inner = on_diagonal(of_values, vectors)
    if not is_first_row(seed):
        of_vectors = part(seed, (1, 0), (n, n))
        along = total(conjugate_of(vectors) * of_vectors)
        fixed = phase_seed(vectors, _largest(vectors), imaginaryPart(along), sizes_of_sum(vectors, of_vectors))
        of_vectors = of_vectors - vectors * row(in_dtype(realPart(along), y.type.dtype)) + fixed
        inner = inner + _shared_complex(dot(back, of_vectors), values, of_values)
    return _like(solve(back, dot(inner, back)), a), *(None for _ in to)


def _apart(values: Any) -> tuple[Any, Any]:
    """(1 / d, near) for the differences d of complex values, the inverse 0 on the diagonal and where near."""
    d, near = differences(values, tolerance(modulus(values), sizes(values)[0]), modulus)
    return inverse_differences(d, near), near


def _shared_complex(g: Any, values: Any, of_values: Any) -> Any:
    inverse, near = _apart(values)
    asked = infinite_unless_zero(g) + infinite_unless_zero(column(of_values))
    return select(asked, g * conjugate_of(inverse), near)


def _eig_tangent(t: Any, y: Any, a: Any, *to: Any) -> Any:
    values, vectors = _split(y)
    n = sizes(a)[0]
    moved = solve(vectors, dot(_in_complex(t[0]), vectors))
    inverse, near = _apart(values)
    of_vectors = dot(vectors, select(infinite_unless_zero(moved), moved * inverse, near))
    longer = realPart(total(conjugate_of(vectors) * of_vectors))
    of_vectors = of_vectors - vectors * row(in_dtype(longer, y.type.dtype))
    of_vectors = of_vectors + phase_tangent(vectors, _largest(vectors), of_vectors) * vectors
    return stacked(n + 1, n, (0, row(diagonal_of(moved))), (1, of_vectors))


# eig a to (n + 1, n): eigenvalues and, below them, eigenvectors of a square matrix, as complex numbers
eig: Op = Op(
    "eig",
    Kind.CONTRACTION,
    _eig_type,
    _eig,
    effects=frozenset({TRAP}),
    adjoint=_eig_adjoint,
    tangent=_eig_tangent,
    numpy_name="linalg.eig",
    properties={"extents": _pair_extents},
)


def _eigvals_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return in_complex(packed(_alone_extents, "eigvals", operands[1:], attrs, square(operands[0], "eigvals")))


def _eigvals(a: Any, *to: Any) -> Any:
    return as_packed(np.linalg.eigvals(a).astype(np.result_type(a.dtype, np.complex64)), to)


def _matched(y: Any, values: Any) -> Any:
    """m[i, j] = 1 where y[i] is values[j], else 0: eigenvalues may come in another order with vectors than without.

    NaN if their orders differ and are not to be matched.
    """
    n = sizes(y)[0]
    away = modulus(column(y) - row(values))
    nearest = reduce(away, math.inf, by="min", axes=(1,))
    found = dataTypeCast(equal(away, column(nearest)), to=nearest.type.dtype.name)
    most = reduce(total(found), 0.0, by="max", axes=(0,))
    farthest = reduce(modulus(y - values), 0.0, by="max", axes=(0,))
    same = lessThanOrEqual(farthest, tolerance(modulus(values), n))
    hopeless = select(0.0, nan_where(greaterThan(most, 1.0), most.type.dtype), same)
    return in_dtype(select(identity_like(found), found + hopeless, same), y.type.dtype)


def _eigvals_adjoint(seed: Any, y: Any, a: Any, *to: Any) -> Any:
    values, vectors = _split(decompose(eig, a))
    back = adjoint_of(vectors)
    of_values = dot(seed, _matched(y, values))
    return _like(solve(back, column(of_values) * back), a), *(None for _ in to)


def _eigvals_tangent(t: Any, y: Any, a: Any, *to: Any) -> Any:
    values, vectors = _split(decompose(eig, a))
    return dot(_matched(y, values), diagonal_of(solve(vectors, dot(_in_complex(t[0]), vectors))))


# eigvals a to (n): the eigenvalues alone of a square matrix, as complex numbers
eigvals: Op = Op(
    "eigvals",
    Kind.CONTRACTION,
    _eigvals_type,
    _eigvals,
    effects=frozenset({TRAP}),
    adjoint=_eigvals_adjoint,
    tangent=_eigvals_tangent,
    numpy_name="linalg.eigvals",
    properties={"extents": _alone_extents},
)

EIGEN = (eigh, eigvalsh, eig, eigvals)
