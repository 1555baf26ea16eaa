"""Quiet loops: where a few numbers from before a loop are not large, or as its checks ask, no trip asks for anything.

    'loop(%k: i64, %count: i64):                       'gate():  %small = -2^30 <= %a and %a <= 2^30 and ...
        %more = lessThan %k, %n                            conditional %small then 'fast(0, 0) else 'loop(0, 0)
        conditional %more then 'body() else 'exit()    'fast(%k: i64, %count: i64):
    'body():                                               %more = lessThan %k, %n
        check %inside else OverflowError "..." ()          conditional %more then 'fast_body else 'joined
        %b = add %a, %k                                'fast_body():
        %p = multiply %b, %b checked             =>        %b = add %a, %k
        %c = add %p, %q checked                            %p = multiply %b, %b
        ...                                                %c = add %p, %q
        %one = add %count, 1 checked                       ...
        branch 'loop(%next, %sum)                      'loop(%k: i64, %count: i64):   as it was, to 'joined

Python's integers ask in each trip whether they overflow. Of sides of triangles, of coordinates and of numbers that
remainders keep small, intervals say for all trips that they do not (ranges.py), once the numbers that the loop takes
from before it are known to lie within 2^30. What the loop hands on from trip to trip is bounded by induction: by what
it lies in at first, if the trip leaves it there; the counter by the number at which it ends; a sum by what a trip adds
at most, as a loop makes no more than 2^31 trips then. A check that asks the same in all trips, but behind a branch, so
that it cannot be asked before the loop (hoist_checks.py), is asked at the gate, too. If intervals need to know nothing,
there is no gate, and the loop is changed as it stands: `code |= 128` stays below 256.

While a loop asks LLVM makes no vectors of it, and no choices of its branches. So this is for innermost loops which are
left at their head alone, of which the version asks for nothing at all any more, and which count, and hand on no float,
or ask behind a branch; not what is left of another version. Stage scheduled, behind all else that removes checks, and
what looks at nests of two loops (skew_loops.py); once in a pipeline, since the slow loop could be versioned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from dlvm_py.frozen import Frozen
from dlvm_py.ir import (
    F64,
    I64,
    OPS,
    Block,
    BlockArg,
    Builder,
    Function,
    Instruction,
    Kind,
    Target,
    TensorType,
    Value,
    literal,
)
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountingHead, Edges, counting_head, is_outside, steps
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.types import is_array, is_scalar
from dlvm_py.ir.value import integer
from dlvm_py.transforms.limit_counts import bound_of, end_of
from dlvm_py.transforms.loop_versions import (
    LARGE,
    all_of,
    entered_with,
    remove_copies,
    second_version,
    uncheck_copies,
)
from dlvm_py.transforms.ranges import Range, decided, fits, float_range, integer_range, ranges_in
from dlvm_py.transforms.share_loops import mark_of

_INTEGER, _FLOAT = TensorType((), I64), TensorType((), F64)
# within what numbers lie, and that at which a counter ends: the first of these with which all is proven
_FARS = 2**30, 2**20
_MOST = 2**29  # of what a trip adds to a sum
_FIRST = 2**62  # of what a sum begins with
_LEVELS = 2  # of what an argument of the header is tried to lie within: not negative, or of either sign
_DIVISIONS = frozenset(("modulo", "floorDivide"))


def run(function: Function) -> bool:
    """Give the loops of `function` that need ask for nothing a version that does not; whether there were any."""
    changed = False
    for loop in LoopForest(function).loops:
        if loop.children or not _is_simple(loop) or _is_rare(function, loop):
            continue
        asking = [i for b in loop.ordered for i in b.instructions if _asks(i)]
        if not asking:
            continue
        for found in (_Intervals(function, loop, asking, far) for far in (None, *_FARS)):
            gate = found.gate()
            if gate is not None and (not gate.is_needed or found.pays()):
                _make_quiet(function, loop, asking, gate)
                changed = True
                break
    return changed


def _asks(i: Instruction) -> bool:
    return i.op is OPS["check"] or bool(i.attrs.get("checked"))


def _is_simple(loop: Loop) -> bool:
    """Whether a loop of scalars is short, left at its head alone, which asks for nothing, and writes by stores."""
    if loop.exiting_block is not loop.header or any(map(_asks, loop.header.instructions)):
        return False
    instructions = [i for b in loop.ordered for i in b.instructions]
    if len(instructions) > LARGE or any(i.op.kind in (Kind.CALL, Kind.HIGHER_ORDER) for i in instructions):
        return False
    if any(is_array(v.type) for i in instructions for v in (i, *i.operands)):
        return False
    return all(i.op.is_terminator or is_pure(i) or _asks(i) or i.op.name in ("load", "store") for i in instructions)


def _is_rare(function: Function, loop: Loop | None) -> bool:
    """Whether a loop, or one around it, is what another version is left for."""
    edges = predecessors(function)
    while loop is not None:
        entering = [(block, k) for block, k in edges[loop.header] if not loop.contains(block)]
        if any(k and block.instructions[-1].attrs.get("likely") for block, k in entering):
            return True
        loop = loop.parent
    return False


class _Gate(Frozen, eq=False):
    """What is asked ahead: that conditions hold, and that numbers lie within bounds."""

    conditions: list[Value]
    limits: dict[tuple[Value, int], None]  # sizes that the counter stays below, with so much added to it
    numbers: dict[Value, Any]  # with their bounds, from before the loop
    firsts: dict[BlockArg, Range]  # with which arguments of the header begin

    @property
    def is_needed(self) -> bool:
        """Whether anything is to be asked."""
        return bool(self.conditions or self.limits or self.numbers or self.firsts)


class _Intervals:
    """Bounds of the integers of a loop, if numbers from before it lie within `far`; None: if nothing is asked."""

    def __init__(self, function: Function, loop: Loop, asking: list[Instruction], far: int | None) -> None:
        self.function, self.loop, self.asking, self.asks = function, loop, asking, far is not None
        self.far = far or _FARS[0]
        self.edges: Edges = predecessors(function)
        self.head = _upward(loop)
        self.divisors = {i.operands[1] for b in loop.ordered for i in b.instructions if i.op.name in _DIVISIONS}
        self.numbers = self._numbers_before()
        self.levels = {a: 0 for a in loop.header.args if a.type == _INTEGER}
        self.ranges = self._settled()

    def gate(self) -> _Gate | None:
        """What is to be asked so that no trip need ask for anything; None where that is not to be had."""
        conditions: dict[Value, None] = {}
        limits: dict[tuple[Value, int], None] = {}
        proven: list[Value] = []
        for i in self.asking:
            if i.op is OPS["check"]:
                if not self._holds(i.operands[0], conditions, proven) and not self._limits(i, limits):
                    return None
            elif not fits(i, self.ranges):
                return None
            else:
                proven.append(i)
        numbers, firsts = self._needed(proven)
        return _Gate(list(conditions), limits, numbers, firsts)

    def pays(self) -> bool:
        """Whether LLVM may make vectors of the loop, or choices of its branches."""
        floats = any(not is_scalar(a.type) or a.type.dtype.kind in "fc" for a in self.loop.header.args)
        if self.head is not None and not floats:
            return True
        tree, (latch, *others) = DominatorTree(self.function), self.loop.latches
        return bool(others) or any(not tree.dominates(i.block, latch) for i in self.asking)  # type: ignore[arg-type]

    # -- what is known -------------------------------------------------------------------------------------

    def _numbers_before(self) -> dict[Value, Any]:
        """Bounds of what the loop takes from before it; of floats, too, of which any comparison says no to NaN."""
        found: dict[Value, Any] = {}
        for b in self.loop.ordered:
            for v in (v for i in b.instructions for v in (*i.operands, *(a for t in i.targets for a in t.args))):
                if v.type == _INTEGER and is_outside(v, self.loop) and integer(v) is None:
                    low, high = integer_range(v)
                    if self.asks:
                        least = 1 if v in self.divisors else -self.far
                        low, high = max(low, least), max(min(high, self.far), low)
                    found[v] = (low, high)
                elif self.asks and v.type == _FLOAT and is_outside(v, self.loop) and float_range(v) is None:
                    found[v] = (-float(self.far), float(self.far))
        return found

    def _level(self, a: BlockArg) -> Range | None:
        """The bounds of an argument of the header that are tried; None where all have been."""
        level = self.levels[a]
        if level < _LEVELS:
            return (-self.far if level else 0), self.far
        if level == _LEVELS and self._is_sum(a):
            return -_FIRST - _FIRST // 2, _FIRST + _FIRST // 2
        return None

    def _is_sum(self, a: BlockArg) -> bool:
        """Whether an argument is what it was, with small numbers added, in a loop with an end."""
        if not self._ends_near() or self.levels[self.head.counter] >= _LEVELS:  # type: ignore[union-attr]
            return False
        return all(_growth(v, a, self.loop, self.edges, self.ranges) <= _MOST for v in self._passed_back(a))

    def _ends_near(self) -> bool:
        """Whether the loop counts to a number that is not far."""
        return self.head is not None and _range_of(self.head.last, self.numbers)[1] <= self.far

    def _settled(self) -> dict[Value, Any]:
        """The bounds of all integers, of which those that are handed on stay as they are."""
        self.ranges: dict[Value, Any] = {}
        while True:
            known = dict(self.numbers)
            for a in self.levels:
                level = self._level(a)
                if level is not None and self._may_begin(a, level):
                    known[a] = level
            if self.head is not None and self.head.counter in known:
                # what the header computes of the last trip's number is asked for nothing
                low, high = known[self.head.counter]
                known[self.head.counter] = low, max(low, min(high, _range_of(self.head.last, self.numbers)[1] - 1))
            self.ranges = ranges_in(self.loop, self.edges, known)
            left = [a for a in self.levels if a in known and not self._stays(a, known[a])]
            for a in left:
                self.levels[a] += 1
            tried = [a for a in self.levels if a not in known and self.levels[a] <= _LEVELS]
            for a in tried:
                self.levels[a] += 1
            if not left and not tried:
                return self.ranges

    def _stays(self, a: BlockArg, within: Range) -> bool:
        """Whether what a trip hands on lies within the bounds of an argument of the header."""
        if self.head is not None and a is self.head.counter:
            return True  # below its end, as the head asks
        if self.levels[a] == _LEVELS:
            return True  # a sum
        passed = [_range_of(v, self.ranges) for v in self._passed_back(a)]
        return all(within[0] <= low and high <= within[1] for low, high in passed)

    def _passed_back(self, a: BlockArg) -> list[Value]:
        at = self.loop.header.args.index(a)
        return [t.args[at] for b in self.loop.latches for t in b.targets if t.block is self.loop.header]

    def _firsts(self, a: BlockArg) -> list[Value]:
        at, header = self.loop.header.args.index(a), self.loop.header
        return [b.targets[k].args[at] for b, k in self.edges[header] if not self.loop.contains(b)]

    def _may_begin(self, a: BlockArg, within: Range) -> bool:
        """Whether an argument may be asked to begin within bounds; where nothing is asked, whether it does."""
        found = [integer_range(v) for v in self._firsts(a)]
        if self.head is not None and a is self.head.counter and not self._ends_near():
            return False
        if self.asks:
            return all(low <= within[1] and within[0] <= high for low, high in found)
        return all(within[0] <= low and high <= within[1] for low, high in found)

    # -- what is asked ---------------------------------------------------------------------------------------

    def _holds(self, condition: Value, conditions: dict[Value, None], proven: list[Value]) -> bool:
        """Whether a condition holds in all trips, if it does before the loop, or as intervals say."""
        if decided(condition, self.ranges):
            proven.append(condition)
            return True
        if is_outside(condition, self.loop):
            conditions[condition] = None
            return self.asks
        is_joined = isinstance(condition, Instruction) and condition.op.name == "and"
        return is_joined and all([self._holds(v, conditions, proven) for v in condition.operands])  # type: ignore[attr-defined]

    def _limits(self, check: Instruction, limits: dict[tuple[Value, int], None]) -> bool:
        """Whether a check asks for a counter that is below a size; which is noted."""
        found = bound_of(check, self.loop, self.head.counter) if self.head is not None else None
        if found is not None:
            limits[found] = None
        return found is not None and self.asks

    def _needed(self, proven: list[Value]) -> tuple[dict[Value, Any], dict[BlockArg, Range]]:
        """The numbers that proofs rest on, and what the header's arguments must begin with, if that is not known."""
        numbers: dict[Value, Any] = {}
        firsts: dict[BlockArg, Range] = {}
        met: set[Value] = set()
        work = list(proven)
        while work:
            v = work.pop()
            if v in met:
                continue
            met.add(v)
            if is_outside(v, self.loop):
                within = self.numbers.get(v)
                if within is not None and (v.type == _FLOAT or not _lies(integer_range(v), within)):
                    numbers[v] = within
                continue
            work += self._sources(v)
            if isinstance(v, BlockArg) and v.block is self.loop.header and v in self.levels:
                level = self._level(v)
                if level is None:
                    continue
                if self.levels[v] == _LEVELS:
                    level = -_FIRST, _FIRST
                if not all(_lies(integer_range(f), level) for f in self._firsts(v)):
                    firsts[v] = level
                if self.head is not None and (v is self.head.counter or self.levels[v] == _LEVELS):
                    work += [self.head.counter, self.head.last]
        return numbers, firsts

    def _sources(self, v: Value) -> Iterator[Value]:
        """What makes a value in a trip, and the trip before."""
        if isinstance(v, Instruction):
            yield from v.operands
        elif isinstance(v, BlockArg):
            at = v.block.args.index(v)
            yield from (b.targets[k].args[at] for b, k in self.edges[v.block] if self.loop.contains(b))


