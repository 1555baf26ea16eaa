"""Built-in functions that run over all items of anything that can be looped over: sum, min, max, any, all, sorted, map.

A tuple, a list of constant length and a generator expression over these are unrolled; the rest are loops.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any

import gast
import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import lists, objects, operators, overloads, records
from dlvm_py.frontend.arrays import materialise
from dlvm_py.frontend.elementwise import astype
from dlvm_py.frontend.emit import Emitter, Unreachable, i64
from dlvm_py.frontend.growing import as_array
from dlvm_py.frontend.iterate import iteration_of, zip_
from dlvm_py.frontend.joins import join
from dlvm_py.frontend.library import mathematics, streams
from dlvm_py.frontend.library.joining import first_items
from dlvm_py.frontend.mixed import chosen
from dlvm_py.frontend.numpy_create import array, as_dtype
from dlvm_py.frontend.operators import weak
from dlvm_py.frontend.sorting import comparable, ordered, real_number
from dlvm_py.frontend.value_types import ScalarType, type_of
from dlvm_py.frontend.values import (
    Array,
    Generator,
    Growing,
    Iteration,
    Object,
    Record,
    Scalar,
    Sequence,
    Static,
    Temp,
    describe,
    is_none,
)
from dlvm_py.ir import I64, Literal, Value, literal
from dlvm_py.ir.value import integer

Action = Callable[[Any], None]
_NOTHING = "reduce() of empty iterable with no initial value"
_MAX_TUPLE = 64  # items of a tuple that is made of a range


def run(e: Emitter, items: Any, action: Action, goes_on: Callable[[], Value] | None = None) -> None:
    """Translate an action for every item, as long as `goes_on` says so."""
    held = records.iterated(objects.contents(e, items))
    if isinstance(held, Generator):
        held.run(action, goes_on)
        return

    def guarded(item: Any) -> None:
        flag = literal(True) if goes_on is None else goes_on()
        if not isinstance(flag, Literal):
            e.frame.branches(flag, lambda: action(item), lambda: None)
        elif flag.value:
            action(item)

    if isinstance(held, Sequence):
        for item in held.items:
            guarded(item)
        return
    source = held if isinstance(held, Growing | Iteration) else materialise(e, held)
    e.frame.for_each(iteration_of(e, source), guarded, "fold")


def sum_(e: Emitter, items: Any, start: Any = None) -> Any:
    """sum: from left to right."""
    first = weak(i64(0)) if start is None else start

    held = objects.contents(e, items)
    if isinstance(held, Array | Temp) and held.rank > 1:
        e.error(UnsupportedSyntax, f"sum() of {describe(held)} is not supported", help="use np.sum(x, axis=0)")

    def over(update: Any, now: Any) -> None:
        run(e, items, lambda item: update(lambda total: _plus(e, total, item)))

    return e.frame.accumulate(first, over)


def product(e: Emitter, items: Any, *, start: Any = None) -> Any:
    """math.prod: from left to right."""

    def times(total: Any, item: Any) -> Any:
        return operators.binary(e, gast.Mult, objects.resolved(e, total), objects.resolved(e, item))

    def over(update: Any, now: Any) -> None:
        run(e, items, lambda item: update(lambda total: times(total, item)))

    return e.frame.accumulate(weak(i64(1)) if start is None else start, over)


def exact_sum(e: Emitter, seq: Any) -> Any:
    """math.fsum."""
    return e.session.library(e, mathematics.fsum, [list_(e, seq)], {})


def _plus(e: Emitter, total: Any, item: Any) -> Any:
    found = overloads.binary(e, gast.Add, total, item) if isinstance(item, Object | Record) else None
    if found is not None:
        return found
    return operators.binary(e, gast.Add, objects.resolved(e, total), objects.resolved(e, item))


def _decided(stop_on: bool) -> Callable[[Emitter, Any], Any]:
    def function(e: Emitter, items: Any) -> Any:
        def over(update: Any, now: Any) -> None:
            def goes_on() -> Value:
                return operators.unary(e, gast.Not, now()).value if stop_on else now().value

            def decide(item: Any) -> None:
                flag = operators.condition(e, objects.resolved(e, item))
                update(lambda _: weak(flag))

            run(e, items, decide, goes_on)

        return e.frame.accumulate(weak(literal(not stop_on)), over)

    return function


def _extreme(name: str, kind: type) -> Callable[..., Any]:
    def function(e: Emitter, *args: Any, key: Any = None, default: Any = None) -> Any:
        best = _best if is_none(key) else _best_by(key)
        if len(args) != 1:
            if default is not None:
                e.error(TypeMismatch, f"Cannot specify a default for {name}() with multiple positional arguments")
            return best(e, name, kind, list(args))
        held = records.iterated(objects.contents(e, args[0]))
        if isinstance(held, Generator):
            made = objects.new(e, Sequence((), is_list=True))
            held.run(lambda item: lists.append(e, made, item))
            held = objects.contents(e, made)
        if isinstance(held, Sequence):
            if not held.items and default is not None:
                return default
            return best(e, name, kind, [objects.resolved(e, i) for i in held.items])
        source = held if isinstance(held, Growing | Iteration) else materialise(e, held)
        iteration = iteration_of(e, source)
        fine = e.compare("lessThan", i64(0), iteration.count)
        if default is None:
            e.check(fine, "ValueError", f"{name}() arg is an empty sequence")
            return _extreme_of(e, name, kind, iteration, key)
        return e.frame.choose_value(fine, lambda: _extreme_of(e, name, kind, iteration, key), lambda: default)

    return function


def _extreme_of(e: Emitter, name: str, kind: type, iteration: Iteration, key: Any) -> Any:
    """The extreme of what is there, the first of equal ones."""
    rest = Iteration(e.offset(iteration.count, -1), lambda k: iteration.item(e.offset(k, 1)))
    first = iteration.item(i64(0))
    keyed = not is_none(key) or isinstance(first, Sequence)

    def step(best: Any, item: Any) -> Any:
        return _nearer(e, kind, best, _with_key(e, name, key, item)) if keyed else _best(e, name, kind, [best, item])

    def over(update: Any, now: Any) -> None:
        run(e, rest, lambda item: update(lambda best: step(best, item)))

    if not keyed:
        return e.frame.accumulate(first, over)
    return e.frame.accumulate(_with_key(e, name, key, first), over).items[1]


def _with_key(e: Emitter, name: str, key: Any, item: Any) -> Sequence:
    """What an item is compared by, and the item."""
    found = item if is_none(key) else e.session.invoke(e, key, [item], {})
    return Sequence((comparable(e, name, objects.resolved(e, found)), item))


def _nearer(e: Emitter, kind: type, best: Sequence, other: Sequence) -> Any:
    """The pair with the better key, the first if they are equal."""
    flag = operators.condition(e, operators.compare(e, kind, other.items[0], best.items[0]))
    return e.frame.choose_value(flag, lambda: other, lambda: best)


def _best_by(key: Any) -> Callable[..., Any]:
    def function(e: Emitter, name: str, kind: type, items: list[Any]) -> Any:
        if not items:
            return _best(e, name, kind, items)
        best = _with_key(e, name, key, items[0])
        for item in items[1:]:
            best = _nearer(e, kind, best, _with_key(e, name, key, item))
        return best.items[1]

    return function


def _best(e: Emitter, name: str, kind: type, items: list[Any]) -> Any:
    if not items:
        e.emit("raise", exception="ValueError", message=f"{name}() arg is an empty sequence")
        raise Unreachable
    if isinstance(items[0], Sequence):
        return _best_by(None)(e, name, kind, items)
    best = real_number(e, name, items[0])
    for item in items[1:]:
        best = _better(e, kind, best, real_number(e, name, item))
    return best


def _better(e: Emitter, kind: type, a: Scalar, b: Scalar) -> Scalar:
    """b if b < a (or >) else a, as Python's min and max do it."""
    if a.weak and b.weak and a.dtype is I64 and b.dtype is I64:
        return weak(e.minimum(a.value, b.value) if kind is gast.Lt else e.maximum(a.value, b.value))
    flag = operators.condition(e, operators.compare(e, kind, b, a))
    together = join(type_of(e, a), type_of(e, b))
    if not isinstance(together, ScalarType):
        e.error(TypeMismatch, together.reason)
    return chosen(e, flag, b, a)


