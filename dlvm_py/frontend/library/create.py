"""Making arrays: linspace, logspace, geomspace, identity, vander, meshgrid, indices, fromfunction, mgrid, ogrid, r_."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import axis_of, refuse


def floats(x: Any) -> Any:
    """A number or array in NumPy's floats."""
    return np.multiply(x, 1.0)


def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, retstep: Any = False, dtype: Any = None, axis: Any = 0
) -> Any:
    """np.linspace: start + k step, the end point exactly `stop`."""
    if np.result_type(num).kind not in ("i", "u"):
        refuse("the number of samples of np.linspace must be an int")
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    inner = np.result_type(start, stop, 1.0)
    first = inner.type(start) if np.ndim(start) == 0 else start.astype(inner)
    last = inner.type(stop) if np.ndim(stop) == 0 else stop.astype(inner)
    gaps = num - 1 if endpoint else num
    step = (last - first) / max(gaps, 1)
    index = np.arange(num)
    if np.ndim(step) > 0:
        shape = (num,) + (1,) * np.ndim(step)
        index = np.reshape(index, shape)
    y = index.astype(inner) * step + first
    if endpoint:  # a single element is `start`
        y = np.where(index == max(gaps, 1), last, y)
    if dtype is not None:
        if np.dtype(dtype).kind == "i" or np.dtype(dtype).kind == "u":
            y = np.floor(y)
        y = y.astype(dtype)
    if axis_of(axis, np.ndim(step) + 1) != 0:
        y = np.moveaxis(y, 0, axis)
    if retstep:
        return y, step if gaps > 0 else np.nan * step
    return y


def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, base: Any = 10.0, dtype: Any = None, axis: Any = 0
) -> Any:
    """np.logspace: base to the powers linspace(start, stop)."""
    y = np.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else y.astype(dtype)


def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: Any = True, dtype: Any = None, axis: Any = 0) -> Any:
    """np.geomspace: a geometric progression, from the direction of the start."""
    start, stop = np.asarray(start), np.asarray(stop)
    if np.any(start == 0) or np.any(stop == 0):
        raise ValueError("Geometric sequence cannot include zero")
    inner = np.result_type(start, stop, 1.0, np.dtype(np.float64 if dtype is None else dtype))
    first, last = start.astype(inner), stop.astype(inner)
    sign = np.sign(first)
    first, last = first / sign, last / sign
    y = logspace(np.log10(first), np.log10(last), num, endpoint).astype(inner)
    index = np.reshape(np.arange(num), (num,) + (1,) * (np.ndim(y) - 1))
    y = np.where(index == 0, first, y)
    if endpoint:
        y = np.where(index == max(num - 1, 1), last, y)
    y = y * sign
    if axis_of(axis, np.ndim(y)) != 0:
        y = np.moveaxis(y, 0, axis)
    return y if dtype is None else y.astype(dtype)


def identity(n: Any, dtype: Any = None) -> Any:
    """np.identity."""
    return np.eye(n, n, dtype=dtype)


def vander(x: Any, N: Any = None, increasing: Any = False) -> Any:  # noqa: N803 - NumPy's name
    """np.vander: the powers of x as columns."""
    if x.ndim != 1:
        refuse("np.vander needs a one-dimensional array")
    if N is None:
        N = x.shape[0]  # noqa: N806 - NumPy's name
    x = x.astype(np.promote_types(np.result_type(x), int))
    out = np.empty((x.shape[0], N), dtype=x.dtype)
    power = np.ones_like(x)
    for k in range(N):
        if increasing:
            out[:, k] = power
        else:
            out[:, N - 1 - k] = power
        power = power * x
    return out


def meshgrid(*xi: Any, copy: Any = True, sparse: Any = False, indexing: Any = "xy") -> Any:
    """np.meshgrid: coordinates as arrays."""
    if indexing not in ("xy", "ij"):
        refuse("np.meshgrid: `indexing` must be 'xy' or 'ij'")
    n = len(xi)
    shape, parts = (), ()
    for x in xi:
        flat = np.ravel(x) if np.ndim(x) > 0 else np.full((1,), x)
        shape, parts = shape + (flat.shape[0],), parts + (flat,)
    swapped = indexing == "xy" and n > 1
    if swapped:
        shape = (shape[1], shape[0]) + shape[2:]
    found = ()
    for k, flat in enumerate(parts):
        at = 1 - k if swapped and k < 2 else k
        one = np.reshape(flat, (1,) * at + (flat.shape[0],) + (1,) * (n - 1 - at))
        if not sparse:
            one = np.broadcast_to(one, shape)
        found = found + (np.copy(one) if copy else one,)
    return found


