"""Sorting, searching and what rests on them: native code does what NumPy does, and derivatives follow the elements."""

import time

import numpy as np
import pytest
from indexing import check, check_gradient

import dlvm_py as dlvm

rng = np.random.default_rng(3)
TIES = np.round(rng.standard_normal((5, 7)) * 2)
NANS = TIES.copy()
NANS[1, 2], NANS[0, 0] = np.nan, np.nan
INTS = rng.integers(0, 6, (4, 5))
VECTOR, SMOOTH = rng.standard_normal(9), rng.standard_normal((4, 5))
DTYPES = [TIES, NANS, INTS, INTS.astype(np.uint8), INTS > 2, TIES.astype(np.float32)]
DTYPE_NAMES = ["ties", "nan", "int64", "uint8", "bool", "float32"]
# uint8 as int64, float32 as float64: the random calls have all of them
MANY = [pytest.param(a, marks=pytest.mark.slow) if a.dtype in (np.uint8, np.float32) else a for a in DTYPES]


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    """The IR verifier runs after every pass."""
    monkeypatch.setenv("DLVM_VERIFY", "1")


@pytest.mark.parametrize("a", DTYPES, ids=DTYPE_NAMES)
def test_sorts(a):
    """Stable along any axis, NaN last, of every dtype and layout."""
    check(lambda a: (np.sort(a), np.argsort(a, axis=0, kind="stable"), np.sort(a, None)), a)
    check(lambda a: (np.sort(a[:, ::2].T), np.argsort(a[::-1], kind="stable")), a)


@pytest.mark.parametrize("n", [0, 1, 3, 8, 9, 64, 65, 100, 129, 300])
def test_sort_of_any_length(n):
    """Runs that do not come out even are merged too."""
    check(lambda a: (np.sort(a), np.argsort(a, kind="stable")), rng.integers(0, 5, n))


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.int8])
def test_sort_of_integers_that_are_near_one_another(dtype):
    """Those that are counted, at either end of their type, and those that lie one too far apart for it."""
    sort, ends = dlvm.jit(lambda a: np.sort(a)), np.iinfo(dtype)
    for n, span in ((64, 1), (300, 9), (300, 2**62), (5001, 900), (70_000, 2**14 - 1), (70_000, 2**14)):
        span = min(span, int(ends.max) - int(ends.min))
        for low in (int(ends.min), int(ends.max) - span):
            a = rng.integers(low, low + span, n, dtype, endpoint=True)
            a[:2] = low, low + span
            np.testing.assert_array_equal(sort(a), np.sort(a))


CROWD = 1 + np.round(rng.random(700) * 40) * 2.0**-52
WIDE = {
    "signed zeros": np.where(rng.random(300) < 0.5, -0.0, 0.0) + np.where(rng.random(300) < 0.3, 1.0, 0.0) * -0.0,
    "zeros among numbers": np.copysign(np.round(rng.standard_normal(300)), rng.standard_normal(300)),
    "a crowd and one far away": np.append(CROWD, 1e300),
    "few neighbours": np.append(rng.random(200) * 1e-300, [1.0, 1.0 - 2.0**-53, 1.0 + 2.0**-52, -1e300]),
    "infinities and NaN": np.where(rng.random(300) < 0.3, np.nan, np.where(rng.random(300) < 0.5, -np.inf, 2.0)),
    "all of int64": rng.integers(-(2**63), 2**63 - 1, 700),
    "its ends": np.append(rng.integers(0, 30, 300), [2**63 - 1, -(2**63)]),
    "uint64": rng.integers(0, 2**64 - 1, 300, np.uint64),
    "int32": rng.integers(-(2**31), 2**31 - 1, 300, np.int32),
    "float16": rng.standard_normal(300).astype(np.float16),
}


@pytest.mark.parametrize("name", WIDE)
def test_keys_of_a_wide_range(name):
    """Keys that places leave too little room for, equal ones of other bits: the order, and places, of a stable sort."""
    a, order = WIDE[name], np.argsort(WIDE[name], kind="stable")
    found = dlvm.jit(lambda a: (np.sort(a), np.argsort(a, kind="stable")))(a)
    np.testing.assert_array_equal(found[1], order)
    np.testing.assert_array_equal(found[0], a[order])
    np.testing.assert_array_equal(np.signbit(found[0]), np.signbit(a[order]))


PERIODIC = np.sin(np.arange(5000.0) * 2 * np.pi / 17)  # as is what a sample with this step sees


