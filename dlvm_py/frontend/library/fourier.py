"""np.fft: transforms of complex and real arrays along one axis or several, frequencies and shifts.

Every transform is the op `fourier` along one axis (intrinsics.fourier), which is not scaled; its derivative is the
transform the other way, so that a gradient costs what the function costs.

A real array of even length 2 m is transformed as m complex numbers, its even elements with its odd ones:

    z_j = x_2j + i x_(2j+1),  y_k = E_k + w_k O_k  with  2 E_k = z_k + conj z_(m-k),  2i O_k = z_k - conj z_(m-k)

where z_k is the transform and w_k = exp(-πi k / m); back it is z_k = 2 E_k + 2i O_k. Odd lengths are transformed as
complex numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import along, roll
from dlvm_py.frontend.library.elementwise import deliver
from dlvm_py.frontend.library.intrinsics import axes_of, axis_of, complex_of, fourier, refuse, unroll


def _factor(n: Any, norm: Any, inverse: Any, half: Any) -> Any:
    """What a transform is multiplied by; half: of numbers of half precision, in which NumPy then computes it."""
    count = np.float16(n) if half else float(n)  # a Python number leaves single precision as it is
    if norm is None or norm == "backward":
        return 1.0 / count if inverse else 1.0
    if norm == "forward":
        return 1.0 if inverse else 1.0 / count
    if norm != "ortho":
        refuse('np.fft: norm must be None, "backward", "ortho" or "forward"')
    root = np.sqrt(count)
    return 1.0 / root if half else 1.0 / float(root)


def _is_half(a: Any) -> Any:
    """Whether numbers have half precision (known when the call is compiled)."""
    return np.result_type(a) == np.float16


def _with_extent(a: Any, n: Any, axis: Any) -> Any:
    """The shape of an array with another extent along an axis."""
    shape = ()
    for k in unroll(a.ndim):
        shape = shape + ((n if k == axis else a.shape[k]),)
    return shape


def _resized(a: Any, n: Any, axis: Any) -> Any:
    """The first n elements along an axis, with zeros where there are not so many."""
    have = a.shape[axis]
    if n <= have:
        return a[along(axis, slice(None, n))]
    out = np.zeros(_with_extent(a, n, axis), a.dtype)
    out[along(axis, slice(None, have))] = a
    return out


def _of_length(a: Any, n: Any, axis: Any) -> Any:
    """(length, array) of a transform whose length is n, the array's where that is None."""
    if n is None:
        length = a.shape[axis]
    else:
        length = n
        if n < 1:
            raise ValueError("Invalid number of FFT data points specified.")
        a = _resized(a, n, axis)
    if length < 1:
        raise ValueError("Invalid number of FFT data points (0) specified.")
    return length, a


def _transform(a: Any, n: Any, axis: Any, norm: Any, inverse: Any) -> Any:
    axis = axis_of(axis, a.ndim)
    half = _is_half(a)
    length, a = _of_length(complex_of(a), n, axis)
    found = fourier(a, axis, inverse)
    if norm is None or norm == "backward":
        if not inverse:
            return found
    elif norm == "forward":
        if inverse:
            return found
    return found * _factor(length, norm, inverse, half)


def _delivered(found: Any, out: Any) -> Any:
    """A transform, in `out` if there is one, which must have its shape."""
    if out is not None and np.shape(out) != np.shape(found):
        raise ValueError("output array has wrong shape.")
    return deliver(found, out)


def fft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """np.fft.fft."""
    return _delivered(_transform(a, n, axis, norm, False), out)


def ifft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """np.fft.ifft."""
    return _delivered(_transform(a, n, axis, norm, True), out)


def rfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """np.fft.rfft: the first half of the transform of a real array."""
    if np.iscomplexobj(a):
        refuse("np.fft.rfft needs a real array", help="use np.fft.fft")
    a = np.asarray(a)
    axis = axis_of(axis, a.ndim)
    length, a = _of_length(a, n, axis)
    found = np.empty(_with_extent(a, length // 2 + 1, axis), complex_of(a).dtype)
    if length % 2:
        found[...] = fourier(complex_of(a), axis, False)[along(axis, slice(None, length // 2 + 1))]
    else:
        _from_pairs(a, found, length // 2, axis)
    if norm is None or norm == "backward":
        return _delivered(found, out)
    return _delivered(found * _factor(length, norm, False, _is_half(a)), out)


def _from_pairs(a: Any, found: Any, m: Any, axis: Any) -> None:
    """Write the first half of the transform of 2 m real numbers along an axis."""
    even, odd = complex_of(a[along(axis, slice(None, None, 2))]), complex_of(a[along(axis, slice(1, None, 2))])
    z = fourier(even + 1j * odd, axis, False)
    first = z[along(axis, slice(None, 1))]
    found[along(axis, slice(None, 1))] = first.real + first.imag
    found[along(axis, slice(m, None))] = first.real - first.imag
    here, there = z[along(axis, slice(1, None))], np.conj(z[along(axis, slice(None, 0, -1))])
    found[along(axis, slice(1, m))] = 0.5 * (here + there) + _roots(m, -1.0, z, axis) * (here - there)


def _roots(m: Any, sign: Any, z: Any, axis: Any) -> Any:
    """exp(sign πi k / m) / 2i for 0 < k < m, along an axis of z and in its dtype."""
    angles = np.arange(1, m) * (sign * np.pi / m)
    shape = ()
    for k in unroll(z.ndim):
        shape = shape + ((m - 1 if k == axis else 1),)
    return np.reshape((0.5 * np.sin(angles) - 0.5j * np.cos(angles)).astype(z.dtype), shape)


def irfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """np.fft.irfft: the real array of which `a` is the first half of the transform."""
    axis = axis_of(axis, a.ndim)
    half_precision = _is_half(a)  # which the result has then, too
    a = complex_of(a)
    if n is None:
        length = 2 * (a.shape[axis] - 1)
    else:
        length = n
    if length < 1:
        raise ValueError("Invalid number of FFT data points specified.")
    half = _resized(a, length // 2 + 1, axis)
    found = np.empty(_with_extent(a, length, axis), half.real.dtype)
    factor = _factor(length, norm, True, half_precision)
    if length % 2:
        whole = np.copy(_resized(half, length, axis))
        whole[along(axis, slice(length // 2 + 1, None))] = np.conj(half[along(axis, slice(None, 0, -1))])
        found[...] = fourier(whole, axis, True).real * factor
    else:
        pairs = _to_pairs(half, length // 2, axis)
        found[along(axis, slice(None, None, 2))] = pairs.real * factor
        found[along(axis, slice(1, None, 2))] = pairs.imag * factor
    return _delivered(found.astype(np.float16) if half_precision else found, out)


def _to_pairs(half: Any, m: Any, axis: Any) -> Any:
    """The 2 m real numbers of which `half` is the first half of the transform, each two as one complex number.

    The numbers at both ends are taken for real ones, as NumPy takes them.
    """
    z = np.empty(_with_extent(half, m, axis), half.dtype)
    first, last = half[along(axis, slice(None, 1))].real, half[along(axis, slice(m, None))].real
    z[along(axis, slice(None, 1))] = first + last + 1j * (first - last)
    here, there = half[along(axis, slice(1, m))], np.conj(half[along(axis, slice(m - 1, 0, -1))])
    z[along(axis, slice(1, None))] = here + there - 2.0 * _roots(m, 1.0, z, axis) * (here - there)
    return fourier(z, axis, True)


def hfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """np.fft.hfft: the real transform of an array with Hermitian symmetry, of which `a` is the first half.

    NumPy writes nothing to `out`, and gives a fresh array.
    """
    return irfft(np.conj(a), n, axis, _other(norm))


def ihfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """np.fft.ihfft: the inverse of hfft."""
    return _delivered(np.conj(rfft(a, n, axis, _other(norm))), out)


def _other(norm: Any) -> Any:
    if norm is None or norm == "backward":
        return "forward"
    if norm == "forward":
        return "backward"
    return norm


def _axes(a: Any, s: Any, axes: Any) -> Any:
    """The axes of a transform along several."""
    if axes is not None:
        found = ()
        for x in axes:
            found = found + (axis_of(x, a.ndim),)
        return found
    if s is None:
        return axes_of(None, a.ndim)
    return unroll(a.ndim - len(s), a.ndim)


def _length(s: Any, k: Any) -> Any:
    return None if s is None else s[k]


def fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """np.fft.fftn."""
    a = np.asarray(a)
    chosen = _axes(a, s, axes)
    for k in unroll(len(chosen) - 1, -1, -1):
        a = fft(a, _length(s, k), chosen[k], norm)
    return _delivered(a, out)


def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """np.fft.ifftn."""
    a = np.asarray(a)
    chosen = _axes(a, s, axes)
    for k in unroll(len(chosen) - 1, -1, -1):
        a = ifft(a, _length(s, k), chosen[k], norm)
    return _delivered(a, out)


def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """np.fft.fft2."""
    return fftn(a, s, axes, norm, out)


def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """np.fft.ifft2; NumPy writes nothing to `out`, and gives a fresh array."""
    return ifftn(a, s, axes, norm)


def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """np.fft.rfftn: rfft along the last of the axes, fft along the others."""
    chosen = _axes(a, s, axes)
    last = len(chosen) - 1
    a = rfft(a, _length(s, last), chosen[last], norm)
    for k in unroll(last - 1, -1, -1):
        a = fft(a, _length(s, k), chosen[k], norm)
    return _delivered(a, out)


def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """np.fft.irfftn."""
    chosen = _axes(a, s, axes)
    last = len(chosen) - 1
    for k in unroll(last):
        a = ifft(a, _length(s, k), chosen[k], norm)
    return irfft(a, _length(s, last), chosen[last], norm, out)


def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """np.fft.rfft2."""
    return rfftn(a, s, axes, norm, out)


def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """np.fft.irfft2; NumPy writes nothing to `out`, and gives a fresh array."""
    return irfftn(a, s, axes, norm)


def fftfreq(n: Any, d: Any = 1.0) -> Any:
    """np.fft.fftfreq."""
    k = np.arange(n)
    return np.where(k < (n + 1) // 2, k, k - n) * (1.0 / (n * d))


def rfftfreq(n: Any, d: Any = 1.0) -> Any:
    """np.fft.rfftfreq."""
    return np.arange(n // 2 + 1) * (1.0 / (n * d))


def _shifted(x: Any, axes: Any, back: Any) -> Any:
    if axes is None:
        axes = axes_of(None, x.ndim)
    if not isinstance(axes, (tuple, list)):
        axes = (axes,)
    shifts, along = (), ()
    for a in axes:
        n = x.shape[axis_of(a, x.ndim)]
        shifts, along = shifts + (-(n // 2) if back else n // 2,), along + (a,)
    return roll(x, shifts, along) if len(along) > 0 else x


def fftshift(x: Any, axes: Any = None) -> Any:
    """np.fft.fftshift: the zero frequency to the middle."""
    return _shifted(x, axes, False)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """np.fft.ifftshift."""
    return _shifted(x, axes, True)


FUNCTIONS = {
    np.fft.fft: fft, np.fft.ifft: ifft, np.fft.rfft: rfft, np.fft.irfft: irfft, np.fft.hfft: hfft,
    np.fft.ihfft: ihfft, np.fft.fft2: fft2, np.fft.ifft2: ifft2, np.fft.fftn: fftn, np.fft.ifftn: ifftn,
    np.fft.rfft2: rfft2, np.fft.irfft2: irfft2, np.fft.rfftn: rfftn, np.fft.irfftn: irfftn,
    np.fft.fftfreq: fftfreq, np.fft.rfftfreq: rfftfreq, np.fft.fftshift: fftshift, np.fft.ifftshift: ifftshift,
}  # fmt: skip
METHODS: dict[str, Any] = {}
