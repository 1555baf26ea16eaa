"""Runs other people's functions, unmodified, under `dlvm.jit` and `dlvm.grad`, beside plain Python.

    python benchmarks/people/run.py PEOPLE [--suites numpy-benchmarks,poliastro] [--only NAME] [--json PATH]

PEOPLE is a folder with clones: numba, numba-benchmark, numpy-benchmarks, poliastro, QuantEcon.py, scipy, Python
(TheAlgorithms), those that are there; scikit-image must be installed. suites.py says which functions are taken.

Forward, a function passes if for each of its argument tuples the result (class, dtype, shape, values to 1e-9), what it
writes into its arguments, and the exception are those of plain Python; a compile error that is an exception of that
class is one too. Not measured is what rounding alone decides: where plain Python gives other values for arguments that
differ in the last bit. Its gradient passes if the derivative of the sum of a float result in two random directions is
that of central differences. Reasons of failures are counted at the end.
"""

import argparse
import contextlib
import copy
import io
import json
import os
import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import dlvm_py as dlvm

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from arguments import TooLong, limit, search  # noqa: E402 - beside this file
from standins import install  # noqa: E402
from suites import SUITES  # noqa: E402

SECONDS = 20
EPSILON = np.finfo(np.float64).eps


def called(function, args):
    """("value", result, arguments afterwards) or ("raises", exception, ...) of a call on copies of the arguments."""
    args = copy.deepcopy(args)
    try:
        with limit(SECONDS), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return "value", function(*args), args
    except (dlvm.CompileError, TooLong):
        raise
    except Exception as error:
        return "raises", error, args


def difference(expected, found):
    """What is different between two results, "" if nothing is."""
    if type(expected) is not type(found):
        return f"class {type(found).__name__} instead of {type(expected).__name__}"
    if isinstance(expected, (list, tuple)):
        if len(expected) != len(found):
            return "length"
        return next(filter(None, map(difference, expected, found)), "")
    if isinstance(expected, dict):
        return difference([*expected.items()], [*found.items()])
    if isinstance(expected, (np.ndarray, np.generic)):
        if expected.dtype != found.dtype or expected.shape != found.shape:
            return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    if isinstance(expected, (np.ndarray, np.number, float, complex)):
        kind = np.asarray(expected).dtype
        rtol = 2e-3 if kind == np.float16 else 1e-4 if kind in (np.float32, np.complex64) else 1e-9
        scale = np.nanmax(np.abs(expected), initial=0.0, where=np.isfinite(expected)) if kind.kind in "fc" else 0
        return "" if np.allclose(found, expected, rtol=rtol, atol=rtol * scale * 1e-3, equal_nan=True) else "values"
    try:
        return "" if callable(expected) or expected == found else "values"
    except ValueError:  # an object that has no one answer, as an array of another package
        return f"{type(expected).__name__} cannot be compared"


def is_chaotic(function, args, expected):
    """Whether plain Python has other values for floats that are the next ones, on both sides: no rounding is right."""
    found = []
    for end in (np.inf, -np.inf):
        near = [np.nextafter(a, end).astype(a.dtype) if _is_float(a) and np.ndim(a) else a for a in args]
        kind, value, _ = called(function, [float(np.nextafter(a, end)) if isinstance(a, float) else a for a in near])
        found.append(value if kind == "value" else kind)
    return all(difference(a, b) == "values" for a, b in ((expected, found[0]), (expected, found[1]), found))


