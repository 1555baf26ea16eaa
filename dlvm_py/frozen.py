"""Records, like data classes with slots, but made without compiling generated code: `Frozen` ones, and `Mutable` ones.

    class Point(Frozen):
        x: float
        y: float = 0.0

`dataclasses` writes the text of five functions a class and has Python compile it, 4 million instructions: 40 classes
were three quarters of `import dlvm_py`, 150 a third of loading the compiler. Here all classes share their functions but
`__init__`, which a class gets at its first instance: classes with as many fields share its code. A leaf of the import
graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, TypeVar, dataclass_transform

_MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<missing>", "__slots__": ()})()

T = TypeVar("T", bound="_Record")


class _Field:
    """What `field` says of one."""

    __slots__ = ("default", "factory", "kw_only", "compare")

    def __init__(self, default: Any, factory: Callable[[], Any] | None, kw_only: bool, compare: bool) -> None:
        self.default, self.factory, self.kw_only, self.compare = default, factory, kw_only, compare

    @property
    def has_default(self) -> bool:
        """Whether it may be left out. What a factory makes is not there yet: its default is that it is missing."""
        return self.default is not _MISSING or self.factory is not None


def field(
    *,
    default: Any = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    kw_only: bool = False,
    compare: bool = True,
) -> Any:
    """More about a field than a default: what makes one, no place among the arguments, no part in == and repr."""
    return _Field(default, default_factory, kw_only, compare)


class _Records(type):
    """The class of the classes: makes slots of annotations, and what the methods of `_Record` read."""

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
        if "__init__" in space:
            raise TypeError(f"{name} is a record: what else a new one needs stands in __post_init__")
        space["__init__"] = _first
        if not eq:
            space.setdefault("__eq__", object.__eq__)
            space.setdefault("__hash__", object.__hash__)
        made = super().__new__(meta, name, bases, space)
        compared = [n for n, f in fields.items() if f.compare]
        made._compared = tuple(compared)
        made._key = attrgetter(*compared) if compared else _nothing
        return made

    _fields: dict[str, _Field]
    _compared: tuple[str, ...]
    _key: Callable[[Any], Any]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _FrozenRecords(_Records):
    """The class of frozen ones."""


@dataclass_transform(field_specifiers=(field,))
class _MutableRecords(_Records):
    """The class of the others."""


def _nothing(record: Any) -> tuple[()]:
    return ()


def _first(self: Any, *args: Any, **kwargs: Any) -> None:
    """`__init__` of a class without instances: makes the one that it has from then on."""
    cls: Any = type(self)
    cls.__init__ = _initializer(cls)
    cls.__init__(self, *args, **kwargs)


def _initializer(cls: Any) -> FunctionType:
    """The `__init__` of a class: the code of all with as many fields, with its own names, defaults and setters."""
    fields: dict[str, _Field] = cls._fields
    positional = cls.__match_args__
    order = (*positional, *(n for n, f in fields.items() if f.kw_only))
    space: dict[str, Any] = {"missing": _MISSING, "__builtins__": {}}
    for k, name in enumerate(order):
        space[f"put{k}"] = getattr(cls, name).__set__
        space[f"make{k}"] = fields[name].factory
    defaults = [fields[n].default for n in positional if fields[n].has_default]
    if not all(fields[n].has_default for n in positional[len(positional) - len(defaults) :]):
        raise TypeError(f"{cls.__qualname__}: a field without a default stands behind one that has one")
    factories = tuple(k for k, n in enumerate(order) if fields[n].factory is not None)
    code = _code(len(order), factories, hasattr(cls, "__post_init__"))
    code = code.replace(
        co_varnames=("self", *order),
        co_argcount=1 + len(positional),
        co_kwonlyargcount=len(order) - len(positional),
        co_qualname=f"{cls.__qualname__}.__init__",
    )
    made = FunctionType(code, space, "__init__", tuple(defaults))
    made.__kwdefaults__ = {n: fields[n].default for n in order[len(positional) :] if fields[n].has_default}
    return made


@functools.cache
def _code(count: int, factories: tuple[int, ...], ends: bool) -> CodeType:
    """The code of an `__init__` of so many fields, of which these have a factory for their default.

    ends: with a call of `__post_init__`.
    """
    lines = [f"def __init__(self, {', '.join(f'value{k}' for k in range(count))}):", " pass"]
    for k in range(count):
        value = f"make{k}() if value{k} is missing else value{k}" if k in factories else f"value{k}"
        lines.append(f" put{k}(self, {value})")
    if ends:
        lines.append(" self.__post_init__()")
    space: dict[str, Any] = {}
    exec("\n".join(lines), space)
    return space["__init__"].__code__  # type: ignore[no-any-return]


class _Record(metaclass=_Records):
    """What both kinds have: fields by annotation (every one is a field), with defaults, by position or name.

    Equal by class and fields. A subclass has the fields of its base first. `__post_init__` is called on each new one.
    """

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        key = type(self)._key
        return key(self) == key(other)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        shown = ", ".join(f"{n}={getattr(self, n)!r}" for n in type(self)._compared)
        return f"{type(self).__qualname__}({shown})"


class Mutable(_Record, metaclass=_MutableRecords):
    """Base of records that change; not hashable, if not `eq=False`."""

    __hash__ = None  # type: ignore[assignment]


class Frozen(_Record, metaclass=_FrozenRecords):
    """Base of records that do not change; hashable."""

    def __hash__(self) -> int:
        return hash(type(self)._key(self))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to {name}: {type(self).__qualname__} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name}: {type(self).__qualname__} is immutable")

    def __reduce__(self) -> Any:
        return _remade, (type(self), as_dict(self))


def _remade(cls: type[T], values: dict[str, Any]) -> T:
    return cls(**values)


def field_names(cls: type[_Record]) -> tuple[str, ...]:
    """The names of the fields of a class, in order."""
    return tuple(cls._fields)


def as_dict(record: _Record) -> dict[str, Any]:
    """The values of all fields by name."""
    return {name: getattr(record, name) for name in type(record)._fields}


def replace(record: T, **changes: Any) -> T:
    """A record like this one, but for some fields."""
    return type(record)(**{**as_dict(record), **changes})
