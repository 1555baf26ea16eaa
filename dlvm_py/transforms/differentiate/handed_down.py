"""Arguments of reverse functions in the place of tapes: what the caller knows it hands down again.

    func @g_forward: (%x, %size: i64, %left: i64, ...)       func @g_reverse: (%seed, stack{i64})
        %less = subtract %left: i64, 1: i64                      %left = pop i64 from %tape
        apply @g_forward(%x, %size, %less, ...)                  %size = pop i64 from %tape
        push %size: i64 to %tape; push %left: i64 to %tape       apply @g_reverse(%seed, %tape)

becomes

    func @g_forward: (%x, %size: i64, %left: i64, ...)       func @g_reverse: (%seed, %size: i64, %left: i64)
        %less = subtract %left: i64, 1: i64                      %less = subtract %left: i64, 1: i64
        apply @g_forward(%x, %size, %less, ...)                  apply @g_reverse(%seed, %size, %less)

A parameter of the forward function is handed down to the reverse function if every caller has the argument in its own
reverse sweep: the function that is differentiated if it is computed once, before; a function of the recursion if it is
one of its own parameters that are handed down, or arithmetic of integers with those. What a reverse function needs of
the forward one, and is a function of such parameters, is then taken from them. Integers are exact: an index or a
condition that is computed again is the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dlvm_py.frozen import Mutable, field
from dlvm_py.ir import Builder, Function, Instruction, Kind, Literal, StackType, Value, is_scalar
from dlvm_py.ir.analysis.calls import calls
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import unchecked
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.value import BlockArg

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.calls import Split

_DEPTH = 4  # of the arithmetic that is done again
_MAY_TRAP = frozenset(("floorDivide", "modulo", "remainder", "power", "leftShift", "rightShift"))


class Crossing(Mutable):
    """A value of the forward function that its reverse function needs, and how it gets there."""

    value: Value
    push: Instruction
    pop: Instruction


class _Half(Mutable):
    """What is known of the two halves of a function while parameters are chosen."""

    split: Split
    arguments: list[BlockArg]  # of the forward function, without its tapes
    handed: set[Value]  # of these: what every caller can hand down
    needed: dict[Value, None] = field(default_factory=dict)

    def given(self, value: Value) -> Value | None:
        """The parameter of the reverse function that stands for `value`."""
        return value if value in self.handed else None


def run(function: Function, splits: list[Split], pairs: list[tuple[Instruction, Instruction]]) -> None:
    """Hand parameters down.

    function: what is differentiated, with both sweeps. splits: the functions it calls, with both halves; pairs: each
    call of a forward function, with the call of the reverse function for it.
    """
    _HandingDown(function, splits, pairs).run()


class _HandingDown:
    def __init__(self, function: Function, splits: list[Split], pairs: list[tuple[Instruction, Instruction]]) -> None:
        self.function = function
        self.halves = {s.forward.name: _half(s) for s in splits}
        self.owner: dict[Instruction, Function] = {}
        for f in (function, *(g for s in splits for g in (s.forward, s.reverse))):
            self.owner.update(dict.fromkeys(calls(f), f))
        self.by_reverse = {s.reverse.name: s.forward.name for s in splits}
        self.pairs = [(a, b) for a, b in pairs if b in self.owner]
        self.dominators, self.loops = DominatorTree(function), LoopForest(function)

    def run(self) -> None:
        """Choose, then rewrite."""
        paired = {b for _, b in self.pairs}
        for call in self.owner:
            # a call that was copied, when a part of the sweep runs again, has no counterpart that is known
            name = self.by_reverse.get(call.attrs["callee"])
            if name is not None and call not in paired:
                self.halves[name].handed.clear()
        for forward, _ in self.pairs:
            if forward not in self.owner:
                self.halves[forward.attrs["callee"]].handed.clear()
        self._narrow()
        self._ask()
        for half in self.halves.values():
            _take(self, half)
        for forward, reverse in self.pairs:
            if self.owner[forward] is self.function:
                half = self.halves[forward.attrs["callee"]]
                operands: dict[Value, Value] = dict(zip(half.arguments, forward.operands, strict=False))
                b, made = Builder(self.function).before(reverse), dict[Value, Value]()
                outside = self._outside(reverse)
                reverse.operands += [_again(b, operands[a], made, outside) for a in half.needed]

    def _narrow(self) -> None:
        """Leave what every caller has."""
        changed = True
        while changed:
            changed = False
            for forward, reverse in self.pairs:
                half = self.halves[forward.attrs["callee"]]
                for argument, operand in zip(half.arguments, forward.operands, strict=False):
                    if argument in half.handed and not self._is_there(operand, forward, reverse):
                        half.handed.remove(argument)
                        changed = True

    def _is_there(self, operand: Value, forward: Instruction, reverse: Instruction) -> bool:
        caller = self.owner[forward]
        if caller is self.function:
            return _sources(operand, self._outside(reverse)) is not None
        return self.sources(self.halves[caller.name], operand) is not None

    def _outside(self, reverse: Instruction) -> Callable[[Value], Value | None]:
        """What the function that is differentiated has at a call in its reverse sweep: what it computes once."""

        def found(value: Value) -> Value | None:
            block = value.block  # type: ignore[attr-defined]
            once = self.loops.loop_of(block) is None and self.dominators.instruction_dominates(value, reverse)
            return value if once else None

        return found

    def sources(self, half: _Half, value: Value) -> set[Value] | None:
        """The parameters that are handed down which `value` is a function of; None where it is something else."""
        return _sources(value, half.given)

    def _ask(self) -> None:
        """Find the parameters that are needed: for what crosses, and for those of functions that are called."""
        for half in self.halves.values():
            for c in half.split.crossing:
                half.needed.update(dict.fromkeys(self._in_order(half, c.value)))
        changed = True
        while changed:
            changed = False
            for forward, _ in self.pairs:
                half, caller = self.halves[forward.attrs["callee"]], self.owner[forward]
                if caller is self.function:
                    continue
                above = self.halves[caller.name]
                for argument, operand in zip(half.arguments, forward.operands, strict=False):
                    new = self._in_order(above, operand) if argument in half.needed else []
                    changed |= any(v not in above.needed for v in new)
                    above.needed.update(dict.fromkeys(new))

    def _in_order(self, half: _Half, value: Value) -> list[Value]:
        found = self.sources(half, value) or set()
        return [a for a in half.arguments if a in found]


def _sources(value: Value, given: Callable[[Value], Value | None], depth: int = _DEPTH) -> set[Value] | None:
    """The values, of those that are `given`, of which `value` is computed again; None where it cannot be."""
    if isinstance(value, Literal):
        return set()
    at_hand = given(value)
    if at_hand is not None:
        return {at_hand}
    if not isinstance(value, Instruction) or not depth or not is_scalar(value.type):
        return None
    if value.op.name != "extent":
        if value.op.kind is not Kind.ELEMENTWISE or value.op.name in _MAY_TRAP:
            return None
        if any(v.type.dtype.kind not in "biu" for v in (value, *value.operands)):  # type: ignore[attr-defined]
            return None
    found: set[Value] = set()
    for v in value.operands:
        of = _sources(v, given, depth - 1)
        if of is None:
            return None
        found |= of
    return found


def _again(b: Builder, value: Value, made: dict[Value, Value], given: Callable[[Value], Value | None]) -> Value:
    """`value`, whose sources are `made`, computed again."""
    if isinstance(value, Literal):
        return value
    at_hand = given(value)
    if at_hand is not None:
        return made.get(at_hand, at_hand)
    if value not in made:
        assert isinstance(value, Instruction)
        operands = [_again(b, v, made, given) for v in value.operands]
        attrs = unchecked(value)  # what has fitted once fits again
        made[value] = b.emit(value.op, *operands, name=value.name, **attrs)
    return made[value]


def _half(split: Split) -> _Half:
    tapes = split.forward.meta.get("tapes", {}).values()  # type: ignore[attr-defined]
    arguments = [a for a in split.forward.entry.args if a not in tapes]
    shadows = arguments[len(split.primal.params) :]
    shadow_of = dict(zip((arguments[k] for k in split.with_shadow), shadows, strict=True))
    for i in split.forward.instructions():
        if i.op.name == "extent" and i.operands[0] in shadow_of:
            i.operands = [shadow_of[i.operands[0]]]  # type: ignore[index]  # which has the same extents, and is needed
    return _Half(split, arguments, {a for a in arguments if not isinstance(a.type, StackType)})


def _take(all: _HandingDown, half: _Half) -> None:
    """Give the reverse function its new parameters, and let it use them."""
    reverse = half.split.reverse
    given: dict[Value, Value] = {a: BlockArg(a.type, reverse.entry, a.name) for a in half.needed}
    reverse.entry.args += given.values()  # type: ignore[arg-type]
    b = Builder(reverse).before(reverse.entry.instructions[0])
    made = dict(given)

    def again(value: Value) -> Value:
        return _again(b, value, made, half.given)

    replaced: dict[Value, Value] = {}
    for c in half.split.crossing:
        if all.sources(half, c.value) is not None:
            replaced[c.pop] = again(c.value)
            for i in (c.push, c.pop):
                assert i.block is not None
                i.block.instructions.remove(i)
    reverse.substitute(replaced)
    for forward, call in all.pairs:
        of = all.halves[forward.attrs["callee"]]
        caller = all.owner[forward]
        operands = dict(zip(of.arguments, forward.operands, strict=False))
        if caller is half.split.forward:
            call.operands += [again(operands[a]) for a in of.needed]  # type: ignore[index]
    half.split.forget_unused_tapes()
