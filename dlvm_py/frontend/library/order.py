"""What rests on sorting and searching: extremes by place, medians, unique values, histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import along
from dlvm_py.frontend.library.intrinsics import axes_of, axis_of, refuse, unroll


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
        if keepdims:
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


def argmax(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """np.argmax: the first one of several, NaN if there is one."""
    return extreme_place(np.asarray(a), axis, keepdims, True)


def argmin(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """np.argmin: the first one of several, NaN if there is one."""
    return extreme_place(np.asarray(a), axis, keepdims, False)


def nanargmax(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """np.nanargmax: ValueError where all are NaN."""
    if is_nan(a):
        if np.any(np.all(np.isnan(a), axis=axis)):
            raise ValueError("All-NaN slice encountered")
        return extreme_place(np.where(np.isnan(a), -np.inf, a), axis, keepdims, True)
    return extreme_place(a, axis, keepdims, True)


def nanargmin(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """np.nanargmin: ValueError where all are NaN."""
    if is_nan(a):
        if np.any(np.all(np.isnan(a), axis=axis)):
            raise ValueError("All-NaN slice encountered")
        return extreme_place(np.where(np.isnan(a), np.inf, a), axis, keepdims, False)
    return extreme_place(a, axis, keepdims, False)


def check_kth(kth: Any, n: int) -> None:
    """ValueError unless every kth is a place of an axis of n elements."""
    if not isinstance(kth, (tuple, list)):
        kth = (kth,)
    for k in kth:
        if k >= n or k < -n:
            raise ValueError(f"kth(={k}) out of bounds ({n})")


def partition(a: Any, kth: Any, axis: Any = -1) -> Any:
    """np.partition: here all of the elements are in order."""
    if axis is None:
        return partition(np.ravel(a), kth, 0)
    check_kth(kth, a.shape[axis_of(axis, a.ndim)])
    return np.sort(a, axis)


def partition_in_place(a: Any, kth: Any, axis: Any = -1) -> None:
    """x.partition(kth): here all of the elements are in order."""
    check_kth(kth, a.shape[axis_of(axis, a.ndim)])
    a.sort(axis)


def argpartition(a: Any, kth: Any, axis: Any = -1) -> Any:
    """np.argpartition: here all of the elements are in order."""
    if axis is None:
        return argpartition(np.ravel(a), kth, 0)
    check_kth(kth, a.shape[axis_of(axis, a.ndim)])
    return np.argsort(a, axis)


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


def lexsort(keys: Any, axis: Any = -1) -> Any:
    """np.lexsort: by the last key first; keys are a tuple of arrays or the rows of one."""
    if axis != -1:
        refuse("np.lexsort along another axis than the last is not supported")
    order = None
    for key in keys:
        if key.ndim != 1:
            refuse("np.lexsort needs keys of one axis")
        if order is None:
            order = np.argsort(key)
        else:
            order = order[np.argsort(key[order])]
    return order


# -- medians and quantiles ---------------------------------------------------------------------------


def median(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """np.median: the mean of the two in the middle where their number is even; NaN if there is one."""
    a = np.asarray(a)
    if axis is None:
        found = median(np.ravel(a), 0)
        if keepdims:
            return np.full((1,) * a.ndim, found)
        return found
    if isinstance(axis, (tuple, list)):
        axes = axes_of(axis, a.ndim)
        found = median(merged(a, axes), -1)
        for k in unroll(len(axes) if keepdims else 0):
            found = np.expand_dims(found, axes[k])
        return found
    axis = axis_of(axis, a.ndim)
    n = a.shape[axis]
    s = np.sort(a, axis)
    if not is_nan(s):
        s = s.astype(np.float64)
    if n == 0:
        return np.mean(s, axis=axis, keepdims=keepdims)
    half = n // 2
    low, high, last = s[along(axis, half - 1 + n % 2)], s[along(axis, half)], s[along(axis, n - 1)]
    if keepdims:
        low, high, last = np.expand_dims(low, axis), np.expand_dims(high, axis), np.expand_dims(last, axis)
    return np.where(np.isnan(last), last, (low + high) / 2)


def stable_order(keys: Any, backwards: Any) -> Any:
    """The places of a vector's elements in order, descending if `backwards`; equal ones stay as they are."""
    if backwards:
        return keys.shape[0] - 1 - np.argsort(keys[::-1], kind="stable")[::-1]
    return np.argsort(keys, kind="stable")


def numbers_only(a: Any, axis: Any) -> Any:
    """The elements that are not NaN, as a vector: of all of them."""
    if axis is not None:
        refuse("this function along an axis is not supported", "call it on one row at a time")
    a = np.ravel(a)
    if not is_nan(a):
        return a
    return a[~np.isnan(a)]


def nanmedian(a: Any, axis: Any = None) -> Any:
    """np.nanmedian: the median of what is not NaN."""
    return median(numbers_only(a, axis))


def nanquantile(a: Any, q: Any, axis: Any = None, *, method: Any = "linear") -> Any:
    """np.nanquantile: the quantile of what is not NaN; NaN where nothing is."""
    kept = numbers_only(a, axis)
    if kept.shape[0] == 0:
        kept = np.full(1, np.nan, kept.dtype)
    return quantile(kept, q, method=method)


