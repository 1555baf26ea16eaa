"""`dlvm.jit(tune=True)`: the schedule of a version, by measurement instead of by the cost model.

    request ──▶ requests with other schedules ──one version each, called in turns──▶ the fastest

A schedule (options.Schedule) changes times and never results: tuned and untuned calls give the same bits. The
candidates are called with the arguments of the first call; what they write is put back after each one. The choice is
kept in the disk cache, under a key of its own, so that other processes measure nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dlvm_py.frozen import as_dict, replace
from dlvm_py.options import Options, Schedule
from dlvm_py.request import Request
from dlvm_py.runtime import python_entry
from dlvm_py.runtime.cache import Cache
from dlvm_py.runtime.version import Version

TURNS = 7
SECONDS = 0.5  # for all turns of all candidates; each has one at least
CLEARLY = 0.97  # of the usual schedule's time: what is less than this faster is noise

Make = Callable[[Request], Version]
Schedules = Callable[[], Sequence[Schedule]]


def tuned(request: Request, values: Sequence[Any], make: Make, schedules: Schedules, cache: Cache | None) -> Request:
    """The request with the schedule, of `schedules`, that is fastest for these argument values.

    It stays as it is where calls cannot be repeated (they print, draw random numbers, raise, or share memory).
    """
    key = f"{request.key()}-tuned" if cache is not None else ""
    known = cache.get(key) if cache is not None else None
    if known is not None:
        return _scheduled(request, Schedule(**known[0]))
    best = _fastest(request, values, make, schedules)
    if best is None:
        return request
    if cache is not None:
        cache.put(key, as_dict(best), b"")
    return _scheduled(request, best)


def _scheduled(request: Request, schedule: Schedule) -> Request:
    options: Options = replace(request.options, schedule=schedule)
    return request._replace(options=options)


def _fastest(request: Request, values: Sequence[Any], make: Make, schedules: Schedules) -> Schedule | None:
    """The schedule of the fastest candidate; None if nothing can be measured."""
    usual = make(request)
    found = python_entry.matched(usual.call, values)
    if found is None or not usual.call.repeatable or not _are_apart(usual, values):
        return None
    first = request.options.schedule
    versions = [(first, usual), *_others(request, usual, make, schedules())]
    written = [found[k] for k in usual.call.written]
    saved = [np.copy(a, order="K") for a in written]
    times: dict[Schedule, float] = {}
    try:
        for schedule, seconds in _turns(versions, values, lambda: _restore(written, saved)):
            times[schedule] = min(seconds, times.get(schedule, seconds))
    except Exception:  # the call itself will raise it
        return None
    finally:
        _restore(written, saved)
    if first not in times:
        return None  # a call that takes more memory than a limited version may
    best = min(times, key=times.__getitem__)
    return best if times[best] < CLEARLY * times[first] else first


def _others(
    request: Request, usual: Version, make: Make, schedules: Sequence[Schedule]
) -> Iterator[tuple[Schedule, Version]]:
    """The other candidates, each code once."""
    seen = {usual.facts["digest"]}
    for schedule in schedules:
        version = make(_scheduled(request, schedule))
        if version.facts["digest"] not in seen:
            seen.add(version.facts["digest"])
            yield schedule, version


def _turns(
    versions: Iterable[tuple[Schedule, Version]], values: Sequence[Any], restore: Callable[[], None]
) -> Iterator[tuple[Schedule, float]]:
    """(schedule, seconds of a call), the candidates in turns; the first round, which touches the code, is not timed."""
    versions, until = list(versions), None
    for turn in range(TURNS + 1):
        for schedule, version in versions:
            restore()
            start = time.perf_counter()
            handled, _ = python_entry.attempt(version, values)
            seconds = time.perf_counter() - start
            if turn and handled:
                yield schedule, seconds
        if until is None:
            until = time.perf_counter() + SECONDS
        elif time.perf_counter() > until:
            return


def _restore(written: Sequence[Any], saved: Sequence[np.ndarray]) -> None:
    for array, contents in zip(written, saved, strict=True):
        array[...] = contents


def _are_apart(version: Version, values: Sequence[Any]) -> bool:
    """Whether no written argument shares memory with another one: such calls have versions of their own."""
    return python_entry.overlapping(version.call, values, python_entry.read_captured(version.call)) is None
