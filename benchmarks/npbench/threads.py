"""One thread against several, in turns in one process, on kernels of a clone of NPBench and on elementwise chains.

    python benchmarks/npbench/threads.py CLONE [--preset S] [--kernels jacobi_2d,softmax] [--chains] [--busy]

Ratios are the time with all threads over that with one: below 1 threads gain. They are of the medians, and of the sums
of all calls, which have what the threads lose before they notice. --busy: a process spins meanwhile on another
processor. The outputs of both must have the same bits.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
from suite import fresh, kernels_of, load, returned

import dlvm_py as dlvm

TURN = 0.02  # seconds of calls that follow each other, as a program's do: workers stay awake


def chain(a, b):
    """Arithmetic: bound by memory."""
    return (a * b + a) * (a - b) + 2.0 * b


def transcendental(a, b):
    """An elementary function: bound by arithmetic."""
    return np.exp(-a) * b


def total(a, b):
    """A sum over a chain."""
    return np.sum(a * b)


def bits(results):
    """The bytes of arrays and scalars."""
    return [np.asarray(r).tobytes() for r in results]


def compared(function, arguments, seconds, most):
    """(median ratio, ratio of sums, seconds with one thread) of calls on fresh arguments."""
    times, expected = {1: [], most: []}, None
    function(*arguments())
    start, turn = time.perf_counter(), 0
    while time.perf_counter() - start < seconds or turn < 3:
        for count in ((1, most), (most, 1))[turn % 2]:
            dlvm.set_num_threads(count)
            until = time.perf_counter() + TURN
            while True:
                args = arguments()
                begin = time.perf_counter()
                result = function(*args)
                times[count].append(time.perf_counter() - begin)
                if time.perf_counter() > until:
                    break
            if turn < 2:
                found = bits([*returned(result), *(a for a in args if isinstance(a, np.ndarray))])
                assert expected in (None, found), "other bits with other threads"
                expected = found
        turn += 1
        time.sleep(
            (times[1][-1] + times[most][-1]) / 10
        )  # so that the others' turns come between the calls, not in them
    one, many = times[1], times[most]
    return median(many) / median(one), sum(many) / sum(one), median(one)


def main():
    """Print a line a kernel."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--preset", default="S")
    parser.add_argument("--kernels", default="")
    parser.add_argument("--chains", action="store_true", help="elementwise chains of 1e4 to 1e7 elements instead")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    most = dlvm.get_num_threads()
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if options.busy else None
    try:
        if options.chains:
            rng = np.random.default_rng(0)
            for f in map(dlvm.jit, (chain, transcendental, total)):
                for n in (10_000, 100_000, 1_000_000, 10_000_000):
                    args = rng.random(n), rng.random(n)
                    report(f"{f.__name__} {n}", compared(f, lambda args=args: args, options.seconds, most))
            return
        for name in kernels_of(options.clone, [k for k in options.kernels.split(",") if k]):
            info, function, data = load(str(options.clone), name, options.preset)
            compiled = dlvm.jit(function)
            report(name, compared(compiled, lambda i=info, d=data: fresh(i, d), options.seconds, most))
    finally:
        if spinner:
            spinner.kill()


def report(name, found):
    """One line."""
    print(
        f"{name:24} medians {found[0]:6.3f}   sums {found[1]:6.3f}   one thread {found[2] * 1e3:10.3f} ms", flush=True
    )


if __name__ == "__main__":
    main()
