"""What compiled code asks of Python, memory in hand: the other side of `backend/cpu/tell.py`.

Operands lie one behind the other as in a C struct: a scalar in its native form (bool: a byte), of a pointer its data,
its header, the extents and, for the layout "S", the strides in bytes.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dlvm_py.errors import ArgumentError
from dlvm_py.ir.text import object_of
from dlvm_py.ir.types import DTYPES, DType


class Described(NamedTuple):
    """An array by the address of its first element, its extents, and its strides in bytes."""

    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType


def operands(
    kinds: Sequence[str], address: int, array: Callable[[Described], Any] = lambda found: _array(found)
) -> list[Any]:
    """The objects of operands of these kinds ("flavour dtype rank layout"); `array` makes arrays.

    Usually they are views of memory of the host, good until compiled code goes on.
    """
    found, at = [], address
    for kind in kinds:
        flavour, name, rank, layout = kind.split()
        dtype = DTYPES[name]
        if layout == "-":
            at += -at % dtype.real.itemsize
            value: Any = np.frombuffer(ctypes.string_at(at, dtype.itemsize), dtype.numpy)[0]
            at += dtype.itemsize
        else:
            at += -at % 8
            described, size = _described(at, dtype, int(rank), layout)
            value = array(described)
            at += size
        found.append(object_of(value, flavour))
    return found


def _described(at: int, dtype: DType, rank: int, layout: str) -> tuple[Described, int]:
    """The array whose native form lies at an address, and how many bytes that form has."""
    count = 2 + rank * (2 if layout == "S" else 1)
    data, _, *numbers = struct.unpack(f"={count}q", ctypes.string_at(at, 8 * count))
    shape, strides = tuple(numbers[:rank]), tuple(numbers[rank:])
    if layout != "S":
        order = np.empty(rank, np.int64)
        step = dtype.itemsize
        for axis in range(rank) if layout == "F" else reversed(range(rank)):
            order[axis] = step
            step *= shape[axis]
        strides = tuple(map(int, order))
    return Described(data, shape, strides, dtype), 8 * count


def _array(found: Described) -> np.ndarray[Any, Any]:
    """An array in memory of the host. Nothing may write to it."""
    data, shape, strides, dtype = found
    if 0 in shape:
        return np.empty(shape, dtype.numpy)
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + dtype.itemsize
    memory = (ctypes.c_char * (high - low)).from_address(data + low)
    array = np.ndarray(shape, dtype.numpy, memory, -low, strides)
    array.flags.writeable = False
    return array


def seed(address: int) -> None:
    """Make a PCG64 with the seed that lies at an address, as np.random.default_rng does, and copy it there.

    Its parts lie one behind the other: a `bitgen_t`, which points to the state, which points to the numbers. Raises:
    ValueError for a negative seed, ArgumentError where this NumPy lays them out in another way.
    """
    made = np.random.default_rng(ctypes.c_int64.from_address(address).value).bit_generator
    interface = ctypes.string_at(made.ctypes.bit_generator.value, 40)
    state_at = struct.unpack_from("=Q", interface)[0]
    state = ctypes.string_at(state_at, 16)
    numbers = ctypes.string_at(struct.unpack_from("=Q", state)[0], 32)
    known: dict[str, Any] = made.state["state"]  # type: ignore[assignment]
    if numbers != known["state"].to_bytes(16, "little") + known["inc"].to_bytes(16, "little") or any(state[8:]):
        raise ArgumentError(
            "np.random.default_rng(seed) in compiled code does not know this NumPy's PCG64",
            help="make the generator outside, and pass it as an argument",
        )
    copy = struct.pack("=Q", address + 48) + interface[8:] + bytes(8) + struct.pack("=Q", address + 64) + state[8:]
    ctypes.memmove(address, copy + numbers, 96)
