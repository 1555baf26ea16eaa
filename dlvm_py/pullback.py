"""What `dlvm.vjp` gives beside the value: the reverse sweep of one call, to be run as often as wanted."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from dlvm_py.dispatch import TapeReader


class Pullback:
    """Seed in the structure of the value → derivatives. It owns the tape of its call, which goes when it goes.

    Calls do not change it: it may be called any number of times, also by several threads at once. Nothing that happens
    to the arguments, to the value, or to what the function has captured reaches it.
    """

    __slots__ = ("__weakref__", "_name", "_reader", "_tape")

    def __init__(self, name: str, reader: TapeReader, tape: tuple[Any, ...]) -> None:
        self._name = name
        self._reader = reader
        self._tape = tape

    def __call__(self, seed: Any, /) -> Any:
        """The derivatives of the value, weighted by the seed.

        seed: of the dtype and shape of the value, in its structure; None in the place of what is no float.

        Returns a derivative for each argument (or as `wrt` asked): new C-contiguous arrays, scalars, None for what
        holds no float, in the structure of the argument.

        Raises: ArgumentError DL704 for a seed that does not look like the value, ValueError for one of another shape.
        """
        return self._reader.function(self._tape, seed)

    @property
    def nbytes(self) -> int:
        """How many bytes the tape takes."""
        return sum(np.asarray(part).nbytes for part in self._tape)

    def stats(self) -> dict[str, Any]:
        """What was made in this process to read tapes of this kind: as `stats` of a compiled function."""
        found: dict[str, Any] = self._reader.function.stats()
        return found

    def ir(self) -> str:
        """The IR text, at stage optimizable, of the function that was last used to read the tape."""
        text: str = self._reader.function.ir()
        return text

    def __reduce__(self) -> Any:
        raise pickle.PicklingError(
            f"{self!r} cannot be pickled: its code belongs to the function as it was when vjp was called;"
            " pickle the arguments, and call dlvm.vjp again"
        )

    def __repr__(self) -> str:
        return f"<pullback of {self._name}, {self.nbytes} bytes of tape>"
