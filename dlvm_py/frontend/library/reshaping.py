"""Views of other ranks, and functions applied along axes: atleast_nd, broadcast_arrays, unstack, apply_along_axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import along, moveaxis
from dlvm_py.frontend.library.intrinsics import axis_of, is_constant, refuse, unroll
from dlvm_py.frontend.library.joining import as_array


def each(function: Any, arrays: Any) -> Any:
    """The function of one array, or a tuple of its results for several."""
    found = ()
    for a in arrays:
        found = found + (function(a),)
    return found[0] if len(found) == 1 else found


def with_1(a: Any) -> Any:
    """At least one axis."""
    return as_array(a)


def with_2(a: Any) -> Any:
    """At least two axes, new ones in front."""
    a = as_array(a)
    return a[np.newaxis, :] if a.ndim == 1 else a


def with_3(a: Any) -> Any:
    """At least three axes: a vector becomes (1, n, 1), a matrix (m, n, 1)."""
    a = as_array(a)
    if a.ndim == 1:
        return a[np.newaxis, :, np.newaxis]
    return a[:, :, np.newaxis] if a.ndim == 2 else a


def atleast_1d(*arys: Any) -> Any:
    """np.atleast_1d."""
    return each(with_1, arys)


def atleast_2d(*arys: Any) -> Any:
    """np.atleast_2d."""
    return each(with_2, arys)


def atleast_3d(*arys: Any) -> Any:
    """np.atleast_3d."""
    return each(with_3, arys)


def broadcast_arrays(*args: Any) -> Any:
    """np.broadcast_arrays: what has the common shape as it is; of the others NumPy's views are not to be written."""
    shape = ()
    for a in args:
        shape = np.broadcast_shapes(shape, np.shape(a))
    found = ()
    for a in args:
        fits = np.ndim(a) > 0 and np.shape(a) == shape
        found = found + (a if fits else np.broadcast_to(a, shape),)
    return found


def matrix_transpose(x: Any) -> Any:
    """np.matrix_transpose: the last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


def rollaxis(a: Any, axis: Any, start: Any = 0) -> Any:
    """np.rollaxis: an axis before another one."""
    k = axis_of(axis, a.ndim)
    if start < 0:
        start = start + a.ndim
    return moveaxis(a, k, start - 1 if k < start else start)


def unstack(x: Any, axis: Any = 0) -> Any:
    """np.unstack along an axis whose extent is known when the call is compiled."""
    k = axis_of(axis, x.ndim)
    if not is_constant(x.shape[k]):
        refuse("np.unstack needs an axis of known extent", "loop over the array")
    found = ()
    for i in unroll(x.shape[k]):
        found = found + (x[along(k, i)],)
    return found


def resize(a: Any, new_shape: Any) -> Any:
    """np.resize: the elements again and again, as many as needed."""
    if not isinstance(new_shape, (tuple, list)):
        new_shape = (new_shape,)
    n = 1
    for m in new_shape:
        n = n * m
    flat = np.ravel(a)
    if flat.shape[0] == 0:
        return np.zeros(tuple(new_shape), dtype=np.result_type(a))
    out = np.empty(n, dtype=np.result_type(a))
    for start in range(0, n, flat.shape[0]):
        part = out[start : start + flat.shape[0]]
        part[...] = flat[: part.shape[0]]
    return np.reshape(out, tuple(new_shape))


def full_of(shape: Any, values: Any, dtype: Any) -> Any:
    """np.full with an array for a value, which is stretched."""
    out = np.empty(shape, dtype=dtype)
    out[...] = values.astype(dtype)
    return out


def first_of(a: Any, axis: Any) -> Any:
    """The first slice along an axis, a view."""
    return a[(slice(None),) * axis + (0,)]


def laid_out(a: Any, order: Any, ndmin: Any) -> Any:
    """An array with so many axes at least, the missing ones in front, in the order of a word of np.array."""
    for _ in unroll(max(ndmin - np.ndim(a), 0)):
        a = np.expand_dims(a, 0) if np.ndim(a) > 0 else np.full((1,), a)
    if order == "F" and np.ndim(a) > 1:
        return np.copy(np.transpose(a)).T
    return a.copy() if order == "C" else a


def asfortranarray(a: Any, dtype: Any = None) -> Any:
    """np.asfortranarray: a copy in Fortran order."""
    a = np.atleast_1d(np.array(a, dtype=a.dtype if dtype is None else dtype))
    out = np.empty(a.shape[::-1], a.dtype)
    out[...] = a.T
    return out.T


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """np.ascontiguousarray: a copy in C order."""
    if dtype is None:
        dtype = np.result_type(a)
    return as_array(a).astype(dtype, order="C")


def item(a: Any, *args: Any) -> Any:
    """x.item(), x.item(k), x.item(i, j, ...): an element as a Python number."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        return item(a, *args[0])
    if len(args) == 0:
        if np.size(a) != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        value = np.ravel(a)[0] if np.ndim(a) > 0 else a
    elif len(args) == 1:
        value = np.ravel(a)[args[0]]
    else:
        if len(args) != np.ndim(a):
            refuse("x.item: incorrect number of indices for array")
        value = a[args]
    kind = np.result_type(a).kind
    if kind == "b":
        return bool(value)
    if kind in ("i", "u"):
        return int(value)
    return complex(value) if kind == "c" else float(value)


