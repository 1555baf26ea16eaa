"""The tool of GradBench's protocol: evaluates programs and their dlvm-py derivatives for an eval.

    python benchmarks/gradbench/tool.py        reads messages from standard input, a JSON object a line

Protocol: https://github.com/gradbench/gradbench, CONTRIBUTING.md. Preparing an input and writing a result are not
timed; neither is compilation: the first call, at which it happens, is not among the runs.
"""

import importlib
import json
import sys
import time
import traceback
from pathlib import Path

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


def answer(message):
    """The response to a message."""
    try:
        match message["kind"]:
            case "start":
                return {"tool": "dlvm-py"}
            case "define":
                return define(message["module"])
            case "evaluate":
                return evaluate(message["module"], message["function"], message["input"])
    except Exception:
        return {"success": False, "error": traceback.format_exc()}
    return {}


def main():
    """Answers every message until there are no more."""
    for line in sys.stdin:
        message = json.loads(line)
        print(json.dumps({"id": message["id"], **answer(message)}), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main()
