"""The device: the functions of the CUDA driver API that compiled code calls, memory, kernels by their handles.

A `Device` is made of the addresses of these functions, whoever has them: `libcuda` (cuda.py) or the emulator, LLVM IR
of our own with the same signatures (runtime/native/emulator.ll). DLVM_GPU says which: empty, the hardware; `emulator`.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dlvm_py.errors import DeviceError
from dlvm_py.options import environment
from dlvm_py.runtime.gpu import cuda
from dlvm_py.runtime.gpu.cupy_memory import CupyMemory
from dlvm_py.runtime.loader import load
from dlvm_py.runtime.native import standing

EMULATOR = "emulator"
_OUT_OF_MEMORY = 2
# by the driver's numbers, what our own code can cause
_REASONS = {
    1: "an invalid value",
    2: "no memory left on the device",
    700: "a kernel read or wrote outside of its memory",
    701: "a kernel needs more registers than there are",
    719: "a kernel failed",
}
_VOID, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuMemAllocAsync": (_VOID, _SIZE, _VOID),
    "cuMemFreeAsync": (_VOID, _VOID),
    "cuMemcpyHtoDAsync_v2": (_VOID, _VOID, _SIZE, _VOID),
    "cuMemcpyDtoHAsync_v2": (_VOID, _VOID, _SIZE, _VOID),
    "cuMemcpyDtoDAsync_v2": (_VOID, _VOID, _SIZE, _VOID),
    "cuStreamSynchronize": (_VOID,),
}
_OF_GRAPHS = ("Create", "AddKernelNode", "InstantiateWithFlags", "Launch", "ExecDestroy", "Destroy")
FUNCTIONS = (*_SIGNATURES, "cuLaunchKernel", *(f"cuGraph{name}" for name in _OF_GRAPHS))


class Device:
    """A device by the addresses of the functions of its driver. `name` is its architecture: "sm_90", "emulator".

    memory: the bytes that it has; None where they are this machine's.
    """

    name = EMULATOR
    description = "the emulator"
    memory: int | None = None
    is_here = True  # no fork of the process that the device is of

    def __init__(self, addresses: Mapping[str, int]) -> None:
        self.imports = {f"cuda:{name}": address for name, address in addresses.items()}
        self._call = {
            name: ctypes.CFUNCTYPE(ctypes.c_int, *types)(addresses[name]) for name, types in _SIGNATURES.items()
        }

    def enter(self) -> int:
        """Make the device current for this thread; the stream of its calls."""
        return 0

    def current(self) -> AbstractContextManager[int]:
        """`enter`; behind it the thread's own device is current again."""
        return nullcontext(self.enter())

    def stream_owner(self) -> Any:
        """What keeps the stream of the thread's calls: it must be there when memory is given back on it."""
        return None

    def number_of(self, address: int) -> int | None:
        """The number of the device that memory is of, 0 for this one; None for what is no memory of a device."""
        return 0

    def kernels(self, image: bytes, count: int) -> tuple[list[int], object]:
        """The handles of the kernels of an image (`driver.compile_request` makes it), and what keeps them."""
        symbols = [f"emulated.{n}" for n in range(count)]
        code = load(image, [], symbols)
        return [code[s] for s in symbols], code

    @property
    def pool(self) -> CupyMemory | None:
        """What memory is taken from instead of the driver."""
        return None

    def reason(self, status: int) -> str:
        """What a status of the driver means."""
        return f"{_REASONS.get(status, 'an error of the driver')} (CUDA error {status})"

    def _do(self, name: str, *args: Any) -> None:
        status = self._call[name](*args)
        if status == _OUT_OF_MEMORY:
            raise MemoryError(self.reason(status))
        if status:
            raise DeviceError(f"{name} failed: {self.reason(status)}")

    def allocate(self, nbytes: int, stream: int) -> int:
        """The address of fresh memory. MemoryError where there is none."""
        if self.pool is not None:
            return self.pool.take(max(nbytes, 1))
        found = ctypes.c_void_p()
        self._do("cuMemAllocAsync", ctypes.addressof(found), max(nbytes, 1), stream)
        assert found.value is not None
        return found.value

    def free(self, address: int, stream: int) -> None:
        """Give memory back, behind what the stream does."""
        if self.pool is None or not self.pool.give(address):
            self._do("cuMemFreeAsync", address, stream)

    def write(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy memory of the host to the device; the host's may change afterwards."""
        if nbytes:
            self._do("cuMemcpyHtoDAsync_v2", to, source, nbytes, stream)
            self._do("cuStreamSynchronize", stream)

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy memory of the device, behind what the stream does."""
        self._do("cuMemcpyDtoDAsync_v2", to, source, nbytes, stream)

    def wait(self, stream: int) -> None:
        """Wait until a stream has done what it was given."""
        self._do("cuStreamSynchronize", stream)

    def read(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy memory of the device to the host, when everything before is done."""
        if nbytes:
            self._do("cuMemcpyDtoHAsync_v2", to, source, nbytes, stream)
            self._do("cuStreamSynchronize", stream)


class Hardware(Device):
    """The first device of libcuda, in its primary context."""

    def __init__(self, driver: cuda.Driver) -> None:
        super().__init__({name: driver.address(name) for name in FUNCTIONS})
        self._driver, self._cupy = driver, CupyMemory()
        self.name, self.description, self.memory = driver.architecture, driver.description, driver.memory

    def enter(self) -> int:
        """Make the primary context current; CuPy's current stream, or the default one."""
        return self._driver.enter()

    @property
    def is_here(self) -> bool:  # type: ignore[override]
        """Whether this process may use the device: a fork of the one that did may not."""
        return self._driver.is_here

    def current(self) -> AbstractContextManager[int]:
        """`enter`; behind it the context of before is current again."""
        return self._driver.current()

    def stream_owner(self) -> Any:
        """CuPy's current stream."""
        return self._driver.stream()

    @property
    def pool(self) -> CupyMemory | None:
        """CuPy's memory, from when on CuPy is imported."""
        return None if sys.modules.get("cupy") is None else self._cupy

    def number_of(self, address: int) -> int | None:
        """The number of the device that memory is of."""
        return self._driver.number_of(address)

    def kernels(self, image: bytes, count: int) -> tuple[list[int], object]:
        """The handles of the kernels of a PTX text."""
        return self._driver.kernels(image, [f"kernel_{n}" for n in range(count)])

    def reason(self, status: int) -> str:
        """What the driver says of a status."""
        return self._driver.reason(status)


def device() -> Device:
    """The device that target="gpu" is for. DeviceError where there is none: what is missing, and how to get it."""
    return _device(chosen())


def chosen() -> str:
    """What DLVM_GPU says: "" for the hardware, "emulator"."""
    found = environment("DLVM_GPU")
    if found not in ("", EMULATOR):
        raise DeviceError(f"DLVM_GPU={found!r}: it is empty for the hardware, or {EMULATOR!r}")
    return found


@functools.cache
def _device(name: str) -> Device:
    if name == EMULATOR:
        return Device(standing.emulator(FUNCTIONS))
    return Hardware(cuda.driver())


def live(names: Sequence[str] = ("live",)) -> int:
    """How many allocations of the emulated device there are, for tests of leaks."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(standing.emulator(names)["live"])())
