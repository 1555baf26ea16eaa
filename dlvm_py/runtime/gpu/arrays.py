"""Arrays on the device: what `__cuda_array_interface__` and DLPack say, as arguments and as results.

A `DeviceArray` stands for an argument of CuPy, PyTorch, JAX or anybody else while a call runs. Results of a call with
such arguments are CuPy's arrays where there is CuPy, else `DeviceArray`s, which have the interface themselves.
"""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import functools
import importlib.util
import math
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dlvm_py.errors import ArgumentError
from dlvm_py.frozen import Frozen, replace
from dlvm_py.ir.types import DTYPES
from dlvm_py.runtime.gpu.device import Device, device
from dlvm_py.runtime.native import offsets

# what the protocols call the stream of handle 0; and the handle of the default stream of each thread
DEFAULT_STREAM, PER_THREAD_STREAM = 1, 2
_OF_HOST = (np.ndarray, np.generic, int, float, complex, str)
CUPY_DTYPES = "?bhilqBHILQefdFD"  # those of CuPy's arrays, by their characters
_CUDA, _MANAGED = 2, 13  # kDLCUDA, kDLCUDAManaged
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c"}  # DLDataTypeCode
_BFLOAT, _BOOL = 4, 6


class _Tensor(ctypes.Structure):
    """DLTensor of DLPack's ABI."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class DeviceArray(Frozen, eq=False):
    """An array on the device. `data` is the address of its first element, `owner` what keeps the memory.

    shape, strides (in bytes), dtype: as of an ndarray. stream: on which its memory is used, by the protocol's number,
    and what must be done before it is read; None where it can be read, and that is not known.
    origin: of an argument, the user's object. read(to, source, nbytes): copies to the host.
    """

    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: Any
    writeable: bool = True
    stream: int | None = None
    origin: Any = None
    read: Callable[[int, int, int], None] | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the protocol. What made the array may still run on the stream that was current."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.data if self.size else 0, not self.writeable),
            "strides": self.strides,
            "version": 3,
            "stream": self.stream,
        }

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def bounds(self) -> tuple[int, int]:
        """The address of the first byte, and that behind the last one."""
        if not self.size:
            return self.data, self.data
        reach = [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]
        low = self.data + sum(r for r in reach if r < 0)
        return low, self.data + sum(r for r in reach if r > 0) + self.dtype.itemsize

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host, when everything before is done."""
        if self.read is None:
            raise ArgumentError("an argument is copied to the host by what made it")
        low, high = self.bounds()
        whole = np.empty(high - low, np.uint8)
        self.read(whole.ctypes.data, low, high - low)
        return np.ndarray(self.shape, self.dtype, whole, self.data - low, self.strides).copy()

    def layout(self) -> str:
        """ "C", "F" or "S", as NumPy's flags have it."""
        if not self.size:
            return "C"
        moved = [(n, step) for n, step in zip(self.shape, self.strides, strict=True) if n != 1]
        for layout, axes in (("C", moved[::-1]), ("F", moved)):
            step = self.dtype.itemsize
            for n, stride in axes:
                if stride != step:
                    break
                step *= n
            else:
                return layout
        return "S"


def overlap(a: Any, b: Any) -> bool:
    """Whether two arrays may have bytes in common."""
    if isinstance(a, DeviceArray) and isinstance(b, DeviceArray):
        (low, high), (first, last) = a.bounds(), b.bounds()
        return low < last and first < high
    if isinstance(a, DeviceArray) or isinstance(b, DeviceArray):
        return False
    return bool(np.may_share_memory(a, b))


def is_on_device(value: Any) -> bool:
    """Whether a value is an array, or something that holds one, that says it is on a CUDA device."""
    parts = _parts(value)
    if parts is not None:
        return any(is_on_device(part) for _, part in parts)
    return _is_there(value)


def _is_there(value: Any) -> bool:
    if isinstance(value, DeviceArray):
        return True
    return not isinstance(value, _OF_HOST) and (_interface(value) is not None or _is_packed_there(value))


def _is_packed_there(value: Any) -> bool:
    asked = getattr(value, "__dlpack_device__", None)
    return asked is not None and not isinstance(value, type) and int(asked()[0]) in (_CUDA, _MANAGED)


def _interface(value: Any) -> dict[str, Any] | None:
    """What the `__cuda_array_interface__` of a value says; None where there is none, or it refuses as JAX does.

    That is for dtypes that have no name there (bfloat16), and other orders of axes: DLPack says what they are.
    """
    try:
        return getattr(value, "__cuda_array_interface__", None)
    except RuntimeError:
        return None


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """What a tuple, list, dict or dataclass instance holds, with what says where; None for other values."""
    if isinstance(value, DeviceArray | np.ndarray | float | int):
        return None
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        shown = range(len(value)) if names is None else names
        word = "item {} of " if names is None else "the field `{}` of "
        return [(word.format(k), part) for k, part in zip(shown, value, strict=True)]
    if type(value) is list:
        return [(f"item {k} of ", part) for k, part in enumerate(value)]
    if type(value) is dict:
        return [(f"the value of {k!r} in ", part) for k, part in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value) if hasattr(value, f.name)]
        return [(f"the field `{name}` of ", getattr(value, name)) for name in names]
    return None


