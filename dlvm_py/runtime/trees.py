"""Arguments and results with structure: tuples, lists, dicts, named tuples and dataclass instances, by their specs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from dlvm_py.ir.interface import ConstantSpec, EitherSpec, GrowingSpec, Pairs, RecordShape, RecordSpec, Spec, TupleSpec


def is_named_tuple(kind: type) -> bool:
    """Whether a class was made by collections.namedtuple or typing.NamedTuple."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def parts_of(spec: TupleSpec | RecordSpec, value: Any) -> list[Any] | None:
    """What stands under the items of a spec in a value; None if the value has another structure."""
    kind = tuple if isinstance(spec, TupleSpec) else spec.kind
    if type(value) is not kind:
        return None
    if isinstance(value, tuple | list):
        return list(value) if len(value) == len(spec.items) else None
    assert isinstance(spec, RecordSpec)
    if kind is set:
        return lambda parts: set(*parts)
    if kind is Pairs:
        return lambda parts: dict(zip(*parts, strict=True))
    if kind is dict:
        return list(value.values()) if tuple(value) == spec.names else None
    try:
        return [getattr(value, name) for name in spec.names]
    except AttributeError:  # a field that was deleted
        return None


def items_of(spec: Spec) -> tuple[Spec, ...]:
    """The specs under a spec."""
    return spec.items if isinstance(spec, TupleSpec | RecordSpec | EitherSpec) else ()


def walk(specs: Iterable[Spec]) -> Iterator[Spec]:
    """All specs, each before those under it, left to right."""
    for spec in specs:
        yield spec
        yield from walk(items_of(spec))


Places = Mapping[tuple[int, ...], Any]
Contents = list[tuple[list[Any], list[Any]]]  # lists, and what each is to hold


class Known(NamedTuple):
    """The caller's objects; the lists in lists by region and number; what the caller's among them are to hold."""

    places: Places
    made: dict[str, dict[int, list[Any]]]
    contents: Contents


def maker(spec: Spec, known: Known | None = None) -> Callable[[tuple[Any, ...]], Any]:
    """What makes a result with structure of its parts, which are the columns for a growing list."""
    if isinstance(spec, GrowingSpec):
        return lambda columns: _rows(spec.item, iter(columns), known or Known({}, {}, []))
    assert isinstance(spec, RecordSpec)
    kind, names = spec.kind, spec.names
    if kind is list:
        return list
    if kind is set:
        return lambda parts: set(*parts)
    if kind is Pairs:
        return lambda parts: dict(zip(*parts, strict=True))
    if kind is dict:
        return lambda parts: dict(zip(names, parts, strict=True))
    return _instance_maker(kind, names)


def _instance_maker(kind: type, names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Any]:
    if is_named_tuple(kind):
        return lambda parts: tuple.__new__(kind, parts)

    def make(parts: tuple[Any, ...]) -> Any:
        # what __init__ and __post_init__ do has been done in compiled code
        made = object.__new__(kind)
        for name, part in zip(names, parts, strict=True):
            object.__setattr__(made, name, part)
        return made

    return make


def _rows(item: Any, columns: Iterator[np.ndarray[Any, Any]], known: Known) -> list[Any]:
    """The items of a growing list, each as Python would have it: numbers, arrays of their own, tuples and lists."""
    columns = iter(list(columns))
    count, part = _reader(item, columns, known)
    return part(0, count)


def _reader(
    item: Any, columns: Iterator[np.ndarray[Any, Any]], known: Known
) -> tuple[int, Callable[[int, int], list[Any]]]:
    """How many items columns have, and what gives those from one place to another."""
    if not isinstance(item, RecordShape):
        column = next(columns)
        if item == "weak":
            return len(column), lambda a, b: column[a:b].tolist()
        if item == "array":
            return len(column), lambda a, b: [np.array(row) for row in column[a:b]]
        return len(column), lambda a, b: list(column[a:b])
    if item.kind is list:
        return _lists(item, columns, known)
    if not item.items:
        return 0, lambda a, b: []
    readers = [_reader(i, columns, known) for i in item.items]
    make = tuple if item.kind is tuple else _instance_maker(item.kind, _names(item.kind))
    return readers[0][0], lambda a, b: [make(row) for row in zip(*(part(a, b) for _, part in readers), strict=True)]


def _lists(
    shape: RecordShape, columns: Iterator[np.ndarray[Any, Any]], known: Known
) -> tuple[int, Callable[[int, int], list[Any]]]:
    """As `_reader`, of lists: their numbers, then where each begins and its length, then the items of all."""
    numbers, starts, lengths = next(columns), next(columns), next(columns)
    _, part = _reader(shape.items[0], columns, known)
    made: dict[int, list[Any]] = known.made.setdefault(shape.region, {}) if shape.region else {}
    for k, place in shape.known:  # the caller's, also where nothing refers to it any more
        if k not in made:
            made[k], start = known.places[place], int(starts[k])
            known.contents.append((made[k], part(start, start + int(lengths[k]))))

    def taken(a: int, b: int) -> list[Any]:
        found = numbers[a:b].tolist()
        for k in found:
            if k not in made:  # a list that stands at two places is one
                start = int(starts[k])
                made[k] = part(start, start + int(lengths[k]))
        return [made[k] for k in found]

    return len(numbers), taken


def _names(kind: type) -> tuple[str, ...]:
    if is_named_tuple(kind):
        return tuple(kind._fields)  # type: ignore[attr-defined]
    return tuple(f.name for f in dataclasses.fields(kind))


def makers(result: Spec) -> list[Callable[[tuple[Any, ...]], Any]]:
    """The makers of a result, in the order in which its specs are walked."""
    return [maker(s) for s in walk((result,)) if isinstance(s, RecordSpec | GrowingSpec)]


def result_constants(result: Spec) -> list[Any]:
    """The constants of a result, left to right."""
    return [s.value for s in walk((result,)) if isinstance(s, ConstantSpec)]


def record_kind(value: Any) -> type | None:
    """The class of a list, dict, named tuple or dataclass instance, None for other values."""
    kind = type(value)
    known = kind is list or kind is dict or is_named_tuple(kind) or dataclasses.is_dataclass(kind)
    return kind if known else None


def field_names(value: Any) -> tuple[str, ...]:
    """The names in a value of such a class: keys or fields; () for a list."""
    kind = type(value)
    if kind is list:
        return ()
    return tuple(value) if kind is dict else _names(kind)