def tolist(a: Any) -> Any:
    """x.tolist() of a vector or a number: a list of Python's numbers."""
    if np.ndim(a) == 0:
        return item(a)
    if a.ndim > 1:
        refuse("x.tolist() of an array of several axes is not supported", "[row.tolist() for row in x]")
    return [item(x) for x in a]


def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """np.apply_over_axes: func(a, axis) for one axis after the other; an axis that goes stays with extent 1."""
    a = np.asarray(a)
    rank = a.ndim
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        k = axis_of(axis, rank)
        found = func(a, k)
        a = np.expand_dims(found, k) if np.ndim(found) < rank else found
    return a


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    """np.asarray_chkfinite: ValueError for infinities and NaN."""
    found = np.asarray(a, dtype=dtype)
    if np.result_type(found).kind in ("f", "c") and not np.all(np.isfinite(found)):
        raise ValueError("array must not contain infs or NaNs")
    return found


def sort_complex(a: Any) -> Any:
    """np.sort_complex: in order, as complex numbers."""
    found = np.sort(a)
    if np.result_type(a).kind == "c":
        return found
    small = np.result_type(a).kind in ("i", "u") and np.result_type(a).itemsize < 4
    return found.astype(np.complex64 if small else np.complex128)


def isscalar(element: Any) -> Any:
    """np.isscalar."""
    if isinstance(element, str):
        return True
    return not isinstance(element, (tuple, list, np.ndarray)) and np.ndim(element) == 0


def cumulative_sum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: Any = False
) -> Any:
    """np.cumulative_sum."""
    return running(np.cumsum, x, axis, dtype, out, include_initial, 0)


def cumulative_prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: Any = False
) -> Any:
    """np.cumulative_prod."""
    return running(np.cumprod, x, axis, dtype, out, include_initial, 1)


