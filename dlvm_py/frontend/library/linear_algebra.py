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
    if np.result_type(a).kind in ("i", "u", "b"):
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
    a, b = floats(a), floats(b)
    check_square(a)
    dtype = np.result_type(a, b)
    a, b = a.astype(dtype), b.astype(dtype)
    if b.ndim == 1:
        found = solve(a, b[:, np.newaxis])
        return np.reshape(found, found.shape[:-1])
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            "solve: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            f"(m,m),(m,n)->(m,n) (size {b.shape[-2]} is different from {a.shape[-1]})"
        )
    if a.ndim == 2 and b.ndim == 2:
        return solve_one(a, b)
    out = np.empty(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:], dtype=dtype)
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
    a = floats(a)
    check_square(a)
    return solve(a, np.eye(a.shape[-1], dtype=a.dtype))


def cholesky(a: Any, /, *, upper: Any = False) -> Any:
    """np.linalg.cholesky."""
    a = floats(a)
    check_square(a)
    if not is_constant(upper) or upper:
        refuse("np.linalg.cholesky with upper= is not supported", "transpose the lower factor: .T.conj()")
    if a.ndim == 2:
        return cholesky_one(a)
    out = np.empty(a.shape, dtype=a.dtype)
    for i in range(a.shape[0]):
        out[i] = cholesky(a[i])
    return out


def det(a: Any) -> Any:
    """np.linalg.det."""
    a = floats(a)
    check_square(a)
    if a.ndim == 2:
        return determinant_one(a)[0]
    out = np.empty(a.shape[:-2], dtype=a.dtype)
    for i in range(a.shape[0]):
        out[i] = det(a[i])
    return out


def slogdet(a: Any) -> Any:
    """np.linalg.slogdet of one matrix."""
    a = floats(a)
    check_square(a)
    if a.ndim > 2:
        refuse("np.linalg.slogdet of a stack of matrices is not supported", "loop over the leading axis")
    found = determinant_one(a)
    if np.result_type(a).kind == "c":
        return SlogdetResult(found[1], found[2].real)
    return SlogdetResult(found[1], found[2])


def matrix_power(a: Any, n: Any) -> Any:
    """np.linalg.matrix_power of one matrix, by squaring."""
    check_square(a)
    if a.ndim > 2:
        refuse("np.linalg.matrix_power of a stack of matrices is not supported", "loop over the leading axis")
    if n < 0:
        return matrix_power_of(inv(a), -n)
    return matrix_power_of(a, n)


def matrix_power_of(a: Any, n: Any) -> Any:
    """The n-th power for n >= 0."""
    found = np.eye(a.shape[0], dtype=a.dtype)
    base = a.copy()
    while n > 0:
        if n % 2 == 1:
            found = found @ base
        base = base @ base
        n = n // 2
    return found


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:  # noqa: A002 - NumPy's name
    """np.linalg.norm: vectors by any order, matrices by Frobenius, 1 and infinity."""
    x = floats(x)
    if ord is None and axis is None:
        return root_of_squares(x, None, keepdims)
    if axis is None and x.ndim == 2:
        return matrix_norm(x, ord, keepdims)
    if axis is None and x.ndim > 2:
        refuse("np.linalg.norm of more than two axes needs axis=", "say along which axis")
    if isinstance(axis, tuple):
        refuse("np.linalg.norm along two axes is not supported", "take the norm of one matrix at a time")
    return vector_norm(x, ord, axis, keepdims)


def root_of_squares(x: Any, axis: Any, keepdims: Any) -> Any:
    """The Euclidean norm; its derivative at 0 is 0."""
    if np.result_type(x).kind == "c":
        total = np.sum(x.real**2 + x.imag**2, axis=axis, keepdims=keepdims)
    else:
        total = np.sum(x * x, axis=axis, keepdims=keepdims)
    return np.where(total == 0, 0, np.sqrt(np.where(total == 0, 1, total))).astype(total.dtype)


def vector_norm(x: Any, ord: Any, axis: Any, keepdims: Any) -> Any:  # noqa: A002
    """np.linalg.norm along one axis."""
    if ord is None or ord == 2:
        return root_of_squares(x, axis, keepdims)
    size = np.abs(x)
    if ord == np.inf:
        return np.max(size, axis=axis, keepdims=keepdims)
    if ord == -np.inf:
        return np.min(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum((x != 0).astype(size.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)
    return np.sum(size**ord, axis=axis, keepdims=keepdims) ** (1.0 / ord)


def matrix_norm(x: Any, ord: Any, keepdims: Any) -> Any:  # noqa: A002
    """np.linalg.norm of one matrix."""
    if isinstance(ord, str):
        if ord != "fro":
            refuse("this norm of a matrix is not supported", "orders that are: 'fro', 1, -1, inf, -inf")
        return root_of_squares(x, None, keepdims)
    size = np.abs(x)
    if ord == 1:
        return np.max(np.sum(size, axis=0, keepdims=keepdims), keepdims=keepdims)
    if ord == -1:
        return np.min(np.sum(size, axis=0, keepdims=keepdims), keepdims=keepdims)
    if ord == np.inf:
        return np.max(np.sum(size, axis=1, keepdims=keepdims), keepdims=keepdims)
    if ord == -np.inf:
        return np.min(np.sum(size, axis=1, keepdims=keepdims), keepdims=keepdims)
    refuse("this norm of a matrix is not supported", "orders that are: 'fro', 1, -1, inf, -inf")


FUNCTIONS: dict[Any, Any] = {
    np.linalg.solve: solve,
    np.linalg.inv: inv,
    np.linalg.cholesky: cholesky,
    np.linalg.det: det,
    np.linalg.slogdet: slogdet,
    np.linalg.matrix_power: matrix_power,
    np.linalg.norm: norm,
}
METHODS: dict[str, Any] = {}
