"""Arrays as sets: sorted vectors without repetitions."""

from __future__ import annotations

from typing import Any

import numpy as np


def union1d(ar1: Any, ar2: Any) -> Any:
    """np.union1d: what is in one of the two."""
    dtype = np.result_type(ar1, ar2)  # a number of Python is weak here
    return np.unique(np.concatenate((np.ravel(ar1).astype(dtype), np.ravel(ar2).astype(dtype))))


def intersect1d(ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    """np.intersect1d: what is in both; NaN is in none."""
    dtype = np.result_type(np.asarray(ar1), np.asarray(ar2))
    if assume_unique:
        a = np.sort(np.ravel(ar1))
    else:
        a = np.unique(ar1)
    return a[np.isin(a, ar2)].astype(dtype)


def setdiff1d(ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    """np.setdiff1d: what is in the first and not in the second; in the order of the first if `assume_unique`."""
    if assume_unique:
        a = np.ravel(ar1)
    else:
        a = np.unique(ar1)
    return a[np.isin(a, ar2, invert=True)]


def setxor1d(ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    """np.setxor1d: what is in one of the two only."""
    return np.sort(np.concatenate((setdiff1d(ar1, ar2, assume_unique), setdiff1d(ar2, ar1, assume_unique))))


def trim_zeros(filt: Any, trim: Any = "fb") -> Any:
    """np.trim_zeros of a vector: without the zeros at the front ("f") and the back ("b"); a view."""
    trim = trim.upper()
    first, last = 0, filt.shape[0]
    if "F" in trim:
        while first < last and filt[first] == 0:
            first += 1
    if "B" in trim:
        while last > first and filt[last - 1] == 0:
            last -= 1
    return filt[first:last]


FUNCTIONS = {
    np.union1d: union1d, np.intersect1d: intersect1d, np.setdiff1d: setdiff1d, np.setxor1d: setxor1d,
    np.trim_zeros: trim_zeros,
}  # fmt: skip
METHODS: dict[str, Any] = {}
