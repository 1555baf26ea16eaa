"""Runs the evals of a clone of GradBench with dlvm-py as the tool, and says what their validators found.

    python benchmarks/gradbench/run.py CLONE [--evals gmm,ba] [--json PATH] [--beside COMMAND] [-- OPTIONS]

GradBench (https://github.com/gradbench/gradbench) is a suite of programs to be differentiated; nothing of it is part of
this repository. Its evals judge by its `manual` tool, which the clone must have built (its CONTRIBUTING.md says how),
and need the Python packages that its pyproject.toml names. --beside runs a second tool, by the command that starts it,
in the clone's folder. What follows -- goes to every eval, such as --min-seconds 0.2. Times are medians; `ratio` is
that of derivative and function.
"""

import argparse
import contextlib
import json
import os
import platform
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from statistics import median

from tool import EVALS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PRIMALS = ("objective", "primal", "cost", "square")


def session(clone, name, tool, options, timeout):
    """The records of one eval with one tool: a message with its response and the eval's verdict each.

    tool: the command. Stands between the two, as GradBench's own `run` does.
    """
    path = os.pathsep.join([str(clone / "python" / "gradbench"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    pipes = {"cwd": clone, "env": environment, "text": True, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    records = {}
    with (
        subprocess.Popen(
            [sys.executable, "-m", f"gradbench.evals.{name}.run", *options],
            stderr=subprocess.PIPE,
            **pipes,
        ) as judge,
        subprocess.Popen(tool, **pipes) as worker,
    ):
        clock = threading.Timer(timeout, worker.kill)
        clock.start()
        for line in judge.stdout:
            message = json.loads(line)
            if message["kind"] == "analysis":
                records[message["of"]] |= {"valid": message["valid"], "error": message.get("error", "")}
            try:
                worker.stdin.write(line)
                worker.stdin.flush()
                reply = worker.stdout.readline()
            except BrokenPipeError:
                reply = ""
            if not reply:
                records["end"] = {"function": "", "valid": False, "error": "the tool ended, or took too long"}
                break
            response = json.loads(reply)
            if message["kind"] == "evaluate":
                records[message["id"]] = record(message, response)
            elif response.get("success") is False:
                records["end"] = {"function": message["kind"], "valid": False, "error": response.get("error", "")}
            judge.stdin.write(reply)
            judge.stdin.flush()
        clock.cancel()
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.close()
        judge.stdin.close()
        said = judge.stderr.read().strip()
        if said and judge.wait():
            records["end"] = {"function": "", "valid": False, "error": said[-1000:]}
    return list(records.values())


def record(message, response):
    """What one evaluation gave."""
    times = [t["nanoseconds"] for t in response.get("timings", []) if t["name"] == "evaluate"]
    return {
        "function": message["function"],
        "size": message.get("description", ""),
        "valid": False,
        "error": response.get("error", "the eval did not judge it"),
        "seconds": median(times) / 1e9 if times else None,
    }


def table(name, ours, others):
    """Rows, one a size."""
    beside = {(r["function"], r.get("size")): r.get("seconds") for r in others}
    primal = {r.get("size"): r.get("seconds") for r in ours if r["function"] in PRIMALS}
    for r in ours:
        seconds, size = r.get("seconds"), r.get("size", "")
        row = f"{name:<10}{r['function']:<11}{size:<32}"
        row += f"{seconds * 1e3:>12.4g}" if seconds else " " * 12
        of = primal.get(size)
        row += f"{seconds / of:>8.2f}" if of and seconds and r["function"] not in PRIMALS else " " * 8
        other = beside.get((r["function"], size))
        row += f"{other / seconds:>9.2f}" if other and seconds else " " * 9
        print(row + ("  valid" if r["valid"] else "  NOT VALID  " + r["error"].strip()[-600:]), flush=True)


def main():
    """Prints the table and writes the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--evals", default="", help="names with commas between; all of them if left out")
    parser.add_argument("--beside", default="", help="the command of a second tool, run in the clone's folder")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds an eval")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    given = sys.argv[1:]
    at = given.index("--") if "--" in given else len(given)
    options, extra = parser.parse_args(given[:at]), given[at + 1 :]
    clone = options.clone.resolve()
    if not (clone / "python" / "gradbench").is_dir():
        sys.exit(f"{clone} is not a clone of GradBench: it has no python/gradbench")
    if not (clone / "tools" / "manual" / "bin").is_dir():
        sys.exit(f"the evals judge by the tool `manual`, which is not built: make -C {clone / 'tools' / 'manual'} all")
    names = [n for n in options.evals.replace(",", " ").split() if n] or list(EVALS)
    unknown = sorted(set(names) - set(EVALS))
    if unknown:
        sys.exit(f"no such eval: {', '.join(unknown)}; there are {', '.join(EVALS)}")
    print(f"{'eval':<10}{'function':<11}{'size':<32}{'ms':>12}{'ratio':>8}{'beside':>9}")
    figures, good = {}, 0
    for name in names:
        of_eval = [] if name == "hello" else extra  # which takes no options
        ours = session(clone, name, [sys.executable, str(HERE / "tool.py")], of_eval, options.timeout)
        others = session(clone, name, shlex.split(options.beside), of_eval, options.timeout) if options.beside else []
        table(name, ours, others)
        good += bool(ours) and all(r["valid"] for r in ours)
        figures[name] = {"dlvm-py": ours, options.beside or "beside": others}
        if options.json:
            machine = {"python": platform.python_version(), "platform": platform.platform(), "cpus": os.cpu_count()}
            options.json.write_text(json.dumps({"machine": machine, "evals": figures}, indent=1) + "\n")
    print(f"\n{good} of {len(names)} evals validated")
    sys.exit(good != len(names))


if __name__ == "__main__":
    main()
