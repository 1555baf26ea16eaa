"""What a version of a function takes for granted of its arguments: linear relations of extents and integers.

A relation is data: the entry of the version tests it, and calls in which it does not hold are of another version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlvm_py.frozen import Frozen

INTEGERS = 1 << 40  # what is assumed of integers that take part: sums of them do not wrap

# a parameter of the IR function, and an axis of it; -1: the integer itself
Symbol = tuple[int, int]


class Relation(Frozen):
    """That the constant and the sum of coefficient * symbol are 0 (`is_zero`), or not negative."""

    is_zero: bool
    constant: int
    terms: tuple[tuple[Symbol, int], ...]

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether it is true of arguments: numbers and arrays, one a parameter."""
        total = self.constant
        for (leaf, axis), coefficient in self.terms:
            total += coefficient * (int(leaves[leaf]) if axis < 0 else leaves[leaf].shape[axis])
        return total == 0 if self.is_zero else total >= 0

    def moved(self, first: int, by: int) -> Relation:
        """The same of a function that has `by` more parameters in front of parameter `first`."""
        terms = (((leaf + by if leaf >= first else leaf, axis), c) for (leaf, axis), c in self.terms)
        return Relation(self.is_zero, self.constant, tuple(terms))

    def to_json(self) -> Any:
        """A JSON value."""
        return [self.is_zero, self.constant, [[leaf, axis, c] for (leaf, axis), c in self.terms]]

    @staticmethod
    def from_json(data: Any) -> Relation:
        """The relation of a JSON value."""
        is_zero, constant, terms = data
        return Relation(is_zero, constant, tuple(((leaf, axis), c) for leaf, axis, c in terms))
