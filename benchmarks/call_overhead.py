"""What a call costs: a compiled function of two small arrays, and one of two floats, beside Numba's.

All contenders run in one process, in short turns, repeat after repeat, so that whatever else the machine
does hits them alike. What is printed is the median time of a call and its ratio to Numba's; compiling is
not timed. Numba is optional: without it only our own times and NumPy's are shown.

    python benchmarks/call_overhead.py [--repeats N] [--calls N] [--json]
"""

import argparse
import json
import platform
import sys
import timeit
from statistics import median, quantiles

import llvmlite
import numpy as np

import dlvm_py as dlvm

try:
    import numba
except ImportError:
    numba = None


def add_arrays(a, b):
    """Sum of two arrays."""
    return a + b


def scale_scalar(x, y):
    """A few operations on two floats."""
    return x * y + 1.0


CASES = {
    "two arrays of 4 f64": (add_arrays, (np.arange(4.0), np.ones(4))),
    "two floats": (scale_scalar, (1.5, 2.0)),
}


def contenders(function):
    """The ways to call `function`, by name, in the order of the table."""
    ways = {"dlvm_py": dlvm.jit(function)}
    if numba is not None:
        ways["numba"] = numba.njit(function)
    ways["Python"] = function
    return ways


def measure(function, arguments, repeats, calls):
    """Nanoseconds of one call, as a list of `repeats` figures for each contender."""
    names = [f"a{k}" for k in range(len(arguments))]
    scope = dict(zip(names, arguments, strict=True))
    timers = {}
    for name, way in contenders(function).items():
        # The first calls compile; the answer must be the same before its time is of interest.
        for _ in range(3):
            np.testing.assert_array_equal(way(*arguments), function(*arguments))
        timers[name] = timeit.Timer(f"f({', '.join(names)})", globals=scope | {"f": way})
    times_ns = {name: [] for name in timers}
    order = list(timers)
    for repeat in range(repeats + 1):
        order = order[1:] + order[:1]  # nobody always runs first
        for name in order:
            time_ns = timers[name].timeit(calls) / calls * 1e9
            if repeat:  # repeat 0 warms the caches up
                times_ns[name].append(time_ns)
    return times_ns


def summarise(times_ns):
    """Median, spread (distance of the quartiles) and ratio to Numba, for each contender of one case."""
    rows = {}
    for name, times in times_ns.items():
        low, middle, high = quantiles(times, n=4)
        rows[name] = {"median_ns": middle, "spread_ns": high - low}
    if "numba" in times_ns:
        for name, times in times_ns.items():
            # Turn by turn, so that a slow stretch of the machine cancels.
            pairs = zip(times, times_ns["numba"], strict=True)
            rows[name]["ratio_to_numba"] = median(ours / theirs for ours, theirs in pairs)
    return rows


def environment():
    """The versions that the figures belong to."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": llvmlite.__version__,
        "numba": numba.__version__ if numba else None,
        "dlvm_py": dlvm.__version__,
    }


def print_table(results):
    """The figures for a reader."""
    print(f"{'':22}{'':10}{'median':>10}{'spread':>10}{'to Numba':>10}")
    for case, rows in results.items():
        for name, row in rows.items():
            ratio = f"{row['ratio_to_numba']:.2f} x" if "ratio_to_numba" in row else "-"
            print(f"{case:22}{name:10}{row['median_ns']:>7.1f} ns{row['spread_ns']:>7.1f} ns{ratio:>10}")
            case = ""


def main(arguments=None):
    """Measures every case and prints a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=40, help="turns of each contender (default 40)")
    parser.add_argument("--calls", type=int, default=20_000, help="calls in a turn (default 20000)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if options.repeats < 2 or options.calls < 1:
        parser.error("at least 2 repeats and 1 call are needed")
    if numba is None:
        print("Numba is not installed: no peer to compare with. `make bench` installs it.", file=sys.stderr)

    results = {
        case: summarise(measure(function, values, options.repeats, options.calls))
        for case, (function, values) in CASES.items()
    }
    if options.json:
        setting = {"repeats": options.repeats, "calls": options.calls}
        print(json.dumps({"environment": environment(), "setting": setting, "cases": results}, indent=2))
    else:
        print_table(results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
