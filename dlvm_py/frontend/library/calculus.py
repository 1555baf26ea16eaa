"""Differences, integrals and interpolation: diff, ediff1d, gradient, trapezoid, interp, unwrap."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import along
from dlvm_py.frontend.library.intrinsics import axes_of, axis_of, is_constant, refuse, unroll
from dlvm_py.frontend.library.joining import as_array, concatenate


def diff(a: Any, n: Any = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Any:
    """np.diff: the n-th difference along an axis; of bools, where they change."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    k = axis_of(axis, a.ndim)
    if n == 0:
        return a
    if prepend is not None:
        a = concatenate((edge(prepend, a, k), a), k)
    if append is not None:
        a = concatenate((a, edge(append, a, k)), k)
    for _ in unroll(n) if is_constant(n) else range(n):
        upper, lower = a[along(k, slice(1, None))], a[along(k, slice(None, -1))]
        a = upper != lower if np.result_type(a).kind == "b" else upper - lower
    return a


def edge(value: Any, a: Any, k: Any) -> Any:
    """What is put before or behind `a` along an axis: a number becomes one slice."""
    if np.ndim(value) > 0:
        return value
    return np.full(a.shape[:k] + (1,) + a.shape[k + 1 :], value)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """np.ediff1d: differences of the flattened array."""
    flat = np.ravel(ary)
    for more in (to_begin, to_end):
        if more is not None and not np.can_cast(np.result_type(more), np.result_type(flat), "same_kind"):
            refuse("np.ediff1d: `to_begin` and `to_end` must have the kind of the array", "convert with .astype")
    parts = (flat[1:] - flat[:-1],)
    if to_begin is not None:
        parts = (np.ravel(as_array(to_begin)).astype(np.result_type(flat)),) + parts
    if to_end is not None:
        parts = parts + (np.ravel(as_array(to_end)).astype(np.result_type(flat)),)
    return concatenate(parts)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: Any = 1) -> Any:
    """np.gradient: central differences inside, one-sided ones at the ends; spacings are numbers or coordinates."""
    if not is_constant(edge_order) or edge_order not in (1, 2):
        refuse("'edge_order' must be the constant 1 or 2")
    axes = axes_of(axis, f.ndim)
    if isinstance(axis, tuple):
        axes = ()
        for x in axis:
            axes = axes + (axis_of(x, f.ndim),)
    if len(varargs) == 0:
        spacing = (1.0,) * len(axes)
    elif len(varargs) == 1 and np.ndim(varargs[0]) == 0:
        spacing = (varargs[0],) * len(axes)
    else:
        spacing = varargs
    if len(spacing) != len(axes):
        refuse("np.gradient: invalid number of spacings")
    if np.result_type(f).kind == "b":
        refuse("np.gradient of bools is not defined", "convert with .astype(np.float64)")
    if np.result_type(f).kind not in ("f", "c"):
        f = f.astype(np.float64)
    found = ()
    for h, k in zip(spacing, axes):  # noqa: B905 - of one length
        found = found + (gradient_along(f, h, k, edge_order),)
    return found[0] if len(found) == 1 else found


