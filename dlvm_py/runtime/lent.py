"""What a call does to lists, dicts and instances of its caller, done: the other side of frontend/lent.py.

The kernel gives what they hold then. It is made Python objects of first, all of it, and then put into the very objects.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dlvm_py.backend.site import Site
from dlvm_py.errors import ArgumentError, Loc
from dlvm_py.ir.interface import Effects, ListSpec, RecordSpec, Spec, TableSpec, TupleSpec
from dlvm_py.ir.text import as_numpy, object_of
from dlvm_py.runtime.trees import Contents, is_named_tuple, parts_of
from dlvm_py.runtime.version import CallSpec, error_of

Places = dict[tuple[int, ...], Any]


def lent(call: CallSpec, values: Sequence[Any]) -> Places:
    """The objects of the arguments that the effects of a call speak of, by their places.

    Raises: ArgumentError DL710 where one that is changed stands at two places: it would have to change at both.
    """
    assert call.effects is not None
    found: Places = {}
    seen: dict[int, tuple[int, ...]] = {}
    changed = {place for variant in call.effects.variants for place in variant}
    for place, spec, value in _objects(call.args, values):
        found[place] = value
        if isinstance(spec, RecordSpec | ListSpec | TableSpec) and not is_named_tuple(spec.kind):
            other = seen.setdefault(id(value), place)
            if other != place and (other in changed or place in changed):
                names = [call.param_names[p[0]] for p in (other, place)]
                where = f"'{names[0]}' and '{names[1]}'" if names[0] != names[1] else f"two places of '{names[0]}'"
                raise ArgumentError(
                    f"one {spec.kind.__name__} is given as {where}, and the function changes it",
                    code="DL710",
                    help="pass a copy of it in one of the places",
                )
    for guard in call.guards:
        place = seen.get(id(guard.source.read()))
        if place in changed:
            raise ArgumentError(
                f"the {type(guard.value).__name__} given as '{call.param_names[place[0]]}' is the global or captured"  # type: ignore[index]
                f" '{guard.source.name}' as well, which the function reads, and the function changes it",
                code="DL710",
                help="read it through the argument only",
            )
    return found


def _objects(specs: Sequence[Spec], values: Sequence[Any]) -> Iterator[tuple[tuple[int, ...], Spec, Any]]:
    """(place, spec, value) of the arguments and of all that is in them, each before what it holds."""
    pending = [((k,), spec, value) for k, (spec, value) in enumerate(zip(specs, values, strict=True))]
    while pending:
        place, spec, value = pending.pop(0)
        yield place, spec, value
        if isinstance(spec, TupleSpec | RecordSpec):
            parts = parts_of(spec, value) or ()
            pending += [((*place, k), s, v) for k, (s, v) in enumerate(zip(spec.items, parts, strict=False))]


def carry_out(
    call: CallSpec, name: str, places: Places, number: int, take: Callable[[Spec, bool], Any], contents: Contents
) -> Any:
    """Do what the effects of a call say, and give what it returned; or raise what it raised.

    number: how it ended, see Effects. take(spec, wanted): the next part of the kernel's result, as an object if wanted.
    contents: what has been taken by then says of the caller's lists in lists, where it is their numbers that flow.
    """
    effects = call.effects
    assert effects is not None and isinstance(call.result, TupleSpec)
    result, ended, operands, *variants = call.result.items
    variant = effects.raises[number - 1].variant if number else effects.returned
    returned = take(result, not number)
    take(ended, False)
    assert isinstance(operands, TupleSpec)
    shown = {n for n, _ in effects.raises[number - 1].operands} if number else set()
    values = [take(spec, n in shown) for n, spec in enumerate(operands.items)]
    changed = [take(spec, n == variant) for n, spec in enumerate(variants)][variant]
    # the exception shows arrays as they are now, and what is put into the caller's lists changes none of them
    error = _error(call, name, effects, number, values) if number else None
    for place, new in zip(effects.variants[variant], changed, strict=True):
        _put(places[place], new)
    for inner, items in contents:
        inner[:] = items
    if error is not None:
        raise error
    return returned


def _put(target: Any, new: Any) -> None:
    """Let an object hold what a new one of its class holds."""
    if isinstance(target, list):
        target[:] = new
    elif isinstance(target, dict):
        if list(target) != list(new):
            target.clear()
        target.update(new)
    else:
        for f in dataclasses.fields(target):
            object.__setattr__(target, f.name, getattr(new, f.name))


def _error(call: CallSpec, name: str, effects: Effects, number: int, values: list[Any]) -> BaseException:
    raised = effects.raises[number - 1]
    site = Site(raised.exception, raised.message, (), Loc(*raised.loc) if raised.loc else None)
    shown = [object_of(as_numpy(values[n]), flavour) for n, flavour in raised.operands]
    return error_of(site, shown, name, call.classes)
