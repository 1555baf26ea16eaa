"""Branches that come together again behind a few cheap steps: both ways are done, and one result is taken.

    if c & 1: c = c >> 1 ^ p         %a = ashr %c, 1
    else:     c = c >> 1       =>    %b = xor %a, %p         %b is opaque to LLVM
                                     %c = select %odd, %b, %a

LLVM would make `%a ^ (odd ? p : 0)` of this: a step less, but one that begins when the test is done. Where the test
waits for what the last trip chose, that is the way that all trips are as long as; of the steps before the choice
none waits for the test.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlvm_py.ir import Block, BlockArg, Instruction, Literal, Target, Value, is_scalar
from dlvm_py.ir.analysis.loops import Loop, LoopForest

CHOICE = 4  # steps of both ways of a branch that are done both
_CHEAP = frozenset(
    ("add", "subtract", "negate", "multiply", "abs", "min", "max", "bitAnd", "bitOr", "bitXor", "bitNot", "and", "or")
    + ("not", "shiftLeft", "shiftRight", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual", "equal")
    + ("notEqual", "select", "dataTypeCast")
)
_FOLDED = frozenset(("add", "subtract", "bitAnd", "bitOr", "bitXor", "shiftLeft", "shiftRight"))


class Choices:
    """The choices of a function, by the blocks that end with them."""

    def __init__(self, forest: LoopForest, edges: Mapping[Block, list[tuple[Block, int]]]) -> None:
        self.forest = forest
        self.edges = edges
        self.in_loops = {b for loop in forest.loops for b in loop.blocks}
        self._apart: set[tuple[Block, int]] = set()

    def begin(self, block: Block) -> bool:
        """Whether the branch at the end of a block is a choice: doing both ways beats guessing one.

        Without being told so LLVM makes jumps of selects where data flow in a loop looks long to it.
        """
        ways = [self._way(block, t) for t in block.targets]
        if block not in self.in_loops or len({t.block for t, _ in ways}) != 1:
            return False
        steps = [i for _, passed in ways if passed is not None for i in passed.instructions[:-1]]
        if len(steps) > CHOICE or not all(
            i.op.name in _CHEAP and is_scalar(i.type) and not i.attrs.get("checked") for i in steps
        ):
            return False
        if steps:
            self._keep_apart(block, ways)
        return True

    def is_apart(self, source: Block, k: int) -> bool:
        """Whether the argument of an edge is a result that LLVM must not merge with the choice."""
        return (source, k) in self._apart

    def _way(self, block: Block, target: Target) -> tuple[Target, Block | None]:
        """The edge at which a way of a branch ends, and the block between that it alone passes."""
        passed = target.block
        if len(passed.targets) == 1 and len(self.edges[passed]) == 1 and passed.instructions[-1].op.name == "branch":
            return passed.targets[0], passed
        return target, None

    def _keep_apart(self, block: Block, ways: list[tuple[Target, Block | None]]) -> None:
        """Note the results of the steps of a choice whose test waits for the choice of the last trip."""
        loop = self.forest.loop_of(block)
        assert loop is not None
        (one, _), (other, _) = ways
        for k, argument in enumerate(one.block.args):
            for (target, passed), kept in zip(ways, (other, one), strict=True):
                value = target.args[k]
                if passed is None or value not in passed.instructions or not _folds(value, kept.args[k]):
                    continue
                if self._waits(loop, block.instructions[-1].operands[0], argument):
                    self._apart.add((passed, k))

    def _waits(self, loop: Loop, test: Value, argument: BlockArg) -> bool:
        """Whether a test rests on an argument of the loop that the choice gives its next value."""
        needed = self._sources(loop, test)
        for k, carried in enumerate(loop.header.args):
            if carried in needed:
                for latch, to in self.edges[loop.header]:
                    if latch in loop.blocks and argument in self._sources(loop, latch.targets[to].args[k]):
                        return True
        return False

    def _sources(self, loop: Loop, value: Value) -> set[Value]:
        """The block arguments of a loop on which a value rests in one trip; those of the header are the last ones."""
        found: set[Value] = set()
        seen: set[Value] = set()
        stack = [value]
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            if isinstance(v, Instruction) and v.block in loop.blocks:
                stack += v.operands
            elif isinstance(v, BlockArg) and v.block in loop.blocks:
                found.add(v)
                if v.block is not loop.header:
                    k = v.block.args.index(v)
                    stack += [b.targets[to].args[k] for b, to in self.edges[v.block]]
        return found


def _folds(value: Value, kept: Value) -> bool:
    """Whether a value is a step from what the other way keeps: LLVM merges such a step with the choice."""
    return (
        isinstance(value, Instruction)
        and value.op.name in _FOLDED
        and value.type.dtype.kind in "iu"  # type: ignore[attr-defined]
        and any(_are_equal(o, kept) for o in value.operands)
    )


def _are_equal(a: Value, b: Value) -> bool:
    """Whether two values are the same, by their last step or as literals."""
    if a is b:
        return True
    if isinstance(a, Literal) and isinstance(b, Literal):
        return a.type == b.type and a.value == b.value
    if not (isinstance(a, Instruction) and isinstance(b, Instruction)) or len(a.operands) != len(b.operands):
        return False
    same = all(
        x is y or (isinstance(x, Literal) and _are_equal(x, y)) for x, y in zip(a.operands, b.operands, strict=True)
    )
    return same and a.op is b.op and a.attrs == b.attrs and a.type == b.type and not a.op.effects
