"""The methods of ufuncs that no op does: reduce, accumulate, reduceat and at, one application after the other.

`ufunc` is a constant of these functions, and so is `loop`, the dtype in which NumPy would apply it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import along
from dlvm_py.frontend.library.intrinsics import axes_of, axis_of, refuse, unroll


def flattened(x: Any, axes: Any) -> Any:
    """The array with some of its axes joined to one, which is in front."""
    rest, shape, count = (), (), 1
    for k in unroll(x.ndim):
        if k in axes:
            count = count * x.shape[k]
        else:
            rest, shape = rest + (k,), shape + (x.shape[k],)
    return np.reshape(np.transpose(x, axes + rest), (count,) + shape)


def reduced(
    ufunc: Any, name: Any, identity: Any, loop: Any, array: Any, axis: Any, keepdims: Any, initial: Any, where: Any
) -> Any:
    """ufunc.reduce: f(...f(f(first, x_0), x_1)..., x_(n-1)) along axes, where `where` holds."""
    axes = axes_of(axis, array.ndim)
    if len(axes) > 1 and not (identity is not None or name in ("fmax", "fmin")):
        raise ValueError(f"reduction operation '{name}' is not reorderable, so at most one axis may be specified")
    x = flattened(array.astype(loop), axes)
    count, shape = x.shape[0], x.shape[1:]
    first = identity if initial is None else np.array([initial], dtype=loop)[0]  # converted as what is stored
    if where is not True:
        if first is None:
            raise ValueError(
                f"reduction operation '{name}' does not have an identity, so to use a where mask one has to specify "
                "'initial'"
            )
        flags = flattened(np.broadcast_to(where, array.shape), axes)
    if first is None:
        if count == 0:
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
        begin = 1
        found = x[0] if len(shape) == 0 else np.copy(x[0])
    else:
        begin = 0
        found = first if len(shape) == 0 else np.full(shape, first, dtype=loop)
    if len(shape) == 0:
        for i in range(begin, count):
            if where is True or flags[i]:
                found = ufunc(found, x[i])
    else:
        for i in range(begin, count):
            if where is True:
                found[...] = ufunc(found, x[i])
            else:
                found[...] = np.where(flags[i], ufunc(found, x[i]), found)
    if not keepdims:
        return found
    kept = ()
    for k in unroll(array.ndim):
        kept = kept + (1 if k in axes else array.shape[k],)
    return np.reshape(found if len(shape) > 0 else np.full((1,), found), kept)


def accumulated(ufunc: Any, loop: Any, array: Any, axis: Any) -> Any:
    """ufunc.accumulate: y_0 = x_0, y_i = f(y_(i-1), x_i) along an axis."""
    k = axis_of(axis, array.ndim)
    x = array.astype(loop)
    found = np.empty(x.shape, dtype=loop)
    if x.shape[k] > 0:
        found[along(k, 0)] = x[along(k, 0)]
    for i in range(1, x.shape[k]):
        found[along(k, i)] = ufunc(found[along(k, i - 1)], x[along(k, i)])
    return found


def reduced_at(ufunc: Any, name: Any, loop: Any, array: Any, indices: Any, axis: Any) -> Any:
    """ufunc.reduceat: of the elements from each index up to the next one, if that is larger, else of one element."""
    k = axis_of(axis, array.ndim)
    x, n, count = array.astype(loop), array.shape[k], indices.shape[0]
    for i in range(count):
        if indices[i] < 0 or indices[i] >= n:
            raise IndexError(f"index {indices[i]} out-of-bounds in {name}.reduceat [0, {n})")
    found = np.empty(x.shape[:k] + (count,) + x.shape[k + 1 :], dtype=loop)
    for i in range(count):
        start = int(indices[i])
        stop = int(indices[i + 1]) if i + 1 < count else n
        if name == "add" and loop.kind in ("i", "u", "f", "c") and loop != np.float16:
            found[along(k, i)] = np.sum(x[along(k, slice(start, max(stop, start + 1)))], k)
        else:
            found[along(k, i)] = x[along(k, start)]
            for j in range(start + 1, stop):
                found[along(k, i)] = ufunc(found[along(k, i)], x[along(k, j)])
    return found


def unary_at(ufunc: Any, a: Any, indices: Any) -> None:
    """ufunc.at of one operand: in place, once for each time that an index comes."""
    places = np.ravel(np.asarray(np.reshape(np.arange(a.size), a.shape)[indices]))
    for n in range(places.shape[0]):
        at = np.unravel_index(places[n], a.shape)
        a[at] = cast_back(ufunc(a[at]), a)


def binary_at(ufunc: Any, a: Any, indices: Any, b: Any) -> None:
    """ufunc.at of two operands: in place, for one index after the other."""
    places = np.asarray(np.reshape(np.arange(a.size), a.shape)[indices])
    values = np.ravel(np.broadcast_to(np.asarray(b), places.shape))
    flat = np.ravel(places)
    for n in range(flat.shape[0]):
        at = np.unravel_index(flat[n], a.shape)
        a[at] = cast_back(ufunc(a[at], values[n]), a)


def cast_back(value: Any, a: Any) -> Any:
    """What ufunc.at stores: any number is cast to the dtype of the array, but no complex one to a real one."""
    dtype = np.result_type(a)
    if np.result_type(value).kind == "c" and dtype.kind not in ("b", "c"):
        refuse(f"a complex number cannot become {dtype} by itself", "give real numbers, or a complex array")
    return np.asarray(value).astype(dtype)


FUNCTIONS: dict[Any, Any] = {}
METHODS: dict[str, Any] = {}
