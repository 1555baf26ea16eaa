"""Where a first call goes: CPU time of each stage of the compiler.

    python benchmarks/compile_time.py [--repeat N] [--profile] [CASE...]             gradients of the examples
    python benchmarks/compile_time.py --npbench CLONE [--gradient] [CASE...]         kernels of a clone of NPBench
    python benchmarks/compile_time.py --lengths 25,50,100,200,400                    gradients of n array statements

Each case is compiled N times without the disk cache, in a process of its own; the least CPU time of every stage is
shown, in milliseconds, so neither the first run's imports count nor what else the machine does. `--profile` shows
Python's own profile of one more run, `--json FILE` writes the figures.
"""

import argparse
import contextlib
import cProfile
import functools
import json
import multiprocessing
import pstats
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import mean, median

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "examples"), str(HERE / "npbench")]
import digits  # noqa: E402
import gradient as npbench_gradient  # noqa: E402
import heat  # noqa: E402
import kernel as npbench_kernel  # noqa: E402
from kernels import recurrence  # noqa: E402

import dlvm_py as dlvm  # noqa: E402
from dlvm_py import derivative, dispatch, driver  # noqa: E402
from dlvm_py.backend.cpu import compile as native_compile  # noqa: E402
from dlvm_py.transforms import pass_manager  # noqa: E402

STAGES = (  # (where the driver finds the function, its name, the row of the table)
    (driver, "translate", "front end"),
    (derivative, "adjoint", "adjoint"),
    (driver, "emit", "emit"),
    (driver, "compiled_entry", "entry"),
    (native_compile, "parse", "LLVM parse"),
    (native_compile, "link", "LLVM link"),
    (native_compile, "_verify", "LLVM verify"),
    (native_compile, "optimise", "LLVM optimise"),
    (native_compile, "_emit_object", "LLVM codegen"),
    (dispatch.Version, "load", "load"),
)


class Clock:
    """Adds up the CPU seconds of functions that it wraps, each without those that it calls."""

    def __init__(self):
        self.seconds = defaultdict(float)
        self.inner = [0.0]

    def wrap(self, function, row):
        """`function`, timed under `row`."""

        def timed(*args, **kwargs):
            start = time.process_time()
            self.inner.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                took = time.process_time() - start
                self.seconds[row] += took - self.inner.pop()
                self.inner[-1] += took

        return timed


def examples():
    """Name → (callable, arguments), made when asked for."""
    loss = digits.network_loss
    x, onehot = np.zeros((digits.BATCH, 64)), np.eye(10)[np.zeros(digits.BATCH, int)]
    parameters = digits.initial_parameters(64, digits.HIDDEN, 10)
    rod = np.zeros(heat.POINTS)
    step = heat.POWER, heat.TOLERANCE, heat.MAX_STEPS
    return {
        "digits": lambda: (dlvm.value_and_grad(loss, wrt=("w1", "b1", "w2", "b2")), (x, onehot, *parameters)),
        "heat": lambda: (dlvm.value_and_grad(heat.misfit, wrt="theta"), (rod[1:], rod, rod.copy(), *step)),
        "recurrence": lambda: (dlvm.grad(recurrence.kernel, wrt=recurrence.WRT), (0.7, 1_000)),
        "settle": lambda: (dlvm.jit(heat.settle), (rod.copy(), rod[1:].copy(), *step)),
    }


def npbench(clone, gradient):
    """The same of NPBench's kernels, or of their gradients (those that have one), preset S."""

    def made(name):
        info, function, data = npbench_kernel.load(clone, name, "S")
        args = npbench_gradient.fresh(info, data)
        if not gradient:
            return dlvm.jit(function), args
        with np.errstate(all="ignore"):
            found, _ = npbench_gradient.outputs(function, info, data)
        wrt = tuple(n for n in info["input_args"] if npbench_gradient.is_float(data[n]))
        return (dlvm.grad(function, wrt=wrt, from_=tuple(found)), args) if found and wrt else None

    names = sorted(path.stem for path in Path(clone, "bench_info").glob("*.json"))
    return {name: functools.partial(made, name) for name in names}


