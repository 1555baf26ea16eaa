"""`try`: what raises in its body goes to a handler along an edge of the CFG, so that nothing is unwound.

    try:                                  'entry: %c = notEqual %n, 0
        y = 1 / n                                 conditional %c then 'next() else 'raised()
    except ZeroDivisionError:       →     'next:  %y = divide 1.0, ..     branch 'after(%y)
        y = 0.0                           'raised:                        branch 'after(0.0)

A `check` or `raise` is caught when it is emitted: its class is known, and so is the clause that takes it. The names
that the handlers read are live throughout the body, and each edge brings what they are bound to there. A handler that
asks which exception it has (`as e`, a bare `raise`) is translated once for each place that raises, with the class and
the text of that one. `finally` takes everything, and raises it again; it also stands on the way of `return`, `break`
and `continue`.

Calls are translated in place. Matrices that `solve` and `cholesky` refuse are found before (library_calls.py). What an
instruction raises by itself cannot be caught: that an eigenvalue does not converge, and what a function with derivative
rules raises, are refused where a clause would take them. What Python does not have passes by all
clauses: an int of more than 64 bits, memory that is used up, an interrupt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gast
import numpy as np

from dlvm_py.errors import Loc, UnsupportedSyntax
from dlvm_py.frontend import objects, texts
from dlvm_py.frontend.capture import class_name
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.merges import Edge
from dlvm_py.frontend.nodes import made
from dlvm_py.frontend.values import Binding, Caught, Static, Text
from dlvm_py.frontend.values import Sequence as Items
from dlvm_py.frozen import Frozen, Mutable, field
from dlvm_py.ir import Instruction, Value, is_array
from dlvm_py.ir.exceptions import exception_class
from dlvm_py.ir.text import flavours_of

_MAX_COPIES = 32  # of a handler that asks what was raised
_RETURNED = "$returned"


class Raised(Frozen):
    """A path on which an exception is caught. passing: the `try` of generators that it is not raised in."""

    edge: Edge
    exception: Caught
    loc: Loc | None
    passing: tuple[Try, ...] = ()


class Clause(Mutable, eq=False):
    """An `except` clause of a `try` whose body is translated; `live`: the names that it and what follows read."""

    kinds: tuple[type, ...]
    live: frozenset[str]
    raised: list[Raised] = field(default_factory=list)


class Try(Mutable, eq=False):
    """A `try` statement whose body is translated by `frame`; `applies`: whether it takes what is raised here.

    The whole call is one (`is_call`) where the function changes what its caller lends (lent.py). One in a generator
    takes nothing that the loop raises which consumes it (`passed`), a `finally` excepted.
    """

    frame: Any
    clauses: list[Clause]
    applies: Callable[[Emitter], bool] = lambda e: True
    is_call: bool = False
    is_final: bool = False
    passed: int = 0

    def takes(self, e: Emitter) -> bool:
        """Whether it takes what is raised here."""
        return not self.passed and self.applies(e)


class Final(Frozen):
    """A `finally` that ways out have to pass: its body, and how deep in loops and `try` it stands."""

    body: list[Any]
    loops: int
    tries: int


# -- catching ------------------------------------------------------------------------------------------------


def catch(e: Emitter, op: str, operands: Sequence[Value], attrs: dict[str, Any]) -> bool:
    """Whether a clause takes what this instruction raises: then there is an edge to it in the instruction's place."""
    if "assuming" in attrs:
        return False  # no exception of the program's
    tries = [t for t in e.tries if t.takes(e)]
    if op not in ("check", "raise"):
        _refuse_uncaught(e, op, tries)
        return False
    kind = _class_of(e, attrs["exception"])
    for statement in reversed(tries):
        for clause in statement.clauses:
            if issubclass(kind, clause.kinds):
                _take(e, statement.frame, clause, kind, op, operands, attrs)
                return True
    return False


def _class_of(e: Emitter, name: str) -> type:
    own = {class_name(kind): kind for kind in e.session.captures.classes}
    return exception_class(name) or own[name]


def is_caught_here(e: Emitter) -> bool:
    """Whether something takes what is raised here, so that calls have to be translated in place."""
    return any(t.takes(e) for t in e.tries)