def tuple_(e: Emitter, items: Any = None) -> Any:
    """tuple(...) of what has a constant length."""
    held = None if items is None else records.iterated(objects.contents(e, items))
    if isinstance(held, Iteration):
        count = integer(held.count)
        if count is not None and count <= _MAX_TUPLE:
            return Sequence(tuple(held.item(i64(k)) for k in range(count)))
    made = Sequence((), is_list=True) if items is None else list_(e, items)
    if isinstance(made, Sequence):
        return Sequence(made.items)
    e.error(
        UnsupportedSyntax,
        f"tuple() of {describe(items)} is not supported: its length is not constant",
        help="use list(...) or np.array(...)",
    )


def list_(e: Emitter, items: Any = None) -> Any:
    """list(...) of anything that can be looped over."""
    if not isinstance(items, Generator):
        return lists.list_(e, items)
    made = objects.new(e, Sequence((), is_list=True))
    items.run(lambda item: lists.append(e, made, item))
    return objects.contents(e, made)


def fromiter(e: Emitter, iter: Any, dtype: Any, count: Any = None) -> Any:  # noqa: A002 - NumPy's name
    """np.fromiter: a vector of what a list, an array or a generator expression gives."""
    wanted = as_dtype(e, dtype)
    held = objects.resolved(e, list_(e, iter))
    found = as_array(e, held) if isinstance(held, Growing) else array(e, held, Static(wanted.numpy))
    if not isinstance(found, (Array, Temp)) or found.rank != 1:
        e.error(TypeMismatch, f"np.fromiter needs what can be looped over, and gives numbers, not {describe(iter)}")
    found = found if found.dtype is wanted else astype(e, found, wanted)
    if count is None or getattr(count, "number", None) == -1:
        return found
    return e.session.library(e, first_items, [found, count], {})


