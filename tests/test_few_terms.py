"""Sums of few terms at indices (few_terms.py): the bits of sums alone, slices as Python's, errors as NumPy's."""

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")


def products(starts, columns, values, x):
    """A sparse matrix times a vector."""
    y = np.full(len(starts) - 1, -1.0)
    for i in range(len(starts) - 1):
        y[i] = values[starts[i] : starts[i + 1]] @ x[columns[starts[i] : starts[i + 1]]]
    return y


def sums(starts, columns, values, x):
    """The same by another sum, of more steps, without the first matrix where a row has one value alone."""
    y = np.full(len(starts) - 1, -1.0, x.dtype)
    for i in range(len(starts) - 1):
        a, b = starts[i], starts[i + 1]
        y[i] = np.sum(np.abs(x[columns[a:b]] - values[a:b])) + x[0]
    return y


def one(values, x, columns):
    """A row by itself."""
    return np.sum(np.abs(x[columns] - values)) + x[0]


def matrix(rng, lengths, n, index=np.int64, dtype=np.float64):
    starts = np.concatenate([[0], np.cumsum(lengths)])
    columns = rng.integers(0, n, starts[-1])
    if np.issubdtype(index, np.signedinteger):
        columns -= rng.integers(0, 2, starts[-1]) * n  # from both ends
    values = rng.standard_normal(starts[-1]).astype(dtype)
    return starts.astype(index), columns.astype(index), values, rng.standard_normal(n).astype(dtype)


