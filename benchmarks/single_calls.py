"""Single calls of NumPy, each alone in a compiled function, beside NumPy itself.

    python benchmarks/single_calls.py                      all calls, 1,000 to 1,000,000 elements, one thread
    python benchmarks/single_calls.py --kinds joins,gathers --sizes 100000 --seconds 0.2
    python benchmarks/single_calls.py --only np.roll --only a.T --dtype float32
    python benchmarks/single_calls.py --write docs/performance.md      what is slower than NumPy, into the page

The calls are in single_call_rows.py. What a call gives, or writes, is compared with NumPy's first (type and shape too).
Both are then called in turns in one process, in batches of some 100 µs; the least time counts, of the thread's CPU
time (of the clock, with more threads than one). A ratio is NumPy's time over ours: above 1 we are faster.
"""

import argparse
import ast
import copy
import json
import linecache
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import machine, table  # noqa: E402
from harness.race import close, limits  # noqa: E402
from harness.turns import least_times  # noqa: E402
from single_call_rows import CALLS, WRITTEN, calls, operands  # noqa: E402

import dlvm_py as dlvm  # noqa: E402

SIZES = (1_000, 100_000, 1_000_000)


def options_of(arguments):
    """The command line, checked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", type=lambda t: t.split(","), default=list(CALLS), help=", ".join(CALLS))
    parser.add_argument("--only", action="append", default=[], help="a part of the call's text; may be given again")
    parser.add_argument("--sizes", type=lambda t: [int(n) for n in t.split(",")], default=list(SIZES))
    parser.add_argument("--dtype", type=np.dtype, default=np.dtype(float), help="of floats: float64 or float32")
    parser.add_argument("--threads", type=int, default=1, help="for both, BLAS too")
    parser.add_argument("--seconds", type=float, default=0.06, help="for each call and size, both together")
    table.add_outputs(parser)
    options = parser.parse_args(arguments)
    if unknown := set(options.kinds) - set(CALLS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CALLS)}")
    return options


def function_of(text):
    """The Python function that makes a call, with the operands that it names as parameters."""
    tree = ast.parse(text)
    named = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    names = [name for name in operands(16, float) if name in named]
    is_expression = isinstance(tree.body[0], ast.Expr) and not named & set(WRITTEN)
    body = f"    return {text}" if is_expression else f"    {text}"
    source = f"def call({', '.join(names)}):\n{body}\n"
    where = f"<{text}>"
    linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
    scope = {"np": np}
    exec(compile(source, where, "exec"), scope)
    return scope["call"], names


def leaves(result):
    """The arrays of a result."""
    if isinstance(result, tuple | list):
        return [leaf for item in result for leaf in leaves(item)]
    return [] if result is None else [np.asarray(result)]


def differs(ours, theirs):
    """What is wrong with a result, '' if nothing is."""
    ours, theirs = leaves(ours), leaves(theirs)
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for x, y in zip(ours, theirs, strict=True):
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"its outputs differ: {x.dtype} {x.shape}, not {y.dtype} {y.shape}"
        if y.size and not close(x, y, 0.0, 1e-9):
            return "its outputs differ"
    return ""


def measured(text, given, options):
    """The records of NumPy and ours for a call: time_s, or error."""
    plain, names = function_of(text)
    compiled = dlvm.jit(plain, parallel=options.threads > 1)
    arguments = [given[name] for name in names]
    results, written = [], []
    for f in (compiled, plain):
        mine = copy.deepcopy(arguments) if set(names) & set(WRITTEN) else arguments
        results.append(f(*mine))
        written.append([v for name, v in zip(names, mine, strict=True) if name in WRITTEN])
    if why := differs(*results) or differs(*written):
        return {table.OURS: {"error": why}, "NumPy": {}}
    del results
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    mine = copy.deepcopy(arguments) if set(names) & set(WRITTEN) else arguments
    ours, theirs = least_times((compiled, plain), lambda count: [mine] * count, options.seconds, clock)
    return {table.OURS: {"time_s": ours}, "NumPy": {"time_s": theirs}}


def race(kind, text, n, given, options):
    """The result of one call and size, with a line about it on the way."""
    try:
        with np.errstate(all="ignore"):
            tools = measured(text, given, options)
    except Exception as error:
        tools = {table.OURS: {"error": f"{type(error).__name__}: {error}"}, "NumPy": {}}
    found = table.ratio(tools, "NumPy")
    ours = tools[table.OURS]
    said = f"{ours['time_s'] * 1e6:10.2f} µs {found:8.2f}" if found else ours["error"].strip().splitlines()[0][:100]
    print(f"{n:>9,}  {text:<48} {said}", flush=True)
    case = {"suite": "NumPy's calls", "kernel": text, "kind": kind, "size": f"{n:,}", "dtype": options.dtype.name}
    return {"case": case, "mode": "function", "tools": tools}


def main(arguments=None):
    """Measures the calls, prints what is slower than NumPy, and writes the files that were asked for."""
    options = options_of(arguments)
    results = []
    for n in options.sizes:
        given = operands(n, options.dtype)
        for kind, text in calls():
            if kind in options.kinds and any(o in text for o in options.only or [""]):
                results.append(race(kind, text, n, given, options))
        del given
    versions = [{"tools": {"NumPy": {"version": np.__version__}}}]
    lines = [machine.sentence(versions, options.threads), "", *table.by_size(results, "NumPy")]
    print("\n" + "\n".join(lines))
    if options.json:
        options.json.write_text(json.dumps({"machine": lines[0], "results": results}, indent=1) + "\n")
    if options.write:
        table.write_section(options.write, f"calls of NumPy, {options.dtype.name}", lines, "single_calls.py")
    return results


if __name__ == "__main__":
    asked = limits(options_of(None).threads)
    if any(os.environ.get(name) != value for name, value in asked.items()):  # libraries read them when they are loaded
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | asked)
    main()
