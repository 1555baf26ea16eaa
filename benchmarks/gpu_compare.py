"""The first part of `make gpu-check`: every program of the tests, and its gradient, on the device beside the CPU.

Each is called with NumPy's arrays, and with arrays of the device by whoever is installed: CuPy, PyTorch (by
`__cuda_array_interface__`, and by DLPack alone), JAX; loops that become graphs without them, too.

Processes share the programs: as this file runs by itself it is one of them, which reads {"tasks": [[program, way],
...], "seconds": s} from its standard input and answers each with a line, the list of what is wrong with it. A process
that ends takes nothing along but the program that it is at. Where a kernel fails, whose process has lost the device,
the next one goes on.
"""

import functools
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import gpu_suite
from gpu_programs import LIBRARY, _of, loss

import dlvm_py as dlvm
from dlvm_py.runtime.gpu.arrays import DeviceArray
from dlvm_py.runtime.gpu.device import EMULATOR


def large_products(a, b, c):
    """What goes to cuBLAS where there is CuPy."""
    c -= np.dot(a, b)
    return c, np.dot(c, b.T), a.T @ c


def long_rows(x):
    """Rows that are reduced by a block each, and by 8 threads each, and a whole that is reduced in two launches."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True), x.reshape(-1, 40).sum(axis=1), np.sum(x * x), np.cumsum(x)


# name: as in gpu_suite.py, of what only hardware is asked about
HARDWARE = {
    "large products": (large_products, lambda: (_of((520, 257)), _of((257, 513), seed=1), _of((520, 513))), (0, 1, 2)),
    "long rows": (long_rows, lambda: (_of((200, 9000)),), (0,)),
    "library loss": (loss, lambda: (_of((3, 3)) + 3.0 * np.eye(3), _of(3, seed=1)), (0, 1)),
    **{f"library {function.__name__}": (function, make, ()) for function, make in LIBRARY},
}
SUITE = {**gpu_suite.SUITE, **HARDWARE}
HOST, WITHOUT_GRAPHS = "NumPy", "NumPy without graphs"
PROCESS = [sys.executable, __file__]


class OutOfTime(Exception):
    """The minutes are over."""


@contextmanager
def until(end):
    """Break off what is done inside at a time (perf_counter), where the system has timers. Raises: OutOfTime."""

    def stop(*_):
        raise OutOfTime("the minutes are over")

    left = end - time.perf_counter()
    if left <= 0:
        stop()
    if left == float("inf") or not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, left)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Packed:
    """An array that speaks DLPack alone."""

    def __init__(self, tensor):
        self.tensor, self.__dlpack__, self.__dlpack_device__ = tensor, tensor.__dlpack__, tensor.__dlpack_device__


def _cupy(x):
    import cupy

    return cupy.asarray(x)


def _torch(x):
    import torch

    return torch.asarray(np.ascontiguousarray(x), device="cuda")


def _jax(x):
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(x)


# way: (what it needs, the array that it makes of one of the host)
ON_DEVICE = {
    "CuPy": ("cupy", _cupy),
    "PyTorch": ("torch", _torch),
    "DLPack": ("torch", lambda x: Packed(_torch(x))),
    "JAX": ("jax", _jax),
}


def tasks():
    """All that is compared: pairs of a program and a way. NumPy's come first, before any peer is imported."""
    there = [way for way, (module, _) in ON_DEVICE.items() if importlib.util.find_spec(module) is not None]
    names = list(SUITE)
    if os.environ.get("DLVM_GPU") == EMULATOR:
        there, names = [], [name for name in SUITE if name not in HARDWARE]
    graphs = [(name, WITHOUT_GRAPHS) for name in names if name.startswith(("graph", "stencil"))]
    return [(name, HOST) for name in names] + graphs + [(name, way) for way in there for name in names]


