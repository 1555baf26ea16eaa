"""Methods of numpy.random.Generator: NumPy's own streams, bit for bit.

Each is written with `draw`, which takes the next number of a basic distribution from the bit generator. What NumPy
does around it is done here in the same order, so that the state behind a call is NumPy's as well. Location and scale
are applied outside of the draw: derivatives flow through them, and the number that was drawn is a constant.

Sources: the documentation of numpy.random; Lemire, "Fast random integer generation in an interval" (2019); for the
sampling without replacement Bentley and Floyd, "Programming pearls: a sample of brilliance" (1987).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import axis_of, draw, refuse

# -- shapes and parameters ---------------------------------------------------------------------------


def number(x: Any) -> Any:
    """A parameter as a float, or an array of floats."""
    if isinstance(x, (tuple, list)):
        x = np.array(x)
    if np.ndim(x) == 0:
        return float(x)
    return np.asarray(x, dtype=np.float64)


def whole(x: Any, name: str) -> Any:
    """A parameter as an int, or an array of ints."""
    if isinstance(x, (tuple, list)):
        x = np.array(x)
    if np.ndim(x) == 0:
        return int(x)
    if x.dtype.kind not in ("b", "i", "u"):
        refuse("an array of counts must hold integers", "x.astype(np.int64)")
    return x.astype(np.int64)


def ranks(parameters: Any) -> int:
    """How many axes the parameters have together: 0 if all are numbers."""
    count = 0
    for p in parameters:
        count += np.ndim(p)
    return count


def shape_for(size: Any, *parameters: Any) -> Any:
    """The shape of the result; None for one number."""
    if size is None:
        if ranks(parameters) == 0:
            return None
        return np.broadcast_shapes(*[np.shape(p) for p in parameters])
    shape = size if isinstance(size, tuple) else (size,)
    for p in parameters:
        if np.ndim(p) > 0:
            np.broadcast_to(p, shape)
    return shape


def count_of(shape: Any) -> Any:
    """How many elements an array of this shape has."""
    count = 1
    for n in shape:
        count *= n
    return count


def many(one: Callable[..., Any], dtype: Any, shape: Any, *parameters: Any) -> Any:
    """one(*parameters) for each place of the result, in C order."""
    if shape is None:
        return one(*parameters)
    out = np.empty(shape, dtype)
    flat = out.reshape(-1)
    if ranks(parameters) == 0:
        for i in range(flat.shape[0]):
            flat[i] = one(*parameters)
    else:
        rows = [np.broadcast_to(p, shape).reshape(-1) for p in parameters]
        for i in range(flat.shape[0]):
            flat[i] = one(*[row[i] for row in rows])
    return out


def not_negative(x: Any, message: str) -> None:
    """ValueError for a number below zero, -0.0 among them."""
    if np.ndim(x) == 0:
        if np.signbit(x) and not np.isnan(x):
            raise ValueError(message)
    elif np.any(np.signbit(x) & ~np.isnan(x)):
        raise ValueError(message)


def positive(x: Any, message: str) -> None:
    """ValueError for a number that is not above zero."""
    if np.ndim(x) == 0:
        if x <= 0:
            raise ValueError(message)
    elif np.any(x <= 0):
        raise ValueError(message)


def chance(p: Any, message: str) -> None:
    """ValueError for what is no probability."""
    if np.ndim(p) == 0:
        if not 0 <= p <= 1:
            raise ValueError(message)
    elif not np.all((p >= 0) & (p <= 1)):
        raise ValueError(message)


def is_single(dtype: Any, name: str) -> bool:
    """Whether numbers are wanted in float32; no other dtype but float64 can be."""
    if np.dtype(dtype) == np.dtype(np.float32):
        return True
    if np.dtype(dtype) != np.dtype(np.float64):
        refuse("this method gives float32 or float64", "dtype=np.float64, and then .astype(...)")
    return False


def floats(single: bool, one: Callable[..., Any], short: Callable[..., Any], shape: Any, out: Any, *of: Any) -> Any:
    """Numbers of one of the two precisions, new or in `out`."""
    if out is not None:
        if shape is not None:
            refuse("size beside out is not supported", "leave size out: the shape is that of out")
        if out.dtype != (np.dtype(np.float32) if single else np.dtype(np.float64)):
            refuse("out has another dtype than the numbers", "say dtype=, float32 or float64")
        out[...] = floats(single, one, short, np.shape(out), None, *of)  # NumPy would refuse gaps between the elements
        return out
    if not single:
        return many(one, np.float64, shape, *of)
    if shape is None:
        return float(short(*of))
    return many(short, np.float32, shape, *of)


# -- continuous distributions ------------------------------------------------------------------------


def random(rng: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
    """Uniform in [0, 1)."""
    one, short = lambda: draw("uniform", rng), lambda: draw("uniform_f", rng)
    return floats(is_single(dtype, "random"), one, short, shape_for(size), out)


def uniform(rng: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    """Uniform in [low, high)."""
    low, high = number(low), number(high)
    span = high - low
    if not np.all(np.isfinite(span)):
        raise OverflowError("high - low range exceeds valid bounds")
    not_negative(span, "high - low < 0")
    return low + span * many(lambda: draw("uniform", rng), np.float64, shape_for(size, low, high))


def standard_normal(rng: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
    """Normal with mean 0 and deviation 1."""
    one, short = lambda: draw("standard_normal", rng), lambda: draw("standard_normal_f", rng)
    return floats(is_single(dtype, "standard_normal"), one, short, shape_for(size), out)


def normal(rng: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    """Normal: loc + scale * standard_normal."""
    return moved(lambda: draw("standard_normal", rng), loc, scale, size)


def moved(one: Callable[..., Any], loc: Any, scale: Any, size: Any) -> Any:
    """loc + scale * one()."""
    loc, scale = number(loc), number(scale)
    not_negative(scale, "scale < 0")
    return loc + scale * many(one, np.float64, shape_for(size, loc, scale))


def lognormal(rng: Any, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
    """exp(mean + sigma * standard_normal)."""
    mean, sigma = number(mean), number(sigma)
    not_negative(sigma, "sigma < 0")
    return np.exp(mean + sigma * many(lambda: draw("standard_normal", rng), np.float64, shape_for(size, mean, sigma)))


def laplace(rng: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    """Laplace's double exponential distribution."""
    return moved(lambda: draw("laplace", rng, 0.0, 1.0), loc, scale, size)


