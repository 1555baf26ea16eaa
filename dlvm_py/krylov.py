"""Linear systems of which only products with the matrix are known: GMRES, and the sum of Neumann.

Plain functions in the language that we compile; implicit.py calls them in rules. `product` is a function of a vector.
Both give up with LinAlgError, never with a bad answer: what they return has been tested, ‖b - A y‖ ≤ tolerance · ‖b‖.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def gmres(product: Any, b: Any, tolerance: float, iterations: int, restart: int) -> Any:
    """The solution y of A y = b by the generalised minimal residual method, restarted.

    product: v → A v for vectors of shape (n,). b: (n,). tolerance: of the residual, relative to ‖b‖. iterations:
    products at most, beside one a restart. restart: vectors of the basis, which takes (restart + 1) · n numbers.

    Raises: LinAlgError where the residual does not get there.
    Source: Saad and Schultz (1986), with Givens rotations; Gram-Schmidt is done twice (Giraud, Langou, Rozložník 2005).
    """
    n = b.size
    y = np.zeros_like(b)
    target = tolerance * np.sqrt(np.sum(b * b))
    steps = min(restart, n)
    basis = np.zeros((steps + 1, n), b.dtype)
    upper = np.zeros((steps, steps), b.dtype)
    cosines, sines = np.zeros(steps, b.dtype), np.zeros(steps, b.dtype)
    left = np.zeros(steps + 1, b.dtype)
    done = 0
    residual = b.copy()
    length = np.sqrt(np.sum(residual * residual))
    while not (length <= target < np.inf):
        if done >= iterations or not np.isfinite(length):
            raise np.linalg.LinAlgError("dlvm.implicit: GMRES did not converge")
        basis[0] = residual / length
        left[:] = 0.0
        left[0] = length
        k = 0
        while k < steps and done < iterations:
            w = product(basis[k])
            done += 1
            column = basis[: k + 1] @ w
            w = w - column @ basis[: k + 1]
            again = basis[: k + 1] @ w
            w = w - again @ basis[: k + 1]
            column = column + again
            height = np.sqrt(np.sum(w * w))
            for i in range(k):
                first = cosines[i] * column[i] + sines[i] * column[i + 1]
                column[i + 1] = cosines[i] * column[i + 1] - sines[i] * column[i]
                column[i] = first
            size = np.hypot(column[k], height)
            if not (size > 0.0):
                break  # A is singular on what has been seen
            cosines[k], sines[k] = column[k] / size, height / size
            column[k] = size
            upper[: k + 1, k] = column
            left[k + 1] = -sines[k] * left[k]
            left[k] = cosines[k] * left[k]
            k += 1
            if abs(left[k]) <= 0.5 * target or height <= 0.0:
                break
            basis[k] = w / height
        for i in range(k - 1, -1, -1):
            left[i] = (left[i] - np.sum(upper[i, i + 1 : k] * left[i + 1 : k])) / upper[i, i]
        y = y + left[:k] @ basis[:k]
        residual = b - product(y)
        before, length = length, np.sqrt(np.sum(residual * residual))
        if not (length <= target) and not (length < before):
            raise np.linalg.LinAlgError("dlvm.implicit: GMRES did not converge")
    return y


def neumann(product: Any, b: Any, tolerance: float, iterations: int) -> Any:
    """The solution y of A y = b as b + (I - A) b + (I - A)² b + …, which converges where I - A is a contraction.

    Arguments and errors: as `gmres`; two vectors are kept.
    """
    y = np.zeros_like(b)
    residual = b.copy()
    target = tolerance * np.sqrt(np.sum(b * b))
    done = 0
    while not (np.sqrt(np.sum(residual * residual)) <= target < np.inf):
        if done >= iterations:
            raise np.linalg.LinAlgError("dlvm.implicit: the sum of Neumann did not converge")
        y = y + residual
        residual = b - product(y)
        done += 1
    return y
