"""Loops in the place of an instruction: what lowering an op to a nest of loops over memory needs.

%s = op %x: ...                 store %x to memory, branch 'loop(0: i64, carried...)
(what stands behind)    =>      'loop(%k: i64, ...): lessThan %k, n, then 'body() else 'after()
                                'body(): ... branch 'loop(%k + 1, ...)
                                'after(): (what stands behind)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dlvm_py.ir import Block, Builder, Function, Instruction, TensorType, Value, literal
from dlvm_py.ir.analysis import loops as analysis
from dlvm_py.ir.analysis.counted_loops import is_outside
from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.transforms.substitution import substitute


def blocks_behind(b: Builder, *names: str) -> list[Block]:
    """New blocks behind the open one, in order."""
    assert b.block is not None
    found, after = [], b.block
    for name in names:
        after = b.function.new_block(name, after=after)
        found.append(after)
    return found


class Loop:
    """A counted loop that is being built: `index` and `carried` are arguments of its header.

    names: of the header, the body, and what stands behind.
    """

    def __init__(
        self,
        b: Builder,
        count: Value,
        carried: Sequence[Value] = (),
        names: tuple[str, str, str] = ("loop", "body", "after"),
    ) -> None:
        self.b = b
        self.header, body, self.after = blocks_behind(b, *names)
        b.branch(self.header, [literal(0), *carried])
        self.index: Value = self.header.add_arg(literal(0).type, "k")
        self.carried: list[Value] = [self.header.add_arg(v.type) for v in carried]
        b.at_end(self.header)
        b.conditional(b.emit("lessThan", self.index, count), body, [], self.after, [])
        b.at_end(body)

    def close(self, *carried: Value) -> None:
        """End the body, and go on behind the loop, where `carried` are the last values."""
        self.b.branch(self.header, [self.b.emit("add", self.index, literal(1)), *carried])
        self.b.at_end(self.after)


def nest(b: Builder, counts: Sequence[Value], carried: Sequence[Value] = ()) -> list[Loop]:
    """Loops in each other; each hands what it carries to the next."""
    loops: list[Loop] = []
    for n in counts:
        loops.append(Loop(b, n, loops[-1].carried if loops else carried))
    return loops


def close(loops: list[Loop], *carried: Value) -> list[Value]:
    """Close loops from the innermost; what the outermost has carried (without loops: what is given)."""
    values = list(carried)
    for loop in reversed(loops):
        loop.close(*values)
        values = loop.carried
    return values


def made_again(b: Builder, value: Value, loop: analysis.Loop, mapping: dict[Value, Value]) -> Value:
    """A value of a loop, computed once more of what is outside it and what the mapping has, which grows."""
    if value not in mapping and not is_outside(value, loop):
        assert isinstance(value, Instruction)
        for v in value.operands:
            made_again(b, v, loop, mapping)
        b.clone(value, mapping)
    return mapping.get(value, value)


def stored(b: Builder, value: Value) -> tuple[Value, list[Value]]:
    """Fresh memory with the elements of an array, and its extents."""
    assert isinstance(value.type, TensorType)
    extents = extents_of(b, value)
    memory = b.emit("allocateHeap", *extents, dtype=value.type.dtype.name)
    b.emit("store", value, memory)
    return memory, extents


def at(b: Builder, memory: Value, places: Sequence[Value]) -> Value:
    """A pointer to the part of an array at these places of its first axes."""
    return b.emit("elementPointer", memory, *places) if places else memory


def expand(
    function: Function, instructions: Iterable[Instruction], lower: Callable[[Builder, Instruction], Value]
) -> bool:
    """Let `lower` build blocks in the place of each instruction, and a value; whether there were any."""
    found: dict[Value, Value] = {}
    for i in list(instructions):
        block = i.block
        assert block is not None
        place = block.instructions.index(i)
        tail = block.instructions[place + 1 :]
        block.instructions = block.instructions[:place]
        b = Builder(function, block)
        b.loc = i.loc
        i.operands = [found.get(v, v) for v in i.operands]
        value = lower(b, i)
        if isinstance(value, Instruction):
            value.name = value.name or i.name
        found[i] = value
        assert b.block is not None
        for each in tail:
            b.block.append(each)
    substitute(function.blocks, found)
    return bool(found)
