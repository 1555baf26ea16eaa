"""The places of compiled code that raise, or print: one row a place, known to the back end and to the runtime."""

from __future__ import annotations

from typing import NamedTuple

from dlvm_py.errors import Loc


class Site(NamedTuple):
    """A place that can raise: the exception's name, its message with {} for the operands, their kinds, where.

    Two carriers bring the operands to Python. Few plain numbers lie as bit patterns in the error record of the context;
    their kinds are names of dtypes. Any others lie in memory that `dlvm.tell` is given (backend/cpu/text_values.py);
    their kinds are "flavour dtype rank layout". stream: "" raises, "seed" makes a generator of random numbers,
    "library" computes an array of a GPU program (backend/gpu/library.py), else the text is printed there, or is a
    warning of that category; above: of where the function was called. assumes: what
    is assumed there; where it does not hold the call is undone, and another version has it.
    """

    exception: str
    message: str
    operand_kinds: tuple[str, ...]
    loc: Loc | None
    stream: str = ""
    flush: bool = False
    assumes: str = ""
    above: bool = False
