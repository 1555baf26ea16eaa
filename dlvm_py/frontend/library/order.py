"""What rests on sorting and searching: extremes by place, partitions, counts of bins, histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import on_axis
from dlvm_py.frontend.library.bin_rules import number_of_bins
from dlvm_py.frontend.library.elementwise import deliver
from dlvm_py.frontend.library.intrinsics import axis_of, refuse, unroll


def counter(a: Any, axis: int) -> Any:
    """0, 1, ... along an axis of `a`, with extents of 1 along the others."""
    places = np.arange(a.shape[axis])
    for k in unroll(a.ndim):
        if k != axis:
            places = np.expand_dims(places, k)
    return places


def is_nan(a: Any) -> bool:
    """Whether elements of this dtype can be NaN (known when the call is compiled)."""
    return np.result_type(a).kind in ("f", "c") or np.result_type(a).name == "bfloat16"


BLOCK = 2048  # elements: they lie in the nearest cache when they are read again


def extreme(a: Any, largest: bool) -> Any:
    """The largest or smallest number of a vector, NaN if there is one."""
    if largest:
        return np.max(a)
    return np.min(a)


def place_in_vector(a: Any, largest: bool) -> Any:
    """The first place of the largest or smallest number of a vector: in the first block that has it."""
    start = 0
    best = extreme(a[:BLOCK], largest)
    for k in range(BLOCK, a.shape[0], BLOCK):
        found = extreme(a[k : k + BLOCK], largest)
        if largest:
            wins = found > best
        else:
            wins = found < best
        if is_nan(a):
            wins = wins or (np.isnan(found) and not np.isnan(best))
        if wins:
            best = found
            start = k
    block = a[start : start + BLOCK]
    wins = block == best
    if is_nan(a):
        wins = wins | np.isnan(block)
    return start + np.min(np.where(wins, counter(block, 0), BLOCK))


def extreme_place(a: Any, axis: Any, keepdims: Any, largest: bool) -> Any:
    """The first place of the largest or smallest element, NaN before all, along an axis or of all."""
    if axis is None:
        found = extreme_place(np.ravel(a), 0, False, largest)
        if keepdims and a.ndim > 0:
            return np.full((1,) * a.ndim, found)
        return found
    axis = axis_of(axis, a.ndim)
    if a.shape[axis] == 0:
        if largest:
            raise ValueError("attempt to get argmax of an empty sequence")
        raise ValueError("attempt to get argmin of an empty sequence")
    if a.ndim == 1 and not keepdims:
        return place_in_vector(a, largest)
    if largest:
        best = np.max(a, axis=axis, keepdims=True)
    else:
        best = np.min(a, axis=axis, keepdims=True)
    wins = a == best
    if is_nan(a):
        wins = wins | np.isnan(a)
    return np.min(np.where(wins, counter(a, axis), a.shape[axis]), axis=axis, keepdims=keepdims)


def deliver_places(found: Any, out: Any) -> Any:
    """Places, in `out` if there is one, which NumPy takes for an array of them: its dtype must fit in theirs."""
    if out is not None and not np.can_cast(np.result_type(out), np.int64, "safe"):
        refuse(
            f"Cannot cast array data from dtype('{np.result_type(out)}') to dtype('int64') by the rule 'safe'",
            "give an array of np.int64",
        )
    return deliver(found, out)


def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """np.argmax: the first one of several, NaN if there is one."""
    return deliver_places(extreme_place(np.asarray(a), axis, keepdims, True), out)


def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """np.argmin: the first one of several, NaN if there is one."""
    return deliver_places(extreme_place(np.asarray(a), axis, keepdims, False), out)


def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """np.nanargmax: ValueError where all are NaN."""
    if is_nan(a):
        found = extreme_place(np.where(np.isnan(a), -np.inf, a), axis, keepdims, True)
        if np.any(np.all(np.isnan(a), axis=axis)):
            raise ValueError("All-NaN slice encountered")
        return deliver_places(found, out)
    return deliver_places(extreme_place(a, axis, keepdims, True), out)


def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """np.nanargmin: ValueError where all are NaN."""
    if is_nan(a):
        found = extreme_place(np.where(np.isnan(a), np.inf, a), axis, keepdims, False)
        if np.any(np.all(np.isnan(a), axis=axis)):
            raise ValueError("All-NaN slice encountered")
        return deliver_places(found, out)
    return deliver_places(extreme_place(a, axis, keepdims, False), out)


def check_kth(kth: Any, n: int) -> None:
    """ValueError unless every kth is a place of an axis of n elements."""
    if not isinstance(kth, (tuple, list)):
        kth = (kth,)
    for k in kth:
        if n > 0 and (k >= n or k < -n):
            raise ValueError(f"kth(={k}) out of bounds ({n})")


MANY = 2048  # elements from which on a sample saves more than it costs


def limits_around(a: Any, k: Any) -> Any:
    """Between which two elements of a vector, or beyond which one, the k-th in order and the next most probably lie.

    They are the lower and the upper limit, and for each whether there is one, as a sample says.
    Source: Floyd and Rivest, Expected time bounds for selection, CACM 18 (1975).
    """
    step = int(np.cbrt(a.shape[0]))
    sample = np.sort(a[::step])
    m = sample.shape[0]
    spread = int(1.5 * np.sqrt(m)) + 1
    first, last = k // step - spread, k // step + spread + 1
    return sample[max(first, 0)], sample[min(last, m - 1)], first > 0, last < m


def may_be_selected(a: Any) -> Any:
    """Whether limits around an element of a vector can be found, and pay."""
    return a.shape[0] >= MANY and not (is_nan(a) and np.any(np.isnan(a)))


def partition(a: Any, kth: Any, axis: Any = -1) -> Any:
    """np.partition: of a vector what lies near the kth element is in order; otherwise, or if there are several, all."""
    a, axis = on_axis(a, axis)
    n = a.shape[axis]
    check_kth(kth, n)
    if a.ndim != 1 or np.ndim(kth) != 0 or a.dtype.kind not in ("i", "u", "f"):
        return np.sort(a, axis)
    out, between, start = np.empty_like(a), a, 0
    if may_be_selected(a):
        k = int(kth) % n
        low, high, is_above, is_below = limits_around(a, k)
        below, behind = a < low, a > high
        start = np.count_nonzero(below) if is_above else 0
        end = n - np.count_nonzero(behind) if is_below else n
        if start <= k < end:
            if is_above:
                out[:start] = a[below]
            if is_below:
                out[end:] = a[behind]
            between = a[((a >= low) | (not is_above)) & ((a <= high) | (not is_below))]
        else:
            start = 0
    out[start : start + between.shape[0]] = np.sort(between)
    return out


def partition_in_place(a: Any, kth: Any, axis: Any = -1) -> None:
    """x.partition(kth)."""
    a[...] = partition(a, kth, axis)


def argpartition(a: Any, kth: Any, axis: Any = -1) -> Any:
    """np.argpartition: places, which are in order where elements that np.partition gives would be."""
    a, axis = on_axis(a, axis)
    n = a.shape[axis]
    check_kth(kth, n)
    if a.ndim != 1 or np.ndim(kth) != 0 or a.dtype.kind not in ("i", "u", "f"):
        return np.argsort(a, axis)
    if may_be_selected(a):
        k = int(kth) % n
        low, high, is_above, is_below = limits_around(a, k)
        below, behind = (a < low) & is_above, (a > high) & is_below
        between = np.flatnonzero(~(below | behind))
        start, end = np.count_nonzero(below), n - np.count_nonzero(behind)
        if start <= k < end:
            out = np.empty(n, np.int64)
            out[:start] = np.flatnonzero(below)
            out[start:end] = between[np.argsort(a[between])]
            out[end:] = np.flatnonzero(behind)
            return out
    return np.argsort(a)


def complex_argsort(a: Any, axis: Any) -> Any:
    """np.argsort of complex numbers: by the real parts, then the imaginary ones; what has a NaN is behind the rest.

    Among these NumPy puts a NaN in the imaginary part first, then one in the real part, then both.
    """
    order = np.argsort(a.imag, axis)
    order = np.take_along_axis(order, np.argsort(np.take_along_axis(a.real, order, axis), axis), axis)
    if np.any(np.isnan(a)):
        parts = 2 * np.isnan(a.real) + np.isnan(a.imag)
        order = np.take_along_axis(order, np.argsort(np.take_along_axis(parts, order, axis), axis), axis)
    return order


def complex_sort(a: Any, axis: Any) -> Any:
    """np.sort of complex numbers."""
    return np.take_along_axis(a, complex_argsort(a, axis), axis)


def stable_order(keys: Any, backwards: Any) -> Any:
    """The places of a vector's elements in order, descending if `backwards`; equal ones stay as they are."""
    if backwards:
        return keys.shape[0] - 1 - np.argsort(keys[::-1], kind="stable")[::-1]
    return np.argsort(keys, kind="stable")


