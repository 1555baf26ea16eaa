"""How a program of the corpus is declared."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Case:
    """One program.

    points: argument tuples, or functions that make one (a copy loses strides). gradient: the closed form, of the
    arguments, in the structure of `wrt`; None: differences, which a kink does not have. second: at a kink, the closed
    form of the second derivative times a direction, of (arguments, direction), direction a tuple like `wrt`; at other
    points it is the differences of the gradient.
    known: where tools got it wrong.
    """

    name: str
    group: str
    fn: Callable[..., Any]
    points: tuple[tuple[Any, ...] | Callable[[], tuple[Any, ...]], ...]
    about: str
    known: str
    gradient: Callable[..., Any] | None
    kink: bool
    second: Callable[..., Any] | None
    wrt: tuple[int, ...]

    def args(self, point: int) -> tuple[Any, ...]:
        """Fresh arguments."""
        made = self.points[point]
        return made() if callable(made) else copy.deepcopy(made)


CASES: dict[str, Case] = {}


def SINGULAR(*args: Any) -> None:  # noqa: N802 - it stands where a closed form stands
    """For `second`: the second derivative does not exist at this kink, and nothing is promised of it."""


def case(
    *points: tuple[Any, ...] | Callable[[], tuple[Any, ...]],
    about: str,
    known: str = "",
    gradient: Callable[..., Any] | None = None,
    kink: bool = False,
    second: Callable[..., Any] | None = None,
    wrt: tuple[int, ...] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the decorated function to the corpus; `wrt` is every argument that holds floats unless it is given."""

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        assert fn.__name__ not in CASES, f"two programs are called {fn.__name__}"
        assert not kink or (gradient is not None and second is not None), "differences do not exist at a kink"
        first = points[0]() if callable(points[0]) else points[0]
        found = tuple(k for k, a in enumerate(first) if float_leaves(a)) if wrt is None else wrt
        group = fn.__module__.rpartition(".")[2]
        CASES[fn.__name__] = Case(fn.__name__, group, fn, points, about, known, gradient, kink, second, found)
        return fn

    return add


def float_leaves(value: Any) -> list[Any]:
    """The float and complex numbers and arrays in a value, left to right."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in float_leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in float_leaves(item)]
    if is_dataclass(value):
        return [leaf for f in fields(value) for leaf in float_leaves(getattr(value, f.name))]
    if value is None or callable(value) or isinstance(value, str):
        return []
    return [value] if np.asarray(value).dtype.kind in "fc" else []


def vector(*values: float) -> np.ndarray:
    """A vector of float64."""
    return np.array(values, dtype=np.float64)
