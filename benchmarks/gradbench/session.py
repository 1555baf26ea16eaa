"""One eval of a clone of GradBench with several tools, which take turns at every message that asks for a time.

The eval asks; our tool's response is the one that it judges, and the outputs of the others must agree with ours.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
from harness.race import Entrant, environment
from harness.table import OURS

HERE = Path(__file__).resolve().parent
PRIMALS = ("objective", "primal", "cost", "square")
CLOSED_FORMS = {("manual", "ode", "gradient")}  # of the equations' solution, where others differentiate the scheme


def session(clone, name, tools, options, setting, sizes=()):
    """The results of an eval, one a function and size, as harness/table.py takes them, with the verdict on ours.

    tools: name -> words of its command, beside ours; a folder stands for the programs in it (binaries.py).
    options: of the eval. sizes: those to measure, () for all.
    """
    commands = {OURS: [sys.executable, str(HERE / "tool.py")]} | {n: _command(t) for n, t in tools.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = [str(clone / "python" / "gradbench")]
        entrants = [Entrant(n, c, folder, setting.threads, clone, path) for n, c in commands.items()]
        judge = subprocess.Popen(
            [sys.executable, "-m", f"gradbench.evals.{name}.run", *options],
            cwd=clone,
            env=environment(folder, setting.threads, path),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        said = []
        listener = threading.Thread(target=lambda: said.append(judge.stderr.read()))
        listener.start()
        try:
            results = list(_answers(judge, entrants, setting, sizes))
        finally:
            for entrant in entrants:
                if entrant.runs:
                    entrant.leave(None)
            with contextlib.suppress(BrokenPipeError):
                judge.stdin.close()
            failed = judge.wait()
            listener.join()
            judge.stdout.close(), judge.stderr.close()
    if failed or not results:
        why = said[0].strip()[-1000:] or entrants[0].record.get("error", "nothing was to be measured")
        results.append(_result(name, {}, {}) | {"error": why})
    return results


def _command(tool):
    if len(tool) == 1 and Path(tool[0]).is_dir():
        return [sys.executable, str(HERE / "binaries.py"), str(Path(tool[0]).resolve())]
    return tool


def _answers(judge, entrants, setting, sizes):
    """The results, while every message of the eval gets a response."""
    results, name = {}, ""
    for line in judge.stdout:
        message = json.loads(line)
        reply = {}
        match message["kind"]:
            case "analysis":
                results[message["of"]] |= {"valid": message["valid"], "error": message.get("error") or ""}
            case "evaluate" if sizes and message.get("description", "") not in sizes:
                reply = {"success": False, "error": "not to be measured"}
            case "evaluate":
                tools, reply = _race(message, entrants, setting)
                results[message["id"]] = _result(name, message, tools)
            case kind:
                name = message.get("module", name)
                reply = _told(kind, line, entrants, setting)
        judge.stdin.write(json.dumps({"id": message["id"], **reply}) + "\n")
        judge.stdin.flush()
    return results.values()


def _result(name, message, tools):
    """What harness/table.py takes, as yet without a verdict."""
    function, size = message.get("function", ""), message.get("description", "")
    return {
        "case": {"suite": "gradbench", "kernel": f"{name} {size}".strip(), "size": ""},
        "mode": "function" if function in PRIMALS else "gradient",
        "function": function,
        "tools": tools,
        "valid": False,
        "error": tools.get(OURS, {}).get("error", "the eval did not judge it"),
    }


def _told(kind, line, entrants, setting):
    """Our response to a message for all. Who has no program for the eval leaves, and is not raced."""
    ours = {}
    for entrant in entrants:
        reply = entrant.hear(line.strip(), setting.limit)
        if entrant.peer == OURS:
            ours = reply or {"success": False, "error": entrant.record["error"]}
        if entrant.runs and kind == "define" and not reply.get("success"):
            entrant.leave(reply.get("error", "no program") if entrant.peer == OURS else None)
    return ours


def _race(message, entrants, setting):
    """What each tool took for an evaluation, and our response to it."""
    of = message["module"], message["function"]
    order = [e for e in entrants if e.runs and (e.peer, *of) not in CLOSED_FORMS]
    if not order or order[0].peer != OURS:
        return {OURS: entrants[0].record}, {"success": False, "error": entrants[0].record["error"]}
    for entrant in order:
        entrant.times, entrant.record = [], {}
    line = json.dumps(message | {"input": _often(message["input"], setting)})
    first = {e.peer: e.ask(line, setting.limit) for e in order}
    ours = first[OURS]
    for entrant in [e for e in order if e.runs]:
        if ours and _agree(first[entrant.peer]["output"], ours["output"]):
            entrant.times.append(_times(first[entrant.peer]))
        else:
            entrant.record["error"] = "its outputs differ from ours"
    for _ in range(setting.turns - 1):
        order = order[1:] + order[:1]
        for entrant in [e for e in order if e.runs and e.times]:
            if sum(map(sum, entrant.times)) < 5 * setting.seconds and (answer := entrant.ask(line, setting.limit)):
                entrant.times.append(_times(answer))
    for entrant in [e for e in order if e.times]:
        entrant.record["time_s"] = entrant.time()
    raced = {e.peer: e.record for e in entrants if e in order or not e.runs}
    return raced, ours or {"success": False, "error": raced[OURS]["error"]}


def _often(given, setting):
    """The input of an eval that asks for a turn's runs, two at least."""
    if not isinstance(given, dict):
        return given
    return given | {"min_runs": 2, "min_seconds": setting.seconds / setting.turns}


def _times(answer):
    """Seconds of the runs. The first is left out where there are others: it compiles, or its memory is fresh."""
    times = [t["nanoseconds"] / 1e9 for t in answer["timings"] if t["name"] == "evaluate"]
    return times[1:] or times


def _agree(found, expected):
    """Whether two outputs have the same numbers, up to what reordered sums differ by, relative to the whole."""
    found, expected = list(_numbers(found)), list(_numbers(expected))
    if len(found) != len(expected):
        return False
    return np.allclose(found, expected, rtol=0, atol=1e-6 * np.max(np.abs(expected), initial=0.0), equal_nan=True)


def _numbers(output):
    """The numbers of an output, those of a dictionary in the order of its keys."""
    if isinstance(output, dict):
        output = [output[key] for key in sorted(output)]
    if isinstance(output, list):
        for part in output:
            yield from _numbers(part)
    else:
        yield output
