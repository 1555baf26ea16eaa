"""Special functions: identities that they obey, poles and kinks, and math's own in compiled Python."""

import math

import numpy as np
import pytest

import dlvm_py as dl
from dlvm_py.ir import OPS
from dlvm_py.ir.ops import special

GRID = np.concatenate(
    [np.linspace(-7.9, -0.1, 79)[np.abs(np.linspace(-7.9, -0.1, 79) % 1) > 0.05], np.linspace(0.05, 30, 200)]
)
GAMMA = 0.57721566490153286


def test_digamma():
    """ψ(1) = -γ, ψ(1/2) = -γ - 2 log 2, ψ(x + 1) = ψ(x) + 1/x, on both sides of 0."""
    np.testing.assert_allclose(special.digamma([1.0, 0.5]), [-GAMMA, -GAMMA - 2 * math.log(2)], rtol=1e-15)
    np.testing.assert_allclose(special.digamma(GRID + 1), special.digamma(GRID) + 1 / GRID, rtol=1e-12, atol=1e-13)
    at_poles = special.digamma(np.array([0.0, -0.0, -1.0, -4.0, np.inf, np.nan]))
    np.testing.assert_array_equal(at_poles, [-np.inf, np.inf, np.nan, np.nan, np.inf, np.nan])


def test_trigamma():
    """ψ'(1) = π²/6, ψ'(x + 1) = ψ'(x) - 1/x², on both sides of 0."""
    np.testing.assert_allclose(special.trigamma([1.0, 0.5]), [math.pi**2 / 6, math.pi**2 / 2], rtol=1e-15)
    np.testing.assert_allclose(special.trigamma(GRID + 1), special.trigamma(GRID) - 1 / GRID**2, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(special.trigamma(np.array([0.0, -1.0, np.inf])), [np.inf, np.inf, 0])


@pytest.mark.parametrize("order", [1, 2, 3, 4, 9, 30])
def test_polygamma(order):
    """ψₙ(x + 1) = ψₙ(x) - (-1/x)^(n+1) n!, on both sides of 0; ψ₁ is trigamma, ψ₂(1) = -2 ζ(3)."""
    step = -math.factorial(order) / (-GRID) ** (order + 1)
    here, there = special.polygamma(GRID, order), special.polygamma(GRID + 1, order)
    size = np.abs(here) + np.abs(there) + np.abs(step)
    assert np.all(np.abs(here + step - there) <= 2e-13 * order * size)
    np.testing.assert_allclose(special.polygamma(GRID, 1), special.trigamma(GRID), rtol=1e-13)
    np.testing.assert_allclose(special.polygamma([1.0, 0.5], 2), [-2.4041138063191885, -16.828796644234320], rtol=2e-15)
    at_poles = special.polygamma(np.array([0.0, -1.0, np.inf, np.nan]), order)
    np.testing.assert_array_equal(at_poles, [np.inf if order % 2 else -np.inf] * 2 + [0, np.nan])


def test_poles_of_gamma():
    """gamma and lgamma give what C gives where Python's math raises."""
    x = np.array([0.0, -0.0, -1.0, -np.inf, 200.0, np.inf])
    np.testing.assert_array_equal(special.gamma(x), [np.inf, -np.inf, np.nan, np.nan, np.inf, np.inf])
    np.testing.assert_array_equal(special.lgamma(x[[0, 2, 3, 5]]), [np.inf] * 4)


def test_round():
    """round takes halves away from zero and keeps signs of zero; rint takes them to the even integer."""
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, -0.2, 2.0**52 + 1, np.inf, np.nan])
    found = OPS["round"].evaluate(x)
    np.testing.assert_array_equal(found, [1, -1, 2, 3, -3, 0, -0.0, 2.0**52 + 1, np.inf, np.nan])
    np.testing.assert_array_equal(np.signbit(found)[:7], np.signbit(x)[:7])
    np.testing.assert_array_equal(OPS["rint"].evaluate(x[:5]), [0, 0, 2, 2, -2])


# -- in Python -----------------------------------------------------------------------------------------------


@dl.jit
def scalars(x):
    """math's functions of one number."""
    a = math.erf(x) + math.erfc(x) * 2 + math.lgamma(x) + math.gamma(x)
    return a + math.asinh(x) * math.acosh(x) + math.atanh(1 / (2 * x)) + math.copysign(x, -1.0)


@dl.jit
def arrays(a):
    """NumPy's ufuncs on arrays."""
    return np.arcsinh(a) + np.arccosh(a + 1) * np.arctanh(a / 9) + np.cbrt(a) + np.exp2(a) + np.copysign(a, -1.0)


def test_compiled():
    """Compiled code gives math's and NumPy's values."""
    assert scalars(2.3) == pytest.approx(scalars.__wrapped__(2.3), rel=1e-14)
    a = np.linspace(0.5, 3, 6)
    for dtype, rtol in ((np.float64, 1e-14), (np.float32, 1e-6)):
        np.testing.assert_allclose(arrays(a.astype(dtype)), arrays.__wrapped__(a.astype(dtype)), rtol=rtol)


def test_gradients():
    """Their derivatives, and that of lgamma's, are those of differences."""
    h, x = 1e-5, 2.3
    f = scalars.__wrapped__
    assert dl.grad(scalars)(x) == pytest.approx((f(x + h) - f(x - h)) / (2 * h), rel=1e-8)
    second = (f(x + 10 * h) - 2 * f(x) + f(x - 10 * h)) / (100 * h * h)
    assert dl.grad(dl.grad(scalars))(x) == pytest.approx(second, rel=1e-5)


@dl.jit
def gamma(x):
    """Γ."""
    return math.gamma(x)


@dl.jit
def lgamma(x):
    """log |Γ|."""
    return math.lgamma(x)


@dl.jit
def acosh(x):
    """The inverse of cosh."""
    return math.acosh(x)


@dl.jit
def atanh(x):
    """The inverse of tanh."""
    return math.atanh(x)


@pytest.mark.parametrize("f", [gamma, lgamma, acosh, atanh])
@pytest.mark.parametrize("x", [0.0, -1.0, -2.5, 0.5, 1.0, 3.5, 171.7, 1e308, -math.inf, math.inf, math.nan])
def test_exceptions(f, x):
    """Compiled code raises where math raises, with its words."""
    try:
        expected = f.__wrapped__(x)
    except (ValueError, OverflowError) as e:
        # the sentence after "math domain error" is Python 3.14's
        with pytest.raises(type(e), match="math (domain|range) error" if "math" in str(e) else ""):
            f(x)
        return
    assert f(x) == pytest.approx(expected, rel=1e-14, nan_ok=True)


@dl.jit
def product(a):
    """The product of all elements."""
    return np.prod(a)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_gradient_of_a_product(zeros):
    """np.prod is differentiable also where elements are 0: each gets the product of the others."""
    a = np.array([2.0, 3.0, 5.0, 7.0])
    a[1 : 1 + zeros] = 0
    others = [np.prod(np.delete(a, k)) for k in range(4)]
    np.testing.assert_allclose(dl.grad(product)(a), others, rtol=1e-14)
