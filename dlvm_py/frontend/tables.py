"""Dicts whose keys are numbers, or tuples of numbers: tables (library/hashing.py) of two lists of computed length.

    counts = {}                             an object that holds Record(Dict, items=[], ..., values=[], count=0)
    for v in x:
        counts[v] = counts.get(v, 0) + 1    put(counts, v, ... find(counts, v) ...): calls of library code

A dict begins as its items (records.py), until a key is no constant string: then the translation begins anew, and it is
a table from the start (Known.require_dict). Keys have one type, values too; they come back to Python as a dict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm_py.errors import TypeMismatch, UnknownFunction, UnsupportedSyntax
from dlvm_py.frontend import folds, objects, operators, records, sets
from dlvm_py.frontend.closest import suggestion
from dlvm_py.frontend.emit import Emitter, Unreachable, i64
from dlvm_py.frontend.growing import item_at
from dlvm_py.frontend.library import hashing
from dlvm_py.frontend.regions import Again
from dlvm_py.frontend.sets import key_of
from dlvm_py.frontend.texts import check_key
from dlvm_py.frontend.value_types import leaf_types, type_of
from dlvm_py.frontend.values import (
    NONE,
    Generator,
    Growing,
    Iteration,
    Method,
    Object,
    Record,
    Scalar,
    Sequence,
    Static,
    View,
    describe,
)
from dlvm_py.ir import Value, literal

_OF_CHARACTERS = (enumerate, zip, reversed, list, tuple, map, filter)  # built-in functions to which a string is those


def is_table(held: Any) -> bool:
    """Whether contents are those of a dict whose keys are numbers."""
    return isinstance(held, Record) and held.kind is hashing.Dict


def held_by(e: Emitter, value: Any) -> Record | None:
    """What such a dict holds; None if the value is none."""
    held = objects.contents(e, value) if isinstance(value, Object) else None
    return held if is_table(held) else None


def is_name(key: Any) -> bool:
    """Whether a key is a constant string, with which a dict is its items."""
    return isinstance(key, Static) and isinstance(key.value, str)


def empty(e: Emitter) -> Object:
    """A new table."""
    made: Object = objects.settle(e, e.session.library(e, hashing.empty_dict, [], {}))
    return made


def require(e: Emitter, owner: Any, key: Any) -> None:
    """A key that is no constant string comes into a dict: it is a table from its beginning, if it can be one."""
    held = objects.contents(e, owner)
    if not isinstance(key, Scalar | Sequence):
        return
    if isinstance(owner, Object) and owner.key.startswith(objects.ARGUMENT) and not held.names:
        if not e.session.lends:
            raise objects.ChangesCaller  # only then its key is that of a table
    if held.names:
        e.error(
            UnsupportedSyntax,
            f"a dict with the key {held.names[0]!r} gets {describe(key)} as a key: keys are constant strings, or all "
            "are numbers or tuples of numbers",
            help="use two dicts",
        )
    if isinstance(owner, Object) and not owner.origin:
        e.session.known.require_dict(owner.key)


def _list(e: Emitter, owner: Object, name: str) -> Growing | Sequence:
    found: Growing | Sequence = objects.contents(e, objects.contents(e, owner).get(name))
    return found


def _at(e: Emitter, owner: Object, name: str, place: Value) -> Any:
    held = _list(e, owner, name)
    return item_at(e, held if isinstance(held, Growing) else Growing(None, (), i64(0)), place)


def _has_items(e: Emitter, owner: Object) -> bool:
    """Whether there may be items, so that it is known of which types they are."""
    held = _list(e, owner, "items")
    return isinstance(held, Growing) and held.item is not None


def _find(e: Emitter, owner: Object, key: Any) -> tuple[Value, Value]:
    """The place of a key, and whether it is there."""
    place = e.session.library(e, hashing.find, [owner, key], {}).value
    return place, e.compare("lessThanOrEqual", i64(0), place)


def _place(e: Emitter, owner: Object, key: Any) -> Value:
    """The place of a key that must be there; KeyError as Python's."""
    if not _has_items(e, owner):
        check_key(e, None, key)
    place, found = _find(e, owner, key)
    check_key(e, found, key)
    return place


def _change(e: Emitter, owner: Object, function: Any, *args: Any) -> None:
    """Let a function of the library change a table; a dict of the caller must be one that is given back."""
    known = e.session.known
    if owner.key.startswith(objects.LENT) and not known.is_changed(owner.key):
        known.note_changed(owner.key)
        raise Again if e.session.lends else objects.ChangesCaller
    e.session.library(e, function, [owner, *args], {})