def _refuse_uncaught(e: Emitter, op: str, tries: list[Try]) -> None:
    kind = {"apply": Exception, "draw": ValueError}.get(op, np.linalg.LinAlgError)
    clauses = [c for statement in tries for c in statement.clauses]
    if op in ("print", "keepCopy", "keepView", "solve", "cholesky") or not any(
        issubclass(kind, c.kinds) or kind is Exception for c in clauses
    ):
        return
    if op == "apply":
        what = "a call of a function that calls itself, or that has derivatives of its own,"
    else:
        what = (
            "random numbers" if op == "draw" else "a decomposition that raises LinAlgError where it does not converge"
        )
    if all(t.is_call for t in tries):
        e.error(
            UnsupportedSyntax,
            f"{what} after a list, dict or instance of the caller was changed is not supported",
            help="change the caller's lists at the end, behind it, or return new ones",
        )
    e.error(
        UnsupportedSyntax,
        f"{what} in a `try` that would catch what it raises is not supported",
        help="move it out of the `try`, or name the other exceptions in `except`",
    )


def _take(
    e: Emitter, frame: Any, clause: Clause, kind: type, op: str, operands: Sequence[Value], attrs: dict[str, Any]
) -> None:
    onward = None
    shown = list(operands)
    if op == "check":
        condition = shown.pop(0)
        onward, failed = e.function.new_block("next"), e.function.new_block("raised")
        e.builder.conditional(condition, onward, None, failed)
        e.builder.at_end(failed)
    text = Text(attrs["message"], tuple(zip(shown, flavours_of(shown, attrs), strict=True)))
    held = frame.env
    if e.frame is not frame:  # a function that the body calls: what objects hold, it knows
        frame.env = held | {n: b for n, b in e.frame.env.items() if n.startswith(objects.PREFIX)}
    passing = tuple(t for t in e.tries if t.passed)
    clause.raised.append(Raised(frame.jump(clause.live), Caught(kind, class_name(kind), text), e.loc, passing))
    frame.env = held
    if onward is not None:
        e.builder.at_end(onward)


# -- statements ----------------------------------------------------------------------------------------------


def translate(frame: Any, node: Any) -> None:
    """A `try` statement."""
    if node.finalbody:
        _finally(frame, node)
    else:
        _except(frame, node)
    keep_in_blocks(frame.e)


def suppress(frame: Any, node: Any) -> None:
    """`with contextlib.suppress(A, B): body`, which is `try: body` and `except (A, B): pass`."""
    (item,) = node.items
    kinds = made(gast.Tuple, item.context_expr, elts=item.context_expr.args, ctx=gast.Load())
    handler = made(gast.ExceptHandler, item.context_expr, type=kinds, name=None, body=[])
    inner = made(gast.Try, node, body=node.body, handlers=[handler], orelse=[], finalbody=[])
    frame.live.caught[inner], frame.live.after[inner] = frame.live.caught[node], frame.live.after[node]
    translate(frame, inner)


def _except(frame: Any, node: Any) -> None:
    e, live = frame.e, frame.live
    statement = Try(frame, [Clause(_kinds(frame, h), live.caught[node]) for h in node.handlers])
    after: list[Edge] = []
    depth = e.facts.push()
    _body(frame, node.body, statement)
    if frame.alive:
        frame.execute(node.orelse)
    if frame.alive:
        after.append(frame.jump(live.after[node]))
    e.facts.pop(depth)
    for clause, handler in zip(statement.clauses, node.handlers, strict=True):
        for group in _groups(e, clause, handler):
            depth = e.facts.push()
            frame.merge([r.edge for r in group], "except")
            _handle(frame, handler, group[0].exception)
            if frame.alive:
                after.append(frame.jump(live.after[node]))
            e.facts.pop(depth)
    frame.merge(after, "after")


def _body(frame: Any, body: list[Any], statement: Try) -> None:
    tries = frame.e.tries
    tries.append(statement)
    try:
        frame.execute(body)
    finally:
        tries.remove(statement)


def _kinds(frame: Any, handler: Any) -> tuple[type, ...]:
    """The classes that an `except` clause names; all for one without."""
    if handler.type is None:
        return (BaseException,)
    with frame.at(handler.type):
        found = frame.expression(handler.type)
        kinds = found.items if isinstance(found, Items) else (found,)
        for kind in kinds:
            value = kind.value if isinstance(kind, Static) else None
            if not (isinstance(value, type) and issubclass(value, BaseException)):
                frame.e.error(UnsupportedSyntax, "`except` needs classes of exceptions", help="except ValueError:")
            if value in (MemoryError, RecursionError, KeyboardInterrupt):
                reason = f"`except {value.__name__}` is not supported: it passes by all handlers"
                frame.e.error(UnsupportedSyntax, reason, help="catch it outside of the compiled function")
    return tuple(kind.value for kind in kinds)


