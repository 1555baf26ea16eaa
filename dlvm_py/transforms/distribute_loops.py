"""Distribution of a loop over the parts of its trip: around each part that has no loop, inside of the loops around it.

    'loop(%j: i64): ...                                 'strip(): %t = allocateHeap f64 count (2048)
    'body():                                                'columns: for %j in the strip
        branch 'inner(0, 0.0)                                   store 0.0 to (%t at %j)
    'inner(%i: i64, %s: f64): ...               =>          'inner(%i): ...
        %x = load (%a at %i, %j)                                'columns: for %j in the strip
        %n = add %s, %x                                             %s = load (%t at %j)
        branch 'inner(%i + 1, %n)                                   store (add %s, (load (%a at %i, %j))) to (%t at %j)
    'after():                                               'columns: for %j in the strip
        store %s to (%r at %j)                                  store (load (%t at %j)) to (%r at %j)

A *nest* is a counted loop whose trip is a row of parts in turn: *leaves*, blocks without a loop, which are entered and
left at one place, and nests. What goes from leaf to leaf (a number that a leaf makes and a later one reads, or that an
inner loop carries) lies in memory, an element for each trip of the loop that is distributed; integers, truths and
pointers that follow from counters are made again where they are used. `Unfit` is raised for all other loops.

Legal where the trips of the loop are independent (ir/analysis/independence.py), and none raises: the order of what
happens in one trip stays, and that of different trips does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dlvm_py.frozen import Frozen
from dlvm_py.ir import Block, Builder, Function, Instruction, Kind, Literal, PointerType, Target, Value, literal
from dlvm_py.ir.analysis.counted_loops import CountedLoop, Edges, is_outside
from dlvm_py.ir.analysis.effects import is_pure, unchecked
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.types import is_scalar
from dlvm_py.ir.value import BlockArg, integer
from dlvm_py.transforms.inline import clone_region
from dlvm_py.transforms.loop_nests import Loop as NewLoop
from dlvm_py.transforms.loop_nests import at, blocks_behind

_DEPTH = 12


class Unfit(Exception):
    """The loop is no such nest."""


class Leaf(Frozen):
    """Blocks without a loop, the first one entered by `entry`, the last one left by `end`; blocks may be empty."""

    entry: Target
    blocks: tuple[Block, ...]
    end: Target


class Nest(Frozen):
    """A loop, and the parts of its trip."""

    counted: CountedLoop
    parts: tuple[Leaf | Nest, ...]

    def leaves(self) -> Iterator[tuple[Leaf, tuple[Nest, ...]]]:
        """All leaves, in order, each with the nests around it, this one first."""
        for part in self.parts:
            if isinstance(part, Leaf):
                yield part, (self,)
            else:
                for leaf, around in part.leaves():
                    yield leaf, (self, *around)

    def nests(self) -> Iterator[Nest]:
        """This one and all in it."""
        yield self
        for part in self.parts:
            if isinstance(part, Nest):
                yield from part.nests()


def nest_of(loop: Loop, counted: Mapping[Block, CountedLoop | None], edges: Edges) -> Nest:
    """The nest that a loop is. edges: the predecessors of all blocks."""
    count, header = counted[loop.header], loop.header
    if count is None or loop.exiting_block is not header or not all(is_scalar(a.type) for a in header.args):
        raise Unfit
    if not all(map(is_pure, header.instructions[:-1])):
        raise Unfit
    deeper = {b for child in loop.children for b in child.blocks}
    own = {b for b in loop.blocks if b not in deeper and b is not header}
    parts: list[Leaf | Nest] = []
    edge = next(t for t in header.targets if t.block in loop.blocks)
    for child in (*loop.children, None):
        leaf = _leaf(edge, own, loop.header if child is None else child.header, loop, edges)
        own.difference_update(leaf.blocks)
        parts.append(leaf)
        if child is not None:
            parts.append(nest_of(child, counted, edges))
            edge = next(t for t in child.header.targets if t.block not in child.blocks)
    if own:
        raise Unfit
    return Nest(count, tuple(parts))


def _leaf(entry: Target, own: set[Block], goal: Block, loop: Loop, edges: Edges) -> Leaf:
    """What is between an edge and the only edge to `goal`."""
    if entry.block is goal:
        return Leaf(entry, (), entry)
    found, work, ends = {entry.block}, [entry.block], list[Target]()
    while work:
        for t in work.pop().targets:
            if t.block is goal:
                ends.append(t)
            elif t.block not in own:
                raise Unfit
            elif t.block not in found:
                found.add(t.block)
                work.append(t.block)
    if len(ends) != 1 or len(edges[entry.block]) != 1 or entry.block not in own:
        raise Unfit
    return Leaf(entry, tuple(b for b in loop.ordered if b in found), ends[0])


def exchanged(nest: Nest) -> Nest:
    """A nest of two loops and nothing between, the other way round: right if the trips of both are independent."""
    rows = [part for part in nest.parts if isinstance(part, Nest)]
    beside = [part for part in nest.parts if isinstance(part, Leaf)]
    if (
        len(rows) != 1
        or len(rows[0].parts) != 1
        or len(nest.counted.loop.header.args) > 1
        or not all(map(_does_nothing, beside))
    ):
        raise Unfit
    (inner,) = rows
    if not all(is_outside(v, nest.counted.loop) for v in inner.counted.ends) or len(inner.counted.loop.header.args) > 1:
        raise Unfit
    return Nest(inner.counted, (Nest(nest.counted, inner.parts),))


def _does_nothing(leaf: Leaf) -> bool:
    return all(
        is_pure(i) or i.op.kind in (Kind.CONTROL, Kind.CHECK) for block in leaf.blocks for i in block.instructions
    )


class Distribution:
    """The distribution of the outermost loop of a nest: what is kept in memory, and the copy.

    loop: what the copy is of, all of the nest. totals: arguments of its head that all trips add to, in any order; each
    trip adds to nothing, and what it leaves is in memory.
    """

    def __init__(self, function: Function, nest: Nest, loop: Loop, totals: Iterable[BlockArg] = ()) -> None:
        self.function, self.nest, self.loop = function, nest, loop
        self.totals: dict[Value, Value] = {a: literal(0.0, a.type) for a in totals}
        self.home: dict[Value, Leaf | Nest] = {}
        for each in nest.nests():
            header = each.counted.loop.header
            self.home.update(dict.fromkeys((*header.args, *header.instructions), each))
        for leaf, _ in nest.leaves():
            self.home.update({v: leaf for b in leaf.blocks for v in (*b.args, *b.instructions)})
        self.kept: dict[Value, None] = dict.fromkeys(self.totals)  # what lies in memory
        self._made_again: dict[tuple[Value, tuple[Nest, ...]], bool] = {}
        self.needed = {leaf: self._needs(leaf, around) for leaf, around in nest.leaves()}
        for each, around in self._nests(nest, ()):
            for v in (each.counted.first, each.counted.last):
                if each is not nest and not (self._is_made_again(v, around) and not self._changes(v)):
                    raise Unfit
        self.memory: dict[Value, Value] = {}
        self.counters: dict[Value, Value] = {}  # of the loops that stay, in the copy

    def _nests(self, nest: Nest, around: tuple[Nest, ...]) -> Iterator[tuple[Nest, tuple[Nest, ...]]]:
        yield nest, around
        for part in nest.parts:
            if isinstance(part, Nest):
                yield from self._nests(part, (*around, nest))

    def _needs(self, leaf: Leaf, around: tuple[Nest, ...]) -> tuple[Value, ...]:
        """What a leaf uses that is made elsewhere in the trip; what has to be in memory for it is noted."""
        used = [v for b in leaf.blocks for i in b.instructions for v in i.all_operands()]
        found: dict[Value, None] = {}
        for v in (*leaf.entry.args, *used, *(v for _, v in self._handed(leaf))):
            if is_outside(v, self.loop) or self.home.get(v) is leaf or v in found or v in self.totals:
                continue
            found[v] = None
            if not self._is_made_again(v, around):
                home = self.home.get(v)
                is_carried = isinstance(home, Nest) and isinstance(v, BlockArg) and v is not home.counted.counter
                if not is_scalar(v.type) or not (is_carried or isinstance(home, Leaf)) or home is self.nest:
                    raise Unfit
                self.kept[v] = None
        return tuple(found)

    def _handed(self, leaf: Leaf) -> list[tuple[BlockArg, Value]]:
        """What a leaf hands to a loop that carries it, with the arguments that receive it."""
        header = leaf.end.block
        home = self.home[header.args[0]]
        assert isinstance(home, Nest)
        pairs = zip(header.args, leaf.end.args, strict=True)
        return [
            (a, v) for a, v in pairs if a in self.totals or (home is not self.nest and a is not home.counted.counter)
        ]

    def _is_made_again(self, v: Value, around: tuple[Nest, ...], depth: int = _DEPTH) -> bool:
        """Whether a value follows from the counters of the nests around a leaf, by integer steps and views."""
        if is_outside(v, self.loop):
            return True
        key = v, around
        if key not in self._made_again:
            self._made_again[key] = depth > 0 and self._follows(v, around, depth)
        return self._made_again[key]

    def _follows(self, v: Value, around: tuple[Nest, ...], depth: int) -> bool:
        if isinstance(v, BlockArg):
            return any(v is n.counted.counter for n in around)
        if not isinstance(v, Instruction) or not (is_pure(v) or v.attrs.get("checked")):
            return False
        is_index = isinstance(v.type, PointerType) and v.op.kind is Kind.INDEX
        is_whole = is_scalar(v.type) and v.type.dtype.kind in "biu"  # type: ignore[attr-defined]
        return (is_index or is_whole) and all(self._is_made_again(o, around, depth - 1) for o in v.operands)

    def _changes(self, v: Value) -> bool:
        """Whether what is made again depends on the counter of the loop that is distributed."""
        if v is self.nest.counted.counter:
            return True
        return not is_outside(v, self.loop) and isinstance(v, Instruction) and any(map(self._changes, v.operands))

    @property
    def carries(self) -> bool:
        """Whether numbers go from leaf to leaf."""
        return bool(self.kept)

    # -- the copy ----------------------------------------------------------------------------------------

    def copy(self, b: Builder, begin: Value, count: Value, room: Value | None) -> None:
        """Build the trips in which the counter is `begin` and up, `count` of them, at most `room`."""
        self.begin, self.count = begin, count
        for v in self.kept:
            assert room is not None
            self.memory[v] = b.emit("allocateHeap", room, dtype=v.type.dtype.name)  # type: ignore[attr-defined]
        self._copy_parts(b, self.nest)

    def _copy_parts(self, b: Builder, nest: Nest) -> None:
        for part in nest.parts:
            if isinstance(part, Leaf):
                self._copy_leaf(b, part)
            else:
                self._copy_nest(b, part)

    def _copy_nest(self, b: Builder, nest: Nest) -> None:
        counted = nest.counted
        test = counted.loop.header.instructions[-1]
        made = dict(self.counters)
        first, last = (self._again(b, v, made) for v in (counted.first, counted.last))
        header, body, after = blocks_behind(b, "rows", "row", "behind")
        b.branch(header, [first])
        counter = self.counters[counted.counter] = header.add_arg(counted.counter.type, counted.counter.name)
        b.at_end(header)
        if counted.step == 1:
            end = b.conditional(b.emit("lessThan", counter, last), body, [], after, [])
        else:
            end = b.conditional(b.emit("equal", counter, last), after, [], body, [])
        end.attrs.update(test.attrs)
        b.at_end(body)
        self._copy_parts(b, nest)
        b.branch(header, [b.emit("add", counter, literal(counted.step))])
        b.at_end(after)
        del self.counters[counted.counter]

    def _copy_leaf(self, b: Builder, leaf: Leaf) -> None:
        own = [(self.memory[v], v) for v in self.kept if self.home[v] is leaf]
        kept = own + [(self.memory[a], v) for a, v in self._handed(leaf) if a in self.memory]
        if not kept and _does_nothing(leaf):
            return
        inner = NewLoop(b, self.count, names=("columns", "column", "behind"))
        inner.header.instructions[-1].attrs.update(self.loop.header.instructions[-1].attrs)
        counter = inner.index if integer(self.begin) == 0 else b.emit("add", self.begin, inner.index)
        mapping: dict[Value, Value] = {**self.totals, **self.counters, self.nest.counted.counter: counter}
        for v in self.needed[leaf]:
            if v in self.memory:
                mapping[v] = b.emit("load", at(b, self.memory[v], [inner.index]))
        for v in self.needed[leaf]:
            self._again(b, v, mapping)
        if leaf.blocks:
            self._copy_blocks(b, leaf, mapping)
        for memory, v in kept:
            b.emit("store", mapping.get(v, v), at(b, memory, [inner.index]))
        inner.close()

    def _copy_blocks(self, b: Builder, leaf: Leaf, mapping: dict[Value, Value]) -> None:
        assert b.block is not None
        first = leaf.blocks[0]
        for a, v in zip(first.args, leaf.entry.args, strict=True):
            mapping[a] = mapping.get(v, v)
        blocks = clone_region(leaf.blocks, mapping, "column_", entry=first)
        b.branch(blocks[0])
        (end,) = blocks_behind(b, "column_end")
        place = b.function.blocks.index(end)
        b.function.blocks[place:place] = blocks
        for block in blocks:
            block.instructions = [i for i in block.instructions if i.op.name != "check"]
            for i in block.instructions:
                i.attrs = unchecked(i)
                for t in i.targets:
                    if t.block is leaf.end.block:
                        t.block, t.args = end, []
        b.at_end(end)

    def _again(self, b: Builder, v: Value, mapping: dict[Value, Value]) -> Value:
        """A value that is made again from counters."""
        if is_outside(v, self.loop) or isinstance(v, Literal):
            return v
        if v not in mapping:
            assert isinstance(v, Instruction)
            operands = [self._again(b, o, mapping) for o in v.operands]
            attrs = unchecked(v)
            mapping[v] = b.insert(Instruction(v.op, operands, attrs, type=v.type, name=v.name, loc=v.loc))
        return mapping[v]


def strips(
    b: Builder, distribution: Distribution, low: Value, high: Value, width: int, totals: Sequence[Value] = ()
) -> list[Value]:
    """Build the trips from `low` to `high`, `width` of them at a time. totals: what is added to; what comes of it."""
    more = b.emit("subtract", high, low)
    whole = b.emit("floorDivide", b.emit("add", b.emit("max", more, literal(0)), literal(width - 1)), literal(width))
    strip = NewLoop(b, whole, totals, names=("strips", "strip", "done"))
    begin: Value = b.emit("multiply", strip.index, literal(width))
    left = b.emit("subtract", more, begin)
    if integer(low) != 0:
        begin = b.emit("add", low, begin)
    count = b.emit("min", left, literal(width))
    distribution.copy(b, begin, count, literal(width))
    added = strip.carried
    if added:
        sums = NewLoop(b, count, added, names=("sums", "sum", "behind"))
        parts = [b.emit("load", at(b, distribution.memory[a], [sums.index])) for a in distribution.totals]
        sums.close(*(b.emit("add", x, y) for x, y in zip(sums.carried, parts, strict=True)))
        added = sums.carried
    strip.close(*added)
    return strip.carried
