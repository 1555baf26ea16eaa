"""Sums of truth values, which are counted in bytes (backend/cpu/counts.py), and their places (scatter.py)."""

import re

import numpy as np
import pytest

import dlvm_py as dlvm


def nonzero(b):
    return np.count_nonzero(b)


def neither(b, c):
    return np.sum(~(b | c))


def narrow(b):
    return np.sum(b, axis=1, dtype=np.int16)


def columns(b):
    return np.sum(b, axis=0)


@pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 255, 256, 1000])
def test_counts_of_any_length(n):
    """Strips that are full, all true, none true, and what is behind the last strip."""
    compiled, both = dlvm.jit(nonzero), dlvm.jit(neither)
    rng = np.random.default_rng(n)
    for b in (np.ones(n, bool), np.zeros(n, bool), rng.random(n) > 0.5):
        c = rng.random(n) > 0.7
        assert compiled(b) == nonzero(b)
        assert both(b, c) == neither(b, c)


def test_counts_along_axes_and_of_views():
    b = np.random.default_rng(1).random((5, 700)) > 0.4
    for f in (narrow, columns, nonzero):
        compiled = dlvm.jit(f)
        for view in (b, b[:, ::3], b.T, b[:, :0]):
            found, wanted = compiled(view), f(view)
            np.testing.assert_array_equal(found, wanted)
            assert np.asarray(found).dtype == np.asarray(wanted).dtype


def test_counts_are_made_in_bytes():
    b = np.ones(9, bool)
    assert re.search(r"llvm\.vector\.reduce\.add\.v\d+i8", dlvm.jit(nonzero).llvm(b))


def places(b):
    return np.nonzero(b)


def test_places_of_true_elements_by_64():
    """Rows of less than 64, of whole blocks, with something behind them; nothing, little, half and everything true.

    Of many the places of eight elements are written together, but for the last ones of all.
    """
    compiled = dlvm.jit(places)
    rng = np.random.default_rng(0)
    for n in (0, 1, 63, 64, 200, 700):
        for share in (0.0, 0.02, 0.5, 1.0):
            b = rng.random((3, 2 * n)) < share
            for mask in (b[0, :n].copy(), b[0, ::2], b, b.T, b[::-1, ::-2]):
                for found, wanted in zip(compiled(mask), np.nonzero(mask), strict=True):
                    np.testing.assert_array_equal(found, wanted)


def far(x, limit):
    i, j = np.nonzero((x > limit) & (x[::-1] < 0.9))
    return i * 1000 + j, x[i, j].sum()


def test_places_of_a_mask_that_is_computed_on_the_way():
    x = np.random.default_rng(1).random((2, 130))
    for found, wanted in zip(dlvm.jit(far)(x, 0.3), far(x, 0.3), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
