"""np.linalg: what is made of solutions, Cholesky factors and determinants; the leading axes count matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import (
    cholesky_one,
    determinant_one,
    is_constant,
    refuse,
    solve_one,
)
from dlvm_py.frontend.library.products import part, size

SlogdetResult: Any = type(np.linalg.slogdet(np.eye(1)))  # NumPy's named tuple


def floats(a: Any) -> Any:
    """Integers and bools as float64, as LAPACK's functions take them."""
    if np.result_type(a).kind in ("i", "u", "b", "V"):  # V: bfloat16
        return np.asarray(a).astype(np.float64)
    return np.asarray(a)


def in_double(a: Any) -> Any:
    """Numbers in double precision, in which NumPy's linear algebra computes."""
    if np.result_type(a) == np.float16:
        raise TypeError("array type float16 is unsupported in linalg")
    return np.asarray(a).astype(np.result_type(a, np.float64))


def as_given(x: Any, a: Any) -> Any:
    """A result in the precision of the operand that it is made of."""
    if np.result_type(a) != np.float32 and np.result_type(a) != np.complex64:
        return x
    return x.astype(np.complex64 if np.result_type(x).kind == "c" else np.float32)


def as_both(x: Any, a: Any, b: Any) -> Any:
    """A result of two operands: in single precision where both of them are (integers count as double)."""
    return as_given(as_given(x, a), b) if single(a) and single(b) else x


def single(a: Any) -> bool:
    """Whether the dtype is one of single precision."""
    return np.result_type(a) == np.float32 or np.result_type(a) == np.complex64


def matrices_of(a: Any) -> Any:
    """A stack of matrices with one leading axis."""
    return np.reshape(a, (size(a.shape[:-2]),) + a.shape[-2:])


def check_matrices(a: Any) -> None:
    """NumPy's error for what is no matrix, or a stack of them."""
    if np.ndim(a) < 2:
        n = np.ndim(a)
        raise np.linalg.LinAlgError(f"{n}-dimensional array given. Array must be at least two-dimensional")


def check_square(a: Any) -> None:
    """NumPy's errors for what is no square matrix, or a stack of them."""
    if a.ndim < 2:
        refuse("this function of np.linalg needs a matrix", "give it an array of at least two axes")
    if a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")


def solve(a: Any, b: Any) -> Any:
    """np.linalg.solve: `b` is one vector, or has matrices in its last two axes."""
    check_square(a)
    left, right = in_double(a), in_double(b)
    dtype = np.result_type(left, right)
    found = solve_in_double(left.astype(dtype), right.astype(dtype))
    return as_both(found, a, b)


def solve_in_double(a: Any, b: Any) -> Any:
    """The solutions for matrices of one dtype."""
    if b.ndim == 1:
        found = solve_in_double(a, b[:, np.newaxis])
        return np.reshape(found, found.shape[:-1])
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            "solve: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            f"(m,m),(m,n)->(m,n) (size {b.shape[-2]} is different from {a.shape[-1]})"
        )
    if a.ndim == 2 and b.ndim == 2:
        return solve_one(a, b)
    out = np.empty(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:], dtype=a.dtype)
    solve_into(out, a, b)
    return out


def solve_into(out: Any, a: Any, b: Any) -> None:
    """out[...] = solution for each index of the leading axes of `out`."""
    if out.ndim == 2:
        out[...] = solve_one(a, b)
    else:
        for i in range(out.shape[0]):
            solve_into(out[i], part(a, i, out.ndim), part(b, i, out.ndim))


def inv(a: Any) -> Any:
    """np.linalg.inv."""
    check_square(a)
    x = in_double(a)
    return as_given(solve_in_double(x, np.eye(x.shape[-1], dtype=x.dtype)), a)


def cholesky(a: Any, /, *, upper: Any = False) -> Any:
    """np.linalg.cholesky; which triangle it reads and gives is a constant."""
    check_square(a)
    if not is_constant(upper):
        refuse("np.linalg.cholesky: upper must be a constant")
    x = in_double(a)
    if upper:
        return as_given(conjugate_transpose(cholesky_in_double(conjugate_transpose(x))), a)
    return as_given(cholesky_in_double(x), a)


def conjugate_transpose(x: Any) -> Any:
    """The last two axes exchanged, conjugated."""
    return np.conj(np.swapaxes(x, -1, -2))


def cholesky_in_double(a: Any) -> Any:
    """The lower factors."""
    if a.ndim == 2:
        return cholesky_one(a)
    out = np.empty(a.shape, dtype=a.dtype)
    for i in range(a.shape[0]):
        out[i] = cholesky_in_double(a[i])
    return out


def det(a: Any) -> Any:
    """np.linalg.det."""
    check_square(a)
    x = in_double(a)
    if x.ndim == 2:
        return as_given(determinant_one(x)[0], a)
    xs = matrices_of(x)
    out = np.empty(xs.shape[0], dtype=x.dtype)
    for i in range(xs.shape[0]):
        out[i] = determinant_one(xs[i])[0]
    return as_given(np.reshape(out, x.shape[:-2]), a)


def slogdet(a: Any) -> Any:
    """np.linalg.slogdet."""
    check_square(a)
    x = in_double(a)
    if x.ndim == 2:
        found = determinant_one(x)
        return SlogdetResult(as_given(found[1], a), as_given(found[2].real, a))
    xs = matrices_of(x)
    signs = np.empty(xs.shape[0], dtype=x.dtype)
    logs = np.empty(xs.shape[0])
    for i in range(xs.shape[0]):
        found = determinant_one(xs[i])
        signs[i] = found[1]
        logs[i] = found[2].real
    return SlogdetResult(as_given(np.reshape(signs, x.shape[:-2]), a), as_given(np.reshape(logs, x.shape[:-2]), a))


def matrix_power(a: Any, n: Any) -> Any:
    """np.linalg.matrix_power, by squaring."""
    check_square(a)
    if n < 0:
        return positive_power(inv(a), -n)
    if n == 0:
        found = np.empty(a.shape, dtype=a.dtype)
        found[...] = np.eye(a.shape[-1], dtype=a.dtype)
        return found
    return positive_power(np.asarray(a), n)


def positive_power(a: Any, n: Any) -> Any:
    """The n-th power for n > 0; those that are constants and small need no loop."""
    if is_constant(n) and n == 1:
        return a.copy()
    if is_constant(n) and n == 2:
        return a @ a
    if is_constant(n) and n == 3:
        return a @ a @ a
    base = a.copy()
    while n % 2 == 0:
        base = base @ base
        n = n // 2
    found = base.copy()
    n = n // 2
    while n > 0:
        base = base @ base
        if n % 2 == 1:
            found = found @ base
        n = n // 2
    return found


FUNCTIONS: dict[Any, Any] = {
    np.linalg.solve: solve,
    np.linalg.inv: inv,
    np.linalg.cholesky: cholesky,
    np.linalg.det: det,
    np.linalg.slogdet: slogdet,
    np.linalg.matrix_power: matrix_power,
}
METHODS: dict[str, Any] = {}