@pytest.mark.parametrize("index", [np.uint32, np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_have_the_bits_of_rows_alone(index, dtype):
    rng = np.random.default_rng(5)
    lengths = [0, 1, 2, 3, 30, 31, 32, 33, 0, 62, 63, 64, 65, 200, 1, 0]
    given = matrix(rng, lengths, 50, index, dtype)
    f, alone = dlvm.jit(sums), dlvm.jit(one)
    found = f(*given)
    np.testing.assert_allclose(found, sums(*given), rtol=1e-6 if dtype is np.float32 else 1e-14)
    starts, columns, values, x = given
    parts = [slice(a, b) for a, b in zip(starts[:-1], starts[1:], strict=True)]
    np.testing.assert_array_equal(found, [alone(values[p], x, columns[p]) for p in parts])
    assert "few" in f.ir(*given, stage="scheduled")


def test_products_of_rows():
    rng = np.random.default_rng(6)
    f = dlvm.jit(products)
    for index in (np.uint32, np.int64):
        given = matrix(rng, rng.integers(0, 9, 200), 70, index)
        np.testing.assert_allclose(f(*given), products(*given), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "starts", [[0, 4, 2, 9], [0, 2, 20, 30], [-3, -1, 9, 2], [-40, 2, 3, 40], [9, 9, 9, 12], [2**40, 2**41, -(2**40)]]
)
def test_slices_are_cut_as_python_cuts_them(starts):
    rng = np.random.default_rng(7)
    _, columns, values, x = matrix(rng, [9], 6)
    given = np.array(starts), columns, values, x
    np.testing.assert_allclose(dlvm.jit(products)(*given), products(*given), rtol=1e-13)


def test_rows_of_different_lengths_are_stretched_or_raise():
    f = dlvm.jit(sums)
    rng = np.random.default_rng(8)
    starts, columns, values, x = matrix(rng, [2, 3, 1, 2], 6)
    for count in (8, 6, 5, 4, 3, 2):
        given = starts, columns, values[:count], x
        try:
            expected = sums(*given)
        except ValueError as error:
            with pytest.raises(ValueError) as found:
                f(*given)
            assert str(found.value) == str(error)
        else:
            np.testing.assert_allclose(f(*given), expected, rtol=1e-13)


def written(y, starts, columns, values, x):
    """The products, written to an argument."""
    for i in range(len(starts) - 1):
        y[i] = values[starts[i] : starts[i + 1]] @ x[columns[starts[i] : starts[i + 1]]]


@pytest.mark.parametrize("bad", [7, -8, 2**40, -(2**63)])
@pytest.mark.parametrize("row", [2, 40])
def test_what_is_out_of_range_raises_when_its_row_comes(bad, row):
    f = dlvm.jit(written)
    rng = np.random.default_rng(9)
    starts, columns, values, x = matrix(rng, [3, 1, row, 2], 7)
    columns[5] = bad
    expected, found = np.zeros(4), np.zeros(4)
    for to, function in ((expected, written), (found, f)):
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0 with size 7"):
            function(to, starts, columns, values, x)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_the_first_index_out_of_range_is_named():
    starts, columns, values, x = np.array([0, 4]), np.array([1, 50, 70, -90]), np.ones(4), np.ones(5)
    with pytest.raises(IndexError, match="index 50 is"):
        dlvm.jit(products)(starts, columns, values, x)
    with pytest.raises(IndexError, match="index 1 is out of bounds for axis 0 with size 0"):
        dlvm.jit(products)(starts, columns, values, x[:0])


def test_gradients():
    rng = np.random.default_rng(10)
    starts, columns, values, x = matrix(rng, [3, 0, 1, 40], 7)

    def loss(starts, columns, values, x):
        return np.sum(products(starts, columns, values, x) ** 2)

    d = dlvm.grad(loss, wrt=("values", "x"))(starts, columns, values, x)
    t = rng.standard_normal(len(x))
    h = 1e-6
    ahead, behind = (loss(starts, columns, values, x + s * h * t) for s in (1, -1))
    np.testing.assert_allclose(d[1] @ t, (ahead - behind) / (2 * h), rtol=1e-6)
    t = rng.standard_normal(len(values))
    ahead, behind = (loss(starts, columns, values + s * h * t, x) for s in (1, -1))
    np.testing.assert_allclose(d[0] @ t, (ahead - behind) / (2 * h), rtol=1e-6)


# rows of which a processor remembers no lengths, with all the lengths that terms together are for, and longer ones
MANY = np.random.default_rng(11).poisson(3, 9000)


def wild(index=np.int64, dtype=np.float64, size=60):
    """A matrix whose rows are short, and of lengths that nobody expects."""
    return matrix(np.random.default_rng(12), MANY, size, index, dtype)


@pytest.mark.parametrize("index", [np.uint32, np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", [products, sums])
def test_terms_together_have_the_bits_of_terms_one_by_one(kernel, index, dtype):
    starts, columns, values, x = wild(index, dtype)
    values[::7] *= -0.0
    values[5::70], values[6::90], x[3] = np.inf, np.nan, 1e-310
    f = dlvm.jit(kernel)
    found = f(starts, columns, values, x)
    step = 1000  # of so few rows the terms are added one by one
    parts = [f(starts[k : k + step + 1], columns, values, x) for k in range(0, len(MANY), step)]
    np.testing.assert_array_equal(found, np.concatenate(parts))
    with np.errstate(invalid="ignore"):
        expected = kernel(starts, columns, values, x)
    rtol = 1e-5 if dtype is np.float32 else 1e-13
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
    assert "unsteady" in f.ir(starts, columns, values, x, stage="scheduled")


@pytest.mark.parametrize("apart", range(4))
def test_terms_together_of_arrays_whose_elements_lie_apart(apart):
    given = wild()
    f = dlvm.jit(sums)
    expected = f(*given)
    spread = [np.repeat(a, 3)[::3] if k == apart else a for k, a in enumerate(given)]
    np.testing.assert_array_equal(f(*spread), expected)
    turned = [a[::-1].copy()[::-1] if k == apart else a for k, a in enumerate(given)]
    np.testing.assert_array_equal(f(*turned), expected)


@pytest.mark.parametrize("bad", [60, -61, 2**40, -(2**63)])
@pytest.mark.parametrize("length", [3, 6])
def test_what_is_out_of_range_among_terms_together(bad, length):
    starts, columns, values, x = wild()
    row = next(k for k in range(8000, 9000) if MANY[k] == length)
    columns[starts[row] + 1] = bad
    expected, found = np.zeros(len(MANY)), np.zeros(len(MANY))
    for to, function in ((expected, written), (found, dlvm.jit(written))):
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0 with size 60"):
            function(to, starts, columns, values, x)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_what_lies_behind_the_terms_says_nothing():
    """Elements behind a row are read with it, also such that no row has, and none behind the arrays."""
    starts, columns, values, x = wild()
    rows = np.cumsum(MANY + 1)  # between rows there is one entry of nobody's
    apart = np.full(rows[-1], 10**9), np.full(rows[-1], np.nan)
    belongs = np.ones(rows[-1], bool)
    belongs[rows - 1] = False
    for to, given in zip(apart, (columns, values), strict=True):
        to[belongs] = given

    def spread(starts, counts, columns, values, x):
        y = np.empty(len(counts))
        for i in range(len(counts)):
            a, b = starts[i], starts[i] + counts[i]
            y[i] = values[a:b] @ x[columns[a:b]]
        return y

    found = dlvm.jit(spread)(np.concatenate([[0], rows[:-1]]), MANY, *apart, x)
    np.testing.assert_array_equal(found, dlvm.jit(products)(starts, columns, values, x))
    empty = np.zeros(len(starts), np.int64), columns[:0], values[:0], x[:0]
    np.testing.assert_array_equal(dlvm.jit(products)(*empty), np.zeros(len(MANY)))


@pytest.mark.parametrize("index", [np.uint32, np.int32, np.int64])
def test_questions_about_rows_that_nothing_is_summed_of(index):
    """The forward sweep of a gradient asks about the indices alone."""
    rng = np.random.default_rng(13)
    lengths = [0, 1, 7, 8, 9, 0, 31, 32, 33, 40, 3, 0, 1]
    starts, columns, values, x = matrix(rng, lengths, 50, index)
    f = dlvm.grad(products, wrt=("values", "x"))
    d = f(starts, columns, values, x)
    np.testing.assert_array_equal(d[0], x[columns])
    expected = np.zeros(len(x))
    np.add.at(expected, columns, values)
    np.testing.assert_allclose(d[1], expected, rtol=1e-13)
    assert "'some(" in f.ir(starts, columns, values, x, stage="scheduled")
    for at in (0, 3, 20, 60, len(columns) - 1):
        wrong = columns.copy()
        wrong[at] = 50
        with pytest.raises(IndexError, match="index 50 is out of bounds for axis 0 with size 50"):
            f(starts, wrong, values, x)
    with pytest.raises(IndexError, match="is out of bounds for axis 0 with size 0"):
        f(starts, columns, values, x[:0])
    d = f(np.zeros(3, index), columns, values, x[:0])
    np.testing.assert_array_equal(d[0], np.zeros(len(values)))
