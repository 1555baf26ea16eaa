"""The match statement: its cases as a chain of branches, and what its patterns match."""

from __future__ import annotations

from typing import Any

import gast

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frontend import objects, operators, records
from dlvm_py.frontend.assignments import Assignments
from dlvm_py.frontend.attributes import attribute
from dlvm_py.frontend.values import Array, Growing, Iteration, Sequence, Static, Temp, describe
from dlvm_py.ir import Literal, literal


class Matching(Assignments):
    """The part of a Frame that matches patterns."""

    def _match(self, node: Any) -> None:
        subject = self.value(node.subject)
        self._cases(node, subject, node.cases)

    def _cases(self, node: Any, subject: Any, cases: list[Any]) -> None:
        """The first case that matches, as a chain of branches."""
        if not cases:
            return
        case, rest = cases[0], cases[1:]
        with self.at(case.pattern):
            flag = self._matches(case.pattern, subject)

        def guarded() -> None:
            if case.guard is None:
                self.execute(case.body)
                return
            holds = operators.condition(self.e, self.value(case.guard))
            self._either(node, holds, lambda: self.execute(case.body), lambda: self._cases(node, subject, rest))

        self._either(node, flag, guarded, lambda: self._cases(node, subject, rest))

    def _either(self, node: Any, flag: Any, then: Any, other: Any) -> None:
        if isinstance(flag, Literal):
            (then if flag.value else other)()
        else:
            self.branches(flag, then, other, self.live.after[node])

    def _matches(self, pattern: Any, subject: Any) -> Any:
        """Whether a subject matches a pattern of constants; binds the names of the pattern."""
        match pattern:
            case gast.MatchValue():
                value = self.value(pattern.value)
                return operators.condition(self.e, operators.compare(self.e, gast.Eq, subject, value))
            case gast.MatchSingleton():
                return operators.is_same(self.e, subject, operators.constant(pattern.value))
            case gast.MatchOr():
                flag: Any = literal(False)
                for alternative in pattern.patterns:
                    flag = self.e.either(flag, self._matches(alternative, subject))
                return flag
            case gast.MatchStar():
                if pattern.name is not None:
                    self.assign_name(pattern.name, subject)
                return literal(True)
            case gast.MatchAs():
                flag = literal(True) if pattern.pattern is None else self._matches(pattern.pattern, subject)
                if pattern.name is not None:
                    self.assign_name(pattern.name, subject)
                return flag
            case gast.MatchSequence():
                return self._matches_items(pattern.patterns, subject)
            case gast.MatchClass():
                return self._matches_class(pattern, subject)
        self.e.error(UnsupportedSyntax, "this pattern is not supported", help="match constants, or use if/elif")

    def _matches_items(self, patterns: list[Any], subject: Any) -> Any:
        """Whether the items of a tuple or list of constant length match, one by one."""
        held = records.iterated(objects.contents(self.e, subject))
        stars = [k for k, p in enumerate(patterns) if isinstance(p, gast.MatchStar)]
        if not isinstance(held, Sequence):
            if isinstance(held, Growing | Array | Temp | Iteration):
                what = f"a pattern of items of {describe(held)} is not supported"
                self.e.error(UnsupportedSyntax, what, help="compare its length, and read its items")
            return literal(False)
        count = len(held.items)
        if count < len(patterns) - len(stars) or (not stars and count != len(patterns)):
            return literal(False)
        items: list[Any] = list(held.items)
        if stars:
            first, last = stars[0], count - (len(patterns) - stars[0] - 1)
            middle = self._settle(Sequence(tuple(items[first:last]), is_list=True))
            items = [*items[:first], middle, *items[last:]]
        return self._match_all(list(zip(patterns, items, strict=True)))

    def _matches_class(self, pattern: Any, subject: Any) -> Any:
        """Whether a subject is an instance of a class, and its attributes match."""
        kind = self.expression(pattern.cls)
        flag = self.e.session.invoke(self.e, Static(isinstance), [subject, kind], {})
        if not isinstance(flag.value, Literal):
            self.e.error(UnsupportedSyntax, "this class is not known when compiling", help="use if/elif")
        if not flag.value.value:
            return literal(False)
        own = kind.value in (bool, float, int, list, dict, str, tuple)
        names = getattr(kind.value, "__match_args__", ())[: len(pattern.patterns)]
        if own and len(pattern.patterns) == 1:
            return self._matches(pattern.patterns[0], subject)
        pairs = [*zip(pattern.patterns, names, strict=True), *zip(pattern.kwd_patterns, pattern.kwd_attrs, strict=True)]
        return self._match_all([(p, attribute(self.e, subject, n)) for p, n in pairs])

    def _match_all(self, pairs: list[tuple[Any, Any]]) -> Any:
        flag: Any = literal(True)
        for pattern, item in pairs:
            flag = self.e.both(flag, self._matches(pattern, item))
            if isinstance(flag, Literal) and not flag.value:
                return flag
        return flag
