"""heapq and bisect: heaps and sorted sequences of numbers, or of tuples of them.

A heap is a list in which no item is less than the one at half its place. What a list looks like after each call is as
in CPython: an item that is taken out leaves a hole, the smaller children move up until the hole is a leaf, and what
fills it moves down to its place from there.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable
from typing import Any


def _lower(heap: Any, first: int, place: int) -> None:
    """Move the item at a place towards the root, past all parents that are greater, not above `first`."""
    item = heap[place]
    while place > first:
        parent = (place - 1) // 2
        if not item < heap[parent]:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = item


def _fill(heap: Any, first: int) -> None:
    """Give the item at a place, which may be too great for it, a place among those below it."""
    count = len(heap)
    item, hole = heap[first], first
    child = 2 * hole + 1
    while child < count:
        if child + 1 < count and not heap[child] < heap[child + 1]:
            child += 1
        heap[hole] = heap[child]
        hole = child
        child = 2 * hole + 1
    heap[hole] = item
    _lower(heap, first, hole)


def heappush(heap: Any, item: Any) -> None:
    """heapq.heappush."""
    heap.append(item)
    _lower(heap, 0, len(heap) - 1)


def heappop(heap: Any) -> Any:
    """heapq.heappop."""
    if len(heap) == 0:
        raise IndexError("index out of range")
    last = heap.pop()
    if len(heap) == 0:
        return last
    least = heap[0]
    heap[0] = last
    _fill(heap, 0)
    return least


def heapreplace(heap: Any, item: Any) -> Any:
    """heapq.heapreplace."""
    if len(heap) == 0:
        raise IndexError("index out of range")
    least = heap[0]
    heap[0] = item
    _fill(heap, 0)
    return least


def heappushpop(heap: Any, item: Any) -> Any:
    """heapq.heappushpop."""
    if len(heap) > 0:
        if heap[0] < item:
            least = heap[0]
            heap[0] = item
            _fill(heap, 0)
            return least
    return item


def heapify(x: Any) -> None:
    """heapq.heapify."""
    for place in range(len(x) // 2 - 1, -1, -1):
        _fill(x, place)


def nsmallest(n: int, iterable: Any, key: Any = None) -> Any:
    """heapq.nsmallest."""
    return sorted(iterable, key=key)[: max(n, 0)]


def nlargest(n: int, iterable: Any, key: Any = None) -> Any:
    """heapq.nlargest."""
    return sorted(iterable, key=key, reverse=True)[: max(n, 0)]


def _place(a: Any, x: Any, lo: int, hi: Any, key: Callable[[Any], Any] | None, is_after: bool) -> int:
    """Where x belongs in a sequence that is in order: before what equals it, or after it."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    low, high = lo, len(a) if hi is None else hi
    while low < high:
        middle = (low + high) // 2
        found = a[middle] if key is None else key(a[middle])
        if not (x < found) if is_after else found < x:
            low = middle + 1
        else:
            high = middle
    return low


def bisect_left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Callable[[Any], Any] | None = None) -> int:
    """bisect.bisect_left."""
    return _place(a, x, lo, hi, key, False)


def bisect_right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Callable[[Any], Any] | None = None) -> int:
    """bisect.bisect_right, bisect.bisect."""
    return _place(a, x, lo, hi, key, True)


def insort_left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Callable[[Any], Any] | None = None) -> None:
    """bisect.insort_left."""
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Callable[[Any], Any] | None = None) -> None:
    """bisect.insort_right, bisect.insort."""
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


FUNCTIONS = {
    heapq.heappush: heappush, heapq.heappop: heappop, heapq.heapreplace: heapreplace,
    heapq.heappushpop: heappushpop, heapq.heapify: heapify, heapq.nsmallest: nsmallest, heapq.nlargest: nlargest,
    bisect.bisect_left: bisect_left, bisect.bisect_right: bisect_right, bisect.insort_left: insort_left,
    bisect.insort_right: insort_right,
}  # fmt: skip
