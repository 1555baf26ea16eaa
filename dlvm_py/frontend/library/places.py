"""Indexing by function: take, put, choose, compress, triangles, diagonals, and the arithmetic of flat indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import along
from dlvm_py.frontend.library.elementwise import check_cast, element_of
from dlvm_py.frontend.library.intrinsics import axis_of, is_constant, refuse, unroll
from dlvm_py.frontend.library.order import counter

# -- taking and putting ------------------------------------------------------------------------------


def as_places(indices: Any, casting: Any = "safe") -> Any:
    """Indices as int64, in which they are counted on; refused where NumPy does not cast them so."""
    if isinstance(indices, (tuple, list)):
        indices = np.array(indices) if len(indices) > 0 else np.zeros(0, dtype=np.int64)
    dtype = np.result_type(indices)
    if dtype == np.int64:
        return indices
    if not np.can_cast(dtype, np.int64, casting):
        refuse(
            f"Cannot cast array data from dtype('{dtype}') to dtype('int64') according to the rule '{casting}'",
            "convert the indices with .astype(np.int64)",
        )
    return np.int64(indices) if np.ndim(indices) == 0 else indices.astype(np.int64)


def in_mode(indices: Any, n: Any, mode: Any) -> Any:
    """Indices of an axis of n elements by a mode: raise, wrap around, or clip."""
    if mode == "raise":
        return indices
    if mode == "wrap":
        return indices % n
    if mode == "clip":
        return np.clip(indices, 0, n - 1)
    refuse("mode must be 'raise', 'wrap' or 'clip'")


def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    """np.take: elements of the flat array, or along an axis."""
    if out is not None:
        return stored(take(a, indices, axis, None, mode), out, "take")
    indices = as_places(indices)
    if axis is None:
        a = np.ravel(a)
        if mode == "clip":
            return a[np.clip(indices, 0, a.shape[0] - 1)]  # a known range as long as it has no name
        return a[in_mode(indices, a.shape[0], mode)]
    axis = axis_of(axis, a.ndim)
    found = a[along(axis, in_mode(indices, a.shape[axis], mode))]
    return found if np.ndim(found) == 0 else np.copy(found)


def stored(found: Any, out: Any, name: str) -> Any:
    """Elements that were taken as they are, in an array of their shape and dtype."""
    if np.ndim(out) != np.ndim(found) or np.result_type(out) != np.result_type(found):
        refuse(f"`out` of np.{name} must have the axes and the dtype of the result", f"out[...] = np.{name}(...)")
    if out.shape != found.shape:
        raise ValueError(f"output array does not match result of ndarray.{name}")
    out[...] = found
    return out


def put(a: Any, ind: Any, v: Any, mode: Any = "raise") -> None:
    """np.put: a.flat[ind] = v, with the values again from the first where they are fewer."""
    ind = as_places(ind)
    if np.ndim(ind) == 0:
        ind = np.full(1, ind)
    ind = np.ravel(in_mode(ind, a.size, mode))
    n = a.size
    if isinstance(v, (tuple, list)):
        v = np.array(v)
    if np.size(v) == 0 or ind.shape[0] == 0:  # then NumPy does not look at the indices, or there are none
        return
    if a.ndim == 1:
        places = ind
    else:
        if np.any((ind >= n) | (ind < -n)):
            raise IndexError("index is out of bounds for the size of the array")
        places = unravel_index(np.where(ind < 0, ind + n, ind), a.shape)
    if np.size(v) == ind.shape[0] and np.ndim(v) > 0:
        a[places] = np.ravel(element_of(v, a))
    else:
        a[places] = cycled(element_of(v, a), ind.shape[0])


def cycled(values: Any, n: Any) -> Any:
    """n elements of flat values, from the first again behind the last."""
    if isinstance(values, (tuple, list)):
        values = np.array(values)
    if np.ndim(values) == 0:
        return values
    values = np.ravel(values)
    return values[np.arange(n) % max(values.shape[0], 1)]


def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """np.take_along_axis: one index for each place of the other axes."""
    if axis is None:
        return np.ravel(arr)[np.ravel(indices)]
    return arr[grid(arr, indices, axis_of(axis, arr.ndim))]


def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """np.put_along_axis."""
    if axis is None:
        put(arr, indices, values)
    else:
        arr[grid(arr, indices, axis_of(axis, arr.ndim))] = values


def grid(a: Any, indices: Any, axis: int) -> Any:
    """The index of `a` that is `indices` along one axis and every place along the others."""
    if np.result_type(indices).kind not in ("i", "u"):
        refuse("`indices` must be an integer array", "convert with .astype(np.int64)")
    if indices.ndim != a.ndim:
        refuse("`indices` and the array must have the same number of dimensions")
    found = ()
    for k in unroll(a.ndim):
        found = (*found, indices if k == axis else counter(a, k))
    return found


def choose(a: Any, choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    """np.choose: of several arrays, each element from the one that `a` says."""
    if out is not None:
        return stored(choose(a, choices, None, mode), out, "choose")
    if not isinstance(choices, (tuple, list)):
        return chosen_rows(as_places(a), choices, mode)
    n = len(choices)
    which = in_mode(as_places(a), n, mode)
    if mode == "raise" and (np.any(which < 0) or np.any(which >= n)):
        raise ValueError("invalid entry in choice array")
    found = choices[0]
    for k in unroll(1, n):
        found = np.where(which == k, choices[k], found)
    return np.where(which == 0, choices[0], found)


def choose_method(a: Any, *choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    """x.choose(choices), x.choose(a, b, ...): all places are choices."""
    return choose(a, choices[0] if len(choices) == 1 else choices, out, mode)


def chosen_rows(a: Any, choices: Any, mode: Any) -> Any:
    """np.choose from the rows of an array."""
    if choices.shape[0] == 0:
        raise ValueError("0-length sequence.")
    which = in_mode(a, choices.shape[0], mode)
    if mode == "raise" and (np.any(which < 0) or np.any(which >= choices.shape[0])):
        raise ValueError("invalid entry in choice array")
    shape = np.broadcast_shapes(np.shape(which), choices.shape[1:])
    rows = np.reshape(choices, choices.shape[:1] + (1,) * (len(shape) + 1 - choices.ndim) + choices.shape[1:])
    rows = np.broadcast_to(rows, choices.shape[:1] + shape)
    return np.take_along_axis(rows, np.broadcast_to(which, (1, *shape)), 0)[0]


def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """np.compress: along an axis what a vector of flags, perhaps a short one, says."""
    if isinstance(condition, (tuple, list)):
        condition = np.array(condition)
    if np.ndim(condition) != 1:
        refuse("condition must be a 1-d array")
    return take(a, flatnonzero(condition), axis, out)


def compress_method(a: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    """x.compress(condition)."""
    return compress(condition, a, axis, out)


def extract(condition: Any, arr: Any) -> Any:
    """np.extract: the elements where a condition holds, flat."""
    return take(arr, flatnonzero(condition))


def place(arr: Any, mask: Any, vals: Any) -> None:
    """np.place: arr[mask] = vals, with the values again from the first where they are fewer."""
    flags = np.asarray(mask) != 0
    n = np.count_nonzero(flags)
    if isinstance(vals, (tuple, list)):
        vals = np.array(vals)
    elif np.ndim(vals) > 0:
        check_cast(vals, arr, "safe")
    if np.size(vals) == 0 and n > 0:
        raise ValueError("Cannot insert from an empty array!")
    arr[flags] = cycled(vals, n)


def putmask(a: Any, mask: Any, values: Any) -> None:
    """np.putmask: a[mask] = values[mask], values repeated to the size of `a`."""
    flags = np.asarray(mask) != 0
    if isinstance(values, (tuple, list)):
        values = np.array(values)
    elif np.ndim(values) > 0:
        check_cast(values, a, "safe")
    if np.ndim(values) == 0:
        a[flags] = values
    else:
        a[flags] = np.reshape(cycled(values, a.size), a.shape)[flags]


def flatnonzero(a: Any) -> Any:
    """np.flatnonzero: the places in the flat array."""
    return np.nonzero(np.ravel(a))[0]


def ix_(*args: Any) -> Any:
    """np.ix_: vectors, each along an axis of its own."""
    found = ()
    for k in unroll(len(args)):
        part = args[k]
        if isinstance(part, (tuple, list)):
            part = np.array(part)
        if part.ndim != 1:
            refuse("Cross index must be 1 dimensional")
        if part.dtype == np.bool_:
            part = flatnonzero(part)
        for n in unroll(len(args)):
            if n != k:
                part = np.expand_dims(part, n)
        found = (*found, part)
    return found


# -- choosing by conditions ---------------------------------------------------------------------------


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """np.piecewise: functions (or numbers) of the elements where conditions hold; of several the last one."""
    found = np.zeros_like(x)
    if not isinstance(condlist, (tuple, list)):
        if np.ndim(condlist) > 1:
            refuse("np.piecewise takes each row of a mask for a condition", "give a list: [x < 0]")
        condlist = (condlist,)
    n = len(condlist)
    if len(funclist) == n + 1:
        rest = np.ones(x.shape, np.bool_)
        for k in unroll(n):
            rest = rest & ~condlist[k]
        condlist = (*condlist, rest)
    for k in unroll(len(funclist)):
        function = funclist[k]
        if callable(function):
            found[condlist[k]] = function(x[condlist[k]], *args, **kw)
        else:
            found[condlist[k]] = function
    return found


# -- diagonals and triangles ---------------------------------------------------------------------------


def diag(v: Any, k: Any = 0) -> Any:
    """np.diag: a matrix with a diagonal, or the diagonal of a matrix, a view."""
    if np.result_type(k).kind == "b" and not isinstance(k, bool):
        refuse("the diagonal is a NumPy bool", "write int(k)")
    k = as_places(k, "same_kind")
    if v.ndim == 1:
        n = v.shape[0]
        found = np.zeros((n + abs(k), n + abs(k)), v.dtype)
        rows = np.arange(n)
        found[rows + max(-k, 0), rows + max(k, 0)] = v
        return found
    if v.ndim != 2:
        refuse("np.diag: input must be 1- or 2-d")
    return np.diagonal(v, k)


def diagflat(v: Any, k: Any = 0) -> Any:
    """np.diagflat: the flat elements on a diagonal."""
    return diag(np.ravel(v), k)


def diag_indices(n: Any, ndim: Any = 2) -> Any:
    """np.diag_indices."""
    return (np.arange(n),) * ndim


def diag_indices_from(arr: Any) -> Any:
    """np.diag_indices_from."""
    if np.ndim(arr) < 2:
        refuse("input array must be at least 2-d")
    for k in unroll(1, arr.ndim):
        if arr.shape[k] != arr.shape[0]:
            raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(arr.shape[0], arr.ndim)


def fill_diagonal(a: Any, val: Any, wrap: Any = False) -> None:
    """np.fill_diagonal, in place."""
    if a.ndim < 2:
        refuse("np.fill_diagonal: array must be at least 2-d")
    if wrap and a.ndim == 2 and a.shape[0] > a.shape[1]:  # a tall matrix, on whose next row the diagonal goes on
        step = a.shape[1] + 1
        rows = np.arange((a.size + step - 1) // step) * step
        a[rows // max(a.shape[1], 1), rows % max(a.shape[1], 1)] = cycled(element_of(val, a), rows.shape[0])
        return
    n = a.shape[0]
    for k in unroll(1, a.ndim):
        if a.ndim > 2 and a.shape[k] != n:
            raise ValueError("All dimensions of input must be of equal length")
        n = min(n, a.shape[k])
    a[(np.arange(n),) * a.ndim] = cycled(element_of(val, a), n)


def mask_indices(n: Any, mask_func: Any, k: Any = 0) -> Any:
    """np.mask_indices: where a function such as np.triu leaves ones."""
    return np.nonzero(mask_func(np.ones((n, n), dtype=np.int64), k) != 0)


def below(n: Any, m: Any, k: Any) -> Any:
    """Flags of the elements on and below the k-th diagonal."""
    if np.ndim(k) != 0 or np.result_type(k).kind not in ("i", "u") and not isinstance(k, bool):
        refuse("the diagonal must be one int", "write int(k)")
    # NumPy counts in the dtype of these, where -k wraps around: what it then gives or raises depends on the value
    if np.result_type(k).kind == "u":
        refuse(f"the diagonal is unsigned (a NumPy {np.result_type(k)})", "write int(k)")
    if np.result_type(m).kind == "u" and not (is_constant(k) and k == 0):
        refuse(f"the number of columns is unsigned (a NumPy {np.result_type(m)})", "write int(m)")
    return np.expand_dims(np.arange(n), 1) + k >= np.arange(m)


def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Any:  # noqa: N803 - NumPy's names
    """np.tri: ones on and below a diagonal."""
    m = N if M is None else M
    return below(N, m, k).astype(dtype)


def tril(m: Any, k: Any = 0) -> Any:
    """np.tril: zeros above the k-th diagonal."""
    return np.where(below(rows(m), m.shape[-1], k), m, np.result_type(m).type(0))


def rows(m: Any) -> Any:
    """How many rows a matrix has; a vector stands for all rows of a square one."""
    if m.ndim == 0:
        refuse("tri() missing 1 required positional argument: 'N'", "give a matrix")
    return m.shape[-1] if m.ndim == 1 else m.shape[-2]


def triu(m: Any, k: Any = 0) -> Any:
    """np.triu: zeros below the k-th diagonal."""
    return np.where(below(rows(m), m.shape[-1], k - 1), np.result_type(m).type(0), m)


def tril_indices(n: Any, k: Any = 0, m: Any = None) -> Any:
    """np.tril_indices."""
    return np.nonzero(below(n, n if m is None else m, k))


def triu_indices(n: Any, k: Any = 0, m: Any = None) -> Any:
    """np.triu_indices."""
    return np.nonzero(~below(n, n if m is None else m, k - 1))


def require_matrix(arr: Any) -> None:
    """NumPy's error for what has another number of axes than two."""
    if np.ndim(arr) != 2:
        refuse("input array must be 2-d", "arr.shape has the extents: np.tril_indices(n, k, m)")


