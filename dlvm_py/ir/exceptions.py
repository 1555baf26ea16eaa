"""The exceptions that compiled code can raise, by the name that `check` and `raise` state."""

from __future__ import annotations

import builtins
import math

import numpy as np

# what a message begins with where the argument is no string, but what the rest of it is the repr of
OF_KEY = "\0"


class NotAssumed(TypeError):
    """What the interpreter raises where something does not hold that a `check` says is assumed, by its `name`."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def exception_of(kind: type[BaseException], message: str) -> BaseException:
    """The exception of a class with a message."""
    if message.startswith(OF_KEY):
        # of numbers and tuples of these
        return kind(eval(message[len(OF_KEY) :], {"np": np, "nan": math.nan, "inf": math.inf}))
    return kind(message) if message else kind()


def exception_class(name: object) -> type[Exception] | None:
    """The class of an exception of Python, np.linalg or np.exceptions; None for a name that is none."""
    for module in (builtins, np.linalg, np.exceptions):
        found = getattr(module, str(name), None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return None
