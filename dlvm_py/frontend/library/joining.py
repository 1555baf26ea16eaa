"""Arrays out of arrays: concatenate and its relatives, split, tile, repeat, append, insert, delete."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import along, on_axis
from dlvm_py.frontend.library.elementwise import check_cast, element_of
from dlvm_py.frontend.library.intrinsics import axis_of, is_constant, refuse, unroll


def as_array(x: Any) -> Any:
    """An array with at least one axis."""
    if isinstance(x, (tuple, list)):
        return np.array(x)
    return x if np.ndim(x) > 0 else np.full((1,), x)


def concatenate(arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """np.concatenate of a tuple or list of arrays."""
    if not isinstance(arrays, (tuple, list)):
        return joined_rows(arrays, axis, out, dtype, casting)
    if len(arrays) == 0:
        refuse("need at least one array to concatenate")
    if out is not None and dtype is not None:
        refuse("concatenate() only takes `out` or `dtype` as an argument, but both were provided")
    parts = ()
    for a in arrays:
        a = np.array(a) if isinstance(a, (tuple, list)) else a
        if np.ndim(a) == 0:
            refuse("zero-dimensional arrays cannot be concatenated", "np.hstack joins numbers")
        parts = parts + (np.ravel(a) if axis is None else a,)
    first = parts[0]
    k = 0 if axis is None else axis_of(axis, first.ndim)
    total = 0
    for i, a in enumerate(parts):
        if a.ndim != first.ndim:
            refuse("all the input array dimensions must be of one number: arrays of different ranks are joined")
        for j in unroll(first.ndim):
            if j != k and a.shape[j] != first.shape[j]:
                raise ValueError(
                    "all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {j}, the array at index 0 has size {first.shape[j]} and the array at index {i} has "
                    f"size {a.shape[j]}"
                )
        total = total + a.shape[k]
    shape = first.shape[:k] + (total,) + first.shape[k + 1 :]
    if out is None:
        out = np.empty(shape, dtype=np.result_type(*parts) if dtype is None else dtype)
    elif out.shape != shape:
        raise ValueError("Output array is the wrong shape")
    start = 0
    for a in parts:
        check_cast(a, out, casting)
        stop = start + a.shape[k]
        out[along(k, slice(start, stop))] = a
        start = stop
    return out


def joined_rows(a: Any, axis: Any, out: Any, dtype: Any, casting: Any) -> Any:
    """The slices of one array along its first axis, one after the other along another axis."""
    if np.ndim(a) < 2:
        refuse("zero-dimensional arrays cannot be concatenated")
    if a.shape[0] == 0:
        raise ValueError("need at least one array to concatenate")
    if out is not None:
        refuse("np.concatenate of the slices of one array with out is not supported", "out[...] = np.concatenate(x)")
    if dtype is not None:
        check_cast(a, np.zeros(1, dtype), casting)
        a = a.astype(dtype)
    if axis is None:
        return np.copy(np.ravel(a))
    if a.shape[0] == 0:
        raise ValueError("need at least one array to concatenate")
    k = axis_of(axis, a.ndim - 1)
    moved = np.moveaxis(a, 0, k)
    shape = moved.shape[:k] + (moved.shape[k] * moved.shape[k + 1],) + moved.shape[k + 2 :]
    return np.copy(np.reshape(moved, shape))


def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """np.stack: along a new axis."""
    if not isinstance(arrays, (tuple, list)):
        if np.ndim(arrays) == 0:
            refuse("np.stack needs arrays")
        if arrays.shape[0] == 0:
            raise ValueError("need at least one array to stack")
        if out is not None:
            refuse("np.stack of the slices of one array with out is not supported", "out[...] = np.stack(x)")
        if dtype is not None:
            check_cast(arrays, np.zeros(1, dtype), casting)
            arrays = arrays.astype(dtype)
        return np.copy(np.moveaxis(arrays, 0, axis_of(axis, arrays.ndim)))
    parts = ()
    for a in arrays:
        if isinstance(a, (tuple, list)):
            a = np.array(a)
        if np.ndim(a) == 0:
            parts = parts + (np.full((1,), a),)
        else:
            parts = parts + (np.expand_dims(a, axis_of(axis, a.ndim + 1)),)
    for a in parts[1:]:
        if a.ndim != parts[0].ndim or a.shape != parts[0].shape:
            raise ValueError("all input arrays must have the same shape")
    return concatenate(parts, axis_of(axis, parts[0].ndim), out, dtype, casting)


def vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """np.vstack: vectors count as rows."""
    return concatenate(each_at_least_2d(tup), 0, None, dtype, casting)


def each_at_least_2d(arrays: Any) -> Any:
    """The arrays, each with two axes or more, the missing ones in front."""
    if not isinstance(arrays, (tuple, list)):
        refuse("a tuple or list of arrays is needed here")
    parts = ()
    for a in arrays:
        a = as_array(a)
        parts = parts + (a[np.newaxis, :] if a.ndim == 1 else a,)
    return parts


def hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """np.hstack: along axis 1, vectors and numbers along axis 0."""
    if not isinstance(tup, (tuple, list)):
        refuse("np.hstack needs a tuple or list of arrays")
    parts = ()
    for a in tup:
        parts = parts + (as_array(a),)
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, None, dtype, casting)


def dstack(tup: Any) -> Any:
    """np.dstack: along axis 2."""
    parts = ()
    for a in each_at_least_2d(tup):
        parts = parts + (a[:, :, np.newaxis] if a.ndim == 2 else a,)
    return concatenate(parts, 2)


def column_stack(tup: Any) -> Any:
    """np.column_stack: vectors as columns."""
    if not isinstance(tup, (tuple, list)):
        refuse("np.column_stack needs a tuple or list of arrays")
    parts = ()
    for a in tup:
        a = as_array(a)
        parts = parts + (a[:, np.newaxis] if a.ndim == 1 else a,)
    return concatenate(parts, 1)


def block(arrays: Any) -> Any:
    """np.block of a list of rows, each a list of arrays (or of one such row)."""
    if not isinstance(arrays, (tuple, list)):
        return np.copy(arrays)
    if not isinstance(arrays[0], (tuple, list)):
        return hstack(arrays)
    rows, every = (), ()
    for row in arrays:
        if not isinstance(row, (tuple, list)):
            refuse("np.block: rows of different depth")
        for part in row:
            if isinstance(part, (tuple, list)):
                refuse("np.block of more than two levels is not supported")
        parts = each_at_least_2d(row)
        rows, every = rows + (parts,), every + tuple(parts)
    if every[0].ndim > 2:
        joined = ()
        for parts in rows:
            joined = joined + (concatenate(parts, parts[0].ndim - 1),)
        return concatenate(joined, joined[0].ndim - 2)
    height, width = 0, 0
    for parts in rows:
        height = height + parts[0].shape[0]
    for part in rows[0]:
        width = width + part.shape[1]
    out = np.empty((height, width), dtype=np.result_type(*every))
    start = 0
    for parts in rows:
        stop = start + parts[0].shape[0]
        concatenate(parts, 1, out=out[start:stop])
        start = stop
    return out


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """np.append: a new array, longer by `values`."""
    if axis is None:
        return concatenate((as_array(arr), as_array(values)), None)
    return concatenate((arr, values), axis)


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """np.insert before an index, before each of several, or of a slice."""
    arr = np.asarray(arr)
    arr, k = on_axis(arr, axis)
    n = arr.shape[k]
    if isinstance(values, (tuple, list)):
        values = np.array(values)
    values = element_of(values, arr)
    if isinstance(obj, slice):
        obj = np.arange(n)[obj]
    elif isinstance(obj, (tuple, list)):
        obj = np.array(obj) if len(obj) > 0 else np.zeros(0, dtype=np.int64)
    kind = np.result_type(obj).kind
    if np.ndim(obj) == 0 and kind != "b":
        return insert_one(arr, obj, inserted(values, arr.ndim, k), k)
    if np.ndim(obj) != 1:
        refuse("np.insert needs an int, a vector of ints, or a mask of one axis, as index")
    if kind == "b":
        obj = np.flatnonzero(obj)
    elif kind == "u" and not (is_constant(obj.shape[0]) and obj.shape[0] == 1):
        refuse(f"NumPy cannot count on from indices that are {obj.dtype}", "x.astype(np.int64)")
    elif kind not in ("i", "u"):
        refuse("np.insert needs ints as indices", "x.astype(np.int64)")
    if np.ndim(values) < arr.ndim:
        values = np.reshape(values, (1,) * (arr.ndim - np.ndim(values)) + np.shape(values))
    if obj.shape[0] == 1:
        return insert_one(arr, int(obj[0]), values, k)
    return insert_several(arr, np.where(obj < 0, obj + n, obj).astype(np.int64), values, k)


def insert_one(arr: Any, obj: Any, values: Any, k: Any) -> Any:
    """Values in the order of the axes of `arr`, before one index of axis k."""
    n = arr.shape[k]
    if obj < -n or obj > n:
        raise IndexError(f"index {obj} is out of bounds for axis {k} with size {n}")
    at = obj + n if obj < 0 else obj
    count = 1
    if np.ndim(values) == arr.ndim:
        count = values.shape[k]
    out = np.empty(arr.shape[:k] + (n + count,) + arr.shape[k + 1 :], dtype=np.result_type(arr))
    out[along(k, slice(None, at))] = arr[along(k, slice(None, at))]
    out[along(k, slice(at, at + count))] = values
    out[along(k, slice(at + count, None))] = arr[along(k, slice(at, None))]
    return out


def insert_several(arr: Any, indices: Any, values: Any, k: Any) -> Any:
    """One slice of the values before each of several indices, which are those of `arr`."""
    count = indices.shape[0]
    places = np.empty(count, dtype=np.int64)
    order = np.argsort(indices, kind="stable")
    places[order] = indices[order] + np.arange(count)
    total = arr.shape[k] + count
    old = np.ones(total, dtype=np.bool_)
    old[places] = False
    out = np.empty(arr.shape[:k] + (total,) + arr.shape[k + 1 :], dtype=np.result_type(arr))
    out[along(k, places)] = values
    out[along(k, np.flatnonzero(old))] = arr
    return out


def inserted(values: Any, ndim: Any, axis: Any) -> Any:
    """The values of np.insert before one index in the order of the result's axes: the first of them is the axis."""
    if np.ndim(values) == 0:
        return values
    if np.ndim(values) == ndim:
        return np.moveaxis(values, 0, axis)
    return np.expand_dims(values, axis_of(axis, np.ndim(values) + 1))


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """np.delete of an index, of several, of a slice, or of what a mask says."""
    arr = np.asarray(arr)
    arr, k = on_axis(arr, axis)
    n = arr.shape[k]
    if not isinstance(obj, (slice, tuple, list)) and np.ndim(obj) == 0 and np.result_type(obj).kind != "b":
        if obj < -n or obj >= n:
            raise IndexError(f"index {obj} is out of bounds for axis {k} with size {n}")
        low = obj + n if obj < 0 else obj
        return concatenate((arr[along(k, slice(None, low))], arr[along(k, slice(low + 1, None))]), k)
    kept = np.ones(n, dtype=np.bool_)
    if isinstance(obj, slice):
        kept[obj] = False
    else:
        if isinstance(obj, (tuple, list)):
            obj = np.array(obj) if len(obj) > 0 else np.zeros(0, dtype=np.int64)
        if np.result_type(obj).kind == "b":
            if np.ndim(obj) != 1 or np.size(obj) != n:
                raise ValueError(
                    f"boolean array argument obj to delete must be one dimensional and match the axis length of {n}"
                )
            kept = ~np.asarray(obj)
        else:
            kept[obj] = False
    return arr[along(k, np.flatnonzero(kept))]


