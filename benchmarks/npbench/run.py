"""Runs the kernels of a clone of NPBench under `dlvm.jit`, unmodified, beside NumPy.

    python benchmarks/npbench/run.py CLONE [--gradient] [--preset S] [--kernels gemm,mlp] [--json PATH]

NPBench (https://github.com/spcl/npbench) is a suite of NumPy kernels; nothing of it is part of this repository.
Every kernel runs in a process of its own with a time limit: `compile` is a cold compilation, which takes nothing of
the kernel from the disk cache, `(cpu)` its CPU time. What all kernels share (the runtime, matrix products) is compiled
by the first that needs it, kept in a cache of this run, and counted apart, as it is once a machine. The outputs are
compared with NumPy's by NPBench's own rule. Times are medians on fresh copies of the arguments; `speed` is NumPy's
time over ours.

With --gradient it is gradients that are checked and timed (gradient.py): `ratio` is the gradient's time over that of
the compiled function, `off` how far it is from central differences along random directions, relatively.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import geometric_mean, median

import llvmlite
import numpy as np
from suite import kernels_of

import dlvm_py

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def measure(clone, name, options, cache):
    """The record of one kernel, measured in a process of its own; `cache` is the folder of what kernels share."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "kernel.json")
        program = HERE / ("gradient.py" if options.gradient else "kernel.py")
        command = [sys.executable, str(program), str(clone), name, options.preset, str(out)]
        command += ["--repeats", str(options.repeats), "--seconds", str(options.seconds)]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "PYTHONPATH": path, "DLVM_CACHE": "1", "DLVM_CACHE_DIR": cache}
        start = time.perf_counter()
        try:
            done = subprocess.run(
                command, timeout=options.timeout, env=environment, cwd=folder, text=True, capture_output=True
            )
            failed = done.returncode
            said = done.stderr.strip()[-2000:]
        except subprocess.TimeoutExpired:
            failed, said = None, ""
        record = json.loads(out.read_text()) if out.exists() else {"kernel": name, "status": "not started"}
    record["wall_s"] = time.perf_counter() - start
    if failed is None:
        if record["status"] != "validated":
            record["status"] = record["status"].replace("stopped", f"stopped after {options.timeout:g} s")
    elif failed:
        record["status"] = f"crashed with exit code {failed}"
        record["reason"] = said
    return record


def milliseconds(record, key):
    """A time of a record as text, "" if it has none."""
    value = record.get(key)
    return "" if value is None else f"{value * 1e3:.3g}" if value < 1 else f"{value * 1e3:.0f}"


def line(record):
    """A row of the table."""
    speed = f"{record['numpy_s'] / record['dlvm_s']:.2f}" if record.get("dlvm_s") else ""
    row = f"{record['kernel']:<26}{milliseconds(record, 'compile_s'):>10}{milliseconds(record, 'compile_cpu_s'):>8}"
    row += f"{milliseconds(record, 'dlvm_s'):>10}{milliseconds(record, 'numpy_s'):>10}{speed:>8}  {record['status']}"
    reason = record.get("reason", "").strip()
    return row + ("\n" + "\n".join("        " + part for part in reason.splitlines()) if reason else "")


def gradient_line(record):
    """A row of the table of gradients."""
    ratio = f"{record['dlvm_s'] / record['primal_s']:.2f}" if record.get("dlvm_s") else ""
    off = f"{record['off_differences']:.1e}" if "off_differences" in record else ""
    peak = f"{record['peak_mb']:.0f}" if "peak_mb" in record else ""
    row = f"{record['kernel']:<26}{milliseconds(record, 'compile_s'):>10}{milliseconds(record, 'compile_cpu_s'):>8}"
    row += f"{milliseconds(record, 'primal_s'):>10}"
    row += f"{milliseconds(record, 'dlvm_s'):>10}{ratio:>8}{off:>9}{peak:>8}  {record['status']}"
    if record.get("rough"):
        row += f"; not smooth along {', '.join(record['rough'])}"
    reason = record.get("reason", "").strip()
    return row + ("\n" + "\n".join("        " + part for part in reason.splitlines()) if reason else "")


