"""The names that somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """ "did you mean ..." with the closest names, None if none is close."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return "did you mean " + " or ".join(f"`{c}`" for c in close) + "?" if close else None
