"""np.vectorize: a function of numbers becomes one of arrays (library/reshaping.py: vectorized).

g = np.vectorize(f, otypes=[float])      Method(f, ..., a rule that knows the dtype)
g(x, y)                                  a call of library code, in which f is called in a loop
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.library.reshaping import vectorized
from dlvm_py.frontend.values import NONE, Method, Sequence, Static, is_none


def made(
    e: Emitter, pyfunc: Any = None, otypes: Any = None, doc: Any = None, excluded: Any = None, cache: Any = None,
    signature: Any = None,
) -> Method:  # fmt: skip
    """np.vectorize(pyfunc, otypes)."""
    for name, value in (("excluded", excluded), ("signature", signature)):
        if not is_none(value):
            e.error(
                UnsupportedSyntax, f"np.vectorize: the argument `{name}` is not supported",
                help="write a function of the other arguments alone, or a loop",
            )  # fmt: skip
    if pyfunc is None:
        e.error(TypeMismatch, "np.vectorize needs a function")
    return _vectorized(e, pyfunc, NONE if is_none(otypes) else _dtype(e, otypes))


def of_object(e: Emitter, known: np.vectorize) -> Method:
    """An object that np.vectorize made before the call."""
    excluded = Static(known.excluded) if known.excluded else None
    otypes = None if known.otypes is None else Static(known.otypes)
    return made(e, Static(known.pyfunc), otypes, None, excluded, None, Static(known.signature))


def _dtype(e: Emitter, otypes: Any) -> Static:
    """The dtype that otypes=[float] or otypes="d" asks for."""
    items: Any = otypes.items if isinstance(otypes, Sequence) else ()
    if isinstance(otypes, Static) and isinstance(otypes.value, str):
        items = [Static(c) for c in otypes.value]
    if len(items) != 1 or not isinstance(items[0], Static):
        e.error(UnsupportedSyntax, "np.vectorize needs one constant dtype as `otypes`", help="otypes=[float]")
    return Static(np.dtype(items[0].value))


def _vectorized(e: Emitter, function: Any, dtype: Any) -> Method:
    def call(e: Emitter, function: Any, *args: Any) -> Any:
        return e.session.library(e, vectorized, [function, dtype, *args], {})

    return Method(function, "the function that np.vectorize made", call)
