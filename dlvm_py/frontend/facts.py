"""What is known of i64 values while a function is built: equal expressions, ranges, equal extents.

Facts of SSA values (`interval`, `linear`, `clamped`, `below`) hold wherever the value exists. Facts
that a check establishes hold in the region that it dominates: they are kept in scopes, which the
translation opens and closes along the structure of the source, so that every entry that is visible
dominates the place that asks.
"""

from __future__ import annotations

from typing import Any

from dlvm_py.ir import I64, Instruction, Literal, TensorType, Value
from dlvm_py.ir.value import integer

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
EXTENT_MAX = 2**47  # no array is longer: addresses have 47 bits
_BOUNDS = 6  # of one value that are kept, the latest
_INTEGER = TensorType((), I64)
# what a comparison says where it holds and where it does not: smaller operand, larger operand, the smallest distance
_ORDER = {
    "lessThan": ((0, 1, 1), (1, 0, 0)),
    "lessThanOrEqual": ((0, 1, 0), (1, 0, 1)),
    "greaterThan": ((1, 0, 1), (0, 1, 0)),
    "greaterThanOrEqual": ((1, 0, 0), (0, 1, 1)),
}
_DEPTH = 4  # how far `proves_below` follows bounds of bounds


def key(value: Value) -> object:
    """A hashable name of a value under which equal literals are one."""
    return ("literal", str(value.type), repr(value.value)) if isinstance(value, Literal) else value


class Facts:
    """The knowledge base of one IR function."""

    def __init__(self) -> None:
        self.scopes: list[dict[object, Any]] = [{}]
        self.interval: dict[Value, tuple[int, int]] = {}
        self.linear: dict[Value, tuple[Value, int]] = {}  # v = base + offset
        self.clamped: dict[Value, tuple[Value, int]] = {}  # v = max(base + offset, 0)
        self.below: dict[Value, list[tuple[Value, int]]] = {}  # v < base + offset
        self.never_one: set[Value] = set()
        self._birth: dict[Value, int] = {}

    # -- scopes ----------------------------------------------------------------------------------

    def push(self) -> int:
        """Open a scope; returns the depth to `pop` to."""
        self.scopes.append({})
        return len(self.scopes) - 1

    def pop(self, depth: int, keep: bool = False) -> None:
        """Close all scopes from `depth` on; with `keep`, what the outermost of them knows stays known."""
        if keep:
            self.scopes[depth - 1].update(self.scopes[depth])
        del self.scopes[depth:]

    def lookup(self, name: object) -> Any:
        """What is remembered under `name` in a visible scope, or None."""
        for scope in reversed(self.scopes):
            found = scope.get(name)
            if found is not None:
                return found
        return None

    def remember(self, name: object, value: Any) -> None:
        """Remember in the innermost scope."""
        self.scopes[-1][name] = value

    # -- equality of extents ---------------------------------------------------------------------

    def find(self, value: Value) -> Value:
        """The representative of the values that are known equal to `value` here."""
        while (other := self.lookup(("same", key(value)))) is not None:
            value = other
        return value

    def same(self, a: Value, b: Value) -> bool:
        """Whether the two are known to be equal here."""
        return a is b or key(self.find(a)) == key(self.find(b))

    def unify(self, a: Value, b: Value) -> None:
        """State that the two are equal from here on."""
        a, b = self.find(a), self.find(b)
        if key(a) == key(b):
            return
        if self.age(a) < self.age(b):
            a, b = b, a
        self.remember(("same", key(a)), b)

    def age(self, value: Value) -> int:
        """Order of first sight; literals are oldest, so that they represent."""
        if isinstance(value, Literal):
            return -1
        return self._birth.setdefault(value, len(self._birth))

    def is_never_one(self, value: Value) -> bool:
        """Whether an extent is known not to be 1."""
        value = self.find(value)
        n = integer(value)
        if n is not None:
            return n != 1
        low, high = self.range_of(value)
        return value in self.never_one or low > 1 or high < 1

    # -- ranges ----------------------------------------------------------------------------------

    def range_of(self, value: Value) -> tuple[int, int]:
        """Smallest and largest value that it can have, as far as known."""
        n = integer(value)
        return (n, n) if n is not None else self.interval.get(value, (I64_MIN, I64_MAX))

    def is_nonnegative(self, value: Value) -> bool:
        """Whether value >= 0 is known here."""
        return self.range_of(value)[0] >= 0 or self.lookup(("nonnegative", key(value))) is not None

    def assume(self, condition: Value, holds: bool = True) -> None:
        """A bool scalar is true from here on, or (holds=False) false: comparisons in it order what they compare."""
        if not isinstance(condition, Instruction):
            return
        name = condition.op.name
        if name == "not":
            self.assume(condition.operands[0], not holds)
        elif name == ("and" if holds else "or"):
            for part in condition.operands:
                self.assume(part, holds)
        elif name in _ORDER and all(v.type == _INTEGER for v in condition.operands):
            small, large, distance = _ORDER[name][0 if holds else 1]
            self._order(condition.operands[small], condition.operands[large], distance)

    def _order(self, small: Value, large: Value, distance: int) -> None:
        """small + distance <= large from here on."""
        base, offset = self.split(small)
        if base is not None:
            known = self.lookup(("below", base)) or ()
            bound = (large, 1 - distance - offset)
            if bound not in known:
                self.remember(("below", base), (bound, *known[: _BOUNDS - 1]))
        if self.range_of(small)[0] + distance >= 0:
            self.remember(("nonnegative", key(large)), True)

    def split(self, value: Value) -> tuple[Value | None, int]:
        """value = base + offset; base None for a literal."""
        n = integer(value)
        if n is not None:
            return None, n
        return self.linear.get(value, (value, 0))

    def proves_below(self, value: Value, bound: Value, depth: int = _DEPTH) -> bool:
        """Whether value < bound is known."""
        base, offset = self.split(value)
        return self._offset_below(base, offset, self.find(bound), depth)

    def _offset_below(self, base: Value | None, offset: int, bound: Value, depth: int) -> bool:
        if base is None:
            return offset < self.range_of(bound)[0]
        if self.range_of(base)[1] + offset < self.range_of(bound)[0]:
            return True
        for other, limit in self._lower_forms(bound):
            if self.same(base, other) and offset < limit:
                return True
        if depth == 0:
            return False
        # base < upper + gap, so base + offset <= upper + gap + offset - 1
        uppers = (*self.below.get(base, ()), *(self.lookup(("below", base)) or ()))
        return any(self._sum_below(upper, gap + offset - 1, bound, depth - 1) for upper, gap in uppers)

    def _sum_below(self, value: Value, offset: int, bound: Value, depth: int) -> bool:
        base, more = self.split(value)
        return self._offset_below(base, more + offset, bound, depth)

    def _lower_forms(self, bound: Value) -> list[tuple[Value, int]]:
        """(base, offset) with base + offset <= bound."""
        forms = [(bound, 0)]
        if bound in self.linear:
            forms.append(self.linear[bound])
        if bound in self.clamped:
            forms.append(self.clamped[bound])
        return forms