def indices(dimensions: Any, dtype: Any = int, sparse: Any = False) -> Any:
    """np.indices: for each axis an array of its index, one after the other (a tuple if sparse)."""
    n = len(dimensions)
    found = ()
    for k, m in enumerate(dimensions):
        found = found + (np.reshape(np.arange(m, dtype=dtype), (1,) * k + (m,) + (1,) * (n - 1 - k)),)
    if sparse:
        return found
    out = np.empty((n,) + tuple(dimensions), dtype=dtype)
    for k, one in enumerate(found):
        out[k] = one
    return out


def fromfunction(function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """np.fromfunction: the function of the arrays of indices."""
    found = ()
    for k, m in enumerate(shape):
        row = np.reshape(np.arange(m, dtype=dtype), (1,) * k + (m,) + (1,) * (len(shape) - 1 - k))
        found = found + (np.copy(np.broadcast_to(row, shape)),)
    return function(*found, **kwargs)


# -- what is written with brackets -------------------------------------------------------------------


def span(part: Any) -> Any:
    """(start, stop, step, how many) of one slice of np.mgrid; an imaginary step says how many, the end among them."""
    if not isinstance(part, slice):
        refuse("np.mgrid and np.ogrid need slices", "np.mgrid[0:n, 0:m]")
    start = 0 if part.start is None else part.start
    step = 1 if part.step is None else part.step
    if isinstance(step, complex):
        n = int(abs(step))
        return start, part.stop, (part.stop - start) / max(n - 1, 1), n
    return start, part.stop, step, math.ceil((part.stop - start) / step)


def spanned(part: Any) -> Any:
    """The numbers of one slice alone."""
    start, stop, step, n = span(part)
    if isinstance(part.step, complex):
        return np.arange(n, dtype=np.result_type(start, stop, 1.0)) * step + start
    return np.arange(start, stop, step)


def grid_type(key: Any) -> Any:
    """The dtype that all axes of a grid have."""
    numbers = (0,)
    for part in key:
        start, stop, step, n = span(part)
        numbers = numbers + (start, stop, step)
    return np.result_type(*numbers)


def ogrid(key: Any) -> Any:
    """np.ogrid[...]: one array an axis, of extent 1 on the others."""
    if not isinstance(key, tuple):
        return spanned(key)
    dtype = grid_type(key)
    found = ()
    for k, part in enumerate(key):
        start, stop, step, n = span(part)
        numbers = np.arange(n, dtype=dtype) * step + start
        found = found + (np.reshape(numbers, (1,) * k + (numbers.shape[0],) + (1,) * (len(key) - 1 - k)),)
    return found


def mgrid(key: Any) -> Any:
    """np.mgrid[...]: the arrays of ogrid, stretched and stacked."""
    if not isinstance(key, tuple):
        return spanned(key)
    for part in key:
        start, stop, step, n = span(part)
        if n < 0:
            raise ValueError("negative dimensions are not allowed")
    rows = ogrid(key)
    shape = ()
    for k, row in enumerate(rows):
        shape = shape + (row.shape[k],)
    out = np.empty((len(rows),) + shape, dtype=grid_type(key))
    for k, row in enumerate(rows):
        out[k] = row
    return out


def joined_span(part: Any) -> Any:
    """The numbers of one slice in np.r_ and np.c_."""
    start, stop, step, n = span(part)
    return linspace(start, stop, n) if isinstance(part.step, complex) else np.arange(start, stop, step)


def r_(key: Any) -> Any:
    """np.r_[...]: slices, numbers and arrays, joined along the first axis."""
    if not isinstance(key, tuple):
        key = (key,)
    given = ()
    for part in key:
        if isinstance(part, str):
            refuse("np.r_ with a string is not supported", "np.concatenate(..., axis=k)")
        if isinstance(part, slice):
            part = joined_span(part)
        given = given + (part,)
    dtype, parts = np.result_type(*given), ()  # a number of Python's does not widen an array
    for part in given:
        parts = parts + (np.array([part], dtype=dtype) if np.ndim(part) == 0 else part,)
    return np.concatenate(parts, dtype=dtype)


def c_(key: Any) -> Any:
    """np.c_[...]: vectors as columns."""
    if not isinstance(key, tuple):
        key = (key,)
    parts = ()
    for part in key:
        if isinstance(part, slice):
            part = joined_span(part)
        parts = parts + (part[:, np.newaxis] if part.ndim == 1 else part,)
    return np.concatenate(parts, axis=-1)


FUNCTIONS = {
    np.linspace: linspace, np.logspace: logspace, np.geomspace: geomspace, np.identity: identity,
    np.vander: vander, np.meshgrid: meshgrid, np.indices: indices, np.fromfunction: fromfunction,
}  # fmt: skip
SUBSCRIPTED = {np.mgrid: mgrid, np.ogrid: ogrid, np.r_: r_, np.c_: c_}
METHODS: dict[str, Any] = {}
