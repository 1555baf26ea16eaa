"""Products of tall matrices with what follows them, strip by strip: what NumPy gives, for any threads and layouts."""

import numpy as np
import pytest

import dlvm_py as dlvm

RNG = np.random.default_rng(5)
ROWS, TERMS, COLUMNS = 9001, 9, 96  # more than 4 MiB of products, and a last strip that is shorter

pytestmark = pytest.mark.usefixtures("eager_threads")


def activation(x, w, b):
    return np.maximum(x @ w + b, 0.1) * 2.0


def softmax(x, w, b):
    z = x @ w + b
    e = np.exp(z - np.max(z, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def two_layers(x, w, b):
    """The rows of the second product are those of the first one's result."""
    return np.tanh(np.tanh(x @ w + b) @ (w.T @ w) / 50.0)


def blended(x, w, b):
    """Another shape of the product, of which an axis in the middle is summed."""
    t = (x @ w).reshape(len(x), 3, 4, 8)
    return np.sum(t * np.sum(x, axis=1)[:, None, None, None], axis=2), np.max(t, axis=3)


def kept(x, w, b):
    """The product is a result itself."""
    z = x @ w
    return z, np.sum(z * z, axis=1)


def right_of_the_rows(x, w, b):
    """The matrix on the right is part of what is made row by row, before the strips."""
    t = x * 2.0
    return (x @ t[: x.shape[1]]) * 3.0 + t


def right_is_overwritten(x, w, b):
    """The first product has the matrix as it was, the second one as it is then: two groups."""
    y = np.sin(x @ w)
    w[0] = y[5, : w.shape[1]]
    return y + np.cos(x @ w)


def row_of_all(x, w, b):
    """A row that needs the last one."""
    z = x @ w
    return z - z[::-1]


def in_place(x, w, b):
    """Rows that are read by a product are written afterwards."""
    z = x @ w
    x += z[:, : x.shape[1]]
    return np.sum(x * x, axis=1)


FUNCTIONS = (
    activation, softmax, two_layers, blended, kept, right_of_the_rows, right_is_overwritten, row_of_all, in_place,
)  # fmt: skip
ARE_CUT = (activation, softmax, two_layers, blended, kept, right_of_the_rows, right_is_overwritten)


def arguments(dtype="f8", rows=ROWS, terms=TERMS, columns=COLUMNS):
    """x, w and b, of which the sums are near one."""
    return tuple(RNG.standard_normal(s).astype(dtype) / 3 for s in ((rows, terms), (terms, columns), (columns,)))


def agree(function, compiled, args, rtol=1e-12):
    mine, theirs = [a.copy(order="K") for a in args], [a.copy(order="K") for a in args]
    found, expected = compiled(*mine), function(*theirs)
    found, expected = ((v if isinstance(v, tuple) else (v,)) for v in (found, expected))
    for a, b in zip((*found, *mine), (*expected, *theirs), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_numpy_gives(function):
    compiled = dlvm.jit(function)
    for count in (1, 2):
        dlvm.set_num_threads(count)
        agree(function, compiled, arguments())
    for rows in (0, 1, 100):
        if rows > TERMS or function not in (right_of_the_rows, right_is_overwritten):
            agree(function, compiled, arguments(rows=rows))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_cut(function):
    """Rows that need others are not: they have no loop over strips."""
    text = dlvm.jit(function).ir(*arguments(rows=20), stage="scheduled")
    has_strip_of_a_product = any(" dot " in part for part in text.split("'rows")[1:])
    assert has_strip_of_a_product == (function in ARE_CUT)


@pytest.mark.parametrize("layout", ["fortran", "strided", "reversed", "right", "single", "complex", "wide"])
def test_layouts(layout):
    """Left and right matrices of any strides and dtype; a right one that is too large for strips."""
    x, w, b = arguments({"single": "f4", "complex": "c16"}.get(layout, "f8"))
    rtol = 1e-5 if layout == "single" else 1e-12
    if layout == "wide":
        x, w, b = arguments(rows=300, terms=200, columns=2000)
    changed = {
        "fortran": lambda: (np.asfortranarray(x), w, b),
        "strided": lambda: (np.repeat(x, 2, axis=0)[::2], w, b),
        "reversed": lambda: (x[::-1, ::-1], w, b[::-1]),
        "right": lambda: (x, np.asfortranarray(w), b),
    }.get(layout, lambda: (x, w, b))()
    for function in (kept,) if layout == "complex" else (activation, kept):
        agree(function, dlvm.jit(function), changed, rtol)


def test_gradients():
    x, w, b = arguments(rows=6001)
    seed = RNG.standard_normal((6001, COLUMNS))
    gradient = dlvm.grad(dlvm.jit(lambda x, w, b: np.sum(np.tanh(x @ w + b) * seed)), wrt=(0, 1, 2))
    inner = (1 - np.tanh(x @ w + b) ** 2) * seed
    for found, expected in zip(gradient(x, w, b), (inner @ w.T, x.T @ inner, inner.sum(axis=0)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
