"""Where a first call goes: seconds of each stage of the compiler, for the gradients of the examples.

    python benchmarks/compile_time.py [--repeat N] [--profile] [CASE...]

Each case is compiled N times in this process without the disk cache; the best time of every stage is shown, in
milliseconds, so the first run's imports do not count. `--profile` shows Python's own profile of one more run.
"""

import argparse
import cProfile
import dataclasses
import functools
import pstats
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import digits  # noqa: E402
import heat  # noqa: E402

import dlvm_py as dlvm  # noqa: E402
from dlvm_py import derivative, dispatch, driver  # noqa: E402
from dlvm_py.backend.cpu import compile as native_compile  # noqa: E402
from dlvm_py.transforms import pass_manager  # noqa: E402

STAGES = (  # (where the driver finds the function, its name, the row of the table)
    (driver, "translate", "front end"),
    (derivative, "adjoint", "adjoint"),
    (driver, "emit", "emit"),
    (driver, "entry_text", "entry text"),
    (native_compile, "_parse", "LLVM parse"),
    (native_compile, "_verify", "LLVM verify"),
    (native_compile, "_optimise", "LLVM optimise"),
    (native_compile, "_emit_object", "LLVM codegen"),
    (dispatch.Version, "load", "load"),
)


class Clock:
    """Adds up the seconds of functions that it wraps."""

    def __init__(self):
        self.seconds = defaultdict(float)

    def wrap(self, function, row):
        """`function`, timed under `row`."""

        def timed(*args, **kwargs):
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[row] += time.perf_counter() - start

        return timed


def cases():
    """Name → (function, arguments)."""
    loss = digits.network_loss
    x, onehot = np.zeros((digits.BATCH, 64)), np.eye(10)[np.zeros(digits.BATCH, int)]
    parameters = digits.initial_parameters(64, digits.HIDDEN, 10)
    rod = np.zeros(heat.POINTS)
    step = heat.POWER, heat.TOLERANCE, heat.MAX_STEPS
    return {
        "digits": (lambda: dlvm.value_and_grad(loss, wrt=("w1", "b1", "w2", "b2")), (x, onehot, *parameters)),
        "heat": (lambda: dlvm.value_and_grad(heat.misfit, wrt="theta"), (rod[1:], rod, rod.copy(), *step)),
        "settle": (lambda: dlvm.jit(heat.settle), (rod.copy(), rod[1:].copy(), *step)),
    }


def compile_once(make, args):
    """Seconds by stage of one compilation."""
    function = make()
    dispatcher = dispatch.dispatcher_of(function)
    request = dispatcher.request(dispatcher.bind(*args))
    start = time.perf_counter()
    done = driver.compile_request(request)
    dispatcher._load(request, done.facts, done.image)
    return time.perf_counter() - start, done


def timed_pass(clock, find, name):
    """The row of a pass, with its `run` timed."""
    row = find(name)
    return dataclasses.replace(row, run=clock.wrap(row.run, f"  {name}"))


def measure(make, args, repeat):
    """Best milliseconds of each stage, in the order of the pipeline, and facts about the last result."""
    best = {}
    make()  # the callable type itself is compiled for the first one
    for _ in range(repeat):
        clock = Clock()
        saved = [(place, name, getattr(place, name)) for place, name, _ in STAGES]
        find = pass_manager.find_pass
        for place, name, row in STAGES:
            setattr(place, name, clock.wrap(getattr(place, name), row))
        pass_manager.find_pass = functools.partial(timed_pass, clock, find)
        try:
            total, done = compile_once(make, args)
        finally:
            pass_manager.find_pass = find
            for place, name, original in saved:
                setattr(place, name, original)
        clock.seconds["rest"] = total - sum(clock.seconds.values())
        clock.seconds["total"] = total
        for row, s in clock.seconds.items():
            best[row] = min(best.get(row, 1e9), s * 1e3)
    return best, done


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()
    chosen = {name: case for name, case in cases().items() if not options.case or name in options.case}
    tables = {name: measure(*case, options.repeat) for name, case in chosen.items()}
    rows = list(dict.fromkeys(row for table, _ in tables.values() for row in table))
    rows.sort(key=lambda row: row in ("rest", "total"))
    print(f"{'ms':<18}" + "".join(f"{name:>10}" for name in tables))
    for row in rows:
        print(f"{row:<18}" + "".join(f"{table.get(row, 0):10.1f}" for table, _ in tables.values()))
    print(f"{'object, KiB':<18}" + "".join(f"{len(done.image) / 1024:10.1f}" for _, done in tables.values()))
    if options.profile:
        for case in chosen.values():
            profile = cProfile.Profile()
            profile.runcall(compile_once, *case)
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