def running(function: Any, x: Any, axis: Any, dtype: Any, out: Any, include_initial: Any, first: Any) -> Any:
    """A running sum or product, with the value of no elements in front if that is wanted."""
    if axis is None:
        if x.ndim != 1:
            refuse("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    k = axis_of(axis, x.ndim)
    if not include_initial:
        return function(x, k, dtype, out)
    if out is not None:
        function(x, k, dtype, out[along(k, slice(1, None))])
        out[along(k, 0)] = first
        return out
    found = function(x, k, dtype)
    longer = np.full(x.shape[:k] + (x.shape[k] + 1,) + x.shape[k + 1 :], first, dtype=np.result_type(found))
    longer[along(k, slice(1, None))] = found
    return longer


def apply_along_axis(func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """np.apply_along_axis: what a function gives for each vector along an axis, in the place of that axis."""
    x = np.moveaxis(arr, axis, -1)
    if x.ndim == 1:
        return np.asarray(func1d(x, *args, **kwargs))
    n = 1
    for m in x.shape[:-1]:
        n = n * m
    rows = np.reshape(x, (n, x.shape[-1]))
    if n == 0:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    first = func1d(rows[0], *args, **kwargs)
    out = np.empty((n,) + np.shape(first), dtype=np.result_type(first))
    out[0] = first
    for i in range(1, n):
        out[i] = func1d(rows[i], *args, **kwargs)
    found = np.reshape(out, x.shape[:-1] + np.shape(first))
    k = axis_of(axis, np.ndim(arr))
    own, places = (), ()
    for i in unroll(np.ndim(first)):
        own, places = own + (x.ndim - 1 + i,), places + (k + i,)
    return moveaxis(found, own, places) if np.ndim(first) > 0 else found


def vectorized(function: Any, otype: Any, *args: Any) -> Any:
    """What np.vectorize(function) gives for arrays: the function of each of their elements, which it gets from Python.

    Without `otype` the dtype is that of what the function gives for NumPy's numbers.
    """
    shape = ()
    for a in args:
        shape = np.broadcast_shapes(shape, np.shape(a))
    rows = ()
    for a in args:
        rows = rows + (np.reshape(np.broadcast_to(a, shape), -1),)
    n = np.size(rows[0])
    if n == 0:
        if otype is None:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        return np.empty(shape, otype)
    first = ()
    for row in rows:
        first = first + (row[0],)
    sample = function(*first)
    if isinstance(sample, (tuple, list)):
        refuse("np.vectorize of a function with several results is not supported", "one function for each")
    if np.ndim(sample) > 0:
        refuse("np.vectorize of a function that gives arrays is not supported", "write a loop")
    out = np.empty(n, dtype=np.result_type(np.asarray(sample)) if otype is None else otype)
    for i in range(n):
        numbers = ()
        for row in rows:
            numbers = numbers + (item(row, i),)
        out[i] = function(*numbers)
    return np.reshape(out, shape)


# -- windows -----------------------------------------------------------------------------------------


def cosines(m: Any, a: Any, b: Any, c: Any) -> Any:
    """a + b cos + c cos 2, over one period of m points."""
    if m < 1:
        return np.zeros(0)
    n = np.arange(1 - m, m, 2)
    turn = np.pi * n / max(m - 1, 1)
    return np.where(m == 1, 1.0, a + b * np.cos(turn) + c * np.cos(2.0 * turn))


def hanning(M: Any) -> Any:  # noqa: N803 - NumPy's name
    """np.hanning."""
    return cosines(M, 0.5, 0.5, 0.0)


def hamming(M: Any) -> Any:  # noqa: N803 - NumPy's name
    """np.hamming."""
    return cosines(M, 0.54, 0.46, 0.0)


def blackman(M: Any) -> Any:  # noqa: N803 - NumPy's name
    """np.blackman."""
    return cosines(M, 0.42, 0.5, 0.08)


def bartlett(M: Any) -> Any:  # noqa: N803 - NumPy's name
    """np.bartlett."""
    if M < 1:
        return np.zeros(0)
    n = np.arange(1 - M, M, 2)
    gap = max(M - 1, 1)
    return np.where(M == 1, 1.0, np.where(n <= 0, 1 + n / gap, 1 - n / gap))


NEWER = (
    ("matrix_transpose", matrix_transpose), ("unstack", unstack), ("cumulative_sum", cumulative_sum),
    ("cumulative_prod", cumulative_prod),
)  # fmt: skip
FUNCTIONS = {
    **{f: rule for name, rule in NEWER if (f := getattr(np, name, None)) is not None},
    np.atleast_1d: atleast_1d, np.atleast_2d: atleast_2d, np.atleast_3d: atleast_3d,
    np.broadcast_arrays: broadcast_arrays, np.rollaxis: rollaxis, np.resize: resize,
    np.apply_over_axes: apply_over_axes,
    np.asarray_chkfinite: asarray_chkfinite, np.sort_complex: sort_complex,
    np.isscalar: isscalar, np.apply_along_axis: apply_along_axis,
    np.hanning: hanning, np.hamming: hamming, np.blackman: blackman, np.bartlett: bartlett,
}  # fmt: skip
METHODS: dict[str, Any] = {"item": item, "tolist": tolist}