def on_host(value):
    """The numbers of a result, as arrays and numbers of the host, in a list."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in on_host(item)]
    if isinstance(value, Packed):
        return on_host(value.tensor)
    if isinstance(value, DeviceArray):
        return [value.numpy()]
    if hasattr(value, "get"):
        return [value.get()]
    return [np.asarray(value.cpu() if hasattr(value, "cpu") else value)] if hasattr(value, "shape") else [value]


def alike(got, expected):
    """Whether results agree up to the order of sums."""
    pairs = list(zip(on_host(got), on_host(expected), strict=True))
    tolerance = {2: 2e-3, 4: 2e-5}
    return all(
        a is b is None
        or np.allclose(a, b, *[tolerance.get(np.asarray(b).real.dtype.itemsize, 1e-11)] * 2, equal_nan=True)
        for a, b in pairs
    )


@functools.cache
def by_cpu(name):
    """Of a program: what the CPU computes, with the arguments as they are behind the call; its gradient."""
    function, make, wrt = SUITE[name]
    given = make()
    value = dlvm.jit(function)(*given)
    return (value, given), dlvm.grad(function, wrt=wrt)(*make()) if wrt else None


@functools.cache
def writes(name):
    """Whether a program is compiled to write into its arguments."""
    function, make, _ = SUITE[name]
    given = make()
    for a in given:
        if isinstance(a, np.ndarray):
            a.flags.writeable = False
    try:
        dlvm.jit(function)(*given)
    except ValueError:
        return True
    return False


@functools.cache
def _compiled(name, way):
    function, _, wrt = SUITE[name]
    value = dlvm.jit(function, target="gpu")
    return value, dlvm.grad(value, wrt=wrt) if wrt else None


def compared(name, way, end=float("inf")):
    """What is wrong with a program when it is called in a way: texts that name it, none where all is well.

    end: the time (perf_counter) when it counts as failed.
    """
    make = SUITE[name][1]
    value, gradient = _compiled(name, way if way == WITHOUT_GRAPHS else HOST)
    place = ON_DEVICE[way][1] if way in ON_DEVICE else lambda x: x
    label = name if way == HOST else f"{name} by {way}"

    def given():
        return [place(a) if isinstance(a, np.ndarray) else a for a in make()]

    def value_and_effects():
        arguments = given()
        return value(*arguments), arguments

    found = []
    os.environ["DLVM_GPU_GRAPHS"] = "0" if way == WITHOUT_GRAPHS else "1"
    try:
        with until(end):
            expected = by_cpu(name)
            if way != "JAX" or not writes(name):  # JAX's arrays are not to be written
                found += [label + why for why in [difference(value_and_effects, expected[0])] if why]
            if gradient is not None:
                found += [
                    f"gradient of {label}{why}" for why in [difference(lambda: gradient(*given()), expected[1])] if why
                ]
    except Exception as error:
        found.append(f"{label} ({type(error).__name__}: {error})")
    return found


def difference(compute, expected):
    """What is wrong with a result, as text behind its name; None if nothing is. Raises: OutOfTime."""
    try:
        return None if alike(compute(), expected) else " (other numbers)"
    except OutOfTime:
        raise
    except Exception as error:
        return f" ({type(error).__name__}: {error})"


def disagreements(end=float("inf"), jobs=1):
    """All that is wrong, as texts. end: as of `compared`. jobs: in how many processes; 1: in this one."""
    if jobs == 1:
        found = [compared(*task, end) for task in tasks()]
    else:
        whole = tasks()
        with ThreadPoolExecutor(jobs) as pool:
            found = list(pool.map(lambda k: apart(whole[k::jobs], end), range(jobs)))
    print()
    return [text for texts in found for text in texts]


def apart(whole, end):
    """What is wrong with some tasks, by processes of their own, one after the other."""
    found, left = [], list(whole)
    while left:
        seconds = end - time.perf_counter()
        if seconds <= 0:
            return found + [f"{name} by {way} (OutOfTime: the minutes are over)" for name, way in left]
        with subprocess.Popen(PROCESS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            killer = threading.Timer(min(seconds + 5, threading.TIMEOUT_MAX), process.kill)
            killer.start()
            process.stdin.write(json.dumps({"tasks": left, "seconds": seconds}))
            process.stdin.close()
            answers = []
            for line in process.stdout:
                answers.append(json.loads(line))
                print(".", end="", flush=True)
            status = process.wait()
            killer.cancel()
        found += [text for texts in answers for text in texts]
        if status:
            name, way = left[min(len(answers), len(left) - 1)]
            found.append(f"{name} by {way} (its process ended with status {status})")
        left = left[len(answers) + bool(status) :]
    return found


def main():
    """One of the processes."""
    given = json.load(sys.stdin)
    end = time.perf_counter() + given["seconds"]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever others print is no answer
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for name, way in given["tasks"]:
        found = compared(name, way, end)
        print(json.dumps(found), file=answers, flush=True)
        if any("CUDA error" in text for text in found):
            return


if __name__ == "__main__":
    main()
