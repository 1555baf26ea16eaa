"""The threads that share the array kernels of a process: how many, and the state that `native/threads.ll` works on.

They are made when the first kernel with enough work runs, at most as many as the process may use processors: those of
its affinity mask and of the quota of its control group, or what DLVM_NUM_THREADS says. With 1 no thread is ever made.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
import time
from typing import TYPE_CHECKING

from dlvm_py.deferred import deferred
from dlvm_py.errors import ArgumentError
from dlvm_py.grain import BRIEF_BITS, CHUNK, GRAIN
from dlvm_py.options import environment

if TYPE_CHECKING:
    import signal
else:
    signal = deferred("signal")

# as threads.ll lays the state out; beginning on a cache line
_SIZE, _LINE, _THREADS, _MADE, _FACTOR, _PENALTY, _CREDIT = 5568, 64, 200, 208, 248, 632, 912
_MOST = 1024

# times what a kernel lost by threads, no threads are used: what is lost in the long run is one part in so many
PENALTY = 32
# nanoseconds that may be lost by threads before any were won
CREDIT = 5_000_000
# how often an idle thread looks before it sleeps: 10 to 20 microseconds
SPINS = 1_500
# Of brief kernels (grain.py, brief.ll), in nanoseconds: a part of one at least; how near the end of the next
# one is, and what took longer for other reasons; how many of them, one right after the other, call workers; what these
# may lose at first, and what may be won for losses; the pause behind those. SETTLED: as many alone in a row have what
# they read in the caller's caches.
PART, NEAR, AWAY, STREAK = 6_250, 200_000, 1_000_000, 200_000
FIRST_CREDIT, WON_CREDIT, PAUSE, SETTLED = 400_000, 500_000, 1_000_000, 16
_RELAX = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}


@functools.cache
def state() -> int:
    """The address of the state of this process, which is never freed; DLVM_NUM_THREADS is read when it is made."""
    memory = ctypes.create_string_buffer(_SIZE + _LINE)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    address = -(-ctypes.addressof(memory) // _LINE) * _LINE
    ctypes.c_int64.from_address(address + _THREADS).value = _wanted()
    set_penalty(PENALTY, address)
    return address


def set_penalty(factor: int, address: int | None = None) -> None:
    """For how many times what a kernel lost by threads the next ones go without; 0: never. Forgets what was won."""
    for field, value in ((_FACTOR, factor), (_PENALTY, factor), (_CREDIT, CREDIT)):
        ctypes.c_int64.from_address((address or state()) + field).value = value


def set_number(count: int) -> None:
    """Use that many threads from the next kernel on, the calling one included."""
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= _MOST:
        raise ArgumentError(f"the number of threads is an int from 1 to {_MOST}, not {count!r}", code="DL705")
    ctypes.c_int64.from_address(state() + _THREADS).value = count


def number() -> int:
    """How many threads share a kernel."""
    return ctypes.c_int64.from_address(state() + _THREADS).value


def workers() -> int:
    """How many threads have been made so far beside those of Python."""
    return ctypes.c_int64.from_address(state() + _MADE).value


def text(source: str) -> str:
    """threads.ll or brief.ll for this system: how a thread relaxes its core, whether apart.ll is there, and numbers."""
    relax = _RELAX.get(platform.machine().replace("AMD64", "x86_64"), "")
    if relax and "{relax}" in source:
        source += f"declare {relax.removeprefix('call ').replace('i32 1', 'i32')}\n"
    values = {"relax": relax, "spins": SPINS, "sigsetmask": int(signal.SIG_SETMASK)}
    values |= {"grain": GRAIN // 10, "chunk": CHUNK // 10, "brief": BRIEF_BITS}  # in nanoseconds
    values |= {"part": PART, "near": NEAR, "away": AWAY, "streak": STREAK, "settled": SETTLED}
    values |= {"first_credit": FIRST_CREDIT, "credit": WON_CREDIT, "pause": PAUSE}
    values["apart"] = "call void @threads.apart(ptr %state)" if sys.platform == "linux" else ""
    values |= {"monotonic": time.CLOCK_MONOTONIC, "processor": time.CLOCK_THREAD_CPUTIME_ID}
    for name, value in values.items():
        source = source.replace("{" + name + "}", str(value))
    return source


def _wanted() -> int:
    named = environment("DLVM_NUM_THREADS")
    if not named:
        return processors()
    if not named.isdecimal() or not 1 <= int(named) <= _MOST:
        raise ArgumentError(f"DLVM_NUM_THREADS={named!r} is no number from 1 to {_MOST}", code="DL705")
    return int(named)


@functools.cache
def processors() -> int:
    """The processors that this process may use."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        found = min(found, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no such group, or "max"
    return max(1, min(found, _MOST))
