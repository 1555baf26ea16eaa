"""functools.partial: a function with its first arguments, and named ones, given."""

from __future__ import annotations

from typing import Any

from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.values import Method, Record, Sequence


def partial(e: Emitter, func: Any, /, *args: Any, **keywords: Any) -> Method:
    """functools.partial(func, *args, **keywords)."""
    named = Record(dict, tuple(keywords), tuple(keywords.values()))
    return Method(Sequence((func, Sequence(args), named)), "partial", _call)


def _call(e: Emitter, given: Sequence, /, *args: Any, **keywords: Any) -> Any:
    func, first, named = given.items
    keywords = dict(zip(named.names, named.items, strict=True)) | keywords
    return e.session.invoke(e, func, [*first.items, *args], keywords)
