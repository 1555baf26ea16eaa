"""Narrow integers: sums of small numbers that are computed with 64 bits are computed with as many as they need.

    %a = dataTypeCast %p: u8 to i64                     %a = dataTypeCast %p: u8 to i16
    %b = dataTypeCast %q: u8 to i64                     %b = dataTypeCast %q: u8 to i16
    %d = subtract %a: i64, %b: i64               =>     %d = subtract %a: i16, %b: i16
    %s = abs %d: i64                                    %s = abs %d: i16
    %m = min %s: i64, 255: i64                          %m = min %s: i16, 255: i16
    %o = dataTypeCast %m: i64 to u8                     %o = dataTypeCast %m: i16 to u8

`abs(int(img[i, j + 1]) - int(img[i, j - 1]))` is Python's integers made of pixels: of a vector of 64 bytes eight
vectors of 64 bits. What leaves are casts of integers of up to 16 bits and literals, and what is computed from them, has
ranges (ranges.py); all that hangs together gets the width into which all of it fits, 16 or 32 bits. Comparisons take
part. Where a number is needed as it was, it is cast; what is needed so more than once for every two steps stays. In
loops only; arguments of blocks where ways meet take part, those of loops do not. Stages compute and scheduled; a second
run finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm_py.ir import (
    I16,
    I32,
    I64,
    OPS,
    BlockArg,
    Function,
    Instruction,
    Literal,
    TensorType,
    Value,
    literal,
)
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import Edges
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.types import scalar
from dlvm_py.ir.value import integer
from dlvm_py.transforms.ranges import Range, ranges_in

_INTEGER = TensorType((), I64)
_STEPS = frozenset(
    ("add", "subtract", "multiply", "square", "negate", "abs", "min", "max", "select", "bitAnd", "bitOr", "bitXor")
)
_DIVISIONS, _SHIFTS = frozenset(("floorDivide", "modulo")), frozenset(("shiftLeft", "shiftRight"))
_COMPARISONS = frozenset(("equal", "notEqual", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual"))
_COLD = frozenset(("check", "raise"))
_STEPS_A_CAST = 2


def run(function: Function) -> bool:
    """Narrow the integers of the innermost loops of `function`; whether there were any."""
    edges = predecessors(function)
    changed = False
    for loop in LoopForest(function).loops:
        if not loop.children and any(_is_leaf(i) for b in loop.ordered for i in b.instructions):
            changed |= _Narrowing(function, loop, edges).run()
    return changed


def _is_leaf(i: Instruction) -> bool:
    """Whether a small integer is made a large one."""
    if i.op is not OPS["dataTypeCast"] or i.type != _INTEGER:
        return False
    source = i.operands[0].type.dtype  # type: ignore[attr-defined]
    return source.kind in "biu" and source.bits <= 16


class _Narrowing:
    """The small integers of one loop."""

    def __init__(self, function: Function, loop: Loop, edges: Edges) -> None:
        self.function, self.loop, self.edges = function, loop, edges
        self.ranges = ranges_in(loop, edges)
        self.web: dict[Value, Value] = {}  # of what may be narrow: what it hangs together with

    def run(self) -> bool:
        """Narrow the webs that gain by it; whether there were any."""
        for block in self.loop.ordered:
            for k, argument in enumerate(block.args):
                if block is not self.loop.header and argument.type == _INTEGER:
                    self._add(argument, [b.targets[t].args[k] for b, t in self.edges[block]])
            for i in block.instructions:
                if _is_leaf(i):
                    self.web[i] = i
                elif self._is_step(i):
                    self._add(i, [v for v in i.operands if v.type == _INTEGER])
        for i in self._instructions():
            if self._is_compared(i):
                self._join(i.operands)
        webs: dict[Value, list[Value]] = {}
        for v in self.web:
            webs.setdefault(self._root(v), []).append(v)
        users = uses(self.function)
        good = {root: self._dtype(members) for root, members in webs.items() if self._gains(members, users)}
        narrow = {v: good[self._root(v)] for v in self.web if self._root(v) in good}
        if narrow:
            self._rewrite(narrow, users)
        return bool(narrow)

    def _instructions(self) -> Iterator[Instruction]:
        return (i for b in self.loop.ordered for i in b.instructions)

    # -- what hangs together -------------------------------------------------------------------------------

    def _is_step(self, i: Instruction) -> bool:
        """Whether an instruction computes a number that small numbers decide."""
        if i.type != _INTEGER or i.attrs.get("checked"):
            return False
        by = integer(i.operands[-1]) if i.op.name in _DIVISIONS | _SHIFTS else None
        if by is not None:
            return by < 16 if i.op.name in _SHIFTS else by > 0
        return i.op.name in _STEPS

    def _add(self, v: Value, sources: list[Value]) -> None:
        """Take a value in that is small, made of small ones."""
        if _fits(self.ranges.get(v), I32.bits) and all(s in self.web or self._is_literal(s) for s in sources):
            known = [s for s in sources if s in self.web]
            if known:
                self.web[v] = v
                self._join([v, *known])

    def _is_literal(self, v: Value) -> bool:
        n = integer(v) if isinstance(v, Literal) else None
        return n is not None and _fits((n, n), I32.bits)

    def _is_compared(self, i: Instruction) -> bool:
        """Whether small numbers are compared with one another, or with literals."""
        return i.op.name in _COMPARISONS and all(v in self.web or self._is_literal(v) for v in i.operands)

    def _join(self, values: list[Value]) -> None:
        roots = [self._root(v) for v in values if v in self.web]
        for root in roots[1:]:
            self.web[root] = roots[0]

    def _root(self, v: Value) -> Value:
        while self.web[v] is not v:
            v = self.web[v]
        return v

    # -- which of it is narrowed -----------------------------------------------------------------------------

    def _gains(self, members: list[Value], users: dict[Value, list[Instruction]]) -> bool:
        steps = sum(isinstance(v, Instruction) and not _is_leaf(v) for v in members)
        casts = sum(any(not self._takes_narrow(u, v) and u.op.name not in _COLD for u in users[v]) for v in members)
        return steps >= _STEPS_A_CAST * max(casts, 1)

    def _compares_narrow(self, user: Instruction) -> bool:
        return user.block in self.loop.blocks and self._is_compared(user)

    def _takes_narrow(self, user: Instruction, v: Value) -> bool:
        """Whether a user does with the narrow number."""
        if user in self.web or user.op is OPS["dataTypeCast"] or self._compares_narrow(user):
            return True
        passed = [(t.block.args[k], w) for t in user.targets for k, w in enumerate(t.args)]
        return v not in user.operands and all(a in self.web for a, w in passed if w is v)

    def _dtype(self, members: list[Value]) -> TensorType:
        """The width into which all of it fits, the literals too."""
        found = [self.ranges[v] for v in members]
        of = set(members)
        for i in self._instructions():
            beside = i in of or (self._is_compared(i) and not of.isdisjoint(i.operands))
            operands = i.operands if beside else []
            passed = [w for t in i.targets for a, w in zip(t.block.args, t.args, strict=True) if a in of]
            for v in (*operands, *passed):
                n = integer(v)
                if n is not None and v.type == _INTEGER:
                    found.append((n, n))
        return scalar(I16 if all(_fits(r, I16.bits) for r in found) else I32)

    # -- the code --------------------------------------------------------------------------------------------

    def _rewrite(self, narrow: dict[Value, TensorType], users: dict[Value, list[Instruction]]) -> None:
        """Make the numbers narrow, and casts of those that are needed as they were."""
        made: dict[Value, Value] = {}
        wide: dict[Value, Value] = {}
        for block in self.loop.ordered:
            placed: list[Instruction] = []
            for old in (*block.args, *block.instructions):
                new: Value = old
                if old in narrow:
                    if isinstance(old, BlockArg):
                        old.type = narrow[old]
                    new = made[old] = _made(old, narrow[old], made) if isinstance(old, Instruction) else old
                    if not all(self._takes_narrow(u, old) for u in users[old]):
                        wide[old] = Instruction(OPS["dataTypeCast"], [new], {"to": "i64"})
                placed += [v for v in (new, wide.get(old)) if isinstance(v, Instruction)]
            block.instructions = []
            for i in placed:
                block.append(i)
        for i in dict.fromkeys(u for v in narrow for u in users[v] if u not in narrow):
            takes = i.op is OPS["dataTypeCast"] or self._compares_narrow(i)
            type = next((narrow[v] for v in i.operands if v in narrow), _INTEGER)
            i.operands = [_as(v, type, made) for v in i.operands] if takes else [wide.get(v, v) for v in i.operands]
            for t in i.targets:
                pairs = list(zip(t.block.args, t.args, strict=True))
                t.args = [_as(v, narrow[a], made) if a in narrow else wide.get(v, v) for a, v in pairs]
        for v, type in narrow.items():
            if isinstance(v, BlockArg):
                for block, k in self.edges[v.block]:
                    target = block.targets[k]
                    at = v.block.args.index(v)
                    target.args[at] = _as(target.args[at], type, made)


def _made(old: Instruction, type: TensorType, made: dict[Value, Value]) -> Instruction:
    """An instruction with narrow operands."""
    operands, attrs = old.operands, dict(old.attrs)
    if _is_leaf(old):
        attrs["to"] = type.dtype.name
    else:
        operands = [_as(v, type, made) for v in operands]
    return Instruction(old.op, list(operands), attrs, name=old.name, loc=old.loc)


def _as(v: Value, type: TensorType, made: dict[Value, Value]) -> Value:
    """A narrow number, a literal as one; what is no i64 as it is."""
    n = integer(v) if isinstance(v, Literal) and v.type == _INTEGER else None
    return made.get(v, v) if n is None else literal(n, type)


def _fits(found: Range | None, bits: int) -> bool:
    return found is not None and -(1 << (bits - 1)) <= found[0] and found[1] < 1 << (bits - 1)
