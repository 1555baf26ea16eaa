"""The bits of arrays as numbers of other dtypes: what x.view(dtype) and np.frombuffer give, as values."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import bits_of, is_constant, unroll


def whole_of(size: int) -> Any:
    """The unsigned integers of so many bytes."""
    if size == 1:
        return np.uint8
    if size == 2:
        return np.uint16
    return np.uint32 if size == 4 else np.uint64


def viewed(a: Any, dtype: Any) -> Any:
    """The elements that the memory of `a` holds as another dtype, along its last axis where the sizes differ."""
    if np.result_type(a) == dtype:
        return a
    if np.result_type(a).kind == "b":
        return viewed(a.astype(np.uint8), dtype)
    if np.result_type(a).kind == "c":
        shape = a.shape[:-1] + (2 * a.shape[-1],)
        return viewed(np.reshape(np.stack((a.real, a.imag), axis=-1), shape), dtype)
    if np.dtype(dtype).kind == "c":
        parts = viewed(a, np.float64 if np.dtype(dtype).itemsize == 16 else np.float32)
        if parts.shape[-1] % 2 != 0:
            raise ValueError(_TOO_SHORT)
        out = np.empty(parts.shape[:-1] + (parts.shape[-1] // 2,), dtype)
        out.real = parts[..., ::2]
        out.imag = parts[..., 1::2]
        return out
    have, want = np.result_type(a).itemsize, np.dtype(dtype).itemsize
    bits = bits_of(a, whole_of(have))
    if want < have:
        shifts = np.arange(have // want).astype(whole_of(have)) * (8 * want)
        bits = (np.expand_dims(bits, -1) >> shifts).astype(whole_of(want))
        bits = np.reshape(bits, a.shape[:-1] + (a.shape[-1] * (have // want),))
    if want > have:
        several, n = want // have, a.shape[-1]
        if n % several != 0:
            raise ValueError(_TOO_SHORT)
        parts = np.reshape(bits, a.shape[:-1] + (n // several, several)).astype(whole_of(want))
        bits = parts[..., 0]
        for k in unroll(1, several):
            bits = bits | (parts[..., k] << (8 * have * k))
    return bits_of(bits, dtype)


_TOO_SHORT = (
    "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last axis of the "
    "array."
)


def from_buffer(a: Any, dtype: Any, count: Any, offset: Any) -> Any:
    """np.frombuffer of the memory of a row."""
    total, size = a.size * np.result_type(a).itemsize, np.dtype(dtype).itemsize
    if offset < 0 or offset > total:
        raise ValueError(f"offset must be non-negative and no greater than buffer length ({total})")
    if count < 0:
        if (total - offset) % size != 0:
            raise ValueError("buffer size must be a multiple of element size")
        count = (total - offset) // size
    elif total - offset < count * size:
        raise ValueError("buffer is smaller than requested size")
    own = np.result_type(a).itemsize
    if size == own or size % own == 0 and np.dtype(dtype).kind != "c":
        if is_constant(offset):
            return _items(a, dtype, count, offset) if offset % own == 0 else _parts(a, dtype, count, offset)
        if offset % own == 0:  # elements stay numbers of their dtype, through which derivatives flow
            found = _items(a, dtype, count, offset)
        else:
            found = _parts(a, dtype, count, offset)
        return found
    return _parts(a, dtype, count, offset)


def _items(a: Any, dtype: Any, count: Any, offset: Any) -> Any:
    """The numbers of a dtype from an element of a row on."""
    own, size = np.result_type(a).itemsize, np.dtype(dtype).itemsize
    return viewed(a[offset // own : (offset + count * size) // own], dtype)


def _parts(a: Any, dtype: Any, count: Any, offset: Any) -> Any:
    """The numbers of a dtype from any byte of a row on."""
    return viewed(viewed(a, np.uint8)[offset : offset + count * np.dtype(dtype).itemsize], dtype)
