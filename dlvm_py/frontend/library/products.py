"""Products of arrays of more than two axes, and what is made of products: matmul, dot, inner, kron, cross."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.elementwise import deliver
from dlvm_py.frontend.library.intrinsics import axis_of, is_for_device, products_of, refuse, unroll


def size(shape: Any) -> Any:
    """The number of elements of a shape."""
    n = 1
    for m in shape:
        n = n * m
    return n


def matmul(a: Any, b: Any) -> Any:
    """np.matmul where an operand has more than two axes: the leading axes broadcast."""
    if b.ndim <= 2 and a.ndim > 2:  # one product, with the leading axes as rows
        rows = np.reshape(a, (size(a.shape[:-1]), a.shape[-1]))
        return np.reshape(rows @ b, a.shape[:-1] + b.shape[1:])
    if a.ndim == 1:
        found = matmul(a[np.newaxis, :], b)
        return np.reshape(found, found.shape[:-2] + found.shape[-1:])
    if b.ndim == 1:
        found = matmul(a, b[:, np.newaxis])
        return np.reshape(found, found.shape[:-1])
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            f"(n?,k),(k,m?)->(n?,m?) (size {b.shape[-2]} is different from {a.shape[-1]})"
        )
    leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if is_for_device():
        a = np.broadcast_to(a, leading + a.shape[-2:])
        return products_of(a, np.broadcast_to(b, leading + b.shape[-2:]))
    out = np.empty(leading + (a.shape[-2], b.shape[-1]), dtype=np.result_type(a, b))
    multiply_into(out, a, b)
    return out


def multiply_into(out: Any, a: Any, b: Any) -> None:
    """out[...] = a @ b for each index of the leading axes of `out`."""
    if out.ndim == 2:
        out[...] = a @ b
    else:
        for i in range(out.shape[0]):
            multiply_into(out[i], part(a, i, out.ndim), part(b, i, out.ndim))


def part(x: Any, i: Any, ndim: Any) -> Any:
    """x[i] where x has all of the axes; axes that are missing, or of extent 1, count for every i."""
    if x.ndim < ndim:
        return x
    return x[i if x.shape[0] != 1 else 0]


def dot(a: Any, b: Any) -> Any:
    """np.dot where an operand has more than two axes: the last axis of a with the last but one of b."""
    if b.ndim == 1:
        return matmul(a, b)
    order = (b.ndim - 2,) + unroll(b.ndim - 2) + (b.ndim - 1,)
    turned = np.transpose(b, order)
    columns = np.reshape(turned, (turned.shape[0], size(turned.shape[1:])))
    rows = np.reshape(a, (size(a.shape[:-1]), a.shape[-1]))
    return np.reshape(np.dot(rows, columns), a.shape[:-1] + turned.shape[1:])


def inner(a: Any, b: Any) -> Any:
    """np.inner: products over the last axes of both."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(np.asarray(a), np.asarray(b))  # Python's numbers are arrays to it
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"shapes not aligned: {a.shape[-1]} (dim {a.ndim - 1}) != {b.shape[-1]} (dim {b.ndim - 1})")
    if a.ndim == 1 and b.ndim == 1:
        return np.dot(a, b)
    rows = np.reshape(a, (size(a.shape[:-1]), a.shape[-1]))
    columns = np.reshape(b, (size(b.shape[:-1]), b.shape[-1]))
    return np.reshape(np.dot(rows, columns.T), a.shape[:-1] + b.shape[:-1])


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """np.outer of the flattened operands."""
    a = np.reshape(np.asarray(a), (-1,)) if np.ndim(a) == 0 else np.ravel(a)
    b = np.reshape(np.asarray(b), (-1,)) if np.ndim(b) == 0 else np.ravel(b)
    return np.multiply(a[:, np.newaxis], b[np.newaxis, :], out=out)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """np.tensordot: the sum of products over pairs of axes, which are constants."""
    if isinstance(axes, (tuple, list)):
        first, second = axes
        if not isinstance(first, (tuple, list)):
            first = (first,)
        if not isinstance(second, (tuple, list)):
            second = (second,)
    else:
        first, second = unroll(a.ndim - axes, a.ndim), unroll(axes)
    if len(first) != len(second):
        refuse("np.tensordot: the axes of both operands must be of one number")
    for i, j in zip(first, second):  # noqa: B905 - of one length
        if a.shape[axis_of(i, a.ndim)] != b.shape[axis_of(j, b.ndim)]:
            raise ValueError("shape-mismatch for sum")
    summed_a, summed_b = (), ()
    for i in first:
        summed_a = summed_a + (axis_of(i, a.ndim),)
    for j in second:
        summed_b = summed_b + (axis_of(j, b.ndim),)
    free_a, free_b, shape = (), (), ()
    for i in unroll(a.ndim):
        if i not in summed_a:
            free_a, shape = free_a + (i,), shape + (a.shape[i],)
    rows = size(shape)
    inside = 1
    for i in summed_a:
        inside = inside * a.shape[i]
    columns = 1
    for j in unroll(b.ndim):
        if j not in summed_b:
            free_b, shape, columns = free_b + (j,), shape + (b.shape[j],), columns * b.shape[j]
    found = np.dot(as_matrix(a, free_a, summed_a, rows, inside), as_matrix(b, summed_b, free_b, inside, columns))
    if len(shape) == 0:
        return np.asarray(found[0, 0])
    return np.reshape(found, shape)


