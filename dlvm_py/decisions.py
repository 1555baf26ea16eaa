"""What passes decide by a cost model, and could decide otherwise without changing a bit of the results.

    rows = decisions.take("unroll_and_jam.rows", 4, (2, 8, 1))

A pass asks where it has found something to decide on: the name of the decision, the value that its cost model takes,
and the values that are close enough to be worth a measurement, the likeliest first. It gets the usual value, or the one
that a schedule gives (options.Schedule.decisions). What was asked is noted, so that a program in which nothing is
decided has nothing to be tuned (tuning.py).

One value is taken for all places of a program that ask for it: what there is to measure grows with the kinds of
decisions, not with the length of the program. A value is for one machine and the lengths of one call, and never for
correctness: each pass keeps results, to the bit, with any value that it offers. At the bottom of the import graph.
"""

from __future__ import annotations

from collections.abc import Iterable

NEVER = 1 << 62  # of a threshold
Taken = tuple[tuple[str, int], ...]  # decisions by name, with the values that they are to have


class Decisions:
    """The decisions of one compilation."""

    def __init__(self, given: Iterable[tuple[str, int]] = ()) -> None:
        self.given = dict(given)
        self.asked: dict[str, list[int]] = {}  # by name, what else it could be

    def take(self, name: str, usual: int, others: Iterable[int]) -> int:
        """The value of a decision: the usual one if none is given."""
        value = self.given.get(name, usual)
        self.asked[name] = [other for other in (usual, *others) if other != value]
        return value
