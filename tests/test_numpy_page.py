"""docs/numpy.md says what the tables of the front end say."""

import re
from pathlib import Path

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.frontend.table import WITHOUT_DERIVATIVE
from dlvm_py.tools.numpy_page import numpy_page

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="older NumPy has fewer functions")
def test_page_is_fresh():
    """docs/numpy.md is what docs/build_numpy.py writes."""
    assert (ROOT / "docs" / "numpy.md").read_text(encoding="utf-8") == numpy_page()


def test_names_without_derivative_are_functions():
    """Every name of the table is one of NumPy's."""
    assert not [name for name in WITHOUT_DERIVATIVE if not callable(getattr(np, name, None))]


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: np.sum(x, order=1), r"np.sum: the argument `order` is not supported"),
        (lambda x: np.array_repr(x), r"np.array_repr is not supported"),
        (lambda x: np.cumsun(x), r"did you mean `cumsum`"),
        (lambda x: np.polynomial.chebyshev.chebmul(x, x), r"did you mean `np.polynomial.chebyshev.cheb\w+`"),
        (lambda x: np.nditer(x), r"np.nditer is not supported(.|\n)*np.ndindex"),
        (lambda x: np.less.at(x, [0], 1), r"np.less.at is not supported(.|\n)*np.less has `outer` here"),
        (lambda x: x.reshape(3, order="K"), r"'C' or 'F'"),
    ],
)
def test_what_is_not_there_is_said(fn, message):
    """A function or argument that is missing is named, with what is there."""
    with pytest.raises(dlvm.CompileError) as raised:
        dlvm.jit(fn)(np.ones(3))
    said = [line for line in str(raised.value).splitlines() if "error" in line or "help:" in line]
    assert re.search(message, "\n".join(line for line in said if "lambda" not in line))  # not in the line of the source
