"""np.pad: an array with more elements before and after the ends of its axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import along
from dlvm_py.frontend.library.intrinsics import refuse, unroll


def pad(
    array: Any, pad_width: Any, mode: Any = "constant", stat_length: Any = None, constant_values: Any = None,
    end_values: Any = None, reflect_type: Any = None,
) -> Any:  # fmt: skip
    """np.pad; the widths may be computed. What computes from an axis fills one after the other."""
    array = np.asarray(array)
    if not isinstance(mode, str):
        refuse("np.pad needs the name of a mode", "pad with 'empty', and call the function on the result")
    if mode not in (*OPTION_OF, "edge", "wrap", "empty"):
        refuse("this mode of np.pad is not supported", "the modes are " + ", ".join((*OPTION_OF, "edge, wrap, empty")))
    check_option(mode, "stat_length", stat_length)
    check_option(mode, "constant_values", constant_values)
    check_option(mode, "end_values", end_values)
    check_option(mode, "reflect_type", reflect_type)
    given = stat_length
    if mode == "constant":
        given = 0 if constant_values is None else constant_values
    elif mode == "linear_ramp":
        given = 0 if end_values is None else end_values
    if reflect_type == "odd":
        mode = mode + " odd"
    return framed(array, pad_width, mode, given)


# the one option that a mode of np.pad has
OPTION_OF = {
    "constant": "constant_values", "linear_ramp": "end_values", "maximum": "stat_length", "mean": "stat_length",
    "median": "stat_length", "minimum": "stat_length", "reflect": "reflect_type", "symmetric": "reflect_type",
}  # fmt: skip


def check_option(mode: Any, name: str, given: Any) -> None:
    """The error for an option that the mode of np.pad does not have."""
    if given is not None and (mode not in OPTION_OF or OPTION_OF[mode] != name):
        refuse(f"unsupported keyword arguments for mode '{mode}': {name}")


def pair_of(value: Any, axis: Any) -> Any:
    """What np.pad takes as a number, (number,), (before, after) or one pair an axis, for one axis."""
    if not isinstance(value, (tuple, list)):
        return (value, value)
    if isinstance(value[0], (tuple, list)):
        pair = value[axis] if len(value) > 1 else value[0]
        return (pair[0], pair[-1])
    return (value[0], value[-1])


def framed(array: Any, pad_width: Any, mode: Any, given: Any) -> Any:
    """np.pad: the array is copied once, and what is around it is filled."""
    shape: Any = ()
    inside: Any = ()
    for k in unroll(array.ndim):
        before, after = pair_of(pad_width, k)
        if before < 0 or after < 0:
            raise ValueError("index can't contain negative values")
        shape = shape + (before + array.shape[k] + after,)
        inside = inside + (slice(before, before + array.shape[k]),)
    out = np.empty(shape, dtype=np.result_type(array))
    out[inside] = array
    if mode == "constant":
        for k in unroll(array.ndim):
            before, after = pair_of(pad_width, k)
            first, last = pair_of(given, k)
            # of the axes behind this one only what lies inside: the others fill the rest
            out[along(k, slice(None, before)) + inside[k + 1 :]] = np.asarray(first)[()]  # a number of NumPy
            out[along(k, slice(before + array.shape[k], None)) + inside[k + 1 :]] = np.asarray(last)[()]
    elif mode != "empty":
        for k in unroll(array.ndim):
            before, after = pair_of(pad_width, k)
            n = array.shape[k]
            if n > 0:
                # as with constants, of the axes behind this one only what lies inside
                fill_axis(out[along(k, slice(None)) + inside[k + 1 :]], k, n, before, after, mode, pair_of(given, k))
            elif before + after > 0:
                raise ValueError(f"can't extend empty axis {k} using modes other than 'constant' or 'empty'")
    return out


def fill_axis(out: Any, k: Any, n: Any, before: Any, after: Any, mode: Any, given: Any) -> None:
    """np.pad of one axis, whose n elements are there. `given`: the option of the mode for both ends."""
    left, middle, right = slice(None, before), slice(before, before + n), slice(before + n, None)
    x = out[along(k, middle)]
    first, last = x[along(k, slice(None, 1))], x[along(k, slice(-1, None))]
    if mode == "edge":
        out[along(k, left)] = first
        out[along(k, right)] = last
    elif mode == "linear_ramp":
        out[along(k, left)] = ramp(given[0], first, before, k, x)
        out[along(k, right)] = np.flip(ramp(given[1], last, after, k, x), k)
    elif mode in ("maximum", "minimum", "mean", "median"):
        out[along(k, left)] = statistic(x, k, mode, given[0], False)
        out[along(k, right)] = statistic(x, k, mode, given[1], True)
    elif mode == "reflect odd" or mode == "symmetric odd":
        if n == 1:  # as NumPy has it
            out[along(k, left)] = first
            out[along(k, right)] = last
        else:
            reflect_values(out, k, n, before, after, mode == "symmetric odd")
    else:
        # elements come back after so many steps: n in a circle, twice that where it turns at the ends
        period = n if mode == "wrap" else 2 * n if mode == "symmetric" else max(2 * (n - 1), 1)
        for i in range(before):
            out[along(k, i)] = x[along(k, mirrored(i - before, n, period, mode))]
        for i in range(after):
            out[along(k, before + n + i)] = x[along(k, mirrored(n + i, n, period, mode))]


def statistic(x: Any, k: Any, mode: Any, length: Any, at_end: Any) -> Any:
    """The statistic of the first or the last elements along an axis, of all for None."""
    n = x.shape[k]
    if length is not None:
        if length < 0:
            raise ValueError("index can't contain negative values")
        if length == 0 and (mode == "maximum" or mode == "minimum"):
            raise ValueError("stat_length of 0 yields no value for padding")
        count = min(length, n)
        x = x[along(k, slice(n - count, n) if at_end else slice(None, count))]
    if mode == "maximum":
        return np.max(x, k, keepdims=True)
    if mode == "minimum":
        return np.min(x, k, keepdims=True)
    value = np.mean(x, k, keepdims=True) if mode == "mean" else np.median(x, k, keepdims=True)
    return np.rint(value) if np.result_type(x).kind in ("i", "u") else value


def reflect_values(out: Any, k: Any, n: Any, before: Any, after: Any, has_edge: Any) -> None:
    """Reflect at the edge's value, too: what is i beyond it is 2 * edge minus what is i before it; again and again."""
    left, right, total, more = before, after, out.shape[k], 1 if has_edge else 0
    while left > 0 or right > 0:
        have = total - left - right
        have = have // n * n if has_edge else (have - 1) // (n - 1) * (n - 1)
        if left > 0:
            count, start = min(have, left), left - more + 1
            edge = out[along(k, slice(left, left + 1))]
            inside = out[along(k, slice(start, start + count))]
            out[along(k, slice(left - count, left))] = 2 * edge - np.flip(inside, k)
            left = left - count
        if right > 0:
            count, stop = min(have, right), total - right + more - 1
            edge = out[along(k, slice(total - right - 1, total - right))]
            inside = out[along(k, slice(stop - count, stop))]
            out[along(k, slice(total - right, total - right + count))] = 2 * edge - np.flip(inside, k)
            right = right - count


def mirrored(i: Any, n: Any, period: Any, mode: Any) -> Any:
    """The index in [0, n) that stands at i outside of it."""
    i = i % period
    if i < n:
        return i
    return period - 1 - i if mode == "symmetric" else period - i


def ramp(end: Any, edge: Any, count: Any, k: Any, x: Any) -> Any:
    """From `end` towards the edge in `count` steps, without the edge."""
    shape = (1,) * k + (count,) + (1,) * (x.ndim - 1 - k)
    step = np.reshape(np.arange(count), shape) / max(count, 1)
    values = end + (edge * 1.0 - end) * step
    if np.result_type(x).kind in ("i", "u"):
        values = np.floor(values)
    return values.astype(np.result_type(x))


FUNCTIONS = {np.pad: pad}
METHODS: dict[str, Any] = {}