def _require_types(e: Emitter, owner: Object, key: Any, value: Any) -> None:
    """An error for an item of another type than those of a dict of the caller, all of which would get one type."""
    types = [leaf_types(key), leaf_types(value)]
    if owner.key.startswith(objects.LENT) and types != e.session.table_types.setdefault(owner.key, types):
        what = "key" if types[0] != e.session.table_types[owner.key][0] else "value"
        e.error(
            UnsupportedSyntax,
            f"a dict of the caller gets a {what} of another type than those that it has",
            help="use one type for all keys, and one for all values: float(x); or return a new dict",
        )


def _settle(e: Emitter, owner: Object) -> None:
    """Let all in a table be live; in one of the caller that nothing changes all is."""
    if not owner.key.startswith(objects.LENT) or e.session.known.is_changed(owner.key):
        e.session.library(e, hashing.dense, [owner], {})


# -- reading and changing ------------------------------------------------------------------------------------------


def item(e: Emitter, owner: Object, key: Any) -> Any:
    """d[key]."""
    return _at(e, owner, "values", _place(e, owner, key_of(e, key, "a dict")))


def set_item(e: Emitter, owner: Object, key: Any, value: Any) -> None:
    """d[key] = value."""
    key, value = key_of(e, key, "a dict"), objects.settle(e, value)
    _require_types(e, owner, type_of(e, key), type_of(e, value))
    _change(e, owner, hashing.put, key, value)


def delete_item(e: Emitter, owner: Object, key: Any) -> None:
    """del d[key]."""
    key = key_of(e, key, "a dict")
    _place(e, owner, key)
    _change(e, owner, hashing.delete, key)


def contains(e: Emitter, key: Any, owner: Object) -> Any:
    """key in d."""
    key = key_of(e, key, "a dict")
    return operators.weak(_find(e, owner, key)[1] if _has_items(e, owner) else literal(False))


def length(e: Emitter, owner: Any) -> Value:
    """len(d)."""
    count: Value = objects.contents(e, owner).get("count").value
    return count


def rows(e: Emitter, owner: Object, what: str = "keys") -> Iteration | Sequence:
    """What runs over the keys, values or items: each as it is when its turn comes."""
    if not _has_items(e, owner):
        return Sequence(())
    _settle(e, owner)
    before = length(e, owner)

    def item(k: Value) -> Any:
        check_size(e, owner, before)
        if what == "items":
            return Sequence((_at(e, owner, "items", k), _at(e, owner, "values", k)))
        return _at(e, owner, "items" if what == "keys" else "values", k)

    return Iteration(before, item)


def settled(e: Emitter, owner: Any) -> Any:
    """What a table holds when all in it is live."""
    if _has_items(e, owner):
        _settle(e, owner)
    return objects.contents(e, owner)


def iterated(e: Emitter, value: Any) -> Any:
    """What a loop runs over: of a dict the keys, of a set the items, of a string the characters; or the value."""
    if isinstance(value, Static) and isinstance(value.value, str):
        return characters(value.value)
    if held_by(e, value) is not None:
        return rows(e, value)
    return sets.iterated(e, value)


def characters(text: str) -> Sequence:
    """The characters of a string that is known now."""
    return Sequence(tuple(map(Static, text)))


def argument(e: Emitter, function: Any, value: Any) -> Any:
    """An argument of a built-in function that takes what can be looped over: the keys of a dict, the items of a set."""
    target = function.value if isinstance(function, Static) else None
    if isinstance(value, Static) and isinstance(value.value, str):
        return characters(value.value) if any(target is f for f in _OF_CHARACTERS) else value
    held = objects.contents(e, value) if isinstance(value, Object) else None
    if isinstance(held, Record) and held.kind is dict and target in (enumerate, zip, reversed):
        return records.iterated(held)
    if held_by(e, value) is None or isinstance(function, Method) or target in (dict, isinstance, type, bool):
        return sets.argument(e, function, value)
    return Iteration(length(e, value), lambda k: k) if target is len else rows(e, value)


def size(e: Emitter, given: Any) -> Value | None:
    """How many items a table, or a view of one, has before a loop over it; None for other values."""
    owner = given.owner if isinstance(given, View) else given
    return None if held_by(e, owner) is None else length(e, owner)


def check_size(e: Emitter, given: Any, before: Value) -> None:
    """As Python looks at each turn, and behind the last one, whether the size has changed."""
    now = size(e, given)
    assert now is not None
    e.check(e.compare("equal", now, before), "RuntimeError", "dictionary changed size during iteration")


# -- methods -------------------------------------------------------------------------------------------------------


def _get(e: Emitter, owner: Any, key: Any, default: Any = NONE) -> Any:
    key = key_of(e, key, "a dict")
    if not _has_items(e, owner):
        return default
    place, found = _find(e, owner, key)
    return e.frame.choose_value(found, lambda: _at(e, owner, "values", place), lambda: default)


