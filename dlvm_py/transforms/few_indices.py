"""Questions about rows of few indices, some indices at a time: for few_terms.py, of those that no sum is behind of.

    'body():                                    'body():
        %u = reduce (load %at) by max init 0        %fine = lessThanOrEqual %n, 32, and there is room behind the row
        %c = lessThan %u, %size                     conditional %fine then 'some(0, 0) else 'many()
        check (%c or %n = 0) else IndexError    'some(%k: i64, %u: u64):
        ...                                         conditional (lessThan %k, (min %n, 32)) then 'part() else 'asked()
                                                'part():
                                            =>      %in = lessThan (iota 8), (%n - %k)
                                                    %r = reduce (select (load %at[%k:%k + 8]), 0, %in) by max init %u
                                                    branch 'some(%k + 8, %r)
                                                'asked():   conditional (lessThan %u, %size) then 'behind() else 'many()
                                                'many():    as it was, to 'behind
                                                'behind():  ...

So the forward sweeps of derivatives ask: what is summed there nobody needs. The loop of vectors of long rows has a loop
of smaller ones behind it, and one of single indices, and each ends where no processor expects it. Where an index is out
of range, all runs as it was, and says which one.

The indices are made of elements of sections of one count by arithmetic, and nothing but a check asks for the largest.
"""

from __future__ import annotations

from dlvm_py.ir import (
    OPS,
    Block,
    Builder,
    Function,
    Instruction,
    Kind,
    Literal,
    TensorType,
    Value,
    is_array,
    is_scalar,
    literal,
)
from dlvm_py.ir.analysis.counted_loops import CountedLoop
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.extents import extent_at
from dlvm_py.ir.analysis.nearness import is_section
from dlvm_py.ir.analysis.slices import slice_of
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.tree_rules import JOINED
from dlvm_py.ir.value import integer, is_same_number
from dlvm_py.transforms.loop_versions import all_of
from dlvm_py.transforms.rows_together import Together, is_within, sink

ASKED, BESIDE = 32, 8  # indices of a row, and how many of them at once
BRIEF = 16  # steps for an index


def first_question(function: Function, block: Block) -> FewIndices | None:
    """The first question of a block that can be asked so."""
    questions = (FewIndices(block, i) for i in block.instructions if is_largest(i))
    return next((q for q in questions if q.is_fit(function)), None)


def is_largest(i: Instruction) -> bool:
    """Whether an instruction is what a check asks of a row of indices: the largest, as a number without a sign."""
    if i.op.name != "reduce" or i.attrs["by"] != "max" or i.attrs.get(JOINED) or not is_scalar(i.type):
        return False
    t = i.operands[0].type
    init = i.operands[1]
    return (
        isinstance(t, TensorType)
        and t.rank == 1
        and t.dtype.kind == "u"
        and isinstance(init, Literal)
        and init.value == 0
    )


