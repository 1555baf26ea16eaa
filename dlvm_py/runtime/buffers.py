"""The memory that a process keeps for the next arrays: its state and its limit. The code is `native/pool.ll`.

Memory that compiled code is done with, and that of results that Python has dropped, is handed out again: touching new
pages costs more than most kernels do with them. All versions share one state, whose address is the import `pool:state`.
"""

from __future__ import annotations

import ctypes
import functools

from dlvm_py.errors import ArgumentError
from dlvm_py.options import environment

CLASSES = 256
_MOST = 1 << 40  # larger blocks have no class


class State(ctypes.Structure):
    """As pool.ll reads it. `limit`, `kept` and `refused` are bytes."""

    _fields_ = [
        ("lock", ctypes.c_int64),
        ("limit", ctypes.c_int64),
        ("kept", ctypes.c_int64),
        ("refused", ctypes.c_int64),
        ("first", ctypes.c_void_p * CLASSES),
    ]


@functools.cache
def state() -> State:
    """The state of this process; DLVM_BUFFERS is read when it is made. It is never freed."""
    made = State(limit=_limit_wanted())
    # arrays may outlive every module, and their memory comes back here
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


def kept_bytes() -> int:
    """How much memory is kept now."""
    return state().kept


def _limit_wanted() -> int:
    text = environment("DLVM_BUFFERS")
    try:
        return min(max(int(float(text) * 2**20), 0), _MOST)
    except (ValueError, OverflowError):
        raise ArgumentError(f"DLVM_BUFFERS={text!r} is no number of MiB", code="DL708") from None
