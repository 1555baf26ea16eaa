"""Values of another kind on some of the paths to a place: None or a number, an int or an array, arrays of two dtypes.

    found = None                         found is Either(%place: i64, (None, a float)): where nothing was found %place
    for v in x:                          is 0, and the float says nothing
        if v > limit:
            found = v
    if found is None:                    decided by %place: what follows knows which one it is
        return 0.0
    return found * 2.0

`join` gives names such a type where their values have no common one, once something has read the name (the translation
begins anew then: Known.require_several). What reads it is translated for each kind: the whole statement, in which every
name with the same place has that kind, so that names which are set together are told apart together; behind it the
paths meet, and a name that has become one kind is a plain value again. Inside of an expression, where the value has no
name, it is the expression that has it as an operand. What is only passed on stays as it is: `y = x`, `return x, y`
(interface.EitherSpec).

Where a statement has no meaning for one of the kinds, but for another one, it raises TypeError when it runs, as Python
does: `total[0]` where no iteration has made an array of the int `total`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import gast

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.emit import Emitter, Unreachable, i64
from dlvm_py.frontend.facts import key
from dlvm_py.frontend.nodes import Consumed
from dlvm_py.frontend.texts import escaped
from dlvm_py.frontend.values import Binding, Either, Static, describe
from dlvm_py.ir import Literal, Value

_MAX_WAYS = 16  # in which the kinds of several names go together


class Met(Exception):  # noqa: N818 - not an error: the expression is translated for each kind
    """An operand has several kinds: `node`, with `value`; `held` are the operands before it."""

    def __init__(self, node: Any, value: Either, held: dict[Any, Any]) -> None:
        super().__init__()
        self.node, self.value, self.held = node, value, held


def of_each(frame: Any, value: Either, action: Callable[[int], None]) -> None:
    """Run a piece of translation for each kind, on a branch where all names of that place have it, and merge."""
    _alternatives(frame, value, action, lambda flag, then, other: frame.branches(flag, then, other))


def chosen(frame: Any, value: Either, thunk: Callable[[int], Any]) -> Any:
    """The value of a thunk, evaluated for each kind on a branch of its own."""
    return _alternatives(frame, value, thunk, frame.choose_value)


def _alternatives(frame: Any, value: Either, action: Callable[[int], Any], branch: Callable[..., Any]) -> Any:
    e, last = frame.e, len(value.values) - 1
    before = frame.ways
    frame.ways *= last + 1
    if frame.ways > _MAX_WAYS:
        e.error(
            UnsupportedSyntax,
            "too many names in this statement have values of several kinds, on different paths",
            help="decide which ones they are first: if x is None: ...",
        )

    tried, failed = 0, 0

    def of(k: int) -> Any:
        nonlocal tried, failed
        frame.env = {n: _narrowed(b, value.place, k) for n, b in frame.env.items()}
        depth, undo, tried = e.facts.push(), frame.checkpoint(), tried + 1
        try:
            found = action(k)
        except TypeMismatch as error:
            failed += 1
            if tried == failed and (k == last or tried > last):
                raise
            undo()
            found = f"this is {escaped(describe(value.values[k]))} here: {escaped(error.reason)}"
            e.emit("raise", exception="TypeError", message=found)
            raise Unreachable from None
        finally:
            e.facts.pop(depth)
        return found

    def from_(k: int) -> Any:
        flag = e.compare("equal", value.place, i64(k)) if k < last else None
        if flag is None or (isinstance(flag, Literal) and flag.value):
            return of(k)
        if isinstance(flag, Literal):
            return from_(k + 1)
        return branch(flag, lambda: of(k), lambda: from_(k + 1))

    try:
        return from_(0)
    finally:
        frame.ways = before


def _narrowed(binding: Binding, place: Value, k: int) -> Binding:
    """A binding where the place says `k`."""
    value = binding.value
    if isinstance(value, Either) and key(value.place) == key(place):
        return Binding(value.values[k], binding.loc, binding.is_set)
    return binding


def differentiable(e: Emitter, value: Either) -> Any:
    """A result that is differentiated: a TypeError where it is None, or another constant, which has no derivative."""
    constants = [isinstance(v, Static) for v in value.values]
    for k, one in enumerate(value.values):
        if constants[k]:
            there = e.pure("not", e.compare("equal", value.place, i64(k)))
            e.check(there, "TypeError", f"the result is {escaped(describe(one))} here, which has no derivative")
    return value.values[constants.index(False)] if constants.count(False) == 1 else value


def reads(node: Any, names: Iterable[str]) -> list[str]:
    """Which of some names a statement uses before a statement in it does; not those that it only passes on."""
    wanted = frozenset(names)
    found = (n.id for part in _heads(node) for n in gast.walk(part) if isinstance(n, gast.Name))
    return [n for n in dict.fromkeys(found) if n in wanted]


def _heads(node: Any) -> list[Any]:
    match node:
        case gast.If() | gast.Assert():
            return [node.test]
        case gast.For():
            return [node.iter]
        case Consumed():
            return [] if _passes_on(node.value) else [node.value]
        case gast.Match():
            return [node.subject]
        case gast.Return():
            return [] if node.value is None or _passes_on(node.value) else [node.value]
        case gast.Assign():
            targets = [t for t in node.targets if not isinstance(t, gast.Name)]
            return targets if _passes_on(node.value) and not targets else [node.value, *targets]
        case gast.Expr() | gast.AugAssign() | gast.AnnAssign() | gast.Raise() | gast.Delete():
            return [node]
    return []


def _passes_on(node: Any) -> bool:
    if isinstance(node, gast.Tuple):
        return all(map(_passes_on, node.elts))
    return isinstance(node, gast.Name | gast.Constant)
