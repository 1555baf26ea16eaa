"""Alternating signs: computed from the counter of their loop, values and derivatives."""

import numpy as np
import pytest

import dlvm_py as dlvm


def alternating(x, n):
    sign, turned, total = 1, x, 0.0
    for k in range(3, n):
        total += sign * np.sin(x * k) + turned * k
        sign = -sign
        turned = -turned
    return total * sign + turned


@pytest.mark.parametrize("n", [2, 7, 8])
def test_signs_that_alternate(n):
    """They come from the counter in both sweeps: an integer, and one that what is differentiated begins."""
    gradient = dlvm.grad(alternating)
    assert dlvm.jit(alternating)(0.7, n) == alternating(0.7, n)
    step = alternating(0.7 + 1e-6, n) - alternating(0.7 - 1e-6, n)
    assert gradient(0.7, n) == pytest.approx(step / 2e-6, rel=1e-7)
    assert "bitAnd" in gradient.ir(0.7, n) and "negate %sign" not in gradient.ir(0.7, n)
    step = gradient(0.7 + 1e-6, n) - gradient(0.7 - 1e-6, n)
    assert dlvm.grad(gradient)(0.7, n) == pytest.approx(step / 2e-6, rel=1e-6)