def _leaves(value: Any, what: str) -> Iterator[tuple[str, Any]]:
    """What a value holds that holds nothing itself, with what it is called."""
    parts = _parts(value)
    if parts is None:
        yield what, value
    for where, part in parts or ():
        yield from _leaves(part, where + what)


class Placed(NamedTuple):
    """Arguments of a call on the device. copied: the parameters whose lists, dicts or instances are copies."""

    values: tuple[Any, ...]
    copied: tuple[str, ...]


def on_device(names: Sequence[str], values: Sequence[Any], function: str) -> Placed:
    """Arguments, one a parameter, with arrays of the device as `DeviceArray`.

    Raises: ArgumentError DL711 for an array of the host beside arrays of the device.
    """
    if any(isinstance(value, np.ndarray) or _parts(value) is not None for value in values):
        _require_no_array(names, values, function)
    with device().current():
        placed = tuple(
            _placed(value, f"argument '{name}' of {function}()") for name, value in zip(names, values, strict=True)
        )
    together = zip(names, values, placed, strict=True)
    return Placed(placed, tuple(name for name, a, b in together if a is not b and _is_changeable(a)))


def _require_no_array(names: Sequence[str], values: Sequence[Any], function: str) -> None:
    """Raises: ArgumentError DL711 for an array of the host among the arguments, and what they hold."""
    found = [leaf for name, value in zip(names, values, strict=True) for leaf in _leaves(value, f"argument '{name}'")]
    for what, value in found:
        if isinstance(value, np.ndarray):
            first = next(what for what, value in found if _is_there(value))
            raise ArgumentError(
                f"{what} of {function}() is a NumPy array, and {first.removeprefix('argument ')} is on the device",
                code="DL711",
                help="move it there as well, with cupy.asarray, or pass all of them as NumPy arrays",
            )


def _is_changeable(value: Any) -> bool:
    """Whether a value is, or holds, a list, a dict or an instance."""
    parts = _parts(value)
    return parts is not None and (not isinstance(value, tuple) or any(_is_changeable(part) for _, part in parts))


def _placed(value: Any, what: str, inside: bool = False) -> Any:
    """The same with arrays of the device as `DeviceArray`. inside: of a list, dict or instance.

    These are themselves where all that they hold can stay: what is done to them is seen.
    """
    parts = _parts(value)
    if parts is None:
        if isinstance(value, DeviceArray):
            return value if inside else device_array(value, what)
        if isinstance(value, _OF_HOST):
            return value
        interface = _interface(value)
        return device_array(value, what, interface) if interface is not None or _is_packed_there(value) else value
    made = [_placed(part, where + what, inside or not isinstance(value, tuple)) for where, part in parts]
    if all(a is b for a, (_, b) in zip(made, parts, strict=True)):
        return value
    if isinstance(value, tuple):
        return tuple.__new__(type(value), made)
    if isinstance(value, list):
        return made
    if isinstance(value, dict):
        return dict(zip(value, made, strict=True))
    copied = copy.copy(value)
    for field, part in zip((f for f in dataclasses.fields(value) if hasattr(value, f.name)), made, strict=True):
        object.__setattr__(copied, field.name, part)
    return copied


def device_array(value: Any, what: str, found: dict[str, Any] | None = None) -> DeviceArray:
    """The array that a value on the device, which is current, is; what has to be waited for is said by its `stream`.

    found: what its interface says, None where it has none.
    """
    if isinstance(value, DeviceArray):
        # a result of ours, given back: its own stream is done when this one's work begins
        return replace(value, origin=value)
    # PyTorch writes bfloat16 as two bytes of anything; DLPack has a code for it
    if found is None or np.dtype(found["typestr"]).kind == "V" and hasattr(value, "__dlpack__"):
        return _of_dlpack(value, what)
    return _of_interface(value, found, what)


def _of_interface(value: Any, found: dict[str, Any], what: str) -> DeviceArray:
    if found.get("mask") is not None:
        raise ArgumentError(f"{what} has a mask, which compiled code does not know", help="pass the data without it")
    dtype, shape = np.dtype(found["typestr"]), tuple(found["shape"])
    address, read_only = found["data"]
    strides = found.get("strides")
    strides = _dense(shape, dtype.itemsize) if strides is None else tuple(strides)
    if address and 0 not in shape:
        _require_here(device().number_of(int(address)), what)
    stream = found.get("stream") or _stream_of(value)
    return DeviceArray(int(address or 0), shape, strides, dtype, value, not read_only, stream, value)


