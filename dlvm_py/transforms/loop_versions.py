"""Loop versions: an inner loop whose indices are all in range, as its ends say, runs without asking in each trip.

    'loop(%k: i64, ...):                                'gate():  %low = add %lo, 0;  %high = add %lo, (%n - 1)
        %m = lessThan %k, %n                                %fine = 0 <= %low and 0 <= %high and %high < %size
        conditional %m then 'body() else 'exit()            conditional %fine then 'fast(0, ...) else 'loop(0, ...)
    'body():                                            'fast(%k: i64, ...):
        %x = add %lo, %k                            =>      conditional (lessThan %k, %n) then 'fast_body else 'joined
        %w = add %x, %size                              'fast_body():
        %p = select %w, %x by (lessThan %x, 0)              %x = add %lo, %k
        check (0 <= %p and %p < %size) else IndexError      %e = elementPointer %a at %x
        %e = elementPointer %a at %p                        ...
        ...                                             'loop(%k: i64, ...):   as it was, to 'joined

An index that may be negative counts from the end of its axis, so each trip has a select and two comparisons. Where the
index is the counter plus what the loop does not change, or minus the counter, its first and its last value decide for
all of them: the counter goes up by 1 from 0, and a sum that is not negative at both ends has not left 64 bits in
between. The counter may be multiplied by a number (range(i * i, n, i)), if that and the count are below 2^31 and it is
not negative. What is asked of no index, and is the same in all trips, is asked ahead as well. The loop that is left for
the other case raises, or counts from the end, as before.

That a power of Python's is finite is asked ahead where the base is the same in all trips and the exponent an integer on
a straight line in the counter: |y log x| is below 700 at both ends, and so between them. Sums and products on that line
do not ask whether they overflow: all numbers in it are small. So `max(k - s * up ** (2 * i - n), 0)` makes vectors.

For loops without others inside, left at their head alone, with no call, of at most LARGE instructions, with such an
index that may be negative or is more than the counter and a literal, or with such a power and no float that trips hand
on. (Checks of those that cannot be negative, and are not, are limits of the count: limit_counts.py.) Where an array's
extent limits the trips, and these are of at most CHEAP instructions, the head says that the fast loop is `bounded`
(backend/cpu/strips.py). Stage compute; once in a pipeline, since the slow loop is one that could be versioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlvm_py.ir import (
    F64,
    I64,
    OPS,
    Block,
    Builder,
    Function,
    Instruction,
    Kind,
    PointerType,
    Target,
    TensorType,
    Value,
    is_scalar,
    literal,
)
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, counted_loop, is_outside
from dlvm_py.ir.analysis.effects import unchecked
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.value import integer
from dlvm_py.transforms.inline import clone_region
from dlvm_py.transforms.substitution import substitute

LARGE = 150
CHEAP = 32  # instructions of a trip of a loop that is not asked for signals before its end
_NEAR = 2**16  # of literals, and of the count, in exponents
_LOG_OF_LARGE = 700.0  # a float whose logarithm is this far from 0 is finite, and normal
_FLOAT, _INTEGER = TensorType((), F64), TensorType((), I64)
_COMPARISONS = frozenset(("equal", "notEqual", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual"))
_LARGEST = 2**62
_FAR = 2**31  # of the count and of what the counter is multiplied by: their product is below 2^62


def run(function: Function) -> bool:
    """Give the loops of `function` that have such indices a fast version; whether there were any."""
    changed = False
    for loop in LoopForest(function).loops:
        if loop.children or sum(len(b.instructions) for b in loop.ordered) > LARGE:
            continue
        counted = counted_loop(loop, predecessors(function))
        if counted is not None and _is_simple(loop, counted):
            ranges = _Ranges(loop, counted)
            if ranges.pay:
                _Versions(function, counted, ranges).make()
                changed = True
    return changed


def _is_simple(loop: Loop, counted: CountedLoop) -> bool:
    calls = any(i.op.kind in (Kind.CALL, Kind.HIGHER_ORDER) for b in loop.ordered for i in b.instructions)
    return not calls and loop.exiting_block is loop.header and counted.step == 1 and integer(counted.first) == 0


def second_version(function: Function, loop: Loop, mapping: dict[Value, Value]) -> tuple[Block, list[Block]]:
    """A copy of a loop that is left at its head alone, and a block, empty as yet, in which to choose.

    The block is where the loop was entered, with the same arguments; the first block of the copy is its header.
    Both versions go on in a block where what is used of them comes together. `mapping` receives the copied values.
    """
    join_behind(function, loop)
    fast = clone_region(loop.ordered, mapping, "fast_")
    gate = Block("gate")
    enter_by(function, loop, gate)
    at = function.blocks.index(loop.header)
    function.blocks[at:at] = fast
    return gate, fast


def entered_with(function: Function, gate: Block) -> list[Value]:
    """What versions of a loop begin with: what the one way to the gate passes to it, else the gate's arguments.

    Where it is a literal, both versions show it: who asks what the counter of an inner loop may be looks there. A pass
    whose fast version is no loop any more, or the whole gain, passes the gate's arguments instead: what is left of the
    loop then has no further versions, which would make code and no difference.
    """
    incoming = predecessors(function)[gate]
    if len(incoming) > 1:
        return list(gate.args)
    ((block, k),) = incoming
    return list(block.targets[k].args)


def enter_by(function: Function, loop: Loop, gate: Block) -> None:
    """Let a block stand where a loop was entered, with the arguments of its head."""
    header = loop.header
    for a in header.args:
        gate.add_arg(a.type, a.name)
    for block, k in predecessors(function)[header]:
        if not loop.contains(block):
            block.targets[k].block = gate
    function.blocks.insert(function.blocks.index(header), gate)


def join_behind(function: Function, loop: Loop) -> Block:
    """Behind the loop, a block for both versions; what is used there of the loop are its arguments."""
    ((_, k),) = loop.exit_edges()
    behind = loop.header.targets[k]
    inside = {v for b in loop.ordered for v in (*b.args, *b.instructions)}
    found: dict[Value, None] = {v: None for v in behind.args if v in inside}
    for value, users in uses(function).items():
        if value in inside and any(u.block not in loop.blocks for u in users):
            found[value] = None
    joined = Block("joined")
    args = {v: joined.add_arg(v.type, v.name) for v in found}
    outside = [b for b in function.blocks if b not in loop.blocks]
    substitute(outside, dict(args))
    Builder(function).at_end(joined).branch(behind.block, [args.get(v, v) for v in behind.args])
    loop.header.targets[k] = Target(joined, list(found))
    function.blocks.insert(function.blocks.index(loop.ordered[-1]) + 1, joined)
    return joined


def used_behind(function: Function, loop: Loop) -> list[Value]:
    """What of a loop that is left at its head is used behind it."""
    behind = [v for b in function.blocks if b not in loop.blocks for i in b.instructions for v in i.all_operands()]
    passed = [v for t in loop.header.targets if t.block not in loop.blocks for v in t.args]
    return [v for v in (*behind, *passed) if not is_outside(v, loop)]


def ends_in_header(function: Function, loop: Loop) -> bool:
    """Whether nothing of a loop that is left at its head is used behind it but what its header is entered with."""
    return all(v in loop.header.args for v in used_behind(function, loop))


def remove_copies(instructions: Iterable[Instruction], mapping: dict[Value, Value]) -> None:
    """Take the copies of checks out of a second version."""
    for i in instructions:
        copy = mapping[i]
        assert isinstance(copy, Instruction) and copy.block is not None
        copy.block.instructions.remove(copy)


def uncheck_copies(instructions: Iterable[Instruction], mapping: dict[Value, Value]) -> None:
    """Let the copies of sums and products in a second version not ask whether they overflow."""
    for i in instructions:
        copy = mapping[i]
        assert isinstance(copy, Instruction)
        copy.attrs = unchecked(copy)


def all_of(b: Builder, conditions: Sequence[Value]) -> Value:
    """Whether all of some conditions hold."""
    found, *others = conditions
    for condition in others:
        found = b.emit("and", found, condition)
    return found


class _Ranges:
    """What is asked of indices in each trip, and can be asked ahead.

    wrapped: the selects of indices that may be negative, with the indices. checks: those that hold in all trips if the
    indices are in range. natural: the indices that must not be negative. below: those with what they must be below.
    fixed: conditions that are the same in all trips. strides: what the counter is multiplied by. powers: bases and
    exponents of powers that are to be finite; exact: what is checked in exponents. pay: whether a limit of the count
    would not do (limit_counts.py). is_bounded: whether there are no more trips than elements of an array.
    """

    def __init__(self, loop: Loop, counted: CountedLoop) -> None:
        self.loop, self.counted = loop, counted
        instructions = [i for b in loop.ordered for i in b.instructions]
        self.wrapped = {i: i.operands[1] for i in instructions if self._is_wrap(i)}
        self.natural: dict[Value, None] = {}
        self.below: dict[tuple[Value, Value], None] = {}
        self.fixed: dict[Value, None] = {}
        self.strides: dict[Value, None] = {}
        self.powers: dict[tuple[Value, Value], None] = {}
        self.exact: dict[Instruction, None] = {}
        self.checks = [i for i in instructions if i.op is OPS["check"] and self._holds(i.operands[0])]
        pays = [x in self.wrapped.values() or not self._is_counter(x) for x in self.natural]
        # a sum in order makes no vectors, and a call of a power as many steps as its checks
        adds = any(is_scalar(a.type) and a.type.dtype.kind == "f" for a in loop.header.args)
        self.pay = bool(self.checks) and (any(pays) or bool(self.powers) and not adds)
        self.is_bounded = any(self._is_extent(n) and not self._strides_of(x) for x, n in self.below)
        for x in self.natural:
            self.strides.update(dict.fromkeys(self._strides_of(x)))

    def steps(self, value: Value) -> int | None:
        """1 of the counter, or a multiple, plus what the loop does not change; -1 where it is taken away.

        0 of what the loop does not change; None of all else.
        """
        if value is self.counted.counter or self._stride(value) is not None:
            return 1
        if is_outside(value, self.loop):
            return 0
        if not isinstance(value, Instruction) or value.op.name not in ("add", "subtract") or value.attrs.get("checked"):
            return None
        a, b = (self.steps(v) for v in value.operands)
        if a is None or b is None or (a and b):
            return None  # of two counters their coefficients may have any sign
        return a + b if value.op.name == "add" else a - b

    def _stride(self, value: Value) -> Value | None:
        """What the counter is multiplied by."""
        if not isinstance(value, Instruction) or value.op.name != "multiply" or value.attrs.get("checked"):
            return None
        a, b = value.operands
        by = b if a is self.counted.counter else a if b is self.counted.counter else None
        return by if by is not None and is_outside(by, self.loop) else None

    def _strides_of(self, value: Value) -> list[Value]:
        """What the counter is multiplied by in an index."""
        by = self._stride(value)
        if by is not None:
            return [by]
        if not isinstance(value, Instruction) or is_outside(value, self.loop):
            return []
        return [by for v in value.operands for by in self._strides_of(v)]

    def _is_extent(self, bound: Value) -> bool:
        """Whether a number is how many elements an array has in memory, where none is there more than once."""
        if not isinstance(bound, Instruction) or bound.op.name != "extent":
            return False
        t = bound.operands[0].type
        return isinstance(t, PointerType) and t.layout != "S"

    def _is_counter(self, x: Value) -> bool:
        """Whether an index is the counter, or a sum of it and a literal."""
        if x is self.counted.counter:
            return True
        return isinstance(x, Instruction) and x.op.name == "add" and any(integer(v) is not None for v in x.operands)

    def _is_wrap(self, i: Instruction) -> bool:
        """select (x + size), x by x < 0."""
        if i.op.name != "select":
            return False
        wrapped, x, condition = i.operands
        return (
            isinstance(condition, Instruction)
            and condition.op.name == "lessThan"
            and condition.operands[0] is x
            and integer(condition.operands[1]) == 0
            and isinstance(wrapped, Instruction)
            and wrapped.op.name == "add"
            and any(v is x for v in wrapped.operands)
            and self.steps(x) in (1, -1)
        )

    def _holds(self, condition: Value) -> bool:
        """Whether a condition is about such indices, or the same in all trips; what it asks is noted."""
        if is_outside(condition, self.loop):
            self.fixed[condition] = None
            return True
        if not isinstance(condition, Instruction):
            return False
        if condition.op.name == "and":
            return all([self._holds(v) for v in condition.operands])
        if condition.op.name == "or":
            return self._holds_one_of(condition.operands)
        if condition.op.name not in ("lessThan", "greaterThanOrEqual"):
            return False
        index, bound = condition.operands
        is_low = condition.op.name == "greaterThanOrEqual"
        index = self.wrapped.get(index, index)
        if index.type != bound.type or not (integer(bound) == 0 if is_low else is_outside(bound, self.loop)):
            return False
        if self.steps(index) not in (1, -1):
            return False
        self.natural[index] = None  # else it would be another place that is below
        if not is_low:
            self.below[index, bound] = None
        return True

    def _holds_one_of(self, conditions: Sequence[Value]) -> bool:
        """Whether one of two conditions is that a power is finite, or a comparison that is the same in all trips."""
        for c in conditions:
            if isinstance(c, Instruction) and c.op.name == "isFinite" and self._is_power(c.operands[0]):
                return True
        alike = [c for c in conditions if is_outside(c, self.loop) and isinstance(c, Instruction)]
        found = next((c for c in alike if c.op.name in _COMPARISONS), None)
        if found is not None:
            self.fixed[found] = None
        return found is not None

    def _is_power(self, value: Value) -> bool:
        """Whether a number is a power of a number from before the loop, its exponent a straight line in the counter."""
        if not isinstance(value, Instruction) or value.op.name != "power" or value.type != _FLOAT:
            return False
        base, exponent = value.operands
        if not is_outside(base, self.loop) or not isinstance(exponent, Instruction):
            return False
        if exponent.op.name != "dataTypeCast" or exponent.operands[0].type != _INTEGER:
            return False
        made: dict[Instruction, None] = {}
        if self._of_counter(exponent.operands[0], made) is None:
            return False
        self.exact.update({i: None for i in made if i.attrs.get("checked")})
        self.powers[base, exponent.operands[0]] = None
        return True

    def _of_counter(self, value: Value, made: dict[Instruction, None]) -> int | None:
        """How large a number may be that the counter makes by sums and multiples, if what is asked of its parts holds.

        None where it is no straight line, or might overflow. What the loop computes for it is noted.
        """
        number = integer(value)
        if number is not None and abs(number) <= _NEAR:
            return abs(number)
        if is_outside(value, self.loop):
            return _FAR
        if value is self.counted.counter:
            return _NEAR
        if not isinstance(value, Instruction) or value.op.name not in ("add", "subtract", "multiply"):
            return None
        made[value] = None
        a, b = (self._of_counter(v, made) for v in value.operands)
        if a is None or b is None:
            return None
        is_product = value.op.name == "multiply"
        if is_product and all(integer(v) is None for v in value.operands):
            return None
        size = a * b if is_product else a + b
        return size if size < _LARGEST else None

    def outer_parts(self, value: Value) -> list[Value]:
        """The numbers of an exponent that the loop does not change, small literals left out."""
        if is_outside(value, self.loop):
            number = integer(value)
            return [] if number is not None and abs(number) <= _NEAR else [value]
        return [part for v in value.operands for part in self.outer_parts(v)] if isinstance(value, Instruction) else []


class _Versions:
    """The making of the second version of one loop."""

    def __init__(self, function: Function, counted: CountedLoop, ranges: _Ranges) -> None:
        self.function, self.counted, self.ranges = function, counted, ranges
        self.loop = counted.loop

    def make(self) -> None:
        """The gate, the copy, and the block where both come together."""
        mapping: dict[Value, Value] = {}
        gate, fast = second_version(self.function, self.loop, mapping)
        remove_copies(self.ranges.checks, mapping)
        uncheck_copies(self.ranges.exact, mapping)
        # of what nothing is asked nothing is known: it may be negative
        known = {s: x for s, x in self.ranges.wrapped.items() if x in self.ranges.natural}
        substitute(fast, {mapping[s]: mapping.get(x, x) for s, x in known.items()})
        b = Builder(self.function).at_end(gate)
        b.loc = self.loop.header.instructions[-1].loc
        condition = self._ahead(b)
        if self.ranges.is_bounded and sum(len(b.instructions) for b in fast) <= CHEAP:
            fast[0].instructions[-1].attrs["bounded"] = True
        passed = entered_with(self.function, gate)
        b.conditional(condition, fast[0], passed, self.loop.header, list(passed)).attrs["likely"] = True

    def _ahead(self, b: Builder) -> Value:
        """Whether the first and the last of all indices are in range."""
        zero, last = literal(0), b.emit("subtract", self.counted.last, literal(1))
        parts: list[Value] = list(self.ranges.fixed)
        for by in self.ranges.strides:
            parts += [b.emit("lessThanOrEqual", zero, by), b.emit("lessThan", by, literal(_FAR))]
        if self.ranges.strides:
            parts.append(b.emit("lessThan", last, literal(_FAR)))
        for x in self.ranges.natural:
            ends = self._at(b, x, zero), self._at(b, x, last)
            parts += [b.emit("lessThanOrEqual", zero, v) for v in ends]
            most = ends[1 if self.ranges.steps(x) == 1 else 0]
            parts += [b.emit("lessThan", most, bound) for y, bound in self.ranges.below if y is x]
        if self.ranges.powers:
            parts += self._powers(b, last)
        return all_of(b, parts)

    def _powers(self, b: Builder, last: Value) -> list[Value]:
        """Whether powers are finite, and not 0, as their first and last exponents say."""
        outer = [v for _, y in self.ranges.powers for v in self.ranges.outer_parts(y)]
        parts = [b.emit("lessThan", last, literal(_NEAR))]
        for v in dict.fromkeys(outer):
            parts += [b.emit("lessThan", literal(-_FAR), v), b.emit("lessThan", v, literal(_FAR))]
        for base, y in self.ranges.powers:
            size = b.emit("abs", b.emit("log", base))  # NaN or infinite of what is no positive finite number
            for end in (literal(0), last):
                exponent = b.emit("abs", b.emit("dataTypeCast", self._at(b, y, end), to=F64.name))
                parts.append(b.emit("lessThan", b.emit("multiply", exponent, size), literal(_LOG_OF_LARGE)))
        return parts

    def _at(self, b: Builder, x: Value, counter: Value) -> Value:
        """x in the trip of that number."""
        if x is self.counted.counter:
            return counter
        if is_outside(x, self.loop):
            return x
        assert isinstance(x, Instruction)
        return b.emit(x.op.name, *(self._at(b, v, counter) for v in x.operands))
