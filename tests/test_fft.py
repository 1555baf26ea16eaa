"""np.fft: values of NumPy's for lengths of every kind, all forms and norms, and derivatives."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.frontend.library import fourier


def numbers(*shape, seed=0, dtype=np.complex128):
    """Complex numbers, or real ones for a real dtype."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def near(got, expected, ulps=20):
    """Dtype, shape; values within a few ulps of the largest."""
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    size = np.max(np.abs(expected), initial=0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=ulps * np.finfo(expected.dtype).eps * size)


FFT, IFFT = dlvm.jit(lambda z: np.fft.fft(z)), dlvm.jit(lambda z: np.fft.ifft(z))
# radices 2 to 5 and products, odd primes and their powers by plain sums, large primes by Bluestein's
LENGTHS = [*range(1, 33), 49, 60, 64, 77, 97, 100, 121, 128, 143, 169, 243, 625, 1000, 1009, 1024, 2018, 3721, 4099]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_lengths(dtype):
    """Every way to factor a length, there and back."""
    for n in LENGTHS:
        z = numbers(n, seed=n, dtype=dtype)
        near(FFT(z), np.fft.fft(z))
        near(IFFT(z), np.fft.ifft(z))
        near(IFFT(FFT(z)), z, ulps=40)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_lines_together(dtype):
    """Lines along another axis are transformed some at a time: fewer, as many, and more with a rest; all radices."""
    f = dlvm.jit(lambda z: (np.fft.fft(z, axis=0), np.fft.ifft(z, axis=1), np.fft.fft(z[:, ::-1].T)))
    for shape in ((7, 1), (1, 12), (8, 8), (17, 31), (30, 9), (37, 131), (2, 600), (101, 127)):
        z = numbers(*shape, seed=3, dtype=dtype)
        for got, expected in zip(f(z), (np.fft.fft(z, axis=0), np.fft.ifft(z), np.fft.fft(z[:, ::-1].T)), strict=True):
            near(got, expected, 40)
    cube = dlvm.jit(lambda z: (np.fft.fft(z, axis=0), np.fft.fft(z, axis=1), np.fft.fft(z)))
    for shape in ((3, 11, 10), (9, 1, 4), (5, 6, 1), (1, 1, 7)):
        z = numbers(*shape, seed=4, dtype=dtype)
        for got, expected in zip(cube(z), [np.fft.fft(z, axis=k) for k in range(3)], strict=True):
            near(got, expected)


