"""Linear forms of extents and integers among the parameters of a function, for what is assumed of them."""

from __future__ import annotations

from typing import NamedTuple

from dlvm_py.ir import Instruction, Literal, Value, is_scalar
from dlvm_py.ir.relation import Symbol


class Form(NamedTuple):
    """A constant and the sum of coefficient * symbol."""

    constant: int
    terms: tuple[tuple[Symbol, int], ...] = ()

    def plus(self, other: Form, times: int = 1) -> Form:
        found = dict(self.terms)
        for symbol, c in other.terms:
            found[symbol] = found.get(symbol, 0) + times * c
        return Form(self.constant + times * other.constant, tuple(sorted((s, c) for s, c in found.items() if c)))

    @property
    def is_symbol(self) -> bool:
        return not self.constant and len(self.terms) == 1 and self.terms[0][1] == 1

    @property
    def is_extent(self) -> bool:
        """Whether it is an extent, and no integer among the parameters."""
        return self.is_symbol and self.terms[0][0][1] >= 0


def only_grows(f: Form) -> bool:
    """Whether a form is a sum of extents and of what is not negative."""
    return f.constant >= 0 and all(axis >= 0 and c > 0 for (_, axis), c in f.terms)


def compares_extents(apart: Form) -> bool:
    """Whether a form says by how much an extent is larger than another one, or than something less."""
    signs = sorted(c for (_, axis), c in apart.terms if axis >= 0)
    return apart.constant >= 0 and signs == [-1, 1] and len(apart.terms) == 2


def solved(form: Form) -> Symbol | None:
    """The symbol that an equation with 0 is solved for: an integer, else the last extent."""
    found = [s for s, c in form.terms if abs(c) == 1]
    return next((s for s in found if s[1] < 0), found[-1] if found else None)


def asked_pair(condition: Value) -> tuple[Value, Value] | None:
    """The two numbers that a condition asks to be equal, or one of them 1; None for other conditions.

    Or a number may be 0: that of the trips of a loop that the check stood in (raise_loops.py).
    """
    pairs, ones = [], []
    work = [condition]
    while work:
        v = work.pop()
        if not isinstance(v, Instruction) or v.op.name not in ("or", "equal"):
            return None
        if v.op.name == "or":
            work += v.operands
            continue
        a, b = v.operands
        if not is_scalar(a.type) or a.type.dtype.name != "i64":  # type: ignore[attr-defined]
            return None
        if isinstance(b, Literal) and b.value == 1:
            ones.append(a)
        elif not (isinstance(b, Literal) and b.value == 0):
            pairs.append((a, b))
    if len(pairs) != 1 or not all(one in pairs[0] for one in ones):
        return None
    return pairs[0]
