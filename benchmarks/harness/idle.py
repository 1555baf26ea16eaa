"""Waiting for the threads that a call leaves behind.

OpenBLAS's look for more work for 0.1 s after a product, on the core that whoever is measured next would use.
"""

import contextlib
import threading
import time
from pathlib import Path


def until_idle(most=0.5):
    """Wait until no other thread of this process runs, at most so many seconds; only Linux can say."""
    until = time.perf_counter() + most
    while _others_run() and time.perf_counter() < until:
        time.sleep(0.002)


def _others_run():
    me = str(threading.get_native_id())
    with contextlib.suppress(OSError):  # a thread may end meanwhile
        for task in Path("/proc/self/task").iterdir():
            if task.name != me and (task / "stat").read_text().rpartition(") ")[2].startswith("R"):
                return True
    return False