@pytest.mark.parametrize("a", [rng.random(5000), PERIODIC, np.round(rng.random(2048) * 3), rng.integers(0, 99, 4001)])
def test_middle_of_many(a):
    """What lies around the wanted rank alone is sorted, or all of it: the same value and gradient."""
    f = dlvm.jit(lambda a, q: (np.median(a), np.quantile(a, q), np.nanmedian(a)))
    for q in (0.0, 0.3, 0.999, 1.0):
        np.testing.assert_array_equal(f(a, q), (np.median(a), np.quantile(a, q), np.nanmedian(a)))
    if a.dtype.kind == "f":
        assert np.isnan(f(np.append(a, np.nan), 0.5)[:2]).all()
        seed = dlvm.grad(lambda a: np.median(a) + np.percentile(a, 30.0))(a)
        assert np.count_nonzero(seed) <= 4
        np.testing.assert_allclose(np.sum(seed), 2.0)
        np.testing.assert_allclose(seed @ a, np.median(a) + np.percentile(a, 30.0))


WITH_NAN = np.where(rng.random(3000) < 0.01, np.nan, rng.random(3000))


def test_partition_of_many():
    """The kth element is where it belongs, none before it is larger and none behind smaller; places say the same."""
    f = dlvm.jit(lambda a, k: (np.partition(a, k), np.argpartition(a, k)))
    for a in (rng.random(5000), PERIODIC, np.round(rng.random(2048) * 3), np.arange(4000.0), WITH_NAN):
        ordered = np.sort(a)
        for k in (0, 10, len(a) // 2, len(a) - 1, -3, -len(a)):
            values, places = f(a, k)
            for found in (values, a[places]):
                np.testing.assert_array_equal(np.sort(found), ordered)
                np.testing.assert_array_equal(found[k], ordered[k])
                assert not np.any(found[: k % len(a)] > found[k]) and not np.any(found[k % len(a) :] < found[k])
        with pytest.raises(ValueError, match="out of bounds"):
            f(a, len(a))


def test_derivative_of_a_partition():
    """Each element has the seed of the place that it went to."""
    a = rng.random(3000)
    np.testing.assert_array_equal(dlvm.grad(lambda a: np.sum(np.partition(a, 40)[:41]))(a), a <= np.sort(a)[40])


def test_isin_of_integers():
    """By a table where the numbers that are wanted lie close together, by a search elsewhere."""
    f = dlvm.jit(lambda a, b: (np.isin(a, b), np.isin(a, b, invert=True), np.unique(a, return_counts=True)))
    ends = np.array([-(2**63), 2**63 - 1, 5])
    for a, b in ((rng.integers(-9, 9, 40), rng.integers(-3, 3, 7)), (ends, rng.integers(0, 9, 5)), (ends, ends[:2])):
        for x, y in ((a, b), (a.reshape(1, -1), b.astype(np.int16) if b.max() < 9 else b)):
            wanted = np.isin(x, y), np.isin(x, y, invert=True)
            found = f(x, y)
            np.testing.assert_array_equal(found[:2], wanted)
            np.testing.assert_array_equal(found[2][1], np.unique(x, return_counts=True)[1])


def test_sort_in_place():
    """x.sort() changes x, also through a view."""

    def sort_columns(a):
        b = a[:, 1:]
        b.sort(0)
        return a[0].argsort()

    check(sort_columns, SMOOTH)


def _killer(n, lanes):
    """Numbers where the pivot of quick_sort.py is among the smallest of its part, forty times one after the other.

    What it samples of each part is given the next numbers, then the elements go where it puts them.
    """
    values, places, given = np.full(n, n), np.arange(n), 0
    for _ in range(40):
        sample = (np.arange(9)[:, None] * ((len(places) - lanes) // 8) + np.arange(lanes)).ravel()
        fresh = places[sample][values[places[sample]] == n]
        values[fresh] = given + np.arange(len(fresh))
        given += len(fresh)
        medians = np.median(np.median(values[places[sample]].reshape(3, 3, lanes), axis=0), axis=0)
        is_above = values[places] >= np.sort(medians)[lanes // 2]
        vectors = (np.arange(len(places)) - len(places) % lanes) // lanes
        step = np.where(vectors < 0, vectors * lanes + np.arange(len(places)) % lanes, vectors)[is_above]
        places = places[is_above][np.argsort(-step, kind="stable")]
    return values


PATTERNS = {
    "at random": lambda n: rng.standard_normal(n) * 1e8,
    "in order": lambda n: np.arange(n) * 100_000.0,
    "backwards": lambda n: np.arange(n)[::-1] * 100_000.0,
    "all equal": lambda n: np.full(n, -3.0),
    "the largest": lambda n: np.where(rng.random(n) < 0.9, 2.0**31 - 1, rng.random(n) * 1e9),
    "the smallest": lambda n: np.where(rng.random(n) < 0.9, -(2.0**31), rng.random(n) * 1e9),
    "few": lambda n: rng.integers(-2, 3, n) * 1e9 / 2,
    "up and down": lambda n: np.minimum(np.arange(n), n - np.arange(n)) * 100_000.0,
    "saw teeth": lambda n: np.arange(n) % 97 * 1e7,
    "killer": lambda n: _killer(n, 4) * 100_000.0 if n > 2000 else np.arange(n),
}


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32, np.float32])
def test_sort_of_patterns(dtype):
    """Halves by vectors, whatever the pivots are worth: in order, equal, or made so that none halves anything."""
    sort = dlvm.jit(lambda a: np.sort(a))
    for make in PATTERNS.values():
        for n in (257, 300, 511, 1000, 2003, 9999):
            a = make(n).astype(dtype)
            np.testing.assert_array_equal(sort(a), np.sort(a))
    a = (_killer(9999, 32 // np.dtype(dtype).itemsize) * 100_000.0).astype(dtype)
    np.testing.assert_array_equal(sort(a), np.sort(a))


def test_sort_of_any_length_in_vectors():
    """Every length up to some, of numbers of either sign with NaN, infinities and zeros among them."""
    sort = dlvm.jit(lambda a: np.sort(a))
    some = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])
    for n in [*range(250, 300), *range(300, 2000, 37)]:
        a = np.where(rng.random(n) < 0.2, rng.choice(some, n), rng.standard_normal(n))
        found, wanted = sort(a), a[np.argsort(a, kind="stable")]
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(wanted[wanted == 0]))
        np.testing.assert_array_equal(sort(a[::-3]), np.sort(a[::-3]))


def test_many_elements_do_not_take_the_square_of_the_time():
    """A million elements are sorted in seconds, also when they are in order or all the same."""
    sort = dlvm.jit(lambda a: np.sort(a))
    for a in (rng.standard_normal(1_000_000), np.arange(1e6), np.zeros(1_000_000)):
        start = time.perf_counter()
        np.testing.assert_array_equal(sort(a), np.sort(a))
        assert time.perf_counter() - start < 30


def test_search():
    """Before or behind equal elements, for vectors, matrices and numbers, NaN included, in nothing too."""
    check(
        lambda a, v: (np.searchsorted(a, v), np.searchsorted(a, v, "right"), np.searchsorted(a, v[0, 0])),
        np.sort(np.append(VECTOR.round(), np.nan)), NANS,
    )  # fmt: skip
    check(lambda a, v: (np.searchsorted(a, v), a.searchsorted(2.5, side="right")), np.array([1, 2, 2, 3]), INTS)
    check(lambda a, v: np.searchsorted(a, v), np.zeros(0), VECTOR)


@pytest.mark.parametrize("a", MANY, ids=DTYPE_NAMES)
def test_places_of_extremes(a):
    """The first of several, NaN before all."""
    check(lambda a: (np.argmax(a), np.argmin(a, axis=1), a.argmax(axis=0), np.argmin(a, keepdims=True)), a)


def test_places_of_extremes_without_nan():
    """NaN does not count; a slice of NaN alone raises."""
    check(lambda a: (np.nanargmax(a), np.nanargmin(a, 0), np.nanargmax(a, axis=1)), NANS)
    check(lambda a: np.nanargmin(a, 0), np.full((2, 2), np.nan))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_place_of_the_extreme_of_nothing(shape):
    """ValueError, unless there is no result element either."""
    check(lambda a: np.argmax(a, -1), np.zeros(shape))


@pytest.mark.parametrize("a", [TIES, NANS, pytest.param(INTS, marks=pytest.mark.slow)], ids=DTYPE_NAMES[:3])
def test_medians_and_quantiles(a):
    """The middle in order, NaN where one is among them, an average in between."""
    check(lambda a: (np.median(a), np.median(a, 0), np.median(a, axis=1, keepdims=True)), a)
    check(lambda a: (np.quantile(a, 0.3), np.percentile(a, [0, 33.3, 100], axis=1)), a, exact=False)


def test_quantiles_out_of_range():
    """ValueError."""
    check(lambda a: np.quantile(a, 1.3), TIES)
    check(lambda a, q: np.percentile(a, q), TIES, np.array([-1.0, 2.0]))


@pytest.mark.parametrize("a", [TIES, NANS, INTS, np.zeros(0)], ids=["ties", "nan", "ints", "nothing"])
def test_unique(a):
    """In order, each once; the first place, the inverse, the counts."""
    check(lambda a: np.unique(a), a)
    check(lambda a: np.unique(a, return_index=True, return_inverse=True, return_counts=True), a)


def test_membership():
    """NaN is in nothing."""
    check(lambda a, b: (np.isin(a, b), np.isin(a, b, invert=True)), INTS, np.array([1, 3, 7]))
    check(lambda a, b: np.isin(a, b), NANS, np.array([1.0, np.nan]))
    check(lambda a, b: np.isin(a, b), NANS, np.zeros(0))


def test_bins():
    """Intervals that are open on either side, in rising or falling order; sums of weights; what is refused."""
    bins = np.array([-1.0, 0, 2])
    check(lambda a, b: (np.digitize(a, b), np.digitize(a, b, right=True), np.digitize(a, b[::-1])), TIES, bins)
    check(lambda a, b: np.digitize(a, b), TIES, np.array([-1.0, 3, 2]))
    check(lambda a: (np.bincount(a), np.bincount(a, minlength=9)), INTS.ravel())
    check(lambda a, w: np.bincount(a, weights=w), INTS.ravel()[:9], VECTOR)
    check(lambda a: np.bincount(a), np.array([1, -1]))


def test_histograms():
    """Counts, weights, densities; edges given or not."""
    check(lambda a: np.histogram(a), VECTOR)
    check(lambda a: np.histogram(a, bins=4, range=(-1, 1)), VECTOR)
    check(lambda a, b: np.histogram(a, bins=b), VECTOR, np.array([-1.0, -0.3, 1]))
    check(lambda a, w: np.histogram(a, bins=5, weights=w, density=True), VECTOR, VECTOR**2, exact=False)


def test_even_bins_are_numpys_to_the_edge():
    """Elements at the edges, outside of them and not a number fall where NumPy lets them fall."""
    compiled = dlvm.jit(lambda a, bins: np.histogram(a, bins, range=(-1.0, 2.0)))
    rng = np.random.default_rng(0)
    for digits, bins in [(0, 3), (1, 30), (2, 7), (1, 60), (17, 1)]:
        a = np.concatenate([np.round(rng.normal(size=200), digits), [np.nan, np.inf, -np.inf, -1.0, 2.0]])
        for found, expected in zip(compiled(a, bins), np.histogram(a, bins, range=(-1.0, 2.0)), strict=True):
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="Too many bins for data range. Cannot create 3 finite-sized bins"):
        dlvm.jit(lambda a: np.histogram(a, 3))(np.array([5e-324, 0.0]))