def _pop(e: Emitter, owner: Any, key: Any, default: Any = None) -> Any:
    if default is None:
        found = item(e, owner, key)
        delete_item(e, owner, key)
        return found
    key = key_of(e, key, "a dict")
    if not _has_items(e, owner):
        return default
    found = _get(e, owner, key, default)
    _, is_there = _find(e, owner, key)
    e.frame.branches(is_there, lambda: _change(e, owner, hashing.delete, key), lambda: None)
    return found


def _setdefault(e: Emitter, owner: Any, key: Any, default: Any = NONE) -> Any:
    key, default = key_of(e, key, "a dict"), objects.settle(e, default)
    if not _has_items(e, owner):
        set_item(e, owner, key, default)
        return item(e, owner, key)
    _, is_there = _find(e, owner, key)
    e.frame.branches(is_there, lambda: None, lambda: set_item(e, owner, key, default))
    return item(e, owner, key)


def _update(e: Emitter, owner: Any, items: Any = None, **values: Any) -> Any:
    if values:
        e.error(UnsupportedSyntax, "this dict has numbers as keys, and gets strings", help="use two dicts")
    if items is not None:
        fill(e, owner, items)
    return NONE


def dict_(e: Emitter, items: Any = None, **values: Any) -> Any:
    """dict(), dict(d), dict(a=1), dict(pairs)."""
    held = objects.contents(e, items)
    pairs = [objects.contents(e, i) for i in held.items] if isinstance(held, Sequence) else []
    is_numbered = any(isinstance(p, Sequence) and p.items and not is_name(p.items[0]) for p in pairs)
    if not (is_table(held) or is_numbered or isinstance(held, Growing | Iteration | Generator)):
        return records.dict_(e, items, **values)
    made = copied(e, items)
    _update(e, made, None, **values)
    return made


def displayed(e: Emitter, keys: list[Any], values: list[Any]) -> Object:
    """{a: b, ...}."""
    made = empty(e)
    for key, value in zip(keys, values, strict=True):
        set_item(e, made, key, value)
    return made


def fill(e: Emitter, owner: Object, items: Any) -> None:
    """Put what another dict holds, or pairs, into a table."""
    held = objects.contents(e, items)
    if is_table(held):
        if not _has_items(e, items):
            return
        _settle(e, items)
        _require_types(e, owner, *(_list(e, items, n).item for n in ("items", "values")))
        _change(e, owner, hashing.merge, items)
        return
    if isinstance(held, Record) and held.kind is dict:
        if held.names:
            require(e, items, NONE)
            e.error(UnsupportedSyntax, "this dict has numbers as keys, and gets strings", help="use two dicts")
        return

    def put(pair: Any) -> None:
        pair = objects.contents(e, pair)
        if not isinstance(pair, Sequence) or len(pair.items) != 2:
            e.error(TypeMismatch, f"an item of a dict is a pair, not {describe(pair)}")
        set_item(e, owner, *pair.items)

    folds.run(e, items, put)


def copied(e: Emitter, owner: Any) -> Object:
    """d.copy(), dict(d)."""
    made = empty(e)
    fill(e, made, owner)
    return made


def _popitem(e: Emitter, owner: Any) -> Any:
    if not _has_items(e, owner):
        e.emit("raise", exception="KeyError", message="popitem(): dictionary is empty")
        raise Unreachable
    _settle(e, owner)
    count = length(e, owner)
    e.check(e.compare("lessThan", i64(0), count), "KeyError", "popitem(): dictionary is empty")
    last = e.offset(count, -1)
    found = Sequence((_at(e, owner, "items", last), _at(e, owner, "values", last)))
    _change(e, owner, hashing.delete, found.items[0])
    return found


def _clear(e: Emitter, owner: Any) -> Any:
    _change(e, owner, hashing.clear)
    return NONE


def _view(what: str) -> Callable[..., Any]:
    return lambda e, d: View(d, what)


def keyed(e: Emitter, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The named arguments of a built-in function: in max(d, key=d.get) every key is there, and has no default."""
    key, owner = kwargs.get("key"), args[0] if args else None
    owner = owner.owner if isinstance(owner, View) and owner.what == "keys" else owner
    if isinstance(key, Method) and key.rule is _get and isinstance(owner, Object) and key.owner == owner:
        return kwargs | {"key": Method(owner, "get", item)}
    return kwargs


METHODS: dict[str, Any] = {
    "keys": _view("keys"), "values": _view("values"), "items": _view("items"), "get": _get, "pop": _pop,
    "popitem": _popitem, "setdefault": _setdefault, "update": _update, "copy": copied, "clear": _clear,
}  # fmt: skip


def method(e: Emitter, owner: Any, name: str) -> Any:
    """A method of a table."""
    if name not in METHODS:
        e.error(UnknownFunction, f"a dict has no supported method `{name}`", help=suggestion(name, METHODS))
    return Method(owner, name, METHODS[name])