def forward(function, compiled, args):
    """("pass" | "fail" | "none", reason): the compiled call beside the plain one."""
    first, again = called(function, args), called(function, args)
    if first[0] != again[0] or (first[0] == "value" and difference(first[1], again[1])):
        return "none", "not deterministic"
    try:
        found = called(compiled, args)
    except dlvm.CompileError as error:
        same = first[0] == "raises" and isinstance(error, type(first[1])) and type(first[1]) is not Exception
        return ("pass", "") if same else ("fail", str(error))
    except TooLong:
        return "fail", f"more than {SECONDS} s"
    if first[0] != found[0]:
        return "fail", f"{found[0]} {found[1]!r:.200} where Python {first[0]} {first[1]!r:.100}"
    if first[0] == "raises":
        if type(first[1]) is not type(found[1]):
            return "fail", f"raises {found[1]!r:.200} instead of {first[1]!r:.100}"
        return "pass", ""
    different = difference(first[1], found[1])
    if different == "values" and is_chaotic(function, args, first[1]):
        return "none", "chaotic: plain Python differs as well where the arguments are the next numbers"
    if different:
        return "fail", f"differs: {different}"
    different = difference(list(first[2]), list(found[2]))
    return ("fail", f"differs in what it writes: {different}") if different else ("pass", "")


def _is_float(value):
    return isinstance(value, (float, np.floating)) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def moved(args, wrt, direction, h):
    """The arguments, moved by h along a direction."""
    new = list(copy.deepcopy(args))
    for k, d in zip(wrt, direction, strict=True):
        new[k] = type(new[k])(new[k] + h * d) if not isinstance(new[k], np.ndarray) else new[k] + h * d
    return new


def gradient(function, args):
    """("pass" | "fail" | "none", reason) of the gradient with respect to all float arguments."""
    wrt = tuple(k for k, a in enumerate(args) if _is_float(a) and np.size(a))
    kind, result, _ = called(function, args)
    if not wrt or kind != "value" or not _is_float(result) or not np.all(np.isfinite(result)):
        return "none", ""
    try:
        with np.errstate(all="ignore"):
            found = called(dlvm.grad(function, wrt=wrt), args)
    except dlvm.CompileError as error:
        return "fail", str(error)
    except TooLong:
        return "fail", f"more than {SECONDS} s"
    if found[0] == "raises":
        return "fail", f"raises {found[1]!r:.200}"
    rng = np.random.default_rng(0)
    rough = any(np.asarray(args[k]).dtype.itemsize < 8 for k in wrt) or np.asarray(result).dtype.itemsize < 8
    for _ in range(2):
        direction = [rng.standard_normal(np.shape(args[k])) for k in wrt]
        ours = float(sum(np.sum(g * d) for g, d in zip(found[1], direction, strict=True)))
        slopes: dict[float, float] = {}  # of central differences, and what of each is noise
        sides: tuple[list[float], list[float]] = [], []
        for h in (1e-2, 1e-3) if rough else (1e-6, 1e-5, 1e-4, 1e-7):
            ends = [called(function, moved(args, wrt, direction, s * h)) for s in (1, -1, 0)]
            if any(e[0] != "value" for e in ends):
                return "none", "plain Python raises nearby"
            up, down, here = (float(np.sum(np.asarray(e[1], np.float64))) for e in ends)
            sides[0].append((up - here) / h)
            sides[1].append((here - down) / h)
            slopes[(up - down) / (2 * h)] = 0.0 if rough else 4 * EPSILON * float(np.sum(np.abs(ends[0][1]))) / h
        if all(abs(up - down) > 1e-3 * max(abs(up), abs(down)) + 1e-6 for up, down in zip(*sides, strict=True)):
            return "none", "a kink or a jump: the slopes of the two sides differ"
        size = max(abs(ours), *map(abs, slopes)) if np.isfinite(ours) else 0.0
        near = (5e-2 if rough else 1e-4) * size + 1e-7
        if not any(abs(s - ours) <= near + noise for s, noise in slopes.items()):
            return "fail", f"differs: {ours!r} where differences are {[*slopes]}"
    return "pass", ""


