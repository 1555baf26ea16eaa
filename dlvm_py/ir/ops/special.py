"""Special functions on NumPy arrays, in their dtype: what the rows of erf, gamma and their like evaluate.

NumPy has none of them. erf, erfc, gamma and lgamma are Python's; digamma, trigamma and polygamma are raised to z >= 10
(and more) by their recurrence, where the asymptotic series is exact to the last bit or two, and reflected for x < 0.
Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.3.5-6.3.18 and 6.4.6-6.4.12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

RAISED = 10  # from here the series is used: the first term left out is below 1e-16
# B_2k / 2k and B_2k, k = 1 ... 7: the series in 1 / z^2 of digamma and trigamma
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _by_math(name: str, f: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of Python floats on every element of an array."""
    ufunc = np.frompyfunc(f, 1, 1)

    @np.errstate(all="ignore")
    def evaluate(x: Any) -> Any:
        x = np.asarray(x)
        return np.asarray(ufunc(x.astype(np.float64))).astype(x.dtype)

    evaluate.__name__ = name
    return evaluate


def _gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:  # far above, or beside 0
        return math.copysign(math.inf, x)
    except ValueError:  # -inf and the negative integers
        return math.nan


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (OverflowError, ValueError):
        return math.inf


erf, erfc = _by_math("erf", math.erf), _by_math("erfc", math.erfc)
gamma, lgamma = _by_math("gamma", _gamma), _by_math("lgamma", _lgamma)


def _series(terms: tuple[float, ...], w: Any) -> Any:
    """Σ terms[k] wᵏ."""
    total = terms[-1]
    for term in terms[-2::-1]:
        total = term + w * total
    return total


@np.errstate(all="ignore")
def digamma(x: Any) -> Any:
    """(log Γ)'(x): NaN at the negative integers, ∓inf at ±0."""
    x = np.asarray(x)
    at = x.astype(np.float64)
    z = np.where(at < 0, 1 - at, at)
    y = np.zeros(z.shape)
    for _ in range(RAISED):  # ψ(z) = ψ(z + 1) - 1 / z
        low = z < RAISED
        y, z = y - np.where(low, 1 / z, 0.0), np.where(low, z + 1, z)
    w = 1 / (z * z)
    y = y + (np.log(z) - 0.5 / z - w * _series(DIGAMMA, w))
    nearest = np.rint(at)
    pole = (at < 0) & (at == nearest)
    # ψ(x) = ψ(1 - x) - π / tan πx
    y = np.where(at < 0, y - np.pi / np.tan(np.pi * (at - nearest)), y)
    return np.where(pole, np.nan, y).astype(x.dtype)


@np.errstate(all="ignore")
def trigamma(x: Any) -> Any:
    """(log Γ)''(x): inf at 0 and at the negative integers."""
    x = np.asarray(x)
    at = x.astype(np.float64)
    z = np.where(at < 0, 1 - at, at)
    y = np.zeros(z.shape)
    for _ in range(RAISED):  # ψ'(z) = ψ'(z + 1) + 1 / z²
        low = z < RAISED
        y, z = y + np.where(low, 1 / (z * z), 0.0), np.where(low, z + 1, z)
    w = 1 / (z * z)
    y = y + (1 / z + 0.5 * w + w / z * _series(TRIGAMMA, w))
    s = np.pi / np.sin(np.pi * (at - np.rint(at)))
    # ψ'(x) = π² / sin² πx - ψ'(1 - x)
    return np.where(at < 0, s * s - y, y).astype(x.dtype)


def cotangent_derivative(order: int) -> tuple[float, ...]:
    """The polynomial P with d^order cot x / dx^order = P(cot x), the lowest power first."""
    p = [0, 1]
    for _ in range(order):  # (P(c))' = -(1 + c²) P'(c)
        slope = [k * a for k, a in enumerate(p)][1:]
        p = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return tuple(map(float, p))


def polygamma_terms(order: int) -> tuple[float, ...]:
    """What stands before z^-order, z^-(order + 1), and z^-(order + 2k), k = 1 ..., in the series without its sign."""
    powers = range(2, 2 * len(TRIGAMMA) + 1, 2)
    tail = [b * math.factorial(k + order - 1) / math.factorial(k) for k, b in zip(powers, TRIGAMMA, strict=True)]
    return (float(math.factorial(order - 1)), math.factorial(order) / 2, *tail)


def raised_for(order: int) -> int:
    """From where the series of the polygamma function of this order serves."""
    return RAISED + order


@np.errstate(all="ignore")
def polygamma(x: Any, order: int) -> Any:
    """digamma's derivative of that order, 1 or more: at the poles inf, for even orders -inf."""
    x = np.asarray(x)
    at = x.astype(np.float64)
    z = np.where(at < 0, 1 - at, at)
    y = np.zeros(z.shape)
    limit, step = raised_for(order), math.factorial(order)
    for _ in range(limit):  # ψₙ(z) = ψₙ(z + 1) ± n! / z^(n + 1); the sign is put before all of it
        low = z < limit
        y, z = y + np.where(low, step / z ** (order + 1), 0.0), np.where(low, z + 1, z)
    first, second, *rest = polygamma_terms(order)
    w = 1 / (z * z)
    y = y + (first + second / z + w * _series(tuple(rest), w)) / z**order
    # ψₙ(x) = -πⁿ⁺¹ P(cot πx) + (-1)ⁿ ψₙ(1 - x)
    f = at - np.rint(at)
    # near the halves, where it is 0, by its own complement
    cot = np.where(np.abs(f) < 0.25, 1 / np.tan(np.pi * f), np.copysign(np.tan(np.pi * (0.5 - np.abs(f))), f))
    mirrored = -(math.pi ** (order + 1)) * _series(cotangent_derivative(order), cot) - y
    return np.where(at < 0, mirrored, y if order % 2 else -y).astype(x.dtype)


@np.errstate(all="ignore")
def round_half_away(x: Any) -> Any:
    """The nearest integer, of two equally near ones that farther from 0."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones_like(x), x), whole)