def in_order(a: Any, sorter: Any) -> Any:
    """The elements of a vector by the places that an argsort found."""
    a, sorter = np.asarray(a), np.asarray(sorter)
    if np.result_type(sorter).kind not in ("i", "u"):
        refuse("sorter must only contain integers", "np.argsort(a)")
    if sorter.shape[0] != a.shape[0]:
        raise ValueError("sorter.size must equal len(a)")
    return a[sorter]


def lexsort(keys: Any, axis: Any = -1) -> Any:
    """np.lexsort: by the last key first; keys are a tuple of arrays or the rows of one."""
    if isinstance(keys, (tuple, list)) and np.ndim(keys[0]) > 1:
        return lexsort_along(keys, axis_of(axis, np.ndim(keys[0])))
    if not isinstance(keys, (tuple, list)) and keys.ndim == 3:
        if keys.shape[0] == 0:
            raise TypeError("need sequence of keys with len > 0 in lexsort")
        k = axis_of(axis, 2)
        order = np.argsort(keys[0], k)
        for i in range(1, keys.shape[0]):
            order = np.take_along_axis(order, np.argsort(np.take_along_axis(keys[i], order, k), k), k)
        return order
    if axis != -1 and axis != 0:
        refuse(f"axis {axis} is out of bounds for keys of one axis")
    if not isinstance(keys, (tuple, list)):
        if keys.ndim != 2:
            refuse("np.lexsort needs keys of one axis")
        if keys.shape[0] == 0:
            raise TypeError("need sequence of keys with len > 0 in lexsort")
        order = np.arange(keys.shape[1])
        for row in keys:
            order = order[np.argsort(row[order])]
        return order
    for key in keys:
        if key.ndim != 1:
            refuse("np.lexsort needs keys of one axis")
    order = np.argsort(keys[0])
    for k in unroll(1, len(keys)):
        order = order[np.argsort(keys[k][order])]
    return order