def measure(function, tuples):
    """The record of one function."""
    compiled = dlvm.jit(function)
    results = [forward(function, compiled, args) for args in tuples]
    good = [args for args, (status, _) in zip(tuples, results, strict=True) if status == "pass"]
    failed = [r for r in results if r[0] == "fail"]
    status, reason = failed[0] if failed else results[0]
    slopes = [s for s in (gradient(function, args) for args in good) if s[0] != "none"]
    bad = [s for s in slopes if s[0] == "fail"]
    of_gradient = bad[0] if bad else slopes[0] if slopes else ("none", "")
    return {"status": status, "reason": reason, "gradient": of_gradient[0], "gradient_reason": of_gradient[1]}


def work(suite, folder, start, out, only):
    """Measures the functions of a suite from number `start` on; a line of `out` each, and one before it begins."""
    install("numba", "pytest", "astropy", "erfa", "jplephem")
    np.seterr(all="ignore")
    for number, (name, function, tuples) in enumerate(SUITES[suite](Path(folder))):
        if number < start or (only and only not in name):
            continue
        out.write(json.dumps({"number": number, "name": name}) + "\n")
        out.flush()
        with contextlib.redirect_stdout(io.StringIO()):
            tuples = search(function) if tuples is None else tuples
            found = measure(function, tuples) if tuples else {"status": "none", "reason": "no arguments found"}
        out.write(json.dumps({"suite": suite, "number": number, "name": name, **found}) + "\n")
        out.flush()


def records(suite, options):
    """The records of a suite, measured in processes that are started again where one dies."""
    path = Path(options.scratch, f"people-{suite}.jsonl")
    path.unlink(missing_ok=True)
    found, start = [], 0
    while True:
        command = [sys.executable, __file__, str(options.people), "--worker", suite, "--start", str(start)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]),
        }
        with open(path, "w") as out:
            done = subprocess.run([*command, "--only", options.only], stdout=out, env=environment, check=False)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found += [r for r in lines if "status" in r]
        if done.returncode == 0:
            return found
        if not lines or "status" in lines[-1]:
            sys.exit(f"the suite {suite} cannot be loaded")
        died = {"status": "fail", "reason": f"crashed with exit code {done.returncode}", "gradient": "none"}
        found.append({"suite": suite, **lines[-1], **died})
        start = lines[-1]["number"] + 1


def first_line(reason):
    """The message without place and source, names and numbers blanked: what is counted."""
    line = reason.strip().splitlines()[0] if reason else ""
    line = re.sub(r"^\S+:\d+:\d+: ", "", line)
    return re.sub(r"(?<![A-Za-z\d])-?\d+(\.\d+)?(e-?\d+)?", "#", line)[:140]


def rate(some, key):
    """passed / measured, as text."""
    measured = [r for r in some if r.get(key, "none") != "none"]
    passed = sum(r[key] == "pass" for r in measured)
    return f"{passed:>5} / {len(measured):<5}{100 * passed / max(1, len(measured)):>5.1f} %"


def main():
    """Prints the table and the reasons, and writes the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("people", type=Path)
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--only", default="", help="functions with this in their names")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--scratch", type=Path, default=Path(os.environ.get("TMPDIR", "/tmp")))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        out = os.fdopen(os.dup(1), "w")
        work(options.worker, options.people, options.start, out, options.only)
        return
    every = []
    print(f"{'suite':<20}{'forward':>20}{'gradient':>20}")
    for suite in options.suites.split(","):
        found = records(suite, options)
        every += found
        print(f"{suite:<20}{rate(found, 'status'):>20}{rate(found, 'gradient'):>20}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(every, indent=1) + "\n")
    print(f"{'all':<20}{rate(every, 'status'):>20}{rate(every, 'gradient'):>20}")
    for key, reason in (("status", "reason"), ("gradient", "gradient_reason")):
        counted = Counter(first_line(r[reason]) for r in every if r.get(key) == "fail")
        print(f"\nreasons, {'forward' if key == 'status' else 'gradient'}:")
        print("\n".join(f"{n:>5}  {line}" for line, n in counted.most_common()))


if __name__ == "__main__":
    main()
