"""Dicts with constant string keys, named tuples and dataclass instances: made, read, changed, looped over.

Their structure is known at compile time, so that a record costs nothing in compiled code: it is its values.
"""

from __future__ import annotations

import dataclasses
import inspect
from types import FunctionType
from typing import Any

from dlvm_py.errors import TypeMismatch, UnknownFunction, UnsupportedSyntax
from dlvm_py.frontend.capture import is_named_tuple
from dlvm_py.frontend.closest import suggestion
from dlvm_py.frontend.emit import Emitter, Unreachable
from dlvm_py.frontend.objects import change, contents, new, settle
from dlvm_py.frontend.values import NONE, Method, Object, Record, Sequence, Static, View, describe


def iterated(value: Any) -> Any:
    """What iteration over a record gives: the keys of a dict, the values of a named tuple; else the value itself."""
    if not isinstance(value, Record):
        return value
    if value.kind is dict:
        return Sequence(tuple(map(Static, value.names)))
    return Sequence(value.items) if is_named_tuple(value.kind) else value


# -- making ------------------------------------------------------------------------------------------------


def construct(e: Emitter, kind: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """An instance of a named tuple or dataclass: the class is called."""
    values = {n: settle(e, v) for n, v in _bound(e, kind, args, kwargs).items()}
    if is_named_tuple(kind):
        return Record(kind, tuple(kind._fields), tuple(values[n] for n in kind._fields))  # type: ignore[attr-defined]
    if "__init__" in vars(kind) and not _is_generated(kind):
        e.error(
            UnsupportedSyntax,
            f"{kind.__name__} has an `__init__` of its own",
            help="let @dataclass write it, and put what it does into __post_init__",
        )
    fields = dataclasses.fields(kind)
    record = Record(kind, tuple(f.name for f in fields), tuple(values.get(f.name, NONE) for f in fields))
    hook = getattr(kind, "__post_init__", None)
    if hook is None:
        return record
    if kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        e.error(UnsupportedSyntax, f"{kind.__name__} is frozen and has a `__post_init__`, which cannot set fields")
    made = new(e, record)
    extra = [values[f.name] for f in _parameters(kind) if f.type is dataclasses.InitVar]
    e.session.call(e, hook, dict(zip(inspect.signature(hook).parameters, [made, *extra], strict=True)))
    return made


def _is_generated(kind: type) -> bool:
    return vars(kind)["__init__"].__code__.co_filename == "<string>"


def _parameters(kind: type) -> list[Any]:
    return [f for f in dataclasses.fields(kind) if f.init]


def _bound(e: Emitter, kind: type, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        bound = inspect.signature(kind).bind(*args, **kwargs).arguments
    except TypeError as error:
        e.error(TypeMismatch, f"{kind.__name__}(): {error}")
    values = dict(bound)
    if is_named_tuple(kind):
        for name, default in kind._field_defaults.items():  # type: ignore[attr-defined]
            if name not in values:
                values[name] = e.session.lift(e, default, name)
        return values
    for f in dataclasses.fields(kind):
        if f.name in values:
            continue
        if f.default is not dataclasses.MISSING:
            values[f.name] = e.session.lift(e, f.default, f.name)
        elif f.default_factory is not dataclasses.MISSING:
            values[f.name] = e.session.invoke(e, Static(f.default_factory), [], {})
    return values


def dict_(e: Emitter, items: Any = None, **values: Any) -> Any:
    """dict(), dict(d), dict(a=1), dict(pairs)."""
    record = Record(dict, (), ())
    for name, value in (*_pairs(e, items), *values.items()):
        record = record.replaced(name, value)
    return record


def _pairs(e: Emitter, items: Any) -> list[tuple[str, Any]]:
    held = contents(e, items)
    if held is None:
        return []
    if isinstance(held, Record) and held.kind is dict:
        return list(zip(held.names, held.items, strict=True))
    if isinstance(held, Sequence):
        rows = [contents(e, row) for row in held.items]
        if all(isinstance(row, Sequence) and len(row.items) == 2 for row in rows):
            return [(_name(e, row.items[0]), row.items[1]) for row in rows]
    e.error(UnsupportedSyntax, f"a dict cannot be made of {describe(items)}", help='write {"a": x, "b": y}')


def _name(e: Emitter, key: Any, owner: Any = None) -> str:
    if isinstance(key, Static) and isinstance(key.value, str):
        return key.value
    if owner is not None:
        e.session.require_dict(e, owner, key)
    e.error(
        UnsupportedSyntax,
        f"the key of a dict must be a constant string, not {describe(key)}",
        help="use a list or an array for numbered things, or make a dict here: {}",
    )


def entry(e: Emitter, record: Record, key: Any, value: Any) -> Record:
    """A dict with one more item: of a display or comprehension."""
    return record.replaced(_name(e, key), value)


# -- reading -------------------------------------------------------------------------------------------------


def item(e: Emitter, owner: Any, record: Record, index: Any) -> Any:
    """d["x"] of what a dict holds."""
    name = _name(e, index, owner)
    if name not in record.names:
        raise_key_error(e, name)
    return record.get(name)


def raise_key_error(e: Emitter, name: str) -> None:
    """Raise the KeyError of a key that a dict does not have."""
    e.emit("raise", exception="KeyError", message=name.replace("{", "{{").replace("}", "}}"))
    raise Unreachable


def attribute_of(e: Emitter, owner: Any, name: str) -> Any:
    """owner.name: a field, a property, a method, an attribute of the class."""
    record = contents(e, owner)
    if record.kind is dict:
        if name in DICT_METHODS:
            return Method(owner, name, DICT_METHODS[name])
        e.error(UnknownFunction, f"a dict has no supported method `{name}`", help=suggestion(name, DICT_METHODS))
    found = record.get(name)
    if found is not None:
        return found
    if is_named_tuple(record.kind) and name in TUPLE_METHODS:
        return Method(owner, name, TUPLE_METHODS[name])
    value = inspect.getattr_static(record.kind, name, None)
    if isinstance(value, property) and isinstance(value.fget, FunctionType):
        return e.session.invoke(e, Static(value.fget), [owner], {})
    if isinstance(value, FunctionType):
        return Method(owner, name, value)
    if isinstance(value, staticmethod | classmethod) or value is None:
        known = [*record.names, *(n for n in vars(record.kind) if not n.startswith("_"))]
        e.error(
            UnknownFunction,
            f"a {record.kind.__name__} has no supported attribute `{name}`",
            help=suggestion(name, known) or "write it as a function of its fields",
        )
    return e.session.lift(e, value, name)


# -- changing ------------------------------------------------------------------------------------------------


def set_item(e: Emitter, owner: Object, index: Any, value: Any) -> None:
    """d["x"] = value."""
    record = contents(e, owner)
    if record.kind is not dict:
        e.error(TypeMismatch, f"{describe(record)} has no items that can be set", help="assign to an attribute")
    change(e, owner, record.replaced(_name(e, index, owner), settle(e, value)))


def set_attribute(e: Emitter, owner: Any, name: str, value: Any) -> None:
    """owner.name = value."""
    record = contents(e, owner)
    if not isinstance(record, Record) or record.kind is dict:
        e.error(UnsupportedSyntax, f"an attribute of {describe(record)} cannot be set", help="return the new value")
    if not isinstance(owner, Object):
        hint = "make a new one: x._replace(a=1), or dataclasses.replace(x, a=1)"
        e.error(UnsupportedSyntax, f"{describe(record)} cannot be changed", help=hint)
    if name not in record.names:
        e.error(
            UnsupportedSyntax,
            f"`{name}` is no field of {record.kind.__name__}",
            help=suggestion(name, record.names) or "declare it in the class",
        )
    change(e, owner, record.replaced(name, settle(e, value)))


# -- methods -------------------------------------------------------------------------------------------------


def _get(e: Emitter, owner: Any, key: Any, default: Any = NONE) -> Any:
    found = contents(e, owner).get(_name(e, key, owner))
    return default if found is None else found


def _pop(e: Emitter, owner: Any, key: Any, default: Any = None) -> Any:
    record, name = contents(e, owner), _name(e, key, owner)
    if name not in record.names:
        if default is None:
            raise_key_error(e, name)
        return default
    found = record.get(name)
    _without(e, owner, record, name)
    return found


def _without(e: Emitter, owner: Any, record: Record, name: str) -> None:
    kept = [(n, v) for n, v in zip(record.names, record.items, strict=True) if n != name]
    change(e, owner, Record(dict, tuple(n for n, _ in kept), tuple(v for _, v in kept)))


def delete_item(e: Emitter, owner: Any, key: Any) -> None:
    """del d["x"]."""
    _pop(e, owner, key)


def _setdefault(e: Emitter, owner: Any, key: Any, default: Any = NONE) -> Any:
    name = _name(e, key, owner)
    if name not in contents(e, owner).names:
        change(e, owner, contents(e, owner).replaced(name, settle(e, default)))
    return contents(e, owner).get(name)


def _update(e: Emitter, owner: Any, items: Any = None, **values: Any) -> Any:
    record = contents(e, owner)
    for name, value in (*_pairs(e, items), *values.items()):
        record = record.replaced(name, settle(e, value))
    change(e, owner, record)
    return NONE


DICT_METHODS: dict[str, Any] = {
    "keys": lambda e, d: View(d, "keys"),
    "values": lambda e, d: View(d, "values"),
    "items": lambda e, d: View(d, "items"),
    "copy": lambda e, d: contents(e, d),
    "get": _get,
    "pop": _pop,
    "setdefault": _setdefault,
    "update": _update,
}


def replace(e: Emitter, obj: Any, /, **changes: Any) -> Any:
    """x._replace(a=1), dataclasses.replace(x, a=1)."""
    record = contents(e, obj)
    if not isinstance(record, Record) or record.kind is dict:
        e.error(TypeMismatch, f"replace needs a dataclass instance or named tuple, not {describe(record)}")
    if not is_named_tuple(record.kind):
        values = dict(zip(record.names, record.items, strict=True))
        return construct(e, record.kind, [], {f.name: values[f.name] for f in _parameters(record.kind)} | changes)
    for name, value in changes.items():
        if name not in record.names:
            e.error(TypeMismatch, f"`{name}` is no field of {record.kind.__name__}")
        record = record.replaced(name, value)
    return record


TUPLE_METHODS: dict[str, Any] = {
    "_replace": replace,
    "_asdict": lambda e, x: Record(dict, contents(e, x).names, contents(e, x).items),
}


def merged(e: Emitter, a: Record, b: Record) -> Record:
    """a | b of dicts."""
    for name, value in zip(b.names, b.items, strict=True):
        a = a.replaced(name, value)
    return a
