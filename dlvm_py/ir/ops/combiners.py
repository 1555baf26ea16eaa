"""What reductions, scans and windows combine by: NumPy's ufunc of each name, and the value that it leaves out."""

from __future__ import annotations

import math

import numpy as np

from dlvm_py.ir.types import DType

COMBINERS = {
    "add": np.add,
    "multiply": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
}


def identity_of(by: str, dtype: DType) -> bool | int | float:
    """The value that a combiner leaves out: what windows read outside of the array."""
    if dtype.kind == "b":
        return by == "and"
    if by in ("add", "multiply"):
        return 0 if by == "add" else 1
    if dtype.kind == "f":
        return -math.inf if by == "max" else math.inf
    low, high = dtype.limits
    return low if by == "max" else high
