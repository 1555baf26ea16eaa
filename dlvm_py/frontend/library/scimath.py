"""np.emath: functions that are complex where the real ones have no value, and np.real_if_close."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import assumed, refuse


def as_complex(x: Any) -> Any:
    """A number, or an array, in the complex dtype that np.emath gives it."""
    dtype = np.result_type(x)
    if dtype.kind == "c":
        return x
    is_small = dtype == np.float32 or (dtype.kind in "iu" and dtype.itemsize <= 2)
    return np.asarray(x).astype(np.complex64 if is_small else np.complex128)


def is_inside(inside: Any, name: str) -> Any:
    """Whether all numbers are where the real function has values."""
    return assumed(
        inside,
        f"np.emath.{name} is real",
        f"whether np.emath.{name} is real or complex changes while this runs: "
        f"write np.{name}(x.astype(complex)), which is always complex",
    )


def positive(x: Any, name: str) -> Any:
    """The operand of a function that is real for numbers from 0 on."""
    if np.result_type(x).kind == "c" or is_inside(not np.any(np.asarray(x) < 0), name):
        return x
    return as_complex(x)


def small(x: Any, name: str) -> Any:
    """The operand of a function that is real for numbers from -1 to 1."""
    if np.result_type(x).kind == "c" or is_inside(not np.any(np.abs(np.asarray(x)) > 1), name):
        return x
    return as_complex(x)


def sqrt(x: Any) -> Any:
    """np.emath.sqrt: complex where a number is negative."""
    return np.sqrt(positive(x, "sqrt"))


def log(x: Any) -> Any:
    """np.emath.log: complex where a number is negative."""
    return np.log(positive(x, "log"))


def log2(x: Any) -> Any:
    """np.emath.log2: complex where a number is negative."""
    return np.log2(positive(x, "log2"))


def log10(x: Any) -> Any:
    """np.emath.log10: complex where a number is negative."""
    return np.log10(positive(x, "log10"))


def logn(n: Any, x: Any) -> Any:
    """np.emath.logn: complex where a number is negative."""
    return np.log(positive(x, "log")) / np.log(positive(n, "logn"))


def arccos(x: Any) -> Any:
    """np.emath.arccos: complex where a number is larger than 1."""
    return np.arccos(small(x, "arccos"))


def arcsin(x: Any) -> Any:
    """np.emath.arcsin: complex where a number is larger than 1."""
    return np.arcsin(small(x, "arcsin"))


def arctanh(x: Any) -> Any:
    """np.emath.arctanh: complex where a number is larger than 1."""
    return np.arctanh(small(x, "arctanh"))


def power(x: Any, p: Any) -> Any:
    """np.emath.power: complex where a base is negative, floats where an int exponent is. Numbers are arrays to it."""
    base, p = positive(np.asarray(x), "power"), np.asarray(p)
    if np.result_type(p).kind not in "iu":
        return np.power(base, p)
    if assumed(
        not np.any(np.asarray(p) < 0),
        "np.emath.power has no negative exponent",
        "whether an exponent of np.emath.power is negative changes while this runs: pass exponents that are floats",
    ):
        return np.power(base, p)
    return np.power(base, p * 1.0)


def real_if_close(a: Any, tol: Any = 100) -> Any:
    """np.real_if_close: `tol` is a number that is known when it is compiled."""
    dtype = np.result_type(a)
    if dtype.kind != "c":
        return np.asarray(a)
    if np.ndim(a) == 0:
        refuse("np.real_if_close of a number is not supported", "take z.real")
    limit = tol * np.finfo(dtype).eps if tol > 1 else tol
    if assumed(
        np.all(np.abs(a.imag) < limit),
        "all is real",
        "whether np.real_if_close gives real or complex numbers changes while this runs: take z.real",
    ):
        return a.real
    return a


FUNCTIONS = {
    np.emath.sqrt: sqrt, np.emath.log: log, np.emath.log2: log2, np.emath.log10: log10, np.emath.arccos: arccos,
    np.emath.arcsin: arcsin, np.emath.logn: logn, np.emath.arctanh: arctanh, np.emath.power: power,
    np.real_if_close: real_if_close,
}  # fmt: skip
METHODS: dict[str, Any] = {}