def gradient_along(f: Any, h: Any, k: Any, order: Any) -> Any:
    """np.gradient along one axis."""
    n = f.shape[k]
    if n < order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
            "required."
        )
    out = np.empty_like(f)
    before, here, after = f[along(k, slice(None, -2))], f[along(k, slice(1, -1))], f[along(k, slice(2, None))]
    middle = along(k, slice(1, -1))
    if np.ndim(h) == 0:
        out[middle] = (after - before) / (2.0 * h)
        out[along(k, 0)] = (f[along(k, 1)] - f[along(k, 0)]) / h
        out[along(k, -1)] = (f[along(k, -1)] - f[along(k, -2)]) / h
        if order == 2:
            low, high = (-1.5 / h, 2.0 / h, -0.5 / h), (0.5 / h, -2.0 / h, 1.5 / h)
            out[along(k, 0)] = low[0] * f[along(k, 0)] + low[1] * f[along(k, 1)] + low[2] * f[along(k, 2)]
            out[along(k, -1)] = high[0] * f[along(k, -3)] + high[1] * f[along(k, -2)] + high[2] * f[along(k, -1)]
        return out
    if h.shape[0] != n:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    steps = diff(h) * 1.0
    d1 = np.reshape(steps[:-1], (n - 2,) + (1,) * (f.ndim - 1 - k))
    d2 = np.reshape(steps[1:], (n - 2,) + (1,) * (f.ndim - 1 - k))
    # at even distances NumPy leaves out what stands here, which is 0 then, unless it is infinite or NaN
    centre = (d2 - d1) / (d1 * d2) * here
    if np.all(steps == steps[0]):
        centre = np.where(np.isfinite(here), centre, 0.0).astype(np.result_type(centre))
    out[middle] = -d2 / (d1 * (d1 + d2)) * before + centre + d1 / (d2 * (d1 + d2)) * after
    out[along(k, 0)] = (f[along(k, 1)] - f[along(k, 0)]) / steps[0]
    out[along(k, -1)] = (f[along(k, -1)] - f[along(k, -2)]) / steps[-1]
    if order == 2:
        a, b = steps[0], steps[1]
        out[along(k, 0)] = (
            -(2.0 * a + b) / (a * (a + b)) * f[along(k, 0)]
            + (a + b) / (a * b) * f[along(k, 1)]
            - a / (b * (a + b)) * f[along(k, 2)]
        )
        a, b = steps[-2], steps[-1]
        out[along(k, -1)] = (
            b / (a * (a + b)) * f[along(k, -3)]
            - (b + a) / (a * b) * f[along(k, -2)]
            + (2.0 * b + a) / (b * (a + b)) * f[along(k, -1)]
        )
    return out


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    """np.trapezoid: the integral of y over samples at x, or dx apart."""
    k = axis_of(axis, y.ndim)
    if x is None:
        d = dx
    elif np.ndim(x) == 1:
        d = np.reshape(diff(x), (max(x.shape[0] - 1, 0),) + (1,) * (y.ndim - 1 - k))
    else:
        d = diff(x, axis=axis)
    return np.sum(d * (y[along(k, slice(1, None))] + y[along(k, slice(None, -1))]) / 2.0, k)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """np.interp: piecewise linear interpolation through the points (xp, fp), xp ascending."""
    if isinstance(xp, (tuple, list)):
        xp = np.array(xp)
    if isinstance(fp, (tuple, list)):
        fp = np.array(fp)
    if xp.ndim != 1 or fp.ndim != 1:
        refuse("np.interp: data points must be 1-D sequences")
    if xp.shape[0] != fp.shape[0]:
        raise ValueError("fp and xp are not of the same length.")
    if xp.shape[0] == 0:
        raise ValueError("array of sample points is empty")
    if np.result_type(x, xp).kind == "c":
        refuse("np.interp at complex places is not defined")
    if period is not None:
        x, xp, fp = wrapped(x, xp, fp, abs(period))
        left, right = None, None
    fp = fp.astype(np.result_type(fp, np.float64))
    low = fp[0] if left is None else left
    high = fp[-1] if right is None else right
    if np.ndim(x) == 0:
        return np.result_type(fp).type(at_one_place(np.float64(x), xp.astype(np.float64), fp, low, high))
    flat, xp = np.ravel(x).astype(np.float64), xp.astype(np.float64)
    out = np.empty(flat.shape, dtype=np.result_type(fp))
    behind = np.searchsorted(xp, flat, side="right")
    for i in range(flat.shape[0]):
        out[i] = interpolated(flat[i], behind[i], xp, fp, low, high)
    return np.reshape(out, x.shape)


def wrapped(x: Any, xp: Any, fp: Any, period: Any) -> Any:
    """The places and points of np.interp within one period, the points in order with one more on either side."""
    if period == 0:
        raise ValueError("period must be a non-zero value")
    xp = xp.astype(np.float64) % period
    order = np.argsort(xp)
    xp, fp = xp[order], fp[order]
    xp = np.concatenate((xp[-1:] - period, xp, xp[:1] + period))
    return np.float64(1) * x % period, xp, np.concatenate((fp[-1:], fp, fp[:1]))


def at_one_place(x: Any, xp: Any, fp: Any, low: Any, high: Any) -> Any:
    """np.interp at one place."""
    return interpolated(x, np.searchsorted(xp, x, side="right"), xp, fp, low, high)


def interpolated(x: Any, behind: Any, xp: Any, fp: Any, low: Any, high: Any) -> Any:
    """np.interp at one place, which is before xp[behind] and not before the points before that."""
    last = xp.shape[0] - 1
    if np.isnan(x) and last > 0:
        return x * 1.0
    if x < xp[0]:
        return low * 1.0
    if x > xp[last]:
        return high * 1.0
    if x == xp[last] or last == 0:  # NaN at a single point, too, as NumPy
        return fp[last] * 1.0
    below = min(max(behind - 1, 0), last - 1)  # xp[below] <= x < xp[below + 1]
    slope = (fp[below + 1] - fp[below]) / (xp[below + 1] - xp[below])
    found = slope * (x - xp[below]) + fp[below]
    if np.isnan(found) and x == xp[below]:
        found = fp[below] * 1.0
    elif np.isnan(found):  # next to an infinite value: from the other side, as NumPy does it
        found = slope * (x - xp[below + 1]) + fp[below + 1]
        if np.isnan(found) and fp[below] == fp[below + 1]:
            found = fp[below] * 1.0
    return found


def unwrap(p: Any, discont: Any = None, axis: Any = -1, period: Any = 2.0 * np.pi) -> Any:
    """np.unwrap: jumps larger than half a period are taken out."""
    k = axis_of(axis, p.ndim)
    half = period / 2
    if discont is None:
        discont = half
    d = diff(p, axis=axis)  # in the dtype of p, as NumPy: unsigned integers wrap
    dtype = np.result_type(d, period)
    if dtype.kind != "f":
        refuse("np.unwrap of integers needs a period that is a float", "x.astype(np.float64)")
    p = p.astype(dtype)
    moved = np.mod(d + half, period) - half
    moved = np.where((moved == -half) & (d > 0), half, moved)
    correction = np.where(np.abs(d) < discont, 0.0, moved - d)
    out = np.copy(p)
    out[along(k, slice(1, None))] = p[along(k, slice(1, None))] + np.cumsum(correction, k)
    return out


FUNCTIONS = {
    np.diff: diff, np.ediff1d: ediff1d, np.gradient: gradient, np.trapezoid: trapezoid, np.interp: interp,
    np.unwrap: unwrap,
}  # fmt: skip
METHODS: dict[str, Any] = {}