def lexsort_along(keys: Any, axis: Any) -> Any:
    """np.lexsort of a tuple of arrays of several axes, along one of them."""
    order = np.argsort(keys[0], axis)
    for k in unroll(1, len(keys)):
        if np.shape(keys[k]) != np.shape(keys[0]):
            raise ValueError("all keys need to be the same shape")
        order = np.take_along_axis(order, np.argsort(np.take_along_axis(keys[k], order, axis), axis), axis)
    return order


# -- histograms --------------------------------------------------------------------------------------


def digitize(x: Any, bins: Any, right: Any = False) -> Any:
    """np.digitize: which of the intervals between bins, in either order, the elements are in."""
    bins = np.asarray(bins)
    if bins.ndim != 1:
        refuse("np.digitize needs a vector of bins")
    n = bins.shape[0]
    k = 1
    while k < n and bins[k] == bins[0]:
        k += 1
    up = k >= n or bins[0] < bins[k]  # the first two that differ say which; a NaN is out of order with nothing
    before, behind = bins[: max(n - 1, 0)], bins[1:]
    if np.any(before > behind if up else before < behind):
        raise ValueError("bins must be monotonically increasing or decreasing")
    side = "left" if right else "right"
    if up:
        found = np.searchsorted(bins, x, side)
    else:
        found = n - np.searchsorted(bins[::-1], x, side)
    return found


