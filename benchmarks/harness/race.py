"""Runs a case under several tools in turns, so that what else the machine does hits all of them alike.

Every tool has a process of its own (worker.py). After the first calls, whose outputs must agree with the reference's,
the tools take turns of a few milliseconds, the order rotating, until the time is used up. A tool's time is the median
over its turns of each turn's median.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from harness.peers import PEERS
from harness.problems import norm_error

WORKER = Path(__file__).with_name("worker.py")
ROOT = WORKER.parents[2]


@dataclass
class Setting:
    """How to measure."""

    threads: int = 2
    seconds: float = 0.5  # a tool and case, all turns together
    turns: int = 10
    limit: float = 60.0  # seconds for a first call
    pythons: dict = field(default_factory=dict)  # package → interpreter, where it is not this one
    warm: bool = False  # also start a second time, on a full disk cache
    together: bool = False  # first calls side by side, one a core: sooner done, but no compile times
    caches: Path | None = None  # keep what peers compile here, for the next race: no compile times either


class Entrant:
    """One tool's process, which answers lines of JSON. It has the first `threads` cores that there are."""

    def __init__(self, peer, command, folder, threads, cwd, path=(), caches=None):
        self.peer, self.record = peer, {}
        self.times = []
        cores = sorted(os.sched_getaffinity(0))[:threads]
        self.process = subprocess.Popen(
            command,
            env=environment(folder, len(cores), path) | (kept(caches) if caches else {}),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )

    @property
    def runs(self):
        """Whether it is still in the race."""
        return self.process is not None

    def ask(self, line, limit):
        """The answer to a line, {} if it left the race, as it does with an error: the record says why."""
        answer = self.hear(line, limit)
        if "missing" in answer:
            return self.leave(None)
        if "error" in answer:
            return self.leave(answer["error"])
        return answer

    def hear(self, line, limit):
        """What is answered to a line, {} if nothing is: then it left the race, and the record says why."""
        if self.process is None:
            return {}
        try:
            self.process.stdin.write((line + "\n").encode())
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], limit)
            text = self.process.stdout.readline() if ready else None
        except BrokenPipeError:
            text = b""
        if text is None:
            return self.leave(f"stopped after {limit:g} s")
        if not text:
            return self.leave(f"its process ended with code {self.process.wait()}")
        return json.loads(text)

    def leave(self, why):
        """End the process and those that it started; `why` is None where there is nothing to measure."""
        if why is not None:
            self.record["error"] = why
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.process = None
        return {}

    def time(self):
        """The median over the turns of each turn's median, in seconds."""
        return median(median(t) for t in self.times)


def _worker(peer, case, mode, folder, setting):
    """The process of worker.py for a case."""
    python = setting.pythons.get(PEERS[peer][0], sys.executable)
    command = [python, str(WORKER), peer, case.text(), mode, folder]
    return Entrant(peer, command, folder, setting.threads, folder, caches=setting.caches)


def environment(folder, threads, path=()):
    """The variables of a worker: caches that begin empty, the number of threads under all its names.

    path: folders with more modules, before those of PYTHONPATH.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), *path, os.environ.get("PYTHONPATH", "")]))
    return {
        **os.environ,
        **limits(threads),
        "PYTHONPATH": path,
        "DLVM_CACHE_DIR": str(Path(folder, "dlvm")),
        "NUMBA_CACHE_DIR": str(Path(folder, "numba")),
        "JAX_COMPILATION_CACHE_DIR": str(Path(folder, "jax")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


def limits(threads):
    """The variables that give every tool so many threads."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "DLVM_NUM_THREADS")
    return {name: str(threads) for name in names}


def kept(caches):
    """The variables by which peers find what they compiled in earlier races; ours is compiled in each."""
    return {
        "NUMBA_CACHE_DIR": str(caches / "numba"),
        "JAX_COMPILATION_CACHE_DIR": str(caches / "jax"),
        "PYTHRAN_LIBRARIES": str(caches / "pythran"),  # read by our adapter: Pythran keeps nothing itself
        "DACE_default_build_folder": str(caches / "dace"),
        "DACE_cache": "name",  # of the program, with its module: the hash of one program changes from run to run
        "DACE_compiler_use_cache": "1",
    }


