"""itertools, and what enumerate, zip, map and filter give of generators: generators, in the language that we compile.

Each pulls the items that CPython's pulls, at the same times, so that what making them does is done as often.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any


def current(items: Any) -> Iterator[Any]:
    """The items of a list, as long as there are any, while it changes."""
    k = 0
    while k < len(items):
        yield items[k]
        k += 1


def enumerate_(items: Any, start: int = 0) -> Iterator[Any]:
    """enumerate."""
    k = start
    for item in items:
        yield k, item
        k += 1


def zipped(before: Any, count_before: Any, items: Any, after: Any, count_after: Any) -> Iterator[Any]:
    """zip of one generator: the items at a place of what stands before and behind it, and how many there are."""
    k = 0
    if count_before is None or count_before > 0:
        for item in items:
            if count_after is not None:
                if k >= count_after:
                    return
            yield (*before(k), item, *after(k))
            k += 1
            if count_before is not None:
                if k >= count_before:
                    return


def filter_(function: Any, items: Any) -> Iterator[Any]:
    """filter."""
    for item in items:
        if function is None:
            if item:
                yield item
        elif function(item):
            yield item


def map_(function: Callable[..., Any], items: Any) -> Iterator[Any]:
    """map of one thing."""
    for item in items:
        yield function(item)


def starmap(function: Callable[..., Any], iterable: Any) -> Iterator[Any]:
    """itertools.starmap."""
    for item in iterable:
        yield function(*item)


def chain(*iterables: Any) -> Iterator[Any]:
    """itertools.chain."""
    for iterable in iterables:
        yield from iterable


def chained(iterable: Any) -> Iterator[Any]:
    """itertools.chain.from_iterable."""
    for inner in iterable:
        yield from inner


def count(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    """itertools.count."""
    while True:
        yield start
        start = start + step


def cycle(iterable: Any) -> Iterator[Any]:
    """itertools.cycle."""
    saved = []
    for item in iterable:
        yield item
        saved.append(item)
    while len(saved) > 0:
        yield from saved


def repeat(object: Any, times: Any = None) -> Iterator[Any]:  # noqa: A002 - as Python has it
    """itertools.repeat."""
    if times is None:
        while True:
            yield object
    for _ in range(times):
        yield object


def takewhile(predicate: Callable[[Any], Any], iterable: Any) -> Iterator[Any]:
    """itertools.takewhile."""
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Callable[[Any], Any], iterable: Any) -> Iterator[Any]:
    """itertools.dropwhile."""
    drops = True
    for item in iterable:
        if drops:
            drops = bool(predicate(item))
        if not drops:
            yield item


def filterfalse(predicate: Any, iterable: Any) -> Iterator[Any]:
    """itertools.filterfalse."""
    for item in iterable:
        if predicate is None:
            if not item:
                yield item
        elif not predicate(item):
            yield item


def compress(data: Any, selectors: Any) -> Iterator[Any]:
    """itertools.compress."""
    for item, selected in zip(data, selectors, strict=False):
        if selected:
            yield item


def pairwise(iterable: Any) -> Iterator[Any]:
    """itertools.pairwise."""
    is_first = True
    for item in iterable:
        if is_first:
            is_first, last = False, item
        else:
            before, last = last, item
            yield before, item


def accumulate(iterable: Any, func: Any = None, *, initial: Any = None) -> Iterator[Any]:
    """itertools.accumulate."""
    is_first = initial is None
    if initial is not None:
        total = initial
        yield total
    for item in iterable:
        if is_first:
            is_first = False
            total = item
        elif func is None:
            total = total + item
        else:
            total = func(total, item)
        yield total


def islice(iterable: Any, *bounds: Any) -> Any:
    """itertools.islice."""
    start, stop, step = 0, bounds[0], 1
    if len(bounds) > 1:
        start, stop = bounds[0], bounds[1]
        if start is None:
            start = 0
        if start < 0:
            raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if stop is not None:
        if stop < 0:
            if len(bounds) == 1:
                raise ValueError("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
            raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if len(bounds) > 2 and bounds[2] is not None:
        step = bounds[2]
        if step < 1:
            raise ValueError("Step for islice() must be a positive integer or None.")
    return _slice(iterable, start, stop, step)


def _slice(iterable: Any, start: int, stop: Any, step: int) -> Iterator[Any]:
    place, wanted = 0, start
    if stop is not None:
        if wanted == 0 and stop == 0:
            return
    for item in iterable:
        if place == wanted:
            place += 1
            yield item
            wanted += step
            if stop is not None:
                wanted = min(wanted, stop)
        else:
            place += 1
        if stop is not None:
            if place == wanted and place >= stop:
                return


FUNCTIONS = {
    itertools.starmap: starmap, itertools.chain.from_iterable: chained, itertools.count: count,
    itertools.cycle: cycle, itertools.repeat: repeat, itertools.takewhile: takewhile, itertools.islice: islice,
    itertools.dropwhile: dropwhile, itertools.filterfalse: filterfalse, itertools.compress: compress,
    itertools.pairwise: pairwise, itertools.accumulate: accumulate,
}  # fmt: skip