def test_other_orders():
    """Several keys; partitions, which here are sorted."""
    check(lambda a, b: np.lexsort((a, b)), INTS.ravel(), INTS.ravel()[::-1] // 2)
    check(lambda a: (np.partition(a, 2)[..., 2], np.argpartition(a, 0, axis=0)[0] * 0), TIES)
    check(lambda a: np.partition(a, 9), TIES)


GRADIENTS = [
    lambda a: np.sum(np.sort(a) ** 2 * np.arange(5.0)),
    lambda a: np.sum(np.sort(a, 0) ** 3) + np.sum(np.sort(a, None) * np.arange(20.0)),
    lambda a: np.sum(a[np.argsort(a[:, 0])] ** 3 * np.arange(5.0)),
    lambda a: np.median(a) ** 2 + np.sum(np.median(a, 1) ** 3),
    lambda a: np.quantile(a, 0.3) ** 2 + np.sum(np.quantile(a, [0.2, 0.77], axis=0) ** 3),
    lambda a: np.sum(np.unique(a) ** 2 * np.arange(20.0)),
    lambda a: a.ravel()[np.argmax(a)] ** 2 + np.sum(a[np.arange(4), np.argmin(a, 1)] ** 3),
]


@pytest.mark.parametrize("f", GRADIENTS, ids=["rows", "columns", "by-key", "median", "quantile", "unique", "argmax"])
def test_gradients(f):
    """First derivatives against differences, of the plain sorts second ones too."""
    check_gradient(f, SMOOTH, second=f in GRADIENTS[:2])


def test_gradient_of_weights():
    """The weights of a histogram carry derivatives, what is counted does not."""
    check_gradient(lambda w, i: np.sum(np.bincount(i, weights=w) ** 2), VECTOR, INTS.ravel()[:9])
    check_gradient(lambda w, a: np.sum(np.histogram(a, 3, weights=w)[0] ** 2), VECTOR, VECTOR.copy())


def test_equal_elements_keep_their_seeds():
    """A sort of ties is stable, so the k-th of equal elements takes the k-th seed."""
    gradient = dlvm.grad(lambda a: np.sum(np.sort(a) * np.array([1.0, 2.0, 3.0, 4.0])))
    np.testing.assert_array_equal(gradient(np.array([2.0, 1.0, 2.0, 1.0])), [3, 1, 4, 2])


def test_extreme_places_beyond_a_block():
    """argmax and argmin of vectors longer than the blocks they are searched in: ties, NaN and -0 included."""
    places = dlvm.jit(lambda a: (np.argmax(a), np.argmin(a)))
    rng = np.random.default_rng(5)
    for n in (1, 2047, 2048, 2049, 5000):
        ties = rng.standard_normal(n).round(1)
        one_nan, nans = ties.copy(), ties.copy()
        one_nan[-1] = nans[n // 2 :] = np.nan
        zeros = np.zeros(n)
        zeros[n // 2] = -0.0
        for a in (ties, one_nan, nans, zeros, np.sort(ties)):
            assert places(a) == (np.argmax(a), np.argmin(a))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8, np.uint64, np.bool_])
def test_searches_of_several(dtype):
    """Some searches next to one another, and a rest: of all lengths, with what equals, infinities, zeros and NaN."""
    f = dlvm.jit(lambda o, x: (np.searchsorted(o, x), np.searchsorted(o, x, side="right")))
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 3, 4, 7, 8, 9, 33, 100):
        ordered, wanted = rng.integers(0, 20, n).astype(dtype), rng.integers(0, 22, 11).astype(dtype)
        if np.dtype(dtype).kind == "f":
            ordered[rng.random(n) < 0.3] = rng.choice([np.nan, np.inf, -np.inf, -0.0])
            tiny = np.finfo(dtype).smallest_subnormal
            wanted[:8] = [np.nan, np.inf, -np.inf, 0, -0.0, -1, tiny, -tiny]
        ordered = np.sort(ordered)
        for x in (wanted, wanted[:2], wanted.reshape(1, -1)[:, ::-1], wanted[:0]):
            for o in (ordered, np.repeat(ordered, 2)[::2]):
                for got, side in zip(f(o, x), ("left", "right"), strict=True):
                    np.testing.assert_array_equal(got, np.searchsorted(o, x, side))