class FewIndices:
    """A question about the indices of a row, what follows from it, and the check that it is for."""

    def __init__(self, block: Block, largest: Instruction) -> None:
        self.block, self.largest = block, largest
        self.rows: dict[Value, None] = {}  # memory that the indices are read from

    def is_fit(self, function: Function) -> bool:
        """Whether the indices are made of elements of sections of one count, and nothing but a check asks for them."""
        used = uses(function)
        at = self.block.instructions.index(self.largest)
        self.arrays: set[Value] = set()
        if not self._is_row(self.largest.operands[0]) or len(self.arrays) > BRIEF or not self.rows:
            return False
        if any(u is not self.largest and u not in self.arrays for v in self.arrays for u in used[v]):
            return False
        self.late: dict[Value, None] = {self.largest: None}
        for i in self.block.instructions[at + 1 :]:
            if any(v in self.late for v in i.all_operands()):
                self.late[i] = None
                if i.op is OPS["check"]:
                    break
                if not is_pure(i):
                    return False
            elif not is_pure(i) and i.op.name != "load":
                return False
        else:
            return False
        self.question = i
        condition = i.operands[0]
        if isinstance(condition, Instruction) and condition.op.name == "or":
            condition = condition.operands[0]
        if not isinstance(condition, Instruction) or condition.op.name != "lessThan":
            return False
        self.limit = condition.operands[1]
        if condition.operands[0] is not self.largest or self.limit in self.late:
            return False
        return not any(u not in self.late for v in self.late for u in used[v])

    def _is_row(self, v: Value) -> bool:
        if not is_array(v.type) or v in self.arrays:
            return True
        if not isinstance(v, Instruction) or v.block is not self.block or v.type.rank != 1:  # type: ignore[attr-defined]
            return False
        self.arrays.add(v)
        if v.op.name == "load":
            p = v.operands[0]
            if not is_section(p) or len(p.operands) != 4 or integer(p.operands[3]) != 1:  # type: ignore[attr-defined]
                return False
            self.rows[p] = None
            first, *others = (p.operands[2] for p in self.rows)  # type: ignore[attr-defined]
            return all(is_same_number(first, n) for n in others)
        return v.op.kind is Kind.ELEMENTWISE and is_pure(v) and all(map(self._is_row, v.operands))

    def make(self, function: Function, loop: CountedLoop | None) -> Block:
        """Both ways; the block behind them."""
        some, part, asked, many, behind = (Block(name) for name in ("some", "part", "asked", "many", "behind"))
        at = function.blocks.index(self.block) + 1
        function.blocks[at:at] = [some, part, asked, many, behind]
        instructions = self.block.instructions
        end = instructions.index(self.question)
        late = [i for i in instructions[: end + 1] if i in self.late or i in self.arrays]
        self.block.instructions = []
        for i in instructions[: end + 1]:
            (many if i in late else self.block).append(i)
        for i in instructions[end + 1 :]:
            behind.append(i)
        b = Builder(function).at_end(many)
        b.branch(behind)
        b.at_end(self.block).loc = self.question.loc
        count, firsts, fine = self._gate(b)
        last = b.emit("min", count, literal(ASKED))
        b.conditional(fine, some, [literal(0), self.largest.operands[1]], many, [])
        k, largest = some.add_arg(literal(0).type, "k"), some.add_arg(self.largest.type, "largest")
        b.at_end(some).conditional(b.emit("lessThan", k, last), part, [], asked, [])
        b.at_end(part)
        places = {p: (base, b.emit("add", first, k), count) for p, (base, first) in firsts.items()}
        made = Together(b, places, b.emit("subtract", count, k), BESIDE)
        found = made.reduced(made.index(self.largest.operands[0]), self.largest, largest)
        b.branch(some, [b.emit("add", k, literal(BESIDE)), found])
        b.at_end(asked).conditional(b.emit("lessThan", largest, self.limit), behind, [], many, [])
        sink(function, self.block, many)
        return behind

    def _gate(self, b: Builder) -> tuple[Value, dict[Value, tuple[Value, Value]], Value]:
        """How many indices there are, where each row begins in which array, and whether that many may be read."""
        count: Value | None = None
        firsts: dict[Value, tuple[Value, Value]] = {}
        asked: list[Value] = []
        for p in self.rows:
            base, first, length, _ = p.operands  # type: ignore[attr-defined]
            part = slice_of(p)
            if part is not None and not part.counts_back:
                # of a slice that lies in its array as it stands nothing is cut
                first, last, length = part.first, part.last, b.emit("subtract", part.last, part.first)
            else:
                last = b.emit("add", first, length)
            room = b.emit("subtract", extent_at(b, base, 0), literal(BESIDE))
            asked.append(is_within(b, last, b.emit("max", room, literal(0))))
            asked.append(is_within(b, length, literal(ASKED)))
            firsts[p] = base, first
            if count is None:
                count = length
            elif length is not count:
                asked.append(b.emit("equal", length, count))
        assert count is not None
        return count, firsts, all_of(b, asked)
