"""The names that somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dlvm_py.deferred import deferred

if TYPE_CHECKING:
    import difflib
else:
    difflib = deferred("difflib")  # it compiles a regular expression; who writes no message does without


def suggestion(name: str, known: Iterable[str] | Mapping[str, str]) -> str | None:
    """ "did you mean ..." with the closest names, None if none is close; `known` may say how each is spelled."""
    spelled = known if isinstance(known, Mapping) else {n: n for n in known}
    close = difflib.get_close_matches(name, list(spelled), n=3, cutoff=0.6)
    return "did you mean " + " or ".join(f"`{spelled[c]}`" for c in close) + "?" if close else None
