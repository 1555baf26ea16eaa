"""The tool of GradBench's protocol: evaluates programs and their dlvm-py derivatives for an eval.

    python benchmarks/gradbench/tool.py        reads messages from standard input, a JSON object a line

Preparing an input and writing a result are not
timed; neither is compilation: the first call, at which it happens, is not among the runs.
"""

import importlib
import sys
import time
from pathlib import Path

from protocol import serve

EVALS = ("hello", "gmm", "ba", "ht", "lstm", "kmeans", "llsq", "lse", "ode", "det", "particle", "saddle")


def define(module):
    """Whether there is a program for this eval."""
    if module not in EVALS:
        return {"success": False, "error": f"no such module: {module}"}
    start = time.perf_counter_ns()
    importlib.import_module(f"evals.{module}")
    return {"success": True, "timings": [{"name": "import", "nanoseconds": time.perf_counter_ns() - start}]}


def evaluate(module, name, given):
    """The output of a function of an eval, and the time of every run."""
    entry = importlib.import_module(f"evals.{module}").FUNCTIONS[name]
    args = entry.prepare(given)
    runs, seconds = (given["min_runs"], given["min_seconds"]) if isinstance(given, dict) else (1, 0)
    start = time.perf_counter_ns()
    result = entry.compute(*args)
    first = time.perf_counter_ns() - start
    timings, total = [], 0
    while len(timings) < runs or total < seconds * 1e9:
        start = time.perf_counter_ns()
        result = entry.compute(*args)
        timings.append(time.perf_counter_ns() - start)
        total += timings[-1]
    named = [{"name": "first", "nanoseconds": first}] + [{"name": "evaluate", "nanoseconds": t} for t in timings]
    return {"success": True, "output": entry.output(result), "timings": named}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    serve("dlvm-py", define, evaluate)
