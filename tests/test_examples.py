"""The examples run and keep their promises: each exits with 1 where one of its own checks fails."""

from pathlib import Path

import numpy as np
import pytest
from processes import run_python

import dlvm_py as dlvm

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["poster.py"], "d(dg/dw)/dw"),
        (["digits.py", "--quick"], "two-layer network"),
        (["heat.py", "--quick"], "conductivity"),
    ],
    ids=["poster", "digits", "heat"],
)
def test_example_runs(arguments, said, tmp_path):
    """A short run of the example ends well and prints its findings."""
    script, *words = arguments
    assert said in run_python(ROOT / "examples" / script, *words, MPLCONFIGDIR=str(tmp_path), timeout=200).stdout


def test_the_posters_example():
    """grad with keeping, and the gradient of a gradient by from_, as on DLVM's poster, against NumPy by hand."""
    rng = np.random.default_rng(0)
    x, w, b = rng.standard_normal((4, 3)), rng.standard_normal((3, 2)), rng.standard_normal(2)
    g = dlvm.jit(lambda x, w, b: np.tanh(np.dot(x, w) + b))
    dg = dlvm.grad(g, wrt=(1, 2), keeping=0)
    dg_dw, dg_db, result = dg(x, w, b)
    d2g = dlvm.grad(dg, from_=0, wrt=1)(x, w, b)
    y = np.tanh(x @ w + b)
    slope = 1 - y * y
    np.testing.assert_allclose(result, y, rtol=1e-14)
    np.testing.assert_allclose(dg_dw, x.T @ slope, rtol=1e-12)
    np.testing.assert_allclose(dg_db, slope.sum(axis=0), rtol=1e-12)
    # d/dw of sum(x.T @ (1 - y²)): the row sums of x weigh -2 y (1 - y²)
    want = x.T @ (x.sum(axis=1, keepdims=True) * -2 * y * slope)
    np.testing.assert_allclose(d2g, want, rtol=1e-12)
