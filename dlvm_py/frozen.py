"""Immutable records, like frozen data classes with slots, but made without compiling generated code.

    class Point(Frozen):
        x: float
        y: float = 0.0

`dataclasses` writes the text of five functions a class and has Python compile it: forty classes were three quarters of
`import dlvm_py`. Here all classes share their functions. A leaf of the import graph.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

_MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<missing>", "__slots__": ()})()

T = TypeVar("T", bound="Frozen")


class _Field:
    """What `field` says of one."""

    __slots__ = ("default", "factory", "kw_only", "compare")

    def __init__(self, default: Any, factory: Callable[[], Any] | None, kw_only: bool, compare: bool) -> None:
        self.default, self.factory, self.kw_only, self.compare = default, factory, kw_only, compare


def field(
    *,
    default: Any = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    kw_only: bool = False,
    compare: bool = True,
) -> Any:
    """More about a field than a default: what makes one, no place among the arguments, no part in == and repr."""
    return _Field(default, default_factory, kw_only, compare)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _Records(type):
    """The class of the classes: makes slots of annotations, and what the methods of `Frozen` read."""

    def __new__(
        meta: type[_Records], name: str, bases: tuple[type, ...], space: dict[str, Any], eq: bool = True
    ) -> _Records:
        fields: dict[str, _Field] = {}
        for base in bases:
            fields |= getattr(base, "_fields", {})
        own = list(space.get("__annotations__", ()))
        for n in own:
            default = space.pop(n, _MISSING)
            fields[n] = default if isinstance(default, _Field) else _Field(default, None, False, True)
        inherited = {n for base in bases for n in getattr(base, "_fields", ())}
        space["__slots__"] = (*space.get("__slots__", ()), *(n for n in own if n not in inherited))
        space["_fields"] = fields
        space["__match_args__"] = tuple(n for n, f in fields.items() if not f.kw_only)
        if not eq:
            space.setdefault("__eq__", object.__eq__)
            space.setdefault("__hash__", object.__hash__)
        made = super().__new__(meta, name, bases, space)
        order = [*made.__match_args__, *(n for n, f in fields.items() if f.kw_only)]  # type: ignore[attr-defined]
        compared = [n for n, f in fields.items() if f.compare]
        made._setters = tuple(getattr(made, n).__set__ for n in order)
        made._order = tuple(order)
        made._compared = tuple(compared)
        made._key = attrgetter(*compared) if compared else _nothing
        made._tails = _tails(fields, order, len(made.__match_args__))  # type: ignore[attr-defined]
        return made

    _fields: dict[str, _Field]
    _setters: tuple[Callable[[Any, Any], None], ...]
    _order: tuple[str, ...]
    _compared: tuple[str, ...]
    _key: Callable[[Any], Any]
    _tails: dict[int, tuple[Any, ...]]


def _nothing(record: Any) -> tuple[()]:
    return ()


def _tails(fields: dict[str, _Field], order: list[str], positional: int) -> dict[int, tuple[Any, ...]]:
    """The defaults behind so many positional arguments, where that is all that is missing."""
    found: dict[int, tuple[Any, ...]] = {}
    tail: tuple[Any, ...] = ()
    for count in range(len(order), -1, -1):
        if count <= positional:
            found[count] = tail
        if count and (default := fields[order[count - 1]].default) is _MISSING:
            break
        if count:
            tail = (default, *tail)
    return found


class Frozen(metaclass=_Records):
    """Base of records: fields by annotation (every one is a field), with defaults, by position or name.

    Equal by class and fields; hashable. A subclass has the fields of its base first.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        tail = None if kwargs else cls._tails.get(len(args))
        values = _complete(cls, args, kwargs) if tail is None else args + tail
        for put, value in zip(cls._setters, values, strict=True):
            put(self, value)

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        key = type(self)._key
        return key(self) == key(other)  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        return hash(type(self)._key(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{n}={getattr(self, n)!r}" for n in type(self)._compared)
        return f"{type(self).__qualname__}({shown})"

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to {name}: {type(self).__qualname__} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name}: {type(self).__qualname__} is immutable")

    def __reduce__(self) -> Any:
        return _remade, (type(self), as_dict(self))


def _complete(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """One value a field, in the order of the setters."""
    names = cls.__match_args__
    if len(args) > len(names):
        raise TypeError(f"{cls.__qualname__} takes {len(names)} positional arguments, not {len(args)}")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in cls._fields or name in given:
            what = "more than one value for" if name in given else "no field"
            raise TypeError(f"{cls.__qualname__}: {what} {name}")
        given[name] = value
    values = []
    for name in cls._order:
        f = cls._fields[name]
        value = given.get(name, f.default) if f.factory is None or name in given else f.factory()
        if value is _MISSING:
            raise TypeError(f"{cls.__qualname__}: no value for {name}")
        values.append(value)
    return values


def _remade(cls: type[T], values: dict[str, Any]) -> T:
    return cls(**values)


def field_names(cls: type[Frozen]) -> tuple[str, ...]:
    """The names of the fields of a class, in order."""
    return tuple(cls._fields)


def as_dict(record: Frozen) -> dict[str, Any]:
    """The values of all fields by name."""
    return {name: getattr(record, name) for name in type(record)._fields}


def replace(record: T, **changes: Any) -> T:
    """A record like this one, but for some fields."""
    return type(record)(**{**as_dict(record), **changes})