def race(case, mode, peers, setting, reference, sizes=()):
    """Facts by tool: first_s, time_s, compile_s, peak_mb, import_s, warm_s, or error; {} for a tool without a port.

    reference: the tool whose outputs are taken to be right; it is asked even where it is not timed.
    sizes: of a gradient, `problems.gradient_sizes`.
    """
    with tempfile.TemporaryDirectory() as folder:
        entrants = [_worker(p, case, mode, folder, setting) for p in peers]
        try:
            if setting.together:
                with ThreadPoolExecutor(setting.threads) as pool:
                    list(pool.map(lambda e: _begin(e, setting, "load compiler"), entrants))
                for entrant in entrants:
                    entrant.record.pop("first_s", None)
            else:
                for entrant in entrants:
                    _begin(entrant, setting, "load compiler")
            _compare(entrants, reference, folder, sizes, norm_error(case) if mode == "function" else 0.0)
            _take_turns(entrants, setting)
        finally:
            for entrant in entrants:
                if entrant.runs:
                    entrant.leave(None)
        if setting.warm:
            for entrant in entrants:
                if "time_s" in entrant.record:
                    entrant.record |= _second_start(entrant.peer, case, mode, folder, setting)
    return {e.peer: e.record for e in entrants}


def _begin(entrant, setting, load):
    entrant.record |= entrant.ask(load, setting.limit)
    entrant.record |= entrant.ask("first", setting.limit)


def _second_start(peer, case, mode, folder, setting):
    """A new process on the disk cache that the first one filled: seconds of import and of the first call."""
    start = time.perf_counter()
    entrant = _worker(peer, case, mode, folder, setting)
    _begin(entrant, setting, "load")
    whole = time.perf_counter() - start
    record = entrant.record
    if entrant.runs:
        entrant.leave(None)
    if "first_s" not in record:
        return {}
    return {"warm_import_s": record["import_s"], "warm_first_s": record["first_s"], "warm_process_s": whole}


def _compare(entrants, reference, folder, sizes=(), norm=0.0):
    """Whose outputs are not the reference's leaves the race. norm: `problems.norm_error`.

    The terms of a derivative may cancel, some or all of them (a softmax's sum has none): it is compared less closely,
    and with a tenth of what it might be if it is smaller.
    """
    expected = _outputs(folder, reference)
    if expected is None:
        return
    floors = [0.1 * s for s in sizes] or [0.0] * len(expected)
    double = 1e-5 if sizes else 1e-7
    for entrant in entrants:
        if entrant.runs and entrant.peer != reference:
            found = _outputs(folder, entrant.peer)
            if len(found) != len(expected) or not all(
                close(f, e, floor, double, norm) for f, e, floor in zip(found, expected, floors, strict=True)
            ):
                entrant.leave(f"its outputs differ from those of {reference}")


def _outputs(folder, peer):
    path = Path(folder, f"{peer}.npz")
    if not path.exists():
        return None
    with np.load(path) as arrays:
        return [arrays[name] for name in arrays.files]


def close(found, expected, floor, double, norm=0.0):
    """Equal up to what reordered sums of their precision differ by, relative to the whole array, or to `floor`.

    Or by the norm of the difference, the rule of NPBench: an iteration that is chaotic somewhere (a point at the edge
    of Mandelbrot's set) makes much of the last digit at a few of many places. norm: what that may be relative to the
    norm of what is expected, if that is more.
    """
    if found.shape != expected.shape:
        return False
    single = "f4" in (found.dtype.str[1:], expected.dtype.str[1:]) or "c8" in (found.dtype.str[1:],)
    finite = np.isfinite(expected)
    tolerance, size = 3e-3 if single else double, np.max(np.abs(expected[finite]), initial=floor)
    if np.allclose(found, expected, rtol=0, atol=tolerance * size, equal_nan=True):
        return True
    rest = found[~finite], expected[~finite]
    if found.dtype.kind not in "fc" or not np.array_equal(*rest, equal_nan=True):
        return False
    off = np.linalg.norm(np.ravel(found[finite] - expected[finite]))
    return bool(off <= max(tolerance, norm) * np.linalg.norm(np.ravel(expected[finite])))


def _take_turns(entrants, setting):
    order = [e for e in entrants if e.runs]
    for _ in range(setting.turns):
        order = order[1:] + order[:1]
        for entrant in [e for e in order if e.runs]:
            if sum(map(sum, entrant.times)) > 5 * setting.seconds:
                continue  # one call takes longer than it may; those that it has made must do
            answer = entrant.ask(f"turn {setting.seconds / setting.turns}", setting.limit)
            if answer:
                entrant.times.append(answer["times"])
    for entrant in [e for e in order if e.runs]:
        entrant.record |= entrant.ask("end", setting.limit)
        if entrant.times:
            entrant.record["time_s"] = entrant.time()
            entrant.record["calls"] = sum(map(len, entrant.times))
            if "first_s" in entrant.record:
                entrant.record["compile_s"] = max(0.0, entrant.record["first_s"] - entrant.record["time_s"])
