"""The first source line whose value or derivative departs from plain Python's.

Plain Python runs a few times and gives the value of every name behind every statement, and by differences their
derivatives along one direction. Then the function is cut off behind each statement (statements.py), compiled, and its
value, tangent and gradient are compared. What departs first, in the order of execution, is to blame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from dlvm_py.checking.differences import Difference, difference
from dlvm_py.checking.leaves import is_float, like, vector
from dlvm_py.checking.statements import Site, Statements
from dlvm_py.dispatch import compiled_function
from dlvm_py.errors import DLError, Loc
from dlvm_py.options import Options
from dlvm_py.recipe import Primal, gradient, tangent

MOST_EVENTS, MOST_PASSAGES, MOST_SITES = 4000, 3, 60

Key = tuple[int, int]  # of a site, its n-th passage


@dataclass(frozen=True, slots=True)
class Departure:
    """A line, the name whose value or derivative departs there, and how: "value", "forward" or "reverse"."""

    loc: Loc
    name: str
    how: str


@dataclass(frozen=True, slots=True)
class _Events:
    """What plain Python passes, in order: which site for which time, and where its value lies in the vector of all."""

    places: dict[Key, slice]
    values: np.ndarray
    changes: Difference | None


def first_departure(
    function: FunctionType,
    args: Callable[[float], tuple[Any, ...]],
    direction: tuple[np.ndarray, ...] | None,
    wrt: tuple[int, ...],
    options: Options,
    tolerance: float,
    scale: float = 1.0,
) -> Departure | None:
    """The first departure; None if there is none, or the function has no statements that can be cut.

    args: fresh arguments, moved by t along the direction. direction: one vector for each of `wrt`; None: compare values
    only. tolerance: relative. scale: of the steps of differences.
    """
    try:
        statements = Statements(function)
    except (OSError, TypeError, SyntaxError):
        return None
    events = _events(statements, args, None if direction is None else scale)
    order = list(events.places)
    first_seen = {s: order.index(key) for key in reversed(order) for s in [key[0]]}
    best, found = len(order), None
    for index in sorted(first_seen, key=first_seen.__getitem__)[:MOST_SITES]:
        if first_seen[index] >= best:
            break
        site = statements.sites[index]
        for key in (k for k in order if k[0] == index and order.index(k) < best):
            how = _departs(statements, site, key, events, args, direction, wrt, options, tolerance)
            if how is not None:
                loc = Loc(function.__code__.co_filename, site.line)
                name = "the result" if site.name.startswith("__") else f"'{site.name}'"
                best, found = order.index(key), Departure(loc, name, how)
                break
    return found


def _events(statements: Statements, args: Callable[[float], tuple[Any, ...]], scale: float | None) -> _Events:
    taken: list[tuple[Key, np.ndarray]] = []
    counts: Counter[int] = Counter()

    def record(site: int, value: Any) -> None:
        counts[site] += 1
        if is_float(value) and len(taken) < MOST_EVENTS:
            taken.append(((site, counts[site]), vector(value)))

    run = statements.recording(record)

    def pass_through(t: float) -> dict[Key, np.ndarray]:
        taken.clear()
        counts.clear()
        with np.errstate(all="ignore"):
            try:
                run(*args(t))
            except Exception:  # noqa: BLE001 - the events before it are what is wanted
                pass
        return dict(taken)

    base = pass_through(0.0)
    last = {site: n for site, n in base}
    kept = {key: v for key, v in base.items() if key[1] <= MOST_PASSAGES or key[1] == last[key[0]]}
    places, at = {}, 0
    for key, values in kept.items():
        places[key] = slice(at, at + len(values))
        at += len(values)

    def joined(t: float) -> np.ndarray:
        now = pass_through(t)
        found = np.full(at, np.nan)
        for key, place in places.items():
            if key in now and len(now[key]) == place.stop - place.start:
                found[place] = now[key]
        return found

    changes = difference(joined, scale) if scale is not None and at else None
    return _Events(places, np.concatenate([np.zeros(0), *kept.values()]), changes)


def _departs(
    statements: Statements,
    site: Site,
    key: Key,
    events: _Events,
    args: Callable[[float], tuple[Any, ...]],
    direction: tuple[np.ndarray, ...] | None,
    wrt: tuple[int, ...],
    options: Options,
    tolerance: float,
) -> str | None:
    """How the compiled function departs at one passage of a site, None if it does not or cannot be told."""
    place = events.places[key]
    want = events.values[place]
    cut = statements.cut(site)
    try:
        given = (*args(0.0), key[1])
        if direction is None:
            got = vector(compiled_function(Primal(cut), options)(*given))
            return None if _near(got, want, tolerance) else "value"
        tangents = tuple(like(given[k], d) for k, d in zip(wrt, direction, strict=True))
        value, change = compiled_function(tangent(Primal(cut), wrt, (0,)), options)(*given, *tangents)
        if not _near(vector(value), want, tolerance):
            return "value"
        assert events.changes is not None
        judged = events.changes.conclusive(tolerance)[place] & ~events.changes.kink[place]
        expected = np.where(judged, events.changes.value[place], 0.0)
        slack = tolerance * np.maximum(1.0, np.abs(expected)) + 20.0 * np.where(
            judged, events.changes.error[place], 0.0
        )
        moved = np.where(judged, vector(change), 0.0)
        if not np.all(np.abs(moved - expected) <= slack):
            return "forward"
        weights = np.where(judged, 1.0, 0.0)
        pulled = compiled_function(gradient(Primal(cut), wrt, None, True, (0,)), options)(*given, like(value, weights))
        through = sum(float(vector(g) @ d) for g, d in zip(pulled, direction, strict=True))
        if not abs(through - float(np.sum(expected))) <= float(np.sum(slack)) + tolerance * float(
            np.sum(np.abs(expected))
        ):
            return "reverse"
    except (DLError, ArithmeticError, LookupError, ValueError, RuntimeError):
        return None  # a place where the function cannot be cut
    return None


def _near(got: np.ndarray, want: np.ndarray, tolerance: float) -> bool:
    with np.errstate(all="ignore"):
        return got.shape == want.shape and bool(np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True))
