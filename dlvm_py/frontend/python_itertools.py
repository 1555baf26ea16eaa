"""itertools: of what has a constant length, written out; products of any lengths, one counter for a nest of loops.

What gives its items one by one is a generator of the library (library/streams.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import objects, records
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.folds import tuple_
from dlvm_py.frontend.iterate import iteration_of
from dlvm_py.frontend.library import streams
from dlvm_py.frontend.library_calls import library_table
from dlvm_py.frontend.values import Iteration, Scalar, Sequence, is_none
from dlvm_py.ir.value import integer

_MOST = 4096  # tuples that are written out


def _listed(e: Emitter, name: str, count: int, found: Iterator[tuple[Any, ...]]) -> Sequence:
    if count > _MOST:
        e.error(
            UnsupportedSyntax, f"itertools.{name} of more than {_MOST} tuples is not supported", help="write loops"
        )  # fmt: skip
    return Sequence(tuple(Sequence(items) for items in found), is_list=True)


def _constant(e: Emitter, value: Any, what: str) -> int:
    found = value.number if isinstance(value, Scalar) else None
    if not isinstance(found, int) or found < 0:
        e.error(UnsupportedSyntax, f"{what} must be a constant int, not negative")
    return found


def product(e: Emitter, *iterables: Any, repeat: Any = None) -> Any:
    """itertools.product: the last one changes fastest."""
    times = 1 if repeat is None else _constant(e, repeat, "`repeat`")
    held = [records.iterated(objects.contents(e, x)) for x in iterables] * times
    counts = [len(x.items) if isinstance(x, Sequence) else integer(iteration_of(e, x).count) for x in held]
    if all(n is not None for n in counts) and math.prod(n or 0 for n in counts) <= _MOST:
        items = [tuple_(e, x).items for x in held]
        return _listed(e, "product", math.prod(map(len, items)), itertools.product(*items))
    loops = [iteration_of(e, x) for x in held]

    def item(k: Any) -> Sequence:
        found: list[Any] = []
        for loop in reversed(loops):
            found.insert(0, loop.item(e.pure("modulo", k, loop.count)))
            k = e.pure("floorDivide", k, loop.count)
        return Sequence(tuple(found))

    return Iteration(e.product(tuple(loop.count for loop in loops)), item)


def _chosen(function: Callable[..., Any], count: Callable[[int, int], int]) -> Callable[..., Any]:
    def rule(e: Emitter, iterable: Any, r: Any = None) -> Any:
        items = tuple_(e, iterable).items
        if is_none(r) or r is None:
            if function is not itertools.permutations:
                e.error(TypeMismatch, f"itertools.{function.__name__} needs how many are taken")
            size = len(items)
        else:
            size = _constant(e, r, "how many are taken")
        return _listed(e, function.__name__, count(len(items), size), function(items, size))

    return rule


def chain(e: Emitter, *iterables: Any) -> Any:
    """itertools.chain: one behind the other."""
    held = [records.iterated(objects.contents(e, x)) for x in iterables]
    if not all(isinstance(x, Sequence) for x in held):
        return e.session.library(e, streams.chain, list(iterables), {})
    return Sequence(tuple(x for some in iterables for x in tuple_(e, some).items), is_list=True)


ITERTOOLS: dict[Any, Callable[..., Any]] = {
    itertools.product: product,
    itertools.chain: chain,
    itertools.permutations: _chosen(itertools.permutations, math.perm),
    itertools.combinations: _chosen(itertools.combinations, math.comb),
    itertools.combinations_with_replacement: _chosen(
        itertools.combinations_with_replacement, lambda n, r: math.comb(n + r - 1, r) if n + r else 1
    ),
    **library_table(streams.FUNCTIONS),
}