def hundredths(q: Any) -> Any:
    """Percentages as fractions; a bool is one of NumPy's."""
    q = np.array(q) if isinstance(q, (tuple, list)) else np.bool_(q) if isinstance(q, bool) else q
    q = q / 100
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError("Percentiles must be in the range [0, 100]")
    return q


def nanpercentile(a: Any, q: Any, axis: Any = None, *, method: Any = "linear") -> Any:
    """np.nanpercentile: np.nanquantile of q / 100."""
    return nanquantile(a, hundredths(q), axis, method=method)


def quantile(a: Any, q: Any, axis: Any = None, *, method: Any = "linear", keepdims: Any = False) -> Any:
    """np.quantile: an element in order, or between two neighbours, linearly; NaN where there is one."""
    if method not in BETWEEN and method not in DISCRETE:
        refuse(f"'{method}' is not a method of np.quantile and np.percentile", ", ".join((*BETWEEN, *DISCRETE)))
    a = np.asarray(a)
    if np.iscomplexobj(a):
        raise TypeError("a must be an array of real numbers")
    if isinstance(q, (tuple, list)):
        q = np.array(q)
    if axis is None:
        axis = tuple(range(a.ndim))
    if isinstance(axis, (tuple, list)):
        axes = axes_of(axis, a.ndim)
        found = quantile(merged(a, axes), q, -1, method=method)
        for k in unroll(len(axes) if keepdims else 0):
            found = np.expand_dims(found, axes[k] + np.ndim(q))
        return found
    axis = axis_of(axis, a.ndim)
    if keepdims:
        return np.expand_dims(quantile(a, q, axis, method=method), axis + np.ndim(q))
    s = np.moveaxis(np.sort(a, axis), axis, 0)
    is_whole = method == "linear" and np.result_type(q).kind in ("b", "i", "u")  # the smallest or the largest
    if not is_whole and method in BETWEEN and s.dtype.kind == "b":
        refuse("np.quantile of bools is not defined", "convert with .astype(np.int64)")
    if np.ndim(q) > 2:
        raise ValueError("q must be a scalar or 1d")
    if not np.all((q >= 0) & (q <= 1)):  # NaN is outside, too
        raise ValueError("Quantiles must be in the range [0, 1]")
    n = s.shape[0]
    if n == 0:
        raise IndexError("index -1 is out of bounds for axis 0 with size 0")
    is_weak = type(q) is float or type(q) is int  # Python's takes the array's dtype, q of NumPy counts by its own
    q = np.float64(q) if type(q) is float else q
    if is_whole or method in DISCRETE:
        found = s[q * (n - 1) if is_whole else discrete_place(n, q, method)]
        return np.where(np.isnan(s[n - 1]), s[n - 1], found) if is_nan(s) else found
    found = place_between(n, q, method)
    place = np.clip(found, 0, n - 1)
    below = np.floor(place)
    weight = place - below
    if method == "midpoint" or method == "averaged_inverted_cdf":
        least = 0.5 if method == "averaged_inverted_cdf" else 0.0
        weight = np.where(weight == 0, least, least + 0.5)
    weight = weight.astype(s.dtype if is_weak and is_nan(s) else place.dtype)
    first = below.astype(np.int64)
    second = np.where(found < 0, 0, np.minimum(first + 1, n - 1))
    for _ in unroll(s.ndim - 1):
        if np.ndim(q) > 0:
            weight = np.expand_dims(weight, -1)
    low, high = s[first], s[second]
    # as NumPy does it: from the nearer one
    step = high - low
    value = np.where(weight >= 0.5, high - step * (1 - weight), low + step * weight)
    return np.where(np.isnan(s[n - 1]), s[n - 1], value)


# the parameters alpha and beta of Hyndman and Fan's family; of the rest of what lies between neighbours None
BETWEEN = {
    "linear": (1.0, 1.0), "interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3.0, 1 / 3.0), "normal_unbiased": (3 / 8.0, 3 / 8.0),
    "midpoint": None, "averaged_inverted_cdf": None,
}  # fmt: skip
DISCRETE = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")


def place_between(n: Any, q: Any, method: Any) -> Any:
    """Where a quantile of n elements lies between two of them."""
    if method == "linear":
        return (n - 1) * q
    if method == "midpoint":
        return 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q))
    if method == "averaged_inverted_cdf":
        return n * q - 1
    alpha, beta = BETWEEN[method]
    return n * q + (alpha + q * (1 - alpha - beta)) - 1


def discrete_place(n: Any, q: Any, method: Any) -> Any:
    """Which of n elements in order a quantile is."""
    if method == "lower":
        return np.floor((n - 1) * q).astype(np.int64)
    if method == "higher":
        return np.ceil((n - 1) * q).astype(np.int64)
    if method == "nearest":
        return np.around((n - 1) * q).astype(np.int64)
    place = n * q - 1 if method == "inverted_cdf" else n * q - 1 - 0.5
    below = np.floor(place)
    stays = place == below
    if method == "closest_observation":  # of two that are as near the one with an even number, from 1
        stays = stays & (below % 2 == 1)
    return np.maximum(np.where(stays, below, below + 1).astype(np.int64), 0)


