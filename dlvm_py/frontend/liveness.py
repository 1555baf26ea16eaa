"""Which local names are read later: only those become block arguments where control flow joins.

One backward walk over the syntax tree. A loop is walked twice: the first walk finds what an iteration
reads before it writes, which is the fixed point already (the transfer function is gen | (X - kill)).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import gast

from dlvm_py.frontend.nodes import Consumed, Ended, Generated
from dlvm_py.frozen import Frozen

Names = frozenset[str]
_FUNCTIONS = (gast.FunctionDef, gast.Lambda)
_COMPREHENSIONS = (gast.ListComp, gast.SetComp, gast.DictComp, gast.GeneratorExp)


class Each(Frozen):
    """A loop that is no statement, by a name that stays when it is translated again; `assigned`: what it binds.

    kept: what of this is there behind it.
    """

    place: Any
    assigned: Names
    kept: Names = frozenset()


def reads(node: Any) -> Names:
    """Names that an expression or target reads, nested functions and comprehensions included."""
    return frozenset(n.id for n in gast.walk(node) if isinstance(n, gast.Name) and isinstance(n.ctx, gast.Load))


def read_in(body: Iterable[Any]) -> Names:
    """Names that statements read; what an augmented assignment binds anew is read by it."""
    found = frozenset().union(*map(reads, body))
    targets = [n.target for statement in body for n in gast.walk(statement) if isinstance(n, gast.AugAssign)]
    return found | writes(targets)


def writes(nodes: Iterable[Any]) -> Names:
    """Names that statements bind, not looking into nested functions; targets of comprehensions are their own."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, _COMPREHENSIONS):
            parts = [c for g in node.generators for c in (g.iter, *g.ifs)]
            found |= writes(
                [*parts, *(n for n in gast.iter_child_nodes(node) if not isinstance(n, gast.comprehension))]
            )
            continue
        if isinstance(node, _FUNCTIONS):
            if isinstance(node, gast.FunctionDef):
                found.add(node.name)
            continue
        if isinstance(node, gast.Name) and isinstance(node.ctx, (gast.Store, gast.Del)):
            found.add(node.id)
        if isinstance(node, gast.MatchAs | gast.MatchStar) and node.name is not None:
            found.add(node.name)
        if isinstance(node, gast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        found |= writes(gast.iter_child_nodes(node))
    return frozenset(found)


def nonlocal_names(nodes: Iterable[Any]) -> Names:
    """Names that statements declare `nonlocal`, not looking into nested functions."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, gast.Nonlocal):
            found |= set(node.names)
        elif not isinstance(node, _FUNCTIONS):
            found |= nonlocal_names(gast.iter_child_nodes(node))
    return frozenset(found)


@lru_cache(maxsize=512)
def comprehended(node: Any) -> Names:
    """The names that comprehensions of a function bind. Found once for a tree, which nobody changes (source.py)."""
    return writes([g.target for n in gast.walk(node) for g in getattr(n, "generators", ())])


def may_suppress(node: Any) -> bool:
    """Whether a `with` may catch what its body raises: where its name says nothing else."""
    called = [getattr(i.context_expr, "func", None) for i in node.items]
    return any("errstate" not in (getattr(f, "attr", None), getattr(f, "id", None)) for f in called)


def rebinds(nodes: Iterable[Any]) -> Names:
    """As `writes`, without the names that are only targets of augmented assignments."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, gast.AugAssign) and isinstance(node.target, gast.Name):
            found |= rebinds([node.value])
        elif isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS, gast.alias)):
            found |= writes([node])
        elif isinstance(node, gast.Name) and isinstance(node.ctx, (gast.Store, gast.Del)):
            found.add(node.id)
        elif isinstance(node, gast.MatchAs | gast.MatchStar) and node.name is not None:
            found |= {node.name, *rebinds(gast.iter_child_nodes(node))}
        else:
            found |= rebinds(gast.iter_child_nodes(node))
    return frozenset(found)


