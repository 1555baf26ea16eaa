"""libcuda, NVIDIA's driver, through ctypes: the first device, its primary context, modules of PTX.

The driver's linker makes the device's own code of PTX, a cubin, which is kept in the disk cache by the PTX, the
device's capability and the driver's version: another process loads it without compiling anything.

Nothing of this runs where there is no device: it is small and plain for that. docs/gpu.md says where it has run.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dlvm_py.errors import DeviceError
from dlvm_py.options import environment
from dlvm_py.runtime.cache import Cache, cache_key

_LIBRARY = "libcuda.so.1"
_MAJOR, _MINOR, _POOLS = 75, 76, 115  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*, _MEMORY_POOLS_SUPPORTED
_RELEASE_THRESHOLD = 4  # CU_MEMPOOL_ATTR_*
_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_PTX = 1  # CU_JIT_INPUT_PTX
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # CU_JIT_ERROR_LOG_BUFFER, ..._SIZE_BYTES
# compute capabilities that PTX is written for, and the first driver (by its version of CUDA) that reads the version of
# PTX that LLVM writes for it; later devices, and older drivers, run that of the last one before them
CAPABILITIES = {75: 10000, 80: 11000, 86: 11010, 89: 11080, 90: 11080}
_HELP = "target='gpu' needs an NVIDIA device with its driver; CuPy arrays need `pip install dlvm-py[cuda]`. "
_HELP += "DLVM_GPU=emulator runs the same kernels on the CPU, slowly, for tests"


def driver() -> Driver:
    """The driver, with its first device. DeviceError where either is missing."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise DeviceError(f"there is no NVIDIA driver: {_LIBRARY} is not found. {_HELP}") from None
    return Driver(library)


