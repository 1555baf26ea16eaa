"""Functions that are called in turns in one process, and the least time of each."""

import time

BATCH = 1e-4  # seconds: the clock of CPU time is a system call


def least_times(functions, arguments, seconds, clock):
    """The least time of a call of each, which take turns until the seconds are over.

    arguments(count) gives the arguments of so many calls, made before the clock starts.
    """
    least, counts = [], []
    for f in functions:
        (given,) = arguments(1)
        start = clock()
        f(*given)
        took = clock() - start
        least.append(took)
        counts.append(max(1, round(BATCH / max(took, 1e-7))))
    until = time.perf_counter() + seconds
    while True:
        for k, f in enumerate(functions):
            batch = arguments(counts[k])
            start = clock()
            for given in batch:
                f(*given)
            took = (clock() - start) / counts[k]
            least[k] = min(least[k], took)
            counts[k] = max(1, round(BATCH / max(least[k], 1e-7)))
        if time.perf_counter() > until:
            return least
