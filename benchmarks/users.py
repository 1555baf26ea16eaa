"""Programs as users write them by loops, beside Numba.

    python benchmarks/users.py                            all programs, one thread
    python benchmarks/users.py --only viterbi --only sort --seconds 0.5
    python benchmarks/users.py --fields images,words
    python benchmarks/users.py --write docs/performance.md      the table, into the page

The programs are in user_programs. What each gives, and what it writes, is compared with plain Python's first: the
values, and the dtypes of arrays. Ours and Numba's (njit, its defaults; functions that are called too) are then
called in turns in one process, in batches of some 100 µs, with arguments that no call has written yet; the least CPU
time counts. A ratio is Numba's time over ours: above 1 we are faster.
"""

import argparse
import copy
import json
import os
import sys
import time
import types
from pathlib import Path
from statistics import geometric_mean

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import machine, table  # noqa: E402
from harness.race import limits  # noqa: E402
from harness.turns import least_times  # noqa: E402
from user_programs import PROGRAMS  # noqa: E402

import dlvm_py as dlvm  # noqa: E402

ROUNDING = 1e-9  # relative, of what depends on the last bits of elementary functions
BEHIND = 0.95


def options_of(arguments):
    """The command line, checked."""
    fields = list(dict.fromkeys(p.field for p in PROGRAMS.values()))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fields", type=lambda t: t.split(","), default=fields, help=", ".join(fields))
    parser.add_argument("--only", action="append", default=[], help="a part of a program's name; may be given again")
    parser.add_argument("--size", type=int, default=120, help="of the arguments; plain Python runs once with them")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each program, both together")
    table.add_outputs(parser)
    options = parser.parse_args(arguments)
    if unknown := set(options.fields) - set(fields):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(fields)}")
    return options


def leaves(value):
    """The parts of a result or of arguments."""
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple | list) else [value]


def outcome(function, arguments):
    """What a call gives, and what it leaves in its arguments, part by part."""
    with np.errstate(all="ignore"):
        result = function(*arguments)
    return [*leaves(result), *leaves(arguments)]


def difference(program, found, expected):
    """What is wrong with an outcome, '' if nothing is."""
    if len(found) != len(expected):
        return f"{len(found)} parts, not {len(expected)}"
    for f, e in zip(found, expected, strict=True):
        if isinstance(e, np.ndarray) and (f.dtype, f.shape) != (e.dtype, e.shape):
            return f"its outputs differ: {f.dtype} {f.shape}, not {e.dtype} {e.shape}"
        same = np.allclose(f, e, ROUNDING, 1e-12) if program.rounds else np.array_equal(f, e, equal_nan=True)
        if not same:
            return "its outputs differ"
    return ""


def with_numba(function):
    """The function under njit, and so what it calls of its module."""
    import numba

    scope = dict(function.__globals__)
    for name, value in function.__globals__.items():
        if isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
            same = types.FunctionType(value.__code__, scope, name, value.__defaults__, value.__closure__)
            scope[name] = numba.njit(same)
    return scope[function.__name__]


def measured(program, options):
    """The records of ours and Numba's for a program: time_s, or error."""
    expected = outcome(program.function, program.make(options.size))
    tools, runs = {}, {}
    for name, compiled in ((table.OURS, dlvm.jit(program.function, parallel=False)), ("Numba", None)):
        tools[name] = {}
        try:
            compiled = compiled or with_numba(program.function)
            why = difference(program, outcome(compiled, program.make(options.size)), expected)
        except Exception as error:  # whatever a tool says of a program
            why = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        if why:
            tools[name]["error"] = why
        else:
            runs[name] = compiled
    given = program.make(options.size)
    before = copy.deepcopy(given)
    if runs:
        outcome(next(iter(runs.values())), given)
    writes = any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(given, before, strict=True))

    def arguments(count):
        return [copy.deepcopy(before) for _ in range(count)] if writes else [before] * count

    least = least_times(list(runs.values()), arguments, options.seconds, time.thread_time)
    for name, took in zip(runs, least, strict=True):
        tools[name]["time_s"] = took
    return tools


def race(program, options):
    """The result of one program, with a line about it on the way."""
    tools = measured(program, options)
    found = table.ratio(tools, "Numba")
    times = [f"{r['time_s'] * 1e6:10.2f}" if "time_s" in r else f"{'–':>10}" for r in tools.values()]
    said = f"{found:8.2f}" if found else f"       – {' '.join(r.get('error', '') for r in tools.values()).strip()[:90]}"
    print(f"{program.field:<12} {program.name:<22} {' '.join(times)} {said}", flush=True)
    case = {"suite": "users", "kernel": program.name, "kind": program.field, "size": options.size}
    return {"case": case, "mode": "function", "tools": tools}


def report(results):
    """Markdown: what it comes to, and a row for each program that is behind, the worst first."""
    ratios = {r["case"]["kernel"]: found for r in results if (found := table.ratio(r["tools"], "Numba"))}
    lines = []
    if ratios:
        said = f"{sum(r >= BEHIND for r in ratios.values())} of {len(ratios)} at {BEHIND} or more"
        lines.append(f"* Numba's time over ours: geometric mean {geometric_mean(ratios.values()):.2f}; {said}.")
    for tool, word in ((table.OURS, "We do not"), ("Numba", "Numba does not")):
        failed = [(r["case"]["kernel"], r["tools"][tool]["error"]) for r in results if "error" in r["tools"][tool]]
        if failed:
            said = "; ".join(f"`{name}` ({why[:60].replace('|', ' ')})" for name, why in failed)
            lines.append(f"* {word} give Python's numbers, or compile: {said}.")
    rows = sorted((r, name) for name, r in ratios.items())
    behind = [(r, name) for r, name in rows if r < BEHIND]
    if behind:
        ours = {r["case"]["kernel"]: r["tools"][table.OURS].get("time_s") for r in results}
        lines += ["", "| program | what it is | ours, µs | Numba / ours |", "|---|---|---|---|"]
        for r, name in behind:
            what = PROGRAMS[name].function.__doc__.splitlines()[0].rstrip(".")
            lines.append(f"| `{name}` | {what} | {ours[name] * 1e6:.1f} | **{r:.2f}** |")
    ahead = ", ".join(f"`{name}` {r:.1f}" for r, name in reversed(rows) if r >= 1.5)
    if ahead:
        lines += ["", f"At 1.5 or more: {ahead}."]
    return lines


def main(arguments=None):
    """Measures the programs, prints the table, and writes the files that were asked for."""
    options = options_of(arguments)
    chosen = [
        p for p in PROGRAMS.values() if p.field in options.fields and any(o in p.name for o in options.only or [""])
    ]
    results = [race(program, options) for program in chosen]
    versions = [{"tools": {"NumPy": {"version": np.__version__}}}]
    if "numba" in sys.modules:
        versions[0]["tools"]["Numba"] = {"version": sys.modules["numba"].__version__}
    lines = [machine.sentence(versions, 1), "", *report(results)]
    print("\n" + "\n".join(lines))
    if options.json:
        options.json.write_text(json.dumps({"machine": lines[0], "results": results}, indent=1) + "\n")
    if options.write:
        table.write_section(options.write, "programs of users", lines, "users.py")
    return results


if __name__ == "__main__":
    asked = limits(1)
    if any(os.environ.get(name) != value for name, value in asked.items()):  # libraries read them when they are loaded
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | asked)
    main()
