"""What the derivatives of eigenvectors and singular vectors share: values that count as equal, phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.ir.ops.elementwise import (
    absolute,
    equal,
    hypot,
    imaginaryPart,
    lessThanOrEqual,
    logical_and,
    logical_not,
    logical_or,
    realPart,
    select,
)
from dlvm_py.ir.ops.matrices import as_number, column, in_dtype, places_of, row, times, turned
from dlvm_py.ir.ops.reduce import reduce

# -- what is not determined --------------------------------------------------------------------------


def infinite_unless_zero(x: Any) -> Any:
    """0 where x is 0 and not finite elsewhere; so is the derivative by x.

    A zero seed asks for nothing, and any other one for the derivative of something that has none.
    """
    huge = float(np.finfo(x.type.dtype.real.numpy).max)
    return x * huge * huge * huge


def over(x: Any, y: Any, is_zero: Any) -> Any:
    """x / y for a real y, infinite where y counts as 0 and x is not."""
    quotient = x * in_dtype(1.0 / select(1.0, y, is_zero), x.type.dtype)
    return select(infinite_unless_zero(x), quotient, is_zero)


def tolerance(values: Any, n: Any) -> Any:
    """16 n ε max |values|: numbers that are no farther apart count as equal, as their errors may be as large."""
    dtype = values.type.dtype
    size = reduce(absolute(values), 0.0, by="max", axes=tuple(range(values.type.rank)))
    return size * as_number(n, dtype) * (16.0 * float(np.finfo(dtype.numpy).eps))


def differences(values: Any, limit: Any, size: Callable[[Any], Any] = absolute) -> tuple[Any, Any]:
    """(d, near) for d[i, j] = values[j] - values[i]: near where i and j differ but the values count as equal."""
    found = row(values) - column(values)
    close = lessThanOrEqual(size(found), limit)
    return found, logical_and(close, logical_not(equal(*places_of(found))))


def inverse(x: Any, none: Any) -> Any:
    """1 / x, and 0 where there is `none`."""
    return select(0.0, 1.0 / select(1.0, x, none), none)


def inverse_differences(d: Any, near: Any) -> Any:
    """1 / d, and 0 on the diagonal and where d counts as 0."""
    return inverse(d, logical_or(near, equal(*places_of(d))))


def shared(g: Any, d: Any, near: Any, of_values: Any) -> Any:
    """g / d elementwise, 0 on the diagonal; where values count as equal, a seed of them or of g makes it infinite."""
    asked = infinite_unless_zero(g) + in_dtype(infinite_unless_zero(of_values), g.type.dtype)
    return select(asked, times(g, inverse_differences(d, near)), near)


# -- the phase of vectors ----------------------------------------------------------------------------


def total(x: Any) -> Any:
    """The sum of each column."""
    return reduce(x, 0.0, by="add", axes=(0,))


def phase_seed(vectors: Any, real: Any, turn: Any, scale: Any) -> Any:
    """What the seed of vectors gets for their phase: `turn` is the derivative by it, `real` marks the real elements.

    A turn within the error of the sum that it is, of terms of size `scale`, is none.
    """
    pivot = total(select(realPart(vectors), 0.0, real))
    limit = scale * (16.0 * float(np.finfo(scale.type.dtype.numpy).eps))
    turn = select(0.0, turn, lessThanOrEqual(absolute(turn), limit))
    moved = over(turn, pivot, equal(pivot, 0.0))
    return select(turned(row(-moved)), 0.0, real)


def phase_tangent(vectors: Any, real: Any, moved: Any) -> Any:
    """By how much each vector turns, so that its real element stays real, as a row; `moved` is the tangent so far."""
    pivot = total(select(realPart(vectors), 0.0, real))
    away = total(select(imaginaryPart(moved), 0.0, real))
    return turned(row(-over(away, pivot, equal(pivot, 0.0))))


def sizes_of_sum(vectors: Any, seed: Any) -> Any:
    """Σ |v| |v̄| for each column."""
    return total(modulus(vectors) * modulus(seed))


def modulus(x: Any) -> Any:
    """|x|, of complex numbers too."""
    return hypot(realPart(x), imaginaryPart(x)) if x.type.dtype.is_complex else absolute(x)
