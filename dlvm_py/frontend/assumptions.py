"""Types that depend on values: NumPy's eig of a real matrix is real where all that is found is real, else complex.

    if assumed(np.all(w.imag == 0), "all is real", "..."):  →  %c = ...
        return w.real                                          check %c else TypeError "..." assuming "all is real, ..."
    return w                                                   (one of the branches is translated, the other is not)

A version is translated for one answer at each such place; the first one takes `True` everywhere. A call in which
another answer comes out is undone (runtime/undo.py), and made by a version with that one (dispatch.py). Where both come
out in one call the answer is None, and it must not show which one it is (undecided.py).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from dlvm_py.errors import Loc, TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.emit import Emitter
from dlvm_py.ir import Literal


class Assumptions:
    """The answers that one translation is for, and the calls that it stands in: they tell places apart."""

    def __init__(self, answers: Mapping[str, bool | None]) -> None:
        self._answers = answers
        self._calls: list[str] = []
        self.count = 0  # how often something has been assumed

    @property
    def path(self) -> tuple[str, ...]:
        """The calls that the translation stands in."""
        return tuple(self._calls)

    @contextlib.contextmanager
    def inside(self, loc: Loc | None) -> Iterator[None]:
        """What is translated stands in the call at a place."""
        self._calls.append(str(loc))
        try:
            yield
        finally:
            self._calls.pop()

    def holds(self, e: Emitter, condition: Any, what: str, message: str, is_open: bool) -> bool | None:
        """Whether this version is for calls in which a scalar bool holds here; a check that it is so is emitted.

        what: tells it from others in the same call. message: of the TypeError where there is no other version: in a
        library, in text, or where both answers come out in one call, unless it `is_open`: then that is None.
        """
        if isinstance(condition, Literal):
            return bool(condition.value)
        if e.options.target == "gpu":
            e.error(
                UnsupportedSyntax,
                "a dtype that depends on the numbers is not supported on a GPU",
                help="pass complex numbers: x.astype(complex)",
            )
        self.count += 1
        # calls of the library stand where the user's call does
        places = (place for place, _ in itertools.groupby((str(e.loc), *reversed(self._calls))))
        name = f"{what}, {' in '.join(places)}"
        answer = self._answers.get(name, True)
        if answer is None and not is_open:
            e.error(TypeMismatch, message)
        if answer is None:
            return None
        e.check(condition if answer else e.pure("not", condition), "TypeError", message, assuming=name)
        return answer
