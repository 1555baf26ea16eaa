"""Sets and dicts of numbers, and of tuples of numbers: what came, in its order, and a table of the places of that.

The table has open addressing and is never fuller than a half, so that finding, adding and taking out cost the same
whatever there is in it; an item that is taken out leaves a mark behind. In a set the last item takes its place. A dict
keeps the order: what is taken out stays there, dead, until all that is live moves together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

_FREE, _GONE = -1, -2


@dataclass
class Set:
    """What a set holds: its items, the places of these by their hashes, and how many places are or were taken."""

    items: list[Any]
    slots: np.ndarray[Any, Any]
    taken: int


Set.__name__ = Set.__qualname__ = "set"  # as it is called in errors


@dataclass
class Dict:
    """What a dict holds: as a set its keys, each with a value at the same place; how many of them are live."""

    items: list[Any]
    slots: np.ndarray[Any, Any]
    taken: int
    values: list[Any]
    count: int


Dict.__name__ = Dict.__qualname__ = "dict"


def empty() -> Any:
    """set()."""
    return Set([], np.full(16, _FREE), 0)


def empty_dict() -> Any:
    """{}."""
    return Dict([], np.full(16, _FREE), 0, [], 0)


def filled(items: Any, values: Any) -> Any:
    """A dict of these keys, which all differ, and values."""
    d = Dict(items, np.full(16, _FREE), 0, values, len(items))
    _grow(d)
    return d


def hash_of(x: Any) -> Any:
    """An int that is the same for equal numbers."""
    if isinstance(x, tuple):
        found = 7
        for part in x:
            found = (found * 31 + hash_of(part)) & 0xFFFFFFFFFF
        return found
    if isinstance(x, (float, np.floating)):
        value = float(x)  # no NaN
        if math.isinf(value):
            return 1
        if abs(value) < 9e18 and value == math.floor(value):
            number = int(value)
        else:
            fraction, exponent = math.frexp(value)
            number = int(fraction * 9007199254740992.0) ^ (exponent * 0x9E3779B1)
    else:
        number = int(x)
    # two multiplications of 31 bits by 32, which an int of 64 bits takes, each followed by its own upper bits
    mixed = (number & 0x7FFFFFFF) * 0x9E3779B1
    mixed = ((mixed ^ (mixed >> 31) ^ (number >> 31)) & 0x7FFFFFFF) * 0x85EBCA6B
    return (mixed ^ (mixed >> 29) ^ (number >> 62)) & 0xFFFFFFFFFF


def _slot_of(s: Any, x: Any) -> Any:
    """The slot of an item; if it is not there, the free one where the search for it ends."""
    mask = len(s.slots) - 1
    k = hash_of(x) & mask
    while s.slots[k] != _FREE:
        place = int(s.slots[k])
        if place >= 0 and s.items[place] == x:
            break
        k = (k + 1) & mask
    return k


def find(s: Any, x: Any) -> Any:
    """Where an item stands among the items, -1 if it is not there."""
    if not s.items:
        return -1
    return int(s.slots[_slot_of(s, x)])


def add(s: Any, x: Any) -> None:
    """s.add(x)."""
    if 2 * (s.taken + 1) > len(s.slots):
        _grow(s)
    k = _slot_of(s, x)
    if s.slots[k] == _FREE:
        s.slots[k] = len(s.items)
        s.items.append(x)
        s.taken += 1


def _grow(s: Any) -> None:
    """A table four times as long as there are items, without marks."""
    size = 16
    while size < 4 * (len(s.items) + 1):
        size *= 2
    s.slots = np.full(size, _FREE)
    for place in range(len(s.items)):
        k = hash_of(s.items[place]) & (size - 1)
        while s.slots[k] != _FREE:
            k = (k + 1) & (size - 1)
        s.slots[k] = place
    s.taken = len(s.items)


def discard(s: Any, x: Any) -> Any:
    """s.discard(x); whether it was there."""
    place = find(s, x)
    if place >= 0:
        last = len(s.items) - 1
        k = _slot_of(s, x)
        s.slots[_slot_of(s, s.items[last])] = place
        s.slots[k] = _GONE
        s.items[place] = s.items[last]
        s.items.pop()
    return place >= 0


def update(s: Any, items: Any) -> None:
    """Add all items of a list."""
    for x in items:
        add(s, x)


def take(s: Any, other: Any) -> None:
    """Add all items of another set."""
    for x in other.items:
        add(s, x)


def keep(s: Any, a: Any, b: Any, wanted: Any) -> None:
    """Add to s what is in the set a, and what is in the set b too, or is not."""
    for x in a.items:
        if (find(b, x) >= 0) == wanted:
            add(s, x)


def is_within(a: Any, b: Any) -> Any:
    """Whether all items of the set a are in the set b."""
    found = True
    for x in a.items:
        if find(b, x) < 0:
            found = False
            break
    return found


def put(d: Any, x: Any, value: Any) -> None:
    """d[x] = value."""
    if 2 * (d.taken + 1) > len(d.slots):
        dense(d)
        _grow(d)
    k = _slot_of(d, x)
    place = int(d.slots[k])
    if place == _FREE:
        d.slots[k] = len(d.items)
        d.items.append(x)
        d.values.append(value)
        d.taken += 1
        d.count += 1
    else:
        d.values[place] = value


def delete(d: Any, x: Any) -> None:
    """del d[x] of a key that is there."""
    d.slots[_slot_of(d, x)] = _GONE
    d.count -= 1


def dense(d: Any) -> None:
    """Let only what is live stand in the lists of a dict, in the order in which it came."""
    if d.count < len(d.items):
        is_live = np.zeros(len(d.items), dtype=bool)
        for place in d.slots:
            if place >= 0:
                is_live[place] = True
        count = 0
        for place in range(len(d.items)):
            if is_live[place]:
                if count < place:
                    d.items[count] = d.items[place]
                    d.values[count] = d.values[place]
                count += 1
        while len(d.items) > count:
            d.items.pop()
            d.values.pop()
        _grow(d)


def merge(d: Any, other: Any) -> None:
    """d.update(other) of two dicts, the second of which has no dead items."""
    for place in range(len(other.items)):
        put(d, other.items[place], other.values[place])


def clear(d: Any) -> None:
    """d.clear()."""
    d.items.clear()
    d.values.clear()
    d.slots[:] = _FREE
    d.taken = 0
    d.count = 0


# functions of the compiled module, with which their calls share one body
SHARED = frozenset({find, add, _grow, discard, update, take, keep, is_within, put, delete, dense, merge, clear})
