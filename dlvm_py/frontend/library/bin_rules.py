"""How many bins a histogram has by a rule that is named: np.histogram(x, bins="auto")."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import refuse

RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "sturges")


def number_of_bins(a: Any, rule: Any, range: Any, weights: Any) -> Any:  # noqa: A002 - NumPy's name
    """How many bins of one width the rule gives for a vector, or for the part of it that is in the range."""
    if rule not in RULES:
        refuse(f"bins='{rule}' is not supported", "the rules are " + ", ".join(RULES) + "; or give the number")
    if weights is not None:
        raise TypeError("Automated estimation of the number of bins is not supported for weighted data")
    if range is not None:
        a = a[(a >= range[0]) & (a <= range[1])]
    if a.size == 0:
        return 1
    low, high = np.min(a), np.max(a)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError("autodetected range is not finite")
    width = width_of_bins(a, rule)
    if width == 0:
        return 1
    if np.result_type(a).kind in ("i", "u") and width < 1:
        width = np.float64(1)
    if range is not None:
        return int(np.ceil((range[1] - range[0]) / width))
    if low == high:
        return int(np.ceil(1.0 / width))
    return int(np.ceil(spread(a) / width))


def spread(x: Any) -> Any:
    """The largest minus the smallest; of integers as floats, which hold it."""
    if np.result_type(x).kind == "f":
        return np.max(x) - np.min(x)
    return np.float64(np.max(x)) - np.float64(np.min(x))


def width_of_bins(x: Any, rule: Any) -> Any:
    """The width that a rule gives, 0 where it has no answer."""
    n = x.size
    if rule == "auto":  # Freedman and Diaconis's, but no less than half of the square root's
        return min(max(width_of_bins(x, "fd"), width_of_bins(x, "sqrt") / 2), width_of_bins(x, "sturges"))
    if rule == "sqrt":
        return spread(x) / np.sqrt(n)
    if rule == "sturges":
        return spread(x) / (np.log2(n) + 1.0)
    if rule == "rice":
        return spread(x) / (2.0 * n ** (1.0 / 3))
    if rule == "scott":
        return (24.0 * np.pi**0.5 / n) ** (1.0 / 3.0) * np.std(x)
    if rule == "fd":
        ends = np.percentile(x, [75, 25])
        return 2.0 * (ends[0] - ends[1]) * n ** (-1.0 / 3.0)
    return doane(x)


def doane(x: Any) -> Any:
    """Sturges's rule for skewed data."""
    n, sigma, found = x.size, np.std(x), 0.0
    if n > 2 and sigma > 0.0:
        deviation = np.sqrt(6.0 * (n - 2) / ((n + 1.0) * (n + 3)))
        skewness = np.mean(((x - np.mean(x)) / sigma) ** 3)
        found = float(spread(x) / (1.0 + np.log2(n) + np.log2(1.0 + np.absolute(skewness) / deviation)))
    return np.float64(found)