def merged(a: Any, axes: Any) -> Any:
    """Some axes as one at the end, in C order."""
    if len(axes) == 0 and a.size == 0:  # NumPy asks for an unknown extent
        raise ValueError("cannot reshape array of size 0 into this shape")
    for k in unroll(len(axes)):
        a = np.moveaxis(a, axes[k] - k, -1)
    kept, n = a.ndim - len(axes), 1
    for m in a.shape[kept:]:
        n = n * m
    return np.reshape(a, a.shape[:kept] + (n,))


def percentile(a: Any, q: Any, axis: Any = None, *, method: Any = "linear", keepdims: Any = False) -> Any:
    """np.percentile: np.quantile of q / 100."""
    return quantile(a, hundredths(q), axis, method=method, keepdims=keepdims)


# -- sets --------------------------------------------------------------------------------------------


def unique(
    ar: Any, return_index: Any = False, return_inverse: Any = False, return_counts: Any = False, axis: Any = None
) -> Any:
    """np.unique of all elements: in order, each once, NaN once; where each is first, which one each is, how many."""
    if axis is not None:
        refuse("np.unique along an axis is not supported")
    flat = np.ravel(ar)
    order = np.argsort(flat)
    s = flat[order]
    n = s.shape[0]
    first = np.ones(n, np.bool_)
    first[1:] = s[1:] != s[: n - 1]
    if is_nan(s):
        first[1:] &= ~(np.isnan(s[1:]) & np.isnan(s[: n - 1]))
    found = (s[first],)
    if return_index:
        found = (*found, order[first])
    if return_inverse:
        inverse = np.empty(n, np.int64)
        inverse[order] = np.cumsum(first) - 1
        found = (*found, np.reshape(inverse, ar.shape))
    if return_counts:
        starts = np.flatnonzero(first)
        counts = np.empty(starts.shape[0], np.int64)
        counts[:] = n - starts
        counts[:-1] = starts[1:] - starts[:-1]
        found = (*found, counts)
    if len(found) == 1:
        return found[0]
    return found


def isin(element: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False) -> Any:
    """np.isin: whether each element is among others; NaN is not."""
    element, wanted = np.asarray(element), np.asarray(test_elements)
    if np.iscomplexobj(element) or np.iscomplexobj(wanted):
        return complex_isin(element, wanted, invert)
    wanted = np.sort(np.ravel(wanted))
    n = wanted.shape[0]
    if n == 0:
        if invert:
            return np.ones(element.shape, np.bool_)
        return np.zeros(element.shape, np.bool_)
    place = np.minimum(np.searchsorted(wanted, element), n - 1)
    found = wanted[place] != element if invert else wanted[place] == element
    return np.asarray(found)


def complex_isin(element: Any, wanted: Any, invert: Any) -> Any:
    """np.isin of complex numbers: in the order of all of them, equal ones begin with one that is wanted if any is."""
    n = wanted.size
    both = np.concatenate((np.ravel(wanted), np.ravel(element)))
    order = np.argsort(both)
    s = both[order]
    first = np.ones(s.shape[0], np.bool_)
    first[1:] = s[1:] != s[:-1]
    start = np.maximum.accumulate(np.where(first, counter(s, 0), 0))
    found = np.empty(s.shape[0], np.bool_)
    found[order] = (order < n)[start] != invert
    return np.reshape(found[n:], element.shape)


# -- histograms --------------------------------------------------------------------------------------


def digitize(x: Any, bins: Any, right: Any = False) -> Any:
    """np.digitize: which of the intervals between bins, in either order, the elements are in."""
    bins = np.asarray(bins)
    if bins.ndim != 1:
        refuse("np.digitize needs a vector of bins")
    n = bins.shape[0]
    up, down = np.all(bins[1:] >= bins[: max(n - 1, 0)]), np.all(bins[1:] <= bins[: max(n - 1, 0)])
    if not up and not down:
        raise ValueError("bins must be monotonically increasing or decreasing")
    side = "left" if right else "right"
    return np.where(up, np.searchsorted(bins, x, side), n - np.searchsorted(bins[::-1], x, side))


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
        if np.min(x) < 0:
            raise ValueError("'list' argument must have no negative elements")
        n = max(n, int(np.max(x)) + 1)
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
    if np.result_type(a).kind == "f":
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
    np.nanmedian: nanmedian, np.nanquantile: nanquantile, np.nanpercentile: nanpercentile,
    np.argmax: argmax, np.argmin: argmin, np.nanargmax: nanargmax, np.nanargmin: nanargmin,
    np.partition: partition, np.argpartition: argpartition, np.lexsort: lexsort, np.median: median,
    np.quantile: quantile, np.percentile: percentile, np.unique: unique, np.isin: isin,
    np.digitize: digitize, np.bincount: bincount, np.histogram: histogram,
}  # fmt: skip
METHODS: dict[str, Any] = {
    "argmax": argmax, "argmin": argmin, "partition": partition_in_place, "argpartition": argpartition,
}  # fmt: skip
