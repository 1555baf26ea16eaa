"""The GPU on hardware: every program of the tests against the CPU's results, then a table of speeds (`make gpu-check`).

    python benchmarks/gpu.py [--quick] [--write docs/gpu.md] [--minutes M] [--jobs N]

Programs are compared by several processes, with arrays of NumPy and of the device (gpu_compare.py).
Exit status: 0, all results agree and all rows are timed; 1, some results do not agree (they are named, and nothing is
timed), or rows of our own failed (they are named below the table, which has the others, and is written all the same);
2, there is no device.
Arrays are on the device before and after what is timed, and the best of several runs counts. Bandwidth is what the
program must read and write at least, also as a share of the driver's copy of 1 GB measured in the same run. Beside it
CuPy, JAX and torch.compile where they are installed with a device (gpu_peers.py), the same source by each; peers come
last.
When the minutes are over nothing more is begun, and what has begun is broken off: programs that were not compared and
rows that were not timed count as failed, peers do not. DLVM_GPU=emulator goes through the same motions on the CPU, with
--quick, for the tests of this file: its times mean nothing, and it does not write.
"""

import argparse
import datetime
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpu_compare import OutOfTime, disagreements, tasks, until
from gpu_peers import PEERS
from gpu_rows import compiled, rows

import dlvm_py as dlvm
from dlvm_py.runtime.gpu.arrays import to_device
from dlvm_py.runtime.gpu.device import EMULATOR, device

BEGIN, END = "<!-- make gpu-check -->", "<!-- end -->"
RUNS, SECONDS = 7, 0.2  # at least; a device that was idle takes a while to be fast


def nothing(x):
    """One element is written: what remains is the launch."""
    x[:1] = 1.0


def launches(x, n):
    """As many launches of a small kernel, each other than the last one."""
    for k in range(n):
        x[:1] = x[:1] * 0.5 + k


def best(run, wait):
    """Seconds of the best of some runs; what was launched is done. run() is what wait() gets."""
    times = []
    wait(None)
    while len(times) < RUNS or sum(times) < SECONDS:
        start = time.perf_counter()
        wait(run())
        times.append(time.perf_counter() - start)
    return min(times)


def wait_for_device(_):
    """Until all is done that dlvm-py has launched."""
    on = device()
    on.wait(on.enter())


def copied(x):
    """Copy an array of the device as the driver does."""
    on = device()
    with on.current() as stream:
        to = on.allocate(x.dtype.itemsize * x.size, stream)
        on.copy(to, x.data, x.dtype.itemsize * x.size, stream)
        on.free(to, stream)


def by_peer(peer, row, end):
    """Milliseconds of a row by a peer, as text; why there are none goes to stderr."""
    try:
        with until(end):
            function = peer.function(row)
            if function is None:
                return ""
            arrays = [peer.array(a) if isinstance(a, np.ndarray) else a for a in row.arguments]
            peer.wait(function(*arrays))
            return f"{1e3 * best(lambda: function(*arrays), peer.wait):.3f}"
    except OutOfTime:
        return "not tried"
    except Exception as error:  # whatever a peer raises is no reason to lose the table
        print(f"{row.name} by {peer.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return "fails"


def peers():
    """Those that are here, with a device."""
    found = []
    for make in PEERS:
        try:
            found.append(make())
        except Exception as error:
            print(f"without {make.name}: {error}", file=sys.stderr)
    return found


def timed(row, rate, end):
    """Of a row: seconds of the first call, milliseconds, GB/s, and that as a share of `rate`, as text."""
    with until(end):
        given = [to_device(a) if isinstance(a, np.ndarray) else a for a in row.arguments]
        f = compiled(row)
        start = time.perf_counter()
        f(*given)
        first = time.perf_counter() - start
        seconds = best(lambda: f(*given), wait_for_device)
    speed = row.nbytes / seconds
    reached = [f"{1e-9 * speed:.0f}", f"{100 * speed / rate:.0f} %"] if row.nbytes else ["", ""]
    return [f"{first:.2f}", f"{1e3 * seconds:.3f}", *reached]


def launch_times(there, quick, end):
    """What a launch costs, from Python and from the host driver, as a sentence."""
    call, many = dlvm.jit(nothing, target="gpu"), dlvm.jit(launches, target="gpu")
    count = 10 if quick else 10000
    with until(end):
        call(there)
        many(there, 1)
        one = 1e6 * best(lambda: call(there), wait_for_device)
        each = 1e6 * best(lambda: many(there, count), wait_for_device) / count
    return (
        f"A call from Python that launches one kernel, and its end: {one:.1f} µs. "
        f"Each of {count} launches by the host driver: {each:.1f} µs."
    )


def table(quick, end=float("inf")):
    """(the lines of the table, the rows that failed). end: the time (perf_counter) when nothing more is begun."""
    size = np.zeros(1 << (10 if quick else 27))
    there = to_device(size)
    rate = 2 * size.nbytes / best(lambda: copied(there), wait_for_device)
    cells, failed = [], []

    def attempt(name, compute):
        """What is computed; None if that fails, which is no reason to lose the rest."""
        try:
            return compute()
        except Exception as error:
            failed.append(name)
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            return None

    for row in rows(quick):
        numbers = attempt(row.name, lambda row=row: timed(row, rate, end)) or ["fails", "", "", ""]
        cells.append([row.name, *numbers])
        print("|", " | ".join(cells[-1]), flush=True)
    said = attempt("launches", lambda: launch_times(there, quick, end)) or "Launches: failed."
    others = peers()
    for peer in others:
        for row, line in zip(rows(quick), cells, strict=True):
            line.append(by_peer(peer, row, end))
    head = ["program", "first call, s", "ms", "GB/s", "share of a copy", *(f"{peer.name}, ms" for peer in others)]
    lines = [f"| {' | '.join(line)} |" for line in (head, ["---", *["--:"] * (len(head) - 1)], *cells)]
    lines.append(f"\nA copy: {1e-9 * rate:.0f} GB/s. {said}")
    return lines, failed


def write(path, lines):
    """Put the table into a page, between its two marks."""
    text = path.read_text(encoding="utf-8")
    first, last = text.index(BEGIN) + len(BEGIN), text.index(END)
    path.write_text(text[:first] + "\n" + "\n".join(lines) + "\n" + text[last:], encoding="utf-8")


def main(arguments=None):
    """The whole check; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--minutes", type=float, default=7.5, help="when all stops, from the beginning")
    parser.add_argument("--jobs", type=int, help="processes that compare programs; 12, or as many as processors")
    parser.add_argument("--write", type=Path, help="the page that gets the table")
    options = parser.parse_args(arguments)
    end = time.perf_counter() + 60 * options.minutes
    os.environ["DLVM_CACHE"] = "0"  # what is compiled is timed
    try:
        on = device()
    except dlvm.DeviceError as error:
        print(f"make gpu-check needs a machine with an NVIDIA GPU. {error}", file=sys.stderr)
        return 2
    print(f"on {on.description}: {len(tasks())} calls of programs, and gradients, against the CPU", flush=True)
    wrong = disagreements(end, options.jobs or (1 if on.name == EMULATOR else min(12, os.cpu_count() or 1)))
    if wrong:
        print("not what the CPU gives:\n  " + "\n  ".join(wrong), file=sys.stderr)
        return 1
    found, failed = table(options.quick, end)
    lines = [f"On {on.description}, {datetime.date.today()}:\n", *found]
    print("\n".join(lines))
    if options.write and on.name != EMULATOR:
        write(options.write, lines)
    if failed:
        print("without a time: " + ", ".join(failed), file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
