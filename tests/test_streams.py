"""Kernels that write more than the caches hold, whose stores go past them."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.transforms.stream_stores import LEAST


def scaled(a, out):
    out[:] = 3.0 * a + 1.0


def compared(a, out):
    out[:] = a > 0.5


def both(a, out):
    b = a * a
    out[:] = b - a
    return b


def fresh(a, out):
    return a + a


# lines of the destination that are whole at its ends, or not
@pytest.mark.parametrize(("first", "more"), [(0, 0), (1, 5), (7, 64)])
@pytest.mark.parametrize(
    ("function", "dtype"),
    [(scaled, "f8"), (scaled, "f4"), (both, "f8"), (fresh, "c16"), (compared, "?")],
)
def test_all_elements_are_written_and_no_others(function, dtype, first, more):
    size = LEAST // np.dtype(dtype).itemsize + more
    a = np.resize(np.linspace(0, 1, 251).astype("f4" if dtype == "?" else dtype), size)
    outs, results = [np.zeros(size + 20, dtype) for _ in range(2)], []
    for f, out in zip((dlvm.jit(function), function), outs, strict=True):
        results.append(f(a, out[first : first + size]))
    np.testing.assert_array_equal(*outs)
    np.testing.assert_array_equal(*results)


def shifted(a, out):
    out[1:-1, 1:-1] = a[2:, 1:-1] - a[:-2, 1:-1] * a[1:-1, 2:]


@pytest.mark.parametrize(("dtype", "skipped"), [("f8", 0), ("c16", 8), ("f4", 0)])
def test_rows_are_written_at_all_places_of_a_line(dtype, skipped):
    # rows of no whole number of lines, part of longer ones; complex elements that lie across lines
    rows, width = 2070, 2057 * 8 // np.dtype(dtype).itemsize
    a = np.resize(np.linspace(0, 1, 251).astype(dtype), (rows, width))
    found = []
    for f in (dlvm.jit(shifted), shifted):
        raw = np.zeros(rows * (width + 5) * a.itemsize + 80, np.uint8)
        begin = -raw.ctypes.data % 64 + skipped
        out = raw[begin:][: rows * (width + 5) * a.itemsize].view(dtype).reshape(rows, width + 5)
        f(a, out[:, 2:-3])
        found.append(out)
    np.testing.assert_array_equal(*found)


def streams(function, *args):
    return "@dlvm.stream(" in dlvm.jit(function).llvm(*args)


def test_which_kernels():
    def in_place(a, out):
        out[:] = 2.0 * out

    def functions(a, out):
        out[:] = np.exp(a)

    a = np.ones(4)
    assert [streams(f, a, a.copy()) for f in (scaled, fresh, in_place, functions)] == [True, True, False, False]