def tril_indices_from(arr: Any, k: Any = 0) -> Any:
    """np.tril_indices_from."""
    require_matrix(arr)
    return tril_indices(arr.shape[-2], k, arr.shape[-1])


def triu_indices_from(arr: Any, k: Any = 0) -> Any:
    """np.triu_indices_from."""
    require_matrix(arr)
    return triu_indices(arr.shape[-2], k, arr.shape[-1])


# -- flat indices ---------------------------------------------------------------------------------------


def unravel_index(indices: Any, shape: Any, order: Any = "C") -> Any:
    """np.unravel_index: the index of every axis from the one of the flat array."""
    if order not in ("C", "F"):
        refuse("np.unravel_index: only 'C' or 'F' order is permitted")
    if not isinstance(shape, (tuple, list)):
        shape = (shape,)
    size = 1
    for n in shape:
        size = size * n
    indices = as_places(indices, "same_kind")
    if np.ndim(indices) == 0:
        indices = np.int64(indices)
    if np.any(indices < 0) or np.any(indices >= size):
        raise ValueError(f"index is out of bounds for array with size {size}")
    found = ()
    for k in unroll(len(shape)):
        n = shape[k if order == "F" else len(shape) - 1 - k]
        found = (*found, indices % n) if order == "F" else (indices % n, *found)
        indices = indices // n
    return found


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Any:
    """np.ravel_multi_index: the index of the flat array from those of the axes."""
    if order not in ("C", "F"):
        refuse("np.ravel_multi_index: only 'C' or 'F' order is permitted")
    if len(multi_index) != len(dims):
        refuse("np.ravel_multi_index needs an index for each axis")
    if order == "F":
        return ravel_multi_index(multi_index[::-1], dims[::-1], mode[::-1] if isinstance(mode, tuple) else mode)
    found = 0
    for k in unroll(len(dims)):
        own = mode[k] if isinstance(mode, tuple) else mode
        part = in_mode(as_places(multi_index[k], "same_kind"), dims[k], own)
        if own == "raise" and (np.any(part < 0) or np.any(part >= dims[k])):
            raise ValueError("invalid entry in coordinates array")
        found = found * dims[k] + part
    return np.int64(found) if np.ndim(found) == 0 else found


FUNCTIONS: dict[Any, Any] = {
    np.take: take, np.put: put, np.take_along_axis: take_along_axis, np.put_along_axis: put_along_axis,
    np.choose: choose, np.compress: compress, np.extract: extract, np.place: place, np.putmask: putmask,
    np.flatnonzero: flatnonzero, np.ix_: ix_, np.piecewise: piecewise,
    np.diag: diag, np.diagflat: diagflat, np.diag_indices: diag_indices,
    np.diag_indices_from: diag_indices_from, np.fill_diagonal: fill_diagonal, np.mask_indices: mask_indices,
    np.tri: tri, np.tril: tril,
    np.triu: triu, np.tril_indices: tril_indices, np.triu_indices: triu_indices,
    np.tril_indices_from: tril_indices_from, np.triu_indices_from: triu_indices_from,
    np.unravel_index: unravel_index, np.ravel_multi_index: ravel_multi_index,
}  # fmt: skip
METHODS: dict[str, Any] = {
    "take": take, "put": put, "choose": choose_method, "compress": compress_method,
}  # fmt: skip