def long_functions(lengths):
    """Gradients of functions of n array statements, of which no two are alike."""

    def made(n):
        text = "def f(x, y):\n" + "".join(
            f"    x = np.{('sin', 'tanh', 'exp')[k % 3]}(x * {0.5 + k / 1000}) + y[{k % 7}:x.size + {k % 7}]\n"
            for k in range(n)
        )
        path = Path(tempfile.mkdtemp(), f"long{n}.py")
        path.write_text(text + "    return np.sum(x)\n")
        space = {"np": np}
        exec(compile(path.read_text(), str(path), "exec"), space)
        return dlvm.grad(space["f"], wrt=(0, 1)), (np.zeros(10), np.zeros(30))

    return {str(n): functools.partial(made, n) for n in lengths}


def compile_once(function, args):
    """The CPU seconds of one compilation, and its result."""
    dispatcher = dispatch.dispatcher_of(function)
    request = dispatcher.request(dispatcher.bind(*args))
    start = time.process_time()
    done = driver.compile_request(request)
    dispatcher._load(request, done.facts, done.image)
    return time.process_time() - start, done


def timed_pass(clock, run, row, *args):
    """A pass, timed under its name."""
    return clock.wrap(run, f"  {row.name}")(row, *args)


@contextlib.contextmanager
def watched(clock):
    """While this is open the stages' times go to the clock."""
    saved = [(place, name, getattr(place, name)) for place, name, _ in STAGES]
    run_pass = pass_manager.run_pass
    for place, name, row in STAGES:
        setattr(place, name, clock.wrap(getattr(place, name), row))
    pass_manager.run_pass = functools.partial(timed_pass, clock, run_pass)
    try:
        yield
    finally:
        pass_manager.run_pass = run_pass
        for place, name, original in saved:
            setattr(place, name, original)


def measure(function, args, repeat, profile):
    """Least milliseconds of each stage, and the object's size in KiB."""
    best = {}
    for _ in range(repeat):
        clock = Clock()
        with watched(clock):
            total, done = compile_once(function, args)
        clock.seconds |= {"rest": total - sum(clock.seconds.values()), "total": total}
        for row, s in clock.seconds.items():
            best[row] = min(best.get(row, 1e9), s * 1e3)
    if profile:
        shown = cProfile.Profile()
        shown.runcall(compile_once, function, args)
        pstats.Stats(shown).sort_stats("tottime").print_stats(40)
    return best | {"object, KiB": len(done.image) / 1024}


def measured(make, options):
    """The figures of one case, from a process of its own; None if it has nothing to compile or takes too long."""
    here, there = multiprocessing.Pipe(duplex=False)

    def run():
        case = make()
        there.send(case and measure(*case, options.repeat, options.profile))

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(options.timeout) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def table(rows, columns):
    """Lines of figures: `columns` is name → row → number."""
    width = max(map(len, rows)) + 1
    yield f"{'ms':<{width}}" + "".join(f"{name:>10.9}" for name in columns)
    for row in rows:
        yield f"{row:<{width}}" + "".join(f"{column.get(row, 0):10.1f}" for column in columns.values())


def main():
    """Prints the table: a case a column, or of NPBench medians, means and the longest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--npbench", metavar="CLONE")
    parser.add_argument("--gradient", action="store_true")
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=200.0, help="seconds a case")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()
    cases = (
        npbench(options.npbench, options.gradient) if options.npbench
        else long_functions(options.lengths) if options.lengths
        else examples()
    )  # fmt: skip
    dlvm.jit(lambda: None)  # the type of callables is made for the first one
    found = {}
    for name, make in cases.items():
        if not options.case or name in options.case:
            if (figures := measured(make, options)) is not None:
                found[name] = figures
                if options.npbench:
                    print(f"{name:<26}{figures['total']:10.1f} ms", flush=True)
            elif options.npbench:
                print(f"{name:<26}{'-':>10}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    rows = list(dict.fromkeys(row for figures in found.values() for row in figures))
    rows.sort(key=lambda row: (row in ("rest", "total"), row == "object, KiB"))
    columns = found
    if len(found) > 8:
        of = {row: [figures.get(row, 0.0) for figures in found.values()] for row in rows}
        longest = max(found, key=lambda name: found[name]["total"])
        columns = {
            "median": {row: median(values) for row, values in of.items()},
            "mean": {row: mean(values) for row, values in of.items()},
            longest: found[longest],
        }
    print("\n".join(table(rows, columns)))


if __name__ == "__main__":
    main()
