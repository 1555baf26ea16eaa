"""Arrays as sets: sorted vectors without repetitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import along
from dlvm_py.frontend.library.intrinsics import axes_of, axis_of, refuse, unroll
from dlvm_py.frontend.library.order import counter, is_nan


def unique(
    ar: Any, return_index: Any = False, return_inverse: Any = False, return_counts: Any = False, axis: Any = None, *,
    equal_nan: Any = True,
) -> Any:  # fmt: skip
    """np.unique: in order, each once, NaN once; where each is first, which one each is, how many.

    Along an axis: of its slices, by their first elements before the others; with NaN each is another one.
    """
    ar = np.asarray(ar)
    if axis is not None and ar.ndim == 1:
        axis_of(axis, 1)
        axis = None
    if axis is None:
        s, shape = np.ravel(ar), ar.shape
        if return_index or return_inverse:
            order = np.argsort(s)
            s = s[order]
        else:
            s = np.sort(s)
        first = begins(s)
        if is_nan(s) and equal_nan:
            first[1:] &= ~(np.isnan(s[1:]) & np.isnan(s[:-1]))
        found = s[first]
    else:
        k = axis_of(axis, ar.ndim)
        s, shape = np.moveaxis(ar, k, 0), (ar.shape[k],)
        rows = np.reshape(s, (ar.shape[k], ar.size // max(ar.shape[k], 1)))
        order = np.arange(ar.shape[k])
        for column in range(rows.shape[1] - 1, -1, -1):
            order = order[np.argsort(rows[order, column])]
        first = begins(rows[order])
        found = np.moveaxis(s[order[first]], 0, k)
    results = (found,)
    if return_index:
        results = (*results, order[first])
    if return_inverse:
        inverse = np.empty(order.shape[0], np.int64)
        inverse[order] = np.cumsum(first) - 1
        results = (*results, np.reshape(inverse, shape))
    if return_counts:
        starts = np.flatnonzero(first)
        counts = np.empty(starts.shape[0], np.int64)
        counts[:] = first.shape[0] - starts
        counts[:-1] = starts[1:] - starts[:-1]
        results = (*results, counts)
    if len(results) == 1:
        return found
    return results


def begins(s: Any) -> Any:
    """Where elements, or rows, in order differ from the one before."""
    first = np.ones(s.shape[0], np.bool_)
    if s.ndim == 1:
        first[1:] = s[1:] != s[:-1]
    else:
        first[1:] = np.any(s[1:] != s[:-1], axis=1)
    return first


def isin(element: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False) -> Any:
    """np.isin: whether each element is among others; NaN is not."""
    element, wanted = np.asarray(element), np.asarray(test_elements)
    if np.iscomplexobj(element) or np.iscomplexobj(wanted):
        return complex_isin(element, wanted, invert)
    n = wanted.size
    if n == 0:
        if invert:
            return np.ones(element.shape, np.bool_)
        return np.zeros(element.shape, np.bool_)
    if np.result_type(element, wanted).kind == "i":  # not of int64 and uint64
        least, most = int(np.min(wanted)), int(np.max(wanted))
        # in floats, where the difference of two integers has room; as many as NumPy thinks worth a table
        if float(most) - float(least) <= 6.0 * (n + element.size):
            return among(element, wanted, least, most, invert)
    wanted = np.sort(np.ravel(wanted))
    place = np.minimum(np.searchsorted(wanted, element), n - 1)
    found = wanted[place] != element if invert else wanted[place] == element
    return np.asarray(found)


def among(element: Any, wanted: Any, least: Any, most: Any, invert: Any) -> Any:
    """np.isin of integers between two: by a table."""
    table = np.zeros(most - least + 1, np.bool_)
    table[np.ravel(wanted).astype(np.int64) - least] = True
    element = element.astype(np.int64)
    inside = (element >= least) & (element <= most)
    found = inside & table[np.where(inside, element - least, 0)]
    return np.asarray(~found if invert else found)


def complex_isin(element: Any, wanted: Any, invert: Any) -> Any:
    """np.isin of complex numbers: in the order of all of them, equal ones begin with one that is wanted if any is."""
    n = wanted.size
    both = np.concatenate((np.ravel(wanted), np.ravel(element)))
    order = np.argsort(both)
    s = both[order]
    start = np.maximum.accumulate(np.where(begins(s), counter(s, 0), 0))
    found = np.empty(s.shape[0], np.bool_)
    found[order] = (order < n)[start] != invert
    return np.reshape(found[n:], element.shape)


def union1d(ar1: Any, ar2: Any) -> Any:
    """np.union1d: what is in one of the two."""
    dtype = np.result_type(ar1, ar2)  # a number of Python is weak here
    return np.unique(np.concatenate((np.ravel(ar1).astype(dtype), np.ravel(ar2).astype(dtype))))


def intersect1d(ar1: Any, ar2: Any, assume_unique: Any = False, return_indices: Any = False) -> Any:
    """np.intersect1d: what is in both, and where in each of them it is first; NaN is in none."""
    if return_indices:
        return intersection_with_places(np.asarray(ar1), np.asarray(ar2), assume_unique)
    dtype = np.result_type(np.asarray(ar1), np.asarray(ar2))
    if assume_unique:
        a = np.sort(np.ravel(ar1))
    else:
        a = np.unique(ar1)
    return a[np.isin(a, ar2)].astype(dtype)


def intersection_with_places(ar1: Any, ar2: Any, assume_unique: Any) -> Any:
    """np.intersect1d with return_indices: both as one, in order; what is in both stands there twice."""
    a, b = np.ravel(ar1), np.ravel(ar2)
    if not assume_unique:
        a, first = np.unique(a, return_index=True)
        b, second = np.unique(b, return_index=True)
    both = np.concatenate((a, b))
    order = np.argsort(both, kind="stable")
    both = both[order]
    last = max(both.shape[0] - 1, 0)
    places = np.flatnonzero(both[1:] == both[:last])
    in_a, in_b = order[places], order[places + 1] - a.shape[0]
    if assume_unique:
        return both[places], in_a, in_b
    return both[places], first[in_a], second[in_b]


def setdiff1d(ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    """np.setdiff1d: what is in the first and not in the second; in the order of the first if `assume_unique`."""
    if assume_unique:
        a = np.ravel(ar1)
    else:
        a = np.unique(ar1)
    return a[np.isin(a, ar2, invert=True)]


def setxor1d(ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    """np.setxor1d: what is in one of the two only."""
    return np.sort(np.concatenate((setdiff1d(ar1, ar2, assume_unique), setdiff1d(ar2, ar1, assume_unique))))


def trim_zeros(filt: Any, trim: Any = "fb", axis: Any = None) -> Any:
    """np.trim_zeros: without the zeros at the front ("f") and the back ("b") of an axis, some axes, or all; a view."""
    if isinstance(filt, (tuple, list)):
        refuse("np.trim_zeros of a list is a list", "np.trim_zeros(np.array(x))")
    sides = trim.lower()
    if "f" not in sides and "b" not in sides:
        refuse(f"unexpected character(s) in `trim`: '{trim}'")
    axes = axes_of(axis, np.ndim(filt))
    if np.ndim(filt) == 0:
        return filt
    found = filt
    for k in unroll(len(axes)):
        found = trimmed(found, filt != 0, axes[k], sides)
    return found


def trimmed(x: Any, kept: Any, axis: Any, sides: Any) -> Any:
    """The part of an array along one axis between the first and the last place with a flag."""
    for k in unroll(kept.ndim):
        if k != axis:
            kept = np.any(kept, axis=k, keepdims=True)
    places = np.flatnonzero(kept)
    first, last = 0, kept.size
    if places.shape[0] == 0:
        last = 0
    else:
        if "f" in sides:
            first = places[0]
        if "b" in sides:
            last = places[-1] + 1
    return x[along(axis, slice(first, last))]


def unique_counts(x: Any) -> Any:
    """np.unique_counts: (values, counts)."""
    return CountsResult(*unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x: Any) -> Any:
    """np.unique_inverse: (values, inverse_indices)."""
    return InverseResult(*unique(x, return_inverse=True, equal_nan=False))


def unique_all(x: Any) -> Any:
    """np.unique_all: (values, indices, inverse_indices, counts)."""
    return AllResult(*unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False))


# NumPy 2 brought these, and their named tuples
NEWER: dict[Any, Any] = {}
if hasattr(np, "unique_all"):
    NEWER = {np.unique_counts: unique_counts, np.unique_inverse: unique_inverse, np.unique_all: unique_all}
    CountsResult, InverseResult, AllResult = (type(f(np.zeros(1))) for f in NEWER)
FUNCTIONS = {
    **NEWER,
    np.union1d: union1d, np.intersect1d: intersect1d, np.setdiff1d: setdiff1d, np.setxor1d: setxor1d,
    np.trim_zeros: trim_zeros, np.unique: unique, np.isin: isin,
}  # fmt: skip
METHODS: dict[str, Any] = {}
