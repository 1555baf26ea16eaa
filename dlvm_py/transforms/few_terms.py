"""Rows of few indices: a sum at them asks about an index when its term is added, in one short loop.

                                                      'body():
    'body():                                              %fine = lessThan %n, 32, and what else is checked
        %u = reduce (load %at) by max init 0              conditional %fine then 'few(0, -0.0) else 'many()
        %c = lessThan %u, %size                       'few(%k: i64, %s: f64):
        check (%c or %n = 0) else IndexError ..           conditional (lessThan %k, (min %n, 31)) then 'term() ..
        %g = gather (load %x) at (load %at)           'term():
        %t = multiply (load %v), %g               =>      %j = load (elementPointer %at at %k)
        %r = reduce %t by add init 0.0                    check (lessThan %j, %size) else IndexError ..
        ...                                               %t = multiply (load (%v at %k)), (load (%x at %j))
                                                          branch 'few(%k + 1, %s + %t)
                                                      'ready():  branch 'joined(%s + 0.0)
                                                      'many():   as it was, to 'joined(%r)
                                                      'joined(%r): ...

Rows of sparse matrices are such sums, `vals[a:b] @ x[cols[a:b]]`, and many have two entries or ten. Asked by itself,
the largest of the indices took a loop of its own, of vectors for which there were not enough, and a jump that is
guessed wrong once more a row. Up to FEW terms are added in order by the backend as well (backend/cpu/blocks.py): the
bits are the same. Which index is named when one is out of range: the first, as in NumPy.

Where nobody knows how many terms the next row has, a jump is guessed wrong at nearly every row, which takes as long as
ten terms. Of a row of four terms or fewer four are made then, of one of eight or fewer eight (TOGETHER), in a vector
without a jump (backend/cpu/together.py), and those behind the last one are -0.0, which changes no sum:

    'how():     conditional (%rows > REMEMBERED) then 'ask() else 'few(0, -0.0)
    'ask():     conditional (unsteady %n) then 'room() else 'few(0, -0.0)
    'room():    conditional (%n <= 4, and there are as many elements in the arrays) then 'some() else 'room of eight
    'some():    %in = lessThan (iota 4), %n
                %u = reduce (select (load %at[0:4]), 0, %in) by max
                conditional (lessThan %u, %size) then 'summed() else 'few(0, -0.0)
    'summed():  %g = gather (load %x) at (select (load %at[0:4]), 0, %in)
                branch 'ready(reduce (select (multiply (load %v[0:4]), %g), -0.0, %in) by add)

Where the rows are of one length, or so few that processors remember them, the jump is guessed right, and terms one by
one take half as long: `unsteady` says which it is (backend/cpu/unsteady.py).

A question that no such sum is behind of, as in the forward sweep of a derivative, is asked about some indices at a time
(transforms/few_indices.py).

In loops, for floating sums along the axis of trees of one axis, of at most LARGE steps, whose arrays have as many
elements as there are terms. Slices count as such where they lie in their arrays as they stand (ir/analysis/slices.py):
they are not cut then. Between the question and the sum there are only loads, arithmetic, and checks of numbers that are
known before: they are asked first, and where one fails, all runs as it was. Stage compute, once: what is left is a sum
that could be given one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlvm_py.ir import (
    OPS,
    Block,
    Builder,
    Function,
    Instruction,
    Kind,
    TensorType,
    Value,
    is_array,
    is_scalar,
    literal,
)
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.cost import is_function
from dlvm_py.ir.analysis.counted_loops import CountedLoop, counted_loop
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.extents import extent_at
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.analysis.slices import slice_of
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.tree_rules import JOINED
from dlvm_py.ir.value import is_same_number
from dlvm_py.transforms.few_indices import first_question, is_largest
from dlvm_py.transforms.loop_versions import all_of
from dlvm_py.transforms.rows_together import Together, is_within, reads_row, sink
from dlvm_py.transforms.substitution import substitute

LARGE = 24
TOGETHER = (4, 8)  # terms
# rows whose lengths a processor remembers from one call to the next: measured on Zen 5, where 16,384 are too many
REMEMBERED = 8192
BRIEF = 16  # steps for a term that may be made in vain
FEW = {64: 31, 32: 63}  # terms, by the bits of a float: fewer than the vectors of a block take at once


def run(function: Function) -> bool:
    """Give the sums of `function` at indices a version for few terms; whether there were any."""
    forest, edges = LoopForest(function), predecessors(function)
    around = {b: counted_loop(loop, edges) for b in function.blocks if (loop := forest.loop_of(b)) is not None}
    changed = False
    for block, loop in around.items():
        here: Block | None = block
        while here is not None:
            found = _first(function, here) or first_question(function, here)
            here = found.make(function, loop) if found is not None else None
            changed = changed or found is not None
    return changed


def _first(function: Function, block: Block) -> _FewTerms | None:
    """The first sum of a block, with the question of its indices, of which there can be such a version."""
    for at, i in enumerate(block.instructions):
        if _is_sum(i) and not any(after.attrs.get(JOINED) for after in block.instructions[at + 1 : at + 2]):
            for begin in range(at - 1, -1, -1):
                largest = block.instructions[begin]
                if largest.op.effects and largest.op.name not in ("load", "check"):
                    break
                if is_largest(largest):
                    found = _FewTerms(block, begin, at)
                    if found.is_fit(function):
                        return found
                    break
    return None


def _is_sum(i: Instruction) -> bool:
    """Whether an instruction is the sum of a row of floats."""
    if i.op.name != "reduce" or i.attrs["by"] != "add" or i.attrs.get(JOINED) or not is_scalar(i.type):
        return False
    t = i.operands[0].type
    return isinstance(t, TensorType) and t.rank == 1 and t.dtype.kind == "f" and t.dtype.bits in FEW


class _FewTerms:
    """A question in a block, a sum behind it, and what stands between."""

    def __init__(self, block: Block, begin: int, end: int) -> None:
        self.block = block
        self.largest, self.sum = block.instructions[begin], block.instructions[end]
        self.between = block.instructions[begin + 1 : end]
        self.rest = block.instructions[end + 1 :]
        self.before = block.instructions[:begin]
        self.checks = [i for i in self.between if i.op is OPS["check"]]
        self.steps: dict[Value, None] = {}  # of both trees

    # -- whether -----------------------------------------------------------------------------------------

    def is_fit(self, function: Function) -> bool:
        """Whether the terms can be made one by one, and what else is checked is known before."""
        if not self.checks or not all(is_pure(i) or i.op.name in ("load", "check") for i in self.between):
            return False
        self.question = self.checks[0]
        self.asked = self._of_elements(self.question.operands[0])
        if self.asked is None:
            return False
        trees = (self.largest.operands[0], self.sum.operands[0])
        if not all(map(self._is_row, trees)) or len(self.steps) > LARGE:
            return False
        if not any(isinstance(v, Instruction) and v.op.name == "gather" for v in self.steps):
            return False
        # scalars that need no element move before the question
        self.moved = list(self._known(self.between))
        ours = {self.largest, *(i for i in self.between if i not in self.moved)}
        needed = [v for c in self.checks[1:] for v in c.operands]
        needed += [v for v in self._numbers() if isinstance(v, Instruction)]
        if any(v in ours for v in needed):
            return False
        # a tree stands in one block
        used = uses(function)
        self.arrays = [i for i in self.before if is_array(i.type) and self._is_used(i, (self.largest, *self.between))]
        for i in self.arrays:
            ours.add(i)
        if any(u not in ours and u is not self.sum for i in self.arrays for u in used[i]):
            return False
        return not any(v in ours for i in self.rest for v in i.all_operands())

    def _is_used(self, v: Value, by: Iterable[Instruction]) -> bool:
        """Whether instructions, or what they are made of in this block, use a value."""
        return any(v in i.operands or self._is_used(v, [o for o in i.operands if o in self.before]) for i in by)

    def _of_elements(self, condition: Value) -> Value | None:
        """What is asked of the largest index, or where there is none: the comparison."""
        if isinstance(condition, Instruction) and condition.op.name == "or":
            condition = condition.operands[0]
        if not isinstance(condition, Instruction) or condition.op.name != "lessThan":
            return None
        return condition if condition.operands[0] is self.largest else None

    def _is_row(self, v: Value) -> bool:
        """Whether an element of a tree can be made from scalars and elements of arrays of one axis."""
        if not is_array(v.type):
            return True
        if v in self.steps:
            return True
        if not isinstance(v, Instruction) or v.type.rank != 1:  # type: ignore[attr-defined]
            return False
        self.steps[v] = None
        if v.op.name == "gather":
            source, *indices = v.operands
            return reads_row(source) and len(indices) == 1 and self._is_row(indices[0])
        if v.op.name == "broadcast" or v.op.kind is Kind.ELEMENTWISE:
            return all(map(self._is_row, v.operands))
        return reads_row(v)

    def _numbers(self) -> list[Value]:
        """The scalars that an element is made of, and the arrays that are read."""
        found = [v for step in self.steps for v in step.operands if not is_array(v.type)]  # type: ignore[attr-defined]
        sources = [v.operands[0] for v in self.steps if isinstance(v, Instruction) and v.op.name == "gather"]
        found += [v for s in sources for v in s.operands]  # type: ignore[attr-defined]
        assert isinstance(self.asked, Instruction)
        found += [v for v in self._message() if not self._rests_on_largest(v)]
        return [*found, self.asked.operands[1], self.sum.operands[1]]

    def _message(self) -> list[Value]:
        """What the question's exception says."""
        return self.question.operands[1:]

    def _rests_on_largest(self, v: Value) -> bool:
        return v is self.largest or (
            isinstance(v, Instruction) and v in self.between and any(map(self._rests_on_largest, v.operands))
        )

    def _known(self, instructions: Iterable[Instruction]) -> Iterable[Instruction]:
        """The scalars, and views, that are made without an element or the largest index."""
        late: set[Value] = {self.largest}
        for i in instructions:
            is_late = is_array(i.type) or not is_pure(i) or any(v in late or is_array(v.type) for v in i.operands)
            if is_late:
                late.add(i)
            else:
                yield i

    # -- making it ---------------------------------------------------------------------------------------

    def make(self, function: Function, loop: CountedLoop | None) -> Block:
        """All versions; the block in which they come together."""
        dtype = self.sum.type.dtype  # type: ignore[union-attr]
        few, term, ready, many, joined = (Block(name) for name in ("few", "term", "ready", "many", "joined"))
        at = function.blocks.index(self.block) + 1
        function.blocks[at:at] = [few, term, ready, many, joined]
        result = joined.add_arg(self.sum.type, "sum")
        substitute(function.blocks, {self.sum: result})
        self.block.instructions = []
        for i in (*(i for i in self.before if i not in self.arrays), *self.moved):
            self.block.append(i)
        for i in (*self.arrays, self.largest, *(i for i in self.between if i not in self.moved), self.sum):
            many.append(i)
        for i in self.rest:
            joined.append(i)
        b = Builder(function).at_end(many)
        b.branch(joined, [self.sum])
        b.at_end(self.block).loc = self.sum.loc
        count, fine = self._gate(b, FEW[dtype.bits])
        start = literal(0), literal(-0.0, self.sum.type)
        last = b.emit("min", count, literal(FEW[dtype.bits]))  # a bound that others see: no fuel is taken for the terms
        if loop is not None and self._may_be_together():
            how = self._together(function, b, (count, *loop.ends), (few, start), ready)
            b.at_end(self.block).conditional(fine, how, [], many, []).attrs["likely"] = True
        else:
            b.conditional(fine, few, start, many, [])
        k, total = few.add_arg(literal(0).type, "k"), few.add_arg(self.sum.type, "total")
        b.at_end(few).conditional(b.emit("lessThan", k, last), term, [], ready, [total])
        b.at_end(term)
        made: dict[Value, Value] = {}
        self._ask(b, k, made)
        x = self._element(b, self.sum.operands[0], k, made)
        b.branch(few, [b.emit("add", k, literal(1)), b.emit("add", total, x)])
        found = ready.add_arg(self.sum.type, "found")
        b.at_end(ready).branch(joined, [b.emit("add", found, self.sum.operands[1])])
        sink(function, self.block, many)
        return joined

    # -- some terms at once ------------------------------------------------------------------------------

    def _may_be_together(self) -> bool:
        """Whether elements may be read behind the terms, and are made in few steps."""
        gathers = [v for v in self.steps if isinstance(v, Instruction) and v.op.name == "gather"]
        rows = [v.operands[0] for v in self.steps if reads_row(v)]  # type: ignore[attr-defined]
        is_brief = len(self.steps) <= BRIEF and not any(
            is_function(v) for v in self.steps if isinstance(v, Instruction)
        )
        return is_brief and len(gathers) == 1 and all(p in self.places for p in rows)

    def _together(
        self,
        function: Function,
        b: Builder,
        counts: tuple[Value, Value, Value],
        few: tuple[Block, Sequence[Value]],
        ready: Block,
    ) -> Block:
        """So many terms at once where rows have as many or fewer, and nobody knows how many; the block that asks.

        counts: of the terms, and from where to where the loop around them goes.
        """
        how, ask = Block("how"), Block("ask")
        rooms = [Block("room") for _ in TOGETHER]
        count, first, last = counts
        at = function.blocks.index(few[0])
        function.blocks[at:at] = [how, ask]
        b.at_end(how)
        rows = b.emit("subtract", last, first)
        b.conditional(b.emit("greaterThan", rows, literal(REMEMBERED)), ask, [], *few)
        b.at_end(ask).conditional(b.emit("unsteady", count, most=TOGETHER[-1]), rooms[0], [], *few)
        others = [*((room, ()) for room in rooms[1:]), few]
        for width, room, other in zip(TOGETHER, rooms, others, strict=True):
            some, summed = Block("some"), Block("summed")
            at = function.blocks.index(few[0])
            function.blocks[at:at] = [room, some, summed]
            b.at_end(room)
            pays = b.emit("lessThanOrEqual", count, literal(width))
            for begin, size in dict.fromkeys((begin, size) for _, begin, size in self.places.values()):
                behind = b.emit("add", begin, literal(width))
                pays = b.emit("and", pays, b.emit("lessThanOrEqual", behind, size))
            b.conditional(pays, some, [], *other)
            b.at_end(some)
            made = Together(b, self.places, count, width)
            largest = made.reduced(made.index(self.largest.operands[0]), self.largest)
            assert isinstance(self.asked, Instruction)
            # where one is out of range the terms are asked about in order
            b.conditional(b.emit("lessThan", largest, self.asked.operands[1]), summed, [], *few)
            b.at_end(summed)
            made = Together(b, self.places, count, width)
            none = few[1][1]
            b.branch(ready, [made.reduced(made.chosen(self.sum.operands[0], none), self.sum, none)])
        return how

    def _gate(self, b: Builder, most: int) -> tuple[Value, Value]:
        """How many terms there are, and whether they are few, all arrays have as many, and the other checks hold."""
        rows = list(dict.fromkeys(v.operands[0] for v in self.steps if reads_row(v)))  # type: ignore[union-attr]
        slices = {p: found for p in rows if (found := slice_of(p)) is not None}
        asked: list[Value] = []
        self.places: dict[Value, tuple[Value, Value, Value]] = {}
        self.counts: dict[Value, Value] = {}
        lengths: dict[tuple[Value, Value], Value] = {}
        sizes: dict[Value, list[Value]] = {}  # of the arrays in which slices end at the same place
        for p, part in slices.items():
            ends = part.first, part.last
            if ends not in lengths:
                lengths[ends] = b.emit("subtract", part.last, part.first)
                asked += [b.emit("greaterThanOrEqual", part.first, literal(0))] if part.counts_back else []
            here = sizes.setdefault(part.last, [])
            if not any(is_same_number(part.size, other) for other in here):
                here.append(part.size)
            self.places[p] = part.base, part.first, part.size
            self.counts[part.count] = lengths[ends]
        for last, found in sizes.items():
            smallest = found[0]
            for size in found[1:]:
                smallest = b.emit("min", smallest, size)
            asked.append(is_within(b, last, smallest))
        stretched = [v for v in self.steps if isinstance(v, Instruction) and v.op.name == "broadcast"]
        counts = [self._length(extent_at(b, v, 0)) for v in (*rows, *stretched)]
        count, *others = [v for n, v in enumerate(counts) if not any(is_same_number(v, o) for o in counts[:n])]
        asked += [is_within(b, n, literal(most)) for n in lengths.values()]
        asked += [b.emit("lessThanOrEqual", count, literal(most))] if count not in lengths.values() else []
        asked += [b.emit("equal", n, count) for n in others]
        asked += [c.operands[0] for c in self.checks[1:] if not self._follows(c.operands[0])]
        return count, all_of(b, asked)

    def _length(self, v: Value) -> Value:
        """How many elements there are where slices lie in their arrays as they stand."""
        if isinstance(v, Instruction) and v.op.name == "select":
            one, other = map(self._length, v.operands[:2])
            return one if is_same_number(one, other) else v
        return self.counts.get(v, v)

    def _follows(self, condition: Value) -> bool:
        """Whether a condition holds where slices lie in their arrays as they stand."""
        if not isinstance(condition, Instruction) or condition.op.name not in ("equal", "or", "and"):
            return False
        a, b = condition.operands
        if condition.op.name == "equal":
            return is_same_number(self._length(a), self._length(b))
        return (any if condition.op.name == "or" else all)(map(self._follows, (a, b)))

    def _ask(self, b: Builder, k: Value, made: dict[Value, Value]) -> None:
        """The check of one index."""
        made[self.largest] = self._element(b, self.largest.operands[0], k, made)
        assert isinstance(self.asked, Instruction)
        b.loc = self.question.loc
        fine = b.emit("lessThan", made[self.largest], self.asked.operands[1])
        said = [self._again(b, v, made) for v in self._message()]
        b.insert(Instruction(self.question.op, [fine, *said], dict(self.question.attrs), loc=self.question.loc))
        b.loc = self.sum.loc

    def _again(self, b: Builder, v: Value, made: dict[Value, Value]) -> Value:
        """A number that is made of the largest index, made of that of one term."""
        if v in made or not self._rests_on_largest(v):
            return made.get(v, v)
        assert isinstance(v, Instruction)
        made[v] = b.emit(v.op, *(self._again(b, o, made) for o in v.operands), **v.attrs)
        return made[v]

    def _element(self, b: Builder, v: Value, k: Value, made: dict[Value, Value]) -> Value:
        """The element of a tree that has the number k."""
        if not is_array(v.type):
            return v
        if v not in made:
            assert isinstance(v, Instruction)
            if v.op.name == "gather":
                source, index = v.operands
                at = self._element(b, index, k, made)
                made[v] = b.emit("load", b.emit("elementPointer", source.operands[0], at))  # type: ignore[attr-defined]
            elif reads_row(v):
                base, first, _ = self.places.get(v.operands[0], (v.operands[0], None, None))
                at = k if first is None else b.emit("add", first, k)
                made[v] = b.emit("load", b.emit("elementPointer", base, at))
            elif v.op.name == "broadcast":
                made[v] = self._element(b, v.operands[0], k, made)
            else:
                made[v] = b.emit(v.op, *(self._element(b, o, k, made) for o in v.operands), **v.attrs)
        return made[v]
