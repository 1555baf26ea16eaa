"""A clone of NPBench, read: its kernels, their data, and how they are called. Imports nothing but NumPy.

So tools that are compared may live in environments without the others.
"""

import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np


def kernels_of(clone, chosen):
    """Names of the suite's kernels, all or the chosen ones."""
    names = sorted(path.stem for path in (clone / "bench_info").glob("*.json"))
    if not names:
        sys.exit(f"{clone} is not a clone of NPBench: it has no bench_info/*.json")
    unknown = sorted(set(chosen) - set(names))
    if unknown:
        sys.exit(f"no such kernel: {', '.join(unknown)}; there are {', '.join(names)}")
    return [name for name in names if not chosen or name in chosen]


def infrastructure(clone, module):
    """A module of the clone's infrastructure, without the package around it, which wants every framework's tools."""
    path = Path(clone, "npbench", "infrastructure", f"{module}.py")
    spec = importlib.util.spec_from_file_location(f"npbench_{module}", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def load(clone, name, preset):
    """(the kernel's description, its NumPy function, its data) from the clone."""
    sys.path.insert(0, clone)
    bench = infrastructure(clone, "benchmark").Benchmark(name)
    info = bench.info
    place = info["relative_path"].replace("/", ".")
    module = importlib.import_module(f"npbench.benchmarks.{place}.{info['module_name']}_numpy")
    return info, getattr(module, info["func_name"]), bench.get_data(preset)


def fresh(info, data):
    """The arguments, arrays copied."""
    return [np.copy(data[n]) if n in info["array_args"] else data[n] for n in info["input_args"]]


def returned(result):
    """What a function returned, as a list."""
    return [] if result is None else list(result) if isinstance(result, (tuple, list)) else [result]


def changed(function, info, data):
    """(what a call returns, the arrays that it writes by their names): what the suite says is not always so."""
    rng = np.random.default_rng(0)  # noise: what is written shows, also where the data happen to be a fixed point
    noisy = {n: v * (1 + 1e-5 * rng.random(v.shape)).astype(v.dtype) if np.ndim(v) and v.dtype.kind == "f" else v
             for n, v in data.items()}  # fmt: skip
    args = fresh(info, noisy)
    try:
        results = returned(function(*args))
    except np.linalg.LinAlgError:  # with noise a matrix that is barely definite is not
        noisy, args = data, fresh(info, data)
        results = returned(function(*args))
    after = dict(zip(info["input_args"], args, strict=True))
    return results, {n: after[n] for n in info["array_args"] if not np.array_equal(after[n], noisy[n], equal_nan=True)}
