"""Histograms of several variables, and the edges of their bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.bin_rules import number_of_bins
from dlvm_py.frontend.library.intrinsics import refuse, unroll
from dlvm_py.frontend.library.order import bin_edges, edges_between


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:  # noqa: A002
    """np.histogram_bin_edges of a number of bins, of a rule for it, or the edges that are given."""
    a = np.ravel(np.asarray(a))
    if isinstance(bins, str):
        bins = number_of_bins(a, bins, range, weights)
    return bin_edges(a, bins, range)


def vectors_of(sample: Any) -> Any:
    """The variables of a sample: rows of a list, or one variable."""
    if isinstance(sample, (tuple, list)):
        dtype, found = np.result_type(*sample), ()
        for x in sample:
            if np.ndim(x) == 0:
                refuse("np.histogramdd of a list of numbers is not supported", "give vectors: np.histogramdd((x, y))")
            found = found + (np.asarray(x).astype(dtype),)
        return found
    if sample.ndim != 1:
        refuse(
            "np.histogramdd needs a tuple or list of vectors: how many columns an array has is not known",
            "np.histogramdd((x[:, 0], x[:, 1]))",
        )
    return (sample,)


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,  # noqa: A002
) -> Any:
    """np.histogramdd of a list of vectors: counts, or sums of weights, in boxes; and the edges of each variable."""
    variables = vectors_of(sample)
    count = len(variables)
    chosen = bins if isinstance(bins, (tuple, list)) else (bins,) * count
    if len(chosen) != count:
        refuse("The dimension of bins must be equal to the dimension of the sample x.")
    if range is not None and len(range) != count:
        refuse("range argument must have one entry per dimension")
    n = variables[0].shape[0]
    edges, shape, flat = (), (), np.zeros(n, np.int64)
    for k in unroll(count):
        x = variables[k]
        if x.shape[0] != n:
            raise ValueError("the variables of a sample must be of one length")
        limits = None if range is None else range[k]
        edge = edges_between(x, chosen[k], limits)
        boxes = edge.shape[0] + 1
        place = np.searchsorted(edge, x, side="right")
        place = np.where(x == edge[edge.shape[0] - 1], place - 1, place)
        flat = flat * boxes + place
        edges, shape = edges + (edge,), shape + (boxes,)
    size = 1
    for m in shape:
        size = size * m
    sums = np.zeros(size)
    np.add.at(sums, flat, 1.0 if weights is None else np.asarray(weights))
    inner = np.reshape(sums, shape)[(slice(1, -1),) * count]
    found = inner.copy()
    if density:
        total = np.sum(found)
        for k in unroll(count):
            widths = np.diff(edges[k])
            found = found / np.reshape(widths, (1,) * k + (widths.shape[0],) + (1,) * (count - 1 - k))
        found = found / total
    return found, edges


def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,  # noqa: A002
) -> Any:
    """np.histogram2d: counts, or sums of weights, in boxes, and the edges in both directions."""
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim == 0 or y.ndim == 0:
        refuse("len() of unsized object", "give vectors")
    if x.shape[0] != y.shape[0]:
        raise ValueError("x and y must have the same length.")
    if not isinstance(bins, (tuple, list)) and np.ndim(bins) == 1:
        if bins.shape[0] == 1:
            raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
        if bins.shape[0] == 2:
            raise TypeError("two bins are a number for x and one for y: they must be a tuple of ints")
        bins = (bins, bins)
    found, edges = histogramdd((x, y), bins, range, density, weights)
    return found, edges[0], edges[1]


FUNCTIONS = {
    np.histogram_bin_edges: histogram_bin_edges, np.histogramdd: histogramdd, np.histogram2d: histogram2d,
}  # fmt: skip
METHODS: dict[str, Any] = {}
