"""Dicts among the arguments whose keys are numbers, or tuples of numbers (TableSpec).

    def f(d, x): ...           with f({3: 0.5, 1: 2.0}, x)

    keys: ptr<[_]i64>, values: ptr<[_]f64>      parameters: a copy of what the dict holds, in its order
    d = filled(keys, values)                    a table (tables.py), which is made where the function begins

Where d is changed (`Known.require_changed`) it is one of the objects that the caller lends (lent.py), and its keys and
values go back as lists; these have the types that they came with. An empty dict of the caller is such a table, of types
that are not known yet, where a key that is no string is looked up in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm_py.frontend import objects, tables
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.growing import copied
from dlvm_py.frontend.library import hashing
from dlvm_py.frontend.values import Binding, Growing, Object
from dlvm_py.frozen import Frozen


class TableArgument(Frozen):
    """Such a dict: where it stands among the arguments, what it is called, its keys and values; None if it is empty."""

    place: tuple[int, ...]
    name: str
    object: Object
    columns: tuple[Growing, Growing] | None


def key_of(name: str) -> str:
    """The key of the object that such an argument is."""
    return f"{objects.LENT}{name}"


def fill(e: Emitter, given: Iterable[TableArgument]) -> None:
    """Make the tables, in the environment of the current frame."""
    for one in given:
        if one.columns is None:
            made = tables.empty(e)
        else:
            is_changed = e.session.known.is_changed(one.object.key)
            lists = [copied(e, c) if is_changed else c for c in one.columns]
            made = objects.settle(e, e.session.library(e, hashing.filled, lists, {}))
        e.frame.env[one.object.key] = Binding(e.frame.env.pop(made.key).value, e.loc)
