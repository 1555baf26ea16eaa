"""Sets. What is known now (`set(range(3)) - {axis}`) is a set of Python's; others are tables (library/hashing.py).

    seen = set()                         an object that holds Record(Set, items=[], slots=..., taken=0)
    for v in x:
        if v not in seen:                find(seen, v) < 0
            seen.add(v)                  add(seen, v): library code, in place

Of sets that are known now Python itself says in which order they are run over. That of others depends on Python's own
table, so only what does not show it is done with them: `in`, len, ==, <=, algebra, sorted, min, max, any, all, the sum
of ints. A displayed set that is changed later on is a table from its beginning (Known.require_table).
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import gast

from dlvm_py.errors import TypeMismatch, UnknownFunction, UnsupportedSyntax
from dlvm_py.frontend import folds, objects, operators
from dlvm_py.frontend.closest import suggestion
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.joined_values import as_growing
from dlvm_py.frontend.joins import join_items
from dlvm_py.frontend.library import hashing
from dlvm_py.frontend.table import is_numpy
from dlvm_py.frontend.texts import check_key
from dlvm_py.frontend.value_types import type_of
from dlvm_py.frontend.values import (
    Conflict,
    Growing,
    Iteration,
    KnownSet,
    Method,
    Object,
    Record,
    Scalar,
    Sequence,
    Static,
    describe,
)
from dlvm_py.ir import literal
from dlvm_py.ir.value import integer

_ORDER = "the order in which a set is run over is that of Python's hash table, which compiled code does not have"
_ALGEBRA: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    gast.BitOr: ("union", operator.or_), gast.BitAnd: ("intersection", operator.and_),
    gast.Sub: ("difference", operator.sub), gast.BitXor: ("symmetric_difference", operator.xor),
}  # fmt: skip
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    gast.Eq: operator.eq, gast.NotEq: operator.ne, gast.LtE: operator.le, gast.Lt: operator.lt,
    gast.GtE: operator.ge, gast.Gt: operator.gt,
}  # fmt: skip
_MAX_KNOWN = 64  # items of a range
# what gives the same in whichever order it takes the items
_WITHOUT_ORDER = (builtins.sorted, builtins.min, builtins.max, builtins.any, builtins.all, builtins.len, builtins.sum)


def held_by(e: Emitter, value: Any) -> Any:
    """The KnownSet, or the Record of a table, that a value is; None if it is no set."""
    if isinstance(value, Static) and isinstance(value.value, KnownSet):
        return value.value
    held = objects.contents(e, value) if isinstance(value, Object) else None
    return held if isinstance(held, Record) and held.kind is hashing.Set else None


def displayed(e: Emitter, values: list[Any]) -> Any:
    """{a, b}."""
    found = _constants(values)
    if found is not None:
        # as Python makes it: a display of constants is not put together one by one
        return _made(e, eval("{" + ", ".join(map(repr, found)) + "}") if found else set(), values)
    return _table(e, values)


def collected(e: Emitter, items: Any = None) -> Any:
    """set(items)."""
    if items is None:
        return _table(e, ())
    held = held_by(e, items)
    if isinstance(held, KnownSet):
        return _made(e, set(held.items), _lifted(e, held.items))
    inner = objects.contents(e, items)
    count = integer(inner.count) if isinstance(inner, Iteration) else None
    if count is not None and count <= _MAX_KNOWN:
        inner = Sequence(tuple(inner.item(i64(k)) for k in range(count)))
    listed = objects.contents(e, folds.list_(e, inner if held is None else _items(e, items)))
    if isinstance(listed, Sequence):
        found = _constants(listed.items)
        if found:
            return _made(e, set(found), listed.items)
        return _table(e, listed.items)
    made = _table(e, ())
    _library(e, hashing.update, made, objects.settle(e, listed))
    return made


def comprehended(e: Emitter, run: Callable[[Callable[[Any], None]], None]) -> Any:
    """The set of all that `run(action)` calls the action with."""
    made = _table(e, ())
    run(lambda item: _add(e, made, item))
    return made


def _constants(values: Iterable[Any]) -> list[Any] | None:
    """The numbers, and tuples of such, that values are; None where one is not known now."""
    found = []
    for value in values:
        if isinstance(value, Scalar) and value.weak and value.number is not None:
            found.append(value.number)
        elif isinstance(value, Sequence) and not value.is_list and (inner := _constants(value.items)) is not None:
            found.append(tuple(inner))
        else:
            return None
    return found


def _lifted(e: Emitter, items: Iterable[Any]) -> list[Any]:
    return [e.session.lift(e, v, "an item of a set") for v in items]


def _made(e: Emitter, items: set[Any], values: Iterable[Any]) -> Any:
    """A set of known items; a table where it is going to be changed."""
    site = str(e.loc)
    return _table(e, values) if e.session.known.is_table(site) else Static(KnownSet(items, site))


def _table(e: Emitter, values: Iterable[Any]) -> Object:
    made: Object = objects.settle(e, e.session.library(e, hashing.empty, [], {}))
    keys = [key_of(e, v) for v in values]
    item = None
    for one in keys:
        item = join_items(item, type_of(e, one))
    if len(keys) > 1 and not isinstance(item, Conflict):  # one loop, not so many copies of what adds an item
        _library(e, hashing.update, made, objects.settle(e, as_growing(e, Sequence(tuple(keys), is_list=True), item)))
    else:
        for one in keys:
            _add(e, made, one)
    return made


def _add(e: Emitter, owner: Any, item: Any) -> None:
    _library(e, hashing.add, owner, key_of(e, item))


def key_of(e: Emitter, item: Any, what: str = "a set") -> Any:
    """An item of a set, or a key of a dict: a real number that is no NaN, or a tuple of such."""
    item = objects.settle(e, objects.resolved(e, item))
    parts = item.items if isinstance(item, Sequence) and not item.is_list else (item,)
    if not all(isinstance(p, Scalar) and not p.dtype.is_complex for p in parts):
        e.error(
            TypeMismatch,
            f"{describe(item)} in {what} is not supported: what can be looked up are real numbers and tuples of these",
            help="keep a list, or a boolean array of what is in it",
        )
    for part in parts:
        if part.dtype.is_float and part.number is None:
            is_number = e.compare("equal", part.value, part.value)
            e.check(is_number, "ValueError", f"a NaN in {what} is not supported in compiled code")
    return item


def _library(e: Emitter, function: Any, *args: Any) -> Any:
    return e.session.library(e, function, list(args), {})


def _as_table(e: Emitter, value: Any) -> Any:
    """A set as a table: it itself, or a new one with the items of anything that can be looped over."""
    held = held_by(e, value)
    if isinstance(held, Record):
        return value
    if isinstance(held, KnownSet):
        return _table(e, _lifted(e, held.items))
    made = _table(e, ())
    folds.run(e, value, lambda item: _add(e, made, item))
    return made


def _items(e: Emitter, value: Any) -> Any:
    """What a set holds, where the order does not show; any other value as it is."""
    held = held_by(e, value)
    if isinstance(held, KnownSet):
        return Sequence(tuple(_lifted(e, held.items)))
    return value if held is None else objects.contents(e, held.get("items"))


# -- what is done with sets ----------------------------------------------------------------------------------


def iterated(e: Emitter, value: Any) -> Any:
    """What a loop runs over: the items of a set that is known now; an error for others; other values as they are."""
    held = held_by(e, value)
    if isinstance(held, Record):
        refuse_order(e)
    return value if held is None else _items(e, value)


def refuse_order(e: Emitter) -> NoReturn:
    """The error of what would show the order of a set."""
    e.error(UnsupportedSyntax, _ORDER, help="loop over sorted(s)")


def argument(e: Emitter, function: Any, value: Any) -> Any:
    """An argument of a built-in function: what a set holds, where the function does not ask for its order."""
    held = held_by(e, value)
    target = function.value if isinstance(function, Static) else None
    if held is None or target in (builtins.set, builtins.frozenset, builtins.isinstance):
        return value
    if is_numpy(target):
        e.error(
            TypeMismatch,
            "NumPy takes a set for one object and does not look into it",
            help="make an array of it before: np.array(sorted(s))",
        )
    if isinstance(held, KnownSet):
        return _items(e, value)
    if not any(target is f for f in _WITHOUT_ORDER):
        if target in (builtins.list, builtins.tuple, builtins.enumerate, builtins.zip, builtins.map):
            refuse_order(e)
        return value
    items = _items(e, value)
    leaf = items.item if isinstance(items, Growing) else None
    if target is builtins.sum and not (leaf is None or getattr(leaf, "dtype", None) is None or leaf.dtype.is_integer):
        e.error(UnsupportedSyntax, "the sum of a set of floats depends on its order", help="sum(sorted(s))")
    return items


def contains(e: Emitter, item: Any, owner: Any) -> Any:
    """item in owner."""
    return operators.compare(e, gast.GtE, _library(e, hashing.find, owner, key_of(e, item)), operators.weak(i64(0)))


def binary(e: Emitter, kind: type, a: Any, b: Any) -> Any:
    """a | b, a & b, a - b, a ^ b of two sets."""
    one, two = held_by(e, a), held_by(e, b)
    if one is None or two is None or kind not in _ALGEBRA:
        e.error(TypeMismatch, f"no such operation on {_words(a)} and {_words(b)}")
    name, python = _ALGEBRA[kind]
    if isinstance(one, KnownSet) and isinstance(two, KnownSet):
        items = python(one.items, two.items)
        return _made(e, items, _lifted(e, items))
    return _combined(e, name, _as_table(e, a), _as_table(e, b))


def augmented(e: Emitter, owner: Any, kind: type, value: Any) -> bool:
    """owner |= value and the like, in place; False if the owner is no set."""
    held = held_by(e, owner)
    if held is None:
        return False
    if isinstance(held, KnownSet):
        e.session.known.require_table(held.site)
    made = binary(e, kind, owner, value)
    objects.change(e, owner, objects.contents(e, made))
    return True


def _words(value: Any) -> str:
    return "a set" if isinstance(value, Static) and isinstance(value.value, KnownSet) else describe(value)


def _combined(e: Emitter, name: str, a: Any, b: Any) -> Any:
    made = _table(e, ())
    if name == "union":
        for side in (a, b):
            _library(e, hashing.take, made, side)
    elif name == "symmetric_difference":
        for one, other in ((a, b), (b, a)):
            _library(e, hashing.keep, made, one, other, operators.weak(literal(False)))
    else:
        _library(e, hashing.keep, made, a, b, operators.weak(literal(name == "intersection")))
    return made


def compare(e: Emitter, kind: type, a: Any, b: Any) -> Any:
    """a == b, a <= b and the others of two sets."""
    one, two = held_by(e, a), held_by(e, b)
    if one is None or two is None or kind not in _COMPARISONS:
        if kind in (gast.Eq, gast.NotEq):
            return operators.weak(literal(kind is gast.NotEq))
        e.error(TypeMismatch, f"no such comparison of {_words(a)} and {_words(b)}")
    if isinstance(one, KnownSet) and isinstance(two, KnownSet):
        return operators.weak(literal(_COMPARISONS[kind](one.items, two.items)))
    a, b = _as_table(e, a), _as_table(e, b)
    if kind in (gast.GtE, gast.Gt):
        a, b = b, a
    within = operators.condition(e, _library(e, hashing.is_within, a, b))
    if kind in (gast.LtE, gast.GtE):
        return operators.weak(within)
    lengths = [operators.condition(e, operators.compare(e, gast.Eq, length(e, a), length(e, b)))]
    if kind in (gast.Lt, gast.Gt):
        return operators.weak(e.both(within, e.pure("not", lengths[0])))
    same = e.both(within, lengths[0])
    return operators.weak(same if kind is gast.Eq else e.pure("not", same))


def length(e: Emitter, value: Any) -> Any:
    """len(s)."""
    items = _items(e, value)
    return operators.weak(items.length if isinstance(items, Growing) else i64(len(items.items)))


def _method(name: str) -> Callable[..., Any]:
    def changes(e: Emitter, owner: Any, item: Any) -> Any:
        if name == "add":
            _add(e, owner, item)
        elif name == "update":
            folds.run(e, _items(e, item), lambda one: _add(e, owner, one))
        else:
            item = key_of(e, item)
            found = _library(e, hashing.discard, owner, item)
            if name == "remove":
                check_key(e, operators.condition(e, found), item)
        return Static(None)

    return changes


def _combining(name: str) -> Callable[..., Any]:
    return lambda e, owner, other: _combined(e, name, _as_table(e, owner), _as_table(e, other))


def _comparing(kind: type) -> Callable[..., Any]:
    return lambda e, owner, other: compare(e, kind, owner, _as_table(e, other))


_CHANGES: dict[str, Any] = {name: _method(name) for name in ("add", "update", "discard", "remove")}
_METHODS: dict[str, Any] = {
    **{name: _combining(name) for name, _ in _ALGEBRA.values()},
    "issubset": _comparing(gast.LtE), "issuperset": _comparing(gast.GtE), "copy": collected,
}  # fmt: skip


def method(e: Emitter, owner: Any, name: str) -> Any:
    """A method of a set. One that changes it lets the translation begin anew where it is no table."""
    held = held_by(e, owner)
    if name in _CHANGES and isinstance(held, KnownSet):
        e.session.known.require_table(held.site)
    rule = _CHANGES.get(name) or _METHODS.get(name)
    if rule is None:
        hint = suggestion(name, [*_CHANGES, *_METHODS])
        e.error(UnknownFunction, f"sets have no supported method `{name}`", help=hint)
    return Method(owner, name, rule)
