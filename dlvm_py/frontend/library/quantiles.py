"""Medians, quantiles and percentiles, also of what is not NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import along
from dlvm_py.frontend.library.elementwise import deliver
from dlvm_py.frontend.library.intrinsics import axes_of, axis_of, refuse, unroll
from dlvm_py.frontend.library.order import is_nan, limits_around, may_be_selected

# -- medians -----------------------------------------------------------------------------------------


def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False) -> Any:
    """np.median: the mean of the two in the middle where their number is even; NaN if there is one."""
    return deliver(over_axes(middle, np.asarray(a), axis, keepdims), out)


def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False) -> Any:
    """np.nanmedian: the median of what is not NaN; NaN where nothing is."""
    return deliver(over_axes(middle_of_numbers, np.asarray(a), axis, keepdims), out)


def over_axes(function: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    """function(a, axis) over one axis, several, or all for None; those that go stay with extent 1 if `keepdims`."""
    if axis is None:
        found, axes = function(np.ravel(a), 0), axes_of(None, a.ndim)
    elif isinstance(axis, (tuple, list)):
        axes = distinct_axes(axis, a.ndim)
        found = function(merged(a, axes), -1)
    else:
        axes = axes_of(axis, a.ndim)
        found = function(a, axes[0])
    for k in unroll(len(axes) if keepdims else 0):
        found = np.expand_dims(found, axes[k])
    return np.asarray(found) if keepdims else found


def middle(a: Any, axis: Any) -> Any:
    """The median along one axis."""
    axis = axis_of(axis, a.ndim)
    n = a.shape[axis]
    half = n // 2
    if a.ndim == 1:
        s, start = in_order_around(a, half - 1 + n % 2)
    else:
        s, start = np.sort(a, axis), 0
    if not is_nan(s):
        s = s.astype(np.float64)
    if n == 0:
        return np.mean(s, axis=axis)
    low, high = s[along(axis, half - 1 + n % 2 - start)], s[along(axis, half - start)]
    last = s[along(axis, s.shape[axis] - 1)]
    return np.where(np.isnan(last), last, np.where(n % 2 == 1, low, halfway(low, high)))


def middle_of_numbers(a: Any, axis: Any) -> Any:
    """The median along one axis of what is not NaN: in order the numbers come first."""
    if not is_nan(a):
        return middle(a, axis)
    if a.ndim == 1:
        return middle(a[~np.isnan(a)], 0)
    axis = axis_of(axis, a.ndim)
    s = np.sort(a, axis)
    if s.shape[axis] == 0:
        return np.mean(s, axis=axis)
    count = np.sum(~np.isnan(s), axis=axis, keepdims=True)
    low = np.take_along_axis(s, np.maximum(count - 1, 0) // 2, axis)
    high = np.take_along_axis(s, np.minimum(count // 2, s.shape[axis] - 1), axis)
    return np.where(count % 2 == 1, low, halfway(low, high))[along(axis, 0)]


def halfway(low: Any, high: Any) -> Any:
    """The mean of two numbers each, as np.mean's: of half precision it adds in f32. Of large ones it is infinite."""
    if np.result_type(low) == np.float16:
        return ((low.astype(np.float32) + high.astype(np.float32)) / 2).astype(np.float16)
    return (low + high) / 2


def in_order_around(a: Any, k: Any) -> Any:
    """Elements of a vector in order, k-th and next and any NaN among them, and the rank of the first.

    What lies around them is sorted; all of it where the limits were wrong, or where there is a NaN.
    """
    start = 0
    if may_be_selected(a):
        low, high, is_above, is_below = limits_around(a, k)
        below = np.count_nonzero(a < low) if is_above else 0
        between = a[((a >= low) | (not is_above)) & ((a <= high) | (not is_below))]
        if below <= k and min(k + 1, a.shape[0] - 1) < below + between.shape[0]:
            a, start = between, below
    return np.sort(a), start


# -- quantiles ---------------------------------------------------------------------------------------


def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, method: Any = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """np.quantile: an element in order, or between two neighbours, linearly; NaN where there is one."""
    return stored(quantiles(a, q, axis, method, keepdims, False, weights), out, method)


def nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, method: Any = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """np.nanquantile: the quantile of what is not NaN; NaN where nothing is."""
    return stored(quantiles(a, q, axis, method, keepdims, True, weights), out, method)


def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, method: Any = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """np.percentile: np.quantile of q / 100."""
    return stored(quantiles(a, hundredths(q), axis, method, keepdims, False, weights), out, method)


def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, method: Any = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """np.nanpercentile: np.nanquantile of q / 100."""
    return stored(quantiles(a, hundredths(q), axis, method, keepdims, True, weights), out, method)


