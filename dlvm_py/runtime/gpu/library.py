"""What a GPU program has no kernels for: CuPy computes it on the device; without CuPy, NumPy on the host, with copies.

Compiled code asks by `tell` (backend/gpu/library.py says what lies at the address). The op is what its row says. CuPy's
arrays answer NumPy's functions by CuPy's, so that the same row calls cuSOLVER, cuFFT and CUB where it is given such
arrays, on the stream that is current. What CuPy does not know, and what it finds no result for, is NumPy's: so the
exceptions and their words are those of the CPU. Products that may well go to cuBLAS are asked for with a flag, which
says that they are done; without CuPy the program has a kernel.
"""

from __future__ import annotations

import ctypes
import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm_py.deferred import deferred
from dlvm_py.runtime import told
from dlvm_py.runtime.gpu.arrays import CUPY_DTYPES, DeviceArray, as_cupy, is_cupy_installed
from dlvm_py.runtime.gpu.device import EMULATOR, Device

if TYPE_CHECKING:
    from dlvm_py.ir import ops
else:
    ops = deferred("dlvm_py.ir.ops")

# what CuPy does as NumPy does whatever the numbers are; of the rest, NaN and infinities are NumPy's
_ANY_NUMBERS = ("sort", "argsort", "fourier", "dot")


def run_library(device: Device, asked: str, kinds: Sequence[str], address: int) -> None:
    """Compute an array of others. asked: the op, its attributes and how the result is stored, as JSON.

    The first operand is where it goes. Of an op that is stored in a way the first is a flag, set where that is done.
    """
    stream = device.enter()
    read = functools.partial(device.read, stream=stream)

    def array(found: told.Described) -> DeviceArray:
        return DeviceArray(found.data, found.shape, found.strides, found.dtype.numpy, None, read=read)

    name, attrs, how = json.loads(asked)
    operands = told.operands(kinds, address, array)
    if how is not None:
        _, to, *operands = operands
        ctypes.c_int64.from_address(address).value = _by_cupy(device, name, attrs, how, to, operands)
        return
    to, *operands = operands
    if _by_cupy(device, name, attrs, "set", to, operands):
        return
    given = [x.numpy() if isinstance(x, DeviceArray) else x for x in operands]
    with np.errstate(all="ignore"):  # as kernels do
        found = ops.OPS[name].evaluate(*given, **attrs)
    _write(device, stream, to, np.asarray(found))


def has_cupy(device: Device) -> bool:
    """Whether CuPy is installed, and the memory is one that it can read."""
    return device.name != EMULATOR and is_cupy_installed()


def _by_cupy(
    device: Device, name: str, attrs: dict[str, Any], how: str, to: DeviceArray, operands: Sequence[Any]
) -> bool:
    """Whether CuPy has computed an op. how: `to` is set, or the value is added to it, or subtracted."""
    arrays = [x for x in (to, *operands) if isinstance(x, DeviceArray)]
    if not has_cupy(device) or any(x.dtype.char not in CUPY_DTYPES for x in arrays):
        return False
    import cupy
    import cupyx

    out, *given = (as_cupy(x) if isinstance(x, DeviceArray) else x for x in (to, *operands))
    if name not in _ANY_NUMBERS:
        inexact = (x for x in given if isinstance(x, cupy.ndarray) and x.dtype.kind in "fc")
        if not all(bool(cupy.isfinite(x).all()) for x in inexact):
            return False
    try:
        with cupyx.errstate(linalg="raise"):  # else what has no result gives NaN, or anything
            if name == "dot" and how == "set" and _takes_product(out, given):
                np.dot(*given, out=out)
                return True
            found = ops.OPS[name].evaluate(*given, **attrs)
    except (np.linalg.LinAlgError, NotImplementedError, TypeError):
        return False
    if how == "add":
        out += found
    elif how == "subtract":
        out -= found
    else:
        out[...] = found
    return True


def _takes_product(out: Any, given: Sequence[Any]) -> bool:
    """Whether cuBLAS can write a product where it goes, without a copy."""
    return bool(out.flags.c_contiguous) and all(x.ndim == 2 and x.dtype == out.dtype for x in (out, *given))


def _write(device: Device, stream: int, to: DeviceArray, found: np.ndarray[Any, Any]) -> None:
    """Give an array of the device these elements; what lies between them stays."""
    if not to.size:
        return
    low, high = to.bounds()
    whole = np.empty(high - low, np.uint8)
    if to.layout() == "S":
        device.read(whole.ctypes.data, low, high - low, stream)
    np.ndarray(to.shape, to.dtype, whole, to.data - low, to.strides)[...] = found
    device.write(low, whole.ctypes.data, high - low, stream)