def as_matrix(a: Any, down: Any, across: Any, rows: Any, columns: Any) -> Any:
    """An array as a matrix: some axes go down, the others across; a view where they lie so, or the other way round."""
    if across + down == tuple(unroll(a.ndim)):
        return np.transpose(np.reshape(a, (columns, rows)))
    return np.reshape(np.transpose(a, down + across), (rows, columns))


def kron(a: Any, b: Any) -> Any:
    """np.kron: every element of a times b."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(np.asarray(a), np.asarray(b))
    while_a = (1,) * max(b.ndim - a.ndim, 0) + a.shape
    while_b = (1,) * max(a.ndim - b.ndim, 0) + b.shape
    wide_a, wide_b, shape = (), (), ()
    for n, m in zip(while_a, while_b):  # noqa: B905 - of one length
        wide_a, wide_b, shape = wide_a + (n, 1), wide_b + (1, m), shape + (n * m,)
    return np.reshape(np.reshape(a, wide_a) * np.reshape(b, wide_b), shape)


def cross(a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None) -> Any:
    """np.cross of vectors of three components."""
    if axis is not None:
        axisa, axisb, axisc = axis, axis, axis
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError(
            "np.cross of vectors of two components, which NumPy 2.0 deprecates, is not supported in compiled code: the "
            "result would have an axis less; write a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]"
        )
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    out = np.empty(shape + (3,), dtype=np.result_type(a, b))
    for i in unroll(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
    return np.moveaxis(out, -1, axisc)


def diagonal_of(x: Any, i: Any, j: Any) -> Any:
    """The elements at which two axes have one index; that axis comes first. For np.einsum, which checks the extents."""
    x = np.moveaxis(x, (i, j), (0, 1))
    if x.shape[0] != x.shape[1]:
        raise ValueError("dimensions in operand for collapsing index don't match")
    out = np.empty(x.shape[1:], dtype=np.result_type(x))
    for k in range(x.shape[0]):
        out[k] = x[k, k]
    return out


def vecdot(x1: Any, x2: Any, /, out: Any = None, *, axis: Any = -1, keepdims: Any = False) -> Any:
    """np.vecdot: Σ conj(x1) x2 along an axis."""
    if np.ndim(x1) == 0 or np.ndim(x2) == 0:
        refuse("vecdot: an operand does not have enough dimensions (it has none, and needs one)")
    if x1.shape[axis_of(axis, x1.ndim)] != x2.shape[axis_of(axis, x2.ndim)]:
        raise ValueError(
            "vecdot: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (n),(n)->() "
            f"(size {x2.shape[axis]} is different from {x1.shape[axis]})"
        )
    products = conjugate(x1) * x2
    found = np.sum(products, axis, np.result_type(products), keepdims=keepdims)
    return deliver(found, out)  # in the dtype of the products, as all of the kind


def conjugate(x: Any) -> Any:
    """The conjugate of complex numbers; the others as they are (np.conjugate makes integers of bools)."""
    return np.conjugate(x) if np.result_type(x).kind == "c" else x


def matvec(x1: Any, x2: Any, /, out: Any = None) -> Any:
    """np.matvec: matrices times vectors."""
    return deliver(np.matmul(x1, x2[..., np.newaxis])[..., 0], out)


def vecmat(x1: Any, x2: Any, /, out: Any = None) -> Any:
    """np.vecmat: conjugated vectors times matrices."""
    return deliver(np.matmul(conjugate(x1)[..., np.newaxis, :], x2)[..., 0, :], out)


def trace(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None) -> Any:
    """np.trace: the sum along a diagonal of two axes."""
    return np.sum(np.diagonal(a, offset, axis1, axis2), -1, dtype, out)


FUNCTIONS = {
    **{f: rule for name, rule in (("vecdot", vecdot), ("matvec", matvec), ("vecmat", vecmat))
       if (f := getattr(np, name, None)) is not None},  # NumPy 2.1 and 2.2 brought these
    np.trace: trace,
    np.inner: inner,  np.outer: outer, np.tensordot: tensordot, np.kron: kron, np.cross: cross,
}  # fmt: skip
METHODS: dict = {"trace": trace}