def gumbel(rng: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    """Gumbel's distribution of extreme values."""
    return moved(lambda: draw("gumbel", rng, 0.0, 1.0), loc, scale, size)


def logistic(rng: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    """The logistic distribution."""
    return moved(lambda: draw("logistic", rng, 0.0, 1.0), loc, scale, size)


def scaled(one: Callable[..., Any], scale: Any, size: Any) -> Any:
    """scale * one()."""
    scale = number(scale)
    not_negative(scale, "scale < 0")
    return scale * many(one, np.float64, shape_for(size, scale))


def exponential(rng: Any, scale: Any = 1.0, size: Any = None) -> Any:
    """scale * standard_exponential."""
    return scaled(lambda: draw("standard_exponential", rng), scale, size)


def rayleigh(rng: Any, scale: Any = 1.0, size: Any = None) -> Any:
    """Rayleigh's distribution."""
    return scaled(lambda: draw("rayleigh", rng, 1.0), scale, size)


def standard_exponential(
    rng: Any, size: Any = None, dtype: Any = np.float64, method: Any = "zig", out: Any = None
) -> Any:
    """Exponential with scale 1, by the ziggurat or by inversion."""
    single = is_single(dtype, "standard_exponential")
    if method == "zig":
        one, short = lambda: draw("standard_exponential", rng), lambda: draw("standard_exponential_f", rng)
        return floats(single, one, short, shape_for(size), out)
    if method == "inv":
        by, by_short = lambda: draw("inverse_exponential", rng), lambda: draw("inverse_exponential_f", rng)
        return floats(single, by, by_short, shape_for(size), out)
    refuse("method must be 'zig' or 'inv'")


def standard_gamma(rng: Any, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
    """Gamma of this shape with scale 1."""
    shape = number(shape)
    not_negative(shape, "shape < 0")
    one, short = lambda a: draw("standard_gamma", rng, a), lambda a: draw("standard_gamma_f", rng, a)
    return floats(is_single(dtype, "standard_gamma"), one, short, shape_for(size, shape), out, shape)


def gamma(rng: Any, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
    """scale * standard_gamma(shape)."""
    shape, scale = number(shape), number(scale)
    not_negative(shape, "shape < 0")
    not_negative(scale, "scale < 0")
    places = shape_for(size, shape, scale)
    return scale * many(lambda a: draw("standard_gamma", rng, a), np.float64, places, shape)


def beta(rng: Any, a: Any, b: Any, size: Any = None) -> Any:
    """Beta."""
    a, b = number(a), number(b)
    positive(a, "a <= 0")
    positive(b, "b <= 0")
    return many(lambda a, b: draw("beta", rng, a, b), np.float64, shape_for(size, a, b), a, b)


def chisquare(rng: Any, df: Any, size: Any = None) -> Any:
    """The sum of df squares of standard normals."""
    df = number(df)
    positive(df, "df <= 0")
    return many(lambda a: draw("chisquare", rng, a), np.float64, shape_for(size, df), df)


def standard_t(rng: Any, df: Any, size: Any = None) -> Any:
    """Student's t."""
    df = number(df)
    positive(df, "df <= 0")
    return many(lambda a: draw("standard_t", rng, a), np.float64, shape_for(size, df), df)


def f(rng: Any, dfnum: Any, dfden: Any, size: Any = None) -> Any:
    """Fisher's F."""
    dfnum, dfden = number(dfnum), number(dfden)
    positive(dfnum, "dfnum <= 0")
    positive(dfden, "dfden <= 0")
    return many(lambda a, b: draw("f", rng, a, b), np.float64, shape_for(size, dfnum, dfden), dfnum, dfden)


def standard_cauchy(rng: Any, size: Any = None) -> Any:
    """Cauchy's distribution."""
    return many(lambda: draw("standard_cauchy", rng), np.float64, shape_for(size))


def pareto(rng: Any, a: Any, size: Any = None) -> Any:
    """Pareto II, or Lomax."""
    a = number(a)
    positive(a, "a <= 0")
    return many(lambda a: draw("pareto", rng, a), np.float64, shape_for(size, a), a)


def power(rng: Any, a: Any, size: Any = None) -> Any:
    """The power distribution."""
    a = number(a)
    positive(a, "a <= 0")
    return many(lambda a: draw("power", rng, a), np.float64, shape_for(size, a), a)


def weibull(rng: Any, a: Any, size: Any = None) -> Any:
    """Weibull's distribution."""
    a = number(a)
    not_negative(a, "a < 0")
    return many(lambda a: draw("weibull", rng, a), np.float64, shape_for(size, a), a)


def wald(rng: Any, mean: Any, scale: Any, size: Any = None) -> Any:
    """Wald's, or inverse Gaussian, distribution."""
    mean, scale = number(mean), number(scale)
    positive(mean, "mean <= 0")
    positive(scale, "scale <= 0")
    return many(lambda a, b: draw("wald", rng, a, b), np.float64, shape_for(size, mean, scale), mean, scale)


def vonmises(rng: Any, mu: Any, kappa: Any, size: Any = None) -> Any:
    """Von Mises's distribution on the circle."""
    mu, kappa = number(mu), number(kappa)
    not_negative(kappa, "kappa < 0")
    return many(lambda a, b: draw("vonmises", rng, a, b), np.float64, shape_for(size, mu, kappa), mu, kappa)


def triangular(rng: Any, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
    """The triangular distribution."""
    left, mode, right = number(left), number(mode), number(right)
    if np.any(left > mode):
        raise ValueError("left > mode")
    if np.any(mode > right):
        raise ValueError("mode > right")
    if np.any(left == right):
        raise ValueError("left == right")
    places = shape_for(size, left, mode, right)
    return many(lambda a, b, c: draw("triangular", rng, a, b, c), np.float64, places, left, mode, right)


# -- discrete distributions --------------------------------------------------------------------------


def poisson(rng: Any, lam: Any = 1.0, size: Any = None) -> Any:
    """Poisson's distribution."""
    lam = number(lam)
    if not np.all(lam >= 0):
        raise ValueError("lam < 0 or lam is NaN" if np.ndim(lam) == 0 else "lam < 0 or lam contains NaNs")
    if np.any(lam > 9.2233720064847708e18):
        raise ValueError("lam value too large")
    return many(lambda a: draw("poisson", rng, a), np.int64, shape_for(size, lam), lam)


def binomial(rng: Any, n: Any, p: Any, size: Any = None) -> Any:
    """How many of n trials succeed."""
    n, p = whole(n, "n"), number(p)
    chance(p, "p < 0, p > 1 or p is NaN" if np.ndim(p) == 0 else "p < 0, p > 1 or p contains NaNs")
    if np.any(n < 0):
        raise ValueError("n < 0")
    return many(lambda p, n: draw("binomial", rng, p, n), np.int64, shape_for(size, n, p), p, n)


def geometric(rng: Any, p: Any, size: Any = None) -> Any:
    """How many trials there are up to the first success."""
    p = number(p)
    if not np.all((p > 0) & (p <= 1)):
        raise ValueError("p <= 0, p > 1 or p contains NaNs")
    return many(lambda a: draw("geometric", rng, a), np.int64, shape_for(size, p), p)


def negative_binomial(rng: Any, n: Any, p: Any, size: Any = None) -> Any:
    """How many failures there are before n successes."""
    n, p = number(n), number(p)
    positive(n, "n <= 0")
    if not np.all((p > 0) & (p <= 1)):
        raise ValueError("p <= 0, p > 1 or p contains NaNs")
    return many(lambda a, b: draw("negative_binomial", rng, a, b), np.int64, shape_for(size, n, p), n, p)


def logseries(rng: Any, p: Any, size: Any = None) -> Any:
    """The logarithmic series distribution."""
    p = number(p)
    if not np.all((p >= 0) & (p < 1)):
        raise ValueError("p < 0, p >= 1 or p is NaN" if np.ndim(p) == 0 else "p < 0, p >= 1 or p contains NaNs")
    return many(lambda a: draw("logseries", rng, a), np.int64, shape_for(size, p), p)


def zipf(rng: Any, a: Any, size: Any = None) -> Any:
    """Zipf's distribution."""
    a = number(a)
    if not np.all(a > 1):
        raise ValueError("a <= 1 or a is NaN" if np.ndim(a) == 0 else "a <= 1 or a contains NaNs")
    return many(lambda a: draw("zipf", rng, a), np.int64, shape_for(size, a), a)


# -- integers ----------------------------------------------------------------------------------------


def integers(
    rng: Any, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: Any = False
) -> Any:
    """Uniform integers from low up to high, which is left out unless `endpoint`; of every integer dtype, and bool."""
    kind = np.dtype(dtype)
    if kind.kind not in ("b", "i", "u"):
        refuse("integers gives integers and bools", "dtype=np.int64, and then .astype(...)")
    if np.ndim(low) > 0 or (high is not None and np.ndim(high) > 0):
        refuse("bounds of integers that are arrays are not supported", "draw each in a loop")
    first, behind = (0, int(low)) if high is None else (int(low), int(high))
    last = behind if endpoint else behind - 1
    below, above = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(np.int64).max)
    if kind.kind != "b" and kind != np.dtype(np.uint64):
        above = np.iinfo(kind).max
    shape = shape_for(size)
    if shape is None or count_of(shape) > 0:
        if first < below:
            raise ValueError("low is out of bounds for " + kind.name)
        if last > above:
            raise ValueError("high is out of bounds for " + kind.name)
        if first > last:
            if high is None:
                raise ValueError("high < 0" if endpoint else "high <= 0")
            raise ValueError("low > high" if endpoint else "low >= high")
    if kind.itemsize > 2:
        if shape is None:
            found = between(rng, first, last)
            return found if dtype is int else kind.type(found)
        out = np.empty(shape, kind)
        flat = out.reshape(-1)
        for i in range(flat.shape[0]):
            flat[i] = kind.type(between(rng, first, last))
        return out
    out = np.empty(1 if shape is None else shape, kind)
    small(rng, first, last - first, 1 if kind.kind == "b" else 8 * kind.itemsize, out.reshape(-1))
    if shape is not None:
        return out
    return bool(out[0]) if dtype is bool else out[0]


def between(rng: Any, first: int, last: int) -> Any:
    """An integer from first up to and with last, in 64 bits."""
    return int(np.int64(first) + np.int64(draw("bounded", rng, np.int64(last) - np.int64(first))))


def small(rng: Any, first: int, span: int, bits: int, out: Any) -> None:
    """Fill a vector by integers of few bits: 32 bits are drawn at a time, and used up from the low end (Lemire)."""
    full = 2**bits - 1
    threshold = (full - span) % (span + 1)
    word = 0
    left = 0
    for i in range(out.shape[0]):
        found = 0
        while span > 0:
            if left == 0:
                word = draw("next_uint32", rng)
                left = 32 // bits - 1
            else:
                word >>= bits
                left -= 1
            piece = word & full
            if span == full:
                found = piece
                break
            product = piece * (span + 1)
            if product & full >= threshold:
                found = product >> bits
                break
        out[i] = first + found


# -- permutations ------------------------------------------------------------------------------------


def mix(rng: Any, x: Any, by: Any = "interval", first: Any = 1) -> None:
    """Shuffle the rows of an array in place (Fisher and Yates), from the last one down to `first`.

    NumPy draws places by rejection ("interval") where it shuffles, and as `integers` does ("bounded") for `choice`.
    """
    for i in range(x.shape[0] - 1, first - 1, -1):
        j = draw(by, rng, i)
        if i != j:
            if np.ndim(x) == 1:
                held = x[i]
                x[i] = x[j]
                x[j] = held
            else:
                row = x[i].copy()
                x[i] = x[j]
                x[j] = row


def shuffle(rng: Any, x: Any, axis: Any = 0) -> None:
    """Shuffle an array in place along an axis."""
    if isinstance(x, (tuple, list)):
        refuse("a list cannot be shuffled", "shuffle an array")
    mix(rng, np.swapaxes(x, 0, axis_of(axis, np.ndim(x))))


def permutation(rng: Any, x: Any, axis: Any = 0) -> Any:
    """A shuffled copy of an array, or of arange(x)."""
    if isinstance(x, (tuple, list)):
        x = np.array(x)
    if isinstance(x, (int, np.integer)):
        order = np.arange(x)
        mix(rng, order)
        return order
    if np.ndim(x) == 0:
        refuse("permutation needs an array or an int")
    axis = axis_of(axis, np.ndim(x))
    if np.ndim(x) == 1:
        copy = np.array(x)
        mix(rng, copy)
        return copy
    order = np.arange(x.shape[axis])
    mix(rng, order)
    return np.take(x, order, axis=axis)


# -- choice ------------------------------------------------------------------------------------------


def choice(
    rng: Any, a: Any, size: Any = None, replace: Any = True, p: Any = None, axis: Any = 0, shuffle: Any = True
) -> Any:
    """A sample of arange(a), or of an array along an axis."""
    if isinstance(a, (tuple, list)):
        a = np.array(a)
    if np.ndim(a) == 0 and not isinstance(a, (int, np.integer)):
        refuse("choice needs an array or an int")
    shape = shape_for(size)
    count = 1 if shape is None else count_of(shape)
    if np.ndim(a) == 0:
        n = int(a)
        if n <= 0 and count > 0:
            raise ValueError("a must be a positive integer unless no samples are taken")
    else:
        n = a.shape[axis_of(axis, np.ndim(a))]
        if n == 0 and count > 0:
            raise ValueError("a cannot be empty unless no samples are taken")
    weights = None if p is None else checked_weights(p, n)
    if not replace and count > n:
        raise ValueError("Cannot take a larger sample than population when replace is False")
    if replace:
        places = repeated(rng, n, count, weights)
    elif p is None:
        places = floyd(rng, n, count, shuffle)
    else:
        places = weighted(rng, count, weights)
    if np.ndim(a) == 0:
        return int(places[0]) if shape is None else places.reshape(shape)
    if shape is None:
        return np.take(a, places[0], axis=axis) if np.ndim(a) > 1 else a[places[0]]
    return np.take(a, places.reshape(shape), axis=axis)


def checked_weights(p: Any, n: Any) -> Any:
    """Probabilities as a vector of floats."""
    p = number(p)
    if np.ndim(p) != 1:
        raise ValueError("p must be 1-dimensional")
    if p.shape[0] != n:
        raise ValueError("a and p must have same size")
    total = 0.0
    lost = 0.0
    for i in range(n):  # Kahan's sum
        term = p[i] - lost
        new = total + term
        lost = (new - total) - term
        total = new
    if np.isnan(total):
        raise ValueError("Probabilities contain NaN")
    if np.any(p < 0):
        raise ValueError("Probabilities are not non-negative")
    if abs(total - 1.0) > np.sqrt(np.finfo(np.float64).eps):
        raise ValueError("Probabilities do not sum to 1. See Notes section of docstring for more information.")
    return p


def repeated(rng: Any, n: Any, count: Any, weights: Any) -> Any:
    """Places that may come again."""
    if weights is None:
        return many(lambda: draw("bounded", rng, n - 1), np.int64, (count,))
    return np.searchsorted(shares(weights), many(lambda: draw("uniform", rng), np.float64, (count,)), side="right")


def shares(weights: Any) -> Any:
    """Sums of the weights so far, the last of which is 1."""
    sums = np.cumsum(weights)
    return sums / sums[-1]


def weighted(rng: Any, count: Any, weights: Any) -> Any:
    """Places that differ, by their weights: rounds of draws, of which each keeps the first of what is new."""
    left = weights.copy()
    if np.count_nonzero(left > 0) < count:
        raise ValueError("Fewer non-zero entries in p than size")
    found = np.empty(count, np.int64)
    taken = np.zeros(left.shape[0], np.bool_)
    done = 0
    while done < count:
        x = many(lambda: draw("uniform", rng), np.float64, (count - done,))
        for k in range(done):
            left[found[k]] = 0
        new = np.searchsorted(shares(left), x, side="right")
        for k in range(new.shape[0]):
            if not taken[new[k]]:
                taken[new[k]] = True
                found[done] = new[k]
                done += 1
    return found


def floyd(rng: Any, n: Any, count: Any, in_any_order: Any) -> Any:
    """Places that differ: the tail of a partial shuffle for large samples, else Floyd's algorithm with a hash table."""
    if n > 10000 and count > n // (50 if in_any_order else 20):
        order = np.arange(n)
        mix(rng, order, "bounded", max(n - count, 1))
        return order[n - count :].copy()
    mask = int(1.2 * count)
    for k in (1, 2, 4, 8, 16, 32):
        mask |= mask >> k
    table = np.full(mask + 1, -1)
    places = np.empty(count, np.int64)
    for k in range(count):
        j = n - count + k
        value = draw("bounded", rng, j)
        at = value & mask
        while table[at] != -1 and table[at] != value:
            at = (at + 1) & mask
        if table[at] != -1:  # it is taken: then j is not
            value = j
            at = j & mask
            while table[at] != -1:
                at = (at + 1) & mask
        table[at] = value
        places[k] = value
    if in_any_order:
        mix(rng, places, "bounded")
    return places


RANDOM: dict[str, Any] = {
    method.__name__: method
    for method in (
        random, uniform, standard_normal, normal, lognormal, laplace, gumbel, logistic, exponential, rayleigh,
        standard_exponential, standard_gamma, gamma, beta, chisquare, standard_t, f, standard_cauchy, pareto, power,
        weibull, wald, vonmises, triangular, poisson, binomial, geometric, negative_binomial, logseries, zipf,
        integers, shuffle, permutation, choice,
    )
}  # fmt: skip