def stored(found: Any, out: Any, method: Any) -> Any:
    """The quantiles, in `out` if there is one: of elements as they are, it has their dtype."""
    if out is not None and method in DISCRETE and np.result_type(out) != np.result_type(found):
        refuse(f"`out` of {np.result_type(out)} cannot take elements of {np.result_type(found)} as they are")
    return deliver(found, out)


def hundredths(q: Any) -> Any:
    """Percentages as fractions; a bool is one of NumPy's."""
    q = np.array(q) if isinstance(q, (tuple, list)) else np.bool_(q) if isinstance(q, bool) else q
    q = q / 100
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError("Percentiles must be in the range [0, 100]")
    return q


def quantiles(a: Any, q: Any, axis: Any, method: Any, keepdims: Any, skips_nan: Any, weights: Any) -> Any:
    """Quantiles over one axis, several, or all for None; axes of q come before the others."""
    if method not in BETWEEN and method not in DISCRETE:
        refuse(f"'{method}' is not a method of np.quantile and np.percentile", ", ".join((*BETWEEN, *DISCRETE)))
    a = np.asarray(a)
    if np.iscomplexobj(a):
        raise TypeError("a must be an array of real numbers")
    if isinstance(q, (tuple, list)):
        q = np.array(q)
    if np.ndim(q) > 2:
        raise ValueError("q must be a scalar or 1d")
    if weights is not None:
        return weighted_quantiles(a, q, axis, method, keepdims, skips_nan, np.asarray(weights))
    if axis is None:
        axis = tuple(range(a.ndim))
    if isinstance(axis, (tuple, list)):
        axes = distinct_axes(axis, a.ndim)
        a = merged(a, axes)
        axis = -1
    else:
        axes = axes_of(axis, a.ndim)
        axis = axes[0]
    n, start = a.shape[axis], 0
    if a.ndim == 1 and np.ndim(q) == 0 and not (skips_nan and is_nan(a)):
        s, start = in_order_around(a, rank_below(n, q, method))
    else:
        s = np.moveaxis(np.sort(a, axis), axis, 0)
    skips_nan = skips_nan and is_nan(s)
    if skips_nan and s.shape[0] == 0:
        s, n = np.full((1, *s.shape[1:]), np.nan, s.dtype), 1
    found = quantiles_in_order(s, q, method, skips_nan, n, start)
    for k in unroll(len(axes) if keepdims else 0):
        found = np.expand_dims(found, axes[k] + np.ndim(q))
    return np.asarray(found) if keepdims else found  # NumPy gives the result its axes by a reshape


def rank_below(n: Any, q: Any, method: Any) -> Any:
    """The rank among n elements of the one that a quantile is, or of the first of the two between which it lies."""
    if method in DISCRETE:
        rank = discrete_place(n, q, method)
    else:
        rank = np.floor(place_between(n, q, method))
    return int(np.clip(np.nan_to_num(rank), 0, max(n - 1, 0)))


def quantiles_in_order(s: Any, q: Any, method: Any, skips_nan: Any, n: Any, start: Any) -> Any:
    """Quantiles along the first axis of an array that is in order there; of the numbers before the NaN alone.

    n: of the elements in all, of which the first in `s` has the rank `start`.
    """
    is_whole = method == "linear" and np.result_type(q).kind in ("b", "i", "u")  # the smallest or the largest
    if not is_whole and method in BETWEEN and s.dtype.kind == "b":
        refuse("np.quantile of bools is not defined", "convert with .astype(np.int64)")
    if not np.all((q >= 0) & (q <= 1)):  # NaN is outside, too
        raise ValueError("Quantiles must be in the range [0, 1]")
    last = s.shape[0] - 1
    if n <= 0:
        raise IndexError("index -1 is out of bounds for axis 0 with size 0")
    is_weak = type(q) is float or type(q) is int  # Python's takes the array's dtype, q of NumPy counts by its own
    q = np.float64(q) if type(q) is float else q
    count = n
    if skips_nan:  # a number of numbers for each place of the other axes
        n = count = np.maximum(np.sum(~np.isnan(s), axis=0), 1)
        for _ in unroll(s.ndim - 1 if np.ndim(q) > 0 else 0):
            q = np.expand_dims(q, -1)
        if np.result_type(q).kind == "f":
            n = n.astype(np.result_type(q))
    if is_whole or method in DISCRETE:
        rank = q * (count - 1) if is_whole else discrete_place(n, q, method)
        found = element_in_order(s, rank - start, skips_nan)
        return np.where(np.isnan(s[last]), s[last], found) if is_nan(s) and not skips_nan else found
    found = place_between(n, q, method)
    place = np.clip(found, 0, n - 1)
    below = np.floor(place)
    weight = place - below
    if method == "midpoint" or method == "averaged_inverted_cdf":
        least = 0.5 if method == "averaged_inverted_cdf" else 0.0
        weight = np.where(weight == 0, least, least + 0.5)
    weight = weight.astype(s.dtype if is_weak and is_nan(s) else place.dtype)
    first = below.astype(np.int64)
    second = np.where(found < 0, 0, np.minimum(first + 1, count - 1))
    for _ in unroll(s.ndim - 1 if np.ndim(q) > 0 and not skips_nan else 0):
        weight = np.expand_dims(weight, -1)
    low, high = element_in_order(s, first - start, skips_nan), element_in_order(s, second - start, skips_nan)
    # as NumPy does it: from the nearer one
    step = high - low
    value = np.where(weight >= 0.5, high - step * (1 - weight), low + step * weight)
    return value if skips_nan else np.where(np.isnan(s[last]), s[last], value)


