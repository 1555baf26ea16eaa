"""Calls that are undone: something was assumed of values that does not hold (frontend/assumptions.py).

What such a call has written into arrays of its caller, and the numbers that it has drawn, are put back. What it has
printed is there: the call that is made in its place comes along the same way, and leaves so many texts out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from dlvm_py.frozen import Frozen
from dlvm_py.ir.interface import is_generator


class Undone(Exception):  # noqa: N818 - not an error: another version has the call
    """A call has been undone at a site of the version that had it, after it has printed so many texts."""

    def __init__(self, site: int) -> None:
        super().__init__(site)
        self.site = site
        self.printed = 0


class _Texts(threading.local):
    """Of the running call: how many texts it has printed, and how many of the first ones are not to be."""

    printed = 0
    left_out = 0


_TEXTS = _Texts()


def is_left_out() -> bool:
    """Whether the text that the running call prints now has been printed by one that was undone."""
    _TEXTS.printed += 1
    return _TEXTS.printed <= _TEXTS.left_out


class Traces(Frozen):
    """What a call may leave behind: arrays that it writes, with what they hold, generators, with their states."""

    arrays: Sequence[tuple[Any, Any]]
    generators: Sequence[tuple[Any, Any]]

    @staticmethod
    def of(found: Sequence[Any], written: Sequence[int]) -> Traces:
        """Those of a call with these leaves."""
        bits = [leaf.bit_generator for leaf in found if is_generator(leaf)]
        return Traces([(found[k], found[k].copy()) for k in written], [(b, b.state) for b in bits])

    def undo(self) -> None:
        """Put everything back."""
        for array, contents in self.arrays:
            array[...] = contents
        for bits, state in self.generators:
            bits.state = state


def undoing(call: Callable[[], Any], found: Sequence[Any], written: Sequence[int], printed: int) -> Any:
    """What a call gives; if it is undone it is as if it had not been, but for its texts. The first `printed` are out.

    Raises: Undone, with the number of texts that are out by then.
    """
    traces = Traces.of(found, written)
    outer = _TEXTS.printed, _TEXTS.left_out
    _TEXTS.printed, _TEXTS.left_out = 0, printed
    try:
        return call()
    except Undone as undone:
        undone.printed = max(printed, _TEXTS.printed)
        traces.undo()
        raise
    finally:
        _TEXTS.printed, _TEXTS.left_out = outer