def gradient_summary(records):
    """How many gradients are right, and what they cost."""
    good = [r for r in records if r["status"] == "validated"]
    none = [r["kernel"] for r in records if r["status"] == "no gradient"]
    lines = [f"{len(good)} of {len(records) - len(none)} gradients validated"]
    if none:
        lines.append(f"without a gradient: {', '.join(none)}")
    ratios = [r["dlvm_s"] / r["primal_s"] for r in good if r.get("dlvm_s")]
    if ratios:
        middle, worst = f"median {median(ratios):.2f}", f"largest {max(ratios):.1f}"
        lines.append(f"gradient over function: geometric mean {geometric_mean(ratios):.2f}, {middle}, {worst}")
    return lines + compile_summary(good)


def summary(records):
    """How many validated, how fast they are, what compiling cost."""
    good = [r for r in records if r["status"] == "validated"]
    lines = [f"{len(good)} of {len(records)} kernels validated"]
    speeds = [r["numpy_s"] / r["dlvm_s"] for r in good if r.get("dlvm_s")]
    if speeds:
        slower = sum(s < 1 for s in speeds)
        lines.append(f"NumPy's time over ours: geometric mean {geometric_mean(speeds):.2f}, {slower} slower than NumPy")
    return lines + compile_summary(good)


def compile_summary(records):
    """What compiling cost, and what is compiled once a machine."""
    records = [r for r in records if r.get("compile_s")]
    if not records:
        return []
    said = []
    for key in ("compile_s", "compile_cpu_s"):
        worst = max(records, key=lambda r: r[key])
        middle = median(r[key] for r in records)
        said.append(f"median {middle * 1e3:.0f} ms, longest {worst[key] * 1e3:.0f} ms ({worst['kernel']})")
    once = sum(r["shared_cpu_s"] or 0 for r in records) * 1e3
    return [f"cold compilation: {said[0]}; CPU time: {said[1]}; what they share, once: {once:.0f} ms of CPU time"]


def machine():
    """What the figures depend on."""
    return {
        "dlvm_py": dlvm_py.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": llvmlite.__version__,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }


def main():
    """Prints the table and writes the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--gradient", action="store_true", help="check and time gradients")
    parser.add_argument("--preset", default="S")
    parser.add_argument("--kernels", default="", help="names with commas between; all of them if left out")
    parser.add_argument("--timeout", type=float, default=200.0, help="seconds a kernel")
    parser.add_argument("--repeats", type=int, default=10, help="calls to time")
    parser.add_argument("--seconds", type=float, default=2.0, help="most seconds for those calls together")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    clone = options.clone.resolve()
    names = kernels_of(clone, [k for k in options.kernels.replace(",", " ").split() if k])
    print(f"NPBench, preset {options.preset}; times in ms\n")
    if options.gradient:
        print(
            f"{'kernel':<26}{'compile':>10}{'(cpu)':>8}{'function':>10}{'gradient':>10}{'ratio':>8}{'off':>9}{'MB':>8}"
        )
    else:
        print(f"{'kernel':<26}{'compile':>10}{'(cpu)':>8}{'dlvm_py':>10}{'NumPy':>10}{'speed':>8}")
    records = []
    with tempfile.TemporaryDirectory() as cache:
        for name in names:
            records.append(measure(clone, name, options, cache))
            print((gradient_line if options.gradient else line)(records[-1]), flush=True)
            if options.json:
                figures = {"machine": machine(), "preset": options.preset, "kernels": records}
                options.json.write_text(json.dumps(figures, indent=1) + "\n")
    print("\n" + "\n".join((gradient_summary if options.gradient else summary)(records)))


if __name__ == "__main__":
    main()