def weighted_quantiles(a: Any, q: Any, axis: Any, method: Any, keepdims: Any, skips_nan: Any, weights: Any) -> Any:
    """Quantiles by method="inverted_cdf" of elements each of which counts as often as its weight says."""
    if method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    axes = axes_of(None, a.ndim) if axis is None else distinct_axes(axis, a.ndim)
    if weights.ndim != a.ndim:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        if weights.ndim != 1 or len(axes) != 1 or weights.shape[0] != a.shape[axes[0]]:
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        weights = np.reshape(weights, (weights.shape[0],) + (1,) * (a.ndim - 1 - axes[0]))
    elif weights.shape != a.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    if np.any(weights < 0):
        raise ValueError("Weights must be non-negative.")
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    is_weak = type(q) is float or type(q) is int
    q = np.asarray(q, dtype=a.dtype) if is_weak and a.dtype.kind == "f" else np.asarray(q)
    rows, counts = merged(a, axes), merged(np.broadcast_to(weights, a.shape), axes)
    rest = rows.shape[:-1]
    rows = np.reshape(rows, (rows.size // max(rows.shape[-1], 1), rows.shape[-1]))
    counts = np.reshape(counts, rows.shape)
    found = np.empty((q.size, rows.shape[0]), dtype=a.dtype)
    for i in range(rows.shape[0]):
        found[:, i] = of_weighted_row(rows[i], np.ravel(q), counts[i], skips_nan)
    found = np.reshape(found, q.shape + rest)
    for k in unroll(len(axes) if keepdims else 0):
        found = np.expand_dims(found, axes[k] + q.ndim)
    return np.asarray(found)  # without axes an array, too


def of_weighted_row(x: Any, q: Any, weights: Any, skips_nan: Any) -> Any:
    """The quantiles of one vector: the first elements in order up to which a share of the weights has come."""
    order = np.argsort(x)
    s, heavy = x[order], weights[order].astype(np.float64)
    count = s.shape[0]
    if is_nan(x):
        if skips_nan:
            heavy = np.where(np.isnan(s), 0.0, heavy)
            count = max(int(np.sum(~np.isnan(s))), 1)
        if np.isnan(s[count - 1]):
            return np.full(q.shape[0], s[count - 1])
    share = np.cumsum(heavy)
    share = share / share[-1]
    if np.isnan(share[-1]):
        raise ValueError("Weights included NaN, inf or were all zero.")
    if np.result_type(q).kind == "f":
        share = share.astype(np.result_type(q))
    share = np.where(share == 0, -1, share).astype(share.dtype)
    return s[np.minimum(np.searchsorted(share, q), count - 1)]


def element_in_order(s: Any, places: Any, each: Any) -> Any:
    """The elements at places of the first axis: the same ones for all, or some for each place of the other axes."""
    if not each:
        return s[places]
    if np.ndim(places) < s.ndim:
        return np.take_along_axis(s, np.expand_dims(places, 0), 0)[0]
    return np.take_along_axis(s, places, 0)


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


def distinct_axes(axis: Any, ndim: Any) -> Any:
    """Axes in ascending order, each of which is named once."""
    axes = axes_of(axis, ndim)
    for k in unroll(1, len(axes)):
        if axes[k] == axes[k - 1]:
            refuse("repeated axis", "name every axis once")
    return axes


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


FUNCTIONS: dict[Any, Any] = {
    np.median: median, np.nanmedian: nanmedian, np.quantile: quantile, np.nanquantile: nanquantile,
    np.percentile: percentile, np.nanpercentile: nanpercentile,
}  # fmt: skip
METHODS: dict[str, Any] = {}