def first_items(a: Any, count: Any) -> Any:
    """The first items of a vector, for np.fromiter."""
    if count >= 0 and a.shape[0] < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {a.shape[0]} items.")
    return np.copy(a[:count]) if count >= 0 else a


# -- splitting ---------------------------------------------------------------------------------------


def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """np.array_split: views; the number of parts is a constant, the places may be computed."""
    k = axis_of(axis, ary.ndim)
    n = ary.shape[k]
    parts, start = (), 0
    is_list = isinstance(indices_or_sections, (tuple, list))
    if not is_list and np.ndim(indices_or_sections) == 1 and is_constant(indices_or_sections.shape[0]):
        stops = ()
        for i in unroll(indices_or_sections.shape[0]):
            stops = stops + (indices_or_sections[i],)
        indices_or_sections = stops
    if isinstance(indices_or_sections, (tuple, list)):
        for stop in indices_or_sections:
            parts = parts + (ary[along(k, slice(start, stop))],)
            start = stop
        return list(parts + (ary[along(k, slice(start, None))],))
    sections = indices_or_sections
    if np.ndim(sections) > 0 or not is_constant(sections):
        refuse("the number of parts must be a constant", "slice the array: x[i * n : (i + 1) * n]")
    if sections <= 0:
        refuse("number sections must be larger than 0.")
    for i in unroll(sections):
        stop = start + n // sections + (1 if i < n % sections else 0)
        parts = parts + (ary[along(k, slice(start, stop))],)
        start = stop
    return list(parts)


