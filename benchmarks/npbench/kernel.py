"""Measures one kernel of a clone of NPBench, in a process of its own; run.py starts it, once a kernel.

    python benchmarks/npbench/kernel.py CLONE KERNEL PRESET OUT.json [--repeats N] [--seconds S]

The function is the clone's `*_numpy.py`, unmodified, under `dlvm.jit`; data and validation are the clone's own code.
OUT.json gets what is known so far after each step, so that something remains of a process that is stopped.
"""

import argparse
import contextlib
import importlib
import json
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
from suite import fresh, infrastructure, load, returned

import dlvm_py as dlvm
from dlvm_py import dispatch
from dlvm_py.runtime.native import standing

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.idle import until_idle


class Record(dict):
    """The facts of one kernel, written to their file at every change."""

    def __init__(self, path, **facts):
        super().__init__(facts)
        self.path = path

    def note(self, **facts):
        """Add facts and write them all."""
        self.update(facts)
        with open(self.path, "w") as file:
            json.dump(self, file)


def timed_call(function, info, data):
    """(seconds, outputs) of one call on fresh copies of the arrays: what it returns, then what it writes."""
    args = fresh(info, data)
    start = time.perf_counter()
    result = function(*args)
    seconds = time.perf_counter() - start
    after = {**data, **dict(zip(info["input_args"], args, strict=True))}
    return seconds, returned(result) + [after[name] for name in info["output_args"]]


def timings(function, info, data, first, repeats, budget):
    """Seconds of up to `repeats` calls, fewer where they would take more than `budget` seconds together."""
    count = max(1, min(repeats, int(budget / max(first, 1e-9))))
    return [timed_call(function, info, data)[0] for _ in range(count)]


def validate(clone, info, expected, found):
    """Whether the clone's rule finds the outputs equal, with the kernel's own tolerances."""
    if len(expected) != len(found):
        return False
    tolerances = {name: info[name] for name in ("rtol", "atol", "norm_error") if name in info}
    return bool(infrastructure(clone, "utilities").validate(expected, found, framework="dlvm_py", **tolerances))


@contextlib.contextmanager
def noting_compilation(record):
    """While this is open the record gets what making versions takes: wall and CPU seconds.

    Without what is compiled once a machine and then comes from the disk cache (runtime/native/standing.py), which is
    `shared_s`: no kernel's own. Nor is the import of the compiler compile time.
    """
    for compiler in ("dlvm_py.driver", "dlvm_py.derivative"):
        importlib.import_module(compiler)
    make, shared = dispatch.Dispatcher._make, (standing._part, standing.provide)
    spent = dict.fromkeys(("compile_s", "compile_cpu_s", "shared_s", "shared_cpu_s"), 0.0)

    def timed(function, what):
        def call(*args):
            wall, cpu = time.perf_counter(), time.process_time()
            shared = spent["shared_s"], spent["shared_cpu_s"]
            try:
                return function(*args)
            finally:
                spent[f"{what}_s"] += time.perf_counter() - wall - (spent["shared_s"] - shared[0])
                spent[f"{what}_cpu_s"] += time.process_time() - cpu - (spent["shared_cpu_s"] - shared[1])

        return call

    dispatch.Dispatcher._make = timed(make, "compile")
    standing._part, standing.provide = (timed(part, "shared") for part in shared)
    try:
        yield
    finally:
        dispatch.Dispatcher._make = make
        standing._part, standing.provide = shared
        record.note(**{name: seconds or None for name, seconds in spent.items()})


def measure(options, record):
    """Compile, run, validate and time the kernel; what happens goes to the record."""
    info, function, data = load(options.clone, options.kernel, options.preset)
    try:
        with noting_compilation(record):
            compiled = dlvm.jit(function, cache=False)
            _, found = timed_call(compiled, info, data)
    except dlvm.CompileError as error:
        record.note(status="does not compile", reason=str(error))
        return
    except Exception as error:
        record.note(status="raises", reason=f"{type(error).__name__}: {error}")
        return
    record.note(status="stopped: NumPy is being measured")
    numpy_first, expected = timed_call(function, info, data)
    if not validate(options.clone, info, expected, found):
        record.note(status="does not validate", reason="the outputs differ from NumPy's")
        return
    record.note(status="validated")
    until_idle()
    first, found = timed_call(compiled, info, data)
    ours = timings(compiled, info, data, first, options.repeats, options.seconds)
    theirs = [numpy_first, *timings(function, info, data, numpy_first, options.repeats, options.seconds)]
    versions = compiled.stats()["compiled"]
    record.note(dlvm_s=median(ours), numpy_s=median(theirs), repeats=len(ours), versions=versions)


def main(description, measure, status):
    """Calls `measure` for the kernel that the command line names, with a record that begins with `status`."""
    np.seterr(all="ignore")  # what NumPy warns of on the suite's data is not news
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("clone")
    parser.add_argument("kernel")
    parser.add_argument("preset")
    parser.add_argument("out")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    record = Record(options.out, kernel=options.kernel, status=status)
    record.note()
    measure(options, record)


if __name__ == "__main__":
    main(__doc__.splitlines()[0], measure, "stopped: the first call")
