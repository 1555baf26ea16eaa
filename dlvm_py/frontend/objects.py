"""Lists, dicts and dataclass instances: an identity that names refer to, and contents that flow like a name's.

An `Object` is the identity. What it holds stands in the environment of the frame under its key, so that branches and
loops merge contents as they merge names, and every name for an object sees its changes. What stands in an expression
(`[a, b]`) is contents without identity, and gets one where it is bound: `settle`.

Two objects may meet in one name (`d = {...}` on both sides of an `if`). They become one if nothing else refers to
either; else later changes through the name would have to go to one of two objects, and that is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import regions
from dlvm_py.frontend.arrays import materialise
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.growing import held_by
from dlvm_py.frontend.library import hashing
from dlvm_py.frontend.value_types import regions_in, with_lists
from dlvm_py.frontend.values import (
    Binding,
    Closure,
    Conflict,
    Derivative,
    Either,
    Generator,
    Growing,
    Method,
    Object,
    Record,
    Ref,
    Sequence,
    Static,
    View,
    describe,
)
from dlvm_py.frozen import replace

PREFIX = "$object"
ARGUMENT = "$argument"  # of the key of an object that an argument is
GLOBAL = "$global"  # of one that was defined outside
LENT = f"{PREFIX}.argument."  # of one that is changed for the caller
Env = Mapping[str, Binding]


class ChangesCaller(Exception):  # noqa: N818 - not an error: the translation begins anew
    """What is translated changes a list, dict or instance of the caller: lent.py can do that."""


def is_mutable(value: Any) -> bool:
    """Whether contents belong to something with an identity: a list, a dict, a dataclass that is not frozen."""
    if isinstance(value, Sequence):
        return value.is_list
    return isinstance(value, Growing) or (isinstance(value, Record) and is_mutable_class(value.kind))


def is_mutable_class(kind: type) -> bool:
    """Whether instances can be changed: dict, and dataclasses that are not frozen."""
    return kind is dict or (dataclasses.is_dataclass(kind) and not kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def settle(e: Emitter, value: Any) -> Any:
    """A value that can be bound: array expressions get memory, lists, dicts and instances an identity."""
    if isinstance(value, Sequence | Record):
        items = tuple(settle(e, i) for i in value.items)
        same = all(a is b for a, b in zip(items, value.items, strict=True))
        if isinstance(value, Record):
            value = value if same else Record(value.kind, value.names, items)
        else:
            value = value if same else Sequence(items, value.is_list)
    if isinstance(value, Generator):
        return value if value.suspended is None else value.suspended()
    return new(e, value) if is_mutable(value) else materialise(e, value)


def new(e: Emitter, contents: Any) -> Object:
    """A new object. Its key is told by the place in the source, so that a loop that is translated again finds it."""
    loc = e.loc
    place = f"{PREFIX}.{loc.line}.{loc.col}" if loc else PREFIX
    count = e.frame.made.get(place, 0)
    while f"{place}.{count}" in e.frame.env:
        count += 1
    e.frame.made[place] = count + 1
    made = Object(f"{place}.{count}")
    known = e.session.known
    if isinstance(contents, Sequence) and known.refers(made.key):
        contents = regions.referring(e, made.key, contents)
    if isinstance(contents, Record) and contents.kind is dict and not contents.names and known.is_dict(made.key):
        e.frame.env[made.key] = Binding(contents, loc)  # the key is taken
        contents = e.frame.env.pop(e.session.library(e, hashing.empty_dict, [], {}).key).value
    region = known.region_for(made.key)
    if region is not None and isinstance(contents, Sequence | Growing):
        contents = regions.entered(e, Object(known.find(region)), contents)
    e.frame.env[made.key] = Binding(contents, loc)
    return made


def target(e: Emitter, value: Any) -> Any:
    """A list of a region for an object that has moved there; any other value as it is."""
    if isinstance(value, Object):
        binding = e.frame.env.get(value.key)
        if binding is not None and isinstance(binding.value, Ref):
            return binding.value
    return value


def require_changeable(e: Emitter, owner: Object | Ref) -> None:
    """An error for a list of a region that holds what a list of lists from outside holds, which is a constant."""
    key = key_of(e, owner)
    if isinstance(target(e, owner), Ref) and key.startswith((ARGUMENT, GLOBAL)):
        if key.startswith(ARGUMENT) and not e.session.lends:
            raise ChangesCaller
        e.error(
            UnsupportedSyntax,
            "this changes a list in a list that was defined outside: it is a constant of the compiled function",
            help="pass it as an argument, or work on a copy: [row[:] for row in rows]",
        )


def refer_to_lists(e: Emitter, owner: Object) -> None:
    """Let a list of lists hold references, so that it can be read at computed places: from its beginning."""
    if owner.origin:
        e.session.known.require_constant(e.function.name, owner.key)
    else:
        e.session.known.require_references(owner.key)


def key_of(e: Emitter, owner: Object | Ref) -> str:
    """What tells the lists in a list from those in others: the key of an object, or of the region of a list."""
    found = target(e, owner)
    key: str = found.region.key if isinstance(found, Ref) else found.key
    return key


def contents(e: Emitter, value: Any) -> Any:
    """What an object, or a view of a dict, holds now; any other value as it is."""
    if isinstance(value, View):
        held = contents(e, value.owner)
        if held.kind is hashing.Dict:
            return e.session.rows(e, value.owner, value.what)
        columns = {"keys": held.names, "values": held.items, "items": zip(held.names, held.items, strict=True)}
        rows = columns[value.what]
        if value.what == "items":
            return Sequence(tuple(Sequence((Static(n), v)) for n, v in rows))
        return Sequence(tuple(map(Static, rows)) if value.what == "keys" else tuple(rows))
    if isinstance(value, Ref):
        return held_by(e, value)
    if not isinstance(value, Object):
        return value
    binding = e.frame.env.get(value.key)
    found = value.contents if binding is None else binding.value
    if isinstance(found, Conflict):
        e.error(
            TypeMismatch,
            found.said_of("this" if found.help else "this list, dict or instance"),
            help=found.help or "give it the same kind of contents on both paths",
        )
    return held_by(e, found) if isinstance(found, Ref) else found


def resolved(e: Emitter, value: Any) -> Any:
    """A value with all objects in it replaced by what they hold: for rules that only read."""
    value = contents(e, value)
    if isinstance(value, Sequence) and any(isinstance(i, Object | Ref | Sequence | Record) for i in value.items):
        return Sequence(tuple(resolved(e, i) for i in value.items), value.is_list)
    if isinstance(value, Record) and any(isinstance(i, Object | Ref | Sequence | Record) for i in value.items):
        return Record(value.kind, value.names, tuple(resolved(e, i) for i in value.items))
    return value


def change(e: Emitter, owner: Object | Ref, value: Any) -> None:
    """Give an object other contents."""
    moved = target(e, owner)
    if isinstance(moved, Ref):
        regions.assign(e, moved, value)
        return
    if owner.origin:
        if owner.key.startswith(ARGUMENT) and not e.session.lends:
            raise ChangesCaller
        what = describe(owner.contents)
        e.error(
            UnsupportedSyntax,
            f"{owner.origin} is {what} that this changes: it is a constant of the compiled function",
            help="pass it as an argument, or work on a copy: list(x), dict(x), dataclasses.replace(x)",
        )
    e.frame.env[owner.key] = Binding(value, e.loc)


# -- who refers to what ------------------------------------------------------------------------------------


def references(env: Env, names: Iterable[str]) -> dict[str, int]:
    """How often each object, by its key, is referred to by these names and by what they reach."""
    found: dict[str, int] = {}
    pending = [env[n].value for n in names if n in env]
    while pending:
        value = pending.pop()
        match value:
            case Object():
                found[value.key] = found.get(value.key, 0) + 1
                if found[value.key] == 1 and value.key in env:
                    pending.append(env[value.key].value)
            case Sequence() | Record():
                pending.extend(value.items)
            case Either():
                pending.extend(value.values)
            case Ref():
                pending.append(value.region)
            case Growing():
                pending.extend(regions_in(value.item))
            case Closure():
                pending.extend((*value.defaults, *value.keyword_defaults.values()))
            case Derivative():
                pending.append(value.closure)
            case Method() | View():
                pending.append(value.owner)
    return found


def renamed(value: Any, keys: Mapping[str, Object]) -> Any:
    """A value with objects exchanged for others, by key."""
    match value:
        case Object():
            return keys.get(value.key, value)
        case Ref():
            return Ref(keys.get(value.region.key, value.region), value.number)
        case Growing():
            return replace(value, item=with_lists(value.item, lambda o: keys.get(o.key, o)))
        case Sequence():
            return Sequence(tuple(renamed(i, keys) for i in value.items), value.is_list)
        case Record():
            return Record(value.kind, value.names, tuple(renamed(i, keys) for i in value.items))
        case Either():
            return Either(value.place, tuple(renamed(i, keys) for i in value.values))
    return value


def rename(env: dict[str, Binding], keys: Mapping[str, Object]) -> dict[str, Binding]:
    """An environment with objects exchanged for others, contents included. Objects that are replaced are gone."""
    targets = {o.key for o in keys.values()}
    moved = {keys[k].key: b for k, b in env.items() if k in keys}
    kept = {k: b for k, b in env.items() if k not in keys and k not in targets}
    return {n: Binding(renamed(b.value, keys), b.loc, b.is_set) for n, b in {**kept, **moved}.items()}


def _object_in(value: Any) -> Object | None:
    """The object that a value is, or the only one that it is on some paths."""
    found = [v for v in (value.values if isinstance(value, Either) else (value,)) if isinstance(v, Object)]
    return found[0] if len(found) == 1 else None


def differing(values: list[Any], envs: list[Env]) -> list[tuple[Object | None, ...]]:
    """The groups of different objects that stand in one place of several values, with what they hold.

    None: there is something else in the place. Dicts and instances with other names stay apart.
    """
    groups: list[tuple[Object | None, ...]] = []
    pending = [tuple(values)]
    while pending:
        row = pending.pop()
        group = tuple(map(_object_in, row))
        found = [v for v in group if v is not None]
        if len(found) > 1:
            inner = [
                None if v is None else env[v.key].value if v.key in env else v.contents
                for v, env in zip(group, envs, strict=True)
            ]
            names = {(v.kind, v.names) if isinstance(v, Record) else None for v in inner if v is not None}
            if any(v != found[0] for v in found) and group not in groups and len(names) == 1:
                groups.append(group)
                pending.append(tuple(inner))
        elif all(isinstance(v, Ref) for v in row):
            pending.append(tuple(v.region for v in row))
        elif all(isinstance(v, Growing) for v in row):
            pending.extend(zip(*(regions_in(v.item) for v in row), strict=False))
        elif all(isinstance(v, Sequence) for v in row) or all(isinstance(v, Record) for v in row):
            pending.extend(zip(*(v.items for v in row), strict=False))
    return groups
