"""What a GPU program has no kernels for: NumPy does it on the host, with copies from the device and back to it.

Compiled code asks by `tell` (backend/gpu/library.py says what lies at the address). The op is what its row says, so
that the numbers are those of the interpreter.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm_py.deferred import deferred
from dlvm_py.runtime import told
from dlvm_py.runtime.gpu.arrays import DeviceArray
from dlvm_py.runtime.gpu.device import Device

if TYPE_CHECKING:
    from dlvm_py.ir import ops
else:
    ops = deferred("dlvm_py.ir.ops")


def run_library(device: Device, asked: str, kinds: Sequence[str], address: int) -> None:
    """Compute an array of others. asked: the op and its attributes, as JSON; the first operand is where it goes."""
    stream = device.enter()
    read = functools.partial(device.read, stream=stream)

    def array(found: told.Described) -> DeviceArray:
        return DeviceArray(found.data, found.shape, found.strides, found.dtype.numpy, None, read=read)

    to, *operands = told.operands(kinds, address, array)
    name, attrs = json.loads(asked)
    given = [x.numpy() if isinstance(x, DeviceArray) else x for x in operands]
    with np.errstate(all="ignore"):  # as kernels do
        found = ops.OPS[name].evaluate(*given, **attrs)
    _write(device, stream, to, np.asarray(found))


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
