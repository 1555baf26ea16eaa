"""Kernels over the same rows that run strip by strip: the bits of the kernels one after the other, for any threads."""

import numpy as np
import pytest

import dlvm_py as dlvm

RNG = np.random.default_rng(11)


pytestmark = pytest.mark.usefixtures("eager_threads")


@dlvm.jit
def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


@dlvm.jit
def normalised(x, scale, shift):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + shift, mean[..., 0], x.std(axis=-1)


@dlvm.jit
def centred_in_place(x, total):
    """Writes what the caller sees: rows of an argument, and a sum of each."""
    total[:] = np.sum(x, axis=1)
    x -= total[:, None] / x.shape[1]
    return np.max(np.abs(x), axis=1)


@dlvm.jit
def shares_of_another_row(x):
    """The sum of the next row: no strip can do that."""
    total = np.sum(x, axis=1)
    return x / total[::-1][:, None], total


def structured(results):
    return results if isinstance(results, tuple) else (results,)


def large(shape, dtype):
    """An array that strips are made of, with a few values that are none or far away."""
    x = RNG.standard_normal(shape).astype(dtype)
    x[3, ..., 1], x[4, ..., 0], x[5], x[6, ..., 2] = np.nan, np.inf, -0.0, -np.inf
    return x


@pytest.mark.parametrize(
    ("shape", "dtype"), [((1201, 901), np.float32), ((1201, 701), np.float64), ((16001, 33), np.float64),
                         ((3, 5, 401, 100), np.float32)],
)  # fmt: skip
def test_rows_have_the_bits_that_they_have_by_themselves(shape, dtype):
    """Some rows by themselves are too few for strips: the kernels run one after the other."""
    x = large((max(shape[0], 8), *shape[1:]), dtype)
    few = slice(2, 8)
    # of several first axes one kernel says enough: each rank is compiled anew
    functions = [(softmax, ())] if len(shape) > 2 else [(softmax, ()), (normalised, (x[0] + 1, x[1]))]
    for function, others in functions:
        expected = structured(function(x[few].copy(), *others))
        for count in (1, 2):
            dlvm.set_num_threads(count)
            for found, part in zip(structured(function(x, *others)), expected, strict=True):
                assert found.dtype == dtype and found[few].tobytes() == part.tobytes()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(softmax(x), softmax.__wrapped__(x), rtol=2e-5 if dtype is np.float32 else 1e-12)


def test_arguments_that_are_written_other_rows_and_no_rows():
    """What is written is as NumPy writes it; where a kernel needs another row, there are no strips."""
    x = RNG.standard_normal((2000, 300))
    for given in (x, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x[:0], x[:, :1], x[:1]):
        mine, theirs = given.copy(order="A"), given.copy(order="A")
        sums, expected = np.zeros(len(given)), np.zeros(len(given))
        found, largest = centred_in_place(mine, sums), centred_in_place.__wrapped__(theirs, expected)
        np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(found, largest, rtol=1e-12, atol=1e-11)
    for found, expected in zip(shares_of_another_row(x), shares_of_another_row.__wrapped__(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert softmax(np.zeros((0, 5))).shape == (0, 5)
    with pytest.raises(ValueError, match="zero-size array"):
        softmax(np.zeros((5, 0)))


def test_arguments_that_overlap():
    """A total that lies in the rows themselves: each kernel sees what the one before it has written everywhere."""
    memory = RNG.standard_normal(2000 * 300 + 2000)
    mine, theirs = memory.copy(), memory.copy()
    for memory, function in ((mine, centred_in_place), (theirs, centred_in_place.__wrapped__)):
        function(memory[: 2000 * 300].reshape(2000, 300), memory[1000 : 1000 + 2000])
    np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10)


def test_gradients():
    """Adjoint kernels over the same rows are cut as well; the gradient of few rows is that of many."""
    loss = dlvm.grad(lambda x, w: np.sum(softmax(x) * w))
    x, w = RNG.standard_normal((1500, 400)), RNG.standard_normal((1500, 400))
    dlvm.set_num_threads(2)
    assert loss(x, w)[:5].tobytes() == loss(x[:5].copy(), w[:5].copy()).tobytes()
