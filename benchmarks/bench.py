"""Races dlvm-py against the tools that are installed: functions, gradients, compiling, memory, growth with size.

    python benchmarks/bench.py                                   our own kernels at S, every tool that is installed
    python benchmarks/bench.py --sizes S,M --warm --write docs/performance.md
    python benchmarks/bench.py --sizes "" --growth docs/figures/growth.svg      time against size, and nothing else
    python benchmarks/bench.py --npbench CLONE --sizes S         the kernels of a clone of NPBench, with its ports
    python benchmarks/bench.py --npbench CLONE --modes gradient --peers JAX,JAX_ours     and npbench/jax_ports.py's
    python benchmarks/bench.py --npbench CLONE --dace CLONE --peers JAX-DaCe,JAX,JAX_ours     what DaCe's tests
                                                                 differentiate, with their ports as one more peer

Each tool runs in a process of its own; they take turns (harness/race.py says how). A ratio is a peer's time over ours:
above 1 we are faster. --python torch=/path/to/python names an interpreter for tools that live elsewhere.
"""

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import figure, machine, problems, table  # noqa: E402
from harness.peers import PEERS  # noqa: E402
from harness.race import Setting, race  # noqa: E402

MODES = ("function", "gradient")
PATIENCE = 1.0  # seconds: a tool that would take longer for a call of the next size is in the figure up to here


def names(text):
    """A list of names with commas between."""
    return [n for n in text.replace(",", " ").split() if n]


