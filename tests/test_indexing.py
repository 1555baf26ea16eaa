"""Indexing with arrays: what is fused, what raises and when, and the `at` methods of ufuncs."""

import numpy as np
import pytest
from indexing import check, check_gradient

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

rng = np.random.default_rng(8)
X, PLACES, VECTOR = rng.standard_normal((4, 5)), np.array([0, 3, -1, 3]), rng.standard_normal(4)


def words(fn, *args, stage="optimizable"):
    """The mnemonics of the instructions of a compiled function."""
    text = dlvm.jit(fn).ir(*args, stage=stage)
    return [line.split(" = ")[-1].split()[0] for line in text.splitlines() if line.startswith("    ")]


def test_masked_update_compresses_nothing():
    """f(x[m], y[m]) stored to x[m] is a select of f(x, y): no index is made."""

    def f(x, y):
        m = x > 0
        x[m] = np.sin(x[m]) * 2 + y[m]
        x[m] -= y[m] * x[m]
        x[~m] = 0

    check(f, X, X * 2)
    assert not {"nonzero", "gather", "scatter"} & set(words(f, X.copy(), X * 2))


def test_masked_update_with_a_mask_that_changes():
    """The mask is read when it is used: a store to it in between counts."""

    def f(x, m):
        old = x[m]
        m[0, 0] = not m[0, 0]
        x[m] = 1.0
        return old, x[m]

    check(f, X, X > 0)


def test_gather_is_fused():
    """A sum of products of gathered elements makes no array."""
    found = words(lambda x, i, w: np.sum(x[i, 1] * w), X, PLACES, VECTOR, stage="compute")
    assert "gather" in found and "allocateHeap" not in found


@pytest.mark.parametrize("ufunc", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_ufunc_at(ufunc):
    """Every value counts, also where a place comes twice; views, tuples of indices, numbers, small integers."""
    at = getattr(np, ufunc).at

    def f(x, i, v):
        at(x, i, v[:, None])
        at(x[:, 1:], (i, 2), v)
        at(x[0], slice(1, 3), 2)

    check(f, X, PLACES, VECTOR)
    check(lambda x, i: at(x, i, 3), np.arange(5, dtype=np.uint8), PLACES)


def test_ufunc_at_on_flags():
    """np.add.at of bools is `or`."""

    def f(x, i):
        np.add.at(x, i, True)
        return x

    check(f, np.zeros(5, bool), PLACES)


def test_nothing_is_written_where_an_index_is_out_of_range():
    """The check comes before the first store."""

    def f(x, i, v):
        x[i] = v[:, None]

    check(f, X, np.array([0, 1, 9, 2]), VECTOR)
    check(f, X, np.array([0, 1, -5, 2]), VECTOR)


def test_messages():
    """NumPy's words, with the line."""

    def f(x, i, j):
        y = x[i]
        return y[j]

    compiled = dlvm.jit(f)
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 4"):
        compiled(X, np.array([1, 7]), np.array([0]))
    with pytest.raises(IndexError, match="index -3 is out of bounds for axis 0 with size 2"):
        compiled(X, np.array([1, 2]), np.array([-3]))
    with pytest.raises(
        IndexError, match="boolean index did not match indexed array along axis 0; size of axis is 2 but"
    ):
        compiled(X, np.array([1, 2]), np.array([True, False, True]))
    with pytest.raises(IndexError, match="indexing arrays could not be broadcast together"):
        dlvm.jit(lambda x, i, j: x[i, j])(X, np.array([1, 2]), np.array([1, 2, 3]))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "uint64", "int32"])
def test_dtypes_of_indices(dtype):
    """Any integers index; NumPy wraps a uint64 beyond int64 around, and counts from the end."""
    check(lambda x, i: x[i], X, np.array([3, 0, 1], dtype))
    if dtype == "uint64":
        check(lambda x, i: x[i], X, np.array([3, 2**64 - 1], dtype))


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool", "complex128"])
def test_dtypes_of_elements(dtype):
    """What is indexed may be of any dtype."""

    def f(x, i, m):
        y = x[i]
        x[m] = x[0, 0]
        x[i, 1] = y[:, 0]
        return y, x[m], x[:, i]

    check(f, (X * 3).astype(dtype), PLACES, X > 0)


def test_lists_as_indices():
    """A list of ints or bools is an array; an empty one selects nothing."""
    check(lambda x: (x[[0, -1]], x[:, [True, False, True, False, True]], x[[]], x[[[0], [1]], [2, 3]]), X)


def test_what_ran_before_a_counted_loop_raises():
    """The iterations before the one that fails have written, that one has not; the first check that fails raises."""

    @dlvm.jit
    def f(x, y, z, start, n):
        for i in range(start, n):
            z[i] = x[i] + y[i + 1]
        for i in range(n - 1, -1, -1):
            z[i] *= 2.0

    x, y = np.arange(9.0), np.arange(8.0) * 10
    for start, n, lengths in (
        (0, 6, (9, 8, 9)),
        (0, 9, (9, 8, 9)),
        (2, 9, (5, 8, 9)),
        (0, 9, (9, 8, 4)),
        (7, 3, (1, 1, 4)),
    ):
        a, b, ours = x[: lengths[0]].copy(), y[: lengths[1]].copy(), np.zeros(lengths[2])
        plain, said = ours.copy(), []
        for g, z in ((f, ours), (f.__wrapped__, plain)):
            try:
                g(a, b, z, start, n)
                said.append("")
            except IndexError as error:
                said.append(str(error).splitlines()[0])
        assert said[0].startswith(said[1])
        np.testing.assert_array_equal(ours, plain)


def test_bools_are_masks_without_axes():
    """x[b] has an axis more, of one place where b is true and of none where it is false, in all mixtures."""

    def read(x, b):
        parts = x[b], x[b, 1], x[:, b], x[..., b, 1], x[1, :, b], x[True], x[b, None, :, 2], x[b, b], x[np.array(b)]
        return *parts, x[x[0, 0, 0] < 1, :, 1:2, b], np.array(x[0, 0, 1])[b, None]

    def beside_arrays(x, b):
        return x[b, [0, 1, 1]], x[b, x[:, 0, 0] > 5]

    def written(x, b):
        x[b, 1] += 3.0
        x[1, :, b] *= x[1, :, b] + 1.0
        np.add.at(x, b, 0.5)
        y = x[b]
        y[:] = 7.0
        counts = np.zeros(5)
        for i in range(3):
            counts[i > 0] += x[0, i, 0]
        z = np.array(x[0, 0, 1])
        z[z > 0.5] = 9.0
        return y, counts, z * 1.0

    x = np.arange(24.0).reshape(2, 3, 4)
    for b in (True, np.False_):
        for f in (read, beside_arrays, written):
            check(f, x, b)
        check_gradient(lambda x, b: np.sum(x[b, 1] ** 2) + np.sum(x[1, :, b] * x[0, 0]), x, b)


def test_scalars_of_numpy_get_axes():
    """s[None], s[...], s[()] and s[b] of a NumPy scalar, as of an array without axes."""

    def f(x, b):
        s = np.sum(x)
        return s[None], s[...], s[()], s[..., np.newaxis], s[b], x[1][None, None] * 2, np.flip(s)

    check(f, VECTOR, False)
    check_gradient(lambda x: np.sum(np.sum(x)[..., np.newaxis] * x), VECTOR)