def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """np.split: views, of one length where a number of parts is given."""
    if not isinstance(indices_or_sections, (tuple, list)) and np.ndim(indices_or_sections) == 0:
        if ary.shape[axis_of(axis, ary.ndim)] % indices_or_sections != 0:
            raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


def hsplit(ary: Any, indices_or_sections: Any) -> Any:
    """np.hsplit."""
    return split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


def vsplit(ary: Any, indices_or_sections: Any) -> Any:
    """np.vsplit."""
    if ary.ndim < 2:
        refuse("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> Any:
    """np.dsplit."""
    if ary.ndim < 3:
        refuse("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


# -- repetition --------------------------------------------------------------------------------------


def tile(A: Any, reps: Any) -> Any:  # noqa: N803 - NumPy's name
    """np.tile: the array so many times along each axis."""
    x = as_array(A)
    if not isinstance(reps, (tuple, list)):
        reps = (reps,)
    counts = (1,) * max(x.ndim - len(reps), 0) + tuple(reps)
    sizes = (1,) * max(len(reps) - x.ndim, 0) + x.shape
    thin, wide, shape = (), (), ()
    for n, count in zip(sizes, counts):  # noqa: B905 - of one length
        thin, wide, shape = thin + (1, n), wide + (count, n), shape + (n * count,)
    return np.reshape(np.broadcast_to(np.reshape(x, thin), wide), shape)


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """np.repeat: each element so often; `repeats` is an int or one int for each."""
    x = as_array(a)
    x, k = on_axis(x, axis)
    n = x.shape[k]
    if isinstance(repeats, (tuple, list)):
        repeats = np.array(repeats)
    if np.result_type(repeats) == np.uint64:
        refuse("np.repeat: counts of dtype uint64 are not cast to int64", "convert with .astype(np.int64)")
    if np.ndim(repeats) == 1 and is_constant(repeats.shape[0]) and repeats.shape[0] == 1:
        repeats = repeats[0]
    if np.ndim(repeats) == 0:
        if repeats < 0 and n > 0:
            raise ValueError("negative dimensions are not allowed")
        shape = x.shape[: k + 1] + (repeats,) + x.shape[k + 1 :]
        wide = np.broadcast_to(np.expand_dims(x, k + 1), shape)
        return np.reshape(wide, x.shape[:k] + (n * repeats,) + x.shape[k + 1 :])
    if repeats.shape[0] != n:
        raise ValueError(f"operands could not be broadcast together with shape ({n},) ({repeats.shape[0]},)")
    if np.any(repeats < 0):
        raise ValueError("repeats may not contain negative values.")
    out = np.empty(x.shape[:k] + (int(np.sum(repeats)),) + x.shape[k + 1 :], dtype=np.result_type(x))
    at = 0
    for i in range(n):
        for _ in range(repeats[i]):
            out[along(k, at)] = x[along(k, i)]
            at = at + 1
    return out


FUNCTIONS = {
    np.concatenate: concatenate, np.stack: stack, np.vstack: vstack, np.hstack: hstack, np.dstack: dstack,
    np.column_stack: column_stack, np.block: block, np.append: append, np.insert: insert, np.delete: delete,
    np.array_split: array_split, np.split: split, np.hsplit: hsplit, np.vsplit: vsplit, np.dsplit: dsplit,
    np.tile: tile, np.repeat: repeat,
}  # fmt: skip
METHODS = {"repeat": repeat}
