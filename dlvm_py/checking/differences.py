"""Derivatives by differences, with an estimate of their error: what compiled derivatives are judged by.

Central differences at steps that are halved, extrapolated to step zero (Richardson), the best entry of the tableau by
its own error estimate (Ridders, "Accurate computation of F'(x) and F'(x)F''(x)", Advances in Engineering Software 4
(1982)); from the same evaluations the derivatives from either side, which tell a kink from a smooth point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FIRST_STEP, STEPS = 0.02, 14
EPSILON = float(np.finfo(np.float64).eps)
GOOD = 1e-10  # of the size of the derivative: no smaller steps are tried then


@dataclass(frozen=True, slots=True)
class Difference:
    """The derivative of g at 0, element by element: `value` and the estimated size of its `error`.

    `left`, `right` and their errors are one-sided. An error is infinite where nothing converges.
    """

    value: np.ndarray
    error: np.ndarray
    left: np.ndarray
    left_error: np.ndarray
    right: np.ndarray
    right_error: np.ndarray

    @property
    def kink(self) -> np.ndarray:
        """Where the one-sided derivatives exist and differ."""
        gap = np.abs(self.right - self.left)
        noise = 20.0 * (self.left_error + self.right_error) + 1e-6 * (np.abs(self.left) + np.abs(self.right))
        return np.isfinite(gap) & (gap > noise)

    def agrees(self, got: np.ndarray, tolerance: float) -> np.ndarray:
        """Where `got` is this derivative, as far as the differences can tell.

        tolerance: relative to the larger of 1 and the derivative's size.
        """
        size = np.maximum(1.0, np.abs(self.value))
        with np.errstate(all="ignore"):
            return np.abs(got - self.value) <= tolerance * size + 20.0 * self.error

    def within(self, got: np.ndarray, tolerance: float) -> np.ndarray:
        """Where `got` lies between the one-sided derivatives."""
        low, high = np.minimum(self.left, self.right), np.maximum(self.left, self.right)
        slack = tolerance * np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
        slack = slack + 20.0 * (self.left_error + self.right_error)
        return (got >= low - slack) & (got <= high + slack)

    def conclusive(self, tolerance: float) -> np.ndarray:
        """Where the error is small enough to judge by."""
        return self.error <= np.sqrt(tolerance) * np.maximum(1.0, np.abs(self.value))


class _Tableau:
    """Richardson extrapolation of differences at halved steps; `power` 2 for even error terms, 1 for all."""

    def __init__(self, power: int) -> None:
        self.power = power
        self.row: list[np.ndarray] = []
        self.value = self.error = np.empty(0)

    def add(self, estimate: np.ndarray, noise: np.ndarray) -> None:
        """One more row, from a difference at the next step; `noise` is the rounding error of it."""
        row = [estimate]
        errors = [np.full(estimate.shape, np.inf)]
        for j, above in enumerate(self.row, 1):
            factor = 2.0 ** (self.power * j) - 1.0
            new = row[-1] + (row[-1] - above) / factor
            errors.append(np.maximum(np.abs(new - row[-1]), np.abs(new - above)) + noise)
            row.append(new)
        if not self.row:
            self.value, self.error = estimate.copy(), errors[0]
        for new, error in zip(row, errors, strict=True):
            better = error < self.error  # False for NaN
            self.value, self.error = np.where(better, new, self.value), np.where(better, error, self.error)
        self.row = row


def difference(g: Callable[[float], np.ndarray], scale: float = 1.0) -> Difference:
    """The derivative of `g` at 0.

    g: a function of a step; its values are float64 arrays of one shape. scale: of the steps: about the size over which
        `g` changes (0.02 of it is the first step).
    """
    center = np.asarray(g(0.0), dtype=np.float64)
    central, left, right = _Tableau(2), _Tableau(1), _Tableau(1)
    with np.errstate(all="ignore"):
        for k in range(STEPS):
            h = FIRST_STEP * scale / 2.0**k
            up, down = np.asarray(g(h), dtype=np.float64), np.asarray(g(-h), dtype=np.float64)
            noise = EPSILON * np.maximum(np.maximum(np.abs(up), np.abs(down)), np.abs(center)) / h
            central.add((up - down) / (2.0 * h), noise)
            right.add((up - center) / h, noise)
            left.add((center - down) / h, noise)
            if all(_is_good(t) for t in (central, left, right)):
                break
    return Difference(central.value, central.error, left.value, left.error, right.value, right.error)


def _is_good(t: _Tableau) -> bool:
    return bool(np.all(t.error <= GOOD * np.maximum(1.0, np.abs(t.value))))
