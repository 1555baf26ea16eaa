"""Nothing is read or written beside an array: arguments right before a page that may not be touched, and right behind.

What does so dies by a signal, so that each set of functions runs in a process of its own.
"""

import ctypes
import mmap
import os
import sys

import numpy as np
import pytest
from processes import run_python

import dlvm_py as dlvm

PAGE = mmap.PAGESIZE
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 70, 127, 129, 257, 513)
_libc = ctypes.CDLL(None, use_errno=True)


def guarded(array, at_end):
    """The same array in memory between two pages that may not be touched, at one of its ends."""
    span = sum(abs(s) * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)) + array.itemsize
    inside = -(-max(span, 1) // PAGE) * PAGE
    memory = mmap.mmap(-1, inside + 2 * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (start, start + PAGE + inside):
        assert _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0) == 0
    low = sum(-s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True) if s < 0)
    found = np.ndarray(array.shape, array.dtype, memory, PAGE + (inside - span if at_end else 0) + low, array.strides)
    found[...] = array
    return found


def vectors(x, y):
    s = np.sum(x * y) + np.max(x) - np.min(y) + np.dot(x, y)
    z = np.exp(x) + np.where(x > y, x, y)[::-1]
    z[1:-1] += 0.5 * (x[2:] - x[:-2])
    y[::2] *= 2.0
    x[x > 0.5] = 0.25
    return z, np.cumsum(x), s, np.argmax(x), np.sum(x > 0.1), x[::-1] + y, y[y > 0.3], np.any(x > 2.0)


def orders(x, y):
    k = np.argsort(x, kind="stable")
    return (
        np.sort(x),
        k,
        x[k] + y[k[::-1]],
        np.median(y),
        np.searchsorted(np.sort(y), x),
        np.unique(y),
        np.sort(y)[::-1],
    )


def matrices(a, b):
    c = a @ b
    d = a.T + b
    a[:, 1:] += b[:, :-1]
    return c, d, np.sum(a, axis=0), np.max(b, axis=1), np.sum(a.T * b), a[::2, ::-1] * 2, np.cumsum(b, axis=0), b @ a[0]


def solutions(a, b):
    m = a @ a.T + len(a) * np.eye(len(a))
    return np.linalg.solve(m, b), np.linalg.solve(m, b[:, 0]), np.linalg.inv(m), np.linalg.cholesky(m), np.linalg.det(a)


def loops(x, y):
    s = 0.0
    for i in range(1, len(x)):
        x[i] = 0.5 * x[i - 1] + y[i]
        s += x[i] * y[len(y) - 1 - i]
    for i in range(len(x) - 2):
        y[i] = x[i + 1] * x[i + 2] if x[i] > 0.4 else y[i + 1]
    j = 0
    while j < len(x) and x[j] < 9.0:
        j += 1
    return s, j


def ways(x, y):
    """What one way of a branch reads is beyond an end where the other one is taken (merge_stores.py)."""
    t = np.zeros(4)
    for i in range(2 * len(x)):
        for j in range(len(t)):
            if i < len(x):
                t[j] = x[i] + 0.5 * t[j]
            else:
                t[j] = 0.25 * t[j]
    for i in range(-len(y), len(y)):
        for j in range(len(t)):
            if i >= 0:
                t[j] += y[i]
            else:
                t[j] = 0.25 * t[j]
    return t


def columns(a, b):
    for j in range(a.shape[1]):
        for i in range(1, a.shape[0]):
            a[i, j] += 0.5 * a[i - 1, j] + b[j, i]
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = 0.2 * (a[i, j - 1] + a[i, j + 1] + a[i - 1, j] + a[i + 1, j] + a[i, j])
    return np.sum(b)


PAIRS = (vectors, orders, loops, ways)
SQUARES = (matrices, solutions, columns)


def layouts(array):
    """The array in other orders of memory."""
    yield array
    yield np.repeat(array, 2, axis=-1)[..., ::2]
    yield array[::-1].copy()[::-1]
    if array.ndim > 1:
        yield np.asfortranarray(array)


def numbers(shape, dtype, seed):
    """Random elements of a dtype."""
    found = np.random.default_rng(seed).uniform(0.0, 1.0, shape)
    return (found * 100).astype(dtype) if np.dtype(dtype).kind in "iu" else found.astype(dtype)


def same(got, want, tolerance):
    got, want = (v if isinstance(v, tuple) else (v,) for v in (got, want))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


def go(name, dtype, derivative):
    """All sizes, layouts and ends of one function: against NumPy, or the derivative of its first result."""
    fn, dtype = globals()[name], np.dtype(dtype)
    compiled = dlvm.grad(fn, wrt=(0, 1), from_=0) if derivative else dlvm.jit(fn)
    tolerance = 1e-9 if dtype.itemsize == 8 else 1e-3
    for n in SIZES if name in {f.__name__ for f in PAIRS} else SIZES[1:-3]:
        shape = (n,) if name in {f.__name__ for f in PAIRS} else (n, n)
        for one, two in zip(layouts(numbers(shape, dtype, n)), layouts(numbers(shape, dtype, n + 1)), strict=True):
            want = None if derivative else fn(one.copy(), two.copy())
            for at_end in (True, False):
                got = compiled(guarded(one, at_end), guarded(two, at_end))
                if want is not None:
                    same(got, want, tolerance)


CASES = [(fn.__name__, "f8", False) for fn in (*PAIRS, *SQUARES)]
CASES += [("vectors", "f4", False), ("orders", "f4", False), ("orders", "i4", False), ("matrices", "f4", False)]
CASES += [("vectors", "f8", True), ("loops", "f8", True), ("columns", "f8", True), ("matrices", "f8", True)]
QUICK = CASES[: len(PAIRS)]


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=() if c in QUICK else pytest.mark.slow, id="-".join(map(str, c))) for c in CASES]
)
def test_nothing_is_touched_beside_an_array(case):
    run_python(__file__, *case, timeout=500)


def test_the_pages_are_guarded():
    """A process that touches one dies."""
    text = "import numpy as np, test_guard_pages as t; x = t.guarded(np.ones(3), True)\n"
    text += "print(np.lib.stride_tricks.as_strided(x, (4,))[3])"
    done = run_python("-c", text, check=False, PYTHONPATH=os.path.dirname(__file__))
    assert done.returncode < 0, done


if __name__ == "__main__":
    go(sys.argv[1], sys.argv[2], sys.argv[3] == "True")