def _require_here(number: int | None, what: str) -> None:
    if number is None:
        raise ArgumentError(f"{what} says that it is on a CUDA device, and its memory is not")
    if number:
        raise ArgumentError(
            f"{what} is on device {number}, and compiled code runs on the first one, device 0",
            help="move it there, or name its device alone in the environment variable CUDA_VISIBLE_DEVICES",
        )


def _stream_of(value: Any) -> int | None:
    """The stream of a tensor of PyTorch, which does not say it: the current one of its device."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    return named(int(torch.cuda.current_stream(value.device).cuda_stream))


def named(stream: int) -> int:
    """What the protocols call a stream, by its handle."""
    return stream or DEFAULT_STREAM


def _of_dlpack(value: Any, what: str) -> DeviceArray:
    _require_here(int(value.__dlpack_device__()[1]), what)
    with device().current() as stream:
        capsule = value.__dlpack__(stream=named(stream))  # which the producer makes wait
    # the capsule keeps the tensor, and gives it back when it is freed, as long as its name is not changed
    tensor = _Tensor.from_address(offsets.capsule_pointer(capsule))
    if tensor.lanes != 1 or tensor.code not in (*_KINDS, _BFLOAT, _BOOL):
        raise ArgumentError(f"{what} is a DLPack tensor of a type that NumPy does not have (code {tensor.code})")
    if tensor.code == _BFLOAT:
        dtype = DTYPES["bf16"].numpy
    else:
        dtype = np.dtype("?" if tensor.code == _BOOL else f"{_KINDS[tensor.code]}{tensor.bits // 8}")
    shape = tuple(tensor.shape[k] for k in range(tensor.rank))
    strides = _dense(shape, dtype.itemsize)
    if tensor.strides:
        strides = tuple(tensor.strides[k] * dtype.itemsize for k in range(tensor.rank))
    return DeviceArray((tensor.data or 0) + tensor.offset, shape, strides, dtype, (value, capsule), origin=value)


def _dense(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    strides, step = [0] * len(shape), itemsize
    for k in reversed(range(len(shape))):
        strides[k] = step
        step *= max(shape[k], 1)
    return tuple(strides)


def to_device(array: np.ndarray[Any, Any]) -> DeviceArray:
    """A copy of an array on the device, in C order."""
    on = device()
    array = np.ascontiguousarray(array)
    with on.current() as stream:
        owner = Owned(on, on.allocate(array.nbytes, stream), stream, on.stream_owner())
        on.write(owner.address, array.ctypes.data, array.nbytes, stream)
    read = reader(on, stream)
    return DeviceArray(owner.address, array.shape, array.strides, array.dtype, owner, stream=named(stream), read=read)


def reader(device: Device, stream: int) -> Callable[[int, int, int], None]:
    """What copies memory to the host, in whatever thread, behind what a stream does."""

    def read(to: int, source: int, nbytes: int) -> None:
        with device.current():
            device.read(to, source, nbytes, stream)

    return read


class Owned:
    """Memory of the device that a result took over: given back when nothing refers to it any more.

    stream_owner: what keeps the stream that it is given back on.
    """

    def __init__(self, device: Device, address: int, stream: int, stream_owner: Any) -> None:
        self.address = address
        self._finalizer = weakref.finalize(self, _free, device, address, stream, stream_owner)
        self._finalizer.atexit = False  # the driver may be gone by then


def _free(device: Device, address: int, stream: int, stream_owner: Any) -> None:
    if device.is_here:  # the memory of a fork is its parent's
        with device.current():
            device.free(address, stream)


def exported(array: DeviceArray) -> Any:
    """A result for the user: CuPy's where there is CuPy that has its dtype, unless the device is emulated."""
    if array.data >= 1 << 62 or array.dtype.char not in CUPY_DTYPES or not is_cupy_installed():
        return array
    return as_cupy(array)


@functools.cache
def is_cupy_installed() -> bool:
    """Whether CuPy is installed: looked for once, as that takes longer than a launch."""
    return importlib.util.find_spec("cupy") is not None


def as_cupy(array: DeviceArray) -> Any:
    """CuPy's array in the same memory, which it keeps."""
    import cupy

    low, high = array.bounds()
    memory = cupy.cuda.UnownedMemory(low, max(high - low, 1), array.owner, 0)  # of device 0, an empty one too
    pointer = cupy.cuda.MemoryPointer(memory, array.data - low)
    return cupy.ndarray(array.shape, array.dtype, pointer, array.strides)
