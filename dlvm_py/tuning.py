"""`dlvm.jit(tune=True)`: the schedule of a version, by measurement instead of by the cost models.

    request ──▶ the usual version ──what LLVM and our passes could do otherwise──▶ one version each
            ──called in turns──▶ what gains, and all that gains together ──one against one──▶ the fastest

A schedule (options.Schedule) changes times and never results: tuned and untuned calls give the same bits, and a
candidate that does not, in the call that is measured, is dropped. What could be otherwise are options of LLVM, and the
decisions that our passes have taken in this program (decisions.py), of which each candidate changes one.

The fastest of many noisy times is often luck. So a candidate that was faster is measured again, in turns with the best
one so far, and has to win by its median, by its best time, and most turns.

The candidates are called with the arguments of the first call, and copies of the arrays among them that are written:
the user's are written once, by the call itself. The choice is kept in the disk cache, under a key of its own, so that
other processes measure nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from dlvm_py.frozen import as_dict, replace
from dlvm_py.options import Options, Schedule
from dlvm_py.request import Request
from dlvm_py.runtime import python_entry, threads
from dlvm_py.runtime.cache import Cache
from dlvm_py.runtime.version import Version

TURNS = 7
SECONDS = 0.5  # for all turns of all candidates; each has one at least
PAIRS, DUEL = 31, 1.0  # the most turns of one against one, and their seconds; at least three
CLEARLY = 0.97  # of the usual schedule's time: what is less than this faster is noise
MOSTLY = 0.75  # of the turns are won by what is faster
FINALISTS = 2  # of the candidates that gain, beside all of them together
HOPELESS = 1.5  # times the fastest: has no second turn
MOST = 12  # candidates that change a decision of ours
MAKING = 10.0  # seconds after which no further candidate is compiled

_OF_THREADS = ("threads.", "share_loops.")

Make = Callable[[Request], Version]
Schedules = Callable[[], Sequence[Schedule]]


def tuned(request: Request, values: Sequence[Any], make: Make, schedules: Schedules, cache: Cache | None) -> Request:
    """The request with the schedule that is fastest for these argument values.

    schedules: what LLVM could do otherwise. The request stays as it is where calls cannot be repeated (they print, draw
    random numbers, raise, or share memory).
    """
    # how many threads there are is no part of what code depends on, and decides what is fast
    key = f"{request.key()}-tuned-{threads.number()}" if cache is not None else ""
    known = cache.get(key) if cache is not None else None
    if known is not None:
        return _scheduled(request, Schedule.from_json(known[0]))
    best = _fastest(request, values, make, schedules)
    if best is None:
        return request
    if cache is not None:
        cache.put(key, as_dict(best), b"")
    return _scheduled(request, best)


def candidates(usual: Schedule, of_llvm: Iterable[Schedule], decided: Mapping[str, Sequence[int]]) -> list[Schedule]:
    """Schedules that differ from the usual one in one thing each.

    decided: what else the decisions of a program could be. The likeliest value of each comes before LLVM's options, and
    these before a second one. With one thread there is nothing to share.
    """
    alone = threads.number() == 1
    asked = {name: others for name, others in decided.items() if not alone or not name.startswith(_OF_THREADS)}
    rows = zip_longest(*([(name, value) for value in others] for name, others in asked.items()))
    changes = [change for change in chain.from_iterable(rows) if change is not None][:MOST]
    mine = [replace(usual, decisions=(change,)) for change in changes]
    return [*mine[: len(asked)], *of_llvm, *mine[len(asked) :]]


def together(usual: Schedule, gains: Sequence[Schedule]) -> Schedule:
    """What schedules change, all in one: of two that change the same the first one holds."""
    changed: dict[str, Any] = {}
    decisions: dict[str, int] = {}
    for schedule in gains:
        for name, value in as_dict(schedule).items():
            if name != "decisions" and value != getattr(usual, name):
                changed.setdefault(name, value)
        for name, value in schedule.decisions:
            decisions.setdefault(name, value)
    return replace(usual, **changed, decisions=tuple(decisions.items()))


def _scheduled(request: Request, schedule: Schedule) -> Request:
    options: Options = replace(request.options, schedule=schedule)
    return request._replace(options=options)


def _fastest(request: Request, values: Sequence[Any], make: Make, schedules: Schedules) -> Schedule | None:
    """The schedule of the fastest candidate; None if nothing can be measured."""
    version = make(request)
    found = python_entry.matched(version.call, values)
    if found is None or not version.call.repeatable or not _are_apart(version, values):
        return None
    usual = request.options.schedule
    try:
        measured = _Measured(version, found)
        versions = {usual: version}
        decided = version.facts.get("decisions", {})
        versions |= _others(request, versions, make, candidates(usual, schedules(), decided))
        times = measured.times(versions)
        if usual not in times:
            return None  # a call that takes more memory than a limited version may
        gains = [s for s in sorted(times, key=times.__getitem__) if times[s] < CLEARLY * times[usual]]
        more = _others(request, versions, make, [together(usual, gains)]) if len(gains) > 1 else {}
        versions, best = versions | measured.right(more), usual
        for challenger in (*gains[:FINALISTS], *more):
            if challenger in versions and measured.wins(versions[challenger], versions[best]):
                best = challenger
    except Exception:  # the call itself will raise it
        return None
    return best


def _others(
    request: Request, made: Mapping[Schedule, Version], make: Make, schedules: Sequence[Schedule]
) -> dict[Schedule, Version]:
    """The versions of other schedules, each code once; of the first ones, if there is no time for all."""
    seen = {version.facts["digest"] for version in made.values()}
    found: dict[Schedule, Version] = {}
    until = time.perf_counter() + MAKING
    for schedule in schedules:
        if time.perf_counter() > until:
            break
        version = make(_scheduled(request, schedule))
        if version.facts["digest"] not in seen:
            seen.add(version.facts["digest"])
            found[schedule] = version
    return found


class _Measured:
    """One call, again and again: its leaves, with copies of the arrays that it writes in their place."""

    def __init__(self, usual: Version, found: Sequence[Any]) -> None:
        # of one thread, other processes take no part of its time
        self.clock = time.thread_time if threads.number() == 1 else time.perf_counter
        self.kinds = tuple(usual.call.classes.values())
        self.given = list(found)
        self.written = [(k, found[k]) for k in usual.call.written]
        for k, array in self.written:
            self.given[k] = np.copy(array, order="K")
        seconds, self.result = self._called(usual)
        self.left = [np.copy(self.given[k]) for k, _ in self.written]
        self.is_known = seconds is not None

    def _called(self, version: Version) -> tuple[float | None, Any]:
        """Seconds, and the result; None where the version does not take the call."""
        for k, array in self.written:
            self.given[k][...] = array
        start = self.clock()
        try:
            result = python_entry.run_leaves(version, self.given)
        except python_entry.BeyondLimit:
            return None, None
        return self.clock() - start, result

    def _is_right(self, version: Version) -> bool:
        """Whether a version leaves the bits that the usual one leaves."""
        seconds, result = self._called(version)
        if seconds is None or not same_bits(result, self.result, self.kinds):
            return False
        return all(same_bits(self.given[k], left) for (k, _), left in zip(self.written, self.left, strict=True))

    def right(self, versions: Mapping[Schedule, Version]) -> dict[Schedule, Version]:
        """Those that give the right bits."""
        return {schedule: version for schedule, version in versions.items() if self._is_right(version)}

    def wins(self, challenger: Version, best: Version) -> bool:
        """Whether a version is clearly faster than another one, in turns."""
        seconds: tuple[list[float], list[float]] = ([], [])
        until = time.perf_counter() + DUEL
        for turn in range(PAIRS):
            pairs = list(zip((challenger, best), seconds, strict=True))
            for version, mine in pairs[:: 1 if turn % 2 else -1]:
                found, _ = self._called(version)
                if found is not None:
                    mine.append(found)
            if turn >= 2 and time.perf_counter() > until:
                break
        mine, theirs = seconds
        if sum(a < b for a, b in zip(mine, theirs, strict=False)) < MOSTLY * len(theirs):
            return False
        return all(of(mine) < CLEARLY * of(theirs) for of in (min, np.median))

    def times(self, versions: Mapping[Schedule, Version]) -> dict[Schedule, float]:
        """The least seconds of a call of each version that gives the right bits, called in turns.

        The first call of each, which touches its code and is compared, is not timed.
        """
        if not self.is_known:
            return {}
        left = self.right(versions)
        times: dict[Schedule, float] = {}
        for schedule, seconds in self._turns(left):
            times[schedule] = min(seconds, times.get(schedule, seconds))
            least = min(times.values())
            for hopeless in [s for s in left if times.get(s, 0.0) > HOPELESS * least]:
                del left[hopeless]
        return times

    def _turns(self, left: Mapping[Schedule, Version]) -> Iterator[tuple[Schedule, float]]:
        """(schedule, seconds of a call) of those that are left, turn by turn."""
        until = time.perf_counter() + SECONDS
        for _ in range(TURNS):
            for schedule in list(left):
                seconds, _ = self._called(left[schedule]) if schedule in left else (None, None)
                if seconds is not None:
                    yield schedule, seconds
            if time.perf_counter() > until:
                return


def same_bits(a: Any, b: Any, kinds: tuple[type, ...] = ()) -> bool:
    """Whether two results are the same: types, shapes, and the bits of numbers.

    kinds: classes whose instances are looked into. Other objects, such as what reads a tape, belong to their versions.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        same = a.shape == b.shape and a.dtype == b.dtype
        return same and np.array_equal(_bytes(a), _bytes(b))
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(same_bits(x, y, kinds) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return same_bits(list(a.items()), list(b.items()), kinds)
    if isinstance(a, kinds):
        names = (*getattr(type(a), "__slots__", ()), *getattr(a, "__dict__", ()))
        return all(same_bits(getattr(a, n), getattr(b, n), kinds) for n in names)
    is_plain = isinstance(a, int | float | complex | str | np.generic)
    return not is_plain or python_entry.same_constant(a, b)


def _bytes(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a).reshape(-1).view(np.uint8)


def _are_apart(version: Version, values: Sequence[Any]) -> bool:
    """Whether no written argument shares memory with another one: such calls have versions of their own."""
    return python_entry.overlapping(version.call, values, python_entry.read_captured(version.call)) is None
