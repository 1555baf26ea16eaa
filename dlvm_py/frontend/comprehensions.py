"""Loops inside of expressions: comprehensions, generator expressions, and what runs over all items of a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dlvm_py.errors import TypeMismatch
from dlvm_py.frontend import generators, lists, objects, operators, records, tables
from dlvm_py.frontend.emit import i64
from dlvm_py.frontend.flow import Flow
from dlvm_py.frontend.iterate import iteration_of
from dlvm_py.frontend.liveness import Each, writes
from dlvm_py.frontend.values import Binding, Conflict, Generator, Growing, Iteration, Record, Sequence
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Literal, Value
from dlvm_py.ir.value import integer

_SUM = "$acc"
_MAX_UNROLLED = 16  # of a constant number of items; what they make may then be of any types


class _Comprehension(Frozen):
    """What one comprehension does: at each of its items, as long as `goes_on` says so."""

    generators: list[Any]
    action: Callable[[], None]
    goes_on: Callable[[], Value] | None
    assigned: frozenset[str]  # by `:=`, in the function's own names


class Comprehensions(Flow):
    """The part of a Frame (frame.py) for loops inside of expressions."""

    source: Any
    assign: Any
    expression: Any
    value: Any
    shadowed: frozenset[str]

    # -- loops without a statement ---------------------------------------------------------------------

    def for_each(self, iteration: Iteration, action: Callable[[Any], None], place: Any = "each") -> None:
        """Run a piece of translation on every item."""
        self._each(Each((place, self.e.loc), self.accumulators()), iteration, action)

    def accumulators(self) -> frozenset[str]:
        """The names of what folds have come to."""
        return frozenset(n for n in self.env if n.startswith(_SUM))

    @contextmanager
    def keeping_all(self) -> Iterator[None]:
        """What an expression holds is in no name: all objects stay alive."""
        self.keeps_all += 1
        try:
            yield
        finally:
            self.keeps_all -= 1

    def _each(self, node: Each, iteration: Iteration, action: Callable[[Any], None]) -> None:
        loc = self.e.loc

        def bind(item: Any) -> None:
            self.e.builder.loc = loc
            action(item)

        with self.keeping_all():
            self.loop(node, None, iteration, bind, lambda: None, lambda: None)
        self.e.builder.loc = loc

    def collected(self, iteration: Iteration) -> Any:
        """A list of all items of an iteration."""
        made = objects.new(self.e, Sequence((), is_list=True))
        with self.keeping_all():
            self.for_each(iteration, lambda item: lists.append(self.e, made, item), "collect")
        return objects.contents(self.e, made)

    def accumulate(self, start: Any, run: Callable[[Any, Callable[[], Any]], None]) -> Any:
        """The last value of an accumulator: `run(update, now)` calls `update(step)`, which replaces it by step(it)."""
        name = f"{_SUM}.{len(self.accumulators())}"
        self.env[name] = Binding(objects.settle(self.e, start), self.e.loc)

        def update(step: Callable[[Any], Any]) -> None:
            self.env[name] = Binding(objects.settle(self.e, step(self.env[name].value)), self.e.loc)

        run(update, lambda: self.env[name].value)
        found = self.env.pop(name).value
        if isinstance(found, Conflict):
            self.require_several(name)
            self.e.error(TypeMismatch, found.said_of("this"), help=found.help)
        return found

    # -- comprehensions --------------------------------------------------------------------------------

    def _listcomp(self, node: Any) -> Any:
        made = objects.new(self.e, Sequence((), is_list=True))
        self.comprehend(node, lambda: lists.append(self.e, made, self.expression(node.elt)))
        return objects.contents(self.e, made)

    def _dictcomp(self, node: Any) -> Any:
        made = objects.new(self.e, Record(dict, (), ()))

        def add() -> None:
            key = self.expression(node.key)
            value = objects.settle(self.e, self.expression(node.value))
            if tables.held_by(self.e, made) is not None:
                tables.set_item(self.e, made, key, value)
                return
            if not tables.is_name(key):
                tables.require(self.e, made, key)
            objects.change(self.e, made, records.entry(self.e, objects.contents(self.e, made), key, value))

        self.comprehend(node, add)
        return made if tables.held_by(self.e, made) is not None else objects.contents(self.e, made)

    def _generatorexp(self, node: Any) -> Any:
        def run(
            action: Callable[[Any], None],
            goes_on: Callable[[], Value] | None = None,
            assigned: frozenset[str] = frozenset(),
        ) -> None:
            self.comprehend(node, lambda: action(self.expression(node.elt)), goes_on, assigned)

        return Generator(run, lambda: generators.of_expression(self, node))

    def comprehend(
        self,
        node: Any,
        action: Callable[[], None],
        goes_on: Callable[[], Value] | None = None,
        assigned: frozenset[str] = frozenset(),
    ) -> None:
        """Run `action`, which binds the names in `assigned`, for all items of a comprehension.

        Its targets are names of its own.
        """
        source = self.expression(node.generators[0].iter)  # evaluated outside, as in Python
        names = writes([g.target for g in node.generators])
        saved = {n: self.env.pop(n) for n in sorted(names) if n in self.env}
        shadowed, self.shadowed = self.shadowed, self.shadowed | names
        try:
            with self.keeping_all():
                self._level(_Comprehension(node.generators, action, goes_on, writes([node]) | assigned), 0, source)
        finally:
            self.shadowed = shadowed
            for name in names:
                self.env.pop(name, None)
            self.env |= saved

    def _level(self, c: _Comprehension, level: int, source: Any) -> None:
        """Loop over the iterable of one `for` of a comprehension."""
        generator = c.generators[level]
        with self.at(generator.iter):  # type: ignore[attr-defined]
            items = records.iterated(objects.contents(self.e, tables.iterated(self.e, source)))

        def inner() -> None:
            if level + 1 == len(c.generators):
                c.action()
            else:
                self._level(c, level + 1, self.expression(c.generators[level + 1].iter))

        def body(item: Any) -> None:
            self.assign(generator.target, objects.settle(self.e, item))
            self._filtered(generator.ifs, inner)

        def guarded(item: Callable[[], Any]) -> None:
            if not self.alive:
                return
            flag = None if c.goes_on is None else c.goes_on()
            if flag is None or (isinstance(flag, Literal) and flag.value):
                body(item())
            elif not isinstance(flag, Literal):
                self.branches(flag, lambda: body(item()), lambda: None)

        if isinstance(items, Sequence):
            for item in items.items:
                guarded(lambda item=item: item)
        elif isinstance(items, Generator):
            items.run(body, c.goes_on, c.assigned)
        else:
            if not isinstance(items, Iteration | Growing):
                items = objects.settle(self.e, items)
            with self.at(generator.iter):  # type: ignore[attr-defined]
                iteration = iteration_of(self.e, items)
            known = integer(iteration.count)
            if known is not None and known <= _MAX_UNROLLED:
                for k in range(known):
                    guarded(lambda k=k: iteration.item(i64(k)))
                return
            late = Iteration(iteration.count, lambda k: k)
            node = Each((generator, "for"), self.accumulators() | c.assigned, c.assigned)
            self._each(node, late, lambda k: guarded(lambda: iteration.item(k)))

    def _filtered(self, conditions: list[Any], action: Callable[[], None]) -> None:
        if not conditions:
            action()
            return
        flag = operators.condition(self.e, self.value(conditions[0]))
        if not isinstance(flag, Literal):
            self.branches(flag, lambda: self._filtered(conditions[1:], action), lambda: None)
        elif flag.value:
            self._filtered(conditions[1:], action)
