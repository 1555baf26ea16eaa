"""What library code may ask the compiler for; each has the same meaning in plain Python.

The front end's side of them is in frontend/library_calls.py.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np


def unroll(*bounds: int) -> tuple[int, ...]:
    """The numbers of range(*bounds) as constants: a loop over them is written out, one body a number."""
    return tuple(range(*bounds))


def refuse(message: str, help: str | None = None) -> NoReturn:  # noqa: A002 - as in errors.py
    """Stop: a compile error at the user's call, with what to write instead."""
    raise TypeError(message if help is None else f"{message} ({help})")


def is_constant(value: Any) -> bool:
    """Whether a number is known when the call is compiled. In plain Python all of them are."""
    return not isinstance(value, np.ndarray)


def solve_one(a: Any, b: Any) -> Any:
    """The solution of a x = b for one matrix a and a matrix b of right sides, both of one float or complex dtype."""
    return np.linalg.solve(a, b)


def cholesky_one(a: Any) -> Any:
    """The lower Cholesky factor of one matrix."""
    return np.linalg.cholesky(a)


def determinant_one(a: Any) -> Any:
    """(det a, sign or phase of it, log |det a|) of one matrix, as an array of its dtype."""
    return np.array([np.linalg.det(a), *np.linalg.slogdet(a)], a.dtype)


def axis_of(axis: int, ndim: int) -> int:
    """An axis argument, which must be a constant, counted from the front."""
    return int(np.lib.array_utils.normalize_axis_index(axis, ndim))


def axes_of(axis: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """Axes counted from the front, in ascending order; None stands for all."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(np.lib.array_utils.normalize_axis_tuple(axis, ndim)))


def complex_of(a: Any) -> Any:
    """The array in the complex dtype that a Fourier transform gives: complex64 for float32, else complex128."""
    a = np.asarray(a)
    return a.astype(np.result_type(a.dtype, np.complex64) if a.dtype.kind in "fc" else np.complex128)


def fourier(a: Any, axis: int, inverse: bool) -> Any:
    """The discrete Fourier transform of a complex array along an axis, neither way divided by its length."""
    if inverse:
        return np.fft.ifft(a, axis=axis, norm="forward")
    return np.fft.fft(a, axis=axis)
