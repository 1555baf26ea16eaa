"""What the integers of a loop can be, in all its trips, as values that are there before it.

    'loop(%k: i64): lessThan %k, %n                before the loop
        %j = add %k: i64, 1: i64        bounds     0 + 1 and (%n - 1) + 1
        check lessThan %j, %m           never_fails(check)  =>  %n - 1 + 1 < %m

A counter goes from the first of its numbers to the last; sums, differences, products, minima and maxima follow. The
bounds are computed as the integers themselves are, in 64 bits, so that they hold where values from outside the loop are
small enough for nothing to overflow: `condition` has these comparisons as well.
"""

from __future__ import annotations

from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_natural, is_outside
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.analysis.places import Linear, linear
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block
from dlvm_py.ir.types import BOOL, I64, PointerType, TensorType, is_scalar, scalar
from dlvm_py.ir.value import BlockArg, Instruction, Literal, Value, integer

Bounds = tuple[Value, Value]

_INTEGER = TensorType((), I64)
# magnitudes, in bits, that values from outside have where the conditions hold; of factors of a product
_USUAL, _FACTOR = 40, 30
_MOST = 62
_NEGATED = {
    "lessThan": "greaterThanOrEqual", "greaterThanOrEqual": "lessThan", "greaterThan": "lessThanOrEqual",
    "lessThanOrEqual": "greaterThan", "equal": "notEqual", "notEqual": "equal",
}  # fmt: skip
TRUE = Literal(scalar(BOOL), True)


