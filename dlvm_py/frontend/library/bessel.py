"""The modified Bessel function of order 0, and the window that is made of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import refuse

_BORDER = 20.0  # the power series has 60 terms below, the asymptotic one 30 from there on: both to the last bits


def i0(x: Any) -> Any:
    """np.i0: Σ (x²/4)^k / k!²; exp(x)/√(2πx) Σ (1·9·25···(2k-1)²) / (k! (8x)^k) for large x.

    Source: Abramowitz and Stegun, 9.6.12 and 9.7.1.
    """
    if np.result_type(x).kind == "c":
        refuse("i0 not supported for complex values")
    x = np.abs(np.asarray(x) * 1.0)
    small = np.minimum(x, _BORDER)
    quarter = small * small / 4
    term = near = quarter * 0 + 1
    for k in range(1, 60):
        term = term * quarter / (k * k)
        near = near + term
    large = np.maximum(x, _BORDER)
    term = far = quarter * 0 + 1
    for k in range(1, 30):
        term = term * ((2 * k - 1) * (2 * k - 1)) / (8 * k * large)
        far = far + term
    return np.asarray(np.where(x < _BORDER, near, np.exp(large) / np.sqrt(2 * np.pi * large) * far))


def kaiser(M: Any, beta: Any) -> Any:  # noqa: N803 - NumPy's name
    """np.kaiser: i0 of β √(1 - (2n/(M-1) - 1)²), over i0(β)."""
    if M == 1:
        return np.ones(1)
    half = (M - 1) / 2.0
    inside = 1 - ((np.arange(M) - half) / half) ** 2
    return i0(beta * np.sqrt(inside)) / i0(np.array([beta * 1.0]))[0]


FUNCTIONS = {np.i0: i0, np.kaiser: kaiser}
METHODS: dict[str, Any] = {}
