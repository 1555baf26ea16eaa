"""The parameters of a Python function that is compiled. A leaf of the import graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """That of the code: `__wrapped__` and `__signature__`, which decorators set, are about other functions."""
    if isinstance(function, FunctionType) and "__signature__" in vars(function):
        bare = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        bare.__kwdefaults__ = function.__kwdefaults__
        bare.__annotations__ = function.__annotations__
        function = bare
    return inspect.signature(function, follow_wrapped=False)
