"""Which integers are never above which others, at a place in a function: proofs on demand.

    'head(%j: i64):                       at the start of 'body:  0 <= %j       since the branch asked for it
        %c = greaterThanOrEqual %j, 0                             %j <= %n - 1  since %j begins at %k, a counter
        conditional %c then 'body else 'exit                                    below %n, and only falls

`holds(x, y, c, at)` asks for x <= y + c. It goes up from x, or from y, through the instructions that make them
(Bodik, Gupta and Sarkar, ABCD: eliminating array bounds checks on demand, 2000), through what branches and checks
have asked on the way to that place, and through arguments of blocks: these are bounded if all that is passed to them
is, where the bound of the argument itself may be assumed, since it held the last time that the block was entered.
Sums that could leave their dtype are no sums. No answer takes more than so many steps; False means not proven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.types import BOOL, I64, TensorType
from dlvm_py.ir.value import BlockArg, Instruction, Literal, Value, integer

EXTENT_MAX = 2**47  # no array is longer: addresses have 47 bits
_INTEGER = TensorType((), I64)
_LEAST, _LARGEST = -(2**63), 2**63 - 1
_DEPTH = 24  # of a proof
_STEPS = 400  # of an answer
_ALL_STEPS = 20_000  # of all answers about a function
_ORDERS = {  # comparison: (first operand <= second + d, or the other way round) where it holds, and where it does not
    "lessThan": ((0, 1, -1), (1, 0, 0)),
    "lessThanOrEqual": ((0, 1, 0), (1, 0, -1)),
    "greaterThan": ((1, 0, -1), (0, 1, 0)),
    "greaterThanOrEqual": ((1, 0, 0), (0, 1, -1)),
}


class Place(NamedTuple):
    """Where something is asked: in a block before its k-th instruction; or, with an edge, when leaving it there."""

    block: Block
    k: int
    edge: int = -1


class _Known:
    """Inequalities of which each side may be looked up: x <= y + d, and x != y + d; a literal is None and in d.

    What is said of v + 1 is said of v as well, if the sum is one: that is the third part of an entry; and what is said
    of p - q is said of p and q.
    """

    def __init__(self) -> None:
        self.above: dict[Value, list[tuple[Value | None, int, Instruction | None]]] = {}  # of x: y and d
        self.below: dict[Value, list[tuple[Value | None, int, Instruction | None]]] = {}  # of y: x and d
        self.apart: set[tuple[Value | None, Value | None, int]] = set()

    def add(self, x: Value, y: Value, d: int) -> None:
        """State that x <= y + d."""
        (a, m), (b, n) = _split(x), _split(y)
        d += n - m
        for v, by, via in _bases(a):
            self.above.setdefault(v, []).append((b, d - by, via))
        for v, by, via in _bases(b):
            self.below.setdefault(v, []).append((a, d + by, via))
        for v, other, by, via in _differences(a, b, d):
            self.above.setdefault(v, []).append((other, by, via))
            self.below.setdefault(other, []).append((v, by, via))

    def add_apart(self, x: Value, y: Value) -> None:
        """State that x and y differ."""
        (a, m), (b, n) = _split(x), _split(y)
        self.apart.update(((a, b, n - m), (b, a, m - n)))

    def mentions(self, v: Value) -> bool:
        """Whether it can say anything of a value."""
        return v in self.above or v in self.below or any(a is v for a, _, _ in self.apart)


def _split(v: Value) -> tuple[Value | None, int]:
    n = integer(v)
    return (v, 0) if n is None else (None, n)


def _bases(v: Value | None) -> Iterator[tuple[Value, int, Instruction | None]]:
    """A value; and that to which it adds a literal, with the literal."""
    if v is None:
        return
    yield v, 0, None
    if isinstance(v, Instruction) and v.op.name in ("add", "subtract"):
        n = integer(v.operands[1])
        if n is not None:
            yield v.operands[0], n if v.op.name == "add" else -n, v


def _differences(a: Value | None, b: Value | None, d: int) -> Iterator[tuple[Value, Value, int, Instruction]]:
    """p <= q + by, if the difference is one, where a literal bounds p - q from above, or q - p from below."""
    for v, other, is_above in ((a, b, True), (b, a, False)):
        if other is None and isinstance(v, Instruction) and v.op.name == "subtract" and integer(v.operands[1]) is None:
            p, q = v.operands if is_above else reversed(v.operands)
            if integer(p) is None:
                yield p, q, d, v


class Bounds:
    """Proofs about the i64 values of a function, as it is now."""

    def __init__(self, function: Function) -> None:
        self.edges = predecessors(function)
        self.tree = DominatorTree(function)
        self._entered: dict[Block, list[_Known]] = {}
        self._asked: dict[Block, list[tuple[int, _Known]]] = {}
        self._left: dict[tuple[Block, int], list[_Known]] = {}
        self._known: dict[Place, list[_Known]] = {}
        self._mentioned: dict[tuple[Value, Place], list[_Known]] = {}
        # what is assumed of arguments of blocks, and what is being proven, each with its distance
        self._assumed: dict[tuple[Value | None, Value | None], int] = {}
        self._always: dict[tuple[Value | None, Value | None], int] = {}
        self._open: set[tuple[Value | None, Value | None, int]] = set()
        self._proven: dict[tuple[Value | None, Value | None, Place], int] = {}
        self._failed: dict[tuple[Value | None, Value | None, Place], int] = {}
        self._supposed: list[_Known] = []  # on one side of a select
        self._steps, self._left_steps = 0, _ALL_STEPS

    # -- questions ---------------------------------------------------------------------------------------

    def holds(self, x: Value | None, y: Value | None, c: int, at: Place) -> bool:
        """Whether x <= y + c is sure at a place that both dominate; None is 0."""
        key = (x, y, at)
        if key in self._proven and self._proven[key] <= c:
            return True
        if key in self._failed and self._failed[key] >= c:
            return False
        self._steps = _STEPS
        answer = self._left_steps > 0 and self._holds(x, y, c, at, _DEPTH)
        (self._proven if answer else self._failed)[key] = c
        return answer

    def compares(self, name: str, operands: Sequence[Value], at: Place) -> bool | None:
        """What the comparison of this name of two values is sure to be at a place, None if it may be both."""
        if name in ("equal", "notEqual") and operands[0].type == _INTEGER:
            a, b = operands
            if self.holds(a, b, -1, at) or self.holds(b, a, -1, at):
                return name == "notEqual"
        if name not in _ORDERS or operands[0].type != _INTEGER:
            return None
        for answer, (small, large, d) in zip((True, False), _ORDERS[name], strict=True):
            if self.holds(operands[small], operands[large], d, at):
                return answer
        return None

    def is_exact(self, i: Instruction, at: Place) -> bool:
        """Whether the exact result of an addition, subtraction or multiplication of i64 is one at a place."""
        self._steps = _STEPS
        return self._left_steps > 0 and self._is_exact(i, at, _DEPTH)

    # -- proofs ------------------------------------------------------------------------------------------

    def _holds(self, x: Value | None, y: Value | None, c: int, at: Place, depth: int) -> bool:
        if x is not None and (n := integer(x)) is not None:
            x, c = None, c - n
        if y is not None and (n := integer(y)) is not None:
            y, c = None, c + n
        if x is y:
            return c >= 0
        if _most(x) - _least(y) <= c:
            return True
        assumed = self._assumed.get((x, y))
        if assumed is not None and assumed <= c:
            return True
        self._steps -= 1
        self._left_steps -= 1
        key = (x, y, c)
        if not depth or self._steps < 0 or key in self._open:
            return False
        self._open.add(key)
        answer = (
            self._by_facts(x, y, c, at, depth - 1)
            or (x is not None and self._from_above(x, y, c, at, depth - 1))
            or (y is not None and self._from_below(x, y, c, at, depth - 1))
        )
        self._open.discard(key)
        return answer

    def _by_facts(self, x: Value | None, y: Value | None, c: int, at: Place, depth: int) -> bool:
        """By what has been asked on the way."""
        for known in self._known_of(x or y, at):
            # x <= y + c + 1, but for x == y + c + 1
            if (x, y, c + 1) in known.apart and self._holds(x, y, c + 1, at, depth):
                return True
            if x is None:
                for other, d, via in known.below.get(y, ()):  # type: ignore[arg-type]
                    if (via is None or self._fits(via, at, depth)) and self._holds(None, other, c - d, at, depth):
                        return True
                continue
            for other, d, via in known.above.get(x, ()):
                if via is not None and not self._fits(via, at, depth):
                    continue
                if self._holds(other, y, c - d, at, depth):
                    return True
                part = _clamped(other)
                if part is not None and self._holds(None, x, -(part[1] + d + 1), at, depth):
                    # x <= max(s, m) + d, and more than m + d
                    if self._holds(part[0], y, c - d, at, depth):
                        return True
        return False

    def _from_above(self, x: Value, y: Value | None, c: int, at: Place, depth: int) -> bool:
        """x <= y + c by what makes x."""
        if isinstance(x, BlockArg):
            return self._of_argument(x, x, y, c, depth) or (y is None and self._as_counter(x, c, at, depth))
        if not isinstance(x, Instruction) or not x.operands or x.type != _INTEGER:
            return False

        def below(v: Value | None, c: int, other: Value | None = y) -> bool:
            return self._holds(v, other, c, at, depth)

        def least(v: Value, n: int) -> bool:
            return self._holds(None, v, -n, at, depth)

        name, a, b = x.op.name, x.operands[0], x.operands[-1]
        n = integer(b)
        match name:
            case "dataTypeCast" if a.type == _INTEGER:
                return below(a, c)
            case "min":
                return below(a, c) or below(b, c)
            case "max":
                return below(a, c) and below(b, c)
            case "select":
                return self._on_both_sides(x, lambda v: below(v, c))
            case "bitAnd":
                return (least(a, 0) and below(a, c)) or (least(b, 0) and below(b, c))
            case "add" if n is not None:
                return below(a, c - n) and self._fits(x, at, depth)
            case "add":
                ends = ((p, self._end(q, at, 1, depth)) for p, q in ((a, b), (b, a)))
                less = any(m is not None and below(p, c - m) for p, m in ends)
                return (less or self._with_difference(a, b, y, c, at, depth)) and self._fits(x, at, depth)
            case "subtract" if n is not None:
                return below(a, c + n) and self._fits(x, at, depth)
            case "subtract":
                less = y is None and below(a, c, b)
                less = less or any(below(a, c + m) and least(b, m) for m in (0, 1))
                return less and self._fits(x, at, depth)
            case "multiply" if n is not None and n > 0 and y is None:
                return below(a, c // n) and self._fits(x, at, depth)
            case "modulo":
                if n is None and not least(b, 1):
                    return False
                return (n is None or n > 0) and (below(b, c + 1) or (least(a, 0) and below(a, c)))
            case "floorDivide" | "shiftRight" if n is not None:
                return self._of_quotient(a, _divisor(name, n), y, c, at, depth)
        return False

    def _from_below(self, x: Value | None, y: Value, c: int, at: Place, depth: int) -> bool:
        """x <= y + c by what makes y."""
        if isinstance(y, BlockArg):
            return self._of_argument(y, x, y, c, depth)
        if not isinstance(y, Instruction) or not y.operands or y.type != _INTEGER:
            return False

        def above(v: Value, c: int) -> bool:
            return self._holds(x, v, c, at, depth)

        name, a, b = y.op.name, y.operands[0], y.operands[-1]
        n = integer(b)
        match name:
            case "dataTypeCast" if a.type == _INTEGER:
                return above(a, c)
            case "max":
                return above(a, c) or above(b, c)
            case "min":
                return above(a, c) and above(b, c)
            case "select":
                return self._on_both_sides(y, lambda v: above(v, c))
            case "bitAnd":
                return x is None and c >= 0 and (above(a, 0) or above(b, 0))
            case "add" if n is not None:
                return above(a, c + n) and self._fits(y, at, depth)
            case "add":
                ends = ((p, self._end(q, at, -1, depth)) for p, q in ((a, b), (b, a)))
                more = any(m is not None and above(p, c + m) for p, m in ends)
                more = more or any(above(p, c) and self._holds(None, q, 0, at, depth) for p, q in ((a, b), (b, a)))
                return more and self._fits(y, at, depth)
            case "subtract" if n is not None:
                return above(a, c - n) and self._fits(y, at, depth)
            case "subtract":
                return x is None and self._holds(b, a, c, at, depth) and self._fits(y, at, depth)
            case "multiply":
                natural = x is None and c >= 0 and above(a, 0) and above(b, 0)
                return natural and self._fits(y, at, depth)
            case "modulo":
                return x is None and c >= 0 and self._holds(None, b, -1, at, depth)
            case "floorDivide" | "shiftRight" if n is not None:
                by = _divisor(name, n)
                if by == 2 and isinstance(a, Instruction) and a.op.name == "add" and self._fits(a, at, depth):
                    return all(above(v, c) for v in a.operands)
                return by > 0 and x is None and above(a, c * by)
        return False

    def _end(self, v: Value, at: Place, sign: int, depth: int) -> int | None:
        """A literal that a value is never above (sign 1), or below (-1), as a comparison or its first number says."""
        by, base = 0, v
        while isinstance(base, Instruction) and base.op.name in ("add", "subtract"):
            n = integer(base.operands[1])
            if n is None:
                return None
            by += n if base.op.name == "add" else -n
            base = base.operands[0]
        if sign == 1:
            said = (k.above.get(base, ()) for k in self._known_at(at))
            numbers = [by + d for found in said for other, d, via in found if other is None and via is None]
            if not numbers and (most := _itself_at_most(base)) is not None:
                numbers = [by + most]
        else:
            said = (k.below.get(base, ()) for k in self._known_at(at))
            numbers = [by - d for found in said for other, d, via in found if other is None and via is None]
            if not numbers and isinstance(base, BlockArg):
                k = base.block.args.index(base)
                given = [integer(s.targets[t].args[k]) for s, t in self.edges[base.block] if s.targets[t].args]
                numbers = [by + n for n in given if n is not None]
        if not numbers:
            return None
        end = min(numbers) if sign == 1 else max(numbers)
        proven = self._holds(v, None, end, at, depth) if sign == 1 else self._holds(None, v, -end, at, depth)
        return end if proven else None

    def _of_quotient(self, a: Value, by: int, y: Value | None, c: int, at: Place, depth: int) -> bool:
        """a // by <= y + c."""
        if by <= 0:
            return False
        if y is None:
            return self._holds(a, None, c * by + by - 1, at, depth)
        if by == 2 and isinstance(a, Instruction) and a.op.name == "add" and self._fits(a, at, depth):
            # the middle: p + q <= 2 y + 2 c + 1
            p, q = a.operands
            for m, n in ((c, c + 1), (c + 1, c)):
                if self._holds(p, y, m, at, depth) and self._holds(q, y, n, at, depth):
                    return True
        return self._holds(None, a, 0, at, depth) and self._holds(a, y, c, at, depth)

    def _of_argument(self, argument: BlockArg, x: Value | None, y: Value | None, c: int, depth: int) -> bool:
        """x <= y + c, of which one is this argument of a block, since that holds of all that is passed to it."""
        block = argument.block
        other = y if x is argument else x
        both = isinstance(other, BlockArg) and other.block is block
        if argument.type != _INTEGER or not self.edges[block] or not (both or self._is_before(other, block)):
            return False
        if (x, y) in self._always and self._always[x, y] <= c:
            return True
        if (x, y) in self._assumed:
            return False  # it would take a bound that falls from trip to trip
        at = block.args.index(argument)
        self._assumed[x, y] = c
        supposed, self._supposed = self._supposed, []
        # what is being proven may be asked again: the assumption is new
        being_proven, self._open = self._open, set()
        for source, k in self.edges[block]:
            given = source.targets[k].args[at] if at < len(source.targets[k].args) else None
            place = Place(source, len(source.instructions), k)
            if given is None or source not in self.tree.idom:
                answer = given is not None
            else:
                beside = source.targets[k].args[block.args.index(other)] if both else other  # type: ignore[arg-type]
                small, large = (given, beside) if x is argument else (beside, given)
                answer = self._holds(small, large, c, place, depth)
            if not answer:
                break
        del self._assumed[x, y]
        self._supposed, self._open = supposed, being_proven
        if answer and not self._assumed:
            self._always[x, y] = c  # wherever the argument is
        return answer

    def _on_both_sides(self, i: Instruction, proof: Callable[[Value], bool]) -> bool:
        """Whether both operands of a select are as they should be where they are taken."""
        for operand, is_so in zip(i.operands[:2], (True, False), strict=True):
            said = self._said(i.operands[2], is_so)
            self._supposed += said
            answer = proof(operand)
            del self._supposed[len(self._supposed) - len(said) :]
            if not answer:
                return False
        return True

    def _with_difference(self, a: Value, b: Value, y: Value | None, c: int, at: Place, depth: int) -> bool:
        """a + b <= y + c, where b <= p - q + d and a <= q + e: then a + b <= p + d + e."""
        for known in self._known_at(at):
            for v, w in ((a, b), (b, a)):
                for bound, d, via in known.above.get(w, ()):
                    other, least = bound, None
                    if (part := _clamped(bound)) is not None:
                        other, least = part
                    for s, by, sum_ in _bases(other):
                        if via is not None or not isinstance(s, Instruction) or s.op.name != "subtract":
                            continue
                        if not all(self._fits(i, at, depth) for i in (s, sum_) if i is not None):
                            continue
                        if least is not None and not self._holds(None, w, -(least + d + 1), at, depth):
                            continue
                        p, q = s.operands
                        for e in (0,) if q is v else (-1, 0):
                            if self._holds(v, q, e, at, depth) and self._holds(p, y, c - d - by - e, at, depth):
                                return True
        return False

    def _as_counter(self, x: BlockArg, c: int, at: Place, depth: int) -> bool:
        """x <= c, since x grows no faster than another argument of its block, which is bounded here."""
        firsts = self._firsts(x)
        for other in x.block.args:
            if other is x or other.type != _INTEGER or not firsts:
                continue
            others = self._firsts(other)
            if len(others) == len(firsts):
                d = max(m - n for m, n in zip(firsts, others, strict=True))
                if self._holds(other, None, c - d, at, depth) and self._holds(x, other, d, at, depth):
                    return True
        return False

    def _firsts(self, v: BlockArg) -> list[int]:
        """The literals that an argument of the head of a loop begins with; none where it begins with anything else."""
        k = v.block.args.index(v)
        outside = [(s, t) for s, t in self.edges[v.block] if not self.tree.dominates(v.block, s)]
        if len(outside) == len(self.edges[v.block]):
            return []
        found = [integer(s.targets[t].args[k]) for s, t in outside]
        return [n for n in found if n is not None] if None not in found else []

    def _is_before(self, v: Value | None, block: Block) -> bool:
        """Whether a value is the same one at every entry of a block from within a loop."""
        if not isinstance(v, BlockArg | Instruction):
            return True
        home = v.block
        return home is not None and home is not block and self.tree.dominates(home, block)

    def _fits(self, i: Instruction, at: Place, depth: int) -> bool:
        if i.attrs.get("checked"):
            return True  # it exists only where it did not leave the dtype
        return i.type == _INTEGER and self._is_exact(i, at, depth)

    def _is_exact(self, i: Instruction, at: Place, depth: int) -> bool:
        a, b = i.operands
        n = integer(b)
        name = i.op.name
        if n is not None and name in ("add", "subtract"):
            by = n if name == "add" else -n
            return (
                self._holds(a, None, _LARGEST - by, at, depth)
                if by >= 0
                else self._holds(None, a, -_LEAST + by, at, depth)
            )
        half = 2**62 if name in ("add", "subtract") else 2**31
        if name == "multiply" and n is not None and n:
            half = _LARGEST // abs(n)
            return self._holds(a, None, half, at, depth) and self._holds(None, a, half, at, depth)
        if name == "subtract" and all(self._holds(None, v, 0, at, depth) for v in (a, b)):
            return True
        return name in ("add", "subtract", "multiply") and all(
            self._holds(v, None, half - 1, at, depth) and self._holds(None, v, half, at, depth) for v in (a, b)
        )

    # -- what has been asked on the way --------------------------------------------------------------------

    def _known_at(self, at: Place) -> list[_Known]:
        found = self._known.get(at)
        if found is None:
            found = self._known[at] = list(self._asked_before(at))
        return [*self._supposed, *found]

    def _known_of(self, v: Value | None, at: Place) -> list[_Known]:
        """What of it mentions a value: of most there is little."""
        assert v is not None
        found = self._mentioned.get((v, at))
        if found is None:
            found = self._mentioned[v, at] = [k for k in self._known_at(at)[len(self._supposed) :] if k.mentions(v)]
        return [*self._supposed, *found]

    def _asked_before(self, at: Place) -> Iterator[_Known]:
        block: Block | None = at.block
        if at.edge >= 0:
            yield from self._on_edge(at.block, at.edge)
        assert block is not None
        yield from (known for k, known in self._by_checks(block) if k < at.k)
        while block is not None:
            yield from self._at_entry(block)
            block = self.tree.idom.get(block)
            if block is not None:
                yield from (known for _, known in self._by_checks(block))

    def _by_checks(self, block: Block) -> list[tuple[int, _Known]]:
        found = self._asked.get(block)
        if found is None:
            found = self._asked[block] = []
            for k, i in enumerate(block.instructions):
                if i.op.name == "check":
                    found += ((k, known) for known in self._said(i.operands[0], True))
        return found

    def _at_entry(self, block: Block) -> list[_Known]:
        """What the one edge into a block says, or into a loop: what it is about is not made anew in the loop."""
        found = self._entered.get(block)
        if found is None:
            self._entered[block] = found = []
            entering = [(source, k) for source, k in self.edges[block] if not self.tree.dominates(block, source)]
            if len(entering) == 1:
                found += self._on_edge(*entering[0])
        return found

    def _on_edge(self, source: Block, k: int) -> list[_Known]:
        found = self._left.get((source, k))
        if found is None:
            self._left[source, k] = found = []
            end = source.instructions[-1]
            if end.op.name == "conditional" and end.targets[0].block is not end.targets[1].block:
                found += self._said(end.operands[0], k == 0)
        return found

    def _said(self, condition: Value, is_so: bool) -> list[_Known]:
        """What follows from a condition that is so, or is not."""
        known = _Known()
        found = [known]
        if isinstance(condition, BlockArg):
            return self._said_by_argument(condition, is_so)
        if not isinstance(condition, Instruction):
            return []
        name = condition.op.name
        if name == "not":
            return self._said(condition.operands[0], not is_so)
        if name == ("and" if is_so else "or") and condition.type == TensorType((), BOOL):
            return [f for o in condition.operands for f in self._said(o, is_so)]
        if not condition.operands or condition.operands[0].type != _INTEGER:
            return []
        if name in _ORDERS:
            small, large, d = _ORDERS[name][0 if is_so else 1]
            known.add(condition.operands[small], condition.operands[large], d)
        elif name in ("equal", "notEqual"):
            a, b = condition.operands
            if is_so is (name == "equal"):
                known.add(a, b, 0)
                known.add(b, a, 0)
            else:
                known.add_apart(a, b)
        else:
            return []
        return found

    def _said_by_argument(self, condition: BlockArg, is_so: bool) -> list[_Known]:
        """Of `a and b`, which is an argument where the ways of b and of no b meet: by the one way it can have come."""
        block = condition.block
        at = block.args.index(condition)
        if not self.edges[block] or len(self.edges[block]) == 1:
            return []
        ways = [(s, k) for s, k in self.edges[block] if _may_be(s, k, at, is_so)]
        # behind a back edge names stand for what they were a trip before
        if len(ways) != 1 or self.tree.dominates(block, ways[0][0]):
            return []
        ((source, k),) = ways
        given = source.targets[k].args[at]
        found = [known for _, known in self._by_checks(source)]
        found += self._on_edge(source, k) + self._at_entry(source)
        return found + (self._said(given, is_so) if isinstance(given, Instruction) else [])


