"""What is measured: a kernel with its arguments, as every peer's process gets it.

Data structures:

    Case        names a problem: its suite ("own", "npbench", or "dace": NPBench's kernels as DaCe's tests
                differentiate them), kernel and size; it travels between processes as JSON.
    Problem     a case, loaded: the arguments by name, the ports of the kernel by their names, what to differentiate.

This module and the kernels import NumPy alone, so that a peer may live in an environment without the others.
"""

import importlib
import importlib.util
import json
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCHMARKS))
sys.path.insert(0, str(BENCHMARKS / "npbench"))

import dace_ports  # noqa: E402
import suite  # noqa: E402
from suite import returned  # noqa: E402, F401 - for the adapters


@dataclass(frozen=True)
class Case:
    """One kernel at one size; `clone` is where the suite lies if it is not our own."""

    suite: str
    kernel: str
    size: str
    keywords: str = ""  # JSON of the keyword arguments of `arguments`, where `size` does not name them
    clone: str = ""
    written: tuple = ()  # see `written`; of the clone's kernels
    dace: str = ""  # where a clone of DaCe lies, whose tests say what is differentiated

    def text(self):
        """As an argument of a command line."""
        return json.dumps(asdict(self))


@dataclass
class Problem:
    """A case, loaded."""

    kernel: str
    arguments: dict
    port: Callable  # name of a port → its function, None if there is none
    written: tuple  # the arguments that the kernel writes and that count as outputs
    wrt: tuple
    pythran: str | None = None
    small: Callable | None = None  # arguments of a small size, of which plain Python soon knows what is returned
    of: tuple | None = None  # what is differentiated: arguments that are written, places of results; None: all floats
    test: dace_ports.Test | None = None  # the test of DaCe's that says so

    def sample(self):
        """Arguments with which results are as many, and of the same dtypes, and soon there."""
        return self.fresh() if self.small is None else self.small()

    def fresh(self):
        """The arguments, arrays copied."""
        return {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in self.arguments.items()}


def own_kernels():
    """Names of the kernels that stand beside this harness."""
    return sorted(m.name for m in pkgutil.iter_modules([str(BENCHMARKS / "kernels")]))


def own_module(name):
    """The module of a kernel of our own."""
    return importlib.import_module(f"kernels.{name}")


def load(case):
    """The Problem that a Case names."""
    return _own(case) if case.suite == "own" else _npbench(case)


def _own(case):
    module = own_module(case.kernel)
    keywords = json.loads(case.keywords) if case.keywords else module.SIZES[case.size]

    def port(name):
        return module.kernel if name == "numpy" else getattr(module, name, None)

    def small():
        return module.arguments(**module.SIZES["S"])

    pythran = getattr(module, "PYTHRAN", None)
    return Problem(case.kernel, module.arguments(**keywords), port, (), module.WRT, pythran, small)


def _npbench(case):
    info, function, data = suite.load(case.clone, case.kernel, case.size)
    place = info["relative_path"].replace("/", ".")

    def port(name):
        if name == "numpy":
            return function
        if name == "jax ours":
            return getattr(importlib.import_module("jax_ports"), case.kernel, None)
        path = f"npbench.benchmarks.{place}.{info['module_name']}_{name}"
        return getattr(importlib.import_module(path), info["func_name"], None) if _exists(path) else None

    wrt = tuple(n for n in info["input_args"] if _is_float(data[n]))
    problem = Problem(case.kernel, {n: data[n] for n in info["input_args"]}, port, tuple(case.written), wrt)
    if case.suite == "dace":
        problem.test = dace_ports.read(case.dace, case.kernel)
        problem.wrt = problem.test.wrt
        # what the kernel writes and returns counts as returned
        problem.of = tuple(n if isinstance(n, int) or n in case.written else 0 for n in problem.test.of)
    return problem


def norm_error(case):
    """What the suite lets the norm of an output be off by, relative to it: of kernels that are chaotic. Else 0.

    (NumPy's own `nbody` at M is off by 0.08 when one input is moved by its last digit.)
    """
    if not case.clone:
        return 0.0
    text = Path(case.clone, "bench_info", f"{case.kernel}.json").read_text()
    return float(json.loads(text)["benchmark"].get("norm_error", 0.0))


def written(clone, kernel, size):
    """The outputs among the arguments of a kernel of NPBench: those that its description names and a call writes.

    If there are none (it may name others than the kernel writes), all that a call writes. What it returns as well
    counts as returned.
    """
    info, function, data = suite.load(clone, kernel, size)
    results, found = suite.changed(function, info, data)
    found = {n: a for n, a in found.items() if not any(a is r for r in results)}
    return tuple(n for n in info["output_args"] if n in found) or tuple(found)


def gradient_sizes(problem):
    """How large each gradient would be if relative changes were as large as outputs: what rounding is compared with.

    (): no output is a float. 0: the input is zero, which says nothing of it.
    """
    arguments = problem.fresh()
    with np.errstate(all="ignore"):
        outputs = returned(problem.port("numpy")(*arguments.values())) + [arguments[n] for n in problem.written]
    largest = [np.max(np.abs(v), initial=0.0) for v in outputs if _is_float(v)]
    inputs = [float(np.max(np.abs(problem.arguments[n]), initial=0.0)) for n in problem.wrt]
    return [float(max(largest)) / size if size else 0.0 for size in inputs] if largest else []


def _is_float(value):
    return np.asarray(value).dtype.kind == "f"


def _exists(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
