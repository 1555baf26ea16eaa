"""The machine's memory bandwidth, and how much of it our passes over large arrays reach.

    python benchmarks/bandwidth.py [--megabytes 2,16,256,1000] [--threads 2] [--seconds 2]

Streams written in C (benchmarks/c/stream.c: a sum, a scaled copy, a triad, the latter two with plain stores and with
stores past the caches) and functions of ours, in turns in one process, the same number of threads for both. Megabytes
are those of all the arrays of a pass. A bandwidth counts each array once, read or written; so a plain store, for which
the CPU reads the line that it overwrites, can reach two thirds of what one past the caches reaches.
The last column is ours over the best stream of that size; best of the turns for all.
"""

import argparse
import ctypes
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from harness import native  # noqa: E402

import dlvm_py as dlvm  # noqa: E402

STREAMS = {"sum": 1, "scale": 2, "triad": 3, "scale_past_caches": 2, "triad_past_caches": 3}  # arrays of a pass


def scale(a, out):
    """A scaled copy."""
    out[:] = 3.0 * a


def triad(a, b, out):
    """Two arrays read, one written."""
    out[:] = a + 3.0 * b


def fresh(a, b):
    """The same, into new memory."""
    return a + 3.0 * b


def total(a):
    """One array read."""
    return np.sum(a)


def stencil(a, out):
    """Five points."""
    out[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])


def stencil_3d(a, out):
    """Seven points."""
    out[1:-1, 1:-1, 1:-1] = 0.1 * (
        a[2:, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1] + a[1:-1, 2:, 1:-1] + a[1:-1, :-2, 1:-1]
        + a[1:-1, 1:-1, 2:] + a[1:-1, 1:-1, :-2] + 4.0 * a[1:-1, 1:-1, 1:-1]
    )  # fmt: skip


def steps(a, b):
    """Two time steps between two arrays: each is read once and written once."""
    for _ in range(2):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[2:, 1:-1] + b[:-2, 1:-1] + b[1:-1, 2:] + b[1:-1, :-2])


# function → (rank of its arrays, how many it has, how many arrays a call reads and writes)
OURS = {
    total: (1, 1, 1),
    scale: (1, 2, 2),
    triad: (1, 3, 3),
    fresh: (1, 2, 3),
    stencil: (2, 2, 2),
    stencil_3d: (3, 2, 2),
    steps: (2, 2, 8),
}


def aligned(shape):
    """An array of ones that begins at a whole line, on pages that are there."""
    size = int(np.prod(shape))
    raw = np.empty(size + 16)
    skipped = -raw.ctypes.data % 128 // 8
    array = raw[skipped : skipped + size].reshape(shape)
    array[...] = 1.0
    return array


def streams(megabytes, threads, pool):
    """The C functions of a size: by name, what a call does and the bytes that it moves."""
    library = compiled()
    found = {}
    for name, count in STREAMS.items():
        if not hasattr(library, name):
            continue
        function = getattr(library, name)
        each = int(megabytes * 1e6 / 8 / count / threads) // 64 * 64
        arrays = [aligned(each * threads) for _ in range(count)]
        parts = [
            [ctypes.c_void_p(a.ctypes.data + 8 * each * t) for a in arrays] + [ctypes.c_int64(each)]
            for t in range(threads)
        ]

        def call(function=function, parts=parts, arrays=arrays):
            list(pool.map(lambda p: function(*p), parts)) if len(parts) > 1 else function(*parts[0])

        found[f"C: {name}"] = (call, count * each * threads * 8)
    return found


def compiled():
    """benchmarks/c/stream.c as a library."""
    with tempfile.TemporaryDirectory() as folder:
        return native.library("stream", folder)


def ours(megabytes):
    """Our functions of a size, as `streams` gives them."""
    found = {}
    for function, (rank, count, passes) in OURS.items():
        side = max(4, round((megabytes * 1e6 / 8 / (count + (function is fresh))) ** (1 / rank)))
        arrays = [aligned((side,) * rank) for _ in range(count)]
        jitted = dlvm.jit(function)
        found[function.__name__] = (lambda f=jitted, a=arrays: f(*a), passes * arrays[0].nbytes)
    return found


def measured(calls, seconds):
    """The best bandwidth of each, in GB/s, all in turns."""
    best = {name: float("inf") for name in calls}
    for call, _ in calls.values():
        call()
    until = time.perf_counter() + seconds * len(calls)
    while True:
        for name, (call, moved) in calls.items():
            repeats = max(1, int(2e7 / moved))
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / repeats)
        if time.perf_counter() > until:
            return {name: moved / best[name] / 1e9 for name, (_, moved) in calls.items()}


def main():
    """Measures all sizes and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", default="2,16,256,1000", help="sizes of all arrays of a pass")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=1.0, help="for each function and size")
    options = parser.parse_args()
    dlvm.set_num_threads(options.threads)
    rows = {}
    sizes = [float(m) for m in options.megabytes.split(",")]
    with ThreadPoolExecutor(options.threads) as pool:
        for megabytes in sizes:
            calls = streams(megabytes, options.threads, pool) | ours(megabytes)
            found = measured(calls, options.seconds)
            top = max(v for name, v in found.items() if name.startswith("C: "))
            for name, value in found.items():
                rows.setdefault(name, []).append((value, value / top))
    print(f"| GB/s, {options.threads} threads |" + "".join(f" {m:g} MB | |" for m in sizes))
    print("|---|" + "---|---|" * len(sizes))
    for name, cells in rows.items():
        print(f"| {name} |" + "".join(f" {value:.1f} | {share:.0%} |" for value, share in cells))


if __name__ == "__main__":
    main()