def test_interpolation():
    """np.interp between, at and beyond points, some of them at one place; at NaN; of a single point; its gradient."""
    f = dlvm.jit(lambda x, o, y: np.interp(x, o, y))
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 17):
        o, y = np.sort(rng.normal(size=n)), rng.normal(size=n)
        x = np.concatenate((rng.normal(size=9) * 2, o, [np.nan, np.inf, -np.inf]))
        for points in (o, np.repeat(o, 3)[: max(n, 1)]):
            np.testing.assert_array_equal(f(x, points, y), np.interp(x, points, y))
    g = dlvm.grad(lambda x, o, y: np.sum(np.interp(x, o, y) ** 2), wrt=(0, 1, 2))
    arguments = [rng.uniform(-2, 2, 7), np.array([-1.5, -0.4, 0.3, 1.2]), rng.normal(size=4)]
    for k, got in enumerate(g(*arguments)):
        for at in range(len(got)):
            moved = [[a.copy() for a in arguments] for _ in range(2)]
            moved[0][k][at] += 1e-6
            moved[1][k][at] -= 1e-6
            high, low = (np.sum(np.interp(*a) ** 2) for a in moved)
            np.testing.assert_allclose(got[at], (high - low) / 2e-6, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_medians_of_large_numbers(dtype):
    """The one in the middle is no sum of two, which may be infinite: that of an even number is, as NumPy's."""
    f = dlvm.jit(lambda x, a: (np.median(x), np.nanmedian(x), np.median(a, axis=1), np.nanmedian(a, axis=0)))
    large = np.finfo(dtype).max * dtype(0.8)
    for numbers in ([large], [large] * 2, [1, 2, large, large, large], [large] * 4, [-large] * 3, [1, large, np.nan]):
        x = np.array(numbers, dtype)
        a = np.stack([x, x[::-1]])
        with np.errstate(all="ignore"):
            expected = np.median(x), np.nanmedian(x), np.median(a, axis=1), np.nanmedian(a, axis=0)
        for found, one in zip(f(x, a), expected, strict=True):
            np.testing.assert_array_equal(found, one)
