"""Statements that raise: `assert`, which is a check where its message has no effects, and `raise`."""

from __future__ import annotations

from typing import Any

import gast

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frontend import exceptions, operators, texts
from dlvm_py.frontend.capture import class_name
from dlvm_py.frontend.names import Names
from dlvm_py.frontend.values import NONE, Caught, Mixed, Static, Text, is_none
from dlvm_py.ir import Literal
from dlvm_py.ir.exceptions import exception_class

# parts of messages whose evaluation does nothing
_SIMPLE = (gast.JoinedStr, gast.FormattedValue, gast.Constant, gast.Name, gast.Attribute, gast.expr_context)


class Raising(Names):
    """The part of a Frame that raises."""

    def _assert(self, node: Any) -> None:
        condition = operators.condition(self.e, self.value(node.test))
        if isinstance(condition, Literal) and condition.value:
            return
        is_plain = node.msg is None or (self._is_simple(node.msg) and not self._shows_types(node.msg))
        if is_plain:
            text = Text("", ()) if node.msg is None else self.message(node.msg)
            if isinstance(condition, Literal):
                texts.fail(self.e, "AssertionError", text)
                self.stop()
            else:
                texts.check(self.e, condition, "AssertionError", text)
            return

        def fail() -> None:
            self._of_each_type(node.msg, lambda: self._fail("AssertionError", node.msg))

        if isinstance(condition, Literal):
            fail()
        else:
            self.branches(condition, lambda: None, fail, self.live.after[node])

    def _fail(self, name: str, message: Any) -> None:
        texts.fail(self.e, name, self.message(message))
        self.stop()

    def _shows_types(self, node: Any) -> bool:
        """Whether a message names numbers of several types."""
        found = (self.env.get(n.id) for n in gast.walk(node) if isinstance(n, gast.Name))
        return any(b is not None and isinstance(b.value, Mixed) for b in found)

    @staticmethod
    def _is_simple(node: Any) -> bool:
        """Whether evaluating a message ahead of the check cannot fail or have effects."""
        return all(isinstance(n, _SIMPLE) for n in gast.walk(node))

    def _raise(self, node: Any) -> None:
        if node.exc is None and self.caught:
            exceptions.raise_again(self, self.caught[-1])
            return
        cause = NONE if node.cause is None else self.expression(node.cause)
        if node.exc is None or not (isinstance(cause, Caught) or is_none(cause)):
            self.e.error(
                UnsupportedSyntax,
                "`raise` needs an exception, and behind `from` the one that was caught, or None",
                help='raise ValueError("...") from e',
            )
        call = node.exc if isinstance(node.exc, gast.Call) else None
        kind = self.expression(call.func if call else node.exc)
        if isinstance(kind, Caught) and call is None:
            exceptions.raise_again(self, kind)
            return
        found = kind.value if isinstance(kind, Static) and isinstance(kind.value, type) else None
        captured = self.e.session.captures.classes
        is_known = found is not None and exception_class(found.__name__) is found
        if found is None or not (is_known or (issubclass(found, Exception) and found in captured)):
            self.e.error(
                UnsupportedSyntax,
                "only built-in exceptions and classes at the top of a module can be raised",
                help='raise ValueError("...")',
            )
        text = Text("", ())
        if call is not None and call.args:
            if len(call.args) > 1 or call.keywords:
                self.e.error(UnsupportedSyntax, "an exception takes one message", help='raise ValueError("...")')
            text = self.message(call.args[0])
        texts.fail(self.e, class_name(found), text)
        self.stop()
