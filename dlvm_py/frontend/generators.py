"""Generators: their bodies are translated in the place of what consumes them.

    for v in g(x): s += v       the body of g with `s += v` in the place of each `yield` (splice.py, nodes.py)
    sum(g(x))                   ... with an addition to the accumulator there

A call binds the arguments, which stand in the environment from then on; the body begins where something loops over it,
and then the arguments are gone. So what is read again, or begins in a loop around which it was called, is found, and
refused: what is left of a generator is known to be all of it, or nothing.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import FunctionType
from typing import Any

import gast

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frontend import exceptions, objects
from dlvm_py.frontend.emit import Emitter, Unreachable
from dlvm_py.frontend.flow import LoopContext
from dlvm_py.frontend.liveness import reads
from dlvm_py.frontend.mixed import passed
from dlvm_py.frontend.nodes import Consumed, Ended, Generated, made
from dlvm_py.frontend.source import Source
from dlvm_py.frontend.splice import ITEM, captured, numbered, own_names, spliced, yields
from dlvm_py.frontend.values import NONE, Binding, Closure, Conflict, Generator, Sequence, Suspended, describe
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Literal, Value, literal

_KEY = "$generator"
_ITEMS = "0items"  # what a generator expression loops over, as CPython's .0
_MAX_DEPTH = 4  # of one generator within itself
_HINT = "call it again, or make a list of it first: items = list(...)"


class Scope(Frozen):
    """Where a generator looks up the names that are not its own: in a function, or the frame around it."""

    function: Any
    outer: Any


class Consumer(Frozen):
    """What consumes a generator that is being translated.

    place, tries: how many loops and `try` are around it; caught: what handlers have there. action: what is done with
    an item, as long as `goes_on` says so; None in a `for`, whose body stands in the tree.
    """

    generator: Suspended
    context: LoopContext
    place: int
    tries: int
    caught: list[Any]
    action: Callable[[Any], None] | None = None
    goes_on: Callable[[], Value] | None = None


def is_generator(function: Any) -> bool:
    """Whether a plain function, or one defined in compiled code, is a generator."""
    if isinstance(function, FunctionType):
        return bool(function.__code__.co_flags & 0x20)
    return isinstance(function, Closure) and isinstance(function.node, gast.FunctionDef) and yields(function.node)


# -- making ----------------------------------------------------------------------------------------------------


def call(e: Emitter, name: str, source: Source, function: Any, outer: Any, values: dict[str, Any]) -> Suspended:
    """A call of a generator function with this source: nothing of its body runs."""
    return _suspended(e, name, source.node.body, source, function, outer, values)


def of_expression(frame: Any, node: Any) -> Suspended:
    """A generator expression as a call of a generator, to which it gives what its first `for` runs over."""
    first = node.generators[0]
    if any(isinstance(n, gast.NamedExpr) for n in gast.walk(node)):
        frame.e.error(UnsupportedSyntax, "`:=` in a generator expression with a name is not supported", help="a loop")
    items = frame.expression(first.iter)
    body = made(gast.Expr, node, value=made(gast.Yield, node, value=node.elt))
    for g in reversed(node.generators):
        for test in reversed(g.ifs):
            body = made(gast.If, node, test=test, body=[body], orelse=[])
        name = made(gast.Name, g.iter, id=_ITEMS, ctx=gast.Load(), annotation=None, type_comment=None)
        over = name if g is first else g.iter
        body = made(gast.For, node, target=g.target, iter=over, body=[body], orelse=[], type_comment=None)
    return _suspended(frame.e, "<genexpr>", [body], frame.source, frame.function, frame, {_ITEMS: items})


def _suspended(
    e: Emitter, name: str, body: list[Any], source: Source, function: Any, outer: Any, values: dict[str, Any]
) -> Suspended:
    settled = {n: objects.settle(e, passed(e, v)) for n, v in values.items()}
    key = f"{_KEY}.{e.session.next_number()}"
    e.frame.env[key] = Binding(Sequence(tuple(settled.values())), e.loc)

    def run(action: Callable[[Any], None], goes_on: Any = None, assigned: frozenset[str] = frozenset()) -> None:
        fold(e, found, action, goes_on, assigned)

    found = Suspended(
        run, None, name, tuple(body), tuple(settled), source, function, outer, e.frame, key, e.frame.nest
    )  # fmt: skip
    return found


# -- consuming -------------------------------------------------------------------------------------------------


def loop(frame: Any, node: Any, generator: Generator) -> None:
    """for ... in a generator: ... else: ..."""
    if not isinstance(generator, Suspended):
        assert generator.suspended is not None
        generator = generator.suspended()
    tree, number = _tree(frame, generator, node, node)
    if tree not in frame.live.header:
        _make_live(frame, generator, tree, frame.live.after[node])
    _run(frame, tree, number, generator, frame.live.after[tree], exhausted=lambda: frame.execute(node.orelse))


def fold(
    e: Emitter,
    generator: Suspended,
    action: Callable[[Any], None],
    goes_on: Callable[[], Value] | None = None,
    assigned: frozenset[str] = frozenset(),
    exhausted: Callable[[], None] = lambda: None,
) -> None:
    """Run an action on every item that a generator yields, as long as `goes_on` says so behind each.

    assigned: names that the action binds anew. exhausted: what is done where the generator comes to its end.
    """
    frame, loc = e.frame, e.loc
    tree, number = _tree(frame, generator, str(loc), None)
    every = frozenset(n for n in frame.env if not n.startswith(objects.PREFIX)) | assigned
    folded, frame.folded = frame.folded, frame.folded | frame.accumulators() | assigned
    live = frame.live
    _make_live(frame, generator, tree, every)
    try:
        with frame.keeping_all():
            _run(frame, tree, number, generator, every, action, goes_on, exhausted)
    finally:
        frame.folded, frame.live = folded, live
    e.builder.loc = loc
    if not frame.alive:
        raise Unreachable


def _tree(frame: Any, generator: Suspended, site: Any, node: Any) -> tuple[Generated, int]:
    """The body of a generator for one place that consumes it, the same each time that is translated."""
    depth = sum(c.generator.body[0] is generator.body[0] for c in frame.consumers.values())
    if depth >= _MAX_DEPTH:
        frame.e.error(
            UnsupportedSyntax,
            f"{generator.name} loops over itself: recursion of generators is not supported",
            help="append to a list, or keep a list of what is still to be done",
        )
    key = (site, generator.body[0], depth)
    if key not in frame.spliced:
        number = len(frame.spliced) + 1
        tree = spliced(list(generator.body), generator.source, number, node)
        own, outside, cells = own_names(list(generator.body), frozenset(generator.parameters))
        named = [frozenset(numbered(n, number) for n in names) for names in (own, outside, cells)]
        frame.locals, frame.nonlocals, frame.cells = (
            a | b for a, b in zip((frame.locals, frame.nonlocals, frame.cells), named, strict=True)
        )
        frame.locals |= frozenset(n.id for n in gast.walk(tree) if _is_item(n))
        frame.has_nested = frame.has_nested or bool(captured(tree.body))
        frame.spliced[key] = tree, number
    tree, number = frame.spliced[key]
    frame.scopes[str(number)] = Scope(generator.function, generator.outer)
    return tree, number


def _is_item(node: Any) -> bool:
    """Whether this is the name of an item in `yield from`."""
    return isinstance(node, gast.Name) and isinstance(node.ctx, gast.Store) and node.id.startswith(ITEM)


def _make_live(frame: Any, generator: Suspended, tree: Generated, after: frozenset[str]) -> None:
    """Find what lives in the body; what it reads around it lives throughout."""
    around = captured(tree.body)
    if generator.outer is not None:
        around = around.union(*map(reads, generator.body))
    frame.live = frame.live.with_generator(tree, after, around)


def _arguments(frame: Any, generator: Suspended) -> list[Any]:
    """The arguments of a generator that begins now."""
    binding = generator.frame.env.pop(generator.key, None)
    known = binding is not None and binding.is_set is None and not isinstance(binding.value, Conflict)
    if not known or generator.nest != frame.nest:
        frame.e.error(
            UnsupportedSyntax,
            f"what is left of {describe(generator)} depends on what has run before: compiled code reads a generator "
            "from its beginning, once",
            help=_HINT,
        )
    return list(binding.value.items)


def _run(
    frame: Any,
    tree: Generated,
    number: int,
    generator: Suspended,
    after: frozenset[str],
    action: Callable[[Any], None] | None = None,
    goes_on: Callable[[], Value] | None = None,
    exhausted: Callable[[], None] = lambda: None,
) -> None:
    e = frame.e
    values = _arguments(frame, generator)
    context = LoopContext(after, frame.live.header[tree], frozenset(), repeats=False)
    frame.consumers[tree] = Consumer(
        generator, context, len(frame.loops) + 1, len(e.tries), list(frame.caught), action, goes_on
    )
    depth = e.facts.push()
    frame.loops.append(context)
    frame.branching += 1  # statements of their own: no expression around them is translated again for their sake
    for name, value in zip(generator.parameters, values, strict=True):
        frame.assign_name(numbered(name, number), value)
    frame.execute(tree.body)
    if frame.alive:
        context.continues.append(frame.jump(context.header))
    frame.branching -= 1
    frame.loops.pop()
    del frame.consumers[tree]
    e.facts.pop(depth)
    frame.merge(context.continues, "ended")
    depth = e.facts.push()
    if frame.alive:
        exhausted()
    if frame.alive:
        context.breaks.append(frame.jump(context.after))
    e.facts.pop(depth)
    frame.merge(context.breaks, "after")


# -- statements of the tree ------------------------------------------------------------------------------------


def consumed(frame: Any, node: Consumed) -> None:
    """`yield` in a generator: the body of the loop, or what else is done with the item."""
    e, consumer = frame.e, frame.consumers[node.home]
    item = frame.expression(node.value)
    context = LoopContext(
        consumer.context.after, frame.live.header[node], frozenset(), breaks=consumer.context.breaks,
        leaves=consumer.place, repeats=False,
    )  # fmt: skip
    inside = [t for t in e.tries[consumer.tries :] if not t.is_final and not t.is_call]
    if any(issubclass(GeneratorExit, c.kinds) for t in inside for c in t.clauses):
        e.error(
            UnsupportedSyntax,
            "a `yield` in a `try` that catches GeneratorExit is not supported",
            help="except Exception:",
        )
    depth = e.facts.push()
    frame.loops.append(context)
    caught, frame.caught = frame.caught, list(consumer.caught)
    with exceptions.passed_by(inside):
        try:
            _consume(frame, node, consumer, item)
        except Unreachable:
            frame.stop()
    frame.caught = caught
    if frame.alive:
        context.continues.append(frame.jump(context.header))
    frame.loops.pop()
    e.facts.pop(depth)
    frame.merge(context.continues, "resumed")


def _consume(frame: Any, node: Consumed, consumer: Consumer, item: Any) -> None:
    if consumer.action is None:
        frame.e.builder.loc = frame.source.loc(node.target)
        frame.assign(node.target, objects.settle(frame.e, item))
        frame.execute(node.body)
        return
    consumer.action(item)
    if frame.alive and consumer.goes_on is not None:
        _stop_unless(frame, consumer.goes_on())


def _stop_unless(frame: Any, flag: Value) -> None:
    """Leave the generator unless a flag holds."""

    def leave() -> None:
        context = frame.loops[-1]
        exceptions.leave(frame, context.leaves)
        if frame.alive:
            context.breaks.append(frame.jump(context.after))

    if not isinstance(flag, Literal):
        frame.branches(flag, lambda: None, leave)
    elif not flag.value:
        leave()


def ended(frame: Any, node: Ended) -> None:
    """`return` in a generator; nobody gets its value."""
    consumer = frame.consumers[node.home]
    if node.value is not None:
        frame.expression(node.value)
    exceptions.leave(frame, consumer.place)
    if frame.alive:
        consumer.context.continues.append(frame.jump(consumer.context.header))


# -- next ------------------------------------------------------------------------------------------------------


def next_(e: Emitter, iterator: Any, default: Any = None) -> Any:
    """next(generator), next(generator, default): of one that begins here, and is left where it is then."""
    if isinstance(iterator, Generator) and iterator.suspended is not None:
        iterator = iterator.suspended()
    if not isinstance(iterator, Suspended):
        e.error(UnsupportedSyntax, f"next() of {describe(iterator)} is not supported", help="index what it runs over")

    def over(update: Any, now: Any) -> None:
        def exhausted() -> None:
            if default is None:
                e.emit("raise", exception="StopIteration", message="")
                e.frame.stop()

        fold(e, iterator, lambda item: update(lambda _: item), lambda: literal(False), exhausted=exhausted)

    return e.frame.accumulate(NONE if default is None else default, over)


NEXT: dict[Any, Any] = {builtins.next: next_}