def sorted_(e: Emitter, items: Any, key: Any = None, reverse: Any = None) -> Any:
    """sorted(...) of numbers, or of anything by a key that is a number."""
    return ordered(e, list_(e, items), key, reverse)


def reduce_(e: Emitter, function: Any, iterable: Any, initial: Any = None) -> Any:
    """functools.reduce."""
    held = objects.contents(e, list_(e, iterable))

    def step(total: Any, item: Any) -> Any:
        return e.session.invoke(e, function, [total, item], {})

    def over(update: Any, now: Any) -> None:
        run(e, rest, lambda item: update(lambda total: step(total, item)))

    rest: Any = held
    first = initial
    if first is None and isinstance(held, Sequence):
        if not held.items:
            e.emit("raise", exception="TypeError", message=_NOTHING)
            raise Unreachable
        first, rest = held.items[0], Sequence(held.items[1:])
    elif first is None:
        items = iteration_of(e, held)
        e.check(e.compare("lessThan", i64(0), items.count), "TypeError", _NOTHING)
        first = items.item(i64(0))
        rest = Iteration(e.offset(items.count, -1), lambda k: items.item(e.offset(k, 1)))
    return e.frame.accumulate(first, over)


def map_(e: Emitter, function: Any, *sources: Any) -> Any:
    """map(f, x, ...): f is called where the items are taken."""
    held = [records.iterated(objects.contents(e, s)) for s in sources]
    if held and all(isinstance(h, Sequence) for h in held):
        rows = zip(*(h.items for h in held), strict=False)
        return Sequence(tuple(objects.settle(e, e.session.invoke(e, function, list(row), {})) for row in rows))
    if any(isinstance(h, Generator) for h in held):
        rule, taken = (streams.map_, sources[0]) if len(sources) == 1 else (streams.starmap, zip_(e, *sources))
        return e.session.library(e, rule, [function, taken], {})
    inner = [iteration_of(e, h if isinstance(h, Growing | Iteration) else objects.settle(e, h)) for h in held]
    if not inner:
        e.error(TypeMismatch, "map() needs a function and something to loop over")
    count = inner[0].count
    for other in inner[1:]:
        count = e.minimum(count, other.count)
    return Iteration(count, lambda k: e.session.invoke(e, function, [i.item(k) for i in inner], {}))


def filter_(e: Emitter, function: Any, items: Any) -> Any:
    """filter(f, items): f is called where the items are taken; None: those that are true."""
    return e.session.library(e, streams.filter_, [function, items], {})


def contains(e: Emitter, item: Any, items: Iteration | Growing | Generator) -> Any:
    """`item in items` for what is looped over; a generator is left where the item is."""

    def over(update: Any, now: Any) -> None:
        def look(other: Any) -> None:
            same = operators.compare(e, gast.Eq, item, objects.resolved(e, other))
            update(lambda found: weak(e.either(found.value, operators.condition(e, same))))

        goes_on = (lambda: operators.unary(e, gast.Not, now()).value) if isinstance(items, Generator) else None
        run(e, items, look, goes_on)

    return e.frame.accumulate(weak(literal(False)), over)


FOLDS: dict[Any, Any] = {
    builtins.sum: sum_, builtins.any: _decided(True), builtins.all: _decided(False),
    builtins.min: _extreme("min", gast.Lt), builtins.max: _extreme("max", gast.Gt),
    builtins.tuple: tuple_, builtins.list: list_, builtins.sorted: sorted_, builtins.map: map_,
    builtins.filter: filter_, functools.reduce: reduce_, math.prod: product, math.fsum: exact_sum,
    np.fromiter: fromiter,
}  # fmt: skip
