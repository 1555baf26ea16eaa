"""Races dlvm-py against the tools of a clone of GradBench, and says what its validators found of our results.

    python benchmarks/gradbench/run.py CLONE [--evals gmm,ba] [--few] [--tool manual=FOLDER] [-- OPTIONS]

GradBench (https://github.com/gradbench/gradbench) is a suite of programs to be differentiated; nothing of it is part of
this repository. Its evals judge by its `manual` tool, which the clone must have built (its CONTRIBUTING.md says how),
and need the Python packages that its pyproject.toml names. What follows -- goes to every eval, such as --max 11.

--tool NAME=COMMAND, once a tool: the command that speaks GradBench's protocol, run in the clone's folder, or a folder
of built programs:

    --tool manual=CLONE/tools/manual/bin --tool codipack=CLONE/tools/codipack/bin
    --tool jax="PYTHON HERE/jax_tool.py --multithreaded"
    --tool pytorch="PYTHON python/gradbench/gradbench/tools/pytorch/run.py"

A ratio is a tool's time over ours: above 1 we are faster.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import machine, table  # noqa: E402
from harness.race import Setting  # noqa: E402
from session import session  # noqa: E402
from tool import EVALS  # noqa: E402

FEW = {  # a middle and a large size of each eval, or two
    "gmm": ("10_5_1000", "20_25_1000", "64_25_1000", "64_100_1000"),
    "ba": ("ba1_n49_m7776_p31843", "ba5_n257_m65132_p225911", "ba12_n253_m163691_p899155"),
    "ht": ("hand4_t26_c400", "hand7_t26_c3200", "hand10_t26_c25600"),
    "lstm": ("l=2,c=1024", "l=4,c=4096", "l=6,c=8192"),
    "kmeans": ("k=100,n=1000,d=8", "k=100,n=10000,d=8", "k=1000,n=10000,d=16"),
    "llsq": ("n=1024,m=128", "n=16392,m=128"),
    "lse": ("n=80000", "n=1280000"),
    "ode": ("n=1000,s=100", "n=10000,s=100", "n=100000,s=10"),
    "det": ("7", "8", "9", "10"),
}


def options_of(arguments):
    """The command line, checked, and what is left for the evals."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--evals", default="", help="names with commas between; all of them if left out")
    parser.add_argument("--few", action="store_true", help="only a few sizes of each eval, from the middle up")
    parser.add_argument("--tool", action="append", default=[], metavar="NAME=COMMAND", help="another tool")
    parser.add_argument("--threads", type=int, default=1, help="cores for every tool")
    parser.add_argument("--seconds", type=float, default=1.0, help="a tool, function and size, all turns together")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that a turn may take")
    table.add_outputs(parser)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:at])
    options.clone = options.clone.resolve()
    if not (options.clone / "python" / "gradbench").is_dir():
        parser.error(f"{options.clone} is not a clone of GradBench: it has no python/gradbench")
    manual = options.clone / "tools" / "manual"
    if not (manual / "bin").is_dir():
        parser.error(f"the evals judge by the tool `manual`, which is not built: make -C {manual} all")
    options.evals = [n for n in options.evals.replace(",", " ").split() if n] or list(FEW if options.few else EVALS)
    if unknown := sorted(set(options.evals) - set(EVALS)):
        parser.error(f"no such eval: {', '.join(unknown)}; there are {', '.join(EVALS)}")
    if any("=" not in t for t in options.tool):
        parser.error("--tool wants NAME=COMMAND")
    options.tools = {name: shlex.split(command) for name, command in (t.split("=", 1) for t in options.tool)}
    return options, arguments[at + 1 :]


def line(result):
    """What is said of a result on the way."""
    times = {name: r["time_s"] for name, r in result["tools"].items() if "time_s" in r}
    ours = times.pop(table.OURS, None)
    row = f"{result['case']['kernel']:<38}{result['function']:<10}"
    row += f"{ours * 1e3:10.4g} ms   " if ours else " " * 16
    row += "  ".join(f"{name} {t / ours:.2f}" for name, t in times.items() if ours)
    return row + ("   valid" if result["valid"] else "   NOT VALID  " + result["error"].strip()[-600:])


def main(arguments):
    """Prints what comes out, writes the files that were asked for, and says whether all was valid."""
    options, extra = options_of(arguments)
    setting = Setting(options.threads, options.seconds, options.turns, options.limit)
    results, good = [], 0
    for name in options.evals:
        of_eval = [] if name == "hello" else extra  # which takes no options
        sizes = FEW.get(name, ()) if options.few else ()
        found = session(options.clone, name, options.tools, of_eval, setting, sizes)
        print("\n".join(map(line, found)), flush=True)
        good += all(r["valid"] for r in found)
        results += found
        if options.json:
            said = {"machine": machine.sentence(results, options.threads), "results": results}
            options.json.write_text(json.dumps(said, indent=1) + "\n")
    lines = table.report(results, machine.sentence(results, options.threads))
    print("\n" + "\n".join(lines))
    if options.write:
        table.write_section(options.write, "races of GradBench", lines, "gradbench/run.py")
    print(f"{good} of {len(options.evals)} evals validated")
    return good != len(options.evals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
