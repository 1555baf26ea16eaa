"""The memory that a process keeps for the next arrays: its state and its limit. The code is `native/pool.ll`.
And what a gradient may take before it runs loops again (checkpoint="auto").

Memory that compiled code is done with, and that of results that Python has dropped, is handed out again: touching new
pages costs more than most kernels do with them. All versions share one state, whose address is the import `pool:state`.
"""

from __future__ import annotations

import ctypes
import functools
import os

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


def tape_limit(memory: int | None = None) -> int:
    """The bytes that a call of a gradient with checkpoint="auto" may hold at a time, as things are with DLVM_TAPE.

    memory: the bytes that there are, where they are not this machine's.
    """
    if environment("DLVM_TAPE"):
        return max(_mebibytes("DLVM_TAPE"), 1)
    return (_memory() if memory is None else memory) // 4


def taken_before(memory: int | None = None) -> int:
    """At what the count of bytes of a limited call begins: it overflows where more than `tape_limit` are taken."""
    return (1 << 63) - 1 - tape_limit(memory)


@functools.cache
def _memory() -> int:
    """The bytes of memory of this machine, or what the control group of this process may use of them."""
    found = [_MOST]
    if hasattr(os, "sysconf"):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            with open(f"/sys/fs/cgroup/{name}", encoding="ascii") as file:
                found.append(int(file.read()))
        except (OSError, ValueError):
            continue  # no such group, or "max"
    return min(found)


def _limit_wanted() -> int:
    if environment("DLVM_BUFFERS"):
        return min(max(_mebibytes("DLVM_BUFFERS"), 0), _MOST)
    return min(max(_memory() // 16, 256 * 2**20), _MOST)


def _mebibytes(name: str) -> int:
    """The bytes that an environment variable says in MiB."""
    text = environment(name)
    try:
        return int(float(text) * 2**20)
    except (ValueError, OverflowError):
        raise ArgumentError(f"{name}={text!r} is no number of MiB", code="DL708") from None
