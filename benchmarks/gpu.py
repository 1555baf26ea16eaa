"""The GPU on hardware: every program of the tests against the CPU's results, then a table of speeds (`make gpu-check`).

    python benchmarks/gpu.py [--quick] [--write docs/gpu.md]

Exit status: 0, all results agree; 1, some do not (they are named, and nothing is timed); 2, there is no device.
Arrays are on the device before and after what is timed, and the best of several runs counts. Bandwidth is what the
program must read and write at least, as a share of a copy of the same size measured in the same run. Beside it CuPy,
where it is installed, running the same NumPy code. DLVM_GPU=emulator goes through the same motions on the CPU, with
--quick, for the tests of this file: its times mean nothing, and it does not write.
"""

import argparse
import datetime
import importlib.util
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from gpu_programs import PROGRAMS, attention, bodies, chain, mlp, softmax

import dlvm_py as dlvm
from dlvm_py.runtime.gpu.arrays import DeviceArray, to_device
from dlvm_py.runtime.gpu.device import EMULATOR, device

BEGIN, END = "<!-- make gpu-check -->", "<!-- end -->"
RUNS = 7


def stencil(u, steps):
    """Steps of diffusion in place."""
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])


def total(x):
    """The sum of all elements."""
    return np.sum(x)


def copied(x):
    """A copy."""
    return x.copy()


def nothing(x):
    """One element is written: what remains is the launch."""
    x[:1] = 1.0


def leaves(value):
    """The numbers of a result, on the host."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value.numpy() if isinstance(value, DeviceArray) else value.get() if hasattr(value, "get") else value]


def alike(got, expected):
    """Whether results agree up to the order of sums."""
    pairs = list(zip(leaves(got), leaves(expected), strict=True))
    tolerance = {2: 2e-3, 4: 2e-5}
    return all(
        a is b is None
        or np.allclose(a, b, *[tolerance.get(np.asarray(b).real.dtype.itemsize, 1e-11)] * 2, equal_nan=True)
        for a, b in pairs
    )


def disagreements():
    """The programs, and gradients, whose results or effects on the device are not the CPU's."""
    found = []
    for name, (function, make, wrt) in PROGRAMS.items():
        given, expected = make(), make()
        result = dlvm.jit(function, target="gpu")(*given), given
        if not alike(result, (dlvm.jit(function)(*expected), expected)):
            found.append(name)
        if wrt:
            gradient = dlvm.grad(dlvm.jit(function, target="gpu"), wrt=wrt)(*make())
            if not alike(gradient, dlvm.grad(function, wrt=wrt)(*make())):
                found.append(f"gradient of {name}")
        print(".", end="", flush=True)
    print()
    return found


def best(run):
    """Seconds of the best of some runs; what was launched is done."""
    on = device()
    times = []
    for _ in range(RUNS):
        stream = on.enter()
        on.wait(stream)
        start = time.perf_counter()
        run()
        on.wait(stream)
        times.append(time.perf_counter() - start)
    return min(times)


def rows(quick):
    """(program, function, arguments on the host, bytes that it must read and write or 0)."""
    rng = np.random.default_rng(0)

    def of(*shape):
        return rng.standard_normal(shape)

    n, m, side = (1 << 10, 1 << 5, 32) if quick else (1 << 27, 1 << 13, 4096)
    small = 16 if quick else 4096
    layer = [of(side, m), of(m, m), of(m), of(m, 10), of(10), of(side, 10)]
    return [
        ("sum", total, [of(n)], 8 * n),
        ("chain of elementwise operations", chain, [of(n), of(n)], 24 * n),
        ("softmax of rows", softmax, [of(m, m)], 16 * m * m),
        ("stencil, 100 steps", stencil, [of(m, m), 100], 1600 * m * m),
        ("n bodies", bodies, [of(small, 3), np.abs(of(small))], 0),
        ("attention", attention, [of(side // 4, 64), of(side // 4, 64), of(side // 4, 64)], 0),
        ("gradient of a layer", dlvm.grad(mlp, wrt=("w1", "b1", "w2", "b2")), layer, 0),
    ]


def table(quick):
    """The lines of the table."""
    with_cupy = importlib.util.find_spec("cupy") is not None and device().name != EMULATOR
    lines = ["| program | compile, s | ms | share of a copy | CuPy, ms |", "|---|--:|--:|--:|--:|"]
    size = np.zeros(1 << (10 if quick else 27))
    there = to_device(size)
    copy = dlvm.jit(copied, target="gpu")
    copy(there)
    per_byte = best(lambda: copy(there)) / (2 * size.nbytes)
    launch = dlvm.jit(nothing, target="gpu")
    launch(there)
    for name, function, args, nbytes in rows(quick):
        given = [to_device(a) if isinstance(a, np.ndarray) else a for a in args]
        f = dlvm.jit(function, target="gpu") if not hasattr(function, "__dlvm__") else function
        start = time.perf_counter()
        f(*given)
        compiled = time.perf_counter() - start
        seconds = best(lambda f=f, given=given: f(*given))
        share = f"{100 * per_byte * nbytes / seconds:.0f} %" if nbytes else ""
        peer = ""
        if with_cupy and not hasattr(function, "__dlvm__"):
            import cupy

            arrays = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
            function(*arrays)
            peer = f"{1e3 * best(lambda function=function, arrays=arrays: function(*arrays)):.3f}"
        lines.append(f"| {name} | {compiled:.2f} | {1e3 * seconds:.3f} | {share} | {peer} |")
    each = 1e6 * best(lambda: launch(there))
    lines.append(f"\nA copy: {1e-9 / per_byte:.0f} GB/s. A call that launches one kernel: {each:.1f} µs.")
    return lines


def write(path, lines):
    """Put the table into a page, between its two marks."""
    text = path.read_text(encoding="utf-8")
    first, last = text.index(BEGIN) + len(BEGIN), text.index(END)
    path.write_text(text[:first] + "\n" + "\n".join(lines) + "\n" + text[last:], encoding="utf-8")


def main(arguments=None):
    """The whole check; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--write", type=Path, help="the page that gets the table")
    options = parser.parse_args(arguments)
    os.environ["DLVM_CACHE"] = "0"  # what is compiled is timed
    try:
        on = device()
    except dlvm.DeviceError as error:
        print(f"make gpu-check needs a machine with an NVIDIA GPU. {error}", file=sys.stderr)
        return 2
    print(f"on {on.description}: {len(PROGRAMS)} programs and their gradients, against the CPU")
    wrong = disagreements()
    if wrong:
        print("not what the CPU gives: " + ", ".join(wrong), file=sys.stderr)
        return 1
    lines = [f"On {on.description}, {datetime.date.today()}:\n", *table(options.quick)]
    print("\n".join(lines))
    if options.write and on.name != EMULATOR:
        write(options.write, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
