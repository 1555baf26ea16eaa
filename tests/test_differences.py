"""What docs/numbers.md lists under "Differences from NumPy and Python": both sides are as the list has them."""

import warnings

import numpy as np
import pytest
from indexing import function
from numpy_driver import interpreted

import dlvm_py as dlvm

NONE = np.zeros(0)
MATRIX = np.arange(6.0).reshape(2, 3)
LARGE = np.array([2**63, 1], np.uint64)
# an expression, its arguments, and what NumPy or Python and compiled code give: a dtype, a shape, a type, an exception
DIFFERENCES = [
    ("x0 ** x1", (2, -1), float, ValueError),
    ("x0 ** x1", (-2.0, 0.5), complex, ValueError),
    ("x0 * x0", (2**40,), int, OverflowError),
    ("x0.tolist()", (LARGE,), list, OverflowError),
    ("int(x0[0])", (LARGE,), int, OverflowError),
    ("([0] * x0 + [0.5])[0]", (3,), int, float),
    ("max(x0, 1.0)", (np.array(2.0),), np.ndarray, np.float64),
    ("np.bincount(x0, x1)", (np.zeros(0, int), NONE), np.dtype(np.int64), np.dtype(np.float64)),
    ("np.nanquantile(x0, x1, axis=0)", (MATRIX[:0], np.array([0.2, 0.5])), (3,), (2, 3)),
    ("np.nanquantile(x0, 0.5)", (np.zeros(0, int),), np.float64, IndexError),
    ("np.poly(x0)", (NONE,), float, ValueError),
    ("np.polyval(x0, x1)", (NONE, np.arange(3)), np.dtype(np.int64), np.dtype(np.float64)),
    ("np.polynomial.polynomial.polyfromroots(x0)", (NONE * 1j,), np.dtype(float), np.dtype(complex)),
    ("np.cov(x0[:x1])", (MATRIX, 1), (), ValueError),
    ("x0[x1]", (MATRIX, np.zeros(0, bool)), (0, 3), IndexError),
    ("np.histogram(x0, x1)[0]", (MATRIX, NONE), (0,), IndexError),
    ("np.polymul(x0, x0)", (NONE,), (1,), ValueError),
    ("np.polynomial.polynomial.polyint(x0)", (MATRIX[:0],), IndexError, (1, 3)),
    ("np.arange(x0, x1, 2)", (7, np.uint64(4)), (0,), ValueError),
    ("np.triu_indices(3, x0)[0]", (np.uint8(1),), (3,), dlvm.CompileError),
    ("np.fft.fftshift(x0)", (2.0,), ValueError, float),
    (
        "np.quantile(x0, 0.5, method='inverted_cdf', weights=x1)",
        (np.array([np.nan, 1]), np.ones(2)),
        np.float64,
        np.ndarray,
    ),
    ("np.einsum('ij,ij', x0, x0, optimize=True)", (MATRIX,), np.ndarray, np.float64),
    ("np.pad(x0, 1, 'mean', stat_length=((1, None), (2, 3)))", (MATRIX,), TypeError, (4, 5)),
]


def outcome(fn, args):
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return fn(*args)
    except Exception as error:  # noqa: BLE001 - the class is what is asked for
        return type(error)


def fits(found, wanted):
    if isinstance(wanted, type) and issubclass(wanted, Exception):
        return isinstance(found, type) and issubclass(found, wanted)
    if isinstance(wanted, type):
        return type(found) is wanted
    if isinstance(wanted, tuple):
        return np.shape(found) == wanted
    return found.dtype == wanted


@pytest.mark.parametrize("case", DIFFERENCES, ids=[f"{k}: {c[0]}" for k, c in enumerate(DIFFERENCES)])
def test_both_sides_of_a_difference(case):
    text, args, plain, compiled = case
    fn = function(f"def f({', '.join(f'x{k}' for k in range(len(args)))}):\n    return {text}\n")
    for run, wanted in ((fn, plain), (lambda *a: interpreted(fn, list(a)), compiled)):
        found = outcome(run, args)
        assert fits(found, wanted), (wanted, found)
