"""Nodes of syntax trees that Python has not: the body of a generator in the place of the loop that consumes it.

    for v in g(n):                 Generated                   g's body, its names followed by a number
        s += v                         k.1 = 0
                                       while k.1 < n.1:
    def g(n):               →              Consumed            v = k.1 ** 2
        k = 0                                  s += v
        while k < n:                       k.1 += 1
            yield k ** 2
            k += 1

`continue` in the loop ends `Consumed`, `break` leaves `Generated`; `return` in the generator, `Ended`, goes to its end.
"""

from __future__ import annotations

from typing import Any

import gast


class Generated(gast.AST):
    """The body of a generator, and the `else` of the loop that consumes it."""

    _fields = ("body", "orelse")


class Consumed(gast.AST):
    """A `yield` of the generator `home`: the target of the loop gets the value, and its body runs."""

    _fields = ("target", "value", "body")
    home: Generated


class Ended(gast.AST):
    """A `return` of the generator `home`."""

    _fields = ("value",)
    home: Generated


def made(kind: type, place: Any, /, **attributes: Any) -> Any:
    """A new node at the place of another one."""
    node = kind()
    for name, value in attributes.items():
        setattr(node, name, value)
    for name in ("lineno", "col_offset", "end_lineno", "end_col_offset", "written_in"):
        if hasattr(place, name):
            setattr(node, name, getattr(place, name))
    return node