def options_of(arguments):
    """The command line, checked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--npbench", type=Path, help="a clone of https://github.com/spcl/npbench")
    parser.add_argument("--dace", type=Path, help="a clone of https://github.com/spcl/dace; implies gradients alone")
    parser.add_argument("--kernels", type=names, default=[], help="names with commas between; all if left out")
    parser.add_argument("--sizes", type=names, default=["S"], help="S and M; with --npbench its presets")
    parser.add_argument("--modes", type=names, default=list(MODES), help="function, gradient, or both")
    parser.add_argument("--peers", type=names, default=[], help="tools beside ours: NumPy,Numba_np,JAX")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="cores for every tool")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each tool and kernel, all turns together")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that a first call may take")
    parser.add_argument("--python", action="append", default=[], metavar="PACKAGE=PATH", help="a tool's interpreter")
    parser.add_argument("--warm", action="store_true", help="measure a second process on the disk cache too")
    parser.add_argument("--together", action="store_true", help="compile side by side: sooner done, no compile times")
    parser.add_argument("--caches", type=Path, help="a folder for what peers compile: the next race is sooner done")
    parser.add_argument("--growth", type=Path, metavar="SVG", help="draw time against size for the kernels that grow")
    table.add_outputs(parser)
    options = parser.parse_args(arguments)
    wanted = [p.replace("_", " ") for p in options.peers] or list(PEERS)
    options.peers = list(dict.fromkeys([table.OURS, *wanted]))
    if options.dace and not options.npbench:
        parser.error("--dace wants the kernels of --npbench")
    if options.dace:
        options.modes = ["gradient"]
    if options.warm and (options.together or options.caches):
        parser.error("--warm measures starts: not with --together or --caches")
    if options.caches and not options.together:
        parser.error("--caches leaves nothing to compile, so that it says nothing of compile times: with --together")
    for given, known in ((options.peers, PEERS), (options.modes, MODES)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if any("=" not in p for p in options.python):
        parser.error("--python wants PACKAGE=PATH")
    return options


def cases(options):
    """The cases that the command line asks for."""
    if options.npbench:
        clone = str(options.npbench.resolve())
        chosen = problems.suite.kernels_of(options.npbench, options.kernels)
        dace = str(options.dace.resolve()) if options.dace else ""
        suite = "dace" if dace else "npbench"
        for size in options.sizes:
            for k in [k for k in chosen if not dace or problems.dace_ports.read(dace, k)]:
                yield problems.Case(suite, k, size, "", clone, problems.written(clone, k, size), dace)
        return
    known = problems.own_kernels()
    yield from [problems.Case("own", k, size) for size in options.sizes for k in _chosen(known, options)]


def grown(options, setting, keep):
    """The results of the figure, of each kernel the sizes upwards; `keep` is told of each."""
    quick = dataclasses.replace(setting, seconds=setting.seconds / 2, turns=5, warm=False, together=True)
    for kernel in _chosen(problems.own_kernels(), options):
        sizes = getattr(problems.own_module(kernel), "GROWTH", [])
        for mode in options.modes:
            peers = options.peers
            for k, (count, keywords) in enumerate(sizes):
                case = problems.Case("own", kernel, str(count), json.dumps(keywords))
                result = run(case, mode, peers, options, quick, like=problems.Case("own", kernel, "S"))
                if result is None:
                    break
                keep(result)
                more = sizes[k + 1][0] / count if k + 1 < len(sizes) else 0
                took = {p: r.get("time_s", 0.0) * more for p, r in result["tools"].items() if p != table.OURS}
                peers = [p for p in peers if took.get(p, 0.0) < PATIENCE]


def _chosen(known, options):
    if unknown := set(options.kernels) - set(known):
        sys.exit(f"no such kernel: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return [k for k in known if not options.kernels or k in options.kernels]


def run(case, mode, peers, options, setting, like=None):
    """The result of one race, with a line about it on the way; None if there is no gradient.

    like: a case whose outputs are as large, where plain Python would take too long for this one.
    """
    sizes = problems.gradient_sizes(problems.load(like or case)) if mode == "gradient" else ()
    if mode == "gradient" and not sizes:
        return None
    suited = [p for p in peers if options.npbench is not None or p.split()[0] == p]
    reference = "NumPy" if mode == "function" and "NumPy" in suited else table.OURS
    tools = race(case, mode, suited, setting, reference, sizes)
    merged = table.merged(tools)
    ours = merged.get(table.OURS, {})
    ratios = [f"{p} {r:.2f}" for p in merged if p != table.OURS and (r := table.ratio(merged, p))]
    told = f"{ours['time_s'] * 1e3:10.4g} ms   " if "time_s" in ours else f"{ours.get('error', 'not measured')}   "
    print(f"{case.kernel:<24}{case.size:>8} {mode:<9}{told}{'  '.join(ratios)}", flush=True)
    for peer, record in tools.items():
        if "error" in record:
            print(f"{'':<10}{peer}: {record['error'].strip().splitlines()[0][:150]}", flush=True)
    return {"case": dataclasses.asdict(case) | {"clone": "", "dace": ""}, "mode": mode, "tools": tools}


def main(arguments=None):
    """Runs the races, prints what comes out, and writes the files that were asked for."""
    options = options_of(arguments)
    pythons = dict(p.split("=", 1) for p in options.python)
    caches = options.caches and options.caches.resolve()
    setting = Setting(
        options.threads, options.seconds, 10, options.limit, pythons, options.warm, options.together, caches
    )
    results, growth = [], []

    def keep(result, into):
        into.append(result)
        if options.json:
            said = {"machine": machine.sentence(results + growth, setting.threads), "results": results}
            options.json.write_text(json.dumps(said | {"growth": growth}, indent=1) + "\n")

    print("A ratio is a peer's time over ours.\n")
    for case in cases(options):
        for mode in options.modes:
            if found := run(case, mode, options.peers, options, setting):
                keep(found, results)
    if options.growth:
        grown(options, setting, lambda result: keep(result, growth))
        figure.growth(growth, options.growth)
    lines = table.report(results, machine.sentence(results + growth, setting.threads))
    print("\n" + "\n".join(lines))
    if options.write and results:
        suite = "DaCe's tests of NPBench" if options.dace else "NPBench" if options.npbench else "kernels"
        of = f"{suite} gradients" if options.modes == ["gradient"] else suite
        table.write_section(options.write, f"races of {of} at {'+'.join(options.sizes)}", lines)


if __name__ == "__main__":
    main()