def bincount(x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    """np.bincount: how often each of 0, 1, ... comes, or the sums of the weights that come with it."""
    x = np.asarray(x)
    if x.ndim != 1:
        refuse("np.bincount needs an array of one axis")
    if x.dtype == np.bool_:
        x = x.astype(np.int64)
    if minlength < 0:
        raise ValueError("'minlength' must not be negative")
    n = minlength
    if x.shape[0] > 0:
        least, most = np.min(x), np.max(x)  # one pass for both
        if least < 0:
            raise ValueError("'list' argument must have no negative elements")
        n = max(n, int(most) + 1)
    if weights is None:
        counts = np.zeros(n, np.int64)
        np.add.at(counts, x, 1)
        return counts
    weights = np.asarray(weights)
    if weights.shape[0] != x.shape[0]:
        raise ValueError("The weights and list don't have the same length.")
    sums = np.zeros(n, np.float64)
    np.add.at(sums, x, weights)
    return sums


def bin_edges(a: Any, bins: Any, range: Any) -> Any:  # noqa: A002 - NumPy's name
    """The edges of the bins of one variable, floating-point numbers of its dtype."""
    if isinstance(bins, (tuple, list)) or np.ndim(bins) == 1:
        return edges_between(a, bins, range)
    low, high = _limits(a, bins, range)
    return _even_edges(a, bins, low, high)


def _even_edges(a: Any, bins: Any, low: Any, high: Any) -> Any:
    """Edges at even distances, of the dtype of floats."""
    edges = np.linspace(low, high, bins + 1)
    if is_nan(a):
        edges = edges.astype(np.result_type(a))
    if np.any(edges[:-1] >= edges[1:]):
        raise ValueError(f"Too many bins for data range. Cannot create {bins} finite-sized bins.")
    return edges


def edges_between(a: Any, bins: Any, range: Any) -> Any:  # noqa: A002 - NumPy's name
    """The edges of so many bins of one width, from the least to the largest element or over a range; or as given."""
    if isinstance(bins, (tuple, list)) or np.ndim(bins) == 1:
        edges = np.asarray(bins)
        if np.any(edges[:-1] > edges[1:]):
            raise ValueError("`bins` must increase monotonically, when an array")
        return edges
    low, high = _limits(a, bins, range)
    return np.linspace(low, high, bins + 1)


def _limits(a: Any, bins: Any, range: Any) -> Any:  # noqa: A002 - NumPy's name
    """Where the first of so many bins of one width begins, and where the last one ends."""
    low, high = 0.0, 1.0
    if range is not None:
        low, high = range[0] + 0.0, range[1] + 0.0
    elif a.shape[0] > 0:
        low, high = np.min(a) + 0.0, np.max(a) + 0.0
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError("autodetected range is not finite")
    if low > high:
        raise ValueError("max must be larger than min in range parameter.")
    if low == high:
        low, high = low - 0.5, high + 0.5
    if bins < 1:
        raise ValueError("`bins` must be positive, when an integer")
    return low, high


def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:  # noqa: A002
    """np.histogram: counts or sums of weights in intervals, the last of which has both of its ends; and the edges."""
    a = np.ravel(a)
    if isinstance(bins, str):
        bins = number_of_bins(a, bins, range, weights)
    if isinstance(bins, (tuple, list)) or np.ndim(bins) == 1:
        edges = bin_edges(a, bins, range)
        n = edges.shape[0] - 1
        inside = (a >= edges[0]) & (a <= edges[n])
        place = np.searchsorted(edges, a, "right") - 1
        place = np.where(a == edges[n], n - 1, place)
    else:
        low, high = _limits(a, bins, range)
        edges = _even_edges(a, bins, low, high)
        n = edges.shape[0] - 1
        inside = (a >= edges[0]) & (a <= edges[n])
        place = _even_place(a, inside, edges, low, high)
    # one bin more, for what lies in none; clipping, which changes nothing, says that all are in range
    place = np.where(inside, place, n)
    if weights is None:
        counts = np.zeros(n + 1, np.int64)
        np.add.at(counts, np.clip(place, 0, n), 1)
        counts = counts[:n]
        if density:
            return counts / (edges[1:] - edges[:n]) / np.sum(counts), edges
        return counts, edges
    weights = np.ravel(weights)
    sums = np.zeros(n + 1, weights.dtype)
    np.add.at(sums, np.clip(place, 0, n), weights)
    sums = sums[:n]
    if density:
        return sums / (edges[1:] - edges[:n]) / np.sum(sums), edges
    return sums, edges


def _even_place(a: Any, inside: Any, edges: Any, low: Any, high: Any) -> Any:
    """The bins of the elements between edges at even distances: computed, and set right by the edges around.

    Those are computed as np.linspace does it, and bins are whole floats until the end: so all of it is one pass in
    vectors, which a table of edges or integers of 64 bits would keep it from being.
    """
    n = edges.shape[0] - 1
    first, last, step = edges[0], edges[n], (high - low) / n
    place = np.trunc(np.where(inside, (a - first) / (last - first), 0.0) * n).astype(np.float64)
    place = np.minimum(place, n - 1)
    below = inside & (a < (place * step + low).astype(edges.dtype))
    above = inside & (place < n - 1) & (a >= ((place + 1.0) * step + low).astype(edges.dtype))
    return (place - below + above).astype(np.int64)


FUNCTIONS: dict[Any, Any] = {
    np.argmax: argmax, np.argmin: argmin, np.nanargmax: nanargmax, np.nanargmin: nanargmin,
    np.partition: partition, np.argpartition: argpartition, np.lexsort: lexsort,
    np.digitize: digitize, np.bincount: bincount, np.histogram: histogram,
}  # fmt: skip
METHODS: dict[str, Any] = {
    "argmax": argmax, "argmin": argmin, "partition": partition_in_place, "argpartition": argpartition,
}  # fmt: skip
