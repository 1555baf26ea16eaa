"""Minimum vertex cut: the cheapest vertices that separate what is at hand from what is wanted.

Every path from a source to a sink passes a vertex of the cut; the sum of the weights of the cut is the least possible.
Of several such cuts it is the one nearest to the sinks. Each vertex is an edge with its weight as capacity, and the
cut is that of a maximum flow. Source: Dinitz's algorithm (1970); Ford and Fulkerson (1956) for the cut.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

V = TypeVar("V", bound=Hashable)

_UNBOUNDED = 1 << 62


class _Network:
    """Edges by number: an edge and the one back are 2k and 2k + 1."""

    def __init__(self, count: int) -> None:
        self.out: list[list[int]] = [[] for _ in range(count)]
        self.head: list[int] = []
        self.room: list[int] = []

    def add(self, tail: int, head: int, capacity: int) -> None:
        """An edge of this capacity."""
        for a, b, room in ((tail, head, capacity), (head, tail, 0)):
            self.out[a].append(len(self.head))
            self.head.append(b)
            self.room.append(room)

    def saturate(self, source: int, sink: int) -> None:
        """Send as much from `source` to `sink` as there is room for."""
        while True:
            level = self._levels(source)
            if sink not in level:
                return
            at = [0] * len(self.out)
            while self._augment(source, sink, level, at):
                pass

    def _levels(self, source: int) -> dict[int, int]:
        level = {source: 0}
        for v in (order := [source]):
            for e in self.out[v]:
                if self.room[e] and self.head[e] not in level:
                    level[self.head[e]] = level[v] + 1
                    order.append(self.head[e])
        return level

    def _augment(self, source: int, sink: int, level: dict[int, int], at: list[int]) -> bool:
        """One path along the levels, found by going forward and back; `at`: the edge of each vertex to try next."""
        path: list[int] = []
        v = source
        while v != sink:
            while at[v] < len(self.out[v]):
                e = self.out[v][at[v]]
                if self.room[e] and level.get(self.head[e]) == level[v] + 1:
                    break
                at[v] += 1
            else:
                if not path:
                    return False
                v = self.head[path.pop() ^ 1]
                at[v] += 1
                continue
            path.append(e)
            v = self.head[e]
        amount = min(self.room[e] for e in path)
        for e in path:
            self.room[e] -= amount
            self.room[e ^ 1] += amount
        return True

    def leading_to(self, sink: int) -> set[int]:
        """The vertices from which there is room all the way to `sink`."""
        found = {sink}
        for v in (order := [sink]):
            for e in self.out[v]:
                if self.room[e ^ 1] and self.head[e] not in found:
                    found.add(self.head[e])
                    order.append(self.head[e])
        return found


def minimum_cut(
    weights: Mapping[V, int], edges: Iterable[tuple[V, V]], sources: Iterable[V], sinks: Iterable[V]
) -> set[V]:
    """The vertices of a cheapest cut between `sources` and `sinks`, which may be sources or sinks themselves."""
    number = {v: 2 * k for k, v in enumerate(weights)}
    source, sink = 2 * len(number), 2 * len(number) + 1
    network = _Network(2 * len(number) + 2)
    for v, weight in weights.items():
        network.add(number[v], number[v] + 1, weight)
    for v, w in edges:
        network.add(number[v] + 1, number[w], _UNBOUNDED)
    for v in sources:
        network.add(source, number[v], _UNBOUNDED)
    for v in sinks:
        network.add(number[v] + 1, sink, _UNBOUNDED)
    network.saturate(source, sink)
    behind = network.leading_to(sink)
    return {v for v, n in number.items() if n + 1 in behind and n not in behind}