def _lies(found: Range, within: Range) -> bool:
    return within[0] <= found[0] and found[1] <= within[1]


def _range_of(v: Value, known: dict[Value, Any]) -> Range:
    return known[v] if v in known else integer_range(v)


def _upward(loop: Loop) -> CountingHead | None:
    """How a loop counts, if it does so upwards."""
    head = counting_head(loop)
    if head is None or head.is_down or not all((by or 0) > 0 for by in steps(loop, head.counter)):
        return None
    return head


def _growth(v: Value, a: BlockArg, loop: Loop, edges: Edges, ranges: dict[Value, Any], depth: int = 16) -> int:
    """How far a value that a trip makes of an argument of the header is from it at most; more than that if unknown."""
    unknown = 2**64
    if v is a:
        return 0
    if not depth or is_outside(v, loop):
        return unknown

    def of(other: Value) -> int:
        return _growth(other, a, loop, edges, ranges, depth - 1)

    def size(other: Value) -> int:
        low, high = _range_of(other, ranges)
        return max(abs(low), abs(high))

    if isinstance(v, BlockArg):
        if v.block is loop.header:
            return unknown
        at = v.block.args.index(v)
        return max(of(b.targets[k].args[at]) for b, k in edges[v.block])
    assert isinstance(v, Instruction)
    match v.op.name:
        case "add":
            x, y = v.operands
            return min(of(x) + size(y), of(y) + size(x))
        case "subtract":
            return of(v.operands[0]) + size(v.operands[1])
        case "select":
            return max(of(v.operands[0]), of(v.operands[1]))
    return unknown