def _groups(e: Emitter, clause: Clause, handler: Any) -> list[list[Raised]]:
    """The paths to a handler, by the copies of it that there are."""
    if not clause.raised:
        return []
    inside = [n for s in handler.body for n in gast.walk(s)]
    name = getattr(handler.name, "id", None)
    asks = any(
        (isinstance(n, gast.Raise) and n.exc is None) or (isinstance(n, gast.Name) and n.id == name) for n in inside
    )
    if not asks:
        return [clause.raised]
    if len(clause.raised) > _MAX_COPIES:
        reason = f"the exception is used, and {len(clause.raised)} places in the `try` may raise it: that is too many"
        e.error(UnsupportedSyntax, reason, help="make the body of the `try` shorter")
    return [[r] for r in clause.raised]


def _handle(frame: Any, handler: Any, exception: Caught) -> None:
    name = getattr(handler.name, "id", None)
    if name is not None:
        frame.assign_name(name, exception)
    frame.caught.append(exception)
    frame.execute(handler.body)
    frame.caught.pop()
    if name is not None and frame.alive:
        frame.env.pop(name, None)  # Python deletes it


# -- finally -------------------------------------------------------------------------------------------------


def _finally(frame: Any, node: Any) -> None:
    e = frame.e
    statement = Try(frame, [Clause((BaseException,), frame.live.caught[node])], is_final=True)
    depth = e.facts.push()
    frame.finals.append(Final(node.finalbody, len(frame.loops), len(e.tries)))
    inner = made(gast.Try, node, body=node.body, handlers=node.handlers, orelse=node.orelse, finalbody=[])
    if node.handlers:
        frame.live.share(inner, node)
        _body(frame, [inner], statement)
    else:
        _body(frame, node.body, statement)
    frame.finals.pop()
    if frame.alive:
        frame.execute(node.finalbody)
    after = [frame.jump(frame.live.after[node])] if frame.alive else []
    e.facts.pop(depth)
    raised = statement.clauses[0].raised
    if len(raised) > _MAX_COPIES:
        reason = f"{len(raised)} places in this `try` may raise, each with a copy of `finally`: that is too many"
        e.error(UnsupportedSyntax, reason, help="make the body of the `try` shorter")
    for path in raised:
        depth = e.facts.push()
        frame.merge([path.edge], "finally")
        frame.execute(node.finalbody)
        if frame.alive:
            with passed_by(path.passing):
                raise_again(frame, path.exception)
        e.facts.pop(depth)
    frame.merge(after, "after")


@contextmanager
def passed_by(tries: Sequence[Try]) -> Iterator[None]:
    """What is raised is not for these."""
    for statement in tries:
        statement.passed += 1
    try:
        yield
    finally:
        for statement in tries:
            statement.passed -= 1


def leave(frame: Any, loops: int, value: Any = None) -> Any:
    """Run the `finally` bodies on the way out of the loops from number `loops` on; one may not come to its end.

    value: what is returned behind them; given back as it is then.
    """
    finals, tries = frame.finals, frame.e.tries
    passed = [f for f in finals if f.loops >= loops]
    name = f"{_RETURNED}.{len(finals)}"
    if value is not None and passed:
        frame.env[name] = Binding(value, frame.e.loc)
    for final in reversed(passed):
        frame.finals, frame.e.tries = finals[: finals.index(final)], tries[: final.tries]
        frame.execute(final.body)
        frame.finals, frame.e.tries = finals, tries
        if not frame.alive:
            return value
    return frame.env.pop(name).value if value is not None and passed else value


def raise_again(frame: Any, exception: Caught) -> None:
    """Raise what was caught, with its text."""
    texts.fail(frame.e, exception.name, exception.text)
    frame.stop()


# -- arrays ----------------------------------------------------------------------------------------------------


def keep_in_blocks(e: Emitter) -> None:
    """Give memory to array values that a caught check has cut off from their uses: they do not cross block borders."""
    uses: dict[Instruction, list[Instruction]] = {}
    for block in e.function.blocks:
        for i in block.instructions:
            for v in dict.fromkeys(i.operands):
                if isinstance(v, Instruction) and is_array(v.type) and v.block is not block:
                    uses.setdefault(v, []).append(i)
    builder = e.builder
    place = builder.block, builder.position, builder.loc
    for value, users in uses.items():
        builder.after(value)
        builder.loc = value.loc
        known = enumerate(value.type.shape)  # type: ignore[attr-defined]
        extents = [builder.emit("extent", value, at=k) if n is None else i64(n) for k, n in known]
        memory = builder.emit("allocateHeap", *extents, dtype=value.type.dtype.name)  # type: ignore[attr-defined]
        builder.emit("store", value, memory)
        for user in users:
            builder.before(user)
            loaded = builder.emit("load", memory)
            user.operands = [loaded if v is value else v for v in user.operands]
    builder.block, builder.position, builder.loc = place
