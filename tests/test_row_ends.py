"""Windows of bytes: each row ends in a vector under a mask, in which nothing beside it is written or read."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.backend.cpu.compile import has_masks


def dilated(img, out):
    h, w = img.shape
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            out[i, j] = max(img[i, j - 1], img[i, j], img[i, j + 1], img[i - 1, j], img[i + 1, j])


def patterns(img, out):
    h, w = img.shape
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            code = 0
            if img[i - 1, j - 1] >= img[i, j]:
                code |= 1
            if img[i - 1, j] >= img[i, j]:
                code |= 2
            if img[i, j + 1] >= img[i, j]:
                code |= 128
            out[i, j] = code


def rising(img):
    """A count that both parts of a row go on with."""
    count = 0
    for i in range(img.shape[0]):
        for j in range(img.shape[1] - 1):
            if img[i, j] < img[i, j + 1]:
                count += 1
    return count


def smoothed_in_place(row):
    """Each trip reads what the one before it wrote."""
    for j in range(1, row.size):
        row[j] = max(row[j - 1] // 2, row[j])


WIDTHS = (1, 2, 3, 5, 64, 65, 66, 67, 127, 130, 131, 200, 258, 300)


@pytest.mark.parametrize("function", [dilated, patterns])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16])
def test_rows_of_any_length(function, dtype):
    """Each element is Python's, and no other one is written."""
    compiled = dlvm.jit(function)
    r = np.random.default_rng(4)
    for width in WIDTHS:
        img = r.integers(0, 120, (4, width)).astype(dtype)
        mine = r.integers(0, 120, (4, width)).astype(np.uint8)
        theirs = mine.copy()
        compiled(img, mine)
        function(img, theirs)
        np.testing.assert_array_equal(mine, theirs)


def test_counts_and_chains():
    """Sums go on from the whole vectors to the rest; what waits for the trip before it stays in order."""
    r = np.random.default_rng(5)
    count, chain = dlvm.jit(rising), dlvm.jit(smoothed_in_place)
    for width in WIDTHS:
        img = r.integers(0, 256, (3, width)).astype(np.uint8)
        assert count(img) == rising(img)
        row = img[0].copy()
        chain(row)
        smoothed_in_place(img[0])
        np.testing.assert_array_equal(row, img[0])


def test_the_rest_has_a_mask():
    """Where the CPU has masks that cost nothing, rows of bytes are loaded and stored under one."""
    img = np.zeros((5, 70), np.uint8)
    assert ("llvm.masked.store.v64i8" in dlvm.jit(dilated).llvm(img, img.copy())) is has_masks()