def _make_quiet(function: Function, loop: Loop, asking: list[Instruction], gate: _Gate) -> None:
    """Let the loop, or a version of it behind a gate, ask for nothing."""
    checks = [i for i in asking if i.op is OPS["check"]]
    sums = [i for i in asking if i.op is not OPS["check"]]
    if not gate.is_needed:
        same: dict[Value, Value] = {i: i for i in asking}
        remove_copies(checks, same)
        uncheck_copies(sums, same)
        return
    header = loop.header
    mapping: dict[Value, Value] = {}
    entering = [b for b, _ in predecessors(function)[header] if not loop.contains(b)]
    marks = [mark for b in entering if (mark := mark_of(b)) is not None]
    block, fast = second_version(function, loop, mapping)
    remove_copies(checks, mapping)
    uncheck_copies(sums, mapping)
    passed = entered_with(function, block)
    b = Builder(function).at_end(block)
    b.loc = header.instructions[-1].loc
    within = dict(gate.numbers)
    for a, bounds in gate.firsts.items():
        first = passed[header.args.index(a)]
        low, high = within.get(first, bounds)
        within[first] = max(low, bounds[0]), min(high, bounds[1])
    head = counting_head(loop)
    limits = [b.emit("lessThanOrEqual", head.last, end_of(b, found)) for found in gate.limits] if head else []
    parts = [*gate.conditions, *limits, *(part for v, bounds in within.items() for part in _lie(b, v, bounds))]
    choice = b.conditional(all_of(b, parts), fast[0], passed, header, list(passed))
    choice.attrs["likely"] = True
    for mark in marks:
        _share_both(function, mark, choice)


def _share_both(function: Function, mark: Instruction, choice: Instruction) -> None:
    """Let threads share both versions of a loop that they share: the mark stands right before it."""
    assert mark.block is not None
    mark.block.instructions.remove(mark)
    for k, target in enumerate(choice.targets):
        block = Block("shared")
        function.blocks.insert(function.blocks.index(target.block), block)
        b = Builder(function).at_end(block)
        b.clone(mark, {})
        b.branch(target.block, target.args)
        choice.targets[k] = Target(block, [])


def _lie(b: Builder, v: Value, within: Range) -> list[Value]:
    """Whether a number lies within bounds, as far as it is not known to."""
    low, high = (-math.inf, math.inf) if v.type == _FLOAT else integer_range(v)
    found: list[Value] = []
    if low < within[0]:
        found.append(b.emit("lessThanOrEqual", literal(within[0]), v))
    if within[1] < high:
        found.append(b.emit("lessThanOrEqual", v, literal(within[1])))
    return found
