"""The places of compiled code that can raise: one row a place, known to the back end and to the runtime."""

from __future__ import annotations

from typing import NamedTuple

from dlvm_py.errors import Loc


class Site(NamedTuple):
    """A place that can raise: the exception's name, its message with {} for the operands, their kinds, where."""

    exception: str
    message: str
    operand_kinds: tuple[str, ...]
    loc: Loc | None
