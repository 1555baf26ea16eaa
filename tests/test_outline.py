"""Kernels of long functions become LLVM functions of their own, and equal ones are written once."""

import re

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.backend.cpu import function, outline


def many(a, b):
    x, y = a + b, a * b
    for _ in range(1):
        x = 0.5 * x + y
        y = 0.5 * y - x[::-1]
        x[1:] += 0.1 * y[:-1]
        s = np.sum(x * y)
        m = np.outer(x, y)
        y = np.sum(m, axis=0) / (1.0 + s * s) + np.max(m, axis=1)
    return np.sum(x) + np.dot(x, y) + np.sum(m.T @ m)


def unlike(a, b):
    for _ in range(3):
        a = a // (b + 7)
    return np.sum(a + b), np.sum(a, axis=0)


@pytest.fixture(
    params=[(0, 0), (0, 1000), pytest.param((16, 64), marks=pytest.mark.slow)], ids=["as it stands", "brief", "default"]
)
def few(request, monkeypatch):
    few, many = request.param
    monkeypatch.setattr(outline, "FEW", few)
    monkeypatch.setattr(outline, "MANY", many)
    return few


def calls_and_kernels(text):
    calls = re.findall(r'call [^\n]*@"?dl\.kernel\d+', text)
    kernels = re.findall(r'define internal [^\n@]*@"?dl\.kernel\d+', text)
    return len(calls), len(kernels)


def test_values_and_gradients_are_those_of_whole_functions(few):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 40))
    f = dlvm.jit(many, cache=False)
    assert f(a, b) == pytest.approx(many(a, b), rel=1e-12)
    g = dlvm.grad(dlvm.jit(many, cache=False), wrt=(0, 1))
    found = g(a, b)
    for k, derivative in enumerate(found):
        direction = rng.standard_normal(40)
        arguments = [[a, b], [a, b]]
        arguments[0][k] = arguments[0][k] + 1e-6 * direction
        arguments[1][k] = arguments[1][k] - 1e-6 * direction
        difference = (many(*arguments[0]) - many(*arguments[1])) / 2e-6
        assert derivative @ direction == pytest.approx(difference, rel=1e-6)
    calls, kernels = calls_and_kernels(g.llvm())
    assert calls >= 20 and 0 < kernels < calls
    assert few or "optnone" in g.llvm()


def test_integers_and_results_of_several_shapes(few):
    a = np.arange(-30, 30).reshape(12, 5)
    b = np.arange(60).reshape(12, 5)
    total, columns = dlvm.jit(unlike, cache=False)(a, b)
    expected, others = unlike(a, b)
    assert total == expected
    np.testing.assert_array_equal(columns, others)


def test_kernels_that_may_raise_give_a_status(monkeypatch):
    monkeypatch.setattr(outline, "FEW", 0)
    monkeypatch.setattr(outline, "MANY", 0)

    def f(x, k):
        y = np.zeros(x.size)
        y[k] = x
        return y, np.max(x)

    g = dlvm.jit(f, cache=False, parallel=False)
    x = np.arange(4.0)
    y, largest = g(x, np.array([3, 0, 2, 1]))
    assert y.tolist() == [1.0, 3.0, 2.0, 0.0] and largest == 3.0
    with pytest.raises(IndexError):
        g(x, np.array([0, 4, 2, 1]))
    with pytest.raises(ValueError, match="zero-size array"):
        g(x[:0], np.zeros(0, int))
    entry = re.search(r'define [^\n]*@"?dl\.f"?\(.*?^\}', g.llvm(), re.S | re.M)[0]
    assert "dl.kernel" in entry and "dlvm.loop" not in entry


def test_extents_of_one_that_nobody_knows_are_stretched_by_plain_loops():
    def stretched(x, y, n):
        return (x[:n] + y) * x[:n] - x[:n, :n]

    f = dlvm.jit(stretched, cache=False, parallel=False)
    x, y = np.arange(12.0).reshape(6, 2), np.arange(10.0).reshape(5, 2)
    for n, rows in ((1, 5), (1, 1), (2, 2)):
        np.testing.assert_array_equal(f(x, y[:rows], n), stretched(x, y[:rows], n))
    assert "llvm.loop.vectorize.enable" in f.llvm()


def test_kernels_over_other_arrays_are_the_same_kernel():
    def turns(steps, a, b):
        for _ in range(steps):
            b[1:-1, 1:-1] = 0.25 * (a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1])
            a[1:-1, 1:-1] = 0.25 * (b[1:-1, :-2] + b[1:-1, 2:] + b[:-2, 1:-1] + b[2:, 1:-1])

    f = dlvm.jit(turns, cache=False)
    found, wanted = np.random.default_rng(0).standard_normal((2, 2, 7, 6))
    wanted[:] = found
    f(3, *found)
    turns(3, *wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    assert calls_and_kernels(f.llvm())[1] == 1


def test_short_functions_stay_whole():
    def short(a, b):
        return a + b, np.sum(a * b)

    f = dlvm.jit(short, cache=False, parallel=False)
    f(np.ones(3), np.ones(3))
    assert calls_and_kernels(f.llvm()) == (0, 0)


def test_long_functions_allocate_and_poll_by_calls(monkeypatch):
    monkeypatch.setattr(function, "LONG", 0)

    def f(x, n):
        y = np.zeros(n)
        y[:3] += x[:3]
        return y * 2.0 + 1.0

    g = dlvm.jit(f, cache=False)
    assert (g(np.arange(4.0), 4) == [1.0, 3.0, 5.0, 1.0]).all()
    with pytest.raises(ValueError, match="negative dimensions are not allowed"):
        g(np.arange(4.0), -1)
    with pytest.raises(MemoryError):
        g(np.arange(4.0), 1 << 60)
    assert {"@dlvm.new", "@dlvm.burn", "@dlvm.drop"} <= set(re.findall(r"@dlvm\.\w+", g.llvm()))


def test_kernels_read_once_what_does_not_change_along_a_row(few):
    """The loops of a kernel know that the array which is written is another one, so that LLVM takes the load out."""

    def sums(a, b, out):
        out += a[:, None] + b

    f = dlvm.jit(sums, cache=False, parallel=False)
    text = f.llvm(np.ones(4), np.ones(5), np.ones((4, 5)))
    bodies = re.findall(r"^vector\.body\w*:.*?^  br [^\n]*vector\.body", text, re.S | re.M)
    assert any("fadd <" in body for body in bodies)
    assert not any(re.search(r"= load double,", body) for body in bodies)
