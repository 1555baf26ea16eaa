"""np.linalg: norms and condition numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.decompositions import svdvals
from dlvm_py.frontend.library.intrinsics import axis_of, determinant_one, is_constant, refuse, unroll
from dlvm_py.frontend.library.linear_algebra import as_given, check_square, floats, in_double, inv, matrices_of
from dlvm_py.frontend.library.products import size


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:  # noqa: A002 - NumPy's name
    """np.linalg.norm of vectors and of matrices; the order, the axes and keepdims are constants."""
    x = floats(x)
    if axis is None:
        if ord is None or (x.ndim == 2 and ord in ("fro", "f")):
            return root_of_squares(x, None, keepdims)
        if x.ndim == 1:
            return norm_of_vectors(x, ord, 0, keepdims)
        if x.ndim == 2:
            return norm_of_matrices(x, ord, 0, 1, keepdims)
        raise ValueError("Improper number of dimensions to norm.")
    if not isinstance(axis, (tuple, list)):
        return norm_of_vectors(x, ord, axis, keepdims)
    if len(axis) == 1:
        return norm_of_vectors(x, ord, axis[0], keepdims)
    if len(axis) == 2:
        return norm_of_matrices(x, ord, axis_of(axis[0], x.ndim), axis_of(axis[1], x.ndim), keepdims)
    raise ValueError("Improper number of dimensions to norm.")


def root_of_squares(x: Any, axis: Any, keepdims: Any) -> Any:
    """The Euclidean norm; its derivative at 0 is 0."""
    if x.ndim == 1 and not keepdims and np.result_type(x) in (np.float32, np.float64):
        total = np.dot(x, x)  # as NumPy: no products in between
    elif np.result_type(x).kind == "c":
        total = np.sum(x.real**2 + x.imag**2, axis=axis, keepdims=keepdims)
    else:
        total = np.sum(x * x, axis=axis, keepdims=keepdims)
    return np.where(total == 0, 0, np.sqrt(np.where(total == 0, 1, total))).astype(total.dtype)


def norm_of_vectors(x: Any, ord: Any, axis: Any, keepdims: Any) -> Any:  # noqa: A002
    """np.linalg.norm along one axis."""
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord is None or ord == 2:
        return root_of_squares(x, axis, keepdims)
    length = np.abs(x)
    if ord == np.inf:
        return np.max(length, axis=axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return np.min(length, axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum((x != 0).astype(length.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(length, axis=axis, keepdims=keepdims)
    return np.sum(length**ord, axis=axis, keepdims=keepdims) ** (1.0 / ord)


def norm_of_matrices(x: Any, ord: Any, rows: Any, columns: Any, keepdims: Any) -> Any:  # noqa: A002
    """np.linalg.norm over two axes."""
    if rows == columns:
        raise ValueError("Duplicate axes given.")
    if ord is None or ord in ("fro", "f"):
        return root_of_squares(x, (rows, columns), keepdims)
    if ord in (2, -2, "nuc"):
        s = svdvals(np.moveaxis(x, (rows, columns), (-2, -1)))
        if ord == "nuc":
            found = np.sum(s, axis=-1)
        elif ord == 2:
            found = np.max(s, axis=-1, initial=0)
        else:
            found = np.min(s, axis=-1)
        return with_axes(found, x, rows, columns) if keepdims else found
    # the sums over one axis, and the largest or smallest along the other
    summed, along = (rows, columns) if ord in (1, -1) else (columns, rows)
    sums = np.sum(np.abs(x), axis=summed, keepdims=True)
    if ord in (1, np.inf):
        found = np.max(sums, axis=along, keepdims=True, initial=0)
    elif ord in (-1, -np.inf):
        found = np.min(sums, axis=along, keepdims=True)
    else:
        raise ValueError("Invalid norm order for matrices.")
    if keepdims:
        return found
    return found[0, 0] if x.ndim == 2 else np.squeeze(found, (rows, columns))


def with_axes(found: Any, x: Any, rows: Any, columns: Any) -> Any:
    """The norms with the two axes of `x` that they were taken over, of extent 1."""
    shape: Any = ()
    for k in unroll(x.ndim):
        shape = shape + (1 if k in (rows, columns) else x.shape[k],)
    return np.reshape(found, shape)


def matrix_norm(x: Any, /, *, keepdims: Any = False, ord: Any = "fro") -> Any:  # noqa: A002
    """np.linalg.matrix_norm."""
    return norm(x, ord, (-2, -1), keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: Any = False, ord: Any = 2) -> Any:  # noqa: A002
    """np.linalg.vector_norm along one axis, several, or all."""
    x = floats(x)
    if axis is not None and not isinstance(axis, (tuple, list)):
        return norm_of_vectors(x, ord, axis, keepdims)
    chosen: Any = ()
    for a in unroll(x.ndim) if axis is None else axis:
        chosen = chosen + (axis_of(a, x.ndim),)
    rest: Any = ()
    shape: Any = ()
    for k in unroll(x.ndim):
        if k not in chosen:
            rest = rest + (k,)
        shape = shape + (1 if k in chosen else x.shape[k],)
    turned = np.transpose(x, chosen + rest)
    n = len(chosen)
    found = norm_of_vectors(np.reshape(turned, (size(turned.shape[:n]),) + turned.shape[n:]), ord, 0, False)
    return np.reshape(found, shape) if keepdims else found


def cond(x: Any, p: Any = None) -> Any:
    """np.linalg.cond; the order of the norm is a constant."""
    if x.ndim < 2:
        refuse("np.linalg.cond needs a matrix", "give it an array of at least two axes")
    if not is_constant(p) and p is not None:
        refuse("np.linalg.cond: the order p must be a constant")
    if size(x.shape[-2:]) == 0:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p is None or p in (2, -2):
        s = svdvals(x)
        found = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        check_square(x)
        wide = in_double(x)
        found = as_given(norm(wide, p, (-2, -1)) * norms_of_inverses(wide, p), x)
    missing = np.isnan(found) & ~np.any(np.isnan(x), axis=(-2, -1))
    return np.where(missing, np.inf, found).astype(found.dtype)


def norms_of_inverses(x: Any, p: Any) -> Any:
    """The norm of each inverse; NaN where there is none."""
    if x.ndim == 2:
        found = np.nan
        if determinant_one(x)[2].real != -np.inf:
            found = norm(inv(x), p, (-2, -1))
        return np.float64(found)
    xs = matrices_of(x)
    out = np.empty(xs.shape[0])
    for i in range(xs.shape[0]):
        out[i] = norms_of_inverses(xs[i], p)
    return np.reshape(out, x.shape[:-2])


FUNCTIONS: dict[Any, Any] = {
    np.linalg.norm: norm,
    np.linalg.matrix_norm: matrix_norm,
    np.linalg.vector_norm: vector_norm,
    np.linalg.cond: cond,
}
METHODS: dict[str, Any] = {}