class LoopBounds:
    """The bounds of values of `loop`, computed where `b` builds: before it."""

    def __init__(self, b: Builder, of: Independence, loop: Loop) -> None:
        self.b, self.loop, self.independence = b, loop, of
        self._made: dict[tuple, Value] = {}
        self.counted = of.counted
        self.conditions: list[Value] = []
        self.edges = of.edges
        self._left = self._counters_behind_their_loops()
        self._limits: dict[Value, int] = {}  # sizes that values from outside must not exceed
        self._bits: dict[Value, int] = {}  # of the size of a value, where the conditions hold
        self._known: dict[Value, Bounds | None] = {}
        self._again: dict[Value, Value | None] = {}

    def _counters_behind_their_loops(self) -> set[Value]:
        """The counters of loops in the loop that are used when their own loop is over."""
        return {
            v
            for block in self.loop.ordered
            for i in block.instructions
            for v in i.all_operands()
            if isinstance(v, BlockArg) and self._is_behind(v, block)
        }

    def _is_behind(self, v: BlockArg, block: Block) -> bool:
        counted = self.counted.get(v.block)
        return counted is not None and v is counted.counter and not counted.loop.contains(block)

    # -- integers ----------------------------------------------------------------------------------------

    def of(self, v: Value) -> Bounds | None:
        """The smallest and the largest that an i64 scalar can be; None where that is not known beforehand."""
        if v not in self._known:
            self._known[v] = None
            self._known[v] = self._of(v)
        return self._known[v]

    def _of(self, v: Value) -> Bounds | None:
        if v.type != _INTEGER:
            return None
        number = integer(v)
        if number is not None:
            return self._noted(v, v, abs(number).bit_length())
        if is_outside(v, self.loop):
            self._at_most(v, v, _USUAL)
            return self._noted(v, v, _USUAL)
        if isinstance(v, BlockArg):
            counted = self.counted.get(v.block)
            return self._of_counter(counted) if counted is not None and v is counted.counter else None
        assert isinstance(v, Instruction)
        found = [self.of(o) for o in v.operands if is_scalar(o.type)]
        match v.op.name:
            case "add" if found[0] and found[1]:
                return self._both("add", found[0], found[1])
            case "subtract" if found[0] and found[1]:
                return self._both("subtract", found[0], (found[1][1], found[1][0]))
            case "negate" if found[0]:
                return self._both("subtract", (literal(0), literal(0)), (found[0][1], found[0][0]))
            case "multiply" if found[0] and found[1]:
                return self._product(found[0], found[1])
            case "max" | "min" if found[0] and found[1]:
                return self._both(v.op.name, found[0], found[1], carry=0)
            case "select" if found[0] and found[1]:
                low = self._emit("min", found[0][0], found[1][0])
                return self._noted(low, self._emit("max", found[0][1], found[1][1]), self._size(*found[:2]))  # type: ignore[arg-type]
            case "modulo" if (n := integer(v.operands[1])) and n > 0:
                return self._noted(literal(0), literal(n - 1), n.bit_length())
        return self._invariant(v)

    def _invariant(self, v: Value) -> Bounds | None:
        again = self.again(v)
        if again is None:
            return None
        self._at_most(again, again, _USUAL)
        return self._noted(again, again, _USUAL)

    def _of_counter(self, counted: CountedLoop) -> Bounds | None:
        first, last = self.of(counted.first), self.of(counted.last)
        if first is None or last is None:
            return None
        if counted.counter in self._left:
            return self._noted(
                self._emit("min", first[0], last[0]), self._emit("max", first[1], last[1]), self._size(first, last)
            )
        if counted.step == 1:
            return self._noted(first[0], self._emit("subtract", last[1], literal(1)), self._size(first, last) + 1)
        return self._noted(self._emit("add", last[0], literal(1)), first[1], self._size(first, last) + 1)

    def _both(self, op: str, a: Bounds, b: Bounds, carry: int = 1) -> Bounds | None:
        bits = self._size(a, b) + carry
        return self._noted(self._emit(op, a[0], b[0]), self._emit(op, a[1], b[1]), bits) if bits <= _MOST else None

    def _product(self, a: Bounds, b: Bounds) -> Bounds | None:
        if self._size(a) + self._size(b) > _MOST:
            for each in (a, b):
                if self._size(each) > _FACTOR:
                    self._at_most(*each, _FACTOR)
                    self._noted(*each, _FACTOR)
        bits = self._size(a) + self._size(b)
        if a[0] is a[1] and b[0] is b[1]:
            product = self._emit("multiply", a[0], b[0])
            return self._noted(product, product, bits)
        corners = [self._emit("multiply", x, y) for x in dict.fromkeys(a) for y in dict.fromkeys(b)]
        low = high = corners[0]
        for c in corners[1:]:
            low, high = self._emit("min", low, c), self._emit("max", high, c)
        return self._noted(low, high, bits)

    def _noted(self, low: Value, high: Value, bits: int) -> Bounds:
        for v in (low, high):
            self._bits[v] = min(bits, self._bits.get(v, bits))
        return low, high

    def _size(self, *all: Bounds) -> int:
        return max(self._bits[v] for each in all for v in each)

    def _at_most(self, low: Value, high: Value, bits: int) -> None:
        """Nothing is said unless both are so small."""
        for v in dict.fromkeys((low, high)):
            if integer(v) is None and self._bits.get(v, _MOST) > bits:
                self._limits[v] = bits

    def trips(self, counted: CountedLoop) -> Value:
        """How many trips a loop has whose ends are there before this one: 0 or less where it has none."""
        low, high = counted.ends
        return self._emit("subtract", high, low)

    # -- conditions --------------------------------------------------------------------------------------

    def always(self, v: Value, holds: bool = True) -> Value | None:
        """A bool before the loop that is true only if `v` is `holds` in all trips; None where there is none."""
        again = self.again(v)
        if again is not None:
            return again if holds else self._not(again)
        if not isinstance(v, Instruction):
            return None
        name, operands = v.op.name, v.operands
        if name == "not":
            return self.always(operands[0], not holds)
        if name in ("and", "or"):
            a, b = (self.always(o, holds) for o in operands)
            if (name == "or") is holds:
                return self._emit("or", a, b) if a is not None and b is not None else a or b
            return self._emit("and", a, b) if a is not None and b is not None else None
        if name in _NEGATED and operands[0].type == _INTEGER:
            return self._compared(name if holds else _NEGATED[name], *operands, v.block)
        return None

    def _not(self, v: Value) -> Value:
        return Literal(v.type, not v.value) if isinstance(v, Literal) else self.emit("not", v)

    def _compared(self, op: str, x: Value, y: Value, block: Block | None) -> Value | None:
        if op in ("greaterThan", "greaterThanOrEqual"):
            op, x, y = {"greaterThan": "lessThan", "greaterThanOrEqual": "lessThanOrEqual"}[op], y, x
        if op == "equal":
            return self._equal(x, y)
        if isinstance(y, BlockArg) and block is not None and self._is_behind(y, block):
            return self._reached(op, x, self.counted[y.block])
        a, b = self.of(x), self.of(y)
        if a is None or b is None:
            return None
        if op == "notEqual":
            return self._emit("or", self._emit("lessThan", a[1], b[0]), self._emit("lessThan", b[1], a[0]))
        apart = linear(x).plus(linear(y), -1)  # small, as both have bounds: nothing wraps
        if not apart.terms:
            return Literal(scalar(BOOL), apart.constant < 0 or (op == "lessThanOrEqual" and apart.constant == 0))
        return self._emit(op, a[1], b[0])

    def _reached(self, op: str, x: Value, counted: CountedLoop | None) -> Value | None:
        """Whether x is at most where a loop has counted up to: that is `last`, or more."""
        if counted is None or counted.step != 1 or op != "lessThanOrEqual":
            return None
        conditions: list[Value] = []
        apart = self._chosen(counted.last, conditions, linear(x)).plus(linear(x), -1)
        if not apart.terms and apart.constant >= 0:
            return self._all(conditions)
        most, reached = self.of(x), self.of(counted.last)
        return self._emit(op, most[1], reached[0]) if most is not None and reached is not None else None

    def _equal(self, x: Value, y: Value) -> Value | None:
        """Where the smaller of two numbers is always the same one, it is that."""
        conditions: list[Value] = []
        one = self._chosen(x, conditions)
        apart = one.plus(self._chosen(y, conditions, one), -1)
        if not apart.terms and not apart.constant:
            return self._all(conditions)
        same = self._same_sums(x, y)
        if same is not None:
            return same
        ways, fixed = self._equal_ways(x, y), self._equal_bounds(x, y)
        return self._emit("or", ways, fixed) if ways is not None and fixed is not None else ways or fixed

    def _equal_ways(self, x: Value, y: Value) -> Value | None:
        """Where one of two numbers is a choice, and both that it chooses from are the other one."""
        for v, other in ((x, y), (y, x)):
            if isinstance(v, Instruction) and v.op.name == "select" and not is_outside(v, self.loop):
                a, b = (self._equal(way, other) for way in v.operands[:2])
                return self._emit("and", a, b) if a is not None and b is not None else None
        return None

    def _equal_bounds(self, x: Value, y: Value) -> Value | None:
        """Where neither of two numbers changes."""
        a, b = self.of(x), self.of(y)
        if a is None or b is None:
            return None
        return self._all(
            [self._emit("equal", u, w) for u, w in ((a[0], a[1]), (a[1], b[0]), (b[0], b[1])) if u is not w]
        )

    def _same_sums(self, x: Value, y: Value) -> Value | None:
        """The same where numbers differ by two that do not change, or by none, once minima in sums are one number."""
        conditions: list[Value] = []
        one, other = (self._chosen_terms(self._chosen(v, conditions), conditions) for v in (x, y))
        apart = one.plus(other, -1)
        if sorted(apart.terms.values()) != [-1, 1] or apart.constant:
            return None if apart.terms or apart.constant else self._all(conditions)
        same = [self.again(v) for v in apart.terms]
        if same[0] is None or same[1] is None:
            return None
        return self._all([*conditions, self._emit("equal", same[0], same[1])])

    def _chosen_terms(self, form: Linear, conditions: list[Value]) -> Linear:
        found = form
        for v, n in form.terms.items():
            found = found.plus(Linear(0, {v: 1}), -n).plus(self._chosen(v, conditions), n)
        return found

    def _chosen(self, v: Value, conditions: list[Value], wanted: Linear | None = None) -> Linear:
        """The number that the least (largest) of several always is, under conditions: one that changes, or `wanted`."""
        if isinstance(v, Instruction) and v.op.name in ("min", "max") and not is_outside(v, self.loop):
            ways = [(x, other) for x, other in (v.operands, v.operands[::-1])]
            ways.sort(key=lambda way: (linear(way[0]) != wanted, is_outside(way[0], self.loop)))
            for x, other in ways:
                a, b = self.of(x), self.of(other)
                if a is not None and b is not None:
                    small = v.op.name == "min"
                    conditions.append(self._emit("lessThanOrEqual", *((a[1], b[0]) if small else (b[1], a[0]))))
                    return self._chosen(x, conditions, wanted)
        return linear(v)

    def _all(self, conditions: list[Value]) -> Value:
        found: Value = TRUE
        for c in conditions:
            found = self._emit("and", found, c)
        return found

    def never_fails(self, i: Instruction) -> bool:
        """Add to `conditions` what must hold for an instruction not to raise in any trip; whether that can be said."""
        assert i.block is not None
        if i.block not in self.loop.blocks:
            return self._never_reached(i.block)
        if i.attrs.get("checked"):
            return self.of(i) is not None
        if i.op.name == "allocateHeap":
            found = [self.of(n) for n in i.operands]
            self.conditions += [self._emit("greaterThanOrEqual", f[0], literal(0)) for f in found if f is not None]
            return all(f is not None for f in found)
        condition = self.always(i.operands[0]) if i.op.name == "check" else None
        if condition is None:
            return False
        self.conditions.append(condition)
        return True

    def _never_reached(self, block: Block) -> bool:
        """The same for a block that raises."""
        ((before, way),) = self.edges[block]
        test = before.instructions[-1]
        condition = self.always(test.operands[0], holds=way == 1) if test.op.name == "conditional" else None
        if condition is None:
            return False
        self.conditions.append(condition)
        return True

    def condition(self) -> Value:
        """All conditions together."""
        limits = [
            self._emit(op, v, literal(sign << bits))
            for v, bits in self._limits.items()
            for op, sign in (("lessThanOrEqual", 1), ("greaterThanOrEqual", -1))
            if sign == 1 or not is_natural(v)
        ]
        return self._all(list(dict.fromkeys([*limits, *self.conditions])))

    # -- values that are the same in all trips -------------------------------------------------------------

    def again(self, v: Value) -> Value | None:
        """What a scalar that is the same in all trips is, computed before the loop; None for others."""
        if is_outside(v, self.loop):
            return v
        if v not in self._again:
            self._again[v] = None
            if isinstance(v, Instruction) and is_scalar(v.type) and is_pure(v) and self._is_outside_memory(v):
                operands = [self.again(o) for o in v.operands]
                if all(o is not None for o in operands):
                    self._again[v] = self.emit(v.op.name, *operands, **v.attrs)  # type: ignore[arg-type]
        return self._again[v]

    def _is_outside_memory(self, v: Instruction) -> bool:
        return all(is_scalar(o.type) or isinstance(o.type, PointerType) for o in v.operands)

    def _emit(self, op: str, a: Value, b: Value) -> Value:
        """An instruction, or what it gives for numbers that are known."""
        m, n = integer(a), integer(b)
        if m is not None and n is not None and a.type == _INTEGER:
            numbers = {"add": m + n, "subtract": m - n, "multiply": m * n, "min": min(m, n), "max": max(m, n)}
            truths = {"lessThan": m < n, "lessThanOrEqual": m <= n, "greaterThanOrEqual": m >= n, "equal": m == n}
            return literal(numbers[op]) if op in numbers else Literal(scalar(BOOL), truths[op])
        if a is b and op in ("min", "max"):
            return a
        if op in ("add", "subtract") and n == 0:
            return a
        if op in ("and", "or"):
            for x, other in ((a, b), (b, a)):
                if isinstance(x, Literal):
                    return other if bool(x.value) is (op == "and") else x
        return self.emit(op, a, b)

    def emit(self, op: str, *operands: Value, **attrs: object) -> Value:
        """An instruction before the loop, the same for the same operands."""
        names = (repr(v) if isinstance(v, Literal) else v for v in operands)
        key = (op, *names, *sorted(attrs.items(), key=str))
        if key not in self._made:
            self._made[key] = self.b.emit(op, *operands, **attrs)
        return self._made[key]
