"""Flags as the bits of bytes, and bytes as flags: np.packbits, np.unpackbits.

Pairs of neighbours become one number, three times: 1, 2, 4 and then 8 bits of a byte are flags.

    1 0 1 1 0 0 1 0    =>    2 3 0 2    =>    11 2    =>    178         (bitorder "big")

Each step reads every second element, of which vectors are made, as they are not of every eighth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.arrange import along, on_axis
from dlvm_py.frontend.library.intrinsics import refuse


def check_bitorder(bitorder: Any) -> None:
    """Refused unless it is one that NumPy has."""
    if bitorder not in ("big", "little"):
        refuse("'bitorder' must be the constant 'big' or 'little'")


def flags_of(a: Any) -> Any:
    """What is not zero, as bytes of 0 and 1."""
    return (a != 0).astype(np.uint8)


def paired(parts: Any, k: int, width: int, big: bool) -> Any:
    """Of each two neighbours along axis k, numbers of so many bits (flags, of one), one number of twice as many."""
    first, second = parts[along(k, slice(0, None, 2))], parts[along(k, slice(1, None, 2))]
    if width == 1:
        first, second = flags_of(first), flags_of(second)
    if big:
        return first << np.uint8(width) | second
    return second << np.uint8(width) | first


def bytes_of(a: Any, k: int, big: bool) -> Any:
    """The bytes of flags, whose number along axis k is a multiple of 8."""
    return paired(paired(paired(a, k, 1, big), k, 2, big), k, 4, big)


def packbits(a: Any, axis: Any = None, bitorder: Any = "big") -> Any:
    """np.packbits: eight flags a byte, zeros behind the last one."""
    check_bitorder(bitorder)
    if np.result_type(a).kind == "f" or np.result_type(a).kind == "c":
        refuse("Expected an input array of integer or boolean data type", "x != 0")
    a, k = on_axis(a, axis)
    n, big = a.shape[k], bitorder == "big"
    whole = n // 8
    out = np.empty(a.shape[:k] + ((n + 7) // 8,) + a.shape[k + 1 :], dtype=np.uint8)
    out[along(k, slice(0, whole))] = bytes_of(a[along(k, slice(0, 8 * whole))], k, big)
    last = out[along(k, slice(whole, None))]
    last[...] = 0
    for j in range(8 * whole, n):
        place = np.uint8(7 - j % 8) if big else np.uint8(j % 8)
        last |= flags_of(a[along(k, slice(j, j + 1))]) << place
    return out


def halves(parts: Any, width: int, big: bool) -> Any:
    """Each number of twice so many bits as two numbers, along one more axis at the end."""
    high, low = parts >> np.uint8(width), parts & np.uint8(2**width - 1)
    return np.stack((high, low) if big else (low, high), axis=-1)


def unpackbits(a: Any, axis: Any = None, count: Any = None, bitorder: Any = "big") -> Any:
    """np.unpackbits: the bits of bytes as zeros and ones."""
    check_bitorder(bitorder)
    if np.result_type(a) != np.uint8:
        refuse("Expected an input array of unsigned byte data type", "x.astype(np.uint8)")
    a, k = on_axis(a, axis)
    big = bitorder == "big"
    total = 8 * a.shape[k]
    n = total if count is None else count if count >= 0 else total + count
    if n < 0:
        raise ValueError("-count larger than number of elements")
    if count is not None:
        a = a[along(k, slice(0, (n + 7) // 8))]
    bits = halves(halves(halves(np.moveaxis(a, k, -1), 4, big), 2, big), 1, big)
    bits = np.moveaxis(np.reshape(bits, bits.shape[: a.ndim - 1] + (8 * a.shape[k],)), -1, k)
    if count is None:
        return bits
    out = np.zeros(a.shape[:k] + (n,) + a.shape[k + 1 :], dtype=np.uint8)
    out[along(k, slice(0, min(n, total)))] = bits[along(k, slice(0, min(n, total)))]
    return out


FUNCTIONS: dict[Any, Any] = {np.packbits: packbits, np.unpackbits: unpackbits}
METHODS: dict[str, Any] = {}
