"""Arrays of the host for one call on the device: moved there once, what was written moved back.

    arguments that share memory      one block of the device: what overlaps on the host overlaps there
    strides                          kept: the bytes from the first to the last element move, whatever lies between them
    written arguments                their elements, and nothing between them, come back

A result that was allocated on the device is copied into a new NumPy array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dlvm_py.runtime.gpu.arrays import PER_THREAD_STREAM, DeviceArray, named, reader
from dlvm_py.runtime.gpu.device import Device


class Moved:
    """The arrays of one call: `addresses` by the id of each array, on the device."""

    def __init__(self, device: Device, stream: int, stays: bool) -> None:
        self.device, self.stream, self.stream_owner = device, stream, device.stream_owner()
        self.stays = stays  # results stay on the device, as arguments are there
        self.addresses: dict[int, int] = {}
        self._blocks: list[int] = []

    def address(self, array: np.ndarray[Any, Any]) -> int:
        """Where the first element of an array of the host is on the device."""
        return self.addresses[id(array)]

    def move(self, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """Copy arrays to the device."""
        for low, high, members in _groups(arrays):
            block = self.device.allocate(high - low, self.stream)
            self._blocks.append(block)
            self.device.write(block, low, high - low, self.stream)
            for array in members:
                self.addresses[id(array)] = block + array.ctypes.data - low

    def read(self, to: int, source: int, nbytes: int) -> None:
        """Copy memory of the device to the host."""
        self.device.read(to, source, nbytes, self.stream)

    def reader(self) -> Callable[[int, int, int], None]:
        """What copies a result of the call to the host, later."""
        return reader(self.device, self.stream)

    def bring_back(self, array: np.ndarray[Any, Any]) -> None:
        """Give an array of the host the elements that it has on the device."""
        low, high = _bounds(array)
        first = self.address(array) + low - array.ctypes.data
        if array.flags.forc:
            self.read(low, first, high - low)
            return
        copy = np.empty(high - low, np.uint8)
        self.read(copy.ctypes.data, first, high - low)
        array[...] = np.ndarray(array.shape, array.dtype, copy, array.ctypes.data - low, array.strides)

    def give_back(self) -> None:
        """Free what was taken of the device."""
        while self._blocks:
            self.device.free(self._blocks.pop(), self.stream)


def _bounds(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The address of the first byte of an array, and that behind its last one."""
    return np.lib.array_utils.byte_bounds(array) if array.size else (array.ctypes.data, array.ctypes.data)


def _groups(
    arrays: Sequence[np.ndarray[Any, Any]],
) -> Iterator[tuple[int, int, list[np.ndarray[Any, Any]]]]:
    """Arrays whose bytes overlap: the first byte, the byte behind the last, the arrays."""
    spans = sorted(((*_bounds(a), a) for a in arrays), key=lambda span: span[:2])
    group: list[np.ndarray[Any, Any]] = []
    low = high = 0
    for first, last, array in spans:
        if group and first >= high:
            yield low, high, group
            group = []
        low, high = (min(low, first), max(high, last)) if group else (first, last)
        group.append(array)
    if group:
        yield low, high, group


@contextmanager
def moved(device: Device, values: Sequence[Any]) -> Iterator[Moved]:
    """The arrays among the leaves of a call on the device, while it lasts.

    What other streams do to arguments is done before, and what this one does is done before others may go on: who has
    the memory gives it back on a stream of its own. A stream that each thread has another one of is such a one.
    """
    there = [v for v in values if isinstance(v, DeviceArray)]
    with device.current() as stream:
        others = {a.stream for a in there if a.stream != named(stream)}
        for other in others - {None}:
            device.wait(other)
        found = Moved(device, stream, bool(there))
        try:
            if len(there) < len(values):
                found.move([v for v in values if isinstance(v, np.ndarray)])
            yield found
        finally:
            found.give_back()
            if others or stream == PER_THREAD_STREAM:
                device.wait(stream)
