"""np.linalg: products of several matrices, equations with tensors, and the forms that the array API standard has."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import axis_of, refuse, unroll
from dlvm_py.frontend.library.linear_algebra import inv, solve
from dlvm_py.frontend.library.products import cross as cross_product
from dlvm_py.frontend.library.products import size
from dlvm_py.frontend.library.products import tensordot as contracted
from dlvm_py.frontend.library.products import trace as trace_of
from dlvm_py.frontend.library.products import vecdot as vector_products

LONGEST_CHAIN = 4  # the code of a chain is three times that of one with a factor less


def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """np.linalg.multi_dot of up to four arrays: the order of the products is the cheapest for their extents."""
    n = len(arrays)
    if n < 2:
        raise ValueError("Expecting at least two arrays.")
    if n == 2:
        return np.dot(arrays[0], arrays[1], out)
    if n > LONGEST_CHAIN:
        refuse("np.linalg.multi_dot of more than four arrays is not supported", "multiply groups of them")
    first, last = np.ndim(arrays[0]), np.ndim(arrays[-1])
    factors: Any = ()
    for k in unroll(n):
        x = np.asarray(arrays[k])
        if k == 0 and first == 1:
            x = x[np.newaxis, :]
        if k == n - 1 and last == 1:
            x = x[:, np.newaxis]
        if x.ndim != 2:
            raise np.linalg.LinAlgError(f"{x.ndim}-dimensional array given. Array must be two-dimensional")
        factors = factors + (x,)
    found = chain(factors, 0, splits(factors))
    if out is not None:  # with two axes, also of vectors
        if np.shape(out) != np.shape(found) or np.result_type(out) != np.result_type(found):
            raise ValueError("output array is not acceptable (must have the right datatype, number of dimensions)")
        out[...] = found
        found = out
    if first == 1 and last == 1:
        return found[0, 0]
    return np.ravel(found) if first == 1 or last == 1 else found


def splits(factors: Any) -> Any:
    """s[i, j] = k: the product of the factors i to j is best made of those up to k and those behind it."""
    n = len(factors)
    p = np.empty(n + 1)
    for k in unroll(n):
        p[k] = factors[k].shape[0]
    p[n] = factors[-1].shape[1]
    costs = np.zeros((n, n))
    found = np.zeros((n, n), dtype=np.int64)
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs[i, j] = np.inf
            for k in range(i, j):
                cost = costs[i, k] + costs[k + 1, j] + p[i] * p[k + 1] * p[j + 1]
                if cost < costs[i, j]:
                    costs[i, j] = cost
                    found[i, j] = k
    return found


def chain(factors: Any, first: Any, s: Any) -> Any:
    """The product of neighbours in the order that `s` says; `first` is the place of the first of them."""
    n = len(factors)
    if n == 1:
        return factors[0]
    out = np.empty((factors[0].shape[0], factors[-1].shape[1]), dtype=np.result_type(*factors))
    for k in unroll(1, n):
        if s[first, first + n - 1] == first + k - 1:
            out[...] = np.dot(chain(factors[:k], first, s), chain(factors[k:], first + k, s))
    return out


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """np.linalg.tensorsolve."""
    a, b = np.asarray(a), np.asarray(b)
    if axes is not None:
        order: Any = ()
        for k in unroll(a.ndim):
            if k not in axes:
                order = order + (k,)
        a = np.transpose(a, order + tuple(axes))
    shape = a.shape[b.ndim :]
    n = size(shape)
    if size(a.shape) != n**2:
        raise np.linalg.LinAlgError(
            "Input arrays must satisfy the requirement             prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    return np.reshape(solve(np.reshape(a, (n, n)), np.ravel(b)), shape)


def tensorinv(a: Any, ind: Any = 2) -> Any:
    """np.linalg.tensorinv; `ind` is a constant."""
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    a = np.asarray(a)
    rows = size(a.shape[ind:])
    return np.reshape(inv(np.reshape(a, (rows, -1))), a.shape[ind:] + a.shape[:ind])


def cross(x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
    """np.linalg.cross of vectors of three elements."""
    n, m = x1.shape[axis_of(axis, x1.ndim)], x2.shape[axis_of(axis, x2.ndim)]
    if n != 3 or m != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, "
            f"but they are {n} and {m} dimensional instead."
        )
    return cross_product(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """np.linalg.outer of two vectors."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={x1.ndim} and x2.ndim={x2.ndim}.")
    return np.outer(x1, x2)


def trace(x: Any, /, *, offset: Any = 0, dtype: Any = None) -> Any:
    """np.linalg.trace: over the last two axes."""
    return trace_of(x, offset, -2, -1, dtype)


def diagonal(x: Any, /, *, offset: Any = 0) -> Any:
    """np.linalg.diagonal: of the last two axes, a view."""
    return np.diagonal(x, offset, -2, -1)


def vecdot(x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
    """np.linalg.vecdot: Σ conj(x1) x2 along an axis."""
    return vector_products(x1, x2, axis=axis)


def matrix_transpose(x: Any, /) -> Any:
    """np.linalg.matrix_transpose: the last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


def matmul(x1: Any, x2: Any, /) -> Any:
    """np.linalg.matmul: leading axes broadcast."""
    return x1 @ x2


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """np.linalg.tensordot."""
    return contracted(x1, x2, axes)


FUNCTIONS: dict[Any, Any] = {
    np.linalg.multi_dot: multi_dot,
    np.linalg.tensorsolve: tensorsolve,
    np.linalg.tensorinv: tensorinv,
    np.linalg.cross: cross,
    np.linalg.outer: outer,
    np.linalg.trace: trace,
    np.linalg.diagonal: diagonal,
    np.linalg.vecdot: vecdot,
    np.linalg.matrix_transpose: matrix_transpose,
    np.linalg.matmul: matmul,
    np.linalg.tensordot: tensordot,
}
METHODS: dict[str, Any] = {}
