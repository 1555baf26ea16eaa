"""One problem under one tool, in a process of its own; race.py starts it and asks it to run in turns.

    python worker.py PEER CASE MODE FOLDER      MODE: function or gradient; FOLDER: where the outputs go

It reads a line, does it, and answers with a line of JSON:

    load            import the tool, load the problem      {"import_s", "version"}
    load compiler   the same, with what it imports late
    first           the first call, which compiles         {"first_s"}; its outputs are in FOLDER/PEER.npz
    turn SECONDS    calls for about so long                {"times"}: seconds of each; its threads are idle then
    end             nothing more                           {"peak_mb"}: what memory grew by while calls ran

{"missing": why} and {"error": what} end it early.
"""

import contextlib
import importlib
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.idle import until_idle

MOST_CALLS = 10_000  # in one turn


class Worker:
    """The state between the lines."""

    def __init__(self, peer, case, mode, folder):
        self.peer, self.case, self.mode = peer, json.loads(case), mode
        self.out = Path(folder, f"{peer}.npz")
        self.problem = self.run = self.args = None
        self.base_mb = None

    def load(self, extent=""):
        """Import the tool and the data, with their times apart."""
        start = time.perf_counter()
        from harness import peers, problems

        package, adapter = peers.PEERS[self.peer]
        tool = peers.module(package)
        if extent == "compiler":
            for compiler in peers.COMPILERS.get(package, ()):
                importlib.import_module(compiler)
        import_s = time.perf_counter() - start
        self.problem = problems.load(problems.Case(**self.case))
        self.run = adapter, self.mode == "gradient"
        return {"import_s": import_s, "version": getattr(tool, "__version__", "")}

    def first(self):
        """The first call, with the making of the compiled function."""
        import numpy as np

        start = time.perf_counter()
        adapter, is_gradient = self.run
        self.run = adapter(self.problem, is_gradient)
        making = time.perf_counter() - start
        args = self.run.stage(self.problem.fresh())
        start = time.perf_counter()
        result = self.run.call(args)
        first_s = making + time.perf_counter() - start
        outputs = self.run.outputs(result, args)
        np.savez(self.out, *outputs)
        self.writes = self.problem.written or self._changed(args)
        self.args = self.run.stage(self.problem.fresh())
        self.run.call(self.args)
        reset_peak()
        self.base_mb = status_mb("VmRSS")
        return {"first_s": first_s}

    def _changed(self, args):
        """Whether a call wrote into what it was given."""
        import numpy as np

        if not isinstance(args, list):
            return False
        before = self.problem.arguments.values()
        return not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(args, before, strict=True))

    def turn(self, seconds):
        """Times of calls, at least one; each on fresh arguments where the kernel writes into them."""
        times, until = [], time.perf_counter() + float(seconds)
        while len(times) < MOST_CALLS:
            if self.writes:
                self.args = self.run.stage(self.problem.fresh())
            start = time.perf_counter()
            self.run.call(self.args)
            end = time.perf_counter()
            times.append(end - start)
            if end > until:
                break
        until_idle()
        return {"times": times}

    def end(self):
        """What memory grew by."""
        peak = status_mb("VmHWM")
        return {"peak_mb": None if peak is None or self.base_mb is None else max(0.0, peak - self.base_mb)}


def reset_peak():
    """Begin to measure the peak of resident memory anew; only Linux can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def status_mb(key):
    """A line of the process's status, in MB; None where the system has none."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024 / 1e6
    return None


def main(peer, case, mode, folder):
    """Answers line by line. What tools print goes to the error stream."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    worker = Worker(peer, case, mode, folder)
    for line in sys.stdin:
        name, *rest = line.split()
        try:
            answer = getattr(worker, name)(*rest)
        except Exception as error:
            kind = "missing" if type(error).__name__ == "Missing" else "error"
            said = str(error) if kind == "missing" else f"{type(error).__name__}: {error}"
            answer = {kind: said}
        answers.write(json.dumps(answer) + "\n")
        if name == "end" or "missing" in answer or "error" in answer:
            break


if __name__ == "__main__":
    main(*sys.argv[1:])
