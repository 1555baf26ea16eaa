"""Products that are added in memory: the form that they take, and that the numbers are NumPy's."""

import re

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.runtime import loader

pytestmark = pytest.mark.usefixtures("plain_code")

RNG = np.random.default_rng(5)


def add_in_place(p, x, y):
    p += x @ y


def subtract_in_place(p, x, y):
    p -= x @ y


def polybench_gemm(p, x, y):
    p[:] = 1.5 * x @ y + 1.2 * p


def product_minus(p, x, y):
    p[:] = x @ y - p


def sum_of_products(p, x, y):
    return p @ x + x @ y - y @ p


def product_of_itself(p, x, y):
    p += x @ p


def in_a_section(p, x, y):
    p[1:, ::2] += (x @ y)[1:, ::2]


def into_a_column(p, x, y):
    p[:, 0] += x @ y[0]


def into_a_row(p, x, y):
    p[0] -= x[0] @ y


def into_reversed_rows(p, x, y):
    p[::-1] += x @ y


def into_the_transpose(p, x, y):
    p.T[:] += x @ y


def in_a_loop(p, x, y):
    for _ in range(3):
        p += x @ y


def used_twice(p, x, y):
    t = x @ y
    p += t
    return t


# how many temporaries and results stage compute has
CASES = [
    (add_in_place, 0), (subtract_in_place, 0), (polybench_gemm, 1), (product_minus, 0), (sum_of_products, 2),
    (product_of_itself, 1), (in_a_section, 1), (into_a_column, 0), (into_a_row, 0), (into_reversed_rows, 0),
    (into_the_transpose, 0), (in_a_loop, 0), (used_twice, 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f8", pytest.param("f4", marks=pytest.mark.slow), "i8"])
@pytest.mark.parametrize(("function", "temporaries"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_against_numpy(function, temporaries, dtype):
    """Results and written arguments, below and above the size from which BLAS is called; and no temporaries."""
    compiled = dlvm.jit(function)
    if dtype == "i8" and function is polybench_gemm:
        pytest.skip("NumPy cannot add floats to integers in place")
    for n in (3, 24):
        given = [(RNG.normal(size=(n, n)) * 4).astype(dtype) for _ in range(3)]
        ours, theirs = [a.copy() for a in given], [a.copy() for a in given]
        found, wanted = compiled(*ours), function(*theirs)
        tolerance = 1e-3 if dtype == "f4" else 1e-10
        for f, w in [(found, wanted), *zip(ours, theirs, strict=True)]:
            assert (f is None) == (w is None)
            if w is not None:
                np.testing.assert_allclose(f, w, rtol=tolerance, atol=tolerance)
                assert f.dtype == w.dtype
    assert compiled.ir(stage="compute").count("allocateHeap") == temporaries


def test_arguments_that_overlap():
    """The version for overlapping arguments reads the operands before it writes."""
    compiled = dlvm.jit(add_in_place)
    for n in (4, 24):
        x, y = RNG.normal(size=(2, n, n))
        wanted = x + x @ y
        compiled(x, x, y)
        np.testing.assert_allclose(x, wanted, rtol=1e-11)
    a = RNG.normal(size=(5, 4, 4))
    ours, theirs = a.copy(), a.copy()
    for buffer, function in ((ours, compiled), (theirs, add_in_place)):
        function(buffer[0], buffer[0], buffer[1])
        function(buffer.reshape(20, 4)[2:6], buffer[0], buffer[1])
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_nan_in_the_destination():
    """beta is 1, not 0: what is there counts."""
    p, x = np.full((20, 20), np.nan), np.ones((20, 20))
    p[0] = 1.0
    dlvm.jit(add_in_place)(p, x, x)
    assert np.isnan(p[1:]).all() and (p[0] == 21).all()


def test_accumulation_of_adjoints():
    """The derivative of a product in a loop adds to the adjoint of its operand, without a temporary for each round."""

    def f(w, x):
        h = x
        for _ in range(4):
            h = np.tanh(h @ w)
        return np.sum(h)

    w, x, d = RNG.normal(size=(6, 6)), RNG.normal(size=(3, 6)), RNG.normal(size=(6, 6))
    gradient = dlvm.grad(f, wrt="w")
    h = 1e-6
    wanted = (f(w + h * d, x) - f(w - h * d, x)) / (2 * h)
    assert np.sum(gradient(w, x) * d) == pytest.approx(wanted, rel=1e-7)
    stored = re.search(r"(%\S+) = add (\S+): \S+ x \S+ x f64>, (\S+): .*\n    store \1: \S+ x _ x f64> to %w_shadow:",
                       gradient.ir(stage="compute"))  # fmt: skip
    assert f"{stored[3]} = dot " in gradient.ir(stage="compute")


def scaled_matrix(a, x, v):
    return (a * x) @ v + v @ (x.T - 1.0)


def shifted_rows(a, x, v):
    return np.exp(x[:, ::-1] - a) @ v


@pytest.mark.parametrize("function", [scaled_matrix, shifted_rows])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(5, 5), (0, 0), (1, 1), (150, 150)])
def test_products_with_expressions_are_numpys(function, dtype, shape):
    x = RNG.standard_normal(shape).astype(dtype)
    v = RNG.standard_normal(shape[1]).astype(dtype)
    found, expected = COMPILED[function](0.5, x, v), function(0.5, x, v)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype is np.float32 else 1e-11, atol=1e-4)


def test_a_computed_matrix_is_not_made():
    text = dlvm.jit(scaled_matrix).ir(1.5, np.ones((9, 9)), np.ones(9), stage="compute")
    assert "count (%0.0: i64, " not in text and " dot " not in text


COMPILED = {f: dlvm.jit(f) for f in (scaled_matrix, shifted_rows)}


@pytest.mark.parametrize("hides", [False, True])
def test_products_by_numpys_blas_and_by_scipys(hides, monkeypatch):
    """With NumPy's the bits are NumPy's; a NumPy that hides its symbols is no obstacle."""
    if hides:
        monkeypatch.setattr(loader, "_numpy_blas", lambda name: None)
    loader._library_address.cache_clear()
    try:
        x, y, v = RNG.standard_normal((40, 50)), RNG.standard_normal((50, 60)), RNG.standard_normal(50)
        matrix, vector = dlvm.jit(lambda x, y, v: (x @ y, x @ v), cache=False)(x, y, v)
    finally:
        loader._library_address.cache_clear()
    if not hides and loader._numpy_blas("dgemm"):
        np.testing.assert_array_equal(matrix, x @ y)
    np.testing.assert_allclose(matrix, x @ y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(vector, x @ v, rtol=1e-12, atol=1e-12)