def test_real_lengths():
    """Real transforms of even lengths are complex ones of half of them; the ends of a half have no imaginary part."""
    forward, back = dlvm.jit(lambda x: np.fft.rfft(x)), dlvm.jit(lambda z: np.fft.irfft(z))
    rows = dlvm.jit(lambda x, z, n: (np.fft.rfft(x, n, axis=0), np.fft.irfft(z, n, axis=0, norm="ortho")))
    for dtype, single in ((np.float64, np.complex128), (np.float32, np.complex64)):
        for n in (1, 2, 3, 4, 5, 6, 14, 63, 74, 262, 1000):
            x, z = numbers(n, seed=n, dtype=dtype), numbers(n // 2 + 2, seed=n, dtype=single)
            near(forward(x), np.fft.rfft(x))
            if dtype is np.float64:
                near(forward(x[::-1]), np.fft.rfft(x[::-1]))
            near(back(z), np.fft.irfft(z))
    x, z = numbers(11, 3, dtype=float), numbers(9, 3)
    for n in (1, 2, 9, 10, 14, 20):
        expected = np.fft.rfft(x, n, axis=0), np.fft.irfft(z, n, axis=0, norm="ortho")
        for got, right in zip(rows(x, z, n), expected, strict=True):
            near(got, right)
    assert forward(np.zeros((0, 4))).shape == (0, 3) and back(np.zeros((0, 4), complex)).shape == (0, 6)
    for f in (forward, back):
        with pytest.raises(ValueError, match="Invalid number of FFT data points"):
            f(np.zeros(0))


def test_accuracy():
    """The error against sums in extended precision is that of NumPy's, to a factor of two."""
    for n in (97, 256, 1000, 1009):
        z = numbers(n, seed=n)
        j = np.arange(n)
        angles = -2 * np.longdouble(np.pi) * ((np.arange(5)[:, None] * j) % n) / n
        angles -= 2 * np.longdouble("1.2246467991473532e-16") * ((np.arange(5)[:, None] * j) % n) / n  # the rest of pi
        exact = (np.cos(angles) + 1j * np.sin(angles)) @ z.astype(np.clongdouble)
        ours, theirs = (float(np.linalg.norm(f(z)[:5] - exact)) for f in (FFT, np.fft.fft))
        assert ours < 2 * theirs + 1e-14


def one_axis(z, x):
    return (
        np.fft.fft(z, axis=0), np.fft.fft(z, n=5), np.fft.fft(z, n=12, axis=0), np.fft.ifft(z, 12, 1, "ortho"),
        np.fft.fft(z, norm="forward"), np.fft.ifft(z, norm="forward"), np.fft.fft(z, norm="ortho"),
        np.fft.fft(x), np.fft.ifft(x, axis=0), np.fft.rfft(x), np.fft.rfft(x, axis=0, norm="ortho"), np.fft.rfft(x, 5),
        np.fft.irfft(z), np.fft.irfft(z, 9), np.fft.irfft(z, 10, axis=0), np.fft.irfft(z, norm="forward"),
        np.fft.hfft(z), np.fft.hfft(z, 7, norm="ortho"), np.fft.ihfft(x), np.fft.fft(z.T[:, ::-1]),
    )  # fmt: skip


def several_axes(z, x):
    return (
        np.fft.fft2(z), np.fft.ifft2(z), np.fft.fftn(z), np.fft.ifftn(z, norm="ortho"), np.fft.fftn(z, axes=(0, 2)),
        np.fft.fftn(z, s=(3, 8), axes=(1, 0)), np.fft.rfft2(x), np.fft.irfft2(z), np.fft.rfftn(x),
        np.fft.irfftn(z, s=(4, 6), axes=(0, 2)), np.fft.fftshift(z), np.fft.ifftshift(z, axes=1),
        np.fft.fftshift(x, axes=(0, 2)),
    )  # fmt: skip


@pytest.mark.parametrize(("f", "shape"), [(one_axis, (6, 8)), (several_axes, (3, 4, 5))])
def test_forms(f, shape):
    """n, axis, norm, s, axes; real transforms, Hermitian ones, shifts."""
    z, x = numbers(*shape), numbers(*shape, seed=1, dtype=float)
    for got, expected in zip(dlvm.jit(f)(z, x), f(z, x), strict=True):
        near(got, expected)


def test_dtypes():
    """float32 stays single; integers become double."""
    f = dlvm.jit(lambda x: (np.fft.fft(x), np.fft.rfft(x)))
    for dtype in (np.float32, np.float64, np.int64):
        x = (numbers(12, dtype=float) * 10).astype(dtype)
        for got, expected in zip(f(x), (np.fft.fft(x), np.fft.rfft(x)), strict=True):
            near(got, expected)


def test_factors_of_half_precision():
    """Of numbers of half precision NumPy computes the factor in half precision: of 199 it is not 1 / 199."""

    def all_of(x, n):
        return (
            np.fft.fft(x, n, norm="ortho"), np.fft.ifft(x, n), np.fft.rfft(x, n, norm="forward"),
            np.fft.irfft(x, n), np.fft.ihfft(x, n, norm="ortho"), np.fft.hfft(x, n, norm="forward"),
        )  # fmt: skip

    compiled, x = dlvm.jit(all_of), numbers(199, seed=1, dtype=np.float16)
    for n in (199, 100, 7, 3001):
        for got, expected in zip(compiled(x, n), all_of(x, n), strict=True):
            near(got, expected)


def test_frequencies():
    """fftfreq and rfftfreq, of even and odd lengths."""
    f = dlvm.jit(lambda n, d: (np.fft.fftfreq(n, d), np.fft.rfftfreq(n, d), np.fft.fftfreq(n)))
    for n in (8, 9, 1):
        for got, expected in zip(
            f(n, 0.1), (np.fft.fftfreq(n, 0.1), np.fft.rfftfreq(n, 0.1), np.fft.fftfreq(n)), strict=True
        ):
            np.testing.assert_array_equal(got, expected)


def test_lengths_that_are_refused():
    """No points: NumPy's ValueError. A complex array has no rfft."""
    f = dlvm.jit(lambda z, n: np.fft.fft(z, n))
    with pytest.raises(ValueError, match="Invalid number of FFT data points"):
        f(numbers(4), 0)
    with pytest.raises(ValueError, match="Invalid number of FFT data points"):
        FFT(numbers(0))
    assert FFT(np.zeros((0, 4))).shape == (0, 4)
    with pytest.raises(dlvm.CompileError, match="rfft needs a real array"):
        dlvm.jit(lambda z: np.fft.rfft(z))(numbers(4))


def test_in_plain_python():
    """The library's functions run without the compiler too."""
    z, x = numbers(4, 6), numbers(4, 6, dtype=float)
    near(fourier.irfft2(z, norm="ortho"), np.fft.irfft2(z, norm="ortho"))
    near(fourier.hfft(z, 7), np.fft.hfft(z, 7))
    near(fourier.rfftn(x), np.fft.rfftn(x))


GRADIENTS = {
    "fft": lambda x, w: np.vdot(w, np.fft.fft(x * x)).real,
    "ifft": lambda x, w: np.vdot(w, np.fft.ifft(x) ** 2).imag,
    "norm": lambda x, w: np.sum(np.abs(np.fft.fft(x, 11, norm="ortho")) ** 4),
    "rfft": lambda x, w: np.sum(np.abs(np.fft.rfft(x.real * x.imag) * w[:5]) ** 2),
    "rfft of an odd length": lambda x, w: np.sum(np.abs(np.fft.rfft(x.real * x.imag, 7) * w[:4]) ** 2),
    "irfft": lambda x, w: np.sum(np.fft.irfft(x * w) ** 3),
    "irfft of an odd length": lambda x, w: np.sum(np.fft.irfft(x * w, 9, norm="forward") ** 2),
    "filter": lambda x, w: np.sum(np.fft.ifft(np.fft.fft(x) * w).real ** 2),
    "shift": lambda x, w: np.vdot(w, np.fft.fftshift(np.fft.fft(x))).real,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    """Central differences by the real and by the imaginary parts."""
    f, x, w = GRADIENTS[name], numbers(8, seed=2), numbers(8, seed=3)
    expected, step = np.zeros_like(x), 1e-6
    for k in range(len(x)):
        for turn in (1, 1j):
            d = np.zeros_like(x)
            d[k] = step * turn
            expected[k] += turn * (f(x + d, w) - f(x - d, w)) / (2 * step)
    np.testing.assert_allclose(dlvm.grad(f)(x, w), expected, rtol=1e-6, atol=1e-6)


def test_the_adjoint_is_a_transform():
    """The gradient's IR has transforms the other way and no loop: it costs what the function costs."""
    g = dlvm.grad(lambda z, w: np.vdot(w, np.fft.fft(z)).real)
    g(numbers(8), numbers(8))
    text = g.ir(stage="optimizable")
    assert text.count("fourier") == 1 and "inverse" in text
