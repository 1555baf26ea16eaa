"""Memory of the device that CuPy's current allocator gives: its pool, with its limits, or what the user has set.

Compiled code takes arrays from it while it runs (runtime/native/gpu.ll), and gives temporaries back. CuPy takes what it
gives for its current stream, which is that of the call: what is freed there is the next array's on that stream.
"""

from __future__ import annotations

import ctypes
import functools
import operator
from typing import Any


class CupyMemory:
    """What has been taken and not given back yet, by its address.

    asked: what compiled code calls to take memory, and to give it back.
    """

    def __init__(self) -> None:
        self._taken: dict[int, Any] = {}
        # the second is a C function, which signals do not interrupt
        self.asked = self._take_to, functools.partial(operator.delitem, self._taken)

    def take(self, nbytes: int) -> int:
        """The address of fresh memory. MemoryError, in CuPy's words, where there is none."""
        import cupy

        pointer = cupy.cuda.alloc(nbytes)
        self._taken[pointer.ptr] = pointer
        return int(pointer.ptr)

    def give(self, address: int) -> bool:
        """Give memory back; False for what was not taken here."""
        return self._taken.pop(address, None) is not None

    def _take_to(self, place: int, nbytes: int) -> None:
        """Take memory, its address to `place`, which stays as it is where there is none."""
        try:
            address = self.take(nbytes)
        except MemoryError:
            return
        ctypes.c_void_p.from_address(place).value = address
