"""Functions defined inside compiled code where they cannot be translated in place: recursive ones, and derivatives.

A plain function stands in the place of the closure, and takes what that reads of its surroundings as more arguments,
behind its own; of closures among it, what these read. Names are read when the call is made, as Python reads them.

    def g(k): return 1.0 if k < 1 else c * g(k - 1)        @g(%k, %c): ... apply @g(%k - 1, %c)
    y = g(n)                                          →    %y = apply @g(%n, %c)
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

import gast

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frontend import objects
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.liveness import nonlocal_names, reads, writes
from dlvm_py.frontend.signature import NotFirstClass
from dlvm_py.frontend.values import Closure, Derivative, Scalar, Static, describe
from dlvm_py.frozen import Frozen


class Nested(Frozen):
    """A function in the place of a closure: the names that it takes behind its own, the functions that it reads.

    captured: by its parameters.
    """

    closure: Closure
    captured: dict[str, str]
    functions: dict[str, Closure | Derivative]


def parameter_names(node: Any) -> list[str]:
    """All parameters of a nested function, in no order that matters."""
    return [a.id for a in gast.walk(node.args) if isinstance(a, gast.Name) and isinstance(a.ctx, gast.Param)]


def surroundings(closure: Closure) -> dict[str, Any]:
    """The frames of what a closure reads of the functions around it, by name; of what has a value now."""
    node, found = closure.node, {}
    for name in sorted(reads(node) - writes(body_of(closure)).union(parameter_names(node))):
        frame = closure.frame
        while frame is not None and name not in frame.locals and name not in frame.shadowed:
            frame = frame.outer
        if frame is not None and name in frame.env:
            found[name] = frame
    return found


def body_of(closure: Closure) -> list[Any]:
    """The statements of a nested function, or the expression of a lambda."""
    return [closure.node.body] if isinstance(closure.node, gast.Lambda) else closure.node.body


def collect(e: Emitter, closure: Closure, values: dict[str, Any], functions: dict[str, Any]) -> None:
    """What a closure reads of its surroundings, by name; of closures among it, what these read."""
    for name, frame in surroundings(closure).items():
        value = frame.read_name(name)
        known = values.get(name, functions.get(name))
        if known is not None and known is not value:
            e.error(
                UnsupportedSyntax,
                f"{describe(closure)} reaches two variables `{name}`",
                help="give them different names",
            )
        if known is not None:
            continue
        if not isinstance(value, Closure | Derivative):
            values[name] = value
            continue
        functions[name] = value
        inner = value if isinstance(value, Closure) else value.closure
        for default in (*inner.defaults, *inner.keyword_defaults.values()):
            _require_constant(e, inner, default)
        collect(e, inner, values, functions)


def _require_constant(e: Emitter, closure: Closure, value: Any) -> None:
    if isinstance(value, Static) or (isinstance(value, Scalar) and value.number is not None):
        return
    e.error(
        UnsupportedSyntax,
        f"a default of {describe(closure)}, which a call elsewhere needs, is {describe(value)} that is computed",
        help="pass it as an argument",
    )


# -- recursion -------------------------------------------------------------------------------------------------


def calls_itself(closure: Closure) -> bool:
    """Whether a closure reaches itself through the names of functions that it reads."""
    seen: list[Any] = []
    pending = [closure]
    while pending:
        for name, frame in surroundings(pending.pop()).items():
            value = frame.env[name].value
            if not isinstance(value, Closure):
                continue
            if value.node is closure.node and value.frame is closure.frame:
                return True
            if (value.node, value.frame) not in seen:
                seen.append((value.node, value.frame))
                pending.append(value)
    return False


def call(e: Emitter, closure: Closure, own: dict[str, Any]) -> Any:
    """A recursive closure at these values of its parameters: a call of a function of its own.

    Raises: NotFirstClass where it binds names of its surroundings anew, or something with an identity (a list or dict
    that compiled code has made) is among what it takes.
    """
    values: dict[str, Any] = {}
    functions: dict[str, Closure | Derivative] = {}
    collect(e, closure, values, functions)
    closures = {n: f if isinstance(f, Closure) else f.closure for n, f in functions.items()}
    if any(nonlocal_names(body_of(c)) for c in closures.values()):
        raise NotFirstClass
    captured = captured_parameters(list(own), values)
    taken = own | {p: objects.settle(e, values[n]) for p, n in captured.items()}
    key = (_identity(e, closure), tuple((n, _identity(e, f)) for n, f in functions.items()), tuple(taken))
    stand_in = e.session.stand_ins.get(key)
    if stand_in is None:
        stand_in = e.session.stand_ins[key] = stand_in_of(closure.name, list(taken))
        e.session.nested[stand_in] = Nested(closure, captured, functions)
    return e.session.call(e, stand_in, taken)


def _identity(e: Emitter, function: Closure | Derivative) -> tuple[Any, ...]:
    """What two closures that are the same function of what they read have in common.

    The same tree is another function inside of another Python function (whose cells it reads), with other defaults,
    and as another derivative.
    """
    if isinstance(function, Derivative):
        return (*_identity(e, function.closure), repr(function.makers))
    given = (*function.defaults, *function.keyword_defaults.values())
    defaults = tuple(_constant_key(e, d) for d in given)
    return (function.node, function.frame.function, defaults)


def _constant_key(e: Emitter, value: Any) -> Any:
    if isinstance(value, Static):
        return e.session.token(value.value)
    if isinstance(value, Scalar) and value.number is not None:
        return (type(value.number).__name__, str(value.number), value.value.type, value.weak)
    return value


def captured_parameters(own: list[str], names: Iterable[str]) -> dict[str, str]:
    """Parameters for captured names, each with its name: called so, unless the function has one of that name."""
    found: dict[str, str] = {}
    for name in names:
        parameter = name
        while parameter in own or parameter in found:
            parameter += "_"
        found[parameter] = name
    return found


def stand_in_of(name: str, names: list[str]) -> FunctionType:
    """A function of this name with these parameters."""
    found: FunctionType = eval(f"lambda {', '.join(names)}: None")  # of identifiers alone
    found.__name__ = name
    return found