class Driver:
    """The functions of the library, and its first device."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library, self._process = library, os.getpid()
        if status := library.cuInit(0):
            raise DeviceError(f"the NVIDIA driver finds no device: {self.reason(status)}. {_HELP}")
        self._number = ctypes.c_int()
        self._do("cuDeviceGet", ctypes.byref(self._number), 0)
        major, minor = (self._attribute(a) for a in (_MAJOR, _MINOR))
        if 10 * major + minor < min(CAPABILITIES):
            raise DeviceError(f"the device is of compute capability {major}.{minor}: kernels need 7.5 or later")
        if not self._attribute(_POOLS):
            raise DeviceError("the device has no memory pools (cuMemAllocAsync): some virtual ones have not")
        version = ctypes.c_int()
        self._do("cuDriverGetVersion", ctypes.byref(version))
        self._version = version.value
        read = [c for c, since in CAPABILITIES.items() if c <= 10 * major + minor and since <= self._version]
        self.architecture = f"sm_{read[-1]}"
        self._code = major, minor, self._version  # what a cubin is for
        self._context = ctypes.c_void_p()
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._number)
        self._keep_memory()

    def _keep_memory(self) -> None:
        """Have the driver keep what is freed for the next arrays: else it gives it back at every wait."""
        pool, limit = ctypes.c_void_p(), ctypes.c_uint64(2**64 - 1)
        self._do("cuDeviceGetDefaultMemPool", ctypes.byref(pool), self._number)
        self._do("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, ctypes.byref(limit))

    @property
    def memory(self) -> int:
        """The bytes of memory of the device."""
        found = ctypes.c_size_t()
        self._do("cuDeviceTotalMem_v2", ctypes.byref(found), self._number)
        return found.value

    @property
    def description(self) -> str:
        """The device and the version of CUDA that the driver has, for people."""
        name = ctypes.create_string_buffer(100)
        self._do("cuDeviceGetName", name, len(name), self._number)
        return f"{name.value.decode()} ({self.architecture}), driver for CUDA {self._version / 1000:.1f}"

    def _attribute(self, number: int) -> int:
        found = ctypes.c_int()
        self._do("cuDeviceGetAttribute", ctypes.byref(found), number, self._number)
        return found.value

    def _do(self, name: str, *args: Any) -> None:
        if status := self._function(name)(*args):
            raise DeviceError(f"{name} failed: {self.reason(status)}")

    def address(self, name: str) -> int:
        """The address of a function."""
        found = ctypes.cast(self._function(name), ctypes.c_void_p).value
        assert found is not None
        return found

    def _function(self, name: str) -> Any:
        try:
            return getattr(self._library, name)
        except AttributeError:
            raise DeviceError(f"the NVIDIA driver is older than CUDA 11.4: it has no {name}") from None

    @property
    def is_here(self) -> bool:
        """Whether this is the process that began to use the driver, and no fork of it."""
        return os.getpid() == self._process

    def enter(self) -> int:
        """Make the primary context current for this thread; the stream to use."""
        if not self.is_here:
            raise DeviceError(
                "this process was forked from one that used the device, which the driver does not support: "
                "start it another way, as multiprocessing.get_context('spawn') does"
            )
        self._do("cuCtxSetCurrent", self._context)
        stream = self.stream()
        return 0 if stream is None else int(stream.ptr)

    def stream(self) -> Any:
        """CuPy's current stream on the device, which is current; None without CuPy."""
        cupy = sys.modules.get("cupy")
        return None if cupy is None else cupy.cuda.get_current_stream()

    @contextmanager
    def current(self) -> Iterator[int]:
        """`enter`, and behind it the context again that the thread had: by that CuPy and PyTorch know their device."""
        before = ctypes.c_void_p()
        if self.is_here:
            self._do("cuCtxGetCurrent", ctypes.byref(before))
        try:
            yield self.enter()
        finally:
            if self.is_here and before.value != self._context.value:
                self._do("cuCtxSetCurrent", before)

    def number_of(self, address: int) -> int | None:
        """The number of the device that memory is of; None for what is no memory of a device."""
        found = ctypes.c_int()
        status = self._function("cuPointerGetAttribute")(ctypes.byref(found), _ORDINAL, ctypes.c_void_p(address))
        return None if status else found.value

    def kernels(self, image: bytes, names: Sequence[str]) -> tuple[list[int], object]:
        """The handles of the functions of a module; the module stays as long as the process."""
        handles = []
        with self.current():
            module = self._module(image)
            for name in names:
                found = ctypes.c_void_p()
                self._do("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
                assert found.value is not None
                handles.append(found.value)
        return handles, module

    def _module(self, ptx: bytes) -> ctypes.c_void_p:
        """A module of a PTX text, of the cubin that the cache has of it where it is good."""
        module = ctypes.c_void_p()
        cache = Cache() if environment("DLVM_CACHE") != "0" else None
        key = cache_key("cubin", self._code, ptx)
        kept = cache.get(key) if cache is not None else None
        if kept is not None and not self._library.cuModuleLoadData(ctypes.byref(module), kept[1]):
            return module
        cubin = self._linked(ptx)
        self._do("cuModuleLoadData", ctypes.byref(module), cubin)
        if cache is not None:
            cache.put(key, {}, cubin)
        return module

    def _linked(self, ptx: bytes) -> bytes:
        """The code of this device for a PTX text. DeviceError with what the linker says of the text."""
        state, code, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        log = ctypes.create_string_buffer(4096)
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))  # the size itself, as a pointer
        self._do("cuLinkCreate_v2", 2, options, values, ctypes.byref(state))
        try:
            text = ctypes.create_string_buffer(ptx)  # with the zero at the end that PTX needs
            given = _PTX, text, ctypes.c_size_t(len(text)), b"kernels", 0, None, None
            self._do("cuLinkAddData_v2", state, *given)
            self._do("cuLinkComplete", state, ctypes.byref(code), ctypes.byref(size))
            assert code.value is not None
            return ctypes.string_at(code.value, size.value)  # a copy: the state has the memory
        except DeviceError as error:
            said = log.value.decode(errors="replace").strip()
            raise DeviceError(f"{error}\n{said}" if said else str(error)) from None
        finally:
            self._do("cuLinkDestroy", state)

    def reason(self, status: int) -> str:
        """What the driver says of a status."""
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(status, ctypes.byref(text))
        said = text.value.decode() if text.value else "an unknown error"
        return f"{said} (CUDA error {status})"
