"""Moments and counts: var, std, average, cov, corrcoef, ptp, count_nonzero, and the forms that leave out nan."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.elementwise import check_cast, deliver
from dlvm_py.frontend.library.intrinsics import assumed, axes_of, axis_of, is_constant, refuse, unroll

# NumPy 2.4 gives its own integer where there is one count
COUNT_IS_PYTHON = isinstance(np.count_nonzero(np.ones(1)), int)


def count(shape: Any, axes: Any) -> Any:
    """How many elements lie along the axes."""
    n = 1
    for k in axes:
        n = n * shape[k]
    return n


def squared(x: Any) -> Any:
    """|x|², real."""
    if np.result_type(x).kind == "c":
        return np.real(x) ** 2 + np.imag(x) ** 2
    return x * x


def freedom(ddof: Any, correction: Any) -> Any:
    """The one of `ddof` and `correction` that is given."""
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """np.var: the mean of |a - mean(a)|², over n - ddof."""
    if correction is not None:
        ddof = freedom(ddof, correction)
    if mean is None:
        # of half precision np.mean adds up in f32, np.var does not
        kept = np.float16 if dtype is None and np.result_type(a) == np.float16 else dtype
        mean = np.mean(a, axis, kept, keepdims=True, where=where)
    total = np.sum(squared(a - mean), axis, dtype, keepdims=keepdims, where=where)
    if out is not None:  # NumPy adds up into it, and divides there
        check_cast(total, out, "same_kind")
        total = total.astype(out.dtype)
    if where is True:
        n = count(np.shape(a), axes_of(axis, np.ndim(a)))
        return deliver((total / max(n - ddof, 0)).astype(np.result_type(total)), out)
    n = np.sum(np.broadcast_to(where, np.shape(a)), axis, keepdims=keepdims)
    return deliver((total / np.maximum(n - ddof, 0)).astype(np.result_type(total)), out)


def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """np.std: the square root of the variance."""
    return deliver(root_of_variance(var(a, axis, dtype, out, ddof, keepdims, where, mean, correction)), out)


def root_of_variance(variance: Any) -> Any:
    """The root of a variance: a norm, whose derivative at 0 is 0."""
    none = variance == 0
    return np.where(none, 0, np.sqrt(np.where(none, 1, variance))).astype(np.result_type(variance))


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """np.ptp: the largest minus the smallest."""
    return np.subtract(np.max(a, axis, out, keepdims), np.min(a, axis, keepdims=keepdims), out=out)


def count_nonzero(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """np.count_nonzero."""
    flags = a != 0
    total = np.sum(flags, axis, keepdims=keepdims)
    if axis is None and not keepdims and COUNT_IS_PYTHON:
        return int(total)
    return total


def average(a: Any, axis: Any = None, weights: Any = None, returned: Any = False, keepdims: Any = False) -> Any:
    """np.average: the mean, or sum(a w) / sum(w)."""
    if weights is None:
        result = np.mean(a, axis, keepdims=keepdims)
        if np.size(result) == 0:
            raise ZeroDivisionError("division by zero")
        if not returned:
            return result
        n = count(a.shape, axes_of(axis, a.ndim))
        return result, np.zeros_like(result) + n if np.ndim(result) else np.result_type(result).type(n)
    dtype = np.result_type(np.asarray(a), np.asarray(weights))  # Python's numbers count as arrays
    if not is_inexact(a):
        dtype = np.result_type(dtype, np.float64)
    if np.ndim(weights) != a.ndim:
        if axis is None or isinstance(axis, tuple) or np.ndim(weights) != 1:
            refuse("np.average: weights of another rank need one axis and must be 1-d")
        k = axis_of(axis, a.ndim)
        if weights.shape[0] != a.shape[k]:
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        weights = np.reshape(weights, (weights.shape[0],) + (1,) * (a.ndim - 1 - k))
        total = np.sum(np.broadcast_to(weights, a.shape), axis, dtype, keepdims=keepdims)
    else:
        for k in unroll(a.ndim):
            if weights.shape[k] != a.shape[k]:
                raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        total = np.sum(weights, axis, dtype, keepdims=keepdims)
    if np.any(total == 0.0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    result = np.sum(np.multiply(a, weights, dtype=dtype), axis, keepdims=keepdims) / total
    if returned:
        return result, np.copy(np.broadcast_to(total, np.shape(result))) if np.ndim(result) else total
    return result


def cov(
    m: Any, y: Any = None, rowvar: Any = True, bias: Any = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    """np.cov of the rows of a matrix (of the columns for rowvar=False)."""
    if ddof is None:
        ddof = 0 if bias else 1
    x = rows_of(m, rowvar)
    if dtype is None:
        dtype = np.result_type(x, np.float64) if y is None else np.result_type(x, y, np.float64)
    dtype = np.dtype(dtype)
    if dtype.kind in ("b", "i", "u"):
        refuse(
            f"Cannot cast ufunc 'subtract' output from dtype('float64') to dtype('{dtype}') by the rule 'same_kind'",
            "np.cov and np.corrcoef compute with a dtype of floats or complex numbers",
        )
    # without variables the second array does not count, and the result is real: both only where they can be told apart
    if (y is not None or dtype.kind == "c") and not assumed(
        x.shape[0] > 0,
        "np.cov has variables",
        "whether np.cov has any variables changes while this runs, and with it the dtype: test x.size before",
    ):
        return np.zeros((0, 0))
    if y is not None:
        x = np.concatenate((x, more_rows_of(y, rowvar)))
    x = x.astype(dtype)
    if fweights is None and aweights is None:
        x = x - np.mean(x, axis=1, keepdims=True)
        n, heavy = x.shape[1] - ddof, x
    else:
        w = weights_of_cov(fweights, aweights, x.shape[1])
        total = np.sum(w)
        if total == 0:
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        x = x - np.sum(x * w, axis=1, keepdims=True) / total
        n = total - (ddof if aweights is None else ddof * np.sum(w * aweights) / total)
        heavy = x * w
    turned = np.conj(heavy.T) if np.result_type(x).kind == "c" else heavy.T
    c = np.dot(x, turned)
    c *= np.true_divide(1, max(n, 0))
    if is_constant(c.shape[0]):
        return np.asarray(c[0, 0]) if c.shape[0] == 1 else c
    if c.shape[0] == 1:  # NumPy gives a number
        raise ValueError("np.cov of one variable, which is not known to be one when this is compiled: use np.var")
    return c


def weights_of_cov(fweights: Any, aweights: Any, n: Any) -> Any:
    """How much each of n observations counts in np.cov: how often it was made, times its importance."""
    w = np.float64(1)
    for given, name in ((fweights, "fweights"), (aweights, "aweights")):
        if given is not None:
            given = np.asarray(given, dtype=np.float64)
            if name == "fweights" and not np.all(given == np.round(given)):
                raise TypeError("fweights must be integer")
            if given.ndim != 1:
                refuse(f"`{name}` of np.cov must be a vector")
            if given.shape[0] != n:
                raise RuntimeError(f"incompatible numbers of samples and {name}")
            if np.any(given < 0):
                raise ValueError(f"{name} cannot be negative")
            w = w * given
    return w


def rows_of(m: Any, rowvar: Any) -> Any:
    """The variables of cov as rows."""
    m = np.asarray(m)
    if m.ndim == 0:
        return np.full((1, 1), m)
    if m.ndim == 1:
        return m[np.newaxis, :]
    if m.ndim != 2:
        refuse("np.cov needs arrays of one or two axes")
    return m if rowvar else m.T


def more_rows_of(y: Any, rowvar: Any) -> Any:
    """The variables of the second array of cov as rows: NumPy never turns one row."""
    if rowvar or y.ndim != 2:
        return rows_of(y, rowvar)
    if is_constant(y.shape[0]):
        return y if y.shape[0] == 1 else y.T
    if y.shape[0] == 1:
        raise ValueError("np.cov of columns, of which there is one row that is not known when this is compiled")
    return y.T


def corrcoef(x: Any, y: Any = None, rowvar: Any = True, *, dtype: Any = None) -> Any:
    """np.corrcoef: the covariance, divided by the standard deviations, within [-1, 1]."""
    c = cov(x, y, rowvar, dtype=dtype)
    if np.ndim(c) == 0:
        return c / c
    deviation = np.sqrt(np.diagonal(c))
    return np.clip(c / deviation[:, np.newaxis] / deviation[np.newaxis, :], -1, 1)


# -- without nan -------------------------------------------------------------------------------------


def is_inexact(a: Any) -> bool:
    """Whether elements may be nan."""
    return np.result_type(a).kind == "f" or np.result_type(a).kind == "c"


def without_nan(a: Any, other: Any) -> Any:
    """`other` in the place of nan."""
    return np.where(np.isnan(a), np.result_type(a).type(other), a) if is_inexact(a) else a


def numbers(a: Any, axis: Any, keepdims: Any, where: Any) -> Any:
    """How many elements are not nan."""
    return np.sum(~np.isnan(a), axis, keepdims=keepdims, where=where)


def nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = True,
) -> Any:  # fmt: skip
    """np.nansum: nan counts as 0."""
    return np.sum(without_nan(a, 0), axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = True,
) -> Any:  # fmt: skip
    """np.nanprod: nan counts as 1."""
    return np.prod(without_nan(a, 1), axis, dtype, out, keepdims, initial, where)


def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """np.nancumsum: nan counts as 0."""
    return np.cumsum(without_nan(a, 0), axis, dtype, out)


def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """np.nancumprod: nan counts as 1."""
    return np.cumprod(without_nan(a, 1), axis, dtype, out)


def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    """np.nanmean: the mean of what is not nan; nan where nothing is."""
    if not is_inexact(a):
        return np.mean(a, axis, dtype, out, keepdims, where=where)
    if dtype is not None and not is_inexact(np.zeros(1, dtype)):
        refuse("If a is inexact, then dtype must be inexact", "leave dtype out")
    total = nansum(a, axis, dtype, None, keepdims, where=where)
    return deliver(total / numbers(a, axis, keepdims, where).astype(np.result_type(total)), out)


def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """np.nanvar: the variance of what is not nan; nan where there are not more than ddof."""
    if not is_inexact(a):
        return var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    if correction is not None:
        ddof = freedom(ddof, correction)
    if out is not None and not is_inexact(out):
        refuse("If a is inexact, then out must be inexact")
    if mean is None:
        mean = nanmean(a, axis, dtype, None, True, where=where)
    own = np.result_type(a)  # in which NumPy keeps the differences, whatever the dtype of the sums
    apart = np.where(np.isnan(a), own.type(0), (a - mean).astype(own))
    total = np.sum(squared(apart), axis, dtype, out, keepdims, where=where)  # its dtype counts
    n = numbers(a, axis, keepdims, where).astype(np.result_type(total)) - ddof
    return deliver(np.where(n > 0, total, np.nan) / np.where(n > 0, n, 1), out)


def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """np.nanstd."""
    variance = nanvar(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    return deliver(root_of_variance(variance), out)


def nanmax(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Any:
    """np.nanmax: the largest that is not nan; nan where all are."""
    if initial is not None or where is not True:
        return np.fmax.reduce(a, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where)
    if not is_inexact(a):
        return np.max(a, axis, out, keepdims)
    found = np.max(without_nan(a, -np.inf), axis, keepdims=keepdims)
    if np.any(found == -np.inf):  # nothing but nan, perhaps
        none = np.all(np.isnan(a), axis, keepdims=keepdims)
        found = np.where(none, np.result_type(a).type(np.nan), found)
    return deliver(found, out)


def nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
) -> Any:
    """np.nanmin: the smallest that is not nan; nan where all are."""
    if initial is not None or where is not True:
        return np.fmin.reduce(a, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where)
    if not is_inexact(a):
        return np.min(a, axis, out, keepdims)
    found = np.min(without_nan(a, np.inf), axis, keepdims=keepdims)
    if np.any(found == np.inf):  # nothing but nan, perhaps
        none = np.all(np.isnan(a), axis, keepdims=keepdims)
        found = np.where(none, np.result_type(a).type(np.nan), found)
    return deliver(found, out)


FUNCTIONS = {
    np.var: var, np.std: std, np.ptp: ptp, np.count_nonzero: count_nonzero, np.average: average, np.cov: cov,
    np.corrcoef: corrcoef, np.nansum: nansum, np.nanprod: nanprod, np.nancumsum: nancumsum,
    np.nancumprod: nancumprod, np.nanmean: nanmean, np.nanvar: nanvar, np.nanstd: nanstd, np.nanmax: nanmax,
    np.nanmin: nanmin,
}  # fmt: skip
METHODS = {"var": var, "std": std}