def _may_be(source: Block, k: int, at: int, value: bool) -> bool:
    """Whether an edge may pass this bool there."""
    given = source.targets[k].args[at]
    if isinstance(given, Literal):
        return bool(given.value) is value
    end = source.instructions[-1]
    if end.op.name == "conditional" and end.operands[0] is given:
        return (k == 0) is value
    return True


def _clamped(v: Value | None) -> tuple[Value, int] | None:
    """s and m of max(s, m), where m is a literal."""
    if isinstance(v, Instruction) and v.op.name == "max":
        for one, other in (v.operands, v.operands[::-1]):
            if (n := integer(other)) is not None:
                return one, n
    return None


def _divisor(name: str, n: int) -> int:
    if name == "floorDivide":
        return n
    return 1 << n if 0 <= n < 63 else 0


def _most(v: Value | None) -> int:
    """The largest number that a value can be by its dtype, or as an extent."""
    if v is None:
        return 0
    if isinstance(v, Instruction):
        if v.op.name == "extent":
            return EXTENT_MAX
        if v.op.name == "dataTypeCast":
            return _of_dtype(v.operands[0])[1]
    return _LARGEST


def _least(v: Value | None) -> int:
    """The smallest number that a value can be by its dtype, or as an extent."""
    if v is None:
        return 0
    if isinstance(v, Instruction):
        if v.op.name == "extent":
            return 0
        if v.op.name == "dataTypeCast":
            return _of_dtype(v.operands[0])[0]
    return _LEAST


def _itself_at_most(v: Value) -> int | None:
    """What makes a number alone says how large it is at most: a remainder, bits, a small dtype; None elsewhere."""
    if isinstance(v, Instruction) and v.op.name in ("modulo", "bitAnd"):
        n = integer(v.operands[1])
        if n is not None and n > 0:
            return n - 1 if v.op.name == "modulo" else n
    most = _most(v)
    return most if v is not None and most < _LARGEST else None


def _of_dtype(v: Value) -> tuple[int, int]:
    dtype = v.type.dtype  # type: ignore[attr-defined]
    if dtype is BOOL:
        return 0, 1
    if dtype.kind == "u":
        return (0, 2**dtype.bits - 1) if dtype.bits < 64 else (_LEAST, _LARGEST)
    return (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1) if dtype.kind == "i" else (_LEAST, _LARGEST)
