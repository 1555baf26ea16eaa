"""The tree of a generator for the place of a loop that consumes it (nodes.py), and the names that live in it.

All names of the body get a number, so that they meet no name of the function around, and nodes say which file they are
from. The body of the loop is there once for each `yield`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import gast

from dlvm_py.frontend.liveness import nonlocal_names, parameters_of, reads, writes
from dlvm_py.frontend.nodes import Consumed, Ended, Generated, made
from dlvm_py.frontend.source import Source

_FUNCTIONS = (gast.FunctionDef, gast.Lambda)
Names = frozenset[str]
ITEM = "0item"  # of names for the items of `yield from`


@lru_cache(maxsize=1024)
def yields(node: Any) -> bool:
    """Whether a function is a generator: it has a `yield` that is not one of a function inside of it."""
    pending = list(node.body) if isinstance(node, gast.FunctionDef) else [node.body]
    while pending:
        inner = pending.pop()
        if isinstance(inner, gast.Yield | gast.YieldFrom):
            return True
        if not isinstance(inner, _FUNCTIONS):
            pending += gast.iter_child_nodes(inner)
    return False


def numbered(name: str, number: int) -> str:
    """A name of a generator in the function that consumes it."""
    return f"{name}.{number}"


def spliced(body: list[Any], source: Source | None, number: int, loop: Any) -> Generated:
    """The body of a generator that a `for` consumes; without one, something else is done with what it yields."""
    tree: Generated = made(Generated, loop, orelse=[] if loop is None else loop.orelse)
    tree.body = _Copy(lambda name: numbered(name, number), source, tree, loop).copied(body)
    return tree


class _Copy:
    """Copies trees, with other names; of the body of a generator where `home` is given."""

    def __init__(
        self, rename: Callable[[str], str], source: Source | None, home: Generated | None = None, loop: Any = None
    ) -> None:
        self.rename, self.source, self.home, self.loop = rename, source, home, loop
        self.count = 0

    def copied(self, node: Any, hidden: Names = frozenset()) -> Any:
        """A copy in which all names but those in `hidden` are renamed."""
        if isinstance(node, list):
            return [one for n in node for one in self._statements(n, hidden)]
        if not isinstance(node, gast.AST) or not node._fields:
            return node
        if isinstance(node, _FUNCTIONS):
            return self._function(node, hidden)
        new = copy.copy(node)
        if self.source is not None and not hasattr(node, "written_in"):
            new.written_in = self.source
        for name in node._fields:
            setattr(new, name, self.copied(getattr(node, name, None), hidden))
        self._rename(new, hidden)
        return new

    def _rename(self, node: Any, hidden: Names) -> None:
        def of(name: str) -> str:
            return name if name in hidden else self.rename(name)

        match node:
            case gast.Name():
                node.id = of(node.id)
            case gast.Nonlocal() | gast.Global():
                node.names = [of(n) for n in node.names]
            case gast.MatchAs() | gast.MatchStar() if node.name is not None:
                node.name = of(node.name)
            case gast.alias() if self.home is not None:
                node.asname = of(node.asname or node.name)

    def _function(self, node: Any, hidden: Names) -> Any:
        """A function in the body: what is its own keeps its names."""
        body = node.body if isinstance(node.body, list) else [node.body]
        own = (parameters_of(node) | writes(body)) - nonlocal_names(body)
        inner = _Copy(self.rename, self.source)
        new = copy.copy(node)
        if self.source is not None and not hasattr(node, "written_in"):
            new.written_in = self.source
        if isinstance(node, gast.FunctionDef):
            new.name = node.name if node.name in hidden else self.rename(node.name)
            new.decorator_list = inner.copied(node.decorator_list, hidden)
        new.args = copy.copy(node.args)
        for name in ("defaults", "kw_defaults"):
            setattr(new.args, name, inner.copied(getattr(node.args, name), hidden))
        new.body = inner.copied(node.body, hidden | own)
        return new

    def _statements(self, node: Any, hidden: Names) -> list[Any]:
        if self.home is not None:
            match node:
                case gast.Expr(value=gast.Yield()):
                    return [self._consumed(node, self._yielded(node.value))]
                case gast.Assign(value=gast.Yield()):  # what a loop sends is None
                    nothing = made(gast.Constant, node, value=None, kind=None)
                    sent = made(gast.Assign, node, targets=node.targets, value=nothing, type_comment=None)
                    return [self._consumed(node, self._yielded(node.value)), self.copied(sent)]
                case gast.Expr(value=gast.YieldFrom()):
                    return [self._delegated(node)]
                case gast.Return():
                    return [made(Ended, self._placed(node), value=self.copied(node.value), home=self.home)]
        return [self.copied(node, hidden)]

    def _yielded(self, node: Any) -> Any:
        return made(gast.Constant, node, value=None, kind=None) if node.value is None else node.value

    def _placed(self, node: Any) -> Any:
        """A node that says where this one is from."""
        if self.source is None or hasattr(node, "written_in"):
            return node
        return made(gast.Pass, node, written_in=self.source)

    def _consumed(self, node: Any, value: Any) -> Consumed:
        target: Any = None
        body: list[Any] = []
        if self.loop is not None:
            same = _Copy(lambda name: name, None)
            target, body = same.copied(self.loop.target), same.copied(self.loop.body)
        placed = self._placed(node)
        return made(Consumed, placed, target=target, value=self.copied(value), body=body, home=self.home)

    def _delegated(self, node: Any) -> Any:
        """`yield from x`: a loop over x that yields each item."""
        self.count += 1
        name = f"{ITEM}{self.count}"

        def item(context: Any) -> Any:
            return made(gast.Name, node, id=name, ctx=context, annotation=None, type_comment=None)

        return made(
            gast.For, self._placed(node), target=self.copied(item(gast.Store())), iter=self.copied(node.value.value),
            body=[self._consumed(node, item(gast.Load()))], orelse=[], type_comment=None,
        )  # fmt: skip


def own_names(body: list[Any], parameters: Names) -> tuple[Names, Names, Names]:
    """The locals of a generator, those that it declares `nonlocal`, and those that functions in it rebind."""
    outside = nonlocal_names(body)
    functions = [n for s in body for n in gast.walk(s) if isinstance(n, gast.FunctionDef)]
    rebound = frozenset(n for f in functions for n in nonlocal_names(f.body))
    own = (writes(body) | parameters) - outside
    return own, outside, own & rebound


def captured(body: list[Any]) -> Names:
    """The names that functions inside of a body read: they live as long as these may be called."""
    found = [n for s in body for n in gast.walk(s) if isinstance(n, _FUNCTIONS)]
    return frozenset().union(*map(reads, found))
