"""Calls f(*items) where the number of items is known at run time: f says how many there have to be."""

from __future__ import annotations

import inspect
from typing import Any

import gast

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frontend import objects
from dlvm_py.frontend.calls import closure_signature, invoke, is_users
from dlvm_py.frontend.capture import plain_function
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.folds import list_
from dlvm_py.frontend.iterate import iteration_of
from dlvm_py.frontend.library_calls import is_library
from dlvm_py.frontend.table import is_numpy, lookup
from dlvm_py.frontend.values import Array, Closure, Growing, Iteration, Method, Static, describe
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Value
from dlvm_py.ir.value import integer

_MAX_KNOWN = 64  # items of an array of constant length that become arguments


class Spread(Frozen, eq=False):
    """The place of `*items` among arguments, where the number of items is not known when compiling."""

    items: Array | Growing
    taken: Iteration


def spread(e: Emitter, items: Any, is_last: bool) -> list[Any]:
    """What `*items` of an array or a list of computed length adds to the arguments of a call.

    is_last: nothing is evaluated behind it that could change the items, which are read when the call is made.
    """
    if not (isinstance(items, Growing) or (isinstance(items, Array) and items.rank)):
        e.error(
            UnsupportedSyntax,
            f"`*` needs a tuple, a list or an array, not {describe(items)}",
            help="pass the value itself, or list(...) of it",
        )
    taken = iteration_of(e, items)
    count = integer(taken.count)
    if count is not None and count <= _MAX_KNOWN:
        return [taken.item(i64(k)) for k in range(count)]
    if not is_last and (isinstance(items, Growing) or items.rank == 1):
        items = objects.contents(e, list_(e, items))
        taken = iteration_of(e, items)
    return [Spread(items, taken)]


def call(e: Emitter, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """function(*args, **kwargs), where args may hold a Spread."""
    places = [k for k, a in enumerate(args) if isinstance(a, Spread)]
    if not places:
        return invoke(e, function, args, kwargs)
    if len(places) > 1:
        e.error(UnsupportedSyntax, "a call with `*` of two lengths that are computed is not supported")
    if isinstance(function, Method) and inspect.isfunction(function.rule) and is_users(function.rule):
        function, args, places = Static(function.rule), [function.owner, *args], [places[0] + 1]
    at = places[0]
    held: Spread = args[at]
    name, parameters = _fixed_parameters(e, function, held)
    count = e.offset(held.taken.count, len(args) - 1)
    fewest, most = _check(e, name, parameters, count, len(args) - 1, kwargs)

    def with_count(n: int) -> Any:
        items = [held.taken.item(i64(k)) for k in range(n - len(args) + 1)]
        return invoke(e, function, [*args[:at], *items, *args[at + 1 :]], kwargs)

    def chosen(n: int) -> Any:
        if n >= most:
            return with_count(n)
        return e.frame.choose_value(e.compare("equal", count, i64(n)), lambda: with_count(n), lambda: chosen(n + 1))

    return chosen(fewest)


def _fixed_parameters(e: Emitter, function: Any, held: Spread) -> tuple[str, list[inspect.Parameter]]:
    """The name of a plain function, as Python's errors have it, and its parameters; no `*args` among them."""
    target = function.value if isinstance(function, Static) else None
    plain = plain_function(target)
    what = describe(function)
    if isinstance(function, Closure):
        name, signature = _qualified(function), closure_signature(function)
    elif plain is not None and not (is_numpy(target) or is_library(target) or lookup(target) is not None):
        name, signature = plain.__qualname__, inspect.signature(plain, follow_wrapped=False)
    else:
        name, signature = what, None
    parameters = [] if signature is None else list(signature.parameters.values())
    if signature is None or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        reason = "its number of arguments is not fixed" if signature else "it is no plain function"
        e.error(
            UnsupportedSyntax,
            f"`*` of {describe(held.items)} cannot be passed to {name}: {reason}, and the length is computed",
            help="pass the array or list itself, or its items: f(x[0], x[1])",
        )
    return name, parameters


def _qualified(closure: Closure) -> str:
    frame, name = closure.frame, "<lambda>" if isinstance(closure.node, gast.Lambda) else closure.name
    while frame.outer is not None:
        node = frame.source.node
        name = f"{'<lambda>' if isinstance(node, gast.Lambda) else node.name}.<locals>.{name}"
        frame = frame.outer
    return f"{frame.function.__qualname__}.<locals>.{name}"


def _check(
    e: Emitter, name: str, parameters: list[inspect.Parameter], count: Value, given: int, kwargs: dict[str, Any]
) -> tuple[int, int]:
    """Python's TypeErrors for a number of positional arguments, of which `given` are sure; the fewest and the most."""
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    places = {p.name: k for k, p in enumerate(positional) if p.kind is p.POSITIONAL_OR_KEYWORD}
    most = len(positional)
    for keyword in kwargs:
        if keyword in places:
            fine = e.compare("lessThanOrEqual", count, i64(places[keyword]))
            e.check(fine, "TypeError", f"{name}() got multiple values for argument '{keyword}'")
            most = min(most, places[keyword])
    named = sum(p.kind is p.KEYWORD_ONLY and p.name in kwargs for p in parameters)
    if not positional and not named:
        fine = e.compare("notEqual", count, i64(1))
        e.check(fine, "TypeError", f"{name}() takes 0 positional arguments but 1 was given")
    fine = e.compare("lessThanOrEqual", count, i64(len(positional)))
    e.check(fine, "TypeError", _too_many(name, positional, named), count)
    required = [k for k, p in enumerate(positional) if p.default is p.empty and p.name not in kwargs]
    fewest = max(given, required[-1] + 1 if required else 0)
    for n in range(given, fewest):
        missing = [f"'{positional[k].name}'" for k in required if k >= n]
        listed = ", ".join(missing[:-1]) + ("," if len(missing) > 2 else "") + " and " + missing[-1]
        what = f"argument: {missing[0]}" if len(missing) == 1 else f"arguments: {listed}"
        fine = e.compare("notEqual", count, i64(n))
        e.check(fine, "TypeError", f"{name}() missing {len(missing)} required positional {what}")
    return fewest, max(fewest, most)


def _too_many(name: str, positional: list[inspect.Parameter], named: int) -> str:
    most, fewest = len(positional), sum(p.default is p.empty for p in positional)
    takes = f"{most}" if fewest == most else f"from {fewest} to {most}"
    takes += " positional argument" + ("" if takes == "1" else "s")
    behind = f" positional arguments (and {named} keyword-only argument{'' if named == 1 else 's'})" if named else ""
    return f"{name}() takes {takes} but {{}}{behind} were given"
