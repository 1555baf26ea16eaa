"""Kernels written by hand in C (benchmarks/c), compiled by the machine's compiler: what a loop can reach.

`kernel` of a file takes the arguments in their order: an array as a pointer and its extents (int64), an int as int64,
a float as double; then a pointer for each result that does not lie in an argument.
"""

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "c"
COMPILER = os.environ.get("CC") or shutil.which("cc")
FLAGS = ["-O3", "-march=native", "-std=c17", "-shared", "-fPIC", "-lm"]

if COMPILER is None:
    raise ImportError("no C compiler")
_banner = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
__version__ = f"({_banner}, {' '.join(FLAGS[:2])})"


def compiled(name):
    """The function of benchmarks/c/<name>.c; None if there is no such file."""
    if not (FOLDER / f"{name}.c").exists():
        return None
    return library(name, tempfile.mkdtemp(prefix="c-", dir=".")).kernel  # a folder of the race, which removes it


def library(name, folder):
    """What benchmarks/c/<name>.c defines, compiled into a file in `folder`."""
    path = Path(folder, f"{name}.so").resolve()
    subprocess.run([COMPILER, str(FOLDER / f"{name}.c"), "-o", str(path), *FLAGS], check=True)
    return ctypes.CDLL(str(path))


def caller(function, results, arguments):
    """A Python function that calls `function`; `results` are what NumPy's kernel returned for `arguments`.

    A result that is one of the arguments is that argument; the others are new memory at each call.
    """
    function.restype = None
    places = [next((i for i, a in enumerate(arguments) if a is r), None) for r in results]

    def call(*values):
        given = []
        for value in values:
            if isinstance(value, np.ndarray):
                if not value.flags.c_contiguous:
                    raise ValueError("C takes contiguous arrays")
                given += [ctypes.c_void_p(value.ctypes.data), *map(ctypes.c_int64, value.shape)]
            else:
                given.append(ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value))
        made = [
            np.empty(np.shape(r), np.asarray(r).dtype) if i is None else values[i]
            for i, r in zip(places, results, strict=True)
        ]
        new = [ctypes.c_void_p(m.ctypes.data) for i, m in zip(places, made, strict=True) if i is None]
        function(*given, *new)
        return tuple(made)

    return call
