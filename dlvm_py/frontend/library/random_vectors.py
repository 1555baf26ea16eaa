"""Methods of numpy.random.Generator whose draws are vectors, and those of noncentral distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.elementwise import check_cast, deliver
from dlvm_py.frontend.library.intrinsics import axis_of, draw, is_constant, refuse
from dlvm_py.frontend.library.random_numbers import (
    count_of,
    many,
    mix,
    not_negative,
    number,
    positive,
    shape_for,
    standard_normal,
    whole,
)


def noncentral_chisquare(rng: Any, df: Any, nonc: Any, size: Any = None) -> Any:
    """Noncentral chi-square."""
    df, nonc = number(df), number(nonc)
    positive(df, "df <= 0")
    not_negative(nonc, "nonc < 0")
    shape = shape_for(size, df, nonc)
    return many(lambda a, b: draw("noncentral_chisquare", rng, a, b), np.float64, shape, df, nonc)


def noncentral_f(rng: Any, dfnum: Any, dfden: Any, nonc: Any, size: Any = None) -> Any:
    """Noncentral F."""
    dfnum, dfden, nonc = number(dfnum), number(dfden), number(nonc)
    positive(dfnum, "dfnum <= 0")
    positive(dfden, "dfden <= 0")
    not_negative(nonc, "nonc < 0")
    shape = shape_for(size, dfnum, dfden, nonc)
    return many(lambda a, b, c: draw("noncentral_f", rng, a, b, c), np.float64, shape, dfnum, dfden, nonc)


def hypergeometric(rng: Any, ngood: Any, nbad: Any, nsample: Any, size: Any = None) -> Any:
    """How many of a sample without replacement are good."""
    good, bad, sample = whole(ngood, "ngood"), whole(nbad, "nbad"), whole(nsample, "nsample")
    if np.any(good >= 10**9) or np.any(bad >= 10**9):
        raise ValueError("both ngood and nbad must be less than 1000000000")
    if np.any(good < 0):
        raise ValueError("ngood < 0")
    if np.any(bad < 0):
        raise ValueError("nbad < 0")
    if np.any(sample < 0):
        raise ValueError("nsample < 0")
    if np.any(good + bad < sample):
        raise ValueError("ngood + nbad < nsample")
    shape = shape_for(size, good, bad, sample)
    return many(lambda a, b, c: draw("hypergeometric", rng, a, b, c), np.int64, shape, good, bad, sample)


def rows_of(size: Any, n: Any) -> Any:
    """The shape of a result with a vector of n at each place, and how many vectors there are."""
    if size is None:
        return (n,), 1
    places = size if isinstance(size, tuple) else (size,)
    return places + (n,), count_of(places)


def multinomial(rng: Any, n: Any, pvals: Any, size: Any = None) -> Any:
    """How often each of several outcomes comes in n trials."""
    if np.ndim(n) != 0:
        refuse("multinomial: the number of trials must be one int")
    p = number(pvals)
    if np.ndim(p) != 1:
        refuse("multinomial: the probabilities must be a vector")
    d = p.shape[0]
    if n < 0:
        raise ValueError("n < 0")
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError("pvals < 0, pvals > 1 or pvals contains NaNs")
    if np.sum(p[: d - 1]) > 1.0 + 1e-12:
        raise ValueError("sum(pvals[:-1]) > 1.0")
    shape, rows = rows_of(size, d)
    found = np.zeros((rows, d), np.int64)
    for i in range(rows):
        left, trials, k = 1.0, int(n), 0
        while k < d - 1 and trials > 0:
            found[i, k] = draw("binomial", rng, p[k] / left, trials)
            trials = trials - int(found[i, k])
            left = left - p[k]
            k += 1
        if trials > 0:
            found[i, d - 1] = trials
    return found.reshape(shape)


def dirichlet(rng: Any, alpha: Any, size: Any = None) -> Any:
    """Dirichlet: vectors of positive numbers whose sum is 1."""
    alpha = number(alpha)
    if np.ndim(alpha) != 1:
        refuse("dirichlet needs a vector")
    if np.any(alpha < 0):
        raise ValueError("alpha < 0")
    k = alpha.shape[0]
    shape, rows = rows_of(size, k)
    found = np.zeros((rows, k))
    if k > 0 and np.max(alpha) < 0.1:  # breaking a stick: here the gammas would all be zero
        behind = np.cumsum(alpha[::-1])[::-1]
        for i in range(rows):
            rest, j = 1.0, 0
            while j < k - 1:
                part = draw("beta", rng, alpha[j], behind[j + 1])
                found[i, j] = rest * part
                rest = rest * (1.0 - part)
                j = k if behind[j + 1] == 0 else j + 1
            found[i, k - 1] = rest
    else:
        for i in range(rows):
            total = 0.0
            for j in range(k):
                value = draw("standard_gamma", rng, alpha[j])
                found[i, j] = value
                total = total + value
            for j in range(k):
                found[i, j] = found[i, j] * (1.0 / total)
    return found.reshape(shape)


def multivariate_normal(
    rng: Any, mean: Any, cov: Any, size: Any = None, check_valid: Any = "ignore", tol: Any = 1e-8, *,
    method: Any = "svd",
) -> Any:  # fmt: skip
    """Normal vectors of a mean and a covariance, which is not checked."""
    mean, cov = np.asarray(number(mean)), np.asarray(cov).astype(np.float64)
    if mean.ndim != 1:
        raise ValueError("mean must be 1 dimensional")
    if cov.ndim != 2 or cov.shape[0] != cov.shape[1]:
        raise ValueError("cov must be 2 dimensional and square")
    n = mean.shape[0]
    if cov.shape[0] != n:
        raise ValueError("mean and cov must have same length")
    if check_valid not in ("ignore", "warn"):
        refuse("multivariate_normal: check_valid='raise' is not supported", "check the covariance before the call")
    shape, rows = rows_of(size, n)
    x = standard_normal(rng, (rows, n))
    if method == "svd":
        left, s, _ = np.linalg.svd(cov)
        factor = left * np.sqrt(s)
    elif method == "eigh":
        s, left = np.linalg.eigh(cov)
        factor = left * np.sqrt(np.abs(s))
    elif method == "cholesky":
        factor = np.linalg.cholesky(cov)
    else:
        refuse("method must be one of the constants 'eigh', 'svd', and 'cholesky'")
    return (mean + np.dot(x, factor.T)).reshape(shape)


def permuted(rng: Any, x: Any, *, axis: Any = None, out: Any = None) -> Any:
    """A copy in which each slice along an axis is shuffled for itself; all elements for None."""
    if out is not None:
        if np.shape(out) != np.shape(x):
            raise ValueError("out must have the same shape as x")
        check_cast(x, out, "safe")
    found = np.array(x)
    if axis is None:
        flat = found.reshape(-1)
        mix(rng, flat)
        return deliver(flat.reshape(found.shape), out)
    if not is_constant(axis):
        refuse("an axis must be a constant int")
    moved = np.copy(np.moveaxis(found, axis_of(axis, found.ndim), -1))
    rows = moved.reshape((count_of(moved.shape[:-1]), moved.shape[-1]))
    for i in range(rows.shape[0]):
        mix(rng, rows[i])
    return deliver(np.copy(np.moveaxis(rows.reshape(moved.shape), -1, axis_of(axis, found.ndim))), out)


RANDOM: dict[str, Any] = {
    method.__name__: method
    for method in (
        noncentral_chisquare, noncentral_f, hypergeometric, multinomial, dirichlet, multivariate_normal, permuted,
    )
}  # fmt: skip
