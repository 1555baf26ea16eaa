"""What library code may ask the compiler for; each has the same meaning in plain Python.

The front end's side of them is in frontend/library_calls.py.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from dlvm_py.ir import DTYPES
from dlvm_py.ir.distributions import DISTRIBUTIONS


def unroll(*bounds: int) -> tuple[int, ...]:
    """The numbers of range(*bounds) as constants: a loop over them is written out, one body a number."""
    return tuple(range(*bounds))


def refuse(message: str, help: str | None = None) -> NoReturn:  # noqa: A002 - as in errors.py
    """Stop: a compile error at the user's call, with what to write instead."""
    raise TypeError(message if help is None else f"{message} ({help})")


def is_constant(value: Any) -> bool:
    """Whether a number is known when the call is compiled. In plain Python all of them are."""
    return not isinstance(value, np.ndarray)


def is_for_device() -> bool:
    """Whether the call is compiled for a GPU, where each array op is a launch. Plain Python is not."""
    return False


def products_of(a: Any, b: Any) -> Any:
    """The products of the matrices of the last two axes; the axes before are equally many, of equal extents."""
    return np.matmul(a, b)


def solve_one(a: Any, b: Any) -> Any:
    """The solution of a x = b for one matrix a and a matrix b of right sides, both of one float or complex dtype."""
    return np.linalg.solve(a, b)


def cholesky_one(a: Any) -> Any:
    """The lower Cholesky factor of one matrix."""
    return np.linalg.cholesky(a)


def determinant_one(a: Any) -> Any:
    """(det a, sign or phase of it, log |det a|) of one matrix, as an array of its dtype."""
    return np.array([np.linalg.det(a), *np.linalg.slogdet(a)], a.dtype)


def eigh_one(a: Any, upper: bool) -> tuple[Any, Any]:
    """The eigenvalues and eigenvectors of one Hermitian matrix, given by one of its triangles."""
    values, vectors = np.linalg.eigh(a, "U" if upper else "L")
    return values, vectors


def eigvalsh_one(a: Any, upper: bool) -> Any:
    """The eigenvalues of one Hermitian matrix, given by one of its triangles."""
    return np.linalg.eigvalsh(a, "U" if upper else "L")


def eig_one(a: Any) -> tuple[Any, Any]:
    """The eigenvalues and eigenvectors of one matrix, as complex numbers."""
    values, vectors = np.linalg.eig(a)
    return values.astype(complex), vectors.astype(complex)


def eigvals_one(a: Any) -> Any:
    """The eigenvalues of one matrix, as complex numbers."""
    return np.linalg.eigvals(a).astype(complex)


def svd_one(a: Any, full: bool) -> tuple[Any, Any, Any]:
    """U, the singular values and Vᴴ of one matrix."""
    left, values, right = np.linalg.svd(a, full)
    return left, values, right


def svdvals_one(a: Any) -> Any:
    """The singular values of one matrix."""
    return np.linalg.svdvals(a)


def qr_one(a: Any, mode: str) -> tuple[Any, Any]:
    """Q and R of one matrix; the mode is "reduced" or "complete"."""
    q, r = np.linalg.qr(a, mode)
    return q, r


def triangle_one(a: Any) -> Any:
    """R of one matrix."""
    return np.linalg.qr(a, "r")


def pinv_one(a: Any, rcond: Any) -> Any:
    """The pseudoinverse of one matrix without the singular values up to rcond times the largest."""
    return np.linalg.pinv(a, rcond)


def lstsq_one(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    """np.linalg.lstsq of two matrices; the sums of squares are NaN where NumPy has none, the rank is a float."""
    x, squares, rank, values = np.linalg.lstsq(a, b, rcond)
    return x, squares if squares.size else np.full(b.shape[1], np.nan), float(rank), values


def bits_of(x: Any, dtype: Any) -> Any:
    """The bits of each number as a number of another dtype of the same width; no derivative flows through."""
    return np.ascontiguousarray(x).view(dtype).reshape(np.shape(x))[()]


def held(x: Any) -> Any:
    """The same numbers, which a derivative takes for constants."""
    return x


def assumed(condition: Any, what: str, message: str) -> bool:
    """Whether a condition on values holds, as a constant, for types that depend on it.

    what: tells it from others in one function. message: of the TypeError where there is none for the other answer.
    """
    return bool(condition)


def settled(condition: Any, what: str, message: str) -> bool | None:
    """As `assumed`; None, in compiled code, where it holds at one time of a call and not at another."""
    return bool(condition)


def undecided(x: Any, answer: bool | None) -> Any:
    """Complex numbers; in compiled code nothing may show that they are, where the answer is None."""
    return x


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


def draw(distribution: str, rng: np.random.Generator, *parameters: Any) -> Any:
    """The next number of a distribution: a float, np.float32, or an int (of ir/ops/draw.py; u64 by its bits)."""
    row = DISTRIBUTIONS[distribution]
    wanted = [np.dtype(DTYPES[name].numpy) for name in row.parameters]
    found = row.numpy(rng, *(np.asarray(p).astype(d)[()] for p, d in zip(parameters, wanted, strict=True)))
    if row.result == "f32":
        return np.float32(found)
    return float(found) if row.result == "f64" else int(np.asarray(found).astype(np.int64))