class Liveness:
    """`after[node]` and, for loops, `header[node]`: the names that are live there."""

    def __init__(self, body: list[Any], always: Names) -> None:
        self.always = always  # names that nested functions read: live wherever the function may be called
        self.after: dict[Any, Names] = {}
        self.header: dict[Any, Names] = {}
        self.caught: dict[Any, Names] = {}  # of `try`: what its handlers, and what follows them, read
        self._held: Names = frozenset()  # what the handlers around read
        self._block(body, always, always, always)

    def _block(self, body: list[Any], out: Names, brk: Names, cont: Names) -> Names:
        for node in reversed(body):
            self.after[node] = out | self._held
            out = self._statement(node, out, brk, cont) | self._held
        return out

    def _statement(self, node: Any, out: Names, brk: Names, cont: Names) -> Names:
        match node:
            case gast.If():
                then = self._block(node.body, out, brk, cont)
                other = self._block(node.orelse, out, brk, cont)
                return reads(node.test) | then | other
            case gast.Match():
                bodies = [self._block(c.body, out, brk, cont) for c in node.cases]
                guards = [reads(c.guard) for c in node.cases if c.guard is not None]
                return frozenset().union(reads(node.subject), out, *bodies, *guards)
            case gast.Try():
                return self._try(node, out, brk, cont)
            case gast.With():
                held = self._held
                if may_suppress(node):
                    self.caught[node] = self._held = held | out
                body = self._block(node.body, out, brk, cont)
                self._held = held
                return body.union(*(reads(i.context_expr) for i in node.items))
            case gast.While():
                return self._loop(node, reads(node.test), frozenset(), out, brk, cont)
            case gast.For():
                target = writes([node.target])
                return reads(node.iter) | self._loop(node, reads(node.target), target, out, brk, cont)
            case gast.Break():
                return brk
            case gast.Continue():
                return cont
            case gast.Return() | gast.Raise():
                return reads(node) | self.always
            case gast.AugAssign():
                return out | reads(node) | writes([node.target])
            case gast.FunctionDef():
                return (out - {node.name}) | reads(node)
            case Generated():
                self.header[node] = self._block(node.orelse, out, brk, cont) | self._held
                return self._block(node.body, self.header[node], frozenset(), frozenset())
            case Consumed():
                self.header[node] = out | self._held
                body = self._block(node.body, out, self.after[node.home] | self.always, out)
                target = () if node.target is None else (node.target,)
                return (body - writes(target)).union(reads(node.value), *map(reads, target))
            case Ended():
                return reads(node) | self.header[node.home] | self.always
        return (out - self._sure_writes(node)) | reads(node)

    def _loop(self, node: Any, test: Names, target: Names, out: Names, brk: Names, cont: Names) -> Names:
        exit_ = self._block(node.orelse, out, brk, cont)
        header = exit_ | test
        for _ in range(2):
            header = header | test | (self._block(node.body, header, out, header) - target)
            self.header[node] = header
        return header

    def _try(self, node: Any, out: Names, brk: Names, cont: Names) -> Names:
        held, always = self._held, self.always
        final = self._block(node.finalbody, out, brk, cont) if node.finalbody else out
        last = read_in(node.finalbody)
        brk, cont, self.always, self._held = brk | last, cont | last, always | last, held | last
        handlers = last | held
        for h in node.handlers:
            names = writes([h.name]) if h.name is not None else frozenset()
            handlers |= self._block(h.body, final, brk, cont) - names
            handlers |= frozenset() if h.type is None else reads(h.type)
        orelse = self._block(node.orelse, final, brk, cont)
        self.caught[node] = handlers
        self._held |= handlers
        body = self._block(node.body, orelse, brk, cont)
        self._held, self.always = held, always
        return body

    def with_generator(self, tree: Generated, after: Names, always: Names) -> Liveness:
        """These names, and those of a generator that a place consumes where the names in `after` are live.

        They all live throughout it, and those in `always`.
        """
        found = copy.copy(self)
        found.after, found.header, found.caught = dict(self.after), dict(self.header), dict(self.caught)
        found.always = found._held = self.always | after | always
        found._block([tree], after, frozenset(), frozenset())
        found.always, found._held = self.always, self._held
        return found

    def share(self, node: Any, other: Any) -> None:
        """Let a statement that stands for another have its names; those of the last one are live behind it."""
        self.caught[node] = self.caught[other]
        self.after[node] = self.after[other] | read_in(other.finalbody)

    @staticmethod
    def _sure_writes(node: Any) -> Names:
        """Names that the statement binds on every path (not those behind a short circuit)."""
        if isinstance(node, gast.Assign):
            return frozenset().union(*(writes([t]) for t in node.targets))
        if isinstance(node, gast.AnnAssign) and node.value is not None:
            return writes([node.target])
        return frozenset()


class Body(Frozen):
    """What the tree of a function says of its names, the same for all calls of it."""

    statements: list[Any]
    has_nested: bool
    live: Liveness
    locals: Names
    nonlocals: Names
    cells: Names  # names that nested functions rebind: they hold an object each, which flows through calls as lists do


def _keeps_names(node: Any) -> bool:
    """Whether a statement gives a name to a generator expression, which reads names where something runs over it."""
    return isinstance(node, gast.Assign | gast.Return) and isinstance(node.value, gast.GeneratorExp)


def parameters_of(node: Any) -> Names:
    """All parameters of a function."""
    return frozenset(a.id for a in gast.walk(node.args) if isinstance(a, gast.Name) and isinstance(a.ctx, gast.Param))


@lru_cache(maxsize=1024)
def body_facts(node: Any) -> Body:
    """The body of a function (gast FunctionDef or Lambda); found once for a tree, which nobody changes."""
    statements = node.body
    if isinstance(node, gast.Lambda):
        statements = [gast.copy_location(gast.Return(value=node.body), node.body)]
    nested = [n for s in statements for n in gast.walk(s) if isinstance(n, _FUNCTIONS) or _keeps_names(n)]
    nonlocals = nonlocal_names(statements)
    own = (writes(statements) | parameters_of(node)) - nonlocals
    inner = (n for f in nested if isinstance(f, gast.FunctionDef) for n in nonlocal_names(f.body))
    live = Liveness(statements, frozenset().union(*map(reads, nested)))
    return Body(statements, bool(nested), live, own, nonlocals, own & frozenset(inner))
