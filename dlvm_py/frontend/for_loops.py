"""`for`: over what is counted, over the items of tuples one by one, over lists that change on the way, generators."""

from __future__ import annotations

from typing import Any

import gast

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frontend import generators, lists, objects, records, tables
from dlvm_py.frontend.flow import LoopContext
from dlvm_py.frontend.iterate import iteration_of
from dlvm_py.frontend.library import streams
from dlvm_py.frontend.raising import Raising
from dlvm_py.frontend.values import Binding, Generator, Growing, Iteration, Object, Sequence, Static

_MAX_UNROLLED = 1000
_LAZY = (enumerate, zip, map, filter)  # they look into what they are given when their items are taken


class ForLoops(Raising):
    """The part of a Frame that translates `for`."""

    def _for(self, node: Any) -> None:
        if node in self.lengthened:
            generators.loop(self, node, self._current(node))
            return
        with self.at(node.iter):
            given = self.expression(node.iter)
            if isinstance(given, Generator):
                generators.loop(self, node, given)
                return
            source = tables.iterated(self.e, given)
        over = self._lists_of(node, source)
        if not over:
            self._loop_over(node, given, source, over)
            return
        depth = self.e.facts.push()
        undo = self.checkpoint()
        if self._loop_over(node, given, source, over):
            self.e.facts.pop(depth, keep=True)
            return
        undo()
        self.e.facts.pop(depth)
        self.lengthened.add(node)
        self._for(node)

    def _lists_of(self, node: Any, source: Any) -> list[Object]:
        """The lists that a loop looks into at each turn: what it runs over, or what `enumerate` and the like do."""
        found = [source]
        if isinstance(node.iter, gast.Call) and isinstance(node.iter.func, gast.Name):
            function = self.expression(node.iter.func)
            if not (isinstance(function, Static) and any(function.value is f for f in _LAZY)):
                return []
            if any(k.arg == "strict" and getattr(k.value, "value", None) is True for k in node.iter.keywords):
                return []  # which has looked at the lengths
            names = [a.id for a in node.iter.args if isinstance(a, gast.Name)]
            found = [self.env[n].value for n in names if n in self.env]
        return [v for v in found if isinstance(v, Object) and lists.is_list(objects.contents(self.e, v))]

    def _current(self, node: Any) -> Any:
        """What a loop runs over that makes these lists longer or shorter: what they have at each turn."""

        def looked_into(value: Any) -> Any:
            is_list = isinstance(value, Object) and lists.is_list(objects.contents(self.e, value))
            return self.e.session.library(self.e, streams.current, [value], {}) if is_list else value

        with self.at(node.iter):
            if isinstance(node.iter, gast.Call):
                if not all(k.arg for k in node.iter.keywords):
                    self._refuse_changed(node)
                named = {k.arg: self.expression(k.value) for k in node.iter.keywords}
                function = self.expression(node.iter.func)
                given = [self.expression(a) for a in node.iter.args]
                pairs = zip(node.iter.args, given, strict=True)
                values = [looked_into(v) if isinstance(a, gast.Name) else v for a, v in pairs]
                return self.e.session.invoke(self.e, function, values, named)
            found = looked_into(self.expression(node.iter))
            if not isinstance(found, Generator):
                self._refuse_changed(node)
            return found

    def _loop_over(self, node: Any, given: Any, source: Any, over: list[Object]) -> bool:
        """A loop over what a value has where it begins; False if it makes one of these lists longer or shorter."""
        items = records.iterated(objects.contents(self.e, source))
        if isinstance(items, Sequence):
            return self._unrolled(node, source, items, over)
        with self.at(node.iter):
            if not isinstance(items, Iteration | Growing):
                items = self._settle(items)
            iteration = iteration_of(self.e, items)

        def bind(item: Any) -> None:
            self.e.builder.loc = self.source.loc(node.target)
            self.assign(node.target, self._settle(item))

        before = tables.size(self.e, given)

        def after() -> None:
            if before is not None:
                tables.check_size(self.e, given, before)
            self.execute(node.orelse)

        self.loop(node, None, iteration, bind, lambda: self.execute(node.body), after)
        return not any((node, o.key) in self.learned for o in over)

    def _refuse_changed(self, node: Any) -> None:
        with self.at(node.iter):
            self.e.error(
                UnsupportedSyntax,
                "the loop makes the list or dict longer or shorter that it runs over",
                help="loop over a copy: for x in list(items)",
            )

    def _unrolled(self, node: Any, source: Any, items: Sequence, over: list[Object]) -> bool:
        """A loop over a tuple: its items may have different types, so each gets a copy of the body.

        The items of a list or dict are those that it holds when their turn comes, as in Python. False where it makes
        one of the lists that it looks into longer or shorter.
        """
        lengths = [self._count_of(o) for o in over]
        if len(items.items) > _MAX_UNROLLED:
            self.e.error(
                UnsupportedSyntax, f"a loop over {len(items.items)} items of a tuple is too long", help="use an array"
            )
        after = self.live.after[node]
        context = LoopContext(after, self.live.header[node] | after, frozenset(), repeats=False)
        self.loops.append(context)
        held = f"$over.{len(self.loops)}"
        self.env[held] = Binding(source)  # what it reaches stays alive
        for k in range(len(items.items)):
            depth = self.e.facts.push()
            now = records.iterated(objects.contents(self.e, source))
            self.e.builder.loc = self.source.loc(node.target)
            self.assign(node.target, self._settle(now.items[k]))
            self.execute(node.body)
            if self.alive:
                context.continues.append(self.jump(context.header))
            self.e.facts.pop(depth)
            self.merge(context.continues, "next")
            context.continues.clear()
            if not self.alive:
                break
            if [self._count_of(o) for o in over] != lengths:
                return False
            now = records.iterated(objects.contents(self.e, source))
            if not isinstance(now, Sequence) or len(now.items) != len(items.items):
                self._refuse_changed(node)
        self.loops.pop()
        self.env.pop(held, None)
        depth = self.e.facts.push()
        if self.alive:
            self.execute(node.orelse)
        if self.alive:
            context.breaks.append(self.jump(context.after))
        self.e.facts.pop(depth)
        self.merge(context.breaks, "after")
        self.env.pop(held, None)
        return True

    def _count_of(self, owner: Object) -> int | None:
        """How many items a list has, None where that is computed."""
        held = objects.contents(self.e, owner)
        return len(held.items) if isinstance(held, Sequence) else None
