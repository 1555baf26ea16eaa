"""What is known of the integers of loops: which linear form of them is never negative, which minimum it is.

    %0 = add %k: i64, %w: i64                  in a loop for %k from 0 to %n - %w, where %n and %w are extents:
    %1 = min %0: i64, %n: i64                  form(%1) = %k + %w, for %n - %k - %w >= 0 in every trip

Known are: extents are not negative; a counter is between its ends; what checks have asked on the way; and the quotient
q of a division by a number c > 0 has c q <= a. Integers are taken for what they mean: sums of extents do not wrap.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm_py.ir.analysis.counted_loops import CountedLoop
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.places import Linear
from dlvm_py.ir.types import I64, TensorType
from dlvm_py.ir.value import Instruction, Literal, Value, integer

_INTEGER = TensorType((), I64)
_DEPTH = 8
_SIGNS = {"greaterThanOrEqual": (1, 0), "lessThanOrEqual": (-1, 0), "greaterThan": (1, 1), "lessThan": (-1, 1)}


class Inequalities:
    """What holds in the innermost of `loops`, all of which count upwards, behind checks that have passed."""

    def __init__(self, loops: Iterable[CountedLoop], passed: Iterable[Value] = ()) -> None:
        self.counters = {c.counter: c for c in loops}
        self._forms: dict[Value, Linear] = {}
        self._extents: dict[tuple[Value, int], Value] = {}
        self.facts: list[Linear] = []  # none of them is negative
        for condition in passed:
            if isinstance(condition, Instruction) and condition.op.name in _SIGNS:
                a, b = condition.operands
                if a.type == _INTEGER:
                    sign, less = _SIGNS[condition.op.name]
                    self.facts.append(self.form(a).plus(self.form(b), -1).times(sign).plus(Linear(-less)))

    # -- forms -----------------------------------------------------------------------------------------

    def form(self, v: Value) -> Linear:
        """An i64 scalar as a linear form, in which minima and maxima are decided where they are always the same one."""
        if (number := integer(v)) is not None:
            return Linear(number)
        if v not in self._forms:
            self._forms[v] = Linear(0, {v: 1})
            self._forms[v] = self._form(v)
        return self._forms[v]

    def extent(self, of: Value, axis: int) -> Linear | None:
        """The extent of an array, if a value stands for it; None where only an `extent` would."""
        found = known_extent(of, axis)
        if isinstance(found, Value):
            return self.form(found)
        return Linear(0, {self._extents[found]: 1}) if found in self._extents else None

    def _form(self, v: Value) -> Linear:
        here = Linear(0, {v: 1})
        if not isinstance(v, Instruction) or v.type != _INTEGER:
            return here
        name = v.op.name
        if name == "extent":
            found = known_extent(v.operands[0], v.attrs["at"])
            return self.form(found) if isinstance(found, Value) else Linear(0, {self._extents.setdefault(found, v): 1})
        if name == "negate":
            return self.form(v.operands[0]).times(-1)
        if name not in ("add", "subtract", "multiply", "min", "max"):
            return here
        a, b = map(self.form, v.operands)
        if name in ("add", "subtract"):
            return a.plus(b, 1 if name == "add" else -1)
        if name == "multiply":
            if a.terms and b.terms:
                return here
            return a.times(b.constant) if a.terms else b.times(a.constant)
        apart = a.plus(b, -1) if name == "max" else b.plus(a, -1)
        if self.is_natural(apart):
            return a
        return b if self.is_natural(apart.times(-1)) else here

    # -- what is known ---------------------------------------------------------------------------------

    def is_natural(self, f: Linear, depth: int = _DEPTH) -> bool:
        """Whether a form is known not to be negative."""
        if all(n > 0 and self._never_negative(v) for v, n in f.terms.items()):
            return f.constant >= 0
        if not depth:
            return False
        if any(self._only_grows(f.plus(fact, -1)) for fact in self.facts):
            return True
        # counters first, the innermost one before those that its ends may be made of; then what is subtracted
        for v in sorted(f.terms, key=lambda v: (self._order(v), f.terms[v] > 0)):
            least = self._least(v, f.terms[v])
            if least is not None and self.is_natural(f.plus(Linear(0, {v: 1}), -f.terms[v]).plus(least), depth - 1):
                return True
        return False

    def _only_grows(self, f: Linear) -> bool:
        return f.constant >= 0 and all(n > 0 and self._never_negative(v) for v, n in f.terms.items())

    def _order(self, v: Value) -> int:
        return -list(self.counters).index(v) - 1 if v in self.counters else 0

    def _least(self, v: Value, times: int) -> Linear | None:
        """A form that times * v is never below."""
        if v in self.counters:
            c = self.counters[v]
            end = self.form(c.first) if times > 0 else self.form(c.last).plus(Linear(-1))
            return end.times(times)
        if isinstance(v, Instruction) and v.op.name == "floorDivide" and isinstance(v.operands[1], Literal):
            by = v.operands[1].value
            assert isinstance(by, int)
            if by > 0 and times % by == 0:
                a = self.form(v.operands[0])
                return (a if times < 0 else a.plus(Linear(1 - by))).times(times // by)
        return None

    def _never_negative(self, v: Value) -> bool:
        if not isinstance(v, Instruction):
            return False
        if v.op.name == "extent":
            return True
        if v.op.name == "floorDivide":
            a, by = v.operands
            return isinstance(by, Literal) and int(by.value) > 0 and self.is_natural(self.form(a), _DEPTH // 2)
        return v.op.name == "max" and any(isinstance(o, Literal) and int(o.value) >= 0 for o in v.operands)
