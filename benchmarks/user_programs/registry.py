"""What a program is, and the list of all: a module of this folder adds its own with `@program(make)`."""

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """A function of loops. make(s) gives arguments of size s, fresh ones each time; 100 or so is a size for races.

    rounds: its numbers depend on the last bits of elementary functions, so they are equal but for rounding.
    """

    function: FunctionType
    make: Callable[[int], tuple[Any, ...]]
    rounds: bool = False

    @property
    def name(self) -> str:
        """That of the function."""
        return self.function.__name__

    @property
    def field(self) -> str:
        """The module in which it stands."""
        return self.function.__module__.rpartition(".")[2]


PROGRAMS: dict[str, Program] = {}


def program(make, rounds=False):
    """Add the function to PROGRAMS."""

    def add(function):
        assert function.__name__ not in PROGRAMS
        PROGRAMS[function.__name__] = Program(function, make, rounds)
        return function

    return add


def numbers(seed=0):
    """Random numbers, the same at every call."""
    return np.random.default_rng(seed)
